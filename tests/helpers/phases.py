"""`league` that says over a pipe what it is doing, so that a test can end it right there.

Each entry into one of `PHASES` writes its name and the monotonic time as a line to that pipe, and leaving it those of
the one around it after `BACK`. In the phase that is held it waits, the `times`-th time and before it does anything, to
be interrupted. A phase of another thread than the main one has `ASIDE` after its name; held, it waits to be killed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

from tests.helpers.processes import Descriptor, Process

PHASES = {
    "load a state",
    "wire",
    "snapshot",
    "write a snapshot",
    "evaluate",
    "play",
    "learn",
    "write rows",
    "merge rows",
    "save the state",
    "sync a file",
    "meet",
    "begin a gate",
    "end a gate",
    "import",
    "delete files",
    "rate",
    "film",
    "write the film",
    "read matches",
    "measure",
    "payoff",
}
"""The phases of the engine (`league.runtime.phases`) that are told."""
BACK = "back to "
ASIDE = " aside"


class Told:
    """What a process of `league` does, read from its pipe until `until` or its end."""

    def __init__(self, *arguments: object, cwd: Path, hold: str = "", times: int = 1, **options: Any) -> None:
        reader, writer = os.pipe()
        words = list(map(str, arguments))
        self.process = Process(_tell, [Descriptor(writer), words, hold, times], cwd=cwd, **options)
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

    def wait(self, phases: int) -> bool:
        """Waits until so many more phases were begun or left; False if the process ends before."""
        for line in self._pipe:
            self._note(line)
            phases -= 1
            if phases <= 0:
                return True
        return False

    def after(self, phase: str) -> float | None:
        """Seconds from the process's start until it first entered `phase`, as far as it was read."""
        return self._first[phase] - self._started if phase in self._first else None

    def kill(self) -> str:
        """Kills the process (SIGKILL); the phase of its main thread, empty where it had ended by itself."""
        self.process.kill()
        self.process.wait()
        for line in self._pipe:
            self._note(line)
        self.close()
        own = [phase for phase in self.seen if not phase.endswith(ASIDE)]
        return own[-1].removeprefix(BACK) if self.process.returncode < 0 and own else ""

    def _note(self, line: str) -> str:
        phase, _, at = line.strip().rpartition(" ")
        self.seen.append(phase)
        self.at = float(at)
        self._first.setdefault(phase, self.at)
        return phase

    def close(self) -> None:
        """Closes the pipe."""
        self._pipe.close()


def _tell(pipe: Descriptor, words: list[str], hold: str, times: int) -> None:
    """Calls `league` and listens to what it does."""
    around, begun = ["start"], 0

    def tell(phase: str) -> None:
        os.write(pipe.number, f"{phase} {time.monotonic()}\n".encode())

    def wait(phase: str) -> None:
        nonlocal begun
        begun += phase == hold
        while phase == hold and begun == times:
            time.sleep(0.01)

    def heard(phase: str, begins: bool) -> None:
        if phase not in PHASES:
            return
        if threading.current_thread() is not threading.main_thread():
            if begins:
                tell(phase + ASIDE)
                wait(phase + ASIDE)
            return
        if not begins:
            return leave()
        around.append(phase)
        try:
            tell(phase)
            wait(phase)
        except BaseException:  # interrupted before the phase began, so nobody says that it ended
            leave()
            raise

    def leave() -> None:
        around.pop()
        tell(BACK + around[-1])

    tell("start")
    from league import cli
    from league.runtime.phases import listening

    sys.argv[1:] = words
    with listening(heard):
        cli.main()
