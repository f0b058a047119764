"""Weighted Laplacians of large sparse graphs: their solutions, and the entries of their inverse along their edges.

Nodes of few neighbours are eliminated (the star-mesh transformation of electrical networks: Kron 1939; Doerfler and
Bullo 2013, IEEE Transactions on Circuits and Systems I 60:150): the neighbours of one become neighbours of each other.
What is left is dense and small, the *core*. On the way back the inverse follows from that of the core, entry by entry
(Takahashi's equations; Erisman and Tinney 1975, CACM 18:177). Nothing is subtracted on the way there, so nothing
cancels, however far apart the weights are. One node of each part of the graph is the *ground*, whose potential is 0.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpotri
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MAX_DEGREE = 48
"""Neighbours up to which a node is eliminated; beyond, its new edges cost more than its row in a dense matrix."""
LEAST = 1e-300
"""A node whose edges weigh nothing is taken out by itself."""


@dataclass(frozen=True)
class _Step:
    """M nodes of D neighbours each, no two of them neighbours, which are eliminated together."""

    nodes: Ints  # (M,)
    neighbours: Ints  # (M, D)
    edges: Ints  # (M, D), to these
    between: Ints  # (M, D (D - 1) / 2), the edges between the neighbours, as `numpy.triu_indices` has them


class Mesh:
    """The elimination of a graph's nodes, which its edges alone decide; any weights may be put on these.

    Args:
        num_nodes: N.
        first, second: (E,), the edges' nodes; each edge once, sorted, its lower node first.
    """

    def __init__(self, num_nodes: int, first: Ints, second: Ints) -> None:
        self.num_nodes, self.first, self.second = num_nodes, first, second
        graph = coo_matrix((np.ones(len(first)), (first, second)), (num_nodes, num_nodes))
        self.part = np.asarray(connected_components(graph, directed=False)[1], np.int64)
        """(N,): the number of the part of the graph that each node is in."""
        self.size = np.bincount(self.part)
        near: list[dict[int, int]] = [{} for _ in range(num_nodes)]
        for edge, (i, j) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
            near[i][j] = near[j][i] = edge
        degree = np.array([len(edges) for edges in near])
        order = np.lexsort((-degree, self.part))
        self.ground = order[np.unique(self.part[order], return_index=True)[1]]
        self.num_edges = len(first)
        self.steps = self._eliminate(near)
        self.core = np.array(sorted(self._left - set(self.ground.tolist())), np.int64)
        place = np.full(num_nodes, -1)
        place[self.core] = np.arange(len(self.core))
        found = [(place[i], place[j], edge) for i in self.core.tolist() for j, edge in near[i].items()]
        self._core_edges = np.array(found, np.int64).reshape(-1, 3)

    def _eliminate(self, near: list[dict[int, int]]) -> list[_Step]:
        """The steps; `near` keeps the neighbours of what is left, and the edges to them."""
        self._left = set(range(self.num_nodes))
        open_nodes, steps = self._left - set(self.ground.tolist()), []
        while open_nodes:
            few = min(len(near[node]) for node in open_nodes)
            if few > MAX_DEGREE:
                break
            blocked: set[int] = set()
            found: dict[int, list[tuple[int, list[int], list[int], list[int]]]] = defaultdict(list)
            for node in sorted(open_nodes):
                edges = near[node]
                if len(edges) > few + 1 or len(edges) > MAX_DEGREE or node in blocked:
                    continue
                neighbours = list(edges)
                blocked.update(neighbours)
                for other in neighbours:
                    del near[other][node]
                between = []
                for k, a in enumerate(neighbours):
                    for b in neighbours[k + 1 :]:
                        if b not in near[a]:
                            near[a][b] = near[b][a] = self.num_edges
                            self.num_edges += 1
                        between.append(near[a][b])
                found[len(neighbours)].append((node, neighbours, list(edges.values()), between))
            for degree, those in sorted(found.items()):
                gone = {node for node, *_ in those}
                self._left -= gone
                open_nodes -= gone
                columns = (np.array(column, np.int64) for column in zip(*those, strict=True))
                nodes, *others = columns
                widths = degree, degree, degree * (degree - 1) // 2
                steps.append(_Step(nodes, *(x.reshape(len(nodes), w) for x, w in zip(others, widths, strict=True))))
        return steps

    def on_edges(self, first: Ints, second: Ints, values: Floats) -> Floats:
        """(E,): the sums of the values (P,) of pairs, each of which is an edge, in any order."""
        low, high = np.minimum(first, second), np.maximum(first, second)
        where = np.searchsorted(self.first * self.num_nodes + self.second, low * self.num_nodes + high)
        return np.bincount(where, values, len(self.first)).astype(np.float64, copy=False)

    def factor(self, weights: Floats) -> Factor:
        """The factor of the Laplacian with these weights (E,), none of them negative."""
        w = np.zeros(self.num_edges)
        w[: len(weights)] = weights
        totals, shares = [], []
        for step in self.steps:
            own = w[step.edges]
            total = np.maximum(own.sum(axis=1), LEAST)
            share = own / total[:, None]
            i, j = np.triu_indices(own.shape[1], 1)
            np.add.at(w, step.between, own[:, i] * share[:, j])
            totals.append(total)
            shares.append(share)
        size = len(self.core)
        core = np.zeros((size, size))
        row, column, edge = self._core_edges.T
        inside = column >= 0  # else it leads to the ground
        core[row[inside], column[inside]] = -w[edge[inside]]
        core[np.arange(size), np.arange(size)] = np.maximum(np.bincount(row, w[edge], size), LEAST)
        return Factor(self, totals, shares, cho_factor(core, lower=True, check_finite=False)[0] if size else core)


@dataclass(frozen=True)
class Factor:
    """A Laplacian with its ground taken out, factored.

    totals, shares: of each step the sum of a node's weights (M,), and what each of its neighbours has of it (M, D).
    core: the lower Cholesky factor of what is left.
    """

    mesh: Mesh
    totals: list[Floats]
    shares: list[Floats]
    core: Floats

    def solve(self, right: Floats) -> Floats:
        """Potentials (N, K) for the currents `right` (N, K); 0 at the ground, which takes what is left over."""
        mesh, x = self.mesh, right.copy()
        for step, share in zip(mesh.steps, self.shares, strict=True):
            np.add.at(x, step.neighbours, share[:, :, None] * x[step.nodes][:, None])
        x[mesh.ground] = 0.0
        if len(mesh.core):
            x[mesh.core] = cho_solve((self.core, True), x[mesh.core], check_finite=False)
        for step, share, total in zip(reversed(mesh.steps), reversed(self.shares), reversed(self.totals), strict=True):
            x[step.nodes] = x[step.nodes] / total[:, None] + np.einsum("md,mdk->mk", share, x[step.neighbours])
        return x

    @cached_property
    def inverse(self) -> tuple[Floats, Floats]:
        """Of the inverse the diagonal (N,) and the entries along the edges (E,), 0 at the ground."""
        mesh = self.mesh
        diagonal, along = np.zeros(mesh.num_nodes), np.zeros(mesh.num_edges)
        if len(mesh.core):
            core = dpotri(self.core, lower=1)[0]  # its lower half
            diagonal[mesh.core] = np.diag(core)
            row, column, edge = mesh._core_edges.T
            inside = (column >= 0) & (column < row)
            along[edge[inside]] = core[row[inside], column[inside]]
        for step, share, total in zip(reversed(mesh.steps), reversed(self.shares), reversed(self.totals), strict=True):
            count, degree = share.shape
            near = np.zeros((count, degree, degree))
            i, j = np.triu_indices(degree, 1)
            near[:, i, j] = near[:, j, i] = along[step.between]
            near[:, np.arange(degree), np.arange(degree)] = diagonal[step.neighbours]
            crossed = np.einsum("md,mde->me", share, near)
            along[step.edges] = crossed
            diagonal[step.nodes] = 1.0 / total + (crossed * share).sum(axis=1)
        return diagonal, along[: len(mesh.first)]

    @property
    def resistance(self) -> Floats:
        """(E,): the effective resistance of each edge."""
        diagonal, along = self.inverse
        mesh = self.mesh
        return np.asarray(diagonal[mesh.first] + diagonal[mesh.second] - 2.0 * along, np.float64)
