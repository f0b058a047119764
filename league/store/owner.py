"""What an owner's folder says of it: who it is, its settings, how far it is, and which of its rows count.

An owner is a run, a league, evaluations of one caller, a gate or an import. `run.json` is written once; each beginning
and each resume of a run writes a `config-NNN.json`; the other files are replaced whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, Field, RootModel, ValidationError, model_validator
from pydantic_core import from_json

from league.errors import StoreError
from league.runtime.disk import write_atomic
from league.store.codec import KINDS, naive
from league.store.files import told
from league.store.locks import check_owned
from league.store.rows import AgentRow, Decision, GameRow, GateRow, ImportRow, LearnerRow, RunStatus, SnapshotRow
from league.store.segments import Segment
from league.types.schema import FrozenModel, Natural, read_file

FORMAT = 1
"""Of everything in a store's folders; raised where an older reader would misread them."""
IDENTITY, STATUS, LISTING, PRUNED, DECISION = "run.json", "status.json", "segments.json", "pruned.json", "decision.json"
CONFIG, _CONFIG = "config-{:03d}.json", re.compile(r"config-(\d{3,})\.json", re.ASCII)
OwnerKind = Literal["run", "league", "evaluations", "gate", "import"]
Model = TypeVar("Model", bound=BaseModel)


class Identity(FrozenModel):
    """Who an owner is; `run.json`."""

    format: int = FORMAT
    id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    """Random; copies of the folder share it."""
    kind: OwnerKind
    name: str
    """That of the folder, too."""
    number: Natural
    """One above the highest in the store when it began, of owners and of gates' decisions."""
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
    """As `Identity.number`, when it was decided."""


class Listing(FrozenModel):
    """What counts of an owner's rows: segments by kind, in their order, and the rows that are too few for files."""

    format: int = FORMAT
    segments: dict[str, tuple[Segment, ...]]
    snapshots: tuple[SnapshotRow, ...] = ()
    agents: tuple[AgentRow, ...] = ()
    games: tuple[GameRow, ...] = ()

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        listed = [(kind, segment) for kind, segments in self.segments.items() for segment in segments]
        if len(self.names) < len(listed) or any(segment.kind != kind or kind not in KINDS for kind, segment in listed):
            raise ValueError("a segment is listed twice, or as another kind")
        return self

    @property
    def names(self) -> set[str]:
        """Of all segments."""
        return {segment.name for segments in self.segments.values() for segment in segments}


class Pruned(RootModel[dict[int, datetime]]):
    """Step -> when a snapshot's files were deleted; `pruned.json`."""


def read(kind: type[Model], path: Path) -> Model | None:
    """What a file of an owner's folder holds; None where it is not there. Raises a `StoreError` where it is damaged."""
    try:
        data = read_file(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    try:
        content = from_json(data)
        number = content.get("format", FORMAT) if isinstance(content, dict) else FORMAT
        if number == FORMAT or type(number) is not int:
            found = kind.model_validate_json(data)
            if lacking := kind.model_fields.keys() - found.model_fields_set:  # each is written
                raise ValueError(f"{', '.join(sorted(lacking))}: is missing")
            return found
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise StoreError(f"{path}: damaged ({'.'.join(map(str, first['loc']))}: {first['msg']})") from None
    except ValueError as error:
        raise StoreError(f"{path}: damaged ({error})") from None
    raise StoreError(f"{path}: another league wrote it (format {number}, this one knows {FORMAT}); install that one")


def write(path: Path, content: BaseModel) -> None:
    """Replaces a file of an owner's folder whole; where that fails (`StoreError`) the old one stands."""
    check_owned(path.parent)
    try:
        data = content.model_dump_json(indent=1).encode()
    except ValueError:  # pydantic's
        raise StoreError(f"{path}: cannot be written: a text in it is no Unicode; see to names and paths") from None
    with told(path, "cannot be written"):
        write_atomic(path, data + b"\n")


def listing_of(content: Mapping[str, Any]) -> Listing:
    """The listing that a saved state covers; a `ValueError` where it is damaged."""
    return Listing.model_validate_json(json.dumps(content))


def newest_config(names: Iterable[str]) -> int:
    """The number of the last of a folder's files `config-NNN.json`; 0: it has none."""
    return max((int(found[1]) for found in map(_CONFIG.fullmatch, names) if found), default=0)


@dataclass(frozen=True)
class Owner:
    """What an owner's folder says."""

    path: Path
    identity: Identity
    configured: Configured | None
    status: Status | None
    listing: Listing
    pruned: dict[int, datetime]
    decided: Decided | None


def rows_of_tables(owners: Sequence[Owner]) -> dict[str, list[dict[str, Any]]]:
    """Table -> its rows, column -> value, of all owners; what is no column of the table is left out there."""
    tables = ("run", "league", "learner", "agent", "game", "snapshot", "gate", "import")
    rows: dict[str, list[dict[str, Any]]] = {table: [] for table in tables}
    agents: dict[tuple[str, str], AgentRow] = {}
    games: dict[str, Any] = {}
    named: dict[tuple[str, str], AgentRow] = {}
    for owner in owners:
        who = owner.identity
        games |= {game.game_id: asdict(game) for game in owner.listing.games}
        agents |= {(agent.game_id, agent.agent_id): agent for agent in owner.listing.agents}
        if who.kind == "run" and owner.configured is not None and owner.status is not None:
            found = {"run": who.name, "started_at": who.begun_at, **who.model_dump()}
            found |= owner.configured.model_dump() | owner.status.model_dump()
            rows["run"].append(found | {"config": json.dumps(owner.configured.config)})
            for snapshot in sorted(owner.listing.snapshots, key=lambda row: row.step):
                rows["snapshot"].append({**asdict(snapshot), "pruned_at": owner.pruned.get(snapshot.step)})
                name = f"{who.name}@{snapshot.step}"
                agent = AgentRow(snapshot.agent_id, "snapshot", name, who.game_id)
                named.setdefault((who.game_id, snapshot.agent_id), agent)
        if who.learner is not None:
            rows["learner"].append(asdict(who.learner))
        if who.kind == "league":
            rows["league"].append({"league": who.name, "number": who.number, "begun_at": who.begun_at})
        if who.gate is not None:
            decided = {} if owner.decided is None else owner.decided.model_dump()
            rows["gate"].append({**asdict(who.gate), "number": who.number, **decided})
        if who.imported is not None:
            rows["import"].append(asdict(who.imported))
    rows["game"] = list(games.values())
    rows["agent"] = [asdict(agent) for agent in (agents | named).values()]
    return rows


def moment_text(value: Any) -> str:
    """A moment as DuckDB reads it in JSON: UTC without a zone."""
    assert isinstance(value, datetime)
    return naive(value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat(sep=" ")
