"""How fast the network of a game plays and learns, beside one that takes images and entities for numbers."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch

from league.arena import curriculum
from league.arena.games import enter, load_settings
from league.arena.networks import architecture_of
from league.bench import MOST_REPEATS, machine
from league.envs import registry
from league.errors import UsageError
from league.policies.actor_critic import ActorCritic
from league.policies.torso import in_words
from league.runtime.phases import advance
from league.types import GameSpec
from league.types.schema import MAX_ROWS, MAX_THREADS, check_number

STEPS = 32
"""Of the sequences that are learned from."""


def bench_torso(
    env: object, *, rows: int = 64, threads: int = 1, repeats: int = 5, overrides: Iterable[str] = ()
) -> dict[str, Any]:
    """Microseconds of processor time of a decision, and of a sample learned from, by `agent.torso` and by `mlp`.

    The networks are untrained and see zeros; nothing of a game is played. Both are measured in turns, `repeats` times,
    of which the medians are given.

    Raises:
        UsageError: a number that cannot be measured with, or a custom policy.
        ConfigError: the settings fit no network of the library's.
    """
    check_number("rows", rows, 2, MAX_ROWS, "rows of a step")
    check_number("threads", threads, 1, MAX_THREADS, "threads of torch")
    check_number("repeats", repeats, 1, MOST_REPEATS, "times to measure")
    config = curriculum.at_start(load_settings(env=enter(env), overrides=overrides)[0])
    if config.agent.policy:
        raise UsageError(f"agent.policy={config.agent.policy}: a custom network has no torso; leave agent.policy out")
    torch.set_num_threads(threads)
    spec = registry.spec(config.env.name, config.env.options)
    plain = config.model_copy(update={"agent": config.agent.model_copy(update={"torso": "mlp"})})
    nets = {name: ActorCritic(architecture_of(each, spec)) for name, each in {"": config, "mlp_": plain}.items()}
    times: dict[str, list[float]] = {}
    for repeat in range(repeats + 1):  # the first one warms up
        advance("repeats", repeat, repeats + 1)
        for name, net in nets.items():
            for what, seconds in (("play", _play(net, spec, rows)), ("learn", _learn(net, spec, rows))):
                times.setdefault(f"{name}{what}_microseconds", []).append(1e6 * seconds)
    figures = {name: round(statistics.median(each[1:]), 1) for name, each in times.items()}
    return {
        "bench": "torso",
        "env": config.env.name,
        "torso": in_words(config.agent.torso, spec, config.agent.observation_width),
        "parameters": sum(x.numel() for x in nets[""].parameters()),
        "mlp_parameters": sum(x.numel() for x in nets["mlp_"].parameters()),
        "rows": rows,
        "threads": threads,
        "repeats": repeats,
        **figures,
        "play_ratio": round(figures["play_microseconds"] / figures["mlp_play_microseconds"], 2),
        "learn_ratio": round(figures["learn_microseconds"] / figures["mlp_learn_microseconds"], 2),
        **machine(),
    }


def _play(net: ActorCritic, spec: GameSpec, rows: int) -> float:
    """Seconds of one decision in a step of `rows`."""
    obs, mask, state = torch.zeros(rows, spec.obs_size), _mask(spec, rows), net.initial_state(rows)
    return _seconds(lambda: net.step(obs, state, mask=mask)) / rows


def _learn(net: ActorCritic, spec: GameSpec, rows: int) -> float:
    """Seconds of one sample in a sequence of `STEPS` in a quarter of the rows."""
    rows = -(-rows // 4)
    obs, mask = torch.zeros(rows, STEPS, spec.obs_size), _mask(spec, rows, STEPS)
    action, *_ = net.step(obs[:, 0], net.initial_state(rows), mask=None if mask is None else mask[:, 0])
    actions, is_first = action[:, None].expand(-1, STEPS, -1).contiguous(), torch.zeros(rows, STEPS, dtype=torch.bool)

    def learn() -> None:
        found = net.sequence(obs, actions, net.initial_state(rows), is_first, mask)
        torch.stack([x.mean() for x in found]).sum().backward()  # type: ignore[no-untyped-call]

    return _seconds(learn) / (rows * STEPS)


def _mask(spec: GameSpec, *lead: int) -> torch.Tensor | None:
    """Masks (*lead, M) that allow everything, or of legal tuples one."""
    if not spec.action.mask_size:
        return None
    if spec.action.kind != "legal_tuples":
        return torch.ones(*lead, spec.action.mask_size, dtype=torch.bool)
    mask = torch.full((*lead, spec.action.mask_size), -1, dtype=torch.int16)
    mask[..., : spec.action.num_parts] = 0
    return mask


def _seconds(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started
