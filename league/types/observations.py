"""What is observed: the parts of a flat observation, and which numbers have no bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from league.types.spaces import LARGE, LARGEST, MOST_CHOICES, ActionSpec, BoolArray, need_numbers, plain

PartKind = Literal["numbers", "image", "tokens", "entities"]


PART_KINDS: tuple[str, ...] = get_args(PartKind)


@dataclass(frozen=True)
class ObservationPart:
    """A part of the flat observation: its numbers [start, start + size), row by row of `shape`.

    `numbers`: of any meaning. `image`: (height, width, channels), a board or a picture, seen by residual convolutions.
    `tokens`: whole numbers from 0 to `count` - 1, each a name of something (a card, a piece), looked up in a learned
    table.
    `entities`: (rows, numbers), a set of units, cards or bullets, a row each, seen by attention among
    the rows. The first number of a row is 1 where it holds an entity and 0 where it is absent (a row of zeros may be
    an entity, so the game has to say it). What else an absent row holds, and the order of rows, mean nothing.

    Raises:
        ValueError: a shape, count or bounds that the kind cannot have.
    """

    name: str
    start: int
    shape: tuple[int, ...]
    kind: PartKind = "numbers"
    count: int = 0
    """Of `tokens`: how many there are; else 0."""
    bounds: tuple[float, float] | None = None
    """The least and the greatest of numbers, of an image or of entities; the network scales them to [-1, 1]. None: the
    spec's `obs_range`, unscaled; of numbers see `GameSpec.unbounded`."""

    def __post_init__(self) -> None:
        where = f"observation part {self.name!r}"
        for name in ("start", "shape", "count", "bounds"):
            object.__setattr__(self, name, plain(getattr(self, name)))
        for name in ("start", "shape", "count"):
            need_numbers(f"{where}: {name}", getattr(self, name), int, is_one=name != "shape")
        if not isinstance(self.shape, tuple):
            raise ValueError(f"{where}: shape={self.shape!r} must be a tuple")
        if self.bounds is not None:
            need_numbers(f"{where}: bounds", self.bounds, float)
            if not isinstance(self.bounds, tuple) or len(self.bounds) != 2:
                raise ValueError(f"{where}: bounds={self.bounds!r} must be (least, greatest)")
        if self.start < 0 or not self.size or any(size < 1 for size in self.shape):
            raise ValueError(f"{where}: start={self.start} and shape={self.shape} must be of positive sizes")
        if self.kind not in PART_KINDS:
            raise ValueError(f"{where}: kind={self.kind!r} is none of {', '.join(PART_KINDS)}")
        if self.kind == "image" and len(self.shape) != 3:
            raise ValueError(f"{where}: shape={self.shape}: an image has (height, width, channels)")
        if self.kind == "entities" and (len(self.shape) != 2 or self.shape[1] < 2):
            raise ValueError(f"{where}: shape={self.shape}: entities have (rows, numbers), and of numbers at least 2")
        if (self.count > 0) != (self.kind == "tokens") or self.count > MOST_CHOICES[np.dtype(np.float32)]:
            raise ValueError(f"{where}: count={self.count}: tokens have 1 to 2^24, other kinds 0")
        if self.bounds is None:
            return
        low, high = self.bounds
        if self.kind == "tokens" or not -LARGEST <= low < high <= LARGEST:
            raise ValueError(f"{where}: bounds={self.bounds}: must be from a number to a greater one, of tokens None")
        if self.kind == "entities" and not low <= 0 < 1 <= high:
            raise ValueError(f"{where}: bounds={self.bounds}: those of entities include 0 and 1, absent and present")

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)

    @property
    def stop(self) -> int:
        """The index after its last number."""
        return self.start + self.size

    @property
    def num_elements(self) -> int:
        """How many elements actions can point at: cells of an image, rows of entities."""
        return math.prod(self.shape[:-1]) if self.kind in ("image", "entities") else 0

    def problem(self, obs: npt.NDArray[Any]) -> str:
        """What obs (..., obs_size) has here that cannot be, in words; empty where there is nothing of it."""
        x = obs[..., self.start : self.stop]
        low, high = (0, self.count - 1) if self.kind == "tokens" else self.bounds or (-np.inf, np.inf)
        bad = ~((low <= x) & (x <= high)) | ((x != np.floor(x)) if self.kind == "tokens" else False)
        if not bad.any():
            return self._problem_of_entities(x) if self.kind == "entities" else ""
        what = f"tokens are whole numbers from {low} to {high}" if self.kind == "tokens" else f"bounds={self.bounds}"
        return f"part {self.name!r} has {x[bad].ravel()[0]:g}; its {what}"

    def _problem_of_entities(self, x: npt.NDArray[Any]) -> str:
        there = x[..., :: self.shape[1]]
        bad = (there != 0) & (there != 1)
        what = "the first number of a row is 1 where it holds an entity, else 0"
        return f"part {self.name!r} has {there[bad].ravel()[0]:g}; {what}" if bad.any() else ""

    def of(self, obs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A copy of the part (..., *shape) of obs (..., obs_size): int64 for tokens, else as it is."""
        part = obs[..., self.start : self.stop].reshape(*obs.shape[:-1], *self.shape)
        return part.astype(np.int64 if self.kind == "tokens" else obs.dtype)


def check_parts(parts: Sequence[ObservationPart], obs_size: int) -> None:
    """Refuses parts that are not the whole observation, one after the other.

    Raises:
        ValueError: with the part.
    """
    at = 0
    for part in parts:
        if part.start != at:
            raise ValueError(f"observation part {part.name!r} starts at {part.start}, not at {at}, where no other is")
        at = part.stop
    if at != obs_size:
        raise ValueError(f"the observation's parts have {at} numbers together, obs_size={obs_size}")
    if len({part.name for part in parts}) != len(parts):
        raise ValueError(f"two observation parts have one name: {', '.join(part.name for part in parts)}")


def check_pointers(action: ActionSpec, parts: Sequence[ObservationPart]) -> None:
    """Refuses an action's elements that the observation does not have.

    Raises:
        ValueError: with the element.
    """
    highest, elements = max(action.logit_pointers, default=-1), sum(part.num_elements for part in parts)
    if highest >= elements:
        raise ValueError(
            f"action pointers={highest}: the observation has {elements} elements (cells of its images and rows of its"
            f" entities), counted from 0"
        )


def parts_within(parts: Sequence[ObservationPart], start: int, stop: int) -> tuple[ObservationPart, ...]:
    """The parts of the numbers [start, stop), counted from `start`; of `numbers` also what lies in it of a part.

    Raises:
        ValueError: an end lies within an image, tokens or entities.
    """
    found = []
    for part in parts:
        first, last = max(part.start, start), min(part.stop, stop)
        if first >= last:
            continue
        if (first, last) == (part.start, part.stop):
            found.append(ObservationPart(part.name, first - start, part.shape, part.kind, part.count, part.bounds))
        elif part.kind == "numbers":
            found.append(ObservationPart(part.name, first - start, (last - first,), bounds=part.bounds))
        else:
            raise ValueError(
                f"opponent_slice={(start, stop)} cuts the observation part {part.name!r} ({part.kind}, {part.start} to"
                f" {part.stop}); let it begin and end between parts"
            )
    return tuple(found)


def slices_of(marks: Sequence[bool] | BoolArray) -> tuple[tuple[int, int], ...]:
    """The runs of numbers that are marked, [start, stop) each."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], np.asarray(marks, np.int8), [0]]))).tolist()
    return tuple(zip(edges[::2], edges[1::2], strict=True))


def unbounded_numbers(
    obs_size: int, obs_range: tuple[float, float], parts: Sequence[ObservationPart]
) -> tuple[tuple[int, int], ...]:
    """Which numbers of an observation have no bounds that say how large they are, as [start, stop) each.

    Those without bounds of their own, where `obs_range` goes beyond `LARGE` by more than tokens do.
    """
    tokens = max([part.count - 1 for part in parts], default=0)
    if obs_range[0] >= -LARGE and obs_range[1] <= max(LARGE, tokens):
        return ()
    free = [part for part in parts if part.kind == "numbers" and part.bounds is None]
    marks = np.full(obs_size, not parts)
    for part in free:
        marks[part.start : part.stop] = True
    return slices_of(marks)


def check_unbounded(slices: Sequence[tuple[int, int]], obs_size: int, parts: Sequence[ObservationPart]) -> None:
    """Refuses what are no slices of an observation's numbers, in their order.

    Raises:
        ValueError: with the slice.
    """
    at = 0
    for each in slices:
        need_numbers("unbounded", each, int)
        if not isinstance(each, tuple) or len(each) != 2 or not at <= each[0] < each[1] <= obs_size:
            raise ValueError(
                f"unbounded={each!r} must be [start, stop) within obs_size={obs_size}, after the one before"
            )
        at = each[1]
        for part in parts:
            if max(part.start, each[0]) < min(part.stop, at) and (part.kind != "numbers" or part.bounds is not None):
                raise ValueError(f"unbounded={each!r}: the observation part {part.name!r} has bounds, or is no numbers")
