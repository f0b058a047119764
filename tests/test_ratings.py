"""Elo and Bradley-Terry against published answers, a slow twin, and simulation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from league.davidson import Prior
from league.errors import UsageError
from league.ratings import ELO_K, ELO_SCALE, PairCounts, bradley_terry, elo_series, elo_update, expected_score

NO_PRIOR = Prior(draws=1e-8, lineage=1e-8, seat=1e-6, decided=1e-8)
"""As good as nothing is believed, but that the first seat has no advantage."""
EVEN_SEATS = Prior(seat=1e-6)


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
    ratings = bradley_terry(counts, prior=NO_PRIOR)
    skill = np.exp((ratings.rating - ratings.rating.mean()) / ELO_SCALE)
    np.testing.assert_allclose(skill, [0.640, 1.043, 0.660, 2.270], atol=6e-4)


def test_bradley_terry_meeple_pentathlon() -> None:
    """In OpenSpiel's voting test data (Meeple Pentathlon) the first and the third come out equal."""
    ratings = bradley_terry(wins_matrix("ABC", [[0, 4, 2], [1, 0, 2], [3, 3, 0]]), prior=NO_PRIOR)
    assert ratings.rating[0] == pytest.approx(ratings.rating[2], abs=1e-3)
    assert ratings.rating[0] > ratings.rating[1] + 10


def test_bradley_terry_cycle_with_an_extra_win() -> None:
    """A three-cycle and one more win of the first over the second: choix's test gives .419617624, -.419617624, 0."""
    counts = make_counts(("a", "b", 2, 0, 0), ("b", "c", 1, 0, 0), ("c", "a", 1, 0, 0))
    ratings = bradley_terry(counts, prior=NO_PRIOR)
    np.testing.assert_allclose((ratings.rating - 1000.0) / ELO_SCALE, [0.419617624, -0.419617624, 0.0], atol=1e-6)


KATAGO: list[tuple[float, list[tuple[str, str, int, int, int]], list[float]]] = [
    (1.0, [("b", "c", 200, 0, 100)], [59.9833, -59.9834]),
    (
        1.0,
        [("a", "c", 0, 0, 1), ("c", "a", 0, 0, 5), ("b", "c", 5, 0, 0), ("c", "b", 1, 0, 0)],
        [76.5228, 76.5228, -161.285],
    ),
    (1.0, [("b", "c", 0, 0, 1), ("c", "a", 5, 0, 1), ("c", "b", 0, 0, 5)], [-190.849, 190.849, 0.0]),
    (0.1, [("b", "c", 0, 0, 1), ("c", "a", 5, 0, 1), ("c", "b", 0, 0, 5)], [-266.471, 266.471, 0.0]),
    (0.01, [("b", "c", 0, 0, 1), ("c", "a", 7, 0, 1), ("c", "b", 0, 0, 5)], [-322.013, 292.742, 14.5828]),
]


@pytest.mark.parametrize(("prior_wl", "games", "elos"), KATAGO)
def test_bradley_terry_prior_is_katagos(
    prior_wl: float, games: list[tuple[str, str, int, int, int]], elos: list[float]
) -> None:
    """KataGo's C++ tests (`cpp/core/elo.cpp`, tolerance .01): `priorWL` virtual wins and losses against 0 Elo."""
    ratings = bradley_terry(make_counts(*games), prior=Prior(draws=2 * prior_wl, seat=1e-6))
    np.testing.assert_allclose(ratings.model.strength * ELO_SCALE, elos, atol=0.011)


