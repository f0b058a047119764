"""What of an owner's folder goes to another machine, in which order, and what tells that it has changed."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from league.store import locks
from league.store.owner import IDENTITY, LISTING, STATUS

STOP = "stop"
"""In a run's folder: it is asked to end."""
_LAST = [LISTING, STATUS, IDENTITY]
_PATH = re.compile(r"[\w-][\w.@-]*(?:/[\w-][\w.@-]*)*", re.ASCII)
Look = tuple[int, int, int]


def is_carried(path: str) -> bool:
    """Whether a path in a folder is one of its files that are no locks and no drafts."""
    return _PATH.fullmatch(path) is not None and not locks.is_lock(Path(path))


def order(path: str) -> tuple[int, str]:
    """Where a file comes in what is sent: after those that it names."""
    return 2 + _LAST.index(path) if path in _LAST else int(path.endswith(".json")), path


def look(file: Path) -> Look:
    """What tells a file from what it was."""
    stat = file.stat()
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def files(folder: Path) -> dict[str, Look]:
    """The files that are carried of a folder, by their paths in it."""
    found: dict[str, Look] = {}
    for file in sorted(folder.rglob("*")):
        path = file.relative_to(folder).as_posix()
        with suppress(FileNotFoundError):
            if is_carried(path) and file.is_file():
                found[path] = look(file)
    return found
