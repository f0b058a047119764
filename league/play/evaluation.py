"""Matches between fixed agents: seats swapped in pairs that share a seed, a fixed number of matches a row so that
short ones are not over-counted, and random numbers of their own, so that evaluating never changes a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from league.device import autocast, sent
from league.errors import SnapshotError, UsageError, code_told
from league.phases import advance
from league.play.opponents import MAX_GROUPINGS, NO_SLOT, FixedGroups, Opponents, RowGroup, stacked_shape
from league.play.recording import Recorder, Recording
from league.play.seats import SeatView, bot_id, match_result, short_name
from league.play.summaries import Count, check_games, num_rows
from league.signals import settings_kept
from league.types import (
    BOT_PREFIX,
    EXTERNAL,
    SEATS,
    BoolArray,
    Closing,
    MatchBatch,
    MatchResult,
    Origin,
    Policy,
    PolicyStack,
    PolicyState,
    Turns,
)

MAX_PADDING = 1.25
"""On a CPU nets are stacked where that plays at most so many times their rows, each slot having as many as the fullest
net. A stacked row takes 0.7 to 0.8 of the time (lab/performance.md); on CUDA rows count for less than calls."""
MAX_ENTRIES = 2
"""On CUDA a stacked step has at most so many times the rows that are played, but for rounding to its shapes."""
MAX_STEPS = 1_000_000
"""Of a match; of brawl they are 28 hours."""


Nets = Callable[[list[RowGroup]], Any]


class Graphs(Protocol):
    """Replays what a call did on the device (`league.play.graphs.StepGraphs`)."""

    def call(self, key: Hashable, nets: Nets, groups: list[RowGroup], reads: Iterable[torch.Tensor], /) -> Any:
        """Does what `nets` does."""


MakeStack = Callable[[Policy], PolicyStack | None]
MakeGraphs = Callable[[torch.Generator], Graphs | None]
NOT_RECORDED = Recording()


@dataclass(frozen=True)
class Contestant:
    """Who plays: `agent_id` is written into the rows; `policy` is None for a native bot.

    family: equal for nets of one architecture, which may then be played stacked; None: like no other. name: in errors.
    """

    agent_id: str
    policy: Policy | None = None
    family: Hashable = None
    name: str = ""


@dataclass(frozen=True)
class Pairing:
    """Two contestants, how many games they play (an even number), and the seed of these matches."""

    a: Contestant
    b: Contestant
    games: int
    seed: int


@settings_kept()
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
        count: what the progress counts (`league.phases.advance`); None: these matches alone.

    Raises:
        UsageError: a pairing's games are odd or not positive, or a match does not end.
        SnapshotError: a net plays what is not legal, or gives no finite numbers.
    """
    for pairing in pairings:
        check_games(pairing.games)
    plan = _Plan(pairings)
    generator = _generator(pairings)
    count = count or Count(total=int(plan.quota.sum()))
    spent = 0
    advance(count.name, count.done, count.total, count.steps)
    batch = make_batch(len(plan.pairing))
    with _closed_after(batch), autocast(generator.device, precision):
        view = SeatView(batch, generator.device)
        for row, agents in enumerate(plan.agents):
            batch.controllers[row] = [bot_id(batch, agent) for agent in agents]
        batch.reset(plan.seeds)
        seats = _Seats(batch)
        matches = _Matches(batch, plan, origin, update, recording, greedy=greedy)
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
            fault = view.fault(acting)
            if fault is not None:
                row, seat, problem = fault
                raise SnapshotError(_refused(pairings, plan.agents[row][seat], problem))
            matches.step(seats, playing)
            watching = seats.watching()
            if watching.any():
                view.pull()
                for family in families:
                    family.watch(watching)
            ended = matches.finish(playing)
            advance(count.name, count.done + len(matches.results), count.total, count.steps + spent)
            for family in families:
                family.clear(ended)
    return sorted(matches.results, key=lambda result: (result.row, result.ordinal))


def _generator(pairings: Sequence[Pairing]) -> torch.Generator:
    """What all nets draw from, by the seeds of all pairings."""
    entropy = [word for pairing in pairings for word in (pairing.seed & 0xFFFFFFFF, pairing.seed >> 32)]
    drawn = int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> 1)
    return torch.Generator(_device_of(pairings)).manual_seed(drawn)


