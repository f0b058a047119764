"""Files of matches that other tools read and write: JSON lines, CSV and PGN, and what may stand in them.

What a file says is data and nothing else: names are checked, kept in rows, and never used as a path or as SQL.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from league.errors import UsageError, quoted
from league.store.codec import storable
from league.store.pgn import Bad, read_pgn, write_pgn
from league.store.segments import quoted as literal
from league.store.view import Cursor
from league.types import BOT_PREFIX

COLUMNS = (
    "game_id",
    "seat0",
    "seat1",
    "winner",
    "seed",
    "end_reason",
    "steps",
    "ticks",
    "sampling",
    "kind",
    "played_at",
)
"""What a match is in a file, in the order written."""
WINNERS = ("winner", "winner_seat", "winner_name")
"""A row has one of these: a seat's number, a result or a name; never a name; a name or a draw."""
READ = (*COLUMNS, *WINNERS[1:])
NEEDED = ("seat0", "seat1", "winner")
OUTSIDE_PREFIX = "import:"
"""An agent that was only ever met in files has this and its name as its id."""
MAX_NAME = 100
BATCH = 50_000
"""Lines, or games of PGN, that are read at once."""
Found = tuple[int, int, Mapping[str, str] | Bad]
"""A row's number and line, and its columns or what is wrong with it."""

