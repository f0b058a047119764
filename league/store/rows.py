"""The rows of the store: what one of each table says. `codec.py` makes columns of them, and them of columns."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import Field

from league.types import BOT_PREFIX, GameSpec, Source
from league.types.schema import Natural, PartSource

RunStatus = Literal["running", "finished", "stopped", "failed"]
AgentKind = Literal["snapshot", "bot", "import"]
Sampling = Literal["sample", "greedy"]
Decision = Literal["running", "passed", "failed", "undecided", "broken off"]


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
    game_address: str = ""
    """Where its game came from (`league.types.Source`), as the next two; empty where it came with the library."""
    game_version: str = ""
    game_sha256: str = ""
    id: str = ""
    """What tells it from runs of other stores; copies of its folder share it. Empty of one that has not begun."""

    @property
    def source(self) -> Source:
        """Where its game came from."""
        return Source(self.game_address, self.game_version, self.game_sha256)

    def coming_from(self, source: Source) -> RunRow:
        """The row with its game from there; as it is where `source` does not tell."""
        if not source.address:
            return self
        return replace(self, game_address=source.address, game_version=source.version, game_sha256=source.sha256)

    @property
    def env(self) -> str:
        """What `--env` takes for its game."""
        return self.game_address or self.game


@dataclass(frozen=True)
class AgentRow:
    """One agent that does not change, in one game: a snapshot's content hash, `bot:NAME`, or an imported agent."""

    agent_id: str
    kind: AgentKind
    name: str
    game_id: str
    address: str = ""
    """Where a bot in Python came from (`league.types.schema.PartSource`), as the next three; empty of other agents."""
    version: str = ""
    sha256: str = ""
    thing: str = ""

    @classmethod
    def of_bot(cls, agent_id: str, game_id: str, source: PartSource | None = None) -> AgentRow:
        """The row of a bot; of one in Python with where it came from."""
        told = {} if source is None else source.model_dump()
        return cls(agent_id, "bot", agent_id, game_id, **told)

    @property
    def source(self) -> PartSource | None:
        """Where a bot in Python came from; None of other agents, and where that cannot be."""
        try:
            return PartSource(address=self.address, version=self.version, sha256=self.sha256, thing=self.thing)
        except ValueError:
            return None


@dataclass(frozen=True)
class GameRow:
    """What boards and alarms need to know of a game, whose code they do not load; its spec says it."""

    game_id: str
    name: str = ""
    anchor: str | None = None
    """The agent id of the bot that is held at 1000."""
    activity: str | None = None
    """The metric that is 0 where a seat did nothing against its opponent."""
    utility: str | None = None
    """The reward term by which its matches score; None: by win, draw, loss."""
    bound: Annotated[float, Field(ge=0)] | None = None
    """The most that a match can pay or cost; None: not known."""

    @classmethod
    def of(cls, game_id: str, spec: GameSpec) -> GameRow:
        """The row of the game that `spec` describes."""
        pays = (None, None) if spec.utility is None else (spec.utility.term, spec.utility.bound)
        return cls(game_id, spec.name, spec.anchor and BOT_PREFIX + spec.anchor, spec.activity, *pays)


@dataclass(frozen=True)
class SnapshotRow:
    """One frozen state of a run. `path` is relative to the store's folder; `parent` is the agent it was trained from.

    Raises:
        ValueError: the path is not that of a folder called by its step in the run's own.
    """

    agent_id: str
    run: str
    step: Natural
    update: Natural
    path: str
    fingerprint: str
    parent: str | None = None
    created_at: datetime = field(default_factory=now)
    pruned_at: datetime | None = None
    """When its files were deleted (`league.sessions.retention`); None: they are kept."""
    is_historical: bool = True
    """Whether it stays in the pools of its league; else the others meet it only while it is its run's newest."""

    def __post_init__(self) -> None:
        if not re.fullmatch(rf"{re.escape(self.run)}/snapshots/0*{self.step}", self.path):
            raise ValueError(f"snapshot path {self.path!r} must be that of step {self.step} in {self.run}'s folder")


@dataclass(frozen=True)
class RatingRow:
    """What an agent was rated when a run had made `update` updates; run "" and update 0: when a board was last made.

    Elo points, and the 95 % interval, which Elo has not got; agent_id: for Elo the run whose learner it is.
    """

    run: str
    update: int
    system: Literal["elo", "bradley_terry", "payoff"]
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
    """Where payoffs are tested, `payoff0` and `payoff1` of `league.maths.means.MeanTest`."""
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
    bound: float | None = None
    """Of a payoff; None where Elo points are tested."""
    begun_at: datetime = field(default_factory=now)


ALARM, OVER = "alarm:", "over:"
"""Begin the kinds of events that say of an alarm that it is raised, and that its figure is normal again."""


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
class ReplayRow:
    """A match that is kept whole; its key is that of its match row."""

    run: str
    kind: str
    update: int
    row: int
    ordinal: int
    game_id: str
    seat0_agent: str
    seat1_agent: str
    content: str
    """The text of a replay's file (`league.play.recording`)."""


@dataclass(frozen=True)
class KeptMatch:
    """A match that is kept whole, without its content: its key, who played it, and how it ended."""

    run: str
    kind: str
    update: int
    row: int
    ordinal: int
    seat0_agent: str
    seat1_agent: str
    winner: int
    """A seat; -1: a draw, or not known."""
    end_reason: str
    """Empty where its row is not there."""
    steps: int


@dataclass(frozen=True)
class MetricPoint:
    """What a metric of a run was over a stretch of updates, the last of them at `steps`."""

    name: str
    steps: int
    mean: float
    least: float
    most: float


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
