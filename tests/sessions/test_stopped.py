"""RUN@stopped: what a run had learned when it was stopped plays, and no part of the run knows of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import league
from league.errors import SnapshotError, UsageError
from league.snapshots import Agent
from league.snapshots.state import load_state
from league.store.store import Store
from tests.helpers.runs import SETS, Notes, failing, learned, stages, status, stopping, train

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
    """They are those of the saved state, between two snapshots; the next stop replaces them, the end removes them."""
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
    """Stopped after every update it is the run that was never stopped, and nowhere in the store."""
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
    """Nor one that an error ended."""
    with failing(2, ValueError("broken")), pytest.raises(ValueError, match="broken"):
        train(tmp_path, STAGE)
    with pytest.raises(UsageError, match="@stopped"):
        league.export("matrix-1@stopped", tmp_path / "out", store=tmp_path / "league.duckdb")


@pytest.mark.slow
def test_a_trainer_and_a_league_keep_them_too(tmp_path: Path) -> None:
    """Each learner of a league that has a saved state, and a custom loop that is closed before its end."""
    store = tmp_path / "league.duckdb"
    with league.Trainer(STAGE, env="matrix", overrides=SETS, store=store, callback=()) as trainer:
        trainer.learn(trainer.collect())
    assert weights(tmp_path, f"{trainer.run}@stopped")
    sets = [*SETS, "run.total_steps=512"]
    with stopping(2):
        done = league.train(league="small", stage="smoke", env="matrix", overrides=sets, store=store, callback=())
    begun = [x.run for x in done.learners if (tmp_path / x.run / "state").exists()]
    assert begun and all(weights(tmp_path, f"{run}@stopped") for run in begun)
