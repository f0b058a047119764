"""A run's lock: one process at a time changes the files of a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from league.errors import StoreError, UsageError

if sys.platform != "win32":
    import fcntl


@contextmanager
def alone(run: str, folder: Path) -> Iterator[None]:
    """Keeps other processes from training or pruning a run; the system lets go when this process ends, however it ends.

    On Windows nothing is locked.

    Args:
        run: its name.
        folder: where its files lie.

    Raises:
        UsageError: another process trains or prunes it.
        StoreError: the folder cannot be written.
    """
    if sys.platform == "win32":
        yield
        return
    path = folder / "lock"
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; make the run's folder writable") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise UsageError(f"run={run}: another process trains it, or prunes it; let that finish, or stop it") from None
    try:
        yield
    finally:
        os.close(descriptor)
