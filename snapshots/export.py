"""Hands an agent out: a copy of its snapshot that needs nothing but `league.snapshots.Agent` to play."""

from __future__ import annotations

from pathlib import Path

from league.errors import SnapshotError
from league.snapshots.io import load, save
from league.snapshots.manifest import Manifest


def export(snapshot: Path, out: Path) -> Manifest:
    """Copies the verified snapshot in `snapshot` to the new folder `out`; returns its manifest.

    Raises:
        SnapshotError: the snapshot is missing or damaged, or `out` holds something else already.
    """
    manifest, tensors = load(snapshot)
    if out.exists() and not out.is_dir():
        raise SnapshotError(f"{out}: is a file; name a new folder")
    return save(out, tensors, manifest)
