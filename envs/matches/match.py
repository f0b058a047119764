"""One match of a two-seat game in plain Python: the base class to write a game of your own with.

`docs/tutorial.md` builds a game on it step by step. `rows.py` plays many such matches as a match batch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, get_type_hints

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, create_model, model_validator
from pydantic_core import PydanticSerializationError, to_jsonable_python

from league.envs.drawing import Drawing, as_picture
from league.envs.matches.members import MOST, check_members
from league.envs.matches.mixtures import choices_of
from league.envs.matches.row import LIMIT, RANDOM, WIN, BatchRules, Bot, MatchError, PlayerMaker
from league.envs.matches.rows import look_around, make_batch
from league.envs.matches.surroundings import RandomPlay, alike, folder_of
from league.errors import UsageError, shown, visible, words_of
from league.types import DRAW, ActionSpec, GameSpec, GameTree, MatchBatch, ObservationPart, Utility

KEYED = ("multi_binary", "box")
"""Kinds of action whose names are one a number, not one a choice."""


class Match:
    """One match of a game for two seats, 0 and 1. A subclass says what the game is and plays one match of it.

    A game in which both seats decide at once has `step(actions)`. A game in turns has `play(action)` and sets `to_move`
    to the seat that decides next; with both methods, `to_move = None` means that both decide. `end()` ends the match.

    `reset(rng)` begins a match; the same object plays many, one after the other. All chance must come from `rng`:
    a match is stored as its seed and its actions, and is played again from these.

    Options of the game are the keywords of `__init__`, each with a default; their annotations are their rules, and what
    is wrong beside that is a ValueError in `__init__`. It may set the attributes below on `self`, where options decide
    them.
    """

    name: str = ""
    """The game's name; left out, that of the class in small letters."""
    version: int = 1
    """Goes up when the game's behaviour changes."""
    obs_size: int = 0
    """How many numbers a seat observes; left out, those of `observation`."""
    obs_range: tuple[float, float] = (0.0, 1.0)
    """The least and the greatest number that an observation can hold; left out, what the parts of `observation` can."""
    observation: Sequence[ObservationPart] = ()
    """How the observation is parts (numbers, images, tokens), all of them in their order. `observe` may then give a
    dict of these by name. Empty: it is numbers, one like the other."""
    unbounded: Sequence[tuple[int, int]] | None = None
    """[start, stop) of the observation, each of numbers without bounds, as in `league.types.GameSpec`; left out,
    numbers without bounds of their own where `obs_range` goes beyond 20."""
    layout: Sequence[ObservationPart] = ()
    """What the numbers are, for readers alone (`league check`), where all of them are numbers to a network; left out,
    `observation`."""
    public_actions: bool = False
    """Whether both seats may know every action once it is played, as in `league.types.GameSpec`: with an empty
    `opponent_slice` the opponent's last action is added to what a seat observes."""
    imperfect_information: bool = False
    """Whether a seat decides without knowing all that matters, as in `league.types.GameSpec`: hidden cards, decisions
    at once."""
    opponent_slice: tuple[int, int] = (0, 0)
    """[start, stop) of the observation that shows the opponent; by convention the second half."""
    action: int | Sequence[int] | ActionSpec = 0
    """What a seat decides: one of n actions, one choice in each of several parts, or an `ActionSpec` of any kind."""
    bots: Mapping[str, Bot | None] = MappingProxyType({})
    """Scripted players by name. `random`, a uniformly random legal action, is there by itself. None is nobody: a seat
    that takes no part, so that one may play alone. Where it is to decide, `step` or `play` is given None."""
    players: Mapping[str, PlayerMaker] = MappingProxyType({})
    """Scripted players with a memory, by name: `(match, seat, seed) -> player` makes one for a seat of a match, and
    `player(legal)` is its next action. Both must follow from the seed and what was played in the match so far."""
    reward_terms: Sequence[str] = ()
    """Names of what `reward` gives. `win` is there by itself: 1 for the winner, -1 for the loser at the end."""
    metrics: Sequence[str] = ()
    """Names of what `measure` counts."""
    end_reasons: Sequence[str] = ("over",)
    """What `end` can give as its reason; the first is the usual one."""
    max_steps: int | None = None
    """Decisions after which a match is cut as a draw, with the reason `limit`. None: a match that does not end within
    `league.envs.matches.rows.ENDLESS` is an error."""
    tick_rate: float = 1.0
    """Ticks a second of the game's own time."""
    ticks_per_step: int = 1
    """Ticks of a decision."""
    anchor: str | None = None
    floor: str | None = RANDOM
    activity: str | None = None
    utility: Utility | None = None
    """As in `league.types.GameSpec`, like `anchor`, `floor` and `activity`."""
    action_names: Sequence[str] = ()
    """What buttons, charts and films call the choices of the action, all parts' one after the other, each once; of keys
    each key, of real numbers each number, of legal tuples the choices of the first part or of all. Empty: numbers."""
    defaults: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    """Settings of a run of this game, section by section, such as `{"learner": {"gamma": 1.0}}`."""

    to_move: int | None = None
    """In games in turns: the seat that decides next; None where both do."""

    _outcome: tuple[int, str, tuple[bool, bool]] | None = None
    _gains: list[tuple[int, str, float]]
    _counts: list[tuple[int, str, float]]

    def reset(self, rng: np.random.Generator) -> None:
        """Begins a new match; chance is drawn from `rng`, which may be kept for later."""
        raise NotImplementedError

    def observe(self, seat: int) -> npt.ArrayLike | dict[str, Any]:
        """What `seat` sees now: `obs_size` numbers within `obs_range`, as a list or an array of any shape.

        Where the class names parts, it may be a dict of these.
        """
        raise NotImplementedError

    def legal(self, seat: int) -> Sequence[Any]:
        """What `seat` may do now, asked only where it is to decide; all actions, unless a game says otherwise.

        Of n actions the numbers of the legal ones; of several parts one such list for each; of keys those that may be
        pressed; of legal tuples the tuples. Of a mixture a tuple, or where it has names a dict, of these; None, or a
        name left out, says that all of a part is legal. Real numbers within their bounds always are.
        """
        raise NotImplementedError

    def step(self, actions: tuple[Any, Any]) -> None:
        """Both seats' decisions at once. An action is a number, or a tuple of one number a part or key.

        Real numbers are a tuple of floats. A mixture's action is a tuple, or where it has names a dict, of those of its
        parts.
        """
        raise NotImplementedError

    def play(self, action: Any) -> None:
        """The decision of the seat `to_move`."""
        raise NotImplementedError

    def render(self) -> npt.ArrayLike:
        """A picture (height, width, 3) uint8 of the match as it stands, for games that can be drawn."""
        raise NotImplementedError

    def drawing(self, seat: int | None = None) -> Drawing:
        """The match as it stands as shapes (`league.envs.drawing`), for games that can be drawn so.

        seat: without what is hidden from this seat, for a person who plays it; None: everything.
        """
        raise NotImplementedError

    def end(self, winner: int | None, reason: str | None = None, *, cut: bool | tuple[bool, bool] = False) -> None:
        """Ends the match with the step under way.

        Args:
            winner: 0, 1, or None for a draw.
            reason: One of `end_reasons`; None is the first.
            cut: It was cut from outside, such as by a limit of time that nobody sees: what might have followed still
                counts for learning (truncated, not terminated). A pair says it of each seat.

        Raises:
            MatchError: no such seat or reason, or the match has ended before.
        """
        reasons = tuple(self.end_reasons)
        if winner not in (0, 1, None, DRAW) or isinstance(winner, bool):
            raise MatchError(f"end(winner={winner!r}): must be seat 0, seat 1, or None for a draw")
        if reason is not None and reason not in reasons:
            raise MatchError(f"end(reason={reason!r}): must be one of end_reasons, {', '.join(map(repr, reasons))}")
        if self._outcome is not None:
            raise MatchError("end() is called a second time in one match; return right after the first")
        cuts = (bool(cut), bool(cut)) if isinstance(cut, bool | np.bool_) else (bool(cut[0]), bool(cut[1]))
        self._outcome = (DRAW if winner is None else int(winner), reasons[0] if reason is None else reason, cuts)

    def reward(self, seat: int, term: str, amount: float = 1.0) -> None:
        """Gives `seat` `amount` of one of `reward_terms` for the step under way; several add up."""
        self._gains.append((seat, term, amount))

    def measure(self, seat: int, metric: str, amount: float = 1.0) -> None:
        """Adds `amount` to one of `metrics` of `seat`, which are 0 when a match begins."""
        self._counts.append((seat, metric, amount))

    def begin(self, seed: int) -> None:
        """Begins the match of a seed: `reset` with that seed's generator."""
        self._outcome, self._gains, self._counts = None, [], []
        self.reset(np.random.Generator(np.random.PCG64(seed)))

    def rules(self) -> BatchRules:
        """What the game is, and which of the methods it has.

        Raises:
            UsageError: the class says something that cannot be.
        """
        spec, kind = spec_of(self), type(self)
        changed = (kind.step is not Match.step, kind.play is not Match.play, kind.legal is not Match.legal)
        return BatchRules(spec, choices_of(spec.action), self.bots, self.players, self.max_steps, *changed)

    @property
    def is_over(self) -> bool:
        """Whether `end` was called since the match began."""
        return self._outcome is not None

    @property
    def winner(self) -> int | None:
        """The seat that won; None for a draw, or while the match goes on."""
        return None if self._outcome is None or self._outcome[0] == DRAW else self._outcome[0]

    @classmethod
    def as_game(cls) -> MatchGame:
        """The game as `league.envs.registry` takes it; always the same object.

        Raises:
            UsageError: the class lacks something, or an option has no default.
        """
        if "_game" not in cls.__dict__:
            cls._game = MatchGame(cls)
        return cls._game

    _game: ClassVar[MatchGame]


