"""The mean of payoffs: intervals that cover, a test that may be looked at whenever one likes, known answers."""

import itertools
import math

import numpy as np
import pytest

from league.errors import UsageError
from league.maths.means import MeanTest, interval, mean_payoff
from league.maths.pairs import PairCounts, PairSums, PlayedGame
from league.maths.ratings import bradley_terry, payoff_ratings
from league.maths.record import Record, design_effect, wilson
from league.maths.seeds import LEAST_IQM, across
from league.printing.standings import record_cells
from league.printing.tables import IntervalCell

KUHN = (-2.0, -1.0, 1.0, 2.0)
"""What a match of Kuhn poker can pay."""


@pytest.mark.parametrize("odds", [(0.1, 0.4, 0.4, 0.1), (0.0, 0.55, 0.35, 0.1), (0.02, 0.0, 0.98, 0.0)])
@pytest.mark.parametrize("pairs", [5, 50, 400])
def test_an_interval_covers(odds: tuple[float, ...], pairs: int) -> None:
    """Of 100 intervals of an evaluation at most 5 % miss, of skewed and rare payoffs too."""
    rng, truth = np.random.default_rng(pairs), float(np.dot(odds, KUHN))
    missed = 0
    for _ in range(100):
        paid = rng.choice(KUHN, (pairs, 2), p=odds)
        found = mean_payoff([*range(pairs)] * 2, [*paid[:, 0], *paid[:, 1]], 2.0)
        assert found.lower <= found.mean <= found.upper
        missed += not found.lower <= truth <= found.upper
    assert missed <= 5


def test_the_interval_is_the_paper_s() -> None:
    values = np.random.default_rng(0).beta(2, 3, 40)
    low, _ = interval(values)
    capital, spread, total = 0.0, 0.25, 0.5
    for i, x in enumerate(values):
        bet = min(math.sqrt(2 * math.log(40.0) / (40 * spread / (i + 1))), 0.75 / low)
        capital += math.log(1 + bet * (x - low))
        total += x
        spread += (x - total / (i + 2)) ** 2
    assert capital == pytest.approx(math.log(40.0), abs=1e-6)


def test_more_pairs_are_narrower_and_copies_are_not() -> None:
    rng = np.random.default_rng(1)
    paid = rng.choice(KUHN, 2000).tolist()
    few, many = mean_payoff(range(200), paid[:200], 2.0), mean_payoff(range(2000), paid, 2.0)
    assert 2.4 < (few.upper - few.lower) / (many.upper - many.lower) < 4.2
    assert mean_payoff([*range(200)] * 2, paid[:200] * 2, 2.0) == few


def test_an_unknown_bound_is_guessed_and_said() -> None:
    assert mean_payoff("ab", [-3.0, 1.0], None).bound == 6.0
    assert mean_payoff("ab", [0.0, 0.0], None) == mean_payoff("ab", [0.0, 0.0], 1.0)


@pytest.mark.parametrize(("mean", "wrong"), [(0.0, "passed"), (0.1, "failed")])
def test_peeking_does_not_fool_the_test(mean: float, wrong: str) -> None:
    rng, test, refused = np.random.default_rng(7), MeanTest(0.0, 0.1, 2.0), 0
    for _ in range(100):
        pairs = rng.choice(KUHN, (500, 2), p=(0.2, 0.3 - mean / 2, 0.3 + mean / 2, 0.2))
        decided = (test.decide(test.evidence(pairs[:n])) for n in range(16, 501, 16))
        refused += next((word for word in decided if word), None) == wrong
    assert refused <= 10


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"payoff0": 0.1, "payoff1": 0.1}, "payoff0 must be below payoff1"),
        ({"payoff1": 2.5}, "within the 2 that a match can pay"),
        ({"alpha": 0.7}, "alpha=0.7"),
        *(({"bound": bound}, f"payoff_bound={bound:g}: .* above 0") for bound in (-1.0, 0.0, math.nan, math.inf)),
    ],
)
def test_what_cannot_be_tested_is_refused(values: dict[str, float], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        MeanTest(**{"payoff0": 0.0, "payoff1": 0.1, "bound": 2.0} | values)


def test_a_payoff_beyond_the_bound_is_refused() -> None:
    test = MeanTest(0.0, 0.1, 2.0)
    assert test.evidence([(2.0, -2.0)]) == test.evidence([(0.0, 0.0)])
    with pytest.raises(UsageError, match=r"payoff_bound=2: a match paid 3; .* pass --payoff-bound 3 or more"):
        test.evidence([(1.0, 1.0), (-3.0, 1.0)])


def test_a_record_is_its_counts() -> None:
    """Draws are half a win; the interval is Wilson's."""
    record = Record(10, 5, 5)
    assert (record.games, record.score) == (20, 0.625)
    assert (record.lower, record.upper) == pytest.approx(wilson(0.625, 20))


def test_without_games_there_is_no_score() -> None:
    record = Record(0, 0, 0)
    assert record.games == 0 and all(math.isnan(x) for x in (record.score, record.lower, record.upper))
    assert record_cells(record) == (0, 0, 0, 0, None)
    *counts, score = record_cells(Record(1, 1, 0))
    assert counts == [2, 1, 1, 0] and isinstance(score, IntervalCell) and score.parts == ("0.750", "0.198", "0.973")


def test_few_seeds_have_a_mean_and_a_range() -> None:
    found = across([([0, 10], [1, 2]), ([0, 10], [2, 2]), ([0, 10], [6, 5])])
    assert found is not None and not found.is_iqm
    assert found.middle.tolist() == [3, 3] and found.lower.tolist() == [1, 2] and found.upper.tolist() == [6, 5]


def test_five_seeds_have_an_interquartile_mean() -> None:
    values = np.random.default_rng(1).normal(size=(LEAST_IQM, 7))
    values[0] = 1e3
    found = across([(range(7), row.tolist()) for row in values])
    assert found is not None and found.is_iqm
    assert found.middle == pytest.approx(np.sort(values, 0)[1:-1].mean(0))
    assert (found.lower <= found.middle).all() and (found.middle <= found.upper).all()


def test_the_interval_is_that_of_drawn_seeds() -> None:
    """About 95 % of the interquartile means of seeds drawn with replacement lie within it (a loop as the slow twin)."""
    values, rng = np.arange(8.0) ** 2, np.random.default_rng(2)
    found = across([([0], [x]) for x in values])
    assert found is not None
    means = [np.sort(rng.choice(values, 8))[2:-2].mean() for _ in range(4_000)]
    assert np.mean((found.lower[0] <= means) & (means <= found.upper[0])) == pytest.approx(0.95, abs=0.02)


def test_other_steps_are_interpolated_where_all_are_known() -> None:
    found = across([([0, 10, 20], [0, 10, 20]), ([5, 15], [0, 10]), ([], [])])
    assert found is not None and found.x.tolist() == [10] and found.middle.tolist() == [7.5]
    assert across([([0, 1], [0, 0]), ([2, 3], [0, 0])]) is None and across([]) is None


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


def test_payoff_ratings_are_the_least_squares() -> None:
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
