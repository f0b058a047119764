"""Settings as text: TOML that `--config` takes, each schedule with its picture."""

from __future__ import annotations

import json
import re
from typing import Any

from league.config import to_json
from league.config.models import SECTIONS, Config
from league.config.schedules import Schedule

BARE = re.compile(r"[A-Za-z0-9_-]+")
BARS = "▁▂▃▄▅▆▇█"
COLUMNS = 24
"""Of a schedule's picture."""


def toml(value: Any) -> str:
    """A setting's value as `--set` takes it."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {toml(item)}" for key, item in value.items()) + " }" if value else "{}"
    if isinstance(value, list):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def written(config: Config, *, is_explained: bool = False) -> list[str]:
    """All settings as the lines of a TOML file, section by section.

    is_explained: each has what it means above it.
    """
    data = by_section(config)
    lines = []
    for section, model in SECTIONS.items():
        lines += ["", f"[{section}]"]
        for key, value in data[section].items():
            field = model.model_fields.get(key) if model else None
            if is_explained and field is not None and field.description:
                lines += [f"# {line.strip()}".rstrip() for line in field.description.splitlines()]
            lines.append(f"{_key(key)} = {toml(value)}")
            lines += [f"# {name}{picture(x)}" for name, x in _schedules(config, section, key)]
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


def _key(name: str) -> str:
    """A name, or a step of a schedule, as TOML has it."""
    if name.isdecimal():
        return f"{int(name):_}"
    return name if BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
