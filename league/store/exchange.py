"""Matches from and to other tools, by files (`formats.py`): what their names stand for in a store.

A name is data and nothing else: checked, kept in rows, and never used as a path or as SQL.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from league.errors import DEFAULT_STORE, UsageError, nearest, plain, quoted
from league.store.checking import (
    RESULTS,
    CheckedGames,
    Earlier,
    leave_out_stored,
    matches_query,
    misnamed_problem,
    refuse_too_many,
)
from league.store.files import check_new, new_file
from league.store.folder import Folder
from league.store.formats import OUTSIDE_PREFIX, format_of, name_problem
from league.store.rows import AgentRow, ImportRow
from league.store.segments import write_query
from league.store.store import Store
from league.store.view import Cursor
from league.types import BOT_PREFIX, DRAW, RUN_NAME, MatchResult
from league.types.schema import read_file

MAX_BYTES = 64 * 2**20
LARGE = 100_000
"""Lines of a file of which it is said beforehand what memory it takes."""
BASE_BYTES, LINE_BYTES = 270 * 2**20, 400
"""Of memory that an import takes at most, for itself and for a line (`tests/store/test_large_import.py`)."""
_SNAPSHOT_ID = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Imported:
    """What an import did: `run` is the name of its matches, `read` the games in the file."""

    run: str
    file: str
    read: int
    imported: int
    skipped: dict[str, int]
    """Why -> how many."""
    first_bad: str
    """What is wrong with the first game that cannot be read; empty: all can."""
    without_zone: int
    """Games whose time says no zone, and is read as UTC."""
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


# From a file into the store


@dataclass
class _Known:
    """What names stand for in a store, and the agents that a file brings."""

    runs: Mapping[str, str]
    """Run -> game id."""
    agents: dict[tuple[str, str], AgentRow]
    """(Game id, agent id) -> the agent."""
    named: dict[tuple[str, str], set[str]]
    """(Game id, name in Unicode's form NFC, or RUN@STEP) -> agent ids."""
    new: dict[tuple[str, str], AgentRow] = field(default_factory=dict)

    @classmethod
    def of(cls, store: Store) -> _Known:
        with store.reading():
            runs = {row.run: row.game_id for row in store.runs()}
            agents = [agent for game_id in store.games() for agent in store.agents(game_id)]
            called = [(agent.game_id, agent.name, agent.agent_id) for agent in agents]
            for run, rows in store.all_snapshots().items():
                called += [(runs[run], f"{run}@{row.step}", row.agent_id) for row in rows]
        named: dict[tuple[str, str], set[str]] = {}
        for game_id, name, agent_id in called:
            named.setdefault((game_id, unicodedata.normalize("NFC", name)), set()).add(agent_id)
        return cls(runs, {(agent.game_id, agent.agent_id): agent for agent in agents}, named)

    def find(self, game_id: str, name: str) -> str:
        """The id of the agent called `name` in a game; one that nobody knows is noted as new.

        A `ValueError` says why the name cannot stand for one agent.
        """
        key = game_id, name
        if key in self.agents or key in self.new:
            return name
        plain = name.removeprefix(OUTSIDE_PREFIX)
        for called in (key, (game_id, plain)):
            meant = self.named.get(called, set())
            if len(meant) > 1:
                raise ValueError(f"names {len(meant)} agents; give the id of one")
            if meant:
                return min(meant)
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
        agent = self.agents.get(key) or self.new.get(key)
        return agent_id if agent is None else agent.name

    def alike(self, seated: Iterable[tuple[str, str]]) -> list[tuple[str, ...]]:
        """Sets of names of different agents of one game, of (game id, agent id) one at least, that differ by case."""
        every = {key: agent.name for key, agent in (self.agents | self.new).items()}
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
    strict: bool = False,
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
        run: the name that the matches get; `import-` and the beginning of the file's sha256 if not given.
        replace: puts the file in the place of the earlier imports that it continues.
        as_new: its games are others than those of earlier imports, however alike they are.
        strict: refuses a PGN file for one bad game, which else is left out and counted.
        store: its folder; made if it is not there.
        say: receives a line about each thing that cannot be read.

    Raises:
        UsageError: the file is bad (with the line), was imported before, has most games of another import, or a name
            or game is unknown or unclear.
    """
    path, store_path = Path(file), Path(store)
    _check_names(run, game_id)
    if replace and as_new:
        raise UsageError("--replace and --as-new exclude each other; pass one")
    format_of(path.name)
    data = _read_file(path, say)
    sha256 = hashlib.sha256(data).hexdigest()
    opened = Store.planned(store_path, say)
    games_known, known = opened.games(), _Known.of(opened)
    with opened.reading() as con:
        games = CheckedGames(
            *(con, data, str(path), known.find),
            games=games_known,
            default=_default_game(games_known, store_path, game, game_id),
            wanted=game_id,
            strict=strict,
            seed=int(sha256[:15], 16),
        )
    every = known.agents | known.new  # those of other owners, too, which may be removed some day
    earlier: Earlier = "replace" if replace else "keep" if as_new else "refuse"

    def fill(folder: Folder, con: Cursor) -> tuple[int, list[ImportRow]]:
        num_matches, replaced = leave_out_stored(opened, con, row, earlier)
        refuse_too_many(opened, con, row.file)
        folder.add_segment(write_query(con, folder.path, "match", 1, matches_query(row), num_matches))
        for key in games.seated:
            folder.add_agent(every[key])
        return num_matches, replaced

    row = ImportRow(run or f"import-{sha256[:12]}", sha256, path.name.encode(errors="replace").decode(), games.count)
    row, replaced = opened.add_import(row, fill)
    left_out = {**games.left_out, "already in the store": games.count - row.matches}
    return Imported(
        run=row.run,
        file=str(path),
        read=games.count + games.left_out.total(),
        imported=row.matches,
        skipped={why: count for why, count in left_out.items() if count},
        first_bad=games.first_bad,
        without_zone=games.without_zone,
        game_ids=tuple(dict.fromkeys(game_id for game_id, _ in games.seated)),
        joined=tuple(dict.fromkeys(known.name(*key) for key in games.seated if key not in known.new)),
        new=tuple(dict.fromkeys(agent.name for agent in known.new.values())),
        replaced={old.run: old.matches for old in replaced},
        ignored=tuple(games.ignored),
        alike=tuple(known.alike(games.seated)),
        is_listed=games.is_listed,
    )


def imports(
    *, store: str | os.PathLike[str] = DEFAULT_STORE, say: Callable[[str], None] | None = None
) -> list[ImportRow]:
    """The files of matches that were imported into the store, the oldest first."""
    return Store.open(store, say).imports()


def remove_import(
    run: str, *, store: str | os.PathLike[str] = DEFAULT_STORE, say: Callable[[str], None] | None = None
) -> ImportRow:
    """Takes an import back, all or nothing: its matches, and the agents that nobody else has met.

    run: its name, as `imports` has it.

    Returns:
        The import as it was.

    Raises:
        UsageError: there is none of that name.
    """
    return Store.open(store, say).remove_import(run)


def _check_names(run: str | None, game_id: str | None) -> None:
    if run is not None and not RUN_NAME.fullmatch(run):
        raise UsageError(f"run={quoted(run)}: letters, digits, . _ and -, at most 64; pass another --run")
    if game_id is not None and (problem := name_problem(game_id)):
        raise UsageError(f"game_id={quoted(game_id)}: {problem}; pass another --game-id")


def _read_file(path: Path, say: Callable[[str], None] | None) -> bytes:
    """The bytes of a file; of a large one it says what memory its import takes."""
    try:
        data = read_file(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{path}: cannot be read ({reason}); give a file of matches, a large one in parts") from None
    lines = data.count(b"\n")
    if say is not None and lines >= LARGE:
        size = (BASE_BYTES + len(data) + lines * LINE_BYTES) / 2**20
        say(f"{path}: {lines:,} lines; importing them takes up to {size:,.0f} MiB of memory")
    return data


def _default_game(games: Mapping[str, str], store: Path, game: str | None, game_id: str | None) -> str | None:
    """The game of matches that name none; None where nothing tells."""
    if game_id in set(games.values()) - games.keys():
        raise UsageError(misnamed_problem(game_id, games))
    if game is None:
        return game_id or (next(iter(games)) if len(games) == 1 else None)
    found = [known for known, name in games.items() if name == game]
    if not found:
        raise UsageError(
            f"game={quoted(game)}: no such game in {store}{nearest(game, filter(None, games.values()))}; to begin"
            f" another, pass --game-id ID alone"
        )
    if game_id is not None and game_id not in found:
        raise UsageError(f"game={game} is not game id {game_id}; pass only one of --game and --game-id")
    if game_id is None and len(found) > 1:
        raise UsageError(
            f"game={game}: {store} has {len(found)} of it; pass --game-id with one of {', '.join(map(plain, found))}"
        )
    return game_id or found[0]


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
) -> int:
    """Writes matches to a new `.jsonl`, `.csv` or `.pgn` file, from which `import_matches` makes equal ratings.

    Games that had been played before, which count once, are written once.

    Args:
        file: a new file; its ending tells the format.
        run: only the matches under this name: a run, or what `league evaluate`, `gate` or `import` called theirs.
        kind: matches of the league, or a learner's in training, which no import takes.
        game_id: only this game.
        names: agents by name where that is clear in their game, instead of by id.
        store: its folder.
        say: receives a line about each thing that cannot be read.

    Returns:
        How many it wrote.

    Raises:
        UsageError: no such match, an agent's name that no file can hold, or a file that is there or has no folder.
    """
    path = Path(file)
    write = format_of(path.name).write
    check_new(path, "FILE")
    if kind not in ("training", "evaluation"):
        raise UsageError(f"kind={quoted(kind)}: must be training or evaluation; pass another --kind")
    opened = Store.open(Path(store), say)
    with opened.reading():
        known = _Known.of(opened)
        matches = opened.games_played(kind, run, game_id)
    if not matches:
        limits = "".join(f" with {key}={value}" for key, value in (("run", run), ("game_id", game_id)) if value)
        raise UsageError(
            f"no {kind} match{limits} in {opened.path}; see `league query 'SELECT DISTINCT run FROM match'`"
        )
    called = {
        *itertools.chain.from_iterable(match.agents for match, _ in matches),
        *((agent.name for agent in known.agents.values()) if names else ()),
    }
    has_two_meanings = any(name.casefold() in RESULTS for name in called)
    column = "winner_seat" if has_two_meanings else "winner"
    rows = (_row(match, at, known, names, column) for match, at in matches)
    with new_file(path, "FILE") as draft, draft.open("x", encoding="utf-8", newline="") as out:
        write(rows, out)
    return len(matches)


def _row(match: MatchResult, at: datetime, known: _Known, names: bool, column: str) -> dict[str, Any]:
    """A match as a file has it; `column` is that of the winner."""
    seats = []
    for agent_id in match.agents:
        label = known.name(match.game_id, agent_id) if names else agent_id
        is_clear = known.named.get((match.game_id, label)) == {agent_id}
        seats.append(label if is_clear else agent_id)
    values = {
        "game_id": match.game_id,
        "seat0": seats[0],
        "seat1": seats[1],
        column: "draw" if match.winner == DRAW else match.winner,
        **{name: getattr(match, name) for name in ("seed", "end_reason", "steps", "ticks", "sampling", "kind")},
        "played_at": at.isoformat(),
    }
    for checked in ("game_id", "seat0", "seat1", "end_reason"):
        problem = name_problem(str(values[checked]))
        if problem:
            value = quoted(str(values[checked]))
            raise UsageError(f"{checked}={value} of {match.run} {problem}; leave it out with --run")
    return values
