"""What adaptive tournaments decide, and after how many games: `python -m benchmarks.peeking`.

Made-up leagues are played by the loop of `league tournament --format adaptive`, which looks at its intervals after each
batch. One JSON line a league, with shares of `runs`: `true` and `false`, of `top`, name the best agent, or one that is
not the only best; in `missed` a wanted difference (of `top`: of neighbours) is outside its interval at the end. `games`
is a mean. With `--interval fixed` intervals are those of a number of games fixed beforehand, for a single look.
"""

from __future__ import annotations

import argparse
import json
from typing import Any, cast

import numpy as np

from league.arena import tournaments
from league.arena.tournaments import Objective
from league.maths import scheduling
from league.maths.davidson import ELO_SCALE, Ints
from league.maths.means import Z95
from league.maths.pairs import PairCounts
from league.maths.ratings import Ratings, bradley_terry
from league.maths.scheduling import contrasts, round_robin

LEAGUES: dict[str, tuple[list[float], float]] = {
    "two equal": ([0.0, 0.0], 0.0),
    "two equal, half drawn": ([0.0, 0.0], 2.0),
    "two equal, four 200 below": ([0.0, 0.0, *[-200.0] * 4], 0.0),
    "six equal": ([0.0] * 6, 0.0),
    "35 apart": ([0.0, -35.0], 0.0),
    "70 apart": ([0.0, -70.0], 0.0),
    "150 apart": ([0.0, -150.0], 0.0),
    "six 70 apart": ([-70.0 * k for k in range(6)], 0.0),
}
"""Name -> true strengths in Elo points, and the weight of draws."""


class Played:
    """What `tournament_games.Played` is to the loop, of games drawn from known strengths."""

    def __init__(self, points: list[float], draws: float, seed: int) -> None:
        self.ids = [f"agent-{k:02d}" for k in range(len(points))]
        self._truth, self._draws, self._rng = np.array(points) / ELO_SCALE, draws, np.random.default_rng(seed)
        self._pairs = np.array(round_robin(len(points)))
        self._results = np.zeros((2, len(self._pairs), 3), np.int64)

    @property
    def games(self) -> int:
        """Games so far."""
        return int(self._results.sum())

    def play(self, pairs: Ints, given: Ints) -> None:
        """Two games, one in either seating, of each pair as often as `given` says."""
        gap = self._truth[pairs[:, 0]] - self._truth[pairs[:, 1]]
        for seating, x in enumerate((gap, -gap)):
            odds = np.stack([np.exp(x / 2.0), np.full(len(x), self._draws), np.exp(-x / 2.0)], axis=1)
            self._results[seating] += self._rng.multinomial(given, odds / odds.sum(axis=1, keepdims=True))

    def ratings(self) -> Ratings:
        """Of all agents."""
        first, second = (tuple(self.ids[i] for i in column) for column in self._pairs.T.tolist())
        columns = self._results.reshape(-1, 3).T
        return bradley_terry(PairCounts(first + second, second + first, *columns), agents=self.ids)


def simulate(league: str, seed: int, objective: Objective) -> tuple[bool, bool, bool, int]:
    """Of one tournament `true`, `false` and `missed` as above, and its games."""
    points, draws = LEAGUES[league]
    played = Played(points, draws, seed)
    tournaments._play_for(cast(Any, played), np.array(round_robin(len(points))), objective, None)
    ratings = played.ratings()
    is_named = objective.want == "top" and not contrasts("top", ratings, played.ids)
    best = points[int(np.argmax(ratings.model.strength))]
    is_true = sum(x >= best for x in points) == 1
    truth = np.append(np.array(points) / ELO_SCALE, [0.0, 0.0])
    wanted = contrasts("order" if objective.want == "top" else objective.want, ratings, played.ids)
    weights = np.array([contrast.weights for contrast in wanted])
    errors = np.abs(weights @ truth - weights[:, :-2] @ ratings.model.strength) * ELO_SCALE
    is_missed = bool((errors > scheduling.widths(ratings.model.covariance, weights) / 2.0).any())
    return is_named and is_true, is_named and not is_true, is_missed, played.games


def summary(league: str, objective: Objective, runs: int) -> dict[str, Any]:
    """The JSON line of one league."""
    means = np.mean([simulate(league, seed, objective) for seed in range(runs)], axis=0).tolist()
    found = dict(zip(("true", "false", "missed"), (round(mean, 3) for mean in means), strict=False))
    asked = {"want": objective.want, "max_games": objective.max_games, "until": objective.until}
    return {"league": league, **asked, "runs": runs, **found, "games": round(means[-1])}


def main() -> None:
    """Simulates the leagues asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--max-games", type=int, default=tournaments.MAX_GAMES)
    parser.add_argument("--want", choices=["top", "order", "all"], default="top")
    parser.add_argument("--until", type=float, help="width of an interval in Elo points")
    parser.add_argument("--interval", choices=["anytime", "fixed"], default="anytime")
    parser.add_argument("--league", action="append", choices=LEAGUES)
    arguments = parser.parse_args()
    if arguments.interval == "fixed":
        scheduling.anytime = lambda deviation: Z95 * deviation
    objective = Objective(arguments.want, None, arguments.until, arguments.max_games)
    for league in arguments.league or LEAGUES:
        print(json.dumps({"interval": arguments.interval, **summary(league, objective, arguments.runs)}), flush=True)


if __name__ == "__main__":
    main()
