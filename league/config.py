"""The one hyperparameter source: `hyperparameters.toml` loaded into frozen, strict models (DESIGN, section 2).

The models say what a setting means, its unit and its bounds; every figure is in the TOML file. Layers are applied in
the order base, game, preset, stage, file, `--set`, a game or preset after those that it inherits from; a later layer
wins key by key, except that `pool.mix` given as a table replaces the whole mix.
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from league.errors import ConfigError, nearest
from league.schedules import Path as SettingPath
from league.schedules import Schedule, marks
from league.schedules import read as read_schedule
from league.schema import (
    MAX_COUNT,
    MAX_GAMES,
    MAX_HEAD_LAYERS,
    MAX_HISTORY,
    MAX_LAYERS,
    MAX_LESSONS,
    MAX_LIVE_NETS,
    MAX_REAL,
    MAX_ROLLOUT,
    MAX_ROWS,
    MAX_SECONDS,
    MAX_SNAPSHOTS,
    MAX_THREADS,
    MAX_WIDTH,
    MAX_WORKERS,
    Count,
    FrozenModel,
    Natural,
    PartSource,
    read_file,
)

if TYPE_CHECKING:
    from league.types import GameSpec

SOURCE = Path(__file__).with_name("hyperparameters.toml")
MAX_TOML_BYTES = 2**20
MIN_UPDATES = 20
"""A stage with fewer updates says nothing about learning."""
MIN_SNAPSHOTS = 5
"""Self-play against fewer past selves is play against one's mirror."""

Layer = dict[str, dict[str, Any]]
Width = Annotated[int, Field(ge=1, le=MAX_WIDTH)]
Positive = Annotated[float, Field(gt=0, le=MAX_REAL)]
NotNegative = Annotated[float, Field(ge=0, le=MAX_REAL)]
Share = Annotated[float, Field(ge=0, le=1)]
Option = bool | int | float | str | list[Any]


SAMPLERS = ["recent", "uniform", "latest", "pfsp_hard", "pfsp_var", "pfsp_linear", "quality", "nash", "rating"]
"""What `pool.sampler` may be called; `league.pool.samplers.register` adds one's own."""
OURS = tuple(SAMPLERS)
"""Those that come with the library."""
PartName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,47}$")]
"""What a part of one's own may be called."""
SELF_PLAY = "self_play"
"""In the mix: this run's own snapshots."""
AGENT_PREFIX = "agent:"
"""In the mix: an agent from elsewhere, `agent:NAME`."""


def _is_member(name: str) -> bool:
    return any(name.startswith(prefix) and len(name) > len(prefix) for prefix in ("bot:", AGENT_PREFIX))


def _as_tuple(value: Any) -> Any:
    """TOML and JSON have lists only."""
    return tuple(value) if isinstance(value, list) else value


def _off_as_none(value: Any) -> Any:
    """TOML has no null."""
    return None if value == "off" else value


class Section(FrozenModel):
    """A section of the hyperparameters: every number is finite."""

    model_config = ConfigDict(allow_inf_nan=False)


class AgentConfig(Section):
    """The network: whose it is, and its sizes."""

    policy: Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9_-]{0,47})?$")]
    """The network, where it is one's own (docs/parts.md), by its name; empty: the library's, of the sizes below."""
    opponent_encoder: bool
    """Whether the opponent's history is encoded at all."""
    encoder_layers: Annotated[int, Field(ge=1, le=MAX_LAYERS)]
    """Layers of the opponent encoder."""
    encoder_heads: Width
    """Attention heads; must divide encoder_width into an even width a head (rotary positions come in pairs)."""
    encoder_width: Width
    """Features of a history token."""
    encoder_feedforward: Annotated[int, Field(ge=1, le=4 * MAX_WIDTH)]
    """Hidden features of the encoder's feed-forward part."""
    history_frames: Annotated[int, Field(ge=1, le=MAX_HISTORY)]
    """Opponent history, in game ticks; history tokens are these divided by the ticks of a step."""
    latents: Width
    """Learned queries that read the history."""
    observation_width: Width
    """Features of the embedded observation."""
    lstm_size: Width
    """Features of the LSTM's state."""
    head_sizes: Annotated[tuple[Width, ...], BeforeValidator(_as_tuple), Field(max_length=MAX_HEAD_LAYERS)]
    """Hidden features of the actor's and of the critic's head, layer by layer."""

    @model_validator(mode="after")
    def _heads_divide(self) -> AgentConfig:
        width, heads = self.encoder_width, self.encoder_heads
        if width % (2 * heads):
            raise ValueError(
                f"agent.encoder_width={width} is not an even number of features for each of "
                f"agent.encoder_heads={heads}; set agent.encoder_width to a multiple of {2 * heads}"
            )
        return self