class MatchGame:
    """A class of matches as a game of `league.envs.registry`: `Options`, `spec`, `make`, and what else it has.

    Args:
        match: the class.
        options: the model of its options; None: the keywords of its `__init__` are.
    """

    tree: Callable[[BaseModel], GameTree]
    """Of a game that is small enough to be solved: one match as a tree."""

    def __init__(self, match: type[Match], options: type[BaseModel] | None = None) -> None:
        self.match = match
        self._found: dict[str, RandomPlay] = {}
        """Options as JSON -> what the game uses under them."""
        self.Options = _options_model(match) if options is None else options
        if match.render is not Match.render:
            self.render = _render
        if match.drawing is not Match.drawing:
            self.drawing = _drawing

    @property
    def DEFAULTS(self) -> Mapping[str, Any]:
        """The class's `defaults`."""
        return self.match.defaults

    @property
    def IMPLIED(self) -> dict[str, dict[str, Any]]:
        """What lies below all settings that are brought: each reward term weighs 1, those beside winning, too."""
        return {"rewards": dict.fromkeys(self.spec(self.Options()).reward_terms, 1.0)}

    def spec(self, options: BaseModel) -> GameSpec:
        """What the game is under `options`.

        Raises:
            UsageError: the class says something that cannot be.
        """
        return spec_of(self._match(options))

    def action_names(self, options: BaseModel) -> tuple[str, ...]:
        """What the match calls the choices of its action under `options`."""
        return tuple(self._match(options).action_names)

    def layout(self, options: BaseModel) -> Sequence[ObservationPart]:
        """What the observed numbers are, for readers; empty where the class does not say."""
        return self._match(options).layout

    def make(self, rows: int, threads: int, options: BaseModel) -> MatchBatch:
        """`rows` matches, stepped one after the other; `threads` is not needed."""
        del threads
        make, identity = partial(self._match, options), options.model_dump_json()
        if identity not in self._found:
            self._found[identity] = look_around(make, folder_of(self.match))
        return make_batch(make, rows, identity, self._found[identity])

    def _match(self, options: BaseModel) -> Match:
        return _made(self.match, options)


