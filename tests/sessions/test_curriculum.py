"""A curriculum: training rows play lessons from absolute steps on, and nothing else of a run does."""

from __future__ import annotations

import copy
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import league
from league import config as settings
from league.arena.games import load_settings
from league.boards.standings import leaderboard
from league.envs import registry
from league.envs.classic.matrix import MatrixBatch
from league.errors import ConfigError, GuardError, LeagueError
from league.play.rollout import make_calls, make_collector
from league.pool.pool import Pool, Results
from league.sessions import wiring
from league.sessions.callbacks import Callbacks
from league.sessions.runs import plan_of
from league.sessions.settling import check_settings, words_for
from league.snapshots.state import load_state
from league.store.store import Store
from league.training.learner import Learner
from league.training.run import Run
from league.types import Origin
from tests.helpers.cases import cases
from tests.helpers.runs import Notes, stopping
from tests.helpers.sizes import TINY
from tests.training.test_prefix import flat, learned, learning_state

ROWS, STEPS = 4, 8
LESSONS = "env.curriculum=[{from=0, options={rounds=2}}, {from=50, options={rounds=3, bot_mix=[1.0, 0.0, 0.0]}}, "
LESSONS += "{from=96, options={}}]"
SETS = (*TINY, "agent.opponent_encoder=false", "run.total_steps=160", "env.rounds=5", "pool.snapshot_every=64", LESSONS)
"""Five updates of 32 steps: two of two rounds a match, one of three, two of five."""
UPDATES = {2: range(1, 3), 3: range(3, 4), 5: range(4, 6)}
"""Rounds of a match -> the updates that it is played in: a lesson begins at the first boundary at or past its step."""


def train(folder: Path, *sets: str, stage: str = "smoke", env: str = "matrix", **more: Any) -> Store:
    """A run in `folder`, and its store."""
    more = {"device": "cpu", **more}
    league.train(stage, env=env, overrides=(*SETS, *sets), store=folder / "league.duckdb", **more)
    return Store.open(folder / "league.duckdb")


def game_id(**options: Any) -> str:
    """The id of the game that a lesson is."""
    return registry.game_id("matrix", {"rounds": 5, **options})


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Notes]:
    """The folder of a run of all lessons without a break, and what it said."""
    folder, notes = tmp_path_factory.mktemp("taught"), Notes()
    train(folder, callback=notes)
    return folder, notes


def test_training_rows_play_the_lessons_and_evaluations_the_game(taught: tuple[Path, Notes]) -> None:
    store = Store.open(taught[0] / "league.duckdb")
    training, run = store.matches("matrix-1", "training"), store.find_run("matrix-1")
    ids = {2: game_id(rounds=2), 3: game_id(rounds=3, bot_mix=[1.0, 0.0, 0.0]), 5: run.game_id}
    assert len({*ids.values()}) == 3
    for rounds, updates in UPDATES.items():
        played = [match for match in training if match.update in updates]
        assert {(match.steps, match.game_id) for match in played} == {(rounds, ids[rounds])}
        assert all(match.update_begin + 1 in updates for match in played)
        each = len(updates) * STEPS // rounds
        counts = [sum(match.row == row for match in played) for row in range(ROWS)]
        assert counts == [each] * ROWS, "as many as end within the lesson's steps"
    assert sum(len(updates) for updates in UPDATES.values()) == run.update == 5
    assert len({match.seed for match in training}) == len(training)
    evaluated = store.matches("matrix-1", "evaluation")
    assert {(m.steps, m.game_id) for m in evaluated} == {(5, run.game_id)} and evaluated
    lines = [line for line in taught[1].said if " on training plays " in line]
    assert [line.count("4 matches in play are dropped") for line in lines] == [0, 1, 1]
    events = store.query("SELECT \"update\", message FROM event WHERE kind = 'lesson' ORDER BY ALL")[1]
    assert events == list(zip((1, 3, 4), lines, strict=True))
    metric = store.query("SELECT value FROM metric WHERE name = 'lesson' ORDER BY \"update\"")[1]
    assert [value for (value,) in metric] == [1, 1, 2, 3, 3]


def test_results_of_lessons_are_in_no_rating(taught: tuple[Path, Notes]) -> None:
    store = Store.open(taught[0] / "league.duckdb")
    own = [m for m in store.matches("matrix-1", "training") if m.update in UPDATES[5]]
    assert len(store.training_games("matrix-1")["matrix-1"]) == len(own) == 12
    assert len(store.training_games("matrix-1")["matrix-1"]) == 12
    assert [board.game_id for board in leaderboard(store).boards] == [store.find_run("matrix-1").game_id]
    assert list(store.games()) == [store.find_run("matrix-1").game_id]
    results = load_state(taught[0] / "matrix-1" / "state")["pool"]["results"]
    assert sum(sum(counts) for _, _, *counts in results["fixed"]) <= 12
    assert 0 < sum(sum(counts) for counts in results["own"].values()) <= 12


