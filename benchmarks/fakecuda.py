"""A GPU that is not there: tensors on device `cuda` without numbers, by torch's `FakeTensorMode`.

Everything runs as on a card as far as devices, types and shapes go. A tensor on the wrong device is torch's own error;
what the host would wait for, and what is copied between the two, is counted with the line that asks for it. Numbers
are made up: whatever is read from the device is 1 or true. It takes a build of torch for CUDA, and no card.

Four things that ask for a driver are stood in for: generators, events, cuDNN's LSTM (products of the same weights) and
the backward pass (gradients of zeros, where those of the outputs have their shape, type and device).
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.launches import is_wait
from league.errors import UsageError

ROOT = Path(__file__).resolve().parent.parent
CUDA = torch.device("cuda")
OURS = tuple(str(ROOT / name) for name in ("league", "policies", "envs", "snapshots"))
ELSEWHERE = "elsewhere"
"""No line of ours."""
COPIES = ("aten::_to_copy", "aten::copy_", "aten::_foreach_copy_")


class Mode(FakeTensorMode):
    """The mode, of which a copied network has no copy."""

    def __deepcopy__(self, memo: object) -> Mode:
        return self


class Watching(TorchDispatchMode):
    """Counts waits and copies: (what, the line of ours that asks for it) -> how often."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[tuple[str, str]] = Counter()
        self.copies: Counter[tuple[str, str]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func._schema.name, {**(kwargs or {})}
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        is_there = any(x.is_cuda for x in given)
        if kwargs.get("generator") is not None:
            kwargs["generator"] = None
        if is_there and is_wait(name, args):
            self.waits[name.removeprefix("aten::"), _line()] += 1
        if name in ("aten::_local_scalar_dense", "aten::item", "aten::equal"):
            return _made_up(given[0])
        result = func(*args, **kwargs)
        if name in COPIES:
            self._copied(name, func, args, kwargs, result)
        elif is_there and any(not x.is_cuda and x.dim() for x in given):
            self.waits[f"{name.removeprefix('aten::')} with an index of the host", _line()] += 1
        return result

    def read(self, x: Tensor) -> Any:
        """`Tensor.tolist`, which waits once, however many numbers there are."""
        self.waits["tolist", _line()] += x.is_cuda
        return np.full(x.shape, 1.0).tolist()

    def _copied(self, name: str, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        pairs = [(args[0], result)] if name == "aten::_to_copy" else [(args[1], args[0])]
        if name == "aten::_foreach_copy_":
            pairs = list(zip(args[1], args[0], strict=True))
        place = next((i for i, x in enumerate(func._schema.arguments) if x.name == "non_blocking"), len(args))
        is_beside = kwargs.get("non_blocking", args[place] if place < len(args) else False)
        for source, there in pairs:
            if source.device.type != there.device.type:
                found = self.copies if is_beside else self.waits
                found[f"copy from {source.device.type} to {there.device.type}", _line()] += 1


def _made_up(x: Tensor) -> bool | int | float:
    return True if x.dtype == torch.bool else 1.0 if x.dtype.is_floating_point else 1


def _line() -> str:
    """The innermost line of the library's that is being done."""
    for frame in reversed(traceback.extract_stack()):
        if frame.filename.startswith(OURS) and frame.name != "sent":
            return f"{Path(frame.filename).relative_to(ROOT)}:{frame.lineno}"
    return ELSEWHERE


class _Generator(torch.Generator):
    """A CPU's, which says that it is on the device that it was made for."""

    def __new__(cls, device: Any = "cpu") -> _Generator:
        return super().__new__(cls)

    def __init__(self, device: Any = "cpu") -> None:
        self._device = torch.device(device)

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """What it was made for."""
        return self._device


class _Event:
    """Waiting for it is what play may wait for: the actions."""

    def record(self, *_: object) -> None:
        """Nothing."""

    def synchronize(self) -> None:
        """Nothing."""


def _moved(module: torch.nn.Module, device: torch.device) -> torch.nn.Module:
    """`Module.to`, which would swap what others hold weak references to."""
    for part in module.modules():
        for name, x in part._parameters.items():
            if x is not None:
                part._parameters[name] = torch.nn.Parameter(x.detach().to(device), requires_grad=x.requires_grad)
        for name, buffer in part._buffers.items():
            part._buffers[name] = None if buffer is None else buffer.to(device)
    return module


def _lstm(x: Tensor, state: tuple[Tensor, Tensor], weights: Sequence[Tensor], *_: object) -> tuple[Tensor, ...]:
    """In the shapes of `torch.lstm`, of all that it reads."""
    (hidden, cell), (weight_x, weight_h, bias_x, bias_h) = state, weights
    gates = functional.linear(x, weight_x, bias_x) + functional.linear(hidden, weight_h, bias_h)
    in_gate, forget_gate, candidate, out_gate = gates.chunk(4, -1)
    cells = forget_gate * cell + in_gate * candidate
    return out_gate * cells, out_gate[-1:], cells[-1:]


def _backward(outputs: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
    """Gives every weight that the outputs depend on a gradient of zeros."""
    for x, gradient in zip(outputs, gradients, strict=True):
        if (x.shape, x.dtype, x.device) != (gradient.shape, gradient.dtype, gradient.device):
            raise RuntimeError(f"a gradient on {gradient.device} of what is on {x.device}, or of another shape or type")
    waiting, known = [x.grad_fn for x in outputs], set[Any]()
    while waiting:
        node = waiting.pop()
        if node is None or node in known:
            continue
        known.add(node)
        waiting += [following for following, _ in node.next_functions]
        if hasattr(node, "variable"):
            node.variable.grad = torch.zeros_like(node.variable)


def need_build() -> None:
    """Refuses a build of torch that knows no CUDA.

    Raises:
        UsageError: with what to install.
    """
    if torch.version.cuda is None:
        raise UsageError(
            f"--cuda: torch {torch.__version__} has no CUDA; make another venv and install PyPI's torch there, which"
            f" needs no card (lab/performance.md, What a GPU waits for)"
        )


@contextmanager
def fake_cuda() -> Iterator[Watching]:
    """Within it device `cuda` is there, without numbers; yields what is counted.

    Raises:
        UsageError: this build of torch has no CUDA.
    """
    need_build()
    watching = Watching()
    replaced = {
        "torch.Generator": _Generator,
        "torch.cuda.Event": _Event,
        "torch.nn.Module.to": _moved,
        "torch.lstm": _lstm,
        "torch.autograd.backward": _backward,
        "torch._subclasses.fake_tensor.FakeTensor.tolist": lambda x: watching.read(x),
        "torch.cuda.amp.common.amp_definitely_not_available": lambda: False,
        "torch.cuda.is_bf16_supported": lambda *_: True,
    }
    with ExitStack() as patches:
        for name, stand_in in replaced.items():
            patches.enter_context(patch(name, stand_in))
        with Mode(), watching:
            yield watching
