"""Samplers by hand arithmetic; what the pool makes of its results; nobody is drawn from what it cannot know."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from league import config as settings
from league.config.models import PoolConfig
from league.errors import ConfigError, LeagueError
from league.maths.davidson import Prior
from league.maths.pairs import PairCounts
from league.maths.ratings import bradley_terry
from league.pool import samplers
from league.pool.pool import Pool, Results
from league.pool.samplers import (
    by_quality,
    by_rating,
    draw_targets,
    newest,
    pfsp,
    quality_after_win,
    with_uniform,
)
from tests.helpers.pools import game, goes_on_alike

SAMPLERS = ("recent", "uniform", "latest", "pfsp_hard", "pfsp_var", "pfsp_linear", "quality", "nash", "rating")


def pool_of(num_snapshots: int, seed: int = 0, **changes: Any) -> Pool:
    """A pool with snapshots s0, s1, ... and the source's settings but for `changes`; nets are None."""
    values = {**settings.load().pool.model_dump(), "mix": {"self_play": 1.0}, **changes}
    pool = Pool(PoolConfig(**values), lambda agent_id: None, np.random.default_rng(seed))
    for i in range(num_snapshots):
        pool.admit(f"s{i}")
    return pool


def odds(pool: Pool, group: str = "self_play") -> list[float]:
    """What the group's sampler makes of the results of now."""
    pool.refresh_targets(set())
    return list(pool.odds[group].values())


def test_samplers_by_hand() -> None:
    """PFSP at win-rates 0, 1/2, 1; softmax of qualities; e^-1/2 a `width` away; windows; epsilon shared by all."""
    rates = np.array([0.0, 0.5, 1.0])
    assert pfsp(rates, "pfsp_hard") == pytest.approx([0.8, 0.2, 0.0])
    assert pfsp(rates, "pfsp_var") == pytest.approx([0.0, 1.0, 0.0])
    assert pfsp(rates, "pfsp_linear") == pytest.approx([0.5, 0.5, 0.0])
    for kind in ("pfsp_hard", "pfsp_var", "pfsp_linear"):
        assert pfsp(np.ones(4), kind).tolist() == [0.25] * 4, "weights that are all 0 do not become NaN"
    assert by_quality(np.array([0.0, math.log(3.0)])) == pytest.approx([0.25, 0.75])
    assert quality_after_win(math.log(3.0), 0.75, 2, 0.01) == pytest.approx(math.log(3.0) - 0.01 / 1.5)
    assert by_quality(np.array([0.0, -5000.0])).tolist() == [1.0, 0.0]
    near = by_rating(np.array([0.0, 100.0, -100.0]), 100.0)
    assert near[1:] / near[0] == pytest.approx([math.exp(-0.5)] * 2)
    assert by_rating(np.array([9e3, 8e3]), 10.0).tolist() == [0.0, 1.0], "where all are far the nearest takes all"
    assert newest(4, 2).tolist() == [0, 0, 0.5, 0.5] and newest(4, 9).tolist() == [0.25] * 4
    assert with_uniform(np.array([1.0, 0.0]), 0.2) == pytest.approx([0.9, 0.1])


def test_targets_are_drawn_as_often_as_their_weight_says() -> None:
    weights = np.array([0.0, 0.55, 0.3, 0.0, 0.1, 0.05, 0.0])
    members = list("abcdefg")
    rng = np.random.default_rng(0)
    taken: Counter[str] = Counter()
    for _ in range(4000):
        drawn = Counter(draw_targets(members, weights, 4, rng))
        assert sum(drawn.values()) == 4
        for member, weight in zip(members, weights, strict=True):
            assert drawn[member] in (math.floor(4 * weight), math.ceil(4 * weight))
        taken.update(drawn)
    for member, weight in zip(members, weights, strict=True):
        assert abs(taken[member] / 16_000 - weight) < 0.01
    assert len(set(draw_targets(members, np.full(7, 1 / 7), 7, rng))) == 7


