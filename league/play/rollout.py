"""Plays `T` steps of `B` rows: the learner's seats, the frozen nets', and the bots inside the game. A row changes its
opponent only where its own match ends.

The rows lie in one lane or in two equal ones, each with a batch of matches of its own. With two, the games of one step
in a worker thread while the nets of the other run; what is played is the same as with both in turn in one thread, since
all that is drawn is drawn in the main thread, lane by lane. On a GPU the main thread only ever waits for a game, the
worker for the actions that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from league.config.models import Config, LearnerConfig
from league.errors import GuardError
from league.play.buffer import RolloutBuffer, side_by_side
from league.play.checks import BatchError, check_finite
from league.play.graphs import StepGraphs
from league.play.lanes import Lane
from league.play.moving import Taken, regrouped
from league.play.nets import LaneNets, LearnerStep, NetCalls
from league.play.opponents import Matchmaker, Opponents, RowGroup
from league.play.randomness import take_generator
from league.play.seats import short_name
from league.play.strict import StrictMasks
from league.runtime.device import autocast
from league.runtime.phases import phase
from league.runtime.rows import RowGenerator, RowShare
from league.types import (
    Divisible,
    GameSpec,
    MatchBatch,
    MatchResult,
    Origin,
    Policy,
    PolicyStack,
    Resting,
    Rollout,
)

OVERLAP_ROWS = 1_024
"""On CUDA, from so many rows on, halving them costs the nets less than the games' time that it hides."""


