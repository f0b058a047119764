"""Brawl's compiled rules against the slow reference: the same bits, tick by tick."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from league.envs.brawl import env
from league.envs.brawl.env import KEYS, Options
from league.envs.brawl.moves import NAMES, STRIKES, WEAPONS
from league.envs.brawl.rules import BOTS, BrawlRules
from league.envs.brawl.state import AIR, GROUND, PLATFORM, STATE_DTYPE, pack_state
from league.envs.brawl.styles import WITHOUT
from league.types import EXTERNAL
from tests.helpers.brawl_scenes import random_keys, records_of, stir
from tests.oracles.brawl.batch import ReferenceBatch
from tests.oracles.brawl.match import ReferenceMatch
from tests.oracles.brawl.state import SUPPORTS, Item

SHORT = {"time_limit_seconds": 9.0, "stocks": 2, "respawn_seconds": 0.5, "protection_seconds": 1.0}
ARRAYS = ("obs", "mask", "reward_terms", "terminated", "truncated", "final_obs", "result", "controllers")
PAIRS = [(EXTERNAL, EXTERNAL), *((EXTERNAL, bot) for bot in range(len(BOTS)))]
PAIRS += [(bot, 1 + bot % (len(BOTS) - 1)) for bot in range(1, len(BOTS))]
STYLED = [pair for pair in PAIRS if not {BOTS.index(bot) for bot in WITHOUT} & set(pair)]
RULES = BrawlRules()


def change_keys(batch, rng, chance):
    """Some players, `chance` of them, let go of what they hold and press other keys."""
    change = rng.random((batch.num_rows, 2)) < chance
    batch.actions[change] = random_keys(rng, batch.num_rows)[change]


def both(rows, options):
    """The compiled batch and the reference's."""
    hashed = {"spec": env.spec(options), "rules": env.rules_of(options), "options_hash": env.options_hash(options)}
    return env.make(rows, 1, options), ReferenceBatch(rows, 1, **hashed)


def assert_same(batches, where=""):
    """Every array and state has the same bytes, which tell 0.0 from -0.0."""
    compiled, slow = batches
    found, wanted = compiled.get_state(), slow.get_state()
    if found != wanted:
        raise AssertionError(f"{where}\n{differences(records_of(compiled), slow._records())}")
    for name in ARRAYS:
        assert getattr(compiled, name).tobytes() == getattr(slow, name).tobytes(), (where, name)


def differences(found, wanted):
    """The fields that differ, a line each."""
    lines = []
    for name in STATE_DTYPE.names:
        for part in STATE_DTYPE[name].base.names or (None,):
            one, two = (r[name] if part is None else r[name][part] for r in (found, wanted))
            rows = [row for row in range(len(found)) if one[row].tobytes() != two[row].tobytes()]
            lines += [f"row {row} {name}.{part}: {one[row].tolist()}, reference {two[row].tolist()}" for row in rows]
    return "\n".join(lines)


def advance(batches):
    """A step of both with the compiled batch's actions."""
    batches[1].actions[:] = batches[0].actions
    for batch in batches:
        batch.step()


