"""The store: what owners write is read back, nothing counts twice, nothing foreign is touched."""

from __future__ import annotations

import itertools
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from league.errors import StoreError, UsageError
from league.store.folder import Folder
from league.store.rows import AgentRow, GameRow, RatingRow, ReplayRow, RewardTerm
from league.store.store import Store
from league.types import DRAW, MatchResult
from tests.helpers.stores import Filled, empty_store, files_of, make_gate, make_match, make_run, make_snapshot


@pytest.fixture
def store(tmp_path: Path) -> Filled:
    """A store without rows."""
    return empty_store(tmp_path / "runs")


# What is written is read back


def equals(a: MatchResult, b: MatchResult) -> bool:
    """Equal, where NaN equals NaN and -0.0 is 0.0."""

    def plain(m: MatchResult) -> tuple[object, ...]:
        pairs = [{name: [repr(v + 0.0) for v in seats] for name, seats in d.items()} for d in (m.metrics, m.rewards)]
        return (*pairs, replace(m, metrics={}, rewards={}))

    return plain(a) == plain(b)


numbers = st.tuples(st.floats(width=64), st.floats(width=64))
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
counts = st.integers(0, 2**62)
results = st.builds(
    MatchResult,
    run=words,
    kind=st.sampled_from(["training", "evaluation"]),
    update=counts,
    row=counts,
    ordinal=counts,
    game_id=words,
    agents=st.tuples(words, words),
    seed=st.integers(0, 2**64 - 1),
    winner=st.sampled_from([0, 1, DRAW]),
    end_reason=words,
    steps=counts,
    ticks=counts,
    sampling=st.sampled_from(["sample", "greedy"]),
    update_begin=st.none() | st.integers(0, 5),
    update_end=st.none() | st.integers(5, 2**62),
    metrics=st.dictionaries(words, numbers, max_size=3),
    rewards=st.dictionaries(words, numbers, max_size=3),
)


def test_every_match_comes_back_as_it_went(tmp_path: Path) -> None:
    """Whatever a match row holds, odd names, NaN, infinities and 64-bit seeds included, is read back the same."""
    numbers = itertools.count()

    @settings(max_examples=25, deadline=None)
    @given(st.lists(results, min_size=1, max_size=6))
    @example([make_match(metrics={"x": (math.nan, math.inf)}, rewards={"x": (-math.inf, 5e-324)}, seed=2**64 - 1)])
    @example([make_match(payoff=-2.5, course=2**64 - 1, end_reason="a\0b\n")])
    def check(matches: list[MatchResult]) -> None:
        store = empty_store(tmp_path / str(next(numbers)))
        folder = store.owner("")
        folder.add_matches(matches)
        folder.flush(force=True)
        wanted = {(m.run, m.kind, m.update, m.row, m.ordinal): m for m in matches}
        found = {
            (m.run, m.kind, m.update, m.row, m.ordinal): m
            for run, kind in {(m.run, m.kind) for m in matches}
            for m in store.matches(run, kind)
        }
        assert found.keys() == wanted.keys()
        assert all(equals(found[key], match) for key, match in wanted.items())

    check()


ODD = ["x'; DROP TABLE match; --", 'a"b', "$run", "{};\n[]", "naïve 🤖\0", "NULL", "", "\u202e\\"]


