"""Recorded decisions to learn from: each match of a seat as a sequence, and several of them as a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from league.play.seats import mask_type
from league.types import ActionSpec, BoolArray, FloatArray, Mask, Watched


@dataclass(frozen=True)
class Demonstration:
    """What a seat saw and decided in one match: E moments in their order, the last of them a decision."""

    match: str
    """Names the match: both of its seats have one name."""
    group: str
    """Names what is held out together: matches of one seed are alike."""
    obs: FloatArray  # (E, obs_size)
    decides: BoolArray  # (E,): a decision; else the seat looks on, in a game in turns (`Policy.watch`)
    mask: Mask | None  # (E, M), read where the seat decides; None: all is legal
    actions: npt.NDArray[Any]  # (E, A) of ActionSpec.dtype, likewise

    @property
    def decisions(self) -> int:
        """T, the number of decisions."""
        return int(self.decides.sum())


@dataclass(frozen=True)
class DemonstrationBatch:
    """n demonstrations beside each other, each as long as the longest: it repeats its last decision, which counts 0."""

    obs: Tensor  # (n, T, obs_size)
    action: Tensor  # (n, T, A)
    mask: Tensor | None  # (n, T, M)
    is_first: Tensor  # (n, T) bool
    counts: Tensor  # (n, T) bool, whether it is a decision that was made
    watched: Watched | None


def batch_of(some: Sequence[Demonstration], spec: ActionSpec, device: torch.device) -> DemonstrationBatch:
    """The batch of some demonstrations, on a device."""
    longest = max(each.decisions for each in some)
    places = [np.flatnonzero(each.decides)[np.minimum(np.arange(longest), each.decisions - 1)] for each in some]

    def stacked(arrays: Sequence[npt.NDArray[Any]]) -> Tensor:
        return torch.from_numpy(np.stack([x[place] for x, place in zip(arrays, places, strict=True)])).to(device)

    masks = [each.mask for each in some if each.mask is not None]
    is_first = torch.zeros(len(some), longest, dtype=torch.bool, device=device)
    is_first[:, 0] = True
    lengths = torch.tensor([each.decisions for each in some], device=device)
    action = stacked([each.actions for each in some])
    return DemonstrationBatch(
        obs=stacked([each.obs for each in some]),
        action=action if spec.has_real else action.long(),
        mask=stacked(masks).to(mask_type(spec)) if masks else None,
        is_first=is_first,
        counts=torch.arange(longest, device=device) < lengths[:, None],
        watched=_watched(some, longest, device),
    )


def _watched(some: Sequence[Demonstration], longest: int, device: torch.device) -> Watched | None:
    """What the seats saw while they waited, as a rollout has it; None where none did."""
    views = [np.flatnonzero(~each.decides) for each in some]
    most = max(map(len, views))
    if not most:
        return None
    obs = np.zeros((most, len(some), some[0].obs.shape[1]), np.float32)
    before = np.full((most, len(some)), longest, np.int64)
    for row, (each, seen) in enumerate(zip(some, views, strict=True)):
        obs[: len(seen), row] = each.obs[seen]
        before[: len(seen), row] = np.cumsum(each.decides)[seen]
    return Watched(torch.from_numpy(obs).to(device), torch.from_numpy(before).to(device))
