"""The streaming opponent encoder: a causal Transformer over the opponent's recent past that encodes each frame once.

A token is what the observation shows of the opponent at one decision. Every layer keeps the keys and values of the
last `H` tokens of the match in a ring (`EncoderMemory`), so play costs one token a step; learning runs a whole segment
against the stored ring and itself. Positions are rotary (arXiv:2104.09864), counted from the match's start: a rotated
key stays valid in the ring, and scores depend only on how long ago a token was. As in Transformer-XL (arXiv:1901.02860)
reach grows with the layers and stored keys carry no gradient.

Token t sees the tokens t-H+1 ... t of its own match, in play and in learning alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from league.policies.linear import Linear

ROTARY_BASE = 1000.0
"""Longest rotary wavelength is about 2 pi times this many tokens."""


@dataclass
class EncoderMemory:
    """Ring buffers of N rows, one a layer plus one for the latents' attention (`layers` + 1 in all).

    keys, values: (layers + 1, N, H, width), keys already rotated; token i of a match lies in slot i mod H.
    count: (N,) int64, tokens of the match so far; what lies in a slot that the match has not reached is never read.
    """

    keys: Tensor
    values: Tensor
    count: Tensor

    def positions(self, count: Tensor) -> Tensor:
        """Place in its match of the newest token in each slot, negative where there is none yet: (n, H)."""
        capacity = self.keys.shape[2]
        slots = torch.arange(capacity, device=count.device)
        newest = count[:, None] - 1
        return newest - (newest - slots).remainder(capacity)


def _rotation(positions: Tensor, head_width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos and sin (..., 1, head_width / 2) of the rotary angles at `positions` (...)."""
    half = head_width // 2
    frequency = ROTARY_BASE ** (-torch.arange(half, device=positions.device, dtype=dtype) / half)
    angle = (positions.to(dtype)[..., None] * frequency)[..., None, :]
    return angle.cos(), angle.sin()


def _rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotates the pairs of x (..., heads, head_width)."""
    cos, sin = rotation
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class Attention(nn.Module):
    """Multi-head attention cut in two, so that keys and values can come from a memory.

    No key bias: softmax cannot see one shared by all keys, so it would never get a gradient.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.head_width = width // heads
        self.out = Linear(width, width)

    def split(self, x: Tensor) -> Tensor:
        """(..., width) -> (..., heads, head_width)."""
        return x.view(*x.shape[:-1], self.heads, self.head_width)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """query (n, Q, heads, d), key and value (n, J, heads, d), mask (n, Q, J) True where seen -> (n, Q, width)."""
        attended = F.scaled_dot_product_attention(
            query.transpose(1, 2),
            key.transpose(1, 2),
            value.transpose(1, 2),
            attn_mask=None if mask is None else mask[:, None],
        )
        result: Tensor = self.out(attended.transpose(1, 2).flatten(-2))
        return result


