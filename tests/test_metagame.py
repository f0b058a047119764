"""Nash, alpha-rank, cycles and shrinkage against published numbers, OpenSpiel, and slow twins in plain numpy."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import beta

from league.metagame import (
    Crosstable,
    alpha_rank,
    cycles,
    cyclic_share,
    cyclic_share_by_chance,
    nash,
    relative_population_performance,
    shrunk_scores,
    transitive_part,
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


def extreme_equilibria(a: Floats) -> tuple[Floats, float]:
    """Every vertex of the row player's optimal strategies (V, m), and the value, by trying all sets of equalities.

    A vertex (p, v) of {p a >= v, p >= 0, sum p = 1} makes m of these m + n inequalities tight.
    """
    m, n = a.shape
    lines = np.vstack([np.hstack([a.T, -np.ones((n, 1))]), np.hstack([np.eye(m), np.zeros((m, 1))])])
    found: list[Floats] = []
    for tight in combinations(range(m + n), m):
        system = np.vstack([lines[list(tight)], np.append(np.ones(m), 0.0)])
        if abs(np.linalg.det(system)) > 1e-9:
            point = np.linalg.solve(system, np.append(np.zeros(m), 1.0))
            if (lines @ point > -1e-9).all():
                found.append(point)
    value = max(point[-1] for point in found)
    return np.array([point[:-1] for point in found if point[-1] > value - 1e-9]), value


def most_even_mixture(vertices: Floats) -> Floats:
    """The point of greatest entropy of the vertices' hull, by 4,000 exponentiated-gradient steps."""
    weights = np.full(len(vertices), 1.0 / len(vertices))
    for _ in range(4_000):
        gradient = -vertices @ np.log(np.maximum(weights @ vertices, 1e-12))
        weights = weights * np.exp(0.1 * (gradient - gradient.max()))
        weights /= weights.sum()
    return weights @ vertices


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


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("levels", [0, 1, 2])
def test_nash_is_the_most_even_of_all_equilibria(levels: int, seed: int) -> None:
    """The linear programme and the dual find what trying every support and climbing the entropy find."""
    square = antisymmetric(4, seed, levels)
    oblong = np.random.default_rng(seed).uniform(-1, 1, (3, 4))
    for game in (square, np.round(2 * oblong) / 2 if levels else oblong):
        vertices, value = extreme_equilibria(game)
        found = nash(game)
        assert found.value == pytest.approx(value, abs=1e-8)
        assert found.rows == pytest.approx(most_even_mixture(vertices), abs=2e-3)
        assert (found.rows @ game).min() == pytest.approx(value, abs=1e-8)
        assert (game @ found.columns).max() == pytest.approx(value, abs=1e-8)


def test_nash_of_many_agents_cannot_be_exploited() -> None:
    """With sixty agents, ties and copies included, nobody gains on the mixture, whose entropy no copy breaks."""
    for levels in (0, 1, 5):
        game = antisymmetric(30, 3, levels)
        doubled = np.block([[game, game], [game, game]])
        rows = nash(doubled).rows
        assert (rows @ doubled).min() > -1e-8
        assert rows[:30] == pytest.approx(rows[30:], abs=1e-6)
        assert rows[:30] + rows[30:] == pytest.approx(nash(game).rows, abs=1e-4)


def test_alpha_rank_of_han_et_al() -> None:
    """The stationary distribution published with OpenSpiel's tests: Han et al. 2013, m = 20, alpha = 0.1."""
    expected = [0.40966787, 0.07959841, 0.20506998, 0.08505983, 0.2206039]
    assert alpha_rank(han(), 20, 0.1) == pytest.approx(expected, abs=1e-8)


def stationary_by_power(payoff: Floats, m: int, alpha: float) -> Floats:
    """alpha-rank's chain written out (Omidshafiei et al. 2019, equations 5 to 9) and raised to a high power."""
    size = len(payoff)
    chain = np.zeros((size, size))
    for s, r in permutations(range(size), 2):
        total, product = 1.0, 1.0
        for k in range(1, m):
            mutant = ((k - 1) * payoff[r, r] + (m - k) * payoff[r, s]) / (m - 1)
            resident = ((m - k - 1) * payoff[s, s] + k * payoff[s, r]) / (m - 1)
            product *= np.exp(-alpha * (mutant - resident))
            total += product
        chain[s, r] = 1.0 / total / (size - 1)
    chain += np.diag(1.0 - chain.sum(axis=1))
    row = np.linalg.matrix_power(chain, 2**20)[0]
    return row / row.sum()


@pytest.mark.parametrize("seed", range(5))
def test_alpha_rank_is_the_chains_stationary_distribution(seed: int) -> None:
    """Logarithms and state elimination give what powers of the dense matrix give."""
    rng = np.random.default_rng(seed)
    for payoff in (antisymmetric(6, seed), rng.uniform(-1, 1, (5, 5))):
        for m, alpha in ((2, 1.0), (10, 0.5), (20, 0.3)):
            assert alpha_rank(payoff, m, alpha) == pytest.approx(stationary_by_power(payoff, m, alpha), rel=1e-6)


