"""The league's main loop, in acts: snapshot, evaluate, play, learn, write down."""

from __future__ import annotations

import math
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
import torch

from league.compiling import compiled
from league.config import Config, PoolConfig, next_snapshot_mark, smaller
from league.device import is_out_of_memory
from league.errors import LeagueError, SnapshotError, StoreError
from league.evaluation import Contestant, Summary, play, summarise
from league.learner import Learner
from league.pool import Pool
from league.records import RewardTerm
from league.rollout import Collector, make_collector
from league.store import Store
from league.types import BOT_PREFIX, DRAW, GameSpec, MatchBatch, MatchResult, Policy, PolicyStack, Rollout

WINDOW = 100
"""Matches that a displayed win-rate or mean reward looks back on."""


@dataclass
class Counters:
    """Where a run stands. With the parts' own states it is all that a restart needs."""

    update: int = 0
    steps: int = 0
    next_snapshot: int = 0
    next_evaluation: int = 0
    newest: str = ""
    """Agent id of the newest snapshot."""
    newest_steps: int = -1
    evaluated: str = ""
    """Agent id of the snapshot that was evaluated last."""


@dataclass(frozen=True)
class Report:
    """One update, for whoever watches."""

    steps: int
    total_steps: int
    update: int
    steps_per_second: float
    seconds_left: float
    metrics: dict[str, float]
    win_rates: dict[str, float]
    """Group of the mix -> score of the learner over its last `WINDOW` matches against it."""
    rewards: tuple[RewardTerm, ...] = ()
    """Of its last `WINDOW` matches, the one that weighs most first."""


class Watcher(Protocol):
    """Is told how training goes; a terminal, a log, or nobody."""

    def report(self, report: Report) -> None:
        """After every update."""

    def evaluated(self, steps: int, opponent: str, summary: Summary) -> None:
        """After the matches of an evaluation against one opponent."""

    def say(self, message: str) -> None:
        """Something that a user should read."""


@dataclass
class Run:
    """The parts of one run, wired by `league.app`."""

    name: str
    config: Config
    game_id: str
    fingerprint: str
    """Of the settings, and of those before them where they were changed on the way."""
    seed: int
    device: torch.device
    policy: Policy
    spec: GameSpec
    make_batch: Callable[[int], MatchBatch]
    load_policy: Callable[[str], Policy]
    """The frozen policy of an agent id."""
    make_stack: Callable[[], PolicyStack | None]
    """Plays frozen policies in one call; None where each is faster by itself."""
    save_snapshot: Callable[[Counters], str]
    """Stores the policy as it is now and returns its agent id."""
    save_state: Callable[[dict[str, Any]], None]
    """Stores what a restart needs."""
    store: Store
    watcher: Watcher
    should_stop: Callable[[], bool] = field(default=lambda: False)
    make_pool: Callable[[PoolConfig, Callable[[str], Policy], np.random.Generator], Pool] = Pool
    """From the pool's settings, `load_policy` and what draws."""
    counters: Counters = field(default_factory=Counters)


