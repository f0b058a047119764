"""What is known together of a model's N strengths, the first seat's advantage and the weight of draws.

Of few agents it is a covariance matrix. Of many it is a factor (`mesh.py`), from which the variances follow that are
wanted: a matrix of 10,000 agents takes 800 MB, and minutes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpotri
from scipy.sparse import csr_matrix

from league.errors import UsageError
from league.maths.mesh import Mesh

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MAX_MATRIX = 4_000
"""Agents of which a whole covariance matrix is made (128 MB), which adaptive tournaments need."""
BLOCK = 256
"""Columns that are solved for at a time."""


class Joint(Protocol):
    """The joint normal distribution around a posterior's mode; parameters N and N + 1 are seat and log v."""

    def matrix(self) -> Floats:
        """The covariance (N + 2, N + 2)."""

    def variance(self, first: Ints, second: Ints) -> Floats:
        """(M,): of the differences of strengths t[first] - t[second]."""

    def variance_to(self, weight: Floats, group: Ints) -> Floats:
        """(N,): of each strength's difference to its group's mean with these weights (N,), which sum to 1 in each."""

    def crossed(self, first: Ints, second: Ints) -> Floats:
        """(M, 2): covariances of t[first] - t[second] with seat and log v."""

    @property
    def others(self) -> Floats:
        """(2, 2): of seat and log v."""


@dataclass(frozen=True)
class Matrix:
    """The covariance (N + 2, N + 2) itself."""

    covariance: Floats

    def matrix(self) -> Floats:
        """See `Joint`."""
        return self.covariance

    def variance(self, first: Ints, second: Ints) -> Floats:
        """See `Joint`."""
        c = self.covariance
        return np.asarray(c[first, first] + c[second, second] - 2.0 * c[first, second], np.float64)

    def variance_to(self, weight: Floats, group: Ints) -> Floats:
        """See `Joint`."""
        variance = np.empty(len(group))
        for number in range(int(group.max()) + 1 if len(group) else 0):
            members = np.flatnonzero(group == number)
            block, share = self.covariance[np.ix_(members, members)], weight[members]
            variance[members] = np.diag(block) + share @ block @ share - 2.0 * block @ share
        return variance

    def crossed(self, first: Ints, second: Ints) -> Floats:
        """See `Joint`."""
        return np.asarray(self.covariance[first, -2:] - self.covariance[second, -2:], np.float64)

    @property
    def others(self) -> Floats:
        """See `Joint`."""
        return self.covariance[-2:, -2:]


class Hessian:
    """Minus the second derivatives of a log-posterior as a matrix (F, F), in the F free parameters."""

    def __init__(self, values: Floats) -> None:
        self._values = values

    def solve(self, gradient: Floats) -> Floats:
        """The step (F,) that Newton's method takes."""
        factor = cho_factor(self._values, lower=True, check_finite=False)
        return np.asarray(cho_solve(factor, gradient, check_finite=False), np.float64)

    def joint(self, is_free: Bools, seat_variance: float) -> Joint:
        """The distribution; parameters that are not free are known, but for the seat's variance."""
        covariance = np.zeros((len(is_free), len(is_free)))
        covariance[-2, -2] = seat_variance
        covariance[np.ix_(is_free, is_free)] = inverse(self._values)
        return Matrix(covariance)


class SparseHessian:
    """The same of many agents: a graph's Laplacian, whose parts each have their mean held, and K columns beside it.

    Args:
        mesh: the graph.
        weights: (E,), of its edges.
        border: (N, K), of strengths and the K free ones of seat and log v; each part's column sums to 0.
        corner: (K, K).
    """

    def __init__(self, mesh: Mesh, weights: Floats, border: Floats, corner: Floats) -> None:
        self._mesh, self._factor, self._border = mesh, mesh.factor(weights), border
        self._carried = self._solve(border)
        self._inner = np.linalg.inv(corner - border.T @ self._carried)

    def _solve(self, right: Floats) -> Floats:
        """The strengths' own part of the inverse times `right` (N, K)."""
        part, size = self._mesh.part, self._mesh.size
        mean = csr_matrix((1.0 / size[part], (part, np.arange(len(part)))))
        level = (mean @ right)[part]
        x = self._factor.solve(right - level)
        return np.asarray(x - (mean @ x)[part] + 2.0 * level, np.float64)

    def solve(self, gradient: Floats) -> Floats:
        """The step (F,) that Newton's method takes."""
        n = self._mesh.num_nodes
        x = self._solve(gradient[:n, None])[:, 0]
        others = self._inner @ (gradient[n:] - self._border.T @ x)
        return np.concatenate([x - self._carried @ others, others])

    def joint(self, is_free: Bools, seat_variance: float) -> Joint:
        """See `Hessian.joint`."""
        return _Sparse(self, is_free[-2:], seat_variance)


