"""The match-batch contract, as a checker that every game passes.

`check_match_batch` plays a game with random legal actions and compares runs that must be equal; it knows no game.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.contract.steps import HIDES, Watch, acting, check_arrays, need, restore
from league.envs.contract.traces import Step, Units, act, differs, follow, need_same, play, shown_mask, units_of
from league.envs.contract.turns import check_turns
from league.errors import ContractError
from league.runtime.phases import advance
from league.types import EXTERNAL, SEATS, MatchBatch, Regrouping, Turns
from league.types.arguments import door
from league.types.schema import MAX_SEED, check_number

__all__ = ["ContractError", "check_match_batch"]

Make = Callable[[int, int], MatchBatch]
"""(rows, threads) -> a new batch."""
BUDGET = 1_000
"""Steps of the runs that are compared with others, where matches are so long; a few runs are whole."""
MOST_ROWS, MOST_STEPS = 4_096, 1_000_000
RESTORED = 8
"""States of a run that are restored."""
AGAIN = "reset with the same seed plays differently the second time"
FORGETS = (
    "what it plays must follow from its seed and the match so far, as of `Match.players`, a bot of a function remembers"
    " nothing, and the game draws chance from the match's seed alone"
)


@door
def check_match_batch(
    make: Make, *, rows: int = 4, steps: int = 1000, seed: int = 1, say: Callable[[str], None] = lambda line: None
) -> None:
    """Plays a game and holds it to the contract of `league.types.MatchBatch`, and `Turns` where it has them.

    Args:
        make: (rows, threads) -> a new batch of the game.
        rows: Matches side by side, at least 2.
        steps: Decisions of a run; a row must finish two matches in them. Comparisons end after `BUDGET` of them.
        seed: Of the resets and the actions.
        say: Takes a line before each part.

    Raises:
        ContractError: the first rule that the game breaks.
        UsageError: an argument cannot be.
    """
    check_number("rows", rows, 2, MOST_ROWS, "matches side by side")
    check_number("steps", steps, 1, MOST_STEPS, "decisions of a run")
    check_number("seed", seed, 0, MAX_SEED, "the random seed")
    batch, short = make(rows, 1), min(steps, BUDGET)
    check_arrays(batch, rows)
    say("checking every step of a run")
    _check_play(make(rows, 1), steps, seed)
    if isinstance(batch, Turns):
        say("checking turns")
        check_turns(make, rows, short, seed)
    say("checking restored states")
    check_state(make, rows, short, seed)
    say("checking that a seed gives one run, and actions count")
    _check_equal_runs(make, rows, steps, seed)
    say("checking the seeds of rows and matches")
    _check_seeds(make, rows, steps, seed)
    say("checking native bots")
    _check_controllers(make, rows, short, seed)


def watched(batch: MatchBatch, steps: int, seed: int) -> Watch:
    """Plays random legal actions from where a batch is, and looks at every step.

    Raises:
        ContractError: the first rule that a step breaks.
    """
    rng, watch = np.random.default_rng(seed), Watch(batch)
    for step in range(steps):
        advance("steps", step, steps)
        watch.before()
        act(batch, rng.random((batch.num_rows, SEATS, batch.spec.action.num_draws)))
        batch.step()
        watch.after()
    return watch


def _check_play(batch: MatchBatch, steps: int, seed: int) -> None:
    """Ranges, finite values, result of ended rows, arrays that are never reallocated."""
    batch.reset(seed)
    watch = watched(batch, steps, seed)
    restore(batch, batch.get_state())
    watch.check_in_place("set_state")
    batch.reset(seed)
    watch.check_in_place("reset")
    watch.finish()
    need(watch.ends.max() >= 2, f"no row finished two matches in {steps} steps; pass more steps or a shorter match")


def _check_equal_runs(make: Make, rows: int, steps: int, seed: int) -> None:
    """A seed gives one run: again, in a new batch, and under any number of threads."""
    batch = make(rows, 1)
    units = units_of(batch.spec, steps, rows, seed)
    batch.reset(seed)
    first = play(batch, units[:BUDGET])
    batch.reset(seed)
    follow(batch, units[:BUDGET], first, AGAIN)
    other = make(rows, 2)
    other.reset(seed)
    follow(other, units[:BUDGET], first, "two threads play differently from one")
    for seat in range(SEATS):
        changed = units.copy()
        changed[:, :, seat] = units_of(batch.spec, steps, rows, seed + 1)[:, :, seat]
        need(
            differs(batch, other, seed, units, changed),
            f"nothing depends on the actions of seat {seat}: what is seen and paid and how matches end is the same"
            f" after others",
        )


def _check_seeds(make: Make, rows: int, steps: int, seed: int) -> None:
    """Row seeds: taken as given, independent of the row's index, followed by seeds of their own, fresh first views."""
    batch, seeds = make(rows, 1), np.arange(1, rows + 1, dtype=np.uint64) * np.uint64(7919) + np.uint64(seed)
    batch.controllers[:, 1] = 0 if batch.spec.bots else EXTERNAL
    units = units_of(batch.spec, steps, rows, seed)
    batch.reset(seeds)
    trace = play(batch, units)
    order = np.roll(np.arange(rows), 1)
    batch.reset(seeds[order])
    follow(batch, units[:BUDGET, order], trace[:BUDGET], "a row plays differently at another index", order)
    batch.reset(np.full(rows, seed, np.uint64))
    same = play(batch, np.repeat(units[:BUDGET, :1], rows, axis=1))
    for step, shown in enumerate(same, 1):
        need_same(shown, shown, f"step {step}", "rows with one seed and the same actions play differently", order)

    row, played, fresh = _two_matches(trace)
    need(played[0] == seeds[row], "the first match's result does not carry the seed given to reset")
    need(played[0] != played[1], "the second match has the first one's seed")
    batch.reset(np.full(rows, played[1], np.uint64))
    need(np.array_equal(batch.obs[row], fresh), "after an end, obs is not the next match's first (same-step autoreset)")
    batch.reset(seed)
    firsts = _first_seeds(play(batch, units))
    need(len(set(firsts)) == len(firsts), "reset with one number starts two rows from the same seed")


