"""Files and folders that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

from league.runtime.phases import phase

TEMPORARY = ".tmp-"
"""In the name of every temporary file and folder: `.NAME.tmp-RANDOM`."""


def write_atomic(path: str | Path, data: bytes) -> None:
    """Writes a file that is, at every moment and after a kill, either the old one or `data` whole.

    Raises:
        OSError: the disk refuses; the old file stands.
    """
    path = Path(path)
    temporary = temporary_beside(path)
    try:
        write_synced(temporary, data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


def clean(folder: str | Path) -> list[Path]:
    """Removes what killed writers left in `folder`; only its one writer may call this. Returns what was removed."""
    stale = sorted(Path(folder).glob(f".*{TEMPORARY}*"))
    for path in stale:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    return stale


def temporary_beside(path: Path) -> Path:
    """A name for what is written there until it is whole."""
    return path.with_name(f".{path.name}{TEMPORARY}{secrets.token_hex(4)}")


def is_temporary(path: Path) -> bool:
    """Whether a name is one of `temporary_beside`, as a kill leaves it."""
    return path.name.startswith(".") and TEMPORARY in path.name


@phase("sync a file")
def write_synced(path: Path, data: bytes) -> None:
    """A new file, safe on disk when this returns."""
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Makes a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
