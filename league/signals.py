"""How a command ends when it is told to: Ctrl+C (SIGINT), SIGTERM, or the terminal that goes away (SIGHUP)."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
SHOW_CURSOR = b"\x1b[?25h\r\n"
"""A progress bar hides it."""


class Interrupted(BaseException):
    """A signal told the command to end. No KeyboardInterrupt, of which Typer would make an exit code of 1."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def on_signal(first: Callable[[int], None]) -> Iterator[list[int]]:
    """Within it, the first ending signal calls `first` with its number; a second one ends the process at once.

    A signal that the process was started to ignore, as `nohup` and a script's `&` do, stays ignored. Outside the main
    thread, where Python takes no handlers, nothing changes.

    Yields:
        The signals received so far.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    terminals = [fd for fd in (1, 2) if _is_terminal(fd)]

    def handle(number: int, frame: FrameType | None) -> None:
        if received:
            if 2 in terminals:
                os.write(2, SHOW_CURSOR)
            os._exit(128 + number)
        received.append(number)
        if number == getattr(signal, "SIGHUP", None):
            _leave(terminals)
        first(number)

    wanted = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, handle) for number in wanted}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def interrupt(number: int) -> None:
    """For `on_signal`: breaks off whatever runs.

    Raises:
        Interrupted: always.
    """
    raise Interrupted(number)


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False


def _leave(terminals: list[int]) -> None:
    """Sends to nowhere what would go to a terminal that is gone, where writing fails."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for fd in terminals:
        os.dup2(nowhere, fd)
    terminals.clear()
    os.close(nowhere)
