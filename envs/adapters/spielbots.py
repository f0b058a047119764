"""The 43 bots of the RoShamBo competitions, as OpenSpiel has them, as players of repeated rock, paper, scissors.

A RoShamBo bot is an object with a history of its own, which has to be asked once at each throw. All of them draw from
C's `random()`, which a process has once. So each has a state of that generator, seeded for its match, which is there
only while it plays.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

import pyspiel

from league.envs.matches.row import PlayerMaker

PREFIX = "roshambo:"
"""Of the names of these bots."""
MATCH_THROWS = 1_000
"""Of a match of the competition. Bots are told this length in shorter matches, too, which are then its beginning:
greenberg ends the process where it is told of 120 throws. In longer ones some would read past their tables."""
STATE_BYTES = 128
"""Of `random()` as it is where nobody seeds it."""

_lock = threading.Lock()


class Generator:
    """A state of C's `random()`.

    seed: 64 bits, of which the generator takes 32.
    """

    def __init__(self, seed: int) -> None:
        self._state = ctypes.create_string_buffer(STATE_BYTES)
        with _lock:
            _libc.setstate(_libc.initstate((seed ^ seed >> 32) & 0xFFFFFFFF, self._state, STATE_BYTES))

    def __enter__(self) -> None:
        _lock.acquire()
        self._other = _libc.setstate(ctypes.addressof(self._state))

    def __exit__(self, *error: object) -> None:
        _libc.setstate(self._other)
        _lock.release()


class RoShamBo:
    """A bot of the competition in one seat of a match.

    Args:
        name: as OpenSpiel has it.
        match: of a repeated game of rock, paper, scissors.
        seat, seed: its seat, and what its draws follow from.
    """

    def __init__(self, name: str, match: Any, seat: int, seed: int) -> None:
        self._match = match
        self._bot = pyspiel.make_roshambo_bot(match.player_of(seat), name, MATCH_THROWS)
        self._generator, self._asked = Generator(seed), 0

    def __call__(self, legal: object) -> int:
        """Its next throw. Those that it has missed, in a match that is brought back, are played again first."""
        state = self._match.state
        throws = state.move_number()
        if self._asked < throws:
            self._catch_up(state)
        with self._generator:
            self._asked += 1
            return int(self._bot.step(state))

    def _catch_up(self, state: Any) -> None:
        history, past = state.history(), self._match.game.new_initial_state()
        with self._generator:
            for number in range(len(history) // 2):
                if number >= self._asked:
                    self._bot.step(past)
                past.apply_actions(history[2 * number : 2 * number + 2])
        self._asked = len(history) // 2


def players_of(game: Any) -> Mapping[str, PlayerMaker]:
    """The bots of the competition by their names here, for games that they can play; OpenSpiel's others are left out.

    `uniform_random` is every game's own `random`. `fixed_action_preference` knows the first actions of a game only, and
    fails where none of these is legal. `uniform_restricted_actions` is for one kind of poker.
    """
    if not is_roshambo(game):
        return {}
    return {PREFIX + name: partial(RoShamBo, name) for name in sorted(pyspiel.roshambo_bot_names())}


def is_roshambo(game: Any) -> bool:
    """Whether a game is rock, paper, scissors again and again, and these bots are there for it.

    They are left out of an older OpenSpiel, in which all of them write into one history.
    """
    parameters = game.get_parameters()
    if game.get_type().short_name != "repeated_game" or _name_of(parameters["stage_game"]) != "matrix_rps":
        return False
    is_short = parameters["num_repetitions"] <= MATCH_THROWS
    has_objects = "num_throws" in (getattr(pyspiel, "make_roshambo_bot", is_roshambo).__doc__ or "")
    return is_short and has_objects and hasattr(_libc, "initstate")


def _name_of(stage_game: Any) -> str:
    return str(stage_game["name"] if isinstance(stage_game, Mapping) else stage_game).partition("(")[0]


_libc = ctypes.PyDLL(None)
if hasattr(_libc, "initstate"):
    _libc.initstate.argtypes = [ctypes.c_uint, ctypes.c_void_p, ctypes.c_size_t]
    _libc.initstate.restype = _libc.setstate.restype = ctypes.c_void_p
    _libc.setstate.argtypes = [ctypes.c_void_p]
