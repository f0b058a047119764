"""The extra check of `env.strict_masks`: what the engine sees and plays agrees with the game's own state.

A wrong mask or a stale observation teaches nonsense without a sound; with the check it stops the run.
"""

from __future__ import annotations

import numpy as np

from league.play.checks import BatchError, Entry, Moment, mask_words, place
from league.types import EXTERNAL, MatchBatch, Turns


class StrictMasks:
    """Rebuilds masks and observations from the state at each step, and checks the chosen actions against them.

    Args:
        batch: what is played.
        twin: a batch of the same game, options and size, for this check alone.
    """

    def __init__(self, batch: MatchBatch, twin: MatchBatch) -> None:
        self._batch, self._twin = batch, twin
        self.now: Moment | None = None
        """What the step that was checked last is made from."""

    def check(self) -> None:
        """Called when all actions are written, before the step.

        Raises:
            BatchError: a mask or observation differs from the one rebuilt, or an action is not legal.
        """
        batch, twin = self._batch, self._twin
        before, self.now = self.now, Moment(batch.get_state(), batch.actions.copy())
        twin.set_state(self.now.state)
        for name, stored, rebuilt in (("obs", batch.obs, twin.obs), ("mask", batch.mask, twin.mask)):
            if stored is None or rebuilt is None:
                continue
            wrong = np.argwhere(stored != rebuilt)
            if len(wrong):
                row, seat, index = (int(i) for i in wrong[0])
                where = f"mask[{index}]" if name == "mask" else place(batch.spec, name, index)
                seen, real = stored[row, seat, index], rebuilt[row, seat, index]
                text = f"{where} is {seen}, rebuilt from the state {real}{self._masks(row, seat)}; the game has a bug"
                raise self._error(text, Entry(row, seat, name, index), before)
        if twin.mask is None:
            return
        played = batch.controllers == EXTERNAL
        if isinstance(batch, Turns):
            played &= batch.to_act & ~batch.held[:, None]
        for row, seat in np.argwhere(played & ~batch.spec.action.is_legal(batch.actions, twin.mask)).tolist():
            action = batch.actions[row, seat].tolist()
            text = f"action {action} is not legal{self._masks(row, seat)}; the policy or the game has a bug"
            raise self._error(text, Entry(row, seat, "action", None), before)

    def _masks(self, row: int, seat: int) -> str:
        """What is allowed by the mask that the nets saw, and by the rebuilt one."""
        if self._batch.mask is None or self._twin.mask is None:
            return ""
        spec = self._batch.spec.action
        seen, real = (mask_words(spec, mask[row, seat]) for mask in (self._batch.mask, self._twin.mask))
        return f"; allowed by the mask as seen: {seen}, as rebuilt: {real}"

    def _error(self, text: str, entry: Entry, before: Moment | None) -> BatchError:
        return BatchError(text, self._batch, entry, kind="strict_masks", is_played=False, before=before)
