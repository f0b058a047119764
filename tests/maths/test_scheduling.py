"""The schedule: everybody meets whom they should, and the adaptive one plays what a refit says is worth most."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from benchmarks.peeking import summary
from benchmarks.schedule import simulate
from league.arena.tournaments import Objective
from league.maths.davidson import Games, Posterior, Prior, fit
from league.maths.means import Z95
from league.maths.pairs import PairCounts
from league.maths.ratings import Ratings, bradley_terry
from league.maths.scheduling import (
    UNIT,
    Information,
    Want,
    anytime,
    contrasts,
    gauntlet,
    narrowest,
    round_robin,
    spread,
    widths,
)


def made_up(seed: int, num_agents: int = 5, draws: float = 0.3) -> Games:
    """A small league in which not everybody has met, some of whom are snapshots in a row."""
    rng = np.random.default_rng(seed)
    pairs = np.array([(i, j) for i in range(num_agents) for j in range(num_agents) if i != j and rng.random() < 0.5])
    pairs = np.concatenate([pairs, [(i, i + 1) for i in range(num_agents - 1)]])
    total = rng.integers(1, 12, len(pairs))
    drawn = rng.binomial(total, draws)
    won = rng.binomial(total - drawn, 0.6)
    return Games(
        num_agents,
        pairs[:, 0],
        pairs[:, 1],
        won.astype(float),
        drawn.astype(float),
        (total - drawn - won).astype(float),
        np.array([(0, 1)]),
        np.ones(len(pairs)),
    )


def with_expected(games: Games, model: Posterior, i: int, j: int, times: float) -> Games:
    """The same with `times` pairs of games of i and j that end just as the model expects."""
    gap = model.strength[i] - model.strength[j]
    win, draw, loss = model.probabilities(np.array([gap + model.seat, model.seat - gap]))
    return replace(
        games,
        first=np.append(games.first, [i, j]),
        second=np.append(games.second, [j, i]),
        wins=np.append(games.wins, times * win),
        draws=np.append(games.draws, times * draw),
        losses=np.append(games.losses, times * loss),
        seated=np.append(games.seated, [1.0, 1.0]),
    )


def refitted(games: Games, model: Posterior, i: int, j: int, times: float) -> np.ndarray:
    """The covariance of a fit to the games and the expected ones: the slow twin of `Information.after`.

    The imagined draws are held where they are.
    """
    again = fit(with_expected(games, model, i, j, times), Prior(), model.bonds)
    assert again.strength == pytest.approx(model.strength, abs=1e-6), "expected games change no rating"
    return again.covariance


def contrast(num_agents: int, a: int, b: int) -> np.ndarray:
    weights = np.zeros(num_agents + 2)
    weights[[a, b]] = 1.0, -1.0
    return weights


def test_everybody_meets_whom_they_should() -> None:
    """A round robin has every pair once; a gauntlet only those of a seed against one that is none."""
    assert round_robin(4) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert gauntlet(4) == [(0, 1), (0, 2), (0, 3)]
    assert gauntlet(4, seeds=2) == [(0, 2), (0, 3), (1, 2), (1, 3)]


def test_batches_keep_all_pairs_level() -> None:
    """Who has most left to play plays first; nothing is handed out twice, and in the end nothing is left."""
    left, batches = np.array([5, 2, 9]), []
    while left.any():
        batches.append(spread(left, 6))
        left = left - batches[-1]
        assert left.min() >= 0 and batches[-1].sum() <= 6
    assert batches[0].tolist() == [1, 0, 5] and sum(batches).tolist() == [5, 2, 9]
    assert spread(np.array([3, 3, 3]), 6).tolist() == [2, 2, 2]


@pytest.mark.parametrize("draws", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_expected_variances_are_those_of_a_refit(seed: int, draws: float) -> None:
    games = made_up(seed, draws=draws)
    model = fit(games, Prior())
    pairs = np.array(round_robin(games.num_agents))
    information = Information.of(model, pairs)
    wanted = contrast(games.num_agents, 0, 3)
    for times in (1.0, 7.0):
        gained = information.gains(model.covariance, wanted, times)
        for p, (i, j) in enumerate(pairs.tolist()):
            slow = refitted(games, model, i, j, times)
            assert information.after(model.covariance, p, times) == pytest.approx(slow, abs=3e-6)
            before = wanted @ model.covariance @ wanted
            assert gained[p] == pytest.approx(before - wanted @ slow @ wanted, abs=3e-6)


@pytest.mark.parametrize("seed", range(6))
def test_the_pair_that_narrows_the_widest_interval_most_is_played(seed: int) -> None:
    games = made_up(seed)
    model = fit(games, Prior())
    pairs = np.array(round_robin(games.num_agents))
    wanted = np.array([contrast(games.num_agents, a, b) for a, b in ((0, 1), (2, 4), (1, 3))])
    left, given = games, np.zeros(len(pairs), np.int64)
    for units in (1, 2):
        now = fit(left, Prior(), model.bonds)
        widest = wanted[np.argmax(widths(now.covariance, wanted))]
        variances = [widest @ refitted(left, now, i, j, UNIT) @ widest for i, j in pairs.tolist()]
        best = int(np.argmin(variances))
        given[best] += UNIT
        left = with_expected(left, now, *pairs[best].tolist(), UNIT)
        assert narrowest(model, pairs, wanted, units * UNIT).tolist() == given.tolist()


def test_nothing_is_played_once_all_is_narrow() -> None:
    model = fit(made_up(0), Prior())
    pairs = np.array(round_robin(5))
    wanted = np.array([contrast(5, 0, 1)])
    width = widths(model.covariance, wanted)[0]
    assert not narrowest(model, pairs, wanted, 100, until=width + 1).any()
    some = narrowest(model, pairs, wanted, 1000, until=width / 2)
    assert 0 < some.sum() < 1000
    covariance, information = model.covariance, Information.of(model, pairs)
    for pair in np.flatnonzero(some):
        covariance = information.after(covariance, pair, some[pair])
    assert widths(covariance, wanted)[0] <= width / 2


def rated(strengths: list[float], games: int = 40) -> Ratings:
    """Ratings of a, b, c, ... from a round robin that went as expected; each met each in both seats."""
    names = "abcdefgh"[: len(strengths)]
    rows = []
    for i, j in combinations(range(len(names)), 2):
        won = round(games / (1 + 10 ** ((strengths[j] - strengths[i]) / 400)))
        rows += [(names[i], names[j], won, games - won), (names[j], names[i], games - won, won)]
    first, second, wins, losses = zip(*rows, strict=True)
    counts = PairCounts(first, second, np.array(wins), np.zeros(len(rows), np.int64), np.array(losses))
    return bradley_terry(counts, "d")


def test_goals_are_the_differences_that_one_wants_to_know() -> None:
    ratings = rated([100, 300, 290, 0])

    def pairs(want: Want, entrants: str) -> list[tuple[str, str | None]]:
        return [(contrast.a, contrast.b) for contrast in contrasts(want, ratings, tuple(entrants))]

    assert pairs("order", "abcd") == [("b", "c"), ("c", "a"), ("a", "d")]
    assert pairs("top", "abcd") == [("b", "c")]
    assert pairs("top", "bd") == []
    assert pairs("all", "abcd") == [("b", "d"), ("c", "d"), ("a", "d")]
    assert pairs("all", "ab") == [("b", None), ("a", None)]
    assert [(c.a, c.b) for c in contrasts("all", ratings, "abcd", ("c", "a"))] == [("c", "a")]
    for contrast in contrasts("all", ratings, "abc") + contrasts("order", ratings, "abcd"):
        assert contrast.weights.sum() == pytest.approx(0.0) and contrast.is_linked


def test_anytime_intervals_hold_at_all_looks() -> None:
    rng = np.random.default_rng(0)
    told = np.geomspace(1e-7, 1e2, 400)
    scores = np.cumsum(rng.normal(size=(4_000, 400)) * np.sqrt(np.diff(told, prepend=0.0)), axis=1)
    errors, deviation = np.abs(scores / told), told**-0.5
    assert 0.02 < np.mean((errors > anytime(deviation)).any(axis=1)) < 0.05
    assert np.mean((errors > Z95 * deviation).any(axis=1)) > 0.8, "intervals for one look"
    assert anytime(np.zeros(2)).tolist() == [0.0, 0.0] and (np.diff(anytime(np.linspace(0.0, 900.0, 99))) > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("league", "max_games", "runs"),
    [
        ("two equal", 1000, 400),
        ("two equal", 3000, 200),
        ("two equal, four 200 below", 1000, 200),
        ("six equal", 1000, 200),
    ],
)
def test_adaptive_tournaments_decide_falsely_in_one_of_twenty(league: str, max_games: int, runs: int) -> None:
    """The table of docs/ratings.md: at most 5 % of tournaments name a best agent that is not the only best one."""
    found = summary(league, Objective("top", None, None, max_games), runs)
    assert found["false"] <= 0.05 and found["missed"] <= 0.2, found


@pytest.mark.slow
def test_the_adaptive_schedule_takes_fewer_games() -> None:
    """For neighbours known to within 200 points a round robin takes over twice as many games (docs/ratings.md)."""
    games = {kind: [simulate(kind, "order", seed, 200.0) for seed in range(5)] for kind in ("adaptive", "round-robin")}
    assert sum(games["round-robin"]) > 2 * sum(games["adaptive"]), games
