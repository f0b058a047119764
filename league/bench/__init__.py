"""Measures the parts, each figure with the settings it was taken at. Timings live here, never in tests."""

from __future__ import annotations

import hashlib
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from league.arena import curriculum
from league.arena.games import enter, load_settings
from league.arena.networks import described, make_policy
from league.config import updates
from league.config.models import Config
from league.envs import registry
from league.maths.ratings import bradley_terry
from league.play.graphs import StepGraphs
from league.play.rollout import Collector, make_calls, make_collector
from league.pool.pool import Pool
from league.runtime.device import autocast, describe_device, prepare_training
from league.runtime.phases import advance, listening, phase
from league.sessions.settling import check_room, settle
from league.sessions.wiring import make_stack
from league.store.folder import Folder
from league.store.store import Store
from league.training.compiling import compiled
from league.training.learner import Learner
from league.types import DRAW, GameSpec, MatchBatch, MatchResult, Origin, Rollout
from league.types.schema import MAX_ROWS, MAX_SEED, MAX_THREADS, check_number

TOLD_EVERY = 64
"""Steps of a batch between two words of how far a measurement is."""
FILL_ROWS = 50_000
"""Rows in one transaction of `bench_ratings`."""
MOST_SECONDS, MOST_REPEATS = 3_600, 1_000
"""Nobody waits longer for a figure."""
MOST_AGENTS, MOST_MATCHES = 10_000, 100_000_000
"""Of the store that is filled: a hundred million rows are hours and 30 GB."""
ENV_ROUNDS = 7
"""Turns that each variant of the game takes in `bench_env`."""


def bench_env(env: object, *, rows: int, threads: int, seconds: float, overrides: Iterable[str] = ()) -> dict[str, Any]:
    """Ticks a second of `rows` matches of the game alone, with random actions for both seats.

    Beside the figure at the settings stand those at one tick a step and with twice the threads, where the game and the
    machine have them; all are measured in turns, so that a busy machine does not favour one, and are medians of
    `ENV_ROUNDS`. From the first two follow the nanoseconds of a tick and of what a decision adds to its ticks. Of a
    curriculum it is the game that training begins with.

    Raises:
        UsageError: a number that cannot be measured with.
    """
    check_number("rows", rows, 1, MAX_ROWS, "matches side by side")
    check_number("threads", threads, 0, MAX_THREADS, "threads that step them, 0 to choose")
    check_number("seconds", seconds, 1e-3, MOST_SECONDS, "seconds to measure for")
    config = curriculum.at_start(load_settings(env=enter(env), overrides=overrides)[0])
    options = config.env.options
    ticks = registry.spec(config.env.name, options).ticks_per_step
    variants = {"": (options, threads)}
    if ticks > 1 and "ticks_per_step" in options:
        variants["one_tick"] = ({**options, "ticks_per_step": 1}, threads)
    if 0 < 2 * threads <= (os.cpu_count() or 1):
        variants["two_fold"] = (options, 2 * threads)
    batches = {
        name: registry.make(config.env.name, rows=rows, threads=width, options=chosen, workers=config.env.workers)
        for name, (chosen, width) in variants.items()
    }
    nanoseconds: dict[str, list[float]] = {name: [] for name in batches}
    for batch in batches.values():
        batch.reset(0)
        _step_time(batch, seconds / 20)
    for _ in range(ENV_ROUNDS):
        for name, batch in batches.items():
            nanoseconds[name].append(_step_time(batch, seconds / ENV_ROUNDS / len(batches)))
    step = {name: statistics.median(times) for name, times in nanoseconds.items()}
    rate = 1e9 / step[""]
    figures: dict[str, float] = {"steps_per_second": round(rate), "ticks_per_second": round(rate * ticks)}
    if "one_tick" in step:
        tick = (step[""] - step["one_tick"]) / (ticks - 1)
        figures["ticks_per_second_at_one_tick_a_step"] = round(1e9 / step["one_tick"])
        figures |= {"nanoseconds_a_tick": round(tick), "nanoseconds_a_decision": round(step["one_tick"] - tick)}
    if "two_fold" in step:
        figures[f"speedup_with_{2 * threads}_threads"] = round(step[""] / step["two_fold"], 2)
    return {
        "bench": "env",
        "env": config.env.name,
        "rows": rows,
        "threads": threads,
        "workers": config.env.workers,
        "ticks_per_step": ticks,
        "seconds": seconds,
        **figures,
        **machine(),
    }


