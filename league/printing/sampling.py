"""Where a run's time goes, and what it takes of the machine: listens to phases and reads the system.

A `Meter` adds up the seconds of the thread that trains, by what it does; a `Machine` reads processor, memory and GPU.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psutil

KINDS = ("game", "play nets", "strict masks", "learning", "evaluation", "waiting")
"""What the training thread's time goes to. `waiting`: for another thread, the disk or the store, and all the rest."""
_KIND_OF = {
    "game": "game",
    "play": "play nets",
    "play_net": "play nets",
    "frozen_nets": "play nets",
    "strict_masks": "strict masks",
    "learn": "learning",
    "evaluate": "evaluation",
}
_WHOLE = {"learning", "evaluation"}
"""All that is done within these is theirs."""
SAMPLES = 60
"""Samples that a curve of the machine looks back on."""
SETTLED = 5.0
"""Seconds of processor time that say whether other processes want the same cores."""


class Meter:
    """A `league.runtime.phases.Listener`: the seconds of the thread that made it, by kind, each counted once."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._stack: list[str] = ["waiting"]
        self._since = self._began = time.perf_counter()
        self._seconds = dict.fromkeys(KINDS, 0.0)

    def __call__(self, name: str, begins: bool) -> None:
        """A phase begins or ends."""
        if threading.get_ident() != self._thread:
            return
        now, stack = time.perf_counter(), self._stack
        self._seconds[stack[-1]] += now - self._since
        self._since = now
        if begins:
            stack.append(stack[-1] if stack[-1] in _WHOLE else _KIND_OF.get(name, stack[-1]))
        elif len(stack) > 1:
            stack.pop()

    @property
    def now(self) -> str:
        """What it does at this moment."""
        return self._stack[-1]

    def shares(self) -> dict[str, float]:
        """Of the time since it was made; they add up to 1."""
        seconds = dict(self._seconds)
        seconds[self._stack[-1]] += time.perf_counter() - self._since
        total = sum(seconds.values())
        return {kind: spent / total if total else 0.0 for kind, spent in seconds.items()}


@dataclass
class Machine:
    """What this process takes of the machine, the newest sample last."""

    cores: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    """Processor seconds a second, all threads."""
    gpu: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    """Share of the time in which the GPU was busy."""
    memory: int = 0
    """Bytes of main memory."""
    gpu_memory: tuple[int, int] = (0, 0)
    """Bytes of the GPU's memory that are taken, and that there are."""

    def __post_init__(self) -> None:
        self._at, self._spent = time.perf_counter(), time.process_time()
        self._ran, self._waited = _core_seconds()
        self._watch: subprocess.Popen[str] | None = None
        self._has_asked = False

    @property
    def num_cores(self) -> int:
        """That this process may use."""
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def sample(self) -> None:
        """Reads processor and memory now; the GPU is read by a process of its own."""
        now, spent = time.perf_counter(), time.process_time()
        if now > self._at:
            self.cores.append((spent - self._spent) / (now - self._at))
        self._at, self._spent = now, spent
        self.memory = psutil.Process().memory_info().rss
        cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)  # torch may be half imported
        if not self._has_asked and getattr(cuda, "is_initialized", bool)():
            self._has_asked = True
            self._begin_gpu(cuda.current_device())

    def crowding(self) -> float:
        """Share of its threads' time, since this was made, in which they could have run and had no core.

        0 in the first `SETTLED` seconds of processor time, and where the system does not say: Linux does.
        """
        ran, waited = _core_seconds()
        ran, waited = ran - self._ran, waited - self._waited
        return waited / (ran + waited) if ran + waited > SETTLED and waited > 0.0 else 0.0

    def close(self) -> None:
        """Ends the process that reads the GPU."""
        if self._watch is not None:
            self._watch.kill()
            self._watch.wait()

    def _begin_gpu(self, device: int) -> None:
        tool = shutil.which("nvidia-smi")
        if tool is None:
            return
        ask = ["--query-gpu=utilization.gpu,memory.used,memory.total", "--format=csv,noheader,nounits", "-lms", "500"]
        with suppress(OSError):
            self._watch = subprocess.Popen(
                [tool, *ask, f"--id={device}"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
                text=True,
                start_new_session=True,  # a signal to end comes to this process alone, which ends the other one
            )
            threading.Thread(target=self._read_gpu, daemon=True).start()

    def _read_gpu(self) -> None:
        assert self._watch is not None and self._watch.stdout is not None
        for line in self._watch.stdout:
            with suppress(ValueError):
                busy, used, total = (float(cell) for cell in line.split(","))
                self.gpu.append(busy / 100)
                self.gpu_memory = (int(used * 2**20), int(total * 2**20))


def _core_seconds() -> tuple[float, float]:
    """Seconds in which the threads that live now ran on a core, and in which they waited for one."""
    ran = waited = 0
    with suppress(OSError, ValueError):
        for thread in sorted(os.listdir("/proc/self/task")):
            with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
                with open(f"/proc/self/task/{thread}/schedstat", encoding="ascii") as file:
                    had, wanted, _ = file.read().split()
                ran, waited = ran + int(had), waited + int(wanted)
    return ran / 1e9, waited / 1e9
