"""The magnet: a slowly moving copy of the policy that the policy is drawn to.

Self-play alone goes in circles where the best reply to each strategy is another one. With a penalty on the
Kullback-Leibler divergence to a copy that lags behind, the last policy itself comes near an equilibrium of a two-player
zero-sum game (Sokota et al. 2023, MMD, arXiv:2206.05825; Perolat et al. 2022, R-NaD, arXiv:2206.15378).
"""

from __future__ import annotations

import copy
import inspect
from typing import Any

import torch
from torch import Tensor

from league.training.minibatch import Minibatch
from league.types import Policy

RATE = 0.02
"""Share of the way to the policy that the magnet's weights go with each update: it lags by some fifty."""


class Magnet:
    """A copy of `policy` whose weights are an exponential moving average of its weights."""

    def __init__(self, policy: Policy) -> None:
        self._policy = copy.deepcopy(policy)
        for parameter in self._policy.parameters():
            parameter.requires_grad_(False)
        self._is_capturable = "most_begins" in inspect.signature(policy.sequence).parameters

    def log_prob(self, given: Minibatch, most_begins: int) -> Tensor:
        """(n, T): log-probabilities of what was played, from the states that the learner had before."""
        segment = given.obs, given.action, given.state, given.is_first, given.mask, given.watched
        log_prob: Tensor = self._policy.sequence(*segment, *((most_begins,) if self._is_capturable else ()))[0]
        return log_prob.float()

    @torch.no_grad()
    def follow(self, policy: Policy) -> None:
        """After an update: a step towards the policy; its statistics of observations are taken over as they are."""
        there, learned = policy.state_dict(), {name for name, _ in policy.named_parameters()}
        for name, value in self._policy.state_dict().items():
            if name in learned:
                value.lerp_(there[name], RATE)
            else:
                value.copy_(there[name])

    def state_dict(self) -> dict[str, Any]:
        """The weights."""
        return dict(self._policy.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._policy.load_state_dict(state)
