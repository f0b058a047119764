"""One row of a batch of matches in plain Python: its match, and what the match is brought back from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from league.envs.matches.choices import Choices
from league.envs.matches.members import takes
from league.envs.matches.surroundings import seed_globals
from league.errors import CODE_FAILED, GuardError, LeagueError, users_line, words_of
from league.types import FloatArray, GameSpec

if TYPE_CHECKING:
    from league.envs.matches.match import Match

Bot = Callable[[FloatArray, Any, np.random.Generator], Any]
"""(observation, legal, rng) -> action: a scripted player. `legal` is what `Match.legal` gave for its seat, as lists."""

Player = Callable[[Any], Any]
"""legal -> action: a scripted player of one seat in one match, asked once a decision of its seat."""
PlayerMaker = Callable[[Any, int, int], Player]
"""(match, seat, seed) -> player. The player may remember, and looks at the match for what was played; it may be made in
the middle of one. What it plays follows from the seed and from that."""

RANDOM = "random"
"""The bot that every match has."""
WIN = "win"
"""The reward term that every match has."""
LIMIT = "limit"
"""The end reason of a match that `max_steps` cut."""
BITS64 = 2**64 - 1
BOTH = (0, 1)


BEGIN, ADVANCE, SHOW, ASK = range(4)
"""What of a match is called; `ASK` a bot of seat 0, and the next number one of seat 1."""
CALLS, GLOBALS = 8, 16
"""Streams of seeds: how many there are per decision, and the first one."""


class MatchError(GuardError):
    """A match in plain Python breaks a rule of `league.envs.Match`."""

    step = "mend it"

    def __init__(self, message: str) -> None:
        super().__init__(message, CODE_FAILED)


@dataclass(frozen=True)
class BatchRules:
    """What the rows of a batch share."""

    spec: GameSpec
    choices: Choices
    bots: Mapping[str, Bot | None]
    players: Mapping[str, PlayerMaker]
    max_steps: int | None
    has_step: bool
    """Both seats may decide at once."""
    has_turns: bool
    """One seat may decide alone."""
    has_legal: bool
    draws: bool = False
    """Whether the match draws from global generators, which are seeded by it then."""
    first_row: int = 0
    """What errors call the batch's first row."""


