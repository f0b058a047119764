"""Several ranks learn as one process does that has all of their rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from league import config as settings
from league.runtime.ranks import Ranks, joined
from league.runtime.rows import RowGenerator, RowShare, draw_normal, draw_uniform
from league.runtime.trees import from_bytes, to_bytes
from league.training.learner import Learner
from league.types import Rollout
from tests.helpers.ranks import together
from tests.helpers.rollouts import make_collector

ROWS, STEPS, SEGMENTS = 128, 8, 2
CHANGES = {
    "minibatch_size": 1_000_000,
    "epochs": 1,
    "max_gradient_norm": 1e9,
    "opponent_prediction": 0.1,
    "magnet": 0.1,
}
TYPES = {"double": (torch.float64, 1e-10), "single": (torch.float32, 1e-4)}
"""And how far gradients may be apart."""
FIGURES = ("obs", "mask", "action", "log_prob", "value", "reward", "next_value", "ends", "is_first")


def rollout_of(dtype: torch.dtype) -> tuple[Any, Rollout]:
    """A network, and what it played in `ROWS` rows, two segments beside each other."""
    collector = make_collector(rows=ROWS, precision="highest", time_limit_seconds=1.0)
    rollout = collector.collect(STEPS, 1, SEGMENTS)
    figures = {name: getattr(rollout, name) for name in FIGURES}
    figures = {name: x.to(dtype) if x is not None and x.is_floating_point() else x for name, x in figures.items()}
    policy = collector.policy.to(dtype)  # type: ignore[attr-defined]
    state = policy.initial_state(SEGMENTS * ROWS)
    state.load({name: x.to(dtype) if x.is_floating_point() else x for name, x in rollout.state.tensors().items()})
    return policy, replace(rollout, **figures, state=state)


def made(dtype: torch.dtype, ranks: Ranks | None = None) -> tuple[Learner, Rollout]:
    """A learner, whose layer beside the network has the same type, and the whole rollout."""
    policy, rollout = rollout_of(dtype)
    config = settings.load().learner.model_copy(update={**CHANGES, "precision": "highest"})
    learner = Learner(policy, config, np.random.default_rng(0), torch.device("cpu"), ranks)
    assert learner._foresight is not None
    learner._foresight.to(dtype)
    return learner, rollout


def part_of(rollout: Rollout, ranks: Ranks) -> Rollout:
    """The rows of one rank."""
    share = ROWS // ranks.size
    rows = torch.arange(ranks.rank * share, (ranks.rank + 1) * share)
    columns = torch.cat([segment * ROWS + rows for segment in range(SEGMENTS)])
    figures = {name: None if (x := getattr(rollout, name)) is None else x[:, columns] for name in FIGURES}
    return replace(rollout, **figures, state=rollout.state.select(columns))


def first_gradients(rank: int, path: str) -> None:
    """Writes the gradients of an update from a rank's rows, and its metrics, in both types."""
    torch.set_num_threads(1)
    with joined(print) as ranks:
        assert ranks is not None and ranks.rank == rank
        for name, (dtype, _) in TYPES.items():
            learner, rollout = made(dtype, ranks)
            told = learner.update(part_of(rollout, ranks))
            found = {"gradient": gradient_of(learner), "told": told, "credit": learner.returns.credit}
            Path(f"{path}-{rank}-{name}").write_bytes(to_bytes(found))


def gradient_of(learner: Learner) -> Tensor:
    """What is left of an update's only minibatch."""
    return torch.cat([x.grad.flatten() for x in learner.policy.parameters() if x.grad is not None])


