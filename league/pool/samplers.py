"""Who meets whom: samplers over the members of a group. Pure functions; docs/league.md has them side by side.

Members stand in the order of their joining, the oldest first; every function returns one probability a member.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

NOTHING = 1e-10
"""Weights that sum to less are taken as all alike (the guard of AlphaStar's pseudocode)."""


def newest(num_members: int, window: int) -> Floats:
    """The newest `window` alike, the others never. 1: `latest`; all: `uniform`, which is fictitious self-play."""
    weights = np.zeros(num_members)
    weights[-window:] = 1.0
    weights /= weights.sum()
    return weights


def pfsp(win_rates: Floats, kind: str) -> Floats:
    """Prioritised fictitious self-play (Vinyals et al. 2019, Nature 575, methods): P(i) ~ f(x_i).

    `pfsp_hard`: f = (1 - x)^2, the opponents that are not beaten yet. `pfsp_var`: f = x (1 - x), those of one's own
    strength. `pfsp_linear`: f = min(1/2, 1 - x), all that are not beaten, none above the others. Where every f is 0,
    as when everything is won, all are alike.

    win_rates: (N,), the learner's expected score against each.
    """
    lost = 1.0 - win_rates
    weights = {"pfsp_hard": lost**2, "pfsp_var": win_rates * lost, "pfsp_linear": np.minimum(0.5, lost)}[kind]
    total = weights.sum()
    return np.full(len(weights), 1.0 / len(weights)) if total < NOTHING else weights / total


def by_quality(qualities: Floats) -> Floats:
    """P(i) ~ exp(q_i) (OpenAI Five, Berner et al. 2019, arXiv:1912.06680, appendix on opponent sampling)."""
    weights = np.exp(qualities - qualities.max())
    return np.asarray(weights / weights.sum(), np.float64)


def quality_after_win(quality: float, probability: float, num_members: int, rate: float) -> float:
    """q_i - rate / (N p_i): what beating member i leaves of its quality (the same appendix; rate 0.01).

    Losses and draws change nothing. Dividing by the probability of meeting i makes every quality fall alike, however
    often it is drawn. One whose probability has vanished stays where it is.
    """
    return quality - rate / (num_members * probability) if probability > 0.0 else quality


def by_rating(gaps: Floats, width: float) -> Floats:
    """P(i) ~ exp(-gap_i^2 / (2 width^2)): opponents of nearly the learner's strength.

    The normal weight of TLeague's matchmaking (Sun et al. 2020, arXiv:2011.12895), over rating instead of win-rate.
    Where all are too far away to tell, the nearest counts.

    gaps: (N,), Elo points between the learner and each member. width: in Elo points.
    """
    exponents = -0.5 * (gaps / width) ** 2
    weights = np.exp(exponents - exponents.max())
    return np.asarray(weights / weights.sum(), np.float64)


def with_uniform(weights: Floats, epsilon: float) -> Floats:
    """`weights` with a share `epsilon` of uniform, so that nobody is forgotten for good."""
    return (1.0 - epsilon) * weights + epsilon / len(weights)


def draw_targets(members: Sequence[str], weights: Floats, num_targets: int, rng: np.random.Generator) -> list[str]:
    """`num_targets` members by systematic sampling, a member as often as its weight makes it, in their order.

    One draw u sets equally spaced points (u + k) / K on the members' weights laid end to end. A member of weight w is
    taken floor(K w) or ceil(K w) times, K w times on average: a row that draws evenly from the list meets it with
    probability w.
    """
    points = (rng.random() + np.arange(num_targets)) / num_targets
    edges = np.cumsum(weights)
    edges /= edges[-1]
    return [members[i] for i in np.searchsorted(edges, points, side="right")]