@pytest.mark.parametrize(
    ("seed", "options"),
    [
        (0, {"ticks_per_step": 1}),
        (7, {"weapons": False}),
        (2**64 - 1, {}),
        (11, {"ticks_per_step": 30}),
        (3, {"bot_styles": "train"}),
        (3, {"bot_styles": "held_out", "ticks_per_step": 2}),
        (5, {"bot_styles": "held_out", "ticks_per_step": 8}),
    ],
)
def test_the_reference_is_equal_bit_for_bit(seed, options):
    """Over random keys, every controller, all options, several matches; each goes on from the other's state."""
    options = Options(**SHORT, **options)
    pairs = PAIRS if options.bot_styles == "off" else STYLED
    batches, rng, ends = both(len(pairs), options), np.random.default_rng([seed, options.ticks_per_step]), 0
    for batch in batches:
        batch.controllers[:] = pairs
        batch.reset(seed)
    assert_same(batches)
    for step in range(max(20, 330 // options.ticks_per_step)):
        change_keys(batches[0], rng, 0.3)
        advance(batches)
        assert_same(batches, step)
        ends += int(batches[0].terminated.sum())
        if step % 100 == 15:
            states = [batch.get_state() for batch in batches]
            batches = both(len(pairs), options)
            for batch, state in zip(batches, reversed(states), strict=True):
                batch.set_state(state)
    assert ends >= len(pairs)


def happened(before, after):
    """The rare things that one tick of the compiled game brought about, by name: (rows, seats) each."""
    f, was, key = after["fighters"], before["fighters"], 1 << KEYS.index("pickup")
    acts = (was["move"] < 0) & (f["move"] < 0) & (was["stun"] == 0) & (was["dodge"] == 0) & (was["respawn"] == 0)
    presses = acts & (f["keys"] & ~was["keys"] & key > 0) & (f["support"] == GROUND) & (f["respawn"] == 0)
    own = (was["x"] >= 0).astype(int)
    same = own == own[:, ::-1]
    item, item_after = ({n: np.take_along_axis(r["items"][n], own, 1) for n in ("x", "kind")} for r in (before, after))
    reach = (was["support"] == GROUND) & (item["kind"] > 0) & (np.abs(was["x"] - item["x"]) <= RULES.pickup_reach)
    wants = presses & reach & (was["weapon"] == 0) & (f["pickups"] == was["pickups"])
    lost = (was["weapon"] > 0) & (f["weapon"] == 0) & (f["respawn"] == 0) & (was["weapon_left"] > 1)
    drops, moved_on = presses & lost & (item["kind"] == 0), (f["move"] >= 0) & (was["move"] >= 0)
    follow = {link: [getattr(s, link) for s in STRIKES] for link in ("on_hit", "on_miss", "on_land")}
    landed_at = np.where(np.abs(f["x"]) <= RULES.edge_inner, after["platform_y"][:, None], 0.0)
    return {
        **{link: moved_on & (np.array(found)[was["move"]] == f["move"]) for link, found in follow.items()},
        "full charge": f["charge"] == RULES.max_charge,
        "back-dash": (f["dash"] > 0) & (f["direction"] != f["facing"]),
        "weapon dropped": lost & (item["kind"] == 0) & (item_after["x"] == f["x"]) & (item_after["kind"] > 0),
        "weapon dropped and lost": lost & (item_after["x"] != f["x"]),
        "both want one": wants & wants[:, ::-1] & same,
        "both drop one": drops & drops[:, ::-1] & same & (item_after["kind"] == 0),
        "drop through": (was["support"] == PLATFORM) & (f["support"] == AIR) & (f["stun"] == 0) & (f["vy"] < 0.0),
        "pushed out": np.isin(np.abs(f["x"]), (RULES.edge_inner, RULES.edge_outer)) & (f["y"] < 0) & (f["vx"] == 0),
        "bounce": (was["stun"] > 0) & (was["vy"] < -RULES.bounce_speed) & (f["vy"] > 0) & (f["y"] == landed_at),
        "hit in the last tick of stun": (was["stun"] == 1) & (f["stun"] > 0),
        "third hit in a stun": (f["combo"] > 2) & (f["stun"] > 0),
        "shortest stun": (f["damage"] > was["damage"]) & (f["stun"] == RULES.min_stun),
        "longest stun": f["stun"] == RULES.max_stun,
        "protection given up": (was["invulnerable"] > 1) & (f["invulnerable"] == 0) & (f["attacks"] > was["attacks"]),
        "knock-out": f["knock_outs"] > was["knock_outs"],
        "self-destruct": f["self_destructs"] > was["self_destructs"],
    }


@pytest.mark.slow
def test_the_key_streams_reach_every_mechanic():
    """Over random keys in close fights, stirred up, every strike and rule takes part; the reference stays equal."""
    options = Options(ticks_per_step=1, **SHORT)
    batches, rng = both(28, options), np.random.default_rng(5)
    for batch in batches:
        batch.reset(5)
    strikes, counts = set(), {}
    for step in range(1000):
        if step % 20 == 0:
            records = records_of(batches[0]).copy()
            stir(records, rng)
            records["fighters"]["combo"] = rng.integers(0, 30, (28, 2))
            armed = rng.random(28) < 0.2
            records["fighters"]["weapon"][armed], records["fighters"]["weapon_left"][armed] = 2, 99
            records["items"]["kind"][armed] = records["fighters"]["stun"][armed] = 0
            for batch in batches:
                batch.set_state(pack_state(records, env.options_hash(options)))
        change_keys(batches[0], rng, 1.0 if step % 20 == 0 else 0.06)
        if step % 20 == 0:  # both at once
            batches[0].actions[rng.random(28) < 0.3] = [key == "pickup" for key in KEYS]
        before = records_of(batches[0])
        advance(batches)
        assert_same(batches, step)
        after, goes_on = records_of(batches[0]), ~batches[0].terminated
        strikes |= set(after["fighters"]["move"].ravel().tolist())
        for name, found in happened(before[goes_on], after[goes_on]).items():
            counts[name] = counts.get(name, 0) + int(found.sum())
    assert {NAMES[i] for i in set(range(len(NAMES))) - strikes} == set()
    assert [name for name, count in counts.items() if count == 0] == []


def near(*values):
    """Anything within the field, and often the values at which a rule changes."""
    return st.sampled_from([0.0, *values]) | st.floats(-12.0, 12.0, width=16)


EDITS = {
    "x": near(RULES.edge_inner, -RULES.edge_inner, RULES.edge_outer, RULES.blast_side),
    "y": near(RULES.platform_low, -0.5, RULES.platform_high),
    "vx": near(RULES.run_speed),
    "vy": near(-RULES.bounce_speed, -RULES.max_fast_fall),
    "facing": st.sampled_from([-1, 1]),
    "support": st.sampled_from(SUPPORTS),
    "stocks": st.integers(1, 2),
    "jumps_left": st.integers(0, 3),
    "recovery_left": st.booleans(),
    "damage": st.sampled_from([0.0, 60.0, 400.0]),
    "weapon": st.sampled_from(WEAPONS),
    "weapon_left": st.integers(0, 12),
    "move": st.sampled_from(NAMES),
    "move_tick": st.integers(0, 40),
    "move_hit": st.booleans(),
    "landed": st.booleans(),
    "charge": st.integers(0, RULES.max_charge),
    "combo": st.integers(0, 30),
    "run_ticks": st.integers(0, RULES.run_after),
    "direction": st.sampled_from([-1, 0, 1]),
    "keys": st.frozensets(st.sampled_from(KEYS)),
    **dict.fromkeys(("stun", "invulnerable", "dodge", "dash", "dodge_cooldown", "turn", "credit"), st.integers(0, 12)),
    "respawn": st.sampled_from([0, 0, 0, 1, 2, 5]),
}
"""Values of one fighter to begin with, by the reference's names."""
FIGHTERS = st.lists(st.one_of(*(st.tuples(st.just(name), values) for name, values in EDITS.items())), max_size=6)
ITEMS = st.builds(
    Item,
    x=near(-RULES.item_near, RULES.item_far),
    left=st.integers(1, 90),
    kind=st.sampled_from(WEAPONS),
    ticks=st.integers(0, 5),
)
HELD = st.tuples(EDITS["keys"], EDITS["keys"], st.integers(1, 12))
"""What each seat holds, and for how many steps."""
OPTIONS = st.builds(
    Options,
    ticks_per_step=st.sampled_from([1, 3, 30]),
    weapons=st.booleans(),
    time_limit_seconds=st.sampled_from([30.0, 1.0]),
    stocks=st.just(2),
    respawn_seconds=st.sampled_from([1.5, 0.1]),
)


@settings(max_examples=150, deadline=None)
@given(
    options=OPTIONS,
    seed=st.integers(0, 2**64 - 1),
    edits=st.tuples(FIGHTERS, FIGHTERS),
    items=st.tuples(ITEMS, ITEMS),
    platform=st.tuples(st.floats(RULES.platform_low, RULES.platform_high), st.sampled_from([-1.0, 1.0])),
    script=st.lists(HELD, max_size=6),
)
def test_the_reference_is_equal_from_any_state(options, seed, edits, items, platform, script):
    """From any state that a blob may hold, possible in play or not, the reference plays the same bits."""
    match = ReferenceMatch(env.rules_of(options), seed)
    for fighter, values in zip(match.fighters, edits, strict=True):
        for name, value in values:
            setattr(fighter, name, value)
    match.stage.items[:] = items
    match.stage.platform_y, match.stage.platform_direction = platform
    batches = both(1, options)
    for batch in batches:
        batch.set_state(pack_state(np.array([match.record()], STATE_DTYPE), env.options_hash(options)))
    assert_same(batches)
    for first, second, steps in script:
        batches[0].actions[0] = [[key in held for key in KEYS] for held in (first, second)]
        for _ in range(steps):
            advance(batches)
            assert_same(batches)


@pytest.mark.parametrize(
    "seed", [-1, 2**64, True, 1.5, "1", None, np.zeros(2, np.uint64), np.zeros(3), np.zeros((3, 1), np.uint64)]
)
def test_both_refuse_the_same_seeds(seed):
    for batch in both(3, Options()):
        with pytest.raises(ValueError, match="seed"):
            batch.reset(seed)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("controllers", (1, 0), len(BOTS)),
        ("controllers", (1, 1), -2),
        ("actions", (1, 0, 4), 2),
        ("actions", (1, 1, 0), -1),
    ],
)
def test_both_refuse_the_same_inputs(name, place, value):
    """An unknown controller and a key that is neither 0 nor 1; nothing has moved then. A bot's keys are not read."""
    for batch in both(2, Options()):
        state = batch.get_state()
        getattr(batch, name)[place] = value
        with pytest.raises(ValueError, match=rf"{name}\[1, {place[1]}\]"):
            batch.step()
        batch.controllers[:] = EXTERNAL
        assert batch.get_state() == state
        batch.controllers[:] = BOTS.index("random")
        batch.step()
