"""How often the ratings' 95 % intervals hold the truth on made-up leagues, and how well they predict unseen games.

`python -m benchmarks.coverage --leagues 200` prints JSON lines: for each league the share of all differences inside
their intervals, and for a ladder of 319 agents the log loss on games held out; under the prior in use, under
BayesElo's (draws with an agent's own opponents, in proportion to games) and under draws with an average agent.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from league.maths.davidson import ELO_SCALE, Bonds, Games, Posterior, Prior, fit
from league.maths.joint import Matrix
from league.maths.means import Z95
from league.maths.pairs import PairCounts

League = Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]
"""The true Elo points (N,) of a made-up league's agents, and the pairs (P, 2) that meet."""


def evenly_spaced(num_agents: int, gap: float, reach: int) -> League:
    """A ladder: every agent `gap` points above the one before it, meeting the `reach` nearest on either side."""
    first, second = np.triu_indices(num_agents, 1)
    near = second - first <= reach
    pairs = np.stack([first[near], second[near]], axis=1)
    return lambda rng: (gap * np.arange(num_agents), pairs)


def normal(num_agents: int, met: float = 1.0, spread: float = 200.0) -> League:
    """Strengths from a normal distribution; each meets its neighbour in the list, other pairs by chance `met`."""

    def make(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        chosen = np.triu(rng.random((num_agents, num_agents)) < met, 1) | np.eye(num_agents, k=1, dtype=bool)
        return rng.normal(0.0, spread, num_agents), np.argwhere(chosen)

    return make


def play_out(
    rng: np.random.Generator, truth: np.ndarray, pairs: np.ndarray, games: int, draws: float = 0.0, seat: float = 0.0
) -> PairCounts:
    """`games` games in either seating of each of the pairs (P, 2), by the model. draws: v. seat: Elo points."""
    i, j = np.concatenate([pairs, pairs[:, ::-1]]).T
    x = (truth[i] - truth[j] + seat) / ELO_SCALE
    shares = np.exp(np.stack([x / 2, np.full(len(x), math.log(draws) if draws else -1e3), -x / 2], axis=1))
    outcome = rng.multinomial(games, shares / shares.sum(axis=1, keepdims=True))
    names = [f"agent{k:03d}" for k in range(len(truth))]
    return PairCounts(tuple(names[k] for k in i), tuple(names[k] for k in j), *outcome.T)


def share_inside(rating: np.ndarray, covariance: np.ndarray, truth: np.ndarray) -> float:
    """The share of all differences of N agents whose 95 % interval holds the true one; all in Elo points."""
    variance = np.diag(covariance)
    deviation = np.sqrt(np.maximum(variance[:, None] + variance - 2.0 * covariance, 0.0))
    missed = np.abs(np.subtract.outer(rating, rating) - np.subtract.outer(truth, truth))
    upper = np.triu_indices(len(truth), 1)
    return float(np.mean(missed[upper] <= Z95 * deviation[upper]))


LADDERS: dict[str, tuple[League, int]] = {
    "50 points apart, 3 nearest on either side, 20 games a pair": (evenly_spaced(50, 50.0, 3), 10),
    "100 points apart, neighbours only, 100 games a pair": (evenly_spaced(50, 100.0, 1), 50),
    "round robin of 50, 50 points apart, 20 games a pair": (evenly_spaced(50, 50.0, 50), 10),
    "round robin of 50, 50 points apart, 4 games a pair": (evenly_spaced(50, 50.0, 50), 2),
    "round robin of 50, deviation 200, 2 games a pair": (normal(50), 1),
    "8 agents, deviation 200, 20 games a pair": (normal(8), 10),
}


def by_leverage(games: Games) -> Posterior:
    """The prior in use."""
    return fit(games, Prior())


def by_games(games: Games) -> Posterior:
    """As in BayesElo: every agent drew two games, with its opponents in proportion to the games with each."""
    first, second, played = games.meetings
    n = games.num_agents
    total = np.bincount(first, played, n) + np.bincount(second, played, n)
    return fit(games, Prior(), Bonds(first, second, played / total[first] + played / total[second]))


def with_the_average(games: Games) -> Posterior:
    """Every agent drew two games with an average one, an agent of its own."""
    n = games.num_agents
    everyone = np.arange(n)
    model = fit(replace(games, num_agents=n + 1), Prior(), Bonds(everyone, np.full(n, n), np.full(n, 2.0)))
    kept = [*range(n), n + 1, n + 2]
    return replace(model, strength=model.strength[:n], joint=Matrix(model.covariance[np.ix_(kept, kept)]))


PRIORS: dict[str, Callable[[Games], Posterior]] = {
    "leverage": by_leverage,
    "own_opponents": by_games,
    "average_agent": with_the_average,
}


def games_of(counts: PairCounts) -> Games:
    """The games with agents by index, in the order of their names."""
    index = {name: i for i, name in enumerate(sorted({*counts.seat0}))}
    first, second = (np.array([index[name] for name in seat]) for seat in (counts.seat0, counts.seat1))
    wins, draws, losses = (column.astype(np.float64) for column in (counts.wins, counts.draws, counts.losses))
    links = np.zeros((0, 2), np.int64)
    return Games(len(index), first, second, wins, draws, losses, links, np.ones(len(first)))


class HeldOut(NamedTuple):
    """Log loss on held-out games: of the ratings, of the truth. games: known games an agent."""

    games: float
    by_ratings: float
    by_truth: float


def held_out(share: float, rate: Callable[[Games], Posterior] = by_leverage, seed: int = 9) -> HeldOut:
    """A ladder of 319 agents over 8,000 points, each meeting the 21 nearest each way; `share` of the games is known."""
    rng = np.random.default_rng(seed)
    truth, pairs = evenly_spaced(319, 8000 / 318, 21)(rng)
    games = games_of(play_out(rng, truth, pairs, 9))
    total, wins = games.total.astype(np.int64), games.wins.astype(np.int64)
    known = rng.binomial(total, share)
    won = rng.hypergeometric(wins, total - wins, known)
    model = rate(replace(games, wins=won.astype(np.float64), losses=(known - won).astype(np.float64)))

    def log_loss(difference: np.ndarray) -> float:
        left = (wins - won) * np.logaddexp(0.0, -difference)
        return float(
            (left + (total - wins - known + won) * np.logaddexp(0.0, difference)).sum() / (total - known).sum()
        )

    i, j = games.first, games.second
    return HeldOut(
        games=float(2 * known.sum() / 319),
        by_ratings=log_loss(model.strength[i] - model.strength[j]),
        by_truth=log_loss((truth[i] - truth[j]) / ELO_SCALE),
    )


def main() -> None:
    """Simulates every league under every prior."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--leagues", type=int, default=200)
    leagues = parser.parse_args().leagues
    for name, (league, games) in LADDERS.items():
        rng = np.random.default_rng(7)
        inside: dict[str, list[float]] = {prior: [] for prior in PRIORS}
        for _ in range(leagues):
            truth, pairs = league(rng)
            played = games_of(play_out(rng, truth, pairs, games))
            for prior, rate in PRIORS.items():
                model = rate(played)
                covariance = model.covariance[:-2, :-2] * ELO_SCALE**2
                inside[prior].append(share_inside(model.strength * ELO_SCALE, covariance, truth))
        print(json.dumps({"league": name} | {prior: round(float(np.mean(x)), 3) for prior, x in inside.items()}))
    for share in (0.97, 0.5, 0.2, 0.06):
        found = {prior: held_out(share, rate) for prior, rate in PRIORS.items()}
        first = next(iter(found.values()))
        losses = {prior: round(x.by_ratings, 4) for prior, x in found.items()}
        print(json.dumps({"known_games_an_agent": round(first.games), "truth": round(first.by_truth, 4)} | losses))


if __name__ == "__main__":
    main()
