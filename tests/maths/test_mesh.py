"""Ratings of many agents: the elimination gives what matrices give, and takes the time and memory of a sparse graph."""

import numpy as np
import pytest

from league.errors import UsageError
from league.maths import davidson
from league.maths.davidson import Prior
from league.maths.mesh import Mesh
from league.maths.pairs import PairCounts
from league.maths.ratings import Ratings, bradley_terry

LINEAGE = [("agent-00001", "agent-00030"), ("agent-00030", "agent-00007"), ("agent-00070", "agent-00071")]


def games(agents: int, pairs: int, seed: int = 0) -> PairCounts:
    """Single games of random pairs; with few of them there are several groups."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, agents, pairs)
    second = (first + rng.integers(1, agents, pairs)) % agents
    result = rng.integers(0, 3, pairs)
    seats = (tuple(f"agent-{i:05d}" for i in seat) for seat in (first, second))
    return PairCounts(*seats, *((result == k).astype(np.int64) for k in range(3)))


def edges(counts: PairCounts) -> tuple[int, np.ndarray, np.ndarray]:
    names = {name: i for i, name in enumerate(sorted({*counts.seat0, *counts.seat1}))}
    met = {tuple(sorted((names[a], names[b]))) for a, b in zip(counts.seat0, counts.seat1, strict=True)}
    first, second = np.array(sorted(met)).T
    return len(names), first, second


@pytest.mark.parametrize("pairs", [40, 90, 200, 1_500])
@pytest.mark.parametrize("prior", [Prior(), Prior(draws=0.5, lineage=0.0)])
def test_many_agents_are_rated_as_few_are(pairs: int, prior: Prior, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = games(80, pairs)

    def rate() -> Ratings:
        return bradley_terry(counts, counts.seat0[0], lineage=LINEAGE, prior=prior)

    dense = rate()
    monkeypatch.setattr(davidson, "MAX_DENSE", 0)
    monkeypatch.setattr(davidson, "SMALLEST_MOVE_OF_MANY", davidson.SMALLEST_MOVE)
    sparse = rate()
    assert dense.agents == sparse.agents and dense.anchors == sparse.anchors
    for name in ("rating", "lower", "upper", "covariance"):
        np.testing.assert_allclose(getattr(sparse, name), getattr(dense, name), rtol=1e-5, atol=0.02)
    np.testing.assert_allclose(np.sort(sparse.pairs.z), np.sort(dense.pairs.z), atol=1e-5)
    assert sparse.dispersion == pytest.approx(dense.dispersion) and sparse.freedom == pytest.approx(dense.freedom)
    assert sparse.seat == pytest.approx(dense.seat, abs=1e-6)
    first, second = np.triu_indices(len(dense.agents), 1)
    same = dense.group[first] == dense.group[second]
    first, second = first[same], second[same]
    np.testing.assert_allclose(sparse.deviations(first, second), dense.deviations(first, second), rtol=1e-6)


@pytest.mark.parametrize("pairs", [30, 60, 300])
def test_a_factor_solves_and_inverts_the_laplacian(pairs: int) -> None:
    n, first, second = edges(games(40, pairs, seed=1))
    weights = 10.0 ** np.random.default_rng(0).uniform(-3.0, 2.0, len(first))
    laplacian = np.zeros((n, n))
    laplacian[first, second] = laplacian[second, first] = -weights
    laplacian -= np.diag(laplacian.sum(axis=1))
    inverse = np.linalg.pinv(laplacian, rcond=1e-12, hermitian=True)
    mesh = Mesh(n, first, second)
    factor = mesh.factor(weights)
    slow = inverse[first, first] + inverse[second, second] - 2.0 * inverse[first, second]
    np.testing.assert_allclose(factor.resistance, slow, rtol=1e-6)
    right = np.zeros((n, 1))
    right[first[0]], right[second[0]] = 1.0, -1.0
    x = factor.solve(right)
    np.testing.assert_allclose(laplacian @ x, right, atol=1e-9)
    assert not x[mesh.ground].any()


def test_thousands_of_agents_leave_a_small_core() -> None:
    n = 5_000
    child = np.arange(1, n)
    for parent in (child - 1, np.zeros(n - 1, np.int64), child // 2):
        mesh = Mesh(n, parent, child)
        assert not len(mesh.core) and mesh.num_edges < 2 * n
        resistance = mesh.factor(np.full(n - 1, 2.0)).resistance
        np.testing.assert_allclose(resistance, 0.5)
    assert len(Mesh(*edges(games(10_000, 15_000))).core) < 2_000


def test_a_board_of_thousands_needs_no_matrix_and_too_many_games_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("league.maths.joint.MAX_MATRIX", 500)
    counts = games(2_000, 2_400)
    ratings = bradley_terry(counts)
    order = np.argsort(-ratings.rating)
    linked = ratings.group[order[:-1]] == ratings.group[order[1:]]
    assert np.isfinite(ratings.superiorities(order[:-1][linked], order[1:][linked])).all()
    with pytest.raises(UsageError, match="adaptive schedule"):
        assert ratings.covariance.size
    monkeypatch.setattr(davidson, "MAX_CORE", 10)
    with pytest.raises(UsageError, match="cannot be rated together"):
        bradley_terry(counts)
