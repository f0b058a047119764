"""Sweeps: a planted optimum is found with few runs, and a sweep that was killed, stopped or shared goes on as one."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

import league
from league import config
from league.boards.leaderboards import Rated
from league.config import parse_override
from league.config.written import toml
from league.errors import ConfigError, LeagueError
from league.sessions import sweeps
from league.sessions.objectives import Measured, RunObjective, rating_of
from league.sessions.sweep_files import SweepSpace
from league.sessions.sweep_journal import Journal
from league.sessions.sweep_results import SweepResult
from league.sessions.sweeps import read_sweep, sweep
from league.store.locks import held
from league.store.store import Store
from league.training.run import Start
from tests.helpers.commands import call, need_refusal
from tests.helpers.refusals import refusal
from tests.helpers.runs import at_update
from tests.helpers.sizes import TINY

ROOT = Path(__file__).resolve().parents[2]
RATE = "learner.learning_rate = { low = 1e-5, high = 1e-1, log = true }"
BEST_RATE = 2e-3


def file_of(folder: Path, space: str = RATE, top: str = "", more: Sequence[str] = (), name: str = "tiny") -> Path:
    """A sweep's file over tiny runs of kuhn."""
    sets = {f"{section}.{key}": value for section, key, value in map(parse_override, (*TINY, *more))}
    lines = [f'"{name}" = {toml(value)}' for name, value in sets.items()]
    path = folder / f"{name}.toml"
    path.write_text("\n".join([top, '[train]\nenv = "kuhn"', "[train.set]", *lines, "[space]", space]))
    return path


class Planted:
    """In place of trainings: a run's number depends on its learning rate, and on its seed by chance.

    readings: by which `rated` is called on the way.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, noise: float = 0.3, readings: int = 0) -> None:
        self.noise, self.readings = noise, readings
        self.values: dict[str, float] = {}
        self.read = 0
        monkeypatch.setattr(sweeps, "trained", self.trained)
        monkeypatch.setattr(RunObjective, "measure", self.measure)

    def trained(self, name: str, seed: int, training: Any, sets: Sequence[str], store: Path, callback: Any) -> Any:
        """As `league.sessions.objectives.trained`; a bad setting is bad from its first reading on."""
        rate = float(next(text for text in sets if "learning_rate" in text).partition("=")[2])
        value = -((math.log10(rate) - math.log10(BEST_RATE)) ** 2)
        self.values[name] = value + self.noise * np.random.default_rng([seed, int(rate * 1e9)]).normal()
        for watch in callback:
            watch.began(Start(name, 0, 0, 100, {}, store, ""))
            for step in range(self.readings):
                self.read += 1
                ratings = [Rated("x", value, value, value, True), Rated("bot:y", 0.0, 0.0, 0.0, False)]
                if watch.rated(10 + step, ratings) is False:
                    return name, -1
        return name, 0

    def measure(self, run: str, seed: int, store: Path, env: str | None) -> Measured:
        """As `RunObjective.measure`."""
        return Measured(self.values[run], 0.1)


def same(result: SweepResult) -> list[Any]:
    """What two sweeps must have alike."""
    return [(x.trial, x.status, x.settings, x.runs, x.values) for x in result.tried]


# Searching, racing, pruning


def test_a_planted_optimum_is_found_with_few_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under noise: the best is near it on all seeds, most settings get few, and what is not decided is near, too."""
    Planted(monkeypatch)
    said: list[str] = []
    result = sweep(file_of(tmp_path), 40, store=tmp_path / "runs", say=said.append)
    best = result.best
    assert best is not None and len(result.tried) == 40 and result.direction == "maximize"
    assert abs(math.log10(best.settings["learner.learning_rate"] / BEST_RATE)) < 0.5
    runs = [len(x.runs) for x in result.tried]
    assert len(best.values) == 5 and sum(runs) == len(said) < 0.65 * 40 * 5 and runs.count(1) >= 5
    far = {x.trial: abs(math.log10(x.settings["learner.learning_rate"] / BEST_RATE)) for x in result.tried}
    assert max(far[x.trial] for x in result.tried if not x.is_told) < 1.5
    near = [x for x in result.tried if far[x.trial] < 0.2]
    assert len(near) >= 8 and sum(x.is_told for x in near) < 0.2 * len(near)
    assert sum(x.is_told for x in result.tried) >= 4
    assert all(x.needed is None or x.needed > 3 for x in result.tried)
    assert result.tried[0].lower < np.mean(best.values) < result.tried[0].upper


