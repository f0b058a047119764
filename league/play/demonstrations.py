"""Recorded decisions to learn from: each match of a seat as a sequence, and several of them as a batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from league.errors import UsageError
from league.play.seats import mask_type
from league.types import EXTERNAL, SEATS, ActionSpec, BoolArray, FloatArray, Mask, MatchBatch, Turns, Watched

UNWRITTEN = -(2**20)
"""In place of a native bot's action until the game has written it: no action of a game."""


@dataclass(frozen=True)
class Demonstration:
    """What a seat saw and decided in one match: E moments in their order, the last of them a decision."""

    match: str
    """Names the match: both of its seats have one name."""
    group: str
    """Names what is held out together: matches of one seed are alike."""
    obs: FloatArray  # (E, obs_size)
    decides: BoolArray  # (E,): a decision; else the seat looks on, in a game in turns (`Policy.watch`)
    mask: Mask | None  # (E, M), read where the seat decides; None: all is legal
    actions: npt.NDArray[Any]  # (E, A) of ActionSpec.dtype, likewise

    @property
    def decisions(self) -> int:
        """T, the number of decisions."""
        return int(self.decides.sum())


@dataclass
class Moment:
    """What a seat saw before a step, and decided in it."""

    obs: FloatArray  # (obs_size,)
    decides: bool
    mask: Mask | None  # (M,)
    action: npt.NDArray[Any]  # (A,), 0 where it does not decide


class DecisionRecorder:
    """What both seats see and decide in the matches of a batch, kept while these are played."""

    def __init__(self) -> None:
        self.found: list[Demonstration] = []
        self._moments: defaultdict[tuple[int, int], list[Moment]] = defaultdict(list)
        """By row and seat, of the match under way."""
        self._decided: dict[int, BoolArray] = {}
        """By row, the seats (S,) that decide in the step to come, or in the last one of a match under way."""

    def before(self, batch: MatchBatch, rows: Sequence[int]) -> None:
        """Called before each step of some rows, the actions of all but native bots being written."""
        turns, nobody = batch if isinstance(batch, Turns) else None, np.zeros(SEATS, np.bool_)
        for row in rows:
            deciding = ~nobody if turns is None else turns.to_act[row].copy()
            waiting = ~deciding & self._decided.get(row, nobody)[::-1]
            for seat in np.flatnonzero(deciding | waiting).tolist():
                mask = None if batch.mask is None else batch.mask[row, seat].copy()
                acted = batch.actions[row, seat].copy() if deciding[seat] else np.zeros_like(batch.actions[row, seat])
                self._moments[row, seat].append(Moment(batch.obs[row, seat].copy(), bool(deciding[seat]), mask, acted))
            self._decided[row] = deciding
            batch.actions[row, batch.controllers[row] != EXTERNAL] = UNWRITTEN

    def after(self, batch: MatchBatch, rows: Sequence[int]) -> None:
        """Called after each step of these rows.

        Raises:
            UsageError: the game does not write what its own bot plays.
        """
        for row in rows:
            for seat in np.flatnonzero(self._decided[row] & (batch.controllers[row] != EXTERNAL)).tolist():
                action = batch.actions[row, seat].copy()
                if (action == UNWRITTEN).any():
                    raise UsageError(
                        f"{batch.spec.name}: it does not write what its bot"
                        f" {batch.spec.bots[batch.controllers[row, seat]]} plays into `actions`, so that cannot be"
                        f" imitated; write it there in `step`, or name a bot in Python by --bot"
                    )
                self._moments[row, seat][-1].action = action

    def finish(self, row: int, match: str, seed: int, seats: Sequence[int] = range(SEATS)) -> None:
        """Called when the match of a row has ended: adds what these seats decided in it, where they did."""
        del self._decided[row]
        for seat in range(SEATS):
            moments = self._moments.pop((row, seat), [])
            self.found += demonstration_of(match, f"seed {seed}", moments) if seat in seats else []


def demonstration_of(match: str, group: str, moments: list[Moment]) -> list[Demonstration]:
    """The demonstration of a seat's moments up to the last decision; empty where there is none."""
    while moments and not moments[-1].decides:
        moments.pop()
    if not moments:
        return []
    obs, decides, actions = (np.stack([getattr(x, name) for x in moments]) for name in ("obs", "decides", "action"))
    masks = [x.mask for x in moments if x.mask is not None]
    return [Demonstration(match, group, obs, decides, np.stack(masks) if masks else None, actions)]


@dataclass(frozen=True)
class DemonstrationBatch:
    """n demonstrations beside each other, each as long as the longest: it repeats its last decision, which counts 0."""

    obs: Tensor  # (n, T, obs_size)
    action: Tensor  # (n, T, A)
    mask: Tensor | None  # (n, T, M)
    is_first: Tensor  # (n, T) bool
    counts: Tensor  # (n, T) bool, whether it is a decision that was made
    watched: Watched | None


def batch_of(some: Sequence[Demonstration], spec: ActionSpec, device: torch.device) -> DemonstrationBatch:
    """The batch of some demonstrations, on a device."""
    longest = max(each.decisions for each in some)
    places = [np.flatnonzero(each.decides)[np.minimum(np.arange(longest), each.decisions - 1)] for each in some]

    def stacked(arrays: Sequence[npt.NDArray[Any]]) -> Tensor:
        return torch.from_numpy(np.stack([x[place] for x, place in zip(arrays, places, strict=True)])).to(device)

    masks = [each.mask for each in some if each.mask is not None]
    is_first = torch.zeros(len(some), longest, dtype=torch.bool, device=device)
    is_first[:, 0] = True
    lengths = torch.tensor([each.decisions for each in some], device=device)
    action = stacked([each.actions for each in some])
    return DemonstrationBatch(
        obs=stacked([each.obs for each in some]),
        action=action if spec.has_real else action.long(),
        mask=stacked(masks).to(mask_type(spec)) if masks else None,
        is_first=is_first,
        counts=torch.arange(longest, device=device) < lengths[:, None],
        watched=_watched(some, longest, device),
    )


def _watched(some: Sequence[Demonstration], longest: int, device: torch.device) -> Watched | None:
    """What the seats saw while they waited, as a rollout has it; None where none did."""
    views = [np.flatnonzero(~each.decides) for each in some]
    most = max(map(len, views))
    if not most:
        return None
    obs = np.zeros((most, len(some), some[0].obs.shape[1]), np.float32)
    before = np.full((most, len(some)), longest, np.int64)
    for row, (each, seen) in enumerate(zip(some, views, strict=True)):
        obs[: len(seen), row] = each.obs[seen]
        before[: len(seen), row] = np.cumsum(each.decides)[seen]
    return Watched(torch.from_numpy(obs).to(device), torch.from_numpy(before).to(device))
