"""A run's folder in its store: made for one owner alone, and what lies in it.

Runs, a league's learners and exploiters all come here.
"""

from __future__ import annotations

import itertools
import json
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from league.errors import SnapshotError, StoreError, UsageError, command, one_line
from league.runtime.disk import is_temporary
from league.snapshots.files import MANIFEST, MAX_MANIFEST_BYTES, has_state
from league.snapshots.kept import states_of
from league.snapshots.manifest import Manifest, parse
from league.store.carried import STOP
from league.store.files import CATALOGUE, told
from league.store.folder import Folder
from league.store.locks import LOCK, held, is_held, is_lock
from league.store.owner import CONFIG, IDENTITY, LISTING, STATUS, Configured, Identity, Status, read
from league.store.rows import LearnerRow, RunRow, now
from league.store.segments import ROWS
from league.store.store import Store
from league.types.schema import read_file

GUESTS = "guests"
"""In a run's folder: copies of the agents from elsewhere that it meets, so that it can go on without the originals."""
ASIDE = ".old-"
"""In the name of a snapshot's folder that was set aside."""


class FolderTaken(UsageError):
    """The folder of a new run is there already."""


def is_pruned(store: Store, run: str) -> bool:
    """Whether files of a run's snapshots were pruned; it cannot go on then, since it may draw any of them."""
    return any(row.pruned_at is not None for row in store.snapshots(run))


def kept_states(store: Store, run: str) -> dict[int, Path]:
    """Steps -> index of each state that `league resume RUN --at STEP` can go back to, the earliest first.

    None of a run whose snapshots were pruned, nor of a league's learner or an exploiter: others have met what came of
    theirs.
    """
    is_alone = all(run not in (learner.run, learner.league) for learner in store.learners())
    return states_of(store.path / run / "state") if is_alone and not is_pruned(store, run) else {}


@contextmanager
def settings_of(store: Store, learner: LearnerRow) -> Iterator[Any]:
    """What a learner needs beside its run's own configuration, to be read in the block.

    Raises:
        StoreError: it is not what a league or an exploiter writes.
    """
    try:
        yield json.loads(learner.settings)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        where, why = store.path / learner.run / IDENTITY, one_line(" ".join(str(error).split())[:200])
        raise StoreError(f"{where}: damaged (learner.settings: {why}); put the file back from a copy") from None


def snapshots_of(folder: Path) -> list[Path]:
    """The folders of a run's snapshots, its earliest first."""
    return sorted(path for path in (folder / "snapshots").glob("*") if path.name.isdigit())


def set_aside(snapshot: Path) -> None:
    """Renames the folder of a snapshot that its run goes back behind; the files are kept."""
    snapshot.rename(snapshot.with_name(f"{snapshot.name}{ASIDE}{now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"))


def ask_to_stop(store: Store, name: str) -> list[str]:
    """Asks the process that trains a run, or those of a league's learners, to stop after this update, saved.

    A file `stop` in the folder says so, wherever the process runs that writes there.

    Returns:
        The runs that were asked.

    Raises:
        UsageError: there is none of that name, or nothing of it is being trained.
        StoreError: the folder cannot be written.
    """
    runs = [row.run for row in store.learners() if row.league == name] or [store.find_run(name).run]
    asked = [run for run in runs if is_held(store.path / run / LOCK) is not False]
    if not asked:
        raise UsageError(f"run={name}: nobody trains it now; `league runs` shows what runs")
    for run in asked:
        with told(store.path / run / STOP, "cannot be written"):
            (store.path / run / STOP).touch()
    store.push()
    return asked


def first_free(wanted: str | None, stem: str, begin: Callable[[str], bool]) -> tuple[str, bool]:
    """The name `wanted`, or the next `STEM-N` that `begin` takes; and whether it took it, where it was `wanted`.

    Raises:
        FolderTaken: there is a folder of the name `wanted`.
    """
    for name in [wanted] if wanted else (f"{stem}-{n}" for n in itertools.count(1)):
        try:
            is_new = begin(name)
        except FolderTaken:
            if wanted:
                raise
            continue
        if is_new or wanted:
            return name, is_new
    raise AssertionError("names do not end")


@contextmanager
def new_folder(store: Store, name: str) -> Iterator[None]:
    """Makes the folder of a new owner, and holds its lock for as long as the context lasts.

    A folder that was made for an owner of that name which never began, as after a kill, is taken over: nobody holds
    its lock then. Where none has begun by the end the folder goes, unless there is anything else in it.

    Raises:
        FolderTaken: something of that name is there.
        StoreError: no folder can be made there.
    """
    folder = store.path / name
    if name == CATALOGUE:
        raise FolderTaken(f"run={name}: the store's catalogue has that name; pass another --run")
    with ExitStack() as stack:
        try:
            folder.mkdir(exist_ok=True)
            if _is_unused(folder):  # else it gets no lock
                stack.enter_context(held(folder / LOCK))
            if not _is_unused(folder):
                raise FileExistsError
        except (FileExistsError, BlockingIOError):  # a file, another owner's, or another process begins one there
            raise _taken(store, name) from None
        except OSError as error:
            raise StoreError(
                f"{folder}: no folder can be made ({error.strerror or error}); pass another --store"
            ) from None
        with suppress(OSError):  # what cannot go cannot be written either
            _empty(folder)
        try:
            yield
        finally:
            _remove_unused(folder)


