"""Brawl favours no seat and no side, its bots play, and it is the same game wherever it is played."""

import threading
from functools import cache

import numpy as np
import pytest

from league.envs.brawl.env import FIELDS, KEYS, Options, make
from league.envs.brawl.rules import BOTS, METRICS
from league.types import DRAW, EXTERNAL
from tests.helpers.brawl_scenes import random_keys, records_of, restore, stir

SHORT = Options(ticks_per_step=2, time_limit_seconds=15.0, stocks=2, respawn_seconds=0.5)


def exchanged(records):
    """The matches with their fighters in each other's seat, controllers and streams with them."""
    records = records.copy()
    records["fighters"] = records["fighters"][:, ::-1].copy()
    return records


def test_seat_exchange_gives_the_exchanged_match_bit_for_bit():
    """Over stirred random play of all bots, fighters, controllers and actions swapped play on as the exact exchange."""
    pairs = [(EXTERNAL, EXTERNAL)] * 10 + [(EXTERNAL, bot) for bot in range(7)] + [(bot, bot) for bot in range(1, 7)]
    pairs += [(3, 4), (5, 6), (2, 6)]
    rows, rng, ends = len(pairs), np.random.default_rng(5), 0
    batch, mirror = make(rows, 1, SHORT), make(rows, 1, SHORT)
    batch.controllers[:] = pairs
    batch.reset(5)
    restore(mirror, exchanged(records_of(batch)))
    for step in range(800):
        if step % 3 == 0:
            batch.actions[:] = random_keys(rng, rows)
        if step % 10 == 0:
            records = records_of(batch)
            stir(records, rng)
            restore(batch, records)
            restore(mirror, exchanged(records))
            batch.actions[rng.random(rows) < 0.3] = [key == "pickup" for key in KEYS]
        mirror.actions[:] = batch.actions[:, ::-1]
        batch.step()
        mirror.step()
        assert_exchanged(batch, mirror)
        ended, after = batch.terminated, records_of(batch)
        assert exchanged(after)[~ended].tobytes() == records_of(mirror)[~ended].tobytes()
        if ended.any():
            ends += int(ended.sum())
            restore(mirror, exchanged(after))
    assert ends > 20


def assert_exchanged(batch, mirror):
    np.testing.assert_array_equal(batch.terminated, mirror.terminated)
    np.testing.assert_array_equal(batch.reward_terms, mirror.reward_terms[:, ::-1])
    on, ended = ~batch.terminated, batch.terminated
    np.testing.assert_array_equal(batch.obs[on], mirror.obs[on, ::-1])
    np.testing.assert_array_equal(batch.mask[on], mirror.mask[on, ::-1])
    np.testing.assert_array_equal(batch.final_obs[ended], mirror.final_obs[ended, ::-1])
    for ours, theirs in zip(batch.result[ended], mirror.result[ended], strict=True):
        assert theirs["winner"] == (DRAW if ours["winner"] == DRAW else 1 - ours["winner"])
        assert (theirs["end_reason"], theirs["ticks"]) == (ours["end_reason"], ours["ticks"])
        np.testing.assert_array_equal(theirs["metrics"], ours["metrics"][::-1])


@pytest.mark.parametrize("bot", [pytest.param(i, id=name) for i, name in enumerate(BOTS)])
@pytest.mark.slow
def test_mirror_matches_are_even(bot):
    """A bot against itself wins from both seats and from both sides equally often, within 4 sigma of 3,000 matches."""
    batch = make(500, 1, Options())
    batch.controllers[:] = bot
    batch.reset(17)
    sides, winners = [], []
    side = batch.obs[:, 0, 0] > 0
    while len(winners) < 3000:
        batch.step()
        ended = batch.terminated
        sides += side[ended].tolist()
        winners += batch.result["winner"][ended].tolist()
        side[ended] = batch.obs[ended, 0, 0] > 0
    side, winner = np.array(sides), np.array(winners)
    decided = winner != DRAW
    assert abs(side.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(side))
    if BOTS[bot] == "constant":
        assert not decided.any()
        return
    assert decided.mean() > (0.4 if BOTS[bot] == "charger" else 0.5)  # two of it often wait for each other
    for first in (winner == 0, (winner == 0) == side):
        assert abs(first[decided].mean() - 0.5) < 4 * 0.5 / np.sqrt(decided.sum())


@pytest.mark.parametrize("threads", [1, 2])
def test_a_step_lets_other_python_threads_run(threads):
    """The main thread looks on while one call of step is under way: the first row is played, the last one not yet."""
    batch = make(20_000, threads, Options(ticks_per_step=30))
    batch.controllers[:] = BOTS.index("punisher")
    clock = [name for name, *_ in FIELDS].index("time_left")
    first, last = batch.obs[0, 0], batch.obs[-1, 0]
    looked_on = 0
    for _ in range(3):
        thread = threading.Thread(target=batch.step)
        thread.start()
        while thread.is_alive():
            looked_on += bool(first[clock] < last[clock])
        thread.join()
        assert first[clock] == last[clock]
    assert looked_on > 0


LADDER = ("rusher", "zoner", "edge_guarder", "punisher")


@cache
def played(first, second, matches=400):
    """The results of `matches` matches of two bots, both seatings, `first` always in the first place."""
    batch = make(matches, 1, Options())
    half = matches // 2
    batch.controllers[:half] = (BOTS.index(first), BOTS.index(second))
    batch.controllers[half:] = (BOTS.index(second), BOTS.index(first))
    batch.reset(31)
    results, open_rows = np.zeros(matches, batch.result.dtype), np.ones(matches, bool)
    while open_rows.any():
        batch.step()
        ended = batch.terminated & open_rows
        results[ended] = batch.result[ended]
        open_rows &= ~ended
    results["winner"][half:] = np.where(results["winner"][half:] == DRAW, DRAW, 1 - results["winner"][half:])
    results["metrics"][half:] = results["metrics"][half:, ::-1]
    return results


def score(first, second):
    """Wins and half the draws of `first`, as a share."""
    winner = played(first, second)["winner"]
    return (winner == 0).mean() + (winner == DRAW).mean() / 2


def metric(results, place, name):
    return results["metrics"][:, place, METRICS.index(name)].mean()


@pytest.mark.parametrize("bot", LADDER)
def test_none_of_the_ladder_is_unbeaten(bot):
    assert max(score(other, bot) for other in LADDER if other != bot) > 0.5


@pytest.mark.parametrize("bot", LADDER)
def test_the_ladder_stands_above_the_simple_bots(bot):
    assert score(bot, "based") > 0.6
    assert score(bot, "random") > 0.7
    assert score(bot, "constant") > 0.95


def test_based_beats_the_idle_and_the_aimless():
    idle = played("based", "constant")
    assert (idle["winner"] == 0).mean() > 0.98
    assert idle["ticks"].mean() < 3 * 10 * 30
    assert score("based", "random") > 0.65


@pytest.mark.parametrize("bot", ("based", *LADDER))
def test_bots_fight_and_hardly_destroy_themselves(bot):
    results = played(bot, bot)
    assert metric(results, 0, "self_destructs") < 0.15
    assert metric(results, 0, "hits") > 5
    assert metric(results, 0, "knock_outs") > 0.3
    assert metric(results, 0, "air_time") > 2.0
