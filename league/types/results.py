"""What calls return, as a person looks at it: in a line, as a table in a notebook, as a data frame, as a picture."""

from __future__ import annotations

import html
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, cast

from league.errors import UsageError, one_line

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MOST_ROWS = 40
"""Rows of a table that a notebook or `print` shows."""
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
    """What a call returns: a line by `repr`, tables by `print` and in a notebook.

    pandas and matplotlib are imported where they are used.
    """

    def grids(self) -> Sequence[Grid]:
        """What a notebook shows of it, first the table that `to_df` gives: its numbers in one row."""
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
        """Its numbers as a data frame: the rows of its first table, and of others with the same columns.

        Raises:
            UsageError: pandas is not installed.
        """
        try:
            import pandas as pd
        except ModuleNotFoundError:
            raise UsageError(
                "data frames need pandas, which is not installed; run `pip install 'league-engine[notebook]'`"
            ) from None
        grids = self.grids()
        rows = [list(row) for grid in grids if grid.columns == grids[0].columns for row in grid.rows]
        return pd.DataFrame(rows, columns=list(grids[0].columns))

    def __repr__(self) -> str:
        """One line; of what is long its beginning, of lists their length."""
        named = cast(Any, self)
        told = ", ".join(f"{f.name}={_brief(getattr(named, f.name))}" for f in fields(named) if f.repr)
        return f"{type(self).__name__}({told})"

    def __str__(self) -> str:
        """Its tables as text, as wide as the terminal; whole where there is none."""
        width = shutil.get_terminal_size((0, 0)).columns
        return "\n\n".join(as_text(grid, width) for grid in self.grids())

    def _repr_html_(self) -> str:
        return "".join(map(as_html, self.grids()))


def as_text(grid: Grid, width: int = 0) -> str:
    """A grid as aligned columns, without the last ones where `width` (in letters; 0: no limit) is too little."""
    rows = grid.rows[:MOST_ROWS]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(grid.columns)
    found = []
    for name, values in zip(grid.columns, columns, strict=True):
        is_number, texts = _texts(values)
        cells = [_cut(name), *map(_cut, texts)]
        longest = max(map(len, cells))
        found.append([cell.rjust(longest) if is_number else cell.ljust(longest) for cell in cells])
    shown = len(found)
    while width and shown > 1 and sum(len(cells[0]) + 2 for cells in found[:shown]) - 2 > width:
        shown -= 1
    lines = ["  ".join(cells).rstrip() for cells in zip(*found[:shown], strict=True)]
    if gone := grid.columns[shown:]:
        lines.append(f"columns left out: {', '.join(map(_cut, gone))}; .to_df() has all")
    if (left := len(grid.rows) - MOST_ROWS) > 0:
        lines.append(f"{left:,} more rows; .to_df() has all")
    return "\n".join([*([_cut(grid.title)] if grid.title else []), *lines])


def as_html(grid: Grid) -> str:
    """A grid as a table of plain text; escapes in it have no effect."""
    rows = grid.rows[:MOST_ROWS]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(grid.columns)
    cells = zip(*(_column(name, column) for name, column in zip(grid.columns, columns, strict=True)), strict=True)
    head, *body = (f"<tr>{''.join(row)}</tr>" for row in cells)
    title = f"<caption style='text-align:left'>{_text(grid.title)}</caption>" if grid.title else ""
    left = len(grid.rows) - MOST_ROWS
    more = f"<p>{left:,} more rows; <code>.to_df()</code> has all</p>" if left > 0 else ""
    return f"<table>{title}<thead>{head}</thead><tbody>{''.join(body)}</tbody></table>{more}"


def _column(name: str, values: Sequence[Any]) -> list[str]:
    """Its cells, the head first; numbers to the right."""
    is_number, texts = _texts(values)
    style = f"style='text-align:{'right' if is_number else 'left'};padding:0.1em 0.6em'"
    return [f"<th {style}>{_text(name)}</th>", *(f"<td {style}>{_text(text)}</td>" for text in texts)]


def _texts(values: Sequence[Any]) -> tuple[bool, list[str]]:
    """Whether a column is one of numbers, and its values as text; numbers have as many decimals each."""
    if all(x is None or (isinstance(x, int | float) and not isinstance(x, bool)) for x in values):
        return True, _numbers(values)
    return False, ["" if x is None else str(x) for x in values]


def _numbers(values: Sequence[int | float | None]) -> list[str]:
    floats = [abs(x) for x in values if isinstance(x, float) and math.isfinite(x)]
    largest = max(floats, default=0.0)
    form = ",.0f" if largest >= 100 else ",.1f" if largest >= 10 else ".3f" if largest >= 0.01 else ".3g"
    return ["" if x is None or math.isnan(x) else format(x, form) if isinstance(x, float) else f"{x:,}" for x in values]


def _text(value: str) -> str:
    return html.escape(_cut(value))


def _cut(value: str) -> str:
    value = one_line(value)
    return value if len(value) <= LONGEST else f"{value[:LONGEST]}…"


def _brief(value: Any) -> str:
    if isinstance(value, str):
        return repr(one_line(value if len(value) <= BRIEF else f"{value[: BRIEF - 1]}…"))
    if isinstance(value, tuple | list | dict):
        return f"<{len(value)}>"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"<{type(value).__name__}>" if is_dataclass(value) else repr(value)
