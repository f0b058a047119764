"""Tables that fit: which columns there is room for and in which form, numbers to the right, colour around even.

Rich folds words and shrinks every column at once. Here a column is shown whole, in a shorter form, or not at all; where
the columns that matter most do not fit, each record is a block of lines. Only prose is wrapped, between words.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from league.errors import one_line
from league.printing import put

GAP = "  "
"""Between two columns."""
LEAST_PROSE = 20
"""Columns that prose has at least, where it is longer."""
RULE, PLUS_MINUS = ("─", "-"), ("±", "+-")
"""In an encoding that has them, and in ASCII."""
EVEN = ("red", "", "green")
"""Below even, not told apart from it, above."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    rank: 0 is never left out; of the others the highest go first, and all of one rank together. is_number: set to the
    right. is_prose: wrapped between words where it is too long; the last column only.
    """

    title: str
    rank: int = 0
    is_number: bool = False
    is_prose: bool = False


@dataclass(frozen=True)
class Cell:
    """A value in its forms, the longest first, and how it is coloured."""

    forms: tuple[str, ...]
    style: str = ""


@dataclass(frozen=True)
class IntervalCell:
    """A number with its 95 % interval: `1050 [970, 1130]`, where there is no room `1050 ±80`.

    The short form has the longer side of the interval. digits: behind the point. Where the interval is one number, it
    is left out.
    """

    value: float
    lower: float
    upper: float
    digits: int = 0
    is_signed: bool = False
    style: str = ""

    @property
    def parts(self) -> tuple[str, str, str]:
        """The three numbers as text."""
        sign = "+" if self.is_signed else ""
        value, lower, upper = (f"{x:{sign}z.{self.digits}f}" for x in (self.value, self.lower, self.upper))
        return value, lower, upper

    @property
    def margin(self) -> str:
        """The longer side of the interval."""
        return f"{max(self.upper - self.value, self.value - self.lower):z.{self.digits}f}"


Value = Cell | IntervalCell | str | int | float | None
Line = list[tuple[str, str]]
"""Pieces of text with their styles."""


def around(low: float, high: float, even: float = 0.0) -> str:
    """The colour of a number of which this interval is known: none where it holds `even`."""
    return EVEN[1 + (low > even) - (high < even)]


def rating(value: float, lower: float, upper: float, unit: str) -> IntervalCell:
    """A rating in Elo points, or where the unit is `payoff` in a game's."""
    return IntervalCell(value, lower, upper, 0 if unit == "elo" else 3, is_signed=unit != "elo")


def estimate(value: float, lower: float, upper: float, unit: str = "elo") -> IntervalCell:
    """How far a rating is above another, coloured around 0."""
    return IntervalCell(value, lower, upper, 0 if unit == "elo" else 3, is_signed=True, style=around(lower, upper))


def payoff(value: float, lower: float, upper: float) -> IntervalCell:
    """A payoff a match, coloured around 0."""
    return estimate(value, lower, upper, "payoff")


def score(value: float, lower: float, upper: float) -> IntervalCell:
    """A score in [0, 1], coloured around one half."""
    return IntervalCell(value, lower, upper, 3, style=around(lower, upper, 0.5))


def table_width() -> int | None:
    """Columns of the terminal; without one what COLUMNS says, or None: as many as a table wants."""
    from rich.console import Console

    console = Console()
    if console.is_terminal:
        return console.width or None
    columns = os.environ.get("COLUMNS", "")
    return int(columns) or None if columns.isdecimal() else None


def is_ascii() -> bool:
    """Whether stdout lacks the letters that tables are drawn with."""
    try:
        f"{RULE[0]}{PLUS_MINUS[0]}".encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return True
    return False


