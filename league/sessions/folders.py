"""A run's folder beside its store: made for one run, marked with whose it is, and checked whenever it is opened.

Runs, a league's learners and exploiters all come here. The mark, `run.json`, names the store, the run and when that
began, so that neither a folder that was swapped, nor one of another store, nor one that an older copy of the store does
not know is taken for the run's own.
"""

from __future__ import annotations

import itertools
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from league.errors import SnapshotError, StoreError, UsageError, command
from league.schema import FrozenModel, read_file
from league.snapshots.files import MANIFEST, MAX_MANIFEST_BYTES, has_state, write_atomic
from league.snapshots.kept import states_of
from league.snapshots.manifest import Manifest, parse
from league.store.locks import LOCK, held
from league.store.rows import LearnerRow, RunRow, now
from league.store.store import Store

MARK = "run.json"
GUESTS = "guests"
"""In a run's folder: copies of the agents from elsewhere that it meets, so that it can go on without the originals."""
ASIDE = ".old-"
"""In the name of a snapshot's folder that was set aside."""


class FolderTaken(UsageError):
    """Something of a new run's name lies beside the store."""


class Mark(FrozenModel):
    """Whose a folder is."""

    store: str
    """`Store.identity`."""
    run: str
    begun_at: datetime
    has_state: bool = False
    """Whether a state was ever saved here: then one that is missing was lost."""

    @classmethod
    def of(cls, store: Store, row: RunRow, *, has_state: bool = False) -> Mark:
        """The mark of a run's folder."""
        return cls(store=store.identity, run=row.run, begun_at=row.started_at, has_state=has_state)


def folder_of(store: Store, run: str) -> Path:
    """Where a run's files lie: beside the store."""
    return store.path.parent / run


def is_pruned(store: Store, run: str) -> bool:
    """Whether files of a run's snapshots were pruned; it cannot go on then, since it may draw any of them."""
    return any(row.pruned_at is not None for row in store.snapshots(run))


def kept_states(store: Store, run: str) -> dict[int, Path]:
    """Steps -> index of each state that `league resume RUN --at STEP` can go back to, the earliest first.

    None of a run whose snapshots were pruned, nor of a league's learner or an exploiter: others have met what came of
    theirs.
    """
    is_alone = all(run not in (learner.run, learner.league) for learner in store.learners())
    return states_of(folder_of(store, run) / "state") if is_alone and not is_pruned(store, run) else {}


def snapshots_of(folder: Path) -> list[Path]:
    """The folders of a run's snapshots, its earliest first."""
    return sorted(path for path in (folder / "snapshots").glob("*") if path.name.isdigit())


def set_aside(snapshot: Path) -> None:
    """Renames the folder of a snapshot that its run goes back behind; the files are kept."""
    snapshot.rename(snapshot.with_name(f"{snapshot.name}{ASIDE}{now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"))


