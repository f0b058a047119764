"""The store's file: opening it for a moment, waiting while somebody else has it, and what to say where it is damaged.

DuckDB lets one process hold the file, so nobody keeps it open: a write opens it, makes one transaction and closes it,
a reader opens it read-only, and both try again for a while when somebody else is there. Only this module imports
duckdb.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb

from league.errors import StoreError
from league.store.codec import Row, from_columns
from league.store.locks import is_signed, signed
from league.store.rows import now
from league.store.sql import sql

Cursor = duckdb.DuckDBPyConnection
DatabaseError = duckdb.Error
FileError = duckdb.IOException
Interrupted = duckdb.InterruptException
STATEMENT_ERRORS = (duckdb.ProgrammingError, duckdb.IntegrityError, duckdb.DataError)
"""The statement or its values are wrong, not the file."""
NoSuchTable = (duckdb.CatalogException, duckdb.BinderException)

LONGEST_READ_SECONDS = 45.0
"""The longest that a reading may keep the file: `league query` is ended by then."""
LOCK_SECONDS = LONGEST_READ_SECONDS + 15.0
"""How long a read or an unavoidable write waits for others to let go of the file: longer than any reader keeps it."""
PATIENCE_SECONDS = 1.0
"""How long a write that can be put off waits; whoever waits longer says so."""

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "threads": 2,
    "memory_limit": "1GB",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "temp_directory": "",
}
_REPLAY_FAILED = re.compile(r"Failure while replaying WAL|WAL.*was created for")
_PROOF_OF_DAMAGE = re.compile(r"corrupt|checksum|does not match|was created for|invalid WAL entry", re.IGNORECASE)
"""In what DuckDB says of a log: its bytes are wrong, or another file's. Too little memory, say, proves nothing."""
_BUSY_SIGNS = ("Could not set lock", "used by another process", "different configuration", "already attached by")
_process_lock = threading.RLock()
"""Held while this process has a store open: a file can be open in one process either to read or to write."""
_engines: dict[tuple[int, str], Cursor] = {}
"""DuckDB by process and path: those in use, and the last one. What a fork inherits is not for its use."""
_attached: dict[tuple[int, str], bool] = {}
"""Which of them have their file attached, and whether only to read."""


class StoreBusy(StoreError):
    """Another process kept the store for longer than one waits."""


