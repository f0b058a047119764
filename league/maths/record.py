"""Wins, draws and losses, and what they say of a score."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from league.maths.means import Z95, Mean, mean_payoff


class Scored(NamedTuple):
    """A score in [0, 1] with its interval."""

    score: float
    lower: float
    upper: float


class Paid(NamedTuple):
    """A mean payoff with its interval."""

    payoff: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Record:
    """One side's games against another: counts, and the score a game (win 1, draw 1/2) with its 95 % interval.

    The interval is Wilson's of `games / effect` games. Without games, score and interval are NaN. effect: the design
    effect of games in pairs, see `design_effect`. payoff: the mean payoff a game; None where the game pays nothing
    beside the win.
    """

    games: int = field(init=False)
    wins: int
    draws: int
    losses: int
    score: float = field(init=False)
    lower: float = field(init=False)
    upper: float = field(init=False)
    effect: float = field(default=1.0, kw_only=True)
    payoff: Mean | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        games = self.wins + self.draws + self.losses
        score = (self.wins + self.draws / 2) / games if games else math.nan
        lower, upper = wilson(score, games / self.effect) if games else (math.nan, math.nan)
        for name, value in (("games", games), ("score", score), ("lower", lower), ("upper", upper)):
            object.__setattr__(self, name, value)

    @property
    def measured(self) -> Paid | Scored:
        """What the side is judged by, with its interval: the mean payoff where the game has one, else the score."""
        p = self.payoff
        return Scored(self.score, self.lower, self.upper) if p is None else Paid(p.mean, p.lower, p.upper)

    @classmethod
    def of(
        cls,
        clusters: Sequence[Hashable],
        outcomes: Sequence[int],
        payoffs: Sequence[float | None] = (),
        bound: float | None = None,
        **more: object,
    ) -> Self:
        """The record of G games.

        Args:
            clusters: (G,), the cluster of each game: the two games of a seed, seats swapped, are one.
            outcomes: (G,), 0 won, 1 drawn, 2 lost.
            payoffs: (G,), what each paid; one that is None, or none at all: the game has no utility.
            bound: of a payoff's size; None: not known.
            more: fields of a subclass.
        """
        paid = [payoff for payoff in payoffs if payoff is not None]
        return cls(
            *(outcomes.count(outcome) for outcome in range(3)),
            effect=design_effect(clusters, [1.0 - outcome / 2.0 for outcome in outcomes]),
            payoff=mean_payoff(clusters, paid, bound) if paid and len(paid) == len(outcomes) else None,
            **more,  # type: ignore[arg-type]  # a subclass's
        )


def design_effect(clusters: Sequence[Hashable], scores: Sequence[float]) -> float:
    """The variance of the mean of G scores over what it would be if all games were independent (Kish 1965).

    With pairs of games it is 1 + r, r being the correlation of a pair's two scores. One imagined cluster stands beside
    the C seen ones, in which the games are copies of each other; where all scores are alike nothing is known of the
    correlation, and each cluster counts as one game.

    clusters: (G,), what each game's cluster is called.
    """
    if not scores:
        return 1.0
    _, cluster = np.unique([str(name) for name in clusters], return_inverse=True)
    size = np.bincount(cluster)
    copies, count, games = len(scores) / len(size), len(size), len(scores)
    apart = np.asarray(scores) - np.mean(scores)
    each = float(apart @ apart)
    if count == 1 or each < 1e-12:
        return copies
    together = float((np.bincount(cluster, apart) ** 2).sum())
    seen = (together * count / (count - 1)) / (each * games / (games - 1))
    return min(copies, (count * seen + copies) / (count + 1))


def wilson(score: float, games: float, z: float = Z95) -> tuple[float, float]:
    """Wilson's 95 % interval of a share (Wilson 1927, JASA 22:209); draws as halves make it slightly too wide.

    scipy.stats.binomtest(...).proportion_ci(method="wilson") gives the same for whole numbers, and takes no others: a
    drawn game is half a success, and `league.pool.roles` adds fractions of imagined games.
    """
    centre = (score + z * z / (2 * games)) / (1 + z * z / games)
    half = z / (1 + z * z / games) * math.sqrt(score * (1 - score) / games + z * z / (4 * games * games))
    return max(0.0, centre - half), min(1.0, centre + half)
