"""A league's file: which learners it has, in which roles, with which figures and settings.

```toml
turn_steps = 10_000          # where they take turns
in_step = true               # learners in processes of their own wait for each other at turns; else they run freely

[config.run]                 # settings of all learners, in the sections of --config
total_steps = 200_000        # of each

[roles.main]                 # over [role.main] of the source, and under `--set role.main.min_steps=...`
min_steps = 10_000

[learners.main]
role = "main"

[learners.exploiter]
role = "main_exploiter"
config.learner.entropy_coefficient = 0.02    # of this learner alone
cpus = 2                     # of this learner's actor where the league trains on Ray; 1 if not given
gpus = 0.5                   # likewise; 0 if not given
```
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from league import config as settings
from league.config import Layer
from league.config.layers import read_sections, read_toml
from league.errors import ConfigError, nearest
from league.pool.roles import ROLES, Role, RoleName
from league.types.schema import MAX_COUNT, MAX_LEARNERS

READY = Path(__file__).with_name("leagues")
"""The leagues that come with the library."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
KEYS = ("turn_steps", "in_step", "config", "roles", "learners")
LEARNER_KEYS = ("role", "config", "cpus", "gpus")
MAX_SHARE = 512
"""Of cores, and of GPUs, of one learner."""
FIXED = ("agent", "env")
"""Sections of a learner's own config that would make another agent or game of it, with which no other could play."""


@dataclass(frozen=True)
class RosterEntry:
    """One learner: what it does, and its settings beside those of the call."""

    name: str
    role_name: RoleName
    role: Role
    layer: Layer
    cpus: float
    """Processor cores of its actor on Ray."""
    gpus: float


@dataclass(frozen=True)
class Roster:
    """A league's file, checked."""

    turn_steps: int
    """Steps that a learner trains before it looks at the others again, and where they take turns, lets them."""
    in_step: bool
    """Whether learners in processes of their own wait for each other at turns, and so do what one process does."""
    learners: tuple[RosterEntry, ...]
    """In the order of the file."""


def ready() -> tuple[str, ...]:
    """The names of the leagues that come with the library."""
    return tuple(sorted(path.stem for path in READY.glob("*.toml")))


def load(league: str | Path, sets: Mapping[str, Mapping[str, Any]] | None = None) -> Roster:
    """The league of a TOML file, or one that comes with the library by its name.

    sets: role -> figure -> value, laid over the file's (`league.config.role_sets`).

    Raises:
        ConfigError: there is no such file, it is not TOML, or it or `sets` says something that cannot be.
    """
    sets = sets or {}
    _need_known(sets, ROLES, "--set role")
    path = Path(league)
    if str(league) in ready():
        path = READY / f"{league}.toml"
    elif not path.exists():
        raise ConfigError(
            f"--league {league}: no such file, and no league of that name comes with the library"
            f"{nearest(str(league), ready())}"
        )
    where = f"--league {league}"
    table = read_toml(path, "--league")
    _need_known(table, KEYS, where)
    turn_steps = table.get("turn_steps")
    if type(turn_steps) is not int or not 1 <= turn_steps <= MAX_COUNT:
        raise ConfigError(
            f"{where}: turn_steps={turn_steps!r} must be a number of steps, from 1 to {MAX_COUNT:,}; set it on top"
        )
    if type(in_step := table.get("in_step", False)) is not bool:
        raise ConfigError(f"{where}: in_step={in_step!r} must be true or false; set it on top")
    for key in ("config", "roles", "learners"):
        if not isinstance(table.get(key, {}), dict):
            raise ConfigError(f"{where}: {key}={table[key]!r} is not a table; write [{key}] and its keys below")
    figures = table.get("roles", {})
    _need_known(figures, ROLES, f"{where}: [roles]")
    for role, of_role in figures.items():
        if not isinstance(of_role, dict):
            raise ConfigError(f"{where}: roles.{role}={of_role!r} is not a table; write [roles.{role}] and its figures")
    num_learners = len(table.get("learners", {}))
    if num_learners > MAX_LEARNERS:
        raise ConfigError(f"{where}: it has {num_learners:,} learners, more than {MAX_LEARNERS}; leave some out")
    common = read_sections(table.get("config", {}), f"{where}: [config]")
    learners = tuple(_learner(name, x, figures, sets, common, where) for name, x in table.get("learners", {}).items())
    for role in sets:
        if not any(learner.role_name == role for learner in learners):
            raise ConfigError(f"--set role.{role}: no learner of {where} has this role; leave it out")
    if not any(learner.role_name == "main" for learner in learners):
        named = ", ".join(f"{learner.name} ({learner.role_name})" for learner in learners) or "nobody"
        raise ConfigError(
            f'{where}: no learner has role = "main" ({named}), so there is nobody to make strong; add one as'
            f" [learners.NAME]"
        )
    return Roster(turn_steps, in_step, learners)


