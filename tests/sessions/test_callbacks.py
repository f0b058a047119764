"""Who watches a training: what it is told when, several at once, one that ends the run, and one that fails."""

import logging
from pathlib import Path
from typing import Any

import pytest

import league
from league.boards.leaderboards import Rated
from league.errors import LeagueError
from league.training.run import Callback, Report, Start
from tests.helpers.runs import PAIR, SETS, learned, stages
from tests.helpers.sizes import SMALL

CALL: dict[str, Any] = {"env": "matrix", "device": "cpu"}


class Diary(Callback):
    """Writes down whatever it is told but words; returns False after update `last`."""

    def __init__(self, last: int = 0) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.said: list[str] = []
        self.last = last

    def began(self, start: Start) -> None:
        """Kept."""
        self.told.append(("began", start.run, start.steps, start.update))
        self.start = start

    def report(self, report: Report) -> bool:
        """Kept."""
        self.told.append(("report", report.run, report.steps))
        return report.update != self.last

    def evaluated(self, steps: int, opponent: str, summary: Any) -> None:
        """Kept."""
        self.told.append(("evaluated", steps, opponent))

    def rated(self, steps: int, ratings: Any) -> None:
        """Kept."""
        [newest] = [rated.name for rated in ratings if rated.is_newest]
        self.told.append(("rated", steps, newest))

    def saved(self, steps: int) -> None:
        """Kept."""
        self.told.append(("saved", steps))

    def ended(self, steps: int, status: str) -> None:
        """Kept."""
        self.told.append(("ended", steps, status))

    def say(self, message: str) -> None:
        """Kept."""
        self.said.append(message)

    def of_kind(self, kind: str) -> list[tuple[Any, ...]]:
        """What it was told of one kind."""
        return [each[1:] for each in self.told if each[0] == kind]


def test_a_watcher_that_returns_false_ends_the_run_saved(tmp_path: Path) -> None:
    """It ends after that update, can be resumed, and is then the run that it would have been, match for match."""
    with stages(tmp_path):
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


def test_what_a_watcher_is_told_of_evaluations(tmp_path: Path) -> None:
    """Of each evaluation the games, then the ratings with the newest snapshot by name, before the end."""
    diary = Diary()
    with stages(tmp_path):
        league.train("short", **CALL, overrides=SETS, store=tmp_path / "league.duckdb", callback=(diary, Diary()))
    steps = {at for at, _ in diary.of_kind("evaluated")}
    assert steps and 640 in steps and (640, "matrix-1@640") in diary.of_kind("rated")
    assert steps <= {at for at, _ in diary.of_kind("rated")} and diary.told[-1][0] == "ended"


def test_one_watcher_hears_all_learners_of_a_league_and_may_end_it(tmp_path: Path) -> None:
    """Reports say whose they are; False ends the league, which goes on to its end when it is resumed."""
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
        """Fails."""
        raise LeagueError("no route to the service")

    def rated(self, steps: int, ratings: list[Rated]) -> None:
        """Fails, too."""
        raise LeagueError("no route to the service")


def test_a_watcher_that_fails_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The others hear of it in one line and are told all the rest; where there is no other the log does."""
    diary = Diary()
    with stages(tmp_path):
        call: dict[str, Any] = {**CALL, "overrides": SETS, "store": tmp_path / "league.duckdb"}
        assert league.train("short", **call, callback=[Failing(), diary]).status == "finished"
        assert len(diary.of_kind("report")) == 5 and not caplog.records
        assert [line for line in diary.said if "route" in line] == ["no route to the service"]
        with caplog.at_level(logging.WARNING, logger="league.sessions.callbacks"):
            league.train("short", **call, callback=Failing())
    assert [record.getMessage() for record in caplog.records].count("no route to the service") == 1


def test_a_watcher_whose_look_up_fails_ends_nothing(tmp_path: Path) -> None:
    """A property, and `__getattr__`, are code of the callback, too."""

    class Odd(Diary):
        @property
        def report(self) -> Any:  # type: ignore[override]
            raise KeyError("report")

        of = report

    odd = Odd()
    with stages(tmp_path):
        call: dict[str, Any] = {**CALL, "overrides": SETS, "store": tmp_path / "league.duckdb"}
        assert league.train("short", **call, callback=odd).status == "finished"
    assert odd.of_kind("ended")


def test_a_loop_of_ones_own_hears_of_it(tmp_path: Path) -> None:
    """`goes_on` is false once a callback has returned False; a loop that goes on all the same may."""
    diary = Diary(last=2)
    call: dict[str, Any] = {**CALL, "overrides": SETS, "store": tmp_path / "league.duckdb", "callback": diary}
    with stages(tmp_path), league.Trainer("short", **call) as trainer:
        while trainer.goes_on:
            trainer.learn(trainer.collect())
        assert trainer.counters.update == 2
        trainer.learn(trainer.collect())
    assert diary.told[-1] == ("ended", 3 * 128, "stopped")
