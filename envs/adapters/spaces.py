"""Gymnasium's spaces as flat observations and actions of the engine.

Numbers with finite bounds become [-1, 1]. Numbers without bounds, or whose bounds say nothing (`WIDE`), stay as they
are, and the spec marks them (`GameSpec.unbounded`). Bytes of an image become [0, 1]. Keys are 0 and 1, choices are
tokens. A board of few kinds of whole numbers becomes a plane a kind. A `Sequence` becomes entities.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from league.envs.adapters.replies import ReplyError, told
from league.types import FloatArray, ObservationPart
from league.types.observations import slices_of
from league.types.spaces import LARGEST

WIDE = 1_000.0
"""Bounds beyond it are taken for none."""
LOOSE = 90.0
"""A spec's range of numbers with bounds of their own, which are scaled to -1 and 1."""
FAR = 3.0
"""Of a number with bounds, which are scaled to -1 and 1: it may leave them by no more than the width between them."""
MOST = LARGEST
"""The greatest number without bounds."""
MOST_NUMBERS = 2**22
"""Of an observation: 16 MiB, a colour picture of 720 lines and more."""
MOST_PARTS = 2**16
"""Of an action."""
MASK = "action_mask"
"""What libraries call the mask of legal actions, in a Dict of observations or in the infos."""
MOST_CHANNELS = 4
"""An array whose first side is so small, and its others larger, is an image with its channels first."""
SMALLEST_SIDE = 3
"""Of a board: an array of two axes is one where both are as long, and all its numbers have the same bounds."""
MOST_CODES = 16
"""A board of whole numbers of at most 16 kinds is seen as one plane a kind."""
MOST_CHOICES = 2**15
MAX_ROWS = "max_rows"
"""The keyword behind an address that says how many rows a `Sequence` has at most."""
WHOLE = "observation"
"""The name of an observation that has no parts."""
UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, OverflowError)
"""What reading a value raises that is not of its space."""
REAL = "biufO"
"""Kinds of arrays that are read; numpy would drop the imaginary part of a number, and read one out of a text."""
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
    space: spaces.Space[Any]
    bounds: tuple[float, float]
    """The least and the greatest number that the space allows."""
    limits: tuple[float, float]
    """The least and the greatest number that is taken."""
    is_whole: bool = False
    """Whether the space has whole numbers alone."""
    unbounded: tuple[int, ...] = ()
    """Its numbers without bounds."""

    @property
    def name(self) -> str:
        """What the part is called."""
        return ".".join(map(str, self.keys)) or WHOLE