def role_of(name: str, figures: Mapping[str, Any], where: str) -> Role:
    """The role called `name`, `figures` laid over those of the hyperparameter source.

    Raises:
        ConfigError: an unknown figure, or one outside its rule.
    """
    model = ROLES[name]  # type: ignore[index]  # its callers know the name
    _need_known(figures, model.model_fields, where)
    try:
        return model.model_validate(settings.role_figures()[name] | dict(figures))
    except ValidationError as errors:
        error = errors.errors(include_url=False)[0]
        if error["type"] == "value_error":
            raise ConfigError(f"{where}: {error['ctx']['error']}") from None
        key = str(error["loc"][0])
        rule = error["msg"].replace("Input should be", "must be")
        meaning = (model.model_fields[key].description or "").split("\n")[0].rstrip(".")
        raise ConfigError(f"{where}: {key}={error['input']!r}: {rule} ({meaning}); change it there") from None


def _learner(
    name: str,
    table: Any,
    figures: Mapping[str, Any],
    sets: Mapping[str, Mapping[str, Any]],
    common: Layer,
    where: str,
) -> RosterEntry:
    here = f"{where}: [learners.{name}]"
    if not NAME.fullmatch(name):
        raise ConfigError(f"{here}: a name has letters, digits, '_' and '-' only, at most 32; call it otherwise")
    if not isinstance(table, dict):
        raise ConfigError(f"{where}: learners.{name}={table!r} is not a table; write [learners.{name}] and its role")
    _need_known(table, LEARNER_KEYS, here)
    role = table.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise ConfigError(f"{here}: role={role!r} is no role{nearest(str(role), ROLES)}")
    own = table.get("config", {})
    if not isinstance(own, dict):
        raise ConfigError(f"{here}: config={own!r} is not a table; write config.SECTION.KEY = VALUE")
    own = read_sections(own, f"{here}: config")
    for section in FIXED:
        if section in own:
            raise ConfigError(
                f"{here}: config.{section} is one for all, since they play each other; set it in [config.{section}]"
            )
    layer = {section: common.get(section, {}) | own.get(section, {}) for section in {**common, **own}}
    figures = figures.get(role, {})
    duties = role_of(role, figures, f"{where}: [roles.{role}]")
    if role in sets:
        duties = role_of(role, {**figures, **sets[role]}, f"--set role.{role}")
    cpus, gpus = (_share(table, key, here, default) for key, default in (("cpus", 1), ("gpus", 0)))
    return RosterEntry(name, role, duties, layer, cpus, gpus)


def _share(table: Mapping[str, Any], key: str, where: str, default: float) -> float:
    value = table.get(key, default)
    if type(value) not in (int, float) or not default / 100 <= value <= MAX_SHARE:
        raise ConfigError(f"{where}: {key}={value!r} must be a number from {default / 100:g} to {MAX_SHARE}; change it")
    return float(value)


def _need_known(table: Mapping[str, Any], known: Any, where: str) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(f"{where}: {key} is not a key{nearest(key, known)}")
