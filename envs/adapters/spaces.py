"""Gymnasium's spaces as flat observations and actions of the engine.

Numbers with finite bounds become [-1, 1]. Numbers without bounds, or whose bounds say nothing (`WIDE`), are squashed:
sign(x) log(1 + |x|) (the symlog of Hafner et al. 2023, arXiv:2301.04104), near x itself where x is small. Bytes of an
image become [0, 1]. Keys are 0 and 1, choices are tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from league.types import ActionSpec, FloatArray, ObservationPart

WIDE = 1_000.0
"""Bounds beyond it are taken for none."""
SQUASHED = 90.0
"""No finite float32 is squashed beyond it."""
MASK = "action_mask"
"""What libraries call the mask of legal actions, in a Dict of observations or in the infos."""
MOST_CHANNELS = 4
"""An array whose first side is so small, and its others larger, is an image with its channels first."""
MOST_CHOICES = 2**15
Read = Callable[[Any], npt.NDArray[Any]]


class SpaceError(ValueError):
    """A space that the engine cannot take; the message names it."""


@dataclass(frozen=True)
class _Leaf:
    """A part of an observation: its keys from the whole, its kind and shape, and how its numbers are read."""

    keys: tuple[Any, ...]
    kind: Any
    shape: tuple[int, ...]
    count: int
    read: Read


class Seen:
    """What a seat sees of an observation space, as flat float32 numbers.

    Args:
        space: of the observations; an `action_mask` in a Dict is left out.

    Raises:
        SpaceError: there is no such observation here.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        self._leaves = list(_leaves(space, ()))
        sizes = [int(np.prod(leaf.shape)) for leaf in self._leaves]
        if not sum(sizes):
            raise SpaceError(f"the observation space {_told(space)} has nothing in it")
        self._ends = np.cumsum(sizes).tolist()
        self.size = sum(sizes)
        self.range = (-SQUASHED, max([SQUASHED, *(leaf.count - 1.0 for leaf in self._leaves)]))
        is_plain = all(leaf.kind == "numbers" for leaf in self._leaves)
        self.parts: tuple[ObservationPart, ...] = () if is_plain else tuple(self._parts(sizes))

    def flat(self, observation: Any) -> FloatArray:
        """An observation of the space, (size,)."""
        out = np.zeros(self.size, np.float32)
        start = 0
        for leaf, end in zip(self._leaves, self._ends, strict=True):
            value = observation
            for key in leaf.keys:
                value = value[key]
            out[start:end] = leaf.read(value)
            start = end
        return out

    def _parts(self, sizes: list[int]) -> Iterator[ObservationPart]:
        start = 0
        for leaf, size in zip(self._leaves, sizes, strict=True):
            name = ".".join(map(str, leaf.keys)) or "observation"
            bounds = (0.0, 1.0) if leaf.kind == "image" else None
            yield ObservationPart(name, start, leaf.shape, leaf.kind, leaf.count, bounds)
            start += size


class Acts:
    """What a seat does in an action space: the engine's actions, and the library's.

    Raises:
        SpaceError: there is no such action here.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.spec, self.to_library = _action(space)
        self._space = space

    def legal(self, mask: Any) -> Any:
        """What `Match.legal` gives for a library's mask: of one choice an array, of several a tuple of arrays.

        Raises:
            ValueError: there is no mask of that form for such actions.
        """
        if self.spec.kind == "multi_discrete" and self.spec.num_parts > 1:
            parts = mask if isinstance(mask, tuple | list) else self.spec.split(np.asarray(mask).ravel())
            return [np.flatnonzero(np.asarray(part)).tolist() for part in parts]
        if self.spec.kind in ("discrete", "multi_discrete", "multi_binary"):
            return np.flatnonzero(np.asarray(mask)).tolist()
        raise ValueError(f"an {MASK} of the action space {_told(self._space)} cannot be read")


def mask_of(observation: Any, info: Mapping[str, Any]) -> Any:
    """The mask that an observation or its info has; None without one."""
    if isinstance(observation, Mapping) and MASK in observation:
        return observation[MASK]
    return info.get(MASK)


def _leaves(space: spaces.Space[Any], keys: tuple[Any, ...]) -> Iterator[_Leaf]:
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            if keys or key != MASK:
                yield from _leaves(part, (*keys, key))
    elif isinstance(space, spaces.Tuple):
        for number, part in enumerate(space.spaces):
            yield from _leaves(part, (*keys, number))
    elif isinstance(space, spaces.Box):
        yield _box(space, keys)
    elif isinstance(space, spaces.Discrete):
        first = int(space.start)
        yield _tokens(keys, (1,), int(space.n), lambda x: np.asarray(int(x) - first), space)
    elif isinstance(space, spaces.MultiDiscrete):
        firsts = np.asarray(space.start).ravel()
        size, count = int(space.nvec.size), int(space.nvec.max())
        yield _tokens(keys, (size,), count, lambda x: np.asarray(x).ravel() - firsts, space)
    elif isinstance(space, spaces.MultiBinary):
        yield _Leaf(keys, "numbers", (int(np.prod(space.shape)),), 0, lambda x: np.asarray(x).ravel())
    else:
        raise SpaceError(
            f"the observation space has {_told(space)}, whose size is not fixed or which is none of Box, Discrete,"
            f" MultiDiscrete, MultiBinary, Dict and Tuple"
        )


def _tokens(keys: tuple[Any, ...], shape: tuple[int, ...], count: int, read: Read, space: spaces.Space[Any]) -> _Leaf:
    if count > 2**24:
        raise SpaceError(f"the observation space {_told(space)} has more than 2^24 choices")
    return _Leaf(keys, "tokens", shape, count, read)


def _box(space: spaces.Box, keys: tuple[Any, ...]) -> _Leaf:
    shape, low, high = space.shape, space.low.astype(np.float64), space.high.astype(np.float64)
    is_grey = len(shape) == 2 and space.dtype == np.uint8
    if (len(shape) == 3 or is_grey) and (low >= -WIDE).all() and (high <= WIDE).all():
        shape = (*shape, 1) if is_grey else shape
        is_first = shape[0] <= MOST_CHANNELS < min(shape[1:])
        least, most = float(low.min()), float(high.max())
        scale = 1.0 / max(most - least, 1e-9)

        def picture(x: Any) -> npt.NDArray[Any]:
            image = np.moveaxis(np.asarray(x), 0, -1) if is_first else np.asarray(x)
            return (image.ravel() - least) * scale

        return _Leaf(keys, "image", (*shape[1:], shape[0]) if is_first else shape, 0, picture)
    low, high = low.ravel(), high.ravel()
    is_bounded = (low >= -WIDE) & (high <= WIDE)
    low, high = np.where(is_bounded, low, -1.0), np.where(is_bounded, high, 1.0)
    width = np.where(high > low, high - low, 2.0)
    scales, shifts = 2.0 / width, -(high + low) / width
    free = np.flatnonzero(~is_bounded)

    def numbers(x: Any) -> npt.NDArray[Any]:
        values = np.asarray(x, np.float64).ravel() * scales + shifts
        if len(free):
            loose = values[free]
            values[free] = np.sign(loose) * np.log1p(np.abs(loose))
        return values

    return _Leaf(keys, "numbers", (len(low),), 0, numbers)


def _action(space: spaces.Space[Any]) -> tuple[ActionSpec, Callable[[Any], Any]]:
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


def _told(space: spaces.Space[Any]) -> str:
    """A space, so that it fits on a line."""
    text = " ".join(repr(space).split())
    return text if len(text) <= 100 else text[:97] + "..."
