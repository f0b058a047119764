"""Matches from and to files: what is written is read back, equal ratings included; what is bad is one line."""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
import os
import shutil
import unicodedata
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import league
from league.boards.naming import find_named, find_rated
from league.boards.standings import leaderboard
from league.cli import app
from league.errors import LeagueError, StoreError, UsageError
from league.store import exchange, formats, pgn
from league.store.checking import CheckedGames
from league.store.exchange import export_matches, import_matches
from league.store.formats import FORMATS
from league.store.locks import LOCK, held
from league.store.rows import AgentRow, RunRow, SnapshotRow
from league.store.store import Store
from league.types import DRAW, MatchResult
from tests.helpers.cases import cases
from tests.helpers.stores import Filled, empty_store, files_of

HASH = "ab" * 32


def game(row: int, seats: tuple[str, str], winner: int, **changes: Any) -> MatchResult:
    """An evaluation match of game g."""
    played = MatchResult("e", "evaluation", 0, row, 0, "g", seats, row, winner, "time", 10, 30, "sample")
    return replace(played, **changes)


class Parsed(NamedTuple):
    """A game of a file."""

    seats: tuple[str, str]
    winner: int
    end_reason: str
    played_at: datetime | None


def parse(data: bytes, name: str) -> tuple[list[Parsed], CheckedGames]:
    """The games of a file, and what else it says."""
    with Store.planned("there is none").reading() as con:
        found = CheckedGames(con, data, name, lambda game_id, name: name, games={}, default="g")
        rows = con.execute(
            "SELECT seat0_agent, seat1_agent, coalesce(winner, -1), end_reason, played_at FROM given ORDER BY place"
        ).fetchall()
    return [Parsed((a, b), *more) for a, b, *more in rows], found


def name_of(file: Path) -> str:
    """What an import of a file is called."""
    return f"import-{hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"