def _made(match: type[Match], options: BaseModel) -> Match:
    """A match under these options, the same in every process."""
    given = {name: getattr(options, name) for name in type(options).model_fields}
    return alike(lambda: match(**given), folder_of(match))


def spec_of(match: Match) -> GameSpec:
    """What the game of a match is.

    Raises:
        UsageError: the class says something that cannot be.
    """
    cls = type(match)
    where = f"class {cls.__name__}"
    check_members(match, Match, where)
    for method in ("reset", "observe"):
        if getattr(cls, method) is getattr(Match, method):
            raise UsageError(f"{where} has no method {method}(); see league.envs.Match")
    if cls.step is Match.step and cls.play is Match.play:
        raise UsageError(f"{where} has neither step(actions) nor, for a game in turns, play(action); write one")
    for name in ("observation", "layout"):
        if not all(isinstance(part, ObservationPart) for part in getattr(match, name)):
            raise UsageError(f"{where}: {name}={getattr(match, name)!r} must be a tuple of ObservationPart")
    parts = tuple(match.observation)
    obs_size = match.obs_size or (parts[-1].stop if parts else 0)
    if obs_size < 1:
        raise UsageError(f"{where}: obs_size={match.obs_size!r} must be how many numbers a seat observes, at least 1")
    if match.layout and match.layout[-1].stop != obs_size:
        end = match.layout[-1].stop
        raise UsageError(f"{where}: layout ends at {end}, not at obs_size={obs_size}; name each number")
    action = _action_spec(match.action, where)
    if action.kind == "legal_tuples" and cls.legal is Match.legal:
        raise UsageError(f"{where}: legal tuples need a method legal(seat) that lists them")
    if action.kind == "box" and cls.legal is not Match.legal:
        raise UsageError(f"{where}: every number within a box's bounds is legal; leave legal(seat) out")
    _check_names(match.action_names, action, where)
    bots = tuple(match.bots)
    if RANDOM not in bots:
        bots = (*bots, RANDOM)
    bots = (*bots, *match.players)
    limit = () if match.max_steps is None else (LIMIT,)
    try:
        return GameSpec(
            name=match.name or cls.__name__.lower(),
            version=match.version,
            obs_size=int(obs_size),
            opponent_slice=(int(match.opponent_slice[0]), int(match.opponent_slice[1])),
            obs_range=_obs_range(match),
            action=action,
            reward_terms=(*(term for term in match.reward_terms if term != WIN), WIN),
            metrics=tuple(match.metrics),
            end_reasons=(*match.end_reasons, *limit),
            bots=bots,
            tick_rate=float(match.tick_rate),
            ticks_per_step=int(match.ticks_per_step),
            anchor=match.anchor,
            floor=match.floor,
            activity=match.activity,
            utility=match.utility,
            observation=parts or None,
            unbounded=None if match.unbounded is None else tuple(match.unbounded),
            public_actions=match.public_actions,
            imperfect_information=match.imperfect_information,
        )
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None


