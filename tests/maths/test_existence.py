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
    rows, signs, parameters = NONE[case]
    ratings = bradley_terry(make_counts(*rows), prior=MAXIMUM_LIKELIHOOD)
    assert ratings.agents == () and ratings.undetermined == parameters and ratings.seat is None
    assert dict(ratings.infinite) == signs
    with pytest.raises(UsageError, match="agent `a` has no finite rating with prior draws=0"):
        ratings.index("a")
    assert len(bradley_terry(make_counts(*rows)).agents) == len(signs), "a prior rates them"


def test_games_with_the_infinite_count_in_a_record_alone() -> None:
    rows = [("a", "b", 6, 1, 4), ("b", "a", 5, 0, 5)]
    ratings, alone = (
        bradley_terry(make_counts(*rows, *more), prior=MAXIMUM_LIKELIHOOD) for more in ([("top", "a", 5, 0, 0)], [])
    )
    assert ratings.agents == ("a", "b") and dict(ratings.infinite) == {"top": 1}
    np.testing.assert_allclose(ratings.rating, alone.rating)
    assert (ratings.draws == alone.draws).all() and ratings.losses[0] == alone.losses[0] + 5


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


def test_the_board_says_what_has_no_estimate(call: Call, tmp_path: Path) -> None:
    lines = ["a,b,0", "a,b,1", "b,a,0", "b,a,1", "c,a,0", "x,y,0", "d,e,0", "d,e,1", "d,e,0"]
    found, _, err = board(call, tmp_path, lines)
    signs = {agent["name"]: agent["sign"] for agent in found["infinite"]}
    assert signs == {"c": 1, "x": 1, "y": -1}
    assert found["undetermined"] == [] and not signs.keys() & {entry["name"] for entry in found["entries"]}
    for note in ("2 groups", "infinitely above the others: c, x;", "infinitely below the others: y;"):
        assert note in err and any(note in said for said in found["notes"])
