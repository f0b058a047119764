"""Minibatches whose layers' gradients are made together, as on a GPU, against those of each layer alone."""

import pytest
import torch

from league.policies.kernels import gathered
from tests.helpers.capturing import without_kernels
from tests.helpers.cases import cases
from tests.training.test_accumulating import played


@pytest.mark.parametrize("game", cases("matrix", slow=["cards", "brawl"]))
def test_gradients_are_those_of_each_layer(game: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every parameter, up to rounding, with views while waiting and masks, of a minibatch in parts, with what is
    foretold of the opponent."""
    without_kernels(monkeypatch)
    (together, alone), rollout = played(game, 2, precision="highest", accumulate=2, opponent_prediction=0.5)
    told = together.update(rollout)
    monkeypatch.setattr(gathered, "gathers", lambda device: False)
    assert alone.update(rollout) == pytest.approx(told, rel=1e-4, abs=1e-6)
    for a, b in zip(alone.policy.parameters(), together.policy.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None and b.grad is not None:
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-6)
