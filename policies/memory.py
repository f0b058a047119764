"""What a custom policy remembers of its rows, for networks whose memory is a few tensors, or nothing."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Memory:
    """A `league.types.PolicyState` of named tensors (N, ...), one row a match, zero at a match's start.

    `Memory(hidden=torch.zeros(N, 64))` remembers 64 numbers a row, `Memory()` nothing. A tensor is an attribute:
    `memory.hidden[rows] = ...` writes it.
    """

    def __init__(self, **tensors: Tensor) -> None:
        self._tensors = tensors

    def __getattr__(self, name: str) -> Tensor:
        """The tensor of that name."""
        tensors: dict[str, Tensor] = self.__dict__.get("_tensors", {})
        if name not in tensors:
            raise AttributeError(f"this memory has no {name!r}; it has {', '.join(tensors) or 'nothing'}")
        return tensors[name]

    def tensors(self) -> dict[str, Tensor]:
        """See `PolicyState.tensors`."""
        return dict(self._tensors)

    def clear(self, rows: Tensor) -> None:
        """See `PolicyState.clear`."""
        for tensor in self._tensors.values():
            tensor[rows] = 0

    def part(self, rows: slice) -> Memory:
        """See `league.types.Divisible`."""
        return Memory(**{name: x[rows] for name, x in self._tensors.items()})

    def select(self, rows: Tensor | None) -> Memory:
        """See `PolicyState.select`."""
        return Memory(**{name: x.clone() if rows is None else x[rows] for name, x in self._tensors.items()})

    def join(self, others: Sequence[Memory]) -> Memory:
        """See `PolicyState.join`."""
        return Memory(
            **{name: torch.cat([x, *(getattr(o, name) for o in others)]) for name, x in self._tensors.items()}
        )

    def load(self, tensors: dict[str, Tensor]) -> None:
        """See `PolicyState.load`."""
        for name, x in self._tensors.items():
            x.copy_(tensors[name])
