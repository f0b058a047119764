"""Runs of a batch under chosen actions, kept step by step so that runs can be compared bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.contract import OUTPUTS, acting, turns_of
from league.types import SEATS, GameSpec, MatchBatch

Step = list[npt.NDArray[Any]]
"""What one step showed: arrays (B, ...), the last one the results of the rows that ended, else zeros."""
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
    shown = [getattr(batch, name).copy() for name in OUTPUTS if getattr(batch, name) is not None]
    turns = turns_of(batch)
    if turns is not None:
        shown.append(turns.to_act.copy())
        if batch.mask is not None:
            shown[1][~turns.to_act] = 0
    return [
        *shown,
        np.where(ended[:, None, None], batch.final_obs, 0),
        np.where(ended, batch.result, np.zeros_like(batch.result)),
    ]


def play(batch: MatchBatch, units: Units) -> list[Step]:
    """The outputs of each step under the legal actions that `units` picks."""
    trace = []
    for unit in units:
        act(batch, unit)
        batch.step()
        trace.append(outputs(batch))
    return trace


def equal(a: list[Step], b: list[Step], order: Any = slice(None)) -> bool:
    """Whether trace `a`, its rows taken in `order`, is trace `b` bit for bit."""
    pairs = ((x[order], y) for left, right in zip(a, b, strict=True) for x, y in zip(left, right, strict=True))
    return all(np.ascontiguousarray(x).tobytes() == y.tobytes() for x, y in pairs)


def shown_mask(batch: MatchBatch) -> npt.NDArray[Any]:
    """The mask, with zeros where a seat is not to act; of a game without one, nothing (B, S, 0)."""
    if batch.mask is None:
        return np.zeros((batch.num_rows, SEATS, 0), np.bool_)
    return np.where(acting(batch)[..., None], batch.mask, 0)
