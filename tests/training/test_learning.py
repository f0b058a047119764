"""Does it learn? Known answers of matrix games, through `league.train` itself."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import league
from league.envs import registry
from league.maths.behaviour import behaviour
from league.maths.nashconv import nash_conv
from league.snapshots import Agent
from league.store.store import Store
from league.types import EXTERNAL
from tests.helpers import guessing
from tests.helpers.cases import cases

GRU = str(Path(__file__).resolve().parents[2] / "examples" / "gru.py")
SMALL = [
    *("env.rounds=1", "env.rows=64", "learner.rollout_steps=8", "learner.minibatch_size=128", "learner.epochs=4"),
    *("learner.learning_rate=3e-3", "run.allow_short=true", "run.evaluate_games=100"),
]


@pytest.mark.parametrize("policy", cases(None, slow=[GRU]), ids=["the library's", "one's own"])
@pytest.mark.slow
def test_best_response_to_a_biased_bot(policy: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    store = tmp_path / "league.duckdb"
    sets = [*SMALL, 'pool.mix={"bot:biased"=1.0}', "run.total_steps=15360"]
    result = league.train("smoke", env="matrix", overrides=sets, policy=policy, store=store)
    match = league.evaluate(result.run, "bot:biased", games=2000, store=store)
    before = league.evaluate(f"{result.run}@0", "bot:biased", games=2000, store=store)
    assert match.summary.metrics["payoff"][0] > 0.36 > before.summary.metrics["payoff"][0] + 0.2


@pytest.mark.slow
def test_average_of_self_play_is_near_the_equilibrium(tmp_path: Path) -> None:
    """Where rock beats scissors by 2 and the rest by 1, playing its own past averages to (1/4, 1/2, 1/4).

    The uniform strategy can be exploited by 1/3 a round; seeds 0 to 4 gave 0.17, 0.13, 0.16, 0.17 and 0.16.
    """
    payoff = np.array([[0.0, -1.0, 2.0], [1.0, 0.0, -1.0], [-2.0, 1.0, 0.0]])
    store = tmp_path / "league.duckdb"
    overrides = [
        *(*SMALL, f"env.payoff={payoff.tolist()}", "pool.mix={self_play=1.0}", "pool.sampler=uniform"),
        *("pool.live_nets=16", "learner.learning_rate=1e-3", "learner.epochs=2", "learner.gamma=0.9"),
        *("pool.snapshot_every=1", "pool.snapshot_every_after=1", "learner.entropy_coefficient=0.3"),
        "run.total_steps=51200",
    ]
    result = league.train("smoke", env="matrix", overrides=overrides, store=store)
    strategies = []
    for row in Store.open(store).snapshots(result.run)[20:]:
        agent = Agent.load(store.parent / row.path)
        agent.reset(seed=0)
        played = agent.act(np.zeros((2000, 8), np.float32))[:, 0]
        strategies.append(np.bincount(played, minlength=3) / 2000)
    average = np.mean(strategies, axis=0)
    assert (payoff @ average).max() < 0.22, average
    assert average == pytest.approx([0.25, 0.5, 0.25], abs=0.1)


@pytest.mark.slow
def test_a_magnet_brings_the_newest_weights_near_an_equilibrium(tmp_path: Path) -> None:
    store, tree = tmp_path / "league.duckdb", registry.tree("kuhn", {})
    assert tree is not None
    left = {}
    for magnet in (0.0, 0.1):
        sets = ["pool.mix={current=1.0}", f"learner.magnet={magnet}", "run.allow_short=true", "run.total_steps=204800"]
        run = league.train("10m", env="kuhn", overrides=[*sets, "run.evaluate_games=2"], seed=0, store=store).run
        last = [f"{run}@{snapshot.step}" for snapshot in Store.open(store).snapshots(run)[-10:]]
        nets = [league.load(name, store=store).policy for name in last]
        left[magnet] = np.mean([nash_conv(tree, behaviour(net, tree)).total for net in nets])
    assert left[0.1] < 0.25 < 0.35 < left[0.0], left


SETTINGS = (
    *("env.rows=64", "learner.rollout_steps=8", "learner.minibatch_size=128", "learner.epochs=4", "learner.gamma=0.0"),
    *("learner.learning_rate=3e-3", "learner.entropy_coefficient=0.003", "agent.opponent_encoder=false"),
    *("agent.observation_width=64", "agent.lstm_size=32", "agent.head_sizes=[64]", "run.allow_short=true"),
    *("run.evaluate_games=2", 'pool.mix={"bot:random"=1.0}', "rewards.right=1.0"),
)


@pytest.fixture(autouse=True)
def _game(monkeypatch: pytest.MonkeyPatch) -> None:
    guessing.register(monkeypatch)


def train(kind: str, steps: int, folder: Path, *more: str) -> tuple[str, Path]:
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
    run, store = train(kind, steps, tmp_path)
    league.export(run, tmp_path / "out", store=store)
    before, after = league.load(f"{run}@0", store=store), Agent.load(tmp_path / "out")
    first, last = share(before, kind, greedy=False), share(after, kind, greedy=True)
    assert last > least > first + 0.1, (first, last)


def test_attention_learns_of_units_what_a_linear_layer_does_not(tmp_path: Path) -> None:
    run, store = train("entities", 2_048, tmp_path, "agent.torso=mlp")
    assert share(league.load(run, store=store), "entities", greedy=True) < 0.5
