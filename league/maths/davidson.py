"""Davidson's model of paired comparisons with draws and an advantage of the first seat: its most likely parameters.

An agent has a strength t, in log-odds. With x = t_i - t_j + g, i in seat 0 and g the advantage of that seat, a game is

    won by i : drawn : won by j  =  exp(x / 2) : v : exp(-x / 2)

(Davidson 1970, JASA 65:317, "On extending the Bradley-Terry model to accommodate ties"; the seat as in Davidson and
Beaver 1977, Biometrics 33:693). Without draws v is 0 and this is Bradley and Terry's model (1952, Biometrika 39:324).
In t, g and log v the log-posterior with given imagined draws is concave, so that Newton's method always arrives.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from league.errors import UsageError
from league.maths.joint import Hessian, Joint, SparseHessian, inverse
from league.maths.mesh import Mesh

ELO_SCALE = 400.0 / math.log(10.0)
"""Elo points in one unit of log-odds."""
MAX_DENSE = 1_000
"""Agents up to which matrices are used: they are quick, and what a pool draws by them is the same bit for bit."""
MAX_CORE = 4_000
"""Agents that so many games link that they remain when the others are eliminated: half a minute, and 600 MB."""
MOST_ROUNDS = 200
SMALLEST_MOVE = 1e-6
"""Log-odds: imagined draws are placed again until no strength moves further, or for `MOST_ROUNDS`."""
SMALLEST_MOVE_OF_MANY = 1e-2
"""The same for more than `MAX_DENSE` agents, whose rounds take a second: two Elo points."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Prior:
    """What is believed before any game, in imagined games.

    Raises:
        ValueError: a number of games is below 0 or infinite, or `seat` is not above 0.
    """

    draws: float = 1.25
    """Imagined draws an agent, on the games that tell most of it (`imagined_draws`). 1 is Jeffreys' prior, which takes
    the bias of order 1 / games out of the estimate (Firth 1993, Biometrika 80:27). With 1 a clean sheet's lower bound
    lies below that of the same agent with one loss (its curvature falls faster than its mode rises); from 1.25 on it
    does not. With 0 some ratings may be infinite (`ratings.MAXIMUM_LIKELIHOOD`)."""
    lineage: float = 1.25
    """Games that every snapshot drew with the one before it (the sequential prior of KataGo's `elo.py`)."""
    seat: float = 100.0
    """Standard deviation of the first seat's advantage around 0, in Elo points; infinite: nothing is believed of it."""
    decided: float = 1.0
    """Games between equals that were not drawn; with 0 the weight of draws may be infinite, as where every game was."""

    def __post_init__(self) -> None:
        for name in ("draws", "lineage", "decided"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise ValueError(f"prior {name}={getattr(self, name)} must be a number of games, 0 or more")
        if not self.seat > 0.0:
            raise ValueError(f"prior seat={self.seat} must be a deviation in Elo points, above 0; math.inf: no prior")


class Bonds(NamedTuple):
    """L imagined results, all of them draws between level seats: `weight` games of `first` against `second`, (L,)."""

    first: Ints
    second: Ints
    weight: Floats


@dataclass(frozen=True)
class Games:
    """P ordered pairs of N agents. first, second: (P,) indices in 0..N-1; wins, draws, losses: (P,), seen from seat 0.

    links: (L, 2) indices of neighbours in a lineage. seated: (P,), 1 where the first seat's advantage counts, else 0.
    """

    num_agents: int
    first: Ints
    second: Ints
    wins: Floats
    draws: Floats
    losses: Floats
    links: Ints
    seated: Floats

    @cached_property
    def total(self) -> Floats:
        """(P,): all games of each pair."""
        return self.wins + self.draws + self.losses

    @cached_property
    def meetings(self) -> Bonds:
        """The pairs that met, in either order of seats, each once; the weights are their games."""
        n = max(1, self.num_agents)
        low, high = np.minimum(self.first, self.second), np.maximum(self.first, self.second)
        pairs, where = np.unique(low * n + high, return_inverse=True)
        games = tally(where, self.total, len(pairs))
        pairs, games = pairs[games > 0], games[games > 0]
        return Bonds(pairs // n, pairs % n, games)

    @cached_property
    def mesh(self) -> Mesh | None:
        """The pairs that met, in the order of `meetings`, where there are so many agents that a matrix is too large."""
        return _mesh(self.num_agents, self.meetings.first, self.meetings.second)

    @cached_property
    def linked_mesh(self) -> Mesh | None:
        """The same with the neighbours in a lineage."""
        n = max(1, self.num_agents)
        low, high = np.sort(self.links, axis=1).T
        pairs = np.unique(np.concatenate([self.meetings.first * n + self.meetings.second, low * n + high]))
        return _mesh(self.num_agents, pairs // n, pairs % n)

    @cached_property
    def groups(self) -> Ints:
        """(N,): a number from 0 for each group of agents that a chain of games links."""
        return linked(self.num_agents, self.first, self.second)


@dataclass(frozen=True)
class Posterior:
    """The posterior's mode, and the covariance of a normal distribution around it.

    strength: (N,) log-odds. seat: the first seat's advantage, log-odds. log_draw: log v; -inf where nothing was drawn.
    joint: of strengths, seat, log_draw. The last is known to be 0 where nothing was drawn; the seat's variance is the
    prior's where no game tells of seats, without one 0. bonds: the imagined draws. game_variance: of a game's payoff,
    where strengths are payoffs (`payoffs.py`); None: in log-odds, of which games tell as Davidson's model says.
    """

    strength: Floats
    seat: float
    log_draw: float
    joint: Joint
    bonds: Bonds
    game_variance: float | None = None

    @property
    def covariance(self) -> Floats:
        """(N + 2, N + 2) of strengths, seat, log_draw.

        Raises:
            UsageError: there are too many agents for a matrix.
        """
        return self.joint.matrix()

    def probabilities(self, difference: Floats) -> tuple[Floats, Floats, Floats]:
        """Of a win, a draw and a loss of seat 0 at t_i - t_j + g = `difference`."""
        return _probabilities(difference, self.log_draw)


def fit(games: Games, prior: Prior, bonds: Bonds | None = None) -> Posterior:
    """The mode of the log-posterior, and a normal distribution around it.

    Where the imagined draws lie depends on the strengths, and these on them; both are found in turns. Where no game
    was drawn, the mode is that of likelihood times det(I) ** (draws / 2), I being the games' information on the
    strengths: the gradient of log det(I) / 2 is that of `imagined_draws`. The covariance is the inverse of minus the
    second derivatives with the imagined draws held.

    Args:
        games: of agents whose strengths are finite: with `prior.draws` 0 each must have scored, through a chain of
            games, against each other of its group.
        prior: what is believed before.
        bonds: imagined draws that are given; None: those of the prior.
    """
    z = np.zeros(games.num_agents + 2)
    if not games.draws.any():
        z[-1] = -math.inf
    if bonds is not None:
        return _Posterior(games, prior, bonds).model(z)
    is_large = games.num_agents > MAX_DENSE
    for _ in range(MOST_ROUNDS):
        posterior = _Posterior(games, prior, _imagined(games, prior, z))
        before, z = z, posterior.mode(z, 1 if is_large else None)
        if np.abs(z[:-2] - before[:-2]).max(initial=0.0) <= (SMALLEST_MOVE_OF_MANY if is_large else SMALLEST_MOVE):
            break
    return posterior.model(z)


def imagined_draws(games: Games, strength: Floats, log_draw: float) -> Bonds:
    """One imagined draw an agent (less one a group), shared out to the pairs that met, by leverage.

    A pair's leverage is how far its own games decide what the strengths say of it: 1 where it alone links two halves
    of a league, 2 / N in a round robin of N equals; little between agents so far apart that their games tell nothing.
    It is what Firth 1993 (section 3.1) adds to the outcomes of a logistic model.
    """
    met = games.meetings
    odds = _Odds(strength[met.first] - strength[met.second], log_draw)
    told = met.weight * (1.0 - odds.draw - odds.margin**2) / 4.0
    if games.mesh is not None:
        return Bonds(met.first, met.second, np.clip(told * games.mesh.factor(told).resistance, 0.0, 1.0))
    information = 2.0 * _level(games.groups)
    _add_laplacian(information, Bonds(met.first, met.second, told))
    resistance = inverse(information)
    at = np.diag(resistance)
    leverage = told * (at[met.first] + at[met.second] - 2.0 * resistance[met.first, met.second])
    return Bonds(met.first, met.second, np.clip(leverage, 0.0, 1.0))


def _imagined(games: Games, prior: Prior, z: Floats) -> Bonds:
    """All imagined draws: those of the agents and those of lineages."""
    own = imagined_draws(games, z[:-2], float(z[-1]))
    weight = np.concatenate([prior.draws * own.weight, np.full(len(games.links), prior.lineage)])
    child, parent = games.links.T
    return Bonds(np.concatenate([own.first, child]), np.concatenate([own.second, parent]), weight)


class _Posterior:
    """The log-posterior of z (N + 2,): strengths, seat, log v, the latter two only where games tell of them."""

    def __init__(self, games: Games, prior: Prior, bonds: Bonds) -> None:
        self.games, self.prior, self.bonds = games, prior, bonds
        n = games.num_agents
        self.mesh = None if n <= MAX_DENSE else games.linked_mesh if (bonds.weight[-1:] > 0).any() else games.mesh
        if self.mesh is None:
            seats = np.concatenate([games.first, bonds.first]), np.concatenate([games.second, bonds.second])
            self.level = _level(linked(n, *seats))
        self.is_free = np.ones(n + 2, dtype=bool)
        self.is_free[n:] = games.seated.any(), games.draws.any()

    def mode(self, z: Floats, most: int | None = None) -> Floats:
        """The mode by Newton's method from z on, every step halved until it gains (Armijo's rule).

        most: steps after which it is left as it is then; None: as many as it takes.
        """
        free, here = self.is_free, _Point(self, z)
        for taken in itertools.count():
            if taken == most:
                break
            gradient, hessian = here.derivatives()
            step = np.zeros(len(z))
            step[free] = hessian.solve(gradient)
            gain = float(gradient @ step[free])
            if gain <= 1e-12 * max(1.0, abs(here.value)):
                return here.z + step
            length = 1.0
            while (there := _Point(self, here.z + length * step)).value < here.value + 1e-4 * length * gain:
                length /= 2.0
            here = there
        return here.z

    def model(self, z: Floats) -> Posterior:
        """The mode, sought from z on, with the covariance there."""
        z = self.mode(z)
        n = self.games.num_agents
        believed = 0.0 if math.isinf(self.prior.seat) else (self.prior.seat / ELO_SCALE) ** 2
        joint = _Point(self, z).derivatives()[1].joint(self.is_free, believed)
        return Posterior(z[:n], float(z[n]), float(z[n + 1]), joint, self.bonds)

    def level_of(self, strength: Floats) -> Floats:
        """(N,): what holds the mean of each agent's part near 0, as a slope."""
        if self.mesh is None:
            return _dot(self.level, strength)
        part = self.mesh.part
        return np.asarray((0.5 * tally(part, strength, len(self.mesh.size)) / self.mesh.size)[part], np.float64)


class _Point:
    """A log-posterior at z (N + 2,). value: there."""

    def __init__(self, posterior: _Posterior, z: Floats) -> None:
        self.z, self._of = z, posterior
        games, bonds, prior = posterior.games, posterior.bonds, posterior.prior
        strength, (seat, log_draw) = z[:-2], z[-2:]
        x = strength[games.first] - strength[games.second] + games.seated * seat
        y = strength[bonds.first] - strength[bonds.second]
        self._odds, self._imagined = _Odds(x, float(log_draw)), _Odds(y, -math.inf)
        self._level = posterior.level_of(strength)
        value = _dot(games.wins - games.losses, x) / 2.0 - _dot(games.total, self._odds.log_total)
        value -= _dot(bonds.weight, self._imagined.log_total)
        value -= _dot(self._level, strength) / 2.0 + (seat * ELO_SCALE / prior.seat) ** 2 / 2.0
        if log_draw > -math.inf:
            value += games.draws.sum() * log_draw - prior.decided * _Odds(np.zeros(1), float(log_draw)).log_total[0]
        self.value = float(value)

    def derivatives(self) -> tuple[Floats, Hessian | SparseHessian]:
        """Gradient (F,) of the log-posterior, and minus its Hessian, in the F free parameters."""
        posterior, (seat, log_draw) = self._of, self.z[-2:]
        games, bonds, prior, n = posterior.games, posterior.bonds, posterior.prior, posterior.games.num_agents
        margin, draw, ahead = self._odds.margin, self._odds.draw, self._imagined.margin
        slope = (games.wins - games.losses - games.total * margin) / 2.0  # d/dx
        weight = games.total * (1.0 - draw - margin**2) / 4.0  # -d2/dx2, the variance of the score
        crossed = -games.total * margin * draw / 2.0  # -d2/dx dlog v
        even = float(_Odds(np.zeros(1), float(log_draw)).draw[0])
        gradient, border, corner = np.empty(n + 2), np.empty((n, 2)), np.empty((2, 2))
        gradient[:n] = _difference(slope, games, n) - _difference(bonds.weight * ahead / 2.0, bonds, n) - self._level
        gradient[n] = _dot(games.seated, slope) - seat * (ELO_SCALE / prior.seat) ** 2
        gradient[n + 1] = games.draws.sum() - _dot(games.total, draw) - prior.decided * even
        border[:, 0] = _difference(games.seated * weight, games, n)
        border[:, 1] = _difference(crossed, games, n)
        corner[0, 0] = _dot(games.seated, weight) + (ELO_SCALE / prior.seat) ** 2
        corner[0, 1] = corner[1, 0] = _dot(games.seated, crossed)
        corner[1, 1] = _dot(games.total, draw * (1.0 - draw)) + prior.decided * even * (1.0 - even)
        told = Bonds(games.first, games.second, weight), bonds._replace(weight=bonds.weight * (1.0 - ahead**2) / 4.0)
        free, others = posterior.is_free, posterior.is_free[n:]
        if posterior.mesh is not None:
            weights = sum(posterior.mesh.on_edges(*pairs) for pairs in told)
            inner = corner[np.ix_(others, others)]
            return gradient[free], SparseHessian(posterior.mesh, np.asarray(weights), border[:, others], inner)
        hessian = np.zeros((n + 2, n + 2))
        hessian[:n, :n] = posterior.level
        for pairs in told:
            _add_laplacian(hessian, pairs)
        hessian[:n, n:], hessian[n:, :n], hessian[n:, n:] = border, border.T, corner
        return gradient[free], Hessian(hessian[np.ix_(free, free)])


def linked(size: int, first: Ints, second: Ints) -> Ints:
    """(size,): numbers from 0 of the groups that the pairs (P,) make of agents."""
    graph = coo_matrix((np.ones(len(first)), (first, second)), (size, size))
    return np.asarray(connected_components(graph, directed=False)[1], np.int64)


def _level(group: Ints) -> Floats:
    """(N, N): 1 / 2n between members of one group of n, else 0.

    As minus a Hessian it holds every group's mean strength near 0 and pulls at no difference within a group.
    """
    size = np.bincount(group, minlength=1)
    return np.asarray(np.where(group[:, None] == group, 0.5 / size[group], 0.0), np.float64)


def _add_laplacian(matrix: Floats, bonds: Bonds) -> None:
    """Adds to `matrix`, at least (N, N), the Laplacian of the graph whose edges are the bonds."""
    n = len(matrix)
    pairs = tally(bonds.first * n + bonds.second, bonds.weight, n * n).reshape(n, n)
    pairs += pairs.T
    matrix -= pairs
    matrix[np.arange(n), np.arange(n)] += pairs.sum(axis=1)


def check_size(num_agents: int, first: Ints, second: Ints) -> None:
    """Refuses pairs (P,) of agents, each once and sorted, that could not be rated.

    Raises:
        UsageError: too many games link too many agents.
    """
    _mesh(num_agents, first, second)


def _mesh(num_agents: int, first: Ints, second: Ints) -> Mesh | None:
    """The mesh of pairs, each once, if there are more agents than a matrix is made for.

    Raises:
        UsageError: too many games link too many agents.
    """
    if num_agents <= MAX_DENSE:
        return None
    mesh = Mesh(num_agents, first, second)
    if len(mesh.core) > MAX_CORE:
        raise UsageError(
            f"{num_agents:,} agents have met in so many pairs ({len(first):,}) that they cannot be rated together; see"
            f" `league imports list`, and take some back with `league imports remove NAME`"
        )
    return mesh


def _dot(left: Floats, right: Floats) -> Floats:
    """Sums of products over the last axis, by numpy's own loop: the threads of its BLAS would keep scipy's waiting."""
    return np.asarray(np.einsum("...i,...i->...", left, right), np.float64)


class _Odds:
    """Of games at the differences x (P,): the stronger side's share is 1, the weaker's exp(-|x|), of `total`."""

    def __init__(self, x: Floats, log_draw: float) -> None:
        self._half = np.abs(x) / 2.0
        self._is_ahead = x >= 0.0
        root = np.exp(-self._half)
        self._weak = root * root
        self._drawn = math.exp(log_draw) * root
        self.total = 1.0 + self._weak + self._drawn

    @property
    def log_total(self) -> Floats:
        """(P,): log(exp(x / 2) + v + exp(-x / 2))."""
        return np.asarray(self._half + np.log(self.total), np.float64)

    @property
    def margin(self) -> Floats:
        """(P,): the probability of a win less that of a loss."""
        return np.asarray(np.where(self._is_ahead, 1.0, -1.0) * (1.0 - self._weak) / self.total, np.float64)

    @property
    def draw(self) -> Floats:
        """(P,): the probability of a draw."""
        return np.asarray(self._drawn / self.total, np.float64)


def _probabilities(x: Floats, log_draw: float) -> tuple[Floats, Floats, Floats]:
    odds = _Odds(x, log_draw)
    margin, draw = odds.margin, odds.draw
    return (1.0 - draw + margin) / 2.0, draw, (1.0 - draw - margin) / 2.0


def tally(indices: Ints, values: Floats, size: int) -> Floats:
    """(size,): the sum of `values` (P,) at each of `indices` (P,)."""
    return np.bincount(indices, values, size).astype(np.float64, copy=False)


def _difference(values: Floats, pairs: Games | Bonds, size: int) -> Floats:
    """(size,): what each agent gets of the pairs' `values` (P,), with the other sign where it is the second."""
    return tally(pairs.first, values, size) - tally(pairs.second, values, size)
