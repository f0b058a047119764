"""Callbacks behind a guard: one that fails ends no run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from league.boards.leaderboards import Rated
from league.errors import LeagueError, UsageError, is_signal, shown
from league.play.summaries import Summary
from league.runtime.process import StepKept
from league.training.run import Callback, Report, Start

_log = logging.getLogger(__name__)


class Callbacks(Callback):
    """Calls several callbacks. It logs the first error of each, and reports a `LeagueError` to the others.

    Their words may have nowhere to go: a closed pipe, a full disk, a service that is down. Signals still end the run.

    Args:
        callbacks: each may lack methods.
        ended_by: methods of callbacks that have returned False, of all learners of a league together.
    """

    def __init__(self, callbacks: Sequence[Callback], ended_by: list[str] | None = None) -> None:
        self._callbacks = callbacks
        self._failed: set[tuple[int, str]] = set()
        """Of a callback: the `LeagueError` that it raised, or the method that gave what is ignored."""
        self._ended_by: list[str] = [] if ended_by is None else ended_by

    @property
    def is_over(self) -> bool:
        """Whether a callback has ended the run."""
        return bool(self._ended_by)

    @property
    def say_or_log(self) -> Callable[[str], None] | None:
        """`say`, for a store; None where there is no callback, since the store logs then."""
        return self.say if self._callbacks else None

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

    def of(self, name: str, *, takes_turns: bool = True) -> Callbacks:
        """Those who are told of one learner of a league; a learner without one gets a line a turn.

        takes_turns: others train in this process, too; without them the callback itself is called.
        """
        found: list[Callback] = []
        for callback in self._callbacks:
            own: Any = self._call(callback, "of", name)
            if own is not None and (isinstance(own, type) or not _methods(own)):
                self._tell_ignored(callback, "of", own, "a callback or None")
                own = None
            found.append(own or (Notes(name, callback) if takes_turns else callback))
        return Callbacks(found, self._ended_by)

    def turn_over(self) -> None:
        """A learner's turn is over."""
        self._tell("turn_over")

    def _tell(self, what: str, *arguments: object) -> None:
        for callback in self._callbacks:
            found = self._call(callback, what, *arguments)
            if type(found).__name__ in ("bool", "bool_"):  # numpy's, too
                self._ended_by += [] if found else [what]
            elif found is not None:
                self._tell_ignored(callback, what, found, "True, False or None")

    def _tell_ignored(self, callback: Callback, what: str, found: object, wanted: str) -> None:
        if (id(callback), what) not in self._failed:
            self._failed.add((id(callback), what))
            _log.warning("%s() of a callback gave %s: must be %s; it is ignored", what, shown(found), wanted)

    def _call(self, callback: Callback, what: str, *arguments: object) -> object:
        """What a callback's method gives; None where it has none or fails. Its look-up is the callback's code, too."""
        try:
            with StepKept():
                listen = getattr(callback, what, None)
                return None if listen is None else listen(*arguments)
        except BaseException as error:
            if is_signal(error):
                raise
            failure = id(callback), str(error) if isinstance(error, LeagueError) else ""
            if failure not in self._failed:
                self._failed.add(failure)
                self._tell_of(callback, error)
        return None

    def _tell_of(self, callback: Callback, error: BaseException) -> None:
        others = [other for other in self._callbacks if other is not callback]
        if isinstance(error, LeagueError):
            for other in others:
                self._call(other, "say", str(error))
            if not others:
                _log.warning("%s", error)
        elif not (isinstance(error, OSError) and type(callback).__module__.startswith("league.")):
            # of a stream of ours that is closed or full nobody could read, either
            _log.warning("the callback failed, and training goes on", exc_info=error)


class Notes(Callback):
    """Tells a callback of one learner among several: a line a turn, each with the learner's name."""

    def __init__(self, name: str, callback: Callback) -> None:
        self._name, self._callback = name, callback
        self._last: Report | None = None

    def report(self, report: Report) -> None:
        """Kept until the turn's end."""
        self._last = report

    def evaluated(self, steps: int, opponent: str, summary: Summary) -> None:
        """A line, with the name."""
        self.say(f"at {steps:,} {summary.line(opponent)}")

    def say(self, message: str) -> None:
        """The same, with the name."""
        self._callback.say(f"{self._name}: {message}")

    def turn_over(self) -> None:
        """What the turn came to."""
        report, self._last = self._last, None
        if report is not None:
            rates = " ".join(f"{group.removeprefix('bot:')} {x:.0%}" for group, x in report.win_rates.items())
            done = f"{report.steps:,}/{report.total_steps:,} steps  {report.steps_per_second:,.0f}/s"
            self.say(f"{done}  won: {rates or '-'}")


def callbacks_of(callback: Callback | Sequence[Callback] | None) -> Callbacks:
    """The callbacks of a call as one that cannot fail."""
    if callback is None:
        return Callbacks(())
    found = callback if isinstance(callback, list | tuple) else (callback,)
    for each in found:
        if isinstance(each, type):
            raise UsageError(f"callback={shown(each)}: is a class; pass an object of it, {each.__name__}()")
        if not _methods(each):
            raise UsageError(
                f"callback={shown(each)}: has no method of league.Callback ({', '.join(_methods(Callback))});"
                f" give it one, or leave it out"
            )
    return Callbacks(found)


def _methods(callback: object) -> list[str]:
    """The methods of a `Callback` that an object has, of a subclass those that it overrides."""
    found = {name: getattr(callback, name, None) for name in vars(Callback) if name[0] != "_"}
    usual = {} if type(callback) is Callback else vars(Callback)
    return [x for x, has in found.items() if callable(has) and getattr(has, "__func__", 0) is not usual.get(x)]
