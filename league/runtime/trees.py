"""A tree of dicts, lists, tensors, arrays, bytes and plain values as JSON beside numbered tensors, and as bytes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import safetensors.torch
import torch

_KIND, _NAME = "$kind", "$name"


def encode(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """`value` as JSON, its arrays moved to `tensors`, where they are numbered.

    Nothing is copied but tensors that are not on the CPU or share their memory. Tuples come back as lists.

    Raises:
        TypeError: it holds something else.
    """
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or key == _KIND:
                raise TypeError(f"a state's keys are strings other than {_KIND!r}, not {key!r}")
        return {key: encode(item, tensors) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item, tensors) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, torch.Tensor):
        kind, tensor = "tensor", _own_memory(value.detach().to("cpu").contiguous(), tensors)
    elif isinstance(value, np.ndarray):
        kind, tensor = "array", torch.from_numpy(np.array(value, order="C"))
    elif isinstance(value, bytes):
        kind, tensor = "bytes", torch.from_numpy(np.frombuffer(value, np.uint8).copy())
    else:
        raise TypeError(f"a state cannot hold {type(value).__name__}")
    name = str(len(tensors))
    tensors[name] = tensor
    return {_KIND: kind, _NAME: name}


def decode(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """The inverse of `encode`."""
    if isinstance(value, list):
        return [decode(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(_KIND)
    if kind is None:
        return {key: decode(item, tensors) for key, item in value.items()}
    tensor = tensors[value[_NAME]]
    if kind == "tensor":
        return tensor
    return tensor.numpy() if kind == "array" else tensor.numpy().tobytes()


def to_bytes(tree: Any) -> bytes:
    """A tree as bytes: the length of its JSON in 8 bytes, the JSON, its tensors as safetensors."""
    tensors: dict[str, torch.Tensor] = {}
    text = json.dumps(encode(tree, tensors)).encode()
    return len(text).to_bytes(8, "little") + text + safetensors.torch.save(tensors)


def from_bytes(data: bytes) -> Any:
    """The inverse of `to_bytes`; nothing is unpickled."""
    end = 8 + int.from_bytes(data[:8], "little")
    return decode(json.loads(data[8:end]), safetensors.torch.load(data[end:]))


def _own_memory(tensor: torch.Tensor, others: dict[str, torch.Tensor]) -> torch.Tensor:
    """`tensor`, copied where it is a part of a larger memory or shares that of another one."""
    storage = tensor.untyped_storage()
    is_part = storage.nbytes() != tensor.nbytes
    pointer = storage.data_ptr()
    if is_part or (tensor.numel() and any(pointer == x.untyped_storage().data_ptr() for x in others.values())):
        return tensor.clone()
    return tensor
