"""What each setting means, its unit and its bounds; every figure is in `hyperparameters.toml`."""

from __future__ import annotations

from importlib.metadata import entry_points
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from league.config.schedules import Path as SettingPath
from league.config.schedules import Schedule
from league.errors import nearest
from league.types import schema
from league.types.schema import (
    MAX_COUNT,
    MAX_GAMES,
    MAX_HEAD_LAYERS,
    MAX_HISTORY,
    MAX_LAYERS,
    MAX_LESSONS,
    MAX_LIVE_NETS,
    MAX_REAL,
    MAX_REPLAYS,
    MAX_ROLLOUT,
    MAX_ROWS,
    MAX_SECONDS,
    MAX_SNAPSHOTS,
    MAX_STATES,
    MAX_THREADS,
    MAX_WIDTH,
    MAX_WORKERS,
    FrozenModel,
    PartSource,
    count_of,
)


def _as_count(value: Any) -> Any:
    """What people write for a count (300k) is one."""
    return count_of(value) if isinstance(value, str) else value


Count = Annotated[schema.Count, BeforeValidator(_as_count)]
Natural = Annotated[schema.Natural, BeforeValidator(_as_count)]
Games = Annotated[int, Field(ge=0, le=MAX_GAMES, multiple_of=2), BeforeValidator(_as_count)]
"""Each pair of games swaps seats, so an even number."""
SomeGames = Annotated[int, Field(ge=2, le=MAX_GAMES, multiple_of=2), BeforeValidator(_as_count)]
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
"""What a custom part may be called."""
SELF_PLAY = "self_play"
"""In the mix: this run's own snapshots."""
CURRENT = "current"
"""In the mix: the learner's own weights as they are now."""
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


def _auto_as_none(value: Any) -> Any:
    """What is decided once the device is known."""
    return None if value == "auto" else value


class Section(FrozenModel):
    """A section of the hyperparameters: every number is finite."""

    model_config = ConfigDict(allow_inf_nan=False)


