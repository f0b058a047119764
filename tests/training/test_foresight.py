"""The encoder's task beside the game: what the opponent does next."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch

import league
from league import config as settings
from league.errors import ConfigError
from league.play.graphs import StepGraphs
from league.store.store import Store
from league.training.action_prediction import Foresight
from league.training.learner import FORETOLD, Learner
from tests.helpers.capturing import Double, without_kernels
from tests.helpers.rollouts import make_collector

CPU = torch.device("cpu")
TINY = [
    *("agent.encoder_layers=1", "agent.encoder_heads=2", "agent.encoder_width=16", "agent.encoder_feedforward=16"),
    *("agent.opponent_encoder=true", "agent.history_frames=8", "agent.latents=2", "agent.lstm_size=8"),
    *("env.rows=8", "learner.rollout_steps=16", "learner.minibatches=2", "run.allow_short=true"),
]


def learner_of(weight: float, **changes: Any) -> tuple[Learner, Any]:
    """A learner of brawl with the task in its loss, and a rollout with matches that end in it."""
    collector = make_collector(rows=6, time_limit_seconds=1.0)
    config = settings.load().learner.model_copy(update={"minibatches": 1, "opponent_prediction": weight, **changes})
    rollout = collector.collect(24, 1)
    assert rollout.is_first[1:].any()
    return Learner(collector.policy, config, np.random.default_rng(0), CPU), rollout


def test_changes_and_errors_are_those_within_matches() -> None:
    """Against loops over rows and steps: no match's last step counts, and no prediction is an error of 1."""
    learner, rollout = learner_of(0.1)
    policy = learner.policy
    obs, is_first = rollout.obs.transpose(0, 1), rollout.is_first.t()
    foresight = Foresight(policy, CPU)  # type: ignore[arg-type]
    with torch.no_grad():
        latents = policy.latents(obs, rollout.state, is_first)  # type: ignore[attr-defined]
        assert foresight.error(obs, is_first, latents) == foresight.changes(obs, is_first)
        torch.nn.init.normal_(foresight.change.weight, std=0.1)
        error = change = 0.0
        for row in range(obs.shape[0]):
            for t in range(obs.shape[1] - 1):
                if not is_first[row, t + 1]:
                    now, later = policy.token(obs[row, t]), policy.token(obs[row, t + 1])  # type: ignore[attr-defined]
                    guess = foresight.change(latents[row, t].flatten())
                    error += float((guess - (later - now)).square().sum())
                    change += float((later - now).square().sum())
        assert foresight.error(obs, is_first, latents).item() == pytest.approx(error, rel=1e-5)
        assert foresight.changes(obs, is_first).item() == pytest.approx(change, rel=1e-5)


def test_the_encoder_learns_by_it_alone() -> None:
    """Without any other loss than this it learns to foretell, and the actor and the critic learn nothing."""
    learner, rollout = learner_of(1.0, epochs=60, value_coefficient=0.0, entropy_coefficient=0.0, learning_rate=3e-3)
    rollout.reward.zero_()
    rollout.value.zero_()
    rollout.next_value.zero_()  # so no advantage
    before = {name: p.detach().clone() for name, p in learner.policy.named_parameters()}
    first = learner.update(rollout)[FORETOLD]
    after = learner.update(rollout)[FORETOLD]
    assert first < after and after > 0.3
    moved = {name.split(".")[0] for name, p in learner.policy.named_parameters() if not torch.equal(p, before[name])}
    assert moved == {"encoder"}


def test_minibatches_with_it_replay_as_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit what they are without; nothing in it waits for the device."""
    without_kernels(monkeypatch)
    (plain, rollout), (replayed, _) = learner_of(0.1), learner_of(0.1)
    for group in plain.optimizer.param_groups:
        group["lr"] = torch.tensor(group["lr"])
    generator = torch.Generator()
    double = Double(generator)
    replayed.replay(StepGraphs(generator, "float32", print, double))
    assert [plain.update(rollout) for _ in range(2)] == [replayed.update(rollout) for _ in range(2)]
    assert double.replays > 0


@pytest.mark.slow
def test_a_run_with_it_goes_on_bit_for_bit(tmp_path: Any) -> None:
    """Stopped and resumed, the layer's weights and moments included; its snapshots hold the agent alone."""
    found = {}
    for name, cut in {"whole": 512, "cut": 256}.items():
        store = tmp_path / name
        sets = [*TINY, "learner.opponent_prediction=0.5", "run.total_steps=512"]
        with league.Trainer("smoke", overrides=sets, store=store) as trainer:
            while trainer.steps < cut:
                trainer.learn(trainer.collect())
        with league.Trainer.resume(trainer.run, store=store) if cut < 512 else nullcontext(trainer) as trainer:
            while trainer.steps < 512:
                trainer.learn(trainer.collect())
            weights = {key: x.clone() for key, x in trainer.policy.state_dict().items()}
        sql = f"SELECT steps, value FROM metric WHERE name = '{FORETOLD}' ORDER BY steps"
        found[name] = weights, Store.open(store).query(sql)[1]
    (whole, metrics), (cut_weights, cut_metrics) = found.values()
    assert len(metrics) == 4 and metrics == cut_metrics
    assert whole.keys() == cut_weights.keys() and not any("change" in key for key in whole)
    assert all(torch.equal(x, cut_weights[key]) for key, x in whole.items())


@pytest.mark.parametrize("source", ["agent.opponent_encoder=false", "policy"])
def test_without_an_encoder_it_is_refused(source: str, tmp_path: Any) -> None:
    """In one line, before anything is written."""
    given = {"overrides": ["learner.opponent_prediction=0.1"], "env": "kuhn", "store": tmp_path / "s"}
    if source == "policy":
        given["policy"] = "examples/gru.py:GRU"
    else:
        given["overrides"] = [*given["overrides"], source]  # type: ignore[misc]
    with pytest.raises(ConfigError, match=r"learner\.opponent_prediction.* encoder"):
        league.train("smoke", **given)  # type: ignore[arg-type]
    assert not (tmp_path / "s").exists()
