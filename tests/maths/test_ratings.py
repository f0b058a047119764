"""Elo and Bradley-Terry against published answers, a slow twin, and simulation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.coverage import LADDERS, League, held_out, normal, play_out, share_inside
from league.errors import UsageError
from league.maths.davidson import Prior
from league.maths.elo import elo_ratings, elo_update, expected_score
from league.maths.pairs import PairCounts
from league.maths.ratings import ELO_SCALE, MAXIMUM_LIKELIHOOD, bradley_terry

NO_PRIOR = replace(MAXIMUM_LIKELIHOOD, seat=1e-6)
"""Nothing is believed, but that the first seat has no advantage."""
EVEN_SEATS = Prior(seat=1e-6)


def make_counts(*rows: tuple[str, str, int, int, int]) -> PairCounts:
    """Counts from rows of (seat 0, seat 1, wins, draws, losses)."""
    table = np.array([row[2:] for row in rows], dtype=np.int64).reshape(-1, 3)
    return PairCounts(tuple(r[0] for r in rows), tuple(r[1] for r in rows), table[:, 0], table[:, 1], table[:, 2])


PUBLISHED: dict[str, tuple[list[list[int]], list[float]]] = {
    'Wikipedia, "Bradley-Terry model"': (
        [[0, 2, 0, 1], [3, 0, 5, 0], [0, 3, 0, 1], [4, 0, 3, 0]],
        [0.640, 1.043, 0.660, 2.270],
    ),
    "choix's test, a cycle and one more win": (
        [[0, 2, 0], [0, 0, 1], [1, 0, 0]],
        [math.exp(0.419617624), math.exp(-0.419617624), 1.0],
    ),
}
"""Wins of row over column, and the skills that others print."""


@pytest.mark.parametrize("source", PUBLISHED)
def test_published_answers(source: str) -> None:
    wins, expected = PUBLISHED[source]
    names = "ABCD"[: len(wins)]
    rows = [(a, b, wins[i][j], 0, 0) for i, a in enumerate(names) for j, b in enumerate(names) if wins[i][j]]
    ratings = bradley_terry(make_counts(*rows), prior=NO_PRIOR)
    skill = np.exp((ratings.rating - ratings.rating.mean()) / ELO_SCALE)
    np.testing.assert_allclose(skill, expected, atol=6e-4)


KATAGO: list[tuple[list[tuple[str, str, int, int, int]], list[float]]] = [
    ([("b", "c", 200, 0, 100)], [59.9833, -59.9834]),
    (
        [("a", "c", 0, 0, 1), ("c", "a", 0, 0, 5), ("b", "c", 5, 0, 0), ("c", "b", 1, 0, 0)],
        [76.5228, 76.5228, -161.285],
    ),
    ([("b", "c", 0, 0, 1), ("c", "a", 5, 0, 1), ("c", "b", 0, 0, 5)], [-190.849, 190.849, 0.0]),
]


@pytest.mark.parametrize(("games", "elos"), KATAGO)
def test_bradley_terry_katagos_known_answers(games: list[tuple[str, str, int, int, int]], elos: list[float]) -> None:
    """KataGo's C++ tests (`cpp/core/elo.cpp`, tolerance .01) with its virtual win and loss against 0 played out."""
    virtual = [(agent, "zero", 1, 0, 1) for agent in sorted({agent for row in games for agent in row[:2]})]
    ratings = bradley_terry(make_counts(*games, *virtual), "zero", 0.0, prior=NO_PRIOR)
    np.testing.assert_allclose(ratings.rating[:-1], elos, atol=0.011)


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


def test_groups_that_never_met_are_not_compared() -> None:
    """Agents that no chain of games links are in groups of their own, each held at 1000, the anchor's the first."""
    apart = [("u", "v", 60, 0, 40), ("v", "w", 50, 0, 50), ("w", "x", 7, 3, 9)]
    others = [("bot:based", "even", 200, 0, 200), ("b", "c", 9, 0, 1), ("lone", "lone", 4, 0, 4)]
    ratings = bradley_terry(make_counts(*apart, *others), "bot:based", prior=EVEN_SEATS)
    members = {k: [a for a, g in zip(ratings.agents, ratings.group, strict=True) if g == k] for k in range(3)}
    assert members == {0: ["bot:based", "even"], 1: ["u", "v", "w", "x"], 2: ["b", "c"]}
    assert ratings.anchors == ("bot:based", None, None) and ratings.anchor == "bot:based"
    for k in (1, 2):
        assert ratings.rating[ratings.group == k].mean() == pytest.approx(1000.0)
    for compare in (ratings.difference, ratings.superiority, ratings.predict):
        with pytest.raises(UsageError, match=r"`b` and `even` are in groups 3 and 1.*league evaluate"):
            compare("b", "even")
    assert ratings.surprise("b", "even") is None


