"""Callbacks behind a guard: one that fails ends no run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from league.boards.standings import Rated
from league.errors import LeagueError, is_signal
from league.play.evaluation import Summary
from league.training.run import Report, Start, Watcher

_log = logging.getLogger(__name__)


class Steady(Watcher):
    """Tells watchers. What one raises is logged, the first time, and goes no further; a known error is told the others.

    Their words may have nowhere to go: a closed pipe, a full disk, a service that is down. Signals still end the run.

    Args:
        watchers: each may lack methods.
        ended_by: methods of watchers that have returned False, of all learners of a league together.
    """

    def __init__(self, watchers: Sequence[Watcher], ended_by: list[str] | None = None) -> None:
        self._watchers = watchers
        self._failed: set[tuple[int, str]] = set()
        """Of a watcher: what it raised."""
        self._ended_by: list[str] = [] if ended_by is None else ended_by

    @property
    def is_over(self) -> bool:
        """Whether a watcher has ended the run."""
        return bool(self._ended_by)

    def began(self, start: Start) -> None:
        """Before a run plays."""
        self._tell("began", start)

    def report(self, report: Report) -> None:
        """After every update."""
        self._tell("report", report)

    def evaluated(self, steps: int, opponent: str, summary: Summary) -> None:
        """After the matches of an evaluation against one opponent."""
        self._tell("evaluated", steps, opponent, summary)

    def rated(self, steps: int, ratings: Sequence[Rated]) -> None:
        """After an evaluation."""
        self._tell("rated", steps, ratings)

    def saved(self, steps: int) -> None:
        """Once a state is saved."""
        self._tell("saved", steps)

    def ended(self, steps: int, status: str) -> None:
        """At the end."""
        self._tell("ended", steps, status)

    def say(self, message: str) -> None:
        """Something that a user should read."""
        self._tell("say", message)

    def of(self, name: str, *, takes_turns: bool = True) -> Steady:
        """Those who are told of one learner of a league; a learner without one gets a line a turn.

        takes_turns: others train in this process, too; without them such a watcher is told itself.
        """
        found: list[Watcher] = []
        for watcher in self._watchers:
            own: Any = self._call(watcher, "of", name)
            found.append(own or (Notes(name, watcher) if takes_turns else watcher))
        return Steady(found, self._ended_by)

    def turn_over(self) -> None:
        """A learner's turn is over."""
        self._tell("turn_over")

    def _tell(self, what: str, *arguments: object) -> None:
        for watcher in self._watchers:
            if self._call(watcher, what, *arguments) is False:
                self._ended_by.append(what)

    def _call(self, watcher: Watcher, what: str, *arguments: object) -> object:
        """What a watcher's method gives; None where it has none or fails. Its look-up is the watcher's code, too."""
        try:
            listen = getattr(watcher, what, None)
            return None if listen is None else listen(*arguments)
        except BaseException as error:
            if is_signal(error):
                raise
            failure = id(watcher), str(error) if isinstance(error, LeagueError) else ""
            if failure not in self._failed:
                self._failed.add(failure)
                self._tell_of(error, [other for other in self._watchers if other is not watcher])
        return None

    def _tell_of(self, error: BaseException, others: Sequence[Watcher]) -> None:
        if isinstance(error, LeagueError):
            for other in others:
                self._call(other, "say", str(error))
            if not others:
                _log.warning("%s", error)
        elif not isinstance(error, OSError):  # of which nobody could read, either
            _log.warning("the watcher failed, and training goes on", exc_info=error)


class Notes(Watcher):
    """Tells a watcher of one learner among several: a line a turn, each with the learner's name."""

    def __init__(self, name: str, watcher: Watcher) -> None:
        self._name, self._watcher = name, watcher
        self._last: Report | None = None

    def report(self, report: Report) -> None:
        """Kept until the turn's end."""
        self._last = report

    def evaluated(self, steps: int, opponent: str, summary: Summary) -> None:
        """A line, with the name."""
        self.say(f"at {steps:,} {summary.line(opponent)}")

    def say(self, message: str) -> None:
        """The same, with the name."""
        self._watcher.say(f"{self._name}: {message}")

    def turn_over(self) -> None:
        """What the turn came to."""
        report, self._last = self._last, None
        if report is not None:
            rates = " ".join(f"{group.removeprefix('bot:')} {x:.0%}" for group, x in report.win_rates.items())
            done = f"{report.steps:,}/{report.total_steps:,} steps  {report.steps_per_second:,.0f}/s"
            self.say(f"{done}  won: {rates or '-'}")


def steady(watcher: Watcher | Sequence[Watcher] | None) -> tuple[Steady, Callable[[str], None] | None]:
    """Watchers that cannot fail, and what a store is told by; None where nobody watches, whom its logger tells."""
    watchers: Sequence[Watcher] = (
        () if watcher is None else watcher if isinstance(watcher, list | tuple) else (watcher,)
    )
    safe = Steady(watchers)
    return safe, safe.say if watchers else None
