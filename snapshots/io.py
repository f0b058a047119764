"""Snapshots on disk: a folder with `weights.safetensors` and `manifest.json`, whole or not there.

Both files are written and synced in a temporary folder beside the target, which is then renamed. A kill at any moment
leaves the old state, at worst with a temporary folder that `clean` removes. Nothing here can run code from a file.
In memory a snapshot is the bytes of these files (`Frozen`), so that what is loaded from it passes the same checks.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError

from league.errors import SnapshotError, remedy_of
from league.runtime.disk import sync, temporary_beside, write_synced
from league.snapshots.files import MANIFEST, MAX_MANIFEST_BYTES, MODEL, PROGRAM, WEIGHTS
from league.snapshots.manifest import About, Manifest, parse
from league.types.schema import read_file

MAX_WEIGHTS_BYTES = 4 * 2**30
MAX_HEADER_BYTES = 4 * 2**20
"""Of the weights file's list of tensors; some 100 bytes tell of one."""
DTYPES = frozenset(
    {torch.float64, torch.float32, torch.float16, torch.bfloat16}
    | {torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool}
)
"""What a tensor of a snapshot may hold."""


@dataclass(frozen=True)
class Frozen:
    """A snapshot in memory: what its two files hold, or will hold once they are written."""

    manifest: Manifest
    data: bytes
    """The weights file."""

    def __str__(self) -> str:
        return f"snapshot {self.manifest.agent_id[:16]}... in memory"


def content_hash(tensors: Mapping[str, torch.Tensor]) -> str:
    """The agent id that these weights have: sha256, in hex, of the weights file; the order of names is no matter.

    Raises:
        SnapshotError: a value is not finite.
    """
    return _sha256(_weights_bytes(tensors))


def freeze(tensors: Mapping[str, torch.Tensor], about: About) -> Frozen:
    """A snapshot of these weights, in memory.

    Args:
        tensors: name -> weights, of any device and layout; copies are kept.
        about: The rest of the manifest.

    Raises:
        SnapshotError: a value is not finite.
    """
    data = _weights_bytes(tensors)
    return Frozen(Manifest(agent_id=_sha256(data), **dict(about)), data)


def save(folder: str | Path, tensors: Mapping[str, torch.Tensor], about: About) -> Manifest:
    """`freeze` and `write`, one after the other.

    Raises:
        SnapshotError: as these two.
    """
    return write(folder, freeze(tensors, about))