@pytest.mark.parametrize("total", [4, 32, 64, 500])
def test_winning_more_never_lowers_the_lower_bound(total: int) -> None:
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


def imagined_by_hand(strength: dict[str, float], v: float, games: Sequence[Game]) -> dict[tuple[str, str], float]:
    """One imagined draw an agent, less one a group: every pair's variance of scores times its effective resistance."""
    agents = sorted(strength)
    laplacian = np.zeros((len(agents), len(agents)))
    told: dict[tuple[str, str], float] = {}
    for a, b, _ in games:
        i, j = math.exp(strength[a]), math.exp(strength[b])
        win, draw, loss = np.array([i, v * math.sqrt(i * j), j]) / (i + j + v * math.sqrt(i * j))
        variance = win * 1.0 + draw * 0.25 + loss * 0.0 - (win + draw / 2) ** 2
        told[min(a, b), max(a, b)] = told.get((min(a, b), max(a, b)), 0.0) + variance
    for (a, b), variance in told.items():
        edge = np.array([float(x == a) - float(x == b) for x in agents])
        laplacian += variance * np.outer(edge, edge)
    resistance = np.linalg.pinv(laplacian, hermitian=True, rcond=1e-12)
    drawn = {}
    for (a, b), variance in told.items():
        edge = np.array([float(x == a) - float(x == b) for x in agents])
        drawn[a, b] = variance * float(edge @ resistance @ edge)
    return drawn


def groups_by_hand(agents: Sequence[str], pairs: Sequence[tuple[str, str]]) -> list[set[str]]:
    groups = [{agent} for agent in agents]
    for a, b in pairs:
        of_a, of_b = (next(group for group in groups if x in group) for x in (a, b))
        if of_a is not of_b:
            groups.remove(of_b)
            of_a |= of_b
    return groups


def slow_twin(
    games: Sequence[Game], prior: Prior, links: Sequence[tuple[str, str]] = ()
) -> tuple[dict[str, float], np.ndarray]:
    """The mode in Elo points (agents, `seat`, `draw` = log v) and the covariance, game by game in plain Python.

    Davidson's probabilities are written out as in the paper, pi_i / (pi_i + pi_j + v sqrt(pi_i pi_j)), the derivatives
    are finite differences of the log-posterior, and steps are Newton's, halved while they do not gain.
    """
    agents = sorted({agent for a, b, _ in games for agent in (a, b)})
    seatings = {(a, b) for a, b, _ in games}
    has_draws = any(score == 0.5 for _, _, score in games)
    has_seats = any((b, a) in seatings for a, b in seatings)
    names = [*agents, *["seat"] * has_seats, *["draw"] * has_draws]
    groups = groups_by_hand(agents, [*seatings, *links])
    drawn: dict[tuple[str, str], float] = {}

    def log_posterior(z: np.ndarray) -> float:
        at = dict(zip(names, z, strict=True))
        v = math.exp(at["draw"]) if has_draws else 0.0
        total = 0.0
        for a, b, score in games:
            i, j = math.exp(at[a] + (at["seat"] if (b, a) in seatings else 0.0)), math.exp(at[b])
            share = {1.0: i, 0.0: j, 0.5: v * math.sqrt(i * j)}[score]
            total += math.log(share / (i + j + v * math.sqrt(i * j)))
        imagined = [(prior.draws * drawn[pair], pair) for pair in drawn] + [(prior.lineage, pair) for pair in links]
        for weight, (a, b) in imagined:
            x = at[a] - at[b]
            total += weight / 2 * (math.log(1 / (1 + math.exp(-x))) + math.log(1 / (1 + math.exp(x))))
        for group in groups:
            total -= sum(at[agent] for agent in group) ** 2 / (4 * len(group))
        if has_seats:
            total -= (at["seat"] * ELO_SCALE / prior.seat) ** 2 / 2
        return total + prior.decided * math.log(2 / (2 + v)) if has_draws else total

    z, h = np.zeros(len(names)), 1e-3
    eye = np.eye(len(names)) * h
    for _ in range(200):
        at = dict(zip(names, z, strict=True))
        drawn = imagined_by_hand(
            {agent: at[agent] for agent in agents}, math.exp(at["draw"]) if has_draws else 0.0, games
        )
        f = log_posterior
        gradient = np.array([f(z + e) - f(z - e) for e in eye]) / (2 * h)
        second = [[f(z + d + e) - f(z + d - e) - f(z - d + e) + f(z - d - e) for e in eye] for d in eye]
        hessian = np.array(second) / (4 * h * h)
        step = -np.linalg.solve(hessian, gradient)
        while log_posterior(z + step) < log_posterior(z) - 1e-9:
            step = step / 2
        z = z + step
        if np.abs(step).max() < 1e-6:
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
    assert (ratings.seat is None) == ("seat" not in slow)
    if ratings.seat is not None:
        assert ratings.seat.mean == pytest.approx(slow["seat"], abs=2e-3)
    if "draw" in slow:
        assert ratings.model.log_draw * ELO_SCALE == pytest.approx(slow["draw"], abs=2e-3)
    np.testing.assert_allclose(ratings.covariance, covariance[:n, :n], rtol=1e-3, atol=1.0)


