"""The store: what is written comes back, nothing counts twice, nobody waits for ever, nothing foreign is touched."""

from __future__ import annotations

import math
import os
import random
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from league.errors import LeagueError, StoreError, UsageError
from league.maths.record import Record
from league.store import connection, flushing, making, reading
from league.store.codec import to_columns
from league.store.connection import StoreBusy
from league.store.rows import AgentRow, RatingRow, RewardTerm, RunRow
from league.store.sql import Migration, migrations
from league.store.store import Store
from league.types import DRAW, MatchResult, Source
from tests.helpers.cases import cases
from tests.helpers.stores import (
    HOLD,
    empty_store,
    held,
    make_gate,
    make_match,
    make_run,
    make_snapshot,
    python,
    release,
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return empty_store(tmp_path / "runs" / "league.duckdb")


# What is written is read back


def test_create_leaves_one_whole_file_and_is_repeatable(store: Store) -> None:
    """Making a store makes its folder and one file; making it again keeps what is in it."""
    store.begin_run(make_run())
    again = Store.create(store.path)
    assert [run.run for run in again.runs()] == ["a"]
    assert os.listdir(store.path.parent) == ["league.duckdb"]


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


def test_every_match_comes_back_as_it_went(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever a match row holds, odd names, NaN, infinities and 64-bit seeds included, is read back the same."""
    store = Store.create(tmp_path_factory.mktemp("trip") / "s.duckdb")

    @settings(max_examples=25, deadline=None)
    @given(st.lists(results, min_size=1, max_size=6))
    @example([make_match(metrics={"x": (math.nan, math.inf)}, rewards={"x": (-math.inf, 5e-324)})])
    def check(matches: list[MatchResult]) -> None:
        store.add_matches(matches)
        store.flush(force=True)
        wanted = {(m.run, m.kind, m.update, m.row, m.ordinal): m for m in matches}
        found = {
            (m.run, m.kind, m.update, m.row, m.ordinal): m
            for run, kind in {(m.run, m.kind) for m in matches}
            for m in store.matches(run, kind)
        }
        assert all(equals(found[key], match) for key, match in wanted.items())

    check()


def test_the_same_key_replaces(store: Store) -> None:
    """A match of the same run, kind, update, row and ordinal replaces the earlier one, in memory and in the file."""
    store.add_matches([make_match(winner=1), make_match(winner=0, metrics={"damage": (1.0, 2.0)})])
    store.flush(force=True)
    assert [m.winner for m in store.matches("a", "training")] == [0]
    others = [make_match(kind="evaluation"), make_match(update=2), make_match(row=1), make_match(ordinal=1)]
    store.add_matches([make_match(winner=DRAW), *others, make_match(run="b")])
    store.flush(force=True)
    found = store.matches("a", "training")
    assert [(m.update, m.row, m.ordinal) for m in found] == [(1, 0, 0), (1, 0, 1), (1, 1, 0), (2, 0, 0)]
    assert found[0] == make_match(winner=DRAW)
    assert len(store.matches("a", "evaluation")) == len(store.matches("b", "training")) == 1


def test_metrics_in_sql(store: Store) -> None:
    """A behaviour metric can be summed in SQL: `metrics['damage'][1]` is seat 0's."""
    store.add_matches(make_match(row=i, metrics={"damage": (float(i), -1.0)}) for i in range(4))
    store.flush(force=True)
    assert store.query("SELECT sum(metrics['damage'][1]), sum(metrics['damage'][2]) FROM match")[1] == [(6.0, -4.0)]


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
def test_impossible_matches_are_refused_at_once(store: Store, changes: dict[str, Any], what: str) -> None:
    """A value that the table would refuse is refused when it is added, so that it cannot block later writes."""
    with pytest.raises(ValueError, match=what):
        store.add_matches([make_match(**changes)])
    assert store.num_waiting == 0


HOSTILE = ["x'; DROP TABLE match; --", 'a"b', "$run", "{};\n[]", "naïve 🤖", "NULL"]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_data(store: Store, name: str) -> None:
    """Names with quotes, SQL or odd letters in them are stored and found like any other."""
    store.begin_run(make_run(name, game=name, game_id=name, parent=name))
    store.add_matches([make_match(run=name, agents=(name, f"bot:{name}"), game_id=name, end_reason=name)])
    store.add_metrics(name, 1, 2, {name: 0.5})
    store.add_event(name, 1, name, name)
    store.add_snapshot(make_snapshot(name, path="p"))
    store.flush(force=True)
    assert store.find_run(name).parent == name
    assert store.training_records(name) == {f"bot:{name}": Record(1, 0, 0)}
    assert store.agents(name)[0].name == f"{name}@100"
    store.delete_after(name, 0)
    assert store.matches(name, "training") == [] and store.snapshots(name) == []
    assert store.query("SELECT count(*) FROM metric")[1] == [(0,)]


def test_runs_are_kept_and_their_names_are_theirs(store: Store) -> None:
    """A run comes back as it was begun; its name cannot be taken twice; progress changes only what is given."""
    started_at = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    run = make_run(started_at=started_at, updated_at=started_at, parent="b")
    store.begin_run(run)
    assert store.find_run("a") == run
    with pytest.raises(UsageError, match=r"run `a` is already in .*; carry it on with `league resume a --store "):
        store.begin_run(make_run())
    store.update_run("a", steps=7)
    store.update_run("a", update=3)
    store.update_run("a", status="finished")
    after = store.find_run("a")
    assert (after.status, after.steps, after.update, after.started_at) == ("finished", 7, 3, started_at)
    assert after.updated_at > started_at
    with pytest.raises(UsageError, match=r"no run `aa`.*did you mean `a`"):
        store.find_run("aa")


def test_snapshots_are_found_by_run_and_step(store: Store) -> None:
    """Snapshots come back in step order and become agents named RUN@STEP; a missing one is refused by name."""
    store.begin_run(make_run())
    first, second = make_snapshot(step=100), make_snapshot(step=900, parent="hash100")
    store.add_snapshot(second)
    store.add_snapshot(first)
    store.add_agent(AgentRow("bot:based", "bot", "bot:based", "g"))
    store.flush(force=True)
    assert store.snapshots("a") == [first, second]
    assert store.find_snapshot("a", 900) == second
    assert [(agent.kind, agent.name) for agent in store.agents("g")] == [
        ("bot", "bot:based"),
        ("snapshot", "a@100"),
        ("snapshot", "a@900"),
    ]
    with pytest.raises(UsageError, match=r"no snapshot `a@90`.*did you mean `900`"):
        store.find_snapshot("a", 90)


def test_a_pruned_snapshot_keeps_its_row_and_the_first_time(store: Store) -> None:
    """The mark is set at once on the steps given, and a second pruning does not move it."""
    store.begin_run(make_run())
    for step in (100, 200, 300):
        store.add_snapshot(make_snapshot(step=step))
    store.flush(force=True)
    store.mark_pruned("a", [100, 300])
    first = store.find_snapshot("a", 100).pruned_at
    assert first is not None and first.tzinfo is not None
    assert [row.step for row in store.snapshots("a") if row.pruned_at] == [100, 300]
    store.mark_pruned("a", [100, 200])
    assert store.find_snapshot("a", 100).pruned_at == first != store.find_snapshot("a", 200).pruned_at


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside", "a/../../b"])
def test_snapshot_paths_stay_in_the_folder(path: str) -> None:
    """A snapshot's path that is absolute or climbs out is refused."""
    with pytest.raises(ValueError, match="under the store's folder"):
        make_snapshot(path=path)


def test_ratings_metrics_and_events_are_kept(store: Store) -> None:
    """Ratings without an interval, NaN measurements and events are written; NaN becomes NULL."""
    store.add_ratings([RatingRow("a", 1, "elo", "h", 1016.0, None, None, 3, "g")])
    store.add_metrics("a", 1, 64, {"entropy": 0.5, "kl": math.nan, "grad": math.inf})
    store.add_metrics("a", 1, 64, {"entropy": 0.25})
    store.add_event("a", 1, "skip", "gradient is not finite")
    store.add_event("a", 1, "skip", "gradient is not finite")
    store.flush(force=True)
    assert store.query("SELECT rating, lower, upper FROM rating")[1] == [(1016.0, None, None)]
    assert store.query("SELECT name, value FROM metric ORDER BY name")[1] == [
        ("entropy", 0.25),
        ("grad", math.inf),
        ("kl", None),
    ]
    assert store.query("SELECT count(*) FROM event")[1] == [(2,)]


def test_training_games_follow_the_key(store: Store) -> None:
    """Training games come in key order with the learner's score, whichever seat it had; records add them up.

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
    assert store.training_games("a") == [(*game, None) for game in games]
    assert store.training_records("a") == {"bot:based": Record(1, 0, 1), "h": Record(0, 1, 1)}


def test_reward_terms_are_the_learners_and_its_opponents(store: Store) -> None:
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


def test_pair_counts_are_per_seat_game_kind_and_run(store: Store) -> None:
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


def test_a_game_that_was_played_before_counts_once(store: Store) -> None:
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
    assert store.samplings("g") == {"greedy": 7, "sample": 6}


def test_gates_count_attempts_and_keep_the_champion(store: Store) -> None:
    """An attempt counts from when it begins, a promotion starts the count again, and a lost snapshot is no champion."""
    store.begin_run(make_run())
    for step in (100, 200, 300):
        store.add_snapshot(make_snapshot(step=step))
    store.flush(force=True)
    spent: list[int] = []

    def alpha_of(attempt: int) -> float:
        spent.append(attempt)
        return 0.05 / attempt

    broken_off = store.begin_gate(make_gate("g1"), alpha_of)
    second = store.begin_gate(make_gate("g2", challenger="hash300"), alpha_of)
    other = store.begin_gate(make_gate("g3", run=None), alpha_of)
    again = store.begin_gate(make_gate("g4", run=None), alpha_of)
    assert [g.attempt for g in (broken_off, second, other, again)] == spent == [1, 2, 1, 2]
    assert second.alpha == 0.025 and store.champion("a") is None
    late = replace(broken_off, games=10, llr=3.5, decision="passed", is_promoted=True)
    won = replace(second, games=20, llr=4.0, decision="passed", is_promoted=True)
    assert store.end_gate(won, champion=None) == won
    assert store.champion("a") == "hash300"
    assert store.end_gate(late, champion=None) == replace(late, is_promoted=False), "the title was taken meanwhile"
    assert store.champion("a") == "hash300"
    assert store.begin_gate(make_gate("g5", challenger="hash100"), alpha_of).attempt == 1
    assert [(g.gate, g.decision, g.is_promoted, g.games) for g in store.gates("a")] == [
        ("g1", "passed", False, 10),
        ("g2", "passed", True, 20),
        ("g5", "running", False, 0),
    ]
    assert store.gates("a")[0] == replace(late, is_promoted=False)
    store.delete_after("a", 2)
    assert store.champion("a") is None


def test_delete_after_forgets_what_came_past_a_checkpoint(store: Store) -> None:
    """Resuming deletes the run's own training past the checkpoint, in the file and in memory, and nothing else."""

    def fill(update: int) -> None:
        for run in ("a", "b"):
            store.add_matches([make_match(run=run, update=update)])
            store.add_metrics(run, update, 1, {"loss": 1.0})
            store.add_event(run, update, "note", "x")
            store.add_ratings([RatingRow(run, update, "elo", "h", 1.0, None, None, 1, "g")])
            store.add_snapshot(make_snapshot(run, 100 * update, agent_id=f"{run}{update}"))
        store.add_matches([make_match(kind="evaluation", update=update)])

    for run in ("a", "b"):
        store.begin_run(make_run(run))
    for update in (1, 2, 3):
        fill(update)
    store.flush(force=True)
    fill(2)
    fill(4)
    store.delete_after("a", 2)
    store.flush(force=True)
    for table in ("match WHERE kind = 'training'", "metric WHERE true", "rating WHERE true", "snapshot WHERE true"):
        found = store.query(f'SELECT run, "update" FROM {table} ORDER BY ALL')[1]
        assert found == [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("b", 3), ("b", 4)], table
    assert store.query("""SELECT max("update") FROM event WHERE run = 'a'""")[1] == [(2,)]
    assert [m.update for m in store.matches("a", "evaluation")] == [1, 2, 3, 4]
    assert [agent.agent_id for agent in store.agents("g")] == ["a1", "a2", "b1", "b2", "b3", "b4"]


def test_delete_after_keeps_an_agent_that_another_run_has(store: Store) -> None:
    """Two runs with one seed take the same snapshot: forgetting one run's keeps the agent."""
    for run in ("a", "b"):
        store.begin_run(make_run(run))
        store.add_snapshot(make_snapshot(run, 500, agent_id="shared"))
    store.flush(force=True)
    store.delete_after("a", 0)
    assert [agent.agent_id for agent in store.agents("g")] == ["shared"]


# When it is written


def test_flush_waits_five_seconds_unless_forced(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writes that can be put off are at least FLUSH_SECONDS apart; a forced one is not held up."""
    clock = [100.0]
    monkeypatch.setattr(flushing.time, "monotonic", lambda: clock[0])
    store.add_matches([make_match()])
    assert store.flush()
    store.add_matches([make_match(row=1)])
    clock[0] += 4.9
    assert not store.flush()
    assert len(store.matches("a", "training")) == 1
    clock[0] += 0.2
    assert store.flush()
    store.add_matches([make_match(row=2)])
    assert store.flush(force=True)
    assert len(store.matches("a", "training")) == 3 and store.num_waiting == 0


def test_a_change_of_status_is_written_at_once(store: Store) -> None:
    """Steps can wait for the next write; a run's end cannot, and takes what waits with it."""
    store.begin_run(make_run())
    store.add_matches([make_match()])
    store.flush()
    store.add_matches([make_match(row=1)])
    store.update_run("a", status="running", steps=5)
    assert store.find_run("a").steps == 0
    store.update_run("a", status="stopped")
    assert (store.find_run("a").steps, store.find_run("a").status) == (5, "stopped")
    assert len(store.matches("a", "training")) == 2


def test_a_write_is_whole_or_not_at_all(store: Store) -> None:
    """When one row is refused by the table, nothing that waited with it is written, and all of it still waits."""
    store.add_matches([make_match()])
    store.add_ratings([RatingRow("a", 1, "elo", "h", 1000.0, None, None, -1, "g")])
    with pytest.raises(duckdb.ConstraintException):
        store.flush(force=True)
    assert store.matches("a", "training") == [] and store.num_waiting == 2


# Several processes


def test_a_busy_store_keeps_rows_in_memory(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """While another process keeps the store, a flush warns and keeps the rows; they are written when it lets go."""
    monkeypatch.setattr(connection, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(connection, "LOCK_SECONDS", 0.3)
    store.add_matches([make_match(row=i) for i in range(5)])
    with held(store.path) as process:
        assert not store.flush()
        assert store.num_waiting == 5
        assert "5 rows wait in memory" in caplog.text
        store.add_matches([make_match(row=5)])
        with pytest.raises(StoreBusy, match=rf"held by process {process.pid} .*; let it finish or end it") as caught:
            store.flush(force=True)
        assert "\n" not in str(caught.value)
        with pytest.raises(StoreBusy):
            store.runs()
        assert store.num_waiting == 6
    assert store.flush(force=True)
    assert len(store.matches("a", "training")) == 6


def test_a_reader_waits_for_a_writer(store: Store) -> None:
    """A read that finds the store taken succeeds once the other process lets go."""
    store.begin_run(make_run())
    with held(store.path) as process:
        timer = threading.Timer(0.5, release, [process])
        timer.start()
        assert [run.run for run in store.runs()] == ["a"]
        timer.join()


POLL = """
import sys
from league.boards.standings import leaderboard
from league.store.store import Store
store = Store.open(sys.argv[1])
print("ready", flush=True)
seen = []
while not seen or seen[-1] < int(sys.argv[2]):
    board = leaderboard(store).boards
    games = sum(entry.games for entry in board[0].entries) // 2 if board else 0
    trained = board[0].learners[0].games if board and board[0].learners else 0
    assert trained == games, (trained, games)
    seen.append(games)
assert seen == sorted(seen)
print(len(seen), flush=True)
"""


def test_a_reader_polls_while_a_writer_flushes(store: Store) -> None:
    """The leaderboard read in another process while matches are written never fails, and never sees half a write."""
    store.begin_run(make_run())
    total = 400
    with python(POLL, store.path, total) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        for i in range(0, total, 20):
            store.add_matches(make_match(row=i + k) for k in range(20))
            store.add_matches(make_match(kind="evaluation", row=i + k, agents=("h", "bot:based")) for k in range(20))
            store.flush(force=True)
            time.sleep(0.05)
        assert int(process.stdout.readline()) >= 2
        assert process.wait(timeout=30) == 0


def test_threads_of_one_process_take_turns(store: Store) -> None:
    """A thread that reads and one that writes do not fail each other: DuckDB opens a file in one way only."""
    failures: list[BaseException] = []

    def read() -> None:
        try:
            for _ in range(15):
                Store.open(store.path).runs()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    for i in range(15):
        store.add_matches([make_match(row=i)])
        store.flush(force=True)
    thread.join()
    assert failures == []
    assert len(store.matches("a", "training")) == 15


def test_reading_sees_one_moment(store: Store) -> None:
    """Within `reading` all readers share one opening, and nobody can write in between."""
    store.begin_run(make_run())
    with store.reading(), python(HOLD, store.path) as process:
        assert len(store.runs()) == 1 and store.games() == {"g": "brawl"}
        assert process.wait(timeout=30) != 0
    with held(store.path):
        pass


BEGIN = """
import sys
from league.store.store import Store
from tests.helpers.stores import make_run
Store.open(sys.argv[1]).begin_run(make_run(sys.argv[2]))
"""


def test_nobody_writes_within_a_reading(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even the same process: it is as busy as for another one, and the reading goes on as it was."""
    monkeypatch.setattr(connection, "LOCK_SECONDS", 0.1)
    store.begin_run(make_run())
    other = Store.open(store.path)
    with store.reading():
        for writer in (store, other):
            with pytest.raises(StoreBusy):
                writer.begin_run(make_run("b"))
        assert [row.run for row in store.runs()] == [row.run for row in other.runs()] == ["a"]
    other.begin_run(make_run("b"))
    assert [row.run for row in store.runs()] == ["a", "b"]


def test_what_is_written_together_takes_one_opening(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within `writing` all share one opening; a transaction that fails in it is undone alone."""
    opened, connect = list[bool](), connection.connect
    monkeypatch.setattr(connection, "connect", lambda path, read_only=False: opened.append(read_only) or connect(path))
    with store.writing():
        store.begin_run(make_run())
        store.add_matches([make_match()])
        store.flush(force=True)
        with pytest.raises(UsageError, match="run `a` is already in"):
            store.begin_run(make_run())
        with pytest.raises(ZeroDivisionError), store.connection.transaction() as con:
            con.execute("DELETE FROM match")
            _ = 1 // 0
        assert [row.run for row in store.runs()] == ["a"] and len(store.matches("a", "training")) == 1
        store.mark_pruned("a", [100])
    assert opened == [False]
    assert [row.run for row in Store.open(store.path).runs()] == ["a"] and len(store.matches("a", "training")) == 1


@pytest.mark.parametrize("path", [".", "..", "/", ""])
def test_a_folder_is_no_store(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However it is named it is refused in one line."""
    monkeypatch.chdir(tmp_path)
    for act in (Store.open, Store.create):
        with pytest.raises(StoreError, match="is a folder, not a league store"):
            act(path)


def test_an_interrupt_lets_go_of_the_file(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl+C between opening and reading leaves nothing that keeps others from writing."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(reading, "select_rows", interrupt)
        store.runs()
    with held(store.path):
        pass


def test_a_reading_after_damage_is_a_whole_one(store: Store) -> None:
    """After damage met while reading, and after an error of any other kind, the next reading is a whole one."""
    store.add_matches(make_match(row=i) for i in range(100))
    store.flush(force=True)
    whole = store.path.read_bytes()
    os.truncate(store.path, len(whole) // 3)
    with pytest.raises(StoreError):
        store.matches("a", "training")
    store.path.write_bytes(whole)
    assert len(store.matches("a", "training")) == 100
    with pytest.raises(ZeroDivisionError), store.reading():
        _ = store.runs(), 1 // 0
    with held(store.path):
        pass
    assert len(store.matches("a", "training")) == 100


FULL = """
import resource, signal, sys
from league.store.store import Store
from league.types import MatchResult
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = Store.create(sys.argv[1])
match = lambda i: MatchResult("a", "training", 1, i, 0, "g", ("a", "b"), i, 0, "time", 1, 1, "sample", None, None,
                              {"x": (i * 0.1, i * 0.3)})
store.add_matches(map(match, range(5)))
store.flush(force=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (store.path.stat().st_size, resource.RLIM_INFINITY))
store.add_matches(map(match, range(30000)))
store._next_flush = 0.0
assert not store.flush() and store.num_waiting == 30000
try:
    store.flush(force=True)
except Exception as error:
    print(type(error).__name__, str(error).count(chr(10)))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.flush(force=True)
print(len(store.matches("a", "training")))
"""


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """A write that does not fit is warned about or raised in one line, and is made whole once there is room."""
    with python(FULL, tmp_path / "s.duckdb") as process:
        out = process.communicate(timeout=60)[0]
    assert out.splitlines() == ["StoreError 0", "30000"]


WRITE = """
import sys
from league.store.store import Store
from league.types import MatchResult
store = Store.create(sys.argv[1])
update = int(sys.argv[2])
while True:
    store.add_matches(
        MatchResult("a", "training", update, i, 0, "g", ("a", "b"), i, 0, "time", 1, 1, "sample") for i in range(50)
    )
    store.add_metrics("a", update, update, {"loss": 1.0})
    store.flush(force=True)
    print(update, flush=True)
    update += 1
"""


def kill_a_writer(path: Path, first: int, seconds: float) -> int:
    """Starts a writer at update `first`, kills it, and returns the last update that it said was written."""
    with python(WRITE, path, first) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(seconds)
        process.kill()
        said = process.stdout.read().split()
    return int(said[-1]) if said else first


@pytest.mark.parametrize("kills", cases(2, slow=[12]))
def test_a_killed_writer_loses_nothing_that_it_had_written(tmp_path: Path, kills: int) -> None:
    """After kill -9 at random moments every acknowledged write is there, and every write is whole."""
    path, rng, last = tmp_path / "s.duckdb", random.Random(1), 0
    for _ in range(kills):
        last = kill_a_writer(path, last + 1, rng.uniform(0.1, 0.5))
        store = Store.open(path)
        rows = dict(store.query('SELECT "update", count(*) FROM match GROUP BY ALL')[1])
        metrics = {row[0] for row in store.query('SELECT "update" FROM metric')[1]}
        assert set(rows) == metrics and set(rows.values()) == {50}
        assert set(range(1, last + 1)) <= set(rows)
        last = max(rows)


# What is not a league store


def test_a_missing_store_says_what_to_do(tmp_path: Path) -> None:
    """Opening what is not there says so and makes nothing."""
    path = tmp_path / "runs" / "a.duckdb"
    with pytest.raises(StoreError) as caught:
        Store.open(path)
    assert str(caught.value) == f"no store at {path}; run `league train` first, or pass --store"
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files and folders that are no league store."""
    folder = tmp_path_factory.mktemp("foreign")
    whole = Store.create(folder / "whole.duckdb")
    whole.begin_run(make_run())
    good = whole.path.read_bytes()
    whole.path.unlink()
    with duckdb.connect(folder / "other.duckdb") as con:
        con.execute("CREATE TABLE run (run VARCHAR)")
    with duckdb.connect(folder / "pretender.duckdb") as con:
        con.execute("CREATE TABLE league_store (format VARCHAR); CREATE TABLE migration (number INTEGER)")
        con.execute("INSERT INTO league_store VALUES ('something else'); INSERT INTO migration VALUES (1)")
    (folder / "text.duckdb").write_text("run,agent\n1,2\n")
    (folder / "empty.duckdb").touch()
    (folder / "garbage.duckdb").write_bytes(random.Random(0).randbytes(20_000))
    (folder / "cut.duckdb").write_bytes(good[: len(good) // 3])
    (folder / "headless.duckdb").write_bytes(bytes(4096) + good[4096:])
    (folder / "folder.duckdb").mkdir()
    (folder / "nowhere.duckdb").symlink_to(folder / "missing")
    return folder


FOREIGN = ["other", "pretender", "text", "empty", "garbage", "cut", "headless", "folder", "nowhere"]


@pytest.mark.parametrize("what", FOREIGN)
def test_foreign_files_are_refused_and_left_alone(foreign: Path, what: str) -> None:
    """What is not a whole league store is refused in one line that names it, and not a byte of it changes."""
    path = foreign / f"{what}.duckdb"
    before = path.read_bytes() if path.is_file() else None
    names = sorted(os.listdir(foreign))
    for how in (Store.create, Store.open):
        with pytest.raises(StoreError) as caught:
            how(path)
        assert str(path) in str(caught.value) and "--store" in str(caught.value) and "\n" not in str(caught.value)
    assert (path.read_bytes() if path.is_file() else None) == before
    assert sorted(os.listdir(foreign)) == names


def test_a_place_where_nothing_can_be_written_is_refused(tmp_path: Path) -> None:
    """A store below a file is refused in one line."""
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"no store can be made at .*; pass another --store"):
        Store.create(tmp_path / "file" / "league.duckdb")


def test_damage_met_while_reading_is_one_line(store: Store) -> None:
    """A store that is cut off under our hands gives a StoreError of one line when its rows are read."""
    store.add_matches(make_match(row=i) for i in range(100))
    store.flush(force=True)
    os.truncate(store.path, store.path.stat().st_size // 3)
    with pytest.raises(StoreError, match="cannot be used") as caught:
        store.matches("a", "training")
    assert "\n" not in str(caught.value)


def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where hard links are refused a store is still made, and no draft stays behind."""

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(making.os, "link", refuse)
    assert Store.create(tmp_path / "s.duckdb").runs() == []
    assert os.listdir(tmp_path) == ["s.duckdb"]


def test_two_that_make_the_same_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When another process is first, its store is used and ours is dropped."""
    path, real = tmp_path / "s.duckdb", os.link

    def late(draft: Path, final: Path) -> None:
        monkeypatch.setattr(making.os, "link", real)
        Store.create(path).begin_run(make_run("first"))
        real(draft, final)

    monkeypatch.setattr(making.os, "link", late)
    assert [run.run for run in Store.create(path).runs()] == ["first"]
    assert os.listdir(tmp_path) == ["s.duckdb"]


# Migrations

NEXT = migrations()[-1].number + 1


def know(monkeypatch: pytest.MonkeyPatch, *known: Migration) -> None:
    """Makes the store know only these migrations."""
    monkeypatch.setattr(making, "migrations", lambda: known)


def add_migration(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Adds a migration, `NEXT`, to those that the store knows."""
    know(monkeypatch, *migrations(), Migration(NEXT, "999_more", text))


def test_an_older_store_is_brought_up_to_date(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a store applies what is missing, once, records it, and keeps the rows."""
    store.begin_run(make_run())
    add_migration(monkeypatch, "CREATE TABLE more (x INTEGER); INSERT INTO more VALUES (1)")
    for _ in range(2):
        opened = Store.open(store.path)
        assert opened.query("SELECT x FROM more")[1] == [(1,)]
    recorded = [*((one.number, one.name) for one in migrations()), (NEXT, "999_more")]
    assert opened.query("SELECT number, name FROM migration ORDER BY 1")[1] == recorded
    assert len(opened.runs()) == 1
    assert os.listdir(store.path.parent) == ["league.duckdb"]


def test_metrics_of_agents_have_the_agent_beside_the_name(store: Store) -> None:
    """One name holds for all agents, each with a value of its own; what is written past an update goes for all."""
    store.add_metrics("a", 1, 64, {"entropy": 0.5}, {("pool/odds", "x"): 0.25, ("pool/odds", "y"): math.nan})
    store.add_metrics("a", 1, 64, {}, {("pool/odds", "x"): 0.75})
    store.add_metrics("a", 2, 128, {}, {("pool/odds", "x"): 1.0})
    store.flush(force=True)
    shown = 'SELECT "update", name, agent_id, value FROM metric ORDER BY ALL'
    first = [(1, "entropy", "", 0.5), (1, "pool/odds", "x", 0.75), (1, "pool/odds", "y", None)]
    assert store.query(shown)[1] == [*first, (2, "pool/odds", "x", 1.0)]
    store.delete_after("a", 1)
    assert store.query(shown)[1] == first


def test_names_of_older_metrics_that_end_with_an_agent_are_parted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store made before agents had a column has the same values, each under its name and agent."""
    values = {"entropy": 0.5, f"pool/odds/{'ab' * 32}": 0.75, "pool/win_rate/bot:based": None, "pool/spread": 2.0}
    with monkeypatch.context() as patch:
        know(patch, *migrations()[:8])
        old = Store.create(tmp_path / "s.duckdb")
        with duckdb.connect(old.path) as con:
            for name, value in values.items():
                con.execute("INSERT INTO metric VALUES ('a', 1, 64, ?, ?)", [name, value])
    found = Store.open(old.path).query("SELECT run, steps, name, agent_id, value FROM metric ORDER BY name")[1]
    assert found == [
        ("a", 64, "entropy", "", 0.5),
        ("a", 64, "pool/odds", "ab" * 32, 0.75),
        ("a", 64, "pool/spread", "", 2.0),
        ("a", 64, "pool/win_rate", "bot:based", None),
    ]


def begin_before(path: Path, run: RunRow) -> None:
    """Writes a run as leagues did before a row told where its game came from."""
    columns = {
        name: value for name, value in to_columns(run).items() if not name.startswith("game_") or name == "game_id"
    }
    with duckdb.connect(path) as con:
        names = ", ".join(f'"{name}"' for name in columns)
        marks = ", ".join("?" for _ in columns)
        number = "(SELECT coalesce(max(number), 0) + 1 FROM run)"
        con.execute(f"INSERT INTO run ({names}, number) VALUES ({marks}, {number})", list(columns.values()))


def test_a_run_of_before_its_game_had_a_source_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its game came with the library, as far as is known; a row that tells more is read back as it was written."""
    with monkeypatch.context() as patch:
        know(patch, *migrations()[:14])
        old = Store.create(tmp_path / "s.duckdb")
        begin_before(old.path, make_run("a"))
    store = Store.open(old.path)
    assert store.find_run("a").source == Source() and store.find_run("a").env == "brawl"
    source = Source("/there/game.py:Duel", "1.2", "ab" * 32)
    store.begin_run(make_run("b").coming_from(source))
    assert store.find_run("b").source == source and store.find_run("b").env == "/there/game.py:Duel"
    store.extend_run("a", stage="s", config="{}", fingerprint="f", source=source)
    store.extend_run("b", stage="s", config="{}", fingerprint="f")
    assert store.find_run("a").source == store.find_run("b").source == source


def test_ratings_of_an_older_schema_are_kept_with_their_game(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ratings written before a row told its game have their run's, and the prior that was the only one."""
    with monkeypatch.context() as patch:
        know(patch, *migrations()[:10])
        old = Store.create(tmp_path / "s.duckdb")
        begin_before(old.path, make_run("a"))
        with duckdb.connect(old.path) as con:
            con.execute("INSERT INTO rating VALUES ('a', 3, 'bradley_terry', 'h', 1100, 1000, 1200, 40)")
            con.execute("INSERT INTO rating VALUES ('gone', 1, 'elo', 'gone', 990, NULL, NULL, 2)")
    names = "run, game_id, sampling, prior, system, agent_id, rating, lower, games, group_number"
    found = Store.open(old.path).query(f"SELECT {names} FROM rating ORDER BY run")[1]
    assert found == [
        ("a", "g", "sample", 1.25, "bradley_terry", "h", 1100.0, 1000.0, 40, None),
        ("gone", "", "sample", 0.0, "elo", "gone", 990.0, None, 2, None),
    ]


def test_gates_of_an_older_schema_are_numbered_by_their_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store made before gates were numbered keeps its champion, and the attempts since go on being counted."""
    with monkeypatch.context() as patch:
        know(patch, *migrations()[:4])
        old = Store.create(tmp_path / "s.duckdb")
        with duckdb.connect(old.path) as con:
            con.execute(
                "INSERT INTO snapshot VALUES ('a', 200, 2, 'hash200', 'a/200', NULL, 'f', now()::TIMESTAMP, NULL)"
            )
            for name, day, end in (("g3", 3, None), ("g1", 1, 2), ("g0", 0, 1)):
                begun, decided = (None if n is None else datetime(2020, 1, 1 + n) for n in (day, end))
                con.execute(
                    "INSERT INTO gate VALUES (?, 'g', 'a', 'hash200', 'hash100', 1, 0, 35, 'logistic', 0.05, 0.05, 1,"
                    " 'sample', 2, 3.0, ?, ?, ?, ?)",
                    [name, "running" if decided is None else "passed", name == "g1", begun, decided],
                )
    store = Store.open(old.path)
    assert [gate.gate for gate in store.gates("a")] == ["g0", "g1", "g3"] and store.champion("a") == "hash200"
    assert store.begin_gate(make_gate("g4"), lambda attempt: 0.05).attempt == 2


def test_a_migration_that_fails_leaves_no_trace(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A migration is one transaction: when its second statement fails, its first is undone and it is not recorded."""
    with monkeypatch.context() as patch:
        add_migration(patch, "CREATE TABLE more (x INTEGER); INSERT INTO nothing VALUES (1)")
        with pytest.raises(duckdb.CatalogException):
            Store.open(store.path)
    opened = Store.open(store.path)
    assert opened.query("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'more'")[1] == [(0,)]
    assert opened.query("SELECT max(number) FROM migration")[1] == [(NEXT - 1,)]


def test_a_newer_store_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of a later league is not touched."""
    with monkeypatch.context() as patch:
        add_migration(patch, "CREATE TABLE more (x INTEGER)")
        Store.open(store.path)
    with pytest.raises(StoreError, match=rf"has schema {NEXT}, this league knows {NEXT - 1}; install a newer"):
        Store.open(store.path)


# Queries that somebody typed


def attacks(folder: Path) -> list[str]:
    """Statements that would read, write or change what is not theirs."""
    secret, out = folder / "secret.csv", folder / "out"
    return [
        f"SELECT * FROM read_csv('{secret}')",
        f"SELECT * FROM read_text('{secret}')",
        f"SELECT * FROM '{secret}'",
        f"COPY run TO '{out}.csv'",
        f"COPY (SELECT 1) TO '{out}.parquet'",
        f"ATTACH '{out}.duckdb'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "INSERT INTO migration VALUES (9, 'x', now()::TIMESTAMP)",
        "UPDATE run SET steps = 9",
        "DELETE FROM run",
        "DROP TABLE match",
        "SET enable_external_access = true",
        "SET memory_limit = '100GB'",
        "RESET lock_configuration",
        f"SELECT * FROM glob('{folder}/*')",
        f"EXPORT DATABASE '{out}'",
        "SELECT 1; DROP TABLE match",
        "DROP TABLE match; SELECT 1",
        "EXPLAIN ANALYZE DELETE FROM run",
        "WITH gone AS (DELETE FROM run RETURNING *) SELECT * FROM gone",
        "CREATE TEMP TABLE t AS SELECT 1",
        "PRAGMA memory_limit = '100GB'",
        "CALL checkpoint()",
        "BEGIN",
        f"SELECT * FROM query('SELECT * FROM read_text(''{secret}'')')",
        "SELECT * FROM hidden",
        f"EXPLAIN ANALYZE COPY (SELECT 1) TO '{folder}/runs/league.duckdb' (FORMAT csv)",
        f"SELECT * FROM read_blob('{folder}/runs/league.duckdb')",
    ]


@pytest.mark.parametrize("number", range(29))
def test_queries_that_do_more_than_read_are_refused(store: Store, tmp_path: Path, number: int) -> None:
    """Every attack is refused in one line, reads no file, writes no file, and changes no row."""
    hidden = {"x": [1, 2, 3]}
    (tmp_path / "secret.csv").write_text("password\nhunter2\n")
    store.begin_run(make_run())
    before = store.path.read_bytes()
    statement = attacks(tmp_path)[number]
    with pytest.raises(UsageError) as caught:
        store.query(statement)
    assert "\n" not in str(caught.value) and "hunter2" not in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == ["runs", "secret.csv"]
    assert store.path.read_bytes() == before
    assert hidden["x"]


@pytest.mark.parametrize("statement", ["", " -- nothing", "selec 1", "SELECT nothing FROM run", "SELECT 1/'x'"])
def test_queries_that_are_not_sql_are_refused(store: Store, statement: str) -> None:
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
def test_a_query_s_wrong_names_get_the_right_ones(store: Store, statement: str, told: str) -> None:
    """Of tables and of columns."""
    with pytest.raises(UsageError) as caught:
        store.query(statement)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_queries_that_read(store: Store) -> None:
    """SELECT, FROM, VALUES, WITH, DESCRIBE and EXPLAIN give columns and rows; a limit cuts."""
    store.begin_run(make_run())
    assert store.query("SELECT run, steps FROM run;") == (["run", "steps"], [("a", 0)])
    assert store.query("WITH x AS (VALUES (1)) FROM x")[1] == [(1,)]
    assert store.query("DESCRIBE run")[1][0][0] == "run"
    assert len(store.query("EXPLAIN SELECT * FROM run")[1]) == 1
    assert store.query("SELECT i FROM range(10) t(i)", limit=3)[1] == [(0,), (1,), (2,)]


def test_queries_too_long_or_too_large_are_stopped(store: Store) -> None:
    """A query past its time or its million rows ends in one line, and the store can be used afterwards."""
    with pytest.raises(StoreError, match=r"took longer than 0\.3 s"):
        store.query("SELECT count(*) FROM range(100000000) a, range(100000) b WHERE a.range % 7 = b.range", seconds=0.3)
    with pytest.raises(UsageError, match="more than 1,000,000 rows; add LIMIT"):
        store.query("SELECT * FROM range(1000001)")
    with pytest.raises(UsageError, match="refused"):
        store.query("SELECT list(i) FROM range(1000000000) t(i)")
    assert store.query("SELECT 1")[1] == [(1,)]


def test_every_known_error_is_a_league_error() -> None:
    """A busy store is a store error, so that the command line turns it into one line."""
    assert issubclass(StoreBusy, StoreError) and issubclass(StoreError, LeagueError)
