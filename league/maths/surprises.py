"""Pairs of agents whose results the fitted ratings do not explain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit, kl_div

from league.maths import payoffs
from league.maths.davidson import Bonds, Games, Posterior, tally
from league.maths.pairs import PairSums

DECISIVE = 1.0 - 1e-6
"""The leverage from which on a pair's own games alone decide what the ratings say of it."""
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Surprise(NamedTuple):
    """What `a` scored against `b`, in both seatings, and what the ratings of all say of it.

    z: observed minus predicted score, imagined draws included, in standard deviations of that difference; over many
    pairs it has mean 0 and variance 1 where the model holds. A large one is a pair that no ranking explains.
    """

    a: str
    b: str
    games: int
    observed: float
    predicted: float
    z: float


@dataclass(frozen=True)
class Pairs:
    """M pairs of agents that met, the most surprising first, both seatings taken together.

    Left out are pairs that alone link two parts of the league: they decide their own prediction.

    first, second: (M,) indices in `Ratings.agents`. games: (M,). observed, predicted: (M,) scores of the first in
    [0, 1]. z: (M,), see `Surprise`.
    """

    first: Ints
    second: Ints
    games: Floats
    observed: Floats
    predicted: Floats
    z: Floats


def payoff_surprises_of(
    model: Posterior, ends: Ints, variance: Floats, mean: Floats, sums: PairSums, agents: Sequence[str]
) -> tuple[float | None, float, Pairs]:
    """As `surprises`, of the mean payoffs (Q,) of pairs `ends` (Q, 2), whose variances (Q,) these are.

    What is left of a pair's variance, V - 2 V w h + x' C x, is that of y - x' L^-1 X' W y, where h is the pair's
    resistance in the least squares and C the sandwich.
    """
    first, second = ends.T
    games = sums.merged(agents)[2].column("games")
    inverse = payoffs.inverse_of(len(agents), first, second, games)
    resistance = inverse[first, first] + inverse[second, second] - 2.0 * inverse[first, second]
    left = variance - 2.0 * variance * games * resistance + model.joint.variance(first, second)
    due = model.strength[first] - model.strength[second]
    judged = np.flatnonzero((games * resistance < DECISIVE) & (left > 1e-9 * variance) & (left > 0.0))
    z = (mean - due)[judged] / np.sqrt(left[judged])
    order = np.lexsort((judged, -np.abs(z)))
    kept = judged[order]
    pairs = Pairs(first[kept], second[kept], games[kept], mean[kept], due[kept], z[order])
    return float((z**2).mean()) if len(z) else None, float(len(z)), pairs


def surprises_of(games: Games, model: Posterior) -> tuple[float | None, float, Pairs]:
    """The mean squared surprise, weighted by what the pairs can tell, their degrees of freedom, and every surprise.

    A surprise is a standardised deviance residual (Agresti 2013, "Categorical Data Analysis", section 6.2.1): its
    variance is lessened by what the fit took from this very pair (its leverage), and one upset that was expected once
    in a thousand pairs is worth 3 deviations, not Pearson's 30. Imagined draws count as games: without them a pair that
    little else is known of would seem to miss its own prediction.
    """
    n = games.num_agents
    x = model.strength[games.first] - model.strength[games.second]
    win, draw, loss = model.probabilities(x + games.seated * model.seat)
    met = games.meetings
    i, j, played = met
    where = np.searchsorted(
        i * n + j, np.minimum(games.first, games.second) * n + np.maximum(games.first, games.second)
    )
    sign = np.where(games.first < games.second, 1.0, -1.0)

    def over_seatings(values: Floats) -> Floats:
        return tally(where, values, len(i))

    observed = over_seatings(np.where(sign > 0, games.wins, games.losses) + games.draws / 2.0)
    predicted = over_seatings(games.total * (1.0 + sign * (win - loss)) / 2.0)
    weight = games.total * (win + loss - (win - loss) ** 2) / 4.0
    imagined = _imagined_in(model, met)
    score = expit(model.strength[i] - model.strength[j])
    variance = over_seatings(weight) + imagined * score * (1.0 - score)
    by_seat = over_seatings(games.seated * sign * weight)
    by_draw = over_seatings(-sign * games.total * (win - loss) * draw / 2.0)
    with_seat, with_draw = model.joint.crossed(i, j).T
    (seat, both), (_, tie) = model.joint.others
    explained = (
        variance**2 * model.joint.variance(i, j)
        + 2.0 * variance * (by_seat * with_seat + by_draw * with_draw)
        + by_seat**2 * seat
        + 2.0 * by_seat * by_draw * both
        + by_draw**2 * tie
    )
    left = variance - explained
    judged = np.flatnonzero(left > (1.0 - DECISIVE) * variance)
    total = played + imagined
    made, due = (observed + imagined / 2.0)[judged], (predicted + imagined * score)[judged]
    deviance = _deviance(made, due, total[judged]) * (due * (1.0 - due / total[judged])) / left[judged]
    z = np.sign(made - due) * np.sqrt(deviance)
    order = np.lexsort((judged, -np.abs(z)))
    kept = judged[order]
    pairs = Pairs(i[kept], j[kept], played[kept], (observed / played)[kept], (predicted / played)[kept], z[order])
    freedom = float((left[judged] / variance[judged]).sum())
    return float(((made - due) ** 2).sum() / left[judged].sum()) if len(judged) else None, freedom, pairs


def _deviance(made: Floats, due: Floats, total: Floats) -> Floats:
    """(M,): twice the log-likelihood ratio of scores `made` out of `total` against those that are `due`."""
    ratio = 2.0 * (kl_div(made, due) + kl_div(total - made, total - due))
    return np.asarray(np.maximum(ratio, 0.0), np.float64)


def _imagined_in(model: Posterior, met: Bonds) -> Floats:
    """(M,): how many imagined draws there are of each pair that met."""
    n = len(model.strength)
    pairs = met.first * n + met.second
    imagined = np.minimum(model.bonds.first, model.bonds.second) * n + np.maximum(model.bonds.first, model.bonds.second)
    own = np.isin(imagined, pairs)
    return tally(np.searchsorted(pairs, imagined[own]), model.bonds.weight[own], len(pairs))
