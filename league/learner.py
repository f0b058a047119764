"""PPO over segments: whole rows of the rollout are replayed from their stored initial state."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from league.config import LearnerConfig
from league.device import autocast, is_out_of_memory
from league.errors import LeagueError
from league.losses import PPOLoss, ppo
from league.returns import gae
from league.types import Policy, Rollout


class Learner:
    """Improves `policy` in place from rollouts.

    Args:
        policy: the network; its parameters are the optimiser's.
        config: rates, clipping, epochs and minibatches.
        rng: shuffles the rows; its state is part of the run's.
        device: where the policy is.
    """

    def __init__(self, policy: Policy, config: LearnerConfig, rng: np.random.Generator, device: torch.device) -> None:
        self.policy, self.config, self.device = policy, config, device
        self.sequence = policy.sequence
        self._rng = rng
        self._parameters = list(policy.parameters())
        is_fused = device.type in ("cpu", "cuda")
        self.optimizer = torch.optim.Adam(
            self._parameters, lr=config.learning_rate, eps=config.adam_epsilon, fused=is_fused
        )

    def update(self, rollout: Rollout) -> dict[str, float]:
        """One PPO update; returns its metrics (means over the minibatches, nats where it is information).

        Raises:
            LeagueError: a gradient is not finite; the weights are those before the bad minibatch.
        """
        config = self.config
        advantages = gae(
            rollout.reward,
            rollout.value,
            rollout.next_value,
            rollout.ends,
            gamma=config.gamma,
            lam=config.gae_lambda,
        )
        targets = advantages + rollout.value
        normalised = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        sums: dict[str, Tensor] = {}
        num_minibatches = 0
        for _ in range(config.epochs):
            order = self._rng.permutation(rollout.obs.shape[1])
            for rows in np.split(order, config.minibatches):
                loss, norm = self._minibatch(rollout, normalised, targets, torch.from_numpy(rows).to(self.device))
                num_minibatches += 1
                for name, value in _parts(loss, norm).items():
                    sums[name] = sums.get(name, torch.zeros((), device=self.device)) + value.detach()
            if config.target_kl is not None and float(loss.approx_kl) > 1.5 * config.target_kl:
                break
        metrics = {name: float(total) / num_minibatches for name, total in sums.items()}
        return metrics | {
            "explained_variance": _explained_variance(rollout.value, targets),
            "value_mean": float(rollout.value.mean()),
            "reward_per_step": float(rollout.reward.mean()),
            "minibatches": float(num_minibatches),
        }

    def _minibatch(self, rollout: Rollout, advantages: Tensor, targets: Tensor, rows: Tensor) -> tuple[PPOLoss, Tensor]:
        """One optimiser step on `rows` (n,); returns the loss and the gradient's norm before clipping."""
        config = self.config

        def pick(x: Tensor) -> Tensor:
            return x[:, rows].transpose(0, 1)  # (n, T, ...)

        with autocast(self.device, config.precision):
            log_prob, entropy, value = self.sequence(
                pick(rollout.obs),
                pick(rollout.action),
                rollout.state.select(rows),
                pick(rollout.is_first),
                None if rollout.mask is None else pick(rollout.mask),
            )
        loss = ppo(
            log_prob.float(),
            pick(rollout.log_prob),
            pick(advantages),
            entropy.float(),
            value.float(),
            pick(targets),
            clip=config.clip,
            value_coefficient=config.value_coefficient,
            entropy_coefficient=config.entropy_coefficient,
        )
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss.total)
        try:
            norm = nn.utils.clip_grad_norm_(self._parameters, config.max_gradient_norm, error_if_nonfinite=True)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            raise LeagueError(
                f"learner: a gradient is not finite (policy loss {loss.policy.item():.3g}, value loss"
                f" {loss.value.item():.3g}); lower learner.learning_rate={config.learning_rate} or use"
                f" learner.precision=float32, and start from the last checkpoint"
            ) from error
        self.optimizer.step()
        return loss, norm

    def state_dict(self) -> dict[str, Any]:
        """Weights, optimiser and RNG; tensors and plain values only.

        Moments that Adam's first step was making when the memory ran out are left out.
        """
        moments = {i: values for i, values in self.optimizer.state_dict()["state"].items() if len(values) == 3}
        return {
            "policy": self.policy.state_dict(),
            "optimizer": {str(index): dict(values) for index, values in moments.items()},
            "rng": self._rng.bit_generator.state,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.policy.load_state_dict(state["policy"])
        groups = self.optimizer.state_dict()["param_groups"]
        moments = {int(index): values for index, values in state["optimizer"].items()}
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        self._rng.bit_generator.state = state["rng"]


def _parts(loss: PPOLoss, norm: Tensor) -> dict[str, Tensor]:
    return {
        "policy_loss": loss.policy,
        "value_loss": loss.value,
        "entropy": loss.entropy,
        "approx_kl": loss.approx_kl,
        "clip_share": loss.clip_share,
        "gradient_norm": norm,
    }


def _explained_variance(values: Tensor, targets: Tensor) -> float:
    """1 - Var(target - value) / Var(target): 1 perfect, 0 no better than a constant."""
    variance = targets.var()
    return float(1 - (targets - values).var() / variance) if float(variance) > 0 else 0.0
