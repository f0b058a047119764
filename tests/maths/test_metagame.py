"""Nash, alpha-rank, cycles and shrinkage against published numbers, OpenSpiel, and slow twins in plain numpy."""

from __future__ import annotations

from itertools import combinations, permutations, product

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import linprog
from scipy.special import betainc, logsumexp

from league.maths.metagame import (
    Crosstable,
    Cycle,
    _log_fixation,
    _log_stationary,
    alpha_rank,
    cycles,
    cyclic_share,
    cyclic_share_by_chance,
    nash,
)

Floats = npt.NDArray[np.float64]

ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
# `matrix_brps` of OpenSpiel (Lanctot et al. 2019, arXiv:1908.09453); its Nash is (1/16, 10/16, 5/16), value 0.
BIASED = np.array([[0.0, -25.0, 50.0], [25.0, 0.0, -5.0], [-50.0, 5.0, 0.0]])


def han() -> Floats:
    """Payoffs of Han et al. 2013 ("Good agreements make good friends"), as OpenSpiel's `alpharank_test.py` has them."""
    r, t, p, s, delta, eps = 1.0, 2.0, 0.0, -1.0, 4.0, 0.25
    return np.array(
        [
            [r - eps / 2, r - eps, 0.0, s + delta - eps, r - eps],
            [r, r, s, s, s],
            [0.0, t, p, p, p],
            [t - delta, t, p, p, p],
            [r, t, p, p, p],
        ]
    )


def antisymmetric(size: int, seed: int, levels: int = 0) -> Floats:
    """Random margins; with `levels` only that many different ones, so that there are ties."""
    a = np.random.default_rng(seed).uniform(-1.0, 1.0, (size, size))
    upper = np.triu(np.round(a * levels) / levels if levels else a, 1)
    return upper - upper.T


def test_known_equilibria() -> None:
    """Biased rock-paper-scissors, matching pennies and a dominance game have the equilibria of the books."""
    found = nash(BIASED)
    assert found.rows == pytest.approx([1 / 16, 10 / 16, 5 / 16]) and found.value == pytest.approx(0.0, abs=1e-9)
    assert found.columns == pytest.approx(found.rows)
    assert nash(ROCK_PAPER_SCISSORS).rows == pytest.approx([1 / 3] * 3)
    # A cycle whose margins are 1, 4000 and 1 is played 1 : 4000 : 1, each agent as the margin that it is no part of.
    rare = nash(np.array([[0.0, -1.0, 4000.0], [1.0, 0.0, -1.0], [-4000.0, 1.0, 0.0]])).rows
    assert rare * 4002 == pytest.approx([1.0, 4000.0, 1.0], rel=1e-4)
    pennies = nash(np.array([[1.0, -1.0], [-1.0, 1.0]]))
    assert pennies.rows == pytest.approx([0.5, 0.5]) and pennies.value == pytest.approx(0.0)
    # von Neumann's 2 x 2: value (ad - bc) / (a + d - b - c) = (3*4 - 1*2) / (3 + 4 - 1 - 2).
    assert nash(np.array([[3.0, 1.0], [2.0, 4.0]])).value == pytest.approx(2.5)


def test_nash_averaging_of_balduzzi() -> None:
    """A strictly best agent takes all; copies share an agent's mass and change nobody else's."""
    skill = np.array([0.0, 1.0, 2.0])
    assert nash(np.tanh(skill[:, None] - skill[None, :])).rows == pytest.approx([0.0, 0.0, 1.0])
    copied = BIASED[np.ix_([0, 1, 1, 2], [0, 1, 1, 2])]
    assert nash(copied).rows == pytest.approx([1 / 16, 5 / 16, 5 / 16, 5 / 16])
    assert nash(np.zeros((4, 4))).rows == pytest.approx([0.25] * 4)


