"""Files of matches that other tools read and write: JSON lines, CSV and PGN, and what may stand in them.

What a file says is data and nothing else: names are checked, kept in rows, and never used as a path or as SQL.
"""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from league.acts import advance
from league.errors import UsageError
from league.store.codec import MAX_MATCH_SEED
from league.types import BOT_PREFIX, DRAW

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
NEEDED = ("seat0", "seat1", "winner")
PGN_TAGS = {
    "GameId": "game_id",
    "White": "seat0",
    "Black": "seat1",
    "Result": "winner",
    "Seed": "seed",
    "EndReason": "end_reason",
    "Steps": "steps",
    "Ticks": "ticks",
    "Sampling": "sampling",
    "Kind": "kind",
    "PlayedAt": "played_at",
}
"""Tag -> column; other tags are left out. White, Black and Result are PGN's own."""
PGN_RESULTS = {"1-0": "0", "0-1": "1", "1/2-1/2": "draw"}
UNDECIDED = "*"
"""PGN's result of a game that has none."""
OUTSIDE_PREFIX = "import:"
"""An agent that was only ever met in files has this and its name as its id."""
MAX_NAME = 100
MAX_COUNT = 2**63 - 1

_PREFIX = re.compile(f"^(?:{BOT_PREFIX}|{OUTSIDE_PREFIX})")
_WHOLE = re.compile(r"[0-9]{1,20}")
_TAG = re.compile(r'\[\s*([A-Za-z0-9_]+)\s+"((?:[^"\\]|\\.)*)"\s*\]')
_WINNERS = {"0": 0, "1": 1, "draw": DRAW, "1-0": 0, "0-1": 1, "1/2-1/2": DRAW, "½-½": DRAW}
_SEPARATORS = ",;\t"
_PARTS = re.compile(r"[,;\t|]")
"""Where one spreadsheet or another begins a cell, whatever the file's own separator is."""
_FORMULA = re.compile(r"=|[-+@](?:[0-9.]|.*[=(|!])", re.DOTALL)


@dataclass(frozen=True)
class FileGame:
    """One match as a file tells it. None: the file does not say."""

    line: int
    seats: tuple[str, str]
    """Names or ids."""
    winner: int
    game_id: str | None
    seed: int | None
    end_reason: str
    steps: int
    ticks: int
    sampling: str
    played_at: datetime | None


@dataclass(frozen=True)
class Parsed:
    """What a file holds: its games, how many more have no result, and the columns that are none of ours."""

    games: list[FileGame]
    undecided: int
    ignored: tuple[str, ...]


TOLD_EVERY = 1_000
"""Lines between two words of how far a file is read."""


