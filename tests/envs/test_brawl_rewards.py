"""Brawl's reward terms: they tell what happened, once, and none can be farmed."""

from __future__ import annotations

import numpy as np
import pytest

from league import config
from league.envs.brawl.env import Options, make
from league.envs.brawl.moves import IDS, NONE
from league.envs.brawl.rules import BOTS, TERMS
from league.envs.brawl.state import AIR, GROUND
from tests.helpers.brawl_scenes import (
    CLOSE,
    METRIC,
    RULES,
    TERM,
    bits_of,
    edit,
    press,
    random_keys,
    records_of,
    restore,
    run,
    scene,
    stir,
    terms_of,
)

OPTIONS = Options()
WEIGHTS = np.array([config.load(env="brawl").rewards[name] for name in TERMS])


def rewards(sums):
    """Both seats' rewards (2,) under the default weights."""
    return sums @ WEIGHTS


def of(sums, name, seat=0):
    return sums[seat, TERM[name]]


# What the terms tell


def test_sums_agree_with_the_metrics_of_the_match():
    """Over whole matches each summed term is the finished match's own count of the same thing."""
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


def test_nothing_leaks_over_a_match_end():
    """The match after an ended one shows and pays exactly what a batch newly reset to its seed does."""
    options = Options(time_limit_seconds=8.0, stocks=1)
    batch = make(1, 1, options)
    batch.controllers[:] = (BOTS.index("zoner"), BOTS.index("edge_guarder"))
    batch.reset(np.array([4], np.uint64))
    for _ in range(4):
        edit(batch, weapon=(1, 2), weapon_left=(900, 900))
        while not batch.terminated[0]:
            batch.step()
        fresh = make(1, 1, options)
        fresh.controllers[:] = batch.controllers
        fresh.reset(np.array([batch.record(0)["seed"]], np.uint64))
        assert fresh.obs.tobytes() == batch.obs.tobytes() and fresh.get_state() == batch.get_state()
        for _ in range(20):
            batch.step()
            fresh.step()
            assert batch.reward_terms.tobytes() == fresh.reward_terms.tobytes()


def test_damage_is_the_same_for_both():
    """In every step what one seat deals is what the other takes, trades included: weighed equally they cancel."""
    rng = np.random.default_rng(6)
    batch = make(64, 1, OPTIONS)
    trades = 0
    for step in range(300):
        if step % 10 == 0:
            records = records_of(batch)
            stir(records, rng)
            restore(batch, records)
        batch.actions[:] = random_keys(rng, 64)
        batch.step()
        dealt = batch.reward_terms[:, :, TERM["damage_dealt"]]
        np.testing.assert_array_equal(dealt, batch.reward_terms[:, ::-1, TERM["damage_taken"]])
        trades += (dealt > 0).all(1).sum()
    assert trades > 10


# approach


def test_walking_back_and_forth_gains_nothing():
    """A walker's approach is what it is nearer by at the end, turn as it may, while the opponent walks about too."""
    for other in (("left", "right"), (), ("right", "left", "left", "right")):
        batch = scene(OPTIONS, x=(3.0, 6.0), facing=(1, -1))
        own = gained = 0.0
        for cycle in range(12):
            press(batch, 0, ("right", "left")[cycle % 2])
            press(batch, 1, *other[cycle % len(other) : cycle % len(other) + 1] if other else ())
            for _ in range(2):
                before = records_of(batch)["fighters"]["x"][0, 0]
                gained += of(terms_of(batch, 1), "approach")
                own += records_of(batch)["fighters"]["x"][0, 0] - before
                assert gained == pytest.approx(own, abs=1e-5)
        assert abs(gained) < 3.0


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
            assert 0 < of(life, "approach") < 12.0 and rewards(life)[0] < -1.0
            assert abs(of(life, "approach", seat=1)) < 1e-6
            life, lives = np.zeros((2, len(TERM))), lives + 1


def test_a_respawn_is_no_approach():
    """Leaving the field and coming back to it move nobody nearer."""
    batch = scene(x=(11.9, -6.0), y=(-3.0, 0.0), vx=(9.0, 0.0), support=(AIR, GROUND))
    sums = terms_of(batch, 1 + RULES.respawn_ticks)
    assert of(sums, "stock_lost") == 1.0 and batch.record(0)["fighters"]["respawn"][0] == 0
    assert not sums[:, TERM["approach"]].any()


