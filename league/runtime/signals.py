"""How a command ends when a signal tells it to: SIGINT of Ctrl+C, SIGTERM, SIGHUP of a terminal that goes away."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from types import FrameType
from typing import Any

from league.errors import Interrupted, users_line

END_SECONDS = 30.0
"""For threads and processes that go on after a command's end."""
MOST_NAMED = 3
"""Settings that an error names."""
ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_NOT_KILLING = "INT TERM HUP KILL STOP QUIT CHLD CONT URG WINCH TSTP TTIN TTOU SEGV BUS FPE ILL ABRT"
KILLING = signal.valid_signals() - {getattr(signal, f"SIG{name}", 0) for name in _NOT_KILLING.split()}
"""Those of timers, limits and code of a user; one that nothing handles would kill, and is taken for an ending one."""
SHOW_CURSOR = b"\x1b[?25h\r\n"
"""A progress bar hides it."""
_innermost: list[int] = []
"""The signals that the innermost `on_signal` has received."""


def received() -> tuple[int, ...]:
    """The signals that the innermost `on_signal` has received; none outside of all."""
    return tuple(_innermost)


@contextmanager
def on_signal(first: Callable[[int], None]) -> Iterator[list[int]]:
    """Within it, the first ending signal calls `first` with its number; a second one ends the process at once.

    A signal that the process was started to ignore, as `nohup` and a script's `&` do, stays ignored. Outside the main
    thread, where Python takes no handlers, nothing changes. Within another one, what that has received counts: an error
    that its `first` raised may have been swallowed, as by a library that was just being loaded.

    Yields:
        The signals received so far.
    """
    global _innermost
    outer = _innermost
    received = list(outer)
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    terminals = [fd for fd in (1, 2) if _is_terminal(fd)]
    _note_forks()

    def handle(number: int, frame: FrameType | None) -> None:
        if received and number not in ENDING:
            return  # code of a user may send one in each step
        if received:
            if 2 in terminals:
                os.write(2, SHOW_CURSOR)
            os._exit(128 + number)
        received.append(number)
        if number == getattr(signal, "SIGHUP", None):
            _leave(terminals)
        first(number)

    wanted = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    wanted += [number for number in KILLING if signal.getsignal(number) is signal.SIG_DFL]
    previous = {number: signal.signal(number, handle) for number in wanted}
    _innermost = received
    try:
        yield received
    finally:
        _innermost = outer
        for number, handler in previous.items():
            signal.signal(number, handler)


@cache
def _note_forks() -> None:
    """From now on a signal ends a process that code forks, as `multiprocessing` does, even as it begins."""
    masks: list[Any] = []

    def begin() -> None:
        for number in (*ENDING, *KILLING):
            if getattr(signal.getsignal(number), "__module__", "") == __name__:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.pop())

    os.register_at_fork(
        before=lambda: masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)),
        after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, masks.pop()),
        after_in_child=begin,
    )


@contextmanager
def put_off() -> Iterator[None]:
    """Within it the first ending signal waits for the end, and then does what it would have done.

    So what belongs together, as a batch of matches in the store and in the count, is there whole or not at all. A
    second signal ends the process at once. One that came before, and whose error was swallowed, counts like one that
    comes now.
    """
    with on_signal(lambda number: None) as received:
        yield
    if received:
        _innermost.clear()
        signal.raise_signal(received[0])


def broken_off(number: int, error: BaseException | None = None) -> str:
    """What is said of a command that a signal has broken off, with the line of a user's code at which it arrived."""
    where = users_line(error) if error is not None and number not in ENDING else ""
    by = "" if number in ENDING else f" by signal {number}, {signal.strsignal(number)}{where and f', at {where}'}"
    return f"interrupted{by}; what was stored before is kept"


def interrupt(number: int) -> None:
    """For `on_signal`: interrupts the running command.

    While a module is being imported, which is before a command's work, the process ends: compiled libraries that meet
    an error as they load may lose it, or abort.

    Raises:
        Interrupted: otherwise.
    """
    frame = sys._getframe()
    while frame := frame.f_back:  # type: ignore[assignment]  # None ends it
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os.write(2, f"{broken_off(number)}\n".encode())
            os._exit(128 + number)
    raise Interrupted(number)


def end_soon(code: int, say: Callable[[str], None]) -> None:
    """Ends a process that is over, with its exit code, where threads or processes that code started do not let it.

    say: receives a line about them.
    """

    def end() -> None:
        time.sleep(END_SECONDS)
        main = threading.main_thread()
        pool: Any = sys.modules.get("multiprocessing")
        children = pool.active_children() if hasattr(pool, "active_children") else []
        kept = [x.name for x in (*(x for x in threading.enumerate() if not x.daemon and x is not main), *children)]
        if kept and not main.is_alive():  # Python waits for them
            say(
                f"your code left {' and '.join(kept[:MOST_NAMED])} running, which the command ends; end it in your code"
            )
            for child in children:
                child.kill()
            os._exit(code)

    with suppress(RuntimeError):  # the system makes no more threads
        threading.Thread(target=end, daemon=True).start()


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