def first_free(wanted: str | None, stem: str, begin: Callable[[str], bool]) -> tuple[str, bool]:
    """The name `wanted`, or the next `STEM-N` that `begin` takes; and whether it took it, where it was `wanted`.

    Raises:
        FolderTaken: something of the name `wanted` lies beside the store.
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
def new_folder(store: Store, row: RunRow) -> Iterator[None]:
    """Makes the folder of a new run, marks it, and holds the run's lock for as long as the context lasts.

    A folder that was made for a run of that name which never began, as after a kill, is taken over: nobody holds its
    lock then. Whether the store has the name already is for the caller to look, under the lock.

    Raises:
        FolderTaken: something of that name is there.
        UsageError: the store's own files have names like it.
        StoreError: no folder can be made there.
    """
    folder = folder_of(store, row.run)
    for path in sorted(folder.parent.iterdir()):
        if row.run.startswith(f"{path.name}.") and path.is_file():  # a database keeps files of its own beside it
            raise UsageError(f"run={row.run}: begins with the name of the file {path}; pass another --run")
    try:
        folder.mkdir(exist_ok=True)
        if not _is_empty(folder, store, row):
            raise _taken(folder, store, row)
    except FileExistsError:  # a file
        raise _taken(folder, store, row) from None
    except OSError as error:
        raise _cannot(folder, error) from None
    with ExitStack() as stack:
        try:
            stack.enter_context(held(folder / LOCK))
        except BlockingIOError:
            raise _taken(folder, store, row) from None
        if not _is_empty(folder, store, row):
            raise _taken(folder, store, row)
        try:
            _write(folder, Mark.of(store, row))
        except OSError as error:
            remove_folder(store, row)
            raise _cannot(folder, error) from None
        yield


@contextmanager
def claimed(store: Store, wanted: str | None, row: RunRow) -> Iterator[RunRow]:
    """The row of a new run, called `wanted` or the next free `GAME-N`, whose folder is made and locked meanwhile.

    A run that has written nothing by the end leaves no folder, and its name is free again.

    Raises:
        UsageError: `wanted` is taken, or cannot be.
        StoreError: no folder can be made there.
    """
    with ExitStack() as lock:

        def begin(name: str) -> bool:
            with store.reading():  # nobody can write a run of that name meanwhile
                if _is_known(store, name):
                    return False
                lock.enter_context(new_folder(store, replace(row, run=name)))
                return True

        name, is_new = first_free(wanted, row.game, begin)
        if not is_new:
            raise _is_taken(store, name)
        named = replace(row, run=name)
        try:
            yield named
        finally:
            remove_folder(store, named)


def _is_known(store: Store, name: str) -> bool:
    """Whether a run or a league of that name is in the store."""
    return any(name == run.run for run in store.runs()) or any(name == one.league for one in store.learners())


def _is_taken(store: Store, name: str) -> FolderTaken:
    run = next((run for run in store.runs() if run.run == name), None)
    can_go_on = run is None or run.status != "finished"
    go_on = f"carry it on with {command('resume', name, store=store.path)}, or " if can_go_on else ""
    what = "league" if run is None else "run"
    return FolderTaken(f"run={name}: a {what} of that name is already in {store.path}; {go_on}pass another --run")


def remove_folder(store: Store, row: RunRow) -> None:
    """Removes what `new_folder` made for a run that never began; a folder with anything else in it is left alone.

    The run's lock must be held, so that nobody takes the folder over meanwhile.
    """
    folder = folder_of(store, row.run)
    with suppress(OSError):
        if _is_empty(folder, store, row):
            shutil.rmtree(folder / GUESTS, ignore_errors=True)
            for path in sorted(folder.iterdir()):
                path.unlink()
            folder.rmdir()


def begin_runs(store: Store, runs: Sequence[RunRow], learners: Sequence[LearnerRow]) -> bool:
    """Writes the rows of new runs and makes their folders, all or nothing.

    Returns:
        Whether they are new; False: the store has a name already, and nothing was changed.

    Raises:
        FolderTaken, UsageError, StoreError: as `new_folder`, or the store cannot be written.
    """
    made: list[RunRow] = []
    _ = store.identity  # read before the transaction, which has the file for itself
    with ExitStack() as folders:

        def make_folders() -> None:
            for row in runs:
                folders.enter_context(new_folder(store, row))
                made.append(row)

        try:
            return store.begin_league(runs, learners, make_folders)
        except BaseException:
            for row in made:
                remove_folder(store, row)
            raise


def need_folder(store: Store, row: RunRow) -> None:
    """Sees to it that the folder of a run that is in the store is there: of one that has trained nothing it is made.

    Raises:
        SnapshotError: it is gone, with what was trained.
    """
    folder = folder_of(store, row.run)
    if folder.is_dir():
        return
    if row.steps or row.update:
        raise SnapshotError(f"run={row.run}: its folder {folder} is gone; {instead(store, row)}")
    try:
        folder.mkdir(exist_ok=True)
        _write(folder, Mark.of(store, row))
    except OSError as error:
        raise _cannot(folder, error) from None


def check_folder(store: Store, row: RunRow) -> None:
    """Refuses a folder that is not the run's. One from before folders were marked is marked, if what it holds agrees.

    Raises:
        SnapshotError: it is another run's.
    """
    folder = folder_of(store, row.run)
    mark = _read(folder)
    if mark is None:
        _need_agreement(store, row, folder)
        has_trained = bool(row.steps) or any(snapshot.step for snapshot in store.snapshots(row.run))
        with suppress(OSError):  # as on a full disk: then it is looked at again
            _write(folder, Mark.of(store, row, has_state=has_state(folder / "state") or has_trained))
        return
    wanted = Mark.of(store, row)
    if mark.store != wanted.store:
        raise SnapshotError(
            f"run={row.run}: {folder} belongs to another store than {store.path}; {instead(store, row)}"
        )
    if (mark.run, mark.begun_at) != (wanted.run, wanted.begun_at):
        whose = f"run {mark.run}, begun at {mark.begun_at:%Y-%m-%d %H:%M:%S}"
        raise SnapshotError(f"run={row.run}: {folder} is the folder of {whose}; {instead(store, row)}")


def check_state(store: Store, row: RunRow, pool: Sequence[str]) -> None:
    """Refuses a state with the snapshots `pool` (agent ids) in a run's folder that has none of them.

    Raises:
        SnapshotError: it is another run's.
    """
    folder, known = folder_of(store, row.run), {snapshot.agent_id for snapshot in store.snapshots(row.run)}
    if not pool or known & set(pool):
        return
    known |= {manifest.agent_id for manifest in manifests(folder).values()}
    if known and not known & set(pool):
        raise SnapshotError(f"run={row.run}: {folder / 'state'} is another run's; {instead(store, row)}")


def instead(store: Store, row: RunRow) -> str:
    """What to do about a run whose files are not there: have them back, or begin another."""
    role = next((learner.role for learner in store.learners() if learner.run == row.run), None)
    words: tuple[str, ...] = ("train", "--fresh", "--env", row.env)
    if role is not None:
        words = ("exploit", "AGENT") if role == "exploiter" else ("train", "--league", "FILE", "--env", row.env)
    return f"restore its own from a copy, or begin another one with {command(*words, store=store.path)}"


def has_begun(store: Store, run: str) -> bool:
    """Whether a run ever saved a state, be it lost since."""
    folder = folder_of(store, run)
    mark = _read(folder)
    return has_state(folder / "state") or (mark is not None and mark.has_state)


def note_state(store: Store, row: RunRow) -> None:
    """Remembers that the run has saved a state."""
    folder = folder_of(store, row.run)
    mark = _read(folder)
    if mark is None or not mark.has_state:
        with suppress(OSError):  # the state is there; the next one is tried again
            _write(folder, Mark.of(store, row, has_state=True))


def manifests(folder: Path) -> dict[Path, Manifest]:
    """The manifests of a run's snapshots that can be read, by the snapshot's folder."""
    found = {}
    for path in snapshots_of(folder):
        with suppress(SnapshotError):
            found[path] = read_manifest(path)
    return found


def read_manifest(snapshot: Path) -> Manifest:
    """The manifest of a snapshot in a run's folder; its weights are not looked at.

    Raises:
        SnapshotError: it is missing or damaged.
    """
    path = snapshot / MANIFEST
    try:
        text = read_file(path, MAX_MANIFEST_BYTES)
    except (OSError, ValueError) as error:
        raise SnapshotError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    return parse(text, str(path))


def _need_agreement(store: Store, row: RunRow, folder: Path) -> None:
    """Refuses an unmarked folder with snapshots of another run, or others than the store has at their steps."""
    known = {snapshot.step: snapshot.agent_id for snapshot in store.snapshots(row.run)}
    for path, manifest in manifests(folder).items():
        if manifest.run != row.run or known.get(int(path.name), manifest.agent_id) != manifest.agent_id:
            found = f"{manifest.run}@{manifest.step} ({manifest.agent_id[:12]})"
            raise SnapshotError(
                f"run={row.run}: {path} holds {found}, which is not the snapshot that {store.path} has of it;"
                f" {instead(store, row)}"
            )


def _is_empty(folder: Path, store: Store, row: RunRow) -> bool:
    """Whether a folder is one of this store for a run of that name, and nothing was ever written into it."""
    mark = _read(folder)
    is_own = mark is None or (mark.store, mark.run, mark.has_state) == (store.identity, row.run, False)
    return is_own and {path.name for path in folder.iterdir()} <= {MARK, LOCK, GUESTS}


def _read(folder: Path) -> Mark | None:
    """A folder's mark; None where it has none that can be read."""
    try:
        return Mark.model_validate_json(read_file(folder / MARK, MAX_MANIFEST_BYTES))
    except (OSError, ValueError):
        return None


def _write(folder: Path, mark: Mark) -> None:
    write_atomic(folder / MARK, (mark.model_dump_json() + "\n").encode())


def _taken(folder: Path, store: Store, row: RunRow) -> FolderTaken:
    return FolderTaken(
        f"run={row.run}: {folder} is there already, and the store {store.path} knows no run of that name; put back the"
        f" store that does, or pass another --run"
    )


def _cannot(folder: Path, error: OSError) -> StoreError:
    return StoreError(f"{folder}: no folder can be made ({error.strerror or error}); pass another --store")
