"""Snapshots on disk: round trip, every kind of damage, and what is left after a failure or a kill."""

import errno
import hashlib
import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import safetensors.torch
import torch

from league.errors import SnapshotError
from league.runtime.disk import clean, write_atomic
from league.snapshots import io
from league.snapshots.files import MANIFEST, WEIGHTS
from league.snapshots.io import Frozen, content_hash, load, save
from league.snapshots.manifest import About, GameRecord, Manifest, spec_from_json, spec_to_json
from league.snapshots.writer import SnapshotWriter
from league.types import ActionSpec, GameSpec

SPEC = GameSpec(
    name="toy",
    version=2,
    obs_size=6,
    opponent_slice=(3, 6),
    obs_range=(0.0, 1.0),
    action=ActionSpec("multi_discrete", (2, 3)),
    reward_terms=("win",),
    metrics=(),
    end_reasons=("over",),
    bots=("constant",),
    tick_rate=30.0,
)


def about(**changes: Any) -> About:
    fields: dict[str, Any] = {
        "run": "r1",
        "step": 5_000,
        "update": 3,
        "seed": 7,
        "fingerprint": "ab" * 32,
        "game": GameRecord(name="toy", version=2, game_id="0123456789abcdef", options={"rounds": 3, "mix": [0.5, 0.5]}),
        "spec": spec_to_json(SPEC),
        "architecture": {"lstm_size": 4, "head_sizes": [2]},
        "config": {"learner": {"target_kl": None}},
        "history_tokens": 30,
    }
    return About(**{**fields, **changes})


def weights(seed: int = 0) -> dict[str, torch.Tensor]:
    """Small weights of several types, one of them transposed and one a scalar."""
    generator = torch.Generator().manual_seed(seed)
    return {
        "b.weight": torch.randn(3, 5, generator=generator).T,
        "a.weight": torch.randn(4, generator=generator, dtype=torch.float64),
        "half": torch.randn(2, 2, generator=generator).to(torch.bfloat16),
        "count": torch.tensor(9),
        "large": torch.tensor([1e300], dtype=torch.float64),
    }