def _first_seeds(trace: list[Step]) -> list[int]:
    """The seed of the first match of each row that finished one."""
    results = np.stack([line["result"] for line in trace])
    ended = results["ticks"] > 0
    return [int(results["seed"][ended[:, row].argmax(), row]) for row in np.flatnonzero(ended.any(axis=0))]


def _two_matches(trace: list[Step]) -> tuple[int, list[np.uint64], npt.NDArray[np.float32]]:
    """A row that finished two matches, their seeds, and its obs right after the first."""
    results = np.stack([line["result"] for line in trace])
    row = int((results["ticks"] > 0).sum(axis=0).argmax())
    ends = np.flatnonzero(results["ticks"][:, row])
    need(len(ends) >= 2, f"no row finished two matches in {len(trace)} steps; pass more steps or a shorter match")
    return row, [results["seed"][end, row] for end in ends[:2]], trace[ends[0]]["obs"][row]


def _check_controllers(make: Make, rows: int, steps: int, seed: int) -> None:
    """A native bot plays its seat and ignores `actions` there; every bot can play either seat."""
    batch = make(rows, 1)
    units = units_of(batch.spec, steps, rows, seed)
    for bot, name in enumerate(batch.spec.bots):
        if batch.spec.public_actions:
            _check_told(batch, bot, units[:20], seed)
        for seat in range(SEATS):
            other = units.copy()
            other[:, :, seat] = units_of(batch.spec, steps, rows, seed + 1)[:, :, seat]
            batch.controllers[:] = EXTERNAL
            batch.controllers[:, seat] = bot
            batch.reset(seed)
            trace = play(batch, units)
            need((batch.controllers[:, seat] == bot).all(), "a step changed controllers")
            batch.reset(seed)
            follow(batch, other, trace, f"bot {name} in seat {seat} follows `actions`")


def _check_told(batch: MatchBatch, bot: int, units: Units, seed: int) -> None:
    """What a bot plays is written into `actions`, legal as any other's."""
    action, unwritten = batch.spec.action, -(2**20)
    batch.controllers[:] = bot
    batch.reset(seed)
    for _ in units:
        batch.actions[:] = unwritten
        mask = None if batch.mask is None else batch.mask.copy()
        decides = acting(batch).copy()
        batch.step()
        written = batch.actions != unwritten
        told = written.all(-1) & action.is_legal(np.where(written, batch.actions, 0), mask) | ~decides
        need(told.all(), f"public_actions: what bot {batch.spec.bots[bot]} played is not written into `actions`")


