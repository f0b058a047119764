"""The process of its own that answers `league query`: its time, memory and output are bounded.

The database's own limits do not count the values that Python makes of its rows, and it does not heed every interrupt.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from league.errors import LeagueError, StoreError, UsageError, as_known
from league.runtime.interpreter import python

MAX_MEMORY = 4 * 2**30
"""Of the process, libraries and all: the engine's 1 GB, its rows as Python has them, and the same as text."""
MAX_OUTPUT = 2**29
"""Bytes of text: the rows that a query may have, written out."""
ANSWER_SECONDS = 40.0
"""From when the store is open to the last word."""


def run_child(
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
    errors: list[dict[str, Any]] = []
    listener = threading.Thread(target=_listen, args=(process.stderr, say, errors), daemon=True)
    decode, size = codecs.getincrementaldecoder("utf-8")("replace").decode, 0
    try:
        listener.start()  # here, where a thread that the system does not make is an error like others
        with contextlib.suppress(BrokenPipeError):  # it has ended already; why is told below
            process.stdin.write(json.dumps({**request, "seconds": ANSWER_SECONDS}).encode())
            process.stdin.close()
        while chunk := os.read(process.stdout.fileno(), 2**16):
            size += len(chunk)
            if size > MAX_OUTPUT:
                raise UsageError(
                    f"the answer is longer than {MAX_OUTPUT // 2**20} MiB of text; ask for less, add LIMIT"
                )
            write(decode(chunk))
        process.wait()
        listener.join()
    finally:
        process.kill()
        with contextlib.suppress(BrokenPipeError):
            process.__exit__(None, None, None)
    for error in errors:
        raise (UsageError if error["exit_code"] == UsageError.exit_code else StoreError)(error["error"])
    if process.returncode == -signal.SIGALRM:
        raise StoreError(
            f"the answer took longer than {ANSWER_SECONDS:g} s and was stopped; ask for less, or pass --json"
        )
    if process.returncode:
        raise StoreError(
            f"the answer took more memory than the {MAX_MEMORY / 2**30:g} GiB that it may have, or the engine failed;"
            f" ask for less"
        )


def _listen(lines: Any, say: Callable[[str], None], errors: list[dict[str, Any]]) -> None:
    """Says what the other process has to say, and keeps its errors; what else it prints there is left out."""
    for line in lines:
        with contextlib.suppress(ValueError):
            told = json.loads(line)
            if isinstance(told, dict) and "say" in told:
                say(told["say"])
            elif isinstance(told, dict) and "error" in told:
                errors.append(told)


@contextlib.contextmanager
def answering() -> Iterator[tuple[dict[str, Any], Callable[[str], None], Callable[[], object]]]:
    """In the other process: the request, how to say something, and what is called where its time begins.

    Its memory is bounded; the caller gets errors.
    """
    with contextlib.suppress(OSError, ValueError):  # there is no such limit on every system
        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = MAX_MEMORY if most == resource.RLIM_INFINITY else min(MAX_MEMORY, most)
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    told: dict[str, Any] = {}
    try:
        request = json.loads(sys.stdin.buffer.read())
        yield (
            request,
            lambda message: _tell({"say": message}),
            lambda: signal.setitimer(signal.ITIMER_REAL, request["seconds"]),  # it ends the process
        )
        sys.stdout.flush()
    except (LeagueError, RuntimeError) as error:
        if (known := as_known(error)) is None:
            raise
        told = {"error": " ".join(str(known).split()), "exit_code": known.exit_code}
    except MemoryError:
        told = {"error": f"the answer takes more memory than {MAX_MEMORY / 2**30:g} GiB; ask for less", "exit_code": 1}
    except BrokenPipeError:
        os._exit(1)
    if told:
        _tell(told)
        os._exit(told["exit_code"])


def _tell(what: dict[str, Any]) -> None:
    os.write(2, json.dumps(what).encode() + b"\n")
