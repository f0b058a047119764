"""What cannot be written is not lost: writers outwait readers, or else keep their rows beside the store."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import league
from league.arena.gating import GateTest, gate
from league.arena.tournaments import tournament
from league.errors import StoreError
from league.store import apart, asking, connection
from league.store.keeping import kept_files
from league.store.locks import is_signed, signed
from league.store.store import Store
from tests.helpers import processes
from tests.helpers.stores import held, make_agent, make_gate, make_match, make_run, make_snapshot, release


@pytest.fixture
def said() -> list[str]:
    """What a store says."""
    return []


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]) -> Store:
    """A store with a run, for which nobody waits long."""
    monkeypatch.setattr(connection, "PATIENCE_SECONDS", 0.02)
    monkeypatch.setattr(connection, "LOCK_SECONDS", 0.1)
    store = Store.create(tmp_path / "s.duckdb", said.append)
    store.begin_run(make_run())
    return store


def all_rows(path: Path) -> list[Any]:
    """Every match row of a store, and how many of all kinds it has."""
    columns = "(SELECT count(*) FROM match), (SELECT count(*) FROM event), (SELECT count(*) FROM metric)"
    return Store.open(path).query(f"SELECT {columns}")[1]


def test_writers_outwait_every_permitted_reader() -> None:
    """A read or write that cannot be put off waits longer than the longest reading, which a query keeps within."""
    assert asking.QUERY_SECONDS < apart.ANSWER_SECONDS < connection.LONGEST_READ_SECONDS < connection.LOCK_SECONDS


ENDLESS = "SELECT count(*) FROM range(10000000) a, range(10000000) b"


@pytest.mark.parametrize("is_waited_for", [True, False])
def test_a_query_is_cut_short_for_a_waiting_writer(is_waited_for: bool, store: Store) -> None:
    """One that has run for a while ends in one line where somebody waits to write; else it has its time."""
    reason = "0.1 s, and another process waits to write; try again" if is_waited_for else "1 s; ask for less"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asking, "COURTESY_SECONDS", 0.1)
        patch.setattr(store.connection, "is_waited_for", lambda: is_waited_for)
        with pytest.raises(StoreError, match=f"the query was stopped: it took longer than {reason}"):
            store.query(ENDLESS, seconds=1)


@pytest.mark.slow
def test_a_writer_waits_for_no_endless_query(tmp_path: Path) -> None:
    """Two processes: the query gives way, and what was to be written is in the store."""
    store = Store.create(tmp_path / "s.duckdb")
    store.begin_run(make_run())
    query = processes.league("query", ENDLESS, "--store", store.path, cwd=tmp_path, stderr=subprocess.PIPE)
    seen = 0
    while seen < 5:  # it opens the store more than once before it asks
        time.sleep(0.2)
        seen = seen + 1 if busy(store.path) else 0
    store.add_matches([make_match()])
    store.flush(force=True)
    told = query.communicate()[1]
    assert query.wait(timeout=30) == 1 and "another process waits to write; try again" in told, told
    assert all_rows(store.path) == [(1, 0, 0)]


def busy(path: Path) -> bool:
    """Whether another process has the store open."""
    try:
        duckdb.connect(path).close()
    except duckdb.IOException:
        return True
    return False


def test_what_waits_is_kept_whole_and_taken_in_once(store: Store, said: list[str]) -> None:
    """Rows of every kind come in as they would have been written, by the next opening, in one line."""
    other = Store.create(store.path.with_name("other.duckdb"))
    other.begin_run(make_run())
    for each in (store, other):
        each.add_matches([make_match(row=i, seed=2**64 - 1, metrics={"x": (1.0, float("nan"))}) for i in range(3)])
        each.add_agent(make_agent())
        each.add_snapshot(make_snapshot())
        each.add_metrics("a", 1, 10, {"loss": float("nan")})
        each.add_event("a", 1, "kind", "words\n\x1b")
    with held(store.path):
        store.update_run("a", status="stopped", steps=10, update=1)
        (file,) = kept_files(store.path)
        assert store.num_waiting == 0
        assert len(said) == 2 and file.name in said[1] and "the next command that may write" in said[1]
    other.update_run("a", status="stopped", steps=10, update=1)
    kept = file.with_name("copy")
    shutil.copy(file, kept)
    told: list[str] = []
    opened = Store.open(store.path, told.append)
    assert not kept_files(store.path) and len(told) == 1 and f"8 rows that waited in {file.name} are in" in told[0]
    timed = {
        "match": "finished_at",
        "snapshot": "created_at",
        "event": "happened_at",
        "agent": "name",
        "metric": "steps",
    }
    for name, at in timed.items():
        query = f"SELECT * EXCLUDE ({at}) FROM {name} ORDER BY ALL"
        assert str(opened.query(query)) == str(other.query(query))
    assert (opened.find_run("a").status, opened.find_run("a").steps) == ("stopped", 10)
    opened.delete_after("a", 0)
    kept.rename(file)  # as where the process was killed between writing the rows and removing the file
    assert all_rows(store.path) == [(0, 0, 0)] and not kept_files(store.path)


def test_a_kept_file_that_is_damaged_is_left_and_stops_nobody(store: Store) -> None:
    """It is named once, other rows are written, and those of a whole file come in."""
    with held(store.path):
        for row in range(2):
            store.add_matches([make_match(row=row)])
            assert not store.flush_or_keep()
    first, second = kept_files(store.path)
    first.write_bytes(first.read_bytes().replace(b'"winner": 0', b'"winner": 7'))
    os.mkfifo(first.with_name(first.name.replace("000001", "000000")))  # no rows of ours
    os.mkfifo(store.path.with_name(".s.duckdb.writer"))
    said: list[str] = []
    opened = Store.open(store.path, said.append)
    opened.add_matches([make_match(row=5)])
    opened.flush(force=True)
    assert [line for line in said if "cannot be taken in" in line and first.name in line] == said[:1] and len(said) == 2
    assert kept_files(store.path) == [first] and not second.exists()
    assert [match.row for match in opened.matches("a", "training")] == [1, 5]


def test_whoever_is_interrupted_while_it_waits_keeps_its_rows(store: Store) -> None:
    """Ctrl+C during the wait ends the command, and not what it played."""

    def interrupt(message: str) -> None:
        if message.startswith("waiting"):
            raise KeyboardInterrupt

    opened = Store.open(store.path, interrupt)
    opened.add_matches([make_match()])
    with held(store.path), pytest.raises(KeyboardInterrupt):
        opened.flush_or_keep()
    assert len(kept_files(store.path)) == 1 and all_rows(store.path) == [(1, 0, 0)]


def test_what_neither_the_store_nor_the_disk_takes_is_an_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be kept beside it either the error of the store is told, and the rows wait on."""
    store.add_matches([make_match()])
    aside = store.path.rename(store.path.with_name("aside"))
    store.path.mkdir()
    with pytest.raises(StoreError, match="is a folder"):
        store.flush_or_keep()
    assert len(kept_files(store.path)) == 1  # kept all the same
    store.path.rmdir()
    aside.rename(store.path)
    assert all_rows(store.path) == [(1, 0, 0)]


