"""Brawl's rules of motion and of a match's end, scene by scene; expectations are worked out from the table of rules."""

from __future__ import annotations

import numpy as np
import pytest

from league.envs.brawl.env import KEYS, SPEC, Options, make
from league.envs.brawl.moves import IDS
from league.envs.brawl.state import AIR, GROUND, PLATFORM
from league.types import DRAW
from tests.helpers.brawl_scenes import (
    APART,
    CLOSE,
    DT,
    FRESH,
    RULES,
    TERM,
    airborne,
    bits_of,
    is_legal,
    play,
    press,
    random_keys,
    records_of,
    restore,
    run,
    scene,
    stir,
    track,
)

GRAVITY = RULES.gravity * DT
INNER, OUTER = RULES.edge_inner, RULES.edge_outer


def approx(value):
    return pytest.approx(value, abs=1e-9)


# The end of a match, of a stock


@pytest.mark.parametrize(
    ("stocks", "damage", "winner"),
    [((2, 1), (90, 0), 0), ((1, 2), (0, 90), 1), ((2, 2), (5, 6), 0), ((2, 2), (6, 5), 1), ((1, 1), (7, 7), DRAW)],
)
def test_the_clock_decides(stocks, damage, winner):
    """At the time limit more stocks win, then less damage, then it is a draw; it is an end, not a cut."""
    batch = scene(stocks=stocks, damage=damage, match={"tick": RULES.time_limit - 2})
    batch.step()
    assert not batch.terminated[0]
    batch.step()
    assert batch.terminated[0] and not batch.truncated[0]
    result = batch.result[0]
    assert SPEC.end_reasons[result["end_reason"]] == "time_limit"
    assert (result["winner"], result["ticks"]) == (winner, RULES.time_limit)


FALLING = {"x": (9.0, -9.0), "y": (-5.9, -5.9), "vy": (-9.0, -9.0), "support": (AIR, AIR)}


@pytest.mark.parametrize(("y", "winner"), [((-5.9, 3.0), 1), ((3.0, -5.9), 0), ((-5.9, -5.9), DRAW)])
def test_the_last_stock_decides(y, winner):
    """Losing the last stock loses the match; both in the same tick is a draw by knock-out."""
    batch = scene(**{**FALLING, "y": y}, stocks=(1, 1), damage=(10, 20))
    batch.step()
    assert batch.terminated[0]
    assert SPEC.end_reasons[batch.result["end_reason"][0]] == "knock_out"
    assert batch.result["winner"][0] == winner


def test_a_match_that_ends_within_a_step_ends_there():
    """With ticks of the step left over, the result counts the ticks played and the next match is untouched."""
    batch = scene(Options(ticks_per_step=30), **FALLING, stocks=(1, 1), match={"tick": 100})
    fresh = play(batch, "right")
    assert batch.result["ticks"][0] == 101
    assert sorted(fresh["x"].tolist()) == [-RULES.spawn_x, RULES.spawn_x] and (fresh["vx"] == 0).all()
    assert batch.record(0)["tick"] == 0


@pytest.mark.parametrize(("x", "y"), [(12.1, 1.0), (-12.1, 1.0), (9.0, 10.5), (0.0, 10.5), (9.0, -6.1), (0.0, -6.1)])
def test_each_blast_zone_takes_a_stock_and_the_fighter_returns(x, y):
    """Past any side of the field a stock goes; the fighter is away, then back, fresh and protected, on its own side."""
    worn = {"damage": (80, 0), "weapon": (1, 0), "weapon_left": (99, 0), "stun": (9, 0), "combo": (4, 0)}
    batch = scene(x=(x, 4.0), y=(y, 0), support=(AIR, GROUND), **worn)
    lost = run(batch)[0]
    assert batch.reward_terms[0, :, TERM["stock_lost"]].tolist() == [1, 0]
    assert (lost["respawn"], lost["stocks"], lost["self_destructs"]) == (RULES.respawn_ticks, 2, 1)
    assert not batch.mask[0, 0].any() and batch.mask[0, 1].any()
    press(batch, 0, "right", "light", "dodge")
    before = run(batch, RULES.respawn_ticks - 1)[0]
    assert before["respawn"] == 1 and before["attacks"] == before["dodges"] == 0
    press(batch, 0)
    back = run(batch)[0]
    assert (back["x"], back["y"], back["support"]) == (-RULES.respawn_x, RULES.respawn_y, AIR)
    assert [back[name] for name in ("respawn", "damage", "weapon", "weapon_left", "stun", "combo")] == [0] * 6
    assert RULES.protection_ticks - 1 <= back["invulnerable"] <= RULES.protection_ticks
    assert run(batch, 60)["support"][0] == GROUND


