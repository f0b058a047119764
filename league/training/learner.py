"""PPO over segments: whole rows of the rollout are replayed from their stored initial state."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from league.config.models import LearnerConfig
from league.config.updates import num_minibatches
from league.errors import GuardError
from league.play.graphs import StepGraphs
from league.runtime.device import autocast, products, sent
from league.runtime.phases import phase
from league.runtime.ranks import Ranks
from league.training.action_prediction import Foresight, encoding
from league.training.finite import LastFinite, bad_rollout, bad_weights, first_bad
from league.training.losses import EvaluatedActions, PPOLoss, Scheduled, ppo
from league.training.magnet import Magnet
from league.training.minibatch import Minibatch, UpdateData
from league.training.returns import ReturnSize, gae
from league.types import Policy, Rollout, Standardising

PARTS = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_share", "gradient_norm")
"""What each minibatch tells, in this order."""
RATE_FACTOR = 1.5
"""How much one update's KL moves the learning rate, as in RSL-RL (Rudin et al. 2021, arXiv:2109.11978)."""
FORETOLD = "opponent_explained"
"""Share of the change in what shows the opponent, until the next step, that the encoder predicts; with
`learner.opponent_prediction` the last that a minibatch tells."""


class Learner:
    """Improves `policy` in place from rollouts.

    Args:
        policy: the network; its parameters are the optimiser's.
        config: rates, clipping, epochs and minibatches.
        rng: shuffles the rows; its state is part of the run's.
        device: where the policy is.
        ranks: the processes that learn together, each from rollouts of its own rows; None: this one alone.
    """

    def __init__(
        self,
        policy: Policy,
        config: LearnerConfig,
        rng: np.random.Generator,
        device: torch.device,
        ranks: Ranks | None = None,
    ) -> None:
        self.policy, self.config, self.device, self._ranks = policy, config, device, ranks
        self.sequence: Callable[..., tuple[Tensor, Tensor, Tensor]] = policy.sequence
        self.is_capturable = "most_begins" in inspect.signature(policy.sequence).parameters
        """Whether the network is `league.types.Capturable`."""
        self._rng = rng
        self._foresight = Foresight(encoding(policy), device) if config.opponent_prediction else None
        self._parts = (*PARTS, FORETOLD) if self._foresight else PARTS
        self._parameters = [parameter for _, parameter in self._named_parameters()]
        is_fused = device.type in ("cpu", "cuda")
        self.optimizer = torch.optim.Adam(
            self._parameters, lr=config.rate_share * config.learning_rate, eps=config.adam_epsilon, fused=is_fused
        )
        self._scheduled = Scheduled.of(config.clip, config.entropy_coefficient, torch.empty((), device=device))
        self._steered = 1.0
        """Share of the configured rate that `learner.adaptive_kl` has come to."""
        self.returns = ReturnSize()
        """By whose size rewards are divided; values are in its units."""
        self._magnet = Magnet(policy) if config.magnet else None
        self._begun = Magnet(policy) if config.begin_with else None
        """What the learner began with (`learner.begin_with`), which it is given with: a magnet that does not move."""
        self._has_statistics = isinstance(policy, Standardising) and getattr(policy, "standardise", policy) is not None
        """Whether the network keeps statistics of observations; an `ActorCritic` may have nothing to standardise."""
        self._kept = LastFinite(self._parameters, self.optimizer)
        self._graphs: StepGraphs[Minibatch, Tensor] | None = None

    def replay(self, graphs: StepGraphs[Minibatch, Tensor]) -> None:
        """From now on minibatches are replayed as CUDA graphs, where the network is `league.types.Capturable`."""
        if not self.is_capturable:
            return
        self._graphs = graphs
        for group in self.optimizer.param_groups:
            group["lr"] = torch.tensor(group["lr"], device=self.device)
            group["capturable"] = self.device.type == "cuda"

    def reconfigure(self, config: LearnerConfig) -> None:
        """Makes its next update by other figures; moments and weights go on."""
        self.config = config
        if not config.adaptive_kl:
            self._steered = 1.0
        given = Scheduled.of(config.clip, config.entropy_coefficient, torch.empty(()))
        for there, now in zip(self._scheduled, given, strict=True):
            there.copy_(now)
        for group in self.optimizer.param_groups:
            group["eps"] = config.adam_epsilon
        self._set_rate()

    def _set_rate(self) -> None:
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(self._rate)
            else:
                group["lr"] = self._rate

    @property
    def _rate(self) -> float:
        return self._steered * self.config.rate_share * self.config.learning_rate

    def _steer(self, kl: float, most: float) -> None:
        """Lowers the learning rate after an update whose KL was above `most`, and raises it below half of that."""
        if kl > most:
            self._steered /= RATE_FACTOR
        elif kl < 0.5 * most:
            self._steered = min(1.0, RATE_FACTOR * self._steered)
        self._set_rate()

    @phase("learn")
    def update(self, rollout: Rollout) -> dict[str, float]:
        """One PPO update; returns its metrics (means over the minibatches, nats where it is information).

        Raises:
            GuardError: a number in the rollout, a gradient or a weight is not finite; weights, moments and RNG are
                those before the update.
        """
        config, ranks = self.config, self._ranks
        whole = rollout if ranks is None else _of_all(rollout, ranks)
        problem = bad_rollout(whole)
        if problem:
            raise self._sick(problem, whole)
        self._kept.keep()
        drawn = self._rng.bit_generator.state
        returns = self.returns.after(whole, config.gamma)
        advantages = gae(
            whole.reward / returns.size,
            whole.value,
            whole.next_value,
            whole.ends,
            gamma=config.gamma,
            lam=config.gae_lambda,
        )
        targets = advantages + whole.value
        for weight, magnet in ((config.magnet, self._magnet), (config.begin_kl, self._begun)):
            if weight and magnet is not None:
                of_magnet = self._of_magnet(magnet, rollout)
                of_magnet = of_magnet if ranks is None else ranks.whole(of_magnet, rollout.segments)
                advantages = advantages - weight * (whole.log_prob - of_magnet)
        normalised = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        if ranks is None:
            lesson = UpdateData(rollout, normalised, targets)
        else:
            lesson = UpdateData(rollout, *(ranks.mine(x, rollout.segments) for x in (normalised, targets)))
        try:
            means = self._epochs(lesson, is_watched=False)
            if not math.isfinite(means["gradient_norm"]):  # once more, to see what is wrong
                self._kept.restore()
                self._rng.bit_generator.state = drawn
                means = self._epochs(lesson, is_watched=True)
            problem = bad_weights(self._named_parameters())
            if problem:
                raise self._sick(problem, whole)
            observed = rollout.obs
            if ranks is not None and self._has_statistics:
                observed = ranks.whole(observed, rollout.segments)
        except BaseException:  # the weights that a run is saved with are those of its last whole update
            self._kept.restore()
            self._rng.bit_generator.state = drawn
            raise
        self.returns = returns
        if isinstance(self.policy, Standardising):
            self.policy.take_statistics(observed)
        if self._magnet is not None:
            self._magnet.follow(self.policy)
        told = means | _told(whole, targets, returns.size)
        told["learning_rate"] = self._rate
        if config.adaptive_kl:
            self._steer(means["approx_kl"], config.adaptive_kl)
        return told

    @torch.no_grad()
    def _of_magnet(self, magnet: Magnet, rollout: Rollout) -> Tensor:
        """(T, B): the magnet's log-probabilities of what was played, from the learner's states at the beginning."""
        lesson = UpdateData(rollout, torch.zeros_like(rollout.value), rollout.value)
        number = self._num_minibatches(rollout) * (self.config.accumulate or 1)
        rows = torch.arange(rollout.obs.shape[1], device=self.device)
        parts = [lesson.pick(some) for some in rows.tensor_split(number)]
        with products(self.config.precision), autocast(self.device, self.config.precision):
            told = [magnet.log_prob(part, lesson.most_begins) for part in parts]
        return torch.cat(told).transpose(0, 1)

    def _epochs(self, lesson: UpdateData, *, is_watched: bool) -> dict[str, float]:
        """All minibatches of an update; `is_watched`: each waits for its gradient's norm, and stops before a bad step.

        Returns:
            The means of the losses' parts and the gradient's norm, and the number of minibatches.
        """
        config = self.config
        sums = torch.zeros(len(self._parts), device=self.device)
        made, an_epoch = 0, self._num_minibatches(lesson.rollout)
        for _ in range(config.epochs):
            before = sums.clone()
            for rows in self._shuffled(lesson.rollout):
                with products(config.precision):
                    sums += self._minibatch(lesson, rows, is_watched=is_watched)
                made += 1
            if config.target_kl is not None:
                kl = (sums - before)[PARTS.index("approx_kl")] / an_epoch
                if float(kl) > 1.5 * config.target_kl:
                    break
        means = {name: total / made for name, total in zip(self._parts, sums.tolist(), strict=True)}
        return means | {"minibatches": float(made)}

    def _num_minibatches(self, rollout: Rollout) -> int:
        """Minibatches of an epoch over a rollout of all ranks."""
        rows = rollout.obs.shape[1] * (1 if self._ranks is None else self._ranks.size)
        return num_minibatches(rows, rollout.obs.shape[0], self.config.minibatch_size)

    def _shuffled(self, rollout: Rollout) -> Sequence[Tensor]:
        """The rows (n,) of each minibatch of an epoch, on the device.

        Of several ranks each has as many rows in every minibatch: the m-th of each stratum of `minibatches` rows that
        follow one another in the run, shuffled, so the union over the ranks does not depend on their number.
        """
        num_rows, minibatches, ranks = rollout.obs.shape[1], self._num_minibatches(rollout), self._ranks
        if ranks is None:
            return sent(self._rng.permutation(num_rows), self.device).tensor_split(minibatches)
        strata = self._rng.permuted(np.arange(num_rows * ranks.size).reshape(-1, minibatches), axis=1)
        own = strata.reshape(ranks.size, -1, minibatches)[ranks.rank] - ranks.rank * num_rows
        rows, segments = own // rollout.segments, own % rollout.segments  # a row's segments follow one another
        return sent(np.ascontiguousarray((segments * (num_rows // rollout.segments) + rows).T), self.device).unbind()

    def _minibatch(self, lesson: UpdateData, rows: Tensor, *, is_watched: bool = False) -> Tensor:
        """One optimiser step on `rows` (n,); returns what `_parts` names."""
        config, most_begins = self.config, lesson.most_begins
        parts = [lesson.pick(some) for some in rows.tensor_split(config.accumulate or 1)]
        if self._graphs is None or is_watched:
            return self._improve(parts, most_begins, lesson.rollout if is_watched else None)
        fixed = config.value_coefficient, config.max_gradient_norm, config.adam_epsilon, config.precision
        moments = [x for values in self.optimizer.state.values() for x in values.values()]
        rates = [group["lr"] for group in self.optimizer.param_groups]
        return self._graphs.call(
            (*(part.shape for part in parts), most_begins, fixed),
            lambda given: self._improve(given, most_begins),
            parts,
            [*self._parameters, *moments, *rates, *self._scheduled],
        )

    def _improve(self, parts: Sequence[Minibatch], most_begins: int, watched: Rollout | None = None) -> Tensor:
        """One optimiser step on a minibatch, which may be in parts that are computed one after the other.

        Waits for nothing, and its shapes depend on those of its arguments alone.

        watched: the rollout, where a gradient that is not finite is to be looked for.

        Returns:
            (P,), what `_parts` names; the gradient's norm is that before clipping.
        """
        config = self.config
        sizes = [part.figures[0].numel() for part in parts]
        foresight, shown = self._foresight, None
        if foresight is not None:
            shown = torch.stack([foresight.changes(part.obs, part.is_first) for part in parts]).sum()
            shown = shown if self._ranks is None else self._ranks.sum_(shown)
        self.optimizer.zero_grad(set_to_none=True)
        size = sum(sizes) * (1 if self._ranks is None else self._ranks.size)
        told = [self._add_gradient(part, most_begins, size, shown, watched) for part in parts]
        means = _means([loss for loss, _ in told], sizes)
        unforeseen = [x for _, x in told if x is not None]
        unseen = [torch.stack(unforeseen).sum()] if unforeseen else []
        if self._ranks is not None:
            added = self._add_up(self._ranks, [*means, *unseen])
            means, unseen = [x / self._ranks.size for x in added[: len(means)]], added[len(means) :]
        norm = self._gradient_norm()
        nn.utils.clip_grads_with_norm_(self._parameters, config.max_gradient_norm, norm)
        self.optimizer.step()
        return torch.stack([*means, norm, *(1 - x for x in unseen)])

    def _add_up(self, ranks: Ranks, figures: Sequence[Tensor]) -> list[Tensor]:
        """Makes the weights' gradients their sums over the ranks, by one all-reduce; those of `figures` (0-d)."""
        for parameter in self._parameters:  # one that a rank's samples do not reach has a gradient all the same
            if parameter.grad is None and parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        flat = ranks.sum_(torch.cat([*(x.flatten() for x in gradients), torch.stack([*figures])]))
        parts = torch.split(flat, [*(x.numel() for x in gradients), len(figures)])
        torch._foreach_copy_(gradients, [part.view_as(x) for part, x in zip(parts, gradients, strict=False)])
        return list(parts[-1].unbind())

    def _add_gradient(
        self, given: Minibatch, most_begins: int, size: int, shown: Tensor | None, watched: Rollout | None
    ) -> tuple[PPOLoss, Tensor | None]:
        """Adds to the weights' gradients what a part of a minibatch of `size` samples is of them.

        shown: of the whole minibatch, as `Foresight.changes`.

        Returns:
            Its loss, and its part of the share of the opponent's changes that is not foretold.
        """
        config = self.config
        new, error = self._evaluate(given, most_begins)
        scheduled, value_coefficient = self._scheduled, config.value_coefficient
        loss = ppo(new, *given.figures, scheduled=scheduled, value_coefficient=value_coefficient, size=size)
        told = [(x, gradient) for x, gradient in zip(new, loss.gradient, strict=True) if x.requires_grad]
        unforeseen = None if error is None or shown is None else error / shown
        if unforeseen is not None:
            told.append((unforeseen, torch.full_like(unforeseen, config.opponent_prediction)))
        torch.autograd.backward([x for x, _ in told], [gradient for _, gradient in told])
        if watched is not None and not math.isfinite(self._gradient_norm()):
            outputs = dict(zip(("log-probabilities", "entropies", "values"), new, strict=True))
            named = {name: p.grad for name, p in self._named_parameters() if p.grad is not None}
            problem = first_bad("the network's", outputs) or first_bad("the gradient of", named)
            raise self._sick(problem or "the gradient's norm is too large for float32", watched, loss)
        return loss, None if unforeseen is None else unforeseen.detach()

    def _gradient_norm(self) -> Tensor:
        return nn.utils.get_total_norm([p.grad for p in self._parameters if p.grad is not None])

    def _evaluate(self, given: Minibatch, most_begins: int) -> tuple[EvaluatedActions, Tensor | None]:
        """What the network says of a minibatch, and the error of what it foretells (`Foresight.error`)."""
        segment = given.obs, given.action, given.state, given.is_first, given.mask, given.watched
        with autocast(self.device, self.config.precision):
            if self._foresight is None:
                outputs, error = self.sequence(*segment, *((most_begins,) if self.is_capturable else ())), None
            else:
                latents = encoding(self.policy).latents(given.obs, given.state, given.is_first, given.watched)
                outputs = self.sequence(*segment, most_begins, latents)
                error = self._foresight.error(given.obs, given.is_first, latents)
        return EvaluatedActions(*(x.float() for x in outputs)), error

    def _named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """All that is learned: the network's, then those of the layer beside it."""
        yield from self.policy.named_parameters()
        if self._foresight is not None:
            yield from self._foresight.named_parameters("foresight")

    def _sick(self, problem: str, rollout: Rollout, loss: PPOLoss | None = None) -> GuardError:
        """`problem` with the figures beside it, and what to try."""
        config = self.config
        reward, value = (float(x.abs().max()) for x in (rollout.reward, rollout.value))
        figures = f"rewards up to {reward:.3g}, values up to {value:.3g}"
        if loss is not None:
            figures += f", policy loss {loss.policy.item():.3g}, value loss {loss.value.item():.3g}"
        return GuardError(
            f"not_finite: {problem} ({figures}); the update is not applied; if rewards are too large for float32, lower"
            f" the weights in [rewards]; else lower learner.learning_rate={config.learning_rate:g}"
            + (" or set learner.precision=float32" if config.precision == "bf16" else ""),
            "not_finite",
        )

    def state_dict(self) -> dict[str, Any]:
        """Weights, optimiser and RNG; tensors and plain values only.

        Moments that Adam's first step was making when the memory ran out are left out.
        """
        moments = {i: values for i, values in self.optimizer.state_dict()["state"].items() if len(values) == 3}
        foresight = {} if self._foresight is None else {"foresight": self._foresight.state_dict()}
        return {
            "policy": self.policy.state_dict(),
            **foresight,
            **({} if self._magnet is None else {"magnet": self._magnet.state_dict()}),
            "optimizer": {str(index): dict(values) for index, values in moments.items()},
            "rate_share": self._steered,
            "returns": self.returns.state_dict(),
            "rng": self._rng.bit_generator.state,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.policy.load_state_dict(state["policy"])
        if self._foresight is not None:
            self._foresight.load_state_dict(state["foresight"])
        if self._magnet is not None:
            self._magnet.load_state_dict(state["magnet"])
        groups = self.optimizer.state_dict()["param_groups"]
        moments = {int(index): values for index, values in state["optimizer"].items()}
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        self._steered = state["rate_share"]
        self.returns = ReturnSize(**state["returns"])
        self._set_rate()
        self._rng.bit_generator.state = state["rng"]


def _of_all(rollout: Rollout, ranks: Ranks) -> Rollout:
    """A rollout with the figures (T, B) of all ranks' rows; observations, actions and memories are of this one's."""
    names = ("log_prob", "value", "reward", "next_value", "ends", "is_first")
    whole: dict[str, Any] = {name: ranks.whole(getattr(rollout, name), rollout.segments) for name in names}
    return replace(rollout, **whole)


def _means(losses: Sequence[PPOLoss], sizes: Sequence[int]) -> Sequence[Tensor]:
    """The losses' parts as `PARTS` orders them, over the samples of all of them."""
    told = [(x.policy, x.value, x.entropy, x.approx_kl, x.clip_share) for x in losses]
    if len(told) == 1:
        return told[0]
    shares = [torch.stack(x) * (size / sum(sizes)) for x, size in zip(told, sizes, strict=True)]
    return torch.stack(shares).sum(0).unbind()


def _told(rollout: Rollout, targets: Tensor, size: float) -> dict[str, float]:
    """What a rollout was like, read at once; rewards and values in the game's units, `size` of which values count in.

    The explained variance is 1 - Var(target - value) / Var(target): 1 perfect, 0 no better than a constant.
    """
    means = [x.mean() for x in (rollout.log_prob, rollout.value, rollout.reward)]
    found = torch.stack([*means, targets.var(), (targets - rollout.value).var()])
    log_prob, value, reward, variance, left = found.tolist()
    return {
        "entropy_in_play": -log_prob,
        "explained_variance": 1 - left / variance if variance > 0 else 0.0,
        "value_mean": value * size,
        "return_size": size,
        "reward_per_step": reward,
    }