# weapon


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


@pytest.mark.parametrize(
    "loses",
    [
        {"weapon_left": (1, 0)},
        {"x": (11.99, 4.0), "y": (1.0, 0), "vx": (9.0, 0), "support": (AIR, GROUND), "weapon_left": (99, 0)},
        {"match": {"tick": RULES.time_limit - 1}, "weapon_left": (99, 0)},
        {
            "x": (11.99, 4.0),
            "y": (1.0, 0),
            "vx": (9.0, 0),
            "support": (AIR, GROUND),
            "weapon_left": (99, 0),
            "stocks": (1, 3),
        },
        {"match": {"tick": RULES.time_limit - 1}, "weapon_left": (1, 0)},
    ],
)
def test_a_weapon_is_paid_back_once_however_it_goes(loses):
    """Worn out, lost with a stock, held at the end, both at once: one is taken off, and once."""
    batch = scene(weapon=(1, 0), **loses)
    assert kept(terms_of(batch, 3)).tolist() == [-1, 0]


# attack, hit, combo, damage


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


@pytest.mark.parametrize("field", ["invulnerable", "dodge", "respawn"])
def test_nothing_is_gained_from_hitting_who_cannot_be_hit(field):
    """Blows on a protected, dodging or absent opponent pay no damage, no hit and no combo, and hold up no end."""
    batch = scene(OPTIONS, **CLOSE, **{field: (0, 500)}, stun=(0, 500))
    sums = np.zeros((2, len(TERM)))
    for _ in range(40):
        press(batch, 0, "light")
        sums += terms_of(batch, 1)
    assert of(sums, "attack") > 5
    for name in ("damage_dealt", "hit", "combo"):
        assert of(sums, name) == 0.0
    assert of(sums, "damage_taken", seat=1) == 0.0


def test_a_hit_pays_both_ways_once():
    """A side light pays its points to the hitter and charges them to the one hit; its later ticks pay nothing."""
    batch = scene(**CLOSE)
    press(batch, 0, "light", "right")
    sums = terms_of(batch, 12)
    assert of(sums, "damage_dealt") == of(sums, "damage_taken", seat=1) == pytest.approx(0.10)
    assert (of(sums, "hit"), of(sums, "attack"), of(sums, "hit", seat=1), of(sums, "combo")) == (1, 1, 0, 0)


def test_an_attack_of_many_blows_is_one_hit_and_at_most_one_combo():
    """The spear's three thrusts at a stunned opponent pay one hit and one combo, and none for those that follow."""
    batch = scene(**CLOSE, weapon=(1, 0), weapon_left=(400, 0), stun=(0, 30))
    press(batch, 0, "heavy", "right")
    sums = terms_of(batch, 1)
    press(batch, 0)
    sums += terms_of(batch, 40)
    assert of(sums, "damage_dealt") == pytest.approx(0.25)
    assert (of(sums, "attack"), of(sums, "hit"), of(sums, "combo")) == (1, 1, 1)


@pytest.mark.parametrize("bot", BOTS[2:])
def test_what_one_stock_can_pay_is_bounded(bot):
    """Against an opponent that never resists, no bot gets more than 150 points, 15 hits or 5 combos off one stock."""
    batch = make(60, 1, Options(stocks=1))
    batch.controllers[:] = (BOTS.index(bot), BOTS.index("constant"))
    batch.reset(1)
    sums, matches = np.zeros((60, 2, len(TERM))), 0
    while matches < 100:
        batch.step()
        sums += batch.reward_terms
        for i in np.flatnonzero(batch.terminated):
            assert of(sums[i], "damage_dealt") < 1.5 and of(sums[i], "hit") < 15 and of(sums[i], "combo") < 5
            sums[i], matches = 0.0, matches + 1


def test_weak_hits_still_end_the_stock():
    """The blow that throws least, again and again on an opponent set back before it, throws it out in the end."""
    weakest = IDS["spear.side_heavy"]
    batch = scene(**CLOSE)
    total = np.zeros((2, len(TERM)))
    while not of(total, "knock_out"):
        if batch.record(0)["fighters"]["stun"][1] == 0:
            edit(batch, x=(-4.0, -3.0), y=0.0, support=GROUND, facing=(1, -1), vx=0.0, vy=0.0)
            edit(batch, move=(weakest, NONE), move_tick=(9, 0), move_hit=0, landed=0)
        total += terms_of(batch, 1)
        assert of(total, "damage_dealt") < 12.0
    assert rewards(total)[1] < 0


