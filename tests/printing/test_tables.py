"""Every table of the command line at 60, 80 and 120 columns has its names and numbers, and fits."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from league.arena.evaluations import Evaluation
from league.arena.tournament_results import ContrastEstimate, Encounter, Standing, TournamentResult
from league.cli import app
from league.maths.ratings import Difference
from league.play.summaries import Summary
from league.printing import tables
from league.printing.answers import print_evaluation
from league.printing.lists import print_bench
from league.printing.standings import print_tournament
from league.printing.tables import Column, IntervalCell, print_table
from league.store.exchange import import_matches
from league.store.rows import AgentRow, GameRow, LearnerRow
from league.types import MatchResult
from tests.helpers.stores import empty_store, make_run, make_snapshot, play
from tests.helpers.words import has_row

WIDTHS = (60, 80, 120)
WHEN = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
BOTS = ("bot:based", "bot:edge_guarder", "bot:rusher")
MET = (
    ("hash200", "bot:based", 40, 2, 18),
    ("hash200", "bot:rusher", 9, 0, 31),
    ("hash0", "bot:based", 3, 1, 36),
    ("hash100", "bot:edge_guarder", 20, 0, 0),
    ("hash100", "hash0", 25, 0, 15),
    ("hash200", "hash0", 8, 4, 8),
    ("bot:edge_guarder", "bot:based", 15, 0, 15),
)
COMMANDS = {
    "leaderboard": ["leaderboard"],
    "leaderboard --against --pairs": ["leaderboard", "--run", "long-run", "--against", "bot:based", "--pairs"],
    "payoff": ["payoff", "--run", "long-run"],
    "matchup": ["matchup", "long-run", "bot:rusher"],
    "runs": ["runs"],
    "events": ["events"],
    "rewards": ["rewards", "long-run"],
    "imports list": ["imports", "list"],
    "snapshots list": ["snapshots", "list", "--run", "long-run"],
    "alarms": ["alarms", "long-run"],
}
SHOWN = {
    "leaderboard": [
        *("run Elo steps", "long-run 1015 1,200,000", "agent rating games", "1 bot:rusher 1285", "5 bot:based 1000"),
        *("3 long-run@200 (best) 1072", "6 long-run@0 882", "7 bot:edge_guarder 879"),
    ],
    "leaderboard --against --pairs": [
        *("A B games played z", "bot:based long-run@0 40 0.912 +6.2", "long-run@0 long-run@200 20 0.500 +3.0"),
        *("agent rating games above bot:based", "1 bot:rusher 1285 40 +285", "6 bot:edge_guarder 879 50 -121"),
    ],
    "payoff": [
        *("1 bot:rusher - 78 ? ? ? ?", "5 long-run@0 ? 50 38 9 - ?", "8 of 15 pairs never met;", "Cyclic share 39 %;"),
        *(
            "agent rating score Nash alpha-rank",
            "1 bot:rusher 1285 78 % 100 % 100 %",
            "6 bot:edge_guarder 879 30 % 0 %",
        ),
    ],
    "matchup": ["long-run@200 in games won drawn lost score", "seat 0 20 5 0 15 0.250", "both 40 9 0 31 0.225"],
    "runs": ["run game status steps", "long-run brawl stopped 1,200,000", "kuhn-league-1.main_exploiter kuhn died 0"],
    "events": ["run kind message", "long-run alarm:kl_blow_up KL blew up:", "b resumed resumed with a=1"],
    "rewards": [
        "term weight mean weighted fired in",
        "damage_dealt 2 0.25 0.50 3",
        "a_rather_long_term -0.5 0.00 0.00 0",
    ],
    "imports list": ["import file games imported (UTC)", "games.csv 1 2026-11-20 09:30"],
    "snapshots list": ["snapshot is on disk games files", "long-run@200 best 0.00 MiB 120 its files are missing"],
    "alarms": ["ALARM, training: long-run: since step 1,000,000", 'league query "SELECT event.update, kind, message'],
    "evaluate": ["long-run@200 bot:based", "damage_dealt 110.00 3.25", "mean match 652 ticks; ended by knock_out 4;"],
    "tournament": [
        *("agent above points", "long-run@200 bot:based +105", "bot:rusher the mean no game links them"),
        *("1 long-run@200 1105 60 40 5 15", "2 bot:based 1000 60 15 5 40", "3 bot:rusher no game yet 0 0 0 0"),
    ],
    "tournament --pairs": ["A B games score", "long-run@200 bot:based 60 0.708", "long-run@200 bot:rusher 0"],
    "bench": ["figure value", "rows 1024", "ticks_per_second 1000000.0"],
}
"""Words that stand in one line of each, in this order, at every width; columns that may be left out are not here."""


def make_store(folder: Path) -> Path:
    """A league's learner that has met three bots, another run, an import, events."""
    store = empty_store(folder)
    config = json.dumps({"rewards": {"win": 1.0, "damage_dealt": 2.0, "a_rather_long_term": -0.5}})
    for run, steps, status in (("long-run", 1_200_000, "stopped"), ("b", 4_096, "finished")):
        made = make_run(run, steps=steps, status=status, started_at=WHEN, config=config, fingerprint=run * 8, seed=3)
        store.begin_run(made)
    name = "kuhn-league-1.main_exploiter"
    exploiter = make_run(name, game="kuhn", game_id="k", started_at=WHEN)
    store.begin_league([exploiter], [LearnerRow(name, "kuhn-league-1", 0, "main_exploiter", "{}")])
    store.add_game(GameRow("g", "brawl", "bot:based"))
    for step in (0, 100, 200):
        store.add_snapshot(make_snapshot("long-run", step, created_at=WHEN))
    for bot in BOTS:
        store.add_agent(AgentRow(bot, "bot", bot, "g"))
    for k, met in enumerate(MET):
        play(store, *met, run=f"e{k}")
    rewards: dict[str, Any] = {"win": (1.0, -1.0), "damage_dealt": (0.25, 1200.5), "a_rather_long_term": (0.0, 0.0)}
    seats = ("long-run", "bot:based")
    store.add_matches(
        MatchResult(*("long-run", "training", 1, i, 0, "g", seats, i, i % 2, "time", 1, 1, "sample"), rewards=rewards)
        for i in range(3)
    )
    store.add_metrics("long-run", 7, 1_000_000, {"loss": 1.0}, {})
    store.add_event(
        "long-run", 7, "alarm:kl_blow_up", "KL blew up: 2 nats; try --set learner.learning_rate=1e-4 and read"
    )
    store.add_event("b", 1, "resumed", "resumed with a=1")
    store.flush(force=True)
    (folder / "games.csv").write_text("seat0,seat1,winner,game_id\nx,bot:based,0,g\n")
    import_matches(folder / "games.csv", store=store.path)
    return store.path


