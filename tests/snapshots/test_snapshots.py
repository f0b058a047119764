"""Snapshots on disk: round trip, every kind of damage, and what is left after a failure or a kill."""

import errno
import hashlib
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from league.errors import SnapshotError
from league.snapshots import io
from league.snapshots.files import MANIFEST, WEIGHTS, clean, write_atomic
from league.snapshots.io import content_hash, load, save
from league.snapshots.manifest import About, GameRecord, spec_from_json, spec_to_json
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
    """A plausible manifest without its hash."""
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
    """What is loaded equals what was saved, types and shapes too, under an id that is the file's sha256."""
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
    """Names in another order or memory in another layout give the same id; one changed value another."""
    tensors = weights()
    turned = {name: torch.nn.Parameter(tensor.clone(), tensor.is_floating_point()) for name, tensor in tensors.items()}
    turned["b.weight"] = torch.nn.Parameter(tensors["b.weight"].contiguous())
    assert content_hash(dict(reversed(list(turned.items())))) == content_hash(tensors)
    tensors["a.weight"][0] += 1e-12
    assert content_hash(tensors) != content_hash(weights())


def test_saved_weights_are_copies(tmp_path: Path) -> None:
    """Tensors that share memory are written whole, and training on does not change what was saved."""
    base = torch.arange(4.0)
    written = save(tmp_path / "s", {"x": base, "y": base[:2], "z": base}, about())
    base.fill_(-1)
    manifest, tensors = load(tmp_path / "s")
    assert manifest == written
    assert tensors["x"].tolist() == tensors["z"].tolist() == [0, 1, 2, 3] and tensors["y"].tolist() == [0, 1]


