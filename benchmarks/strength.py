"""How strong does brawl's agent become in millions of steps? Trains, then judges; one JSON line a run.

    python -m benchmarks.strength --steps 3000000 --seeds 0 1 2 --set learner.epochs=4

The small agent plays, unless `--full`. After training, the snapshots at every `--mark` steps play each bot, most of
which no run trains against; `scores` has them by steps and bot, `lowest` the worst of them at the last mark.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import league
from league.envs import registry
from league.store.store import Store

SMALL = (
    "agent.opponent_encoder=false",
    "agent.observation_width=64",
    "agent.lstm_size=128",
    "agent.head_sizes=[64, 64]",
)
"""An agent that plays and learns some 9,000 steps a second on a core."""
COMMON = ("env.strict_masks=false", "run.checkpoint_minutes=600", "run.evaluate_every=0", "run.evaluate_games=2")


def measure(arguments: argparse.Namespace, seed: int, home: Path) -> dict[str, Any]:
    """Trains one seed in `home` and judges its snapshots; what is printed."""
    store, steps = home / "league.duckdb", arguments.steps
    size = () if arguments.full else SMALL
    sets = [*COMMON, *size, f"run.total_steps={steps}", "run.allow_short=true", *arguments.sets]
    began = time.perf_counter()
    result = league.train("10m", preset=arguments.preset, seed=seed, overrides=sets, fresh=True, store=store)
    if result.signal:
        raise SystemExit(128 + result.signal)
    minutes = (time.perf_counter() - began) / 60
    found = {"seed": seed, "steps": result.steps, "minutes": round(minutes, 1), "set": arguments.sets}
    made = [snapshot.step for snapshot in Store.open(store).snapshots(result.run)]
    marks = [*range(arguments.mark, steps, arguments.mark), steps]
    scores = {}
    for mark in marks:
        step = min((x for x in made if x >= mark), default=made[-1])
        scores[step] = {
            bot: score(f"{result.run}@{step}", f"bot:{bot}", arguments.games, store)[0]
            for bot in registry.spec("brawl", {}).bots
        }
    found |= {"scores": scores, "lowest": min(scores[max(scores)].values())}
    return found


def score(agent: str, rival: str, games: int, store: Path) -> tuple[float, float, float]:
    """The agent's score in % against a rival, and Wilson's 95 % interval."""
    met = league.evaluate(agent, rival, games=games, store=store).summary
    low, middle, high = (round(100 * x, 1) for x in (met.lower, met.score, met.upper))
    return middle, low, high


def main() -> None:
    """Measures each seed in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3_000_000)
    parser.add_argument("--mark", type=int, default=1_000_000)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--games", type=int, default=100)
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--full", action="store_true", help="the default agent, of 7.4 million parameters")
    parser.add_argument("--set", action="append", default=[], dest="sets", help="a setting, laid over all")
    parser.add_argument("--keep", type=Path, help="folder in which the runs are kept")
    arguments = parser.parse_args()
    for seed in arguments.seeds:
        with tempfile.TemporaryDirectory() as folder:
            home = (arguments.keep / f"seed-{seed}") if arguments.keep else Path(folder)
            home.mkdir(parents=True, exist_ok=True)
            print(json.dumps(measure(arguments, seed, home)), flush=True)


if __name__ == "__main__":
    main()
