"""Matches from and to files that other tools read and write: JSON lines, CSV and PGN.

What a file says is data and nothing else: names are checked, kept in rows, and never used as a path or as SQL.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from league.errors import UsageError, nearest
from league.store.codec import MAX_MATCH_SEED
from league.store.importing import Earlier, MatchFile
from league.store.reading import LEAST_LISTED
from league.store.rows import AgentRow
from league.store.store import Store
from league.types import BOT_PREFIX, DRAW, RUN_NAME, MatchResult

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
MAX_BYTES = 64 * 2**20
MAX_NAME = 100
MAX_COUNT = 2**63 - 1

_SNAPSHOT_ID = re.compile(r"[0-9a-f]{64}")
_PREFIX = re.compile(f"^(?:{BOT_PREFIX}|{OUTSIDE_PREFIX})")
_WHOLE = re.compile(r"[0-9]{1,20}")
_TAG = re.compile(r'\[\s*([A-Za-z0-9_]+)\s+"((?:[^"\\]|\\.)*)"\s*\]')
_WINNERS = {"0": 0, "1": 1, "draw": DRAW, "1-0": 0, "0-1": 1, "1/2-1/2": DRAW, "½-½": DRAW}
_SEPARATORS = ",;\t"
_FORMULA = re.compile(r"=|[-+@](?:[0-9.]|.*[=(|!])", re.DOTALL)


@dataclass(frozen=True)
class Game:
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

    games: list[Game]
    undecided: int
    ignored: tuple[str, ...]


@dataclass(frozen=True)
class Imported:
    """What an import did: `run` is the name of its matches, `read` the games in the file."""

    run: str
    file: str
    read: int
    imported: int
    skipped: dict[str, int]
    """Why -> how many."""
    game_ids: tuple[str, ...]
    joined: tuple[str, ...]
    """Names of agents that the store knew."""
    new: tuple[str, ...]
    replaced: dict[str, int]
    """Earlier imports whose place it took, and how many games they had."""
    ignored: tuple[str, ...]
    """Columns of the file that are none of ours."""
    alike: tuple[tuple[str, ...], ...]
    """Names of different agents of one game that differ only by upper and lower case."""
    is_listed: bool
    """Whether one seat won every decided match, as in a list that names winners first: then seats say nothing."""


@dataclass(frozen=True)
class Exported:
    """What was written."""

    file: str
    matches: int


# Reading


def parse(data: bytes, name: str) -> Parsed:
    """The games in a file's content.

    name: the file's, which tells the format and stands in errors.

    Raises:
        UsageError: it cannot be read; the message has the file and the line.
    """
    read = _format_of(name).read
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _bad(name, line, f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8") from None
    games, undecided = [], 0
    ignored: dict[str, None] = {}
    for line, fields in read(text, name):
        ignored |= {column: None for column in fields if column and column not in COLUMNS}
        if fields["winner"] == UNDECIDED:
            undecided += 1
        else:
            games.append(_game(name, line, fields))
    if not games and not undecided:
        raise UsageError(f"{name}: there is no game in it; give a file with one match or more")
    return Parsed(games, undecided, tuple(ignored))


def _game(name: str, line: int, fields: Mapping[str, str]) -> Game:
    def whole(column: str, top: int) -> int | None:
        value = fields.get(column, "")
        if value and not (_WHOLE.fullmatch(value) and int(value) <= top):
            raise _bad(name, line, f"{column}={_show(value)} is no whole number from 0 to {top}; correct it")
        return int(value) if value else None

    def text(column: str, fallback: str) -> str:
        value = unicodedata.normalize("NFC", fields.get(column, "") or fallback)
        problem = name_problem(value)
        if problem:
            raise _bad(name, line, f"{column}={_show(value)} {problem}; correct it")
        return value

    def one_of(column: str, allowed: Iterable[str], fallback: str) -> str:
        value = fields.get(column, "") or fallback
        if value not in allowed:
            raise _bad(name, line, f"{column}={_show(value)} must be {' or '.join(allowed)}; correct it")
        return value

    one_of("kind", ["evaluation"], "evaluation")  # a learner in training changes from match to match: nothing to rate
    played_at = None
    if fields.get("played_at"):
        try:
            at = datetime.fromisoformat(fields["played_at"])
            played_at = (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            problem = f"played_at={_show(fields['played_at'])} is no ISO 8601 time such as 2026-05-01T12:00:00+00:00"
            raise _bad(name, line, f"{problem}; correct it") from None
    seats = text("seat0", ""), text("seat1", "")
    return Game(
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
    raise _bad(name, line, f"winner={_show(value)} must be one of {known}, or the name in seat0 or seat1; correct it")


def name_problem(value: str) -> str:
    """Why a text cannot be a name in the store; empty where it can. A prefix of ours does not count."""
    value = _PREFIX.sub("", value, count=1)
    if not value:
        return "is empty"
    if len(value) > MAX_NAME:
        return f"has {len(value):,} letters, at most {MAX_NAME} are allowed"
    if not value.isprintable() or value != value.strip():
        return "has letters that cannot be seen"
    if _FORMULA.match(value):
        return "is a formula to a spreadsheet (it begins with =, or with +, - or @ before a digit or one of =(|!)"
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
            raise _bad(name, line, f"not JSON ({_show(str(error))}); put one object on a line") from None
        if not isinstance(found, dict):
            raise _bad(name, line, f"a match is an object, not {_show(row)}; put one object on a line")
        columns = _known_columns(name, line, list(found))
        fields = {}
        for column, value in zip(columns, found.values(), strict=True):
            if column not in COLUMNS:
                fields[column] = ""
                continue
            if value is not None and (not isinstance(value, str | int) or isinstance(value, bool)):
                raise _bad(name, line, f"{column}={_show(repr(value))} is neither text nor a whole number; correct it")
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
                    raise _bad(name, line, f"{len(row)} values under {len(columns)} columns; give one a column")
                yield line, dict(zip(columns, row, strict=True))
            line = reader.line_num + 1
    except csv.Error as error:
        raise _bad(name, line, f"not CSV ({_show(str(error))}); correct it") from None


def _known_columns(name: str, line: int, columns: Sequence[str]) -> list[str]:
    """The columns, those of ours in our spelling, whatever their case."""
    own = [low if (low := column.strip().casefold()) in COLUMNS else column for column in columns]
    counts = Counter(own)
    for column in COLUMNS:
        if counts[column] > 1:
            raise _bad(name, line, f"column `{column}` stands there twice; leave one out")
    for column in NEEDED:
        if not counts[column]:
            close = get_close_matches(column, [c[:MAX_NAME].casefold() for c in own if c not in COLUMNS], n=1)
            meant = f"; did you mean `{column}` by {_show(close[0])}?" if close else ""
            raise _bad(name, line, f"column `{column}` is missing; a match needs {', '.join(NEEDED)}{meant}")
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
                raise _bad(name, line, f'{_show(row)} stands before any tag; a game begins with [White "..."]')
            comment = (comment or line) if _ends_in_comment(row, bool(comment)) else 0
            is_open = False
            continue
        tag = _TAG.fullmatch(row)
        if tag is None:
            raise _bad(name, line, f'{_show(row)} is no tag; write [Name "value"]')
        if not is_open and tags:
            yield start, _pgn_fields(name, start, tags)
            tags = {}
        key, value = tag[1], re.sub(r"\\(.)", r"\1", tag[2])
        if key in tags:
            raise _bad(name, line, f"tag {key} stands in one game twice; put an empty line between two games")
        start = start if tags else line
        tags[key], is_open = value, True
    if comment:
        raise _bad(name, comment, "a comment begins and is never closed; add `}`")
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
            raise _bad(name, line, f"the game has no tag {tag}; a game needs White, Black and Result")
    result = tags["Result"].strip().replace("½", "1/2")
    if result != UNDECIDED and result not in PGN_RESULTS:
        known = ", ".join([*PGN_RESULTS, UNDECIDED])
        raise _bad(name, line, f"Result {_show(result)} of the game that begins here must be one of {known}")
    fields = {column: tags[tag].strip() for tag, column in PGN_TAGS.items() if tag in tags}
    return fields | {"winner": PGN_RESULTS.get(result, UNDECIDED)}


# Writing


def _write_jsonl(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        yield json.dumps(row, ensure_ascii=False) + "\n"


def _write_csv(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(row)
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
class _Format:
    """How a kind of file is read, and how written."""

    read: Callable[[str, str], Iterator[tuple[int, dict[str, str]]]]
    """(text, name) -> line and columns of each game."""
    write: Callable[[Iterable[Mapping[str, Any]]], Iterator[str]]


FORMATS = {
    ".jsonl": _Format(_read_jsonl, _write_jsonl),
    ".csv": _Format(_read_csv, _write_csv),
    ".pgn": _Format(_read_pgn, _write_pgn),
}


def _format_of(name: str) -> _Format:
    suffix = Path(name).suffix.lower()
    if suffix in (".duckdb", ".db", ".wal"):
        raise UsageError(
            f"{name}: another's store is never opened, since opening a database is like loading a program; ask for its"
            f" matches as JSON lines, which `league matches FILE.jsonl` writes there"
        )
    if suffix not in FORMATS:
        raise UsageError(f"{name}: its ending tells the format, and must be {', '.join(FORMATS)}; rename the file")
    return FORMATS[suffix]


def _bad(name: str, line: int, problem: str) -> UsageError:
    return UsageError(f"{name}, line {line}: {problem}")


def _show(value: str) -> str:
    """A value in an error: quoted, its beginning only, whatever letters it has."""
    return ascii(value if len(value) <= 60 else value[:57] + "...")


# From a file into the store


@dataclass
class _Known:
    """What names stand for in a store, and the agents that a file brings."""

    runs: Mapping[str, str]
    """Run -> game id."""
    labels: Mapping[tuple[str, str], str]
    """(Game id, RUN@STEP) -> agent id."""
    ids: dict[tuple[str, str], str]
    """(Game id, agent id) -> name."""
    named: dict[tuple[str, str], set[str]]
    """(Game id, name in Unicode's form NFC) -> agent ids."""
    new: dict[tuple[str, str], AgentRow] = field(default_factory=dict)

    @classmethod
    def of(cls, store: Store | None) -> _Known:
        if store is None:
            return cls({}, {}, {}, {})
        with store.reading():
            runs = {row.run: row.game_id for row in store.runs()}
            labels = {
                (game_id, f"{run}@{row.step}"): row.agent_id
                for run, game_id in runs.items()
                for row in store.snapshots(run)
            }
            agents = [agent for game_id in store.games() for agent in store.agents(game_id)]
        ids = {(agent.game_id, agent.agent_id): agent.name for agent in agents}
        named: dict[tuple[str, str], set[str]] = {}
        for agent in agents:
            key = agent.game_id, unicodedata.normalize("NFC", agent.name)
            named.setdefault(key, set()).add(agent.agent_id)
        return cls(runs, labels, ids, named)

    def find(self, game_id: str, name: str) -> str:
        """The id of the agent called `name` in a game; one that nobody knows is noted as new.

        Raises:
            ValueError: the name cannot stand for one agent; the message says why.
        """
        key = game_id, name
        if key in self.ids or key in self.new:
            return name
        if key in self.labels:
            return self.labels[key]
        plain = name.removeprefix(OUTSIDE_PREFIX)
        for called in (key, (game_id, plain)):
            if len(self.named.get(called, ())) > 1:
                raise ValueError(f"names {len(self.named[called])} agents; give the id of one")
            if called in self.named:
                return next(iter(self.named[called]))
        if plain != name and plain.startswith((BOT_PREFIX, OUTSIDE_PREFIX)):
            raise ValueError(f"has two prefixes; write `{plain}`")
        run = plain.partition("@")[0]
        if run in self.runs:
            raise ValueError(
                f"begins with the name of run `{run}` but is none of its snapshots in this game; name RUN@STEP, the"
                f" snapshot's id, or a name of another beginning"
            )
        if name.startswith(BOT_PREFIX):
            agent = AgentRow(name, "bot", name, game_id)
        elif _SNAPSHOT_ID.fullmatch(name):
            agent = AgentRow(name, "import", name[:12], game_id)
        else:
            agent = AgentRow(OUTSIDE_PREFIX + plain, "import", plain, game_id)
        self.new[game_id, agent.agent_id] = agent
        return agent.agent_id

    def name(self, game_id: str, agent_id: str) -> str:
        """What an agent is called."""
        key = game_id, agent_id
        return self.ids[key] if key in self.ids else self.new[key].name if key in self.new else agent_id

    def alike(self, seated: Iterable[tuple[str, str]]) -> list[tuple[str, ...]]:
        """Sets of names of different agents of one game, of (game id, agent id) one at least, that differ by case."""
        every = self.ids | {key: agent.name for key, agent in self.new.items()}
        folded: dict[tuple[str, str], set[str]] = {}
        for (game_id, _), name in every.items():
            folded.setdefault((game_id, name.casefold()), set()).add(name)
        wanted = {(key[0], every[key].casefold()): None for key in seated if key in every}
        return [tuple(sorted(folded[key])) for key in wanted if len(folded[key]) > 1]


def import_matches(
    file: str | os.PathLike[str],
    *,
    game: str | None = None,
    game_id: str | None = None,
    run: str | None = None,
    replace: bool = False,
    as_new: bool = False,
    store: str | os.PathLike[str],
    say: Callable[[str], None] | None = None,
) -> Imported:
    """Writes the matches of a `.jsonl`, `.csv` or `.pgn` file into the store as evaluation matches, all or none.

    A seat that names an agent of the store (its id, its name, `RUN@STEP`, `bot:NAME`) is that agent; any other name
    becomes an agent from outside, whose id is `import:NAME`. A match that the store has already is left out. A file
    that has at least half of the games of an earlier import is refused, unless `replace` or `as_new` says what it is.

    Args:
        file: its ending tells the format.
        game, game_id: the game of matches that name none; needed unless the store has exactly one.
        run: the name that the matches get; the next free `import-N` if not given.
        replace: puts the file in the place of the earlier imports that it continues.
        as_new: its games are others than those of earlier imports, however alike they are.
        store: the DuckDB file; made if it is not there.
        say: is told when it is waited for.

    Raises:
        UsageError: the file is bad (with the line), was imported before, has most games of another import, or a name
            or game is unknown or unclear.
        StoreError: the store cannot be used.
    """
    path, store_path = Path(file), Path(store)
    if run is not None and not RUN_NAME.fullmatch(run):
        raise UsageError(f"run={_show(run)}: letters, digits, . _ and -, at most 64; pass another --run")
    if game_id is not None and name_problem(game_id):
        raise UsageError(f"game_id={_show(game_id)}: {name_problem(game_id)}; pass another --game-id")
    if replace and as_new:
        raise UsageError("--replace and --as-new exclude each other; pass one")
    _format_of(path.name)
    data = _read_file(path)
    parsed = parse(data, str(path))
    games, undecided = parsed.games, parsed.undecided
    if not games:
        raise UsageError(f"{path}: none of its {undecided} games has a result; nothing was changed")
    opened = Store.open(store_path, say) if os.path.lexists(store_path) else None
    default = _default_game({} if opened is None else opened.games(), store_path, game, game_id)
    known = _Known.of(opened)
    digest = hashlib.sha256(data)
    rows = [_match(str(path), place, g, default, game_id, known, digest) for place, g in enumerate(games)]
    opened = opened or Store.create(store_path, say)
    file_name = path.name.encode(errors="replace").decode()
    earlier: Earlier = "replace" if replace else "keep" if as_new else "refuse"
    brought = MatchFile(file_name, digest.hexdigest(), rows, tuple(known.new.values()))
    row, replaced = opened.add_import(brought, run, earlier)
    seated = {(match.game_id, agent): None for match, _ in rows for agent in match.agents}
    left_out = {"no result": undecided, "already in the store": len(rows) - row.matches}
    return Imported(
        run=row.run,
        file=str(path),
        read=len(games) + undecided,
        imported=row.matches,
        skipped={why: count for why, count in left_out.items() if count},
        game_ids=tuple(dict.fromkeys(match.game_id for match, _ in rows)),
        joined=tuple(known.name(*key) for key in seated if key not in known.new),
        new=tuple(agent.name for agent in known.new.values()),
        replaced={old.run: old.matches for old in replaced},
        ignored=parsed.ignored,
        alike=tuple(known.alike(seated)),
        is_listed=_is_listed(games),
    )


def _is_listed(games: Sequence[Game]) -> bool:
    decided = [game.winner for game in games if game.winner != DRAW]
    return len(decided) >= LEAST_LISTED and len(set(decided)) == 1


def _read_file(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise UsageError(f"{path}: no such file; give a file of matches")
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path}: larger than {MAX_BYTES // 2**20} MiB; split it into several files")
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); give a file of matches") from None
    except ValueError:  # a zero byte in the path
        raise UsageError(f"{path}: no such file; give a file of matches") from None


def _default_game(games: Mapping[str, str], store: Path, game: str | None, game_id: str | None) -> str | None:
    """The game of matches that name none; None where nothing tells."""
    if game is None:
        return game_id or (next(iter(games)) if len(games) == 1 else None)
    found = [known for known, name in games.items() if name == game]
    if not found:
        raise UsageError(
            f"game={_show(game)}: no such game in {store}{nearest(game, filter(None, games.values()))}; to begin"
            f" another, pass --game-id ID"
        )
    if game_id is not None and game_id not in found:
        raise UsageError(f"game={game} is not game id {game_id}; pass only one of --game and --game-id")
    if game_id is None and len(found) > 1:
        raise UsageError(f"game={game}: {store} has {len(found)} of it; pass --game-id with one of {', '.join(found)}")
    return game_id or found[0]


def _match(
    file: str, place: int, game: Game, default: str | None, wanted: str | None, known: _Known, digest: hashlib._Hash
) -> tuple[MatchResult, datetime | None]:
    """A game of a file as a row of the store, and when it was played, if the file says so."""
    if wanted is not None and game.game_id not in (None, wanted):
        raise _bad(file, game.line, f"game_id={_show(game.game_id or '')} is not --game-id {wanted}; leave one out")
    game_id = game.game_id or default
    if game_id is None:
        raise _bad(file, game.line, "nothing tells the game; pass --game or --game-id, or add a column game_id")
    seats = []
    for seat, name in enumerate(game.seats):
        try:
            seats.append(known.find(game_id, name))
        except ValueError as error:
            raise _bad(file, game.line, f"seat{seat}={_show(name)} {error}") from None
    if seats[0] == seats[1]:
        raise _bad(file, game.line, f"{_show(game.seats[0])} plays against itself; a match is between two agents")
    seed = game.seed
    if seed is None:  # games of one seed may count once, and these are different games: each gets its own
        own = digest.copy()
        own.update(f":{place}".encode())
        seed = int.from_bytes(own.digest()[:8], "big")
    match = MatchResult(
        run="import",  # the store gives the name
        kind="evaluation",
        update=0,
        row=place,
        ordinal=0,
        game_id=game_id,
        agents=(seats[0], seats[1]),
        seed=seed,
        winner=game.winner,
        end_reason=game.end_reason,
        steps=game.steps,
        ticks=game.ticks,
        sampling=game.sampling,
    )
    return match, game.played_at


# From the store into a file


def export_matches(
    file: str | os.PathLike[str],
    *,
    run: str | None = None,
    kind: Literal["training", "evaluation"] = "evaluation",
    game_id: str | None = None,
    names: bool = False,
    store: str | os.PathLike[str],
    say: Callable[[str], None] | None = None,
) -> Exported:
    """Writes matches to a new `.jsonl`, `.csv` or `.pgn` file, from which `import_matches` makes equal ratings.

    Games that had been played before, which count once, are written once.

    Args:
        file: a new file; its ending tells the format.
        run: only the matches under this name: a run, or what `league evaluate`, `gate` or `import` called theirs.
        kind: matches of the league, or a learner's in training, which no import takes.
        game_id: only this game.
        names: agents by name where that is clear in their game, instead of by id.
        store: the DuckDB file.
        say: is told when it is waited for.

    Raises:
        UsageError: no such match, an agent's name that no file can hold, or a file that is there or cannot be written.
        StoreError: the store cannot be used.
    """
    path = Path(file)
    write = _format_of(path.name).write
    if kind not in ("training", "evaluation"):
        raise UsageError(f"kind={_show(kind)}: must be training or evaluation; pass another --kind")
    opened = Store.open(Path(store), say)
    with opened.reading():
        known = _Known.of(opened)
        matches = opened.games_played(kind, run, game_id)
    if not matches:
        limits = "".join(f" with {key}={value}" for key, value in (("run", run), ("game_id", game_id)) if value)
        raise UsageError(
            f"no {kind} match{limits} in {opened.path}; see `league query 'SELECT DISTINCT run FROM match'`"
        )
    rows = [_row(match, at, known, names) for match, at in matches]
    try:
        with path.open("x", encoding="utf-8", newline="") as out:
            try:
                out.writelines(write(rows))
            except BaseException:  # a part of the matches is not what the file would seem to be
                path.unlink()
                raise
    except FileExistsError:
        raise UsageError(f"{path}: is there already; name a new file") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be written ({error}); name another file") from None
    return Exported(str(path), len(rows))


def _row(match: MatchResult, at: datetime, known: _Known, names: bool) -> dict[str, Any]:
    """A match as a file has it."""
    seats = []
    for agent_id in match.agents:
        label = known.ids.get((match.game_id, agent_id), agent_id) if names else agent_id
        is_clear = known.named.get((match.game_id, label)) == {agent_id}
        seats.append(label if is_clear else agent_id)
    values = {
        "game_id": match.game_id,
        "seat0": seats[0],
        "seat1": seats[1],
        "winner": "draw" if match.winner == DRAW else match.winner,
        "seed": match.seed,
        "end_reason": match.end_reason,
        "steps": match.steps,
        "ticks": match.ticks,
        "sampling": match.sampling,
        "kind": match.kind,
        "played_at": at.isoformat(),
    }
    for column in ("game_id", "seat0", "seat1", "end_reason"):
        problem = name_problem(str(values[column]))
        if problem:
            raise UsageError(f"{column}={_show(str(values[column]))} of {match.run} {problem}; leave it out with --run")
    return values
