"""Environments of Kaggle for two agents: `kaggle:connectx`, `kaggle:halite:encoder.py:Encoder`.

Kaggle shows dictionaries and takes JSON. An encoder stands between them and a network: the library's own (`encoders/`),
or a class in a user's file (docs/guides/kaggle.md). The interpreter of an environment is called as
`kaggle_environments.core.Environment` calls it, without JSON schemas of each state, logs and clocks. Its agents are
bots. Which seat is which agent is drawn by the match's seed. The winner is the agent of the higher reward in the end.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from kaggle_environments import core, utils
from pydantic import Field

from league.envs.adapters import encoders, file_of
from league.envs.adapters.isolation import BOTH, Apart, silent
from league.envs.adapters.kaggletables import (
    ACTIVE,
    FAULTS,
    NUMBERED,
    RAW,
    SEEDS,
    KaggleEncoder,
    KaggleFacts,
    KaggleTable,
    copied,
)
from league.envs.adapters.keywords import game_name, options_model
from league.envs.adapters.probing import examined, failed
from league.envs.matches.choices import Choices
from league.envs.matches.match import Match, MatchGame
from league.envs.matches.mixtures import choices_of
from league.envs.matches.row import RANDOM, BatchRules, next_seed
from league.errors import ConfigError, nearest
from league.types import BOT_PREFIX, SEATS, ActionSpec

REWARD, SCORE = "reward", "score"
"""The reward term of what Kaggle's reward changes by, and the metric of what it is in the end."""
OVER, FAULT = "over", "fault"
UNSET = (*SEEDS, "actTimeout", "agentTimeout", "runTimeout", "timeout", "maxLogLength")
"""Keys of a configuration that are no options: seeds, and limits of time and logs, which are not kept here."""
KINDS: Mapping[Any, type] = {"integer": int, "number": float, "string": str, "boolean": bool}
MOST, MOST_STEPS = 1_000_000, 10_000
"""Of a number in a configuration without a limit of its own, and of the steps of a match."""
MIX = {"self_play": 0.8, f"{BOT_PREFIX}{RANDOM}": 0.2}
"""In turns: connectx's negamax searches for 30 ms, three hundred times as long as a step takes."""


class KaggleMatch(Match):
    """One match; `open` makes a subclass for each environment."""

    source: ClassVar[_KaggleEnvironment]
    reward_terms = (REWARD,)
    metrics = (SCORE,)
    end_reasons = (OVER, FAULT)

    def __init__(self, **options: Any) -> None:
        facts = self._facts = self.source.facts(options)
        self.obs_size, self.obs_range = facts.encoder.obs_size, getattr(facts.encoder, "obs_range", Match.obs_range)
        self.action = facts.choices.spec
        self.imperfect_information = getattr(facts.encoder, "imperfect_information", False)
        self._limit = int(facts.env.configuration.episodeSteps)
        self._table = KaggleTable(facts)
        self._swap = 0

    def rules(self) -> BatchRules:
        """As `Match.rules`; the environment's own agents play JSON, and no match is longer than its steps."""
        rules = super().rules()
        return replace(rules, choices=_with_raw(rules.choices), max_steps=self._limit + 1)

    @property
    def table(self) -> KaggleTable:
        """The environment as it stands."""
        return self._table

    def player_of(self, seat: int) -> int:
        """Which agent of the environment a seat is in this match."""
        return seat ^ self._swap

    def reset(self, rng: np.random.Generator) -> None:
        """Begins a match; which seat is which agent is drawn first."""
        self._swap = int(rng.integers(SEATS))
        self._table.begin(int(rng.integers(2**31 - 1)))
        self._turn()

    def observe(self, seat: int) -> npt.ArrayLike:
        """What the encoder makes of what the seat's agent sees."""
        return self._table.view(seat ^ self._swap)

    def step(self, actions: tuple[Any, Any]) -> None:
        """Both agents' decisions; that of one that is out is ignored."""
        self._play({seat ^ self._swap: action for seat, action in enumerate(actions)})

    def _play(self, actions: dict[int, Any]) -> None:
        table, before = self._table, [*self._table.rewards]
        table.step(actions)
        for player, (then, now) in enumerate(zip(before, table.rewards, strict=True)):
            if now != then:
                self.reward(player ^ self._swap, REWARD, now - then)
        self._turn()
        if not table.is_over:
            return
        scores = [table.rewards[self.player_of(seat)] for seat in range(SEATS)]
        faults = [table.statuses[self.player_of(seat)] in FAULTS for seat in range(SEATS)]
        for seat, score in enumerate(scores):
            self.measure(seat, SCORE, score)
        ranks = [not fault for fault in faults] if any(faults) else scores
        self.end(None if ranks[0] == ranks[1] else int(ranks[1] > ranks[0]), FAULT if any(faults) else OVER)

    def _turn(self) -> None:
        acting = [player for player, status in enumerate(self._table.statuses) if status == ACTIVE]
        self.to_move = acting[0] ^ self._swap if len(acting) == 1 and self._facts.in_turns else None


