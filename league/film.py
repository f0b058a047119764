"""A match as pictures for people: a GIF of its course, or a PNG of one moment."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from league.errors import UsageError
from league.types import BoolArray, FloatArray, MatchBatch

Picture = npt.NDArray[np.uint8]
"""(height, width, 3)."""
Player = Callable[[FloatArray, BoolArray | None], npt.NDArray[Any]]
"""(obs, mask) of its seat -> an action; None for a seat that a native bot plays."""

SIZES = {".gif": (640, 360), ".png": (960, 540)}
"""The kinds of files and how large their pictures are."""
MAX_SECONDS = 60
SAMPLES = 20
"""Pictures that the one palette of a GIF is chosen from. One, so that what stands still stays the same in the file."""


def check(out: Path, seconds: float) -> None:
    """Refuses a film that cannot be written, before anything is played.

    Raises:
        UsageError: the file's kind, its place, the length, or no Pillow.
    """
    if out.suffix not in SIZES:
        raise UsageError(f"out={out}: must end in .gif (a film) or .png (its last picture); pass another --out")
    if out.exists() or not out.parent.is_dir():
        reason = "is there already" if out.exists() else f"needs the folder {out.parent}"
        raise UsageError(f"out={out}: {reason}; nothing is overwritten or made around it, pass another --out")
    if not (math.isfinite(seconds) and 0 < seconds <= MAX_SECONDS):
        raise UsageError(f"seconds={seconds:g}: must be above 0 and at most {MAX_SECONDS}; pass another --seconds")
    try:
        import PIL  # noqa: F401
    except ModuleNotFoundError:
        raise UsageError("pictures need Pillow, which is not installed; run `pip install pillow`") from None


def shoot(
    batch: MatchBatch, players: Sequence[Player | None], draw: Callable[[], Picture], most: int, *, is_still: bool
) -> tuple[list[Picture], int | None]:
    """Plays the match in row 0, just reset, and draws it before each decision.

    Args:
        players: of the seats.
        draw: a picture of the match as it stands.
        most: decisions, if the match is not over before.
        is_still: only the last picture is wanted.

    Returns:
        The pictures, and the winner (a seat or DRAW), None where the match was not over.
    """
    pictures: list[Picture] = []
    for _ in range(most):
        if is_still:
            pictures.clear()
        pictures.append(draw())
        for seat, player in enumerate(players):
            if player is not None:
                mask = None if batch.mask is None else batch.mask[0, seat]
                batch.actions[0, seat] = player(batch.obs[0, seat], mask)
        batch.step()
        if batch.terminated[0] or batch.truncated[0]:
            return pictures, int(batch.result["winner"][0])
    return pictures, None


def save(pictures: Sequence[Picture], out: Path, picture_seconds: float) -> None:
    """Writes a GIF that repeats, the last picture held for a second, or the last as a PNG; whole or not at all."""
    try:
        _write(pictures, out, picture_seconds)
    except BaseException:
        out.unlink(missing_ok=True)
        raise


def _write(pictures: Sequence[Picture], out: Path, picture_seconds: float) -> None:
    from PIL import Image

    if out.suffix == ".png":
        Image.fromarray(pictures[-1]).save(out, optimize=True)
        return
    sample = np.concatenate(pictures[:: math.ceil(len(pictures) / SAMPLES)])
    palette = Image.fromarray(sample).quantize(256, dither=Image.Dither.NONE)
    images = [Image.fromarray(picture).quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    milliseconds = [round(1000 * picture_seconds)] * (len(images) - 1) + [1000]
    images[0].save(out, save_all=True, append_images=images[1:], duration=milliseconds, loop=0)
