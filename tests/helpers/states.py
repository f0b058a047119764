"""A saved state, to be compared."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from league.snapshots.state import load_state


def flat(value: Any, at: str = "") -> dict[str, Any]:
    """A tree as path -> plain value, arrays as bytes."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {path: leaf for key, item in items for path, leaf in flat(item, f"{at}/{key}").items()}
    if isinstance(value, torch.Tensor):
        value = value.numpy()
    return {at: (str(value.dtype), value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value}


def learned_state(folder: Path) -> dict[str, Any]:
    """All that the run of a folder goes on from, but who it is and where its rows are."""
    return flat({name: part for name, part in load_state(folder / "state").items() if name not in ("id", "rows")})
