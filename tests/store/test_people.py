"""Files as people write them: what has two meanings is refused or told, and one bad game is not the whole file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from league.boards.standings import leaderboard
from league.errors import UsageError
from league.store.exchange import Imported, export_matches, import_matches
from league.store.rows import AgentRow, RunRow, SnapshotRow
from league.store.store import Store
from league.types import DRAW
from tests.helpers.cases import cases
from tests.helpers.processes import run
from tests.helpers.stores import empty_store

HASH = "ab" * 32


def bring(folder: Path, name: str, text: str, **how: Any) -> tuple[Imported, list[tuple[str, str, int]]]:
    """What an import into a new store says, and the seats' names and winners that it has then."""
    (folder / name).write_text(text, encoding="utf-8")
    path = folder / f"store of {name}"
    done = import_matches(folder / name, **{"game_id": "g"} | how, store=path)
    found = Store.open(path).matches(done.run, "evaluation")
    return done, [(*(agent.removeprefix("import:") for agent in m.agents), m.winner) for m in found]


# A value with two meanings


@pytest.mark.parametrize("called", cases("0", "draw", "1-0", slow=["1", "Draw", "0-1", "1/2-1/2", "*"]))
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_winner_that_is_a_seat_and_a_name_is_refused(called: str, suffix: str, tmp_path: Path) -> None:
    """In any row: the file is refused with the columns that say which is meant; with these it is read."""
    rows = [(called, "b", "b"), ("b", called, called), ("b", "c", "c")]

    def text(column: str, winners: list[str]) -> str:
        if suffix == "csv":
            return "\n".join(
                [f"seat0,seat1,{column}", *(f"{a},{b},{w}" for (a, b, _), w in zip(rows, winners, strict=False))]
            )
        listed = [{"seat0": a, "seat1": b, column: w} for (a, b, _), w in zip(rows, winners, strict=False)]
        return "\n".join(map(json.dumps, listed))

    name = f"m.{suffix}"
    with pytest.raises(UsageError, match=r"two meanings.*winner_seat.*winner_name") as refused:
        bring(tmp_path, name, text("winner", [w for _, _, w in rows]))
    assert f"line {3 if suffix == 'csv' else 2}" in str(refused.value) and not (tmp_path / f"store of {name}").exists()
    expected = [(called, "b", 1), ("b", called, 1), ("b", "c", 1)]
    assert bring(tmp_path, f"seat.{suffix}", text("winner_seat", ["1", "1", "1"]))[1] == expected
    if called in ("0", "1", "1-0", "0-1"):
        assert bring(tmp_path, f"name.{suffix}", text("winner_name", [w for _, _, w in rows]))[1] == expected


def test_an_agent_called_as_a_game_without_a_result(tmp_path: Path) -> None:
    """Where `*` plays, a winner `*` is refused as well where no other row names the agent."""
    with pytest.raises(UsageError, match=r"line 2: winner='\*' has two meanings"):
        bring(tmp_path, "m.csv", "seat0,seat1,winner\n*,b,*\na,b,a\n")
    done, found = bring(tmp_path, "n.csv", "seat0,seat1,winner\na,b,*\na,b,a\n")
    assert found == [("a", "b", 0)] and done.skipped == {"no result": 1}


def test_a_file_that_can_be_read_in_one_way_is(tmp_path: Path) -> None:
    """Where a row's `winner` is a seat and no agent of its game, all are seats, though agents are called 0 and 1."""
    games = "seat0,seat1,winner\n0,1,draw\n0,2,1\n2,0,0\n"
    assert bring(tmp_path, "m.csv", games)[1] == [("0", "1", DRAW), ("0", "2", 1), ("2", "0", 0)]
    with pytest.raises(UsageError, match="two meanings"):
        bring(tmp_path, "n.csv", "seat0,seat1,winner\n0,1,draw\n2,0,0\n")


