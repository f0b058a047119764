"""Rows for a store, and another process that holds it."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import league
from league.store.rows import AgentRow, GateRow, RunRow, SnapshotRow
from league.store.store import Store
from league.types import MatchResult

ROOT = Path(league.__file__).resolve().parents[1]


def empty_store(path: Path) -> Store:
    """A store without rows: a copy of one that was made once, which takes a fifth of the time of making it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_empty_file())
    return Store.open(path)


@functools.cache
def _empty_file() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return Store.create(Path(folder) / "league.duckdb").path.read_bytes()


def make_match(**changes: Any) -> MatchResult:
    """A training match, with changes."""
    values: dict[str, Any] = {
        "run": "a",
        "kind": "training",
        "update": 1,
        "row": 0,
        "ordinal": 0,
        "game_id": "g",
        "agents": ("a", "bot:based"),
        "seed": 5,
        "winner": 0,
        "end_reason": "time",
        "steps": 10,
        "ticks": 30,
        "sampling": "sample",
    }
    return MatchResult(**values | changes)


def make_run(run: str = "a", **changes: Any) -> RunRow:
    """A run, with changes."""
    values: dict[str, Any] = {
        "run": run,
        "game": "brawl",
        "game_id": "g",
        "fingerprint": "f",
        "seed": 2**64 - 1,
        "stage": "smoke",
        "config": '{"a":1}',
    }
    return RunRow(**values | changes)


def make_snapshot(run: str = "a", step: int = 100, **changes: Any) -> SnapshotRow:
    """A snapshot, with changes."""
    values: dict[str, Any] = {
        "run": run,
        "step": step,
        "update": step // 100,
        "agent_id": f"hash{step}",
        "path": f"{run}/snapshots/{step}",
        "fingerprint": "f",
    }
    return SnapshotRow(**values | changes)


def make_agent(agent_id: str = "bot:based", **changes: Any) -> AgentRow:
    """An agent, with changes."""
    return AgentRow(**{"agent_id": agent_id, "kind": "bot", "name": agent_id, "game_id": "g"} | changes)


def store_of_match(path: Path, name: str) -> Path:
    """A store with one evaluation match of two agents, of which `name`, `import:` and a name, is the first."""
    store = Store.create(path)
    store.begin_run(make_run())
    for agent in (name, "bot:based"):
        store.add_agent(make_agent(agent, name=agent.removeprefix("import:")))
    store.add_matches([make_match(kind="evaluation", agents=(name, "bot:based"))])
    store.flush(force=True)
    return store.path


def make_gate(gate: str = "g1", **changes: Any) -> GateRow:
    """A gate at the title of run a, with changes."""
    values: dict[str, Any] = {
        "gate": gate,
        "game_id": "g",
        "run": "a",
        "challenger": "hash200",
        "opponent": "hash100",
        "attempt": 1,
        "elo0": 0.0,
        "elo1": 35.0,
        "elo_model": "logistic",
        "alpha": 0.05,
        "beta": 0.05,
        "seed": 2**63,
        "sampling": "sample",
    }
    return GateRow(**values | changes)


@contextlib.contextmanager
def python(code: str, *args: object) -> Iterator[subprocess.Popen[str]]:
    """Another Python process that runs `code` and can be talked to by its stdin and stdout."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


HOLD = """
import sys, duckdb
con = duckdb.connect(sys.argv[1])
print("held", flush=True)
sys.stdin.readline()
"""


@contextlib.contextmanager
def held(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Within it another process has the store open, until it reads a line."""
    with python(HOLD, path) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process


def release(process: subprocess.Popen[str]) -> None:
    """Lets the holder end."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
