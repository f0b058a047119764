"""A person plays in a window of its own, by pygame: keys that are held, or actions chosen from a list."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from league.arena import film, raster
from league.arena.frames import Picture
from league.arena.hands import Table
from league.envs.drawing import Drawing
from league.errors import UsageError, one_line

GREETING = "PYGAME_HIDE_SUPPORT_PROMPT"
"""What pygame reads to keep its greeting off stdout, which is for data."""
SIZE = (960, 540)
LIST = 230
"""Pixels below the picture for the keys or the actions."""
RATE = 30
"""Pictures a second."""
INK, PAPER, DIM, CHOSEN = (16, 19, 28), (242, 243, 238), (150, 156, 175), (57, 65, 90)
LINE = 22
END_SECONDS = 4.0
"""For which the end is shown, unless a key is pressed."""
UNSEEN = ("offscreen", "dummy")
"""Drivers of SDL that show nothing; a test may ask for one."""
NAMES = {"ArrowUp": "up", "ArrowDown": "down", "ArrowLeft": "left", "ArrowRight": "right", " ": "space"}
"""Keys of a browser as pygame calls them, where it does otherwise."""


def load() -> Any:
    """pygame.

    Raises:
        UsageError: it is not installed.
    """
    film.need_pillow()
    is_ours = GREETING not in os.environ
    os.environ.setdefault(GREETING, "1")
    try:
        import pygame

        return pygame
    except ModuleNotFoundError:
        raise UsageError(
            "playing in a window needs pygame, which is not installed; run `pip install pygame-ce`, or pass --browser"
        ) from None
    finally:
        if is_ours:
            os.environ.pop(GREETING, None)


@contextmanager
def _silenced() -> Iterator[None]:
    """Within it what SDL and the system's libraries write to stderr by themselves goes nowhere: errors are ours."""
    try:
        kept = os.dup(2)
    except OSError:  # there is no stderr
        yield
        return
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