class AgentConfig(Section):
    """The network: whose it is, and its sizes."""

    policy: Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9_-]{0,47})?$")]
    """The network, where it is one's own (docs/bring.md), by its name; empty: the library's, of the sizes below."""
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
    torso: Literal["auto", "mlp"]
    """What sees images and entities. "auto": residual convolutions and attention, which also give actions that point at
    a cell or an entity their logits. "mlp": a linear layer, as for other numbers."""
    lstm_size: Width
    """Features of the LSTM's state."""
    skip_connection: bool
    """Whether the actor and the critic see the LSTM's input beside its output."""
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
    """Adam's step size, before rate_share."""
    rate_share: Annotated[float, Field(gt=0, le=1)]
    """Share of learning_rate that the network takes: a wide one bears less."""
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
    minibatch_size: Count
    """Samples of one gradient step: an epoch has as many minibatches, of equally many rows, as bring it nearest."""
    epochs: Annotated[int, Field(ge=1, le=MAX_ROLLOUT)]
    """Passes over a rollout in one update."""
    accumulate: Annotated[int | None, Field(ge=1, le=MAX_ROWS), BeforeValidator(_auto_as_none)]
    """Parts that a minibatch is computed in, one after the other, in less memory: their gradients add up to the same
    step. At most the rows of a minibatch; "auto": as few as the device's memory asks for where the run begins."""
    clip: Annotated[float, Field(gt=0, lt=1)]
    """PPO's clip range of the probability ratio."""
    value_coefficient: NotNegative
    """Weight of the value loss."""
    entropy_coefficient: NotNegative
    """Weight of the entropy bonus."""
    magnet: NotNegative
    """Weight of the KL divergence to a slowly moving copy of the policy, in sizes of a return a nat; 0 has none."""
    begin_with: str
    """The agent whose weights the learner begins with, a folder or RUN@STEP (`--begin-with`), which a run's settings
    name by its hash; empty: none."""
    begin_kl: NotNegative
    """Weight of the KL divergence to that agent, which stays as it is, in sizes of a return a nat; 0 has none."""
    opponent_prediction: NotNegative
    """Weight of a loss by which the opponent encoder learns to predict what the opponent does next; 0 has none."""
    max_gradient_norm: Positive
    """The gradient's norm is clipped to this."""
    target_kl: Annotated[Positive | None, BeforeValidator(_off_as_none)]
    """An update's epochs stop when the approximate KL, in nats, its mean over the minibatches of an epoch, passes 1.5
    times this; "off" never stops them."""
    adaptive_kl: NotNegative
    """The approximate KL of an update, in nats, above which the learning rate is divided by 1.5; below half of it the
    rate is multiplied by 1.5, up to rate_share of learning_rate. 0: the rate is that."""
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
    """Group (`self_play`, `current` or one of groups) or member -> its share of the matches; the shares sum to 1.

    `current` is the learner's own network as it is after each update.

    A member is a bot (`bot:NAME`) or an agent from elsewhere (`agent:PATH`, `agent:RUN@STEP`), which a run's settings
    name by its hash."""
    groups: dict[str, list[str]]
    """Name -> members that share what the mix gives the name."""
    agents: dict[str, str]
    """Hash -> folder of each agent from elsewhere, written when it is found; no part of the fingerprint."""
    bots: list[PartName]
    """Bots in Python that evaluations meet beside those of the mix (docs/bring.md); no part of the fingerprint."""
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
    payoff_games: Games
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
    """Steps between snapshots at first; later four of them a doubling of the steps, up to snapshot_every_after."""
    snapshot_every_after: Count
    """The most steps between snapshots."""

    @model_validator(mode="after")
    def _shares_sum_to_one(self) -> PoolConfig:
        total = sum(self.mix.values())
        if abs(total - 1.0) > 1e-6:
            shares = " + ".join(f"{name} {share:g}" for name, share in self.mix.items()) or "nothing"
            raise ValueError(f"pool.mix sums to {total:g} ({shares}), not to 1; change a share by {1.0 - total:+g}")
        for name in self.mix:
            if name not in (SELF_PLAY, CURRENT, *self.groups) and not _is_member(name):
                groups = ", ".join([SELF_PLAY, CURRENT, *self.groups])
                raise ValueError(
                    f"pool.mix names `{name}`, which is no group or member; write {groups}, bot:NAME or agent:PATH, or"
                    f" define the group in pool.groups"
                )
        return self

    @model_validator(mode="after")
    def _groups_are_apart(self) -> PoolConfig:
        homes = {name: "pool.mix" for name, share in self.mix.items() if share and name not in self.groups}
        for group, members in self.groups.items():
            if group in (SELF_PLAY, CURRENT) or _is_member(group):
                raise ValueError(f"pool.groups.{group}: the name is taken; call the group something else")
            if group not in self.mix:
                raise ValueError(
                    f"pool.groups.{group}: pool.mix gives it no share, so nobody would meet it; add pool.mix.{group}"
                )
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
    """Whether a sample of steps checks masks, observations and actions against the game's state."""
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
    evaluate_games: SomeGames
    """Games of each pair in an evaluation, seats swapped, so an even number."""
    anchor_games: Games
    """Games against the game's anchor in the stage's last evaluation, if more than evaluate_games."""
    evaluate_share: NotNegative
    """Steps that evaluations may take in all, as a share of those trained on by then; ALLOWANCE of
    league/training/evaluating.py comes on top. Where it pays for fewer games than the two above, fewer are played."""
    ladder_share: Share
    """Steps that games of new snapshots may take, as a share of those trained on: they meet the bots and older
    snapshots, so that rating over steps is a curve (`league/training/ladder.py`)."""
    ladder_older: Annotated[int, Field(ge=0, le=MAX_SNAPSHOTS)]
    """Older snapshots that a new one may meet on the ladder, beside the bots."""
    replays: Annotated[int, Field(ge=0, le=MAX_REPLAYS)]
    """Matches of each pair that an evaluation keeps whole, to be watched later: the first ones, a kilobyte or two
    each."""
    checkpoint_minutes: Annotated[float, Field(gt=0, le=MAX_SECONDS / 60)]
    """Minutes between checkpoints."""
    rewind_every: Natural
    """Steps between states that are kept to go back to (`league resume RUN --at STEP`); 0 keeps the last two alone."""
    rewind_states: Annotated[int, Field(ge=1, le=MAX_STATES)]
    """Most states that are kept for that; the older, the further apart."""
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
    """The custom parts that a run has, by name, and which code each is; found, never set (docs/bring.md)."""

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
            tables.setdefault("pool", {})["mix"] = mix
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
MOVING: dict[str, tuple[str, ...]] = {
    "learner": (
        *("learning_rate", "rate_share", "gamma", "gae_lambda", "clip", "value_coefficient", "entropy_coefficient"),
        *("begin_kl", "max_gradient_norm", "adaptive_kl", "segments", "minibatch_size", "epochs"),
    ),
    "pool": ("recent_window",),
}
"""What of a section may move with the steps, beside every weight of [rewards] and share of `pool.mix`."""


def mix_members(config: PoolConfig) -> tuple[str, ...]:
    """Who is named in the mix and its groups: bots and agents, each once, in alphabetical order."""
    named = {*config.mix, *(member for group in config.groups.values() for member in group)}
    return tuple(sorted(name for name in named if _is_member(name)))


def _get(config: Config, path: SettingPath) -> float:
    """The number at a path."""
    value: Any = config
    for name in path:
        value = value[name] if isinstance(value, dict) else getattr(value, name)
    return float(value)
