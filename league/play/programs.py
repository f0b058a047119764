"""Bots that are programs: they read and write lines of JSON (docs/guides/programs.md) in processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from league.errors import ConfigError, one_line
from league.play.bots import ActionChoices, BotPolicy
from league.play.histories import Failure, StatefulPolicy
from league.play.instances import InstanceHost, is_stateful
from league.types import FloatArray, GameSpec, Mask

PROTOCOL = 1
GUIDE = "docs/guides/programs.md"
SECONDS, MIB = "LEAGUE_PROGRAM_SECONDS", "LEAGUE_PROGRAM_MIB"
"""Variables of the environment: the most seconds of a decision, and the most memory of a process."""
USUAL = {SECONDS: 5.0, MIB: 2048.0}
MAX_DEATHS = 3
"""Processes that end within one step; after them no other one is started in it."""
MAX_LINE = 2**16
"""Bytes of an answer."""
MAX_FILE = 2**26
"""Bytes of a file that a program writes, stderr included."""
LAST_WORDS, LAST_LINES = 400, 2
"""Letters and lines of its stderr that a failure shows at most."""
EXIT_SECONDS = 3.0
"""For a program to end that has closed its stdout."""
END_SECONDS = 0.5
"""For a program to end after its stdin was closed; then it is killed."""
LIMITED = """
import os, resource, sys
for kind, most in zip((resource.RLIMIT_DATA, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE), map(int, sys.argv[1:4])):
    hard = resource.getrlimit(kind)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))
try:
    os.execvp(sys.argv[4], sys.argv[4:])
except OSError as error:
    sys.exit(f"{sys.argv[4]}: {error.strerror}")
"""
"""Sets the limits and becomes the program."""


@dataclass(frozen=True)
class Program:
    """A program that plays.

    address: as the user named it.
    command: its words.
    start_seconds: until it is ready.
    """

    address: str
    command: tuple[str, ...]
    start_seconds: float = 10.0


class ProgramError(Exception):
    """A process did not do what the protocol asks for; the message says what it did instead."""


class _ProgramProcess:
    """One process of a program, and what is on its way to and from it."""

    def __init__(self, program: Program, game: Mapping[str, Any], mib: float) -> None:
        self.waiting: dict[int, None] = {}
        """The matches that are asked, in the order of the questions."""
        self.out, self.matches = bytearray(), set[int]()
        self._in, self._errors = bytearray(), tempfile.TemporaryFile()  # noqa: SIM115
        limits = [str(int(mib * 2**20)), str(MAX_FILE), "0"]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", LIMITED, *limits, *program.command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={"OMP_NUM_THREADS": "1", **os.environ},
            start_new_session=True,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self.to, self.of = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self.to, False)
        os.set_blocking(self.of, False)
        self.pid, self.last = self._process.pid, time.monotonic()
        try:
            self.send({"start": PROTOCOL, **game})
            self._wait_ready(program.start_seconds)
        except ProgramError:
            self.close()
            raise

    def _wait_ready(self, seconds: float) -> None:
        ready: list[Any] = []
        exchange([self], seconds, lambda process, answer: ready.append(answer), lambda process: not ready)
        if not isinstance(ready[0], dict) or ready[0].get("ready") != PROTOCOL:
            raise ProgramError(f"its first line is {_shown(ready[0])}, where {{'ready': {PROTOCOL}}} is expected")
        self.watches = bool(ready[0].get("watch"))

    def send(self, message: Mapping[str, Any]) -> None:
        """Puts a message behind those that will be written."""
        self.out += json.dumps(message, separators=(",", ":")).encode() + b"\n"

    def write(self) -> None:
        """Writes what there is room for; a process that has ended is met by `read`."""
        try:
            del self.out[: os.write(self.to, self.out)]
        except BlockingIOError:
            pass
        except OSError:
            self.out.clear()

    def read(self) -> Iterable[Any]:
        """The answers that have come.

        Raises:
            ProgramError: it has ended, or a line is no answer.
        """
        data = os.read(self.of, MAX_LINE)
        if not data:
            raise ProgramError(self._epitaph())
        self._in += data
        *lines, rest = self._in.split(b"\n")
        self._in = bytearray(rest)
        if max(map(len, (*lines, rest))) > MAX_LINE:
            raise ProgramError(f"a line of more than {MAX_LINE:,} bytes")
        for line in lines:
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                raise ProgramError(f"{_shown(bytes(line).decode(errors='replace'))} is no JSON") from None

    def _epitaph(self) -> str:
        """How it ended, and the end of what it said on stderr."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(EXIT_SECONDS)
        code = self._process.poll()
        how = "it closed its stdout" if code is None else f"exit code {code}" if code >= 0 else _signal(-code)
        self._errors.seek(max(0, os.fstat(self._errors.fileno()).st_size - LAST_WORDS))
        lines = self._errors.read().decode(errors="replace").split("\n")
        said = " | ".join([line.strip() for line in lines if line.strip(" ^~\r")][-LAST_LINES:])
        return f"{how}; it last said: {one_line(said)}" if said else how

    def close(self) -> None:
        """Ends it."""
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]  # they are pipes
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._errors.close()


