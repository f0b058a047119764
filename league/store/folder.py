"""An owner's folder as its one writer has it: rows wait in memory, become segments, and count once they are listed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from league.errors import StoreError, refuse_loading
from league.store.codec import KINDS, Columns, key_of, naive, storable, to_columns
from league.store.files import told
from league.store.locks import LockLost, check_owned
from league.store.owner import (
    CONFIG,
    IDENTITY,
    LISTING,
    STATUS,
    Configured,
    Identity,
    Listing,
    Status,
    listing_of,
    newest_config,
    read,
    write,
)
from league.store.rows import AgentRow, GameRow, RatingRow, RunStatus, SnapshotRow, now
from league.store.segments import (
    ROWS,
    Segment,
    damage,
    merge,
    numbers,
    place_segment,
    rows_of,
    sync_rows,
    write_segment,
)
from league.types import MatchResult

FLUSH_SECONDS = 3.0
"""Between two writes of rows that can wait."""
MAX_RETRY_SECONDS = 60.0
"""The most that is waited before the next try where such writes fail again and again; each failure is said."""
READ_SECONDS = 60.0
"""How long a segment that nothing names any more is kept at least: who reads has an older listing."""


class Folder:
    """The rows of one owner. What `add_*` is given waits in memory until `flush`. Only the folder's writer has one.

    Each method that writes raises a `StoreError` where the disk refuses: what was listed before still is, and what
    waits is kept.

    Args:
        path: the folder, which may not be there yet.
        say: receives a line when rows cannot be written.

    Raises:
        StoreError: its listing is damaged.
    """

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self.path, self.name, self._say = path, path.name, say
        self._numbers: dict[str, int] = {}
        self._waiting: dict[str, dict[Any, Columns]] = {kind: {} for kind in KINDS}
        self._agents: dict[tuple[str, str], AgentRow] = {}
        self._games: dict[str, GameRow] = {}
        self._take(read(Listing, path / LISTING) or Listing(segments={}))
        self._status = read(Status, path / STATUS) or Status(updated_at=now())
        self._written = self._listing(), self._status
        """What the files have."""
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
            if match.replay:
                self._add("replay", columns | {"content": match.replay})

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
        self._games[game.game_id] = replace(game, name=storable(game.name))

    def add_agent(self, agent: AgentRow) -> None:
        """Notes an agent that the owner plays with."""
        agent = replace(agent, agent_id=storable(agent.agent_id), name=storable(agent.name))
        self._agents[agent.game_id, agent.agent_id] = agent

    def knows(self, agent_id: str) -> bool:
        """Whether an agent was noted."""
        return any(known == agent_id for _, known in self._agents)

    def add_segment(self, segment: Segment) -> None:
        """Lists a segment that was written already."""
        self._segments[segment.kind] = [*self._segments.get(segment.kind, ()), segment]

    def place(self, segment: Segment, data: bytes) -> None:
        """Lists a segment of another process's folder (`taken`), whose bytes are a file of this one then."""
        check_owned(self.path)
        self.add_segment(place_segment(self.path, segment, self._number(segment.kind), data))

    def taken(self) -> list[tuple[Segment, bytes]]:
        """Writes what waits; returns all segments with their bytes, which are gone here then."""
        self._write()
        segments = [segment for those in self._segments.values() for segment in those]
        paths = [self.path / ROWS / segment.name for segment in segments]
        with told(self.path, "its segments cannot be handed over"):
            found = [(segment, path.read_bytes()) for segment, path in zip(segments, paths, strict=True)]
            for path in paths:
                path.unlink()
        self._take(Listing(segments={}))
        return found

    def add_snapshot(self, snapshot: SnapshotRow) -> None:
        """Notes a snapshot, which is an agent named RUN@STEP from then on."""
        self._snapshots[snapshot.step] = snapshot

    @property
    def snapshots(self) -> Sequence[SnapshotRow]:
        """Those that were noted."""
        return list(self._snapshots.values())

    @property
    def num_waiting(self) -> int:
        """Rows in memory that are in no segment yet."""
        return sum(map(len, self._waiting.values()))

    @property
    def is_flush_due(self) -> bool:
        """Whether `flush` writes what waits without being forced."""
        return time.monotonic() >= self._next_flush

    # How far it is.

    def note(
        self,
        status: RunStatus | None = None,
        steps: int | None = None,
        update: int | None = None,
        has_state: bool | None = None,
    ) -> None:
        """Notes how far a run is; None: as before. A change of status, or a first state, is written at once."""
        given = {"status": status, "steps": steps, "update": update, "has_state": has_state}
        before = self._status
        changed = {name: value for name, value in given.items() if value is not None}
        self._status = before.model_copy(update={**changed, "updated_at": now()})
        if (before.status, before.has_state) != (self._status.status, self._status.has_state):
            self._write_files()

    def begin(self, identity: Identity, configured: Configured | None = None) -> None:
        """Makes the folder an owner's: its name is taken from then on."""
        refuse_loading()
        with told(self.path, "no folder can be made"):
            self.path.mkdir(parents=True, exist_ok=True)
        if configured is not None:
            self.configure(configured)
            self.note()
        self._write()
        write(self.path / IDENTITY, identity)

    def configure(self, configured: Configured) -> None:
        """Writes the settings from now on."""
        newest = newest_config(path.name for path in sorted(self.path.iterdir()))
        write(self.path / CONFIG.format(newest + 1), configured)

    # How rows become segments.

    def flush(self, *, force: bool = False, is_wanted: bool = False) -> bool:
        """Writes all that waits, and the listing with it.

        Without `force` it does nothing within 3 seconds of the last time, unless it `is_wanted`, and a disk that
        refuses is only told: the rows wait on, and the next try comes later with every failure.

        Returns:
            Whether nothing waits any more.
        """
        if not self.num_waiting and self._written == (self._listing(), self._status):
            return True
        if not (force or is_wanted or self.is_flush_due):
            return False
        try:
            self._write()
        except StoreError as error:
            if force or isinstance(error, LockLost):
                raise
            self._say(f"{self.name}: rows wait to be written, tried again in {self._retry_seconds:g} s: {error}")
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
        """
        self._write()
        ready: dict[str, list[Segment]] = {}
        for kind, segments in self._segments.items():
            first = self._covered.get(kind, 0)
            total = sum(segment.rows for segment in segments[first:])
            while first and segments[first - 1].rows <= total and not self._damage(segments[first - 1]):
                first -= 1
                total += segments[first].rows
            ready[kind] = segments
            if len(segments) - first > 1:
                ready[kind] = [*segments[:first], merge(self.path, kind, self._number(kind), segments[first:])]
            elif first < len(segments):
                sync_rows(self.path / ROWS / segments[-1].name)
        if any(ready.values()):
            sync_rows(self.path / ROWS)
        self._ready = self._listing(ready, snapshots)
        return self._ready.model_dump(mode="json")

    def commit(self, pinned: Iterable[str] = ()) -> None:
        """Lists what `prepare` made; what nothing has named since the state before, and for a minute, goes.

        pinned: names of segments that a kept state covers.
        """
        self._take(self._ready)
        self._write_files()
        at = time.monotonic()
        unnamed = numbers(self.path).keys() - self._ready.names - set(pinned)
        for name, since in self._garbage.items():
            if name in unnamed and at - since > READ_SECONDS:
                with suppress(OSError):  # what cannot go stays for the next time
                    (self.path / ROWS / name).unlink()
        self._garbage = {name: self._garbage.get(name, at) for name in sorted(unnamed)}

    def close(self) -> None:
        """Writes all that waits, durably and in as few segments as the next reader wants."""
        if self.num_waiting or self._written[0] != self._listing():
            self.prepare()
            self.commit()

    def restore(self, content: Mapping[str, Any] | None, update: int) -> int:
        """Goes back to the listing of a saved state (None: to none), and returns how many matches do not count now.

        What waits is of now, and waits on, as games and agents do. Events of the updates up to `update`, the state's,
        stay: nothing makes them again.
        """
        before, listing = self._listing(), Listing(segments={}) if content is None else listing_of(content)
        dropped = [segment for segment in before.segments.get("event", ()) if segment.name not in listing.names]
        for event in rows_of(self.path, "event", [segment for segment in dropped if not self._damage(segment)]):
            if event["update"] <= update:
                self._add("event", event)
        agents, games = self._agents, self._games
        self._take(listing)
        self._agents, self._games = agents | self._agents, games | self._games
        if self._listing() != before:
            self._write()
        matches, left = (sum(x.rows for x in found.segments.get("match", ())) for found in (before, listing))
        return max(0, matches - left)

    def damaged(self, content: Mapping[str, Any]) -> list[tuple[str, int]]:
        """What is wrong with the segments of a saved state's listing, and how many rows each has."""
        found = [(self._damage(x), x.rows) for those in listing_of(content).segments.values() for x in those]
        return [(wrong, rows) for wrong, rows in found if wrong]

    def _damage(self, segment: Segment) -> str:
        return damage((self.path / ROWS / segment.name, segment, None))

    def _add(self, kind: str, row: Columns) -> None:
        rows = self._waiting[kind]
        rows[key_of(kind, row) or len(rows)] = row

    def _number(self, kind: str) -> int:
        self._numbers[kind] = self._numbers.get(kind, 0) + 1
        return self._numbers[kind]

    def _take(self, listing: Listing) -> None:
        self._segments = {kind: list(segments) for kind, segments in listing.segments.items()}
        there = numbers(self.path, sorted(listing.names)).values()
        self._numbers = dict(sorted({*self._numbers.items(), *there}))
        self._covered = {kind: len(segments) for kind, segments in self._segments.items()}
        """Kind -> its first segments, those that the last saved state covers."""
        self._snapshots = {row.step: row for row in listing.snapshots}
        self._agents = {(row.game_id, row.agent_id): row for row in listing.agents}
        self._games = {row.game_id: row for row in listing.games}

    def _listing(self, ready: Mapping[str, list[Segment]] | None = None, more: Iterable[SnapshotRow] = ()) -> Listing:
        return Listing(
            segments={kind: tuple(found) for kind, found in (ready or self._segments).items()},
            snapshots=tuple((self._snapshots | {row.step: row for row in more}).values()),
            agents=tuple(self._agents.values()),
            games=tuple(self._games.values()),
        )

    def _write(self) -> None:
        """Writes what waits; rows whose segment is written, and not listed since the disk refused, are listed next."""
        check_owned(self.path)
        for kind, rows in self._waiting.items():
            if rows:
                self.add_segment(write_segment(self.path, kind, self._number(kind), list(rows.values())))
                rows.clear()
        self._write_files()

    def _write_files(self) -> None:
        listing, before = self._listing(), self._written
        if before[0] != listing:
            write(self.path / LISTING, listing)
            self._written = listing, before[1]
        if before[1] != self._status:
            write(self.path / STATUS, self._status)
            self._written = listing, self._status
