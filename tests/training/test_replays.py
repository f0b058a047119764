"""Minibatches as captured steps: replayed bit for bit, across a schedule's edge, another shape and a restart."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from league import config as settings
from league.errors import GuardError
from league.play.graphs import StepGraphs
from league.training.learner import Learner
from league.training.minibatch import UpdateData
from league.types import Rollout
from tests.helpers.capturing import Double, without_kernels
from tests.helpers.rollouts import make_collector

CPU = torch.device("cpu")


def learners(number: int, **changes: Any) -> tuple[list[Learner], list[Rollout]]:
    """Equal learners, and three rollouts: two of one shape, the last longer and with more matches in a row."""
    collectors = [make_collector(game="matrix", rounds=9) for _ in range(number)]
    config = settings.load().learner.model_copy(update={"minibatches": 2, "epochs": 3, **changes})
    made = [Learner(x.policy, config, np.random.default_rng(0), CPU) for x in collectors]
    rollouts = [collectors[0].collect(steps, 1) for steps in (12, 12, 30)]
    assert [UpdateData(x, x.reward, x.reward).most_begins for x in rollouts] == [1, 1, 4]
    return made, rollouts


def with_graphs(learner: Learner) -> Double:
    """Lets it replay its minibatches."""
    generator = torch.Generator()
    double = Double(generator)
    learner.replay(StepGraphs(generator, "float32", print, double))
    return double


def weights(learner: Learner) -> list[Tensor]:
    """What an update changes."""
    moments = [x for values in learner.optimizer.state.values() for x in values.values()]
    return [*learner.policy.parameters(), *moments]


def test_replayed_minibatches_are_plain_ones_across_a_schedules_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit, with another rate, clip and entropy coefficient after the first update, another shape at the third,
    and another gradient's norm, which no tensor holds, at the last: that takes another capture."""
    without_kernels(monkeypatch)
    (plain, replayed), rollouts = learners(2)
    double = with_graphs(replayed)
    for group in plain.optimizer.param_groups:
        group["lr"] = torch.tensor(group["lr"])  # in float32, as a graph reads it
    edges = [{"learning_rate": 3e-3, "clip": 0.05, "entropy_coefficient": 0.1}, {}, {"max_gradient_norm": 0.1}]
    captures = []
    for rollout, edge in zip([*rollouts, rollouts[2]], [{}, *edges], strict=True):
        for learner in (plain, replayed):
            learner.reconfigure(learner.config.model_copy(update=edge))
        assert plain.update(rollout) == replayed.update(rollout)
        assert all(torch.equal(a, b) for a, b in zip(weights(plain), weights(replayed), strict=True))
        captures.append(double.captures)
    # The first call of a kind warms up, the very first once more, when there are moments.
    assert captures == [1, 1, 2, 3] and double.replays == 4 + 6 + 5 + 5


def test_what_is_not_finite_is_found_in_replays_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """An update that goes wrong within a graph is undone and told, and the next one replays as before."""
    without_kernels(monkeypatch)
    (plain, replayed), rollouts = learners(2)
    double = with_graphs(replayed)
    for group in plain.optimizer.param_groups:
        group["lr"] = torch.tensor(group["lr"])
    plain.update(rollouts[0])
    replayed.update(rollouts[0])
    broken = dataclasses.replace(rollouts[1], obs=rollouts[1].obs * torch.nan)
    with pytest.raises(GuardError, match="not_finite"):
        replayed.update(broken)
    assert all(torch.equal(a, b) for a, b in zip(weights(plain), weights(replayed), strict=True))
    assert plain.update(rollouts[1]) == replayed.update(rollouts[1])
    assert double.captures == 1


def test_a_network_that_may_wait_is_not_captured() -> None:
    """Only one whose `sequence` is told how many matches begin in a row is known to wait for nothing."""
    (learner,), _ = learners(1)
    policy: Any = learner.policy

    class Silent:
        parameters, named_parameters = policy.parameters, policy.named_parameters
        state_dict = policy.state_dict

        def sequence(
            self, obs: Tensor, action: Tensor, state: Any, is_first: Tensor, mask: Tensor | None = None
        ) -> Any:
            """As the network's, without the bound."""

    own = Learner(Silent(), learner.config, np.random.default_rng(0), CPU)  # type: ignore[arg-type]
    with_graphs(own)
    assert own._graphs is None and learner.is_capturable


@pytest.mark.parametrize(
    "work",
    [
        lambda x: x.sum().item(),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: x.unique(),
        lambda x: torch.masked_select(x, x > 0),
        lambda x: x.repeat_interleave(torch.ones(3, dtype=torch.int64)),
        lambda x: torch.rand(3),
        lambda x: torch.equal(x, x + 1),
    ],
)
def test_what_no_graph_can_do_is_seen(work: Any) -> None:
    """The double of CUDA's graphs fails on waits, shapes that the data decide, and draws from another generator."""
    with pytest.raises(AssertionError, match=r"waits for the device|draws from a generator"):
        Double(torch.Generator().manual_seed(5)).capture(lambda: work(torch.ones(3)))
    generator = torch.Generator()
    Double(generator).capture(lambda: torch.rand(3, generator=generator)[torch.arange(2)])
