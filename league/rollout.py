"""Plays `T` steps of `B` rows: the learner's seats, the frozen nets', and the bots inside the game. A row changes its
opponent only where its own match ends.

The rows lie in one lane or in two equal ones, each with a batch of matches of its own. With two, the games of one step
in a worker thread while the nets of the other run; what is played is the same as with both in turn in one thread, since
all that is drawn is drawn in the main thread, lane by lane. On a GPU the main thread only ever waits for a game, the
worker for the actions that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from league.config import Config
from league.device import autocast
from league.errors import GuardError
from league.findings import Finding, check_finite, seed_of
from league.graphs import StepGraphs
from league.moving import Taken, regrouped
from league.opponents import NO_SLOT, Group, Opponents
from league.pool import Pool
from league.randomness import take_generator
from league.strict import StrictMasks
from league.types import (
    BOT_PREFIX,
    EXTERNAL,
    SEATS,
    MatchBatch,
    MatchResult,
    Policy,
    PolicyStack,
    PolicyState,
    Rollout,
)

OVERLAP_ROWS = 1_024
"""On CUDA, from so many rows on, halving them costs the nets less than the games' time that it hides."""


def bot_id(batch: MatchBatch, agent: str) -> int:
    """The controller that plays `agent`: a native bot's id for `bot:NAME`, else EXTERNAL."""
    if agent.startswith(BOT_PREFIX):
        return batch.spec.bots.index(agent.removeprefix(BOT_PREFIX))
    return EXTERNAL


class SeatView:
    """The arrays of a batch where the nets are: on a CPU the batch's own, elsewhere copies at fixed places.

    obs (B, S, obs_size), mask (B, S, M) or None and actions (B, S, A) are the tensors. `pull` brings the first two up
    to date; `push` sends the actions on their way, and after `wait` the batch has them. `see` reads and `act` writes
    those of some seats. On CUDA nothing but `wait` waits for the device.
    """

    def __init__(self, batch: MatchBatch, device: torch.device) -> None:
        self.device = device
        arrays = {"obs": batch.obs, "mask": batch.mask, "actions": batch.actions}
        self._host = {name: torch.from_numpy(array) for name, array in arrays.items() if array is not None}
        self._is_here, is_cuda = device.type == "cpu", device.type == "cuda"
        self._staged = {name: torch.empty_like(x, pin_memory=True) if is_cuda else x for name, x in self._host.items()}
        self._there = {name: x if self._is_here else x.to(device) for name, x in self._host.items()}
        self._sent = torch.cuda.Event() if is_cuda else None  # type: ignore[no-untyped-call]
        self.obs, self.mask, self.actions = self._there["obs"], self._there.get("mask"), self._there["actions"]

    def tensors(self) -> list[Tensor]:
        """The tensors."""
        return list(self._there.values())

    def pull(self) -> None:
        """Observations and masks to the device."""
        if self._is_here:
            return
        for name in self._there.keys() - {"actions"}:
            if self._sent is not None:
                self._staged[name].copy_(self._host[name])
            self._there[name].copy_(self._staged[name], non_blocking=self._sent is not None)

    def see(self, seats: Tensor) -> tuple[Tensor, Tensor | None]:
        """Observations (n, obs_size) and masks (n, M) of seats (n,), counted through all seats of all rows."""
        obs = self.obs.flatten(0, 1).index_select(0, seats)
        return obs, None if self.mask is None else self.mask.flatten(0, 1).index_select(0, seats)

    def act(self, seats: Tensor, actions: Tensor) -> None:
        """Writes the actions (n, A) of seats (n,), counted likewise."""
        self.actions.view(-1, actions.shape[1]).index_copy_(0, seats, actions.to(self.actions.dtype))

    def push(self) -> None:
        """Begins to copy the actions to the batch."""
        if not self._is_here:
            self._staged["actions"].copy_(self.actions, non_blocking=self._sent is not None)
        if self._sent is not None:
            self._sent.record()

    def wait(self) -> None:
        """Until what was pushed is in the batch."""
        if self._sent is not None:
            self._sent.synchronize()
            self._host["actions"].copy_(self._staged["actions"])


