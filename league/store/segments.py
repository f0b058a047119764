"""Segments: rows of one kind as an immutable Parquet file, and the list of those that count.

A segment is written under another name and renamed, so that it is whole or not there. It counts from when a listing
names it, with its number of rows and its sha256, which every reader compares.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Self

import duckdb
from pydantic import Field, model_validator

from league.errors import StoreError
from league.phases import phase
from league.schema import FrozenModel, Natural, open_regular
from league.store.codec import KINDS, Columns, as_arrays, encoded, rule_of
from league.store.files import replace_whole, sync, temporary
from league.store.rows import AgentRow, GameRow, SnapshotRow

FORMAT = 1
"""Of everything in a store's folders; raised where an older reader would misread them."""
LISTING, ROWS = "segments.json", "rows"
"""In an owner's folder: the list of the segments that count, and the folder that has them."""
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


class Listing(FrozenModel):
    """What counts of an owner's rows: the segments by kind, in their order, and the rows that are too few for files."""

    format: int = FORMAT
    segments: dict[str, tuple[Segment, ...]] = Field(default_factory=dict)
    snapshots: tuple[SnapshotRow, ...] = ()
    agents: tuple[AgentRow, ...] = ()
    games: tuple[GameRow, ...] = ()

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        listed = [(kind, segment) for kind, segments in self.segments.items() for segment in segments]
        if len(self.names) < len(listed) or any(segment.kind != kind or kind not in KINDS for kind, segment in listed):
            raise ValueError("a segment is listed twice, or as another kind")
        return self

    @property
    def names(self) -> set[str]:
        """Of all segments."""
        return {segment.name for segments in self.segments.values() for segment in segments}

    def num_rows(self, kind: str) -> int:
        """Rows of one kind in segments."""
        return sum(segment.rows for segment in self.segments.get(kind, ()))


def listing_of(content: Mapping[str, Any]) -> Listing:
    """The listing that a saved state covers.

    Raises:
        ValueError: it is damaged.
    """
    return Listing.model_validate_json(json.dumps(content))


def write_listing(folder: Path, listing: Listing) -> None:
    """Replaces the listing of an owner's folder.

    Raises:
        OSError: the disk refuses; the old one stands.
    """
    replace_whole(folder / LISTING, listing.model_dump_json().encode())


@phase("write rows")
def write_segment(folder: Path, kind: str, number: int, rows: Sequence[Columns]) -> Segment:
    """Writes rows of one kind as segment `number`; it counts once a listing names it.

    Raises:
        StoreError: the disk refuses; nothing is left.
    """
    con = _engine()
    con.register("batch", as_arrays(kind, rows))
    try:
        return write_query(con, folder, kind, number, f"SELECT {encoded(kind)} FROM batch", len(rows))
    finally:
        con.unregister("batch")


@phase("merge rows")
def merge(folder: Path, kind: str, number: int, segments: Sequence[Segment]) -> Segment:
    """Writes the rows of several segments as one, synced.

    Raises:
        StoreError: the disk refuses, or a segment cannot be read; nothing is left.
    """
    files = ", ".join(pattern(folder / ROWS / segment.name) for segment in segments)
    columns = ", ".join(quoted_name(column) for column in KINDS[kind])
    total = sum(segment.rows for segment in segments)
    merged = write_query(_engine(), folder, kind, number, f"SELECT {columns} FROM read_parquet([{files}])", total)
    sync_rows(folder / ROWS / merged.name)
    return merged


def rows_of(folder: Path, kind: str, segments: Sequence[Segment]) -> list[Columns]:
    """The rows of segments, in their order.

    Raises:
        StoreError: one cannot be read.
    """
    found: list[Columns] = []
    for segment in segments:
        try:
            columns = ", ".join(map(quoted_name, KINDS[kind]))
            file = pattern(folder / ROWS / segment.name)
            rows = _engine().execute(f"SELECT {columns} FROM read_parquet({file})").fetchall()
        except duckdb.Error as error:
            raise StoreError(f"{folder / ROWS / segment.name}: cannot be read ({error}); put it back") from None
        found += [dict(zip(KINDS[kind], row, strict=True)) for row in rows]
    return found


