"""What the sections of `benchmarks.gpu` share."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from league.bench import parts_of
from league.config.models import Config
from league.play.rollout import Collector
from league.sessions.settling import settle
from league.training.learner import Learner

TINY = (
    *("agent.encoder_layers=2", "agent.encoder_heads=2", "agent.encoder_width=16", "agent.encoder_feedforward=16"),
    *("agent.latents=2", "agent.observation_width=16", "agent.lstm_size=16", "agent.head_sizes=[8]"),
    *("env.rows=8", "learner.rollout_steps=8", "learner.segments=1", "learner.minibatch_size=32", "learner.epochs=1"),
    "pool.live_nets=2",
)
NO_CUDA = "no CUDA"
Figures = dict[str, Any]
Pairs = Iterator[tuple[str, Any]]
"""Names and figures, each kept as it comes, so that what is cut short has the rest."""


class Skipped(Exception):
    """What this device cannot show; its text says why."""


@dataclass
class Bench:
    """A section's device and sizes."""

    device: torch.device
    is_tiny: bool

    @property
    def is_cuda(self) -> bool:
        """Whether the device is a GPU of CUDA's."""
        return self.device.type == "cuda"

    def need_cuda(self) -> None:
        """Ends a section that a CPU cannot do.

        Raises:
            Skipped: there is no GPU.
        """
        if not self.is_cuda:
            raise Skipped(NO_CUDA)

    def sizes(self, *more: str) -> list[str]:
        """Overrides: those of a section, and toy sizes over them where these are asked for."""
        return [f"learner.device={self.device.type}", *more, *(TINY if self.is_tiny else ())]

    def make(self, preset: str, *more: str) -> tuple[Config, Collector, Learner]:
        """The parts of a run, and its settings."""
        torch.manual_seed(0)
        config, spec, device, _ = settle("10m", preset, None, None, self.sizes(*more))
        return config, *parts_of(config, spec, device, print)

    def wait(self) -> None:
        """Until the device has nothing left to do."""
        if self.is_cuda:
            torch.cuda.synchronize()

    def forget_peak(self) -> None:
        """From now on the peak is that of what follows."""
        if self.is_cuda:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def memory(self) -> Figures:
        """MiB of tensors now and at most since `forget_peak`, and of the allocator; empty without a GPU."""
        if not self.is_cuda:
            return {}
        sizes = {
            "mib": torch.cuda.memory_allocated(),
            "peak_mib": torch.cuda.max_memory_allocated(),
            "reserved_peak_mib": torch.cuda.max_memory_reserved(),
        }
        return {name: size // 2**20 for name, size in sizes.items()}

    def times(self, config: Config, collector: Collector, learner: Learner, update: int) -> tuple[float, float]:
        """Seconds of one rollout and of one update from it."""
        self.wait()
        started = time.perf_counter()
        rollout = collector.collect(config.learner.rollout_steps, update, config.learner.segments)
        self.wait()
        played = time.perf_counter()
        learner.update(rollout)
        self.wait()
        return played - started, time.perf_counter() - played
