"""The match-batch contract, as a checker that every game passes, and what Gymnasium calls its spaces.

`check_match_batch` plays a game with random legal actions and compares runs that must be equal; it knows no game.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from league.errors import LeagueError
from league.types import DRAW, EXTERNAL, SEATS, FloatArray, GameSpec, MatchBatch, Regrouping, result_dtype

if TYPE_CHECKING:
    from gymnasium import spaces

Make = Callable[[int, int], MatchBatch]
"""(rows, threads) -> a new batch."""
OUTPUTS = ("obs", "mask", "reward_terms", "terminated", "truncated")
ARRAYS = (*OUTPUTS, "actions", "final_obs", "result", "controllers")


class ContractError(LeagueError, AssertionError):
    """A game breaks the match-batch contract."""


def gymnasium_spaces(spec: GameSpec) -> tuple[spaces.Box, spaces.MultiBinary | spaces.MultiDiscrete]:
    """One seat's observation and action space."""
    from gymnasium import spaces

    box = spaces.Box(*spec.obs_range, (spec.obs_size,), np.float32)
    if spec.action.kind == "multi_binary":
        return box, spaces.MultiBinary(spec.action.num_parts)
    return box, spaces.MultiDiscrete(np.array(spec.action.choices))


def check_match_batch(make: Make, *, rows: int = 4, steps: int = 1000, seed: int = 1) -> None:
    """Plays a game and holds it to the contract of `league.types.MatchBatch`.

    Args:
        make: (rows, threads) -> a new batch of the game.
        rows: Matches side by side, at least 2.
        steps: Decisions of each run; a row must finish two matches in them.
        seed: Of the resets and the actions.

    Raises:
        ContractError: the first rule that the game breaks.
    """
    batch = make(rows, 1)
    _check_spec(batch.spec)
    _check_arrays(batch, rows)
    _check_play(make(rows, 1), steps, seed)
    _check_equal_runs(make, rows, steps, seed)
    _check_seeds(make, rows, steps, seed)
    _check_controllers(make, rows, steps, seed)
    _check_state(make, rows, steps, seed)


def check_shapes(batch: MatchBatch, spec: GameSpec, rows: int) -> None:
    """Holds the figures of `spec` and the arrays of a new batch of `rows` matches to the contract; plays nothing.

    Raises:
        ContractError: the first rule that is broken.
    """
    _check_spec(spec)
    _need(getattr(batch, "spec", None) == spec, "the batch's spec is not the game's")
    _check_arrays(batch, rows)


def _need(holds: bool | np.bool_, rule: str) -> None:
    if not holds:
        raise ContractError(rule)


def _check_spec(spec: GameSpec) -> None:
    start, stop = spec.opponent_slice
    _need(0 <= start <= stop <= spec.obs_size, f"opponent_slice {spec.opponent_slice} leaves obs_size={spec.obs_size}")
    low, high = spec.obs_range
    _need(-np.inf < low < high < np.inf, f"obs_range {spec.obs_range} is not from a number to a greater one")
    _need(spec.action.num_parts > 0 and min(spec.action.choices) > 1, f"no choice in action {spec.action}")
    for name in ("reward_terms", "metrics", "end_reasons", "bots"):
        names = getattr(spec, name)
        _need(len(set(names)) == len(names), f"{name} has a name twice: {names}")
    _need(bool(spec.reward_terms) and bool(spec.end_reasons), "reward_terms and end_reasons may not be empty")
    _need(spec.tick_rate > 0, f"tick_rate={spec.tick_rate} must be positive")


def _check_arrays(batch: MatchBatch, rows: int) -> None:
    spec = batch.spec
    num_rows = getattr(batch, "num_rows", None)
    _need(num_rows == rows, f"num_rows is {num_rows}, asked for {rows}")
    expected: dict[str, tuple[tuple[int, ...], Any]] = {
        "obs": ((rows, SEATS, spec.obs_size), np.float32),
        "actions": ((rows, SEATS, spec.action.num_parts), np.int32),
        "mask": ((rows, SEATS, spec.action.mask_size), spec.action.mask_dtype),
        "reward_terms": ((rows, SEATS, len(spec.reward_terms)), np.float32),
        "terminated": ((rows,), np.bool_),
        "truncated": ((rows,), np.bool_),
        "final_obs": ((rows, SEATS, spec.obs_size), np.float32),
        "result": ((rows,), result_dtype(len(spec.metrics))),
        "controllers": ((rows, SEATS), np.int16),
    }
    for name, (shape, dtype) in expected.items():
        array = getattr(batch, name, None)
        if name == "mask" and array is None:
            continue
        if not isinstance(array, np.ndarray):
            raise ContractError(f"{name} is no numpy array")
        seats = f"; {SEATS} is the number of seats" if shape[1:2] == (SEATS,) else ""
        _need(array.shape == shape, f"{name} has shape {array.shape}, not {shape}{seats}")
        _need(array.dtype == dtype, f"{name} has dtype {array.dtype}, not {np.dtype(dtype)}")
        _need(array.flags.c_contiguous and array.flags.writeable, f"{name} is not C-contiguous and writeable")


