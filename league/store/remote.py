"""A store at an address of fsspec, such as `s3://bucket/league`: a working copy on this machine, fetched and pushed.

Object stores have no rename and no `mkdir`. So a folder's lists are read before the files that they name and written
after them, and a lock is an object that only one can make (S3: a conditional PUT). Snapshots and states come when they
are needed. The working copy is a store like any other and can be deleted; what it has and the address lacks, after a
kill or without a network, is sent the next time that it is opened.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import re
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from league.errors import LeagueError, StoreError, UsageError
from league.runtime.disk import write_atomic
from league.store import locks
from league.store.files import REMOTE, connected
from league.store.owner import IDENTITY, LISTING, STATUS, Listing, read
from league.store.segments import ROWS

STOP = "stop"
"""In a run's folder: it is asked to end."""
_log = logging.getLogger("league.store.store")
_LAST = [LISTING, STATUS, IDENTITY]
"""What is written last, in this order."""
_LATER = ("snapshots", "state", "stopped")
"""Folders of a run that come when they are needed."""
_PATH = re.compile(r"[\w-][\w.@-]*(?:/[\w-][\w.@-]*)+", re.ASCII)
_remotes: dict[Path, Remote] = {}
"""Working copy -> its address, of this process."""


class Object(NamedTuple):
    """What is known of a file at the address."""

    mark: str
    """Another one where its content is."""
    size: int
    at: float
    """When it was written, in seconds."""


def remote_of(folder: Path) -> Remote | None:
    """The address of a store's folder; None: it is no working copy."""
    folder = Path(os.path.abspath(folder))
    if folder not in _remotes and (folder / REMOTE).exists():
        _remotes[folder] = locks.elsewhere[folder] = Remote(folder)
    return _remotes.get(folder)


