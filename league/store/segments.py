"""Segments: rows of one kind as an immutable Parquet file, and the list of those that count.

A segment is written under another name and renamed, so that it is whole or not there. It counts from when a listing
names it, with its number of rows and its sha256, which every reader compares. What the disk refuses is a `StoreError`.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import duckdb
import numpy.typing as npt
from pydantic import Field

from league.errors import StoreError, UsageError
from league.runtime.disk import sync, temporary_beside
from league.runtime.phases import phase
from league.store.codec import KINDS, Columns, as_arrays, encoded, quoted_name, rule_of
from league.store.files import told
from league.types.schema import FrozenModel, Natural, open_regular

ROWS = "rows"
"""In an owner's folder the folder that has its segments."""
_NAME = re.compile(r"([a-z]+)-(\d{6,})\.parquet")
_engines: dict[tuple[int, int], duckdb.DuckDBPyConnection] = {}
"""DuckDB without a file, by process and thread: what a fork inherits is not for its use."""


class Segment(FrozenModel):
    """One file of rows."""

    name: Annotated[str, Field(pattern=r"^[a-z]+-\d{6,}\.parquet$")]
    rows: Natural
    sha256: str

    @property
    def kind(self) -> str:
        """Of its rows."""
        return self.name.partition("-")[0]


Listed = tuple[Path, Segment, str | None]
"""A segment's file, what a listing says of it, and whose its rows must be; None: of several."""


@phase("write rows")
def write_segment(folder: Path, kind: str, number: int, rows: Sequence[Columns]) -> Segment:
    """Writes rows of one kind as segment `number`; it counts once a listing names it."""
    with batch_of(con := _engine(), as_arrays(kind, rows)):
        return write_query(con, folder, kind, number, f"SELECT {encoded(kind)} FROM batch", len(rows))


@phase("merge rows")
def merge(folder: Path, kind: str, number: int, segments: Sequence[Segment]) -> Segment:
    """Writes the rows of several segments as one, synced."""
    total = sum(segment.rows for segment in segments)
    merged = write_query(_engine(), folder, kind, number, _read(folder, kind, segments), total)
    sync_rows(folder / ROWS / merged.name)
    return merged


def rows_of(folder: Path, kind: str, segments: Sequence[Segment]) -> list[Columns]:
    """The rows of whole segments, in their order."""
    found = _engine().execute(_read(folder, kind, segments)).fetchall() if segments else []
    return [dict(zip(KINDS[kind], row, strict=True)) for row in found]


def _read(folder: Path, kind: str, segments: Sequence[Segment]) -> str:
    files = ", ".join(pattern(folder / ROWS / segment.name) for segment in segments)
    return f"SELECT {', '.join(map(quoted_name, KINDS[kind]))} FROM read_parquet([{files}])"


def read_columns(path: Path) -> Columns:
    """The columns of a Parquet file that a user has, by name: a value for each row, None where there is none.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        found = _engine().execute(f"FROM read_parquet({pattern(path)})")
        names = [name for name, *_ in found.description or ()]
        return dict(zip(names, zip(*found.fetchall(), strict=True), strict=False))
    except duckdb.Error as error:
        raise UsageError(f"{path}: no Parquet file that can be read ({first_line(error)}); write it again") from None


def sync_rows(path: Path) -> None:
    """Makes a segment, or the names in a folder of them, durable."""
    with told(path, "cannot be synced"), phase("sync a file"):
        sync(path)


def numbers(folder: Path, listed: Iterable[str] = ()) -> dict[str, tuple[str, int]]:
    """Name of each segment's file, and of those listed, which may be gone -> its kind and number."""
    found = map(_NAME.fullmatch, [*listed, *(path.name for path in sorted((folder / ROWS).glob("*.parquet")))])
    return {match[0]: (match[1], int(match[2])) for match in found if match}