@pytest.fixture
def store(original: Path, tmp_path: Path) -> Filled:
    """A copy of `original`."""
    return Filled.open(shutil.copytree(original, tmp_path / "a"))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bots, a snapshot and an exported agent of game g, sampled and greedy games, and some that were played twice."""
    store = empty_store(tmp_path_factory.mktemp("original"))
    for run in ("r", "twin"):
        store.begin_run(RunRow(run, "brawl", "g", "f", 1, "smoke", "{}"))
        store.add_snapshot(SnapshotRow(HASH, run, 100, 1, f"{run}/snapshots/100", "f"))
    for agent, kind, name in (
        ("bot:based", "bot", "bot:based"),
        ("import:Q", "import", "Q"),
        ("bot:a", "bot", "bot:a"),
    ):
        store.add_agent(AgentRow(agent, kind, name, "g"))
    pairs = [(HASH, "bot:based"), ("bot:based", HASH), ("import:Q", HASH), ("bot:a", "bot:based")]
    pairs.append(("bot:a", "import:Q"))
    rows = [game(i, pairs[i % 5], (0, 1, DRAW, 0, 1, 1, DRAW)[i % 7]) for i in range(60)]
    greedy = [replace(m, row=100 + m.row, seed=m.row // 10, sampling="greedy", winner=m.row // 10 % 2) for m in rows]
    again = [replace(m, run="again") for m in rows[:20]]  # an evaluation repeated with its seed
    store.add_matches([*rows, *greedy, *again])
    store.flush()
    return store.path


def board(path: Path, sampling: Any) -> dict[str, tuple[float, ...]]:
    """Agent id -> rating, interval and record in game g."""
    (found,) = leaderboard(Store.open(path), sampling=sampling).boards
    return {e.agent_id: (e.rating, e.lower, e.upper, e.wins, e.draws, e.losses) for e in found.entries}


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("names", cases(True, slow=[False]))
def test_an_export_imported_into_an_empty_store_rates_equally(
    store: Filled, tmp_path: Path, suffix: str, names: bool
) -> None:
    """Sampled and greedy boards are the same, games that count once included, whatever the format."""
    file, other = tmp_path / f"m{suffix}", tmp_path / "b"
    written = export_matches(file, names=names, store=store.path)
    assert written == 48 + 24 + 17  # of nets sampled and greedy (4 pairs, 6 seeds), of bots (18 seeds, one twice)
    done = import_matches(file, store=other)
    assert (done.run, done.read, done.imported, done.skipped) == (
        *(name_of(file), written, written),
        {},
    )
    ids = {HASH: "import:r@100"} if names else {}
    for sampling in ("sample", "greedy"):
        expected = {ids.get(agent, agent): values for agent, values in board(store.path, sampling).items()}
        found = board(other, sampling)
        assert found.keys() == expected.keys() and len(found) == 4
        for agent, values in expected.items():
            assert found[agent] == pytest.approx(values, abs=1e-6), agent


@pytest.mark.parametrize("suffix", FORMATS)
def test_an_export_imported_where_it_came_from_changes_nothing(store: Filled, tmp_path: Path, suffix: str) -> None:
    """Matches that the store has are not counted again, alone or beside new ones."""
    file = tmp_path / f"m{suffix}"
    export_matches(file, names=True, store=store.path)
    before = store.query("SELECT count(*) FROM match")
    with pytest.raises(UsageError, match=r"all 89 matches are in .* already"):
        import_matches(file, store=store.path)
    assert store.query("SELECT count(*) FROM match") == before
    more = {
        ".jsonl": '{"game_id": "g", "seat0": "bot:a", "seat1": "new one", "winner": "draw"}\n',
        ".csv": "g,bot:a,new one,draw,,,,,,,\n",
        ".pgn": '[White "bot:a"]\n[Black "new one"]\n[Result "1/2-1/2"]\n',
    }[suffix]
    file.write_text(file.read_text() + more)
    done = import_matches(file, store=store.path)
    assert (done.imported, done.skipped, done.new) == (1, {"already in the store": 89}, ("new one",))
    assert store.query("SELECT count(*) FROM match")[1] == [(before[1][0][0] + 1,)]


def test_every_column_is_kept(tmp_path: Path) -> None:
    """What a line says is in the row, and what it leaves out has the value that the page names."""
    file = tmp_path / "m.jsonl"
    full = {
        **{"game_id": "h", "seat0": "A", "seat1": "bot:b", "winner": 1, "seed": 2**64 - 1, "end_reason": "knocked out"},
        **{"steps": 7, "ticks": 21, "sampling": "greedy", "kind": "evaluation"},
        "played_at": "2026-05-01T14:00:00+02:00",
    }
    least = {"game_id": "h", "seat0": "A", "seat1": HASH, "winner": "draw"}
    file.write_text(f"{json.dumps(full)}\n\n{json.dumps(least)}\n{json.dumps(least)}\n")
    with pytest.raises(UsageError, match="line 1: game_id='h' is not --game-id g"):
        import_matches(file, game_id="g", store=tmp_path / "s")
    with pytest.raises(UsageError, match=r"no such game in .*pass --game-id ID alone"):
        import_matches(file, game="g", game_id="h", store=tmp_path / "s")
    assert not (tmp_path / "s").exists()
    done = import_matches(file, run="friends", store=tmp_path / "s")
    assert (done.run, done.game_ids, done.joined) == ("friends", ("h",), ())
    assert done.new == ("A", "bot:b", HASH[:12])
    opened = Store.open(tmp_path / "s")
    first, second, third = opened.matches("friends", "evaluation")
    seats, seed = ("import:A", "bot:b"), 2**64 - 1
    assert first == MatchResult("friends", "evaluation", 0, 0, 0, "h", seats, seed, 1, "knocked out", 7, 21, "greedy")
    assert (second.winner, second.end_reason, second.steps, second.sampling) == (DRAW, "unknown", 0, "sample")
    assert second.seed != third.seed, "two games without a seed are two games"
    assert second.agents == ("import:A", HASH)
    assert str(opened.query("SELECT min(finished_at) FROM match")[1][0][0]) == "2026-05-01 12:00:00"
    assert {(a.agent_id, a.kind, a.name) for a in opened.agents("h")} == {
        ("import:A", "import", "A"),
        ("bot:b", "bot", "bot:b"),
        (HASH, "import", HASH[:12]),
    }


def test_names_join_the_agents_that_the_store_has(store: Filled, tmp_path: Path) -> None:
    """A snapshot by label or id, a bot, an agent from outside by name or id: each is one agent, seen once."""
    file = tmp_path / "m.csv"
    file.write_text(
        f"seat0,seat1,winner\nr@100,Q,0\n{HASH},import:Q,0\nbot:based,twin@100,1\nnobody,import:nobody2,1\n"
    )
    done = import_matches(file, game="brawl", store=store.path)
    assert done.new == ("nobody", "nobody2") and set(done.joined) == {"r@100", "Q", "bot:based"}
    seats = [match.agents for match in store.matches(done.run, "evaluation")]
    assert seats[:3] == [(HASH, "import:Q"), (HASH, "import:Q"), ("bot:based", HASH)]
    assert seats[3] == ("import:nobody", "import:nobody2")


def test_a_row_that_stands_in_a_file_twice_counts_once(tmp_path: Path) -> None:
    """Where seed and time are given; rows without them may be games of equal results."""
    told, bare = "a,b,0,7,2026-05-01T12:00:00Z\n", "a,b,0,,\n"
    other = told.replace("7", "8")
    (tmp_path / "m.csv").write_text("seat0,seat1,winner,seed,played_at\n" + told + bare + other + told + bare)
    done = import_matches(tmp_path / "m.csv", game_id="g", store=tmp_path / "s")
    assert (done.read, done.imported, done.skipped) == (5, 4, {"in the file once more": 1})
    with pytest.raises(UsageError, match="agent 'a' was imported: its games are here"):
        find_named(Store.open(tmp_path / "s"), "a")


def test_agents_of_two_games_are_listed_once(tmp_path: Path) -> None:
    """As the new ones and as the ones that were there."""
    for name, winner in (("a", 0), ("b", 1)):
        rows = "".join(f"g{game},a,b,{winner}\n" for game in range(2))
        (tmp_path / f"{name}.csv").write_text("game_id,seat0,seat1,winner\n" + rows)
    done = [import_matches(tmp_path / f"{name}.csv", store=tmp_path / "s") for name in "ab"]
    assert [x.new for x in done] == [("a", "b"), ()] and [x.joined for x in done] == [(), ("a", "b")]


def test_one_file_is_imported_once(store: Filled, tmp_path: Path) -> None:
    """The same content under any name is refused and says as what it is there; runs get names of their own."""
    text = "seat0,seat1,winner\na,b,0\n"
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(text)
    first = import_matches(tmp_path / "a.csv", game_id="g", store=store.path).run
    assert first == name_of(tmp_path / "a.csv")
    with pytest.raises(UsageError, match=rf"b\.csv: its content was imported before, as {first} \(1 matches"):
        import_matches(tmp_path / "b.csv", game_id="g", run="x", store=store.path)
    (tmp_path / "b.csv").write_text("seat0,seat1,winner\na,b,1\n")
    for taken in ("r", "evaluations-0", first):
        with pytest.raises(UsageError, match=f"run={taken}: that name is taken"):
            import_matches(tmp_path / "b.csv", game_id="g", run=taken, store=store.path)
    assert import_matches(tmp_path / "b.csv", game_id="g", store=store.path).run == name_of(tmp_path / "b.csv")


def rows_of(store: Store) -> list[tuple[Any, ...]]:
    """What imports there are, and what counts: the games of each pair and outcome."""
    imports = store.query("SELECT run, file, matches FROM import ORDER BY run")[1]
    return [
        *imports,
        *store.query("SELECT seat0_agent, seat1_agent, winner, count(*) FROM match GROUP BY ALL ORDER BY ALL")[1],
    ]


GREW = ["a,b,0", "b,a,0", "a,c,draw", "c,b,1", "a,b,0", "b,c,1"]


@pytest.mark.parametrize(
    "later",
    cases(
        [*GREW, "a,b,1"],
        [*GREW[:2], "a,c,0", *GREW[3:], "a,b,1"],
        slow=[["a,b,1", *GREW], [*reversed(GREW), "a,b,1"], GREW[:4]],
    ),
    ids=["grown", "corrected", "prepended", "in another order", "shortened"],
)
def test_a_file_that_continues_an_import_does_not_count_it_twice(later: list[str], tmp_path: Path) -> None:
    """It is refused with the import's name and both ways on; --replace puts it in the import's place."""
    file, path = tmp_path / "m.csv", tmp_path / "s"
    file.write_text("\n".join(["seat0,seat1,winner", "only here,a,0", *GREW]))
    first = import_matches(file, game_id="g", store=path).run
    store = Store.open(path)
    before = rows_of(store)
    file.write_text("\n".join(["seat0,seat1,winner", *later]))
    with pytest.raises(UsageError, match=rf"of {first} \(7 games of m\.csv\); pass --replace .* or --as-new"):
        import_matches(file, game_id="g", store=path)
    assert rows_of(store) == before
    done = import_matches(file, game_id="g", replace=True, store=path)
    assert (done.run, done.imported, done.replaced) == (name_of(file), len(later), {first: 7})
    assert store.query("SELECT run, count(*) FROM match GROUP BY run")[1] == [(done.run, len(later))]
    assert store.query("SELECT run, matches FROM import")[1] == [(done.run, len(later))]
    assert sorted(os.listdir(path)) == [done.run, "league.duckdb"]
    assert {agent.name for agent in store.agents("g")} == {"a", "b", "c"}, "who played nowhere any more is gone"
    with pytest.raises(UsageError, match=f"imported before, as {done.run}"):
        import_matches(file, game_id="g", replace=True, store=path)


def test_other_games_that_look_alike_have_a_way_in(tmp_path: Path) -> None:
    """Bare results may be equal by chance: --as-new counts them; with times that differ nobody has to ask."""
    path = tmp_path / "s"
    for name, text in {"a": "a,b,0\n" * 10, "b": "a,b,0\n" * 12, "c": "a,c,0\na,b,0\n"}.items():
        (tmp_path / f"{name}.csv").write_text(f"seat0,seat1,winner\n{text}")
    import_matches(tmp_path / "a.csv", game_id="g", store=path)
    with pytest.raises(UsageError, match="--as-new"):
        import_matches(tmp_path / "b.csv", game_id="g", store=path)
    with pytest.raises(UsageError, match="exclude each other"):
        import_matches(tmp_path / "b.csv", game_id="g", as_new=True, replace=True, store=path)
    assert import_matches(tmp_path / "b.csv", game_id="g", as_new=True, store=path).imported == 12
    assert import_matches(tmp_path / "c.csv", game_id="g", store=path).imported == 2, (
        "few are the same: no continuation"
    )
    with pytest.raises(UsageError, match="less than half of the games of any earlier import"):
        (tmp_path / "d.csv").write_text("seat0,seat1,winner\nx,y,0\n")
        import_matches(tmp_path / "d.csv", game_id="g", replace=True, store=path)
    for day in (1, 2):
        rows = "".join(f"p,q,{i % 2},2026-05-0{day}T10:0{i}\n" for i in range(8))
        (tmp_path / f"day{day}.csv").write_text(f"seat0,seat1,winner,played_at\n{rows}")
        assert import_matches(tmp_path / f"day{day}.csv", game_id="g", store=path).imported == 8
    assert Store.open(path).query("SELECT count(*) FROM match")[1] == [(10 + 12 + 2 + 16,)]


def test_spreadsheets_and_people_write_files_in_their_ways(tmp_path: Path) -> None:
    """Separators, spaces, cases, results, winners by name, columns of others, empty rows, CRLF and BOM: one meaning."""
    rows = [["-AI", "b", "1-0"], ["b", "-AI", "Draw"], ["b", "-AI", "0-1"], ["-AI", "b", "1/2-1/2"], ["b", "-AI", "b"]]
    expected = [("-AI", "b", 0), ("b", "-AI", DRAW), ("b", "-AI", 1), ("-AI", "b", DRAW), ("b", "-AI", 0)]
    for separator in (",", ";", "\t", " , "):
        lines = [separator.join(["Seat0", "SEAT1", " Winner ", "Elo"]), "", *(separator.join([*r, "x"]) for r in rows)]
        text = "\ufeff" + "\r\n".join([*lines, separator * 3, ""])
        games, found = parse(text.encode(), "m.csv")
        assert [(*g.seats, g.winner) for g in games] == expected, separator
        assert [*found.ignored] == ["Elo"]
    listed = [{"SEAT0": a, "seat1": b, "winner": w, "tags": [1, {}]} for a, b, w in rows]
    games, found = parse("\n".join(map(json.dumps, listed)).encode(), "m.jsonl")
    assert [(*g.seats, g.winner) for g in games] == expected and [*found.ignored] == ["tags"]
    games, found = parse(b",seat0,seat1,winner,,\n7,a,b,0,,\n", "m.csv")  # a data frame's, with its index
    assert (games[0].seats, [*found.ignored]) == (("a", "b"), ["(no name)"])
    games, _ = parse(b'seat0, seat1, winner\n"x, y", "b", 0\n', "m.csv")
    assert games[0].seats == ("x, y", "b")


def test_one_name_in_two_forms_is_one_agent_and_two_cases_are_told(tmp_path: Path) -> None:
    """Composed and decomposed letters are the same; `Bob` and `bob` are two, which is pointed out."""
    file, path = tmp_path / "m.csv", tmp_path / "s"
    nfc, nfd = "Zo\u00e9", "Zoe\u0301"
    file.write_text(f"seat0,seat1,winner\n{nfc},Bob,0\n{nfd},bob,1\n", encoding="utf-8")
    done = import_matches(file, game_id="g", store=path)
    assert done.new == (nfc, "Bob", "bob") and done.alike == (("Bob", "bob"),)
    store = Filled.open(path)
    store.add_agent(AgentRow(f"import:{nfd}x", "import", f"{nfd}x", "g"))
    store.flush()
    file.write_text(f"seat0,seat1,winner\n{nfc}x,BOB,0\n", encoding="utf-8")
    done = import_matches(file, game_id="g", store=path)
    assert done.joined == (f"{nfd}x",) and done.alike == (("BOB", "Bob", "bob"),)
    assert find_rated(store, nfd) == find_rated(store, nfc) == (f"import:{nfc}", nfc)
    with pytest.raises(
        UsageError, match=r"agent 'Bobb': no run `Bobb` and no agent of that name in .*; did you mean `Bob`"
    ):
        find_rated(store, "Bobb")


@pytest.mark.parametrize("where", ["exchange.write_query", "folder.write"])
def test_a_failed_import_leaves_nothing(
    where: str, store: Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where any of its writes fails no game, agent or folder of it is there, and it can be imported then."""
    file = tmp_path / "m.csv"
    file.write_text("seat0,seat1,winner\nnew,bot:based,0\n")
    before = files_of(store.path), store.agents("g"), store.query("SELECT count(*) FROM match")[1]

    def refuse(*given: Any, **more: Any) -> None:
        raise StoreError("no room")

    with monkeypatch.context() as patch, pytest.raises(StoreError, match="no room"):
        patch.setattr(f"league.store.{where}", refuse)
        import_matches(file, game_id="g", store=store.path)
    assert (files_of(store.path), store.agents("g"), store.query("SELECT count(*) FROM match")[1]) == before
    assert import_matches(file, game_id="g", store=store.path).new == ("new",)


