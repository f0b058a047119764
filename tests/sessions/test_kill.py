"""kill -9 at any moment: what was written stays, nothing counts twice, and the run resumed is the run never killed."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from league.boards.standings import leaderboard
from league.snapshots import io as snapshot_files
from league.snapshots.state import load_state
from league.store.store import Store
from tests.helpers import processes
from tests.helpers.cases import cases
from tests.helpers.phases import ASIDE, Told
from tests.helpers.sizes import SMALL, as_options
from tests.helpers.states import learned_state

STARTING = ("load a state", "wire")
TARGETS = (
    *("play", "write rows", "save the state", "load a state", "snapshot", "evaluate", "learn", "sync a file"),
    *("merge rows", "wire"),
)
"""Where a resumed run can be killed; of these, `STARTING` come once, before it plays."""
TABLES = {
    "match": 'SELECT * EXCLUDE (finished_at) FROM match WHERE run = \'{run}\' ORDER BY kind, "update", "row", ordinal',
    "metric": (
        "SELECT * FROM metric WHERE run = '{run}' AND name NOT LIKE '%_seconds' ORDER BY \"update\", name, agent_id"
    ),
    "snapshot": "SELECT * EXCLUDE (created_at) FROM snapshot WHERE run = '{run}' ORDER BY step",
    "agent": "SELECT * FROM agent ORDER BY ALL",
}
"""What a run leaves in the store, but for times of the clock."""


class Case(NamedTuple):
    """A training that is killed `kills` times."""

    env: str
    steps: int
    kills: int
    acts: int
    """A kill at a random moment comes at most so many begun or left acts after the start."""
    sets: tuple[str, ...]


CASES = [
    pytest.param(Case("matrix", 4_608, 3, 60, ("pool.snapshot_every=512", "run.evaluate_every=640")), id="three"),
    pytest.param(
        Case("matrix", 100_000, 50, 60, ("pool.snapshot_every=512", "run.evaluate_every=640")),
        id="fifty",
        marks=pytest.mark.timeout(5400),
    ),
    pytest.param(
        Case("brawl", 12_800, 10, 60, ("env.time_limit_seconds=4", "pool.snapshot_every=512")),
        id="brawl",
        marks=pytest.mark.timeout(5400),
    ),
]


def rows(store: Store, table: str, run: str) -> list[tuple[Any, ...]]:
    """A run's rows of one of `TABLES`, hashable."""
    _, found = store.query(TABLES[table].format(run=run))
    return [tuple(repr(x) if isinstance(x, dict | float) else x for x in row) for row in found]


def arguments(case: Case, run: str) -> list[str]:
    """`league` arguments that begin the run; it saves its state every few updates."""
    sets = (*SMALL, *case.sets, f"run.total_steps={case.steps}", "run.checkpoint_minutes=0.005")
    given = ["train", "--stage", "smoke", "--env", case.env, "--device", "cpu", "--run", run, "--quiet"]
    return [*given, *as_options(sets)]


def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A `league` command in `folder` that nobody disturbs."""
    return processes.run(*arguments, cwd=folder)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_killed_run_is_the_run_never_killed(case: Case, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    assert call(whole, *arguments(case, "it")).returncode == 0
    rng = random.Random(case.kills)
    first = Told(*arguments(case, "it"), cwd=broken)
    assert first.until("save the state", 3) and first.kill()
    store = Store.open(broken / "runs")
    seen = {table: dict[Any, None]() for table in TABLES}
    for number in range(1, case.kills):
        for table in TABLES:
            now = rows(store, table, "it")
            assert len(set(now)) == len(now)
            seen[table] |= dict.fromkeys(now)
        for snapshot in store.snapshots("it"):
            manifest, _ = snapshot_files.load(broken / "runs" / snapshot.path)
            assert manifest.agent_id == snapshot.agent_id

        life = Told("resume", "it", "--quiet", cwd=broken)
        if number % 4 == 1:
            life.wait(rng.randrange(1, case.acts))
        elif number % 4 == 3:
            assert life.until("play")
            life.wait(rng.randrange(1, case.acts))
        else:
            target = TARGETS[number // 2 % len(TARGETS)]
            is_there = life.until(target) if target in STARTING else life.until("play") and life.until(target)
            assert is_there, life.seen[-5:]
        time.sleep(rng.expovariate(1 / 0.005))
        assert life.kill(), f"the run ended by itself before kill {number}: {life.seen[-3:]}"

    end = call(broken, "resume", "it")
    assert end.returncode == 0, end.stderr
    unbroken = Store.open(whole / "runs")
    for table in TABLES:
        now = rows(store, table, "it")
        assert now == rows(unbroken, table, "it"), table
        if table != "agent":
            assert seen[table].keys() <= set(now), table
    states = [learned_state(folder / "runs" / "it") for folder in (whole, broken)]
    assert states[0] == states[1] and any("learner" in path for path in states[0])
    assert leaderboard(store) == leaderboard(unbroken)
    files = {path.name for path in (broken / "runs" / "it" / "snapshots").iterdir()}
    assert files == {Path(snapshot.path).name for snapshot in store.snapshots("it")}


@pytest.mark.parametrize(
    "phase",
    cases("play", slow=["wire", "save the state", "snapshot", "learn"]),
)
@pytest.mark.slow
def test_a_run_killed_before_its_first_state(phase: str, tmp_path: Path) -> None:
    case, is_known = Case("matrix", 1_280, 0, 0, ()), phase != "wire"
    life = Told(*arguments(case, "it"), cwd=tmp_path, hold=phase)
    assert life.until(phase) and life.kill() == phase
    if is_known:
        shown = json.loads(call(tmp_path, "runs", "--json").stdout)["runs"]
        assert [(run["run"], run["status"]) for run in shown] == [("it", "died")]
    resumed = call(tmp_path, "resume", "it")
    if not is_known:
        assert resumed.returncode == 1 and "no folder in it has a run.json" in resumed.stderr.splitlines()[-1]
        resumed = call(tmp_path, *arguments(case, "it"))
    assert resumed.returncode == 0 and ("so it begins at step 0" in resumed.stderr) == is_known, resumed.stderr
    assert Store.open(tmp_path / "runs").find_run("it").steps == 1_280


GAMES = '{"seat0": "x", "seat1": "bot:random", "winner": 0}\n{"seat0": "bot:random", "seat1": "x", "winner": 1}\n'


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run `it` and a file of matches; nobody may change it."""
    folder = tmp_path_factory.mktemp("trained")
    case = Case("matrix", 1_280, 0, 0, ("pool.snapshot_every=128",))
    assert call(folder, *arguments(case, "it")).returncode == 0
    (folder / "games.jsonl").write_text(GAMES)
    return folder


