"""Brawl's attacks, scene by scene: every move of the table, charges, follow-ups, hits, combos, the taunt."""

from __future__ import annotations

import numpy as np
import pytest

from league.envs.brawl.env import make
from league.envs.brawl.moves import IDS, KINDS, NONE, STRIKES, WEAPONS
from league.envs.brawl.state import AIR, GROUND, PLATFORM
from tests.helpers.brawl_scenes import (
    APART,
    CLOSE,
    RULES,
    TERM,
    TICK,
    airborne,
    edit,
    is_legal,
    play,
    press,
    records_of,
    restore,
    run,
    scene,
    strike,
    terms_of,
    track,
)

KEYS_OF = {
    "neutral_light": [("light",), ("light", "up", "right"), ("light", "up", "down"), ("light", "left", "right")],
    "side_light": [("light", "right"), ("light", "left")],
    "down_light": [("light", "down"), ("light", "down", "right")],
    "neutral_heavy": [("heavy",), ("heavy", "light"), ("heavy", "up", "left")],
    "side_heavy": [("heavy", "right"), ("heavy", "light", "left")],
    "down_heavy": [("heavy", "down"), ("heavy", "down", "left")],
    "neutral_air": [("light",), ("light", "up", "right")],
    "side_air": [("light", "right"), ("light", "left")],
    "down_air": [("light", "down"), ("light", "down", "left")],
    "recovery": [("heavy",), ("heavy", "right"), ("heavy", "up", "down"), ("heavy", "light")],
    "ground_pound": [("heavy", "down"), ("heavy", "down", "right"), ("heavy", "light", "down")],
}
IN_AIR = KINDS[6:]


def hold_up(batch, kind):
    """Keeps seat 0 in the air, so that no landing meets a strike of the air."""
    if kind in IN_AIR:
        edit(batch, x=(-4.0, 4.0), y=(5.0, 0), vy=(0, 0))


def start_of(kind, weapon, **fields):
    kept = {"weapon": (WEAPONS.index(weapon), 0), "weapon_left": (400, 0)}
    return (airborne if kind in IN_AIR else scene)(**kept, **fields)


