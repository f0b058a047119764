"""A match as pictures for people: a GIF of its course, or a PNG of one moment."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt

from league.acts import act
from league.arena.replays import SUFFIX, Playback
from league.envs import registry
from league.errors import UsageError
from league.store.files import check_new, new_file
from league.types import MatchBatch

Picture = npt.NDArray[np.uint8]
"""(height, width, 3)."""

SIZES = {".gif": (640, 360), ".png": (960, 540)}
"""The kinds of files and how large their pictures are."""
MAX_SECONDS = 300
"""Of a film. Of brawl 90 s took 12 s, 570 MB of memory and a file of 2 MB; 202 s took 23 s, 840 MB, 4.6 MB."""
SAMPLES = 20
"""Pictures that the one palette of a GIF is chosen from. One, so that what stands still stays the same in the file."""


class Reel(Sequence[Picture]):
    """Pictures, kept compressed: a match has many, and little changes in them.

    What comes out has the size of the largest, with black to the right of and below smaller ones.
    """

    def __init__(self) -> None:
        self._pictures: list[tuple[tuple[int, ...], bytes]] = []
        self._height = self._width = 0

    def append(self, picture: Picture) -> None:
        """Adds a picture at the end."""
        self._height, self._width = max(self._height, picture.shape[0]), max(self._width, picture.shape[1])
        self._pictures.append((picture.shape, zlib.compress(picture.tobytes(), 1)))

    def __len__(self) -> int:
        return len(self._pictures)

    @overload
    def __getitem__(self, index: int) -> Picture: ...
    @overload
    def __getitem__(self, index: slice) -> list[Picture]: ...
    def __getitem__(self, index: int | slice) -> Picture | list[Picture]:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        shape, data = self._pictures[index]
        picture = np.frombuffer(zlib.decompress(data), np.uint8).reshape(shape)
        if shape[:2] == (self._height, self._width):
            return picture
        return np.pad(picture, ((0, self._height - shape[0]), (0, self._width - shape[1]), (0, 0)))


class Shot(NamedTuple):
    """What was drawn of a match."""

    pictures: Reel
    drawn_steps: int
    """Decisions that the pictures reach."""


def check(out: Path, seconds: float | None) -> None:
    """Refuses a film that cannot be written, before anything is played.

    seconds: its length at most; None: the whole match, or MAX_SECONDS of it.

    Raises:
        UsageError: the file's kind, its place, the length, or no Pillow.
    """
    if out.suffix not in (*SIZES, SUFFIX, ".html"):
        raise UsageError(
            f"out={out}: must end in .html (a player), .gif (a film), .png (its last picture) or {SUFFIX} (the match"
            f" itself); pass another --out"
        )
    check_new(out, "--out")
    if seconds is not None and not (math.isfinite(seconds) and 0 < seconds <= MAX_SECONDS):
        raise UsageError(f"seconds={seconds:g}: must be above 0 and at most {MAX_SECONDS}; pass another --seconds")
    if out.suffix not in SIZES:
        return
    try:
        import PIL  # noqa: F401
    except ModuleNotFoundError:
        raise UsageError("pictures need Pillow, which is not installed; run `pip install pillow`") from None


def need_drawing(game: str) -> registry.Render:
    """What draws a game.

    Raises:
        UsageError: nothing does.
    """
    draw = registry.renderer(game)
    if draw is None:
        raise UsageError(f"{game} cannot be drawn; watch agents of another game")
    return draw


@act("film")
def shoot(playback: Playback, draw: Callable[[MatchBatch, int], Picture], most: int, *, is_still: bool) -> Shot:
    """Plays a match back to its end, and draws it before each of its first decisions.

    Args:
        playback: the match.
        draw: a picture of a row of a batch as it stands.
        most: decisions that are drawn.
        is_still: only the last picture is wanted.
    """
    pictures = Reel()
    for moment in playback.moments():
        if moment.step < most:
            if is_still:
                pictures = Reel()
            pictures.append(draw(moment.batch, 0))
    return Shot(pictures, min(playback.replay.steps, most))


@act("write the film")
def save(pictures: Sequence[Picture], out: Path, picture_seconds: float) -> None:
    """Writes a GIF that repeats, the last picture held for a second, or the last as a PNG; whole or not at all.

    Raises:
        UsageError: something came to be there since `check`.
        LeagueError: the disk or the folder refuses.
    """
    with new_file(out, "--out") as draft:
        _write(pictures, draft, picture_seconds)


def _write(pictures: Sequence[Picture], out: Path, picture_seconds: float) -> None:
    from PIL import Image

    if out.suffix == ".png":
        Image.fromarray(pictures[-1]).save(out, optimize=True)
        return
    sample = np.concatenate(pictures[:: math.ceil(len(pictures) / SAMPLES)])
    palette = Image.fromarray(sample).quantize(256, dither=Image.Dither.NONE)
    images = (Image.fromarray(picture).quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
    milliseconds = [round(1000 * picture_seconds)] * (len(pictures) - 1) + [1000]
    next(images).save(out, save_all=True, append_images=images, duration=milliseconds, loop=0)
