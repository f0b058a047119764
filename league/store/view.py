"""The store as tables: what the folders of all owners say, as DuckDB in memory has it.

Rows of runs, agents, snapshots and the like are read from the folders' JSON files; those of matches, metrics, ratings,
events and replays are views of the segments that the listings name. Nothing here writes into a store but the
catalogue, which is never read. Beside `segments.py` only this module imports duckdb.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from league.errors import StoreError
from league.runtime.disk import temporary_beside
from league.store.codec import KINDS, Row, from_columns, quoted_name, storable
from league.store.files import CATALOGUE, told
from league.store.locks import LOCK, is_held
from league.store.owner import (
    CONFIG,
    DECISION,
    IDENTITY,
    LISTING,
    PRUNED,
    STATUS,
    Configured,
    Decided,
    Identity,
    Listing,
    Owner,
    Pruned,
    Status,
    moment_text,
    newest_config,
    read,
    rows_of_tables,
)
from league.store.segments import ROWS, Listed, Segment, damage, first_line, pattern, quoted
from league.store.sql import sql

Cursor = duckdb.DuckDBPyConnection
DatabaseError = duckdb.Error
FileError = duckdb.IOException
Interrupted = duckdb.InterruptException
STATEMENT_ERRORS = (duckdb.ProgrammingError, duckdb.IntegrityError, duckdb.DataError)
"""The statement or its values are wrong, not the files."""
_IMPOSSIBLE = (*STATEMENT_ERRORS, OverflowError)
"""What values raise that no table can have; the last one is of moments before the year 1 or after 9999 in UTC."""
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "threads": 2,
    "memory_limit": "1GB",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "temp_directory": "",
}
_OF_ONE_OWNER = frozenset(
    {
        *("matches", "games_played", "training_games", "training_seats", "endings", "reward_terms"),
        *("metrics", "metric_curves", "events", "replay_content", "alarm_training", "alarm_passivity"),
    }
)
"""Queries of which one run's rows are all that they read, where they are given a run."""
_engines: dict[int, Cursor] = {}
"""DuckDB in memory, by process: what a fork inherits is not for its use."""
_checked: dict[tuple[str, int, int, str], str] = {}
"""Path, size, time and expected sha256 of a segment -> what is wrong with it, so that it is read once."""


