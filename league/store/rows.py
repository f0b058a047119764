"""The rows of the store, and the columns in which they are written."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from league.types import BOT_PREFIX, DRAW, SEATS, GameSpec, MatchResult

RunStatus = Literal["running", "finished", "stopped", "failed"]
AgentKind = Literal["snapshot", "bot", "import"]
Sampling = Literal["sample", "greedy"]
Decision = Literal["running", "passed", "failed", "undecided", "broken off"]

UNKNOWN = -1
"""In a column of counts on its way to the database: no value (NULL there)."""
MAX_SEED = 2**64 - 1


def now() -> datetime:
    """This moment, in UTC."""
    return datetime.now(UTC)


def unique_name(kind: str) -> str:
    """`KIND-DATE-TIME-RANDOM`: a name that no other rows have, though a clock that is set back tells a time twice."""
    return f"{kind}-{now():%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"


@dataclass(frozen=True)
class RunRow:
    """One run: what it trains on what, and how far it is."""

    run: str
    game: str
    game_id: str
    fingerprint: str
    seed: int
    stage: str
    config: str
    """The resolved configuration, JSON."""
    status: RunStatus = "running"
    steps: int = 0
    update: int = 0
    device: str = "cpu"
    started_at: datetime = field(default_factory=now)
    updated_at: datetime = field(default_factory=now)
    parent: str | None = None
    """The run that this one goes on from."""
    preset: str = ""
    """That it was begun with; empty where that is not known."""


@dataclass(frozen=True)
class AgentRow:
    """One agent that does not change, in one game: a snapshot's content hash, `bot:NAME`, or an imported agent."""

    agent_id: str
    kind: AgentKind
    name: str
    game_id: str


@dataclass(frozen=True)
class GameRow:
    """What boards and alarms need to know of a game, whose code they do not load; its spec says it."""

    game_id: str
    name: str = ""
    anchor: str | None = None
    """The agent id of the bot that is held at 1000."""
    activity: str | None = None
    """The metric that is 0 where a seat did nothing against its opponent."""

    @classmethod
    def of(cls, game_id: str, spec: GameSpec) -> GameRow:
        """The row of the game that `spec` describes."""
        return cls(game_id, spec.name, None if spec.anchor is None else BOT_PREFIX + spec.anchor, spec.activity)


@dataclass(frozen=True)
class SnapshotRow:
    """One frozen state of a run. `path` is relative to the store's folder; `parent` is the agent it was trained from.

    Raises:
        ValueError: the path is absolute or leaves the store's folder.
    """

    agent_id: str
    run: str
    step: int
    update: int
    path: str
    fingerprint: str
    parent: str | None = None
    created_at: datetime = field(default_factory=now)
    pruned_at: datetime | None = None
    """When its files were deleted (`league.sessions.retention`); None: they are kept."""
    is_historical: bool = True
    """Whether it stays in the pools of its league; else the others meet it only while it is its run's newest."""

    def __post_init__(self) -> None:
        path = PurePosixPath(self.path)
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f"snapshot path {self.path!r} must lie under the store's folder")


@dataclass(frozen=True)
class RatingRow:
    """What an agent was rated when a run had made `update` updates; run "" and update 0: when a board was last made.

    Elo points, and the 95 % interval, which Elo has not got; agent_id: for Elo the run whose learner it is.
    """

    run: str
    update: int
    system: Literal["elo", "bradley_terry"]
    agent_id: str
    rating: float
    lower: float | None
    upper: float | None
    games: int
    game_id: str
    sampling: Sampling = "sample"
    """How the nets chose in the games that are rated."""
    prior: float = 0.0
    """Imagined draws an agent."""
    group_number: int | None = None
    """Counted from 1; ratings of different groups cannot be compared."""


@dataclass(frozen=True)
class LearnerRow:
    """A run that is a learner of a league. `place` counts from 0, in the order of the league's file."""

    run: str
    league: str
    place: int
    role: str
    settings: str
    """What it needs beside the run's own configuration, JSON."""


@dataclass(frozen=True)
class GateRow:
    """One gate. With a `run`, its champion's title was at stake; `attempt` counts from 1 since the last promotion."""

    gate: str
    """The `run` of its match rows."""
    game_id: str
    run: str | None
    challenger: str
    opponent: str
    attempt: int
    elo0: float
    elo1: float
    elo_model: str
    alpha: float
    """Of this attempt."""
    beta: float
    seed: int
    sampling: Sampling
    games: int = 0
    llr: float = 0.0
    decision: Decision = "running"
    is_promoted: bool = False
    begun_at: datetime = field(default_factory=now)


