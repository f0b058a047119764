"""A linear layer that runs where it is fastest.

On a CPU torch multiplies float32 matrices with MKL, which leaves AVX-512 unused on AMD's processors; oneDNN, which
torch carries too, does not (docs/performance.md: 178 against 400 GFLOP/s on the same two cores). Everything else, and
builds without that operator, go through `torch.nn.functional.linear`. Both compute in float32 throughout.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(  # type: ignore[no-untyped-call]
    torch.ops.mkldnn, "_linear_pointwise"
)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (..., K) times weight (N, K) transposed, plus bias (N,): (..., N), differentiable.

    Weights and biases of several nets may be stacked: `league.policies.stacked`.
    """
    if weight.dim() == 3:
        return stacked_linear(x, weight, bias)
    is_plain = x.device.type == "cpu" and x.dtype == weight.dtype == torch.float32 and x.numel() > 0
    is_compiled = torch.compiler.is_compiling()  # torch.compile takes that operator for packed weights only
    if not is_plain or not _HAS_ONEDNN or is_compiled or torch.is_autocast_enabled("cpu"):
        return F.linear(x, weight, bias)
    if not torch.is_grad_enabled():
        return _multiply(x, weight, bias)
    result: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return result


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
        return _multiply(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        gradient = gradients[0].reshape(-1, weight.shape[0])
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            _multiply(gradient, weight.t(), None).view(x.shape) if needs_x else None,
            _multiply(gradient.t(), x.reshape(-1, x.shape[-1]).t(), None) if needs_weight else None,
            gradient.sum(0) if needs_bias else None,
        )


def _multiply(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return result


def lstm_cell(x: Tensor, hidden: Tensor, cell: Tensor, lstm: nn.LSTM) -> tuple[Tensor, Tensor]:
    """One step of a one-layer `lstm` from (hidden, cell), each (n, H), on x (n, input): the next (hidden, cell).

    `nn.LSTM` itself re-packs its weights at each call, which for a single step takes several times the step.
    """
    weight_x, weight_h, bias_x, bias_h = lstm.parameters()
    gates = linear(x, weight_x, bias_x) + linear(hidden, weight_h, bias_h)
    enter, forget, candidate, leave = gates.chunk(4, -1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(candidate)
    return torch.sigmoid(leave) * torch.tanh(cell), cell
