"""Locks that the system lets go of when their process ends, however it ends: one process at a time changes the files of
a run, and whoever holds a lock is alive."""

from __future__ import annotations

import fcntl
import os
import platform
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from league.errors import StoreError, UsageError

LOCK = "lock"
"""In a run's folder."""
LOOK_SECONDS = 0.5
"""`is_held` has a lock for a moment itself, so a lock is refused only when it stays held for so long."""


@contextmanager
def alone(run: str, folder: Path) -> Iterator[None]:
    """Keeps other processes from training or pruning a run.

    Args:
        run: its name.
        folder: where its files lie.

    Raises:
        UsageError: another process trains or prunes it.
        StoreError: the folder cannot be written.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(held(folder / LOCK))
        except BlockingIOError:
            raise UsageError(
                f"run={run}: another process trains it, or prunes it; let that finish, or stop it"
            ) from None
        yield


@contextmanager
def held(path: Path, wait: float = LOOK_SECONDS) -> Iterator[None]:
    """Holds the lock at `path`, in which the machine's name is written.

    wait: seconds for another process to let go of it.

    Raises:
        BlockingIOError: another process holds it.
        StoreError: the file cannot be written.
    """
    descriptor = _locked(path, wait)
    try:
        with suppress(OSError):  # a full disk: who holds it is not known elsewhere then
            os.ftruncate(descriptor, 0)
            os.write(descriptor, platform.node().encode())
        yield
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool | None:
    """Whether a process holds the lock at `path`; None where that cannot be known.

    That is without the file, and where the last holder was on another machine, whose locks this one may not see.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe of that name keeps nobody waiting
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False if os.read(descriptor, 256).decode(errors="replace") == platform.node() else None
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _locked(path: Path, wait: float) -> int:
    """The file that lies at `path`, locked; one that its last holder removed is no lock."""
    while True:
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
        except OSError as error:
            advice = "remove it" if path.is_dir() or path.is_symlink() else "make its folder writable"
            raise StoreError(f"{path}: {error.strerror}; {advice}") from None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise StoreError(f"{path}: it is no regular file; remove it")
            _lock(descriptor, wait)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, wait: float) -> None:
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.01)
