"""The batch of the card duel: turns, rows that are held, seeds, threads, states, seats, what is hidden."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from league.envs.blob import HEADER_SIZE
from league.envs.cards import env
from league.envs.cards.catalogue import IDS
from league.envs.cards.env import Options
from league.envs.cards.layout import OPPONENT_SLICE, PARTS, SIZE
from league.envs.cards.rules import BOTS, METRICS
from league.envs.cards.state import STATE_DTYPE, pack_state
from league.types import Regrouping, Turns, result_dtype
from tests.helpers.cards_scenes import place, put, records_of, restore, scene, stirred

ARRAYS = ("obs", "mask", "reward_terms", "terminated", "truncated", "controllers", "to_act")
OPTIONS = Options()


def random_actions(batch: Any, rng: np.random.Generator) -> Any:
    """Legal ones for every row (B, 2, 4)."""
    numbers = rng.random((batch.num_rows, 2, batch.spec.action.mask_size))
    return batch.spec.action.legal_actions(batch.mask, numbers)


def play(batch: Any, steps: int, seed: int = 0) -> list[bytes]:
    """What each of `steps` steps of random legal actions shows: all arrays, and the ends of the rows that ended."""
    rng, trace = np.random.default_rng(seed), []
    for _ in range(steps):
        batch.actions[:] = random_actions(batch, rng)
        batch.step()
        ends = [array[batch.terminated].tobytes() for array in (batch.final_obs, batch.result)]
        trace.append(b"".join([*(getattr(batch, name).tobytes() for name in ARRAYS), *ends]))
    return trace


def test_arrays_are_those_of_the_contract() -> None:
    """Shapes and types; obs within obs_range; written in place, all along."""
    batch: Any = env.make(5, 1, OPTIONS)
    spec = batch.spec
    assert isinstance(batch, Turns) and isinstance(batch, Regrouping) and spec.action.kind == "legal_tuples"
    expected: dict[str, tuple[tuple[int, ...], Any]] = {
        "obs": ((5, 2, SIZE), np.float32),
        "final_obs": ((5, 2, SIZE), np.float32),
        "actions": ((5, 2, 4), np.int32),
        "mask": ((5, 2, spec.action.mask_size), spec.action.mask_dtype),
        "reward_terms": ((5, 2, len(spec.reward_terms)), np.float32),
        "terminated": ((5,), np.bool_),
        "truncated": ((5,), np.bool_),
        "to_act": ((5, 2), np.bool_),
        "held": ((5,), np.bool_),
        "result": ((5,), result_dtype(len(METRICS))),
        "controllers": ((5, 2), np.int16),
    }
    at = {name: getattr(batch, name).ctypes.data for name in expected}
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(300):
        batch.actions[:] = random_actions(batch, rng)
        batch.step()
        assert (batch.to_act.sum(axis=1) == 1).all()
        assert (batch.obs >= 0).all() and (batch.obs <= spec.obs_range[1]).all()
        ends += int(batch.terminated.sum())
    batch.set_state(batch.get_state())
    batch.reset(3)
    assert ends >= 10
    for name, (shape, dtype) in expected.items():
        array = getattr(batch, name)
        assert (array.shape, array.dtype, array.ctypes.data) == (shape, dtype, at[name]), name
        assert array.flags.c_contiguous and array.flags.writeable


def test_one_seat_acts_and_only_its_action_is_read() -> None:
    """What stands in the other's actions makes no difference; what stands in its own must be an action."""
    batch: Any = env.make(3, 1, OPTIONS)
    batch.reset(1)
    rows, other = np.arange(3), batch.to_act.argmin(axis=1)
    batch.actions[rows, other] = 99
    batch.step()
    batch.actions[:] = 0
    seat = int(batch.to_act[2].argmax())
    batch.actions[2, seat] = (4, 0, 5, 5)
    before = batch.get_state(), batch.obs.copy()
    with pytest.raises(ValueError, match=rf"actions\[2, {seat}\]=\[4, 0, 5, 5\] is no action: type, .* 6, 29, 5, 11;"):
        batch.step()
    assert batch.get_state() == before[0] and (batch.obs == before[1]).all()


