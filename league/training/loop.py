"""The league's main loop, in acts: snapshot, evaluate, play, learn, write down."""

from __future__ import annotations

import math
import signal
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import torch

from league.acts import act
from league.config import AGENT_PREFIX, BITS, Config, PoolConfig, next_snapshot_mark, smaller
from league.device import is_out_of_memory, prepare_training
from league.errors import GuardError, LeagueError, SnapshotError, StoreError, command
from league.play import randomness
from league.play.evaluation import Contestant, Pairing, Summary, play, summarise
from league.play.moving import Setting, seed_after, told
from league.play.rollout import Collector, make_calls, make_collector
from league.pool.payoff_games import measure_payoffs
from league.pool.pool import Pool
from league.signals import Interrupted, interrupt, on_signal, received
from league.store.rows import RewardTerm
from league.store.store import Store
from league.training import probe
from league.training.compiling import compiled
from league.training.guards import Alarm, Guards
from league.training.learner import Learner
from league.types import BOT_PREFIX, GameSpec, MatchBatch, MatchResult, Origin, Policy, PolicyStack, Rollout

RETRY_SECONDS = 60.0
"""After a checkpoint that failed, until the next try."""
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

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `asdict`.

        Raises:
            TypeError: it has other fields.
        """
        vars(self).update(vars(Counters(**state)))


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


class Shelf(Protocol):
    """Keeps a run's snapshots, states and evidence."""

    @property
    def guests(self) -> Sequence[str]:
        """The agent ids of those in the mix that are no nets of the run's and no native bots."""

    @property
    def bots(self) -> Sequence[str]:
        """Bots in Python, in the mix or not, which evaluations meet: `bot:NAME`."""

    def load_policy(self, agent_id: str) -> Policy:
        """The frozen policy of an agent id, on the run's device."""

    def add_snapshot(self, policy: Policy, counters: Counters) -> str:
        """Stores the policy as it is now and returns its agent id."""

    def save_state(self, state: dict[str, Any]) -> None:
        """Stores what a restart needs."""

    def write_evidence(self, evidence: Mapping[str, Any]) -> str:
        """Writes a file of what a guard found, and returns words of what shows it."""


PoolMaker = Callable[[PoolConfig, Callable[[str], Policy], np.random.Generator, Sequence[str]], Pool]
"""Makes a pool of its settings, `Shelf.load_policy`, what draws, and the guests."""
Ending = Literal["finished", "stopped", "turn over", "reset"]
"""The stage's steps are done; a signal came; the pool's turn is over; the learner goes back to its first weights."""


@dataclass(frozen=True)
class Run:
    """The parts of one run."""

    name: str
    config: Config
    game_id: str
    seed: int
    device: torch.device
    policy: Policy
    spec: GameSpec
    make_batch: Callable[[int], MatchBatch]
    """A batch of the game with so many rows."""
    make_stack: Callable[[], PolicyStack | None]
    """Plays frozen policies in one call; None where each is faster by itself."""
    shelf: Shelf
    store: Store
    watcher: Watcher
    make_pool: PoolMaker = Pool
    products: str = "float32"
    """What matrix products are on the device, as `league.device.products_of` has it."""
    rate: Callable[[int, set[str]], None] = field(default=lambda update, agents: None)
    """Writes down, with the updates made, the ratings of agents that met in an evaluation."""
    env: str = ""
    """What `--env` takes for the game; empty: its name."""
    begin: Callable[[], None] = field(default=lambda: None)
    """Called once everything is there that the run plays with, before it plays."""
    counters: Counters = field(default_factory=Counters)
    guards: Guards = field(default_factory=Guards)