class Collector:
    """The training matches of one run, in lanes.

    Args:
        batches: the matches, one batch a lane, with equally many rows; reset by `start`. With two, their games and nets
            overlap.
        policy: the learner's network, played as it is now.
        pool: draws the opponents and holds the frozen nets. All frozen nets share the learner's architecture.
        calls: how the nets are called.
        weights: reward term -> weight; the learner's reward is the weighted sum.
        origin: written into every match row.
        strict: may check each step before it is made, one a lane, if given.
        share: which rows of the run these are, where other processes play the rest; else all.
    """

    def __init__(
        self,
        batches: Sequence[MatchBatch],
        policy: Policy,
        pool: Matchmaker,
        calls: NetCalls,
        *,
        weights: Mapping[str, float],
        origin: Origin,
        strict: Sequence[StrictMasks] = (),
        share: RowShare | None = None,
    ) -> None:
        self.share = share
        self.policy, self.pool, self.origin = policy, pool, origin
        self.generator, self.precision = calls.generator, calls.precision
        width = batches[0].num_rows
        joins = calls.joins and isinstance(policy.initial_state(1), Divisible)
        self.nets = Opponents(pool, calls.stack, self.device, policy, width, joins=joins)
        self.finished: list[MatchResult] = []
        """Matches that ended in the rollout under way, or in the last one."""
        self.lanes = [
            Lane(
                batch,
                i * width,
                LaneNets(batch, policy, self.nets, calls, i * width),
                strict[i] if strict else None,
                share,
            )
            for i, batch in enumerate(batches)
        ]
        self.worker = ThreadPoolExecutor(1, "games") if len(self.lanes) > 1 else None
        """Steps the games while nets run; None plays games and nets in alternation, which gives the same rollouts."""
        self.weigh(weights)

    @property
    def device(self) -> torch.device:
        """Where the nets are."""
        return self.generator.device

    @property
    def spec(self) -> GameSpec:
        """What the game is."""
        return self.lanes[0].batch.spec

    @property
    def is_stacked(self) -> bool:
        """Whether the frozen nets play in one call."""
        return self.nets.is_stacked

    @property
    def has_graphs(self) -> bool:
        """Whether the nets' steps are to be replayed as CUDA graphs."""
        return self.lanes[0].nets.graphs is not None

    @property
    def num_rows(self) -> int:
        """B, of all lanes."""
        return sum(lane.num_rows for lane in self.lanes)

    def weigh(self, weights: Mapping[str, float]) -> None:
        """From the next step on the learner's reward is the sum of the terms by these weights."""
        self._weights = np.array([weights.get(term, 0.0) for term in self.spec.reward_terms], np.float32)

    def start(self, seed: int, updates_made: int = 0) -> None:
        """Begins every row's first match; the pool must have targets."""
        first, total = (0, self.num_rows) if self.share is None else (self.share.first, self.share.total)
        seeds = np.random.SeedSequence(seed).generate_state(total, np.uint64).astype(np.uint64)[first:]
        is_whole = len(self.lanes) == 1 and self.share is None
        for lane in self.lanes:
            lane.batch.reset(seed if is_whole else seeds[lane.rows])
            lane.matches.is_first[:] = True
            lane.begin_matches(np.arange(lane.num_rows), self.pool, updates_made)

    def one_by_one(self) -> None:
        """From now on all runs in the calling thread, one after the other, and no net's step as a graph."""
        self.worker = None
        for lane in self.lanes:
            lane.nets.graphs = None

    def close(self) -> None:
        """Lets go of what the games hold beside memory; the collector is of no more use."""
        for lane in self.lanes:
            lane.close()

    def opponents_in_use(self) -> set[str]:
        """The opponents that rows play now."""
        return {opponent for lane in self.lanes for opponent in lane.matches.opponents}

    @phase("play")
    @torch.no_grad()
    def collect(self, num_steps: int, update: int, num_segments: int = 1) -> Rollout:
        """Plays `num_segments` times `num_steps` steps of every row for the update number `update`, counted from 1.

        Match rows carry it; the learner's weights are those after `update` - 1 updates. The segments stand beside each
        other, as if of so many times the rows.

        Raises:
            GuardError: the game gave a number that is not finite, an opponent's net plays what cannot be, or `strict`
                found something; the collector has `finished` and is of no more use.
        """
        self.finished = []
        self.nets.refresh()
        for lane in self.lanes:
            lane.resume(update)
        try:
            segments = [self._segment(num_steps, update) for _ in range(num_segments)]
        except BatchError as finding:
            raise self._stopped_by(finding, update) from None
        return side_by_side(segments)

    def _segment(self, num_steps: int, update: int) -> Rollout:
        """`num_steps` steps of every row."""
        first, *others = (lane.nets.state for lane in self.lanes)
        buffer = RolloutBuffer(num_steps, self.num_rows, first.join(others), self.device, self.finished)
        games: dict[int, Future[None]] = {}
        rest = self.policy.at_rest() if isinstance(self.policy, Resting) else nullcontext()
        try:
            for lane in self.lanes:
                check_finite(lane.batch, is_played=False)
            going = {lane.first_row: self._steps_of(lane, num_steps, update, buffer) for lane in self.lanes}
            with autocast(self.device, self.precision), rest:
                while going:
                    for first_row, steps in list(going.items()):
                        if first_row in games:
                            games.pop(first_row).result()
                        play = next(steps, None)
                        if play is None:
                            del going[first_row]
                        else:
                            games[first_row] = self._submit(play)
        finally:
            for game in games.values():  # after an error: no game is left stepping
                game.exception()
        return buffer.rollout()

    def _steps_of(self, lane: Lane, num_steps: int, update: int, buffer: RolloutBuffer) -> Iterator[Callable[[], None]]:
        """A lane's part of a rollout. What is yielded is a step of its games, made before it goes on."""
        for t in range(num_steps):
            while lane.waits():  # after `start`; later it is the learner's turn when a rollout ends
                yield from self._reply(lane, t - 1, update, buffer)
            buffer.keep(t, lane, lane.decide())
            lane.matches.decide()
            yield lane.play
            self._settle(lane, t, update, buffer)
            while lane.waits():
                yield from self._reply(lane, t, update, buffer)
        buffer.keep_last(lane)

    def _reply(self, lane: Lane, t: int, update: int, buffer: RolloutBuffer) -> Iterator[Callable[[], None]]:
        """The others' decisions in the rows whose learner waits after its step number t."""
        lane.reply()
        yield lane.play
        self._settle(lane, t, update, buffer)

    def _stopped_by(self, finding: BatchError, update: int) -> GuardError:
        """The finding with its match."""
        lane = next(lane for lane in self.lanes if lane.batch is finding.batch)
        run = self.origin.run
        found = lane.evidence(finding, run)
        agents = " against ".join(
            a if a == run else short_name(a) or "an opponent not drawn yet" for a in found["agents"]
        )
        role = "the learner" if found["agents"][finding.entry.seat] == run else "its opponent"
        message = (
            f"{finding.kind}: {self.spec.name}, match {update}.{found['row']}.{found['ordinal']} of {agents}, seed"
            f" {found['seed']}, tick {found['tick']} (step {found['step']}), seat {finding.entry.seat} ({role}):"
            f" {finding.text}"
        )
        match = {"message": message, "kind": finding.kind, **asdict(self.origin), "update": update}
        return GuardError(message, finding.kind, {**match, **found})

    def _submit(self, play: Callable[[], None]) -> Future[None]:
        if self.worker is not None:
            return self.worker.submit(play)
        play()
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _settle(self, lane: Lane, t: int, update: int, buffer: RolloutBuffer) -> None:
        """What the game's step brought, once it is done: rewards, matches that ended, and those that begin instead.

        t: number of the learner's last decision; -1 before its first.
        """
        ends = lane.count()
        reward = lane.batch.reward_terms[np.arange(lane.num_rows), lane.matches.seats] @ self._weights
        if lane.turns is None:
            buffer.keep_game(t, lane, reward, ends, lane.cut_values())
        else:  # a match that has begun since brings nothing to the decision in the one before
            pending = lane.turns.is_pending
            buffer.keep_game(t, lane, reward * pending, ends & pending, lane.cut_values())
            lane.watch(t + 1, ends, buffer.views)
        ended = np.flatnonzero(ends)
        if len(ended):
            buffer.finished += lane.finish_matches(ended, self.origin, update)
            lane.begin_matches(ended, self.pool, updates_made=update - 1)

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs to play the very same next step."""
        return {
            "generator": self.generator.get_state(),
            "nets": list(self.nets.agents),
            "lanes": [lane.state_dict() for lane in self.lanes],
        }

    def load_state_dict(self, state: dict[str, Any], seed: int = 0) -> Taken:
        """The inverse of `state_dict`, as far as that can be where the state is of another device, other lanes or rows.

        seed: of the actions, where the generator's state is another kind of device's.

        Returns:
            What was taken over; where matches are `lost` the collector must `start`.
        """
        is_reseeded = not take_generator(self.generator, state["generator"], seed)
        widths, num_saved = (
            [lane.num_rows for lane in self.lanes],
            sum(len(lane["opponents"]) for lane in state["lanes"]),
        )
        guests = {agent: self.pool.policy(agent) for agent in self.pool.guests}
        lanes = regrouped(state["lanes"], widths, self.lanes[0].batch, self.policy, guests)
        if lanes is None or not all(lane.takes(saved) for lane, saved in zip(self.lanes, lanes, strict=True)):
            return Taken(0, num_saved, is_reseeded, is_regrouped=False)
        self.nets.restore(state["nets"], np.concatenate([lane["slots"] for lane in lanes]))
        for lane, saved in zip(self.lanes, lanes, strict=True):
            lane.load_state_dict(saved)
        return Taken(num_saved, 0, is_reseeded, is_regrouped=len(lanes) != len(state["lanes"]))


def num_lanes(config: Config, device: torch.device, rows: int | None = None) -> int:
    """2 where games and nets shall overlap and the rows can be halved, else 1.

    rows: of this process; None: all.
    """
    rows = rows or config.env.rows
    wanted = config.learner.overlap
    if wanted == "auto":
        wanted = device.type == "cuda" and rows >= OVERLAP_ROWS
    return 2 if wanted and rows % 2 == 0 else 1


def joins_learner(device: torch.device) -> bool:
    """Whether the learner plays in one call with stacked nets: where launches are what a step costs."""
    return device.type == "cuda"


def make_calls(
    config: LearnerConfig, generator: torch.Generator, stack: PolicyStack | None, say: Callable[[str], None]
) -> NetCalls:
    """How nets are called on the generator's device.

    say: receives a line about what is not there.
    """
    graphs = None if isinstance(generator, RowGenerator) else make_graphs(config, generator, say=say)
    return NetCalls(generator, config.precision, stack, graphs, joins=joins_learner(generator.device))


def make_graphs(config: LearnerConfig, generator: torch.Generator, *, say: Callable[[str], None]) -> Any:
    """`StepGraphs` that draw from a generator; None where the settings have none on its device.

    say: as for `make_calls`.
    """
    has_graphs = config.compile == "graphs" or (generator.device.type == "cuda" and config.compile != "off")
    return StepGraphs[RowGroup, LearnerStep | None](generator, config.precision, say) if has_graphs else None


def make_collector(
    config: Config,
    policy: Policy,
    pool: Matchmaker,
    calls: NetCalls,
    *,
    make_batch: Callable[[int], MatchBatch],
    origin: Origin,
    share: RowShare | None = None,
) -> Collector:
    """The collector of a run's settings, with as many lanes as suit the device.

    Args:
        config: the run's.
        policy, pool, calls, origin, share: as for `Collector`.
        make_batch: a batch of the game with the given number of rows.
    """
    rows = config.env.rows if share is None else share.num_rows
    lanes = num_lanes(config, calls.generator.device, rows)
    batches = [make_batch(rows // lanes) for _ in range(lanes)]
    strict = [StrictMasks(batch, make_batch, lanes) for batch in batches] if config.env.strict_masks else ()
    return Collector(batches, policy, pool, calls, weights=config.rewards, origin=origin, strict=strict, share=share)
