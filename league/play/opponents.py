"""The frozen nets that rows play now: each has a slot, and plays its rows either by itself or stacked with the others.

Stacked is faster on every device; nets play by themselves where their code cannot be stacked.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from league.config.models import CURRENT
from league.runtime.device import sent
from league.types import Policy, PolicyStack, PolicyState

NO_SLOT = -1
"""In place of a slot: a native bot plays the row, or nobody yet."""
FIRST_GUEST = -2
"""Guests have the numbers from here on down."""
SLOT_STEP, ROW_STEP = 4, 8
"""On CUDA, stacked play is padded to multiples of these, so that its shape, which a CUDA graph is made for, seldom
changes. Fewer slots than the first are not padded."""
MAX_ENTRIES = 2
"""On CUDA stacked play has at most so many times its rows, but for rounding: nets that have too many play apart."""
MAX_GROUPINGS = 64
"""Sets of rows whose calls are kept; games in turns meet few, again and again."""


@dataclass
class RowGroup:
    """Rows that one call plays: those of one net, or of all nets stacked, padded."""

    slot: int
    """The net's or the guest's; NO_SLOT for a stacked group."""
    rows: Tensor
    """(n,) into the lane's rows, on the device; padded entries hold its number of rows, the spare one's index."""
    num_slots: int = 0
    """Of a stacked group: how many slots it has rows for, n / num_slots each."""
    seats: Tensor | None = None
    """(n,) where the learner plays in the stack too: whose observation each entry is, counted through all seats; the
    rows are then those of both sides, the learner's first."""
    where: Tensor | None = None
    """(B * S,), the entry that plays each seat; any for a seat that none plays."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Calls of one shape do the same work on tensors of the same sizes."""
        return self.slot, self.num_slots, len(self.rows)

    def tensors(self) -> list[Tensor]:
        """What changes from step to step."""
        return [x for x in (self.rows, self.seats, self.where) if x is not None]

    def copy(self) -> RowGroup:
        """The same with tensors of its own."""
        seats, where = (None if x is None else x.clone() for x in (self.seats, self.where))
        return replace(self, rows=self.rows.clone(), seats=seats, where=where)


class Holder(Protocol):
    """Who holds the nets."""

    guests: Sequence[str]
    """Agents that have memories of their own, since they are no nets of the learner's architecture: bots in Python, and
    agents that others trained. Always the same, in the same order."""

    def policy(self, agent_id: str) -> Policy:
        """The net of that id."""


class Matchmaker(Holder, Protocol):
    """Who holds the nets and says whom a row meets: a pool."""

    def draw(self, rng: np.random.Generator | None = None) -> str:
        """The opponent of a match that begins: a bot's name (`bot:NAME`) or the id of a net that is held.

        rng: draws it; None: the pool's own.
        """


