"""Is one agent stronger? A test on pairs of games that share a seed, seats swapped, that stops once it knows.

Wald's sequential probability ratio test (Wald 1945, Annals of Mathematical Statistics 16:117) on the generalised
likelihood ratio of the pairs' scores, as chess engines are tested (M. Van den Bergh, "The generalized sequential
probability ratio test for chess", and the programs Fishtest and fastchess). A pair's score is one of five
(pentanomial): what luck a seed brings to a seat cancels within it, and two games of one seed are never taken for
independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from league.errors import UsageError
from league.maths.davidson import ELO_SCALE
from league.maths.means import Z95

EloModel = Literal["logistic", "normalised"]
MAX_ELO: dict[EloModel, float] = {"logistic": 1000.0, "normalised": 200.0}
"""The bounds' greatest distance from 0; beyond 200 the fixed point of `_at_elo` need not converge."""
PAIR_SCORES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""A pair's score over 2: lost both; lost and drew; drew both or won and lost; won and drew; won both."""
LEAST_COUNT = 1e-3
"""What an outcome that has not been seen counts (as in Fishtest): it may still be seen."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sprt:
    """The test of H0, A is `elo0` points stronger than B, against H1, it is `elo1` points stronger.

    Points are `logistic`, 400 for odds of 10 in the score, or `normalised`, the score's distance from 1/2 in standard
    deviations of a game times 800 / ln 10, which asks for about as many games at any share of draws. alpha: the most
    often that H1 is accepted under H0; beta: the most often that H0 is accepted under H1.

    Raises:
        UsageError: the bounds are not in order or too far apart, or an error is not between 0 and 1/2.
    """

    elo0: float = 0.0
    elo1: float = 35.0
    alpha: float = 0.05
    beta: float = 0.05
    elo_model: EloModel = "logistic"

    def __post_init__(self) -> None:
        for name, error in (("alpha", self.alpha), ("beta", self.beta)):
            if not 0.0 < error < 0.5:
                raise UsageError(f"{name}={error:g}: the share of wrong answers, above 0 and below 0.5; try 0.05")
        if self.elo_model not in MAX_ELO:
            raise UsageError(f"elo_model={self.elo_model}: must be {' or '.join(MAX_ELO)}; pass another --elo-model")
        limit = MAX_ELO[self.elo_model]
        if not -limit <= self.elo0 < self.elo1 <= limit:
            raise UsageError(
                f"elo0={self.elo0:g}, elo1={self.elo1:g}: elo0 must be below elo1, {self.elo_model} ones within"
                f" {limit:g} of 0; try --elo0 0 --elo1 35"
            )

    @property
    def lower(self) -> float:
        """At this log-likelihood ratio or below, H0 is accepted."""
        return math.log(self.beta / (1.0 - self.alpha))

    @property
    def upper(self) -> float:
        """At this log-likelihood ratio or above, H1 is accepted."""
        return math.log((1.0 - self.beta) / self.alpha)

    def llr(self, pairs: Sequence[int]) -> float:
        """The log-likelihood ratio of H1 to H0 after so many pairs of each of the five scores."""
        return log_likelihood_ratio(pairs, PAIR_SCORES, self.elo0, self.elo1, self.elo_model)

    def decide(self, llr: float) -> Literal["passed", "failed"] | None:
        """What is accepted at this ratio: H1 (`passed`), H0 (`failed`), or None: play on."""
        if llr >= self.upper:
            return "passed"
        return "failed" if llr <= self.lower else None


def log_likelihood_ratio(
    counts: Sequence[float], scores: Sequence[float], elo0: float, elo1: float, elo_model: EloModel
) -> float:
    """The generalised log-likelihood ratio of `elo1` to `elo0`, 0 where nothing was played.

    counts: how often each score was made. scores: from 0 to 1, ascending: three of single games, five of pairs.
    """
    if not sum(counts):
        return 0.0
    seen = np.maximum(np.asarray(counts, dtype=np.float64), LEAST_COUNT)
    share, value = seen / seen.sum(), np.asarray(scores, dtype=np.float64)
    games = (len(scores) - 1) // 2
    hypotheses = [_at_elo(share, value, elo, games, elo_model) for elo in (elo0, elo1)]
    return float(seen.sum() * (share @ np.log(hypotheses[1] / hypotheses[0])))


def pair_counts(pairs: Sequence[tuple[float, float]]) -> tuple[int, int, int, int, int]:
    """How many pairs made each of the five scores; a pair is A's scores (1, 0.5 or 0) in its two games."""
    places = [round(2.0 * (a + b)) for a, b in pairs]
    return (places.count(0), places.count(1), places.count(2), places.count(3), places.count(4))


def elo_interval(pairs: Sequence[int]) -> tuple[float, float, float] | None:
    """Logistic Elo points of A over B with a 95 % interval from the spread of the pairs' scores, at a fixed number.

    None where it is not finite: without pairs, or all won or all lost. After a test that stopped by itself the
    estimate leans to the side that won.
    """
    total = sum(pairs)
    if not total:
        return None
    share, value = np.asarray(pairs) / total, np.asarray(PAIR_SCORES)
    mean = float(share @ value)
    half = Z95 * math.sqrt(float(share @ (value - mean) ** 2) / total)
    if not 0.0 < mean < 1.0:
        return None
    low, middle, high = (
        ELO_SCALE * math.log(s / (1.0 - s)) for s in (max(mean - half, 1e-6), mean, min(mean + half, 1.0 - 1e-6))
    )
    return middle, low, high


def _at_elo(share: Floats, value: Floats, elo: float, games: int, elo_model: EloModel) -> Floats:
    """The most likely distribution of scores at a strength of `elo`, where `share` was seen."""
    if elo_model == "logistic":
        return _tilted(share, value - 1.0 / (1.0 + math.exp(-elo / ELO_SCALE)))
    # (mean - 1/2) / deviation is held at `ratio`. Its derivative depends on the distribution sought: repeat.
    ratio = elo / (2.0 * ELO_SCALE) * math.sqrt(games)
    found = np.full(len(value), 1.0 / len(value))
    for _ in range(100):
        mean = found @ value
        deviation = math.sqrt(found @ (value - mean) ** 2)
        slope = value - 0.5 - ratio * deviation * (1.0 + ((value - mean) / deviation) ** 2) / 2.0
        before, found = found, _tilted(share, slope)
        if np.abs(found - before).max() < 1e-12:
            break
    return found


def _tilted(share: Floats, slope: Floats) -> Floats:
    """The distribution p under which `slope` has mean 0 and `share` is likeliest: share / (1 + m slope), for one m.

    m lies where every p is positive (Owen 2001, "Empirical Likelihood", section 2.9).
    """
    low, high = -1.0 / slope.max(), -1.0 / slope.min()
    gap = 1e-12 * (high - low)
    multiplier = brentq(lambda m: float((share * slope / (1.0 + m * slope)).sum()), low + gap, high - gap, xtol=1e-14)
    result: Floats = share / (1.0 + multiplier * slope)
    return result
