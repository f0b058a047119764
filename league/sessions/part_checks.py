"""Custom parts, tried on what they will be given, before a run begins; nothing is played for the store."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import nn

from league.arena.bouts import BotPlayer
from league.arena.networks import make_policy
from league.arena.parts import thing_of
from league.config.models import OURS, Config
from league.envs import registry
from league.envs.matches.mixtures import choices_of
from league.envs.user_code import failing
from league.errors import ConfigError, ContractError
from league.play.programs import GUIDE, make_bot
from league.play.seats import FORFEIT
from league.policies.policy_checks import check_policy
from league.pool.samplers import Beginning, probabilities
from league.runtime.process import settings_kept
from league.training.action_prediction import encoding
from league.types import GameSpec, Policy

TRIED_MEMBERS = (1, 3)
"""Of groups that samplers are tried on."""
TRIED_ROWS, TRIED_STEPS = 2, 5
"""What a policy is tried on: the least that `check_policy` takes."""


@settings_kept()
def try_parts(
    config: Config, spec: GameSpec, *, rows: int = TRIED_ROWS, steps: int = TRIED_STEPS, seed: int = 0
) -> None:
    """Tries the custom samplers, bots and policy that a run's settings name.

    rows, steps, seed: of what the policy is tried on.

    Raises:
        ContractError: one breaks a rule.
        CodeError: one raises something.
        ConfigError: what makes the policy gives no network.
    """
    for name in sorted({config.pool.sampler, config.pool.group_sampler} - set(OURS)):
        for num_members in TRIED_MEMBERS:
            probabilities(name, Beginning(config.pool, num_members))
    if config.parts.bots:
        _try_bots(config, spec)
    if config.agent.policy:
        _try_policy(config, spec, rows, steps, seed)


def _try_bots(config: Config, spec: GameSpec) -> None:
    """Each bot decides once for each seat that is to act when two matches begin."""
    env = config.env
    batch = registry.make(env.name, rows=2, threads=1, options=registry.check_options(env.name, env.options))
    batch.reset(0)
    acting = getattr(batch, "to_act", np.ones((2, 2), np.bool_))
    for name, source in config.parts.bots.items():
        bot = make_bot(name, thing_of("bot", name, source), spec, choices_of(spec.action), torch.device("cpu"))
        for row, seat in np.argwhere(acting).tolist():
            mask = None if batch.mask is None else batch.mask[row, seat]
            BotPlayer(bot, row).act(batch.obs[row, seat], mask)
        for kind, line in bot.take_notes():
            if kind == FORFEIT:
                raise ConfigError(f"bot={name}: before anything was played, {line}; mend it ({GUIDE})")


def _try_policy(config: Config, spec: GameSpec, rows: int, steps: int, seed: int) -> None:
    """`check_policy`; and a copy with its weights plays as it does, as snapshots must."""
    name = config.agent.policy
    where = config.parts.policies[name].address or name
    with torch.random.fork_rng(devices=[]), failing(where, "policy", may_draw=True):
        torch.manual_seed(seed)
        policy, copy = make_policy(config, spec), make_policy(config, spec)
        if config.learner.opponent_prediction:
            encoding(policy)
        check_policy(policy, spec, rows=rows, steps=steps, seed=seed)
        try:
            cast(nn.Module, copy).load_state_dict(policy.state_dict())
        except RuntimeError as error:
            raise ContractError(
                f"policy {type(policy).__name__} is of other sizes each time it is made"
                f" ({' '.join(str(error).split())[:200]})"
            ) from None
        if not torch.equal(_value(policy, spec), _value(copy, spec)):
            raise ContractError(
                f"policy {type(policy).__name__} plays otherwise once its state_dict() is loaded into another one; make"
                f" all that it plays by a parameter or a buffer"
            )


def _value(policy: Policy, spec: GameSpec) -> torch.Tensor:
    obs = torch.full((1, spec.obs_size), sum(spec.obs_range) / 2)
    if spec.observation:
        obs = obs.floor()
    with torch.no_grad():
        return policy.value(obs, policy.initial_state(1))
