"""League itself: the loop of `league train` at the size of the comparison, with a native bot in the other seat.

All of it counts: snapshots and their files, the store's rows, metrics and guards, none of which the peers have.
Rating games are left out, since no peer plays any, and saves, which come every half million steps or ten minutes.

With an encoder it is not the predecessors' function: each frame is encoded once, causally, and its reach grows with
the layers, where they encode the whole window again at every step and for every sample. It also resets its memories at
every match's start, plays with action masks, and learns from larger minibatches than the predecessors' 128 samples.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import cast

import torch
from torch import nn

import league
from benchmarks.learning import every
from benchmarks.peers.game import BOT, EMBEDDING, HEADS, Size, Speed, rate
from league.arena.networks import make_policy
from league.sessions.settling import settle
from league.training.run import Report

STAGE, PRESET = "10m", "fast"
MOST_UPDATES = 10_000
"""More than any measurement makes."""
PERIOD = 6
"""Updates from one snapshot to the next: of 256 rows and 64 steps nearly 100,000 steps, as by league's defaults."""
WARM_UP = 2
"""Updates before the clock runs. After the first a state is saved, as from then on every ten minutes."""


class Clock(league.Callback):
    """When each update was written down, and what of it was play and learning; ends the training after `seconds` and
    whole periods, without the warm-up."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.stamps: list[float] = []
        self.play: list[float] = []
        self.learn: list[float] = []

    def report(self, report: Report) -> bool:
        """Called after every update."""
        self.stamps.append(time.perf_counter())
        if len(self.stamps) > WARM_UP:
            self.play.append(report.metrics["play_seconds"])
            self.learn.append(report.metrics["learn_seconds"])
        return not self.play or len(self.play) % PERIOD != 0 or self.whole < self.seconds

    @property
    def whole(self) -> float:
        """Seconds from the warm-up's end to the last update's."""
        return self.stamps[-1] - self.stamps[WARM_UP - 1]


def measure(size: Size, *, threads: int, seconds: float, precision: str = "float32") -> Speed:
    """Updates of one epoch each, about `seconds` of them, after a warm-up: whole periods, one snapshot in each."""
    torch.set_num_threads(threads)
    count = size.rows * size.steps
    overrides = [
        f'pool.mix={{"bot:{BOT}" = 1.0}}',
        "pool.live_nets=1",
        *every(PERIOD * count),
        f"env.rows={size.rows}",
        f"env.threads={threads}",
        f"env.ticks_per_step={size.ticks}",
        f"learner.rollout_steps={size.steps}",
        "learner.segments=1",
        f"learner.minibatch_size={size.rows * size.steps // size.minibatches}",
        "learner.epochs=1",
        f"learner.precision={precision}",
        f"agent.opponent_encoder={'true' if size.history else 'false'}",
        f"agent.encoder_layers={size.layers}",
        f"agent.history_frames={max(1, size.history) * size.ticks}",
        f"agent.observation_width={EMBEDDING}",
        f"agent.lstm_size={size.lstm}",
        f"agent.head_sizes={list(HEADS)}",
        f"run.total_steps={MOST_UPDATES * count}",
        "run.evaluate_every=0",
        "run.ladder_share=0",
        "env.strict_masks=false",
    ]
    config, spec, _, _ = settle(STAGE, PRESET, None, None, ["learner.device=cpu", *overrides])
    clock = Clock(seconds)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "league.duckdb"
        league.train(STAGE, preset=PRESET, device="cpu", overrides=overrides, store=store, fresh=True, callback=clock)
    steps = len(clock.play) * count
    return Speed(
        parameters=sum(p.numel() for p in cast(nn.Module, make_policy(config, spec)).parameters()),
        play=rate(clock.play, count),
        learn=rate(clock.learn, count),
        play_steps=steps,
        learn_samples=steps,
        minibatch=count // size.minibatches,
        beside=(clock.whole - sum(clock.play) - sum(clock.learn)) / steps,
    )
