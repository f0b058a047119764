"""Scale does not matter: rewards are divided by the running size of returns, and what is seen is standardised."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import league
from league.errors import GuardError
from league.snapshots import io
from league.snapshots.agent import Agent
from league.snapshots.state import load_state
from league.store.store import Store
from league.training.returns import MEMORY, ReturnSize
from league.types import Rollout
from tests.helpers.sizes import SMALL_AGENT
from tests.training.test_prefix import StopAt, learned, learning_state, train
from tests.training.test_training import learner_and_rollout

GAMMA = 0.9


def made_of(rollout: Rollout, reward: Any, ends: Any, is_first: Any, segments: int = 1) -> Rollout:
    """A rollout with other rewards (T, B) and matches."""
    given = {"reward": reward, "ends": ends, "is_first": is_first}
    return dataclasses.replace(rollout, **{k: torch.as_tensor(x) for k, x in given.items()}, segments=segments)


def stream(rng: np.random.Generator, steps: int, rows: int, share: float = 0.3) -> tuple[Any, Any, Any]:
    """Rewards, ends and beginnings (steps, rows) of matches that end at random."""
    reward = rng.normal(size=(steps, rows)).astype(np.float32) * (rng.random((steps, rows)) < share)
    ends = rng.random((steps, rows)) < 0.1
    return reward, ends, np.concatenate([np.ones((1, rows), bool), ends[:-1]])


def squares(reward: Any, ends: Any) -> float:
    """The sum of squared discounted returns, each to its match's end or to the last step known."""
    total, later = 0.0, np.zeros(reward.shape[1])
    for t in range(len(reward) - 1, -1, -1):
        later = reward[t] + GAMMA * np.where(ends[t], 0.0, later)
        total += float((later**2).sum())
    return total


@pytest.mark.parametrize("segments", [1, 3])
def test_the_size_is_that_of_all_returns(segments: int) -> None:
    """Over rollouts, and segments of one, it is the root mean square of whole returns, as computed backwards."""
    _, rollout = learner_and_rollout()
    reward, ends, firsts = stream(np.random.default_rng(0), 60, 4)
    size, width = ReturnSize(), 60 // 5
    for at in range(0, 60, width):
        parts = [
            np.concatenate(np.split(x[at : at + width], segments), axis=1) for x in (reward, ends, firsts)
        ]  # segments beside each other
        size = size.after(made_of(rollout, *parts, segments=segments), GAMMA)
    assert size.updates == 5
    assert size.size == pytest.approx(math.sqrt(squares(reward, ends) / reward.size), rel=1e-6)


def test_it_is_unset_until_a_reward_comes() -> None:
    """Rollouts without any reward leave it at 1; the first reward sets it by itself, and credits what was before it."""
    _, rollout = learner_and_rollout()
    nothing, no, firsts = np.zeros((4, 2), np.float32), np.zeros((4, 2), bool), np.zeros((4, 2), bool)
    size = ReturnSize()
    for _ in range(3):
        size = size.after(made_of(rollout, nothing, no, firsts), GAMMA)
        assert size.size == 1.0 and size.updates == 0
    late = nothing.copy()
    late[3] = 50.0
    size = size.after(made_of(rollout, late, no, firsts), GAMMA)
    credited = sum(GAMMA ** (2 * age) for age in range(16)) * 50.0**2 / 4
    assert size.updates == 1 and size.size == pytest.approx(math.sqrt(credited))


def test_it_forgets_old_returns() -> None:
    """Rewards that become a thousandth are known within some hundred updates; a larger one at once."""
    _, rollout = learner_and_rollout()
    reward, ends, firsts = stream(np.random.default_rng(1), 32, 16)
    large, small = (made_of(rollout, scale * reward, ends, firsts) for scale in (1.0, 1e-3))
    size = ReturnSize()
    for _ in range(2 * MEMORY):
        size = size.after(large, GAMMA)
    full = size.size
    for _ in range(10 * MEMORY):
        size = size.after(small, GAMMA)
    assert 0.5e-3 * full < size.size < 1e-2 * full
    assert size.after(large, GAMMA).size > 0.09 * full


@pytest.mark.parametrize("scale", [1e-25, 0.01, 100.0, 1e25])
def test_the_first_updates_are_those_of_any_scale(scale: float) -> None:
    """Loss, gradient and weights agree to 1e-4 where only the scale of rewards moves; values are told in its units."""
    learner, rollout = learner_and_rollout()
    other, _ = learner_and_rollout()
    moved = dataclasses.replace(rollout, reward=rollout.reward * scale)
    for _ in range(2):
        known, found = learner.update(rollout), other.update(moved)
        gradients = zip(learner.policy.parameters(), other.policy.parameters(), strict=True)
        assert all(torch.allclose(a.grad, b.grad, rtol=1e-4, atol=1e-6) for a, b in gradients)  # type: ignore[arg-type]
        for name in ("policy_loss", "value_loss", "entropy", "gradient_norm", "approx_kl", "explained_variance"):
            assert found[name] == pytest.approx(known[name], rel=1e-4, abs=1e-6), name
        for name in ("value_mean", "return_size", "reward_per_step"):
            assert found[name] == pytest.approx(known[name] * scale, rel=1e-4), name


