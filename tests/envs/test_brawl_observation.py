"""Brawl's observation: its ranges, and what can be read back from it."""

from __future__ import annotations

import numpy as np
import pytest

from league.envs.brawl.env import FIELDS, KEYS, Options, make
from league.envs.brawl.moves import NAMES, NONE, STRIKES
from league.envs.brawl.rules import BOTS
from league.envs.brawl.state import AIR, GROUND, PLATFORM
from tests.helpers.brawl_scenes import (
    RULES,
    airborne,
    bits_of,
    edit,
    random_keys,
    records_of,
    restore,
    run,
    scene,
    stir,
)

FIELD = {name: i for i, (name, *_) in enumerate(FIELDS)}
HALF = len(FIELDS)
LOW, HIGH = np.array([field[3] for field in FIELDS], np.float32).T
LIMIT = 12.0


def fuzzed(rows=120, steps=500, ticks_per_step=3):
    """Batches of lively play after each of its steps: every bot, random keys, states stirred now and then."""
    rng = np.random.default_rng(4)
    batch = make(rows, 1, Options(time_limit_seconds=LIMIT, ticks_per_step=ticks_per_step))
    batch.reset(4)
    batch.controllers[: rows // 2, 1] = np.arange(rows // 2) % len(BOTS)
    batch.controllers[: rows // 4, 0] = np.arange(rows // 4) % (len(BOTS) - 1)
    for step in range(steps):
        if step % 25 == 0:
            records = records_of(batch)
            stir(records, rng)
            restore(batch, records)
        batch.actions[:] = random_keys(rng, rows)
        batch.step()
        yield batch


def test_observations_are_finite_and_in_range():
    """Each field keeps to the range of its table and takes many values; a seat's second half is the other's first."""
    least, most = np.ones(HALF), -np.ones(HALF)
    for batch in fuzzed():
        for shown in (batch.obs, batch.final_obs):
            assert np.isfinite(shown).all()
            own = shown[:, :, :HALF]
            assert ((own >= LOW) & (own <= HIGH)).all()
            np.testing.assert_array_equal(shown[:, :, HALF:], own[:, ::-1])
        own = batch.obs[:, :, :HALF]
        least, most = np.minimum(least, own.min((0, 1))), np.maximum(most, own.max((0, 1)))
    spread = (most - least) / (HIGH - LOW)
    assert (spread > 0.4).all(), {FIELDS[i][0]: spread[i] for i in np.flatnonzero(spread <= 0.4)}


def test_any_possible_state_is_in_range():
    """States drawn at random within what play can reach show every field in its table's range."""
    rng = np.random.default_rng(6)
    rows = 2000
    batch = make(rows, 1, Options())
    records = records_of(batch)
    fighters = records["fighters"]
    shape = fighters.shape
    for name, size in (("x", 13.0), ("y", 11.0), ("vx", 200.0), ("vy", 200.0)):
        fighters[name] = rng.uniform(-size, size, shape)
    fighters["damage"] = rng.uniform(0, 2000, shape)
    for name, most in {
        "support": 2, "stocks": 9, "jumps_left": 2, "recovery_left": 1, "stun": 60, "invulnerable": 300, "dodge": 10,
        "dash": 8, "dodge_cooldown": 70, "turn": 2, "respawn": 300, "move_hit": 1, "landed": 1, "charge": 24,
        "combo": 99, "weapon": 2, "weapon_left": 450, "keys": 1023,
    }.items():  # fmt: skip
        fighters[name] = rng.integers(0, most + 1, shape)
    fighters["move"] = rng.integers(-1, len(STRIKES), shape)
    lengths = np.array([strike.ticks for strike in STRIKES])[fighters["move"]]
    fighters["move_tick"] = np.where(fighters["move"] == NONE, 0, rng.integers(0, lengths))
    records["items"]["x"] = rng.uniform(-7, 7, shape)
    records["items"]["kind"] = rng.integers(0, 3, shape)
    records["platform_y"] = rng.uniform(RULES.platform_low, RULES.platform_high, rows)
    records["tick"] = rng.integers(0, RULES.time_limit + 1, rows)
    restore(batch, records)
    own = batch.obs[:, :, :HALF]
    assert np.isfinite(own).all() and ((own >= LOW) & (own <= HIGH)).all()


def shown(batch, name):
    """A field of both seats of every match (B, 2), float64."""
    return batch.obs[:, :, FIELD[name]].astype(float)


def test_counts_are_read_back_exactly():
    """Cooldown, stun, charge, clock, stocks, weapon and what is held follow from the observation of any state."""
    for batch in fuzzed(rows=60, steps=200, ticks_per_step=1):
        records = records_of(batch)
        fighters = records["fighters"]
        for field, name, unit in (
            ("dodge_cooldown", "dodge_cooldown", RULES.dodge_cooldown_air),
            ("stun", "stun", RULES.max_stun),
            ("stocks", "stocks", RULES.stocks),
            ("weapon_left", "weapon_left", RULES.weapon_ticks),
        ):
            np.testing.assert_array_equal(np.rint(shown(batch, field) * unit), fighters[name])
        charge = np.where(fighters["move"] == NONE, 0, fighters["charge"])
        np.testing.assert_array_equal(np.rint(shown(batch, "charge") * RULES.max_charge), charge)
        np.testing.assert_array_equal(
            np.rint(shown(batch, "time_left") * LIMIT * 30), np.repeat(LIMIT * 30 - records["tick"][:, None], 2, 1)
        )
        safe = np.maximum(fighters["invulnerable"], fighters["dodge"])
        safe = np.where(fighters["respawn"] > 0, -fighters["respawn"], safe)
        np.testing.assert_array_equal(np.rint(shown(batch, "safe") * 60), safe)
        support = np.array([0, 1, 0.5])[fighters["support"]]
        np.testing.assert_array_equal(shown(batch, "standing"), support)
        np.testing.assert_array_equal(decoded_keys(batch), fighters["keys"] & ~cancelled(fighters["keys"]))


def cancelled(keys):
    """The bits of both ways of an axis where both are held: they act as neither, and are shown as neither."""
    across, along = bits_of("left", "right"), bits_of("up", "down")
    return np.where(keys & across == across, across, 0) | np.where(keys & along == along, along, 0)


def decoded_keys(batch):
    """The keys (B, 2) held in the last tick, as the observation tells them."""
    attack = np.rint(shown(batch, "held_attack") * 3).astype(int)
    other = np.rint(shown(batch, "held_other") * 15).astype(int)
    held = {
        "right": shown(batch, "held_x") > 0,
        "left": shown(batch, "held_x") < 0,
        "up": shown(batch, "held_y") > 0,
        "down": shown(batch, "held_y") < 0,
        "light": attack & 1 > 0,
        "heavy": attack & 2 > 0,
        **{key: other & 1 << i > 0 for i, key in enumerate(("jump", "dodge", "pickup", "taunt"))},
    }
    return sum(np.where(held[key], 1 << i, 0) for i, key in enumerate(KEYS))


def test_every_set_of_held_keys_is_told():
    """All 1,024 sets are read back, but that up and down, left and right together read as neither."""
    keys = np.arange(1024)
    batch = make(1024, 1, Options())
    edit(batch, keys=np.stack([keys, keys[::-1]], 1))
    np.testing.assert_array_equal(decoded_keys(batch)[:, 0], keys & ~cancelled(keys))
    np.testing.assert_array_equal(decoded_keys(batch)[:, 1], (keys & ~cancelled(keys))[::-1])


@pytest.mark.parametrize("has_hit", [0, 1])
@pytest.mark.parametrize("strike", range(len(STRIKES)), ids=NAMES)
def test_the_tick_within_a_strike_is_told(strike, has_hit):
    """Start-up, active and recovery ticks left count down one by one; the active ones are below 0 once it has hit."""
    row = STRIKES[strike]
    batch = make(row.ticks, 1, Options())
    ticks = np.arange(row.ticks)
    edit(batch, move=(strike, NONE), move_hit=(has_hit, 0), move_tick=np.stack([ticks, np.zeros(row.ticks)], 1))
    startup, active, recovery = (np.rint(shown(batch, name)[:, 0] * 20) for name in ("startup", "active", "recovery"))
    np.testing.assert_array_equal(startup + np.abs(active) + recovery, row.ticks - ticks)
    assert (np.sign(active) == np.where(ticks < row.startup + row.active, 1 - 2 * has_hit, 0)).all() or not row.active
    assert (shown(batch, "weight")[:, 0] == row.weight).all() and (shown(batch, "aim")[:, 0] == row.aim).all()


def test_what_a_scene_shows():
    """Each seat sees itself first, then the other; places, ways and speeds in the table's units."""
    batch = airborne(
        x=(-4.0, 6.0),
        vx=(5.0, -2.0),
        vy=(-8.0, 0),
        damage=(75.0, 300.0),
        stocks=(3, 1),
        jumps_left=(1, 2),
        recovery_left=(0, 1),
        invulnerable=(30, 0),
        respawn=(0, 12),
        weapon=(2, 1),
        weapon_left=(450, 45),
    )
    own = dict(zip(FIELD, batch.obs[0, 0, :HALF].tolist(), strict=True))
    other = dict(zip(FIELD, batch.obs[0, 0, HALF:].tolist(), strict=True))
    expected = {
        "x": (-4 / 12, 6 / 12), "y": (0.5, 0), "vx": (0.25, -0.1), "vy": (-0.4, 0), "facing": (1, -1),
        "standing": (0, 1), "to_other_x": (10 / 12, -10 / 12), "to_other_y": (-5 / 7, 5 / 7), "damage": (0.5, 1),
        "stocks": (1, 1 / 3), "jumps_left": (1 / 3, 1), "recovery_left": (0, 1), "safe": (0.5, -0.2),
        "weapon": (1, -1), "weapon_left": (1, 0.1), "platform_y": (-0.5, -0.5), "platform_way": (1, 1),
        "time_left": (1, 1),
    }  # fmt: skip
    for name, values in expected.items():
        assert (own[name], other[name]) == pytest.approx(values, abs=1e-6), name
    np.testing.assert_array_equal(batch.obs[0, 1], np.roll(batch.obs[0, 0], HALF))


@pytest.mark.parametrize(("support", "value"), [(AIR, 0.0), (GROUND, 1.0), (PLATFORM, 0.5)])
def test_a_state_is_shown_before_the_first_step(support, value):
    """set_state and reset show the state at once."""
    batch = scene(support=(support, GROUND))
    assert batch.obs[0, 0, FIELD["standing"]] == value
    run(batch)
    batch.reset(0)
    assert batch.obs[0, 0, FIELD["standing"]] == 1.0 and batch.obs[0, 0, FIELD["time_left"]] == 1.0
