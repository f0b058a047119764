"""Games by name: what is registered, what came through the door, their options checked, their match batches.

A game is a module (or any object) with three attributes: `Options`, a frozen pydantic model that forbids unknown
keys, whose values are checked strictly (neither a string nor a bool is a number); `spec(options) -> GameSpec`;
`make(rows, threads, options) -> MatchBatch`. What else it may have: `render`, if it can be drawn as a picture;
`drawing`, if it gives itself as shapes (`league.envs.drawing`); `KEYS`, which names the keys of its actions; `WORDS`,
which names the choices of actions that are no keys, or `action_names(options)`, which names either; `tree(options) ->
GameTree`, if it is small enough to be solved; `ABOUT`, a line for lists of games; `MEANINGS`, what its bots and
reward terms are (`envs/listing.py`); `layout(options)`, what the observed numbers are where the spec does not say;
`DEFAULTS`, sections of settings as `[game.NAME]` of the hyperparameter source has them; `PYTHON_BOTS`, bots in Python
by name (docs/bring.md). Modules are imported when they are first used.

Everything goes by the game's own name, `spec(Options()).name`.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from league.envs import adapters, entry_points
from league.envs.finding import GameModule, as_game, checked, spec_of
from league.envs.lastaction import PART as LAST_ACTION
from league.envs.lastaction import shows_last_action, with_last_action, wrap
from league.envs.options import COMMON_ENV_KEYS, resolve
from league.envs.user_code import failing, process_kept
from league.envs.workers.batch import WorkerBatch
from league.errors import ConfigError, nearest, note_user_code
from league.types import GameSpec, GameTree, MatchBatch, ObservationPart, Source

__all__ = ["COMMON_ENV_KEYS", "GameModule", "as_game"]
ENTRY_POINTS = "league.games"
Value = TypeVar("Value")

ROWS_A_THREAD = 512


@dataclass(frozen=True)
class Arrival:
    """What is known of a game that came through the door."""

    source: Source = field(default_factory=Source)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Sections of settings that its module or class carries."""
    bots: Mapping[str, Any] = field(default_factory=dict)
    """Bots in Python that it carries."""
    kind: tuple[str, str] = ("", "")
    """As of `_kind_of`: an object of the same kind takes its place, as in a notebook, or the address of its file."""


_games: dict[str, str | GameModule] = {
    "brawl": "league.envs.brawl.env",
    "cards": "league.envs.cards.env",
    "matrix": "league.envs.classic.matrix",
    "kuhn": "league.envs.classic.kuhn",
    "leduc": "league.envs.classic.leduc",
}
_OURS = frozenset(_games)
_arrivals: dict[str, Arrival] = {}
"""Of the games that this library does not bring."""
_checked_paths: set[tuple[str, str]] = set()
"""Names and dotted paths of `_games` that were compared."""


def games() -> tuple[str, ...]:
    """The names of the registered games."""
    return tuple(_games)


def is_known(name: str) -> bool:
    """Whether a game of that name is registered, or offered by an installed distribution."""
    return name in _games or name in entry_points.names(ENTRY_POINTS)


def register(name: str, game: str | GameModule) -> None:
    """Adds a game: the dotted path of its module, or the module or object itself.

    Raises:
        ConfigError: another game has this name, or the game calls itself otherwise. A dotted path is imported, and its
            name looked at, when it is first used.
    """
    _need_free(name, game)
    if not isinstance(game, str):
        _need_name(name, game)
    note_user_code(game.partition(".")[0] if isinstance(game, str) else _kind_of(game)[0])
    _games[name] = game


