"""Seats of a batch: their arrays where the nets are, who plays them, and a match that ended as a row of the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from league.types import (
    BOT_PREFIX,
    EXTERNAL,
    MatchBatch,
    MatchResult,
)


def bot_id(batch: MatchBatch, agent: str) -> int:
    """The controller that plays `agent`: a native bot's id for `bot:NAME`, else EXTERNAL."""
    if agent.startswith(BOT_PREFIX):
        return batch.spec.bots.index(agent.removeprefix(BOT_PREFIX))
    return EXTERNAL


class SeatView:
    """The arrays of a batch where the nets are: on a CPU the batch's own, elsewhere copies at fixed addresses.

    obs (B, S, obs_size), mask (B, S, M) or None and actions (B, S, A) are the tensors. `pull` brings the first two up
    to date; `push` sends the actions on their way, and after `wait` the batch has them. `see` reads and `act` writes
    those of some seats. On CUDA nothing but `wait` waits for the device.
    """

    def __init__(self, batch: MatchBatch, device: torch.device) -> None:
        self.device = device
        arrays = {"obs": batch.obs, "mask": batch.mask, "actions": batch.actions}
        self._host = {name: torch.from_numpy(array) for name, array in arrays.items() if array is not None}
        self._is_here, is_cuda = device.type == "cpu", device.type == "cuda"
        self._staged = {name: torch.empty_like(x, pin_memory=True) if is_cuda else x for name, x in self._host.items()}
        self._there = {name: x if self._is_here else x.to(device) for name, x in self._host.items()}
        self._sent = torch.cuda.Event() if is_cuda else None  # type: ignore[no-untyped-call]
        self.obs, self.mask, self.actions = self._there["obs"], self._there.get("mask"), self._there["actions"]

    def tensors(self) -> list[Tensor]:
        """The tensors."""
        return list(self._there.values())

    def pull(self) -> None:
        """Observations and masks to the device."""
        if self._is_here:
            return
        for name in [name for name in self._there if name != "actions"]:
            if self._sent is not None:
                self._staged[name].copy_(self._host[name])
            self._there[name].copy_(self._staged[name], non_blocking=self._sent is not None)

    def see(self, seats: Tensor) -> tuple[Tensor, Tensor | None]:
        """Observations (n, obs_size) and masks (n, M) of seats (n,), counted through all seats of all rows."""
        obs = self.obs.flatten(0, 1).index_select(0, seats)
        return obs, None if self.mask is None else self.mask.flatten(0, 1).index_select(0, seats)

    def act(self, seats: Tensor, actions: Tensor) -> None:
        """Writes the actions (n, A) of seats (n,), counted likewise."""
        self.actions.view(-1, actions.shape[1]).index_copy_(0, seats, actions.to(self.actions.dtype))

    def push(self) -> None:
        """Begins to copy the actions to the batch."""
        if not self._is_here:
            self._staged["actions"].copy_(self.actions, non_blocking=self._sent is not None)
        if self._sent is not None:
            self._sent.record()

    def wait(self) -> None:
        """Until what was pushed is in the batch."""
        if self._sent is not None:
            self._sent.synchronize()
            self._host["actions"].copy_(self._staged["actions"])


def match_result(
    batch: MatchBatch, row: int, reward_sums: npt.NDArray[np.float64], *, first_row: int = 0, **fields: Any
) -> MatchResult:
    """The match that ended in `row` in this step: the game's own part from `batch.result`, the rest from `fields`.

    reward_sums: (S, R), the match's unweighted reward terms.
    first_row: number of the batch's first row among all.
    """
    spec, result = batch.spec, batch.result[row]
    reason = "truncated" if batch.truncated[row] else spec.end_reasons[int(result["end_reason"])]
    return MatchResult(
        row=first_row + row,
        seed=int(result["seed"]),
        winner=int(result["winner"]),
        end_reason=reason,
        ticks=int(result["ticks"]),
        metrics=dict(zip(spec.metrics, seat_pairs(result["metrics"].T), strict=True)),
        rewards=dict(zip(spec.reward_terms, seat_pairs(reward_sums.T), strict=True)),
        **fields,
    )


def seat_pairs(values: npt.NDArray[Any]) -> Sequence[tuple[float, float]]:
    """Rows (N, S) as (seat 0, seat 1) pairs of floats."""
    return [(a, b) for a, b in values.tolist()]
