"""PPO with an LSTM the way CleanRL's single-file scripts do it, written here: plain torch, only Adam is fused.

The LSTM runs step by step, in learning too, its state zeroed at every match's start; a minibatch is whole sequences of
some rows; the value loss is clipped; float32 products are torch's own.
"""

from __future__ import annotations

import time
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli

from benchmarks.peers.game import EMBEDDING, HEADS, BrawlRows, Size, Speed, fuse, rate

GAMMA, LAMBDA, CLIP, ENTROPY, VALUE, MAX_NORM = 0.99, 0.95, 0.2, 0.01, 0.5, 0.5
State = tuple[Tensor, Tensor]


def mlp(*sizes: int) -> nn.Sequential:
    """Tanh layers, the last one plain."""
    layers: list[nn.Module] = []
    for size_in, size_out in pairwise(sizes):
        layers += [nn.Linear(size_in, size_out), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class Agent(nn.Module):
    """Embedding, LSTM, and the heads of actor and critic."""

    def __init__(self, obs_size: int, lstm: int, keys: int) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(obs_size, EMBEDDING), nn.GELU())
        self.lstm = nn.LSTM(EMBEDDING, lstm)
        self.actor = mlp(lstm, *HEADS, keys)
        self.critic = mlp(lstm, *HEADS, 1)

    def remember(self, obs: Tensor, state: State, begins: Tensor) -> tuple[Tensor, State]:
        """The LSTM's output (T, n, .) for obs (T, n, .), reset where a match begins (T, n), and the state after."""
        outputs = []
        for x, begin in zip(self.embed(obs), begins, strict=True):
            keep = (1.0 - begin)[None, :, None]
            output, state = self.lstm(x[None], (keep * state[0], keep * state[1]))
            outputs.append(output)
        return torch.cat(outputs), state

    def forward(
        self, obs: Tensor, state: State, begins: Tensor, action: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, State]:
        """Action, log-probability, entropy, value and the state after, for a segment (T, n, .)."""
        features, state = self.remember(obs, state, begins)
        keys = Bernoulli(logits=self.actor(features))
        if action is None:
            action = keys.sample()
        return action, keys.log_prob(action).sum(-1), keys.entropy().sum(-1), self.critic(features)[..., 0], state


def measure(size: Size, *, threads: int, seconds: float, is_fused: bool = True) -> Speed:
    """Rollouts and minibatches, about `seconds` together and two of each at least, after one rollout."""
    torch.set_num_threads(threads)
    game = BrawlRows(size, threads)
    spec = game.batch.spec
    keys = spec.action.num_parts
    agent = Agent(spec.obs_size, size.lstm, keys)
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
    if is_fused:
        fuse(optimizer)
    shape = (size.steps, size.rows)
    obs, actions = torch.zeros(*shape, spec.obs_size), torch.zeros(*shape, keys)
    log_probs, rewards, begins, values = (torch.zeros(shape) for _ in range(4))
    state = torch.zeros(1, size.rows, size.lstm), torch.zeros(1, size.rows, size.lstm)
    next_obs, next_begin = torch.from_numpy(game.obs()), torch.ones(size.rows)

    def play() -> None:
        nonlocal next_obs, next_begin, state
        for t in range(size.steps):
            obs[t], begins[t] = next_obs, next_begin
            action, log_prob, _, value, state = agent(next_obs[None], state, next_begin[None])
            actions[t], log_probs[t], values[t] = action[0], log_prob[0], value[0]
            reward, terminated, truncated = game.step(action[0].int().numpy())
            rewards[t] = torch.from_numpy(reward)
            next_obs, next_begin = torch.from_numpy(game.obs()), torch.from_numpy(terminated | truncated).float()

    def advantages_of() -> Tensor:
        advantages, last = torch.zeros(shape), torch.zeros(size.rows)
        next_value = agent(next_obs[None], state, next_begin[None])[3][0]
        going = 1.0 - next_begin
        for t in reversed(range(size.steps)):
            delta = rewards[t] + GAMMA * next_value * going - values[t]
            advantages[t] = last = delta + GAMMA * LAMBDA * going * last
            next_value, going = values[t], 1.0 - begins[t]
        return advantages

    def learn(rows: Tensor, first: State, advantages: Tensor) -> None:
        start = first[0][:, rows], first[1][:, rows]
        _, log_prob, entropy, value, _ = agent(obs[:, rows], start, begins[:, rows], actions[:, rows])
        ratio = (log_prob - log_probs[:, rows]).exp()
        advantage = advantages[:, rows]
        target = advantage + values[:, rows]
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        policy_loss = torch.max(-advantage * ratio, -advantage * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
        clipped = values[:, rows] + (value - values[:, rows]).clamp(-CLIP, CLIP)
        value_loss = 0.5 * torch.max((value - target) ** 2, (clipped - target) ** 2).mean()
        optimizer.zero_grad()
        (policy_loss + VALUE * value_loss - ENTROPY * entropy.mean()).backward()
        nn.utils.clip_grad_norm_(agent.parameters(), MAX_NORM)
        optimizer.step()

    play_times: list[float] = []
    learn_times: list[float] = []
    started = time.perf_counter()
    while len(play_times) < 3 or time.perf_counter() - started < seconds:
        first = state
        before = time.perf_counter()
        with torch.no_grad():
            play()
            advantages = advantages_of()
        play_times.append(time.perf_counter() - before)
        for rows in torch.randperm(size.rows).chunk(size.minibatches):
            before = time.perf_counter()
            learn(rows, first, advantages)
            learn_times.append(time.perf_counter() - before)
        if len(play_times) == 1:
            started = time.perf_counter()
    count = size.rows * size.steps
    del play_times[0], learn_times[: size.minibatches]
    minibatch = count // size.minibatches
    return Speed(
        parameters=sum(p.numel() for p in agent.parameters()),
        play=rate(play_times, count),
        learn=rate(learn_times, minibatch),
        play_steps=len(play_times) * count,
        learn_samples=len(learn_times) * minibatch,
        minibatch=minibatch,
    )
