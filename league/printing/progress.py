"""How a training looks from outside: a dashboard in a terminal, plain lines elsewhere, or a JSON object an event.

These are callbacks (`league.training.run.Callback`), which listen to the phases and change nothing.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.live import Live
from rich.text import Text

from league.boards.readings import units
from league.printing import print_json
from league.printing.bars import Terminal
from league.printing.dashboard import Screen, clock, picture
from league.printing.figures import LearnerFigures
from league.printing.sampling import Meter
from league.runtime.phases import gauging, listening
from league.training.evaluating import GAMES
from league.training.run import Callback, Report, Start

if TYPE_CHECKING:
    from league.boards.leaderboards import Rated
    from league.play.summaries import Summary

PLAIN_EVERY = 5
"""Updates between two blocks of plain lines."""
REWARD_LINES = 10
"""Plain lines about the rewards in a stage, beside those of its evaluations."""
SAMPLED_EVERY, DRAWN_EVERY, DRAWN_AT_LEAST = 0.2, 0.5, 5.0
"""Seconds between two looks at the machine, and at least and at most between two pictures."""
MOST_WORK, FIRST_WORK = 0.005, 0.05
"""Share of the process's time that drawing may take, and seconds beside it; else pictures are rarer."""
TOLD_AFTER, TOLD_EVERY = 0.5, 5.0
"""Seconds of an evaluation before its first plain line with a rate, and between two of them."""
STALE = 2.0
"""Seconds after which what was counted last is no longer shown."""
CROWDED = 0.2
"""Share of their time that threads wait for a core, from which on it is said."""
_log = logging.getLogger(__name__)


class TerminalCallback(Callback):
    """A `league.training.run.Callback` that writes to stderr, or JSON lines to stdout.

    Args:
        verbosity: 0 says only errors, 1 shows progress, 2 plain lines for every update.
        json_lines: one JSON object per event on stdout, and nothing on stderr.
    """

    def __init__(self, verbosity: int = 1, *, json_lines: bool = False) -> None:
        self.verbosity, self.json_lines = verbosity, json_lines
        self.console = Terminal()
        self.view = Screen()
        self._is_live = verbosity == 1 and not json_lines and self.console.is_live
        self._screen: _Screen | None = None
        self._meter = Meter()
        self._began = time.perf_counter()
        self._rewards = ""  # a line that has not been said
        self._part: int | None = None
        self._has_told_crowding = False
        self._lock = threading.RLock()
        self._listens = ExitStack()

    def __enter__(self) -> Self:
        if self.verbosity or self.json_lines:
            self._began, self._meter = time.perf_counter(), Meter()
            self._listens.enter_context(listening(self._meter))
            self._listens.callback(self.view.machine.close)
            self._listens.enter_context(gauging(self._advance))
        if self._is_live:
            self._screen = _Screen(self)
            self._screen.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with suppress(OSError):  # nobody reads any more
                if self._screen is not None:
                    self._screen.stop()
                self._say_rewards()
        finally:
            self._screen = None
            self._listens.close()

    # What it is told.

    def began(self, start: Start, name: str = "") -> None:
        """The limits that depend on settings."""
        with self._lock:
            self._learner(name).units = units(start.config)

    def report(self, report: Report, name: str = "") -> None:
        """Draws the update, or writes it."""
        with self._lock:
            self._learner(name).add(report)
        if self.json_lines:
            self.view.machine.sample()
            machine = {"cores": self.view.machine.cores[-1], "memory": self.view.machine.memory}
            shares = self._meter.shares()
            print_json({"event": "update", **asdict(report), "time_goes_to": shares, "machine": machine})
        elif self._screen is None:
            if self.verbosity == 2 or (self.verbosity == 1 and _is_told(report)):
                for key, value in self._plain(report):
                    self.console.tell(f"{key:<9} {value}")
            self._rewards = describe_rewards(report)
            part = REWARD_LINES * report.steps // report.total_steps
            if self._part not in (None, part):
                self._say_rewards()
            self._part = part
        self._tell_crowding()

    def evaluated(self, steps: int, opponent: str, summary: Summary, name: str = "") -> None:
        """One line an opponent, below one about the rewards; the dashboard's row."""
        with self._lock:
            self._learner(name).add_evaluation(opponent, summary)
        if self.json_lines:
            told = {"run": name or self._learner("").name, "steps": steps, "opponent": opponent}
            print_json({"event": "evaluated", **told, "summary": asdict(summary)})
        elif self._screen is None:
            self._say_rewards()
            self.say(f"at {steps:,} {summary.line(opponent)}")

    def rated(self, steps: int, ratings: Sequence[Rated], name: str = "") -> None:
        """The dashboard's ratings."""
        with self._lock:
            self._learner(name).add_ratings(ratings)
        if self.json_lines:
            told = {"run": name or self._learner("").name, "steps": steps}
            print_json({"event": "rated", **told, "ratings": [asdict(rated) for rated in ratings]})

    def say(self, message: str, name: str = "") -> None:
        """One line, unless quiet."""
        with self._lock:
            if name or not self.view.is_league:
                self._learner(name).add_words(message)
        if self.json_lines:
            print_json({"event": "said", "run": name, "message": message})
        elif self.verbosity:
            self.console.tell(f"{name}: {message}" if name else message)

    def of(self, name: str) -> Callback | None:
        """The same for one learner of a league; None where a line a turn is better."""
        if not self._is_live and not self.json_lines:
            return None
        with self._lock:
            self.view.is_league = True
            self._learner(name)
        return named(self, name)

    def result(self, result: Any) -> None:
        """The last JSON line."""
        if self.json_lines:
            print_json({"event": "result"} | asdict(result))

    def picture(self, width: int, height: int, is_over: bool = False) -> list[Text]:
        """The dashboard as it is now."""
        with self._lock:
            view = self.view
            view.seconds = time.perf_counter() - self._began
            view.shares, view.now = self._meter.shares(), "" if is_over else self._meter.now
            if view.progress is not None and time.perf_counter() > self._counted_at + STALE:
                view.progress = None
            return picture(view, width, height, self.console.is_plain)

    _counted_at = 0.0
    _count_began = _count_due = 0.0

    def _advance(self, name: str, done: float, total: float, steps: int) -> None:
        now = self._counted_at = time.perf_counter()
        is_new = not done and not steps
        if is_new:
            self._count_began, self._count_due = now, now + TOLD_AFTER
        rate = steps / max(now - self._count_began, 1e-9)
        self.view.progress = name, done, total, rate
        if self._screen is None and ((is_new and name == GAMES) or now >= self._count_due):
            self._count_due += 0.0 if is_new else TOLD_EVERY
            with suppress(OSError):  # nobody reads any more, and what is played goes on
                self._tell_count(name, int(done), int(total), rate)

    def _tell_count(self, name: str, done: int, total: int, rate: float) -> None:
        if self.json_lines:
            told = {"of": name, "done": done, "total": total, "steps_per_second": rate}
            print_json({"event": "evaluating", **told})
        elif self.verbosity:
            self.console.tell(f"evaluation: {done:,} of {total:,} {name}" + (f", {rate:,.0f} steps/s" if rate else ""))

    def _learner(self, name: str) -> LearnerFigures:
        return self.view.learners.setdefault(name, LearnerFigures(name))

    def _tell_crowding(self) -> None:
        """Once: other processes use the cores that several threads of this one wait for."""
        torch = sys.modules.get("torch")
        threads = torch.get_num_threads() if torch is not None and not torch.cuda.is_initialized() else 1
        if threads > 1 and not self._has_told_crowding and (share := self.view.machine.crowding()) > CROWDED:
            self._has_told_crowding = True
            self.say(
                f"other processes use its cores: its {threads} threads wait for one {share:.0%} of their time, and then"
                " for each other; OMP_NUM_THREADS=1 in the environment may be many times as fast"
            )

    def _say_rewards(self) -> None:
        if self._rewards:
            self.say(self._rewards)
        self._rewards = ""

    def _plain(self, report: Report) -> list[tuple[str, str]]:
        """An update in two columns, whose keys are always the same."""
        machine = self.view.machine
        machine.sample()
        done = min(1.0, report.steps / report.total_steps)
        spent = ", ".join(f"{kind} {share:.0%}" for kind, share in self._meter.shares().items() if share >= 0.005)
        rates = ", ".join(f"{group.removeprefix('bot:')} {rate:.0%}" for group, rate in report.win_rates.items())
        m = report.metrics
        elapsed, left = clock(time.perf_counter() - self._began), clock(report.seconds_left)
        cores = f"{machine.cores[-1]:.1f} of {machine.num_cores} cores" if machine.cores else "-"
        return [
            ("steps", f"{report.steps:,} of {report.total_steps:,}, {done:.0%}"),
            ("time", f"{elapsed} elapsed, {left} left"),
            ("rate", f"{report.steps_per_second:,.0f} steps/s; {spent}"),
            ("won", rates or "-"),
            ("learning", f"entropy {m['entropy']:.2f}, KL {m['approx_kl']:.4f}, clipped {m['clip_share']:.0%}"),
            ("machine", f"{cores}, {machine.memory / 2**30:.2f} GiB"),
        ]


