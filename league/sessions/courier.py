"""A league's store on nodes that do not see its folder: an actor on one that does gives it to them as a bucket.

So a learner there works in a copy, as with a store at an address (`league.store.remote`): what it sends is in the
store's folder in an order in which a process that trains in that folder could have written it. What travels is bytes
of its files.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from league.errors import LeagueError
from league.runtime.cluster import ClusterActor, last_line
from league.runtime.disk import sync, write_atomic
from league.store import locks
from league.store.bucket import Bucket
from league.store.carried import files, is_carried
from league.store.remote import attached, is_lock_at
from league.store.store import Store


class Courier(ClusterActor):
    """The folders of a league where they are seen, by what `Bucket` calls of a file system of fsspec.

    A lock at the bucket is one of the folder, which this actor's process holds for the learner's machine.

    folder: as of `ClusterActor`.
    store: the store's.
    names: of the folders: the learners', and the league's.
    """

    def __init__(self, folder: str, store: str, names: Sequence[str]) -> None:
        super().__init__(folder, {})
        self._store, self._names = Path(store), list(names)
        self._locks: dict[str, tuple[ExitStack, bytes, float]] = {}
        """Path of a lock -> what ends it, its content, and when that was written."""

    def find(self, root: str, detail: bool) -> dict[str, dict[str, Any]]:
        """All files, or those of the folder `root`."""
        del detail
        found: dict[str, dict[str, Any]] = {}
        for name in [root.strip("/")] if root else self._names:
            for path, look in files(self._folder(name)).items():
                found[f"/{name}/{path}"] = {"ETag": str(look), "size": look[1]}
        for path, (_, data, at) in self._locks.items():
            if path.startswith(f"{root}/"):
                found[path] = {"ETag": str(at), "size": len(data), "mtime": at}
        return found

    def cat_file(self, path: str) -> bytes:
        """The content of a file."""
        if is_lock_at(path[1:]):
            if path not in self._locks:
                raise FileNotFoundError(path)
            return self._locks[path][1]
        return self._file(path).read_bytes()

    def pipe_file(self, path: str, data: bytes, mode: str = "overwrite") -> None:
        """Writes a file, whole and synced when this returns; of a lock, takes it where the mode is `create`."""
        if is_lock_at(path[1:]):
            if mode == "create":
                self._hold(path, data.partition(b"\n")[0].decode(errors="replace").partition("@")[2])
            if path in self._locks:
                self._locks[path] = self._locks[path][0], data, time.time()
            return
        file = self._file(path)
        locks.check_owned(self._folder(path.split("/")[1]))
        if not file.parent.exists():
            file.parent.mkdir(parents=True)
            sync(file.parent.parent)
        write_atomic(file, data)

    def rm_file(self, path: str) -> None:
        """Removes a file, and the folders that it leaves empty; of a lock, lets go of it."""
        if is_lock_at(path[1:]):
            if path in self._locks:
                self._locks.pop(path)[0].close()
            return
        file = self._file(path)
        file.unlink()
        with suppress(OSError):
            if file.parent.name not in self._names:
                file.parent.rmdir()

    def close(self) -> None:
        """Lets go of all locks."""
        for path in list(self._locks):
            self.rm_file(path)

    def _hold(self, path: str, host: str) -> None:
        if path in self._locks:
            raise FileExistsError(path)
        lock = self._store / path[1:]
        if lock.parent != self._store:
            self._folder(lock.parent.name)
        with ExitStack() as stack:
            try:
                stack.enter_context(locks.held(lock, host=host))
            except locks.LockHeld:
                raise FileExistsError(path) from None
            self._locks[path] = stack.pop_all(), b"", 0.0

    def _folder(self, run: str) -> Path:
        if run not in self._names:
            raise ValueError(f"{run!r} is not of this league")
        return self._store / run

    def _file(self, path: str) -> Path:
        run, _, rest = path[1:].partition("/")
        if not is_carried(rest):
            raise ValueError(f"{path!r} is no file of a run")
        return self._folder(run) / rest


class _Files:
    """A courier as the file system of a `Bucket`."""

    def __init__(self, courier: Any) -> None:
        self._courier = courier

    def invalidate_cache(self) -> None:
        """There is none."""

    def __getattr__(self, method: str) -> Any:
        import ray

        def call(*arguments: object, **more: object) -> Any:
            try:
                return ray.get(getattr(self._courier, method).remote(*arguments, **more))
            except (FileNotFoundError, FileExistsError):
                raise
            except ray.exceptions.RayError as error:
                raise OSError(last_line(error)) from None

        return call


@contextmanager
def store_of(run: str, store: Path, told_by: Mapping[str, str]) -> Iterator[Store]:
    """The store as this node has it: the folder, or, where it does not see that, a copy that goes at the end.

    Args:
        run: the learner that trains here.
        store: the folder.
        told_by: `nonce`, a file in it, and `courier`, an actor's name; empty: all nodes see the folder.
    """
    if not told_by:
        yield Store.open(store)
        return
    import ray

    courier = _Files(ray.get_actor(told_by["courier"]))
    bucket = Bucket(str(store), (courier, ""), "what is saved there stands, and the run goes on from it")
    with bucket.reached():
        bucket.delete(f"{run}/{locks.LOCK}")  # of an earlier try of this actor, which has gone
    if (store / told_by["nonce"]).exists():
        yield Store.open(store)
        return
    with TemporaryDirectory(prefix="league-") as folder, attached(Path(folder), bucket):
        try:
            yield Store.open(folder)
        except LeagueError as error:
            raise LeagueError(str(error).replace(folder, str(store))) from None
