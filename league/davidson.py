"""Davidson's model of paired comparisons with draws and an advantage of the first seat: its most likely parameters.

An agent has a strength t, in log-odds. With x = t_i - t_j + g, i in seat 0 and g the advantage of that seat, a game is

    won by i : drawn : won by j  =  exp(x / 2) : v : exp(-x / 2)

(Davidson 1970, JASA 65:317, "On extending the Bradley-Terry model to accommodate ties"; the seat as in Davidson and
Beaver 1977, Biometrics 33:693). Without draws v is 0 and this is Bradley and Terry's model (1952, Biometrika 39:324).
In t, g and log v the log-posterior is concave, so that Newton's method always arrives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve

ELO_SCALE = 400.0 / math.log(10.0)
"""Elo points in one unit of log-odds."""
Z95 = 1.959963984540054
"""Half-width of a central 95 % interval of the normal distribution, in standard deviations."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Prior:
    """What is believed before any game, in imagined games, so that nobody's rating is infinite. All are above 0.

    Raises:
        ValueError: one of them is not.
    """

    draws: float = 2.0
    """Games that every agent drew with an average one: with 2, the virtual win and loss of KataGo's `core/elo.cpp`.
    With 1 a clean sheet's lower bound lies below that of the same agent with one loss (its curvature falls faster than
    its mode rises); from 1.5 on it does not."""
    lineage: float = 2.0
    """Games that every snapshot drew with the one before it (KataGo's sequential prior)."""
    seat: float = 100.0
    """Standard deviation of the first seat's advantage around 0, in Elo points."""
    decided: float = 1.0
    """Games between equals that were not drawn: where every game was, the weight of draws stays finite."""

    def __post_init__(self) -> None:
        for name in ("draws", "lineage", "seat", "decided"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"prior {name}={getattr(self, name)} must be above 0: else a rating can be infinite")


@dataclass(frozen=True)
class Games:
    """P ordered pairs of N agents. first, second: (P,) places in 0..N-1; wins, draws, losses: (P,), seen from seat 0.

    links: (L, 2) places of neighbours in a lineage.
    """

    num_agents: int
    first: Ints
    second: Ints
    wins: Floats
    draws: Floats
    losses: Floats
    links: Ints

    @property
    def total(self) -> Floats:
        """(P,): all games of each pair."""
        return self.wins + self.draws + self.losses


@dataclass(frozen=True)
class Model:
    """The posterior's mode, and the covariance of a normal distribution around it.

    strength: (N,) log-odds. seat: the first seat's advantage, log-odds. log_draw: log v; -inf where nothing was drawn.
    covariance: (N + 2, N + 2) of strengths, seat, log_draw; the last row is 0 where nothing was drawn.
    """

    strength: Floats
    seat: float
    log_draw: float
    covariance: Floats

    def probabilities(self, difference: Floats) -> tuple[Floats, Floats, Floats]:
        """Of a win, a draw and a loss of seat 0 at t_i - t_j + g = `difference`."""
        return _probabilities(difference, self.log_draw)


def fit(games: Games, prior: Prior) -> Model:
    """The mode of the log-posterior by Newton's method, every step halved until it gains (Armijo's rule)."""
    n, has_draws = games.num_agents, bool(games.draws.any())
    size = n + 1 + has_draws
    z = np.zeros(size)
    value = _log_posterior(z, games, prior)
    while True:
        gradient, hessian = _derivatives(z, games, prior)
        factor = cho_factor(hessian, lower=True, check_finite=False)
        step = cho_solve(factor, gradient, check_finite=False)
        gain = float(gradient @ step)
        if gain <= 1e-12 * max(1.0, abs(value)):
            break
        length = 1.0
        while (after := _log_posterior(z + length * step, games, prior)) < value + 1e-4 * length * gain:
            length /= 2.0
        z, value = z + length * step, after
    z = z + step
    covariance = np.zeros((n + 2, n + 2))
    covariance[:size, :size] = cho_solve(factor, np.eye(size), check_finite=False)
    return Model(z[:n], float(z[n]), float(z[n + 1]) if has_draws else -math.inf, covariance)


def _probabilities(x: Floats, log_draw: float) -> tuple[Floats, Floats, Floats]:
    top = np.maximum(np.abs(x) / 2.0, log_draw)
    win, draw, loss = np.exp(x / 2.0 - top), np.exp(log_draw - top), np.exp(-x / 2.0 - top)
    total = win + draw + loss
    return win / total, draw / total, loss / total


