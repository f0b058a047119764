"""The metagame: agents as the moves of one zero-sum game. Its Nash equilibrium, alpha-rank, and how cyclic it is.

A payoff is a margin in [-1, 1]: the row agent's expected score (a draw is half a win), minus the column agent's. A
cell that is not known is NaN. Pure functions; what they say of real results is only as sure as the games behind them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import inv, lu_factor, lu_solve, svd
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import bdtr, betainc, logsumexp, softmax

KAPPA = 8.0
"""Games that a prediction counts for (DI-engine believes a win-rate from 8 games on: `min_win_rate_games`)."""
POPULATION = 50
ALPHA = 100.0
"""alpha-rank's population size and intensity of selection: the defaults of OpenSpiel's `alpharank.compute`."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

PATH_END = 1e-13
"""Mean of probability times loss, both about 1 at first, at which a central path ends."""
FEW = 8
"""Games of a pair up to which its made-up results are drawn by inversion."""
ROWS_AT_ONCE = 16
STATES_AT_ONCE = 32
"""Of alpha-rank's chain: what is worked out together, so that it lies in the processor's cache."""


@dataclass(frozen=True)
class Crosstable:
    """Finished games between N agents, seats put together.

    agents: N ids. wins: (N, N), won by the row agent against the column agent; of payoffs the share of the games that
    they are worth. draws: (N, N), symmetric.
    The diagonals are 0: a game of an agent against itself says nothing about who is better.
    """

    agents: tuple[str, ...]
    wins: Ints | Floats
    draws: Ints | Floats

    @property
    def games(self) -> Ints:
        """(N, N), symmetric: all games of each pair."""
        return np.rint(self.wins + self.wins.T + self.draws).astype(np.int64)

    @property
    def score(self) -> Floats:
        """(N, N): the row agent's mean score against the column agent; NaN where they never met."""
        points = self.wins + 0.5 * self.draws
        score: Floats = np.divide(points, self.games, out=np.full(points.shape, np.nan), where=self.games > 0)
        return score

    def payoff(self, expected: Floats, kappa: float = KAPPA) -> Floats:
        """(N, N) margins without a gap, antisymmetric: scores shrunk towards `expected` (N, N), see `shrunk_scores`."""
        margin = 2.0 * shrunk_scores(self.wins + 0.5 * self.draws, self.games, expected, kappa) - 1.0
        np.fill_diagonal(margin, 0.0)
        return margin


def shrunk_scores(points: npt.ArrayLike, games: npt.ArrayLike, expected: npt.ArrayLike, kappa: float) -> Floats:
    """(points + kappa * expected) / (games + kappa): mean scores, as if `kappa` more games had gone as expected.

    A pair without games has the expected score; one with many has its own.
    """
    points, games, expected = (np.asarray(x, np.float64) for x in (points, games, expected))
    return np.asarray((points + kappa * expected) / (games + kappa), np.float64)


class Nash(NamedTuple):
    """Equilibrium of a zero-sum matrix game: (m,) and (n,) probabilities, and what the row player expects."""

    rows: Floats
    columns: Floats
    value: float


def nash(payoff: Floats) -> Nash:
    """The Nash equilibrium of greatest entropy of the zero-sum game `payoff` (m, n), the row player's gain.

    Of an antisymmetric matrix of margins `rows` is the mixture of Nash averaging (Balduzzi et al. 2018,
    arXiv:1806.02643, section 4.1): unique, and the same however often an agent is copied.

    A central path ends at a strictly complementary pair of equilibria (Goldman and Tucker 1956): whatever some
    equilibrium plays has a probability, every other move a loss. On these supports the entropy is maximised through
    its dual, p ~ exp(A z), whose optimum is finite there.

    Raises:
        ArithmeticError: a payoff is not finite.
    """
    scale = _scale(payoff)
    if scale == 0.0:
        m, n = payoff.shape
        return Nash(np.full(m, 1.0 / m), np.full(n, 1.0 / n), 0.0)
    a = payoff / scale
    (p, rows), (q, columns), value = _complementary_equilibria(a)
    best_rows = _of_greatest_entropy(a, p, rows, columns, value)
    is_own = payoff.shape[0] == payoff.shape[1] and p is q
    best_columns = best_rows if is_own else _of_greatest_entropy(-a.T, q, columns, rows, -value)
    return Nash(best_rows, best_columns, value * scale + 0.0)  # no -0.0


