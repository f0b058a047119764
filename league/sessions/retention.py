"""Which snapshots keep their files: the rule, what the store and the disk have, and pruning.

Pruning takes weights away and nothing else: a snapshot's row, its matches and with them its rating are kept. Files are
deleted first and marked then, so a full disk keeps nothing from being pruned; what an interrupted pruning has deleted
and not marked is missing, and the next one marks it.
"""

from __future__ import annotations

import shutil
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from league import config as settings
from league.boards.naming import best_rated
from league.errors import UsageError
from league.runtime.phases import phase
from league.snapshots.files import OF_SNAPSHOT
from league.store.files import refuse_others, told
from league.store.locks import LOCK, alone, is_held
from league.store.rows import RunRow
from league.store.store import Store

DEFAULT_KEEP = 20
BEGUN = ".pruned"
"""At the end of the name of a snapshot's folder whose files are being deleted."""


@dataclass(frozen=True)
class Holding:
    """One snapshot, what of it is on disk, and why it is kept."""

    run: str
    step: int
    agent_id: str
    parent: str | None
    """The agent that it was trained from."""
    num_bytes: int
    has_files: bool
    pruned_at: datetime | None
    games: int
    """Matches of either kind that the agent sat in."""
    is_champion: bool
    is_best: bool
    """Whether it is RUN@best."""
    in_pool: bool
    """Whether its run, or its league, can go on, which needs the whole pool."""
    reasons: tuple[str, ...]
    """Why pruning leaves its files; none: they go."""


@dataclass(frozen=True)
class Pruning:
    """What pruning one run came to, or would come to."""

    run: str
    keep: int
    is_dry: bool
    goes: tuple[Holding, ...]
    stays: tuple[Holding, ...]
    """Those with files that are left."""

    @property
    def num_bytes(self) -> int:
        """Of the files that go."""
        return sum(holding.num_bytes for holding in self.goes)


def reasons_to_stay(
    steps: Sequence[int], keep: int, protected: Mapping[int, Sequence[str]]
) -> dict[int, tuple[str, ...]]:
    """The snapshots of a run that keep their files: step -> why.

    These are the newest `keep`, the first, the `milestones`, the protected, and of the rest one in each octave of ages
    (the number of later snapshots, a to 2a - 1): the one whose index in the run is a multiple of a. What goes by this
    rule goes by it for ever, so pruning often leaves what pruning once does, and of M snapshots at most
    keep + log2(M) + 3 log10(last step) + 5 are kept beside the protected.

    Args:
        steps: of all snapshots that the run ever took, ascending, those without files included.
        keep: at least 1.
        protected: step -> reasons of its own.
    """
    marks = milestones(steps)
    why = {}
    for place, step in enumerate(steps):
        age = len(steps) - 1 - place
        reasons = list(protected.get(step, ()))
        if age < keep:
            reasons.append("newest")
        if place == 0:
            reasons.append("first")
        elif step in marks:
            reasons.append("milestone")
        elif age and place % (1 << (age.bit_length() - 1)) == 0:
            reasons.append("spaced")
        if reasons:
            why[step] = tuple(reasons)
    return why


def milestones(steps: Sequence[int]) -> set[int]:
    """The first of the ascending `steps` at or past each of 1, 2, 5, 10, 20, 50, ... steps."""
    found = set()
    power = 1
    while steps and power <= steps[-1]:
        for mark in (power, 2 * power, 5 * power):
            if mark <= steps[-1]:
                found.add(steps[bisect_left(steps, mark)])
        power *= 10
    return found


def can_go_on(run: RunRow) -> bool:
    """Whether `league resume` or a longer stage may carry the run on."""
    return run.status != "finished" or run.stage in settings.continued_stages().values()


def is_needed(store: Store, run: RunRow) -> bool:
    """Whether the run, or one of its league that may meet its snapshots, can go on."""
    with_it = _league_of(store, run.run)
    return any(can_go_on(row) for row in [run, *(row for row in store.runs() if row.run in with_it)])


def _league_of(store: Store, run: str) -> list[str]:
    """The other learners of a run's league, if it is of one."""
    league = {row.run: row.league for row in store.learners()}
    return [other for other in league if other != run and league[other] == league.get(run)]


