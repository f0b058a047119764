"""`league tune`: what it tries, what it chooses, and that its file is one for --config."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from league.arena.games import load_settings
from league.bench import tune as tuning
from league.bench.tune import Trial, tune
from league.config import fingerprint
from league.errors import UsageError

SMALL = ("env.rows=8", "learner.rollout_steps=4", "learner.minibatch_size=16", "learner.epochs=1")


def scripted(monkeypatch: pytest.MonkeyPatch, rate: Callable[[Trial], float]) -> None:
    """Trials measure what `rate` says of them."""

    def measured(trial: Trial, *given: object) -> Trial:
        return replace(trial, train_steps_per_second=rate(trial))

    monkeypatch.setattr(tuning, "_measured", measured)
    monkeypatch.setattr("os.cpu_count", lambda: 4)


def test_it_measures_and_writes_a_file_for_config(tmp_path: Path) -> None:
    """Every trial has rates; the file is TOML that leaves rows and all else of learning as they are but for lanes."""
    before, said = torch.get_num_threads(), []
    found = tune(env="matrix", seconds=1, overrides=SMALL, say=said.append)
    assert torch.get_num_threads() == before and len(said) == len(found.trials)
    assert all(min(x.play_steps_per_second, x.learn_samples_per_second) > 0 for x in found.trials)
    file = tmp_path / "machine.toml"
    file.write_text(found.toml)
    usual, tuned = (load_settings(env="matrix", config_file=x, overrides=SMALL)[0] for x in (None, file))
    assert tuned.env.rows == usual.env.rows
    assert tuned.model_copy(update={"env": usual.env, "learner": usual.learner}) == usual
    assert fingerprint(tuned) == fingerprint(usual) or found.best.lanes != found.usual.lanes


def test_each_thing_is_changed_from_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of the networks first, then the game's, lanes, and rows, which are told and not taken."""
    scripted(
        monkeypatch,
        lambda x: 100.0 * (1 + (x.net_threads == 4)) * (1 + (x.lanes == 2)) * (1.5 if x.rows >= 128 else 1.0),
    )
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    found = tune(seconds=60)
    assert (found.best.net_threads, found.best.lanes, found.best.rows) == (4, 2, 64)
    assert [x.rows for x in found.faster_rows] == [128] and found.is_whole
    assert tomllib.loads(found.toml) == {"learner": {"overlap": True}}
    assert "# Run with OMP_NUM_THREADS=4" in found.toml and "# env.rows = 128: 1.50 times" in found.toml


def test_time_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings as they are are measured whatever it takes; then trials begin while there is time."""
    clock = iter(float(10 * i) for i in range(100))
    scripted(monkeypatch, lambda x: 100.0)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    found = tune(seconds=25)
    assert len(found.trials) == 3 and not found.is_whole


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), 1e9])
def test_seconds_that_cannot_be(seconds: float) -> None:
    """One line names the rule."""
    with pytest.raises(UsageError, match="seconds="):
        tune(seconds=seconds)