def train(run: Run, state: dict[str, Any] | None = None) -> Ending:
    """Trains until the stage's steps are done, a signal comes (`league.signals.received`) or the pool ends it, saved.

    Args:
        run: the parts; its counters say where it stands.
        state: what the shelf was given to save by an earlier call, which this one empties; the run goes on from there,
            bit for bit on a CPU.

    Returns:
        Why it ended. After a reset the caller changes the state and calls again.

    Raises:
        LeagueError: the memory is used up, a guard found what cannot be, or an alarm ends the run; the state has been
            saved, and it says what to change.
    """
    config = run.config
    prepare_training(run.device)
    pool_rng, learner_rng = (np.random.default_rng(s) for s in np.random.SeedSequence(run.seed).spawn(2))
    learner = Learner(run.policy, config.learner, learner_rng, run.device)
    if config.learner.compile == "compile":
        learner.sequence = compiled(run.policy.sequence, run.watcher.say)
    pool = run.make_pool(config.pool, run.shelf.load_policy, pool_rng, run.shelf.guests)
    is_resumed, has_begun = bool(state), False
    generators = state.pop("generators", None) if state else None
    try:
        generator = torch.Generator(run.device).manual_seed(run.seed)
        calls = make_calls(config.learner, generator, run.make_stack(), run.watcher.say)
        origin = Origin(run.name, run.game_id)
        collector = make_collector(config, run.policy, pool, calls, make_batch=run.make_batch, origin=origin)
        seed_now = seed_after(run.seed, state["counters"]["update"]) if state else 0
        with randomness.of_a_run(run.seed, run.device, generators, seed_now) as seeded:
            if state:
                _restore(run, state, learner, pool, collector, seeded)
            run.begin()
            has_begun = True
            return _loop(run, learner, pool, collector, is_resumed)
    except GuardError as error:
        raise _stopped_by(error, run, learner, pool, collector.finished) from None
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        traceback.clear_frames(error.__traceback__)  # lets go of the rollout and of what learning kept of it
        where, why = f"out of memory on {run.device.type}", str(error).splitlines()[0] if str(error) else "no more said"
        settings = " or ".join(f"--set {setting}" for setting in smaller(config))
        if not has_begun:
            raise LeagueError(
                f"run={run.name}: {where} before it could play ({why}); nothing was changed: call again with {settings}"
            ) from None
        saved = _save_without_matches(run, learner, pool)
        raise LeagueError(
            f"run={run.name}: {where} at step {run.counters.steps:,} ({why}); {saved}; go on with less: {_resume(run)}"
            f" with {settings}"
        ) from None


def _loop(run: Run, learner: Learner, pool: Pool, collector: Collector, is_resumed: bool) -> Ending:
    config, counters = run.config, run.counters
    recent, clock = Recent(pool, run.name, config.rewards), SaveClock(config.run.checkpoint_minutes, is_resumed)
    alarms: list[Alarm] = []

    while True:
        ending = _ending(config, counters, pool)

        # Freeze: a snapshot joins the pool at its mark.
        has_joined = counters.steps >= counters.next_snapshot and ending in (None, "finished")
        if has_joined:
            pool.admit(take_snapshot(run, counters))
            measure_payoffs(run, pool)
            counters.next_snapshot = next_snapshot_mark(config, counters.steps)
            ending = ending or pool.ending

        # Evaluate: the newest snapshot plays games of its own. What a signal breaks off is played when the run goes on.
        if is_evaluation_due(counters, config, ending == "finished") and not received():
            with randomness.untouched(run.device):
                alarms += evaluate_newest(run, pool, counters)
            ending = "stopped" if received() else ending

        # Save: at the end, when others wait for the snapshot, and every few minutes.
        must_stop = bool(alarms) and config.run.on_alarm == "stop" and ending in (None, "reset")
        must_save = must_stop or ending is not None
        if must_save or (has_joined and pool.is_shared) or (counters.update and clock.is_due):
            clock.start(checkpoint(run, _state(run, learner, pool, collector), must_succeed=must_save))
        if ending == "finished":
            warn_of_silent_rewards(run)
        if ending is not None:
            return ending
        if must_stop:
            raise LeagueError(
                f"run={run.name}: stopped at step {counters.steps:,}, saved, since run.on_alarm=stop:"
                f" {alarms[0].message} ({_resume(run, '--set', 'run.on_alarm=warn')} goes on all the same)"
            )

        # Play.
        pool.refresh_targets(collector.opponents_in_use())
        if counters.update == 0:
            collector.start(run.seed)
        started = time.perf_counter()
        rollout = collector.collect(config.learner.rollout_steps, counters.update + 1)

        # Learn.
        played = time.perf_counter()
        metrics = learner.update(rollout)
        learned = time.perf_counter()
        counters.update += 1
        counters.steps += rollout.reward.numel()

        # Record: matches and metrics go to the pool, the store and whoever watches.
        recent.add(rollout.finished)
        pool.record(rollout.finished, run.name, rollout.reward.numel())
        metrics |= pool.metrics() | match_metrics(rollout, run.name, config.rewards)
        metrics |= {"play_seconds": played - started, "learn_seconds": learned - played}
        run.store.add_matches(rollout.finished)
        run.store.add_metrics(run.name, counters.update, counters.steps, metrics, pool.agent_metrics())
        run.store.update_run(run.name, status="running", steps=counters.steps, update=counters.update)
        run.store.flush()
        run.watcher.report(_report(counters, config, metrics, recent, learned - started))
        alarms = _tell(run, run.guards.judge(config, metrics, rollout.finished))
        del rollout  # else it stays in memory until the next one is whole