class _Matches:
    """The match of each row so far, and the results of those that ended."""

    def __init__(
        self, batch: MatchBatch, plan: _Plan, origin: Origin, update: int, recording: Recording, *, greedy: bool
    ) -> None:
        self._batch, self._plan, self._game = batch, plan, recording.game
        self._written = {**asdict(origin), "update": update, "sampling": "greedy" if greedy else "sample"}
        self._recorder = Recorder(batch, plan.first_rows(recording.matches))
        self._courses = _Courses(batch, plan.agents, greedy=greedy)
        self.played, self._steps = np.zeros(batch.num_rows, np.int64), np.zeros(batch.num_rows, np.int64)
        self._sums = np.zeros(batch.reward_terms.shape, np.float64)
        self.results: list[MatchResult] = []

    def step(self, seats: _Seats, playing: BoolArray) -> None:
        """Plays the actions that are set."""
        self._recorder.before()
        seats.step()
        self._recorder.after()
        self._courses.take()
        self._steps += 1
        _need_ends(self._batch, self._steps, playing)
        self._sums += self._batch.reward_terms

    def finish(self, playing: BoolArray) -> npt.NDArray[np.int64]:
        """Adds the results of the matches that ended; returns their rows."""
        ended = np.flatnonzero((self._batch.terminated | self._batch.truncated) & playing)
        self.results += [self._result(row) for row in ended.tolist()]
        self.played[ended] += 1
        self._steps[ended] = 0
        self._sums[ended] = 0
        self._courses.clear(ended)
        return ended

    def _result(self, row: int) -> MatchResult:
        result = match_result(
            self._batch,
            row,
            self._sums[row],
            **self._written,
            kind="evaluation",
            ordinal=int(self.played[row]),
            agents=self._plan.agents[row],
            steps=int(self._steps[row]),
            course=self._courses.of(row),
        )
        tape = self._recorder.finish(row)
        if tape is None:
            return result
        return replace(result, replay=tape.written(self._game, result, self._plan.names(row)))


class _Courses:
    """A hash of what was observed so far in the matches of each row in which neither side samples."""

    def __init__(self, batch: MatchBatch, agents: Sequence[tuple[str, str]], *, greedy: bool) -> None:
        self._batch = batch
        self._is_fixed = [greedy or all(agent.startswith(BOT_PREFIX) for agent in pair) for pair in agents]
        words = int(np.prod(batch.obs.shape[1:]))
        self._factors = np.random.default_rng(0).integers(1, 2**63, words, np.uint64) * np.uint64(2) + np.uint64(1)
        self._hashes = np.zeros(batch.num_rows, np.uint64)

    def take(self) -> None:
        """After a step; of a match that ended in it the last observation counts."""
        batch = self._batch
        if any(self._is_fixed):
            over = (batch.terminated | batch.truncated)[:, None, None]
            seen = np.where(over, batch.final_obs, batch.obs).view(np.uint32).reshape(batch.num_rows, -1)
            self._hashes = self._hashes * np.uint64(6364136223846793005) + (seen * self._factors).sum(axis=1)

    def of(self, row: int) -> int | None:
        """The hash of the match that has ended in a row; None where a side samples."""
        return int(self._hashes[row]) if self._is_fixed[row] else None

    def clear(self, ended: npt.NDArray[np.int64]) -> None:
        """New matches begin in these rows."""
        self._hashes[ended] = 0


@contextmanager
def _closed_after(batch: MatchBatch) -> Iterator[None]:
    """Lets go of what a batch holds beside memory, however it ends."""
    try:
        yield
    finally:
        if isinstance(batch, Closing):
            batch.close()


