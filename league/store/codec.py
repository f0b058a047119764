"""Rows as columns and columns as rows, by name: the one way in which the store writes rows and reads them.

A column is called as the row's field is, and a moment is UTC without saying so. A `MatchResult` alone has columns of
other names: its two agents are `seat0_agent` and `seat1_agent`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from league.types import DRAW, SEATS, MatchResult

Row = TypeVar("Row")
Columns = dict[str, Any]
"""One row as the database has it: column -> value."""

MAX_MATCH_SEED = 2**64 - 1
"""A match's seed is any 64 bits; a user's (`league.snapshots.agent.MAX_SEED`) has 63, which every generator takes."""
UNKNOWN = -1
"""In a column of counts on its way to the database: no value (NULL there)."""


@dataclass(frozen=True)
class Table:
    """How rows of one table are written: the query that writes a `batch` of them, and its columns."""

    write: str
    key: tuple[str, ...]
    """What a row replaces another one by; empty: every row is one more."""
    columns: Mapping[str, npt.DTypeLike]
    """Column -> numpy type."""


SOURCE = ("address", "version", "sha256", "thing")
"""Of an agent's row: empty in rows that were kept before it had them."""
TABLES = {
    "match": Table(
        "write_match",
        ("run", "kind", "update", "row", "ordinal"),
        {
            "run": object,
            "kind": object,
            "update": np.int64,
            "row": np.int64,
            "ordinal": np.int64,
            "game_id": object,
            "seat0_agent": object,
            "seat1_agent": object,
            "seed": np.uint64,
            "winner": np.int8,
            "end_reason": object,
            "steps": np.int64,
            "ticks": np.int64,
            "sampling": object,
            "update_begin": np.int64,
            "update_end": np.int64,
            "finished_at": "datetime64[us]",
            "metrics": object,
            "rewards": object,
            "payoff": np.float64,
            "course": np.uint64,
        },
    ),
    "game": Table(
        "write_game",
        ("game_id",),
        dict.fromkeys(("game_id", "name", "anchor", "activity", "utility", "bound"), object),
    ),
    "agent": Table(
        "write_agent",
        ("game_id", "agent_id"),
        {
            "game_id": object,
            "agent_id": object,
            "kind": object,
            "name": object,
            **dict.fromkeys(SOURCE, object),
        },
    ),
    "snapshot": Table(
        "write_snapshot",
        ("run", "step"),
        {
            "run": object,
            "step": np.int64,
            "update": np.int64,
            "agent_id": object,
            "path": object,
            "parent": object,
            "fingerprint": object,
            "created_at": "datetime64[us]",
            "is_historical": np.bool_,
        },
    ),
    "rating": Table(
        "write_rating",
        ("run", "update", "game_id", "sampling", "prior", "system", "agent_id"),
        {
            "run": object,
            "update": np.int64,
            "system": object,
            "agent_id": object,
            "rating": np.float64,
            "lower": object,
            "upper": object,
            "games": np.int64,
            "game_id": object,
            "sampling": object,
            "prior": np.float64,
            "group_number": object,
            "rated_at": "datetime64[us]",
        },
    ),
    "metric": Table(
        "write_metric",
        ("run", "update", "name", "agent_id"),
        {
            "run": object,
            "update": np.int64,
            "steps": np.int64,
            "name": object,
            "agent_id": object,
            "value": np.float64,
        },
    ),
    "replay": Table(
        "write_replay",
        ("run", "kind", "update", "row", "ordinal"),
        {
            "run": object,
            "kind": object,
            "update": np.int64,
            "row": np.int64,
            "ordinal": np.int64,
            "game_id": object,
            "seat0_agent": object,
            "seat1_agent": object,
            "content": object,
        },
    ),
    "event": Table(
        "write_event",
        (),
        {"run": object, "update": np.int64, "kind": object, "message": object, "happened_at": "datetime64[us]"},
    ),
}


def to_columns(row: Any, **more: Any) -> Columns:
    """A row (a dataclass) as its columns, with `more` of them.

    Raises:
        ValueError: a match holds a value that its table would refuse.
    """
    values = {name: getattr(row, name) for name in _names(row)}
    if isinstance(row, MatchResult):
        values = _of_match(row, values)
    return {name: _storable(value) for name, value in (values | more).items()}


