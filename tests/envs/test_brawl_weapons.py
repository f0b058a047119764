"""Brawl's weapons, scene by scene: where they lie, who gets them, how they are lost."""

from __future__ import annotations

import numpy as np
import pytest

from league.envs.brawl.env import FIELDS, Options, make
from league.envs.brawl.state import AIR, GROUND, PLATFORM
from tests.helpers.brawl_scenes import (
    APART,
    CLOSE,
    RULES,
    TERM,
    airborne,
    bits_of,
    edit,
    is_legal,
    play,
    press,
    records_of,
    run,
    scene,
)

NOTHING, SPEAR, HAMMER = 0, 1, 2
FIELD = {name: i for i, (name, *_) in enumerate(FIELDS)}
LYING = ((-4.0, 450, SPEAR, 100), (4.0, 200, HAMMER, 100))
ARMED = {"weapon": (SPEAR, 0), "weapon_left": (99, 0)}


def items_of(batch):
    return [(float(x), int(kind)) for x, _, kind, _ in batch.record(0)["items"].tolist()]


def is_wait(ticks):
    return RULES.item_wait_min <= ticks <= RULES.item_wait_max


def test_weapons_appear_and_vanish_at_their_times_and_places():
    """Within the table's bounds: the first ones, how long each lies, the wait for the next; and the distance out."""
    batch = make(64, 1, Options(ticks_per_step=1))
    batch.reset(3)
    assert not records_of(batch)["items"]["kind"].any()
    kinds = np.array([step_items(batch) for _ in range(1150)])
    changes = np.diff((kinds > 0).astype(int), axis=0)
    for row in range(64):
        for ground in range(2):
            times = np.flatnonzero(changes[:, row, ground]) + 2  # ticks played: the first change is between 1 and 2
            assert RULES.item_first_min <= times[0] <= RULES.item_first_max
            assert set(np.diff(times)[::2]) <= {RULES.item_ticks}
            assert all(is_wait(wait) for wait in np.diff(times)[1::2])
    share = (kinds == SPEAR).sum() / (kinds > 0).sum()
    assert 0.35 < share < 0.65


def step_items(batch):
    """The kinds (B, 2) after a step; checks their places."""
    batch.step()
    items = records_of(batch)["items"]
    x = items["x"][items["kind"] > 0]
    assert ((np.abs(x) >= RULES.item_near) & (np.abs(x) < RULES.item_far)).all()
    assert (np.sign(items["x"]) == np.where(items["kind"] > 0, (-1, 1), np.sign(items["x"]))).all()
    return items["kind"].copy()


def test_without_weapons_none_appears():
    """The option leaves the grounds bare over a whole match."""
    batch = make(8, 1, Options(weapons=False))
    for _ in range(399):
        batch.step()
        assert not records_of(batch)["items"]["kind"].any()


def test_the_nearest_weapon_is_seen():
    """Each seat sees how far and which the nearest one along x is, the left one on a tie, and none as 0."""
    batch = scene(x=(-3.0, 6.0), items=LYING)
    own = batch.obs[0, :, [FIELD["item_x"], FIELD["item"]]]
    np.testing.assert_allclose(own, [[-1 / 3, -2 / 4], [-1, 1]], rtol=1e-6)
    edit(batch, x=(0.0, 6.0), y=(3.0, 0), support=(AIR, GROUND))
    assert batch.obs[0, 0, FIELD["item"]] == -1 and batch.obs[0, 0, FIELD["item_x"]] < 0
    edit(batch, items=((-4.0, 450, NOTHING, 50), (4.0, 450, NOTHING, 50)))
    assert not batch.obs[0, :, [FIELD["item_x"], FIELD["item"]]].any()