# danger_zone


def test_danger_zone_is_seconds_off_the_stage():
    """A second in the air beyond the outer edge or below the grounds is 1.0; over them and over the pit it is 0."""
    for x, y, support, share in (
        (9.0, 5.0, AIR, 1.0),
        (0.0, -3.0, AIR, 1.0),
        (0.0, 5.0, AIR, 0.0),
        (4.0, 5.0, AIR, 0.0),
        (0.0, -1.0, 2, 0.0),
    ):
        batch = scene(x=(x, -4.0), y=(y, 0), support=(support, GROUND))
        total = np.zeros(2)
        for _ in range(30):
            total += terms_of(batch, 1)[:, TERM["danger_zone"]]
            if support == AIR:
                edit(batch, x=(x, -4.0), y=(y, 0), vy=0.0)
        assert total == pytest.approx([share, 0.0])


def test_danger_zone_never_pays():
    """In no step of any play is the term below 0, and its weight is not above 0."""
    rng = np.random.default_rng(9)
    batch = make(64, 1, OPTIONS)
    batch.controllers[::2] = rng.integers(-1, len(BOTS), (32, 2))
    for _ in range(300):
        batch.actions[:] = random_keys(rng, 64)
        batch.step()
        assert (batch.reward_terms[:, :, TERM["danger_zone"]] >= 0).all()
    assert WEIGHTS[TERM["danger_zone"]] <= 0


# knock_out, stock_lost, win


@pytest.mark.parametrize(("credit", "credited"), [(0, 0.0), (1, 0.0), (60, 1.0)])
def test_a_knock_out_needs_a_recent_hit(credit, credited):
    """A lost stock is the opponent's knock-out only within the ticks of credit after its hit."""
    batch = scene(x=(11.5, 0.0), vx=(20.0, 0.0), y=(1.0, 0.0), support=(AIR, GROUND), credit=(credit, 0))
    sums = terms_of(batch, 5)
    assert of(sums, "stock_lost") == 1.0
    assert of(sums, "knock_out", seat=1) == credited


def test_a_hit_is_credited_for_ninety_ticks_and_for_one_stock():
    """A stock lost in the 90 ticks that begin with the blow's is the hitter's, a later one and the next one are not."""
    for wait, credited in ((88, 1.0), (89, 0.0)):
        batch = scene(**CLOSE, move=(IDS["unarmed.side_light"], NONE), move_tick=(4, 0))
        run(batch)
        run(batch, wait)
        edit(batch, x=(-4.0, 12.5), y=(0, 1.0), support=(GROUND, AIR))
        sums = terms_of(batch, 1)
        assert (of(sums, "knock_out"), of(sums, "stock_lost", seat=1)) == (credited, 1.0)
        run(batch, RULES.respawn_ticks)
        edit(batch, x=(-4.0, 12.5))
        sums = terms_of(batch, 1)
        assert (of(sums, "knock_out"), of(sums, "stock_lost", seat=1)) == (0.0, 1.0)


def test_a_stock_is_lost_once():
    """While the fighter is away nothing of it is paid again, whatever the keys."""
    batch = scene(x=(12.5, 4.0), y=(1.0, 0), support=(AIR, GROUND), credit=(50, 0))
    press(batch, 0, "right", "light", "jump")
    sums = terms_of(batch, RULES.respawn_ticks)
    assert (of(sums, "stock_lost"), of(sums, "knock_out", seat=1)) == (1.0, 1.0)
    assert not sums[:, [TERM[name] for name in ("win", "attack", "approach")]].any()


@pytest.mark.parametrize(("stocks", "win"), [((2, 1), [1, -1]), ((1, 2), [-1, 1]), ((1, 1), [0, 0])])
def test_a_win_is_paid_at_the_end_once(stocks, win):
    """In the step that ends the match, and in no other."""
    batch = scene(stocks=stocks, match={"tick": RULES.time_limit - 5})
    assert not terms_of(batch, 4)[:, TERM["win"]].any()
    assert terms_of(batch, 1)[:, TERM["win"]].tolist() == win
    assert not terms_of(batch, 20)[:, TERM["win"]].any()
