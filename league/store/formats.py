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
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from league.errors import UsageError, quoted
from league.store.pgn import Bad, read_pgn, write_pgn
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

_PREFIX = re.compile(f"^(?:{BOT_PREFIX}|{OUTSIDE_PREFIX})")
_SEPARATORS = ",;\t"
_PARTS = re.compile(r"[,;\t|]")
"""Where one spreadsheet or another begins a cell, whatever the file's own separator is."""
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
    try:
        yield from io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", newline="")
    except UnicodeDecodeError:
        line, byte = _not_utf8(data)
        raise bad(name, line, f"byte 0x{byte:02x} is not UTF-8; save the file as UTF-8") from None


def _not_utf8(data: bytes) -> tuple[int, int]:
    """The line and the value of the first byte that is not UTF-8."""
    for line, row in enumerate(io.BytesIO(data), 1):
        try:
            row.decode()
        except UnicodeDecodeError as error:
            return line, row[error.start]
    raise AssertionError("every line is UTF-8")


def _read_jsonl(lines: Iterator[str], name: str) -> Iterator[tuple[int, dict[str, str]]]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a key stands in it twice")
        return found

    for line, row in enumerate(lines, 1):
        if not row.strip():
            continue
        try:
            found = json.loads(row, object_pairs_hook=unique)
        except (ValueError, RecursionError) as error:
            raise bad(name, line, f"not JSON ({quoted(str(error))}); put one object on a line") from None
        if not isinstance(found, dict):
            raise bad(name, line, f"a match is an object, not {quoted(row.strip())}; put one object on a line")
        columns = _known_columns(name, line, list(found))
        fields = {}
        for column, value in zip(columns, found.values(), strict=True):
            if column not in READ:
                fields[column] = ""
                continue
            if value is not None and (not isinstance(value, str | int) or isinstance(value, bool)):
                raise bad(name, line, f"{column}={quoted(repr(value))} is neither text nor a whole number; correct it")
            fields[column] = "" if value is None else str(value).strip()
        yield line, fields


def _read_csv(lines: Iterator[str], name: str) -> Iterator[tuple[int, dict[str, str]]]:
    first: list[str] = []
    while not "".join(first[-1:]).strip() and (text := next(lines, "")):
        first.append(text)
    separator = max(_SEPARATORS, key="".join(first[-1:]).count)
    reader = csv.reader(itertools.chain(first, lines), strict=True, delimiter=separator, skipinitialspace=True)
    columns: list[str] | None = None
    line = 1
    try:
        for row in reader:
            row = [value.strip() for value in row]
            if columns is None and any(row):
                columns = _known_columns(name, line, row)
            elif columns is not None and any(row):
                while len(row) > len(columns) and not row[-1]:
                    row.pop()
                if len(row) != len(columns):
                    raise bad(name, line, f"{len(row)} values under {len(columns)} columns; give one a column")
                yield line, dict(zip(columns, row, strict=True))
            line = reader.line_num + 1
    except csv.Error as error:
        raise bad(name, line, f"not CSV ({quoted(str(error))}); correct it") from None


def _known_columns(name: str, line: int, columns: Sequence[str]) -> list[str]:
    """The columns, those of ours in our spelling, whatever their case."""
    own = [low if (low := column.strip().casefold()) in READ else column for column in columns]
    counts = Counter(own)
    for column in READ:
        if counts[column] > 1:
            raise bad(name, line, f"column `{column}` stands there twice; leave one out")
    for column in NEEDED:
        if not counts[column] and not (column == "winner" and counts.keys() & set(WINNERS)):
            close = get_close_matches(column, [c[:MAX_NAME].casefold() for c in own if c not in READ], n=1)
            meant = f"; did you mean `{column}` by {quoted(close[0])}?" if close else ""
            raise bad(name, line, f"column `{column}` is missing; a match needs {', '.join(NEEDED)}{meant}")
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

    read: Callable[[Iterator[str], str], Iterator[tuple[int, dict[str, str] | Bad]]]
    """(lines, name) -> line and columns of each game, or what is wrong with it."""
    write: Callable[[Iterable[Mapping[str, Any]]], Iterator[str]]
    leaves_out: bool = False
    """Whether a bad game is left out: a file of many people's games; a table was made by one program."""


FORMATS = {
    ".jsonl": Format(_read_jsonl, _write_jsonl),
    ".csv": Format(_read_csv, _write_csv),
    ".pgn": Format(read_pgn, write_pgn, leaves_out=True),
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
