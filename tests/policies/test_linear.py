"""The fast linear layer, products by head, attention over latents, gradients made together: against torch's own."""

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import league.policies.kernels.linear as module
from league.policies.attention import attend_latents
from league.policies.kernels import gathered
from league.policies.kernels.gathered import FEWEST, gathering
from league.policies.kernels.linear import Linear, by_head, linear
from tests.helpers.ways import WAYS, choose


@pytest.mark.parametrize("shape", [(1, 7), (5, 7), (3, 4, 7), (64, 7), (0, 7)])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_values_and_gradients_are_torchs(
    shape: tuple[int, ...], has_bias: bool, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Output and every gradient equal torch's in float64, to the rounding of each way, strided inputs included."""
    choose(way, monkeypatch)
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
        assert ours.shape == theirs.shape and torch.allclose(
            ours.double(), theirs, atol=2e-4 if way == "tiles" else 1e-5, rtol=1e-5
        )
    with torch.no_grad():
        assert torch.equal(linear(x, weight, bias), out)


def test_layer_is_torchs_by_name_and_initial_value() -> None:
    """State dicts are exchangeable, and one seed gives the same weights."""
    torch.manual_seed(1)
    ours = Linear(6, 3)
    torch.manual_seed(1)
    theirs = nn.Linear(6, 3)
    assert all(torch.equal(value, theirs.state_dict()[name]) for name, value in ours.state_dict().items())


@pytest.mark.parametrize("way", ["wide", "tiles"])
def test_stacked_nets_are_each_net_alone(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    choose(way, monkeypatch)
    x, weights, bias = torch.randn(3 * 20, 40), torch.randn(3, 50, 40), torch.randn(3, 50)
    for stacked in (weights, weights.mT.contiguous().mT):
        out = linear(x, stacked, bias).view(3, 20, 50)
        alone = [linear(*parts) for parts in zip(x.view(3, 20, 40), weights, bias, strict=True)]
        assert torch.equal(out, torch.stack(alone))


@pytest.mark.skipif(not module.has_tiles(), reason="this processor has no tile units for bf16")
def test_only_what_is_large_and_may_be_inexact_runs_on_tiles() -> None:
    """`highest`, torch's default, is float32 throughout, as are small products and other types under `high`."""
    x, weight = torch.randn(256, 128), torch.randn(512, 128)
    exact = F.linear(x, weight)
    assert torch.equal(linear(x, weight), exact)
    torch.set_float32_matmul_precision("high")
    assert not torch.equal(linear(x, weight), exact)
    assert torch.equal(linear(x[:8], weight), F.linear(x[:8], weight))
    assert torch.equal(linear(x.double(), weight.double()), F.linear(x.double(), weight.double()))


def test_weights_at_rest_give_the_same_until_they_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within `at_rest` and without a gradient; after it a changed weight counts."""
    choose("wide", monkeypatch)
    layer, x = Linear(40, 50), torch.randn(20, 40)
    with torch.no_grad():
        wanted = layer(x)
        with module.at_rest():
            assert torch.equal(layer(x), wanted) and torch.equal(layer(x), wanted)
        layer.weight.mul_(2)
        for during in (module.at_rest(), nullcontext()):
            with during:
                assert torch.allclose(layer(x), x @ layer.weight.t() + layer.bias, atol=1e-5)


SHAPES = [(1, 1, 1, 1, 1), (1, 5, 2, 3, 7), (1, 33, 8, 8, 64), (3, 4, 2, 5, 40), (1, 6, 4, 20, 48)]
"""nets, rows, heads, latents, width"""


@pytest.fixture(params=[True, False], ids=["products", "fused"])
def _form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In products, as on a CPU, and fused, as where launches bind."""
    monkeypatch.setattr(gathered, "gathers", lambda device: not request.param)


@pytest.mark.usefixtures("_form")
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_found_is_each_heads_softmax(shape: tuple[int, ...]) -> None:
    torch.manual_seed(sum(shape))
    nets, rows, heads, num_latents, width = shape
    sought, latents = (
        torch.randn(nets, rows, heads, width).double(),
        torch.randn(nets, rows, num_latents, width).double(),
    )
    found = attend_latents(sought, latents, 0.3)
    for n in range(nets):
        for r in range(rows):
            for h in range(heads):
                shares = torch.softmax(latents[n, r] @ sought[n, r, h] * 0.3, 0)
                assert torch.allclose(found[n, r, h], shares @ latents[n, r])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("nets", [1, 3])
def test_heads_are_multiplied_by_their_own(way: str, nets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way equals a loop over nets and heads, gradients included."""
    choose(way, monkeypatch)
    x, weight = torch.randn(nets, 30, 4, 33), torch.randn(nets, 4, 33, 40)
    exact = [t.double().requires_grad_() for t in (x, weight)]
    ours = [t.requires_grad_() for t in (x, weight)]
    wanted = torch.stack([torch.stack([exact[0][n, :, h] @ exact[1][n, h] for h in range(4)], 1) for n in range(nets)])
    found, upstream = by_head(*ours), torch.randn_like(wanted)
    gradients = torch.autograd.grad(wanted, exact, upstream)
    for a, b in zip([found, *torch.autograd.grad(found, ours, upstream.float())], [wanted, *gradients], strict=True):
        assert a.shape == b.shape and torch.allclose(a.double(), b, atol=1e-3, rtol=1e-5)
    with torch.no_grad():
        assert torch.allclose(by_head(*ours).double(), wanted, atol=1e-3, rtol=1e-5)


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
