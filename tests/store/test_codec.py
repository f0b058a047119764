"""Rows and columns: what goes in comes out, whatever the order of the columns."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from league.snapshots.agent import MAX_SEED
from league.store.codec import MAX_MATCH_SEED, as_arrays, from_columns, to_columns
from league.store.rows import (
    AgentRow,
    EventRow,
    GameRow,
    ImportRow,
    LearnerRow,
    RatingRow,
)
from tests.helpers.stores import empty_store, make_agent, make_gate, make_match, make_run, make_snapshot

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


def test_a_text_that_is_no_unicode_is_stored_spelt_out(tmp_path: Path) -> None:
    """An exception of a user's code, and a path, may hold lone surrogates, which files do not take."""
    event = EventRow("a", 1, None, "code_failed", "ValueError: \ud800 é", AT)
    assert as_arrays("event", [to_columns(event)])["message"] == ["ValueError: \\ud800 é"]
    store = empty_store(tmp_path)
    store.begin_run(make_run())
    store.add_event("a", 1, "code_failed", event.message)
    store.add_agent(make_agent("bot:\ud800"))
    store.flush(force=True)
    assert [row.message for row in store.events("a")] == ["ValueError: \\ud800 é"]
    assert [row.agent_id for row in store.agents("g")] == ["bot:\\ud800"]


def test_a_match_may_have_any_seed_of_64_bits_and_a_user_of_63() -> None:
    """Seeds of matches are drawn from 64 bits and kept whole; a user's must be one that every generator takes."""
    assert (MAX_MATCH_SEED, MAX_SEED) == (2**64 - 1, 2**63 - 1)
    assert as_arrays("match", [to_columns(make_match(seed=MAX_MATCH_SEED), finished_at=AT)])["seed"] == [2**64 - 1]
