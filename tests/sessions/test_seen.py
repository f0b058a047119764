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
from league.faces.trackers import track
from league.training.run import Callback, Report
from league.training.training import Training
from tests.helpers.cases import cases
from tests.helpers.runs import SETS, stages

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
        self.told.append(["evaluated", walked(arguments)])

    def rated(self, *arguments: Any) -> None:
        self.told.append(["rated", walked(arguments)])

    def say(self, message: str) -> None:
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
