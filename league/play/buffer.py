"""What is kept of a rollout while it is played."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from league.play.lanes import Lane
from league.play.nets import LearnerStep
from league.play.turns import WaitingViews
from league.runtime.device import sent
from league.types import (
    MatchResult,
    PolicyState,
    Rollout,
    Watched,
)

TENSORS = ("obs", "action", "log_prob", "value", "reward", "next_value", "ends", "is_first")
"""Of a rollout, (T, B, ...), beside its masks."""


class RolloutBuffer:
    """What is kept of a rollout while it is played: the nets' side on the device, the games' side on the host.

    Args:
        num_steps, num_rows: T and B.
        state: the learner's memory as it begins.
        device: where the rollout is to be.
        finished: gets the matches that end.
    """

    def __init__(
        self, num_steps: int, num_rows: int, state: PolicyState, device: torch.device, finished: list[MatchResult]
    ) -> None:
        self.finished = finished
        self._shape, self._state, self._device = (num_steps, num_rows), state, device
        self._there: dict[str, Tensor] = {}
        self._cut_value = torch.zeros(self._shape, device=device)
        self._last_value = torch.zeros(num_rows, device=device)
        self._reward = np.zeros(self._shape, np.float32)
        self._ends, self._is_first = np.zeros(self._shape, np.bool_), np.zeros(self._shape, np.bool_)
        self.views = WaitingViews(num_steps, num_rows)

    def keep(self, t: int, lane: Lane, step: LearnerStep) -> None:
        """The nets' step number t."""
        rows = lane.rows
        for name, x in step._asdict().items():
            if x is None:
                continue
            if name not in self._there:
                self._there[name] = x.new_empty((*self._shape, *x.shape[1:]))
            self._there[name][t, rows] = x
        if t or lane.turns is None:
            self._is_first[t, rows] = lane.matches.is_first

    def keep_game(
        self,
        t: int,
        lane: Lane,
        reward: npt.NDArray[np.float32],
        ends: npt.NDArray[np.bool_],
        cut_values: tuple[Tensor, Tensor] | None,
    ) -> None:
        """What a step of the game brought to the learner's step number t."""
        rows = lane.rows
        self._reward[t, rows] += reward
        self._ends[t, rows] |= ends
        if cut_values is not None:
            self._cut_value[t, lane.first_row + cut_values[0]] = cut_values[1]

    def keep_last(self, lane: Lane) -> None:
        """The value of the state after the last step."""
        self._last_value[lane.rows] = lane.nets.value()

    def rollout(self) -> Rollout:
        """All of it, on the device."""
        there, value = self._there, self._there["value"]
        reward, ends, is_first = (sent(x, self._device) for x in (self._reward, self._ends, self._is_first))
        following = torch.cat([value[1:], self._last_value[None]])
        return Rollout(
            obs=there["obs"],
            mask=there.get("mask"),
            action=there["action"],
            log_prob=there["log_prob"],
            value=value,
            reward=reward,
            next_value=torch.where(ends, self._cut_value, following),
            ends=ends,
            is_first=is_first,
            state=self._state,
            finished=self.finished,
            watched=self.views.watched(),
        )


def side_by_side(segments: Sequence[Rollout]) -> Rollout:
    """Rollouts of T steps of the same B rows, one after the other in time, as one of T steps of n B rows.

    `finished` is that of the last, which has all.
    """
    if len(segments) == 1:
        return segments[0]
    first, *others = segments
    tensors = {name: [getattr(segment, name) for segment in segments] for name in TENSORS}
    joined = {name: torch.cat(parts, dim=1) for name, parts in tensors.items()}
    watched = [segment.watched for segment in segments]
    return Rollout(
        **joined,
        mask=None if first.mask is None else torch.cat([x.mask for x in segments if x.mask is not None], dim=1),
        state=first.state.join([segment.state for segment in others]),
        finished=segments[-1].finished,
        watched=_watched_side_by_side(watched, first.reward.shape),
        segments=len(segments),
    )


def _watched_side_by_side(parts: Sequence[Watched | None], shape: torch.Size) -> Watched | None:
    """What was watched in each segment of `shape` (T, B), with as many views a row as the most of them have."""
    width = max((x.before.shape[0] for x in parts if x is not None), default=0)
    if not width:
        return None
    known = next(x for x in parts if x is not None)
    obs = known.obs.new_zeros(width, len(parts), shape[1], known.obs.shape[-1])
    before = known.before.new_full((width, len(parts), shape[1]), shape[0])
    for i, part in enumerate(parts):
        if part is not None:
            obs[: part.obs.shape[0], i], before[: part.obs.shape[0], i] = part.obs, part.before
    return Watched(obs.flatten(1, 2), before.flatten(1, 2))