def test_rows_of_the_other_kinds_come_back_as_they_went(store: Filled) -> None:
    """Ratings, metrics, events and replays with NaN (NULL), infinities, no value, odd text; events twice."""
    store.begin_run(make_run())
    folder = store.folder("a")
    ratings = [
        RatingRow("a", 1, "elo", ODD[0], 1016.0, None, None, 3, "g"),
        RatingRow("a", 1, "bradley_terry", ODD[0], math.inf, -math.inf, 5e-324, 2**62, "g", "greedy", 0.0, 7),
    ]
    folder.add_ratings(ratings)
    folder.add_metrics(1, 64, {"entropy": 0.5, "kl": math.nan, "grad": math.inf}, {("odds", "x"): 0.25})
    folder.add_metrics(1, 64, {"entropy": 0.25}, {("odds", "x"): 0.75, ("odds", "y"): math.nan})
    for text in ODD:
        folder.add_event(1, text, text)
        folder.add_event(1, text, text)
    folder.add_matches(make_match(row=i, replay=text) for i, text in enumerate(ODD))
    folder.flush(force=True)
    names = 'run, "update", system, agent_id, rating, lower, upper, games, game_id, sampling, prior, group_number'
    assert store.query(f"SELECT {names} FROM rating ORDER BY rating")[1] == [
        (*(getattr(row, name.strip('"')) for name in names.split(", ")),) for row in ratings
    ]
    found = store.query("SELECT name, agent_id, value FROM metric ORDER BY ALL")[1]
    numbers = [("entropy", "", 0.25), ("grad", "", math.inf), ("kl", "", None)]
    assert found == [*numbers, ("odds", "x", 0.75), ("odds", "y", None)]
    assert sorted(event.message for event in store.events("a")) == sorted([*ODD, *ODD])
    contents = [store.replay_content("a", "training", 1, i, 0) for i in range(len(ODD))]
    assert contents == [text or None for text in ODD], "a match without a replay brings none"
    assert isinstance(store.replays("a", last=1)[0], ReplayRow) and len(store.replays("a")) == len(ODD) - 1


@pytest.mark.parametrize("name", ODD)
def test_names_are_data(store: Filled, name: str) -> None:
    """Names with quotes, SQL or odd letters in them are stored and found like any other."""
    store.begin_run(make_run(game=name, game_id=name, parent=name))
    folder = store.folder("a")
    folder.add_matches([make_match(agents=("a", f"bot:{name}"), game_id=name, end_reason=name)])
    folder.add_metrics(1, 2, {name: 0.5})
    folder.add_snapshot(make_snapshot(parent=name))
    folder.add_agent(AgentRow("h", "import", name, name))
    folder.add_game(GameRow(name, name, name, name, name, 0.1))
    folder.flush(force=True)
    assert (store.find_run("a").parent, store.snapshots("a")[0].parent) == (name, name)
    assert store.matches("a", "training")[0].agents == ("a", f"bot:{name}")
    assert {agent.name for agent in store.agents(name)} == {name, "a@100"}
    assert store.game(name) == GameRow(name, name, name, name, name, 0.1)
    assert [row[1:] for row in store.metrics("a", name)] == [(2, name, 0.5)]


@pytest.mark.parametrize("name", ["x[1]", "a*b", "what?", "q'uote", 'd"q', "back\\slash", "line\n", "ünï🤖"])
def test_a_store_may_lie_in_any_folder(tmp_path: Path, name: str) -> None:
    """Signs that stand for other letters in patterns stand for themselves: no other store's rows are read."""
    for folder, rows in ((name, 3), ("x1", 7), ("aab", 7), ("whatx", 7)):
        store = empty_store(tmp_path / folder)
        store.begin_run(make_run())
        store.add_matches(make_match(row=i) for i in range(rows))
        store.folder("a").close()
        store.add_event("a", 1, "note", "x")
        store.folder("a").close()
    store = Store.open(tmp_path / name)
    assert len(store.matches("a", "training")) == 3 and store.query("SELECT count(*) FROM match")[1] == [(3,)]
    folder_a = Folder(store.path / "a", pytest.fail)
    assert folder_a.restore(None, 5) == 3 and len(store.events("a")) == 1, "the event of an update before stays"


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"winner": 2}, "winner=2"),
        ({"kind": "practice"}, "kind='practice'"),
        ({"seed": 2**64}, "seed="),
        ({"seed": -1}, "seed=-1"),
        ({"ordinal": -1}, "count from 0"),
        ({"update_begin": 3, "update_end": 2}, "update_begin=3"),
        ({"metrics": {"damage": (1.0,)}}, "one number a seat"),
    ],
)
def test_impossible_matches_are_refused_at_once(store: Filled, changes: dict[str, Any], what: str) -> None:
    """A value that no segment can hold is refused when it is added, so that it cannot block later writes."""
    with pytest.raises(ValueError, match=what):
        store.owner("").add_matches([make_match(**changes)])
    assert store.owner("").num_waiting == 0


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside", "a/../../b", "a/200", "b/100", "", "a/100x"])
def test_snapshot_paths_stay_in_the_folder(path: str) -> None:
    """A snapshot's path that is absolute, climbs out, or is that of another step or run is refused."""
    with pytest.raises(ValueError, match="must be that of step 100 in a's folder"):
        make_snapshot(path=path)


