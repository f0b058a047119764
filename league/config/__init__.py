"""The one hyperparameter source: `hyperparameters.toml` loaded into frozen, strict models (DESIGN, section 2).

`models.py` says what a setting means, its unit and its bounds, `schedules.py` how one moves with the steps,
`updates.py` how steps divide into updates; every figure is in the TOML file. Layers are applied in the order base,
game, preset, stage, file, `--set`, a game or preset after those that it inherits from; a later layer wins key by key,
except that `pool.mix` given as a table replaces the whole mix.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from league.config.layers import (
    AN_AGENT,
    ROLE,
    lineage,
    merge,
    nest_env,
    parse_override,
    pick,
    put,
    read_sections,
    read_toml,
    stage_layer,
    validate,
)
from league.config.layers import Layer as Layer
from league.config.models import (
    SECTIONS,
    Config,
    Option,
    mix_members,
)
from league.errors import ConfigError, StoreError, quoted

SOURCE = Path(__file__).with_name("hyperparameters.toml")
OWN_LENGTH = " steps"
"""Ends what a run is called whose steps are not its stage's."""
AUTO = "auto"
"""The preset that is sized to the device."""
CHANGEABLE = (
    *(
        "env.rows",
        "env.threads",
        "env.workers",
        "env.strict_masks",
        "learner.rollout_steps",
        "learner.segments",
        "learner.minibatch_size",
        "learner.accumulate",
        "learner.precision",
        "pool.live_nets",
    ),
    *("learner.overlap", "learner.compile"),
    *("learner.learning_rate", "learner.entropy_coefficient", "learner.max_gradient_norm", "learner.target_kl"),
    *("learner.rate_share", "learner.adaptive_kl"),
    *("run.total_steps", "run.rewind_every", "run.rewind_states"),
    *("run.checkpoint_minutes", "run.evaluate_every", "run.evaluate_games", "run.anchor_games", "run.evaluate_share"),
    *("run.ladder_share", "run.ladder_older", "run.replays"),
    *("run.verbosity", "run.on_alarm"),
    *("run.alarm_kl", "run.alarm_idle_steps", "run.alarm_silent_matches", "run.alarm_random_steps"),
)
"""What may be set when a run is resumed: what it takes of the machine, what may cure it, how far it goes, and how one
looks at it."""


def load(
    stage: str = "test50k",
    preset: str = "fast",
    env: str | None = None,
    config_file: str | Path | None = None,
    overrides: Iterable[str] = (),
    sizes: Layer | None = None,
    layer: Layer | None = None,
    *,
    defaults: Mapping[str, Any] | None = None,
) -> Config:
    """The resolved settings.

    Args:
        stage: How long, one of `stages()`.
        preset: How wide, one of `presets()`.
        env: The game, the same as the override `env.name=...`.
        config_file: A TOML file with any of the six sections.
        overrides: `section.key=value`; a value is a TOML literal, else a string. `agent=NAME` stands for the settings
            of [agents.NAME]; what the game has of its own for that agent is laid over [game.NAME].
        sizes: Laid over the preset: what `league.sessions.sizing` makes of `auto` on a device.
        layer: Laid over the stage: what a league's file says of a learner.
        defaults: Laid below [game.NAME]: what the game itself brings, section by section.

    Raises:
        ConfigError: an unknown stage, preset or key, a value outside its rule, or an unreadable file.
    """
    source = _source()
    base = _base(source)
    file_layer, sets = _said(env, config_file, overrides)
    layer = layer or {}
    game = _game_of(base, layer, file_layer, sets)

    merged: Layer = {}
    merge(merged, base)
    merge(merged, _brought(defaults or {}))
    agent = next((value for section, key, value in reversed(sets) if (section, key) == AN_AGENT), "")
    for table in lineage(source, "game", game, agent) if game in source["game"] else ():
        merge(merged, table)
    for table in lineage(source, "preset", preset):
        merge(merged, table)
    merge(merged, sizes or {})
    merge(merged, stage_layer(source, stage))
    if _begins_with(layer, file_layer, sets):
        merge(merged, read_sections(source["begun"], "begun"))
    merge(merged, layer)
    merge(merged, file_layer)
    for section, key, value in sets:
        if (section, key) == AN_AGENT:
            merge(merged, read_sections(pick(source, "agents", value), f"agents.{value}"))
        else:
            put(merged, section, key, value)
    return validate(nest_env(merged))


def _begins_with(layer: Layer, file_layer: Layer, sets: Iterable[tuple[str, str, Any]]) -> bool:
    """Whether a call names the agent that its learner begins with."""
    named = [table.get("learner", {}).get("begin_with") for table in (layer, file_layer)]
    return any([*named, *(value for section, key, value in sets if (section, key) == ("learner", "begin_with"))])