@process_kept()
def adopt(
    found: Any,
    where: str,
    source: Source | None = None,
    module: ModuleType | None = None,
    check: Callable[[str], None] = lambda name: None,
) -> str:
    """Takes in a game that was found somewhere, under its own name, which is returned.

    Its options, its spec and the arrays of one match are held to the contract; nothing is played.

    Args:
        found: a game, or something that gives one (`as_game`).
        where: how errors call it.
        source: where it came from; the same source, or an object of the same kind, takes the place of an earlier one.
        module: where it was found, which may carry its `DEFAULTS`.
        check: is given its name once it is registered; what it raises undoes that.

    Raises:
        ConfigError: it is no game, breaks the contract, or another game has its name.
    """
    for code in (found, getattr(found, "match", found)):
        note_user_code(_kind_of(code)[0])
    game = as_game(found, where)
    own = checked(game, where)
    name = own.name
    if name in _games and _game(name) is game:
        return name
    carriers = [game, found, *([] if module is None else [module])]
    brought, bots = _carried(carriers, where)
    for bot in bots:
        if bot in own.bots:
            raise ConfigError(
                f"env={where}: PYTHON_BOTS={bot!r}: the game has a bot of that name itself; rename one of the two"
            )
    arrival = Arrival(source or Source(), brought, bots, _kind_of(found))
    if not _is_again(_arrivals.get(name), arrival):
        _need_free(name, game, where)
    before = _games.get(name), _arrivals.get(name)
    _games[name], _arrivals[name] = game, arrival
    try:
        check(name)
    except BaseException:
        _leave(name)
        if before[0] is not None and before[1] is not None:
            _games[name], _arrivals[name] = before[0], before[1]
        raise
    return name


def source(name: str) -> Source:
    """Where the game came from; all of it empty where this library brings it, or it came as an object."""
    _game(name)
    return _arrivals.get(name, Arrival()).source


def defaults(name: str) -> Mapping[str, Any]:
    """The sections of settings that the game's module or class carries.

    Raises:
        ConfigError: no game has this name.
    """
    found = _game(name)
    arrival = _arrivals.get(name)
    return _carried([found], name)[0] if arrival is None else arrival.defaults


def carried_bots(name: str) -> Mapping[str, Any]:
    """The bots in Python that the game's module or class carries, by name; its native ones are in its spec.

    Raises:
        ConfigError: no game has this name.
    """
    found = _game(name)
    arrival = _arrivals.get(name)
    return getattr(found, "PYTHON_BOTS", {}) if arrival is None else arrival.bots


def game(name: str) -> GameModule:
    """The module or object that a game is.

    Raises:
        ConfigError: no game has this name.
    """
    return _game(name)


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
    return _resolve(name, options).model_dump(mode="json", exclude_none=True)  # None cannot be written in a file


def spec(name: str, options: Mapping[str, Any]) -> GameSpec:
    """What the game is under `options`; with the opponent's last action where that is shown (`league.envs.lastaction`).

    Raises:
        ConfigError: as `check_options`.
    """
    found = _guarded(name, lambda game: game.spec(_resolve(name, options)))
    return with_last_action(found) if shows_last_action(found) else found


def layout(name: str, options: Mapping[str, Any]) -> tuple[ObservationPart, ...]:
    """What the observed numbers of a seat are, part by part, for readers: with bounds where the game gives them.

    Raises:
        ConfigError: as `check_options`.
    """
    whole = spec(name, options)
    give = getattr(_game(name), "layout", lambda options: ())
    parts = _guarded(name, lambda game: tuple(give(_resolve(name, options)))) or whole.observation or ()
    own = _guarded(name, lambda game: game.spec(_resolve(name, options)))
    start = whole.opponent_slice[0] if shows_last_action(own) else whole.obs_size
    if not parts:
        parts = (ObservationPart("observation", 0, (start,), bounds=whole.obs_range),)
    if parts[-1].stop < whole.obs_size:
        parts = (*parts, ObservationPart(LAST_ACTION, start, (whole.obs_size - start,), bounds=(-1.0, 1.0)))
    return parts