@contextmanager
def claimed(store: Store, wanted: str | None, row: RunRow) -> Iterator[RunRow]:
    """The row of a new run, called `wanted` or the next free `GAME-N`, whose folder is made and locked meanwhile.

    Raises as `new_folder`.
    """
    with ExitStack() as lock:

        def begin(name: str) -> bool:
            lock.enter_context(new_folder(store, name))
            return True

        name, _ = first_free(wanted, row.game, begin)
        yield replace(row, run=name)


def begin_runs(store: Store, runs: Sequence[RunRow], learners: Sequence[LearnerRow]) -> bool:
    """Makes the folders of new runs, all or nothing: those of a league count when its own is there.

    Returns:
        Whether they are new; False: a name is taken by a league or its runs, and nothing was changed.

    Raises:
        FolderTaken, StoreError: as `new_folder`, or the store cannot be written.
    """
    league = learners[0].league
    names = [row.run for row in runs]
    with store.one_at_a_time(), ExitStack() as locks:  # its learners' processes may begin it together
        if any(owner.identity.name in (league, *names) for owner in store.owners()):
            return False
        made: list[str] = []
        try:
            for name in dict.fromkeys([*names, league]):
                locks.enter_context(new_folder(store, name))
                made.append(name)
            ids = []
            for place, (row, learner) in enumerate(zip(runs, learners, strict=True)):
                identity = store.identity_of(row, learner)
                identity = identity.model_copy(update={"number": identity.number + place})  # none is in the store yet
                begin_folder(Folder(store.path / row.run, store.say), row, identity)
                ids.append(identity.id)
            if league not in names:
                path = store.path / league
                Folder(path, store.say).begin(store.identity("league", league, learners=tuple(ids)))
        except BaseException:
            for name in made:
                with suppress(OSError):
                    (store.path / name / IDENTITY).unlink()
            raise
    return True


def begin_folder(folder: Folder, row: RunRow, identity: Identity) -> None:
    """Writes a new run: its name is taken from then on."""
    folder.note(status=row.status, steps=row.steps, update=row.update)
    folder.begin(identity, configured_of(row))


def configured_of(row: RunRow) -> Configured:
    """What `config-NNN.json` has of a run."""
    names = ("stage", "fingerprint", "device", "game_address", "game_version", "game_sha256")
    return Configured(config=json.loads(row.config), **{name: getattr(row, name) for name in names})


def instead(store: Store, row: RunRow) -> str:
    """What to do about a run whose files are not there: have them back, or begin another."""
    role = next((learner.role for learner in store.learners() if learner.run == row.run), None)
    words: tuple[str, ...] = ("train", "--fresh", "--env", row.env)
    if role is not None:
        words = ("exploit", "AGENT") if role == "exploiter" else ("train", "--league", "FILE", "--env", row.env)
    return f"restore its own from a copy, or begin another one with {command(*words, store=store.path)}"


def has_begun(store: Store, run: str) -> bool:
    """Whether a run ever saved a state, be it lost since."""
    folder = store.path / run
    status = read(Status, folder / STATUS)
    return has_state(folder / "state") or (status is not None and status.has_state)


def read_manifest(snapshot: Path) -> Manifest:
    """The manifest of a snapshot in a run's folder; its weights are not looked at."""
    path = snapshot / MANIFEST
    try:
        text = read_file(path, MAX_MANIFEST_BYTES)
    except (OSError, ValueError) as error:
        raise SnapshotError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    return parse(text, str(path))


def _is_unused(folder: Path) -> bool:
    """Whether no owner has begun in a folder: a league's learner has once its league is there."""
    names = {path.name for path in folder.iterdir() if not (is_temporary(path) or is_lock(path))}
    if IDENTITY in names:
        learner = None
        with suppress(StoreError):
            learner = getattr(read(Identity, folder / IDENTITY), "learner", None)
        if learner is None or learner.league == learner.run or (folder.parent / learner.league / IDENTITY).exists():
            return False
    return not names - {GUESTS, STATUS, LISTING, ROWS, CONFIG.format(1), IDENTITY}


def _empty(folder: Path) -> None:
    """Removes what is in an unused folder, but for the lock that its caller holds."""
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            shutil.rmtree(path)
        elif not is_lock(path):
            path.unlink()


def _remove_unused(folder: Path) -> None:
    with suppress(OSError):
        if _is_unused(folder):
            _empty(folder)
            for path in sorted(filter(is_lock, folder.iterdir())):
                path.unlink()
            folder.rmdir()


def _taken(store: Store, name: str) -> FolderTaken:
    found = next((owner for owner in store.owners() if owner.identity.name == name), None)
    if found is None:
        return FolderTaken(f"run={name}: {store.path / name} is there already; pass another --run")
    owner, status = found.identity, found.status
    can_go_on = owner.kind in ("run", "league") and (status is None or status.status != "finished")
    go_on = f"carry it on with {command('resume', name, store=store.path)}, or " if can_go_on else ""
    return FolderTaken(f"run={name}: {owner.kind} `{name}` is already in {store.path}; {go_on}pass another --run")
