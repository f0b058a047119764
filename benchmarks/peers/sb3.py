"""sb3-contrib's RecurrentPPO: LSTM shared by actor and critic, minibatches of 128 as the predecessors had them.

With `Size.history` the predecessors' own stack: the observation carries the last frames of the opponent's half, and a
Transformer in the features extractor encodes that whole window again at every step of play and for every sample of
every epoch. It is bidirectional inside the window and sees just the window, unlike league's causal streaming encoder.
The time of a minibatch does not depend on its epoch, so few are timed, one by one, and the rest follows from them:
at full size one takes seconds, and ten epochs of a rollout would take most of an hour.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, MultiBinary
from sb3_contrib import RecurrentPPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor, nn

from benchmarks.peers.game import EMBEDDING, HEADS, BrawlRows, Size, Speed, fuse, rate

MINIBATCH = 128
WIDTH, ATTENTION_HEADS, FEEDFORWARD, LATENTS = 256, 8, 1024, 8


class Vector(VecEnv):
    """The game as Stable-Baselines3 wants it; the observation may carry the opponent's last frames."""

    def __init__(self, size: Size, threads: int) -> None:
        self.game = BrawlRows(size, threads)
        spec = self.game.batch.spec
        self.half = slice(*spec.opponent_slice)
        width = self.half.stop - self.half.start
        self.frames = np.zeros((size.rows, size.history, width), np.float32)
        shape = (spec.obs_size + size.history * width,)
        super().__init__(size.rows, Box(*spec.obs_range, shape, np.float32), MultiBinary(spec.action.num_parts))

    def reset(self) -> np.ndarray:
        """The first observations; the matches have begun with the game."""
        return self._stacked(self.game.obs(), np.ones(self.num_envs, np.bool_))

    def step_async(self, actions: np.ndarray) -> None:
        """Keeps the actions for `step_wait`."""
        self.actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """One decision of every row."""
        reward, terminated, truncated = self.game.step(self.actions)
        ends = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for row in np.flatnonzero(ends):
            last = self.game.final_obs(row)
            window = np.concatenate([self.frames[row, 1:], last[None, self.half]]) if self.frames.size else last[:0]
            infos[row] = {
                "terminal_observation": np.concatenate([last, window.ravel()]),
                "TimeLimit.truncated": bool(truncated[row]),
            }
        return self._stacked(self.game.obs(), ends), reward, ends, infos

    def _stacked(self, obs: np.ndarray, begins: np.ndarray) -> np.ndarray:
        if not self.frames.size:
            return obs
        self.frames[begins] = 0
        self.frames[:, :-1] = self.frames[:, 1:]
        self.frames[:, -1] = obs[:, self.half]
        return np.concatenate([obs, self.frames.reshape(self.num_envs, -1)], 1)

    def close(self) -> None:
        """Nothing is open."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """None for every row, as `render_mode` is."""
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Not needed by learning."""
        raise NotImplementedError

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Not needed by learning."""
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """No row is wrapped."""
        return [False] * self.num_envs


class Features(BaseFeaturesExtractor):
    """The embedded observation and, with a history, what it attends to in the encoded window."""

    def __init__(self, space: Box, history: int, obs_size: int, layers: int) -> None:
        super().__init__(space, EMBEDDING + (WIDTH if history else 0))
        self.obs_size, self.history = obs_size, history
        self.embed = nn.Sequential(nn.Linear(obs_size, EMBEDDING), nn.GELU())
        if history:
            self.token = nn.Linear((space.shape[0] - obs_size) // history, WIDTH)
            self.place = nn.Parameter(0.02 * torch.randn(history, WIDTH))
            layer = nn.TransformerEncoderLayer(
                WIDTH, ATTENTION_HEADS, FEEDFORWARD, dropout=0.0, activation="gelu", batch_first=True
            )
            self.encoder = nn.TransformerEncoder(layer, layers)
            self.latents = nn.Parameter(torch.randn(LATENTS, WIDTH))
            self.pool = nn.MultiheadAttention(WIDTH, ATTENTION_HEADS, batch_first=True)
            self.cross = nn.MultiheadAttention(WIDTH, ATTENTION_HEADS, batch_first=True)

    def forward(self, observations: Tensor) -> Tensor:
        """observations (n, .) -> (n, features)."""
        x = self.embed(observations[:, : self.obs_size])
        if not self.history:
            return x
        window = observations[:, self.obs_size :].unflatten(1, (self.history, -1))
        encoded = self.encoder(self.token(window) + self.place)
        latents, _ = self.pool(self.latents.expand(len(x), -1, -1), encoded, encoded, need_weights=False)
        seen, _ = self.cross(x[:, None], latents, latents, need_weights=False)
        return torch.cat([x, seen[:, 0]], 1)


class Clock(BaseCallback):
    """When each step of play was done."""

    def __init__(self) -> None:
        super().__init__()
        self.stamps: list[float] = []

    def _on_step(self) -> bool:
        self.stamps.append(time.perf_counter())
        return True


def measure(size: Size, *, threads: int, seconds: float, is_fused: bool = True) -> Speed:
    """The steps of one rollout, without the first, and of minibatches of `train()`, about `seconds` long.

    Three minibatches are timed at least, after one to warm up.
    """
    torch.set_num_threads(threads)
    env = Vector(size, threads)
    model = RecurrentPPO(
        "MlpLstmPolicy",
        env,
        n_steps=size.steps,
        batch_size=MINIBATCH,
        n_epochs=1,
        device="cpu",
        policy_kwargs={
            "lstm_hidden_size": size.lstm,
            "shared_lstm": True,
            "enable_critic_lstm": False,
            "net_arch": {"pi": list(HEADS), "vf": list(HEADS)},
            "features_extractor_class": Features,
            "features_extractor_kwargs": {
                "history": size.history,
                "obs_size": env.game.batch.spec.obs_size,
                "layers": size.layers,
            },
        },
    )
    if is_fused:
        fuse(model.policy.optimizer)
    clock = Clock()
    _, callback = model._setup_learn(total_timesteps=10**9, callback=clock)
    model.collect_rollouts(env, callback, model.rollout_buffer, size.steps)
    steps = np.diff(clock.stamps)
    minibatches = _minibatch_times(model, seconds)
    return Speed(
        parameters=sum(p.numel() for p in model.policy.parameters()),
        play=rate(steps, size.rows),
        learn=rate(minibatches, MINIBATCH),
        play_steps=len(steps) * size.rows,
        learn_samples=len(minibatches) * MINIBATCH,
        minibatch=MINIBATCH,
    )


def _minibatch_times(model: RecurrentPPO, seconds: float) -> list[float]:
    """Seconds that `train()` takes for each minibatch, from asking for it to asking for the next."""
    times: list[float] = []
    get = model.rollout_buffer.get

    def timed(batch_size: int) -> Iterator[Any]:
        started = before = time.perf_counter()
        while True:  # epoch after epoch
            for sample in get(batch_size):
                yield sample._replace(actions=sample.actions.float())  # its Bernoulli refuses the buffer's integers
                now = time.perf_counter()
                times.append(now - before)
                before = now
                if len(times) > 3 and now - started > seconds:
                    return

    model.rollout_buffer.get = timed
    model.train()
    return times[1:]