def test_rows_that_are_held_are_left_as_they_are() -> None:
    """No byte of theirs changes but that terms are 0 and nothing ended; what stands in their actions is not read."""
    batch, free = env.make(6, 1, OPTIONS), env.make(6, 1, OPTIONS)
    held = np.array([True, False, True, False, False, True])
    for each in (batch, free):
        each.controllers[2:4] = [[0, 1], [2, 0]]
        each.reset(4)
    rng, ends = np.random.default_rng(0), 0
    for _ in range(250):
        actions = random_actions(batch, rng)
        batch.actions[:] = free.actions[:] = actions
        batch.held[:] = free.held[:] = held
        batch.actions[held] = 77
        kept = {name: getattr(batch, name)[held].tobytes() for name in ("obs", "mask", "final_obs", "result", "to_act")}
        state = records_of(batch)[held].tobytes()
        batch.step()
        free.step()
        assert all(getattr(batch, name)[held].tobytes() == kept[name] for name in kept)
        assert records_of(batch)[held].tobytes() == state
        assert not batch.reward_terms[held].any() and not batch.terminated[held].any()
        assert batch.obs.tobytes() == free.obs.tobytes()
        ends += int(batch.terminated.sum())
        if rng.random() < 0.2:
            held = rng.random(6) < 0.5
    assert ends >= 3


def test_a_seed_is_a_run() -> None:
    """Again, in another batch, in threads and at another index; matches follow with seeds of their own."""
    batch: Any = env.make(40, 1, OPTIONS)
    batch.reset(9)
    first = play(batch, 60)
    batch.reset(9)
    assert play(batch, 60) == first
    other: Any = env.make(40, 2, OPTIONS)
    other.reset(9)
    assert play(other, 60) == first
    seeds = np.arange(5, 12, dtype=np.uint64)
    few, moved = env.make(7, 1, OPTIONS), env.make(7, 1, OPTIONS)
    few.reset(seeds)
    moved.reset(np.roll(seeds, 1))
    assert np.roll(few.obs, 1, axis=0).tobytes() == moved.obs.tobytes()
    few.controllers[:] = 0
    played: list[int] = []
    while len(played) < 2:
        few.step()
        played += few.result["seed"][:1][few.terminated[:1]].tolist()
    assert played[0] == 5 and played[1] != 5
    assert not np.array_equal(batch.obs[0], batch.obs[1])


def test_states_restore_and_regroup() -> None:
    """A restored state goes on alike in another batch, in parts and whole; controllers come with it."""
    batch, other = env.make(6, 1, OPTIONS), env.make(6, 1, OPTIONS)
    batch.controllers[3:] = [[0, -1], [1, 2], [-1, 1]]
    batch.reset(2)
    play(batch, 50)
    state = batch.get_state()
    obs, mask, to_act = batch.obs.copy(), batch.mask.copy(), batch.to_act.copy()
    trace = play(batch, 100, seed=1)
    other.reset(5)
    other.set_state(state)
    assert (other.obs == obs).all() and (other.mask == mask).all() and (other.to_act == to_act).all()
    assert other.get_state() == state
    assert play(other, 100, seed=1) == trace
    parts = batch.regroup([state], [2, 4])
    small = env.make(2, 1, OPTIONS)
    small.set_state(parts[0])
    assert (small.obs == obs[:2]).all()
    assert batch.regroup(parts, [6]) == [state]
    for blobs, rows in (([state[:-1]], [6]), (parts[:1], [6])):
        with pytest.raises(ValueError, match="state"):
            batch.regroup(blobs, rows)


