"""Attention over a few latents: in torch, and compiled where that can serve."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from league.policies.kernels.switch import COMPILED, is_plain

latent_attention = COMPILED["latent_attention"]


def attend_latents(sought: Tensor, latents: Tensor, scale: float) -> Tensor:
    """sought (nets, R, heads, width), latents (nets, R, L, width), keys and values at once -> as sought."""
    if not is_plain(latents):
        return (sought @ latents.mT * scale).softmax(-1).to(latents.dtype) @ latents
    flat = [x.float().flatten(0, 1).contiguous() for x in (sought, latents)]
    found: Tensor = _AttendLatents.apply(*flat, scale)  # type: ignore[no-untyped-call]
    return found.view(sought.shape)


class _AttendLatents(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, sought: Tensor, latents: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(sought, latents)
        ctx.scale = scale
        found, ctx.share = latent_attention.forward(sought, latents, scale, torch.get_num_threads())
        result: Tensor = found
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        d_found, threads = gradients[0].contiguous(), torch.get_num_threads()
        return *latent_attention.backward(d_found, ctx.share, *ctx.saved_tensors, ctx.scale, threads), None
