"""Agents of a game with a utility, rated by what they are paid: the least-squares strengths of all mean payoffs.

Agent a is paid s_a - s_b a match against b, and in seat 0 g more: the strengths are those that explain the payoffs best
in the sense of least squares (Massey 1997, "Statistical models applied to the rating of sports teams"). In a round
robin of equally many games an agent's strength is its mean payoff against all, itself included. There is no prior, and
no strength is infinite. The covariance is a sandwich of the scatter of each pair's own games (White 1980, Econometrica
48:817; clustered by seed, Liang and Zeger 1986, Biometrika 73:13): no model says how payoffs are spread.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.linalg import pinvh

from league.errors import UsageError
from league.maths.davidson import Bonds, Posterior, linked
from league.maths.joint import MAX_MATRIX, Matrix
from league.maths.means import Z95, Mean, assumed_bound
from league.maths.pairs import PairSums

UNLINKED = 1e4
"""Variance of the difference of two groups that no game links, in variances of a game: nothing is known of it."""
SCATTER_BELIEVED = 2.0
"""Clusters as scattered as all pairs' on the mean, that stand beside a pair's own."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def fit(sums: PairSums, agents: Sequence[str]) -> tuple[Posterior, Ints, Floats, Floats]:
    """The strengths of N agents in the units of the game's utility, each group's mean 0.

    Returns:
        The model; the pairs that met (Q, 2), the variance of each pair's mean payoff (Q,), and that mean (Q,), the
        seat's advantage taken out.

    Raises:
        UsageError: there are too many agents for a matrix.
    """
    if len(agents) > MAX_MATRIX:
        raise UsageError(
            f"{len(agents):,} agents have games here, more than the {MAX_MATRIX:,} that can be rated by payoff"
        )
    first, second, pairs = sums.merged(agents)
    games, clusters, total = (pairs.column(name) for name in ("games", "clusters", "payoff"))
    seat, seat_variance = _seat(pairs)
    mean = (total - seat * pairs.column("lead")) / np.maximum(games, 1.0)
    level = total / np.maximum(games, 1.0)
    scattered = pairs.column("square") - 2.0 * level * pairs.column("crossed") + level**2 * pairs.column("sizes")
    many = clusters > 1
    own = np.where(many, scattered * clusters / np.maximum(clusters - 1.0, 1.0), 0.0)
    pooled = own.sum() / games[many].sum() if many.any() else pairs.column("square").sum() / max(games.sum(), 1.0)
    freedom = np.where(many, clusters - 1.0, 0.0)
    variance = (freedom * own + SCATTER_BELIEVED * pooled * games) / (freedom + SCATTER_BELIEVED)
    inverse = inverse_of(len(agents), first, second, games)
    pull = np.zeros(len(agents))
    np.add.at(pull, first, games * mean)
    np.add.at(pull, second, -games * mean)
    covariance = np.zeros((len(agents) + 2,) * 2)
    covariance[:-2, :-2] = inverse @ _laplacian(len(agents), first, second, variance) @ inverse
    group, pooled = linked(len(agents), first, second), float(pooled) or 1.0
    covariance[:-2, :-2] += np.where(group[:, None] == group, UNLINKED * pooled / 2.0, 0.0)
    covariance[-2, -2] = seat_variance
    none = Bonds(first[:0], second[:0], games[:0])
    model = Posterior(inverse @ pull, seat, -np.inf, Matrix(covariance), none, game_variance=pooled)
    return model, np.stack([first, second], axis=1), variance / np.maximum(games, 1.0) ** 2, mean


def means_of(sums: PairSums, bound: float | None) -> dict[tuple[str, str], Mean]:
    """What each agent was paid a match against each other that it met, with a normal 95 % interval from its clusters.

    bound: the most that a match can pay; None: twice the root mean square of the pair that scatters most.
    """
    agents = sorted({*sums.a, *sums.b})
    pairs = sums.merged(agents)[2]
    games, clusters, square = (pairs.column(name) for name in ("games", "clusters", "square"))
    mean = pairs.column("payoff") / np.maximum(games, 1.0)
    most = bound or assumed_bound(np.sqrt(square / np.maximum(clusters, 1.0)).tolist(), None)
    scattered = square - 2.0 * mean * pairs.column("crossed") + mean**2 * pairs.column("sizes")
    variance = np.where(clusters > 1, scattered * clusters / np.maximum(clusters - 1.0, 1.0), (most * games) ** 2)
    half = Z95 * np.sqrt(np.maximum(variance, 0.0)) / np.maximum(games, 1.0)
    found = {}
    for a, b, paid, width in zip(pairs.a, pairs.b, mean.tolist(), half.tolist(), strict=True):
        low, high = max(-most, paid - width), min(most, paid + width)
        found[a, b], found[b, a] = Mean(paid, low, high, most), Mean(-paid, -high, -low, most)
    return found


def inverse_of(size: int, first: Ints, second: Ints, games: Floats) -> Floats:
    """(N, N): the pseudo-inverse of the least squares' normal equations."""
    return np.asarray(pinvh(_laplacian(size, first, second, games)), np.float64) if size else np.zeros((0, 0))


def _seat(pairs: PairSums) -> tuple[float, float]:
    """What seat 0 is paid above even, from pairs of games, and the variance of that; 0 where there are none."""
    n = float(pairs.column("pairs").sum())
    if n < 1.0:
        return 0.0, 0.0
    mean = float(pairs.column("ahead").sum()) / n
    return mean, max(float(pairs.column("ahead_square").sum()) / n - mean**2, 0.0) / max(n - 1.0, 1.0)


def _laplacian(size: int, first: Ints, second: Ints, weight: Floats) -> Floats:
    """(N, N): of the graph with these edges (Q,)."""
    matrix = np.zeros((size, size))
    for i, j, sign in ((first, first, 1.0), (second, second, 1.0), (first, second, -1.0), (second, first, -1.0)):
        np.add.at(matrix, (i, j), sign * weight)
    return matrix
