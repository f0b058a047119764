"""Evaluation within a training: one snapshot's games of its own against fixed opponents."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from league.acts import act
from league.config.models import AGENT_PREFIX
from league.errors import SnapshotError
from league.play.evaluation import Contestant, Pairing, Summary, summarise
from league.pool.pool import Pool
from league.training.guards import Alarm
from league.training.ladder import FIRST_ROW
from league.training.run import Run
from league.training.telling import tell
from league.types import BOT_PREFIX, MatchResult


@act("evaluate")
def evaluate(run: Run, pool: Pool, agent_id: str, first_row: int = 0) -> tuple[dict[str, Summary], list[Alarm]]:
    """Plays the run's newest snapshot against every bot, its league's others, its guests and the step-0 one.

    Args:
        run, pool: the training's.
        agent_id: the newest snapshot.
        first_row: number of the first match row, where an evaluation at the same update has those before it.

    Returns:
        What it did against each opponent, by name (`bot:NAME`, RUN@STEP, `agent:HASH`), and the alarms that it raised.

    Raises:
        Interrupted: a signal broke the games off; nothing of them is written.
    """
    config, counters = run.config, run.counters
    started = time.perf_counter()
    nets = names_of(run, pool)
    opponents = [Contestant(BOT_PREFIX + bot) for bot in run.spec.bots]
    for net in [agent for agent in nets if agent != agent_id]:
        try:
            opponents.append(run.contestant(net))
        except SnapshotError as error:
            run.watcher.say(f"evaluating without {nets[net]}: {error}")
    contestant = run.contestant(agent_id)
    seeds = np.random.SeedSequence([run.seed, counters.update]).generate_state(len(opponents)).tolist()
    games = dict.fromkeys([opponent.agent_id for opponent in opponents], config.run.evaluate_games)
    anchor = BOT_PREFIX + (run.spec.anchor or "")
    if anchor in games and counters.steps >= config.run.total_steps:
        games[anchor] = max(games[anchor], config.run.anchor_games)
    pairings = [
        Pairing(contestant, opponent, games[opponent.agent_id], seed)
        for opponent, seed in zip(opponents, seeds, strict=True)
    ]
    results = run.play(pairings)
    results = [replace(result, row=result.row + first_row) for result in results] if first_row else results
    run.add_evaluation(results)
    run.rate(counters.update, {agent for result in results for agent in result.agents})
    alarms: list[Alarm] = []
    bound = run.spec.payoff_bound
    summaries = summaries_of(results, agent_id, nets, [opponent.agent_id for opponent in opponents], bound)
    for opponent, (label, summary) in zip(opponents, summaries.items(), strict=True):
        run.watcher.evaluated(counters.newest_steps, label, summary)
        found = run.guards.judge_evaluation(
            *(config, counters.newest_steps - counters.reset_at, opponent.agent_id),
            *(summary.score, summary.games, run.spec.floor, summary.payoff),
        )
        alarms += tell(run, found)
    seconds = {"evaluate_seconds": time.perf_counter() - started}
    run.store.add_metrics(run.name, counters.update, counters.steps, seconds)
    run.store.flush()
    return summaries, alarms


def evaluated_before(run: Run, pool: Pool, agent_id: str) -> dict[str, Summary]:
    """What a snapshot did in the evaluation matches that the store has of the run, as `evaluate` gives it.

    Raises:
        StoreError: the store cannot be read.
    """
    met = [x for x in run.store.matches(run.name, "evaluation") if agent_id in x.agents and x.row < FIRST_ROW]
    opponents = dict.fromkeys(agent for result in met for agent in result.agents if agent != agent_id)
    return summaries_of(met, agent_id, names_of(run, pool), list(opponents), run.spec.payoff_bound)


def names_of(run: Run, pool: Pool) -> dict[str, str]:
    """Whom an evaluation meets beside the native bots: agent id -> name."""
    nets = pool.rivals() | {pool.snapshots[0]: f"{run.name}@0"}
    guests = [agent_id for agent_id in run.shelf.guests if not agent_id.startswith(BOT_PREFIX)]
    return nets | {agent_id: f"{AGENT_PREFIX}{agent_id[:12]}" for agent_id in guests} | {b: b for b in run.shelf.bots}


def summaries_of(
    results: list[MatchResult], agent_id: str, names: dict[str, str], opponents: list[str], bound: float | None
) -> dict[str, Summary]:
    """What `agent_id` did against each of the opponents, by their names."""
    met = {opponent: [match for match in results if opponent in match.agents] for opponent in opponents}
    return {names.get(opponent, opponent): summarise(found, agent_id, bound) for opponent, found in met.items()}
