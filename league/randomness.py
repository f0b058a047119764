"""The global random number generators of Python, NumPy and torch while a run trains.

Nothing in this library draws from them; a game or network written elsewhere may. So a run has their states for itself:
seeded at its start, saved with it, and given back to the process as they were when it ends.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def get_state(device: torch.device) -> dict[str, Any]:
    """The states of all global generators, of every GPU's where `device` is one."""
    version, words, gauss = random.getstate()
    generator: dict[str, Any] = np.random.get_state(legacy=False)
    state: dict[str, Any] = {
        "python": [version, list(words), gauss],
        "numpy": {**generator, "state": {**generator["state"], "key": generator["state"]["key"].tolist()}},
        "torch": torch.get_rng_state(),
    }
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_state(state: dict[str, Any], device: torch.device) -> None:
    """The inverse of `get_state`; GPUs keep theirs where the state has another number of them."""
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    generator = state["numpy"]
    key = np.array(generator["state"]["key"], np.uint32)
    np.random.set_state({**generator, "state": {**generator["state"], "key": key}})
    torch.set_rng_state(state["torch"])
    if device.type == "cuda" and len(state.get("cuda", ())) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])


@contextmanager
def untouched(device: torch.device) -> Iterator[None]:
    """What is drawn within it is not missed afterwards."""
    before = get_state(device)
    try:
        yield
    finally:
        set_state(before, device)


@contextmanager
def of_a_run(seed: int, device: torch.device, state: dict[str, Any] | None) -> Iterator[None]:
    """Within it the global generators are a run's: seeded, or in the `state` that was saved with it."""
    with untouched(device):
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.manual_seed(seed)
        if state is not None:
            set_state(state, device)
        yield
