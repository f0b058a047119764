"""The fast linear layer against torch's own."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import league.policies.linear as module
from league.policies.linear import Linear, linear


@pytest.mark.parametrize("shape", [(1, 7), (5, 7), (3, 4, 7), (64, 7), (0, 7)])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("uses_onednn", [True, False])
def test_values_and_gradients_are_torchs(
    shape: tuple[int, ...], has_bias: bool, uses_onednn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Output and every gradient equal those of torch in float64 to float32 rounding, strided inputs included."""
    monkeypatch.setattr(module, "USES_ONEDNN", uses_onednn)
    torch.manual_seed(0)
    x = torch.randn(*shape, 2)[..., 0].requires_grad_()
    weight = torch.randn(11, 7, requires_grad=True)
    bias = torch.randn(11, requires_grad=True) if has_bias else None
    inputs = [x, weight] + ([bias] if bias is not None else [])
    exact = [tensor.detach().double().requires_grad_() for tensor in inputs]
    out, expected = linear(x, weight, bias), F.linear(*exact)
    upstream = torch.randn_like(expected)
    found = torch.autograd.grad(out, inputs, upstream.float())
    wanted = torch.autograd.grad(expected, exact, upstream)
    for ours, theirs in zip([out, *found], [expected, *wanted], strict=True):
        assert ours.shape == theirs.shape and torch.allclose(ours.double(), theirs, atol=1e-4, rtol=1e-5)
    with torch.no_grad():
        assert torch.equal(linear(x, weight, bias), out)


def test_frozen_inputs_get_no_gradient() -> None:
    """Only what asks for a gradient gets one."""
    x, weight = torch.randn(3, 4), torch.randn(5, 4, requires_grad=True)
    torch.autograd.backward(linear(x, weight).sum())
    assert x.grad is None and weight.grad is not None


def test_other_types_go_through_torch() -> None:
    """float64 stays float64, and under autocast the product is bf16 as torch's would be."""
    assert torch.equal(linear(torch.ones(2, 3).double(), torch.ones(4, 3).double()), torch.full((2, 4), 3.0).double())
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(torch.ones(2, 3), torch.ones(4, 3)).dtype == torch.bfloat16


def test_layer_is_torchs_by_name_and_initial_value() -> None:
    """State dicts are exchangeable, and one seed gives the same weights."""
    torch.manual_seed(1)
    ours = Linear(6, 3)
    torch.manual_seed(1)
    theirs = nn.Linear(6, 3)
    assert all(torch.equal(value, theirs.state_dict()[name]) for name, value in ours.state_dict().items())