OPTIONS: dict[int, dict[str, Any]] = {2: {"rounds": 2}, 3: {"rounds": 3, "bot_mix": [1.0, 0.0, 0.0]}, 5: {}}


def by_hand(run: Run) -> tuple[dict[str, Any], list[tuple[int, ...]]]:
    """The slow twin: it knows nothing of lessons and saves nothing. It plays and learns with collectors of its own, one
    a game, of which each begins new matches where the one before stopped. Weights and moments, and its matches."""
    config, device = run.config, torch.device("cpu")
    pool_rng, learner_rng = (np.random.default_rng(s) for s in np.random.SeedSequence(run.seed).spawn(2))
    learner = Learner(run.policy, config.learner, learner_rng, device)
    frozen: dict[str, Any] = {}
    pool = Pool(config.pool, frozen.__getitem__, pool_rng)
    generator, rows, snapshot_at = torch.Generator().manual_seed(run.seed), [], 0
    for rounds, updates in UPDATES.items():
        game = settings.with_options(config, {**config.env.options, **OPTIONS[rounds]})
        calls = make_calls(config.learner, generator, None, print)
        collector = make_collector(
            config, run.policy, pool, calls, make_batch=partial(wiring.make_batch, game), origin=Origin("me", "")
        )
        pool.results, pool.qualities = (
            Results(config.pool.result_half_life, config.pool.shrink_games),
            dict.fromkeys(pool.qualities, 0.0),
        )
        for update in updates:
            steps = (update - 1) * ROWS * STEPS
            if steps >= snapshot_at:
                frozen[f"{steps}"] = copy.deepcopy(run.policy).requires_grad_(False)
                pool.admit(f"{steps}")
                snapshot_at = steps + 64
            pool.refresh_targets(collector.opponents_in_use())
            if update == updates[0]:
                seed = int(np.random.SeedSequence([run.seed, update - 1, ROWS]).generate_state(1)[0])
                if update > 1:
                    generator.manual_seed(seed)
                collector.start(seed if update > 1 else run.seed, updates_made=update - 1)
            rollout = collector.collect(STEPS, update)
            learner.update(rollout)
            pool.record(rollout.finished, "me", ROWS * STEPS)
            rows += [(m.update, m.row, m.ordinal, m.steps, m.winner, m.seed) for m in rollout.finished]
    return flat({"learner": learner.state_dict()}), rows


@pytest.mark.parametrize("sampler", cases("pfsp_hard", slow=["quality", "recent"]))
def test_lessons_are_games_played_one_after_the_other(sampler: str, tmp_path: Path) -> None:
    """The run is, bit for bit, what the slow twin plays and learns, with a sampler that reads the pool's results."""
    store = train(tmp_path, f"pool.sampler={sampler}", "pool.snapshot_every=64")
    config, row = settings.from_json(json.loads(store.find_run("matrix-1").config)), store.find_run("matrix-1")
    (tmp_path / "twin").mkdir()
    twin_store = Store.create(tmp_path / "twin" / "league.duckdb")
    run = wiring.wire(plan_of(twin_store, row, None, config, torch.device("cpu"), Callbacks(())))
    twin, rows = by_hand(run)
    real = flat({"learner": load_state(tmp_path / "matrix-1" / "state")["learner"]})
    assert twin == real and len(real) > 20
    matches = store.matches("matrix-1", "training")
    assert rows and sorted(rows) == sorted((m.update, m.row, m.ordinal, m.steps, m.winner, m.seed) for m in matches)


@pytest.mark.parametrize("update", cases(2, slow=[1, 3, 4]))
def test_a_lesson_is_resumed_in_its_middle_or_at_its_mark(
    update: int, taught: tuple[Path, Notes], tmp_path: Path
) -> None:
    with stopping(update):
        train(tmp_path)
    league.resume("matrix-1", store=tmp_path / "league.duckdb")
    a, b = (Store.open(path / "league.duckdb") for path in (tmp_path, taught[0]))
    assert learned(a, "matrix-1", 99) == learned(b, "matrix-1", 99)
    assert learning_state(tmp_path, "matrix-1") == learning_state(taught[0], "matrix-1")
    events = [s.query('SELECT "update", kind, message FROM event ORDER BY ALL')[1] for s in (a, b)]
    assert events[0] == events[1] and len(events[0]) == 3


