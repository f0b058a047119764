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
from league.errors import ConfigError, GuardError, LeagueError
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
from league.snapshots.state import load_state, save_state
from league.types import DRAW, MatchResult

SAMPLERS = ("recent", "uniform", "latest", "pfsp_hard", "pfsp_var", "pfsp_linear", "quality", "nash", "rating")


def game(opponent: str, score: float, *, seat: int = 0, learner: str = "me") -> MatchResult:
    """A training match in which the learner, in `seat`, scored 1, 0.5 or 0."""
    agents = (learner, opponent) if seat == 0 else (opponent, learner)
    winner = DRAW if score == 0.5 else seat if score == 1.0 else 1 - seat
    return MatchResult("me", "training", 1, 0, 0, "g", agents, 1, winner, "time", 1, 1, "sample", 0, 0)


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


def test_pfsp_by_hand() -> None:
    """At win-rates 0, 1/2, 1: hard 1, 1/4, 0; variance 0, 1/4, 0; linear 1/2, 1/2, 0; over their sums."""
    rates = np.array([0.0, 0.5, 1.0])
    assert pfsp(rates, "pfsp_hard") == pytest.approx([0.8, 0.2, 0.0])
    assert pfsp(rates, "pfsp_var") == pytest.approx([0.0, 1.0, 0.0])
    assert pfsp(rates, "pfsp_linear") == pytest.approx([0.5, 0.5, 0.0])
    assert pfsp(np.array([0.2, 0.6]), "pfsp_linear") == pytest.approx([5 / 9, 4 / 9])


@pytest.mark.parametrize("kind", ["pfsp_hard", "pfsp_var", "pfsp_linear"])
def test_pfsp_is_uniform_where_everything_is_won(kind: str) -> None:
    """Weights that are all 0 do not become NaN (DI-engine's and DI-star's `pfsp` do)."""
    assert pfsp(np.ones(4), kind).tolist() == [0.25] * 4
    if kind == "pfsp_var":
        assert pfsp(np.array([0.0, 1.0]), kind).tolist() == [0.5, 0.5]


def test_qualities_by_hand() -> None:
    """Softmax of 0 and ln 3 is 1/4, 3/4; beating the second costs it 0.01 / (2 * 3/4)."""
    chances = by_quality(np.array([0.0, math.log(3.0)]))
    assert chances == pytest.approx([0.25, 0.75])
    assert quality_after_win(math.log(3.0), 0.75, 2, 0.01) == pytest.approx(math.log(3.0) - 0.01 / 1.5)
    far = by_quality(np.array([0.0, -5000.0]))
    assert far.tolist() == [1.0, 0.0] and quality_after_win(-5000.0, 0.0, 2, 0.01) == -5000.0


def test_near_equals_by_hand() -> None:
    """One `width` away is e^-1/2 as likely as an equal, either way; where all are far the nearest takes all."""
    assert by_rating(np.array([0.0, 100.0, -100.0]), 100.0)[1:] / by_rating(np.array([0.0, 100.0, -100.0]), 100.0)[
        0
    ] == pytest.approx([math.exp(-0.5)] * 2)
    assert by_rating(np.array([9e3, 8e3]), 10.0).tolist() == [0.0, 1.0]


def test_windows_and_epsilon_by_hand() -> None:
    """The newest alike; epsilon is shared by all."""
    assert newest(4, 1).tolist() == [0, 0, 0, 1] and newest(4, 9).tolist() == [0.25] * 4
    assert newest(4, 2).tolist() == [0, 0, 0.5, 0.5]
    assert with_uniform(np.array([1.0, 0.0]), 0.2) == pytest.approx([0.9, 0.1])


def test_targets_are_drawn_as_often_as_their_weight_says() -> None:
    """Each is taken floor(K w) or ceil(K w) times, K w on average, and one of weight 0 never."""
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
    """After one half-life 8 wins of 8 weigh 4: with a prediction p of weight 8 that is (4 + 8 p) / 12."""
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
    """The learner's games count for its newest snapshot, with the seats they were played in."""
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


def test_a_new_snapshot_starts_from_its_parents_rating() -> None:
    """Without a game it has it, and so has its own child; one game lost to a weak bot moves it a part of the way."""
    results = Results(1000.0, 8)
    assert results.ratings(["s0", "s1"]) == {"s0": 1000.0, "s1": 1000.0}
    for _ in range(30):
        results.add(game("bot:x", 1.0), "me", "s0")
    ratings = results.ratings(["s0", "s1", "s2"])
    assert ratings["s2"] == ratings["s1"] == ratings["s0"] > 1100
    assert results.win_rates(["s2", "bot:y"], ["s0", "s1", "s2"]) == pytest.approx([0.5, 0.5])
    results.add(game("bot:x", 0.0), "me", "s1")
    ratings = results.ratings(["s0", "s1"])
    assert 0 < ratings["s0"] - ratings["s1"] < (ratings["s1"] - ratings["bot:x"]) / 2


