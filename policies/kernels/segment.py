"""Attention over a stored segment and the memory that it goes on from: in torch, and compiled where that can serve."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from league.policies.kernels.attention import attend, parts_of, rotate, rotation_at, split, turning
from league.policies.kernels.ring import EncoderMemory
from league.policies.kernels.switch import COMPILED, is_plain

segment_attention = COMPILED["segment_attention"]


def begun(memory: EncoderMemory, is_first: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where the matches of a segment (B, T) began. Steps are counted from 1; the newest token in the memory is of 0.

    Returns:
        Of each token its position in its match (B, T), and the step at which that began (B, T); and the step at which
        the match that goes on from the memory did (B, 1).
    """
    time, before = _steps(1, is_first.shape[1] + 1, is_first.device), 1 - memory.count[:, None]
    began = torch.where(is_first, time, before).cummax(1).values
    return time - began, began, before


@functools.cache
def _steps(start: int, stop: int, device: torch.device) -> Tensor:
    """From `start` to before `stop`; made once for each device, in the first call there, so that later ones can be
    captured."""
    return torch.arange(start, stop, device=device)


@functools.cache
def _later(history: int, steps: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(T, H + T): what is added to scores, minus infinity for what is later than the query; made once, as `_steps`."""
    return torch.full((steps, history + steps), -torch.inf, dtype=dtype).triu(history + 1).to(device)


class AttentionSegment:
    """A segment of B rows: each token sees the last H tokens of its own match, itself included.

    memory: what the rows brought along, read only; is_first (B, T): a match begins at this token.
    """

    def __init__(self, memory: EncoderMemory, is_first: Tensor, heads: int) -> None:
        self._memory, self._heads = memory, heads
        history, width = memory.both.shape[3:]
        device, rows, steps = is_first.device, *is_first.shape
        positions, began, before = begun(memory, is_first)
        self._rotation = turning(positions, width // heads, memory.both.dtype)
        # The step of each key; a slot not yet used seems earlier than its match.
        stored = (before + _steps(0, history, device)).remainder(-history)
        keys = torch.cat([stored, _steps(1, steps + 1, device).expand(rows, -1)], 1)
        earliest = torch.maximum(began, _steps(2 - history, 2 - history + steps, device))
        self._hidden = keys[:, None] < earliest[..., None]  # (B, T, H + T)
        self._hiding: Tensor | None = None
        """What is added to the scores, in the type that is attended in."""

    def attend(self, layer: int, tokens: Tensor, queries: Tensor | None = None) -> Tensor:
        """What the tokens' queries, or `queries` (Q, width) for all of them, find among their keys and values:
        (B, T, Q, width).

        tokens: queries, keys and values side by side (B, T, 3 width), without their rotation; with `queries` the last
        two alone (B, T, 2 width).
        """
        rows, history, width = self._memory.both.shape[2:]
        dtype, steps = tokens.dtype, tokens.shape[1]
        stored = split(self._memory.both[:, layer], self._heads).permute(1, 2, 0, 3, 4).to(dtype)  # (B, H, 2, heads, d)
        num_parts = tokens.shape[-1] // width
        own, (cos, sin) = tokens.view(rows, steps, num_parts, self._heads, -1), self._rotation
        first = 0 if queries is None else 1  # else the queries are apart
        query, keys, values = _Joined.apply(own, stored, cos[:, :, first:], sin[:, :, first:])  # type: ignore[no-untyped-call]
        if queries is not None:
            query = rotate(split(queries, self._heads), (cos[:, :, :1], sin[:, :, :1])).to(dtype)
        if self._hiding is None or self._hiding.dtype != dtype:
            later = _later(history, steps, dtype, tokens.device)
            self._hiding = later.masked_fill(self._hidden, -torch.inf)
        num_queries = query.shape[2]
        mask = self._hiding[:, :, None].expand(-1, -1, num_queries, -1).flatten(1, 2)
        return attend(query.flatten(1, 2), keys, values, mask).view(rows, steps, num_queries, width)


class _Joined(torch.autograd.Function):
    """Rotates a segment's queries and keys, and puts its keys and values behind those of the memory.

    tokens: (B, T, P, heads, d), the queries, if P is 3, keys and values; stored: (B, H, 2, heads, d), keys and values;
    cos, sin: (B, T, P, 1, d), as `rotate` takes them.

    Returns:
        The queries (B, T, P - 2, heads, d), all keys and all values (B, H + T, heads, d).
    """

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, stored: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ctx.save_for_backward(cos, sin)
        rotated = rotate(tokens, (cos, sin)).to(tokens.dtype)
        query, own = rotated.tensor_split([-2], 2)
        keys, values = torch.cat([stored, own], 1).unbind(2)
        return query, keys, values

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (query, keys, values), (cos, sin) = gradients, ctx.saved_tensors
        steps = cos.shape[1]
        parts = [*query.unbind(2), keys[:, -steps:], values[:, -steps:]]
        # A part's halves and the first again: the first two are the part, the last two are it with its halves swapped.
        halves = torch.stack([half for x in parts for half in (*x.chunk(2, -1), x.chunk(2, -1)[0])], 2)
        halves = halves.view(*halves.shape[:2], -1, 3, *halves.shape[3:]).transpose(3, 4)  # (B, T, P, heads, 3, d / 2)
        cos, sin = (x.unflatten(-1, (2, -1)) for x in (cos, sin))
        straight, swapped = halves[..., :2, :], halves[..., 1:, :]
        found = torch.empty(straight.shape, dtype=keys.dtype, device=keys.device)  # in order, unlike its parts
        torch.addcmul(straight * cos, swapped, sin, value=-1, out=found)
        return found.flatten(-2), None, None, None


class CompiledSegment:
    """The same as `AttentionSegment`, each call compiled (`segment_attention.pyx`), in float32 whatever it is given."""

    def __init__(self, memory: EncoderMemory, is_first: Tensor, heads: int) -> None:
        self.memory, self.is_first, self.heads = memory, is_first.contiguous(), heads
        positions, *_ = begun(memory, is_first)
        self.rotation = rotation_at(positions, memory.keys.shape[3] // heads, memory.keys.dtype)

    def attend(self, layer: int, tokens: Tensor, queries: Tensor | None = None) -> Tensor:
        """See `AttentionSegment.attend`."""
        memory = self.memory
        fixed = memory.count, self.is_first, memory.keys[layer], memory.values[layer], self.heads
        found: Tensor = attend_segment(*parts_of(tokens.float(), queries), *self.rotation, *fixed)[0]
        return found


@torch.library.custom_op("league::attend_segment", mutates_args=(), device_types="cpu")
def attend_segment(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cos: Tensor,
    sin: Tensor,
    count: Tensor,
    is_first: Tensor,
    keys: Tensor,
    values: Tensor,
    heads: int,
) -> tuple[Tensor, Tensor]:
    """What the queries find (B, T, Q, width), and the logs of their sums (B, T, Q, heads), all in float32.

    query (B, T, Q, width), or (Q, width) for all tokens alike; key, value (B, T, width); cos, sin (B, T, 1, half);
    count (B,) int64; is_first (B, T) bool; keys, values (B, H, width): the memory, rotated. Differentiable in query,
    key and value.

    Raises:
        ValueError: a tensor is of another type, device, shape or layout.
    """
    threads = torch.get_num_threads()
    out, log_sum = segment_attention.forward(query, key, value, cos, sin, count, is_first, keys, values, heads, threads)
    return out, log_sum


@attend_segment.register_fake
def _(query: Tensor, key: Tensor, *fixed: Any) -> tuple[Tensor, Tensor]:
    rows, steps, width = key.shape
    shape = rows, steps, query.shape[-2]
    return key.new_empty((*shape, width)), key.new_empty((*shape, fixed[-1]))


@torch.library.custom_op("league::attend_segment_backward", mutates_args=(), device_types="cpu")
def attend_segment_backward(
    d_out: Tensor,
    out: Tensor,
    log_sum: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cos: Tensor,
    sin: Tensor,
    count: Tensor,
    is_first: Tensor,
    keys: Tensor,
    values: Tensor,
    heads: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of query (B, T, Q, width), of each token also where they share one, key and value (B, T, width)."""
    fixed = cos, sin, count, is_first, keys, values, heads, torch.get_num_threads()
    d_query, d_key, d_value = segment_attention.backward(d_out.contiguous(), out, log_sum, query, key, value, *fixed)
    return d_query, d_key, d_value


@attend_segment_backward.register_fake
def _(d_out: Tensor, out: Tensor, log_sum: Tensor, query: Tensor, key: Tensor, *_: Any) -> tuple[Tensor, ...]:
    return out.new_empty(out.shape), key.new_empty(key.shape), key.new_empty(key.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*output, *inputs[:-1])
    ctx.heads = inputs[-1]
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, d_out: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    out, log_sum, query, *rest = ctx.saved_tensors
    d_query, d_key, d_value = attend_segment_backward(d_out, out, log_sum, query, *rest, ctx.heads)
    if query.dim() == 2:
        d_query = d_query.sum((0, 1))
    return d_query, d_key, d_value, *[None] * 7


attend_segment.register_autograd(_gradients, setup_context=_keep)


def segment_of(memory: EncoderMemory, is_first: Tensor, heads: int) -> AttentionSegment | CompiledSegment:
    """The segment (B, T) that goes on from `memory`, in the form that serves best."""
    is_compiled = is_plain(memory.keys) and is_first.numel() > 0
    return (CompiledSegment if is_compiled else AttentionSegment)(memory, is_first, heads)
