"""The state of a run on disk: a tree of dicts, lists, tensors, arrays, bytes and plain values as safetensors + JSON.

`state.json` names the newest data file and its sha256, `previous.json` those of the state before it. A new data file is
written beside both, synced and read back before any index changes, and only then the one before the previous is
removed: at every moment, and after a kill, there is an earlier whole state to fall back to. `kept.py` has those that
are kept for longer.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from league.errors import SnapshotError
from league.runtime.disk import TEMPORARY, clean, write_atomic
from league.runtime.phases import phase
from league.runtime.trees import decode, encode
from league.snapshots.files import INDEX, PREVIOUS
from league.snapshots.kept import data_of, kept_data, remove_unnamed
from league.types.schema import open_regular, read_file

STATES_KEPT, STATES_AT_ONCE = 2, 3
"""States on disk between two saves, and for a moment within one."""
FORMAT = 1


class DamagedState(SnapshotError):
    """A state is proved to be damaged or gone."""


@phase("save the state")
def save_state(folder: Path, tree: dict[str, Any]) -> None:
    """Writes `tree` into `folder` as the newest state; the one that was newest is kept as the previous one.

    Nothing is copied but tensors that are not on the CPU or share their memory, so none may change meanwhile.

    Args:
        folder: The state's own folder; its parents are made.
        tree: Dicts with string keys and lists (tuples come back as lists) of tensors, numpy arrays, bytes, numbers,
            strings, booleans and None.

    Raises:
        TypeError: the tree holds something else.
        SnapshotError: the disk refuses, or does not give back what was written; the old states stand.
    """
    tensors: dict[str, torch.Tensor] = {}
    index = json.dumps(encode(tree, tensors))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        clean(folder)
        draft = folder / f".state{TEMPORARY}{secrets.token_hex(4)}"
        try:
            digest = _write_proved(draft, tensors)
            name = f"state-{digest[:16]}.safetensors"
            os.replace(draft / "data", folder / name)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        newest = data_of(folder / INDEX)
        if newest not in (None, name):
            write_atomic(folder / PREVIOUS, read_file(folder / INDEX))
        head = {"format": FORMAT, "data": name, "sha256": digest, "tree_sha256": _sha256(index), "tree": index}
        write_atomic(folder / INDEX, json.dumps(head).encode())
        remove_unnamed(folder)
    except (OSError, safetensors.SafetensorError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise SnapshotError(f"{folder}: the run's state cannot be written ({reason})") from error


@phase("load a state")
def load_state(folder: Path, say: Callable[[str], None] | None = None) -> dict[str, Any]:
    """What `save_state` wrote last; where that is damaged, what it wrote before.

    Args:
        folder: The state's own folder.
        say: Is told when the newest state is damaged. It is then set aside, under a name with `.bad-`, and the previous
            one takes its place.

    Raises:
        SnapshotError: neither is whole, or the newest cannot be read although nothing proves it damaged; nothing has
            been changed.
    """
    tree, damage = _newest_whole(folder)
    if damage is None:
        return tree
    try:
        aside = _set_aside(folder)
    except OSError as error:
        raise SnapshotError(f"{folder}: cannot be changed ({error.strerror or error}); make it writable") from error
    if say is not None:
        kept = f"the newest state is kept as {', '.join(aside)}; " if aside else ""
        say(f"{damage}: going on from the state before it; {kept}what was learned since is learned again")
    return tree


def read_state(folder: Path) -> dict[str, Any]:
    """What `load_state` would return; nothing is changed, whatever is damaged.

    Raises:
        SnapshotError: as `load_state`.
    """
    return _newest_whole(folder)[0]


def read_kept(index: Path) -> dict[str, Any]:
    """The state of one index of `league.snapshots.kept.states_of`.

    Raises:
        SnapshotError: it is damaged, or cannot be read.
    """
    return _read(index)


def states_bytes(folder: Path) -> int:
    """Bytes of the states in `folder`, those set aside left out; 0 where there are none."""
    return sum(path.stat().st_size for path in folder.glob("state-*.safetensors"))


def _write_proved(draft: Path, tensors: dict[str, torch.Tensor]) -> str:
    """Writes `draft/data`, syncs it, reads it back from the disk and compares; returns its sha256.

    Raises:
        OSError, SafetensorError: the disk refuses or gives back something else.
    """
    draft.mkdir()  # safetensors makes a temporary file of its own, which goes with the folder after a kill
    path = draft / "data"
    safetensors.torch.save_file(tensors, path)
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):  # else what comes back is what is still in memory
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with safetensors.safe_open(path, framework="pt") as back:
        for name, tensor in tensors.items():
            if not _same_bytes(back.get_tensor(name), tensor):
                raise OSError(errno.EIO, "what was written reads back otherwise: the disk is failing")
    return _digest(path)


def _same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors are the same, NaNs included."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))


def _newest_whole(folder: Path) -> tuple[dict[str, Any], SnapshotError | None]:
    """The newest state that is whole, and what is wrong with the newest where that is another one.

    Raises:
        SnapshotError: neither is whole, or one cannot be read although nothing proves it damaged.
    """
    try:
        return _read(folder / INDEX), None
    except DamagedState as error:
        damage = error
    try:
        return _read(folder / PREVIOUS), damage
    except DamagedState:
        raise damage from None


def _read(path: Path) -> dict[str, Any]:
    """The state of one index.

    Raises:
        DamagedState: a file is missing, damaged or not such a state.
        SnapshotError: it cannot be read now, or by this league; that says nothing of what is in it.
    """
    try:
        head = json.loads(read_file(path))
        if isinstance(head["format"], int) and head["format"] > FORMAT:
            raise SnapshotError(
                f"{path}: a newer league wrote it (format {head['format']}); go on with that one, or begin a new one"
                f" with `league train --fresh`"
            )
        if head["format"] != FORMAT:
            raise ValueError(f"format {head['format']!r}, not {FORMAT}")
        data = path.parent / Path(head["data"]).name
        if _digest(data) != head["sha256"]:
            raise ValueError("the data file's sha256 differs")
        if _sha256(head["tree"]) != head["tree_sha256"]:
            raise ValueError("the tree's sha256 differs")
        with safetensors.safe_open(data, framework="pt") as file:
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118  # no mapping
        tree = decode(json.loads(head["tree"]), tensors)
    except FileNotFoundError as error:
        raise DamagedState(f"{error.filename}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, safetensors.SafetensorError) as error:
        raise DamagedState(f"{path}: damaged ({' '.join(str(error).split())})") from error
    except (OSError, MemoryError, RuntimeError) as error:  # the last one is torch's where it has no memory
        where, why = getattr(error, "filename", None) or path, getattr(error, "strerror", None) or str(error)
        raise SnapshotError(
            f"{where}: cannot be read now ({' '.join(why.split()) or 'too little memory'}); nothing was changed; see to"
            f" its rights, its disk and free memory, then try again"
        ) from error
    if not isinstance(tree, dict):
        raise DamagedState(f"{path}: not a state (the tree is a {type(tree).__name__})")
    return tree


def _set_aside(folder: Path) -> list[str]:
    """Renames the newest state's files and puts the previous state in its place; returns the new names."""
    mark = f".bad-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    others = {data_of(folder / PREVIOUS), *kept_data(folder)} - {data_of(folder / INDEX)}
    files = [folder / INDEX, *sorted(folder.glob("state-*.safetensors"))]
    damaged = [path for path in files if path.exists() and path.name not in others]
    for path in damaged:
        path.rename(path.with_name(path.name + mark))
    write_atomic(folder / INDEX, read_file(folder / PREVIOUS))
    return [path.name + mark for path in damaged]


def _digest(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
