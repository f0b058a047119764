"""Games in turns: whose rows wait for their learner's next decision, and what happens meanwhile.

A step of a rollout is one decision of the learner in every row. After it the others go on deciding where the learner
waits, and rows where it is to act again are held, until it is to act in all of them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from league.runtime.device import sent
from league.types import BoolArray, Turns, Watched

MAX_WAIT = 100_000
"""Decisions of others, one after the other, in which a row's learner waits; more is a game that has forgotten it."""


class LaneTurns:
    """Who is to act in a lane's rows.

    Args:
        batch: its games.
    """

    def __init__(self, batch: Turns) -> None:
        self._to_act, self.held = batch.to_act, batch.held
        self.acting = batch.to_act.copy()
        """(B, S): who decides in the step that comes, or that was made last."""
        self.is_pending = np.zeros(len(batch.held), np.bool_)
        """(B,): whether the match of the learner's last decision goes on, so that what comes is its outcome."""
        self.waited = 0
        """Steps since the learner decided."""
        self._rows = np.arange(len(batch.held))

    def waiting(self, seats: npt.NDArray[np.int64]) -> BoolArray:
        """(B,): whether the learner, in `seats` (B,), is not to act."""
        return ~self._to_act[self._rows, seats]

    def decide(self) -> None:
        """The next step is one that every row takes part in, by a decision of its learner."""
        self.is_pending[:] = True
        self.waited = 0
        self._begin(np.zeros_like(self.held))

    def reply(self, seats: npt.NDArray[np.int64]) -> None:
        """The next step is the others', in the rows whose learner waits."""
        self.waited += 1
        self._begin(~self.waiting(seats))

    def _begin(self, held: BoolArray) -> None:
        self.held[:] = held
        self.acting[:] = self._to_act & ~held[:, None]

    def watching(self, ended: BoolArray) -> BoolArray:
        """(B, S): who waits on after the other's decision, which its own next one would not show it.

        ended: (B,), whether the step ended the match, so that there is nothing left to see.
        """
        return self.acting[:, ::-1] & ~self._to_act & ~ended[:, None]


class WaitingViews:
    """What the learner's seats of a rollout have seen while they waited.

    Args:
        num_steps, num_rows: T and B of the rollout.
    """

    def __init__(self, num_steps: int, num_rows: int) -> None:
        self._num_steps, self._num_rows = num_steps, num_rows
        self._seen: dict[int, list[tuple[npt.NDArray[np.int64], Tensor]]] = {}

    def add(self, before: int, rows: npt.NDArray[np.int64], obs: Tensor) -> None:
        """`rows` (n,) see obs (n, obs_size) before step number `before`."""
        if before < self._num_steps:
            self._seen.setdefault(before, []).append((rows, obs))

    def forget(self, before: int, rows: npt.NDArray[np.int64]) -> None:
        """The matches of `rows` (n,) ended before that step: what was seen of them since the last one is of no use."""
        if not len(rows):
            return
        for those, obs in self._seen.pop(before, []):
            kept = np.flatnonzero(~np.isin(those, rows))
            self.add(before, those[kept], obs[sent(kept, obs.device)])

    def watched(self) -> Watched | None:
        """All of it; W is a power of two, so that compiled learning meets few shapes."""
        seen = [(step, rows, obs) for step in sorted(self._seen) for rows, obs in self._seen[step] if len(rows)]
        if not seen:
            return None
        rows = np.concatenate([rows for _, rows, _ in seen])
        before = np.concatenate([np.full(len(rows), step) for step, rows, _ in seen])
        obs = torch.cat([obs for _, _, obs in seen])
        order = np.argsort(rows, kind="stable")
        counts = np.bincount(rows, minlength=self._num_rows)
        index = np.empty_like(rows)
        index[order] = np.arange(len(rows)) - np.repeat(counts.cumsum() - counts, counts)
        width = 1 << int(counts.max() - 1).bit_length()
        steps = np.full((width, self._num_rows), self._num_steps)
        steps[index, rows] = before
        there = [sent(x, obs.device) for x in (index, rows, steps)]
        filled = obs.new_zeros(width, self._num_rows, obs.shape[-1])
        filled[there[0], there[1]] = obs
        return Watched(filled, there[2])
