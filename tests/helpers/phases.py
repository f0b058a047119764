"""`league` that says over a pipe what it is doing, so that a test can end it right there.

`python tests/helpers/phases.py FD ARGUMENTS...` is `league ARGUMENTS...`, but that each entry into one of `PHASES`
writes its name and the monotonic time as a line to the file descriptor FD, and leaving it those of the one around it
after `BACK`.
In the phase that the environment's LEAGUE_HOLD names it waits, the first time and before it does anything, to be
interrupted.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).resolve()
PHASES = {
    "load a state": ("league.sessions.recovery", "load_state"),
    "delete what came after": ("league.store.writing", "Writer.delete_after"),
    "wire": ("league.sessions.app", "plan_of"),
    "write the run": ("league.store.writing", "Writer.begin_run"),
    "snapshot": ("league.training.loop", "take_snapshot"),
    "evaluate": ("league.training.loop", "_evaluate"),
    "play": ("league.play.rollout", "Collector.collect"),
    "learn": ("league.training.learner", "Learner.update"),
    "write rows": ("league.store.waiting", "Waiting.write"),
    "save the state": ("league.sessions.shelf", "save_state"),
    "sync a file": ("league.snapshots.io", "_write_synced"),
    "meet": ("league.arena.agents", "play"),
    "begin a gate": ("league.store.writing", "Writer.begin_gate"),
    "end a gate": ("league.store.writing", "Writer.end_gate"),
    "import": ("league.store.writing", "Writer.add_import"),
    "mark pruned": ("league.store.writing", "Writer.mark_pruned"),
    "delete files": ("league.sessions.retention", "shutil.rmtree"),
    "rate": ("league.boards.standings", "bradley_terry"),
    "film": ("league.arena.film", "shoot"),
    "write the film": ("league.arena.film", "save"),
    "read matches": ("league.store.reading", "Reader.games_played"),
    "measure": ("league.bench", "_step_time"),
    "payoff": ("league.boards.payoff", "payoffs"),
}
"""Name -> module and function."""
BACK = "back to "


class Told:
    """What a process that runs under this script does, read from its pipe until `until` or its end."""

    def __init__(self, *arguments: object, cwd: Path, hold: str = "", **options: Any) -> None:
        reader, writer = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, str(HERE), str(writer), *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(HERE.parents[2]), "LEAGUE_HOLD": hold},
            pass_fds=[writer],
            text=True,
            **options,
        )
        os.close(writer)
        self._pipe: IO[str] = os.fdopen(reader)
        self.seen: list[str] = []
        self.at = 0.0  # of the last line, in monotonic time
        self._started, self._first = time.monotonic(), dict[str, float]()

    def until(self, phase: str, times: int = 1) -> bool:
        """Waits until `phase` was entered so often; False if the process ends before."""
        for line in self._pipe:
            times -= self._note(line) == phase
            if times == 0:
                return True
        return False

    def after(self, phase: str) -> float | None:
        """Seconds from the process's start until it first entered `phase`, as far as it was read."""
        return self._first[phase] - self._started if phase in self._first else None

    def kill(self) -> str:
        """Kills the process (SIGKILL); the phase that it was in, empty where it had ended by itself."""
        self.process.kill()
        self.process.wait()
        for line in self._pipe:
            self._note(line)
        self.close()
        return self.seen[-1].removeprefix(BACK) if self.process.returncode < 0 and self.seen else ""

    def _note(self, line: str) -> str:
        phase, _, at = line.strip().rpartition(" ")
        self.seen.append(phase)
        self.at = float(at)
        self._first.setdefault(phase, self.at)
        return phase

    def close(self) -> None:
        """Closes the pipes."""
        for file in (self._pipe, self.process.stdout, self.process.stderr):
            if file is not None:
                file.close()


def main() -> None:
    """Patches the phases in and calls `league`."""
    fd = int(sys.argv.pop(1))
    around, held = ["start"], set[str]()

    def tell(phase: str) -> None:
        os.write(fd, f"{phase} {time.monotonic()}\n".encode())

    def told(phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return function(*args, **kwargs)
            around.append(phase)
            try:
                tell(phase)
                while phase == os.environ.get("LEAGUE_HOLD") and phase not in held:
                    time.sleep(0.01)
                return function(*args, **kwargs)
            finally:
                held.add(around.pop())
                tell(BACK + around[-1])

        return wrapped

    tell("start")
    from league import cli

    for phase, (module, path) in PHASES.items():
        owner: Any = import_module(module)
        *parents, name = path.split(".")
        for parent in parents:
            owner = getattr(owner, parent)
        setattr(owner, name, told(phase, getattr(owner, name)))
    cli.main()


if __name__ == "__main__":
    main()
