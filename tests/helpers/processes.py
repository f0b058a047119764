"""`league` in a process of its own that begins with everything imported: it is forked from a server that has torch and
the engine in memory and has never run anything, which saves each three seconds of processor time. All else is as when
a shell starts it: its file descriptors, session, working folder, signals and exit code."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import reduction
from pathlib import Path
from typing import IO, Any

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        *("league.cli", "league.bench", "league.sessions.leagues", "league.sessions.exploitability"),
        *("league.arena.agents", "league.arena.tournaments", "league.arena.gating", "league.boards.standings"),
        *("league.boards.alarms", "league.policies.stacked", "torch._dynamo", "scipy.stats", "tests.helpers.phases"),
    ]
)


class Descriptor:
    """A file descriptor on its way to another process."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _received, (reduction.DupFd(self.number),)


def _received(descriptor: Any) -> Descriptor:
    return Descriptor(descriptor.detach())


@dataclass(frozen=True)
class Terms:
    """What a process begins with.

    streams: 0, 1 and 2 in it; the others are nowhere.
    ignored: signals that it ignores, as under `nohup`.
    """

    folder: Path
    streams: Mapping[int, Descriptor]
    is_session: bool
    has_terminal: bool
    ignored: Sequence[int]


class Process:
    """A process that calls `target`; it is used as a `subprocess.Popen` is.

    Args:
        target: a function of a module, called with `arguments`.
        cwd: its working folder.
        stdin, stdout, stderr: a descriptor, `subprocess.PIPE` (a file, read by `communicate`) or None (nowhere).
        start_new_session: it leads a session and a process group of its own.
        has_terminal: its stdin is the terminal of that session.
        ignored: signals that it ignores from the start.
    """

    def __init__(
        self,
        target: Callable[..., None],
        arguments: Sequence[Any],
        *,
        cwd: Path,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        start_new_session: bool = False,
        has_terminal: bool = False,
        ignored: Sequence[int] = (),
    ) -> None:
        self._kept: dict[int, IO[bytes]] = {}
        streams = {}
        for number, given in enumerate((stdin, stdout, stderr)):
            if given == subprocess.PIPE:
                self._kept[number] = tempfile.TemporaryFile()  # noqa: SIM115
                given = self._kept[number].fileno()
            if given is not None and given >= 0:
                streams[number] = Descriptor(given)
        terms = Terms(Path(cwd), streams, start_new_session, has_terminal, tuple(ignored))
        self._process = _context.Process(target=_begin, args=(terms, target, *arguments))
        self._process.start()

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code, negative for the signal that ended it; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """As `returncode`."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended.

        Raises:
            TimeoutError: it runs on.
        """
        self._process.join(timeout)
        if self.returncode is None:
            raise TimeoutError(f"process {self.pid} runs on after {timeout} s")
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it wrote to stdout and stderr, once it has ended."""
        self.wait(timeout)
        return self._text(1), self._text(2)

    def send_signal(self, number: int) -> None:
        """Signals it."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Ends it at once (SIGKILL)."""
        self._process.kill()

    def _text(self, number: int) -> str:
        if number not in self._kept:
            return ""
        self._kept[number].seek(0)
        return self._kept[number].read().decode()


def _begin(terms: Terms, target: Callable[..., None], *arguments: Any) -> None:
    """In the new process: its terms, then what it is for."""
    if terms.is_session:
        os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(terms.streams[number].number if number in terms.streams else nowhere, number)
    if terms.has_terminal:
        import fcntl
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in terms.ignored:
        signal.signal(number, signal.SIG_IGN)
    os.chdir(terms.folder)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", buffering=buffering, closefd=False, errors=errors)  # noqa: SIM115
        for number, mode, buffering, errors in (
            (0, "r", -1, None),
            (1, "w", 1 if os.isatty(1) else -1, None),
            (2, "w", 1, "backslashreplace"),
        )
    )
    target(*arguments)


def league(*words: object, cwd: Path, **options: Any) -> Process:
    """`league WORDS` in a process of its own, which has begun; `options` as of `Process`."""
    return Process(command, [list(map(str, words))], cwd=cwd, **options)


def run(*words: object, cwd: Path, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    """`league WORDS` to its end; stdout and stderr are kept.

    Raises:
        TimeoutError: it runs on after `timeout` seconds, and is killed.
    """
    process = league(*words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = process.communicate(timeout)
    except TimeoutError:
        process.kill()
        raise
    return subprocess.CompletedProcess(words, process.wait(), out, err)


def command(words: list[str]) -> None:
    sys.argv[1:] = words
    from league import cli

    cli.main()
