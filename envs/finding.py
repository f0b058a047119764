"""What is a game: told from what a module, a class or an object has, and held to the contract before it is used."""

from __future__ import annotations

import inspect
import re
from types import ModuleType
from typing import Any, Protocol, cast

from pydantic import BaseModel, ValidationError

from league.envs.adapters import scheme_of
from league.envs.contract.steps import check_shapes
from league.envs.options import COMMON_ENV_KEYS, explain, resolve
from league.envs.sources import HOW
from league.envs.user_code import failing
from league.errors import CodeError, ConfigError, ContractError, nearest, quoted, users_line
from league.types import GameSpec, MatchBatch

PARTS = ("Options", "spec", "make")
"""What every game has."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,47}")
"""What a game from elsewhere may be called: the names of its runs begin so."""
MOST_LETTERS = 100
"""Of a name of a bot, a reward term, a metric or an end reason."""


class GameModule(Protocol):
    """What a game's module offers."""

    Options: type[BaseModel]

    def spec(self, options: Any) -> GameSpec:
        """What the game is under `options`."""

    def make(self, rows: int, threads: int, options: Any) -> MatchBatch:
        """`rows` matches side by side, stepped by `threads` threads (at least 1)."""


def is_game(found: Any) -> bool:
    """Whether it has what every game has."""
    return all(hasattr(found, name) for name in PARTS)


def as_game(found: Any, where: str) -> GameModule:
    """The game that `found` is, or gives: a module or object with `Options`, `spec` and `make`, a class of such
    objects, or whatever has a function `as_game() -> Game`.

    where: how errors call it.

    Raises:
        CodeError, ConfigError: its code raises something, or it is none of these.
    """
    give = getattr(found, "as_game", None)
    with failing(where):
        if callable(give):
            found = give()
        elif is_game(found) and inspect.isclass(found) and inspect.isfunction(inspect.getattr_static(found, "spec")):
            found = found()
    if is_game(found):
        return cast(GameModule, found)
    scheme = scheme_of(found)
    if scheme:
        raise ConfigError(f"env={where}: it is an environment of {scheme}; pass its class, or {scheme}:FILE.py:CLASS")
    missing = ", ".join(name for name in PARTS if not hasattr(found, name))
    kind = found.__name__ if inspect.isclass(found) or inspect.ismodule(found) else type(found).__name__
    raise ConfigError(f"env={where}: {kind} is no game, it has no {missing}; {HOW}")


def pick(module: ModuleType, part: str, where: str) -> Any:
    """What `part` of a module names; without it the module itself where it is a game, else the only one it defines.

    where: how errors call the module.

    Raises:
        ConfigError: it has no such part, no game, or several.
    """
    own = {name: x for name, x in vars(module).items() if name[0] != "_" and _is_defined_in(x, module)}
    if part:
        try:
            return getattr(module, part)
        except AttributeError:
            raise ConfigError(f"env={where}: it has no {part!r}{nearest(part, own)}") from None
    if is_game(module):
        return module
    found = list({id(x): name for name, x in reversed(own.items()) if _gives_game(x)}.values())
    if len(found) == 1:
        return own[found[0]]
    if found:
        raise ConfigError(f"env={where}: it defines several games; add one, :{' or :'.join(sorted(found))}")
    schemes = {name: scheme_of(x) for name, x in own.items() if inspect.isclass(x) and scheme_of(x)}
    if schemes:
        name, scheme = min(schemes.items())
        file = where if where.endswith(".py") or "." in where else f"./{where}.py"
        raise ConfigError(f"env={where}: {name} is an environment of {scheme}; pass {scheme}:{file}:{name}")
    raise ConfigError(f"env={where}: it defines no game; one has Options, spec and make, {HOW}")


def spec_of(game: GameModule, where: str) -> GameSpec:
    """The game's spec under its own defaults.

    Raises:
        CodeError: its code raises something.
        ConfigError: its options or its spec cannot be.
    """
    if not (inspect.isclass(game.Options) and issubclass(game.Options, BaseModel)):
        raise ConfigError(f"env={where}: Options must be a pydantic model of the game's options; {HOW}")
    if shared := game.Options.model_fields.keys() & {*COMMON_ENV_KEYS}:
        raise ConfigError(f"env={where}: its option {min(shared)} is a setting of [env], too; rename the option")
    with failing(where):
        try:
            options = game.Options()
            if not game.Options.model_config.get("validate_default"):
                resolve(where, game.Options, options.model_dump(mode="json", warnings=False))
        except ValidationError as errors:
            line = explain(where, game.Options, {}, errors)
            cause = errors.errors()[0].get("ctx", {}).get("error")
            own = users_line(cause) if isinstance(cause, BaseException) else ""
            told = f"env={where}: the defaults of its Options do not hold: {line}"
            raise (CodeError(f"{told} ({own}); mend it") if own else ConfigError(told)) from None
        except ConfigError as error:
            raise ConfigError(f"env={where}: the defaults of its Options do not hold: {error}") from None
        spec = game.spec(options)
    if not isinstance(spec, GameSpec):
        raise ConfigError(f"env={where}: spec gives {type(spec).__name__}, no GameSpec; {HOW}")
    return spec


def checked(game: GameModule, where: str) -> GameSpec:
    """The game's spec, once a batch of one match fits it.

    Raises:
        CodeError, ConfigError: its code raises something, or something does not fit.
    """
    spec = spec_of(game, where)
    if not isinstance(spec.name, str) or not NAME.fullmatch(spec.name):
        raise ConfigError(
            f"env={where}: its spec's name={spec.name!r} must be letters, digits, '_' and '-', at most 48, a letter or"
            f" digit first; rename it"
        )
    for what in ("bots", "reward_terms", "metrics", "end_reasons"):
        for name in getattr(spec, what):
            if not (isinstance(name, str) and name.isprintable() and len(name) <= MOST_LETTERS):
                raise ConfigError(
                    f"env={where}: its spec's {what} has {quoted(str(name))}, which must be a text of at most"
                    f" {MOST_LETTERS} letters that can be seen; rename it"
                )
    with failing(where):
        batch = game.make(rows=2, threads=1, options=game.Options())
    try:
        with failing(where):
            check_shapes(batch, spec, 2)
    except ContractError as error:
        raise ConfigError(f"env={where}: {error}; mend the game") from None
    return spec


def _is_defined_in(value: Any, module: ModuleType) -> bool:
    if inspect.ismodule(value):
        return False
    home = value if inspect.isclass(value) else type(value)
    return getattr(home, "__module__", None) == module.__name__


def _gives_game(value: Any) -> bool:
    return not inspect.isabstract(value) and (is_game(value) or callable(getattr(value, "as_game", None)))
