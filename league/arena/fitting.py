"""Settings and games: those of a game that brings none (an agent sized to it, what wins, all that can be met), checks.

The rule is plain on purpose. The width is the power of two at or above what is observed and chosen among, from 32 to
256. The whole agent then has 10,000 to two million parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from league.config import Layer
from league.config.models import AGENT_PREFIX, CURRENT, SELF_PLAY, Config
from league.envs import registry
from league.errors import ConfigError, nearest
from league.types import BOT_PREFIX, GameSpec

LEAST_WIDTH, MOST_WIDTH = 32, 256
DEEP_FROM = 128
"""The width from which the encoder has a second layer."""
HISTORY_DECISIONS = 16
"""How far the encoder looks back: no spec tells how long a match is."""
BOTS_SHARE = 0.2
MOST_BOTS = 5
"""Up to so many bots each have a share of their own; more share one as a group."""
SNAPSHOTS_SHARE, MAGNET, ENTROPY = 0.2, 0.2, 0.05
"""Of self-play with imperfect information (lab/experiments.md)."""
RANDOM = "random"
WIN = "win"
"""The reward term that alone counts where a game has it."""


def agent_for(spec: GameSpec) -> dict[str, Any]:
    """[agent] for a game: a width for observation, LSTM and heads, and half of it for the opponent encoder.

    Without anything that shows the opponent there is no encoder.
    """
    needed = max(spec.obs_size + spec.action.num_logits, 1)
    width = min(max(1 << (needed - 1).bit_length(), LEAST_WIDTH), MOST_WIDTH)
    start, stop = spec.opponent_slice
    half = width // 2
    return {
        "opponent_encoder": stop > start,
        "encoder_layers": 2 if width >= DEEP_FROM else 1,
        "encoder_heads": 4 if width >= DEEP_FROM else 2,
        "encoder_width": half,
        "encoder_feedforward": width,
        "history_frames": HISTORY_DECISIONS * spec.ticks_per_step,
        "latents": 4,
        "observation_width": width,
        "lstm_size": width,
        "head_sizes": [width],
    }


def mix_for(spec: GameSpec, carried: Iterable[str] = ()) -> dict[str, Any]:
    """[pool]'s `mix` and `groups` for a game: self-play, and its bots, those in Python too, in equal shares.

    With imperfect information most of self-play is against the learner itself as it is now.

    A bot called `random` has one only where there is no other, and with imperfect information none: a policy
    that beats it leaves the equilibrium.
    """
    names, own = [*spec.bots, *carried], {SELF_PLAY: 1.0}
    bots = [BOT_PREFIX + bot for bot in names if bot != RANDOM]
    if spec.imperfect_information:
        own = {CURRENT: 1 - SNAPSHOTS_SHARE, SELF_PLAY: SNAPSHOTS_SHARE}
    else:
        bots = bots or [BOT_PREFIX + bot for bot in names]
    if not bots:
        return {"mix": own}
    own = {group: (1 - BOTS_SHARE) * share for group, share in own.items()}
    if len(bots) > MOST_BOTS:
        return {"mix": {**own, "bots": BOTS_SHARE}, "groups": {"bots": bots}}
    return {"mix": {**own, **dict.fromkeys(bots, BOTS_SHARE / len(bots))}}


def rewards_for(spec: GameSpec) -> dict[str, float]:
    """[rewards] for a game: `win` alone where there is such a term, else all."""
    return {WIN: 1.0} if WIN in spec.reward_terms else dict.fromkeys(spec.reward_terms, 1.0)


def default_layer(spec: GameSpec, brought: Mapping[str, Any], carried: Iterable[str] = ()) -> Layer:
    """What a game's `DEFAULTS` leave out, to be laid below them.

    Args:
        spec: the game's.
        brought: its `DEFAULTS`.
        carried: its bots in Python.
    """
    layer: Layer = {"agent": agent_for(spec)}
    if not brought.get("rewards"):
        layer["rewards"] = rewards_for(spec)
    if "mix" not in brought.get("pool", {}):
        layer["pool"] = mix_for(spec, carried)
        if spec.imperfect_information:
            layer["learner"] = {"magnet": MAGNET, "entropy_coefficient": ENTROPY}
    return layer


def describe(spec: GameSpec, brought: Mapping[str, Any], config: Config) -> str:
    """What the settings have of `default_layer`, in a sentence with the sizes that the agent has; empty where nothing.

    Args:
        spec, brought: as for `default_layer`.
        config: the settings, with all that lies over it.
    """
    told, sizes = [], config.agent
    if not brought.get("agent") and not sizes.policy:
        is_so = sizes.lstm_size == agent_for(spec)["lstm_size"]
        fitted = f" sized to {spec.obs_size} observed numbers" if is_so else ""
        encoder = f"opponent encoder {sizes.encoder_width}" if sizes.opponent_encoder else "no opponent encoder"
        told.append(f"an agent{fitted} (LSTM {sizes.lstm_size}, {encoder})")
    if not brought.get("rewards") and WIN not in spec.reward_terms and config.rewards == rewards_for(spec):
        told.append(f"every reward term weighs 1 ({', '.join(spec.reward_terms)}), since none is called {WIN}")
    if spec.imperfect_information and "mix" not in brought.get("pool", {}) and config.learner.magnet:
        told.append(f"by a magnet of {config.learner.magnet:g}, since a seat does not know all")
    return f"game {spec.name} brings no settings for these: {'; '.join(told)}" if told else ""


def check_mix(config: Config, spec: GameSpec) -> None:
    """Refuses a `pool.mix` or `pool.groups` that names a bot which the game does not have.

    Raises:
        ConfigError: with the bots that there are.
    """
    bots = [BOT_PREFIX + bot for bot in (*spec.bots, *config.parts.bots, *registry.carried_bots(config.env.name))]
    known = [SELF_PLAY, CURRENT, *config.pool.groups, *bots]
    for name, share in config.pool.mix.items():
        if name not in known and not name.startswith(AGENT_PREFIX):
            raise ConfigError(f"pool.mix.{name}={share:g}: {spec.name} has no such opponent{nearest(name, known)}")
    for group, members in config.pool.groups.items():
        for name in members:
            if name not in bots and not name.startswith(AGENT_PREFIX):
                raise ConfigError(f"pool.groups.{group} lists {name}: {spec.name} has no such bot{nearest(name, bots)}")
