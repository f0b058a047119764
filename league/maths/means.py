"""The mean payoff of a match: an interval for a number of games fixed beforehand, and a test that may stop at any time.

Both bet on bounded numbers, without a model of how payoffs are spread (Waudby-Smith and Ramdas 2024, "Estimating means
of bounded random variables by betting", JRSS B 86:1, arXiv:2010.09686). A capital of 1 is multiplied by
1 + bet * (x - m) at each x. Where the mean is m the capital is a martingale, so by Ville's inequality it ever reaches
1 / alpha with a probability of at most alpha. Games of one seed are one x: their mean.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from league.errors import UsageError
from league.types import SEATS

Z95 = 1.959963984540054
"""Half-width of a central 95 % interval of the normal distribution, in standard deviations."""
ALPHA = 0.05
"""Of an interval: how often it misses the mean, at most."""
MOST_OF_CAPITAL = 0.75
"""The share of the capital that a bet may lose."""
UNKNOWN_BOUND = 2.0
"""Where a game does not say how much it can pay, the bound is this times the largest payoff seen."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Mean:
    """A mean payoff a match, in the game's units, with its 95 % interval.

    bound: the most that a match can pay or cost; where the game does not say, what was taken for it.
    """

    mean: float
    lower: float
    upper: float
    bound: float


def mean_payoff(clusters: Sequence[Hashable], payoffs: Sequence[float], bound: float | None) -> Mean:
    """The mean of G >= 1 payoffs, and its interval from the means of their clusters, such as the two games of a seed.

    clusters: (G,), what each game's cluster is called. bound: of a payoff's size; None: it is guessed from the payoffs.
    """
    by_cluster: dict[Hashable, list[float]] = {}
    for cluster, payoff in zip(clusters, payoffs, strict=True):
        by_cluster.setdefault(cluster, []).append(payoff)
    most = assumed_bound(payoffs, bound)
    means = np.array([sum(found) / len(found) for found in by_cluster.values()])
    lower, upper = interval(0.5 + means / (2.0 * most))
    mean = sum(payoffs) / len(payoffs)
    return Mean(mean, min(mean, most * (2.0 * lower - 1.0)), max(mean, most * (2.0 * upper - 1.0)), most)


def assumed_bound(payoffs: Sequence[float], bound: float | None) -> float:
    """The bound that is known, else one guessed from the payoffs; 1 where all are 0."""
    return bound or UNKNOWN_BOUND * max(map(abs, payoffs), default=0.0) or 1.0


def interval(values: Floats, alpha: float = ALPHA) -> tuple[float, float]:
    """The interval of the mean of independent values (n,) in [0, 1], for an n that does not depend on them.

    Where it misses, it does so to either side with a probability of at most alpha / 2. Theorem 3 of the paper, with
    bets that are tuned to n (its section 4.2).
    """
    bets = np.sqrt(2.0 * math.log(2.0 / alpha) / (len(values) * _variances(values)))
    return _lowest(values, bets, alpha / 2.0), 1.0 - _lowest(1.0 - values, bets, alpha / 2.0)


def _variances(values: Floats) -> Floats:
    """(n,): the variance of the values before each, as if one at distance 1/2 from the mean had come first."""
    count = np.arange(1, len(values) + 1)
    means = (0.5 + np.cumsum(values)) / (count + 1)
    spread = (0.25 + np.cumsum((values - means) ** 2)) / (count + 1)
    return np.concatenate([[0.25], spread[:-1]])


def _lowest(values: Floats, bets: Floats, alpha: float) -> float:
    """The least mean that bets on a higher one do not refute."""

    def grown(mean: float) -> float:
        stakes = np.minimum(bets, MOST_OF_CAPITAL / max(mean, 1e-12))
        return float(np.log1p(stakes * (values - mean)).sum() + math.log(alpha))

    if not len(values) or grown(0.0) <= 0.0:
        return 0.0
    from scipy.optimize import brentq  # here, since every command loads this module and few need scipy

    return float(brentq(grown, 0.0, float(np.mean(values)), xtol=1e-9))


@dataclass(frozen=True)
class MeanTest:
    """The test of H0, a match pays A at most `payoff0`, against H1, it pays A at least `payoff1`, in the game's units.

    alpha: the most often that H1 is accepted where H0 holds, however often the test is looked at; beta: the most often
    that H0 is accepted where H1 holds. bound: the most that a match can pay or cost.

    Raises:
        UsageError: the bound is no finite number above 0, the payoffs are not in order or beyond it, or an error is
            not between 0 and 1/2.
    """

    payoff0: float
    payoff1: float
    bound: float
    alpha: float = 0.05
    beta: float = 0.05

    def __post_init__(self) -> None:
        for name, error in (("alpha", self.alpha), ("beta", self.beta)):
            if not 0.0 < error < 0.5:
                raise UsageError(f"{name}={error:g}: the share of wrong answers, above 0 and below 0.5; try 0.05")
        if not 0.0 < self.bound < math.inf:
            raise UsageError(
                f"payoff_bound={self.bound:g}: the most that a match can pay is a finite number above 0; pass"
                f" --payoff-bound X, the largest payoff of a match"
            )
        if not -self.bound <= self.payoff0 < self.payoff1 <= self.bound:
            raise UsageError(
                f"payoff0={self.payoff0:g}, payoff1={self.payoff1:g}: payoff0 must be below payoff1, both within the"
                f" {self.bound:g} that a match can pay; try --payoff0 0 --payoff1 {self.bound / 20:g}"
            )

    @property
    def lower(self) -> float:
        """At this evidence or below, H0 is accepted."""
        return math.log(self.beta)

    @property
    def upper(self) -> float:
        """At this evidence or above, H1 is accepted."""
        return -math.log(self.alpha)

    def evidence(self, payoffs: npt.ArrayLike) -> float:
        """The logarithm of what betting against H0 has grown to, or minus that of betting against H1, if it is more.

        payoffs: (P, 2), A's in the two games of each pair, in the order of play.

        Raises:
            UsageError: a match paid more than the bound, on which the probabilities of errors rest.
        """
        paid = np.asarray(payoffs, np.float64).reshape(-1, SEATS)
        if (most := float(np.abs(paid).max(initial=0.0))) > self.bound:
            raise UsageError(
                f"payoff_bound={self.bound:g}: a match paid {most:g}; the test needs the most that a match can pay;"
                f" pass --payoff-bound {most:g} or more"
            )
        values = 0.5 + paid.mean(axis=1) / (2.0 * self.bound)
        low, high = (0.5 + payoff / (2.0 * self.bound) for payoff in (self.payoff0, self.payoff1))
        above, below = _grown(values, low), _grown(1.0 - values, 1.0 - high)
        return above if above >= below else -below

    def decide(self, evidence: float) -> Literal["passed", "failed"] | None:
        """What is accepted: H1 (`passed`), H0 (`failed`), or None: play on."""
        if evidence >= self.upper:
            return "passed"
        return "failed" if evidence <= self.lower else None


def _grown(values: Floats, mean: float) -> float:
    """The highest that the logarithm of a capital ever was that bet on values (n,) above `mean`.

    Each bet is the one that would have grown most on the values before (the paper's aGRAPA, its equation 45).
    """
    count = np.arange(1, len(values) + 1)
    means = np.concatenate([[0.5], (0.5 + np.cumsum(values)) / (count + 1)])[:-1]
    gain = means - mean
    bets = np.clip(gain / (_variances(values) + gain**2), 0.0, MOST_OF_CAPITAL / mean)
    return float(np.cumsum(np.log1p(bets * (values - mean))).max(initial=0.0))
