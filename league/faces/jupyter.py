"""Progress in a notebook: one panel below the cell, which is replaced while the call goes on and remains after it."""

from __future__ import annotations

import html
import threading
import time
import uuid
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from league.errors import one_line
from league.printing.dashboard import clock, spark
from league.printing.figures import LearnerFigures, Opponent
from league.printing.progress import named
from league.runtime.phases import gauging
from league.training.run import Callback, Report, Start

if TYPE_CHECKING:
    from league.boards.leaderboards import Rated
    from league.play.summaries import Summary

SHOWN_EVERY = 0.5
"""Seconds between two pictures."""
LINES = 3
"""Of what was said last."""
CURVE = 20
"""Points of a small curve."""
CELL = "style='text-align:right;padding:0 0.6em'"
BAR = (
    "<div style='background:#8884;border-radius:3px;height:8px;width:100%;max-width:36em'>"
    "<div style='background:#4c78a8;border-radius:3px;height:8px;width:{:.1f}%'></div></div>"
)


class Progress(Callback):
    """Shows a training, a learner of it after the other, and how far evaluations, tournaments and gates are.

    It is told in the cell's thread alone, and starts none.
    """

    def __init__(self) -> None:
        self._learners: dict[str, LearnerFigures] = {}
        self._said: deque[str] = deque(maxlen=LINES)
        self._gauge: tuple[str, float, float] | None = None
        self._id, self._shown_at, self._is_shown = uuid.uuid4().hex, 0.0, False
        self._thread = threading.get_ident()
        self._listens = ExitStack()

    def __enter__(self) -> Self:
        self._listens.enter_context(gauging(self._advance))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._listens.close()
        self._gauge = None
        if self._is_shown:
            self._show(is_last=True)

    def began(self, start: Start, name: str = "") -> None:
        """What is told without a name is this run's."""
        self._learner(name or start.run)

    def report(self, report: Report, name: str = "") -> None:
        """Moves the bar."""
        self._gauge = None
        self._learner(report.run).add(report)
        self._show()

    def evaluated(self, steps: int, opponent: str, summary: Summary, name: str = "") -> None:
        """A line of the table."""
        self._learner(name).add_evaluation(opponent, summary)
        self._show()

    def rated(self, steps: int, ratings: Sequence[Rated], name: str = "") -> None:
        """Ratings in the table."""
        self._learner(name).add_ratings(ratings)

    def say(self, message: str, name: str = "") -> None:
        """Kept as one of the last lines."""
        self._said.append(f"{name}: {message}" if name else message)
        self._show()

    def of(self, name: str) -> Callback:
        """The same panel, under the learner's name."""
        return named(self, name)

    def _learner(self, name: str = "") -> LearnerFigures:
        if not name and self._learners:
            return next(iter(self._learners.values()))
        return self._learners.setdefault(name, LearnerFigures(name))

    def _advance(self, name: str, done: float, total: float, steps: int) -> None:
        self._gauge = name, done, total
        self._show()

    def _show(self, is_last: bool = False) -> None:
        now = time.monotonic()
        if threading.get_ident() != self._thread or (now < self._shown_at + SHOWN_EVERY and not is_last):
            return
        from IPython.display import publish_display_data

        data = {"text/html": self.as_html(), "text/plain": self.as_text()}
        published = {"transient": {"display_id": self._id}, "update": self._is_shown}
        publish_display_data(data, **published)  # type: ignore[no-untyped-call]
        self._is_shown, self._shown_at = True, now

    def as_text(self) -> str:
        """A line a learner, for where HTML is not shown."""
        reports = [(name, x.report) for name, x in self._learners.items() if x.report]
        return "\n".join(f"{name}: {r.steps:,} of {r.total_steps:,} steps" for name, r in reports) or "..."

    def as_html(self) -> str:
        """The panel."""
        told = [x for x in self._learners.values() if x.report is not None]
        parts = [_head(learner) for learner in told]
        if len(told) == 1:
            parts.append(_table(told[0]))
        if self._gauge is not None:
            name, done, total = self._gauge
            parts.append(f"<div>{_text(name)}: {done:,.0f} of {total:,.0f}</div>{BAR.format(_percent(done, total))}")
        parts += [f"<div style='opacity:0.65'>{_text(line)}</div>" for line in self._said]
        return f"<div style='font-size:90%;line-height:1.5'>{''.join(parts)}</div>"


def _head(learner: LearnerFigures) -> str:
    """A learner's bar, and where it stands."""
    report = learner.report
    assert report is not None
    words = [f"{report.steps:,} of {report.total_steps:,} steps"]
    if report.steps < report.total_steps:
        words += [f"{report.steps_per_second:,.0f} steps/s", f"{clock(report.seconds_left)} left"]
    if learner.ratings:
        rating, lower, upper = learner.ratings[-1]
        curve = spark([x for x, *_ in learner.ratings], CURVE, False) if len(learner.ratings) > 1 else ""
        words.append(f"rating {rating:,.0f} ±{(upper - lower) / 2:,.0f} {curve}")
    bar = BAR.format(_percent(report.steps, report.total_steps))
    return f"<div><b>{_text(learner.name)}</b> {_text(', '.join(words))}</div>{bar}"


def _table(learner: LearnerFigures) -> str:
    """Its opponents: what it scores in training and in evaluations, and their ratings."""
    rows = "".join(
        f"<tr><td style='text-align:left'>{_text(name)}</td>{cells}</tr>"
        for name, found in learner.opponents.items()
        if (cells := "".join(f"<td {CELL}>{_text(x)}</td>" for x in _cells(found)))
    )
    names = "".join(f"<th {CELL}>{name}</th>" for name in ("training", "evaluation", "rating"))
    head = f"<tr><th style='text-align:left'>against</th>{names}</tr>"
    return f"<table>{head}{rows}</table>" if rows else ""


def _cells(found: Opponent) -> tuple[str, str, str]:
    training = f"{found.training[-1]:.0%}" if found.training else ""
    s = found.evaluation
    evaluation = f"{s.score:.0%} [{s.lower:.0%}, {s.upper:.0%}]" if s else ""
    return training, evaluation, f"{found.rating[0]:,.0f}" if found.rating else ""


def _percent(done: float, total: float) -> float:
    return 100 * min(max(done / total if total else 0.0, 0.0), 1.0)


def _text(words: Any) -> str:
    return html.escape(one_line(str(words)))
