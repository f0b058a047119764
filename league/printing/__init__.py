"""How the command line shows results: tables and lines on stdout, talk on stderr, JSON.

The one door for words: all that a command prints goes through `show`, `say`, `tables.print_table` or `print_json`,
which make it safe for a terminal, and through `streams`, which make it fit the encoding. Begin with `tables.py`, which
every table goes through; `standings.py`, `lists.py` and `answers.py` say what commands print.
"""

from __future__ import annotations

import atexit
import ctypes
import errno
import io
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, TextIO

from league.errors import brief, one_line

SCHEMA = 1
"""The number of the format of all JSON on stdout: it is raised where a key goes or means something else."""


_data: list[TextIO] = []
"""Where data goes instead of `sys.stdout`, if that is so."""


@contextmanager
def streams(*, data_alone: bool = False) -> Iterator[None]:
    """Within it stdout and stderr take every letter: one that their encoding lacks is spelt out.

    At its end what they did not take is given up, so that Python does not try, and fail, again as it ends.

    data_alone: what other code prints goes to stderr, also what C code writes to descriptor 1; so JSON stays JSON.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with _apart() if data_alone else nullcontext():
            yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                if stream is not None:
                    stream.flush()
            except (OSError, ValueError):
                with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
                    os.dup2(nowhere.fileno(), stream.fileno())


@contextmanager
def _apart() -> Iterator[None]:
    """Within it only what goes through this door reaches stdout."""
    stdout, stderr = sys.stdout, sys.stderr
    if stdout is None or stderr is None:
        yield
        return
    stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # it is closed
        yield
        return
    data = stdout
    with suppress(OSError):
        if stdout.fileno() == 1:
            data = open(kept, "w", encoding=stdout.encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115
    with suppress(OSError):
        os.dup2(2, 1)
    _data.append(data)
    sys.stdout = stderr
    try:
        yield
    finally:
        sys.stdout = stdout
        _data.clear()
        try:
            data.flush()
        except (OSError, ValueError):
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), kept)
        _flush_others(stdout)
        with suppress(OSError):  # other code has closed it
            os.dup2(kept, 1)
            os.close(kept)
        atexit.register(_to_stderr)  # the last one registered runs before those of other code


def _to_stderr() -> None:
    """What other code prints as the process ends stands behind no data."""
    sys.stdout = sys.stderr
    with suppress(OSError):
        os.dup2(2, 1)


def _flush_others(stdout: TextIO) -> None:
    """Gives what other code wrote to buffers of Python and of C, which would give it behind the data as they end."""
    for stream in (stdout, sys.__stdout__):
        with suppress(AttributeError, OSError, ValueError):  # None, or closed
            stream.flush()  # type: ignore[union-attr]
    with suppress(AttributeError, OSError, TypeError):  # a system without such a library
        ctypes.CDLL(None).fflush(None)


def _out() -> TextIO | None:
    return _data[0] if _data else sys.stdout


def _open() -> TextIO:
    """Where data goes.

    Raises:
        OSError: it is closed, as by `>&-`; Python would leave the data out in silence.
    """
    if (out := _out()) is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return out


def flush() -> None:
    """Flushes what was printed.

    Raises:
        OSError: stdout does not take it.
    """
    with _stdout():
        if (out := _out()) is not None:
            out.flush()


def show(line: str = "") -> None:
    """A line of data on stdout."""
    with _stdout():
        print(one_line(line), file=_open(), flush=True)


def put(text: str) -> None:
    """Whole lines on stdout as they are: a table, or what another process of ours has printed through this door."""
    with _stdout():
        out = _open()
        out.write(text)
        out.flush()


def say(message: str, quiet: bool = False) -> None:
    """Talk on stderr, unless `quiet`; where nobody takes it the command goes on."""
    if not quiet and sys.stderr is not None:
        with suppress(OSError, ValueError):  # ValueError: code of a user has closed it
            print(one_line(brief(message)), file=sys.stderr, flush=True)


@contextmanager
def _stdout() -> Iterator[None]:
    """Names the stream in what it raises, since the system does not."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or "stdout"
        raise


def print_json(data: Any) -> None:
    """One JSON document on stdout, an object with the number of its format in front.

    data: a mapping or a dataclass; what a command lists is under a name.
    """
    with _stdout():
        print(json.dumps({"schema": SCHEMA, **plain(data)}, allow_nan=False), file=_open(), flush=True)


def plain(value: Any) -> Any:
    """`value` as JSON has it: a named tuple is an object, a number that is not finite null, a time ISO 8601."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        kinds = set(map(type, value))
        if kinds <= {bool, int, str, type(None)}:  # a row of a large table: nothing to look at cell by cell
            return list(value)
        if kinds <= {float, int, type(None)}:
            return [None if x is None or not math.isfinite(x) else x for x in value]
        return [plain(item) for item in value]
    if isinstance(value, float | Decimal):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else str(value)
