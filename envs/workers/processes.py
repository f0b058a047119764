"""The worker processes of a game, as the process that has them sees them."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from league import errors
from league.envs.matches.row import MatchError
from league.envs.workers.sharing import CLOSE, COMMAND, FAILED, REPLY, SOCKET, take
from league.errors import CodeError, ConfigError, GuardError, LeagueError
from league.runtime.interpreter import python

DIED = "worker_died"
"""Kind of the event that is written down."""
PATIENCE, LAST_PATIENCE = 2.0, 20.0
"""Seconds for a worker to end whose socket is closed, or which has closed it, as in a crash; then it is killed."""
LAST_LINES, MAX_LETTERS = 3, 400
"""Of what a worker that died has printed, shown."""
KEPT_LINES = 200
FATAL = "Fatal Python error"
"""With it Python tells of a crash, before a line for each frame."""
BEGIN = "from league.envs.workers.process import main; main()"


class WorkerError(GuardError):
    """A worker process has died."""

    def __init__(self, message: str) -> None:
        super().__init__(message, DIED)


class BugError(Exception):
    """What failed in a worker, and was neither a game's error nor a known one."""


class _Process:
    """One worker process and the line to it."""

    def __init__(self, number: int, of: int, recipe: Mapping[str, str]) -> None:
        self.number, self._of, self._game = number, of, recipe["name"]
        self._line, other = socket.socketpair(socket.AF_UNIX, SOCKET)
        for end in (self._line, other):
            end.settimeout(None)  # code of a user may have set another default
        is_main = threading.current_thread() is threading.main_thread()
        words = [other.fileno(), os.getpid(), int(is_main), json.dumps(recipe)]
        with other:
            self._process = subprocess.Popen(
                python(BEGIN, *words),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[other.fileno()],
                start_new_session=True,  # a terminal's Ctrl+C goes to the main process only
            )
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Its number in the system."""
        return self._process.pid

    def send(self, what: bytes, slot: int, number: int, files: Sequence[int] = ()) -> None:
        """Tells it to do something.

        Raises:
            OSError: it has died.
        """
        words = COMMAND.pack(what, slot, number)
        if files:
            socket.send_fds(self._line, [words], files)
        else:
            self._line.send(words)

    def wait(self, number: int) -> tuple[bool, bytes | None]:
        """Whether it did what the command said, and what it has to say; answers to earlier commands are dropped.

        Raises:
            OSError: it has died.
        """
        while True:
            data, files, _, _ = socket.recv_fds(self._line, REPLY.size, 1)
            if not data:
                raise ConnectionResetError
            done, its_number = REPLY.unpack(data)
            answer = take(files[0]) if files else None
            if its_number == number:
                return done != FAILED, answer

    def epitaph(self) -> str:
        """How it ended, and what it printed last."""
        self.end(LAST_PATIENCE)
        self._reader.join(PATIENCE)
        code = self._process.returncode
        how = f"exit code {code}"
        if code < 0:
            with contextlib.suppress(ValueError):
                how = f"signal {signal.Signals(-code).name}"
        lines = list(self._lines)
        crash = next((i for i, line in enumerate(lines) if line.startswith(FATAL)), None)
        if crash is not None:
            frame = next((line for line in lines[crash:] if line.startswith("File ")), "")
            lines = [*lines[:crash], lines[crash], frame]
        said = errors.one_line(" | ".join(filter(None, lines[-LAST_LINES:])))[-MAX_LETTERS:]
        return f"{how}; {f'it last printed: {said}' if said else 'it printed nothing'}"

    def hang_up(self) -> None:
        """Lets it end by itself."""
        self._line.close()

    def end(self, patience: float = PATIENCE) -> None:
        """Waits until it has ended, and ends it after so many seconds."""
        self.hang_up()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            for line in iter(lambda: stream.readline(10_000), b""):
                if line.strip():
                    self._lines.append(line.decode(errors="replace").strip())


class WorkerPool:
    """The worker processes of a game, which serve all its batches in this process; they end with the last of these."""

    def __init__(self, recipe: Mapping[str, str], size: int) -> None:
        self.game, self._owner = recipe["name"], os.getpid()
        self._processes = [_Process(number, size, recipe) for number in range(size)]
        self._numbers, self._slots = itertools.count(1), itertools.count(1)
        self._open: set[int] = set()
        self._lock = threading.RLock()
        self._failure: str | None = None

    @property
    def pids(self) -> list[int]:
        """The processes' numbers in the system."""
        return [process.pid for process in self._processes]

    @property
    def is_well(self) -> bool:
        """Whether no worker has died."""
        return self._failure is None

    def enlist(self) -> int:
        """A number for a batch."""
        slot = next(self._slots)
        self._open.add(slot)
        return slot

    def leave(self, slot: int) -> None:
        """The batch is no longer needed; without one the processes end."""
        if os.getpid() != self._owner:  # a fork of the process whose they are
            return
        with self._lock:
            self._open.discard(slot)
            if self._open:
                with contextlib.suppress(OSError):
                    for process in self._processes:
                        process.send(CLOSE, slot, 0)
                return
            for key in [key for key, pool in _pools.items() if pool is self]:
                del _pools[key]
            for process in self._processes:
                process.hang_up()
            for process in self._processes:
                process.end()

    def ask(
        self, what: bytes, slot: int, bounds: Sequence[tuple[int, int]], files: Sequence[Sequence[int]] = ()
    ) -> list[bytes | None]:
        """Has the workers of a batch do something, all at once, and waits for all of them.

        Args:
            what: one of the commands of `league.envs.workers.process`.
            slot: the batch's number.
            bounds: [start, stop) of the rows of each worker that has a part.
            files: descriptors that go with the command to each.

        Returns:
            What each answered.

        Raises:
            WorkerError: one has died.
            Exception: what the game raised in the first worker in which it raised something.
        """
        with self._lock:
            if self._failure is not None:
                raise WorkerError(self._failure)
            number, processes = next(self._numbers), self._processes[: len(bounds)]
            process = processes[0]
            try:
                for i, process in enumerate(processes):
                    process.send(what, slot, number, files[i] if files else ())
                answers = []
                for process in processes:
                    answers.append(process.wait(number))
            except OSError:
                start, stop = bounds[process.number]
                self._failure = (
                    f"game {self.game}: worker {process.number + 1} of {len(self._processes)} (rows {start} to"
                    f" {stop - 1}) died, {process.epitaph()}; mend the game, or set env.workers=0 to see it fail in"
                    f" this process"
                )
                raise WorkerError(self._failure) from None
        for is_done, answer in answers:
            if not is_done:
                assert answer is not None
                raise _raised(json.loads(answer))
        return [answer for _, answer in answers]


_pools: dict[tuple[str, int], WorkerPool] = {}
"""By where the game is and the number of workers."""


def pool_for(recipe: Mapping[str, str], size: int) -> WorkerPool:
    """The workers of a game, `size` of them: those that are there, or new ones."""
    key = json.dumps(recipe), size
    if key not in _pools or not _pools[key].is_well:
        _pools[key] = WorkerPool(recipe, size)
    return _pools[key]


def _raised(told: Mapping[str, Any]) -> BaseException:
    """What was raised in a worker: a known error as one, a ValueError of a state as one, a bug with its traceback."""
    kinds = {"MatchError": MatchError, "CodeError": CodeError, "ConfigError": ConfigError, "ValueError": ValueError}
    kind = kinds.get(told["kind"], LeagueError if told["is_known"] else BugError)
    error: BaseException = kind(told["text"])
    if not isinstance(error, LeagueError):
        error.add_note("in a worker process:\n" + told["trace"])
    return error