def test_alpha_rank_holds_under_the_strongest_selection() -> None:
    """At the largest alpha nothing underflows: the best agent takes all, and a cycle shares evenly."""
    skill = np.arange(50.0)
    for alpha in (100.0, 1e6):
        shares = alpha_rank(np.tanh(skill[:, None] - skill[None, :]), 50, alpha)
        assert shares[-1] == pytest.approx(1.0) and np.isfinite(shares).all()
        assert alpha_rank(ROCK_PAPER_SCISSORS, 50, alpha) == pytest.approx([1 / 3] * 3)


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


def test_relative_population_performance() -> None:
    """A population gains nothing on itself; paper gains all on rock; adding agents to one's own never hurts."""
    assert relative_population_performance(antisymmetric(8, 1)) == pytest.approx(0.0, abs=1e-9)
    assert relative_population_performance(ROCK_PAPER_SCISSORS[1:2, 0:1]) == pytest.approx(1.0)
    assert relative_population_performance(ROCK_PAPER_SCISSORS[:, 0:1]) == pytest.approx(1.0)
    # All three moves against rock and paper: 2/3 paper and 1/3 scissors win a third of a game whatever is played.
    assert relative_population_performance(ROCK_PAPER_SCISSORS[:, :2]) == pytest.approx(1 / 3)
    game = antisymmetric(12, 2)
    gains = [relative_population_performance(game[:n, 6:]) for n in range(1, 7)]
    assert (np.diff(gains) >= -1e-9).all() and gains[0] < gains[-1]


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


def test_transitive_part_is_the_row_means_and_with_gaps_least_squares() -> None:
    """All known: differences of row means (Balduzzi et al. 2018). With gaps: what `lstsq` over the pairs gives."""
    game = antisymmetric(6, 4)
    means = game.mean(axis=1)
    assert transitive_part(game) == pytest.approx(means[:, None] - means[None, :])
    game[0, 3] = game[3, 0] = game[1, 2] = game[2, 1] = np.nan
    pairs = [(i, j) for i, j in combinations(range(6), 2) if not np.isnan(game[i, j])]
    design = np.array([[float(k == i) - float(k == j) for k in range(6)] for i, j in pairs])
    best = np.linalg.lstsq(design, np.array([game[pair] for pair in pairs]))[0]
    fitted = transitive_part(game)
    assert [fitted[pair] for pair in pairs] == pytest.approx([best[i] - best[j] for i, j in pairs])
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
    """Results of a ranking lie within what chance makes of it, at its rate; rock-paper-scissors lies far outside."""
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
    """A ranking of three."""
    return np.array([[0.0, 1.0, 2.0], [-1.0, 0.0, 1.0], [-2.0, -1.0, 0.0]])


def test_cycles_are_counted_and_the_surest_come_first() -> None:
    """As many as the trace formula says, each once; the certainty is the product of three beta distributions' tails."""
    table = table_of(0.5 + 0.4 * antisymmetric(9, 1), 12, 3, 0.1)
    beats = np.nan_to_num(table.score) > 0.5
    count, surest = cycles(table, most=1000)
    assert count == len(surest) == round(np.trace(np.linalg.matrix_power(beats.astype(int), 3)) / 3) > 10
    assert len({frozenset(c.agents) for c in surest}) == count
    assert [c.certainty for c in surest] == sorted((c.certainty for c in surest), reverse=True)
    for c in surest:
        edges = list(zip(c.agents, [*c.agents[1:], c.agents[0]], strict=True))
        points = [table.wins[e] + 0.5 * table.draws[e] for e in edges]
        tails = [beta.sf(0.5, x + 0.5, table.games[e] - x + 0.5) for x, e in zip(points, edges, strict=True)]
        assert c.certainty == pytest.approx(np.prod(tails))
        assert c.weakest == pytest.approx(min(table.score[e] for e in edges)) and c.weakest > 0.5
    assert cycles(table, most=3) == (count, surest[:3])
    assert cycles(table_of(0.5 + 0.1 * gradient3(), 4000, 0)) == (0, [])


def test_scores_are_shrunk_by_hand_arithmetic() -> None:
    """Six wins and two draws of ten, expected 0.4, kappa 8: (7 + 3.2) / 18; without a game it is what is expected."""
    assert shrunk_scores([7.0, 0.0], [10, 0], [0.4, 0.4], 8.0) == pytest.approx([10.2 / 18, 0.4])
    assert np.isfinite(shrunk_scores([10.0, 0.0], [10, 10], [1.0, 0.0], 8.0)).all()


def test_a_pair_that_never_met_is_unknown_and_not_even() -> None:
    """Its score is NaN, and its payoff what the ratings expect; the payoff matrix is antisymmetric all the same."""
    wins = np.array([[0, 3, 0], [1, 0, 2], [0, 2, 0]])
    table = Crosstable(("a", "b", "c"), wins, np.zeros((3, 3), np.int64))
    assert np.isnan(table.score[0, 2]) and table.score[0, 1] == 0.75
    expected = np.array([[0.5, 0.6, 0.9], [0.4, 0.5, 0.7], [0.1, 0.3, 0.5]])
    payoff = table.payoff(expected)
    assert payoff[0, 2] == pytest.approx(0.8) and payoff[0, 1] == pytest.approx(2 * (3 + 4.8) / 12 - 1)
    assert payoff == pytest.approx(-payoff.T)