def sync_rows(path: Path) -> None:
    """Makes a segment, or the names in a folder of them, durable.

    Raises:
        StoreError: the disk refuses.
    """
    try:
        with phase("sync a file"):
            sync(path)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; see to its disk, then try again") from None


def numbers(folder: Path) -> dict[str, int]:
    """Kind -> the highest number of a segment's file, whether or not it counts."""
    found: dict[str, int] = {}
    with suppress(FileNotFoundError, NotADirectoryError):
        for name in sorted(os.listdir(folder / ROWS)):
            if match := _NAME.fullmatch(name):
                found[match[1]] = max(found.get(match[1], 0), int(match[2]))
    return found


def remove(folder: Path, names: Iterable[str]) -> None:
    """Removes segments that nothing names any more; what cannot go stays for the next time."""
    for name in names:
        with suppress(OSError):
            (folder / ROWS / name).unlink()


def damage(path: Path, segment: Segment, run: str | None = None) -> str:
    """What is wrong with the file of a listed segment; empty: nothing.

    run: whose its rows must be; None: of several.
    """
    try:
        with open_regular(path) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return f"{path}: {error.strerror}"
    if digest != segment.sha256:
        return f"{path}: damaged, or another file (its sha256 differs)"
    source, con = f"FROM read_parquet({pattern(path)})", _engine()
    try:
        columns = {name: kind for name, kind, *_ in con.execute(f"DESCRIBE {source}").fetchall()}
        if columns != {name: column.sql for name, column in KINDS[segment.kind].items()}:
            return f"{path}: its columns are not those of a {segment.kind}"
        of = rule_of(segment.kind) + ("" if run is None else f" AND run = {quoted(run)}")
        [counts] = con.execute(f"SELECT count(*), count(*) FILTER ({of}) {source}").fetchall()
    except duckdb.Error as error:
        return f"{path}: cannot be read ({str(error).strip().splitlines()[0]})"
    return "" if counts == (segment.rows, segment.rows) else f"{path}: it has rows that cannot be"


def quoted(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def pattern(path: str | os.PathLike[str]) -> str:
    """In SQL the pattern that this path alone matches: `[1]` in it would stand for `1`, too."""
    return quoted(re.sub(r"([*?\[])", r"[\1]", os.fspath(path)))


def quoted_name(name: str) -> str:
    """A column's name in SQL."""
    return f'"{name}"'


def write_query(
    con: duckdb.DuckDBPyConnection, folder: Path, kind: str, number: int, query: str, num_rows: int
) -> Segment:
    """Writes what a query gives, `num_rows` rows of a kind's columns, as a segment.

    Raises:
        StoreError: the disk refuses; nothing is left.
    """
    path = folder / ROWS / f"{kind}-{number:06d}.parquet"
    draft = temporary(path)
    try:
        path.parent.mkdir(exist_ok=True)
        con.execute(f"COPY ({query}) TO {quoted(str(draft))} (FORMAT parquet, COMPRESSION zstd)")
        with draft.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.rename(draft, path)
    except (OSError, duckdb.Error) as error:
        with suppress(OSError):
            draft.unlink()
        reason = getattr(error, "strerror", None) or str(error).strip().split("\n", 1)[0]
        raise StoreError(f"{path}: cannot be written ({reason}); see to its disk and rights, then try again") from None
    return Segment(name=path.name, rows=num_rows, sha256=digest)


def _engine() -> duckdb.DuckDBPyConnection:
    key = os.getpid(), threading.get_ident()
    if key not in _engines:
        _engines[key] = duckdb.connect(config={"threads": 1, "autoinstall_known_extensions": False})
    return _engines[key]
