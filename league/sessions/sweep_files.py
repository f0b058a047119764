"""A sweep's file: which settings are searched in which ranges, what is fixed, and what a run is judged by.

```toml
seeds = 5                    # of a setting, at most
pruner = "median"            # or none, halving, hyperband

[train]                      # keywords of `league.train`
env = "kuhn"
steps = 20_000
set.learner.gamma = 0.99

[objective]                  # as `league.sessions.objectives.RunObjective`
kind = "score"
against = ["bot:random"]

[space]
learner.learning_rate = { low = 1e-4, high = 1e-2, log = true }
learner.epochs = { low = 1, high = 8 }
pool.sampler = { choices = ["recent", "uniform"] }
```
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from league.arena.games import enter, load_settings
from league.config.layers import read_toml
from league.config.updates import check_rewards
from league.config.written import by_section, toml
from league.errors import ConfigError, LeagueError, nearest, rule_of
from league.sessions.objectives import Recipe, RunObjective, flat
from league.sessions.settling import check_settings
from league.types import RUN_NAME
from league.types.schema import FrozenModel

Value = bool | int | float | str | list[Any] | dict[str, Any]
FIXED = ("run", "env.name")
"""A section and a setting that no sweep searches: runs of other lengths and games have no common scale."""
EXAMPLE = "learner.learning_rate = { low = 1e-4, high = 1e-2 }"


class Dimension(FrozenModel):
    """The values of one setting: a range, or choices."""

    low: int | float | None = None
    high: int | float | None = None
    log: bool = False
    step: int | float | None = None
    choices: list[Value] | None = None

    @property
    def tried(self) -> list[Any]:
        """The values that stand for all: the ends of a range, or every choice."""
        return [self.low, self.high] if self.choices is None else self.choices

    def holds(self, value: Any) -> bool:
        """Whether a value is one that can be drawn."""
        if self.choices is not None:
            return value in self.choices
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and self.low is not None and self.high is not None and self.low <= value <= self.high

    def problem(self) -> str:
        """What is wrong with it by itself, and the next step; empty where nothing is."""
        if self.choices is not None:
            is_range = self.low is not None or self.high is not None or self.step is not None or self.log
            if is_range or len(self.choices) < 2:
                return f"choices={self.choices}: two at least, and without low, high, step and log"
            return ""
        if self.low is None or self.high is None:
            return "give low and high, or choices"
        if self.low >= self.high:
            return f"low={self.low:g} is not below high={self.high:g}; swap or change them"
        if self.log and (self.low <= 0 or self.step is not None):
            return f"log=true needs low above 0, and no step (low={self.low:g}, step={self.step}); leave log out"
        if self.step is not None and not 0 < self.step <= self.high - self.low:
            return f"step={self.step:g} must be above 0 and at most high - low; change it"
        return ""


class SweepFile(FrozenModel):
    """A sweep's file, as its module says."""

    space: dict[str, Any]
    train: Recipe = Recipe()
    objective: RunObjective = RunObjective()
    seeds: Annotated[int, Field(ge=1, le=100)] = 5
    pruner: Literal["none", "median", "halving", "hyperband"] = "median"