class Opponents:
    """Which net is in which slot, and how the nets of a lane's rows step.

    Guests play by themselves, each with a memory that the caller keeps.

    Args:
        pool: holds the nets.
        stack: plays them in one call; None plays them net by net.
        device: where the nets are.
        learner: who `current` is, with the weights of the last `refresh`.
        joins: whether it plays in the stack, too, all rows of a lane.
        num_rows: of a lane.
    """

    def __init__(
        self,
        pool: Holder,
        stack: PolicyStack | None,
        device: torch.device,
        learner: Policy | None = None,
        num_rows: int = 0,
        *,
        joins: bool = False,
    ) -> None:
        self._pool, self._stack, self._device, self._learner = pool, stack, device, learner
        self.is_joined = joins and stack is not None
        """Whether the learner plays in one call with them."""
        self._places = Places(num_rows, stack.num_slots if joins and stack is not None else 1)
        self.agents: list[str] = []
        """Slot -> agent id of the net in it; empty where no row plays it any more."""
        self._num_rows: list[int] = []

    @property
    def guests(self) -> Sequence[str]:
        """Who plays with a memory of its own."""
        return self._pool.guests

    def refresh(self) -> None:
        """Writes the learner's weights into its slots of the stack; it has others after each update."""
        if self._learner is None or self._stack is None:
            return
        slot = self.agents.index(CURRENT) if CURRENT in self.agents else NO_SLOT
        if not self.is_joined:
            if slot != NO_SLOT:
                self._fill(slot)
            return
        self._stack.reserve(num_slots_for(self._places.of_learner))
        for place in (*range(self._places.of_learner), *self._places.of(slot)):
            self._stack.put(place, self._learner)

    @property
    def is_stacked(self) -> bool:
        """Whether they play in one call."""
        return self._stack is not None

    def enter(self, opponent: str) -> int:
        """The slot of an opponent that a row begins to play; it is no native bot."""
        if opponent in self._pool.guests:
            return FIRST_GUEST - self._pool.guests.index(opponent)
        if opponent in self.agents:
            slot = self.agents.index(opponent)
        else:
            slot = self._num_rows.index(0) if 0 in self._num_rows else len(self.agents)
            self.agents[slot : slot + 1] = [opponent]
            self._num_rows[slot : slot + 1] = [0]
            self._fill(slot)
        self._num_rows[slot] += 1
        return slot

    def leave(self, slot: int) -> None:
        """A row's match against the net in `slot` has ended."""
        if slot > NO_SLOT:
            self._num_rows[slot] -= 1
            if not self._num_rows[slot]:
                self.agents[slot] = ""
                self._places.leave(slot)

    def restore(self, agents: Sequence[str], slots: npt.NDArray[np.int64]) -> None:
        """Takes over `agents`, and the `slots` of all rows that play them."""
        self.agents = list(agents)
        self._places.clear()
        self._num_rows = np.bincount(slots[slots > NO_SLOT], minlength=len(agents)).tolist()
        for slot in range(len(self.agents)):
            self._fill(slot)

    def _fill(self, slot: int) -> None:
        """Stacks the net in `slot`; where the learner plays, too, a net is stacked as its rows need it."""
        if self._stack is not None and not self.is_joined and self.agents[slot]:
            self._stack.reserve(num_slots_for(slot + 1))
            self._stack.put(slot, self._net(slot))

    def groups(self, slots: npt.NDArray[np.int64]) -> list[RowGroup]:
        """The calls that play the rows of a lane, whose slots (n,) these are."""
        guests = self._guests(slots)
        rows = np.argsort(slots, kind="stable")
        rows = rows[slots[rows] > NO_SLOT]
        counts = np.bincount(slots[rows], minlength=1)
        if not len(rows):
            return guests
        if self._stack is None:
            parts = np.split(rows, counts.cumsum()[:-1])
            nets = [RowGroup(slot, self._to_device(part)) for slot, part in enumerate(parts) if len(part)]
            return nets + guests
        apart = crowded(counts, self._device)
        alone = [RowGroup(slot, self._to_device(_padded(rows[slots[rows] == slot], len(slots)))) for slot in apart]
        rows, counts[apart] = rows[~np.isin(slots[rows], apart)], 0
        if not len(rows):
            return [*alone, *guests]
        num_slots, width = stacked_shape(len(counts), int(counts.max()), self._device)
        padded = np.full((num_slots, width), len(slots))
        within = np.arange(len(rows)) - np.repeat(counts.cumsum() - counts, counts)
        padded[slots[rows], within] = rows
        return [RowGroup(NO_SLOT, self._to_device(padded.ravel()), num_slots), *alone, *guests]

    def joined(
        self, slots: npt.NDArray[np.int64], seats: npt.NDArray[np.int64], *, with_learner: bool
    ) -> list[RowGroup]:
        """The calls that play the rows of a lane where the learner's net plays in the stack, too.

        Args:
            slots: (B,), as for `groups`.
            seats: (B,), the learner's, counted through all seats.
            with_learner: whether it decides, too; else its entries play the spare row.
        """
        assert self._stack is not None
        num_rows, width = len(slots), self._places.width
        entries: list[npt.NDArray[np.int64]] = [np.arange(num_rows)] if with_learner else []
        places = [list(range(self._places.of_learner))] if with_learner else []
        for slot in np.unique(slots[slots > NO_SLOT]).tolist():
            rows = np.flatnonzero(slots == slot)
            taken, new = self._places.take(slot, len(rows))
            for place in new:
                self._stack.reserve(num_slots_for(place + 1))
                self._stack.put(place, self._net(slot))
            entries.append(num_rows + rows)
            places.append(taken)
        guests = self._guests(slots)
        if not entries:
            return guests
        num_slots = num_slots_for(1 + max(max(each) for each in places))
        self._stack.reserve(num_slots)
        padded = np.full((num_slots, width), 2 * num_rows)
        for rows, each in zip(entries, places, strict=True):
            whole = np.full(len(each) * width, 2 * num_rows)
            whole[: len(rows)] = rows
            padded[each] = whole.reshape(-1, width)
        flat = padded.ravel()
        both = np.concatenate([seats, seats ^ 1, [0]])  # a row's two seats follow one another, the first an even one
        where, is_played = np.zeros(2 * num_rows + 1, np.int64), flat < 2 * num_rows
        where[both[flat[is_played]]] = np.flatnonzero(is_played)
        rows_there, *others = (self._to_device(x) for x in (flat, both[flat], where[:-1]))
        return [RowGroup(NO_SLOT, rows_there, num_slots, *others), *guests]

    def _guests(self, slots: npt.NDArray[np.int64]) -> list[RowGroup]:
        return [
            RowGroup(slot, self._to_device(np.flatnonzero(slots == slot)))
            for slot in np.unique(slots[slots < NO_SLOT]).tolist()
        ]

    def guest(self, slot: int) -> Policy:
        """The guest of that number."""
        return self._pool.policy(self._pool.guests[FIRST_GUEST - slot])

    def _net(self, slot: int) -> Policy:
        if slot < NO_SLOT:
            return self.guest(slot)
        if self.agents[slot] == CURRENT and self._learner is not None:
            return self._learner
        return self._pool.policy(self.agents[slot])

    def weights(self, groups: Sequence[RowGroup]) -> list[Tensor]:
        """All that the nets of these groups read."""
        stacked = self._stack.tensors() if self._stack is not None and groups else ()
        policies = [self._net(group.slot) for group in groups if group.slot != NO_SLOT]
        return [*stacked, *(parameter for policy in policies for parameter in policy.parameters())]

    def step(
        self,
        group: RowGroup,
        obs: Tensor,
        state: PolicyState,
        mask: Tensor | None,
        generator: torch.Generator,
        *,
        greedy: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """The actions (n, A) of a group's nets on obs (n, obs_size), drawn, or the likeliest ones when `greedy`.

        Beside them whether their probabilities are finite numbers, (n,).
        """
        action, log_prob, _ = self.decide(group, obs, state, mask, generator, greedy=greedy)
        return action, torch.isfinite(log_prob)

    def decide(
        self,
        group: RowGroup,
        obs: Tensor,
        state: PolicyState,
        mask: Tensor | None,
        generator: torch.Generator,
        *,
        greedy: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As `Policy.step` for the entries of a group."""
        given: dict[str, Any] = {"mask": mask, "rows": group.rows, "generator": generator, "greedy": greedy}
        if group.slot != NO_SLOT or self._stack is None:
            return self._net(group.slot).step(obs, state, **given)
        return self._stack.step(obs, state, num_slots=group.num_slots, **given)

    def watch(self, group: RowGroup, obs: Tensor, state: PolicyState) -> None:
        """Shows a group's nets obs (n, obs_size), while they wait."""
        if group.slot != NO_SLOT or self._stack is None:
            self._net(group.slot).watch(obs, state, rows=group.rows)
        else:
            self._stack.watch(obs, state, num_slots=group.num_slots, rows=group.rows)

    def _to_device(self, rows: npt.NDArray[np.int64]) -> Tensor:
        return sent(rows, self._device)


class Places:
    """Which slots of a stack each net fills where the learner plays in it, too: as many as its rows need.

    So entries are at most about twice the rows, however these fall to the nets.

    Args:
        num_rows: B, of a lane; the learner plays all of them.
        num_nets: frozen nets that may be live at once.
    """

    def __init__(self, num_rows: int, num_nets: int) -> None:
        self.width = _round_up(max(1, 2 * num_rows // num_nets), ROW_STEP)
        """Rows of a slot: half of the live nets are targets, which have most of the rows."""
        self.of_learner = -(-num_rows // self.width)
        """The learner's slots, the first ones."""
        self._taken: dict[int, list[int]] = {}

    def take(self, slot: int, num_rows: int) -> tuple[list[int], list[int]]:
        """The stack's slots that the net of number `slot` needs for so many rows, and which of them are new to it."""
        mine = self._taken.setdefault(slot, [])
        used = {place for places in self._taken.values() for place in places}
        new: list[int] = []
        place = self.of_learner
        while len(mine) * self.width < num_rows:
            while place in used:
                place += 1
            mine.append(place)
            new.append(place)
            used.add(place)
        return mine[: -(-num_rows // self.width)], new

    def of(self, slot: int) -> Sequence[int]:
        """The stack's slots that the net of number `slot` fills now."""
        return self._taken.get(slot, ())

    def leave(self, slot: int) -> None:
        """No row plays the net any more."""
        self._taken.pop(slot, None)

    def clear(self) -> None:
        """No net is there."""
        self._taken.clear()


class FixedGroups:
    """Groups at addresses that do not change, for graphs: one list for each kind of call."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[list[RowGroup], list[RowGroup]]] = {}
        """Kind -> the groups that are read, and those that they hold now."""

    def hold(self, key: Hashable, groups: list[RowGroup]) -> list[RowGroup]:
        """The groups that are read, which hold `groups` now; these are left as they are, since they may come again."""
        if key not in self._known:
            self._known[key] = [group.copy() for group in groups], groups
        fixed, held = self._known[key]
        for there, before, now in zip(fixed, held, groups, strict=True):
            if before is not now:
                torch._foreach_copy_(there.tensors(), now.tensors())
        self._known[key] = fixed, groups
        return fixed


def stacked_shape(num_nets: int, most_rows: int, device: torch.device) -> tuple[int, int]:
    """The slots, and the rows of each, of a stacked step of so many nets, the fullest of which has `most_rows`."""
    if device.type != "cuda":
        return num_nets, most_rows
    slots = num_nets if num_nets < SLOT_STEP else _round_up(num_nets, SLOT_STEP)
    return slots, _round_up(most_rows, ROW_STEP)


def crowded(counts: npt.NDArray[np.int64], device: torch.device) -> list[int]:
    """The slots, of those that have `counts` rows, whose nets play apart from the stack; the fullest go first.

    So many that the rest has at most `MAX_ENTRIES` entries a row. None on a CPU.
    """
    left, found = counts.copy(), list[int]()
    while device.type == "cuda" and len(left) * left.max() > MAX_ENTRIES * left.sum():
        found.append(int(left.argmax()))
        left[found[-1]] = 0
    return found


def _padded(rows: npt.NDArray[np.int64], spare: int) -> npt.NDArray[np.int64]:
    """Rows (n,) and as often the spare one as makes their number seldom change."""
    return np.concatenate([rows, np.full(-len(rows) % ROW_STEP, spare)])


def num_slots_for(num_nets: int) -> int:
    """The slots of a stack that holds so many nets, padding included."""
    return _round_up(num_nets, SLOT_STEP)


def _round_up(number: int, step: int) -> int:
    return -(-number // step) * step