def _obs_range(match: Match) -> tuple[float, float]:
    """What an observation can hold: as the class says or, where it leaves that out, what its parts can."""
    low, high = match.obs_range
    if match.observation and match.obs_range is Match.obs_range:
        parts = match.observation
        ranges = [(0, part.count - 1) if part.kind == "tokens" else part.bounds or (low, high) for part in parts]
        low, high = min(pair[0] for pair in ranges), max(pair[1] for pair in ranges)
    return float(low), float(high)


def _action_spec(action: int | Sequence[int] | ActionSpec, where: str) -> ActionSpec:
    if isinstance(action, ActionSpec):
        return action
    parts = tuple(action) if isinstance(action, Sequence | np.ndarray) else (action,)
    if not parts or not all(isinstance(n, int | np.integer) and n > 1 for n in parts) or sum(parts) > MOST:
        raise UsageError(
            f"{where}: action={action!r} must be the number of actions, from 2 to {MOST:,}, one such number for each"
            f" part of an action, or an ActionSpec"
        )
    return ActionSpec("multi_discrete", tuple(int(n) for n in parts))


def _check_names(given: Sequence[str], action: ActionSpec, where: str) -> None:
    """Refuses names that are not one of its own for each choice."""
    names = tuple(given)
    if not all(name.strip() for name in names):
        raise UsageError(f"{where}: action_names={given!r} must be a tuple of strings, one for each choice")
    widths = [len(leaf.bounds or leaf.choices) if leaf.kind in KEYED else sum(leaf.choices) for leaf in action.leaves]
    wanted = {sum(widths), action.choices[0]} if action.kind == "legal_tuples" else {sum(widths)}
    if names and len(names) not in wanted:
        many = " or ".join(map(str, sorted(wanted)))
        raise UsageError(
            f"{where}: action_names has {len(names)} names, its action {many} choices; name each, part by part"
        )
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"{where}: action_names has {twice[0]!r} twice, and charts go by name; rename one of the two")


def _options_model(match: type[Match]) -> type[BaseModel]:
    """A model of the keywords of a match's `__init__`, which a match is made from to see whether they fit together."""
    fields: dict[str, Any] = {}
    if match.__init__ is not object.__init__:
        hints = get_type_hints(match.__init__, include_extras=True)
        for name, parameter in list(inspect.signature(match.__init__).parameters.items())[1:]:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise UsageError(f"class {match.__name__}: __init__ takes {parameter}; write each option by name")
            if parameter.default is parameter.empty:
                raise UsageError(f"class {match.__name__}: `{name}` of __init__ needs a default, as every option does")
            try:
                to_jsonable_python(parameter.default)
            except PydanticSerializationError:
                raise UsageError(
                    f"class {match.__name__}: `{name}` of __init__ is {shown(parameter.default)} by default, which no"
                    f" file can have; make it a bool, a number, a text or a list"
                ) from None
            fields[name] = (hints.get(name, type(parameter.default)), parameter.default)

    def fits(options: BaseModel) -> BaseModel:
        try:
            _made(match, options)
        except (ValueError, AssertionError) as error:
            error.args = (visible(words_of(error)),)  # pydantic takes no surrogates
            raise
        return options

    validators: dict[str, Any] = {"fits": model_validator(mode="after")(fits)}
    return create_model(
        f"{match.__name__}Options",
        __config__=ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_default=True),
        __validators__=validators,
        **fields,
    )


def _render(batch: Any, row: int, **appearance: Any) -> npt.NDArray[np.uint8]:
    """The picture of a row's match, which is drawn in one way."""
    del appearance
    match = batch.matches[row]
    return np.ascontiguousarray(as_picture(alike(match.render, folder_of(type(match)))))


def _drawing(batch: Any, row: int, seat: int | None = None) -> Drawing:
    """A row's match as shapes."""
    match: Match = batch.matches[row]
    return alike(lambda: match.drawing(seat), folder_of(type(match)))
