"""Brawl's rules, scene by scene."""

from __future__ import annotations

import numpy as np
import pytest

from league.envs.brawl.env import FIELDS, KEYS, SPEC, Options, make, options_hash
from league.envs.brawl.moves import MOVES
from league.envs.brawl.rules import Rules
from league.envs.brawl.state import pack_state, unpack_state
from league.types import DRAW

RULES = Rules()
TICK = Options(ticks_per_step=1)
FIELD = {name: i for i, (name, *_) in enumerate(FIELDS)}
STOCK_LOST = SPEC.reward_terms.index("stock_lost")
HIT = SPEC.reward_terms.index("hit")


def edit(batch, options=TICK, tick=None, **fields):
    """Sets fields of both fighters of a one-match batch."""
    records = unpack_state(batch.get_state(), 1, options_hash(options))
    for name, values in fields.items():
        records["fighters"][name][0] = values
    if tick is not None:
        records["tick"] = tick
    batch.set_state(pack_state(records, options_hash(options)))
    return batch


def scene(options=TICK, **fields):
    return edit(make(1, 1, options), options, **fields)


def fighters(batch, options=TICK):
    return unpack_state(batch.get_state(), 1, options_hash(options))["fighters"][0]


def press(batch, seat, *keys):
    batch.actions[0, seat] = [key in keys for key in KEYS]


def run(batch, ticks):
    for _ in range(ticks):
        batch.step()
    return fighters(batch)


CLOSE = {"x": (-0.5, 0.5), "facing": (1, -1), "on_ground": (1, 1), "y": (0, 0)}


@pytest.mark.parametrize(
    ("stocks", "damage", "winner"),
    [((2, 1), (90, 0), 0), ((1, 2), (0, 90), 1), ((2, 2), (5, 6), 0), ((2, 2), (6, 5), 1), ((1, 1), (7, 7), DRAW)],
)
def test_the_clock_decides(stocks, damage, winner):
    """At the time limit more stocks win, then less damage, then it is a draw; it is an end, not a cut."""
    batch = scene(stocks=stocks, damage=damage, tick=RULES.time_limit - 2)
    batch.step()
    assert not batch.terminated[0]
    batch.step()
    assert batch.terminated[0] and not batch.truncated[0]
    result = batch.result[0]
    assert SPEC.end_reasons[result["end_reason"]] == "time_limit"
    assert (result["winner"], result["ticks"]) == (winner, RULES.time_limit)


FALLING = {"y": (-6.9, -6.9), "x": (9.0, -9.0), "vy": (-9.0, -9.0), "on_ground": (0, 0)}


@pytest.mark.parametrize(("y", "winner"), [((-6.9, 3.0), 1), ((3.0, -6.9), 0), ((-6.9, -6.9), DRAW)])
def test_the_last_stock_decides(y, winner):
    """Losing the last stock loses the match; both in the same tick is a draw by knock-out."""
    batch = scene(**{**FALLING, "y": y}, stocks=(1, 1), damage=(10, 20))
    batch.step()
    assert batch.terminated[0]
    assert SPEC.end_reasons[batch.result["end_reason"][0]] == "knock_out"
    assert batch.result["winner"][0] == winner


def test_a_match_that_ends_within_a_step_ends_there():
    """With ticks of the step left over, the result counts the ticks played and the next match is untouched."""
    options = Options(ticks_per_step=30)
    batch = scene(options, **FALLING, stocks=(1, 1), tick=100)
    press(batch, 0, "right")
    batch.step()
    assert batch.result["ticks"][0] == 101
    fresh = fighters(batch, options)
    assert sorted(fresh["x"].tolist()) == [-RULES.spawn_x, RULES.spawn_x] and (fresh["vx"] == 0).all()


