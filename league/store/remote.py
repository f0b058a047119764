"""A store at an address of fsspec, such as `s3://bucket/league`: a working copy on this machine, fetched and pushed.

Object stores have no rename and no `mkdir`. So a folder's lists are read before the files that they name and written
after them, and a lock is an object that only one can make (S3: a conditional PUT). Snapshots and states come when they
are needed. The working copy is a store like any other and can be deleted; what it has and the address lacks, after a
kill or without a network, is sent the next time that it is opened.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import math
import os
import secrets
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from league.errors import StoreError, UsageError
from league.runtime.disk import write_atomic
from league.store import locks
from league.store.bucket import Bucket, Object
from league.store.carried import STOP, Look, files, is_carried, look, order
from league.store.files import REMOTE, connected, is_working_copy
from league.store.owner import IDENTITY, LISTING, Listing, read
from league.store.segments import ROWS

_log = logging.getLogger("league.store.store")
_LATER = ("guests", "snapshots", "state", "stopped")
"""Folders of a run that come when they are needed."""
_remotes: dict[Path, Remote] = {}
"""Working copy -> its address, of this process."""


def remote_of(folder: Path) -> Remote | None:
    """The address of a store's folder; None: it is no working copy."""
    folder = Path(os.path.abspath(folder))
    if folder not in _remotes and is_working_copy(folder):
        _remotes[folder] = locks.elsewhere[folder] = Remote(folder)
    return _remotes.get(folder)


@contextmanager
def attached(folder: Path, bucket: Bucket) -> Iterator[None]:
    """Within it an empty folder is the working copy of a bucket, for this process."""
    write_atomic(folder / REMOTE, json.dumps({"address": bucket.name}).encode())
    _remotes[folder] = locks.elsewhere[folder] = Remote(folder, bucket)
    try:
        yield
    finally:
        del _remotes[folder], locks.elsewhere[folder]


