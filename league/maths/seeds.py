"""Curves of one set of settings over its seeds: what is typical of them, and how far they differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import trim_mean

Floats = npt.NDArray[np.float64]

LEAST_IQM = 5
"""Seeds from which on the interquartile mean is taken; of fewer it would leave out next to none, or too many."""
RESAMPLES = 2_000
"""Of the bootstrap."""


class Across(NamedTuple):
    """What seeds come to at each x, all (P,).

    From `LEAST_IQM` seeds on `middle` is their interquartile mean, and `lower` to `upper` its 95 % interval; of fewer
    it is their mean, and the band goes from the least to the most.
    """

    x: Floats
    middle: Floats
    lower: Floats
    upper: Floats
    is_iqm: bool


def across(curves: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Across | None:
    """The curves of several seeds as one, over the stretch that all of them cover; None where there is none.

    Interquartile mean and percentile bootstrap over seeds as Agarwal et al. 2021 (arXiv:2108.13264) have them.

    Args:
        curves: (x, y) of each seed, x rising; one without points is left out. Where their points differ they are
            interpolated at those of the curve that has most.
    """
    known = [(np.asarray(x, np.float64), np.asarray(y, np.float64)) for x, y in curves if len(x)]
    if not known:
        return None
    grid = max((x for x, _ in known), key=len)
    first, last = max(x[0] for x, _ in known), min(x[-1] for x, _ in known)
    grid = grid[(grid >= first) & (grid <= last)]
    if not len(grid):
        return None
    values = np.stack([np.interp(grid, x, y) for x, y in known])
    if len(known) < LEAST_IQM:
        return Across(grid, values.mean(0), values.min(0), values.max(0), False)
    lower, upper = _bootstrap(values)
    return Across(grid, trim_mean(values, 0.25, axis=0), lower, upper, True)


def _bootstrap(values: Floats) -> tuple[Floats, Floats]:
    """(P,) each: the 95 % percentile interval of the interquartile mean of `values` (N, P) over seeds."""
    drawn = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
    cut = int(0.25 * len(values))
    means = np.sort(values[drawn], axis=1)[:, cut : len(values) - cut].mean(1)
    lower, upper = np.quantile(means, (0.025, 0.975), axis=0)
    return lower, upper
