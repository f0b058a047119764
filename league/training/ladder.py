"""A ladder on the way: each new snapshot plays a few games, so that rating over steps is a curve with a band.

Its opponents are the game's bots and older snapshots of its run; the games are those that say most of its rating.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from league.errors import SnapshotError
from league.maths.pairs import PairCounts
from league.maths.ratings import Ratings, bradley_terry
from league.maths.scheduling import narrowest
from league.play.pairings import Contestant, Pairing
from league.runtime.phases import phase
from league.training.run import Run
from league.types import BOT_PREFIX, SEATS, MatchResult

FIRST_ROW = 1 << 25
"""Number of the first match row of these games: an evaluation may be at the same update, and has fewer rows."""


@phase("evaluate")
def climb(run: Run, snapshots: Sequence[str]) -> list[MatchResult]:
    """Plays games of the newest snapshot against the panel, as many as `run.ladder_share` of the steps so far pays for.

    The panel is every bot of the game, and `run.ladder_older` older snapshots: the one before, the one at half the
    snapshots made, at a quarter, and so on. Which of them are met is chosen by this run's own evaluation games so far:
    those that are expected to narrow the interval of the snapshot's rating most. What is spent is kept in the run's
    counters. Nothing of it is seen by the learner.

    Args:
        run: the training's.
        snapshots: this run's, the oldest first.

    Returns:
        The games; none where nothing can be paid.

    Raises:
        Interrupted: a signal broke the games off; nothing of them is written.
    """
    config, counters, started = run.config.run, run.counters, time.perf_counter()
    newest = snapshots[-1]
    left = config.ladder_share * counters.steps - counters.ladder_steps
    price = SEATS * counters.ladder_steps / counters.ladder_games if counters.ladder_games else max(1.0, left)
    num_pairs = int(left / price)
    panel = [BOT_PREFIX + bot for bot in run.spec.bots] + _older(snapshots[:-1], config.ladder_older)
    if num_pairs < 1 or not panel:
        return []
    chosen = _chosen(run, snapshots, panel, num_pairs)
    contestants = {agent: Contestant(agent) for agent in chosen if agent.startswith(BOT_PREFIX)}
    for agent in [agent for agent in chosen if agent not in contestants]:
        try:
            contestants[agent] = run.contestant(agent)
        except SnapshotError as error:
            run.callback.say(f"climbing the ladder without {agent[:12]}: {error}")
    learner = run.contestant(newest)
    seeds = np.random.SeedSequence([run.seed, counters.update, FIRST_ROW]).generate_state(len(contestants)).tolist()
    pairings = [
        Pairing(learner, other, SEATS * chosen[agent], seed)
        for (agent, other), seed in zip(contestants.items(), seeds, strict=True)
    ]
    if not pairings:  # every one of them is damaged
        return []
    results = run.play(pairings)
    results = [replace(result, row=result.row + FIRST_ROW) for result in results]
    counters.ladder_games += len(results)
    counters.ladder_steps += sum(result.steps for result in results)
    run.add_evaluation(results)
    run.rate(run.met, counters.update, {agent: agent for result in results for agent in result.agents})
    seconds = {"ladder_seconds": time.perf_counter() - started}
    run.rows.add_metrics(counters.update, counters.steps, seconds)
    return results


def _older(snapshots: Sequence[str], num: int) -> list[str]:
    """At most `num` of the snapshots before the newest: the last, then each at half the index of the one before it."""
    found: list[str] = []
    index = len(snapshots) - 1
    while index >= 0 and len(found) < num and snapshots[index] not in found:
        found.append(snapshots[index])
        index //= 2
    return found


def _chosen(run: Run, snapshots: Sequence[str], panel: list[str], num_pairs: int) -> dict[str, int]:
    """Whom the newest snapshot meets -> in how many pairs of games."""
    newest, anchor = snapshots[-1], BOT_PREFIX + run.spec.anchor if run.spec.anchor else None
    ratings = _ratings(run, snapshots, panel, anchor)
    wanted = np.zeros((1, len(ratings.agents) + 2))
    held = [anchor] if anchor in ratings.agents else [agent for agent in ratings.agents if agent != newest]
    wanted[0, [ratings.index(agent) for agent in held]] = -1.0 / len(held)
    wanted[0, ratings.index(newest)] = 1.0
    pairs = np.array([(ratings.index(newest), ratings.index(agent)) for agent in panel])
    given = narrowest(ratings.model, pairs, wanted, num_pairs)
    return {agent: int(count) for agent, count in zip(panel, given, strict=True) if count}


def _ratings(run: Run, snapshots: Sequence[str], panel: list[str], anchor: str | None) -> Ratings:
    """By this run's evaluation games; each snapshot is believed to be like the one before."""
    outcomes: dict[tuple[str, str], Counter[int]] = {}
    for _, x in sorted(run.met.games.items()):
        outcomes.setdefault(x.agents, Counter())[x.outcome_of(x.agents[0])] += 1
    counts = np.array([[found[i] for i in range(3)] for found in outcomes.values()], np.int64).reshape(-1, 3)
    first, second = (tuple(agents[seat] for agents in outcomes) for seat in range(SEATS))
    return bradley_terry(
        PairCounts(first, second, *counts.T),
        anchor,
        lineage=pairwise(snapshots),
        agents=[snapshots[-1], *panel],
    )
