"""Which rows, threads and lanes suit this machine: tried for a minute, told as settings for `--config`.

One thing is changed after another, each from the best so far: threads of the networks, threads of the game, lanes,
rows. Rates are of play and of one epoch of learning with untrained nets. What is within `MARGIN` of the settings as
they are is no better than noise, and is left as it is.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from league.arena import curriculum
from league.bench import MOST_SECONDS, parts_of
from league.config.models import Config
from league.errors import ConfigError, LeagueError, UsageError
from league.play.rollout import num_lanes
from league.runtime.device import describe_device, prepare_training
from league.sessions.settling import check_room, settle
from league.types import GameSpec
from league.types.schema import check_number

MARGIN = 1.05
"""A setting is worth changing for so many times the rate."""
NUM_TRIALS = 10
"""Trials that the seconds are shared among; there may be fewer, and the last is begun while there is time."""
MOST_ROWS = 8
"""How many times the preset's rows are tried."""


@dataclass(frozen=True)
class Trial:
    """One combination and its rates, in steps of learner rows a second (samples, of learning)."""

    rows: int
    net_threads: int
    """Of torch: OMP_NUM_THREADS. On a GPU they hardly matter."""
    game_threads: int
    """`env.threads`; 0 chooses."""
    lanes: int
    play_steps_per_second: float = 0.0
    learn_samples_per_second: float = 0.0
    train_steps_per_second: float = 0.0

    @property
    def words(self) -> str:
        """What it is, in a line."""
        game = f"{self.game_threads} of the game" if self.game_threads else "the game's as it chooses"
        lanes = "two lanes" if self.lanes == 2 else "one lane"
        return f"{self.rows} rows, {self.net_threads} threads of the networks, {game}, {lanes}"


@dataclass(frozen=True)
class Tuning:
    """What was tried, in its order, and what is the best of it."""

    device: str
    usual: Trial
    """The settings as they are."""
    best: Trial
    """With the rows as they are."""
    faster_rows: tuple[Trial, ...]
    """More rows that make more steps a second, each beside the best; they learn otherwise."""
    trials: tuple[Trial, ...]
    is_whole: bool
    """Whether there was time for all."""
    toml: str
    """Of the best, for `--config`."""


def tune(
    preset: str = "fast",
    *,
    env: str | None = None,
    seconds: float = 60.0,
    overrides: Sequence[str] = (),
    say: Callable[[str], None] = lambda line: None,
) -> Tuning:
    """Tries rows, threads and lanes for about this many seconds.

    Args:
        preset: where it begins: its rows are kept in what it recommends.
        env: the game, as `league.arena.games.enter` gives it; None: the usual one.
        seconds: for all trials; each takes at least a rollout and an epoch.
        overrides: settings that are kept.
        say: receives a line for each trial.

    Raises:
        ConfigError: the settings cannot be run.
        UsageError: a number outside its rule.
    """
    check_number("seconds", seconds, 1, MOST_SECONDS, "seconds to measure for")
    config, _, device, _ = settle("10m", preset, env, None, ["env.strict_masks=false", *overrides])
    threads = torch.get_num_threads()
    usual = Trial(config.env.rows, threads, config.env.threads, num_lanes(config, device))
    tried: list[Trial] = []
    until, share = time.monotonic() + seconds, seconds / NUM_TRIALS
    prepare_training(device)

    def has_time() -> bool:
        return not tried or time.monotonic() < until

    def rate(trial: Trial) -> Trial:
        found = _measured(trial, preset, env, overrides, share)
        say(f"{found.words}: {found.train_steps_per_second:,.0f} steps/s")
        tried.append(found)
        return found

    try:
        best = usual = rate(usual)
        for change in (_net_threads, _game_threads, _lanes):
            for trial in change(best, device):
                if has_time():
                    best = max(best, rate(trial), key=lambda x: x.train_steps_per_second)
        if best.train_steps_per_second < MARGIN * usual.train_steps_per_second:
            best = usual
        faster, last = [], best
        while has_time() and 2 * last.rows <= MOST_ROWS * usual.rows:
            try:
                found = rate(replace(last, rows=2 * last.rows))
            except (ConfigError, UsageError, LeagueError) as error:  # too large for the memory, or for the schedule
                say(f"{2 * last.rows} rows: {error}")
                break
            if found.train_steps_per_second < MARGIN * last.train_steps_per_second:
                break
            faster.append(found)
            last = found
        is_whole = has_time()
    finally:
        torch.set_num_threads(threads)
    words = describe_device(device)
    toml = _written(words, preset, usual, best, faster)
    return Tuning(words, usual, best, tuple(faster), tuple(tried), is_whole, toml)


