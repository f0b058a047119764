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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from league.errors import UsageError, quoted
from league.store.pgn import TAGS, Found, read_pgn, write_pgn
from league.store.segments import batch_of
from league.store.segments import quoted as literal
from league.store.sql import sql
from league.store.view import Cursor
from league.types import BOT_PREFIX

WINNERS = ("winner", "winner_seat", "winner_name")
"""A row has one of these: a seat's number, a result or a name; never a name; a name or a draw."""
READ = dict.fromkeys((*TAGS.values(), *WINNERS))
"""What a match is in a file."""
NEEDED = ("seat0", "seat1", "winner")
OUTSIDE_PREFIX = "import:"
"""An agent that was only ever met in files has this and its name as its id."""
MAX_NAME = 100
PART = 50_000
"""Lines, or games of PGN, that are read and checked at once."""
Read = Callable[[Cursor, TextIO, dict[str, None]], Iterator[int]]
"""(DuckDB, text, columns that are none of ours) -> the last line of each part of the file.

Its rows are the table `part` then: each with a number that gives their order, the line on which it begins, and what is
wrong with it, or its columns: NULL where the row has none, else without spaces around.
"""
_PREFIX = re.compile(f"^(?:{BOT_PREFIX}|{OUTSIDE_PREFIX})")
_SEPARATORS = ",;\t"
_PARTS = re.compile(r"[,;\t|]")
"""Where a spreadsheet begins a cell, beside the file's own separator."""
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


def text_of(data: bytes, name: str) -> TextIO:
    """The text of a file, its lines with their ends; a `UsageError` where it is not UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line, byte = 1 + data.count(b"\n", 0, error.start), data[error.start]
        raise bad(name, line, f"byte 0x{byte:02x} is not UTF-8; save the file as UTF-8") from None
    return io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", newline="")


def _read_jsonl(con: Cursor, text: TextIO, ignored: dict[str, None]) -> Iterator[int]:
    """One object a line, which DuckDB takes apart."""
    numbered = enumerate(text, 1)
    while part := list(itertools.islice(numbered, PART)):
        rows = [(line, row) for line, row in part if not row.isspace()]
        arrays = {"line": np.array([x for x, _ in rows], np.int64), "text": np.array([x for _, x in rows], object)}
        with batch_of(con, arrays):
            con.execute(sql("make_objects"))
        _take_objects(con, ignored)
        yield part[-1][0]


def _take_objects(con: Cursor, ignored: dict[str, None]) -> None:
    """Makes `part` of the lines of `object`; the first whose keys are no match's, and those after it, are refused."""
    spelt: dict[str, str] = {}
    found = "SELECT keys, min(line) FROM object WHERE problem IS NULL GROUP BY keys ORDER BY 2"
    for keys, line in con.execute(found).fetchall():
        try:
            own = known_columns(*keys)
        except ValueError as error:
            con.execute("UPDATE object SET problem = $why WHERE line >= $line", {"why": str(error), "line": line})
            break
        spelt |= {key: column for key, column in zip(keys, own, strict=True) if column in READ}
        ignored |= {column.strip() or "(no name)": None for column in own if column not in READ}
    paths = ", ".join(literal(f"/{key}") for key in spelt)
    values: dict[str, list[str]] = {column: [] for column in READ}
    problems = ["problem"]
    for i, column in enumerate(spelt.values(), 1):
        values[column].append(f"if(kind[{i}] = 'NULL', '', trim(said[{i}]))")
        rule = f"'{column}=' || left(said[{i}], 40) || ' is neither text nor a whole number below 2^64; correct it'"
        problems.append(f"if(kind[{i}] NOT IN ('VARCHAR', 'UBIGINT', 'BIGINT', 'NULL'), {rule}, NULL)")
    columns = ", ".join(f"coalesce({', '.join(['NULL::VARCHAR', *value])}) AS {name}" for name, value in values.items())
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE part AS WITH read AS MATERIALIZED (SELECT *,"
        f" if(problem IS NULL, json_type(text, [{paths}]::VARCHAR[]), NULL) AS kind,"
        f" if(problem IS NULL, json_extract_string(text, [{paths}]::VARCHAR[]), NULL) AS said FROM object)"
        f" SELECT line AS number, line, coalesce({', '.join(problems)}) AS problem, {columns} FROM read"
    )


