"""The encoder's memory, and attention over it at one step of play: in torch, and compiled where that can serve."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from league.policies.kernels.attention import attend, parts_of, rotated, rotation_at, split, turning
from league.policies.kernels.switch import COMPILED, is_plain

ring_attention = COMPILED["ring_attention"]


@dataclass
class EncoderMemory:
    """Ring buffers of N rows, one a layer plus one for the latents' attention (`layers` + 1 in all).

    both: (2, layers + 1, N, H, width), keys, already rotated, and values; token i of a match lies in slot i mod H.
    count: (N,) int64, tokens of the match so far; what lies in a slot that the match has not reached is never read.
    """

    both: Tensor
    count: Tensor

    @property
    def keys(self) -> Tensor:
        """(layers + 1, N, H, width)"""
        return self.both[0]

    @property
    def values(self) -> Tensor:
        """(layers + 1, N, H, width)"""
        return self.both[1]

    def part(self, rows: slice) -> EncoderMemory:
        """That of some rows, at the same addresses."""
        return EncoderMemory(self.both[:, :, rows], self.count[rows])


@functools.cache
def _hiding(history: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(H, H): what is added to the scores of the slots of a ring, by the tokens before this one, at most H - 1 of them.

    Made once for each device, in the first call there, so that later ones can be captured.
    """
    return torch.full((history, history), -torch.inf, dtype=dtype).triu(1).to(device)


class Ring:
    """The memory at one step of play: each row's new token is written, then what the match has so far is attended."""

    def __init__(self, memory: EncoderMemory, count: Tensor, rows: Tensor | None, heads: int) -> None:
        history, width = memory.both.shape[3:]
        self._memory, self._rows, self._heads = memory, rows, heads
        self._places = torch.arange(len(count), device=count.device) if rows is None else rows
        self._slot = count % history
        hiding = _hiding(history, memory.both.dtype, count.device)
        self._hiding = hiding.index_select(0, count.clamp_max(history - 1))[:, None]  # (n, 1, H)
        self._rotation = turning(count, width // heads, memory.both.dtype)

    def attend(self, layer: int, tokens: Tensor, queries: Tensor | None = None) -> Tensor:
        """What the tokens' queries, or `queries` (Q, width) for all of them, find once the tokens' keys and values are
        in: (n, Q, width).

        tokens: queries, keys and values side by side (n, 3 width), without their rotation; with `queries` the last two
        alone (n, 2 width).
        """
        memory = self._memory.both[:, layer]  # (2, N, H, width)
        query, both = (x.to(memory.dtype) for x in rotated(tokens, queries, self._rotation, self._heads))
        memory[:, self._places, self._slot] = both.flatten(-2).transpose(0, 1)
        if self._rows is not None:
            memory = memory.index_select(1, self._rows)
        keys, values = split(memory, self._heads).unbind(0)
        return attend(query, keys, values, self._hiding)


class CompiledRing:
    """The same as `Ring`, each call compiled (`ring_attention.pyx`), in float32 whatever it is given."""

    def __init__(self, memory: EncoderMemory, count: Tensor, rows: Tensor | None, heads: int) -> None:
        self._memory, self._count, self._rows, self._heads = memory, count, rows, heads
        self._rotation = rotation_at(count, memory.keys.shape[3] // heads, memory.keys.dtype)

    def attend(self, layer: int, tokens: Tensor, queries: Tensor | None = None) -> Tensor:
        """See `Ring.attend`."""
        qkv, memory = parts_of(tokens.float(), queries), self._memory
        keys, values = memory.keys[layer], memory.values[layer]
        return attend_ring(*qkv, *self._rotation, self._count, self._rows, keys, values, self._heads)


def attend_ring(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cos: Tensor,
    sin: Tensor,
    count: Tensor,
    rows: Tensor | None,
    keys: Tensor,
    values: Tensor,
    heads: int,
) -> Tensor:
    """Writes one token a row into keys and values (N, H, width), then attends over them: (n, Q, width), in float32.

    query (n, Q, width), or (Q, width) for all rows alike; key, value (n, width); cos, sin (n, 1, half); count (n,)
    int64, tokens before this one; rows (n,) int64, or None for all. It is the operator `league::attend_ring`, too,
    which play does not go through: that costs more than the checks and the attention of a few rows.

    Raises:
        ValueError: a tensor is of another type, device, shape or layout, or a row is not there.
    """
    found: Tensor = ring_attention.attend_ring(
        query, key, value, cos, sin, count, rows, keys, values, heads, torch.get_num_threads()
    )
    return found


_operator = torch.library.custom_op(
    "league::attend_ring", attend_ring, mutates_args=("keys", "values"), device_types="cpu"
)


@_operator.register_fake
def _(query: Tensor, key: Tensor, *_: Any) -> Tensor:
    return key.new_empty((key.shape[0], query.shape[-2], key.shape[1]))


def ring_of(memory: EncoderMemory, count: Tensor, rows: Tensor | None, heads: int) -> Ring | CompiledRing:
    """The ring of one step of `rows` (None: all), whose matches have `count` (n,) tokens so far."""
    _, _, history, width = memory.keys.shape
    fits = history <= ring_attention.LONGEST_HISTORY and width // heads <= ring_attention.WIDEST_HEAD
    is_compiled = is_plain(memory.keys) and fits and len(count) > 0 and not torch.is_grad_enabled()
    return (CompiledRing if is_compiled else Ring)(memory, count, rows, heads)