def test_a_game_against_oneself_is_no_draw() -> None:
    """Games with one's newest snapshot leave ratings and payoffs as they were; the learner's own win-rate moves."""
    results, without = Results(1000.0, 8), Results(1000.0, 8)
    for each in (results, without):
        for score in (1.0, 0.0, 1.0):
            each.add(game("s0", score), "me", "s1")
    for _ in range(50):
        results.add(game("s1", 1.0), "me", "s1")
    names = ["s0", "s1"]
    assert results.state_dict()["fixed"] == without.state_dict()["fixed"]
    assert results.ratings(names) == without.ratings(names)
    assert np.array_equal(results.payoff(names, names), without.payoff(names, names))
    assert results.win_rates(["s1"], names)[0] > 0.9 and without.win_rates(["s1"], names)[0] == 0.5


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_gives_probabilities_whatever_the_results(sampler: str) -> None:
    """All won, lost or drawn, nothing played, one snapshot: finite, above 0 where it reads results, together 1."""
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
    """Of four snapshots the one that always wins is drawn most, at the shrunk rates' squares and epsilon."""
    pool = pool_of(4, sampler="pfsp_hard", epsilon=0.2)
    play_rounds(pool, {"s0": 1.0, "s1": 0.0, "s2": 1.0})
    rates = pool.results.win_rates(pool.snapshots, pool.snapshots)
    weights = (1 - rates) ** 2
    assert odds(pool) == pytest.approx(0.8 * weights / weights.sum() + 0.05)
    assert max(pool.odds["self_play"], key=lambda s: pool.odds["self_play"][s]) == "s1" and rates[1] < 0.2
    metrics = pool.agent_metrics()
    assert metrics["pool/odds", "s1"] == odds(pool)[1] and metrics["pool/win_rate", "s1"] == pytest.approx(rates[1])


def test_metrics_tell_of_a_draw_once() -> None:
    """Figures come with each drawing of targets, and not where the old ones stay; `spread` is 5 for five alike."""
    pool = pool_of(8, sampler="recent", recent_window=5)
    pool.refresh_targets(set())
    assert pool.metrics() == pytest.approx({"pool/spread": 5.0})
    assert pool.agent_metrics() == pytest.approx({("pool/odds", f"s{i}"): 0.2 for i in range(3, 8)})
    stray = next(s for s in pool.snapshots if s not in pool.targets)
    pool.policy(stray)
    pool.refresh_targets({stray})
    assert pool.metrics() == pool.agent_metrics() == {}


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
    """Three that beat each other in turn and one that loses to all: thirds and nothing, but for epsilon."""
    pool = pool_of(1, sampler="nash", epsilon=0.0)
    beats = {("s1", "s0"): 0.0, ("s2", "s1"): 0.0, ("s2", "s0"): 1.0}  # (learner's snapshot, opponent): its score
    beats |= {("s3", f"s{i}"): 0.0 for i in range(3)}
    for number in (1, 2, 3):
        pool.admit(f"s{number}")
        for (newest_snapshot, opponent), score in beats.items():
            if newest_snapshot == f"s{number}":
                pool.record([game(opponent, score, seat=i % 2) for i in range(200)], "me", 10)
    assert odds(pool) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0.0], abs=0.03)


def test_rating_seeks_equals() -> None:
    """A member as strong as the learner is drawn more than one far below or above."""
    groups = {"mix": {"bots": 1.0}, "groups": {"bots": ["bot:weak", "bot:equal", "bot:strong"]}}
    pool = pool_of(1, group_sampler="rating", **groups)
    for _ in range(100):
        pool.record([game("bot:weak", 1.0), game("bot:strong", 0.0)], "me", 10)
        pool.record([game("bot:equal", 1.0), game("bot:equal", 0.0, seat=1)], "me", 10)
    weak, equal, strong = odds(pool, "bots")
    assert equal > 0.8 > 0.1 > max(weak, strong)


def test_groups_share_what_the_mix_gives_them() -> None:
    """The mix decides the group, the group's sampler the member; `group_of` finds the group again."""
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
    """Counts, qualities, odds and the RNG pass through the saved state: every later draw is the same."""

    def go_on(pool: Pool) -> list[Any]:
        seen: list[Any] = []
        for update in range(30):
            if update % 7 == 0:
                pool.admit(f"t{update}")
            pool.refresh_targets(set())
            drawn = [pool.draw() for _ in range(5)]
            pool.record([game(agent, (i + update) % 3 / 2) for i, agent in enumerate(drawn)], "me", 500)
            seen += [drawn, pool.metrics(), pool.agent_metrics(), list(pool.targets)]
        return seen

    mix = {"self_play": 0.5, "bots": 0.5}
    changes = {"mix": mix, "groups": {"bots": ["bot:a", "bot:b"]}, "sampler": sampler, "group_sampler": sampler}
    first, second = pool_of(2, **changes), pool_of(0, seed=9, **changes)
    go_on(first)
    save_state(tmp_path / "state", first.state_dict())
    second.load_state_dict(load_state(tmp_path / "state"))
    assert [first.draw() for _ in range(20)] == [second.draw() for _ in range(20)], "by the odds of the last drawing"
    assert go_on(first) == go_on(second)


# Samplers of one's own


def test_weights_whose_sum_is_infinite_keep_their_proportions() -> None:
    """Each is finite, so they are weights."""
    assert samplers._checked("huge", np.array([1e308, 1e308, 0.0]), 3).tolist() == [0.5, 0.5, 0.0]
    with pytest.raises(GuardError, match="one weight for each, finite"):
        samplers._checked("vast", [10**400, 1], 2)  # type: ignore[arg-type]  # as a user may


def test_a_sampler_of_ones_own_is_drawn_from() -> None:
    """It sees what the built-in ones see, and its weights are mixed with epsilon of uniform."""

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
    """It names the sampler, what it returned and the rule."""
    samplers.register("odd", lambda known: given)
    try:
        known: Any = SimpleNamespace(members=["a", "b"], config=settings.load().pool)
        with pytest.raises(LeagueError, match=r"sampler odd: returned .* for 2 members; it must return one weight for"):
            samplers.probabilities("odd", known)
        with pytest.raises(ConfigError, match=r"pool.sampler='nahs' is no sampler; did you mean `nash`"):
            samplers.probabilities("nahs", known)
    finally:
        del samplers.SAMPLERS["odd"], samplers._registered["odd"]
