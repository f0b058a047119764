"""Brawl's compiled rules against the slow twin: the same bits, tick by tick."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from league.envs.blob import HEADER_SIZE
from league.envs.brawl.env import KEYS, Options, make, options_hash, rules_of
from league.envs.brawl.moves import NAMES, STRIKES, WEAPONS
from league.envs.brawl.rules import BOTS, END_REASONS, METRICS, TERMS, BrawlRules
from league.envs.brawl.state import AIR, GROUND, PLATFORM, STATE_DTYPE, pack_state
from league.types import EXTERNAL
from tests.oracles.brawl.match import ReferenceMatch, next_seed, row_seed
from tests.oracles.brawl.state import SUPPORTS, Item

SHORT = {"time_limit_seconds": 9.0, "stocks": 2, "respawn_seconds": 0.5, "protection_seconds": 1.0}
PAIRS = [(EXTERNAL, EXTERNAL), *((EXTERNAL, bot) for bot in range(len(BOTS)))]
PAIRS += [(bot, 1 + bot % (len(BOTS) - 1)) for bot in range(1, len(BOTS))]
RULES = BrawlRules()


def random_keys(rng, rows):
    """Actions (rows, 2, 10): any keys, or one way to go and one thing to do; some rows' seats press the same."""
    anything = rng.random((rows, 2, 10)) < rng.uniform(0.1, 0.7, size=(rows, 2, 10))
    pressed = np.zeros((rows, 2, 10), bool)
    deeds = (None, *KEYS[4:], "light", "heavy")
    for keys in (("left", "right"), ("up", "down", *[None] * 4), deeds):
        choice = rng.integers(len(keys), size=(rows, 2))
        for i, key in enumerate(keys):
            if key is not None:
                pressed[:, :, KEYS.index(key)] |= choice == i
    keys = np.where(rng.random((rows, 2, 1)) < 0.5, anything, pressed).astype(np.int32)
    same = rng.random(rows)
    keys[same < 0.3, 1] = keys[same < 0.3, 0]
    keys[same < 0.1] = [key == "pickup" for key in KEYS]
    return keys


def change_keys(batch, rng, chance):
    """Some players, `chance` of them, let go of what they hold and press other keys."""
    change = rng.random((batch.num_rows, 2)) < chance
    batch.actions[change] = random_keys(rng, batch.num_rows)[change]


def stir(twin, rng):
    """Brings both fighters close together somewhere, worn, at times stunned; often both want or have a weapon."""
    weapons = str(rng.choice(["both want one", "both have one", "any", "any"]))
    middle = float(rng.choice([-4.4, 0.0, 4.4]) + rng.uniform(-1.6, 1.6))
    high = rng.random() < 0.3
    for seat, f in enumerate(twin.fighters):
        f.place(0.0, 3.0, twin.rules)
        f.facing = 1 - 2 * seat
        f.x = middle - f.facing * float(rng.uniform(-0.2, 1.0))
        if not high and twin.stage.over_ground(f.x):
            f.y, f.support = 0.0, "ground"
        elif not high and twin.stage.over_pit(f.x):
            f.y, f.support = twin.stage.platform_y, "platform"
        f.stun = int(rng.choice([0, rng.integers(3, 9), rng.integers(3, 9), 30])) if weapons == "any" else 0
        f.combo = int(rng.integers(0, 30)) if f.stun else 0
        f.damage = float(rng.choice([rng.uniform(0.0, 150.0), 400.0]))
        f.weapon = {"both want one": "unarmed", "both have one": "hammer"}.get(weapons, str(rng.choice(WEAPONS)))
        f.weapon_left = int(rng.integers(1, 90)) if f.armed else 0
    item = twin.stage.items[0 if middle < 0 else 1]
    item.kind = {"both want one": "spear", "both have one": "unarmed"}.get(weapons, str(rng.choice(WEAPONS)))
    item.x, item.ticks, item.left = middle, int(rng.integers(1, 90)), int(rng.integers(1, 90))


def bits(values, dtype):
    """The bytes of `values` rounded once to `dtype`: unlike ==, they tell 0.0 from -0.0."""
    return np.ascontiguousarray(values).astype(dtype).tobytes()


def records_of(twins):
    return np.array([twin.record() for twin in twins], STATE_DTYPE)


def compiled_records(batch):
    return np.frombuffer(batch.get_state(), STATE_DTYPE, offset=HEADER_SIZE)


def restore(batch, twins, options):
    """Gives the batch the twins' state."""
    batch.set_state(pack_state(records_of(twins), options_hash(options)))


def assert_same_records(found, wanted):
    """Equal bytes, or the fields that differ."""
    if found.tobytes() == wanted.tobytes():
        return
    differ = []
    for row in range(len(found)):
        for name in STATE_DTYPE.names:
            parts = STATE_DTYPE[name].base.names or (None,)
            for part in parts:
                one, two = (r[name][row] if part is None else r[name][part][row] for r in (found, wanted))
                if one.tobytes() != two.tobytes():
                    differ.append(f"row {row} {name}.{part}: compiled {one.tolist()} twin {two.tolist()}")
    raise AssertionError("\n".join(differ))