class LearnerConfig(Section):
    """PPO."""

    learning_rate: Positive
    """Adam's step size."""
    adam_epsilon: Positive
    """Adam's epsilon."""
    gamma: Share
    """Discount of one step."""
    gae_lambda: Share
    """Lambda of the generalised advantage."""
    rollout_steps: Annotated[int, Field(ge=1, le=MAX_ROLLOUT)]
    """T: decisions of each row that are learned from as one sequence, from a stored state on."""
    segments: Annotated[int, Field(ge=1, le=MAX_ROLLOUT)]
    """Times rollout_steps that are played for one update, which learns from them as from so many times the rows."""
    minibatches: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    """Splits of the segments' rows in one epoch; must divide env.rows times segments."""
    epochs: Annotated[int, Field(ge=1, le=MAX_ROLLOUT)]
    """Passes over a rollout in one update."""
    clip: Annotated[float, Field(gt=0, lt=1)]
    """PPO's clip range of the probability ratio."""
    value_coefficient: NotNegative
    """Weight of the value loss."""
    entropy_coefficient: NotNegative
    """Weight of the entropy bonus."""
    max_gradient_norm: Positive
    """The gradient's norm is clipped to this."""
    target_kl: Annotated[Positive | None, BeforeValidator(_off_as_none)]
    """An update's epochs stop when the approximate KL, in nats, passes this; "off" never stops them."""
    precision: Literal["float32", "highest", "bf16"]
    """Number format of matrix products: float32 at torch's precision "high", that is TF32 on CUDA and two bf16 a number
    on a CPU with AMX; float32 throughout ("highest"); or bf16."""
    device: Literal["auto", "cuda", "mps", "cpu"]
    """Where the network runs; auto takes CUDA, then MPS, then the CPU."""
    overlap: Literal["auto", True, False]
    """Whether the rows play in two halves, the games of one beside the nets of the other; auto: on CUDA, if wide."""
    compile: Literal["auto", "off", "graphs", "compile"]
    """graphs replays the nets' steps as CUDA graphs; compile also compiles learning; auto: graphs on CUDA."""


class PoolConfig(Section):
    """Who the learner plays, and when it is frozen into a snapshot."""

    mix: dict[str, Share]
    """Group (`self_play` or one of groups) or member -> its share of the matches; the shares sum to 1.

    A member is a bot (`bot:NAME`) or an agent from elsewhere (`agent:PATH`, `agent:RUN@STEP`), which a run's settings
    name by its hash."""
    groups: dict[str, list[str]]
    """Name -> members that share what the mix gives the name."""
    agents: dict[str, str]
    """Hash -> folder of each agent from elsewhere, written when it is found; no part of the fingerprint."""
    bots: list[PartName]
    """Bots in Python that evaluations meet beside those of the mix (docs/parts.md); no part of the fingerprint."""
    sampler: PartName
    """How a snapshot is drawn inside self_play (docs/league.md)."""
    group_sampler: PartName
    """How a member is drawn inside each of groups; the last one listed counts as the newest."""
    recent_window: Count
    """Members that `recent` draws among."""
    epsilon: Share
    """Share of uniform in every sampler that reads results: all but `recent`, `uniform` and `latest`."""
    shrink_games: Count
    """Games that the rating model's prediction of a win-rate counts for; also drawn games that a new snapshot is
    imagined to have played with its parent."""
    payoff_games: Annotated[int, Field(ge=0, le=MAX_GAMES, multiple_of=2)]
    """`nash`: games that a new snapshot plays with each other one, so that the payoffs between them are known in the
    learner's reward; 0 takes its training games' win-rates instead."""
    result_half_life: Annotated[float, Field(gt=0, le=MAX_COUNT)]
    """Steps after which a training game says half as much about the learner, whose weights have changed since."""
    quality_rate: Positive
    """`quality`: what a win takes from the opponent's quality, times the pool's size and the chance to meet it."""
    rating_width: Positive
    """`rating`: Elo points of difference at which an opponent is drawn e^-0.5 times as often as an equal one."""
    live_nets: Annotated[int, Field(ge=1, le=MAX_LIVE_NETS)]
    """K: frozen nets that rows draw among at one time."""
    snapshot_every: Count
    """Steps between snapshots, up to snapshot_every_until."""
    snapshot_every_until: Natural
    """Steps; beyond these, snapshot_every_after holds."""
    snapshot_every_after: Count
    """Steps between snapshots later on."""

    @model_validator(mode="after")
    def _shares_sum_to_one(self) -> PoolConfig:
        total = sum(self.mix.values())
        if abs(total - 1.0) > 1e-6:
            shares = " + ".join(f"{name} {share:g}" for name, share in self.mix.items()) or "nothing"
            raise ValueError(f"pool.mix sums to {total:g} ({shares}), not to 1; change a share by {1.0 - total:+g}")
        for name in self.mix:
            if name not in (SELF_PLAY, *self.groups) and not _is_member(name):
                groups = ", ".join([SELF_PLAY, *self.groups])
                raise ValueError(
                    f"pool.mix names `{name}`, which is no group or member; write {groups}, bot:NAME or agent:PATH, or"
                    f" define the group in pool.groups"
                )
        return self

    @model_validator(mode="after")
    def _groups_are_apart(self) -> PoolConfig:
        homes = {name: "pool.mix" for name, share in self.mix.items() if share and name not in self.groups}
        for group, members in self.groups.items():
            if group == SELF_PLAY or _is_member(group):
                raise ValueError(f"pool.groups.{group}: the name is taken; call the group something else")
            if not members:
                raise ValueError(f"pool.groups.{group}=[] has nobody in it; list members as bot:NAME or agent:PATH")
            for member in members:
                if not _is_member(member):
                    raise ValueError(
                        f"pool.groups.{group} lists `{member}`, which is no member; write bot:NAME or agent:PATH"
                    )
                if member in homes:
                    raise ValueError(
                        f"pool.groups.{group} lists `{member}`, which is in {homes[member]} already; keep it in one"
                        f" place"
                    )
                homes[member] = f"pool.groups.{group}"
        return self


