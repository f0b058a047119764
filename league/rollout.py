"""Plays `T` steps of `B` rows: the learner's seats, frozen nets grouped so that each plays its rows in one call, and
the bots inside the game. A row changes its opponent only where its own match ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from league.device import autocast
from league.pool import Pool
from league.strict import StrictMasks
from league.types import BOT_PREFIX, EXTERNAL, SEATS, MatchBatch, MatchResult, Policy, PolicyState, Rollout


def bot_id(batch: MatchBatch, agent: str) -> int:
    """The controller that plays `agent`: a native bot's id for `bot:NAME`, else EXTERNAL."""
    if agent.startswith(BOT_PREFIX):
        return batch.spec.bots.index(agent.removeprefix(BOT_PREFIX))
    return EXTERNAL


class SeatView:
    """The arrays of a batch as the nets see them: some rows, one seat each, on the device."""

    def __init__(self, batch: MatchBatch, device: torch.device) -> None:
        self.device = device
        self._obs = torch.from_numpy(batch.obs)
        self._mask = None if batch.mask is None else torch.from_numpy(batch.mask)
        self._actions = torch.from_numpy(batch.actions)
        self._final_obs = torch.from_numpy(batch.final_obs)

    def obs(self, rows: Tensor, seats: Tensor) -> Tensor:
        """What `seats` (n,) of `rows` (n,) see now: (n, obs_size)."""
        return self._obs[rows, seats].to(self.device)

    def final_obs(self, rows: Tensor, seats: Tensor) -> Tensor:
        """What they saw last in the match that just ended: (n, obs_size)."""
        return self._final_obs[rows, seats].to(self.device)

    def mask(self, rows: Tensor, seats: Tensor) -> Tensor | None:
        """What is legal for them now: (n, M), or None."""
        return None if self._mask is None else self._mask[rows, seats].to(self.device)

    def act(self, rows: Tensor, seats: Tensor, action: Tensor) -> None:
        """Writes their actions (n, A)."""
        self._actions[rows, seats] = action.to("cpu", torch.int32)


