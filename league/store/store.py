"""The match store: one DuckDB file with every run, agent, snapshot, match, rating, metric and event.

What is read from it is in `reading.py`, what is written to it in `writing.py`, how its file is opened in
`connection.py`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Self

from league.errors import StoreError
from league.store.connection import Connection
from league.store.making import bring_up_to_date, check_up_to_date, make
from league.store.reading import Reader
from league.store.writing import Writer

_log = logging.getLogger(__name__)


class Store(Writer):
    """A league store. Make one with `Store.create` or `Store.open`.

    What `add_*` and `update_run` are given waits in memory until `flush`; readers see what has been written. Not for
    use by several threads at once.
    """

    @classmethod
    def create(cls, path: str | os.PathLike[str], say: Callable[[str], None] | None = None) -> Self:
        """The store at `path`, made if it is not there, and brought up to the newest schema.

        say: a watcher's; is told in one line when the store is waited for, that rows wait for it, and what was lost.
            If not given these are warnings of the logger `league.store.store`.

        Raises:
            StoreError: what is there is not a league store, is damaged, or nothing can be written there.
        """
        path = Path(path)  # of which "" is the folder "."
        if not os.path.lexists(path):
            make(path)
        return cls._up_to_date(path, say)

    @classmethod
    def open(cls, path: str | os.PathLike[str], say: Callable[[str], None] | None = None) -> Self:
        """The store at `path`, which must exist; brought up to the newest schema.

        say: as of `create`.

        Raises:
            StoreError: it is missing, not a league store, or damaged.
        """
        if not Path(path).exists():
            raise StoreError(_missing(Path(path)))
        return cls._up_to_date(Path(path), say)

    @staticmethod
    def read_only(path: str | os.PathLike[str], say: Callable[[str], None] | None = None) -> Reader:
        """The store at `path`, which must exist and be of this league's schema: nothing is ever written to it.

        say: as of `create`.

        Raises:
            StoreError: it is missing, not a league store, damaged, or of an older league.
        """
        if not Path(path).exists():
            raise StoreError(_missing(Path(path)))
        connection = Connection(Path(path), say or _log.warning)
        check_up_to_date(connection)
        return Reader(connection)

    @classmethod
    def _up_to_date(cls, path: Path, say: Callable[[str], None] | None) -> Self:
        connection = Connection(path, say or _log.warning)
        bring_up_to_date(connection)
        store = cls(connection)
        store.take_in()
        return store


def _missing(path: Path) -> str:
    runs = sorted(index.parents[1].name for index in path.parent.glob("*/state/state.json"))
    if not runs:
        return f"no store at {path}; run `league train` first, or pass --store"
    named = ", ".join(runs[:3]) + (f" and {len(runs) - 3} more" if len(runs) > 3 else "")
    return (
        f"no store at {path}, but files of {named} are beside it; put a copy of the store back to carry on, or pass"
        f" --store; their snapshots play by their folders' paths"
    )
