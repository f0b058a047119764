"""A league's store on nodes that do not see its folder: each learner there trains in a folder of its node's own.

At each saved state the learner sends what is new to a `Courier`, an actor that sees the store: rows, snapshots and the
state's data first, then the lists that name them. So the store's folder is, at every moment, one that a process which
trains in it could have left there. What travels is bytes of these files; nobody sees more of a learner than the store.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from league import config as settings
from league.errors import LeagueError, StoreError
from league.runtime.cluster import ClusterActor, last_line
from league.runtime.disk import sync, write_atomic
from league.sessions.external_agents import keep
from league.snapshots.files import MANIFEST, WEIGHTS
from league.store import locks
from league.store.carried import STOP, Look, files, is_carried, order
from league.store.files import told
from league.store.owner import LISTING, Listing, read
from league.store.segments import ROWS
from league.store.store import Store
from league.store.view import View


class Courier(ClusterActor):
    """Reads and writes the folders of a league where they are seen, and holds the locks of those that it writes.

    folder: as of `ClusterActor`.
    store: the store's.
    names: of the folders: the learners', and the league's.
    """

    def __init__(self, folder: str, store: str, names: Sequence[str]) -> None:
        super().__init__(folder)
        self._store, self._names = Path(store), list(names)
        self._holders: dict[str, str] = {}
        """Run -> the token of the actor that may write it."""
        self._locks: dict[str, ExitStack] = {}

    def hand_over(self, run: str, token: str) -> str:
        """Lets the actor with this token alone write a run; an empty one writes the folder itself, by its own lock.

        Returns:
            What is wrong; empty: nothing.
        """
        self._holders[run] = token
        folder = self._folder(run)
        try:
            if not token:
                self._locks.pop(run, ExitStack()).close()
            elif run not in self._locks:
                locks.take_over(folder / locks.LOCK, lambda _: None)
                with ExitStack() as stack:
                    stack.enter_context(locks.alone(run, folder))
                    self._locks[run] = stack.pop_all()
            if token:  # agents from elsewhere are seen where the store is
                keep(folder, settings.of_run(run, Store.open(self._store).find_run(run).config))
                (folder / STOP).unlink(missing_ok=True)  # it asked an earlier process
        except LeagueError as error:
            return str(error)
        return ""

    def close(self) -> None:
        """Lets go of all locks."""
        for run in self._names:
            self.hand_over(run, "")

    def paths(self, run: str) -> list[str]:
        """The files of a run."""
        return sorted(_files(self._folder(run)))

    def read(self, run: str, path: str) -> bytes | None:
        """A file of a run; None: it is gone."""
        try:
            return self._file(run, path).read_bytes()
        except FileNotFoundError:
            return None

    def news(self, run: str, marks: Mapping[str, str]) -> dict[str, tuple[str, dict[str, bytes]]]:
        """The lists of the folders that have changed, by name, each with its mark.

        Args:
            run: who asks; its own are left out.
            marks: what it has.
        """
        found = {}
        for name in (name for name in self._names if name != run):
            files = _files(self._folder(name), is_lists=True)
            if (mark := json.dumps(files, sort_keys=True)) != marks.get(name):
                each = [(path, self.read(name, path)) for path in sorted(files, key=order)]  # as `behind` and `look`
                found[name] = mark, {path: data for path, data in each if data is not None}
        return found

    def is_asked_to_stop(self, run: str) -> bool:
        """Whether `league stop` has named a run."""
        return (self._folder(run) / STOP).exists()

    def write(self, run: str, token: str, path: str, data: bytes) -> str:
        """Writes a file of a run, whole and synced when this returns; what is wrong."""
        return self._change(run, token, self._file(run, path), data)

    def remove(self, run: str, token: str, paths: Sequence[str]) -> str:
        """Removes files of a run, and the folders that they leave empty; what is wrong."""
        for file in (self._file(run, path) for path in paths):
            if wrong := self._change(run, token, file, None):
                return wrong
            with suppress(OSError):
                if file.parent != self._folder(run):
                    file.parent.rmdir()
        return ""

    def _change(self, run: str, token: str, file: Path, data: bytes | None) -> str:
        if not token or self._holders.get(run) != token:
            return f"run={run}: another actor trains it now; this one writes nothing more"
        try:
            locks.check_owned(self._folder(run))
            with told(file, "cannot be written"):
                if data is None:
                    file.unlink(missing_ok=True)
                else:
                    _write(file, data)
        except StoreError as error:
            return str(error)
        return ""

    def _folder(self, run: str) -> Path:
        if run not in self._names:
            raise ValueError(f"{run!r} is not of this league")
        return self._store / run

    def _file(self, run: str, path: str) -> Path:
        if not _is_carried(path):
            raise ValueError(f"{path!r} is no file of a run")
        return self._folder(run) / path


class Mirror(Store):
    """A store in a folder of this node alone, with what one learner needs of its league; its own run is written here.

    Args:
        folder: which, empty.
        run: the learner's.
        courier: the actor.
    """

    def __init__(self, folder: Path, run: str, courier: Any) -> None:
        super().__init__(View(folder, lambda _: None))
        self._run, self._courier, self._token = run, courier, os.urandom(8).hex()
        self._sent: dict[str, Look] = {}
        """Path of a file that the courier has -> what it looks like here."""
        self._marks: dict[str, str] = {}
        self._fetched_at = 0.0
        self._need("hand_over", run, self._token)
        for path in self._ask("paths", run):
            self._put(run, path, self._ask("read", run, path))
        self._sent = _files(folder / run)
        self.fetch()

    def fetch(self, within: float = 0.0, only: str | None = None) -> None:
        """As `Store.fetch`: the others' lists, with their listed snapshots; their other rows stay away."""
        del only  # what changed comes at once
        if time.monotonic() < self._fetched_at + within:
            return
        if self._ask("is_asked_to_stop", self._run):
            (self.path / self._run / STOP).touch()
        for name, (mark, lists) in self._ask("news", self._run, self._marks).items():
            self._take(name, lists)
            self._marks[name] = mark
        self._fetched_at = time.monotonic()

    def push(self) -> None:
        """As `Store.push`: the courier has all when this returns."""
        folder = self.path / self._run
        there, listed = _files(folder), (read(Listing, folder / LISTING) or Listing(segments={})).names
        for path in sorted(there, key=order):
            is_merged = path.startswith(f"{ROWS}/") and path.removeprefix(f"{ROWS}/") not in listed
            if there[path] != self._sent.get(path) and not is_merged:
                self._need("write", self._run, self._token, path, (folder / path).read_bytes())
                self._sent[path] = there[path]
        if gone := [path for path in self._sent if path not in there]:
            self._need("remove", self._run, self._token, gone)
            self._sent = {path: look for path, look in self._sent.items() if path in there}

    def _take(self, name: str, lists: dict[str, bytes]) -> None:
        """Takes in another folder's lists, after the snapshots in them."""
        if LISTING in lists:
            listing = Listing.model_validate_json(lists[LISTING])
            for row in listing.snapshots:
                for file in (WEIGHTS, MANIFEST):
                    path = f"{row.path.removeprefix(f'{name}/')}/{file}"
                    if not (self.path / name / path).exists():
                        self._put(name, path, self._ask("read", name, path))
            lists[LISTING] = listing.model_copy(update={"segments": {}}).model_dump_json().encode()
        for path in sorted(lists, key=order):
            self._put(name, path, lists[path])

    def _put(self, name: str, path: str, data: bytes | None) -> None:
        if data is None:
            return
        if not _is_carried(path):
            raise StoreError(f"{path!r}: the courier names no file of a run")
        file = self.path / name / path
        with told(file, "cannot be written"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)

    def _need(self, method: str, *arguments: object) -> None:
        if wrong := self._ask(method, *arguments):
            raise StoreError(wrong)

    def _ask(self, method: str, *arguments: object) -> Any:
        import ray

        try:
            return ray.get(getattr(self._courier, method).remote(*arguments))
        except ray.exceptions.RayError as error:
            raise StoreError(f"run={self._run}: the store cannot be reached ({last_line(error)})") from None


