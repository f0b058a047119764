"""The payoffs between a run's snapshots, played out: the metagame of PSRO (Lanctot et al. 2017, arXiv:1711.00832).

Training games tell too little of it for a game whose stakes differ: they are the learner's, whose weights move on, they
are few for most pairs, and they are counted as won or lost. So each new snapshot plays the others, frozen as they are.
These games belong to training; what they say is part of the run's state, and they have random numbers of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from league.play.evaluation import play
from league.play.pairings import Contestant, Pairing
from league.pool.pool import Pool
from league.types import MatchResult, Origin

if TYPE_CHECKING:
    from league.training.run import Run

NETS_AT_ONCE = 8
"""Opponents in memory at a time, beside the newest. Actions are drawn for these together, so another number would draw
others; it depends on nothing of the machine."""
STREAM = 1
"""Sets these games' random numbers apart from those of an evaluation at the same update."""


def measure_payoffs(run: Run, pool: Pool) -> None:
    """The newest snapshot plays `pool.payoff_games` games with every other; the pool keeps its mean margins.

    The others are loaded `NETS_AT_ONCE` at a time.
    """
    config, (*others, newest) = run.config, pool.snapshots
    if not others or not config.pool.payoff_games:
        return
    seeds = np.random.SeedSequence([run.seed, run.counters.update, STREAM]).generate_state(len(others)).tolist()
    played = Contestant(newest, run.artifacts.load_policy(newest))
    results: list[MatchResult] = []
    for first in range(0, len(others), NETS_AT_ONCE):
        chosen = slice(first, first + NETS_AT_ONCE)
        results += play(
            run.make_batch,
            [
                Pairing(played, Contestant(o, run.artifacts.load_policy(o)), config.pool.payoff_games, seed)
                for o, seed in zip(others[chosen], seeds[chosen], strict=True)
            ],
            Origin(run.name, run.game_id),
            update=run.counters.update,
            precision=config.learner.precision,
        )
    pool.results.measured[newest] = mean_margins(results, newest, others, config.rewards)


def mean_margins(
    results: Sequence[MatchResult], agent: str, others: Sequence[str], weights: Mapping[str, float]
) -> dict[str, float]:
    """Opponent -> half the difference between the rewards of `agent` and its own, weighted, a match."""
    sums = dict.fromkeys(others, 0.0)
    games = dict.fromkeys(others, 0)
    for result in results:
        seat = result.agents.index(agent)
        other = result.agents[1 - seat]
        margin = sum(weights.get(term, 0.0) * (pair[seat] - pair[1 - seat]) for term, pair in result.rewards.items())
        sums[other] += margin / 2.0
        games[other] += 1
    return {other: sums[other] / games[other] for other in others}
