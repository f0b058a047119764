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
from typing import Any

import numpy as np

from league.errors import UsageError, quoted
from league.store.pgn import TAGS, Bad, read_pgn, write_pgn
from league.store.segments import batch_of
from league.store.segments import quoted as literal
from league.store.sql import sql
from league.store.view import Cursor
from league.types import BOT_PREFIX

WINNERS = ("winner", "winner_seat", "winner_name")
"""A row has one of these: a seat's number, a result or a name; never a name; a name or a draw."""
READ = tuple(dict.fromkeys((*TAGS.values(), *WINNERS)))
"""What a match is in a file."""
NEEDED = ("seat0", "seat1", "winner")
OUTSIDE_PREFIX = "import:"
"""An agent that was only ever met in files has this and its name as its id."""
MAX_NAME = 100
BATCH = 50_000
"""Lines, or games of PGN, that are read at once."""
Found = tuple[int, Mapping[str, str] | Bad]
"""The line on which a row begins, and its columns or what is wrong with it."""
Read = Callable[[Cursor, Iterator[str], dict[str, None]], Iterator[int]]
"""(DuckDB, lines, columns that are none of ours) -> the last line of each part of the file.

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


def lines_of(data: bytes, name: str) -> Iterator[str]:
    """The lines of a file with their ends, LF, CR LF or CR; a `UsageError` where it is not UTF-8."""
    for line, row in enumerate(io.BytesIO(data), 1):
        try:
            row.decode()
        except UnicodeDecodeError as error:
            raise bad(name, line, f"byte 0x{row[error.start]:02x} is not UTF-8; save the file as UTF-8") from None
    return io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", newline="")


def _read_jsonl(con: Cursor, lines: Iterator[str], ignored: dict[str, None]) -> Iterator[int]:
    """One object a line, which DuckDB takes apart."""
    numbered = enumerate(lines, 1)
    while batch := list(itertools.islice(numbered, BATCH)):
        rows = [(line, row) for line, row in batch if row.strip()]
        arrays = {"line": np.array([x for x, _ in rows], np.int64), "text": np.array([x for _, x in rows], object)}
        with batch_of(con, arrays):
            con.execute(sql("make_objects"))
        begin_part(con)
        _add_objects(con, ignored)
        yield batch[-1][0]


def _add_objects(con: Cursor, ignored: dict[str, None]) -> None:
    """Adds the lines of `object`; the first whose keys are no match's, and those after it, are refused."""
    spelt: dict[str, str] = {}
    found = "SELECT keys, min(line) FROM object WHERE problem IS NULL GROUP BY keys ORDER BY 2"
    for keys, line in con.execute(found).fetchall():
        try:
            if twice := [key for key in keys if keys.count(key) > 1]:
                raise ValueError(f"{quoted(twice[0])} stands in it twice; leave one out")
            own = known_columns(*keys)
        except ValueError as error:
            con.execute("UPDATE object SET problem = $why WHERE line >= $line", {"why": str(error), "line": line})
            break
        spelt |= {key: column for key, column in zip(keys, own, strict=True) if column in READ}
        ignored |= {column.strip() or "(no name)": None for column in own if column not in READ}
    paths = ", ".join(literal(f"/{key}") for key in spelt)
    values: dict[str, list[str]] = {column: [] for column in spelt.values()}
    problems = ["problem"]
    for i, column in enumerate(spelt.values(), 1):
        values[column].append(f"if(kind[{i}] = 'NULL', '', trim(said[{i}]))")
        rule = f"'{column}=' || left(said[{i}], 40) || ' is neither text nor a whole number; correct it'"
        problems.append(f"if(kind[{i}] NOT IN ('VARCHAR', 'UBIGINT', 'BIGINT', 'NULL'), {rule}, NULL)")
    columns = "".join(f", coalesce({', '.join(value)}) AS {column}" for column, value in values.items())
    con.execute(
        f"INSERT INTO part BY NAME WITH read AS MATERIALIZED (SELECT *,"
        f" if(problem IS NULL, json_type(text, [{paths}]::VARCHAR[]), NULL) AS kind,"
        f" if(problem IS NULL, json_extract_string(text, [{paths}]::VARCHAR[]), NULL) AS said FROM object)"
        f" SELECT line AS number, line, coalesce({', '.join(problems)}) AS problem{columns} FROM read"
    )


def _read_csv(lines: Iterator[str], ignored: dict[str, None]) -> Iterator[Found]:
    """A row under the columns that the first one names; what is quoted may span lines."""
    first: list[str] = []
    while not "".join(first[-1:]).strip() and (text := next(lines, "")):
        first.append(text)
    separator = max(_SEPARATORS, key="".join(first[-1:]).count)
    reader = csv.reader(itertools.chain(first, lines), strict=True, delimiter=separator, skipinitialspace=True)
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
                yield line, Bad(line, f"{len(row)} values under {len(columns)} columns; give one a column")
            else:
                yield line, dict(zip(columns, row, strict=True))
            line = reader.line_num + 1
    except csv.Error as error:
        yield line, Bad(line, f"not CSV ({quoted(str(error))}); correct it")
    except ValueError as error:
        yield line, Bad(line, str(error))


def _in_parts(read: Callable[[Iterator[str], dict[str, None]], Iterator[Found]]) -> Read:
    """A reader whose rows Python has made."""

    def parts(con: Cursor, lines: Iterator[str], ignored: dict[str, None]) -> Iterator[int]:
        found = read(lines, ignored)
        while batch := list(itertools.islice(found, BATCH)):
            begin_part(con)
            rows = [{} if isinstance(row, Bad) else row for _, row in batch]
            arrays = {
                "number": np.arange(len(batch)),
                "line": np.array([row.line if isinstance(row, Bad) else line for line, row in batch], np.int64),
                "problem": np.array([row.problem if isinstance(row, Bad) else None for _, row in batch], object),
            }
            columns = sorted(set().union(*rows) & {*READ})
            arrays |= {column: np.array([row.get(column) for row in rows], object) for column in columns}
            trimmed = "".join(f", trim({column}) AS {column}" for column in columns)
            with batch_of(con, arrays):
                con.execute(f"INSERT INTO part BY NAME SELECT number, line, problem{trimmed} FROM batch")
            yield batch[-1][0]

    return parts


def begin_part(con: Cursor) -> None:
    """Makes the table `part`, of rows that were read, with no row in it."""
    columns = ", ".join(f"{column} VARCHAR" for column in READ)
    con.execute(f"CREATE OR REPLACE TEMP TABLE part (number BIGINT, line BIGINT, problem VARCHAR, {columns})")


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

    read: Read
    write: Callable[[Iterable[Mapping[str, Any]]], Iterator[str]]
    leaves_out: bool = False
    """Whether a bad game is left out: a file of many people's games; a table was made by one program."""


FORMATS = {
    ".jsonl": Format(_read_jsonl, _write_jsonl),
    ".csv": Format(_in_parts(_read_csv), _write_csv),
    ".pgn": Format(_in_parts(lambda lines, ignored: read_pgn(lines)), write_pgn, leaves_out=True),
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