def check_state(make: Make, rows: int, steps: int, seed: int, points: int = RESTORED) -> None:
    """A restored state continues alike in another batch, with every bot in either seat; a damaged one is a ValueError.

    Args:
        make: (rows, threads) -> a new batch.
        rows: of matches without bots, at least 1; each bot has one more in either seat.
        steps: decisions of the run, of which states are taken from the middle.
        seed: of the resets and the actions.
        points: how many states are restored.

    Raises:
        ContractError: the first rule that the game breaks.
    """
    spec = make(1, 1).spec
    bots = [(bot, seat) for bot in range(len(spec.bots)) for seat in range(SEATS)]
    batch, other = (make(rows + len(bots), 1) for _ in range(2))
    for row, (bot, seat) in enumerate(bots, rows):
        batch.controllers[row, seat] = bot

    def whose(rule: str) -> Callable[[int], str]:
        names = [f"bot {spec.bots[bot]} in seat {seat}" for bot, seat in bots]
        return lambda row: f"{names[row - rows]} {rule}; {FORGETS}" if row >= rows else f"a match {rule}; {HIDES}"

    units = units_of(spec, steps, batch.num_rows, seed)
    batch.reset(seed)
    trace = play(batch, units)
    begin, span = _window(trace)
    batch.reset(seed)
    at = 0
    for point in np.unique(np.linspace(begin, begin + span - 1, points).round().astype(int)).tolist():
        follow(batch, units[at:point], trace[at:point], whose("plays differently the second time"), first=at + 1)
        at = point
        state = batch.get_state()
        other.reset(seed + 1)
        play(other, units[:1])
        _check_shown(batch, other, state)
        stop = min(point + span, steps)
        rule = whose("does not continue alike once its state is restored")
        follow(other, units[point:stop], trace[point:stop], rule, first=point + 1)
    if isinstance(batch, Regrouping):
        _check_regrouping(make, other, state, batch.num_rows)
    _check_damaged(other, state, make(batch.num_rows + 1, 1).get_state())


def _window(trace: list[Step]) -> tuple[int, int]:
    """Where in a run states are taken: the first step, and how many: those of the longest match that ends, if one does.

    It begins when a third of the run is played, so that matches came before, and no more than half of it.
    """
    ended = np.stack([step["terminated"] | step["truncated"] for step in trace])
    lengths = [np.diff(np.flatnonzero(column), prepend=-1).max(initial=0) for column in ended.T]
    begin, half = max(1, len(trace) // 3), max(1, len(trace) // 2)
    return begin, min(int(max(lengths)) or half, half)


def _check_shown(batch: MatchBatch, other: MatchBatch, state: bytes) -> None:
    """`other` is as `batch` once it is set to its state."""
    if isinstance(other, Turns):
        other.to_act[:] = ~acting(batch)
    restore(other, state)
    for name, shown in _seen(batch).items():
        there = _seen(other)[name]
        if not np.array_equal(there, shown):
            place = tuple(int(i) for i in np.argwhere(there != shown)[0])
            column = f"[{place[2]}]" if len(place) > 2 else ""
            rule = "restore" if name == "controllers" else "write"
            raise ContractError(
                f"set_state does not {rule} {name}: row {place[0]}, seat {place[1]}: {name}{column} is {there[place]},"
                f" and was {shown[place]}"
            )
    need(other.get_state() == state, "get_state after set_state is not the same state")


def _check_damaged(batch: MatchBatch, state: bytes, larger: bytes) -> None:
    for what, blob in {
        "an empty state": b"",
        "a shortened state": state[:-1],
        "a lengthened state": state + b"\0",
        "a state of another format": bytes([state[0] ^ 0xFF]) + state[1:],
        "a state of another size": larger,
    }.items():
        try:
            batch.set_state(blob)
        except ValueError:
            continue
        raise ContractError(f"{what} is taken by set_state; it must be a ValueError")


def _seen(batch: MatchBatch) -> dict[str, npt.NDArray[Any]]:
    """What a restored batch shows."""
    return {"obs": batch.obs, "to_act": acting(batch), "mask": shown_mask(batch), "controllers": batch.controllers}


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
            wholes, heres = (_seen(x) for x in (batch, smaller))
            for name, whole in wholes.items():
                same = np.array_equal(heres[name], whole[start : start + part])
                need(same, f"regroup: {name} of a part is not that of its rows")
            start += part
        need(batch.regroup(states, [rows]) == [state], "regroup: the parts put together are not the state")
    except ValueError as error:
        raise ContractError(f"regroup refuses a state of its own game: {error}") from None
    for what, blobs in {"a damaged state": [state[:-1]], "too few rows": states[:1]}.items():
        try:
            batch.regroup(blobs, [rows])
        except ValueError:
            continue
        raise ContractError(f"{what} is taken by regroup; it must be a ValueError")
