"""Attention of heads over latents, and products head by head."""

import pytest
import torch

from league.policies.attention import CrossAttention, attend_latents
from league.policies.kernels import gathered, linear
from league.policies.kernels.linear import by_head
from tests.helpers.ways import WAYS, choose

SHAPES = [(1, 1, 1, 1, 1), (1, 5, 2, 3, 7), (1, 33, 8, 8, 64), (3, 4, 2, 5, 40), (1, 6, 4, 20, 48)]
"""nets, rows, heads, latents, width"""


@pytest.fixture(params=[True, False], ids=["products", "fused"])
def _form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In products, as on a CPU, and fused, as where launches bind."""
    monkeypatch.setattr(gathered, "gathers", lambda device: not request.param)


@pytest.mark.usefixtures("_form")
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_found_is_each_heads_softmax(shape: tuple[int, ...]) -> None:
    """A loop over nets, rows and heads finds the same."""
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


@pytest.mark.usefixtures("_form")
def test_large_scores_are_no_danger() -> None:
    """Scores of hundreds give shares of 0 and 1, as torch's softmax does; what is not a number stays in its row."""
    sought, latents = 100 * torch.randn(1, 6, 2, 16), torch.randn(1, 6, 4, 16)
    wanted = attend_latents(sought.double(), latents.double(), 1.0)
    assert torch.allclose(attend_latents(sought, latents, 1.0).double(), wanted, atol=1e-3)
    if gathered.gathers(sought.device):
        return  # torch's fused attention for a CPU, which nothing plays through, gives 0 for what is not a number
    sought[0, 2, 1, 3] = float("nan")
    broken = attend_latents(sought, latents, 1.0)
    assert broken[0, 2, 1].isnan().all() and broken.isnan().sum() == 16


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


@pytest.mark.parametrize("way", ["tiles", "MKL"])
def test_the_layer_is_the_same_each_way(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cross-attention by tile units equals torch's, gradients of every weight included; bf16 comes close."""
    choose(way, monkeypatch)
    torch.manual_seed(0)
    layer, x, latents = CrossAttention(20, 32, 4), torch.randn(7, 9, 20), torch.randn(7, 9, 5, 32)
    latents.requires_grad_()
    upstream = torch.randn(7, 9, 32)

    def run() -> list[torch.Tensor]:
        found = layer(x, latents)
        return [found, *torch.autograd.grad(found, [latents, *layer.parameters()], upstream.to(found.dtype))]

    ours = run()
    with torch.autocast("cpu", torch.bfloat16):
        low = layer(x, latents)
    torch.set_float32_matmul_precision("highest")
    monkeypatch.setattr(linear, "is_plain", lambda *_: False)
    for a, b in zip(ours, run(), strict=True):
        assert torch.allclose(a, b, atol=2e-4)
    assert torch.allclose(low.float(), ours[0], atol=0.05)