def exchange(
    processes: Sequence[_ProgramProcess],
    seconds: float,
    take: Callable[[_ProgramProcess, Any], object],
    is_busy: Callable[[_ProgramProcess], bool],
) -> None:
    """Writes to all processes what there is for them, and reads until none is busy.

    Args:
        processes: they work at once.
        seconds: the longest silence of one of them.
        take: receives each answer; may raise a ProgramError.
        is_busy: whether an answer is expected of one.

    Raises:
        ProgramError: what the first of them that fails did, with it as the second argument.
    """
    for process in processes:
        process.last = time.monotonic()
    with selectors.DefaultSelector() as selector:
        while busy := [process for process in processes if is_busy(process)]:
            for process in busy:
                if process.out:
                    process.write()
            for process in busy:
                selector.register(process.of, selectors.EVENT_READ, process)
                if process.out:
                    selector.register(process.to, selectors.EVENT_WRITE, None)
            ready = selector.select(max(0.0, min(process.last for process in busy) + seconds - time.monotonic()))
            for key in list(selector.get_map().values()):
                selector.unregister(key.fileobj)
            for key, _ in ready:
                if key.data is not None:
                    try:
                        for answer in key.data.read():
                            take(key.data, answer)
                            key.data.last = time.monotonic()
                    except ProgramError as error:
                        raise ProgramError(str(error), key.data) from None
            for process in busy:
                if is_busy(process) and time.monotonic() > process.last + seconds:
                    raise ProgramError(f"no answer within {seconds:g} s", process)


