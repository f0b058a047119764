"""What brawl's rules, reward terms and observation mean.

That the compiled game plays the rules of motion, attacks and weapons is in test_brawl_oracle.py, bit for bit.
"""

import numpy as np
import pytest

from league import config
from league.envs.brawl.env import FIELDS, SPEC, Options, make
from league.envs.brawl.moves import IDS, KINDS, NONE, STRIKES, WEAPONS
from league.envs.brawl.rules import BOTS, TERMS
from league.envs.brawl.state import AIR, GROUND
from league.types import DRAW
from tests.helpers.brawl_scenes import (
    FRESH,
    METRIC,
    RULES,
    TERM,
    TICK,
    bits_of,
    edit,
    play,
    press,
    random_keys,
    records_of,
    restore,
    scene,
    stir,
    terms_of,
)

FALLING = {"x": (9.0, -9.0), "y": (-5.9, -5.9), "vy": (-9.0, -9.0), "support": (AIR, AIR)}


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


def test_a_match_that_ends_within_a_step_ends_there():
    """With ticks of the step left over, the result counts the ticks played and the next match is untouched."""
    batch = scene(Options(ticks_per_step=30), **FALLING, stocks=(1, 1), match={"tick": 100})
    fresh = play(batch, "right")
    assert batch.result["ticks"][0] == 101
    assert sorted(fresh["x"].tolist()) == [-RULES.spawn_x, RULES.spawn_x] and (fresh["vx"] == 0).all()
    assert batch.record(0)["tick"] == 0


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


OPTIONS = Options()
WEIGHTS = np.array([config.load(env="brawl").rewards[name] for name in TERMS])


def of(sums, name, seat=0):
    return sums[seat, TERM[name]]