def _held(batch: MatchBatch) -> dict[str, npt.NDArray[Any]]:
    """The arrays; while they are held, no other array can lie at their addresses."""
    arrays = {name: getattr(batch, name) for name in ARRAYS}
    return {name: array for name, array in arrays.items() if array is not None}


def _check_in_place(batch: MatchBatch, held: dict[str, npt.NDArray[Any]]) -> None:
    for name, array in _held(batch).items():
        stays = name in held and array.ctypes.data == held[name].ctypes.data
        _need(stays, f"{name} moved: reset, step and set_state must write in place")


def _check_play(batch: MatchBatch, steps: int, seed: int) -> None:
    """Ranges, finite values, result of ended rows, arrays that are never reallocated."""
    rng, held, ends = np.random.default_rng(seed), _held(batch), np.zeros(batch.num_rows, np.int64)
    is_last_shown = is_varied = False
    batch.reset(seed)
    start = batch.obs.copy()
    for _ in range(steps):
        _check_shown(batch)
        unit = rng.random((batch.num_rows, SEATS, batch.spec.action.mask_size))
        batch.actions[:] = batch.spec.action.legal_actions(batch.mask, unit)
        batch.final_obs[:] = np.nan
        batch.reward_terms[:] = np.nan
        batch.step()
        _check_in_place(batch, held)
        _need(np.isfinite(batch.reward_terms).all(), "reward_terms is not finite, or not written in every step")
        _need(not (batch.terminated & batch.truncated).any(), "a row is both terminated and truncated")
        ended = batch.terminated | batch.truncated
        _need(np.isfinite(batch.final_obs[ended]).all(), "final_obs of an ended row is not finite, or not written")
        _check_range(batch.spec, "final_obs", batch.final_obs[ended])
        _check_results(batch, ended)
        is_last_shown |= not np.array_equal(batch.final_obs[ended], batch.obs[ended])
        is_varied |= not np.array_equal(batch.obs, start)
        ends += ended
    batch.set_state(batch.get_state())
    _check_in_place(batch, held)
    _need(is_last_shown or not is_varied, "final_obs is the next match's first observation, not the last of its own")
    _need(ends.max() >= 2, f"no row finished two matches in {steps} steps; pass more steps or a shorter match")


def _check_shown(batch: MatchBatch) -> None:
    _need(np.isfinite(batch.obs).all(), "obs is not finite")
    _check_range(batch.spec, "obs", batch.obs)
    if batch.mask is not None and batch.spec.action.kind == "multi_discrete":
        for part in np.split(batch.mask, np.cumsum(batch.spec.action.choices)[:-1], axis=-1):
            _need(part.any(axis=-1).all(), "the mask forbids every choice of an action part")


def _check_range(spec: GameSpec, name: str, obs: FloatArray) -> None:
    low, high = spec.obs_range
    _need(((low <= obs) & (obs <= high)).all(), f"{name} leaves obs_range {spec.obs_range}")


def _check_results(batch: MatchBatch, ended: npt.NDArray[np.bool_]) -> None:
    result = batch.result[ended]
    _need(np.isin(result["winner"], (0, 1, DRAW)).all(), "a winner is neither a seat nor DRAW")
    reasons = len(batch.spec.end_reasons)
    _need(((result["end_reason"] >= 0) & (result["end_reason"] < reasons)).all(), "an end_reason is not in the spec")
    _need((result["ticks"] > 0).all(), "a match ended after no ticks")
    _need(np.isfinite(result["metrics"]).all(), "a metric is not finite")