@pytest.mark.parametrize(("x", "y"), [(11.9, 1.0), (9.0, 9.9), (9.0, -5.5)])
def test_inside_the_blast_zones_nothing_is_lost(x, y):
    """Just within each limit the stock stays."""
    assert run(scene(x=(x, 4.0), y=(y, 0), support=(AIR, GROUND)))["stocks"][0] == RULES.stocks


# Walking


def test_walking_becomes_running_and_friction_stops_it():
    """Speed rises by 2 a tick to a walk's 5, after six ticks to a run's 7.5, and falls by 1.5 a tick when let go."""
    batch = scene(x=(-7.0, 4.0))
    press(batch, 0, "right")
    assert track(batch, "vx", 9) == approx([2, 4, 5, 5, 5, 5, 7, 7.5, 7.5])
    press(batch, 0)
    assert track(batch, "vx", 6) == approx([6, 4.5, 3, 1.5, 0, 0])
    press(batch, 0, "right")
    assert track(batch, "vx", 4)[-1] == approx(5), "a new walk is no run"


def test_left_and_right_cancel():
    """Both sides held is no side: the fighter stands, facing as before."""
    state = play(scene(), "left", "right", steps=10)[0]
    assert (state["vx"], state["facing"]) == (0.0, 1)


@pytest.mark.parametrize(("vx", "expected"), [(0.0, [0, 0, -2, -4]), (7.5, [6, 4.5, 2.5, 0.5])])
def test_turning_around_takes_two_ticks_without_acceleration(vx, expected):
    """The fighter faces the other way at once and only slows down in the two ticks of its turn."""
    batch = scene(vx=(vx, 0), run_ticks=(6, 0))
    press(batch, 0, "left")
    assert track(batch, "vx", 4) == approx(expected)
    assert run(batch)["facing"][0] == -1


@pytest.mark.parametrize(("vx", "expected"), [(6.0, [2.2, 1.4]), (-3.0, [-3.8, -4.6]), (0.0, [-0.8, -1.6])])
def test_turning_around_in_the_air_halves_the_speed_against_it(vx, expected):
    """6 becomes 3, less the 0.8 of a tick's drift; a speed that already goes that way is kept."""
    batch = airborne(vx=(vx, 0))
    press(batch, 0, "left")
    assert track(batch, "vx", 2) == approx(expected)


# Dashes and dodges


@pytest.mark.parametrize("way", [1, -1])
def test_a_dash_goes_ten_units_a_second_for_eight_ticks(way):
    """Dodge with the way ahead: 8 ticks at 10, then the run that it leads into; no dodge is counted."""
    key = "right" if way == 1 else "left"
    batch = scene(x=(-4.0 - 2 * way, 4.0), facing=(way, -1))
    press(batch, 0, "dodge", key)
    assert track(batch, "vx", 10) == approx([way * v for v in [10.0] * 8 + [8.0, 7.5]])
    state = run(batch)[0]
    assert (state["dashes"], state["dodges"], state["facing"]) == (1, 0, way)


@pytest.mark.parametrize("way", [1, -1])
@pytest.mark.parametrize("held", [True, False])
def test_a_back_dash_keeps_the_facing_and_lasts(way, held):
    """Dodge with the way behind: 7 ticks at 7 backward, facing the opponent, whether the way is held on or let go."""
    key = "left" if way == 1 else "right"
    batch = scene(facing=(way, -1))
    press(batch, 0, "dodge", key)
    speeds = track(batch, "vx", 1)
    press(batch, 0, *((key,) if held else ()))
    speeds += track(batch, "vx", RULES.back_dash_ticks - 1)
    state = batch.record(0)["fighters"][0]
    assert speeds == approx([-way * RULES.back_dash_speed] * RULES.back_dash_ticks)
    assert (state["facing"], state["dash"], state["dashes"], state["dodges"]) == (way, 0, 1, 0)
    assert run(batch)["facing"][0] == (-way if held else way)


