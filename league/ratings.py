"""Who is how strong: Elo as a moving display, Bradley-Terry with its uncertainty for agents that do not change.

Both use Elo's scale: a difference of `d` points means an expected score of 1 / (1 + 10 ** (-d / 400)).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from league.errors import UsageError, nearest

ELO_START = 1000.0
ELO_K = 32.0
ELO_SCALE = 400.0 / math.log(10.0)
"""Elo points in one unit of log-odds."""
PRIOR_DRAWS = 2.0
"""The games that every agent is imagined to have drawn with an average one. With 1 a clean sheet's lower bound lies
below that of the same agent with one loss (its curvature falls faster than its mode rises); from 1.5 on it does not."""
Z95 = 1.959963984540054
"""Half-width of a central 95 % interval of the normal distribution, in standard deviations."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PairCounts:
    """Finished games of P ordered pairs of agents.

    seat0, seat1: P agent ids each; a pair may appear more than once and in both orders.
    wins, draws, losses: (P,) int64, as seen from seat 0.
    """

    seat0: tuple[str, ...]
    seat1: tuple[str, ...]
    wins: Ints
    draws: Ints
    losses: Ints

    @property
    def games(self) -> Ints:
        """(P,) int64: all games of each pair."""
        return self.wins + self.draws + self.losses


class Difference(NamedTuple):
    """A difference of two ratings in Elo points, with its 95 % interval."""

    mean: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Ratings:
    """The ratings of N agents, known together.

    agents: N ids, sorted. rating, lower, upper: (N,) Elo points; the interval is the 95 % one of the difference to
    the anchor, or to the mean of all agents where there is no anchor. covariance: (N, N) Elo points squared, joint.
    wins, draws, losses: (N,) int64, the games counted. anchor: the agent held at `anchor_rating`; None: the mean is.
    """

    agents: tuple[str, ...]
    rating: Floats
    lower: Floats
    upper: Floats
    covariance: Floats
    wins: Ints
    draws: Ints
    losses: Ints
    anchor: str | None
    anchor_rating: float

    def index(self, agent: str) -> int:
        """The agent's place in the arrays.

        Raises:
            UsageError: the agent has no rated game.
        """
        try:
            return self.agents.index(agent)
        except ValueError:
            raise UsageError(f"agent `{agent}` has no rated game{nearest(agent, self.agents)}") from None

    def difference(self, a: str, b: str) -> Difference:
        """How many Elo points `a` is above `b`, from the joint covariance.

        Raises:
            UsageError: one of them has no rated game.
        """
        i, j = self.index(a), self.index(b)
        mean = float(self.rating[i] - self.rating[j])
        half = Z95 * self._deviation(i, j)
        return Difference(mean, mean - half, mean + half)

    def superiority(self, a: str, b: str) -> float:
        """The probability that `a` is stronger than `b` (the likelihood of superiority); 0.5 for an agent and itself.

        Raises:
            UsageError: one of them has no rated game.
        """
        i, j = self.index(a), self.index(b)
        deviation = self._deviation(i, j)
        if deviation == 0.0:
            return 0.5
        return 0.5 * math.erfc(float(self.rating[j] - self.rating[i]) / (deviation * math.sqrt(2.0)))

    def _deviation(self, i: int, j: int) -> float:
        variance = self.covariance[i, i] + self.covariance[j, j] - 2.0 * self.covariance[i, j]
        return math.sqrt(max(0.0, float(variance)))


def expected_score(a: float, b: float) -> float:
    """The score in [0, 1] that one rated `a` expects against one rated `b` (Elo 1978, "The Rating of Chessplayers")."""
    return 1.0 / (1.0 + math.exp((b - a) / ELO_SCALE)) if a >= b else 1.0 - expected_score(b, a)


def elo_update(a: float, b: float, score: float, k: float = ELO_K) -> tuple[float, float]:
    """Both ratings after one game in which `a` scored 1, 0.5 or 0. Their sum stays the same; nothing is rounded."""
    change = k * (score - expected_score(a, b))
    return a + change, b - change


def elo_series(
    games: Iterable[tuple[str, str, float]], start: float = ELO_START, k: float = ELO_K
) -> tuple[dict[str, float], Floats]:
    """Plays G games `(a, b, score of a)` in the order given, one update each.

    Returns:
        The last rating of every agent, and (G, 2) float64: the ratings of a and b after each game.
    """
    ratings: dict[str, float] = {}
    history: list[tuple[float, float]] = []
    for a, b, score in games:
        after = elo_update(ratings.get(a, start), ratings.get(b, start), score, k)
        ratings[a], ratings[b] = after
        history.append(after)
    return ratings, np.array(history, dtype=np.float64).reshape(-1, 2)


