"""What a process and its workers share: the arrays of a match batch, words, and files without a name."""

from __future__ import annotations

import mmap
import os
import socket
import struct
import sys
import tempfile
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from league.types import MatchBatch

COMMAND = struct.Struct("<cIQ")
"""What to do, the batch's number, the command's number."""
REPLY = struct.Struct("<cQ")
"""Whether it was done, the command's number."""
OPEN, RESET, STEP, GET, GET_ROW, SET, UNDO, CLOSE = b"o", b"r", b"s", b"g", b"w", b"p", b"u", b"c"
DONE, FAILED = b"d", b"f"
SOCKET = socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_STREAM

ARRAYS = ("obs", "actions", "mask", "reward_terms", "terminated", "truncated", "final_obs", "result", "controllers")
SOME = ("to_act", "held", "cut_seats")
"""Those of `Turns` and `SeatCuts`."""
WRITTEN = ("actions", "controllers", "held")
"""Those that the engine writes."""
SEEDS = "seeds"
"""(B,) uint64: what a reset starts the rows from."""
LINE = 64
"""Bytes of a cache line: no two arrays share one."""


class Piece(NamedTuple):
    """Where an array of all rows lies."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int


def arrays_of(batch: MatchBatch) -> dict[str, npt.NDArray[Any]]:
    """The arrays that a batch has, by name."""
    found = {name: getattr(batch, name, None) for name in (*ARRAYS, *SOME)}
    return {name: array for name, array in found.items() if array is not None}


def lay_out(batch: MatchBatch, rows: int) -> tuple[dict[str, Piece], int]:
    """Where the arrays of `rows` rows of a game lie, and how many bytes they take; `batch` is any of the game's."""
    shapes = {name: (array.dtype, (rows, *array.shape[1:])) for name, array in arrays_of(batch).items()}
    shapes[SEEDS] = (np.dtype(np.uint64), (rows,))
    pieces, start = {}, 0
    for name, (dtype, shape) in shapes.items():
        pieces[name] = Piece(dtype, shape, start)
        start += -(-int(np.prod(shape)) * dtype.itemsize // LINE) * LINE
    return pieces, max(start, LINE)


def mapped(descriptor: int, pieces: dict[str, Piece], size: int) -> dict[str, npt.NDArray[Any]]:
    """The arrays in a file of `size` bytes; writing to them reaches every process that has mapped it."""
    memory = mmap.mmap(descriptor, size)
    return {name: np.ndarray(shape, dtype, memory, start) for name, (dtype, shape, start) in pieces.items()}


def nameless_file(size: int = 0) -> int:
    """The descriptor of a file of zeros that lies in no folder: it is gone with the last process that has it open."""
    try:
        descriptor = os.memfd_create("league")
    except (AttributeError, OSError):  # another system, or a kernel that does not allow it
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


def put(data: bytes) -> int:
    """The descriptor of such a file with `data` in it."""
    descriptor, view = nameless_file(), memoryview(data)
    written = 0
    while written < len(view):
        written += os.pwrite(descriptor, view[written:], written)
    return descriptor


def take(descriptor: int) -> bytes:
    """What `put` wrote; the descriptor is closed."""
    with open(descriptor, "rb") as file:
        file.seek(0)
        return file.read()
