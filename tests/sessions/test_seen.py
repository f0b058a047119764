"""What can be seen of a run while it goes on: after a stop at any update it is what it would have been without.

The comparison walks over whole objects, so that a field that is new belongs to it by itself.
"""

import csv
import dataclasses
import math
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import league
from league.errors import LeagueError
from league.faces.trackers import track
from league.store.store import Store
from league.training.recent import WINDOW
from league.training.run import Callback, Report
from league.training.training import Training
from tests.helpers.cases import cases
from tests.helpers.runs import SETS, stages
from tests.sessions.test_leagues import LEAGUE

CALL: dict[str, Any] = {"env": "matrix", "device": "cpu"}
MORE = (
    *("run.evaluate_every=128", "run.alarm_kl=1e-9", "run.alarm_silent_matches=5", "env.rounds=3"),
    *("learner.learning_rate={0=1e-2, 384=1e-3}", "rewards.win={0=1.0, 640=0.5}", "learner.adaptive_kl=0.01"),
)
TIMES = ("seconds", "steps_per_second", "seconds_left", "time_goes_to", "rate/")
"""Parts of the names of numbers that say how fast the machine was."""
MACHINERY = {
    "run": "its guards, counters and settings are compared; the rest is this process's files and callbacks",
    "_state": "emptied where the run went on",
    "_clock": "seconds until the next save",
    "_has_news": "since the last save",
    "_is_mark": "since the last save",
    "_has_begun": "in this process",
    "collector": "compared by its `state_dict`",
    "learner": "compared by its `state_dict`",
    "pool": "compared by its `state_dict` and its metrics",
    "_generator": "the collector's",
}
"""Fields of a training that the walk leaves out, and why."""


def walked(x: Any) -> Any:
    """An object as plain values: everything that hangs on it, but for how fast the machine was."""
    if isinstance(x, Mapping):
        named = {str(key): value for key, value in x.items()}
        return {key: walked(value) for key, value in sorted(named.items()) if not any(part in key for part in TIMES)}
    if isinstance(x, list | tuple | deque):
        return [walked(item) for item in x]
    if isinstance(x, torch.Tensor | np.ndarray):
        return np.asarray(x.detach() if isinstance(x, torch.Tensor) else x).tolist()
    if isinstance(x, float) and math.isnan(x):
        return "nan"
    if x is None or isinstance(x, str | bytes | int | float | Path):
        return x
    if dataclasses.is_dataclass(x):
        return walked({field.name: getattr(x, field.name) for field in dataclasses.fields(x)})
    if callable(x) and not type(x).__module__.startswith("league."):
        return "a function"
    assert type(x).__module__.startswith("league."), f"{type(x)} cannot be compared"
    return walked({name: value for name, value in vars(x).items() if name not in ("_pool", "_learner")})


def seen_in(training: Training) -> Any:
    """All of a training that does not belong to its process."""
    own = {name: value for name, value in vars(training).items() if name not in MACHINERY}
    parts = {name: getattr(training, name).state_dict() for name in ("collector", "learner", "pool")}
    run = training.run
    told = training.pool.metrics(), training.pool.agent_metrics()
    return walked([own, parts, told, run.guards, run.counters, run.config.scheduled(), training.alarm])


class Seen(Callback):
    """Keeps all that a callback can see, with every field, but for where the run begins, is saved and ends."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.last = 0

    def report(self, report: Report) -> bool:
        """Kept; ends the run after update `last`."""
        self.told.append(["report", walked(report)])
        return report.update != self.last

    def evaluated(self, *arguments: Any) -> None:
        """Kept."""
        self.told.append(["evaluated", walked(arguments)])

    def rated(self, *arguments: Any) -> None:
        """Kept."""
        self.told.append(["rated", walked(arguments)])

    def say(self, message: str) -> None:
        """Alarms are kept."""
        if message.startswith("alarm"):
            self.told.append(["say", message])

    def in_order(self) -> list[Any]:
        """The events, each kind in its order: ratings may come an update later."""
        return sorted(self.told, key=lambda each: each[0])


@contextmanager
def looking() -> Iterator[dict[int, Any]]:
    """Within it what is seen of a training is kept by update, as its loop goes on to the next one or ends."""
    found: dict[int, Any] = {}
    learn = Training.learn

    def look(self: Training, rollout: Any) -> dict[str, float]:
        metrics = learn(self, rollout)
        found[self.counters.update] = seen_in(self)
        return metrics

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "learn", look)
        yield found


def columns(path: Path) -> list[dict[str, str]]:
    """The rows of a tracker's CSV file, without what says how fast the machine was."""
    with open(path, newline="", encoding="utf-8") as file:
        return [{k: v for k, v in row.items() if not any(x in k for x in TIMES)} for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Seen, dict[int, Any]]:
    """A run that was not stopped: its folder, what its callback saw, and what was seen of it after each update."""
    folder, callback = tmp_path_factory.mktemp("whole"), Seen()
    with stages(folder), looking() as found:
        league.train(
            "short",
            **CALL,
            run="r",
            overrides=[*SETS, *MORE],
            store=folder / "league.duckdb",
            callback=[callback, track("csv")],
        )
    assert sorted(found) == [1, 2, 3, 4, 5] and {kind for kind, _ in callback.told} == {
        *("report", "evaluated", "rated", "say")
    }
    return folder, callback, found