def test_one_process_imports_a_content_at_a_time_and_a_killed_import_is_cleared(tmp_path: Path) -> None:
    """The draft's folder is the claim; one whose lock nobody holds goes with the next import of any file."""
    file, path = tmp_path / "m.csv", tmp_path / "s"
    file.write_text("seat0,seat1,winner\na,b,0\n")
    draft = path / f".{name_of(file)}"
    (draft / "rows").mkdir(parents=True)
    with held(draft / LOCK), pytest.raises(UsageError, match="another process imports its content"):
        import_matches(file, game_id="g", store=path)
    assert draft.is_dir(), "it is the other process's"
    (tmp_path / "n.csv").write_text("seat0,seat1,winner\na,b,1\n")
    import_matches(tmp_path / "n.csv", game_id="g", store=path)
    assert not draft.exists()
    assert import_matches(file, game_id="g", store=path).imported == 1


def test_the_first_bad_line_is_told_whoever_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that DuckDB takes apart and those that Python reads are checked in the order of the file, in any parts."""
    quoted, plain = '"a, x","b\ny",0,"p\n\nq"', "a,b,0,p"
    good = '{"seat0": "a", "seat1": "b", "winner": 0}'
    files = {
        "a.csv": ("\n".join(["seat0,seat1,winner,note", plain, plain, "a,b,7,p", '"a,b']), "line 4: winner='7'"),
        "b.csv": ("\n".join(["seat0,seat1,winner,note", plain, quoted, "a,b,7,p"]), "line 3: seat1="),
        "c.csv": ("\n".join(["note,seat0,seat1,winner", '"p\n\nq",a,b,0', plain, "p,a,b,7"]), "line 5: winner='p'"),
        "d.csv": ("\n".join(["seat0,seat1,winner", "a,b,0", "a,b", "a,b,7"]), "line 3: 2 values under 3 columns"),
        "a.jsonl": ("\n".join([good, good.replace("0}", "7}"), "{", good]), "line 2: winner='7'"),
        "b.jsonl": ("\n".join([good, "", good.replace("0}", "0;}"), good.replace("0}", "7}")]), "line 3: no match as"),
    }
    for batch in (1, 2, 50_000):
        monkeypatch.setattr(formats, "PART", batch)
        for name, (text, words) in files.items():
            (tmp_path / name).write_text(text)
            with pytest.raises(UsageError, match=words):
                import_matches(tmp_path / name, game_id="g", store=tmp_path / "s")


PGN = '[White "a"]\n[Black "b"]\n[Result "1-0"]\n'
BAD: dict[str, tuple[str, str, list[str]]] = {
    "empty": ("m.csv", "", ["m.csv", "no game in it"]),
    "header alone": ("m.csv", "seat0,seat1,winner\n", ["no game in it"]),
    "other ending": ("m.txt", "x", ["m.txt", ".jsonl, .csv, .pgn", "rename"]),
    "unknown column": ("m.csv", "seat0,seat1,winer\n", ["line 1", "'winer'", "did you mean `winner`"]),
    "semicolons alone": ("m.csv", ";;\n", ["no game in it"]),
    "missing column": ("m.csv", "seat0,winner\n", ["line 1", "`seat1` is missing"]),
    "column twice": ("m.csv", "seat0,seat1,winner,seat0\n", ["line 1", "`seat0`", "twice"]),
    "values missing": ("m.csv", "seat0,seat1,winner\n\na,b\n", ["line 3", "2 values under 3 columns"]),
    "open quote": ("m.csv", 'seat0,seat1,winner\na,"b,0\n', ["line 2", "not CSV"]),
    "winner": (
        "m.csv",
        "seat0,seat1,winner\na,b,2\n",
        ["line 2", "winner='2'", "0, 1, draw, 1-0, 0-1, 1/2-1/2", "seat0 or seat1"],
    ),
    "line after a quoted one": ("m.csv", 'seat0,seat1,winner\n"a\nx",b,0\na,b,\n', ["line 2", "cannot be seen"]),
    "same agent": ("m.csv", "seat0,seat1,winner\na,b,0\nb,import:b,0\n", ["line 3", "'b'", "against itself"]),
    "empty name": ("m.csv", "seat0,seat1,winner\n,b,0\n", ["line 2", "seat0=''", "is empty"]),
    "empty bot": ("m.csv", "seat0,seat1,winner\nbot:,b,0\n", ["line 2", "seat0='bot:'", "is empty"]),
    "two prefixes": ("m.csv", "seat0,seat1,winner\nimport:bot:x,b,0\n", ["line 2", "two prefixes", "`bot:x`"]),
    "long name": ("m.csv", f"seat0,seat1,winner\n{'x' * 101},b,0\n", ["line 2", "seat0=", "101 letters", "100"]),
    "formula": ("m.csv", "seat0,seat1,winner\n=A1,b,0\n", ["line 2", "'=A1'", "formula"]),
    "a run": ("m.csv", "seat0,seat1,winner\nr,b,0\n", ["line 2", "'r'", "run `r`", "RUN@STEP"]),
    "no snapshot": ("m.csv", "seat0,seat1,winner\nr@7,b,0\n", ["line 2", "'r@7'", "run `r`"]),
    "training": ("m.csv", "seat0,seat1,winner,kind\na,b,0,training\n", ["line 2", "kind='training'", "evaluation"]),
    "seed": ("m.csv", f"seat0,seat1,winner,seed\na,b,0,{2**64}\n", ["line 2", f"seed='{2**64}'", "whole number"]),
    "sampling": ("m.csv", "seat0,seat1,winner,sampling\na,b,0,x\n", ["line 2", "sampling='x'", "sample or greedy"]),
    "time": ("m.csv", "seat0,seat1,winner,played_at\na,b,0,now\n", ["line 2", "played_at='now'", "ISO 8601"]),
    "no object": ("m.jsonl", "\n[]\n", ["line 2", "object"]),
    "no JSON": ("m.jsonl", '{"seat0": "a"\n', ["line 1", "JSON object"]),
    "key twice": ("m.jsonl", '{"seat0": "a", "seat0": "b"}', ["line 1", "`seat0` stands there twice"]),
    "a bool": ("m.jsonl", '{"seat0": "a", "seat1": "b", "winner": true}', ["line 1", "winner=true"]),
    "a huge number": ("m.jsonl", f'{{"seat0": "a", "seat1": "b", "winner": {2**64}}}', [f"winner={2**64}", "2^64"]),
    "surrogate": ("m.jsonl", '{"seat0": "\\ud800", "seat1": "b", "winner": 0}', ["line 1", "JSON object"]),
    "deep": ("m.jsonl", "[" * 100_000, ["line 1", "JSON object"]),
    "tag twice": ("m.pgn", PGN + PGN, ["line 4", "White", "twice", "empty line"]),
    "all undecided": ("m.pgn", PGN.replace("1-0", "*"), ["none of its 1 games has a result between two agents"]),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_one_line(case: str, store: Filled, tmp_path: Path) -> None:
    """Each names the file, the line, the value and the rule, and the store stays byte for byte."""
    name, text, words = BAD[case]
    (tmp_path / name).write_text(text)
    before = files_of(store.path)
    with pytest.raises(UsageError) as refused:
        import_matches(tmp_path / name, game_id="g", store=store.path)
    for word in [name, *words]:
        assert word in str(refused.value), f"{word!r} is not in {refused.value}"
    assert files_of(store.path) == before


def test_other_bad_calls_are_one_line(store: Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encodings, missing files, folders, sizes, run names, and a game that is unknown or not told."""
    good = tmp_path / "m.csv"
    good.write_text("seat0,seat1,winner\na,b,0\n")
    (tmp_path / "latin.pgn").write_bytes(PGN.replace('"b"', '"é"').encode("latin-1"))
    (tmp_path / "folder.csv").mkdir()
    store.add_matches([game(0, ("bot:x", "bot:y"), 0, run="h", game_id="h")])
    store.flush()
    calls: list[tuple[dict[str, Any], str]] = [
        ({"file": tmp_path / "latin.pgn"}, r"latin.pgn, line 2: byte 0xe9 is not UTF-8"),
        ({"file": tmp_path / "none.csv"}, "none.csv: cannot be read .No such file"),
        ({"file": tmp_path / "folder.csv"}, "folder.csv: cannot be read"),
        ({"file": "nul\0.csv"}, "cannot be read"),
        ({"game_id": None}, "m.csv, line 2: nothing tells the game; pass --game or --game-id"),
        ({"game_id": None, "game": "brwl"}, "game='brwl'.*did you mean `brawl`"),
        ({"game": "brawl", "game_id": "h"}, "game=brawl is not game id h"),
        ({"game_id": "=h"}, "game_id='=h'"),
        ({"run": "../x"}, r"run='../x': letters"),
    ]
    for changes, words in calls:
        with pytest.raises(UsageError, match=words):
            import_matches(**{"file": good, "game_id": "g", "store": store.path} | changes)
    with pytest.raises(UsageError, match="nothing tells the game"):
        import_matches(good, store=tmp_path / "new")
    assert not (tmp_path / "new").exists()
    monkeypatch.setattr(exchange, "MAX_BYTES", 10)
    with pytest.raises(UsageError, match="more than the 10 allowed"):
        import_matches(good, game_id="g", store=store.path)


