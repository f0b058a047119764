"""PPO over segments: whole rows of the rollout are replayed from their stored initial state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from league.acts import act
from league.config.models import LearnerConfig
from league.device import autocast, products
from league.errors import GuardError
from league.training.finite import Kept, bad_rollout, bad_weights, first_bad
from league.training.losses import EvaluatedActions, PPOLoss, ppo
from league.training.returns import gae
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
        self._kept = Kept(self._parameters, self.optimizer)
        self.is_watched = device.type == "cpu"
        """Whether each gradient is looked at before its step. Elsewhere that would wait for the device, so an update is
        looked at as a whole, and made once more to see what is wrong in it."""

    def reconfigure(self, config: LearnerConfig) -> None:
        """Makes its next update by other figures; moments and weights go on."""
        self.config = config
        for group in self.optimizer.param_groups:
            group["lr"], group["eps"] = config.learning_rate, config.adam_epsilon

    @act("learn")
    def update(self, rollout: Rollout) -> dict[str, float]:
        """One PPO update; returns its metrics (means over the minibatches, nats where it is information).

        Raises:
            GuardError: a number in the rollout, a gradient or a weight is not finite; weights, moments and RNG are
                those before the update.
        """
        config = self.config
        problem = bad_rollout(rollout)
        if problem:
            raise self._sick(problem, rollout)
        self._kept.keep()
        drawn = self._rng.bit_generator.state
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
        try:
            means = self._epochs(rollout, normalised, targets, is_watched=self.is_watched)
            if not math.isfinite(means["gradient_norm"]):
                self._kept.restore()
                self._rng.bit_generator.state = drawn
                means = self._epochs(rollout, normalised, targets, is_watched=True)
            problem = bad_weights(self.policy.named_parameters())
            if problem:
                raise self._sick(problem, rollout)
        except GuardError:
            self._kept.restore()
            self._rng.bit_generator.state = drawn
            raise
        return means | {
            "entropy_in_play": -float(rollout.log_prob.mean()),
            "explained_variance": _explained_variance(rollout.value, targets),
            "value_mean": float(rollout.value.mean()),
            "reward_per_step": float(rollout.reward.mean()),
        }

    def _epochs(self, rollout: Rollout, advantages: Tensor, targets: Tensor, *, is_watched: bool) -> dict[str, float]:
        """All minibatches of an update; `is_watched`: each waits for its gradient's norm, and stops before a bad step.

        Returns:
            The means of the losses' parts and the gradient's norm, and the number of minibatches.
        """
        config = self.config
        sums: dict[str, Tensor] = {}
        num_minibatches = 0
        for _ in range(config.epochs):
            order, before = self._rng.permutation(rollout.obs.shape[1]), sums.get("approx_kl", 0.0)
            for rows in np.split(order, config.minibatches):
                chosen = torch.from_numpy(rows).to(self.device)
                with products(config.precision):
                    loss, norm = self._minibatch(rollout, advantages, targets, chosen, is_watched=is_watched)
                num_minibatches += 1
                for name, value in _parts(loss, norm).items():
                    sums[name] = sums.get(name, torch.zeros((), device=self.device)) + value.detach()
            kl = (sums["approx_kl"] - before) / config.minibatches
            if config.target_kl is not None and float(kl) > 1.5 * config.target_kl:
                break
        means = {name: float(total) / num_minibatches for name, total in sums.items()}
        return means | {"minibatches": float(num_minibatches)}

    def _minibatch(
        self, rollout: Rollout, advantages: Tensor, targets: Tensor, rows: Tensor, *, is_watched: bool = True
    ) -> tuple[PPOLoss, Tensor]:
        """One optimiser step on `rows` (n,); returns the loss and the gradient's norm before clipping."""
        config = self.config

        def pick(x: Tensor) -> Tensor:
            return x.index_select(1, rows).transpose(0, 1)  # (n, T, ...)

        with autocast(self.device, config.precision):
            log_prob, entropy, value = self.sequence(
                pick(rollout.obs),
                pick(rollout.action),
                rollout.state.select(rows),
                pick(rollout.is_first),
                None if rollout.mask is None else pick(rollout.mask),
                None if rollout.watched is None else rollout.watched.select(rows),
            )
        loss = ppo(
            EvaluatedActions(log_prob.float(), entropy.float(), value.float()),
            pick(rollout.log_prob),
            pick(advantages),
            pick(targets),
            clip=config.clip,
            value_coefficient=config.value_coefficient,
            entropy_coefficient=config.entropy_coefficient,
        )
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss.total)
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        if is_watched and not math.isfinite(norm):
            outputs = {"log-probabilities": log_prob, "entropies": entropy, "values": value}
            named = {name: p.grad for name, p in self.policy.named_parameters() if p.grad is not None}
            problem = first_bad("the network's", outputs) or first_bad("the gradient of", named)
            raise self._sick(problem or "the gradient's norm is too large for float32", rollout, loss)
        nn.utils.clip_grads_with_norm_(self._parameters, config.max_gradient_norm, norm)
        self.optimizer.step()
        return loss, norm

    def _sick(self, problem: str, rollout: Rollout, loss: PPOLoss | None = None) -> GuardError:
        """`problem` with the figures beside it, and what to try."""
        config = self.config
        reward, value = (float(x.abs().max()) for x in (rollout.reward, rollout.value))
        figures = f"rewards up to {reward:.3g}, values up to {value:.3g}"
        if loss is not None:
            figures += f", policy loss {loss.policy.item():.3g}, value loss {loss.value.item():.3g}"
        return GuardError(
            f"not_finite: {problem} ({figures}); the update is not applied; if rewards or values are large, lower the"
            f" weights in [rewards]; else lower learner.learning_rate={config.learning_rate:g}"
            + (" or set learner.precision=float32" if config.precision == "bf16" else ""),
            "not_finite",
        )

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
