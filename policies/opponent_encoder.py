"""The streaming opponent encoder: a causal Transformer over the opponent's recent past that encodes each frame once.

A token is what the observation shows of the opponent at one decision. Every layer keeps the keys and values of the
last `H` tokens of the match in a ring (`EncoderMemory`), so play costs one token a step; learning runs a whole segment
against the stored ring and itself. Positions are rotary (arXiv:2104.09864), counted from the match's start: a rotated
key stays valid in the ring, and scores depend only on how long ago a token was. As in Transformer-XL (arXiv:1901.02860)
reach grows with the layers and stored keys carry no gradient.

Token t sees the tokens t-H+1 ... t of its own match, in play and in learning alike.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from league.policies.attention import Attention, rotate, rotation_at
from league.policies.linear import Linear
from league.policies.ring import CompiledRing, EncoderMemory, Ring, ring_of


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
        query, key = rotate(both, rotation).chunk(2, -2)
        return query, key, self.attention.split(value)

    def step(self, x: Tensor, ring: Ring | CompiledRing, layer: int) -> Tensor:
        """x (n, width), one token a row, after attention over the layer's ring and the feed-forward part."""
        query, key, value = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + self.attention.out(ring.attend(layer, query[:, None], key, value)[:, 0])
        result: Tensor = x + self.mlp(x)
        return result

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
        """An empty memory of `num_rows` rows on the module's device, in the type that its layers compute in.

        Under autocast that is the smaller one, which loses nothing: attention would round what it reads to it.
        """
        like, kind = self.queries, self.queries.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else like.dtype
        shape = (len(self.blocks) + 1, num_rows, self.history, self.width)
        count = torch.zeros(num_rows, dtype=torch.int64, device=like.device)
        return EncoderMemory(like.new_zeros(shape, dtype=dtype), like.new_zeros(shape, dtype=dtype), count)

    def step(self, token: Tensor, memory: EncoderMemory, rows: Tensor | None) -> Tensor:
        """Latents (n, latents, width) after one token (n, token_size) a row; the memory is written in place."""
        index = slice(None) if rows is None else rows
        count = memory.count[index]
        ring = ring_of(memory, count, rows, self.pool)
        x = self.embed(token)
        for layer, block in enumerate(self.layers):
            x = block.step(x, ring, layer)
        key, value = self.pool_kv(self.pool_norm(x)).chunk(2, -1)
        queries: Tensor = self.queries
        if queries.dim() == 3:  # of stacked nets: each row has those of its own
            queries = queries.repeat_interleave(len(token) // len(queries), 0)
        latents: Tensor = self.pool.out(ring.attend(len(self.blocks), queries, key, value))
        memory.count[index] = count + 1
        return latents

    def sequence(self, tokens: Tensor, memory: EncoderMemory, is_first: Tensor) -> Tensor:
        """Latents (B, T, latents, width) of a segment (B, T, token_size) that goes on from `memory` (read only)."""
        positions, mask = self._visible(memory, is_first)
        rotation = rotation_at(positions, self.pool.head_width, self.queries.dtype)

        def recall(layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
            stored = self.pool.split(memory.keys[layer]), self.pool.split(memory.values[layer])
            return torch.cat([stored[0].to(key.dtype), key], 1), torch.cat([stored[1].to(value.dtype), value], 1)

        x = self.embed(tokens)
        for layer, block in enumerate(self.layers):
            query, key, value = block.project(x, rotation)
            x = block.mix(x, query, *recall(layer, key, value), mask)
        keys, values = recall(len(self.blocks), *self._pool_pair(x, rotation))
        num_latents = len(self.queries)
        queries = rotate(self.pool.split(self.queries), (rotation[0][:, :, None], rotation[1][:, :, None]))
        mask = mask[:, :, None].expand(-1, -1, num_latents, -1).flatten(1, 2)
        latents: Tensor = self.pool(queries.flatten(1, 2), keys, values, mask)
        return latents.view(*is_first.shape, num_latents, self.width)

    def _pool_pair(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        key, value = (self.pool.split(part) for part in self.pool_kv(self.pool_norm(x)).chunk(2, -1))
        return rotate(key, rotation), value

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