class Seen:
    """What a seat sees of an observation space, as flat float32 numbers.

    Args:
        space: of the observations; an `action_mask` in a Dict is left out.
        max_rows: rows of each `Sequence` in it, at most.

    Raises:
        SpaceError: there is no such observation here.
    """

    def __init__(self, space: spaces.Space[Any], max_rows: object = None) -> None:
        _need_space("observation_space", space, MOST_NUMBERS)
        self._space = space
        self.has_mask = isinstance(space, spaces.Dict) and MASK in space.spaces
        """Whether each observation brings what is legal."""
        self._leaves = [leaf for leaf in _leaves(space, (), max_rows) if np.prod(leaf.shape)]
        sizes = [int(np.prod(leaf.shape)) for leaf in self._leaves]
        if not sizes:
            raise SpaceError(f"the observation space {_told(space)} has nothing in it")
        self._ends = np.cumsum(sizes).tolist()
        self.size = sum(sizes)
        starts = [end - size for end, size in zip(self._ends, sizes, strict=True)]
        names = Counter(leaf.name for leaf in self._leaves)  # {"a.b": x, "a": {"b": y}} has one twice
        self.layout = tuple(
            ObservationPart(
                leaf.name if names[leaf.name] == 1 else str(leaf.keys),
                start,
                leaf.shape,
                leaf.kind,
                leaf.count,
                None if leaf.kind == "tokens" else leaf.bounds,
            )
            for leaf, start in zip(self._leaves, starts, strict=True)
        )
        """The parts of these numbers, with the bounds that the space gives."""
        self.is_unbounded = np.zeros(self.size, np.bool_)
        """(size,), which of these have none."""
        for leaf, start in zip(self._leaves, starts, strict=True):
            self.is_unbounded[[start + number for number in leaf.unbounded]] = True

    @property
    def parts(self) -> tuple[ObservationPart, ...]:
        """As a spec has them."""
        return spec_parts(self.layout)

    @property
    def unbounded(self) -> tuple[tuple[int, int], ...]:
        """The numbers without bounds, as a spec has them."""
        return slices_of(self.is_unbounded)

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest number of all."""
        return range_of(self.layout)

    def flat(self, observation: Any) -> FloatArray:
        """An observation of the space, (size,).

        Raises:
            ReplyError: it is not of the space: a part is missing, unknown or of another shape, or a number is not
                finite, not whole or outside the bounds (of numbers: by more than `FAR`).
        """
        out = np.zeros(self.size, np.float32)
        start = 0
        for leaf, end in zip(self._leaves, self._ends, strict=True):
            part = out[start:end]
            try:
                value = observation
                for key in leaf.keys:
                    value = value[key]
                array = np.asarray(value)
                fits = _has_shape(array.shape, leaf) and _is_read(array, leaf)
                if fits:
                    with np.errstate(over="ignore"):  # what float32 does not hold becomes infinite, and is refused
                        part[:] = leaf.read(array)
            except UNREADABLE:
                fits = False
            low, high = leaf.limits
            if not fits or not (low <= np.minimum.reduce(part) and np.maximum.reduce(part) <= high):
                raise ReplyError(_problem(leaf, observation))
            start = end
        for key in _unknown(self._space, observation):
            if key == MASK and MASK in observation:  # it is taken for what is legal
                continue
            raise ReplyError(f"an observation with {key!r}, which is not in {_told(self._space)}: {told(observation)}")
        return out


def _unknown(space: spaces.Space[Any], value: Any) -> Iterator[Any]:
    """Keys of a Dict's or a Tuple's value, whose parts are there, that the space does not have."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inner: Any = dict(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else space.spaces
        yield from (key for key in (value if isinstance(space, spaces.Dict) else range(len(value))) if key not in inner)
        for key, part in inner.items():
            if key != MASK:
                yield from _unknown(part, value[key])


def spec_parts(layout: tuple[ObservationPart, ...]) -> tuple[ObservationPart, ...]:
    """The parts of a spec's observation: empty where all are numbers, which may leave their space's bounds, as those of
    entities may."""
    if all(part.kind == "numbers" for part in layout):
        return ()
    return tuple(replace(part, bounds=None) if part.kind in ("numbers", "entities") else part for part in layout)


def range_of(layout: tuple[ObservationPart, ...]) -> tuple[float, float]:
    """The least and the greatest number of a layout."""
    most = max([LOOSE, *(part.count - 1.0 if part.bounds is None else part.bounds[1] for part in layout)])
    return (min([-LOOSE, *(part.bounds[0] for part in layout if part.bounds)]), most)


def _has_shape(shape: tuple[int, ...], leaf: _Leaf) -> bool:
    """Whether it is that of the leaf's space, of a `Sequence` with at most its rows."""
    if not isinstance(leaf.space, spaces.Sequence):
        return shape == leaf.space.shape
    return (0,) <= shape[:1] <= leaf.shape[:1] and (shape[0] == 0 or shape[1:] == leaf.space.feature_space.shape)


def _is_read(array: npt.NDArray[Any], leaf: _Leaf) -> bool:
    """Whether an array has real numbers, and whole ones where the space has no others."""
    kind = array.dtype.kind
    if leaf.is_whole and kind in "fO":
        numbers = array.astype(np.float64)
        return bool((numbers == np.floor(numbers)).all())
    return kind in REAL


