"""How near an equilibrium are a run's newest weights? Exact NashConv on games whose tree is small.

    OMP_NUM_THREADS=1 python -m benchmarks.magnet --env kuhn --seeds 0 1 2
    OMP_NUM_THREADS=1 python -m benchmarks.magnet --env kuhn --set learner.magnet=0 'pool.mix={self_play=1.0}'

Trains on one core and prints a JSON line a seed, in % of uniform play's NashConv: `newest`, of the last snapshot;
`mean`, over the last ten; `mixture`, of the strategy that draws one of the ten before each match. An OpenSpiel game is
played by the small agent, another by its own.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import torch

import league
from benchmarks.nashconv import behaviours
from league.maths.nashconv import mixture, nash_conv, uniform

LAST = 10


def measure(env: str, seed: int, steps: int, sets: list[str]) -> dict[str, float]:
    """Trains a run and reads its last snapshots."""
    own = [f"run.total_steps={steps}", "run.allow_short=true", "run.evaluate_games=2", "env.threads=1", *sets]
    agent = "small" if env.startswith("openspiel:") else None
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "league.duckdb"
        run = league.train(
            "10m", fresh=True, store=store, env=env, agent=agent, seed=seed, device="cpu", overrides=own
        ).run
        torch.set_num_threads(1)
        _, played, tree = behaviours(store, run, LAST)
    whole = nash_conv(tree, uniform(tree)).total
    left = [100 * nash_conv(tree, each).total / whole for each in played]
    mixed = 100 * nash_conv(tree, mixture(tree, played, np.full(len(played), 1 / len(played)))).total / whole
    figures = {"newest": left[-1], "mean": float(np.mean(left)), "mixture": float(mixed)}
    return {name: round(float(value), 1) for name, value in figures.items()}


def main() -> None:
    """A line a seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="kuhn")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=204_800)
    parser.add_argument("--set", dest="sets", nargs="*", default=[], help="settings, laid over all")
    given = parser.parse_args()
    for seed in given.seeds:
        found = measure(given.env, seed, given.steps, given.sets)
        print(json.dumps({"env": given.env, "seed": seed, "set": given.sets, **found}), flush=True)


if __name__ == "__main__":
    main()
