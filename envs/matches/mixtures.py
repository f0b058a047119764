"""Real numbers and mixtures in a match in plain Python, and the choices of whatever kind a game's actions are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from league.envs.matches.choices import Choices, Keys, Parts, Tuples
from league.types import ActionSpec, Mask


class Reals(Choices):
    """Real numbers: an action is a tuple of these, the options are their bounds, and nothing within them is illegal."""

    def look_up(self, legal: Any) -> tuple[Any, Mask]:
        """As `Choices.look_up`; there is nothing to say, so `legal` is None."""
        if legal is not None:
            raise ValueError(f"legal gave {legal!r} for real numbers, which are all legal; give None for them")
        return self.everything, self.meaningless

    def from_mask(self, mask: Mask | None) -> Any:
        """As `Choices.from_mask`."""
        del mask
        return self._everything()

    def take(self, given: Sequence[Any], options: Any) -> Any:
        """As `Choices.take`."""
        del options
        problem = self._problem(given)
        if problem:
            raise ValueError(f"actions: {problem}")
        return tuple(given)

    def check(self, answer: Any, options: Any) -> Any:
        """As `Choices.check`; what comes back is rounded to float32, as actions of the engine are."""
        del options
        try:
            action = tuple(float(np.float32(x)) for x in answer)
        except (TypeError, ValueError):
            action = ()
        problem = self._problem(action)
        if problem:
            raise ValueError(f"answered {answer!r}: {problem}")
        return action

    def draw(self, options: Any, rng: np.random.Generator) -> Any:
        """As `Choices.draw`."""
        del options
        return tuple(self.spec.legal_actions(None, rng.random(self.spec.num_draws)).tolist())

    def flat(self, action: Any) -> list[float]:
        """As `Choices.flat`."""
        return list(action)

    def read(self, stored: Any) -> Any:
        """As `Choices.read`."""
        action = tuple(stored) if isinstance(stored, list) and all(type(x) in (int, float) for x in stored) else ()
        if self._problem(action):
            raise ValueError(f"{stored!r} is no action")
        return action

    def _everything(self) -> Any:
        return list(self.spec.bounds)

    def _mask(self, options: Any) -> Mask:
        del options
        return np.zeros(0, np.bool_)

    def _problem(self, action: Sequence[float]) -> str:
        """Why it is no action; empty where it is one."""
        if len(action) != self.spec.num_parts:
            return f"must be {self.spec.num_parts} real numbers"
        if self.spec.is_legal(np.array(action, np.float32), None):
            return ""
        return f"{list(action)} is not within the bounds {self.spec.bounds}"


class Mixed(Choices):
    """Parts of several kinds: an action is a tuple, or a dict where they have names, of the actions of each part.

    The options are a list or a dict of those of each part. What a match says is legal is likewise; None, or a name left
    out, says that all is.
    """

    def __init__(self, spec: ActionSpec) -> None:
        self._parts = [choices_of(part) for part in spec.parts]
        super().__init__(spec)

    def look_up(self, legal: Any) -> tuple[Any, Mask]:
        """As `Choices.look_up`."""
        given = self._split(legal, "legal gave", is_whole=False)
        pairs = [
            (part.everything, part.meaningless) if own is None else part.look_up(own)
            for part, own in zip(self._parts, given, strict=True)
        ]
        return self._join([options for options, _ in pairs]), np.concatenate([mask for _, mask in pairs])

    def from_mask(self, mask: Mask | None) -> Any:
        """As `Choices.from_mask`."""
        found, at = [], 0
        for part in self._parts:
            size = part.spec.mask_size
            found.append(part.from_mask(None if mask is None or not size else mask[at : at + size]))
            at += size
        return self._join(found)

    def take(self, given: Sequence[Any], options: Any) -> Any:
        """As `Choices.take`, part by part."""
        taken, at = [], 0
        for part, own in zip(self._parts, self._listed(options), strict=True):
            numbers = given[at : at + part.spec.num_parts]
            at += part.spec.num_parts
            taken.append(part.take(_whole(numbers, part), own))
        return self._join(taken)

    def check(self, answer: Any, options: Any) -> Any:
        """As `Choices.check`, part by part."""
        given = self._split(answer, "answered")
        each = zip(self._parts, given, self._listed(options), strict=True)
        return self._join([part.check(own, allowed) for part, own, allowed in each])

    def draw(self, options: Any, rng: np.random.Generator) -> Any:
        """As `Choices.draw`, part by part."""
        each = zip(self._parts, self._listed(options), strict=True)
        return self._join([part.draw(allowed, rng) for part, allowed in each])

    def flat(self, action: Any) -> list[float]:
        """As `Choices.flat`."""
        each = zip(self._parts, self._listed(action), strict=True)
        return [x for part, own in each for x in part.flat(own)]

    def read(self, stored: Any) -> Any:
        """As `Choices.read`."""
        given = self._split(stored, "the state has")
        return self._join([part.read(own) for part, own in zip(self._parts, given, strict=True)])

    def _everything(self) -> Any:
        return self._join([part.everything for part in self._parts])

    def _mask(self, options: Any) -> Mask:
        del options
        return np.concatenate([part.meaningless for part in self._parts])

    def _form(self) -> str:
        names = self.spec.names
        return f"a dict of {', '.join(names)}" if names else f"one for each of {len(self._parts)} parts"

    def _join(self, parts: list[Any]) -> Any:
        return dict(zip(self.spec.names, parts, strict=True)) if self.spec.names else tuple(parts)

    def _listed(self, joined: Any) -> list[Any]:
        return [joined[name] for name in self.spec.names] if self.spec.names else list(joined)

    def _split(self, given: Any, what: str, *, is_whole: bool = True) -> list[Any]:
        """What is given for each part, None for those that a dict leaves out where that may be."""
        names = self.spec.names
        if names:
            fits = isinstance(given, dict) and set(given) <= set(names) and (not is_whole or len(given) == len(names))
            if fits:
                return [given.get(name) for name in names]
        elif isinstance(given, list | tuple) and len(given) == len(self._parts):
            return list(given)
        raise ValueError(f"{what} {given!r}; it must be {self._form()}")


def choices_of(spec: ActionSpec) -> Choices:
    """The choices of a game's actions, of the kind that they are."""
    if spec.kind == "mixture":
        return Mixed(spec)
    if spec.kind == "box":
        return Reals(spec)
    if spec.kind == "multi_binary":
        return Keys(spec)
    if spec.kind == "legal_tuples":
        return Tuples(spec)
    return Choices(spec) if spec.num_parts == 1 else Parts(spec)


def _whole(given: Sequence[float], part: Choices) -> Sequence[float]:
    """A part's numbers of an action that is float32 for another part's sake: integers where they are choices.

    Raises:
        ValueError: a choice is no whole number.
    """
    if part.spec.has_real:
        return given
    whole = [int(x) if np.isfinite(x) else -1 for x in given]
    if whole != list(given):
        raise ValueError(f"actions have {list(given)} where choices are whole numbers")
    return whole
