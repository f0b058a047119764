"""Settings are told apart by their seeds as scipy's t-tests do, and racing keeps the best one for fewer runs."""

import numpy as np
import pytest
from scipy import stats

from league.maths.racing import SeedSpread, apart, is_worse, mean_of, paired, pooled, seeds_needed

A, B = [3.0, 4.5, 2.5, 3.5], [1.0, 2.0, 2.5, 1.5]


def test_intervals_are_those_of_scipys_t_tests() -> None:
    """Of two groups with one variance, of pairs, and of a mean alone."""
    found = apart(A, B, pooled([A, B], []))
    known = stats.ttest_ind(A, B).confidence_interval()
    assert found == pytest.approx((np.mean(A) - np.mean(B), known.low, known.high))
    known = stats.ttest_rel(A, B).confidence_interval()
    assert paired(A, B)[0] == pytest.approx((np.mean(A) - np.mean(B), known.low, known.high))
    known = stats.ttest_1samp(A, 0.0).confidence_interval()
    assert mean_of(A, pooled([A], [])) == pytest.approx((np.mean(A), known.low, known.high))


def test_many_intervals_hold_together() -> None:
    """Of ten settings alike, none is told from the best in 95 % of all cases, by intervals for all 45 pairs."""
    random = np.random.default_rng(9)
    missed = 0
    for _ in range(400):
        groups = random.normal(size=(10, 4)).tolist()
        best = max(groups, key=np.mean)
        spread = pooled(groups, [])
        missed += any(apart(group, best, spread, 45).upper < 0 for group in groups)
    assert missed / 400 < 0.07
    assert apart(A, B, pooled([A, B], []), 45).lower < apart(A, B, pooled([A, B], [])).lower


def test_one_seed_each_tells_nothing() -> None:
    """However precise the results are; and of one seed among others the others' variance is taken."""
    assert not is_worse([0.0], [1.0], pooled([[0.0], [1.0]], [[1e-9], [1e-9]]))
    assert is_worse([0.0], [1.0, 1.01, 0.99], pooled([[0.0], [1.0, 1.01, 0.99]], []))
    assert is_worse([1.0], [0.0, 0.01, -0.01], pooled([[0.0, 0.01, -0.01]], []), sign=-1)
    assert not is_worse([1.0], [0.0, 0.01, -0.01], pooled([[0.0, 0.01, -0.01]], []))


def test_results_vary_at_least_as_their_errors_say() -> None:
    """Results that agree by chance are not taken for exact."""
    assert pooled([[1.0, 1.0], [2.0]], [[0.1, 0.1], [0.2]]) == SeedSpread(pytest.approx(0.02), 1)
    assert pooled([], []) == SeedSpread(0.0, 0)


@pytest.mark.parametrize("size", [0.5, 1.0, 2.0])
def test_the_seeds_that_are_called_needed_decide_four_of_five_times(size: float) -> None:
    """Simulated: with so many seeds a paired t-test finds a difference of that size in about 80 % of all cases."""
    n = seeds_needed(size, 1.0)
    assert n is not None
    draws = np.random.default_rng(3).normal(size, 1.0, (4_000, n))
    found = np.mean(stats.ttest_1samp(draws, 0.0, axis=1).pvalue < 0.05)
    assert 0.72 < found < 0.93
    assert seeds_needed(0.0, 1.0) is None and seeds_needed(1e-3, 1.0) is None


def raced(means: list[float], noise: float, seeds: int, random: np.random.Generator) -> tuple[int, int]:
    """Settings of these true means, one after the other; the one that is found best, and the runs that it took."""
    results: list[list[float]] = []
    for mean in means:
        leader = max(results, key=np.mean, default=None)
        own: list[float] = []
        results.append(own)
        while len(own) < seeds:
            own.append(mean + noise * float(random.normal()))
            if leader is not None and is_worse(own, leader, pooled(results, [])):
                break
    return int(np.argmax([np.mean(x) for x in results])), sum(map(len, results))


def test_racing_finds_a_planted_best_with_half_of_the_runs() -> None:
    """Of twenty settings in any order one is best by two standard deviations of a seed."""
    random = np.random.default_rng(7)
    found, runs = [], []
    for _ in range(60):
        means = random.permutation([2.0, *np.linspace(0.0, -4.0, 19)])
        best, count = raced(means.tolist(), 1.0, 5, random)
        found.append(means[best] == 2.0)
        runs.append(count)
    assert np.mean(found) > 0.9
    assert np.mean(runs) < 0.55 * 100


def test_racing_seldom_leaves_a_setting_that_is_as_good() -> None:
    """Of two equal settings the second gets all five seeds in most cases: the rule looks at most five times."""
    random = np.random.default_rng(8)
    left = np.mean([raced([0.0, 0.0], 1.0, 5, random)[1] < 10 for _ in range(400)])
    assert left < 0.12
