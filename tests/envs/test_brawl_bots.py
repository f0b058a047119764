"""Brawl's bots: who beats whom, and that they play rather than fall."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from league.envs.brawl.env import FIELDS, Options, make
from league.envs.brawl.rules import BOTS, METRICS
from league.types import DRAW

LADDER = ("rusher", "zoner", "edge_guarder", "punisher")
STUN = [name for name, *_ in FIELDS].index("stun")


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
    """Each of the four loses to another of them: a learner cannot rest on one answer."""
    assert max(score(other, bot) for other in LADDER if other != bot) > 0.5


@pytest.mark.parametrize("bot", LADDER)
def test_the_ladder_stands_above_the_simple_bots(bot):
    """Each of the four beats `based`, `random` and `constant`, most of the time."""
    assert score(bot, "based") > 0.6
    assert score(bot, "random") > 0.7
    assert score(bot, "constant") > 0.95


def test_based_beats_the_idle_and_the_aimless():
    """`based` takes the stocks of an idle opponent within the clock, and nearly always beats `random`."""
    idle = played("based", "constant")
    assert (idle["winner"] == 0).mean() > 0.98
    assert idle["ticks"].mean() < 3 * 10 * 30
    assert score("based", "random") > 0.65


@pytest.mark.parametrize("bot", ("based", *LADDER))
def test_bots_fight_and_hardly_destroy_themselves(bot):
    """Against itself a bot hits, knocks out, moves in the air, and loses few stocks by itself."""
    results = played(bot, bot)
    assert metric(results, 0, "self_destructs") < 0.15
    assert metric(results, 0, "hits") > 5
    assert metric(results, 0, "knock_outs") > 0.3
    assert metric(results, 0, "air_time") > 2.0


def test_the_ladder_uses_the_game():
    """The rusher dashes, the zoner arms itself, the punisher dodges, more than any other of the four."""
    used = {name: [metric(played(bot, "based"), 0, name) for bot in LADDER] for name in ("dashes", "pickups", "dodges")}
    assert np.argmax(used["dashes"]) == LADDER.index("rusher")
    assert np.argmax(used["pickups"]) == LADDER.index("zoner")
    assert np.argmax(used["dodges"]) == LADDER.index("punisher")


def test_the_charger_beats_who_comes_near():
    """Most of its heavy attacks are charged: one hit of it does more than two of the others'. `punisher` waits."""
    for bot in ("based", "rusher", "edge_guarder"):
        assert score("charger", bot) > 0.85
    assert score("punisher", "charger") > 0.4
    results = played("charger", "based")
    hard = [metric(results, place, "damage_dealt") / metric(results, place, "hits") for place in (0, 1)]
    assert hard[0] > 2 * hard[1]
    assert metric(results, 0, "self_destructs") < 0.15
    assert metric(results, 0, "air_time") < metric(results, 1, "air_time")


def test_random_lasts_a_while_on_a_stock():
    """`random` destroys itself now and then, but keeps a stock for more than 4 seconds on average."""
    results = played("random", "constant")
    lost = metric(results, 0, "self_destructs")
    assert lost > 0.5
    assert results["ticks"].mean() / 30 / lost > 4


def test_constant_does_nothing():
    """Two idle fighters stand to the clock and draw."""
    results = played("constant", "constant", 4)
    assert (results["winner"] == DRAW).all() and (results["ticks"] == 1200).all()
    assert metric(results, 0, "attacks") == metric(results, 0, "air_time") == 0


def test_nobody_is_held_in_stun_for_long():
    """In fights of every bot against every other no fighter goes without control by stun for 4 seconds on end."""
    bots = BOTS[1:]
    batch = make(len(bots) ** 2 * 4, 1, Options())
    batch.controllers[:] = [(BOTS.index(a), BOTS.index(b)) for a in bots for b in bots] * 4
    batch.reset(8)
    streak = np.zeros((batch.num_rows, 2), int)
    longest = 0
    for _ in range(800):
        batch.step()
        streak = np.where((batch.obs[:, :, STUN] > 0) & ~batch.terminated[:, None], streak + 3, 0)
        longest = max(longest, int(streak.max()))
    assert 20 < longest < 120