@pytest.mark.parametrize(
    "damage",
    [
        lambda r: r["keepers"]["hand"].__setitem__((0, 0, 0), 99),
        lambda r: r["keepers"]["hand"].__setitem__((0, 0), [9, 8, 0, 0, 0, 0]) or set_size(r, 2),
        lambda r: set_size(r, 7),
        lambda r: r["keepers"]["deck_size"].__setitem__((0, 0), 41),
        lambda r: r["keepers"]["deck_size"].__setitem__((0, 0), 3),
        lambda r: r["acting"].__setitem__(0, 2),
        lambda r: r["decisions"].__setitem__(0, 100),
        lambda r: r["keepers"]["health"].__setitem__((0, 0), 0),
        lambda r: r["keepers"]["last"].__setitem__((0, 0, 3), 11),
        lambda r: r["keepers"]["board"]["card"].__setitem__((0, 0, 0), IDS["spark"]),
        lambda r: r["keepers"]["board"]["power"].__setitem__((0, 0, 0), 1),
        lambda r: r["keepers"]["controller"].__setitem__((0, 1), len(BOTS)),
    ],
)
def test_impossible_states_are_refused(damage: Any) -> None:
    """A value that no match can have is one line, and nothing has changed."""
    batch = env.make(1, 1, OPTIONS)
    batch.reset(2)
    state = batch.get_state()
    records = records_of(batch).copy()
    records["keepers"]["board"][0, 0, 0] = 0
    damage(records)
    with pytest.raises(ValueError, match="state: "):
        restore(batch, records)
    for blob in (b"", state[:-1], state + b"\0", b"x" + state[1:], env.make(2, 1, OPTIONS).get_state()):
        with pytest.raises(ValueError, match="state: "):
            batch.set_state(blob)
    with pytest.raises(ValueError, match="other options"):
        env.make(1, 1, Options(health=19)).set_state(state)
    assert batch.get_state() == state


def set_size(records: Any, size: int) -> None:
    records["keepers"]["hand_size"][0, 0] = size


def test_seats_are_exchanged_bit_for_bit() -> None:
    """With the keepers, controllers and actions exchanged the other seat plays the same match, in every bit of it."""
    rows, rng = 40, np.random.default_rng(6)
    batch, mirror = env.make(rows, 1, OPTIONS), env.make(rows, 1, OPTIONS)
    batch.controllers[:] = rng.integers(-1, len(BOTS), (rows, 2))
    batch.reset(8)
    records = np.frombuffer(batch.get_state(), STATE_DTYPE, offset=HEADER_SIZE).copy()
    records["keepers"] = records["keepers"][:, ::-1]
    for name in ("acting", "began"):
        records[name] = 1 - records[name]
    mirror.set_state(pack_state(records, env.options_hash(OPTIONS)))
    over = np.zeros(rows, bool)
    while not over.all():
        batch.held[:] = mirror.held[:] = over
        batch.actions[:] = random_actions(batch, rng)
        mirror.actions[:] = batch.actions[:, ::-1]
        batch.step()
        mirror.step()
        ended = batch.terminated.copy()
        assert (mirror.terminated == ended).all()
        goes = ~over & ~ended
        for name in ("obs", "mask", "to_act"):
            assert (getattr(batch, name)[goes] == getattr(mirror, name)[goes][:, ::-1]).all(), name
        assert (batch.reward_terms == mirror.reward_terms[:, ::-1]).all()
        assert (batch.final_obs[ended] == mirror.final_obs[ended][:, ::-1]).all()
        ours, theirs = batch.result[ended], mirror.result[ended]
        assert (ours["metrics"] == theirs["metrics"][:, ::-1]).all() and (ours["ticks"] == theirs["ticks"]).all()
        assert (np.where(ours["winner"] < 0, -1, 1 - ours["winner"]) == theirs["winner"]).all()
        over |= ended


