"""What is kept of a rollout while it is played."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from league.play.lanes import Lane
from league.play.nets import LearnerStep
from league.play.turns import Views
from league.types import (
    MatchResult,
    PolicyState,
    Rollout,
)


class RolloutBuffer:
    """What is kept of a rollout while it is played: the nets' side on the device, the games' side on the host."""

    def __init__(self, num_steps: int, num_rows: int, state: PolicyState, device: torch.device) -> None:
        self.finished: list[MatchResult] = []
        self._shape, self._state, self._device = (num_steps, num_rows), state, device
        self._there: dict[str, Tensor] = {}
        self._cut_value = torch.zeros(self._shape, device=device)
        self._last_value = torch.zeros(num_rows, device=device)
        self._reward = np.zeros(self._shape, np.float32)
        self._ends, self._is_first = np.zeros(self._shape, np.bool_), np.zeros(self._shape, np.bool_)
        self.views = Views(num_steps, num_rows)

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
        reward, ends, is_first = (
            torch.from_numpy(x).to(self._device) for x in (self._reward, self._ends, self._is_first)
        )
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