def _ending(config: Config, counters: Counters, pool: Pool) -> Ending | None:
    """Why the loop ends before its next rollout. One that is told to stop does so at once: its end is for later."""
    if received():
        return "stopped"
    return "finished" if counters.steps >= config.run.total_steps else pool.ending


class SaveClock:
    """When a state is saved next. A new run's first is due at once, so that it can be resumed from its first update."""

    def __init__(self, minutes: float, is_resumed: bool) -> None:
        self._pause, self._due_at = 60 * minutes, -math.inf
        if is_resumed:
            self.start(True)

    @property
    def is_due(self) -> bool:
        """Whether it is time."""
        return time.monotonic() > self._due_at

    def start(self, is_saved: bool) -> None:
        """Begins to wait for the next; where the last one failed, not for long."""
        self._due_at = time.monotonic() + (self._pause if is_saved else min(self._pause, RETRY_SECONDS))


@act("snapshot")
def take_snapshot(run: Run, counters: Counters) -> str:
    """Stores the weights of now and remembers them as the newest snapshot."""
    counters.newest = run.shelf.add_snapshot(run.policy, counters)
    counters.newest_steps = counters.steps
    return counters.newest


def checkpoint(run: Run, state: dict[str, Any], *, must_succeed: bool) -> bool:
    """Writes what waits for the store, then the state: a restart never goes on from a state whose matches are lost.

    The state holds how many match rows the store has then, so that a restart sees whether it has lost some. Where it
    `must_succeed` and the store is busy, what waits is kept beside it, and the state has no such counts.

    Returns:
        Whether it was written; if not, the older states stand, and training goes on.

    Raises:
        StoreError, SnapshotError: `must_succeed`, and the store or the disk refused.
    """
    try:
        rows = run.store.checkpoint(run.name, run.counters.update, keeps=must_succeed)
        run.shelf.save_state({**state, "rows": rows})
    except (StoreError, SnapshotError) as error:
        if must_succeed:
            raise
        run.watcher.say(f"no checkpoint now, but the last one stands: {error}")
        return False
    return True


def is_evaluation_due(counters: Counters, config: Config, is_finished: bool) -> bool:
    """At the cadence's marks (0: none) from the first snapshot on, and when the stage is finished."""
    every = config.run.evaluate_every
    return is_finished or bool(every and counters.newest and counters.steps >= counters.next_evaluation)