def tournament() -> TournamentResult:
    """One in which a bot has played no game."""
    standings = (
        Standing(1, "long-run@200", "hash200", 1105.4, 1020.2, 1190.6, 1, 60, 40, 5, 15, 0),
        Standing(2, "bot:based", "bot:based", 1000.0, 1000.0, 1000.0, 1, 60, 15, 5, 40, 0),
        Standing(3, "bot:rusher", "bot:rusher", None, None, None, None, 0, 0, 0, 0, 0),
    )
    wanted = (ContrastEstimate("long-run@200", "bot:based", Difference(105.4, 20.2, 190.6)),)
    wanted += (ContrastEstimate("bot:rusher", None, None),)
    encounters = (Encounter(40, 5, 15, "long-run@200", "bot:based"), Encounter(0, 0, 0, "long-run@200", "bot:rusher"))
    return TournamentResult(
        *("tournament-1", "brawl", "01ab9aaf77", "adaptive", "sample", 0, "reached", 60, "elo", "bot:based", standings),
        encounters,
        wanted,
    )


def printed(does: Callable[[], object], width: int) -> str:
    """What is on stdout, as if a terminal without colours had `width` columns; times of day are as they are."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    with mock.patch.dict(os.environ, {"COLUMNS": str(width)}), contextlib.redirect_stdout(out):
        does()
    text = out.buffer.getvalue().decode()  # type: ignore[attr-defined]
    return re.sub(r"20\d\d-\d\d-\d\d \d\d:\d\d", f"{WHEN:%Y-%m-%d %H:%M}", text)


def pictures(store: Path, width: int) -> dict[str, str]:
    """All tables by name."""

    def call(words: list[str]) -> Callable[[], object]:
        return lambda: app([*words, "--store", str(store), "--quiet"], standalone_mode=False)

    summary = Summary(3, 0, 1, {"damage_dealt": (110.0, 3.25), "air_time": (6.7, 7.97)}, {"knock_out": 4}, 652.0)
    shown = {name: printed(call(words), width) for name, words in COMMANDS.items()}
    result = Evaluation("evaluation-1", "long-run@200", "bot:based", 0, summary, (1, 1))
    return shown | {
        "evaluate": printed(lambda: print_evaluation(result, store), width),
        "tournament": printed(lambda: print_tournament(tournament()), width),
        "tournament --pairs": printed(lambda: print_tournament(tournament(), pairs=True), width),
        "bench": printed(lambda: print_bench({"bench": "env", "rows": 1024, "ticks_per_second": 1e6}, False), width),
    }


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """See `make_store`."""
    return make_store(tmp_path_factory.mktemp("tables"))


@pytest.mark.parametrize("width", WIDTHS)
def test_every_table_has_its_names_and_numbers_and_fits(width: int, store: Path) -> None:
    """No line but a command to be copied is wider than the terminal; of a name and its numbers none is apart."""
    shown = pictures(store, width)
    for name, rows in SHOWN.items():
        assert [row for row in rows if not has_row(shown[name], row)] == [], shown[name]
    lines = "".join(shown.values()).splitlines()
    assert [line for line in lines if len(line) > width and "league query" not in line] == []


def lines_of(columns: list[Column | str], rows: list[list[Any]], width: int | None, **how: Any) -> list[str]:
    """A table's lines."""
    return (
        printed(lambda: print_table("", columns, rows, **how), width or 0).splitlines()
        if width
        else printed_wide(columns, rows)
    )