def test_davidsons_draws_are_those_of_evalica() -> None:
    """Wikipedia's 22 games with 2 ties a pair: `evalica.newman` has .617, 1.199, .644, 2.098 and 1.1964 for ties."""
    wins = [("A", "B", 2, 2, 3), ("A", "D", 1, 2, 4), ("B", "C", 5, 2, 3), ("C", "D", 1, 2, 3)]
    ratings = bradley_terry(make_counts(*wins, ("A", "C", 0, 2, 0), ("B", "D", 0, 2, 0)), prior=NO_PRIOR)
    skill = np.exp(ratings.model.strength - ratings.model.strength.mean())
    np.testing.assert_allclose(skill, [0.617, 1.199, 0.644, 2.098], atol=6e-4)
    assert math.exp(ratings.model.log_draw) == pytest.approx(1.1964, abs=1e-4)


def test_a_pair_alone_is_solved_by_hand() -> None:
    """For two agents Davidson's estimates are closed: pi_a / pi_b = w / l, and v = d / sqrt(w l) (Davidson 1970)."""
    ratings = bradley_terry(make_counts(("a", "b", 50, 30, 20)), prior=NO_PRIOR)
    assert ratings.difference("a", "b").mean == pytest.approx(400 * math.log10(50 / 20), abs=1e-4)
    assert math.exp(ratings.model.log_draw) == pytest.approx(30 / math.sqrt(50 * 20), abs=1e-6)
    assert ratings.predict("a", "b") == pytest.approx((0.5, 0.3, 0.2), abs=1e-6)
    assert ratings.predict("b", "a").score == pytest.approx(0.35, abs=1e-6)


@pytest.mark.parametrize("games", [1, 50, 10_000])
def test_rock_paper_scissors_is_level(games: int) -> None:
    """Three agents that beat each other in a ring have one rating, however many games say so, and surprise."""
    ring = [("rock", "scissors"), ("scissors", "paper"), ("paper", "rock")]
    rows = [row for a, b in ring for row in ((a, b, games, 0, 0), (b, a, 0, 0, games))]
    ratings = bradley_terry(make_counts(*rows))
    np.testing.assert_allclose(ratings.rating, 1000.0, atol=1e-6)
    assert ratings.seat.mean == pytest.approx(0.0, abs=1e-6)
    found = {(s.a, s.b): s.z for s in ratings.most_surprising(3)}
    assert set(found) == set(ring) and min(found.values()) > (1.2 if games == 1 else 9)
    assert ratings.dispersion > (1.2 if games == 1 else 90)


def test_a_draw_moves_towards_the_middle() -> None:
    """One more draw brings two agents nearer, and leaves who is ahead."""
    before = bradley_terry(make_counts(("a", "b", 10, 0, 2))).difference("a", "b")
    after = bradley_terry(make_counts(("a", "b", 10, 1, 2))).difference("a", "b")
    assert 0.0 < after.mean < before.mean


def test_unbeaten_and_winless_are_finite_and_wide() -> None:
    """Winning or losing everything gives a number and a wide interval."""
    ratings = bradley_terry(
        make_counts(
            ("bot:based", "even", 200, 0, 200),
            ("best", "bot:based", 20, 0, 0),
            ("worst", "bot:based", 0, 0, 20),
        ),
        "bot:based",
        prior=EVEN_SEATS,
    )
    assert np.isfinite(ratings.rating).all() and np.isfinite(ratings.covariance).all()
    width = dict(zip(ratings.agents, ratings.upper - ratings.lower, strict=True))
    assert width["best"] > 5 * width["even"] and width["worst"] > 5 * width["even"]
    assert ratings.difference("best", "bot:based").lower > 0.0 > ratings.difference("worst", "bot:based").upper