def test_nobody_sees_what_is_hidden() -> None:
    """Another hand of the opponent's unseen cards, other decks and other random streams give the same view."""
    rng, rows = np.random.default_rng(7), 60
    batch, other = env.make(rows, 1, OPTIONS), env.make(rows, 1, OPTIONS)
    records = stirred(rng, rows, OPTIONS)
    restore(batch, records)
    for seat in (0, 1):
        changed = records.copy()
        for record in changed:
            mine, theirs = record["keepers"][seat], record["keepers"][1 - seat]
            size = int(theirs["hand_size"])
            unseen = rng.permutation([*theirs["hand"][:size], *theirs["deck"][: theirs["deck_size"]]]).tolist()
            put(theirs, "hand", sorted(unseen[:size]))
            put(theirs, "deck", unseen[size:])
            put(mine, "deck", rng.permutation(mine["deck"][: mine["deck_size"]]).tolist())
            for keeper in (mine, theirs):
                keeper["rng"] = rng.integers(2**63)
            record["rng"], record["seed"] = rng.integers(2**63, size=2)
        restore(other, changed)
        assert (other.obs[:, seat] == batch.obs[:, seat]).all()
        assert (other.obs[:, 1 - seat] != batch.obs[:, 1 - seat]).any(), "the opponent sees its own hand"
        assert (other.mask[:, seat] == batch.mask[:, seat]).all()


def test_what_is_seen() -> None:
    """Hand, boards, keepers, phase, the opponent's last decision and unseen cards are where the table says."""
    record = scene()
    me, other = record["keepers"][0]
    place(me, 2, "heron", health=2, acts=1)
    place(other, 4, "turtle", acts=0, snared=1)
    put(me, "hand", [IDS["gull"], IDS["spark"]])
    put(other, "hand", [IDS["orca"]])
    other["health"], other["oil"], other["lamps"], other["tired"] = 5, 2, 1, 2
    other["last"], record["decisions"] = (2, IDS["turtle"], 4, 0), 25
    batch: Any = env.make(1, 1, OPTIONS)
    restore(batch, record)
    seen = {name: batch.obs[0, 0, start:stop].tolist() for name, (start, stop) in PARTS.items()}
    assert seen["hand"] == [IDS["gull"], IDS["spark"], 0, 0, 0, 0]
    assert np.flatnonzero(seen["hand_counts"]).tolist() == [IDS["gull"] - 1, IDS["spark"] - 1]
    assert seen["phase"] == [1, 1, 0.75]
    assert seen["own_board"] == [0, IDS["heron"], 0, 0] and seen["other_board"] == [0, 0, 0, IDS["turtle"]]
    assert seen["own_creatures"][11:22] == [3 / 8, 2 / 8, 1 / 8, 1, 0, 1, 0, 0, 0, 0, 0]
    assert seen["other_creatures"][33:] == [2 / 8, 6 / 8, 0, 0, 1, 0, 1, 0, 1, 0, 0]
    assert np.allclose(seen["other_keeper"], [5 / 20, 2 / 8, 1 / 3, 0, 2 / 8, 1 / 6, 5 / 20])
    assert seen["other_last_card"] == [IDS["turtle"]] and seen["own_last_card"] == [0]
    assert (np.argmax(seen["other_last_type"]), np.argmax(seen["other_last_slot"])) == (2, 3)
    assert not any(seen["other_last_target"]) and not any(seen["own_last_type"])
    unseen = seen["other_unseen"]
    assert (unseen[IDS["orca"] - 1], unseen[IDS["shrimp"] - 1], sum(unseen)) == (0.5, 2.5, 3)
    assert OPPONENT_SLICE == (PARTS["other_board"][0], SIZE) == env.SPEC.opponent_slice
    mine = slice(PARTS["own_board"][0], PARTS["other_board"][0])
    assert (batch.obs[0, 1, slice(*OPPONENT_SLICE)] == batch.obs[0, 0, mine]).all()
