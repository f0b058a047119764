"""The streaming opponent encoder: a causal Transformer over the opponent's recent past that encodes each frame once.

A token is what the observation shows of the opponent at one decision, or at one look while its seat waits for its turn.
Every layer keeps the keys and values of the
last `H` tokens of the match in a ring (`EncoderMemory`), so play costs one token a step; learning runs a whole segment
against the stored ring and itself. Positions are rotary (arXiv:2104.09864), counted from the match's start: a rotated
key stays valid in the ring, and scores depend only on how long ago a token was. As in Transformer-XL (arXiv:1901.02860)
reach grows with the layers and stored keys carry no gradient.

Token t sees the tokens t-H+1 ... t of its own match, in play and in learning alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from league.policies.kernels.linear import Linear
from league.policies.kernels.ring import EncoderMemory, ring_of
from league.policies.kernels.segment import segment_of


@dataclass(frozen=True)
class Stream:
    """The tokens of a segment in the order in which they came: those of decisions, and those that were watched between.

    N = T + W; rows that watched fewer than W are filled up at their end, where nothing looks back on it.
    """

    tokens: Tensor  # (B, N, token_size)
    is_first: Tensor  # (B, N)
    decisions: Tensor  # (B, T), the index of each decision's token

    @classmethod
    def of(cls, tokens: Tensor, is_first: Tensor, watched: Tensor, before: Tensor) -> Stream:
        """Decisions' tokens (B, T, token_size), of which some begin a match (B, T), and what was `watched`.

        watched, before: (W, B, token_size) and (W, B), as of `league.types.Watched`.
        """
        num_rows, num_steps, size = tokens.shape
        before, step = before.t().contiguous(), torch.arange(num_steps, device=tokens.device).expand(num_rows, -1)
        step = step.contiguous()
        decisions = step + torch.searchsorted(before, step, right=True)
        begins = step + torch.searchsorted(before, step)  # a decision's own views come first
        views = torch.arange(before.shape[1], device=tokens.device) + before
        length = num_steps + before.shape[1]
        where = torch.cat([decisions, views], 1)
        together = torch.cat([tokens, watched.transpose(0, 1)], 1)
        return cls(
            torch.zeros_like(together).scatter(1, where[..., None].expand(-1, -1, size), together),
            is_first.new_zeros(num_rows, length).scatter(1, begins, is_first),
            decisions,
        )

    def at_decisions(self, latents: Tensor) -> Tensor:
        """Of latents (B, N, latents, width) those of the decisions, (B, T, latents, width)."""
        return latents.gather(1, self.decisions[..., None, None].expand(-1, -1, *latents.shape[2:]))


class Past(Protocol):
    """What the tokens at hand may look back on: one token a row in play, a segment of T tokens a row in learning."""

    def attend(self, layer: int, tokens: Tensor, queries: Tensor | None = None) -> Tensor:
        """What the tokens' queries, or `queries` (Q, width) for all of them, find: (..., Q, width).

        tokens: their queries, keys and values side by side (..., 3 width); with `queries` the last two (..., 2 width).
        """


class TransformerLayer(nn.Module):
    """One pre-norm Transformer layer."""

    def __init__(self, width: int, feedforward: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = Linear(width, 3 * width, bias=False)
        self.out = Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), Linear(width, feedforward), nn.GELU(), Linear(feedforward, width))

    def forward(self, x: Tensor, past: Past, layer: int) -> Tensor:
        """x (..., width) after attention over the layer's past and the feed-forward part."""
        x = x + self.out(past.attend(layer, self.qkv(self.norm(x))).squeeze(-2))
        result: Tensor = x + self.mlp(x)
        return result


class OpponentEncoder(nn.Module):
    """Tokens (opponent's part of the observation) to `latents` summaries of the opponent's last H tokens.

    Learned queries attend over the last layer's memory; see the module's docstring for the rest. What they find goes
    to the cross-attention as it is: an output layer of their own would be one linear map before another. `embed` makes
    (..., width) of tokens (..., token_size).
    """

    def __init__(
        self, embed: nn.Module, *, width: int, layers: int, heads: int, feedforward: int, history: int, latents: int
    ) -> None:
        super().__init__()
        self.history, self.width, self.heads = history, width, heads
        self.embed = embed
        self.blocks = nn.ModuleList(TransformerLayer(width, feedforward) for _ in range(layers))
        self.pool_norm = nn.LayerNorm(width)
        self.pool_kv = Linear(width, 2 * width, bias=False)
        self.queries = nn.Parameter(torch.randn(latents, width))

    def initial_memory(self, num_rows: int) -> EncoderMemory:
        """An empty memory of `num_rows` rows on the module's device, in the type that attention computes in.

        On a CPU that is the weights'; elsewhere, under autocast, the smaller one, to which what it reads is rounded.
        """
        like, kind = self.queries, self.queries.device.type
        is_low = kind != "cpu" and torch.is_autocast_enabled(kind)
        dtype = torch.get_autocast_dtype(kind) if is_low else like.dtype
        shape = (2, len(self.blocks) + 1, num_rows, self.history, self.width)
        count = torch.zeros(num_rows, dtype=torch.int64, device=like.device)
        return EncoderMemory(like.new_zeros(shape, dtype=dtype), count)

    def step(self, token: Tensor, memory: EncoderMemory, rows: Tensor | None) -> Tensor:
        """Latents (n, latents, width) after one token (n, token_size) a row; the memory is written in place."""
        index = slice(None) if rows is None else rows
        count = memory.count[index]
        latents = self.encode(token, ring_of(memory, count, rows, self.heads))
        memory.count[index] = count + 1
        return latents

    def sequence(self, tokens: Tensor, memory: EncoderMemory, is_first: Tensor) -> Tensor:
        """Latents (B, T, latents, width) of a segment (B, T, token_size) that goes on from `memory` (read only)."""
        return self.encode(tokens, segment_of(memory, is_first, self.heads))

    def encode(self, tokens: Tensor, past: Past) -> Tensor:
        """Latents (..., latents, width) of tokens (..., token_size) that look back on `past`."""
        x = self.embed(tokens)
        for layer, block in enumerate(self.blocks):
            x = block(x, past, layer)
        queries: Tensor = self.queries
        if queries.dim() == 3:  # of stacked nets: each row has those of its own
            queries = queries.repeat_interleave(len(tokens) // len(queries), 0)
        return past.attend(len(self.blocks), self.pool_kv(self.pool_norm(x)), queries)