def test_gradients_are_those_of_one_process_with_all_rows(tmp_path: Path) -> None:
    """128 rows of a process alone, of one rank, and 64 of each of two; both of the two have the same bits."""
    for size in (1, 2):
        together(tmp_path / str(size), size, first_gradients, str(tmp_path / f"of-{size}"))
    for name, (dtype, apart) in TYPES.items():
        places = (f"of-{which}-{name}" for which in ("1-0", "2-0", "2-1"))
        whole, first, second = (from_bytes((tmp_path / place).read_bytes()) for place in places)
        alone, rollout = made(dtype)
        alone.update(rollout)
        assert float(whole["gradient"].norm()) > 0.01 and len(whole["gradient"]) > 1_000
        assert torch.equal(first["gradient"], second["gradient"]) and first["told"] == second["told"]
        for other in (whole["gradient"], gradient_of(alone)):
            assert float((other - first["gradient"]).abs().max()) < apart
        assert torch.allclose(whole["credit"], first["credit"])
        for figure, value in whole["told"].items():
            assert abs(value - first["told"][figure]) < 1e-4 * max(1, abs(value)), figure


def minibatches(size: int, segments: int) -> list[list[set[tuple[int, int]]]]:
    """(Row of the run, segment) of each minibatch, by rank."""
    found = []
    for rank in range(size):
        policy, rows = torch.nn.Linear(1, 1), 24 // size
        policy.sequence = None  # type: ignore[assignment]
        config = settings.load().learner.model_copy(update={"minibatch_size": 8 * segments, "magnet": 0.0})
        policy.sequence = lambda obs, action, state, is_first, mask=None, watched=None: None  # type: ignore[assignment]
        learner = Learner(policy, config, np.random.default_rng(0), torch.device("cpu"), Ranks(rank, size))  # type: ignore[arg-type]
        rollout: Any = type("Played", (), {"obs": torch.zeros(1, rows * segments, 1), "segments": segments})
        batches = [batch.tolist() for batch in learner._shuffled(rollout)]
        found.append([{(rank * rows + x % rows, x // rows) for x in batch} for batch in batches])
        assert {len(batch) for batch in batches} == {rows * segments // 3}
    return found


@pytest.mark.parametrize("segments", [1, 2])
def test_a_minibatch_is_the_union_of_the_ranks(segments: int) -> None:
    """Every row of every segment is in one minibatch, whatever the number of ranks, and each rank has as many."""
    [whole] = minibatches(1, segments)
    assert set().union(*whole) == {(row, segment) for row in range(24) for segment in range(segments)}
    for size in (2, 4):
        assert [set().union(*parts) for parts in zip(*minibatches(size, segments), strict=True)] == whole


def drawn(shares: list[RowShare], update: int) -> Tensor:
    """What all rows draw in one call."""
    found = []
    for share in shares:
        generator = RowGenerator(share)
        generator.begin((update, 3, 0, 0), 0, share.num_rows)
        shape, cpu = torch.Size((share.num_rows, 5)), torch.device("cpu")
        found.append(torch.cat([draw_uniform(shape, generator, cpu), draw_normal(shape, generator, cpu)], 1))
    return torch.cat(found)


def test_rows_draw_alike_whoever_plays_them() -> None:
    """The same numbers for each row, others in the next update; opponents and the spare row, too."""
    one, two = [RowShare(0, 8, 8, 1)], [RowShare(0, 4, 8, 1), RowShare(4, 4, 8, 1)]
    assert torch.equal(drawn(one, 1), drawn(two, 1)) and not torch.equal(drawn(one, 1), drawn(one, 2))
    whole, later = RowGenerator(one[0]), RowGenerator(two[1])
    whole.begin((1,), 0, 8, torch.tensor([8, 6, 4, 5]))
    later.begin((1,), 0, 4, torch.tensor([4, 2, 0, 1]))
    shape = torch.Size((4, 2))
    rows = [draw_uniform(shape, generator, torch.device("cpu")) for generator in (whole, later)]
    assert torch.equal(*rows) and len(rows[0].unique()) == 8
    assert one[0].rng(3, 6, 1).random() == two[1].rng(3, 2, 1).random() != two[1].rng(3, 2, 2).random()
