"""The prefix promise: a short stage is, bit for bit, the beginning of the long one, whatever else a stage may set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import league
from league import config as config_module
from league.boards.standings import leaderboard
from league.config import SOURCE
from league.config.models import RunConfig
from league.snapshots.state import load_state
from league.store.store import Store
from tests.helpers.cases import cases
from tests.helpers.runs import Notes
from tests.helpers.sizes import SMALL_AGENT
from tests.helpers.states import flat

SETS = (
    *("env.rows=8", "learner.rollout_steps=16", "learner.minibatch_size=64", "pool.snapshot_every=256"),
    *SMALL_AGENT,
)
MOVING = (
    *("learner.learning_rate={256=1e-3, 1_024=1e-4}", "learner.segments={0=1, 700=2}", "learner.epochs={0=6, 800=3}"),
    *("rewards.payoff={0=1.0, 1_280=2.0}", 'pool.mix={self_play={0=0.8, 1_280=0.6}, "bot:random"={0=0.2, 1_280=0.4}}'),
    *("pool.recent_window={0=3, 900=1}", "learner.adaptive_kl={299=0.0, 300=2e-6}"),
    *("learner.rate_share={400=1.0, 401=0.5}", "learner.magnet=0.1"),
)
"""Schedules, with an edge in each stage."""
STAGES = """
[stage.short]
run.total_steps = 640
run.evaluate_games = 4
run.allow_short = true
run.verbosity = 2
env.strict_masks = true

[stage.long]
run.continues = "short"
run.total_steps = 1_280
run.evaluate_every = 256
run.evaluate_games = 2
run.checkpoint_minutes = 0.001
run.allow_short = true
"""
OTHERWISE = {
    "total_steps": "run.total_steps=1024",
    "evaluate_every": "run.evaluate_every=128",
    "evaluate_games": "run.evaluate_games=6",
    "anchor_games": "run.anchor_games=8",
    "evaluate_share": "run.evaluate_share=0.0",
    "ladder_share": "run.ladder_share=0.5",
    "ladder_older": "run.ladder_older=1",
    "replays": "run.replays=3",
    "checkpoint_minutes": "run.checkpoint_minutes=0.00001",
    "rewind_every": "run.rewind_every=128",
    "rewind_states": "run.rewind_states=2",
    "verbosity": "run.verbosity=0",
    "continues": "run.continues=test50k",
    "allow_short": "run.allow_short=true",
    "on_alarm": "run.on_alarm=stop",
    "alarm_kl": "run.alarm_kl=0.5",
    "alarm_idle_steps": "run.alarm_idle_steps=2",
    "alarm_silent_matches": "run.alarm_silent_matches=1",
    "alarm_random_steps": "run.alarm_random_steps=0",
    "strict_masks": "env.strict_masks=true",
}
"""Each setting that a stage may set, otherwise than `smoke` with `SETS` has it, or at least set."""


ALONE = ("total_steps", "on_alarm")
"""A longer run has no snapshot at its end, and alarms that others raise would stop it."""


def train(folder: Path, stage: str, *sets: str, env: str = "matrix", **more: Any) -> Store:
    """A run in `folder`, and its store."""
    league.train(stage, env=env, device="cpu", overrides=sets, store=folder / "league.duckdb", **more)
    return Store.open(folder / "league.duckdb")


def learned(store: Store, run: str, upto: int) -> dict[str, list[Any]]:
    """All that a run's learning wrote up to an update: matches, snapshots, metrics but for times of the clock, Elo."""
    columns = "* EXCLUDE (run, finished_at)"
    where = f"run = '{run}' AND \"update\" <= {upto}"
    _, matches = store.query(f"SELECT {columns} FROM match WHERE {where} AND kind = 'training' ORDER BY ALL")
    _, snapshots = store.query(f'SELECT step, "update", agent_id FROM snapshot WHERE {where} ORDER BY step')
    _, metrics = store.query(
        f"SELECT * EXCLUDE (run) FROM metric WHERE {where} AND name NOT LIKE '%_seconds' ORDER BY ALL"
    )
    return {"match": list(map(repr, matches)), "snapshot": snapshots, "metric": list(map(repr, metrics))}