class LessonConfig(Section):
    """What training rows play from a step on."""

    begins: Annotated[Natural, Field(alias="from")]
    """Steps of the run, those before a longer stage carried it on too; it begins at the first update boundary at or
    past them."""
    options: dict[str, Option]
    """The game's options, over those of [env]; the game checks them."""


class EnvConfig(Section):
    """The game and how many matches of it run side by side."""

    name: Annotated[str, Field(min_length=1)]
    """The game's registered name."""
    rows: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    """B: matches side by side."""
    threads: Annotated[int, Field(ge=0, le=MAX_THREADS)]
    """Threads that step the matches; 0 chooses by the rows and the cores."""
    workers: Annotated[int, Field(ge=0, le=MAX_WORKERS)]
    """Processes that step the matches of a game that is too slow for one core; 0 steps them in this process."""
    strict_masks: bool
    """Whether each step checks masks, observations and actions against the game's state."""
    curriculum: Annotated[tuple[LessonConfig, ...], BeforeValidator(_as_tuple), Field(max_length=MAX_LESSONS)]
    """Lessons: options that training rows have from a step on, as [{from=0, options={...}}, ...]; an evaluation has
    those of [env]."""
    options: dict[str, Option]
    """The game's own options; the game checks them."""

    @model_validator(mode="after")
    def _lessons_follow(self) -> EnvConfig:
        for earlier, later in pairwise(self.curriculum):
            if later.begins <= earlier.begins:
                raise ValueError(
                    f"env.curriculum: from={later.begins} comes after from={earlier.begins}; list lessons by the steps"
                    f" that they begin at, each later than the one before"
                )
        return self


class RunConfig(Section):
    """How long, and what is looked at on the way. Nothing here changes what is learned."""

    total_steps: Count
    """Steps; the run ends at the first update boundary at or past them."""
    evaluate_every: Natural
    """Steps between evaluations; 0 evaluates at the end only."""
    evaluate_games: Annotated[int, Field(ge=2, le=MAX_GAMES, multiple_of=2)]
    """Games of each pair in an evaluation, seats swapped, so an even number."""
    checkpoint_minutes: Annotated[float, Field(gt=0, le=MAX_SECONDS / 60)]
    """Minutes between checkpoints."""
    verbosity: Annotated[int, Field(ge=0, le=2)]
    """0 says nothing, 1 shows progress, 2 shows every update."""
    on_alarm: Literal["warn", "stop"]
    """Whether an alarm of league/training/guards.py is only said and written down, or also ends the run, saved."""
    alarm_kl: Positive
    """Nats of an update's approximate KL above which `kl_blow_up` is said; below half of it all is well again."""
    alarm_idle_steps: Count
    """Steps of each row without the end of a match after which `no_matches` is said; longer than a match takes."""
    alarm_silent_matches: Count
    """Training matches after which a reward term that never fired is named."""
    alarm_random_steps: Natural
    """Steps from which on losing to `bot:random` in an evaluation is said: by then something should be learned."""
    continues: str
    """The stage whose newest finished run, of equal fingerprint and seed, this one carries on; empty for none."""
    allow_short: bool
    """Whether the run may have too few updates, snapshots or rows to learn anything."""


class PartsConfig(Section):
    """The parts of one's own that a run has, by name, and which code each is; found, never set (docs/parts.md)."""

    bots: dict[PartName, PartSource] = Field(default_factory=dict)
    samplers: dict[PartName, PartSource] = Field(default_factory=dict)
    policies: dict[PartName, PartSource] = Field(default_factory=dict)


