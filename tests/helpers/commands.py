"""Commands of `league` called in this process, and what each must leave behind."""

import contextlib
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import typer

from league.cli import app, main


@dataclass(frozen=True)
class Called:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout as the one JSON document that it must be, without NaN or infinity."""
        found = json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
        assert found["schema"] == 1
        return found


@contextlib.contextmanager
def streams(out: Any, err: Any) -> Iterator[None]:
    """Within it these are stdout and stderr."""
    with mock.patch.object(sys, "stdout", out), mock.patch.object(sys, "stderr", err):
        yield


def call(*words: object, cwd: Path | None = None, out: Any = None, err: Any = None, encoding: str = "utf-8") -> Called:
    """`league WORDS` in the folder `cwd`; what it writes is kept where a stream is not given."""
    given = [each or io.TextIOWrapper(io.BytesIO(), encoding, write_through=True) for each in (out, err)]
    code = 0
    argv = ["league", *map(str, words)]
    with contextlib.chdir(cwd or Path()), mock.patch.object(sys, "argv", argv), streams(*given):
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
    shown = [x.buffer.getvalue().decode(encoding) if isinstance(x.buffer, io.BytesIO) else "" for x in given]
    return Called(code, *shown)


def need_refusal(called: Called, code: int, *words: str) -> str:
    """Nothing on stdout, one line on stderr that begins with `error: ` and has all `words`, and the exit code."""
    lines = [line for line in called.err.splitlines() if not line.startswith(("run ", "playing ", "starting "))]
    assert len(lines) == 1 and lines[0].startswith("error: "), called.err
    assert called.out == "" and called.code == code, called
    assert [word for word in words if word not in lines[0]] == [], lines[0]
    return lines[0]


def commands() -> dict[str, Any]:
    """Every command by its words, such as `bench env`."""

    def walk(command: Any, words: str) -> Iterator[tuple[str, Any]]:
        for name, sub in getattr(command, "commands", {}).items():
            yield from walk(sub, f"{words} {name}".strip())
        if not hasattr(command, "commands"):
            yield words, command

    return dict(walk(typer.main.get_command(app), ""))