@contextmanager
def store_of(run: str, store: Path, told_by: Mapping[str, str]) -> Iterator[Store]:
    """The store as this node has it: the folder, or, where it does not see that, a mirror, sent at the end.

    Args:
        run: the learner that trains here.
        store: the folder.
        told_by: `nonce`, a file in it, and `courier`, an actor's name; empty: all nodes see the folder.
    """
    if not told_by:
        yield Store.open(store)
        return
    import ray

    courier = ray.get_actor(told_by["courier"])
    if (store / told_by["nonce"]).exists():
        ray.get(courier.hand_over.remote(run, ""))
        yield Store.open(store)
        return
    with tempfile.TemporaryDirectory(prefix="league-") as folder:
        mirror = Mirror(Path(folder), run, courier)
        try:
            yield mirror
        except LeagueError as error:
            with suppress(StoreError):  # the error that ended it is the one to tell
                mirror.push()
            raise LeagueError(str(error).replace(folder, str(store))) from None
        mirror.push()


def _is_carried(path: str) -> bool:
    return path != STOP and is_carried(path)


def _files(folder: Path, *, is_lists: bool = False) -> dict[str, Look]:
    return {path: look for path, look in files(folder, is_lists=is_lists).items() if path != STOP}


def _write(file: Path, data: bytes) -> None:
    if not file.parent.exists():
        file.parent.mkdir(parents=True)
        sync(file.parent.parent)
    write_atomic(file, data)