def test_exports_that_cannot_be_are_refused(store: Filled, tmp_path: Path) -> None:
    """A file that is there stays; unknown runs, kinds and endings, and names that no file can hold, are one line."""
    (tmp_path / "there.csv").write_text("mine")
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("there.csv", {}, "is there already"),
        ("m.txt", {}, "must be .jsonl, .csv, .pgn"),
        ("no/m.csv", {}, "needs the folder"),
        ("m.csv", {"run": "x"}, "no evaluation match with run=x"),
        ("m.csv", {"kind": "x"}, "kind='x'"),
    ]
    for name, changes, words in calls:
        with pytest.raises(UsageError, match=words):
            export_matches(tmp_path / name, store=store.path, **changes)
    assert (tmp_path / "there.csv").read_text() == "mine"
    store.add_matches([game(0, ("a\nb", "bot:y"), 0, run="odd")])
    store.flush()
    with pytest.raises(UsageError, match="of odd has letters that cannot be seen"):
        export_matches(tmp_path / "m.pgn", store=store.path)
    assert not (tmp_path / "m.pgn").exists()


def test_training_matches_are_written_but_not_taken_in(store: Filled, tmp_path: Path) -> None:
    """A learner changes as it plays, so what it did in training must not come back as something that rates."""
    store.add_matches([game(0, ("r", "bot:based"), 0, run="r", kind="training")])
    store.flush()
    assert export_matches(tmp_path / "m.csv", kind="training", store=store.path) == 1
    with (tmp_path / "m.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["seat0"], row["winner"], row["kind"]) == ("r", "0", "training")
    with pytest.raises(UsageError, match="kind='training' must be evaluation"):
        import_matches(tmp_path / "m.csv", store=tmp_path / "b")


tokens = st.sampled_from(
    [
        *formats.READ,
        *pgn.TAGS,
        *("1-0", "*", "0", "draw", "a", "bot:b", ": ", "9" * 5000, "1e999", "NaN", "0001-01-01"),
        *'",\n\r{}[] ;%\\\0\ud800\u202e',
        *('[White "a"]\n', '[Black "b"]\n', '[Result "1-0"]\n', "seat0,seat1,winner\n"),
        '{"seat0": "a", "seat1": "b", "winner": ',
    ]
)
texts = st.lists(tokens, max_size=25).map("".join) | st.text(max_size=80)
contents = texts.map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=60)


