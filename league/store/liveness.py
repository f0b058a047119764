"""Who is alive: what the store says is under way, held against the locks of the processes that do it."""

from __future__ import annotations

from typing import Literal

from league.store.locks import LOCK, is_held
from league.store.reading import Reader
from league.store.rows import RunRow, RunStatus

ShownStatus = RunStatus | Literal["died", "unknown"]


def runs(store: Reader) -> list[tuple[RunRow, ShownStatus]]:
    """All runs with their true status, oldest first."""
    return [(run, run_status(store, run)) for run in store.runs()]


def run_status(store: Reader, run: RunRow) -> ShownStatus:
    """A run's status: what the store says, but `died` where it says `running` and no process trains it any more.

    `unknown` where it says so and that cannot be told: of a run whose files are elsewhere, or of one that was trained
    on another machine last.
    """
    if run.status != "running":
        return run.status
    is_alive = is_held(store.path / run.run / LOCK)
    if is_alive is not False:
        return "running" if is_alive else "unknown"
    now = store.find_run(run.run).status  # it may have finished since it was read
    return "died" if now == "running" else now