def test_the_settings_as_they_are_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a sweep tells whether it found better ones; where they cannot be drawn it does without."""
    Planted(monkeypatch)
    first = sweep(file_of(tmp_path), 1, store=tmp_path / "a").tried[0]
    assert first.settings == {"learner.learning_rate": config.load(env="kuhn").learner.learning_rate}
    space = f"{RATE}\nlearner.gamma = {{ low = 0.1, high = 0.2 }}"
    assert sweep(file_of(tmp_path, space), 1, store=tmp_path / "b").tried[0].settings["learner.gamma"] < 0.2


def test_every_kind_of_value_is_drawn_as_its_model_wants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole numbers, steps, choices of words, lists and tables; each is a setting that the models take."""
    Planted(monkeypatch)
    space = [
        RATE,
        "learner.epochs = { low = 1, high = 9, step = 2 }",
        "learner.clip = { low = 0.1, high = 0.5, step = 0.1 }",
        "rewards.payoff = { low = 1, high = 2 }",
        'pool.sampler = { choices = ["recent", "uniform"] }',
        "agent.head_sizes = { choices = [[4], [8, 8]] }",
        "pool.mix = { choices = [{ current = 1.0 }, { current = 0.5, self_play = 0.5 }] }",
        "learner.target_kl = { choices = ['off', 0.02] }",
    ]
    path = file_of(tmp_path, "\n".join(space))
    result = sweep(path, 12, store=tmp_path / "runs")
    drawn = {name: [x.settings[name] for x in result.tried] for name in result.tried[0].settings}
    assert {*drawn["learner.epochs"]} <= {1, 3, 5, 7, 9} and all(type(x) is int for x in drawn["learner.epochs"])
    assert all(type(x) is float for x in drawn["rewards.payoff"])
    assert {str(x) for x in drawn["agent.head_sizes"]} == {"[4]", "[8, 8]"}
    assert {"off", 0.02} == {*drawn["learner.target_kl"]} and len({str(x) for x in drawn["pool.mix"]}) == 2
    found = SweepSpace(path, tmp_path)
    for x in result.tried:
        assert config.load(env="kuhn", overrides=found.sets(x.settings)).learner.epochs == x.settings["learner.epochs"]
    assert sum(result.importance.values()) == pytest.approx(1.0)
    assert result.importance["learner.learning_rate"] == max(result.importance.values())


def test_bad_settings_are_pruned_by_readings_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Optuna's pruner, in the first run of a setting alone; without a pruner nothing is read."""
    planted = Planted(monkeypatch, readings=3)
    result = sweep(file_of(tmp_path, top="seeds = 2\npruner = 'median'"), 20, store=tmp_path / "runs")
    pruned = [x for x in result.tried if x.status == "pruned"]
    assert 3 <= len(pruned) < 15 and all(not x.runs for x in pruned)
    assert result.best is not None and result.best.status == "complete"
    planted.read, none = 0, file_of(tmp_path, top="pruner = 'none'", name="none")
    sweep(none, 8, store=tmp_path / "runs")
    journal = Journal(SweepSpace(none, tmp_path), tmp_path / "runs")
    assert planted.read == 0 and not any(x.intermediate_values for x in journal.study.trials)


def test_a_setting_that_fails_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep goes on with the next; where the first three fail it ends with what is wrong."""
    planted = Planted(monkeypatch)

    def some(name: str, *more: Any) -> Any:
        if "-t001-" in name:
            raise LeagueError("learner: NaN; try less")
        return planted.trained(name, *more)

    monkeypatch.setattr(sweeps, "trained", some)
    result = sweep(file_of(tmp_path), 4, store=tmp_path / "runs")
    assert [x.status for x in result.tried] == ["complete"] * 3 + ["fail"] and result.tried[3].trial == 1

    def none(name: str, *more: Any) -> Any:
        raise LeagueError(f"{name}: NaN; try less")

    monkeypatch.setattr(sweeps, "trained", none)
    assert "-t002-s1: NaN" in refusal(lambda: sweep(file_of(tmp_path), 9, store=tmp_path / "other"))


def test_two_processes_draw_different_settings_and_take_what_a_dead_one_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A setting whose process lives is its own; of one that is gone another goes on with the same number."""
    (store := tmp_path / "runs").mkdir()
    journals = [Journal(SweepSpace(file_of(tmp_path), store), store) for _ in range(2)]
    with held(store / ".w1"), held(store / ".w2"):
        first, second = (j.draw(3, name) for j, name in zip(journals, (".w1", ".w2"), strict=True))
        assert first and second and first[1] != second[1] and second[0].number == 1
    with held(store / ".w3"):
        again, other = (journals[0].draw(2, ".w3") for _ in range(2))
        assert again and other and [again[0].number, other[0].number] == [0, 1]
        assert [again[1], other[1]] == [first[1], second[1]] and journals[1].draw(2, ".w3") is None