@settings(max_examples=100, deadline=None)
@given(contents, st.sampled_from(list(FORMATS)))
@example(b'{"seat0": "a", "seat1": "b", "winner": 0, "played_at": "0001-01-01T00:00:00+23:00"}', ".jsonl")
@example(b"seat0,seat1,winner\n" + b"x" * 200_000, ".csv")
@pytest.mark.slow
def test_any_content_is_read_or_refused(data: bytes, suffix: str) -> None:
    """Whatever bytes a file holds, reading it gives games whose names are clean, or an error of ours in one line."""
    try:
        games, _ = parse(data, f"m{suffix}")
    except LeagueError as error:
        assert str(error).startswith("m") and "\n" not in str(error)
        return
    for found in games:
        assert all(not formats.name_problem(name) for name in (*found.seats, found.end_reason))


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8) | st.sampled_from(
    ["x'; DROP TABLE match; --", 'a"b', "$run", "NULL", "../../x", "bot:based", "r@100", HASH, "r", "import:Q", "a\\"]
)


@pytest.mark.slow
def test_any_names_are_data(store: Filled, tmp_path: Path) -> None:
    """Matches of any two names are taken in and come back by export the same, or are refused in one line."""
    numbers = itertools.count()

    @settings(max_examples=25, deadline=None)
    @given(names, names, st.sampled_from(list(FORMATS)))
    def check(a: str, b: str, suffix: str) -> None:
        game_id = f"game {next(numbers)}"  # nobody is known in a new game
        file, back = tmp_path / f"in{suffix}", tmp_path / f"{game_id}{suffix}"
        row = {"game_id": game_id, "seat0": a, "seat1": b, "winner": 0, "seed": 1, "end_reason": "x", "steps": 1}
        row |= {"ticks": 1, "sampling": "sample", "kind": "evaluation", "played_at": "2026-01-01T00:00:00+00:00"}
        with file.open("w", encoding="utf-8", newline="") as out:
            FORMATS[suffix].write([row], out)
        try:
            import_matches(file, store=store.path)
        except UsageError as error:
            assert (f"{file}, line" if "?" not in (a.strip(), b.strip()) else f"{file}: none of its") in str(error)
            return
        export_matches(back, game_id=game_id, names=True, store=store.path)
        ((found,), _) = parse(back.read_bytes(), back.name)
        clean = [unicodedata.normalize("NFC", name.strip()) for name in (a, b)]
        shown = [HASH[:12] if name == HASH else name.removeprefix("import:") for name in clean]
        assert list(found.seats) == shown and found.played_at is not None

    check()