class _Seats:
    """Who decides in a step of a batch, and who looks on."""

    def __init__(self, batch: MatchBatch) -> None:
        self._batch, self._turns = batch, batch if isinstance(batch, Turns) else None
        self._is_net: BoolArray = batch.controllers == EXTERNAL
        self._playing = np.ones(batch.num_rows, np.bool_)
        self._deciding = np.ones_like(self._is_net)

    def acting(self, playing: BoolArray) -> BoolArray:
        """(B, S): the nets' seats that decide in the next step; rows that are not `playing` (B,) have nothing to do."""
        self._playing = playing
        if self._turns is not None:
            self._deciding = self._turns.to_act & playing[:, None]
            self._turns.held[:] = ~playing
        return np.asarray(self._deciding & playing[:, None] & self._is_net)

    def step(self) -> None:
        """The games' step. Where nobody can be held, rows that have nothing to do play on, by legal actions."""
        idle = ~self._playing
        if self._turns is None and idle.any():
            spec, mask = self._batch.spec.action, self._batch.mask
            numbers = np.ones((int(idle.sum()), SEATS, spec.num_draws))
            self._batch.actions[idle] = spec.legal_actions(None if mask is None else mask[idle], numbers)
        self._batch.step()

    def watching(self) -> BoolArray:
        """(B, S): the nets' seats that wait on after the other's decision, which their own next one would not show."""
        if self._turns is None:
            return np.zeros_like(self._is_net)
        is_over = self._batch.terminated | self._batch.truncated
        return np.asarray(self._deciding[:, ::-1] & ~self._turns.to_act & ~is_over[:, None] & self._is_net)


def _need_ends(batch: MatchBatch, steps: npt.NDArray[np.int64], playing: BoolArray) -> None:
    """Refuses a match that does not end: `steps` (B,) made of those in play.

    Raises:
        UsageError: one has taken more than `MAX_STEPS`.
    """
    if (steps * playing).max() > MAX_STEPS:
        row = int((steps * playing).argmax())
        raise UsageError(
            f"game {batch.spec.name}: the match in row {row} has not ended after {MAX_STEPS:,} steps; give the game a"
            f" limit after which a match is over"
        )


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


class _Plan:
    """The rows of all pairings: (B,) arrays, and who sits in seat 0 and seat 1 of each row."""

    def __init__(self, pairings: Sequence[Pairing]) -> None:
        pairing, quota, seeds = [], [], []
        for k, p in enumerate(pairings):
            pairs, wide = p.games // 2, num_rows(p.games) // SEATS
            pairing.append(np.full(SEATS * wide, k))
            quota.append(np.repeat(pairs // wide + (np.arange(wide) < pairs % wide), SEATS))
            seeds.append(np.repeat(np.random.SeedSequence(p.seed).generate_state(wide, np.uint64), SEATS))
        self.pairing: npt.NDArray[np.int64] = np.concatenate(pairing)
        self.quota: npt.NDArray[np.int64] = np.concatenate(quota)
        """Matches that each row plays, however short they are."""
        self.seeds: npt.NDArray[np.uint64] = np.concatenate(seeds)
        ids = [(p.a.agent_id, p.b.agent_id) for p in pairings]
        self.agents = [ids[k] if row % SEATS == 0 else ids[k][::-1] for row, k in enumerate(self.pairing.tolist())]
        self._names = {who.agent_id: who.name for p in pairings for who in (p.a, p.b)}

    def first_rows(self, count: int) -> list[int]:
        """The first `count` rows of each pairing, or all that it has."""
        starts = np.searchsorted(self.pairing, self.pairing)
        return np.flatnonzero(np.arange(len(self.pairing)) - starts < count).tolist()

    def names(self, row: int) -> tuple[str, str]:
        """What those in seat 0 and seat 1 of a row are called; a bot by its id, where it has no name."""
        first, second = (self._names[a] or (a if a.startswith(BOT_PREFIX) else "") for a in self.agents[row])
        return first, second


@dataclass(frozen=True)
class _Calls:
    """How nets are called: arguments of `play`, and what they draw from."""

    generator: torch.Generator
    greedy: bool
    make_stack: MakeStack | None
    graphs: Graphs | None


def _families(pairings: Sequence[Pairing], plan: _Plan, view: SeatView, calls: _Calls) -> list[_Family]:
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


class _Family:
    """Nets of one architecture. They share one memory, with a row for every seat that one of them plays."""

    def __init__(self, nets: dict[str, Policy], plan: _Plan, view: SeatView, calls: _Calls) -> None:
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
