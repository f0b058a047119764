"""Bots written in Python, for any game: a function of what a seat sees, played as a frozen net is."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from league.errors import LeagueError
from league.types import ActionSpec, FloatArray, Mask

Bot = Callable[[FloatArray, Mask | None, np.random.Generator], "float | Sequence[float] | npt.NDArray[Any]"]
"""(observation (obs_size,), legal (M,) or None, generator) -> one action: a number, or one a part, A in all.

Of `legal_tuples`, `legal` is (n, A), the n actions that are legal. Real numbers are floats within their bounds.
"""


@dataclass
class NoMemory:
    """What a bot remembers of its rows: nothing."""

    def tensors(self) -> dict[str, Tensor]:
        """None."""
        return {}

    def clear(self, rows: Tensor) -> None:
        """Nothing to do."""

    def select(self, rows: Tensor | None) -> NoMemory:
        """Itself."""
        return self

    def join(self, others: Sequence[Any]) -> NoMemory:
        """Itself."""
        return self

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Nothing to do."""


class BotPolicy(nn.Module):
    """A bot as a `league.types.Policy` that plays and does not learn.

    Each decision has a generator of its own, seeded by a number of the run's, so that a run that goes on plays as one
    that was never stopped.

    Args:
        name: in errors.
        bot: the function.
        action: the game's.
        device: where actions are wanted.
    """

    def __init__(self, name: str, bot: Bot, action: ActionSpec, device: torch.device) -> None:
        super().__init__()
        self._name, self._bot, self._action = name, bot, action
        self._type = np.dtype(np.float32 if action.has_real else np.int64)
        self.register_parameter("place", nn.Parameter(torch.zeros(1, device=device), requires_grad=False))

    def initial_state(self, num_rows: int) -> NoMemory:
        """See `Policy.initial_state`."""
        del num_rows
        return NoMemory()

    def step(
        self,
        obs: Tensor,
        state: NoMemory,
        *,
        mask: Tensor | None = None,
        rows: Tensor | None = None,
        generator: torch.Generator | None = None,
        greedy: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See `Policy.step`: a bot has no probabilities and no values, so both are 0. Waits for the device.

        Raises:
            LeagueError: the bot fails, or what it returns is no action.
        """
        del state, rows, greedy
        drawn = torch.randint(2**62, (len(obs),), generator=generator, device=obs.device).tolist()
        seen, allowed = obs.cpu().numpy(), None if mask is None else mask.cpu().numpy()
        seen.flags.writeable = False
        actions = np.empty((len(obs), self._action.num_parts), self._type)
        for i, seed in enumerate(drawn):
            legal = None if allowed is None else self._legal(allowed[i])
            actions[i] = self._checked(seen[i], legal, np.random.Generator(np.random.Philox(seed)))
        nothing = torch.zeros(len(obs), device=obs.device)
        return torch.from_numpy(actions).to(obs.device), nothing, nothing

    def watch(self, obs: Tensor, state: NoMemory, *, rows: Tensor | None = None) -> None:
        """See `Policy.watch`: a bot remembers nothing."""

    def _legal(self, mask: Mask) -> Mask:
        if self._action.kind != "legal_tuples":
            return mask
        tuples = self._action.tuples(mask)
        return tuples[tuples[:, 0] >= 0]

    def _checked(self, obs: FloatArray, legal: Mask | None, rng: np.random.Generator) -> npt.NDArray[Any]:
        try:
            given = self._bot(obs, legal, rng)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(last.filename).name}, line {last.lineno}"
            raise LeagueError(f"bot {self._name}: {type(error).__name__}: {error} ({where})") from error
        action = np.atleast_1d(np.asarray(given))
        kinds = "iubf" if self._action.has_real else "iub"
        if action.shape != (self._action.num_parts,) or action.dtype.kind not in kinds:
            raise LeagueError(f"bot {self._name}: returns {given!r}; it must be {_wanted(self._action)}")
        rounded = action.astype(self._type)
        for x, rule in zip(rounded, _rules(self._action), strict=True):
            low, high = np.array(rule if isinstance(rule, tuple) else (0, rule - 1), self._type)
            if not low <= x <= high or not (isinstance(rule, tuple) or x == np.floor(x)):
                raise LeagueError(f"bot {self._name}: returns {given!r}, which is no action; {_wanted(self._action)}")
        return rounded


def _rules(action: ActionSpec) -> list[int | tuple[float, float]]:
    """Of each number of an action how many choices there are, or the bounds of a real number."""
    return [rule for leaf in action.leaves for rule in leaf.bounds or leaf.choices]


def _wanted(action: ActionSpec) -> str:
    """What an action of the game is, in words."""
    rules = _rules(action)
    ranges = ", ".join(f"{x[0]:g} to {x[1]:g}" if isinstance(x, tuple) else f"0 to {x - 1}" for x in rules)
    what = "number" if action.has_real else "whole number"
    return f"one {what}, {ranges}" if action.num_parts == 1 else f"{action.num_parts} {what}s: {ranges}"
