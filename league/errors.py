"""The errors a user can cause. `cli.main` turns each into one line; anything else is a bug and keeps its traceback."""

import difflib
import errno
import os
import re
import shlex
from collections.abc import Iterable, Mapping
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
}
"""What to do where the system refuses a path or a stream; else another path may help."""
_READABLE = re.compile(r"[^\"$`\\!\n]*[ '][^\"$`\\!\n]*")
"""What a shell leaves alone between double quotes, which are easier to read where there are single ones inside."""
MAX_MESSAGE = 2_000
"""Letters of a message."""
DEFAULT_STORE = Path("runs/league.duckdb")
"""The store of a command that is given none."""


class LeagueError(Exception):
    """A known error: the message names the setting, the value, the rule and the next step. Exit code 1.

    Its text is `brief`, since it may quote what comes from outside: a manifest, an exception of a bot.
    """

    exit_code = 1

    def __str__(self) -> str:
        return brief(super().__str__())


class UsageError(LeagueError):
    """The call itself is wrong: an unknown key, name or stage, or a value outside its rule. Exit code 2."""

    exit_code = 2


class ConfigError(UsageError):
    """A setting, or settings together, that cannot be run."""


class StoreError(LeagueError):
    """The store is missing, foreign, damaged or busy."""


class SnapshotError(LeagueError):
    """A snapshot is missing, damaged or does not fit."""


class ContractError(LeagueError, AssertionError):
    """A game, bot or network that somebody brings breaks a rule that the engine relies on."""


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
    if isinstance(error, MemoryError):
        return LeagueError("too little memory; free some, raise `ulimit -v`, or ask for less at once")
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return LeagueError("the system makes no more threads; end other processes or raise `ulimit -u`, then try again")
    if not isinstance(error, OSError):
        return None
    if error.errno == errno.ENAMETOOLONG:  # whichever path it was that was given
        return UsageError(f"{error.filename}: the name is too long; pass a shorter one")
    where = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes | os.PathLike) else "stdout or a file"
    return LeagueError(f"{where}: {error.strerror or error}; {_NEXT_STEPS.get(error.errno or 0, _ANOTHER)}")


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


def plain(name: str) -> str:
    """A name from outside as it can be shown, and given to a shell: in quotes unless it is a plain word."""
    return shlex.quote(name)


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean `x`?` for the known word nearest to `word`, else the known words listed."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    return f"; did you mean `{close[0]}`?" if close else f"; known: {', '.join(names) or 'none'}"
