"""Does the learner learn games for one? Steps and minutes to a mean greedy return, on several seeds.

`python -m benchmarks.solo cartpole`: CartPole-v1, to 475. `python -m benchmarks.solo tmaze`: a corridor of ten steps
whose cue is seen at its start alone (examples/tmaze.py), to 0.9; with `--forgetful` the LSTM's memory is cleared before
each decision, in play and in learning. One JSON line a seed.
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import torch

import league
from league.policies.actor_critic import ActorCritic

TASKS = {"cartpole": ("gymnasium:CartPole-v1", 475.0), "tmaze": ("gymnasium:examples.tmaze:TMaze-v0", 0.9)}
"""Name -> address, and the mean return that counts as solved."""
SETS = ("run.evaluate_every=0", "run.evaluate_games=2", "run.allow_short=true", "env.strict_masks=false")


def forgetful() -> ExitStack:
    """Within it no network remembers anything from one decision to the next."""
    features, sequence = ActorCritic._step_features, ActorCritic.sequence

    def step_features(self: ActorCritic, obs: torch.Tensor, state: Any, rows: torch.Tensor | None) -> torch.Tensor:
        index = slice(None) if rows is None else rows
        state.hidden[index], state.cell[index] = 0, 0
        return features(self, obs, state, rows)

    def of_sequence(self: ActorCritic, obs: Any, action: Any, state: Any, is_first: torch.Tensor, *rest: Any) -> Any:
        return sequence(self, obs, action, state, torch.ones_like(is_first), *rest)

    stack = ExitStack()
    stack.enter_context(patch.object(ActorCritic, "_step_features", step_features))
    stack.enter_context(patch.object(ActorCritic, "sequence", of_sequence))
    return stack


def measure(task: str, seed: int, steps: int, every: int, games: int, overrides: list[str]) -> dict[str, Any]:
    """One run, and the mean greedy return of `games` matches of its snapshots."""
    address, solved = TASKS[task]
    with TemporaryDirectory() as folder:
        store = Path(folder) / "league.duckdb"
        snapshots = [f"pool.snapshot_every={every}", f"pool.snapshot_every_after={every}"]
        sets = [f"run.total_steps={steps}", *SETS, *snapshots, f"pool.snapshot_every_until={every}", *overrides]
        started = time.perf_counter()
        league.train("10m", env=address, seed=seed, store=store, run="r", overrides=sets)
        seconds = time.perf_counter() - started
        returns = {}
        for step in sorted(int(path.name) for path in (Path(folder) / "r" / "snapshots").iterdir())[1:]:
            met = league.evaluate(f"r@{step}", "bot:world", games=games, greedy=True, store=store, device="cpu")
            returns[step] = met.summary.metrics["return"][0]
    first = next((step for step, mean in returns.items() if mean >= solved), None)
    return {
        "task": task,
        "seed": seed,
        "solved_at_steps": first,
        "minutes_to_it": None if first is None else round(seconds / 60 * first / steps, 2),
        "steps_per_second": round(steps / seconds),
        "returns": {step: round(mean, 2) for step, mean in returns.items()},
    }


def main() -> None:
    """Parses, runs, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--every", type=int, default=10_000, help="steps from a snapshot to the next")
    parser.add_argument("--games", type=int, default=200, help="matches a snapshot, on half as many starts")
    parser.add_argument("--forgetful", action="store_true")
    parser.add_argument("--set", action="append", default=[], dest="overrides", metavar="A.B=VALUE")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with forgetful() if asked.forgetful else ExitStack():
        for seed in asked.seeds:
            found = measure(asked.task, seed, asked.steps, asked.every, asked.games, asked.overrides)
            print(json.dumps({**found, "forgetful": asked.forgetful, "set": asked.overrides}), flush=True)


if __name__ == "__main__":
    main()
