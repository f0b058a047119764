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
from league.store.store import Store
from league.training.returns import ReturnSize
from league.types import Rollout
from tests.helpers.sizes import SMALL_AGENT
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


@pytest.mark.parametrize("scale", [1e-25, 0.01, 100.0, 1e25])
def test_the_first_updates_are_those_of_any_scale(scale: float) -> None:
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


ENV = "gymnasium:tests.helpers.gym_envs:Scaled-v0"
"""What is seen has no bounds; right is the side of its mean on which the first number lies."""
RUN = (
    *("env.rows=8", "learner.rollout_steps=16", "learner.minibatch_size=64", "pool.snapshot_every=256"),
    *("run.allow_short=true", "run.evaluate_games=2", *SMALL_AGENT),
)


@pytest.mark.slow
def test_what_is_seen_and_paid_may_be_of_any_scale(tmp_path: Path) -> None:
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


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("env", "term", "rival"),
    [("leduc", "payoff", "bot:random"), ("gymnasium:CartPole-v1", "reward", "bot:world")],
)
def test_learning_curves_are_those_of_any_scale_of_rewards(env: str, term: str, rival: str, tmp_path: Path) -> None:
    """Rewards times 0.01, 1 and 100: by tenths of the run, matches against one bot pay the same within noise."""
    curves, errors = [], []
    for weight in (0.01, 1.0, 100.0):
        store = tmp_path / f"{weight}"
        sets = ["run.total_steps=40000", "run.evaluate_games=2", f"rewards.{term}={weight}"]
        sets += ['pool.mix={self_play=0.5, "bot:random"=0.5}'] if rival == "bot:random" else []
        call: dict[str, Any] = {"run": "r", "overrides": sets, "store": store, "device": "cpu", "callback": ()}
        league.train("10m", env=env, fresh=True, **call)
        played = [m for m in Store.open(store).matches("r", "training") if rival in m.agents]
        paid = np.array([m.rewards[term][1 - m.agents.index(rival)] for m in played])
        parts = np.array_split(paid, 10)
        curves.append([part.mean() for part in parts])
        errors.append([part.std() / math.sqrt(len(part)) for part in parts])
    assert np.ptp(curves, axis=0).max() <= 3.5 * math.sqrt(2) * np.max(errors), curves
    for curve, error in zip(curves, errors, strict=True):
        doubt = 3.0 * math.hypot(error[0], float(np.linalg.norm(error[5:])) / 5.0)
        assert np.mean(curve[5:]) - curve[0] > doubt, (curve, error)
