"""The errors a user can cause. `cli.main` turns each into one line; anything else is a bug and keeps its traceback."""

import difflib
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

_READABLE = re.compile(r"[^\"$`\\!\n]*[ '][^\"$`\\!\n]*")
"""What a shell leaves alone between double quotes, which are easier to read where there are single ones inside."""


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


def command(*words: object) -> str:
    """A command line to be pasted: `league` and these words, each quoted so that a shell takes it as it is."""
    texts = map(str, words)
    return " ".join(["league", *(f'"{text}"' if _READABLE.fullmatch(text) else shlex.quote(text) for text in texts)])


def plain(name: str) -> str:
    """A name from outside as it can be shown, and given to a shell: in quotes unless it is a plain word."""
    return shlex.quote(name)


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean `x`?` for the known word nearest to `word`, else the known words listed."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    return f"; did you mean `{close[0]}`?" if close else f"; known: {', '.join(names) or 'none'}"