def assert_same(batch, twins, outcomes):
    """Every array of the batch holds the twins' numbers, bit for bit."""
    assert_same_records(compiled_records(batch), records_of(twins))
    obs = np.array([[twin.observe(s) for s in (0, 1)] for twin in twins])
    assert batch.obs.tobytes() == bits(obs, np.float32)
    assert batch.mask.tobytes() == bits([[twin.legal(s) for s in (0, 1)] for twin in twins], np.bool_)
    if outcomes is None:
        return
    terms = [[[t[name] for name in TERMS] for t in out.terms] for out in outcomes]
    assert batch.reward_terms.tobytes() == bits(terms, np.float32)
    ended = np.array([out.end_reason is not None for out in outcomes])
    assert batch.terminated.tobytes() == ended.tobytes()
    assert not batch.truncated.any()
    for i in np.flatnonzero(ended):
        assert_same_end(batch, i, outcomes[i])


def assert_same_end(batch, i, out):
    """The end of row i, as its arrays tell it, is the twin's."""
    assert batch.final_obs[i].tobytes() == bits(out.final_obs, np.float32)
    result = batch.result[i]
    assert END_REASONS[result["end_reason"]] == out.end_reason
    assert (result["winner"], result["ticks"], result["seed"]) == (out.winner, out.ticks, out.seed)
    assert result["metrics"].tobytes() == bits(out.metrics, np.float32)
    assert result["metrics"].shape == (2, len(METRICS))


def start(seed, options, pairs):
    """A batch of a row for each pair of controllers, and its twins."""
    batch = make(len(pairs), 1, options)
    batch.controllers[:] = pairs
    batch.reset(seed)
    twins = [ReferenceMatch(rules_of(options), row_seed(seed, i)) for i in range(len(pairs))]
    for twin, pair in zip(twins, pairs, strict=True):
        twin.fighters[0].controller, twin.fighters[1].controller = pair
    return batch, twins


def advance(batch, twins):
    batch.step()
    return [twin.step(batch.actions[i].tolist()) for i, twin in enumerate(twins)]


