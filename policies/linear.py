"""A linear layer that runs where it is fastest.

On a CPU torch multiplies float32 matrices with MKL, which leaves AVX-512 unused on processors that are not Intel's;
oneDNN, which torch carries too, uses it everywhere (docs/performance.md: 178 against 400 GFLOP/s on the same two cores
of an AMD). Everything else, and builds without that operator, go through torch's own. Both compute in float32
throughout.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def _is_intel() -> bool:
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    except OSError:  # not Linux
        return "Intel" in platform.processor()


USES_ONEDNN = hasattr(torch.ops.mkldnn, "_linear_pointwise") and not (
    _is_intel() and torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (..., K) times weight (N, K) transposed, plus bias (N,): (..., N), differentiable.

    Weights and biases of several nets may be stacked: `league.policies.stacked`.
    """
    if weight.dim() == 3:
        return stacked_linear(x, weight, bias)
    if torch.is_grad_enabled() and _goes_through_onednn(x, weight):
        result: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return result
    return multiply(x, weight, bias)


def stacked_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x (nets * R, ..., K), R rows a net in the nets' order, times weight (nets, N, K), plus bias (nets, N)."""
    rows, turned = x.reshape(len(weight), -1, x.shape[-1]), weight.transpose(1, 2)
    out = torch.bmm(rows, turned) if bias is None else torch.baddbmm(bias[:, None], rows, turned)
    return out.view(*x.shape[:-1], weight.shape[1])


class Linear(nn.Linear):
    """`torch.nn.Linear` by `linear`; the parameters, their names and their initial values are the same."""

    def forward(self, x: Tensor) -> Tensor:
        """x (..., in_features) -> (..., out_features)."""
        return linear(x, self.weight, self.bias)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return multiply(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        gradient = gradients[0].reshape(-1, weight.shape[0])
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            multiply_back(gradient, weight).view(x.shape) if needs_x else None,
            multiply_across(gradient, x.reshape(-1, x.shape[-1])) if needs_weight else None,
            gradient.sum(0) if needs_bias else None,
        )


def multiply(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (..., K) times weight (N, K) transposed, plus bias (N,): (..., N)."""
    if not _goes_through_onednn(x, weight):
        return F.linear(x, weight, bias)
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return result


def added_to(given: Tensor, x: Tensor, weight: Tensor) -> Tensor | None:
    """What x (n, K) times weight (N, K) transposed adds to given (n, N), in float32; None where `given` has it already.

    MKL adds it as it multiplies, which spares a pass. No gradient flows.
    """
    if given.dtype == x.dtype == weight.dtype and not _goes_through_onednn(x, weight):
        given.addmm_(x, weight.t())
        return None
    return multiply(x, weight).float()


def turned(weight: Tensor) -> Tensor:
    """The same weight (N, K), laid out for products with few rows: in float32 MKL reads it faster by columns."""
    is_mkls = weight.dtype == torch.float32 and not _goes_through_onednn(weight, weight)
    return weight.t().contiguous().t() if is_mkls else weight


def multiply_back(gradient: Tensor, weight: Tensor, out: Tensor | None = None) -> Tensor:
    """The gradient (n, K) of x in `multiply`, from that (n, N) of its result; written into `out` where given."""
    if not _goes_through_onednn(gradient, weight):
        return torch.mm(gradient, weight, out=out)
    result = multiply(gradient, weight.t())
    return result if out is None else out.copy_(result)


def multiply_across(gradient: Tensor, x: Tensor) -> Tensor:
    """The gradient (N, K) of the weight in `multiply`, from that (n, N) of its result for x (n, K)."""
    return multiply(gradient.t(), x.t()) if _goes_through_onednn(gradient, x) else gradient.t() @ x


def _goes_through_onednn(x: Tensor, weight: Tensor) -> bool:
    if not USES_ONEDNN:
        return False
    is_plain = x.device.type == "cpu" and x.dtype == weight.dtype == torch.float32 and x.numel() > 0
    is_traced = torch.compiler.is_compiling()  # torch.compile takes that operator for packed weights only
    return is_plain and not is_traced and not torch.is_autocast_enabled("cpu")
