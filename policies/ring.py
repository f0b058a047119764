"""The encoder's memory, and attention over it at one step of play: in torch, and compiled where that can serve."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

import league.policies.ring_attention as ring_attention
from league.policies.attention import Attention, rotate, rotation_at

FEW_ROWS = 32
"""The compiled form runs in one thread: with more rows torch's threads are faster (docs/performance.md)."""


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

    def __init__(self, memory: EncoderMemory, count: Tensor, rows: Tensor | None, attention: Attention) -> None:
        capacity = memory.keys.shape[2]
        self._memory, self._rows, self._attention = memory, rows, attention
        self._places = torch.arange(len(count), device=count.device) if rows is None else rows
        self._slot = count % capacity
        self._seen = (memory.positions(count + 1) >= 0)[:, None]  # (n, 1, H)
        precise = torch.promote_types(memory.keys.dtype, torch.float32)  # bf16 cannot tell the later positions apart
        self._rotation = rotation_at(count, attention.head_width, precise)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """What queries (n, Q, width), or (Q, width) for all, find once key and value (n, width) are in: (n, Q, width).

        Queries and keys come without their rotation.
        """
        attention, keys, values = self._attention, self._memory.keys[layer], self._memory.values[layer]
        keys[self._places, self._slot] = rotate(attention.split(key), self._rotation).flatten(-2).to(keys.dtype)
        values[self._places, self._slot] = value.to(values.dtype)
        if self._rows is not None:
            keys, values = keys.index_select(0, self._rows), values.index_select(0, self._rows)
        cos, sin = self._rotation
        queries = rotate(attention.split(query), (cos[:, None], sin[:, None]))
        return attention.look(queries, attention.split(keys), attention.split(values), self._seen)


class CompiledRing:
    """The same as `Ring`, each call compiled (`ring_attention.pyx`)."""

    def __init__(self, memory: EncoderMemory, count: Tensor, rows: Tensor | None, attention: Attention) -> None:
        self._memory, self._count, self._rows, self._heads = memory, count, rows, attention.heads
        self._rotation = rotation_at(count, attention.head_width, memory.keys.dtype)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """See `Ring.attend`."""
        keys, values = self._memory.keys[layer], self._memory.values[layer]
        found: Tensor = ring_attention.attend_ring(
            query, key, value, self._rotation, self._count, self._rows, keys, values, self._heads
        )
        return found


def ring_of(memory: EncoderMemory, count: Tensor, rows: Tensor | None, attention: Attention) -> Ring | CompiledRing:
    """The ring of one step of `rows` (None: all), whose matches have `count` (n,) tokens so far."""
    is_compiled = is_plain(memory.keys, attention, len(count), memory.keys.shape[2])
    return (CompiledRing if is_compiled else Ring)(memory, count, rows, attention)


def look(attention: Attention, query: Tensor, pairs: Tensor) -> Tensor:
    """What query (n, Q, width) finds in keys and values side by side (n, J, 2 * width): (n, Q, width)."""
    if is_plain(pairs, attention, *pairs.shape[:2]):
        found: Tensor = ring_attention.attend(query, pairs, attention.heads)
        return found
    key, value = (attention.split(part) for part in pairs.chunk(2, -1))
    return attention.look(attention.split(query), key, value, None)


def is_plain(like: Tensor, attention: Attention, num_rows: int, history: int) -> bool:
    """Whether compiled attention serves best: float32 on a CPU, no gradient asked for, and few rows or one thread."""
    return (
        num_rows > 0
        and (num_rows <= FEW_ROWS or torch.get_num_threads() == 1)
        and 0 < history <= ring_attention.LONGEST_HISTORY
        and like.device.type == "cpu"
        and like.dtype == attention.out.weight.dtype == torch.float32
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and attention.head_width <= ring_attention.WIDEST_HEAD
    )
