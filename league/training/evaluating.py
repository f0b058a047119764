"""Evaluation within a training: one snapshot's games of its own against fixed opponents."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from league.config.models import AGENT_PREFIX
from league.errors import SnapshotError
from league.play.pairings import Contestant, Pairing
from league.play.summaries import Count, Summary, num_rows, summarise
from league.pool.pool import Pool
from league.runtime.phases import phase
from league.training.guards import Alarm
from league.training.ladder import FIRST_ROW
from league.training.reports import tell
from league.training.run import Run
from league.types import BOT_PREFIX, SEATS, MatchResult

ALLOWANCE = 2_000
"""Steps that evaluations may take beyond `run.evaluate_share` of those trained on, so that step 0 has games, too."""
GAMES = "games"
"""What the progress of an evaluation counts."""


@phase("evaluate")
def evaluate(run: Run, pool: Pool, agent_id: str, first_row: int = 0) -> tuple[dict[str, Summary], list[Alarm]]:
    """Plays the run's newest snapshot against every bot, its league's others, its guests and the step-0 one.

    Args:
        run, pool: the training's.
        agent_id: the newest snapshot.
        first_row: number of the first match row, where an evaluation at the same update has those before it.

    Returns:
        What it did against each opponent that it met, by name (`bot:NAME`, RUN@STEP, `agent:HASH`), and the alarms that
        it raised. `run.evaluate_share` says how many steps all of it may take.

    Raises:
        Interrupted: a signal broke the games off; nothing of them is written.
    """
    config, counters = run.config, run.counters
    started = time.perf_counter()
    nets = names_of(run, pool)
    opponents = _opponents(run, {net: name for net, name in nets.items() if net != agent_id})
    anchor = BOT_PREFIX + (run.spec.anchor or "")
    anchor_first = sorted(opponents, key=lambda opponent: opponent != anchor)
    wanted = dict.fromkeys(anchor_first, config.run.evaluate_games // SEATS)
    if anchor in wanted and counters.steps >= config.run.total_steps:
        wanted[anchor] = max(wanted[anchor], config.run.anchor_games // SEATS)
    results = _play(run, run.contestant(agent_id), opponents, wanted, first_row)
    if (total := SEATS * sum(wanted.values())) > len(results):
        run.callback.say(
            f"evaluated at step {counters.steps:,} by {len(results):,} of {total:,} games, which is what"
            f" run.evaluate_share={config.run.evaluate_share:g} of the steps so far pays for"
        )
    run.add_evaluation(results)
    met = {agent for result in results for agent in result.agents}
    run.rate(run.met, counters.update, {agent: nets.get(agent, agent) for agent in sorted(met)})
    alarms: list[Alarm] = []
    those = [opponent for opponent in opponents if opponent in met]
    summaries = summaries_of(results, agent_id, nets, those, run.spec.payoff_bound)
    for opponent, (label, summary) in zip(those, summaries.items(), strict=True):
        run.callback.evaluated(counters.newest_steps, label, summary)
        found = run.guards.judge_evaluation(
            config,
            counters.newest_steps - counters.reset_at,
            opponent,
            summary.score,
            summary.games,
            run.spec.floor,
            summary.payoff,
        )
        alarms += tell(run, found)
    seconds = {"evaluate_seconds": time.perf_counter() - started}
    run.rows.add_metrics(counters.update, counters.steps, seconds)
    run.rows.flush()
    return summaries, alarms


def _opponents(run: Run, nets: Mapping[str, str]) -> dict[str, Contestant]:
    """Whom the newest snapshot meets, by agent id: the game's bots, and the nets that can be read."""
    found = {BOT_PREFIX + bot: Contestant(BOT_PREFIX + bot) for bot in run.spec.bots}
    for net, name in nets.items():
        try:
            found[net] = run.contestant(net)
        except SnapshotError as error:
            run.callback.say(f"evaluating without {name}: {error}")
    return found