def _scale(payoff: Floats) -> float:
    scale = float(np.max(np.abs(payoff)))
    if not np.isfinite(scale):
        raise ArithmeticError("no equilibrium: a payoff is not finite")
    return scale


Strategy = tuple[Floats, Bools]
"""Probabilities (m,), and which of them are above 0 where loss and probability are told apart."""


def _complementary_equilibria(a: Floats) -> tuple[Strategy, Strategy, float]:
    """Equilibrium strategies of both players and the value, of payoffs (m, n) in [-1, 1].

    An antisymmetric game is its own skew form and has value 0. Any other is put into one of size m + n + 1 (Gale, Kuhn
    and Tucker 1951, "Linear programming and the theory of games"), which needs a value above 0.
    """
    m, n = a.shape
    if m == n and np.allclose(a, -a.T, rtol=0.0, atol=1e-12):
        own = _strategy(*_central_path((a - a.T) / 2.0))
        return own, own, 0.0
    skew = np.zeros((m + n + 1, m + n + 1))
    skew[:m, m:-1] = a + 2.0
    skew[:m, -1], skew[m:-1, -1] = -1.0, 1.0
    x, s = _central_path(skew - skew.T)
    rows, columns = _strategy(x[:m], s[:m]), _strategy(x[m:-1], s[m:-1])
    return rows, columns, float(rows[0] @ a @ columns[0])


def _strategy(x: Floats, s: Floats) -> Strategy:
    """Of a path's end: what is more likely than it loses."""
    is_played = x > s
    return np.where(is_played, x, 0.0) / x[is_played].sum(), is_played


def _central_path(skew: Floats) -> tuple[Floats, Floats]:
    """x (n,) and s = x A (n,) of an antisymmetric A, both at least 0, x s = 0 and x + s > 0.

    Mehrotra's predictor and corrector on the self-dual form (Xu, Hung and Ye 1996, Annals of Operations Research 62):
    s - x A is a residual that falls as x s does, and x keeps its size.
    """
    a = skew.T
    x, s = np.ones(len(a)), np.ones(len(a))
    mean, last = 1.0, np.inf
    while mean > PATH_END and (mean > 1e5 * PATH_END or mean < last / 2.0):
        residual = s - a @ x
        system = a.copy()
        system[np.diag_indices_from(system)] += s / x
        factor = lu_factor(system, overwrite_a=True, check_finite=False)
        dx, ds = _newton(a, factor, x, s, np.zeros_like(x), residual)
        left = 1.0 - min(1.0, _longest_step(x, dx, s, ds))
        centre = left**2 * min(1.0, left + 0.05)
        dx, ds = _newton(a, factor, x, s, centre * mean - dx * ds, (1.0 - centre) * residual)
        length = min(1.0, 0.95 * _longest_step(x, dx, s, ds))
        x, s = x + length * dx, s + length * ds
        last, mean = mean, float(x @ s) / len(x)
    return x, s


def _newton(
    a: Floats, factor: tuple[Floats, Ints], x: Floats, s: Floats, target: Floats, lost: Floats
) -> tuple[Floats, Floats]:
    """The step dx, ds on which, to first order, x s becomes `target` and s - a x falls by `lost`."""
    dx = np.asarray(lu_solve(factor, (target - x * s) / x + lost, check_finite=False), np.float64)
    return dx, a @ dx - lost


def _longest_step(x: Floats, dx: Floats, s: Floats, ds: Floats) -> float:
    """The step at which the first of x and s is 0."""
    z, dz = np.concatenate([x, s]), np.concatenate([dx, ds])
    falls = dz < 0.0
    return float(np.min(-z[falls] / dz[falls], initial=np.inf))


