"""Actions of Gymnasium's spaces, as numbers of the engine and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from league.envs.adapters.replies import ReplyError, told
from league.envs.adapters.spaces import MASK, MOST_CHOICES, MOST_PARTS, UNREADABLE, Seen, SpaceError, _need_space, _told
from league.types import ActionSpec


class Acts:
    """What a seat does in an action space: the engine's actions, and the library's.

    Raises:
        SpaceError: there is no such action here.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        _need_space("action_space", space, MOST_PARTS)
        self.spec, self.to_library = _action(space)
        self._space = space
        self._parts: dict[Any, Acts] = {}
        """Of a Dict or a Tuple, by key or number."""
        if isinstance(space, spaces.Dict | spaces.Tuple):
            inner: Any = space.spaces
            self._parts = {key: Acts(inner[key]) for key in (inner if isinstance(inner, dict) else range(len(inner)))}

    def legal(self, mask: Any) -> Any:
        """What `Match.legal` gives for a library's mask: of one choice an array, of several a tuple of arrays.

        None, of the whole or of a part in a Dict or a Tuple, allows everything.

        Raises:
            ReplyError: there is no mask of that form for such actions, or nothing is legal.
        """
        if mask is None:
            return None
        try:
            return self._legal(mask)
        except UNREADABLE:
            raise ReplyError(f"an {MASK} that is none of {_told(self._space)}: {told(mask)}") from None

    def _legal(self, mask: Any) -> Any:
        if isinstance(self._space, spaces.Dict):
            if not self._parts.keys() >= mask.keys():
                raise ReplyError(f"an {MASK} with other keys than {_told(self._space)}: {told(mask)}")
            return {str(key): part.legal(mask.get(key)) for key, part in self._parts.items()}
        if isinstance(self._space, spaces.Tuple):
            return tuple(part.legal(own) for part, own in zip(self._parts.values(), mask, strict=True))
        if self.spec.kind == "multi_discrete" and self.spec.num_parts > 1:
            is_split = isinstance(mask, tuple | list) and len(mask) == self.spec.num_parts
            parts = [np.asarray(part) for part in mask] if is_split else self._split(np.asarray(mask))
            for part, size in zip(parts, self.spec.choices, strict=True):
                self._need_size(part, size)
            return [self._need_some(self._marked(part)) for part in parts]
        if self.spec.kind == "box":
            raise ReplyError(f"an {MASK} of {_told(self._space)}, which takes none: all its numbers are legal")
        array = np.asarray(mask)
        self._need_size(array, len(self.spec.choices) if self.spec.kind == "multi_binary" else self.spec.choices[0])
        legal = self._marked(array)
        return legal if self.spec.kind == "multi_binary" else self._need_some(legal)

    def _split(self, mask: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        self._need_size(mask, sum(self.spec.choices))
        return self.spec.split(mask.ravel())

    def _marked(self, mask: npt.NDArray[Any]) -> list[int]:
        """Where a mask is 1."""
        flat = mask.ravel()
        ones: list[int] = (flat == 1).nonzero()[0].tolist()
        if len(ones) != len(flat.nonzero()[0]):
            raise ReplyError(f"an {MASK} of other numbers than 0 and 1: {told(mask)}")
        return ones

    def _need_size(self, mask: npt.NDArray[Any], size: int) -> None:
        if mask.size != size:
            raise ReplyError(f"an {MASK} of shape {mask.shape}, not ({size},) as {_told(self._space)} has actions")

    def _need_some(self, legal: list[int]) -> list[int]:
        if not legal:
            raise ReplyError(f"an {MASK} without a legal action of {_told(self._space)}, and the episode goes on")
        return legal


def mask_of(observation: Any, info: Mapping[str, Any]) -> Any:
    """The mask that an observation or its info has; None without one.

    Raises:
        ReplyError: they have two that differ.
    """
    mask = info.get(MASK)
    if not isinstance(observation, Mapping) or MASK not in observation:
        return mask
    if mask is not None and not _are_equal(observation[MASK], mask):
        raise ReplyError(
            f"an {MASK} in the observation and another in the info: {told(observation[MASK])}, {told(mask)}"
        )
    return observation[MASK]


def _are_equal(one: Any, other: Any) -> bool:
    """Whether two masks are the same, those of parts one by one."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_are_equal(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(_are_equal, one, other))
    return np.array_equal(one, other)


def need_mask(had_mask: bool, seen: Seen) -> None:
    """Refuses a decision without a mask where the one before had it, or the space has it: is all legal, or unknown?

    Raises:
        ReplyError: that is so.
    """
    if seen.has_mask:
        raise ReplyError(f"an observation without {MASK!r}, which is in observation_space")
    if had_mask:
        raise ReplyError(f"no {MASK}, which the decision before had (ones: every action is legal)")


def _action(space: spaces.Space[Any]) -> tuple[ActionSpec, Callable[[Any], Any]]:
    if 0 in (space.shape or ()) or (isinstance(space, spaces.Tuple | spaces.Dict) and not len(space.spaces)):
        raise SpaceError(f"the action space has {_told(space)}, which has nothing in it")
    if isinstance(space, spaces.Discrete):
        first = int(space.start)
        _need_choices([int(space.n)], space)
        return ActionSpec("discrete", (int(space.n),)), lambda action: int(action) + first
    if isinstance(space, spaces.MultiDiscrete):
        choices, firsts = space.nvec.ravel().tolist(), np.asarray(space.start)
        return _choices(choices, firsts, space.shape, space.dtype, space)
    if isinstance(space, spaces.MultiBinary):
        shape = space.shape
        keys = ActionSpec("multi_binary", (2,) * int(np.prod(shape)))
        return keys, lambda action: np.array(action, np.int8).reshape(shape)
    if isinstance(space, spaces.Box):
        return _box_action(space)
    if isinstance(space, spaces.Tuple):
        pairs = [_action(part) for part in space.spaces]
        readers = [read for _, read in pairs]
        spec = ActionSpec("mixture", parts=tuple(part for part, _ in pairs))
        return spec, lambda action: tuple(read(own) for read, own in zip(readers, action, strict=True))
    if isinstance(space, spaces.Dict):
        named = {str(name): _action(part) for name, part in space.spaces.items()}
        names = {str(name): name for name in space.spaces}
        spec = ActionSpec("mixture", parts=tuple(part for part, _ in named.values()), names=tuple(named))
        return spec, lambda action: {names[name]: read(action[name]) for name, (_, read) in named.items()}
    raise SpaceError(
        f"the action space has {_told(space)}, which is none of Discrete, MultiDiscrete, MultiBinary, Box, Tuple and"
        f" Dict"
    )


def _box_action(space: spaces.Box) -> tuple[ActionSpec, Callable[[Any], Any]]:
    low, high = space.low.astype(np.float64).ravel(), space.high.astype(np.float64).ravel()
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (np.abs([low, high]) <= 1e6).all()):
        raise SpaceError(
            f"the action space {_told(space)} has no bounds, or bounds beyond a million; wrap the environment so that"
            f" its actions are bounded (gymnasium.wrappers.RescaleAction)"
        )
    shape, dtype = space.shape, space.dtype
    if np.issubdtype(dtype, np.integer):
        choices = (high - low + 1).astype(int).tolist()
        return _choices(choices, low.reshape(shape).astype(int), shape, dtype, space)
    if not (low < high).all():
        raise SpaceError(f"the action space {_told(space)} has a number that is fixed")
    lowest, highest = space.low, space.high
    bounds = tuple(zip(low.tolist(), high.tolist(), strict=True))

    def read(action: Any) -> npt.NDArray[Any]:
        return np.clip(np.array(action, dtype).reshape(shape), lowest, highest)

    return ActionSpec("box", bounds=bounds), read


def _choices(
    choices: list[int], firsts: npt.NDArray[Any], shape: tuple[int, ...], dtype: Any, space: spaces.Space[Any]
) -> tuple[ActionSpec, Callable[[Any], Any]]:
    """A number of choices each, from `firsts` on, in an array of `shape`."""
    _need_choices(choices, space)
    spec = ActionSpec("multi_discrete", tuple(choices))
    return spec, lambda action: (np.array(action, np.int64).reshape(shape) + firsts).astype(dtype)


def _need_choices(choices: list[int], space: spaces.Space[Any]) -> None:
    if min(choices) < 2 or max(choices) > MOST_CHOICES:
        raise SpaceError(f"the action space {_told(space)} has a part of fewer than 2 or more than {MOST_CHOICES:,}")
