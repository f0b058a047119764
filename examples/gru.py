"""A network of your own, for any game: `league train --env kuhn --policy examples/gru.py:GRU` trains it.

An MLP embeds the observation, a GRU remembers the match, and the library's heads choose the action.
"""

import torch
from torch import nn

from league.policies.heads import make_head
from league.policies.memory import Memory
from league.policies.standardiser import Standardiser


class GRU(nn.Module):
    def __init__(self, spec, agent):
        super().__init__()
        width, action = agent.lstm_size, spec.action
        self.body = nn.Sequential(Standardiser(spec.unbounded), nn.Linear(spec.obs_size, width), nn.Tanh())
        self.cell = nn.GRUCell(width, width)
        self.actor = nn.Linear(width, width if action.kind == "legal_tuples" else action.num_logits)
        self.head = make_head(action, width)
        self.critic = nn.Linear(width, 1)

    def initial_state(self, num_rows):
        return Memory(hidden=self.critic.weight.new_zeros(num_rows, self.cell.hidden_size))

    def step(self, obs, state, *, mask=None, rows=None, generator=None, greedy=False):
        rows = slice(None) if rows is None else rows
        hidden = self.cell(self.body(obs), state.hidden[rows])
        state.hidden[rows] = hidden
        action, log_prob = self.head.sample(self.actor(hidden), mask, generator=generator, greedy=greedy)
        return action, log_prob, self.critic(hidden)[:, 0]

    def value(self, obs, state, *, rows=None):
        hidden = self.cell(self.body(obs), state.hidden[slice(None) if rows is None else rows])
        return self.critic(hidden)[:, 0]

    def take_statistics(self, obs):
        """Called after each update with what its rollout observed."""
        self.body[0].take(obs)

    def watch(self, obs, state, *, rows=None):
        """What is seen while waiting is not looked at."""

    def sequence(self, obs, action, state, is_first, mask=None, watched=None):
        seen, hidden, steps = self.body(obs), state.hidden, []
        for t in range(obs.shape[1]):
            hidden = self.cell(seen[:, t], hidden * ~is_first[:, t, None])
            steps.append(hidden)
        features = torch.stack(steps, 1)
        log_prob, entropy = self.head.evaluate(self.actor(features), action, mask)
        return log_prob, entropy, self.critic(features)[..., 0]