class Remote:
    """An address, and the working copy of it.

    folder: the working copy.

    Raises:
        UsageError: as `working_copy`.
        StoreError: the record is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._marks: dict[str, str] = {}
        """Path -> `Object.mark` of what the working copy has."""
        self._looks: dict[str, list[int]] = {}
        """Path -> what its file looked like when the address had the same."""
        self._unsent: list[str] = []
        """Folders that were written here since they were last sent."""
        self._locks: dict[str, str] = {}
        """Path of a lock of another machine -> its file here, which stands for it."""
        self.address = self._remember()
        self._fs, self._root = connected(self.address)
        self._there: dict[str, Object] = {}
        self._held: dict[str, bytes] = {}
        """Path of a lock that this process holds -> its content."""
        self._fetched_at = -math.inf

    def fetch(self, within: float = 0.0) -> None:
        """Brings what others have written, but for snapshots and states, and takes off what they removed.

        within: seconds; nothing happens where it was done less than these ago.

        Raises:
            StoreError: the address cannot be reached.
        """
        if time.monotonic() < self._fetched_at + within:
            return
        with self._reached():
            self._remember()
            self._there = self._listed()
            wanted = [path for path in self._there if self._is_wanted(path)]
            lists = self._read(path for path in wanted if path.endswith(".json"))
            if lists:  # what they name was written before them
                self._there = self._listed()
            self._bring([path for path in self._there if self._is_wanted(path) and not path.endswith(".json")])
            for path in sorted(lists, key=_order):
                self._put(path, lists[path], self._there.get(path))
            self._show_locks()
            for path in [path for path in self._marks if path not in self._there and not self._is_written(path)]:
                self._forget(path)
            self._record()
        self._fetched_at = time.monotonic()
        if left := [owner for owner in self._unsent if not locks.is_held_here(self._folder / owner / locks.LOCK)]:
            try:
                self.push(left)
            except StoreError as error:
                _log.warning("%s", error)

    def need(self, path: str) -> Path:
        """Brings a run's folder, or one of its snapshots, whole; its path.

        Raises:
            StoreError: the address cannot be reached.
        """
        with self._reached():
            if not self._is_written(f"{path}/"):
                self._bring([x for x in self._there if x.startswith(f"{path}/") and self._is_new(x)])
                self._record()
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
        with self._reached():
            self._remember()
            sent = [path for owner in (self._owners() if owners is None else owners) for path in self._send(owner)]
            if sent:
                self._there = self._listed()
                self._marks |= {path: self._there[path].mark for path in sent if path in self._there}
            self._record()

    def remove(self, name: str) -> None:
        """Takes a folder off the address.

        Raises:
            StoreError: the address cannot be reached.
        """
        with self._reached():
            for path in sorted((path for path in self._there if path.startswith(f"{name}/")), key=_order, reverse=True):
                self._delete(path)
                self._forget(path)
            self._record()

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
        with self._reached():
            if not self._made(path, data):
                name, _, copy = self._read([path]).get(path, b"").decode(errors="replace").partition("\n")
                if copy != _copy(self._folder):
                    raise locks.LockHeld(name.partition("@")[2] or "another machine")
                self._fs.pipe_file(self._key(path), data)  # of a process here that has died
            if self._made(path, data):
                self._delete(path)
                raise UsageError(f"store {self.address}: it cannot keep two writers apart; pass a folder, or S3")
        self._held[path], is_over = data, threading.Event()
        owner = path.rpartition("/")[0]
        is_owner = lock.name == locks.LOCK and owner[:1] != "."
        threading.Thread(target=self._beat, args=(path, data, is_over), daemon=True).start()
        try:
            self.fetch()
            if is_owner:
                with self._reached():
                    self._bring([x for x in self._there if x.startswith(f"{owner}/") and self._is_new(x)])
                    self._unsent = sorted({*self._unsent, owner})
                    self._record()
            try:
                yield
            except BaseException:
                with suppress(StoreError):  # the error that ended it is the one to tell
                    self.push([owner] if is_owner else [])
                raise
            self.push([owner] if is_owner else [])
        finally:
            is_over.set()
            if self._held.pop(path) and self._is_own(path, data):
                with self._reached():
                    self._delete(path)

    def look(self) -> None:
        """Looks for signs of life of other machines."""
        with self._reached():
            self._there = self._listed()
            self._show_locks()

    def end(self, file: Path) -> None:
        """Ends the lock of another machine, whose file here is given."""
        with self._reached():
            for path in [path for path, shown in self._locks.items() if shown == self._path(file)]:
                self._delete(path)
                del self._locks[path]
            self._record()

    def _made(self, path: str, data: bytes) -> bool:
        """Whether this call made an object that was not there."""
        try:
            self._fs.pipe_file(self._key(path), data, mode="create")
        except FileExistsError:
            return False
        return True

    def _beat(self, path: str, data: bytes, is_over: threading.Event) -> None:
        """Gives signs of life."""
        while not is_over.wait(locks.BEAT_SECONDS):
            with suppress(Exception):  # the next one may come through
                if self._is_own(path, data):
                    self._fs.pipe_file(self._key(path), data)

    def _is_own(self, path: str, data: bytes) -> bool:
        with suppress(FileNotFoundError, StoreError), self._reached():
            return bool(self._fs.cat_file(self._key(path)) == data)
        return False

    def _show_locks(self) -> None:
        """Has a file in the working copy for each lock of another machine, with the time of its last sign of life."""
        found = {path: self._there[path] for path in self._there if _is_lock(path) and path not in self._held}
        for path, data in self._read(found).items():
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
        folder, lock = self._folder / owner, f"{owner}/{locks.LOCK}"
        there = self._files(owner)
        if lock not in self._held and locks.is_held(folder / locks.LOCK) is not False:  # it is only asked to stop
            there = {path: look for path, look in there.items() if path == f"{owner}/{STOP}"} | self._looks_of(owner)
        listed = (read(Listing, folder / LISTING) or Listing(segments={})).names
        merged = {path for path in there if path.startswith(f"{owner}/{ROWS}/") and Path(path).name not in listed}
        changed = [path for path in there if path not in merged and there[path] != self._looks.get(path)]
        gone = [path for path in self._looks_of(owner) if path not in there]
        if changed and owner not in self._unsent:
            self._unsent.append(owner)
            self._record()
        if (changed or gone) and lock in self._held and not self._is_own(lock, self._held[lock]):
            raise locks.LockLost(f"{folder}: its lock was taken over at {self.address}; nothing more is sent there")
        for path in sorted(changed, key=_order):
            self._fs.pipe_file(self._key(path), (self._folder / path).read_bytes())
            self._looks[path] = there[path]
        for path in gone:
            self._delete(path)
            self._looks.pop(path), self._marks.pop(path, None)
        if owner in self._unsent:
            self._unsent.remove(owner)
            if lock not in self._held and _copy(self._folder) in self._read([lock]).get(lock, b"").decode():
                self._delete(lock)  # of a process here that has died
        return changed

    def _looks_of(self, owner: str) -> dict[str, list[int]]:
        return {path: look for path, look in self._looks.items() if path.startswith(f"{owner}/")}

    def _files(self, owner: str) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for file in sorted((self._folder / owner).rglob("*")):
            path = self._path(file)
            with suppress(FileNotFoundError):
                if _PATH.fullmatch(path) and not locks.is_lock(file) and file.is_file():
                    found[path] = _look(file)
        return found

    def _owners(self) -> list[str]:
        return [file.parent.name for file in sorted(self._folder.glob(f"*/{IDENTITY}")) if file.parent.name[0] != "."]

    def _bring(self, paths: list[str]) -> None:
        for path in sorted(paths, key=_order):
            if (data := self._read([path]).get(path)) is not None:
                self._put(path, data, self._there.get(path))

    def _put(self, path: str, data: bytes, found: Object | None) -> None:
        if found is None:  # it has gone meanwhile
            return
        file = self._folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, data)
        self._marks[path], self._looks[path] = found.mark, _look(file)

    def _forget(self, path: str) -> None:
        """Removes a file that the address has no more; with a run's identity all of its folder."""
        self._marks.pop(path), self._looks.pop(path, None)
        (self._folder / path).unlink(missing_ok=True)
        if Path(path).name == IDENTITY:
            shutil.rmtree((self._folder / path).parent, ignore_errors=True)

    def _read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """The content of objects, but for those that have gone."""
        found = {}
        for path in paths:
            with suppress(FileNotFoundError):
                found[path] = self._fs.cat_file(self._key(path))
        return found

    def _delete(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._fs.rm_file(self._key(path))

    def _listed(self) -> dict[str, Object]:
        """Everything at the address."""
        self._fs.invalidate_cache()
        try:
            found = self._fs.find(self._root, detail=True)
        except FileNotFoundError:
            raise StoreError(f"store {self.address}: no such bucket; make it, or pass another --store") from None
        begin = len(self._root.rstrip("/")) + 1
        told = {key[begin:]: info for key, info in found.items()}
        named = {path: _object(info) for path, info in told.items() if _PATH.fullmatch(path) or _is_lock(path)}
        owners = {path.partition("/")[0] for path in named if path.endswith(f"/{IDENTITY}")}
        return {path: x for path, x in named.items() if _is_lock(path) or path.partition("/")[0] in owners}

    def _is_new(self, path: str) -> bool:
        return not _is_lock(path) and self._there[path].mark != self._marks.get(path)

    def _is_wanted(self, path: str) -> bool:
        """Whether `fetch` brings a file."""
        rest = path.partition("/")[2]
        is_later = rest.partition("/")[0] in _LATER
        return self._is_new(path) and not is_later and (rest == STOP or not self._is_written(path))

    def _is_written(self, path: str) -> bool:
        """Whether a process of this machine writes the folder that a file is in."""
        return locks.is_held_here(self._folder / path.partition("/")[0] / locks.LOCK)

    def _key(self, path: str) -> str:
        return f"{self._root.rstrip('/')}/{path}"

    def _path(self, file: Path) -> str:
        return Path(os.path.abspath(file)).relative_to(self._folder).as_posix()

    def _remember(self) -> str:
        """Reads the record, which other processes of this machine write, too; the address."""
        try:
            told = json.loads((self._folder / REMOTE).read_bytes())
            self._marks, self._looks = dict(told.get("marks", {})), dict(told.get("looks", {}))
            self._locks, self._unsent = dict(told.get("locks", {})), list(told.get("unsent", []))
            return str(told["address"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise StoreError(f"{self._folder / REMOTE}: damaged; remove {self._folder}, and pass the address") from None

    def _record(self) -> None:
        told = {"address": self.address, "marks": self._marks, "looks": self._looks}
        told |= {"locks": self._locks, "unsent": self._unsent}
        write_atomic(self._folder / REMOTE, json.dumps(told).encode())

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Within it an error of the address's library is a `StoreError`."""
        try:
            yield
        except (LeagueError, BlockingIOError):
            raise
        except Exception as error:  # fsspec's file systems raise what their libraries do
            why = str(error).strip().split("\n", 1)[0][:200] or type(error).__name__
            raise StoreError(
                f"store {self.address}: cannot be reached ({why}); see to the network and the credentials;"
                f" {self._folder} keeps what was not sent, and sends it the next time"
            ) from None


def _object(info: dict[str, Any]) -> Object:
    at = next((info[key] for key in ("LastModified", "mtime", "created", "last_modified") if info.get(key)), 0.0)
    seconds = at.timestamp() if hasattr(at, "timestamp") else float(at)
    return Object(str(info.get("ETag") or info.get("etag") or (seconds, info["size"])), int(info["size"]), seconds)


def _look(file: Path) -> list[int]:
    stat = file.stat()
    return [stat.st_mtime_ns, stat.st_size]


def _order(path: str) -> tuple[int, str]:
    name = path.partition("/")[2]
    return 2 + _LAST.index(name) if name in _LAST else int(name.endswith(".json")), path


def _is_lock(path: str) -> bool:
    """Whether an object is a lock: of a folder, or of the store."""
    return path.endswith(f"/{locks.LOCK}") or ("/" not in path and path.endswith(f".{locks.LOCK}"))


def _copy(folder: Path) -> str:
    """This working copy among all machines'."""
    return hashlib.sha256(f"{locks.machine()}\n{folder}".encode()).hexdigest()
