"""Which code this user has named: lists outside any store, so that no store can make code run.

An entry is an address with the sha256 of its file, as it was when it was named: a game by `--env`, a custom part
by `--bot`, `--sampler` or `--policy`. What was named as one kind does not run as another.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from league.errors import LeagueError, StoreError, one_line, plain
from league.runtime.disk import write_atomic
from league.store.locks import held
from league.types import Source
from league.types.schema import FrozenModel, read_file

Kind = Literal["game", "bot", "sampler", "policy"]
MAX_BYTES = 2**24
MAX_ENTRIES = 10_000
"""Beyond these the oldest are dropped."""
LOCK_SECONDS = 10.0
MOST_LETTERS = 1_000
"""Of an address that is shown."""


class Consent(FrozenModel):
    """One game that was named, or one part."""

    address: Annotated[str, Field(max_length=2**14)]
    game: str = ""
    """The name that a game calls itself; empty of a part."""
    part: str = ""
    """`bot`, `sampler` or `policy`; empty of a game."""
    sha256: str
    """Of its file; empty where a library makes the game."""
    file: str = ""
    """Where a module's file lay."""


class _Consents(FrozenModel):
    format: Literal[1] = 1
    games: tuple[Consent, ...] = ()
    parts: tuple[Consent, ...] = ()


_here: list[Consent] = []
"""Named in this process."""


def list_path(kind: Kind = "game") -> Path | None:
    """Where the list of games lies, or that of parts; None where this user has no home."""
    name = "games.json" if kind == "game" else "parts.json"
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(base):
        return Path(base) / "league" / name
    try:
        return Path.home() / ".config" / "league" / name
    except RuntimeError:
        return None


def named(kind: Kind = "game") -> tuple[Consent, ...]:
    """All of a kind that was named, on this machine and in this process, the latest last.

    Raises:
        LeagueError: the list is damaged.
    """
    path = list_path(kind)
    part = "" if kind == "game" else kind
    return tuple(x for x in (*(_read(path) if path is not None else ()), *_here) if x.part == part)


def is_named(game: str, source: Source, file: str = "", kind: Kind = "game") -> bool:
    """Whether this user has named this game at this address with this hash, and, of a module, with its file there.

    Of a part `game` is empty.
    """
    return _entry(game, source, file, kind) in named(kind)


def refusal(source: Source, kind: Kind = "game") -> str:
    """Why code that is not named as it is now does not run, and before which option it would."""
    if any(entry.address == source.address for entry in named(kind)):
        return "has changed since you named it; look at it, and to run it as it is now"
    return "was never named here by you; its code runs only if you do: if you trust it,"


def spelt(text: str) -> str:
    """What a store or a manifest says, as it can be shown in a line."""
    return plain(one_line(text)[:MOST_LETTERS])


def address_of(game: str) -> str:
    """The address that was last named for a game of this name; empty where none was."""
    return next((entry.address for entry in reversed(named()) if entry.game == game), "")


def remember(game: str, source: Source, file: str = "", kind: Kind = "game") -> str:
    """Adds a game to the list, or a part, of which `game` is empty.

    Returns:
        A sentence where it can be remembered in this process alone; else nothing.
    """
    entry = _entry(game, source, file, kind)
    if entry in _here:
        return ""
    path = list_path(kind)
    why = "this user has no home folder"
    if path is not None:
        try:
            if entry in _read(path):
                return ""
            path.parent.mkdir(parents=True, exist_ok=True)
            with _locked(path):
                known = [other for other in _read(path) if other != entry]
                entries = (*known, entry)[-MAX_ENTRIES:]
                whole = _Consents(games=entries) if kind == "game" else _Consents(parts=entries)
                text = whole.model_dump_json(indent=1, exclude_defaults=True)
                write_atomic(path, f"{text}\n".encode())
            return ""
        except (OSError, LeagueError) as error:
            why = str(error) if isinstance(error, LeagueError) else f"{path}: {error.strerror or error}"
    _here.append(entry)
    return f"{kind} {game}: {source.address} is remembered for this process only ({why})".replace(" :", ":")


def _entry(game: str, source: Source, file: str, kind: Kind) -> Consent:
    part = "" if kind == "game" else kind
    return Consent(address=source.address, game=game, part=part, sha256=source.sha256, file=file)


def _read(path: Path) -> tuple[Consent, ...]:
    try:
        found = _Consents.model_validate_json(read_file(path, MAX_BYTES))
        return found.games + found.parts
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise LeagueError(
            f"{path}: {error.strerror or error}; it lists the code that you named: move it away"
        ) from None
    except (ValidationError, ValueError):
        raise LeagueError(
            f"{path}: is damaged; it lists the {path.stem} that you named: remove it, and name them again with"
            f" {'--env' if path.stem == 'games' else '--bot, --sampler or --policy'}"
        ) from None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time changes the list.

    Raises:
        StoreError: it cannot be locked.
    """
    deadline = time.monotonic() + LOCK_SECONDS
    lock = path.with_suffix(".lock")
    while True:
        try:
            with held(lock):
                yield
                return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise StoreError(f"{lock}: another process holds it") from None
