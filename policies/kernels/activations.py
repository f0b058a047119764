"""What stands between linear layers: in torch, and compiled where that can serve.

torch's hyperbolic tangent takes ten times as long on a CPU as a sigmoid does, of which it can be made.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from league.policies.kernels.switch import COMPILED, is_plain

activations = COMPILED["activations"]


@torch.library.custom_op("league::tanh", mutates_args=(), device_types="cpu")
def compiled_tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent of x, in float32, to 2e-7.

    Raises:
        ValueError: x is of another type or device, or not contiguous.
    """
    out = torch.empty_like(x)
    activations.tanh(x, out, torch.get_num_threads())
    return out


@compiled_tanh.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def _keep(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
    ctx.save_for_backward(output)


def _gradient(ctx: Any, d_out: Tensor) -> Tensor:
    (out,) = ctx.saved_tensors
    return torch.ops.aten.tanh_backward(d_out, out)  # type: ignore[no-any-return]


compiled_tanh.register_autograd(_gradient, setup_context=_keep)


class Tanh(nn.Module):
    """`torch.nn.Tanh`."""

    def forward(self, x: Tensor) -> Tensor:
        """x (...) -> (...), each number between -1 and 1."""
        if not is_plain(x) or not x.is_contiguous():
            return torch.tanh(x)
        if torch.is_grad_enabled():
            found: Tensor = compiled_tanh(x)
            return found
        out = torch.empty_like(x)  # without the operator's cost, which a step of play would feel
        activations.tanh(x, out, torch.get_num_threads())
        return out
