"""The peak memory of what a piece of work allocates, on any device."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Peak(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within it `most` is the largest number of bytes that tensors made by torch's operations held at the same time.

    Only for work without gradients: what autograd keeps is held by nothing that can be seen from here. What compiled
    kernels take for themselves is not seen either.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most = 0
        self._given: set[int] = set()
        """Memory that was there before."""
        self._made: dict[int, tuple[int, list[weakref.ref[Tensor]]]] = {}
        """Address -> bytes, and the tensors that lie there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Does what was called, and counts what is alive after it."""
        for tensor in _tensors((args, kwargs)):
            if tensor.untyped_storage().data_ptr() not in self._made:
                self._given.add(tensor.untyped_storage().data_ptr())
        result = func(*args, **(kwargs or {}))
        self._made = {
            at: (size, live)
            for at, (size, all_) in self._made.items()
            if (live := [x for x in all_ if x() is not None])
        }
        for tensor in _tensors(result):
            memory = tensor.untyped_storage()
            if memory.data_ptr() not in self._given and memory.nbytes():
                self._made.setdefault(memory.data_ptr(), (memory.nbytes(), []))[1].append(weakref.ref(tensor))
        self.most = max(self.most, sum(size for size, _ in self._made.values()))
        return result


def _tensors(tree: Any) -> Iterator[Tensor]:
    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor) and leaf.layout == torch.strided)