def train(run: Run, state: dict[str, Any] | None = None) -> None:
    """Trains until the stage's steps are done or `should_stop` says so; `run.counters` says where it stands.

    It also ends where the pool `is_resetting`, saved: the caller changes the state and calls again.

    Args:
        run: the parts.
        state: what `save_state` was given by an earlier call, which this one empties; the run goes on from there, bit
            for bit on a CPU.

    Raises:
        LeagueError: the memory is used up; the state has been saved, and it says what to lower.
    """
    config = run.config
    pool_rng, learner_rng = (np.random.default_rng(s) for s in np.random.SeedSequence(run.seed).spawn(2))
    learner = Learner(run.policy, config.learner, learner_rng, run.device)
    if config.learner.compile == "compile":
        learner.sequence = compiled(run.policy.sequence, run.watcher.say)
    pool = run.make_pool(config.pool, run.load_policy, pool_rng)
    is_resumed, is_whole = bool(state), not state
    try:
        collector = make_collector(
            config,
            run.device,
            run.policy,
            pool,
            make_batch=run.make_batch,
            make_stack=run.make_stack,
            run=run.name,
            game_id=run.game_id,
            seed=run.seed,
            say=run.watcher.say,
        )
        if state:
            _restore(run, state, learner, pool, collector)
            is_whole = True
        _loop(run, learner, pool, collector, is_resumed)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        traceback.clear_frames(error.__traceback__)  # lets go of the rollout and of what learning kept of it
        saved = _save_without_matches(run, learner, pool) if is_whole else "its last saved state stands"
        settings = " or ".join(f"--set {setting}" for setting in smaller(config))
        raise LeagueError(
            f"run={run.name}: out of memory on {run.device.type} at step {run.counters.steps:,}"
            f" ({str(error).splitlines()[0] if str(error) else 'no more said'}); {saved}; go on with less:"
            f" `league resume {run.name}` with {settings}"
        ) from None


def _loop(run: Run, learner: Learner, pool: Pool, collector: Collector, is_resumed: bool) -> None:
    config, counters = run.config, run.counters
    recent = Recent(pool, run.name, config.rewards)
    saved_at = time.monotonic() if is_resumed else -math.inf  # a new run can be resumed from its first update on

    while True:
        is_stopped = run.should_stop()
        is_last = is_stopped or counters.steps >= config.run.total_steps

        is_snapshot_due = counters.steps >= counters.next_snapshot and not is_stopped
        if is_snapshot_due:
            pool.admit(take_snapshot(run, counters))
            counters.next_snapshot = next_snapshot_mark(config, counters.steps)
        if is_evaluation_due(counters, config, is_last and not is_stopped):
            evaluate_newest(run, pool, counters)
        is_due = counters.update and time.monotonic() - saved_at > 60 * config.run.checkpoint_minutes
        if is_last or is_due or (is_snapshot_due and pool.is_shared):
            checkpoint(run, _state(counters, learner, pool, collector), must_succeed=is_last or pool.is_resetting)
            saved_at = time.monotonic()
        if is_last:
            warn_of_silent_rewards(run)
        if is_last or pool.is_resetting:
            return

        pool.refresh_targets(collector.opponents_in_use())
        if counters.update == 0:
            collector.start(run.seed)

        started = time.monotonic()
        rollout = collector.collect(config.learner.rollout_steps, counters.update + 1)
        played = time.monotonic()
        metrics = learner.update(rollout)
        learned = time.monotonic()

        counters.update += 1
        counters.steps += rollout.reward.numel()
        recent.add(rollout.finished)
        pool.record(rollout.finished, run.name, rollout.reward.numel())
        metrics |= pool.metrics() | match_metrics(rollout, run.name, config.rewards)
        metrics |= {"play_seconds": played - started, "learn_seconds": learned - played}
        run.store.add_matches(rollout.finished)
        run.store.add_metrics(run.name, counters.update, counters.steps, metrics)
        run.store.update_run(run.name, status="running", steps=counters.steps, update=counters.update)
        run.store.flush()
        run.watcher.report(_report(counters, config, metrics, recent, learned - started))
        del rollout  # else it stays in memory until the next one is whole


def take_snapshot(run: Run, counters: Counters) -> str:
    """Stores the weights of now and remembers them as the newest snapshot."""
    counters.newest = run.save_snapshot(counters)
    counters.newest_steps = counters.steps
    return counters.newest


def checkpoint(run: Run, state: dict[str, Any], *, must_succeed: bool) -> None:
    """Writes what waits for the store, then the state: a restart never goes on from a state whose matches are lost.

    Raises:
        StoreError: `must_succeed`, and the store stayed busy or refused; otherwise the older state just stands.
    """
    try:
        run.store.flush(force=True)
    except StoreError as error:
        if must_succeed:
            raise
        run.watcher.say(f"no checkpoint now: {error}")
        return
    run.save_state(state)