def test_the_meaning_of_a_winner_does_not_change_between_rows(tmp_path: Path) -> None:
    """Players 0 and 1 in both seatings: the column says whether a seat or a name has won, and no row is read else."""
    rows = "0,1,0\n1,0,0\n1,2,2\n0,2,draw\n"
    with pytest.raises(UsageError, match=r"m\.csv, line 2: winner='0' has two meanings"):
        bring(tmp_path, "m.csv", f"seat0,seat1,winner\n{rows}")
    found = bring(tmp_path, "n.csv", f"seat0,seat1,winner_name\n{rows}")[1]
    assert found == [("0", "1", 0), ("1", "0", 1), ("1", "2", 1), ("0", "2", DRAW)]
    found = bring(tmp_path, "s.csv", "seat0,seat1,winner_seat\n0,1,0\n1,0,0\ndraw,1,draw\n")[1]
    assert found == [("0", "1", 0), ("1", "0", 0), ("draw", "1", DRAW)]
    with pytest.raises(UsageError, match=r"line 3: winner_name='draw' has two meanings.*winner_seat"):
        bring(tmp_path, "d.csv", "seat0,seat1,winner_name\ndraw,a,a\ndraw,a,draw\n")
    with pytest.raises(UsageError, match=r"line 2: winner_name='0' must be the name in seat0 or seat1, or draw"):
        bring(tmp_path, "e.csv", "seat0,seat1,winner_name\na,b,0\n")
    with pytest.raises(UsageError, match=r"line 2: winner_seat='a' must be one of 0, 1, draw"):
        bring(tmp_path, "f.csv", "seat0,seat1,winner_seat\na,b,a\n")
    with pytest.raises(UsageError, match=r"line 2: .*winner.*winner_seat.*give one"):
        bring(tmp_path, "h.csv", "seat0,seat1,winner,winner_seat\na,b,0,0\n")
    mixed = "seat0,seat1,winner_seat,winner_name\na,b,,b\na,b,draw,\n"
    assert bring(tmp_path, "x.csv", mixed)[1] == [("a", "b", 1), ("a", "b", DRAW)]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".pgn"])
def test_own_files_have_one_meaning(suffix: str, tmp_path: Path) -> None:
    """Agents called as winners are come back by export with the same games."""
    _, found = bring(tmp_path, "s.csv", "seat0,seat1,winner_seat\n0,1,0\n1,0,0\ndraw,1,draw\n1,*,1\n")
    export_matches(tmp_path / f"m{suffix}", names=True, store=tmp_path / "store of s.csv")
    done = import_matches(tmp_path / f"m{suffix}", store=tmp_path / "b")
    again = Store.open(tmp_path / "b").matches(done.run, "evaluation")
    assert [(*(a.removeprefix("import:") for a in m.agents), m.winner) for m in again] == found
    boards = [leaderboard(Store.open(tmp_path / name)).boards[0].entries for name in ("store of s.csv", "b")]
    assert [e.name for e in boards[0]] == [e.name for e in boards[1]]


def test_a_name_of_two_agents_and_a_game_by_name_are_refused(tmp_path: Path) -> None:
    """RUN@STEP that is an outside agent's name, too, and a game's name where its id belongs."""
    store = empty_store(tmp_path / "s")
    store.begin_run(RunRow("r", "brawl", "g", "f", 1, "smoke", "{}"))
    store.add_snapshot(SnapshotRow(HASH, "r", 100, 1, "r/snapshots/100", "f"))
    store.add_agent(AgentRow("import:r@100", "import", "r@100", "g"))
    store.flush()
    (tmp_path / "m.csv").write_text("seat0,seat1,winner\nr@100,b,0\n")
    with pytest.raises(UsageError, match=r"line 2: seat0='r@100' names 2 agents; give the id of one"):
        import_matches(tmp_path / "m.csv", game_id="g", store=store.path)
    (tmp_path / "m.csv").write_text("seat0,seat1,winner\nimport:r@100,b,0\n")
    assert import_matches(tmp_path / "m.csv", game_id="g", store=store.path).joined == ("r@100",)
    (tmp_path / "n.csv").write_text("seat0,seat1,winner,game_id\nx,b,0,brawl\n")
    with pytest.raises(UsageError, match=r"n\.csv, line 2: game_id='brawl' is the name of a game.* its id is g"):
        import_matches(tmp_path / "n.csv", store=store.path)
    (tmp_path / "n.csv").write_text("seat0,seat1,winner\nx,b,0\n")
    with pytest.raises(UsageError, match=r"game_id='brawl' is the name of a game.*--game brawl"):
        import_matches(tmp_path / "n.csv", game_id="brawl", store=store.path)


