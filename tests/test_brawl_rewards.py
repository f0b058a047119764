"""Brawl's reward terms: they tell what happened, once, and none can be farmed."""

from __future__ import annotations

import numpy as np
import pytest

from league.envs.brawl.env import KEYS, SPEC, Options, make, options_hash
from league.envs.brawl.reference import next_seed
from league.envs.brawl.rules import Rules
from league.envs.brawl.state import pack_state, unpack_state

TERM = {name: i for i, name in enumerate(SPEC.reward_terms)}
METRIC = {name: i for i, name in enumerate(SPEC.metrics)}
OPTIONS = Options()


def scene(options=OPTIONS, **fields):
    """A one-match batch whose fighters have these fields, (seat 0's, seat 1's); the rest as at a match's start."""
    batch = make(1, 1, options)
    records = unpack_state(batch.get_state(), 1, options_hash(options))
    for name, values in fields.items():
        records["fighters"][name][0] = values
    batch.set_state(pack_state(records, options_hash(options)))
    return batch


def press(batch, seat, *keys):
    batch.actions[0, seat] = [key in keys for key in KEYS]


def close(**more):
    """Two fighters on the ground within reach, seat 0 facing seat 1."""
    return {"x": (-0.5, 0.5), "y": (0, 0), "facing": (1, -1), "on_ground": (1, 1), **more}


def terms_of(batch, steps):
    """Summed terms (2, R) of the one match over some steps."""
    total = np.zeros((2, len(TERM)))
    for _ in range(steps):
        batch.step()
        total += batch.reward_terms[0]
    return total


def test_sums_agree_with_the_metrics_of_the_match():
    """Over whole matches each summed term is the finished match's own count of the same thing."""
    options = Options(time_limit_seconds=15.0, stocks=2)
    batch = make(60, 1, options)
    batch.reset(21)
    batch.controllers[:30] = (1, 2)
    batch.controllers[30:, 1] = 2
    rng = np.random.default_rng(21)
    sums = np.zeros((60, 2, len(TERM)))
    ended = 0
    while ended < 150:
        batch.actions[:] = rng.random(batch.actions.shape) < 0.4
        batch.step()
        sums += batch.reward_terms
        for i in np.flatnonzero(batch.terminated):
            check_sums(sums[i], batch.result[i], options)
            sums[i] = 0.0
            ended += 1


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
    win = {0: (1, -1), 1: (-1, 1), -1: (0, 0)}[int(result["winner"])]
    np.testing.assert_array_equal(term("win"), win)
    assert (term("danger_zone") <= metric("air_time") + 1e-3).all()


def test_nothing_leaks_over_a_match_end():
    """The match after an ended one shows and pays exactly what a batch newly reset to its seed does."""
    options = Options(time_limit_seconds=6.0, stocks=1)
    batch = make(1, 1, options)
    batch.controllers[:] = (1, 2)
    batch.reset(np.array([4], np.uint64))
    for _ in range(3):
        while True:
            batch.step()
            if batch.terminated[0]:
                break
        fresh = make(1, 1, options)
        fresh.controllers[:] = (1, 2)
        fresh.reset(np.array([next_seed(int(batch.result["seed"][0]))], np.uint64))
        assert fresh.obs.tobytes() == batch.obs.tobytes()
        other = make(1, 1, options)
        other.set_state(batch.get_state())
        for _ in range(20):
            other.step()
            fresh.step()
            assert other.reward_terms.tobytes() == fresh.reward_terms.tobytes()


def test_walking_back_and_forth_gains_nothing():
    """Before an idle opponent a walker's approach is its start distance less its end distance, turn as it may."""
    batch = scene(x=(-3.0, 4.0), on_ground=(1, 1))
    start = 7.0
    total = np.zeros(2)
    for cycle in range(10):
        for key in ("right", "left"):
            press(batch, 0, key)
            total += terms_of(batch, 6)[:, TERM["approach"]]
            end = (batch.obs[0, 1, 0] - batch.obs[0, 0, 0]) * Rules().blast_side
            assert total[0] == pytest.approx(start - end, abs=1e-4), cycle
            assert total[1] == 0.0