@dataclass(frozen=True)
class EventRow:
    """Something worth remembering of a run: an alarm, what stopped it, a change of settings."""

    run: str
    update: int
    """Updates made until then."""
    steps: int | None
    """Steps made until then, where the run's metrics tell."""
    kind: str
    """One of those that docs/training.md lists."""
    message: str
    happened_at: datetime


@dataclass(frozen=True)
class ImportRow:
    """One file of matches that was imported; its matches are evaluation rows of `run`."""

    run: str
    sha256: str
    """Of the file's bytes."""
    file: str
    matches: int
    imported_at: datetime = field(default_factory=now)


@dataclass(frozen=True)
class TrainingRecord:
    """How a run's learner has done in training against one opponent."""

    opponent: str
    wins: int
    draws: int
    losses: int


@dataclass(frozen=True)
class RewardTerm:
    """What one reward term brought in some of a run's training matches."""

    term: str
    weight: float
    matches: int
    fired: int
    """Matches in which its sum was not 0 for both seats."""
    own: float
    """The learner's mean a match, unweighted."""
    other: float
    """Its opponents'."""

    @property
    def weighted(self) -> float:
        """The learner's mean a match as it learns from it."""
        return self.weight * self.own


COLUMNS: dict[str, dict[str, npt.DTypeLike]] = {
    "match": {
        "run": object,
        "kind": object,
        "update": np.int64,
        "row": np.int64,
        "ordinal": np.int64,
        "game_id": object,
        "seat0_agent": object,
        "seat1_agent": object,
        "seed": np.uint64,
        "winner": np.int8,
        "end_reason": object,
        "steps": np.int64,
        "ticks": np.int64,
        "sampling": object,
        "update_begin": np.int64,
        "update_end": np.int64,
        "finished_at": "datetime64[us]",
        "metrics": object,
        "rewards": object,
    },
    "game": {"game_id": object, "name": object, "anchor": object, "activity": object},
    "agent": {"game_id": object, "agent_id": object, "kind": object, "name": object},
    "snapshot": {
        "run": object,
        "step": np.int64,
        "update": np.int64,
        "agent_id": object,
        "path": object,
        "parent": object,
        "fingerprint": object,
        "created_at": "datetime64[us]",
        "is_historical": np.bool_,
    },
    "rating": {
        "run": object,
        "update": np.int64,
        "system": object,
        "agent_id": object,
        "rating": np.float64,
        "lower": object,
        "upper": object,
        "games": np.int64,
        "game_id": object,
        "sampling": object,
        "prior": np.float64,
        "group_number": object,
        "rated_at": "datetime64[us]",
    },
    "metric": {
        "run": object,
        "update": np.int64,
        "steps": np.int64,
        "name": object,
        "agent_id": object,
        "value": np.float64,
    },
    "event": {"run": object, "update": np.int64, "kind": object, "message": object, "happened_at": "datetime64[us]"},
}
"""Table -> column -> numpy type, in the order of the value tuples below."""
WRITES = {
    "match": "write_match",
    "game": "write_game",
    "agent": "write_agent",
    "snapshot": "write_snapshot",
    "rating": "write_rating",
    "metric": "write_metric",
    "event": "write_event",
}
"""Table -> the query that writes a batch of its rows."""


def as_arrays(table: str, rows: Sequence[tuple[Any, ...]]) -> dict[str, npt.NDArray[Any]]:
    """The value tuples of one table as one array a column."""
    columns = zip(*rows, strict=True)
    return {
        name: np.array(values, dtype=dtype)
        for (name, dtype), values in zip(COLUMNS[table].items(), columns, strict=True)
    }


def match_values(match: MatchResult, finished_at: datetime) -> tuple[Any, ...]:
    """A match as its row in the database.

    Raises:
        ValueError: a value that the table would refuse.
    """
    problem = _match_problem(match)
    if problem:
        raise ValueError(f"match {match.run} {match.kind} {match.update}.{match.row}.{match.ordinal}: {problem}")
    return (
        match.run,
        match.kind,
        match.update,
        match.row,
        match.ordinal,
        match.game_id,
        *match.agents,
        match.seed,
        match.winner,
        match.end_reason,
        match.steps,
        match.ticks,
        match.sampling,
        UNKNOWN if match.update_begin is None else match.update_begin,
        UNKNOWN if match.update_end is None else match.update_end,
        naive(finished_at),
        pairs_to_json(match.metrics),
        pairs_to_json(match.rewards),
    )


