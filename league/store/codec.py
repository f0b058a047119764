"""Rows as columns and columns as rows, by name: the one way in which the store writes rows and reads them.

A column is called as the row's field is, and a moment is UTC without saying so. A `MatchResult` alone has columns of
other names: its two agents are `seat0_agent` and `seat1_agent`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

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


class StoredColumn(NamedTuple):
    """A column of one kind of rows: its numpy type on the way to a file, its type there, and how it gets there."""

    dtype: npt.DTypeLike
    sql: str
    value: str = ""
    """Where it is not the column itself."""
    rule: str = "{} IS NOT NULL"
    """What holds of it in a file."""


_TEXT, _COUNT, _REAL = (
    StoredColumn(object, "VARCHAR"),
    StoredColumn(np.int64, "BIGINT", rule="{} >= 0"),
    StoredColumn(np.float64, "DOUBLE"),
)
_MOMENT = StoredColumn("datetime64[us]", "TIMESTAMP", rule="{} BETWEEN '0001-01-01' AND '9999-12-31 23:59:59.999999'")
_OPTIONAL = StoredColumn(object, "DOUBLE", rule="true")
_KIND = _TEXT._replace(rule="{} IN ('training', 'evaluation')")
_UPDATE = StoredColumn(np.int64, "BIGINT", "nullif({}, -1)", "coalesce({}, 0) >= 0")
_KEY = {"run": _TEXT, "kind": _KIND, "update": _COUNT, "row": _COUNT, "ordinal": _COUNT}
_SEATS = {"game_id": _TEXT, "seat0_agent": _TEXT, "seat1_agent": _TEXT}
_NUMBER = StoredColumn(np.float64, "DOUBLE", "if(isnan({0}), NULL, {0})", "true")
_PAIRS = StoredColumn(object, "MAP(VARCHAR, DOUBLE[])", "{}::JSON")
KINDS: Mapping[str, Mapping[str, StoredColumn]] = {
    "match": {
        **_KEY,
        **_SEATS,
        "seed": StoredColumn(np.uint64, "UBIGINT"),
        "winner": StoredColumn(np.int8, "TINYINT", "nullif({}, -1)", "coalesce({}, 0) IN (0, 1)"),
        "end_reason": _TEXT,
        "steps": _COUNT,
        "ticks": _COUNT,
        "sampling": _TEXT._replace(rule="{} IN ('sample', 'greedy')"),
        "update_begin": _UPDATE,
        "update_end": _UPDATE,
        "finished_at": _MOMENT,
        "metrics": _PAIRS,
        "rewards": _PAIRS,
        "payoff": _NUMBER._replace(rule="coalesce(abs({}) <= 1e30, true)"),
        "course": StoredColumn(np.uint64, "UBIGINT", "nullif({}, 0)", "true"),
    },
    "replay": {**_KEY, **_SEATS, "content": _TEXT},
    "rating": {
        "run": _TEXT,
        "update": _COUNT,
        "system": _TEXT,
        "agent_id": _TEXT,
        "rating": _REAL,
        "lower": _OPTIONAL,
        "upper": _OPTIONAL,
        "games": _COUNT,
        "game_id": _TEXT,
        "sampling": _TEXT,
        "prior": _REAL,
        "group_number": StoredColumn(object, "INTEGER", rule="true"),
        "rated_at": _MOMENT,
    },
    "metric": {
        "run": _TEXT,
        "update": _COUNT,
        "steps": _COUNT,
        "name": _TEXT,
        "agent_id": _TEXT,
        "value": _NUMBER,
    },
    "event": {"run": _TEXT, "update": _COUNT, "kind": _TEXT, "message": _TEXT, "happened_at": _MOMENT},
}
"""Kind of rows -> its columns. Rows of these kinds are in segments; the few of other kinds are in JSON files."""
_KEYS = {
    "match": tuple(_KEY),
    "replay": tuple(_KEY),
    "rating": ("run", "update", "game_id", "sampling", "prior", "system", "agent_id"),
    "metric": ("run", "update", "name", "agent_id"),
}


def encoded(kind: str) -> str:
    """What SELECT takes of a batch of a kind's arrays to make the columns of a segment."""
    columns = [(column, quoted_name(name)) for name, column in KINDS[kind].items()]
    return ", ".join(f"({(column.value or '{}').format(name)})::{column.sql} AS {name}" for column, name in columns)


def rule_of(kind: str) -> str:
    """The condition in SQL that each row of a kind keeps in a segment."""
    return " AND ".join(column.rule.format(quoted_name(name)) for name, column in KINDS[kind].items())


def quoted_name(name: str) -> str:
    """A column's name in SQL."""
    return f'"{name}"'


def to_columns(row: Any, **more: Any) -> Columns:
    """A row (a dataclass) as its columns, with `more` of them.

    Raises:
        ValueError: a match holds a value that its table would refuse.
    """
    values = {name: getattr(row, name) for name in row.__dataclass_fields__}  # `fields` takes a tenth of a match's time
    if isinstance(row, MatchResult):
        values = _of_match(row, values)
    whole = values | more
    return {name: naive(value) if isinstance(value, datetime) else value for name, value in whole.items()}


def from_columns(kind: type[Row], columns: Sequence[str], values: Sequence[Any]) -> Row:
    """The row of class `kind` of which `columns` hold `values`; fields that have no column keep their default."""
    named = dict(zip(columns, values, strict=True))
    if kind is MatchResult:
        named |= {name: {term: tuple(x) for term, x in named[name].items()} for name in ("metrics", "rewards")}
        named["agents"] = named.pop("seat0_agent"), named.pop("seat1_agent")
    return kind(**{name: aware(value) if isinstance(value, datetime) else value for name, value in named.items()})


def as_arrays(kind: str, rows: Sequence[Columns]) -> dict[str, npt.NDArray[Any]]:
    """Rows of one kind as one array a column; what else they hold is left out."""
    found = {name: [row[name] for row in rows] for name in KINDS[kind]}
    texts = {name: map(storable, values) for name, values in found.items() if KINDS[kind][name].dtype is object}
    return {name: np.array([*values], KINDS[kind][name].dtype) for name, values in (found | texts).items()}


def key_of(kind: str, row: Columns) -> tuple[Any, ...]:
    """What a row replaces another one by that waits, too; empty: every row is one more."""
    return tuple(row[name] for name in _KEYS.get(kind, ()))


def storable(value: Any) -> Any:
    """A value as files take it: lone surrogates of a text spelt out."""
    if isinstance(value, str) and not value.isascii():
        return value.encode(errors="backslashreplace").decode()
    return value


def naive(at: datetime) -> datetime:
    """A moment as the database keeps it: UTC without saying so."""
    return at.astimezone(UTC).replace(tzinfo=None)


def aware(at: datetime) -> datetime:
    """The moment of a value read from the database."""
    return at.replace(tzinfo=UTC)


def _of_match(match: MatchResult, values: Columns) -> Columns:
    problem = _match_problem(match)
    if problem:
        raise ValueError(f"match {match.run} {match.kind} {match.update}.{match.row}.{match.ordinal}: {problem}")
    values["seat0_agent"], values["seat1_agent"] = values.pop("agents")
    del values["replay"]  # has a table of its own
    values |= {name: UNKNOWN for name in ("update_begin", "update_end") if values[name] is None}
    values["payoff"] = math.nan if match.payoff is None else match.payoff
    values["course"] = match.course or 0
    for name in ("metrics", "rewards"):  # as JSON with NaN and Infinity, which the database reads too
        values[name] = json.dumps({term: [float(value) for value in pair] for term, pair in values[name].items()})
    return values


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