def _problem(leaf: _Leaf, observation: Any) -> str:
    """Why an observation is not of its space, by one part of it."""
    value, whose = observation, f" with {leaf.name!r}" if leaf.keys else ""
    try:
        for key in leaf.keys:
            value = value[key]
    except UNREADABLE:
        return f"an observation without {leaf.name!r}: {told(observation)}"
    space = _told(leaf.space)
    try:
        array = np.asarray(value)
        if array.dtype.kind not in REAL:
            raise TypeError("no real numbers")
        shape, numbers = array.shape, array.astype(np.float64)
    except UNREADABLE:
        return f"an observation{whose} that is no array of numbers, {told(value)}, where {space} is observation_space"
    if leaf.kind == "entities" and shape[:1] > leaf.shape[:1]:
        return f"an observation{whose} of {shape[0]} rows; write (max_rows={shape[0]}) or more behind the address"
    if not _has_shape(shape, leaf):
        wanted = "rows" if leaf.kind == "entities" else leaf.space.shape
        return f"an observation{whose} of shape {shape}, not {wanted} as {space}"
    if not np.isfinite(numbers).all():
        number = numbers[~np.isfinite(numbers)].ravel()[0]
        return f"an observation{whose} with {number} in it, which must be finite: {told(value)}"
    if leaf.is_whole and (numbers != np.floor(numbers)).any():
        number = numbers[numbers != np.floor(numbers)].ravel()[0]
        return f"an observation{whose} with {number} in it, where {space} has whole numbers: {told(value)}"
    return f"an observation{whose} outside {space}: {told(value)}"


def _need_space(name: str, space: Any, most: int) -> None:
    """Refuses what is no space, and what has more than `most` numbers, before anything of their size is made.

    Raises:
        SpaceError: it is none, or too large.
    """
    if not isinstance(space, spaces.Space):
        raise SpaceError(f"{name} is {told(space)}, which is no space of gymnasium.spaces")
    size = _size(space)
    if size > most:
        raise SpaceError(f"{name} has {size:,} numbers, more than {most:,}")


