"""The magnet: where it begins, how it follows, and what it takes off the advantages."""

import copy
import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from league.training.learner import Learner
from league.training.magnet import RATE, Magnet
from tests.training.test_training import learner_and_rollout


def drawn_to_a_magnet(weight: float = 0.5) -> tuple[Learner, Any]:
    """A learner with a magnet that is another network than its policy, and a rollout of the policy."""
    learner, rollout = learner_and_rollout()
    config = learner.config.model_copy(update={"magnet": weight})
    drawn = Learner(learner.policy, config, np.random.default_rng(0), learner.device)
    torch.manual_seed(1)
    for parameter in drawn._magnet._policy.parameters():  # type: ignore[union-attr]
        parameter.data += 0.3 * torch.randn_like(parameter)
    return drawn, rollout


def test_it_begins_as_the_policy_and_follows_by_its_rate() -> None:
    """At first both say the same of what was played; then the weights are an exponential moving average."""
    learner, rollout = learner_and_rollout()
    magnet = Magnet(learner.policy)
    assert torch.allclose(learner._of_magnet(magnet, rollout), rollout.log_prob, atol=1e-5)
    expected = {name: value.clone() for name, value in learner.policy.named_parameters()}
    for _ in range(3):
        for name, parameter in learner.policy.named_parameters():
            parameter.data += 1.0
            expected[name] = (1 - RATE) * expected[name] + RATE * parameter.data
        magnet.follow(learner.policy)
    assert all(torch.allclose(value, expected[name], atol=1e-6) for name, value in magnet._policy.named_parameters())
    assert not any(parameter.requires_grad for parameter in magnet._policy.parameters())


def test_it_sees_observations_by_the_policys_statistics() -> None:
    """Running means and sizes are no weights: they are the policy's after each update, not averages of them."""
    learner, _ = learner_and_rollout()
    learner.policy.register_buffer("seen", torch.zeros(3))  # type: ignore[attr-defined]
    magnet = Magnet(learner.policy)
    learner.policy.seen += 7.0  # type: ignore[attr-defined]
    magnet.follow(learner.policy)
    assert magnet.state_dict()["seen"].tolist() == [7.0] * 3


def test_its_gradient_is_that_of_the_divergence() -> None:
    """Over all actions, score times log-ratio is the gradient of KL(policy || magnet), which autograd gives, too."""
    torch.manual_seed(0)
    logits, there = torch.randn(5, dtype=torch.float64, requires_grad=True), torch.randn(5, dtype=torch.float64)
    log_p, log_m = logits.log_softmax(-1), there.log_softmax(-1)
    (exact,) = torch.autograd.grad((log_p.exp() * (log_p - log_m)).sum(), logits, retain_graph=True)
    weights = (log_p.exp() * (log_p - log_m)).detach()  # what `Learner.update` takes off, by how often it is drawn
    (estimated,) = torch.autograd.grad((weights * log_p).sum(), logits)
    assert torch.allclose(exact, estimated)


def test_an_update_takes_the_log_ratio_off_the_advantages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewards and values of 0 leave the penalty alone, normalised, and value targets without it."""
    learner, rollout = drawn_to_a_magnet()
    nothing = torch.zeros_like(rollout.value)
    rollout = dataclasses.replace(rollout, reward=nothing, value=nothing, next_value=nothing)
    ratio = rollout.log_prob - learner._of_magnet(learner._magnet, rollout)  # type: ignore[arg-type]
    seen = []

    def epochs(lesson: Any, *, is_watched: bool) -> dict[str, float]:
        seen.append(lesson._figures)
        return dict.fromkeys(("gradient_norm", "approx_kl", "entropy"), 0.0)

    monkeypatch.setattr(learner, "_epochs", epochs)
    learner.update(rollout)
    _, advantages, targets = seen[0]
    assert torch.allclose(advantages, -(ratio - ratio.mean()) / ratio.std(), atol=1e-4) and ratio.std() > 0.01
    assert not targets.any()


def test_it_travels_with_the_state() -> None:
    """A restored learner takes the same next step."""
    learner, rollout = drawn_to_a_magnet()
    other, _ = drawn_to_a_magnet()
    learner.update(rollout)
    other.load_state_dict(copy.deepcopy(learner.state_dict()))
    assert other.update(rollout) == learner.update(rollout)
