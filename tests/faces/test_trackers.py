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
from league.cli import main
from league.errors import UsageError
from league.faces import sinks, trackers
from league.faces.sinks import CsvFile
from league.training.recent import action_metrics
from league.training.run import Callback, Report, Start
from league.types import ActionSpec
from tests.helpers import processes
from tests.helpers.processes import Process
from tests.helpers.runs import PAIR, SETS, Notes
from tests.helpers.sizes import SMALL, as_options
from tests.helpers.trackers import csv_rows, tensorboard_scalars, wandb_records, wandb_rows

LONG = [*SETS, "run.total_steps=640", "run.evaluate_every=256", "run.allow_short=true"]
CALL: dict[str, Any] = {"env": "matrix", "device": "cpu", "overrides": LONG, "run": "R"}
TIMED = ("seconds", "steps_per_second")
"""What two passes over the same steps differ in."""


def train(folder: Path, *names: str, notes: Any = None, **more: Any) -> Any:
    """A tiny run with these trackers."""
    folder.mkdir(exist_ok=True)
    callbacks = [league.track(*names), *([notes] if notes else [])]
    return league.train("smoke", **{**CALL, **more}, store=folder / "league.duckdb", callback=callbacks)


def start_at(folder: Path, steps: int = 0) -> Start:
    """A run that begins or goes on there."""
    return Start("R", steps, steps // 128, 640, {}, folder, "store R")


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
    plain = league.train("smoke", **CALL, store=tmp_path / "league.duckdb")
    assert tracked.newest == plain.newest
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
        for name, text in row.items():
            if name != "steps":
                shown = scalars[name].get(int(row["steps"]))
                assert shown == pytest.approx(float(text), rel=1e-6) if text else shown is None
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


def killed_and_resumed(folder: Path, *names: str) -> None:
    """A run that was, without naming its trackers again."""
    folder.mkdir()
    assert Process(begin_and_die, [folder, list(names)], cwd=folder).wait(120) == -signal.SIGKILL
    assert len(csv_rows(folder / "R/metrics.csv")) == 5
    assert league.resume("R", store=folder / "league.duckdb", callback=league.track()).status == "finished"


def test_a_killed_run_goes_on_at_its_checkpoint(whole: tuple[Path, Any], tmp_path: Path) -> None:
    """No step is there twice or missing, and each number is that of the run that was never killed."""
    killed_and_resumed(tmp_path / "cut", "csv", "tensorboard")
    cut, expected = (csv_rows(folder / "R/metrics.csv") for folder in (tmp_path / "cut", whole[0]))
    assert lasting(cut) == lasting(expected)
    scalars = tensorboard_scalars(tmp_path / "cut/R/tensorboard")
    assert list(scalars["train/entropy"]) == [128, 256, 384, 512, 640]


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


@pytest.mark.slow
def test_wandb_changes_no_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same weights are learned with it."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    (tmp_path / "b").mkdir()
    plain = league.train("smoke", **CALL, store=tmp_path / "b/league.duckdb")
    assert train(tmp_path / "a", "wandb").newest == plain.newest


def test_a_tracker_that_fails_is_told_of_once(tmp_path: Path) -> None:
    """One whose folder is a file and one whose disk is full: a line each, and the third has everything."""
    (tmp_path / "file").write_text("")
    notes = Notes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sinks.TensorBoard, "write", full_disk)
        done = train(tmp_path / "a", f"csv={tmp_path}/file", "tensorboard", notes=notes)
    assert done.status == "finished"
    told = [line for line in notes.said if "log=" in line]
    assert len(told) == 2 and all("training goes on without it" in line for line in told), told
    assert "Not a directory" in told[0] + told[1] and "No space left" in told[0] + told[1]


def full_disk(*_: object) -> None:
    """Refuses."""
    raise OSError(28, "No space left on device", "events")


