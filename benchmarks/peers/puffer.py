"""PufferLib 3's PuffeRL with its LSTMWrapper, on our match batch as a native vector: no Python loop over rows.

It zeroes its LSTM's state at every rollout's start and at no match's start, neither in play nor in learning, so a
memory runs across matches, and what came before the segment is lost; league pays for both. Its other defaults are kept
but for Adam in place of Muon. Where it is set as suits it, Adam is fused, and the keys are Bernoulli's instead of a
MultiDiscrete space of two states each, whose many small operators cost more than their sampling. It writes no
checkpoints. With threads beyond one only torch and the game use them.
"""

from __future__ import annotations

import ast
import configparser
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pufferlib
import pufferlib.models
import pufferlib.pufferl
import pufferlib.pytorch
import torch
from gymnasium.spaces import Box, MultiDiscrete
from torch import Tensor, nn

from benchmarks.peers.game import EMBEDDING, HEADS, BrawlRows, Size, Speed, fuse, rate
from benchmarks.peers.keys import sample_keys

KEY_STATES = 2


class Vector(pufferlib.PufferEnv):
    """The match batch as PufferLib's vector."""

    def __init__(self, size: Size, threads: int) -> None:
        self.game = BrawlRows(size, threads)
        spec = self.game.batch.spec
        self.single_observation_space = Box(*spec.obs_range, (spec.obs_size,), np.float32)
        self.single_action_space = MultiDiscrete([KEY_STATES] * spec.action.num_parts)
        self.num_agents = self.agents_per_batch = size.rows
        super().__init__()

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, list[Any]]:
        """The first observations; the matches have begun with the game."""
        self.observations[:] = self.game.obs()
        return self.observations, []

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, list[Any]]:
        """One decision of every row, into PufferLib's buffers."""
        self.rewards[:], self.terminals[:], self.truncations[:] = self.game.step(actions)
        self.observations[:] = self.game.obs()
        return self.observations, self.rewards, self.terminals, self.truncations, []

    def close(self) -> None:
        """Nothing is open."""


class Policy(nn.Module):
    """What PufferLib's LSTMWrapper wraps: the embedding before the LSTM and the heads after it."""

    is_continuous = False

    def __init__(self, obs_size: int, lstm: int, keys: int, *, is_bernoulli: bool) -> None:
        super().__init__()
        self.is_bernoulli = is_bernoulli
        self.embed = nn.Sequential(nn.Linear(obs_size, EMBEDDING), nn.GELU())
        first, second = HEADS
        self.actor, self.critic = (
            nn.Sequential(
                nn.Linear(lstm, first), nn.Tanh(), nn.Linear(first, second), nn.Tanh(), nn.Linear(second, out)
            )
            for out in (keys if is_bernoulli else KEY_STATES * keys, 1)
        )

    def encode_observations(self, observations: Tensor, state: Any = None) -> Tensor:
        """(n, obs_size) -> (n, features)."""
        encoded: Tensor = self.embed(observations)
        return encoded

    def decode_actions(self, hidden: Tensor) -> tuple[Tensor | tuple[Tensor, ...], Tensor]:
        """The logits of the keys (n, keys), or of each key's states (n, 2), and the values (n, 1)."""
        logits = self.actor(hidden)
        return logits if self.is_bernoulli else logits.split(KEY_STATES, dim=1), self.critic(hidden)


def measure(size: Size, *, threads: int, seconds: float, head: str = "bernoulli", is_fused: bool = True) -> Speed:
    """Rollouts and updates of one epoch, about `seconds` together, three at least, after one update.

    head: `bernoulli`, or `multidiscrete` as PufferLib has it for several keys.
    """
    torch.set_num_threads(threads)
    is_bernoulli = head == "bernoulli"
    if is_bernoulli:
        pufferlib.pytorch.sample_logits = sample_keys
    pufferlib.pufferl.ADVANTAGE_CUDA = False  # else decided by whether a CUDA compiler is about
    vector = Vector(size, threads)
    spec = vector.game.batch.spec
    count = size.rows * size.steps
    heads = Policy(spec.obs_size, size.lstm, spec.action.num_parts, is_bernoulli=is_bernoulli)
    policy = pufferlib.models.LSTMWrapper(vector, heads, input_size=EMBEDDING, hidden_size=size.lstm)
    config = _defaults() | {
        "device": "cpu",
        "optimizer": "adam",
        "learning_rate": 2.5e-4,
        "update_epochs": 1,
        "batch_size": count,
        "bptt_horizon": size.steps,
        "minibatch_size": count // size.minibatches,
        "checkpoint_interval": 10**9,
        "total_timesteps": 10**9,
        "use_rnn": True,
        "env": "brawl",
    }
    trainer_class = type("Quiet", (pufferlib.pufferl.PuffeRL,), {"print_dashboard": lambda *_, **__: None})
    trainer = trainer_class(config, vector, policy)
    if is_fused:
        fuse(trainer.optimizer)
    play, learn = [], []
    started = time.perf_counter()
    while len(play) < 4 or time.perf_counter() - started < seconds:
        before = time.perf_counter()
        trainer.evaluate()
        played = time.perf_counter()
        trainer.train()
        play.append(played - before)
        learn.append(time.perf_counter() - played)
        if len(play) == 1:
            started = time.perf_counter()
    trainer.utilization.stop()
    windows = len(play) - 1
    return Speed(
        parameters=sum(p.numel() for p in policy.parameters()),
        play=rate(play[1:], count),
        learn=rate(learn[1:], count),
        play_steps=windows * count,
        learn_samples=windows * count,
        minibatch=count // size.minibatches,
    )


def _defaults() -> dict[str, Any]:
    """PufferLib's own training settings."""
    parser = configparser.ConfigParser()
    parser.read(Path(os.path.realpath(pufferlib.__path__[0])) / "config" / "default.ini")
    settings = {}
    for name, text in parser["train"].items():
        try:
            settings[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            settings[name] = text
    return settings
