"""The process: how a command ends when a signal tells it to (SIGINT of Ctrl+C, SIGTERM, SIGHUP of a terminal that goes
away), how it starts another Python process, and how its settings outlive code of users that changes them."""

from __future__ import annotations

import builtins
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

from league.errors import CodeError, Interrupted, LeagueError, described, is_users, users_line

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
SHOW_CURSOR = b"\x1b[?25h\r\n"
"""A progress bar hides it."""
BROKEN_OFF = "interrupted; what was stored before is kept"
_innermost: list[int] = []
"""The signals that the innermost `on_signal` has received."""
PLACES = ("path", "meta_path", "path_hooks")
"""Of `sys`, where modules are looked for."""
OF_SYS = ("argv", "stdin", "stdout", "stderr", "excepthook", "unraisablehook", "displayhook")
NEEDED = {
    *("sys.setrecursionlimit", "sys.modules", *(f"sys.{name}" for name in PLACES), "the working folder"),
    *("torch.set_default_dtype", "torch.set_default_device"),
}
"""What all Python code relies on, and league never sets; as the built-in functions."""
_MODULES, _BUILTINS = sys.modules, vars(builtins)
_HANDLED = (*ENDING, *(getattr(signal, name) for name in ("SIGPIPE", "SIGCHLD") if hasattr(signal, name)))


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

    These are those of `StepKept` and of `sys`, the handlers of signals, the environment, the locale, warnings, and
    NumPy's errors. What code adds to where modules are looked for stays. Takes some 0.3 ms.

    Raises:
        CodeError: an error that arose in no code of a user, though such code changed what all Python code needs.
    """
    before = [(name, get, get(), put_back) for name, get, put_back in _settings()]
    try:
        with StepKept():
            yield
    except BaseException as error:
        _blame(_put_back(before), error)
        raise
    else:
        _put_back(before)


def _put_back(before: list[tuple[str, Callable[[], Any], Any, Callable[[Any], object]]]) -> list[str]:
    """Puts back what has changed; returns its names."""
    return [name for name, get, then, put_back in before if get() != then and put_back(then) is not False]


def _blame(changed: list[str], error: BaseException) -> None:
    """Raises a `CodeError` where an error that is nobody's follows from what code of users has changed."""
    changed = [name for name in changed if name in NEEDED or name.startswith("builtins.")]
    if changed and not isinstance(error, LeagueError) and not users_line(error):
        what = " and ".join(changed)
        raise CodeError(f"your code changed {what}, after which {described(error)}; leave {what} as it is") from error


def _settings() -> list[tuple[str, Callable[[], Any], Callable[[Any], object]]]:
    """The name of each of these settings, what gives it, and what sets it."""
    found: list[tuple[str, Callable[[], Any], Callable[[Any], object]]] = [
        ("sys.modules", _MODULES.copy, _set_modules),
        *((f"sys.{name}", partial(_of, sys, name), partial(_add, name)) for name in PLACES),
        *((f"sys.{name}", partial(_of, sys, name), partial(setattr, sys, name)) for name in OF_SYS),
        ("threading.excepthook", partial(_of, threading, "excepthook"), partial(setattr, threading, "excepthook")),
        ("sys.setswitchinterval", sys.getswitchinterval, sys.setswitchinterval),
        ("os.umask", _umask, os.umask),
        ("os.environ", lambda: dict(os.environ), _set_environment),
        ("locale", partial(locale.setlocale, locale.LC_ALL), partial(locale.setlocale, locale.LC_ALL)),
        ("warnings.filters", lambda: list(warnings.filters), _set_filters),
    ]
    numpy: Any = sys.modules.get("numpy")
    if hasattr(numpy, "geterr"):  # it may be half imported
        found.append(("numpy.seterr", numpy.geterr, lambda kinds: numpy.seterr(**kinds)))
    if threading.current_thread() is threading.main_thread():
        found += [(number.name, partial(signal.getsignal, number), partial(_handle, number)) for number in _HANDLED]
    return found