@phase("measure")
def _step_time(batch: MatchBatch, seconds: float) -> float:
    """Nanoseconds that a step of one row takes, over about this many seconds of random play.

    Legal tuples are chosen between the steps, outside of the time that counts.
    """
    action, rng = batch.spec.action, np.random.default_rng(0)
    if action.kind == "legal_tuples":
        return _legal_step_time(batch, seconds)
    shape = (*batch.actions.shape[:2], action.num_draws)
    actions = [action.legal_actions(None, rng.random(shape)) for _ in range(16)]
    steps, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds or steps == 0:
        batch.actions[:] = actions[steps % len(actions)]
        batch.step()
        steps += 1
        if not steps % TOLD_EVERY:
            advance("seconds", elapsed, seconds)
    return 1e9 * elapsed / (steps * batch.num_rows)


def _legal_step_time(batch: MatchBatch, seconds: float) -> float:
    rng, shape = np.random.default_rng(0), (*batch.actions.shape[:2], batch.spec.action.mask_size)
    steps, spent, until = 0, 0.0, time.perf_counter() + seconds
    while time.perf_counter() < until or steps == 0:
        batch.actions[:] = batch.spec.action.legal_actions(batch.mask, rng.random(shape))
        started = time.perf_counter()
        batch.step()
        spent += time.perf_counter() - started
        steps += 1
    return 1e9 * spent / (steps * batch.num_rows)


def bench_learner(
    preset: str, *, threads: int | None = None, repeats: int = 3, overrides: Sequence[str] = ()
) -> dict[str, Any]:
    """Play, learning and both together, as training does them: the preset's rows, mix and epochs, untrained nets.

    The test stages' mask checks are left out, unless `overrides` ask for them. Of a curriculum it is what a run begins
    with.

    `play_steps_per_second` counts steps of learner rows with the frozen opponents of the mix beside them;
    `learn_samples_per_second` counts a sample once for every epoch that it is learned from; `replay_difference` is the
    largest difference between the log-probabilities of play and of their replay, in nats. `share_*` say where the time
    of one more rollout and update went, in which every part is waited for; `bottleneck` is the largest.
    """
    check_number("repeats", repeats, 1, MOST_REPEATS, "rollouts and updates to measure")
    if threads is not None:
        check_number("threads", threads, 1, MAX_THREADS, "threads of torch")
        torch.set_num_threads(threads)
    config, spec, device, explanation = settle("test50k", preset, None, None, ["env.strict_masks=false", *overrides])
    updates.check_rows(config)
    curriculum.check(config, spec)
    config = curriculum.at_start(config)
    check_room(config, spec, device)
    prepare_training(device)
    warnings: list[str] = []
    collector, learner = parts_of(config, spec, device, warnings.append)
    size = updates.steps_per_update(config)
    play, learn = [], []
    for repeat in range(repeats + 1):  # the first one warms up
        advance("rollouts", repeat, repeats + 1)
        started = time.perf_counter()
        rollout = collector.collect(config.learner.rollout_steps, repeat + 1, config.learner.segments)
        played = time.perf_counter()
        if repeat == 0:
            difference = _replay_difference(learner, rollout, config.learner.precision)
        metrics = learner.update(rollout)
        learned = time.perf_counter()
        samples = size * metrics["minibatches"] / updates.minibatches(config)
        if repeat:
            play.append(size / (played - started))
            learn.append(samples / (learned - played))
    epochs = samples / size
    play_rate, learn_rate = statistics.median(play), statistics.median(learn)
    return {
        "bench": "learner",
        "env": config.env.name,
        "preset": preset,
        **({"sizes": explanation} if explanation else {}),
        "rows": config.env.rows,
        "rollout_steps": config.learner.rollout_steps,
        "epochs": epochs,
        "live_nets": config.pool.live_nets,
        "parameters": sum(p.numel() for p in learner.policy.parameters()),
        "history_tokens": described(config, spec, learner.policy)[1],
        "precision": config.learner.precision,
        "compile": config.learner.compile,
        "lanes": len(collector.lanes),
        "replay_difference": difference,
        "device": describe_device(device),
        "repeats": repeats,
        "play_steps_per_second": round(play_rate),
        "learn_samples_per_second": round(learn_rate),
        "train_steps_per_second": round(1 / (1 / play_rate + epochs / learn_rate)),
        **({"warnings": warnings} if warnings else {}),
        **_where_time_goes(collector, learner, repeats + 2),
        **machine(),
    }


