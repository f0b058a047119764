"""Matches from and to other tools, by files (`formats.py`): what their names stand for in a store.

A name is data and nothing else: checked, kept in rows, and never used as a path or as SQL.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from league.acts import advance
from league.errors import UsageError, nearest, plain
from league.schema import read_file
from league.store.files import check_new, new_file
from league.store.formats import OUTSIDE_PREFIX, FileGame, bad, format_of, name_problem, parse, show
from league.store.importing import Earlier, MatchFile
from league.store.reading import LEAST_LISTED
from league.store.rows import AgentRow, ImportRow
from league.store.store import Store
from league.types import BOT_PREFIX, DRAW, RUN_NAME, MatchResult

DEFAULT_STORE = Path("runs/league.duckdb")
MAX_BYTES = 64 * 2**20
TOLD_EVERY = 1_000
"""Games of a file between two words of how far it is."""
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
        raise UsageError(f"run={show(run)}: letters, digits, . _ and -, at most 64; pass another --run")
    if game_id is not None and name_problem(game_id):
        raise UsageError(f"game_id={show(game_id)}: {name_problem(game_id)}; pass another --game-id")
    if replace and as_new:
        raise UsageError("--replace and --as-new exclude each other; pass one")
    format_of(path.name)
    data = _read_file(path)
    parsed = parse(data, str(path))
    games, undecided = parsed.games, parsed.undecided
    if not games:
        raise UsageError(f"{path}: none of its {undecided} games has a result; nothing was changed")
    opened = Store.open(store_path, say) if os.path.lexists(store_path) else None
    default = _default_game({} if opened is None else opened.games(), store_path, game, game_id)
    known = _Known.of(opened)
    digest = hashlib.sha256(data)
    rows = []
    for place, g in enumerate(games):
        rows.append(_match(str(path), place, g, default, game_id, known, digest))
        if not place % TOLD_EVERY:
            advance("games", place, len(games))
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


def imports(
    *, store: str | os.PathLike[str] = DEFAULT_STORE, say: Callable[[str], None] | None = None
) -> list[ImportRow]:
    """The files of matches that were imported into the store, the oldest first.

    Raises:
        StoreError: there is no store, or it cannot be used.
    """
    return Store.open(store, say).imports()


def remove_import(
    run: str, *, store: str | os.PathLike[str] = DEFAULT_STORE, say: Callable[[str], None] | None = None
) -> ImportRow:
    """Takes an import back, all or nothing: its matches, and the agents that nobody else has met.

    Ratings and alarms are worked out from what matches there are; the boards that the store keeps for queries go.

    Args:
        run: its name, as `imports` has it.
        store: the DuckDB file.
        say: is told when it is waited for.

    Returns:
        The import as it was.

    Raises:
        UsageError: there is none of that name.
        StoreError: the store cannot be used.
    """
    return Store.open(store, say).remove_import(run)


def _is_listed(games: Sequence[FileGame]) -> bool:
    decided = [game.winner for game in games if game.winner != DRAW]
    return len(decided) >= LEAST_LISTED and len(set(decided)) == 1


def _read_file(path: Path) -> bytes:
    try:
        return read_file(path, MAX_BYTES)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); give a file of matches") from None
    except ValueError as error:
        raise UsageError(f"{path}: cannot be read ({error}); give a file of matches, a large one in parts") from None


def _default_game(games: Mapping[str, str], store: Path, game: str | None, game_id: str | None) -> str | None:
    """The game of matches that name none; None where nothing tells."""
    if game is None:
        return game_id or (next(iter(games)) if len(games) == 1 else None)
    found = [known for known, name in games.items() if name == game]
    if not found:
        raise UsageError(
            f"game={show(game)}: no such game in {store}{nearest(game, filter(None, games.values()))}; to begin"
            f" another, pass --game-id ID"
        )
    if game_id is not None and game_id not in found:
        raise UsageError(f"game={game} is not game id {game_id}; pass only one of --game and --game-id")
    if game_id is None and len(found) > 1:
        raise UsageError(
            f"game={game}: {store} has {len(found)} of it; pass --game-id with one of {', '.join(map(plain, found))}"
        )
    return game_id or found[0]


def _match(
    file: str, place: int, game: FileGame, default: str | None, wanted: str | None, known: _Known, digest: hashlib._Hash
) -> tuple[MatchResult, datetime | None]:
    """A game of a file as a row of the store, and when it was played, if the file says so."""
    if wanted is not None and game.game_id not in (None, wanted):
        raise bad(file, game.line, f"game_id={show(game.game_id or '')} is not --game-id {wanted}; leave one out")
    game_id = game.game_id or default
    if game_id is None:
        raise bad(file, game.line, "nothing tells the game; pass --game or --game-id, or add a column game_id")
    seats = []
    for seat, name in enumerate(game.seats):
        try:
            seats.append(known.find(game_id, name))
        except ValueError as error:
            raise bad(file, game.line, f"seat{seat}={show(name)} {error}") from None
    if seats[0] == seats[1]:
        raise bad(file, game.line, f"{show(game.seats[0])} plays against itself; a match is between two agents")
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
        UsageError: no such match, an agent's name that no file can hold, or a file that is there or has no folder.
        LeagueError: the disk or the folder refuses.
        StoreError: the store cannot be used.
    """
    path = Path(file)
    write = format_of(path.name).write
    check_new(path, "FILE")
    if kind not in ("training", "evaluation"):
        raise UsageError(f"kind={show(kind)}: must be training or evaluation; pass another --kind")
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
    with new_file(path, "FILE") as draft, draft.open("x", encoding="utf-8", newline="") as out:
        out.writelines(write(rows))
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
            raise UsageError(f"{column}={show(str(values[column]))} of {match.run} {problem}; leave it out with --run")
    return values
