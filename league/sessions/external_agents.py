"""Agents from elsewhere in a run's mix: found by name, told by their hash from then on, and kept with the run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from league.arena.agents import find_agent, store_for
from league.arena.agreement import difference_of_games, difference_of_views
from league.arena.networks import architecture_of
from league.config.models import AGENT_PREFIX, Config, PoolConfig
from league.envs import registry
from league.errors import ConfigError, SnapshotError, StoreError, UsageError
from league.policies.actor_critic import Architecture
from league.sessions.folders import GUESTS
from league.snapshots import io as snapshot_files
from league.snapshots.export import export
from league.snapshots.manifest import Manifest, spec_from_json
from league.types import GameSpec

HASH = re.compile(r"[0-9a-f]{64}")


def names(config: PoolConfig) -> list[str]:
    """The agents from elsewhere in a mix and its groups, each once, as they are named there."""
    members = [*config.mix, *(member for group in config.groups.values() for member in group)]
    return sorted({member.removeprefix(AGENT_PREFIX) for member in members if member.startswith(AGENT_PREFIX)})


def kept_ids(config: Config) -> list[str]:
    """The agents from elsewhere that a run needs: of its mix, and the one that it began with."""
    return [*dict.fromkeys([*names(config.pool), *filter(None, [config.learner.begin_with])])]


def resolved(config: Config, store: Path) -> Config:
    """The settings with each agent from elsewhere named by its hash, and `pool.agents` telling where it lies.

    Args:
        config: of the run, whose game the agents must play.
        store: the run's; names of runs are looked up in it.

    Raises:
        ConfigError: there is no such agent, one of the mix plays another game, or the run cannot begin with its own.
        SnapshotError: its files are missing or damaged.
    """
    return _with_mix(_with_begin(config, store), store)


def _with_begin(config: Config, store: Path) -> Config:
    """The same of the agent that the learner begins with, which may be of any game that shows and takes the same."""
    name = config.learner.begin_with
    if not name:
        return config
    folder, manifest = _find(name, config.pool, store, f"learner.begin_with={name}")
    spec = registry.spec(config.env.name, config.env.options)
    differs = difference_of_views(spec_from_json(manifest.spec), spec)
    if differs := differs or _difference_of_nets(config, spec, manifest):
        raise ConfigError(
            f"learner.begin_with={name}: a run cannot begin with it: {differs}; give the run its settings, or imitate"
            f" once more with those of the run"
        )
    learner = config.learner.model_copy(update={"begin_with": manifest.agent_id})
    agents = config.pool.agents | {manifest.agent_id: str(folder)}
    pool = config.pool.model_copy(update={"agents": agents})
    return config.model_copy(update={"learner": learner, "pool": pool})


def _difference_of_nets(config: Config, spec: GameSpec, manifest: Manifest) -> str:
    """The first size in which a run's network differs from an agent's, with both values; empty where none does."""
    if (own := manifest.own_policy) is not None or config.agent.policy:
        theirs = {} if own is None else {"policy": own.policy, **own.agent}
        ours = config.agent.model_dump(mode="json")
    else:
        theirs, ours = Architecture.from_json(manifest.architecture).to_json(), architecture_of(config, spec).to_json()
    differs = [name for name in ours if theirs.get(name) != ours[name]]
    return f"agent.{differs[0]} was {theirs.get(differs[0])!r} and is {ours[differs[0]]!r}" if differs else ""


def _with_mix(config: Config, store: Path) -> Config:
    """The same of the agents of the mix."""
    wanted = names(config.pool)
    if not wanted:
        return config
    known = {name: _find(name, config.pool, store, f"pool.mix names agent:{name}") for name in wanted}
    spec = registry.spec(config.env.name, config.env.options)
    for name, (folder, manifest) in known.items():
        differs = difference_of_games(manifest.game, spec, config.env.options)
        if differs := differs or difference_of_views(spec_from_json(manifest.spec), spec):
            raise ConfigError(
                f"pool.mix names agent:{name} ({folder}), which was trained in another {config.env.name}: {differs};"
                f" name an agent of this game"
            )
    ids = {AGENT_PREFIX + name: AGENT_PREFIX + manifest.agent_id for name, (_, manifest) in known.items()}
    shares = [(ids.get(name, name), share) for name, share in config.pool.mix.items()]
    mix = {name: sum(share for other, share in shares if other == name) for name, _ in shares}
    groups = {group: [ids.get(name, name) for name in members] for group, members in config.pool.groups.items()}
    begun = {key: path for key, path in config.pool.agents.items() if key == config.learner.begin_with}
    agents = begun | {manifest.agent_id: str(folder) for folder, manifest in known.values()}
    pool = config.pool.model_copy(update={"mix": mix, "groups": groups, "agents": agents})
    schedules = {}
    for path, schedule in config.schedules.items():
        name = ids.get(path[-1], path[-1])
        if path[:2] == ("pool", "mix") and [other for other, _ in shares].count(name) > 1:
            raise ConfigError(f"pool.mix names {name[:24]} twice, and lets a share move with the steps; name it once")
        schedules[*path[:-1], name] = schedule
    return config.model_copy(update={"pool": PoolConfig.model_validate(pool.model_dump()), "schedules": schedules})


def _find(name: str, config: PoolConfig, store: Path, told: str) -> tuple[Path, Manifest]:
    """The folder of an agent, with a whole path, and its manifest; told: the setting, for errors."""
    try:
        if HASH.fullmatch(name) and name in config.agents:
            folder = Path(config.agents[name])
        else:
            found = find_agent(store_for(store, name), name).folder
            if found is None:
                raise UsageError(f"a bot has no weights; name a folder or RUN@STEP, in a mix {name} alone")
            folder = found.absolute()
        manifest, _ = snapshot_files.load(folder)
    except (UsageError, SnapshotError, StoreError) as error:
        raise ConfigError(f"{told}: {error}") from None
    if HASH.fullmatch(name) and manifest.agent_id != name:
        raise ConfigError(f"{told}: {folder} holds another agent; put that one back, or name another")
    return folder, manifest


def folder_of(run: Path, agent_id: str) -> Path:
    """Where a run keeps its copy of an agent from elsewhere; `run` is the run's folder."""
    return run / GUESTS / agent_id


def keep(run: Path, config: Config) -> Sequence[Manifest]:
    """Copies the agents that the run does not have yet into its folder; the manifests of all.

    Raises:
        SnapshotError: one is missing or damaged, or the disk refuses.
    """
    kept = []
    for agent_id in kept_ids(config):
        folder = folder_of(run, agent_id)
        if not folder.is_dir():
            export(Path(config.pool.agents[agent_id]), folder)
        kept.append(snapshot_files.load(folder)[0])
    return kept