class Window:
    """The window.

    Raises:
        UsageError: there is no pygame, or no display.
    """

    def __init__(self, title: str) -> None:
        self.pygame = load()
        try:
            with _silenced():
                self.pygame.display.init()
                driver = self.pygame.display.get_driver()
                if driver in UNSEEN and not os.environ.get("SDL_VIDEODRIVER"):  # SDL takes one that shows nothing
                    raise self.pygame.error(f"nothing but SDL's {driver!r}")
                self.pygame.font.init()
                self.screen = self.pygame.display.set_mode((SIZE[0], SIZE[1] + LIST))
        except self.pygame.error as error:
            self.pygame.quit()
            raise UsageError(f"there is no display here ({one_line(str(error))}); pass --browser") from None
        self.pygame.display.set_caption(title)
        self.font = self.pygame.font.Font(None, 24)
        self.clock = self.pygame.time.Clock()

    def close(self) -> None:
        """Lets go of it."""
        self.pygame.quit()

    def show(self, picture: Picture, lines: list[str], chosen: int = -1) -> None:
        """Shows a picture, and lines below it, of which one may be chosen."""
        surface = self.pygame.image.frombuffer(np.ascontiguousarray(picture).tobytes(), picture.shape[1::-1], "RGB")
        scale = min(SIZE[0] / picture.shape[1], SIZE[1] / picture.shape[0])
        if picture.shape[:2] != SIZE[::-1]:
            wanted = (int(picture.shape[1] * scale), int(picture.shape[0] * scale))
            surface = self.pygame.transform.smoothscale(surface, wanted)
        self.screen.fill(INK)
        self.screen.blit(surface, ((SIZE[0] - surface.get_width()) // 2, 0))
        rows = (LIST - 16) // LINE
        first = max(0, (chosen // rows) * rows) if chosen >= 0 else 0
        for i, line in enumerate(lines[first : first + rows]):
            place = (12, SIZE[1] + 8 + i * LINE)
            if first + i == chosen:
                self.pygame.draw.rect(self.screen, CHOSEN, (4, place[1] - 3, SIZE[0] - 8, LINE))
            self.screen.blit(self.font.render(line, True, PAPER if first + i == chosen else DIM), place)
        self.pygame.display.flip()


def play(table: Table) -> bool:
    """Plays the match; whether it has come to its end, and was not broken off by closing the window.

    Raises:
        UsageError: there is no pygame or no display.
    """
    window = Window(" against ".join(one_line(name) for name in table.names))
    try:
        is_whole = _live(window, table) if table.is_live else _choosing(window, table)
        if is_whole:
            _wait(window, END_SECONDS)
        return is_whole
    finally:
        window.close()


def _picture(table: Table, frame: Drawing | Picture | str, before: Drawing | None, share: float) -> Picture:
    if isinstance(frame, Drawing):
        shown = frame if before is None else raster.between(before, frame, min(1.0, share))
        return raster.picture(shown, SIZE, names=table.names)
    return raster.words(frame, SIZE) if isinstance(frame, str) else frame


def _live(window: Window, table: Table) -> bool:
    """Keys that are held, at the game's own pace."""
    pygame, board = window.pygame, table.keyboard()
    codes = {key: pygame.key.key_code(NAMES.get(on, on)) for key, on in board.items() if on}
    lines = [
        "   ".join(f"{NAMES.get(on, on)}: {key}" for key, on in board.items() if on),
        "Escape breaks the match off",
    ]
    before, begun = None, time.monotonic()
    while not table.is_over:
        for event in pygame.event.get():
            if event.type == pygame.QUIT or (event.type == pygame.KEYDOWN and event.key == pygame.K_ESCAPE):
                return False
        passed = (time.monotonic() - begun) / table.seconds
        if passed >= 1:
            held = pygame.key.get_pressed()
            before = table.frame if isinstance(table.frame, Drawing) else None
            table.step([int(key in codes and bool(held[codes[key]])) for key in table.keys])
            begun = max(begun + table.seconds, time.monotonic() - table.seconds)
            passed = 0.0
        window.show(_picture(table, table.frame, before, passed), lines)
        window.clock.tick(RATE)
    return True


def _choosing(window: Window, table: Table) -> bool:
    """Actions chosen from a list, each as long as it takes."""
    pygame = window.pygame
    for frame in table.go_on():
        window.show(_picture(table, frame, None, 0), [])
    while not table.is_over:
        choices, chosen = table.choices(), 0
        taken = not choices
        while not taken:
            for event in pygame.event.get():
                if event.type == pygame.QUIT or (event.type == pygame.KEYDOWN and event.key == pygame.K_ESCAPE):
                    return False
                if event.type == pygame.KEYDOWN and event.key in (pygame.K_UP, pygame.K_DOWN):
                    chosen = (chosen + (1 if event.key == pygame.K_DOWN else -1)) % len(choices)
                elif event.type == pygame.KEYDOWN and event.key in (pygame.K_RETURN, pygame.K_SPACE):
                    taken = True
                elif event.type == pygame.MOUSEBUTTONDOWN and event.pos[1] > SIZE[1]:
                    rows = (LIST - 16) // LINE
                    clicked = (chosen // rows) * rows + math.floor((event.pos[1] - SIZE[1] - 8) / LINE)
                    if 0 <= clicked < len(choices):
                        chosen, taken = clicked, True
            window.show(_picture(table, table.frame, None, 0), [words for words, _ in choices], chosen)
            window.clock.tick(RATE)
        table.step(choices[chosen][1] if choices else None)
        for frame in table.go_on():
            window.show(_picture(table, frame, None, 0), [])
            time.sleep(min(0.6, table.seconds))
    return True


def _wait(window: Window, seconds: float) -> None:
    """Until a key is pressed, the window is closed, or the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if any(event.type in (window.pygame.QUIT, window.pygame.KEYDOWN) for event in window.pygame.event.get()):
            return
        window.clock.tick(RATE)
