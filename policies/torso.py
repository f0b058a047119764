"""Which layers see an observation, and how large they are; known without torch, for `league settings`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from league.errors import ConfigError
from league.types import GameSpec, ObservationPart
from league.types.spaces import board_of

Torso = Literal["mlp", "conv"]

MOST_FILTERS = 64
"""Channels of convolutions: a quarter of the agent's `observation_width`, in sixteens (a processor's vectors hold as
many), from 16 up to these."""
LARGEST_BOARD = 400
"""Cells: a larger image is a picture, whose sides strided convolutions halve until it is as small."""
BLOCKS = 1
"""Residual blocks of two convolutions each."""


@dataclass(frozen=True)
class Planes:
    """What the convolutions over an image give: `filters` numbers for each of `height` x `across` cells.

    halvings: strided convolutions before; of a board none.
    """

    height: int
    across: int
    filters: int
    halvings: int

    @classmethod
    def of(cls, image: ObservationPart, width: int) -> Planes:
        """Those of an image in a network of that `observation_width`."""
        height, across, _ = image.shape
        halvings = 0
        while height * across > LARGEST_BOARD:
            height, across, halvings = -(-height // 2), -(-across // 2), halvings + 1
        filters = min(MOST_FILTERS, max(1, width // 64) * 16)
        return cls(height, across, filters, halvings)


def torso_of(wanted: str, spec: GameSpec) -> Torso:
    """What `agent.torso` means for a game.

    Raises:
        ConfigError: convolutions are wanted, and the game shows no image.
    """
    has_image = any(part.kind == "image" for part in spec.observation or ())
    if wanted == "conv" and not has_image:
        raise ConfigError(
            f"agent.torso=conv: {spec.name} shows no image; pass --set agent.torso=auto, or let its GameSpec have an"
            f" ObservationPart of kind image"
        )
    return "conv" if has_image and wanted != "mlp" else "mlp"


def followed(parts: Sequence[ObservationPart] | None, cells: Sequence[int], width: int) -> Planes | None:
    """The planes whose cells the actor follows: those of the first image, where actions name cells (`cells`) and no
    stride has merged them; else None."""
    image = board_of(parts or ())
    planes = None if image is None or not cells else Planes.of(image, width)
    return None if planes is None or planes.halvings else planes


def in_words(wanted: str, spec: GameSpec, width: int) -> str:
    """What `agent.torso` gives a game, and how large it is.

    Raises:
        ConfigError: as `torso_of`.
    """
    if torso_of(wanted, spec) == "mlp":
        return f"mlp: {spec.obs_size} numbers to {width} features"
    words = []
    for part in spec.observation or ():
        if part.kind == "image":
            planes = Planes.of(part, width)
            number = planes.halvings + 1 + 2 * BLOCKS
            sides = " x ".join(map(str, part.shape))
            words.append(
                f"{part.name} of {sides} through {number} convolutions of {planes.filters} channels, the last on"
                f" {planes.height} x {planes.across} cells"
            )
    cells = spec.action.logit_cells
    if followed(spec.observation, cells, width) is not None:
        words.append(f"{sum(cell >= 0 for cell in cells)} of {len(cells)} logits follow their cells")
    return f"conv: {'; '.join(words)}"
