"""The encoder's memory, and attention over it at one step of play: in torch, and compiled where that can serve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from league.policies.kernels.attention import attend, hiding, rotated, rotation_at, split, widened
from league.policies.kernels.switch import COMPILED, is_plain

ring_attention = COMPILED["ring_attention"]


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


class Ring:
    """The memory at one step of play: each row's new token is written, then what the match has so far is attended."""

    def __init__(self, memory: EncoderMemory, count: Tensor, rows: Tensor | None, heads: int) -> None:
        history, width = memory.keys.shape[2:]
        self._memory, self._rows, self._heads = memory, rows, heads
        self._places = torch.arange(len(count), device=count.device) if rows is None else rows
        self._slot = count % history
        self._hiding = hiding(memory.positions(count + 1) >= 0, memory.keys.dtype)[:, None]  # (n, 1, H)
        self._rotation = widened(rotation_at(count, width // heads, memory.keys.dtype))

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """What queries (n, Q, width), or (Q, width) for all, find once key and value (n, width) are in: (n, Q, width).

        Queries and keys come without their rotation.
        """
        heads, keys, values = self._heads, self._memory.keys[layer], self._memory.values[layer]
        queries, key = (x.to(keys.dtype) for x in rotated(query, key, self._rotation, heads))
        keys[self._places, self._slot] = key.flatten(-2)
        values[self._places, self._slot] = value.to(values.dtype)
        if self._rows is not None:
            keys, values = keys.index_select(0, self._rows), values.index_select(0, self._rows)
        return attend(queries, split(keys, heads), split(values, heads), self._hiding)


class CompiledRing:
    """The same as `Ring`, each call compiled (`ring_attention.pyx`), in float32 whatever it is given."""

    def __init__(self, memory: EncoderMemory, count: Tensor, rows: Tensor | None, heads: int) -> None:
        self._memory, self._count, self._rows, self._heads = memory, count, rows, heads
        self._rotation = rotation_at(count, memory.keys.shape[3] // heads, memory.keys.dtype)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """See `Ring.attend`."""
        qkv, memory = (query.float(), key.float(), value.float()), self._memory
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
