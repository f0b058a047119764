"""Rows and columns: what goes in comes out, whatever the order of the columns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from league.snapshots.agent import MAX_SEED
from league.store.codec import MAX_MATCH_SEED, TABLES, as_arrays, from_columns, key_of, to_columns
from league.store.rows import (
    AgentRow,
    EventRow,
    GameRow,
    ImportRow,
    LearnerRow,
    RatingRow,
)
from league.store.store import Store
from tests.helpers.stores import make_gate, make_match, make_run, make_snapshot

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
ROWS = [
    make_run(started_at=AT, updated_at=AT, parent="b", preset="fast"),
    AgentRow("bot:based", "bot", "bot:based", "g"),
    GameRow("g", "game", "bot:based", None),
    make_snapshot(created_at=AT, pruned_at=AT, is_historical=False),
    make_snapshot(created_at=AT),
    RatingRow("a", 1, "elo", "h", 1016.0, None, None, 3, "g"),
    LearnerRow("a", "l", 1, "main", "{}"),
    make_gate(begun_at=AT, games=2, llr=0.5, decision="passed", is_promoted=True),
    EventRow("a", 1, None, "alarm", "evaluation", AT),
    ImportRow("import-1", "00", "f.csv", 3, AT),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
def test_a_row_comes_back_from_its_columns(row: Any) -> None:
    """By name, not by place: the columns may come in any order; moments are naive in between."""
    columns = to_columns(row)
    names = sorted(columns, reverse=True)
    assert all(value.tzinfo is None for value in columns.values() if isinstance(value, datetime))
    assert from_columns(type(row), names, [columns[name] for name in names]) == row


def test_a_moment_is_utc_in_its_column() -> None:
    """A moment of another zone is the same moment."""
    elsewhere = AT.astimezone(timezone(timedelta(hours=5)))
    assert to_columns(make_run(started_at=elsewhere))["started_at"] == AT.replace(tzinfo=None)


def test_a_text_that_is_no_unicode_is_stored_spelt_out(tmp_path: Path) -> None:
    """An exception of a user's code, and a path, may hold lone surrogates, which the database does not take."""
    event = EventRow("a", 1, None, "code_failed", "ValueError: \ud800 é", AT)
    assert to_columns(event)["message"] == "ValueError: \\ud800 é"
    store = Store.create(tmp_path / "s.duckdb")
    store.add_event("a", 1, "code_failed", event.message)
    store.flush(force=True)
    assert [row.message for row in store.events()] == ["ValueError: \\ud800 é"]


def test_columns_that_no_row_has_are_refused() -> None:
    """A column under another name, one too many or one missing is an error, not a value in a wrong field."""
    columns = to_columns(AgentRow("bot:based", "bot", "bot:based", "g"))
    for wrong in (columns | {"place": 1}, {name: columns[name] for name in ("agent_id", "name", "game_id")}):
        with pytest.raises(TypeError):
            from_columns(AgentRow, list(wrong), list(wrong.values()))


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("match", to_columns(make_match(), finished_at=AT)),
        ("game", to_columns(ROWS[2])),
        ("agent", to_columns(ROWS[1])),
        ("snapshot", to_columns(ROWS[3])),
        ("rating", to_columns(ROWS[5], rated_at=AT)),
        ("event", to_columns(ROWS[8])),
    ],
)
def test_a_row_has_every_column_of_its_table(table: str, row: dict[str, Any]) -> None:
    """What is written is found by name, and a row replaces another one by its key alone."""
    arrays = as_arrays(table, [row, row])
    assert list(arrays) == list(TABLES[table].columns) and {len(array) for array in arrays.values()} == {2}
    assert len(key_of(table, row)) == len(TABLES[table].key)


def test_a_match_may_have_any_seed_of_64_bits_and_a_user_of_63(tmp_path: Path) -> None:
    """Seeds of matches are drawn from 64 bits and kept whole; a user's must be one that every generator takes."""
    assert (MAX_MATCH_SEED, MAX_SEED) == (2**64 - 1, 2**63 - 1)
    store = Store.create(tmp_path / "s.duckdb")
    store.add_matches([make_match(seed=MAX_MATCH_SEED)])
    store.flush(force=True)
    assert [match.seed for match in store.matches("a", "training")] == [MAX_MATCH_SEED]
