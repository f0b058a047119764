"""The games of `benchmarks.observe`: their views by a slow reference, their bots, and a run end to end."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from benchmarks.observe import (
    EDGE,
    KEEPS,
    NEXT,
    PAIRS,
    ROUNDS,
    SIGHT,
    SIZE,
    Board,
    Seen,
    Throws,
    Tron,
    View,
    measure,
    row,
)
from league.testing import check_bot, check_game

VIEWS = [*((Tron, view) for view in get_args(Board)), *((Throws, view) for view in get_args(Seen))]


@pytest.mark.slow
@pytest.mark.parametrize(("game", "view"), VIEWS, ids=lambda x: x if isinstance(x, str) else x.__name__)
def test_every_view_keeps_the_contract(game: Any, view: str) -> None:
    """As `league check` has it."""
    check_game(game, {"view": view})


@pytest.mark.parametrize(("game", "bot"), sorted({(pair.game, pair.bot) for pair in PAIRS.values()}))
def test_every_bot_of_a_pair_can_be_restored(game: str, bot: str) -> None:
    """Of one seed one match."""
    check_bot({"Tron": Tron, "Throws": Throws}[game], bot, matches=10)


def tron(view: Any, seed: int) -> Tron:
    """A match after at most four random moves."""
    match, rng = Tron(view), np.random.default_rng(seed)
    match.begin(seed)
    for actions in rng.integers(4, size=(4, 2)):
        if not match.is_over:
            match.step(tuple(actions))
    return match


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("seat", [0, 1])
def test_views_of_tron_show_the_cells_that_they_should(seat: int, seed: int) -> None:
    """Cell by cell: the whole board from its corner, and what lies around the head, with walls beyond the board."""
    shown = {view: tron(view, seed).observe(seat) for view in get_args(Board)}
    match = tron("board", seed)
    (own, other), middle = (match.heads[seat], match.heads[1 - seat]), 2 * EDGE + 1
    board = shown["board"].reshape(SIZE, SIZE, 3)
    for y, x in np.ndindex(SIZE, SIZE):
        cell = (y + EDGE, x + EDGE)
        assert board[y, x].tolist() == [match.taken[cell], cell == own, cell == other]
    centred = shown["centred"].reshape(2, middle, middle)
    for y, x in np.ndindex(middle, middle):
        cell = (own[0] + y - EDGE, own[1] + x - EDGE)
        is_inside = all(EDGE <= k < EDGE + SIZE for k in cell)
        assert centred[:, y, x].tolist() == [match.taken[cell] if is_inside else 1.0, cell == other]
    near = slice(EDGE - SIGHT, EDGE + SIGHT + 1)
    assert (shown["window"] == centred[:, near, near].ravel()).all()
    assert (shown["planes"] == shown["board"]).all()


def test_a_rider_who_hits_something_loses() -> None:
    """Both ride up from cells beside each other's columns: whose wall is nearer loses, and a meeting is a draw."""
    match = Tron()
    match.begin(0)
    match.heads = [(EDGE + 1, EDGE), (EDGE + 5, EDGE + 4)]
    match.step((0, 0))
    match.step((0, 0))
    assert match.is_over and match.winner == 1
    match.begin(0)
    match.heads, match.taken[:] = [(EDGE, EDGE), (EDGE, EDGE + 2)], 0.0
    match.step((1, 3))
    assert match.is_over and match.winner is None


def thrown(bot: str, seed: int) -> tuple[Throws, list[tuple[int, int]]]:
    """A match of a bot in seat 0 against random throws."""
    match, rng = Throws(), np.random.default_rng(seed)
    match.begin(seed)
    player, throws = match.players[bot](match, 0, seed), []
    while not match.is_over:
        throws.append((player(range(7)), int(rng.integers(7))))
        match.step(throws[-1])
    return match, throws


@pytest.mark.parametrize("bot", ["habit", "answer", "walker"])
def test_a_thrower_does_what_it_likes_eight_times_in_ten(bot: str) -> None:
    """And by chance in a seventh of the others."""
    hits = []
    for seed in range(40):
        match, throws = thrown(bot, seed)
        for (own, other), (after, _) in pairwise(throws):
            stride = (own + match.strides[0]) % 7
            hits.append(after == {"habit": NEXT[own], "answer": (other + 1) % 7, "walker": stride}[bot])
    expected, num = KEEPS + (1 - KEEPS) / 7, 40 * (ROUNDS - 1)
    assert len(hits) == num and abs(np.mean(hits) - expected) < 4 * (expected * (1 - expected) / num) ** 0.5


def test_a_row_has_each_seed_and_the_mean() -> None:
    """The half interval of the mean is that of independent games."""
    said = row("frames", View("board"), [(40.0, 36.0, 44.0, 1.0), (60.0, 57.0, 63.0, 2.0)])
    assert said == "| frames | `board` | 40 [36, 44], 60 [57, 63] | 50 ± 2 | 1.5 |"


def test_the_page_has_a_row_for_each_view() -> None:
    """docs/guides/observe.md shows the rows that the command prints."""
    page = (Path(__file__).resolve().parents[1] / "docs" / "guides" / "observe.md").read_text(encoding="utf-8")
    found = [line.split(" | ")[:2] for line in page.splitlines() if line.startswith(tuple(f"| {p} " for p in PAIRS))]
    assert found == [[f"| {name}", view.title] for name, pair in PAIRS.items() for view in pair.views]


@pytest.mark.slow
def test_a_pair_is_trained_and_judged() -> None:
    """A few thousand steps of the cheaper game."""
    pair = PAIRS["hidden"]
    for view in pair.views:
        score, lower, upper, minutes = measure(pair, view, 0, 4_096, 4)
        assert 0 <= lower <= score <= upper <= 100 and minutes > 0