@pytest.mark.parametrize("weapon", WEAPONS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_move_starts_from_its_keys(kind, weapon):
    """Heavy beats light, up beats down, down beats the sides; each weapon answers with its own eleven moves."""
    for keys in KEYS_OF[kind]:
        state = play(start_of(kind, weapon), *keys)[0]
        assert state["move"] == IDS[f"{weapon}.{kind}"]
        assert (state["move_tick"], state["attacks"]) == (1, 1)
        assert state["facing"] == (-1 if "left" in keys and "right" not in keys else 1)


@pytest.mark.parametrize("weapon", WEAPONS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_move_takes_its_ticks(kind, weapon):
    """No control until start-up, active and recovery are over, those of the follow-up of a miss with them."""
    batch = start_of(kind, weapon)
    play(batch, *KEYS_OF[kind][0])
    press(batch, 0)
    move = strike(f"{weapon}.{kind}")
    length = move.ticks if move.on_miss == NONE else move.startup + move.active + STRIKES[move.on_miss].ticks
    for _ in range(length - 2):
        hold_up(batch, kind)
        assert run(batch)[0]["move"] >= 0
        assert not is_legal(batch, "light") and not is_legal(batch, "jump")
    hold_up(batch, kind)
    assert run(batch)[0]["move"] == NONE
    assert is_legal(batch, "light") and is_legal(batch, "dodge")


@pytest.mark.parametrize("name", [name for name, row in zip(IDS, STRIKES, strict=True) if row.lunge_x or row.lunge_y])
def test_lunges(name):
    """At the first active tick the attacker takes the strike's own speed, x the way it faces."""
    move = strike(name)
    for facing in (1, -1):
        batch = airborne(move=(IDS[name], NONE), move_tick=(move.startup - 1, 0), facing=(facing, -1))
        before, after = run(batch)[0], run(batch)[0]
        assert after["vx"] == (facing * move.lunge_x if move.lunge_x else before["vx"])
        assert after["vy"] == (move.lunge_y if move.lunge_y else pytest.approx(before["vy"] - RULES.gravity / 30))


# Landing, recovery


@pytest.mark.parametrize("support", [GROUND, PLATFORM])
def test_landing_cuts_an_air_strike_to_its_recovery(support):
    """A side air that lands in its start-up or active ticks leaves no control for its recovery's ticks, and no more."""
    move = strike("unarmed.side_air")
    for tick in (0, move.startup, move.startup + move.active - 1):
        batch = scene(
            x=(-4.0 if support == GROUND else 0.0, 4.0),
            y=(0.01 if support == GROUND else -0.98, 0),
            support=(AIR, GROUND),
            move=(IDS["unarmed.side_air"], NONE),
            move_tick=(tick, 0),
        )
        state = run(batch)[0]
        assert (state["support"], state["move_tick"]) == (support, move.startup + move.active + 1)
        assert run(batch, move.recovery - 2)["move"][0] == IDS["unarmed.side_air"]
        assert run(batch)["move"][0] == NONE


def test_landing_in_the_recovery_changes_nothing():
    """Once its active ticks are over, a landing neither shortens nor lengthens an air strike."""
    name = "unarmed.ground_pound"
    last = strike(name).startup + strike(name).active
    state = run(airborne(y=(0.01, 0), move=(IDS[name], NONE), move_tick=(last + 3, 0)))[0]
    assert (state["support"], state["move"], state["move_tick"]) == (GROUND, IDS[name], last + 4)


@pytest.mark.parametrize(
    ("weapon", "then"),
    [("unarmed", "ground_pound_shock"), ("spear", "ground_pound"), ("hammer", "ground_pound_shock")],
)
def test_a_ground_pound_meets_the_ground(weapon, then):
    """It dives; bare hands and hammer send a shock along the ground on landing, the spear goes to its recovery."""
    batch = start_of("ground_pound", weapon)
    press(batch, 0, "heavy", "down")
    while run(batch)["support"][0] == AIR:
        pass
    state = batch.record(0)["fighters"][0]
    pound = strike("spear.ground_pound")
    assert state["move"] == IDS[f"{weapon}.{then}"] and state["attacks"] == 1
    start = 0 if then != "ground_pound" else pound.startup + pound.active
    assert state["move_tick"] == start + 1


def test_the_shock_hits_who_stands_beside():
    """A pound's shock is a second blow of the same attack: it pays its damage, and one hit in all."""
    fields = {**APART, "x": (-4.0, -2.5), "y": (0.3, 0), "support": (AIR, GROUND)}
    batch = scene(**fields, move=(IDS["unarmed.ground_pound"], NONE), move_tick=(8, 0), vy=(-16.0, 0))
    state = run(batch, 4)
    assert state["damage"][1] == strike("unarmed.ground_pound_shock").damage
    assert state["hits"][0] == 1


def test_recovery_is_once_an_airtime():
    """The upward strike lifts once; then heavy does nothing in the air until the fighter has stood again."""
    batch = airborne()
    move = strike("unarmed.recovery")
    assert play(batch, "heavy", steps=move.startup + 1)["vy"][0] == move.lunge_y
    press(batch, 0)
    run(batch, move.ticks - move.startup - 1)
    edit(batch, y=(5.0, 0), vy=(0, 0))
    assert play(batch, "heavy")["attacks"][0] == 1
    assert play(batch, "heavy", "light")["move"][0] == IDS["unarmed.neutral_air"]
    press(batch, 0)
    assert run(batch, 60)["recovery_left"][0] == 1


# Charges


@pytest.mark.parametrize("weapon", WEAPONS)
@pytest.mark.parametrize("kind", KINDS[3:6])
@pytest.mark.parametrize("extra", [0, 1, 10, 24, 40])
def test_a_heavy_is_held_as_long_as_the_key_up_to_its_most(weapon, kind, extra):
    """Held `extra` ticks past its last tick of start-up it charges as many, 24 at most, and strikes after them."""
    batch = start_of(kind, weapon)
    move = strike(f"{weapon}.{kind}")
    charge = min(extra, RULES.max_charge)
    state = play(batch, *KEYS_OF[kind][0], steps=move.startup - 1 + charge)[0]
    assert (state["charge"], state["move_tick"]) == (charge, move.startup - 1)
    if extra <= RULES.max_charge:
        press(batch, 0)
    state = run(batch)[0]
    assert (state["charge"], state["move_tick"]) == (charge, move.startup)


@pytest.mark.parametrize("charge", [0, 6, 24])
def test_a_charge_adds_to_damage_and_knockback(charge):
    """A full charge makes the damage and the knockback's speed half as large again, a quarter of it an eighth."""
    move = strike("unarmed.side_heavy")
    batch = scene(**CLOSE, move=(IDS["unarmed.side_heavy"], NONE), move_tick=(move.startup, 0), charge=(charge, 0))
    target = run(batch)[1]
    power = {0: 1.0, 6: 1.125, 24: 1.5}[charge]
    damage = 21 * power
    speed = (10 + 23 * damage / 100) * power
    assert target["damage"] == pytest.approx(damage)
    assert (target["vx"], target["vy"]) == (pytest.approx(0.8 * speed), pytest.approx(0.6 * speed))
    assert target["stun"] == 8 + int(speed * 0.6)


# Hits


@pytest.mark.parametrize("name", [name for name, row in zip(IDS, STRIKES, strict=True) if row.active])
@pytest.mark.parametrize("damage", [0.0, 100.0])
def test_each_strike_does_what_its_row_says(name, damage):
    """Damage, knockback, direction and stun of every strike, to a fresh and to a worn opponent, facing either way."""
    move = strike(name)
    speed = move.knockback + move.growth * (damage + move.damage) / 100
    for facing in (1, -1):
        batch = scene(
            x=(-4.0, -4.0 + facing * move.offset_x),
            y=(3.0, 3.0 + move.offset_y - RULES.body_half_height),
            support=(AIR, AIR),
            facing=(facing, -1),
            damage=(0, damage),
            move=(IDS[name], NONE),
            move_tick=(move.startup, 0),
        )
        hitter, target = run(batch)
        assert (hitter["hits"], hitter["move_hit"], hitter["damage_dealt"]) == (1, 1, move.damage)
        assert target["damage"] == damage + move.damage
        assert target["vx"] == pytest.approx(facing * move.angle_x * speed)
        assert target["vy"] == pytest.approx(move.angle_y * speed)
        stun = max(RULES.min_stun, min(RULES.max_stun, move.stun + int(speed * 0.6)))
        assert (target["stun"], target["combo"], target["credit"]) == (stun, 1, RULES.credit_ticks)


@pytest.mark.parametrize(
    ("dx", "dy", "hits"),
    [(2.39, 0, 1), (2.41, 0, 0), (-0.19, 0, 1), (-0.21, 0, 0), (1.1, 1.24, 1), (1.1, 1.26, 0), (1.1, -1.24, 1)],
)
def test_a_hit_box_ends_where_the_table_says(dx, dy, hits):
    """The side light's box reaches from 0.2 to 2.0 ahead and from 0.35 to 1.25 up; a body adds 0.4 and its 1.6."""
    batch = scene(
        x=(-4.0, -4.0 + dx),
        y=(3.0, 3.0 + dy),
        support=(AIR, AIR),
        move=(IDS["unarmed.side_light"], NONE),
        move_tick=(5, 0),
    )
    assert run(batch)["hits"][0] == hits


def test_a_blow_at_a_standing_fighters_feet_lifts_it():
    """A downward blow that meets someone standing bounces up by 0.6; in the air it goes down."""
    move = strike("unarmed.down_air")
    speed = move.knockback + move.growth * move.damage / 100
    for support, y, vy in ((GROUND, 0.0, 0.6 * speed), (AIR, 1.0, -speed)):
        fields = {"x": (-4.0, -4.0), "y": (1.7, y), "support": (AIR, support)}
        target = run(scene(**fields, move=(IDS["unarmed.down_air"], NONE), move_tick=(6, 0)))[1]
        assert (target["support"], target["vy"]) == (AIR, pytest.approx(vy))


def test_hits_trade():
    """Two equal blows that meet in the same tick both land; neither seat goes first."""
    batch = scene(**CLOSE)
    press(batch, 0, "light")
    press(batch, 1, "light")
    after = run(batch, strike("unarmed.neutral_light").startup + 1)
    assert (after["damage"] == 4).all() and (after["hits"] == 1).all()
    assert after["vx"][0] == -after["vx"][1] < 0 and after["vy"][0] == after["vy"][1] > 0


def test_a_strike_hits_once_and_interrupts():
    """One swing hits once though it stays active; the one hit loses its own attack, dash and turn, and cannot act."""
    name = "unarmed.side_heavy"
    own = {"dash": (0, 5), "turn": (0, 2)}
    batch = scene(**CLOSE, **own, move=(IDS["unarmed.side_light"], IDS[name]), move_tick=(4, 3), charge=(0, 5))
    target = run(batch)[1]
    assert [target[field] for field in ("move", "move_tick", "charge", "dash", "turn")] == [NONE, 0, 0, 0, 0]
    press(batch, 1, "jump", "light", "heavy", "dodge", "pickup", "taunt")
    state = run(batch, 5)
    assert state["hits"][0] == 1 and state["stun"][1] > 0
    assert not batch.mask[0, 1].any()
    assert state["attacks"][1] == state["dodges"][1] == 0 and state["jumps_left"][1] == RULES.air_jumps


@pytest.mark.parametrize("field", ["invulnerable", "dodge", "respawn"])
def test_who_cannot_be_hit_is_not(field):
    """Protection, a dodge and absence each keep every blow off."""
    batch = scene(**CLOSE, **{field: (0, 5)}, move=(IDS["unarmed.side_light"], NONE), move_tick=(4, 0))
    state = run(batch, 3)
    assert state["damage"][1] == 0 and state["hits"][0] == 0 and state["stun"][1] == 0


# Follow-ups


def strikes_seen(batch, ticks):
    """The ids of seat 0's strikes over some ticks, each once, in order."""
    seen = []
    for move in track(batch, "move", ticks):
        if move != NONE and (not seen or seen[-1] != move):
            seen.append(move)
    return [list(IDS)[move].partition(".")[2] for move in seen]


@pytest.mark.parametrize(
    ("weapon", "kind", "chain", "damage"),
    [
        ("unarmed", "neutral_light", ["neutral_light", "neutral_light_2"], 4 + 7),
        ("spear", "side_light", ["side_light", "side_light_2"], 5 + 8),
        ("spear", "side_heavy", ["side_heavy", "side_heavy_2", "side_heavy_3"], 6 + 6 + 13),
        ("hammer", "neutral_air", ["neutral_air", "neutral_air_2"], 5 + 9),
    ],
)
def test_a_hit_leads_to_the_follow_up(weapon, kind, chain, damage):
    """The later blows come by themselves and connect; together they are one attack, one hit and no combo."""
    fields = {**CLOSE, "weapon": (WEAPONS.index(weapon), 0), "weapon_left": (400, 0)}
    if kind in IN_AIR:
        fields |= {"y": (3.0, 3.0), "support": (AIR, AIR)}
    batch = scene(**fields)
    play(batch, *KEYS_OF[kind][0])
    press(batch, 0)
    assert strikes_seen(batch, 50) == chain
    state = batch.record(0)["fighters"]
    assert state["damage"][1] == damage
    assert [state[field][0] for field in ("attacks", "hits", "combos")] == [1, 1, 0]


@pytest.mark.parametrize(
    ("weapon", "kind", "chain"),
    [
        ("unarmed", "neutral_light", ["neutral_light"]),
        ("spear", "side_light", ["side_light"]),
        ("spear", "side_heavy", ["side_heavy"]),
        ("hammer", "neutral_air", ["neutral_air", "neutral_air_3"]),
    ],
)
def test_a_miss_leads_to_its_own_follow_up_or_to_the_recovery(weapon, kind, chain):
    """Without a hit only the hammer's whirl in the air goes on, to its other second blow."""
    batch = start_of(kind, weapon)
    play(batch, *KEYS_OF[kind][0])
    press(batch, 0)
    assert strikes_seen(batch, 15) == chain


# Combos and stun


@pytest.mark.parametrize(("row", "stun"), [(0, 21), (1, 19), (3, 15), (9, 4), (500, 4)])
def test_each_hit_of_a_combo_stuns_two_ticks_less(row, stun):
    """A side light at 100 damage stuns 7 + int(24 * 0.6), 2 less for each hit before it in that stun, at least 4."""
    fields = {**CLOSE, "damage": (0, 100), "stun": (0, 3 if row else 0), "combo": (0, row)}
    batch = scene(**fields, move=(IDS["unarmed.side_light"], NONE), move_tick=(4, 0))
    state = run(batch)
    assert (state["stun"][1], state["combo"][1]) == (stun, row + 1)
    assert batch.reward_terms[0, 0, TERM["combo"]] == state["combos"][0] == (row > 0)


def test_a_hit_after_the_stun_begins_a_new_combo():
    """Whoever has control again counts from one, whatever the last combo was."""
    batch = scene(**CLOSE, combo=(0, 7), move=(IDS["unarmed.side_light"], NONE), move_tick=(4, 0))
    state = run(batch)
    assert (state["combo"][1], state["combos"][0]) == (1, 0)


def test_stun_has_a_most():
    """However worn the target, a blow stuns 60 ticks and no more."""
    batch = scene(**CLOSE, damage=(0, 5000), move=(IDS["hammer.side_heavy"], NONE), move_tick=(14, 0))
    assert run(batch)["stun"][1] == RULES.max_stun


@pytest.mark.parametrize("damage", [0.0, 60.0, 120.0])
def test_no_stun_is_endless(damage):
    """Every attack, repeated without a pause on an opponent pinned before it and as worn each time, lets go of it."""
    starts = [IDS[f"{weapon}.{kind}"] for weapon in WEAPONS for kind in KINDS]
    batch = make(len(starts), 1, TICK)
    hits, let_go_after = np.zeros(len(starts), int), np.zeros(len(starts), int)
    for _ in range(800):
        records = records_of(batch)
        hitter, target = records["fighters"][:, 0], records["fighters"][:, 1]
        hitter["move"] = np.where(hitter["move"] == NONE, starts, hitter["move"])
        now = [STRIKES[move] for move in hitter["move"]]
        hitter["x"], hitter["y"], hitter["facing"], hitter["support"] = -4.0, 4.0, 1, AIR
        target["x"] = hitter["x"] + [move.offset_x for move in now]
        target["y"] = hitter["y"] + [move.offset_y - RULES.body_half_height for move in now]
        target["support"], target["damage"] = AIR, damage
        for fighter in (hitter, target):
            fighter["vx"] = fighter["vy"] = 0.0
        restore(batch, records)
        batch.step()
        hits += batch.reward_terms[:, 0, TERM["damage_dealt"]] > 0
        free = (records_of(batch)["fighters"][:, 1]["stun"] == 0) & (hits > 0)
        let_go_after = np.where(free & (let_go_after == 0), hits, let_go_after)
    assert (let_go_after > 0).all() and let_go_after.max() <= 12


# The taunt


@pytest.mark.parametrize("weapon", WEAPONS)
def test_a_taunt_takes_twenty_ticks_and_does_nothing(weapon):
    """It is no attack: none is counted, protection stays, nobody is hurt; control is gone for its ticks."""
    fields = {**CLOSE, "weapon": (WEAPONS.index(weapon), 0), "weapon_left": (400, 0), "invulnerable": (60, 0)}
    batch = scene(**fields)
    press(batch, 0, "taunt")
    sums = terms_of(batch, 1)
    state = batch.record(0)["fighters"][0]
    assert (state["move"], state["attacks"], state["invulnerable"]) == (IDS["unarmed.taunt"], 0, 59)
    press(batch, 0, "right", "light", "jump")
    sums += terms_of(batch, 18)
    assert batch.record(0)["fighters"][0]["move"] == IDS["unarmed.taunt"]
    assert not is_legal(batch, "light") and not sums[:, TERM["attack"]].any() and not sums[1].any()
    press(batch, 0)
    assert run(batch)["move"][0] == NONE and is_legal(batch, "light")


def test_a_taunt_needs_footing_and_a_fresh_press():
    """In the air it does nothing, and held on it does not repeat."""
    assert play(airborne(), "taunt")["move"][0] == NONE
    batch = scene()
    play(batch, "taunt", steps=20)
    assert play(batch, "taunt", steps=3)["move"][0] == NONE
