"""Measures the parts, each figure with the settings it was taken at. Timings live here, never in tests."""

from __future__ import annotations

import math
import os
import platform
import statistics
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from league import config as settings
from league.app import architecture_of
from league.config import Config
from league.device import autocast, choose_device, describe_device
from league.envs import registry
from league.errors import UsageError
from league.learner import Learner
from league.policies.actor_critic import ActorCritic
from league.pool import Pool
from league.rollout import Collector
from league.types import EXTERNAL, GameSpec, Rollout


def bench_env(env: str, *, rows: int, threads: int, seconds: float, overrides: Iterable[str] = ()) -> dict[str, Any]:
    """Ticks a second of `rows` matches of the game alone, with random actions for both seats.

    Raises:
        UsageError: a number that cannot be measured with.
    """
    _need(rows >= 1, f"rows={rows}", "at least 1", "--rows 1024")
    _need(threads >= 0, f"threads={threads}", "at least 0 (0 chooses)", "--threads 1")
    _need(0 < seconds < math.inf, f"seconds={seconds:g}", "above 0 and finite", "--seconds 3")
    config = settings.load(env=env, overrides=overrides)
    options = registry.check_options(config.env.name, config.env.options)
    batch = registry.make(config.env.name, rows=rows, threads=threads, options=options)
    batch.reset(0)
    batch.controllers[:] = EXTERNAL
    action = batch.spec.action
    limits = 2 if action.kind == "multi_binary" else np.array(action.choices)
    actions = np.random.default_rng(0).integers(0, limits, (16, *batch.actions.shape)).astype(np.int32)
    steps, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        batch.actions[:] = actions[steps % len(actions)]
        batch.step()
        steps += 1
    ticks = int(options.get("ticks_per_step", 1))
    return {
        "bench": "env",
        "env": config.env.name,
        "rows": rows,
        "threads": threads,
        "ticks_per_step": ticks,
        "seconds": round(elapsed, 3),
        "steps_per_second": round(steps * rows / elapsed),
        "ticks_per_second": round(steps * rows * ticks / elapsed),
        **_machine(),
    }


def bench_learner(
    preset: str, *, threads: int | None = None, repeats: int = 3, overrides: Iterable[str] = ()
) -> dict[str, Any]:
    """Play, learning and both together, as training does them: the preset's rows, mix and epochs, untrained nets.

    `play_steps_per_second` counts steps of learner rows with the frozen opponents of the mix beside them;
    `learn_samples_per_second` counts a sample once for every epoch that it is learned from; `replay_difference` is the
    largest difference between the log-probabilities of play and of their replay, in nats.
    """
    _need(repeats >= 1, f"repeats={repeats}", "at least 1", "--repeats 3")
    _need(threads is None or threads >= 1, f"threads={threads}", "at least 1", "--threads 2")
    if threads:
        torch.set_num_threads(threads)
    config = settings.load(preset=preset, overrides=overrides)
    options = registry.check_options(config.env.name, config.env.options)
    config = settings.with_options(config, options)
    spec = registry.spec(config.env.name, options)
    settings.check_rows(config)
    device = choose_device(config.learner.device)
    collector, learner = _parts(config, spec, device)
    size = settings.steps_per_rollout(config)
    play, learn = [], []
    for repeat in range(repeats + 1):  # the first one warms up
        started = time.perf_counter()
        rollout = collector.collect(config.learner.rollout_steps, repeat + 1)
        played = time.perf_counter()
        if repeat == 0:
            difference = _replay_difference(learner, rollout, config.learner.precision)
        metrics = learner.update(rollout)
        learned = time.perf_counter()
        samples = size * metrics["minibatches"] / config.learner.minibatches
        if repeat:
            play.append(size / (played - started))
            learn.append(samples / (learned - played))
    epochs = samples / size
    play_rate, learn_rate = statistics.median(play), statistics.median(learn)
    return {
        "bench": "learner",
        "env": config.env.name,
        "preset": preset,
        "rows": config.env.rows,
        "rollout_steps": config.learner.rollout_steps,
        "epochs": epochs,
        "live_nets": len(collector.pool.live),
        "parameters": sum(p.numel() for p in learner.policy.parameters()),
        "history_tokens": architecture_of(config, spec).history_tokens,
        "precision": config.learner.precision,
        "replay_difference": difference,
        "device": describe_device(device),
        "repeats": repeats,
        "play_steps_per_second": round(play_rate),
        "learn_samples_per_second": round(learn_rate),
        "train_steps_per_second": round(1 / (1 / play_rate + epochs / learn_rate)),
        **_machine(),
    }


def _parts(config: Config, spec: GameSpec, device: torch.device) -> tuple[Collector, Learner]:
    """A collector and a learner at the config's sizes, `pool.live_nets` untrained nets as opponents."""
    architecture = architecture_of(config, spec)
    policy = ActorCritic(architecture).to(device)
    frozen = {
        f"net-{i}": ActorCritic(architecture).requires_grad_(False).to(device) for i in range(config.pool.live_nets)
    }
    pool = Pool(config.pool, frozen.__getitem__, np.random.default_rng(0))
    for agent_id in frozen:
        pool.admit(agent_id)
    pool.refresh_targets(set())
    env = config.env
    batch = registry.make(env.name, rows=env.rows, threads=env.threads, options=env.options)
    generator = torch.Generator(device).manual_seed(0)
    collector = Collector(
        batch,
        policy,
        pool,
        weights=config.rewards,
        run="bench",
        game_id="bench",
        generator=generator,
        precision=config.learner.precision,
    )
    collector.start(0)
    return collector, Learner(policy, config.learner, np.random.default_rng(0), device)


def _need(holds: bool, setting: str, rule: str, instead: str) -> None:
    if not holds:
        raise UsageError(f"{setting}: must be {rule}; pass {instead}")


@torch.no_grad()
def _replay_difference(learner: Learner, rollout: Rollout, precision: str) -> float:
    mask = None if rollout.mask is None else rollout.mask.transpose(0, 1)
    with autocast(learner.device, precision):
        log_prob, _, _ = learner.policy.sequence(
            rollout.obs.transpose(0, 1),
            rollout.action.transpose(0, 1),
            rollout.state,
            rollout.is_first.transpose(0, 1),
            mask,
        )
    return float((log_prob.T - rollout.log_prob).abs().max())


def _machine() -> dict[str, Any]:
    return {"machine": platform.machine(), "cores": os.cpu_count(), "torch": torch.__version__}
