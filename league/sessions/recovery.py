"""What is looked at, and mended where it can be, before a run goes on: its rows, its snapshots, its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from league.errors import SnapshotError
from league.pool import league_pool
from league.runtime.disk import clean
from league.sessions.artifacts import FileArtifactStore
from league.sessions.folders import instead, read_manifest, set_aside, snapshots_of
from league.snapshots.files import WEIGHTS
from league.store.owner import listing_of
from league.store.segments import sha256_of
from league.training.run import Counters
from league.types.schema import MAX_COUNT

_NAMES = ("newest", "evaluated")
"""Of `Counters` what is no number."""


def recovered_state(
    artifacts: FileArtifactStore, tell: Callable[[str], None], *, examines: bool = True
) -> dict[str, Any]:
    """A run's saved state, from which it goes on; what is damaged is told and written down.

    examines: looks at rows and at the files of all whom it may meet, too; needless where this process did before.
    """
    notes = list[str]()
    state = artifacts.read_state(notes.append)
    counters = counters_of(state, artifacts)
    if examines:
        notes += _examine(artifacts, state)
    for note in notes:
        tell(note)
        artifacts.rows.add_event(counters.update, "damage", note)
    return state


def counters_of(state: Mapping[str, Any], artifacts: FileArtifactStore) -> Counters:
    """Where a run's saved state stands, once it is known to have what a run goes on from."""
    try:
        counters = Counters(**state["counters"])
        for name, value in asdict(counters).items():
            least = getattr(Counters, name)
            if type(value) is not type(least) or not (name in _NAMES or least <= value <= MAX_COUNT):
                raise ValueError(f"counters.{name}")
        if not all(isinstance(agent_id, str) for agent_id in state["pool"]["snapshots"]):
            raise ValueError("pool.snapshots")
        if any(snapshot.run != artifacts.row.run for snapshot in listing_of(state["rows"]).snapshots):
            raise ValueError("rows.snapshots")
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise SnapshotError(
            f"{artifacts.folder / 'state'}: damaged, or written by another version of league"
            f" ({' '.join(str(error).split())[:80]}); {instead(artifacts.store, artifacts.row)}"
        ) from None
    return counters


def forget_after(
    artifacts: FileArtifactStore,
    tell: Callable[[str], None],
    rows: Mapping[str, Any] | None,
    update: int,
    steps: int,
    *,
    is_same: bool,
) -> None:
    """Forgets what a run's training wrote past its saved state, since that is played again.

    The files of snapshots are set aside, and taken back where the same weights come again.

    rows: those that the state covers; None where none was ever saved.
    update, steps: of the state; -1 where none was ever saved.
    is_same: whether the matches in play are in the state, so that those that are forgotten come again as they were.
    """
    num_matches = artifacts.rows.restore(rows, update)
    if num_matches and not is_same:
        line = (
            f"run={artifacts.row.run}: {num_matches:,} matches of the rollout that ended the run count no more: new"
            f" ones are played in their place"
        )
        tell(line)
        artifacts.rows.add_event(update, "replaced", line)
    clean(artifacts.folder / "snapshots")
    for path in snapshots_of(artifacts.folder):
        if int(path.name) > steps:
            set_aside(path)


def _examine(artifacts: FileArtifactStore, state: Mapping[str, Any]) -> list[str]:
    """What is lost or damaged of a run: the rows that its state covers, and the files of those that it may meet."""
    run, store = artifacts.row.run, artifacts.store
    notes = [
        f"{wrong}; training goes on, since it does not read them, but its {rows:,} rows are missing on boards: put the"
        f" file back from a copy"
        for wrong, rows in artifacts.rows.damaged(state["rows"])
    ]
    members = {run: state["pool"]["snapshots"]} | league_pool.others_to_meet(state["pool"])
    for owner, agents in members.items():
        known = {row["agent_id"]: store.path / row["path"] for row in state["rows"]["snapshots"]}
        known |= {row.agent_id: store.path / row.path for row in store.snapshots(owner)}
        for agent_id in agents:
            if wrong := _damage(owner, agent_id, known.get(agent_id)):
                notes.append(
                    f"{wrong}; the run goes on until it is drawn as an opponent: put it back from a copy before that"
                )
    return notes


def _damage(run: str, agent_id: str, folder: Path | None) -> str:
    """What is wrong with the files of a member of a run's pool; empty: nothing."""
    if folder is None:
        return f"snapshot {agent_id[:16]}... of {run} is not in the store"
    try:
        is_whole = read_manifest(folder).agent_id == agent_id == sha256_of(folder / WEIGHTS)
        return "" if is_whole else f"{folder} is damaged: its sha256 is not {agent_id[:16]}..."
    except SnapshotError as error:
        return str(error)
    except OSError as error:
        return f"{error.filename}: {error.strerror or error}"
