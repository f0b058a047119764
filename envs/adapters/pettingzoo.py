"""Environments of PettingZoo for two agents: `pettingzoo:connect_four_v3`, `pettingzoo:classic/rps_v2`,
`pettingzoo:mpe2.simple_push_v3`.

An environment with a parallel form is played in it, both at once; others in turns. Which seat is which agent is drawn
by the match's seed, so that seats are fair. A seat sees its agent's observation, and which agent it is. The winner is
who was paid more.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pettingzoo
from pettingzoo.utils import wrappers
from pydantic import Field

from league.envs.adapters import file_of, own_maker
from league.envs.adapters.actions import Acts
from league.envs.adapters.isolation import silent
from league.envs.adapters.keywords import game_name, keywords_of, options_model, parse_call
from league.envs.adapters.probing import examined, failed, has_box2d
from league.envs.adapters.replies import ReplyError, drawn_by, mode_of, told
from league.envs.adapters.roles import Deeds, SharedLayout
from league.envs.adapters.spaces import MAX_ROWS, Seen, range_of, spec_parts
from league.envs.adapters.tables import PLAYERS, AtOnce, InTurns, TwoAgentTable, ZooFacts, agents_of
from league.envs.matches.match import Match, MatchGame
from league.envs.matches.mixtures import choices_of
from league.envs.matches.row import BatchRules, MatchError
from league.errors import ConfigError, described, nearest, users_line
from league.types import SEATS, FloatArray, Utility

REWARD = "reward"
"""The reward term of what the environment pays."""
TERMINATED, TRUNCATED = "terminated", "truncated"
STEP_LIMIT = 10_000
FRAME_RATE = 2.0
"""Decisions a second of an environment that does not tell."""
CHECKING = (
    wrappers.AssertOutOfBoundsWrapper,
    wrappers.CaptureStdoutWrapper,
    wrappers.OrderEnforcingWrapper,
    wrappers.TerminateIllegalWrapper,
)
"""Wrappers that change nothing where only legal actions are played, in order."""
VERSIONED = re.compile(r"(.+_v\d+)\.py")
Limit = Annotated[int, Field(ge=1, le=1_000_000)]


class ZooMatch(Match):
    """One match; `open` makes a subclass for each environment."""

    source: ClassVar[_ZooEnvironment]
    reward_terms = (REWARD,)
    metrics = ("return",)
    end_reasons = (TERMINATED, TRUNCATED)

    def __init__(self, **options: Any) -> None:
        self._limit = int(options["max_steps"])
        facts = self._facts = self.source.facts(options)
        self.obs_size, self.layout, self.action = facts.views.size, facts.views.layout, facts.deeds.spec
        self.observation, self.obs_range = spec_parts(self.layout), range_of(self.layout)
        self.unbounded = facts.views.unbounded
        self.tick_rate = facts.frame_rate
        self._table: TwoAgentTable | None = None
        self._stage: tuple[TwoAgentTable, int, int] | None = None
        """A table that is drawn, its seed and how far it has come."""
        self._seed = self._swap = 0
        self._log: list[dict[int, Any]] = []
        self._sums = [0.0] * SEATS

    def rules(self) -> BatchRules:
        """As `Match.rules`; no match is longer than the limit."""
        return replace(super().rules(), max_steps=self._limit + 1)

    def reset(self, rng: np.random.Generator) -> None:
        """Begins a match; which seat is which agent is drawn first."""
        self._swap, self._seed = int(rng.integers(SEATS)), int(rng.integers(2**31 - 1))
        self._log, self._sums = [], [0.0] * SEATS
        if self._table is None:
            self._table = _table(self._facts)
        self._table.begin(self._seed)
        self._settle()

    def observe(self, seat: int) -> FloatArray:
        """What the seat's agent sees, and which one it is."""
        return self.table.view(seat ^ self._swap)

    @property
    def table(self) -> TwoAgentTable:
        """The environment as it stands.

        Raises:
            MatchError: no match has begun.
        """
        if self._table is None:
            raise MatchError("no match has begun")
        return self._table

    def render(self) -> npt.ArrayLike:
        """The environment's picture: the match so far is played again in a table that can be drawn.

        Raises:
            MatchError: what draws it is not installed, or it draws no picture.
        """
        table, seed, done = self._stage or (None, -1, 0)
        try:
            if table is None:
                table = _table(self._facts, "rgb_array")
            if seed != self._seed or done > len(self._log):
                table.begin(self._seed)
                done = 0
            for actions in self._log[done:]:
                table.step(actions)
            self._stage = table, self._seed, len(self._log)
            picture = table.render()
        except Exception as error:
            where = f" ({line})" if (line := users_line(error)) else ""
            raise MatchError(f"{self.name} cannot be drawn: {described(error)}{where}; mend it") from error
        return picture

    def _play(self, actions: dict[int, Any]) -> None:
        """The actions by player."""
        self._log.append(actions)
        self.table.step(actions)
        self._settle()

    def _settle(self) -> None:
        """What was paid, whose turn it is, and the end."""
        table = self.table
        is_long = not table.is_over and len(self._log) >= self._limit
        if is_long:
            table.cut_off()
        for player, paid in enumerate(table.take_pay()):
            self._sums[player] += paid
            if paid and self._log:
                self.reward(player ^ self._swap, REWARD, paid)
        alone = table.to_act if len(table.to_act) == 1 and not self._facts.is_parallel else ()
        self.to_move = alone[0] ^ self._swap if alone else None
        if not table.is_over and not is_long:
            return
        sums = [self._sums[seat ^ self._swap] for seat in PLAYERS]
        for seat, total in enumerate(sums):
            self.measure(seat, "return", total)
        cuts = table.cuts
        winner = None if sums[0] == sums[1] else int(sums[1] > sums[0])
        self.end(winner, TRUNCATED if any(cuts) else TERMINATED, cut=(cuts[self._swap], cuts[1 ^ self._swap]))


