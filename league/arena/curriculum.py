"""A curriculum: lessons' options checked by the game, and held to what one network can play."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from league.config.models import Config, LessonConfig, Option
from league.envs import registry
from league.envs.contract.games import check_quickly
from league.errors import CodeError, ConfigError, ContractError, rule_of
from league.types import GameSpec

ALIKE = (
    *("obs_size", "opponent_slice", "observation", "action", "reward_terms", "metrics", "bots"),
    *("tick_rate", "ticks_per_step"),
)
"""What a network, its rewards, its memory and its opponents hang on: the same in every lesson."""


def completed(config: Config) -> list[dict[str, Option]]:
    """The options of each lesson as the game has them: checked, and no others than were given.

    Raises:
        ConfigError: an unknown option, or a value outside its rule, with its lesson.
    """
    found = []
    for lesson in config.env.curriculum:
        options = options_of(config, lesson)
        found.append({name: options[name] for name in lesson.options})
    return found


def options_of(config: Config, lesson: LessonConfig) -> dict[str, Any]:
    """All options of the game in a lesson: the run's, and over them the lesson's.

    Raises:
        ConfigError: as `completed`.
    """
    with _named(lesson):
        return registry.check_options(config.env.name, {**config.env.options, **lesson.options})


def at_start(config: Config) -> Config:
    """The settings of a run without a curriculum whose game is the one that training rows play at first.

    Raises:
        ConfigError: as `completed`.
    """
    begun = [lesson for lesson in config.env.curriculum if lesson.begins == 0]
    options = options_of(config, begun[-1]) if begun else config.env.options
    env = config.env.model_copy(update={"options": options, "curriculum": ()})
    return config.model_copy(update={"env": env})


def check(config: Config, spec: GameSpec) -> None:
    """Refuses lessons that the network of the game `spec` could not play, and those that break the contract of games.

    Raises:
        ConfigError: with the lesson, and what differs.
        ContractError: with the lesson, row, seat, step and column.
    """
    name = config.env.name
    seen = [dict(config.env.options)]
    for lesson in config.env.curriculum:
        options = options_of(config, lesson)
        if options in seen:
            continue
        seen.append(options)
        with _named(lesson):
            other = registry.spec(name, options)
            for field in ALIKE:
                here, there = getattr(spec, field), getattr(other, field)
                if here != there:
                    raise ConfigError(
                        f"it makes {field} of {name} {there}, which is {here} without it, and one network plays every"
                        f" lesson; leave out the option that does so"
                    )
            check_quickly(name, options)


def words(options: Mapping[str, Option]) -> str:
    """A lesson's options, as they are said."""
    return ", ".join(f"{name}={value}" for name, value in options.items()) or "its own options"


@contextmanager
def _named(lesson: LessonConfig) -> Iterator[None]:
    """Within it an error tells of which lesson it is."""
    where = f"env.curriculum, from={lesson.begins} with {words(lesson.options)}"
    try:
        yield
    except (CodeError, ConfigError, ContractError) as error:
        raise type(error)(f"{where}: {rule_of(error)}") from None
