"""What a seat sees and does: flat arrays of numbers, and how these are parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from league.errors import shown

FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]
Mask = npt.NDArray[Any]
"""What is legal now, (..., M) of `ActionSpec.mask_dtype`."""

Kind = Literal["discrete", "multi_discrete", "multi_binary", "legal_tuples", "box", "mixture"]
KINDS: tuple[str, ...] = get_args(Kind)
FIELDS = {"legal_tuples": ("choices", "max_tuples"), "box": ("bounds",), "mixture": ("parts", "names")}
"""Kind -> the fields that it has; the others have `choices` and `pointers`."""
LATER = ("max_tuples", "bounds", "parts", "names", "pointers")
"""Fields of an `ActionSpec` that older manifests do not have; they are written only where they say something."""
LARGEST = float(np.finfo(np.float32).max)
"""The greatest float32."""
LARGE = 20.0
"""Numbers that may be larger, and have no bounds of their own, are standardised by what training has seen of them."""
MOST_CHOICES = {np.dtype(np.int16): 2**15, np.dtype(np.float32): 2**24}
"""So many choices of a part can be told apart in these types."""


def plain(value: Any) -> Any:
    """NumPy's numbers as Python's, and lists as tuples."""
    if isinstance(value, np.generic):
        return value.item()
    return tuple(plain(item) for item in value) if isinstance(value, list | tuple) else value


def need_numbers(what: str, values: Any, kind: type[int] | type[float], *, is_one: bool = False) -> None:
    """Refuses a number, or one of a tuple, that is not of its kind; a whole number serves as a float.

    is_one: no tuple is taken.

    Raises:
        ValueError: it is something else.
    """
    for value in values if isinstance(values, tuple) and not is_one else (values,):
        if isinstance(value, bool) or not isinstance(value, int if kind is int else (int, float)):
            raise ValueError(f"{what}={shown(value)} must be {'whole numbers' if kind is int else 'numbers'}")


@dataclass(frozen=True)
class ActionSpec:
    """The action of one decision, A numbers. NumPy's numbers become Python's, and lists tuples.

    `discrete`, `multi_discrete`: every number is one of `choices[i]` options, counted from 0; the mask has one entry an
    option. `discrete` has one number; Gymnasium shows it as such, not as an array.
    `multi_binary`: every number is a key, pressed (1) or not (0); the mask has one entry a key (may it be pressed?).
    `legal_tuples`: as `multi_discrete`, but what is legal in one part hangs on the others: the mask, int16 instead of
    bool, lists the legal actions one after the other, at least one and at most `max_tuples` (N), each once, then -1.
    `box`: every number is real, from `bounds[i][0]` to `bounds[i][1]`; all of them are legal and the mask has no entry.
    `mixture`: the numbers of `parts`, one after the other, and likewise their masks; none of these is `legal_tuples`.

    Raises:
        ValueError: a kind without what it needs, or with what it does not have.
    """

    kind: Kind
    choices: tuple[int, ...] = ()
    max_tuples: int = 0
    """N of `legal_tuples`, else 0."""
    bounds: tuple[tuple[float, float], ...] = ()
    """Of a `box`: the least and the greatest of each number."""
    parts: tuple[ActionSpec, ...] = ()
    """Of a `mixture`."""
    names: tuple[str, ...] = ()
    """Of a `mixture`'s parts, where they have names."""
    pointers: tuple[int, ...] = ()
    """Of choices and keys that act on elements of the observation, which are cells of an image and rows of entities:
    the element that each one acts on. Elements are counted through the parts in their order, an image's cells row by
    row; -1 names none, such as a pass. Several may act on one element: the n-th ones of all elements then mean the same
    move, such as a step to the left. Empty: none names an element."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"action kind {self.kind!r} is none of {', '.join(KINDS)}")
        self._make_plain()
        has = FIELDS.get(self.kind, ("choices", "pointers"))
        for name in ("choices", *LATER):
            if name not in has and getattr(self, name):
                raise ValueError(f"action.{name}={getattr(self, name)!r}: an action of kind {self.kind} has none")
        if self.choices and min(self.choices) < 1:
            raise ValueError(f"action choices={self.choices}: a part has one choice at least")
        problem = getattr(self, f"_problem_of_{self.kind}", str)() or self._problem_of_pointers()
        if problem:
            raise ValueError(f"action {problem}")

    def _make_plain(self) -> None:
        for name in ("choices", *LATER):
            object.__setattr__(self, name, plain(getattr(self, name)))
            if name != "max_tuples" and not isinstance(getattr(self, name), tuple):
                what = "one number of choices for each part" if name == "choices" else "one for each"
                raise ValueError(f"action {name}={getattr(self, name)!r} must be a tuple: {what}")
        for name in ("choices", "max_tuples", "pointers"):
            need_numbers(f"action {name}", getattr(self, name), int)
        for i, pair in enumerate(self.bounds):
            need_numbers(f"action bounds[{i}]", pair, float)
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ValueError(f"action bounds[{i}]={pair!r} must be (least, greatest)")
        for name, kind in (("parts", ActionSpec), ("names", str)):
            if not all(isinstance(x, kind) for x in getattr(self, name)):
                raise ValueError(f"action {name}={getattr(self, name)!r} must be a tuple of {kind.__name__}")

    def _problem_of_discrete(self) -> str:
        return "" if len(self.choices) == 1 else f"choices={self.choices}: discrete has one; take multi_discrete"

    def _problem_of_legal_tuples(self) -> str:
        if self.max_tuples < 1 or self.max_tuples * max(1, len(self.choices)) >= 2**31:
            return f"max_tuples={self.max_tuples}: legal_tuples need 1 at least, in a mask of under 2^31 numbers"
        return _too_many(self.choices, self.mask_dtype)

    def _problem_of_box(self) -> str:
        if not self.bounds:
            return "bounds=(): a box needs (least, greatest) for each of its numbers, such as ((-1.0, 1.0),)"
        for low, high in self.bounds:
            if not (-3e38 <= low <= 3e38 and -3e38 <= high <= 3e38 and np.float32(low) < np.float32(high)):
                return f"bounds={(low, high)}: must be from one finite float32 to a greater one"
        return ""

    def _problem_of_pointers(self) -> str:
        if self.pointers and (len(self.pointers) != self.num_logits or max(self.pointers) < 0):
            return (
                f"pointers has {len(self.pointers)} entries; name the element of each of {self.num_logits} choices, -1"
                f" for none"
            )
        if min(self.pointers, default=-1) < -1:
            return f"pointers={min(self.pointers)}: elements are counted from 0, and -1 names none"
        return ""

    def _problem_of_mixture(self) -> str:
        if not self.parts:
            return "parts=(): a mixture needs at least one"
        if any(leaf.kind == "legal_tuples" for leaf in self.leaves):
            return "parts: legal_tuples cannot be a part of a mixture; list the legal actions of all parts together"
        if self.names and (len(self.names) != len(self.parts) or len(set(self.names)) != len(self.names)):
            return f"names={self.names}: must be a name of its own for each of {len(self.parts)} parts"
        return _too_many([n for leaf in self.leaves for n in leaf.choices], self.dtype)

    @property
    def leaves(self) -> tuple[ActionSpec, ...]:
        """A mixture's parts, and in place of mixtures among them theirs; of another kind, it alone."""
        if self.kind != "mixture":
            return (self,)
        return tuple(leaf for part in self.parts for leaf in part.leaves)

    @property
    def num_parts(self) -> int:
        """A, the width of an action."""
        return sum(len(leaf.bounds or leaf.choices) for leaf in self.leaves)

    @property
    def logit_pointers(self) -> tuple[int, ...]:
        """The element that each logit acts on, -1 for none; empty where none names one."""
        if not any(leaf.pointers for leaf in self.leaves):  # there may be 10^9 logits
            return ()
        return tuple(element for leaf in self.leaves for element in leaf.pointers or (-1,) * leaf.num_logits)

    @property
    def num_logits(self) -> int:
        """What a network gives for an action: one number a key, one a choice, two a real number."""
        return sum(leaf._widths[0] for leaf in self.leaves)

    @property
    def mask_size(self) -> int:
        """M, the width of a mask."""
        return sum(leaf._widths[1] for leaf in self.leaves)

    @property
    def num_draws(self) -> int:
        """U, how many numbers `legal_actions` picks an action by."""
        return sum(leaf._widths[2] for leaf in self.leaves)

    @property
    def _widths(self) -> tuple[int, int, int]:
        """Of one leaf: logits, mask, draws."""
        if self.kind == "box":
            return 2 * len(self.bounds), 0, len(self.bounds)
        if self.kind == "legal_tuples":
            listed = self.max_tuples * len(self.choices)
            return sum(self.choices), listed, listed
        each = len(self.choices) if self.kind == "multi_binary" else sum(self.choices)
        return each, each, each

    @property
    def mask_dtype(self) -> np.dtype[Any]:
        """The type of a mask."""
        return np.dtype(np.int16 if self.kind == "legal_tuples" else np.bool_)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of an action: float32 with a box in it, else int32."""
        return np.dtype(np.float32 if self.has_real else np.int32)

    @property
    def has_real(self) -> bool:
        """Whether there is a box in it."""
        return any(leaf.kind == "box" for leaf in self.leaves)

    def split(self, mask: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """What (..., num_logits) has of each choice's part; of keys, one part of all."""
        return [mask] if self.kind == "multi_binary" else np.split(mask, np.cumsum(self.choices)[:-1], axis=-1)

    def is_legal(self, actions: npt.NDArray[Any], mask: Mask | None) -> BoolArray:
        """(...,): whether each action (..., A) keeps to its mask (..., M) and its bounds. No key need be pressed."""
        if self.kind == "mixture":
            each = zip(self.leaves, self._by_leaf(actions, "num_parts"), self._masks(mask), strict=True)
            return np.asarray(
                np.logical_and.reduce([leaf.is_legal(_whole(leaf, x), seen) for leaf, x, seen in each]), np.bool_
            )
        if self.kind == "box":
            low, high = np.array(self.bounds, np.float32).T
            return np.asarray(((low <= actions) & (actions <= high)).all(-1), np.bool_)
        if self.kind == "legal_tuples" and mask is not None:
            return np.asarray((self.tuples(mask) == actions[..., None, :]).all(-1).any(-1), np.bool_)
        kept = (actions >= 0) & (actions < np.array(self.choices))
        if mask is not None and self.kind == "multi_binary":
            kept = mask | (actions == 0)
        elif mask is not None:
            places = np.where(kept, actions, 0) + np.cumsum([0, *self.choices[:-1]])
            kept = kept & np.take_along_axis(mask, places, axis=-1)
        return np.asarray(kept.all(-1), np.bool_)

    def legal_actions(self, mask: Mask | None, numbers: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
        """The actions (..., A) that `numbers` (..., U), in [0, 1], pick among those that `mask` (..., M) allows.

        A key is pressed where its number is below 0.5; of a part's choices the legal one with the highest number is
        taken, the first of equal ones, and of the legal tuples the one whose first number is highest; a real number
        lies so far between its bounds. Uniform random numbers give uniform random legal actions.
        """
        if self.kind == "mixture":
            each = zip(self.leaves, self._by_leaf(numbers, "num_draws"), self._masks(mask), strict=True)
            picked = [leaf.legal_actions(seen, x) for leaf, x, seen in each]
            return np.concatenate(picked, axis=-1).astype(self.dtype)
        if self.kind == "box":
            low, high = np.array(self.bounds, np.float64).T
            inside = np.asarray(low + numbers * (high - low), np.float32)
            return np.clip(inside, low.astype(np.float32), high.astype(np.float32))
        if self.kind == "legal_tuples":
            assert mask is not None, "legal_tuples have a mask"
            tuples = self.tuples(mask)
            scores = np.where(tuples[..., 0] >= 0, numbers.reshape(tuples.shape)[..., 0], -1.0)
            best = scores.argmax(axis=-1)[..., None, None]
            return np.take_along_axis(tuples, best, axis=-2)[..., 0, :].astype(np.int32)
        if self.kind == "multi_binary":
            pressed = numbers < 0.5
            return (pressed if mask is None else pressed & mask).astype(np.int32)
        scores = numbers if mask is None else np.where(mask, numbers, -1.0)
        return np.stack([part.argmax(axis=-1) for part in self.split(scores)], axis=-1).astype(np.int32)

    def mask_problem(self, mask: Mask) -> str:
        """What no mask (..., M) may be, in words; empty where there is nothing of it."""
        if self.kind == "legal_tuples":
            return self._tuples_problem(self.tuples(mask))
        at = 0
        for leaf, part in zip(self.leaves, self._masks(mask), strict=True):
            if leaf.kind in ("discrete", "multi_discrete") and part is not None:
                for number, choice in enumerate(leaf.split(part)):
                    if not choice.any(axis=-1).all():
                        return f"nothing is legal in part {at + number} of the action; allow at least one choice a part"
            at += leaf.num_parts
        return ""

    def tuples(self, mask: Mask) -> npt.NDArray[np.int16]:
        """The mask of `legal_tuples` as (..., N, A)."""
        return mask.reshape(*mask.shape[:-1], self.max_tuples, len(self.choices))

    def _tuples_problem(self, tuples: npt.NDArray[np.int16]) -> str:
        listed = tuples[..., 0] >= 0
        if not listed[..., 0].all():
            return "no tuple is legal; list at least one"
        if (listed[..., 1:] & ~listed[..., :-1]).any():
            return "a legal tuple follows a -1; list the legal ones first"
        if (np.where(listed[..., None], (tuples < 0) | (tuples >= np.array(self.choices)), tuples != -1)).any():
            return "a tuple's number is no choice of its part, or what follows the legal tuples is not -1"
        flat = tuples.reshape(-1, self.max_tuples, len(self.choices))
        order = np.lexsort(np.moveaxis(flat, -1, 0), axis=-1)
        ordered = np.take_along_axis(flat, order[..., None], axis=-2)
        if ((ordered[:, 1:] == ordered[:, :-1]).all(-1) & (ordered[:, 1:, 0] >= 0)).any():
            return "a legal tuple is listed twice; list each once"
        return ""

    def _by_leaf(self, values: npt.NDArray[Any], width: str) -> list[npt.NDArray[Any]]:
        """What (..., W) has of each leaf, of which `width` of it."""
        return np.split(values, np.cumsum([getattr(leaf, width) for leaf in self.leaves])[:-1], axis=-1)

    def _masks(self, mask: Mask | None) -> Sequence[Mask | None]:
        """The masks of the leaves."""
        return [None] * len(self.leaves) if mask is None else self._by_leaf(mask, "mask_size")


def _whole(leaf: ActionSpec, actions: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A leaf's numbers in a mixture, integers where it has choices."""
    return actions if leaf.kind == "box" else actions.astype(np.int64)


def _too_many(choices: Sequence[int], dtype: np.dtype[Any]) -> str:
    most = MOST_CHOICES.get(dtype, 2**31)
    return f"choices={max(choices)}: {dtype} tells at most {most:,} apart" if max(choices, default=0) > most else ""
