"""Which games to play next: round robins, gauntlets, and the games that narrow the wanted intervals most.

A schedule says of every pair of N agents how many *pairs of games* it plays next: two games of one seed, seats swapped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Literal

import numpy as np

from league.maths.davidson import ELO_SCALE, Floats, Ints, Posterior
from league.maths.ratings import Ratings

Want = Literal["all", "order", "top"]
ALPHA = 0.05
"""The chance that an `anytime` interval ever misses the truth."""
MIXTURE = 100.0
"""Elo points: the differences that `anytime` intervals find in the fewest games. Any other value holds the level, too.
At deviations of 10 to 80 points they reach 3.0 to 3.3 deviations to either side, those that allow for one look 1.96."""
UNIT = 2
"""Pairs of games that the adaptive schedule plays at a time."""
SIGNS = np.array([[1.0, -1.0, 1.0], [1.0, -1.0, 1.0], [1.0, 0.0, 0.0]])
"""Of the parameters in `Information.places`: t_i - t_j + g, t_j - t_i + g, log v."""


@dataclass(frozen=True)
class Contrast:
    """A difference that is wanted: of `a` above `b`, or above the mean of all where `b` is None.

    weights: (N + 2,), of a model's parameters. is_linked: whether a chain of games links the two; where none
    does, its width is the prior's alone.
    """

    a: str
    b: str | None
    weights: Floats
    is_linked: bool


def round_robin(num_agents: int) -> list[tuple[int, int]]:
    """Everybody against everybody once: (P, 2) indices."""
    return list(combinations(range(num_agents), 2))


def gauntlet(num_agents: int, seeds: int = 1) -> list[tuple[int, int]]:
    """Each of the first `seeds` agents against each of the others, as `-seeds` of cutechess and fastchess."""
    return [(i, j) for i in range(seeds) for j in range(seeds, num_agents)]


def spread(left: Ints, size: int) -> Ints:
    """Chooses at most `size` of what is left (P,) to play, those first that have most left; (P,) of the next batch.

    So all pairs stay level, and a tournament that is stopped leaves a whole round.
    """
    given = np.zeros_like(left)
    for _ in range(min(size, int(left.sum()))):
        given[np.argmax(left - given)] += 1
    return given


def anytime(deviation: Floats) -> Floats:
    """(M,): half-widths of 95 % intervals that hold at all times together, however often a tournament looks at them.

    The two-sided normal mixture boundary (Howard, Ramdas, McAuliffe and Sekhon 2021, Annals of Statistics 49:1055,
    "Time-uniform, nonparametric, nonasymptotic confidence sequences", eq. 14) at the information 1 / deviation ** 2, as
    Waudby-Smith et al. 2024 (Annals of Statistics 52:2613) use it for estimates that are normal in the limit. The true
    difference is outside at any look in at most 5 % of tournaments.

    deviation: (M,) Elo points, of estimated differences.
    """
    told = (MIXTURE / np.maximum(deviation, 1e-9)) ** 2
    return np.asarray(deviation * np.sqrt((1.0 + 1.0 / told) * (np.log1p(told) - 2.0 * math.log(ALPHA))), np.float64)


def widths(covariance: Floats, wanted: Floats, game_variance: float | None = None) -> Floats:
    """(M,): the widths of wanted contrasts' intervals (`anytime`), in Elo points or a game's payoff.

    Args:
        covariance: (N + 2, N + 2) as in `Posterior`.
        wanted: (M, N + 2), of a model's parameters.
        game_variance: as of `Posterior`. A game between equals, whose variance in log-odds is 4, tells as much.
    """
    deviation = np.sqrt(np.maximum(np.einsum("mi,ij,mj->m", wanted, covariance, wanted), 0.0))
    if game_variance is None:
        return 2.0 * anytime(ELO_SCALE * deviation)
    points = 2.0 * ELO_SCALE / math.sqrt(game_variance)
    return 2.0 * anytime(points * deviation) / points


@dataclass(frozen=True)
class Information:
    """What two games of each of P pairs, one in either seating, are expected to tell of a model's N + 2 parameters.

    It is K M K^T for each pair. K has three directions: x of the first seating, x of the second, log v. In Davidson's
    model minus the log-posterior's second derivatives do not depend on how games end, so this is by how much they grow.

    places: (P, 3, 3), the parameters in each direction; their signs are `SIGNS`. middle: (P, 3, 3), M.
    """

    places: Ints
    middle: Floats

    @classmethod
    def of(cls, model: Posterior, pairs: Ints) -> Information:
        """Of pairs (P, 2) of indices."""
        n, (first, second) = len(model.strength), pairs.T
        places = np.full((len(pairs), 3, 3), n)
        places[:, 0, 0] = places[:, 1, 1] = first
        places[:, 0, 1] = places[:, 1, 0] = second
        places[:, 2] = n + 1
        middle = np.zeros((len(pairs), 3, 3))
        if model.game_variance is not None:
            middle[:, :2, :2] = np.eye(2) / model.game_variance
            return cls(places, middle)
        gap = model.strength[first] - model.strength[second]
        for column, x in enumerate((gap + model.seat, model.seat - gap)):
            win, draw, loss = model.probabilities(x)
            middle[:, column, column] = (win + loss - (win - loss) ** 2) / 4.0
            middle[:, column, 2] = middle[:, 2, column] = -(win - loss) * draw / 2.0
            middle[:, 2, 2] += draw * (1.0 - draw)
        return cls(places, middle)

    def gains(self, covariance: Floats, contrast: Floats, times: float) -> Floats:
        """(P,): by how much `times` pairs of games of each pair are expected to lessen a contrast's variance.

        covariance: (N + 2, N + 2). contrast: (N + 2,).
        """
        seen = np.einsum("ka,pka->pk", SIGNS, (covariance @ contrast)[self.places])
        crossed = covariance[self.places[:, :, :, None, None], self.places[:, None, None, :, :]]
        spread = np.einsum("ka,lb,pkalb->pkl", SIGNS, SIGNS, crossed)
        inner = np.eye(3) + times * self.middle @ spread
        lessened = np.linalg.solve(inner, times * self.middle @ seen[:, :, None])[:, :, 0]
        return np.asarray((seen * lessened).sum(axis=1), np.float64)

    def after(self, covariance: Floats, pair: int, times: float) -> Floats:
        """The covariance that `times` pairs of games of one pair are expected to leave of `covariance`.

        C - C K (I / times + M K^T C K)^-1 M K^T C: Woodbury's identity; with one direction Sherman and Morrison's. No
        inverse of M is taken: where nothing is drawn it has none.
        """
        directions = np.zeros((len(covariance), 3))
        np.add.at(directions, (self.places[pair], np.arange(3)[:, None]), SIGNS)
        carried, middle = covariance @ directions, times * self.middle[pair]
        inner = np.eye(3) + middle @ (directions.T @ carried)
        return np.asarray(covariance - carried @ np.linalg.solve(inner, middle) @ carried.T, np.float64)


def narrowest(model: Posterior, pairs: Ints, wanted: Floats, size: int, until: float = 0.0) -> Ints:
    """Chooses at most `size` pairs of games so that the widest wanted interval shrinks most: (P,) of the next batch.

    Greedily, `UNIT` at a time: where the wanted interval that is widest now is expected to shrink most; then the
    covariance is what it will be after these games, and the next are chosen. It ends early when no interval is wider
    than `until`.

    Args:
        model: of N agents.
        pairs: (P, 2) indices, the pairs that may be played.
        wanted: (M, N + 2) contrasts, as of `Contrast`.
        size: pairs of games.
        until: Elo points.
    """
    information = Information.of(model, pairs)
    covariance, given = model.covariance, np.zeros(len(pairs), np.int64)
    while given.sum() < size:
        wide = widths(covariance, wanted, model.game_variance)
        if wide.max() <= until:
            break
        unit = min(UNIT, size - int(given.sum()))
        best = int(np.argmax(information.gains(covariance, wanted[np.argmax(wide)], unit)))
        covariance = information.after(covariance, best, unit)
        given[best] += unit
    return given


def contrasts(
    want: Want, ratings: Ratings, entrants: Sequence[str], between: tuple[str, str] | None = None
) -> list[Contrast]:
    """The differences that are wanted between `entrants`, as the ratings stand now; none: nothing is left to find out.

    Args:
        want: `all`: everyone to the agent held at 1000, or to the mean of the entrants where that is none of them.
            `order`: everyone to the next on the board. `top`: the best rated to each other that may be as good: the
            95 % interval of their difference holds 0.
        ratings: has all entrants.
        entrants: at least two ids.
        between: only the difference of these two; overrides `want`.
    """
    n = len(ratings.agents)
    board = sorted(entrants, key=lambda agent: (-ratings.model.strength[ratings.index(agent)], agent))

    def contrast(a: str, b: str) -> Contrast:
        i, j = ratings.index(a), ratings.index(b)
        weights = np.zeros(n + 2)
        weights[i], weights[j] = 1.0, -1.0
        return Contrast(a, b, weights, bool(ratings.group[i] == ratings.group[j]))

    if between is not None:
        return [contrast(*between)]
    if want == "order":
        return [contrast(a, b) for a, b in pairwise(board)]
    if want == "top":
        rivals = [contrast(board[0], other) for other in board[1:]]
        return [rival for rival in rivals if not rival.is_linked or _holds_zero(ratings, rival)]
    anchor = ratings.anchor
    if anchor is not None and anchor in entrants:
        return [contrast(agent, anchor) for agent in board if agent != anchor]
    indices = [ratings.index(agent) for agent in board]
    mean = np.zeros(n + 2)
    mean[indices] = 1.0 / len(indices)
    is_linked = len(set(ratings.group[indices].tolist())) == 1
    return [
        Contrast(agent, None, np.eye(n + 2)[index] - mean, is_linked)
        for agent, index in zip(board, indices, strict=True)
    ]


def _holds_zero(ratings: Ratings, contrast: Contrast) -> bool:
    model = ratings.model
    gap = float(contrast.weights[:-2] @ model.strength) * ratings.scale
    return abs(gap) <= float(widths(model.covariance, contrast.weights[None], model.game_variance)[0]) / 2.0