class Connection:
    """The way to one store's file. Not for use by several threads at once.

    Args:
        path: the file.
        say: is told in one line what somebody should know: that the file is waited for, or what was lost.
    """

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self.path, self.say = path, say
        self.before_write: Callable[[Cursor], None] = lambda con: None
        """Is called with the file, just opened to be written, before anything else is done with it."""
        self.before_open: Callable[[], None] = lambda: None
        """Is called before the file is opened, however that ends."""
        self._shared: Cursor | None = None
        """Of the `reading` or `writing` that is under way."""
        self._can_write = False
        """Whether that may write."""

    @contextlib.contextmanager
    def reading(self) -> Iterator[Cursor]:
        """To read; within it all readings share one opening of the file, and so see the same moment.

        Raises:
            StoreBusy: another process kept the store for `LOCK_SECONDS`.
            StoreError: the store cannot be read.
        """
        with self._opened_for_all(read_only=True, wait=None) as con:
            yield con

    @contextlib.contextmanager
    def writing(self, wait: float | None = None) -> Iterator[Cursor]:
        """To read and to write; within it all readings and transactions share one opening of the file.

        wait: as of `transaction`.

        Raises:
            StoreBusy, StoreError: as `transaction`.
        """
        with self._opened_for_all(read_only=False, wait=wait) as con:
            yield con

    @contextlib.contextmanager
    def _opened_for_all(self, *, read_only: bool, wait: float | None) -> Iterator[Cursor]:
        with self.opened(read_only=read_only, wait=wait) as con:
            before = self._shared, self._can_write
            self._shared, self._can_write = con, self._can_write or not read_only
            try:
                yield con
            finally:
                self._shared, self._can_write = before

    @contextlib.contextmanager
    def transaction(self, wait: float | None = None) -> Iterator[Cursor]:
        """To write, all or nothing.

        wait: seconds for another process to let go of the file, `LOCK_SECONDS` if not given.

        Raises:
            StoreBusy: another process kept the store for so long.
            StoreError: the store cannot be written.
        """
        with self.opened(read_only=False, wait=wait) as con, committed(con):
            yield con

    @contextlib.contextmanager
    def opened(self, *, read_only: bool, wait: float | None = None) -> Iterator[Cursor]:
        """The file, opened for this or for what this is within; outside of a transaction each statement is one.

        Raises:
            StoreBusy, StoreError: as `transaction`.
        """
        if self._shared is not None and (read_only or self._can_write):
            with self._explained():
                yield self._shared
            return
        self.before_open()
        wait = LOCK_SECONDS if wait is None else wait
        deadline = time.monotonic() + wait
        if not _process_lock.acquire(timeout=wait):
            raise StoreBusy(f"store {self.path} is in use by another thread; wait for it and try again")
        try:
            with ExitStack() as stack, self._explained():
                con = self._wait_for(stack, read_only, deadline, wait)
                if not read_only:
                    self.before_write(con)
                yield con
        finally:
            _process_lock.release()

    @property
    def is_shared(self) -> bool:
        """Whether a `reading` or `writing` is under way."""
        return self._shared is not None

    def is_waited_for(self) -> bool:
        """Whether a process has waited to write for a while."""
        return is_signed(self._signature)

    @property
    def _signature(self) -> Path:
        return self.path.parent / f".{self.path.name}.writer"

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """What the engine raises within it, but for wrong statements, as `StoreError`."""
        try:
            yield
        except STATEMENT_ERRORS:
            raise
        except duckdb.Error as error:
            raise StoreError(_trouble(self.path, error)) from error

    def _wait_for(self, stack: ExitStack, read_only: bool, deadline: float, wait: float) -> Cursor:
        """Opens the file until `stack` ends, trying again until the deadline while somebody else has it.

        A log that is damaged is set aside, which is said. Who has to write signs the store while it waits, and nobody
        begins to read meanwhile: else readers that take turns would keep it out for ever.
        """
        pause, is_told, is_signing = 0.01, False, False
        log, signature = Path(f"{self.path}.wal"), self._signature
        with ExitStack() as signs:
            while True:
                file_number = _file_number(log)
                try:
                    if not self.path.is_file():
                        kind = "is a folder, not a league store" if self.path.is_dir() else "is gone or no file"
                        raise StoreError(f"{self.path} {kind}; pass another --store")
                    if read_only and is_signed(signature):
                        holder = "a process that waits to write"
                    else:
                        return stack.enter_context(connect(self.path, read_only))
                except duckdb.Error as error:
                    if _is_damaged(log, error) and self._set_aside(log, file_number, error):
                        continue
                    if not any(sign in str(error) for sign in _BUSY_SIGNS):
                        raise StoreError(_trouble(self.path, error)) from None
                    holder = _holder(str(error))
                left = deadline - time.monotonic()
                if pause > left:
                    raise StoreBusy(
                        f"store {self.path} is held by {holder} (waited {wait:g} s); let it finish or end it, then try"
                        f" again"
                    ) from None
                if not (read_only or is_signing) and wait > PATIENCE_SECONDS:
                    signs.enter_context(signed(signature))
                    is_signing = True
                if wait - left > PATIENCE_SECONDS and not is_told:
                    self.say(f"waiting for store {self.path}, held by {holder}, for at most {left:.0f} s")
                    is_told = True
                time.sleep(pause)
                pause = min(pause * 1.5, 0.2)

    def _set_aside(self, log: Path, file_number: int | None, error: duckdb.Error) -> bool:
        """Renames the log that could not be replayed, so that the store opens without it; it is never deleted.

        file_number: of that log. Where another process was faster there is another log now, or none: that one stays.
        """
        if file_number is None or _file_number(log) != file_number:
            return file_number is not None
        aside = log.with_name(f"{log.name}.bad-{now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}")
        try:
            size = log.stat().st_size
            log.rename(aside)
        except OSError:
            return False
        self.say(
            f"store {self.path}: its log cannot be replayed ({first_line(error)}), so what was written since the last"
            f" checkpoint is lost; `league resume` says what a run misses. The log is kept: {aside.name} ({size} bytes)"
        )
        return True


@contextlib.contextmanager
def committed(con: Cursor) -> Iterator[None]:
    """One transaction, which is undone where something is raised within it."""
    con.begin()
    try:
        yield
        con.commit()
    except BaseException:
        with contextlib.suppress(duckdb.Error):  # it is undone already, or with the file's being closed
            con.rollback()
        raise


@contextlib.contextmanager
def draft(path: Path) -> Iterator[Cursor]:
    """A new database at `path`, where no other process looks for one."""
    with _process_lock, connect(path) as con:
        yield con