def test_the_learners_results_fade_and_are_shrunk() -> None:
    results = Results(1000.0, 8)
    for _ in range(8):
        results.add(game("b", 1.0), "me", "s0")
    gap = float(results.gaps(["b"], ["s0"])[0])
    expected = 1.0 / (1.0 + 10.0 ** (-gap / 400.0))
    assert gap > 0 and results.win_rates(["b"], ["s0"]) == pytest.approx([(8 + 8 * expected) / 16])
    results.fade(1000)
    assert float(results.gaps(["b"], ["s0"])[0]) == gap, "games between what does not change never fade"
    assert results.win_rates(["b"], ["s0"]) == pytest.approx([(4 + 8 * expected) / 12])
    results.fade(500)
    results.add(game("b", 0.5, seat=1), "me", "s0")
    expected = 1.0 / (1.0 + 10.0 ** (-float(results.gaps(["b"], ["s0"])[0]) / 400.0))
    left = 4 / math.sqrt(2)
    assert results.win_rates(["b"], ["s0"]) == pytest.approx([(left + 0.5 + 8 * expected) / (left + 1 + 8)])


def test_ratings_are_bradley_terrys_of_the_snapshots_games() -> None:
    results = Results(1000.0, 8)
    for newest_snapshot, opponent, scores in (
        ("s0", "bot:x", (1.0, 0.0, 0.5)),
        ("s1", "s0", (1.0, 1.0)),
        ("s1", "bot:x", (1.0,)),
    ):
        for i, score in enumerate(scores):
            results.add(game(opponent, score, seat=i % 2), "me", newest_snapshot)
    # By hand: (seat 0, seat 1, its wins, draws, losses); s1 is held near its parent as by eight drawn games.
    rows = [("s0", "bot:x", 1, 1, 0), ("bot:x", "s0", 1, 0, 0), ("s1", "s0", 1, 0, 0), ("s0", "s1", 0, 0, 1)]
    rows += [("s1", "bot:x", 1, 0, 0)]
    seat0, seat1, *columns = zip(*rows, strict=True)
    counts = PairCounts(seat0, seat1, *(np.array(column) for column in columns))
    rated = bradley_terry(counts, lineage=[("s0", "s1")], prior=Prior(lineage=8))
    ratings = results.ratings(["s0", "s1"])
    assert ratings == pytest.approx(dict(zip(rated.agents, rated.rating, strict=True)))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_gives_probabilities_whatever_the_results(sampler: str) -> None:
    for score in (None, 1.0, 0.0, 0.5):
        for size in (1, 2, 12):
            groups = {"mix": {"self_play": 0.5, "bots": 0.5}, "groups": {"bots": ["bot:a", "bot:b"]}}
            pool = pool_of(size, sampler=sampler, group_sampler=sampler, **groups)
            for _ in range(40):
                if score is not None:
                    opponents = ["bot:a", *pool.snapshots]
                    pool.record([game(opponent, score) for opponent in opponents], "me", 1000)
            for found in (odds(pool), odds(pool, "bots")):
                assert math.isclose(sum(found), 1.0) and all(math.isfinite(p) for p in found)
                if sampler not in ("recent", "uniform", "latest"):
                    assert min(found) >= pool.config.epsilon / len(found) - 1e-12
            assert len(pool.targets) == pool.config.live_nets
            assert {pool.draw() for _ in range(50)} <= {*pool.snapshots, "bot:a", "bot:b"}


def play_rounds(pool: Pool, scores: dict[str, float], rounds: int = 60) -> None:
    """So many games against each, with these scores."""
    for _ in range(rounds):
        pool.record([game(opponent, score) for opponent, score in scores.items()], "me", 10)


def test_pfsp_hard_seeks_whom_the_learner_cannot_beat() -> None:
    pool = pool_of(4, sampler="pfsp_hard", epsilon=0.2)
    play_rounds(pool, {"s0": 1.0, "s1": 0.0, "s2": 1.0})
    rates = pool.results.win_rates(pool.snapshots, pool.snapshots)
    weights = (1 - rates) ** 2
    assert odds(pool) == pytest.approx(0.8 * weights / weights.sum() + 0.05)
    assert max(pool.odds["self_play"], key=lambda s: pool.odds["self_play"][s]) == "s1" and rates[1] < 0.2
    metrics = pool.agent_metrics()
    assert metrics["pool/odds", "s1"] == odds(pool)[1] and metrics["pool/win_rate", "s1"] == pytest.approx(rates[1])


def test_qualities_follow_the_papers_update() -> None:
    """Wins lower a quality by rate / (N p), one by one; losses and draws do not; a new one enters at the max."""
    pool = pool_of(3, sampler="quality", quality_rate=0.5, epsilon=0.1)
    qualities = [0.0, 0.0, 0.0]
    for opponent, score in ((0, 1.0), (0, 1.0), (1, 0.0), (2, 0.5), (1, 1.0), (0, 1.0)):
        pool.record([game(f"s{opponent}", score)], "me", 10)
        if score == 1.0:
            chance = 0.9 * math.exp(qualities[opponent]) / sum(map(math.exp, qualities)) + 0.1 / 3
            qualities[opponent] -= 0.5 / (3 * chance)
    pool.admit("s3")
    qualities.append(max(qualities))
    total = sum(map(math.exp, qualities))
    assert odds(pool) == pytest.approx([0.9 * math.exp(q) / total + 0.025 for q in qualities])
    assert qualities[0] < qualities[1] < qualities[2] == qualities[3] == 0.0