def test_an_import_is_taken_back_as_if_it_had_not_been(store: Filled, tmp_path: Path) -> None:
    """Its games and its own agents go, with the boards that were made with them; what others brought stays."""
    store.add_matches([game(0, ("bot:x", "bot:y"), 0, run="h", game_id="i")])
    store.flush()
    before = leaderboard(store, game_id="i").boards
    (tmp_path / "a.csv").write_text("seat0,seat1,winner\nbot:x,ann,0\nann,ben,1\n")
    (tmp_path / "b.csv").write_text("seat0,seat1,winner\nbot:x,ann,1\nann,cat,0\n")
    for name in ("a", "b"):
        import_matches(tmp_path / f"{name}.csv", run=name, game_id="i", store=store.path)
    assert len(leaderboard(store, game_id="i").entries) == 5
    assert [row.run for row in league.imports(store=store.path)] == ["a", "b"]
    gone = league.remove_import("b", store=store.path)
    assert (gone.run, gone.file, gone.matches) == ("b", "b.csv", 2)
    assert {agent.name for agent in store.agents("i")} == {"bot:x", "ann", "ben"}
    assert {entry.name for entry in leaderboard(store, game_id="i").entries} == {"bot:x", "bot:y", "ann", "ben"}
    import_matches(tmp_path / "b.csv", run="b", game_id="i", store=store.path)
    league.remove_import("a", store=store.path)
    assert {agent.name for agent in store.agents("i")} == {"bot:x", "ann", "cat"}, "ann plays in b, too"
    league.remove_import("b", store=store.path)
    assert leaderboard(store, game_id="i").boards == before and not league.imports(store=store.path)
    with pytest.raises(UsageError, match=r"no import `h`.*league imports list"):
        league.remove_import("h", store=store.path)
    assert store.matches("h", "evaluation"), "what is no import is not removed"


