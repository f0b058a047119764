"""The games that are registered or offered, and their bots, as lists to be shown."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass

from league.envs import entry_points, registry
from league.errors import LeagueError
from league.types import GameSpec


@dataclass(frozen=True)
class ListedGame:
    """A game by its name."""

    name: str
    about: str
    """What it is, in a line (`ABOUT`, or its docstring's first); why it cannot be used where that is so."""
    action: str
    """The kind of its actions."""
    observation: int | None
    """Numbers that a seat sees."""
    bots: tuple[str, ...]
    anchor: str | None
    """The bot held at 1000."""
    source: str
    """The distribution that offers it; empty: ours."""


@dataclass(frozen=True)
class ListedBot:
    """A bot of a game."""

    bot: str
    """As agents are named: `bot:NAME`."""
    game: str
    kind: str
    """`native`: part of the game's own step; `Python`."""
    role: str
    """`anchor`, which is held at 1000, `floor`, which a learner must beat, or neither."""
    meaning: str


def listed_games() -> list[ListedGame]:
    """Every game that has a name here; one that cannot be imported is listed with the reason."""
    offered = entry_points.names(registry.ENTRY_POINTS)
    return [_listed(name) for name in dict.fromkeys([*registry.games(), *sorted(offered)])]


def listed_bots(game: str | None = None) -> list[ListedBot]:
    """The bots of a registered game, or of all."""
    found = []
    for name in registry.games() if game is None else [game]:
        spec, meanings = _spec(name), meanings_of(name, "bots")
        roles = {spec.floor: "floor", spec.anchor: "anchor"}
        carried = registry.carried_bots(name)
        kinds = [*((bot, "native") for bot in spec.bots), *((bot, "Python") for bot in carried)]
        meanings = {bot: _said_of(code) for bot, code in carried.items()} | {**meanings}
        found += [ListedBot(f"bot:{bot}", name, kind, roles.get(bot, ""), meanings.get(bot, "")) for bot, kind in kinds]
    return found


def reward_meanings(game: str) -> dict[str, str]:
    """A game's reward terms, and what each pays for where the game says it."""
    meanings = meanings_of(game, "reward terms")
    return {term: meanings.get(term, term.replace("_", " ")) for term in _spec(game).reward_terms}


def meanings_of(game: str, kind: str) -> Mapping[str, str]:
    """What a game's module says in `MEANINGS` of its bots or reward terms; empty where it has none."""
    meanings = getattr(registry.game(game), "MEANINGS", {}).get(kind, {})
    return meanings if isinstance(meanings, Mapping) else {}


def _said_of(bot: object) -> str:
    """The first line of the docstring of a function or class."""
    said = inspect.getdoc(bot) if inspect.isroutine(bot) or inspect.isclass(bot) else None
    return (said or "").partition("\n")[0]


def _spec(name: str) -> GameSpec:
    return registry.spec(name, registry.options_model(name)().model_dump())


def _listed(name: str) -> ListedGame:
    source = registry.source(name).address if name in registry.games() else "installed"
    try:
        spec = _spec(name)
    except (LeagueError, ImportError) as error:
        return ListedGame(name, f"cannot be used: {error}", "", None, (), None, source)
    game = registry.game(name)
    about = getattr(game, "ABOUT", "") or (getattr(game, "__doc__", "") or "").strip().partition("\n")[0]
    bots = (*spec.bots, *registry.carried_bots(name))
    return ListedGame(name, about, spec.action.kind, spec.obs_size, bots, spec.anchor, source)