def _of_greatest_entropy(a: Floats, inner: Floats, support: Bools, tight: Bools, value: float) -> Floats:
    """The p (m,) of greatest entropy on `support` with (p a)_j = value for `tight` columns j, >= value for others.

    inner: such a p that is above 0 on all of `support`, returned where it is the only one. Equalities stand as
    an orthonormal basis of what they span, in the metric of `inner`, in which the dual is well conditioned. Of the
    inequalities only those are taken in that would be broken.
    """
    own, result = a[support] - value, np.zeros(len(a))
    weight = np.sqrt(inner[support])
    basis, sizes, _ = svd(weight[:, None] * own[:, tight], full_matrices=False, check_finite=False)
    span = basis[:, sizes > 1e-9] / weight[:, None]
    if span.shape[1] == len(own) - 1:
        return inner
    broken = np.zeros(len(tight), np.bool_)
    while True:
        terms = np.hstack([span, own[:, broken]])
        free = np.arange(terms.shape[1]) < span.shape[1]
        mixture = _softest(terms, free)
        new = ~tight & ~broken & (mixture @ own < -1e-9)
        if not new.any():
            result[support] = mixture
            return result
        broken |= new


def _softest(terms: Floats, free: Bools) -> Floats:
    """The mixture (k,) ~ exp(terms z) whose exponentials have the least sum; z at least 0 where not `free`."""

    def dual(z: Floats) -> tuple[float, Floats]:
        logits = terms @ z
        return float(logsumexp(logits)), softmax(logits) @ terms

    if not len(free):
        return np.full(len(terms), 1.0 / len(terms))
    bounds = [(None, None) if is_free else (0.0, None) for is_free in free]
    options = {"maxiter": 20_000, "maxfun": 100_000, "ftol": 1e-16, "gtol": 1e-12, "maxcor": 30}
    best = minimize(dual, np.zeros(terms.shape[1]), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(softmax(terms @ best.x), np.float64)


def relative_population_performance(payoff: Floats) -> float:
    """What population B (m agents) gains on population C (n) where both mix as they do best: p* A q*.

    payoff: (m, n) margins of B's agents against C's. Unlike Elo it does not rise by beating weak agents only (Balduzzi
    et al. 2019, arXiv:1901.08106, definition 3).
    """
    scale = _scale(payoff)
    return _complementary_equilibria(payoff / scale)[2] * scale + 0.0 if scale else 0.0


def alpha_rank(payoff: Floats, population: int = POPULATION, alpha: float = ALPHA) -> Floats:
    """The share of time (N,) that a population spends with each agent, as mutants replace it (alpha-rank).

    The stationary distribution of the single-population chain of Omidshafiei et al. 2019 (arXiv:1903.01373, equations
    5 to 9): one mutant of another kind at a time either dies out or takes over, by a Moran process whose fitness is
    the payoff against the whole population. All in logarithms, so that a large alpha, where a losing mutant's chance
    is below e^-1000, neither underflows nor splits the chain.

    Args:
        payoff: (N, N), the row agent's against the column agent; it need not be antisymmetric.
        population: m, at least 2.
        alpha: intensity of selection. Large: only who beats whom counts; small: all alike.
    """
    log_rho = _log_fixation(payoff, population, alpha)
    return np.asarray(np.exp(_log_stationary(log_rho)), np.float64)


def _log_fixation(payoff: Floats, m: int, alpha: float) -> Floats:
    """(N, N): log-probability that one mutant (column) takes over a population of m - 1 others (row)."""
    mutants = np.arange(1, m)[:, None, None]
    own = np.diag(payoff)
    result = np.empty_like(payoff)
    for begin in range(0, len(payoff), ROWS_AT_ONCE):
        rows = slice(begin, begin + ROWS_AT_ONCE)
        as_mutant = ((mutants - 1) * own[None, None, :] + (m - mutants) * payoff.T[rows]) / (m - 1)
        as_resident = ((m - mutants - 1) * own[None, rows, None] + mutants * payoff[rows]) / (m - 1)
        fall = -alpha * np.cumsum(as_mutant - as_resident, axis=0)
        top = np.maximum(fall.max(axis=0, initial=0.0), 0.0)
        result[rows] = -top - np.log(np.exp(-top) + np.exp(fall - top).sum(axis=0))
    return result


def _log_stationary(log_rate: Floats) -> Floats:
    """(N,): log of the stationary distribution of a chain with these log-rates (N, N) from row to column.

    Grassmann, Taksar and Heyman 1985 (Operations Research 33): states are taken out one by one without a subtraction.
    What a block of them adds to the rates of all others is added at once, as a matrix product.
    """
    rate = log_rate.copy()
    size = top = len(rate)
    while top > 1:
        low = max(top - STATES_AT_ONCE, 1)
        for n in range(top - 1, low - 1, -1):
            rate[:n, n] -= logsumexp(rate[n, :n])
            rate[low:n, :n] = np.logaddexp(rate[low:n, :n], rate[low:n, n, None] + rate[None, n, :n])
            rate[:low, low:n] = np.logaddexp(rate[:low, low:n], rate[:low, n, None] + rate[None, n, low:n])
        _add_log_product(rate[:low, :low], rate[:low, low:top], rate[low:top, :low])
        top = low
    result = np.zeros(size)
    for n in range(1, size):
        result[n] = logsumexp(result[:n] + rate[:n, n])
    return np.asarray(result - logsumexp(result), np.float64)


def _add_log_product(total: Floats, left: Floats, right: Floats) -> None:
    """total = log(exp(total) + exp(left) exp(right)), (m, n) += (m, k) (k, n), in place.

    Rows and columns are scaled to have 1 as their largest. A product that is too small for a double then is worked out
    in logarithms, unless it is too small to change the total, too.
    """
    row, column = left.max(axis=1)[:, None], right.max(axis=0)[None, :]
    product = np.exp(left - row) @ np.exp(right - column)
    i, j = np.nonzero((product < 1e-280) & (row + column + np.log(1e-270) > total - 40.0))
    with np.errstate(divide="ignore"):
        added = np.log(product) + row + column
    for begin in range(0, len(i), 2**16):
        some = slice(begin, begin + 2**16)
        added[i[some], j[some]] = logsumexp(left[i[some]] + right[:, j[some]].T, axis=1)
    np.logaddexp(total, added, out=total)


def cyclic_share(payoff: Floats) -> float:
    """The share in [0, 1] of the known payoffs' squares that no ranking explains: |A - grad r|^2 / |A|^2.

    grad r is the gradient r_i - r_j that fits the known cells best, the transitive part of the Hodge decomposition
    (Jiang et al. 2011, "Statistical ranking and combinatorial Hodge theory"; Balduzzi et al. 2018, section 2.1).

    0: who beats whom follows from one number an agent; 1: rock-paper-scissors. NaN where no pair has met. Chance alone
    makes it larger than 0, see `cyclic_share_by_chance`.
    """
    first, second, margin = _met(payoff)
    return _Laplacian(len(payoff), first, second).cyclic_share(margin)


def cyclic_share_by_chance(table: Crosstable, expected: Floats, rng: np.random.Generator, samples: int = 200) -> Floats:
    """Cyclic shares (samples,) of made-up results, in which every score is the `expected` one (N, N) of a ranking.

    Each pair plays as many games as it did; those that it drew stay drawn.
    """
    first, second = np.nonzero(np.triu(table.games, 1))
    games, draws = table.games[first, second], table.draws[first, second]
    decided = np.rint(games - draws).astype(np.int64)
    points = expected[first, second] * games - 0.5 * draws
    chance = np.clip(np.divide(points, decided, out=np.full(len(games), 0.5), where=decided > 0), 0.0, 1.0)
    draw, laplacian = _binomials(decided, chance, rng), _Laplacian(len(table.agents), first, second)
    return np.array([laplacian.cyclic_share((2.0 * draw() + draws) / games - 1.0) for _ in range(samples)])


def _binomials(num: Ints, chance: Floats, rng: np.random.Generator) -> Callable[[], Ints]:
    """Draws (P,) successes of `num` tries each, again at each call.

    Up to `FEW` tries by inversion: one uniform number a pair, and how many steps of its distribution lie below it.
    """
    order = np.argsort(-num, kind="stable")
    many, size = int(np.sum(num > FEW)), len(num)
    tries, p = num[order[many:]], chance[order[many:]]
    steps = [bdtr(k, tries[: np.sum(tries > k)], p[: np.sum(tries > k)]) for k in range(FEW)]

    def draw() -> Ints:
        found = np.empty(size, np.int64)
        found[order[:many]] = rng.binomial(num[order[:many]], chance[order[:many]])
        few, uniform = np.zeros(size - many, np.int64), rng.random(size - many)
        for step in steps:
            few[: len(step)] += uniform[: len(step)] >= step
        found[order[many:]] = few
        return found

    return draw


def _met(payoff: Floats) -> tuple[Ints, Ints, Floats]:
    """The P pairs that are known, first < second, and the first's payoff against the second."""
    first, second = np.nonzero(np.triu(~np.isnan(payoff), 1))
    return first, second, payoff[first, second]


class _Laplacian:
    """Least squares on the graph of P pairs of N agents, each pair an edge with a margin.

    The Laplacian's null vectors are the connected components; with these projected on, it has an inverse.
    """

    def __init__(self, size: int, first: Ints, second: Ints) -> None:
        pairs = np.arange(len(first))
        ends = np.concatenate([first, second]), np.concatenate([pairs, pairs])
        signs = np.repeat([1.0, -1.0], len(first))
        self._incidence = csr_array((signs, ends), shape=(size, len(first)))
        laplacian = (self._incidence @ self._incidence.T).toarray()
        _, component = connected_components(laplacian, directed=False)
        null = (component[:, None] == component[None, :]) / np.bincount(component)[component]
        self._inverse = np.asarray(inv(laplacian + null) - null, np.float64)

    def cyclic_share(self, margin: Floats) -> float:
        """What that gradient leaves of the margins' squares (a projection's complement); see `cyclic_share`."""
        if not len(margin):
            return float("nan")
        gains, total = self._incidence @ margin, float(margin @ margin)
        return max(0.0, 1.0 - float(gains @ self._inverse @ gains) / total) if total else 0.0


class Cycle(NamedTuple):
    """Three agents of which each beats the next and the last the first."""

    agents: tuple[int, int, int]
    """Their indices in the cross table."""
    weakest: float
    """The least of the three scores, above 0.5."""
    certainty: float
    """The probability that all three truly score above 0.5 (Jeffreys' prior, a draw as half a win)."""


def cycles(table: Crosstable, most: int = 10) -> tuple[int, list[Cycle]]:
    """How many 3-cycles the results show, and the surest of them, at most `most`, the surest first.

    With few games most of them are chance: look at `certainty`.
    """
    score = np.nan_to_num(table.score, nan=0.0)
    np.fill_diagonal(score, 0.0)
    beats = score > 0.5
    points = table.wins + 0.5 * table.draws
    sure = np.where(beats, 1.0 - betainc(points + 0.5, points.T + 0.5, 0.5), 0.0)
    edges = beats.astype(np.float64)
    count = round(float(np.sum((edges @ edges) * edges.T)) / 3.0)
    found: list[Cycle] = []
    least, weak = 0.0, 0.0
    for i in range(len(score)):  # the least of the three, so that each cycle is found once
        j = i + 1 + np.flatnonzero(beats[i, i + 1 :] & (sure[i, i + 1 :] >= least))
        k = i + 1 + np.flatnonzero(beats[i + 1 :, i] & (sure[i + 1 :, i] >= least))
        certainty = sure[i, j, None] * sure[np.ix_(j, k)] * sure[None, k, i]
        good = certainty > least
        if (
            least > 0.0 and (certainty == least).any()
        ):  # as sure as the last that is listed, and before it where it is stronger
            good |= (certainty == least) & (_weakest(score, i, j, k) > weak)
        better, strong = np.nonzero(good)
        if not len(better):
            continue
        weakest = _weakest(score, i, j, k)[better, strong]
        for n in np.lexsort((-weakest, -certainty[better, strong]))[:most]:
            at = better[n], strong[n]
            found.append(Cycle((i, int(j[at[0]]), int(k[at[1]])), float(weakest[n]), float(certainty[at])))
        found = sorted(found, key=lambda cycle: (-cycle.certainty, -cycle.weakest, cycle.agents))[:most]
        if len(found) == most:
            least, weak = found[-1].certainty, found[-1].weakest
    return count, found


def _weakest(score: Floats, i: int, j: Ints, k: Ints) -> Floats:
    """(J, K): the least score on each way from i over j and k back."""
    return np.minimum(np.minimum(score[i, j, None], score[np.ix_(j, k)]), score[None, k, i])
