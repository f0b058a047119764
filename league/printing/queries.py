"""The rows of `league query`: a table, or a block a record where it is too wide; CSV, JSON lines or Markdown."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, time
from typing import Any, Literal, get_args

from league.errors import UsageError, nearest, one_line
from league.printing import plain, put
from league.printing.tables import Column, print_table

Format = Literal["table", "csv", "jsonl", "md"]
LONGEST = 240
"""Letters of a value that are shown in a terminal; files and pipes get all."""
PIPE_WIDTH = 200
"""Columns that a table has where there is no terminal; what is wider is a block a record."""
_BATCH = 1_000
"""Rows that are written at once."""

Rows = Sequence[Sequence[Any]]


def check_format(name: str) -> Format:
    """Refuses what is no format.

    Raises:
        UsageError: it is none.
    """
    formats: tuple[Format, ...] = get_args(Format)
    for known in formats:
        if name == known:
            return known
    raise UsageError(f"format={name}: no such format{nearest(name, formats)}")


def print_rows(
    format: Format, columns: Sequence[str], rows: Rows, width: int | None, is_plain: bool, is_terminal: bool
) -> None:
    """Rows on stdout.

    Args:
        format: `table` is for reading; the others keep every value whole.
        columns: their names.
        rows: a value a column.
        width: of the terminal; None: there is none.
        is_plain: whether it has ASCII letters alone.
        is_terminal: whether CSV, too, is for a terminal, which would obey some letters: they are spelt out.
    """
    if format == "csv" and is_terminal:
        columns = [one_line(column) for column in columns]
        rows = [[one_line(cell) if isinstance(cell, str) else cell for cell in map(_csv, row)] for row in rows]
    if format == "table":
        _print_table(columns, rows, width, is_plain)
    else:
        _WRITERS[format](columns, rows)


def _print_table(columns: Sequence[str], rows: Rows, width: int | None, is_plain: bool) -> None:
    numbers = [
        all((isinstance(row[i], int | float) and not isinstance(row[i], bool)) or row[i] is None for row in rows)
        for i in range(len(columns))
    ]
    heads = [Column(name, is_number=is_number) for name, is_number in zip(columns, numbers, strict=True)]
    cells = ([_text(value, width is not None) for value in row] for row in rows)
    print_table("", heads, cells, width=width or PIPE_WIDTH, is_plain=is_plain)


def _text(value: Any, is_cut: bool) -> str:
    text = "NULL" if value is None else one_line(str(value))
    if is_cut and len(text) > LONGEST:
        return f"{text[:LONGEST]} ... {len(text) - LONGEST:,} more letters (--format jsonl)"
    return text


def _print_csv(columns: Sequence[str], rows: Rows) -> None:
    """CSV as RFC 4180 has it, with line feeds alone; NULL is empty, times are ISO 8601, other values JSON."""
    for batch in _batches([columns, *rows]):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([_csv(value) for value in row] for row in batch)
        put(text.getvalue())


def _csv(value: Any) -> Any:
    if value is None or (isinstance(value, str | int | float) and not isinstance(value, bool)):
        return value
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    found = plain(value)
    return found if isinstance(found, str) else json.dumps(found)


def _print_jsonl(columns: Sequence[str], rows: Rows) -> None:
    """One object a row, and a line; of columns of one name the later ones are NAME_2, NAME_3, ..."""
    names = unique(columns)
    for batch in _batches(rows):
        put(
            "".join(
                json.dumps(dict(zip(names, plain(list(row)), strict=True)), allow_nan=False) + "\n" for row in batch
            )
        )


def _print_md(columns: Sequence[str], rows: Rows) -> None:
    """A table of GitHub's Markdown."""

    def line(values: Iterable[Any]) -> str:
        texts = (_text(value, False).replace("\\", "\\\\").replace("|", "\\|") for value in values)
        return f"| {' | '.join(texts)} |\n"

    put(line(columns) + f"|{'---|' * len(columns)}\n")
    for batch in _batches(rows):
        put("".join(map(line, batch)))


def _batches(rows: Rows) -> Iterator[Rows]:
    return (rows[i : i + _BATCH] for i in range(0, len(rows), _BATCH))


def unique(columns: Sequence[str]) -> list[str]:
    """Each name once: the second of a name is NAME_2, unless that is taken."""
    taken, seen, names = set(columns), Counter[str](), []
    for column in columns:
        seen[column] += 1
        name = column
        while seen[column] > 1 and (name := f"{column}_{seen[column]}") in taken:
            seen[column] += 1
        taken.add(name)
        names.append(name)
    return names


_WRITERS: dict[str, Callable[[Sequence[str], Rows], None]] = {
    "csv": _print_csv,
    "jsonl": _print_jsonl,
    "md": _print_md,
}
