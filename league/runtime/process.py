"""Settings of the process, which outlive code of users that changes them."""

from __future__ import annotations

import builtins
import gc
import locale
import logging
import os
import random
import resource
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from os import chdir, getcwd, getpid  # those of before code of users runs
from typing import Any

from league.errors import CodeError, LeagueError, as_users, described, is_users, users_line
from league.runtime.functions import changed_error, note_functions

Setting = tuple[str, Callable[[], Any], Callable[[Any], object]]
"""The name of a setting of the process, what gives it, and what sets it, which returns False where all was well."""
ATTRIBUTES = {
    "sys": (
        *("argv", "unraisablehook", "displayhook", "breakpointhook", "platform", "executable", "version_info"),
        *("maxsize", "byteorder", "dont_write_bytecode", "pycache_prefix"),
    ),
    "asyncio.events": ("_event_loop_policy",),
    "os": ("path", "name", "sep", "linesep", "pathsep", "altsep", "curdir", "devnull"),
    "torch.backends.mkldnn": ("enabled",),
    "torch.backends.cudnn": ("enabled", "deterministic", "benchmark"),
}
"""Of a module what is compared and put back as it is."""
FUNCTIONS = (
    *(("sys", f"get{name}", f"set{name}") for name in ("trace", "profile", "_int_max_str_digits", "switchinterval")),
    *(("threading", f"get{name}", f"set{name}") for name in ("trace", "profile")),
    ("threading", "stack_size", "stack_size"),
    ("socket", "getdefaulttimeout", "setdefaulttimeout"),
    ("torch", "is_anomaly_enabled", "set_anomaly_enabled"),
)
"""Of a module what gives a setting, and what sets it."""
STREAMS = ("stdin", "stdout", "stderr")
NEEDED = {
    *("sys.setrecursionlimit", "sys.modules", "sys.path, its finders or hooks", "the working folder"),
    *("torch.set_default_dtype", "torch.set_default_device", *(f"os.{name}" for name in ATTRIBUTES["os"])),
}
"""What all Python code relies on, and league never sets; as the built-in functions."""
_LIMITS = (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_AS)
_OTHER_LIMITS = tuple(getattr(resource, name) for name in dir(resource) if name[:7] == "RLIMIT_")
_MODULES, _BUILTINS, _ENVIRON = sys.modules, vars(builtins), os.environ
_loaded: dict[str, Any] = {}
"""The modules that were loaded before the last step that had others."""
_HANDLED = tuple(number for number in signal.Signals if number not in (signal.SIGKILL, signal.SIGSTOP))


@contextmanager
def settings_kept() -> Iterator[None]:
    """Within it code of users may change settings of the process; at its end they are as before.

    These are those of `StepKept`, `ATTRIBUTES`, the streams and the descriptors 0 to 2, the handlers of signals, the
    environment, the locale, warnings, NumPy's errors and the garbage collector. What code adds to where modules are
    looked for stays. Takes some 0.4 ms.

    Raises:
        CodeError: an error that arose in no code of a user, though such code changed what all Python code needs.
    """
    if len(_MODULES) != len(_loaded):
        note_functions()
    before = [(setting, setting[1]()) for setting in _settings()]
    try:
        with _descriptors_kept(), StepKept():
            yield
    except BaseException as error:
        _blame(_put_back(before), error)
        raise
    else:
        _put_back(before)


def draws() -> list[tuple[Callable[[Any], object], Any]]:
    """Of each global generator of Python, NumPy and torch's CPU what sets its state, and that state."""
    numpy: Any = _MODULES.get("numpy")
    torch: Any = _MODULES.get("torch")
    states: list[tuple[Callable[[Any], object], Any]] = [(random.setstate, random.getstate())]
    if hasattr(numpy, "random"):  # it may be half imported
        states.append((numpy.random.set_state, numpy.random.get_state()))
    if hasattr(torch, "set_rng_state"):
        states.append((torch.set_rng_state, torch.get_rng_state()))
    return states


@contextmanager
def draws_kept() -> Iterator[None]:
    """Within it code may seed the global generators of `draws`, which are as before at its end.

    A GPU's are kept where torch uses one already.
    """
    torch: Any = _MODULES.get("torch")
    states = draws()
    if hasattr(torch, "cuda") and torch.cuda.is_initialized():
        states.append((torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all()))
    try:
        yield
    finally:
        for put_back, state in states:
            put_back(state)