def test_a_dash_cools_down_for_twenty_ticks():
    """No dash or dodge until the twentieth tick after it; the next fresh press then dashes."""
    batch = scene(x=(-7.0, 4.0))
    play(batch, "dodge", "right")
    press(batch, 0)
    assert track(batch, "dodge_cooldown", 19) == list(range(18, -1, -1))
    assert is_legal(batch, "dodge")
    assert play(batch, "dodge", "right")["dashes"][0] == 2


@pytest.mark.parametrize(
    ("keys", "speed"),
    [(("jump", "right"), 9.2), (("light",), 8.5), (("left",), 8.5), (("heavy",), 8.5)],
)
def test_a_dash_is_left_by_a_jump_an_attack_or_a_turn(keys, speed):
    """From 10 the drift of a jump takes 0.8 a tick, friction 1.5."""
    batch = scene()
    play(batch, "dodge", "right")
    state = play(batch, *keys)[0]
    assert (state["dash"], state["vx"]) == (0, approx(speed))


@pytest.mark.parametrize("start", [-7.0, -2.0])
def test_a_dash_off_an_edge_ends_in_the_air(start):
    """Past either edge of its ground the dasher falls, without the dash."""
    way = "left" if start == -7.0 else "right"
    batch = scene(x=(start, 4.0), facing=(-1 if way == "left" else 1, -1), match={"platform_y": RULES.platform_low})
    press(batch, 0, "dodge", way)
    while run(batch)["support"][0] == GROUND:
        pass
    assert run(batch)["dash"][0] == 0 and batch.record(0)["fighters"]["vy"][0] < 0


def test_a_dodge_on_the_ground_stands_and_cools_down():
    """Ten ticks in place; the next dodge 36 ticks after it began."""
    batch = scene(vx=(5.0, 0))
    press(batch, 0, "dodge")
    assert track(batch, "vx", RULES.dodge_ticks) == [0.0] * RULES.dodge_ticks
    state = batch.record(0)["fighters"][0]
    assert (state["x"], state["dodge"], state["dodges"], state["dashes"]) == (-4.0, 0, 1, 0)
    press(batch, 0)
    run(batch, RULES.dodge_cooldown_ground - RULES.dodge_ticks - 1)
    assert not is_legal(batch, "dodge")
    run(batch)
    assert is_legal(batch, "dodge")


@pytest.mark.parametrize(("keys", "way"), [((), 0), (("right",), 1), (("left",), -1)])
def test_a_dodge_in_the_air_flies_level(keys, way):
    """Ten ticks at 6.5 the way held at its start, without gravity, facing kept; cooldown 70."""
    batch = airborne(vy=(-8.0, 0), vx=(3.0, 0))
    play(batch, "dodge", *keys)
    state = play(batch, "left", "down", steps=RULES.dodge_ticks - 1)[0]
    assert (state["x"], state["y"]) == (approx(-4.0 + way * 6.5 / 3), 5.0)
    assert (state["vy"], state["dodge"], state["facing"], state["dodges"]) == (0.0, 0, 1, 1)
    assert state["dodge_cooldown"] == RULES.dodge_cooldown_air - RULES.dodge_ticks


@pytest.mark.parametrize("ticks", [0, 5])
def test_no_hit_lands_in_a_dodge(ticks):
    """A strike that is active in the ten ticks of a dodge, begun before it or later, misses."""
    batch = scene(**CLOSE)
    press(batch, 0, *(("light",) if ticks == 0 else ()))
    press(batch, 1, "dodge")
    run(batch, ticks)
    press(batch, 0, "light")
    assert run(batch, RULES.dodge_ticks - ticks)["damage"][1] == 0


# Jumps, falls, air control


def test_jumps_and_air_jumps_run_out_until_landing():
    """One jump from the ground and two in the air, each a fresh press; landing gives them back."""
    batch = scene()
    legal, speeds = [], []
    for _ in range(5):
        legal.append(is_legal(batch, "jump"))
        speeds.append(play(batch, "jump")["vy"][0])
        play(batch, steps=4)
    assert legal == [True] * 3 + [False] * 2
    assert speeds[:3] == approx([RULES.jump_speed - GRAVITY] + [RULES.air_jump_speed - GRAVITY] * 2)
    assert run(batch, 60)["jumps_left"][0] == RULES.air_jumps
    assert is_legal(batch, "jump")


