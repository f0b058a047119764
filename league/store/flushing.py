"""Rows that wait in memory, and how they come into the store: now, later by another thread, or kept beside it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from league.errors import StoreError
from league.store import connection as files
from league.store.aside import Aside, Reckoning
from league.store.codec import to_columns
from league.store.connection import Connection, Cursor, StoreBusy, committed
from league.store.keeping import Keeper, keep
from league.store.reading import Reader, count_rows
from league.store.rows import RatingRow, RunStatus, now
from league.store.waiting import Waiting

FLUSH_SECONDS = 5.0
"""The least time between two writes that can be put off."""
MAX_RETRY_SECONDS = 60.0
"""The most that is waited before the next try where such writes fail again and again; each failure is said."""


class Flusher(Reader):
    """A store with rows that wait for it.

    Whatever opens the file, to read as well, first waits for what another thread writes (`writes_aside`), so it finds
    what it would have found without that thread.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._keeper = Keeper(connection.path, self._say)
        connection.before_write, connection.before_open = self._keeper.take_in, self.settle
        self._has_kept = False
        """Whether rows were kept since the file could be written last."""
        self._waiting = Waiting()
        self._status: dict[str, RunStatus] = {}
        self._next_flush = 0.0
        self._retry_seconds = FLUSH_SECONDS
        self.writes_aside = False
        """Whether what can be put off is written by another thread, as while a run trains."""
        self._aside: Aside | None = None
        self._told: list[str] = []
        """What that thread has to say."""

    @property
    def num_waiting(self) -> int:
        """Rows in memory that are not in the file yet."""
        return len(self._waiting) + (0 if self._aside is None else len(self._aside.rows))

    @contextmanager
    def writing(self, wait: float | None = None) -> Iterator[None]:
        """Within it all that reads and writes shares one opening of the file. Keep it short: nobody else can read.

        wait: seconds for another process to let go of the file, `LOCK_SECONDS` if not given.

        Raises:
            StoreError: the store cannot be written.
        """
        with self.connection.writing(wait):
            yield

    def add_ratings(self, ratings: Iterable[RatingRow]) -> None:
        """Buffers ratings as they stood; one replaces an earlier one of its run, update, game, board and agent."""
        rated_at = now()
        for rating in ratings:
            self._waiting.add("rating", to_columns(rating, rated_at=rated_at))

    def add_ratings_of(self, reckoning: Reckoning) -> None:
        """Writes what waits, and buffers the ratings that follow from what the store has then.

        Where another process keeps the store there are none, and the rows wait on.
        """
        self.settle()
        if self.writes_aside and not self.connection.is_shared:
            self._begin_aside(reckoning)
            return
        try:
            found = reckoning.of(self, self._write, files.PATIENCE_SECONDS)
        except StoreError:
            return
        self.add_ratings(found)
        reckoning.then(found)

    def take_in(self) -> None:
        """Takes in the rows that lie beside the store, if it can be written now; else says that they wait."""
        if not self._keeper.has_files:
            return
        try:
            with self.connection.opened(read_only=False, wait=files.PATIENCE_SECONDS):
                pass
        except StoreError as error:
            self.connection.say(f"rows that are kept beside the store wait on: {error}")

    def flush(self, force: bool = False, *, is_wanted: bool = False) -> bool:
        """Writes everything that waits, in one transaction.

        Without `force` it does nothing within 5 seconds of the last time, unless it `is_wanted`, and a store that
        cannot be written is only warned about: the rows stay in memory for the next time, which comes later with every
        failure. Where the store `writes_aside` another thread writes them meanwhile. With `force` it writes now or
        raises; the rows stay in memory all the same.

        Returns:
            Whether nothing waits any more.

        Raises:
            StoreBusy: with `force`, another process kept the store for `LOCK_SECONDS`.
            StoreError: with `force`, the store cannot be written.
        """
        self.settle(wait=force or is_wanted)
        if not self.num_waiting:
            return True
        if self._aside is not None:
            return False
        if not (force or is_wanted) and time.monotonic() < self._next_flush:
            return False
        if self.writes_aside and not (force or is_wanted or self.connection.is_shared):
            self._begin_aside()
            return False
        try:
            return self._flush_now(None if force else files.PATIENCE_SECONDS)
        except StoreError as error:
            if force:
                raise
            self._put_off(error)
            return False

    def settle(self, *, wait: bool = True) -> None:
        """Takes note of what another thread has written; what it could not write waits on.

        wait: until it is through with what it was given.
        """
        aside = self._aside
        if aside is None or (aside.is_alive() and not wait):
            return
        aside.join()
        self._aside = None
        told, self._told = self._told, []
        for line in told:
            self.connection.say(line)
        if aside.is_written:
            self._note_written()
        else:
            aside.rows.extend(self._waiting)
            self._waiting = aside.rows
        self.add_ratings(aside.ratings)
        if aside.error is None:
            if aside.reckoning is not None:
                aside.reckoning.then(aside.ratings)
            return
        if not isinstance(aside.error, StoreError):
            raise aside.error
        if aside.reckoning is None:
            self._put_off(aside.error)

    def _begin_aside(self, reckoning: Reckoning | None = None) -> None:
        """Lets another thread write all that waits; whatever opens the file next waits for it (`settle`)."""
        rows, self._waiting = self._waiting, Waiting()
        connection = Connection(self.path, self._say)
        connection.before_write = self._keeper.take_in
        self._aside = Aside(connection, rows, reckoning)
        self._aside.start()

    def _say(self, line: str) -> None:
        """Tells the watcher, if this is not another thread; what that has to say is told by `settle`."""
        if threading.current_thread() is self._aside:
            self._told.append(line)
        else:
            self.connection.say(line)

    def _put_off(self, error: StoreError) -> None:
        """Tries again later, and says so."""
        self._next_flush = time.monotonic() + self._retry_seconds
        self.connection.say(
            f"{self.num_waiting} rows wait in memory, tried again in {self._retry_seconds:g} s: {error}"
        )
        self._retry_seconds = min(2 * self._retry_seconds, MAX_RETRY_SECONDS)

    def flush_or_keep(self) -> bool:
        """Writes everything that waits now, or keeps it in a file beside the store, which the next write takes in.

        For what would be lost otherwise, since its process ends.

        Returns:
            Whether it was written; if not, it is kept, which is said.

        Raises:
            StoreError: the store cannot be written for another reason than that it is busy; what waits is kept, or
                cannot be kept either.
        """
        try:
            return self._flush_now(files.PATIENCE_SECONDS if self._has_kept else None)
        except BaseException as error:
            self._keep(error)
            if not isinstance(error, StoreBusy):
                raise
            return False

    def checkpoint(self, run: str, update: int, *, keeps: bool = False) -> dict[str, list[int]]:
        """Writes everything that waits, and DuckDB's log into the file itself, so that nothing is left in the log.

        keeps: as in `flush_or_keep` what waits is kept where the store is busy.

        Returns:
            `row_counts` of the run; empty where what waits is kept, since they are not known then.

        Raises:
            StoreError: as `flush` with `force`.
        """
        try:
            with self.connection.opened(read_only=False) as con:
                if self.num_waiting:
                    self._write(con)
                con.execute("CHECKPOINT")
                return count_rows(con, run, update)
        except StoreBusy as error:
            if not keeps:
                raise
            self._keep(error)
            return {}

    def _flush_now(self, wait: float | None) -> bool:
        if self.num_waiting:
            with self.connection.opened(read_only=False, wait=wait) as con:
                self._write(con)
        return True

    def _keep(self, reason: BaseException) -> None:
        """Moves what waits to a file beside the store; says so, or why it waits on."""
        self.settle()
        if not self.num_waiting:
            return
        try:
            path = keep(self.path, self._waiting)
        except StoreError as error:
            self.connection.say(f"{self.num_waiting:,} rows could not be kept either: {error}")
            return
        why = f": {reason}" if isinstance(reason, StoreBusy) else ""
        self.connection.say(
            f"{self.num_waiting:,} rows wait in {path.name} beside the store, and the next command that may write the"
            f" store takes them in{why}"
        )
        self._waiting.clear()
        self._has_kept = True

    def _write(self, con: Cursor) -> None:
        with committed(con):
            self._waiting.write(con)
        self._waiting.clear()
        self._note_written()

    def _note_written(self) -> None:
        self._next_flush, self._retry_seconds = time.monotonic() + FLUSH_SECONDS, FLUSH_SECONDS
        self._has_kept = False
