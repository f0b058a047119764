"""A lane: rows that step together, with a batch of matches and nets of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from league.errors import GuardError
from league.play.checks import ArrayEntry, BatchError, check_finite, seed_of
from league.play.histories import Histories
from league.play.matches import RowMatches
from league.play.nets import LaneNets, LearnerStep
from league.play.opponents import NO_SLOT, Matchmaker
from league.play.seats import bot_id, short_name
from league.play.strict import StrictMasks
from league.play.turns import MAX_WAIT, LaneTurns, WaitingViews
from league.runtime.phases import phase
from league.runtime.rows import RowShare
from league.types import EXTERNAL, BoolArray, Closing, MatchBatch, MatchResult, Origin, Turns, ends_of


class Lane:
    """Rows that step together.

    Args:
        batch: their games.
        first_row: number of the lane's first row among all that this process plays.
        nets: who plays them.
        strict: may check each step before it is made, if given.
        share: which rows of the run this process plays, where others play the rest.
    """

    def __init__(
        self, batch: MatchBatch, first_row: int, nets: LaneNets, strict: StrictMasks | None, share: RowShare | None
    ) -> None:
        self.batch, self.first_row, self.nets, self._strict = batch, first_row, nets, strict
        self._share, self._number = share, first_row + (0 if share is None else share.first)
        self.matches = RowMatches(batch.num_rows, batch.spec, self._number if share is not None else 0)
        self.turns = LaneTurns(batch) if isinstance(batch, Turns) else None
        """Of a game in turns."""

    @property
    def num_rows(self) -> int:
        """Its rows."""
        return self.batch.num_rows

    @property
    def rows(self) -> slice:
        """Its rows among all."""
        return slice(self.first_row, self.first_row + self.num_rows)

    def close(self) -> None:
        """Lets go of what the batches hold beside memory."""
        for batch in (self.batch, None if self._strict is None else self._strict.twin):
            if isinstance(batch, Closing):
                batch.close()

    def resume(self, update: int) -> None:
        """A rollout for the update of that number begins."""
        self.matches.ordinals[:] = 0
        self.nets.resume(update)
        if self._strict is not None:
            self._strict.resume()

    def begin_matches(self, rows: npt.NDArray[np.int64], pool: Matchmaker, updates_made: int) -> None:
        """Draws the opponents of `rows` (n,), seats both sides and clears what both remember."""
        matches, frozen = self.matches, self.nets.frozen
        for row in rows.tolist():
            by = None if self._share is None else self._rng(self._share, updates_made, row)
            opponent = matches.opponents[row] = pool.draw(by)
            controller = self.batch.controllers[row, 1 - matches.seats[row]] = bot_id(self.batch, opponent)
            # Before `leave`: a net that is met again keeps its slot.
            slot = frozen.enter(opponent) if controller == EXTERNAL else NO_SLOT
            frozen.leave(int(matches.slots[row]))
            matches.slots[row] = slot
        self.batch.controllers[rows, matches.seats[rows]] = EXTERNAL
        self.nets.forget(rows)
        matches.begin(rows, updates_made)
        self.nets.seat(matches.seats, matches.slots)

    def _rng(self, share: RowShare, updates_made: int, row: int) -> np.random.Generator:
        return share.rng(updates_made, self.first_row + row, int(self.matches.ordinals[row]))

    def decide(self) -> LearnerStep:
        """A decision of every row's learner, and of the opponents who are to act in the same step."""
        if self.turns is None:
            return self.nets.step()
        self.turns.decide()
        return self.nets.step(self._acting_opponents(self.turns))

    def waits(self) -> bool:
        """Whether some row's learner is not to act.

        Raises:
            BatchError: one has not been to act for very long.
        """
        if self.turns is None:
            return False
        waiting = self.turns.waiting(self.matches.seats)
        if self.turns.waited > MAX_WAIT and waiting.any():
            row = int(waiting.argmax())
            entry = ArrayEntry(row, int(self.matches.seats[row]), "to_act", None)
            text = f"it has not been to act for {MAX_WAIT:,} steps; the game has a bug"
            raise BatchError(text, self.batch, entry, kind="no_turn", is_played=False, before=None)
        return bool(waiting.any())

    def reply(self) -> None:
        """A decision of the others in the rows whose learner waits."""
        assert self.turns is not None
        self.turns.reply(self.matches.seats)
        self.nets.reply(self._acting_opponents(self.turns))

    def _acting_opponents(self, turns: LaneTurns) -> BoolArray:
        return turns.acting[np.arange(self.num_rows), 1 - self.matches.seats]

    def count(self) -> BoolArray:
        """Counts the step that the games have just made; (B,) where a match ended."""
        return self.matches.add(self.batch, None if self.turns is None else self.turns.held)

    def watch(self, before: int, ended: BoolArray, views: WaitingViews) -> None:
        """Who waits after a step looks on; `views` keep what the learner sees before its step number `before`."""
        turns = self.turns
        assert turns is not None
        turns.is_pending &= ~ended
        views.forget(before, self.first_row + np.flatnonzero(ended))
        watching = turns.watching(ended) & (self.batch.controllers == EXTERNAL)
        seen = self.nets.watch(watching, self.matches.seats) if watching.any() else None
        if seen is not None:
            views.add(before, self.first_row + seen[0], seen[1])

    def play(self) -> None:
        """The game's step, once it has the actions; may run in another thread."""
        self.nets.view.wait()
        if self._strict is not None:
            self._strict.sample(self.matches.steps)
        self._check_opponents()
        with phase("game"):
            self.batch.step()
        check_finite(self.batch, is_played=True, before=None if self._strict is None else self._strict.now)

    def _check_opponents(self) -> None:
        """Refuses what an opponent's net plays where it cannot be; the learner's own is looked at when it learns.

        Raises:
            GuardError: with the opponent.
        """
        played = self.batch.controllers == EXTERNAL
        played[np.arange(self.num_rows), self.matches.seats] = False
        if self.turns is not None:
            played &= self.turns.acting
        fault = self.nets.view.fault(played)
        if fault is not None:
            row, _, problem = fault
            name = short_name(self.matches.opponents[row])
            raise GuardError(f"opponent {name}: {problem}; leave it out, or take an earlier snapshot", "bad_opponent")

    def cut_values(self) -> tuple[Tensor, Tensor] | None:
        """Rows (n,) of matches that were cut, and the values (n,) of their last states under the memory they had.

        Those in which the learner has decided nothing yet are left out.
        """
        terminated, truncated = ends_of(self.batch, self.matches.seats)
        is_cut = truncated & ~terminated
        cut = np.flatnonzero(is_cut if self.turns is None else is_cut & self.turns.is_pending)
        return self.nets.last_value(self.batch.final_obs[cut, self.matches.seats[cut]], cut) if len(cut) else None

    def finish_matches(self, rows: npt.NDArray[np.int64], origin: Origin, update: int) -> list[MatchResult]:
        """The results of the matches that ended in `rows` (n,) with the last step."""
        return [
            self.matches.finish(
                row, self.batch, self._number, origin, update, is_forfeited=self.nets.has_forfeited(row)
            )
            for row in rows.tolist()
        ]

    def evidence(self, finding: BatchError, run: str) -> dict[str, Any]:
        """Whose match a finding is in, what was seen there, and the state to see it again from; spoils the batch.

        Where the match has just ended, an observation is already the next one's, whose opponent is not drawn yet.
        """
        batch, row, now = self.batch, finding.entry.row, self.matches
        state, before = batch.get_state(), finding.before
        if before is not None and before.row not in (None, row):
            before = None
        seen = {"obs": batch.obs[row].tolist(), "actions": batch.actions[row].tolist()}
        has_ended = finding.is_played and bool(batch.terminated[row] | batch.truncated[row])
        is_next = has_ended and finding.entry.what == "obs"
        steps = 0 if is_next else int(now.steps[row]) + finding.is_played
        seat = int(now.seats[row]) ^ is_next
        agents = [run, run]
        agents[1 - seat] = "" if is_next else now.opponents[row]
        return {
            "what": finding.entry.what,
            "agents": agents,
            "row": self._number + row,
            "ordinal": int(now.ordinals[row]) + is_next,
            "seat": finding.entry.seat,
            "index": finding.entry.index,
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
            "state": self.nets.state.tensors(),
            "opponent_state": self.nets.opponent_state.tensors(),
            "guests": {agent: state.tensors() for agent, state in self.nets.guest_states.items()},
            **self.matches.state_dict(),
        }

    def takes(self, state: dict[str, Any]) -> bool:
        """Whether what the nets remember has the shapes of now, and the game takes its state; if so, it has it then."""
        guests, pairs = state.get("guests", {}), [(self.nets.state, state["state"])]
        if guests.keys() != self.nets.guest_states.keys():
            return False
        pairs += [(self.nets.opponent_state, state["opponent_state"])]
        pairs += [(memory, guests[agent]) for agent, memory in self.nets.guest_states.items()]
        for now, saved in pairs:
            if isinstance(now, Histories):
                if not now.fits(saved):
                    return False
            elif any(name not in saved or saved[name].shape != x.shape for name, x in now.tensors().items()):
                return False
        try:
            self.batch.set_state(state["batch"])
        except ValueError:
            return False
        return True

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`, which `takes` found to fit; the nets must have been restored."""
        self.nets.state.load(state["state"])
        self.nets.opponent_state.load(state["opponent_state"])
        for agent, memory in self.nets.guest_states.items():
            memory.load(state["guests"][agent])
        self.matches.load_state_dict(state)
        self.nets.seat(self.matches.seats, self.matches.slots)