@pytest.mark.parametrize(
    ("x", "y"), [((14.1, 0), (1, 0)), ((-14.1, 0), (1, 0)), ((9, 0), (12.5, 0)), ((9, 0), (-7.5, 0))]
)
def test_each_blast_zone_takes_a_stock_and_the_fighter_returns(x, y):
    """Past any side of the field a stock goes; the fighter is away, then back, fresh and protected, on its own side."""
    batch = scene(x=x, y=y, on_ground=(0, 1), damage=(80, 0), facing=(1, 1))
    run(batch, 1)
    assert batch.reward_terms[0, :, STOCK_LOST].tolist() == [1, 0]
    assert fighters(batch)["respawn"][0] == RULES.respawn_ticks
    assert not batch.mask[0, 0].any() and batch.mask[0, 1].any()
    before = run(batch, RULES.respawn_ticks - 1)[0]
    assert before["respawn"] == 1
    back = run(batch, 1)[0]
    assert (back["respawn"], back["damage"], back["stocks"]) == (0, 0, 2)
    assert (back["x"], back["y"]) == (back["side"] * RULES.respawn_x, RULES.respawn_y)
    assert back["invulnerable"] > RULES.protection_ticks - 2


def test_protection_holds_then_runs_out():
    """A protected fighter takes no hit until its ticks are over."""
    batch = scene(**CLOSE, invulnerable=(0, 20))
    press(batch, 0, "light")
    for _ in range(20):
        assert run(batch, 1)["damage"][1] == 0
    assert run(batch, 20)["damage"][1] > 0


def test_protection_ends_with_an_attack():
    """A protected fighter that attacks can be hit at once; one that walks or jumps cannot."""
    batch = scene(**CLOSE, invulnerable=(0, 60))
    press(batch, 1, "right", "jump")
    assert run(batch, 1)["invulnerable"][1] == 59
    batch = scene(**CLOSE, invulnerable=(0, 60))
    press(batch, 1, "heavy", "up")
    assert run(batch, 1)["invulnerable"][1] == 0
    press(batch, 0, "light")
    assert run(batch, 5)["damage"][1] > 0


def test_hits_trade():
    """Two equal blows that meet in the same tick both land; neither seat goes first."""
    batch = scene(**CLOSE)
    press(batch, 0, "light")
    press(batch, 1, "light")
    after = run(batch, MOVES["neutral_light"].startup + 1)
    assert (after["damage"] == MOVES["neutral_light"].damage).all()
    assert after["vx"][0] == -after["vx"][1] < 0 and after["vy"][0] == after["vy"][1] > 0


@pytest.mark.parametrize(
    ("name", "keys", "ground"),
    [
        ("neutral_light", ("light",), 1),
        ("side_light", ("light", "right"), 1),
        ("down_light", ("light", "down", "right"), 1),
        ("neutral_heavy", ("heavy", "light"), 1),
        ("side_heavy", ("heavy", "right"), 1),
        ("down_heavy", ("heavy", "down"), 1),
        ("neutral_air", ("light", "right"), 0),
        ("down_air", ("light", "down"), 0),
        ("recovery", ("heavy", "right"), 0),
    ],
)
def test_each_move_starts_from_its_keys_and_takes_its_ticks(name, keys, ground):
    """The keys start the move of the table, which leaves no control until start-up, active and recovery are over."""
    batch = scene(y=(0 if ground else 5, 0), on_ground=(ground, 1), vy=(0 if ground else 8, 0))
    press(batch, 0, *keys)
    move = MOVES[name]
    first = run(batch, 1)[0]
    assert first["move"] == list(MOVES).index(name)
    press(batch, 0)
    for _ in range(move.startup + move.active + move.recovery - 2):
        state = run(batch, 1)[0]
        assert state["move"] == first["move"] and not batch.mask[0, 0, KEYS.index("light")]
    assert run(batch, 1)[0]["move"] == -1
    assert batch.mask[0, 0, KEYS.index("light")]


