"""kill -9 at any moment: what was written stays, nothing counts twice, and the run resumed is the run never killed."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import time
import os
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from phases import HERE, Told

from league.app import Counters
from league.snapshots import io as snapshot_files
from league.snapshots.state import load_state
from league.standings import leaderboard
from league.store import Store

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")

SMALL = ("env.rows=8", "learner.rollout_steps=16", "learner.minibatches=2", "run.evaluate_games=2")
STARTING = ("load a state", "wire", "delete what came after")
TARGETS = (
    *("play", "write rows", "save the state", "load a state", "snapshot", "evaluate", "learn", "sync a file"),
    *("delete what came after", "wire"),
)
"""Where a resumed run can be killed; of these, `STARTING` come once, before it plays."""
TABLES = {
    "match": 'SELECT * EXCLUDE (finished_at) FROM match WHERE run = \'{run}\' ORDER BY kind, "update", "row", ordinal',
    "metric": "SELECT * FROM metric WHERE run = '{run}' AND name NOT LIKE '%_seconds' ORDER BY \"update\", name",
    "snapshot": "SELECT * EXCLUDE (created_at) FROM snapshot WHERE run = '{run}' ORDER BY step",
    "agent": "SELECT * FROM agent ORDER BY ALL",
}
"""What a run leaves in the store, but for times of the clock."""


class Case(NamedTuple):
    """A training that is killed `kills` times."""

    env: str
    steps: int
    kills: int
    seconds: float
    """A kill at a random moment comes at most so long after the start."""
    sets: tuple[str, ...]


CASES = [
    pytest.param(Case("matrix", 12_800, 5, 4, ("pool.snapshot_every=512", "run.evaluate_every=640")), id="five"),
    pytest.param(
        Case("matrix", 100_000, 50, 4, ("pool.snapshot_every=512", "run.evaluate_every=640")),
        id="fifty",
        marks=[pytest.mark.slow, pytest.mark.timeout(5400)],
    ),
    pytest.param(
        Case(
            *("brawl", 12_800, 10, 8),
            (
                *("agent.encoder_layers=1", "agent.encoder_width=32", "agent.encoder_heads=2", "agent.lstm_size=32"),
                *("agent.encoder_feedforward=64", "agent.observation_width=32", "env.time_limit_seconds=4"),
                *("pool.snapshot_every=512", "run.evaluate_every=1280"),
            ),
        ),
        id="brawl",
        marks=[pytest.mark.slow, pytest.mark.timeout(5400)],
    ),
]


def rows(store: Store, table: str, run: str) -> list[tuple[Any, ...]]:
    """A run's rows of one of `TABLES`, hashable."""
    _, found = store.query(TABLES[table].format(run=run))
    return [tuple(repr(x) if isinstance(x, dict | float) else x for x in row) for row in found]


def flat(value: Any, at: str = "") -> dict[str, Any]:
    """A state's tree as path -> plain value, arrays as bytes."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {path: leaf for key, item in items for path, leaf in flat(item, f"{at}/{key}").items()}
    if isinstance(value, torch.Tensor):
        value = value.numpy()
    return {at: (str(value.dtype), value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value}


def slow_elo(store: Store, run: str) -> float:
    """The learner's Elo, move by move from the rows: start 1000, K = 32 (Elo 1978, section 1.4)."""
    columns = 'seat0_agent, seat1_agent, winner, "update", "row", ordinal'
    _, games = store.query(f"SELECT {columns} FROM match WHERE run = '{run}' AND kind = 'training'")
    points: dict[str, float] = {}
    for seat0, seat1, winner, *_ in sorted(games, key=lambda game: game[3:]):
        a, b = points.get(seat0, 1000.0), points.get(seat1, 1000.0)
        change = 32 * ({0: 1.0, 1: 0.0, None: 0.5}[winner] - 10 ** (a / 400) / (10 ** (a / 400) + 10 ** (b / 400)))
        points[seat0], points[seat1] = a + change, b - change
    return points[run]


