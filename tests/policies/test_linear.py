"""The fast linear layer against torch's own."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import league.policies.kernels.linear as module
from league.policies.kernels.linear import Linear, linear
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


@pytest.mark.parametrize("way", WAYS)
def test_a_part_of_an_observation_is_multiplied_like_one_of_its_own(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its gaps change no number."""
    choose(way, monkeypatch)
    whole = torch.randn(64, 245)
    weight = torch.randn(32, 99, requires_grad=True)
    found = [torch.autograd.grad(linear(x, weight).square().sum(), weight)[0] for x in _with_and_without_gaps(whole)]
    assert torch.equal(*found)


def test_only_larger_products_are_by_avx_512(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of `FEWEST_ROWS_WIDE` rows a net and `FEWEST_COLUMNS_WIDE` columns, and more."""
    monkeypatch.setattr(module, "USES_WIDE", True)
    given, ours = [], module.wide_products.multiply
    noted = SimpleNamespace(multiply=lambda *sides: (given.append(sides), ours(*sides)))
    monkeypatch.setattr(module, "wide_products", noted)
    for rows, nets, columns, is_wide in (
        (15, 0, 32, 0),
        (16, 0, 32, 1),
        (16, 1, 32, 1),
        (16, 2, 32, 1),
        (16, 2, 15, 0),
    ):
        given.clear()
        x, weight, bias = torch.randn(max(nets, 1) * rows, 16), torch.randn(columns, 16), torch.randn(columns)
        stacked = (weight.expand(nets, -1, -1), bias.expand(nets, -1)) if nets else (weight, bias)
        assert torch.allclose(linear(x, *stacked), x @ weight.T + bias, atol=1e-5)
        assert len(given) == is_wide, (rows, nets, columns)


def _with_and_without_gaps(whole: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return whole[:, 6:105], whole[:, 6:105].contiguous()


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


@pytest.mark.parametrize("way", ["wide", "tiles"])
def test_stacked_nets_are_each_net_alone(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In compiled products too, a stack's rows get the very numbers of a net of its own."""
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


@pytest.mark.parametrize("way", WAYS)
def test_a_right_side_laid_out_gives_the_same(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products with a right side laid out once, of many or few rows, written, added or new, equal those without."""
    choose(way, monkeypatch)
    right, given = torch.randn(300, 70), torch.randn(40, 70)
    for matrix in (right, right.t().contiguous().t()):
        ready = module.laid_out(matrix, 40)
        for rows in (40, 1):
            x = torch.randn(rows, 300)
            wanted, tolerance = module.product(x, matrix), {"atol": 1e-4, "rtol": 0.0}
            assert torch.allclose(module.product(x, ready), wanted, **tolerance)
            out = torch.empty(rows, 70)
            assert module.product(x, ready, out=out) is out and torch.allclose(out, wanted, **tolerance)
            out = given[:rows].clone()
            module.product(x, ready, out=out, adds=True)
            assert torch.allclose(out, given[:rows] + wanted, **tolerance)


def test_weights_at_rest_are_packed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within `at_rest` and without a gradient, to the same numbers; after it a changed weight counts."""
    choose("wide", monkeypatch)
    layer, x = Linear(40, 50), torch.randn(20, 40)
    packed, ours = [], module.wide_products.pack
    noted = SimpleNamespace(
        pack=lambda *sides: (packed.append(sides), ours(*sides)),
        **{name: getattr(module.wide_products, name) for name in ("multiply", "packed_length")},
    )
    monkeypatch.setattr(module, "wide_products", noted)
    with torch.no_grad():
        wanted = layer(x)
        with module.at_rest():
            assert torch.equal(layer(x), wanted) and torch.equal(layer(x), wanted) and len(packed) == 1
            with torch.enable_grad():
                assert torch.equal(layer(x), wanted) and len(packed) == 1
        layer.weight.mul_(2)
        assert not torch.equal(layer(x), wanted)
        with module.at_rest():
            assert torch.allclose(layer(x), x @ layer.weight.t() + layer.bias, atol=1e-5) and len(packed) == 2
