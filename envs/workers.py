"""A match batch whose rows are stepped by worker processes: for games that are too slow for one core.

Every worker has some of the rows, one after the other. Arrays lie in memory that all share; a few bytes pass through a
socket for each step. What is played, and the state, is bit for bit what one process plays, since a row's matches
follow from its seed. So a run may go on with any number of workers.
"""

from __future__ import annotations

import builtins
import contextlib
import itertools
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from league import errors
from league.envs.classic.shared import UInts, row_seeds
from league.envs.row import MatchError
from league.envs.sharing import (
    CLOSE,
    COMMAND,
    FAILED,
    GET,
    OPEN,
    REPLY,
    RESET,
    SEEDS,
    SET,
    SOCKET,
    STEP,
    UNDO,
    lay_out,
    mapped,
    nameless_file,
    put,
    take,
)
from league.errors import ConfigError, GuardError, LeagueError
from league.types import BoolArray, FloatArray, GameSpec, Mask, MatchBatch, Regrouping

DIED = "worker_died"
"""Kind of the event that is written down."""
PATIENCE, LAST_PATIENCE = 2.0, 20.0
"""Seconds for a worker to end whose socket is closed, or which has closed it, as in a crash; then it is killed."""
LAST_LINES, MAX_LETTERS = 3, 400
"""Of what a worker that died has printed, shown."""
KEPT_LINES = 200
FATAL = "Fatal Python error"
"""With it Python tells of a crash, before a line for each frame."""
BEGIN = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from league.envs.worker import main; main()"
PARTS = struct.Struct("<8sI")
"""Magic, parts: before the states of a game that cannot regroup them."""
MAGIC = b"workers1"


class WorkerError(GuardError):
    """A worker process has died."""

    def __init__(self, message: str) -> None:
        super().__init__(message, DIED)


class GameError(Exception):
    """What a game raised in a worker, where its kind of exception cannot be made here."""


class _Process:
    """One worker process and the line to it."""

    def __init__(self, number: int, of: int, recipe: Mapping[str, str]) -> None:
        self.number, self._of, self._game = number, of, recipe["name"]
        self._line, other = socket.socketpair(socket.AF_UNIX, SOCKET)
        is_main = threading.current_thread() is threading.main_thread()
        words = [other.fileno(), os.getpid(), int(is_main), json.dumps(recipe)]
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-c", BEGIN, json.dumps([str(path) for path in sys.path]), *map(str, words)],
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


