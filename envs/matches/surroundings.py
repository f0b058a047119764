"""What a match in plain Python finds around it: global generators that follow from its seed, and its own files.

`random`, the functions of `numpy.random` and of torch belong to the process, and a relative path to the folder in
which it was started. A game that uses either would play differently when its matches are played again, in another
process or from another folder.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from league.runtime.process import draws

Value = TypeVar("Value")


@dataclass(frozen=True)
class RandomPlay:
    """What random play of a game showed."""

    draws: bool = False
    """Whether it draws from `random`, `numpy.random` or torch."""
    folder: Path | None = None
    """Where its relative paths lead; None: they lead nowhere else than the process's, or it has none."""


class Around:
    """A context for calls of a game: the process's generators and folder are as they were when it is left.

    found: what the game uses; of what it does not use nothing is kept.
    """

    def __init__(self, found: RandomPlay) -> None:
        self._found = found
        self._outer: list[Any] = []

    def __enter__(self) -> None:
        if self._found.draws:
            self._outer.append(draws())
        if self._found.folder is not None:
            self._outer.append(os.getcwd())
            os.chdir(self._found.folder)

    def __exit__(self, *raised: object) -> None:
        if self._found.folder is not None:
            os.chdir(self._outer.pop())
        if self._found.draws:
            for put_back, state in self._outer.pop():
                put_back(state)


def seed_globals(seed: int) -> None:
    """Seeds Python's and torch's global generators with 64 bits, NumPy's with the upper half, which is faster."""
    random.seed(seed)
    np.random.seed(seed >> 32)
    torch: Any = sys.modules.get("torch")
    if hasattr(torch, "default_generator"):  # it may be half imported
        torch.default_generator.manual_seed(seed)


def next_draws() -> tuple[float, ...]:
    """What each global generator gives next."""
    torch: Any = sys.modules.get("torch")
    return random.random(), np.random.random(), float(torch.rand(())) if hasattr(torch, "default_generator") else 0.0


def alike(call: Callable[[], Value], folder: Path | None) -> Value:
    """What `call` gives: code of a game that is to do the same in every process, such as its import.

    The global generators are seeded alike. Where a file is not found, `call` is made again in the game's own folder.
    """
    places = [None, folder] if folder is not None and folder != Path.cwd() else [None]
    for place in places:
        with Around(RandomPlay(True, place)):
            seed_globals(0)
            try:
                return call()
            except FileNotFoundError:
                if place is places[-1]:
                    raise
    raise AssertionError("the last place returns or raises")


def folder_of(kind: type) -> Path | None:
    """The folder of the file that a class is from; None where it is from none, as in a notebook."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return None if file is None else Path(file).resolve().parent