class StepKept:
    """The same around one step of play: the working folder, built-in functions, the recursion limit, and torch's
    default type and device, threads, gradients and products. Takes some 10 microseconds.

    A process that code of a user has forked ends here: it would go on with the run as the first one does.

    Raises:
        CodeError: as of `settings_kept`; and torch's inference mode was entered and not left.
    """

    __slots__ = ("_before", "_builtins", "_limit", "_process", "_torch")

    def __enter__(self) -> None:
        torch: Any = _MODULES.get("torch")
        self._torch = torch if hasattr(torch, "set_float32_matmul_precision") else None
        self._process, self._limit, self._builtins = os.getpid(), sys.getrecursionlimit(), _BUILTINS.copy()
        self._before = self._now()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if os.getpid() != self._process:
            os._exit(0)
        changed = []
        if sys.modules is not _MODULES:
            sys.modules = _MODULES
            changed.append("sys.modules")
        if sys.getrecursionlimit() != self._limit:  # first: calls may need it
            sys.setrecursionlimit(self._limit)
            changed.append("sys.setrecursionlimit")
        if self._builtins != _BUILTINS:
            changed += [f"builtins.{x}" for x, then in self._builtins.items() if _BUILTINS.get(x) is not then]
            _BUILTINS.update(self._builtins)
        if (now := self._now()) != self._before:
            for (name, put_back), then, is_now in zip(self._changes(), self._before, now, strict=True):
                if then != is_now:
                    put_back(then)
                    changed.append(name)
        if error is not None and changed:
            _blame(changed, error)

    def _changes(self) -> list[tuple[str, Callable[[Any], object]]]:
        """The names of `_now`, and what sets each."""
        torch = self._torch
        changes: list[tuple[str, Callable[[Any], object]]] = [("the working folder", _set_folder)]
        if torch is not None:
            names = ("default_dtype", "default_device", "num_threads", "grad_enabled", "float32_matmul_precision")
            changes += [(f"torch.set_{name}", getattr(torch, f"set_{name}")) for name in names]
            changes.append(("torch.use_deterministic_algorithms", torch.use_deterministic_algorithms))
            changes.append(("torch.inference_mode", _refuse_inference))
        return changes

    def _now(self) -> tuple[Any, ...]:
        torch = self._torch
        if torch is None:
            return (_folder(),)
        return (
            _folder(),
            torch.get_default_dtype(),
            getattr(_MODULES.get("torch.utils._device"), "CURRENT_DEVICE", None),  # its getter makes a tensor
            torch.get_num_threads(),
            torch.is_grad_enabled(),
            torch.get_float32_matmul_precision(),
            torch.are_deterministic_algorithms_enabled(),
            torch.is_inference_mode_enabled(),
        )


def _refuse_inference(then: bool) -> None:
    """Nothing but who has entered torch's inference mode can leave it."""
    raise CodeError(
        "your code entered torch.inference_mode and did not leave it; use it as `with torch.inference_mode()`"
    )


def _of(module: Any, name: str) -> Any:
    value = getattr(module, name, None)
    return list(value) if isinstance(value, list) else value


def _add(name: str, places: list[Any]) -> bool:
    """Puts back what of `places` a list of `sys` lacks, before what was added; returns whether it lacked some."""
    now = _of(sys, name)
    now = now if isinstance(now, list) else []
    if all(place in now for place in places):
        return False
    setattr(sys, name, [*places, *(place for place in now if place not in places)])
    return True


def _set_modules(modules: dict[str, Any]) -> bool:
    """Puts back modules that were loaded, but for users' own; returns whether there are such."""
    lost = {name: module for name, module in modules.items() if _MODULES.get(name) is not module}
    lost = {name: module for name, module in lost.items() if not is_users(name, getattr(module, "__file__", "") or "")}
    sys.modules = _MODULES
    _MODULES.update(lost)
    return bool(lost)


def _umask() -> int:
    mask = os.umask(0o077)  # the system tells it only as it changes
    os.umask(mask)
    return mask


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""


def _set_folder(folder: str) -> None:
    if folder:
        os.chdir(folder)


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

    The current folder comes last there: a file of it that is called `json.py` or `league.py` hides no other module.
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