def print_table(
    title: str,
    columns: Sequence[Column | str],
    rows: Iterable[Sequence[Value]],
    *,
    width: int | None = None,
    least: Callable[[], None] | None = None,
    is_plain: bool | None = None,
) -> None:
    """A table on stdout, below its title.

    Args:
        title: one line or several; wrapped between words.
        columns: a string is a column that is never left out.
        rows: of each a value a column; None is an empty cell.
        width: columns there are; `table_width()` if not given.
        least: called instead where the columns that are never left out do not fit; None: a block a record.
        is_plain: whether to draw with ASCII alone; found out if not given.
    """
    width = table_width() if width is None else width
    plain = is_ascii() if is_plain is None else is_plain
    named = [Column(column) if isinstance(column, str) else column for column in columns]
    table = _Table(named, [_cells(column, plain) for column in _turned(rows, len(named))])
    lines: list[Line] = [[(line, "bold")] for line in wrapped(title, width)] if title else []
    fits = table.fit(width)
    if not fits and least is not None:
        least()
        return
    print_lines([*lines, *(table.lines(width, RULE[plain]) if fits else table.blocks(width))])


def layout(
    columns: Sequence[Column],
    rows: Iterable[Sequence[Value]],
    width: int,
    plain: bool,
) -> list[Line]:
    """The lines of a table without the rule below its titles; what does not fit is neither shown nor named."""
    table = _Table(columns, [_cells(column, plain) for column in _turned(rows, len(columns))])
    table.fit(width)
    head, _, *lines = table.lines(width, RULE[plain])
    return [head, *(lines if len(table.shown) == len(columns) else lines[: len(table.cells[0])])]


def line_width(line: Line) -> int:
    """Columns that a terminal takes for it."""
    return sum(_len(text) for text, _ in line)


def print_prose(text: str, indent: str = "") -> None:
    """A sentence on stdout, wrapped between words where there is a terminal; `indent`: of all lines but the first."""
    print_lines([[(line, "")] for line in wrapped(text, table_width(), indent)])