def test_a_refused_update_leaves_the_size() -> None:
    """As weights and moments, it is that before the update."""
    learner, rollout = learner_and_rollout()
    learner.update(rollout)
    before = learner.returns
    learner.sequence = lambda *given: tuple(x * torch.nan for x in learner.policy.sequence(*given))  # type: ignore
    with pytest.raises(GuardError):
        learner.update(dataclasses.replace(rollout, reward=100 * rollout.reward))
    assert learner.returns is before


ENV = "gymnasium:tests.helpers.gym_envs:Scaled-v0"
"""What is seen has no bounds; right is the side of its mean on which the first number lies."""
RUN = (
    *("env.rows=8", "learner.rollout_steps=16", "learner.minibatches=2", "pool.snapshot_every=256"),
    *("run.allow_short=true", "run.evaluate_games=2", *SMALL_AGENT),
)


def test_what_is_seen_and_paid_may_be_of_any_scale(tmp_path: Path) -> None:
    """A run of a game whose observations are 100 x + 7 and whose rewards are a thousandth learns the same.

    Its first rollout is played alike, and so are its last matches.
    """
    stores = {}
    for name, sets in {"plain": (), "moved": ("env.scale=100.0", "env.shift=7.0", "env.paid=0.001")}.items():
        league.train("smoke", env=ENV, run=name, overrides=(*RUN, *sets), store=tmp_path / name / "s", device="cpu")
        stores[name] = Store.open(tmp_path / name / "s")
    plain, moved = ([m.metrics["length"] for m in store.matches(name, "training")] for name, store in stores.items())
    assert plain == moved
    paid = [[sum(m.rewards["reward"]) for m in store.matches(name, "training")] for name, store in stores.items()]
    assert paid[1][:16] == pytest.approx([1e-3 * x for x in paid[0][:16]])
    late = [np.mean(x[-200:]) for x in paid]
    assert late[0] > 5.5 and late[1] == pytest.approx(1e-3 * late[0], rel=0.1)


def test_a_run_goes_on_with_both_statistics_bit_for_bit(tmp_path: Path) -> None:
    """Stopped at its third update it is a run of three; resumed it is the run that was not stopped."""
    whole = train(tmp_path / "whole", "smoke", *RUN, "run.total_steps=1024", env=ENV, run="r")
    stopped = train(tmp_path / "cut", "smoke", *RUN, "run.total_steps=1024", env=ENV, run="r", callback=StopAt(3))
    train(tmp_path / "short", "smoke", *RUN, "run.total_steps=384", env=ENV, run="r")
    states = (learning_state(tmp_path / folder, "r") for folder in ("cut", "short"))
    cut, short = ({name: x for name, x in state.items() if "/guards" not in name} for state in states)
    assert cut == short and any("standardise.mean" in name for name in cut) and any("returns" in name for name in cut)
    league.resume("r", store=stopped.path)
    assert learning_state(tmp_path / "whole", "r") == learning_state(tmp_path / "cut", "r")
    assert learned(whole, "r", 8) == learned(stopped, "r", 8)


def test_snapshots_and_exports_carry_both(tmp_path: Path) -> None:
    """The first has neither; the last plays, exported, by the statistics of the state, and says its values' units."""
    store = train(tmp_path, "smoke", *RUN, "run.total_steps=512", "env.paid=50.0", "env.shift=9.0", env=ENV, run="r")
    first, *_, last = store.snapshots("r")
    league.export("r", tmp_path / "out", store=store.path)
    agent, learner = Agent.load(tmp_path / "out"), load_state(tmp_path / "r" / "state")["learner"]
    manifest, weights = io.load(tmp_path / first.path)
    assert manifest.return_size == 1.0 and not weights["standardise.deviation"].any()
    assert agent.manifest.agent_id == last.agent_id
    assert agent.manifest.return_size == ReturnSize(**learner["returns"]).size > 10.0
    kept = agent.policy.state_dict()
    assert all(torch.equal(kept[name], torch.as_tensor(x)) for name, x in learner["policy"].items())
    assert kept["standardise.mean"].tolist()[:2] == pytest.approx([9.0, 9.0], abs=0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "term", "steps"), [("leduc", "payoff", 20_000), ("gymnasium:CartPole-v1", "reward", 20_000)]
)
def test_learning_curves_are_those_of_any_scale_of_rewards(env: str, term: str, steps: int, tmp_path: Path) -> None:
    """Rewards times 0.01, 1 and 100: by tenths of the run matches pay, in the game's units, the same within noise."""
    curves, errors = [], []
    for weight in (0.01, 1.0, 100.0):
        sets = (f"run.total_steps={steps}", "run.allow_short=true", "run.evaluate_games=2", f"rewards.{term}={weight}")
        call = {"run": "r", "overrides": sets, "store": tmp_path / f"{weight}" / "s", "device": "cpu", "fresh": True}
        league.train("10m", env=env, **call)
        played = Store.open(tmp_path / f"{weight}" / "s").matches("r", "training")
        paid = np.array([m.rewards[term][m.agents.index("r")] for m in played])
        parts = np.array_split(paid, 10)
        curves.append([part.mean() for part in parts])
        errors.append([part.std() / math.sqrt(len(part)) for part in parts])
    assert np.ptp(curves, axis=0) == pytest.approx(0.0, abs=3.5 * math.sqrt(2) * np.max(errors))
    assert np.mean(np.array(curves)[:, -1] - np.array(curves)[:, 0]) > 0.0
