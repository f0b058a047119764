"""The agent that an exploiter is to beat: where it is, its game, and the settings that its net was trained with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from league import config as settings
from league.arena.agents import Named, store_for
from league.arena.agreement import need_agreement
from league.arena.games import enter, find_again, load_settings
from league.arena.networks import architecture_of
from league.arena.own_bots import find_bots
from league.arena.parts import Given, find_part
from league.config import Layer
from league.config.models import OURS, Config
from league.envs import registry
from league.errors import ConfigError, SnapshotError, UsageError, command, rule_of
from league.policies.actor_critic import Architecture
from league.snapshots.agent import load_fit
from league.snapshots.manifest import Manifest
from league.store.rows import RunRow
from league.store.store import Store
from league.types import BOT_PREFIX, GameSpec


def find_target(store: Store, row: RunRow, told: Mapping[str, Any]) -> Named:
    """The agent that an exploiter is to beat, of which its row tells."""
    agent_id = told["against"]
    if agent_id.startswith(BOT_PREFIX):
        return Named(agent_id, agent_id, None)
    for snapshot in (snapshot for run in store.runs() for snapshot in store.snapshots(run.run)):
        if snapshot.agent_id == agent_id and snapshot.pruned_at is None:
            return Named(agent_id, f"{snapshot.run}@{snapshot.step}", store.brought(snapshot.path), True)
    if folder := told.get("folder"):
        with suppress(SnapshotError):
            manifest, _ = load_fit(folder)
            if manifest.agent_id == agent_id:
                return Named(agent_id, f"{manifest.run}@{manifest.step}", Path(folder))
    steps = settings.of_run(row.run, row.config).run.total_steps
    words = ["exploit", folder or "FOLDER", "--run", row.run, "--steps", steps, "--seed", row.seed]
    raise UsageError(
        f"run={row.run}: the agent {agent_id[:16]}... that it exploits is not in {store.path}; restore its folder, or"
        f" name another copy of it, with what was --set: {command(*words, store=store.path)}"
    )


def game_of(named: Named, env: object, given: Given, store: Path, say: Callable[[str], None]) -> str | None:
    """The name of the game of the agent to beat, which is registered then, as its own code is found; None: the usual.

    Raises:
        UsageError: one of these is gone, has changed since this user named it, or was never named here.
    """
    if named.folder is not None:
        manifest = load_fit(named.folder)[0]
        find_again(manifest.game.name, manifest.game.came_from, named.label, env, say)
        if (own := manifest.own_policy) is not None:
            find_part("policy", own.policy, own.source, named.label, given)
        return manifest.game.name
    game = enter(env, say)
    config, _ = load_settings(env=game)
    name, options = config.env.name, config.env.options
    spec, opened = registry.spec(name, options), store_for(store, named.agent_id, say=say)
    rows = [] if opened is None else opened.agents(registry.game_id(name, options))
    find_bots([named.agent_id], spec, rows, (), given, say)
    return game


def layer_of(named: Named, manifest: Manifest) -> Layer:
    """What the exploiter of a net has of the net's settings, as the agent's folder tells them.

    Of an own run these are all but threads, curriculum, sampler, bots, and reward terms that the game has no more: the
    exploiter is judged in the game that the net is evaluated in, and learns in it. Of any other folder they are the
    game and the network alone.
    """
    terms = need_agreement(manifest).reward_terms
    try:
        layer: Layer = settings.to_json(settings.from_json(manifest.config))
    except ConfigError as error:
        raise SnapshotError(
            f"agent {named.label}: its manifest has no settings to learn with ({rule_of(error)}); take the agent from"
            f" its source again"
        ) from None
    if not named.is_own:
        return {"agent": layer["agent"], "env": {"name": manifest.game.name, **manifest.game.options}}
    env = layer["env"]
    kept = {key: value for key, value in env.items() if key not in ("options", "threads", "curriculum")}
    layer["env"] = kept | env["options"]
    layer.pop("parts", None)
    layer["rewards"] = {term: weight for term, weight in layer["rewards"].items() if term in terms}
    own = [key for key in ("sampler", "group_sampler") if layer["pool"][key] not in OURS]
    layer["pool"] |= {"bots": [], **dict.fromkeys(own, "uniform")}
    return layer


def need_same_net(config: Config, spec: GameSpec, named: Named, manifest: Manifest) -> None:
    """Refuses an exploiter of another game or size than the net: they play side by side."""
    if registry.game_id(config.env.name, config.env.options) != manifest.game.game_id:
        raise UsageError(
            f"agent {named.label}: it plays {manifest.game.name} {manifest.game.game_id[:8]}, and these settings make"
            f" another game of it; leave --set env... out"
        )
    if (own := manifest.own_policy) is not None:
        is_same = {"policy": own.policy, **own.agent} == config.agent.model_dump(mode="json")
    else:
        is_same = not config.agent.policy
        is_same = is_same and architecture_of(config, spec) == Architecture.from_json(manifest.architecture)
    if not is_same:
        raise UsageError(f"agent {named.label}: its exploiter is of its own sizes; leave --set agent... out")
