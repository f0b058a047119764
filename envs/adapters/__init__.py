"""Games of other libraries: `SCHEME:ID` is opened by the module of its scheme, which is imported when it is needed.

Such a module has `open(rest: str) -> Game`, `rest` being what stands behind the colon. It imports its library within.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, NamedTuple

from league.errors import ConfigError

if TYPE_CHECKING:
    from types import ModuleType


class Scheme(NamedTuple):
    """What opens the addresses of one beginning."""

    module: str
    extra: str
    """Of `league-engine`: what installs the library."""
    distribution: str
    """The library, whose version is stored with a run."""


SCHEMES = {
    "pettingzoo": Scheme("league.envs.adapters.pettingzoo", "pettingzoo", "pettingzoo"),
    "openspiel": Scheme("league.envs.adapters.openspiel", "openspiel", "open_spiel"),
    "gymnasium": Scheme("league.envs.adapters.gymnasium", "gymnasium", "gymnasium"),
}


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
        raise ConfigError(
            f"env={scheme}:...: {error.name} is not installed; pip install 'league-engine[{found.extra}]'"
        ) from None


def library_version(scheme: str) -> str:
    """The version of the library of `scheme`; empty where it cannot be known."""
    try:
        return version(SCHEMES[scheme].distribution)
    except PackageNotFoundError:
        return ""


def module_of(scheme: str, rest: str) -> str:
    """The module that `SCHEME:REST` imports, beside its library: that of `gymnasium:MODULE:ID` and of a dotted name.

    Empty where it names none. Nothing is imported.
    """
    name = rest.partition("(")[0]
    if scheme == "gymnasium":
        name = name.rpartition(":")[0]
    elif scheme != "pettingzoo" or "." not in name or "/" in name:
        return ""
    return name if all(word.isidentifier() for word in name.split(".")) else ""


def open_game(scheme: str, rest: str) -> Any:
    """The game that `SCHEME:REST` names.

    Raises:
        ConfigError: as `load`, or the library has no such game.
    """
    return load(scheme).open(rest)
