"""The LSTM over one step and over a segment with match boundaries inside: in torch, and compiled where that can serve.

`nn.LSTM` holds the weights. In play it would re-pack them at every call, and over a segment it knows no boundaries, so
that it would have to be called anew wherever any row begins a match (docs/performance.md has both).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

import league.policies.lstm_gates as lstm_gates
from league.policies.linear import linear, multiply, multiply_across, multiply_back


def lstm_cell(x: Tensor, hidden: Tensor, cell: Tensor, lstm: nn.LSTM) -> tuple[Tensor, Tensor]:
    """One step of a one-layer `lstm` from (hidden, cell), each (n, H), on x (n, input): the next (hidden, cell)."""
    weight_x, weight_h, bias_x, bias_h = lstm.parameters()
    if is_plain(cell) and not torch.is_grad_enabled():
        after, shown = torch.empty_like(cell), torch.empty_like(cell)
        is_stacked = weight_x.dim() == 3  # each net has a bias of its own, which the gates cannot tell apart
        bias = None if is_stacked else bias_x + bias_h
        gates = linear(x, weight_x, bias_x if is_stacked else None).float()
        recurrent = linear(hidden, weight_h, bias_h if is_stacked else None).float()
        lstm_gates.forward(gates, recurrent, bias, cell, after, shown, torch.get_num_threads())
        return shown, after
    gates = linear(x, weight_x, bias_x) + linear(hidden, weight_h, bias_h)
    enter, forget, candidate, leave = gates.chunk(4, -1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(candidate)
    return torch.sigmoid(leave) * torch.tanh(cell), cell


def lstm_segment(x: Tensor, hidden: Tensor, cell: Tensor, is_first: Tensor, lstm: nn.LSTM) -> Tensor:
    """`lstm` over x (B, T, input) from (hidden, cell), each (B, H), cleared where a match begins: (B, T, H).

    is_first (B, T): a match begins at this step.
    """
    if is_plain(hidden):
        is_low = torch.is_autocast_enabled("cpu")
        result: Tensor = _Segment.apply(x, hidden, cell, is_first, is_low, *lstm.parameters())  # type: ignore[no-untyped-call]
        return result
    return packed_segment(x, hidden, cell, is_first, lstm)


def is_plain(state: Tensor) -> bool:
    """Whether the compiled gates can serve: float32 on a CPU."""
    is_traced = torch.compiler.is_compiling()  # torch.compile sees only torch's own
    return state.device.type == "cpu" and state.dtype == torch.float32 and state.numel() > 0 and not is_traced


def packed_segment(x: Tensor, hidden: Tensor, cell: Tensor, is_first: Tensor, lstm: nn.LSTM) -> Tensor:
    """The same in one call of `nn.LSTM`: every piece of a match is a sequence of its own, longest first."""
    rows, steps = is_first.shape
    begins = is_first.clone()
    begins[:, 0] = True
    starts = begins.flatten().nonzero()[:, 0]  # in x flattened
    lengths = torch.diff(starts, append=starts.new_tensor([rows * steps]))
    order = lengths.argsort(descending=True, stable=True)
    starts, lengths = starts[order], lengths[order]
    time = torch.arange(steps, device=x.device)[:, None]
    is_there = time < lengths  # (T, pieces)
    places = (starts + time)[is_there]
    keep = (~is_first.flatten()[starts])[:, None]
    state = [(s.to(x.dtype)[starts // steps] * keep)[None] for s in (hidden, cell)]
    packed = PackedSequence(x.flatten(0, 1)[places], is_there.sum(1).cpu()[: int(lengths[0])])
    found, _ = lstm(packed, (state[0], state[1]))
    out: Tensor = torch.empty_like(found.data).index_copy(0, places, found.data).view(rows, steps, -1)
    return out


class _Segment(torch.autograd.Function):
    """The compiled form: one product for all inputs, and a product and the gates a step for what the state adds.

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
        x, weights = x.to(kind), (weight_x.to(kind), weight_h.to(kind))
        gates, bias = multiply(x, weights[0]).float(), bias_x + bias_h
        out, cells = gates.new_empty(2, *is_first.shape, hidden.shape[1])
        keep = (~is_first).to(out.dtype)[..., None]
        begins = is_first.any(0).tolist()
        state = hidden, cell
        for t, is_cut in enumerate(begins):
            if is_cut:
                state = state[0] * keep[:, t], state[1] * keep[:, t]
            recurrent = multiply(state[0].to(kind), weights[1]).float()
            lstm_gates.forward(gates[:, t], recurrent, bias, state[1], cells[:, t], out[:, t], torch.get_num_threads())
            state = out[:, t], cells[:, t]
        ctx.save_for_backward(x, hidden, cell, keep, gates, out, cells, *weights)
        ctx.begins = begins
        result: Tensor = out
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, hidden, cell, keep, gates, out, cells, weight_x, weight_h = ctx.saved_tensors
        d_out, kind = gradients[0].float().contiguous(), x.dtype
        d_gates = torch.empty_like(gates)
        d_hidden, d_cell = torch.zeros_like(hidden), torch.zeros_like(cell)
        for t in range(len(ctx.begins) - 1, -1, -1):
            before = cells[:, t - 1] if t else cell
            if ctx.begins[t]:
                before = before * keep[:, t]
            lstm_gates.backward(
                gates[:, t], before, cells[:, t], d_out[:, t], d_hidden, d_cell, d_gates[:, t], torch.get_num_threads()
            )
            d_hidden = multiply_back(d_gates[:, t].to(kind), weight_h).float()
            if ctx.begins[t]:
                d_hidden, d_cell = d_hidden * keep[:, t], d_cell * keep[:, t]
        d_gates = d_gates.flatten(0, 1)
        d_bias = d_gates.sum(0)
        d_gates = d_gates.to(kind)
        before = (torch.cat([hidden[:, None], out[:, :-1]], 1) * keep).flatten(0, 1).to(kind)
        d_x = multiply_back(d_gates, weight_x).view(x.shape) if ctx.needs_input_grad[0] else None
        d_weights = (multiply_across(d_gates, other).float() for other in (x.flatten(0, 1), before))
        return d_x, None, None, None, None, *d_weights, d_bias, d_bias