@contextmanager
def _descriptors_kept() -> Iterator[None]:
    """What code does to the files behind stdin, stdout and stderr, or to the streams over them, is undone."""
    copies = {}
    for number in range(3):
        with suppress(OSError):  # it is closed, or there is no room
            copies[number] = os.dup(number)
    try:
        yield
    finally:
        for number, copy in copies.items():
            with suppress(OSError):
                if not _is_file(number, os.fstat(copy)):
                    os.dup2(copy, number)
                os.close(copy)


def _is_file(number: int, file: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.fstat(number), file)
    except OSError:
        return False


def _put_back(before: Iterable[tuple[Setting, Any]]) -> list[str]:
    """Puts back what has changed; returns its names."""
    return [name for (name, get, put_back), then in before if get() != then and put_back(then) is not False]


def _blame(changed: list[str], error: BaseException) -> None:
    """Raises a `CodeError` where an error that is nobody's follows from what code of users has changed."""
    changed = [name for name in changed if name in NEEDED or name.startswith("builtins.")]
    if changed and not isinstance(error, LeagueError) and not users_line(error):
        raise changed_error(changed, error) from error


def _settings() -> list[Setting]:
    """The name of each of these settings, what gives it, and what sets it."""
    found: list[Setting] = [
        ("sys.modules", _MODULES.copy, _set_modules),
        *_attributes(),
        *((f"sys.{name}", partial(_stream, name), partial(_set_stream, name)) for name in STREAMS),
        *(
            (f"{place}.{put}", getattr(module, get), getattr(module, put))
            for place, get, put in FUNCTIONS
            if hasattr(module := _MODULES.get(place), get) and hasattr(module, put)  # it may be half imported
        ),
        ("logging.disable", lambda: logging.root.manager.disable, logging.disable),
        ("os.umask", _umask, os.umask),
        ("os.environ", lambda: (os.environ, dict(_ENVIRON)), _set_environment),
        ("locale", partial(locale.setlocale, locale.LC_ALL), partial(locale.setlocale, locale.LC_ALL)),
        ("warnings.filters", lambda: list(warnings.filters), _set_filters),
        ("gc", lambda: (gc.isenabled(), gc.get_threshold(), gc.get_debug(), [*gc.callbacks]), _set_collector),
        ("signal.pthread_sigmask", partial(signal.pthread_sigmask, signal.SIG_BLOCK, ()), _set_mask),
    ]
    numpy: Any = _MODULES.get("numpy")
    if hasattr(numpy, "geterr"):  # it may be half imported
        found.append(("numpy.seterr", numpy.geterr, lambda kinds: numpy.seterr(**kinds)))
        shown = lambda options: numpy.set_printoptions(**options)  # noqa: E731
        found.append(("numpy.set_printoptions", numpy.get_printoptions, shown))
    pool: Any = _MODULES.get("multiprocessing")
    if hasattr(pool, "set_start_method"):
        ways = partial(pool.get_start_method, allow_none=True), partial(pool.set_start_method, force=True)
        found.append(("multiprocessing.set_start_method", *ways))
    decimal: Any = _MODULES.get("decimal")
    if hasattr(decimal, "setcontext"):
        context = lambda: decimal.getcontext().__reduce__(), lambda then: decimal.setcontext(then[0](*then[1]))
        found.append(("decimal.setcontext", *context))
    if threading.current_thread() is threading.main_thread():
        found.append(("signal.signal", lambda: [*map(signal.getsignal, _HANDLED)], _set_handlers))
        found.append(("signal.set_wakeup_fd", _wakeup, signal.set_wakeup_fd))
    found.append(("limits", partial(_limits, _OTHER_LIMITS), partial(_set_limits, _OTHER_LIMITS)))  # it may raise
    return found


