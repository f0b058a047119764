"""What is looked at, and mended where it can be, before a run goes on: its rows, its snapshots, its files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

from league.errors import SnapshotError
from league.snapshots.io import MANIFEST, MAX_MANIFEST_BYTES, WEIGHTS
from league.snapshots.manifest import Manifest, parse
from league.store.rows import SnapshotRow
from league.store.store import Store


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
    for folder in sorted((store.path.parent / run / "snapshots").glob("*")):
        if not folder.name.isdigit() or int(folder.name) in known:
            continue
        try:
            manifest = _manifest(folder)
        except SnapshotError:
            continue
        if manifest.update > last_update:
            continue
        store.add_snapshot(
            SnapshotRow(
                agent_id=manifest.agent_id,
                run=run,
                step=manifest.step,
                update=manifest.update,
                path=folder.relative_to(store.path.parent).as_posix(),
                fingerprint=manifest.fingerprint,
                parent=manifest.parent,
                created_at=datetime.fromisoformat(manifest.created_at),
                is_historical=is_historical is None or is_historical.get(manifest.agent_id, False),
            )
        )
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
            is_whole = _manifest(folder).agent_id == agent_id == _digest(folder / WEIGHTS)
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


def _manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_MANIFEST_BYTES)
    except OSError as error:
        raise SnapshotError(f"{path}: {error.strerror or error}") from None
    return parse(text, str(path))


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
