"""Trackers: the same numbers by the same names, no bit of training changed, no step doubled or missing."""

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import league
from league.errors import UsageError
from league.faces import sinks, trackers
from league.faces.sinks import CsvFile
from league.training.recent import action_metrics
from league.training.run import Callback, Report, Start
from league.types import ActionSpec
from tests.helpers import processes
from tests.helpers.processes import Process
from tests.helpers.refusals import refusal
from tests.helpers.runs import PAIR, SETS, Notes
from tests.helpers.sizes import SMALL, as_options
from tests.helpers.trackers import csv_rows, tensorboard_scalars, wandb_records, wandb_rows

LONG = [*SETS, "run.total_steps=640", "run.evaluate_every=256", "run.allow_short=true"]
CALL: dict[str, Any] = {"env": "matrix", "device": "cpu", "overrides": LONG, "run": "R"}
TIMED = ("seconds", "steps_per_second")
"""What two passes over the same steps differ in."""


def train(folder: Path, *names: str, notes: Any = None) -> Any:
    """A tiny run with these trackers."""
    folder.mkdir(exist_ok=True)
    callbacks = [league.track(*names), *([notes] if notes else [])]
    return league.train("smoke", **CALL, store=folder / "league.duckdb", callback=callbacks)


def lasting(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Rows without what is never the same again, and the scores of the last matches, which begin again on a resume."""
    again = "win_rate/training"
    return [{name: x for name, x in row.items() if not name.endswith(TIMED) and again not in name} for row in rows]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A run with two trackers that nothing interrupts: the folder of its store, and its result."""
    folder = tmp_path_factory.mktemp("tracked") / "a"
    return folder, train(folder, "csv", "tensorboard")


def test_names_and_numbers_are_those_of_the_store(whole: tuple[Path, Any], tmp_path: Path) -> None:
    """Each group of names is there, at each update's step; CSV, TensorBoard and the store agree; no bit is changed."""
    folder, tracked = whole
    assert tracked.newest == league.train("smoke", **CALL, store=tmp_path / "league.duckdb").newest
    rows = csv_rows(folder / "R/metrics.csv")
    assert [int(row["steps"]) for row in rows] == [0, 128, 256, 384, 512, 640]
    groups = {name.partition("/")[0] for name in rows[0]} - {"steps"}
    assert groups == {"train", "reward", "actions", "stats", "rating", "win_rate", "league"}
    last = rows[-1]
    assert float(last["rating/own_lower"]) < float(last["rating/own"]) < float(last["rating/own_upper"])
    assert 0.0 <= float(last["win_rate/evaluation/@0"]) <= 1.0 and float(last["win_rate/training/self_play"]) >= 0.0
    assert sum(float(x) for name, x in last.items() if name.startswith("actions/")) == pytest.approx(1.0)
    scalars = tensorboard_scalars(folder / "R/tensorboard")
    assert set(scalars) == set(rows[0]) - {"steps"}
    for row in rows:
        for name in scalars:
            shown = scalars[name].get(int(row["steps"]))
            assert shown == pytest.approx(float(row[name]), rel=1e-6) if row[name] else shown is None
    kept = league.leaderboard(store=folder / "league.duckdb")  # rated from the same games
    own = next(entry for entry in kept.entries if entry.name == "R@640")
    assert own.rating == pytest.approx(float(last["rating/own"]))


class Killer(Callback):
    """Kills its process once an update's numbers are in the CSV file, and W&B was given what it is given."""

    def __init__(self, folder: Path, update: int, *, waits: bool) -> None:
        self._path, self._given = folder / "metrics.csv", folder / "wandb/given.jsonl"
        self._update, self._waits = update, waits

    def report(self, report: Report) -> None:
        """Waits for them."""
        if report.update == self._update:
            while not (self._path.exists() and f"\n{report.steps}," in self._path.read_text()):
                time.sleep(0.01)
            while self._waits and not (self._given.exists() and "[128, " in self._given.read_text()):
                time.sleep(0.01)
            time.sleep(0.2)  # TensorBoard's own thread
            os.kill(os.getpid(), signal.SIGKILL)


def begin_and_die(folder: Path, names: list[str]) -> None:
    """In a process of its own: a run that is killed after four updates, of which only the first is saved."""
    train(folder, *names, notes=Killer(folder / "R", 4, waits="wandb" in names))


def killed_and_resumed(folder: Path, *names: str, late: bool = False) -> None:
    """A run that was, without naming its trackers again; `late` dates its first event file after the second."""
    folder.mkdir()
    assert Process(begin_and_die, [folder, list(names)], cwd=folder).wait(120) == -signal.SIGKILL
    for events in (folder / "R/tensorboard").glob("events*") if late else ():
        events.rename(events.with_name("events.out.tfevents.9999999999." + events.name.split(".", 4)[4]))
    with open(folder / "R/metrics.csv", "a") as torn:
        torn.write("640,4")
    assert league.resume("R", store=folder / "league.duckdb", callback=league.track()).status == "finished"


@pytest.mark.slow
def test_a_killed_run_goes_on_at_its_checkpoint(whole: tuple[Path, Any], tmp_path: Path) -> None:
    """No step is there twice or missing, and each number is that of the run that was never killed."""
    killed_and_resumed(tmp_path / "cut", "csv", "tensorboard", late=True)
    cut, expected = (csv_rows(folder / "R/metrics.csv") for folder in (tmp_path / "cut", whole[0]))
    assert lasting(cut) == lasting(expected)
    assert list(tensorboard_scalars(tmp_path / "cut/R/tensorboard")["train/entropy"]) == [128, 256, 384, 512, 640]


@pytest.mark.slow
def test_wandb_has_each_step_once_and_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline, over a kill: one id, each step once with the CSV's numbers, the settings, and the last agent's files."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    killed_and_resumed(tmp_path / "cut", "csv", "wandb")
    folder = tmp_path / "cut/R/wandb"
    rows, records = wandb_rows(folder), wandb_records(folder)
    assert [row["steps"] for row in rows] == [0, 128, 256, 384, 512, 640]
    for row, line in zip(rows, csv_rows(tmp_path / "cut/R/metrics.csv"), strict=True):
        given = {name: float(x) for name, x in line.items() if x and not name.endswith(TIMED)}
        assert {name: row[name] for name in given} == pytest.approx(given)
    runs = [record.run for record in records if record.WhichOneof("record_type") == "run"]
    assert len({run.run_id for run in runs}) == 1 and len(list(folder.glob("*-run-2*"))) == 2
    assert "rewards" in {update.key for update in runs[0].config.update}
    [artifact] = [
        each.request.log_artifact.artifact
        for each in records
        if each.WhichOneof("record_type") == "request" and each.request.HasField("log_artifact")
    ] or [each.artifact for each in records if each.WhichOneof("record_type") == "artifact"]
    assert artifact.type == "model" and {"latest", "step-640"} <= set(artifact.aliases)
    assert json.loads(artifact.metadata)["run"] == "R"


def full_disk(*_: object) -> None:
    """Refuses."""
    raise OSError(28, "No space left on device", "events")


@pytest.mark.slow
def test_a_tracker_that_fails_is_told_of_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose folder is a file, one whose disk is full, one that hangs: a line each, and training goes on.

    A folder of another store's run is left alone.
    """
    (tmp_path / "file").write_text("")
    logs, notes, hangs = tmp_path / "logs", Notes(), threading.Event()
    monkeypatch.setattr(sinks.TensorBoard, "write", full_disk)
    assert train(tmp_path / "a", f"csv={tmp_path}/file", "tensorboard", notes=notes).status == "finished"
    told = " ".join(line for line in notes.said if "log=" in line and "training goes on without it" in line)
    assert "Not a directory" in told and "No space left" in told and told.count("log=") == 2, notes.said
    (logs / "R").mkdir(parents=True)
    (logs / "R/metrics.csv").write_text("steps,a\n128,1.0\n")
    (logs / "R/.league-run").write_text("another")
    assert train(tmp_path / "b", f"csv={logs}", notes=notes).status == "finished"
    assert (logs / "R/metrics.csv").read_text() == "steps,a\n128,1.0\n"
    assert sum("is of another store's run" in line for line in notes.said) == 1
    monkeypatch.setattr(trackers, "END_SECONDS", 0.1)
    monkeypatch.setattr(CsvFile, "write", lambda *_: hangs.wait())
    assert train(tmp_path / "c", "csv", notes=notes).status == "finished"
    hangs.set()
    assert sum("has not taken all" in line for line in notes.said) == 1


def test_each_learner_of_a_league_has_its_own(tmp_path: Path) -> None:
    """Every learner's file has its own updates once each, over its turns; what it does against others is `league/`."""
    sets = [*SMALL, "run.total_steps=384", "run.evaluate_games=2", "pool.snapshot_every=128"]
    how: dict[str, Any] = {"stage": "smoke", "env": "matrix", "overrides": sets, "store": tmp_path / "s", "run": "L"}
    (tmp_path / "pair.toml").write_text(PAIR.replace("20_000", "128"))
    done = league.train(league=tmp_path / "pair.toml", **how, callback=league.track(f"csv={tmp_path / 'logs'}"))
    names: set[str] = set()
    for learner in done.learners:
        rows = csv_rows(tmp_path / "logs" / learner.run / "metrics.csv")
        assert [int(row["steps"]) for row in rows if row["train/update"]] == [128, 256, 384], learner.run
        names |= set(rows[0])
    assert {"league/win_rate/main", "league/rating/main", "league/rating/main_upper"} <= names
    assert not any("L.main@" in name for name in names) and not (tmp_path / "L.main/metrics.csv").exists()


def test_a_pipe_keeps_no_tracker_waiting(tmp_path: Path) -> None:
    """Neither as its file nor as the mark of its folder; training goes on without it."""
    (tmp_path / "logs/R").mkdir(parents=True)
    os.mkfifo(tmp_path / "logs/R/.league-run")
    notes = Notes()
    assert train(tmp_path / "b", f"csv={tmp_path / 'logs'}", notes=notes).status == "finished"
    assert sum("no regular file (training goes on without it)" in line for line in notes.said) == 1


def test_what_cannot_be_tracked_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line; of a run that goes on, a tracker whose package is missing is left out with a line."""
    for names, told in ((["tensorbord"], "`tensorboard`"), (["csv", "csv=x"], "once"), (["none", "csv"], "`none`")):
        assert told in refusal(lambda names=names: league.track(*names), UsageError)  # type: ignore[misc]
    monkeypatch.setattr(trackers, "find_spec", lambda name: None)
    assert "league-engine[wandb]" in refusal(lambda: league.track("wandb"), UsageError)
    (tmp_path / "tensorboard").mkdir()
    start = Start("R", 0, 0, 640, {}, tmp_path, "store R")
    assert "left out" in refusal(lambda: league.track().began(start))
    league.track("none").began(start)


@pytest.mark.parametrize(
    ("spec", "action", "shares"),
    [
        (ActionSpec("discrete", (3,)), [[0], [2], [2], [2]], [0.25, 0.0, 0.75]),
        (ActionSpec("multi_discrete", (2, 2)), [[0, 1], [1, 1], [1, 1], [1, 0]], [0.25, 0.75, 0.25, 0.75]),
        (ActionSpec("multi_binary", (2, 2)), [[0, 1], [1, 1], [0, 0], [0, 1]], [0.25, 0.75]),
        (ActionSpec("box", bounds=((-1.0, 1.0),)), [[0.5], [-0.5], [0.5], [0.5]], [0.25]),
        (ActionSpec("legal_tuples", (2, 9), max_tuples=4), [[0, 8], [1, 7], [1, 1], [1, 0]], [0.25, 0.75]),
    ],
)
def test_what_was_played_is_counted(spec: ActionSpec, action: list[list[float]], shares: list[float]) -> None:
    """Of keys and choices their share of the steps, of real numbers the mean; of too many nothing."""
    names = [str(i) for i in range(len(shares))]
    found = action_metrics(torch.tensor(action).reshape(2, 2, -1), spec, names)
    assert found == {f"action/{name}": pytest.approx(share) for name, share in zip(names, shares, strict=True)}
    assert action_metrics(torch.tensor(action).reshape(2, 2, -1), spec, [""] * 65) == {}


@pytest.mark.slow
def test_the_command_logs_and_goes_on(tmp_path: Path) -> None:
    """`league train --log csv`, stopped by SIGTERM, then `league resume` without it: each step once."""
    words = ["train", "--stage", "smoke", "--env", "matrix", "--run", "R", "--log", "csv", *as_options(LONG)]
    process = processes.league(*words, "--set", "run.total_steps=12800", "--store", "league.duckdb", cwd=tmp_path)
    path = tmp_path / "R/metrics.csv"
    while not (path.exists() and "\n384," in path.read_text()):
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 128 + signal.SIGTERM
    assert processes.run("resume", "R", "--store", "league.duckdb", cwd=tmp_path).returncode == 0
    assert [int(row["steps"]) for row in csv_rows(path)] == [*range(0, 12_801, 128)]