def _size(space: spaces.Space[Any]) -> int:
    """Numbers of a space, of those of fixed size."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inner: Any = space.spaces
        return sum(map(_size, inner.values() if isinstance(inner, dict) else inner))
    return math.prod(space.shape or ())


def _leaves(space: spaces.Space[Any], keys: tuple[Any, ...], max_rows: object) -> Iterator[_Leaf]:
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            if keys or key != MASK:
                yield from _leaves(part, (*keys, key), max_rows)
    elif isinstance(space, spaces.Tuple):
        for number, part in enumerate(space.spaces):
            yield from _leaves(part, (*keys, number), max_rows)
    elif isinstance(space, spaces.Sequence):
        yield _sequence(space, keys, max_rows)
    elif isinstance(space, spaces.Box):
        yield _box(space, keys)
    elif isinstance(space, spaces.Discrete):
        first = int(space.start)
        yield _tokens(keys, (1,), int(space.n), lambda x: x.astype(np.int64) - first, space)
    elif isinstance(space, spaces.MultiDiscrete):
        firsts, counts = np.asarray(space.start, np.int64).ravel(), space.nvec.ravel()
        if _is_board(space.shape) and _is_one(counts) and _is_one(firsts) and counts.max() <= MOST_CODES:
            yield _codes(keys, space.shape, int(firsts[0]), int(counts.max()), space)
            return

        def chosen(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
            values = x.astype(np.int64).ravel() - firsts
            return np.where(values < counts, values, -1)  # each has a count of its own; -1 is none

        yield _tokens(keys, (int(counts.size),), int(counts.max()), chosen, space)
    elif isinstance(space, spaces.MultiBinary):
        size, keyed = int(np.prod(space.shape)), (0.0, 1.0)
        shape = (*space.shape, 1) if _is_board(space.shape) else space.shape
        kind, shape = ("image", shape) if len(shape) == 3 else ("numbers", (size,))
        yield _Leaf(keys, kind, shape, 0, np.ravel, space, keyed, keyed, is_whole=True)
    else:
        raise SpaceError(
            f"the observation space has {_told(space)}, whose size is not fixed or which is none of Box, Discrete,"
            f" MultiDiscrete, MultiBinary, Sequence, Dict and Tuple"
        )


def _sequence(space: spaces.Sequence, keys: tuple[Any, ...], max_rows: object) -> _Leaf:
    """Entities: 1, then the numbers of a row."""
    row, where = space.feature_space, f"the observation space has {_told(space)}"
    if not isinstance(row, spaces.Box) or len(row.shape) > 1 or not np.prod(row.shape):
        raise SpaceError(f"{where}, whose rows are no Box of one axis; wrap the environment so that they are")
    own = _box(row, keys)
    if own.unbounded:
        raise SpaceError(
            f"{where}, whose rows have numbers without bounds; wrap the environment so that they have some"
        )
    if type(max_rows) is not int or not 0 < max_rows <= MOST_NUMBERS // (1 + own.shape[0]):
        given = "which is of any length" if max_rows is None else f"and max_rows={max_rows!r} is no number of rows"
        raise SpaceError(f"{where}, {given}; write its most rows behind the address, as in NAME(max_rows=16)")
    shape = (max_rows, 1 + own.shape[0])

    def rows(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        found = np.zeros(shape)
        found[: len(x), 0] = 1
        for number, each in enumerate(x):
            found[number, 1:] = own.read(each)
        return found.ravel()

    return replace(own, kind="entities", shape=shape, read=rows, space=space)


def _tokens(keys: tuple[Any, ...], shape: tuple[int, ...], count: int, read: Read, space: spaces.Space[Any]) -> _Leaf:
    if count > 2**24:
        raise SpaceError(f"the observation space {_told(space)} has more than 2^24 choices")
    bounds = (0.0, count - 1.0)
    return _Leaf(keys, "tokens", shape, count, read, space, bounds, bounds, is_whole=True)


def _is_board(shape: tuple[int, ...]) -> bool:
    return len(shape) == 2 and min(shape) >= SMALLEST_SIDE


def _is_one(values: npt.NDArray[Any]) -> bool:
    """Whether all are the same."""
    return bool((values == values.ravel()[:1]).all())


def _codes(keys: tuple[Any, ...], shape: tuple[int, ...], first: int, count: int, space: spaces.Space[Any]) -> _Leaf:
    """A board of whole numbers, `count` of them from `first` on: (*shape, count), 1 where a cell has the number."""

    def planes(x: Any) -> npt.NDArray[Any]:
        there = np.asarray(x).reshape(*shape, 1) - first == np.arange(count)
        return np.where(there.any(-1, keepdims=True), there, np.nan).ravel()

    return _Leaf(keys, "image", (*shape, count), 0, planes, space, (0.0, 1.0), (0.0, 1.0), is_whole=True)


def _box(space: spaces.Box, keys: tuple[Any, ...]) -> _Leaf:
    shape, low, high = space.shape, space.low.astype(np.float64), space.high.astype(np.float64)
    is_whole = np.issubdtype(space.dtype, np.integer)
    is_even = bool(shape) and _is_one(low) and _is_one(high)
    is_grey = len(shape) == 2 and (space.dtype == np.uint8 or (_is_board(shape) and is_even))
    if is_grey and is_even and is_whole and 0 < high.max() - low.min() < MOST_CODES:
        return _codes(keys, shape, int(low.min()), int(high.max() - low.min()) + 1, space)
    if (len(shape) == 3 or is_grey) and (low >= -WIDE).all() and (high <= WIDE).all():
        shape = (*shape, 1) if is_grey else shape
        is_first = shape[0] <= MOST_CHANNELS < min(shape[1:])
        least, most = float(low.min()), float(high.max())
        scale = 1.0 / max(most - least, 1e-9)

        def picture(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
            image = np.moveaxis(x, 0, -1) if is_first else x
            return (image.ravel() - least) * scale

        form = (*shape[1:], shape[0]) if is_first else shape
        return _Leaf(keys, "image", form, 0, picture, space, (0.0, 1.0), (0.0, 1.0), is_whole)
    low, high = low.ravel(), high.ravel()
    is_bounded = (low >= -WIDE) & (high <= WIDE)
    low, high = np.where(is_bounded, low, -1.0), np.where(is_bounded, high, 1.0)
    width = np.where(high > low, high - low, 2.0)
    scales, shifts = 2.0 / width, -(high + low) / width
    unbounded, bound = tuple(np.flatnonzero(~is_bounded).tolist()), np.flatnonzero(is_bounded)

    def numbers(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        values = np.asarray(x.astype(np.float64).ravel() * scales + shifts)
        if unbounded and (np.abs(values[bound]) > FAR).any():
            values[0] = np.nan  # beyond all limits; those of the part are wide
        return values

    bounds, limits = ((-MOST, MOST),) * 2 if unbounded else ((-1.0, 1.0), (-FAR, FAR))
    return _Leaf(keys, "numbers", (len(low),), 0, numbers, space, bounds, limits, is_whole, unbounded)


def _told(space: spaces.Space[Any]) -> str:
    """A space, so that it fits on a line."""
    text = " ".join(repr(space).split())
    return text if len(text) <= 100 else text[:97] + "..."
