"""Files that are whole or not there: new ones that a command writes for its user, and the store's own."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from league.errors import LeagueError, StoreError, UsageError, remedy_of
from league.runtime.disk import sync, write_atomic

CATALOGUE = "league.duckdb"
"""In the store's folder: its tables for any DuckDB client."""
REMOTE = ".remote.json"
"""In the working copy of a store at an address: that, and what both had in common."""


def store_folder(path: str | os.PathLike[str]) -> Path:
    """The store's folder, given itself, the catalogue in it, or its address (`s3://bucket/league`): its working copy.

    Raises:
        UsageError: as `working_copy`.
    """
    given = Path(path)
    if re.match(r"[a-z][a-z0-9+.-]+:(/|$)", str(given)):
        return working_copy(str(given))
    return given.parent if given.name == CATALOGUE else given


def working_copy(address: str) -> Path:
    """The folder of this user for a store's address, made if it is not there.

    Raises:
        UsageError: as `connected`, or the folder cannot be made.
    """
    scheme, _, rest = address.partition(":")
    address = f"{scheme}://{rest.strip('/')}"
    name = re.sub(r"[^\w.-]+", "-", address, flags=re.ASCII)[:80]
    folder = _copies() / f"{name}-{hashlib.sha256(address.encode()).hexdigest()[:8]}"
    if not (folder / REMOTE).exists():
        connected(address)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_atomic(folder / REMOTE, json.dumps({"address": address}).encode())
        except OSError as error:
            raise UsageError(f"{folder}: cannot be made ({error.strerror}); set XDG_CACHE_HOME to another") from None
    return folder


def is_working_copy(folder: Path) -> bool:
    """Whether a folder is one that `working_copy` made: in another one a stranger's record would name the address."""
    return folder.parent == Path(os.path.abspath(_copies())) and (folder / REMOTE).exists()


def _copies() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "league"


def connected(address: str) -> tuple[Any, str]:
    """The fsspec file system of an address, and the store's place in it.

    Raises:
        UsageError: fsspec or the address's package is not installed, or it is no object store's.
    """
    if address.partition(":")[0] in ("file", "local"):
        raise UsageError(f"store {address}: is on this machine; pass the folder")
    try:
        import fsspec  # an extra
    except ImportError:
        raise UsageError(f"store {address}: needs fsspec; pip install 'league-engine[s3]'") from None
    try:
        fs, root = fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise UsageError(f"store {address}: {error}; pip install 'league-engine[s3]' for s3://") from None
    if not root.strip("/"):
        raise UsageError(f"store {address}: names no bucket; write s3://BUCKET/FOLDER")
    return fs, root


def check_new(path: Path, option: str) -> None:
    """Refuses a file that `new_file` could not make, before anything is worked out.

    option: what names the file, as in `--out`.

    Raises:
        UsageError: something is there, be it a link that leads nowhere, or its folder is not.
        OSError: the system takes no such name, or may not look.
    """
    try:
        path.lstat()
        reason = "is there already"
    except (FileNotFoundError, NotADirectoryError):
        if path.parent.is_dir():
            return
        reason = f"needs the folder {path.parent}"
    raise UsageError(f"{path}: {reason}; nothing is overwritten or made around it, pass another {option}")


@contextmanager
def new_file(path: Path, option: str) -> Iterator[Path]:
    """Gives a file of another name in the folder of `path` to write, and makes it `path` when it is whole and synced.

    Where anything fails nothing is left, and what came to be at `path` meanwhile stays.

    Raises:
        UsageError: something is at `path`.
        LeagueError: the disk or the folder refuses.
    """
    draft = path.with_name(f".{path.stem[:40]}.tmp-{secrets.token_hex(8)}{path.suffix}")
    try:
        yield draft
        sync(draft)
        _put(draft, path)
        sync(path.parent)
    except FileExistsError:
        raise UsageError(f"{path}: is there already; nothing is overwritten, pass another {option}") from None
    except OSError as error:
        raise LeagueError(
            f"{path}: cannot be written ({error.strerror or error}); make room or rights there, or pass"
            f" another {option}"
        ) from None
    finally:
        with suppress(OSError):
            draft.unlink()


@contextmanager
def told(path: Path, what: str, remedy: str = "") -> Iterator[None]:
    """Within it an error of the system is a `StoreError` that says what of `path`: `cannot be written`."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path}: {what} ({error.strerror or error}); {remedy or remedy_of(error)}") from None


def _put(draft: Path, path: Path) -> None:
    """Gives the file at `draft` the name `path`, which nothing may have."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        try:
            draft.replace(path)
        except BaseException:
            path.unlink()
            raise


def refuse_others(folder: Path, own: str) -> None:
    """Refuses to delete a folder that has something else in it than what league writes there.

    own: a pattern of the paths in it that league writes. Names that begin with a dot are nobody's.

    Raises:
        StoreError: with what is somebody's.
    """
    for path in sorted(folder.rglob("*")):
        if path.name[0] != "." and not re.fullmatch(own, path.relative_to(folder).as_posix()):
            raise StoreError(
                f"{path}: league did not write it, and would delete it with {folder}; move it elsewhere, then try again"
            )
