"""What calls return, as a person looks at it: in a line, as a table in a notebook, as a data frame, as a picture."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, cast

from league.errors import UsageError, one_line

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MOST_ROWS = 40
"""Rows of a table that a notebook shows."""
LONGEST = 80
"""Letters of a value that it shows."""
BRIEF = 24
"""Letters of a value that a `repr` shows."""


@dataclass(frozen=True)
class Grid:
    """A table: a value for each column in each row."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""


class Result:
    """What a call returns. pandas and matplotlib are imported where they are used."""

    def grids(self) -> Sequence[Grid]:
        """What a notebook shows of it, the table that `to_df` gives first: its numbers in one row."""
        assert is_dataclass(self)
        cells = {f.name: getattr(self, f.name) for f in fields(self)}
        plain = {name: x for name, x in cells.items() if x is None or isinstance(x, str | int | float)}
        return [Grid(list(plain), [list(plain.values())])]

    def plot(self) -> Figure:
        """A picture of it: a cell of a notebook shows it, and `savefig` writes it.

        Raises:
            UsageError: there is none of this, or matplotlib is not installed.
        """
        raise UsageError(f"{type(self).__name__}: there is no picture of it; `.to_df()` has its numbers")

    def to_df(self) -> pd.DataFrame:
        """Its numbers as a data frame.

        Raises:
            UsageError: pandas is not installed.
        """
        try:
            import pandas as pd
        except ModuleNotFoundError:
            raise UsageError(
                "data frames need pandas, which is not installed; run `pip install 'league-engine[notebook]'`"
            ) from None
        grid = self.grids()[0]
        return pd.DataFrame([list(row) for row in grid.rows], columns=list(grid.columns))

    def __repr__(self) -> str:
        """One line; of what is long its beginning, of lists their length."""
        named = cast(Any, self)
        told = ", ".join(f"{f.name}={_brief(getattr(named, f.name))}" for f in fields(named) if f.repr)
        return f"{type(self).__name__}({told})"

    def _repr_html_(self) -> str:
        return "".join(map(as_html, self.grids()))


def as_html(grid: Grid) -> str:
    """A grid as a table; whatever it has is text, of which nothing is obeyed."""
    rows = grid.rows[:MOST_ROWS]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(grid.columns)
    cells = zip(*(_column(name, column) for name, column in zip(grid.columns, columns, strict=True)), strict=True)
    head, *body = (f"<tr>{''.join(row)}</tr>" for row in cells)
    title = f"<caption style='text-align:left'>{_text(grid.title)}</caption>" if grid.title else ""
    left = len(grid.rows) - MOST_ROWS
    more = f"<p>{left:,} more rows; <code>.to_df()</code> has all</p>" if left > 0 else ""
    return f"<table>{title}<thead>{head}</thead><tbody>{''.join(body)}</tbody></table>{more}"


def _column(name: str, values: Sequence[Any]) -> list[str]:
    """Its cells, the head first; numbers to the right, all with as many decimals."""
    are_numbers = all(x is None or (isinstance(x, int | float) and not isinstance(x, bool)) for x in values)
    style = f"style='text-align:{'right' if are_numbers else 'left'};padding:0.1em 0.6em'"
    texts = _numbers(values) if are_numbers else ["" if x is None else str(x) for x in values]
    return [f"<th {style}>{_text(name)}</th>", *(f"<td {style}>{_text(text)}</td>" for text in texts)]


def _numbers(values: Sequence[int | float | None]) -> list[str]:
    floats = [abs(x) for x in values if isinstance(x, float) and math.isfinite(x)]
    largest = max(floats, default=0.0)
    form = ",.0f" if largest >= 100 else ",.1f" if largest >= 10 else ".3f" if largest >= 0.01 else ".3g"
    return ["" if x is None or math.isnan(x) else format(x, form) if isinstance(x, float) else f"{x:,}" for x in values]


def _text(value: str) -> str:
    value = one_line(value)
    return html.escape(value if len(value) <= LONGEST else f"{value[:LONGEST]}…")


def _brief(value: Any) -> str:
    if isinstance(value, str):
        return repr(one_line(value if len(value) <= BRIEF else f"{value[: BRIEF - 1]}…"))
    if isinstance(value, tuple | list | dict):
        return f"<{len(value)}>"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"<{type(value).__name__}>" if is_dataclass(value) else repr(value)