def test_a_weapon_is_taken():
    """A fresh press within reach puts it in the hand for 450 ticks; the ground waits for its next one."""
    batch = scene(x=(-4.01 + RULES.pickup_reach, 4.0), items=LYING)
    state = play(batch, "pickup")[0]
    assert (state["weapon"], state["weapon_left"], state["pickups"]) == (SPEAR, RULES.weapon_ticks - 1, 1)
    assert batch.reward_terms[0, :, TERM["weapon_taken"]].tolist() == [1, 0]
    left, right = batch.record(0)["items"]
    assert left["kind"] == NOTHING and is_wait(left["ticks"] + 1)
    assert (right["kind"], right["ticks"]) == (HAMMER, 99)
    assert batch.obs[0, 0, FIELD["weapon"]] == -1
    assert batch.obs[0, 0, FIELD["weapon_left"]] == np.float32((RULES.weapon_ticks - 1) / RULES.weapon_ticks)


@pytest.mark.parametrize(
    "fields",
    [
        {"x": (-3.99 + RULES.pickup_reach, 4.0)},
        {"x": (-4.01 - RULES.pickup_reach, 4.0)},
        {"y": (0.5, 0), "vy": (5.0, 0), "support": (AIR, GROUND)},
        {"keys": (bits_of("pickup"), 0)},
        {"stun": (9, 0)},
        {"items": ((-4.0, 450, NOTHING, 100), (4.0, 450, HAMMER, 100))},
        {"x": (-1.0, 4.0), "support": (PLATFORM, GROUND), "items": ((-1.9, 450, SPEAR, 100), (0, 0, 0, 0))},
    ],
)
def test_a_weapon_is_not_taken(fields):
    """Out of reach, in the air, with the key held before, without control, where none lies, from the platform."""
    batch = scene(**{"items": LYING, **fields})
    assert not is_legal(batch, "pickup")
    assert play(batch, "pickup")["weapon"][0] == NOTHING
    assert batch.record(0)["items"]["ticks"][1] in (0, 99)


def test_both_at_once_get_nothing():
    """Two presses for the same weapon in the same tick leave it where it lies; the next fresh press takes it."""
    batch = scene(**CLOSE, items=LYING)
    press(batch, 0, "pickup")
    press(batch, 1, "pickup")
    state = run(batch)
    assert not state["weapon"].any() and not state["pickups"].any()
    assert items_of(batch) == [(-4.0, SPEAR), (4.0, HAMMER)]
    press(batch, 0)
    run(batch)
    assert play(batch, "pickup")["weapon"].tolist() == [SPEAR, NOTHING]


def test_two_different_weapons_are_both_taken():
    """Each takes the one on its own ground in the same tick, whichever seat is where."""
    for x, weapons in (((-4.0, 4.0), [SPEAR, HAMMER]), ((4.0, -4.0), [HAMMER, SPEAR])):
        batch = scene(x=x, items=LYING)
        press(batch, 0, "pickup")
        assert play(batch, "pickup", seat=1)["weapon"].tolist() == weapons
        assert not any(kind for _, kind in items_of(batch))


@pytest.mark.parametrize(
    "fields", [{}, {"y": (3.0, 0), "support": (AIR, GROUND)}, {"y": (0.01, 0), "support": (AIR, GROUND)}]
)
def test_a_dropped_weapon_lies_under_its_bearer(fields):
    """On its ground and in the air over it; it lies there for whoever takes it, and lasts no longer for that."""
    batch = scene(**fields, **ARMED)
    state = play(batch, "pickup")[0]
    assert (state["weapon"], state["weapon_left"]) == (NOTHING, 0)
    assert batch.reward_terms[0, :, TERM["weapon_lost"]].tolist() == [1, 0]
    assert items_of(batch)[0] == (state["x"], SPEAR)
    assert batch.record(0)["items"]["ticks"][0] == RULES.item_ticks - 1
    play(batch, steps=30)
    state = play(batch, "pickup")[0]
    assert (state["weapon"], state["weapon_left"]) == (SPEAR, ARMED["weapon_left"][0] - 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"x": (0.0, 4.0), "y": (3.0, 0), "support": (AIR, GROUND)},
        {"x": (0.0, 4.0), "y": (-1.0, 0), "support": (PLATFORM, GROUND)},
        {"x": (-8.0, 4.0), "y": (3.0, 0), "support": (AIR, GROUND)},
        {"x": (1.4, -4.0), "y": (-2.0, 0), "support": (AIR, GROUND)},
    ],
)
def test_a_weapon_dropped_off_the_grounds_is_lost(fields):
    """Over the pit, from the platform, off the outer edge, beside a wall: it is gone, and no ground waits again."""
    batch = scene(**fields, **ARMED, items=((-4.0, 450, NOTHING, 50), (4.0, 450, NOTHING, 60)))
    assert play(batch, "pickup")["weapon"][0] == NOTHING
    assert items_of(batch) == [(-4.0, NOTHING), (4.0, NOTHING)]
    assert batch.record(0)["items"]["ticks"].tolist() == [49, 59]