class Config(Section):
    """Every setting of a run, resolved."""

    agent: AgentConfig
    learner: LearnerConfig
    pool: PoolConfig
    env: EnvConfig
    rewards: dict[str, Annotated[float, Field(ge=-MAX_REAL, le=MAX_REAL)]]
    """The game's reward term -> weight."""
    run: RunConfig
    parts: PartsConfig = Field(default_factory=PartsConfig)
    schedules: dict[SettingPath, Schedule] = Field(default_factory=dict, exclude=True)
    """The settings that move with the steps; the numbers above are those of one step, 0 at first."""

    def at(self, steps: int) -> Config:
        """The settings as they are when so many steps of the run have been made; itself where that changes nothing."""
        now = {path: schedule.at(steps) for path, schedule in self.schedules.items()}
        changes = {path: x for path, x in now.items() if x != _get(self, path)}
        tables: dict[str, dict[str, Any]] = {}
        mix = dict(self.pool.mix)
        for (section, *names), x in changes.items():
            if names[0] == "mix":
                mix[names[1]] = x
            else:
                tables.setdefault(section, {})[names[0]] = x
        if mix != self.pool.mix:
            tables["pool"] = {"mix": mix}
        sections: dict[str, Any] = {}
        for section, table in tables.items():
            old = getattr(self, section)
            sections[section] = {**old, **table} if isinstance(old, dict) else old.model_copy(update=table)
        return self.model_copy(update=sections) if sections else self

    def scheduled(self) -> dict[SettingPath, float]:
        """The numbers, as they are now, of the settings that move with the steps."""
        return {path: _get(self, path) for path in self.schedules}

    @model_validator(mode="after")
    def _samplers_are_known(self) -> Config:
        for key in ("sampler", "group_sampler"):
            name, known = getattr(self.pool, key), (*SAMPLERS, *self.parts.samplers)
            if name not in known and all(name != point.name for point in entry_points(group="league.samplers")):
                raise ValueError(
                    f"pool.{key}={name!r} is no sampler (one of your own is named by --sampler){nearest(name, known)}"
                )
        return self


