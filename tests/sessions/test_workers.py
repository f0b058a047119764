"""Runs with worker processes: what they learn does not depend on them, and one that dies loses nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import league
from league.envs import registry
from league.envs.workers import processes as pool
from league.errors import LeagueError
from league.store.store import Store
from tests.helpers.cases import cases
from tests.helpers.games import new_user
from tests.helpers.runs import Notes, at_update, learned, stopping
from tests.helpers.sizes import TINY

GAME = """
from league.envs import Match


class Sums(Match):
    obs_size, action, obs_range = 1, 4, (-1.0, 1.0)
    bots = {"two": lambda observation, legal, rng: int(rng.integers(2))}

    def reset(self, rng):
        self.rng, self.steps = rng, 0

    def observe(self, seat):
        return [self.steps / 5]

    def legal(self, seat):
        return [0, 1, 2 + seat]

    def step(self, actions):
        self.steps += 1
        if self.steps == 5 or self.rng.random() < 0.1:
            self.end((None, 0, 1)[(actions[0] - actions[1]) % 3])
"""
SETS = [*TINY, "env.strict_masks=false"]


@pytest.fixture(autouse=True)
def _user(tmp_path: Path) -> Iterator[None]:
    (tmp_path / "sums.py").write_text(GAME)
    with new_user(tmp_path):
        yield


def train(folder: Path, run: str, *sets: str, notes: Notes | None = None) -> Any:
    store = folder / "league.duckdb"
    env, callback = str(folder / "sums.py"), notes or Notes()
    return league.train("smoke", env=env, overrides=[*SETS, *sets], store=store, run=run, callback=callback)


@pytest.mark.parametrize("more", cases("learner.overlap=true", slow=["learner.overlap=false", "env.strict_masks=true"]))
@pytest.mark.slow
def test_a_run_is_the_same_with_any_number_of_workers(more: str, tmp_path: Path) -> None:
    store = tmp_path / "league.duckdb"
    train(tmp_path, "one", more)
    with stopping(1):
        assert train(tmp_path, "many", more, "env.workers=2").updates == 1
    notes = Notes()
    assert league.resume("many", store=store, overrides=["env.workers=1"], callback=notes).status == "finished"
    assert learned(tmp_path, "one") == learned(tmp_path, "many") and not pool._pools
    made: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        make = registry.make
        patch.setattr(registry, "num_cores", lambda: 2)
        patch.setattr(
            registry, "make", lambda *a, workers=0, **k: made.append(workers) or make(*a, workers=workers, **k)
        )
        scores = [league.evaluate(run, "bot:two", games=4, store=store, device="cpu") for run in ("one", "many")]
    assert made == [0, 1, 0]  # the last is of one row, which says what the game is
    assert scores[0].summary == scores[1].summary and not pool._pools
    assert not [line for line in notes.said if "lost" in line or "otherwise" in line]
    one, many = (Store.open(store).find_run(run) for run in ("one", "many"))
    assert one.fingerprint == many.fingerprint and one.source == many.source


@pytest.mark.slow
def test_a_worker_that_dies_ends_a_run_that_can_go_on(tmp_path: Path) -> None:
    def kill() -> None:
        [found] = pool._pools.values()
        os.kill(found.pids[1], signal.SIGKILL)

    with (
        at_update(1, kill),
        pytest.raises(LeagueError, match=r"worker 2 of 2 .rows 2 to 3. died, signal SIGKILL") as found,
    ):
        train(tmp_path, "r", "env.workers=2")
    assert "saved" in str(found.value) and "league resume r" in str(found.value) and "\n" not in str(found.value)
    store = Store.open(tmp_path / "league.duckdb")
    assert store.find_run("r").status == "failed" and "worker_died" in [event.kind for event in store.events("r")]
    assert not pool._pools
    assert league.resume("r", store=tmp_path / "league.duckdb").status == "finished"


def test_a_game_that_fails_in_a_worker_before_the_run_begins_changes_nothing(tmp_path: Path) -> None:
    dying = GAME.replace("self.rng, self.steps = rng, 0", "self.rng, self.steps = rng, 0; self.die()")
    dying += "\n    def die(self):\n        import os, sys\n        if 'torch' not in sys.modules: os._exit(3)\n"
    (tmp_path / "sums.py").write_text(dying)
    with pytest.raises(LeagueError, match=r"worker 1 of 2 .* died, exit code 3; it printed nothing"):
        train(tmp_path, "r", "env.workers=2")
    with pytest.raises(LeagueError, match="no store"):
        Store.open(tmp_path / "league.duckdb").find_run("r")
