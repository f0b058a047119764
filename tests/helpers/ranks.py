"""Several ranks on this machine, each a process that is forked with everything imported (`tests.helpers.processes`)."""

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from league.runtime.launch import FOLDER
from tests.helpers.processes import Process

PATIENCE = 120.0
"""Seconds that ranks may take."""


def started(folder: Path, size: int, target: Callable[..., None], *arguments: Any) -> list[Process]:
    """Ranks 0 to `size` - 1, each of which calls `target` with its rank and the arguments; they meet in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        Process(_as_rank, (folder, size, rank, target, *arguments), cwd=folder, stderr=subprocess.PIPE)
        for rank in range(size)
    ]


def ended(ranks: Sequence[Process]) -> list[tuple[int, str]]:
    """Exit code and stderr of each."""
    return [(rank.wait(PATIENCE), rank.communicate()[1]) for rank in ranks]


def together(folder: Path, size: int, target: Callable[..., None], *arguments: Any) -> None:
    """Lets them do their work.

    Raises:
        AssertionError: one of them failed.
    """
    found = ended(started(folder, size, target, *arguments))
    assert all(code == 0 for code, _ in found), "\n".join(told[-1500:] for code, told in found if code)


def _as_rank(folder: Path, size: int, rank: int, target: Callable[..., None], *arguments: Any) -> None:
    os.environ.update({"WORLD_SIZE": str(size), "RANK": str(rank), FOLDER: str(folder), "OMP_NUM_THREADS": "1"})
    torch.set_num_threads(1)
    target(rank, *arguments)
