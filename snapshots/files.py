"""The names of the files of snapshots and states. It loads no torch."""

from __future__ import annotations

from pathlib import Path

WEIGHTS = "weights.safetensors"
MANIFEST = "manifest.json"
"""Of a snapshot."""
OF_SNAPSHOT = r"manifest\.json|weights\.safetensors"
"""Paths in a snapshot's folder."""
MODEL = "agent.onnx"
PROGRAM = "agent.pt2"
"""Of an export for other runtimes, in place of the weights."""
MAX_MANIFEST_BYTES = 2**20
INDEX = "state.json"
PREVIOUS = "previous.json"
"""Of a run's state."""


def has_state(folder: Path) -> bool:
    """Whether a state was saved in `folder`, also where it is damaged; not where its first writing was broken off."""
    return any((folder / name).exists() for name in (INDEX, PREVIOUS))