# The whole command


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sweep of two learning rates, one of which cannot learn, and its store."""
    folder = tmp_path_factory.mktemp("swept")
    space = "learner.learning_rate = { choices = [1e-6, 1e-2] }"
    more = ["env.rows=16", "learner.rollout_steps=16", "run.total_steps=3072", "pool.snapshot_every=1024"]
    more += ["learner.epochs=4", "agent.lstm_size=16", "agent.observation_width=16", "agent.head_sizes=[16]"]
    top = 'seeds = 2\nobjective.kind = "nashconv"\npruner = "none"'
    path = file_of(folder, space, top, [*more, "agent.opponent_encoder=false"], "rates")
    done = call("sweep", path.name, "--trials", 2, "--best", "best.toml", cwd=folder)
    assert done.code == 0, done.err
    return folder


@pytest.mark.slow
def test_a_sweep_of_real_runs_finds_the_rate_that_learns(swept: Path) -> None:
    """Its runs are ordinary ones of the store, of seeds that all settings share; the best is a file for --config."""
    result = read_sweep(swept / "rates.toml", swept / "runs")
    best = result.best
    assert best is not None and best.settings == {"learner.learning_rate": 1e-2} and result.direction == "minimize"
    rows = {row.run: row for row in Store.open(swept / "runs").runs()}
    assert all(rows[run].status == "finished" and run.startswith("rates-t0") for x in result.tried for run in x.runs)
    assert [rows[run].seed for run in best.runs] == [0, 1][: len(best.runs)]
    found = league.nashconv(best.runs[0], store=swept / "runs").nashconv
    assert best.values[0] == pytest.approx(found) and found < 0.7
    loaded = config.load(config_file=swept / "best.toml")
    assert (loaded.learner.learning_rate, loaded.env.rows, loaded.env.name) == (1e-2, 16, "kuhn")


def test_show_prints_the_best_and_what_is_not_decided(swept: Path) -> None:
    """As a table and words, or as JSON without NaN; nothing is tried."""
    before = sorted(path.name for path in (swept / "runs").iterdir())
    shown = call("sweep", "rates.toml", "--show", cwd=swept)
    assert shown.code == 0 and "rates: minimize nashconv; 2 settings" in shown.out and "best: t00" in shown.out
    told = call("sweep", "rates.toml", "--show", "--json", cwd=swept).json
    assert len(told["tried"]) == 2 and told["direction"] == "minimize" and told["tried"][0]["values"]
    assert sorted(path.name for path in (swept / "runs").iterdir()) == before
    assert "to_df" in dir(read_sweep(swept / "rates.toml", swept / "runs"))
    study = optuna.load_study(
        study_name="rates",
        storage=optuna.storages.JournalStorage(
            optuna.storages.journal.JournalFileBackend(str(swept / "runs" / "rates.sweep.jsonl"))
        ),
    )
    assert study.best_params == {"learner.learning_rate": 1e-2}  # as the guide opens it for Optuna's plots


def test_what_is_measured_has_its_error(swept: Path) -> None:
    """A rating above the mean of the bots and a score each have one; NashConv is exact."""
    run, store = "rates-t000-s1", swept / "runs"
    rating = rating_of(Store.open(store), run)
    assert 0.0 < rating.error < 2.0 and abs(rating.value) < 2.0
    score = RunObjective(kind="score", against=("bot:fold", "bot:random"), games=40).measure(run, 0, store, None)
    assert isinstance(score, Measured) and 0.0 < score.error < 1.0
    assert RunObjective(kind="nashconv").measure(run, 0, store, None) == Measured(
        pytest.approx(league.nashconv(run, store=store).nashconv), 0.0
    )


@pytest.mark.slow
def test_exploitability_is_what_an_exploiter_gains(swept: Path) -> None:
    """It is a run of the store, too."""
    goal = RunObjective(kind="exploitability", steps=6_144, games=40)
    found = goal.measure("rates-t000-s1", 0, swept / "runs", None)
    assert isinstance(found, Measured) and found.error > 0.0 and goal.sign == -1
    assert any(row.run == "rates-t000-s1-exploiter" for row in Store.open(swept / "runs").runs())


def test_ctrl_c_ends_a_sweep_saved_and_the_same_call_goes_on(tmp_path: Path) -> None:
    """With the exit code of other commands; the end is that of a sweep that nothing stopped, bit for bit."""
    top = 'seeds = 1\nobjective.kind = "nashconv"'
    file_of(tmp_path, top=top)
    with at_update(1, lambda: signal.raise_signal(signal.SIGINT)):
        stopped = call("sweep", "tiny.toml", "--trials", 2, cwd=tmp_path)
    assert stopped.code == 130 and read_sweep(tmp_path / "tiny.toml", tmp_path / "runs").tried[0].status == "running"
    assert call("sweep", "tiny.toml", "--trials", 2, cwd=tmp_path).code == 0
    whole = sweep(tmp_path / "tiny.toml", 2, store=tmp_path / "whole")
    assert same(read_sweep(tmp_path / "tiny.toml", tmp_path / "runs")) == same(whole)


@pytest.mark.slow
def test_a_killed_sweep_goes_on_where_it_was(tmp_path: Path) -> None:
    """A process that is killed in the middle of a run leaves its setting to the next, which has its number."""
    top = 'seeds = 2\nobjective.kind = "nashconv"'
    path = file_of(tmp_path, top=top, more=["run.total_steps=1600", "pool.snapshot_every=400"])
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "league", "sweep", path, "--trials", "1", "--quiet"]
    with subprocess.Popen(words, cwd=tmp_path, env=environment) as process:
        deadline = time.monotonic() + 120
        while not list((tmp_path / "runs").glob("tiny-t000-s2/snapshots/*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.kill()
    with (tmp_path / "runs" / "tiny.sweep.jsonl").open("a") as file:
        file.write('{"op_code"')  # as of a line that it was writing
    (stopped,) = read_sweep(path, tmp_path / "runs").tried
    assert stopped.status == "running" and len(stopped.values) == 1
    result = sweep(path, 1, store=tmp_path / "runs")
    (first,) = result.tried
    assert (first.trial, first.status) == (0, "complete")
    assert first.runs == ("tiny-t000-s1", "tiny-t000-s2") and first.values[0] == stopped.values[0]
    assert len(Store.open(tmp_path / "runs").runs()) == 2


@pytest.mark.slow
def test_two_jobs_share_a_sweep(tmp_path: Path) -> None:
    """Together they try the settings once each."""
    path = file_of(tmp_path, top='seeds = 1\nobjective.kind = "nashconv"')
    result = sweep(path, 4, jobs=2, store=tmp_path / "runs")
    assert sorted(x.trial for x in result.tried) == [*range(4)] and {x.status for x in result.tried} == {"complete"}
    runs = [run for x in result.tried for run in x.runs]
    assert len({*runs}) == 4 == len(Store.open(tmp_path / "runs").runs())
    journal = Journal(SweepSpace(path, tmp_path), tmp_path / "runs")
    assert len({x.user_attrs["worker"] for x in journal.study.trials}) == 2


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.xdist_group("ray")
def test_jobs_on_a_cluster_share_a_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They find what one process finds, each with a setting of its own."""
    pytest.importorskip("ray")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    path, said = file_of(tmp_path, top='seeds = 1\nobjective.kind = "nashconv"'), list[str]()
    there = sweep(path, 4, jobs=2, on="local", store=tmp_path / "there", say=said.append)
    assert sorted(x.trial for x in there.tried) == [*range(4)] and {x.status for x in there.tried} == {"complete"}
    assert len(Store.open(tmp_path / "there").runs()) == 4
    assert said[0].startswith("on local: ") and said[-1] == "4 of 4 settings are judged"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.xdist_group("ray")