def _outputs(batch: MatchBatch) -> list[npt.NDArray[Any]]:
    """Copies of what a step shows, with final_obs and result of the ended rows only."""
    ended = batch.terminated | batch.truncated
    shown = [getattr(batch, name).copy() for name in OUTPUTS if getattr(batch, name) is not None]
    return [
        *shown,
        np.where(ended[:, None, None], batch.final_obs, 0),
        np.where(ended, batch.result, np.zeros_like(batch.result)),
    ]


def _play(batch: MatchBatch, units: npt.NDArray[np.float64]) -> list[list[npt.NDArray[Any]]]:
    """The outputs of each step under the legal actions that `units` (T, B, S, M) picks."""
    trace = []
    for unit in units:
        batch.actions[:] = batch.spec.action.legal_actions(batch.mask, unit)
        batch.step()
        trace.append(_outputs(batch))
    return trace


def _equal(a: list[list[npt.NDArray[Any]]], b: list[list[npt.NDArray[Any]]], order: Any = slice(None)) -> bool:
    """Whether trace `a`, its rows taken in `order`, is trace `b` bit for bit."""
    pairs = ((x[order], y) for left, right in zip(a, b, strict=True) for x, y in zip(left, right, strict=True))
    return all(np.ascontiguousarray(x).tobytes() == y.tobytes() for x, y in pairs)


def _units(spec: GameSpec, steps: int, rows: int, seed: int) -> npt.NDArray[np.float64]:
    """Random numbers (T, B, S, M) that pick actions."""
    return np.random.default_rng(seed).random((steps, rows, SEATS, spec.action.mask_size))


def _check_equal_runs(make: Make, rows: int, steps: int, seed: int) -> None:
    """A seed gives one run: again, in a new batch, and under any number of threads."""
    batch = make(rows, 1)
    units = _units(batch.spec, steps, rows, seed)
    batch.reset(seed)
    first = _play(batch, units)
    batch.reset(seed)
    _need(_equal(first, _play(batch, units)), "reset with the same seed plays differently the second time")
    other = make(rows, 2)
    other.reset(seed)
    _need(_equal(first, _play(other, units)), "two threads play differently from one")
    for seat in range(SEATS):
        changed = units.copy()
        changed[:, :, seat] = _units(batch.spec, steps, rows, seed + 1)[:, :, seat]
        batch.reset(seed)
        _need(not _equal(first, _play(batch, changed)), f"seat {seat} is EXTERNAL and does not follow `actions`")


def _check_seeds(make: Make, rows: int, steps: int, seed: int) -> None:
    """Row seeds: taken as given, independent of the row's index, followed by seeds of their own, fresh first views."""
    batch, seeds = make(rows, 1), np.arange(1, rows + 1, dtype=np.uint64) * np.uint64(7919) + np.uint64(seed)
    batch.controllers[:, 1] = 0 if batch.spec.bots else EXTERNAL
    units = _units(batch.spec, steps, rows, seed)
    batch.reset(seeds)
    trace = _play(batch, units)
    order = np.roll(np.arange(rows), 1)
    batch.reset(seeds[order])
    _need(_equal(trace, _play(batch, units[:, order]), order), "a row plays differently at another index")
    batch.reset(np.full(rows, seed, np.uint64))
    same = _play(batch, np.repeat(units[:, :1], rows, axis=1))
    _need(_equal(same, same, np.roll(np.arange(rows), 1)), "rows with one seed and the same actions play differently")

    row, played, fresh = _two_matches(trace)
    _need(played[0] == seeds[row], "the first match's result does not carry the seed given to reset")
    _need(played[0] != played[1], "the second match has the first one's seed")
    batch.reset(np.full(rows, played[1], np.uint64))
    _need(
        np.array_equal(batch.obs[row], fresh), "after an end, obs is not the next match's first (same-step autoreset)"
    )
    batch.reset(seed)
    firsts = _first_seeds(_play(batch, units))
    _need(len(set(firsts)) == len(firsts), "reset with one number starts two rows from the same seed")


def _first_seeds(trace: list[list[npt.NDArray[Any]]]) -> list[int]:
    """The seed of the first match of each row that finished one."""
    results = np.stack([line[-1] for line in trace])
    ended = results["ticks"] > 0
    return [int(results["seed"][ended[:, row].argmax(), row]) for row in np.flatnonzero(ended.any(axis=0))]


