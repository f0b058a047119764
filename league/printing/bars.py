"""A progress bar with the time left for commands that play, read or measure for a while."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from league.printing import say
from league.printing.tables import wrapped
from league.runtime.phases import gauging

SHOWN_EVERY = 0.1
"""Seconds between two movements."""


class Terminal(Console):
    """stderr. Its reader may leave, whereupon rich would end the process, and its cursor is never hidden.

    So nothing is left to be mended, however the process ends.
    """

    def __init__(self) -> None:
        super().__init__(stderr=True, highlight=False, emoji=False)

    def on_broken_pipe(self) -> None:
        """Raises what was raised."""
        raise

    def show_cursor(self, show: bool = True) -> bool:
        """Leaves it as it is."""
        return False

    @property
    def is_live(self) -> bool:
        """Whether lines on it can be written again: a terminal that understands escapes."""
        return self.is_terminal and self.is_interactive and not self.is_dumb_terminal and _is_a_tty(self)

    @property
    def is_plain(self) -> bool:
        """Whether it has ASCII letters alone."""
        return not self.encoding.lower().startswith("utf")

    def tell(self, line: str) -> None:
        """A line above the live display; in a terminal it is wrapped between words, but for commands to be copied."""
        is_copied = not self.is_live or "league " in line
        for part in wrapped(line, None if is_copied else self.width):
            self.print(Text(part), soft_wrap=True)


def _is_a_tty(console: Console) -> bool:
    try:
        return bool(console.file.isatty())
    except (AttributeError, ValueError):
        return False


class Bar:
    """Shows what `league.runtime.phases.advance` gives; nothing where stderr is no terminal, or `quiet`."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._console = Terminal()
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._outer: tuple[float, float] | None = None
        self._name, self._shown_at = "", 0.0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if not self._quiet and self._console.is_live:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                TextColumn("{task.completed:,.0f} of {task.total:,.0f}"),
                TimeRemainingColumn(compact=True),
                TextColumn("left"),
                console=self._console,
                transient=True,
                redirect_stdout=False,
                refresh_per_second=4,
                expand=True,
            )
            self._stack.enter_context(self._progress)
            self._stack.enter_context(gauging(self._advance))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # nobody reads any more
            self._stack.close()
        self._progress = None

    def say(self, message: str) -> None:
        """A line, unless quiet."""
        if self._progress is None:
            say(message, self._quiet)
        else:
            with suppress(OSError):
                self._console.tell(message)

    def _advance(self, name: str, done: float, total: float, steps: int) -> None:
        """A batch's matches move the bar within the games of all."""
        if name == "games":
            self._outer = done, total
        elif name == "matches" and self._outer is not None:
            name, done, total = "games", self._outer[0] + done, self._outer[1]
        now = time.monotonic()
        if self._progress is None or (name == self._name and now < self._shown_at + SHOWN_EVERY and done < total):
            return
        with suppress(OSError):
            if name != self._name:
                if self._task is not None:
                    self._progress.remove_task(self._task)
                self._task = self._progress.add_task(name, total=total)
            assert self._task is not None
            self._progress.update(self._task, completed=min(done, total), total=total)
        self._name, self._shown_at = name, now
