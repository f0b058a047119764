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
import subprocess
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
from league.errors import ConfigError, LeagueError, UsageError
from league.play.rollout import Collector
from league.sessions.folders import ask_to_stop
from league.store.store import Store
from league.training.run import Report
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
    """One pass of the shortest loop."""
    return one.learn(one.collect())


def events(folder: Path, kind: str = "custom_loop") -> list[str]:
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
    """Called in the order of the loop the acts give `league.train`'s run: training, evaluations, events, status."""
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
    assert rows[0].query("SELECT * EXCLUDE rated_at FROM rating ORDER BY ALL") == rows[1].query(
        "SELECT * EXCLUDE rated_at FROM rating ORDER BY ALL"
    )
    assert status(tmp_path, "matrix-1") == ("finished", 128) and len(events(tmp_path)) == 1
    assert rows[0].find_run("matrix-1").fingerprint != rows[1].find_run("matrix-1").fingerprint


def test_the_shortest_loop_learns_the_same_beside_another(whole: Path, tmp_path: Path) -> None:
    """`learn(collect())` alone takes the snapshots that are due; what else goes on in the process, such as another
    trainer, draws from the global generators and evaluations at odd times, changes nothing, nor does it to its owner.
    """
    (tmp_path / "other").mkdir()
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    drawn = []
    one, other = trainer(tmp_path), trainer(tmp_path / "other", "learner.learning_rate=0.5", seed=3)
    while one.goes_on:
        rollout = one.collect()
        drawn.append((random.random(), np.random.rand(), torch.rand(1).item()))
        one.learn(rollout)
        if other.goes_on:
            update(other)
        if one.steps in (32, 96):
            one.evaluate()
    one.close()
    other.close()
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    assert drawn == [(random.random(), np.random.rand(), torch.rand(1).item()) for _ in drawn]
    store = Store.open(tmp_path / "league.duckdb")
    a, b = (learned(Store.open(path / "league.duckdb"), "matrix-1", 99) for path in (tmp_path, whole))
    assert a["match"] == b["match"] and a["snapshot"] == b["snapshot"]
    agents = {agent_id: step for step, _, agent_id in a["snapshot"]}
    met = {(m.update, agents.get(agent)) for m in store.matches("matrix-1", "evaluation") for agent in m.agents}
    assert {(1, 32), (3, 96)} <= met, "who is evaluated is the agent of then"
    assert status(tmp_path, "matrix-1") == ("finished", 128) and status(tmp_path / "other", "matrix-1")[1] == 128


def test_whoever_stops_it_either_carries_it_on(whole: Path, tmp_path: Path) -> None:
    """A loop that is left early leaves a run that `league resume` finishes, bit for bit."""
    with trainer(tmp_path) as one:
        update(one)
        update(one)
        with pytest.raises(UsageError, match="another process trains it"):
            league.resume("matrix-1", store=tmp_path / "league.duckdb")
        assert one.goes_on
        ask_to_stop(Store.open(tmp_path), "matrix-1")
        assert not one.goes_on
    assert one.close().status == "stopped" and status(tmp_path, "matrix-1") == ("stopped", 64)
    assert league.resume("matrix-1", store=tmp_path / "league.duckdb").status == "finished"
    assert same(tmp_path, whole)


@pytest.mark.slow
def test_a_trainer_carries_on_what_another_call_began(whole: Path, tmp_path: Path) -> None:
    """A run of `league.train` that was stopped ends as it would have; who is evaluated again is not played again."""
    store = tmp_path / "league.duckdb"
    league.train("smoke", env="matrix", overrides=SETS, store=store, callback=Notes(at=3))
    with league.Trainer.resume("matrix-1", store=store) as again:
        assert again.steps == 96 and again.run == "matrix-1"
        while again.goes_on:
            update(again)
        scores = again.evaluate()
        again.save()
    assert same(tmp_path, whole, is_state=False)
    games = Store.open(store).matches("matrix-1", "evaluation")
    with pytest.raises(UsageError, match="it is finished"):
        league.Trainer.resume("matrix-1", store=store)
    assert len(games) == 2 * len(scores)


