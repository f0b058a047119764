"""The state of a run on disk: a tree of dicts, tensors, arrays, bytes and plain values as safetensors + JSON.

`state.json` names the data file and its sha256 and is renamed into place last, so it always points at a whole one; the
data file that it no longer points at is removed after that.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch

from league.errors import SnapshotError
from league.snapshots.io import write_atomic

INDEX = "state.json"
_REF = "$ref"


def save_state(folder: Path, tree: dict[str, Any]) -> None:
    """Writes `tree` into `folder`, replacing the state that is there once the new one is safe on disk."""
    tensors: dict[str, torch.Tensor] = {}
    index = _encode(tree, tensors, "")
    data = safetensors.torch.save(tensors)
    digest = hashlib.sha256(data).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    name = f"state-{digest[:16]}.safetensors"
    write_atomic(folder / name, data)
    write_atomic(folder / INDEX, json.dumps({"format": 1, "data": name, "sha256": digest, "tree": index}).encode())
    for old in folder.glob("state-*.safetensors"):
        if old.name != name:
            old.unlink()


def load_state(folder: Path) -> dict[str, Any]:
    """What `save_state` wrote.

    Raises:
        SnapshotError: a file is missing, damaged or not such a state.
    """
    path = folder / INDEX
    try:
        index = json.loads(path.read_bytes())
        data = (folder / Path(index["data"]).name).read_bytes()
        if hashlib.sha256(data).hexdigest() != index["sha256"]:
            raise ValueError("the data file's sha256 differs")
        tree = _decode(index["tree"], safetensors.torch.load(data))
    except FileNotFoundError as error:
        raise SnapshotError(f"{error.filename}: no such file; the run cannot go on, start it with --fresh") from error
    except (ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
        raise SnapshotError(f"{path}: damaged ({error}); the run cannot go on, start it with --fresh") from error
    if not isinstance(tree, dict):
        raise SnapshotError(f"{path}: not a state (the tree is {type(tree).__name__}); start the run with --fresh")
    return tree


def _encode(value: Any, tensors: dict[str, torch.Tensor], name: str) -> Any:
    """`value` as JSON, its arrays moved to `tensors` under their path in the tree."""
    if isinstance(value, dict):
        return {key: _encode(item, tensors, f"{name}/{key}") for key, item in value.items()}
    if isinstance(value, torch.Tensor):
        tensors[name] = value.detach().to("cpu").contiguous().clone()
        return {_REF: "tensor"}
    if isinstance(value, np.ndarray):
        tensors[name] = torch.from_numpy(np.ascontiguousarray(value))
        return {_REF: "array"}
    if isinstance(value, bytes):
        tensors[name] = torch.frombuffer(bytearray(value), dtype=torch.uint8)
        return {_REF: "bytes"}
    return value


def _decode(value: Any, tensors: dict[str, torch.Tensor], name: str = "") -> Any:
    if not isinstance(value, dict):
        return value
    kind = value.get(_REF)
    if kind is None:
        return {key: _decode(item, tensors, f"{name}/{key}") for key, item in value.items()}
    tensor = tensors[name]
    if kind == "tensor":
        return tensor
    return tensor.numpy() if kind == "array" else tensor.numpy().tobytes()
