"""Rows that another thread writes: the store is the same as without it, and nothing is lost or counted twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from league.boards.standings import rate_evaluation
from league.store import connection, flushing
from league.store.aside import Aside, Reckoning
from league.store.flushing import Flusher
from league.store.rows import GameRow, RatingRow
from league.store.store import Store
from tests.helpers.runs import learned, train
from tests.helpers.stores import empty_store, make_match, make_run, make_snapshot

EVERYTHING = {
    "match": "SELECT * EXCLUDE (finished_at) FROM match ORDER BY ALL",
    "metric": "SELECT * FROM metric WHERE name NOT LIKE '%_seconds' ORDER BY ALL",
    "event": "SELECT * EXCLUDE (happened_at) FROM event ORDER BY ALL",
    "rating": "SELECT * EXCLUDE (rated_at) FROM rating ORDER BY ALL",
    "snapshot": "SELECT * EXCLUDE (created_at) FROM snapshot ORDER BY ALL",
    "run": 'SELECT run, status, steps, "update" FROM run ORDER BY ALL',
}


@pytest.fixture
def said() -> list[str]:
    """What the store has told."""
    return []


@pytest.fixture
def store(tmp_path: Path, said: list[str]) -> Store:
    """A store with a run, which writes aside."""
    empty_store(tmp_path / "league.duckdb")

    def say(line: str) -> None:
        assert threading.current_thread() is threading.main_thread()
        said.append(line)

    found = Store.open(tmp_path / "league.duckdb", say)
    found.begin_run(make_run(status="running"))
    found.writes_aside = True
    return found


def content(store: Store) -> dict[str, Any]:
    """All rows, but for moments."""
    return {table: store.query(asked)[1] for table, asked in EVERYTHING.items()}


@contextmanager
def kept_busy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within it the file is in use, and whoever can put its write off does so soon."""
    begun, over = threading.Event(), threading.Event()

    def hold() -> None:
        with connection._process_lock:
            begun.set()
            assert over.wait(60)

    with monkeypatch.context() as patch:
        patch.setattr(connection, "PATIENCE_SECONDS", 0.05)
        holder = threading.Thread(target=hold)
        holder.start()
        assert begun.wait(60)
        try:
            yield
        finally:
            over.set()
            holder.join()


def test_whatever_reads_finds_what_was_given(store: Store) -> None:
    """A flush returns at once and another thread writes; a reading, a count and a checkpoint wait for it."""
    for ordinal in range(50):
        store.add_matches([make_match(ordinal=ordinal)])
        store.add_event("a", 1, "note", "x")
    assert not store.flush() and isinstance(store._aside, Aside) and store.num_waiting == 100
    store.add_matches([make_match(ordinal=50)])
    assert len(store.matches("a", "training")) == 50 and store.num_waiting == 1
    assert store.checkpoint("a", 1) == {"training": [51, 1]} and store.num_waiting == 0
    assert store.query("SELECT count(*) FROM event")[1] == [(50,)]
    assert not [thread for thread in threading.enumerate() if thread.name == "store"], "it ends with its work"