def test_what_fails_on_a_cluster_is_said_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    path = file_of(tmp_path, top='seeds = 1\nobjective.kind = "nashconv"')
    for number in range(3):
        (tmp_path / "taken").mkdir(exist_ok=True)
        (tmp_path / "taken" / f"tiny-t{number:03}-s1").touch()
    with pytest.raises(LeagueError, match=r"tiny-t00.-s1.*; `league sweep .*--on local.*` goes on"):
        sweep(path, 4, on="local", store=tmp_path / "taken")


def test_a_real_run_is_pruned_and_stays_in_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stopped after its reading, and can be resumed."""
    monkeypatch.setattr(optuna.pruners.MedianPruner, "prune", lambda *arguments: True)
    more = ["run.total_steps=640", "run.evaluate_every=64", "run.evaluate_share=10.0"]
    (only,) = sweep(file_of(tmp_path, more=more), 1, store=tmp_path / "runs").tried
    (row,) = Store.open(tmp_path / "runs").runs()
    assert only.status == "pruned" and row.status == "stopped" and 0 <= row.steps < 640
    assert league.resume(row.run, store=tmp_path / "runs", callback=()).status == "finished"


# Bad input


@pytest.mark.parametrize(
    ("space", "top", "words"),
    [
        ("learner.lerning_rate = { low = 1, high = 2 }", "", "did you mean `learning_rate`?"),
        ("lerner.epochs = { low = 1, high = 2 }", "", "did you mean `learner`?"),
        ('"learner" = 3', "", "learner=3: write section.key = {"),
        ("learner.epochs = { low = 0, high = 2 }", "", "learner.epochs=0: must be greater than or equal to 1"),
        ("learner.clip = { low = 0.1, high = 1.5 }", "", "learner.clip=1.5: must be less than 1"),
        ("learner.epochs = { low = 3, high = 2 }", "", "low=3 is not below high=2; swap"),
        ("learner.epochs = { low = 1.5, high = 2.5 }", "", "learner.epochs=1.5: must be a valid integer"),
        ("learner.epochs = { low = 1, high = 4, step = 0.5 }", "", "step=0.5 of a whole number"),
        ("learner.gamma = { low = 0.0, high = 0.5, log = true }", "", "log=true needs low above 0"),
        ("learner.gamma = { low = 0.1 }", "", "give low and high, or choices"),
        ("learner.gamma = { low = 0.1, high = 0.2, choices = [1.0] }", "", "two at least, and without low"),
        ("learner.gamma = { hi = 0.2 }", "", "hi is not a key; did you mean `high`?"),
        ('learner.epochs = { choices = [1, "many"] }', "", "learner.epochs='many': must be a valid integer"),
        ('pool.sampler = { choices = ["recent", "newest"] }', "", "pool.sampler='newest' is no sampler"),
        ("pool.sampler = { low = 1, high = 2 }", "", "pool.sampler=1: must be a valid string"),
        ("run.total_steps = { low = 100, high = 200 }", "", "one game and length; set it in [train]"),
        ("env.name = { choices = ['kuhn', 'matrix'] }", "", "one game and length; set it in [train]"),
        (RATE, 'objective.kind = "ratng"', "objective.kind='ratng': must be 'rating', 'score'"),
        (RATE, 'objective.kind = "score"', "it names no opponents; give some, such as bot:"),
        (RATE, 'objective = { kind = "score", against = ["bot:fol"] }', "did you mean `fold`?"),
        (RATE, 'objective.against = ["bot:fold"]', "it has no effect on objective rating; leave it out"),
        (RATE, 'objective = { kind = "nashconv", games = 10 }', "games=10: it has no effect on objective nashconv"),
        (RATE, "pruner = 'mean'", "pruner='mean': must be 'none', 'median'"),
        (RATE, "seeds = 0", "seeds=0: must be greater than or equal to 1"),
        (RATE, "sedes = 3", "sedes is not a key; did you mean `seeds`?"),
        (RATE, "= 3", "is not TOML"),
        ("", "", "[space] names no setting; name some, as learner."),
        ("rewards.payof = { low = 1, high = 2 }", "", "payof"),
        ("learner.gamma = { choices = [0.9, 1979-05-27] }", "", "a date or a time, and no setting is one"),
        ('learner.gamma = { low = "a", high = 1 }', "", "learner.gamma: low='a': must be a valid integer"),
    ],
)
def test_a_file_that_cannot_be_is_refused_in_a_line(space: str, top: str, words: str, tmp_path: Path) -> None:
    """With the key, the rule and what to do, before anything is made."""
    path = file_of(tmp_path, space, top)
    need_refusal(call("sweep", path.name, cwd=tmp_path), 2, "tiny.toml", words)
    assert [x.name for x in tmp_path.iterdir()] == ["tiny.toml"]


def test_a_call_that_cannot_be_is_refused_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A game, a number, a store, a name, a file for the best, or Optuna itself."""
    path = file_of(tmp_path)
    need_refusal(call("sweep", "tiny.toml", "--jobs", 0, cwd=tmp_path), 2, "jobs=0", "must be from 1", "--jobs")
    need_refusal(call("sweep", "tiny.toml", "--trials", 0, cwd=tmp_path), 2, "trials=0", "must be from 1")
    need_refusal(call("sweep", "tiny.toml", "--store", "tiny.toml", cwd=tmp_path), 1, "no store can be made")
    need_refusal(call("sweep", "none.toml", cwd=tmp_path), 2, "none.toml: No such file")
    need_refusal(call("sweep", "tiny.toml", "--best", "tiny.toml", cwd=tmp_path), 2, "is there already")
    need_refusal(call("sweep", "tiny.toml", "--show", cwd=tmp_path), 2, "no sweep tiny in runs; begin it with `league")
    (tmp_path / "a b.toml").write_text(path.read_text())
    need_refusal(call("sweep", "a b.toml", cwd=tmp_path), 2, "a b.toml", "rename the file")
    path.write_text(path.read_text().replace('"kuhn"', '"kuhm"'))
    need_refusal(call("sweep", "tiny.toml", cwd=tmp_path), 2, "kuhm", "did you mean `kuhn`?")
    monkeypatch.setattr(sweeps, "find_spec", lambda name: None)
    need_refusal(call("sweep", "tiny.toml", cwd=tmp_path), 2, "Optuna", "pip install 'league-engine[sweep]'")
    assert not (tmp_path / "runs").exists()


