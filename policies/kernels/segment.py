"""Attention over a stored segment and the memory that it goes on from: in torch, and compiled where that can serve."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from league.policies.kernels.attention import attend, hiding, rotated, rotation_at, split, widened
from league.policies.kernels.ring import EncoderMemory
from league.policies.kernels.switch import COMPILED, is_plain

segment_attention = COMPILED["segment_attention"]


def positions_in(memory: EncoderMemory, is_first: Tensor) -> tuple[Tensor, Tensor]:
    """Of each token of a segment (B, T): its position in its match, and the step at which that began, -1 if before."""
    time = torch.arange(is_first.shape[1], device=is_first.device)
    began = torch.where(is_first, time, -1).cummax(1).values
    return torch.where(began >= 0, time - began, memory.count[:, None] + time), began


class Segment:
    """A segment of B rows: each token sees the last H tokens of its own match, itself included.

    memory: what the rows brought along, read only; is_first (B, T): a match begins at this token.
    """

    def __init__(self, memory: EncoderMemory, is_first: Tensor, heads: int) -> None:
        self._memory, self._heads = memory, heads
        history, width = memory.keys.shape[2:]
        positions, began = positions_in(memory, is_first)
        self._rotation = widened(rotation_at(positions, width // heads, memory.keys.dtype))
        stored = memory.positions(memory.count)[:, None]  # (B, 1, H)
        in_memory = (stored >= 0) & (positions[:, :, None] - stored < history) & (began < 0)[:, :, None]
        time = torch.arange(is_first.shape[1], device=is_first.device)
        ago = time[:, None] - time
        in_segment = (ago >= 0) & (ago < history) & (began[:, :, None] == began[:, None])
        self._seen = torch.cat([in_memory, in_segment], -1)  # (B, T, H + T)
        self._hiding: Tensor | None = None
        """Of the seen ones, in the type that is attended in."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """What queries (B, T, Q, width), or (Q, width) for all tokens, find among the keys and values (B, T, width).

        Queries and keys come without their rotation; the result is (B, T, Q, width).
        """
        keys, values = (split(x[layer], self._heads) for x in (self._memory.keys, self._memory.values))
        queries, own = (x.to(key.dtype) for x in rotated(query, key, self._rotation, self._heads))
        key = torch.cat([keys.to(key.dtype), own], 1)
        value = torch.cat([values.to(value.dtype), split(value, self._heads)], 1)
        num_queries = queries.shape[2]
        if self._hiding is None or self._hiding.dtype != key.dtype:
            self._hiding = hiding(self._seen, key.dtype)
        mask = self._hiding[:, :, None].expand(-1, -1, num_queries, -1).flatten(1, 2)
        found = attend(queries.flatten(1, 2), key, value, mask)
        return found.view(*self._seen.shape[:2], num_queries, -1)


class CompiledSegment:
    """The same as `Segment`, each call compiled (`segment_attention.pyx`), in float32 whatever it is given."""

    def __init__(self, memory: EncoderMemory, is_first: Tensor, heads: int) -> None:
        self.memory, self.is_first, self.heads = memory, is_first.contiguous(), heads
        positions, _ = positions_in(memory, is_first)
        self.rotation = rotation_at(positions, memory.keys.shape[3] // heads, memory.keys.dtype)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """See `Segment.attend`."""
        memory = self.memory
        fixed = memory.count, self.is_first, memory.keys[layer], memory.values[layer], self.heads
        found: Tensor = attend_segment(query.float(), key.float(), value.float(), *self.rotation, *fixed)[0]
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


def segment_of(memory: EncoderMemory, is_first: Tensor, heads: int) -> Segment | CompiledSegment:
    """The segment (B, T) that goes on from `memory`, in the form that serves best."""
    is_compiled = is_plain(memory.keys) and is_first.numel() > 0
    return (CompiledSegment if is_compiled else Segment)(memory, is_first, heads)
