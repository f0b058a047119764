"""The base of all that is read from files (hyperparameters, manifests, evidence), and how large a number may be there.

No run comes near these bounds. Without them a number that is mistyped, or a stranger's, would hang a command or take
the machine's memory before anything has looked at it; what numbers take together is estimated then
(`league.sessions.sizing`).
"""

from __future__ import annotations

import errno
import os
import re
import stat
from decimal import Decimal
from io import BufferedReader
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from league.errors import UsageError

MAX_COUNT = 10**12
"""Of steps and other counts without a bound of their own: four months at 100,000 steps a second."""
MAX_SEED = 2**63 - 1
"""What all random number generators and the store take."""
MAX_ROWS = 2**20
"""Matches side by side; simulators on GPUs step some 65,536."""
MAX_THREADS = 512
"""Hardware threads of the largest servers; many more and the threads cannot be made."""
MAX_WORKERS = 128
"""Processes that step a game, each with Python, NumPy and the game in some 50 MB: the cores of a large server."""
MAX_WIDTH = 2**14
"""Features of a layer: those of the largest language models. One square matrix of it has a GiB."""
MAX_LAYERS = 128
"""Of an encoder; the largest language models have about so many."""
MAX_LESSONS = 100
"""Of a curriculum; each is checked by the game before the run begins."""
MAX_POINTS = 100
"""Of a schedule; two or three are common."""
MAX_HEAD_LAYERS = 16
"""Hidden layers of the actor and of the critic; two are common."""
MAX_HISTORY = 100_000
"""Ticks or decisions that an encoder looks back: nearly an hour of a game of 30 ticks a second."""
MAX_ROLLOUT = 2**20
"""Decisions of a row between two updates, and epochs over them: nobody waits longer for an update."""
MAX_LIVE_NETS = 1_024
"""Frozen nets in memory; a row plays one of them."""
MAX_SNAPSHOTS = 10_000
"""Of a run: its pool, its cross table and its ratings have each of them. Ten million steps make about 110."""
MAX_STATES = 32
"""Of a run, kept to go back to: each has three times the weights, and 32 reach back further than a run can last."""
MAX_LEARNERS = 64
"""Of a league; AlphaStar's had 12."""
MAX_GAMES = 10**6
"""Of a pair, or of a gate: a score is then known to a thousandth, and its rows take a gigabyte."""
MAX_REPLAYS = 64
"""Matches of a pair in one evaluation that are kept whole: as many as it plays side by side."""
MAX_SECONDS = 365 * 86_400
"""Of anything that is waited for: a year."""
MAX_ADDRESS = 2**13
"""Letters of where a game or a custom part came from; a path has at most half."""
MAX_OWN_BYTES = 2**30
"""Of a file that league wrote itself."""
MAX_REAL = 3e38
"""Of a weight, a rate or a norm: a float32 holds nothing greater. What overflows on the way, guards find."""

Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Natural = Annotated[int, Field(ge=0, le=MAX_COUNT)]
"""A number from 0."""


class FrozenModel(BaseModel):
    """Unchangeable, strict (an int serves as a float, nothing else is converted) and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class PartSource(FrozenModel):
    """Where a custom part (a bot, a sampler, a policy) came from, and which code it is."""

    address: Annotated[str, Field(max_length=MAX_ADDRESS)] = ""
    """What `--bot`, `--sampler` or `--policy` takes. Empty: it came as an object in Python, or with its game."""
    version: Annotated[str, Field(max_length=MAX_ADDRESS)] = ""
    """Of the distribution that it is in; empty where it is in none."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """Of its code: of its file, or where it has none of its own source."""
    thing: Annotated[str, Field(max_length=MAX_ADDRESS)]
    """What it is called in there, such as `greedy` or `Net.small`."""


PROGRAM_SCHEMES = ("program", "kaggle", "sb3", "export", "submission")
"""What the addresses of bots in processes of their own begin with (docs/guides/programs.md)."""


def is_program(address: str) -> bool:
    """Whether an address is of a bot in a process of its own."""
    scheme, colon, _ = address.partition(":")
    return bool(colon) and scheme in PROGRAM_SCHEMES


_COUNT = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?)([kKmM]?)")
_THOUSANDS = {"": 1, "k": 10**3, "m": 10**6}


def count_of(text: str | int) -> int:
    """A count as people write it: 300k, 1.5M, 2_000_000; a number is itself.

    Raises:
        ValueError: it is no whole number, or beyond `MAX_COUNT`; the message says what is.
    """
    if isinstance(text, int):
        return text
    found = _COUNT.fullmatch(text.strip())
    count = Decimal(found[1].replace("_", "")) * _THOUSANDS[found[2].lower()] if found and len(text) <= 40 else None
    if count is None or count != count.to_integral_value() or count > MAX_COUNT:
        raise ValueError(f"is no count from 0 to {MAX_COUNT:,}; write it like 2_000_000, 300k or 1.5M")
    return int(count)


def check_number(name: str, value: float, least: float, most: float, what: str) -> None:
    """Refuses a number outside its bounds, or NaN.

    Args:
        name: the parameter's, which is its option's with `_` for `-`.
        value: the number.
        least, most: the bounds, which it may be.
        what: of what it is a number.

    Raises:
        UsageError: with the bounds.
    """
    if not least <= value <= most:
        shown = f"{Decimal(value):.3g}" if isinstance(value, float) or abs(value) >= 10**20 else f"{value}"
        raise UsageError(
            f"{name}={shown}: {what}, must be from {least:,} to {'2^63 - 1' if most == MAX_SEED else f'{most:,}'};"
            f" pass another --{name.replace('_', '-')}"
        )


def open_regular(path: Path) -> BufferedReader:
    """A regular file, open for reading; a pipe or a device of that name keeps nobody waiting.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    file = open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb")  # noqa: SIM115
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "it is no regular file", str(path))


def read_file(path: Path, limit: int = MAX_OWN_BYTES) -> bytes:
    """The bytes of a regular file; another kind, such as a pipe, could keep one for ever.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no regular file, or has more than `limit` bytes; the message says which.
    """
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > limit:
                raise ValueError(f"it has {size:,} bytes, more than the {limit:,} allowed")
            return file.read(size)  # `limit` bytes would be set aside for a short one
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise ValueError(error.strerror) from None
        raise
