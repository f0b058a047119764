"""The process: how a command ends when a signal tells it to (SIGINT of Ctrl+C, SIGTERM, SIGHUP of a terminal that goes
away), how it starts another Python process, and how its settings outlive code of users that changes them."""

from __future__ import annotations

import locale
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
SHOW_CURSOR = b"\x1b[?25h\r\n"
"""A progress bar hides it."""
BROKEN_OFF = "interrupted; what was stored before is kept"
_innermost: list[int] = []
"""The signals that the innermost `on_signal` has received."""


class Interrupted(BaseException):
    """A signal told the command to end. No KeyboardInterrupt, of which Typer would make an exit code of 1."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


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
    _innermost = received
    try:
        yield received
    finally:
        _innermost = outer
        for number, handler in previous.items():
            signal.signal(number, handler)


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


def interrupt(number: int) -> None:
    """For `on_signal`: breaks off whatever runs.

    While a module is being imported, which is before a command's work, the process ends: compiled libraries that meet
    an error as they load may lose it, or abort.

    Raises:
        Interrupted: otherwise.
    """
    frame = sys._getframe()
    while frame := frame.f_back:  # type: ignore[assignment]  # None ends it
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os.write(2, f"{BROKEN_OFF}\n".encode())
            os._exit(128 + number)
    raise Interrupted(number)


@contextmanager
def settings_kept() -> Iterator[None]:
    """Within it code of users may change settings of the process; at its end they are as they were.

    These are those of `StepKept` and the handlers of ending signals, stdout and stderr, the environment, the locale,
    warnings, and NumPy's errors. Takes some 0.1 ms.
    """
    before = [(get, get(), put_back) for get, put_back in _settings()]
    try:
        with StepKept():
            yield
    finally:
        for get, then, put_back in before:
            if get() != then:
                put_back(then)


def _settings() -> list[tuple[Callable[[], Any], Callable[[Any], object]]]:
    """What gives each of these settings, and what sets it."""
    found: list[tuple[Callable[[], Any], Callable[[Any], object]]] = [
        (lambda: (sys.stdout, sys.stderr), _set_streams),
        (lambda: dict(os.environ), _set_environment),
        (partial(locale.setlocale, locale.LC_ALL), partial(locale.setlocale, locale.LC_ALL)),
        (lambda: list(warnings.filters), _set_filters),
    ]
    numpy: Any = sys.modules.get("numpy")
    if hasattr(numpy, "geterr"):  # it may be half imported
        found.append((numpy.geterr, lambda kinds: numpy.seterr(**kinds)))
    if threading.current_thread() is threading.main_thread():
        found += [(partial(signal.getsignal, number), partial(_handle, number)) for number in ENDING]
    return found


class StepKept:
    """The same around one step of play: the working folder, and torch's default type and device, threads, gradients and
    products. Takes a few microseconds."""

    __slots__ = ("_before", "_torch")

    def __enter__(self) -> None:
        torch: Any = sys.modules.get("torch")
        self._torch = torch if hasattr(torch, "set_float32_matmul_precision") else None
        self._before = self._now()

    def __exit__(self, *error: object) -> None:
        if (now := self._now()) == self._before:
            return
        torch = self._torch
        changes: list[Callable[[Any], object]] = [_set_folder]
        if torch is not None:
            changes += [torch.set_default_dtype, torch.set_default_device, torch.set_num_threads]
            changes += [torch.set_grad_enabled, torch.set_float32_matmul_precision, torch.use_deterministic_algorithms]
        for change, then, is_now in zip(changes, self._before, now, strict=True):
            if then != is_now:
                change(then)

    def _now(self) -> tuple[Any, ...]:
        torch = self._torch
        if torch is None:
            return (_folder(),)
        return (
            _folder(),
            torch.get_default_dtype(),
            getattr(sys.modules.get("torch.utils._device"), "CURRENT_DEVICE", None),  # its getter makes a tensor
            torch.get_num_threads(),
            torch.is_grad_enabled(),
            torch.get_float32_matmul_precision(),
            torch.are_deterministic_algorithms_enabled(),
        )


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""


def _set_folder(folder: str) -> None:
    if folder:
        os.chdir(folder)


def _set_streams(streams: tuple[Any, Any]) -> None:
    sys.stdout, sys.stderr = streams


def _set_environment(values: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(values)


def _set_filters(filters: list[Any]) -> None:
    warnings.resetwarnings()
    warnings.filters[:] = filters  # type: ignore[index]  # it is a list


def _handle(number: int, handler: Any) -> None:
    if handler is not None:  # None: set by other than Python code
        signal.signal(number, handler)


def python(code: str, *words: object) -> list[str]:
    """The command line of another Python, which runs `code`; its imports find what those of this process find.

    The current folder comes last there: a file `json.py` or `league.py` in it hides no other module.
    The path is set before `code` imports anything.

    words: what `sys.argv[1:]` is in it.
    """
    home = str(Path(sys.modules["league"].__path__[0]).parent)
    given = [str(place) for place in sys.path]
    here = [place for place in given if place != home and _is_current(place)]
    places = [*(place for place in given if place not in here), *([] if home in given else [home])]
    if here:
        places.append(os.getcwd())
    return [sys.executable, "-P", "-c", f"import sys; sys.path[:] = {places!r}\n{code}", *map(str, words)]


def _is_current(place: str) -> bool:
    return not place or os.path.realpath(place) == os.path.realpath(os.curdir)


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
