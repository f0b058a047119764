"""Games of other libraries: `SCHEME:ID` is opened by the module of its scheme, which is imported when it is needed.

Such a module has `open(rest: str) -> Game`, `rest` being what stands behind the colon. Where environments may be a
user's own, it is `open(rest, module)`, given the module that was run (`file_of`, `module_of`) or None. It imports its
library within.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, NamedTuple

from league.errors import ConfigError, nearest

if TYPE_CHECKING:
    from types import ModuleType


class Scheme(NamedTuple):
    """What opens the addresses of one beginning."""

    module: str
    install: str
    """What `pip install` is given for the library."""
    distribution: str
    """The library, whose version is stored with a run."""


KAGGLE = "jsonschema requests && pip install --no-deps kaggle-environments"
"""The package alone: its pins are an old Gymnasium, jax and more, which its environments for two do not need."""
SCHEMES = {
    "pettingzoo": Scheme("league.envs.adapters.pettingzoo", "'league-engine[pettingzoo]'", "pettingzoo"),
    "openspiel": Scheme("league.envs.adapters.openspiel", "'league-engine[openspiel]'", "open_spiel"),
    "gymnasium": Scheme("league.envs.adapters.gymnasium", "'league-engine[gymnasium]'", "gymnasium"),
    "kaggle": Scheme("league.envs.adapters.kaggle", KAGGLE, "kaggle_environments"),
}


FILE = re.compile(r"(.+?\.py)(?=[:(]|$)")
"""The file at the beginning of what stands behind a scheme's colon."""
BASES = {
    ("gymnasium", "Env"): "gymnasium",
    ("pettingzoo", "ParallelEnv"): "pettingzoo",
    ("pettingzoo", "AECEnv"): "pettingzoo",
}
"""Top-level package and name of an environment's base class -> scheme."""


def load(scheme: str) -> ModuleType:
    """The module that opens addresses of `scheme`, one of `SCHEMES`.

    Raises:
        ConfigError: this league has no such module, or its library is not installed.
    """
    found = SCHEMES[scheme]
    try:
        return import_module(found.module)
    except ModuleNotFoundError as error:
        if error.name == found.module:
            raise ConfigError(
                f"env={scheme}:...: this league has no adapter for {found.distribution}; install a newer one, or give"
                f" the game as a file, game.py"
            ) from None
        raise ConfigError(f"env={scheme}:...: {error.name} is not installed; pip install {found.install}") from None


def library_version(scheme: str) -> str:
    """The version of the library of `scheme`; empty where it cannot be known."""
    try:
        return version(SCHEMES[scheme].distribution)
    except PackageNotFoundError:
        return ""


def file_of(scheme: str, rest: str) -> tuple[str, str, str]:
    """The file in `SCHEME:[NAME:]FILE.py[:NAME][(keyword=value, ...)]`, what stands before and what behind it.

    Only an encoder's file has a name before it, which is an environment's of Kaggle. No file is empty, with all of
    `rest` behind it.
    """
    head = re.match(r"\w+:", rest) if scheme == "kaggle" else None
    at = head.end() if head else 0
    found = None if scheme == "openspiel" or (scheme == "kaggle" and not head) else FILE.match(rest, at)
    return (rest[:at], found[1], rest[found.end() :]) if found else ("", "", rest)


def module_of(scheme: str, rest: str) -> str:
    """The module that `SCHEME:REST` imports, beside its library: of `SCHEME:MODULE:NAME`, and PettingZoo's dotted name.

    Empty where it names none, or a file. Nothing is imported.
    """
    name, colon, _ = rest.partition("(")[0].rpartition(":")
    if scheme == "pettingzoo" and not colon and "." in rest.partition("(")[0]:
        name = rest.partition("(")[0]
    is_module = scheme not in ("openspiel", "kaggle") and all(word.isidentifier() for word in name.split("."))
    return name if is_module and not file_of(scheme, rest)[1] else ""


def scheme_of(thing: object) -> str:
    """The scheme of the library whose environment a class or an object is; empty where it is none."""
    kinds = inspect.getmro(thing if inspect.isclass(thing) else type(thing))
    found = [BASES.get((kind.__module__.partition(".")[0], kind.__name__), "") for kind in kinds]
    return next(filter(None, found), "")


def own_maker(module: ModuleType, name: str, where: str, scheme: str) -> Any:
    """What makes the environments of a user's own module: its `name`, or without one the only environment it defines.

    where: how errors call it.

    Returns:
        A class or a function; None where `name` cannot be one of these.

    Raises:
        ConfigError: it has none of this name, no environment or several, or one of another library.
    """
    own = {
        key: value
        for key, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and key[0] != "_" and scheme_of(value)
    }
    if not name:
        fitting = sorted(key for key, value in own.items() if scheme_of(value) == scheme)
        if len(fitting) == 1:
            return own[fitting[0]]
        if fitting:
            raise ConfigError(f"env={where}: it defines several environments; add one, :{' or :'.join(fitting)}")
        others = f"; it has {', '.join(own)} of {scheme_of(own[min(own)])}" if own else ""
        raise ConfigError(f"env={where}: it defines no environment of {scheme}{others}")
    found = getattr(module, name, None)
    if found is None and name.isidentifier():
        known = [key for key, value in vars(module).items() if key[0] != "_" and scheme_of(value)]
        raise ConfigError(f"env={where}: it has no {name!r}{nearest(name, known)}")
    other = scheme_of(found)
    if other not in ("", scheme):
        raise ConfigError(f"env={where}: {name} is an environment of {other}; write {other}: in place of {scheme}:")
    if found is not None and not callable(found):
        raise ConfigError(f"env={where}: {name} is no class and no function that makes an environment")
    return found


def open_game(scheme: str, rest: str, module: ModuleType | None = None) -> Any:
    """The game that `SCHEME:REST` names.

    module: the user's own one that the address names.

    Raises:
        ConfigError: as `load`, or the library has no such game.
    """
    adapter = load(scheme)
    return adapter.open(rest) if module is None else adapter.open(rest, module)
