"""What the opponent will do next, predicted from its encoder: a task beside the game, by which the encoder learns.

The opponent's keys, its last action or what else `GameSpec.opponent_slice` shows come with the next observation.
A linear layer on the encoder's latents predicts how it changes until then, as in Jaderberg et al. 2017 (UNREAL,
arXiv:1611.05397): a loss of its own that shapes what is shared. The layer is no part of the agent.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from league.errors import ConfigError
from league.types import Encoding, Policy


def encoding(policy: Policy) -> Encoding:
    """The network, which has an encoder of the opponent.

    Raises:
        ConfigError: it has none.
    """
    if not isinstance(policy, Encoding):
        raise ConfigError(
            "learner.opponent_prediction: this network has no opponent encoder that could learn by it (`latents` and"
            " `token` of league.types.Encoding); pass --set learner.opponent_prediction=0"
        )
    return policy


class Foresight(nn.Module):
    """Predicts from the latents of a step how what shows the opponent will have changed at the next one."""

    def __init__(self, policy: Encoding, device: torch.device) -> None:
        super().__init__()
        num_latents, width = policy.latents_shape
        self._token = policy.token
        self.change = nn.Linear(num_latents * width, policy.token_size, device=device)
        nn.init.zeros_(self.change.weight)
        nn.init.zeros_(self.change.bias)

    def error(self, obs: Tensor, is_first: Tensor, latents: Tensor) -> Tensor:
        """The summed squares of what is not predicted of the changes, a scalar.

        obs: (B, T, obs_size); is_first: (B, T); latents: (B, T, L, width), of the same steps. A match's last step and
        the segment's have no next one.
        """
        change, lasts = self._change(obs, is_first)
        predicted: Tensor = self.change(latents[:, :-1].flatten(2))
        return ((predicted.float() - change).square() * lasts).sum()

    def changes(self, obs: Tensor, is_first: Tensor) -> Tensor:
        """The summed squares of all changes, a scalar above 0: the error of who predicts that nothing changes."""
        change, lasts = self._change(obs, is_first)
        return (change.square() * lasts).sum().clamp(min=1e-8)

    def _change(self, obs: Tensor, is_first: Tensor) -> tuple[Tensor, Tensor]:
        """How what shows the opponent changes until the next step, and where that is of the same match."""
        token = self._token(obs)
        return token[:, 1:] - token[:, :-1], (~is_first[:, 1:, None]).to(token.dtype)
