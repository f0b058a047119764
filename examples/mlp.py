"""A network without memory, for any game: `league train --env kuhn --policy examples/mlp.py:MLP` trains it.

Two linear layers look at the observation of now alone, and the library's heads choose the action. Against the default
agent it tells whether a game needs memory: `python -m benchmarks.learning tmaze tmaze-mlp`.
"""

from torch import nn

from league.policies.heads import make_head
from league.policies.memory import Memory
from league.policies.standardiser import Standardiser


class MLP(nn.Module):
    def __init__(self, spec, agent):
        super().__init__()
        width, action = agent.lstm_size, spec.action
        layers = nn.Linear(spec.obs_size, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        self.body = nn.Sequential(Standardiser(spec.unbounded), *layers)
        self.actor = nn.Linear(width, width if action.kind == "legal_tuples" else action.num_logits)
        self.head = make_head(action, width)
        self.critic = nn.Linear(width, 1)

    def initial_state(self, num_rows):
        return Memory(hidden=self.critic.weight.new_zeros(num_rows, 0))

    def step(self, obs, state, *, mask=None, rows=None, generator=None, greedy=False):
        features = self.body(obs)
        action, log_prob = self.head.sample(self.actor(features), mask, generator=generator, greedy=greedy)
        return action, log_prob, self.critic(features)[:, 0]

    def value(self, obs, state, *, rows=None):
        return self.critic(self.body(obs))[:, 0]

    def take_statistics(self, obs):
        """Called after each update with what its rollout observed."""
        self.body[0].take(obs)

    def watch(self, obs, state, *, rows=None):
        """What is seen while waiting is not looked at."""

    def sequence(self, obs, action, state, is_first, mask=None, watched=None):
        features = self.body(obs)
        log_prob, entropy = self.head.evaluate(self.actor(features), action, mask)
        return log_prob, entropy, self.critic(features)[..., 0]