class TurnsMatch(ZooMatch):
    """Of agents in turn."""

    def play(self, action: Any) -> None:
        """The decision of the agent whose turn it is."""
        self._play({self.table.to_act[0]: action})


class SimultaneousMatch(ZooMatch):
    """Of agents that act at once."""

    def step(self, actions: tuple[Any, Any]) -> None:
        """Both agents' decisions; that of one who is out is ignored."""
        self._play({seat ^ self._swap: action for seat, action in enumerate(actions)})


def _legal(match: ZooMatch, seat: int) -> Any:
    """What the seat's agent may do: `legal` of an environment that tells."""
    legal = match.table.legal(seat ^ match._swap)
    return match._facts.choices.everything if legal is None else legal


def open(rest: str, module: ModuleType | None = None) -> MatchGame:
    """The game that `pettingzoo:REST` names: `[FAMILY/]NAME`, `MODULE[:CLASS]` or `FILE.py[:CLASS]`, and keywords in
    brackets if need be. The keyword `max_rows` is the adapter's own (`Seen`).

    module: the one of MODULE or FILE, where it has run already.

    Raises:
        ConfigError: there is no such environment, it is not installed whole, or it cannot be played here.
    """
    where = f"pettingzoo:{rest}"
    _, file, behind = file_of("pettingzoo", rest)
    name, keywords = parse_call(where, behind)
    place, _, part = name.rpartition(":") if ":" in name else (name, "", "")
    module = module or _module(where, place)
    stem = Path(file).stem if file else module.__name__.rpartition(".")[2]
    makers, word = _makers(module, part, stem, where)
    source = _ZooEnvironment(where, makers, keywords)
    own = {"max_steps": (Limit, STEP_LIMIT, "decisions after which a match is cut")}
    Options = options_model(word, source.keywords(), own)
    source.defaults = {word: field.default for word, field in Options.model_fields.items()}
    facts = source.facts(source.defaults)
    body: dict[str, Any] = {
        "name": game_name("pettingzoo", word, keywords),
        "source": source,
        "defaults": {"rewards": {REWARD: 1.0, "win": 0.0}, "agent": {"opponent_encoder": False}},
    }
    if not facts.is_won:
        body["utility"] = Utility(REWARD)
    if facts.has_mask or facts.deeds.is_unequal:
        body["legal"] = _legal
    if "rgb_array" not in source.modes:
        body["render"] = Match.render
    found: Any = type("PettingZooMatch", (SimultaneousMatch if facts.is_parallel else TurnsMatch,), body)
    found.__module__ = f"{__name__}.{body['name']}"
    return MatchGame(found, Options)


