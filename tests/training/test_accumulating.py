"""Minibatches in parts: the gradient of the whole, in less memory."""

import weakref
from typing import Any

import numpy as np
import pytest
import torch

from league import config as settings
from league.training.learner import Learner
from league.types import Rollout
from tests.helpers.capturing import Double, without_kernels
from tests.helpers.cases import cases
from tests.helpers.rollouts import make_collector
from tests.training.test_replays import with_graphs

ROWS = 10


def played(game: str, number: int, **changes: Any) -> tuple[list[Learner], Rollout]:
    """Equal learners, and what one has played: matches begin on the way, states remember."""
    collectors = [make_collector(game=game, rows=ROWS) for _ in range(number)]
    collectors[0].collect(8, 1)
    rollout = collectors[0].collect(24, 1)
    config = settings.load().learner.model_copy(update={"minibatches": 1, "epochs": 1, **changes})
    return [Learner(x.policy, config, np.random.default_rng(0), torch.device("cpu")) for x in collectors], rollout


def set_parts(learner: Learner, parts: int) -> None:
    """Has its minibatches computed in so many parts."""
    learner.reconfigure(learner.config.model_copy(update={"accumulate": parts}))


@pytest.mark.parametrize("game", cases("matrix", slow=["cards", "brawl"]))
def test_gradients_of_parts_add_up_to_that_of_the_whole(game: str) -> None:
    """Of parts of unequal size too, with masks, views while waiting, advantages normalised over the whole and what is
    foretold of the opponent; so does what an update tells of its losses."""
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


def test_parts_are_replayed_in_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minibatch is one capture, however many parts it has, and does what plain calls do, bit for bit."""
    without_kernels(monkeypatch)
    (plain, replayed), rollout = played("matrix", 2, minibatches=2, epochs=4, accumulate=3)
    double: Double = with_graphs(replayed)
    for group in plain.optimizer.param_groups:
        group["lr"] = torch.tensor(group["lr"])
    for _ in range(2):
        assert plain.update(rollout) == replayed.update(rollout)
    assert all(torch.equal(a, b) for a, b in zip(plain.policy.parameters(), replayed.policy.parameters(), strict=True))
    assert double.captures == 1 and double.replays == 16 - 2


def test_parts_keep_less_for_their_backward_pass() -> None:
    """Of ten parts no two are in memory at the same time."""
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