def test_a_tracker_that_hangs_does_not_keep_the_run_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training goes on meanwhile; at its end it is given up in one line."""
    hangs, notes = threading.Event(), Notes()
    monkeypatch.setattr(trackers, "END_SECONDS", 0.1)
    monkeypatch.setattr(CsvFile, "write", lambda *_: hangs.wait())
    assert train(tmp_path / "a", "csv", notes=notes).status == "finished"
    hangs.set()
    [told] = [line for line in notes.said if "log=csv" in line]
    assert "has not taken all" in told


def test_each_learner_of_a_league_has_its_own(tmp_path: Path) -> None:
    """Every learner's file has its own updates once each, over its turns; what it does against others is `league/`."""
    sets = [*SMALL, "run.total_steps=256", "run.evaluate_games=2", "pool.snapshot_every=128"]
    store = tmp_path / "league.duckdb"
    call: dict[str, Any] = {"stage": "smoke", "env": "matrix", "overrides": sets, "store": store, "run": "L"}
    (tmp_path / "pair.toml").write_text(PAIR)
    done = league.train(league=tmp_path / "pair.toml", **call, callback=league.track(f"csv={tmp_path / 'logs'}"))
    names: set[str] = set()
    for learner in done.learners:
        rows = csv_rows(tmp_path / "logs" / learner.run / "metrics.csv")
        made = [int(row["steps"]) for row in rows if row["train/update"]]
        assert made == [128, 256], learner.run
        names |= set(rows[0])
    assert {"league/win_rate/main", "league/rating/main", "league/rating/main_upper"} <= names
    assert not any("L.main@" in name for name in names) and not (tmp_path / "L.main/metrics.csv").exists()


def test_a_csv_file_is_filled_in_and_cut(tmp_path: Path) -> None:
    """Late numbers go into their step's row, new names make columns, and what lies past the checkpoint is cut off."""
    file = CsvFile(tmp_path, start_at(tmp_path))
    file.write(128, {"a": 1.0})
    file.write(256, {"a": 2.0})
    file.write(128, {"b,\n": 0.5})
    file.write(384, {"a": 3.0, "b,\n": 0.25})
    file.write(192, {"a": 1.5})
    file.write(256, {"b,\n": 1e-300})
    file.close("stopped")
    path = tmp_path / "metrics.csv"
    rows = csv_rows(path)
    assert [(row["steps"], row["a"], row["b,\n"]) for row in rows] == [
        *(("128", "1.0", "0.5"), ("192", "1.5", ""), ("256", "2.0", "1e-300"), ("384", "3.0", "0.25"))
    ]
    with open(path, "a") as torn:
        torn.write("512,4")
    CsvFile(tmp_path, start_at(tmp_path, 256)).close("stopped")
    assert csv_rows(path) == rows[:3]


def test_a_folder_of_another_store_s_run_is_left_alone(tmp_path: Path) -> None:
    """A run of the same name elsewhere loses nothing to this one, which trains on without the tracker."""
    logs, notes = tmp_path / "logs", Notes()
    (logs / "R").mkdir(parents=True)
    (logs / "R/metrics.csv").write_text("steps,a\n128,1.0\n")
    (logs / "R/.league-run").write_text("another")
    assert train(tmp_path / "a", f"csv={logs}", notes=notes).status == "finished"
    assert (logs / "R/metrics.csv").read_text() == "steps,a\n128,1.0\n"
    assert sum("is of another store's run" in line for line in notes.said) == 1


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["tensorbord"], "did you mean `tensorboard`"),
        (["csv", "csv=x"], "name each tracker once"),
        (["none", "csv"], "or `none` alone"),
    ],
)
def test_what_cannot_be_tracked_is_refused(names: list[str], told: str) -> None:
    """In one line, before anything begins."""
    with pytest.raises(UsageError, match=told):
        league.track(*names)


def test_a_missing_package_is_told_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named, it is refused; of a run that goes on it is left out with a line."""
    monkeypatch.setattr(trackers, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs wandb, .*pip install 'league-engine\[wandb\]'"):
        league.track("wandb")
    (tmp_path / "tensorboard").mkdir()
    with pytest.raises(UsageError.__mro__[1], match="left out"):
        league.track().began(start_at(tmp_path))
    league.track("none").began(start_at(tmp_path))


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


@pytest.mark.parametrize("words", [("train",), ("exploit", "bot:biased")])
def test_the_command_refuses_a_tracker_that_is_not(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, with exit code 2, and nothing is made."""
    store = str(tmp_path / "league.duckdb")
    monkeypatch.setattr("sys.argv", ["league", *words, "--log", "tensorbord", "--store", store])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and "did you mean `tensorboard`" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


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
