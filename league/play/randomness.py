"""The global random number generators of Python, NumPy and torch while a run trains or agents are evaluated.

Nothing in this library draws from them; a game, bot or network written elsewhere may. So a run has their states for
itself: seeded at its start, saved with it, and given back to the process as they were when it ends. In an evaluation
they follow from its seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from league.runtime.process import draws_kept


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


def set_state(state: dict[str, Any], device: torch.device, seed: int = 0) -> list[str]:
    """The inverse of `get_state`. torch's generators whose state cannot be taken here are seeded with `seed`.

    That is so where the state is of another device, number of GPUs or kind of generator.

    Returns:
        What was seeded: `torch`, `cuda`, or nothing.
    """
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    generator = state["numpy"]
    key = np.array(generator["state"]["key"], np.uint32)
    np.random.set_state({**generator, "state": {**generator["state"], "key": key}})
    seeded = []
    if not take_generator(torch.default_generator, state["torch"], seed):
        seeded.append("torch")
    if device.type == "cuda":
        saved = state.get("cuda", ())
        generators = [torch.cuda.default_generators[i] for i in range(torch.cuda.device_count())]
        known = [*saved] if len(saved) == len(generators) else [torch.empty(0, dtype=torch.uint8)] * len(generators)
        taken = [take_generator(g, x, seed) for g, x in zip(generators, known, strict=True)]
        if not all(taken):
            seeded.append("cuda")
    return seeded


def take_generator(generator: torch.Generator, saved: torch.Tensor, seed: int) -> bool:
    """Sets `generator` to the state `saved`, or seeds it where its kind of device has another one.

    Returns:
        Whether it took the state.
    """
    try:
        generator.set_state(saved)
    except (RuntimeError, TypeError):
        generator.manual_seed(seed)
        return False
    return True


def seed_all(seed: int) -> None:
    """Seeds all global generators; a GPU's where torch uses one already."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(seed)


@contextmanager
def of_a_run(
    seed: int, device: torch.device, state: dict[str, Any] | None, seed_now: int = 0
) -> Iterator[Sequence[str]]:
    """Within it the global generators are a run's: seeded, or in the `state` that was saved with it.

    seed_now: of those that cannot take the state; yields which these are, as `set_state` does.
    """
    with draws_kept():
        seed_all(seed)
        yield [] if state is None else set_state(state, device, seed_now)
