"""Games that schedules take until what is wanted is known, in made-up leagues: `python -m benchmarks.schedule`.

Prints one JSON line for each objective: the games of the adaptive schedule and of a round robin, seed by seed.
"""

from __future__ import annotations

import argparse
import json

import numpy as np

from league.maths.davidson import ELO_SCALE
from league.maths.pairs import PairCounts
from league.maths.ratings import bradley_terry
from league.maths.scheduling import Want, contrasts, narrowest, round_robin, spread, widths


def simulate(schedule: str, want: Want, seed: int, until: float) -> int:
    """Games until no wanted interval of a made-up league is wider than `until` Elo points.

    12 agents, strengths drawn with a deviation of 250 points, no draws, batches of 16 pairs of games.
    """
    rng = np.random.default_rng(seed)
    names = [f"agent-{i:02d}" for i in range(12)]
    truth = rng.normal(0.0, 250.0, 12) / ELO_SCALE
    pairs = np.array(round_robin(12))
    won = np.zeros((len(pairs), 2), np.int64)  # by the first of the pair, in either seating
    played = np.zeros(len(pairs), np.int64)
    while True:
        counts = PairCounts(
            tuple(names[i] for i in pairs.T.ravel()),
            tuple(names[i] for i in pairs.T[::-1].ravel()),
            np.concatenate([won[:, 0], played - won[:, 1]]),
            np.zeros(2 * len(pairs), np.int64),
            np.concatenate([played - won[:, 0], won[:, 1]]),
        )
        ratings = bradley_terry(counts, agents=names)
        wanted = contrasts(want, ratings, names)
        weights = np.array([contrast.weights for contrast in wanted])
        if not wanted:
            return int(2 * played.sum())
        if all(contrast.is_linked for contrast in wanted) and widths(ratings.model.covariance, weights).max() <= until:
            return int(2 * played.sum())
        if schedule == "adaptive":
            given = narrowest(ratings.model, pairs, weights, 16)
        else:
            given = spread(np.full(len(pairs), 10_000) - played, 16)
        chance = 1.0 / (1.0 + np.exp(truth[pairs[:, 1]] - truth[pairs[:, 0]]))
        won += rng.binomial(given[:, None], chance[:, None], won.shape)
        played += given


def main() -> None:
    """Simulates every objective."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--until", type=float, default=200.0, help="width of an interval in Elo points")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    wants: tuple[Want, ...] = ("all", "order", "top")
    for want in wants:
        games = {
            schedule: [simulate(schedule, want, seed, arguments.until) for seed in range(arguments.seeds)]
            for schedule in ("adaptive", "round-robin")
        }
        ratio = sum(games["round-robin"]) / sum(games["adaptive"])
        print(json.dumps({"want": want, "until": arguments.until, **games, "ratio": round(ratio, 2)}))


if __name__ == "__main__":
    main()
