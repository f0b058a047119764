"""Which layers see an observation, and how large they are; known without torch, for `league settings`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from league.types import GameSpec, ObservationPart

Torso = Literal["auto", "mlp"]

HEAD = 16
"""Features of a head of attention among entities; a processor's vectors hold as many."""
MOST_CHANNELS = 64
"""Channels of convolutions and features of an entity: a quarter of the agent's `observation_width`, in sixteens, from
16 up to these."""
LARGEST_BOARD = 400
"""Cells: a larger image is a picture, whose sides strided convolutions halve until it is as small."""
BLOCKS = 1
"""Residual blocks: of two convolutions each, or of attention and a feed-forward layer."""


def channels_of(width: int) -> int:
    """Numbers for each cell or entity in a network of that `observation_width`."""
    return min(MOST_CHANNELS, max(1, width // (4 * HEAD)) * HEAD)


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
        return cls(height, across, channels_of(width), halvings)


@dataclass(frozen=True)
class Pointed:
    """A part of the observation whose elements actions point at."""

    part: int
    """Its index among the parts."""
    pointers: tuple[int, ...]
    """The element of each logit, -1 for those that point at none of this part."""


def torso_of(wanted: str, spec: GameSpec) -> Torso:
    """What `agent.torso` gives a game: `mlp` also where it shows neither images nor entities."""
    has_elements = any(part.num_elements for part in spec.observation or ())
    return "auto" if has_elements and wanted == "auto" else "mlp"


def pointed(parts: Sequence[ObservationPart] | None, pointers: Sequence[int]) -> list[Pointed]:
    """The parts that actions point at, by the elements of all logits (`ActionSpec.logit_pointers`).

    Without a picture, whose cells strides have merged.
    """
    found, start = [], 0
    for index, part in enumerate(parts or ()):
        stop = start + part.num_elements
        is_whole = part.kind == "entities" or part.num_elements <= LARGEST_BOARD
        if is_whole and any(start <= element < stop for element in pointers):
            found.append(Pointed(index, tuple(x - start if start <= x < stop else -1 for x in pointers)))
        start = stop
    return found


def in_words(wanted: str, spec: GameSpec, width: int) -> str:
    """What `agent.torso` gives a game, and how large it is."""
    if torso_of(wanted, spec) == "mlp":
        return f"mlp: {spec.obs_size} numbers to {width} features"
    words, channels = [], channels_of(width)
    for part in spec.observation or ():
        sides = f"{part.name} of {' x '.join(map(str, part.shape))}"
        if part.kind == "image":
            planes = Planes.of(part, width)
            number = planes.halvings + 1 + 2 * BLOCKS
            words.append(
                f"{sides} through {number} convolutions of {channels} channels, the last on"
                f" {planes.height} x {planes.across} cells"
            )
        elif part.kind == "entities":
            words.append(f"{sides} through attention with {channels} features a row, {HEAD} a head")
    pointers = spec.action.logit_pointers
    followed = sum(element >= 0 for each in pointed(spec.observation, pointers) for element in each.pointers)
    if followed:
        words.append(f"{followed} of {len(pointers)} logits point at elements")
    return "; ".join(words)
