"""The errors a user can cause. `cli.main` turns each into one line; anything else is a bug and keeps its traceback."""

import atexit
import difflib
import errno
import os
import re
import shlex
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

_ROOM, _RIGHTS = "make room there, then try again", "see to its rights, or pass another path"
_HANDLES, _DISK = "close files or raise `ulimit -n`, then try again", "see to its disk, then try again"
_ANOTHER = "pass another path"
_NEXT_STEPS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _ROOM),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _RIGHTS),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), _HANDLES),
    **dict.fromkeys((errno.EIO, errno.ESTALE, errno.ENXIO, errno.ENODEV), _DISK),
    errno.ENOMEM: "free memory, then try again",
    errno.EBADF: "it is closed: open it, as by `> FILE`",
}
"""What to do where the system refuses a path or a stream; else another path may help."""
_READABLE = re.compile(r"[^\"$`\\!\n]*[ '][^\"$`\\!\n]*")
"""What a shell leaves alone between double quotes, which are easier to read where there are single ones inside."""
MAX_MESSAGE = 2_000
"""Letters of a message."""
DEFAULT_STORE = Path("runs")
"""The store of a command that is given none."""
CODE_FAILED = "code_failed"
"""Kind of the event that code of a user failed."""
_user_modules: set[str] = set()
_user_folders: set[str] = set()
"""Where code of users is: modules, packages, and folders of files."""
is_loading = ContextVar("is_loading", default=False)  # whether this thread runs a user's file to load it


class Interrupted(BaseException):
    """A signal told the command to end. No KeyboardInterrupt, of which Typer would make an exit code of 1."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class LeagueError(Exception):
    """A known error: the message names the setting, the value, the rule and the next step. Exit code 1.

    Its text is `brief` and one visible line, since it may quote what comes from outside: a manifest, a path, an
    exception of a bot.
    """

    exit_code = 1
    step = ""
    """The next step where the message names none; a message that holds this one (`f"{error}"`) has its own."""

    def __str__(self) -> str:
        words = f"{self}"
        return brief(f"{words}; {self.step}" if self.step and "; " not in words else words)

    def __format__(self, spec: str) -> str:
        return brief(visible(" ".join(super().__str__().split())))


class UsageError(LeagueError):
    """The call itself is wrong: an unknown key, name or stage, or a value outside its rule. Exit code 2."""

    exit_code = 2
    step = "pass another value"


def refuse_loading() -> None:
    """A UsageError where a user's file that is being loaded, as each process that plays by it does, begins a run."""
    if is_loading.get():
        raise UsageError("the file plays or trains as it is loaded; put that below `if __name__ == '__main__':`")


class ConfigError(UsageError):
    """A setting, or settings together, that cannot be run."""


class StoreError(LeagueError):
    """The store is missing, foreign or damaged, or cannot be written."""


class SnapshotError(LeagueError):
    """A snapshot is missing, damaged or does not fit."""


class ContractError(LeagueError, AssertionError):
    """A game, bot or network that somebody brings breaks a rule that the engine relies on."""

    step = "mend it"


