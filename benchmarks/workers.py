"""What worker processes bring a slow game in plain Python: `python -m benchmarks.workers [--rounds 30]`.

Prints one JSON line for each length of a step: steps a second of all rows, in this process and in 1, 2, ... workers.
All are measured in turns, a few steps at a time; the best of the turns counts, since other work only ever slows one.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from league.arena.games import enter
from league.envs import Match, registry
from league.types import MatchBatch

STEPS = 1
"""Of a turn."""


class Slow(Match):
    """A game whose step computes for some microseconds of the processor's time."""

    obs_size, action, max_steps = 4, 3, 1_000

    def __init__(self, microseconds: int = 1_000) -> None:
        self.microseconds = microseconds

    def reset(self, rng: np.random.Generator) -> None:
        """Begins a match."""
        del rng

    def observe(self, seat: int) -> list[float]:
        """Nothing of interest."""
        return [0.0, 0.0, 0.0, float(seat)]

    def step(self, actions: tuple[int, int]) -> None:
        """Computes."""
        until = time.thread_time_ns() + 1_000 * self.microseconds
        while time.thread_time_ns() < until:
            pass


def milliseconds(batch: MatchBatch) -> float:
    """What a step of all rows takes."""
    started = time.perf_counter()
    for _ in range(STEPS):
        batch.step()
    return (time.perf_counter() - started) / STEPS * 1e3


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--microseconds", type=int, nargs="+", default=[0, 10, 100, 1_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2])
    arguments = parser.parse_args()
    name = enter(f"{Path(__file__).resolve()}:Slow") or ""
    for length in arguments.microseconds:
        options, rows = {"microseconds": length}, arguments.rows
        batches = {n: registry.make(name, rows=rows, threads=1, options=options, workers=n) for n in arguments.workers}
        for batch in batches.values():
            batch.reset(0)
        turns = [{n: milliseconds(batch) for n, batch in batches.items()} for _ in range(arguments.rounds)]
        best = {f"steps_per_second_with_{n}": round(1e3 * rows / min(turn[n] for turn in turns)) for n in batches}
        print(json.dumps({"bench": "workers", "microseconds_a_step": length, "rows": rows, **best}), flush=True)
        del batch, batches


if __name__ == "__main__":
    main()
