"""What stands between linear layers, against torch's own."""

import pytest
import torch

from league.policies.kernels import switch
from league.policies.kernels.activations import Tanh, compiled_tanh

needs_compiled = pytest.mark.skipif(not switch.IS_ON, reason=switch.WHY_OFF)


@pytest.mark.parametrize("shape", [(1,), (7, 5), (3, 96, 31), (2, 8192), (0, 4)])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_values_and_gradients_are_torchs(shape: tuple[int, ...], scale: float) -> None:
    """With a gradient and without, near 0, between, and where it saturates, on one thread or two."""
    torch.manual_seed(0)
    x = (scale * torch.randn(shape)).requires_grad_()
    exact = x.detach().double().requires_grad_()
    wanted = exact.tanh()
    upstream = torch.randn(shape)
    (slope,) = torch.autograd.grad(wanted, exact, upstream.double())
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        found = Tanh()(x)
        torch.testing.assert_close(found.double(), wanted, atol=2e-7, rtol=1e-7)
        torch.testing.assert_close(torch.autograd.grad(found, x, upstream)[0].double(), slope, atol=2e-6, rtol=1e-5)
        with torch.no_grad():
            assert torch.equal(Tanh()(x), found)
    torch.set_num_threads(before)


def test_other_layouts_and_types_go_through_torch() -> None:
    """What lies otherwise, float64, and bf16 under autocast."""
    turned = torch.randn(5, 4).t()
    for x in (turned, turned.double(), turned.bfloat16()):
        assert torch.equal(Tanh()(x), torch.tanh(x))


def test_what_is_no_number_stays_none() -> None:
    """And no other number is touched by it."""
    x = torch.tensor([0.5, float("nan"), float("inf"), -float("inf")])
    found = Tanh()(x)
    assert found[1].isnan() and found[2] == 1 and found[3] == -1 and abs(found[0] - torch.tanh(x[0])) < 2e-7


@needs_compiled
def test_it_is_an_operator() -> None:
    """Schema, gradient, fake form and tracing are as torch demands."""
    torch.library.opcheck(compiled_tanh, (torch.randn(7, 20, requires_grad=True),))


@needs_compiled
@pytest.mark.parametrize("fault", ["type", "layout"])
def test_a_wrong_tensor_is_refused(fault: str) -> None:
    """One line says what it must be."""
    wrong = {"type": torch.randn(4, 5).double(), "layout": torch.randn(5, 4).t()}[fault]
    with pytest.raises(ValueError, match=r"^activations: x is .* must be .*$"):
        compiled_tanh(wrong)