class _Clock:
    """Adds up the seconds of phases, each from when the device has nothing left to do to when it has done this."""

    def __init__(self, device: torch.device) -> None:
        self.seconds: dict[str, float] = {}
        self._began: dict[str, float] = {}
        self._wait: Callable[[], None] = torch.cuda.synchronize if device.type == "cuda" else lambda: None

    def __call__(self, name: str, begins: bool) -> None:
        """Hears of a phase."""
        self._wait()
        now = time.perf_counter()
        if begins:
            self._began[name] = now
        else:
            self.seconds[name] = self.seconds.get(name, 0.0) + now - self._began.pop(name)


PARTS = {"game": "game", "play_net": "play_net", "frozen_nets": "frozen_nets", "learn": "learning"}
"""Act -> what its share of the time is called."""


def _where_time_goes(collector: Collector, learner: Learner, update: int) -> dict[str, Any]:
    """Shares of one rollout and its update: game, play net, frozen nets, learning, the rest (copies, draws, rows)."""
    clock = _Clock(learner.device)
    collector.one_by_one()
    with listening(clock), phase("whole"):
        learner.update(collector.collect(learner.config.rollout_steps, update, learner.config.segments))
    total = clock.seconds["whole"]
    shares = {part: clock.seconds.get(name, 0.0) / total for name, part in PARTS.items()}
    shares["other"] = 1.0 - sum(shares.values())
    return {f"share_{part}": round(share, 3) for part, share in shares.items()} | {
        "bottleneck": max(shares, key=shares.__getitem__)
    }


def parts_of(
    config: Config, spec: GameSpec, device: torch.device, warn: Callable[[str], None] = lambda _: None
) -> tuple[Collector, Learner]:
    """A collector and a learner at the config's sizes, `pool.live_nets` untrained nets as opponents."""
    policy, *nets = (make_policy(config, spec) for _ in range(1 + config.pool.live_nets))
    cast(nn.Module, policy).to(device)
    for net in nets:
        cast(nn.Module, net).requires_grad_(False).to(device)
    frozen = {f"net-{i}": net for i, net in enumerate(nets)}
    pool = Pool(config.pool, frozen.__getitem__, np.random.default_rng(0))
    for agent_id in frozen:
        pool.admit(agent_id)
    pool.refresh_targets(set())
    env = config.env
    collector = make_collector(
        config,
        policy,
        pool,
        make_calls(config.learner, torch.Generator(device).manual_seed(0), make_stack(policy, config), warn),
        make_batch=lambda rows: registry.make(
            env.name, rows=rows, threads=env.threads, options=env.options, workers=env.workers
        ),
        origin=Origin("bench", "bench"),
    )
    collector.start(0)
    learner = Learner(policy, config.learner, np.random.default_rng(0), device)
    if config.learner.compile == "compile":
        learner.sequence = compiled(policy.sequence, warn)
    elif device.type == "cuda" and config.learner.compile != "off":
        learner.replay(StepGraphs(torch.Generator(device), "float32", warn))
    return collector, learner


