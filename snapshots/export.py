"""Exports an agent: a copy of its snapshot that needs nothing but `league.snapshots.Agent` to play."""

from __future__ import annotations

import os
from pathlib import Path

from league.errors import SnapshotError
from league.snapshots.agent import load_fit
from league.snapshots.files import MANIFEST
from league.snapshots.io import save
from league.snapshots.manifest import About, Manifest


def export(snapshot: Path, out: Path) -> Manifest:
    """Copies the verified snapshot in `snapshot` to the new folder `out`; returns its manifest.

    Raises:
        SnapshotError: the snapshot is missing or damaged, or `out` holds something else already.
    """
    manifest, tensors = load_fit(snapshot)
    if os.path.lexists(out) and not (out / MANIFEST).is_file():
        kind = "a folder that holds something else" if out.is_dir() else "there already and no folder"
        raise SnapshotError(f"{out} is {kind}; an export needs a new folder: name another")
    about = About(**{name: getattr(manifest, name) for name in About.model_fields})
    return save(out, tensors, about)