class GuardError(LeagueError):
    """Something in a run cannot be, so it must stop.

    Args:
        message: what is wrong where, and what to try.
        kind: of the event that is written down.
        evidence: what a file about it shall hold; None where there is nothing to replay.
    """

    def __init__(self, message: str, kind: str, evidence: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.kind, self.evidence = kind, evidence


def brief(text: str) -> str:
    """`text`, of which the middle is left out where it is longer than `MAX_MESSAGE` letters."""
    if len(text) <= MAX_MESSAGE:
        return text
    first, last = text[: MAX_MESSAGE * 2 // 3], text[-MAX_MESSAGE // 3 :]
    return f"{first} ... {len(text) - len(first) - len(last):,} letters left out ... {last}"


class CodeError(GuardError):
    """Code of a user (a game, a bot, a sampler, a network, a drawing) raised an exception of any class."""

    step = "mend it"

    def __init__(self, message: str) -> None:
        super().__init__(message, CODE_FAILED)


def note_user_code(module: str = "", folder: Path | None = None) -> None:
    """From now on what arises in a module, in what a package has, or in the files of a folder, is a user's error."""
    if folder is not None:
        _user_folders.add(f"{folder}{os.sep}")
    if module and module.partition(".")[0] != "league":
        _user_modules.add(module)


@contextmanager
def code_told(what: str = "", advice: str = "mend it") -> Iterator[None]:
    """Makes a `CodeError` of each exception that a user's code raises within, also of `SystemExit` and its like.

    Where an error arose decides, not its class: it is a user's where the engine has called into code of a user on the
    way to it. A signal remains a signal.

    Args:
        what: which code is called, where nothing else is called within; empty: the traceback tells.
        advice: the next step.

    Raises:
        CodeError: with the exception, its file and its line.
    """
    try:
        yield
    except BaseException as error:
        if isinstance(error, GeneratorExit) and error.__traceback__ and error.__traceback__.tb_next is None:
            raise  # of Python, which lets go of this context
        told = as_users(error, what, advice)
        if told is None or told is error:
            raise
        raise told from error


def as_users(error: BaseException, what: str = "", advice: str = "mend it") -> LeagueError | None:
    """The `CodeError` of what code of a user raised; a known error of ours is itself. None: it is not a user's.

    what, advice: as for `code_told`.
    """
    known = error if isinstance(error, LeagueError) else None
    if is_signal(error):
        return known
    where = users_line(error) or ("" if known else _causes_line(error))
    if not where and (known or not what):
        return known
    if not where and (frames := [*traceback.walk_tb(error.__traceback__)]):
        frame, line = frames[-1]
        is_ours = str(frame.f_globals.get("__name__")).startswith("league.")  # what we call is at fault, not our line
        where = "" if is_ours else f"{frame.f_code.co_filename}, line {line}"
    words = words_of(known) if known else described(error)
    places = [place for place in (where, *_notes(error)) if place and place not in words]
    shown = f" ({'; '.join(places)})" if places else ""
    return CodeError(f"{f'{what}: ' if what else ''}{words}{shown}; {advice}")


def described(error: BaseException) -> str:
    """An exception's class, and its message where it has one, on one line."""
    words = words_of(error)
    if isinstance(error, BaseExceptionGroup):  # as of tasks of `asyncio`: its first one says what failed
        words += f": {described(error.exceptions[0])}"
    return f"{type(error).__name__}{f': {words}' if words else ''}"


def words_of(error: BaseException) -> str:
    """An exception's message on one line; empty where it cannot tell one."""
    try:
        return " ".join(f"{error.msg if isinstance(error, SyntaxError) else error}".split())
    except BaseException as second:  # of the exception's own code, which may end a process, too
        if is_signal(second):
            raise
        return ""


def _notes(error: BaseException) -> list[str]:
    """The notes of an exception, which its own code may have set to anything."""
    notes = getattr(error, "__notes__", None)
    return [note for note in notes if isinstance(note, str)] if isinstance(notes, list) else []


def is_signal(error: BaseException) -> bool:
    """Whether a signal was received; a KeyboardInterrupt is one only where nothing else handles SIGINT.

    An `Interrupted` is one where league has raised it.
    """
    if isinstance(error, Interrupted):
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        return str(frame.f_globals.get("__name__", "")).startswith("league.")
    if not isinstance(error, KeyboardInterrupt):
        return False
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def users_line(error: BaseException, *, is_called: bool = False) -> str:
    """The innermost line of a user's code that the engine has called; empty where there is none.

    A line of a user's own file goes before one of an installed library that the file calls.

    is_called: whether Python itself has called it, as in a thread.
    """
    found, own = "", ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        name, file = str(frame.f_globals.get("__name__", "")), frame.f_code.co_filename
        if name.partition(".")[0] == "league":
            is_called = True
        elif is_called and is_users(name, file):
            found = f"{file}, line {line}"
            own = found if _is_in_folder(file) else own
    return own or found


def _causes_line(error: BaseException) -> str:
    """The line of a user's code at which what caused an error arose; empty where there is none."""
    while (cause := error.__cause__) is not None:
        if line := users_line(cause):
            return line
        error = cause
    return ""


def is_users(module: str, file: str) -> bool:
    """Whether a module, by its name or its file, is code of a user."""
    if module in _user_modules or module.partition(".")[0] in _user_modules:
        return True
    return _is_in_folder(file)


def _is_in_folder(file: str) -> bool:
    """Whether a file lies in a user's folder, and is not installed there."""
    return any(
        file.startswith(folder) and not {"site-packages", "dist-packages"} & set(Path(file[len(folder) :]).parts)
        for folder in _user_folders
    )


def visible(text: str) -> str:
    """`text` with whatever a terminal could obey or hide (escape sequences, other directions of writing) spelt out.

    Line feeds stay.
    """
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str) -> str:
    """`text` as `visible` has it, line feeds spelt out, too: a name cannot begin a line of its own."""
    return visible(text).replace("\n", "\\n")


def as_known(error: BaseException) -> LeagueError | None:
    """An error as one that is told in one line, with what to do; None where it is a bug.

    What the system refuses (a path, a stream, memory) is no bug, wherever it is met.
    """
    if isinstance(error, LeagueError):
        return error
    if isinstance(error, MemoryError) or "DefaultCPUAllocator" in words_of(error):  # as torch says it
        return LeagueError("too little memory; free some, raise `ulimit -v`, or ask for less at once")
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        limits = "end other processes or raise `ulimit -u` and `ulimit -v`"
        return LeagueError(f"the system makes no more threads; {limits}, then try again")
    if not isinstance(error, OSError):
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        packages = [str(frame.f_globals.get("__name__")).partition(".")[0] for frame in frames]
        loaded = [name for name, frame in zip(packages, frames, strict=True) if frame.f_code.co_name == "<module>"]
        if any(str(frame.f_globals.get("__name__")).startswith("importlib.metadata") for frame in frames):
            words = f"{_broken()}: what it says as an installed package cannot be read: {described(error)[:300]}"
            return LeagueError(f"{words}; install it again, or uninstall it")
        if loaded and packages[-1] == loaded[-1] not in ("league", "__main__"):
            words = f"{loaded[-1]} cannot be loaded: {described(error)[:300]}"
            return LeagueError(f"{words}; see to its environment variables, or install it again")
        return None
    if error.errno == errno.ENAMETOOLONG:  # whichever path it was that was given
        return UsageError(f"{error.filename}: the name is too long; pass a shorter one")
    if error.errno == errno.ENOENT and error.filename is None:  # as of `os.getcwd`
        return LeagueError("the working folder is gone; go to another one, then try again")
    where = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes | os.PathLike) else "stdout or a file"
    return LeagueError(f"{where}: {error.strerror or error}; {remedy_of(error)}")


