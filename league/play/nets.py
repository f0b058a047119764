"""The nets of a lane: the learner's and the frozen ones, what they remember of each row, and a step of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from league.play.graphs import StepGraphs
from league.play.histories import forfeited_rows
from league.play.opponents import FIRST_GUEST, MAX_GROUPINGS, NO_SLOT, FixedGroups, Opponents, RowGroup
from league.play.seats import SeatView, mask_type
from league.runtime.device import autocast, sent
from league.runtime.phases import phase
from league.runtime.rows import RowGenerator
from league.types import SEATS, BoolArray, MatchBatch, Policy, PolicyStack, PolicyState


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
    joins: the learner plays in that call, too, where its memory can be part of theirs (`league.types.Divisible`).
    """

    generator: torch.Generator
    precision: str = "float32"
    stack: PolicyStack | None = None
    graphs: StepGraphs[RowGroup, LearnerStep | None] | None = None
    joins: bool = False


class LaneNets:
    """Who plays the rows of a batch, but for native bots.

    Args:
        batch: whose observations they see and whose actions they choose.
        policy: the learner's network.
        frozen: the frozen ones.
        calls: how all of them are called.
        first_row: number of the lane's first row among all.
    """

    def __init__(
        self,
        batch: MatchBatch,
        policy: Policy,
        frozen: Opponents,
        calls: NetCalls,
        first_row: int = 0,
    ) -> None:
        self.policy, self.frozen, self._generator, self.graphs = policy, frozen, calls.generator, calls.graphs
        device, num_rows, spec = calls.generator.device, batch.num_rows, batch.spec
        self._by_row = calls.generator if isinstance(calls.generator, RowGenerator) else None
        self._first_row, self._num_rows = first_row, num_rows
        self._at = (0, 0, 0)
        """The update, the learner's decision in it, and the replies since: what rows draw by where they draw by row."""
        self.view = SeatView(batch, device)
        with autocast(device, calls.precision):
            # One row more than there are: padded entries of stacked nets play it, and what it holds means nothing.
            self._whole: Any = None
            if frozen.is_joined:
                whole: Any = policy.initial_state(2 * num_rows + 1)
                states, self._whole = [whole.part(slice(0, num_rows)), whole.part(slice(num_rows, None))], whole
            else:
                states = [policy.initial_state(num_rows), policy.initial_state(num_rows + 1)]
            self.state: PolicyState = states[0]
            self.opponent_state: PolicyState = states[1]
            self._guest_states = {
                FIRST_GUEST - i: frozen.guest(FIRST_GUEST - i).initial_state(num_rows)
                for i in range(len(frozen.guests))
            }
        # The learner's seats, counted through all seats of all rows.
        self._own = torch.zeros(num_rows, dtype=torch.int64, device=device)
        self._seats, self._slots = np.arange(num_rows) * SEATS, np.full(num_rows, NO_SLOT)
        self._groups: dict[bytes, list[RowGroup]] = {}
        self._fixed = FixedGroups()
        self._others = _Others(
            torch.zeros(num_rows + 1, spec.obs_size, device=device),
            torch.ones(num_rows + 1, spec.action.mask_size, dtype=mask_type(spec.action), device=device),
            torch.zeros(num_rows + 1, spec.action.num_parts, dtype=self.view.actions.dtype, device=device),
            torch.ones(num_rows + 1, dtype=torch.bool, device=device),
        )
        memories = [tensor for state in states for tensor in state.tensors().values()]
        self._reads = [self._own, *self._others, *self.view.tensors(), *memories, *policy.parameters()]

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self._generator.device

    def forget(self, rows: npt.NDArray[np.int64]) -> None:
        """Clears what both sides remember of `rows` (n,)."""
        index = sent(rows, self.device)
        for state in (self.state, self.opponent_state, *self._guest_states.values()):
            state.clear(index)

    @property
    def guest_states(self) -> dict[str, PolicyState]:
        """What each guest remembers of the rows."""
        return dict(zip(self.frozen.guests, self._guest_states.values(), strict=True))

    def has_forfeited(self, row: int) -> bool:
        """Whether the opponent of a row has forfeited its match."""
        rows = forfeited_rows(self._guest_states.get(int(self._slots[row])))
        return rows is not None and bool(rows[row])

    def _memory(self, group: RowGroup) -> PolicyState:
        return self._guest_states.get(group.slot, self.opponent_state)

    def resume(self, update: int) -> None:
        """A rollout for the update of that number begins."""
        self._at = update, 0, 0

    def _draw_by_row(self, side: int, rows: Tensor | None = None) -> None:
        """A net of a side (0 the learner's, 1 the opponents') draws next, for `rows` (n,) or for all."""
        if self._by_row is not None:
            self._by_row.begin((*self._at, side), self._first_row, self._num_rows, rows)

    def seat(self, seats: npt.NDArray[np.int64], slots: npt.NDArray[np.int64]) -> None:
        """Tells the device who sits where: the learner's seats (B,), and the opponents' slots (B,)."""
        own = np.arange(len(seats)) * SEATS + seats
        self._own.copy_(sent(own, self.device))
        self._seats, self._slots = own, slots.copy()
        self._groups.clear()

    def step(self, acting: BoolArray | None = None) -> LearnerStep:
        """A decision of all nets; the actions are on their way to the batch.

        acting: (B,), where the opponent is to act as well; None: everywhere.
        """
        update, number, _ = self._at
        self._at = update, number + 1, 0
        step = self._call("step", self._decide if self.frozen.is_joined else self._step, acting)
        assert step is not None
        return step

    def reply(self, acting: BoolArray) -> None:
        """A decision of the opponents' nets alone, where they are `acting` (B,)."""
        update, number, replies = self._at
        self._at = update, number, replies + 1
        self._call("reply", self._reply, acting)

    def watch(self, watching: BoolArray, seats: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], Tensor] | None:
        """Shows the nets of the seats that are `watching` (B, S) what they see; `seats` (B,) are the learner's.

        Returns:
            The rows (n,) whose learner watches, and what it sees (n, obs_size); None where no learner does.
        """
        self.view.pull()
        rows = np.arange(len(seats))
        groups = self._groups_of(watching[rows, 1 - seats])
        for group in groups:
            if group.seats is not None:
                self.frozen.watch(group, self.view.see(group.seats)[0], self._whole)
            else:
                self._others.obs[:-1], _ = self.view.see(self._own ^ 1)
                self.frozen.watch(group, self._others.obs[group.rows], self._memory(group))
        own = np.flatnonzero(watching[rows, seats])
        if not len(own):
            return None
        there = sent(own, self.device)
        obs, _ = self.view.see(self._own[there])
        self.policy.watch(obs, self.state, rows=there)
        return own, obs

    def _call(
        self, name: str, nets: Callable[[list[RowGroup]], LearnerStep | None], acting: BoolArray | None
    ) -> LearnerStep | None:
        """Calls `nets` for the opponents that are acting (B,); the actions are on their way to the batch."""
        self.view.pull()
        groups = self._groups_of(acting, with_learner=name == "step")
        if self.graphs is None:
            result = nets(groups)
        else:
            captured = [group for group in groups if group.slot >= NO_SLOT]  # a guest may wait for the device
            key = (id(self), name, *(group.shape for group in captured))
            reads = [*self._reads, *self.frozen.weights(captured)]
            result = self.graphs.call(key, nets, self._fixed.hold(key, captured), reads)
            self._reply(groups[len(captured) :])
        self.view.push()
        return result

    def _groups_of(self, acting: BoolArray | None, *, with_learner: bool = False) -> list[RowGroup]:
        """The calls that play the opponents' nets in the rows where they are acting (B,), or in all.

        with_learner: where it plays in one call with them, it does so in this one.
        """
        key = bytes([with_learner]) + (b"" if acting is None else acting.tobytes())
        if key not in self._groups:
            if len(self._groups) >= MAX_GROUPINGS:
                self._groups.clear()
            slots = np.where(True if acting is None else acting, self._slots, NO_SLOT)
            if self.frozen.is_joined:
                self._groups[key] = self.frozen.joined(slots, self._seats, with_learner=with_learner)
            else:
                self._groups[key] = self.frozen.groups(slots)
        return self._groups[key]

    def _decide(self, groups: list[RowGroup]) -> LearnerStep:
        """As `_step`, where the learner plays in one call with the frozen nets, its rows first."""
        obs, mask, action, log_prob, value = self._joined(groups[0])
        self._reply(groups[1:])
        own = slice(0, len(self._own))
        seen = None if mask is None else mask[own]
        return LearnerStep(obs[own], seen, action[own], log_prob[own].float(), value[own].float())

    def _joined(self, group: RowGroup) -> tuple[Tensor, Tensor | None, Tensor, Tensor, Tensor]:
        """One call for both sides: what each entry (n, ...) saw and did; seats that nobody plays get any action."""
        assert group.seats is not None and group.where is not None
        view = self.view
        obs, mask = view.see(group.seats)
        with phase("play_net"):
            action, log_prob, value = self.frozen.decide(group, obs, self._whole, mask, self._generator)
        view.act_all(action.index_select(0, group.where), torch.isfinite(log_prob).index_select(0, group.where))
        return obs, mask, action, log_prob, value

    def _step(self, groups: list[RowGroup]) -> LearnerStep:
        """Reads and writes only tensors of `_reads`, the groups and the nets' weights, so that it can be captured."""
        view = self.view
        obs, mask = view.see(self._own)
        self._draw_by_row(0)
        with phase("play_net"):
            action, log_prob, value = self.policy.step(obs, self.state, mask=mask, generator=self._generator)
        view.act(self._own, action)
        self._reply(groups)
        return LearnerStep(obs, mask, action, log_prob.float(), value.float())

    def _reply(self, groups: list[RowGroup]) -> None:
        """The opponents' part of a step, under the same rule as `_step`."""
        if groups and groups[0].seats is not None:
            self._joined(groups[0])
            groups = groups[1:]
        if self.frozen.is_joined:
            for group in groups:
                self._guest(group)
            return
        if not groups:  # bots alone
            return
        view = self.view
        others = self._own ^ 1  # a row's two seats follow one another, the first an even one
        self._others.obs[:-1], others_mask = view.see(others)
        if others_mask is not None:
            self._others.legal[:-1] = others_mask
        for group in groups:
            legal = None if view.mask is None else self._others.legal[group.rows]
            seen = self._others.obs[group.rows]
            self._draw_by_row(1, group.rows)
            with phase("frozen_nets"):
                chosen, is_finite = self.frozen.step(group, seen, self._memory(group), legal, self._generator)
            self._others.action[group.rows] = chosen.to(self._others.action.dtype)
            self._others.is_finite[group.rows] = is_finite
        view.act(others, self._others.action[:-1], self._others.is_finite[:-1])  # where a bot plays, it is ignored

    def _guest(self, group: RowGroup) -> None:
        """A guest's decision in its rows."""
        seats = (self._own ^ 1).index_select(0, group.rows)
        obs, mask = self.view.see(seats)
        with phase("frozen_nets"):
            chosen, is_finite = self.frozen.step(group, obs, self._memory(group), mask, self._generator)
        self.view.act(seats, chosen, is_finite)

    @torch.no_grad()
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
        with phase("play_net"):
            return self.policy.value(obs, self.state).float()

    def last_value(self, obs: npt.NDArray[np.float32], rows: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """`rows` (n,) on the device, and what the learner's net expects there after obs (n, obs_size): (n,)."""
        there, seen = (sent(x, self.device) for x in (rows, obs))
        with phase("play_net"):
            return there, self.policy.value(seen, self.state, rows=there).float()
