"""An owner's folder: who wrote its rows, how far it is, and the rows as its one writer has them.

An owner is a run, a league, evaluations of one caller, a gate or an import. `run.json` is written once; each beginning
and each resume of a run writes a `config-NNN.json`; `status.json` and `segments.json` are replaced whole.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, RootModel, ValidationError, model_validator

from league.errors import StoreError
from league.schema import FrozenModel, Natural, read_file
from league.store.codec import KINDS, Columns, key_of, naive, replay_columns, storable, to_columns
from league.store.files import replace_whole
from league.store.locks import LockLost, check_owned
from league.store.rows import (
    AgentRow,
    Decision,
    GameRow,
    GateRow,
    ImportRow,
    LearnerRow,
    RatingRow,
    RunStatus,
    SnapshotRow,
    now,
)
from league.store.segments import (
    FORMAT,
    LISTING,
    ROWS,
    Listing,
    Segment,
    damage,
    listing_of,
    merge,
    numbers,
    remove,
    rows_of,
    sync_rows,
    write_listing,
    write_segment,
)
from league.types import MatchResult

IDENTITY, STATUS, PRUNED, DECISION = "run.json", "status.json", "pruned.json", "decision.json"
CONFIG, _CONFIG = "config-{:03d}.json", re.compile(r"config-(\d{3,})\.json", re.ASCII)
OwnerKind = Literal["run", "league", "evaluations", "gate", "import"]
FLUSH_SECONDS = 3.0
"""Between two writes of rows that can wait."""
MAX_RETRY_SECONDS = 60.0
"""The most that is waited before the next try where such writes fail again and again; each failure is said."""
READ_SECONDS = 60.0
"""How long a segment that nothing names any more is kept at least: who reads has an older listing."""
Model = TypeVar("Model", bound=BaseModel)


class Identity(FrozenModel):
    """Who an owner is; `run.json`."""

    format: int = FORMAT
    id: str
    """Random; copies of the folder share it."""
    kind: OwnerKind
    name: str
    """That of the folder, too."""
    number: Natural
    """One above the highest in the store when it began."""
    begun_at: datetime
    host: str = ""
    """Of the machine that writes evaluations."""
    game: str = ""
    game_id: str = ""
    seed: int = 0
    parent: str | None = None
    preset: str = ""
    learner: LearnerRow | None = None
    """Of a run that is a learner of a league, or an exploiter."""
    learners: tuple[str, ...] = ()
    """Of a league: the ids of its runs, which are there when it is."""
    gate: GateRow | None = None
    """As it began."""
    begun: Natural = 0
    """Of a gate: its place among the beginnings and decisions of all gates."""
    imported: ImportRow | None = None

    @model_validator(mode="after")
    def _own(self) -> Self:
        named = {"gate": self.gate and self.gate.gate, "import": self.imported and self.imported.run}
        is_own = all(name == (self.name if kind == self.kind else None) for kind, name in named.items())
        if not is_own or (self.learner and self.learner.run != self.name):
            raise ValueError("what it says of a gate, an import or a learner is of another one")
        return self


class Configured(FrozenModel):
    """The settings of a run from a beginning or a resume on; `config-NNN.json`."""

    stage: str
    config: dict[str, dict[str, Any]]
    fingerprint: str
    device: str
    game_address: str = ""
    game_version: str = ""
    game_sha256: str = ""


class Status(FrozenModel):
    """How far a run is; `status.json`."""

    status: RunStatus = "stopped"
    steps: Natural = 0
    update: Natural = 0
    updated_at: datetime
    has_state: bool = False
    """Whether a state was ever saved: then one that is missing was lost."""


class Decided(FrozenModel):
    """What a gate came to; `decision.json`."""

    games: int
    llr: float
    decision: Decision
    is_promoted: bool
    decided_at: datetime
    decided: Natural
    """As `Identity.begun`."""


class Pruned(RootModel[dict[int, datetime]]):
    """Step -> when a snapshot's files were deleted; `pruned.json`."""