def damage(*listed: Listed) -> str:
    """What is wrong with the files of segments of one kind, of which one query asks; empty: nothing."""
    for path, segment, _ in listed:
        try:
            is_own = sha256_of(path) == segment.sha256
        except OSError as error:
            return f"{path}: {error.strerror}"
        if not is_own:
            return f"{path}: damaged, or another file (its sha256 differs)"
    (path, segment, _), con = listed[0], _engine()
    files, kind = ", ".join(pattern(path) for path, *_ in listed), segment.kind
    counts = f"count(*), count(*) FILTER ({rule_of(kind)}), min(run), max(run)"
    schemas = f"SELECT list((name, type, logical_type)) AS has FROM parquet_schema([{files}]) GROUP BY file_name"
    try:
        columns = {name: kind for name, kind, *_ in con.execute(f"DESCRIBE FROM read_parquet([{files}])").fetchall()}
        alike = con.execute(f"SELECT count(DISTINCT has) FROM ({schemas})").fetchall()
        if alike != [(1,)] or columns != {name: column.sql for name, column in KINDS[kind].items()}:
            return f"{path}: its columns are not those of a {kind}"
        source = f"read_parquet([{files}], filename = true)"
        found = con.execute(f"SELECT filename, {counts} FROM {source} GROUP BY filename").fetchall()
    except duckdb.Error as error:
        return f"{path}: cannot be read ({first_line(error)})"
    has = {file: told for file, *told in found}
    for path, segment, run in listed:
        num_rows, num_right, *runs = has.get(os.path.abspath(path), [0, 0, run, run])
        if not num_rows == num_right == segment.rows or (run is not None and runs != [run, run]):
            return f"{path}: it has rows that cannot be"
    return ""


def sha256_of(path: Path) -> str:
    """Of a regular file's bytes."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def first_line(error: BaseException) -> str:
    """The beginning of an error that may be long."""
    return str(error).strip().split("\n", 1)[0]


@contextmanager
def batch_of(con: duckdb.DuckDBPyConnection, arrays: Mapping[str, npt.NDArray[Any]]) -> Iterator[None]:
    """Arrays as the table `batch`."""
    con.register("batch", arrays)
    try:
        yield
    finally:
        con.unregister("batch")


def quoted(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def pattern(path: str | os.PathLike[str]) -> str:
    """In SQL the pattern that this path alone matches: `[1]` in it would stand for `1`, too."""
    return quoted(re.sub(r"([*?\[])", r"[\1]", os.path.abspath(path)))


def write_query(
    con: duckdb.DuckDBPyConnection, folder: Path, kind: str, number: int, query: str, num_rows: int
) -> Segment:
    """Writes what a query gives, `num_rows` rows of a kind's columns, as a segment."""

    def write(draft: Path) -> None:
        con.execute(f"COPY ({query}) TO {quoted(os.path.abspath(draft))} (FORMAT parquet, COMPRESSION zstd)")

    return _written(folder, kind, number, num_rows, write)


def place_segment(folder: Path, segment: Segment, number: int, data: bytes) -> Segment:
    """Writes the bytes of a segment of another folder as segment `number` of this one."""
    return _written(folder, segment.kind, number, segment.rows, lambda draft: draft.write_bytes(data))


def _written(folder: Path, kind: str, number: int, num_rows: int, write: Callable[[Path], object]) -> Segment:
    path = folder / ROWS / f"{kind}-{number:06d}.parquet"
    draft = temporary_beside(path)
    try:
        path.parent.mkdir(exist_ok=True)
        write(draft)
        digest = sha256_of(draft)
        os.rename(draft, path)
    except (OSError, duckdb.Error) as error:
        with suppress(OSError):
            draft.unlink()
        reason = getattr(error, "strerror", None) or first_line(error)
        raise StoreError(f"{path}: cannot be written ({reason}); see to its disk and rights, then try again") from None
    return Segment(name=path.name, rows=num_rows, sha256=digest)


def _engine() -> duckdb.DuckDBPyConnection:
    key = os.getpid(), threading.get_ident()
    if key not in _engines:
        _engines[key] = duckdb.connect(config={"threads": 1, "autoinstall_known_extensions": False})
    return _engines[key]