def test_what_somebody_put_into_an_imports_folder_stays(store: Filled, tmp_path: Path) -> None:
    """Neither taking the import back nor replacing it deletes such a file."""
    file = tmp_path / "a.csv"
    file.write_text("seat0,seat1,winner\nann,ben,0\n")
    name = import_matches(file, game_id="i", store=store.path).run
    file.write_text("seat0,seat1,winner\nann,ben,0\nann,ben,1\n")
    for place in ("notes.txt", "rows/mine.parquet"):
        mine = store.path / name / place
        mine.write_text("mine")
        for call in (
            lambda: league.remove_import(name, store=store.path),
            lambda: import_matches(file, game_id="i", store=store.path, replace=True),
        ):
            with pytest.raises(StoreError, match=r"league did not write it.*move it elsewhere"):
                call()
        assert mine.read_text() == "mine" and [row.run for row in league.imports(store=store.path)] == [name]
        mine.unlink()
    assert import_matches(file, game_id="i", store=store.path, replace=True).run != name


def test_the_commands_list_imports_and_take_one_back(store: Filled, tmp_path: Path) -> None:
    """As text and as JSON."""
    (tmp_path / "a.csv").write_text("seat0,seat1,winner\nann,ben,1\n")
    name = import_matches(tmp_path / "a.csv", game_id="i", store=store.path).run

    def call(*words: str) -> str:
        done = CliRunner().invoke(app, ["imports", *words, "--store", str(store.path)])
        assert done.exit_code == 0
        return done.stdout

    assert name in call("list") and json.loads(call("list", "--json"))["imports"][0]["file"] == "a.csv"
    assert call("remove", name) == f"removed: {name} with its 1 games of a.csv\n"
    assert json.loads(call("list", "--json")) == {"schema": 1, "imports": []}


def test_a_file_after_which_nobody_could_be_rated_is_refused(
    store: Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many agents, or too closely linked, are one line, and nothing is written."""
    everybody = itertools.combinations("abcdefgh", 2)
    (tmp_path / "a.csv").write_text("seat0,seat1,winner\n" + "".join(f"{a},{b},0\n" for a, b in everybody))

    def bring() -> None:
        import_matches(tmp_path / "a.csv", game_id="i", store=store.path)

    with monkeypatch.context() as patch:
        patch.setattr("league.store.checking.MAX_AGENTS", 7)
        with pytest.raises(UsageError, match="8 agents have games, more than the 7"):
            bring()
    with monkeypatch.context() as patch:
        for name, value in (("davidson.MAX_DENSE", 5), ("davidson.MAX_CORE", 3), ("mesh.MAX_DEGREE", 2)):
            patch.setattr(f"league.maths.{name}", value)
        with pytest.raises(UsageError, match="cannot be rated together"):
            bring()
    assert not store.imports() and not store.agents("i")
    bring()
