"""The state of a run on disk: everything comes back as it was, damage is named, a crash costs nothing."""

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from league.errors import SnapshotError
from league.snapshots import state
from league.snapshots.files import INDEX
from league.snapshots.state import load_state, save_state

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)


def equal(a: Any, b: Any) -> bool:
    """Whether two trees are the same, types included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)
    return bool(a == b)


def tree() -> dict[str, Any]:
    """One of everything that a run's state holds, and the corners of each kind."""
    shared = torch.arange(6.0)
    return {
        "tensors": {str(dtype): torch.tensor([[0, 1], [1, 0]]).to(dtype) for dtype in DTYPES},
        "corners": [torch.zeros(0, 3), torch.tensor(2.5), torch.arange(6).view(2, 3).T, shared, shared[2:4]],
        "arrays": {
            "seats": np.arange(3),
            "is_first": np.array([True, False]),
            "sums": np.zeros((2, 2, 3)),
            "none": np.zeros((0, 2), np.float32),
            "scalar": np.array(7, np.int16),
            "strided": np.arange(10)[::3],
            "words": np.array([2**64 - 1], np.uint64),
        },
        "bytes": {"empty": b"", "some": bytes(range(256))},
        "plain": {"int": 2**53 + 1, "float": 0.1, "text": "ü/\n", "true": True, "none": None, "list": [1, [], {}]},
        "rng": np.random.default_rng(3).bit_generator.state,
        "a/b": torch.tensor(1),
        "a": {"b": torch.tensor(2)},
    }


def test_everything_comes_back_as_it_was(tmp_path: Path) -> None:
    save_state(tmp_path / "deep" / "state", tree())
    back = load_state(tmp_path / "deep" / "state")
    assert equal(back, tree())
    assert back["rng"]["state"]["state"] > 2**64, "PCG64's state is a huge integer"
    rng = np.random.default_rng(0)
    rng.bit_generator.state = back["rng"]
    assert rng.random() == np.random.default_rng(3).random()


def test_the_newest_two_states_are_kept(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f".{INDEX}.tmp-dead").write_bytes(b"half")
        save_state(tmp_path, {"x": torch.tensor(number)})
        assert load_state(tmp_path)["x"] == number
    assert len(list(tmp_path.iterdir())) == 4
    (tmp_path / INDEX).unlink()
    assert load_state(tmp_path)["x"] == 2


@pytest.mark.parametrize("value", [object(), {1, 2}, np.float32(1.0), {1: 2}, {"$kind": "tensor"}])
def test_what_cannot_come_back_is_refused(value: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        save_state(tmp_path / "state", {"x": [value]})
    assert not (tmp_path / "state").exists()


def refusal(folder: Path) -> str:
    """The message of the SnapshotError that `load_state` raises, which must be one line."""
    with pytest.raises(SnapshotError) as caught:
        load_state(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_missing_files_are_named(tmp_path: Path) -> None:
    """No folder, no index and no data file are each one line with the file's name."""
    assert INDEX in refusal(tmp_path / "none")
    save_state(tmp_path, {"x": torch.tensor(1)})
    data = next(tmp_path.glob("*.safetensors"))
    content = data.read_bytes()
    data.unlink()
    assert data.name in refusal(tmp_path)
    data.write_bytes(content)
    (tmp_path / INDEX).unlink()
    assert INDEX in refusal(tmp_path)


@pytest.mark.parametrize("name", [INDEX, "*.safetensors"])
def test_every_flipped_or_cut_byte_is_found(name: str, tmp_path: Path) -> None:
    whole = {"x": torch.tensor([1.0, 2.0]), "counters": {"steps": 4096}, "b": b"abc"}
    save_state(tmp_path, whole)
    path = next(tmp_path.glob(name))
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with contextlib.suppress(SnapshotError):
            assert equal(load_state(tmp_path), whole), f"byte {place}"
        if place % 7 == 0:
            path.write_bytes(content[:place])
            refusal(tmp_path)


@pytest.mark.parametrize("content", ["[]", '{"format": 99}', "[" * 100_000, '{"format": 1, "data": 3}'])
def test_a_foreign_index_is_refused(content: str, tmp_path: Path) -> None:
    save_state(tmp_path, {"x": torch.tensor(1)})
    (tmp_path / INDEX).write_text(content)
    refusal(tmp_path)


def test_a_disk_that_refuses_leaves_the_old_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    save_state(tmp_path, {"x": torch.tensor(1)})
    with monkeypatch.context() as patch, pytest.raises(SnapshotError, match="No space left"):
        patch.setattr(state, "write_atomic", fail)
        save_state(tmp_path, {"x": torch.tensor(2)})
    assert load_state(tmp_path)["x"] == 1


def test_the_data_file_cannot_be_elsewhere(tmp_path: Path) -> None:
    save_state(tmp_path / "other", {"x": torch.tensor(1)})
    save_state(tmp_path / "mine", {"x": torch.tensor(2)})
    index = json.loads((tmp_path / "mine" / INDEX).read_text())
    index["data"] = "../other/" + next((tmp_path / "other").glob("*.safetensors")).name
    (tmp_path / "mine" / INDEX).write_text(json.dumps(index))
    assert "mine" in refusal(tmp_path / "mine")
