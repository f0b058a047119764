"""Networks of a run and of a manifest: the library's, or a custom policy, which is found by its name and code."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from league.arena.loading import KINDS
from league.arena.parts import Given, Say, difference, find_part, thing_of
from league.config.models import AgentConfig, Config
from league.envs.user_code import failing
from league.errors import ConfigError, UsageError, note_user_code
from league.policies.actor_critic import ActorCritic, Architecture
from league.policies.policy_checks import METHODS
from league.policies.stacked import StackedPolicy
from league.snapshots.agent import load_policy
from league.snapshots.io import Frozen
from league.snapshots.manifest import Manifest, OwnPolicy, spec_from_json
from league.types import GameSpec, Policy, PolicyStack, Stackable
from league.types.schema import PartSource

FILE_MODULE = re.compile(r"^league_game_(.+)_[0-9a-f]{12}_[0-9a-f]{8}$")
"""What `league.envs.sources.load` calls the module of a file."""


def architecture_of(config: Config, spec: GameSpec) -> Architecture:
    """The sizes of the library's network for a game: history is given in ticks and kept in decisions."""
    sizes = config.agent.model_dump(exclude={"policy"})
    history = -(-sizes.pop("history_frames") // spec.ticks_per_step)
    return Architecture.of(spec, history_tokens=history, **sizes)


def make_policy(config: Config, spec: GameSpec) -> Policy:
    """The network of a run's settings, with first weights that torch's global generator draws.

    Raises:
        ConfigError: a custom policy cannot be made, or is no `league.types.Policy`.
    """
    name = config.agent.policy
    if not name:
        return ActorCritic(architecture_of(config, spec))
    return _build(name, config.parts.policies[name], spec, config.agent)


def described(config: Config, spec: GameSpec, policy: Policy) -> tuple[dict[str, Any], int]:
    """What a manifest says of the network: its architecture and its history tokens, 0 of a custom policy."""
    name = config.agent.policy
    if not name:
        architecture = architecture_of(config, spec)
        return architecture.to_json(), architecture.history_tokens
    module = FILE_MODULE.sub(r"\1", type(policy).__module__)
    kind = f"{module}.{type(policy).__qualname__}"
    own = OwnPolicy(
        policy=name,
        source=config.parts.policies[name],
        type=kind,
        agent=config.agent.model_dump(mode="json", exclude={"policy"}),
    )
    return own.model_dump(mode="json"), 0


def load_net(
    folder: Path | Frozen,
    device: torch.device | str = "cpu",
    agent_id: str | None = None,
    *,
    given: Given = Given(),
    say: Say | None = None,
) -> tuple[Manifest, Policy]:
    """The frozen network in a folder, or in memory, as `league.snapshots.agent.load_policy` gives it; a policy of one's
    own is found again.

    given: what the user names now. say: hears where its code is not what it was.

    Raises:
        SnapshotError: the folder is missing or damaged, or its weights do not fit.
        UsageError: its code is gone, has changed since this user named it, or was never named here.
    """
    return load_policy(folder, device, agent_id, make=partial(_from_manifest, given=given, say=say))


def make_stack(policy: Policy, num_slots: int, precision: str) -> PolicyStack | None:
    """Room for frozen nets like `policy`; None where it cannot be stacked, so that each plays by itself."""
    if type(policy) is ActorCritic:
        return StackedPolicy(policy, num_slots, precision)
    return policy.make_stack(num_slots, precision) if isinstance(policy, Stackable) else None


def family_of(manifest: Manifest, policy: Policy) -> Any:
    """Equal for nets that may be stacked together; None: with no other."""
    if type(policy) is ActorCritic:
        return policy.architecture
    own = manifest.own_policy
    return own.model_dump_json() if own is not None and isinstance(policy, Stackable) else None


def _from_manifest(manifest: Manifest, own: OwnPolicy, *, given: Given, say: Say | None) -> Callable[[], Policy]:
    """What makes the network that a manifest tells of, with weights of no meaning; torch's generators are as before."""
    whose = f"{manifest.run}@{manifest.step}"
    part = find_part("policy", own.policy, own.source, whose, given)
    told = difference(part, own.source, f"{whose} was trained with")
    if told and say is not None:
        say(told)
    try:
        agent = AgentConfig.model_validate({"policy": own.policy, **own.agent})
    except ValueError as error:
        raise UsageError(f"{whose}: its manifest has no settings of [agent] ({' '.join(str(error).split())})") from None
    spec = spec_from_json(manifest.spec)

    def make() -> Policy:
        with torch.random.fork_rng(devices=[]):
            return _build(part.name, part.source, spec, agent)

    return make


def _build(name: str, source: PartSource, spec: GameSpec, agent: AgentConfig) -> Policy:
    what, where = KINDS["policy"], source.address or name
    with failing(where, what.setting, may_draw=True):
        policy = thing_of("policy", name, source)(spec, agent)
    note_user_code(type(policy).__module__)
    if not isinstance(policy, nn.Module):
        raise ConfigError(f"policy={where}: gives {type(policy).__name__}, no torch.nn.Module; {what.how}")
    missing = [method for method in METHODS if not callable(getattr(policy, method, None))]
    if missing:
        raise ConfigError(
            f"policy={where}: {type(policy).__name__} has no method {missing[0]}() (league.types.Policy); {what.how}"
        )
    return policy  # type: ignore[return-value]  # it has the methods
