"""Rows on their way to the store: a thread writes them, through an opening of the file of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from league.store import connection as files
from league.store.connection import Connection, Cursor, committed
from league.store.reading import Reader
from league.store.rows import RatingRow
from league.store.waiting import Waiting


@dataclass(frozen=True)
class Reckoning:
    """Ratings that follow from what the store has once rows are in it."""

    read: Callable[[Reader], Any]
    """Reads what they are worked out from, while the file is open."""
    work_out: Callable[[Any], Sequence[RatingRow]]
    """Works them out of that, when it is closed."""
    then: Callable[[Sequence[RatingRow]], None]
    """Is given them, in the store's own thread."""

    def of(self, reader: Reader, write: Callable[[Cursor], None], wait: float) -> Sequence[RatingRow]:
        """Writes, reads and works them out; `wait` is as of `Connection.transaction`.

        Raises:
            StoreError: the store could not be written or read.
        """
        with reader.connection.writing(wait) as con:
            write(con)
            found = self.read(reader)
        return self.work_out(found)


class Aside(threading.Thread):
    """One writing of rows by a thread of its own; a process that ends by itself waits for it.

    Args:
        connection: no other thread's.
        rows: what is written, in one transaction; nobody else may have them meanwhile.
        reckoning: what is worked out afterwards.
    """

    def __init__(self, connection: Connection, rows: Waiting, reckoning: Reckoning | None) -> None:
        super().__init__(name="store")
        self._connection, self.rows, self.reckoning = connection, rows, reckoning
        self.is_written = False
        self.ratings: Sequence[RatingRow] = ()
        self.error: BaseException | None = None

    def run(self) -> None:
        """In the thread."""
        try:
            if self.reckoning is None:
                with self._connection.opened(read_only=False, wait=files.PATIENCE_SECONDS) as con:
                    self._write(con)
            else:
                reader = Reader(self._connection)
                self.ratings = self.reckoning.of(reader, self._write, files.PATIENCE_SECONDS)
        except BaseException as error:  # whoever waits for it meets it
            self.error = error

    def _write(self, con: Cursor) -> None:
        with committed(con):
            self.rows.write(con)
        self.is_written = True