def test_landing_cuts_an_air_move_to_its_recovery():
    """A ground pound dives, and once it meets the stage it leaves no control for its recovery's ticks."""
    batch = scene(y=(6, 0), on_ground=(0, 1))
    press(batch, 0, "heavy", "down")
    move = MOVES["ground_pound"]
    ticks = 0
    while not run(batch, 1)["on_ground"][0]:
        ticks += 1
    assert move.startup < ticks < move.startup + move.active
    press(batch, 0)
    assert run(batch, move.recovery - 2)["move"][0] == list(MOVES).index("ground_pound")
    assert run(batch, 1)["move"][0] == -1


def test_recovery_is_once_an_airtime():
    """The upward strike lifts once; it is back after standing on the stage."""
    batch = scene(y=(5, 0), on_ground=(0, 1))
    press(batch, 0, "heavy")
    assert run(batch, 6)[0]["vy"] > 8.0
    state = run(batch, 60)[0]
    assert state["attacks"] == 1 or state["on_ground"]
    press(batch, 0)
    assert run(batch, 60)[0]["recovery_left"] == 1


def knocked(damage, keys):
    batch = scene(**CLOSE, damage=(0, damage))
    press(batch, 0, *keys)
    while batch.reward_terms[0, 0, HIT] == 0:
        batch.step()
    return fighters(batch)[1]


def test_knockback_and_stun_grow_with_damage():
    """The same blow sends a worn fighter further and stuns it longer, by the table's numbers."""
    move = MOVES["side_heavy"]
    keys = ("heavy", "right")
    fresh, worn = knocked(0, keys), knocked(100, keys)
    for target, damage in ((fresh, 0), (worn, 100)):
        speed = move.knockback + move.growth * (damage + move.damage) / 100
        assert target["vx"] == pytest.approx(move.angle_x * speed)
        assert target["vy"] == pytest.approx(move.angle_y * speed)
        assert target["stun"] == move.stun + int(speed * RULES.stun_per_speed)
    assert worn["stun"] > fresh["stun"]


def test_a_move_hits_once_and_stun_takes_control():
    """One swing hits once though it stays active, and the one hit can only hold directions until the stun is over."""
    batch = scene(**CLOSE)
    press(batch, 0, "light")
    assert run(batch, 4)["hits"][0] == 1
    press(batch, 0)
    press(batch, 1, "jump", "light", "heavy", "dodge")
    state = run(batch, 5)
    assert state["hits"][0] == 1 and state["stun"][1] > 0
    assert batch.mask[0, 1].tolist() == [key in ("up", "left", "down", "right") for key in KEYS]
    assert state["attacks"][1] == state["dodges"][1] == 0 and state["jumps_left"][1] == RULES.air_jumps


def test_jumps_and_air_jumps_run_out_until_landing():
    """One jump from the ground and two in the air, each a fresh press; landing gives them back."""
    batch = scene()
    jumps = []
    for _ in range(8):
        press(batch, 0, "jump")
        before = batch.mask[0, 0, KEYS.index("jump")]
        run(batch, 1)
        jumps.append(bool(before))
        press(batch, 0)
        run(batch, 4)
    assert jumps == [True] * 3 + [False] * 5
    assert run(batch, 60)["jumps_left"][0] == RULES.air_jumps
    assert batch.mask[0, 0, KEYS.index("jump")]


def test_a_held_jump_is_no_fresh_press():
    """Holding jump jumps once, and its mask entry is False until it is let go."""
    batch = scene()
    press(batch, 0, "jump")
    state = run(batch, 12)
    assert state["jumps_left"][0] == RULES.air_jumps
    assert not batch.mask[0, 0, KEYS.index("jump")]
    press(batch, 0)
    run(batch, 1)
    assert batch.mask[0, 0, KEYS.index("jump")]


def test_walking_off_the_edge_falls_past_the_wall():
    """A walker leaves the stage at its edge, falls beside its wall without entering it, and loses a stock."""
    batch = scene(x=(7.0, 0.0))
    press(batch, 0, "right")
    while run(batch, 1)["on_ground"][0]:
        pass
    press(batch, 0, "left")
    met_wall = False
    while not (state := run(batch, 1)[0])["respawn"]:
        assert state["y"] < 0 and state["x"] >= RULES.edge
        met_wall |= state["x"] == RULES.edge and state["vx"] == 0
    assert met_wall and state["stocks"] == 2 and state["self_destructs"] == 1


