"""The engine's current phase and its progress, for listeners: `league bench`, a progress bar, a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, contextmanager
from types import TracebackType

Listener = Callable[[str, bool], None]
"""Is called with a phase's name, and True as it begins or False as it ends, also by an error."""

Gauge = Callable[[str, float, float, int], None]
"""Is called with the name of what is counted, how much of it is done, how much there is, and the steps played."""

_listeners: list[Listener] = []
_gauges: list[Gauge] = []


class phase(ContextDecorator):
    """A stretch of work with a name: `with phase("play"):`, or `@phase("play")` for a whole function.

    Costs about a microsecond where nobody listens. A phase may lie in another, and may be entered in any thread.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        for listener in _listeners:
            listener(self.name, True)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for listener in _listeners:
            listener(self.name, False)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Meanwhile `listener` is called, in the phase's thread, at the beginning and at the end of every act."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def advance(name: str, done: float, total: float, steps: int = 0) -> None:
    """Says how far something is: `done` of `total`. It may lie in another: `matches` of a batch in a tournament's
    `games`.

    steps: of the matches played since the count began, where it counts matches.
    """
    for gauge in _gauges:
        gauge(name, done, total, steps)


@contextmanager
def gauging(gauge: Gauge) -> Iterator[None]:
    """Meanwhile `gauge` is called, in its thread, whenever something advances."""
    _gauges.append(gauge)
    try:
        yield
    finally:
        _gauges.remove(gauge)
