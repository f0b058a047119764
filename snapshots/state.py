"""The state of a run on disk: a tree of dicts, lists, tensors, arrays, bytes and plain values as safetensors + JSON.

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
from league.snapshots.io import clean, write_atomic

INDEX = "state.json"
FORMAT = 1
_KIND, _NAME = "$kind", "$name"
_NEXT = "the run cannot go on; begin a new one with `league train --fresh`"


def save_state(folder: Path, tree: dict[str, Any]) -> None:
    """Writes `tree` into `folder`, replacing the state that is there once the new one is safe on disk.

    Args:
        folder: The state's own folder; its parents are made.
        tree: Dicts with string keys and lists (tuples come back as lists) of tensors, numpy arrays, bytes, numbers,
            strings, booleans and None.

    Raises:
        TypeError: the tree holds something else.
        SnapshotError: the disk refuses; the old state stands.
    """
    tensors: dict[str, torch.Tensor] = {}
    index = json.dumps(_encode(tree, tensors))
    data = safetensors.torch.save(tensors)
    digest = hashlib.sha256(data).hexdigest()
    name = f"state-{digest[:16]}.safetensors"
    head = {"format": FORMAT, "data": name, "sha256": digest, "tree_sha256": _sha256(index), "tree": index}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        clean(folder)
        write_atomic(folder / name, data)
        write_atomic(folder / INDEX, json.dumps(head).encode())
        for old in folder.glob("state-*.safetensors"):
            if old.name != name:
                old.unlink()
    except OSError as error:
        raise SnapshotError(
            f"{folder}: the run's state cannot be written ({error.strerror or error}); make room, then `league resume`"
        ) from error


def load_state(folder: Path) -> dict[str, Any]:
    """What `save_state` wrote.

    Raises:
        SnapshotError: a file is missing, damaged or not such a state.
    """
    path = folder / INDEX
    try:
        head = json.loads(path.read_bytes())
        if head["format"] != FORMAT:
            raise ValueError(f"format {head['format']!r}, not {FORMAT}")
        data = (folder / Path(head["data"]).name).read_bytes()
        if hashlib.sha256(data).hexdigest() != head["sha256"]:
            raise ValueError("the data file's sha256 differs")
        if _sha256(head["tree"]) != head["tree_sha256"]:
            raise ValueError("the tree's sha256 differs")
        tree = _decode(json.loads(head["tree"]), safetensors.torch.load(data))
    except OSError as error:
        raise SnapshotError(f"{error.filename}: {error.strerror or error}; {_NEXT}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, safetensors.SafetensorError) as error:
        raise SnapshotError(f"{path}: damaged ({' '.join(str(error).split())}); {_NEXT}") from error
    if not isinstance(tree, dict):
        raise SnapshotError(f"{path}: not a state (the tree is a {type(tree).__name__}); {_NEXT}")
    return tree


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _encode(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """`value` as JSON, its arrays moved to `tensors`, where they are numbered."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or key == _KIND:
                raise TypeError(f"a state's keys are strings other than {_KIND!r}, not {key!r}")
        return {key: _encode(item, tensors) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(item, tensors) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, torch.Tensor):
        kind, tensor = "tensor", value.detach().to("cpu").contiguous().clone()
    elif isinstance(value, np.ndarray):
        kind, tensor = "array", torch.from_numpy(np.array(value, order="C"))
    elif isinstance(value, bytes):
        kind, tensor = "bytes", torch.from_numpy(np.frombuffer(value, np.uint8).copy())
    else:
        raise TypeError(f"a state cannot hold {type(value).__name__}")
    name = str(len(tensors))
    tensors[name] = tensor
    return {_KIND: kind, _NAME: name}


def _decode(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(value, list):
        return [_decode(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(_KIND)
    if kind is None:
        return {key: _decode(item, tensors) for key, item in value.items()}
    tensor = tensors[value[_NAME]]
    if kind == "tensor":
        return tensor
    return tensor.numpy() if kind == "array" else tensor.numpy().tobytes()
