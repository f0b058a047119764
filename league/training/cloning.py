"""Behaviour cloning: a network learns to decide as recorded players did (Pomerleau 1991; Torabi et al. 2018).

It maximises the log-probability of what was decided among what was legal, over whole matches, so that its memory
learns, too. Matches that it never sees say when to stop.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from league.config.models import LearnerConfig
from league.errors import LeagueError
from league.play.demonstrations import Demonstration, DemonstrationBatch, batch_of
from league.play.seats import mask_type
from league.runtime.device import autocast, products
from league.runtime.phases import phase
from league.types import ActionSpec, Policy, Standardising

MINIBATCH = 512
"""Decisions of a minibatch, the repeated ones of shorter matches included; one match alone may have more."""
PATIENCE = 5
"""Epochs without a smaller loss on matches held out after which learning ends."""


@dataclass(frozen=True)
class CloneFit:
    """How well a clone decides in matches that were held out of its learning."""

    epochs: int
    """Passes over the demonstrations, the last ones of which did not help."""
    log_loss: float
    """Mean -log p of a decision, in nats."""
    accuracy: float | None
    """Share of decisions in which its likeliest action is the one played; None where an action has real numbers."""
    most_frequent: float | None
    """The share that the most frequent action would get."""


class Cloning:
    """Makes `policy`, in place, a clone of those who played the demonstrations.

    Args:
        policy: the network; the weights that did best on the matches held out are its own at the end.
        spec: the game's actions.
        config: learning rate, precision, and the bound of the gradient's norm.
        rng: draws the minibatches.
        device: where the network is.
    """

    def __init__(
        self, policy: Policy, spec: ActionSpec, config: LearnerConfig, rng: np.random.Generator, device: torch.device
    ) -> None:
        self._policy, self._spec, self._config, self._rng, self._device = policy, spec, config, rng, device
        begins = "most_begins" in inspect.signature(policy.sequence).parameters
        self._more = (0,) if begins else ()  # as `Capturable` has it: each row is one match

    @phase("clone")
    def learn(
        self,
        shown: Sequence[Demonstration],
        held_out: Sequence[Demonstration],
        epochs: int,
        say: Callable[[str], None],
    ) -> CloneFit:
        """Passes over `shown` until `held_out` are not predicted better, at most `epochs` times.

        say: receives a line an epoch.

        Raises:
            LeagueError: the loss is not finite.
        """
        policy, config = self._policy, self._config
        if isinstance(policy, Standardising):
            seen = np.concatenate([each.obs for each in shown])[:, None]
            policy.take_statistics(torch.from_numpy(seen).to(self._device))
        rate = config.rate_share * config.learning_rate
        optimizer = torch.optim.Adam(policy.parameters(), lr=rate, eps=config.adam_epsilon)
        least, best, best_epoch, epoch = math.inf, copy.deepcopy(policy.state_dict()), 0, 0
        while epoch < epochs and epoch - best_epoch < PATIENCE:
            epoch += 1
            for batch in self._batches(shown):
                loss = self._loss(batch) / batch.counts.sum()
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(policy.parameters(), config.max_gradient_norm)
                optimizer.step()
            found = self.log_loss(held_out)
            if not math.isfinite(found):
                raise LeagueError(
                    f"not_finite: the clone's loss is {found} after {epoch} epochs; lower"
                    f" learner.learning_rate={config.learning_rate:g}"
                )
            say(f"epoch {epoch}: {found:.4f} nats a decision on matches held out")
            if found < least:
                least, best, best_epoch = found, copy.deepcopy(policy.state_dict()), epoch
        policy.load_state_dict(best)
        return CloneFit(epoch, least, *self._shares(shown, held_out))

    @torch.no_grad()
    def log_loss(self, some: Sequence[Demonstration]) -> float:
        """Mean -log p of their decisions, in nats."""
        batches = [batch_of(each, self._spec, self._device) for each in _grouped(some)]
        return sum(float(self._loss(batch)) for batch in batches) / sum(each.decisions for each in some)

    def _batches(self, some: Sequence[Demonstration]) -> Iterator[DemonstrationBatch]:
        """Minibatches of all of them, in an order drawn."""
        for each in _grouped([some[i] for i in self._rng.permutation(len(some)).tolist()]):
            yield batch_of(each, self._spec, self._device)

    def _loss(self, batch: DemonstrationBatch) -> Tensor:
        """The sum of -log p over the decisions of a batch."""
        state = self._policy.initial_state(len(batch.obs))
        segment = batch.obs, batch.action, state, batch.is_first, batch.mask, batch.watched
        with products(self._config.precision), autocast(self._device, self._config.precision):
            log_prob: Tensor = self._policy.sequence(*segment, *self._more)[0]
        return -log_prob.float()[batch.counts].sum()

    def _shares(
        self, shown: Sequence[Demonstration], held_out: Sequence[Demonstration]
    ) -> tuple[float | None, float | None]:
        """Accuracy on the matches held out, and what the most frequent action of the others would get there."""
        if self._spec.has_real:
            return None, None
        played = [x.actions[x.decides] for x in held_out]
        counts = Counter(tuple(action) for x in shown for action in x.actions[x.decides].tolist())
        frequent = counts.most_common(1)[0][0]
        right = [self._right(each) for each in _grouped(held_out)]
        total = sum(map(len, played))
        return sum(right) / total, sum(int((x == frequent).all(-1).sum()) for x in played) / total

    @torch.no_grad()
    def _right(self, some: Sequence[Demonstration]) -> int:
        """In how many decisions the likeliest action is the one played, step by step as in play."""
        policy, device, right = self._policy, self._device, 0
        state = policy.initial_state(len(some))
        for moment in range(max(len(each.obs) for each in some)):
            for decides in (True, False):
                rows = [i for i, x in enumerate(some) if moment < len(x.obs) and x.decides[moment] == decides]
                if not rows:
                    continue
                where = torch.tensor(rows, device=device)
                obs = torch.from_numpy(np.stack([some[i].obs[moment] for i in rows])).to(device)
                if not decides:
                    policy.watch(obs, state, rows=where)
                    continue
                masks = [x[moment] for x in (some[i].mask for i in rows) if x is not None]
                mask = torch.from_numpy(np.stack(masks)).to(device, mask_type(self._spec)) if masks else None
                action: Any = policy.step(obs, state, mask=mask, rows=where, greedy=True)[0].cpu().numpy()
                right += int((action == np.stack([some[i].actions[moment] for i in rows])).all(-1).sum())
        return right


def _grouped(some: Sequence[Demonstration]) -> Iterator[list[Demonstration]]:
    """In their order, as many together as make a minibatch."""
    group: list[Demonstration] = []
    longest = 0
    for each in some:
        longest = max(longest, each.decisions)
        if group and (len(group) + 1) * longest > MINIBATCH:
            yield group
            group, longest = [], each.decisions
        group.append(each)
    if group:
        yield group
