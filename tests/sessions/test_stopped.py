"""RUN@stopped: what a run had learned when it was stopped plays, and no part of the run knows of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import league
from league.boards.leaderboards import Rated
from league.errors import LeagueError, SnapshotError, UsageError
from league.snapshots import Agent
from league.snapshots.state import load_state
from league.store.store import Store
from league.training.run import Callback, Report, Start
from tests.helpers.runs import PAIR, SETS, Notes, failing, learned, stages, status, train
from tests.helpers.sizes import SMALL

STAGE = "short"


@pytest.fixture(autouse=True)
def _stages(tmp_path: Path) -> Iterator[None]:
    with stages(tmp_path):
        yield


def weights(folder: Path, name: str) -> str:
    """The agent id of `name`, once it was exported and loaded."""
    out = folder / f"out-{name.replace('@', '-')}-{len(list(folder.glob('out-*')))}"
    league.export(name, out, store=folder / "league.duckdb")
    return Agent.load(out).manifest.agent_id


def test_a_stop_keeps_the_weights_of_now(tmp_path: Path) -> None:
    _, said = train(tmp_path, STAGE, "pool.snapshot_every=512", notes=Notes(3))
    store = Store.open(tmp_path / "league.duckdb")
    assert status(tmp_path, "matrix-1") == ("stopped", 384)
    assert any("matrix-1@stopped" in line for line in said)
    first = weights(tmp_path, "matrix-1@stopped")
    league.export("matrix-1@stopped", tmp_path / "kept", store=store.path)
    manifest = Agent.load(tmp_path / "kept").manifest
    assert (manifest.run, manifest.step, manifest.update) == ("matrix-1", 384, 3)
    state = load_state(tmp_path / "matrix-1" / "state")
    policy = Agent.load(tmp_path / "kept").policy.state_dict()
    assert all(bool((x == policy[name]).all()) for name, x in state["learner"]["policy"].items())

    manifest_of = tmp_path / "matrix-1" / "stopped" / "manifest.json"
    manifest_of.write_text(manifest_of.read_text().replace('"matrix-1"', '"another"'))
    with pytest.raises(SnapshotError, match="it holds an agent of run another; remove the folder"):
        league.export("matrix-1@stopped", tmp_path / "none", store=store.path)
    league.resume("matrix-1", store=store.path, callback=Notes(4))
    assert weights(tmp_path, "matrix-1@stopped") != first
    league.resume("matrix-1", store=store.path, callback=())
    assert not (tmp_path / "matrix-1" / "stopped").exists()
    with pytest.raises(UsageError, match="matrix-1 was not stopped on its way, or is finished since"):
        league.export("matrix-1@stopped", tmp_path / "none", store=store.path)


def test_it_plays_and_the_run_does_not_notice(tmp_path: Path) -> None:
    train(tmp_path / "whole", STAGE)
    train(tmp_path / "parts", STAGE, notes=Notes(1))
    store = tmp_path / "parts" / "league.duckdb"
    for update in range(2, 5):
        found = league.evaluate("matrix-1@stopped", "bot:random", games=2, store=store)
        assert found.a == "matrix-1@stopped"
        league.resume("matrix-1", store=store, callback=Notes(update))
    league.resume("matrix-1", store=store, callback=())
    assert learned(tmp_path / "parts", "matrix-1") == learned(tmp_path / "whole", "matrix-1")
    assert len(Store.open(store).snapshots("matrix-1")) == len(
        Store.open(tmp_path / "whole" / "league.duckdb").snapshots("matrix-1")
    )


def test_a_run_that_was_not_stopped_has_none(tmp_path: Path) -> None:
    with failing(2, ValueError("broken")), pytest.raises(ValueError, match="broken"):
        train(tmp_path, STAGE)
    with pytest.raises(UsageError, match="@stopped"):
        league.export("matrix-1@stopped", tmp_path / "out", store=tmp_path / "league.duckdb")


@pytest.mark.slow
def test_every_call_that_trains_takes_steps(tmp_path: Path) -> None:
    store = tmp_path / "league.duckdb"
    result, _ = train(tmp_path, "short", "run.rewind_every=128", steps=256)
    assert (result.steps, result.status) == (256, "finished")
    assert league.resume("matrix-1", steps=384, store=store, callback=()).steps == 384
    assert league.resume("matrix-1", at=128, steps=512, store=store, callback=()).steps == 512
    with league.Trainer.resume("matrix-1", steps=512, store=store) as trainer:
        assert trainer.config.run.total_steps == 512
    with league.Trainer("short", env="matrix", overrides=SETS, steps=128, store=store) as trainer:
        assert trainer.config.run.total_steps == 128
    done = league.train(
        league="small", stage="short", steps=128, env="matrix", overrides=SETS, store=store, callback=()
    )
    assert {x.steps for x in done.learners} == {128}
    again = league.resume(done.run, steps=256, store=store, callback=())
    assert {x.steps for x in again.learners} == {256}


@pytest.mark.slow
def test_a_script_sees_progress_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = {"env": "matrix", "overrides": SETS, "device": "cpu"}
    league.train("short", **call, store=tmp_path / "league.duckdb", run="shown")
    out, err = capsys.readouterr()
    assert out == "" and "run shown: short, preset fast" in err and "steps     640 of 640, 100%" in err
    league.resume("shown", steps=768, store=tmp_path / "league.duckdb")
    assert "steps     768 of 768, 100%" in capsys.readouterr().err
    league.train("short", **call, store=tmp_path / "league.duckdb", run="silent", callback=())
    call["overrides"] = [*SETS, "run.verbosity=0"]
    league.train("short", **call, store=tmp_path / "league.duckdb", run="quiet")
    assert capsys.readouterr() == ("", "")


CALL: dict[str, Any] = {"env": "matrix", "device": "cpu"}


class Diary(Callback):
    """Writes down whatever it is told but words; returns False after update `last`."""

    def __init__(self, last: int = 0) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.said: list[str] = []
        self.last = last

    def began(self, start: Start) -> None:
        self.told.append(("began", start.run, start.steps, start.update))
        self.start = start

    def report(self, report: Report) -> bool:
        self.told.append(("report", report.run, report.steps))
        return report.update != self.last

    def evaluated(self, steps: int, opponent: str, summary: Any) -> None:
        self.told.append(("evaluated", steps, opponent))

    def rated(self, steps: int, ratings: Any) -> None:
        [newest] = [rated.name for rated in ratings if rated.is_newest]
        self.told.append(("rated", steps, newest))

    def saved(self, steps: int) -> None:
        self.told.append(("saved", steps))

    def ended(self, steps: int, status: str) -> None:
        self.told.append(("ended", steps, status))

    def say(self, message: str) -> None:
        self.said.append(message)

    def of_kind(self, kind: str) -> list[tuple[Any, ...]]:
        """What it was told of one kind."""
        return [each[1:] for each in self.told if each[0] == kind]


def test_a_watcher_that_returns_false_ends_the_run_saved(tmp_path: Path) -> None:
    call: dict[str, Any] = {**CALL, "overrides": SETS, "store": tmp_path / "league.duckdb"}
    diary = Diary(last=3)
    cut = league.train("short", **call, callback=diary)
    rows = 640 // 5
    assert (cut.status, cut.updates, cut.signal) == ("stopped", 3, 0)
    assert diary.told[0] == ("began", "matrix-1", 0, 0) and diary.told[-1] == ("ended", 3 * rows, "stopped")
    assert diary.told[-2] == ("saved", 3 * rows) and diary.start.folder == tmp_path / "matrix-1"
    assert diary.start.config["env"]["name"] == "matrix" and diary.start.total_steps == 640
    again = Diary()
    assert league.resume(cut.run, store=call["store"], callback=[again]).status == "finished"
    assert again.told[0] == ("began", "matrix-1", 3 * rows, 3) and again.told[-1] == ("ended", 640, "finished")
    assert [steps for _, steps in again.of_kind("report")] == [512, 640]
    (tmp_path / "whole").mkdir()
    league.train("short", **{**call, "store": tmp_path / "whole/league.duckdb"})
    assert learned(tmp_path, "matrix-1") == learned(tmp_path / "whole", "matrix-1")


def test_one_watcher_hears_all_learners_of_a_league_and_may_end_it(tmp_path: Path) -> None:
    sets, store = [*SMALL, "run.total_steps=256", "run.evaluate_games=2"], tmp_path / "league.duckdb"
    diary = Diary(last=1)
    call: dict[str, Any] = {"stage": "smoke", "env": "matrix", "overrides": sets, "store": store}
    (tmp_path / "pair.toml").write_text(PAIR)
    done = league.train(league=tmp_path / "pair.toml", **call, callback=diary)
    assert done.status == "stopped" and len(diary.of_kind("report")) == 1
    again = Diary()
    done = league.resume(done.run, store=store, callback=again)
    learners = {learner.run for learner in done.learners}
    assert done.status == "finished" and {run for run, _ in again.of_kind("report")} == learners
    assert all("@" in newest for _, newest in again.of_kind("rated"))
    assert len(again.of_kind("ended")) == len(learners) == len({run for run, *_ in again.of_kind("began")})


class Failing(Callback):
    """Its service is down."""

    def report(self, report: Report) -> None:
        raise LeagueError("no route to the service")

    def rated(self, steps: int, ratings: list[Rated]) -> None:
        raise LeagueError("no route to the service")


def test_a_watcher_that_fails_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    diary = Diary()
    call: dict[str, Any] = {**CALL, "overrides": SETS, "store": tmp_path / "league.duckdb"}
    assert league.train("short", **call, callback=[Failing(), diary]).status == "finished"
    assert len(diary.of_kind("report")) == 5 and not caplog.records
    assert [line for line in diary.said if "route" in line] == ["no route to the service"]
    with caplog.at_level(logging.WARNING, logger="league.sessions.callbacks"):
        league.train("short", **call, callback=Failing())
    assert [record.getMessage() for record in caplog.records].count("no route to the service") == 1


def test_a_loop_of_ones_own_hears_of_it(tmp_path: Path) -> None:
    diary = Diary(last=2)
    call: dict[str, Any] = {**CALL, "overrides": SETS, "store": tmp_path / "league.duckdb", "callback": diary}
    with league.Trainer("short", **call) as trainer:
        while trainer.goes_on:
            trainer.learn(trainer.collect())
        assert trainer.counters.update == 2
        trainer.learn(trainer.collect())
    assert diary.told[-1] == ("ended", 3 * 128, "stopped")