def read(kind: type[Model], path: Path) -> Model | None:
    """What a file of an owner's folder holds; None where it is not there.

    Raises:
        StoreError: it cannot be read, is damaged, or a newer league wrote it.
    """
    try:
        data = read_file(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    try:
        found = kind.model_validate_json(data)
    except ValidationError as error:
        if (number := _format_of(data)) > FORMAT:
            raise StoreError(
                f"{path}: a newer league wrote it (format {number}, this one knows {FORMAT}); install that one"
            ) from None
        first = error.errors(include_url=False)[0]
        raise StoreError(f"{path}: damaged ({'.'.join(map(str, first['loc']))}: {first['msg']})") from None
    if (number := getattr(found, "format", FORMAT)) != FORMAT:
        raise StoreError(f"{path}: its format is {number}, this league's is {FORMAT}; install the league that wrote it")
    return found


def _format_of(data: bytes) -> int:
    try:
        number = json.loads(data)["format"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0
    return number if isinstance(number, int) else 0


def write(path: Path, content: BaseModel) -> None:
    """Replaces a file of an owner's folder whole.

    Raises:
        StoreError: the disk refuses; the old one stands.
    """
    try:
        replace_whole(path, content.model_dump_json(indent=1).encode() + b"\n")
    except ValueError:  # pydantic's
        raise StoreError(f"{path}: cannot be written: a text in it is no Unicode; see to names and paths") from None
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be written ({error.strerror or error}); see to its disk and rights, or pass another"
            f" --store"
        ) from None


def newest_config(names: Iterable[str]) -> int:
    """The number of the last of a folder's files `config-NNN.json`; 0: it has none."""
    return max((int(found[1]) for found in map(_CONFIG.fullmatch, names) if found), default=0)


class Folder:
    """The rows of one owner. What `add_*` is given waits in memory until `flush`. Only the folder's writer has one.

    Args:
        path: the folder, which may not be there yet.
        say: receives a line when rows cannot be written.

    Raises:
        StoreError: its listing is damaged.
    """

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self.path, self.name, self._say = path, path.name, say
        self._numbers = numbers(path)
        self._waiting: dict[str, dict[Any, Columns]] = {kind: {} for kind in KINDS}
        self._is_changed = False
        self._segments: dict[str, list[Segment]] = {}
        self._agents: dict[tuple[str, str], AgentRow] = {}
        self._games: dict[str, GameRow] = {}
        self._snapshots: dict[int, SnapshotRow] = {}
        self._covered: dict[str, int] = {}
        """Kind -> its first segments that the last saved state covers."""
        self._take(read(Listing, path / LISTING) or Listing())
        self._status = read(Status, path / STATUS) or Status(updated_at=now())
        self._is_noted = True
        """Whether the status is written."""
        self._garbage: dict[str, float] = {}
        """Files that nothing named when the last state was saved -> since when."""
        self._next_flush, self._retry_seconds = 0.0, FLUSH_SECONDS

    # What is added.

    def add_matches(self, matches: Iterable[MatchResult]) -> None:
        """Buffers finished matches.

        Raises:
            ValueError: a match holds a value that cannot be.
        """
        finished_at = now()
        for match in matches:
            columns = to_columns(match, finished_at=finished_at)
            self._add("match", columns)
            for replay in replay_columns(match, columns):
                self._add("replay", replay)

    def add_metrics(
        self,
        update: int,
        steps: int,
        metrics: Mapping[str, float],
        of_agents: Mapping[tuple[str, str], float] | None = None,
    ) -> None:
        """Buffers measurements of one update, of the run by name, and of single agents by (name, agent id)."""
        named = {(name, ""): value for name, value in metrics.items()} | dict(of_agents or {})
        for (name, agent_id), value in named.items():
            row = {"run": self.name, "update": update, "steps": steps, "name": name, "agent_id": agent_id}
            self._add("metric", row | {"value": float(value)})

    def add_event(self, update: int, kind: str, message: str) -> None:
        """Buffers something worth remembering: a skipped update, a restart, a stop."""
        event = {"run": self.name, "update": update, "kind": kind, "message": message, "happened_at": naive(now())}
        self._add("event", event)

    def add_ratings(self, ratings: Iterable[RatingRow]) -> None:
        """Buffers ratings as they stood."""
        rated_at = now()
        for rating in ratings:
            self._add("rating", to_columns(rating, rated_at=rated_at))

    def add_game(self, game: GameRow) -> None:
        """Notes what boards need to know of a game."""
        game = replace(game, name=storable(game.name))
        self._is_changed |= self._games.get(game.game_id) != game
        self._games[game.game_id] = game

    def add_agent(self, agent: AgentRow) -> None:
        """Notes an agent that the owner plays with."""
        agent = replace(agent, agent_id=storable(agent.agent_id), name=storable(agent.name))
        key = agent.game_id, agent.agent_id
        self._is_changed |= self._agents.get(key) != agent
        self._agents[key] = agent

    def knows(self, agent_id: str) -> bool:
        """Whether an agent was noted."""
        return any(known == agent_id for _, known in self._agents)

    def add_row(self, kind: str, row: Columns) -> None:
        """Buffers a row of any kind as its columns."""
        self._add(kind, row)

    def take(self, segment: Segment) -> None:
        """Lists a segment of matches that was written already."""
        self._segments.setdefault("match", []).append(segment)
        self._is_changed = True

    def add_snapshot(self, snapshot: SnapshotRow) -> None:
        """Notes a snapshot, which is an agent named RUN@STEP from then on."""
        self._snapshots[snapshot.step], self._is_changed = snapshot, True

    @property
    def snapshots(self) -> Sequence[SnapshotRow]:
        """Those that were noted."""
        return list(self._snapshots.values())

    @property
    def num_waiting(self) -> int:
        """Rows in memory that are in no segment yet."""
        return sum(map(len, self._waiting.values()))

    # How far it is.

    def note(
        self,
        status: RunStatus | None = None,
        steps: int | None = None,
        update: int | None = None,
        has_state: bool | None = None,
    ) -> None:
        """Notes how far a run is; None: as before. A change of status, or a first state, is written at once.

        Raises:
            StoreError: that cannot be written.
        """
        given = {"status": status, "steps": steps, "update": update, "has_state": has_state}
        before = self._status
        now_told = {name: value for name, value in given.items() if value is not None}
        self._status = before.model_copy(update={**now_told, "updated_at": now()})
        self._is_noted = False
        if (before.status, before.has_state) != (self._status.status, self._status.has_state):
            self._write_status()

    @property
    def status(self) -> Status:
        """As it was noted last."""
        return self._status

    def begin(self, identity: Identity, configured: Configured | None = None) -> None:
        """Makes the folder an owner's: its name is taken from then on.

        Raises:
            StoreError: it cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self.path}: no folder can be made ({error.strerror}); pass another --store") from None
        if configured is not None:
            self.configure(configured)
            self._write_status()
        self.flush(force=True)
        write(self.path / IDENTITY, identity)

    def configure(self, configured: Configured) -> None:
        """Writes the settings from now on.

        Raises:
            StoreError: they cannot be written.
        """
        newest = newest_config(sorted(path.name for path in self.path.iterdir()))
        write(self.path / CONFIG.format(newest + 1), configured)

    # How rows become segments.

    def flush(self, *, force: bool = False, is_wanted: bool = False) -> bool:
        """Writes all that waits, and the listing with it.

        Without `force` it does nothing within 3 seconds of the last time, unless it `is_wanted`, and a disk that
        refuses is only told: the rows wait on, and the next try comes later with every failure.

        Returns:
            Whether nothing waits any more.

        Raises:
            StoreError: with `force`, the disk refuses; the rows wait on.
        """
        if not (self.num_waiting or self._is_changed or not self._is_noted):
            return True
        if not (force or is_wanted) and time.monotonic() < self._next_flush:
            return False
        try:
            self._write()
        except StoreError as error:
            if force or isinstance(error, LockLost):
                raise
            self._say(f"{self.num_waiting:,} rows wait in memory, tried again in {self._retry_seconds:g} s: {error}")
            self._next_flush = time.monotonic() + self._retry_seconds
            self._retry_seconds = min(2 * self._retry_seconds, MAX_RETRY_SECONDS)
            return False
        self._next_flush, self._retry_seconds = time.monotonic() + FLUSH_SECONDS, FLUSH_SECONDS
        return True

    def prepare(self, snapshots: Iterable[SnapshotRow] = ()) -> dict[str, Any]:
        """Writes all that waits, merges the segments since the last state, and makes what there is durable.

        A segment joins those of as many rows or fewer before it, so their number grows with the logarithm of the rows;
        one that is damaged stays as it is.

        snapshots: noted by `commit` only, so that nobody sees them before the state that has them is saved.

        Returns:
            The listing, for the state that covers it; `commit` follows once that is saved.

        Raises:
            StoreError: the disk refuses; what was listed before is.
        """
        self._write()
        ready: dict[str, list[Segment]] = {}
        for kind, segments in self._segments.items():
            first = self._covered.get(kind, 0)
            if first >= len(segments):
                ready[kind] = segments
                continue
            total = sum(segment.rows for segment in segments[first:])
            while first and segments[first - 1].rows <= total and not self._damage(segments[first - 1]):
                first -= 1
                total += segments[first].rows
            if len(segments) - first > 1:
                ready[kind] = [*segments[:first], merge(self.path, kind, self._number(kind), segments[first:])]
            else:
                sync_rows(self.path / ROWS / segments[-1].name)
                ready[kind] = segments
        if any(ready.values()):
            sync_rows(self.path / ROWS)
        self._ready = ready, self._snapshots | {row.step: row for row in snapshots}
        return json.loads(self._listing(*self._ready).model_dump_json())  # type: ignore[no-any-return]

    def commit(self, pinned: Iterable[str] = ()) -> None:
        """Lists what `prepare` made; what nothing has named since the state before, and for a minute, goes.

        pinned: names of segments that a kept state covers.

        Raises:
            StoreError: the disk refuses; the listing before stands, whose segments are all there.
        """
        before = self._segments, self._snapshots
        self._segments, self._snapshots = self._ready
        try:
            self._write_listing()
        except StoreError:
            self._segments, self._snapshots = before
            raise
        self._covered = {kind: len(segments) for kind, segments in self._segments.items()}
        named = self._listing().names | set(pinned)
        there = {path.name for path in (self.path / ROWS).glob("*.parquet")} if self._segments else set()
        unnamed = there - named
        at = time.monotonic()
        remove(
            self.path, [name for name, since in self._garbage.items() if name in unnamed and at - since > READ_SECONDS]
        )
        self._garbage = {name: self._garbage.get(name, at) for name in sorted(unnamed)}

    def close(self) -> None:
        """Writes all that waits, durably and in as few segments as the next reader wants.

        Raises:
            StoreError: the disk refuses.
        """
        if self.num_waiting or self._is_changed:
            self.prepare()
            self.commit()

    def restore(self, content: Mapping[str, Any] | None, update: int) -> int:
        """Goes back to the listing of a saved state (None: to none): rows since then do not count any more.

        What waits is of now, and waits on, as games and agents do. Events of the updates up to the state's stay:
        nothing makes them again.

        update: the state's.

        Returns:
            How many matches those are.

        Raises:
            StoreError: the listing or an event cannot be read, or the disk refuses.
        """
        before = self._listing()
        try:
            listing = Listing() if content is None else listing_of(content)
        except ValidationError as error:
            raise StoreError(f"{self.path}: the saved state's list of rows is damaged ({error.title})") from None
        dropped = [segment for segment in before.segments.get("event", []) if segment.name not in listing.names]
        whole = [segment for segment in dropped if not self._damage(segment)]
        for event in rows_of(self.path, "event", whole):
            if event["update"] <= update:
                self._add("event", event)
        agents, games = self._agents, self._games
        self._take(listing)
        self._agents, self._games = agents | self._agents, games | self._games
        if self._listing() != before:
            self._is_changed = True
            self._write()
        return max(0, before.num_rows("match") - listing.num_rows("match"))

    def damaged(self, content: Mapping[str, Any]) -> list[tuple[str, int]]:
        """What is wrong with the segments of a saved state's listing, and how many rows each has."""
        listing = listing_of(content)
        found = [(self._damage(x), x.rows) for those in listing.segments.values() for x in those]
        return [(wrong, rows) for wrong, rows in found if wrong]

    def _damage(self, segment: Segment) -> str:
        return damage(self.path / ROWS / segment.name, segment)

    def _add(self, kind: str, row: Columns) -> None:
        rows = self._waiting[kind]
        rows[key_of(kind, row) or len(rows)] = row

    def _number(self, kind: str) -> int:
        self._numbers[kind] = self._numbers.get(kind, 0) + 1
        return self._numbers[kind]

    def _take(self, listing: Listing) -> None:
        self._segments = {kind: list(segments) for kind, segments in listing.segments.items()}
        self._covered = {kind: len(segments) for kind, segments in self._segments.items()}
        self._snapshots = {row.step: row for row in listing.snapshots}
        self._agents = {(row.game_id, row.agent_id): row for row in listing.agents}
        self._games = {row.game_id: row for row in listing.games}

    def _listing(
        self, segments: Mapping[str, list[Segment]] | None = None, snapshots: Mapping[int, SnapshotRow] | None = None
    ) -> Listing:
        return Listing(
            segments={kind: tuple(found) for kind, found in (segments or self._segments).items()},
            snapshots=tuple((snapshots or self._snapshots).values()),
            agents=tuple(self._agents.values()),
            games=tuple(self._games.values()),
        )

    def _write(self) -> None:
        check_owned(self.path)
        made: dict[str, Segment] = {}
        try:
            for kind, rows in self._waiting.items():
                if rows:
                    made[kind] = write_segment(self.path, kind, self._number(kind), list(rows.values()))
            before = self._segments
            if made or self._is_changed:
                self._segments = {
                    kind: [*before.get(kind, []), *([made[kind]] if kind in made else [])]
                    for kind in KINDS
                    if kind in before or kind in made
                }
                try:
                    self._write_listing()
                except StoreError:
                    self._segments = before
                    raise
        except StoreError:
            remove(self.path, [segment.name for segment in made.values()])
            raise
        for rows in self._waiting.values():
            rows.clear()
        if not self._is_noted:
            self._write_status()

    def _write_listing(self) -> None:
        check_owned(self.path)
        try:
            write_listing(self.path, self._listing())
        except OSError as error:
            raise StoreError(
                f"{self.path / LISTING}: cannot be written ({error.strerror or error}); see to its disk and rights,"
                f" then try again"
            ) from None
        self._is_changed = False

    def _write_status(self) -> None:
        check_owned(self.path)
        write(self.path / STATUS, self._status)
        self._is_noted = True