class Step(NamedTuple):
    """What the learner's net saw and did in one step: (B, ...) tensors on the device."""

    obs: Tensor
    mask: Tensor | None
    action: Tensor
    log_prob: Tensor
    value: Tensor


class Lane:
    """Rows that step together: their matches, who sits where, what the nets remember, what each match has brought.

    Args:
        batch: the matches.
        first_row: number of the lane's first row among all.
        policy: the learner's network.
        nets: the frozen ones.
        generator: draws the actions.
        precision: as `learner.precision`.
        graphs: replays the nets' step, if given.
        strict: checked before every step, if given.
    """

    def __init__(
        self,
        batch: MatchBatch,
        first_row: int,
        policy: Policy,
        nets: Opponents,
        generator: torch.Generator,
        precision: str,
        graphs: StepGraphs[Step] | None,
        strict: StrictMasks | None,
    ) -> None:
        self.batch, self.first_row, self.policy, self.nets = batch, first_row, policy, nets
        self._generator, self._graphs, self._strict = generator, graphs, strict
        self.device, num_rows = generator.device, batch.num_rows
        self.view = SeatView(batch, self.device)
        with autocast(self.device, precision):
            self.state: PolicyState = policy.initial_state(num_rows)
            # One row more than there are: padded entries of stacked nets play it, and what it holds means nothing.
            self.opponent_state: PolicyState = policy.initial_state(num_rows + 1)
        spec = batch.spec
        # The learner's seats, counted through all seats of all rows.
        self._own = torch.zeros(num_rows, dtype=torch.int64, device=self.device)
        self._groups: list[Group] = []
        self._seen = torch.zeros(num_rows + 1, spec.obs_size, device=self.device)
        self._legal = torch.ones(num_rows + 1, spec.action.mask_size, dtype=torch.bool, device=self.device)
        self._chosen = torch.zeros(num_rows + 1, spec.action.num_parts, dtype=torch.int32, device=self.device)
        states = [tensor for state in (self.state, self.opponent_state) for tensor in state.tensors().values()]
        own = [self._own, self._seen, self._legal, self._chosen, *self.view.tensors()]
        self._reads = [*own, *states, *policy.parameters()]
        self.seats: npt.NDArray[np.int64] = np.arange(num_rows) % SEATS
        self.opponents: list[str] = [""] * num_rows
        self.slots = np.full(num_rows, NO_SLOT)
        self.is_first = np.ones(num_rows, np.bool_)
        self.begun_update = np.zeros(num_rows, np.int64)
        self.steps = np.zeros(num_rows, np.int64)
        self.sums = np.zeros((num_rows, SEATS, len(spec.reward_terms)), np.float64)
        self.ordinals = np.zeros(num_rows, np.int64)

    @property
    def num_rows(self) -> int:
        """Its rows."""
        return self.batch.num_rows

    def begin_matches(self, rows: npt.NDArray[np.int64], pool: Pool, updates_made: int) -> None:
        """Draws the opponents of `rows` (n,), seats both sides and clears what both remember."""
        for row in rows.tolist():
            opponent = self.opponents[row] = pool.draw()
            slot = self.nets.enter(opponent)  # before `leave`: a net that is met again keeps its slot
            self.nets.leave(int(self.slots[row]))
            self.slots[row] = slot
            self.batch.controllers[row, 1 - self.seats[row]] = bot_id(self.batch, opponent)
        self.batch.controllers[rows, self.seats[rows]] = EXTERNAL
        index = torch.from_numpy(rows).to(self.device, non_blocking=True)
        self.state.clear(index)
        self.opponent_state.clear(index)
        self.begun_update[rows] = updates_made
        self.steps[rows] = 0
        self.sums[rows] = 0
        self._seat()

    def _seat(self) -> None:
        """Tells the device who sits where."""
        own = np.arange(self.num_rows) * SEATS + self.seats
        self._own.copy_(torch.from_numpy(own), non_blocking=True)
        self._groups = self.nets.groups(self.slots)

    def think(self) -> Step:
        """The step of all nets; the actions are on their way to the batch."""
        self.view.pull()
        if self._graphs is None:
            step = self._nets(self._groups)
        else:
            key = (self.first_row, *(group.shape for group in self._groups))
            reads = [*self._reads, *self.nets.weights(self._groups)]
            step, self._groups = self._graphs.call(key, self._nets, self._groups, reads)
        self.view.push()
        return step

    def _nets(self, groups: list[Group]) -> Step:
        """Reads and writes only tensors of `_reads`, the groups and the nets' weights, so that it can be captured."""
        view = self.view
        obs, mask = view.see(self._own)
        action, log_prob, value = self.policy.step(obs, self.state, mask=mask, generator=self._generator)
        view.act(self._own, action)
        if not groups:  # bots alone
            return Step(obs, mask, action, log_prob.float(), value.float())
        others = self._own ^ 1  # a row's two seats follow one another, the first an even one
        self._seen[:-1], others_mask = view.see(others)
        if others_mask is not None:
            self._legal[:-1] = others_mask
        for group in groups:
            legal = None if view.mask is None else self._legal[group.rows]
            seen = self._seen[group.rows]
            self._chosen[group.rows] = self.nets.step(group, seen, self.opponent_state, legal, self._generator).int()
        view.act(others, self._chosen[:-1])  # where a bot plays, the game ignores it
        return Step(obs, mask, action, log_prob.float(), value.float())

    def foresee(self, generator: torch.Generator) -> Step:
        """The learner's part of the next `think`, without taking it: on a copy of its memory, drawn by `generator`."""
        self.view.pull()
        obs, mask = self.view.see(self._own)
        action, log_prob, value = self.policy.step(obs, self.state.select(None), mask=mask, generator=generator)
        return Step(obs, mask, action, log_prob.float(), value.float())

    def stop_graphs(self) -> None:
        """From now on the nets' steps run as they are."""
        self._graphs = None

    def play(self) -> None:
        """The game's step, once it has the actions; may run in another thread."""
        self.view.wait()
        if self._strict is not None:
            self._strict.check()
        self.batch.step()
        check_finite(self.batch, is_played=True, before=None if self._strict is None else self._strict.now)

    def value(self) -> Tensor:
        """(B,): what the learner's net expects from now on."""
        self.view.pull()
        return self.policy.value(self.view.see(self._own)[0], self.state).float()

    def cut_values(self) -> tuple[Tensor, Tensor] | None:
        """Rows (n,) of matches that were cut, and the values (n,) of their last states under the memory they had."""
        cut = np.flatnonzero(self.batch.truncated & ~self.batch.terminated)
        if not len(cut):
            return None
        obs = torch.from_numpy(self.batch.final_obs[cut, self.seats[cut]]).to(self.device)
        rows = torch.from_numpy(cut).to(self.device)
        return rows, self.policy.value(obs, self.state, rows=rows).float()

    def finish_match(self, row: int, run: str, update: int, game_id: str) -> MatchResult:
        """The result of the match that ended; the learner takes the other seat next."""
        seat, opponent = int(self.seats[row]), self.opponents[row]
        result = match_result(
            self.batch,
            row,
            self.sums[row],
            first_row=self.first_row,
            run=run,
            kind="training",
            update=update,
            ordinal=int(self.ordinals[row]),
            game_id=game_id,
            agents=(run, opponent) if seat == 0 else (opponent, run),
            steps=int(self.steps[row]),
            sampling="sample",
            update_begin=int(self.begun_update[row]),
            update_end=update - 1,
        )
        self.ordinals[row] += 1
        self.seats[row] = 1 - seat
        return result

    def evidence(self, finding: Finding, run: str, ticks_per_step: int) -> dict[str, Any]:
        """Whose match a finding is in, what was seen there, and the state to see it again from; spoils the batch.

        Where the match has just ended, an observation is already the next one's, whose opponent is not drawn yet.
        """
        batch, row = self.batch, finding.row
        state, before = batch.get_state(), finding.before
        seen = {"obs": batch.obs[row].tolist(), "actions": batch.actions[row].tolist()}
        has_ended = finding.is_played and bool(batch.terminated[row] | batch.truncated[row])
        is_next = has_ended and finding.what == "obs"
        steps = 0 if is_next else int(self.steps[row]) + finding.is_played
        seat = int(self.seats[row]) ^ is_next
        agents = [run, run]
        agents[1 - seat] = "" if is_next else self.opponents[row]
        return {
            "what": finding.what,
            "agents": agents,
            "row": self.first_row + row,
            "ordinal": int(self.ordinals[row]) + is_next,
            "seat": finding.seat,
            "index": finding.index,
            "step": steps,
            "tick": steps * ticks_per_step,
            "rows": batch.num_rows,
            "batch_row": row,
            "seen": {**seen, "mask": None if batch.mask is None else batch.mask[row].tolist()},
            "reward_terms": batch.reward_terms[row].tolist() if finding.is_played else None,
            "state": state,
            "before": None if before is None else {"state": before.state, "actions": before.actions.tolist()},
            "seed": int(batch.result["seed"][row]) if has_ended and not is_next else seed_of(batch, row),
        }

    def state_dict(self) -> dict[str, Any]:
        """All that the lane's next step depends on."""
        return {
            "batch": self.batch.get_state(),
            "state": self.state.tensors(),
            "opponent_state": self.opponent_state.tensors(),
            "opponents": list(self.opponents),
            "slots": self.slots,
            "seats": self.seats,
            "is_first": self.is_first,
            "begun_update": self.begun_update,
            "steps": self.steps,
            "sums": self.sums,
        }

    def takes(self, state: dict[str, Any]) -> bool:
        """Whether what the nets remember has the shapes of now, and the game takes its state; if so, it has it then."""
        pairs = (self.state, state["state"]), (self.opponent_state, state["opponent_state"])
        for now, saved in pairs:
            if any(name not in saved or saved[name].shape != x.shape for name, x in now.tensors().items()):
                return False
        try:
            self.batch.set_state(state["batch"])
        except ValueError:
            return False
        return True

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`, which `takes` found to fit; the nets must have been restored."""
        self.state.load(state["state"])
        self.opponent_state.load(state["opponent_state"])
        self.opponents = list(state["opponents"])
        for name in ("slots", "seats", "is_first", "begun_update", "steps", "sums"):
            getattr(self, name)[:] = state[name]
        self._seat()


class Collector:
    """The training matches of one run, in lanes.

    Args:
        batches: the matches, one batch a lane, with equally many rows; reset by `start`. With two, their games and nets
            overlap.
        policy: the learner's network, played as it is now.
        pool: draws the opponents and holds the frozen nets. All frozen nets share the learner's architecture.
        weights: reward term -> weight; the learner's reward is the weighted sum.
        run, game_id: written into every match row.
        generator: draws the actions, on the policy's device.
        precision: as `learner.precision`.
        stack: plays the frozen nets in one call; without it each plays its rows in a call of its own.
        graphs: replays the nets' step as CUDA graphs; needs a `stack`, without which no two steps are alike.
        strict: checked before every step, one a lane, if given.
        ticks_per_step: of the game, to tell where in its match something was found.
    """

    def __init__(
        self,
        batches: Sequence[MatchBatch],
        policy: Policy,
        pool: Pool,
        *,
        weights: Mapping[str, float],
        run: str,
        game_id: str,
        generator: torch.Generator,
        precision: str = "float32",
        stack: PolicyStack | None = None,
        graphs: StepGraphs[Step] | None = None,
        strict: Sequence[StrictMasks] = (),
        ticks_per_step: int = 1,
    ) -> None:
        self.policy, self.pool = policy, pool
        self.run, self.game_id = run, game_id
        self.generator, self.precision = generator, precision
        self.device, self.spec = generator.device, batches[0].spec
        self.is_stacked = stack is not None
        """Whether the frozen nets play in one call."""
        self.has_graphs = graphs is not None
        """Whether the nets' steps are to be replayed as CUDA graphs."""
        self.nets = Opponents(pool, stack, self.device)
        self._ticks_per_step = ticks_per_step
        self.finished: list[MatchResult] = []
        """Matches that ended in the rollout under way, or in the last one."""
        self._weights = np.array([weights.get(term, 0.0) for term in self.spec.reward_terms], np.float32)
        width = batches[0].num_rows
        self.lanes = [
            Lane(batch, i * width, policy, self.nets, generator, precision, graphs, strict[i] if strict else None)
            for i, batch in enumerate(batches)
        ]
        self.worker = ThreadPoolExecutor(1, "games") if len(self.lanes) > 1 else None
        """Steps the games while nets run; None plays games and nets in turn, which gives the same rollouts."""

    @property
    def num_rows(self) -> int:
        """B, of all lanes."""
        return sum(lane.num_rows for lane in self.lanes)

    def start(self, seed: int, updates_made: int = 0) -> None:
        """Begins every row's first match; the pool must have targets."""
        seeds = np.random.SeedSequence(seed).generate_state(self.num_rows, np.uint64).astype(np.uint64)
        for lane in self.lanes:
            stop = lane.first_row + lane.num_rows
            lane.batch.reset(seed if len(self.lanes) == 1 else seeds[lane.first_row : stop])
            lane.is_first[:] = True
            lane.begin_matches(np.arange(lane.num_rows), self.pool, updates_made)

    def opponents_in_use(self) -> set[str]:
        """The opponents that rows play now."""
        return {opponent for lane in self.lanes for opponent in lane.opponents}

    def collect(self, num_steps: int, update: int) -> Rollout:
        """Plays `num_steps` steps of every row for the update number `update`, counted from 1.

        Match rows carry it; the learner's weights are those after `update` - 1 updates.

        Raises:
            GuardError: the game gave a number that is not finite, or `strict` found something; the collector has
                `finished` and is of no more use.
        """
        first, *others = (lane.state for lane in self.lanes)
        record = _Record(num_steps, self.num_rows, first.join(others), self.device)
        games: dict[int, Future[None]] = {}
        self.finished = record.finished
        for lane in self.lanes:
            lane.ordinals[:] = 0
        try:
            for lane in self.lanes:
                check_finite(lane.batch, is_played=False)
            with autocast(self.device, self.precision):
                for t in range(num_steps + 1):
                    for lane in self.lanes:
                        if t > 0:
                            games.pop(lane.first_row).result()
                            self._settle(lane, t - 1, update, record)
                        if t < num_steps:
                            record.keep(t, lane, lane.think())
                            games[lane.first_row] = self._submit(lane.play)
                        else:
                            record.keep_last(lane)
        except Finding as finding:
            raise self._stopped_by(finding, update) from None
        finally:
            for game in games.values():  # after an error: no game is left stepping
                game.exception()
        return record.rollout()

    def _stopped_by(self, finding: Finding, update: int) -> GuardError:
        """The finding with its match."""
        lane = next(lane for lane in self.lanes if lane.batch is finding.batch)
        found = lane.evidence(finding, self.run, self._ticks_per_step)
        agents = " against ".join(_short(agent, self.run) for agent in found["agents"])
        role = "the learner" if found["agents"][finding.seat] == self.run else "its opponent"
        message = (
            f"{finding.kind}: {self.spec.name}, match {update}.{found['row']}.{found['ordinal']} of {agents}, seed"
            f" {found['seed']}, tick {found['tick']} (step {found['step']}), seat {finding.seat} ({role}):"
            f" {finding.text}"
        )
        match = {"message": message, "kind": finding.kind, "run": self.run, "game_id": self.game_id, "update": update}
        return GuardError(message, finding.kind, {**match, **found})

    def _submit(self, play: Callable[[], None]) -> Future[None]:
        if self.worker is not None:
            return self.worker.submit(play)
        play()
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _settle(self, lane: Lane, t: int, update: int, record: _Record) -> None:
        """What the game's step brought, once it is done: rewards, matches that ended, and those that begin instead."""
        batch = lane.batch
        lane.steps += 1
        lane.sums += batch.reward_terms
        ends = batch.terminated | batch.truncated
        reward = batch.reward_terms[np.arange(lane.num_rows), lane.seats] @ self._weights
        record.keep_game(t, lane, reward, ends, lane.cut_values())
        lane.is_first = ends.copy()
        ended = np.flatnonzero(ends)
        if len(ended):
            record.finished += [lane.finish_match(row, self.run, update, self.game_id) for row in ended.tolist()]
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
        lanes = regrouped(state["lanes"], widths, self.lanes[0].batch, self.policy)
        if lanes is None or not all(lane.takes(saved) for lane, saved in zip(self.lanes, lanes, strict=True)):
            return Taken(0, num_saved, is_reseeded, is_regrouped=False)
        self.nets.restore(state["nets"], np.concatenate([lane["slots"] for lane in lanes]))
        for lane, saved in zip(self.lanes, lanes, strict=True):
            lane.load_state_dict(saved)
        return Taken(num_saved, 0, is_reseeded, is_regrouped=len(lanes) != len(state["lanes"]))


def _short(agent: str, run: str) -> str:
    """An agent to be read: of a snapshot, the beginning of its hash."""
    is_name = agent == run or agent.startswith(BOT_PREFIX)
    return (agent if is_name else agent[:12]) or "an opponent not drawn yet"


class _Record:
    """What is kept of a rollout while it is played: the nets' side on the device, the games' side on the host."""

    def __init__(self, num_steps: int, num_rows: int, state: PolicyState, device: torch.device) -> None:
        self.finished: list[MatchResult] = []
        self._shape, self._state, self._device = (num_steps, num_rows), state, device
        self._there: dict[str, Tensor] = {}
        self._cut_value = torch.zeros(self._shape, device=device)
        self._last_value = torch.zeros(num_rows, device=device)
        self._reward = np.zeros(self._shape, np.float32)
        self._ends, self._is_first = np.zeros(self._shape, np.bool_), np.zeros(self._shape, np.bool_)

    def keep(self, t: int, lane: Lane, step: Step) -> None:
        """The nets' step number t."""
        rows = slice(lane.first_row, lane.first_row + lane.num_rows)
        for name, x in step._asdict().items():
            if x is None:
                continue
            if name not in self._there:
                self._there[name] = x.new_empty((*self._shape, *x.shape[1:]))
            self._there[name][t, rows] = x
        self._is_first[t, rows] = lane.is_first

    def keep_game(
        self,
        t: int,
        lane: Lane,
        reward: npt.NDArray[np.float32],
        ends: npt.NDArray[np.bool_],
        cut_values: tuple[Tensor, Tensor] | None,
    ) -> None:
        """The game's step number t."""
        rows = slice(lane.first_row, lane.first_row + lane.num_rows)
        self._reward[t, rows], self._ends[t, rows] = reward, ends
        if cut_values is not None:
            self._cut_value[t, lane.first_row + cut_values[0]] = cut_values[1]

    def keep_last(self, lane: Lane) -> None:
        """The value of the state after the last step."""
        self._last_value[lane.first_row : lane.first_row + lane.num_rows] = lane.value()

    def rollout(self) -> Rollout:
        """All of it, on the device."""
        there, value = self._there, self._there["value"]
        reward, ends, is_first = (
            torch.from_numpy(x).to(self._device) for x in (self._reward, self._ends, self._is_first)
        )
        following = torch.cat([value[1:], self._last_value[None]])
        return Rollout(
            obs=there["obs"],
            mask=there.get("mask"),
            action=there["action"],
            log_prob=there["log_prob"],
            value=value,
            reward=reward,
            next_value=torch.where(ends, self._cut_value, following),
            ends=ends,
            is_first=is_first,
            state=self._state,
            finished=self.finished,
        )


def num_lanes(config: Config, device: torch.device) -> int:
    """2 where games and nets shall overlap and the rows can be halved, else 1."""
    wanted = config.learner.overlap
    if wanted == "auto":
        wanted = device.type == "cuda" and config.env.rows >= OVERLAP_ROWS
    return 2 if wanted and config.env.rows % 2 == 0 else 1


def make_collector(
    config: Config,
    device: torch.device,
    policy: Policy,
    pool: Pool,
    *,
    make_batch: Callable[[int], MatchBatch],
    make_stack: Callable[[], PolicyStack | None],
    run: str,
    game_id: str,
    seed: int,
    say: Callable[[str], None],
) -> Collector:
    """The collector of a run's settings, with the lanes and calls that suit the device.

    Args:
        config, device, policy, pool, run, game_id: the run's.
        make_batch: a batch of the game with the given number of rows.
        make_stack: makes what plays the frozen nets in one call; None where that would be slower.
        seed: of the actions drawn.
        say: is told what cannot be had.
    """
    lanes, learner = num_lanes(config, device), config.learner
    batches = [make_batch(config.env.rows // lanes) for _ in range(lanes)]
    generator = torch.Generator(device).manual_seed(seed)
    ticks = config.env.options.get("ticks_per_step", 1)
    has_graphs = learner.compile == "graphs" or (device.type == "cuda" and learner.compile != "off")
    return Collector(
        batches,
        policy,
        pool,
        weights=config.rewards,
        run=run,
        game_id=game_id,
        generator=generator,
        precision=learner.precision,
        stack=make_stack(),
        graphs=StepGraphs(generator, learner.precision, say) if has_graphs else None,
        strict=[StrictMasks(b, make_batch(b.num_rows)) for b in batches] if config.env.strict_masks else (),
        ticks_per_step=ticks if isinstance(ticks, int) else 1,
    )


def seat_pairs(values: npt.NDArray[Any]) -> Sequence[tuple[float, float]]:
    """Rows (N, S) as (seat 0, seat 1) pairs of floats."""
    return [(a, b) for a, b in values.tolist()]


def match_result(
    batch: MatchBatch, row: int, reward_sums: npt.NDArray[np.float64], *, first_row: int = 0, **fields: Any
) -> MatchResult:
    """The match that ended in `row` in this step: the game's own part from `batch.result`, the rest from `fields`.

    reward_sums: (S, R), the match's unweighted reward terms.
    first_row: number of the batch's first row among all.
    """
    spec, result = batch.spec, batch.result[row]
    reason = "truncated" if batch.truncated[row] else spec.end_reasons[int(result["end_reason"])]
    return MatchResult(
        row=first_row + row,
        seed=int(result["seed"]),
        winner=int(result["winner"]),
        end_reason=reason,
        ticks=int(result["ticks"]),
        metrics=dict(zip(spec.metrics, seat_pairs(result["metrics"].T), strict=True)),
        rewards=dict(zip(spec.reward_terms, seat_pairs(reward_sums.T), strict=True)),
        **fields,
    )
