"""How a training run looks in a terminal: one live line, and plain lines where there is no terminal or for more detail."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from league.evaluation import Summary
from league.training import Report

PLAIN_EVERY = 5
"""Updates between two lines where there is no terminal."""


class TerminalWatcher:
    """A `league.training.Watcher` that writes to stderr.

    Args:
        verbosity: 0 says only what must be read, 1 shows progress, 2 a line for every update.
    """

    def __init__(self, verbosity: int = 1) -> None:
        self.verbosity = verbosity
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._is_live = verbosity == 1 and self.console.is_terminal
        self._progress = Progress(
            TextColumn("{task.completed:>10,.0f}/{task.total:,.0f} steps"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[detail]}"),
            console=self.console,
            disable=not self._is_live,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def report(self, report: Report) -> None:
        """Moves the bar, or writes a line."""
        if self._is_live:
            if self._task is None:
                self._task = self._progress.add_task("", total=report.total_steps, rate="", detail="")
            self._progress.update(
                self._task, completed=report.steps, rate=f"{report.steps_per_second:,.0f}/s", detail=_detail(report)
            )
        elif self.verbosity == 2 or (self.verbosity == 1 and report.update % PLAIN_EVERY == 0):
            left = f"{report.seconds_left / 60:.1f} min left"
            rate = f"{report.steps_per_second:,.0f}/s"
            self.console.print(
                escape(f"{report.steps:>10,}/{report.total_steps:,} steps  {rate}  {left}  {_detail(report)}")
            )

    def evaluated(self, steps: int, opponent: str, summary: Summary) -> None:
        """One line an opponent."""
        if self.verbosity:
            self.console.print(escape(f"evaluation at {steps:,}: {describe(opponent, summary)}"))

    def say(self, message: str) -> None:
        """One line, unless quiet."""
        if self.verbosity:
            self.console.print(escape(message))


def describe(opponent: str, summary: Summary) -> str:
    """A summary in one line: score with interval, counts, and how the matches went for both sides."""
    name = opponent if opponent.startswith("bot:") else opponent[:12]
    counts = f"{summary.wins} won, {summary.draws} drawn, {summary.losses} lost"
    score = f"score {summary.score:.0%} [{summary.lower:.0%}, {summary.upper:.0%}]"
    return f"against {name}: {score}, {counts}"


def _detail(report: Report) -> str:
    rates = "  ".join(f"{group.removeprefix('bot:')} {rate:.0%}" for group, rate in report.win_rates.items())
    m = report.metrics
    return f"won: {rates or '-'}  entropy {m['entropy']:.2f}  KL {m['approx_kl']:.4f}  clipped {m['clip_share']:.0%}"