class _ZooEnvironment:
    """An environment under each of its options, looked at once."""

    def __init__(self, where: str, makers: list[Callable[..., Any]], keywords: Mapping[str, Any]) -> None:
        self._where, self._makers, self._keywords = where, makers, dict(keywords)
        self._max_rows = self._keywords.pop(MAX_ROWS, None)
        self.defaults: Mapping[str, Any] = {}
        self.modes: frozenset[str] = frozenset()
        self._known: dict[str, ZooFacts] = {}

    def keywords(self) -> dict[str, tuple[Any, Any]]:
        """As `keywords_of`, of whatever makes it; some only pass on what they are given."""
        found: dict[str, tuple[Any, Any]] = {}
        for make in self._makers:
            found = keywords_of(make, self._keywords) | found
        return {word: found[word] for word in found if word != "max_steps"}

    def _counts(self) -> list[str]:
        """Keywords that are whole numbers, of which some may say how many agents there are."""
        return [word for word, (_, default) in self.keywords().items() if type(default) is int]

    def facts(self, options: Mapping[str, Any]) -> ZooFacts:
        """What it is under these options.

        Raises:
            ConfigError: the environment refuses them, or cannot be played here.
        """
        changed = {
            word: value for word, value in options.items() if word != "max_steps" and value != self.defaults[word]
        }
        key = json.dumps(changed, sort_keys=True)
        if key not in self._known:
            with silent():
                self._known[key] = self._look({**self._keywords, **changed})
        return self._known[key]

    def _look(self, keywords: Mapping[str, Any]) -> ZooFacts:
        maker = self._makers[0]

        def make(render_mode: str | None) -> Any:
            return _without_checks(maker(**keywords, **mode_of(maker, render_mode)))

        def look() -> tuple[ZooFacts, Callable[[], TwoAgentTable], bool]:
            env = make(None)
            if not callable(getattr(env, "step", None)):
                raise ReplyError(f"{told(env)} is no environment of PettingZoo: it has no method `step`")
            self.modes, rate = drawn_by(env, maker, FRAME_RATE)
            env.reset(seed=0)
            facts = self._facts_of(env, make, rate)
            return facts, lambda: _table(facts), has_box2d(env)

        return examined(self._where, look, "let it draw from what reset(seed) seeds alone", keywords)

    def _facts_of(self, env: Any, make: Any, rate: float) -> ZooFacts:
        agents = agents_of(env)
        if len(agents) != SEATS:
            raise ConfigError(
                f"env={self._where}: it is for {len(agents)} agents; take one for two, or name keywords that make it"
                f" so, as in NAME(num_players=2); its own are {', '.join(self._counts()) or 'none'}"
            )
        views = SharedLayout(*(Seen(env.observation_space(agent), self._max_rows) for agent in agents))
        deeds = Deeds(*(Acts(env.action_space(agent)) for agent in agents))
        is_parallel = isinstance(env, pettingzoo.ParallelEnv) or not callable(getattr(env, "last", None))
        return ZooFacts(make, is_parallel, views, deeds, choices_of(deeds.spec), rate)


def _without_checks(env: Any) -> Any:
    """An environment without the wrappers that only check what the engine keeps to; they take half of the time."""
    while type(env) in CHECKING:
        env = env.env
    return env


def _table(facts: ZooFacts, render_mode: str | None = None) -> TwoAgentTable:
    return (AtOnce if facts.is_parallel else InTurns)(facts, render_mode)


def _makers(module: ModuleType, part: str, stem: str, where: str) -> tuple[list[Callable[..., Any]], str]:
    """What makes an environment, and then what it may pass keywords on to; and its name, of a whole module `stem`.

    Raises:
        ConfigError: the module has no such part, or makes none.
    """
    names = () if part else ("parallel_env", "env", "raw_env")
    found = [getattr(module, name) for name in names if hasattr(module, name)]
    if found:
        return found, stem
    maker = own_maker(module, part, where, "pettingzoo")
    if maker is None:
        raise ConfigError(f"env={where}: {part!r} is no name of a class or a function")
    return [maker], part or maker.__name__  # a partial has no name


def _module(where: str, name: str) -> ModuleType:
    """The module of an environment.

    Raises:
        ConfigError: there is none, or it cannot be imported.
    """
    known = _known()
    family, slash, word = name.rpartition("/")
    if slash:
        path = f"pettingzoo.{family}.{word}" if f"{family}/{word}" in known.values() else ""
    elif "." in name or where.partition("(")[0].count(":") > 1:
        path, folder = name, os.getcwd()
        if folder not in sys.path:
            sys.path.append(folder)  # last: it hides nothing
    else:
        path = "pettingzoo." + known[name].replace("/", ".") if name in known else ""
    if not path or not all(word.isidentifier() for word in path.split(".")):
        close = nearest(word, known) if not slash else nearest(name, known.values())
        if name.isidentifier() and Path(f"{name}.py").exists():
            close = f"; name the file, pettingzoo:./{name}.py, or a class of the module, pettingzoo:{name}:CLASS"
        raise ConfigError(f"env={where}: PettingZoo has no environment {name!r}{close}")
    try:
        with silent():
            return import_module(path)
    except Exception as error:  # whatever its own code raises
        raise failed(where, error) from error


def _known() -> dict[str, str]:
    """The environments of the library by name: family/name. Nothing is imported."""
    root = Path(str(pettingzoo.__file__)).parent
    found = {}
    for path in sorted(root.glob("*/*.py")):
        match = VERSIONED.fullmatch(path.name)
        if match:
            found[match[1]] = f"{path.parent.name}/{match[1]}"
    return found