def _play(
    run: Run, contestant: Contestant, opponents: Mapping[str, Contestant], wanted: Mapping[str, int], first_row: int
) -> list[MatchResult]:
    """The pairs of games that are `wanted` of each opponent, or as many as the steps so far pay for.

    They are played in rounds. A round has as many pairs as fit into what is left if each match takes as long as the
    longest so far, less one pair, since some may take longer; where that length is not known, one pair. What is spent
    is kept in the run's counters, and depends on nothing but the run's own matches: no clock, no `total_steps`.
    """
    counters = run.counters
    budget = ALLOWANCE + int(run.config.run.evaluate_share * counters.steps)
    spent, longest = counters.evaluation_steps, counters.longest_match
    given = dict.fromkeys(wanted, 0)
    results: list[MatchResult] = []
    for number in itertools.count():
        left = budget - spent
        chosen = _chosen(wanted, given, left // (SEATS * longest) - 1 if longest else int(left > 0))
        if not chosen:
            break
        seeds = np.random.SeedSequence([run.seed, counters.update, number]).generate_state(len(opponents)).tolist()
        pairings = [
            Pairing(contestant, opponent, SEATS * chosen[agent], seed)
            for (agent, opponent), seed in zip(opponents.items(), seeds, strict=True)
            if agent in chosen
        ]
        total = SEATS * sum(wanted.values())
        if longest:
            total = min(total, len(results) + left // longest)
        count = Count(total, GAMES, len(results), spent - counters.evaluation_steps)
        found = run.play(pairings, limit=left, count=count)
        if not found:  # too long for what is left, which is spent
            spent, longest = budget, 0
            break
        results += [replace(result, row=result.row + first_row) for result in found]
        first_row += sum(num_rows(pairing.games) for pairing in pairings)
        spent += sum(result.steps for result in found)
        longest = max(longest, *(result.steps for result in found))
        for agent, pairs in chosen.items():
            given[agent] += pairs
    counters.evaluation_steps, counters.longest_match = spent, longest
    return _with_replays(results, run.config.run.replays)


def _chosen(wanted: Mapping[str, int], given: Mapping[str, int], num_pairs: int) -> dict[str, int]:
    """Opponent -> its number of the next pairs: each goes to the opponent with the smallest share of its own, of
    several to the first in `wanted`."""
    left = {agent: pairs - given[agent] for agent, pairs in wanted.items() if pairs > given[agent]}
    if num_pairs >= sum(left.values()):
        return left
    chosen: Counter[str] = Counter()
    for _ in range(num_pairs):
        chosen[min(left, key=lambda agent: (given[agent] + chosen[agent]) / wanted[agent])] += 1
    return {agent: chosen[agent] for agent in left if chosen[agent]}


def _with_replays(results: list[MatchResult], most: int) -> list[MatchResult]:
    """The games with the replays of the first `most` of each pair of agents alone; every round has recorded some."""
    kept: Counter[frozenset[str]] = Counter()
    found = []
    for result in results:
        pair = frozenset(result.agents)
        kept[pair] += bool(result.replay)
        found.append(replace(result, replay="") if result.replay and kept[pair] > most else result)
    return found


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
    guests = [agent_id for agent_id in run.artifacts.guests if not agent_id.startswith(BOT_PREFIX)]
    return (
        nets | {agent_id: f"{AGENT_PREFIX}{agent_id[:12]}" for agent_id in guests} | {b: b for b in run.artifacts.bots}
    )


def summaries_of(
    results: list[MatchResult], agent_id: str, names: dict[str, str], opponents: list[str], bound: float | None
) -> dict[str, Summary]:
    """What `agent_id` did against each of the opponents, by their names."""
    met = {opponent: [match for match in results if opponent in match.agents] for opponent in opponents}
    return {names.get(opponent, opponent): summarise(found, agent_id, bound) for opponent, found in met.items()}
