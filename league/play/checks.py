"""What cannot be in one row of a batch, and whose match it is: numbers that are not finite, and what `strict` finds."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from league.errors import LeagueError
from league.types import SEATS, ActionSpec, BoolArray, GameSpec, Mask, MatchBatch

MAX_DECISIONS = 20_000
"""A match that takes longer to its end keeps its seed to itself."""
MOST_TUPLES = 20
"""Legal tuples that are told one by one."""


class BeforeStep(NamedTuple):
    """A batch, or one row of it, just before a step: from here the step can be made once more."""

    state: bytes
    actions: npt.NDArray[Any]
    row: int | None = None
    """The row that it is of; None: all."""


@dataclass(frozen=True)
class ArrayEntry:
    """One entry of a batch's arrays.

    what: `obs`, `mask`, `action`, `reward_terms` or `final_obs`.
    index: its index in that array; None for an action as a whole.
    """

    row: int
    seat: int
    what: str
    index: int | None


class BatchError(LeagueError):
    """Something in one row of a batch that cannot be.

    Args:
        text: what, in words.
        batch, entry: where.
        kind: of the event: `strict_masks` or `not_finite`.
        is_played: the batch has just made a step; otherwise it is about to.
        before: what that step was made from, or the one before, where it was kept.
    """

    def __init__(
        self,
        text: str,
        batch: MatchBatch,
        entry: ArrayEntry,
        *,
        kind: str,
        is_played: bool,
        before: BeforeStep | None,
    ) -> None:
        super().__init__(f"{batch.spec.name} row {entry.row}, seat {entry.seat}: {text}")
        self.text, self.batch, self.entry = text, batch, entry
        self.kind, self.is_played, self.before = kind, is_played, before


def check_finite(batch: MatchBatch, *, is_played: bool, before: BeforeStep | None = None) -> None:
    """Looks through all that the nets and the learner read of a batch after its step (`is_played`) or its reset.

    Raises:
        BatchError: a number that is not finite.
    """
    arrays = {"obs": batch.obs}
    if is_played:
        arrays["reward_terms"] = batch.reward_terms
        if batch.truncated.any():
            arrays["final_obs"] = np.where(batch.truncated[:, None, None], batch.final_obs, 0)
    for what, array in arrays.items():
        if np.isfinite(array).all():
            continue
        row, seat, index = (int(i) for i in np.argwhere(~np.isfinite(array))[0])
        name = _term(batch.spec, index) if what == "reward_terms" else place(batch.spec, what, index)
        text = f"{name} is {array[row, seat, index]}, not a finite number; the game has a bug, or its state overflowed"
        entry = ArrayEntry(row, seat, what, index)
        raise BatchError(text, batch, entry, kind="not_finite", is_played=is_played, before=before)


def place(spec: GameSpec, what: str, index: int) -> str:
    """An entry of an observation by its index, and by that in the part which shows the opponent."""
    start, stop = spec.opponent_slice
    part = f"the opponent's, {index - start}" if start <= index < stop else "the seat's own"
    return f"{what}[{index}] ({part})"


def _term(spec: GameSpec, index: int) -> str:
    return f"reward_terms[{index}] ({spec.reward_terms[index]})"


def mask_words(spec: ActionSpec, mask: Mask, names: tuple[str, ...] = ()) -> str:
    """What a mask (M,) allows, in words; `names` are those of the keys, which are else numbered."""
    if spec.kind == "multi_binary":
        return f"keys {_listed(mask, names)}"
    if spec.kind == "legal_tuples":
        listed = [str(tuple(values)) for values in spec.tuples(mask).tolist() if values[0] >= 0]
        more = f" and {len(listed) - MOST_TUPLES} more" if len(listed) > MOST_TUPLES else ""
        return f"tuples {' '.join(listed[:MOST_TUPLES]) or 'none'}{more}"
    words, part, start = [], 0, 0
    for leaf in spec.leaves:
        own = mask[start : start + leaf.mask_size]
        if leaf.kind == "multi_binary":
            words.append(f"parts {part} to {part + leaf.num_parts - 1}: keys {_listed(own)}")
        elif leaf.kind != "box":
            words += [f"part {part + i}: {_listed(choice)}" for i, choice in enumerate(leaf.split(own))]
        part, start = part + leaf.num_parts, start + leaf.mask_size
    return "; ".join(words) or "all numbers"


def _listed(allowed: BoolArray, names: tuple[str, ...] = ()) -> str:
    return " ".join(names[i] if names else str(i) for i in np.flatnonzero(allowed)) or "none"


def seed_of(batch: MatchBatch, row: int) -> int | None:
    """The seed of the match in `row`, or None where it cannot be had.

    A game tells it with the result, so the match is played to its end by the first legal actions: the batch is spoilt.
    """
    with suppress(Exception):  # the game has a bug, and what it breaks next must not hide what was found
        spec = batch.spec.action
        numbers = np.ones((batch.num_rows, SEATS, spec.num_draws))
        for _ in range(MAX_DECISIONS):
            batch.actions[:] = spec.legal_actions(batch.mask, numbers)
            batch.step()
            if batch.terminated[row] or batch.truncated[row]:
                return int(batch.result["seed"][row])
    return None
