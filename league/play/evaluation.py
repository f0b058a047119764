"""Matches between fixed agents: seats swapped in pairs that share a seed, a fixed number of matches a row so that
short ones are not over-counted, and random numbers of their own, so that evaluating never changes a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from league.errors import SnapshotError, code_told
from league.play.courses import MatchesUnderWay, MatchPlan, Seats, closed_after
from league.play.histories import forfeited_rows
from league.play.opponents import MAX_GROUPINGS, NO_SLOT, FixedGroups, Opponents, RowGroup, stacked_shape
from league.play.pairings import Pairing
from league.play.randomness import seed_all
from league.play.recording import Recording
from league.play.seats import SeatView, bot_id, short_name
from league.play.summaries import Count
from league.runtime.device import autocast, sent
from league.runtime.phases import advance
from league.runtime.process import draws_kept, settings_kept
from league.types import (
    SEATS,
    BoolArray,
    MatchBatch,
    MatchResult,
    Origin,
    Policy,
    PolicyStack,
    PolicyState,
)

MAX_PADDING = 1.25
"""On a CPU nets are stacked where that plays at most so many times their rows, each slot having as many as the fullest
net. A stacked row takes 0.7 to 0.8 of the time (lab/performance.md); on CUDA rows count for less than calls."""
MAX_ENTRIES = 2
"""On CUDA a stacked step has at most so many times the rows that are played, but for rounding to its shapes."""


Nets = Callable[[list[RowGroup]], Any]


class Graphs(Protocol):
    """Replays what a call did on the device (`league.play.graphs.StepGraphs`)."""

    def call(self, key: Hashable, nets: Nets, groups: list[RowGroup], reads: Iterable[torch.Tensor], /) -> Any:
        """Does what `nets` does."""


MakeStack = Callable[[Policy], PolicyStack | None]
MakeGraphs = Callable[[torch.Generator], Graphs | None]
NOT_RECORDED = Recording()


@settings_kept()
@draws_kept()
@code_told()
def play(
    make_batch: Callable[[int], MatchBatch],
    pairings: Sequence[Pairing],
    origin: Origin,
    *,
    update: int,
    greedy: bool = False,
    precision: str = "float32",
    make_stack: MakeStack | None = None,
    make_graphs: MakeGraphs | None = None,
    recording: Recording = NOT_RECORDED,
    limit: int | None = None,
    count: Count | None = None,
) -> list[MatchResult]:
    """Plays all pairings side by side in one batch, as evaluation rows sorted by (row, ordinal).

    Each pairing has rows of its own, in their order; its rows 2i and 2i + 1 play the same seeds, A in seat 0 of the
    first and in seat 1 of the second. All rows of one net are played in one call, over all pairings.

    A pairing's match seeds, and so all games between native bots, do not depend on the other pairings. The actions that
    nets draw do: all draw from one generator, and products of other sizes round differently. The same pairings in the
    same order play the same matches again on a CPU.

    Args:
        make_batch: a batch of the game with the given number of rows.
        pairings: who plays whom how often; a net may be in several. All nets are on one device.
        origin, update: written into the rows.
        greedy: both sides play their likeliest action, instead of sampling as in training.
        precision: as `learner.precision`.
        make_stack: what plays several nets like this one in one call; None, or a None from it, plays net by net.
        make_graphs: replays the steps of nets that are stacked, which draw from the generator; None: plain calls.
        recording: which matches are kept whole, in the `replay` of their rows; it changes nothing that is played.
        limit: most steps that all matches together may take. Past it play is broken off and the list is empty: only the
            short matches would be in it.
        count: what the progress counts (`league.runtime.phases.advance`); None: these matches alone.

    Raises:
        UsageError: a pairing's games are odd or not positive, or a match does not end.
        SnapshotError: a net plays what is not legal, or gives no finite numbers.
    """
    plan = MatchPlan(pairings)
    generator = _generator(pairings)
    seed_all(generator.initial_seed())
    count = count or Count(total=int(plan.quota.sum()))
    spent = 0
    advance(count.name, count.done, count.total, count.steps)
    batch = make_batch(len(plan.pairing))
    with closed_after(batch), autocast(generator.device, precision):
        view = SeatView(batch, generator.device)
        for row, agents in enumerate(plan.agents):
            batch.controllers[row] = [bot_id(batch, agent) for agent in agents]
        batch.reset(plan.seeds)
        seats = Seats(batch)
        matches = MatchesUnderWay(batch, plan, origin, update, recording, greedy=greedy)
        calls = _Calls(generator, greedy, make_stack, make_graphs(generator) if make_graphs else None)
        families = _families(pairings, plan, view, calls)
        while (playing := matches.played < plan.quota).any():
            spent += int(playing.sum())
            if limit is not None and spent > limit:
                return []
            acting = seats.acting(playing)
            view.pull()
            for family in families:
                family.act(acting)
            view.push()
            view.wait()
            if fault := view.fault(acting):
                row, seat, problem = fault
                raise SnapshotError(_refused(pairings, plan.agents[row][seat], problem))
            matches.step(seats, playing)
            watching = seats.watching()
            if watching.any():
                view.pull()
                for family in families:
                    family.watch(watching)
            ended = matches.finish(playing, _forfeits(families, batch))
            advance(count.name, count.done + len(matches.results), count.total, count.steps + spent)
            for family in families:
                family.clear(ended)
    return sorted(matches.results, key=lambda result: (result.row, result.ordinal))


def _generator(pairings: Sequence[Pairing]) -> torch.Generator:
    """What all nets draw from, by the seeds of all pairings."""
    entropy = [word for pairing in pairings for word in (pairing.seed & 0xFFFFFFFF, pairing.seed >> 32)]
    drawn = int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> 1)
    return torch.Generator(_device_of(pairings)).manual_seed(drawn)


def _device_of(pairings: Sequence[Pairing]) -> torch.device:
    """Where the nets are; the CPU where native bots play alone."""
    nets = (who.policy for pairing in pairings for who in (pairing.a, pairing.b))
    return next((next(net.parameters()).device for net in nets if net is not None), torch.device("cpu"))


def _refused(pairings: Sequence[Pairing], agent_id: str, problem: str) -> str:
    """Why a contestant cannot play."""
    names = {who.agent_id: who.name for pairing in pairings for who in (pairing.a, pairing.b)}
    return (
        f"agent {names[agent_id] or short_name(agent_id)}: {problem}, so these matches are not stored; leave it out, or"
        f" take an earlier snapshot"
    )


@dataclass(frozen=True)
class _Calls:
    """How nets are called: arguments of `play`, and what they draw from."""

    generator: torch.Generator
    greedy: bool
    make_stack: MakeStack | None
    graphs: Graphs | None


def _families(pairings: Sequence[Pairing], plan: MatchPlan, view: SeatView, calls: _Calls) -> list[_Family]:
    """The nets of all pairings by their architecture."""
    nets: dict[Hashable, dict[str, Policy]] = {}
    for who in (who for pairing in pairings for who in (pairing.a, pairing.b)):
        if who.policy is not None:
            nets.setdefault(who.agent_id if who.family is None else who.family, {})[who.agent_id] = who.policy
    return [_Family(members, plan, view, calls) for members in nets.values()]


def shares(counts: Sequence[int], device: torch.device) -> list[int]:
    """Into how many slots of a stack each of several nets goes, whose rows these are.

    On CUDA a net that has most of the rows fills several, the fewest with which a stacked step has at most
    `MAX_ENTRIES` times the rows; a slot has as many as the fullest. On a CPU each has one: there rows count for more
    than calls, and nets that do not fit each other play by themselves.
    """
    if device.type != "cuda":
        return [1] * len(counts)
    width = max(counts)
    while True:
        slots = [-(-count // width) for count in counts]
        if sum(slots) * width <= MAX_ENTRIES * sum(counts):
            return slots
        width -= 1


def _forfeits(families: Sequence[_Family], batch: MatchBatch) -> BoolArray:
    """(B, S): the seats that have forfeited their matches."""
    forfeits = np.zeros(batch.controllers.shape, np.bool_)
    for family in families:
        family.mark(forfeits)
    return forfeits


class _Family:
    """Nets of one architecture. They share one memory, with a row for every seat that one of them plays."""

    def __init__(self, nets: dict[str, Policy], plan: MatchPlan, view: SeatView, calls: _Calls) -> None:
        self._view, self._generator, self._greedy = view, calls.generator, calls.greedy
        found = [
            (row, seat, agent)
            for row, agents in enumerate(plan.agents)
            for seat, agent in enumerate(agents)
            if agent in nets
        ]
        like, num_places, device = next(iter(nets.values())), len(found), view.device
        counts = Counter(agent for _, _, agent in found)
        parts = dict(zip(counts, shares([*counts.values()], device), strict=True))
        slots, width = stacked_shape(
            sum(parts.values()), max(-(-counts[agent] // parts[agent]) for agent in counts), device
        )
        is_even = device.type == "cuda" or slots * width <= MAX_PADDING * num_places
        is_even = is_even and (len(nets) > 1 or calls.graphs is not None)
        stack = calls.make_stack(like) if calls.make_stack and is_even else None
        self._graphs = calls.graphs if stack is not None else None
        self._played = Opponents(self, stack, device)
        self._parts: dict[str, Policy] = {}
        """Part of a net that has a slot of its own -> the net."""
        met = Counter[str]()
        self._slots = np.zeros(num_places, np.int64)
        for place, (_, _, agent) in enumerate(found):
            part = f"{agent}#{met[agent] % parts[agent]}" if stack is not None else agent
            met[agent] += 1
            self._parts[part] = nets[agent]
            self._slots[place] = self._played.enter(part)
        # One row more than there are: padded entries of stacked nets play it, and what it holds means nothing.
        self._place_rows = np.array([row for row, _, _ in found])
        self._place_seats = np.array([seat for _, seat, _ in found])
        seats = [row * SEATS + seat for row, seat, _ in found]
        self._seats = torch.tensor([*seats, 0], device=device)
        self._state: PolicyState = like.initial_state(num_places + 1)
        self._chosen = torch.zeros(num_places + 1, view.actions.shape[-1], dtype=view.actions.dtype, device=device)
        self._finite = torch.ones(num_places + 1, dtype=torch.bool, device=device)
        self._groups: dict[bytes, list[RowGroup]] = {}
        self._fixed = FixedGroups()

    guests: Sequence[str] = ()
    """See `league.play.opponents.Holder`; a net of another architecture is of another family."""

    def policy(self, agent_id: str) -> Policy:
        """The net of that part."""
        return self._parts[agent_id]

    def act(self, acting: BoolArray) -> None:
        """Writes the actions of its seats that are `acting` (B, S)."""
        groups = self._groups_of(acting)
        if self._graphs is None or not groups:
            self._act(groups)
            return
        key = (id(self), *(group.shape for group in groups))
        fixed = self._fixed.hold(key, groups)
        own = [self._seats, self._chosen, self._finite, *self._view.tensors(), *self._state.tensors().values()]
        self._graphs.call(key, self._act, fixed, [*own, *self._played.weights(fixed)])

    def _act(self, groups: list[RowGroup]) -> None:
        """Reads and writes only tensors that `act` names, so that it can be captured."""
        view = self._view
        for group in groups:
            obs, mask = view.see(self._seats[group.rows])
            action, is_finite = self._played.step(group, obs, self._state, mask, self._generator, greedy=self._greedy)
            self._chosen[group.rows] = action.to(self._chosen.dtype)
            self._finite[group.rows] = is_finite
        view.act(self._seats[:-1], self._chosen[:-1], self._finite[:-1])

    def watch(self, watching: BoolArray) -> None:
        """Shows its seats that are `watching` (B, S) what they see while they wait."""
        for group in self._groups_of(watching):
            obs, _ = self._view.see(self._seats[group.rows])
            self._played.watch(group, obs, self._state)

    def mark(self, forfeits: BoolArray) -> None:
        """Marks its seats (B, S) that have forfeited their matches."""
        rows = forfeited_rows(self._state)
        if rows is not None:
            forfeits[self._place_rows, self._place_seats] = rows[:-1]

    def _groups_of(self, chosen: BoolArray) -> list[RowGroup]:
        """The calls that play its seats among those that are chosen (B, S)."""
        own = chosen[self._place_rows, self._place_seats]
        if not own.any():
            return []
        key = own.tobytes()
        if key not in self._groups:
            if len(self._groups) >= MAX_GROUPINGS:
                self._groups.clear()
            self._groups[key] = self._played.groups(np.where(own, self._slots, NO_SLOT))
        return self._groups[key]

    def clear(self, ended: npt.NDArray[np.int64]) -> None:
        """Forgets what belonged to the matches that ended in these rows."""
        places = np.flatnonzero(np.isin(self._place_rows, ended)) if len(ended) else ended
        if len(places):
            self._state.clear(sent(places, self._view.device))
