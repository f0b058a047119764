"""What other distributions offer: entry points of the groups below, which their installation consents to."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from league.envs.user_code import failing
from league.errors import ConfigError, is_users, note_user_code
from league.types import Source

GROUPS = ("league.games", "league.bots", "league.policies", "league.samplers")


@dataclass(frozen=True)
class Offered:
    """What an entry point gave."""

    found: Any
    """The object or module itself."""
    source: Source
    """Its address is the entry point's name."""


def names(group: str) -> tuple[str, ...]:
    """The names that installed distributions offer in one of `GROUPS`, in alphabetical order; nothing is imported.

    What lies in the folder of a user's file, where modules are looked for, too, is not installed.
    """
    return tuple(sorted({point.name for point in _points(group)}))


def load(group: str, name: str) -> Offered | None:
    """What is offered under `name`, imported; None where nothing is.

    Raises:
        CodeError: it raises something as it is imported.
        ConfigError: two distributions offer it.
    """
    found = {(point.value, _distribution(point)): point for point in _points(group) if point.name == name}
    if not found:
        return None
    if len(found) > 1:
        owners = " and ".join(sorted(owner for _, owner in found))
        raise ConfigError(f"{name!r} of {group} is offered by {owners}; uninstall all but one")
    [((_, owner), point)] = found.items()
    note_user_code(point.module.partition(".")[0])
    with failing(f"{name} ({owner})"):
        thing = point.load()
    version = point.dist.version if point.dist is not None else ""
    return Offered(thing, Source(name, version, _hash_of(point.module)))


def _points(group: str) -> tuple[EntryPoint, ...]:
    assert group in GROUPS, group
    found = ((point, point.dist) for point in entry_points(group=group))
    return tuple(p for p, dist in found if dist is None or not is_users("", str(dist.locate_file(p.module))))


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def _hash_of(module: str) -> str:
    """sha256 of the file of an imported module; empty where it has none."""
    file = getattr(sys.modules.get(module), "__file__", None)
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""
    except OSError:
        return ""