def learning_state(folder: Path, run: str) -> dict[str, Any]:
    """What a run goes on from but its rows and what evaluation counts: learner with optimiser, pool, matches in play.

    Left out is the spare row of the opponents' memory, which padded entries of stacked nets play: it means nothing.
    """
    state = load_state(folder / run / "state")
    for lane in state["collector"]["lanes"]:
        memory = lane["opponent_state"]
        for name, x in memory.items():
            memory[name] = x[:, :-1] if name in ("keys", "values") else x[:-1]
    counters = {name: state["counters"][name] for name in ("update", "steps", "next_snapshot")}
    own = {name: x for name, x in state.items() if name not in ("rows", "id")}
    return flat({**own, "counters": counters})


@pytest.fixture
def _stages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "hyperparameters.toml"
    path.write_text(SOURCE.read_text(encoding="utf-8") + STAGES, encoding="utf-8")
    monkeypatch.setattr(config_module, "SOURCE", path)


@pytest.mark.usefixtures("_stages")
@pytest.mark.parametrize(
    ("env", "sets"), cases(("matrix", (*SETS, *MOVING)), slow=[("brawl", (*SETS, "env.time_limit_seconds=2"))])
)
def test_the_short_stage_is_the_long_ones_beginning(env: str, sets: tuple[str, ...], tmp_path: Path) -> None:
    short = train(tmp_path / "short", "short", *sets, env=env)
    cut = train(tmp_path / "cut", "long", *sets, env=env, fresh=True, callback=Notes(5))
    run = f"{env}-1"
    ended, going = learned(short, run, 5), learned(cut, run, 5)
    last = ended["snapshot"].pop()  # of the stage's last weights, to be evaluated; it joins no pool
    assert last[0] == 640 and ended == going and going["match"]
    states = [learning_state(tmp_path / folder, run) for folder in ("short", "cut")]
    assert states[0] == states[1] and len(states[0]) > 50
    elo = [leaderboard(store).boards[0].learners[0].elo for store in (short, cut)]
    assert elo[0] == elo[1] != 1000

    carried = train(tmp_path / "short", "long", *sets, env=env)
    league.resume(run, store=tmp_path / "cut" / "league.duckdb")
    ended, going = learned(carried, run, 10), learned(cut, run, 10)
    ended["snapshot"].remove(last)
    assert ended == going and len(going["snapshot"]) == 6
    assert learning_state(tmp_path / "short", run) == learning_state(tmp_path / "cut", run)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([tuple(sorted(OTHERWISE.keys() - {*ALONE})), *((name,) for name in ALONE)], id="most at once"),
        pytest.param([(name,) for name in OTHERWISE], id="each by itself", marks=pytest.mark.slow),
    ],
)
def test_nothing_that_a_stage_may_set_changes_learning(changes: list[tuple[str, ...]], tmp_path: Path) -> None:
    assert OTHERWISE.keys() == {*RunConfig.model_fields, "strict_masks"}, "a new setting belongs here, too"
    base = train(tmp_path / "base", "smoke", *SETS, "run.total_steps=640", "env.strict_masks=false")
    expected = learned(base, "matrix-1", 5)
    assert [row[0] for row in expected["snapshot"]] == [0, 256, 512, 640]
    for names in changes:
        changed = [OTHERWISE[name] for name in names]
        other = train(tmp_path / names[0], "smoke", *SETS, "run.total_steps=640", "env.strict_masks=false", *changed)
        found = learned(other, "matrix-1", 5)
        if names == ("total_steps",):  # the stage is not over there, so its last weights are no snapshot
            found["snapshot"].append(expected["snapshot"][-1])
        assert found == expected, names
