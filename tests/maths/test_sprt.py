"""The sequential test against fastchess's values, a slow twin, and simulation; its bounds and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from league.arena.gating import spent_alpha
from league.errors import UsageError
from league.maths.sprt import PAIR_SCORES, EloModel, Sprt, elo_interval, log_likelihood_ratio

GAME_SCORES = (0.0, 0.5, 1.0)
FASTCHESS: list[tuple[tuple[int, ...], float, float, EloModel, float]] = [
    ((36027, 68692, 36433), 0.0, 2.0, "normalised", 0.92),
    ((10650, 20431, 10871), -1.75, 0.25, "normalised", 2.30),
    ((21184, 40708, 21404), 0.5, 2.5, "logistic", -1.57),
    ((57030, 106593, 57433), 0.0, 2.0, "logistic", -2.59),
    ((365, 16618, 36229, 16974, 390), 0.0, 2.0, "normalised", 2.25),
    ((127, 4883, 10712, 5150, 104), -1.75, 0.25, "normalised", 3.01),
    ((223, 9863, 21279, 10037, 246), 0.5, 2.5, "logistic", -3.07),
    ((871, 26175, 55983, 26678, 821), 0.0, 2.0, "logistic", -4.98),
]
"""Losses, draws, wins or the five pair scores; H0, H1; the ratio in fastchess's `app/tests/sprt_test.cpp`."""


@pytest.mark.parametrize(("counts", "elo0", "elo1", "elo_model", "llr"), FASTCHESS)
def test_the_ratio_is_fastchesss(
    counts: tuple[int, ...], elo0: float, elo1: float, elo_model: EloModel, llr: float
) -> None:
    """The eight values of fastchess's tests that are of these models and not of one outcome alone."""
    scores = GAME_SCORES if len(counts) == 3 else PAIR_SCORES
    assert log_likelihood_ratio(counts, scores, elo0, elo1, elo_model) == pytest.approx(llr, abs=0.006)


def test_the_interval_is_fastchesss() -> None:
    """fastchess's `elo_test.cpp`: pairs [34, 54, 63, 64, 75] are 55.58 +- 27.65 Elo points."""
    found = elo_interval((34, 54, 63, 64, 75))
    assert found is not None
    middle, low, high = found
    assert middle == pytest.approx(55.58, abs=0.005) and (high - low) / 2 == pytest.approx(27.65, abs=0.01)
    assert elo_interval((0, 0, 0, 0, 9)) is None and elo_interval((0, 0, 0, 0, 0)) is None


def test_bounds_are_walds() -> None:
    """With 5 % each the bounds are +-2.944 (Wald 1945); what lies on a bound is decided."""
    test = Sprt()
    assert test.upper == pytest.approx(2.944, abs=5e-4) and test.lower == pytest.approx(-2.944, abs=5e-4)
    assert [test.decide(x) for x in (test.upper, 0.0, test.lower)] == ["passed", None, "failed"]


def slow_twin(counts: Sequence[int], elo0: float, elo1: float, elo_model: EloModel) -> float:
    """The same ratio by a general optimiser: the likeliest distribution under each hypothesis, as a constraint."""
    seen = np.maximum(np.array(counts, float), 1e-3)
    values = np.array(PAIR_SCORES)

    def constraint(p: np.ndarray, elo: float) -> float:
        mean = p @ values
        if elo_model == "logistic":
            return float(mean - 1 / (1 + 10 ** (-elo / 400)))
        game_deviation = math.sqrt(2 * (p @ (values - mean) ** 2))
        return float((mean - 0.5) - game_deviation * elo * math.log(10) / 800)

    def best(elo: float) -> float:
        rules = [{"type": "eq", "fun": constraint, "args": (elo,)}, {"type": "eq", "fun": lambda p: p.sum() - 1}]
        found = minimize(
            lambda p: -(seen @ np.log(p)) / seen.sum(),
            np.full(5, 0.2),
            bounds=[(1e-9, 1)] * 5,
            constraints=rules,
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert found.success
        return -float(found.fun) * float(seen.sum())

    return best(elo1) - best(elo0)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=5, max_size=5), st.sampled_from(["logistic", "normalised"]))