def game_of(
    env: str | None = None,
    config_file: str | Path | None = None,
    overrides: Iterable[str] = (),
    layer: Layer | None = None,
) -> str:
    """The name of the game that `load` would give settings for; empty where nothing names one.

    Raises:
        ConfigError: an unreadable file or override.
    """
    base = _base(_source())
    return _game_of(base, layer or {}, *_said(env, config_file, overrides))


def has_game(name: str) -> bool:
    """Whether the hyperparameter source has settings of a game of this name."""
    return name in _source()["game"]


def verbosity(stage: str, config_file: str | Path | None = None, overrides: Iterable[str] = ()) -> int:
    """`run.verbosity` of a call, which no game and no preset decides; 1 where it is no such number.

    Raises:
        ConfigError: an unknown stage, or an unreadable file or override.
    """
    source = _source()
    merged = _base(source)
    file_layer, sets = _said(None, config_file, overrides)
    for table in (stage_layer(source, stage), file_layer):
        merge(merged, table)
    values = [merged["run"].get("verbosity"), *(value for *key, value in sets if key == ["run", "verbosity"])]
    return values[-1] if values[-1] in (0, 1, 2) else 1


def laid_over(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> Layer:
    """Two layers of a game as one, key by key."""
    merged: Layer = {}
    merge(merged, _brought(lower))
    merge(merged, _brought(upper))
    return merged


def _source() -> dict[str, Any]:
    return read_toml(SOURCE, "the hyperparameter source")


def _base(source: Mapping[str, Any]) -> Layer:
    return read_sections({name: source.get(name, {}) for name in SECTIONS}, "base")


def _brought(table: Mapping[str, Any]) -> Layer:
    """What a game brings, as a layer: sections that [game.NAME] may have.

    Raises:
        ConfigError: another section, or one that is no table.
    """
    layer = read_sections(table, "DEFAULTS", known=set(SECTIONS) - {"run"})
    if "name" in layer.get("env", {}):
        raise ConfigError(
            f"DEFAULTS: env.name={layer['env']['name']!r}: a game's name is that of its spec; leave it out"
        )
    return layer


def _said(
    env: str | None, config_file: str | Path | None, overrides: Iterable[str]
) -> tuple[Layer, list[tuple[str, str, Any]]]:
    """The file and the overrides of a call; `env` counts as the first override."""
    file_layer: Layer = {}
    if config_file is not None:
        file_layer = read_sections(read_toml(Path(config_file), "--config"), f"--config {config_file}")
    sets = [parse_override(text) for text in overrides]
    for section, key, value in sets:
        if section == ROLE:
            raise ConfigError(
                f"--set role.{key}={value}: [role] is what a league's learners do; pass --league, or leave it out"
            )
        if (section, key) == ("env", "name") and env not in (None, value):
            raise ConfigError(f"--set env.name={value}: the game is {quoted(str(env))} already; leave one of them out")
    return file_layer, [*([] if env is None else [("env", "name", env)]), *sets]


def _game_of(base: Layer, layer: Layer, file_layer: Layer, sets: Iterable[tuple[str, str, Any]]) -> str:
    named = [table["env"]["name"] for table in (base, layer, file_layer) if "name" in table.get("env", {})]
    named += [value for section, key, value in sets if (section, key) == ("env", "name")]
    return str(named[-1]) if named else ""


def stages() -> tuple[str, ...]:
    """The names of the stages, shortest first."""
    table = _source()["stage"]
    return tuple(sorted(table, key=lambda name: int(table[name]["run"]["total_steps"])))


def continued_stages() -> dict[str, str]:
    """Stage -> the one whose finished runs it carries on."""
    table = _source()["stage"]
    return {name: stage["run"]["continues"] for name, stage in table.items() if stage["run"].get("continues")}


def stage_called(stage: str, config: Config) -> str:
    """What a run of a stage is called in its row: the stage, or its steps where they are not the stage's: `300,000
    steps`. What is no stage, as of a league, is called as it is."""
    known = _source()["stage"]
    total = config.run.total_steps
    is_so = stage in known and known[stage]["run"]["total_steps"] == total
    return stage if is_so or (stage not in known and not stage.endswith(OWN_LENGTH)) else f"{total:,}{OWN_LENGTH}"


def longer_stages(stage: str, steps: int) -> list[str]:
    """The stages that carry on a finished run of `steps` steps, by the name of its stage (`stage_called`)."""
    table = _source()["stage"]
    is_own = stage.endswith(OWN_LENGTH)
    return [
        name
        for name, earlier in continued_stages().items()
        if earlier == stage or (is_own and steps < table[name]["run"]["total_steps"])
    ]


def role_figures() -> dict[str, dict[str, Any]]:
    """Role of a league's learner -> its figures, which `league.pool.roles` checks and explains."""
    return dict(_source()["role"])


def role_sets(overrides: Iterable[str]) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """The overrides that are settings of a run, and those of `role.ROLE.FIGURE=value`: role -> figure -> value.

    Raises:
        ConfigError: one of either kind that cannot be read.
    """
    others: list[str] = []
    figures: dict[str, dict[str, Any]] = {}
    for text in overrides:
        section, key, value = parse_override(text)
        if section != ROLE:
            others.append(text)
            continue
        role, dot, figure = key.partition(".")
        if not dot or not figure:
            raise ConfigError(
                f"--set {text!r} is not role.ROLE.FIGURE=value; write it like --set role.main.min_games=32"
            )
        figures.setdefault(role, {})[figure] = value
    return others, figures


def presets() -> tuple[str, ...]:
    """The names of the presets, as listed in the source."""
    return tuple(_source()["preset"])


def agents() -> dict[str, dict[str, dict[str, Any]]]:
    """Name of an agent's size -> section -> key -> value, of what it sets in every game."""
    return dict(_source()["agents"])


def to_json(config: Config) -> dict[str, Any]:
    """The settings as a dict of JSON values; `from_json` gives an equal `Config` back.

    `parts` is in it where there are any.
    """
    data: dict[str, Any] = config.model_dump(mode="json", by_alias=True)
    for (*outer, last), schedule in config.schedules.items():
        table = data
        for name in outer:
            table = table[name]
        table[last] = schedule.to_json()
    if not any(data["parts"].values()):
        del data["parts"]
    return data


def from_json(data: Mapping[str, Any]) -> Config:
    """The settings kept by `to_json`.

    Raises:
        ConfigError: a key is missing, unknown or has a value outside its rule.
    """
    return validate(dict(data))


def of_run(run: str, text: str) -> Config:
    """The settings of a run as its row in the store has them.

    Raises:
        StoreError: they are damaged.
    """
    try:
        return from_json(json.loads(text))
    except ConfigError as error:
        rule = str(error).partition("; ")[0]
        raise StoreError(
            f"run={run}: its settings in the store are damaged ({rule}); put its last config-NNN.json back from a copy"
        ) from None


def with_options(
    config: Config, options: Mapping[str, Option], lessons: Iterable[Mapping[str, Option]] | None = None
) -> Config:
    """`config` with the game's options replaced by `options`, such as those that the game checked and completed.

    lessons: replace those of the lessons, if given.
    """
    data = to_json(config)
    data["env"]["options"] = dict(options)
    if lessons is not None:
        for lesson, own in zip(data["env"]["curriculum"], lessons, strict=True):
            lesson["options"] = dict(own)
    return from_json(data)


def changed(config: Config, overrides: Iterable[str]) -> Config:
    """`config` of a run that goes on, with the settings of `overrides`, which must be in `CHANGEABLE`.

    Raises:
        ConfigError: a setting that a run keeps for good, or a value outside its rule.
    """
    data = to_json(config)
    for text in overrides:
        section, key, value = parse_override(text)
        name = f"{section}.{key}".rstrip(".")  # of `AN_AGENT` the section alone
        if name not in CHANGEABLE:
            raise ConfigError(
                f"--set {name}: a run keeps this setting; those that may change when it is resumed are"
                f" {', '.join(CHANGEABLE)}"
            )
        if (section, key, value) == ("learner", "accumulate", AUTO):
            raise ConfigError("learner.accumulate=auto is decided where a run begins; give a number of parts")
        data[section][key] = value
    return from_json(data)


def fingerprint(config: Config) -> str:
    """sha256, in hex, of what decides learning: all but [run], threads, workers, mask checks, the device, folders, and
    how many parts a minibatch is computed in.

    Of custom parts it has what they are called and their code, of bots those of the mix and its groups.
    """
    data = {**to_json(config), "parts": used_parts(config)}
    if not data["parts"]:
        del data["parts"]
    del data["run"], data["env"]["threads"], data["env"]["strict_masks"], data["env"]["workers"]
    del data["learner"]["device"], data["learner"]["accumulate"], data["pool"]["agents"], data["pool"]["bots"]
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def used_parts(config: Config) -> dict[str, dict[str, list[str]]]:
    """The custom parts that decide what is learned: kind -> name -> what it is called in its code, and hash."""
    bots = {name.removeprefix("bot:") for name in mix_members(config.pool)}
    used = {
        "bots": {name: x for name, x in config.parts.bots.items() if name in bots},
        "samplers": config.parts.samplers,
        "policies": config.parts.policies,
    }
    return {kind: {n: [x.thing, x.sha256] for n, x in own.items()} for kind, own in used.items() if own}


def mixed_fingerprint(earlier: str, config: Config) -> str:
    """That of a run which was `earlier` until now and goes on with `config`: no config alone has it."""
    return hashlib.sha256(f"{earlier} {fingerprint(config)}".encode()).hexdigest()