def bench_ratings(agents: int, matches: int, *, repeats: int = 5, seed: int = 0) -> dict[str, Any]:
    """Milliseconds to rate `agents` from `matches` evaluation rows: counting them in SQL, and solving the model.

    The store is a temporary one with made-up games between snapshots of normally distributed strengths, everybody
    against everybody, a tenth drawn; ids are as long as real ones. `insert_rows_per_second` is what filling it takes;
    `ratings_cpu_ms` is the processor's time, all threads together, which a busy machine does not stretch.

    Raises:
        UsageError: a number that cannot be measured with.
    """
    check_number("agents", agents, 2, MOST_AGENTS, "agents that are rated")
    check_number("matches", matches, 1, MOST_MATCHES, "match rows")
    check_number("repeats", repeats, 1, MOST_REPEATS, "times to measure")
    check_number("seed", seed, 0, MAX_SEED, "the random seed")
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(Path(folder))
        started = time.perf_counter()
        _fill(store, agents, matches, np.random.default_rng(seed))
        filled = time.perf_counter() - started
        count, solve, busy = [], [], []
        for repeat in range(repeats):
            advance("repeats", repeat, repeats)
            started, worked = time.perf_counter(), time.process_time()
            counts = store.pair_counts("bench")
            counted = time.perf_counter()
            ratings = bradley_terry(counts)
            solve.append(time.perf_counter() - counted)
            count.append(counted - started)
            busy.append(time.process_time() - worked)
    return {
        "bench": "ratings",
        "agents": len(ratings.agents),
        "matches": int(counts.games.sum()),
        "pairs": len(counts.seat0),
        "repeats": repeats,
        "insert_rows_per_second": round(matches / filled),
        "count_ms": round(1e3 * statistics.median(count), 1),
        "solve_ms": round(1e3 * statistics.median(solve), 1),
        "ratings_ms": round(1e3 * statistics.median(map(sum, zip(count, solve, strict=True))), 1),
        "ratings_cpu_ms": round(1e3 * statistics.median(busy), 1),
        **machine(),
    }


def _fill(store: Store, agents: int, matches: int, rng: np.random.Generator) -> None:
    """Writes made-up evaluation matches between random pairs, in segments of `FILL_ROWS`."""
    ids = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(agents)]
    strength = rng.normal(0.0, 1.0, agents)
    with store.evaluations() as folder:
        _fill_folder(folder, matches, ids, strength, rng)


def _fill_folder(
    folder: Folder, matches: int, ids: list[str], strength: npt.NDArray[np.float64], rng: np.random.Generator
) -> None:
    agents = len(ids)
    for begin in range(0, matches, FILL_ROWS):
        advance("rows", begin, matches)
        size = min(FILL_ROWS, matches - begin)
        first = rng.integers(0, agents, size)
        second = (first + rng.integers(1, agents, size)) % agents
        is_won = rng.random(size) < 1.0 / (1.0 + np.exp(strength[second] - strength[first]))
        winner = np.where(rng.random(size) < 0.1, DRAW, np.where(is_won, 0, 1))
        seeds = rng.integers(0, 2**63, size)
        rows = zip(first.tolist(), second.tolist(), winner.tolist(), seeds.tolist(), strict=True)
        folder.add_matches(
            MatchResult("bench", "evaluation", 0, begin + k, 0, "bench", (ids[a], ids[b]), s, w, "time", 1, 1, "sample")
            for k, (a, b, w, s) in enumerate(rows)
        )
        folder.flush(force=True)


@torch.no_grad()
def _replay_difference(learner: Learner, rollout: Rollout, precision: str) -> float:
    mask = None if rollout.mask is None else rollout.mask.transpose(0, 1)
    with autocast(learner.device, precision):
        log_prob, _, _ = learner.policy.sequence(
            rollout.obs.transpose(0, 1),
            rollout.action.transpose(0, 1),
            rollout.state,
            rollout.is_first.transpose(0, 1),
            mask,
        )
    return float((log_prob.T - rollout.log_prob).abs().max())


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {"machine": platform.machine(), "cores": os.cpu_count(), "torch": torch.__version__}