class _Sparse:
    """A `Joint` of a factor. A difference's variance does not depend on where the means are held."""

    def __init__(self, hessian: SparseHessian, is_free: Bools, seat_variance: float) -> None:
        self._mesh, self._factor = hessian._mesh, hessian._factor
        self._carried, self._inner = hessian._carried, hessian._inner
        self.others = np.diag([seat_variance, 0.0])
        self.others[np.ix_(is_free, is_free)] = hessian._inner
        self._is_free, self._hessian = is_free, hessian
        self._edges = self._mesh.first * self._mesh.num_nodes + self._mesh.second

    def matrix(self) -> Floats:
        """See `Joint`."""
        n = self._mesh.num_nodes
        if n > MAX_MATRIX:
            raise UsageError(
                f"{n:,} agents have games here, more than the {MAX_MATRIX:,} that an adaptive schedule looks at; see"
                f" `league imports list`, or pass --format round-robin"
            )
        own = self._hessian._solve(np.eye(n)) + self._carried @ self._inner @ self._carried.T
        crossed = np.zeros((n, 2))
        crossed[:, self._is_free] = -self._carried @ self._inner
        return np.asarray(np.block([[own, crossed], [crossed.T, self.others]]), np.float64)

    def variance(self, first: Ints, second: Ints) -> Floats:
        """See `Joint`."""
        diagonal, along = self._factor.inverse
        wanted = np.minimum(first, second) * self._mesh.num_nodes + np.maximum(first, second)
        where = np.minimum(np.searchsorted(self._edges, wanted), len(self._edges) - 1)
        is_edge, shared = self._edges[where] == wanted, np.zeros(len(first))
        shared[is_edge] = along[where[is_edge]]
        rest = np.flatnonzero(~is_edge)
        one, other = (first, second) if len(np.unique(first[rest])) <= len(np.unique(second[rest])) else (second, first)
        shared[rest] = self._entries(one[rest], other[rest])
        gap = self._carried[first] - self._carried[second]
        own = diagonal[first] + diagonal[second] - 2.0 * shared
        return np.asarray(own + np.einsum("mk,kl,ml->m", gap, self._inner, gap), np.float64)

    def _entries(self, rows: Ints, columns: Ints) -> Floats:
        """(M,): entries of the Laplacian's inverse."""
        found = np.zeros(len(rows))
        wanted, place = np.unique(rows, return_inverse=True)
        for begin in range(0, len(wanted), BLOCK):
            block = wanted[begin : begin + BLOCK]
            right = np.zeros((self._mesh.num_nodes, len(block)))
            right[block, np.arange(len(block))] = 1.0
            solved = self._factor.solve(right)
            here = np.flatnonzero((place >= begin) & (place < begin + BLOCK))
            found[here] = solved[columns[here], place[here] - begin]
        return found

    def variance_to(self, weight: Floats, group: Ints) -> Floats:
        """See `Joint`."""
        diagonal, _ = self._factor.inverse
        carried = self._carried - _sums(weight[:, None] * self._carried, group)[group]
        variance = diagonal + np.einsum("mk,kl,ml->m", carried, self._inner, carried)
        width = int(group.max(initial=0)) + 1
        pairs, place = np.unique(self._mesh.part * width + group, return_inverse=True)
        part = pairs // width
        turn = np.arange(len(pairs)) - np.searchsorted(part, part)  # groups of one part, one after the other
        for k in range(int(turn.max(initial=-1)) + 1):
            here = turn[place] == k
            mean = self._factor.solve(np.where(here, weight, 0.0)[:, None])
            spread = _sums(np.where(here, weight, 0.0)[:, None] * mean, group)[group]
            variance[here] += (spread - 2.0 * mean)[here, 0]
        return np.asarray(variance, np.float64)

    def crossed(self, first: Ints, second: Ints) -> Floats:
        """See `Joint`."""
        crossed = np.zeros((len(first), 2))
        crossed[:, self._is_free] = -(self._carried[first] - self._carried[second]) @ self._inner
        return crossed


def _sums(values: Floats, group: Ints) -> Floats:
    """(G, K): the sums of values (N, K) in each group."""
    sums = np.zeros((int(group.max(initial=-1)) + 1, values.shape[1]))
    np.add.at(sums, group, values)
    return sums


def inverse(matrix: Floats) -> Floats:
    """Of a positive definite matrix."""
    if not len(matrix):
        return matrix
    factor, _ = cho_factor(matrix, lower=True, check_finite=False)
    lower, failed = dpotri(factor, lower=1)
    if failed:
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    lower = np.tril(lower)
    return np.asarray(lower + np.tril(lower, -1).T, np.float64)