def test_times_without_a_zone_are_told(tmp_path: Path) -> None:
    """They are UTC, and the command says of how many games."""
    rows = "a,b,0,2026-05-01 12:00\na,b,1,2026-05-01T12:00+02:00\na,b,1,2026-05-02\n"
    done, _ = bring(tmp_path, "m.csv", f"seat0,seat1,winner,played_at\n{rows}")
    assert done.without_zone == 2
    shown = run("import", "m.csv", "--game-id", "g", "--store", "s", cwd=tmp_path)
    assert "2 games have a time without a zone, read as UTC" in " ".join(shown.stdout.split()), shown


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *[("seed", value) for value in ("1.0", "1e3", "1,000", "1_000", "0x10", "true", "-1", "\u0661")],
        *[("steps", value) for value in ("12.0", "1.000", "1 000")],
        *[("sampling", value) for value in ("1", "true", "Greedy", "argmax")],
        *[("winner", value) for value in ("true", "0.0", "1.0", "0,5", "2", "-1", "win", "")],
        *[("played_at", value) for value in ("05/06/2026", "1714564800", "01.05.2026")],
    ],
)
def test_numbers_words_and_dates_have_one_meaning_or_none(column: str, value: str, tmp_path: Path) -> None:
    """Fractions, thousands, truth values and dates in the order of a country are refused with their line."""
    row = {"seat0": "a", "seat1": "b", "winner": "0"} | {column: value}
    with pytest.raises(UsageError, match=f"line 1: {column}="):
        bring(tmp_path, "m.jsonl", json.dumps(row))


# PGN


TAGS = '[White "{}"]\n[Black "{}"]\n[Result "{}"]\n'
PGN_CASES: dict[str, tuple[str, list[tuple[str, str, int]]]] = {
    "several tags a line": ('[Event "x"] [White "a"][Black "b"]  [Result "1-0"]\n\n1. e4 1-0', [("a", "b", 0)]),
    "a game a line": ('[White "a"] [Black "b"] [Result "0-1"] 1. e4 0-1\n' * 2, [("a", "b", 1)] * 2),
    "games on one line": ('[White "a"] [Black "b"] [Result "0-1"] 1. e4 0-1 ' * 2, [("a", "b", 1)] * 2),
    "quotes in a tag nobody needs": ('[Event "The "Big" Open"]\n' + TAGS.format("a", "b", "1-0"), [("a", "b", 0)]),
    "quotes in a name": (TAGS.format('J. "Big" S', "b", "1-0"), [('J. "Big" S', "b", 0)]),
    "empty lines among tags": (
        '[Event "x"]\n\n[White "a"]\n\n\n[Black "b"]\n[Result "1-0"]\n\n1. e4 1-0',
        [("a", "b", 0)],
    ),
    "empty lines, no moves": (
        f'[Event "x"]\n\n{TAGS.format("a", "b", "1-0")}\n[Event "y"]\n{TAGS.format("b", "a", "1-0")}',
        [("a", "b", 0), ("b", "a", 0)],
    ),
    "half a point": (
        "\n".join(
            TAGS.format("a", "b", r) + "\n1/2\n" for r in ("1/2", "½-½", "½", "1/2 - 1/2", "1/2\u20131/2", "0.5-0.5")
        ),
        [("a", "b", DRAW)] * 6,
    ),
    "spaces and dashes": (
        "\n".join(TAGS.format("a", "b", r) for r in ("1 - 0", "0\u20131", " 1-0 ")),
        [("a", "b", 0), ("a", "b", 1), ("a", "b", 0)],
    ),
    "a broken tag nobody needs": (
        TAGS.format("a", "b", "1-0") + '[Foo "x\n[ECO]\n[]\n[Site no quotes]\n\n1-0\n' + TAGS.format("a", "b", "0-1"),
        [("a", "b", 0), ("a", "b", 1)],
    ),
    "a comment before all": ("; by hand\n{ several\nlines }\n" + TAGS.format("a", "b", "1-0"), [("a", "b", 0)]),
    "an escape line, escaped quotes, CRLF": (
        "\ufeff% not a tag\r\n" + TAGS.format('A \\"the\\" \\\\ one', "b", "1-0").replace("\n", "\r\n"),
        [('A "the" \\ one', "b", 0)],
    ),
    "tags' cases": (TAGS.format("a", "b", "1-0").replace("White", "WHITE"), [("a", "b", 0)]),
    "brackets in comments and moves": (
        TAGS.format("a", "b", "1-0") + "\n1. e4 { [White no]\n[Black no] } e5 [%clk 1] 1-0\n",
        [("a", "b", 0)],
    ),
}


@pytest.mark.parametrize("case", PGN_CASES)
def test_pgn_as_people_write_it(case: str, tmp_path: Path) -> None:
    """Each way of writing has one meaning, and that is read; `--strict` has nothing against it."""
    text, expected = PGN_CASES[case]
    for strict in (False, True):
        done, found = bring(tmp_path, f"m{strict}.pgn", text, strict=strict)
        assert found == expected and done.skipped == {}


