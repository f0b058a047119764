"""Several processes on one store: trainers, readers that poll, one that is killed; nobody fails, nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from league.arena.evaluations import evaluate
from league.arena.tournaments import tournament
from league.boards.standings import leaderboard
from league.store import locks
from league.store.exchange import import_matches
from league.store.store import Store
from tests.helpers.processes import Process, league, run
from tests.helpers.sizes import SMALL, as_options
from tests.helpers.stores import empty_store, make_match, make_run, python

TRAIN = [
    *("train", "--stage", "smoke", "--env", "matrix", "--device", "cpu", "--json"),
    *as_options([*SMALL, "pool.snapshot_every=512", "run.evaluate_every=2560", "run.total_steps=100_000_000"]),
    *("--set", "run.checkpoint_minutes=0.05"),
]
SECONDS = 600
"""Of ten processes on one store."""
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


def poll(until: float) -> None:
    """Reads boards, statuses and rows of the store up to a time (of `time.time`), and prints what it found."""
    store = Store.open("runs")
    looks, longest, games = 0, 0.0, 0
    while time.time() < until or looks < 4:
        started = time.monotonic()
        assert leaderboard(store).boards
        statuses = {run.run: status for run, status in store.runs_with_status()}
        rows = store.query("SELECT count(*) FROM match")[1]
        assert rows[0][0] >= games, "rows never go"
        games = rows[0][0]
        looks, longest = looks + 1, max(longest, time.monotonic() - started)
        time.sleep(0.05)
    print(json.dumps({"looks": looks, "longest": longest, "games": games, "statuses": statuses}))


def wait_for(store: Path, count: int) -> Store:
    """The store once `count` runs of it have made an update."""
    for _ in range(6000):
        if Store.is_there(store) and sum(run.update > 0 for run in Store.open(store).runs()) == count:
            return Store.open(store)
        time.sleep(0.05)
    raise AssertionError("the trainers made no update")


@pytest.mark.parametrize("seconds", [2, pytest.param(240, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
@pytest.mark.slow
def test_two_trainers_and_three_readers(seconds: float, tmp_path: Path) -> None:
    """Nobody fails; every run's match rows are as many as its learner counted, no update is missing; `runs` knows who
    lives: both at first, then one that was killed has died, and one that was stopped is stopped."""
    trainers = [league(*TRAIN, "--seed", seed, cwd=tmp_path, **PIPES) for seed in range(2)]
    store = wait_for(tmp_path / "runs", 2)
    assert {run.run: status for run, status in store.runs_with_status()} == {
        "matrix-1": "running",
        "matrix-2": "running",
    }
    readers = [Process(poll, [time.time() + seconds], cwd=tmp_path, **PIPES) for _ in range(3)]
    looks = []
    for reader in readers:
        out, err = reader.communicate(timeout=1200)
        assert reader.returncode == 0, err
        looks.append(json.loads(out))
    assert all(set(look["statuses"].values()) == {"running"} for look in looks)
    assert [trainer.poll() for trainer in trainers] == [None, None]

    trainers[0].send_signal(signal.SIGINT)
    out, err = trainers[0].communicate(timeout=120)
    stopped = json.loads(out)["run"]
    assert trainers[0].returncode == 130 and "Traceback" not in err
    trainers[1].kill()
    trainers[1].communicate()
    other = ({"matrix-1", "matrix-2"} - {stopped}).pop()
    assert {run.run: status for run, status in store.runs_with_status()} == {stopped: "stopped", other: "died"}
    listed = run("runs", "--json", cwd=tmp_path).stdout
    assert {run["run"]: run["status"] for run in json.loads(listed)["runs"]} == {stopped: "stopped", other: "died"}
    for name in (stopped, other):
        counted = store.query(
            f"SELECT \"update\", value FROM metric WHERE run = '{name}' AND name = 'matches' ORDER BY 1"
        )[1]
        assert [update for update, _ in counted] == list(range(1, len(counted) + 1)), "no update is missing"
        played = store.matches(name, "training")
        assert len(played) == sum(value for _, value in counted) > 0
    longest = max(look["longest"] for look in looks)
    print(f"\n{seconds} s: looks {[look['looks'] for look in looks]}, the longest {longest:.2f} s")


def repeat(work: str, until: float) -> None:
    """Evaluates, holds tournaments or imports up to a time, and prints how many games that made and what it waited."""
    waited = 0.0

    def sleep(seconds: float) -> None:
        nonlocal waited
        waited += seconds
        time.sleep(seconds)

    locks.time = SimpleNamespace(sleep=sleep, monotonic=time.monotonic, time=time.time)  # type: ignore[assignment]
    games = turn = 0
    while time.time() < until or not turn:
        turn += 1
        if work == "import":
            file, seed = Path(f"games-{turn}.csv"), 10_000 * turn
            rows = (f"x{seed},y{seed},{i % 2},{seed + i}" for i in range(500))
            file.write_text("\n".join(["seat0,seat1,winner_seat,seed", *rows, ""]))
            games += import_matches(file, game="matrix", store="runs").imported
            time.sleep(max(0.0, min(60.0, until - time.time())))
        elif work == "tournament":
            agents = ["bot:biased", "bot:random", "bot:constant"]
            played = tournament(agents, env="matrix", games=40, seed=turn, store="runs")
            games += sum(each.games for each in played.encounters)
        else:
            games += evaluate("bot:biased", "bot:random", 100, env="matrix", seed=turn, store="runs").summary.games
    print(json.dumps({"work": work, "turns": turn, "games": games, "waited": waited}))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_processes(tmp_path: Path) -> None:
    """Three train, two evaluate, one holds tournaments, one imports a file a minute, three read, for ten minutes: no
    error, no wait, each match once."""
    trainers = [league(*TRAIN, "--seed", seed, cwd=tmp_path, **PIPES) for seed in range(3)]
    store, until = wait_for(tmp_path / "runs", 3), time.time() + SECONDS
    works = ("evaluate", "evaluate", "tournament", "import")
    others = [Process(repeat, [work, until], cwd=tmp_path, **PIPES) for work in works]
    others += [Process(poll, [until], cwd=tmp_path, **PIPES) for _ in range(3)]
    told = []
    for other in others:
        out, err = other.communicate(timeout=3000)
        assert other.returncode == 0, err
        told.append(json.loads(out.splitlines()[-1]))
    for trainer in trainers:
        trainer.send_signal(signal.SIGINT)
    for trainer in trainers:
        _, err = trainer.communicate(timeout=300)
        assert trainer.returncode == 130 and "Traceback" not in err
    print("", *told, sep="\n")
    games = sum(each["games"] for each in told[:4])
    assert store.query("SELECT count(*) FROM match WHERE kind = 'evaluation' AND run NOT LIKE 'matrix-%'")[1] == [
        (games,)
    ]
    counted = "SELECT sum(value) FROM metric WHERE name = 'matches'"
    [(trained, keys)] = store.query(
        'SELECT count(*), count(DISTINCT (run, kind, "update", "row", ordinal)) FROM match WHERE kind = \'training\''
    )[1]
    assert [(trained,)] == store.query(counted)[1] and trained == keys
    assert max(each["waited"] for each in told[:4]) < 1


WRITE = """
import sys, time
from pathlib import Path
from league.store.folder import Folder
from tests.helpers.stores import make_match
folder = Folder(Path(sys.argv[1]), print)
for update in range(1, 41):
    folder.add_matches(make_match(run=folder.name, update=update, ordinal=i) for i in range(20))
    folder.add_metrics(update, update, {"loss": 1.0})
    folder.flush(force=True)
    if update % 4 == 0:
        folder.prepare()
        folder.commit()
