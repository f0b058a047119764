"""Cross tables from the store: who met whom, what is unknown, what a partial table still says, and its picture."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib import colormaps
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from PIL import Image

from league.boards import heatmap
from league.boards.payoff import Payoff, payoffs
from league.boards.standings import leaderboard
from league.errors import UsageError
from league.printing.standings import MATRIX_COLUMNS, print_payoff
from league.store.rows import AgentRow
from league.types import MatchResult
from tests.helpers.stores import Filled, begin_brawl, empty_store
from tests.helpers.stores import play as play_now

Shades = npt.NDArray[np.uint8]


@pytest.fixture
def store(tmp_path: Path) -> Filled:
    """An empty store."""
    return empty_store(tmp_path)


def begin(store: Filled, run: str, snapshots: int = 3) -> None:
    """See `begin_brawl`."""
    begin_brawl(store, run, snapshots=snapshots)


def play(*games: Any) -> None:
    """See `tests.helpers.stores.play`; nothing is written yet."""
    play_now(*games, run=f"{games[1]}-{games[2]}", flush=False)


def only(store: Filled, run: str | None = None) -> Payoff:
    """The one table of a store with one game, all that waits written; it must be JSON."""
    store.flush(force=True)
    (table,) = payoffs(store, run)
    json.dumps(table.to_json())
    return table


def test_the_table_counts_both_seats_and_stands_by_rating(store: Filled) -> None:
    """SQL puts the seats together, rows are the leaderboard's ratings from best to worst, columns the same."""
    begin(store, "r")
    play(store, "r0", "bot:based", 3, 2, 7)
    play(store, "r2", "r0", 8, 1, 1)
    play(store, "r2", "bot:based", 5, 0, 5)
    store.add_matches([MatchResult("r", "training", 1, 0, 0, "g", ("r", "r0"), 1, 0, "time", 1, 1, "sample", 0, 0)])
    store.add_matches([MatchResult("x", "evaluation", 1, 0, 0, "g", ("r2", "r2"), 1, 0, "time", 1, 1, "sample")])
    store.flush(force=True)
    assert store.payoff("g") == [
        ("bot:based", "r0", 7, 2, 3),
        ("bot:based", "r2", 5, 0, 5),
        ("r0", "bot:based", 3, 2, 7),
        ("r0", "r2", 1, 1, 8),
        ("r2", "bot:based", 5, 0, 5),
        ("r2", "r0", 8, 1, 1),
    ]
    table = only(store)
    board = {entry.agent_id: entry.rating for entry in leaderboard(store).boards[0].entries}
    assert [row.name for row in table.rows] == ["r@200", "bot:based", "r@0"]
    assert [row.rating for row in table.rows] == [board[a] for a in ("r2", "bot:based", "r0")]
    assert table.score == ((None, 0.5, 0.85), (0.5, None, 8 / 12), (1.5 / 10, 4 / 12, None))
    assert table.games == ((0, 10, 10), (10, 0, 12), (10, 12, 0))
    assert [(row.games, row.score) for row in table.rows] == [(20, 0.675), (22, 13 / 22), (22, pytest.approx(5.5 / 22))]
    assert table.anchor == "bot:based" and table.groups == 1 and table.num_unmet == 0


def test_who_never_met_is_unknown_and_groups_apart_are_told(store: Filled) -> None:
    """No game is None, not a half; two groups without a game between them are counted and said."""
    begin(store, "a")
    play(store, "a0", "a1", 4, 0, 0)
    play(store, "bot:x", "bot:y", 3, 2, 1)
    table = only(store)
    names = [row.agent_id for row in table.rows]
    i, j = names.index("a0"), names.index("bot:x")
    assert table.score[i][j] is None and table.score[i][names.index("a1")] == 1.0
    assert (table.groups, table.num_unmet) == (2, 4)
    told = " ".join(heatmap.findings(table))
    assert "4 of 6 pairs never met" in told and "2 groups" in told


def test_a_cycle_is_named_and_spread_over_by_nash(store: Filled) -> None:
    """Rock, paper, scissors: equal ratings, a third each in both mixtures, one sure cycle, not by chance."""
    for a, b in (("bot:rock", "bot:scissors"), ("bot:scissors", "bot:paper"), ("bot:paper", "bot:rock")):
        play(store, a, b, 36, 0, 4)
    begin(store, "r")
    table = only(store)
    assert [row.nash for row in table.rows] == pytest.approx([1 / 3] * 3, abs=1e-6)
    assert [row.alpha_rank for row in table.rows] == pytest.approx([1 / 3] * 3, abs=1e-6)
    assert len({round(row.rating, 6) for row in table.rows}) == 1
    assert table.cyclic_share == pytest.approx(1.0) and table.chance_mean < 0.6
    (circle,) = table.circles
    order = circle.names * 2
    assert order[order.index("bot:rock") + 1] == "bot:scissors" and circle.weakest == pytest.approx(0.9)
    assert circle.certainty > 0.999 and table.num_cycles == 1


def test_populations_are_runs_or_the_halves_of_one(store: Filled) -> None:
    """Of one run the later snapshots against the earlier ones; of two runs one against the other."""
    begin(store, "a", 4)
    for older, newer in ((0, 2), (0, 3), (1, 2)):
        play(store, f"a{newer}", f"a{older}", 18, 0, 2)
    (halves,) = only(store).performances
    assert (halves.a, halves.b) == ("a, later half", "a, earlier half")
    assert 0.3 < halves.gain < 0.9 and halves.known == 0.75
    begin(store, "b", 1)
    play(store, "b0", "a0", 20, 0, 0)
    found = {(p.a, p.b): p for p in only(store).performances}
    assert set(found) == {("a", "b")} and found["a", "b"].known == 0.25