class Row:
    """One row. Its state is its match's seed, the actions played so far and the bots' generators."""

    __slots__ = ("generators", "log", "match", "number", "options", "players", "rules", "seed", "to_act")

    def __init__(self, rules: BatchRules, match: Match, number: int) -> None:
        self.rules, self.match, self.number = rules, match, number
        self.options: list[Any] = [rules.choices.everything] * 2
        """What each seat may do, of the seats that are to act."""
        self.seed = 0
        self.log: list[list[Any]] = []
        """The actions of each step, of the seats that were to act."""
        self.generators: list[np.random.Generator | None] = [None, None]
        """The bots', made when a bot first decides."""
        self.players: list[tuple[int, Player] | None] = [None, None]
        """Of each seat a bot's id and its player in this match, made when it first decides."""
        self.to_act: tuple[int, ...] = BOTH

    def begin(self, seed: int) -> None:
        """Begins a match.

        Raises:
            MatchError: it is over at once.
        """
        self.seed, self.log, self.generators, self.players = seed, [], [None, None], [None, None]
        self.seed_globals(BEGIN)
        self.match.begin(seed)
        if self.match._outcome is not None:
            raise self.error(None, "reset() ends the match; a match has at least one decision")

    def generator(self, seat: int) -> np.random.Generator:
        """What the bot of a seat draws from: it hangs on the match's seed and the seat alone."""
        rng = self.generators[seat]
        if rng is None:
            rng = self.generators[seat] = np.random.Generator(np.random.PCG64(next_seed(self.seed, 1 + seat)))
        return rng

    def player(self, seat: int, bot: int, make: PlayerMaker) -> Player:
        """Who plays for a bot with a memory; its seed hangs on the match's and the seat alone."""
        kept = self.players[seat]
        if kept is None or kept[0] != bot:
            player = make(self.match, seat, next_seed(self.seed, 1 + seat))
            if not (callable(player) and takes(player, "legal")):
                name = self.rules.spec.bots[bot]
                raise self.error(seat, f"players[{name!r}] made {player!r}, which must be a function of (legal)")
            kept = self.players[seat] = bot, player
        return kept[1]

    def advance(self, actions: list[Any]) -> None:
        """Plays the actions of the seats that are to act.

        Raises:
            MatchError: the match breaks a rule; what it raises itself is passed on with a note.
        """
        self.seed_globals(ADVANCE)
        self.log.append(actions)
        match = self.match
        try:
            if len(actions) == 2:
                match.step((actions[0], actions[1]))
            else:
                match.play(actions[0])
        except LeagueError as error:
            where = users_line(error)
            raise self.error(None, f"{error}{f' ({where})' if where else ''}") from error
        except BaseException as error:
            self._need_called("step", error)
            with suppress(TypeError):  # its own code has made something else of its notes
                error.add_note(self.place(None))
            raise

    def _need_called(self, name: str, error: BaseException) -> None:
        """Refuses a method that a match has set to what cannot be called: no code of the match was reached."""
        if isinstance(error, TypeError) and error.__traceback__ is not None and error.__traceback__.tb_next is None:
            raise self.error(None, f"{name} cannot be called any more ({words_of(error)}); leave it as it is") from None

    def seed_globals(self, what: int) -> None:
        """Seeds the global generators, where the match uses them, by the match's seed, the decision and `what` is
        called: what one call draws changes nothing for another."""
        if self.rules.draws:
            seed_globals(next_seed(self.seed, GLOBALS + CALLS * len(self.log) + what))

    def turn(self) -> None:
        """Reads who is to act, of a game in turns.

        Raises:
            MatchError: nobody is.
        """
        to_move = self.match.to_move
        if to_move is None and self.rules.has_step:
            self.to_act = BOTH
        elif to_move in BOTH:
            self.to_act = (int(to_move),)
        else:
            both = ", or None where both decide" if self.rules.has_step else ""
            raise self.error(None, f"to_move={to_move!r} must be seat 0 or seat 1{both}; set it in reset, too")

    def observe(self, views: list[FloatArray]) -> None:
        """Writes what each seat sees into `views`, (obs_size,) each.

        Raises:
            MatchError: that is not what it must be.
        """
        size = self.rules.spec.obs_size
        for seat in BOTH:
            try:
                seen: Any = self.match.observe(seat)
            except TypeError as error:
                self._need_called("observe", error)
                raise
            if isinstance(seen, dict):
                seen = self._joined(seat, seen)
            try:
                if len(seen) == size:
                    views[seat][:] = seen
                    continue
            except (TypeError, ValueError, OverflowError):
                pass  # no list of numbers; an array of another shape will do
            views[seat][:] = self._flat(seat, seen)

    def played(self, match: Match, seed: int, log: list[list[Any]]) -> Row:
        """This row's match of `seed` after the actions of `log`, in the new `match`.

        Raises:
            ValueError: the match ends before, or others are to act in it.
        """
        row = Row(self.rules, match, self.number)
        row.begin(seed)
        row.play_on(log)
        return row

    def play_on(self, log: list[list[Any]]) -> None:
        """Plays the actions by which `log` is longer than what was played; errors as `played`."""
        for actions in log[len(self.log) :]:
            if self.rules.has_turns:
                self.turn()
            if self.match._outcome is not None or len(actions) != len(self.to_act):
                raise ValueError(f"it is another match after {len(self.log)} of {len(log)} decisions")
            self.advance(actions)
        if self.match._outcome is not None:
            raise ValueError(f"it is over after {len(log)} decisions")
        self.match._gains = []

    def error(self, seat: int | None, rule: str) -> MatchError:
        """What is wrong, and where."""
        return MatchError(f"{self.place(seat)}: {rule}")

    def place(self, seat: int | None) -> str:
        """Where the match is."""
        where = f"{self.rules.spec.name} row {self.rules.first_row + self.number}" + (
            "" if seat is None else f", seat {seat}"
        )
        return f"{where}, after {len(self.log)} steps of the match of seed {self.seed}"

    def _joined(self, seat: int, seen: dict[str, Any]) -> FloatArray:
        """An observation by the names of its parts as (obs_size,)."""
        parts = self.rules.spec.observation
        if parts is None:
            raise self.error(seat, "observe gave a dict, but the class names no parts; set `observation`, too")
        names = [part.name for part in parts]
        if set(seen) != set(names):
            rule = f"observe gave a dict of {', '.join(map(str, seen)) or 'nothing'}; its parts are {', '.join(names)}"
            raise self.error(seat, rule)
        flat = []
        for part in parts:
            try:
                own = np.asarray(seen[part.name], np.float32).ravel()
            except (TypeError, ValueError, OverflowError):
                raise self.error(seat, f"observe gave a part {part.name!r} that is no array of numbers") from None
            if own.size != part.size:
                rule = f"observe gave {own.size} numbers as part {part.name!r}; {part.shape} has {part.size}"
                raise self.error(seat, rule)
            flat.append(own)
        return np.concatenate(flat)

    def _flat(self, seat: int, seen: Any) -> FloatArray:
        """An observation of any shape as (obs_size,)."""
        try:
            return flat_of(seen, self.rules.spec.obs_size, "observe")
        except ValueError as error:
            raise self.error(seat, str(error)) from None


def flat_of(seen: Any, size: int, call: str) -> FloatArray:
    """What a call gave, of any shape, as (size,) numbers.

    Raises:
        ValueError: it is something else.
    """
    if seen is None:
        raise ValueError(f"{call} gave None; return {size} numbers")
    try:
        flat = np.asarray(seen, np.float32).ravel()
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{call} gave {' '.join(repr(seen).split())[:80]}, which is not {size} numbers") from None
    if flat.size != size:
        raise ValueError(f"{call} gave {flat.size} numbers, but obs_size is {size}; change one of them")
    return flat


def next_seed(seed: int, stream: int = 0) -> int:
    """The seed of the next match of a row, or of one of a match's other streams: splitmix64 of (seed, stream)."""
    value = (seed + 0x9E3779B97F4A7C15 * (1 + stream)) & BITS64
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & BITS64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & BITS64
    return value ^ (value >> 31)


def generator_to_json(rng: np.random.Generator | None) -> list[int] | None:
    """A bot's generator as four integers."""
    if rng is None:
        return None
    state: Any = rng.bit_generator.state
    return [state["state"]["state"], state["state"]["inc"], state["has_uint32"], state["uinteger"]]


def generator_from_json(stored: list[int] | None) -> np.random.Generator | None:
    """The inverse of `generator_to_json`.

    Raises:
        ValueError: no such integers.
    """
    if stored is None:
        return None
    state, inc, has_uint32, uinteger = stored
    bits = np.random.PCG64(0)
    inner: Any = {"state": state, "inc": inc}
    bits.state = {"bit_generator": "PCG64", "state": inner, "has_uint32": has_uint32, "uinteger": uinteger}
    return np.random.Generator(bits)