class Collector:
    """The training matches of one run: who sits where, what each net remembers, what each match has brought so far.

    Args:
        batch: the matches; reset by `start`.
        policy: the learner's network, played as it is now.
        pool: draws the opponents and holds the frozen nets. All frozen nets share the learner's architecture.
        weights: reward term -> weight; the learner's reward is the weighted sum.
        run, game_id: written into every match row.
        generator: draws the actions, on the policy's device.
        precision: `float32` or `bf16`.
        strict: checked before every step, if given.
    """

    def __init__(
        self,
        batch: MatchBatch,
        policy: Policy,
        pool: Pool,
        *,
        weights: Mapping[str, float],
        run: str,
        game_id: str,
        generator: torch.Generator,
        precision: str = "float32",
        strict: StrictMasks | None = None,
    ) -> None:
        self._strict = strict
        self.batch, self.policy, self.pool = batch, policy, pool
        self.run, self.game_id = run, game_id
        self.generator, self.precision = generator, precision
        self.device = generator.device
        num_rows = batch.num_rows
        self.view = SeatView(batch, self.device)
        self.state: PolicyState = policy.initial_state(num_rows)
        self.opponent_state: PolicyState = policy.initial_state(num_rows)
        self._weights = np.array([weights.get(term, 0.0) for term in batch.spec.reward_terms], np.float32)
        self._rows = torch.arange(num_rows)
        self.seats: npt.NDArray[np.int64] = np.arange(num_rows) % SEATS
        self.opponents: list[str] = [""] * num_rows
        self._rows_of: dict[str, Tensor] | None = None
        self.is_first = np.ones(num_rows, np.bool_)
        self._begun_update = np.zeros(num_rows, np.int64)
        self._steps = np.zeros(num_rows, np.int64)
        self._sums = np.zeros((num_rows, SEATS, len(batch.spec.reward_terms)), np.float64)
        self._ordinals = np.zeros(num_rows, np.int64)

    def start(self, seed: int) -> None:
        """Begins every row's first match; the pool must have targets."""
        self.batch.reset(seed)
        for row in range(self.batch.num_rows):
            self._begin_match(row, updates_made=0)

    def opponents_in_use(self) -> set[str]:
        """The opponents that rows play now."""
        return set(self.opponents)

    def collect(self, num_steps: int, update: int) -> Rollout:
        """Plays `num_steps` steps of every row for the update number `update`, counted from 1.

        Match rows carry it; the learner's weights are those after `update` - 1 updates.
        """
        state = self.state.select(None)
        self._ordinals[:] = 0
        finished: list[MatchResult] = []
        steps: list[dict[str, Tensor | None]] = []
        with autocast(self.device, self.precision):
            for _ in range(num_steps):
                steps.append(self._step(update, finished))
            last_value = self.policy.value(self.view.obs(self._rows, self._learner_seats()), self.state).float()
        return self._rollout(steps, last_value, state, finished)

    def _learner_seats(self) -> Tensor:
        return torch.from_numpy(self.seats)

    def _step(self, update: int, finished: list[MatchResult]) -> dict[str, Tensor | None]:
        """One decision of all rows; appends the matches that ended and returns the step's (B, ...) tensors."""
        rows, seats = self._rows, self._learner_seats()
        obs, mask = self.view.obs(rows, seats), self.view.mask(rows, seats)
        is_first = torch.from_numpy(self.is_first.copy())
        action, log_prob, value = self.policy.step(obs, self.state, mask=mask, generator=self.generator)
        self.view.act(rows, seats, action)
        self._play_opponents(seats)
        if self._strict is not None:
            self._strict.check()
        self.batch.step()
        self._steps += 1
        self._sums += self.batch.reward_terms
        reward = self.batch.reward_terms[rows.numpy(), self.seats] @ self._weights
        ends = self.batch.terminated | self.batch.truncated
        final_value = self._truncated_values()
        self.is_first = ends.copy()
        for row in np.flatnonzero(ends):
            finished.append(self._finish_match(int(row), update))
            self._begin_match(int(row), updates_made=update - 1)
        return {
            "obs": obs,
            "mask": mask,
            "action": action,
            "log_prob": log_prob.float(),
            "value": value.float(),
            "reward": torch.from_numpy(reward),
            "ends": torch.from_numpy(ends),
            "is_first": is_first,
            "final_value": final_value,
        }

    def _play_opponents(self, learner_seats: Tensor) -> None:
        for agent_id, rows in self._frozen_rows().items():
            seats = 1 - learner_seats[rows]
            action, _, _ = self.pool.policy(agent_id).step(
                self.view.obs(rows, seats),
                self.opponent_state,
                mask=self.view.mask(rows, seats),
                rows=rows.to(self.device),
                generator=self.generator,
            )
            self.view.act(rows, seats, action)

    def _frozen_rows(self) -> dict[str, Tensor]:
        """Agent id of each frozen net -> the rows (n,) that it plays; found anew only when a match has begun."""
        if self._rows_of is None:
            members: dict[str, list[int]] = {}
            for row, opponent in enumerate(self.opponents):
                if not opponent.startswith(BOT_PREFIX):
                    members.setdefault(opponent, []).append(row)
            self._rows_of = {agent_id: torch.tensor(rows) for agent_id, rows in members.items()}
        return self._rows_of

    def _truncated_values(self) -> Tensor:
        """(B,): the value of the last state of matches that were cut, under the memory they had; 0 elsewhere."""
        values = torch.zeros(self.batch.num_rows, device=self.device)
        cut = torch.from_numpy(np.flatnonzero(self.batch.truncated & ~self.batch.terminated))
        if len(cut):
            obs = self.view.final_obs(cut, self._learner_seats()[cut])
            on_device = cut.to(self.device)
            values[on_device] = self.policy.value(obs, self.state, rows=on_device).float()
        return values

    def _begin_match(self, row: int, updates_made: int) -> None:
        """Draws the row's opponent, seats both, and clears what both remember."""
        opponent = self.opponents[row] = self.pool.draw()
        self._rows_of = None
        learner_seat = int(self.seats[row])
        self.batch.controllers[row, learner_seat] = EXTERNAL
        self.batch.controllers[row, 1 - learner_seat] = bot_id(self.batch, opponent)
        index = torch.tensor([row], device=self.device)
        self.state.clear(index)
        self.opponent_state.clear(index)
        self._begun_update[row] = updates_made
        self._steps[row] = 0
        self._sums[row] = 0

    def _finish_match(self, row: int, update: int) -> MatchResult:
        """The row of the match that ended; the learner takes the other seat next."""
        seat, opponent = int(self.seats[row]), self.opponents[row]
        result = match_result(
            self.batch,
            row,
            self._sums[row],
            run=self.run,
            kind="training",
            update=update,
            ordinal=int(self._ordinals[row]),
            game_id=self.game_id,
            agents=(self.run, opponent) if seat == 0 else (opponent, self.run),
            steps=int(self._steps[row]),
            sampling="sample",
            update_begin=int(self._begun_update[row]),
            update_end=update - 1,
        )
        self._ordinals[row] += 1
        self.seats[row] = 1 - seat
        return result

    def _rollout(
        self, steps: list[dict[str, Tensor | None]], last_value: Tensor, state: PolicyState, finished: list[MatchResult]
    ) -> Rollout:
        def stack(name: str) -> Tensor:
            parts = [part for step in steps if (part := step[name]) is not None]
            return torch.stack(parts).to(self.device)

        value, ends = stack("value"), stack("ends")
        following = torch.cat([value[1:], last_value[None]])
        return Rollout(
            obs=stack("obs"),
            mask=stack("mask") if self.batch.mask is not None else None,
            action=stack("action"),
            log_prob=stack("log_prob"),
            value=value,
            reward=stack("reward"),
            next_value=torch.where(ends, stack("final_value"), following),
            ends=ends,
            is_first=stack("is_first"),
            state=state,
            finished=finished,
        )

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs to play the very same next step."""
        return {
            "batch": self.batch.get_state(),
            "state": self.state.tensors(),
            "opponent_state": self.opponent_state.tensors(),
            "generator": self.generator.get_state(),
            "opponents": list(self.opponents),
            "seats": self.seats,
            "is_first": self.is_first,
            "begun_update": self._begun_update,
            "steps": self._steps,
            "sums": self._sums,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.batch.set_state(state["batch"])
        self.state.load(state["state"])
        self.opponent_state.load(state["opponent_state"])
        self.generator.set_state(state["generator"])
        self.opponents = list(state["opponents"])
        self._rows_of = None
        self.seats[:] = state["seats"]
        self.is_first[:] = state["is_first"]
        self._begun_update[:] = state["begun_update"]
        self._steps[:] = state["steps"]
        self._sums[:] = state["sums"]


def seat_pairs(values: npt.NDArray[Any]) -> Sequence[tuple[float, float]]:
    """Rows (N, S) as (seat 0, seat 1) pairs of floats."""
    return [(float(a), float(b)) for a, b in values]


def match_result(batch: MatchBatch, row: int, reward_sums: npt.NDArray[np.float64], **fields: Any) -> MatchResult:
    """The match that ended in `row` in this step: the game's own part from `batch.result`, the rest from `fields`.

    reward_sums: (S, R), the match's unweighted reward terms.
    """
    spec, result = batch.spec, batch.result[row]
    reason = "truncated" if batch.truncated[row] else spec.end_reasons[int(result["end_reason"])]
    return MatchResult(
        row=row,
        seed=int(result["seed"]),
        winner=int(result["winner"]),
        end_reason=reason,
        ticks=int(result["ticks"]),
        metrics=dict(zip(spec.metrics, seat_pairs(result["metrics"].T), strict=True)),
        rewards=dict(zip(spec.reward_terms, seat_pairs(reward_sums.T), strict=True)),
        **fields,
    )
