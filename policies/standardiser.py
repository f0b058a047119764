"""Observations without bounds, by running means and deviations."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

MEMORY = 100
"""Updates after which an update is mostly forgotten; up to there each counts alike."""
CLIP = 10.0
"""Deviations from the mean beyond which a number counts as so far."""
LEAST = 1e-7
"""Of a number's size: deviations below it are float32's rounding."""


class Standardiser(nn.Module):
    """Numbers without bounds as deviations from their running mean, clipped; the others as they are.

    Numbers that have not varied yet, and before the first rollout all of them, become 0: a network begins alike
    whatever their scale and offset. Only `take` changes statistics, so that a sequence gives what its steps gave. Knows
    of stacked nets, as all layers of `league.policies.parts` do.

    Args:
        slices: [start, stop) of the observation, each of numbers without bounds; none: all stays as it is.
    """

    mean: Tensor
    deviation: Tensor
    updates: Tensor

    def __init__(self, slices: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        self._slices = tuple(slices)
        size = sum(stop - start for start, stop in slices)
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("deviation", torch.zeros(size))
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def forward(self, obs: Tensor) -> Tensor:
        """obs (..., obs_size) -> the same shape; of stacked nets (rows, obs_size), as many rows a net."""
        if not self._slices:
            return obs
        mean, deviation = self.mean, self.deviation
        rows = obs
        if mean.dim() == 2:
            rows, mean, deviation = obs.reshape(len(mean), -1, obs.shape[-1]), mean[:, None], deviation[:, None]
        varies = deviation > LEAST * mean.abs()
        numbers = ((self._of(rows) - mean) / deviation).clamp(-CLIP, CLIP)
        numbers = torch.where(varies, numbers, torch.zeros_like(numbers))
        found, at = rows.clone(), 0
        for start, stop in self._slices:
            found[..., start:stop] = numbers[..., at : at + stop - start]
            at += stop - start
        return found.view(obs.shape)

    @torch.no_grad()
    def take(self, obs: Tensor) -> None:
        """Counts the observations (T, B, obs_size) of one more rollout in."""
        if not self._slices:
            return
        numbers = self._of(obs).flatten(0, -2)
        # Sums of many numbers need float64, which not every kind of device has.
        numbers = (numbers.cpu() if numbers.device.type == "mps" else numbers).double()
        mean, deviation = (x.to(numbers.device, torch.float64) for x in (self.mean, self.deviation))
        self.updates += 1
        share = 1 / self.updates.clamp(max=MEMORY).to(numbers.device, torch.float64)
        change = numbers.mean(0) - mean
        variance = numbers.var(0, correction=0)
        mixed = (1 - share) * deviation.square() + share * variance + share * (1 - share) * change.square()
        self.mean.copy_(mean + share * change)
        self.deviation.copy_(mixed.sqrt())

    def _of(self, obs: Tensor) -> Tensor:
        return torch.cat([obs[..., start:stop] for start, stop in self._slices], -1)
