"""Maximum likelihood: the estimates of other programs, and agents and parameters without an estimate."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from league.errors import UsageError
from league.maths.pairs import PairCounts
from league.maths.ratings import ELO_SCALE, MAXIMUM_LIKELIHOOD, bradley_terry
from tests.test_cli import Call, call

__all__ = ["call"]

SIMPLE = (
    ("0", "1", "draw"), ("0", "2", "1"), ("0", "2", "draw"), ("0", "4", "draw"), ("1", "0", "0"), ("1", "2", "draw"),
    ("1", "2", "draw"), ("1", "3", "draw"), ("2", "4", "draw"), ("3", "0", "0"), ("3", "1", "0"), ("3", "2", "0"),
    ("3", "4", "draw"), ("3", "4", "draw"), ("4", "0", "0"), ("4", "3", "0"),
)  # fmt: skip
"""evalica's `simple.csv`: seats and the winner's seat."""
SIMPLE_RATINGS = [314.559, 885.288, 885.714, 1455.667, 1458.772]
"""`evalica.newman` and `scipy.optimize` of it, each game in both seatings."""
Row = tuple[str, str, int, int, int]


def make_counts(*rows: Row, unseated: bool = False) -> PairCounts:
    """Counts of rows (seat 0, seat 1, wins, draws, losses)."""
    table = np.array([row[2:] for row in rows], np.int64).reshape(-1, 3).T
    flags = np.full(len(rows), unseated)
    return PairCounts(tuple(r[0] for r in rows), tuple(r[1] for r in rows), *table, unseated=flags)


def both_seatings(games: tuple[tuple[str, str, str], ...]) -> list[Row]:
    """Each game, and the same with the seats exchanged."""
    outcome = {"0": (1, 0, 0), "draw": (0, 1, 0), "1": (0, 0, 1)}
    rows: list[Row] = [(a, b, *outcome[winner]) for a, b, winner in games]
    return rows + [(b, a, *counts[::-1]) for a, b, *counts in rows]  # type: ignore[misc]


def likelihood(z: np.ndarray, counts: PairCounts, has_seat: bool) -> tuple[float, np.ndarray]:
    """Minus the log-likelihood of z (N + 2,), strengths, seat and log v, and its gradient; the slow twin."""
    names = sorted({*counts.seat0, *counts.seat1})
    value, slope = 0.0, np.zeros(len(z))
    for a, b, *outcomes in zip(counts.seat0, counts.seat1, counts.wins, counts.draws, counts.losses, strict=True):
        directions = np.zeros((3, len(z)))
        directions[0, names.index(a)], directions[0, names.index(b)], directions[0, -2] = 0.5, -0.5, 0.5 * has_seat
        directions[1, -1], directions[2] = 1.0, -directions[0]
        logits = directions @ z
        if not counts.draws.any():
            logits[1] = -math.inf
        total = np.logaddexp.reduce(logits)
        shares = np.exp(logits - total)
        played = np.array(outcomes, float)
        value -= float(played[played > 0] @ (logits - total)[played > 0])
        slope -= (played - played.sum() * shares) @ directions
    return value + float(z[:-2].sum()) ** 2 / 2, slope + np.r_[np.full(len(z) - 2, z[:-2].sum()), 0, 0]


def league(seed: int, draws: float, seat: float) -> PairCounts:
    """Six agents, a few games of every pair in both seatings (or of `seat` 0 in one)."""
    rng = np.random.default_rng(seed)
    strength, rows = rng.normal(0.0, 0.8, 6), []
    for i in range(6):
        for j in range(6):
            if i != j and (seat or i < j):
                x = strength[i] - strength[j] + seat
                odds = np.array([math.exp(x / 2), draws, math.exp(-x / 2)])
                rows.append((f"a{i}", f"a{j}", *rng.multinomial(12, odds / odds.sum()).tolist()))
    return make_counts(*rows)


def test_evalicas_example() -> None:
    """`simple.csv` has evalica's ratings to 0.01 points; a prior of 1.25 draws has others."""
    counts = make_counts(*both_seatings(SIMPLE))
    ratings = bradley_terry(counts, prior=MAXIMUM_LIKELIHOOD)
    np.testing.assert_allclose(ratings.rating, SIMPLE_RATINGS, atol=0.01)
    assert ratings.infinite == () and ratings.undetermined == ()
    assert np.abs(bradley_terry(counts).rating - SIMPLE_RATINGS).max() > 50


