"""Which settings are told apart by the results of a few seeds each: means, differences, and the seeds still needed.

All settings are taken to vary alike over seeds, so their variances are pooled (one-way analysis of variance). A setting
with one result can be judged too, by how much the others vary. Intervals are Student's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from league.maths.ratings import Difference

LEVEL, POWER = 0.95, 0.8
"""Of intervals; and how often the seeds that are called needed show a difference of the size seen."""
MOST_SEEDS = 10_000


@dataclass(frozen=True)
class SeedSpread:
    """The variance of a result over seeds, and the degrees of freedom that it is known with; 0: it is not known yet."""

    variance: float
    freedom: int

    def half_width(self, weight: float, looks: int = 1) -> float:
        """Of the 95 % interval of a sum whose squared weights add up to `weight`; infinite without freedom.

        looks: intervals that hold together (Bonferroni).
        """
        probability = 1.0 - (1.0 - LEVEL) / 2.0 / looks
        return math.sqrt(self.variance * weight) * quantile(self.freedom, probability) if self.freedom else math.inf


def pooled(groups: Sequence[Sequence[float]], errors: Sequence[Sequence[float]]) -> SeedSpread:
    """The variance within groups of results, at least that of their measurement.

    groups: the results of each setting, one a seed. errors: standard errors of the same.
    """
    freedom = sum(len(group) - 1 for group in groups if group)
    within = sum(len(group) * float(np.var(group)) for group in groups if group)
    measured = [error**2 for group in errors for error in group]
    least = sum(measured) / len(measured) if measured else 0.0
    return SeedSpread(max(within / freedom if freedom else 0.0, least), freedom)


def mean_of(values: Sequence[float], spread: SeedSpread) -> Difference:
    """The mean of a setting's results with its 95 % interval."""
    return _around(float(np.mean(values)), spread.half_width(1.0 / len(values)))


def apart(a: Sequence[float], b: Sequence[float], spread: SeedSpread, looks: int = 1) -> Difference:
    """The mean of `a` less that of `b`, with its 95 % interval, which holds for `looks` of them together."""
    return _around(float(np.mean(a) - np.mean(b)), spread.half_width(1.0 / len(a) + 1.0 / len(b), looks))


def is_worse(values: Sequence[float], best: Sequence[float], spread: SeedSpread, sign: int = 1) -> bool:
    """Whether a setting is told from the best and below it; sign: -1 where less is better."""
    found = apart(values, best, spread)
    return (found.upper if sign > 0 else -found.lower) < 0


def paired(a: Sequence[float], b: Sequence[float]) -> tuple[Difference, int | None]:
    """The mean of a[i] - b[i] over n >= 2 seeds with the interval of the paired t-test, and the seeds that it takes.

    Returns:
        The difference, and as `seeds_needed`.
    """
    differences = np.asarray(a) - np.asarray(b)
    spread = SeedSpread(float(np.var(differences, ddof=1)), len(differences) - 1)
    found = mean_of(differences.tolist(), spread)
    return found, seeds_needed(found.mean, spread.variance)


def seeds_needed(difference: float, variance: float) -> int | None:
    """The least n >= 2 whose t-test finds a difference of this size with a probability of 80 %.

    variance: of one seed's difference: of two settings without pairs, twice that of a result.

    Returns:
        None where it is more than `MOST_SEEDS`.
    """
    if not difference:
        return None
    for n in range(2, MOST_SEEDS + 1):
        if (quantile(n - 1) + quantile(n - 1, POWER)) * math.sqrt(variance / n) <= abs(difference):
            return n
    return None


def quantile(freedom: int, probability: float = (1.0 + LEVEL) / 2.0) -> float:
    """Of Student's distribution."""
    return float(stdtrit(freedom, probability))


def _around(mean: float, half: float) -> Difference:
    return Difference(mean, mean - half, mean + half)