def is_evaluation_due(counters: Counters, config: Config, is_finished: bool) -> bool:
    """At the cadence's marks (0: none) from step 0 on, and when the stage is finished."""
    every = config.run.evaluate_every
    return is_finished or bool(every and counters.steps >= counters.next_evaluation)


def evaluate_newest(run: Run, pool: Pool, counters: Counters) -> None:
    """Plays the newest snapshot against every native bot, its league's others and the step-0 one, once.

    A finished stage without a snapshot of its last weights takes one first; it does not join the pool.
    """
    config = run.config
    if counters.steps >= config.run.total_steps and counters.newest_steps != counters.steps:
        take_snapshot(run, counters)
    newest = counters.newest
    if newest != counters.evaluated:
        _evaluate(run, pool, counters, newest)
    counters.evaluated = newest
    if config.run.evaluate_every:
        counters.next_evaluation = (counters.steps // config.run.evaluate_every + 1) * config.run.evaluate_every


def _evaluate(run: Run, pool: Pool, counters: Counters, newest: str) -> None:
    config = run.config
    started = time.monotonic()
    opponents = [Contestant(BOT_PREFIX + bot) for bot in run.spec.bots]
    nets = pool.rivals() | {pool.snapshots[0]: f"{run.name}@0"}
    opponents += [Contestant(agent_id, run.load_policy(agent_id)) for agent_id in nets if agent_id != newest]
    contestant = Contestant(newest, run.load_policy(newest))
    results = play(
        run.make_batch,
        contestant,
        opponents,
        config.run.evaluate_games,
        seed=int(np.random.SeedSequence([run.seed, counters.update]).generate_state(1)[0]),
        run=run.name,
        update=counters.update,
        game_id=run.game_id,
        device=run.device,
        precision=config.learner.precision,
    )
    run.store.add_matches(results)
    for opponent in opponents:
        label = nets.get(opponent.agent_id, opponent.agent_id)
        met = [result for result in results if opponent.agent_id in result.agents]
        run.watcher.evaluated(counters.newest_steps, label, summarise(met, newest))
    seconds = {"evaluate_seconds": time.monotonic() - started}
    run.store.add_metrics(run.name, counters.update, counters.steps, seconds)
    run.store.flush()


def warn_of_silent_rewards(run: Run) -> None:
    """At the end of a stage, names the reward terms that have a weight and were 0 in every match of the whole run."""
    if run.counters.steps < run.config.run.total_steps:
        return
    try:
        terms = run.store.reward_terms(run.name)
    except StoreError as error:
        run.watcher.say(f"not known whether every reward term fired: {error}")
        return
    for term in terms:
        if term.weight and not term.fired:
            run.watcher.say(
                f"rewards.{term.term} (weight {term.weight:g}) never fired in {term.matches:,} training matches, so it"
                f" taught nothing; train longer, see if the game can bring it about, or --set rewards.{term.term}=0"
            )


class Recent:
    """The learner's last matches: scores by group of the mix, and what each reward term brought."""

    def __init__(self, pool: Pool, learner: str, weights: dict[str, float]) -> None:
        self._pool, self._learner, self._weights = pool, learner, weights
        self._scores: dict[str, deque[float]] = {}
        self._matches: deque[MatchResult] = deque(maxlen=WINDOW)

    def add(self, finished: list[MatchResult]) -> None:
        """Counts finished training matches: win 1, draw 1/2, loss 0."""
        for result in finished:
            seat = result.agents.index(self._learner)
            score = 0.5 if result.winner == DRAW else float(result.winner == seat)
            group = self._pool.group_of(result.agents[1 - seat])
            self._scores.setdefault(group, deque(maxlen=WINDOW)).append(score)
        self._matches.extend(finished)

    def rates(self) -> dict[str, float]:
        """Group -> mean score of its last `WINDOW` matches."""
        return {group: sum(scores) / len(scores) for group, scores in sorted(self._scores.items())}

    def rewards(self) -> tuple[RewardTerm, ...]:
        """What each reward term brought in the last `WINDOW` matches."""
        return reward_terms(self._matches, self._learner, self._weights)


def reward_terms(matches: Sequence[MatchResult], learner: str, weights: dict[str, float]) -> tuple[RewardTerm, ...]:
    """What each reward term brought in `matches`, as `Store.reward_terms` says it of those in the store."""
    if not matches:
        return ()
    seats = np.array([match.agents.index(learner) for match in matches])
    rows = np.arange(len(matches))
    terms = []
    for name in matches[0].rewards:
        sums = np.array([match.rewards[name] for match in matches])
        terms.append(
            RewardTerm(
                term=name,
                weight=weights.get(name, 0.0),
                matches=len(matches),
                fired=int(sums.any(axis=1).sum()),
                own=float(sums[rows, seats].mean()),
                other=float(sums[rows, 1 - seats].mean()),
            )
        )
    return tuple(sorted(terms, key=lambda term: (-abs(term.weighted), term.term)))


def match_metrics(rollout: Rollout, learner: str, weights: dict[str, float]) -> dict[str, float]:
    """Means a finished match of the learner's seat: `match/METRIC`, and `reward/TERM` with its weight applied."""
    finished = rollout.finished
    metrics = {"matches": float(len(finished))}
    if not finished:
        return metrics
    seats = [result.agents.index(learner) for result in finished]
    for name in finished[0].metrics:
        metrics[f"match/{name}"] = float(np.mean([r.metrics[name][s] for r, s in zip(finished, seats, strict=True)]))
    metrics |= {f"reward/{term.term}": term.weighted for term in reward_terms(finished, learner, weights)}
    metrics["match/steps"] = float(np.mean([r.steps for r in finished]))
    return metrics


def _report(counters: Counters, config: Config, metrics: dict[str, float], recent: Recent, seconds: float) -> Report:
    rate = config.learner.rollout_steps * config.env.rows / seconds
    left = max(0, config.run.total_steps - counters.steps) / rate
    total = config.run.total_steps
    return Report(counters.steps, total, counters.update, rate, left, metrics, recent.rates(), recent.rewards())


def _state(counters: Counters, learner: Learner, pool: Pool, collector: Collector) -> dict[str, Any]:
    return {
        "counters": asdict(counters),
        "learner": learner.state_dict(),
        "pool": pool.state_dict(),
        "collector": collector.state_dict(),
    }


def _restore(run: Run, state: dict[str, Any], learner: Learner, pool: Pool, collector: Collector) -> None:
    """Takes `state` over and empties it. Where it has no matches, or other rows or lanes than now, new ones begin."""
    counters = run.counters = Counters(**state.pop("counters"))
    learner.load_state_dict(state.pop("learner"))
    pool.load_state_dict(state.pop("pool"))
    matches = state.pop("collector")
    if matches is not None and collector.fits(matches):
        collector.load_state_dict(matches)
    elif counters.update:
        seed = int(np.random.SeedSequence([run.seed, counters.update, run.config.env.rows]).generate_state(1)[0])
        collector.generator.manual_seed(seed)
        collector.start(seed, updates_made=counters.update)


def _save_without_matches(run: Run, learner: Learner, pool: Pool) -> str:
    """Saves the run as of its last whole update, with the weights of now; says whether that went well.

    The matches in play are left out: they may have been interrupted between a net's step and the game's, and they take
    memory. New ones begin when the run goes on.
    """
    learner.optimizer.zero_grad()
    state = {"counters": asdict(run.counters), "learner": learner.state_dict(), "pool": pool.state_dict()}
    try:
        checkpoint(run, {**state, "collector": None}, must_succeed=True)
    except (MemoryError, RuntimeError, StoreError, SnapshotError) as error:
        return f"not saved ({str(error) or 'no memory for it'}), so its last saved state stands"
    return "saved"