def print_lines(lines: Iterable[Line]) -> None:
    """Lines with their colours on stdout, which have none where it is no terminal, nor under NO_COLOR."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        put("".join("".join(text for text, _ in line).rstrip() + "\n" for line in lines))
        return
    with console.capture() as captured:
        for line in lines:
            shown = Text.assemble(*line)
            shown.rstrip()
            console.print(shown, soft_wrap=True)
    put(captured.get())


def wrapped(text: str, width: int | None, indent: str = "") -> list[str]:
    """The lines of a text, broken between words; a word that is longer than a line is left whole."""
    text = one_line(text)
    if width is None or len(text) <= width:
        return [text]
    whole = partial(textwrap.wrap, break_long_words=False, break_on_hyphens=False, subsequent_indent=indent)
    return whole(text, max(width, 1)) or [""]


class _Table:
    """Columns of cells, and which of them are shown in which form once they `fit`."""

    def __init__(self, columns: Sequence[Column], cells: Sequence[Sequence[Cell]]) -> None:
        self.columns, self.cells = columns, cells
        self.titles = [one_line(column.title) for column in columns]
        self.form = [0] * len(columns)
        self.shown = list(range(len(columns)))
        self.widths = [self._width(i) for i in self.shown]

    def _width(self, i: int) -> int:
        return max([_len(self.titles[i]), *(_len(_form(cell, self.form[i])) for cell in self.cells[i])])

    def _needed(self, i: int) -> int:
        """Columns without which column `i` cannot be shown."""
        if not self.columns[i].is_prose:
            return self.widths[i]
        words = (_len(word) for cell in self.cells[i] for word in cell.forms[0].split())
        return max(min(self.widths[i], LEAST_PROSE), _len(self.titles[i]), *words, 0)

    def fit(self, width: int | None) -> bool:
        """Shortens and leaves out what there is no room for; whether that does."""
        if width is None:
            return True
        needed = {i: self._needed(i) for i in self.shown}

        def is_too_wide() -> bool:
            return sum(needed[i] for i in self.shown) + len(GAP) * (len(self.shown) - 1) > width

        for i in sorted(self.shown, key=lambda i: (-self.columns[i].rank, -i)):
            if is_too_wide() and any(len(cell.forms) > 1 for cell in self.cells[i]):
                self.form[i] = 1
                needed[i] = self.widths[i] = self._width(i)
        for rank in sorted({self.columns[i].rank for i in self.shown} - {0}, reverse=True):
            if is_too_wide():
                self.shown = [i for i in self.shown if self.columns[i].rank != rank]
        return not is_too_wide()

    def lines(self, width: int | None, rule: str) -> list[Line]:
        """The table, with a last line that says what is left out."""
        widths = {i: self.widths[i] for i in self.shown}
        if width is not None and self.columns[self.shown[-1]].is_prose:
            rest = sum(widths[i] + len(GAP) for i in self.shown[:-1])
            widths[self.shown[-1]] = min(widths[self.shown[-1]], width - rest)
        lines = [self._line([(self.titles[i], "bold") for i in self.shown], widths)]
        lines.append([(rule * (sum(widths.values()) + len(GAP) * (len(widths) - 1)), "dim")])
        for row in zip(*(self.cells[i] for i in self.shown), strict=True):
            texts = [(_form(cell, self.form[i]), cell.style) for i, cell in zip(self.shown, row, strict=True)]
            last, style = texts[-1]
            is_prose = self.columns[self.shown[-1]].is_prose
            first, *more = wrapped(last, widths[self.shown[-1]]) if is_prose and last else [last]
            lines.append(self._line([*texts[:-1], (first, style)], widths))
            indent = " " * sum(widths[i] + len(GAP) for i in self.shown[:-1])
            lines += [[(indent, ""), (text, style)] for text in more]
        if len(self.shown) < len(self.columns):
            gone = ", ".join(self.titles[i] for i in range(len(self.columns)) if i not in self.shown)
            lines += [[(line, "dim")] for line in wrapped(f"not shown at this width: {gone}", width)]
        return lines

    def _line(self, texts: Sequence[tuple[str, str]], widths: dict[int, int]) -> Line:
        line: Line = []
        for k, (i, (text, style)) in enumerate(zip(self.shown, texts, strict=True)):
            space = " " * (widths[i] - _len(text))
            before, after = (space, "") if self.columns[i].is_number else ("", space)
            line += [((GAP if k else "") + before, ""), (text, style), (after, "")]
        return line

    def blocks(self, width: int | None) -> list[Line]:
        """A block a record, a line a column."""
        indent = max(map(_len, self.titles)) + len(GAP)
        lines: list[Line] = []
        for k, row in enumerate(zip(*self.cells, strict=True)):
            lines += [[]] * bool(k)
            for title, cell in zip(self.titles, row, strict=True):
                first, *more = wrapped(cell.forms[0], None if width is None else width - indent)
                lines.append([(title, "bold"), (" " * (indent - _len(title)), ""), (first, cell.style)])
                lines += [[(" " * indent, ""), (text, cell.style)] for text in more]
        return lines


def _turned(rows: Iterable[Sequence[Value]], num_columns: int) -> list[Sequence[Value]]:
    """Rows as columns."""
    return list(zip(*rows, strict=True)) or [()] * num_columns


def _cells(values: Sequence[Value], plain: bool) -> list[Cell]:
    """The cells of one column; numbers and bounds of its estimates stand below each other."""
    found = [value for value in values if isinstance(value, IntervalCell)]
    open_ones = [value for value in found if value.lower != value.upper]
    widths = [max((len(x.parts[k]) for x in (open_ones if k else found)), default=0) for k in range(3)]
    margin = max((len(x.margin) for x in open_ones), default=0)
    return [
        _estimate_cell(value, widths, margin, plain) if isinstance(value, IntervalCell) else _cell(value)
        for value in values
    ]


def _cell(value: Value) -> Cell:
    if isinstance(value, Cell):
        return Cell(tuple(map(one_line, value.forms)), value.style)
    return Cell(("" if value is None else one_line(str(value)),))


def _estimate_cell(e: IntervalCell, widths: Sequence[int], margin: int, plain: bool) -> Cell:
    value, lower, upper = (text.rjust(width) for text, width in zip(e.parts, widths, strict=True))
    sign = PLUS_MINUS[plain]
    if not margin:
        return Cell((value,), e.style)
    if e.lower == e.upper:
        return Cell((value + " " * (widths[1] + widths[2] + 5), value + " " * (1 + len(sign) + margin)), e.style)
    short = f"{sign}{e.margin}".ljust(len(sign) + margin)
    return Cell((f"{value} [{lower}, {upper}]", f"{value} {short}"), e.style)


def _form(cell: Cell, form: int) -> str:
    return cell.forms[min(form, len(cell.forms) - 1)]


def _len(text: str) -> int:
    """Columns that a terminal takes for it."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
