"""Matches that the store keeps whole: played back for a page's player, and what was played in them.

A game's code runs only where this user has named it; a match of another is told of in one line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from league.arena.templates import packed
from league.errors import LeagueError
from league.faces.sections import RunFacts
from league.runtime.phases import phase
from league.store.reading import Reader
from league.store.rows import KeptMatch
from league.types import SEATS

if TYPE_CHECKING:
    from league.arena.replays import Playback

MOST_TOLD = 200
"""Matches of which the actions are told, the newest."""
MOST_REMEMBERED = 16
"""Matches that were packed."""


def key_of(match: KeptMatch) -> str:
    """What names a match in a page."""
    return json.dumps([match.run, match.kind, match.update, match.row, match.ordinal], separators=(",", ":"))


class Films:
    """Plays kept matches back. Torch is loaded with the first one.

    Args:
        store: where they are.
        say: receives a line for each reason why one cannot be played back.
    """

    def __init__(self, store: Reader, say: Callable[[str], None]) -> None:
        self._store, self._say = store, say
        self._told: set[str] = set()
        self._shares: dict[str, list[dict[str, float] | None]] = {}
        """Key of a match -> each seat's actions, and in what share of its decisions it chose them."""
        self._packed: dict[str, str] = {}

    def is_packed(self, key: str) -> bool:
        """Whether a match is remembered."""
        return key in self._packed

    @phase("play a match back")
    def packed(self, key: str) -> str:
        """A match as the player's page takes it (`league.arena.templates.packed`).

        Raises:
            LeagueError: there is none of this key, or it cannot be played back here.
        """
        from league.arena import pages
        from league.arena.frames import course_of
        from league.arena.replays import named

        if key not in self._packed:
            playback = self._playback(key, self._content(key))
            replay = named(playback.replay, self._store)
            found = packed(pages.document(replay, course_of(playback)))
            while len(self._packed) >= MOST_REMEMBERED:
                del self._packed[next(iter(self._packed))]
            self._packed[key] = found
        return self._packed[key]

    def tell_actions(self, facts: Iterable[RunFacts], kept: Sequence[KeptMatch]) -> None:
        """Sets `RunFacts.actions` of runs from what their snapshots did in matches that are kept."""
        newest = {key_of(match): match for match in kept[:MOST_TOLD]}
        with self._store.reading():
            contents = {key: self._content(key) for key in newest if key not in self._shares}
        for key, text in contents.items():
            self._shares[key] = self._seats(key, text)
        shares: dict[str, list[dict[str, float]]] = {}
        for key, match in newest.items():
            for agent, own in zip((match.seat0_agent, match.seat1_agent), self._shares[key], strict=True):
                if own is not None:
                    shares.setdefault(agent, []).append(own)
        for x in facts:
            for row in x.snapshots:
                found = shares.get(row.agent_id, [])
                for name in dict.fromkeys(name for own in found for name in own):
                    mean = sum(own.get(name, 0.0) for own in found) / len(found)
                    x.actions.setdefault(name, []).append((row.step, mean))

    def _seats(self, key: str, text: str | None) -> list[dict[str, float] | None]:
        try:
            return _shares_of(self._playback(key, text))
        except LeagueError as error:
            reason = str(error).rpartition(": ")[2]
            if reason not in self._told:
                self._told.add(reason)
                self._say(f"what was played in some kept matches is not told: {error}")
            return [None] * SEATS

    def _content(self, key: str) -> str | None:
        run, kind, update, row, ordinal = _parsed(key)
        return self._store.replay_content(run, kind, update, row, ordinal)

    def _playback(self, key: str, text: str | None) -> Playback:
        from league.arena import replays

        if text is None:
            raise LeagueError(f"the store keeps no match {key}; load the page again")
        where = f"the match of {_parsed(key)[0]} in {self._store.path}"
        return replays.Playback(replays.parse(text, where), where)


def _parsed(key: str) -> tuple[str, str, int, int, int]:
    """The parts of a key, which may come from anywhere.

    Raises:
        LeagueError: it is none.
    """
    try:
        run, kind, update, row, ordinal = json.loads(key)
        if not (isinstance(run, str) and isinstance(kind, str)):
            raise ValueError
        numbers = [int(x) for x in (update, row, ordinal)]
        if not all(0 <= x < 2**63 for x in numbers):
            raise ValueError
    except (ValueError, TypeError, RecursionError, OverflowError):
        raise LeagueError(f"{key[:80]!r} names no match; load the page again") from None
    return run, kind, numbers[0], numbers[1], numbers[2]


def _shares_of(playback: Playback) -> list[dict[str, float] | None]:
    from league.arena.frames import marks_of, rows_of
    from league.envs import registry

    spec, game = playback.spec.action, playback.replay.game
    labels = rows_of(spec, registry.action_names(game.name, game.options))
    found: list[dict[str, float] | None] = []
    for seat in range(SEATS):
        actions: npt.NDArray[Any] = playback.actions_of(seat)
        marks = np.mean([marks_of(spec, action) for action in actions], 0) if len(actions) else None
        found.append(None if marks is None else dict(zip(labels, marks.tolist(), strict=True)))
    return found