def test_a_held_jump_is_no_fresh_press():
    """Holding jump jumps once, and its mask entry is False until it is let go."""
    batch = scene()
    assert play(batch, "jump", steps=12)["jumps_left"][0] == RULES.air_jumps
    assert not is_legal(batch, "jump")
    play(batch)
    assert is_legal(batch, "jump")


@pytest.mark.parametrize(
    ("vy", "keys", "more", "expected"),
    [
        (0.0, (), {}, [-GRAVITY, -2 * GRAVITY]),
        (0.0, ("down",), {}, [-GRAVITY - 0.8, -2 * GRAVITY - 1.6]),
        (5.0, ("down",), {}, [5 - GRAVITY, 5 - 2 * GRAVITY]),
        (-10.9, (), {}, [-11.0, -11.0]),
        (-16.9, ("down",), {}, [-17.0, -17.0]),
        (-16.9, (), {}, [-11.0, -11.0]),
        (-16.9, ("down",), {"stun": (9, 0)}, [-17.0, -17.0]),
        (-9.0, ("down",), {"stun": (9, 0)}, [-9 - GRAVITY, -9 - 2 * GRAVITY]),
        (-16.9, (), {"move": (IDS["unarmed.ground_pound"], -1), "move_tick": (9, 0)}, [-17.0, -17.0]),
    ],
)
def test_falling(vy, keys, more, expected):
    """Gravity takes 26/30 a tick, `down` 24/30 more in a fall; the limit is 11, or 17 if fast, stunned or diving."""
    batch = airborne(vy=(vy, 0), **more)
    press(batch, 0, *keys)
    assert track(batch, "vy", 2) == approx(expected)


@pytest.mark.parametrize(
    ("vx", "keys", "stun", "expected"),
    [
        (0.0, ("right",), 0, [0.8, 1.6]),
        (5.5, ("right",), 0, [6.0, 6.0]),
        (9.0, ("right",), 0, [8.2, 7.4]),
        (1.0, (), 0, [0.8, 0.6]),
        (1.0, ("right",), 9, [1 - 7 / 30, 1 - 14 / 30]),
    ],
)
def test_drifting_in_the_air(vx, keys, stun, expected):
    """0.8 a tick toward 6, a drag of 0.2 without keys, of 7/30 in stun, which takes no keys."""
    batch = airborne(vx=(vx, 0), stun=(stun, 0))
    press(batch, 0, *keys)
    assert track(batch, "vx", 2) == approx(expected)


def test_stun_slides_further_on_the_ground():
    """A stunned fighter slows down by 0.5 a tick, and no key moves it."""
    batch = scene(vx=(5.0, 0), stun=(9, 0))
    press(batch, 0, "right", "jump", "light", "dodge")
    assert track(batch, "vx", 3) == approx([4.5, 4.0, 3.5])


@pytest.mark.parametrize(("stun", "vy", "after"), [(20, -9.0, 0.6 * (9 + GRAVITY)), (20, -4.0, 0.0), (0, -9.0, 0.0)])
def test_a_bounce_lifts_the_stunned(stun, vy, after):
    """A stunned fighter that meets the ground faster than 5 leaves it with 0.6 of its speed; others land."""
    state = run(airborne(y=(0.01, 0), vy=(vy, 0), stun=(stun, 0)))[0]
    assert (state["y"], state["vy"]) == (0.0, approx(after))
    assert state["support"] == (AIR if after else GROUND)


# The stage


@pytest.mark.parametrize(
    ("x", "vx", "wall"), [(7.5, -9.0, OUTER), (1.1, 9.0, INNER), (-7.5, 9.0, -OUTER), (-1.1, -9.0, -INNER)]
)
def test_walls_push_out(x, vx, wall):
    """Below the top, a fighter that runs into either side of either ground stays outside it, and falls on along it."""
    batch = scene(x=(x, 4.0), y=(-1.0, 0), vx=(vx, 0), support=(AIR, GROUND), match={"platform_y": RULES.platform_low})
    press(batch, 0, "right" if vx > 0 else "left")
    heights = []
    for _ in range(5):
        state = run(batch)[0]
        assert (state["x"], state["vx"], state["support"]) == (wall, 0.0, AIR)
        heights.append(state["y"])
    assert (np.diff([-1.0, *heights]) < 0).all()