@pytest.mark.parametrize(
    ("seed", "ticks_per_step", "weapons"), [(0, 1, True), (7, 3, False), (2**64 - 1, 3, True), (11, 30, True)]
)
def test_twin_is_equal_bit_for_bit(seed, ticks_per_step, weapons):
    """State, observations, masks, rewards and results equal the twin's over random keys and every controller."""
    options = Options(ticks_per_step=ticks_per_step, weapons=weapons, **SHORT)
    batch, twins = start(seed, options, PAIRS)
    assert_same(batch, twins, None)
    rng = np.random.default_rng([seed, ticks_per_step])
    ends = 0
    for _ in range(max(20, 330 // ticks_per_step)):
        change_keys(batch, rng, 0.3)
        assert_same(batch, twins, advance(batch, twins))
        ends += int(batch.terminated.sum())
    assert ends >= len(PAIRS)


def happened(before, after):
    """The rare things that one tick of the compiled game brought about, by name: (rows, seats) each."""
    f, was = after["fighters"], before["fighters"]
    held, acts = f["keys"], (was["move"] < 0) & (was["stun"] == 0) & (was["dodge"] == 0) & (was["respawn"] == 0)
    fresh = held & ~was["keys"]
    key = {name: 1 << i for i, name in enumerate(KEYS)}
    in_air, over_pit = f["support"] == AIR, np.abs(f["x"]) <= RULES.edge_inner
    landed_at = np.where(over_pit, after["platform_y"][:, None], 0.0)
    own = (was["x"] >= 0).astype(int)
    item = {name: np.take_along_axis(before["items"][name], own, 1) for name in ("x", "kind", "ticks")}
    item_after = {name: np.take_along_axis(after["items"][name], own, 1) for name in ("x", "kind", "ticks")}
    reach = (was["support"] == GROUND) & (item["kind"] > 0) & (np.abs(was["x"] - item["x"]) <= RULES.pickup_reach)
    wants = acts & reach & (was["weapon"] == 0) & (fresh & key["pickup"] > 0) & (f["pickups"] == was["pickups"])
    wants &= (f["move"] < 0) & (f["support"] == GROUND)
    drops = acts & (f["move"] < 0) & (was["weapon"] > 0) & (f["weapon"] == 0) & (f["respawn"] == 0)
    drops &= (fresh & key["pickup"] > 0) & (f["support"] == GROUND) & (was["weapon_left"] > 1) & (item["kind"] == 0)
    same_ground = own == own[:, ::-1]
    lost_weapon = (was["weapon"] > 0) & (f["weapon"] == 0) & (f["respawn"] == 0)
    moved_on = (f["move"] >= 0) & (was["move"] >= 0)
    links = ("on_hit", "on_miss", "on_land")
    follow = {link: np.array([getattr(s, link) for s in STRIKES])[was["move"]] == f["move"] for link in links}
    return {
        "charge": f["charge"] > 0,
        "full charge": f["charge"] == RULES.max_charge,
        **{link: moved_on & follow[link] for link in links},
        "dash": (f["dash"] > 0) & (f["direction"] == f["facing"]),
        "back-dash": (f["dash"] > 0) & (f["direction"] != f["facing"]),
        "turn": f["turn"] > 0,
        "dodge on the ground": (f["dodge"] > 0) & ~in_air,
        "dodge in the air": (f["dodge"] > 0) & in_air,
        "weapon taken": f["pickups"] > was["pickups"],
        "weapon dropped": lost_weapon & (item["kind"] == 0) & (item_after["x"] == f["x"]) & (item_after["kind"] > 0),
        "weapon dropped and lost": lost_weapon & (was["weapon_left"] > 1) & (item_after["x"] != f["x"]),
        "weapon worn out": lost_weapon & (was["weapon_left"] == 1),
        "weapon vanished": (item["kind"] > 0) & (item["ticks"] == 1) & (item_after["kind"] == 0),
        "weapon appeared": (item["kind"] == 0) & (item["ticks"] == 1) & (item_after["kind"] > 0),
        "both want one": wants & wants[:, ::-1] & same_ground,
        "both drop one": drops & drops[:, ::-1] & same_ground & (item_after["kind"] == 0),
        "landing on the platform": (f["support"] == PLATFORM) & (was["support"] == AIR),
        "drop through": (was["support"] == PLATFORM) & in_air & over_pit & (f["stun"] == 0) & (f["vy"] < 0.0),
        "air jump": (f["jumps_left"] < was["jumps_left"]) & (f["respawn"] == 0),
        "pushed out, outer": (np.abs(f["x"]) == RULES.edge_outer) & (f["y"] < 0) & (f["vx"] == 0),
        "pushed out, inner": (np.abs(f["x"]) == RULES.edge_inner) & (f["y"] < 0) & (f["vx"] == 0),
        "bounce": (was["stun"] > 0) & (was["vy"] < -RULES.bounce_speed) & (f["vy"] > 0) & (f["y"] == landed_at),
        "hit in the last tick of stun": (was["stun"] == 1) & (f["stun"] > 0),
        "combo": f["combos"] > was["combos"],
        "third hit in a stun": (f["combo"] > 2) & (f["stun"] > 0),
        "shortest stun": (f["damage"] > was["damage"]) & (f["stun"] == RULES.min_stun),
        "longest stun": f["stun"] == RULES.max_stun,
        "protection": f["invulnerable"] > 0,
        "protection given up": (was["invulnerable"] > 1) & (f["invulnerable"] == 0) & (f["attacks"] > was["attacks"]),
        "knock-out": f["knock_outs"] > was["knock_outs"],
        "self-destruct": f["self_destructs"] > was["self_destructs"],
        "fast fall": in_air & (f["vy"] < -RULES.max_fall) & (f["stun"] == 0) & (f["move"] < 0),
    }


@pytest.mark.slow
def test_the_key_streams_reach_every_mechanic():
    """Over random keys in close fights, stirred up, every strike and rule takes part; the twin stays equal."""
    options = Options(ticks_per_step=1, **SHORT)
    batch, twins = start(5, options, [(EXTERNAL, EXTERNAL)] * 28)
    rng = np.random.default_rng(5)
    strikes, counts = set(), {}
    for step in range(1000):
        if step % 25 == 0:
            for twin in twins:
                if rng.random() < 0.7:
                    stir(twin, rng)
            restore(batch, twins, options)
        change_keys(batch, rng, 1.0 if step % 25 == 0 else 0.06)
        before = compiled_records(batch)
        assert_same(batch, twins, advance(batch, twins))
        after, goes_on = compiled_records(batch), ~batch.terminated
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
"""Values of one fighter to begin with, by the twin's names."""
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
def test_twin_is_equal_from_any_state(options, seed, edits, items, platform, script):
    """From any state that a blob may hold, possible in play or not, the twin plays the same bits under any keys."""
    twin = ReferenceMatch(rules_of(options), seed)
    for f, values in zip(twin.fighters, edits, strict=True):
        for name, value in values:
            setattr(f, name, value)
    twin.stage.items[:] = items
    twin.stage.platform_y, twin.stage.platform_direction = platform
    batch = make(1, 1, options)
    restore(batch, [twin], options)
    assert_same(batch, [twin], None)
    for first, second, steps in script:
        batch.actions[0] = [[key in held for key in KEYS] for held in (first, second)]
        for _ in range(steps):
            assert_same(batch, [twin], advance(batch, [twin]))


def test_seeds_follow_from_the_row_and_the_match_before():
    """reset(int) seeds row i by splitmix64 of (seed, i), and a row's next seed follows from its last one."""
    batch = make(4, 1, Options(time_limit_seconds=1.0))
    batch.reset(99)
    expected = [row_seed(99, i) for i in range(4)]
    for _ in range(3):
        for _ in range(10):
            batch.step()
        assert batch.terminated.all()
        assert batch.result["seed"].tolist() == expected
        expected = [next_seed(seed) for seed in expected]
