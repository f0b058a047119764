"""Matches between fixed agents: seats swapped in pairs that share a seed, a fixed number of matches a row so that
short ones are not over-counted, and random numbers of their own, so that evaluating never changes a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from league.device import autocast
from league.errors import UsageError
from league.ratings import wilson
from league.rollout import SeatView, bot_id, match_result
from league.types import DRAW, EXTERNAL, SEATS, MatchBatch, MatchResult, Policy, PolicyState

MAX_PAIRS = 32
"""Pairs against one opponent that are played side by side."""


@dataclass(frozen=True)
class Contestant:
    """Who plays: `agent_id` is written into the rows; `policy` is None for a native bot."""

    agent_id: str
    policy: Policy | None = None


@dataclass(frozen=True)
class Summary:
    """What A did against B: counts, the score (win 1, draw 1/2) with its 95 % interval, and means a match."""

    games: int
    wins: int
    draws: int
    losses: int
    score: float
    lower: float
    upper: float
    metrics: dict[str, tuple[float, float]]
    """Behaviour metric -> mean a match of (A, B)."""
    end_reasons: dict[str, int]
    mean_ticks: float


def play(
    make_batch: Callable[[int], MatchBatch],
    a: Contestant,
    opponents: Sequence[Contestant],
    games: int,
    seed: int,
    *,
    run: str,
    update: int,
    game_id: str,
    greedy: bool = False,
    device: torch.device | None = None,
    precision: str = "float32",
) -> list[MatchResult]:
    """Plays `games` matches of A against each opponent, as evaluation rows sorted by (row, ordinal).

    All opponents are met side by side, each in rows of its own, in their order. Rows 2i and 2i + 1 play the same
    seeds, A in seat 0 of the first and in seat 1 of the second.

    Args:
        make_batch: a batch of the game with the given number of rows.
        games: even, against each.
        seed: of the matches and of the actions drawn.
        run, update, game_id: written into the rows.
        greedy: both sides play their likeliest action, instead of sampling as in training.

    Raises:
        UsageError: `games` is odd or not positive.
    """
    check_games(games)
    pairs = games // 2
    pairs_wide = min(pairs, MAX_PAIRS)
    num_rows = SEATS * pairs_wide * len(opponents)
    batch = make_batch(num_rows)
    generator = torch.Generator(device or torch.device("cpu")).manual_seed(seed)
    a_seats = torch.arange(num_rows) % SEATS
    rows = torch.arange(num_rows).chunk(len(opponents))
    view = SeatView(batch, generator.device)
    sides = [_Side(batch, view, a, torch.arange(num_rows), a_seats, generator, greedy)]
    sides += [_Side(batch, view, b, rows[k], 1 - a_seats, generator, greedy) for k, b in enumerate(opponents)]
    pair = np.arange(num_rows) // SEATS % pairs_wide
    quota = pairs // pairs_wide + (pair < pairs % pairs_wide)
    pair_seeds = np.random.SeedSequence(seed).generate_state(num_rows // SEATS, np.uint64)
    batch.reset(np.repeat(pair_seeds, SEATS))
    played = np.zeros(num_rows, np.int64)
    steps = np.zeros(num_rows, np.int64)
    sums = np.zeros(batch.reward_terms.shape, np.float64)
    results: list[MatchResult] = []
    with autocast(generator.device, precision):
        while (playing := played < quota).any():
            view.pull()
            for side in sides:
                side.act(playing)
            view.push()
            view.wait()
            batch.step()
            steps += 1
            sums += batch.reward_terms
            ended = np.flatnonzero((batch.terminated | batch.truncated) & playing)
            for row in ended:
                ids = (a.agent_id, opponents[int(row) // len(rows[0])].agent_id)
                result = match_result(
                    batch,
                    int(row),
                    sums[row],
                    run=run,
                    kind="evaluation",
                    update=update,
                    ordinal=int(played[row]),
                    game_id=game_id,
                    agents=ids if a_seats[row] == 0 else ids[::-1],
                    steps=int(steps[row]),
                    sampling="greedy" if greedy else "sample",
                )
                results.append(result)
            played[ended] += 1
            steps[ended] = 0
            sums[ended] = 0
            for side in sides:
                side.clear(ended)
    return sorted(results, key=lambda result: (result.row, result.ordinal))


def check_games(games: int, setting: str = "games") -> None:
    """Refuses a number of games that cannot be played in pairs.

    Raises:
        UsageError: `games` is odd or not positive.
    """
    if games <= 0 or games % 2:
        raise UsageError(
            f"{setting}={games}: seats are swapped in pairs, so it must be a positive even number;"
            f" try {max(2, games + games % 2)}"
        )


class _Side:
    """One contestant: the rows (n,) that it plays, and its seat in every row (B,)."""

    def __init__(
        self,
        batch: MatchBatch,
        view: SeatView,
        who: Contestant,
        rows: Tensor,
        seats: Tensor,
        generator: torch.Generator,
        greedy: bool,
    ) -> None:
        self.policy, self.rows, self.seats, self.generator, self.greedy = who.policy, rows, seats, generator, greedy
        self.view = view
        controller = EXTERNAL if who.policy is not None else bot_id(batch, who.agent_id)
        batch.controllers[rows.numpy(), seats[rows].numpy()] = controller
        self.state: PolicyState | None = None if who.policy is None else who.policy.initial_state(batch.num_rows)

    def act(self, playing: npt.NDArray[np.bool_]) -> None:
        """Writes the actions of its rows that are still `playing` (B,)."""
        rows = self.rows[torch.from_numpy(playing)[self.rows]]
        if self.policy is None or self.state is None or not len(rows):
            return
        view = self.view
        rows, seats = (x.to(view.device, non_blocking=True) for x in (rows, self.seats[rows]))
        action, _, _ = self.policy.step(
            view.obs[rows, seats],
            self.state,
            mask=None if view.mask is None else view.mask[rows, seats],
            rows=rows,
            generator=self.generator,
            greedy=self.greedy,
        )
        view.actions[rows, seats] = action.int()

    def clear(self, rows: npt.NDArray[np.int64]) -> None:
        """Forgets what belonged to the matches of these rows; those that it does not play hold nothing of it."""
        if self.state is not None and len(rows):
            self.state.clear(torch.from_numpy(rows).to(self.view.device))


def summarise(results: Sequence[MatchResult], agent_id: str) -> Summary:
    """What `agent_id` did in `results`, all of which it played; its opponents are B, taken together."""
    seats = [result.agents.index(agent_id) for result in results]
    wins = sum(result.winner == seat for result, seat in zip(results, seats, strict=True))
    draws = sum(result.winner == DRAW for result in results)
    games = len(results)
    score = (wins + draws / 2) / games
    lower, upper = wilson(score, games)
    reasons = [result.end_reason for result in results]
    return Summary(
        games=games,
        wins=wins,
        draws=draws,
        losses=games - wins - draws,
        score=score,
        lower=lower,
        upper=upper,
        metrics={name: _mean_pair(results, seats, name) for name in results[0].metrics},
        end_reasons={reason: reasons.count(reason) for reason in sorted(set(reasons))},
        mean_ticks=sum(result.ticks for result in results) / games,
    )


def _mean_pair(results: Sequence[MatchResult], seats: Sequence[int], name: str) -> tuple[float, float]:
    own = sum(result.metrics[name][seat] for result, seat in zip(results, seats, strict=True))
    other = sum(result.metrics[name][1 - seat] for result, seat in zip(results, seats, strict=True))
    return own / len(results), other / len(results)
