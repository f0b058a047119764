"""The extra check of `env.strict_masks`: what the engine sees and plays agrees with the game's own state.

A wrong mask or a stale observation teaches nonsense without a sound; with the check it stops the run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from league.errors import GuardError
from league.play.checks import ArrayEntry, BatchError, BeforeStep, mask_words, place
from league.runtime.phases import phase
from league.types import EXTERNAL, SEATS, BoolArray, MatchBatch

ARRAYS = ("obs", "mask", "actions", "reward_terms", "terminated", "truncated", "final_obs", "result", "controllers")
TURNS = ("to_act", "held")
SHARE = 0.03
"""Of the time in which rollouts are played, the most that the check takes: it looks at as many steps as fit."""
FIRST = 8
"""Checks that a run begins with, beyond `SHARE` too: what a short run finds does not depend on the clock."""


class StrictMasks:
    """Rebuilds masks and observations from the state, and checks the chosen actions, at a sample of the steps.

    It looks at the addresses of the game's arrays as well, which the engine reads without asking for them again, and at
    the range of observations. Of a game in turns only seats that are to act have masks and actions.

    A batch with `row_state` (`docs/design.md`), whose state grows with its matches, has one row rebuilt, all others
    have every row. The row's match is followed to its end by playing only its new actions in the twin; then another
    row's match is caught up with, at a random place, once there is time for that.

    Args:
        batch: what is played.
        make: makes a batch of the same game and options with the given number of rows, for this check alone.
        num_lanes: that share the time.
    """

    def __init__(self, batch: MatchBatch, make: Callable[[int], MatchBatch], num_lanes: int = 1) -> None:
        self._batch, self._num_lanes = batch, num_lanes
        self._row_state: Callable[[int], bytes] | None = getattr(batch, "row_state", None)
        self.twin = make(batch.num_rows if self._row_state is None else 1)
        self._arrays = _arrays(batch)
        self.now: BeforeStep | None = None
        """What the step is made from that is about to be made; None where it is not looked at."""
        self._since = time.perf_counter()
        self._played = self._spent = 0.0
        """Seconds of rollouts, and of them seconds of checks."""
        self._cost: float | None = None
        """Seconds of a step that the twin plays, by the cheapest check so far; None before the first."""
        self._num_checks, self._is_armed = 0, False
        """Whether the step before was kept for a check of this one."""
        self._rng = np.random.default_rng(0)
        self._row, self._is_following = 0, False
        """The row whose match the twin has, or is to have next."""
        self._target = self._longest = 0
        """Steps that the match has at least that is chosen next, and that the longest match had so far."""
        self._seen = self._made = 0
        """Steps of the row's match, and how many of them the twin has played."""

    def resume(self) -> None:
        """A rollout begins: what was done since the last one counts as no time of play."""
        self._since = time.perf_counter()

    def sample(self, steps: npt.NDArray[np.int64]) -> None:
        """Called when all actions are written, before every step: `check`, where it is one of the `FIRST` or has time.

        Of a step that is checked the one before was kept, so that it can be made once more.

        Args:
            steps: (B,) that each row's match has made.

        Raises:
            BatchError, GuardError: as `check`.
        """
        self._count_time()
        units = 1 + self._behind(steps)
        has_time = self._spent + units * (self._cost or 0.0) <= SHARE / self._num_lanes * self._played
        if not self._is_armed and (units == math.inf or (self._num_checks >= FIRST and not has_time)):
            self.now = None
            return
        with phase("strict_masks"):
            if self.now is None and self._num_checks:
                self.now, self._is_armed = self._moment(self._row), True
                self._spent += self._count_time()
                return
            self.check(self._row)
            self._num_checks += 1
            self._is_armed, self._is_following, self._made = False, True, self._seen
        seconds = self._count_time()
        self._spent += seconds
        self._cost = min(seconds / units, self._cost or math.inf)

    def _count_time(self) -> float:
        """Adds the seconds since the last call to those of play, and returns them."""
        before, self._since = self._since, time.perf_counter()
        self._played += self._since - before
        return self._since - before

    def _behind(self, steps: npt.NDArray[np.int64]) -> float:
        """Steps that the twin has to play to be where the row is that is checked next; chooses that row.

        Infinite where no match has come to the place at which the next one is to be caught up with.
        """
        if self._row_state is None:
            return 0
        self._longest = max(self._longest, int(steps.max()))
        if (self._is_following or self._is_armed) and steps[self._row] < self._seen:  # its match has ended
            self._is_following, self._made = False, 0
            self._target = int(self._rng.integers(self._longest + 1))
        if not self._is_following and not self._is_armed:
            there = np.where(steps >= self._target, steps, np.iinfo(np.int64).max)
            self._row = int(there.argmin())
            if steps[self._row] < self._target:
                return math.inf
        self._seen = int(steps[self._row])
        return self._seen - self._made

    def check(self, row: int = 0) -> None:
        """Called when all actions are written, before the step.

        row: whose match is rebuilt, of a batch with `row_state`.

        Raises:
            BatchError: a mask or observation differs from the one rebuilt, or leaves its range, or an action is not
                legal.
            GuardError: an array is not where it was when the run began.
        """
        batch, twin = self._batch, self.twin
        self._check_in_place()
        before, self.now = self.now, self._moment(row)
        twin.set_state(self.now.state)
        first, rows = (0, slice(None)) if self._row_state is None else (row, slice(row, row + 1))
        deciding = _deciding(twin)
        wrong = np.argwhere(_deciding(batch)[rows] != deciding)
        if len(wrong):
            at, seat = (int(i) for i in wrong[0])
            text = (
                f"to_act is {not deciding[at, seat]}, rebuilt from the state {deciding[at, seat]}; the game has a bug"
            )
            raise self._error(text, ArrayEntry(first + at, seat, "action", None), before)
        for name, stored, rebuilt in (("obs", batch.obs, twin.obs), ("mask", batch.mask, twin.mask)):
            if stored is None or rebuilt is None:
                continue
            differs = stored[rows] != rebuilt
            if name == "mask":
                differs &= deciding[:, :, None]
            wrong = np.argwhere(differs)
            if len(wrong):
                at, seat, index = (int(i) for i in wrong[0])
                where = f"mask[{index}]" if name == "mask" else place(batch.spec, name, index)
                seen, real = stored[first + at, seat, index], rebuilt[at, seat, index]
                masks = self._masks(first + at, seat, first)
                text = f"{where} is {seen}, rebuilt from the state {real}{masks}; the game has a bug"
                raise self._error(text, ArrayEntry(first + at, seat, name, index), before)
        self._check_range(before)
        self._check_actions(first, before)

    def _check_actions(self, first: int, before: BeforeStep | None) -> None:
        batch = self._batch
        if batch.mask is None and not batch.spec.action.has_real:
            return
        held = getattr(batch, "held", None)
        played = (batch.controllers == EXTERNAL) & _deciding(batch) & (True if held is None else ~held[:, None])
        actions = np.where(played[:, :, None], batch.actions, 0)
        for row, seat in np.argwhere(played & ~batch.spec.action.is_legal(actions, batch.mask)).tolist():
            action = batch.actions[row, seat].tolist()
            text = f"action {action} is not legal{self._masks(row, seat, first)}; the policy or the game has a bug"
            raise self._error(text, ArrayEntry(row, seat, "action", None), before)

    def _moment(self, row: int) -> BeforeStep:
        if self._row_state is None:
            return BeforeStep(self._batch.get_state(), self._batch.actions.copy())
        return BeforeStep(self._row_state(row), self._batch.actions[row : row + 1].copy(), row)

    def _check_in_place(self) -> None:
        for name, array in _arrays(self._batch).items():
            if array is not self._arrays.get(name) and array.ctypes.data != self._arrays[name].ctypes.data:
                raise GuardError(
                    f"{self._batch.spec.name}: {name} moved, so that what was played was not what the game shows; the"
                    f" game has a bug: write self.{name}[:] = ... instead of self.{name} = ...",
                    "strict_masks",
                )

    def _check_range(self, before: BeforeStep | None) -> None:
        batch = self._batch
        low, high = batch.spec.obs_range
        if low <= batch.obs.min() and batch.obs.max() <= high:
            self._check_parts(before)
            return
        row, seat, index = (int(i) for i in np.argwhere(~((low <= batch.obs) & (batch.obs <= high)))[0])
        where, value = place(batch.spec, "obs", index), batch.obs[row, seat, index]
        text = f"{where} is {value}, outside obs_range {batch.spec.obs_range}; the game has a bug"
        raise self._error(text, ArrayEntry(row, seat, "obs", index), before)

    def _check_parts(self, before: BeforeStep | None) -> None:
        batch = self._batch
        for part in batch.spec.observation or ():
            if part.problem(batch.obs):
                both = np.ndindex(batch.num_rows, SEATS)
                row, seat = next(place for place in both if part.problem(batch.obs[place]))
                text = f"obs: {part.problem(batch.obs[row, seat])}; the game has a bug"
                raise self._error(text, ArrayEntry(row, seat, "obs", part.start), before)

    def _masks(self, row: int, seat: int, first: int) -> str:
        """What is allowed by the mask that the nets saw, and where the twin has the row by the rebuilt one.

        first: the row that the twin's first one is.
        """
        if self._batch.mask is None or self.twin.mask is None:
            return ""
        spec = self._batch.spec.action
        told = f"; allowed by the mask as seen: {mask_words(spec, self._batch.mask[row, seat])}"
        if not first <= row < first + self.twin.num_rows:
            return told
        return f"{told}, as rebuilt: {mask_words(spec, self.twin.mask[row - first, seat])}"

    def _error(self, text: str, entry: ArrayEntry, before: BeforeStep | None) -> BatchError:
        return BatchError(text, self._batch, entry, kind="strict_masks", is_played=False, before=before)


def _arrays(batch: MatchBatch) -> dict[str, npt.NDArray[Any]]:
    """A batch's arrays; while they are held, no other can come to lie at their addresses."""
    arrays = {name: getattr(batch, name, None) for name in (*ARRAYS, *TURNS)}
    return {name: array for name, array in arrays.items() if array is not None}


def _deciding(batch: MatchBatch) -> BoolArray:
    """(B, S): who is to act; everybody in a game without turns."""
    to_act: BoolArray | None = getattr(batch, "to_act", None)
    return np.ones((batch.num_rows, SEATS), np.bool_) if to_act is None else to_act
