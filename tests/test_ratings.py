"""Elo and Bradley-Terry against published answers, a slow twin, and simulation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from league.errors import UsageError
from league.ratings import (
    ELO_SCALE,
    PRIOR_DRAWS,
    PairCounts,
    bradley_terry,
    elo_series,
    elo_update,
    expected_score,
)

NO_PRIOR = 1e-8


def make_counts(*rows: tuple[str, str, int, int, int]) -> PairCounts:
    """Counts from rows of (seat 0, seat 1, wins, draws, losses)."""
    table = np.array([row[2:] for row in rows], dtype=np.int64).reshape(-1, 3)
    return PairCounts(tuple(r[0] for r in rows), tuple(r[1] for r in rows), table[:, 0], table[:, 1], table[:, 2])


def wins_matrix(names: Sequence[str], wins: Sequence[Sequence[int]]) -> PairCounts:
    """Counts from a matrix of wins of row over column."""
    return make_counts(
        *((a, b, wins[i][j], 0, 0) for i, a in enumerate(names) for j, b in enumerate(names) if wins[i][j])
    )


def test_bradley_terry_wikipedia_example() -> None:
    """The 22 games of Wikipedia's "Bradley-Terry model" give its A .640, B 1.043, C .660, D 2.270."""
    counts = wins_matrix("ABCD", [[0, 2, 0, 1], [3, 0, 5, 0], [0, 3, 0, 1], [4, 0, 3, 0]])
    ratings = bradley_terry(counts, prior_draws=NO_PRIOR)
    skill = np.exp((ratings.rating - ratings.rating.mean()) / ELO_SCALE)
    np.testing.assert_allclose(skill, [0.640, 1.043, 0.660, 2.270], atol=6e-4)


def test_bradley_terry_meeple_pentathlon() -> None:
    """In OpenSpiel's voting test data (Meeple Pentathlon) the first and the third come out equal."""
    ratings = bradley_terry(wins_matrix("ABC", [[0, 4, 2], [1, 0, 2], [3, 3, 0]]), prior_draws=NO_PRIOR)
    assert ratings.rating[0] == pytest.approx(ratings.rating[2], abs=1e-3)
    assert ratings.rating[0] > ratings.rating[1] + 10


def test_bradley_terry_cycle_with_an_extra_win() -> None:
    """A three-cycle and one more win of the first over the second: choix's test gives .419617624, -.419617624, 0."""
    counts = make_counts(("a", "b", 2, 0, 0), ("b", "c", 1, 0, 0), ("c", "a", 1, 0, 0))
    ratings = bradley_terry(counts, prior_draws=NO_PRIOR)
    np.testing.assert_allclose((ratings.rating - 1000.0) / ELO_SCALE, [0.419617624, -0.419617624, 0.0], atol=1e-6)


def test_bradley_terry_prior_is_katagos() -> None:
    """KataGo's C++ test: one virtual win and loss each (two virtual draws), 200 wins to 100, gives +-59.983 Elo."""
    ratings = bradley_terry(make_counts(("a", "b", 200, 0, 100)))
    np.testing.assert_allclose(ratings.rating - 1000.0, [59.983, -59.983], atol=5e-3)


@pytest.mark.parametrize("games", [1, 50, 10_000])
def test_rock_paper_scissors_is_level(games: int) -> None:
    """Three agents that beat each other in a ring have one rating, however many games say so."""
    counts = make_counts(
        ("rock", "scissors", games, 0, 0), ("scissors", "paper", games, 0, 0), ("rock", "paper", 0, 0, games)
    )
    np.testing.assert_allclose(bradley_terry(counts).rating, 1000.0, atol=1e-6)


def test_a_draw_moves_towards_the_middle() -> None:
    """One more draw brings two agents nearer, and leaves who is ahead."""
    before = bradley_terry(make_counts(("a", "b", 10, 0, 2))).difference("a", "b")
    after = bradley_terry(make_counts(("a", "b", 10, 1, 2))).difference("a", "b")
    assert 0.0 < after.mean < before.mean


def test_a_draw_is_half_a_win_for_each() -> None:
    """Two draws say what a win each says."""
    drawn = bradley_terry(make_counts(("a", "b", 5, 2, 3)))
    decided = bradley_terry(make_counts(("a", "b", 6, 0, 4)))
    np.testing.assert_allclose(drawn.rating, decided.rating)


