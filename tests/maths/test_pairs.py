"""Pairs of games: what they are worth together, in records, in ratings and where payoffs are rated."""

import itertools

import numpy as np
import pytest

from league.maths.pairs import PairCounts, PairSums, PlayedGame
from league.maths.ratings import bradley_terry, payoff_ratings
from league.maths.record import Record, design_effect, wilson


def pair_scores(rng: np.random.Generator, pairs: int, win: float, correlation: float) -> tuple[np.ndarray, np.ndarray]:
    """Two scores (pairs,) of A each, 1 or 0 with a probability of `win`, correlated so (negatively at 1/2 alone)."""
    one, other, copies = rng.random(pairs) < win, rng.random(pairs) < win, rng.random(pairs) < abs(correlation)
    return one.astype(float), np.where(copies, one if correlation > 0 else ~one, other).astype(float)


@pytest.mark.parametrize(
    ("win", "correlation"), [(0.5, -1.0), (0.5, -0.17), (0.5, 0.0), (0.8, 0.0), (0.8, 0.5), (0.5, 1.0), (0.8, 1.0)]
)
def test_a_record_s_interval_covers(win: float, correlation: float) -> None:
    """At 95 %, for every correlation of the two games of a seed; Wilson's of all games covers 0.78 to 0.87 at +1."""
    rng, held, plain = np.random.default_rng(0), 0, 0
    for _ in range(400):
        one, other = pair_scores(rng, 50, win, correlation)
        outcomes = (2 - 2 * np.concatenate([one, other])).astype(int).tolist()
        record = Record.of([*range(50)] * 2, outcomes)
        held += record.lower <= win <= record.upper
        low, high = wilson(record.score, 100)
        plain += low <= win <= high
    assert held >= 368
    assert correlation < 1.0 or plain <= 350


def test_effects_with_a_known_answer() -> None:
    """Copies count once, opposites cancel, lone games are independent, a clean sheet says nothing of its pairs."""
    clusters = [*range(40)] * 2
    scores = [1.0, 0.0] * 20
    assert design_effect(clusters, scores * 2) == pytest.approx(2.0)
    assert design_effect(clusters, scores + [1.0 - x for x in scores]) == pytest.approx(2.0 / 41)
    assert design_effect(range(80), scores * 2) == pytest.approx(1.0)
    assert design_effect(clusters, [1.0] * 80) == 2.0 and design_effect([], []) == 1.0


def league_of(rng: np.random.Generator, truth: np.ndarray, pairs: int, correlation: float) -> list[PlayedGame]:
    """A round robin in which a pair's second game is, with this probability, the first one's copy."""
    games = []
    for i, j in itertools.combinations(range(len(truth)), 2):
        win = 1.0 / (1.0 + 10.0 ** ((truth[j] - truth[i]) / 400.0))
        for seed, (x, y) in enumerate(zip(*pair_scores(rng, pairs, win, correlation), strict=True)):
            games += [PlayedGame(f"a{i}", f"a{j}", seed, x, None), PlayedGame(f"a{j}", f"a{i}", seed, 1.0 - y, None)]
    return games


def counts_of(games: list[PlayedGame]) -> PairCounts:
    """Their counts with their sums."""
    table: dict[tuple[str, str], list[int]] = {}
    for game in games:
        table.setdefault((game.seat0, game.seat1), [0, 0, 0])[int(2 - 2 * game.score)] += 1
    first, second = zip(*table, strict=True)
    return PairCounts(first, second, *np.array(list(table.values())).T, sums=PairSums.of(games))


