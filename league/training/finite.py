"""Whether the numbers that learning works with are finite, and the weights to go back to when they are not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from league.types import Rollout


class LastFinite:
    """The weights and the optimiser's moments as they were before an update.

    Args:
        parameters: the weights, which the optimiser changes.
        optimizer: may have no moments yet.
    """

    def __init__(self, parameters: Sequence[torch.nn.Parameter], optimizer: torch.optim.Optimizer) -> None:
        self._parameters, self._optimizer = parameters, optimizer
        self._copies: list[Tensor] = []

    @torch.no_grad()
    def keep(self) -> None:
        """Copies what is there now, into the same memory each time."""
        now = self._tensors()
        if len(self._copies) != len(now):
            self._copies = [x.clone() for x in now]
            return
        for copy, x in zip(self._copies, now, strict=True):
            copy.copy_(x)

    @torch.no_grad()
    def restore(self) -> None:
        """Puts back what was kept; moments that were made since are forgotten."""
        if len(self._copies) == len(self._parameters):
            self._optimizer.state.clear()
        for x, copy in zip(self._tensors(), self._copies, strict=True):
            x.copy_(copy)

    def _tensors(self) -> list[Tensor]:
        moments = (values for p in self._parameters if (values := self._optimizer.state.get(p)))
        return [*self._parameters, *(x for values in moments for x in values.values() if isinstance(x, Tensor))]


def bad_rollout(rollout: Rollout) -> str:
    """The first number of a rollout that is not finite, in words; empty if all are. Waits for the device once."""
    tensors = {
        "reward": rollout.reward,
        "value": rollout.value,
        "next_value": rollout.next_value,
        "log_prob": rollout.log_prob,
    }
    if bool(torch.stack([torch.isfinite(x).all() for x in tensors.values()]).all()):
        return ""
    name, tensor = next((name, x) for name, x in tensors.items() if not torch.isfinite(x).all())
    step, row = torch.nonzero(~torch.isfinite(tensor))[0].tolist()
    return f"{name} of row {row} in step {step} of the rollout is {tensor[step, row].item()}"


def bad_weights(named: Iterable[tuple[str, Tensor]]) -> str:
    """The first weight that is not finite, in words; empty if all are. Waits for the device once."""
    weights = {name: x.detach() for name, x in named}
    norm = torch.nn.utils.get_total_norm(list(weights.values()))
    return "" if bool(torch.isfinite(norm)) else first_bad("after the update, weight", weights)


def first_bad(what: str, tensors: Mapping[str, Tensor]) -> str:
    """The first of some tensors that has a number which is not finite, and how many others have; empty if none has."""
    bad = [name for name, x in tensors.items() if not bool(torch.isfinite(x).all())]
    if not bad:
        return ""
    others = f", nor are {len(bad) - 1} of the {len(tensors) - 1} others" if len(bad) > 1 else ""
    return f"{what} {bad[0]} is not finite{others}"
