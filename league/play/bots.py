"""Bots written in Python, for any game: a function of what a seat sees, played as a frozen net is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from league.errors import GuardError, code_told
from league.runtime.process import StepKept
from league.runtime.rows import draw_integers
from league.types import ActionSpec, FloatArray, Mask, Watched

Bot = Callable[[FloatArray, Any, np.random.Generator], Any]
"""(observation, legal, rng) -> action, as of the bots of `league.envs.Match`.

observation: (obs_size,) float32, read-only. legal: what is legal, in lists of its own (docs/bring.md); of a game
without masks everything. rng: seeded for this one decision.
"""


class ActionChoices(Protocol):
    """The actions of a game as bots speak of them (`league.envs.matches.mixtures.choices_of`)."""

    spec: ActionSpec

    def from_mask(self, mask: Mask | None) -> Any:
        """What a mask row (M,) allows, in lists of their own; None: everything."""

    def check(self, answer: Any, options: Any) -> Any:
        """A bot's answer as an action; ValueError where it is not legal."""

    def flat(self, action: Any) -> list[float]:
        """An action as A numbers."""


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
        choices: the game's actions.
        device: where actions are wanted.
    """

    def __init__(self, name: str, bot: Bot, choices: ActionChoices, device: torch.device) -> None:
        super().__init__()
        self.name, self._bot, self._choices = name, bot, choices
        self._type = np.dtype(np.float32 if choices.spec.has_real else np.int64)
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
            GuardError: the bot fails, or what it answers is not legal.
        """
        del state, rows, greedy
        drawn = draw_integers(2**62, obs.shape[:1], generator, obs.device).tolist()
        allowed = None if mask is None else mask.cpu().numpy()
        seen = obs.cpu().numpy().copy()
        seen.flags.writeable = False
        actions = np.empty((len(obs), self._choices.spec.num_parts), self._type)
        with StepKept():
            for i, seed in enumerate(drawn):
                legal = None if allowed is None else allowed[i]
                actions[i] = self.decide(seen[i], legal, np.random.Generator(np.random.Philox(seed)))
        nothing = torch.zeros(len(obs), device=obs.device)
        return torch.from_numpy(actions).to(obs.device), nothing, nothing

    def value(self, obs: Tensor, state: NoMemory, *, rows: Tensor | None = None) -> Tensor:
        """See `Policy.value`: 0."""
        del state, rows
        return torch.zeros(len(obs), device=obs.device)

    def sequence(
        self,
        obs: Tensor,
        action: Tensor,
        state: NoMemory,
        is_first: Tensor,
        mask: Tensor | None = None,
        watched: Watched | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """A bot does not learn, so nobody calls it."""
        raise NotImplementedError(f"bot:{self.name} does not learn")

    def watch(self, obs: Tensor, state: NoMemory, *, rows: Tensor | None = None) -> None:
        """See `Policy.watch`: a bot remembers nothing."""

    def take_notes(self) -> list[tuple[str, str]]:
        """What has happened since the last call, as (kind of event, line): nothing."""
        return []

    def decide(self, obs: FloatArray, mask: Mask | None, rng: np.random.Generator) -> list[float]:
        """One decision, as A numbers, on obs (obs_size,), mask (M,).

        Raises:
            GuardError: as `step`.
        """
        choices = self._choices
        if mask is not None and not len(mask):  # of real numbers alone
            mask = None
        with code_told(f"bot:{self.name}", "mend it, and name it again with --bot"):
            answer = self._bot(obs, choices.from_mask(mask), rng)
        try:
            return choices.flat(choices.check(answer, choices.from_mask(mask)))
        except (ValueError, OverflowError) as error:
            raise self._bad(" ".join(str(error).split())) from None

    def _bad(self, problem: str) -> GuardError:
        return GuardError(f"bot:{self.name}: {problem}; mend it, and name it again with --bot", "bad_bot")