def test_approach_shares_sum_to_the_decrease_of_the_distance():
    """Both seats' approach together is what the distance lost, so that two fighters cannot pump it in turns."""
    batch = scene(x=(-3.0, 4.0), on_ground=(1, 1))
    rng = np.random.default_rng(8)
    total, start = 0.0, 7.0
    for _ in range(60):
        batch.actions[:] = rng.random(batch.actions.shape) < 0.5
        batch.actions[:, :, KEYS.index("dodge")] = 0
        batch.step()
        if batch.reward_terms[0, :, TERM["stock_lost"]].any():
            break
        total += batch.reward_terms[0, :, TERM["approach"]].sum()
        own, other = batch.obs[0, 0, :2], batch.obs[0, 0, 32:34]
        gap = (own - other) * (Rules().blast_side, Rules().blast_top)
        assert total == pytest.approx(start - np.hypot(*gap), abs=1e-3)


def test_a_respawn_is_no_approach():
    """Leaving the field and coming back to it move nobody nearer."""
    batch = scene(x=(-13.9, 6.0), y=(-3.0, 0.0), vx=(-9.0, 0.0), on_ground=(0, 1), respawn=(0, 0))
    sums = terms_of(batch, 16)
    assert sums[0, TERM["stock_lost"]] == 1.0
    assert (np.abs(sums[:, TERM["approach"]]) < 1.0).all()


def test_a_hit_pays_both_ways():
    """A side light on a neighbour pays its points to the hitter and charges them to the one hit, once."""
    batch = scene(**close())
    press(batch, 0, "light", "right")
    sums = terms_of(batch, 4)
    assert sums[0, TERM["damage_dealt"]] == pytest.approx(0.10)
    assert sums[1, TERM["damage_taken"]] == pytest.approx(0.10)
    assert (sums[0, TERM["hit"]], sums[0, TERM["attack"]], sums[1, TERM["hit"]]) == (1, 1, 0)


@pytest.mark.parametrize("field", ["invulnerable", "dodge", "respawn"])
def test_nothing_is_gained_from_hitting_who_cannot_be_hit(field):
    """Blows on a protected, dodging or absent opponent pay no damage and no hit."""
    batch = scene(**close(**{field: (0, 500)}))
    press(batch, 0, "light")
    sums = terms_of(batch, 40)
    assert sums[0, TERM["attack"]] > 5
    assert sums[0, TERM["damage_dealt"]] == sums[0, TERM["hit"]] == sums[1, TERM["damage_taken"]] == 0.0


@pytest.mark.parametrize(("credit", "credited"), [(0, 0.0), (60, 1.0)])
def test_a_knock_out_needs_a_recent_hit(credit, credited):
    """A lost stock is the opponent's knock-out only within the ticks of credit after its hit."""
    batch = scene(x=(13.5, 0.0), vx=(20.0, 0.0), y=(1.0, 0.0), on_ground=(0, 1), credit=(credit, 0))
    sums = terms_of(batch, 5)
    assert sums[0, TERM["stock_lost"]] == 1.0
    assert sums[1, TERM["knock_out"]] == credited


def test_a_hit_gives_credit_for_ninety_ticks():
    """The hit one tick counts; after 90 ticks without another the credit is gone."""
    batch = scene(Options(ticks_per_step=1), **close())
    press(batch, 0, "light", "right")
    while batch.reward_terms[0, 0, TERM["hit"]] == 0:
        batch.step()
    press(batch, 0)
    for left in range(90, -1, -1):
        assert batch.obs[0, 1, 31] == pytest.approx(left / 90)
        batch.step()


def test_danger_zone_is_seconds_over_the_side():
    """One second off stage is 1.0, and one in the air over the stage is 0."""
    batch = scene(x=(10.0, 0.0), y=(11.0, 11.0), on_ground=(0, 0))
    sums = terms_of(batch, 10)
    assert sums[:, TERM["danger_zone"]] == pytest.approx([1.0, 0.0])