def named(callback: Callback, name: str) -> Callback:
    """What `callback` hears of one learner of a league, each time with the learner's name."""
    learner = Callback()
    for method in ("began", "report", "evaluated", "rated", "say"):
        setattr(learner, method, partial(getattr(callback, method), name=name))
    return learner


class _Screen:
    """Draws a callback's picture again and again, in a thread of its own that takes next to nothing."""

    def __init__(self, callback: TerminalCallback) -> None:
        self._callback, self._console = callback, callback.console
        self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop", redirect_stdout=False)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dashboard", daemon=True)
        self._width, self._widths = 0, [0]

    def start(self) -> None:
        """Begins to draw."""
        with suppress(OSError):
            self._live.start()
        self._thread.start()

    def stop(self) -> None:
        """Draws a last time; the picture remains."""
        self._is_over.set()
        self._thread.join()
        self._draw()
        self._live.stop()

    def _run(self) -> None:
        began, drawn_at = time.process_time(), time.perf_counter()
        try:
            while not self._is_over.wait(SAMPLED_EVERY):
                self._callback.view.machine.sample()
                since = time.perf_counter() - drawn_at
                may = time.thread_time() <= FIRST_WORK + MOST_WORK * (time.process_time() - began)
                if since >= (DRAWN_EVERY if may else DRAWN_AT_LEAST):
                    self._draw()
                    drawn_at = time.perf_counter()
        except OSError:  # the terminal is gone
            return
        except Exception:
            _log.warning("the dashboard failed, and training goes on", exc_info=True)

    def _draw(self) -> None:
        width, height = self._console.size
        lines = self._callback.picture(width, max(height - 1, 1), self._is_over.is_set())
        shown = Text("\n", no_wrap=True, overflow="crop").join(lines)
        self._reflow(width)
        self._live.update(shown, refresh=True)
        self._width, self._widths = width, [line.cell_len for line in lines]

    def _reflow(self, width: int) -> None:
        """A terminal that has become narrower has folded the lines that stand there; so many rows are overwritten."""
        render = getattr(self._live, "_live_render", None)
        if width < self._width and getattr(render, "_shape", None) is not None:
            render._shape = width, sum(max(1, -(-wide // max(width, 1))) for wide in self._widths)  # type: ignore[union-attr]


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