def _log_total(x: Floats, log_draw: float) -> Floats:
    top = np.maximum(np.abs(x) / 2.0, log_draw)
    total: Floats = top + np.log(np.exp(x / 2.0 - top) + np.exp(log_draw - top) + np.exp(-x / 2.0 - top))
    return total


def _unpack(z: Floats, games: Games) -> tuple[Floats, float, float, Floats]:
    """Strengths, seat, log v, and x of every pair."""
    n = games.num_agents
    seat, log_draw = float(z[n]), float(z[n + 1]) if len(z) == n + 2 else -math.inf
    return z[:n], seat, log_draw, z[games.first] - z[games.second] + seat


def _log_posterior(z: Floats, games: Games, prior: Prior) -> float:
    strength, seat, log_draw, x = _unpack(z, games)
    value = float(((games.wins - games.losses) * x / 2.0 - games.total * _log_total(x, log_draw)).sum())
    value -= prior.draws * float(_log_total(strength, -math.inf).sum())
    value -= prior.lineage * float(
        _log_total(strength[games.links[:, 0]] - strength[games.links[:, 1]], -math.inf).sum()
    )
    value -= (seat * ELO_SCALE / prior.seat) ** 2 / 2.0
    if log_draw > -math.inf:
        value += float(games.draws.sum()) * log_draw
        value -= prior.decided * float(_log_total(np.zeros(1), log_draw)[0])
    return value


def _derivatives(z: Floats, games: Games, prior: Prior) -> tuple[Floats, Floats]:
    """Gradient (size,) of the log-posterior, and minus its Hessian (size, size)."""
    n, (first, second) = games.num_agents, (games.first, games.second)
    strength, seat, log_draw, x = _unpack(z, games)
    win, draw, loss = _probabilities(x, log_draw)
    slope = (games.wins - games.losses - games.total * (win - loss)) / 2.0  # d/dx
    weight = games.total * (win + loss - (win - loss) ** 2) / 4.0  # -d2/dx2, the variance of the score
    gradient, hessian = np.zeros(len(z)), np.zeros((len(z), len(z)))
    gradient[:n] = _difference(slope, games)
    gradient[n] = slope.sum() - seat * (ELO_SCALE / prior.seat) ** 2
    pairs = tally(first * n + second, weight, n * n).reshape(n, n)
    hessian[:n, :n] = -pairs - pairs.T
    hessian[np.arange(n), np.arange(n)] += tally(first, weight, n) + tally(second, weight, n)
    hessian[n, :n] = hessian[:n, n] = _difference(weight, games)
    hessian[n, n] = weight.sum() + (ELO_SCALE / prior.seat) ** 2
    if len(z) == n + 2:
        crossed = -games.total * (win - loss) * draw / 2.0  # -d2/dx dlog v
        even = float(_probabilities(np.zeros(1), log_draw)[1][0])
        gradient[n + 1] = games.draws.sum() - games.total @ draw - prior.decided * even
        hessian[n + 1, :n] = hessian[:n, n + 1] = _difference(crossed, games)
        hessian[n + 1, n] = hessian[n, n + 1] = crossed.sum()
        hessian[n + 1, n + 1] = games.total @ (draw * (1.0 - draw)) + prior.decided * even * (1.0 - even)
    average = _probabilities(strength, -math.inf)[0]
    gradient[:n] += prior.draws * (0.5 - average)
    hessian[np.arange(n), np.arange(n)] += prior.draws * average * (1.0 - average)
    child, parent = games.links.T
    ahead = _probabilities(strength[child] - strength[parent], -math.inf)[0]
    bond = prior.lineage * ahead * (1.0 - ahead)
    np.add.at(gradient, child, prior.lineage * (0.5 - ahead))
    np.add.at(gradient, parent, prior.lineage * (ahead - 0.5))
    np.add.at(hessian, (child, child), bond)
    np.add.at(hessian, (parent, parent), bond)
    np.add.at(hessian, (child, parent), -bond)
    np.add.at(hessian, (parent, child), -bond)
    return gradient, hessian


def tally(places: Ints, values: Floats, size: int) -> Floats:
    """(size,): the sum of `values` (P,) at each of `places` (P,)."""
    return np.bincount(places, values, size).astype(np.float64, copy=False)


def _difference(values: Floats, games: Games) -> Floats:
    """(N,): what each agent gets of the pairs' `values` (P,), with the other sign where it sits second."""
    n = games.num_agents
    return tally(games.first, values, n) - tally(games.second, values, n)
