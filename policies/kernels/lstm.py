"""The LSTM over one step and over a segment with match boundaries inside: in torch, and compiled where that can serve.

`nn.LSTM` holds the weights. In play it would re-pack them at every call, and over a segment it knows no boundaries, so
that it would have to be called again wherever any row begins a match (lab/performance.md has both).

Gates and state are float32, or float64 where the weights are, under autocast too. The compiled forms, on a CPU,
multiply in bf16 then; elsewhere the products are in the state's type as well, in play as in learning.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from torch import Tensor, nn

from league.policies.kernels.linear import adds_freely, is_wide, laid_out, linear, pack, packed_room, product
from league.policies.kernels.switch import COMPILED, is_plain

whole_segment, lstm_gates = COMPILED["lstm_segment"], COMPILED["lstm_gates"]

ROWS_AT_ONCE = 512
"""Rows of a product that reads the input's weights."""

ALIGNED = 8
"""Numbers that an input gets where the state is to be cleared, one of which is used: an odd width is slow on a GPU."""
CLEARING = -1e4
"""What is added to a gate that is to be 0: the exponential of its negative is infinite in float32 and float64."""

WEIGHTS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
"""Of an `nn.LSTM`, for its input and for its state. Of stacked nets not all are parameters."""


def lstm_cell(x: Tensor, hidden: Tensor, cell: Tensor, lstm: nn.LSTM) -> tuple[Tensor, Tensor]:
    """One step of a one-layer `lstm` from (hidden, cell), each (n, H), on x (n, input): the next (hidden, cell), in the
    same type."""
    weight_x, weight_h, bias_x, bias_h = (getattr(lstm, name) for name in WEIGHTS)
    if is_plain(cell) and not torch.is_grad_enabled():
        after, shown = torch.empty_like(cell), torch.empty_like(cell)
        is_stacked = bias_x.dim() == 2  # each net has a bias of its own, which the gates cannot tell apart
        bias = None if is_stacked else bias_x + bias_h
        gates = linear(x, weight_x, bias_x if is_stacked else None).float()
        recurrent = linear(hidden, weight_h, bias_h if is_stacked else None).float()
        write_gates(gates, recurrent, bias, cell, gates, after, shown)
        return shown, after
    with _without_autocast(cell):
        gates = linear(x.to(cell.dtype), weight_x, bias_x) + linear(hidden, weight_h, bias_h)
    input_gate, forget_gate, _, output_gate = torch.sigmoid(gates).chunk(4, -1)  # i, f, g, o
    candidate = torch.tanh(gates.chunk(4, -1)[2])
    cell = torch.addcmul(input_gate * candidate, forget_gate, cell)
    return output_gate * torch.tanh(cell), cell


def lstm_segment(
    x: Tensor, hidden: Tensor, cell: Tensor, is_first: Tensor, lstm: nn.LSTM, most_begins: int | None = None
) -> Tensor:
    """`lstm` over x (T, B, input) from (hidden, cell), each (B, H), cleared where a match begins: (T, B, H).

    is_first (T, B): a match begins at this step.
    most_begins: the most matches that begin in a row after its first step, or a number above it; None: it is looked
        up, which waits for the device.
    """
    if is_plain(hidden):
        kind = torch.bfloat16 if torch.is_autocast_enabled("cpu") else torch.float32
        weight_x, weight_h, bias_x, bias_h = (getattr(lstm, name) for name in WEIGHTS)
        weights = weight_x.to(kind), weight_h.to(kind), bias_x + bias_h
        found: Tensor = compiled_segment(x.to(kind), hidden, cell, is_first, *weights)[0]
        return found
    if most_begins is None:
        most_begins = int(is_first[1:].sum(0).max()) if is_first.numel() else 0
    return spaced_segment(x, hidden, cell, is_first, lstm, most_begins)


