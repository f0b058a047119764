"""Layers of settings: read from TOML, laid over each other, checked."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from league.config.models import (
    MOVING,
    SECTIONS,
    Config,
    EnvConfig,
)
from league.config.schedules import Path as SettingPath
from league.config.schedules import Schedule, marks, words_of
from league.config.schedules import read as read_schedule
from league.errors import ConfigError, nearest, remedy_of
from league.runtime.sent import here
from league.types.schema import read_file

MAX_TOML_BYTES = 2**20
Layer = dict[str, dict[str, Any]]
ROLE = "role"
"""The section of a league's roles, which `league.pool.roles` checks and a league's rows keep."""
AN_AGENT = "agent", ""
"""Section and key of the override `agent=NAME`."""
COMMON_ENV_KEYS = tuple(key for key in EnvConfig.model_fields if key != "options")
"""The keys of [env] that every game has; the others are the game's own."""


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The file's content; `what` names it in errors.

    Raises:
        ConfigError: it cannot be read, or is not TOML.
    """
    try:
        data = read_file(Path(here(str(path))), MAX_TOML_BYTES)
    except OSError as error:
        raise ConfigError(f"{what} {path}: {error.strerror or error}; {remedy_of(error)}") from None
    except ValueError as error:
        raise ConfigError(f"{what} {path}: {error}; give a TOML file of settings") from None
    try:
        return deepcopy(parsed(data.decode("utf-8-sig")))
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits, and lists in lists in lists
        raise ConfigError(f"{what} {path} is not TOML: {_one_line(error)}; mend the file") from None


@lru_cache(maxsize=2)
def parsed(text: str) -> dict[str, Any]:
    """What a text of TOML says; a command reads the hyperparameter source several times."""
    return tomllib.loads(text)


def pick(source: Mapping[str, Any], kind: str, name: str) -> Any:
    if name not in source[kind]:
        what = f"agent={name!r} is not an agent's size" if kind == "agents" else f"--{kind} {name!r} is not a {kind}"
        raise ConfigError(f"{what}{nearest(name, source[kind])}")
    return source[kind][name]


def lineage(source: Mapping[str, Any], kind: str, name: str, agent: str = "") -> list[Layer]:
    """The layer of a game or preset after those that it inherits from, the farthest first; [run] is no part of them.

    agent: name of an agent's size; what a game has for it alone is laid over the game's own.

    Raises:
        ConfigError: it inherits from one that there is not, or from itself, or names an agent's size that there is not.
    """
    layers: dict[str, list[Layer]] = {}
    while True:
        table = dict(pick(source, kind, name))
        parent = table.pop("inherits", None)
        where, sections = f"{kind}.{name}", set(SECTIONS) - {"run"}
        sizes = table.pop("agents", {}) if kind == "game" else {}
        by_agent = read_sections(sizes, f"{where}.agents", known=source["agents"])
        layers[name] = [read_sections(table, where, known=sections)]
        if agent in by_agent:
            layers[name].append(read_sections(by_agent[agent], f"{where}.agents.{agent}", known=sections))
        if parent is None:
            return [layer for own in reversed(layers.values()) for layer in own]
        if not isinstance(parent, str) or parent not in source[kind]:
            known = nearest(str(parent), source[kind])
            raise ConfigError(f"{kind}.{name}.inherits={parent!r} is not a {kind} of the source{known}")
        if parent in layers:
            circle = " -> ".join([*layers, parent])
            raise ConfigError(
                f"{kind}.{name}.inherits={parent!r} makes a circle ({circle}); take one `inherits` out of it"
            )
        name = parent


def read_sections(table: Mapping[str, Any], where: str, known: Iterable[str] = SECTIONS) -> Layer:
    """`table` as a layer: only `known` sections, each a table."""
    known = tuple(known)
    for name, content in table.items():
        if name not in known:
            raise ConfigError(f"{where}: [{name}] cannot be set here{nearest(name, known)}")
        if not isinstance(content, dict):
            raise ConfigError(f"{where}: {name}={content!r} is not a table; write [{name}] and its keys below")
    return dict(table)


def stage_layer(source: Mapping[str, Any], stage: str) -> Layer:
    """The stage's table, refused where it sets what could change learning."""
    layer = pick(source, "stage", stage)
    for section, table in layer.items():
        for key, value in table.items() if isinstance(table, dict) else [("", table)]:
            if section != "run" and (section, key) != ("env", "strict_masks"):
                raise ConfigError(
                    f"stage.{stage}.{section}.{key}={value!r}: a stage may set only [run] and env.strict_masks, "
                    f"so that a short stage is the start of a long one; move it to a preset"
                )
    return read_sections(layer, f"stage.{stage}")


def parse_override(text: str) -> tuple[str, str, Any]:
    """`section.key=value` as (section, key, value); a league's role is a section, too; `agent=NAME` is `AN_AGENT`."""
    path, equals, literal = text.partition("=")
    section, dot, key = path.strip().partition(".")
    if equals and (section, dot) == AN_AGENT:
        return *AN_AGENT, literal.strip().strip("\"'")
    if not equals or not dot or not key:
        raise ConfigError(f"--set {text!r} is not section.key=value; write it like --set learner.gamma=0.995")
    if section not in (*SECTIONS, ROLE):
        raise ConfigError(f"--set {text!r}: [{section}] is not a section{nearest(section, (*SECTIONS, ROLE))}")
    try:
        parsed = tomllib.loads(f"value = {literal.strip()}")
    except (ValueError, RecursionError):
        parsed = {}
    return section, key, parsed["value"] if set(parsed) == {"value"} else literal.strip()


def merge(merged: Layer, layer: Layer) -> None:
    for section, table in layer.items():
        merged.setdefault(section, {}).update(table)


