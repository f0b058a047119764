"""Seats of a batch: their arrays where the nets are, who plays them, and a match that ended as a row of the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from league.types import (
    BOT_PREFIX,
    DRAW,
    EXTERNAL,
    SEATS,
    ActionSpec,
    BoolArray,
    GameSpec,
    MatchBatch,
    MatchResult,
)

FORFEIT = "forfeit"
"""The end reason of a match that a program has forfeited, and the kind of its event."""
PLAYED = ("actions", "is_finite")
"""What the nets write, in the order in which it is sent."""


def bot_id(batch: MatchBatch, agent: str) -> int:
    """The controller that plays `agent`: the id of the native bot that it is, else EXTERNAL."""
    name = agent.removeprefix(BOT_PREFIX)
    return batch.spec.bots.index(name) if agent.startswith(BOT_PREFIX) and name in batch.spec.bots else EXTERNAL


def mask_type(action: ActionSpec) -> torch.dtype:
    """The type of a mask's tensor."""
    return torch.from_numpy(np.empty(0, action.mask_dtype)).dtype


def short_name(agent_id: str) -> str:
    """An agent to be read: of a snapshot, the beginning of its hash."""
    return agent_id if agent_id.startswith(BOT_PREFIX) else agent_id[:12]


class SeatView:
    """The arrays of a batch where the nets are: on a CPU the batch's own, elsewhere copies at fixed addresses.

    obs (B, S, obs_size), mask (B, S, M) or None, actions (B, S, A) and is_finite (B, S) are the tensors. `pull` brings
    the first two up to date; `push` sends the others on their way, and after `wait` the batch has the actions. `see`
    reads and `act` writes those of some seats. On CUDA nothing but `wait` waits for the device.
    """

    def __init__(self, batch: MatchBatch, device: torch.device) -> None:
        self.device = device
        self._batch, finite = batch, np.ones((batch.num_rows, SEATS), np.bool_)
        arrays = {"obs": batch.obs, "mask": batch.mask, "actions": batch.actions, "is_finite": finite}
        self._host = {name: torch.from_numpy(array) for name, array in arrays.items() if array is not None}
        self._is_here, is_cuda = device.type == "cpu", device.type == "cuda"
        self._staged = {name: torch.empty_like(x, pin_memory=True) if is_cuda else x for name, x in self._host.items()}
        self._there = {name: x if self._is_here else x.to(device) for name, x in self._host.items()}
        self._sent = torch.cuda.Event() if is_cuda else None  # type: ignore[no-untyped-call]
        self.obs, self.mask, self.actions = self._there["obs"], self._there.get("mask"), self._there["actions"]
        self.is_finite = self._there["is_finite"]
        """Whether the probability of a seat's action is a finite number; true where nobody told it."""
        self._finite = finite

    def tensors(self) -> list[Tensor]:
        """The tensors."""
        return list(self._there.values())

    def pull(self) -> None:
        """Observations and masks to the device."""
        if self._is_here:
            return
        for name in [name for name in self._there if name not in PLAYED]:
            if self._sent is not None:
                self._staged[name].copy_(self._host[name])
            self._there[name].copy_(self._staged[name], non_blocking=self._sent is not None)

    def see(self, seats: Tensor) -> tuple[Tensor, Tensor | None]:
        """Observations (n, obs_size) and masks (n, M) of seats (n,), counted through all seats of all rows."""
        obs = self.obs.flatten(0, 1).index_select(0, seats)
        return obs, None if self.mask is None else self.mask.flatten(0, 1).index_select(0, seats)

    def act(self, seats: Tensor, actions: Tensor, is_finite: Tensor | None = None) -> None:
        """Writes the actions (n, A) of seats (n,), counted likewise, and where it is given, `is_finite` (n,)."""
        self.actions.view(-1, actions.shape[1]).index_copy_(0, seats, actions.to(self.actions.dtype))
        if is_finite is not None:
            self.is_finite.view(-1).index_copy_(0, seats, is_finite)

    def act_all(self, actions: Tensor, is_finite: Tensor) -> None:
        """Writes the actions (B * S, A) of all seats, and `is_finite` (B * S,)."""
        self.actions.view(actions.shape).copy_(actions)
        self.is_finite.view(-1).copy_(is_finite)

    def push(self) -> None:
        """Begins to copy the actions to the batch."""
        if not self._is_here:
            for name in PLAYED:
                self._staged[name].copy_(self._there[name], non_blocking=self._sent is not None)
        if self._sent is not None:
            self._sent.record()

    def wait(self) -> None:
        """Until what was pushed is in the batch."""
        if self._sent is not None:
            self._sent.synchronize()
            for name in PLAYED:
                self._host[name].copy_(self._staged[name])

    def fault(self, played: BoolArray) -> tuple[int, int, str] | None:
        """The first of the seats `played` (B, S) whose action cannot be: row, seat, and what is wrong; after `wait`.

        It is looked at here, once for all who play: a network from outside may hold any finite weights, and from some
        of them follow probabilities that are no numbers, or so small that an illegal action is the likeliest.
        """
        if not played.any():  # bots alone
            return None
        batch, is_good = self._batch, self._finite
        if batch.mask is not None or batch.spec.action.has_real:
            is_good = is_good & batch.spec.action.is_legal(batch.actions, batch.mask)
        bad = played & ~is_good
        if not bad.any():
            return None
        row, seat = (int(i) for i in np.argwhere(bad)[0])
        if not self._finite[row, seat]:
            return row, seat, "its network gives no finite numbers"
        return row, seat, f"its network plays {batch.actions[row, seat].tolist()}, which is not legal there"


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
        payoff=spec.payoff(reward_sums),
        **fields,
    )


def forfeited(match: MatchResult, by: Sequence[bool], spec: GameSpec) -> MatchResult:
    """The match as it counts where seats have forfeited it: the other one has won; a draw where both have.

    by: (S,), who has forfeited. Its payoff is then the most that a match can pay, where that is known.
    """
    if not any(by):
        return match
    winner = DRAW if all(by) else int(by[0])
    payoff = match.payoff
    if payoff is not None and (winner == DRAW or spec.payoff_bound is not None):
        payoff = 0.0 if winner == DRAW else (spec.payoff_bound or 0.0) * (1 - 2 * winner)
    return replace(match, winner=winner, end_reason=FORFEIT, payoff=payoff)


def seat_pairs(values: npt.NDArray[Any]) -> Sequence[tuple[float, float]]:
    """Rows (N, S) as (seat 0, seat 1) pairs of floats."""
    return [(a, b) for a, b in values.tolist()]
