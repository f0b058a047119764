"""A watcher that fails ends no run: whoever calls for training is heard through this."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from league.boards.standings import Rated
from league.play.evaluation import Summary
from league.training.run import Report, Watcher

_log = logging.getLogger(__name__)


class Silent:
    """A watcher that says nothing."""

    def report(self, report: object) -> None:
        """Ignored."""

    def evaluated(self, steps: int, opponent: str, summary: Summary) -> None:
        """Ignored."""

    def say(self, message: str) -> None:
        """Ignored."""


class Steady:
    """Tells a watcher; what it raises is logged, the first time, and goes no further.

    Its words may have nowhere to go: a closed pipe, a full disk, a service that is down. Signals still end the run.
    """

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._has_failed = False

    def report(self, report: Report) -> None:
        """After every update."""
        self._tell(self._watcher.report, report)

    def evaluated(self, steps: int, opponent: str, summary: Summary) -> None:
        """After the matches of an evaluation against one opponent."""
        self._tell(self._watcher.evaluated, steps, opponent, summary)

    def say(self, message: str) -> None:
        """Something that a user should read."""
        self._tell(self._watcher.say, message)

    def rated(self, update: int, ratings: Sequence[Rated]) -> None:
        """After an evaluation; nothing where the watcher does not take it."""
        self._tell(getattr(self._watcher, "rated", _ignore), update, ratings)

    def of(self, name: str) -> Steady | None:
        """The watcher's of one learner among several, if it has one."""
        found: list[Watcher | None] = []
        self._tell(lambda: found.append(getattr(self._watcher, "of", _ignore)(name)))
        return Steady(found[0]) if found and found[0] is not None else None

    def _tell(self, listen: Callable[..., None], *arguments: object) -> None:
        try:
            listen(*arguments)
        except Exception as error:
            if not self._has_failed and not isinstance(error, OSError):  # of which nobody could read, either
                _log.warning("the watcher failed, and training goes on", exc_info=True)
            self._has_failed = True


def _ignore(*_: object) -> None:
    """What a watcher does that has no such method."""


def steady(watcher: Watcher | None) -> tuple[Steady, Callable[[str], None] | None]:
    """A watcher that cannot fail, and what a store is told by; None where nobody watches, whom its logger tells."""
    safe = Steady(watcher or Silent())
    return safe, None if watcher is None else safe.say
