"""Gradients of linear layers that are made together against those that each layer makes alone."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from league.policies.kernels import gathered
from league.policies.kernels.gathered import FEWEST, gathering
from league.policies.kernels.linear import Linear

CPU = torch.device("cpu")


@pytest.fixture
def _launches_bind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered, "gathers", lambda device: True)


class Net(nn.Module):
    """Layers of one shape, enough for a batched product, others alone, one of them used twice, and a frozen one."""

    def __init__(self) -> None:
        super().__init__()
        self.first = Linear(5, 6)
        self.alike = nn.ModuleList(Linear(6, 6) for _ in range(FEWEST))
        self.plain = Linear(6, 3, bias=False)
        self.twice = Linear(3, 3)
        self.frozen = Linear(3, 3).requires_grad_(False)
        self.unused = Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., 5) -> (..., 3)."""
        x = self.first(x)
        for layer in self.alike:
            x = x + torch.tanh(layer(x))
        x = self.twice(torch.tanh(self.twice(self.plain(x))))
        result: Tensor = self.frozen(x) + self.twice(x.flatten(0, -2)[:4]).sum()
        return result


def gradients(net: Net, x: Tensor, backward: Callable[[Tensor], None]) -> dict[str, Tensor | None]:
    """Those of all parameters and of x, by name."""
    net.zero_grad()
    x = x.clone().requires_grad_()
    backward(net(x).square().sum(dtype=x.dtype))
    return {"x": x.grad, **{name: p.grad for name, p in net.named_parameters()}}


@pytest.mark.parametrize("shape", [(7, 5), (3, 4, 5), (2, 0, 5)])
@pytest.mark.usefixtures("_launches_bind")
def test_gradients_are_those_of_each_layer(shape: tuple[int, ...]) -> None:
    """In float64, of every parameter and of the input; what is not used or frozen has none."""
    torch.manual_seed(0)
    net, x = Net().double(), torch.randn(*shape, 2, dtype=torch.float64)[..., 0]
    wanted = gradients(net, x, torch.autograd.backward)
    with gathering(net, CPU):
        found = gradients(net, x, torch.autograd.backward)
    assert {name for name, g in wanted.items() if g is None} >= {"unused.weight", "frozen.weight"}
    for name, gradient in wanted.items():
        ours = found[name]
        if gradient is None or ours is None:
            assert ours is gradient, name
        else:
            assert torch.allclose(ours, gradient, rtol=1e-12, atol=1e-12), name


@pytest.mark.usefixtures("_launches_bind")
def test_under_autocast_they_are_as_exact_as_torchs() -> None:
    """Products in bf16, gradients in float32: about as far from float64's as torch's own."""
    torch.manual_seed(0)
    net, x = Net(), torch.randn(64, 5)
    precise = copy.deepcopy(net).double()

    def in_bf16() -> dict[str, Tensor | None]:
        with torch.autocast("cpu", torch.bfloat16):
            return gradients(net, x, torch.autograd.backward)

    plain = in_bf16()
    with gathering(net, CPU):
        found = in_bf16()
    exact = gradients(precise, x.double(), torch.autograd.backward)
    for name, wanted in exact.items():
        ours, theirs = found[name], plain[name]
        if wanted is None or ours is None or theirs is None:
            assert ours is theirs is wanted, name
            continue
        assert ours.dtype == torch.float32
        assert (ours - wanted).norm() <= 1.5 * (theirs - wanted).norm() + 1e-3 * wanted.norm(), name


@pytest.mark.usefixtures("_launches_bind")
def test_gradients_add_up() -> None:
    """Backward twice through one pass is twice its gradient, and a second pass is added to the first."""
    torch.manual_seed(0)
    net, x = Net().double(), torch.randn(7, 5, dtype=torch.float64)
    once = {name: g.clone() for name, g in gradients(net, x, torch.autograd.backward).items() if g is not None}

    def twice(loss: Tensor) -> None:
        loss.backward(retain_graph=True)
        loss.backward()

    with gathering(net, CPU):
        found = gradients(net, x, twice)
    with gathering(net, CPU):
        net(x).square().sum().backward()
    for name, gradient in once.items():
        ours = found[name]
        assert ours is not None and torch.allclose(ours, (2 if name == "x" else 3) * gradient, rtol=1e-12), name


def test_on_a_cpu_nothing_is_gathered() -> None:
    """There launches do not bind: each layer goes its own way, to the bit."""
    torch.manual_seed(0)
    net, x = Net(), torch.randn(7, 5)
    wanted = gradients(net, x, torch.autograd.backward)
    with gathering(net, CPU):
        assert gathered.gathered_linear(x, net.first.weight, net.first.bias) is None
        found = gradients(net, x, torch.autograd.backward)
    assert all(a is b is None or torch.equal(a, b) for a, b in zip(wanted.values(), found.values(), strict=True))


@pytest.mark.usefixtures("_launches_bind")
def test_a_network_without_linear_layers_is_left_alone() -> None:
    """Nothing is gathered, and nothing fails."""
    net = nn.GRU(3, 2)
    with gathering(net, CPU):
        net(torch.ones(1, 1, 3))[0].sum().backward()
    assert all(p.grad is not None for p in net.parameters())
