"""The mean of payoffs: intervals that cover, a test that may be looked at whenever one likes, known answers."""

import math

import numpy as np
import pytest

from league.errors import UsageError
from league.maths.means import MeanTest, interval, mean_payoff

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
    """The bound is where a capital that bets by the paper's rule reaches 2 / alpha, worked out one value at a time."""
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
    """Ten times the pairs are about a third as wide; the same game twice in a cluster counts as one."""
    rng = np.random.default_rng(1)
    paid = rng.choice(KUHN, 2000).tolist()
    few, many = mean_payoff(range(200), paid[:200], 2.0), mean_payoff(range(2000), paid, 2.0)
    assert 2.4 < (few.upper - few.lower) / (many.upper - many.lower) < 4.2
    assert mean_payoff([*range(200)] * 2, paid[:200] * 2, 2.0) == few


def test_an_unknown_bound_is_guessed_and_said() -> None:
    """Twice the largest payoff seen stands for the bound; nothing paid at all is no error."""
    assert mean_payoff("ab", [-3.0, 1.0], None).bound == 6.0
    assert mean_payoff("ab", [0.0, 0.0], None) == mean_payoff("ab", [0.0, 0.0], 1.0)


@pytest.mark.parametrize(("mean", "wrong"), [(0.0, "passed"), (0.1, "failed")])
def test_peeking_does_not_fool_the_test(mean: float, wrong: str) -> None:
    """Looked at after every 16 pairs of 500, a true hypothesis is refused in about 5 % of 100 gates at most."""
    rng, test, refused = np.random.default_rng(7), MeanTest(0.0, 0.1, 2.0), 0
    for _ in range(100):
        pairs = rng.choice(KUHN, (500, 2), p=(0.2, 0.3 - mean / 2, 0.3 + mean / 2, 0.2))
        decided = (test.decide(test.evidence(pairs[:n])) for n in range(16, 501, 16))
        refused += next((word for word in decided if word), None) == wrong
    assert refused <= 10


def test_the_test_tells_a_difference() -> None:
    """An agent that wins 0.4 a match passes nearly always, one that loses as much fails."""
    rng, test = np.random.default_rng(3), MeanTest(0.0, 0.1, 2.0)
    won = [rng.choice(KUHN, (300, 2), p=(0.1, 0.25, 0.4, 0.25)) for _ in range(50)]
    assert sum(test.decide(test.evidence(pairs)) == "passed" for pairs in won) >= 48
    assert all(test.decide(test.evidence(-pairs)) == "failed" for pairs in won)


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
    """Payoffs out of order or beyond the bound, error probabilities outside (0, 1/2), and impossible bounds."""
    with pytest.raises(UsageError, match=words):
        MeanTest(**{"payoff0": 0.0, "payoff1": 0.1, "bound": 2.0} | values)


def test_a_payoff_beyond_the_bound_is_refused() -> None:
    """Also where the mean of its pair is within: the bound is of a match."""
    test = MeanTest(0.0, 0.1, 2.0)
    assert test.evidence([(2.0, -2.0)]) == test.evidence([(0.0, 0.0)])
    with pytest.raises(UsageError, match=r"payoff_bound=2: a match paid 3; .* pass --payoff-bound 3 or more"):
        test.evidence([(1.0, 1.0), (-3.0, 1.0)])
