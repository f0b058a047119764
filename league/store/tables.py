"""The rows of the tables that owners' JSON files fill: runs, leagues, agents, games, snapshots, gates, imports."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from league.store.codec import naive
from league.store.owner import Configured, Decided, Identity, Listing, Status
from league.store.rows import AgentRow


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
    """Table -> its rows, column -> value, of all owners."""
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
            rows["run"].append(_run(who, owner.configured, owner.status))
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
            rows["gate"].append({**asdict(who.gate), "begun": who.begun, **decided})
        if who.imported is not None:
            rows["import"].append(asdict(who.imported))
    rows["game"] = list(games.values())
    rows["agent"] = [asdict(agent) for agent in (agents | named).values()]
    return rows


def _run(who: Identity, configured: Configured, status: Status) -> dict[str, Any]:
    """A run's row."""
    return {
        "run": who.name,
        "started_at": who.begun_at,
        **who.model_dump(include={"id", "game", "game_id", "seed", "parent", "preset", "number"}),
        **configured.model_dump(exclude={"config"}),
        "config": json.dumps(configured.config),
        **status.model_dump(include={"status", "steps", "update", "updated_at"}),
    }


def moment_text(value: Any) -> str:
    """A moment as DuckDB reads it in JSON: UTC without a zone."""
    assert isinstance(value, datetime)
    return naive(value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat(sep=" ")