_PREFIX = re.compile(f"^(?:{BOT_PREFIX}|{OUTSIDE_PREFIX})")
_SEPARATORS = ",;\t"
_PARTS = re.compile(r"[,;\t|]")
"""Where a spreadsheet begins a cell, beside the file's own separator."""
_LETTER = r"""[^"\\\x{0}-\x{1f}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"""
_HIGH = "00[a-f][1-9a-f]|(?:0[1-9a-f]|1[0-57-9a-f]|[23][1-9a-f]|[4-9a-cef][0-9a-f]|d[0-7])[0-9a-f]{2}"
_NUMBER = r"-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_VALUE = rf'"(?:{_LETTER}|\\["\\/]|\\u(?i:{_HIGH}))*"|{_NUMBER}|true|false|null'
_PAIR = rf'[ \t\r\n]*"{_LETTER}*"[ \t\r\n]*:[ \t\r\n]*(?:{_VALUE})[ \t\r\n]*'
_FLAT = rf"[ \t\r\n]*\{{{_PAIR}(?:,{_PAIR})*\}}[ \t\r\n]*"
"""A JSON object, in RE2's syntax, of texts, numbers and words, in which no text has other white space than spaces."""
_ODD = "SELECT line, text FROM given_text ANTI JOIN part USING (line) ORDER BY line"
"""The lines that DuckDB has not taken apart."""
_FORMULA = re.compile(r"=|[-+@](?:[0-9.]|.*[=(|!])", re.DOTALL)


def name_problem(value: str) -> str:
    """Why a text cannot be a name in the store; empty where it can. A prefix of ours does not count."""
    value = _PREFIX.sub("", value, count=1)
    if not value:
        return "is empty"
    if len(value) > MAX_NAME:
        return f"has {len(value):,} letters, at most {MAX_NAME} are allowed"
    if not value.isprintable() or value != value.strip():
        return "has letters that cannot be seen"
    if any(_FORMULA.match(part.strip()) for part in _PARTS.split(value)):
        return (
            "is a formula to a spreadsheet (it, or what follows a comma or semicolon in it, begins with =, or with +, -"
            " or @ before a digit or one of =(|!)"
        )
    return ""


def lines_of(data: bytes, name: str) -> Iterator[str]:
    """The lines of a file with their ends, LF, CR LF or CR.

    Raises:
        UsageError: it is not UTF-8.
    """
    for line, row in enumerate(io.BytesIO(data), 1):
        try:
            row.decode()
        except UnicodeDecodeError as error:
            raise bad(name, line, f"byte 0x{row[error.start]:02x} is not UTF-8; save the file as UTF-8") from None
    return io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", newline="")


def _read_jsonl(con: Cursor, lines: Iterator[str], ignored: dict[str, None]) -> Iterator[int]:
    """DuckDB reads flat objects, `json` the other lines."""
    numbered = enumerate(lines, 1)
    while batch := list(itertools.islice(numbered, BATCH)):
        begin_part(con)
        with _texts(con, [(line, row) for line, row in batch if row.strip()]):
            _add_flat(con, ignored)
            odd = con.execute(_ODD).fetchall()
        _add(con, [(line, line, _object(line, text, ignored)) for line, text in odd])
        yield batch[-1][0]


def _add_flat(con: Cursor, ignored: dict[str, None]) -> None:
    """Adds the lines that are flat objects in which our columns are texts, whole numbers or null."""
    con.execute(
        "CREATE OR REPLACE TEMP TABLE flat AS"
        " SELECT line, text, json_keys(text) AS keys FROM given_text WHERE regexp_full_match(text, $flat)",
        {"flat": _FLAT},
    )
    spelt: dict[str, str] = {}
    for (keys,) in con.execute("SELECT keys FROM flat GROUP BY keys ORDER BY min(line)").fetchall():
        try:
            own = dict(zip(_unique(keys), known_columns(*keys), strict=True))
        except ValueError:  # `_object` tells why
            con.execute("DELETE FROM flat WHERE keys = $keys", {"keys": keys})
            continue
        spelt |= {key: column for key, column in own.items() if column in READ}
        ignored |= {column: None for column in own.values() if column and column not in READ}
    if not spelt:
        return
    paths = ", ".join(literal(f"/{key}") for key in spelt)
    kinds = [f"coalesce(kind[{i}] IN ('VARCHAR', 'UBIGINT', 'NULL'), true)" for i in range(1, 1 + len(spelt))]
    values: dict[str, list[str]] = {}
    for i, column in enumerate(spelt.values(), 1):
        values.setdefault(column, []).append(f"if(kind[{i}] = 'NULL', '', trim(said[{i}]))")
    columns = ", ".join(f"coalesce({', '.join(value)}) AS {column}" for column, value in values.items())
    con.execute(
        f"INSERT INTO part BY NAME WITH read AS MATERIALIZED"
        f" (SELECT line, json_type(text, [{paths}]) AS kind, json_extract_string(text, [{paths}]) AS said FROM flat)"
        f" SELECT line AS number, line, {columns} FROM read WHERE {' AND '.join(kinds)}"
    )


def _unique(keys: list[str]) -> list[str]:
    if len(set(keys)) < len(keys):
        raise ValueError("a key stands in it twice")
    return keys


def _object(line: int, row: str, ignored: dict[str, None]) -> Mapping[str, str] | Bad:
    """The columns of a line of JSON."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        _unique([key for key, _ in pairs])
        return dict(pairs)

    try:
        found = json.loads(row, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        return Bad(line, f"not JSON ({quoted(str(error))}); put one object on a line")
    if not isinstance(found, dict):
        return Bad(line, f"a match is an object, not {quoted(row.strip())}; put one object on a line")
    try:
        columns = known_columns(*found)
    except ValueError as error:
        return Bad(line, str(error))
    fields = {}
    for column, value in zip(columns, found.values(), strict=True):
        if column not in READ:
            ignored |= {column: None} if column else {}
            continue
        if value is not None and (not isinstance(value, str | int) or isinstance(value, bool)):
            return Bad(line, f"{column}={quoted(repr(value))} is neither text nor a whole number; correct it")
        fields[column] = "" if value is None else str(value).strip()
        if storable(fields[column]) != fields[column]:
            return Bad(line, f"{column}={quoted(fields[column])} has letters that cannot be seen; correct it")
    return fields


def _read_csv(con: Cursor, lines: Iterator[str], ignored: dict[str, None]) -> Iterator[int]:
    """DuckDB splits lines without a quote; `csv` reads the others, since what is quoted may span lines."""
    first: list[str] = []
    while not "".join(first[-1:]).strip() and (text := next(lines, "")):
        first.append(text)
    separator = max(_SEPARATORS, key="".join(first[-1:]).count)
    records = partial(csv.reader, strict=True, delimiter=separator, skipinitialspace=True)
    line, columns = 1, tuple[str, ...]()
    reader = records(itertools.chain(first, lines))
    begin_part(con)
    try:
        while not columns and (given := next(reader, None)) is not None:
            columns = known_columns(*(value.strip() for value in given)) if "".join(given).strip() else ()
            line = line if columns else reader.line_num + 1
    except (csv.Error, ValueError) as error:
        _add(con, [(line, line, Bad(line, _csv_problem(error)))])
        yield line
        return
    line = reader.line_num + 1
    ignored |= {column: None for column in columns if column and column not in READ}
    cells = ", ".join(f"trim(cell[{i}]) AS {column}" for i, column in enumerate(columns, 1) if column in READ)
    removed = str.maketrans("", "", f"\r\n{separator}")
    while batch := list(itertools.islice(lines, BATCH)):
        begin_part(con)
        text = "".join(batch)
        after = line + len(batch)
        if '"' in text or not text.translate(removed).isprintable():
            reader = records(itertools.chain(batch, lines))
            odd = list(_records(reader, line, columns, len(batch)))
            after = line + reader.line_num
        else:
            with _texts(con, [(number, row.rstrip("\r\n")) for number, row in enumerate(batch, line)]):
                con.execute(
                    f"INSERT INTO part BY NAME WITH read AS MATERIALIZED"
                    f" (SELECT line, text, string_split(text, {literal(separator)}) AS cell FROM given_text)"
                    f" SELECT line AS number, line, {cells} FROM read"
                    f" WHERE len(cell) = {len(columns)} AND trim(replace(text, {literal(separator)}, '')) <> ''"
                )
                rows = con.execute(_ODD).fetchall()
            odd = [found for number, row in rows for found in _records(records([row]), number, columns, 1)]
        _add(con, odd, set(columns) & set(READ))
        line = after
        yield line - 1


def _records(reader: Any, first: int, columns: Sequence[str], lines: int) -> Iterator[Found]:
    """The rows that begin on the next `lines` lines, of which `first` is the first."""
    line = first
    try:
        while reader.line_num < lines:
            row = [value.strip() for value in next(reader)]
            while len(row) > len(columns) and not row[-1]:
                row.pop()
            if any(row) and len(row) != len(columns):
                yield line, line, Bad(line, f"{len(row)} values under {len(columns)} columns; give one a column")
            elif any(row):
                yield line, line, dict(zip(columns, row, strict=True))
            line = first + reader.line_num
    except csv.Error as error:
        yield line, line, Bad(line, _csv_problem(error))


def _csv_problem(error: Exception) -> str:
    return f"not CSV ({quoted(str(error))}); correct it" if isinstance(error, csv.Error) else str(error)


def _read_pgn(con: Cursor, lines: Iterator[str], ignored: dict[str, None]) -> Iterator[int]:
    """Games by their tags, of which it knows those to ignore."""
    numbered = enumerate(read_pgn(lines))
    while batch := list(itertools.islice(numbered, BATCH)):
        begin_part(con)
        _add(con, [(number, line, found) for number, (line, found) in batch])
        yield batch[-1][1][0]


def begin_part(con: Cursor) -> None:
    """Makes the table `part`, of rows that were read, with no row in it."""
    columns = ", ".join(f"{column} VARCHAR" for column in READ)
    con.execute(f"CREATE OR REPLACE TEMP TABLE part (number BIGINT, line BIGINT, problem VARCHAR, {columns})")


def _add(con: Cursor, found: Sequence[Found], columns: Iterable[str] = READ) -> None:
    """Adds rows that Python has read, of which none has other columns."""
    rows = [{} if isinstance(row, Bad) else row for *_, row in found]
    arrays = {
        "number": np.array([number for number, *_ in found], np.int64),
        "line": np.array([row.line if isinstance(row, Bad) else line for _, line, row in found], np.int64),
        "problem": np.array([row.problem if isinstance(row, Bad) else None for *_, row in found], object),
    } | {column: np.array([row.get(column) for row in rows], object) for column in columns}
    with batch_of(con, arrays):
        con.execute("INSERT INTO part BY NAME FROM batch")


@contextmanager
def _texts(con: Cursor, rows: Sequence[tuple[int, str]]) -> Iterator[None]:
    """Lines with their numbers as the view `given_text`."""
    arrays = {"line": np.array([x for x, _ in rows], np.int64), "text": np.array([x for _, x in rows], object)}
    with batch_of(con, arrays):
        con.execute("CREATE OR REPLACE TEMP VIEW given_text AS SELECT line, text::VARCHAR AS text FROM batch")
        yield


@contextmanager
def batch_of(con: Cursor, arrays: Mapping[str, npt.NDArray[Any]]) -> Iterator[None]:
    """Arrays as the table `batch`."""
    con.register("batch", arrays)
    try:
        yield
    finally:
        con.unregister("batch")


@lru_cache
def known_columns(*columns: str) -> tuple[str, ...]:
    """The columns, ours in our spelling, in any case.

    Raises:
        ValueError: one is missing or stands there twice.
    """
    own = tuple(low if (low := column.strip().casefold()) in READ else column for column in columns)
    counts = Counter(own)
    for column in READ:
        if counts[column] > 1:
            raise ValueError(f"column `{column}` stands there twice; leave one out")
    for column in NEEDED:
        if not counts[column] and not (column == "winner" and counts.keys() & set(WINNERS)):
            close = get_close_matches(column, [c[:MAX_NAME].casefold() for c in own if c not in READ], n=1)
            meant = f"; did you mean `{column}` by {quoted(close[0])}?" if close else ""
            raise ValueError(f"column `{column}` is missing; a match needs {', '.join(NEEDED)}{meant}")
    return own


def _write_jsonl(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        yield json.dumps(row, ensure_ascii=False) + "\n"


def _write_csv(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A row with a character that may part cells has all of its values quoted."""
    buffer = io.StringIO(newline="")
    for number, row in enumerate(rows):
        if not number:
            plain = csv.DictWriter(buffer, row, lineterminator="\n")
            quoting = csv.DictWriter(buffer, row, lineterminator="\n", quoting=csv.QUOTE_ALL)
            plain.writeheader()
        has_parts = any(_PARTS.search(str(value)) for value in row.values())
        (quoting if has_parts else plain).writerow(row)
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


@dataclass(frozen=True)
class Format:
    """How a kind of file is read, and how written."""

    read: Callable[[Cursor, Iterator[str], dict[str, None]], Iterator[int]]
    """(DuckDB, lines, columns that are none of ours) -> the last line of each part of the file.

    Its rows are the table `part` then: each with a number that gives their order, the line on which it begins, and what
    is wrong with it, or its columns: NULL where the row has none, else without spaces around.
    """
    write: Callable[[Iterable[Mapping[str, Any]]], Iterator[str]]
    leaves_out: bool = False
    """Whether a bad game is left out: a file of many people's games; a table was made by one program."""


FORMATS = {
    ".jsonl": Format(_read_jsonl, _write_jsonl),
    ".csv": Format(_read_csv, _write_csv),
    ".pgn": Format(_read_pgn, write_pgn, leaves_out=True),
}


def format_of(name: str) -> Format:
    """The kind of file that a name's ending says.

    Raises:
        UsageError: none of these.
    """
    suffix = Path(name).suffix.lower()
    if suffix in (".duckdb", ".db", ".wal"):
        raise UsageError(
            f"{name}: another's store is never opened, since opening a database is like loading a program; ask for its"
            f" matches as JSON lines, which `league matches FILE.jsonl` writes there"
        )
    if suffix not in FORMATS:
        raise UsageError(f"{name}: its ending tells the format, and must be {', '.join(FORMATS)}; rename the file")
    return FORMATS[suffix]


def bad(name: str, line: int, problem: str) -> UsageError:
    """What is wrong on which line of a file."""
    return UsageError(f"{name}, line {line}: {problem}")
