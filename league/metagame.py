"""The metagame: agents as the moves of one zero-sum game. Its Nash equilibrium, alpha-rank, and how cyclic it is.

A payoff is a margin in [-1, 1]: the row agent's expected score (a draw is half a win), minus the column agent's. A
cell that is not known is NaN. Pure functions; what they say of real results is only as sure as the games behind them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import pinv
from scipy.optimize import linprog, minimize
from scipy.special import betainc, logsumexp, softmax

KAPPA = 8.0
"""Games that a prediction counts for (DI-engine believes a win-rate from 8 games on: `min_win_rate_games`)."""
POPULATION = 50
ALPHA = 100.0
"""alpha-rank's population size and intensity of selection: the defaults of OpenSpiel's `alpharank.compute`."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Crosstable:
    """Finished games between N agents, seats put together.

    agents: N ids. wins: (N, N) int64, won by the row agent against the column agent. draws: (N, N) int64, symmetric.
    The diagonals are 0: a game of an agent against itself says nothing about who is better.
    """

    agents: tuple[str, ...]
    wins: Ints
    draws: Ints

    @property
    def games(self) -> Ints:
        """(N, N) int64, symmetric: all games of each pair."""
        return self.wins + self.wins.T + self.draws

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

    One linear programme finds a strictly complementary pair of equilibria (Goldman and Tucker 1956): whatever some
    equilibrium plays has a probability, every other move a loss. On these supports the entropy is maximised through
    its dual, p ~ exp(A z), whose optimum is finite there.
    """
    scale = float(np.max(np.abs(payoff)))
    if scale == 0.0:
        m, n = payoff.shape
        return Nash(np.full(m, 1.0 / m), np.full(n, 1.0 / n), 0.0)
    a = payoff / scale
    p, q, value = _complementary_equilibria(a)
    rows = p > value - a @ q
    columns = q > a.T @ p - value
    best_rows = _of_greatest_entropy(a, rows, columns, value)
    best_columns = _of_greatest_entropy(-a.T, columns, rows, -value)
    return Nash(best_rows, best_columns, value * scale + 0.0)  # no -0.0


def _complementary_equilibria(a: Floats) -> tuple[Floats, Floats, float]:
    """Equilibrium strategies p (m,) and q (n,) and the value: max t with p_i + loss_i >= t and q_j + loss_j >= t."""
    m, n = a.shape
    identity_m, identity_n, one_m, one_n = np.eye(m), np.eye(n), np.ones((m, 1)), np.ones((n, 1))
    zero_mm, zero_nn = np.zeros((m, m)), np.zeros((n, n))
    at_most_zero = np.block(
        [
            [-a.T, zero_nn, one_n, 0 * one_n],
            [zero_mm, a, -one_m, 0 * one_m],
            [-identity_m, a, -one_m, one_m],
            [-a.T, -identity_n, one_n, one_n],
        ]
    )
    sums = np.zeros((2, m + n + 2))
    sums[0, :m] = sums[1, m : m + n] = 1.0
    cost = np.zeros(m + n + 2)
    cost[-1] = -1.0
    found = linprog(
        cost,
        A_ub=at_most_zero,
        b_ub=np.zeros(len(at_most_zero)),
        A_eq=sums,
        b_eq=[1.0, 1.0],
        bounds=[(0.0, None)] * (m + n) + [(None, None), (None, 1.0)],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if found.x is None:
        raise ArithmeticError(f"no equilibrium found ({found.message}); is a payoff not finite?")
    return found.x[:m], found.x[m : m + n], float(found.x[-2])


def _of_greatest_entropy(
    a: Floats, support: npt.NDArray[np.bool_], tight: npt.NDArray[np.bool_], value: float
) -> Floats:
    """The p (m,) of greatest entropy on `support` with (p a)_j = value for `tight` columns j, >= value for others."""
    own = a[support]

    def dual(z: Floats) -> tuple[float, Floats]:
        logits = own @ z
        return float(logsumexp(logits) - value * z.sum()), softmax(logits) @ own - value

    bounds = [(None, None) if is_tight else (0.0, None) for is_tight in tight]
    options = {"maxiter": 20_000, "maxfun": 100_000, "ftol": 1e-16, "gtol": 1e-12, "maxcor": 30}
    best = minimize(dual, np.zeros(a.shape[1]), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    result = np.zeros(len(a))
    result[support] = softmax(own @ best.x)
    return result


def relative_population_performance(payoff: Floats) -> float:
    """What population B (m agents) gains on population C (n) where both mix as they do best: p* A q*.

    payoff: (m, n) margins of B's agents against C's. Unlike Elo it does not rise by beating weak agents only (Balduzzi
    et al. 2019, arXiv:1901.08106, definition 3).
    """
    return nash(payoff).value


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
    as_mutant = ((mutants - 1) * own[None, None, :] + (m - mutants) * payoff.T) / (m - 1)
    as_resident = ((m - mutants - 1) * own[None, :, None] + mutants * payoff) / (m - 1)
    climb = np.cumsum(as_mutant - as_resident, axis=0)
    return np.asarray(-logsumexp(np.concatenate([np.zeros((1, *payoff.shape)), -alpha * climb]), axis=0), np.float64)


def _log_stationary(log_rate: Floats) -> Floats:
    """(N,): log of the stationary distribution of a chain with these log-rates (N, N) from row to column.

    Grassmann, Taksar and Heyman 1985 (Operations Research 33): states are taken out one by one without a subtraction.
    """
    rate = log_rate.copy()
    size = len(rate)
    for n in range(size - 1, 0, -1):
        rate[:n, n] -= logsumexp(rate[n, :n])
        rate[:n, :n] = np.logaddexp(rate[:n, :n], rate[:n, n, None] + rate[None, n, :n])
    result = np.zeros(size)
    for n in range(1, size):
        result[n] = logsumexp(result[:n] + rate[:n, n])
    return np.asarray(result - logsumexp(result), np.float64)


def transitive_part(payoff: Floats) -> Floats:
    """(N, N): the gradient r_i - r_j that fits the known cells best (least squares; each pair counts once).

    Where all cells are known, r_i is the mean of row i: the transitive part of the Hodge decomposition (Jiang et al.
    2011, "Statistical ranking and combinatorial Hodge theory"; Balduzzi et al. 2018, section 2.1).
    """
    return _gradient(payoff, _inverse_laplacian(payoff))


def cyclic_share(payoff: Floats) -> float:
    """The share in [0, 1] of the known payoffs' squares that no ranking explains: |A - grad r|^2 / |A|^2.

    0: who beats whom follows from one number an agent; 1: rock-paper-scissors. NaN where no pair has met. Chance alone
    makes it larger than 0, see `cyclic_share_by_chance`.
    """
    return _cyclic_share(payoff, _inverse_laplacian(payoff))


def cyclic_share_by_chance(table: Crosstable, expected: Floats, rng: np.random.Generator, samples: int = 200) -> Floats:
    """Cyclic shares (samples,) of made-up results, in which every score is the `expected` one (N, N) of a ranking.

    Each pair plays as many games as it did; those that it drew stay drawn.
    """
    games, draws = table.games, table.draws
    decided = games - draws
    points = expected * games - 0.5 * draws
    chance = np.clip(np.divide(points, decided, out=np.full(expected.shape, 0.5), where=decided > 0), 0.0, 1.0)
    inverse = _inverse_laplacian(table.score)
    shares = []
    for _ in range(samples):
        upper = np.triu(rng.binomial(decided, chance), 1)
        wins = upper + np.tril(decided - upper.T, -1)
        shares.append(_cyclic_share(2.0 * Crosstable(table.agents, wins, draws).score - 1.0, inverse))
    return np.array(shares)


def _inverse_laplacian(payoff: Floats) -> Floats:
    """(N, N): the pseudo-inverse of the Laplacian of the graph of the pairs that are known."""
    known = _known(payoff)
    return np.asarray(pinv(np.diag(known.sum(axis=1).astype(np.float64)) - known), np.float64)


def _gradient(payoff: Floats, inverse: Floats) -> Floats:
    strength = inverse @ np.where(_known(payoff), payoff, 0.0).sum(axis=1)
    return np.asarray(strength[:, None] - strength[None, :], np.float64)


def _cyclic_share(payoff: Floats, inverse: Floats) -> float:
    known = _known(payoff)
    total = float(np.sum(payoff[known] ** 2))
    if not known.any():
        return float("nan")
    return float(np.sum((payoff - _gradient(payoff, inverse))[known] ** 2)) / total if total else 0.0


class Cycle(NamedTuple):
    """Three agents of which each beats the next and the last the first."""

    agents: tuple[int, int, int]
    """Their places in the cross table."""
    weakest: float
    """The least of the three scores, above 0.5."""
    certainty: float
    """The probability that all three truly score above 0.5 (Jeffreys' prior, a draw as half a win)."""


def cycles(table: Crosstable, most: int = 10) -> tuple[int, list[Cycle]]:
    """How many 3-cycles the results show, and the surest of them, at most `most`, the surest first.

    With few games most of them are chance: look at `certainty`.
    """
    score = table.score
    beats = np.nan_to_num(score, nan=0.0) > 0.5
    np.fill_diagonal(beats, False)
    points = table.wins + 0.5 * table.draws
    sure = np.asarray(1.0 - betainc(points + 0.5, points.T + 0.5, 0.5), np.float64)
    found: list[Cycle] = []
    count = 0
    for i in range(len(score)):  # the least of the three, so that each cycle is found once
        j, k = np.nonzero(beats[i, i + 1 :, None] & beats[i + 1 :, i + 1 :] & beats[None, i + 1 :, i])
        j, k = j + i + 1, k + i + 1
        count += len(j)
        certainty = sure[i, j] * sure[j, k] * sure[k, i]
        weakest = np.minimum(np.minimum(score[i, j], score[j, k]), score[k, i])
        for n in np.lexsort((-weakest, -certainty))[:most]:
            found.append(Cycle((i, int(j[n]), int(k[n])), float(weakest[n]), float(certainty[n])))
    found.sort(key=lambda cycle: (-cycle.certainty, -cycle.weakest, cycle.agents))
    return count, found[:most]


def _known(payoff: Floats) -> npt.NDArray[np.bool_]:
    """(N, N): the pairs whose payoff is known."""
    known = ~np.isnan(payoff)
    np.fill_diagonal(known, False)
    return known
