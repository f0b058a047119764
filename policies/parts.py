"""A structured observation as features: numbers through a linear layer, boards through convolutions, tokens by tables,
entities through attention.

The observation is one flat array; `ObservationPart` says where its parts lie. Each part becomes features of one width,
and these are added up, which is what one linear layer over all of them side by side would give.

All layers know of stacked nets (`league.policies.stacked`): their weights may have an axis of nets before the others,
and rows come net by net.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from league.policies.attention import LONGEST_AXIS
from league.policies.kernels.attention import attend, split
from league.policies.kernels.linear import Linear
from league.policies.opponent_encoder import TransformerLayer as AttentionBlock
from league.policies.torso import BLOCKS, HEAD, Planes, channels_of
from league.types import ObservationPart

SQUEEZED = 8
"""Channels of what all cells tell the rest of the network."""
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
    """3 x 3 filters over an image, one every `stride` pixels, zeros around it.

    torch's own convolution takes a quarter of the time of a linear layer over patches (lab/performance.md). First
    weights are small, as torch's own are: from large orthogonal ones the features hardly move, and a board's value is
    not learned (lab/experiments.md).
    """

    def __init__(self, channels: int, filters: int, stride: int = 1) -> None:
        super().__init__()
        self.stride = stride
        bound = 1 / math.sqrt(9 * channels)
        self.weight = nn.Parameter(torch.empty(filters, channels, 3, 3).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(filters))

    def forward(self, x: Tensor) -> Tensor:
        """x (n, channels, height, width) -> (n, filters, ceil(height / stride), ceil(width / stride))."""
        if self.weight.dim() == 4:
            return F.conv2d(x, self.weight, self.bias, self.stride, 1)
        nets = zip(x.chunk(len(self.weight)), self.weight, self.bias, strict=True)
        return torch.cat([F.conv2d(own, weight, bias, self.stride, 1) for own, weight, bias in nets])


class ResidualBlock(nn.Module):
    """Two convolutions whose result is added to what they see (He et al. 2016, arXiv:1512.03385)."""

    def __init__(self, filters: int) -> None:
        super().__init__()
        self.first = Convolution(filters, filters)
        self.second = Convolution(filters, filters)

    def forward(self, x: Tensor) -> Tensor:
        """(n, filters, height, width), as x."""
        # In place: a convolution's gradient needs what it sees, not what it gives, and memory is what takes time here.
        # Nothing is permuted before, since autograd copies what is written into a view.
        result: Tensor = self.second(self.first(x).relu_()).add_(x).relu_()
        return result


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


Seen = tuple[Tensor, Tensor | None]
"""Features (n, width) of a part, and its elements (n, E, channels): the cells of an image, the rows of entities."""


class NumbersPart(_Scaled):
    """A linear layer."""

    def __init__(self, part: ObservationPart, width: int) -> None:
        super().__init__(part)
        self.out = Linear(part.size, width)

    def forward(self, obs: Tensor) -> Seen:
        """obs (n, obs_size) -> (n, width), and no elements."""
        return self.out(self.of(obs)), None


class ImagePart(_Scaled):
    """Residual convolutions over a board, or over a picture that strided ones have made as small; then all its cells.

    Args:
        part: the image.
        width: features it becomes.
    """

    def __init__(self, part: ObservationPart, width: int) -> None:
        super().__init__(part)
        planes, channels = Planes.of(part, width), part.shape[2]
        self.stem = nn.ModuleList()
        for _ in range(planes.halvings):
            self.stem.append(Convolution(channels, planes.filters, 2))
            channels = planes.filters
        self.first = Convolution(channels, planes.filters)
        self.blocks = nn.Sequential(*(ResidualBlock(planes.filters) for _ in range(BLOCKS)))
        self.squeeze = Linear(planes.filters, SQUEEZED)
        self.out = Linear(planes.height * planes.across * SQUEEZED, width)

    def forward(self, obs: Tensor) -> Seen:
        """obs (n, obs_size) -> (n, width), and the cells (n, E, filters); a picture has become smaller."""
        x = self.of(obs).reshape(-1, *self.part.shape).permute(0, 3, 1, 2)  # channels last in memory
        for convolution in self.stem:
            x = convolution(x).relu_()
        cells = self.blocks(self.first(x).relu_()).permute(0, 2, 3, 1).flatten(1, 2)
        return self.out(F.relu(self.squeeze(cells)).flatten(1)), cells


class _Among:
    """The rows that attend to each other (`league.policies.opponent_encoder.Past`), to those alone that are there.

    Args:
        is_there: (n, N) bool. Rows without any attend to all of them alike.
    """

    def __init__(self, is_there: Tensor, heads: int) -> None:
        self._heads = heads
        hidden = torch.where(is_there, 0.0, -1e9)  # finite, so that no rows at all are no NaN
        self._hidden = hidden[:, None].expand(-1, is_there.shape[1], -1)  # (n, N, N)

    def attend(self, layer: int, tokens: Tensor, queries: Tensor | None = None) -> Tensor:
        """tokens (n, N, 3 channels) -> (n, N, 1, channels)."""
        given = [split(x, self._heads) for x in tokens.chunk(3, -1)] + [self._hidden.to(tokens.dtype)]
        if torch.compiler.is_compiling():  # where the number of rows is a symbol
            return attend(*given)[..., None, :]
        starts = range(0, len(tokens), LONGEST_AXIS)
        return torch.cat([attend(*(x[start : start + LONGEST_AXIS] for x in given)) for start in starts])[..., None, :]


class EntitiesPart(_Scaled):
    """Attention among the rows that are there, then their mean, their maximum and the share of rows that they are.

    Neither attention nor a mean counts, so the share is given. Absent rows become zeros before the first layer and
    after the last one: what they hold changes nothing. Zaheer et al. 2017, arXiv:1703.06114; Lee et al. 2019,
    arXiv:1810.00825.

    Args:
        part: the entities.
        width: features they become.
    """

    def __init__(self, part: ObservationPart, width: int) -> None:
        super().__init__(part)
        channels = channels_of(width)
        self.heads = channels // HEAD
        self.first = Linear(part.shape[1], channels)
        self.blocks = nn.ModuleList(AttentionBlock(channels, channels) for _ in range(BLOCKS))
        self.out = Linear(2 * channels + 1, width)

    def forward(self, obs: Tensor) -> Seen:
        """obs (n, obs_size) -> (n, width), and the rows (n, N, channels), of absent ones zeros."""
        is_there = obs[:, self.part.start : self.part.stop : self.part.shape[1]] > 0.5
        there = is_there[..., None]
        x = self.of(obs).view(-1, *self.part.shape)
        x = self.first(torch.where(there, x, 0.0))
        among = _Among(is_there, self.heads)
        for layer, block in enumerate(self.blocks):
            x = block(x, among, layer)
        rows = F.relu(x) * there
        count = there.sum(1).to(rows.dtype)
        pooled = torch.cat([rows.sum(1) / count.clamp(min=1), rows.amax(1), count / self.part.shape[0]], -1)
        return self.out(pooled), rows


class TokensPart(nn.Module):
    """A learned table of tokens, and a linear layer over all of a part, which knows them by their index."""

    def __init__(self, part: ObservationPart, width: int) -> None:
        super().__init__()
        self.part = part
        self.table = Embedding(part.count, TABLE_WIDTH)
        self.out = Linear(part.size * TABLE_WIDTH, width)

    def forward(self, obs: Tensor) -> Seen:
        """obs (n, obs_size) -> (n, width), and no elements. What is no token counts as the nearest one."""
        index = obs[:, self.part.start : self.part.stop].long().clamp(0, self.part.count - 1)
        return self.out(self.table(index).flatten(1)), None


KINDS = {"numbers": NumbersPart, "image": ImagePart, "tokens": TokensPart, "entities": EntitiesPart}


class SumOfParts(nn.Module):
    """The sum of what each part becomes.

    Beside an image or entities all begin as one linear layer over all of them would: by itself, the layer of two
    numbers would be as loud as that of a board. Tokens beside numbers keep first weights of their own
    (lab/experiments.md).
    """

    def __init__(self, parts: Sequence[ObservationPart], width: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList(KINDS[part.kind](part, width) for part in parts)
        if not any(isinstance(part, ImagePart | EntitiesPart) for part in self.parts):
            return
        layers = [part.out for part in self.parts if isinstance(part.out, Linear)]
        size = sum(layer.in_features for layer in layers)
        for layer in layers:
            layer.weight.data *= math.sqrt(layer.in_features / size)
            layer.bias.data *= math.sqrt(layer.in_features / size)

    def forward(self, obs: Tensor) -> Tensor:
        """obs (..., obs_size) -> (..., width)."""
        return self.with_elements(obs, ())[0]

    def with_elements(self, obs: Tensor, wanted: Sequence[int]) -> tuple[Tensor, list[Tensor]]:
        """obs (..., obs_size) -> (..., width), and the elements (..., E, channels) of the `wanted` parts."""
        rows, lead = obs.reshape(-1, obs.shape[-1]), obs.shape[:-1]
        features, elements = zip(*(part(rows) for part in self.parts), strict=True)
        total = functools.reduce(torch.add, features)
        return total.view(*lead, -1), [elements[index].view(*lead, *elements[index].shape[1:]) for index in wanted]


def embed(parts: Sequence[ObservationPart] | None, size: int, width: int) -> nn.Module:
    """(..., size) -> (..., width): a linear layer over flat numbers (no parts), or `SumOfParts`."""
    return Linear(size, width) if parts is None else SumOfParts(parts, width)