SECTIONS: dict[str, type[Section] | None] = {
    "agent": AgentConfig,
    "learner": LearnerConfig,
    "pool": PoolConfig,
    "env": EnvConfig,
    "rewards": None,
    "run": RunConfig,
}
ROLE = "role"
"""The section of a league's roles, which `league.pool.roles` checks and a league's rows keep."""
BITS = 2
"""Raised by each change of what the same config and seed play or learn, bit for bit on a CPU (CONTRIBUTING.md). It is
written into states and snapshots, and is no part of the fingerprint."""
AUTO = "auto"
"""The preset that is sized to the device."""
MOVING = (
    *("learning_rate", "gamma", "gae_lambda", "clip", "value_coefficient", "entropy_coefficient", "max_gradient_norm"),
    *("segments", "minibatches", "epochs"),
)
"""What of [learner] may move with the steps, beside every weight of [rewards] and share of `pool.mix`."""
CHANGEABLE = (
    *(
        "env.rows",
        "env.threads",
        "env.workers",
        "learner.rollout_steps",
        "learner.segments",
        "learner.minibatches",
        "learner.precision",
        "pool.live_nets",
    ),
    *("learner.overlap", "learner.compile"),
    *("learner.learning_rate", "learner.entropy_coefficient", "learner.max_gradient_norm", "learner.target_kl"),
    *("run.checkpoint_minutes", "run.evaluate_every", "run.evaluate_games", "run.verbosity", "run.on_alarm"),
    *("run.alarm_kl", "run.alarm_idle_steps", "run.alarm_silent_matches", "run.alarm_random_steps"),
)
"""What may be set when a run is resumed: what it takes of the machine, what may cure it, and how one looks at it."""
LATER: dict[str, dict[str, Any]] = {
    "agent": {"policy": ""},
    "env": {"curriculum": [], "workers": 0},
    "learner": {"segments": 1},
    "pool": {"agents": {}, "bots": []},
    "run": {"alarm_kl": 0.1, "alarm_idle_steps": 600, "alarm_silent_matches": 100, "alarm_random_steps": 40_000},
}
"""Settings that the first release did not have, as the constants that they were: an older run is read with these, and
the fingerprint leaves one out that is still what it was, so that what learned the same before is called the same."""
COMMON_ENV_KEYS = tuple(key for key in EnvConfig.model_fields if key != "options")
"""The keys of [env] that every game has; the others are the game's own."""


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
        overrides: `section.key=value`; a value is a TOML literal, else a string.
        sizes: Laid over the preset: what `league.sessions.sizing` makes of `auto` on a device.
        layer: Laid over the stage: what a league's file says of a learner.
        defaults: Laid below [game.NAME]: what the game itself brings, section by section.

    Raises:
        ConfigError: an unknown stage, preset or key, a value outside its rule, or an unreadable file.
    """
    source = read_toml(SOURCE, "the hyperparameter source")
    base = _base(source)
    file_layer, sets = _said(env, config_file, overrides)
    layer = layer or {}
    game = _game_of(base, layer, file_layer, sets)

    merged: Layer = {}
    _merge(merged, base)
    _merge(merged, _brought(defaults or {}))
    for table in _lineage(source, "game", game) if game in source["game"] else ():
        _merge(merged, table)
    for table in _lineage(source, "preset", preset):
        _merge(merged, table)
    _merge(merged, sizes or {})
    _merge(merged, _stage_layer(source, stage))
    _merge(merged, layer)
    _merge(merged, file_layer)
    for section, key, value in sets:
        _set(merged, section, key, value)
    return _validate(_nest_env(merged))


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
    base = _base(read_toml(SOURCE, "the hyperparameter source"))
    return _game_of(base, layer or {}, *_said(env, config_file, overrides))


def has_game(name: str) -> bool:
    """Whether the hyperparameter source has settings of a game of this name."""
    return name in read_toml(SOURCE, "the hyperparameter source")["game"]


def verbosity(stage: str, config_file: str | Path | None = None, overrides: Iterable[str] = ()) -> int:
    """`run.verbosity` of a call, which no game and no preset decides; 1 where it is no such number.

    Raises:
        ConfigError: an unknown stage, or an unreadable file or override.
    """
    source = read_toml(SOURCE, "the hyperparameter source")
    merged = _base(source)
    file_layer, sets = _said(None, config_file, overrides)
    for table in (_stage_layer(source, stage), file_layer):
        _merge(merged, table)
    values = [merged["run"].get("verbosity"), *(value for *key, value in sets if key == ["run", "verbosity"])]
    return values[-1] if values[-1] in (0, 1, 2) else 1


def laid_over(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> Layer:
    """Two layers of a game as one, key by key."""
    merged: Layer = {}
    _merge(merged, _brought(lower))
    _merge(merged, _brought(upper))
    return merged


def _base(source: Mapping[str, Any]) -> Layer:
    return _sections({name: source.get(name, {}) for name in SECTIONS}, "base")


def _brought(table: Mapping[str, Any]) -> Layer:
    """What a game brings, as a layer: sections that [game.NAME] may have.

    Raises:
        ConfigError: another section, or one that is no table.
    """
    layer = _sections(table, "DEFAULTS", known=set(SECTIONS) - {"run"})
    if "name" in layer.get("env", {}):
        raise ConfigError(
            f"DEFAULTS: env.name={layer['env']['name']!r}: a game's name is that of its spec; leave it out"
        )
    return layer


def _said(
    env: str | None, config_file: str | Path | None, overrides: Iterable[str]
) -> tuple[Layer, list[tuple[str, str, Any]]]:
    """The file and the overrides of a call; `env` counts as the first override."""
    file_layer = _sections(read_toml(Path(config_file), "--config"), f"--config {config_file}") if config_file else {}
    sets = [_parse_override(text) for text in overrides]
    for section, key, value in sets:
        if section == ROLE:
            raise ConfigError(
                f"--set role.{key}={value}: [role] is what a league's learners do; pass --league, or leave it out"
            )
    return file_layer, [*([] if env is None else [("env", "name", env)]), *sets]


def _game_of(base: Layer, layer: Layer, file_layer: Layer, sets: Iterable[tuple[str, str, Any]]) -> str:
    named = [table["env"]["name"] for table in (base, layer, file_layer) if "name" in table.get("env", {})]
    named += [value for section, key, value in sets if (section, key) == ("env", "name")]
    return str(named[-1]) if named else ""


def stages() -> tuple[str, ...]:
    """The names of the stages, shortest first."""
    table = read_toml(SOURCE, "the hyperparameter source")["stage"]
    return tuple(sorted(table, key=lambda name: int(table[name]["run"]["total_steps"])))


def continued_stages() -> dict[str, str]:
    """Stage -> the one whose finished runs it carries on."""
    table = read_toml(SOURCE, "the hyperparameter source")["stage"]
    return {name: stage["run"]["continues"] for name, stage in table.items() if stage["run"].get("continues")}


def role_figures() -> dict[str, dict[str, Any]]:
    """Role of a league's learner -> its figures, which `league.pool.roles` checks and explains."""
    return dict(read_toml(SOURCE, "the hyperparameter source")["role"])


def role_sets(overrides: Iterable[str]) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """The overrides that are settings of a run, and those of `role.ROLE.FIGURE=value`: role -> figure -> value.

    Raises:
        ConfigError: one of either kind that cannot be read.
    """
    others: list[str] = []
    figures: dict[str, dict[str, Any]] = {}
    for text in overrides:
        section, key, value = _parse_override(text)
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


def as_layer(table: Mapping[str, Any], where: str) -> Layer:
    """`table` as something to lay over other settings; `where` names it in errors.

    Raises:
        ConfigError: a section that there is not, or one that is not a table.
    """
    return _sections(table, where)


def presets() -> tuple[str, ...]:
    """The names of the presets, as listed in the source."""
    return tuple(read_toml(SOURCE, "the hyperparameter source")["preset"])


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
    """The settings kept by `to_json`, also by a library that had none of `LATER`.

    Raises:
        ConfigError: a key is missing, unknown or has a value outside its rule.
    """
    older = {name: {**table, **data[name]} for name, table in LATER.items() if isinstance(data.get(name), Mapping)}
    return _validate({**data, **older})


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
        section, key, value = _parse_override(text)
        if f"{section}.{key}" not in CHANGEABLE:
            raise ConfigError(
                f"--set {section}.{key}: a run keeps this setting; those that may change when it is resumed are"
                f" {', '.join(CHANGEABLE)}"
            )
        data[section][key] = value
    return from_json(data)


