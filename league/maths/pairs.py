"""What pairs of games say together: the two games of a seed, seats swapped, are one piece of evidence.

Of each two agents only sums are kept, which add up over stores and tournaments.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

SUMS = (
    *("games", "clusters", "sizes", "lead"),
    *("payoff", "square", "crossed", "ahead", "ahead_square"),
    *("pairs", "first", "second", "first_square", "second_square", "product"),
)
"""Of two agents a and b, over their clusters (the games of one seed): games; clusters; games squared; a's games in seat
0 less those in seat 1; a's payoff in a cluster, its square, its product with the games; half of a's payoff in seat 0
above that in seat 1, and its square, over pairs alone; pairs (one game in either seating), and over these a's score in
seat 0, in seat 1, their squares and their product."""
BELIEVED = 4.0
"""Pairs of independent games that stand beside those seen where a design effect is estimated."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class PlayedGame(NamedTuple):
    """One game: who sat where, its cluster, the score of seat 0 (1, 1/2, 0), and its payoff or None."""

    seat0: str
    seat1: str
    cluster: Hashable
    score: float
    payoff: float | None


@dataclass(frozen=True)
class PairSums:
    """The sums of P pairs of agents; a pair may come more than once.

    a, b: P agents each, a the lesser. sums: (P, 15) as `SUMS`. is_paid: whether all these games have a payoff.
    """

    a: tuple[str, ...]
    b: tuple[str, ...]
    sums: Floats
    is_paid: bool

    @classmethod
    def of(cls, games: Iterable[PlayedGame]) -> PairSums:
        """The sums of some games; those of an agent against itself say nothing and are left out."""
        clusters: dict[tuple[str, str], dict[Hashable, list[tuple[bool, float, float]]]] = {}
        is_paid = True
        for seat0, seat1, cluster, score, payoff in games:
            if seat0 == seat1:
                continue
            is_paid &= payoff is not None
            is_first, paid = seat0 < seat1, payoff or 0.0
            seen = (True, score, paid) if is_first else (False, 1.0 - score, -paid)
            clusters.setdefault((min(seat0, seat1), max(seat0, seat1)), {}).setdefault(cluster, []).append(seen)
        rows = [np.sum([_sums(found) for found in each.values()], axis=0) for each in clusters.values()]
        first, second = (tuple(pair[i] for pair in clusters) for i in range(2))
        return cls(first, second, np.array(rows, np.float64).reshape(-1, len(SUMS)), is_paid)

    def __add__(self, other: PairSums) -> PairSums:
        """Those of both, which have no game in common."""
        is_paid = self.is_paid and other.is_paid
        return PairSums(self.a + other.a, self.b + other.b, np.concatenate([self.sums, other.sums]), is_paid)

    def column(self, name: str) -> Floats:
        """(P,): one of the sums."""
        return np.asarray(self.sums[:, SUMS.index(name)], np.float64)

    def merged(self, agents: Sequence[str]) -> tuple[Ints, Ints, PairSums]:
        """Indices (Q,) in `agents` of each pair that met, once, and their sums; pairs of other agents are left out."""
        index = {agent: i for i, agent in enumerate(agents)}
        known = [p for p, pair in enumerate(zip(self.a, self.b, strict=True)) if index.keys() >= set(pair)]
        ends = np.array([(index[self.a[p]], index[self.b[p]]) for p in known], np.int64).reshape(-1, 2)
        pairs, where = np.unique(ends[:, 0] * len(agents) + ends[:, 1], return_inverse=True)
        sums = np.zeros((len(pairs), len(SUMS)))
        np.add.at(sums, where, self.sums[known])
        first, second = pairs // max(1, len(agents)), pairs % max(1, len(agents))
        a, b = (tuple(agents[i] for i in side) for side in (first, second))
        return first, second, PairSums(a, b, sums, self.is_paid)

    @property
    def effect(self) -> float:
        """The design effect of all games: the variance of their mean score over that of as many independent ones.

        1 + r times the share of games in pairs, r being the correlation of the two scores of a pair, of which the
        means of either seating are taken out (Kish 1965, "Survey Sampling", section 5.4).
        """
        pairs = self.merged(sorted({*self.a, *self.b}))[2]
        n = pairs.column("pairs")
        met = n > 0
        first, second, one, two, both = (
            pairs.column(name)[met] for name in ("first", "second", "first_square", "second_square", "product")
        )
        n = n[met]
        each = float((one - first**2 / n + two - second**2 / n).sum())
        shared = float((both - first * second / n).sum())
        if each < 1e-9:
            return 1.0
        freedom = float((n - 1.0).sum())
        correlation = 2.0 * shared / each * freedom / (freedom + BELIEVED)
        return float(max(1.0 + 2.0 * n.sum() / self.column("games").sum() * correlation, 1.0 / (1.0 + freedom)))


def _sums(cluster: Sequence[tuple[bool, float, float]]) -> Sequence[float]:
    games, paid = float(len(cluster)), sum(payoff for _, _, payoff in cluster)
    firsts = sum(is_first for is_first, _, _ in cluster)
    basic = (games, 1.0, games**2, 2.0 * firsts - games, paid, paid**2, games * paid)
    if len(cluster) != 2 or firsts != 1:
        return (*basic, *([0.0] * 8))
    (_, x, p), (_, y, q) = sorted(cluster, key=lambda game: not game[0])
    ahead = (p - q) / 2.0
    return (*basic, ahead, ahead**2, 1.0, x, y, x * x, y * y, x * y)


@dataclass(frozen=True)
class PairCounts:
    """Finished games of P ordered pairs of agents.

    seat0, seat1: P agent ids each; a pair may appear more than once and in both orders. wins, draws, losses: (P,), as
    seen from seat 0; payoffs may count as shares of games. unseated: (P,) bool, where the order of two agents is only
    that of a list, as in one that names winners first; None: nowhere. sums: what pairs of games say; None: not known,
    and all games count as independent.
    """

    seat0: tuple[str, ...]
    seat1: tuple[str, ...]
    wins: Ints | Floats
    draws: Ints | Floats
    losses: Ints | Floats
    unseated: Bools | None = field(default=None, kw_only=True)
    sums: PairSums | None = field(default=None, kw_only=True)

    @property
    def games(self) -> Ints | Floats:
        """(P,): all games of each pair."""
        return self.wins + self.draws + self.losses

    @property
    def is_seated(self) -> Bools:
        """(P,) bool: where seat 0 is a seat of the game."""
        return np.ones(len(self.seat0), dtype=bool) if self.unseated is None else ~self.unseated

    def __add__(self, other: PairCounts) -> PairCounts:
        """The games of both."""
        wins, draws, losses = (
            np.concatenate([x, y]).astype(np.float64)
            for x, y in ((self.wins, other.wins), (self.draws, other.draws), (self.losses, other.losses))
        )
        seated = np.concatenate([self.is_seated, other.is_seated])
        sums = self.sums + other.sums if self.sums and other.sums else self.sums or other.sums
        return PairCounts(
            self.seat0 + other.seat0, self.seat1 + other.seat1, wins, draws, losses, unseated=~seated, sums=sums
        )