def test_groups_that_never_met_are_not_compared() -> None:
    """Agents that no chain of games links are in groups of their own, each held at 1000, the anchor's the first."""
    ratings = bradley_terry(
        make_counts(
            *[("u", "v", 60, 0, 40), ("v", "w", 50, 0, 50), ("w", "x", 7, 3, 9)],
            *[("bot:based", "even", 200, 0, 200), ("b", "c", 9, 0, 1), ("lone", "lone", 4, 0, 4)],
        ),
        "bot:based",
        prior=EVEN_SEATS,
    )
    members = {k: [a for a, g in zip(ratings.agents, ratings.group, strict=True) if g == k] for k in range(3)}
    assert members == {0: ["bot:based", "even"], 1: ["u", "v", "w", "x"], 2: ["b", "c"]}
    assert ratings.anchors == ("bot:based", None, None) and ratings.anchor == "bot:based"
    for k in (1, 2):
        assert ratings.rating[ratings.group == k].mean() == pytest.approx(1000.0)
    u_alone = bradley_terry(
        make_counts(("u", "v", 60, 0, 40), ("v", "w", 50, 0, 50), ("w", "x", 7, 3, 9)), prior=EVEN_SEATS
    )
    apart = u_alone.difference("u", "x")
    together = ratings.difference("u", "x")
    assert together.mean == pytest.approx(apart.mean, abs=3.0), "only draws are in common"
    for compare in (ratings.difference, ratings.superiority, ratings.predict):
        with pytest.raises(UsageError, match=r"`b` and `even` are in groups 3 and 1.*league evaluate"):
            compare("b", "even")
    assert ratings.surprise("b", "even") is None


def test_the_first_seats_advantage_is_found() -> None:
    """Of two equals whose first seat wins 64 % the seat gets it all: 100 Elo points, the agents none."""
    ratings = bradley_terry(make_counts(("a", "b", 6400, 0, 3600), ("b", "a", 6400, 0, 3600)))
    assert ratings.seat.mean == pytest.approx(100.0, abs=1.0) and ratings.seat.lower > 90.0
    assert ratings.difference("a", "b").mean == pytest.approx(0.0, abs=1e-6)
    assert ratings.predict("a", "b").score == pytest.approx(0.5)


def test_neighbours_in_a_lineage_hold_each_other() -> None:
    """A snapshot with few games is drawn to the one before it, not to strangers; one without games stays out."""
    rows = [("old", "bot:based", 90, 0, 10), ("new", "bot:based", 1, 0, 1)]
    plain = bradley_terry(make_counts(*rows), "bot:based")
    linked = bradley_terry(make_counts(*rows), "bot:based", lineage=[("old", "new"), ("new", "newest")])
    assert linked.rating[1] > plain.rating[1] + 30 and linked.agents == plain.agents
    assert linked.upper[1] - linked.lower[1] < plain.upper[1] - plain.lower[1]
    assert abs(linked.rating[2] - plain.rating[2]) < 15


def test_all_games_drawn_are_rated() -> None:
    """Where every game was drawn all are equal, with a finite interval and a finite weight of draws."""
    ratings = bradley_terry(make_counts(("a", "b", 0, 40, 0), ("b", "c", 0, 40, 0)))
    np.testing.assert_allclose(ratings.rating, 1000.0, atol=1e-6)
    assert np.isfinite(ratings.covariance).all() and ratings.predict("a", "c").draw > 0.9


