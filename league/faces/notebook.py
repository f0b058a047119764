"""For a notebook or a script: a store's rows as tables that lie in memory, and the door that shows progress there.

What is read here is copied before a call returns, so that a table does not change with the store.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from league import config as settings
from league.boards import plots
from league.boards.payoff import Payoff, payoffs
from league.config.written import as_words
from league.errors import DEFAULT_STORE, LeagueError, StoreError, UsageError, nearest
from league.printing.queries import unique
from league.store.store import Store
from league.types.arguments import typed
from league.types.results import Grid, Result

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from league.faces.jupyter import Progress
    from league.printing.progress import TerminalCallback

MOST_CURVES = 8
"""That a table is drawn as where nobody says which."""


@dataclass(frozen=True, repr=False)
class StoreTable(Result):
    """Rows of a store, copied into memory; the store is free again."""

    columns: tuple[str, ...]
    """Their names, each once."""
    rows: tuple[tuple[Any, ...], ...]

    def grids(self) -> list[Grid]:
        """Itself."""
        return [Grid(self.columns, self.rows)]

    def df(self) -> pd.DataFrame:
        """As `to_df`."""
        return self.to_df()

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        names = ", ".join(self.columns[:6]) + (", ..." if len(self.columns) > 6 else "")
        return f"Table({len(self.rows):,} rows: {names})"

    @typed
    def plot(self, x: str | None = None, y: str | Sequence[str] | None = None) -> Figure:
        """Columns of numbers as curves over another one, each on its own scale.

        Args:
            x: over which; `steps` if there is such a column, else the first one of numbers.
            y: which; the first `MOST_CURVES` other columns of numbers if not given.

        Raises:
            UsageError: no such column, it has no numbers, or matplotlib is not installed.
        """
        numbers = [name for name, column in self._by_column().items() if _are_numbers(column)]
        x = x or ("steps" if "steps" in numbers else next(iter(numbers), ""))
        names = [y] if isinstance(y, str) else list(y or [name for name in numbers if name != x][:MOST_CURVES])
        if not names:
            raise UsageError(
                "plot: there are no two columns of numbers; query some, as in SELECT steps, value FROM ..."
            )
        for name in (x, *names):
            if name not in numbers:
                raise UsageError(f"plot: no column {name!r} of numbers{nearest(name, numbers)}")
        found = self._by_column()
        curves = {
            name: sorted((a, b) for a, b in zip(found[x], found[name], strict=True) if a is not None and b is not None)
            for name in names
        }
        return plots.lines("", x, curves)

    def _by_column(self) -> dict[str, tuple[Any, ...]]:
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.columns)
        return dict(zip(self.columns, columns, strict=True))


def _are_numbers(column: Sequence[Any]) -> bool:
    kept = [value for value in column if value is not None]
    return bool(kept) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in kept)


def query(sql: str, *, store: str | Path = DEFAULT_STORE) -> StoreTable:
    """Runs one SELECT on the store, within the limits of `league query`: 30 seconds, 1,000,000 rows, 256 MiB.

    Args:
        sql: it reads nothing but the store's rows: tables `run`, `agent`, `snapshot`, `match`, `rating`, `metric`,
            `event`, ..., and the view `evaluation_game`.
        store: its folder; trainings may be writing there at the same time.

    Raises:
        UsageError: it is not one read, or its result is too large.
        StoreError: it took too long, or the store cannot be read.
    """
    columns, rows = Store.open(Path(store)).query(sql)
    return StoreTable(tuple(unique(columns)), tuple(rows))


def runs(*, store: str | Path = DEFAULT_STORE) -> StoreTable:
    """The runs of a store, oldest first, with their true status: `died` is one whose process was killed.

    Raises:
        StoreError: the store cannot be read.
    """
    opened = Store.open(Path(store))
    roles = {row.run: row.role for row in opened.learners()}
    columns = ("run", "game", "stage", "role", "status", "steps", "updates", "seed", "preset", "device", "started_at")
    rows = [
        (
            *(row.run, row.game, row.stage, roles.get(row.run), status, row.steps, row.update, row.seed),
            *(row.preset, row.device, row.started_at),
        )
        for row, status in opened.runs_with_status()
    ]
    return StoreTable(columns, tuple(rows))


def metrics(run: str, *, store: str | Path = DEFAULT_STORE) -> StoreTable:
    """A run's metrics: a row an update, a column a metric (docs/training.md); None where it has no number then.

    Raises:
        UsageError: no such run.
        StoreError: the store cannot be read.
    """
    opened = Store.open(Path(store))
    with opened.reading():
        opened.find_run(run)
        found = opened.metrics(run)
    names = sorted({name for _, _, name, _ in found})
    updates: dict[tuple[int, int], dict[str, float | None]] = {}
    for update, steps, name, value in found:
        updates.setdefault((update, steps), {})[name] = value
    rows = tuple((update, steps, *map(values.get, names)) for (update, steps), values in updates.items())
    return StoreTable(("update", "steps", *names), rows)


def payoff(run: str | None = None, *, store: str | Path = DEFAULT_STORE) -> Payoff:
    """Who beats whom in the evaluation matches, with Nash mixture and alpha-rank.

    Args:
        run: only this run's snapshots and whom they met; all agents of the latest run's game if not given.
        store: its folder.

    Raises:
        UsageError: no such run, or more than 2,000 agents.
        StoreError: there is no match yet, or the store cannot be read.
    """
    opened = Store.open(Path(store))
    found = payoffs(opened, run)
    if not found:
        raise StoreError(f"no matches yet in {opened.path}; run `league.train(...)` first")
    return found[0]


def in_notebook() -> bool:
    """Whether a kernel of Jupyter's calls, so that what is displayed is seen."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is not None


@cache
def shown(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with its progress shown: in a notebook below the cell, else that of a training on stderr.

    A `callback` that is given is the only one; `callback=()` shows nothing; nor does `run.verbosity=0` on stderr.
    """
    watches = "callback" in signature(function).parameters

    @wraps(function)
    def showing(*arguments: Any, **named: Any) -> Any:
        if named.get("callback") is not None or not (watches or in_notebook()):
            return function(*arguments, **named)
        with _shown_by(signature(function).bind_partial(*arguments, **named).arguments) as progress:
            return function(*arguments, **{**named, **({"callback": progress} if watches else {})})

    return showing


def _shown_by(given: Mapping[str, Any]) -> Progress | TerminalCallback:
    """What shows the progress of a call with these arguments."""
    if in_notebook():
        from league.faces.jupyter import Progress

        return Progress()
    from league.printing.progress import TerminalCallback

    verbosity = 1
    with suppress(LeagueError):  # the call raises it, too
        sets, _ = settings.role_sets(as_words(given.get("overrides", ())))
        verbosity = settings.verbosity(given.get("stage", "test50k"), given.get("config_file"), sets)
    return TerminalCallback(verbosity)
