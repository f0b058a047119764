"""Queries that somebody typed: one read, of bounded time and size, of nothing but the store's rows."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from league.errors import StoreError, UsageError, nearest
from league.store.segments import first_line, quoted
from league.store.view import Cursor, DatabaseError, FileError, Interrupted

QUERY_SECONDS = 30.0
_POLL_SECONDS = 0.2
MAX_QUERY_ROWS = 1_000_000
MAX_QUERY_CHARACTERS = 100_000
"""DuckDB's parser cannot be interrupted, and takes minutes for megabytes of SQL."""
MAX_QUERY_BYTES = 2**28
"""Of a result's rows as text; the engine's own memory limit does not count what Python holds."""
ZONED = "TIME ZONE"
_NO_TABLE = re.compile(r"Table with name (\S+) does not exist")
_ROWS_AT_ONCE = 256


def ask(con: Cursor, statement: str, limit: int | None, seconds: float) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Runs one SELECT or EXPLAIN on a read-only connection (`Reader.query`); the columns' names and the rows.

    Raises:
        UsageError: it is not one read, not SQL, or its result is too large.
        StoreError: it took too long.
    """
    try:
        is_select = _refuse_all_but_a_read(con, statement)
        with _timed(con, seconds):
            if is_select:  # within another query nothing writes, as COPY and DELETE in WITH would
                con.execute(f"EXPLAIN FROM query({quoted(statement)})")
            result = con.execute(statement)
            columns = [column[0] for column in result.description or ()]
            for column, kind, *_ in result.description or ():
                if ZONED in str(kind).upper():  # which Python shows with a library that is not there
                    raise UsageError(
                        f"the query's column {column} has times with zones; cast them, as in now()::TIMESTAMP"
                    )
            rows = _fetch(result, MAX_QUERY_ROWS + 1 if limit is None else limit)
    except Interrupted:
        raise StoreError(f"the query was stopped: it took longer than {seconds:g} s; ask for less") from None
    except (OverflowError, ValueError) as error:
        raise UsageError(
            f"the query's result has a value that cannot be shown ({first_line(error)}); cast it, as in x::VARCHAR"
        ) from None
    except DatabaseError as error:
        if isinstance(error, FileError) or type(error) is DatabaseError:
            raise  # the file, not the statement
        raise UsageError(f"the query was refused: {_with_names(con, error)}; mend the statement") from None
    if len(rows) > MAX_QUERY_ROWS:
        raise UsageError(f"the query's result has more than {MAX_QUERY_ROWS:,} rows; add LIMIT")
    return columns, rows


def _with_names(con: Cursor, error: Exception) -> str:
    """DuckDB's first line, and for a table or column that is not there those that are."""
    line, *more = str(error).strip().splitlines()
    if found := _NO_TABLE.search(line):
        tables = [name for (name,) in con.execute("SHOW TABLES").fetchall()]
        return f"there is no table `{found[1]}`{nearest(found[1], tables)}"
    return f"{line} {more[0]}" if more and more[0].startswith("Candidate bindings") else line


@contextmanager
def _timed(con: Cursor, seconds: float) -> Iterator[None]:
    """Within it the connection is interrupted once it has taken too long, until it heeds that."""
    is_over = threading.Event()

    def watch() -> None:
        if not is_over.wait(seconds):
            con.interrupt()
            while not is_over.wait(_POLL_SECONDS):
                con.interrupt()

    callback = threading.Thread(target=watch, daemon=True)
    callback.start()
    try:
        yield
    finally:
        is_over.set()
        callback.join()


def _fetch(result: Cursor, most: int) -> list[tuple[Any, ...]]:
    """The first `most` rows."""
    rows: list[tuple[Any, ...]] = []
    size = 0
    while len(rows) < most:
        found = result.fetchmany(min(_ROWS_AT_ONCE, most - len(rows)))
        if not found:
            break
        rows += found
        size += sum(map(_size, found))
        if size > MAX_QUERY_BYTES:
            raise UsageError(f"the query's result is larger than {MAX_QUERY_BYTES // 2**20} MiB; ask for less")
    return rows


def _size(value: Any) -> int:
    """About the bytes of a value as text, nested ones with all that is in them."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        return 8 + sum(_size(key) + _size(item) for key, item in value.items())
    return 8 + (sum(map(_size, value)) if isinstance(value, list | tuple) else 0)


def _refuse_all_but_a_read(con: Cursor, statement: str) -> bool:
    """Returns whether it is a SELECT, else it is an EXPLAIN."""
    if len(statement) > MAX_QUERY_CHARACTERS:
        raise UsageError(
            f"the query has {len(statement):,} characters, more than {MAX_QUERY_CHARACTERS:,}; ask in several"
        )
    try:
        statement.encode()  # DuckDB takes no text that UTF-8 cannot hold
        kinds = [found.type.name for found in con.extract_statements(statement)]
    except ValueError as error:  # or it is of a kind that DuckDB's Python names have not got
        raise UsageError(f"a query reads: SELECT or EXPLAIN; this is something else ({error})") from None
    if len(kinds) != 1:
        raise UsageError(f"a query is one statement, not {len(kinds)}; pass one SELECT")
    if kinds[0] not in ("SELECT", "EXPLAIN"):
        raise UsageError(f"a query reads: SELECT or EXPLAIN, not {kinds[0]}; the store is changed by `league` alone")
    if kinds[0] == "EXPLAIN" and re.search("analy[sz]e", statement, re.IGNORECASE):  # it runs what it explains
        raise UsageError("a query reads: SELECT, or EXPLAIN without ANALYZE")
    return kinds[0] == "SELECT"
