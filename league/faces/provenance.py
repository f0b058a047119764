"""Where a run came from: its settings that differ from the default, and the command that makes it again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from league import config as settings
from league.config import to_json
from league.config.models import Config
from league.config.written import toml
from league.errors import ConfigError, command_line
from league.store.rows import LearnerRow, RunRow

DEFAULT_STAGE, DEFAULT_PRESET = "test50k", "fast"
OWN_GAME = "the game is not part of the library, so its own settings are listed, too"


@dataclass(frozen=True)
class Changed:
    """A setting that differs from the default, both as `--set` takes them; `default` is empty where there is none."""

    name: str
    value: str
    default: str


@dataclass(frozen=True)
class Provenance:
    """How a run was made."""

    changed: tuple[Changed, ...]
    command: str
    """Empty where the store does not tell it."""
    note: str
    """What to mind when reading them."""


def provenance(run: RunRow, learner: LearnerRow | None) -> Provenance:
    """How a run was made, from its row.

    Defaults are those of its stage and preset in `hyperparameters.toml`, and of its game where that is the library's.

    learner: its row as a learner of a league, or as an exploiter.
    """
    try:
        own = to_json(settings.from_json(json.loads(run.config)))
    except (ConfigError, ValueError):
        return Provenance((), "", "its settings are not those of this league, so they cannot be compared")
    stage = run.stage if run.stage in settings.stages() else DEFAULT_STAGE
    preset = run.preset if run.preset in settings.presets() else DEFAULT_PRESET
    is_known = settings.has_game(run.game)
    base = to_json(_default(stage, preset, run.game) if is_known else settings.load(stage, preset))
    changed = tuple(_differences(own, base, is_known))
    note = "" if is_known else OWN_GAME
    if learner is None:
        return Provenance(changed, _train(run, changed, stage, preset), note)
    if learner.role == "exploiter":
        return Provenance(changed, "", "; ".join(filter(None, ("an exploiter, made by league exploit", note))))
    words = f"{learner.role.replace('_', ' ')} of league {learner.league}"
    return Provenance(changed, "", "; ".join(filter(None, (words, note))))


def _default(stage: str, preset: str, game: str) -> Config:
    """Of a game of the library, with all its options."""
    from league.envs import registry

    config = settings.load(stage, preset, env=game)
    return settings.with_options(config, registry.check_options(game, config.env.options))


def _differences(own: dict[str, Any], base: dict[str, Any], is_known: bool) -> list[Changed]:
    """Section by section, in the order of the settings; the game's options stand in [env]."""
    found = []
    for table in (own, base):
        table.pop("parts", None)
        options = table["env"].pop("options")
        table["env"] |= options if table is own or is_known else {}
    own["env"].pop("name"), base["env"].pop("name")
    for section, values in own.items():
        for key, value in values.items():
            default = base[section].get(key)
            if value != default:
                found.append(Changed(f"{section}.{key}", _text(value), "" if default is None else _text(default)))
    return found


def _text(value: Any) -> str:
    return "off" if value is None else toml(value)


def _train(run: RunRow, changed: tuple[Changed, ...], stage: str, preset: str) -> str:
    words = ["train", "--stage", stage, "--run", run.run, "--seed", str(run.seed)]
    words += ["--preset", preset] if preset != DEFAULT_PRESET else []
    words += ["--env", run.env]
    for x in changed:
        words += ["--set", f"{x.name}={x.value}"]
    return command_line(*words)
