"""The extra check of `env.strict_masks`: what the engine sees and plays agrees with the game's own state.

A wrong mask or a stale observation teaches nonsense without a sound; with the check it stops the run.
"""

from __future__ import annotations

import numpy as np

from league.errors import LeagueError
from league.types import EXTERNAL, ActionSpec, BoolArray, MatchBatch


class StrictMasks:
    """Rebuilds masks and observations from the state at each step, and checks the chosen actions against them.

    Args:
        batch: what is played.
        twin: a batch of the same game, options and size, for this check alone.
    """

    def __init__(self, batch: MatchBatch, twin: MatchBatch) -> None:
        self._batch, self._twin = batch, twin

    def check(self) -> None:
        """Called when all actions are written, before the step.

        Raises:
            LeagueError: a mask or observation differs from the one rebuilt, or an action is not legal.
        """
        batch, twin = self._batch, self._twin
        twin.set_state(batch.get_state())
        for name, stored, rebuilt in (("obs", batch.obs, twin.obs), ("mask", batch.mask, twin.mask)):
            if stored is None or rebuilt is None:
                continue
            wrong = np.argwhere(stored != rebuilt)
            if len(wrong):
                row, seat, index = (int(i) for i in wrong[0])
                raise LeagueError(
                    f"env.strict_masks: {batch.spec.name} row {row}, seat {seat}: {name}[{index}] is"
                    f" {stored[row, seat, index]}, rebuilt from the state {rebuilt[row, seat, index]};"
                    " the game has a bug, report it with this line"
                )
        if twin.mask is None:
            return
        played = batch.controllers == EXTERNAL
        for row, seat in np.argwhere(played & ~legal(batch.spec.action, batch.actions, twin.mask)):
            mask, action = twin.mask[row, seat].astype(int).tolist(), batch.actions[row, seat].tolist()
            raise LeagueError(
                f"env.strict_masks: {batch.spec.name} row {row}, seat {seat}: action {action}"
                f" is not legal under the mask {mask}; the policy or the game has a bug, report it with this line"
            )


def legal(spec: ActionSpec, actions: np.ndarray[tuple[int, ...], np.dtype[np.int32]], mask: BoolArray) -> BoolArray:
    """(B, S): whether each action (B, S, A) keeps to its mask (B, S, M)."""
    if spec.kind == "multi_binary":
        kept = mask | (actions == 0)
    else:
        offsets = np.cumsum([0, *spec.choices[:-1]])
        kept = np.take_along_axis(mask, actions + offsets, axis=-1)
    return np.asarray(kept.all(-1), np.bool_)
