"""The extra check of `env.strict_masks`: what the engine sees and plays agrees with the game's own state.

A wrong mask or a stale observation teaches nonsense without a sound; with the check it stops the run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from league.errors import GuardError
from league.play.checks import BatchError, Entry, Moment, mask_words, place
from league.types import EXTERNAL, SEATS, BoolArray, MatchBatch

ARRAYS = ("obs", "mask", "actions", "reward_terms", "terminated", "truncated", "final_obs", "result", "controllers")
TURNS = ("to_act", "held")


class StrictMasks:
    """Rebuilds masks and observations from the state at each step, and checks the chosen actions against them.

    It looks at the addresses of the game's arrays as well, which the engine reads without asking for them again, and at
    the range of observations. Of a game in turns only seats that are to act have masks and actions.

    Args:
        batch: what is played.
        twin: a batch of the same game, options and size, for this check alone.
    """

    def __init__(self, batch: MatchBatch, twin: MatchBatch) -> None:
        self._batch, self.twin = batch, twin
        self._arrays = _arrays(batch)
        self.now: Moment | None = None
        """What the step that was checked last is made from."""

    def check(self) -> None:
        """Called when all actions are written, before the step.

        Raises:
            BatchError: a mask or observation differs from the one rebuilt, or leaves its range, or an action is not
                legal.
            GuardError: an array is not where it was when the run began.
        """
        batch, twin = self._batch, self.twin
        self._check_in_place()
        before, self.now = self.now, Moment(batch.get_state(), batch.actions.copy())
        twin.set_state(self.now.state)
        deciding = _deciding(twin)
        wrong = np.argwhere(_deciding(batch) != deciding)
        if len(wrong):
            row, seat = (int(i) for i in wrong[0])
            text = (
                f"to_act is {not deciding[row, seat]}, rebuilt from the state {deciding[row, seat]}; the game has a bug"
            )
            raise self._error(text, Entry(row, seat, "action", None), before)
        for name, stored, rebuilt in (("obs", batch.obs, twin.obs), ("mask", batch.mask, twin.mask)):
            if stored is None or rebuilt is None:
                continue
            differs = stored != rebuilt
            if name == "mask":
                differs &= deciding[:, :, None]
            wrong = np.argwhere(differs)
            if len(wrong):
                row, seat, index = (int(i) for i in wrong[0])
                where = f"mask[{index}]" if name == "mask" else place(batch.spec, name, index)
                seen, real = stored[row, seat, index], rebuilt[row, seat, index]
                text = f"{where} is {seen}, rebuilt from the state {real}{self._masks(row, seat)}; the game has a bug"
                raise self._error(text, Entry(row, seat, name, index), before)
        self._check_range(before)
        if twin.mask is None and not batch.spec.action.has_real:
            return
        held = getattr(batch, "held", None)
        played = (batch.controllers == EXTERNAL) & deciding & (True if held is None else ~held[:, None])
        actions = np.where(played[:, :, None], batch.actions, 0)
        for row, seat in np.argwhere(played & ~batch.spec.action.is_legal(actions, twin.mask)).tolist():
            action = batch.actions[row, seat].tolist()
            text = f"action {action} is not legal{self._masks(row, seat)}; the policy or the game has a bug"
            raise self._error(text, Entry(row, seat, "action", None), before)

    def _check_in_place(self) -> None:
        for name, array in _arrays(self._batch).items():
            if array is not self._arrays.get(name) and array.ctypes.data != self._arrays[name].ctypes.data:
                raise GuardError(
                    f"{self._batch.spec.name}: {name} moved, so that what was played was not what the game shows; the"
                    f" game has a bug: write self.{name}[:] = ... instead of self.{name} = ...",
                    "strict_masks",
                )

    def _check_range(self, before: Moment | None) -> None:
        batch = self._batch
        low, high = batch.spec.obs_range
        if low <= batch.obs.min() and batch.obs.max() <= high:
            self._check_parts(before)
            return
        row, seat, index = (int(i) for i in np.argwhere(~((low <= batch.obs) & (batch.obs <= high)))[0])
        where, value = place(batch.spec, "obs", index), batch.obs[row, seat, index]
        text = f"{where} is {value}, outside obs_range {batch.spec.obs_range}; the game has a bug"
        raise self._error(text, Entry(row, seat, "obs", index), before)

    def _check_parts(self, before: Moment | None) -> None:
        batch = self._batch
        for part in batch.spec.observation or ():
            if part.problem(batch.obs):
                both = np.ndindex(batch.num_rows, SEATS)
                row, seat = next(place for place in both if part.problem(batch.obs[place]))
                text = f"obs: {part.problem(batch.obs[row, seat])}; the game has a bug"
                raise self._error(text, Entry(row, seat, "obs", part.start), before)

    def _masks(self, row: int, seat: int) -> str:
        """What is allowed by the mask that the nets saw, and by the rebuilt one."""
        if self._batch.mask is None or self.twin.mask is None:
            return ""
        spec = self._batch.spec.action
        seen, real = (mask_words(spec, mask[row, seat]) for mask in (self._batch.mask, self.twin.mask))
        return f"; allowed by the mask as seen: {seen}, as rebuilt: {real}"

    def _error(self, text: str, entry: Entry, before: Moment | None) -> BatchError:
        return BatchError(text, self._batch, entry, kind="strict_masks", is_played=False, before=before)


def _arrays(batch: MatchBatch) -> dict[str, npt.NDArray[Any]]:
    """A batch's arrays; while they are held, no other can come to lie at their addresses."""
    arrays = {name: getattr(batch, name, None) for name in (*ARRAYS, *TURNS)}
    return {name: array for name, array in arrays.items() if array is not None}


def _deciding(batch: MatchBatch) -> BoolArray:
    """(B, S): who is to act; everybody in a game without turns."""
    to_act: BoolArray | None = getattr(batch, "to_act", None)
    return np.ones((batch.num_rows, SEATS), np.bool_) if to_act is None else to_act