def supports_by_programme(a: Floats) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], float]:
    """What some equilibrium of `a` (m, n) plays, and the value, by one linear programme (Goldman and Tucker 1956).

    max t with p_i + loss_i >= t and q_j + loss_j >= t: where t is above 0, p and q are strictly complementary.
    """
    m, n = a.shape
    one_m, one_n, zero_m, zero_n = np.ones((m, 1)), np.ones((n, 1)), np.zeros((m, 1)), np.zeros((n, 1))
    at_most_zero = np.block(
        [
            [-a.T, np.zeros((n, n)), one_n, zero_n],
            [np.zeros((m, m)), a, -one_m, zero_m],
            [-np.eye(m), a, -one_m, one_m],
            [-a.T, -np.eye(n), one_n, one_n],
        ]
    )
    sums = np.zeros((2, m + n + 2))
    sums[0, :m] = sums[1, m : m + n] = 1.0
    found = linprog(
        np.append(np.zeros(m + n + 1), -1.0),
        A_ub=at_most_zero,
        b_ub=np.zeros(2 * (m + n)),
        A_eq=sums,
        b_eq=[1.0, 1.0],
        bounds=[(0.0, None)] * (m + n) + [(None, None), (None, 1.0)],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    p, q, value = found.x[:m], found.x[m : m + n], float(found.x[-2])
    return p > value - a @ q, q > a.T @ p - value, value


@pytest.mark.parametrize("levels", [0, 1, 2, 5])
def test_the_central_path_ends_where_the_linear_programme_does(levels: int) -> None:
    for size, seed in product((2, 3, 5, 8, 14, 40), range(4)):
        oblong = np.random.default_rng(seed).uniform(-1.0, 1.0, (size, size // 2 + 1))
        oblong = np.round(oblong * levels) / levels if levels else oblong
        for game in (antisymmetric(size, seed, levels), oblong):
            rows, columns, value = supports_by_programme(game)
            found = nash(game)
            assert found.value == pytest.approx(value, abs=1e-9)
            assert ((found.rows > 1e-7) == rows).all() and ((found.columns > 1e-7) == columns).all()
            assert (found.rows @ game).min() > value - 1e-8 and (game @ found.columns).max() < value + 1e-8


def test_alpha_rank_of_han_et_al() -> None:
    """The stationary distribution published with OpenSpiel's tests: Han et al. 2013, m = 20, alpha = 0.1."""
    expected = [0.40966787, 0.07959841, 0.20506998, 0.08505983, 0.2206039]
    assert alpha_rank(han(), 20, 0.1) == pytest.approx(expected, abs=1e-8)


def log_stationary_state_by_state(payoff: Floats, m: int, alpha: float) -> Floats:
    """alpha-rank in logarithms with all arrays whole and states taken out one at a time."""
    mutants = np.arange(1, m)[:, None, None]
    own = np.diag(payoff)
    as_mutant = ((mutants - 1) * own[None, None, :] + (m - mutants) * payoff.T) / (m - 1)
    as_resident = ((m - mutants - 1) * own[None, :, None] + mutants * payoff) / (m - 1)
    climb = np.cumsum(as_mutant - as_resident, axis=0)
    rate = -logsumexp(np.concatenate([np.zeros((1, *payoff.shape)), -alpha * climb]), axis=0)
    size = len(rate)
    for n in range(size - 1, 0, -1):
        rate[:n, n] -= logsumexp(rate[n, :n])
        rate[:n, :n] = np.logaddexp(rate[:n, :n], rate[:n, n, None] + rate[None, n, :n])
    result = np.zeros(size)
    for n in range(1, size):
        result[n] = logsumexp(result[:n] + rate[:n, n])
    return np.asarray(result - logsumexp(result))


@pytest.mark.parametrize("alpha", [0.1, 3.0, 100.0, 1e5])
def test_alpha_rank_in_blocks_is_alpha_rank_state_by_state(alpha: float) -> None:
    rng = np.random.default_rng(0)
    skill = np.sort(rng.normal(size=90))
    ranking = np.tanh(skill[:, None] - skill[None, :])
    cyclic = np.kron(ROCK_PAPER_SCISSORS, np.ones((30, 30)))
    for payoff in (ranking, ranking[::-1, ::-1], antisymmetric(90, 1), cyclic, antisymmetric(90, 1, 1), han()):
        expected = log_stationary_state_by_state(payoff, 50, alpha)
        found = _log_stationary(_log_fixation(payoff, 50, alpha))
        assert found == pytest.approx(expected, rel=1e-11, abs=1e-9)


def test_openspiel_agrees() -> None:
    """OpenSpiel's alpha-rank and Nash averaging (extra `verify`) give the same on random agents."""
    alpharank = pytest.importorskip("open_spiel.python.egt.alpharank")
    averaging = pytest.importorskip("open_spiel.python.algorithms.nash_averaging")
    for seed in range(4):
        payoff = antisymmetric(7, seed)
        for m, alpha in ((20, 0.1), (50, 2.0)):
            theirs = alpharank.compute([payoff], m=m, alpha=alpha, use_local_selection_model=False)[2]
            assert alpha_rank(payoff, m, alpha) == pytest.approx(theirs, abs=1e-6)
        for levels in (0, 1):
            payoff = antisymmetric(7, seed, levels)
            theirs = averaging._max_entropy_symmetric_nash(payoff, eps=0.0).ravel()
            assert nash(payoff).rows == pytest.approx(theirs, abs=1e-3)


def test_cyclic_share_of_known_games() -> None:
    """Rock-paper-scissors is all cycle, a gradient none, and of their sum the share follows from the squares."""
    assert cyclic_share(ROCK_PAPER_SCISSORS) == pytest.approx(1.0)
    strength = np.array([2.0, 0.5, -2.5])
    gradient = strength[:, None] - strength[None, :]
    assert cyclic_share(gradient) == pytest.approx(0.0)
    # The two are orthogonal: |RPS|^2 = 6, |gradient|^2 = 2 (1.5^2 + 4.5^2 + 3^2).
    assert cyclic_share(ROCK_PAPER_SCISSORS + gradient) == pytest.approx(6 / (6 + 2 * (2.25 + 20.25 + 9)))
    assert cyclic_share(np.zeros((3, 3))) == 0.0
    assert np.isnan(cyclic_share(np.full((3, 3), np.nan)))


def test_the_cyclic_share_is_what_least_squares_leave() -> None:
    """All known: of differences of row means (Balduzzi et al. 2018). With gaps: of `lstsq` over the pairs."""
    game = antisymmetric(6, 4)
    means = game.mean(axis=1)
    left = game - (means[:, None] - means[None, :])
    assert cyclic_share(game) == pytest.approx((left**2).sum() / (game**2).sum())
    game[0, 3] = game[3, 0] = game[1, 2] = game[2, 1] = np.nan
    pairs = [(i, j) for i, j in combinations(range(6), 2) if not np.isnan(game[i, j])]
    design = np.array([[float(k == i) - float(k == j) for k in range(6)] for i, j in pairs])
    margin = np.array([game[pair] for pair in pairs])
    rest = margin - design @ np.linalg.lstsq(design, margin)[0]
    assert cyclic_share(game) == pytest.approx(rest @ rest / (margin @ margin))
    chain = np.full((3, 3), np.nan)
    chain[0, 1], chain[1, 0], chain[1, 2], chain[2, 1] = 0.9, -0.9, 0.9, -0.9
    assert cyclic_share(chain) == pytest.approx(0.0), "without a loop there is no cycle to see"


def table_of(score: Floats, games: int, seed: int, draw: float = 0.0) -> Crosstable:
    """`games` games a pair with these expected scores, a share `draw` of them drawn."""
    rng = np.random.default_rng(seed)
    size = len(score)
    wins, draws = np.zeros((size, size), np.int64), np.zeros((size, size), np.int64)
    for i, j in combinations(range(size), 2):
        won = score[i, j] - draw / 2
        counts = rng.multinomial(games, [won, draw, 1.0 - won - draw])
        wins[i, j], draws[i, j], wins[j, i], draws[j, i] = counts[0], counts[1], counts[2], counts[1]
    return Crosstable(tuple(f"a{i}" for i in range(size)), wins, draws)


@pytest.mark.parametrize("draw", [0.0, 0.3])
def test_chance_alone_explains_a_ranking_and_not_a_cycle(draw: float) -> None:
    strength = np.linspace(-0.4, 0.4, 8)
    score = 0.5 + 0.25 * np.tanh(strength[:, None] - strength[None, :])
    rng = np.random.default_rng(0)
    higher = []
    for seed in range(40):
        table = table_of(score, 20, seed, draw)
        chance = cyclic_share_by_chance(table, score, rng, samples=60)
        higher.append(np.mean(chance >= cyclic_share(2 * table.score - 1)))
    assert 0.4 < np.mean(higher) < 0.6 and 0.02 < np.mean(np.array(higher) < 0.1) < 0.25
    table = table_of(0.5 + 0.3 * ROCK_PAPER_SCISSORS, 20, 0, draw)
    chance = cyclic_share_by_chance(table, np.full((3, 3), 0.5) - 0.02 * gradient3(), rng)
    assert cyclic_share(2 * table.score - 1) > 0.8 and np.isfinite(chance).all()


def gradient3() -> Floats:
    return np.array([[0.0, 1.0, 2.0], [-1.0, 0.0, 1.0], [-2.0, -1.0, 0.0]])


def cycles_one_by_one(table: Crosstable) -> list[Cycle]:
    """Every 3-cycle, the surest first."""
    score, points = table.score, table.wins + 0.5 * table.draws
    found = []
    for i, j, k in permutations(range(len(score)), 3):
        ways = [(i, j), (j, k), (k, i)]
        if i < min(j, k) and all(score[way] > 0.5 for way in ways):
            sure = [1.0 - betainc(points[way] + 0.5, points.T[way] + 0.5, 0.5) for way in ways]
            found.append(Cycle((i, j, k), float(min(score[way] for way in ways)), float(sure[0] * sure[1] * sure[2])))
    return sorted(found, key=lambda cycle: (-cycle.certainty, -cycle.weakest, cycle.agents))


@pytest.mark.parametrize("games", [1, 2, 4, 15])
def test_the_surest_cycles_are_the_first_of_all(games: int) -> None:
    for seed in range(6):
        table = table_of(0.5 + 0.3 * antisymmetric(14, seed), games, seed, 0.2)
        table.wins[0, :4] = table.wins[:4, 0] = table.draws[0, :4] = table.draws[:4, 0] = 0
        expected = cycles_one_by_one(table)
        for most in (1, 3, 10, 10_000):
            assert cycles(table, most) == (len(expected), expected[:most])


def test_a_pair_that_never_met_is_unknown_and_not_even() -> None:
    wins = np.array([[0, 3, 0], [1, 0, 2], [0, 2, 0]])
    table = Crosstable(("a", "b", "c"), wins, np.zeros((3, 3), np.int64))
    assert np.isnan(table.score[0, 2]) and table.score[0, 1] == 0.75
    expected = np.array([[0.5, 0.6, 0.9], [0.4, 0.5, 0.7], [0.1, 0.3, 0.5]])
    payoff = table.payoff(expected)
    assert payoff[0, 2] == pytest.approx(0.8) and payoff[0, 1] == pytest.approx(2 * (3 + 4.8) / 12 - 1)
    assert payoff == pytest.approx(-payoff.T)
