"""Several processes on one store: trainers, readers that poll, one that is killed; nobody fails, nothing is lost."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from league.boards.standings import leaderboard
from league.store.liveness import runs
from league.store.locks import LOCK, alone, held, is_held
from league.store.store import Store
from tests.helpers.phases import Told
from tests.helpers.processes import Process, league, run
from tests.helpers.sizes import SMALL, as_options
from tests.helpers.stores import python

TRAIN = [
    *("train", "--stage", "smoke", "--env", "matrix", "--device", "cpu", "--json"),
    *as_options([*SMALL, "pool.snapshot_every=512", "run.evaluate_every=2560", "run.total_steps=100_000_000"]),
    *("--set", "run.checkpoint_minutes=0.05"),
]
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


def poll(until: float) -> None:
    """Reads boards, statuses and rows of the store up to a time (of `time.time`), and prints what it found."""
    store = Store.open("runs/league.duckdb")
    looks, longest, games = 0, 0.0, 0
    while time.time() < until or looks < 4:
        started = time.monotonic()
        assert leaderboard(store).boards
        statuses = {run.run: status for run, status in runs(store)}
        rows = store.query("SELECT count(*) FROM match")[1]
        assert rows[0][0] >= games, "rows never go"
        games = rows[0][0]
        looks, longest = looks + 1, max(longest, time.monotonic() - started)
        time.sleep(0.05)
    print(json.dumps({"looks": looks, "longest": longest, "games": games, "statuses": statuses}))


def wait_for(store: Path, count: int) -> Store:
    """The store once `count` runs of it have made an update."""
    for _ in range(6000):
        if store.exists() and sum(run.update > 0 for run in Store.open(store).runs()) == count:
            return Store.open(store)
        time.sleep(0.05)
    raise AssertionError("the trainers made no update")


@pytest.mark.parametrize("seconds", [2, pytest.param(240, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
def test_two_trainers_and_three_readers(seconds: float, tmp_path: Path) -> None:
    """Nobody fails; every run's match rows are as many as its learner counted, no update is missing; `runs` knows who
    lives: both at first, then one that was killed has died, and one that was stopped is stopped."""
    trainers = [league(*TRAIN, "--seed", seed, cwd=tmp_path, **PIPES) for seed in range(2)]
    store = wait_for(tmp_path / "runs/league.duckdb", 2)
    assert {run.run: status for run, status in runs(store)} == {"matrix-1": "running", "matrix-2": "running"}
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
    assert {run.run: status for run, status in runs(store)} == {stopped: "stopped", other: "died"}
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


HOLD = """
import sys
from league.store.store import Store
with Store.open(sys.argv[1]).reading():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_reader_that_stays_does_not_stop_the_training(tmp_path: Path) -> None:
    """While one reader keeps the store, updates go on; their rows come when it lets go."""
    trainer = Told(*TRAIN, "--quiet", "--set", "run.checkpoint_minutes=10", cwd=tmp_path, **PIPES)
    store = wait_for(tmp_path / "runs/league.duckdb", 1)
    with python(HOLD, tmp_path / "runs/league.duckdb") as reader:
        assert reader.stdout is not None and reader.stdout.readline() == "held\n"
        held_at, updates = time.monotonic(), 0
        while updates < 3:
            assert trainer.until("learn")
            updates += trainer.at > held_at
        assert reader.poll() is None
        reader.communicate("")
    trainer.process.send_signal(signal.SIGINT)
    out, err = trainer.process.communicate(timeout=120)
    trainer.close()
    assert trainer.process.returncode == 130 and "Traceback" not in err
    written = store.query("SELECT count(*) FROM metric WHERE name = 'matches'")[1][0][0]
    assert written == json.loads(out)["updates"]


def test_a_lock_tells_who_holds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Held, let go, without a file, and last held on another machine; looking does not keep anybody from locking."""
    path = tmp_path / LOCK
    assert is_held(path) is None
    with alone("it", tmp_path):
        assert is_held(path) is True
        monkeypatch.setattr("league.store.locks.platform.node", lambda: "elsewhere")
        assert is_held(path) is True, "on any machine, since it is seen to be held"
    assert is_held(path) is None
    monkeypatch.undo()
    assert is_held(path) is False
    looker = (
        "import sys; from league.store.locks import *; from pathlib import Path\nwhile True: is_held(Path(sys.argv[1]))"
    )
    with python(looker, path):
        for _ in range(300):
            with held(path):
                pass
