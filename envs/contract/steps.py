"""The match-batch contract, as far as one batch shows it: its spec, its arrays, and each step as it is played.

`league.envs.contract.check.check_match_batch` plays with it and compares runs beside.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from league.errors import ContractError, words_of
from league.types import DRAW, SEATS, BoolArray, FloatArray, GameSpec, MatchBatch, Turns, result_dtype
from league.types.observations import parts_within

HIDES = "draw all chance from the match's seed, and let `reset` and the state have all that a match changes"
OUTPUTS = ("obs", "mask", "reward_terms", "terminated", "truncated")
ARRAYS = (*OUTPUTS, "actions", "final_obs", "result", "controllers")
TURNS = ("to_act", "held")
METHODS = ("reset", "step", "get_state", "set_state")
WIN = "win"
"""The reward term that games give for winning."""
STALE = "self.NAME = ... makes a new array that nobody reads; write self.NAME[:] = ..."


def need(holds: bool | np.bool_, rule: str) -> None:
    """Refuses a game that breaks a rule.

    Raises:
        ContractError: it does.
    """
    if not holds:
        raise ContractError(rule)


def check_spec(spec: Any) -> None:
    """Refuses a spec that is none, or says what cannot be.

    Raises:
        ContractError: the first such thing.
    """
    need(isinstance(spec, GameSpec), f"spec is of type {type(spec).__name__}, not league.types.GameSpec")
    action = spec.action
    numbers: dict[str, Any] = {
        "version": spec.version,
        "obs_size": spec.obs_size,
        "ticks_per_step": spec.ticks_per_step,
        "action.max_tuples": action.max_tuples,
        **{f"opponent_slice[{i}]": x for i, x in enumerate(spec.opponent_slice)},
        **{f"action.choices[{i}]": x for i, x in enumerate(x for leaf in action.leaves for x in leaf.choices)},
    }
    for name, value in numbers.items():
        kind = type(value).__name__
        need(type(value) is int, f"{name}={value!r} is of type {kind}, which cannot be stored; write int({name})")
    for name, value in (*((f"obs_range[{i}]", x) for i, x in enumerate(spec.obs_range)), ("tick_rate", spec.tick_rate)):
        kind = type(value).__name__
        need(type(value) in (int, float), f"{name}={value!r} is of type {kind}, which cannot be stored; write a float")
    start, stop = spec.opponent_slice
    need(spec.obs_size > 0, f"obs_size={spec.obs_size} must be at least 1")
    need(0 <= start <= stop <= spec.obs_size, f"opponent_slice {spec.opponent_slice} leaves obs_size={spec.obs_size}")
    try:
        parts_within(spec.observation or (), start, stop)
    except ValueError as error:
        raise ContractError(str(error)) from None
    low, high = spec.obs_range
    need(-np.inf < low < high < np.inf, f"obs_range {spec.obs_range} is not from a number to a greater one")
    for leaf in action.leaves:
        need(leaf.kind == "box" or min(leaf.choices, default=0) > 1, f"no choice in action {leaf}")
        keys = leaf.kind == "multi_binary"
        need(not keys or set(leaf.choices) == {2}, f"a key has two choices, not {leaf.choices}")
    for name in ("reward_terms", "metrics", "end_reasons", "bots"):
        names = getattr(spec, name)
        is_named = isinstance(names, tuple) and all(isinstance(x, str) for x in names)
        need(is_named, f"{name}={names!r} must be a tuple of strings")
        need(len(set(names)) == len(names), f"{name} has a name twice: {names}")
    need(bool(spec.reward_terms) and bool(spec.end_reasons), "reward_terms and end_reasons may not be empty")
    need(spec.tick_rate > 0, f"tick_rate={spec.tick_rate} must be positive")


def check_arrays(batch: Any, rows: int) -> None:
    """Refuses a batch that lacks something, or has an array of another shape, type or order.

    Raises:
        ContractError: the first such thing.
    """
    for name in ("spec", "num_rows", *ARRAYS):
        need(hasattr(batch, name), f"the batch has no attribute `{name}` (league.types.MatchBatch)")
    for name in METHODS:
        need(callable(getattr(batch, name, None)), f"the batch has no method {name}() (league.types.MatchBatch)")
    both = [hasattr(batch, name) for name in TURNS]
    need(all(both) or not any(both), "a game in turns has to_act and held; the batch has one of them")
    check_spec(batch.spec)
    spec = batch.spec
    need(batch.num_rows == rows, f"num_rows is {batch.num_rows}, asked for {rows}")
    expected: dict[str, tuple[tuple[int, ...], Any]] = {
        "obs": ((rows, SEATS, spec.obs_size), np.float32),
        "actions": ((rows, SEATS, spec.action.num_parts), spec.action.dtype),
        "mask": ((rows, SEATS, spec.action.mask_size), spec.action.mask_dtype),
        "reward_terms": ((rows, SEATS, len(spec.reward_terms)), np.float32),
        "terminated": ((rows,), np.bool_),
        "truncated": ((rows,), np.bool_),
        "final_obs": ((rows, SEATS, spec.obs_size), np.float32),
        "result": ((rows,), result_dtype(len(spec.metrics))),
        "controllers": ((rows, SEATS), np.int16),
        "to_act": ((rows, SEATS), np.bool_),
        "held": ((rows,), np.bool_),
    }
    for name, (shape, dtype) in expected.items():
        array = getattr(batch, name, None)
        if array is None and (name in TURNS or (name == "mask" and spec.action.kind != "legal_tuples")):
            continue
        if not isinstance(array, np.ndarray):
            raise ContractError(f"{name} is of type {type(array).__name__}, not a numpy array")
        seats = f" ({SEATS} is the number of seats)" if shape[1:2] == (SEATS,) else ""
        need(array.shape == shape, f"{name} has shape {array.shape}, not {shape}{seats}")
        need(array.dtype == dtype, f"{name} has dtype {array.dtype}, not {np.dtype(dtype)}")
        need(array.flags.c_contiguous and array.flags.writeable, f"{name} is not C-contiguous and writeable")


def check_shapes(batch: Any, spec: GameSpec, rows: int) -> None:
    """Holds the figures of `spec` and the arrays of a new batch of `rows` matches to the contract; plays nothing.

    Raises:
        ContractError: the first rule that is broken.
    """
    need(getattr(batch, "spec", None) == spec, "the batch's spec is not the game's")
    check_arrays(batch, rows)


def turns_of(batch: MatchBatch) -> Turns | None:
    """The batch of a game in turns; None for others. (`isinstance` with a protocol takes longer than many a step.)"""
    return cast(Turns, batch) if hasattr(batch, "to_act") else None


def acting(batch: MatchBatch) -> BoolArray:
    """(B, S): who is to act; everybody in a game without turns."""
    turns = turns_of(batch)
    return np.ones((batch.num_rows, SEATS), np.bool_) if turns is None else turns.to_act


def restore(batch: MatchBatch, state: bytes) -> None:
    """Sets a batch to a state that one of its game gave.

    Raises:
        ContractError: it refuses it.
    """
    try:
        batch.set_state(state)
    except ValueError as error:
        raise ContractError(f"set_state() refuses what get_state() gave: {words_of(error)}; {HIDES}") from None


class Watch:
    """Looks at every step of a batch: addresses, ranges, masks, results.

    Args:
        batch: what is played, just reset. Its arrays are held, so that no other can come to lie at their addresses.
    """

    def __init__(self, batch: MatchBatch) -> None:
        self._batch, self.spec = batch, batch.spec
        self._held = self._arrays()
        self.steps: npt.NDArray[np.int64] = np.zeros(batch.num_rows, np.int64)
        """(B,): decisions of the match under way."""
        self.ends: npt.NDArray[np.int64] = np.zeros(batch.num_rows, np.int64)
        """(B,): matches that ended."""
        self.is_varied, self.is_one_view, self.is_last_shown = False, True, False
        self._start = batch.obs.copy()

    def before(self) -> None:
        """Called before the actions are written; spoils what the step must write.

        Raises:
            ContractError: what is shown breaks a rule.
        """
        batch = self._batch
        self._need_finite("obs", batch.obs)
        self._check_mask()
        self.is_varied |= not np.array_equal(batch.obs, self._start)
        self.is_one_view &= np.array_equal(batch.obs[:, 0], batch.obs[:, 1])
        batch.final_obs[:] = np.nan
        batch.reward_terms[:] = np.nan

    def after(self) -> None:
        """Called after the step.

        Raises:
            ContractError: what it wrote breaks a rule.
        """
        batch = self._batch
        self.steps += 1
        self.check_in_place("step")
        self._need_finite("reward_terms", batch.reward_terms)
        ended = np.asarray(batch.terminated | batch.truncated)
        self._need_rows(np.asarray(~(batch.terminated & batch.truncated)), "a row is both terminated and truncated")
        self._need_finite("final_obs", batch.final_obs, ended)
        self._check_results(ended)
        self.is_one_view &= np.array_equal(batch.final_obs[ended, 0], batch.final_obs[ended, 1])
        self.is_last_shown |= not np.array_equal(batch.final_obs[ended], batch.obs[ended])
        self.ends += ended
        self.steps[ended] = 0

    def check_in_place(self, method: str) -> None:
        """Refuses arrays that have moved.

        Raises:
            ContractError: one has.
        """
        for name, array in self._arrays().items():
            moved = name not in self._held or array.ctypes.data != self._held[name].ctypes.data
            need(not moved, f"{name} moved in {method}(): " + STALE.replace("NAME", name))

    def finish(self) -> None:
        """What only a whole run shows.

        Raises:
            ContractError: the last observation is not its match's, or both seats are shown one view.
        """
        start, stop = self.spec.opponent_slice
        need(
            self.is_last_shown or not self.is_varied or getattr(self._batch, "is_by_row", False),
            "final_obs is the next match's first observation at every end, not the last of its own",
        )
        if self.is_varied and self.is_one_view:
            can_tell = turns_of(self._batch) is not None and start == stop
            need(can_tell, "both seats are shown one view in every step: obs[row, 0] is obs[row, 1]")

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        names = ARRAYS if turns_of(self._batch) is None else (*ARRAYS, *TURNS)
        arrays = {name: getattr(self._batch, name) for name in names}
        return {name: array for name, array in arrays.items() if array is not None}

    def _place(self, row: int, seat: int | None = None) -> str:
        where = f"row {row}" if seat is None else f"row {row}, seat {seat}"
        return f"{where}, step {self.steps[row]} of its match {self.ends[row] + 1}"

    def _need_rows(self, holds: npt.NDArray[Any], rule: str) -> None:
        """Refuses the first row, or row and seat, of which something does not hold."""
        if not holds.all():
            place = [int(i) for i in np.argwhere(~holds)[0]]
            raise ContractError(f"{self._place(place[0], *place[1:2])}: {rule}")

    def _need_finite(self, name: str, array: FloatArray, rows: BoolArray | None = None) -> None:
        """Refuses numbers that are not finite and, of observations, outside the spec's range."""
        which = np.ones(len(array), np.bool_) if rows is None else rows
        seen = array[which]
        low, high = (-np.inf, np.inf) if name == "reward_terms" else self.spec.obs_range
        good = np.isfinite(seen) & (low <= seen) & (seen <= high)
        if good.all():
            self._need_parts(name, array, which)
            return
        row, seat, index = (int(i) for i in np.argwhere(~good)[0])
        value, row = seen[row, seat, index], int(np.flatnonzero(which)[row])
        column = f"{name}[{index}]" + (f" ({self.spec.reward_terms[index]})" if name == "reward_terms" else "")
        written = "" if name == "obs" else ", or not written in this step"
        rule = f"which leaves obs_range {self.spec.obs_range}" if np.isfinite(value) else f"not finite{written}"
        raise ContractError(f"{self._place(row, seat)}: {column} is {value}, {rule}")

    def _need_parts(self, name: str, array: FloatArray, rows: BoolArray) -> None:
        """Refuses numbers of `rows` (B,) that a part of the observation cannot have."""
        parts = () if name == "reward_terms" else self.spec.observation or ()
        for part in parts:
            if part.problem(array[rows]):
                row, seat = next(
                    (r, s) for r in np.flatnonzero(rows) for s in range(SEATS) if part.problem(array[r, s])
                )
                raise ContractError(f"{self._place(int(row), seat)}: {name}: {part.problem(array[row, seat])}")

    def _check_mask(self) -> None:
        batch, action, who = self._batch, self.spec.action, acting(self._batch)
        self._need_rows(np.asarray(who.any(axis=1)), "no seat is to act")
        if batch.mask is None:
            return
        if action.mask_problem(batch.mask[who]):
            row, seat = next((r, s) for r, s in np.argwhere(who).tolist() if action.mask_problem(batch.mask[r, s]))
            raise ContractError(f"{self._place(row, seat)}: mask: {action.mask_problem(batch.mask[row, seat])}")

    def _check_results(self, ended: BoolArray) -> None:
        for row in np.flatnonzero(ended).tolist():
            result, place = self._batch.result[row], self._place(row)
            winner, ticks = int(result["winner"]), int(result["ticks"])
            reasons = self.spec.end_reasons
            need(winner in (0, 1, DRAW), f"{place}: the winner is {winner}, neither a seat nor DRAW")
            is_known = 0 <= result["end_reason"] < len(reasons)
            need(is_known, f"{place}: end_reason {result['end_reason']} is not in the spec")
            metrics = result["metrics"]
            if not np.isfinite(metrics).all():
                seat, index = np.argwhere(~np.isfinite(metrics))[0].tolist()
                name = self.spec.metrics[index]
                raise ContractError(f"{place}: metric {name} of seat {seat} is {metrics[seat, index]}, not finite")
            longest = int(self.steps[row]) * self.spec.ticks_per_step
            fits = longest - self.spec.ticks_per_step < ticks <= longest
            rule = f"which had {self.steps[row]} steps of {self.spec.ticks_per_step}"
            need(fits, f"{place}: result says {ticks} ticks of the match, {rule}")
            if WIN in self.spec.reward_terms:
                self._check_win(row, winner, place)

    def _check_win(self, row: int, winner: int, place: str) -> None:
        paid = self._batch.reward_terms[row, :, self.spec.reward_terms.index(WIN)].tolist()
        index = self.spec.reward_terms.index(WIN)
        what = f"reward_terms[{index}] (win) is {paid[0]:g} for seat 0 and {paid[1]:g} for seat 1"
        if winner == DRAW:
            need(np.sign(paid[0]) == np.sign(paid[1]), f"{place}: a draw, but {what}")
            return
        need(not min(paid) > 0, f"{place}: both seats are paid for the win of seat {winner}: {what}")
        need(paid[winner] >= paid[1 - winner], f"{place}: the winner is seat {winner}, but {what}")
        is_paid = paid[winner] > 0 or bool(self._batch.truncated[row])
        need(is_paid, f"{place}: the winner is seat {winner}, but {what}")