def test_what_a_busy_store_refuses_waits_on_once(
    store: Store, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows come back to those that were added since: the newer of a key counts, events once each, in one line."""
    with kept_busy(monkeypatch):
        store.add_matches([make_match(winner=0), make_match(ordinal=1)])
        store.add_event("a", 1, "note", "first")
        store.update_run("a", steps=10, update=1)
        assert isinstance(store._aside, Aside)
        store.add_matches([make_match(winner=1)])
        store.add_event("a", 2, "note", "second")
        store.update_run("a", steps=20)
        store.settle()
        assert store.num_waiting == 5 and len(said) == 1
        assert said[0].startswith("5 rows wait in memory, tried again in 5 s: store ")
        assert not store.flush() and store._aside is None, "not before that"
    store.update_run("a", status="stopped")
    found = content(store)
    assert [(row.ordinal, row.winner) for row in store.matches("a", "training")] == [(0, 1), (1, 0)]
    assert [row[-1] for row in found["event"]] == ["first", "second"] and len(said) == 1
    assert found["run"] == [("a", "stopped", 20, 1)]


def test_an_end_keeps_what_the_thread_could_not_write(
    store: Store, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the store is busy to the last, rows of the thread lie beside it with the others, and are taken in once."""
    with kept_busy(monkeypatch):
        monkeypatch.setattr(connection, "LOCK_SECONDS", 0.05)
        store.add_matches([make_match()])
        store.flush()
        store.add_matches([make_match(ordinal=1)])
        store.update_run("a", status="stopped")
    assert "3 rows wait in league.duckdb.rows.000001" in said[-1]
    again = Store.open(store.path)
    assert len(again.matches("a", "training")) == 2 and again.find_run("a").status == "stopped"


def test_ratings_that_follow_are_those_of_the_same_moment(store: Store, tmp_path: Path) -> None:
    """Worked out aside they count the games given before, none given after; the rows are those of one thread."""
    alone = empty_store(tmp_path / "alone" / "league.duckdb")
    alone.begin_run(make_run(status="running"))
    for opened in (store, alone):
        opened.add_game(GameRow("g", "brawl", "bot:based", None))
        opened.add_snapshot(make_snapshot())
        for update in (1, 2):
            played = {"kind": "evaluation", "agents": ("hash100", "bot:based"), "update": update}
            opened.add_matches([make_match(**played, ordinal=i, winner=i % 2) for i in range(6)])
            rate_evaluation(opened, "a", "g", update, {"hash100", "bot:based"})
            opened.add_matches([make_match(update=update, ordinal=i) for i in range(3)])
        opened.flush(force=True)
    assert content(store) == content(alone)
    games = store.query("SELECT \"update\", games FROM rating WHERE agent_id = 'hash100' ORDER BY ALL")[1]
    assert games == [(1, 6), (2, 12)]


def test_a_mistake_in_the_thread_is_raised_by_whoever_asks(store: Store) -> None:
    """A bug keeps its traceback; the rows that were written before it are not written again."""

    def fail(found: object) -> list[RatingRow]:
        raise KeyError("bug")

    store.add_event("a", 1, "note", "x")
    store.add_ratings_of(Reckoning(lambda reader: None, fail, lambda rows: None))
    with pytest.raises(KeyError, match="bug"):
        store.settle()
    store.flush(force=True)
    assert store.query("SELECT count(*) FROM event")[1] == [(1,)]


def test_within_a_writing_nothing_goes_aside(store: Store) -> None:
    """Who has the file open writes by itself: another thread would wait for that."""
    with store.writing():
        store.add_matches([make_match()])
        assert store.flush() and store._aside is None


def test_a_training_leaves_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flushed aside at every update, a run's store, ratings and counts in its state are those of one thread."""
    monkeypatch.setattr(flushing, "FLUSH_SECONDS", 0.0)
    begun, begin = [0], Flusher._begin_aside

    def counted(self: Flusher, *given: Any) -> None:
        begun[0] += 1
        begin(self, *given)

    monkeypatch.setattr(Flusher, "_begin_aside", counted)
    found = []
    for name in ("aside", "alone"):
        (tmp_path / name).mkdir()
        with monkeypatch.context() as patch:
            if name == "alone":
                never = property(lambda self: False, lambda self, value: None)
                patch.setattr(Flusher, "writes_aside", never, raising=False)
            train(tmp_path / name, "smoke", "run.total_steps=384", "run.evaluate_every=256")
        store = Store.open(tmp_path / name / "league.duckdb")
        found.append((content(store), learned(tmp_path / name, "matrix-1"), store.row_counts("matrix-1", 3)))
    assert found[0] == found[1] and len(found[0][0]["rating"]) > 5
    assert begun[0] >= 3
