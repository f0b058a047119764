"""Games by name: their options checked, their identity, their match batches.

A game is a module (or any object) with three attributes: `Options`, a frozen pydantic model that forbids unknown
keys, whose values are checked strictly (neither a string nor a bool is a number); `spec(options) -> GameSpec`;
`make(rows, threads, options) -> MatchBatch`. What else it may have: `render`, if it can be drawn; `KEYS`, which names
the keys of its actions; `tree(options) -> GameTree`, if it is small enough to be solved; `slow() -> str`, which says
what makes it slow on this machine. Modules are imported when first asked for.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ValidationError

from league.errors import ConfigError, nearest
from league.types import GameSpec, GameTree, MatchBatch

COMMON_ENV_KEYS = ("name", "rows", "threads", "strict_masks")
"""The keys of [env] that every game has; named when a misspelt option may mean one of them."""


ROWS_A_THREAD = 512


class Game(Protocol):
    """What a game's module offers."""

    Options: type[BaseModel]

    def spec(self, options: Any) -> GameSpec:
        """What the game is under `options`."""

    def make(self, rows: int, threads: int, options: Any) -> MatchBatch:
        """`rows` matches side by side, stepped by `threads` threads (at least 1)."""


class Render(Protocol):
    """The `render` of a game that can be drawn."""

    def __call__(
        self,
        batch: MatchBatch,
        row: int,
        *,
        size: tuple[int, int] = ...,
        show_boxes: bool = ...,
        names: tuple[str, str] = ...,
    ) -> npt.NDArray[np.uint8]:
        """The picture (height, width, 3) of a row as it stands.

        Args:
            size: (width, height).
            show_boxes: show also what the rules see and players do not.
            names: of the seats.
        """


_games: dict[str, str | Game] = {
    "brawl": "league.envs.brawl.env",
    "cards": "league.envs.cards.env",
    "matrix": "league.envs.classic.matrix",
    "kuhn": "league.envs.classic.kuhn",
    "leduc": "league.envs.classic.leduc",
}


def games() -> tuple[str, ...]:
    """The names of the registered games."""
    return tuple(_games)


def register(name: str, game: str | Game) -> None:
    """Adds a game: the dotted path of its module, or the module or object itself.

    Raises:
        ConfigError: another game has this name.
    """
    if _games.get(name, game) != game:
        raise ConfigError(f"env.name={name!r} is already registered for another game; register it under a new name")
    _games[name] = game


def options_model(name: str) -> type[BaseModel]:
    """The model of a game's options, whose fields describe them.

    Raises:
        ConfigError: no game has this name.
    """
    return _game(name).Options


def check_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """`options` checked by the game and completed with its defaults, as JSON values.

    Raises:
        ConfigError: an unknown game or option, or a value outside its rule.
    """
    return _resolve(name, options).model_dump(mode="json")


def spec(name: str, options: Mapping[str, Any]) -> GameSpec:
    """What the game is under `options`.

    Raises:
        ConfigError: as `check_options`.
    """
    return _game(name).spec(_resolve(name, options))


def make(name: str, *, rows: int, threads: int, options: Mapping[str, Any]) -> MatchBatch:
    """A batch of `rows` matches, stepped by `threads` threads.

    0 threads takes one for every `ROWS_A_THREAD` rows, at most one a core: fewer rows are
    stepped before a thread wakes. They step while the nets wait and sleep while these run, so both may
    have every core.

    Raises:
        ConfigError: as `check_options`.
    """
    threads = threads or max(1, min(num_cores(), rows // ROWS_A_THREAD))
    return _game(name).make(rows=rows, threads=threads, options=_resolve(name, options))


def num_cores() -> int:
    """Cores that this process may use: `taskset` and containers leave it fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def renderer(name: str) -> Render | None:
    """The game's `render`; None where it cannot be drawn.

    Raises:
        ConfigError: no game has this name.
    """
    return getattr(_game(name), "render", None)


def slow(name: str) -> str:
    """What makes the game slow on this machine, and how slow; empty where nothing does.

    Raises:
        ConfigError: no game has this name.
    """
    return str(getattr(_game(name), "slow", str)())


def action_names(name: str) -> tuple[str, ...]:
    """What the game calls the keys of its actions; empty where it has no names for them.

    Raises:
        ConfigError: no game has this name.
    """
    return tuple(getattr(_game(name), "KEYS", ()))


def tree(name: str, options: Mapping[str, Any]) -> GameTree | None:
    """One match as a game tree; None for a game that has none.

    Raises:
        ConfigError: as `check_options`; or the game has a tree under other options only.
    """
    grow = getattr(_game(name), "tree", None)
    if grow is None:
        return None
    try:
        return cast(GameTree, grow(_resolve(name, options)))
    except ValueError as error:
        raise ConfigError(str(error)) from None


def game_id(name: str, options: Mapping[str, Any]) -> str:
    """16 hex digits of the sha256 of the game's name, version and completed options: equal only for the same game.

    Raises:
        ConfigError: as `check_options`.
    """
    identity = [name, spec(name, options).version, check_options(name, options)]
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _game(name: str) -> Game:
    if name not in _games:
        raise ConfigError(f"env.name={name!r} is not a registered game{nearest(name, _games)}")
    game = _games[name]
    return cast(Game, import_module(game)) if isinstance(game, str) else game


def _resolve(name: str, options: Mapping[str, Any]) -> BaseModel:
    """The game's options, each of the type that its model names: what is given are JSON values, wherever from."""
    model = options_model(name)
    for key, value in options.items():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except (TypeError, ValueError):
            kind = type(value).__name__
            raise ConfigError(
                f"env.{key}={value!r}: must be a number, a string, a bool or a list of these, not of type {kind};"
                f" change it with --set env.{key}=VALUE or in --config"
            ) from None
    try:
        return model.model_validate_json(json.dumps(dict(options)), strict=True)
    except ValidationError as errors:
        raise ConfigError(_explain(name, model, options, errors)) from None


def _explain(name: str, model: type[BaseModel], options: Mapping[str, Any], errors: ValidationError) -> str:
    """The first problem on one line: the option, its value, the rule, the next step."""
    error = errors.errors(include_url=False)[0]
    rule = str(error["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")
    if not error["loc"]:
        return " ".join(rule.split())
    key = str(error["loc"][0])
    if error["type"] == "extra_forbidden":
        known = nearest(key, [*model.model_fields, *COMMON_ENV_KEYS])
        return " ".join(f"env.{key}={options[key]!r} is not an option of {name}{known}".split())
    meaning = model.model_fields[key].description if key in model.model_fields else None
    line = f"env.{key}={options.get(key)!r}: {rule}" + (f" ({meaning.rstrip('.')})" if meaning else "")
    return " ".join(f"{line}; change it with --set env.{key}=VALUE or in --config".split())