BAD_GAMES = {
    "no White": ('[Black "b"]\n[Result "1-0"]\n\n1-0\n', "no tag White"),
    "no moves, no Result": ('[White "a"]\n[Black "b"]\n\n1. e4\n', "no tag Result"),
    "result": (TAGS.format("a", "b", "2-0"), "'2-0'"),
    "forfeit": (TAGS.format("a", "b", "+/-"), "'+/-'"),
    "broken name": ('[White "a]\n[Black "b"]\n[Result "1-0"]\n\n1-0\n', "is no tag"),
    "tag twice": ('[White "a"]\n[White "c"]\n[Black "b"]\n[Result "1-0"]\n\n1-0\n', "twice"),
    "seed": (TAGS.format("a", "b", "1-0") + '[Seed "x"]\n\n1-0\n', "seed='x'"),
    "long name": (TAGS.format("a" * 101, "b", "1-0"), "101 letters"),
    "formula": (TAGS.format("=A1", "b", "1-0"), "formula"),
    "itself": (TAGS.format("a", "a", "1-0"), "against itself"),
    "two results": (TAGS.format("a", "b", "1-0") + "\n1. e4 { 1-0 } e5 0-1\n", "end with 0-1"),
    "open comment": (TAGS.format("a", "b", "1-0") + "\n1. e4 { never closed\n", "never closed"),
    "no tags": ("1. e4 e5 1-0\n", "before any tag"),
}


@pytest.mark.parametrize(("case", "at"), [(case, place % 3) for place, case in enumerate(BAD_GAMES)])
def test_one_bad_game_is_left_out_and_counted(case: str, at: int, tmp_path: Path) -> None:
    """It is the first, the second or the last; a line says what is wrong with it, and `--strict` refuses the file."""
    bad, words = BAD_GAMES[case]
    good = [TAGS.format("a", "b", "1-0") + "\n1. e4 1-0\n", TAGS.format("b", "a", "1/2") + "\n1/2\n"]
    text = "\n".join([*good[:at], bad, *good[at:]])
    done, found = bring(tmp_path, "m.pgn", text)
    assert found == [("a", "b", 0), ("b", "a", DRAW)] and done.read == 3 and done.skipped == {"cannot be read": 1}
    assert words in done.first_bad and "m.pgn, line " in done.first_bad
    with pytest.raises(UsageError, match=r"s\.pgn, line ") as refused:
        bring(tmp_path, "s.pgn", text, strict=True)
    assert words in str(refused.value)
    with pytest.raises(UsageError) as refused:
        bring(tmp_path, "all.pgn", bad)
    assert words in str(refused.value)


def test_a_file_that_is_cut_in_a_tag_is_told(tmp_path: Path) -> None:
    """Also where nobody needs the tag, as far as its name goes."""
    done, found = bring(
        tmp_path, "m.pgn", TAGS.format("a", "b", "1-0") + "\n" + TAGS.format("b", "a", "1-0") + "[EndRea"
    )
    assert found == [("a", "b", 0)] and "'[EndRea' is no tag" in done.first_bad


def test_a_player_that_is_not_known_is_no_agent(tmp_path: Path) -> None:
    """Games of `?` are left out and counted, in each format; a board does not hold them."""
    text = TAGS.format("?", "b", "1-0") + "\n" + TAGS.format("a", "b", "1-0")
    for strict in (False, True):
        done, found = bring(tmp_path, f"m{strict}.pgn", text, strict=strict)
        assert found == [("a", "b", 0)] and done.skipped == {"a player `?`": 1} and done.new == ("a", "b")
    done, found = bring(tmp_path, "m.csv", "seat0,seat1,winner\n?,b,0\nb,?,1\na,b,1\n")
    assert found == [("a", "b", 1)] and done.skipped == {"a player `?`": 2} and done.read == 3


def test_the_command_tells_what_it_left_out(tmp_path: Path) -> None:
    """In words and in JSON; with --strict it ends with exit code 2 and changes nothing."""
    bad = TAGS.format("a", "b", "9-0")
    (tmp_path / "m.pgn").write_text(TAGS.format("a", "b", "1-0") + "\n" + bad)
    words = ["import", tmp_path / "m.pgn", "--game-id", "chess", "--store"]
    shown = run(*words, tmp_path / "a", cwd=tmp_path)
    text = " ".join(shown.stdout.split())
    assert shown.returncode == 0 and "1 of 2 games" in text, shown
    assert "left out: 1, cannot be read" in text and "line 5: Result '9-0'" in text
    found = json.loads(run(*words, tmp_path / "b", "--json", cwd=tmp_path).stdout)
    assert found["skipped"] == {"cannot be read": 1} and "line 5" in found["first_bad"]
    shown = run(*words, tmp_path / "c", "--strict", cwd=tmp_path)
    assert shown.returncode == 2 and "line 5: Result '9-0'" in shown.stderr and not (tmp_path / "c").exists()