def test_a_journal_of_another_space_or_damaged_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the table that differs, or what to do; more seeds and another pruner are no other sweep."""
    Planted(monkeypatch)
    store, path = tmp_path / "runs", file_of(tmp_path)
    sweep(path, 2, store=store)
    text, journal = path.read_text(), store / "tiny.sweep.jsonl"
    for old, new, table in (("1e-1", "2e-1", "[space]"), ('"env.rows" = 4', '"env.rows" = 8', "[train]")):
        path.write_text(text.replace(old, new))
        assert f"begun with another {table}; give the file another name" in refusal(lambda: sweep(path, store=store))
    path.write_text(f"seeds = 2\npruner = 'none'\n{text}")
    assert len(sweep(path, 3, store=store).tried) == 3
    whole = journal.read_text()
    for bad in (
        "hello\n",
        "hello\nhalf",
        whole.replace("{", "[", 1),
        whole + "{}\n",
        json.dumps({"op_code": 99}) + "\n",
    ):
        journal.write_text(bad)
        assert "is damaged, or no journal of a sweep" in refusal(lambda: sweep(path, 4, store=store))
        assert bad[0] == "{" or journal.read_text() == bad
    journal.write_text(f'{whole}{{"op_co')
    assert len(sweep(path, 4, store=store).tried) == 4


def test_a_file_may_have_its_settings_by_section(tmp_path: Path) -> None:
    """`learner.x = ...`, `"learner.x" = ...` and `[space.learner]` are one."""
    spaces = [
        "learner.epochs = {low=1, high=2}",
        '"learner.epochs" = {low=1, high=2}',
        "[space.learner]\nepochs={low=1, high=2}",
    ]
    found = [SweepSpace(file_of(tmp_path, space), tmp_path).to_json() for space in spaces]
    assert found[0] == found[1] == found[2]
    with pytest.raises(ConfigError, match="is missing; name settings in it"):
        (tmp_path / "x.toml").write_text("seeds = 3")
        SweepSpace(tmp_path / "x.toml", tmp_path)
