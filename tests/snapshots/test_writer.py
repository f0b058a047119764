"""Snapshots in memory and on their way to the disk: their order, what a refusing disk costs, how many are kept."""

import errno
import os
import threading
from functools import partial
from pathlib import Path

import pytest
import torch

from league.errors import SnapshotError
from league.snapshots import io
from league.snapshots.io import Frozen
from league.snapshots.manifest import Manifest
from league.snapshots.writer import SnapshotWriter
from tests.snapshots.test_snapshots import about, weights


def frozen(step: int) -> Frozen:
    """A snapshot at a step, with weights of its own."""
    return io.freeze(weights(step), about(step=step))


def steps(writer: SnapshotWriter, *, wait: bool = True) -> list[int]:
    """The steps of what was written since this was asked."""
    found = iter(lambda: writer.take_written(wait=wait), None)
    return [manifest.step for manifest in found if manifest is not None]


def test_what_is_in_memory_is_what_the_files_hold(tmp_path: Path) -> None:
    """The same manifest and weights, byte for byte the file; and a damaged byte is found as it is in a file."""
    there = frozen(1)
    assert io.write(tmp_path / "1", there) == there.manifest
    assert (tmp_path / "1" / "weights.safetensors").read_bytes() == there.data
    (a, x), (b, y) = io.load(there), io.load(tmp_path / "1")
    assert a == b and all(torch.equal(x[name], y[name]) for name in y) and x.keys() == y.keys()
    damaged = Frozen(there.manifest, there.data[:-1] + bytes([there.data[-1] ^ 1]))
    with pytest.raises(SnapshotError, match=r"^snapshot [0-9a-f]{16}\.\.\. in memory is damaged: its sha256"):
        io.load(damaged)


def test_they_are_written_in_their_order_while_the_caller_goes_on(tmp_path: Path) -> None:
    """None is told of before its files are there, none before the one ahead of it, and all are in memory meanwhile."""
    writer, gates = SnapshotWriter(), [threading.Event() for _ in range(3)]
    given = [frozen(step) for step in range(3)]
    order: list[int] = []

    def write(step: int) -> Manifest:
        assert gates[step].wait(30)
        order.append(step)
        assert threading.current_thread() is not threading.main_thread()
        return io.write(tmp_path / str(step), given[step])

    for step in range(3):
        writer.add(given[step], partial(write, step))
    assert steps(writer, wait=False) == []
    assert [writer.recent(x.manifest.agent_id) for x in given] == given
    gates[1].set()
    gates[2].set()
    assert steps(writer, wait=False) == [] and not list(tmp_path.iterdir())
    gates[0].set()
    assert steps(writer) == [0, 1, 2] == order and steps(writer) == []
    assert not [thread for thread in threading.enumerate() if thread.name == "snapshots"], "it ends with its work"


def test_a_disk_that_refuses_is_told_at_each_call_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is the known line; what was not written is in memory, and is written once there is room."""
    writer, there = SnapshotWriter(most_bytes=0), frozen(1)

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fail)
        writer.add(there, lambda: io.write(tmp_path / "1", there))
        for _ in range(2):
            with pytest.raises(SnapshotError, match=r"^cannot write .*1: No space left on device; make room"):
                steps(writer)
        assert writer.recent(there.manifest.agent_id) is there and not list(tmp_path.iterdir())
    assert steps(writer) == [1] and io.load(tmp_path / "1")[0] == there.manifest
    assert writer.recent(there.manifest.agent_id) is None, "nothing is kept above the limit once it is written"


def test_the_oldest_in_memory_go_first_and_none_that_is_not_written(tmp_path: Path) -> None:
    """As many bytes are kept as may be; what was asked for last is kept longest."""
    given = [frozen(step) for step in range(4)]
    writer, gate = SnapshotWriter(most_bytes=2 * len(given[0].data)), threading.Event()

    def write(there: Frozen) -> Manifest:
        assert gate.wait(30)
        return io.write(tmp_path / str(there.manifest.step), there)

    def kept() -> list[int]:
        return [x.manifest.step for x in given if x.manifest.agent_id in writer._recent]

    for there in given[:3]:
        writer.add(there, partial(write, there))
    assert kept() == [0, 1, 2], "twice the limit is still to be written"
    gate.set()
    assert steps(writer) == [0, 1, 2] and kept() == [1, 2]
    assert writer.recent(given[1].manifest.agent_id) is given[1]
    writer.add(given[3], partial(write, given[3]))
    assert steps(writer) == [3] and kept() == [1, 3]
    writer.forget()
    assert kept() == []


def test_a_sum_that_overflows_is_no_value_that_is_not_finite() -> None:
    """Weights whose sum is too large for their type are finite; one inf or NaN among many is found and counted."""
    large = {"w": torch.full((8,), 3e38)}
    assert torch.equal(io.load(io.freeze(large, about()))[1]["w"], large["w"])
    for bad in (float("inf"), float("-inf"), float("nan")):
        mixed = torch.ones(1_000)
        mixed[7], mixed[8] = bad, -bad
        with pytest.raises(SnapshotError, match="w has 2 of 1000 values that are not finite"):
            io.freeze({"w": mixed}, about())


def test_what_comes_from_a_device_in_one_piece_is_what_comes_one_by_one() -> None:
    """Of every shape, layout and type, shared memory and scalars too; each copy has memory of its own."""
    base = torch.arange(24.0).view(4, 6)
    given = {
        "b": base.t(),
        "a": base[1:3, ::2],
        "scalar": torch.tensor(7),
        "none": torch.zeros(0, 3),
        "half": torch.ones(3, dtype=torch.bfloat16),
        "same": base,
        "flag": torch.tensor([True, False]),
    }
    here, there = io._copies(given), io._copies(given, host="another")
    assert list(here) == list(there) == sorted(given)
    for name, tensor in given.items():
        assert torch.equal(here[name], tensor) and torch.equal(there[name], tensor)
        assert there[name].dtype == tensor.dtype and there[name].is_contiguous()
        assert there[name].untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    assert io.freeze(here, about()).data == io.freeze(there, about()).data
