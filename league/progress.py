"""How a training run looks in a terminal: two live lines, or plain lines where there is no terminal."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from league.errors import visible
from league.play.evaluation import Summary
from league.training.run import Report

PLAIN_EVERY = 5
"""Updates between two lines where there is no terminal."""
REWARD_LINES = 10
"""Lines about the rewards in a stage, beside those of its evaluations."""


class TerminalWatcher:
    """A `league.training.run.Watcher` that writes to stderr.

    Args:
        verbosity: 0 says only errors, 1 shows progress, 2 a line for every update.
    """

    def __init__(self, verbosity: int = 1) -> None:
        self.verbosity = verbosity
        self.console = _Console(stderr=True, highlight=False)
        self._is_live = verbosity == 1 and self.console.is_terminal
        self._progress = _TwoLines(
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} steps"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[rate]}"),
            console=self.console,
            disable=not self._is_live,
        )
        self._task: TaskID | None = None
        self._rewards = ""  # a line that has not been said
        self._part: int | None = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # nobody reads any more
            self._progress.stop()
            self._say_rewards()

    def report(self, report: Report) -> None:
        """Moves the bar, or writes a line."""
        rate = f"{report.steps_per_second:,.0f}/s  {_duration(report.seconds_left)} left"
        if self._is_live:
            self._progress.detail = visible(_detail(report))
            done = min(report.steps, report.total_steps)
            if self._task is None:
                self._task = self._progress.add_task("", total=report.total_steps, completed=done, rate=rate)
            self._progress.update(self._task, completed=done, rate=rate)
        elif self.verbosity == 2 or (self.verbosity == 1 and _is_told(report)):
            self._print(f"{report.steps:,}/{report.total_steps:,} steps  {rate}  {_detail(report)}")
        self._rewards = describe_rewards(report)
        part = REWARD_LINES * report.steps // report.total_steps
        if self._part not in (None, part):
            self._say_rewards()
        self._part = part

    def evaluated(self, steps: int, opponent: str, summary: Summary) -> None:
        """One line an opponent, below one about the rewards."""
        self._say_rewards()
        self.say(f"at {steps:,} {summary.line(opponent)}")

    def say(self, message: str) -> None:
        """One line, unless quiet."""
        if self.verbosity:
            self._print(message)

    def _say_rewards(self) -> None:
        if self._rewards:
            self.say(self._rewards)
        self._rewards = ""

    def _print(self, line: str) -> None:
        self.console.print(Text(visible(line)), soft_wrap=True)


class _Console(Console):
    """One whose reader may leave: rich would end the process."""

    def on_broken_pipe(self) -> None:
        """Raises what was raised."""
        raise


class _TwoLines(Progress):
    """A progress bar with a line of text below it, cut at the terminal's width."""

    detail = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bar, then the text."""
        yield from super().get_renderables()
        if self.detail:
            yield Text(self.detail, no_wrap=True, overflow="ellipsis")


def describe_rewards(report: Report) -> str:
    """What the weighted terms brought the learner a match, in one line; empty where there was no match."""
    if not report.rewards:
        return ""
    total = sum(term.weighted for term in report.rewards)
    parts = [f"{t.term} {t.weighted:+z.2f}" for t in report.rewards if abs(t.weighted) >= 0.005]
    matches = report.rewards[0].matches
    return f"at {report.steps:,} reward a match {total:z.2f} (last {matches}):  {'  '.join(parts)}"


def _is_told(report: Report) -> bool:
    """The first update, every few, and the last."""
    return report.update == 1 or report.update % PLAIN_EVERY == 0 or report.steps >= report.total_steps


def _duration(seconds: float) -> str:
    """Hours, minutes and seconds as a clock shows them."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _detail(report: Report) -> str:
    rates = " ".join(f"{group.removeprefix('bot:')} {rate:.0%}" for group, rate in report.win_rates.items())
    m = report.metrics
    learning = f"entropy {m['entropy']:.2f}  KL {m['approx_kl']:.4f}  clipped {m['clip_share']:.0%}"
    return f"won: {rates or '-'}  {learning}"
