"""From a game's code that was located to a game that is registered: its code runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

from league.envs import adapters, registry
from league.envs.finding import pick
from league.envs.sources import Located, load
from league.errors import note_user_code
from league.runtime.process import settings_kept


def open_game(found: Located, check: Callable[[str], None] = lambda name: None) -> str:
    """Runs what was located and registers its game; returns its name.

    check: as for `league.envs.registry.adopt`.

    Raises:
        CodeError: its code raises something.
        ConfigError: it is no game, or another one has its name.
    """
    where = found.source.address
    if found.kind == "scheme":
        note_user_code(adapters.SCHEMES[found.place].distribution)
        with settings_kept():  # it is made and stepped to be looked at
            opened = adapters.open_game(found.place, found.part, _module_of(found))
        return registry.adopt(opened, where, found.source, check=check)
    module = load(found)
    return registry.adopt(pick(module, found.part, where), where, found.source, module, check)


def _module_of(found: Located) -> ModuleType | None:
    """The user's own module that a scheme's address names, run; None where it names none."""
    if found.path is None:
        return None
    name = adapters.module_of(found.place, found.part)
    return load(replace(found, kind="module" if name else "file", place=name or str(found.path), part=""))