def test_training_games_follow_the_key(store: Filled) -> None:
    """Training games come in key order with the learner's score, whichever seat it had.

    Those of lessons that were another game are out.
    """
    store.begin_run(make_run())
    store.add_matches(
        [
            make_match(update=3, agents=("h", "a"), winner=0, game_id="lesson"),
            make_match(update=2, agents=("bot:based", "a"), winner=0),
            make_match(update=1, row=1, agents=("bot:based", "a"), winner=1),
            make_match(update=1, row=0, agents=("a", "h"), winner=DRAW),
            make_match(update=1, row=0, ordinal=1, agents=("a", "h"), winner=1),
            make_match(kind="evaluation", agents=("h", "bot:based")),
        ]
    )
    store.flush(force=True)
    games = [("h", 0.5), ("h", 0.0), ("bot:based", 1.0), ("bot:based", 0.0)]
    assert store.training_games("a")["a"] == [(*game, None) for game in games]


def test_reward_terms_are_the_learners_and_its_opponents(store: Filled) -> None:
    """Means follow the learner's seat, weights come from the run, what weighs most stands first; evaluation is out."""
    store.begin_run(make_run(config='{"rewards": {"win": 0.5, "hit": -3.0}}'))
    rewards = [{"win": (1, -1), "hit": (2, 0), "new": (0, 0)}, {"win": (-1, 1), "hit": (4, 3), "new": (0, 0)}]
    store.add_matches(
        [
            make_match(update=1, rewards=rewards[0]),
            make_match(update=2, agents=("bot:based", "a"), rewards=rewards[1]),
            make_match(update=3, rewards={"win": (0, 0), "hit": (0, 7), "new": (0, 0)}),
            make_match(kind="evaluation", rewards={"new": (9, 9)}),
            make_match(run="b", agents=("b", "bot:based"), rewards={"new": (9, 9)}),
        ]
    )
    store.flush(force=True)
    assert store.reward_terms("a") == [
        RewardTerm("hit", -3.0, matches=3, fired=3, own=5 / 3, other=11 / 3),
        RewardTerm("win", 0.5, matches=3, fired=2, own=2 / 3, other=-2 / 3),
        RewardTerm("new", 0.0, matches=3, fired=0, own=0.0, other=0.0),
    ]
    assert store.reward_terms("a")[0].weighted == -5.0
    assert store.reward_terms("a", last=2)[0] == RewardTerm("hit", -3.0, matches=2, fired=2, own=1.5, other=5.5)
    assert store.reward_terms("b") == [RewardTerm("new", 0.0, matches=1, fired=1, own=9.0, other=9.0)]
    assert store.reward_terms("nobody") == []
    with pytest.raises(UsageError, match=r"last=0: .*from 1 to"):
        store.reward_terms("a", last=0)