class StepKept:
    """The same around one step of play: the working folder, built-in functions, alarms, limits of recursion and of the
    system, where modules are looked for, those that are loaded, and torch's default type and device, threads,
    gradients, products and modes. Takes some 10 microseconds.

    A process that code of a user has forked ends here: it would go on with the run as the first one does.

    Raises:
        CodeError: as of `settings_kept`; and a mode of torch was entered and not left.
    """

    __slots__ = ("_before", "_builtins", "_limit", "_process", "_settings")

    def __enter__(self) -> None:
        self._process, self._limit, self._builtins = getpid(), sys.getrecursionlimit(), _BUILTINS.copy()
        if len(_loaded) != len(_MODULES):
            _loaded.clear()
            _loaded.update(_MODULES)
        with_torch = hasattr(_MODULES.get("torch"), "set_float32_matmul_precision")  # or it is half imported
        self._settings = _of_a_step(with_torch)
        self._before = [get() for _, get, _ in self._settings]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if getpid() != self._process:
            if isinstance(error, Exception):
                print("a process that your code forked:", as_users(error) or described(error), file=sys.stderr)
            os._exit(error is not None)
        changed = []
        if sys.getrecursionlimit() != self._limit:  # first: calls may need it
            sys.setrecursionlimit(self._limit)
            changed.append("sys.setrecursionlimit")
        if self._builtins != _BUILTINS:
            changed += [f"builtins.{x}" for x, then in self._builtins.items() if _BUILTINS.get(x) is not then]
            _BUILTINS.update(self._builtins)
        if getattr(sys, "modules", None) is not _MODULES:
            sys.modules = _MODULES
            changed.append("sys.modules")
        if len(_MODULES) < len(_loaded) and _set_modules(_loaded):
            changed.append("sys.modules")
        if [get() for _, get, _ in self._settings] != self._before:
            changed += _put_back(zip(self._settings, self._before, strict=True))
        if error is not None and changed:
            _blame(changed, error)


@cache
def _of_a_step(with_torch: bool) -> list[Setting]:
    """The settings that `StepKept` compares, but for those of Python itself."""
    found: list[Setting] = [("the working folder", _folder, _set_folder)]
    found.append(("signal.alarm", _has_alarm, _set_alarm))
    found += [("sys.path, its finders or hooks", _places, _set_places), ("hooks of exceptions", _hooks, _set_hooks)]
    if with_torch:
        torch: Any = _MODULES["torch"]
        types = partial(torch.get_autocast_dtype, "cpu"), partial(torch.set_autocast_dtype, "cpu")
        found += [
            ("torch.set_autocast_dtype", *types),
            ("torch.set_flush_denormal", lambda: (2.3e-308).__truediv__(2) == 0, torch.set_flush_denormal),
            ("torch.set_default_dtype", torch.get_default_dtype, torch.set_default_dtype),
            ("torch.set_default_device", _device, torch.set_default_device),
            ("torch.set_num_threads", torch.get_num_threads, torch.set_num_threads),
            ("torch.set_grad_enabled", torch.is_grad_enabled, torch.set_grad_enabled),
            (
                "torch.set_float32_matmul_precision",
                torch.get_float32_matmul_precision,
                torch.set_float32_matmul_precision,
            ),
            (
                "torch.use_deterministic_algorithms",
                torch.are_deterministic_algorithms_enabled,
                torch.use_deterministic_algorithms,
            ),
        ]
    found.append(("limits of the system", partial(_limits, _LIMITS), partial(_set_limits, _LIMITS)))
    modes = _modes(_MODULES["torch"]) if with_torch else ()
    return found + [(name, get, partial(_refuse, name)) for name, get in modes]  # last: they raise


def _device() -> Any:
    return getattr(_MODULES.get("torch.utils._device"), "CURRENT_DEVICE", None)  # torch's getter makes a tensor


def _modes(torch: Any) -> tuple[tuple[str, Callable[[], Any]], ...]:
    """What changes torch's operations until whoever has entered it leaves it; torch tells of most in private alone."""
    return (
        ("torch.inference_mode", torch.is_inference_mode_enabled),
        ("torch.autocast", partial(torch.is_autocast_enabled, "cpu")),
        ("torch.device or another torch function mode", torch._C._len_torch_function_stack),
        ("a TorchDispatchMode", torch._C._len_torch_dispatch_stack),
        ("saved_tensors_hooks", partial(torch._C._autograd._top_saved_tensors_default_hooks, True)),
    )


def _refuse(name: str, then: object) -> None:
    """Nothing but who has entered such a mode can leave it."""
    raise CodeError(f"your code entered {name} and did not leave it; use it in a `with`")


def _set_collector(then: tuple[bool, tuple[int, int, int], int, list[Any]]) -> None:
    (gc.enable if then[0] else gc.disable)()
    gc.set_threshold(*then[1])
    gc.set_debug(then[2])
    gc.callbacks[:] = then[3]


def _wakeup() -> int:
    file = signal.set_wakeup_fd(-1)  # Python tells it only as it changes
    with suppress(OSError, ValueError):  # code of a user has closed it
        signal.set_wakeup_fd(file)
    return file


