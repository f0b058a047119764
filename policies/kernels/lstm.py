"""The LSTM over one step and over a segment with match boundaries inside: in torch, and compiled where that can serve.

`nn.LSTM` holds the weights. In play it would re-pack them at every call, and over a segment it knows no boundaries, so
that it would have to be called again wherever any row begins a match (docs/performance.md has both).

Gates and state are float32, or float64 where the weights are, under autocast too. The compiled forms, on a CPU,
multiply in bf16 then; elsewhere the products are in the state's type as well, in play as in learning.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

import league.policies.kernels._lstm_gates as lstm_gates
from league.policies.kernels.linear import adds_freely, is_plain, laid_out, linear, product

ROWS_AT_ONCE = 512
"""Rows of a product that reads the input's weights."""

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
        lstm_gates.forward(gates, recurrent, bias, cell, gates, after, shown, torch.get_num_threads())
        return shown, after
    with _without_autocast(cell):
        gates = linear(x.to(cell.dtype), weight_x, bias_x) + linear(hidden, weight_h, bias_h)
    enter, forget, candidate, leave = gates.chunk(4, -1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(candidate)
    return torch.sigmoid(leave) * torch.tanh(cell), cell


def lstm_segment(x: Tensor, hidden: Tensor, cell: Tensor, is_first: Tensor, lstm: nn.LSTM) -> Tensor:
    """`lstm` over x (T, B, input) from (hidden, cell), each (B, H), cleared where a match begins: (T, B, H).

    is_first (T, B): a match begins at this step.
    """
    if is_plain(hidden):
        is_low = torch.is_autocast_enabled("cpu")
        result: Tensor = _Segment.apply(x, hidden, cell, is_first, is_low, *lstm.parameters())  # type: ignore[no-untyped-call]
        return result
    return packed_segment(x, hidden, cell, is_first, lstm)


def packed_segment(x: Tensor, hidden: Tensor, cell: Tensor, is_first: Tensor, lstm: nn.LSTM) -> Tensor:
    """The same in one call of `nn.LSTM`: every piece of a match is a sequence of its own, longest first.

    In the state's type, whatever x is in.
    """
    steps, rows = is_first.shape
    begins = is_first.t().clone()
    begins[:, 0] = True
    starts = begins.flatten().nonzero()[:, 0]  # counted row by row
    lengths = torch.diff(starts, append=starts.new_tensor([rows * steps]))
    order = lengths.argsort(descending=True, stable=True)
    starts, lengths = starts[order], lengths[order]
    row, first = starts // steps, starts % steps
    time = torch.arange(steps, device=x.device)[:, None]
    is_there = time < lengths  # (T, pieces)
    places = ((first + time) * rows + row)[is_there]  # in x flattened
    keep = (~is_first[first, row])[:, None]
    state = [(s[row] * keep)[None] for s in (hidden, cell)]
    packed = PackedSequence(x.flatten(0, 1)[places].to(cell.dtype), is_there.sum(1).cpu()[: int(lengths[0])])
    with _without_autocast(cell):
        found, _ = lstm(packed, (state[0], state[1]))
    out: Tensor = torch.empty_like(found.data).index_copy(0, places, found.data).view(steps, rows, -1)
    return out


def _without_autocast(x: Tensor) -> torch.autocast:
    return torch.autocast(x.device.type, enabled=False)


class _Segment(torch.autograd.Function):
    """The compiled form: a product for the inputs of some steps, then a product and the gates a step for what the state
    adds, so that what is made is used while it is in the cache.

    Matrix products are in bf16 where `is_low`, all else in float32. No gradient flows into the state that a segment
    begins with: it is stored.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        hidden: Tensor,
        cell: Tensor,
        is_first: Tensor,
        is_low: bool,
        weight_x: Tensor,
        weight_h: Tensor,
        bias_x: Tensor,
        bias_h: Tensor,
    ) -> Tensor:
        kind = torch.bfloat16 if is_low else torch.float32
        x, weight_x, weight_h, bias = x.to(kind), weight_x.to(kind), weight_h.to(kind), bias_x + bias_h
        shape, block = (*is_first.shape, hidden.shape[1]), _steps_at_once(is_first.shape[1])
        gates, (out, cells) = bias.new_empty(*shape[:2], len(bias)), bias.new_empty(2, *shape)
        befores = x.new_empty(shape)
        keep = (~is_first).to(out.dtype)[..., None]
        begins = is_first.any(1).tolist()
        state, rows = (hidden, cell), shape[1]
        enter, recur = laid_out(weight_x.t(), rows * block), laid_out(weight_h.t(), rows)
        for t, is_cut in enumerate(begins):
            if t % block == 0:
                given = product(x[t : t + block].flatten(0, 1), enter).float().view(-1, rows, len(bias))
            if is_cut:
                state = state[0] * keep[t], state[1] * keep[t]
            befores[t] = state[0]
            step = given[t % block]
            recurrent = None
            if adds_freely(recur):  # which spares a pass
                product(befores[t], recur, out=step, adds=True)
            else:
                recurrent = product(befores[t], recur).float()
            lstm_gates.forward(step, recurrent, bias, state[1], gates[t], cells[t], out[t], torch.get_num_threads())
            state = out[t], cells[t]
        ctx.save_for_backward(x, befores, cell, keep, gates, cells, weight_x, weight_h)
        ctx.begins = begins
        result: Tensor = out
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, befores, cell, keep, gates, cells, weight_x, weight_h = ctx.saved_tensors
        d_out, block = gradients[0].float().contiguous(), _steps_at_once(x.shape[1])
        d_gates, d_x = x.new_empty(gates.shape), x.new_empty(x.shape)  # in order, whatever the strides of x
        leave, recur = laid_out(weight_x, x.shape[1] * block), laid_out(weight_h, x.shape[1])
        d_hidden, d_cell, precise = torch.zeros_like(cell), torch.zeros_like(cell), torch.empty_like(gates[0])
        for t in range(len(ctx.begins) - 1, -1, -1):
            before = cells[t - 1] if t else cell
            if ctx.begins[t]:
                before = before * keep[t]
            step = d_gates[t] if x.dtype == precise.dtype else precise
            lstm_gates.backward(gates[t], before, cells[t], d_out[t], d_hidden, d_cell, step, torch.get_num_threads())
            if step is precise:
                d_gates[t] = step
            d_hidden = product(d_gates[t], recur).float()
            if ctx.begins[t]:
                d_hidden, d_cell = d_hidden * keep[t], d_cell * keep[t]
            if t % block == 0:
                steps = slice(t, t + block)
                product(d_gates[steps].flatten(0, 1), leave, out=d_x[steps].view(-1, x.shape[2]))
        d_gates = d_gates.flatten(0, 1)
        d_weights = (product(d_gates.t(), other.flatten(0, 1)).float() for other in (x, befores))
        d_bias = d_gates.sum(0, dtype=torch.float32)
        return d_x, None, None, None, None, *d_weights, d_bias, d_bias


def _steps_at_once(rows: int) -> int:
    """Steps whose inputs are multiplied in one product: enough rows to be worth the weights' way from memory."""
    return max(1, ROWS_AT_ONCE // rows)
