"""A saved state, to be compared."""

from typing import Any

import numpy as np
import torch


def flat(value: Any, at: str = "") -> dict[str, Any]:
    """A tree as path -> plain value, arrays as bytes."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {path: leaf for key, item in items for path, leaf in flat(item, f"{at}/{key}").items()}
    if isinstance(value, torch.Tensor):
        value = value.numpy()
    return {at: (str(value.dtype), value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value}
