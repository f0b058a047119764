"""A process of its own for what somebody typed: its time, memory and output are bounded.

The database's own limits do not count the values that Python makes of its rows, and it does not heed every interrupt.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from league.errors import LeagueError, StoreError, UsageError, as_known
from league.signals import python

MAX_MEMORY = 4 * 2**30
"""Of the process, libraries and all: the engine's 1 GB, its rows as Python has them, and the same as text."""
MAX_OUTPUT = 2**29
"""Bytes of text: the rows that a query may have, written out."""
ANSWER_SECONDS = 40.0
"""From when the store is open to the last word."""
_CHUNK = 2**16


def run_apart(
    code: str,
    request: dict[str, Any],
    *,
    write: Callable[[str], None],
    say: Callable[[str], None],
) -> None:
    """Runs `code`, which answers `request` within `answering`, in another Python; what it prints goes to `write`.

    Raises:
        LeagueError: what it raised; or it took longer than `ANSWER_SECONDS` once it had begun, or more memory or output
            than there is.
    """
    process = subprocess.Popen(
        python(code),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        start_new_session=True,  # a signal to end comes to this process alone, which ends the other one
    )
    assert process.stdin and process.stdout and process.stderr
    begun, over, late = threading.Event(), threading.Event(), threading.Event()

    def stop() -> None:
        begun.wait()
        if not over.wait(ANSWER_SECONDS):
            late.set()
            process.kill()

    told: list[dict[str, Any]] = []
    timer = threading.Thread(target=stop, daemon=True)
    talk = threading.Thread(target=lambda: told.extend(_told(process.stderr, say, begun.set)), daemon=True)
    decode, size = codecs.getincrementaldecoder("utf-8")("replace").decode, 0
    try:
        timer.start()  # here, where a thread that the system does not make is an error like others
        talk.start()
        with contextlib.suppress(BrokenPipeError):  # it has ended already; why is told below
            process.stdin.write(json.dumps(request).encode())
            process.stdin.close()
        while chunk := os.read(process.stdout.fileno(), _CHUNK):
            size += len(chunk)
            if size > MAX_OUTPUT:
                raise UsageError(
                    f"the answer is longer than {MAX_OUTPUT // 2**20} MiB of text; ask for less, add LIMIT"
                )
            write(decode(chunk))
        process.wait()
        talk.join()
    finally:
        over.set()
        begun.set()
        process.kill()
        with contextlib.suppress(BrokenPipeError):
            process.__exit__(None, None, None)
    if late.is_set():
        raise StoreError(
            f"the answer took longer than {ANSWER_SECONDS:g} s and was stopped; ask for less, or pass --json"
        )
    for error in told:
        raise _known(error)
    if process.returncode:
        raise StoreError(
            f"the answer took more memory than the {MAX_MEMORY / 2**30:g} GiB that it may have, or the engine failed;"
            f" ask for less"
        )


@contextlib.contextmanager
def answering() -> Iterator[tuple[dict[str, Any], Callable[[str], None], Callable[[], None]]]:
    """In the other process: the request, how to say something, and what is called once it does not wait any more.

    Its memory is bounded; the caller gets errors.
    """
    _bound_memory()
    try:
        try:
            yield (
                json.loads(sys.stdin.buffer.read()),
                lambda message: _tell({"say": message}),
                lambda: _tell({"begun": True}),
            )
            sys.stdout.flush()
        except (LeagueError, RuntimeError) as error:
            known = as_known(error)
            if known is None:
                raise
            _give_up(known, known.exit_code)
    except MemoryError:
        _give_up(f"the answer takes more memory than {MAX_MEMORY / 2**30:g} GiB; ask for less", 1)
    except BrokenPipeError:
        os._exit(1)


def _bound_memory() -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):  # there is no such limit on every system
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = MAX_MEMORY if most == resource.RLIM_INFINITY else min(MAX_MEMORY, most)
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _give_up(error: object, exit_code: int) -> NoReturn:
    _tell({"error": " ".join(str(error).split()), "exit_code": exit_code})
    os._exit(exit_code)


def _tell(what: dict[str, Any]) -> None:
    os.write(2, json.dumps(what).encode() + b"\n")


def _told(lines: Any, say: Callable[[str], None], begin: Callable[[], None]) -> Iterator[dict[str, Any]]:
    """The errors among what the other process tells; what it says is said, what else it prints is not."""
    for line in lines:
        with contextlib.suppress(ValueError):
            told = json.loads(line)
            if isinstance(told, dict) and "say" in told:
                say(told["say"])
            elif isinstance(told, dict) and "begun" in told:
                begin()
            elif isinstance(told, dict) and "error" in told:
                yield told


def _known(error: dict[str, Any]) -> LeagueError:
    return (UsageError if error["exit_code"] == UsageError.exit_code else StoreError)(error["error"])
