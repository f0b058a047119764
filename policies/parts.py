"""A structured observation as features: numbers through a linear layer, images through convolutions, tokens by tables.

The observation is one flat array; `ObservationPart` says where its parts lie. Each part becomes features of one width,
and these are added up, which is what one linear layer over all of them side by side would give.

All layers know of stacked nets (`league.policies.stacked`): their weights may have an axis of nets before the others,
and rows come net by net. A convolution is a linear layer over the patches of an image, so that it keeps the precision
and the fast ways of `kernels.linear`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from league.policies.kernels.linear import Linear
from league.types import ObservationPart

FILTERS, MOST_FILTERS = 16, 32
"""Channels of the first convolution, and of those that follow."""
SMALL_AREA = 64
"""Convolutions halve an image's sides until so few pixels are left."""
TABLE_WIDTH = 32
"""Features of a token."""


class Embedding(nn.Embedding):
    """`torch.nn.Embedding`, whose table (count, width) may be that of several nets (nets, count, width)."""

    def forward(self, index: Tensor) -> Tensor:
        """index (rows, ...) int64 -> (rows, ..., width); of several nets, as many rows a net, in the nets' order."""
        if self.weight.dim() == 2:
            return F.embedding(index, self.weight)
        nets = torch.arange(len(self.weight), device=index.device)[:, None]
        return self.weight[nets, index.reshape(len(self.weight), -1)].view(*index.shape, -1)


class Convolution(nn.Module):
    """3 x 3 patches of an image, one every `stride` pixels, zeros around it, through a linear layer and GELU."""

    def __init__(self, channels: int, filters: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.patch = Linear(9 * channels, filters)

    def forward(self, x: Tensor) -> Tensor:
        """x (n, height, width, channels) -> (n, ceil(height / stride), ceil(width / stride), filters)."""
        padded = F.pad(x, (0, 0, 1, 1, 1, 1))
        patches = padded.unfold(1, 3, self.stride).unfold(2, 3, self.stride)  # (n, height, width, channels, 3, 3)
        return F.gelu(self.patch(patches.flatten(-3)))


class _Scaled(nn.Module):
    """What the network looks at of a part: its numbers, from its bounds to [-1, 1]."""

    def __init__(self, part: ObservationPart) -> None:
        super().__init__()
        self.part = part
        low, high = part.bounds or (-1.0, 1.0)
        self.scale, self.shift = 2 / (high - low), -(high + low) / (high - low)

    def of(self, obs: Tensor) -> Tensor:
        """(n, size) of obs (n, obs_size)."""
        x = obs[:, self.part.start : self.part.stop]
        return x if self.part.bounds is None else x * self.scale + self.shift


class NumbersPart(_Scaled):
    """A linear layer."""

    def __init__(self, part: ObservationPart, width: int) -> None:
        super().__init__(part)
        self.out = Linear(part.size, width)

    def forward(self, obs: Tensor) -> Tensor:
        """obs (n, obs_size) -> (n, width)."""
        result: Tensor = self.out(self.of(obs))
        return result


class ImagePart(_Scaled):
    """At least two convolutions, as many of stride 2 as make the image small, and a linear layer over all pixels."""

    def __init__(self, part: ObservationPart, width: int) -> None:
        super().__init__(part)
        height, across, channels = part.shape
        layers: list[nn.Module] = []
        while height * across > SMALL_AREA or len(layers) < 2:
            stride, filters = 2 if height * across > SMALL_AREA else 1, MOST_FILTERS if layers else FILTERS
            layers.append(Convolution(channels, filters, stride))
            height, across, channels = -(-height // stride), -(-across // stride), filters
        self.convolutions = nn.Sequential(*layers)
        self.out = Linear(height * across * channels, width)

    def forward(self, obs: Tensor) -> Tensor:
        """obs (n, obs_size) -> (n, width)."""
        image = self.of(obs).reshape(len(obs), *self.part.shape)
        result: Tensor = self.out(self.convolutions(image).flatten(1))
        return result


class TokensPart(nn.Module):
    """A learned table of tokens, and a linear layer over all of a part, which knows them by their index."""

    def __init__(self, part: ObservationPart, width: int) -> None:
        super().__init__()
        self.part = part
        self.table = Embedding(part.count, TABLE_WIDTH)
        self.out = Linear(part.size * TABLE_WIDTH, width)

    def forward(self, obs: Tensor) -> Tensor:
        """obs (n, obs_size) -> (n, width). What is no token counts as the nearest one."""
        index = obs[:, self.part.start : self.part.stop].long().clamp(0, self.part.count - 1)
        result: Tensor = self.out(self.table(index).flatten(1))
        return result


KINDS = {"numbers": NumbersPart, "image": ImagePart, "tokens": TokensPart}


class Parts(nn.Module):
    """The sum of what each part becomes."""

    def __init__(self, parts: Sequence[ObservationPart], width: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList(KINDS[part.kind](part, width) for part in parts)

    def forward(self, obs: Tensor) -> Tensor:
        """obs (..., obs_size) -> (..., width)."""
        rows = obs.reshape(-1, obs.shape[-1])
        first, *others = (part(rows) for part in self.parts)
        for x in others:
            first = first + x
        features: Tensor = first.view(*obs.shape[:-1], -1)
        return features


def embed(parts: Sequence[ObservationPart] | None, size: int, width: int) -> nn.Module:
    """(..., size) -> (..., width): a linear layer over flat numbers (no parts), or `Parts`."""
    return Linear(size, width) if parts is None else Parts(parts, width)
