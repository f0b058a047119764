"""Records of games: counts, and the score with its interval."""

import math

import pytest

from league.maths.record import Record, wilson
from league.printing.standings import record_cells
from league.printing.tables import IntervalCell


def test_a_record_is_its_counts() -> None:
    """Draws are half a win; the interval is Wilson's."""
    record = Record(10, 5, 5)
    assert (record.games, record.score) == (20, 0.625)
    assert (record.lower, record.upper) == pytest.approx(wilson(0.625, 20))


def test_without_games_there_is_no_score() -> None:
    """Nothing is made up: score and interval are not a number."""
    record = Record(0, 0, 0)
    assert record.games == 0 and all(math.isnan(x) for x in (record.score, record.lower, record.upper))
    assert record_cells(record) == (0, 0, 0, 0, None)
    *counts, score = record_cells(Record(1, 1, 0))
    assert counts == [2, 1, 1, 0] and isinstance(score, IntervalCell) and score.parts == ("0.750", "0.198", "0.973")