class Raise:
    """A callback that raises a signal once an update is made."""

    def __init__(self, at: int, number: int) -> None:
        self.at, self.number = at, number

    def report(self, report: Report) -> None:
        """In the middle of `learn`."""
        if report.update == self.at:
            signal.raise_signal(self.number)

    def evaluated(self, *_: object) -> None:
        """Ignored."""

    def say(self, message: str) -> None:
        """Ignored."""


def test_a_signal_waits_for_the_end_of_the_update_and_saves_the_run(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it comes while it plays or learns: Python is told when the run is saved, here even without `with`."""
    collect = Collector.collect

    def told(self: Collector, num_steps: int, number: int, num_segments: int) -> Any:
        rollout = collect(self, num_steps, number, num_segments)
        if number == 2:
            signal.raise_signal(signal.SIGINT)
        return rollout

    with monkeypatch.context() as patch:
        patch.setattr(Collector, "collect", told)
        one = trainer(tmp_path, callback=Raise(3, signal.SIGTERM))
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
    """Each in one line; the run goes on as if nobody had asked."""
    with trainer(tmp_path) as one:
        with pytest.raises(UsageError, match=r"learn\(rollout\): no rollout waits.*collect\(\) one first"):
            one.learn(None)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=r"discard\(\): no rollout waits"):
            one.discard()
        rollout = one.collect()
        for act in (one.collect, one.save, one.snapshot, one.evaluate):
            with pytest.raises(UsageError, match=rf"{act.__name__}\(\): the last rollout waits.*discard\(\) it"):
                act()
        wrong = {
            "not the rollout that collect": dataclasses.replace(rollout, action=rollout.action.clone()),
            r"its reward is torch.float32 \(3,\) on cpu; it must be": dataclasses.replace(
                rollout, reward=torch.ones(3)
            ),
            r"its reward is \[1.0\]; it must be a tensor": dataclasses.replace(rollout, reward=[1.0]),  # type: ignore[arg-type]
            "its reward is part of a graph": dataclasses.replace(
                rollout, reward=rollout.reward.clone().requires_grad_()
            ),
        }
        for words, other in wrong.items():
            with pytest.raises(UsageError, match=words):
                one.learn(other)
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
    assert same(tmp_path, whole, is_state=False) and len(events(tmp_path)) == 1


def test_no_phase_begins_within_another(tmp_path: Path) -> None:
    """From a callback or another thread it is refused in a line, and the phase around it ends as ever."""
    told: list[str] = []

    class Meddler(league.Callback):
        def report(self, report: Report) -> None:
            for act in (one.save, one.close):
                with pytest.raises(UsageError) as refused:
                    act()
                told.append(str(refused.value))

    with trainer(tmp_path, callback=Meddler()) as one:
        rollout = one.collect()
        one.learn(rollout)
        assert "waits to be learned from" in told[0] and "a phase of its trainer goes on" in told[1] and one.goes_on
        update(one)
    assert one.close().updates == 2


def test_the_working_folder_is_yours_between_phases(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store of a relative path stays where it was, and what is left is left."""
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with league.Trainer("smoke", env="matrix", overrides=(*SETS, LOOKED_AT), store="league.duckdb") as one:
        monkeypatch.chdir(tmp_path / "other")
        while one.goes_on:
            update(one)
            assert Path.cwd() == tmp_path / "other"
    assert list((tmp_path / "other").iterdir()) == [] and same(tmp_path, whole, is_state=False)


def test_a_network_that_a_loop_has_remade_is_refused(tmp_path: Path) -> None:
    """Values may change in place; a type, a shape or a parameter may not, and put back it goes on."""
    with trainer(tmp_path) as one:
        name, first = next(iter(one.policy.named_parameters()))
        kept = first.data
        first.data = kept.half()
        with pytest.raises(UsageError, match=rf"policy: parameter {name} is .*float16.*change values in place alone"):
            one.collect()
        first.data = kept
        update(one)


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
        before = {name: x.clone() for name, x in one.policy.state_dict().items()}
        assert update(one)["set/learner.learning_rate"] == 0.5 and one.config.learner.learning_rate == 0.5
        moved = max(float((x - before[name]).abs().max()) for name, x in one.policy.state_dict().items())
        assert moved > 0.3, "Adam's step is the rate"
        one.change("learner.learning_rate=0.001")
        one.snapshot()
        one.snapshot()
        assert len(one.pool.snapshots) == 4
    store = Store.open(tmp_path / "league.duckdb")
    row, plain = store.find_run("matrix-1"), Store.open(whole / "league.duckdb").find_run("matrix-1")
    assert (
        f"custom loop: a rollout of 32 steps and {len(first.finished)} finished matches is left out"
        in events(tmp_path)[1]
    )
    now = settings.from_json(json.loads(row.config))
    assert row.fingerprint not in {plain.fingerprint, settings.fingerprint(now)}
    assert (now.learner.learning_rate, now.run.evaluate_games, row.status) == (0.001, 4, "stopped")
    seeds = [match.seed for match in store.matches("matrix-1", "training")]
    assert len({*seeds}) == len(seeds) and not {*seeds} & {match.seed for match in first.finished}
    result = league.resume("matrix-1", store=store.path)
    assert (result.status, result.steps) == ("finished", 128)


def test_a_snapshot_apart_does_not_join(tmp_path: Path) -> None:
    """One that joins the pool out of its schedule does."""
    with trainer(tmp_path, "pool.snapshot_every=1000") as one:
        update(one)
        apart = one.snapshot(joins=False)
        update(one)
        assert apart not in one.pool.snapshots
        joined = one.snapshot()
        assert joined in one.pool.snapshots and joined == one.counters.newest


def test_an_error_of_the_owner_leaves_a_run_that_goes_on(whole: Path, tmp_path: Path) -> None:
    """One of the loop's owner: it is saved, its status is `failed`, and it goes on."""
    with pytest.raises(ZeroDivisionError), trainer(tmp_path) as one:
        update(one)
        update(one)
        raise ZeroDivisionError
    assert status(tmp_path, "matrix-1") == ("failed", 64)
    league.resume("matrix-1", store=tmp_path / "league.duckdb")
    assert same(tmp_path, whole)


@pytest.mark.slow
def test_an_error_in_play_leaves_the_last_save(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trainer is of no more use, the status is `failed`, and the run goes on from there."""
    store = tmp_path / "league.duckdb"
    with monkeypatch.context() as patch, pytest.raises(ValueError, match="broken"), trainer(tmp_path) as one:
        update(one)
        one.save()
        update(one)
        patch.setattr(Collector, "collect", lambda *_: (_ for _ in ()).throw(ValueError("broken")))
        with pytest.raises(ValueError, match="broken"):
            one.collect()
        assert not one.goes_on
        with pytest.raises(UsageError, match="an error has ended it; go on with"):
            one.collect()
        raise ValueError("broken")
    assert status(tmp_path, "matrix-1") == ("failed", 64)
    with league.Trainer.resume("matrix-1", store=store) as again:
        assert again.steps == 32
        while again.goes_on:
            update(again)
    assert same(tmp_path, whole, is_state=False)


def test_what_is_played_and_not_learned_is_lost_aloud(tmp_path: Path) -> None:
    """Closed between `collect` and `learn`: the number of matches is said, the run is saved before them and goes on."""
    notes = Notes()
    with trainer(tmp_path, callback=notes) as one:
        update(one)
        one.collect()
    line = "custom loop: closed before its last rollout was learned from; that and 4 matches in play are lost"
    assert events(tmp_path)[1:] == [line] and notes.said[-2].endswith(line)
    assert "matrix-1@stopped" in notes.said[-1]
    assert one.close().status == "stopped" and status(tmp_path, "matrix-1") == ("stopped", 32)
    with league.Trainer.resume("matrix-1", store=tmp_path / "league.duckdb") as again:
        update(again)
    seeds = [match.seed for match in Store.open(tmp_path / "league.duckdb").matches("matrix-1", "training")]
    assert again.steps == 64 and len({*seeds}) == len(seeds)


def test_an_alarm_that_ends_runs_ends_it(tmp_path: Path) -> None:
    """With run.on_alarm=stop no other rollout is played: one line, saved."""
    with (
        pytest.raises(LeagueError, match=r"stopped at step 32, saved, since run\.on_alarm=stop: no match"),
        trainer(tmp_path, "run.on_alarm=stop", "run.alarm_idle_steps=8", "env.rounds=500") as one,
    ):
        while one.goes_on:
            update(one)
    assert status(tmp_path, "matrix-1") == ("failed", 32)


def test_a_trainer_that_is_forgotten_is_closed(tmp_path: Path) -> None:
    """When nobody refers to it any more: saved, its lock is free, and Python is warned."""
    one: league.Trainer | None = trainer(tmp_path)
    assert one is not None
    update(one)
    with pytest.warns(ResourceWarning, match="run=matrix-1: its trainer was never closed"):
        one = None
        gc.collect()
    assert status(tmp_path, "matrix-1") == ("stopped", 32)
    assert league.Trainer.resume("matrix-1", store=tmp_path / "league.duckdb").close().steps == 32


ROOT = Path(__file__).resolve().parents[2]
CHEAP = (*SETS, "run.evaluate_games=2", "run.total_steps=160")


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """examples/own_loop.py trains with a rate that falls, looks at every bot, and stops when it beats all of them."""
    assert len((ROOT / "examples/own_loop.py").read_text().splitlines()) <= 40
    made = league.Trainer

    def tiny(stage: str, *, env: str, overrides: list[str]) -> league.Trainer:
        return made(stage, env=env, overrides=(*overrides, *CHEAP), store=tmp_path / "league.duckdb")

    monkeypatch.setattr(league, "Trainer", tiny, raising=False)
    monkeypatch.setattr(sys, "argv", ["own_loop.py", "matrix", "smoke"])
    runpy.run_path(str(ROOT / "examples/own_loop.py"))
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 3 and out[0].startswith("160 steps, entropy ") and "against bot:" in out[0]
    assert out[1].split()[:4] == ["run", "steps", "updates", "status"]
    assert out[2].split()[:4] == ["matrix-1", "160", "5", "finished"]
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
    became = {}
    for line in capsys.readouterr().out.splitlines():
        found = re.fullmatch(
            r"64 steps: (matrix-\d)@64 goes on as (matrix-\d)@64, with learner.learning_rate=(.*)", line
        )
        assert found and float(found[3]) in (0.8e-12, 1.25e-12)
        became[found[1]] = found[2]  # a member that loses two pairs goes on as the second winner
    begun, ended = (
        {name: league.load(f"{name}@{step}", store=store).policy.state_dict() for name in names} for step in (64, 128)
    )

    def apart(a: str, b: str) -> float:
        return max(float((begun[a][key] - x).abs().max()) for key, x in ended[b].items())

    assert became
    for name in names:
        assert apart(became.get(name, name), name) < 1e-6
        assert name not in became or apart(name, name) > 1e-3


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
    [shown] = re.findall(r"--set '(env\.curriculum=.*?)'\n", page, re.DOTALL)
    [table] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "a.toml").write_text(table)
    said = settings.load("test50k", env="brawl", overrides=[shown]).env.curriculum
    assert [lesson.begins for lesson in said] == [0, 20_000, 35_000]
    assert settings.load("test50k", env="brawl", config_file=tmp_path / "a.toml").env.curriculum == said[:2]


@pytest.mark.slow
def test_a_program_that_ends_without_closing_it_leaves_it_saved(tmp_path: Path) -> None:
    """At the interpreter's exit, by the end of the program or an error."""
    code = f"""
import league
one = league.Trainer("smoke", env="matrix", overrides={SETS!r}, store="league.duckdb")
one.learn(one.collect())
keep = [one]
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert status(tmp_path, "matrix-1") == ("stopped", 32)


@pytest.fixture(autouse=True)
def _generators() -> Iterator[None]:
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])