class Block(nn.Module):
    """One pre-norm Transformer layer."""

    def __init__(self, width: int, heads: int, feedforward: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = Linear(width, 3 * width, bias=False)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.LayerNorm(width), Linear(width, feedforward), nn.GELU(), Linear(feedforward, width))

    def project(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated query, rotated key and value, each (..., heads, d), of x (..., width)."""
        qkv = self.qkv(self.norm(x))
        pair, value = qkv.split((2 * x.shape[-1], x.shape[-1]), -1)
        both = pair.view(*pair.shape[:-1], 2 * self.attention.heads, self.attention.head_width)
        query, key = _rotate(both, rotation).chunk(2, -2)
        return query, key, self.attention.split(value)

    def mix(self, x: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        """x (n, Q, width) after attention and the feed-forward part."""
        x = x + self.attention(query, key, value, mask)
        result: Tensor = x + self.mlp(x)
        return result


class OpponentEncoder(nn.Module):
    """Tokens (opponent's part of the observation) to `latents` summaries of the opponent's last H tokens.

    Learned queries attend over the last layer's memory; see the module's docstring for the rest.
    """

    def __init__(
        self, token_size: int, *, width: int, layers: int, heads: int, feedforward: int, history: int, latents: int
    ) -> None:
        super().__init__()
        self.history = history
        self.width = width
        self.embed = Linear(token_size, width)
        self.blocks = nn.ModuleList(Block(width, heads, feedforward) for _ in range(layers))
        self.pool_norm = nn.LayerNorm(width)
        self.pool_kv = Linear(width, 2 * width, bias=False)
        self.queries = nn.Parameter(torch.randn(latents, width))
        self.pool = Attention(width, heads)

    @property
    def layers(self) -> list[Block]:
        """The blocks, first to last."""
        return [block for block in self.blocks if isinstance(block, Block)]

    def initial_memory(self, num_rows: int) -> EncoderMemory:
        """An empty memory of `num_rows` rows, on the module's device and in its type."""
        like = self.queries
        shape = (len(self.blocks) + 1, num_rows, self.history, self.width)
        count = torch.zeros(num_rows, dtype=torch.int64, device=like.device)
        return EncoderMemory(like.new_zeros(shape), like.new_zeros(shape), count)

    def step(self, token: Tensor, memory: EncoderMemory, rows: Tensor | None) -> Tensor:
        """Latents (n, latents, width) after one token (n, token_size) a row; the memory is written in place."""
        index = slice(None) if rows is None else rows
        count = memory.count[index]
        every = torch.arange(len(count), device=count.device) if rows is None else rows
        slot = count % self.history
        seen = (memory.positions(count + 1) >= 0)[:, None]  # (n, 1, H)
        rotation = _rotation(count, self.pool.head_width, self.queries.dtype)

        def remember(layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
            keys, values = memory.keys[layer], memory.values[layer]
            keys[every, slot] = key.flatten(-2).to(keys.dtype)
            values[every, slot] = value.flatten(-2).to(values.dtype)
            if rows is not None:
                keys, values = keys.index_select(0, rows), values.index_select(0, rows)
            return self.pool.split(keys), self.pool.split(values)

        x = self.embed(token)
        for layer, block in enumerate(self.layers):
            query, key, value = block.project(x, rotation)
            keys, values = remember(layer, key, value)
            x = block.mix(x[:, None], query[:, None], keys, values, seen)[:, 0]
        keys, values = remember(len(self.blocks), *self._pool_pair(x, rotation))
        memory.count[index] = count + 1
        queries = _rotate(self.pool.split(self.queries), (rotation[0][:, None], rotation[1][:, None]))
        latents: Tensor = self.pool(queries, keys, values, seen)
        return latents

    def sequence(self, tokens: Tensor, memory: EncoderMemory, is_first: Tensor) -> Tensor:
        """Latents (B, T, latents, width) of a segment (B, T, token_size) that goes on from `memory` (read only)."""
        positions, mask = self._visible(memory, is_first)
        rotation = _rotation(positions, self.pool.head_width, self.queries.dtype)

        def recall(layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
            stored = self.pool.split(memory.keys[layer]), self.pool.split(memory.values[layer])
            return torch.cat([stored[0].to(key.dtype), key], 1), torch.cat([stored[1].to(value.dtype), value], 1)

        x = self.embed(tokens)
        for layer, block in enumerate(self.layers):
            query, key, value = block.project(x, rotation)
            x = block.mix(x, query, *recall(layer, key, value), mask)
        keys, values = recall(len(self.blocks), *self._pool_pair(x, rotation))
        num_latents = len(self.queries)
        queries = _rotate(self.pool.split(self.queries), (rotation[0][:, :, None], rotation[1][:, :, None]))
        mask = mask[:, :, None].expand(-1, -1, num_latents, -1).flatten(1, 2)
        latents: Tensor = self.pool(queries.flatten(1, 2), keys, values, mask)
        return latents.view(*is_first.shape, num_latents, self.width)

    def _pool_pair(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        key, value = (self.pool.split(part) for part in self.pool_kv(self.pool_norm(x)).chunk(2, -1))
        return _rotate(key, rotation), value

    def _visible(self, memory: EncoderMemory, is_first: Tensor) -> tuple[Tensor, Tensor]:
        """Positions (B, T) in their matches, and the band-and-match mask (B, T, H + T): memory first, then segment."""
        time = torch.arange(is_first.shape[1], device=is_first.device)
        began = torch.where(is_first, time, -1).cummax(1).values  # last match start at or before t; -1: in memory
        positions = torch.where(began >= 0, time - began, memory.count[:, None] + time)
        stored = memory.positions(memory.count)[:, None]  # (B, 1, H)
        in_memory = (stored >= 0) & (positions[:, :, None] - stored < self.history) & (began < 0)[:, :, None]
        ago = time[:, None] - time
        in_segment = (ago >= 0) & (ago < self.history) & (began[:, :, None] == began[:, None])
        return positions, torch.cat([in_memory, in_segment], -1)