class Coverage(NamedTuple):
    """How often 95 % intervals held the truth: of all differences, of the first seat's advantage.

    dispersion: its mean over the leagues. surprising: the share of pairs beyond 2.5 deviations.
    """

    differences: float
    seat: float
    dispersion: float
    surprising: float


def coverage(
    league: League, leagues: int, games: int, draws: float = 0.0, seat: float = 0.0, seed: int = 7, chain: bool = False
) -> Coverage:
    """Of `leagues`; `games` in either seating. chain: each agent is a snapshot, its neighbour the one before."""
    rng = np.random.default_rng(seed)
    covered, seats, scatter, surprising = [], [], [], []
    for _ in range(leagues):
        truth, pairs = league(rng)
        counts = play_out(rng, truth, pairs, games, draws, seat)
        names = sorted({*counts.seat0})
        ratings = bradley_terry(counts, names[0], lineage=itertools.pairwise(names) if chain else ())
        covered.append(share_inside(ratings.rating, ratings.covariance, truth))
        assert ratings.seat is not None
        seats.append(ratings.seat.lower <= seat <= ratings.seat.upper)
        if ratings.dispersion is not None:
            scatter.append(ratings.dispersion)
            surprising.append(float(np.mean(np.abs(ratings.pairs.z) > 2.5)))
    return Coverage(
        float(np.mean(covered)),
        float(np.mean(seats)),
        float(np.mean(scatter)) if scatter else math.nan,
        float(np.mean(surprising)) if surprising else math.nan,
    )


@pytest.mark.parametrize("name", list(LADDERS)[:3])
def test_intervals_cover_the_truth_on_ladders(name: str) -> None:
    league, games = LADDERS[name]
    found = coverage(league, 40, games)
    assert 0.92 < found.differences < 0.98, "40 leagues tell it to about 1 %"
    assert math.isnan(found.dispersion) or found.dispersion == pytest.approx(1.0, abs=0.05)
    assert math.isnan(found.surprising) or found.surprising < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("games", [8, 40])
@pytest.mark.parametrize(("draws", "seat"), [(0.0, 0.0), (0.3, 60.0), (2.0, -30.0)])
@pytest.mark.parametrize("met", [0.0, 1.0])
def test_intervals_cover_the_truth_everywhere(games: int, draws: float, seat: float, met: float) -> None:
    """The same of many more leagues, with few and many games, draws and meetings."""
    found = coverage(normal(8, met), 2000, games, draws, seat, seed=11)
    assert 0.93 < found.differences < 0.97 and 0.93 < found.seat < 0.98
    assert met == 0.0 or 0.93 < found.dispersion < 1.07, "in a chain of meetings no pair can tell"


@pytest.mark.parametrize(("share", "most"), [(0.5, 0.005), (0.2, 0.01), (0.06, 0.03)])
def test_held_out_games_are_predicted(share: float, most: float) -> None:
    """On a ladder of 319 about 390, 150 and 50 games an agent predict the rest nearly as well as the truth does."""
    found = held_out(share)
    assert found.by_ratings < found.by_truth + most < math.log(2) - 0.05