def make(name: str, *, rows: int, threads: int, options: Mapping[str, Any], workers: int = 0) -> MatchBatch:
    """A batch of `rows` matches, stepped by `threads` threads in this process, or of each of `workers` processes.

    0 threads takes one for every `ROWS_A_THREAD` rows, at most one a core: fewer rows are
    stepped before a thread wakes. They step while the nets wait and sleep while these run, so both may
    have every core. A worker process takes one.

    Raises:
        ConfigError: as `check_options`; or worker processes cannot play the game.
        WorkerError: a worker process has died.
    """
    if workers:
        return WorkerBatch(
            recipe(name),
            lambda count: make(name, rows=count, threads=1, options=options),
            rows=rows,
            workers=workers,
            threads=threads,
            options=check_options(name, options),
        )
    threads = threads or max(1, min(num_cores(), rows // ROWS_A_THREAD))
    batch = _guarded(name, lambda game: game.make(rows=rows, threads=threads, options=_resolve(name, options)))
    return wrap(batch) if shows_last_action(getattr(batch, "spec", None)) else batch


def recipe(name: str) -> dict[str, str]:
    """How another process finds the game: its `name`, and its `address` with its `sha256`, or the `path` of its module.

    Raises:
        ConfigError: no game has this name, or it was given as an object, which is in this process only.
    """
    _game(name)
    registered, came = _games[name], source(name)
    if not isinstance(registered, str) and not came.address:
        raise ConfigError(
            f"env.workers: the game {name} was given as an object, which worker processes cannot find; put it into a"
            f" file and pass --env FILE.py, or set env.workers=0"
        )
    path = registered if isinstance(registered, str) and name not in _OURS else ""
    return {"name": name, "path": path, "address": came.address, "sha256": came.sha256}


def num_cores() -> int:
    """Cores that this process may use: `taskset` and containers leave it fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def action_names(name: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    """What the game calls its keys or the choices of its actions, part by part; empty where it has no names for them.

    Of legal tuples the first part's choices, or all parts'.

    Raises:
        ConfigError: as `check_options`.
    """
    found = _game(name)
    give = getattr(found, "action_names", None)  # of a match in plain Python, where options may decide them
    if give is not None:
        return tuple(_guarded(name, lambda game: give(_resolve(name, options))))
    return tuple(getattr(found, "WORDS", ()) or getattr(found, "KEYS", ()))


def tree(name: str, options: Mapping[str, Any]) -> GameTree | None:
    """One match as a game tree; None for a game that has none.

    Args:
        name: of a registered game, or an address of another library's, such as `openspiel:kuhn_poker`.
        options: of the game.

    Raises:
        ConfigError: as `check_options`; or the game has a tree under other options only.
    """
    name = _named(name)
    grow = getattr(_game(name), "tree", None)
    if grow is None:
        return None
    if shows_last_action(_guarded(name, lambda game: game.spec(_resolve(name, options)))):  # its nodes do not show it
        return None

    def grown(game: GameModule) -> GameTree:
        try:
            return cast(GameTree, grow(_resolve(name, options)))
        except ValueError as error:
            raise ConfigError(str(error)) from None

    return _guarded(name, grown)


def game_id(name: str, options: Mapping[str, Any]) -> str:
    """16 hex digits of the sha256 of the game's name, version and completed options: equal only for the same game.

    Raises:
        ConfigError: as `check_options`.
    """
    identity = [name, spec(name, options).version, check_options(name, options)]
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _named(name: str) -> str:
    """The name of a game that an address of another library's names, which is opened; any other name as it is."""
    scheme, colon, rest = name.partition(":")
    if not colon or scheme not in adapters.SCHEMES:
        return name
    known = [own for own, arrival in _arrivals.items() if arrival.source.address == name]
    if known:
        return known[0]
    return adopt(adapters.open_game(scheme, rest), name, Source(name, adapters.library_version(scheme)))


def _game(name: str) -> GameModule:
    if name not in _games:
        offered = entry_points.load(ENTRY_POINTS, name)
        if offered is None:
            known = nearest(name, [*_games, *entry_points.names(ENTRY_POINTS)])
            if ":" in name or name.endswith(".py"):
                known = "; an address is given by --env, or env="
            raise ConfigError(f"env.name={name!r} is not a registered game{known}")
        own = adopt(offered.found, name, offered.source)
        if own != name:
            _leave(own)
            raise ConfigError(f"env.name={name!r}: that entry point's game calls itself {own!r}; rename one of the two")
    game = _games[name]
    if not isinstance(game, str):
        return game
    module = cast(GameModule, import_module(game))
    if (name, game) not in _checked_paths:
        _need_name(name, module)
        _checked_paths.add((name, game))
    return module


def _resolve(name: str, options: Mapping[str, Any]) -> BaseModel:
    return _guarded(name, lambda game: resolve(name, game.Options, options))


def _guarded(name: str, call: Callable[[GameModule], Value]) -> Value:
    """What a game's own code gives. A game from elsewhere that fails is one line; one of ours is a bug.

    Raises:
        CodeError: it fails.
    """
    game = _game(name)
    if name in _OURS:
        return call(game)
    with failing(source(name).address or name):
        return call(game)


def _carried(carriers: Sequence[Any], where: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The `DEFAULTS` and the `PYTHON_BOTS` of a game, its class and its module, an earlier one over a later one.

    Below all `DEFAULTS` lies what a game `IMPLIED`, if anything.

    Raises:
        ConfigError: they are no mappings.
    """
    defaults: dict[str, Any] = dict(getattr(carriers[0], "IMPLIED", {}))
    bots: dict[str, Any] = {}
    for carrier in reversed(carriers):
        own, players = getattr(carrier, "DEFAULTS", None) or {}, getattr(carrier, "PYTHON_BOTS", None) or {}
        if not isinstance(own, Mapping) or not all(isinstance(section, Mapping) for section in own.values()):
            raise ConfigError(
                f"env={where}: DEFAULTS={own!r} must map sections to settings, such as {{'agent': {{...}}}}"
            )
        if not isinstance(players, Mapping) or not all(isinstance(k, str) and callable(v) for k, v in players.items()):
            raise ConfigError(
                f"env={where}: PYTHON_BOTS={players!r} must map names to functions (observation, legal, rng) -> action"
            )
        for section, settings in own.items():
            defaults[section] = {**defaults.get(section, {}), **settings}
        bots |= players
    return defaults, bots


def _leave(name: str) -> None:
    _games.pop(name, None)
    _arrivals.pop(name, None)


def _is_again(earlier: Arrival | None, arrival: Arrival) -> bool:
    """Whether it is the same game that comes once more, changed perhaps."""
    if earlier is None:
        return False
    a, b = earlier.source, arrival.source
    is_same_source = (a.address == b.address != "") or (a.sha256 == b.sha256 != "")
    return is_same_source or (
        earlier.kind == arrival.kind and (a.address == b.address or not (a.address and b.address))
    )


def _need_free(name: str, game: str | GameModule, where: str = "") -> None:
    if _games.get(name, game) == game:
        return
    other = _arrivals.get(name, Arrival()).source.address
    by = f" (from {other})" if other else ""
    begin = f"env={where}: another game called {name!r}" if where else f"env.name={name!r}"
    raise ConfigError(f"{begin} is already registered for another game{by}; give one of them a new name")


def _need_name(name: str, game: GameModule) -> None:
    own = spec_of(game, name).name
    if own != name:
        raise ConfigError(f"env.name={name!r}: the game calls itself {own!r}; register it under that name")


def _kind_of(found: Any) -> tuple[str, str]:
    """The file and the name of a game's class, or the file of its module; without a file the module's name."""
    found = getattr(found, "match", found)
    home = found if inspect.isclass(found) or inspect.ismodule(found) else type(found)
    module = home.__name__ if inspect.ismodule(home) else home.__module__
    file = getattr(sys.modules.get(module), "__file__", None)
    return os.path.realpath(file) if file else module, "" if inspect.ismodule(home) else home.__qualname__
