"""Settings as text: TOML that `--config` takes, each schedule with its picture."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from league.config import to_json
from league.config.layers import ROLE
from league.config.models import SECTIONS, Config
from league.config.schedules import Schedule
from league.errors import ConfigError

BARE = re.compile(r"[A-Za-z0-9_-]+")
BARS = "▁▂▃▄▅▆▇█"
COLUMNS = 24
"""Of a schedule's picture."""


Overrides = Sequence[str] | Mapping[str, Any]
"""Settings as `section.key=value`, or as a dict of sections: `{"learner": {"gamma": 0.9}}`."""


def as_words(overrides: Overrides, agent: str | None = None, steps: int | None = None) -> list[str]:
    """Each setting as `section.key=value`; the agent's size comes first, as `agent=NAME`, so that the others win, and
    `steps` last, as `run.total_steps`.

    Raises:
        ConfigError: a section that is no dict, or a value that no setting has.
    """
    words = [] if agent is None else [f"agent={agent}"]
    last = [] if steps is None else [f"run.total_steps={steps}"]
    if not isinstance(overrides, Mapping):
        return [*words, *overrides, *last]
    for section, table in overrides.items():
        if not isinstance(table, Mapping):
            raise ConfigError(
                f"overrides={{{section!r}: {table!r}}}: a section's settings are a dict; write it like"
                f" {{'learner': {{'gamma': 0.995}}}}"
            )
        for key, value in table.items():
            values = {f"{key}.{name}": x for name, x in value.items()} if section == ROLE else {key: value}
            try:
                words += [f"{section}.{name}={toml(x)}" for name, x in values.items()]
            except (TypeError, ValueError) as error:
                raise ConfigError(f"overrides: {section}.{key}={value!r} cannot be a setting: {error}") from None
    return [*words, *last]


def toml(value: Any) -> str:
    """A setting's value as `--set` takes it."""
    if isinstance(value, dict):
        items = ", ".join(f"{key_of(str(key))} = {toml(item)}" for key, item in value.items())
        return f"{{ {items} }}" if value else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def written(
    config: Config, *, is_explained: bool = False, notes: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """All settings as the lines of a TOML file, section by section.

    is_explained: each has what it means above it.
    notes: `section.key` -> what stands below it, such as what `auto` is.
    """
    data = by_section(config)
    lines = []
    for section, model in SECTIONS.items():
        lines += ["", f"[{section}]"]
        for key, value in data[section].items():
            field = model.model_fields.get(key) if model else None
            if is_explained and field is not None and field.description:
                lines += [f"# {line.strip()}".rstrip() for line in field.description.splitlines()]
            lines.append(f"{key_of(key)} = {toml(value)}")
            lines += [f"# {name}{picture(x)}" for name, x in _schedules(config, section, key)]
            lines += [f"# {notes[name]}" for name in (f"{section}.{key}",) if name in notes]
    return lines[1:]


def by_section(config: Config) -> dict[str, Any]:
    """The settings by section as `--config` has them, the game's options among [env]."""
    data = to_json(config)
    data.pop("parts", None)
    data["env"] |= data["env"].pop("options")
    if data["learner"]["target_kl"] is None:
        data["learner"]["target_kl"] = "off"
    return data


def picture(schedule: Schedule) -> str:
    """How a schedule goes from step 0 to its last point and on: the values there, and a bar for each of `COLUMNS`."""
    last = schedule.points[-1][0]
    values = [schedule.at(last * i // (COLUMNS - 3)) for i in range(COLUMNS)]
    low, high = min(values), max(values)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    bars = "".join(BARS[round((x - low) * scale)] for x in values)
    return f"{values[0]:g} {bars} {values[-1]:g} at step {last:,} and later"


def _schedules(config: Config, section: str, key: str) -> list[tuple[str, Schedule]]:
    """Those of a setting, each with the name of its entry where it is a table's."""
    found = [(path, x) for path, x in config.schedules.items() if path[:2] == (section, key)]
    return [(" ".join([*path[2:], ""]), x) for path, x in found]


def key_of(name: str) -> str:
    """A name, or a step of a schedule, as TOML has it."""
    if name.isdecimal():
        return f"{int(name):_}"
    return name if BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