@pytest.mark.parametrize("seat", [0.0, 0.7])
@pytest.mark.parametrize("draws", [0.0, 0.6])
@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_maximum(seed: int, draws: float, seat: float) -> None:
    """`scipy.optimize` finds the same ratings, seat's advantage and weight of draws, to 0.01 points."""
    counts = league(seed, draws, seat)
    ratings = bradley_terry(counts, prior=MAXIMUM_LIKELIHOOD)
    assert ratings.infinite == () and ratings.undetermined == ()
    found = minimize(likelihood, np.zeros(8), (counts, seat > 0), jac=True, method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose(ratings.rating - 1000.0, found.x[:6] * ELO_SCALE, atol=0.01)
    assert ratings.model.seat * ELO_SCALE == pytest.approx(found.x[6] * ELO_SCALE, abs=0.01)
    assert ratings.model.log_draw == (pytest.approx(found.x[7], abs=1e-4) if draws else -math.inf)


def test_the_variances_are_those_of_the_information() -> None:
    """Two agents, n games in one seating: the variance of their difference is the inverse of n p (1 - p)."""
    ratings = bradley_terry(make_counts(("a", "b", 30, 0, 10)), prior=MAXIMUM_LIKELIHOOD)
    gap = ratings.difference("a", "b")
    assert gap.mean == pytest.approx(400 * math.log10(3), abs=1e-6)
    assert gap.upper - gap.mean == pytest.approx(1.959964 * ELO_SCALE / math.sqrt(40 * 0.75 * 0.25), abs=1e-4)


NONE = {
    "a clean sheet in both seats": ([("a", "b", 9, 0, 0), ("b", "a", 0, 0, 8)], {"a": 1, "b": -1}, ("seat",)),
    "a clean sheet": ([("a", "b", 9, 0, 0)], {"a": 1, "b": -1}, ()),
    "a ladder": ([("a", "b", 3, 0, 0), ("b", "c", 2, 0, 0)], {"a": 1, "b": 0, "c": -1}, ()),
    "the first seat always wins": ([("a", "b", 9, 0, 0), ("b", "a", 7, 0, 0)], {"a": 0, "b": 0}, ("seat",)),
    "the second seat always wins": ([("a", "b", 0, 0, 9), ("b", "a", 0, 0, 7)], {"a": 0, "b": 0}, ("seat",)),
    "a seat explains all but one": ([("a", "b", 5, 0, 0), ("b", "a", 3, 0, 2)], {"a": 0, "b": 0}, ("seat",)),
    "draws only": ([("a", "b", 0, 6, 0), ("b", "c", 0, 5, 0)], {"a": 0, "b": 0, "c": 0}, ("draws",)),
    "nobody both won and lost": ([("a", "b", 4, 6, 0), ("b", "c", 0, 5, 0)], {"a": 0, "b": 0, "c": 0}, ("draws",)),
    "the first seat never loses": ([("a", "b", 4, 6, 0), ("b", "a", 2, 7, 0)], {"a": 0, "b": 0}, ("seat", "draws")),
}  # fmt: skip


@pytest.mark.parametrize("case", NONE)
def test_what_has_no_estimate_is_named(case: str) -> None:
    """Agents and parameters on which the likelihood rises without end are named, and not rated."""
    rows, signs, parameters = NONE[case]
    ratings = bradley_terry(make_counts(*rows), prior=MAXIMUM_LIKELIHOOD)
    assert ratings.agents == () and ratings.undetermined == parameters and ratings.seat is None
    assert dict(ratings.infinite) == signs
    with pytest.raises(UsageError, match="agent `a` has no finite rating with prior draws=0"):
        ratings.index("a")
    assert len(bradley_terry(make_counts(*rows)).agents) == len(signs), "a prior rates them"


def test_an_infinite_seat_leaves_games_without_seats() -> None:
    """Agents whose games have no seats are rated as if those that the first seat always won did not exist."""
    unseated = make_counts(("c", "d", 5, 0, 3), ("d", "e", 4, 0, 4), unseated=True)
    counts = make_counts(("a", "b", 9, 0, 0), ("b", "a", 7, 0, 0)) + unseated
    ratings = bradley_terry(counts, prior=MAXIMUM_LIKELIHOOD)
    assert ratings.agents == ("c", "d", "e") and ratings.undetermined == ("seat",)
    alone = bradley_terry(unseated, prior=MAXIMUM_LIKELIHOOD)
    np.testing.assert_allclose(ratings.rating, alone.rating, atol=1e-6)


def test_all_sets_with_an_estimate_are_rated() -> None:
    """A set of agents that beat one another is a group of its own below one that won all games against it, and its
    games count for the seat and the draws: the score equations hold over the games within both."""
    above, below = [("a", "b", 3, 1, 2), ("b", "a", 4, 0, 1)], [("c", "d", 2, 2, 2), ("d", "c", 5, 1, 1)]
    counts = make_counts(*above, *below, ("a", "c", 4, 0, 0), ("c", "a", 0, 0, 3))
    ratings = bradley_terry(counts, prior=MAXIMUM_LIKELIHOOD)
    assert (ratings.agents, ratings.group.tolist()) == (("a", "b", "c", "d"), [0, 0, 1, 1]) and ratings.infinite == ()
    found = minimize(likelihood, np.zeros(6), (make_counts(*above, *below), True), jac=True, options={"gtol": 1e-8})
    gaps = (found.x[0] - found.x[1], found.x[2] - found.x[3])
    assert [ratings.difference(*x).mean for x in ("ab", "cd")] == pytest.approx([g * ELO_SCALE for g in gaps], abs=0.01)
    assert (ratings.model.seat, ratings.model.log_draw) == pytest.approx(found.x[4:], abs=1e-4)
    draws_only = make_counts(("a", "b", 0, 4, 0), *below, ("a", "c", 4, 0, 0))
    ratings = bradley_terry(draws_only, prior=MAXIMUM_LIKELIHOOD)
    assert ratings.undetermined == () and ratings.rating[:2] == pytest.approx([1000.0, 1000.0])


def rises_without_end(counts: PairCounts) -> dict[str, bool]:
    """Whether a direction of recession moves the seat or the draws: outcome by outcome, by linear programs in full."""
    names = sorted({*counts.seat0, *counts.seat1})
    met = {(a, b) for a, b in zip(counts.seat0, counts.seat1, strict=True)}
    rows = []
    for a, b, *outcomes in zip(counts.seat0, counts.seat1, counts.wins, counts.draws, counts.losses, strict=True):
        scores = np.zeros((3, len(names) + 2))
        scores[0, names.index(a)], scores[0, names.index(b)], scores[0, -2] = 1, -1, (b, a) in met
        scores[1, -1], scores[2] = 2, -scores[0]
        rows += [scores[k] - scores[o] for o in range(3) if outcomes[o] for k in range(3) if k != o]
    found = {}
    for name, place in (("seat", -2), ("draws", -1)):
        ends = []
        for sign in (1.0, -1.0):
            aim = np.zeros(len(names) + 2)
            aim[place] = -sign
            result = linprog(aim, np.array(rows), np.zeros(len(rows)), bounds=(-1, 1))
            ends.append(-result.fun)
        found[name] = max(ends) > 1e-6
    return found


@pytest.mark.parametrize("seed", range(60))
def test_parameters_without_an_estimate_are_found(seed: int) -> None:
    """In small leagues with draws, the parameters named are those along which no outcome loses (Geyer 2009)."""
    rng = np.random.default_rng(seed)
    rows = [
        (f"a{i}", f"a{j}", *rng.multinomial(rng.integers(1, 4), rng.dirichlet([0.5, 0.5, 0.2])).tolist())
        for i in range(4)
        for j in range(4)
        if i != j and rng.random() < 0.6
    ]
    rows.append(("a0", "a1", 0, 1, 0))
    counts = make_counts(*rows)
    ratings = bradley_terry(counts, prior=MAXIMUM_LIKELIHOOD)
    infinite = {name for name, is_infinite in rises_without_end(counts).items() if is_infinite}
    assert set(ratings.undetermined) == infinite
    assert np.isfinite(ratings.rating).all() and np.isfinite(ratings.upper).all()


def board(call: Call, folder: Path, lines: list[str], *options: str) -> tuple[dict[str, Any], str, str]:
    """The board of `league leaderboard --prior 0` of a file with these games, as JSON, as a table, and its notes."""
    (folder / "games.csv").write_text("\n".join(["seat0,seat1,winner", *lines]))
    store = str(folder / "league.duckdb")
    assert call("import", str(folder / "games.csv"), "--game-id", "g", "--store", store).code == 0
    shown = call("leaderboard", "--prior", "0", "--store", store, *options)
    [found] = call("leaderboard", "--prior", "0", "--json", "--store", store, *options).json["boards"]
    return found, " ".join(shown.out.split()), " ".join(shown.err.split())


def test_the_command_is_maximum_likelihood(call: Call, tmp_path: Path) -> None:
    """`league import` and `league leaderboard --prior 0` of evalica's example print evalica's ratings."""
    exchanged = {"0": "1", "1": "0", "draw": "draw"}
    lines = [f"{a},{b},{w}" for a, b, w in SIMPLE] + [f"{b},{a},{exchanged[w]}" for a, b, w in SIMPLE]
    found, out, _ = board(call, tmp_path, lines)
    ratings = {entry["name"]: entry["rating"] for entry in found["entries"]}
    assert [ratings[name] for name in "01234"] == pytest.approx(SIMPLE_RATINGS, abs=0.01)
    assert found["prior"] == 0.0 and found["infinite"] == [] == found["undetermined"]
    assert "prior: none (maximum likelihood)" in out and "first seat's advantage: +0 points" in out


@pytest.mark.parametrize(
    ("lines", "signs", "undetermined", "notes"),
    [
        (["a,b,0", "b,a,1"] * 3, {"a": 1, "b": -1}, ["seat"], ["infinitely above the others: a;"]),
        (["a,b,0", "b,a,0"] * 3, {"a": 0, "b": 0}, ["seat"], ["the first seat's advantage has no finite estimate"]),
        (["a,b,draw"] * 3, {"a": 0, "b": 0}, ["draws"], ["the weight of draws has no finite estimate"]),
        (
            ["a,b,0", "a,b,1", "b,a,0", "b,a,1", "c,a,0", "x,y,0", "d,e,0", "d,e,1", "d,e,0"],
            {"c": 1, "x": 1, "y": -1},
            [],
            [
                "2 groups that no game links, or of which one never scored",
                "infinitely above the others: c, x;",
                "infinitely below the others: y;",
            ],
        ),
    ],
)
def test_the_board_says_what_has_no_estimate(
    call: Call, tmp_path: Path, lines: list[str], signs: dict[str, int], undetermined: list[str], notes: list[str]
) -> None:
    """Agents and parameters without a maximum-likelihood estimate are named in the notes and in the JSON."""
    found, _, err = board(call, tmp_path, lines)
    assert {agent["name"]: agent["sign"] for agent in found["infinite"]} == signs
    assert found["undetermined"] == undetermined and not signs.keys() & {entry["name"] for entry in found["entries"]}
    for note in notes:
        assert note in err and any(note in said for said in found["notes"])
    assert "no evaluation matches yet" not in err
