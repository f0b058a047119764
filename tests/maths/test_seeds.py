"""Curves over seeds: the interquartile mean and its interval, against the formula written out."""

import numpy as np
import pytest

from league.maths.seeds import LEAST_IQM, across


def test_few_seeds_have_a_mean_and_a_range() -> None:
    """Of three seeds the mean, and a band from the least to the most."""
    found = across([([0, 10], [1, 2]), ([0, 10], [2, 2]), ([0, 10], [6, 5])])
    assert found is not None and not found.is_iqm
    assert found.middle.tolist() == [3, 3] and found.lower.tolist() == [1, 2] and found.upper.tolist() == [6, 5]


def test_five_seeds_have_an_interquartile_mean() -> None:
    """The middle leaves a quarter at either end out, rounded down, so an outlier is not in it; the band holds it."""
    values = np.random.default_rng(1).normal(size=(LEAST_IQM, 7))
    values[0] = 1e3
    found = across([(range(7), row.tolist()) for row in values])
    assert found is not None and found.is_iqm
    assert found.middle == pytest.approx(np.sort(values, 0)[1:-1].mean(0))
    assert (found.lower <= found.middle).all() and (found.middle <= found.upper).all()


def test_the_interval_is_that_of_drawn_seeds() -> None:
    """About 95 % of the interquartile means of seeds drawn with replacement lie within it (a loop as the slow twin)."""
    values, rng = np.arange(8.0) ** 2, np.random.default_rng(2)
    found = across([([0], [x]) for x in values])
    assert found is not None
    means = [np.sort(rng.choice(values, 8))[2:-2].mean() for _ in range(4_000)]
    assert np.mean((found.lower[0] <= means) & (means <= found.upper[0])) == pytest.approx(0.95, abs=0.02)


def test_other_steps_are_interpolated_where_all_are_known() -> None:
    """Over the stretch that all cover, at the points of the one that has most; without one there is nothing."""
    found = across([([0, 10, 20], [0, 10, 20]), ([5, 15], [0, 10]), ([], [])])
    assert found is not None and found.x.tolist() == [10] and found.middle.tolist() == [7.5]
    assert across([([0, 1], [0, 0]), ([2, 3], [0, 0])]) is None and across([]) is None
