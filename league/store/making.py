"""Making a store, and bringing one of before up to the newest schema."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Sequence
from pathlib import Path

from league.errors import StoreError, command
from league.store.codec import naive
from league.store.connection import (
    Connection,
    Cursor,
    FileError,
    NoSuchTable,
    StoreBusy,
    check_path,
    committed,
    draft,
    first_line,
)
from league.store.rows import now
from league.store.sql import Migration, migrations, sql


def make(path: Path) -> None:
    """Builds a store beside `path` and moves it there, so that whatever lies at `path` is always whole.

    Raises:
        StoreError: nothing can be written there.
    """
    check_path(path)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft(beside) as con, committed(con):  # nobody knows the file yet
            for migration in migrations():
                _apply(con, migration)
        try:
            os.link(beside, path)
        except FileExistsError:
            pass  # another process was first, and its store is whole too
        except OSError:
            if not path.exists():  # a file system without hard links
                beside.rename(path)
    except (OSError, FileError) as error:
        raise StoreError(f"no store can be made at {path}: {first_line(error)}; pass another --store") from None
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()


def bring_up_to_date(connection: Connection) -> None:
    """Applies the migrations that a store lacks.

    Raises:
        StoreError: it is no store, of a newer league, cut off, damaged or busy.
    """
    path, newest = connection.path, migrations()[-1].number
    number = schema_of(connection)
    if number < newest:
        try:
            with connection.opened(read_only=False) as con:
                done = _schema_number(con, path)  # another process may have been here since
                _migrate(con, [migration for migration in migrations() if migration.number > done])
        except StoreBusy:
            raise
        except StoreError as error:
            raise StoreError(f"{error} (it has schema {number}, and this league must write {newest} into it)") from None


def check_up_to_date(connection: Connection) -> None:
    """Refuses a store that would have to be written before it is read.

    Raises:
        StoreError: as `bring_up_to_date`, or it is of an older league.
    """
    if schema_of(connection) < migrations()[-1].number:
        first = command("runs", store=connection.path)
        raise StoreError(f"store {connection.path} is of an older league; {first} brings it up to date")


def schema_of(connection: Connection) -> int:
    """How many migrations a store has.

    Raises:
        StoreError: it is no store, of a newer league, cut off, damaged or busy.
    """
    path, newest = connection.path, migrations()[-1].number
    with connection.reading() as con:
        number = _schema_number(con, path)
        used = con.execute(sql("used_bytes")).fetchone()
        size = path.stat().st_size
    if used is not None and size < used[0]:
        raise StoreError(
            f"store {path} is cut off ({size:,} of {used[0]:,} bytes); restore a copy, or pass another --store"
        )
    if number > newest:
        raise StoreError(
            f"store {path} has schema {number}, this league knows {newest}; install a newer one, or pass --store"
        )
    return number


def _migrate(con: Cursor, missing: Sequence[Migration]) -> None:
    """Applies migrations, each in one transaction with its record."""
    for migration in missing:
        with committed(con):
            _apply(con, migration)
        con.execute("CHECKPOINT")


def _apply(con: Cursor, migration: Migration) -> None:
    con.execute(migration.text)
    record = {"number": migration.number, "name": migration.name, "applied_at": naive(now())}
    con.execute(sql("record_migration"), record)


def _schema_number(con: Cursor, path: Path) -> int:
    try:
        row = con.execute(sql("schema_number")).fetchone()
    except NoSuchTable:
        row = None
    if row is None or not isinstance(row[0], int):
        raise StoreError(f"{path} is a DuckDB file but not a league store; pass another --store")
    return row[0]
