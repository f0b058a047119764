"""What a game and an agent must agree in before it plays: which game it is, what a seat sees and what it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from league.envs import registry
from league.errors import ConfigError, UsageError, one_line, rule_of
from league.snapshots.manifest import GameRecord, Manifest, spec_from_json
from league.types import GameSpec

MOST_LETTERS = 200
"""Of a value that is shown."""


def need_agreement(manifest: Manifest) -> GameSpec:
    """Refuses an agent that cannot play its game as this process has it; gives the game's spec.

    Reward terms, metrics, end reasons, bots and the game's time are not compared: no network depends on them.

    Raises:
        UsageError: with the field that differs, as the agent has it and as the game has it.
    """
    game = manifest.game
    whose, name = f"agent {manifest.run}@{manifest.step}", one_line(game.name)
    try:
        spec = registry.spec(game.name, game.options)
        other = difference_of_games(game, spec, registry.check_options(game.name, game.options))
    except ConfigError as error:
        raise UsageError(
            f"{whose}: its options are not those of the game {name} now: {rule_of(error)}; take the agent from its"
            f" source again, or play it with the game that it was trained in"
        ) from None
    if other:
        raise UsageError(f"{whose} plays another {name}: {other}; play it with the game that it was trained in")
    if differs := difference_of_views(spec_from_json(manifest.spec), spec):
        raise UsageError(f"{whose}: {name} has changed since: {differs}; undo that change, or train another agent")
    return spec


def difference_of_games(game: GameRecord, spec: GameSpec, options: Mapping[str, Any]) -> str:
    """What tells the game of a record from the registered one under `options`, all of them; empty where nothing does.

    spec: of the registered game.
    """
    if game.name != spec.name:
        return _words("name", game.name, spec.name)
    if game.version != spec.version:
        return _words("version", game.version, spec.version)
    for option in sorted({*game.options, *options}):
        there, here = (each.get(option, "not there") for each in (game.options, options))
        if there != here:
            return _words(f"option {option}", there, here)
    own = registry.game_id(spec.name, options)
    return "" if own == game.game_id else _words("game_id", game.game_id[:16], own)


def difference_of_views(theirs: GameSpec, ours: GameSpec) -> str:
    """The first field of observation or action in which two specs differ, with both values; empty where none does."""
    for name in ("obs_size", "opponent_slice", "obs_range"):
        if getattr(theirs, name) != getattr(ours, name):
            return _words(name, getattr(theirs, name), getattr(ours, name))
    if theirs.observation is None or ours.observation is None:
        if theirs.observation != ours.observation:
            return _words("observation", theirs.observation, ours.observation)
    else:
        for there, here in zip(theirs.observation, ours.observation, strict=False):  # both fill obs_size
            if there != here:
                return _fields(f"observation part {one_line(there.name)!r}: ", there, here)
    return "" if theirs.action == ours.action else _fields("action.", theirs.action, ours.action)


def _fields(where: str, there: Any, here: Any) -> str:
    """The first field in which two dataclasses differ."""
    name = next(each.name for each in fields(there) if getattr(there, each.name) != getattr(here, each.name))
    return where + _words(name, getattr(there, name), getattr(here, name))


def _words(name: str, there: Any, here: Any) -> str:
    return f"{name} was {one_line(repr(there))[:MOST_LETTERS]} and is {one_line(repr(here))[:MOST_LETTERS]}"