def spaced_segment(
    x: Tensor, hidden: Tensor, cell: Tensor, is_first: Tensor, lstm: nn.LSTM, most_begins: int
) -> Tensor:
    """The same in one call of torch's LSTM, in shapes that depend on `most_begins` alone.

    Before each match that begins after the first step a step is put in that clears the state: its input has one
    number more, by whose weight the input, forget and output gates are 0, exactly, and so are their gradients. Rows
    with fewer such steps than `most_begins` have the rest at their end. In the state's type, whatever x is in.
    """
    steps, rows, size = *is_first.shape, x.shape[-1]
    x, begins = x.to(cell.dtype), is_first[:1, :, None]
    state = hidden.masked_fill(begins, 0), cell.masked_fill(begins, 0)
    weights = [getattr(lstm, name) for name in WEIGHTS]
    if most_begins:
        count = is_first[1:].cumsum(0)  # matches begun so far
        step = _indices(steps, rows, x.device)
        places = torch.cat([step[:1], torch.add(step[1:], count, alpha=rows)]).flatten()
        clear, nothing = _clearing_input(size, x.dtype, x.device)
        x = torch.cat([x, nothing.expand(steps, rows, -1)], 2).flatten(0, 1)
        x = clear.expand((steps + most_begins) * rows, -1).index_copy(0, places, x).view(-1, rows, size + ALIGNED)
        weights = _with_clearing(*weights)
    with _without_autocast(cell):
        found, *_ = torch.lstm(x, state, weights, True, 1, 0.0, True, False, False)
    if most_begins:
        found = found.flatten(0, 1).index_select(0, places).view(steps, rows, -1)
    return found


@functools.cache
def _indices(steps: int, rows: int, device: torch.device) -> Tensor:
    """(T, B): those of rows in steps, one step after the other; made once, as `_clearing`."""
    return torch.arange(rows * steps, device=device).view(steps, rows)