def test_an_error_shows_the_lesson_that_it_is_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step, steps = MatrixBatch.step, []

    def sick(self: MatrixBatch) -> None:
        step(self)
        if self._options.rounds == 3 and self.num_rows == ROWS:
            steps.append(1)
            if len(steps) == 12:
                self.obs[1, 0, 0] = float("nan")

    with monkeypatch.context() as patch:
        patch.setattr(MatrixBatch, "step", sick)
        patch.setattr("league.sessions.settling.check_quickly", lambda *_: None)
        patch.setattr("league.arena.curriculum.check_quickly", lambda *_: None)
        with pytest.raises(LeagueError, match="not_finite") as caught:
            train(tmp_path, "env.curriculum=[{from=32, options={rounds=3}}]", "env.strict_masks=false")
    assert not isinstance(caught.value, GuardError)
    [file] = (tmp_path / "matrix-1" / "failures").iterdir()
    shown = league.replay(file)
    assert shown.run == "matrix-1" and json.loads(file.read_text())["evidence"]["game"]["options"]["rounds"] == 3
    league.resume("matrix-1", store=tmp_path / "league.duckdb")
    matches = Store.open(tmp_path / "league.duckdb").matches("matrix-1", "training")
    assert {m.steps for m in matches if m.update > 1} == {3}


REFUSED = {
    "[{from=0, options={round=3}}]": "env.round=3",
    "[{from=9, options={rounds=0}}]": "env.rounds=0",
    "[{from=9, options={}}, {from=9, options={}}]": "from=9 comes after from=9",
    "[{from=0, options={payoff=[[0.0, 1.0], [1.0, 0.0]], bot_mix=[0.5, 0.5]}}]": "obs_size",
    "[{options={}}]": r"env.curriculum\[0\].from",
    "[{from=0, option={}}]": r"env.curriculum\[0\].option",
    "[{from=0, options={rounds={a=1}}}]": r"env.curriculum\[0\].options.rounds",
    "3": "env.curriculum: ",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_lesson_that_cannot_be_is_refused_before_the_run(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=REFUSED[text]) as caught:
        config, _ = load_settings("smoke", env="matrix", overrides=[f"env.curriculum={text}"])
        check_settings(config, registry.spec("matrix", config.env.options))
    assert "\n" not in str(caught.value)


def test_a_curriculum_is_written_as_a_table_too(tmp_path: Path) -> None:
    file = tmp_path / "more.toml"
    file.write_text(
        "[[env.curriculum]]\nfrom = 0\noptions = { rounds = 2 }\n[[env.curriculum]]\nfrom = 8\noptions = {}\n"
    )
    config, _ = load_settings("smoke", env="matrix", config_file=file)
    assert [(lesson.begins, lesson.options) for lesson in config.env.curriculum] == [(0, {"rounds": 2}), (8, {})]
    again, _ = load_settings("smoke", env="matrix", overrides=words_for(config, "smoke", "fast")[1::2])
    assert again == config and settings.from_json(settings.to_json(config)) == config
    plain, _ = load_settings("smoke", env="matrix")
    assert settings.fingerprint(config) != settings.fingerprint(plain)


@pytest.mark.slow
def test_the_learners_of_a_league_have_lessons(tmp_path: Path) -> None:
    """Each by its own steps, over turns and resets; an exploiter of one agent learns the game that it is judged in."""
    sets = [s for s in SETS if not s.startswith("run.total")]
    more = (
        "run.total_steps=256",
        "pool.snapshot_every_after=64",
        "role.main_exploiter.min_steps=64",
        "role.main_exploiter.max_steps=64",
    )
    store = tmp_path / "league.duckdb"
    league.train(league="small", env="matrix", overrides=[*sets, *more], store=store, run="l", device="cpu")
    opened = Store.open(store)
    reset = {event.run: event.update for event in reversed(opened.events()) if event.kind == "reset"}
    for row in opened.runs():  # lessons of a reset learner begin again
        matches = [m for m in opened.matches(row.run, "training") if m.update < reset.get(row.run, m.update + 1)]
        for rounds, updates in {**UPDATES, 5: range(4, 9)}.items():
            assert {m.steps for m in matches if m.update in updates} <= {rounds}, row.run
        assert row.run in reset or {m.steps for m in matches} == set(UPDATES)
    assert [e for e in opened.events() if e.kind == "reset"]
    league.train(against="l.main", steps=64, games=2, store=store, device="cpu")
    learner = json.loads(opened.find_run("exploit-1").config)
    assert learner["env"]["curriculum"] == [] and learner["env"]["options"]["rounds"] == 5
