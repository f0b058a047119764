"""Locks: one process at a time writes a folder, on this machine and on others that share it.

Who wants a lock makes an empty file, whose name says on which machine, then looks for others of that lock, and steps
back where the process of one lives: of two that come at once, one at least sees the other. On this machine `flock`
tells whether a file's process lives. On another the file's time of change tells, which its process renews; such a file
goes by `take_over` alone. A process whose file has gone stops at its next write (`check_owned`).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import random
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from league.errors import StoreError, UsageError, command, remedy_of
from league.store.files import told

if TYPE_CHECKING:
    from league.store.remote import Remote

LOCK = "lock"
"""In a folder of the store."""
LOOK_SECONDS = 0.5
"""How long a process that is just ending has."""
BEAT_SECONDS, SILENT_SECONDS = 10.0, 60.0
"""Between two signs of life; and without one, after which another machine's lock can be taken over."""
_FILE = re.compile(r"(?P<lock>.+)-(?P<boot>[0-9a-f]{8})-(?P<machine>[0-9a-f]{8})-[0-9a-f]{8}@(?P<host>.*)")
_owned: dict[Path, tuple[Path, int]] = {}
"""Lock -> its file and the descriptor of that, of the locks that this process holds."""


elsewhere: dict[Path, Remote] = {}
"""Working copy of a store -> its address, which has the store's locks, too; each has a file here all the same."""


class LockLost(StoreError):
    """Another machine took over the folder that this process writes."""


class LockHeld(BlockingIOError):
    """Another process holds a lock."""

    def __init__(self, host: str) -> None:
        super().__init__(f"another process{f' on {host}' if host else ''} holds it")
        self.host = host
        """The owner's machine; empty where it is this one."""


@contextmanager
def alone(run: str, folder: Path) -> Iterator[None]:
    """Keeps other processes from training or pruning the run whose files lie in `folder`.

    Raises:
        UsageError: another process trains or prunes it.
        StoreError: it leads elsewhere.
    """
    for path in (*sorted(folder.glob("*")), *sorted(folder.glob("snapshots/*"))):
        if path.is_symlink() and path.is_dir():  # what is removed there may be another run's
            raise StoreError(f"{path}: is a link, and a run is written in its own folder; put there what it leads to")
    with ExitStack() as stack:
        try:
            stack.enter_context(held(folder / LOCK))
        except LockHeld as error:
            where, end = "", "let that finish, or stop it"
            if error.host:
                again = command("resume", run, "--take-over", store=folder.parent)
                where, end = f" on {error.host}", f"if {error.host} has died, {again} goes on here"
            raise UsageError(f"run={run}: another process{where} trains it, or prunes it; {end}") from None
        yield


@contextmanager
def held(lock: Path, wait: float = LOOK_SECONDS, host: str = "") -> Iterator[None]:
    """Holds a lock.

    Args:
        lock: its path.
        wait: seconds for another process to let go of it.
        host: the machine that it is held for; empty: this one.

    Raises:
        LockHeld: another process holds it.
        StoreError: its folder cannot be written.
    """
    deadline, there = time.monotonic() + wait, _elsewhere(lock)
    while True:
        try:
            made = _made(lock, _named(host) or this_host())
            break
        except LockHeld:
            if time.monotonic() > deadline:
                raise
            if there:
                there.look(lock)
        except OSError as error:
            raise StoreError(f"{lock}: cannot be made ({error.strerror or error}); {remedy_of(error)}") from None
        time.sleep(0.02 * random.random())
    key, is_over = Path(os.path.abspath(lock)), threading.Event()
    threading.Thread(target=_beat, args=(made[1], is_over), daemon=True).start()
    _owned[key] = made
    try:
        with there.lock(lock, made[0]) if there else nullcontext():
            yield
    finally:
        is_over.set()
        _release(*_owned.pop(key))


def take_over(lock: Path, say: Callable[[str], None]) -> None:
    """Ends the lock of another machine that gives no sign of life for a minute; one of this machine is left alone.

    Raises:
        UsageError: the other machine is alive.
    """
    there = _elsewhere(lock)
    with told(lock, "cannot be taken over"):
        for file, host in _files(lock):
            if not host:
                continue
            say(f"{lock}: waiting {SILENT_SECONDS:g} s for a sign of life of {host}")
            beat, deadline = _beat_of(file), time.monotonic() + SILENT_SECONDS
            while time.monotonic() < deadline:
                time.sleep(min(1.0, SILENT_SECONDS / 10))
                if there:
                    there.look(lock)
                if _beat_of(file) not in (beat, None):
                    raise UsageError(f"{lock}: {host} is alive; stop the process there")
            file.unlink(missing_ok=True)
            if there:
                there.end(file)


def check_owned(folder: Path) -> None:
    """Raises `LockLost` where this process has lost the lock of a folder that it wants to write."""
    owned = _owned.get(Path(os.path.abspath(folder / LOCK)))
    if owned is not None and not _is_at(*owned):
        raise LockLost(
            f"{folder}: its lock was taken over or removed, so this process writes nothing more there;"
            f" {command('runs', store=folder.parent)} tells what is there"
        )