def arguments(case: Case, run: str) -> list[str]:
    """`league` arguments that begin the run; it saves its state every few updates."""
    sets = (*SMALL, *case.sets, f"run.total_steps={case.steps}", "run.checkpoint_minutes=0.005")
    given = ["train", "--stage", "smoke", "--env", case.env, "--device", "cpu", "--run", run, "--quiet"]
    return [*given, *(word for setting in sets for word in ("--set", setting))]


def league(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A `league` command in `folder` that nobody disturbs."""
    command = [sys.executable, "-m", "league", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent.parent)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("case", CASES)
def test_a_killed_run_is_the_run_never_killed(case: Case, tmp_path: Path) -> None:
    """Killed at random moments and in every phase, and resumed, it ends with the rows, ratings and state of an unbroken
    run; no row that was ever seen is lost or changed, and every snapshot of the store loads after every kill."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    assert league(whole, *arguments(case, "it")).returncode == 0
    rng = random.Random(case.kills)
    first = Told(*arguments(case, "it"), cwd=broken)
    assert first.until("save the state", 3)
    hits = Counter([first.kill()])
    store = Store.open(broken / "runs" / "league.duckdb")
    seen = {table: dict[Any, None]() for table in TABLES}
    kept = {table: dict[Any, None]() for table in TABLES}
    recoveries = []

    for number in range(1, case.kills):
        for table in TABLES:  # what a checkpoint covers stays from then on
            now = rows(store, table, "it")
            assert len(set(now)) == len(now)
            assert kept[table].keys() <= set(now), (number, table, hits)
            seen[table] |= dict.fromkeys(now)
        saved = Counters(**load_state(broken / "runs" / "it" / "state")["counters"])
        kept["match"] |= {row: None for row in seen["match"] if row[2] <= saved.update}
        kept["metric"] |= {row: None for row in seen["metric"] if row[1] <= saved.update}
        kept["snapshot"] |= {row: None for row in seen["snapshot"] if row[2] <= saved.update}
        for snapshot in store.snapshots("it"):
            manifest, _ = snapshot_files.load(broken / "runs" / snapshot.path)
            assert manifest.agent_id == snapshot.agent_id

        life = Told("resume", "it", "--quiet", cwd=broken)
        if number % 2:
            time.sleep(rng.uniform(0, case.seconds))
        else:
            target = TARGETS[number // 2 % len(TARGETS)]
            is_there = life.until(target) if target in STARTING else life.until("play") and life.until(target)
            assert is_there, life.seen[-5:]
            time.sleep(rng.expovariate(1 / 0.005))
        phase = life.kill()
        assert phase, f"the run ended by itself before kill {number}: {life.seen[-3:]}"
        hits[phase] += 1
        recoveries += [seconds for seconds in [life.after("play")] if seconds is not None]

    end = league(broken, "resume", "it")
    assert end.returncode == 0, end.stderr
    unbroken = Store.open(whole / "runs" / "league.duckdb")
    for table in TABLES:
        now = rows(store, table, "it")
        assert now == rows(unbroken, table, "it"), table
        if table != "agent":
            assert seen[table].keys() <= set(now), table
    states = [flat(load_state(folder / "runs" / "it" / "state")) for folder in (whole, broken)]
    assert states[0] == states[1] and any("learner" in path for path in states[0])
    board = leaderboard(store)
    assert board == leaderboard(unbroken)
    assert board.boards[0].learners[0].elo == pytest.approx(slow_elo(store, "it"), abs=1e-9)
    files = {path.name for path in (broken / "runs" / "it" / "snapshots").iterdir()}
    assert files == {Path(snapshot.path).name for snapshot in store.snapshots("it")}
    where = ", ".join(f"{phase} {count}" for phase, count in sorted(hits.items()))
    print(f"\n{case.env}: {sum(hits.values())} kills: {where}")
    print(f"seconds to be back at play: median {statistics.median(recoveries):.2f}, worst {max(recoveries):.2f}")
