"""Payoffs between snapshots, played out, and the equilibria that leagues with the sampler `nash` come near."""

import gc
import importlib
import weakref
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from league.config import load
from league.config.models import PoolConfig
from league.maths.nashconv import margins, payoffs
from league.pool import payoff_games as psro
from league.pool.payoff_games import mean_margins
from league.pool.pool import Pool
from league.sessions.callbacks import Callbacks
from league.sessions.runs import plan_of
from league.sessions.settling import settle
from league.sessions.wiring import new_row, wire
from league.snapshots.state import load_state
from league.store.store import Store
from league.training.run import Counters
from league.types import MatchResult, Policy
from tests.helpers.sizes import SMALL

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.nashconv")


def match(agents: tuple[str, str], payoff: tuple[float, float], win: tuple[float, float]) -> MatchResult:
    """A match with these sums of the reward terms."""
    rewards = {"payoff": payoff, "win": win}
    return MatchResult("r", "evaluation", 0, 0, 0, "g", agents, 1, 0, "end", 1, 1, "sample", rewards=rewards)


def test_mean_margins_are_of_the_weighted_rewards() -> None:
    games = [
        match(("new", "a"), (3.0, -3.0), (1.0, -1.0)),
        match(("a", "new"), (1.0, -1.0), (1.0, -1.0)),
        match(("b", "new"), (-2.0, 2.0), (-1.0, 1.0)),
    ]
    assert mean_margins(games, "new", ["a", "b"], {"payoff": 1.0, "win": 0.5}) == {"a": (3.5 - 1.5) / 2, "b": 2.5}
    assert mean_margins(games, "new", ["a", "b"], {"win": 2.0}) == {"a": 0.0, "b": 2.0}


def test_measured_payoffs_are_what_the_sampler_mixes(tmp_path: Path) -> None:
    config: PoolConfig = load(env="matrix", overrides=["pool.sampler=nash", "pool.epsilon=0.0"]).pool
    pool = Pool(config, lambda agent: None, np.random.default_rng(0))  # type: ignore[arg-type, return-value]
    for name in ("rock", "paper", "scissors"):
        pool.admit(name)
    pool.results.measured = {"paper": {"rock": 0.5}, "scissors": {"rock": -1.0, "paper": 0.1}}
    restored = Pool(config, pool._load, np.random.default_rng(0))
    restored.load_state_dict(pool.state_dict())
    for one in (pool, restored):
        one.refresh_targets(set())
        assert list(one.odds["self_play"].values()) == pytest.approx([1 / 16, 10 / 16, 5 / 16], abs=1e-6)


def test_measured_payoffs_are_the_snapshots_own(bench: ModuleType, tmp_path: Path) -> None:
    store, games = tmp_path / "league.duckdb", 600
    sets = ["run.total_steps=8192", "pool.snapshot_every=2048", f"pool.payoff_games={games}"]
    run = bench.train("kuhn", 0, store, [*sets, "env.rows=64", "learner.learning_rate=1e-2"])
    measured = load_state(tmp_path / run / "state")["pool"]["results"]["measured"]
    _, strategies, tree = bench.behaviours(store, run)
    exact = margins(tree, strategies)
    names = [row.agent_id for row in bench.Store.open(store).snapshots(run)]
    assert [len(measured.get(name, {})) for name in names[:4]] == [0, 1, 2, 3]
    assert np.abs(exact).max() > 0.1 and np.abs(payoffs(tree, strategies)).max() > 0.1
    for name, others in measured.items():
        for other, margin in others.items():
            error = 2.0 / np.sqrt(games)  # at most 2 chips a deal
            assert abs(margin - exact[names.index(name), names.index(other)]) < 5 * error


def test_few_nets_are_in_memory_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = [*SMALL, "pool.sampler=nash", "pool.payoff_games=2"]
    config, _, device, _ = settle("smoke", "fast", "matrix", None, sets)
    row = new_row("r", config, 0, "smoke", "f" * 64, device)
    run = wire(plan_of(Store.create(tmp_path / "league.duckdb"), row, None, config, device, Callbacks(())))
    pool = Pool(config.pool, run.artifacts.load_policy, np.random.default_rng(0))
    for step in range(9):
        with torch.no_grad():
            next(run.policy.parameters()).add_(0.1)
        pool.admit(run.artifacts.add_snapshot(run.policy, Counters(update=step, steps=step), 1.0))
    nets, most, loaded, load_policy = weakref.WeakSet[Policy](), 0, list[str](), run.artifacts.load_policy

    def load_and_count(agent_id: str) -> Policy:
        nonlocal most
        net = load_policy(agent_id)
        nets.add(net)
        loaded.append(agent_id)
        gc.collect()
        most = max(most, len(nets))
        return net

    monkeypatch.setattr(run.artifacts, "load_policy", load_and_count)
    monkeypatch.setattr(psro, "NETS_AT_ONCE", 3)
    psro.measure_payoffs(run, pool)
    assert most == 4 and sorted(loaded) == sorted(pool.snapshots)
    assert list(pool.results.measured[pool.snapshots[-1]]) == pool.snapshots[:-1]


@pytest.mark.slow
def test_league_finds_the_equilibrium_of_biased_rock_paper_scissors(bench: ModuleType, tmp_path: Path) -> None:
    store, game = tmp_path / "league.duckdb", "biased rock-paper-scissors"
    run = bench.train(game, 0, store)
    points = bench.curve(*bench.behaviours(store, run))
    assert points[0].newest > 0.3 and points[-1].nash < 0.02
    assert points[-1].newest > 0.02, "the last network alone is a best response, no equilibrium"
