"""The errors a user can cause. `cli.main` turns each into one line; anything else is a bug and keeps its traceback."""

import difflib
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

DEFAULT_STORE = Path("runs/league.duckdb")
"""The store of a command that is given none."""


class LeagueError(Exception):
    """A known error: the message names the setting, the value, the rule and the next step. Exit code 1."""

    exit_code = 1


class UsageError(LeagueError):
    """The call itself is wrong: an unknown key, name or stage, or a value outside its rule. Exit code 2."""

    exit_code = 2


class ConfigError(UsageError):
    """A setting, or settings together, that cannot be run."""


class StoreError(LeagueError):
    """The store is missing, foreign, damaged or busy."""


class SnapshotError(LeagueError):
    """A snapshot is missing, damaged or does not fit."""


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


def visible(text: str) -> str:
    """`text` with whatever a terminal could obey or hide (escape sequences, other directions of writing) spelt out.

    Line feeds stay.
    """
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def command(*words: object, store: Path | None = None) -> str:
    """`league WORDS` as an error offers it: each word quoted for a shell, and the store named where it is another."""
    return f"`{_line(words, store)}`"


def next_step(*words: object, store: Path) -> str:
    """A line with what can be done next, to be copied as it stands."""
    return f"next: {_line(words, store)}"


def _line(words: Iterable[object], store: Path | None) -> str:
    where = [] if store in (None, DEFAULT_STORE) else ["--store", store]
    return f"league {shlex.join(str(word) for word in [*words, *where])}"


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean `x`?` for the known word nearest to `word`, else the known words listed."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    return f"; did you mean `{close[0]}`?" if close else f"; known: {', '.join(names) or 'none'}"