@pytest.mark.parametrize("total", [4, 32, 64, 500])
def test_winning_more_never_lowers_the_lower_bound(total: int) -> None:
    """Turning a loss into a win raises the lower bound, up to a clean sheet: `RUN@best` leans on it."""
    rest = ("bot:based", "b", 500, 0, 500)
    lower = [
        bradley_terry(make_counts(("a", "bot:based", wins, 0, total - wins), rest), "bot:based").lower[0]
        for wins in range(total * 3 // 4, total + 1)
    ]
    assert all(later > earlier for earlier, later in itertools.pairwise(lower))


Game = tuple[str, str, float]
"""Seat 0, seat 1, and what seat 0 scored."""


def one_by_one(counts: PairCounts) -> list[Game]:
    """The games, one a row, as the store has them."""
    columns = zip(counts.seat0, counts.seat1, counts.wins, counts.draws, counts.losses, strict=True)
    return [(a, b, s) for a, b, w, d, lost in columns for s, n in ((1.0, w), (0.5, d), (0.0, lost)) for _ in range(n)]


def slow_twin(
    games: Sequence[Game], prior: Prior, links: Sequence[tuple[str, str]] = ()
) -> tuple[dict[str, float], np.ndarray]:
    """The mode in Elo points (agents, `seat`, `draw` = log v) and the covariance, game by game in plain Python.

    Davidson's probabilities are written out as in the paper, pi_i / (pi_i + pi_j + v sqrt(pi_i pi_j)), the derivatives
    are finite differences of the log-posterior, and steps are Newton's, halved while they do not gain.
    """
    agents = sorted({agent for a, b, _ in games for agent in (a, b)})
    has_draws = any(score == 0.5 for _, _, score in games)
    names = [*agents, "seat", *["draw"] * has_draws]

    def log_posterior(z: np.ndarray) -> float:
        at = dict(zip(names, z, strict=True))
        v = math.exp(at["draw"]) if has_draws else 0.0
        total = 0.0
        for a, b, score in games:
            i, j = math.exp(at[a] + at["seat"]), math.exp(at[b])
            share = {1.0: i, 0.0: j, 0.5: v * math.sqrt(i * j)}[score]
            total += math.log(share / (i + j + v * math.sqrt(i * j)))
        for weight, x in [(prior.draws, at[a]) for a in agents] + [(prior.lineage, at[a] - at[b]) for a, b in links]:
            total += weight / 2 * (math.log(1 / (1 + math.exp(-x))) + math.log(1 / (1 + math.exp(x))))
        total -= (at["seat"] * ELO_SCALE / prior.seat) ** 2 / 2
        return total + prior.decided * math.log(2 / (2 + v)) if has_draws else total

    z, h = np.zeros(len(names)), 1e-3
    eye = np.eye(len(names)) * h
    for _ in range(30):
        gradient = np.array([log_posterior(z + e) - log_posterior(z - e) for e in eye]) / (2 * h)
        hessian = np.array(
            [
                [
                    log_posterior(z + d + e)
                    - log_posterior(z + d - e)
                    - log_posterior(z - d + e)
                    + log_posterior(z - d - e)
                    for e in eye
                ]
                for d in eye
            ]
        ) / (4 * h * h)
        step = -np.linalg.solve(hessian, gradient)
        while log_posterior(z + step) < log_posterior(z) - 1e-9:
            step = step / 2
        z = z + step
        if np.abs(step).max() < 1e-7:
            break
    return dict(zip(names, z * ELO_SCALE, strict=True)), np.linalg.inv(-hessian) * ELO_SCALE**2


pairs = st.tuples(
    st.sampled_from("abcde"), st.sampled_from("abcde"), st.integers(0, 30), st.integers(0, 5), st.integers(0, 30)
).filter(lambda p: p[0] != p[1] and sum(p[2:]) > 0)


@settings(max_examples=12, deadline=None)
@given(st.lists(pairs, min_size=1, max_size=5), st.booleans())
def test_newton_equals_the_slow_twin(rows: list[tuple[str, str, int, int, int]], is_linked: bool) -> None:
    """Counts and arrays give the ratings, the seat, the draws and the joint covariance of single games in Python."""
    counts, prior = make_counts(*rows), Prior()
    played = sorted({agent for row in rows for agent in row[:2]})
    links = list(itertools.pairwise(played)) if is_linked else []
    ratings = bradley_terry(counts, lineage=links, prior=prior)
    slow, covariance = slow_twin(one_by_one(counts), prior, links)
    n = len(ratings.agents)
    assert list(ratings.agents) == list(slow)[:n]
    np.testing.assert_allclose(ratings.model.strength * ELO_SCALE, list(slow.values())[:n], atol=2e-3)
    assert ratings.seat.mean == pytest.approx(slow["seat"], abs=2e-3)
    if "draw" in slow:
        assert ratings.model.log_draw * ELO_SCALE == pytest.approx(slow["draw"], abs=2e-3)
    np.testing.assert_allclose(ratings.covariance, covariance[:n, :n], rtol=1e-3, atol=1.0)


@settings(max_examples=20, deadline=None)
@given(st.lists(pairs, min_size=1, max_size=8))
def test_seats_and_order_of_rows_do_not_matter(rows: list[tuple[str, str, int, int, int]]) -> None:
    """The same games listed backwards with seats exchanged give the same ratings."""
    exchanged = [(b, a, lost, d, w) for a, b, w, d, lost in reversed(rows)]
    first, second = bradley_terry(make_counts(*rows)), bradley_terry(make_counts(*exchanged))
    assert first.agents == second.agents
    np.testing.assert_allclose(first.rating, second.rating, atol=1e-6)
    assert (first.wins == second.wins).all() and (first.losses == second.losses).all()


def test_a_difference_uses_what_two_agents_have_in_common() -> None:
    """Two agents far from the anchor that met often: their difference is known better than either rating is."""
    ratings = bradley_terry(
        make_counts(("a", "b", 300, 0, 300), ("a", "bot:based", 8, 0, 2), ("b", "bot:based", 8, 0, 2)),
        "bot:based",
        prior=EVEN_SEATS,
    )
    difference = ratings.difference("a", "b")
    assert difference.upper - difference.lower < 0.25 * (ratings.upper[0] - ratings.lower[0])
    assert ratings.difference("b", "a").mean == pytest.approx(-difference.mean)


def coverage(leagues: int, games: int, draws: float, seat: float, met: float, seed: int) -> dict[str, float]:
    """How often 95 % intervals of all differences, and of the first seat's advantage, held the truth.

    Each league has 8 agents of known strength; of the ordered pairs a share of `met` play `games` games, in both
    seatings. draws: Davidson's v. seat: Elo points. Also `dispersion`, the mean squared surprise.
    """
    rng = np.random.default_rng(seed)
    names = [f"agent{k}" for k in range(8)]
    covered, seats, total, scatter = 0, 0, 0, 0.0
    for _ in range(leagues):
        truth = rng.normal(0.0, 200.0, 8)
        i, j = np.nonzero(~np.eye(8, dtype=bool))
        chosen = np.triu(rng.random((8, 8)) < met) | np.eye(8, k=1, dtype=bool)
        keep = (chosen | chosen.T)[i, j]
        i, j = i[keep], j[keep]
        x = (truth[i] - truth[j] + seat) / ELO_SCALE
        shares = np.exp(np.stack([x / 2, np.full(len(x), math.log(draws) if draws else -1e3), -x / 2], axis=1))
        outcome = rng.multinomial(games, shares / shares.sum(axis=1, keepdims=True))
        counts = PairCounts(tuple(names[k] for k in i), tuple(names[k] for k in j), *outcome.T)
        ratings = bradley_terry(counts, names[0])
        for a, b in itertools.combinations(range(8), 2):
            low, high = ratings.difference(names[a], names[b])[1:]
            covered += bool(low <= truth[a] - truth[b] <= high)
            total += 1
        seats += bool(ratings.seat.lower <= seat <= ratings.seat.upper)
        scatter += ratings.dispersion / leagues
    return {"differences": covered / total, "seat": seats / leagues, "dispersion": scatter}


def test_intervals_cover_the_truth() -> None:
    """In simulated leagues with draws and a first-seat advantage 93 to 97 % of the intervals hold the truth."""
    found = coverage(leagues=250, games=15, draws=0.6, seat=40.0, met=0.5, seed=7)
    assert 0.93 < found["differences"] < 0.97 and 0.92 < found["seat"] < 0.98
    assert found["dispersion"] == pytest.approx(1.0, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("games", [8, 40])
@pytest.mark.parametrize(("draws", "seat"), [(0.0, 0.0), (0.3, 60.0), (2.0, -30.0)])
@pytest.mark.parametrize("met", [0.0, 1.0])
def test_intervals_cover_the_truth_everywhere(games: int, draws: float, seat: float, met: float) -> None:
    """The same of many more leagues, with few and many games, draws and meetings."""
    found = coverage(2000, games, draws, seat, met, seed=11)
    assert 0.93 < found["differences"] < 0.97 and 0.93 < found["seat"] < 0.98
    assert found["dispersion"] < 1.07, "less in a chain of meetings, where the fit takes nearly all"
    assert found["dispersion"] > 0.93 or met == 0.0


def test_five_hundred_agents_solve_the_score_equations() -> None:
    """With 500 agents every agent's expected score, imagined games included, equals the score it made."""
    rng = np.random.default_rng(3)
    n = 500
    i, j = rng.integers(0, n, (2, 12_000))
    wins, draws, losses = rng.integers(0, 20, (3, 12_000))
    ids = [f"a{k:03d}" for k in range(n)]
    counts = PairCounts(tuple(ids[k] for k in i), tuple(ids[k] for k in j), wins, draws, losses)
    ratings = bradley_terry(counts, "a007")
    assert ratings.rating[7] == 1000.0 and len(ratings.agents) == n
    i, j, total, wins, draws, losses = (column[i != j] for column in (i, j, counts.games, wins, draws, losses))
    x, v = ratings.model.strength[i] - ratings.model.strength[j] + ratings.model.seat, math.exp(ratings.model.log_draw)
    expected = (np.exp(x / 2) + v / 2) / (np.exp(x / 2) + np.exp(-x / 2) + v)
    left = np.bincount(i, wins + draws / 2 - total * expected, n) + np.bincount(
        j, losses + draws / 2 - total * (1 - expected), n
    )
    prior = 1.0 - 2.0 / (1.0 + np.exp(-ratings.model.strength))
    np.testing.assert_allclose(left + prior, 0.0, atol=1e-5)
    assert (ratings.wins + ratings.draws / 2).sum() == total.sum()


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
    ratings = bradley_terry(make_counts(("a", "b", 60, 0, 40), ("c", "d", 5, 0, 5)), prior=EVEN_SEATS)
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


@pytest.mark.parametrize("name", ["draws", "lineage", "seat", "decided"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
def test_a_prior_of_nothing_is_refused(name: str, value: float) -> None:
    """Without a prior an unbeaten agent has no rating, so 0 is refused."""
    with pytest.raises(ValueError, match=f"prior {name}={value}"):
        Prior(**{name: value})


def test_surprise_is_seen_from_the_agent_asked_for() -> None:
    """A pair that breaks the order is the most surprising; seen from the other agent everything is exchanged."""
    order = [(a, b, 30, 4, 10) for a, b in itertools.combinations("abcd", 2) if (a, b) != ("a", "d")]
    ratings = bradley_terry(make_counts(*order, ("a", "d", 2, 0, 20), ("d", "a", 18, 1, 3)))
    worst = ratings.most_surprising(1)[0]
    assert (worst.a, worst.b, worst.games) == ("d", "a", 44) and worst.z > 5
    assert worst.observed == pytest.approx(38.5 / 44) and worst.predicted < worst.observed
    other = ratings.surprise("a", "d")
    assert other is not None and other.z == pytest.approx(-worst.z) and other.observed == pytest.approx(5.5 / 44)
    assert len(ratings.most_surprising(99)) == 6


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


def test_elo_of_a_ring_does_not_inflate() -> None:
    """Rock, paper and scissors in turn stay within one game's worth of each other for ever, as a chain would not."""
    ring = [("rock", "scissors", 1.0), ("scissors", "paper", 1.0), ("paper", "rock", 1.0)]
    for rounds in (1, 10, 1000):
        ratings, _ = elo_series(ring * rounds)
        assert max(ratings.values()) - min(ratings.values()) < ELO_K
        assert sum(ratings.values()) == pytest.approx(3000.0)