def evaluate_newest(run: Run, pool: Pool, counters: Counters) -> list[Alarm]:
    """Plays the newest snapshot against every bot, its league's others, its guests and the step-0 one, once.

    A finished stage without a snapshot of its last weights takes one first; it does not join the pool. A signal breaks
    the games off: then nothing of them is written, and they are due again.

    Returns:
        The alarms that it raised.
    """
    config = run.config
    if counters.steps >= config.run.total_steps and counters.newest_steps != counters.steps:
        take_snapshot(run, counters)
    newest = counters.newest
    try:
        alarms = _evaluate(run, pool, counters, newest) if newest != counters.evaluated else []
    except Interrupted as told:
        signal.raise_signal(told.number)  # for the run as a whole
        return []
    counters.evaluated = newest
    if config.run.evaluate_every:
        counters.next_evaluation = (counters.steps // config.run.evaluate_every + 1) * config.run.evaluate_every
    return alarms


@act("evaluate")
def _evaluate(run: Run, pool: Pool, counters: Counters, newest: str) -> list[Alarm]:
    config = run.config
    started = time.perf_counter()
    opponents = [Contestant(BOT_PREFIX + bot) for bot in run.spec.bots]
    nets = pool.rivals() | {pool.snapshots[0]: f"{run.name}@0"}
    guests = [agent_id for agent_id in run.shelf.guests if not agent_id.startswith(BOT_PREFIX)]
    nets |= {agent_id: f"{AGENT_PREFIX}{agent_id[:12]}" for agent_id in guests} | {bot: bot for bot in run.shelf.bots}
    for agent_id in [agent for agent in nets if agent != newest]:
        try:
            opponents.append(Contestant(agent_id, run.shelf.load_policy(agent_id)))
        except SnapshotError as error:
            run.watcher.say(f"evaluating without {nets[agent_id]}: {error}")
    contestant = Contestant(newest, run.shelf.load_policy(newest))
    seeds = np.random.SeedSequence([run.seed, counters.update]).generate_state(len(opponents)).tolist()
    games = config.run.evaluate_games
    pairings = [Pairing(contestant, opponent, games, seed) for opponent, seed in zip(opponents, seeds, strict=True)]
    origin = Origin(run.name, run.game_id)
    with on_signal(interrupt):
        results = play(run.make_batch, pairings, origin, update=counters.update, precision=config.learner.precision)
    run.store.add_matches(results)
    run.rate(counters.update, {agent for result in results for agent in result.agents})
    alarms: list[Alarm] = []
    for opponent in opponents:
        label = nets.get(opponent.agent_id, opponent.agent_id)
        met = [result for result in results if opponent.agent_id in result.agents]
        summary = summarise(met, newest)
        run.watcher.evaluated(counters.newest_steps, label, summary)
        found = run.guards.judge_evaluation(
            config, counters.newest_steps, opponent.agent_id, summary.score, summary.games, run.spec.floor
        )
        alarms += _tell(run, found)
    seconds = {"evaluate_seconds": time.perf_counter() - started}
    run.store.add_metrics(run.name, counters.update, counters.steps, seconds)
    run.store.flush()
    return alarms


def _tell(run: Run, alarms: list[Alarm]) -> list[Alarm]:
    """Says alarms and writes them down."""
    for alarm in alarms:
        run.store.add_event(run.name, run.counters.update, alarm.kind, alarm.message)
        run.watcher.say(f"alarm at step {run.counters.steps:,}: {alarm.message}")
    return alarms


def warn_of_silent_rewards(run: Run) -> None:
    """At the end of a stage, names the reward terms that have a weight and were 0 in every match of the whole run."""
    try:
        terms = run.store.reward_terms(run.name)
    except StoreError as error:
        run.watcher.say(f"not known whether every reward term fired: {error}")
        return
    for term in terms:
        if term.weight and not term.fired:
            message = (
                f"rewards.{term.term} (weight {term.weight:g}) never fired in {term.matches:,} training matches, so it"
                f" taught nothing; train longer, see if the game can bring it about, or --set rewards.{term.term}=0"
            )
            run.store.add_event(run.name, run.counters.update, f"silent_reward:{term.term}", message)
            run.watcher.say(message)


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
            group = self._pool.group_of(result.agents[1 - seat])
            self._scores.setdefault(group, deque(maxlen=WINDOW)).append(result.score_of(self._learner))
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


def _state(run: Run, learner: Learner, pool: Pool, collector: Collector) -> dict[str, Any]:
    return {
        "counters": asdict(run.counters),
        "learner": learner.state_dict(),
        "pool": pool.state_dict(),
        "collector": collector.state_dict(),
        "guards": run.guards.state_dict(),
        "generators": randomness.get_state(run.device),
        "probe": probe.foresee(collector) if run.counters.update else None,
        "setting": _setting(run, collector).to_json(),
    }


def _restore(
    run: Run, state: dict[str, Any], learner: Learner, pool: Pool, collector: Collector, seeded: Sequence[str]
) -> None:
    """Takes `state` over and empties it; what goes on otherwise than it was saved is said and written down.

    Where the state has no matches, or such that cannot be taken over, new ones begin.

    seeded: global generators that did not take the saved state.

    Raises:
        SnapshotError: weights, optimiser or pool cannot be read, as where another version of league wrote them.
    """
    counters = run.counters
    counters.load_state_dict(state.pop("counters"))
    try:
        run.guards.load_state_dict(state.pop("guards", None))
        learner.load_state_dict(state.pop("learner"))
        pool.load_state_dict(state.pop("pool"))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        if is_out_of_memory(error):
            raise
        env = run.env or run.config.env.name
        raise SnapshotError(
            f"run={run.name}: its state cannot be read by this league ({' '.join(str(error).split())[:200]}); read it"
            f" with the one that wrote it, or begin a new run with"
            f" {command('train', '--fresh', '--env', env, store=run.store.path)}"
        ) from error
    matches, saved = state.pop("collector"), state.pop("probe", None)
    taken = None
    if matches is not None and counters.update:
        taken = collector.load_state_dict(matches, seed_after(run.seed, counters.update))
    for kind, line in told(run.name, state.pop("setting", {}), _setting(run, collector), taken, seeded):
        run.watcher.say(line)
        run.store.add_event(run.name, counters.update, kind, line)
    if counters.update and (taken is None or taken.lost):
        seed = seed_after(run.seed, counters.update, run.config.env.rows)
        collector.generator.manual_seed(seed)
        collector.start(seed, updates_made=counters.update)
    elif taken is not None and saved is not None:
        is_drawn_alike = not (taken.is_reseeded or taken.is_regrouped)
        is_same, sentence = probe.compare(saved, probe.foresee(collector), is_drawn_alike=is_drawn_alike)
        run.watcher.say(sentence)
        if not is_same:
            run.store.add_event(run.name, counters.update, "probe", sentence)


def _setting(run: Run, collector: Collector) -> Setting:
    """What the run's bits depend on here, beside its config and seed."""
    nets = "graphs" if collector.has_graphs else "plain"
    opponents = "stacked" if collector.is_stacked else "net by net"
    return Setting(run.device.type, len(collector.lanes), nets, opponents, run.products, BITS)


def _stopped_by(
    error: GuardError, run: Run, learner: Learner, pool: Pool, finished: Sequence[MatchResult]
) -> LeagueError:
    """What a guard's finding ends the run with: the matches so far, an event, the evidence and the state are stored."""
    run.store.add_matches(finished)
    run.store.add_event(run.name, run.counters.update, error.kind, str(error))
    shown = f"; {run.shelf.write_evidence(error.evidence)}" if error.evidence is not None else ""
    saved = _save_without_matches(run, learner, pool)
    return LeagueError(
        f"run={run.name}: stopped after step {run.counters.steps:,}: {error}{shown}; {saved}; go on with"
        f" {_resume(run)}, which takes --set"
    )


def _save_without_matches(run: Run, learner: Learner, pool: Pool) -> str:
    """Saves the run as of its last whole update, with the weights of now; says whether that went well.

    The matches in play are left out: they may have been interrupted between a net's step and the game's, and they take
    memory. New ones begin when the run goes on.
    """
    learner.optimizer.zero_grad()
    state = {
        "counters": asdict(run.counters),
        "learner": learner.state_dict(),
        "pool": pool.state_dict(),
        "collector": None,
        "guards": run.guards.state_dict(),
        "setting": {"device": run.device.type, "products": run.products, "bits": BITS},
    }
    try:
        checkpoint(run, state, must_succeed=True)
    except (MemoryError, RuntimeError, StoreError, SnapshotError) as error:
        why = str(error) or "no memory for it"
        return f"not saved ({why}), so its last saved state stands, or its beginning where there is none"
    return "saved"


def _resume(run: Run, *more: str) -> str:
    return command("resume", run.name, *more, store=run.store.path)