def replay_columns(match: MatchResult, columns: Columns) -> list[Columns]:
    """The row of the replay that a match brings, its own being `columns`; none where it brings none."""
    if not match.replay:
        return []
    key = {name: columns[name] for name in TABLES["replay"].columns if name != "content"}
    return [key | {"content": match.replay}]


def from_columns(kind: type[Row], columns: Sequence[str], values: Sequence[Any]) -> Row:
    """The row of class `kind` of which `columns` hold `values`; fields that have no column keep their default.

    Raises:
        TypeError: a column is called as no field is, or a field without a default has none.
    """
    named = dict(zip(columns, values, strict=True))
    if kind is MatchResult:
        named |= {name: dict(named[name]) for name in ("metrics", "rewards")}
        named["agents"] = named.pop("seat0_agent"), named.pop("seat1_agent")
    return kind(**{name: aware(value) if isinstance(value, datetime) else value for name, value in named.items()})


def as_arrays(table: str, rows: Sequence[Columns]) -> dict[str, npt.NDArray[Any]]:
    """Rows of one table as one array a column; what else they hold is left out."""
    columns, without = TABLES[table].columns, dict.fromkeys(SOURCE, "") if table == "agent" else {}
    whole = [without | row for row in rows]
    return {name: np.array([_storable(row[name]) for row in whole], dtype) for name, dtype in columns.items()}


def key_of(table: str, row: Columns) -> tuple[Any, ...]:
    """What a row replaces another one by."""
    return tuple(row[name] for name in TABLES[table].key)


def _storable(value: Any) -> Any:
    """A value as the database takes it: a moment without its zone, and lone surrogates of a text spelt out."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode(errors="backslashreplace").decode()
    return naive(value) if isinstance(value, datetime) else value


def naive(at: datetime) -> datetime:
    """A moment as the database keeps it: UTC without saying so."""
    return at.astimezone(UTC).replace(tzinfo=None)


def aware(at: datetime) -> datetime:
    """The moment of a value read from the database."""
    return at.replace(tzinfo=UTC)


def _names(row: Any) -> Iterable[str]:
    return (field.name for field in fields(row))


def _of_match(match: MatchResult, values: Columns) -> Columns:
    problem = _match_problem(match)
    if problem:
        raise ValueError(f"match {match.run} {match.kind} {match.update}.{match.row}.{match.ordinal}: {problem}")
    values["seat0_agent"], values["seat1_agent"] = values.pop("agents")
    del values["replay"]  # has a table of its own
    values |= {name: UNKNOWN for name in ("update_begin", "update_end") if values[name] is None}
    values["payoff"] = math.nan if match.payoff is None else match.payoff
    values["course"] = match.course or 0
    return values | {name: _json_of_pairs(values[name]) for name in ("metrics", "rewards")}


def _json_of_pairs(pairs: Mapping[str, Iterable[float]]) -> str:
    """{name: (seat 0, seat 1)} as JSON with NaN and Infinity, which the database reads too."""
    return json.dumps({name: [float(value) for value in values] for name, values in pairs.items()})


def _match_problem(match: MatchResult) -> str:
    if match.kind not in ("training", "evaluation"):
        return f"kind={match.kind!r} is neither training nor evaluation"
    if match.winner not in (0, 1, DRAW):
        return f"winner={match.winner} is neither a seat nor DRAW"
    if not 0 <= match.seed <= MAX_MATCH_SEED:
        return f"seed={match.seed} does not fit 64 bits"
    if min(match.update, match.row, match.ordinal, match.steps, match.ticks) < 0:
        return "update, row, ordinal, steps and ticks count from 0"
    if match.update_begin is not None and match.update_end is not None and match.update_begin > match.update_end:
        return f"update_begin={match.update_begin} lies after update_end={match.update_end}"
    if any(len(values) != SEATS for pairs in (match.metrics, match.rewards) for values in pairs.values()):
        return "metrics and rewards hold one number a seat"
    return ""