"""


def test_writers_and_readers_never_wait_for_each_other(tmp_path: Path) -> None:
    """Two processes write folders of one store while a reading is held in a third, and one reads again and again: the
    held one sees its moment to its end, the others every write whole, though segments are merged and removed."""
    store = empty_store(tmp_path)
    for name in ("a", "b"):
        store.begin_run(make_run(name))
    held_one = Store.open(tmp_path, pytest.fail)
    asked = "SELECT (SELECT count(*) FROM match WHERE run = r), (SELECT count(*) FROM metric WHERE run = r)"
    with held_one.reading(), python(WRITE, tmp_path / "a") as a, python(WRITE, tmp_path / "b") as b:
        looks = {"a": [0], "b": [0]}
        while looks["a"][-1] + looks["b"][-1] < 80:
            assert {a.poll(), b.poll()} <= {None, 0}
            for name, seen in looks.items():
                ((matches, updates),) = store.query(f"{asked} FROM (VALUES ('{name}')) t(r)")[1]
                assert matches == 20 * updates >= 20 * seen[-1], "no half of a write, and rows never go"
                assert len(store.matches(name, "training")) >= matches
                seen.append(updates)
        assert held_one.matches("a", "training") == held_one.matches("b", "training") == []
    assert len(held_one.matches("a", "training")) == 800
    for name in ("a", "b"):
        listing = json.loads((tmp_path / name / "segments.json").read_text())
        assert len({*looks[name]}) > 1 and len(listing["segments"]["match"]) < 8


def test_callers_that_evaluate_at_once_have_folders_of_their_own(tmp_path: Path) -> None:
    """And one that comes later takes one of those, so that there are as many as there were callers at once."""
    store = empty_store(tmp_path)
    for _ in range(2):
        with store.evaluations() as one, Store.create(tmp_path).evaluations() as other:
            assert one.path != other.path
            for row, folder in enumerate((one, other)):
                folder.add_matches([make_match(run=folder.name, kind="evaluation", row=row)])
    with pytest.raises(ZeroDivisionError), store.evaluations() as one:
        one.add_matches([make_match(run="broken off", kind="evaluation")])
        _ = 1 // 0
    assert len(store.matches("broken off", "evaluation")) == 1, "what was played is kept"
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2


def test_threads_read_and_write_at_once(tmp_path: Path) -> None:
    """Each with a store of its own; a fork reads with an engine of its own."""
    store = empty_store(tmp_path)
    store.begin_run(make_run())
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(lambda: [len(Store.open(tmp_path).runs()) for _ in range(10)]) for _ in range(4)]
        for i in range(10):
            store.add_matches([make_match(row=i)])
            store.flush()
        assert [one.result() for one in found] == [[1] * 10] * 4
    assert len(store.matches("a", "training")) == 10
    if not (child := os.fork()):
        os._exit(len(store.matches("a", "training")))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 10