class ProgramHost:
    """The processes of a program, and which matches each plays (`league.play.histories.Host`).

    Args:
        name: in errors.
        program: what is started.
        spec: the game's.
        num_processes: among which matches are dealt out.
        mib: the most memory of each; None: as the environment says.
    """

    def __init__(
        self, name: str, program: Program, spec: GameSpec, num_processes: int = 1, mib: float | None = None
    ) -> None:
        self._name, self._program, self._spec = name, program, spec
        self._game = {
            "game": spec.name,
            "version": spec.version,
            "obs_size": spec.obs_size,
            "mask_size": spec.action.mask_size,
            "action": asdict(spec.action),
            "seconds": limit(SECONDS),
        }
        self.mib = limit(MIB) if mib is None else mib
        self._everything = [1] * spec.action.mask_size
        self._type = float if spec.action.has_real else int
        self._processes: list[_ProgramProcess | None] = [None] * num_processes
        self._has_started, self._deaths = False, 0
        self.live: set[int] = set()
        weakref.finalize(self, _close, self._processes)

    def begin_step(self) -> None:
        """See `Host.begin_step`."""
        self._deaths = 0

    def begin(self, seeds: Mapping[int, int]) -> dict[int, Failure]:
        """See `Host.begin`.

        Raises:
            ConfigError: the program does not start the first time.
        """
        failed = {}
        for match, seed in seeds.items():
            try:
                process = self._started(match % len(self._processes))
            except ProgramError as error:
                if not self._has_started:
                    raise ConfigError(
                        f"bot={self._name}: {self._program.address}: at its start: {error.args[0]}; mend it ({GUIDE})"
                    ) from None
                failed[match] = Failure(error.args[0])
                continue
            process.send({"reset": match, "seed": seed})
            process.matches.add(match)
            self.live.add(match)
        return failed

    def _started(self, number: int) -> _ProgramProcess:
        process = self._processes[number]
        if process is None and self._deaths > MAX_DEATHS:
            raise ProgramError(f"its process ended {self._deaths} times in one step")
        if process is None:
            self._deaths += 1  # unless it starts
            process = self._processes[number] = _ProgramProcess(self._program, self._game, self.mib)
            self._deaths -= 1
            self._has_started = True
        return process

    def watch(self, match: int, obs: FloatArray) -> None:
        """See `Host.watch`."""
        process = self._processes[match % len(self._processes)]
        if process is not None and process.watches:
            process.send({"watch": match, "obs": obs.tolist()})

    def act(self, seen: Mapping[int, tuple[FloatArray, Mask | None]]) -> dict[int, list[float] | Failure]:
        """See `Host.act`: all are asked at once, and answer in any order."""
        asked: dict[int, _ProgramProcess] = {}
        for match, (obs, mask) in seen.items():
            process = self._processes[match % len(self._processes)]
            if process is not None and match in self.live:
                allowed = self._everything if mask is None else mask.astype(int).tolist()
                process.send({"act": match, "obs": obs.tolist(), "mask": allowed})
                process.waiting[match] = None
                asked[match] = process
        answers: dict[int, list[float] | Failure] = {}

        def take(process: _ProgramProcess, answer: Any) -> None:
            match = answer.get("act") if isinstance(answer, dict) else None
            if type(match) is not int or match not in process.waiting:
                raise ProgramError(f"{_shown(answer)} answers no question")
            del process.waiting[match]
            answers[match] = self._numbers(answer.get("action"))

        while busy := [process for process in dict.fromkeys(asked.values()) if process.waiting]:
            try:
                exchange(busy, limit(SECONDS), take, lambda process: bool(process.waiting))
            except ProgramError as error:
                why, process = error.args
                mine = (match for match, its in asked.items() if its is process)
                answers[next(iter(process.waiting), next(mine))] = Failure(why)  # it may say more than it is asked
                self._drop(process)
        return self._checked(answers, {match: mask for match, (_, mask) in seen.items()})

    def _numbers(self, action: Any) -> list[float] | Failure:
        """An answer as A numbers, which may not be legal."""
        spec = self._spec.action
        numbers = action if isinstance(action, list) else [action]
        kinds = (int, float) if spec.has_real else (int,)
        if len(numbers) == spec.num_parts and all(type(x) in kinds and abs(x) < 2**31 for x in numbers):
            return numbers
        return Failure(f"{_shown(action)} is no legal action")

    def _checked(
        self, answers: Mapping[int, list[float] | Failure], masks: Mapping[int, Mask | None]
    ) -> dict[int, list[float] | Failure]:
        """Answers whose illegal actions are failures; all are judged at once."""
        given = {match: x for match, x in answers.items() if not isinstance(x, Failure)}
        if not given:
            return dict(answers)
        spec, allowed = self._spec.action, [mask for match in given if (mask := masks[match]) is not None]
        flat = np.array([*given.values()], spec.dtype)
        legal = spec.is_legal(flat, np.stack(allowed) if allowed else None)
        checked = {
            match: [self._type(x) for x in action]
            if is_legal
            else Failure(f"{_shown(given[match])} is no legal action")
            for match, action, is_legal in zip(given, flat.tolist(), legal.tolist(), strict=True)
        }
        return {**answers, **checked}

    def _drop(self, process: _ProgramProcess) -> None:
        """Ends a process with all its matches."""
        self._deaths += 1
        process.waiting.clear()
        self.live -= process.matches
        self._processes[self._processes.index(process)] = None
        process.close()

    @property
    def pids(self) -> list[int]:
        """Of the processes that run."""
        return [process.pid for process in self._processes if process is not None]

    def close(self) -> None:
        """Ends all processes."""
        _close(self._processes)

    def end(self, match: int) -> None:
        """See `Host.end`."""
        self.live.discard(match)
        process = self._processes[match % len(self._processes)]
        if process is not None:
            process.matches.discard(match)


def make_bot(
    name: str, thing: Any, spec: GameSpec, choices: ActionChoices, device: torch.device, workers: int = 0
) -> BotPolicy:
    """A bot as a policy: of a function, a class or factory, or a `Program`.

    workers: processes that a program plays in; 0: one.
    """
    if isinstance(thing, Program):
        return StatefulPolicy(name, ProgramHost(name, thing, spec, max(1, workers)), choices, device, spec)
    if is_stateful(thing):
        return StatefulPolicy(name, InstanceHost(name, thing, choices), choices, device, spec)
    return BotPolicy(name, thing, choices, device)


def limit(name: str) -> float:
    """A limit of programs: the environment's, else the usual one.

    Raises:
        ConfigError: it is no positive number.
    """
    text = os.environ.get(name, "")
    try:
        value = float(text) if text else USUAL[name]
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise ConfigError(f"{name}={text}: must be a positive number; set another one, or unset it for {USUAL[name]:g}")
    return value


def _close(processes: list[_ProgramProcess | None]) -> None:
    for process in processes:
        if process is not None:
            process.close()


def _signal(number: int) -> str:
    try:
        return f"signal {signal.Signals(number).name}"
    except ValueError:
        return f"signal {number}"


def _shown(answer: Any) -> str:
    """The beginning of what a program said."""
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return one_line(text if len(text) <= 80 else f"{text[:80]}...")