class Remote:
    """An address, and the working copy of it.

    folder: the working copy.
    bucket: at the address, else the one that the working copy's record names.

    Raises:
        UsageError: as `connected`.
        StoreError: the record is damaged.
    """

    def __init__(self, folder: Path, bucket: Bucket | None = None) -> None:
        self._folder = folder
        self._marks: dict[str, str] = {}
        """Path -> `Object.mark` of what the working copy has."""
        self._looks: dict[str, Look] = {}
        """Path -> what its file looked like when the address had the same."""
        self._unsent: list[str] = []
        """Folders that were written here, not all of which was sent: their locks at the address are ours."""
        self._locks: dict[str, str] = {}
        """Path of a lock of another machine -> its file here, which stands for it."""
        self._bucket = bucket or _bucket_of(self._remember(), folder)
        self._there: dict[str, Object] = {}
        self._held: dict[str, bytes] = {}
        """Path of a lock that this process holds -> its content."""
        self._fetched_at = -math.inf

    @property
    def address(self) -> str:
        """Such as `s3://bucket/league`."""
        return self._bucket.name

    def fetch(self, within: float = 0.0, only: str | None = None) -> None:
        """Brings what others have written, but for snapshots and states, and takes off what they removed.

        Args:
            within: seconds; nothing happens where it was done less than these ago.
            only: a file's path, which is all that is brought.

        Raises:
            StoreError: the address cannot be reached.
        """
        if time.monotonic() < self._fetched_at + within:
            return
        with self._recorded():
            if only is not None:
                self._bring_one(only)
            else:
                self._bring_all()
        self._fetched_at = time.monotonic()
        if only is None and (left := [owner for owner in self._unsent if not self._is_written(f"{owner}/")]):
            try:
                self.push(left)
            except StoreError as error:
                _log.warning("%s", error)

    def _bring_one(self, path: str) -> None:
        self._list_again(path.partition("/")[0])
        if path in self._there and self._is_new(path):
            self._bring([path])

    def _bring_all(self) -> None:
        self._there = self._files_at()
        self._set_lost_aside()
        lists: dict[str, tuple[bytes, Object]] = {}
        while new := [x for x in self._there if x.endswith(".json") and x not in lists and self._is_wanted(x)]:
            found = self._bucket.read(new)
            lists |= {path: (data, self._there[path]) for path, data in found.items()}
            self._there = self._files_at()  # what they name was written before them
            if not found:
                break
        self._bring([path for path in self._there if self._is_wanted(path) and not path.endswith(".json")])
        for path in sorted(lists, key=_order):
            self._put(path, *lists[path])
        self._show_locks()
        for path in [path for path in self._marks if path not in self._there and not self._is_ours(path)]:
            self._forget(path)

    def _set_lost_aside(self) -> None:
        """Gives another name to folders of which something was not sent before another machine took them over."""
        for owner in [owner for owner in self._unsent if not self._is_written(f"{owner}/")]:
            is_there = any(path.startswith(f"{owner}/") for path in self._there)
            if (
                is_there
                and _copy(self._folder) not in self._bucket.read([_lock_of(owner)]).get(_lock_of(owner), b"").decode()
            ):
                aside = self._folder / f".{owner}-{secrets.token_hex(4)}"
                (self._folder / owner).rename(aside)
                _log.warning("%s: another machine took it over; what was not sent from here is in %s", owner, aside)
                self._unsent.remove(owner)
                for path in self._looks_of(owner):
                    self._looks.pop(path), self._marks.pop(path, None)

    def need(self, path: str) -> Path:
        """Brings a run's folder, or one of its snapshots, whole; its path.

        Raises:
            StoreError: the address cannot be reached.
        """
        if not self._is_ours(f"{path}/"):
            with self._recorded():
                self._bring([x for x in self._there if x.startswith(f"{path}/") and self._is_new(x)])
        return self._folder / path

    def size_of(self, path: str) -> int:
        """Bytes of the files of a folder at the address."""
        return sum(found.size for x, found in self._there.items() if x.startswith(f"{path}/"))

    def push(self, owners: Sequence[str] | None = None) -> None:
        """Sends what was written here, in folders that no other process writes.

        owners: the folders, else all.

        Raises:
            LockLost: another machine has taken over a folder.
            StoreError: the address cannot be reached; all is kept and sent the next time.
        """
        with self._recorded():
            sent = [path for owner in (self._owners() if owners is None else owners) for path in self._send(owner)]
            for owner in dict.fromkeys(path.partition("/")[0] for path in sent):
                self._list_again(owner)
            self._marks |= {path: self._there[path].mark for path in sent if path in self._there}

    def remove(self, name: str) -> None:
        """Takes a folder off the address.

        Raises:
            StoreError: the address cannot be reached.
        """
        with self._recorded():
            for path in sorted((x for x in self._there if x.startswith(f"{name}/")), key=_order, reverse=True):
                self._bucket.delete(path)
                self._forget(path)

    # Locks, as `league.store.locks` calls them.

    @contextmanager
    def lock(self, lock: Path, file: Path) -> Iterator[None]:
        """Holds a lock at the address, and within it has the whole folder; sends it at the end.

        file: of the lock here.

        Raises:
            LockHeld: another machine, or another working copy, holds it.
            StoreError: the address cannot be reached, or cannot keep two writers apart.
        """
        path, data = self._path(lock), f"{file.name}\n{_copy(self._folder)}".encode()
        owner = path.rpartition("/")[0]
        with self._bucket.reached():
            if self._bucket.make(path, data):
                if owner in self._unsent and any(x.startswith(f"{owner}/") for x in self._there):
                    self._bucket.delete(path)  # it was taken over and let go of just now, so `fetch` comes first
                    raise locks.LockHeld("another machine")
            else:
                name, _, copy = self._bucket.read([path]).get(path, b"").decode(errors="replace").partition("\n")
                if copy != _copy(self._folder):
                    raise locks.LockHeld(name.partition("@")[2] or "another machine")
                self._bucket.write(path, data)  # of a process here that has died
            if self._bucket.make(path, data):
                self._bucket.delete(path)
                raise UsageError(f"store {self._bucket.name}: it cannot keep two writers apart; pass a folder, or S3")
        self._held[path], is_over = data, threading.Event()
        is_owner = lock.name == locks.LOCK and owner[:1] != "."
        beating = threading.Thread(target=self._beat, args=(path, data, is_over), daemon=True)
        beating.start()
        try:
            self.fetch()
            if is_owner:
                with self._recorded():
                    if owner not in self._unsent:
                        self._bring([x for x in self._there if x.startswith(f"{owner}/") and self._is_new(x)])
                        self._unsent.append(owner)
            try:
                yield
            except BaseException:
                with suppress(StoreError):  # the error that ended it is the one to tell
                    self._send_last(owner, is_owner=is_owner)
                raise
            self._send_last(owner, is_owner=is_owner)
        finally:
            is_over.set()
            beating.join()  # else it could make again what goes here
            del self._held[path]
            try:
                with self._bucket.reached():
                    if owner not in self._unsent and self._is_own(path, data):  # else nobody goes on from less
                        self._bucket.delete(path)
            except StoreError as error:
                _log.warning("%s", error)

    def _send_last(self, owner: str, *, is_owner: bool) -> None:
        """Sends a folder before its lock goes."""
        if is_owner:
            self.push([owner])
            with self._recorded():
                self._unsent = [x for x in self._unsent if x != owner]

    def look(self, lock: Path) -> None:
        """Looks for a sign of life of the machine that holds a lock."""
        with self._recorded():
            self._list_again(self._path(lock).rpartition("/")[0])
            self._show_locks()

    def end(self, file: Path) -> None:
        """Ends the lock of another machine, whose file here is given."""
        with self._recorded():
            for path in [path for path, shown in self._locks.items() if shown == self._path(file)]:
                self._bucket.delete(path)
                del self._locks[path]

    def _beat(self, path: str, data: bytes, is_over: threading.Event) -> None:
        """Gives signs of life."""
        while not is_over.wait(locks.BEAT_SECONDS):
            with suppress(Exception):  # the next one may come through
                if self._is_own(path, data):
                    self._bucket.write(path, data)

    def _is_own(self, path: str, data: bytes) -> bool:
        return self._bucket.read([path]).get(path) == data

    def _show_locks(self) -> None:
        """Has a file in the working copy for each lock of another machine, with the time of its last sign of life."""
        found = {path: self._there[path] for path in self._there if is_lock_at(path) and path not in self._held}
        for path, data in self._bucket.read(found).items():
            name, _, copy = data.decode(errors="replace").partition("\n")
            if copy != _copy(self._folder) and (shown := locks.shown_as(name, copy)):
                self._locks[path] = (Path(path).parent / shown).as_posix()
                file = self._folder / self._locks[path]
                file.parent.mkdir(parents=True, exist_ok=True)
                file.touch()
                os.utime(file, (found[path].at, found[path].at))
        for path in [path for path in self._locks if path not in found]:
            (self._folder / self._locks.pop(path)).unlink(missing_ok=True)

    # Files.

    def _send(self, owner: str) -> list[str]:
        """Sends what is new in a folder, and removes there what has gone here; the paths that were sent."""
        folder, lock = self._folder / owner, _lock_of(owner)
        if lock not in self._held and locks.is_held(folder / locks.LOCK) is not False:  # it is only asked to stop
            stop = [f"{owner}/{STOP}"] if (folder / STOP).exists() else []
            for path in stop:
                self._bucket.write(path, b"")
            return stop
        there = {f"{owner}/{path}": look for path, look in files(folder).items()}
        listed = (read(Listing, folder / LISTING) or Listing(segments={})).names
        merged = {path for path in there if path.startswith(f"{owner}/{ROWS}/") and Path(path).name not in listed}
        changed = [path for path in there if path not in merged and there[path] != self._looks.get(path)]
        gone = [path for path in self._looks_of(owner) if path not in there]
        if changed and owner not in self._unsent:
            self._unsent.append(owner)
            self._record()
        if (changed or gone) and lock in self._held and not self._is_own(lock, self._held[lock]):
            raise locks.LockLost(
                f"{folder}: its lock was taken over at {self._bucket.name}; nothing more is sent there"
            )
        for path in sorted(changed, key=_order):
            self._bucket.write(path, (self._folder / path).read_bytes())
            self._looks[path] = there[path]
        for path in gone:
            self._bucket.delete(path)
            self._looks.pop(path), self._marks.pop(path, None)
        if owner in self._unsent and lock not in self._held:
            self._unsent.remove(owner)
            if _copy(self._folder) in self._bucket.read([lock]).get(lock, b"").decode():
                self._bucket.delete(lock)  # of a process here that has died
        return changed

    def _looks_of(self, owner: str) -> dict[str, Look]:
        return {path: look for path, look in self._looks.items() if path.startswith(f"{owner}/")}

    def _owners(self) -> list[str]:
        return [file.parent.name for file in sorted(self._folder.glob(f"*/{IDENTITY}")) if file.parent.name[0] != "."]

    def _bring(self, paths: list[str]) -> None:
        for path in sorted(paths, key=_order):
            for data in self._bucket.read([path]).values():
                self._put(path, data, self._there[path])

    def _put(self, path: str, data: bytes, found: Object) -> None:
        file = self._folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, data)
        self._marks[path], self._looks[path] = found.mark, look(file)

    def _forget(self, path: str) -> None:
        """Removes a file that the address has no more; with a run's identity all of its folder."""
        self._marks.pop(path, None), self._looks.pop(path, None)
        (self._folder / path).unlink(missing_ok=True)
        if Path(path).name == IDENTITY:
            shutil.rmtree((self._folder / path).parent, ignore_errors=True)

    def _files_at(self, owner: str = "") -> dict[str, Object]:
        """The files and the locks at the address, or in one folder there."""
        found = self._bucket.list(owner)
        owners = {path.partition("/")[0] for path in found if path.endswith(f"/{IDENTITY}")}
        return {path: x for path, x in found.items() if is_lock_at(path) or _is_file(path, owners)}

    def _list_again(self, owner: str) -> None:
        """Sees what is in one folder at the address now, or in all of it."""
        others = {path: x for path, x in self._there.items() if not path.startswith(f"{owner}/")} if owner else {}
        self._there = others | self._files_at(owner)

    def _is_new(self, path: str) -> bool:
        return not is_lock_at(path) and self._there[path].mark != self._marks.get(path)

    def _is_wanted(self, path: str) -> bool:
        """Whether `fetch` brings a file."""
        rest = path.partition("/")[2]
        is_later = rest.partition("/")[0] in _LATER
        return self._is_new(path) and not is_later and (rest == STOP or not self._is_ours(path))

    def _is_ours(self, path: str) -> bool:
        """Whether the working copy has the newest of the folder that a file is in."""
        return path.partition("/")[0] in self._unsent or self._is_written(path)

    def _is_written(self, path: str) -> bool:
        """Whether a process of this machine writes the folder that a file is in."""
        return locks.is_held_here(self._folder / path.partition("/")[0] / locks.LOCK)

    def _path(self, file: Path) -> str:
        return Path(os.path.abspath(file)).relative_to(self._folder).as_posix()

    def _remember(self) -> str:
        """Reads the record, which other processes of this machine write, too; the address."""
        try:
            told = json.loads((self._folder / REMOTE).read_bytes())
            self._marks = dict(told.get("marks", {}))
            self._looks = {path: (x[0], x[1], x[2]) for path, x in told.get("looks", {}).items()}
            self._locks, self._unsent = dict(told.get("locks", {})), list(told.get("unsent", []))
            return str(told["address"])
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            raise StoreError(f"{self._folder / REMOTE}: damaged; remove {self._folder}, and pass the address") from None

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """Within it this process alone, of this machine's, knows and changes the record."""
        with self._bucket.reached(), (self._folder / f"{REMOTE}.lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self._remember()
            try:
                yield
            finally:
                self._record()

    def _record(self) -> None:
        told = {"address": self._bucket.name, "marks": self._marks, "looks": self._looks}
        told |= {"locks": self._locks, "unsent": self._unsent}
        write_atomic(self._folder / REMOTE, json.dumps(told).encode())


def _bucket_of(address: str, folder: Path) -> Bucket:
    keeps = f"{folder} keeps what was not sent, and sends it the next time"
    return Bucket(address, connected(address), f"see to the network and the credentials; {keeps}")


def _order(path: str) -> tuple[int, str]:
    return order(path.partition("/")[2])


def _is_file(path: str, owners: set[str]) -> bool:
    owner, _, rest = path.partition("/")
    return owner in owners and is_carried(owner) and is_carried(rest)


def _lock_of(owner: str) -> str:
    return f"{owner}/{locks.LOCK}"


def is_lock_at(path: str) -> bool:
    """Whether an object is a lock: of a folder, or of the store."""
    return path.endswith(f"/{locks.LOCK}") or ("/" not in path and path.endswith(f".{locks.LOCK}"))


def _copy(folder: Path) -> str:
    """This working copy among all machines'."""
    return hashlib.sha256(f"{locks.machine()}\n{folder}".encode()).hexdigest()
