"""A match as pictures for people: a GIF or a video of its course, or a PNG of one moment."""

from __future__ import annotations

import math
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from league.arena import raster
from league.arena.frames import Course
from league.arena.raster import Picture
from league.arena.replays import SUFFIX
from league.envs.drawing import Drawing
from league.errors import LeagueError, UsageError, one_line
from league.runtime.phases import phase
from league.store.files import check_new, new_file

SIZES = {".gif": (560, 315), ".mp4": (960, 540), ".png": (960, 540)}
"""The kinds of files and how large their pictures are."""
MAX_SECONDS = 300
"""Of a film. Of brawl 90 s took 12 s, 570 MB of memory and a file of 2 MB; 202 s took 23 s, 840 MB, 4.6 MB."""
RATE = 20
"""Pictures a second of a film of drawings."""
LONGEST_SMOOTH = 0.3
"""Seconds between two decisions up to which pictures are drawn between them."""
SAMPLES = 20
"""Pictures that the one palette of a GIF is chosen from. One, so that what stands still is the same in the file."""


def check(out: Path, seconds: float | None, start: float = 0.0) -> None:
    """Refuses a film that cannot be written, before anything is played.

    seconds: its length at most; None: the whole match, or MAX_SECONDS of it. start: seconds of the match before it.

    Raises:
        UsageError: the file's kind, its place, or the length.
    """
    if out.suffix not in (*SIZES, SUFFIX, ".html"):
        raise UsageError(
            f"out={out}: must end in .html (a player), .mp4 or .gif (a film), .png (its last picture) or {SUFFIX} (the"
            f" match itself); pass another --out"
        )
    check_new(out, "--out")
    if seconds is not None and not (math.isfinite(seconds) and 0 < seconds <= MAX_SECONDS):
        raise UsageError(f"seconds={seconds:g}: must be above 0 and at most {MAX_SECONDS}; pass another --seconds")
    if not (math.isfinite(start) and start >= 0):
        raise UsageError(f"start={start:g}: must be 0 or more seconds; pass another --start")
    if out.suffix == ".mp4":
        _ffmpeg()


class Strip:
    """The pictures of a course, made when they are wanted; of drawings also those between, for a smooth film.

    Args:
        course: the match.
        size: (width, height) of a drawing's picture.
        boxes: also what the rules see and players do not.
        names: of the seats.
    """

    def __init__(self, course: Course, size: tuple[int, int], *, boxes: bool, names: tuple[str, str]) -> None:
        self._frames, self._size, self._boxes = course.frames, size, boxes
        self._names = one_line(names[0]), one_line(names[1])
        is_smooth = isinstance(course.frames[0], Drawing) and course.seconds <= LONGEST_SMOOTH
        self.each = max(1, round(course.seconds * RATE)) if is_smooth else 1
        """Pictures of each moment."""
        self.seconds = course.seconds / self.each
        """Of each picture."""
        self._largest = (0, 0)
        for frame in self._frames:
            if isinstance(frame, np.ndarray):
                self._largest = max(self._largest[0], frame.shape[0]), max(self._largest[1], frame.shape[1])

    def __len__(self) -> int:
        return len(self._frames) * self.each

    def __iter__(self) -> Iterator[Picture]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: int) -> Picture:
        number, part = divmod(range(len(self))[index], self.each)
        frame = self._frames[number]
        if isinstance(frame, Drawing):
            following = self._frames[min(number + 1, len(self._frames) - 1)]
            if part and isinstance(following, Drawing):
                frame = raster.between(frame, following, part / self.each)
            return raster.picture(frame, self._size, boxes=self._boxes, names=self._names)
        if isinstance(frame, str):
            return raster.words(frame, self._size)
        short = self._largest[0] - frame.shape[0], self._largest[1] - frame.shape[1]
        return np.pad(frame, ((0, short[0]), (0, short[1]), (0, 0))) if any(short) else frame


@phase("write the film")
def save(pictures: Sequence[Picture] | Strip, out: Path, picture_seconds: float) -> None:
    """Writes a GIF that repeats, the last picture held for a second, or the last as a PNG; whole or not at all.

    Raises:
        UsageError: something came to be there since `check`.
        LeagueError: the disk or the folder refuses.
    """
    with new_file(out, "--out") as draft:
        _write(pictures, draft, picture_seconds)


def _write(pictures: Sequence[Picture] | Strip, out: Path, picture_seconds: float) -> None:
    from PIL import Image

    if out.suffix == ".mp4":
        _write_mp4(pictures, out, picture_seconds)
        return
    if out.suffix == ".png":
        Image.fromarray(pictures[-1]).save(out, optimize=True)
        return
    sample = np.concatenate([pictures[i] for i in range(0, len(pictures), math.ceil(len(pictures) / SAMPLES))])
    palette = Image.fromarray(sample).quantize(256, dither=Image.Dither.NONE)
    images = (Image.fromarray(picture).quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
    milliseconds = [round(1000 * picture_seconds)] * (len(pictures) - 1) + [1000]
    next(images).save(out, save_all=True, append_images=images, duration=milliseconds, loop=0)


def _ffmpeg() -> str:
    """The program that writes .mp4.

    Raises:
        UsageError: there is none.
    """
    try:
        import imageio_ffmpeg

        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except (ModuleNotFoundError, RuntimeError):
        raise UsageError(
            "out=.mp4: needs ffmpeg, which is not here; run `pip install imageio-ffmpeg`, or pass --out FILE.gif or"
            " FILE.html"
        ) from None


def _write_mp4(pictures: Sequence[Picture] | Strip, out: Path, picture_seconds: float) -> None:
    """H.264, which every browser and player takes; each picture a whole number of times, so that its rate is RATE.

    Raises:
        LeagueError: ffmpeg fails.
    """
    times = max(1, round(picture_seconds * RATE))
    high, wide = (n - n % 2 for n in pictures[0].shape[:2])
    words = [_ffmpeg(), "-hide_banner", "-loglevel", "error", "-nostdin", "-f", "rawvideo", "-pix_fmt", "rgb24"]
    words += ["-s", f"{wide}x{high}", "-r", f"{times / picture_seconds:.6g}", "-i", "-", "-an", "-c:v", "libx264"]
    words += ["-pix_fmt", "yuv420p", "-crf", "20", "-preset", "veryfast"]
    words += ["-movflags", "+faststart", "-f", "mp4", str(out)]
    with tempfile.TemporaryFile() as errors, subprocess.Popen(words, stdin=subprocess.PIPE, stderr=errors) as process:
        assert process.stdin is not None
        try:
            for i, picture in enumerate(pictures):
                last = RATE if i == len(pictures) - 1 else 0  # the end is held for a second
                data = np.ascontiguousarray(picture[:high, :wide]).tobytes()
                for _ in range(times + last):
                    process.stdin.write(data)
            process.stdin.close()
        except BrokenPipeError:
            pass
        code = process.wait()
        if code:
            errors.seek(0)
            told = " ".join(errors.read(2_000).decode(errors="replace").split())
            raise LeagueError(
                f"{out.name}: ffmpeg failed ({one_line(told) or f'exit code {code}'}); pass --out FILE.gif"
            )