def test_left_and_right_cancel():
    """Both sides held is no side: the fighter stands."""
    batch = scene()
    press(batch, 0, "left", "right")
    assert run(batch, 10)["vx"][0] == 0.0


def test_running_and_fast_fall_are_faster():
    """A direction held on becomes a run, and down speeds up a fall."""
    batch = scene(x=(-6.0, 6.0))
    press(batch, 0, "right")
    assert run(batch, 4)["vx"][0] == RULES.walk_speed
    assert run(batch, 10)["vx"][0] == RULES.run_speed
    heights = []
    for keys in ((), ("down",)):
        batch = scene(y=(9.0, 0.0), on_ground=(0, 1))
        press(batch, 0, *keys)
        heights.append(run(batch, 12)["y"][0])
    assert heights[1] < heights[0] - 1.0


def test_a_dodge_is_safe_and_then_cools_down():
    """No hit lands in a dodge's ticks; the next dodge waits for its cooldown."""
    batch = scene(**CLOSE)
    press(batch, 0, "light")
    press(batch, 1, "dodge")
    state = run(batch, RULES.dodge_ticks)
    assert state["damage"][1] == 0 and state["dodges"][1] == 1
    press(batch, 0)
    press(batch, 1)
    run(batch, RULES.dodge_cooldown_ground - RULES.dodge_ticks - 1)
    assert not batch.mask[0, 1, KEYS.index("dodge")]
    edit(batch, stun=(0, 0), move=(-1, -1), on_ground=(1, 1), y=(0, 0))
    run(batch, 1)
    assert batch.mask[0, 1, KEYS.index("dodge")]


def test_a_bounce_lifts_the_stunned():
    """A stunned fighter that meets the ground fast bounces; one with control lands."""
    for stun, lands in ((20, False), (0, True)):
        state = run(scene(y=(0.1, 0), vy=(-9, 0), on_ground=(0, 1), stun=(stun, 0)), 1)[0]
        assert bool(state["on_ground"]) is lands
        assert (state["vy"] == 0) if lands else (state["vy"] > 0)


@pytest.mark.parametrize("ticks_per_step", [1, 3])
def test_masked_keys_do_nothing(ticks_per_step):
    """Pressing keys whose mask is False changes no bit of the step, but that a jump, dodge or taunt counts as held."""
    options = Options(ticks_per_step=ticks_per_step, time_limit_seconds=20.0)
    rows = 32
    batch, masked = make(rows, 1, options), make(rows, 1, options)
    batch.reset(1)
    rng = np.random.default_rng(1)
    fresh_only = sum(1 << KEYS.index(key) for key in ("jump", "dodge", "taunt"))
    for _ in range(400):
        assert not batch.mask[:, :, KEYS.index("pickup")].any()
        batch.actions[:] = rng.random(batch.actions.shape) < 0.5
        masked.set_state(batch.get_state())
        masked.actions[:] = batch.actions & batch.mask
        batch.step()
        masked.step()
        after = [unpack_state(b.get_state(), rows, options_hash(options)) for b in (batch, masked)]
        for records in after:
            records["fighters"]["keys"] &= ~fresh_only
        assert after[0].tobytes() == after[1].tobytes()
        assert batch.reward_terms.tobytes() == masked.reward_terms.tobytes()


def test_each_legal_key_can_do_something():
    """From a fresh stand, each unmasked key alone changes more than the held keys and the clock."""
    idle = scene()
    run(idle, 2)
    for key in KEYS:
        batch = scene()
        legal = batch.mask[0, 0, KEYS.index(key)]
        press(batch, 0, key)
        run(batch, 1)
        press(batch, 0)
        run(batch, 1)
        if key in ("up", "down"):
            continue
        assert (fighters(batch)[0].tobytes() != fighters(idle)[0].tobytes()) == bool(legal), key
