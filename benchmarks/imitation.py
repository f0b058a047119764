"""Does a run that begins with a clone of bots become stronger than one from nothing? A JSON line a seed and arm.

    OMP_NUM_THREADS=1 python -m benchmarks.imitation cards --from bot:curve --games 200 --minutes 2
    OMP_NUM_THREADS=1 python -m benchmarks.imitation brawl --from bot:punisher --from bot:zoner --games 20 --minutes 2

The small agent, in minutes of this process's CPU time, which other processes do not take from it: those in which the
bots play and the clone learns are `begin`'s own. `scores` has the last weights' score in % against each bot; `clone` is
the clone before any training, `begin` a run that begins with it, `nothing` one that does not.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import league
from benchmarks.strength import COMMON, score
from benchmarks.suite import Clock
from league.envs import registry


def train(given: argparse.Namespace, seed: int, seconds: float, store: Path, begin_with: Path | None) -> dict[str, Any]:
    """Trains a run for so long, and judges its last weights."""
    sets = [*COMMON, "run.ladder_share=0", "env.threads=1", *given.sets]
    result = league.train(
        "10m", fresh=True, env=given.game, agent="small", seed=seed, device="cpu", overrides=sets, store=store,
        begin_with=begin_with, callback=Clock(seconds / 60),
    )  # fmt: skip
    return {"steps": result.steps, "scores": scores(f"{result.run}@stopped", given, store)}


def scores(agent: str, given: argparse.Namespace, store: Path) -> dict[str, float]:
    """The agent's score in % against each bot."""
    return {bot: score(agent, f"bot:{bot}", 100, store)[0] for bot in registry.spec(given.game, {}).bots}


def tell(arm: str, seed: int, found: dict[str, Any]) -> None:
    """Prints a line."""
    print(json.dumps({"arm": arm, "seed": seed, **found}), flush=True)


def main() -> None:
    """Three lines a seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("game")
    parser.add_argument("--from", dest="sources", action="append", required=True)
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--set", dest="sets", action="append", default=[], help="settings of both runs, laid over all")
    given = parser.parse_args()
    for seed in given.seeds:
        with tempfile.TemporaryDirectory() as folder:
            store, start = Path(folder) / "runs", Path(folder) / "START"
            began = time.process_time()
            clone = league.imitate(
                given.game, given.sources, start, games=given.games, epochs=given.epochs, seed=seed, agent="small",
                device="cpu", store=store,
            )  # fmt: skip
            spent = time.process_time() - began
            own = {"seconds": round(spent), "accuracy": clone.accuracy, "most_frequent": clone.most_frequent}
            own |= {"decisions": clone.decisions, "scores": scores(str(start), given, store)}
            tell("clone", seed, own)
            tell("begin", seed, train(given, seed, 60 * given.minutes - spent, store, start))
            tell("nothing", seed, train(given, seed, 60 * given.minutes, store, None))


if __name__ == "__main__":
    main()
