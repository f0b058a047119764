"""The settings of a call: put together, sized to the device, and checked against the game, the memory and the disk."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch

from league import config as settings
from league.arena import curriculum, parts
from league.arena.fitting import check_mix
from league.arena.games import load_settings
from league.arena.networks import architecture_of, make_policy
from league.arena.parts import Given
from league.config import AUTO, Layer, updates
from league.config.models import Config, PartsConfig
from league.config.written import as_words, toml
from league.envs import registry
from league.envs.contract.games import check_quickly
from league.errors import DEFAULT_STORE, ConfigError, UsageError
from league.policies.actor_critic import ActorCritic
from league.runtime.device import check_precision, choose_device, read_memory
from league.sessions import sizing
from league.sessions.disk import check_disk, disk_needs
from league.sessions.external_agents import resolved
from league.sessions.part_checks import try_parts
from league.snapshots.state import STATES_AT_ONCE, STATES_KEPT, states_bytes
from league.store.files import store_folder
from league.store.rows import RunRow
from league.types import RUN_NAME, GameSpec

ROOM = 0.75
"""Share of a device's whole memory that `learner.accumulate=auto` fits a run into; the rest is for others."""


def settle(
    stage: str,
    preset: str,
    env: str | None,
    config_file: str | Path | None,
    overrides: Sequence[str],
    layer: Layer | None = None,
    store: str | Path = DEFAULT_STORE,
) -> tuple[Config, GameSpec, torch.device, str]:
    """The settings of a call: the game's options completed, the device chosen, the preset `auto` sized to it.

    env: a registered game's name (`league.arena.games.enter` gives it).
    layer: laid over the stage, as `league.config.load` has it.
    store: where runs are looked up whose agents `pool.mix` names.

    The last of the four explains the sizes of `auto`, and what follows from the game's spec; else it is empty.
    """

    def load(sizes: Layer) -> tuple[Config, str]:
        found, told = load_settings(stage, preset, env, config_file, overrides, sizes, layer)
        found = resolved(found, Path(store))
        return parts.resolved(found), told

    config, told = load({})
    spec = registry.spec(config.env.name, config.env.options)
    device = choose_device(config.learner.device)
    if preset != AUTO and config.learner.accumulate is not None:
        return config, spec, device, told
    check_precision(device, config.learner.precision)
    needs, memory = footprint(config, spec, device), read_memory(device)
    lines = []
    if preset == AUTO:
        cores = registry.num_cores()
        sizes, explanation = sizing.auto(lambda sizes: load(sizes)[0], spec, needs, device, memory, cores)
        config = load(sizes)[0]
        lines.append(explanation)
    if config.learner.accumulate is None:
        updates.check_rows(config)
        room = ROOM * memory.total or math.inf
        config = sizing.in_parts(config, spec, needs, room, device)
        count = config.learner.accumulate
        lines.append(f"learner.accumulate=auto: a minibatch is computed in {count} part{'s' * (count != 1)}")
    return config, spec, device, "; ".join(filter(None, (*lines, told)))


def with_changes(
    row: RunRow, overrides: Sequence[str], given: Given, say: Callable[[str], None]
) -> tuple[Config, RunRow, str]:
    """The settings of a run that is in the store with these changes, its row with them, and what its parts are not.

    Its game must be registered; its parts are found again (`league.arena.parts.find_again`).

    overrides: of `league.config.CHANGEABLE`.
    given: parts of its own that are named again.
    say: hears what of its parts is not as it was.

    Raises:
        ConfigError: a setting cannot be changed, or they cannot be run.
        UsageError: a part is gone, has changed, or was never named here.
    """
    before = settings.of_run(row.run, row.config)
    config, told = parts.find_again(before, f"run {row.run}", given, say)
    if overrides:
        config = settings.changed(config, overrides)
        updates.check(config)
    if config.parts != PartsConfig():
        try_parts(config, registry.spec(config.env.name, config.env.options))
    if config == before:
        return config, row, told
    is_same = settings.fingerprint(config) == settings.fingerprint(before)
    mark = row.fingerprint if is_same else settings.mixed_fingerprint(row.fingerprint, config)
    stage = settings.stage_called(row.stage, config)
    return config, replace(row, stage=stage, config=json.dumps(settings.to_json(config)), fingerprint=mark), told


def words_for(config: Config, stage: str, preset: str) -> list[str]:
    """The `--agent` and `--set` that give a run of a stage and a preset what of `config` counts for its fingerprint."""
    wanted, found = _flat(config), []
    for agent in (None, *settings.agents()):
        base = _flat(load_settings(stage, preset, config.env.name, overrides=as_words((), agent))[0])
        sets = [f"{name}={toml(value)}" for name, value in wanted.items() if base.get(name) != value]
        words = [word for given in sets for word in ("--set", given)]
        found.append(words if agent is None else ["--agent", agent, *words])
    return min(found, key=len)


