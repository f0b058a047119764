"""Minibatches as captured steps: replayed bit for bit, across a schedule's edge, another shape and a restart."""

import weakref
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import league
from league import config as settings
from league.errors import ConfigError
from league.play.graphs import StepGraphs
from league.policies.kernels import gathered
from league.training.action_prediction import Foresight
from league.training.compiling import compiled
from league.training.learner import Learner
from league.training.minibatch import UpdateData
from league.types import Rollout
from tests.helpers.capturing import Double, without_kernels
from tests.helpers.cases import cases
from tests.helpers.rollouts import make_collector

CPU = torch.device("cpu")


def learners(number: int, **changes: Any) -> tuple[list[Learner], list[Rollout]]:
    """Equal learners, and three rollouts: two of one shape, the last longer and with more matches in a row."""
    collectors = [make_collector(game="matrix", rounds=9) for _ in range(number)]
    config = settings.load().learner.model_copy(update={"minibatch_size": 72, "epochs": 3, **changes})
    made = [Learner(x.policy, config, np.random.default_rng(0), CPU) for x in collectors]
    rollouts = [collectors[0].collect(steps, 1) for steps in (12, 12, 30)]
    assert [UpdateData(x, x.reward, x.reward).most_begins for x in rollouts] == [1, 1, 4]
    return made, rollouts


def with_graphs(learner: Learner) -> Double:
    generator = torch.Generator()
    double = Double(generator)
    learner.replay(StepGraphs(generator, "float32", print, double))
    return double


def weights(learner: Learner) -> list[Tensor]:
    moments = [x for values in learner.optimizer.state.values() for x in values.values()]
    return [*learner.policy.parameters(), *moments]


def test_replayed_minibatches_are_plain_ones_across_a_schedules_edge(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert captures == [1, 1, 2, 3] and double.replays == 4 + 6 + 17 + 17


WAITING = (lambda x: x.sum().item(), lambda x: x[x > 0], lambda x: torch.rand(3), lambda x: torch.equal(x, x + 1))


@pytest.mark.parametrize("work", WAITING)
def test_what_no_graph_can_do_is_seen(work: Any) -> None:
    with pytest.raises(AssertionError, match=r"waits for the device|draws from a generator"):
        Double(torch.Generator().manual_seed(5)).capture(lambda: work(torch.ones(3)))
    generator = torch.Generator()
    Double(generator).capture(lambda: torch.rand(3, generator=generator)[torch.arange(2)])


ROWS = 10


def played(game: str, number: int, **changes: Any) -> tuple[list[Learner], Rollout]:
    """Equal learners, and what one has played: matches begin on the way, states remember."""
    collectors = [make_collector(game=game, rows=ROWS) for _ in range(number)]
    collectors[0].collect(8, 1)
    rollout = collectors[0].collect(24, 1)
    config = settings.load().learner.model_copy(update={"minibatch_size": 1_000_000, "epochs": 1, **changes})
    return [Learner(x.policy, config, np.random.default_rng(0), torch.device("cpu")) for x in collectors], rollout


def set_parts(learner: Learner, parts: int) -> None:
    """Has its minibatches computed in so many parts."""
    learner.reconfigure(learner.config.model_copy(update={"accumulate": parts}))


@pytest.mark.parametrize("game", cases("matrix", slow=["cards", "brawl"]))
def test_gradients_of_parts_add_up_to_that_of_the_whole(game: str) -> None:
    (whole, *others), rollout = played(game, 4, precision="highest", max_gradient_norm=1e6, opponent_prediction=0.5)
    if game == "cards":
        assert rollout.watched is not None and rollout.mask is not None
    told = whole.update(rollout)
    for parts, learner in zip((2, 3, ROWS), others, strict=True):
        set_parts(learner, parts)
        assert learner.update(rollout) == pytest.approx(told, rel=1e-4, abs=1e-6)
        for a, b in zip(whole.policy.parameters(), learner.policy.parameters(), strict=True):
            assert (a.grad is None) == (b.grad is None)
            if a.grad is not None and b.grad is not None:
                torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-6)


def test_parts_keep_less_for_their_backward_pass() -> None:
    (learner,), rollout = played("matrix", 1)
    alive = peak = 0

    class Saved:
        """What autograd keeps."""

        def __init__(self, tensor: torch.Tensor) -> None:
            nonlocal alive, peak
            self.tensor, size = tensor, tensor.numel() * tensor.element_size()
            alive += size
            peak = max(peak, alive)
            weakref.finalize(self, release, size)

    def release(size: int) -> None:
        nonlocal alive
        alive -= size

    peaks = []
    for parts in (1, ROWS):
        set_parts(learner, parts)
        peak = 0
        with torch.autograd.graph.saved_tensors_hooks(Saved, lambda saved: saved.tensor):
            learner.update(rollout)
        assert alive == 0
        peaks.append(peak)
    assert peaks[1] < peaks[0] / 3, "weights are kept, too"


@pytest.mark.parametrize("game", cases("matrix", slow=["cards", "brawl"]))
def test_gradients_are_those_of_each_layer(game: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_kernels(monkeypatch)
    (together, alone), rollout = played(game, 2, precision="highest", accumulate=2, opponent_prediction=0.5)
    told = together.update(rollout)
    monkeypatch.setattr(gathered, "gathers", lambda device: False)
    assert alone.update(rollout) == pytest.approx(told, rel=1e-4, abs=1e-6)
    for a, b in zip(alone.policy.parameters(), together.policy.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None and b.grad is not None:
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-6)


def learner_of(weight: float, **changes: Any) -> tuple[Learner, Any]:
    """A learner of brawl with the task in its loss, and a rollout with matches that end in it."""
    collector = make_collector(rows=6, time_limit_seconds=1.0)
    config = settings.load().learner.model_copy(
        update={"minibatch_size": 1_000_000, "opponent_prediction": weight, **changes}
    )
    rollout = collector.collect(24, 1)
    assert rollout.is_first[1:].any()
    return Learner(collector.policy, config, np.random.default_rng(0), CPU), rollout


def test_changes_and_errors_are_those_within_matches() -> None:
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


@pytest.mark.parametrize("source", ["agent.opponent_encoder=false", "policy"])
def test_without_an_encoder_it_is_refused(source: str, tmp_path: Any) -> None:
    given = {"overrides": ["learner.opponent_prediction=0.1"], "env": "kuhn", "store": tmp_path / "s"}
    if source == "policy":
        given["policy"] = "examples/gru.py:GRU"
    else:
        given["overrides"] = [*given["overrides"], source]  # type: ignore[misc]
    with pytest.raises(ConfigError, match=r"learner\.opponent_prediction.* encoder"):
        league.train("smoke", **given)  # type: ignore[arg-type]
    assert not (tmp_path / "s").exists()


@pytest.mark.slow
def test_a_compiler_that_fails_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setattr("torch._inductor.config.cpp.cxx", ("no-such-compiler",))
    monkeypatch.setattr("torch._inductor.config.force_disable_caches", True)

    def curve(x: Tensor) -> Tensor:
        return torch.tanh(x) * 3 + x.sin()

    function, x = compiled(curve, said.append), torch.randn(33)
    assert torch.equal(function(x), curve(x)) and torch.equal(function(x), curve(x))
    assert len(said) == 1 and said[0].startswith("learner.compile: learning cannot be compiled here (")
