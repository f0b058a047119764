"""Environments of Gymnasium, games for one: `gymnasium:CartPole-v1`, `gymnasium:package.module:MyEnv-v0`.

`league.envs.adapters.solo` says how a game for one is a match for two. An environment's keywords are options of the
game; `make` has the time limit, and no wrapper that checks.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from math import isfinite
from types import ModuleType
from typing import Annotated, Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator, registry
from gymnasium.wrappers import OrderEnforcing, TimeLimit
from pydantic import Field

from league.envs.adapters import file_of, own_maker
from league.envs.adapters.actions import Acts
from league.envs.adapters.isolation import silent
from league.envs.adapters.keywords import game_name, keywords_of, options_model, parse_call
from league.envs.adapters.probing import examined, failed, has_box2d
from league.envs.adapters.replies import ReplyError, drawn_by, mode_of
from league.envs.adapters.solo import REWARD, WORLD, Copy, MaskedSoloMatch, SoloFacts, SoloMatch
from league.envs.adapters.spaces import MAX_ROWS, Seen
from league.envs.matches.match import Match, MatchGame
from league.envs.matches.mixtures import choices_of
from league.errors import ConfigError, nearest
from league.types import BOT_PREFIX

STEP_LIMIT = 10_000
"""Steps of an episode of an environment that has no limit of its own."""
FRAME_RATE = 30.0
"""Steps a second of an environment that does not tell."""
Limit = Annotated[int, Field(ge=1, le=1_000_000)]


def open(rest: str, module: ModuleType | None = None) -> MatchGame:
    """The game that `gymnasium:REST` names: `[MODULE:]ID` or `FILE.py[:CLASS]`, and keywords in brackets if need be.

    The keyword `max_rows` is the adapter's own (`Seen`).

    module: the one of MODULE or FILE, where it has run already.

    Raises:
        ConfigError: there is no such environment, it is not installed whole, or it cannot be played here.
    """
    where = f"gymnasium:{rest}"
    name, keywords = parse_call(where, file_of("gymnasium", rest)[2].removeprefix(":"))
    spec = _spec(where, name, module)
    threshold: Any = spec.reward_threshold
    if threshold is not None and (type(threshold) not in (int, float) or not isfinite(threshold)):
        raise ConfigError(
            f"{where}: its reward_threshold={threshold!r} must be a finite number or None; mend where it is registered"
        )
    source = _GymEnvironment(where, spec, keywords)
    known = keywords_of(_creator(where, spec), {**spec.kwargs, **keywords})
    own = {
        "max_episode_steps": (Limit, source.limit, "steps after which an episode is cut"),
        "target": (float | None, spec.reward_threshold, "a return of at least this wins against bot:world"),
    }
    Options = options_model(spec.name, known, own)
    source.defaults = {word: field.default for word, field in Options.model_fields.items()}
    facts = source.facts(source.defaults)
    base = MaskedSoloMatch if facts.has_mask else SoloMatch
    body: dict[str, Any] = {
        "name": game_name("gymnasium", spec.id, keywords),
        "source": source,
        "defaults": {
            "rewards": {REWARD: 1.0, "win": 0.0},
            "agent": {"opponent_encoder": False},
            "pool": {"mix": {BOT_PREFIX + WORLD: 1.0}},
        },
    }
    if "rgb_array" not in source.modes:
        body["render"] = Match.render
    found: Any = type("GymnasiumMatch", (base,), body)
    found.__module__ = f"{__name__}.{body['name']}"
    return MatchGame(found, Options)


class _GymEnvironment:
    """An environment under each of its options, looked at once."""

    def __init__(self, where: str, spec: EnvSpec, keywords: Mapping[str, Any]) -> None:
        self._where, self._spec, self._keywords = where, spec, dict(keywords)
        self._max_rows = self._keywords.pop(MAX_ROWS, None)
        self.limit = spec.max_episode_steps or STEP_LIMIT
        self.defaults: Mapping[str, Any] = {}
        self.modes: frozenset[str] = frozenset()
        self._known: dict[str, SoloFacts] = {}

    def facts(self, options: Mapping[str, Any]) -> SoloFacts:
        """What it is under these options.

        Raises:
            ConfigError: the environment refuses them, or cannot be played here.
        """
        own = ("target",)
        changed = {word: value for word, value in options.items() if word not in own and value != self.defaults[word]}
        key = json.dumps(changed, sort_keys=True)
        if key not in self._known:
            with silent():
                self._known[key] = self._look(changed)
        return self._known[key]

    def _look(self, changed: Mapping[str, Any]) -> SoloFacts:
        limit = changed.get("max_episode_steps", self.limit)
        keywords = {**self._keywords, **changed, "max_episode_steps": limit}
        maker = _creator(self._where, self._spec)

        def make(render_mode: str | None) -> gymnasium.Env[Any, Any]:
            entry = self._spec.entry_point
            if isinstance(entry, type) and not issubclass(entry, gymnasium.Env):
                raise ReplyError(f"class {entry.__name__} is no gymnasium.Env")
            made = gymnasium.make(self._spec, disable_env_checker=True, **{**keywords, **mode_of(maker, render_mode)})
            bare: gymnasium.Env[Any, Any] = _without_checks(made)
            return bare

        def look() -> tuple[SoloFacts, Callable[[], Copy], bool]:
            env = make(None)
            self.modes, rate = drawn_by(env, maker, FRAME_RATE)
            seen, acts = Seen(env.observation_space, self._max_rows), Acts(env.action_space)
            remembers = has_box2d(env)
            env.close()
            facts = SoloFacts(make, seen, acts, choices_of(acts.spec), limit, self._spec.reward_threshold, rate)
            return facts, lambda: Copy(facts), remembers

        return examined(self._where, look, "let it draw from self.np_random alone", {**self._keywords, **changed})


def _spec(where: str, name: str, module: ModuleType | None) -> EnvSpec:
    """What is registered under `[MODULE:]ID`, or a class or function of the module.

    Raises:
        ConfigError: there is nothing.
    """
    place, _, own = name.rpartition(":")
    with silent():
        if place and module is None:
            module = _import(where, place)
        if own in registry:
            return registry[own]
        maker = None if module is None else own_maker(module, own, where, "gymnasium")
        if maker is not None:
            return EnvSpec(own or maker.__name__, maker)  # a partial has no name
        try:
            found = gymnasium.spec(own)
        except gymnasium.error.Error as error:
            rule = " ".join(str(error).split()).partition(" Did you mean")[0].rstrip(".")
        else:
            return found
    close = nearest(own, registry)
    more = close if "did you mean" in close else "; Python's `gymnasium.pprint_registry()` lists those that are there"
    ways = "gymnasium:MODULE:ID imports the module that registers it, gymnasium:./FILE.py:CLASS takes a class"
    raise ConfigError(f"env={where}: {rule}{more}{'' if module else f', and {ways}'}")


def _import(where: str, module: str) -> ModuleType:
    """Imports a module that registers environments, from the current folder, too.

    Raises:
        ConfigError: it cannot be one, or cannot be imported.
    """
    if not all(word.isidentifier() for word in module.split(".")):
        raise ConfigError(
            f"env={where}: {module!r} is no module's name, nor a file's, which ends in .py; write gymnasium:MODULE:ID"
            f" or gymnasium:./FILE.py:CLASS"
        )
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.append(folder)  # last: it hides nothing
    try:
        return import_module(module)
    except Exception as error:
        raise failed(where, error) from error


def _creator(where: str, spec: EnvSpec) -> Any:
    """The class or function that makes an environment."""
    if spec.entry_point is None:
        raise ConfigError(f"env={where}: it is registered for vectors alone; register an entry_point for it")
    try:
        with silent():
            return load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
    except Exception as error:
        raise failed(where, error) from error


def _without_checks(env: Any) -> Any:
    """An environment without the wrappers that do what a copy does itself: the order of calls, and the limit."""
    while type(env) in (OrderEnforcing, TimeLimit):
        env = env.env
    return env