@pytest.mark.parametrize(("correlation", "least", "most"), [(0.0, 0.92, 0.985), (0.8, 0.92, 0.985)])
def test_ratings_know_their_pairs(correlation: float, least: float, most: float) -> None:
    """Intervals of differences cover 95 % where pairs are correlated; taking the games as independent they do not."""
    rng, truth = np.random.default_rng(5), np.array([0.0, 60.0, -120.0, 150.0])
    inside, before, total = 0, 0, 0
    for _ in range(60):
        counts = counts_of(league_of(rng, truth, 40, correlation))
        plain = PairCounts(counts.seat0, counts.seat1, counts.wins, counts.draws, counts.losses)
        for ratings, is_new in ((bradley_terry(counts), True), (bradley_terry(plain), False)):
            for i, j in itertools.combinations(range(4), 2):
                gap = ratings.difference(f"a{i}", f"a{j}")
                hit = gap.lower <= truth[i] - truth[j] <= gap.upper
                inside, before, total = inside + hit * is_new, before + hit * (not is_new), total + is_new
    assert least <= inside / total <= most
    assert correlation == 0.0 or before / total < 0.92


def test_sums_add_up() -> None:
    """Two halves of a league have together the sums of the whole."""
    rng = np.random.default_rng(2)
    games = [game._replace(payoff=game.score * 2 - 1) for game in league_of(rng, np.array([0.0, 50.0, 90.0]), 6, 0.3)]
    both = PairSums.of(games[:20]) + PairSums.of(games[20:])
    whole, names = PairSums.of(games), ("a0", "a1", "a2")
    np.testing.assert_allclose(both.merged(names)[2].sums, whole.merged(names)[2].sums)
    assert both.is_paid and both.effect == pytest.approx(whole.effect)
    assert not PairSums.of([game._replace(payoff=None) for game in games]).is_paid


def test_payoff_ratings_are_the_least_squares() -> None:
    """The strengths that numpy's least squares gives game by game, the seat's advantage among them; anchored at 0."""
    rng, strength = np.random.default_rng(4), np.array([0.3, -0.2, 0.0, 0.5])
    games = []
    for i, j in itertools.permutations(range(4), 2):
        for seed in range(int(rng.integers(20, 60))):
            paid = strength[i] - strength[j] + 0.1 + rng.normal()
            games.append(PlayedGame(f"a{i}", f"a{j}", (min(i, j), max(i, j), seed), float(paid > 0), paid))
    there = {(game.seat0, game.seat1, game.cluster) for game in games}
    pairs = [game for game in games if (game.seat1, game.seat0, game.cluster) in there]
    rows = np.zeros((len(pairs), 5))
    for row, game in zip(rows, pairs, strict=True):
        row[int(game.seat0[1])], row[int(game.seat1[1])], row[4] = 1.0, -1.0, 1.0
    exact = np.linalg.lstsq(rows, np.array([game.payoff for game in pairs]), rcond=None)[0]
    ratings = payoff_ratings(counts_of(pairs), "a2")
    np.testing.assert_allclose(ratings.rating, exact[:4] - exact[2], atol=1e-9)
    assert ratings.unit == "payoff" and ratings.seat is not None
    assert ratings.seat.mean == pytest.approx(exact[4], abs=1e-9)


def test_intervals_of_payoffs_cover() -> None:
    """95 % of differences lie within, where some agents scatter more than others and pairs are correlated."""
    rng, strength, inside, total = np.random.default_rng(8), np.array([0.0, 0.2, 0.5]), 0, 0
    for _ in range(80):
        games = []
        for i, j in itertools.combinations(range(3), 2):
            for seed in range(30):
                gap, shared = strength[i] - strength[j], rng.normal(0.0, 0.4 + j)
                for seats, sign in (((i, j), 1.0), ((j, i), -1.0)):
                    paid = sign * (gap + shared) + rng.normal(0.0, 0.3)
                    games.append(PlayedGame(f"a{seats[0]}", f"a{seats[1]}", seed, float(paid > 0), paid))
        ratings = payoff_ratings(counts_of(games))
        for i, j in itertools.combinations(range(3), 2):
            gap = ratings.difference(f"a{i}", f"a{j}")
            inside, total = inside + (gap.lower <= strength[i] - strength[j] <= gap.upper), total + 1
    assert 0.91 <= inside / total <= 0.99
