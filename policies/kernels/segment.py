"""Attention over a stored segment and the memory that it goes on from: in torch, and compiled where that can serve."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import league.policies.kernels._segment_attention as segment_attention
from league.policies.kernels.attention import attend, rotate, rotation_at, split
from league.policies.kernels.linear import is_plain
from league.policies.kernels.ring import EncoderMemory


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
        self._rotation = rotation_at(positions, width // heads, memory.keys.dtype)
        stored = memory.positions(memory.count)[:, None]  # (B, 1, H)
        in_memory = (stored >= 0) & (positions[:, :, None] - stored < history) & (began < 0)[:, :, None]
        time = torch.arange(is_first.shape[1], device=is_first.device)
        ago = time[:, None] - time
        in_segment = (ago >= 0) & (ago < history) & (began[:, :, None] == began[:, None])
        self._seen = torch.cat([in_memory, in_segment], -1)  # (B, T, H + T)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """What queries (B, T, Q, width), or (Q, width) for all tokens, find among the keys and values (B, T, width).

        Queries and keys come without their rotation; the result is (B, T, Q, width).
        """
        keys, values = (split(x[layer], self._heads) for x in (self._memory.keys, self._memory.values))
        key = torch.cat([keys.to(key.dtype), rotate(split(key, self._heads), self._rotation).to(key.dtype)], 1)
        value = torch.cat([values.to(value.dtype), split(value, self._heads)], 1)
        cos, sin = self._rotation
        queries = rotate(split(query, self._heads), (cos[:, :, None], sin[:, :, None])).to(key.dtype)
        num_queries = queries.shape[2]
        seen = self._seen[:, :, None].expand(-1, -1, num_queries, -1).flatten(1, 2)
        found = attend(queries.flatten(1, 2), key, value, seen)
        return found.view(*self._seen.shape[:2], num_queries, -1)


class CompiledSegment:
    """The same as `Segment`, each call compiled (`segment_attention.pyx`), in float32 whatever it is given."""

    def __init__(self, memory: EncoderMemory, is_first: Tensor, heads: int) -> None:
        self.memory, self.is_first, self.heads = memory, is_first.contiguous(), heads
        positions, _ = positions_in(memory, is_first)
        self.rotation = rotation_at(positions, memory.keys.shape[3] // heads, memory.keys.dtype)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """See `Segment.attend`."""
        found: Tensor = _Attend.apply(query.float(), key.float(), value.float(), self, layer)  # type: ignore[no-untyped-call]
        return found

    def fixed(self, layer: int) -> tuple[Any, ...]:
        """What both directions of a call need beside the tensors that it differentiates."""
        memory = self.memory
        keys, values, threads = memory.keys[layer], memory.values[layer], torch.get_num_threads()
        return self.rotation, memory.count, self.is_first, keys, values, self.heads, threads


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, segment: CompiledSegment, layer: int) -> Tensor:
        out, log_sum = segment_attention.forward(query, key, value, *segment.fixed(layer))
        ctx.save_for_backward(query, key, value, out, log_sum)
        ctx.segment, ctx.layer = segment, layer
        result: Tensor = out
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        query, key, value, out, log_sum = ctx.saved_tensors
        d_query, d_key, d_value = segment_attention.backward(
            gradients[0].contiguous(), out, log_sum, query, key, value, *ctx.segment.fixed(ctx.layer)
        )
        if query.dim() == 2:
            d_query = d_query.sum((0, 1))
        return d_query, d_key, d_value, None, None


def segment_of(memory: EncoderMemory, is_first: Tensor, heads: int) -> Segment | CompiledSegment:
    """The segment (B, T) that goes on from `memory`, in the form that serves best."""
    is_compiled = is_plain(memory.keys) and is_first.numel() > 0
    return (CompiledSegment if is_compiled else Segment)(memory, is_first, heads)