@pytest.mark.parametrize("x", [INNER + 0.05, 0.05 - OUTER])
def test_a_corner_met_from_above_carries(x):
    """Feet at or above the top land, however near the edge."""
    state = run(scene(x=(x, 4.0), y=(0.1, 0), vy=(-9.0, 0), support=(AIR, GROUND)))[0]
    assert (state["support"], state["y"], state["vy"]) == (GROUND, 0.0, 0.0)


@pytest.mark.parametrize(("x", "key"), [(7.0, "right"), (-7.0, "left"), (2.0, "left"), (-2.0, "right")])
def test_walking_off_each_edge_falls(x, key):
    """A walker leaves its ground at an outer edge and at the pit's, and falls from height 0."""
    batch = scene(x=(x, 4.0 if x < 0 else -4.0), match={"platform_y": RULES.platform_low})
    press(batch, 0, key)
    while (state := run(batch)[0])["support"] == GROUND:
        pass
    assert state["y"] == 0.0 and not INNER <= abs(state["x"]) <= OUTER
    press(batch, 0)
    below = run(batch, 4)[0]
    assert below["y"] < -0.1 and below["support"] == AIR


def test_outside_and_without_a_jump_the_stock_is_lost():
    """A walker off the outer edge that holds back toward the stage slides down its wall and destroys itself."""
    batch = scene(x=(7.0, 0.0))
    press(batch, 0, "right")
    while run(batch)["support"][0] == GROUND:
        pass
    press(batch, 0, "left")
    met_wall = False
    while not (state := run(batch)[0])["respawn"]:
        assert state["y"] < 0 and state["x"] >= OUTER
        met_wall |= state["x"] == OUTER
    assert met_wall and (state["stocks"], state["self_destructs"]) == (2, 1)


def test_the_platform_rises_and_sinks_between_its_ends():
    """1.5 units a second, turning at its ends at once; whoever stands on it goes with it and stays."""
    batch = scene(x=(0.0, 4.0), y=(-1.0, 0), support=(PLATFORM, GROUND))
    heights = []
    for _ in range(220):
        state = run(batch)[0]
        heights.append(float(batch.record(0)["platform_y"]))
        assert (state["y"], state["support"], state["vy"]) == (heights[-1], PLATFORM, 0.0)
    assert (min(heights), max(heights)) == (RULES.platform_low, RULES.platform_high)
    assert np.abs(np.diff(heights)).max() == approx(1.5 * DT)
    turns = np.flatnonzero(np.diff(np.sign(np.diff(heights))))
    first, span = ((RULES.platform_high - low) / 0.05 for low in (-1.0, RULES.platform_low))
    assert turns.tolist()[:3] == approx([first - 2, first - 2 + span, first - 2 + 2 * span])
    assert state["air_ticks"] == 0


def test_the_platform_is_landed_on_from_above():
    """Feet that sink past its top stand on it; jumps and the recovery come back."""
    spent = {"jumps_left": (0, 2), "recovery_left": (0, 1)}
    batch = scene(x=(0.5, 4.0), y=(0.4, 0), vy=(-9.0, 0), support=(AIR, GROUND), match={"platform_y": 0.1}, **spent)
    state = run(batch)[0]
    assert (state["support"], state["y"], state["vy"]) == (PLATFORM, approx(0.15), 0.0)
    assert (state["jumps_left"], state["recovery_left"]) == (RULES.air_jumps, 1)


def test_the_platform_is_passed_from_below():
    """A riser goes through it, and lands on it on the way down."""
    batch = scene(x=(0.5, 4.0), y=(-0.5, 0), vy=(9.0, 0), support=(AIR, GROUND), match={"platform_y": 0.0})
    was_above = False
    while (state := run(batch)[0])["support"] == AIR:
        was_above |= state["y"] > batch.record(0)["platform_y"]
    assert was_above and state["support"] == PLATFORM


@pytest.mark.parametrize("keys", [(), ("down",)])
def test_the_platform_catches_who_falls_on_it(keys):
    """With or without down held: only a fresh press on the platform lets go of it."""
    batch = scene(x=(0.5, 4.0), y=(0.3, 0), vy=(-1.0, 0), support=(AIR, GROUND), match={"platform_y": 0.1})
    assert play(batch, *keys, steps=8)["support"][0] == PLATFORM


