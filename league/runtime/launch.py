"""The ranks of a run on this machine: which one this process is, and the start of the others. Does without torch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from league.errors import LeagueError, UsageError, one_line, quoted
from league.runtime.interpreter import python

FOLDER = "LEAGUE_RANKS"
"""In the environment of ranks that `launched` started: the folder by which they meet."""
NOTICE_SECONDS = 10.0
"""After the death of a rank, until this process gets SIGTERM."""
END_SECONDS = 5.0
"""That the other ranks have to end by themselves."""
MOST = 65_536
"""Ranks of one run."""
MOST_A_CORE = 4
"""Ranks for each core: more of them would only use up memory."""
CODE = "import league.__main__\nleague.__main__.main()"
_others: dict[int, subprocess.Popen[bytes]] = {}
"""Rank -> its process, of those that this process has started."""


class Place(NamedTuple):
    """Which of the ranks this process is."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    """Ranks on this machine."""
    meet: str
    """Where they meet, as `torch.distributed.init_process_group` takes it."""


def place() -> Place | None:
    """Which rank the environment says this process is, as `torchrun` and `launched` set it; None: a process by itself.

    Raises:
        UsageError: it says that there are ranks, and not which one this is or where they meet.
    """
    told: Mapping[str, str] = os.environ
    if "WORLD_SIZE" not in told:
        return None
    folder = told.get(FOLDER, "")
    needed = ["RANK", *([] if folder else ["MASTER_ADDR", "MASTER_PORT"])]
    missing = [name for name in needed if not told.get(name)]
    if missing:
        raise UsageError(
            f"WORLD_SIZE={told['WORLD_SIZE']} is set without {' and '.join(missing)}; start the ranks by `torchrun`, or"
            f" unset WORLD_SIZE and pass --ranks"
        )
    names = {"WORLD_SIZE": "", "RANK": "", "LOCAL_WORLD_SIZE": told["WORLD_SIZE"], "LOCAL_RANK": told["RANK"]}
    numbers = []
    for name, default in names.items():
        text = told.get(name) or default
        if not text.isdecimal():
            raise UsageError(f"{name}={text!r}: a whole number is needed; start the ranks by `torchrun`, or unset it")
        numbers.append(int(text))
    size, rank, local_size, local_rank = numbers
    if not 1 <= size <= MOST:
        raise UsageError(f"WORLD_SIZE={size}: from 1 to {MOST:,}; start the ranks by `torchrun`, or unset it")
    port = told.get("MASTER_PORT", "0")
    if not folder and not (port.isdecimal() and int(port) < 2**16):
        raise UsageError(f"MASTER_PORT={quoted(port)}: a port from 0 to 65,535; start the ranks by `torchrun`")
    if rank >= size:
        raise UsageError(f"RANK={rank}: there are WORLD_SIZE={size} ranks, counted from 0; start them by `torchrun`")
    return Place(rank, size, local_rank, local_size, f"file://{folder}/meet" if folder else "env://")


def is_follower() -> bool:
    """Whether this process is a rank that another one leads, and so prints nothing."""
    found = place()
    return found is not None and found.rank > 0


@contextmanager
def launched(number: int | None) -> Iterator[None]:
    """Within it this process is rank 0 of `number`, and the others, which it starts with its own command line, run.

    None, or a process that is a rank already, changes nothing.

    Raises:
        UsageError: less than one, more than `MOST_A_CORE` allows, or another number than there are ranks.
    """
    if number is None:
        yield
        return
    if number < 1:
        raise UsageError(f"--ranks {number}: at least 1; leave it out for a process by itself")
    if number > (most := MOST_A_CORE * (os.cpu_count() or 1)):
        raise UsageError(f"--ranks {number}: at most {MOST_A_CORE} for each core of this machine; pass {most} or fewer")
    there = place()
    if there is not None:
        if there.size != number:
            raise UsageError(f"--ranks {number}: there are WORLD_SIZE={there.size} ranks already; leave --ranks out")
        yield
        return
    is_over = threading.Event()
    with tempfile.TemporaryDirectory(prefix="league-ranks-") as folder:
        own = {"WORLD_SIZE": number, "LOCAL_WORLD_SIZE": number, "RANK": 0, "LOCAL_RANK": 0, FOLDER: folder}
        before = dict(os.environ)
        os.environ.update({name: str(value) for name, value in own.items()})
        try:
            for rank in range(1, number):
                _others[rank] = _started(rank, Path(folder))
            threading.Thread(target=_watch, args=(is_over,), daemon=True).start()
            yield
            deadline = time.monotonic() + END_SECONDS
            while any(other.poll() is None for other in _others.values()) and time.monotonic() < deadline:
                time.sleep(0.02)
        finally:
            is_over.set()
            os.environ.clear()
            os.environ.update(before)
            for other in _others.values():
                other.kill()
                other.wait()
            _others.clear()


def arrive(there: Place) -> None:
    """Waits until all ranks that `launched` started are about to meet; others are waited for where they meet.

    Raises:
        LeagueError: one of them has ended.
    """
    folder = os.environ.get(FOLDER, "")
    if folder and there.rank:
        Path(folder, f"here-{there.rank}").touch()
    while _others and not all(Path(folder, f"here-{rank}").exists() for rank in _others):
        if told := ended(0.0):
            raise LeagueError(told)
        time.sleep(0.02)


def ended(wait: float = 2.0) -> str:
    """How a rank that this process started has ended, in words; empty where none has within `wait` seconds."""
    deadline = time.monotonic() + wait
    while _others:
        for rank, other in _others.items():
            code = other.poll()
            if code is not None and code < 0:
                return f"rank {rank} was ended by signal {-code} ({signal.Signals(-code).name})"
            if code:
                text = Path(os.environ[FOLDER], f"said-{rank}").read_text(errors="replace").strip()
                return f"rank {rank} ended: {one_line((text.splitlines() or [f'exit code {code}'])[-1])}"
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return ""


def _started(rank: int, folder: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank)}
    with open(folder / f"said-{rank}", "wb") as said:
        return subprocess.Popen(
            python(CODE, *sys.argv[1:]),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )


def _watch(is_over: threading.Event) -> None:
    """Tells this process to stop, as a user would, where a rank has failed and it takes no notice for long."""
    while not is_over.wait(0.5):
        if any(other.poll() for other in list(_others.values())) and not is_over.wait(NOTICE_SECONDS):
            os.kill(os.getpid(), signal.SIGTERM)
            return
