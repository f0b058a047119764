"""Collectors over small games and networks, and their comparison."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from league import config as settings
from league.config.models import PoolConfig
from league.envs import registry
from league.play.nets import NetCalls
from league.play.rollout import Collector
from league.policies.actor_critic import ActorCritic, Architecture
from league.policies.stacked import StackedPolicy
from league.pool.pool import Pool
from league.types import Origin, Rollout, Watched

WEIGHTS = {"damage_dealt": 1.0, "stock_lost": -2.0, "approach": 0.5, "payoff": 1.0, "points": 1.0}
BRAWL = {"stocks": 1, "time_limit_seconds": 4.0}


def pool_config(bot: str = "random", **changes: Any) -> PoolConfig:
    """Half self-play, half a bot, two live nets, uniform; the other settings are the source's."""
    values = {"mix": {"self_play": 0.5, f"bot:{bot}": 0.5}, "sampler": "uniform", "live_nets": 2}
    return PoolConfig(**{**settings.load().pool.model_dump(), **values, **changes})


def network(game: str, options: dict[str, Any], seed: int) -> ActorCritic:
    """A small network for a game."""
    torch.manual_seed(seed)
    sizes = {"encoder_layers": 1, "encoder_heads": 2, "encoder_width": 16, "encoder_feedforward": 16, "latents": 2}
    rest = {"observation_width": 16, "lstm_size": 16, "head_sizes": (8,), "opponent_encoder": True}
    return ActorCritic(Architecture.of(registry.spec(game, options), history_tokens=5, **sizes, **rest))


def make_collector(
    game: str = "brawl",
    rows: int = 12,
    seed: int = 0,
    lanes: int = 1,
    stack: bool = False,
    joins: bool = False,
    precision: str = "float32",
    make_net: Callable[[str, dict[str, Any], int], Any] = network,
    guests: Mapping[str, Any] | None = None,
    **options: Any,
) -> Collector:
    """A collector with a learner, three frozen nets, a bot and `guests` in its pool, started.

    joins: the learner plays in the stack, too. make_net: makes the nets. guests: by name, met in half of the matches.
    """
    guests = guests or {}
    options = {**(BRAWL if game == "brawl" else {}), **options}
    nets = {f"net-{i}": make_net(game, options, 10 + i).requires_grad_(False) for i in range(3)}
    bot = "random" if "random" in registry.spec(game, options).bots else registry.spec(game, options).bots[0]
    known = pool_config(bot)
    if guests:
        known = pool_config(mix={"self_play": 0.25, f"bot:{bot}": 0.25} | dict.fromkeys(guests, 0.5 / len(guests)))
    pool = Pool(known, {**nets, **guests}.__getitem__, np.random.default_rng(seed), tuple(guests))
    for agent_id in nets:
        pool.admit(agent_id)
    pool.refresh_targets(set())
    collector = Collector(
        [registry.make(game, rows=rows // lanes, threads=1, options=options) for _ in range(lanes)],
        make_net(game, options, seed),
        pool,
        NetCalls(
            torch.Generator().manual_seed(seed),
            precision,
            StackedPolicy(nets["net-0"], 4) if stack or joins else None,
            joins=joins,
        ),
        weights=WEIGHTS,
        origin=Origin("me", "g"),
    )
    collector.start(seed)
    return collector


def same(a: Rollout, b: Rollout) -> bool:
    """Whether two rollouts are equal bit for bit."""
    fields = ("obs", "mask", "action", "log_prob", "value", "reward", "next_value", "ends", "is_first")
    states = [rollout.state.tensors() for rollout in (a, b)]
    return (
        all(x is y or torch.equal(x, y) for x, y in ((getattr(a, name), getattr(b, name)) for name in fields))
        and all(torch.equal(tensor, states[1][name]) for name, tensor in states[0].items())
        and _same_views(a.watched, b.watched)
        and a.finished == b.finished
    )


def _same_views(a: Watched | None, b: Watched | None) -> bool:
    if a is None or b is None:
        return a is b
    return torch.equal(a.obs, b.obs) and torch.equal(a.before, b.before)