def parse(data: bytes, name: str) -> Parsed:
    """The games in a file's content.

    name: the file's, which tells the format and stands in errors.

    Raises:
        UsageError: it cannot be read; the message has the file and the line.
    """
    read = format_of(name).read
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise bad(name, line, f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8") from None
    games, undecided = [], 0
    ignored: dict[str, None] = {}
    num_lines, told = text.count("\n"), 0
    for line, fields in read(text, name):
        if line >= told:
            advance("lines", line, num_lines)
            told = line + TOLD_EVERY
        ignored |= {column: None for column in fields if column and column not in COLUMNS}
        if fields["winner"] == UNDECIDED:
            undecided += 1
        else:
            games.append(_game(name, line, fields))
    if not games and not undecided:
        raise UsageError(f"{name}: there is no game in it; give a file with one match or more")
    return Parsed(games, undecided, tuple(ignored))


def _game(name: str, line: int, fields: Mapping[str, str]) -> FileGame:
    def whole(column: str, top: int) -> int | None:
        value = fields.get(column, "")
        if value and not (_WHOLE.fullmatch(value) and int(value) <= top):
            raise bad(name, line, f"{column}={show(value)} is no whole number from 0 to {top}; correct it")
        return int(value) if value else None

    def text(column: str, fallback: str) -> str:
        value = unicodedata.normalize("NFC", fields.get(column, "") or fallback)
        problem = name_problem(value)
        if problem:
            raise bad(name, line, f"{column}={show(value)} {problem}; correct it")
        return value

    def one_of(column: str, allowed: Iterable[str], fallback: str) -> str:
        value = fields.get(column, "") or fallback
        if value not in allowed:
            raise bad(name, line, f"{column}={show(value)} must be {' or '.join(allowed)}; correct it")
        return value

    one_of("kind", ["evaluation"], "evaluation")  # a learner in training changes from match to match: nothing to rate
    played_at = None
    if fields.get("played_at"):
        try:
            at = datetime.fromisoformat(fields["played_at"])
            played_at = (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            problem = f"played_at={show(fields['played_at'])} is no ISO 8601 time such as 2026-05-01T12:00:00+00:00"
            raise bad(name, line, f"{problem}; correct it") from None
    seats = text("seat0", ""), text("seat1", "")
    return FileGame(
        line=line,
        seats=seats,
        winner=_winner(name, line, fields.get("winner", ""), seats),
        game_id=text("game_id", "") if fields.get("game_id") else None,
        seed=whole("seed", MAX_MATCH_SEED),
        end_reason=text("end_reason", "unknown"),
        steps=whole("steps", MAX_COUNT) or 0,
        ticks=whole("ticks", MAX_COUNT) or 0,
        sampling=one_of("sampling", ["sample", "greedy"], "sample"),
        played_at=played_at,
    )


def _winner(name: str, line: int, value: str, seats: tuple[str, str]) -> int:
    """A seat or DRAW, of what a file says: a seat's number, a result or the winner's name."""
    if value.casefold() in _WINNERS:
        return _WINNERS[value.casefold()]
    named = unicodedata.normalize("NFC", value)
    if named in seats:
        return seats.index(named)
    known = ", ".join(_WINNERS)
    raise bad(name, line, f"winner={show(value)} must be one of {known}, or the name in seat0 or seat1; correct it")


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


def _read_jsonl(text: str, name: str) -> Iterator[tuple[int, dict[str, str]]]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a key stands in it twice")
        return found

    for line, row in enumerate(text.split("\n"), 1):
        if not row.strip():
            continue
        try:
            found = json.loads(row, object_pairs_hook=unique)
        except (ValueError, RecursionError) as error:
            raise bad(name, line, f"not JSON ({show(str(error))}); put one object on a line") from None
        if not isinstance(found, dict):
            raise bad(name, line, f"a match is an object, not {show(row)}; put one object on a line")
        columns = _known_columns(name, line, list(found))
        fields = {}
        for column, value in zip(columns, found.values(), strict=True):
            if column not in COLUMNS:
                fields[column] = ""
                continue
            if value is not None and (not isinstance(value, str | int) or isinstance(value, bool)):
                raise bad(name, line, f"{column}={show(repr(value))} is neither text nor a whole number; correct it")
            fields[column] = "" if value is None else str(value).strip()
        yield line, fields


def _read_csv(text: str, name: str) -> Iterator[tuple[int, dict[str, str]]]:
    header = next((row for row in text.splitlines() if row.strip()), "")
    separator = max(_SEPARATORS, key=header.count)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=separator, skipinitialspace=True)
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
        raise bad(name, line, f"not CSV ({show(str(error))}); correct it") from None


def _known_columns(name: str, line: int, columns: Sequence[str]) -> list[str]:
    """The columns, those of ours in our spelling, whatever their case."""
    own = [low if (low := column.strip().casefold()) in COLUMNS else column for column in columns]
    counts = Counter(own)
    for column in COLUMNS:
        if counts[column] > 1:
            raise bad(name, line, f"column `{column}` stands there twice; leave one out")
    for column in NEEDED:
        if not counts[column]:
            close = get_close_matches(column, [c[:MAX_NAME].casefold() for c in own if c not in COLUMNS], n=1)
            meant = f"; did you mean `{column}` by {show(close[0])}?" if close else ""
            raise bad(name, line, f"column `{column}` is missing; a match needs {', '.join(NEEDED)}{meant}")
    return own


def _read_pgn(text: str, name: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Games of PGN (Edwards 1994, the standard's sections 6 to 8): tags, then moves, which are left out."""
    tags: dict[str, str] = {}
    start = 0
    is_open = False
    """Whether more tags may follow."""
    comment = 0
    """The line on which a comment began that is not closed yet."""
    for line, row in enumerate(text.split("\n"), 1):
        row = row.strip()
        if comment or not row.startswith("["):
            if row.startswith("%") and not comment:
                continue
            if row and not tags:
                raise bad(name, line, f'{show(row)} stands before any tag; a game begins with [White "..."]')
            comment = (comment or line) if _ends_in_comment(row, bool(comment)) else 0
            is_open = False
            continue
        tag = _TAG.fullmatch(row)
        if tag is None:
            raise bad(name, line, f'{show(row)} is no tag; write [Name "value"]')
        if not is_open and tags:
            yield start, _pgn_fields(name, start, tags)
            tags = {}
        key, value = tag[1], re.sub(r"\\(.)", r"\1", tag[2])
        if key in tags:
            raise bad(name, line, f"tag {key} stands in one game twice; put an empty line between two games")
        start = start if tags else line
        tags[key], is_open = value, True
    if comment:
        raise bad(name, comment, "a comment begins and is never closed; add `}`")
    if tags:
        yield start, _pgn_fields(name, start, tags)


def _ends_in_comment(row: str, is_comment: bool) -> bool:
    """Whether a line of moves leaves a `{` comment open; what follows `;` outside of one is no move."""
    for letter in row:
        if is_comment:
            is_comment = letter != "}"
        elif letter == ";":
            break
        else:
            is_comment = letter == "{"
    return is_comment


def _pgn_fields(name: str, line: int, tags: Mapping[str, str]) -> dict[str, str]:
    for tag in ("White", "Black", "Result"):
        if tag not in tags:
            raise bad(name, line, f"the game has no tag {tag}; a game needs White, Black and Result")
    result = tags["Result"].strip().replace("½", "1/2")
    if result != UNDECIDED and result not in PGN_RESULTS:
        known = ", ".join([*PGN_RESULTS, UNDECIDED])
        raise bad(name, line, f"Result {show(result)} of the game that begins here must be one of {known}")
    fields = {column: tags[tag].strip() for tag, column in PGN_TAGS.items() if tag in tags}
    return fields | {"winner": PGN_RESULTS.get(result, UNDECIDED)}


def _write_jsonl(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        yield json.dumps(row, ensure_ascii=False) + "\n"


def _write_csv(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A row with a character that may part cells has all of its values quoted."""
    buffer = io.StringIO(newline="")
    plain = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    quoting = csv.DictWriter(buffer, COLUMNS, lineterminator="\n", quoting=csv.QUOTE_ALL)
    plain.writeheader()
    for row in rows:
        has_parts = any(_PARTS.search(str(value)) for value in row.values())
        (quoting if has_parts else plain).writerow(row)
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def _write_pgn(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Each game with the standard's seven tags first, then ours; no moves."""
    results = {winner: result for result, winner in PGN_RESULTS.items()}
    for number, row in enumerate(rows, 1):
        tags = {
            "Event": "league",
            "Site": "?",
            "Date": row["played_at"][:10].replace("-", "."),
            "Round": str(number),
            "White": row["seat0"],
            "Black": row["seat1"],
            "Result": results[str(row["winner"])],
        }
        tags |= {tag: str(row[column]) for tag, column in PGN_TAGS.items() if tag not in tags}
        for tag, value in tags.items():
            escaped = value.replace("\\", r"\\").replace('"', r"\"")
            yield f'[{tag} "{escaped}"]\n'
        yield f"\n{tags['Result']}\n\n"


@dataclass(frozen=True)
class Format:
    """How a kind of file is read, and how written."""

    read: Callable[[str, str], Iterator[tuple[int, dict[str, str]]]]
    """(text, name) -> line and columns of each game."""
    write: Callable[[Iterable[Mapping[str, Any]]], Iterator[str]]


FORMATS = {
    ".jsonl": Format(_read_jsonl, _write_jsonl),
    ".csv": Format(_read_csv, _write_csv),
    ".pgn": Format(_read_pgn, _write_pgn),
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


def show(value: str) -> str:
    """A value in an error: quoted, its beginning only, whatever letters it has."""
    return ascii(value if len(value) <= 60 else value[:57] + "...")