@pytest.mark.parametrize("stops", cases((2,), slow=[((1,),), ((3,),), ((4,),), ((1, 2, 3, 4),)]))
def test_a_stopped_run_shows_what_one_shows_that_was_not(
    stops: tuple[int, ...], whole: tuple[Path, Seen, dict[int, Any]], tmp_path: Path
) -> None:
    """Every field of what callbacks, trackers and alarms see, and of the training itself, update by update."""
    folder, expected, found = whole
    callback, store = Seen(), tmp_path / "league.duckdb"
    with stages(tmp_path), looking() as again:
        for i, stop in enumerate([*stops, 0]):
            callback.last, callbacks = stop, [callback, track("csv")]
            if i:
                league.resume("r", store=store, callback=callbacks)
            else:
                league.train("short", **CALL, run="r", overrides=[*SETS, *MORE], store=store, callback=callbacks)
    for update, there in found.items():
        assert again[update] == there, f"after update {update}"
    assert callback.in_order() == expected.in_order()
    assert columns(tmp_path / "r" / "metrics.csv") == columns(folder / "r" / "metrics.csv")


def test_a_callback_that_ends_a_run_at_a_win_rate_ends_it_at_the_same_step(tmp_path: Path) -> None:
    """Whether the run was stopped before or not: the window of the last matches goes on."""

    class Until(Callback):
        """Ends the run at update `stop`, or where the window is full and the score at least a half."""

        def __init__(self, stop: int) -> None:
            self.stop, self.steps = stop, 0

        def report(self, report: Report) -> bool:
            """As the class says."""
            self.steps = report.steps
            is_full = report.rewards[0].matches == WINDOW
            return not (report.update == self.stop or (is_full and report.win_rates["bot:biased"] >= 0.5))

    ends = []
    sets = [*SETS, "run.total_steps=2560", 'pool.mix={self_play=0.0, "bot:biased"=1.0}', "run.allow_short=true"]
    for stop in (0, 3):
        store = tmp_path / str(stop) / "league.duckdb"
        store.parent.mkdir()
        callback = Until(stop)
        result = league.train("smoke", **CALL, run="r", overrides=sets, store=store, callback=callback)
        if stop:
            assert result.updates == stop
            league.resume("r", store=store, callback=callback)
        ends.append(callback.steps)
    assert ends[0] == ends[1] and 640 <= ends[0] < 2560


@pytest.mark.slow
def test_the_window_of_a_leagues_learner_goes_on_over_turns_and_ends_with_a_reset(tmp_path: Path) -> None:
    """Every score that is reported is that of the learner's last matches as the store has them, since its reset."""
    reports: dict[str, list[Report]] = {}

    class Listener(Callback):
        """Keeps reports."""

        def report(self, report: Report) -> None:
            """Kept."""
            reports.setdefault(report.run, []).append(report)

    (tmp_path / "tiny.toml").write_text(LEAGUE)
    store = Store.create(tmp_path / "league.duckdb")
    league.train(league=tmp_path / "tiny.toml", env="matrix", run="L", seed=3, store=store.path, callback=Listener())
    resets = store.query("SELECT run, \"update\" - 1 FROM event WHERE kind = 'reset'")[1]
    assert len(resets) >= 3
    for run, told in reports.items():
        matches = store.matches(run, "training")
        for report in told:
            since = max((update for name, update in resets if name == run and update < report.update), default=0)
            own = [m for m in matches if since < m.update <= report.update]
            assert report.rewards[0].matches == min(len(own), WINDOW), (run, report.update)
            rate = report.win_rates.get("bot:random")
            scores = [m.score_of(run) for m in own if "bot:random" in m.agents][-WINDOW:]
            assert rate == (sum(scores) / len(scores) if scores else None), (run, report.update)
    assert reports.keys() == {"L.main", "L.exploiter", "L.breadth"}


@pytest.mark.slow
def test_an_alarm_at_the_update_of_a_stop_ends_the_run_once_it_goes_on(tmp_path: Path) -> None:
    """With `run.on_alarm=stop`: resumed, it ends where the run would have ended; resumed again, it goes on."""
    store, callback = tmp_path / "league.duckdb", Seen()
    sets = [*SETS, "run.alarm_kl=1e-9", "run.on_alarm=stop", "learner.learning_rate=0.1"]
    with stages(tmp_path):
        callback.last = 1
        result = league.train("short", **CALL, run="r", overrides=sets, store=store, callback=callback)
        assert (result.status, result.updates) == ("stopped", 1) and [x[0] for x in callback.told[1:]] == ["say"]
        with pytest.raises(LeagueError, match=r"run=r: stopped at step 128, saved, since run\.on_alarm=stop: KL"):
            league.resume("r", store=store)
        assert league.resume("r", overrides=["run.on_alarm=warn"], store=store).status == "finished"


def test_what_was_changed_by_hand_is_a_metric_after_a_resume(tmp_path: Path) -> None:
    """`set/NAME` is there at every later update, also of a trainer that goes on."""
    sets, store = [*SETS, "run.total_steps=512", "run.allow_short=true"], tmp_path / "league.duckdb"
    with league.Trainer("smoke", **CALL, run="r", overrides=sets, store=store) as trainer:
        trainer.learn(trainer.collect())
        trainer.change("learner.learning_rate=1e-4")
        trainer.learn(trainer.collect())
    with league.Trainer.resume("r", store=store) as trainer:
        metrics = trainer.learn(trainer.collect())
    assert metrics["set/learner.learning_rate"] == 1e-4