def is_held(lock: Path) -> bool | None:
    """Whether a process holds a lock; None where that cannot be known.

    It cannot without the folder, and of another machine that gave no sign of life for a minute.
    """
    with suppress(OSError):
        for file, host in _files(lock):
            if host is not None:
                beat = _beat_of(file) if host else None
                return beat is None or abs(time.time() - beat / 1e9) < SILENT_SECONDS or None
        return False
    return None


def is_held_here(lock: Path) -> bool:
    """Whether a process of this machine holds a lock."""
    with suppress(OSError):
        return any(host == "" for _, host in _files(lock))
    return False


def holder(lock: Path) -> str:
    """The machine of the process that holds a lock; empty where none does, or the folder cannot be read."""
    with suppress(OSError):
        return next((file.name.partition("@")[2] for file, host in _files(lock) if host is not None), "")
    return ""


def is_lock(path: Path) -> bool:
    """Whether a file is that of a lock in a folder of the store."""
    return (found := _FILE.fullmatch(path.name)) is not None and found["lock"] == LOCK


def shown_as(name: str, whose: str) -> str:
    """The name of a lock's file here that stands for one elsewhere, called `name`; empty: that is no lock's file.

    whose: hexadecimal digits that tell its machine from this one, also where both have one system.
    """
    made = _FILE.fullmatch(name)
    is_name = made is not None and "/" not in name and re.fullmatch(r"[0-9a-f]{16,}", whose) is not None
    return f"{made['lock']}-{whose[:8]}-{whose[8:16]}-{whose[:8]}@{made['host']}" if made and is_name else ""


def machine() -> str:
    """This machine among others, also those of its name."""
    return f"{_MACHINE or _BOOT}@{this_host()}"


def _elsewhere(lock: Path) -> Remote | None:
    path = Path(os.path.abspath(lock))
    return next((there for folder, there in elsewhere.items() if path.is_relative_to(folder)), None)


def _files(lock: Path) -> Iterator[tuple[Path, str | None]]:
    """The files of a lock, of processes that hold it, want it or were killed, each with its `_host_of`."""
    for file in map(_FILE.fullmatch, sorted(os.listdir(lock.parent))):
        if file is not None and file["lock"] == lock.name:
            path = lock.parent / file.string
            yield path, _host_of(path)


def _host_of(file: Path) -> str | None:
    """The machine of the process that made a lock's file: empty where it is this one; None where it has died."""
    made = _FILE.fullmatch(file.name)
    assert made is not None
    if made["boot"] != _digest(_BOOT) and (made["machine"], made["host"]) != (_digest(_MACHINE), this_host()):
        return made["host"] or "another machine"
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return ""
    except OSError:  # a file system without it
        return made["host"] or "this machine"
    finally:
        os.close(descriptor)


def _made(lock: Path, host: str) -> tuple[Path, int]:
    """Makes the file of a lock that no living process has, and removes those of the dead."""
    _dead(lock)
    name = f"{lock.name}-{_digest(_BOOT)}-{_digest(_MACHINE)}-{secrets.token_hex(4)}@{host}"
    path = lock.with_name(name)
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
    try:
        with suppress(OSError):  # a file system without it: then the sign of life has to do
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        dead = _dead(lock, but=path)
        if not _is_at(path, descriptor):
            raise LockHeld("")  # by a process that took it for dead before it was locked
    except BaseException:
        _release(path, descriptor)
        raise
    for file in dead:
        with suppress(OSError):
            file.unlink()
    return path, descriptor


def _dead(lock: Path, but: Path | None = None) -> list[Path]:
    """The other files of a lock."""
    others = [(file, host) for file, host in _files(lock) if file != but]
    for _, host in others:
        if host is not None:
            raise LockHeld(host)
    return [file for file, _ in others]


def _release(path: Path, descriptor: int) -> None:
    with suppress(OSError):
        path.unlink()
    os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether a lock's file is where its process made it."""
    with suppress(OSError):
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    return False


def _beat(descriptor: int, is_over: threading.Event) -> None:
    """Gives signs of life."""
    while not is_over.wait(BEAT_SECONDS):
        with suppress(OSError):
            os.utime(descriptor)


def _beat_of(file: Path) -> int | None:
    """When a lock's process gave its last sign of life, in ns, or None if it has ended; opening asks the server."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        return os.fstat(descriptor).st_mtime_ns
    finally:
        os.close(descriptor)


def this_host() -> str:
    """This machine's name in the files of its locks."""
    return _named(platform.node())


def _named(host: str) -> str:
    return re.sub(r"[^\w.-]", "_", host, flags=re.ASCII)[:64]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _first_line(path: str) -> str:
    with suppress(OSError, ValueError):
        return Path(path).read_text().strip()
    return ""


_BOOT = _first_line("/proc/sys/kernel/random/boot_id") or platform.node()
_MACHINE = _first_line("/etc/machine-id")
"""Two processes are on one machine if its boot is the same, or its name and its id are. macOS has neither file."""