def _two_matches(trace: list[list[npt.NDArray[Any]]]) -> tuple[int, list[np.uint64], npt.NDArray[np.float32]]:
    """A row that finished two matches, their seeds, and its obs right after the first."""
    results = np.stack([line[-1] for line in trace])
    row = int((results["ticks"] > 0).sum(axis=0).argmax())
    ends = np.flatnonzero(results["ticks"][:, row])
    _need(len(ends) >= 2, f"no row finished two matches in {len(trace)} steps; pass more steps or a shorter match")
    return row, [results["seed"][end, row] for end in ends[:2]], trace[ends[0]][0][row]


def _check_controllers(make: Make, rows: int, steps: int, seed: int) -> None:
    """A native bot plays its seat whatever `actions` says there, and every bot can play either seat."""
    batch = make(rows, 1)
    units = _units(batch.spec, steps, rows, seed)
    for bot, name in enumerate(batch.spec.bots):
        for seat in range(SEATS):
            other = units.copy()
            other[:, :, seat] = _units(batch.spec, steps, rows, seed + 1)[:, :, seat]
            batch.controllers[:] = EXTERNAL
            batch.controllers[:, seat] = bot
            batch.reset(seed)
            trace = _play(batch, units)
            _need((batch.controllers[:, seat] == bot).all(), "a step changed controllers")
            batch.reset(seed)
            _need(_equal(trace, _play(batch, other)), f"bot {name} in seat {seat} follows `actions`")


def _check_state(make: Make, rows: int, steps: int, seed: int) -> None:
    """A restored state continues alike, in another batch too; a damaged one is a ValueError."""
    batch, other = make(rows, 1), make(rows, 1)
    units = _units(batch.spec, steps, rows, seed)
    batch.controllers[0, 1] = 0 if batch.spec.bots else EXTERNAL
    batch.reset(seed)
    _play(batch, units[: steps // 3])
    state = batch.get_state()
    obs, mask = batch.obs.copy(), None if batch.mask is None else batch.mask.copy()
    trace = _play(batch, units[steps // 3 :])
    other.reset(seed + 1)
    _play(other, units[:1])
    other.set_state(state)
    _need(np.array_equal(other.obs, obs), "set_state does not write obs")
    _need(mask is None or other.mask is None or np.array_equal(other.mask, mask), "set_state does not write mask")
    _need(np.array_equal(other.controllers, batch.controllers), "set_state does not restore controllers")
    _need(other.get_state() == state, "get_state after set_state is not the same state")
    _need(_equal(trace, _play(other, units[steps // 3 :])), "a restored state does not continue alike")
    if isinstance(batch, Regrouping):
        _check_regrouping(make, other, state, rows)
    for what, blob in {
        "an empty state": b"",
        "a shortened state": state[:-1],
        "a lengthened state": state + b"\0",
        "a state of another format": bytes([state[0] ^ 0xFF]) + state[1:],
        "a state of another size": make(rows + 1, 1).get_state(),
    }.items():
        try:
            other.set_state(blob)
        except ValueError:
            continue
        raise ContractError(f"{what} is taken by set_state; it must be a ValueError")


def _check_regrouping(make: Make, batch: MatchBatch, state: bytes, rows: int) -> None:
    """Parts of a state fit smaller batches, which see and hold what its rows do; put together they are the state."""
    assert isinstance(batch, Regrouping)
    parts = [1, rows - 1]
    try:
        states = batch.regroup([state], parts)
        batch.set_state(state)
        start = 0
        for part, blob in zip(parts, states, strict=True):
            smaller = make(part, 1)
            smaller.set_state(blob)
            for name in ("obs", "mask", "controllers"):
                whole, here = getattr(batch, name), getattr(smaller, name)
                same = here is None or np.array_equal(here, whole[start : start + part])
                _need(same, f"regroup: {name} of a part is not that of its rows")
            start += part
        _need(batch.regroup(states, [rows]) == [state], "regroup: the parts put together are not the state")
    except ValueError as error:
        raise ContractError(f"regroup refuses a state of its own game: {error}") from None
    for what, blobs in {"a damaged state": [state[:-1]], "too few rows": states[:1]}.items():
        try:
            batch.regroup(blobs, [rows])
        except ValueError:
            continue
        raise ContractError(f"{what} is taken by regroup; it must be a ValueError")