def write(folder: str | Path, frozen: Frozen) -> Manifest:
    """Writes a snapshot; one with the same weights that is already there is left as it is and its manifest returned.

    Args:
        folder: The snapshot's own folder; its parents are made.
        frozen: What is written.

    Raises:
        SnapshotError: another or a damaged agent is there, or the disk refuses.
    """
    folder, manifest = Path(folder), frozen.manifest
    if folder.exists():
        return _same_agent(folder, manifest)
    temporary = temporary_beside(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        write_synced(temporary / WEIGHTS, frozen.data)
        write_synced(temporary / MANIFEST, (manifest.model_dump_json(indent=2) + "\n").encode())
        sync(temporary)
        os.rename(temporary, folder)
        sync(folder.parent)
    except OSError as error:
        raise SnapshotError(f"cannot write {folder}: {error.strerror or error}; {remedy_of(error)}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return manifest


def load(source: str | Path | Frozen) -> tuple[Manifest, dict[str, torch.Tensor]]:
    """The manifest and the weights of a folder or of what is in memory, on the CPU, after every check.

    Raises:
        SnapshotError: a file is missing, too large, damaged or foreign, or a value is not finite.
    """
    if isinstance(source, Frozen):
        manifest, data, path = source.manifest, source.data, str(source)
    else:
        manifest, data, path = _read_both(Path(source))
    found = _sha256(data)
    if found != manifest.agent_id:
        raise SnapshotError(
            f"{path} is damaged: its sha256 is {found[:16]}..., the manifest says {manifest.agent_id[:16]}...; "
            f"take the snapshot from its source again"
        )
    header = int.from_bytes(data[:8], "little")
    if header > MAX_HEADER_BYTES:
        raise SnapshotError(
            f"{path} is no safetensors file of league (its list of tensors has {header:,} bytes, more than"
            f" {MAX_HEADER_BYTES:,}); take the snapshot again"
        )
    try:
        tensors = safetensors.torch.load(data)
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise SnapshotError(f"{path} is no safetensors file ({reason}); take the snapshot again") from None
    _need_finite(tensors, path)
    return manifest, tensors


def read(folder: Path) -> Frozen:
    """What the two files of a snapshot hold; of the weights nothing is looked at.

    Raises:
        SnapshotError: a file is missing, too large or foreign.
    """
    manifest, data, _ = _read_both(folder)
    return Frozen(manifest, data)


def need_agent(folder: str | Path | Frozen, manifest: Manifest, agent_id: str) -> None:
    """Refuses the folder of agent `agent_id` whose manifest is another agent's.

    Raises:
        SnapshotError: it is.
    """
    if manifest.agent_id != agent_id:
        raise SnapshotError(
            f"{folder} holds another agent ({manifest.agent_id[:16]}..., not {agent_id[:16]}...); restore its own files"
        )


def _read_both(folder: Path) -> tuple[Manifest, bytes, str]:
    """The manifest, the weights file and its path."""
    if not folder.is_dir():
        raise SnapshotError(f"no snapshot at {folder}; give a folder with {WEIGHTS} and {MANIFEST}")
    manifest = parse(_read(folder / MANIFEST, MAX_MANIFEST_BYTES), str(folder / MANIFEST))
    path = folder / WEIGHTS
    for name in (MODEL, PROGRAM):
        if (folder / name).exists() and not path.exists():
            raise SnapshotError(
                f"{folder} has {name} for other runtimes and no {WEIGHTS}, so league cannot play it; name"
                f" {manifest.run}@{manifest.step}, or export that with --format folder"
            )
    return manifest, _read(path, MAX_WEIGHTS_BYTES), str(path)


def _weights_bytes(tensors: Mapping[str, torch.Tensor]) -> bytes:
    """The weights file: copies, so that tensors that share memory are each written whole."""
    copies = _copies(tensors)
    _need_finite(copies, "the weights to save")
    return safetensors.torch.save(copies)


def _copies(tensors: Mapping[str, torch.Tensor], host: str = "cpu") -> dict[str, torch.Tensor]:
    """Copies on the CPU, by name in order, each with memory of its own.

    What lies elsewhere comes over in one piece for each type, since every copy to the host waits for the device.

    host: the kind of device whose tensors are copied one by one.
    """
    found, apart = dict[str, torch.Tensor](), dict[tuple[torch.device, torch.dtype], list[str]]()
    for name, tensor in tensors.items():
        if tensor.device.type == host:
            found[name] = tensor.detach().contiguous().clone()
        else:
            apart.setdefault((tensor.device, tensor.dtype), []).append(name)
    for names in apart.values():
        flat = torch.cat([tensors[name].detach().reshape(-1) for name in names]).cpu()
        for name, part in zip(names, torch.split(flat, [tensors[name].numel() for name in names]), strict=True):
            found[name] = part.view(tensors[name].shape).clone()
    return {name: found[name] for name in sorted(found)}


def _need_finite(tensors: Mapping[str, torch.Tensor], where: str) -> None:
    for name, tensor in tensors.items():
        if tensor.dtype not in DTYPES:
            raise SnapshotError(
                f"{where}: {name} is {tensor.dtype}; a weight is a float of 16 bits or more or an integer"
            )
        if not tensor.is_floating_point() or torch.isfinite(tensor.sum()):  # a sum is finite of finite values alone
            continue
        count = int((~torch.isfinite(tensor)).sum())  # none where only the sum is too large
        if count:
            raise SnapshotError(
                f"{where}: {name} has {count} of {tensor.numel()} values that are not finite; take an earlier snapshot"
            )


def _same_agent(folder: Path, manifest: Manifest) -> Manifest:
    there, _ = load(folder)
    if there.agent_id != manifest.agent_id:
        raise SnapshotError(
            f"{folder} holds another agent ({there.agent_id[:16]}..., not {manifest.agent_id[:16]}...); "
            f"a snapshot is never overwritten: save under another name, or move that folder away"
        )
    return there


def _read(path: Path, limit: int) -> bytes:
    """The bytes of a regular file; another kind, such as a pipe, could keep the reader for ever."""
    try:
        return read_file(path, limit)
    except ValueError as error:
        raise SnapshotError(f"{path} cannot be read: {error}; it is no snapshot of league") from None
    except FileNotFoundError:
        raise SnapshotError(f"{path} is missing; pass the whole folder of a snapshot, or name RUN@STEP") from None
    except OSError as error:
        is_shut = isinstance(error, PermissionError)
        advice = "mend its permissions" if is_shut else "take the snapshot from its source again"
        raise SnapshotError(f"{path} cannot be read: {error.strerror or error}; {advice}") from None


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
