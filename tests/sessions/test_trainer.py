"""`league.Trainer`: a loop of one's own is a run as any other, whatever its owner does between the acts."""

from __future__ import annotations

import dataclasses
import gc
import io
import json
import random
import re
import runpy
import signal
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import league
from league import config as settings
from league.errors import ConfigError, UsageError
from league.play.rollout import Collector
from league.store.store import Store
from tests.helpers.runs import Notes, status
from tests.helpers.sizes import TINY
from tests.training.test_prefix import learned, learning_state

SETS = (*TINY, "agent.opponent_encoder=false", "env.rounds=3", "run.total_steps=128")
"""Four updates of 32 steps; a snapshot at each."""
LOOKED_AT = "run.evaluate_every=64"


def trainer(folder: Path, *sets: str, **more: Any) -> league.Trainer:
    """One of a tiny run in `folder`."""
    store = folder / "league.duckdb"
    return league.Trainer("smoke", env="matrix", overrides=(*SETS, *sets), store=store, **more)


def update(one: league.Trainer) -> dict[str, float]:
    return one.learn(one.collect())


def events(folder: Path, kind: str = "by_hand") -> list[str]:
    """The messages of a run's events of a kind."""
    found = Store.open(folder / "league.duckdb").query(f"SELECT message FROM event WHERE kind = '{kind}'")[1]
    return [message.removeprefix("run=matrix-1: ") for (message,) in found]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of `league.train`."""
    folder = tmp_path_factory.mktemp("whole")
    league.train("smoke", env="matrix", overrides=(*SETS, LOOKED_AT), store=folder / "league.duckdb")
    return folder


def same(folder: Path, whole: Path, *, is_state: bool = True) -> bool:
    """Whether both runs learned the same, bit for bit: rows, metrics, snapshots, and the state with the weights."""
    a, b = (learned(Store.open(path / "league.duckdb"), "matrix-1", 99) for path in (folder, whole))
    if is_state:
        assert learning_state(folder, "matrix-1") == learning_state(whole, "matrix-1")
    assert a == b and len(a["match"]) > 10
    return True


def test_the_same_acts_are_the_same_run(whole: Path, tmp_path: Path) -> None:
    with trainer(tmp_path, LOOKED_AT) as one:
        while one.goes_on:
            if one.is_snapshot_due:
                one.snapshot()
            if one.is_evaluation_due:
                one.evaluate(newest=True)
            update(one)
        scores = one.evaluate()
        assert scores == one.evaluate() and scores["bot:random"].games == 2 and one.is_finished
    assert one.close().status == "finished" and one.steps == 128
    assert same(tmp_path, whole)
    rows = [Store.open(path / "league.duckdb") for path in (tmp_path, whole)]
    assert rows[0].matches("matrix-1", "evaluation") == rows[1].matches("matrix-1", "evaluation")
    ratings = [row.query("SELECT * EXCLUDE rated_at FROM rating ORDER BY ALL") for row in rows]
    assert ratings[0] == ratings[1] and status(tmp_path, "matrix-1") == ("finished", 128) and not events(tmp_path)
    assert rows[0].find_run("matrix-1").fingerprint == rows[1].find_run("matrix-1").fingerprint


def drawn() -> tuple[float, float, float]:
    return random.random(), np.random.rand(), torch.rand(1).item()


def seed_all() -> None:
    """The global generators begin at 5."""
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)


def test_the_shortest_loop_learns_the_same_beside_another(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    seed_all()
    found = []
    with trainer(tmp_path) as one, trainer(tmp_path / "other", "learner.learning_rate=0.5", seed=3) as other:
        while one.goes_on:
            rollout = one.collect()
            found.append(drawn())
            one.learn(rollout)
            update(other)
            if one.steps in (32, 96):
                one.evaluate()
    seed_all()
    assert found == [drawn() for _ in found]
    store = Store.open(tmp_path / "league.duckdb")
    a, b = (learned(Store.open(path / "league.duckdb"), "matrix-1", 99) for path in (tmp_path, whole))
    assert a["match"] == b["match"] and a["snapshot"] == b["snapshot"]
    agents = {agent_id: step for step, _, agent_id in a["snapshot"]}
    met = {(m.update, agents.get(agent)) for m in store.matches("matrix-1", "evaluation") for agent in m.agents}
    assert {(1, 32), (3, 96)} <= met, "who is evaluated is the agent of then"


def test_whoever_stops_it_either_carries_it_on(whole: Path, tmp_path: Path) -> None:
    with trainer(tmp_path) as one:
        update(one)
        update(one)
        with pytest.raises(UsageError, match="another process trains it"):
            league.resume("matrix-1", store=tmp_path / "league.duckdb")
    assert one.close().status == "stopped" and status(tmp_path, "matrix-1") == ("stopped", 64)
    assert league.resume("matrix-1", store=tmp_path / "league.duckdb").status == "finished"
    assert same(tmp_path, whole)


def test_a_signal_waits_for_the_end_of_the_update_and_saves_the_run(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect = Collector.collect

    def told(self: Collector, num_steps: int, number: int, num_segments: int) -> Any:
        rollout = collect(self, num_steps, number, num_segments)
        if number == 2:
            signal.raise_signal(signal.SIGINT)
        return rollout

    with monkeypatch.context() as patch:
        patch.setattr(Collector, "collect", told)
        one = trainer(tmp_path, callback=Notes(3, signal.SIGTERM))
        update(one)
        rollout = one.collect()
        with pytest.raises(KeyboardInterrupt):
            one.learn(rollout)
        assert learning_state(tmp_path, "matrix-1")["/counters/update"] == 2
        with pytest.raises(SystemExit) as ended:
            update(one)
        assert ended.value.code == 128 + signal.SIGTERM and one.close().status == "stopped"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert league.resume("matrix-1", store=tmp_path / "league.duckdb").status == "finished"
    assert same(tmp_path, whole)


def test_acts_out_of_order_are_refused_and_lose_nothing(whole: Path, tmp_path: Path) -> None:
    with trainer(tmp_path) as one:
        with pytest.raises(UsageError, match=r"learn\(rollout\): no rollout waits.*collect\(\) one first"):
            one.learn(None)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=r"discard\(\): no rollout waits"):
            one.discard()
        rollout = one.collect()
        for act in (one.collect, one.save, one.snapshot, one.evaluate):
            with pytest.raises(UsageError, match=rf"{act.__name__}\(\): the last rollout waits.*discard\(\) it"):
                act()
        with pytest.raises(UsageError, match="not the rollout that collect"):
            one.learn(dataclasses.replace(rollout, action=rollout.action.clone()))
        with pytest.raises(UsageError, match=r"its reward is .* it must be"):
            one.learn(dataclasses.replace(rollout, reward=torch.ones(3)))
        for change, words in {
            "learner.learning_rate=-1": "learner.learning_rate=-1",
            "env.rows=4": "env.rows: play is made of it.*league.Trainer.resume",
            "learner.gamma=0.5": "a run keeps this setting",
        }.items():
            with pytest.raises(ConfigError, match=words):
                one.change(change)
        one.learn(rollout)
        with pytest.raises(UsageError, match="no rollout waits"):
            one.learn(rollout)
        while one.goes_on:
            update(one)
        with pytest.raises(UsageError, match="its 128 steps are done"):
            one.collect()
        one.evaluate()
    with pytest.raises(UsageError, match=r"it is closed; go on with `league.Trainer.resume\('matrix-1'\)`"):
        one.save()
    assert same(tmp_path, whole, is_state=False) and not events(tmp_path)


def test_what_is_done_otherwise_is_written_down(whole: Path, tmp_path: Path) -> None:
    """A rollout left out, other rewards, a snapshot and a learning rate by hand: each is an event, and the run has a
    fingerprint that no settings have. What was left out is in no row, and nothing counts twice."""
    with trainer(tmp_path) as one:
        first = one.collect()
        one.discard()
        assert one.steps == 0 and len(first.finished) > 0
        rollout = one.collect()
        one.learn(dataclasses.replace(rollout, reward=rollout.reward * 0.5))
        one.snapshot()  # due, so as `league.train` does
        rollout = one.collect()
        rollout.reward.mul_(0.5)
        one.learn(rollout)
        one.policy.load_state_dict({name: 0.9 * x for name, x in one.policy.state_dict().items()})
        one.change("learner.learning_rate=0.5", "run.evaluate_games=4")
        assert update(one)["set/learner.learning_rate"] == 0.5 and one.config.learner.learning_rate == 0.5
        one.change("learner.learning_rate=0.001")
        one.snapshot()
        one.snapshot()
        assert len(one.pool.snapshots) == 4
    store = Store.open(tmp_path / "league.duckdb")
    row, plain = store.find_run("matrix-1"), Store.open(whole / "league.duckdb").find_run("matrix-1")
    assert [line.removeprefix("by hand: ").partition(" of 32")[0] for line in events(tmp_path)] == [
        "a rollout",
        "learns from rollouts that were changed after they were played",
        "weights are changed between acts",
        "from step 64 on with learner.learning_rate=0.5",
        "from step 64 on with run.evaluate_games=4",
    ]
    assert f"a rollout of 32 steps and {len(first.finished)} finished matches is left out" in events(tmp_path)[0]
    now = settings.from_json(json.loads(row.config))
    assert row.fingerprint not in {plain.fingerprint, settings.fingerprint(now)}
    assert (now.learner.learning_rate, now.run.evaluate_games, row.status) == (0.001, 4, "stopped")
    seeds = [match.seed for match in store.matches("matrix-1", "training")]
    assert len({*seeds}) == len(seeds) and not {*seeds} & {match.seed for match in first.finished}
    result = league.resume("matrix-1", store=store.path)
    assert (result.status, result.steps) == ("finished", 128)


def test_what_is_played_and_not_learned_is_lost_aloud(tmp_path: Path) -> None:
    notes = Notes()
    with trainer(tmp_path, callback=notes) as one:
        update(one)
        one.collect()
    [line] = events(tmp_path)
    assert "lost" in line and "4 matches" in line and notes.said[-2].endswith(line)
    assert status(tmp_path, "matrix-1") == ("stopped", 32)
    with league.Trainer.resume("matrix-1", store=tmp_path / "league.duckdb") as again:
        update(again)
    seeds = [match.seed for match in Store.open(tmp_path / "league.duckdb").matches("matrix-1", "training")]
    assert again.steps == 64 and len({*seeds}) == len(seeds)


def test_a_trainer_that_is_forgotten_is_closed(tmp_path: Path) -> None:
    one: league.Trainer | None = trainer(tmp_path)
    assert one is not None
    update(one)
    with pytest.warns(ResourceWarning, match="run=matrix-1: its trainer was never closed"):
        one = None
        gc.collect()
    assert status(tmp_path, "matrix-1") == ("stopped", 32)
    assert league.Trainer.resume("matrix-1", store=tmp_path / "league.duckdb").close().steps == 32


ROOT = Path(__file__).resolve().parents[2]


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """examples/own_loop.py trains with a rate that falls, looks at every bot, and stops when it beats all of them."""
    assert len((ROOT / "examples/own_loop.py").read_text().splitlines()) <= 40
    made = league.Trainer

    def tiny(stage: str, *, env: str, overrides: list[str]) -> league.Trainer:
        return made(
            stage, env=env, overrides=(*overrides, *SETS, "run.total_steps=160"), store=tmp_path / "league.duckdb"
        )

    monkeypatch.setattr(league, "Trainer", tiny, raising=False)
    monkeypatch.setattr(sys, "argv", ["own_loop.py", "matrix", "smoke"])
    runpy.run_path(str(ROOT / "examples/own_loop.py"))
    out = capsys.readouterr().out.splitlines()
    assert "against bot:" in out[0] and out[2].split()[:4] == ["matrix-1", "160", "5", "finished"]
    store = Store.open(tmp_path / "league.duckdb")
    rates = store.query("SELECT value FROM metric WHERE name = 'set/learner.learning_rate' ORDER BY \"update\"")[1]
    assert [round(rate * 1e3, 3) for (rate,) in rates] == [1.0, 0.8, 0.6, 0.4, 0.2]


@pytest.mark.slow
def test_a_population_copies_the_winner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """examples/population.py: who loses a pair goes on with the winner's weights and figures 0.8 or 1.25 times its."""
    example = runpy.run_path(str(ROOT / "examples/population.py"))
    train_population = example["train_population"]
    train_population.__globals__["CLEARLY"] = 0.5  # so that each pair has a loser
    still, store = "learner.learning_rate", tmp_path / "league.duckdb"  # at such a rate weights remain what is copied
    names = train_population(
        "smoke", {still: 1e-12}, members=3, every=64, games=10, env="matrix", store=store,
        overrides=(*SETS, f"{still}=1e-12"),
    )  # fmt: skip
    assert sorted(names) == ["matrix-1", "matrix-2", "matrix-3"]
    became = re.findall(r"64 steps: (matrix-\d)@64 goes on as (matrix-\d)@64, with .*=(.*)\n", capsys.readouterr().out)
    assert became and all(float(rate) in (0.8e-12, 1.25e-12) for _, _, rate in became)
    goes_on_as = {name: other for name, other, _ in became}  # who loses two pairs goes on as the second winner
    for name in names:
        begun, ended = (
            league.load(f"{agent}@{step}", store=store).policy.state_dict()
            for agent, step in ((goes_on_as.get(name, name), 64), (name, 128))
        )
        assert max(float((begun[key] - x).abs().max()) for key, x in ended.items()) < 1e-6


@pytest.mark.slow
def test_the_page_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop of docs/trainer.md, and the settings of a curriculum that it shows."""
    page = (ROOT / "docs/trainer.md").read_text(encoding="utf-8")
    [(code, printed)] = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    made = league.Trainer
    small = ("run.total_steps=4096", "run.evaluate_games=2", "agent.lstm_size=16", "agent.observation_width=16")

    def smaller(stage: str, *, env: str, store: str) -> league.Trainer:
        return made(stage, env=env, overrides=small, store=tmp_path / store)

    monkeypatch.setattr(league, "Trainer", smaller, raising=False)
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(code, "docs/trainer.md", "exec"), {})  # noqa: S102, the page's own
    assert out.getvalue() == printed


@pytest.fixture(autouse=True)
def _generators() -> Iterator[None]:
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])
