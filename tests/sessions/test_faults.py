"""A process that dies, or a disk that refuses, at any single rename, sync or new folder of a training: what is there
afterwards goes on to what an undisturbed training comes to."""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import league
from league import Callback
from league.errors import LeagueError
from league.store import locks
from league.store.store import Store
from league.training.run import Report

CALLS = ("rename", "replace", "fsync", "mkdir", "link")
SETTINGS = [
    *("env.rows=4", "env.threads=1", "learner.rollout_steps=16", "learner.minibatch_size=64", "learner.device=cpu"),
    *("run.total_steps=320", "run.evaluate_every=128", "run.evaluate_games=2", "run.anchor_games=2"),
    *("run.checkpoint_minutes=1e-9", "pool.snapshot_every=128", "run.ladder_share=0.0", "run.rewind_every=128"),
    *("pool.snapshot_every_after=128", "run.allow_short=true"),
]
EVERY_NTH = 67
"""Of the faults tried in a short test run; the slow one tries all."""


def train(store: Path, callback: Callback | None = None) -> None:
    """Trains the run, or carries on what there is of it."""
    opened = Store.open(store) if Store.is_there(store) else None
    if opened is not None and any(row.run == "a" for row in opened.runs()):
        if opened.find_run("a").status != "finished":
            league.resume("a", store=store, callback=callback or ())
        return
    league.train("smoke", env="kuhn", run="a", seed=3, overrides=SETTINGS, store=store, callback=callback or ())


def contents(store: Path) -> dict[str, Any]:
    """All that a training leaves, but for times and what an interruption is told by."""
    opened = Store.open(store, lambda line: pytest.fail(line))
    timed = "name NOT LIKE '%seconds'"
    events = "kind NOT IN ('replaced', 'damage', 'probe', 'moved')"
    queries = {
        "match": "SELECT * EXCLUDE (finished_at) FROM match ORDER BY ALL",
        "replay": "SELECT * FROM replay ORDER BY ALL",
        "metric": f"SELECT * FROM metric WHERE {timed} ORDER BY ALL",
        "rating": "SELECT * EXCLUDE (rated_at) FROM rating ORDER BY ALL",
        "event": f"SELECT * EXCLUDE (happened_at) FROM event WHERE {events} ORDER BY ALL",
        "snapshot": "SELECT * EXCLUDE (created_at) FROM snapshot ORDER BY ALL",
        "run": 'SELECT run, status, steps, "update", fingerprint FROM run',
    }
    return {name: opened.execute(query)[1] for name, query in queries.items()}


def begun(work: Callable[[], object]) -> int:
    """The id of a process that does something."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            work()
            code = 0
        except LeagueError:
            code = 3
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return process


def code_of(process: int) -> int:
    """The exit code of a process at its end, or less than 0 where a signal ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def apart(work: Callable[[], object]) -> int:
    """Does something in a process of its own; its exit code."""
    return code_of(begun(work))


def faulty(at: int, fault: Callable[[], None]) -> Callable[[], int]:
    """From now on the call number `at` of those that change a disk has a fault; how many there were."""
    counted = 0

    def patched(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal counted
            counted += 1
            if counted == at:
                fault()
            return real(*arguments, **named)

        return call

    for name in CALLS:
        setattr(os, name, patched(getattr(os, name)))
    return lambda: counted


def die() -> None:
    """As a kill -9, or a loss of power that the disk survives."""
    os.kill(os.getpid(), signal.SIGKILL)


def refuse() -> None:
    """As a full disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], int]:
    """What a training comes to that nothing disturbs, and how many calls it makes."""
    store = tmp_path_factory.mktemp("whole")
    reader, writer = os.pipe()

    def work() -> None:
        count = faulty(0, die)
        train(store)
        os.write(writer, str(count()).encode())

    assert apart(work) == 0
    os.close(writer)
    found: dict[str, Any] = {}
    number = int(os.read(reader, 16))
    os.close(reader)
    found = contents(store)
    assert len(found["match"]) > 20 and len(found["snapshot"]) >= 3 and number > 50
    return found, number


def disturb(store: Path, at: int, fault: Callable[[], None]) -> int:
    """Trains with a fault; the exit code."""

    def work() -> None:
        faulty(at, fault)
        train(store)

    return apart(work)


def go_on(store: Path) -> None:
    """Carries on what there is, as often as it takes."""
    assert apart(lambda: train(store)) == 0


def check(folder: Path, places: list[int], fault: Callable[[], None], whole: dict[str, Any]) -> None:
    for at in places:
        store = folder / str(at)
        code = disturb(store, at, fault)
        assert code in ((-signal.SIGKILL,) if fault is die else (0, 3)), at
        go_on(store)
        found = contents(store)
        for name, rows in whole.items():
            assert found[name] == rows, (at, name)


def test_a_kill_loses_and_doubles_nothing(tmp_path: Path, undisturbed: tuple[dict[str, Any], int]) -> None:
    whole, number = undisturbed
    check(tmp_path, list(range(1, number + 1, EVERY_NTH)), die, whole)


@pytest.mark.slow
def test_a_full_disk_loses_and_doubles_nothing(tmp_path: Path, undisturbed: tuple[dict[str, Any], int]) -> None:
    whole, number = undisturbed
    check(tmp_path, list(range(2, number + 1, EVERY_NTH)), refuse, whole)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("fault", [die, refuse])
def test_a_fault_anywhere(tmp_path: Path, undisturbed: tuple[dict[str, Any], int], fault: Callable[[], None]) -> None:
    whole, number = undisturbed
    check(tmp_path, list(range(1, number + 1)), fault, whole)


class Stopper(Callback):
    """Stops its process in the middle, as a machine that hangs."""

    def report(self, report: Report) -> None:
        if report.update == 3:
            os.kill(os.getpid(), signal.SIGSTOP)


@pytest.mark.slow
def test_another_machine_takes_over_a_run(
    tmp_path: Path, undisturbed: tuple[dict[str, Any], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first machine hangs; another carries it on to what nothing disturbed; the first, awake again, writes nothing.

    This machine plays both: only their names differ, and `flock` is not asked.
    """
    monkeypatch.setattr(locks, "SILENT_SECONDS", 1.0)

    def hang() -> None:
        locks._BOOT, locks._MACHINE = "first", "first"
        train(tmp_path, Stopper())

    hung = begun(hang)
    assert os.WIFSTOPPED(os.waitpid(hung, os.WUNTRACED)[1])
    assert apart(lambda: train(tmp_path)) == 3, "without a word of ours nothing is taken"
    assert apart(lambda: league.resume("a", take_over=True, store=tmp_path, callback=())) == 0
    os.kill(hung, signal.SIGCONT)
    assert code_of(hung) == 3
    found = contents(tmp_path)
    for name, rows in undisturbed[0].items():
        assert found[name] == rows, name