def test_unbeaten_winless_and_strangers_are_finite_and_wide() -> None:
    """Winning or losing everything, or never meeting the anchor's group, gives a number and a wide interval."""
    ratings = bradley_terry(
        make_counts(
            ("bot:based", "even", 200, 0, 200),
            ("best", "bot:based", 20, 0, 0),
            ("worst", "bot:based", 0, 0, 20),
            ("far", "away", 200, 0, 200),
        ),
        "bot:based",
    )
    assert np.isfinite(ratings.rating).all() and np.isfinite(ratings.covariance).all()
    width = dict(zip(ratings.agents, ratings.upper - ratings.lower, strict=True))
    assert width["best"] > 5 * width["even"] and width["worst"] > 5 * width["even"]
    assert width["far"] > 10 * width["even"]
    assert ratings.difference("best", "bot:based").lower > 0.0 > ratings.difference("worst", "bot:based").upper
    low, high = ratings.difference("far", "away")[1:]
    assert high - low < width["far"] / 5


@pytest.mark.parametrize("total", [4, 32, 64, 500])
def test_winning_more_never_lowers_the_lower_bound(total: int) -> None:
    """Turning a loss into a win raises the lower bound, up to a clean sheet: `RUN@best` leans on it."""
    rest = ("bot:based", "b", 500, 0, 500)
    lower = [
        bradley_terry(make_counts(("a", "bot:based", wins, 0, total - wins), rest), "bot:based").lower[0]
        for wins in range(total * 3 // 4, total + 1)
    ]
    assert all(later > earlier for earlier, later in itertools.pairwise(lower))


def slow_bradley_terry(counts: PairCounts, prior_draws: float) -> dict[str, float]:
    """The same mode by minorisation-maximisation (Hunter 2004, eq. 3), one number at a time."""
    games: dict[str, dict[str, float]] = {}
    won: dict[str, float] = {}
    for a, b, w, d, lost in zip(counts.seat0, counts.seat1, counts.wins, counts.draws, counts.losses, strict=True):
        for me, other, score in ((a, b, w + d / 2), (b, a, lost + d / 2)):
            won[me] = won.get(me, prior_draws / 2) + float(score)
            mine = games.setdefault(me, {})
            mine[other] = mine.get(other, 0.0) + float(w + d + lost)
    skill = dict.fromkeys(won, 1.0)
    for _ in range(20_000):
        new = {
            me: won[me]
            / (prior_draws / (skill[me] + 1.0) + sum(n / (skill[me] + skill[other]) for other, n in games[me].items()))
            for me in skill
        }
        change = max(abs(math.log(new[me] / skill[me])) for me in skill)
        skill = new
        if change < 1e-12:
            break
    return {me: math.log(s) * ELO_SCALE for me, s in skill.items()}


pairs = st.tuples(
    st.sampled_from("abcde"), st.sampled_from("abcde"), st.integers(0, 30), st.integers(0, 5), st.integers(0, 30)
).filter(lambda p: p[0] != p[1] and sum(p[2:]) > 0)


@settings(max_examples=20, deadline=None)
@given(st.lists(pairs, min_size=1, max_size=8))
def test_newton_equals_the_slow_twin(rows: list[tuple[str, str, int, int, int]]) -> None:
    """Newton on arrays and a pure-Python fixed point find the same ratings."""
    counts = make_counts(*rows)
    ratings = bradley_terry(counts)
    slow = slow_bradley_terry(counts, prior_draws=PRIOR_DRAWS)
    offset = sum(slow.values()) / len(slow)
    for agent, rating in zip(ratings.agents, ratings.rating, strict=True):
        assert rating - 1000.0 == pytest.approx(slow[agent] - offset, abs=1e-4)


@settings(max_examples=20, deadline=None)
@given(st.lists(pairs, min_size=1, max_size=8))
def test_seats_and_order_of_rows_do_not_matter(rows: list[tuple[str, str, int, int, int]]) -> None:
    """The same games listed backwards with seats exchanged give the same ratings."""
    exchanged = [(b, a, lost, d, w) for a, b, w, d, lost in reversed(rows)]
    first, second = bradley_terry(make_counts(*rows)), bradley_terry(make_counts(*exchanged))
    assert first.agents == second.agents
    np.testing.assert_allclose(first.rating, second.rating, atol=1e-6)
    assert (first.wins == second.wins).all() and (first.losses == second.losses).all()


def test_covariance_is_the_inverse_hessian() -> None:
    """The joint covariance equals the inverse of the Hessian found by finite differences of the log-posterior."""
    scores = np.array([[0, 7, 3], [4, 0, 9], [6, 2, 0]], dtype=float)
    counts = wins_matrix("abc", scores.astype(int).tolist())

    def log_posterior(t: np.ndarray) -> float:
        games = sum(scores[i, j] * -math.log1p(math.exp(t[j] - t[i])) for i in range(3) for j in range(3) if i != j)
        return games - 0.5 * PRIOR_DRAWS * sum(math.log1p(math.exp(x)) + math.log1p(math.exp(-x)) for x in t)

    slow = slow_bradley_terry(counts, PRIOR_DRAWS)
    mode, h = np.array([slow[a] for a in "abc"]) / ELO_SCALE, 1e-4
    eye = np.eye(3) * h
    hessian = np.array(
        [
            [
                log_posterior(mode + eye[i] + eye[j])
                - log_posterior(mode + eye[i] - eye[j])
                - log_posterior(mode - eye[i] + eye[j])
                + log_posterior(mode - eye[i] - eye[j])
                for j in range(3)
            ]
            for i in range(3)
        ]
    ) / (4 * h * h)
    np.testing.assert_allclose(bradley_terry(counts).covariance, np.linalg.inv(-hessian) * ELO_SCALE**2, rtol=1e-4)


def test_a_difference_uses_what_two_agents_have_in_common() -> None:
    """Two agents far from the anchor that met often: their difference is known better than either rating is."""
    ratings = bradley_terry(
        make_counts(("a", "b", 300, 0, 300), ("a", "bot:based", 8, 0, 2), ("b", "bot:based", 8, 0, 2)), "bot:based"
    )
    difference = ratings.difference("a", "b")
    assert difference.upper - difference.lower < 0.25 * (ratings.upper[0] - ratings.lower[0])
    assert ratings.difference("b", "a").mean == pytest.approx(-difference.mean)


def test_intervals_cover_the_truth() -> None:
    """Of 400 simulated leagues, about 95 % have the true difference inside the 95 % interval (within 4 sigma)."""
    rng = np.random.default_rng(7)
    names = [f"agent{i}" for i in range(6)]
    truth = np.array([-300.0, -120.0, 0.0, 60.0, 150.0, 320.0])
    i, j = np.triu_indices(6, k=1)
    p = 1.0 / (1.0 + 10.0 ** ((truth[j] - truth[i]) / 400.0))
    covered = {"anchor": 0, "pair": 0}
    for _ in range(400):
        wins = rng.binomial(60, p)
        counts = PairCounts(
            tuple(names[a] for a in i), tuple(names[b] for b in j), wins, np.zeros_like(wins), 60 - wins
        )
        ratings = bradley_terry(counts, "agent2")
        a, b = rng.choice(6, size=2, replace=False)
        low, high = ratings.difference(names[a], names[b])[1:]
        covered["pair"] += bool(low <= truth[a] - truth[b] <= high)
        c = rng.choice([0, 1, 3, 4, 5])
        covered["anchor"] += bool(ratings.lower[c] <= 1000.0 + truth[c] <= ratings.upper[c])
    tolerance = 4 * math.sqrt(0.05 * 0.95 / 400)
    for share in (covered["pair"] / 400, covered["anchor"] / 400):
        assert abs(share - 0.95) < tolerance


def test_five_hundred_agents_solve_the_score_equations() -> None:
    """With 500 agents every agent's expected score, imagined draw included, equals the score it made."""
    rng = np.random.default_rng(3)
    n = 500
    i, j = rng.integers(0, n, (2, 12_000))
    wins, draws, losses = rng.integers(0, 20, (3, 12_000))
    ids = [f"a{k:03d}" for k in range(n)]
    counts = PairCounts(tuple(ids[k] for k in i), tuple(ids[k] for k in j), wins, draws, losses)
    ratings = bradley_terry(counts, "a007")
    assert ratings.rating[7] == 1000.0 and len(ratings.agents) == n
    games = np.zeros((n, n))
    score = np.zeros(n)
    met = i != j
    np.add.at(games, (i[met], j[met]), counts.games[met])
    np.add.at(games, (j[met], i[met]), counts.games[met])
    np.add.at(score, i[met], (wins + draws / 2)[met])
    np.add.at(score, j[met], (losses + draws / 2)[met])
    expected = (games / (1.0 + 10.0 ** ((ratings.rating[None, :] - ratings.rating[:, None]) / 400.0))).sum(axis=1)
    assert np.abs(expected - score).max() < PRIOR_DRAWS / 2
    assert (ratings.wins + ratings.draws / 2).sum() == pytest.approx(score.sum())


def test_games_against_oneself_are_left_out() -> None:
    """A match of an agent with itself changes no rating and no count; an agent with nothing else is not rated."""
    plain = make_counts(("a", "b", 6, 1, 3))
    mirrored = make_counts(("a", "b", 6, 1, 3), ("a", "a", 50, 5, 45), ("c", "c", 0, 9, 0))
    first, second = bradley_terry(plain), bradley_terry(mirrored)
    assert second.agents == ("a", "b")
    np.testing.assert_array_equal(first.rating, second.rating)
    np.testing.assert_array_equal(first.draws, second.draws)


def test_without_the_anchor_the_mean_is_held_and_said() -> None:
    """An anchor that has not played is not named, and the mean rating is 1000."""
    ratings = bradley_terry(make_counts(("a", "b", 6, 0, 3), ("b", "c", 5, 0, 1)), "bot:based")
    assert ratings.anchor is None
    assert ratings.rating.mean() == pytest.approx(1000.0)
    assert (ratings.lower < ratings.rating).all()


def test_the_anchor_is_exact() -> None:
    """The anchor has its rating without an interval."""
    ratings = bradley_terry(make_counts(("a", "bot:based", 6, 0, 3)), "bot:based", 1500.0)
    assert ratings.anchor == "bot:based"
    assert ratings.rating[1] == ratings.lower[1] == ratings.upper[1] == 1500.0


def test_superiority() -> None:
    """The likelihood of superiority is Phi(difference / deviation), one half for equals, and adds up to one."""
    ratings = bradley_terry(make_counts(("a", "b", 60, 0, 40), ("c", "d", 5, 0, 5)))
    difference = ratings.difference("a", "b")
    z = difference.mean / ((difference.upper - difference.lower) / 2 / 1.959964)
    assert ratings.superiority("a", "b") == pytest.approx(0.5 * (1 + math.erf(z / math.sqrt(2))), abs=1e-6)
    assert ratings.superiority("a", "b") + ratings.superiority("b", "a") == pytest.approx(1.0)
    assert ratings.superiority("c", "d") == pytest.approx(0.5)
    assert ratings.superiority("a", "a") == 0.5


def test_no_games_rate_nobody() -> None:
    """Empty counts give empty ratings, and asking for an agent says so in one line."""
    ratings = bradley_terry(make_counts())
    assert ratings.agents == () and len(ratings.rating) == 0
    with pytest.raises(UsageError, match="agent `a` has no rated game"):
        ratings.difference("a", "b")


def test_a_prior_of_nothing_is_refused() -> None:
    """Without a prior an unbeaten agent has no rating, so 0 is refused."""
    with pytest.raises(ValueError, match="prior_draws=0"):
        bradley_terry(make_counts(("a", "b", 1, 0, 0)), prior_draws=0.0)


def test_elo_known_answers() -> None:
    """Equals: a win is worth 16 of K = 32; 400 points ahead expects 10/11 (Elo 1978)."""
    assert elo_update(1000.0, 1000.0, 1.0) == (1016.0, 984.0)
    assert elo_update(1000.0, 1000.0, 0.5) == (1000.0, 1000.0)
    assert expected_score(1400.0, 1000.0) == pytest.approx(10 / 11)
    assert elo_update(1400.0, 1000.0, 0.0)[0] == pytest.approx(1400.0 - 320 / 11)


@given(st.floats(-5000, 5000), st.floats(-5000, 5000), st.sampled_from([0.0, 0.5, 1.0]))
def test_elo_is_symmetric(a: float, b: float, score: float) -> None:
    """Seen from the other side a game changes the same ratings the same way, and their sum stays."""
    after_a, after_b = elo_update(a, b, score)
    swapped_b, swapped_a = elo_update(b, a, 1.0 - score)
    assert after_a == pytest.approx(swapped_a, abs=1e-9) and after_b == pytest.approx(swapped_b, abs=1e-9)
    assert after_a + after_b == pytest.approx(a + b, abs=1e-9)


def test_elo_series_updates_once_a_game_in_order() -> None:
    """A series equals updates by hand, one a game, unrounded; the order of games shows."""
    games = [("a", "b", 1.0), ("b", "c", 0.5), ("a", "b", 0.0)]
    ratings, history = elo_series(games)
    a1, b1 = elo_update(1000.0, 1000.0, 1.0)
    b2, c2 = elo_update(b1, 1000.0, 0.5)
    a3, b3 = elo_update(a1, b2, 0.0)
    assert ratings == {"a": a3, "b": b3, "c": c2}
    np.testing.assert_array_equal(history, [[a1, b1], [b2, c2], [a3, b3]])
    assert a3 != round(a3)
    assert elo_series(games[::-1])[0] != ratings
    assert elo_series([])[1].shape == (0, 2)