def test_the_prior_of_one_draw_is_jeffreys() -> None:
    rng = np.random.default_rng(2)
    truth, pairs = normal(6, 0.6)(rng)
    counts = play_out(rng, truth, pairs, 4)
    for draws in (1.0, 1.25):
        ratings = bradley_terry(counts, prior=Prior(draws=draws, seat=1e-9))
        at = {name: i for i, name in enumerate(ratings.agents)}
        i, j = (np.array([at[name] for name in seat]) for seat in (counts.seat0, counts.seat1))

        def log_density(t: np.ndarray, draws: float = draws, i: np.ndarray = i, j: np.ndarray = j) -> float:
            p = 1.0 / (1.0 + np.exp(t[j] - t[i]))
            edges = np.eye(6)[i] - np.eye(6)[j]
            information = edges.T @ ((counts.games * p * (1.0 - p))[:, None] * edges)
            likelihood = counts.wins @ np.log(p) + counts.losses @ np.log1p(-p)
            return float(likelihood + draws / 2 * np.linalg.slogdet(information[1:, 1:])[1])

        for k in range(6):
            step = np.eye(6)[k] * 1e-4
            slope = log_density(ratings.model.strength + step) - log_density(ratings.model.strength - step)
            assert slope / 2e-4 == pytest.approx(0.0, abs=2e-4)


def test_no_false_alarm_in_a_chain() -> None:
    names = [f"agent{k:02d}" for k in range(50)]
    rows = [row for a, b in itertools.pairwise(names) for row in ((b, a, 32, 0, 18), (a, b, 18, 0, 32))]
    ratings = bradley_terry(make_counts(*rows))
    assert ratings.most_surprising(10) == [] and ratings.dispersion is None
    assert ratings.surprise(names[3], names[4]) is None
    ring = [*rows, (names[0], names[-1], 32, 0, 18), (names[-1], names[0], 18, 0, 32)]
    closed = bradley_terry(make_counts(*ring))
    assert closed.dispersion is not None and closed.dispersion > 50, "the same, closed to a ring, is a cycle"


def test_a_seats_advantage_needs_both_seatings() -> None:
    rows = [("a", "b", 9, 0, 0), ("b", "c", 9, 0, 1), ("a", "c", 9, 0, 0)]
    assert bradley_terry(make_counts(*rows)).seat is None, "no two met in both seatings"
    both = make_counts(*rows, ("b", "a", 5, 0, 3))
    assert bradley_terry(both).seat is not None
    unseated = bradley_terry(replace(both, unseated=np.ones(len(both.seat0), dtype=bool)))
    assert unseated.seat is None and unseated.model.seat == 0.0


def test_the_anchor_is_exact() -> None:
    """It has its rating without an interval; where it has not played it is not named, and the mean is 1000."""
    ratings = bradley_terry(make_counts(("a", "bot:based", 6, 0, 3)), "bot:based", 1500.0)
    assert ratings.anchor == "bot:based"
    assert ratings.rating[1] == ratings.lower[1] == ratings.upper[1] == 1500.0
    without = bradley_terry(make_counts(("a", "b", 6, 0, 3), ("b", "c", 5, 0, 1)), "bot:based")
    assert without.anchor is None and without.rating.mean() == pytest.approx(1000.0)
    assert (without.lower < without.rating).all()


def test_no_games_rate_nobody() -> None:
    for rows in ([], [("a", "a", 50, 5, 45)]):
        ratings = bradley_terry(make_counts(*rows))
        assert ratings.agents == () and len(ratings.rating) == 0
        with pytest.raises(UsageError, match="agent `a` has no rated game"):
            ratings.difference("a", "b")


@pytest.mark.parametrize("name", ["draws", "lineage", "seat", "decided"])
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_a_prior_that_is_none_is_refused(name: str, value: float) -> None:
    value = 0.0 if name == "seat" and value == math.inf else value
    with pytest.raises(ValueError, match=f"prior {name}={value}"):
        Prior(**{name: value})


def test_surprise_is_seen_from_the_agent_asked_for() -> None:
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


def test_elo_ratings_are_updated_once_a_game_in_order() -> None:
    """They equal updates by hand, one a game, unrounded; the order of games shows."""
    games = [("a", "b", 1.0), ("b", "c", 0.5), ("a", "b", 0.0)]
    a1, b1 = elo_update(1000.0, 1000.0, 1.0)
    b2, c2 = elo_update(b1, 1000.0, 0.5)
    a3, b3 = elo_update(a1, b2, 0.0)
    assert elo_ratings(games) == {"a": a3, "b": b3, "c": c2}
    assert a3 != round(a3)
    assert elo_ratings(games[::-1]) != elo_ratings(games)
    assert elo_ratings([]) == {}
