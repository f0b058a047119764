"""Rows that could not be written: kept in a file beside the store until some process writes the store again."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from league.acts import act
from league.errors import StoreError
from league.schema import read_file
from league.store.codec import naive
from league.store.connection import STATEMENT_ERRORS, Cursor, DatabaseError, first_line
from league.store.files import replace_whole
from league.store.rows import now
from league.store.sql import sql
from league.store.waiting import Waiting

_TIME = "$time"
"""The key of a moment, which JSON has no word for."""


@act("keep rows")
def keep(store: Path, rows: Waiting) -> Path:
    """Writes rows to a new file beside the store, synced: it is whole or not there; returns its path.

    Its name has a number, in the order of such files, and ends in the hash of its content.

    Raises:
        StoreError: the folder cannot be written either.
    """
    data = json.dumps(rows.content(), default=_plain).encode()
    number = 1 + max((int(path.name.split(".")[-3]) for path in kept_files(store)), default=0)
    path = store.with_name(f"{store.name}.rows.{number:06d}.{_mark(data)}.json")
    try:
        replace_whole(path, data)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror or error}); make room or rights there") from None
    return path


def kept_files(store: Path) -> list[Path]:
    """The files of rows beside a store, in the order in which they were kept."""
    try:
        return sorted(path for path in store.parent.iterdir() if _is_kept(store, path.name) and path.is_file())
    except OSError:
        return []


class Keeper:
    """Takes in the files of rows that lie beside a store, each once.

    Args:
        store: the store's file.
        say: is told of each in one line.
    """

    def __init__(self, store: Path, say: Callable[[str], None]) -> None:
        self._store, self._say = store, say
        self._refused: set[Path] = set()
        """Files that cannot be taken in, of which it was told."""

    @property
    def has_files(self) -> bool:
        """Whether there is a file to take in."""
        return any(path not in self._refused for path in kept_files(self._store))

    def take_in(self, con: Cursor) -> None:
        """Writes the rows of each file in one transaction with its name, and then removes the file.

        So a kill at any moment changes nothing: a file whose name the store has is only removed.
        """
        for path in kept_files(self._store):
            if path in self._refused:
                continue
            con.begin()
            try:
                rows = _read(path)
                taken = con.execute(sql("take_in"), {"file": path.name, "taken_at": naive(now())}).fetchone()
                if taken is not None:
                    rows.write(con)
                con.commit()
                path.unlink()
            except (OSError, ValueError, KeyError, TypeError, AttributeError, *STATEMENT_ERRORS) as error:
                with contextlib.suppress(DatabaseError):  # it was written, and only its file cannot be removed
                    con.rollback()
                self._refused.add(path)
                self._say(
                    f"{path.name} beside {self._store} cannot be taken in ({first_line(error)}); it is left there"
                )
                continue
            if taken is not None:
                self._say(f"{len(rows):,} rows that waited in {path.name} are in {self._store} now")


def _is_kept(store: Path, name: str) -> bool:
    parts = name.removeprefix(f"{store.name}.rows.").split(".")
    return name.startswith(f"{store.name}.rows.") and len(parts) == 3 and parts[0].isdigit() and parts[2] == "json"


def _read(path: Path) -> Waiting:
    """The rows of a file.

    Raises:
        OSError, ValueError, KeyError, TypeError: it cannot be read, or is not what was written.
    """
    data = read_file(path)
    if _mark(data) != path.name.split(".")[-2]:
        raise ValueError("its hash differs from its name's")
    return Waiting.of(json.loads(data, object_hook=_revived))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return {_TIME: value.isoformat()}
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a row holds {type(value).__name__}")


def _revived(found: dict[str, Any]) -> Any:
    return datetime.fromisoformat(found[_TIME]) if _TIME in found else found


def _mark(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
