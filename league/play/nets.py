"""The nets of a lane: the learner's and the frozen ones, what they remember of each row, and a step of all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from league.acts import act
from league.device import autocast
from league.play.graphs import StepGraphs
from league.play.opponents import Opponents, RowGroup
from league.play.seats import SeatView, mask_type
from league.types import SEATS, MatchBatch, Policy, PolicyStack, PolicyState


class LearnerStep(NamedTuple):
    """What the learner's net saw and did in one step: (B, ...) tensors on the device."""

    obs: Tensor
    mask: Tensor | None
    action: Tensor
    log_prob: Tensor
    value: Tensor


class _Others(NamedTuple):
    """The opponents' side of a step: (B + 1, ...) tensors at fixed addresses, the last row the spare one."""

    obs: Tensor
    legal: Tensor
    action: Tensor
    is_finite: Tensor


@dataclass(frozen=True)
class NetCalls:
    """How the nets of a run are called.

    generator: draws the actions, on the nets' device.
    precision: as `learner.precision`.
    stack: plays the frozen nets in one call; without it each plays its rows in a call of its own.
    graphs: replays the nets' step as CUDA graphs; needs a `stack`, without which no two steps are alike.
    """

    generator: torch.Generator
    precision: str = "float32"
    stack: PolicyStack | None = None
    graphs: StepGraphs[LearnerStep] | None = None


class LaneNets:
    """Who plays the rows of a batch, but for native bots.

    Args:
        batch: whose observations they see and whose actions they choose.
        policy: the learner's network.
        frozen: the frozen ones.
        calls: how all of them are called.
    """

    def __init__(
        self,
        batch: MatchBatch,
        policy: Policy,
        frozen: Opponents,
        calls: NetCalls,
    ) -> None:
        self.policy, self.frozen, self._generator, self.graphs = policy, frozen, calls.generator, calls.graphs
        device, num_rows, spec = calls.generator.device, batch.num_rows, batch.spec
        self.view = SeatView(batch, device)
        with autocast(device, calls.precision):
            self.state: PolicyState = policy.initial_state(num_rows)
            # One row more than there are: padded entries of stacked nets play it, and what it holds means nothing.
            self.opponent_state: PolicyState = policy.initial_state(num_rows + 1)
        # The learner's seats, counted through all seats of all rows.
        self._own = torch.zeros(num_rows, dtype=torch.int64, device=device)
        self._groups: list[RowGroup] = []
        self._others = _Others(
            torch.zeros(num_rows + 1, spec.obs_size, device=device),
            torch.ones(num_rows + 1, spec.action.mask_size, dtype=mask_type(spec.action), device=device),
            torch.zeros(num_rows + 1, spec.action.num_parts, dtype=self.view.actions.dtype, device=device),
            torch.ones(num_rows + 1, dtype=torch.bool, device=device),
        )
        states = [tensor for state in (self.state, self.opponent_state) for tensor in state.tensors().values()]
        self._reads = [self._own, *self._others, *self.view.tensors(), *states, *policy.parameters()]

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self._generator.device

    def forget(self, rows: npt.NDArray[np.int64]) -> None:
        """Clears what both sides remember of `rows` (n,)."""
        index = torch.from_numpy(rows).to(self.device, non_blocking=True)
        self.state.clear(index)
        self.opponent_state.clear(index)

    def seat(self, seats: npt.NDArray[np.int64], slots: npt.NDArray[np.int64]) -> None:
        """Tells the device who sits where: the learner's seats (B,), and the opponents' slots (B,)."""
        own = np.arange(len(seats)) * SEATS + seats
        self._own.copy_(torch.from_numpy(own), non_blocking=True)
        self._groups = self.frozen.groups(slots)

    def step(self) -> LearnerStep:
        """The step of all nets; the actions are on their way to the batch."""
        self.view.pull()
        if self.graphs is None:
            step = self._step(self._groups)
        else:
            key = (id(self), *(group.shape for group in self._groups))
            reads = [*self._reads, *self.frozen.weights(self._groups)]
            step, self._groups = self.graphs.call(key, self._step, self._groups, reads)
        self.view.push()
        return step

    def _step(self, groups: list[RowGroup]) -> LearnerStep:
        """Reads and writes only tensors of `_reads`, the groups and the nets' weights, so that it can be captured."""
        view = self.view
        obs, mask = view.see(self._own)
        with act("play_net"):
            action, log_prob, value = self.policy.step(obs, self.state, mask=mask, generator=self._generator)
        view.act(self._own, action)
        if not groups:  # bots alone
            return LearnerStep(obs, mask, action, log_prob.float(), value.float())
        others = self._own ^ 1  # a row's two seats follow one another, the first an even one
        self._others.obs[:-1], others_mask = view.see(others)
        if others_mask is not None:
            self._others.legal[:-1] = others_mask
        for group in groups:
            legal = None if view.mask is None else self._others.legal[group.rows]
            seen = self._others.obs[group.rows]
            with act("frozen_nets"):
                chosen, is_finite = self.frozen.step(group, seen, self.opponent_state, legal, self._generator)
            self._others.action[group.rows] = chosen.to(self._others.action.dtype)
            self._others.is_finite[group.rows] = is_finite
        view.act(others, self._others.action[:-1], self._others.is_finite[:-1])  # where a bot plays, it is ignored
        return LearnerStep(obs, mask, action, log_prob.float(), value.float())

    def foresee(self, generator: torch.Generator) -> LearnerStep:
        """The learner's part of the next `step`, without taking it: on a copy of its memory, drawn by `generator`."""
        self.view.pull()
        obs, mask = self.view.see(self._own)
        action, log_prob, value = self.policy.step(obs, self.state.select(None), mask=mask, generator=generator)
        return LearnerStep(obs, mask, action, log_prob.float(), value.float())

    def value(self) -> Tensor:
        """(B,): what the learner's net expects from now on."""
        self.view.pull()
        obs, _ = self.view.see(self._own)
        with act("play_net"):
            return self.policy.value(obs, self.state).float()

    def last_value(self, obs: npt.NDArray[np.float32], rows: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """`rows` (n,) on the device, and what the learner's net expects there after obs (n, obs_size): (n,)."""
        there = torch.from_numpy(rows).to(self.device)
        with act("play_net"):
            return there, self.policy.value(torch.from_numpy(obs).to(self.device), self.state, rows=there).float()