def match_from_values(values: Sequence[Any]) -> MatchResult:
    """The match of one row of `sql/matches.sql`."""
    run, kind, update, row, ordinal, game_id, seat0, seat1, seed, winner, end_reason = values[:11]
    steps, ticks, sampling, update_begin, update_end, metrics, rewards = values[11:]
    return MatchResult(
        run=run,
        kind=kind,
        update=update,
        row=row,
        ordinal=ordinal,
        game_id=game_id,
        agents=(seat0, seat1),
        seed=seed,
        winner=winner,
        end_reason=end_reason,
        steps=steps,
        ticks=ticks,
        sampling=sampling,
        update_begin=update_begin,
        update_end=update_end,
        metrics=dict(metrics),
        rewards=dict(rewards),
    )


def run_values(run: RunRow) -> dict[str, Any]:
    """A run as the parameters of `sql/begin_run.sql`."""
    values = {name: getattr(run, name) for name in RunRow.__dataclass_fields__}
    return values | {"started_at": naive(run.started_at), "updated_at": naive(run.updated_at)}


def run_from_values(values: Sequence[Any]) -> RunRow:
    """The run of one row of `sql/runs.sql`, whose columns are RunRow's fields in order."""
    row = dict(zip(RunRow.__dataclass_fields__, values, strict=True))
    return RunRow(**row | {"started_at": aware(row["started_at"]), "updated_at": aware(row["updated_at"])})


def snapshot_values(snapshot: SnapshotRow) -> tuple[Any, ...]:
    """A snapshot as its row in the database, with its files."""
    return (
        snapshot.run,
        snapshot.step,
        snapshot.update,
        snapshot.agent_id,
        snapshot.path,
        snapshot.parent,
        snapshot.fingerprint,
        naive(snapshot.created_at),
        snapshot.is_historical,
    )


def snapshot_from_values(values: Sequence[Any]) -> SnapshotRow:
    """The snapshot of one row of `sql/snapshots.sql`."""
    run, step, update, agent_id, path, parent, fingerprint, created_at, pruned_at, is_historical = values
    pruned_at = None if pruned_at is None else aware(pruned_at)
    return SnapshotRow(
        agent_id, run, step, update, path, fingerprint, parent, aware(created_at), pruned_at, is_historical
    )


def rating_values(rating: RatingRow, rated_at: datetime) -> tuple[Any, ...]:
    """A rating as its row in the database."""
    return (*(getattr(rating, name) for name in RatingRow.__dataclass_fields__), naive(rated_at))


def event_from_values(values: Sequence[Any]) -> EventRow:
    """The event of one row of `sql/events.sql`, whose columns are EventRow's fields in order."""
    row = dict(zip(EventRow.__dataclass_fields__, values, strict=True))
    return EventRow(**row | {"happened_at": aware(row["happened_at"])})


def gate_values(gate: GateRow) -> dict[str, Any]:
    """A gate that begins as the parameters of `sql/begin_gate.sql`."""
    outcome = ("games", "llr", "decision", "is_promoted")
    values = {name: getattr(gate, name) for name in GateRow.__dataclass_fields__ if name not in outcome}
    return values | {"begun_at": naive(gate.begun_at)}


def gate_from_values(values: Sequence[Any]) -> GateRow:
    """The gate of one row of `sql/gates.sql`, whose columns are GateRow's fields in order."""
    row = dict(zip(GateRow.__dataclass_fields__, values, strict=True))
    return GateRow(**row | {"begun_at": aware(row["begun_at"])})


def pairs_to_json(pairs: Mapping[str, Iterable[float]]) -> str:
    """{name: (seat 0, seat 1)} as JSON with NaN and Infinity, which the database reads too."""
    return json.dumps({name: [float(value) for value in values] for name, values in pairs.items()})


def naive(at: datetime) -> datetime:
    """A moment as the database keeps it: UTC without saying so."""
    return at.astimezone(UTC).replace(tzinfo=None)


def aware(at: datetime) -> datetime:
    """The moment of a value read from the database."""
    return at.replace(tzinfo=UTC)


def _match_problem(match: MatchResult) -> str:
    if match.kind not in ("training", "evaluation"):
        return f"kind={match.kind!r} is neither training nor evaluation"
    if match.winner not in (0, 1, DRAW):
        return f"winner={match.winner} is neither a seat nor DRAW"
    if not 0 <= match.seed <= MAX_SEED:
        return f"seed={match.seed} does not fit 64 bits"
    if min(match.update, match.row, match.ordinal, match.steps, match.ticks) < 0:
        return "update, row, ordinal, steps and ticks count from 0"
    if match.update_begin is not None and match.update_end is not None and match.update_begin > match.update_end:
        return f"update_begin={match.update_begin} lies after update_end={match.update_end}"
    if any(len(values) != SEATS for pairs in (match.metrics, match.rewards) for values in pairs.values()):
        return "metrics and rewards hold one number a seat"
    return ""