def test_the_ratio_equals_the_slow_twin(counts: list[int], elo_model: EloModel) -> None:
    fast = log_likelihood_ratio(counts, PAIR_SCORES, -10.0, 35.0, elo_model)
    assert fast == pytest.approx(slow_twin(counts, -10.0, 35.0, elo_model), abs=2e-3)


@given(st.lists(st.integers(0, 1000), min_size=5, max_size=5), st.floats(-200, 199), st.floats(0.5, 50))
def test_the_ratio_is_finite_and_antisymmetric(counts: list[int], elo0: float, width: float) -> None:
    elo1 = min(200.0, elo0 + width)
    for elo_model in ("logistic", "normalised"):
        llr = log_likelihood_ratio(counts, PAIR_SCORES, elo0, elo1, elo_model)
        assert math.isfinite(llr)
        if elo_model == "logistic":
            mirrored = log_likelihood_ratio(counts[::-1], PAIR_SCORES, -elo1, -elo0, elo_model)
            assert mirrored == pytest.approx(-llr, abs=1e-6 * max(1.0, abs(llr)))


def test_one_lucky_pair_decides_nothing() -> None:
    """A clean sweep must last about 31 pairs; no draws and no variance do not make it certain sooner."""
    test = Sprt()
    assert test.llr((0, 0, 0, 0, 1)) < 0.1
    assert test.decide(test.llr((0, 0, 0, 0, 30))) is None and test.decide(test.llr((0, 0, 0, 0, 31))) == "passed"


def errors(elo: float, draws: float, alpha: float, trials: int, pairs: int, seed: int) -> dict[str, float]:
    """How often the test of 0 against 35 points says what, games of `elo` points, looked at every 16 pairs."""
    rng = np.random.default_rng(seed)
    win = 1 / (1 + 10 ** (-elo / 400)) - draws / 2
    game = np.array([1 - win - draws, draws, win])
    shares = np.convolve(game, game)
    test, said = Sprt(alpha=alpha), []
    for _ in range(trials):
        counts, decision = np.zeros(5, int), None
        while decision is None and counts.sum() < pairs:
            counts += rng.multinomial(16, shares)
            decision = test.decide(test.llr(counts.tolist()))
        said.append(decision or "undecided")
    return {word: said.count(word) / trials for word in ("passed", "failed", "undecided")}


@pytest.mark.parametrize(("elo", "wrong"), [(0.0, "passed"), (35.0, "failed")])
def test_errors_are_kept(elo: float, wrong: str) -> None:
    """Of 300 simulated tests at either hypothesis at most 5 % (and 3 deviations) answer wrongly, and few not at all."""
    found = errors(elo, 0.1, 0.05, trials=300, pairs=2000, seed=1)
    assert found[wrong] < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)
    assert found["undecided"] < 0.02


def test_all_attempts_together_spend_alpha() -> None:
    """The attempts' shares add up to alpha, from below, however many there are."""
    spent = [spent_alpha(0.05, k) for k in range(1, 10_001)]
    assert spent[0] == 0.025 and sum(spent) < 0.05 and sum(spent) == pytest.approx(0.05, rel=2e-4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"elo0": 35.0}, "elo0=35, elo1=35: elo0 must be below elo1"),
        ({"elo0": 50.0}, "elo0=50, elo1=35"),
        ({"elo1": 1001.0}, "within 1000"),
        ({"elo1": 300.0, "elo_model": "normalised"}, "normalised ones within 200"),
        ({"elo1": math.nan}, "elo1=nan"),
        ({"elo0": -math.inf}, "elo0=-inf"),
        ({"alpha": 0.0}, "alpha=0: .*try 0.05"),
        ({"alpha": 0.5}, "alpha=0.5"),
        ({"beta": -0.1}, "beta=-0.1"),
        ({"beta": math.nan}, "beta=nan"),
        ({"elo_model": "bayesian"}, "elo_model=bayesian: must be logistic or normalised"),
    ],
)
def test_a_test_that_cannot_be_is_refused(changes: dict[str, float], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Sprt(**changes)  # type: ignore[arg-type]