def put(merged: Layer, section: str, key: str, value: Any) -> None:
    """One override; `pool.mix.NAME` and `pool.groups.NAME` set one entry and keep the others."""
    table, dot, name = key.partition(".")
    if section == "pool" and dot and table in ("mix", "groups") and isinstance(merged["pool"].get(table), dict):
        merged["pool"][table] = {**merged["pool"][table], name: value}
    else:
        merged[section][key] = value


def nest_env(merged: Layer) -> dict[str, Any]:
    """Moves the keys of [env] that belong to the game into `options`."""
    env = merged["env"]
    common = {key: value for key, value in env.items() if key in COMMON_ENV_KEYS}
    options = {key: value for key, value in env.items() if key not in COMMON_ENV_KEYS}
    return {**merged, "env": {**common, "options": options}}


def validate(data: Mapping[str, Any]) -> Config:
    """The settings that `data` says, with their schedules; every number is held to its rule at every step.

    Raises:
        ConfigError: in one line: the setting, its value, the rule, the next step.
    """
    plain, schedules = _numbers(data)
    config = _validated(plain).model_copy(update={"schedules": schedules})
    for mark in marks(schedules.values()):
        try:
            _validated(config.at(mark).model_dump(mode="json", by_alias=True))
        except ConfigError as error:
            raise ConfigError(f"{error}{words_of(mark)}") from None
    return config


def _validated(data: Mapping[str, Any]) -> Config:
    try:
        return Config.model_validate(data)
    except ValidationError as errors:
        told = _explain(errors)
    raise ConfigError(told)


def _numbers(data: Mapping[str, Any]) -> tuple[dict[str, Any], dict[SettingPath, Schedule]]:
    """`data` with the numbers of step 0 where it has schedules, and the schedules.

    Raises:
        ConfigError: one that cannot be read, or of a setting that cannot move.
    """
    found: dict[SettingPath, Schedule] = {}

    def first(table: Any, path: SettingPath, known: Iterable[str] | None = None) -> Any:
        if not isinstance(table, Mapping):
            return table
        numbers = dict(table)
        for key, value in table.items():
            if not isinstance(value, Mapping):
                continue
            name = ".".join([*path, key])
            if known is not None and key not in known:
                raise ConfigError(f"{name} cannot move with the steps; of [{path[0]}] {', '.join(known)} can")
            model = SECTIONS[path[0]] if len(path) == 1 else None
            is_stepped = model is not None and model.model_fields[key].annotation is int
            found[*path, key] = read_schedule(name, value, is_stepped=is_stepped)
            numbers[key] = found[*path, key].at(0)
        return numbers

    plain = dict(data)
    for section, known in (("learner", MOVING["learner"]), ("rewards", None)):
        if section in data:
            plain[section] = first(data[section], (section,), known)
    if isinstance(data.get("pool"), Mapping):
        tables = {name: x for name, x in data["pool"].items() if name in ("mix", "groups", "agents")}
        numbers = {name: x for name, x in data["pool"].items() if name not in tables}
        if "mix" in tables:
            tables["mix"] = first(tables["mix"], ("pool", "mix"))
        plain["pool"] = first(numbers, ("pool",), MOVING["pool"]) | tables
    return plain, found


def _explain(errors: ValidationError) -> str:
    """The first problem on one line: the setting, its value, the rule, the next step."""
    error = errors.errors(include_url=False)[0]
    path = [str(part) for part in error["loc"]]
    if error["type"] == "value_error":
        said = f"{error['ctx']['error']}"
        is_named = len(path) < 2 or said.startswith(f"{path[0]}.")
        return _one_line(said if is_named else f"{'.'.join(path)}={error['input']!r}: {said}")
    if path[:2] == ["env", "curriculum"]:
        return _explain_lesson(path[2:], error["type"], error["msg"])
    if path[:2] == ["env", "options"]:
        path, error["msg"] = ["env", *path[2:3]], "must be true or false, a number, a string or a list"
    name, model = ".".join(path), SECTIONS.get(path[0])
    if error["type"] == "extra_forbidden":
        known = model.model_fields if model and len(path) > 1 else SECTIONS
        return _one_line(f"{name} is not a setting{nearest(path[-1], known)}")
    if error["type"] == "missing":
        return f"{name} has no value; set it with --set {name}=VALUE or in a --config file"
    field = model.model_fields.get(path[1]) if model and len(path) > 1 else None
    meaning = f" ({field.description.rstrip('.')})" if field and field.description else ""
    rule = error["msg"].replace("Input should be", "must be")
    setting = ".".join(path[:2])
    return _one_line(f"{name}={error['input']!r}: {rule}{meaning}; change it with --set {setting}=VALUE or in --config")


def _explain_lesson(path: list[str], kind: str, rule: str) -> str:
    """The same of the curriculum; `path` begins with the lesson's index."""
    rules = {
        "missing": "has no value",
        "extra_forbidden": "is no part of a lesson",
        "tuple_type": "must be a list of lessons",
        "model_type": "must be a lesson",
        "dict_type": "must be a table of the game's options",
    }
    said = rules.get(kind, rule.replace("Input should be", "must be"))
    if path[1:2] == ["options"] and len(path) > 2:
        said = "must be true or false, a number, a string or a list"
    which = "".join([f"[{path[0]}]" if path else "", *(f".{part}" for part in path[1:3])])
    return _one_line(
        f"env.curriculum{which}: {said}; write --set 'env.curriculum=[{{from=0, options={{...}}}}, ...]', or"
        f" [[env.curriculum]] in --config"
    )


def _one_line(text: object) -> str:
    return " ".join(str(text).split())
