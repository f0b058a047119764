"""In place of CUDA's graphs, on a CPU: what a capture could not do is refused, and a replay must be what was captured.

A graph replays operators on the addresses, and with the numbers, of its capture. So a replay does the work again and
must call the same operators, with the same numbers, on the same memory. Between a capture's begin and its end nothing
may wait for the device, have a shape that the data decide, or draw from a generator that is not the graph's.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

COMPILED = ("linear", "lstm", "ring", "segment")
"""Modules of the policies that leave torch where tensors are plain, out of a dispatch mode's sight."""
WAITING = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nets run by torch's own operators, which a dispatch mode sees, and gather gradients of weights, as on CUDA."""
    monkeypatch.setattr("league.policies.kernels.switch.IS_ON", False)
    monkeypatch.setattr("league.policies.kernels.gathered.gathers", lambda device: True)
    for name in COMPILED:
        monkeypatch.setattr(f"league.policies.kernels.{name}.is_plain", lambda *tensors: False)


class Watching(TorchDispatchMode):
    """Records what operators are called with: the memory that they did not make, what it held before, and numbers."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.before: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        self.calls: list[tuple[str, list[Any]]] = []
        self._generator = generator
        self._made: dict[int, Tensor] = {}
        """Kept, so that no two tensors of the work have the same memory one after the other."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = tree_leaves((args, kwargs))
        check_captured(func, args, given, self._generator)
        for storage in _storages(given):
            if storage.data_ptr() not in self._made:
                self.before.setdefault(storage.data_ptr(), (storage, storage.clone()))
        self.calls.append((func.name(), [x for x in given if isinstance(x, int | float | bool)]))
        result = func(*args, **(kwargs or {}))
        self._made |= {
            x.untyped_storage().data_ptr(): x
            for x in tree_leaves(result)
            if isinstance(x, Tensor) and x.untyped_storage().data_ptr() not in self.before
        }
        return result


def check_captured(func: Any, args: Any, given: list[Any], generator: torch.Generator) -> None:
    """Fails on an operator that cannot be captured, or whose draws a replay would repeat.

    given: the leaves of all of its arguments.
    """
    name = func._schema.name
    if name in ("aten::index", "aten::index_put_", "aten::index_put", "aten::_index_put_impl_"):
        waits = any(x is not None and x.dtype in (torch.bool, torch.uint8) for x in args[1])
    elif name == "aten::repeat_interleave":
        waits = not any(isinstance(x, int) for x in given)
    else:
        waits = any(tag in func.tags for tag in WAITING)
    assert not waits, f"{name} waits for the device"
    if torch.Tag.nondeterministic_seeded in func.tags and "scaled_dot_product" not in name:  # which drops nothing out
        drawn = [x.get_state() for x in given if isinstance(x, torch.Generator)]  # an object of its own
        is_own = len(drawn) == 1 and torch.equal(drawn[0], generator.get_state())
        assert is_own, f"{name} draws from a generator that is not the graph's"


def _storages(leaves: list[Any]) -> Iterator[torch.UntypedStorage]:
    return (leaf.untyped_storage() for leaf in leaves if isinstance(leaf, Tensor))


class Double:
    """In place of CUDA's graphs (`league.play.graphs.Recorder`)."""

    def __init__(self, generator: torch.Generator) -> None:
        self.captures = self.replays = 0
        self._generator = generator

    def capture(self, work: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        """See `Recorder.capture`: what doing the work here has changed is undone."""
        drawn = self._generator.get_state()
        with Watching(self._generator) as captured:
            result = work()
        self._generator.set_state(drawn)
        for storage, before in captured.before.values():
            storage.copy_(before)

        def replay() -> None:
            with Watching(self._generator) as now:
                again = work()
            assert now.before.keys() == captured.before.keys(), "what a graph reads has moved since its capture"
            for there, called in zip(captured.calls, now.calls, strict=True):
                assert there == called, "a graph would do what it did at its capture"
            for there, new in zip(tree_leaves(result), tree_leaves(again), strict=True):
                if isinstance(there, Tensor):
                    there.copy_(new)
            self.replays += 1

        self.captures += 1
        return replay, result
