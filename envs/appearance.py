"""How a game shows a row: as shapes, or as a picture."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from league.envs.drawing import Drawing
from league.envs.registry import game
from league.types import MatchBatch


class Render(Protocol):
    """The `render` of a game that can be drawn."""

    def __call__(
        self,
        batch: MatchBatch,
        row: int,
        *,
        size: tuple[int, int] = ...,
        show_boxes: bool = ...,
        names: tuple[str, str] = ...,
    ) -> npt.NDArray[np.uint8]:
        """The picture (height, width, 3) of a row as it stands.

        Args:
            size: (width, height).
            show_boxes: show also what the rules see and players do not.
            names: of the seats.
        """


class Draw(Protocol):
    """The `drawing` of a game that gives itself as shapes."""

    def __call__(self, batch: MatchBatch, row: int, seat: int | None = None) -> Drawing:
        """A row as it stands; `seat`: without what is hidden from this seat, for a person who plays it."""


def renderer(name: str) -> Render | None:
    """The game's own `render`; None where it has none.

    Raises:
        ConfigError: no game has this name.
    """
    return getattr(game(name), "render", None)


def drawer(name: str) -> Draw | None:
    """The game's `drawing`; None where it gives no shapes.

    Raises:
        ConfigError: no game has this name.
    """
    return getattr(game(name), "drawing", None)