def fingerprint(config: Config) -> str:
    """sha256, in hex, of what decides learning: all but [run], threads, workers, mask checks, the device, and folders.

    Of parts of one's own it has what they are called and their code, of bots those of the mix and its groups.
    """
    data = {**to_json(config), "parts": used_parts(config)}
    if not data["parts"]:
        del data["parts"]
    for section, table in LATER.items():
        data[section] = {key: x for key, x in data[section].items() if key not in table or x != table[key]}
    del data["run"], data["env"]["threads"], data["env"]["strict_masks"], data["learner"]["device"]
    data["env"].pop("workers", None)
    for key in ("agents", "bots"):
        data["pool"].pop(key, None)
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def mix_members(config: PoolConfig) -> tuple[str, ...]:
    """Who is named in the mix and its groups: bots and agents, each once, in alphabetical order."""
    named = {*config.mix, *(member for group in config.groups.values() for member in group)}
    return tuple(sorted(name for name in named if _is_member(name)))


def used_parts(config: Config) -> dict[str, dict[str, list[str]]]:
    """The parts of one's own that decide what is learned: kind -> name -> what it is called in its code, and hash."""
    bots = {name.removeprefix("bot:") for name in mix_members(config.pool)}
    used = {
        "bots": {name: x for name, x in config.parts.bots.items() if name in bots},
        "samplers": config.parts.samplers,
        "policies": config.parts.policies,
    }
    return {kind: {n: [x.thing, x.sha256] for n, x in own.items()} for kind, own in used.items() if own}


def with_parts(config: Config, parts: PartsConfig) -> Config:
    """`config` with these parts of one's own."""
    return config.model_copy(update={"parts": parts})


def mixed_fingerprint(earlier: str, config: Config) -> str:
    """That of a run which was `earlier` until now and goes on with `config`: no config alone has it."""
    return hashlib.sha256(f"{earlier} {fingerprint(config)}".encode()).hexdigest()


def smaller(config: Config) -> tuple[str, ...]:
    """Settings, as `--set` takes them, of which each makes the same run take less memory, the mildest first."""
    rows, minibatches, steps = config.env.rows, config.learner.minibatches, config.learner.rollout_steps
    choices = [f"learner.minibatches={n}" for n in range(2 * minibatches, rows + 1) if rows % n == 0][:1]
    if rows % (2 * minibatches) == 0:
        choices.append(f"env.rows={rows // 2}")
    return (*choices, f"learner.rollout_steps={max(1, steps // 2)}")


def steps_per_update(config: Config) -> int:
    """Steps between two updates at the numbers of `config`: rows times rollout steps times segments."""
    return config.env.rows * config.learner.rollout_steps * config.learner.segments


