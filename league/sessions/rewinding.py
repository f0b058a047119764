"""`league resume RUN --at STEP`: a new run that goes on from a state that an earlier one has kept.

The earlier run is left as it is. The new one has copies of the state and of the snapshots that are in it, links where
the disk has them, and its row names its parent; so each goes on, is pruned and is deleted by itself. With the settings
as they were it is, bit for bit on a CPU, what its parent was from there on.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from league import config as settings
from league.errors import SnapshotError, StoreError, UsageError
from league.runtime.disk import write_atomic
from league.sessions.call import Call
from league.sessions.callbacks import Callbacks
from league.sessions.folders import GUESTS, begin_folder, claimed, is_pruned, kept_states
from league.sessions.runs import made_ready, need_steps, session_of
from league.sessions.session import Session
from league.sessions.settling import check_name
from league.snapshots.files import INDEX
from league.snapshots.kept import data_of, rewritten
from league.snapshots.state import DamagedState, read_kept
from league.store.folder import Folder
from league.store.locks import alone
from league.store.rows import RunRow, RunStatus, now
from league.store.store import Store


@contextmanager
def rewind(opened: Store, call: Call, callback: Callbacks) -> Iterator[Session]:
    """The session of a new run that begins with the state of an earlier one at a step, with its lock.

    Raises:
        ConfigError, LeagueError: as `league.resume`.
        UsageError: there is no such run or no such state, it is a learner of a league or an exploiter, another process
            trains it, or its snapshots were pruned.
        SnapshotError: the state or a snapshot is damaged; nothing has been changed.
    """
    run, at, name = call.resumes, call.at or 0, call.run
    check_name(name)
    if any(run in (learner.run, learner.league) for learner in opened.learners()):
        raise UsageError(
            f"--at {at}: {run} is of a league, or an exploiter, and cannot go back behind what others have met; begin"
            f" another one"
        )
    row = opened.find_run(run)
    with ExitStack() as locks:
        locks.enter_context(alone(run, opened.path / run))
        index = _state_at(opened, row, at)
        try:
            counters = read_kept(index)["counters"]
        except DamagedState as error:
            raise SnapshotError(
                f"--at {at}: {error}; go back to another kept state, as `league runs` has them"
            ) from None
        is_over = counters["steps"] >= settings.of_run(row.run, row.config).run.total_steps
        status: RunStatus = "finished" if is_over else "stopped"
        then = replace(row, steps=counters["steps"], update=counters["update"], status=status)
        need_steps(then, call.words, opened.path)
        plan = made_ready(opened, then, call, f"back to step {then.steps:,} of", callback)
        new = replace(then, run=name or "", parent=run, status="stopped", started_at=now(), updated_at=now())
        with claimed(opened, name, new) as begun:
            begun = _begin(opened, row, begun, index)
            locks.close()
            callback.say(f"run {begun.run}: begins as {run} was at step {begun.steps:,}; {run} is left as it is")
            with session_of(plan(begun), is_locked=True) as session:
                yield session


def _state_at(store: Store, row: RunRow, at: int) -> Path:
    """The index of the newest kept state at or before so many steps.

    Raises:
        UsageError: there is none, or the run's snapshots were pruned.
    """
    if is_pruned(store, row.run):
        raise UsageError(f"run={row.run}: snapshots of it were pruned, so nothing can go on from its states")
    states = kept_states(store, row.run)
    before = [steps for steps in states if steps <= at]
    if not before:
        known = ", ".join(f"{steps:,}" for steps in states) or "none"
        raise UsageError(
            f"--at {at}: {row.run} has kept no state of so few steps; kept: {known} (run.rewind_every says how often)"
        )
    return states[before[-1]]


def _begin(store: Store, parent: RunRow, row: RunRow, index: Path) -> RunRow:
    """Gives a new run, whose folder is made, the state of `index` with its snapshots; its row by then.

    Raises:
        SnapshotError, StoreError: the disk or the store refuses; nothing of it is left.
    """
    folder = store.path / row.run
    shared = [snapshot for snapshot in store.snapshots(parent.run) if snapshot.update <= row.update]
    rows = []
    try:
        for snapshot in shared:
            path = folder / "snapshots" / Path(snapshot.path).name
            _link(store.path / snapshot.path, path)
            rows.append(replace(snapshot, run=row.run, path=path.relative_to(store.path).as_posix()))
        if (guests := store.path / parent.run / GUESTS).is_dir():
            _link(guests, folder / GUESTS)
        data = data_of(index)
        assert data is not None
        (folder / "state").mkdir()
        _link(index.parent / data, folder / "state" / data)
        new = Folder(folder, store.say)
        for snapshot in rows:
            new.add_snapshot(snapshot)
        identity = store.identity_of(row)
        own = {"rows": new.prepare(), "id": identity.id}  # its parent has the rows of what it played
        write_atomic(folder / "state" / INDEX, rewritten(index, own))
        new.commit()
        new.note(has_state=True)
        new.add_event(row.update, "rewound", f"begun as {parent.run} was at step {row.steps:,}")
        begin_folder(new, row, identity)
        return replace(row, id=identity.id)
    except (OSError, StoreError) as error:
        for name in ("snapshots", GUESTS, "state"):
            shutil.rmtree(folder / name, ignore_errors=True)
        if isinstance(error, StoreError):
            raise
        raise SnapshotError(f"run={row.run}: {error.filename}: {error.strerror}; see to it, then call again") from None


def _link(source: Path, target: Path) -> None:
    """A copy of a file or a folder, without its bytes where the disk can link: nobody changes them in place."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        for path in sorted(source.iterdir()):
            _link(path, target / path.name)
        return
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