@pytest.mark.parametrize("way", [1.0, -1.0])
def test_down_drops_off_the_platform(way):
    """A tick of it is enough, whether the platform rises or sinks: it does not catch again."""
    batch = scene(x=(0.0, 4.0), y=(-1.0, 0), support=(PLATFORM, GROUND), match={"platform_direction": way})
    low = batch.record(0)["platform_y"]
    state = play(batch, "down")[0]
    assert state["support"] == AIR and state["y"] < low - RULES.drop_depth
    state = play(batch, steps=10)[0]
    assert state["support"] == AIR and state["y"] < -2.5


def test_a_jump_leaves_the_platform():
    """From the platform as from a ground, with its air jumps still there."""
    state = play(scene(x=(0.0, 4.0), y=(-1.0, 0), support=(PLATFORM, GROUND)), "jump")[0]
    assert (state["support"], state["vy"], state["jumps_left"]) == (AIR, approx(RULES.jump_speed - GRAVITY), 2)


def test_the_pit_is_left_by_the_platform():
    """Walking at the wall rides up along it, and steps onto the ground once the platform is above it."""
    batch = scene(x=(0.0, -4.0), y=(-1.0, 0), support=(PLATFORM, GROUND))
    press(batch, 0, "right")
    for _ in range(60):
        state = run(batch)[0]
        if state["support"] == GROUND:
            break
        assert state["y"] >= 0.0 or (state["support"] == PLATFORM and state["x"] <= INNER)
    assert state["support"] == GROUND and state["x"] > INNER


@pytest.mark.parametrize(("platform_y", "falls"), [(-0.02, 0), (-1.0, 5)])
def test_a_ground_is_left_onto_the_platform(platform_y, falls):
    """Walking off into the pit lands on the platform below; on one just passing the top in the same tick."""
    batch = scene(x=(INNER + 0.05, -4.0), vx=(-5.0, 0), facing=(-1, 1), match={"platform_y": platform_y})
    press(batch, 0, "left")
    ticks = 0
    while run(batch)["support"][0] == AIR:
        ticks += 1
    state = batch.record(0)["fighters"][0]
    assert state["support"] == PLATFORM and state["y"] == batch.record(0)["platform_y"]
    assert ticks >= falls and (falls or ticks == 0)


def test_the_wall_of_the_pit_leads_onto_the_platform():
    """A fighter pushed out of a wall, exactly at the pit's edge, is caught by the platform all the same."""
    batch = scene(x=(INNER - 0.01, -4.0), y=(-0.5, 0), vx=(5.0, 0), support=(AIR, GROUND), match={"platform_y": -1.5})
    press(batch, 0, "right")
    for _ in range(20):
        state = run(batch)[0]
    assert (state["support"], state["x"]) == (PLATFORM, INNER)


# Protection


def test_protection_holds_then_runs_out():
    """A protected fighter takes no hit until its ticks are over."""
    batch = scene(**CLOSE, invulnerable=(0, 20))
    press(batch, 0, "light")
    assert track(batch, "damage", 20, seat=1) == [0] * 20
    assert run(batch, 20)["damage"][1] > 0


def test_protection_ends_with_an_attack():
    """A protected fighter that attacks can be hit at once; one that moves, dodges or taunts stays protected."""
    for keys in (("right", "jump"), ("dodge",), ("right", "dodge"), ("taunt",)):
        assert play(scene(invulnerable=(0, 60)), *keys, seat=1)["invulnerable"][1] == 59
    batch = scene(**CLOSE, invulnerable=(0, 60))
    press(batch, 0, "light")
    assert play(batch, "heavy", "up", seat=1)["invulnerable"][1] == 0
    assert run(batch, 4)["damage"][1] > 0


# Masks


@pytest.mark.parametrize("ticks_per_step", [1, 3])
def test_masked_keys_do_nothing(ticks_per_step):
    """Pressing keys whose mask is False changes no bit of the step, but that a fresh-only key counts as held."""
    options = Options(ticks_per_step=ticks_per_step, time_limit_seconds=20.0)
    rows = 32
    batch, masked = make(rows, 1, options), make(rows, 1, options)
    batch.reset(1)
    rng = np.random.default_rng(1)
    for step in range(400):
        if step % 25 == 0:
            records = records_of(batch)
            stir(records, rng)
            restore(batch, records)
        batch.actions[:] = random_keys(rng, rows)
        masked.set_state(batch.get_state())
        masked.actions[:] = batch.actions & batch.mask
        batch.step()
        masked.step()
        after = [records_of(b) for b in (batch, masked)]
        for records in after:
            records["fighters"]["keys"] &= ~bits_of(*FRESH)
        assert after[0].tobytes() == after[1].tobytes()
        assert batch.reward_terms.tobytes() == masked.reward_terms.tobytes()