def test_a_weapon_dropped_where_one_lies_is_lost():
    """A ground holds one: the one that lies there stays."""
    batch = scene(**ARMED, items=((-3.5, 450, HAMMER, 100), (0, 0, 0, 0)))
    assert play(batch, "pickup")["weapon"][0] == NOTHING
    assert items_of(batch)[0] == (-3.5, HAMMER)


def test_a_weapon_dropped_where_one_is_just_taken_is_lost():
    """What lies on the grounds is read before either wish: taking first would favour a seat."""
    for dropper in (0, 1):
        weapon = (HAMMER, 0) if dropper == 0 else (0, HAMMER)
        batch = scene(**CLOSE, weapon=weapon, weapon_left=(99, 99), items=((-3.5, 450, SPEAR, 100), (0, 0, 0, 0)))
        press(batch, 0, "pickup")
        state = play(batch, "pickup", seat=1)
        assert state["weapon"].tolist() == ([NOTHING, SPEAR] if dropper == 0 else [SPEAR, NOTHING])
        assert items_of(batch)[0][1] == NOTHING


def test_two_weapons_dropped_on_one_ground_are_both_lost():
    """Dropped on different grounds both lie."""
    both = {"weapon": (SPEAR, HAMMER), "weapon_left": (99, 99)}
    for place, lying in ((CLOSE, [NOTHING, NOTHING]), (APART, [SPEAR, HAMMER])):
        batch = scene(**place, **both)
        press(batch, 0, "pickup")
        assert not play(batch, "pickup", seat=1)["weapon"].any()
        assert [kind for _, kind in items_of(batch)] == lying


def test_a_weapon_wears_out_in_the_hand():
    """After its ticks it is gone, and nothing lies on the ground; its last attack goes on."""
    batch = scene(weapon=(SPEAR, 0), weapon_left=(3, 0))
    assert play(batch, steps=2)["weapon"][0] == SPEAR
    state = play(batch, "light", "right")[0]
    assert (state["weapon"], state["weapon_left"]) == (NOTHING, 0) and state["move"] >= 0
    assert batch.reward_terms[0, :, TERM["weapon_lost"]].tolist() == [1, 0]
    assert items_of(batch) == [(0.0, NOTHING)] * 2


def test_a_weapon_is_lost_with_the_stock():
    """The next life begins with bare hands."""
    state = run(scene(x=(12.5, 4.0), y=(1.0, 0), support=(AIR, GROUND), **ARMED))[0]
    assert (state["weapon"], state["weapon_left"], state["stocks"]) == (NOTHING, 0, 2)


def test_a_pick_up_goes_before_an_attack_and_a_drop_after_it():
    """With both pressed a bare hand takes the weapon and no attack begins; an armed one attacks and keeps it."""
    batch = scene(items=LYING)
    state = play(batch, "light", "pickup")[0]
    assert state["attacks"] == 0 and state["weapon"] == SPEAR and items_of(batch)[0][1] == NOTHING
    state = play(airborne(**ARMED), "light", "pickup")[0]
    assert state["attacks"] == 1 and state["weapon"] == SPEAR


def test_a_hit_does_not_disarm():
    """Whoever is hit keeps its weapon."""
    batch = scene(**CLOSE, weapon=(0, HAMMER), weapon_left=(0, 99))
    assert play(batch, "light", steps=5)["weapon"][1] == HAMMER
    assert batch.record(0)["fighters"]["damage"][1] > 0