def crowd(store: Filled, size: int) -> Payoff:
    """A table of so many snapshots, of which each met its neighbours and the last nobody but the one before."""
    begin(store, "r", size)
    for i in range(size - 1):
        play(store, f"r{i + 1}", f"r{i}", 2, 1, 1)
    return only(store)


def pixels(table: Payoff, folder: Path) -> Shades:
    """(H, W, 3) uint8: the picture as it is written."""
    heatmap.save(table, folder / "table.png")
    return np.asarray(Image.open(folder / "table.png").convert("RGB"))


def words(table: Payoff) -> list[str]:
    """Everything that is written in a picture."""
    return [text.get_text() for text in heatmap.draw(table).findobj(Text) if text.get_visible() and text.get_text()]


@pytest.mark.parametrize("size", [3, 40])
def test_pictures_show_wins_losses_and_the_unknown(size: int, store: Filled, tmp_path: Path) -> None:
    """Cells are blue where won and red where lost; one that never met is grey, not even's white."""
    table = crowd(store, size)
    image = pixels(table, tmp_path)
    cell = heatmap.LARGEST_CELL if size < 32 else heatmap.TABLE // size
    assert min(image.shape[:2]) > size * cell and max(image.shape[:2]) < 4000
    shade = colormaps[heatmap.COLOURS]
    for score in (2.5 / 4, 1.5 / 4):
        painted = (image == np.array(shade(score, bytes=True)[:3])).all(axis=2).sum()
        assert painted > 0.5 * cell * cell * (size - 1)
    won, lost = (shade(score) for score in (1.0, 0.0))
    assert won[2] > won[0] and lost[0] > lost[2] and min(shade(0.5)[:3]) > 0.95
    for colour, cells in ((heatmap.UNKNOWN, (size - 1) * (size - 2)), (heatmap.ITSELF, size)):
        painted = (image == np.array(to_rgb(colour)) * 255).all(axis=2).sum()
        assert 0.9 * cells * cell * cell <= painted <= 1.1 * cells * cell * cell + 1000, colour


@pytest.mark.parametrize("size", [8, 150])
def test_a_picture_says_what_it_has(size: int, store: Filled) -> None:
    """The title names figures only where there are some, and says which names are left out."""
    table = crowd(store, size)
    told = words(table)
    [title] = [text for text in told if f"{size} agents, by rating" in text]
    assert ("per cent" in title) == (size < 150) and ("games below" in title) == (size == 8)
    assert (told.count("62") == size - 1) == (size < 150) and (told.count("4") >= 2 * (size - 1)) == (size == 8)
    expected = range(size) if size < 150 else [0, *range(1, size, 2)]
    for i in expected:
        assert told.count(f"{i + 1}  {table.rows[i].name}") == 2, "on the left and on top"
    assert ("every second" in title) == (size == 150)
    assert not {f"{i + 1}  {row.name}" for i, row in enumerate(table.rows) if i not in set(expected)} & set(told)
    assert {"never met", "itself"} <= set(told) and any("score of the row against the column, %" in t for t in told)


def test_groups_stand_apart_in_a_picture(store: Filled) -> None:
    """Agents that no chain of games links stand group by group, the better-rated group's agents not between."""
    begin(store, "r", 2)
    play(store, "r1", "r0", 9, 0, 1)
    play(store, "bot:x", "bot:y", 3, 1, 2)
    play(store, "bot:y", "bot:z", 3, 1, 2)
    table = only(store)
    groups = [row.group for row in table.rows]
    assert groups == [1, 1, 1, 2, 2] and table.groups == 2
    ratings = [row.rating for row in table.rows]
    assert ratings[3] > ratings[0] > ratings[1] > ratings[2] > ratings[4]
    axes = heatmap.draw(table).axes[0]
    assert [line.get_ydata()[0] for line in axes.lines if line.get_xdata()[0] == 0] == [2.5]
    assert any("5 agents, in 2 groups, each by rating" in text for text in words(table))


def test_names_are_drawn_as_they_are(store: Filled, tmp_path: Path) -> None:
    """A name is neither a formula nor a line break, and one of any length is cut."""
    begin(store, "r")
    for name in ("$x^{", "a\nb", "y" * 90):
        store.add_agent(AgentRow(f"id {name}", "import", name, "g"))
        play(store, f"id {name}", "r0", 3, 1, 2)
    table = only(store)
    assert pixels(table, tmp_path).size
    told = " ".join(words(table))
    assert "$x^{" in told and "a\N{REPLACEMENT CHARACTER}b" in told
    assert len(heatmap._short("y" * 90)) == heatmap.LONGEST


def test_pictures_that_cannot_be_written_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another kind of file, one that is there, a folder that is not, and no matplotlib: one line with the next step."""
    (tmp_path / "there.png").touch()
    for name, words in (("a.jpg", ".png"), ("there.png", "there already"), ("none/a.png", "needs the folder")):
        with pytest.raises(UsageError, match=words):
            heatmap.check(tmp_path / name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match="pip install 'league-engine"):
        heatmap.check(tmp_path / "a.png")


def test_a_matrix_that_is_left_out_is_said(store: Filled, capsys: pytest.CaptureFixture[str]) -> None:
    """The text of more agents than its columns hold has no matrix, and names what has one; of fewer it has."""
    for num_agents, is_wide in ((MATRIX_COLUMNS, False), (MATRIX_COLUMNS + 1, True)):
        for i in range(num_agents - 1):
            play(store, f"a{i:02}", f"a{i + 1:02}", 2, 1, 1)
        print_payoff(only(store))
        shown = capsys.readouterr().out
        assert ("score of the row against the column" in shown) != is_wide
        assert (f"The matrix of {num_agents} agents" in shown and "--json" in shown and "--png" in shown) == is_wide