class View:
    """The tables of one store. Not for use by several threads at once.

    Args:
        folder: the store.
        say: receives a line about each folder and segment that is left out, once.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.path, self.say = folder, say
        self._owners: dict[str, tuple[object, Owner | None]] = {}
        """Folder's name -> what its files looked like, and what they said."""
        self._told: dict[str, None] = {}
        self._con: Cursor | None = None
        self._pid = 0
        self._depth = 0
        self._shown: list[Owner] = []
        self._filled: dict[str, str] = {}
        """Table -> its rows as JSON, so that those that stay are not made again."""
        self._made: dict[str, list[str]] = {}
        """Kind -> the files that its view is of."""
        self._scopes: dict[str, str | None] = {}
        """Kind whose files were looked at in this reading -> the one owner whose they are; None: of all."""

    @contextlib.contextmanager
    def reading(self) -> Iterator[Cursor]:
        """Within it all readings see the same moment."""
        with _explained(self.path):
            if self._depth == 0 or self._con is None:
                self._refresh()
            self._depth += 1
            try:
                assert self._con is not None
                yield self._con
            finally:
                self._depth -= 1

    def looks(self) -> object:
        """What all folders look like: the same where nothing has changed."""
        with self.reading():
            return tuple(sorted((name, looks) for name, (looks, _) in self._owners.items()))

    def owners(self) -> list[Owner]:
        """All owners, by their numbers."""
        with self.reading():
            return list(self._shown)

    def select(self, name: str, /, **values: Any) -> list[tuple[Any, ...]]:
        """The rows of a named query with its parameters."""
        return self._select(name, values)[1]

    def select_rows(self, kind: type[Row], name: str, /, **values: Any) -> list[Row]:
        """The rows of a named query whose columns are called as the fields of `kind`."""
        columns, found = self._select(name, values)
        return [from_columns(kind, columns, row) for row in found]

    def _select(self, name: str, values: dict[str, Any]) -> tuple[list[str], list[tuple[Any, ...]]]:
        try:
            return self.execute(sql(name), values, only=values.get("run") if name in _OF_ONE_OWNER else None)
        except duckdb.DataError as error:
            raise StoreError(
                f"store {self.path}: it holds what cannot be ({first_line(error)}); put its files back from a copy"
            ) from error

    def execute(
        self, statement: str, values: dict[str, Any] | None = None, only: str | None = None
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The columns and the rows of a statement; `only` as of `cursor`."""
        with self.reading():
            given = {name: storable(value) for name, value in (values or {}).items()}
            found = self.cursor(statement, only).execute(statement, given)
            return [column[0] for column in found.description or ()], found.fetchall()

    def cursor(self, statement: str, only: str | None = None) -> Cursor:
        """What runs a statement, within `reading`: the views that it names are made.

        only: the owner whose segments they are of, where there is one of that name; else they are of all.
        """
        assert self._con is not None
        owner = next((owner for owner in self._shown if owner.identity.name == only), None)
        scope = None if owner is None else only
        for kind in KINDS:
            if _names(statement, kind) and self._scopes.get(kind, "") != scope:
                files = self._files(kind, self._shown if owner is None else [owner])
                if self._made.get(kind) != files:
                    _make_view(self._con, kind, files)
                self._made[kind], self._scopes[kind] = files, scope
        return self._con

    @contextlib.contextmanager
    def apart(self) -> Iterator[Cursor]:
        """The same tables in a DuckDB of their own, which can reach nothing but the segments, nor be configured."""
        with self.reading(), contextlib.closing(duckdb.connect(config=_CONFIG)) as con:
            files = self._build(con)
            paths = {how(file): None for file in files for how in (quoted, pattern)}  # it looks at both
            con.execute(f"SET allowed_paths = [{', '.join(paths)}]; SET enable_external_access = false")
            if con.execute("SELECT current_setting('enable_progress_bar')").fetchall()[0][0]:
                con.execute("SET enable_progress_bar = false")  # fails in a notebook without ipywidgets
            con.execute("SET lock_configuration = true")
            yield con

    def write_catalogue(self) -> None:
        """Replaces `league.duckdb`, which any DuckDB client opens; where it cannot be written the old one stays."""
        path = self.path / CATALOGUE
        draft = temporary_beside(path)
        with contextlib.suppress(StoreError, OSError), self.reading():
            try:
                with contextlib.closing(duckdb.connect(str(draft), config=_CONFIG)) as con:
                    self._build(con, is_checked=False)
                os.replace(draft, path)
            finally:
                with contextlib.suppress(OSError):
                    draft.unlink()

    # How the tables are made.

    def _refresh(self) -> None:
        """Reads the folders that have changed, and makes the tables anew where any has."""
        is_new = self._pid != os.getpid() or self._con is None
        if is_new:
            self._con, self._pid = _cursor(), os.getpid()
            weakref.finalize(self, _drop, self._con, self._pid).atexit = False
            self._con.execute(sql("make_tables"))
            self._filled, self._made = {}, {}
        self._scopes = {}
        found = self._scan()
        if not is_new and found == self._shown:
            return
        self._shown = found
        assert self._con is not None
        try:
            self._filled = _fill(self._con, found, self._filled)
        except _IMPOSSIBLE:
            self._shown = [owner for owner in found if self._fits(owner)]
            self._filled = _fill(self._con, self._shown, None)

    def _fits(self, owner: Owner) -> bool:
        """Whether the tables take what an owner's files say; if not, that is told."""
        assert self._con is not None
        try:
            _fill(self._con, [owner], None)
        except _IMPOSSIBLE as error:
            told = f"{owner.path}: it says what cannot be ({first_line(error)}), so it is left out"
            self._tell(f"{told}; put it back from a copy")
            return False
        return True

    def _scan(self) -> list[Owner]:
        looked: dict[str, tuple[object, Owner | None]] = {}
        entries: list[os.DirEntry[str]] = []
        with told(self.path, "cannot be read"), contextlib.suppress(FileNotFoundError):
            entries = sorted(os.scandir(self.path), key=lambda entry: entry.name)
        for entry in entries:
            try:
                if entry.name[0] == "." or not entry.is_dir():
                    continue
                names, looks = _looks(entry.path)
            except FileNotFoundError:  # it was removed just now
                continue
            except OSError as error:
                self._tell(f"{entry.path}: cannot be read ({error.strerror}), so it is left out; see to its rights")
                continue
            if IDENTITY not in names:
                if LISTING in names:
                    self._tell(f"{entry.path}: its {IDENTITY} is gone: it is left out; put the file back from a copy")
                continue
            old = self._owners.get(entry.name)
            looked[entry.name] = old if old is not None and old[0] == looks else (looks, self._read(entry.path, names))
        self._owners = looked
        found = [owner for _, owner in looked.values() if owner is not None]
        begun = {run for owner in found for run in owner.identity.learners}
        ready = [owner for owner in found if _has_begun(owner.identity, begun)]
        for owner in found:
            if owner.listing.segments and not _has_begun(owner.identity, begun):
                lost = f"{owner.path}: its league is gone: {owner.path.name} is left out"
                self._tell(f"{lost}; put the folder of the league back from a copy")
        return sorted(ready, key=lambda owner: (owner.identity.number, owner.identity.id))

    def _read(self, folder: str, names: Sequence[str]) -> Owner | None:
        path = Path(folder)
        try:
            if (identity := read(Identity, path / IDENTITY)) is None:
                return None
            if identity.name != path.name:
                raise StoreError(
                    f"{path}: it is {identity.kind} {identity.name} by its {IDENTITY}; name the folder {identity.name}"
                    f" in a store that has no other of that name"
                )
            pruned = read(Pruned, path / PRUNED)
            owner = Owner(
                path=path,
                identity=identity,
                configured=read(Configured, path / CONFIG.format(newest_config(names))),
                status=read(Status, path / STATUS),
                listing=read(Listing, path / LISTING) or Listing(segments={}),
                pruned={} if pruned is None else pruned.root,
                decided=read(Decided, path / DECISION),
            )
            if identity.kind == "run" and (owner.configured is None or owner.status is None):
                raise StoreError(f"{path}: it has no {'settings' if owner.configured is None else STATUS}")
            if any(snapshot.run != identity.name for snapshot in owner.listing.snapshots):
                raise StoreError(f"{path / LISTING}: it has snapshots of another run")
        except StoreError as error:
            told = f"{error}: {path.name} is left out"
            self._tell(told if "; " in told else f"{told}; put the file back from a copy")
            return None
        if LISTING not in names and (path / ROWS).is_dir() and _is_over(owner):
            self._tell(f"{path / LISTING}: it is gone: its rows are left out; put the file back from a copy")
        return owner

    def _build(self, con: Cursor, *, is_checked: bool = True) -> list[str]:
        """Makes all tables and views on another connection; the files that these read.

        is_checked: whether damaged segments are left out, for which all are read; else they are found when asked for.
        """
        con.execute(sql("make_tables"))
        _fill(con, self._shown, {})
        found = []
        for kind in KINDS:
            files = self._files(kind, self._shown, is_checked=is_checked)
            try:
                _make_view(con, kind, files)
            except DatabaseError:  # of one that is damaged
                files = self._files(kind, self._shown)
                _make_view(con, kind, files)
            found += files
        return found

    def _files(self, kind: str, owners: Sequence[Owner], *, is_checked: bool = True) -> list[str]:
        """The segments of a kind that count and are whole, or are there."""
        listed: list[Listed] = [
            (owner.path / ROWS / segment.name, segment, name)
            for owner in owners
            for name in [None if owner.identity.kind == "evaluations" else owner.path.name]
            for segment in owner.listing.segments.get(kind, ())
        ]
        if not is_checked:
            return [os.path.abspath(path) for path, *_ in listed if path.is_file()]
        new = [one for one in listed if _seen(*one[:2]) not in _checked]
        if new and not damage(*new):
            _checked.update((_seen(*one[:2]), "") for one in new)
        found = []
        for one in listed:
            if (key := _seen(*one[:2])) not in _checked:
                _checked[key] = damage(one)
            if wrong := _checked[key]:
                self._tell(f"{wrong}; its {one[1].rows:,} rows are left out")
            else:
                found.append(os.path.abspath(one[0]))
        return found

    def _tell(self, line: str) -> None:
        if line not in self._told:
            self._told[line] = None
            self.say(line)

    def left_out(self, name: str) -> str:
        """What was told of the folder of that name; empty: nothing."""
        path = self.path / name
        return next((line for line in self._told if line.startswith((f"{path}/", f"{path}:"))), "")


def _cursor() -> Cursor:
    """A database in memory, of its own, in this process's DuckDB."""
    key = os.getpid()
    if key not in _engines:
        _engines[key] = duckdb.connect(config=_CONFIG)
        _engines[key].execute("SET enable_progress_bar = false")
    con = _engines[key].cursor()
    name = f"view{next(_numbers)}"
    con.execute(f"ATTACH ':memory:' AS {name}; USE {name}")
    return con


def _drop(con: Cursor, pid: int) -> None:
    """Gives back what `_cursor` made, in the process that made it."""
    if pid == os.getpid():
        with contextlib.suppress(duckdb.Error):
            [(name,)] = con.execute("SELECT current_database()").fetchall()
            con.execute(f"USE memory; DETACH {name}")
            con.close()


_numbers = itertools.count()


def _looks(folder: str) -> tuple[list[str], object]:
    """The names of a folder's own files, and what tells them from what they were."""
    found = []
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.endswith(".json"):
            with contextlib.suppress(FileNotFoundError):  # a link that leads nowhere
                stat = entry.stat()
                found.append((entry.name, stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return [name for name, *_ in found], tuple(found)


def _is_over(owner: Owner) -> bool:
    """Whether nobody writes rows there any more."""
    return not is_held(owner.path / LOCK) if owner.status is None else owner.status.status != "running"


def _has_begun(identity: Identity, begun: set[str]) -> bool:
    """Whether an owner counts: a league's learner does once its league is there."""
    learner = identity.learner
    return learner is None or learner.league == learner.run or identity.id in begun


def _seen(path: Path, segment: Segment) -> tuple[str, int, int, str]:
    """What tells a file from what it was when it was checked."""
    try:
        stat = path.stat()
    except OSError:
        return str(path), -1, -1, segment.sha256
    return str(path), stat.st_size, stat.st_mtime_ns, segment.sha256


def _names(statement: str, kind: str) -> bool:
    return re.search(rf"\b{kind}\b" + (r"|\bevaluation_game\b" if kind == "match" else ""), statement) is not None


def _make_view(con: Cursor, kind: str, files: Sequence[str]) -> None:
    columns = ", ".join(map(quoted_name, KINDS[kind]))
    typed = ", ".join(f"NULL::{column.sql} AS {quoted_name(name)}" for name, column in KINDS[kind].items())
    query = f"SELECT {typed} WHERE false"
    if files:
        query += f" UNION ALL SELECT {columns} FROM read_parquet([{', '.join(map(pattern, files))}])"
    con.execute(f"CREATE OR REPLACE VIEW {kind} AS {query}")
    if kind == "match":
        con.execute(sql("make_evaluation_game"))


def _fill(con: Cursor, owners: Sequence[Owner], before: Mapping[str, str] | None) -> dict[str, str]:
    """The tables' rows in place of those `before` (None: of any), which are as JSON what is returned."""
    filled = {table: json.dumps(rows, default=moment_text) for table, rows in rows_of_tables(owners).items()}
    con.begin()
    try:
        for table, rows in filled.items():
            if before is not None and before.get(table, "[]") == rows:
                continue
            con.execute(f"DELETE FROM {quoted_name(table)}")
            told = con.execute(f"DESCRIBE {quoted_name(table)}").fetchall()
            shape = json.dumps([{name: "VARCHAR" if kind == "JSON" else kind for name, kind, *_ in told}])
            con.execute(
                f"INSERT INTO {quoted_name(table)} BY NAME"
                f" SELECT unnest(found) FROM (SELECT unnest(from_json($rows, {quoted(shape)})) AS found)",
                {"rows": rows},
            )
        con.commit()
    except BaseException:
        with contextlib.suppress(duckdb.Error):
            con.rollback()
        raise
    return filled


@contextlib.contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """What the engine raises within it, but for wrong statements, as `StoreError`."""
    try:
        yield
    except STATEMENT_ERRORS:
        raise
    except duckdb.Error as error:
        text = first_line(error)
        if isinstance(error, duckdb.OutOfMemoryException) or "llocat" in text:
            line = f"store {folder}: too little memory to read it ({text}); free some and try again"
        else:
            line = f"store {folder}: cannot be read ({text}); see to its disk and rights, or pass another --store"
        raise StoreError(line) from error