def test_nobody_begins_to_read_while_somebody_waits_to_write(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers that take turns keep no writer out: its sign is up while it waits, and no longer than it lives."""
    sign = tmp_path / ".s.duckdb.writer"
    with signed(sign), signed(sign), pytest.raises(StoreError, match="held by a process that waits to write"):
        store.runs()
    assert not sign.exists() and [run.run for run in store.runs()] == ["a"]
    sign.write_bytes(b"")  # as a killed writer leaves it
    assert len(store.runs()) == 1
    seen: list[bool] = []

    def stop(message: str) -> None:
        seen.append(is_signed(sign))
        raise KeyboardInterrupt

    monkeypatch.setattr(connection, "LOCK_SECONDS", 30.0)
    store.connection.say = stop
    with held(store.path), pytest.raises(KeyboardInterrupt):
        store.begin_run(make_run("b"))
    assert seen == [True] and not is_signed(sign)


def _evaluate(store: Path) -> None:
    league.evaluate("bot:random", "bot:constant", 4, env="matrix", device="cpu", store=store)


def _tournament(store: Path) -> None:
    tournament(["bot:random", "bot:constant"], games=4, env="matrix", device="cpu", store=store)


def _gate(store: Path) -> None:
    test = GateTest(payoff1=9.0)
    assert gate("bot:random", "bot:biased", test=test, max_games=64, env="matrix", device="cpu", store=store).games


@pytest.mark.parametrize("play", [_evaluate, _tournament, _gate])
def test_games_are_never_lost_to_a_reader(play: Callable[[Path], None], store: Store, monkeypatch: Any) -> None:
    """A store that is held from the first game to the end of the command: all games come in later, decisions too."""
    from league.arena import agents

    held_store = held(store.path)
    real = agents.play

    def hold(*arguments: Any, **more: Any) -> Any:
        if not kept:
            kept.append(held_store.__enter__())
        return real(*arguments, **more)

    kept: list[Any] = []
    monkeypatch.setattr(agents, "play", hold)
    play(store.path)
    assert kept_files(store.path)
    release(kept[0])
    kept[0].wait(timeout=60)
    opened = Store.open(store.path)
    games = opened.query("SELECT count(*) FROM match WHERE kind = 'evaluation'")[1][0][0]
    assert games == 4 if play is not _gate else [row.games for row in opened.gates()] == [games] and games >= 32
    assert all(row.decision != "running" for row in opened.gates())
    assert opened.query("SELECT count(*) FROM agent WHERE kind = 'bot'")[1] == [(2,)]


def test_a_gate_that_could_not_begin_ends_all_the_same(store: Store) -> None:
    """What kept its row from being written is the error that is told, not that there is none."""
    end = make_gate("never", decision="broken off")
    assert store.end_gate(end, None) == end and not store.gates()


def test_a_promotion_that_waited_counts_only_if_nobody_was_promoted_since(store: Store) -> None:
    """A gate's end that is taken in later promotes as it would have then."""
    store.add_snapshot(make_snapshot(step=200))
    store.add_snapshot(make_snapshot(step=300))
    store.flush(force=True)
    gates = [store.begin_gate(make_gate(f"g{i}", challenger=f"hash{i}00"), lambda k: 0.05) for i in (2, 3)]
    ends = [make_gate(row.gate, challenger=row.challenger, decision="passed", is_promoted=True) for row in gates]
    with held(store.path):
        for end in ends:
            assert store.end_gate(end, None) == end
    opened = Store.open(store.path)
    assert opened.champion("a") == "hash200"
    assert [(row.decision, row.is_promoted) for row in opened.gates()] == [("passed", True), ("passed", False)]
