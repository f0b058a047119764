"""How long a run is: `steps` in every call, and a name that says so where it is not the stage's length."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import league
from league import config as settings
from league.store.store import Store
from tests.helpers.runs import SETS, Notes, stages, status, train


@pytest.fixture(autouse=True)
def _stages(tmp_path: Path) -> Iterator[None]:
    with stages(tmp_path):
        yield


@pytest.mark.slow
def test_every_call_that_trains_takes_steps(tmp_path: Path) -> None:
    """They are `run.total_steps` of a new run, a resumed or rewound one, a loop and a league."""
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


def test_a_run_of_other_steps_is_not_called_its_stage(tmp_path: Path) -> None:
    """It is called its steps, in its first line and its row, also once it goes on to more."""
    store = tmp_path / "league.duckdb"
    _, said = train(tmp_path, "short", steps=384)
    assert said[0].startswith("run matrix-1: 384 steps, preset fast")
    assert Store.open(store).find_run("matrix-1").stage == "384 steps"
    train(tmp_path, "short", run="other", notes=Notes(2))
    assert Store.open(store).find_run("other").stage == "short"
    notes = Notes()
    league.resume("other", steps=768, store=store, callback=notes)
    assert any(line.startswith("run other: resuming 768 steps") for line in notes.said)
    assert Store.open(store).find_run("other").stage == "768 steps"


def test_a_longer_stage_carries_on_a_run_of_its_own_length(tmp_path: Path) -> None:
    """It is the beginning of the long stage as the short stage is."""
    train(tmp_path, "short", steps=384)
    result, said = train(tmp_path, "long")
    assert (result.run, *status(tmp_path, "matrix-1")) == ("matrix-1", "finished", 1280)
    assert any("carrying on matrix-1 (384 steps, same fingerprint and seed) from step 384" in line for line in said)
    assert settings.longer_stages("384 steps", 384) == ["10m", "long"]
    assert settings.longer_stages("2,000 steps", 2_000) == ["10m"] and settings.longer_stages("10m", 10**7) == []


def test_a_script_sees_progress_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a callback a training shows what the command does; `callback=()` and `run.verbosity=0` show nothing."""
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
