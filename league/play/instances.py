"""Bots in Python that remember their match: a class or a factory, an object a match."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from league.errors import CodeError, GuardError, code_told, shown
from league.play.bots import ActionChoices
from league.play.histories import Failure
from league.runtime.process import StepKept
from league.types import FloatArray, Mask

ADVICE = "mend it, and name it again with --bot"
MOST_ARGUMENTS = 3
"""Of `act`: the observation, the mask and the info."""


def is_stateful(thing: object) -> bool:
    """Whether it makes a bot a match: a class with a method `act`, or what can be called without arguments alone."""
    if inspect.isclass(thing):
        return callable(getattr(thing, "act", None))
    if not callable(thing):
        return False
    try:
        signature = inspect.signature(thing)
    except ValueError:  # compiled, without one
        return False
    return _binds(signature, 0) and not _binds(signature, MOST_ARGUMENTS)


class InstanceHost:
    """Objects of one class, each of which plays one match (`league.play.histories.Host`).

    Args:
        name: in errors.
        make: the class or factory.
        choices: the game's actions.
    """

    def __init__(self, name: str, make: Callable[[], Any], choices: ActionChoices) -> None:
        self._name, self._make, self._choices = name, make, choices
        self._bots: dict[int, tuple[Any, int, np.random.Generator]] = {}
        """By match: the bot, how many arguments its `act` takes, and what it draws from."""
        self.live: set[int] = set()

    def begin_step(self) -> None:
        """See `Host.begin_step`."""

    def begin(self, seeds: Mapping[int, int]) -> dict[int, Failure]:
        """See `Host.begin`.

        Raises:
            CodeError: the class raises something.
        """
        for match, seed in seeds.items():
            with code_told(f"bot:{self._name}", ADVICE), StepKept():
                bot = self._make()
                if not callable(getattr(bot, "act", None)):
                    raise CodeError(f"bot:{self._name}: made {shown(bot)}, which has no method act(obs); {ADVICE}")
                if callable(getattr(bot, "reset", None)):
                    bot.reset()
                signature = inspect.signature(bot.act)
            takes = next((n for n in range(MOST_ARGUMENTS, 0, -1) if _binds(signature, n)), 0)
            if not takes:
                raise CodeError(f"bot:{self._name}: act{signature} must take obs, or obs, mask, info; {ADVICE}")
            self._bots[match] = bot, takes, np.random.Generator(np.random.Philox(seed))
            self.live.add(match)
        return {}

    def watch(self, match: int, obs: FloatArray) -> None:
        """See `Host.watch`: it sees what it decides on alone."""

    def act(self, seen: Mapping[int, tuple[FloatArray, Mask | None]]) -> dict[int, list[float] | Failure]:
        """See `Host.act`.

        Raises:
            CodeError: the bot raises something.
            GuardError: what it answers is not legal.
        """
        answers: dict[int, list[float] | Failure] = {}
        for match, (obs, mask) in seen.items():
            bot, takes, rng = self._bots[match]
            info = {"legal": self._choices.from_mask(mask), "rng": rng}
            with code_told(f"bot:{self._name}", ADVICE), StepKept():
                answer = bot.act(*(obs, mask, info)[:takes])
            try:
                answers[match] = self._choices.flat(self._choices.check(answer, self._choices.from_mask(mask)))
            except (ValueError, OverflowError) as error:
                problem = " ".join(str(error).split())
                raise GuardError(f"bot:{self._name}: {problem}; {ADVICE}", "bad_bot") from None
        return answers

    def end(self, match: int) -> None:
        """See `Host.end`."""
        self.live.discard(match)
        self._bots.pop(match, None)


def _binds(signature: inspect.Signature, count: int) -> bool:
    """Whether a function can be called with `count` arguments."""
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