def _by_rows(read: Callable[[TextIO, dict[str, None]], Iterator[Found]]) -> Read:
    """A reader whose rows Python has made."""

    def parts(con: Cursor, text: TextIO, ignored: dict[str, None]) -> Iterator[int]:
        found = read(text, ignored)
        while part := list(itertools.islice(found, PART)):
            has = set().union(*(columns for _, _, columns in part))
            arrays = {name: np.array([row.get(name) for _, _, row in part], object) for name in READ if name in has}
            lines, problems = (np.array([row[i] for row in part], kind) for i, kind in enumerate((np.int64, object)))
            of_rows = {"number": np.arange(len(part)), "line": lines, "problem": problems}
            columns = ", ".join(f"{f'trim({name})' if name in has else 'NULL'}::VARCHAR AS {name}" for name in READ)
            with batch_of(con, of_rows | arrays):
                made = "CREATE OR REPLACE TEMP TABLE part AS SELECT number, line, problem::VARCHAR AS problem"
                con.execute(f"{made}, {columns} FROM batch")
            yield part[-1][0]

    return parts


def _read_csv(text: TextIO, ignored: dict[str, None]) -> Iterator[Found]:
    """A row under the columns that the first one names; what is quoted may span lines."""
    separator = max(_SEPARATORS, key=next(filter(str.strip, text), "").count)
    text.seek(0)
    reader = csv.reader(text, strict=True, delimiter=separator, skipinitialspace=True)
    line, columns = 1, tuple[str, ...]()
    try:
        for row in reader:
            while len(row) > len(columns) and not row[-1].strip():
                row.pop()
            if not any(map(str.strip, row)):
                pass
            elif not columns:
                columns = known_columns(*map(str.strip, row))
                ignored |= {column or "(no name)": None for column in columns if column not in READ}
            elif len(row) != len(columns):
                yield line, f"{len(row)} values under {len(columns)} columns; give one a column", {}
            else:
                yield line, None, dict(zip(columns, row, strict=True))
            line = reader.line_num + 1
    except csv.Error as error:
        yield line, f"not CSV ({quoted(str(error))}); correct it", {}
    except ValueError as error:
        yield line, str(error), {}


@lru_cache
def known_columns(*columns: str) -> tuple[str, ...]:
    """The columns, ours in our spelling, in any case; a `ValueError` where one is missing or stands there twice."""
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


def _write_jsonl(rows: Iterable[Mapping[str, Any]], out: TextIO) -> None:
    out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _write_csv(rows: Iterable[Mapping[str, Any]], out: TextIO) -> None:
    """All texts are quoted, since there may be a character in one that parts cells somewhere."""
    for number, row in enumerate(rows):
        if not number:
            writer = csv.DictWriter(out, row, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
            writer.writeheader()
        writer.writerow(row)


@dataclass(frozen=True)
class Format:
    """How a kind of file is read, and how written."""

    read: Read
    write: Callable[[Iterable[Mapping[str, Any]], TextIO], None]
    leaves_out: bool = False
    """Whether a bad game is left out: a file of many people's games; a table was made by one program."""


FORMATS = {
    ".jsonl": Format(_read_jsonl, _write_jsonl),
    ".csv": Format(_by_rows(_read_csv), _write_csv),
    ".pgn": Format(_by_rows(lambda text, ignored: read_pgn(text.read())), write_pgn, leaves_out=True),
}


def format_of(name: str) -> Format:
    """The kind of file that a name's ending says."""
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