@pytest.mark.parametrize(("phase", "times"), cases(("meet", 2), slow=[("meet", 1), ("end a gate", 1)]))
def test_a_killed_gate_is_broken_off(phase: str, times: int, trained: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(trained, tmp_path / "copy")
    gate = ("gate", "it", "--max-games", "200")
    life = Told(*gate, cwd=folder, hold=phase, times=times)
    assert life.until(phase, times) and life.kill() == phase
    store = Store.open(folder / "runs")
    (row,) = store.gates()
    assert row.decision == "running" and store.champion("it") is None
    assert store.find_run("it").status == "finished"
    assert call(folder, *gate).returncode in (0, 3, 4)
    first, second = store.gates()
    assert (first.decision, first.is_promoted, first.attempt) == ("broken off", False, 1)
    assert first.games == len(store.matches(first.gate, "evaluation")) and first.games % 2 == 0
    assert second.attempt == 2 and second.decision in ("passed", "failed", "undecided")


@pytest.mark.slow
def test_a_killed_import_is_whole_or_not_there(trained: Path, tmp_path: Path) -> None:
    rng = random.Random(1)
    count = "SELECT (SELECT count(*) FROM match WHERE run LIKE 'import-%'), (SELECT sum(matches) FROM import)"
    for number in range(4):
        folder = shutil.copytree(trained, tmp_path / str(number))
        life = Told("import", "games.jsonl", cwd=folder)
        assert life.until("import")
        time.sleep(rng.uniform(0, 0.06))
        life.kill()
        store = Store.open(folder / "runs")
        assert store.query(count)[1] in ([(0, None)], [(2, 2)])
        assert call(folder, "import", "games.jsonl").returncode in (0, 2)
        assert store.query(count)[1] == [(2, 2)]


@pytest.mark.parametrize("times", cases(3, slow=[2]))
def test_a_killed_pruning_is_finished_by_the_next(times: int, trained: Path, tmp_path: Path) -> None:
    folder, once = (shutil.copytree(trained, tmp_path / name) for name in ("killed", "once"))
    prune = ("snapshots", "prune", "--keep", "1")
    life = Told(*prune, cwd=folder, hold="delete files", times=times)
    assert life.until("delete files", times) and life.kill() == "delete files"
    store = Store.open(folder / "runs")
    paths = {row.agent_id: folder / "runs" / row.path for row in store.snapshots("it") if row.pruned_at is None}
    there = {agent_id: path for agent_id, path in paths.items() if path.exists()}
    assert len(there) < len(paths) == len(store.snapshots("it"))
    assert all(snapshot_files.load(path)[0].agent_id == agent_id for agent_id, path in there.items())
    assert call(folder, *prune).returncode == call(once, *prune).returncode == 0
    left = [sorted(path.name for path in (place / "runs/it/snapshots").iterdir()) for place in (folder, once)]
    assert left[0] == left[1] and len(left[0]) < len(store.snapshots("it"))
    assert left[0] == sorted(Path(row.path).name for row in store.snapshots("it") if row.pruned_at is None)


CASE = Case("matrix", 1_280, 0, 0, ("pool.snapshot_every=128", "run.evaluate_every=640"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nobody killed."""
    folder = tmp_path_factory.mktemp("whole")
    assert call(folder, *arguments(CASE, "it")).returncode == 0
    return folder


def on_disk(folder: Path) -> set[str]:
    """The agent ids of the snapshots whose files are whole."""
    found = (folder / "runs/it/snapshots").glob("[0-9]*")
    return {snapshot_files.load(path)[0].agent_id for path in found}


@pytest.mark.parametrize(
    ("phase", "times"), cases(("write a snapshot", 3), slow=[("sync a file", 1), ("sync a file", 6)])
)
def test_a_kill_while_they_are_written(phase: str, times: int, whole: Path, tmp_path: Path) -> None:
    life = Told(*arguments(CASE, "it"), cwd=tmp_path, hold=phase + ASIDE, times=times)
    assert life.until(phase + ASIDE, times) and life.kill()
    store = Store.open(tmp_path / "runs/league.duckdb")
    named = {row.agent_id for row in store.snapshots("it")}
    if (tmp_path / "runs/it/state/state.json").exists():
        named |= {*load_state(tmp_path / "runs/it/state")["pool"]["snapshots"]}
    assert named <= on_disk(tmp_path)
    resumed = call(tmp_path, "resume", "it")
    assert resumed.returncode == 0, resumed.stderr
    for table in TABLES:
        assert rows(store, table, "it") == rows(Store.open(whole / "runs/league.duckdb"), table, "it"), table
    assert {row.agent_id for row in store.snapshots("it")} == on_disk(tmp_path)
