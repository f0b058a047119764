"""A lane: rows that step together, with a batch of matches of its own."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from league.acts import act
from league.device import autocast
from league.play.checks import BatchError, check_finite, seed_of
from league.play.graphs import StepGraphs
from league.play.opponents import NO_SLOT, Matchmaker, Opponents, RowGroup
from league.play.seats import SeatView, bot_id, match_result
from league.play.strict import StrictMasks
from league.types import (
    EXTERNAL,
    SEATS,
    MatchBatch,
    MatchResult,
    Policy,
    PolicyState,
)


class LearnerStep(NamedTuple):
    """What the learner's net saw and did in one step: (B, ...) tensors on the device."""

    obs: Tensor
    mask: Tensor | None
    action: Tensor
    log_prob: Tensor
    value: Tensor


class Lane:
    """Rows that step together: their matches, who sits where, what the nets remember, what each match has brought.

    Args:
        batch: the matches.
        first_row: number of the lane's first row among all.
        policy: the learner's network.
        nets: the frozen ones.
        generator: draws the actions.
        precision: as `learner.precision`.
        graphs: replays the nets' step, if given.
        strict: checked before every step, if given.
    """

    def __init__(
        self,
        batch: MatchBatch,
        first_row: int,
        policy: Policy,
        nets: Opponents,
        generator: torch.Generator,
        precision: str,
        graphs: StepGraphs[LearnerStep] | None,
        strict: StrictMasks | None,
    ) -> None:
        self.batch, self.first_row, self.policy, self.nets = batch, first_row, policy, nets
        self._generator, self._graphs, self._strict = generator, graphs, strict
        self.device, num_rows = generator.device, batch.num_rows
        self.view = SeatView(batch, self.device)
        with autocast(self.device, precision):
            self.state: PolicyState = policy.initial_state(num_rows)
            # One row more than there are: padded entries of stacked nets play it, and what it holds means nothing.
            self.opponent_state: PolicyState = policy.initial_state(num_rows + 1)
        spec = batch.spec
        # The learner's seats, counted through all seats of all rows.
        self._own = torch.zeros(num_rows, dtype=torch.int64, device=self.device)
        self._groups: list[RowGroup] = []
        self._seen = torch.zeros(num_rows + 1, spec.obs_size, device=self.device)
        self._legal = torch.ones(num_rows + 1, spec.action.mask_size, dtype=torch.bool, device=self.device)
        self._chosen = torch.zeros(num_rows + 1, spec.action.num_parts, dtype=torch.int32, device=self.device)
        states = [tensor for state in (self.state, self.opponent_state) for tensor in state.tensors().values()]
        own = [self._own, self._seen, self._legal, self._chosen, *self.view.tensors()]
        self._reads = [*own, *states, *policy.parameters()]
        self.seats: npt.NDArray[np.int64] = np.arange(num_rows) % SEATS
        self.opponents: list[str] = [""] * num_rows
        self.slots = np.full(num_rows, NO_SLOT)
        self.is_first = np.ones(num_rows, np.bool_)
        self.begun_update = np.zeros(num_rows, np.int64)
        self.steps = np.zeros(num_rows, np.int64)
        self.sums = np.zeros((num_rows, SEATS, len(spec.reward_terms)), np.float64)
        self.ordinals = np.zeros(num_rows, np.int64)

    @property
    def num_rows(self) -> int:
        """Its rows."""
        return self.batch.num_rows

    def begin_matches(self, rows: npt.NDArray[np.int64], pool: Matchmaker, updates_made: int) -> None:
        """Draws the opponents of `rows` (n,), seats both sides and clears what both remember."""
        for row in rows.tolist():
            opponent = self.opponents[row] = pool.draw()
            slot = self.nets.enter(opponent)  # before `leave`: a net that is met again keeps its slot
            self.nets.leave(int(self.slots[row]))
            self.slots[row] = slot
            self.batch.controllers[row, 1 - self.seats[row]] = bot_id(self.batch, opponent)
        self.batch.controllers[rows, self.seats[rows]] = EXTERNAL
        index = torch.from_numpy(rows).to(self.device, non_blocking=True)
        self.state.clear(index)
        self.opponent_state.clear(index)
        self.begun_update[rows] = updates_made
        self.steps[rows] = 0
        self.sums[rows] = 0
        self._seat()

    def _seat(self) -> None:
        """Tells the device who sits where."""
        own = np.arange(self.num_rows) * SEATS + self.seats
        self._own.copy_(torch.from_numpy(own), non_blocking=True)
        self._groups = self.nets.groups(self.slots)

    def think(self) -> LearnerStep:
        """The step of all nets; the actions are on their way to the batch."""
        self.view.pull()
        if self._graphs is None:
            step = self._nets(self._groups)
        else:
            key = (self.first_row, *(group.shape for group in self._groups))
            reads = [*self._reads, *self.nets.weights(self._groups)]
            step, self._groups = self._graphs.call(key, self._nets, self._groups, reads)
        self.view.push()
        return step

    def _nets(self, groups: list[RowGroup]) -> LearnerStep:
        """Reads and writes only tensors of `_reads`, the groups and the nets' weights, so that it can be captured."""
        view = self.view
        obs, mask = view.see(self._own)
        with act("play_net"):
            action, log_prob, value = self.policy.step(obs, self.state, mask=mask, generator=self._generator)
        view.act(self._own, action)
        if not groups:  # bots alone
            return LearnerStep(obs, mask, action, log_prob.float(), value.float())
        others = self._own ^ 1  # a row's two seats follow one another, the first an even one
        self._seen[:-1], others_mask = view.see(others)
        if others_mask is not None:
            self._legal[:-1] = others_mask
        for group in groups:
            legal = None if view.mask is None else self._legal[group.rows]
            seen = self._seen[group.rows]
            with act("frozen_nets"):
                chosen = self.nets.step(group, seen, self.opponent_state, legal, self._generator)
            self._chosen[group.rows] = chosen.int()
        view.act(others, self._chosen[:-1])  # where a bot plays, the game ignores it
        return LearnerStep(obs, mask, action, log_prob.float(), value.float())

    def foresee(self, generator: torch.Generator) -> LearnerStep:
        """The learner's part of the next `think`, without taking it: on a copy of its memory, drawn by `generator`."""
        self.view.pull()
        obs, mask = self.view.see(self._own)
        action, log_prob, value = self.policy.step(obs, self.state.select(None), mask=mask, generator=generator)
        return LearnerStep(obs, mask, action, log_prob.float(), value.float())

    def stop_graphs(self) -> None:
        """From now on the nets' steps run as they are."""
        self._graphs = None

    def play(self) -> None:
        """The game's step, once it has the actions; may run in another thread."""
        self.view.wait()
        if self._strict is not None:
            self._strict.check()
        with act("game"):
            self.batch.step()
        check_finite(self.batch, is_played=True, before=None if self._strict is None else self._strict.now)

    def value(self) -> Tensor:
        """(B,): what the learner's net expects from now on."""
        self.view.pull()
        obs, _ = self.view.see(self._own)
        with act("play_net"):
            return self.policy.value(obs, self.state).float()

    def cut_values(self) -> tuple[Tensor, Tensor] | None:
        """Rows (n,) of matches that were cut, and the values (n,) of their last states under the memory they had."""
        cut = np.flatnonzero(self.batch.truncated & ~self.batch.terminated)
        if not len(cut):
            return None
        obs = torch.from_numpy(self.batch.final_obs[cut, self.seats[cut]]).to(self.device)
        rows = torch.from_numpy(cut).to(self.device)
        with act("play_net"):
            return rows, self.policy.value(obs, self.state, rows=rows).float()

    def finish_match(self, row: int, run: str, update: int, game_id: str) -> MatchResult:
        """The result of the match that ended; the learner takes the other seat next."""
        seat, opponent = int(self.seats[row]), self.opponents[row]
        result = match_result(
            self.batch,
            row,
            self.sums[row],
            first_row=self.first_row,
            run=run,
            kind="training",
            update=update,
            ordinal=int(self.ordinals[row]),
            game_id=game_id,
            agents=(run, opponent) if seat == 0 else (opponent, run),
            steps=int(self.steps[row]),
            sampling="sample",
            update_begin=int(self.begun_update[row]),
            update_end=update - 1,
        )
        self.ordinals[row] += 1
        self.seats[row] = 1 - seat
        return result

    def evidence(self, finding: BatchError, run: str) -> dict[str, Any]:
        """Whose match a finding is in, what was seen there, and the state to see it again from; spoils the batch.

        Where the match has just ended, an observation is already the next one's, whose opponent is not drawn yet.
        """
        batch, row = self.batch, finding.row
        state, before = batch.get_state(), finding.before
        seen = {"obs": batch.obs[row].tolist(), "actions": batch.actions[row].tolist()}
        has_ended = finding.is_played and bool(batch.terminated[row] | batch.truncated[row])
        is_next = has_ended and finding.what == "obs"
        steps = 0 if is_next else int(self.steps[row]) + finding.is_played
        seat = int(self.seats[row]) ^ is_next
        agents = [run, run]
        agents[1 - seat] = "" if is_next else self.opponents[row]
        return {
            "what": finding.what,
            "agents": agents,
            "row": self.first_row + row,
            "ordinal": int(self.ordinals[row]) + is_next,
            "seat": finding.seat,
            "index": finding.index,
            "step": steps,
            "tick": steps * batch.spec.ticks_per_step,
            "rows": batch.num_rows,
            "batch_row": row,
            "seen": {**seen, "mask": None if batch.mask is None else batch.mask[row].tolist()},
            "reward_terms": batch.reward_terms[row].tolist() if finding.is_played else None,
            "state": state,
            "before": None if before is None else {"state": before.state, "actions": before.actions.tolist()},
            "seed": int(batch.result["seed"][row]) if has_ended and not is_next else seed_of(batch, row),
        }

    def state_dict(self) -> dict[str, Any]:
        """All that the lane's next step depends on."""
        return {
            "batch": self.batch.get_state(),
            "state": self.state.tensors(),
            "opponent_state": self.opponent_state.tensors(),
            "opponents": list(self.opponents),
            "slots": self.slots,
            "seats": self.seats,
            "is_first": self.is_first,
            "begun_update": self.begun_update,
            "steps": self.steps,
            "sums": self.sums,
        }

    def takes(self, state: dict[str, Any]) -> bool:
        """Whether what the nets remember has the shapes of now, and the game takes its state; if so, it has it then."""
        pairs = (self.state, state["state"]), (self.opponent_state, state["opponent_state"])
        for now, saved in pairs:
            if any(name not in saved or saved[name].shape != x.shape for name, x in now.tensors().items()):
                return False
        try:
            self.batch.set_state(state["batch"])
        except ValueError:
            return False
        return True

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`, which `takes` found to fit; the nets must have been restored."""
        self.state.load(state["state"])
        self.opponent_state.load(state["opponent_state"])
        self.opponents = list(state["opponents"])
        for name in ("slots", "seats", "is_first", "begun_update", "steps", "sums"):
            getattr(self, name)[:] = state[name]
        self._seat()