@contextlib.contextmanager
def connect(path: Path, read_only: bool = False) -> Iterator[Cursor]:
    """Within it a connection to the file, whose settings nobody can change. Only for the holder of `_process_lock`.

    Starting DuckDB takes ten times as long as attaching a file to it, so it is kept for the next time.

    Raises:
        StoreError: as `check_path`.
        duckdb.Error: the file cannot be opened, or is open in the other mode.
    """
    check_path(path)
    key = os.getpid(), os.path.abspath(path)
    if key in _attached:
        if _attached[key] != read_only:
            raise duckdb.ConnectionException(f"{path} is open in this process with a different configuration")
        with contextlib.closing(_engines[key].cursor()) as con:
            con.execute("USE store")
            yield con
        return
    with _ended_on_error(key):
        if key not in _engines:
            _end_idle()
            _engines[key] = _engine(key[1])
        _engines[key].execute(f"ATTACH {_quoted(key[1])} AS store (READ_{'ONLY' if read_only else 'WRITE'}); USE store")
    _attached[key] = read_only
    try:
        yield _engines[key]
    finally:
        del _attached[key]
        with contextlib.suppress(duckdb.Error), _ended_on_error(key):  # a transaction is not over, or the disk is full
            _engines[key].execute("USE memory; DETACH store")


@atexit.register
def _end_idle() -> None:
    """Ends what is kept. Before this process ends: threads of DuckDB's that outlive Python may abort it."""
    for key in [key for key in _engines if key[0] == os.getpid() and key not in _attached]:
        _engines.pop(key).close()


@contextlib.contextmanager
def _ended_on_error(key: tuple[int, str]) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        if key in _engines:
            _engines.pop(key).close()
        if isinstance(error, MemoryError):
            raise duckdb.OutOfMemoryException(str(error)) from None
        raise


def _engine(path: str) -> Cursor:
    """DuckDB without a file, which may reach that at `path` and its logs alone."""
    con = duckdb.connect(config=_CONFIG)
    files = ", ".join(_quoted(path + suffix) for suffix in ("", ".wal", ".wal.checkpoint", ".wal.recovery"))
    con.execute(f"SET allowed_paths = [{files}]; SET enable_external_access = false")
    if con.execute("SELECT current_setting('enable_progress_bar')").fetchall()[0][0]:
        con.execute("SET enable_progress_bar = false")  # fails in a notebook without ipywidgets, which has none
    con.execute("SET lock_configuration = true")
    return con


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def select(con: Cursor, name: str, /, **values: Any) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The columns and the rows of a named query with its parameters."""
    found = con.execute(sql(name), values)
    return [column[0] for column in found.description or ()], found.fetchall()


def select_rows(con: Cursor, kind: type[Row], name: str, /, **values: Any) -> list[Row]:
    """The rows of a named query whose columns are called as the fields of `kind`."""
    columns, found = select(con, name, **values)
    return [from_columns(kind, columns, row) for row in found]


def first_line(error: BaseException) -> str:
    """The beginning of an error that may be long."""
    return str(error).strip().split("\n", 1)[0]


def check_path(path: Path) -> None:
    """Refuses a path that DuckDB cannot open.

    Raises:
        StoreError: it is no UTF-8.
    """
    try:
        os.path.abspath(path).encode()
    except UnicodeEncodeError:
        raise StoreError(
            f"store {path}: DuckDB takes only paths that are UTF-8; rename the folder, or pass another --store"
        ) from None


def _file_number(path: Path) -> int | None:
    """The inode; None where there is no file."""
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _holder(text: str) -> str:
    held = re.search(r"PID (\d+)", text)
    return f"process {held[1]}" if held else "another user"


def _is_damaged(log: Path, error: duckdb.Error) -> bool:
    """Whether an error proves that the log's bytes are wrong, or another file's."""
    text = first_line(error).replace(str(log), "").replace(str(log.resolve()), "")
    return bool(_REPLAY_FAILED.search(text) and _PROOF_OF_DAMAGE.search(text))


def _trouble(path: Path, error: duckdb.Error) -> str:
    """What to say of a store that cannot be opened or used."""
    text = first_line(error)
    said = text.replace(str(path), "").replace(str(path.resolve()), "")
    if isinstance(error, duckdb.OutOfMemoryException) or "llocat" in said:
        return f"store {path}: too little memory to use it ({text}); nothing was changed; free some and try again"
    if _REPLAY_FAILED.search(said):
        return (
            f"store {path} cannot replay its log ({text}); nothing was changed; try again, or move {path}.wal aside to"
            f" open it without its last writes"
        )
    if "not a valid DuckDB" in said or "extension" in said:
        return f"{path} is not a league store; pass another --store"
    if "version number" in said:
        return f"store {path} was written by a newer DuckDB ({text}); install that, or pass another --store"
    return f"store {path} cannot be used ({text}); free space or rights, restore a copy, or pass another --store"