def boundary(config: Config, steps: int) -> tuple[int, int]:
    """The first update boundary at or past `steps`: the updates and the steps made there."""
    update = made = 0
    begins = [*marks(x for path, x in config.schedules.items() if path == ("learner", "segments")), steps]
    for begin, end in pairwise(begins):
        size = steps_per_update(config.at(begin))
        count = max(0, -(-(min(end, steps) - made) // size))
        update, made = update + count, made + count * size
    return update, made


def num_updates(config: Config) -> int:
    """Updates of the run: it ends at the first boundary at or past `run.total_steps`."""
    return boundary(config, config.run.total_steps)[0]


def next_snapshot_mark(config: Config, steps: int) -> int:
    """The first mark of the snapshot schedule after `steps`.

    Marks are the multiples of `snapshot_every` up to `snapshot_every_until`, then those of `snapshot_every_after`.
    """
    pool = config.pool
    mark = (steps // pool.snapshot_every + 1) * pool.snapshot_every
    if mark <= pool.snapshot_every_until:
        return mark
    start = max(steps, pool.snapshot_every_until)
    return (start // pool.snapshot_every_after + 1) * pool.snapshot_every_after


def num_snapshot_marks(config: Config, upto: int) -> int:
    """How many marks the snapshot schedule has in (0, `upto`]."""
    pool = config.pool
    early = min(upto, pool.snapshot_every_until)
    late = max(0, upto // pool.snapshot_every_after - pool.snapshot_every_until // pool.snapshot_every_after)
    return early // pool.snapshot_every + late


def snapshot_updates(config: Config, upto: int) -> Iterator[int]:
    """The updates at whose ends, in (0, `upto`] steps, a snapshot is made: one each, whichever marks it has passed."""
    steps = 0
    while (mark := next_snapshot_mark(config, steps)) <= upto:
        update, steps = boundary(config, mark)
        yield update


def check_rows(config: Config) -> None:
    """Refuses rows that the minibatches do not divide, at any step.

    Raises:
        ConfigError: with a number of minibatches that does.
    """
    for mark in marks(config.schedules.values()):
        now = config.at(mark).learner
        rows = config.env.rows * now.segments
        if rows % now.minibatches == 0:
            continue
        product = f"env.rows={config.env.rows}" + (f" x learner.segments={now.segments}" if now.segments > 1 else "")
        divisor = max(n for n in range(1, min(now.minibatches, rows + 1)) if rows % n == 0)
        raise ConfigError(
            f"{product} is not divisible by learner.minibatches={now.minibatches} "
            f"(remainder {rows % now.minibatches}){_at_step(mark)}; set learner.minibatches={divisor}"
        )


def check(config: Config) -> None:
    """Refuses a run that cannot work or, unless `run.allow_short`, is too short or too narrow to learn.

    Raises:
        ConfigError: with the arithmetic and what to change.
    """
    check_rows(config)
    rows, total, learner = config.env.rows, config.run.total_steps, config.learner
    updates, upto = boundary(config, total)
    size = steps_per_update(config)
    product = f"env.rows={rows} x learner.rollout_steps={learner.rollout_steps}"
    product += (f" x learner.segments={learner.segments}" if learner.segments > 1 else "") + f" = {size} steps"
    if size > total:
        raise ConfigError(
            f"a rollout ({product}) is longer than run.total_steps={total}; lower env.rows, or take --preset fast or a"
            f" longer --stage"
        )
    if len(list(islice(snapshot_updates(config, upto), MAX_SNAPSHOTS + 1))) > MAX_SNAPSHOTS:
        raise ConfigError(
            f"run.total_steps={total} with pool.snapshot_every={config.pool.snapshot_every} and"
            f" pool.snapshot_every_after={config.pool.snapshot_every_after} makes more than {MAX_SNAPSHOTS:,}"
            f" snapshots; raise the two"
        )
    if config.run.allow_short:
        return
    if updates < MIN_UPDATES:
        raise ConfigError(
            f"run.total_steps={total} makes {updates} updates of {product}, fewer than {MIN_UPDATES}; "
            f"make a rollout at most {(total - 1) // (MIN_UPDATES - 1)} steps, as --preset fast does, or take a longer"
            f" --stage"
        )
    num_snapshots = len(list(islice(snapshot_updates(config, upto), MIN_SNAPSHOTS)))
    if num_snapshots < MIN_SNAPSHOTS:
        raise ConfigError(
            f"run.total_steps={total} with pool.snapshot_every={config.pool.snapshot_every} makes {num_snapshots} "
            f"snapshots, fewer than {MIN_SNAPSHOTS}; lower pool.snapshot_every or take a longer --stage"
        )
    for name, share in config.pool.mix.items():
        if 0 < share * rows < 1 and ("pool", "mix", name) not in config.schedules:
            raise ConfigError(
                f"pool.mix gives {name} {share:g} of env.rows={rows}, which is {share * rows:g} rows, less than one; "
                f"set env.rows to at least {math.ceil(1 / share)}, or that share to 0"
            )


def check_rewards(config: Config, spec: GameSpec) -> tuple[float, ...]:
    """The weights in the order of `spec.reward_terms`; a term that [rewards] leaves out weighs 0.

    Raises:
        ConfigError: a term that the game does not have, or no weight but 0.
    """
    for term, weight in config.rewards.items():
        if term not in spec.reward_terms:
            raise ConfigError(
                f"rewards.{term}={weight:g}: {spec.name} has no such reward term{nearest(term, spec.reward_terms)}"
            )
    weights = tuple(config.rewards.get(term, 0.0) for term in spec.reward_terms)
    if not any(weights) and not any(path[0] == "rewards" for path in config.schedules):
        raise ConfigError(
            f"every weight in [rewards] is 0, so there is nothing to learn; "
            f"set one with --set rewards.{spec.reward_terms[0]}=1.0"
        )
    return weights


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The file's content; `what` names it in errors.

    Raises:
        ConfigError: it cannot be read, or is not TOML.
    """
    try:
        data = read_file(path, MAX_TOML_BYTES)
    except OSError as error:
        raise ConfigError(f"{what} {path}: {error.strerror or error}; give a TOML file that can be read") from None
    except ValueError as error:
        raise ConfigError(f"{what} {path}: {error}; give a TOML file of settings") from None
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits, and lists in lists in lists
        raise ConfigError(f"{what} {path} is not TOML: {_one_line(error)}; mend the file") from None


def _pick(source: Mapping[str, Any], kind: str, name: str) -> Any:
    if name not in source[kind]:
        raise ConfigError(f"--{kind} {name!r} is not a {kind}{nearest(name, source[kind])}")
    return source[kind][name]


def _lineage(source: Mapping[str, Any], kind: str, name: str) -> list[Layer]:
    """The layer of a game or preset after those that it inherits from, the farthest first; [run] is no part of them.

    Raises:
        ConfigError: it inherits from one that there is not, or from itself.
    """
    layers: dict[str, Layer] = {}
    while True:
        table = dict(_pick(source, kind, name))
        parent = table.pop("inherits", None)
        layers[name] = _sections(table, f"{kind}.{name}", known=set(SECTIONS) - {"run"})
        if parent is None:
            return list(reversed(layers.values()))
        if not isinstance(parent, str) or parent not in source[kind]:
            known = nearest(str(parent), source[kind])
            raise ConfigError(f"{kind}.{name}.inherits={parent!r} is not a {kind} of the source{known}")
        if parent in layers:
            circle = " -> ".join([*layers, parent])
            raise ConfigError(
                f"{kind}.{name}.inherits={parent!r} makes a circle ({circle}); take one `inherits` out of it"
            )
        name = parent


def _sections(table: Mapping[str, Any], where: str, known: Iterable[str] = SECTIONS) -> Layer:
    """`table` as a layer: only `known` sections, each a table."""
    known = tuple(known)
    for name, content in table.items():
        if name not in known:
            raise ConfigError(f"{where}: [{name}] cannot be set here{nearest(name, known)}")
        if not isinstance(content, dict):
            raise ConfigError(f"{where}: {name}={content!r} is not a table; write [{name}] and its keys below")
    return dict(table)


def _stage_layer(source: Mapping[str, Any], stage: str) -> Layer:
    """The stage's table, refused where it sets what could change learning."""
    layer = _pick(source, "stage", stage)
    for section, table in layer.items():
        for key, value in table.items() if isinstance(table, dict) else [("", table)]:
            if section != "run" and (section, key) != ("env", "strict_masks"):
                raise ConfigError(
                    f"stage.{stage}.{section}.{key}={value!r}: a stage may set only [run] and env.strict_masks, "
                    f"so that a short stage is the start of a long one; move it to a preset"
                )
    return _sections(layer, f"stage.{stage}")


def _parse_override(text: str) -> tuple[str, str, Any]:
    """`section.key=value` as (section, key, value); a role of a league is a section, too."""
    path, equals, literal = text.partition("=")
    section, dot, key = path.strip().partition(".")
    if not equals or not dot or not key:
        raise ConfigError(f"--set {text!r} is not section.key=value; write it like --set learner.gamma=0.995")
    if section not in (*SECTIONS, ROLE):
        raise ConfigError(f"--set {text!r}: [{section}] is not a section{nearest(section, (*SECTIONS, ROLE))}")
    try:
        parsed = tomllib.loads(f"value = {literal.strip()}")
    except (ValueError, RecursionError):
        parsed = {}
    return section, key, parsed["value"] if set(parsed) == {"value"} else literal.strip()


def _merge(merged: Layer, layer: Layer) -> None:
    for section, table in layer.items():
        merged.setdefault(section, {}).update(table)


def _set(merged: Layer, section: str, key: str, value: Any) -> None:
    """One override; `pool.mix.NAME` and `pool.groups.NAME` set one entry and keep the others."""
    table, dot, name = key.partition(".")
    if section == "pool" and dot and table in ("mix", "groups") and isinstance(merged["pool"].get(table), dict):
        merged["pool"][table] = {**merged["pool"][table], name: value}
    else:
        merged[section][key] = value


def _nest_env(merged: Layer) -> dict[str, Any]:
    """Moves the keys of [env] that belong to the game into `options`."""
    env = merged["env"]
    common = {key: value for key, value in env.items() if key in COMMON_ENV_KEYS}
    options = {key: value for key, value in env.items() if key not in COMMON_ENV_KEYS}
    return {**merged, "env": {**common, "options": options}}


def _validate(data: Mapping[str, Any]) -> Config:
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
            raise ConfigError(f"{error}{_at_step(mark)}") from None
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
            is_stepped = path == ("learner",) and LearnerConfig.model_fields[key].annotation is int
            found[*path, key] = read_schedule(name, value, is_stepped=is_stepped)
            numbers[key] = found[*path, key].at(0)
        return numbers

    plain = dict(data)
    for section, known in (("learner", MOVING), ("rewards", None)):
        if section in data:
            plain[section] = first(data[section], (section,), known)
    if isinstance(data.get("pool"), Mapping) and "mix" in data["pool"]:
        plain["pool"] = {**data["pool"], "mix": first(data["pool"]["mix"], ("pool", "mix"))}
    return plain, found


def _get(config: Config, path: SettingPath) -> float:
    """The number at a path."""
    value: Any = config
    for name in path:
        value = value[name] if isinstance(value, dict) else getattr(value, name)
    return float(value)


def _at_step(mark: int) -> str:
    return f" (at step {mark:,})" if mark else ""


def _explain(errors: ValidationError) -> str:
    """The first problem on one line: the setting, its value, the rule, the next step."""
    error = errors.errors(include_url=False)[0]
    path = [str(part) for part in error["loc"]]
    if error["type"] == "value_error":
        return _one_line(error["ctx"]["error"])
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