def printed_wide(columns: list[Column | str], rows: list[list[Any]]) -> list[str]:
    """The same without a terminal and without COLUMNS."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    with mock.patch.dict(os.environ), contextlib.redirect_stdout(out):
        os.environ.pop("COLUMNS", None)
        print_table("", columns, rows)
    return out.buffer.getvalue().decode().splitlines()  # type: ignore[attr-defined]


RATED = [Column("agent"), Column("rating", is_number=True), Column("games", 2, True), Column("won", 5, True)]
ROWS: list[list[Any]] = [
    ["bot:based", IntervalCell(1000, 1000, 1000), 12, 5],
    ["net@100", IntervalCell(1050, 970, 1130), 9, 4],
    ["net@2000", IntervalCell(87.6, -2.4, 177.5), 1, 0],
]


def test_intervals_are_shortened_before_a_column_goes() -> None:
    """`1050 [970, 1130]`, then `1050 ±80`, then the columns of the highest rank go, and the table says which."""
    assert lines_of(RATED, ROWS, 60)[2:] == [
        "bot:based  1000                 12    5",
        "net@100    1050 [970, 1130]      9    4",
        "net@2000     88 [ -2,  178]      1    0",
    ]
    assert lines_of(RATED, ROWS, 36)[2:] == [
        "bot:based  1000         12    5",
        "net@100    1050 ±80      9    4",
        "net@2000     88 ±90      1    0",
    ]
    assert lines_of(RATED, ROWS, 28)[2:] == [
        "bot:based  1000         12",
        "net@100    1050 ±80      9",
        "net@2000     88 ±90      1",
        "not shown at this width: won",
    ]
    assert lines_of(RATED, ROWS, 20)[2:3] == ["bot:based  1000"]


def test_what_does_not_fit_is_a_block_a_record() -> None:
    """Where the columns that count do not fit, each record has a line a column, and a blank line between two."""
    assert lines_of(["agent", "note"], [["net", "a b"], ["longer-than-that", "c"]], 20) == [
        *("agent  net", "note   a b", "", "agent  longer-than-that", "note   c")
    ]


@pytest.mark.parametrize("width", range(1, 130, 3))
def test_no_width_folds_a_word_or_loses_a_record(width: int) -> None:
    """At every width each word stands whole on one line, and all first cells are there."""
    prose = "one sentence with a rather-long-hyphenated/word in it"
    columns: list[Column | str] = ["agent", Column("n", 1, True), Column("text", is_prose=True)]
    lines = lines_of(columns, [["net@100", 1, prose], ["日本", 22, "short"]], width)
    words = " ".join(lines).split()
    assert {"net@100", "日本", *prose.split(), "short"} <= set(words)
    fits = [line for line in lines if tables._len(line) <= width or len(line.split()) <= 2]
    assert fits == lines


def test_without_a_terminal_nothing_is_cut_and_nothing_coloured() -> None:
    """A pipe gets every column in its long form, in one line a row, without trailing spaces or escapes."""
    prose = "word " * 100
    columns: list[Column | str] = [*RATED, Column("text", is_prose=True)]
    lines = printed_wide(columns, [[*row, prose] for row in ROWS])
    assert len(lines) == 2 + len(ROWS) and "1050 [970, 1130]" in lines[3] and lines[3].endswith("word word")
    assert not any("\x1b" in line or line.endswith(" ") for line in lines)


def test_letters_of_two_columns_keep_the_table_straight() -> None:
    """Chinese letters take two columns each; escapes and line feeds in a cell are spelt out."""
    lines = lines_of(["a", "b"], [["日本", "x"], ["ab", "y\n\x1b[31m"]], 40)
    assert lines[2:] == ["日本  x", "ab    y\\n\\x1b[31m"]


@pytest.mark.parametrize(("encoding", "rule", "margin"), [("ascii", "-", "+-80"), ("latin-1", "-", "+-80")])
def test_an_old_encoding_has_signs_of_its_own(encoding: str, rule: str, margin: str) -> None:
    """Where the line or ± cannot be written ASCII is drawn instead."""
    out = io.TextIOWrapper(io.BytesIO(), encoding, write_through=True)
    with mock.patch.dict(os.environ, {"COLUMNS": "30"}), contextlib.redirect_stdout(out):
        print_table("", RATED, ROWS)
    lines = out.buffer.getvalue().decode(encoding).splitlines()  # type: ignore[attr-defined]
    assert set(lines[1]) == {rule} and margin in lines[3]


@pytest.mark.parametrize(
    ("environment", "codes"),
    [({}, ["31", None, "32"]), ({"NO_COLOR": "1"}, [None] * 3), ({"TERM": "dumb"}, [None] * 3)],
    ids=["colours", "NO_COLOR", "dumb"],
)
def test_colours_tell_what_differs_from_even(environment: dict[str, str], codes: list[str | None]) -> None:
    """Red below even, green above, nothing where the interval holds it; none where nobody wants them."""
    out = io.StringIO()
    out.isatty = lambda: True  # type: ignore[method-assign]
    rows = [["a", tables.score(0.2, 0.1, 0.3)], ["b", tables.score(0.6, 0.4, 0.8)], ["c", tables.score(0.9, 0.8, 1.0)]]
    base = {"TERM": "xterm-256color", "COLUMNS": "80"}
    with mock.patch.dict(os.environ, base | environment), contextlib.redirect_stdout(out):
        for name in {"NO_COLOR", "FORCE_COLOR"} - set(environment):
            os.environ.pop(name, None)
        print_table("", ["agent", Column("score", is_number=True)], rows)
    for row, line, code in zip(rows, out.getvalue().splitlines()[2:], codes, strict=True):
        found = re.search(r"\x1b\[(\d+)m", line)
        assert (found and found[1]) == code, (row, line)


def test_a_long_board_is_brief_unless_asked(tmp_path: Path) -> None:
    """Of many snapshots the champion's, latest, best, first and some between are shown with the bots; --all has all.

    Ranks are those of all, and JSON is whole.
    """
    opened = empty_store(tmp_path)
    opened.begin_run(make_run("long"))
    opened.add_game(GameRow("g", "brawl", "bot:based"))
    for step in range(0, 3000, 100):
        opened.add_snapshot(make_snapshot("long", step))
    opened.add_agent(AgentRow("bot:based", "bot", "bot:based", "g"))
    for step in range(0, 3000, 100):
        wins = 9 if step == 1300 else step // 500
        play(opened, f"hash{step}", "bot:based", wins, 0, 10 - wins, run=f"e{step}", flush=False)
    opened.flush(force=True)

    def names(*words: str) -> dict[str, str]:
        call = ["leaderboard", "--store", str(opened.path), "--quiet", *words]
        lines = printed(lambda: app(call, standalone_mode=False), 100).splitlines()
        found = [line.split() for line in lines]
        return {
            cells[1]: cells[0] for cells in found if len(cells) > 6 and cells[0].isdecimal() and cells[1] != "other"
        }

    brief, whole = names(), names("--all")
    assert set(brief) == {"bot:based", *(f"long@{step}" for step in (0, 700, 1300, 1400, 2200, 2900))}
    assert len(whole) == 31 and brief.items() <= whole.items()
    as_json = printed(lambda: app(["leaderboard", "--store", str(opened.path), "--json"], standalone_mode=False), 80)
    (board,) = json.loads(as_json)["boards"]
    assert len(board["entries"]) == 31 and board["num_left_out"] == 0
    shown = printed(lambda: app(["leaderboard", "--store", str(opened.path), "--quiet"], standalone_mode=False), 80)
    assert "24 other snapshots and imported agents are left out; --all lists them" in shown
    asked = names("--against", "long@800")
    assert "long@800" in asked and len(asked) == len(brief) + 1


# Queries


def ask(store: Path, sql: str, *words: str, width: int = 60) -> str:
    """What `league query` prints."""
    return printed(lambda: app(["query", sql, "--store", str(store), "--quiet", *words], standalone_mode=False), width)


VALUES = """SELECT 'a|b,"c' AS s, NULL AS n, 1.5 AS x, true AS t, [1, 2] AS l, TIMESTAMP '2026-01-02 03:04:05' AS w,
    'ab'::BLOB AS raw, 'new
line' AS s"""


def test_a_query_has_formats_that_keep_every_value(store: Path) -> None:
    """CSV, JSON lines and Markdown of the same row; of two columns of one name the second is NAME_2 in JSON."""
    assert ask(store, VALUES, "--format", "csv") == (
        's,n,x,t,l,w,raw,s\n"a|b,""c",,1.5,true,"[1, 2]",2026-01-02T03:04:05,6162,"new\nline"\n'
    )
    (line,) = ask(store, VALUES, "--format", "jsonl").splitlines()
    assert json.loads(line) == {
        **{"s": 'a|b,"c', "n": None, "x": 1.5, "t": True, "l": [1, 2], "w": "2026-01-02T03:04:05", "raw": "6162"},
        "s_2": "new\nline",
    }
    head, rule, row = ask(store, VALUES, "--format", "md").splitlines()
    assert head.count("|") == rule.count("|") == 9 and row.startswith('| a\\|b,"c | NULL | 1.5 | True | [1, 2] |')
    assert "new\\\\nline" in row
