"""What is looked at, and mended where it can be, before a run goes on: its rows, its snapshots, its files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from league.errors import SnapshotError
from league.pool import league_pool
from league.schema import open_regular
from league.sessions.folders import folder_of, instead, manifests, read_manifest, set_aside, snapshots_of
from league.sessions.shelf import FileShelf, snapshot_row
from league.snapshots.files import WEIGHTS, clean
from league.store.store import Store
from league.training.run import Counters


def recovered_state(shelf: FileShelf, tell: Callable[[str], None], *, examines: bool = True) -> dict[str, Any]:
    """A run's saved state, from which it goes on; what is lost or damaged is told and written down.

    examines: looks at rows and at the files of all whom it may meet, too; needless where this process did before.

    Raises:
        SnapshotError: the state is missing, damaged, another run's or of another version.
    """
    store, run, notes = shelf.store, shelf.row.run, list[str]()
    state = shelf.read_state(notes.append)
    counters = counters_of(state, shelf)
    saved = state.pop("rows", {})
    is_historical = league_pool.own_snapshots(state["pool"])
    restored = restore_snapshots(store, run, counters.update, is_historical)
    if restored and is_historical is None:  # a league's learner publishes late by design
        steps = ", ".join(f"{step:,}" for step in restored)
        notes.append(f"run={run}: the store had lost the snapshots at {steps} steps; their files have them restored")
    if examines:
        notes += _examine(store, run, state, saved)
    for note in notes:
        tell(note)
        store.add_event(run, counters.update, "damage", note)
    return state


def counters_of(state: Mapping[str, Any], shelf: FileShelf) -> Counters:
    """Where a run's saved state stands.

    Raises:
        SnapshotError: another version wrote it.
    """
    try:
        return Counters(**state["counters"])
    except (KeyError, TypeError) as error:
        raise SnapshotError(
            f"{shelf.folder / 'state'}: written by another version of league ({error});"
            f" {instead(shelf.store, shelf.row)}"
        ) from None


def forget_after(shelf: FileShelf, tell: Callable[[str], None], update: int, steps: int, *, is_same: bool) -> None:
    """Forgets what a run's training wrote past its saved state, since that is played again.

    Rows go from the store. The files of snapshots are set aside, and taken back where the same weights come again.

    update, steps: of the state; -1 where none was ever saved.
    is_same: whether the matches in play are in the state, so that those that are forgotten come again as they were.
    """
    store, run = shelf.store, shelf.row.run
    num_matches = store.delete_after(run, update)
    if num_matches and not is_same:
        line = (
            f"run={run}: {num_matches:,} matches of the rollout that ended the run after update {update:,}"
            f" are no longer in the store: new ones are played in their place"
        )
        tell(line)
        store.add_event(run, update, "replaced", line)
    clean(shelf.folder / "snapshots")
    for path in snapshots_of(shelf.folder):
        if int(path.name) > steps:
            set_aside(path)


def _examine(store: Store, run: str, state: Mapping[str, Any], saved: Mapping[str, list[int]]) -> list[str]:
    """What is lost or damaged of a run, which had the match rows `saved`, and of those that it may meet."""
    lost = lost_rows(run, saved, store.row_counts(run, state["counters"]["update"]))
    notes = [lost] if lost else []
    members = {run: state["pool"]["snapshots"]} | league_pool.others_to_meet(state["pool"])
    for owner, agents in members.items():
        for damage in damaged_snapshots(store, owner, agents):
            notes.append(
                f"{damage}; the run goes on until it is drawn as an opponent: put it back from a copy before that"
            )
    return notes


def restore_snapshots(
    store: Store, run: str, last_update: int, is_historical: Mapping[str, bool] | None = None
) -> list[int]:
    """Writes the rows of a run's snapshots up to an update that are on disk and not in the store; returns their steps.

    A manifest holds all that such a row does, but for a league's learner: is_historical says which of its agents are
    historical, and no other is. A manifest that is damaged is passed over: `damaged_snapshots` names it.

    Raises:
        StoreError: the store cannot be written.
    """
    known = {row.step for row in store.snapshots(run)}
    restored = []
    for folder, manifest in manifests(folder_of(store, run)).items():
        if int(folder.name) in known or manifest.update > last_update:
            continue
        stays = is_historical is None or is_historical.get(manifest.agent_id, False)
        store.add_snapshot(snapshot_row(store, run, folder, manifest, stays))
        restored.append(manifest.step)
    if restored:
        store.flush(force=True)
    return restored


def damaged_snapshots(store: Store, run: str, pool: Iterable[str]) -> list[str]:
    """One sentence for every member of a run's pool (agent ids) whose files are missing or damaged."""
    folders = {row.agent_id: store.path.parent / row.path for row in store.snapshots(run)}
    sentences = []
    for agent_id in pool:
        folder = folders.get(agent_id)
        if folder is None:
            sentences.append(f"snapshot {agent_id[:16]}... of {run} is neither in the store nor on disk")
            continue
        try:
            is_whole = read_manifest(folder).agent_id == agent_id == _digest(folder / WEIGHTS)
            problem = "" if is_whole else f"{folder} is damaged: its sha256 is not {agent_id[:16]}..."
        except SnapshotError as error:
            problem = str(error)
        except OSError as error:
            problem = f"{error.filename}: {error.strerror or error}"
        if problem:
            sentences.append(problem)
    return sentences


def lost_rows(run: str, saved: Mapping[str, list[int]], found: Mapping[str, list[int]]) -> str:
    """A sentence that says which match rows of a run a store has lost since they were counted; empty where none is.

    Args:
        run: its name.
        saved: kind -> rows and last update, as `Store.checkpoint` gave them when the state was saved.
        found: the same now.
    """
    losses = []
    for kind, (rows, update) in sorted(saved.items()):
        there = found.get(kind, [0, 0])[0]
        if there < rows:
            losses.append(f"{rows - there:,} of {rows:,} {kind} matches up to update {update:,}")
    if not losses:
        return ""
    return (
        f"run={run}: the store has lost {' and '.join(losses)} that it had at the last checkpoint; training goes on,"
        f" since it does not read them, but ratings and records are without them: put a copy of the store back to have"
        f" them"
    )


def _digest(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