class KaggleTurnsMatch(KaggleMatch):
    """Of agents in turn."""

    def play(self, action: Any) -> None:
        """The decision of the agent whose turn it is."""
        assert self.to_move is not None
        self._play({self.to_move ^ self._swap: action})


def _legal(match: KaggleMatch, seat: int) -> Any:
    """What the seat's agent may do: `legal` of an encoder that tells."""
    return match.table.legal(seat ^ match._swap)


class KaggleBot:
    """One of the environment's own agents in one seat of a match. It gives JSON, under the key `raw`.

    Agents of rps and hungry_geese keep what they remember in globals of their module, so each bot has copies of these.

    Args:
        agent: (observation, configuration) -> action, or a function of fewer of these.
        match, seat, seed: its match and its seat, and what its draws follow from.
    """

    def __init__(self, agent: Callable[..., Any], match: KaggleMatch, seat: int, seed: int) -> None:
        self._agent, self._match, self._seed = _own_copy(agent), match, seed
        self._player, self._asked, self._apart = match.player_of(seat), 0, Apart(BOTH)

    def __call__(self, legal: object) -> dict[str, Any]:
        """Its next action. In a match that is brought back it sees first what it has missed."""
        table, answer = self._match.table, dict[str, Any]()
        for number in range(self._asked, len(table.env.steps)):
            if table.env.steps[number][self._player].status == ACTIVE:
                answer = self._ask(table, number)
        self._asked = len(table.env.steps)
        return answer | table.numbered(self._player, answer)

    def _ask(self, table: KaggleTable, number: int) -> dict[str, Any]:
        seen = copied(table.observed(table.env.steps[number], self._player))
        arguments = (seen, copied(table.env.configuration))
        count = self._agent.__code__.co_argcount if isinstance(self._agent, FunctionType) else len(arguments)
        self._apart.seed(next_seed(self._seed, number) % 2**32)
        with self._apart:
            try:
                return {RAW: json.loads(json.dumps(self._agent(*arguments[:count])))}
            except Exception:  # it has lost, as with Kaggle
                return {}


def open(rest: str, module: ModuleType | None = None) -> MatchGame:
    """The game that `kaggle:REST` names: `NAME`, or `NAME:FILE.py[:CLASS]` with an encoder, `Encoder` if not named.

    module: the one of FILE, which has run already.

    Raises:
        ConfigError: there is no such environment, it is not for two, it needs an encoder, or it cannot be played here.
    """
    where = f"kaggle:{rest}"
    before, file, behind = file_of("kaggle", rest)
    name, part = (before.removesuffix(":"), behind.removeprefix(":")) if file else (rest, "")
    parts = _parts(where, name)
    source = _KaggleEnvironment(where, parts, _encoder_class(where, name, part, module))
    configuration = source.environment({}).specification.configuration
    Options = options_model(
        name, {}, {word: _option(word, field) for word, field in configuration.items() if _is_set(word, field)}
    )
    source.defaults = {word: field.default for word, field in Options.model_fields.items()}
    facts = source.facts(source.defaults)
    body: dict[str, Any] = {
        "name": game_name("kaggle", f"{name}-{part or Path(file).stem}" if file else name, {}),
        "source": source,
        "players": {_bot_name(own): partial(KaggleBot, agent) for own, agent in (parts.get("agents") or {}).items()},
        "defaults": {
            "rewards": {REWARD: 0.0, "win": 1.0},
            "agent": {"opponent_encoder": False},
            **({"pool": {"mix": MIX}} if facts.in_turns else {}),
        },
    }
    if facts.has_mask:
        body["legal"] = _legal
    found: Any = type("KaggleMatch", (KaggleTurnsMatch if facts.in_turns else KaggleMatch,), body)
    found.__module__ = f"{__name__}.{body['name']}"
    return MatchGame(found, Options)