def holdings(store: Store, run: str | None = None, keep: int = DEFAULT_KEEP) -> tuple[Holding, ...]:
    """Every snapshot of one run or of all, run by run from its oldest on.

    keep: how many of a run's newest snapshots are kept, at least 1.
    """
    if keep < 1:
        raise UsageError(f"keep={keep}: the newest snapshot is always kept, so at least 1; pass another --keep")
    with store.reading():
        runs = store.runs() if run is None else [store.find_run(run)]
        ids = dict.fromkeys(row.game_id for row in runs)
        games = {game_id: dict(store.select("agent_games", game_id=game_id)) for game_id in ids}
        return tuple(holding for row in runs for holding in _holdings(store, row, keep, games[row.game_id]))


def prune(store: Store, run: str | None = None, keep: int = DEFAULT_KEEP, *, is_dry: bool = False) -> list[Pruning]:
    """Deletes the files of the snapshots of one run or of all that the rule does not keep, and marks them as pruned.

    Nothing goes of a run that can go on, nor the champion, the best rated, RUN@best's challenger in a gate that is
    under way, or one that two rules keep. Files missing without a mark are left alone: a disk may be away.

    keep: as of `holdings`.
    is_dry: say what would go, and change nothing.

    Raises:
        UsageError: no such run, another process trains it or one of its league that may meet its snapshots, or `keep`
            is below 1.
        StoreError: files cannot be deleted; what is marked can be pruned again.
    """
    names = [row.run for row in store.runs()] if run is None else [store.find_run(run).run]
    prunings = []
    for name in names:
        pruning = _plan(store, name, keep, is_dry)
        if run is not None or pruning.goes or _begun(store, name):
            with ExitStack() as locks:
                for member in [name, *(_league_of(store, name) if pruning.goes else ())]:
                    locks.enter_context(alone(member, store.path / member))
                pruning = _plan(store, name, keep, is_dry)
                if not is_dry:
                    _delete(store, pruning)
        prunings.append(pruning)
    return prunings


def _holdings(store: Store, run: RunRow, keep: int, games: Mapping[str, int]) -> list[Holding]:
    rows = store.snapshots(run.run)
    if not rows:
        return []
    champion, is_live = store.champion(run.run), is_needed(store, run)
    rated = best_rated(store, run.run)
    gates = (gate for gate in store.gates(run.run) if gate.decision == "running")
    tried = {gate.challenger for gate in gates if is_held(store.path / gate.gate / LOCK) is not False}
    why: dict[str, set[str | None]] = {"champion": {champion}, "best rated": {rated}, "in a gate": {*tried}}
    protected = {
        row.step: ["pool"] * is_live + [reason for reason, agents in why.items() if row.agent_id in agents]
        for row in rows
    }
    reasons = reasons_to_stay([row.step for row in rows], keep, protected)
    return [
        Holding(
            run=row.run,
            step=row.step,
            agent_id=row.agent_id,
            parent=row.parent,
            num_bytes=(num_bytes := store.bytes_of(row.path)),
            has_files=num_bytes > 0,
            pruned_at=row.pruned_at,
            games=games.get(row.agent_id, 0),
            is_champion=row.agent_id == champion,
            is_best=row.agent_id == (champion or rated),
            in_pool=is_live,
            reasons=() if row.pruned_at else reasons.get(row.step, ()),
        )
        for row in rows
    ]


def _plan(store: Store, run: str, keep: int, is_dry: bool) -> Pruning:
    found = [holding for holding in holdings(store, run, keep) if holding.has_files]
    goes = tuple(holding for holding in found if not holding.reasons)
    return Pruning(run, keep, is_dry, goes, tuple(holding for holding in found if holding.reasons))


def _delete(store: Store, pruning: Pruning) -> None:
    """Deletes what goes, and marks it as pruned."""
    goes = {holding.step for holding in pruning.goes}
    paths = [store.path / row.path for row in store.snapshots(pruning.run) if row.step in goes]
    for path in (*paths, *_begun(store, pruning.run).values()):
        refuse_others(path, OF_SNAPSHOT)
    for path in paths:
        begun = path.with_name(f"{path.name}{BEGUN}")
        with told(path, "cannot be deleted"), phase("delete files"):
            path.rename(begun)
            for file in sorted(begun.iterdir()):
                shutil.rmtree(file) if file.is_dir() else file.unlink()
    if gone := _begun(store, pruning.run):
        store.mark_pruned(pruning.run, sorted(gone))
    for path in gone.values():
        with told(path, "cannot be deleted"):
            shutil.rmtree(path)


def _begun(store: Store, run: str) -> dict[int, Path]:
    """Step -> folder of a run's snapshots whose files were deleted before that was marked."""
    found = (store.path / run / "snapshots").glob(f"*{BEGUN}")
    return {int(path.stem): path for path in found if path.stem.isdigit()}