@functools.cache
def _clearing_input(size: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """(size + ALIGNED,): the input that clears the state, and (ALIGNED,): what other inputs have at their end; made
    once, as `_clearing`."""
    clear = torch.zeros(size + ALIGNED, dtype=dtype)
    clear[size] = 1
    return clear.to(device), torch.zeros(ALIGNED, dtype=dtype, device=device)


@functools.cache
def _clearing(outputs: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(outputs, ALIGNED): the weights that clear the state; the candidate has none.

    Made once for each device, in the first call there, so that later ones can be captured.
    """
    clearing = torch.zeros(4, outputs // 4, ALIGNED, dtype=dtype)
    clearing[[0, 1, 3], :, 0] = CLEARING
    return clearing.view(outputs, ALIGNED).to(device)


def _with_clearing(weight_x: Tensor, weight_h: Tensor, bias_x: Tensor, bias_h: Tensor) -> list[Tensor]:
    """The weights for inputs with `ALIGNED` numbers more, the first of which clears the state.

    Parts of one tensor in cuDNN's order, which would else put them together at every call, with a warning.
    """
    outputs, size = weight_x.shape
    wide = torch.cat([weight_x, _clearing(outputs, weight_x.dtype, weight_x.device)], 1)
    together = torch.cat([x.flatten() for x in (wide, weight_h, bias_x, bias_h)])
    shapes = (outputs, size + ALIGNED), weight_h.shape, bias_x.shape, bias_h.shape
    parts = together.split_with_sizes([math.prod(shape) for shape in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


def _without_autocast(x: Tensor) -> torch.autocast:
    return torch.autocast(x.device.type, enabled=False)


def write_gates(
    given: Tensor,
    recurrent: Tensor | None,
    bias: Tensor | None,
    before: Tensor,
    gates: Tensor,
    cell: Tensor,
    hidden: Tensor,
) -> None:
    """Writes the values of the gates (n, 4 * H), and the next cell and hidden (n, H), in float32.

    given (n, 4 * H): what the input gives the gates; recurrent (n, 4 * H) or None: what the state adds; bias (4 * H,)
    or None; before (n, H): the cell before. It is the operator `league::lstm_gates`, too, which a step does not go
    through, for what that costs; `given` may be `gates` only where it does not.

    Raises:
        ValueError: a tensor is of another type, device, shape or layout.
    """
    lstm_gates.forward(given, recurrent, bias, before, gates, cell, hidden, torch.get_num_threads())


torch.library.custom_op(
    "league::lstm_gates", write_gates, mutates_args=("gates", "cell", "hidden"), device_types="cpu"
).register_fake(lambda *_: None)


@torch.library.custom_op("league::lstm_segment", mutates_args=(), device_types="cpu")
def compiled_segment(
    x: Tensor, hidden: Tensor, cell: Tensor, is_first: Tensor, weight_x: Tensor, weight_h: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The compiled form: one call where products are by AVX-512 of our own, else `_by_steps`.

    x (T, B, input), weight_x (4 * H, input) and weight_h (4 * H, H) are float32, or bf16 for products in that; all else
    is float32: hidden, cell (B, H), bias (4 * H,). is_first (T, B) bool. Differentiable in x, the weights and the bias:
    no gradient flows into the state that a segment begins with, since it is stored.

    Returns:
        The output (T, B, H); and for the gradients the states that the steps began with (T, B, H), in x's type, the
        gates' values (T, B, 4 * H) and the cells (T, B, H).

    Raises:
        ValueError: a tensor is of another type, device, shape or layout.
    """
    _check_segment(x, hidden, cell, is_first, weight_x, weight_h, bias)
    shape = (*is_first.shape, hidden.shape[1])
    gates, out, cells = bias.new_empty(*shape[:2], len(bias)), bias.new_empty(shape), bias.new_empty(shape)
    befores = x.new_empty(shape)
    if is_wide(x):
        given = x.contiguous(), hidden.contiguous(), cell, is_first.contiguous()
        weights = _packed(weight_x.t()), _packed(weight_h.t())
        whole_segment.forward(*given, *weights, bias, befores, gates, cells, out, torch.get_num_threads())
    else:
        _by_steps(x, hidden, cell, is_first, weight_x, weight_h, bias, befores, gates, cells, out)
    return out, befores, gates, cells


def _packed(right: Tensor) -> Tensor:
    """A right side (K, N) laid out for `whole_segment`."""
    return pack(right, packed_room(1, right)[0]).numbers


def _by_steps(
    x: Tensor,
    hidden: Tensor,
    cell: Tensor,
    is_first: Tensor,
    weight_x: Tensor,
    weight_h: Tensor,
    bias: Tensor,
    befores: Tensor,
    gates: Tensor,
    cells: Tensor,
    out: Tensor,
) -> None:
    """A product for the inputs of some steps, then a product and the gates a step for what the state adds, so that what
    is made is used while it is in the cache. Writes the last four, which are as `compiled_segment` returns them."""
    rows = is_first.shape[1]
    block = _steps_at_once(rows)
    keep, begins = _kept(is_first, cell)
    state = hidden, cell
    right_x, right_h = laid_out(weight_x.t(), rows * block), laid_out(weight_h.t(), rows)
    for t, is_cut in enumerate(begins):
        if t % block == 0:
            given = product(x[t : t + block].flatten(0, 1), right_x).float().view(-1, rows, len(bias))
        if is_cut:
            state = state[0] * keep[t], state[1] * keep[t]
        befores[t] = state[0]
        step = given[t % block]
        recurrent = None
        if adds_freely(right_h):  # which spares a pass
            product(befores[t], right_h, out=step, adds=True)
        else:
            recurrent = product(befores[t], right_h).float()
        write_gates(step, recurrent, bias, state[1], gates[t], cells[t], out[t])
        state = out[t], cells[t]


def _check_segment(
    x: Tensor, hidden: Tensor, cell: Tensor, is_first: Tensor, weight_x: Tensor, weight_h: Tensor, bias: Tensor
) -> None:
    """The door of what is multiplied; `lstm_gates` checks what the gates read."""
    (steps, rows, inputs), size = x.shape, hidden.shape[1]
    wanted: dict[str, tuple[Tensor, torch.dtype, tuple[int, ...]]] = {
        "x": (x, x.dtype, (steps, rows, inputs)),
        "hidden": (hidden, torch.float32, (rows, size)),
        "cell": (cell, torch.float32, (rows, size)),
        "is_first": (is_first, torch.bool, (steps, rows)),
        "weight_x": (weight_x, x.dtype, (4 * size, inputs)),
        "weight_h": (weight_h, x.dtype, (4 * size, size)),
        "bias": (bias, torch.float32, (4 * size,)),
    }
    for name, (tensor, dtype, shape) in wanted.items():
        is_known = dtype in (torch.float32, torch.bfloat16, torch.bool)
        if tensor.dtype != dtype or tensor.shape != shape or not tensor.is_cpu or not is_known:
            raise ValueError(
                f"lstm_segment: {name} is {tensor.dtype} {tuple(tensor.shape)} on {tensor.device}; it must be "
                f"{dtype if is_known else torch.float32} {shape} on cpu; convert it, or set LEAGUE_KERNELS=off"
            )


def _kept(is_first: Tensor, like: Tensor) -> tuple[Tensor, list[bool]]:
    """0 where a match begins, else 1 (T, B, 1); and whether any does, by step."""
    return (~is_first).to(like.dtype)[..., None], is_first.any(1).tolist()


@compiled_segment.register_fake
def _(
    x: Tensor, hidden: Tensor, cell: Tensor, is_first: Tensor, weight_x: Tensor, weight_h: Tensor, bias: Tensor
) -> tuple[Tensor, ...]:
    shape = (*is_first.shape, hidden.shape[1])
    gates = bias.new_empty((*shape[:2], bias.shape[0]))
    return bias.new_empty(shape), x.new_empty(shape), gates, bias.new_empty(shape)


@torch.library.custom_op("league::lstm_segment_backward", mutates_args=(), device_types="cpu")
def compiled_segment_backward(
    d_out: Tensor,
    x: Tensor,
    cell: Tensor,
    is_first: Tensor,
    weight_x: Tensor,
    weight_h: Tensor,
    befores: Tensor,
    gates: Tensor,
    cells: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of x, both weights, each in its type, and the bias."""
    d_out = d_out.float().contiguous()
    d_gates, d_x = x.new_empty(gates.shape), x.new_empty(x.shape)  # in order, whatever the strides of x
    if is_wide(x):
        given = d_out, cell, is_first.contiguous(), _packed(weight_x), _packed(weight_h), gates, cells
        whole_segment.backward(*given, d_gates, d_x, torch.get_num_threads())
    else:
        _by_steps_backward(d_out, cell, is_first, weight_x, weight_h, gates, cells, d_gates, d_x)
    d_gates = d_gates.flatten(0, 1)
    d_weight_x, d_weight_h = (product(d_gates.t(), other.flatten(0, 1)) for other in (x, befores))
    return d_x, d_weight_x, d_weight_h, d_gates.sum(0, dtype=torch.float32)


def _by_steps_backward(
    d_out: Tensor,
    cell: Tensor,
    is_first: Tensor,
    weight_x: Tensor,
    weight_h: Tensor,
    gates: Tensor,
    cells: Tensor,
    d_gates: Tensor,
    d_x: Tensor,
) -> None:
    """Writes the gradients of the gates (T, B, 4 * H) and of x (T, B, input), as `_by_steps` went."""
    block = _steps_at_once(d_x.shape[1])
    keep, begins = _kept(is_first, cell)
    right_x, right_h = laid_out(weight_x, d_x.shape[1] * block), laid_out(weight_h, d_x.shape[1])
    d_hidden, d_cell, precise = torch.zeros_like(cell), torch.zeros_like(cell), torch.empty_like(gates[0])
    for t in range(len(begins) - 1, -1, -1):
        before = cells[t - 1] if t else cell
        if begins[t]:
            before = before * keep[t]
        step = d_gates[t] if d_x.dtype == precise.dtype else precise
        lstm_gates.backward(gates[t], before, cells[t], d_out[t], d_hidden, d_cell, step, torch.get_num_threads())
        if step is precise:
            d_gates[t] = step
        d_hidden = product(d_gates[t], right_h).float()
        if begins[t]:
            d_hidden, d_cell = d_hidden * keep[t], d_cell * keep[t]
        if t % block == 0:
            steps = slice(t, t + block)
            product(d_gates[steps].flatten(0, 1), right_x, out=d_x[steps].view(-1, d_x.shape[2]))


@compiled_segment_backward.register_fake
def _(d_out: Tensor, x: Tensor, cell: Tensor, is_first: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
    weight_x, weight_h, _, gates, _ = rest
    bias = gates.new_empty(gates.shape[-1:])
    return x.new_empty(x.shape), x.new_empty(weight_x.shape), x.new_empty(weight_h.shape), bias


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
    x, _, cell, is_first, weight_x, weight_h, _ = inputs
    ctx.save_for_backward(x, cell, is_first, weight_x, weight_h, *output[1:])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, d_out: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    d_x, *d_weights = compiled_segment_backward(d_out, *ctx.saved_tensors)
    return d_x, None, None, None, *d_weights


compiled_segment.register_autograd(_gradients, setup_context=_keep)


def _steps_at_once(rows: int) -> int:
    """Steps whose inputs are multiplied in one product: enough rows to be worth the weights' way from memory."""
    return max(1, ROWS_AT_ONCE // rows)
