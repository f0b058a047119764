"""What is legal in a match in plain Python: what `Match.legal` gave, as lists for bots and as masks for the engine."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from league.types import ActionSpec, Mask

MAX_KNOWN = 4_096
"""Different sets of legal actions whose masks are kept."""


class Choices:
    """The actions of a game, each a number here; subclasses have other kinds.

    `look_up` turns what a match says is legal into options, a list that bots get, and a mask row (M,).
    """

    def __init__(self, spec: ActionSpec) -> None:
        self.spec = spec
        self._known: dict[Hashable, tuple[Any, Mask]] = {}
        self.everything: Any = self._everything()
        """The options where nothing is forbidden."""
        self.meaningless = self._mask(self.everything)
        """(M,): the mask of a seat that is not to act: it allows something, so that it harms no network."""

    def look_up(self, legal: Any) -> tuple[Any, Mask]:
        """(options, mask row) of what a match says is legal.

        Raises:
            ValueError: it is of another form, empty, or names an action that is not there.
        """
        try:
            if hasattr(legal, "__next__"):
                raise TypeError  # it can be read but once
            key = self._key(legal)
            known = self._known.get(key)
        except TypeError:
            raise ValueError(f"legal gave {legal!r}; it must be {self._form()}") from None
        if known is None:
            options = self._options(legal)
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            known = self._known[key] = options, self._mask(options)
        return known

    def from_mask(self, mask: Mask | None) -> Any:
        """The options of a mask row (M,), in lists of their own; None: everything is legal."""
        if mask is None:
            return self._everything()
        return np.flatnonzero(mask).tolist()

    def take(self, given: Sequence[Any], options: Any) -> Any:
        """The action that the engine wrote as `given` (A,); the first legal one where it is not legal.

        Raises:
            ValueError: it is no action of the game.
        """
        action = given[0]
        if action in options:
            return action
        self._need_inside(given)
        return options[0]

    def check(self, answer: Any, options: Any) -> Any:
        """A bot's answer as an action.

        Raises:
            ValueError: it is not legal.
        """
        try:
            action = index(answer)
        except TypeError:
            action = -1
        if action not in options or isinstance(answer, bool | np.bool_):
            raise ValueError(f"answered {answer!r}, where {_few(options)} are legal")
        return action

    def draw(self, options: Any, rng: np.random.Generator) -> Any:
        """A uniformly random legal action."""
        return options[int(rng.random() * len(options))]

    def is_numbers(self, action: Any) -> bool:
        """Whether `flat` takes what a seat plays: not None, that of a bot which takes no part."""
        return action is not None

    def flat(self, action: Any) -> list[float]:
        """An action as A numbers."""
        return [action]

    def read(self, stored: Any) -> Any:
        """An action as `json` read it.

        Raises:
            ValueError: it is no action of the game.
        """
        if type(stored) is not int or not 0 <= stored < self.spec.choices[0]:
            raise ValueError(f"{stored!r} is no action")
        return stored

    def _everything(self) -> Any:
        return list(range(self.spec.choices[0]))

    def _form(self) -> str:
        return f"a list of the numbers of the legal actions, of 0 to {self.spec.choices[0] - 1}"

    def _key(self, legal: Any) -> Hashable:
        key = tuple(legal)
        hash(key)
        return key

    def _options(self, legal: Any) -> list[Any]:
        options = self._numbers(legal, self.spec.choices[0])
        if not options:
            raise ValueError("legal gave no action; a seat that is to decide needs one, and a match that is over end()")
        return options

    def _mask(self, options: Any) -> Mask:
        mask = np.zeros(self.spec.mask_size, np.bool_)
        mask[options] = True
        return mask

    def _numbers(self, legal: Any, size: int) -> list[int]:
        """`legal` as integers below `size`."""
        numbers = list(legal)
        if any(isinstance(x, bool | np.bool_) for x in numbers):
            raise ValueError(f"legal gave {_few(numbers)}, a mask; it must be {self._form()}")
        try:
            numbers = [index(x) for x in numbers]
        except TypeError:
            raise ValueError(f"legal gave {_few(numbers)}; it must be {self._form()}") from None
        wrong = [x for x in numbers if not 0 <= x < size]
        if wrong:
            raise ValueError(f"legal gave {_few(numbers)}, of which {wrong[0]} is no action: they are 0 to {size - 1}")
        if len({*numbers}) < len(numbers):
            raise ValueError(f"legal gave {_few(numbers)}, one twice, as in a mask; it must be {self._form()}")
        return numbers

    def _need_inside(self, given: Sequence[int]) -> None:
        for part, (x, size) in enumerate(zip(given, self.spec.choices, strict=True)):
            if not 0 <= x < size:
                raise ValueError(f"actions[{part}] is {x}, outside 0 to {size - 1}")


class Parts(Choices):
    """One choice in each of several parts: an action is a tuple, the options are a list for each part."""

    def from_mask(self, mask: Mask | None) -> Any:
        """As `Choices.from_mask`."""
        if mask is None:
            return self._everything()
        return [np.flatnonzero(part).tolist() for part in self.spec.split(mask)]

    def take(self, given: Sequence[Any], options: Any) -> Any:
        """As `Choices.take`, part by part."""
        self._need_inside(given)
        return tuple(x if x in part else part[0] for x, part in zip(given, options, strict=True))

    def check(self, answer: Any, options: Any) -> Any:
        """As `Choices.check`."""
        action = _tuple(answer)
        if len(action) != len(options) or not all(x in part for x, part in zip(action, options, strict=True)):
            raise ValueError(f"answered {answer!r}, where {options} are legal, one list a part")
        return action

    def flat(self, action: Any) -> list[float]:
        """As `Choices.flat`."""
        return list(action)

    def draw(self, options: Any, rng: np.random.Generator) -> Any:
        """As `Choices.draw`."""
        return tuple(part[int(rng.random() * len(part))] for part in options)

    def read(self, stored: Any) -> Any:
        """As `Choices.read`."""
        action = _tuple(stored)
        if len(action) != self.spec.num_parts:
            raise ValueError(f"{stored!r} is no action")
        self._need_inside(action)
        return action

    def _everything(self) -> Any:
        return [list(range(size)) for size in self.spec.choices]

    def _form(self) -> str:
        return f"a list of the numbers of the legal choices for each of {self.spec.num_parts} parts"

    def _key(self, legal: Any) -> Hashable:
        key = tuple(tuple(part) for part in legal)
        hash(key)
        return key

    def _options(self, legal: Any) -> list[Any]:
        if len(legal) != self.spec.num_parts:
            raise ValueError(f"legal gave {len(legal)} lists; it must be {self._form()}")
        options = [self._numbers(part, size) for part, size in zip(legal, self.spec.choices, strict=True)]
        if not all(options):
            raise ValueError(f"legal gave no choice for part {[not part for part in options].index(True)}")
        return options

    def _mask(self, options: Any) -> Mask:
        mask = np.zeros(self.spec.mask_size, np.bool_)
        starts = np.cumsum([0, *self.spec.choices[:-1]]).tolist()
        mask[[start + x for start, part in zip(starts, options, strict=True) for x in part]] = True
        return mask


class Keys(Choices):
    """Keys, pressed (1) or not (0): an action is a tuple of these, the options are the keys that may be pressed."""

    def take(self, given: Sequence[Any], options: Any) -> Any:
        """The keys of `given` (A,), without those that may not be pressed.

        Raises:
            ValueError: a number that is neither 0 nor 1.
        """
        self._need_inside(given)
        return tuple(x if key in options else 0 for key, x in enumerate(given))

    def check(self, answer: Any, options: Any) -> Any:
        """As `Choices.check`."""
        action = _tuple(answer)
        pressed = [key for key, x in enumerate(action) if x]
        if len(action) != self.spec.num_parts or not set(action) <= {0, 1} or not set(pressed) <= set(options):
            raise ValueError(
                f"answered {answer!r}, which is not a 0 or 1 for each of {self.spec.num_parts} keys, of which"
                f" {_few(options)} may be pressed"
            )
        return action

    def flat(self, action: Any) -> list[float]:
        """As `Choices.flat`."""
        return list(action)

    def draw(self, options: Any, rng: np.random.Generator) -> Any:
        """As `Choices.draw`: each key that may be pressed is, half of the time."""
        action = [0] * self.spec.num_parts
        for key in options:
            action[key] = int(rng.random() < 0.5)
        return tuple(action)

    def read(self, stored: Any) -> Any:
        """As `Choices.read`."""
        action = _tuple(stored)
        if len(action) != self.spec.num_parts or not set(action) <= {0, 1}:
            raise ValueError(f"{stored!r} is no action")
        return action

    def _everything(self) -> Any:
        return list(range(self.spec.num_parts))

    def _form(self) -> str:
        return f"a list of the keys that may be pressed, of 0 to {self.spec.num_parts - 1}"

    def _options(self, legal: Any) -> list[Any]:
        return self._numbers(legal, self.spec.num_parts)


class Tuples(Choices):
    """Legal tuples: an action is one of them, the options are all of them."""

    def from_mask(self, mask: Mask | None) -> Any:
        """As `Choices.from_mask`; these always have a mask."""
        assert mask is not None, "legal_tuples have a mask"
        return [tuple(action) for action in self.spec.tuples(mask).tolist() if action[0] >= 0]

    def take(self, given: Sequence[Any], options: Any) -> Any:
        """As `Choices.take`."""
        action = tuple(given)
        if action in options:
            return action
        self._need_inside(given)
        return options[0]

    def check(self, answer: Any, options: Any) -> Any:
        """As `Choices.check`."""
        action = _tuple(answer)
        if action not in options:
            raise ValueError(f"answered {answer!r}, where {_few(options)} are legal")
        return action

    def flat(self, action: Any) -> list[float]:
        """As `Choices.flat`."""
        return list(action)

    def read(self, stored: Any) -> Any:
        """As `Choices.read`."""
        action = _tuple(stored)
        if len(action) != self.spec.num_parts:
            raise ValueError(f"{stored!r} is no action")
        self._need_inside(action)
        return action

    def _everything(self) -> Any:
        return [(0,) * self.spec.num_parts]

    def _form(self) -> str:
        return (
            f"a list of at most {self.spec.max_tuples} different tuples of {self.spec.num_parts} numbers, each below"
            f" {self.spec.choices}"
        )

    def _key(self, legal: Any) -> Hashable:
        key = tuple(tuple(action) for action in legal)
        hash(key)
        return key

    def _options(self, legal: Any) -> list[Any]:
        options = [_tuple(action) for action in legal]
        if not options:
            raise ValueError("legal gave no action; a seat that is to decide needs one, and a match that is over end()")
        for action in options:
            inside = len(action) == self.spec.num_parts
            if not inside or not all(0 <= x < size for x, size in zip(action, self.spec.choices, strict=True)):
                raise ValueError(f"legal gave {action}; it must be {self._form()}")
        if len(options) > self.spec.max_tuples or len(set(options)) < len(options):
            different = len(set(options))
            raise ValueError(f"legal gave {len(options)} tuples, {different} different; it must be {self._form()}")
        return options

    def _mask(self, options: Any) -> Mask:
        mask: npt.NDArray[np.int16] = np.full((self.spec.max_tuples, self.spec.num_parts), -1, np.int16)
        mask[: len(options)] = options
        return mask.ravel()


def _tuple(answer: Any) -> tuple[int, ...]:
    """`answer` as integers; empty where it is something else."""
    try:
        return tuple(index(x) for x in answer)
    except TypeError:
        return ()


def _few(options: Sequence[Any]) -> str:
    """A list as it can be shown on a line."""
    shown = ", ".join(repr(x) if isinstance(x, str | bytes) else str(x) for x in options[:12])
    return f"[{shown}]" if len(options) <= 12 else f"[{shown}, and {len(options) - 12} more]"
