"""What `league.types.Turns` adds to the match-batch contract, held against runs of a game."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from league.envs.contract.steps import need
from league.envs.contract.traces import act, need_same, outputs, play, units_of
from league.types import EXTERNAL, SEATS, MatchBatch, Turns

Make = Callable[[int, int], MatchBatch]


def check_turns(make: Make, rows: int, steps: int, seed: int) -> None:
    """Waiting seats influence nothing, held rows do not move, native bots' decisions take steps like others.

    Not those of a bot in the batch's `absent`: it decides nothing.

    Raises:
        ContractError: the first rule that the game breaks.
    """
    batch = make(rows, 1)
    assert isinstance(batch, Turns)
    units = units_of(batch.spec, steps, rows, seed)
    batch.reset(seed)
    need(not batch.held.any(), "held is not False at first; the engine writes it")
    alone = _check_waiting(batch, make(rows, 1), units, seed)
    _check_held(batch, units, seed)
    absent = getattr(batch, "absent", ())
    for bot, name in enumerate(batch.spec.bots):
        for seat in range(SEATS):
            if alone[seat] and bot not in absent:
                batch.controllers[:] = EXTERNAL
                batch.controllers[:, seat] = bot
                batch.reset(seed)
                seen = False
                for unit in units:
                    seen |= bool((batch.to_act[:, seat] & ~batch.to_act[:, 1 - seat]).any())
                    act(batch, unit)
                    batch.step()
                need(seen, f"bot {name} in seat {seat} is never to act: its decisions must take steps like others")


def _check_waiting(batch: MatchBatch, other: MatchBatch, units: np.ndarray, seed: int) -> list[bool]:
    """What a waiting seat's actions say changes nothing; whether each seat ever decides alone."""
    assert isinstance(batch, Turns)
    batch.reset(seed)
    other.reset(seed)
    alone, waits = [False, False], False
    for step, unit in enumerate(units):
        who = batch.to_act.copy()
        waits |= bool((~who).any())
        for seat in range(SEATS):
            alone[seat] |= bool((who[:, seat] & ~who[:, 1 - seat]).any())
        act(batch, unit)
        other.actions[:] = np.where(who[..., None], batch.actions, 0)
        batch.step()
        other.step()
        rule = "the action of a seat that is not to act changes the match"
        need_same(outputs(other), outputs(batch), f"step {step + 1}", rule)
    need(
        waits or bool(getattr(batch, "absent", ())),
        "both seats are to act in every step; a game without turns has neither to_act nor held",
    )
    return alone


def _check_held(batch: MatchBatch, units: np.ndarray, seed: int) -> None:
    """A row that is held now and then plays what it plays without, and not one byte of it moves meanwhile."""
    assert isinstance(batch, Turns)
    rows = np.arange(batch.num_rows)
    batch.reset(seed)
    free = play(batch, units)
    rng, made = np.random.default_rng(seed), np.zeros(batch.num_rows, np.int64)
    batch.reset(seed)
    for step in range(len(units)):
        batch.held[:] = rng.random(batch.num_rows) < 0.4
        act(batch, units[made, rows])
        names = ("obs", "mask", "to_act", "final_obs", "result", "actions", "controllers")
        kept = {name: None if getattr(batch, name) is None else getattr(batch, name).copy() for name in names}
        held = batch.held.copy()
        batch.step()
        need(np.array_equal(batch.held, held), "step() writes held, which is the engine's")
        for name, array in kept.items():
            moved = array is not None and array[held].tobytes() != getattr(batch, name)[held].tobytes()
            need(not moved, f"step {step}: {name} of a row that is held has changed")
        need(not batch.reward_terms[held].any(), f"step {step}: reward_terms of a row that is held are not 0")
        ended = batch.terminated | batch.truncated
        need(not ended[held].any(), f"step {step}: a match ended in a row that is held")
        now = outputs(batch)
        wanted = [now if is_held else free[decision] for is_held, decision in zip(held, made, strict=True)]
        before = {name: np.stack([wanted[row][name][row] for row in rows]) for name in now}
        need_same(before, now, f"step {step + 1}", "after a step in which it was held, a row plays differently")
        made += ~held
    batch.held[:] = False