ON_PLATFORM = {"x": (0.0, 4.0), "y": (-1.0, 0), "support": (PLATFORM, GROUND)}
IN_AIR = {"y": (5.0, 0), "vy": (-3.0, 0), "support": (AIR, GROUND)}
ITEM = ((-4.0, 450, 1, 100), (0, 0, 0, 0))
CHARGING = {"move": (IDS["unarmed.side_heavy"], -1), "move_tick": (9, 0), "keys": (bits_of("heavy"), 0)}


@pytest.mark.parametrize(
    ("key", "beside", "fields"),
    [
        ("up", ("light", "right"), {}),
        ("left", (), {}),
        ("left", (), IN_AIR),
        ("left", (), {**IN_AIR, "move": (IDS["unarmed.side_air"], -1)}),
        ("down", (), ON_PLATFORM),
        ("down", (), IN_AIR),
        ("down", ("heavy",), {}),
        ("right", (), {}),
        ("jump", (), {}),
        ("jump", (), IN_AIR),
        ("jump", (), ON_PLATFORM),
        ("pickup", (), {"items": ITEM}),
        ("pickup", (), {"weapon": (2, 0), "weapon_left": (99, 0)}),
        ("pickup", (), {**IN_AIR, "weapon": (2, 0), "weapon_left": (99, 0)}),
        ("dodge", (), {}),
        ("dodge", (), IN_AIR),
        ("light", (), {}),
        ("heavy", (), IN_AIR),
        ("heavy", (), CHARGING),
        ("taunt", (), {}),
    ],
)
def test_each_legal_key_can_do_something(key, beside, fields):
    """In a suitable scene each key that the mask allows changes more than the held keys."""
    states = []
    for keys in ((*beside, key), beside):
        batch = scene(**fields)
        assert is_legal(batch, key)
        play(batch, *keys)
        records = records_of(batch)
        records["fighters"]["keys"] = 0
        states.append(records.tobytes())
    assert states[0] != states[1]


@pytest.mark.parametrize(
    ("fields", "legal"),
    [
        ({}, {"up", "left", "down", "right", "jump", "dodge", "light", "heavy", "taunt"}),
        ({"items": ITEM}, set(KEYS)),
        ({"items": ITEM, "keys": (bits_of(*FRESH), 0)}, {"up", "left", "down", "right", "light", "heavy"}),
        ({"stun": (9, 0)}, set()),
        ({**IN_AIR, "stun": (9, 0)}, set()),
        ({**IN_AIR, "jumps_left": (0, 2)}, {"up", "left", "down", "right", "dodge", "light", "heavy"}),
        ({"dodge": (9, 0)}, set()),
        ({"dodge_cooldown": (9, 0)}, set(KEYS) - {"dodge", "pickup"}),
        ({"respawn": (9, 0)}, set()),
        ({"move": (IDS["unarmed.side_light"], -1)}, set()),
        ({**IN_AIR, "move": (IDS["unarmed.side_air"], -1)}, {"left", "down", "right"}),
        (CHARGING, {"heavy"}),
        ({**CHARGING, "charge": (RULES.max_charge, 0)}, set()),
    ],
)
def test_the_mask_of_each_state(fields, legal):
    """What can do nothing is masked: all while absent or busy, fresh ones while held, jumps and dodges used up."""
    batch = scene(**fields)
    assert {key for key in KEYS if is_legal(batch, key)} == legal


def test_a_step_of_many_ticks_allows_what_a_later_tick_may_use():
    """With two ticks of stun left, a step of three allows the keys that act while held, and no fresh-only one."""
    batch = scene(Options(ticks_per_step=3), **{**APART, "stun": (2, 0)})
    assert {key for key in KEYS if is_legal(batch, key)} == {"up", "left", "down", "right", "light", "heavy"}
