"""Sample Factory's APPO, serial and synchronous, on our match batch as one vectorised environment.

Actor and critic share the decoder [96, 96], where the others have one each. It does not tell play and learning apart,
so its speed is that of whole iterations of one epoch. It resets its memories at every match's start, as league does.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from sample_factory.algo.runners.runner import AlgoObserver, Runner
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner

from benchmarks.peers.game import EMBEDDING, HEADS, BrawlRows, Size, Speed, fuse, rate


class Vector(gymnasium.Env[Any, Any]):
    """All rows as the agents of one environment."""

    is_multiagent = True

    def __init__(self, size: Size, threads: int) -> None:
        self.game = BrawlRows(size, threads)
        spec = self.game.batch.spec
        self.num_agents = size.rows
        self.observation_space = Dict(obs=Box(*spec.obs_range, (spec.obs_size,), np.float32))
        self.action_space = Tuple([Discrete(2)] * spec.action.num_parts)
        self.render_mode = None

    def reset(self, **_: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The first observations; the matches have begun with the game."""
        return {"obs": self.game.obs()}, {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One decision of every row."""
        reward, terminated, truncated = self.game.step(actions)
        return {"obs": self.game.obs()}, reward, terminated, truncated, {}


class Clock(AlgoObserver):
    """When each iteration was done; ends the training after `seconds`, not before four; the first sets Adam."""

    def __init__(self, seconds: float, is_fused: bool) -> None:
        self.seconds, self.is_fused = seconds, is_fused
        self.stamps: list[float] = []
        self.parameters = 0

    def on_training_step(self, runner: Runner, training_iteration_since_resume: int) -> None:
        """Called by Sample Factory."""
        if self.is_fused and not self.stamps:
            fuse(runner.learners[0].learner.optimizer)
        self.stamps.append(time.perf_counter())
        if len(self.stamps) > 3 and self.stamps[-1] - self.stamps[0] > self.seconds:
            runner.cfg.train_for_env_steps = 0
            actor_critic = runner.learners[0].learner.actor_critic
            self.parameters = sum(p.numel() for p in actor_critic.parameters())


def measure(size: Size, *, threads: int, seconds: float, is_fused: bool = True) -> Speed:
    """Iterations, three at least and about `seconds` of them, without the first."""
    register_env("brawl", partial(_make, size, threads))  # a function of the module's, since a process is sent it
    count = size.rows * size.steps
    settings = {
        "env": "brawl",
        "experiment": "peer",
        "device": "cpu",
        "serial_mode": True,
        "async_rl": False,
        "batched_sampling": True,
        "num_workers": 1,
        "num_envs_per_worker": 1,
        "worker_num_splits": 1,
        "rollout": size.steps,
        "recurrence": size.steps,
        "batch_size": count // size.minibatches,
        "num_batches_per_epoch": size.minibatches,
        "num_epochs": 1,
        "use_rnn": True,
        "rnn_type": "lstm",
        "rnn_size": size.lstm,
        "train_for_env_steps": 10**12,
        "save_every_sec": 10**6,
    }
    arguments = [f"--{name}={value}" for name, value in settings.items()]
    arguments += ["--encoder_mlp_layers", str(EMBEDDING), "--decoder_mlp_layers", *map(str, HEADS)]
    parser, _ = parse_sf_args(arguments)
    _, runner = make_runner(parse_full_cfg(parser, arguments))
    clock = Clock(seconds, is_fused)
    runner.register_observer(clock)
    runner.init()
    torch.set_num_threads(threads)
    runner.run()
    windows = np.diff(clock.stamps)
    speed = rate(windows, count)
    return Speed(
        parameters=clock.parameters,
        play=None,
        learn=None,
        train_one_epoch=speed,
        play_steps=len(windows) * count,
        learn_samples=len(windows) * count,
        minibatch=count // size.minibatches,
    )


def _make(size: Size, threads: int, *_: Any, **__: Any) -> Vector:
    return Vector(size, threads)