def test_pair_counts_are_per_seat_game_kind_and_run(store: Filled) -> None:
    """Counts are of ordered seats in one game id and one kind, of all runs or one."""
    games = [("h", "x", 0), ("h", "x", 1), ("h", "x", DRAW), ("x", "h", 1)]
    store.add_matches(
        make_match(kind="evaluation", row=i, agents=(a, b), winner=w) for i, (a, b, w) in enumerate(games)
    )
    store.add_matches(
        [
            make_match(run="b", kind="evaluation", agents=("h", "x"), seed=6),
            make_match(kind="evaluation", row=9, agents=("h", "x"), game_id="other"),
            make_match(agents=("a", "x")),
        ]
    )
    store.flush(force=True)
    found = store.pair_counts("g")
    assert (found.seat0, found.seat1) == (("h", "x"), ("x", "h"))
    assert [*found.wins, *found.draws, *found.losses, *found.games] == [2, 0, 1, 0, 1, 1, 4, 1]
    assert store.pair_counts("g", run="b").games.tolist() == [1]
    assert store.pair_counts("g", kind="training").seat0 == ("a",)
    assert store.pair_counts("nowhere").games.tolist() == []


def test_a_game_that_was_played_before_counts_once(store: Filled) -> None:
    """Without sampling one game a seed and seating; with it, one that is not a copy at the same place of a repeat."""
    games = {
        "greedy": {"sampling": "greedy", "agents": ("h", "x"), "seed": 1},
        "greedy, the seats exchanged": {"sampling": "greedy", "agents": ("x", "h"), "seed": 1},
        "greedy, another seed": {"sampling": "greedy", "agents": ("h", "x"), "seed": 2},
        "sampled": {"agents": ("h", "x"), "seed": 1},
        "sampled, another course": {"agents": ("h", "x"), "seed": 1, "ticks": 31},
        "sampled, another place": {"agents": ("h", "x"), "seed": 1, "ordinal": 1},
        "two bots": {"agents": ("bot:a", "bot:b"), "seed": 1},
        "two bots, another seed": {"agents": ("bot:a", "bot:b"), "seed": 2},
    }
    for run in ("first", "repeat"):
        store.add_matches(make_match(kind="evaluation", run=f"{run} {name}", **game) for name, game in games.items())
    elsewhere = [games["greedy"], games["two bots"]]
    store.add_matches(make_match(kind="evaluation", run="third", row=9 + k, **g) for k, g in enumerate(elsewhere))
    store.flush(force=True)

    def counted(sampling: Any) -> dict[tuple[str, str], int]:
        found = store.pair_counts("g", sampling=sampling)
        return dict(zip(zip(found.seat0, found.seat1, strict=True), found.games.tolist(), strict=True))

    assert counted("greedy") == {("bot:a", "bot:b"): 2, ("h", "x"): 2, ("x", "h"): 1}
    assert counted("sample") == {("bot:a", "bot:b"): 2, ("h", "x"): 3}
    assert dict(store.select("samplings", game_id="g")) == {"greedy": 7, "sample": 6}


def test_gates_count_attempts_and_keep_the_champion(store: Filled) -> None:
    """An attempt counts from when it begins, a promotion starts the count again, and a lost snapshot is no champion."""
    store.begin_run(make_run())
    for step in (100, 200, 300):
        store.add_snapshot(make_snapshot(step=step))
    store.flush(force=True)
    spent: list[int] = []

    def alpha_of(attempt: int) -> float:
        spent.append(attempt)
        return 0.05 / attempt

    broken_off = store.gate_begins(make_gate("g1"), alpha_of)
    second = store.gate_begins(make_gate("g2", challenger="hash300"), alpha_of)
    other = store.gate_begins(make_gate("g3", run=None), alpha_of)
    again = store.gate_begins(make_gate("g4", run=None), alpha_of)
    assert [g.attempt for g in (broken_off, second, other, again)] == spent == [1, 2, 1, 2]
    assert second.alpha == 0.025 and store.champion("a") is None
    late = replace(broken_off, games=10, llr=3.5, decision="passed", is_promoted=True)
    won = replace(second, games=20, llr=4.0, decision="passed", is_promoted=True)
    assert store.end_gate(won, champion=None) == won
    assert store.champion("a") == "hash300"
    assert store.end_gate(late, champion=None) == replace(late, is_promoted=False), "the title was taken meanwhile"
    assert store.champion("a") == "hash300"
    assert store.gate_begins(make_gate("g5", challenger="hash100"), alpha_of).attempt == 1
    assert [(g.gate, g.decision, g.is_promoted, g.games) for g in store.gates("a")] == [
        ("g1", "passed", False, 10),
        ("g2", "passed", True, 20),
        ("g5", "running", False, 0),
    ]
    assert store.gates("a")[0] == replace(late, is_promoted=False)
    store.folder("a").restore(None, -1)
    assert store.champion("a") is None