def test_another_agent_is_never_overwritten_and_an_equal_one_accepted(tmp_path: Path) -> None:
    """Saving the same weights again changes no byte; other weights are refused and change none either."""
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
    "weights empty": (lambda f: (f / WEIGHTS).write_bytes(b""), (WEIGHTS, "damaged")),
    "data bit": (lambda f: flip(f / WEIGHTS, -1), (WEIGHTS, "damaged", "sha256")),
    "header bit": (lambda f: flip(f / WEIGHTS, 0), (WEIGHTS, "damaged")),
    "weights a folder": (
        lambda f: [(f / WEIGHTS).unlink(), (f / WEIGHTS).mkdir()],
        (WEIGHTS, "cannot be read"),
    ),
    "manifest cut": (lambda f: (f / MANIFEST).write_bytes((f / MANIFEST).read_bytes()[:40]), (MANIFEST, "JSON")),
    "manifest bytes": (lambda f: (f / MANIFEST).write_bytes(b"\xff\x00"), (MANIFEST, "JSON")),
    "manifest a list": (lambda f: (f / MANIFEST).write_text("[1]"), (MANIFEST, "not a snapshot's manifest")),
    "wrong hash": (lambda f: edit(f, agent_id="0" * 64), (WEIGHTS, "sha256", "0000")),
    "hash no hash": (lambda f: edit(f, agent_id="../../x"), (MANIFEST, "agent_id")),
    "field gone": (lambda f: edit(f, fingerprint=None), (MANIFEST, "fingerprint")),
    "field unknown": (lambda f: edit(f, code="import os"), (MANIFEST, "code")),
    "field type": (lambda f: edit(f, step="5"), (MANIFEST, "step", "integer")),
    "local time": (lambda f: edit(f, created_at="2024-01-01T00:00:00"), (MANIFEST, "created_at", "UTC")),
    "spec broken": (lambda f: edit(f, spec={"name": "toy"}), (MANIFEST, "spec", "version")),
    "spec widened": (lambda f: edit(f, spec={**spec_to_json(SPEC), "hook": "x"}), (MANIFEST, "spec", "hook: unknown")),
    "spec type": (lambda f: edit(f, spec={**spec_to_json(SPEC), "obs_size": "6"}), (MANIFEST, "spec", "obs_size")),
    "spec anchor": (lambda f: edit(f, spec={**spec_to_json(SPEC), "anchor": "x"}), (MANIFEST, "spec", "anchor='x'")),
    "spec ticks": (lambda f: edit(f, spec={**spec_to_json(SPEC), "ticks_per_step": 0}), (MANIFEST, "ticks_per_step=0")),
    "later format": (lambda f: edit(f, format=4), (MANIFEST, "format=4 is not 3")),
    "earlier format": (lambda f: edit(f, format=1, spec={"name": "brawl"}), (MANIFEST, "format=1 is not 3")),
    "foreign weights": (lambda f: forge(f, b"PK\x03\x04 no safetensors"), (WEIGHTS, "no safetensors file")),
    "huge header": (lambda f: forge(f, b"\xff" * 8 + b"{}"), (WEIGHTS, "no safetensors file")),
    "not a number": (
        lambda f: forge(f, safetensors.torch.save({"w": torch.tensor([1.0, float("nan"), float("inf")])})),
        (WEIGHTS, "w has 2 of 3 values that are not finite"),
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_one_line_with_the_file(damage: str, tmp_path: Path) -> None:
    """Every kind of damage is refused on one line that names the file and what is wrong."""
    folder = tmp_path / "s"
    save(folder, weights(), about())
    act, parts = DAMAGE[damage]
    act(folder)
    message = refusal(folder)
    for part in parts:
        assert part in message


def test_missing_folder_and_file_in_its_place_are_refused(tmp_path: Path) -> None:
    """A path without a snapshot names itself and what belongs there."""
    assert "nothing" in refusal(tmp_path / "nothing") and WEIGHTS in refusal(tmp_path / "nothing")
    (tmp_path / "file").write_text("x")
    assert "no snapshot at" in refusal(tmp_path / "file")


@pytest.mark.parametrize(("limit", "file"), [("MAX_WEIGHTS_BYTES", WEIGHTS), ("MAX_MANIFEST_BYTES", MANIFEST)])
def test_file_above_the_limit_is_not_read(
    limit: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file larger than its limit is refused by its size."""
    save(tmp_path / "s", weights(), about())
    size = (tmp_path / "s" / file).stat().st_size
    monkeypatch.setattr(io, limit, size)
    load(tmp_path / "s")
    monkeypatch.setattr(io, limit, size - 1)
    assert file in refusal(tmp_path / "s") and f"{size:,} bytes" in refusal(tmp_path / "s")


def test_weights_that_are_not_finite_are_not_saved(tmp_path: Path) -> None:
    """A NaN is refused by name before anything is written."""
    with pytest.raises(SnapshotError, match="b has 1 of 2 values"):
        save(tmp_path / "s", {"a": torch.ones(2), "b": torch.tensor([1.0, float("nan")])}, about())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("call", ["rename", "fsync", "mkdir"])
def test_failure_at_any_moment_leaves_the_old_state(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that refuses at making, syncing or renaming gives one line, no snapshot and no left-over."""
    save(tmp_path / "old", weights(), about())
    before = files_below(tmp_path)

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(SnapshotError, match=r"cannot write .*new: No space left"):
        save(tmp_path / "new", weights(1), about())
    monkeypatch.undo()
    assert files_below(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_files_are_synced_before_the_name_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both files and their folder are synced before the rename, and the parent folder after it."""
    events: list[int | str] = []
    sync, rename = os.fsync, os.rename

    def watched_sync(descriptor: int) -> None:
        events.append(os.fstat(descriptor).st_ino)
        sync(descriptor)

    def watched_rename(source: Path, target: Path) -> None:
        assert sorted(path.name for path in source.iterdir()) == [MANIFEST, WEIGHTS]
        events.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", watched_sync)
    monkeypatch.setattr(os, "rename", watched_rename)
    save(tmp_path / "s", weights(), about())
    folder = tmp_path / "s"
    weights_file, manifest_file, own, parent = (
        path.stat().st_ino for path in (folder / WEIGHTS, folder / MANIFEST, folder, tmp_path)
    )
    assert events == [weights_file, manifest_file, own, "rename", parent]


def test_killed_writer_leaves_only_what_clean_removes(tmp_path: Path) -> None:
    """A process that dies before the rename leaves no snapshot; `clean` removes its left-overs and nothing else."""
    save(tmp_path / "old", weights(), about())
    write_atomic(tmp_path / ".hidden", b"kept")
    code = """
        import os, sys, torch
        from tests.snapshots.test_snapshots import about
        from league.snapshots.files import write_atomic
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


def test_write_atomic_replaces_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is the new one after success and the old one after a failure, with nothing beside it."""
    path = tmp_path / "state.json"
    write_atomic(path, b"one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"

    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="Input/output"):
        write_atomic(path, b"three")
    assert path.read_bytes() == b"two" and [p.name for p in tmp_path.iterdir()] == ["state.json"]


def test_snapshots_do_not_import_the_configuration() -> None:
    """league.snapshots stands on the ground alone, so that an export needs no trainer."""
    code = "import sys, league.snapshots.io; print([m for m in sys.modules if m.startswith('league')])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    allowed = {"league", "league.phases", "league.errors", "league.schema", "league.types", "league.snapshots"}
    allowed |= {"league.signals", "league.types.spaces"}
    allowed |= {"league.snapshots.files", "league.snapshots.io", "league.snapshots.manifest"}
    assert set(json.loads(output.replace("'", '"'))) <= allowed
