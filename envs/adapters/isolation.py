"""A library's game apart from the process it runs in: what it prints, and what it draws from global generators."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import random
import sys
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.random import mtrand

from league.errors import UsageError, quoted

SHOWS = "LEAGUE_GAME_OUTPUT"
"""The variable of the environment that lets games of libraries print: `on`."""


def is_shown() -> bool:
    """Whether what games print is to be seen.

    Raises:
        UsageError: the variable is neither `on` nor `off`.
    """
    setting = os.environ.get(SHOWS, "")
    if setting not in ("", "on", "off"):
        raise UsageError(f"{SHOWS}={quoted(setting)}: must be on or off; unset it to see nothing")
    return setting == "on"


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Within it nothing reaches stdout and stderr, from C neither: for opening games, not for every step."""
    if is_shown():
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    kept, nowhere, me = {}, os.open(os.devnull, os.O_WRONLY), threading.get_ident()
    hooks = sys.unraisablehook, threading.excepthook
    sys.unraisablehook, threading.excepthook = lambda found: None, lambda found: None
    for stream in (1, 2):
        with contextlib.suppress(OSError):  # code of a user has closed it
            kept[stream] = os.dup(stream)
        os.dup2(nowhere, stream)
    try:
        with contextlib.redirect_stdout(_nowhere(sys.stdout, me)), contextlib.redirect_stderr(_nowhere(sys.stderr, me)):
            yield
    finally:
        sys.unraisablehook, threading.excepthook = hooks
        for stream, copy in kept.items():
            os.dup2(copy, stream)
            os.close(copy)
        os.close(nowhere)


class Drawn(NamedTuple):
    """Which global generators a game draws from."""

    random: bool
    """`random` of the standard library."""
    numpy: bool
    """The functions of `numpy.random`."""


BOTH = Drawn(random=True, numpy=True)


class Apart:
    """A context for calls of one copy of a game: its own global generators, and nothing that it prints is seen.

    Args:
        drawn: the global generators that it is given of its own; looking after one costs some microseconds a call.
    """

    def __init__(self, drawn: Drawn) -> None:
        self._drawn, self._shown = drawn, is_shown()
        self._random: Any = None
        self._bits: np.random.BitGenerator = np.random.MT19937(0)
        self._seeded: tuple[Any, Any] = (None, None)
        self._outer: list[Any] = []
        self.seed(0)

    def seed(self, seed: int) -> None:
        """Seeds the generators of its own."""
        if self._drawn.random:
            self._random = random.Random(seed).getstate()
        if self._drawn.numpy:
            self._bits = np.random.MT19937(seed)

    def drawn_since(self, seed: int) -> Drawn:
        """Which of the generators have been drawn from, or seeded otherwise, since `seed(seed)`."""
        fresh: Any = np.random.MT19937(seed).state
        now: Any = self._bits.state
        has_moved = now["state"]["pos"] != fresh["state"]["pos"] or (now["state"]["key"] != fresh["state"]["key"]).any()
        return Drawn(self._random != random.Random(seed).getstate(), bool(has_moved))

    def __enter__(self) -> None:
        outer: list[Any] = []
        if not self._shown:
            outer += [sys.stdout, sys.stderr]
            sys.stdout, sys.stderr = (_nowhere(stream, threading.get_ident()) for stream in outer)
        if self._drawn.random:
            outer.append(random.getstate())
            random.setstate(self._random)
        if self._drawn.numpy:
            outer += [np.random.get_state(legacy=False), mtrand.get_bit_generator()]
            mtrand.set_bit_generator(self._bits)
        self._outer = outer

    def __exit__(self, *raised: object) -> None:
        outer, self._outer = self._outer, []
        if self._drawn.numpy:
            self._bits = mtrand.get_bit_generator()
            mtrand.set_bit_generator(outer.pop())
            state = outer.pop()
            if state["has_gauss"]:  # which the exchange forgets
                np.random.set_state(state)
        if self._drawn.random:
            self._random = random.getstate()
            random.setstate(outer.pop())
        if not self._shown:
            sys.stderr, sys.stdout = outer.pop(), outer.pop()


class _Nowhere(io.TextIOBase):
    """A stream that swallows what this thread writes; other threads write as ever."""

    def __init__(self, stream: TextIO, thread: int) -> None:
        self._stream, self._thread = stream, thread

    def write(self, text: str) -> int:
        return len(text) if threading.get_ident() == self._thread else self._stream.write(text)

    def flush(self) -> None:
        if threading.get_ident() != self._thread:
            self._stream.flush()


_nowhere: Any = functools.cache(_Nowhere)
"""One for each stream and thread, kept: Python crashes where a stream goes that a thread's `print` still writes to."""
