"""Settings that move with the steps: what they are at each step, how they are read, and what they do to a run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import league
from league import config as settings
from league.config import fingerprint, from_json, load, to_json, updates
from league.config.models import Config
from league.config.schedules import read
from league.config.updates import boundary, check, num_updates, smaller, snapshot_updates
from league.errors import ConfigError
from league.store.store import Store
from league.training.training import Training
from tests.helpers.sizes import TINY

FALLING = "learner.learning_rate={50_000 = 1e-3, 1_000_000 = 3e-4}"
POINTS = st.dictionaries(st.integers(0, 1_000), st.floats(0.1, 10), min_size=1, max_size=5)


@given(POINTS, st.integers(0, 1_100))
def test_lines_join_the_points(points: dict[int, float], steps: int) -> None:
    """As NumPy draws them; before the first and after the last point the value is theirs."""
    schedule = read("it", {str(step): x for step, x in points.items()}, is_stepped=False)
    ordered = sorted(points.items())
    expected = np.interp(steps, [step for step, _ in ordered], [x for _, x in ordered])
    assert schedule.at(steps) == pytest.approx(expected)


@given(st.dictionaries(st.integers(0, 1_000), st.integers(1, 9), min_size=1, max_size=5), st.integers(0, 1_100))
def test_whole_numbers_hold_until_the_next(points: dict[int, int], steps: int) -> None:
    """The last point that has been reached; before any, the first."""
    schedule = read("it", {str(step): x for step, x in points.items()}, is_stepped=True)
    begun = [step for step in points if step <= steps]
    assert schedule.at(steps) == points[max(begun) if begun else min(points)]
    assert isinstance(schedule.at(steps), int)


def test_a_setting_moves_where_a_table_stands_for_its_number() -> None:
    """Any of the learner's, a reward's weight, a share of the mix; all else is as it was."""
    sets = [FALLING, "learner.epochs={0=6, 1_000_000=3}", "rewards.win={0=1, 100=2}"]
    config = load("10m", overrides=[*sets, 'pool.mix={self_play={0=0.5, 1_000=0.9}, "bot:based"={0=0.5, 1_000=0.1}}'])
    rates = [config.at(steps).learner.learning_rate for steps in (0, 50_000, 525_000, 1_000_000, 10_000_000)]
    assert rates == pytest.approx([1e-3, 1e-3, 6.5e-4, 3e-4, 3e-4])
    assert [config.at(steps).learner.epochs for steps in (0, 999_999, 1_000_000)] == [6, 6, 3]
    assert [config.at(steps).rewards["win"] for steps in (0, 50, 200)] == [1, 1.5, 2]
    assert config.at(500).pool.mix == {"self_play": 0.7, "bot:based": 0.3}
    assert config.at(0) is config and config.at(2_000_000).at(0) == config
    assert config.scheduled()[("learner", "learning_rate")] == 1e-3
    plain = load("10m", "beast", "matrix")
    assert plain.at(10**6) is plain and not plain.schedules


def test_settings_keep_their_schedules() -> None:
    """As JSON and back, at whatever step they stand; they count for the fingerprint, and a number alone is a number."""
    plain, config = (load("10m", "beast", "matrix", overrides=sets) for sets in ([], [FALLING]))
    for now in (config, config.at(700_000)):
        assert from_json(json.loads(json.dumps(to_json(now)))) == config
        assert fingerprint(now) == fingerprint(config)
    other = load("10m", "beast", "matrix", overrides=["learner.learning_rate={50_000=1e-3, 1_000_000=2e-4}"])
    alone = load("10m", "beast", "matrix", overrides=["learner.learning_rate=2e-3", "learner.segments=1"])
    assert len({fingerprint(x) for x in (plain, config, other)}) == 3 and fingerprint(alone) == fingerprint(plain)
    assert settings.changed(config, ["learner.learning_rate=1e-4"]).schedules == {}
    assert settings.changed(plain, [FALLING]) == config


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("learner.learning_rate={0=1e-3, 100=0.0}", r"learning_rate=0\.0: must be greater than 0 .*\(at step 100\)"),
        ("learner.learning_rate={soon=1e-3}", "'soon' is no step from 0"),
        ("learner.learning_rate={-5=1e-3}", "'-5' is no step from 0"),
        ("learner.learning_rate={10=1e-3, 1_0=1e-4}", "'1_0' is no step .* of its own"),
        ("learner.learning_rate={0='much'}", "at step 0 is 'much', no number"),
        ("learner.learning_rate={0=inf, 5=1}", "at step 0 is inf, no finite number"),
        ("learner.learning_rate={}", "has 0 points"),
        ("learner.epochs={0=1.5}", "at step 0 is 1.5, no whole number"),
        ("pool.live_nets={0=2, 100=4}", r"pool.live_nets cannot move with the steps; of \[pool\] recent_window can"),
        ("pool.recent_window={0=2, 100=0}", "pool.recent_window"),
        ("learner.rollout_steps={0=32, 100=64}", "rollout_steps cannot move with the steps; .* learning_rate"),
        ("learner.minibatch_size={0=512, 100=0}", r"learner\.minibatch_size.*greater than or equal to 1"),
        ("pool.mix.self_play={0=0.8, 100=0.5}", r"pool.mix sums to 0.7 .*\(at step 100\)"),
    ],
)
def test_what_cannot_be_is_told_with_its_step(override: str, words: str) -> None:
    """In one line: the setting, its value, the rule."""
    with pytest.raises(ConfigError, match=words) as told:
        check(load("10m", overrides=[override]))
    assert "\n" not in str(told.value)


def counted(config: Config, upto: int) -> tuple[int, int, list[int]]:
    """Updates, steps and the updates of snapshots, counted one update after the other."""
    update = steps = 0
    snapshots, mark = [], updates.next_snapshot_mark(config, 0)
    while steps < upto:
        steps += config.env.rows * config.learner.rollout_steps * config.at(steps).learner.segments
        update += 1
        if steps >= mark:
            snapshots += [update] if mark <= upto else []
            mark = updates.next_snapshot_mark(config, steps)
    return update, steps, snapshots


@given(st.integers(1, 60_000), st.sampled_from([1, 7_000]), st.sampled_from([2_500, 30_000]), st.integers(1, 5))
def test_updates_are_counted_across_changes_of_their_size(upto: int, first: int, second: int, most: int) -> None:
    """The arithmetic gives what counting gives."""
    sizes = f"learner.segments={{0=1, {first}=3, {first + second}={most}}}"
    config = load("10m", overrides=[sizes, "env.rows=8", "learner.rollout_steps=16", f"run.total_steps={upto}"])
    update, steps, snapshots = counted(config, upto)
    assert boundary(config, upto) == (update, steps) and num_updates(config) == update
    assert list(snapshot_updates(config, upto)) == snapshots


def test_a_run_follows_its_schedules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each update is made by the numbers of the steps before it, which are among its metrics; so is each rollout."""
    seen = []
    learn = Training.learn

    def watch(self: Training, rollout: object) -> object:
        group, weights = self.learner.optimizer.param_groups[0], self.collector._weights
        seen.append((self.counters.steps, group["lr"], rollout.reward.shape[1], float(weights[0]), self.pool._bounds))
        return learn(self, rollout)

    monkeypatch.setattr(Training, "learn", watch)
    sets = [
        *(*TINY, "env.rows=8", "learner.rollout_steps=8", "run.total_steps=640", "rewards.payoff={0=1.0, 640=2.0}"),
        *("learner.learning_rate={64=1e-3, 320=1e-4}", "learner.segments={0=1, 300=2}", "learner.minibatch_size=32"),
        'pool.mix={self_play={0=0.0, 640=1.0}, "bot:random"={0=1.0, 640=0.0}}',
    ]
    result = league.train("smoke", env="matrix", device="cpu", overrides=sets, store=tmp_path)
    config = load("smoke", env="matrix", overrides=sets)
    assert [steps for steps, *_ in seen] == [0, 64, 128, 192, 256, 320, 448, 576]
    for steps, rate, rows, weight, bounds in seen:
        now = config.at(steps)
        assert rate == now.learner.learning_rate and rows == 8 * now.learner.segments
        assert weight == pytest.approx(now.rewards["payoff"])
        assert bounds[0] == pytest.approx(now.pool.mix["bot:random"])
    store = Store.open(tmp_path)
    name = "schedule/learner.learning_rate"
    where = f"run = '{result.run}' AND name = '{name}'"
    _, found = store.query(f'SELECT value FROM metric WHERE {where} ORDER BY "update"')
    assert [x for (x,) in found] == [rate for _, rate, *_ in seen]
    assert store.reward_terms(result.run)[0].weight == pytest.approx(config.at(576).rewards["payoff"])


def test_who_runs_out_of_memory_is_told_of_the_mildest_settings_first() -> None:
    """Parts of a minibatch, then segments where an update has several; each of the settings named can be run."""
    config = load("10m", overrides=["learner.segments={0=1, 1_000=4}"])
    assert smaller(config.at(0))[0] == "learner.accumulate=2"
    assert smaller(config.at(0))[1].startswith("learner.minibatch_size=256")
    assert smaller(config.at(1_000))[1] == "learner.segments=1"
    assert "learner.accumulate=32" not in smaller(settings.changed(config, ["learner.accumulate=16"]))
    for setting in smaller(config.at(1_000)):
        check(settings.changed(config, [setting]))