class _KaggleEnvironment:
    """An environment under each of its options, looked at once."""

    def __init__(self, where: str, parts: Mapping[str, Any], encoder: Callable[[Any], KaggleEncoder]) -> None:
        self._where, self._parts, self._encoder = where, parts, encoder
        self.defaults: Mapping[str, Any] = {}
        self._known: dict[str, KaggleFacts] = {}

    def facts(self, options: Mapping[str, Any]) -> KaggleFacts:
        """What it is under these options.

        Raises:
            ConfigError: the environment refuses them, or cannot be played here.
        """
        changed = {word: value for word, value in options.items() if value != self.defaults[word]}
        key = json.dumps(changed, sort_keys=True)
        if key not in self._known:
            with silent():
                self._known[key] = self._look(changed)
        return self._known[key]

    def environment(self, configuration: Mapping[str, Any]) -> Any:
        """The `Environment` of two agents, which has not begun."""
        waiting = {**self._parts, "interpreter": lambda state, env: state}
        made = core.Environment(**waiting, configuration=dict(configuration))
        if len(made.state) != SEATS:
            made.reset(SEATS)
        return made

    def _look(self, changed: Mapping[str, Any]) -> KaggleFacts:
        def look() -> tuple[KaggleFacts, Callable[[], KaggleTable], bool]:
            env = self.environment(changed)
            seen, action = (
                env.specification.observation,
                {**core.schemas.state.properties.action, **env.specification.action},
            )
            shared, hidden = (tuple(key for key in seen if seen[key].get(word)) for word in ("shared", "hidden"))
            encoder = self._encoder(copied(env.configuration))
            lacking = [name for name in ("obs_size", "action") if not hasattr(encoder, name)]
            if lacking:
                raise ConfigError(f"env={self._where}: its encoder has no {lacking[0]}; set it in __init__")
            sizes = encoder.action if isinstance(encoder.action, tuple | list) else (encoder.action,)
            choices = choices_of(ActionSpec("multi_discrete", tuple(sizes)))
            valid = utils.jsonschema.validators.validator_for(action)(action).is_valid
            facts = KaggleFacts(env, self._parts["interpreter"], shared, hidden, action, valid, encoder, choices)
            table = KaggleTable(facts)
            table.begin(0)
            facts = replace(facts, in_turns=table.statuses.count(ACTIVE) < SEATS)
            return facts, lambda: KaggleTable(facts), False

        facts = examined(self._where, look, "take another environment", changed)
        if facts.remembers:
            raise ConfigError(
                f"env={self._where}: a match shows what was played before it, so it could not be played again; take"
                f" another environment"
            )
        return facts


