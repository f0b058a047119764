"""The gradients of many linear layers' weights in few products, for devices on which launches bind.

Backward, a linear layer is multiplied once for its input and once for its weight, and summed once for its bias. The
layers before it wait for the first alone. So the other two are put off until all layers of the network are through:
then the layers of one shape are one batched product, and all biases one sum. One small product leaves most of a GPU
idle; a batch of them does not.

The graph says when that is. Each layer reads a tensor without numbers that one node, `_Weights`, returns, so that
the node's turn comes after the turns of all layers.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Method = TypeVar("Method", bound=Callable[..., Any])
FEWEST = 4
"""Layers of one shape that are one batched product: it takes three operators, two of which put its sides together."""


def gathers(device: torch.device) -> bool:
    """Whether launches bind there."""
    return device.type != "cpu"


@contextmanager
def gathering(network: nn.Module, device: torch.device) -> Iterator[None]:
    """What the network computes within, once, has the gradients of its linear layers made together if `device` gains
    by it. Backward may run within or after. Within another one it is that one's."""
    if not gathers(device) or not torch.is_grad_enabled() or _current.get() is not None:
        yield
        return
    before = _current.set(Gathered(network, device))
    try:
        yield
    finally:
        _current.reset(before)


def gathered(method: Method) -> Method:
    """A network's method within `gathering`, but where torch.compile reads it."""

    @functools.wraps(method)
    def call(network: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return method(network, *args, **kwargs)
        with gathering(network, next(network.parameters()).device):
            return method(network, *args, **kwargs)

    return cast(Method, call)


def gathered_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor | None:
    """x (..., K) times weight (N, K) transposed, plus bias (N,): (..., N); None where nothing is gathered."""
    gathered = _current.get()
    if gathered is None or id(weight) not in gathered.known:
        return None
    result: Tensor = _Layer.apply(x, weight, bias, gathered.ticket, gathered.notes)  # type: ignore[no-untyped-call]
    return result


class _Note(NamedTuple):
    """What a layer's gradients are made of."""

    weight: Tensor  # (N, K)
    bias: Tensor | None  # (N,)
    gradient: Tensor  # (rows, N), of what the layer gave
    x: Tensor  # (rows, K), in the gradient's type


class Gathered:
    """The linear layers of a network in one pass forward and backward."""

    def __init__(self, network: nn.Module, device: torch.device) -> None:
        layers = [x for x in network.modules() if isinstance(x, nn.Linear)]
        parameters = [x for layer in layers for x in layer.parameters(recurse=False) if x.requires_grad]
        self.known = {id(x) for x in parameters}
        self.notes: list[_Note] = []
        self.ticket: Tensor = _Weights.apply(self.notes, device, *parameters)  # type: ignore[no-untyped-call]
        """Has no numbers; its gradient is due when all notes are there."""


def _gradients(notes: list[_Note]) -> dict[int, Tensor]:
    """Those of the parameters by id."""
    found: dict[int, Tensor] = {}
    for parameter, gradient in (*_of_weights(notes), *_of_biases(notes)):
        gradient, known = gradient.to(parameter.dtype), found.get(id(parameter))
        found[id(parameter)] = gradient if known is None else known + gradient
    return found


def _of_weights(notes: list[_Note]) -> Iterator[tuple[Tensor, Tensor]]:
    alike = defaultdict[tuple[torch.Size, int], list[_Note]](list)
    for note in notes:
        alike[note.weight.shape, len(note.x)].append(note)
    for some in alike.values():
        if len(some) < FEWEST:
            yield from ((note.weight, note.gradient.t() @ note.x) for note in some)
            continue
        gradient, x = torch.stack([note.gradient for note in some]), torch.stack([note.x for note in some])
        yield from zip([note.weight for note in some], (gradient.mT @ x).to(some[0].weight.dtype).unbind(), strict=True)


def _of_biases(notes: list[_Note]) -> Iterator[tuple[Tensor, Tensor]]:
    alike = defaultdict[int, list[tuple[Tensor, Tensor]]](list)
    for note in notes:
        if note.bias is not None:
            alike[len(note.x)].append((note.bias, note.gradient))
    for some in alike.values():
        biases, gradients = zip(*some, strict=True)
        sums = torch.cat(gradients, 1).sum(0, dtype=biases[0].dtype)
        yield from zip(biases, sums.split_with_sizes([len(bias) for bias in biases]), strict=True)


class _Weights(torch.autograd.Function):
    """Returns the ticket; backward, the gradients of the parameters."""

    @staticmethod
    def forward(ctx: Any, notes: list[_Note], device: torch.device, *parameters: Tensor) -> Tensor:
        ctx.notes, ctx.known = notes, [id(x) for x in parameters]
        ctx.set_materialize_grads(False)
        return torch.empty(0, device=device)

    @staticmethod
    def backward(ctx: Any, *_: Tensor | None) -> tuple[Tensor | None, ...]:
        found = _gradients(ctx.notes)
        ctx.notes.clear()
        return None, None, *(found.get(x) for x in ctx.known)


class _Layer(torch.autograd.Function):
    """A linear layer that notes what its parameters' gradients are made of, in the type that autocast chooses."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, ticket: Tensor, notes: list[_Note]) -> Tensor:
        kind = x.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
        rows, rounded = x.reshape(-1, x.shape[-1]).to(dtype), weight.to(dtype)
        ctx.save_for_backward(rows, rounded)
        ctx.notes, ctx.weight, ctx.bias = notes, weight, bias
        ctx.shape, ctx.dtype = x.shape, x.dtype
        return F.linear(rows, rounded, None if bias is None else bias.to(dtype)).view(*x.shape[:-1], len(weight))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        rows, rounded = ctx.saved_tensors
        gradient = gradients[0].reshape(-1, len(rounded))
        ctx.notes.append(_Note(ctx.weight, ctx.bias, gradient, rows))
        d_x = (gradient @ rounded).view(ctx.shape).to(ctx.dtype) if ctx.needs_input_grad[0] else None
        return d_x, None, None, None, None


_current: ContextVar[Gathered | None] = ContextVar("_current", default=None)