def test_sums_agree_with_the_metrics_of_the_match():
    options = Options(time_limit_seconds=15.0, stocks=2)
    rows = 70
    batch = make(rows, 1, options)
    batch.reset(21)
    batch.controllers[:, 1] = np.arange(rows) % len(BOTS)
    batch.controllers[::2, 0] = np.arange(rows // 2) % (len(BOTS) - 1) + 1
    rng = np.random.default_rng(21)
    sums = np.zeros((rows, 2, len(TERM)))
    ended = step = 0
    seen = np.zeros(len(TERM), bool)
    while ended < 250:
        if step % 20 == 0:
            records = records_of(batch)
            stir(records, rng)
            had = records_of(batch)["fighters"]["weapon"] > 0
            sums[:, :, TERM["weapon_lost"]] -= (records["fighters"]["weapon"] > 0).astype(int) - had
            restore(batch, records)
        batch.actions[:] = random_keys(rng, rows)
        batch.step()
        step += 1
        sums += batch.reward_terms
        seen |= batch.reward_terms.any((0, 1))
        for i in np.flatnonzero(batch.terminated):
            check_sums(sums[i], batch.result[i], options)
            sums[i] = 0.0
            ended += 1
    assert seen.all()


def check_sums(sums, result, options):
    def metric(name):
        return result["metrics"][:, METRIC[name]]

    def term(name):
        return sums[:, TERM[name]]

    np.testing.assert_allclose(term("damage_dealt"), metric("damage_dealt") / 100.0, atol=1e-4)
    np.testing.assert_allclose(term("damage_taken"), metric("damage_dealt")[::-1] / 100.0, atol=1e-4)
    np.testing.assert_array_equal(term("knock_out"), metric("knock_outs"))
    np.testing.assert_array_equal(term("stock_lost"), options.stocks - metric("stocks_left"))
    np.testing.assert_array_equal(term("stock_lost"), metric("knock_outs")[::-1] + metric("self_destructs"))
    np.testing.assert_array_equal(term("attack"), metric("attacks"))
    np.testing.assert_array_equal(term("hit"), metric("hits"))
    np.testing.assert_array_equal(term("combo"), metric("combos"))
    np.testing.assert_array_equal(term("weapon_taken"), metric("pickups"))
    np.testing.assert_array_equal(term("weapon_lost"), metric("pickups"))
    win = {0: (1, -1), 1: (-1, 1), -1: (0, 0)}[int(result["winner"])]
    np.testing.assert_array_equal(term("win"), win)
    assert (term("combo") <= term("hit")).all() and (term("hit") <= term("attack")).all()
    assert (term("danger_zone") >= 0).all() and (term("danger_zone") <= metric("air_time") + 1e-3).all()


def test_approach_shares_sum_to_the_decrease_of_the_distance():
    """Both seats' approach together is what the distance lost, so that two fighters cannot pump it in turns."""
    rng = np.random.default_rng(8)
    batch = scene(OPTIONS)
    total, start = np.zeros(2), 8.0
    for _ in range(300):
        batch.actions[:] = random_keys(rng, 1)
        total += terms_of(batch, 1)[:, TERM["approach"]]
        if batch.reward_terms[0, :, TERM["stock_lost"]].any():
            break
        fighters = batch.record(0)["fighters"]
        gap = np.hypot(*(fighters[name][0] - fighters[name][1] for name in ("x", "y")))
        assert total.sum() == pytest.approx(start - gap, abs=1e-3)


def test_lives_cannot_be_spent_on_approach():
    """Walking up to the opponent again and again after each lost stock costs more than the ways there bring."""
    batch = scene(
        Options(stocks=9, time_limit_seconds=120.0), x=(3.0, -6.5), facing=(-1, 1), side=(1, -1), stocks=(9, 9)
    )
    batch.controllers[0, 1] = BOTS.index("constant")
    life, lives = np.zeros((2, len(TERM))), 0
    while lives < 5:
        me, other = batch.record(0)["fighters"]
        on_the_way = me["x"] > other["x"] + 1.0
        over_the_pit = (me["support"] == GROUND and 1.2 < me["x"] < 2.2) or (me["support"] == AIR and me["y"] < 0.5)
        jump = ("jump",) if on_the_way and over_the_pit and not me["keys"] & bits_of("jump") else ()
        press(batch, 0, "left", *jump)
        life += terms_of(batch, 1)
        if of(life, "stock_lost"):
            assert 0 < of(life, "approach") < 12.0 and (life @ WEIGHTS)[0] < -1.0
            assert abs(of(life, "approach", seat=1)) < 1e-6
            life, lives = np.zeros((2, len(TERM))), lives + 1


def kept(sums):
    """Weapons taken less weapons lost, of both seats: what the default weights pay for."""
    return sums[:, TERM["weapon_taken"]] - sums[:, TERM["weapon_lost"]]


def test_taking_and_dropping_gains_nothing():
    """Cycles of it pay 1 and -1 in turn; the sum is 1 with a weapon in hand, 0 without, and 0 after the match."""
    batch = scene(items=((-4.0, 450, 1, 300), (0, 0, 0, 0)), match={"tick": RULES.time_limit - 100})
    total = 0.0
    for cycle in range(40):
        press(batch, 0, "pickup")
        total += kept(terms_of(batch, 1))[0]
        press(batch, 0)
        total += kept(terms_of(batch, 1))[0]
        assert total == (cycle + 1) % 2 == int(batch.record(0)["fighters"]["weapon"][0] > 0)
    press(batch, 0, "pickup")
    total += kept(terms_of(batch, 1))[0]
    assert total == 1
    while not batch.terminated[0]:
        total += kept(terms_of(batch, 1))[0]
    assert total == 0


@pytest.mark.parametrize("keys", [("light",), ("heavy",), ("light", "right"), ("heavy", "down")])
def test_spamming_attacks_gains_nothing(keys):
    """Attacks that hit nobody pay their count in `attack` and else nothing: 0 as it is weighed, less if it costs."""
    batch = scene(OPTIONS, x=(-7.0, 7.0))
    sums = np.zeros((2, len(TERM)))
    for step in range(120):
        press(batch, 0, *(keys if step % 2 == 0 else ()))
        sums += terms_of(batch, 1)
        edit(batch, x=(-7.0, 7.0))
    assert of(sums, "attack") > 8
    others = [i for i, name in enumerate(TERMS) if name not in ("attack", "approach")]
    assert not sums[:, others].any()
    assert WEIGHTS[TERM["attack"]] <= 0.0 and sums[0, others] @ WEIGHTS[others] <= 0.0


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
