"""Does it learn on all spaces? Games whose right answers are known, through `league.train` itself."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import league
from league.envs import registry
from league.snapshots import Agent
from league.types import EXTERNAL
from tests.helpers import guessing
from tests.helpers.cases import cases

SETTINGS = (
    "env.rows=64",
    "learner.rollout_steps=8",
    "learner.minibatches=4",
    "learner.epochs=4",
    "learner.learning_rate=3e-3",
    "learner.gamma=0.0",
    "learner.entropy_coefficient=0.003",
    "agent.opponent_encoder=false",
    "agent.observation_width=64",
    "agent.lstm_size=32",
    "agent.head_sizes=[64]",
    "run.allow_short=true",
    "run.evaluate_games=2",
    'pool.mix={"bot:random"=1.0}',
    "rewards.right=1.0",
)


@pytest.fixture(autouse=True)
def _game(monkeypatch: pytest.MonkeyPatch) -> None:
    guessing.register(monkeypatch)


def train(kind: str, steps: int, folder: Path, *more: str) -> tuple[str, Path]:
    """The run, and its store."""
    store = folder / "league.duckdb"
    options = [f"env.kind={kind}", f"run.total_steps={steps}", *SETTINGS, *more]
    return league.train("smoke", env="guessing", overrides=options, store=store).run, store


def share(agent: Agent, kind: str, *, greedy: bool, steps: int = 20) -> float:
    """The mean of what an agent gets right in a round, in seat 0 of 64 matches."""
    batch = registry.make("guessing", rows=64, threads=1, options={"kind": kind})
    batch.controllers[:] = [EXTERNAL, 0]
    batch.reset(99)
    agent.reset(seed=1)
    total = 0.0
    for _ in range(steps):
        mask: Any = None if batch.mask is None else batch.mask[:, 0]
        batch.actions[:, 0] = agent.act(batch.obs[:, 0], mask, greedy=greedy)
        batch.step()
        agent.reset(rows=np.flatnonzero(batch.terminated))
        total += float(batch.reward_terms[:, 0].mean())
    return total / steps


@pytest.mark.parametrize(
    "kind, steps, least",
    cases(
        ("box", 2_048, 0.70),
        ("image", 4_096, 0.45),
        ("entities", 2_048, 0.85),
        slow=[
            ("tuples", 3_584, 0.72),
            ("box", 40_960, 0.90),
            ("tuples", 40_960, 0.96),
            ("image", 20_480, 0.98),
            ("tokens", 20_480, 0.98),
            ("mixture", 20_480, 0.45),
        ],
    ),
)
def test_a_net_learns_what_is_right(kind: str, steps: int, least: float, tmp_path: Path) -> None:
    """After training it is right that often where it began near chance, also as an export; tuples stay legal."""
    run, store = train(kind, steps, tmp_path)
    league.export(run, tmp_path / "out", store=store)
    before, after = league.load(f"{run}@0", store=store), Agent.load(tmp_path / "out")
    first, last = share(before, kind, greedy=False), share(after, kind, greedy=True)
    assert last > least > first + 0.1, (first, last)


def test_attention_learns_of_units_what_a_linear_layer_does_not(tmp_path: Path) -> None:
    """In the steps after which attention is right in 85 % of rounds, layers over the rows side by side are near chance.

    They learn for each row by itself what attention learns for all.
    """
    run, store = train("entities", 2_048, tmp_path, "agent.torso=mlp")
    assert share(league.load(run, store=store), "entities", greedy=True) < 0.5
