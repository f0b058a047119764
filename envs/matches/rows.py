"""Many matches in plain Python (`league.envs.matches.match.Match`) as one match batch, row by row.

A row is its match's seed, the actions played so far and the bots' generators: that is its state, and a match is brought
back by playing its actions again. An action of the engine that is not legal counts as the first legal one, as in the
games of cards. Everything that a match does against a rule is a `MatchError` with row, seat, step and seed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from league.envs.arrays import UInts, row_seeds
from league.envs.blob import identity_of, pack, unpack
from league.envs.matches.row import (
    ASK,
    BOTH,
    LIMIT,
    SHOW,
    WIN,
    Bot,
    Row,
    generator_from_json,
    generator_to_json,
    next_seed,
)
from league.envs.matches.surroundings import Around, RandomPlay, next_draws, seed_globals
from league.errors import LeagueError, quoted, users_line
from league.runtime.process import StepKept
from league.types import DRAW, EXTERNAL, SEATS, BoolArray, FloatArray, GameSpec, Mask, result_dtype

if TYPE_CHECKING:
    from league.envs.matches.match import Match

ENDLESS = 10_000
"""Decisions within which a match must end that sets no `max_steps`."""
MAGIC = b"pyrows1\n"
NOTHING = RandomPlay()
TRIED, MOST_TRIED = 32, 128
"""Decisions that show what a game uses: the least, and the most where no match ends."""


class RowBatch:
    """`league.types.MatchBatch` over matches in plain Python; the fields are described there.

    Args:
        make: a new match.
        rows: B.
        identity: what tells the game and its options from others, for states.
        found: what of the process the game uses.

    Raises:
        UsageError: the class of the matches says something that cannot be.
        MatchError: a match breaks a rule.
    """

    is_by_row = True
    """`final_obs` is a match's own last view, as the match gave it: it may equal the first one of the next match."""

    def __init__(self, make: Callable[[], Match], rows: int, identity: str, found: RandomPlay = NOTHING) -> None:
        self._make, self._around = make, Around(found)
        with StepKept():
            matches = [make() for _ in range(rows)]
            self._rules = replace(matches[0].rules(), draws=found.draws)
        self._rows = [Row(self._rules, each, number) for number, each in enumerate(matches)]
        self.spec: GameSpec = self._rules.spec
        self.num_rows = rows
        self._identity = identity_of(self.spec.name, self.spec.version, identity)
        self._choices = self._rules.choices
        self._bots: list[Bot | None] = [self._rules.bots.get(name, self._play_at_random) for name in self.spec.bots]
        self.absent = frozenset(number for number, bot in enumerate(self._bots) if bot is None)
        """The bots that take no part: their seats decide nothing."""
        self._players = [self._rules.players.get(name) for name in self.spec.bots]
        self._limit = self._rules.max_steps
        spec = self.spec
        self.obs: FloatArray = np.zeros((rows, SEATS, spec.obs_size), np.float32)
        self.final_obs = np.zeros_like(self.obs)
        self.actions = np.zeros((rows, SEATS, spec.action.num_parts), spec.action.dtype)
        self.mask: Mask | None = None
        if self._rules.has_legal:
            self.mask = np.zeros((rows, SEATS, spec.action.mask_size), spec.action.mask_dtype)
        self.reward_terms = np.zeros((rows, SEATS, len(spec.reward_terms)), np.float32)
        self.terminated: BoolArray = np.zeros(rows, np.bool_)
        self.truncated: BoolArray = np.zeros(rows, np.bool_)
        self.cut_seats: BoolArray = np.zeros((rows, SEATS), np.bool_)
        self.result = np.zeros(rows, result_dtype(len(spec.metrics)))
        self.controllers = np.full((rows, SEATS), EXTERNAL, np.int16)
        self._views = [list(pair) for pair in self.obs]
        self._final_views = [list(pair) for pair in self.final_obs]
        self._mask_views = [] if self.mask is None else [list(pair) for pair in self.mask]
        shown = self.obs.view()
        shown.flags.writeable = False
        self._bot_views = [list(pair) for pair in shown]
        self.reset(0)

    @property
    def matches(self) -> list[Match]:
        """The match of each row."""
        return [row.match for row in self._rows]

    def number_from(self, first: int) -> None:
        """From now on errors call the first row `first`: the batch is a part of a larger one."""
        self._rules = replace(self._rules, first_row=first)
        for row in self._rows:
            row.rules = self._rules

    def reset(self, seed: int | UInts) -> None:
        """Starts a new match in every row: row i from a seed derived from (`seed`, i), or from `seed[i]` itself.

        Raises:
            MatchError: a match breaks a rule.
        """
        with StepKept(), self._around:
            for row, row_seed in zip(self._rows, row_seeds(seed, self.num_rows).tolist(), strict=True):
                row.begin(row_seed)
                self._show(row)
        self.terminated[:] = self.truncated[:] = False
        self._check_range("obs", self.obs, range(self.num_rows))
        self._tell_turns()

    def step(self) -> None:
        """One decision of every seat that is to act.

        Raises:
            ValueError: an action, or a bot's id, that the game does not have; no match has moved.
            MatchError: a match or a bot breaks a rule; the batch is of no more use.
        """
        with StepKept(), self._around:
            self._step(self._playing())

    def _step(self, numbers: Sequence[int]) -> None:
        chosen = self._choose(numbers)
        self.reward_terms[:] = 0
        self.terminated[:] = self.truncated[:] = False
        ended: list[int] = []
        for number, actions in zip(numbers, chosen, strict=True):
            row = self._rows[number]
            row.advance(actions)
            match = row.match
            if match._gains:
                self._reward(row)
            if match._outcome is None and len(row.log) >= (self._limit or ENDLESS):
                if self._limit is None:
                    rule = "is still not over; call self.end(winner), or set max_steps, by which matches are cut"
                    raise row.error(None, rule)
                match._outcome = (DRAW, LIMIT, (True, True))
            if match._outcome is not None:
                ended.append(number)
                self._finish(row)
                row.begin(next_seed(row.seed))
            self._show(row)
        self._check_range("obs", self.obs, numbers)
        if ended:
            self._check_range("final_obs", self.final_obs, ended)
        self._tell_turns()

    def get_state(self) -> bytes:
        """Header and, as JSON, each row's seed, actions and bots' generators, and the controllers."""
        rows = [[row.seed, row.log, [generator_to_json(rng) for rng in row.generators]] for row in self._rows]
        return self._pack(rows, self.controllers.tolist())

    def row_state(self, row: int) -> bytes:
        """The match in `row` as the state of a batch of one row."""
        own = self._rows[row]
        generators = [generator_to_json(rng) for rng in own.generators]
        return self._pack([[own.seed, own.log, generators]], self.controllers[row : row + 1].tolist())

    def set_state(self, state: bytes) -> None:
        """Restores `get_state()` of a batch with the same options and rows.

        Raises:
            ValueError: the blob is damaged or of another game, version, options or size, or its matches cannot be
                played again since the game has changed; nothing is changed.
        """
        rows, controllers = self._unpack(state)
        if len(rows) != self.num_rows:
            raise ValueError(f"the state has {len(rows)} rows; this batch has {self.num_rows} rows")
        with StepKept(), self._around:
            self._restore(rows, controllers)

    def _restore(self, rows: list[Any], controllers: list[Any]) -> None:
        before, found = [len(row.log) for row in self._rows], []
        try:
            for row, (seed, log, generators) in zip(self._rows, rows, strict=True):
                read = [[self._read(action) for action in actions] for actions in log]
                found.append((self._played(row, seed, read), [generator_from_json(x) for x in generators]))
        except (LeagueError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            for number, (row, length) in enumerate(zip(self._rows, before, strict=True)):
                if len(row.log) > length:
                    self._rows[number] = row.played(self._make(), row.seed, row.log[:length])
                    self._rows[number].generators = row.generators
            where = f" ({line})" if (line := users_line(error)) and line not in str(error) else ""
            raise ValueError(f"a match of the state cannot be played again: {error}{where}") from error
        self._rows = [row for row, _ in found]
        self.controllers[:] = controllers
        for row, generators in found:
            row.generators = generators
            self._show(row)
        self._tell_turns()

    def regroup(self, states: Sequence[bytes], num_rows: Sequence[int]) -> list[bytes]:
        """The matches of `states`, in their order, as states of batches of `num_rows` rows each.

        Raises:
            ValueError: a blob is damaged or of another game, version or options, or the rows differ in number.
        """
        parts = [self._unpack(state) for state in states]
        rows = [row for part, _ in parts for row in part]
        controllers = [pair for _, part in parts for pair in part]
        if len(rows) != sum(num_rows):
            raise ValueError(f"the states have {len(rows)} rows, which cannot be {sum(num_rows)}")
        ends = np.cumsum(num_rows).tolist()
        spans = [slice(end - size, end) for end, size in zip(ends, num_rows, strict=True)]
        return [self._pack(rows[span], controllers[span]) for span in spans]

    def _playing(self) -> Sequence[int]:
        """The numbers of the rows that the next step moves."""
        return range(self.num_rows)

    def _tell_turns(self) -> None:
        """Writes who is to act, in games in turns."""

    def _choose(self, numbers: Iterable[int]) -> list[list[Any]]:
        """The actions of the seats that are to act, row by row."""
        given, controllers, take = self.actions.tolist(), self.controllers.tolist(), self._choices.take
        chosen = []
        for number in numbers:
            row, theirs, who = self._rows[number], given[number], controllers[number]
            actions = []
            for seat in row.to_act:
                if who[seat] == EXTERNAL:
                    actions.append(take(theirs[seat], row.options[seat]))
                else:
                    actions.append(self._ask(row, seat, who[seat]))
            chosen.append(actions)
        for number, actions in zip(numbers, chosen, strict=True):
            for seat, action in zip(self._rows[number].to_act, actions, strict=True):
                if self._choices.is_numbers(action):
                    self.actions[number, seat] = self._choices.flat(action)
        return chosen

    def _read(self, action: Any) -> Any:
        """An action of a state; None is that of a bot which takes no part."""
        return None if action is None and self.absent else self._choices.read(action)

    def _ask(self, row: Row, seat: int, bot: int) -> Any:
        """The action of a bot."""
        if not 0 <= bot < len(self._bots):
            raise ValueError(f"a controller is no bot of this game: ids are 0 to {len(self._bots) - 1}, or EXTERNAL")
        row.seed_globals(ASK + seat)
        options, play, make = row.options[seat], self._bots[bot], self._players[bot]
        if make is not None:
            answer = row.player(seat, bot, make)(options)
        elif play is None:
            return None
        else:
            answer = play(self._bot_views[row.number][seat], options, row.generator(seat))
        try:
            return self._choices.check(answer, options)
        except ValueError as error:
            raise row.error(seat, f"bot {self.spec.bots[bot]} {error}") from None

    def _play_at_random(self, observation: FloatArray, legal: list[Any], rng: np.random.Generator) -> Any:
        """The bot `random`."""
        del observation
        return self._choices.draw(legal, rng)

    def _show(self, row: Row) -> None:
        """Writes what both seats of a row see, who is to act, and what these may do."""
        row.seed_globals(SHOW)
        row.observe(self._views[row.number])
        if self._rules.has_turns:
            row.turn()
        if not self._rules.has_legal:
            return
        views = self._mask_views[row.number]
        for seat in BOTH:
            if seat in row.to_act:
                try:
                    row.options[seat], views[seat][:] = self._choices.look_up(row.match.legal(seat))
                except ValueError as error:
                    if users_line(error):  # the match's own, not one of what it gave
                        raise
                    raise row.error(seat, str(error)) from None
            else:
                views[seat][:] = self._choices.meaningless

    def _check_range(self, name: str, obs: FloatArray, numbers: Iterable[int]) -> None:
        """Refuses observations outside `obs_range`, and numbers that are not finite."""
        low, high = self.spec.obs_range
        numbers = list(numbers)
        seen = obs if len(numbers) == self.num_rows else obs[numbers]
        if not len(numbers) or (low <= seen.min() and seen.max() <= high):
            for part in self.spec.observation or ():
                if part.problem(seen):
                    place, seat = next((i, j) for i, pair in enumerate(seen) for j in BOTH if part.problem(pair[j]))
                    raise self._rows[numbers[place]].error(seat, f"{name}: {part.problem(seen[place, seat])}")
            return
        place, seat, index = (int(i) for i in np.argwhere(~((low <= seen) & (seen <= high)))[0])
        value = seen[place, seat, index]
        rule = f"outside obs_range {self.spec.obs_range}" if np.isfinite(value) else "not a finite number"
        raise self._rows[numbers[place]].error(seat, f"{name}[{index}], which observe gave, is {value}, {rule}")

    def _reward(self, row: Row) -> None:
        """Writes the reward terms of a row's step."""
        gains, terms = row.match._gains, self.spec.reward_terms
        row.match._gains = []
        for seat, term, amount in gains:
            if seat not in BOTH or term not in terms or term == WIN:
                rule = f"reward({seat!r}, {term!r}) must name a seat and one of reward_terms ({_listed(terms[:-1])})"
                raise row.error(None, rule + ("; `win` is given by end()" if term == WIN else ""))
            self.reward_terms[row.number, seat, terms.index(term)] += _number(row, f"reward({seat}, {term!r})", amount)

    def _finish(self, row: Row) -> None:
        """Writes the end of a row's match."""
        match, names, number = row.match, self.spec.metrics, row.number
        assert match._outcome is not None
        winner, reason, cuts = match._outcome
        row.observe(self._final_views[number])
        (self.truncated if any(cuts) else self.terminated)[number] = True
        self.cut_seats[number] = cuts
        if winner != DRAW:
            self.reward_terms[number, winner, -1] = 1.0
            self.reward_terms[number, 1 - winner, -1] = -1.0
        metrics = [[0.0] * len(names) for _ in BOTH]
        for seat, metric, amount in match._counts:
            if seat not in BOTH or metric not in names:
                raise row.error(
                    None, f"measure({seat!r}, {metric!r}) must name a seat and one of metrics ({_listed(names)})"
                )
            metrics[seat][names.index(metric)] += _number(row, f"measure({seat}, {metric!r})", amount)
        ticks = len(row.log) * self.spec.ticks_per_step
        self.result[number] = (winner, self.spec.end_reasons.index(reason), ticks, row.seed, metrics)

    def _played(self, row: Row, seed: int, log: list[list[Any]]) -> Row:
        """A row whose match is that of `seed` after the actions of `log`: `row` itself where that is only behind it."""
        if (row.seed, row.log) != (seed, log[: len(row.log)]):
            return row.played(self._make(), seed, log)
        row.play_on(log)
        return row

    def _pack(self, rows: list[Any], controllers: list[Any]) -> bytes:
        body = json.dumps([rows, controllers], separators=(",", ":")).encode()
        return pack(MAGIC, self._identity, len(rows), body)

    def _unpack(self, state: bytes) -> tuple[list[Any], list[Any]]:
        """Rows and controllers, as `_pack` was given them."""
        rows, body = unpack(state, MAGIC, self._identity)
        found = json.loads(body)
        controllers: npt.NDArray[Any] = np.array(found[1])
        known = (controllers == EXTERNAL) | ((controllers >= 0) & (controllers < len(self._bots)))
        if len(found[0]) != rows or controllers.shape != (rows, SEATS) or not known.all():
            raise ValueError("the state has an impossible value in `controllers`")
        return found[0], found[1]


class TurnRowBatch(RowBatch):
    """As `RowBatch`, for games in turns: `league.types.Turns` as well."""

    def __init__(self, make: Callable[[], Match], rows: int, identity: str, found: RandomPlay = NOTHING) -> None:
        self.to_act: BoolArray = np.ones((rows, SEATS), np.bool_)
        self.held: BoolArray = np.zeros(rows, np.bool_)
        super().__init__(make, rows, identity, found)

    def _playing(self) -> Sequence[int]:
        if not self.held.any():
            return range(self.num_rows)
        return [number for number, is_held in enumerate(self.held.tolist()) if not is_held]

    def _tell_turns(self) -> None:
        self.to_act[:] = [(0 in row.to_act, 1 in row.to_act) for row in self._rows]


def make_batch(make: Callable[[], Match], rows: int, identity: str, found: RandomPlay = NOTHING) -> RowBatch:
    """`rows` matches side by side, of the kind that their class is: at once or in turns.

    found: what `look_around` found of the game.
    """
    return (TurnRowBatch if make().rules().has_turns else RowBatch)(make, rows, identity, found)


SEED = 0x8E1D_52C7_30B9_64AF
"""Of a look around; a game that seeds the global generators itself hardly takes the same."""


def look_around(make: Callable[[], Match], folder: Path | None) -> RandomPlay:
    """What a game uses beside its `rng`, as random play of a match shows.

    folder: the game's own, in which relative paths are looked for where nothing is found in the current one.
    """
    for place in (None, folder):
        with Around(RandomPlay(True, place)), suppress(FileNotFoundError):
            seed_globals(SEED)
            undrawn = next_draws()
            seed_globals(SEED)
            try:
                _try_out(make)
            except FileNotFoundError:
                raise
            except Exception:  # told where it is played
                return RandomPlay(True, place)
            return RandomPlay(next_draws() != undrawn, place)
    return NOTHING


def _try_out(make: Callable[[], Match]) -> None:
    """Plays random actions, and its bots in turn, until a match has ended and `TRIED` decisions are made."""
    batch, rng = make_batch(make, 1, ""), np.random.default_rng(0)
    action, bots, has_ended = batch.spec.action, len(batch.spec.bots), False
    for step in range(MOST_TRIED):
        batch.controllers[:] = EXTERNAL
        batch.controllers[0, step % SEATS] = step // SEATS % (bots + 1) - 1  # EXTERNAL, then each bot
        batch.actions[:] = action.legal_actions(batch.mask, rng.random((1, SEATS, action.num_draws)))
        batch.step()
        has_ended |= bool(batch.terminated[0] or batch.truncated[0])
        if has_ended and step >= TRIED:
            return


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _number(row: Row, call: str, amount: Any) -> float:
    """An amount that a match gave.

    Raises:
        MatchError: it is no number.
    """
    with suppress(TypeError, ValueError):
        if not isinstance(amount, str):
            return float(amount)
    raise row.error(None, f"{call} is of {quoted(repr(amount))}, which is no number")