def test_nash_mixes_the_snapshots_that_a_cycle_makes_equal() -> None:
    pool = pool_of(1, sampler="nash", epsilon=0.0)
    beats = {("s1", "s0"): 0.0, ("s2", "s1"): 0.0, ("s2", "s0"): 1.0}  # (learner's snapshot, opponent): its score
    beats |= {("s3", f"s{i}"): 0.0 for i in range(3)}
    for number in (1, 2, 3):
        pool.admit(f"s{number}")
        for (newest_snapshot, opponent), score in beats.items():
            if newest_snapshot == f"s{number}":
                pool.record([game(opponent, score, seat=i % 2) for i in range(200)], "me", 10)
    assert odds(pool) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0.0], abs=0.03)


def test_groups_share_what_the_mix_gives_them() -> None:
    mix = {"self_play": 0.4, "hard": 0.5, "bot:c": 0.1}
    pool = pool_of(3, mix=mix, groups={"hard": ["bot:a", "bot:b"]}, group_sampler="pfsp_hard", epsilon=0.0)
    play_rounds(pool, {"bot:a": 1.0, "bot:b": 0.0})
    pool.refresh_targets(set())
    drawn = Counter(pool.draw() for _ in range(4000))
    groups = Counter(pool.group_of(agent) for agent in drawn.elements())
    for group, share in mix.items():
        assert abs(groups[group] / 4000 - share) < 0.04
    assert drawn["bot:b"] / groups["hard"] == pytest.approx(pool.odds["hard"]["bot:b"], abs=0.03)
    assert pool.odds["hard"]["bot:b"] > 0.9


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_restored_pool_draws_the_same(sampler: str, tmp_path: Path) -> None:
    mix = {"self_play": 0.5, "bots": 0.5}
    changes = {"mix": mix, "groups": {"bots": ["bot:a", "bot:b"]}, "sampler": sampler, "group_sampler": sampler}
    goes_on_alike(pool_of(2, **changes), pool_of(0, seed=9, **changes), tmp_path)


def test_a_sampler_of_ones_own_is_drawn_from() -> None:
    def oldest(known: samplers.Known) -> Any:
        assert known.win_rates().shape == known.gaps().shape == known.qualities().shape == (3,)
        assert known.payoff().shape == (3, 3) and list(known.members) == ["a", "b", "c"]
        return [7.0, 0.0, 0.0]

    samplers.register("oldest", oldest)
    try:
        values = settings.load().pool.model_dump() | {"mix": {"self_play": 1.0}, "epsilon": 0.3}
        config = PoolConfig.model_construct(**values | {"sampler": "oldest"})
        pool = Pool(config, lambda agent_id: None, np.random.default_rng(0))
        for member in "abc":
            pool.admit(member)
        pool.refresh_targets(set())
        assert pool.odds["self_play"] == pytest.approx({"a": 0.8, "b": 0.1, "c": 0.1})
        samplers.register("oldest", oldest)
        with pytest.raises(ConfigError, match="already registered"):
            samplers.register("oldest", lambda known: np.ones(3))
        with pytest.raises(ConfigError, match="already registered"):
            samplers.register("nash", oldest)
    finally:
        del samplers.SAMPLERS["oldest"], samplers._registered["oldest"]


@pytest.mark.parametrize("given", [[1.0], [0.0, 0.0], [-1.0, 2.0], [float("nan"), 1.0], None, "ab", [[1.0, 2.0]]])
def test_what_are_no_weights_is_one_line(given: Any) -> None:
    samplers.register("odd", lambda known: given)
    try:
        known: Any = SimpleNamespace(members=["a", "b"], config=settings.load().pool)
        with pytest.raises(LeagueError, match=r"sampler odd: returned .* for 2 members; it must return one weight for"):
            samplers.probabilities("odd", known)
        with pytest.raises(ConfigError, match=r"pool.sampler='nahs' is no sampler; did you mean `nash`"):
            samplers.probabilities("nahs", known)
    finally:
        del samplers.SAMPLERS["odd"], samplers._registered["odd"]
