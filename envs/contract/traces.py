"""Runs of a batch under chosen actions, kept step by step so that runs can be compared bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.contract.steps import OUTPUTS, acting, turns_of
from league.errors import ContractError
from league.runtime.phases import advance
from league.types import SEATS, GameSpec, MatchBatch

Step = dict[str, npt.NDArray[Any]]
"""What one step showed: arrays (B, ...) by name; `result` and `final_obs` are zeros in rows that go on."""
Rows = slice | npt.NDArray[np.intp]
ALL: Rows = slice(None)
Rule = str | Callable[[int], str]
"""What is broken where runs differ, in words; or what gives them for a row."""
Units = npt.NDArray[np.float64]
"""Random numbers (T, B, S, U) that pick actions."""
UNREAD = -77
"""What is written as the action of a seat that is not to act."""


def units_of(spec: GameSpec, steps: int, rows: int, seed: int) -> Units:
    """Random numbers that pick actions."""
    return np.random.default_rng(seed).random((steps, rows, SEATS, spec.action.num_draws))


def act(batch: MatchBatch, unit: npt.NDArray[np.float64]) -> None:
    """Writes the legal actions that `unit` (B, S, U) picks."""
    batch.actions[:] = batch.spec.action.legal_actions(batch.mask, unit)
    turns = turns_of(batch)
    if turns is not None:
        batch.actions[~turns.to_act] = UNREAD


def outputs(batch: MatchBatch) -> Step:
    """Copies of what a step shows. What means nothing is 0: ends of rows that go on, waiting masks."""
    ended = batch.terminated | batch.truncated
    shown = {name: getattr(batch, name).copy() for name in OUTPUTS if getattr(batch, name) is not None}
    turns = turns_of(batch)
    if turns is not None:
        shown["to_act"] = turns.to_act.copy()
        if batch.mask is not None:
            shown["mask"][~turns.to_act] = 0
    shown["final_obs"] = np.where(ended[:, None, None], batch.final_obs, 0)
    shown["result"] = np.where(ended, batch.result, np.zeros_like(batch.result))
    return shown


def play(batch: MatchBatch, units: Units) -> list[Step]:
    """The outputs of each step under the legal actions that `units` picks."""
    trace = []
    for step, unit in enumerate(units):
        advance("steps", step, len(units))
        act(batch, unit)
        batch.step()
        trace.append(outputs(batch))
    return trace


def follow(batch: MatchBatch, units: Units, trace: list[Step], rule: Rule, order: Rows = ALL, first: int = 1) -> None:
    """Plays as `play`, and compares each step with that of an earlier run.

    Args:
        batch: what is played.
        units: as for `play`.
        trace: what the earlier run showed.
        rule: what is broken where it shows something else.
        order: the earlier run's rows, in the order of this one's.
        first: what errors call the first step.

    Raises:
        ContractError: at the first step that shows something else; with row, seat, step and column.
    """
    for step, (unit, before) in enumerate(zip(units, trace, strict=True), first):
        advance("steps", step - first, len(units))
        act(batch, unit)
        batch.step()
        need_same(before, outputs(batch), f"step {step}", rule, order)


def need_same(before: Step, now: Step, when: str, rule: Rule, order: Rows = ALL) -> None:
    """Refuses a step that shows something else than another one did; the arguments are those of `follow`.

    Raises:
        ContractError: with row, seat and column.
    """
    for name, array in now.items():
        there = np.ascontiguousarray(before[name][order])
        if there.tobytes() == array.tobytes():
            continue
        if name == "result":
            name = next(x for x in array.dtype.names or () if there[x].tobytes() != array[x].tobytes())
            there, array = np.ascontiguousarray(there[name]), np.ascontiguousarray(array[name])
        place = [int(i) for i in np.argwhere(_bits(there) != _bits(array))[0]]
        where = "".join(f", {what} {at}" for what, at in zip(("row", "seat"), place, strict=False))
        column = f"[{place[2]}]" if len(place) > 2 else ""
        values = f"{name}{column} is {array[tuple(place)]}, and was {there[tuple(place)]}"
        raise ContractError(f"{rule if isinstance(rule, str) else rule(place[0])}: {where[2:]}, {when}: {values}")


def _bits(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """As whole numbers, so that what is no number can be compared, too."""
    return array.view(f"u{array.itemsize}")


def differs(one: MatchBatch, two: MatchBatch, seed: int, units: Units, others: Units) -> bool:
    """Whether two batches of a game show something else somewhere, bit for bit, under `units` and under `others`."""
    one.reset(seed)
    two.reset(seed)
    for unit, other in zip(units, others, strict=True):
        for batch, given in ((one, unit), (two, other)):
            act(batch, given)
            batch.step()
        ours, theirs = outputs(one), outputs(two)
        if any(ours[name].tobytes() != theirs[name].tobytes() for name in ours):
            return True
    return False


def shown_mask(batch: MatchBatch) -> npt.NDArray[Any]:
    """The mask, with zeros where a seat is not to act; of a game without one, nothing (B, S, 0)."""
    if batch.mask is None:
        return np.zeros((batch.num_rows, SEATS, 0), np.bool_)
    return np.where(acting(batch)[..., None], batch.mask, 0)