class Crew:
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
            for key in [key for key, crew in _crews.items() if crew is self]:
                del _crews[key]
            for process in self._processes:
                process.hang_up()
            for process in self._processes:
                process.end()

    def ask(
        self, what: bytes, slot: int, bounds: Sequence[tuple[int, int]], files: Sequence[Sequence[int]] = ()
    ) -> list[bytes | None]:
        """Has the workers of a batch do something, all at once, and waits for all of them.

        Args:
            what: one of the commands of `league.envs.worker`.
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


_crews: dict[tuple[str, int], Crew] = {}
"""By where the game is and the number of workers."""


class WorkerBatch:
    """`league.types.MatchBatch` in worker processes; the fields are described there.

    It is `Turns` and `Regrouping` where the game's own batch is. A game that cannot regroup its states goes on with
    the same workers and rows only.

    Args:
        recipe: where the game is, as `league.envs.registry.recipe` has it.
        make: a batch of the game in this process, with so many rows.
        rows, workers: B, and how many processes; at most one a row is taken.
        threads: that step the rows of one worker.
        options: the game's, completed.

    Raises:
        ConfigError: the game cannot be found by another process, or draws its rows' seeds in a way of its own.
        WorkerError: a worker has died.
    """

    obs: FloatArray
    actions: npt.NDArray[Any]
    mask: Mask | None
    reward_terms: FloatArray
    terminated: BoolArray
    truncated: BoolArray
    final_obs: FloatArray
    result: npt.NDArray[Any]
    controllers: npt.NDArray[np.int16]

    def __init__(
        self,
        recipe: Mapping[str, str],
        make: Callable[[int], MatchBatch],
        *,
        rows: int,
        workers: int,
        threads: int,
        options: Mapping[str, Any],
    ) -> None:
        self._make, self.num_rows, self._like = make, rows, make(1)
        self.spec: GameSpec = self._like.spec
        self._has_usual_seeds = _has_usual_seeds(self._like)
        if not self._has_usual_seeds and not isinstance(self._like, Regrouping):
            raise ConfigError(
                f"env.workers={workers}: the game {self.spec.name} draws its rows' seeds in a way of its own and cannot"
                f" regroup its states, so workers would play other matches; set env.workers=0"
            )
        sizes = [len(part) for part in np.array_split(np.arange(rows), min(workers, rows))]
        self._sizes, ends = sizes, np.cumsum(sizes).tolist()
        self._bounds = [(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        pieces, size = lay_out(self._like, rows)
        memory = nameless_file(size)
        arrays = mapped(memory, pieces, size)
        self._seeds: UInts = arrays.pop(SEEDS)
        self.mask = None
        for name, array in arrays.items():
            setattr(self, name, array)
        if isinstance(self._like, Regrouping):
            self.regroup = self._like.regroup
        self.absent: frozenset[int] = getattr(self._like, "absent", frozenset())
        what = {"game": recipe["name"], "all": rows, "threads": max(1, threads), "options": dict(options)}
        key = json.dumps(recipe), workers
        if key not in _crews or not _crews[key].is_well:
            _crews[key] = Crew(recipe, workers)
        self._crew = _crews[key]
        self._slot = self._crew.enlist()
        self._end = weakref.finalize(self, self._crew.leave, self._slot)
        self._is_whole = True
        settings = [put(json.dumps({**what, "rows": pair}).encode()) for pair in self._bounds]
        try:
            self._ask(OPEN, [(setting, memory) for setting in settings])
        except BaseException:
            self.close()
            raise
        finally:
            for descriptor in (*settings, memory):
                os.close(descriptor)

    @property
    def pids(self) -> list[int]:
        """The worker processes' numbers in the system."""
        return self._crew.pids

    def close(self) -> None:
        """Lets go of the workers, which end where no other batch needs them; the batch is of no more use."""
        self._end()

    def reset(self, seed: int | UInts) -> None:
        """See `MatchBatch.reset`."""
        if isinstance(seed, np.ndarray) or self._has_usual_seeds:
            self._seeds[:] = row_seeds(seed, self.num_rows)
            self._is_whole = True
            self._ask(RESET)
            return
        whole = self._make(self.num_rows)
        whole.controllers[:] = self.controllers
        whole.reset(seed)
        self._is_whole = True
        self.set_state(whole.get_state())
        self.terminated[:] = self.truncated[:] = False

    def step(self) -> None:
        """See `MatchBatch.step`. After an error the rows of some workers have moved, and the batch is of no more use.

        Raises:
            WorkerError: a worker has died.
            LeagueError: an earlier step was broken off.
        """
        self._ask(STEP)

    def get_state(self) -> bytes:
        """See `MatchBatch.get_state`."""
        states = [answer or b"" for answer in self._ask(GET)]
        if isinstance(self._like, Regrouping):
            return self._like.regroup(states, [self.num_rows])[0]
        sizes = np.array([len(state) for state in states], np.uint64)
        return PARTS.pack(MAGIC, len(states)) + sizes.tobytes() + b"".join(states)

    def set_state(self, state: bytes) -> None:
        """See `MatchBatch.set_state`.

        Raises:
            ValueError: as there, or the state is of other workers and the game cannot regroup it; nothing is changed.
        """
        files = [put(part) for part in self._split(state)]
        was_whole, self._is_whole = self._is_whole, True
        try:
            self._ask(SET, [(descriptor,) for descriptor in files])
        except ValueError:
            self._is_whole = True
            self._ask(UNDO)
            self._is_whole = was_whole
            raise
        finally:
            for descriptor in files:
                os.close(descriptor)

    def _split(self, state: bytes) -> list[bytes]:
        """The states of the workers' parts."""
        if isinstance(self._like, Regrouping):
            return self._like.regroup([state], self._sizes)
        if len(state) < PARTS.size or state[:8] != MAGIC:
            raise ValueError("the state is not one of worker processes, and the game cannot regroup it")
        number = PARTS.unpack_from(state)[1]
        start = PARTS.size + 8 * number
        if number != len(self._sizes) or len(state) < start:
            raise ValueError(f"the state is of {number} workers, this batch of {len(self._sizes)}")
        ends = start + np.cumsum(np.frombuffer(state[PARTS.size : start], np.uint64)).astype(np.int64)
        if ends[-1] != len(state):
            raise ValueError("the state is not whole")
        return [state[a:b] for a, b in itertools.pairwise([start, *ends.tolist()])]

    def _ask(self, what: bytes, files: Sequence[Sequence[int]] = ()) -> list[bytes | None]:
        if not self._is_whole:
            raise LeagueError(f"game {self.spec.name}: a step was broken off, so its rows no longer agree; reset it")
        self._is_whole = False
        answers = self._crew.ask(what, self._slot, self._bounds, files)
        self._is_whole = True
        return answers


def _has_usual_seeds(batch: MatchBatch) -> bool:
    """Whether a batch makes its rows' seeds of one number as the games of this library do."""
    batch.reset(7)
    drawn = batch.get_state()
    batch.reset(row_seeds(7, batch.num_rows))
    return drawn == batch.get_state()


def _raised(told: Mapping[str, Any]) -> BaseException:
    """What a game raised in a worker, as it would have in this process."""
    kinds = {**vars(builtins), **vars(errors), "MatchError": MatchError}
    kind = kinds.get(told["kind"])
    error: BaseException = GameError(f"{told['kind']}: {told['text']}")
    if isinstance(kind, type) and issubclass(kind, Exception) and told["args"] is not None:
        with contextlib.suppress(TypeError):
            error = kind(*told["args"])
    if isinstance(error, LeagueError):
        return error
    for note in (*told["notes"], "in a worker process:\n" + told["trace"]):
        error.add_note(note)
    return error