def test_a_gate_ends_once(store: Filled) -> None:
    """What came first counts."""
    gate = store.gate_begins(make_gate(run=None))
    assert store.end_gate(replace(gate, games=8, decision="failed"), None).games == 8
    assert store.end_gate(replace(gate, games=2, decision="broken off"), None).decision == "failed"


# What is not a league store


def test_a_folder_that_is_no_utf8_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is made in it, also where the path that was given is a relative one."""
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/x\xff")
    os.mkdir(folder)
    monkeypatch.chdir(folder)
    for named in ("runs", folder):
        for way in (Store.create, Store.open):
            with pytest.raises(StoreError, match="only paths that are UTF-8; rename the folder"):
                way(named)
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    ("path", "told"),
    [("runs", "it is not there; run `league train` first"), ("file", "a file, and no store"), ("foreign", "run.json")],
)
def test_what_is_no_store_is_refused_and_left_alone(tmp_path: Path, path: str, told: str) -> None:
    """What is missing, a file, or a folder of other things: one line that names it, and nothing is made."""
    (tmp_path / "file").write_text("run,agent\n1,2\n")
    (tmp_path / "foreign/other").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    for named in (tmp_path / path, tmp_path / path / "league.duckdb"):
        with pytest.raises(StoreError) as caught:
            Store.open(named)
        assert told in str(caught.value) and "--store" in str(caught.value) and "\n" not in str(caught.value)
        assert str(caught.value).startswith(f"no store at {tmp_path / path}: ")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_place_where_nothing_can_be_written_is_refused(tmp_path: Path) -> None:
    """A store at or below a file is refused in one line."""
    (tmp_path / "file").touch()
    for path in ("file", "file/runs"):
        with pytest.raises(StoreError, match="no store can be made"):
            Store.create(tmp_path / path)


def test_a_catalogue_is_the_store_for_any_client(store: Filled) -> None:
    """`league.duckdb` has the same tables and views, names the store, and is never read: without it all is the same."""
    store.begin_run(make_run())
    store.add_matches(make_match(row=i) for i in range(3))
    store.flush()
    store.write_catalogue()
    path = store.path / "league.duckdb"
    with duckdb.connect(str(path), read_only=True) as con:
        for table in ("run", "match"):
            assert con.execute(f"FROM {table}").fetchall() == store.query(f"FROM {table}")[1] != []
    path.write_bytes(b"garbage")
    assert len(Store.open(path).matches("a", "training")) == 3
    store.write_catalogue()
    assert path.read_bytes() != b"garbage" and sorted(os.listdir(store.path)) == ["a", "league.duckdb"]


# Queries that somebody typed


def attacks(folder: Path, segment: Path) -> list[str]:
    """Statements that would read, write or change what is not theirs."""
    secret, out = folder / "secret.csv", folder / "out"
    over = f"COPY (SELECT 1) TO '{segment}' (FORMAT csv, USE_TMP_FILE false)"
    nested = over.replace("'", "''")
    return [
        f"SELECT * FROM read_csv('{secret}')",
        f"SELECT * FROM read_text('{secret}')",
        f"SELECT * FROM '{secret}'",
        f"COPY run TO '{out}.csv'",
        f"COPY (SELECT 1) TO '{out}.parquet'",
        f"ATTACH '{out}.duckdb'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "INSERT INTO league VALUES ('x', 1, now()::TIMESTAMP)",
        "UPDATE run SET steps = 9",
        "DELETE FROM run",
        "DROP TABLE run",
        "SET enable_external_access = true",
        "SET memory_limit = '100GB'",
        "RESET lock_configuration",
        f"SELECT * FROM glob('{folder}/*')",
        f"EXPORT DATABASE '{out}'",
        "SELECT 1; DROP TABLE run",
        "DROP TABLE run; SELECT 1",
        "EXPLAIN ANALYZE DELETE FROM run",
        "WITH gone AS (DELETE FROM run RETURNING *) SELECT * FROM gone",
        "CREATE TEMP TABLE t AS SELECT 1",
        "PRAGMA memory_limit = '100GB'",
        "CALL checkpoint()",
        "BEGIN",
        f"SELECT * FROM query('SELECT * FROM read_text(''{secret}'')')",
        "SELECT * FROM hidden",
        f"SELECT * FROM enable_logging('QueryLog', storage='file', storage_path='{segment}')",
        f"SELECT * FROM read_text('{segment.parents[1]}/run.json')",
        f"SELECT * FROM read_text('{segment}/../../run.json')",
        over,
        f"EXPLAIN ANALYZE {over}",
        f'EXPLAIN (FORMAT json, "analyze") {over}',
        f"WITH x AS ({over}) SELECT 1",
        f"SELECT (WITH x AS ({over}) SELECT 1)",
        f"SELECT * FROM query('WITH x AS (CO' || 'PY{nested[4:]}) FROM x')",
    ]


@pytest.mark.parametrize("number", range(36))
def test_queries_that_do_more_than_read_are_refused(store: Filled, tmp_path: Path, number: int) -> None:
    """Every attack is refused in one line, reads no file, writes no file, and changes no row."""
    hidden = {"x": [1, 2, 3]}
    (tmp_path / "secret.csv").write_text("password\nhunter2\n")
    store.begin_run(make_run())
    store.add_matches([make_match()])
    store.flush()
    before = files_of(tmp_path)
    statements = attacks(tmp_path, store.path / "a/rows/match-000001.parquet")
    assert len(statements) == 36
    with pytest.raises(UsageError) as caught:
        store.query(statements[number])
    assert "\n" not in str(caught.value) and "hunter2" not in str(caught.value)
    assert files_of(tmp_path) == before and hidden["x"]


@pytest.mark.parametrize("statement", ["", " -- nothing", "selec 1", "SELECT nothing FROM run", "SELECT 1/'x'"])
def test_queries_that_are_not_sql_are_refused(store: Filled, statement: str) -> None:
    """No statement, no SQL, no such column, no such conversion: one line each."""
    with pytest.raises(UsageError) as caught:
        store.query(statement)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("SELECT stepz FROM run", '"stepz" not found in FROM clause! Candidate bindings: "steps"'),
        ("SELECT * FROM runs", "there is no table `runs`; did you mean `run`?"),
        ("SELECT * FROM xyz", "there is no table `xyz`; known: agent, "),
    ],
)
def test_a_query_s_wrong_names_get_the_right_ones(store: Filled, statement: str, told: str) -> None:
    """Of tables and of columns."""
    with pytest.raises(UsageError) as caught:
        store.query(statement)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_queries_too_long_or_too_large_are_stopped(store: Filled) -> None:
    """A query past its time or its million rows ends in one line, and the store can be used afterwards."""
    with pytest.raises(StoreError, match=r"took longer than 0\.3 s"):
        store.query("SELECT count(*) FROM range(100000000) a, range(100000) b WHERE a.range % 7 = b.range", seconds=0.3)
    with pytest.raises(UsageError, match="more than 1,000,000 rows; add LIMIT"):
        store.query("SELECT * FROM range(1000001)")
    with pytest.raises(UsageError, match="refused"):
        store.query("SELECT list(i) FROM range(1000000000) t(i)")
    assert store.query("SELECT 1")[1] == [(1,)]