def _broken() -> str:
    """The first installed distribution whose metadata or entry points cannot be read."""
    for dist in distributions():
        try:
            _ = dist.metadata, dist.version, [point.module for point in dist.entry_points]
        except Exception:
            return str(getattr(dist, "_path", dist))
    return "an installed distribution"


def remedy_of(error: OSError) -> str:
    """What to do where the system refuses a path or a stream."""
    return _NEXT_STEPS.get(error.errno or 0, _ANOTHER)


def command_line(*words: object, store: Path | None = None) -> str:
    """`league WORDS` to be pasted, each quoted so that a shell takes it as it is, with --store where it is another."""
    where = [] if store in (None, DEFAULT_STORE) else ["--store", store]
    texts = [str(word) for word in [*words, *where]]
    return " ".join(["league", *(f'"{text}"' if _READABLE.fullmatch(text) else shlex.quote(text) for text in texts)])


def command(*words: object, store: Path | None = None) -> str:
    """`command_line` as an error offers it."""
    return f"`{command_line(*words, store=store)}`"


def next_step(*words: object, store: Path) -> str:
    """A line with what can be done next, to be copied as it stands."""
    return f"next: {command_line(*words, store=store)}"


def quoted(value: str) -> str:
    """A value from outside in an error: quoted, its beginning only, in ASCII."""
    return ascii(value if len(value) <= 60 else value[:57] + "...")