class SweepSpace:
    """What a file says, checked against the settings' own models.

    Args:
        path: the TOML file; the sweep is called by its stem.
        store: where runs are looked up that the settings name.

    Raises:
        ConfigError, UsageError: it is no such file, or a setting, range, objective or game in it cannot be.
    """

    def __init__(self, path: Path, store: Path) -> None:
        self.path, self.name = path, path.stem
        if not RUN_NAME.fullmatch(f"{self.name}-t000000-s100"):
            raise ConfigError(
                f"{path}: a run has its name: letters, digits, '.', '_' and '-' only, at most 50; rename the file"
            )
        self.file = _read(path)
        self.dimensions = {name: self._dimension(name, x) for name, x in flat(self.file.space).items()}
        if not self.dimensions:
            raise ConfigError(f"{path}: [space] names no setting; name some, as {EXAMPLE}")
        try:
            self.config, self.spec = self.file.train.settled(store)
            check_settings(self.config, self.spec)
            self.file.objective.check(self.config, self.spec, store)
        except LeagueError as error:
            raise ConfigError(f"{path}: {_here(error)}") from None
        self.types = {name: self._type(name) for name in self.dimensions}

    def sets(self, values: Mapping[str, Any]) -> list[str]:
        """Values of the space as `league train --set` takes them."""
        return [f"{name}={toml(value)}" for name, value in values.items()]

    def defaults(self) -> dict[str, Any] | None:
        """The values that the settings have without a sweep; None where one of them cannot be drawn."""
        now = _by_name(by_section(self.config))
        values = {name: now.get(name) for name in self.dimensions}
        return values if all(x.holds(values[name]) for name, x in self.dimensions.items()) else None

    def to_json(self) -> dict[str, Any]:
        """What must not change while a sweep goes on, by table."""
        kept = self.file.model_dump(mode="json", include={"train", "objective"})
        return {"space": {name: x.model_dump(mode="json") for name, x in self.dimensions.items()}, **kept}

    def _dimension(self, name: str, table: Any) -> Dimension:
        where = f"{self.path}: [space] {name}"
        if name == FIXED[1] or name.partition(".")[0] == FIXED[0]:
            raise ConfigError(f"{where}: runs of one sweep have one game and length; set it in [train]")
        if not isinstance(table, Mapping):
            raise ConfigError(
                f"{where}={table!r}: write section.key = {{ low = 1, high = 8 }}, or {{ choices = [...] }}"
            )
        try:
            found = Dimension.model_validate(table)
        except ValidationError as errors:
            raise ConfigError(f"{where}: {_told(errors, Dimension)}") from None
        if problem := found.problem():
            raise ConfigError(f"{where}: {problem}")
        return found

    def _type(self, name: str) -> type:
        """Of a setting's value: what its model makes of each value that is tried.

        Raises:
            ConfigError: a value that it cannot have.
        """
        dimension, types = self.dimensions[name], []
        for value in dimension.tried:
            k = self.file.train.keywords(self.sets({name: value}))
            try:
                game = enter(k["env"])
                found, _ = load_settings(k["stage"], k["preset"], game, k["config_file"], k["overrides"])
                check_rewards(found, self.spec)
            except LeagueError as error:
                raise ConfigError(f"{self.path}: [space]: {_here(error)}") from None
            types.append(type(_by_name(by_section(found)).get(name)))
        if dimension.choices is None and types[0] not in (int, float):
            raise ConfigError(f"{self.path}: [space] {name} is no number and has no range; give it choices=[...]")
        if types[0] is int and isinstance(dimension.step, float):
            raise ConfigError(
                f"{self.path}: [space] {name}: step={dimension.step:g} of a whole number; write it as one"
            )
        return types[0]


def _here(error: LeagueError) -> str:
    """A setting's error, of which the next step is a change of the file."""
    rule = rule_of(error)
    return rule if rule == str(error) else f"{rule}; change it there"


def _read(path: Path) -> SweepFile:
    table = read_toml(path, "the sweep")
    try:
        json.dumps(table)
    except TypeError:
        raise ConfigError(f"{path}: it has a date or a time, and no setting is one; remove it") from None
    try:
        return SweepFile.model_validate(table)
    except ValidationError as errors:
        raise ConfigError(f"{path}: {_told(errors, SweepFile)}") from None


def _told(errors: ValidationError, model: type[FrozenModel]) -> str:
    """The first problem: the key, its value, the rule and the next step."""
    error = errors.errors(include_url=False)[0]
    key = ".".join(str(part) for part in error["loc"] if part not in ("int", "float"))  # of a union
    if error["type"] == "extra_forbidden":
        tables: dict[str, type[FrozenModel]] = {"train": Recipe, "objective": RunObjective}
        inner = tables.get(str(error["loc"][0]), model)
        known = (inner if len(error["loc"]) > 1 else model).model_fields
        return f"{key} is not a key{nearest(str(error['loc'][-1]), known)}"
    if error["type"] == "missing":
        return f"[{key}] is missing; name settings in it, as {EXAMPLE}"
    rule = error["msg"].replace("Input should be", "must be")
    return f"{key}={error['input']!r}: {rule}; change it there"


def _by_name(sections: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {f"{section}.{key}": value for section, table in sections.items() for key, value in table.items()}