def refusal(folder: Path) -> str:
    """The message of the SnapshotError that `load` raises, which must be one line."""
    with pytest.raises(SnapshotError) as caught:
        load(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file below `folder` with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_round_trip_keeps_weights_and_manifest(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "s"
    written = save(folder, weights(), about())
    manifest, tensors = load(folder)
    assert manifest == written
    assert manifest.agent_id == hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    assert set(tensors) == set(weights())
    for name, tensor in weights().items():
        assert tensors[name].dtype == tensor.dtype and torch.equal(tensors[name], tensor)
    given = dict(about(created_at=manifest.created_at))
    assert {key: value for key, value in manifest if key not in ("agent_id", "format")} == given
    assert spec_from_json(manifest.spec) == SPEC
    assert sorted(path.name for path in folder.iterdir()) == sorted([WEIGHTS, MANIFEST])
    assert [path.name for path in folder.parent.iterdir()] == ["s"]


def test_content_hash_is_of_the_values_not_of_their_order_or_layout() -> None:
    tensors = weights()
    turned = {name: torch.nn.Parameter(tensor.clone(), tensor.is_floating_point()) for name, tensor in tensors.items()}
    turned["b.weight"] = torch.nn.Parameter(tensors["b.weight"].contiguous())
    assert content_hash(dict(reversed(list(turned.items())))) == content_hash(tensors)
    tensors["a.weight"][0] += 1e-12
    assert content_hash(tensors) != content_hash(weights())


def test_the_folder_of_a_run_is_no_snapshot(tmp_path: Path) -> None:
    """The next step is to name the agent: nothing of the folder is missing."""
    (tmp_path / "run.json").touch()
    assert refusal(tmp_path).endswith("is missing; pass the whole folder of a snapshot, or name RUN@STEP")


def test_another_agent_is_never_overwritten_and_an_equal_one_accepted(tmp_path: Path) -> None:
    first = save(tmp_path / "s", weights(), about())
    before = files_below(tmp_path)
    assert save(tmp_path / "s", weights(), about(created_at="2020-01-01T00:00:00+00:00")) == first
    with pytest.raises(SnapshotError, match="holds another agent"):
        save(tmp_path / "s", weights(1), about())
    assert files_below(tmp_path) == before


def flip(path: Path, place: int) -> None:
    """One bit of the byte at `place` changed."""
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def edit(folder: Path, **changes: Any) -> None:
    """Fields of manifest.json replaced; None removes one."""
    data = {**json.loads((folder / MANIFEST).read_text()), **changes}
    (folder / MANIFEST).write_text(json.dumps({key: value for key, value in data.items() if value is not None}))


def forge(folder: Path, data: bytes) -> None:
    """Other bytes as weights, with a manifest whose hash fits them."""
    (folder / WEIGHTS).write_bytes(data)
    edit(folder, agent_id=hashlib.sha256(data).hexdigest())


DAMAGE: dict[str, tuple[Callable[[Path], Any], tuple[str, ...]]] = {
    "no weights": (lambda f: (f / WEIGHTS).unlink(), (WEIGHTS, "missing")),
    "no manifest": (lambda f: (f / MANIFEST).unlink(), (MANIFEST, "missing")),
    "weights cut": (lambda f: (f / WEIGHTS).write_bytes((f / WEIGHTS).read_bytes()[:-1]), (WEIGHTS, "damaged")),
    "data bit": (lambda f: flip(f / WEIGHTS, -1), (WEIGHTS, "damaged", "sha256")),
    "weights a folder": (
        lambda f: [(f / WEIGHTS).unlink(), (f / WEIGHTS).mkdir()],
        (WEIGHTS, "cannot be read"),
    ),
    "manifest cut": (lambda f: (f / MANIFEST).write_bytes((f / MANIFEST).read_bytes()[:40]), (MANIFEST, "JSON")),
    "manifest a list": (lambda f: (f / MANIFEST).write_text("[1]"), (MANIFEST, "not a snapshot's manifest")),
    "wrong hash": (lambda f: edit(f, agent_id="0" * 64), (WEIGHTS, "sha256", "0000")),
    "field gone": (lambda f: edit(f, fingerprint=None), (MANIFEST, "fingerprint")),
    "field unknown": (lambda f: edit(f, code="import os"), (MANIFEST, "code")),
    "local time": (lambda f: edit(f, created_at="2024-01-01T00:00:00"), (MANIFEST, "created_at", "UTC")),
    "spec broken": (lambda f: edit(f, spec={"name": "toy"}), (MANIFEST, "spec", "version")),
    "later format": (lambda f: edit(f, format=4), (MANIFEST, "format=4 is not 3")),
    "foreign weights": (lambda f: forge(f, b"PK\x03\x04 no safetensors"), (WEIGHTS, "no safetensors file")),
    "huge header": (lambda f: forge(f, b"\xff" * 8 + b"{}"), (WEIGHTS, "no safetensors file")),
    "not a number": (
        lambda f: forge(f, safetensors.torch.save({"w": torch.tensor([1.0, float("nan"), float("inf")])})),
        (WEIGHTS, "w has 2 of 3 values that are not finite"),
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_one_line_with_the_file(damage: str, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    save(folder, weights(), about())
    act, parts = DAMAGE[damage]
    act(folder)
    message = refusal(folder)
    for part in parts:
        assert part in message


@pytest.mark.parametrize(("limit", "file"), [("MAX_WEIGHTS_BYTES", WEIGHTS), ("MAX_MANIFEST_BYTES", MANIFEST)])
def test_file_above_the_limit_is_not_read(
    limit: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "s", weights(), about())
    size = (tmp_path / "s" / file).stat().st_size
    monkeypatch.setattr(io, limit, size)
    load(tmp_path / "s")
    monkeypatch.setattr(io, limit, size - 1)
    assert file in refusal(tmp_path / "s") and f"{size:,} bytes" in refusal(tmp_path / "s")


def test_weights_that_are_not_finite_are_not_saved(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="b has 1 of 2 values"):
        save(tmp_path / "s", {"a": torch.ones(2), "b": torch.tensor([1.0, float("nan")])}, about())
    assert not list(tmp_path.iterdir())


def test_killed_writer_leaves_only_what_clean_removes(tmp_path: Path) -> None:
    save(tmp_path / "old", weights(), about())
    write_atomic(tmp_path / ".hidden", b"kept")
    code = """
        import os, sys, torch
        from tests.snapshots.test_snapshots import about
        from league.runtime.disk import write_atomic
        from league.snapshots.io import save
        os.rename = os.replace = lambda *_: os._exit(9)
        if sys.argv[2] == "folder":
            save(sys.argv[1] + "/new", {"a": torch.ones(3)}, about())
        write_atomic(sys.argv[1] + "/new.json", b"{}")
    """
    before = files_below(tmp_path)
    for what in ("folder", "file"):
        command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path), what]
        assert subprocess.run(command, cwd=Path(__file__).parents[2], check=False).returncode == 9
    assert not (tmp_path / "new").exists() and not (tmp_path / "new.json").exists()
    assert len(clean(tmp_path)) == 2
    assert files_below(tmp_path) == before
    assert clean(tmp_path) == []


def frozen(step: int) -> Frozen:
    """A snapshot at a step, with weights of its own."""
    return io.freeze(weights(step), about(step=step))


def steps(writer: SnapshotWriter, *, wait: bool = True) -> list[int]:
    """The steps of what was written since this was asked."""
    found = iter(lambda: writer.take_written(wait=wait), None)
    return [manifest.step for manifest in found if manifest is not None]


def test_what_is_in_memory_is_what_the_files_hold(tmp_path: Path) -> None:
    there = frozen(1)
    assert io.write(tmp_path / "1", there) == there.manifest
    assert (tmp_path / "1" / "weights.safetensors").read_bytes() == there.data
    (a, x), (b, y) = io.load(there), io.load(tmp_path / "1")
    assert a == b and all(torch.equal(x[name], y[name]) for name in y) and x.keys() == y.keys()
    damaged = Frozen(there.manifest, there.data[:-1] + bytes([there.data[-1] ^ 1]))
    with pytest.raises(SnapshotError, match=r"^snapshot [0-9a-f]{16}\.\.\. in memory is damaged: its sha256"):
        io.load(damaged)


def test_they_are_written_in_their_order_while_the_caller_goes_on(tmp_path: Path) -> None:
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


def test_they_are_written_without_threads_where_the_system_makes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, given = SnapshotWriter(), [frozen(step) for step in range(2)]
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", mock.Mock(side_effect=RuntimeError("can't start new thread")))
        for there in given:
            writer.add(there, partial(io.write, tmp_path / str(there.manifest.step), there))
    assert steps(writer, wait=False) == [0, 1]


def test_a_disk_that_refuses_is_told_at_each_call_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_what_comes_from_a_device_in_one_piece_is_what_comes_one_by_one() -> None:
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
