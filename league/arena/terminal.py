"""A match in the terminal: its pictures as half blocks of colour, at the pace of the game."""

from __future__ import annotations

import sys
import time
from typing import TextIO

import numpy as np

from league.arena import raster
from league.arena.frames import Course
from league.arena.raster import Picture
from league.arena.replays import Replay
from league.envs.drawing import Drawing
from league.errors import UsageError, one_line

LEAST_COLUMNS, LEAST_LINES, MOST_COLUMNS = 40, 12, 160
RATE = 10
"""Pictures a second: more would only flicker."""
UPPER = "\u2580"
HIDE, SHOW, HOME, CLEAR, PLAIN = "\x1b[?25l", "\x1b[?25h", "\x1b[H", "\x1b[2J", "\x1b[0m"


def check(out: TextIO | None = None) -> tuple[int, int]:
    """The terminal's columns and lines.

    Raises:
        UsageError: there is none, or it is too small.
    """
    import shutil

    stream = out or sys.stdout
    if stream is None or stream.closed or not stream.isatty():
        raise UsageError("watching without --out needs a terminal; pass --out FILE.html, FILE.gif or FILE.mp4")
    columns, lines = shutil.get_terminal_size()
    if columns < LEAST_COLUMNS or lines < LEAST_LINES:
        raise UsageError(
            f"the terminal has {columns} x {lines} letters, watching needs {LEAST_COLUMNS} x {LEAST_LINES}; make it"
            f" larger, or pass --out FILE.html"
        )
    return min(columns, MOST_COLUMNS), lines


def play(replay: Replay, course: Course, *, boxes: bool = False, out: TextIO | None = None) -> None:
    """Shows a match from its beginning to its end; Ctrl+C ends it earlier.

    Raises:
        UsageError: there is no terminal, or it is too small.
    """
    stream = out or sys.stdout
    columns, lines = check(stream)
    names = " against ".join(one_line(name) for name in replay.names)
    begun, shown, last = time.monotonic(), -1, len(course.frames) - 1
    try:
        stream.write(CLEAR + HIDE)
        while shown < last:
            number = min(last, int((time.monotonic() - begun) / course.seconds))
            if number != shown:
                title = f"{names}   {number * course.seconds:.1f} s"[: columns - 1].ljust(columns - 1)
                stream.write(HOME + title + "\n" + _text(course.frames[number], columns, lines - 2, boxes))
                stream.flush()
                shown = number
            time.sleep(1 / RATE if shown < last else 0)
    finally:
        stream.write(PLAIN + SHOW + "\n")
        stream.flush()


def _text(frame: Drawing | Picture | str, columns: int, lines: int, boxes: bool) -> str:
    """A frame in so many columns and lines."""
    if isinstance(frame, str):
        rows = [line[: columns - 1].ljust(columns - 1) for line in frame.split("\n")[:lines]]
        return "\n".join(rows + [" " * (columns - 1)] * (lines - len(rows)))
    if isinstance(frame, Drawing):
        return blocks(raster.picture(frame, (columns, 2 * lines), boxes=boxes))
    scale = max(frame.shape[0] / lines / 2, frame.shape[1] / columns)
    high, wide = max(2, int(frame.shape[0] / scale)), max(1, int(frame.shape[1] / scale))
    at = [
        np.minimum((np.arange(n) * scale).astype(int), most - 1)
        for n, most in zip((high, wide), frame.shape[:2], strict=True)
    ]
    return blocks(frame[at[0]][:, at[1]])


def blocks(picture: Picture) -> str:
    """A picture of (2 n, columns) as n lines, each letter a colour in its upper half and one in its lower half."""
    found = []
    for i in range(0, len(picture) - 1, 2):
        line, before = [], None
        for upper, lower in zip(picture[i].tolist(), picture[i + 1].tolist(), strict=True):
            if (upper, lower) != before:
                line.append("\x1b[38;2;{};{};{};48;2;{};{};{}m".format(*upper, *lower))
                before = (upper, lower)
            line.append(UPPER)
        found.append("".join(line) + PLAIN)
    return "\n".join(found)