def _net_threads(best: Trial, device: torch.device) -> Iterator[Trial]:
    cores, count = os.cpu_count() or 1, 1
    while device.type == "cpu" and count <= cores:
        if count != best.net_threads:
            yield replace(best, net_threads=count)
        count = count + 1 if count == cores else min(2 * count, cores)


def _game_threads(best: Trial, device: torch.device) -> Iterator[Trial]:
    del device
    for count in sorted({1, os.cpu_count() or 1}):
        if count != best.game_threads:
            yield replace(best, game_threads=count)


def _lanes(best: Trial, device: torch.device) -> Iterator[Trial]:
    del device
    if best.rows % 2 == 0:
        yield replace(best, lanes=3 - best.lanes)


def _measured(trial: Trial, preset: str, env: str | None, overrides: Sequence[str], seconds: float) -> Trial:
    """The trial with its rates: medians of what fits into the seconds, at least one of each after a warm-up."""
    sets = [
        "env.strict_masks=false",
        *overrides,
        f"env.rows={trial.rows}",
        f"env.threads={trial.game_threads}",
        f"learner.overlap={'true' if trial.lanes == 2 else 'false'}",
    ]
    config, spec, device, _ = settle("10m", preset, env, None, sets)
    epochs = config.at(0).learner.epochs
    config, spec, device, _ = settle("10m", preset, env, None, [*sets, "learner.epochs=1", "learner.segments=1"])
    curriculum.check(config, spec)
    config = curriculum.at_start(config.at(0))
    check_room(config, spec, device)
    torch.set_num_threads(trial.net_threads)
    play, learn = _rates(config, spec, device, seconds)
    return replace(
        trial,
        play_steps_per_second=round(play, 1),
        learn_samples_per_second=round(learn, 1),
        train_steps_per_second=round(1 / (1 / play + epochs / learn), 1),
    )


def _rates(config: Config, spec: GameSpec, device: torch.device, seconds: float) -> tuple[float, float]:
    """Steps a second of play, and samples a second of learning."""
    collector, learner = parts_of(config, spec, device)
    size = config.env.rows * config.learner.rollout_steps
    times: list[tuple[float, float]] = []
    until = time.monotonic() + seconds
    try:
        while len(times) < 2 or time.monotonic() < until:
            started = time.perf_counter()
            rollout = collector.collect(config.learner.rollout_steps, len(times) + 1)
            played = time.perf_counter()
            learner.update(rollout)
            times.append((played - started, time.perf_counter() - played))
    finally:
        collector.close()
    play, learn = zip(*times[1:], strict=True)  # the first one warms up
    return size / statistics.median(play), size / statistics.median(learn)


def _written(device: str, preset: str, usual: Trial, best: Trial, faster: Sequence[Trial]) -> str:
    """The best as a TOML file for `--config`, with what it was measured at as comments."""
    gain = best.train_steps_per_second / usual.train_steps_per_second
    lines = [f"# league tune --preset {preset} on {device}"]
    if best == usual:
        lines += ["# Nothing that was tried is faster than the settings as they are."]
    else:
        lines += [f"# {gain:.2f} times as fast as the settings as they are: {best.words}."]
    if best.net_threads != usual.net_threads:
        lines += [f"# Run with OMP_NUM_THREADS={best.net_threads} in the environment."]
    if best.game_threads != usual.game_threads:
        lines += ["", "[env]", f"threads = {best.game_threads}"]
    if best.lanes != usual.lanes:
        lines += ["", "[learner]", f"overlap = {'true' if best.lanes == 2 else 'false'}"]
    lines += [
        f"# env.rows = {trial.rows}: {trial.train_steps_per_second / best.train_steps_per_second:.2f} times the steps a"
        f" second, with larger updates and so fewer of them in the same steps"
        for trial in faster
    ]
    return "\n".join(lines) + "\n"