def _set_mask(then: Iterable[int]) -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, then)


def _limits(numbers: Sequence[int]) -> list[tuple[int, int]]:
    return [resource.getrlimit(number) for number in numbers]


def _set_limits(numbers: Sequence[int], then: Iterable[tuple[int, int]]) -> None:
    for number, limits in zip(numbers, then, strict=True):
        try:
            resource.setrlimit(number, limits)
        except (OSError, ValueError):
            names = [name for name in dir(resource) if name[:7] == "RLIMIT_" and getattr(resource, name) == number]
            words = f"your code lowered the hard limit {names[0]}, which nothing can raise again"
            raise CodeError(f"{words}; set its soft limit alone") from None


def _has_alarm() -> bool:
    """Whether a timer runs whose signal would end the process."""
    return signal.getitimer(signal.ITIMER_REAL)[0] > 0


def _set_alarm(ran: bool) -> None:
    if not ran:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _stream(name: str) -> tuple[Any, ...]:
    """A stream, whether it is open, how it encodes, and methods that it has in place of its class's."""
    stream = getattr(sys, name, None)
    kind, own = type(stream), getattr(stream, "__dict__", {})
    own = {word: method for word, method in own.items() if callable(getattr(kind, word, None))}
    try:
        is_open = not getattr(stream, "closed", False)
        return stream, is_open, getattr(stream, "encoding", None), getattr(stream, "errors", None), own
    except ValueError:  # its buffer was detached
        return stream, False, None, None, own


def _set_stream(name: str, then: tuple[Any, ...]) -> None:
    """Puts back a stream; one that was closed is opened again where it is one of the process."""
    stream, is_open, encoding, errors, own = then
    setattr(sys, name, stream)
    for word in _stream(name)[4]:
        if word not in own:
            delattr(stream, word)
    if is_open and _stream(name)[1] and hasattr(stream, "reconfigure"):
        stream.reconfigure(encoding=encoding, errors=errors)
    number = STREAMS.index(name)
    if is_open and _stream(name) != then:
        with suppress(OSError):
            stream = open(number, "w" if number else "r", closefd=False, errors="backslashreplace")  # noqa: SIM115
            setattr(sys, name, stream)


def _attributes() -> list[Setting]:
    found: list[Setting] = []
    for place, names in ATTRIBUTES.items():
        module = _MODULES.get(place)
        found += [(f"{place}.{x}", partial(_of, module, x), partial(setattr, module, x)) for x in names if module]
    return found


def _of(module: Any, name: str) -> Any:
    value = getattr(module, name, None)
    return list(value) if isinstance(value, list) else value


def _places() -> tuple[Any, ...] | None:
    """Where modules are looked for; None where it is nothing that Python takes."""
    try:
        return [*sys.path], [*sys.meta_path], [*sys.path_hooks]
    except (AttributeError, TypeError):
        return None


def _set_places(then: tuple[Any, ...] | None) -> bool:
    """Puts back what is missing of these places, before what was added; returns whether something was."""
    is_changed = False
    for name, places in zip(("path", "meta_path", "path_hooks"), then or (), strict=False):
        now = _of(sys, name) if isinstance(_of(sys, name), list) else []
        if any(place not in now for place in places):
            setattr(sys, name, [*places, *(place for place in now if place not in places)])
            is_changed = True
    return is_changed


def _hooks() -> tuple[Any, ...]:
    return getattr(sys, "excepthook", None), getattr(threading, "excepthook", None)


def _set_hooks(then: tuple[Any, ...]) -> None:
    sys.excepthook, threading.excepthook = then


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
        return getcwd()
    except OSError:  # it was removed
        return ""


def _set_folder(folder: str) -> None:
    if folder:
        chdir(folder)


def _set_environment(then: tuple[Any, dict[str, str]]) -> None:
    os.environ = _ENVIRON  # noqa: B003
    os.environ.clear()
    os.environ.update(then[1])
    time.tzset()


def _set_filters(filters: list[Any]) -> None:
    warnings.resetwarnings()
    warnings.filters[:] = filters  # type: ignore[index]  # it is a list


def _set_handlers(then: Iterable[Any]) -> None:
    for number, handler in zip(_HANDLED, then, strict=True):
        if handler not in (None, signal.getsignal(number)):  # None: set by other than Python code
            signal.signal(number, handler)