def shown(value: object) -> str:
    """The beginning of a value's `repr`, on one line; its type where its own code cannot tell one."""
    try:
        return one_line(shortened(repr(value)))
    except Exception:
        return f"<{type(value).__name__}>"


def unused(why: str, **given: Any) -> None:
    """Raises a `UsageError` for the first that is given where it has no effect; None, 0 and what is empty are not."""
    for name, value in given.items():
        if value:
            raise UsageError(f"{name}={shown(value)}: {why}; leave it out")


def shortened(name: str) -> str:
    """The beginning of a name from outside that stands in a list of what there is."""
    return name if len(name) <= 100 else f"{name[:97]}..."


def plain(name: str) -> str:
    """A name from outside as it can be shown, and given to a shell: in quotes unless it is a plain word."""
    return shlex.quote(name)


def rule_of(error: LeagueError) -> str:
    """The message of a setting's error without its next step, for a setting that stands in no `--set`."""
    return str(error).partition("; change it with --set")[0]


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean `x`?` for the known word nearest to `word`, else the known words listed."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    return f"; did you mean `{close[0]}`?" if close else f"; known: {', '.join(names) or 'none'}"


@contextmanager
def strays_told(say: Callable[[str], None]) -> Iterator[None]:
    """Within it what a user's code raises in a thread, or as an object is let go of, is a line, each place once.

    So is what it raises as the process ends. `os._exit`, `os.abort` and `os.exec...` are a `SystemExit` there. A
    warning is a line, too, but for one that arises in league: a check refuses the value, or it is nobody's concern.
    """
    usual, told, stream = (threading.excepthook, sys.unraisablehook), set[str](), sys.stderr
    process, leaving = os.getpid(), {name: getattr(os, name) for name in ("_exit", "abort", "execv", "execve")}
    places = vars(os), vars(sys.modules[os.name])  # `os` has them from `posix`

    def caught(name: str, *given: Any) -> Any:
        caller = sys._getframe().f_back
        if caller is None:  # Python calls it as the process ends
            return
        if os.getpid() == process and str(caller.f_globals.get("__name__")).partition(".")[0] != "league":
            raise SystemExit(f"os.{name}")
        leaving[name](*given)

    def tell(found: Any, where: str, usual: Callable[[Any], object], is_thread: bool = False) -> None:
        line = "" if found.exc_value is None else users_line(found.exc_value, is_called=True)
        if not line and not isinstance(found.exc_value, SystemExit):
            usual(found)
        elif line not in told and (is_thread or sys.stderr is stream):  # or it is not heard
            told.add(line)
            at = f" ({line})" if line else ""
            say(f"your code raised {described(found.exc_value)}{at} {where}, which stops nothing; mend it")

    def warned(message: Any, category: type[Warning], file: str, number: int, *more: object) -> None:
        ours = [module for name, module in sys.modules.copy().items() if name.startswith("league.")]
        if file not in [getattr(module, "__file__", None) for module in ours]:
            where = f" ({file}, line {number})" if is_users("", file) else ""
            say(f"{category.__name__}: {' '.join(str(message).split())[:MAX_MESSAGE]}{where}")

    shows, warnings.showwarning = warnings.showwarning, warned  # type: ignore[assignment]  # as Python calls it
    threading.excepthook = partial(tell, where="in a thread", usual=usual[0], is_thread=True)
    sys.unraisablehook = hook = partial(tell, where="where nothing can catch it", usual=usual[1])
    catching = {name: partial(caught, name) for name in leaving}
    for place in places:
        place.update(catching)
    try:
        yield
    finally:
        threading.excepthook, sys.unraisablehook = usual
        warnings.showwarning = shows
        for place in places:
            place.update(leaving)
        for place in places:  # the last that is registered is called first
            atexit.register(place.update, catching)
        atexit.register(setattr, sys, "unraisablehook", hook)