def _parts(where: str, name: str) -> dict[str, Any]:
    """What Kaggle has registered under a name.

    Raises:
        ConfigError: nothing, or it is not for two agents.
    """
    lazy = getattr(core, "_lazy_environments", {})
    known = sorted({*core.environments, *lazy})
    if name.endswith(".py"):
        raise ConfigError(f"env={where}: a file of Kaggle's form is a bot; pass it with --bot NAME={where}")
    if name not in known:
        raise ConfigError(f"env={where}: Kaggle has no environment {name!r}{nearest(name, known)}")
    try:
        with silent():
            parts = core.environments[name] if name in core.environments or core._resolve_lazy(name) else {}
    except Exception as error:
        raise failed(where, error) from error
    numbers = parts["specification"]["agents"]
    if SEATS not in numbers:
        fitting = [own for own in encoders.ENCODERS if own in known]
        raise ConfigError(
            f"env={where}: it is for {' or '.join(map(str, numbers))} agents; take one for two, such as"
            f" {', '.join(fitting)}"
        )
    return parts


def _encoder_class(where: str, name: str, part: str, module: ModuleType | None) -> Callable[[Any], KaggleEncoder]:
    """What makes the encoder: of a user's module its `part`, else the library's own.

    Raises:
        ConfigError: there is none.
    """
    if module is None:
        if name in encoders.ENCODERS:
            return getattr(import_module(f"{encoders.__name__}.{name}"), encoders.ENCODERS[name])  # type: ignore[no-any-return]
        own = f"; openspiel:{name.removeprefix('open_spiel_')} needs none" if name.startswith("open_spiel_") else ""
        raise ConfigError(
            f"env={where}: its observations are dictionaries; name a class that encodes them, --encode FILE.py[:CLASS]"
            f" (docs/guides/kaggle.md){own}"
        )
    part = part or "Encoder"
    made: Any = getattr(module, part, None)
    if made is None:
        known = [name for name in vars(module) if name[0] != "_"]
        raise ConfigError(f"env={where}: the file has no {part!r}{nearest(part, known)}")
    missing = [word for word in ("encode", "decode") if not callable(getattr(made, word, None))]
    if missing:
        raise ConfigError(f"env={where}: {part} has no method {missing[0]}(); docs/guides/kaggle.md shows an encoder")
    return made  # type: ignore[no-any-return]


def _is_set(word: str, field: Any) -> bool:
    """Whether a key of a configuration is an option."""
    return word not in UNSET and str(field.get("type")) in KINDS and field.get("default") is not None


def _option(word: str, field: Any) -> tuple[Any, Any, str]:
    """Type, default and description of an option."""
    kind = KINDS[field.type]
    limits = {}
    if kind in (int, float):
        most = MOST_STEPS if word == "episodeSteps" else MOST
        limits = {"ge": field.get("minimum", -most), "le": min(field.get("maximum", most), most)}
    return Annotated[kind, Field(**limits)], kind(field.default), field.get("description", word)


def _bot_name(name: str) -> str:
    """What a bot is called: every game has a `random` of its own."""
    return "kaggle_random" if name == "random" else name


def _with_raw(choices: Choices) -> Choices:
    """These choices, which take JSON of the environment's own agents, too."""

    class WithRaw(type(choices)):  # type: ignore[misc]  # the kind of the game's actions
        def check(self, answer: Any, options: Any) -> Any:
            return answer if type(answer) is dict else super().check(answer, options)

        def read(self, stored: Any) -> Any:
            return stored if type(stored) is dict else super().read(stored)

        def is_numbers(self, action: Any) -> bool:
            return NUMBERED in action if type(action) is dict else super().is_numbers(action)

        def flat(self, action: Any) -> list[float]:
            return super().flat(action[NUMBERED] if type(action) is dict else action)  # type: ignore[no-any-return]

    return WithRaw(choices.spec)


def _own_copy(agent: Any) -> Any:
    """A function with copies of the functions and containers among the globals of its module; else the same."""
    if not isinstance(agent, FunctionType):
        return agent
    own: dict[str, Any] = {}

    def copied(value: Any) -> Any:
        if isinstance(value, FunctionType) and value.__globals__ is agent.__globals__:
            made = FunctionType(value.__code__, own, value.__name__, value.__defaults__, value.__closure__)
            made.__kwdefaults__ = value.__kwdefaults__
            return made
        return copy.copy(value) if type(value) in (dict, list, set) else value

    own.update({word: copied(value) for word, value in agent.__globals__.items()})
    return copied(agent)