def _flat(config: Config) -> dict[str, Any]:
    data = settings.to_json(config)
    data.pop("parts", None)
    data["env"] |= data["env"].pop("options")
    del data["run"], data["env"]["threads"], data["env"]["workers"], data["env"]["strict_masks"]
    del data["learner"]["device"], data["learner"]["accumulate"]
    return {f"{section}.{key}": value for section, table in data.items() for key, value in table.items()}


def check_settings(config: Config, spec: GameSpec) -> None:
    """Refuses settings that cannot be run, or do not fit the game, and a game that breaks the contract of games.

    Raises:
        ConfigError: with what would do.
        ContractError: with the row, seat, step and column.
    """
    updates.check(config)
    updates.check_rewards(config, spec)
    check_mix(config, spec)
    check_encoder(config, spec)
    check_begin(config)
    check_quickly(config.env.name, config.env.options)
    curriculum.check(config, spec)
    try_parts(config, spec)


def check_encoder(config: Config, spec: GameSpec) -> None:
    """Refuses an encoder of the opponent in a game that shows nothing of it, and what only an encoder can learn by.

    Raises:
        ConfigError: with what would do.
    """
    start, stop = spec.opponent_slice
    if config.agent.opponent_encoder and start == stop and not config.agent.policy:
        raise ConfigError(
            f"agent.opponent_encoder=true: {spec.name} shows nothing of the opponent (opponent_slice {start} to"
            f" {stop}); use --set agent.opponent_encoder=false, or set opponent_slice or public_actions in the game"
        )
    if config.learner.opponent_prediction and not (config.agent.opponent_encoder or config.agent.policy):
        raise ConfigError(
            f"learner.opponent_prediction={config.learner.opponent_prediction:g}: agent.opponent_encoder=false leaves"
            " no encoder that could learn by it; set one of them otherwise"
        )


def check_begin(config: Config) -> None:
    """Refuses a divergence to an agent where the learner begins with none.

    Raises:
        ConfigError: with what would do.
    """
    is_moving = ("learner", "begin_kl") in config.schedules
    if (config.learner.begin_kl or is_moving) and not config.learner.begin_with:
        raise ConfigError(
            f"learner.begin_kl={config.learner.begin_kl:g}: the learner begins with no other agent; name one with"
            f" --begin-with AGENT, or leave it out"
        )


def check_name(run: str | None) -> None:
    """Refuses a name that a run cannot have.

    Raises:
        UsageError: it is another than what `RUN_NAME` describes.
    """
    if run is not None and not RUN_NAME.fullmatch(run):
        raise UsageError(
            f"run={run!r}: letters, digits, '.', '_' and '-' only, at most 64, a letter or digit first;"
            f" pass another --run"
        )


def check_room(
    config: Config,
    spec: GameSpec,
    device: torch.device,
    store: Path | None = None,
    earlier: RunRow | None = None,
    rivals: int = 0,
) -> list[str]:
    """A line of what a run takes of the device's memory, and one of what it takes of the disk.

    Args:
        config, spec, device: the run's.
        store: the folder it is saved in; None: the disk is not looked at.
        earlier: the run that goes on there.
        rivals: other learners of its league.

    Raises:
        ConfigError: it takes more memory than is free, the device does not compute in its precision, or nothing could
            be saved in the store.
    """
    check_precision(device, config.learner.precision)
    needs, memory = footprint(config, spec, device), read_memory(device)
    needed = sizing.check_memory(config, spec, needs, memory, device, rivals)
    lines = [f"memory: {needed.describe()}{f', {sizing.show(memory.free)} free' if memory.total else ''}"]
    if store is None:
        return lines
    store = store_folder(store).absolute()
    folder = next(path for path in (store, *store.parents) if path.is_dir())
    disk = disk_needs(config, needs, earlier.steps if earlier else 0, STATES_KEPT, STATES_AT_ONCE)
    used = states_bytes(store / earlier.run / "state") if earlier else 0
    return [*lines, check_disk(disk, shutil.disk_usage(folder).free, used, str(folder))]


def footprint(config: Config, spec: GameSpec, device: torch.device) -> sizing.Footprint:
    """What the network of these settings takes of the device's memory."""
    if config.agent.policy:
        with torch.random.fork_rng(devices=[]):
            own = make_policy(config, spec)
        cast(torch.nn.Module, own).to(device)
        return sizing.measure(own, spec, config.learner.rollout_steps, config.learner.precision, device)
    sizing.check_agent(config, spec, read_memory(device))
    with torch.device("meta"):  # what is in its weights does not matter here, and takes minutes to draw for wide layers
        policy = ActorCritic(architecture_of(config, spec))
    policy.to_empty(device=device).load_state_dict(
        {name: torch.zeros_like(x) for name, x in policy.state_dict().items()}
    )
    return sizing.measure(policy, spec, config.learner.rollout_steps, config.learner.precision, device)