def bradley_terry(
    counts: PairCounts, anchor: str | None = None, anchor_rating: float = ELO_START, *, prior_draws: float = PRIOR_DRAWS
) -> Ratings:
    """Rates every agent in `counts` at once (Bradley and Terry 1952, Biometrika 39): P(i beats j) = sigmoid(t_i - t_j).

    A draw counts as half a win for each; games of an agent against itself say nothing and are left out. The order of
    games does not matter, nor does the seat.

    The prior is `prior_draws` games that every agent is imagined to have drawn with one average agent (with 2, the
    virtual win and loss of KataGo's `core/elo.cpp`). It keeps an agent that won or lost everything finite, and ties
    groups that never met together, loosely: such an agent's interval is wide. Beside a hundred games it is little.
    The estimate is the posterior's mode, found by Newton's method; the covariance is the inverse of minus the Hessian
    there, so that an interval of a difference uses what two agents have in common.

    Args:
        counts: the games.
        anchor: the agent held at `anchor_rating`. Where it is None or has no game, the mean of all agents is.
        anchor_rating: in Elo points.
        prior_draws: above 0.

    Raises:
        ValueError: `prior_draws` is not above 0.
    """
    if not prior_draws > 0.0:
        raise ValueError(f"prior_draws={prior_draws} must be above 0: else an unbeaten agent has no finite rating")
    agents, wins, draws = _tables(counts)
    scores = wins + 0.5 * draws
    strength, hessian = _newton(scores, prior_draws)
    covariance = np.asarray(np.linalg.inv(hessian) * ELO_SCALE**2, dtype=np.float64)
    held = anchor if anchor in agents else None
    rating, deviation = _anchored(
        strength * ELO_SCALE, covariance, None if held is None else agents.index(held), anchor_rating
    )
    return Ratings(
        agents=agents,
        rating=rating,
        lower=rating - Z95 * deviation,
        upper=rating + Z95 * deviation,
        covariance=covariance,
        wins=wins.sum(axis=1).astype(np.int64),
        draws=draws.sum(axis=1).astype(np.int64),
        losses=wins.sum(axis=0).astype(np.int64),
        anchor=held,
        anchor_rating=anchor_rating,
    )


def _tables(counts: PairCounts) -> tuple[tuple[str, ...], Floats, Floats]:
    """The agents that met another, and (N, N) wins of row over column and draws of row with column."""
    keep = [p for p, (a, b) in enumerate(zip(counts.seat0, counts.seat1, strict=True)) if a != b]
    agents = tuple(sorted({counts.seat0[p] for p in keep} | {counts.seat1[p] for p in keep}))
    place = {agent: i for i, agent in enumerate(agents)}
    first = np.array([place[counts.seat0[p]] for p in keep], dtype=np.intp)
    second = np.array([place[counts.seat1[p]] for p in keep], dtype=np.intp)
    wins = np.zeros((len(agents), len(agents)))
    draws = np.zeros_like(wins)
    np.add.at(wins, (first, second), counts.wins[keep])
    np.add.at(wins, (second, first), counts.losses[keep])
    np.add.at(draws, (first, second), counts.draws[keep])
    return agents, wins, draws + draws.T


def _newton(scores: Floats, prior_draws: float) -> tuple[Floats, Floats]:
    """The mode (N,) of the log-posterior, in log-odds, and minus its Hessian (N, N) there.

    The function is strictly concave, so Newton steps, each halved until it gains (Armijo's rule), always arrive.
    """
    games = scores + scores.T
    strength = np.zeros(len(scores))
    value = _log_posterior(strength, scores, prior_draws)
    while True:
        p = _sigmoid(strength[:, None] - strength[None, :])
        average = _sigmoid(strength)
        gradient = (scores - games * p).sum(axis=1) + prior_draws * (0.5 - average)
        weight = games * p * (1.0 - p)
        hessian = np.diag(weight.sum(axis=1) + prior_draws * average * (1.0 - average)) - weight
        step = np.linalg.solve(hessian, gradient)
        gain = float(gradient @ step)
        if gain <= 1e-12 * max(1.0, abs(value)):
            return strength + step, hessian
        size = 1.0
        while (after := _log_posterior(strength + size * step, scores, prior_draws)) < value + 1e-4 * size * gain:
            size /= 2.0
        strength, value = strength + size * step, after


def _log_posterior(strength: Floats, scores: Floats, prior_draws: float) -> float:
    difference = strength[:, None] - strength[None, :]
    games = -np.sum(scores * np.logaddexp(0.0, -difference))
    prior = -0.5 * prior_draws * np.sum(np.logaddexp(0.0, strength) + np.logaddexp(0.0, -strength))
    return float(games + prior)


def _sigmoid(x: Floats) -> Floats:
    result: Floats = 0.5 * (1.0 + np.tanh(0.5 * x))
    return result


def _anchored(rating: Floats, covariance: Floats, held: int | None, anchor_rating: float) -> tuple[Floats, Floats]:
    """Ratings (N,) moved so that agent `held`, or the mean, has `anchor_rating`; deviations (N,) of the differences."""
    own = np.diag(covariance)
    if held is not None:
        moved = rating - rating[held]
        variance = own + covariance[held, held] - 2.0 * covariance[held]
    elif len(rating):
        moved = rating - rating.mean()
        variance = own + covariance.mean() - 2.0 * covariance.mean(axis=1)
    else:
        moved, variance = rating, own
    return moved + anchor_rating, np.sqrt(np.maximum(variance, 0.0))
