"""Draws by row: a function of the run's seed, the row's number and the step, so that any number of ranks plays the same
games."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class RowShare:
    """The rows of one rank: `num_rows` of the run's `total`, from number `first` on."""

    first: int
    num_rows: int
    total: int
    seed: int
    """The run's."""

    def rng(self, updates_made: int, row: int, ordinal: int) -> np.random.Generator:
        """What draws the opponent of a match.

        Args:
            updates_made: when it begins.
            row: its row among this rank's.
            ordinal: matches of the row that have ended in this rollout.
        """
        return np.random.default_rng([self.seed, updates_made, self.first + row, ordinal])


class RowGenerator(torch.Generator):
    """A CPU generator with another one beside it, of which each row has a part of its own.

    The generator itself is this rank's alone, for networks that know of no rows. `draw_uniform` and its like
    draw for all rows of the run from the other one, which each call of a net seeds by its key, and take their own.
    """

    def __new__(cls, share: RowShare) -> RowGenerator:
        """A torch.Generator takes the device alone."""
        del share
        return super().__new__(cls, "cpu")  # type: ignore[call-arg]  # torch's stubs have __init__ alone

    def __init__(self, share: RowShare) -> None:
        self.share = share
        self._all = torch.Generator()
        self._rows: Tensor | None = None

    def begin(self, key: tuple[int, ...], first_row: int, num_rows: int, rows: Tensor | None = None) -> None:
        """A net is called next.

        Args:
            key: the call, in whole numbers: what all ranks call alike has the same.
            first_row: of the lane among this rank's rows.
            num_rows: of the lane.
            rows: (n,) the lane's rows that the net plays, the number `num_rows` for a spare one; None: all in order.
        """
        share = self.share
        self._all.manual_seed(int(np.random.SeedSequence([share.seed, *key]).generate_state(1)[0]))
        first = share.first + first_row
        if rows is None:
            self._rows = torch.arange(first, first + num_rows)
        else:
            self._rows = torch.where(rows == num_rows, share.total, rows + first)

    def take(self, draw: Callable[..., Tensor], shape: torch.Size) -> Tensor | None:
        """`draw` for all rows, of which `shape` (n, ...) is taken; None where the call is not one of n rows."""
        if self._rows is None or not shape or shape[0] != len(self._rows):
            return None
        return draw((self.share.total + 1, *shape[1:]), self._all)[self._rows]


def _drawn(draw: Callable[[Any, Any], Tensor], shape: torch.Size, generator: torch.Generator | None) -> Tensor:
    if isinstance(generator, RowGenerator) and (found := generator.take(draw, shape)) is not None:
        return found
    return draw(shape, generator)


def draw_uniform(shape: torch.Size, generator: torch.Generator | None, device: torch.device) -> Tensor:
    """As `torch.rand`; from a `RowGenerator` by row."""
    return _drawn(lambda size, by: torch.rand(size, generator=by, device=device), shape, generator)


def draw_normal(shape: torch.Size, generator: torch.Generator | None, device: torch.device) -> Tensor:
    """As `torch.randn`; from a `RowGenerator` by row."""
    return _drawn(lambda size, by: torch.randn(size, generator=by, device=device), shape, generator)


def draw_integers(high: int, shape: torch.Size, generator: torch.Generator | None, device: torch.device) -> Tensor:
    """As `torch.randint` from 0; from a `RowGenerator` by row."""
    return _drawn(lambda size, by: torch.randint(high, size, generator=by, device=device), shape, generator)
