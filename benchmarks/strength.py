"""How strong does brawl's agent become in millions of steps? Trains, then judges; one JSON line a run.

    python -m benchmarks.strength --steps 3000000 --seeds 0 1 2 --set learner.epochs=4

The small agent plays, unless `--full`. After training, the snapshots at every `--mark` steps play each bot, most of
which no run trains against; `scores` has them by steps and bot, `lowest` the worst of them at the last mark. `own` has
the last snapshot's score against each earlier mark's, and `falls` the marks that are weaker than an earlier one beyond
doubt, with the Elo points lost at least. `--against` is an agent that the last snapshot plays too, such as another
run's, by its path. With `--keep` a run that is there is judged again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import league
from league.envs import registry
from league.store.store import Store

Score = tuple[float, float, float]
"""In %, with Wilson's 95 % interval."""
COMMON = ("env.strict_masks=false", "run.checkpoint_minutes=600", "run.evaluate_every=0", "run.evaluate_games=2")


def measure(arguments: argparse.Namespace, seed: int, home: Path) -> dict[str, Any]:
    """Trains one seed in `home` and judges its snapshots; what is printed."""
    store = home / "league.duckdb"
    found: dict[str, Any] = {"seed": seed, "set": arguments.sets}
    run = Store.open(store).runs()[0].run if Store.is_there(store) else train(arguments, seed, store, found)
    opened = Store.open(store)
    made, steps = [snapshot.step for snapshot in opened.snapshots(run)], opened.find_run(run).steps
    marks = [min(x for x in made if x >= mark) for mark in range(arguments.mark, made[-1], arguments.mark)]
    marks += [made[-1]] * (made[-1] not in marks)
    met = {
        step: {
            bot: score(f"{run}@{step}", f"bot:{bot}", arguments.games, store) for bot in registry.spec("brawl", {}).bots
        }
        for step in marks
    }
    last = f"{run}@{marks[-1]}"
    found |= {
        "steps": steps,
        "scores": {step: {bot: x[0] for bot, x in scores.items()} for step, scores in met.items()},
        "lowest": min(x[0] for x in met[marks[-1]].values()),
        "own": {step: score(last, f"{run}@{step}", arguments.games, store) for step in marks[:-1]},
        "falls": falls(run, marks, store),
    }
    if arguments.against:
        found["against"] = {path: score(last, path, arguments.games, store) for path in arguments.against}
    return found


def train(arguments: argparse.Namespace, seed: int, store: Path, found: dict[str, Any]) -> str:
    """Trains the run; its name. The minutes go to `found`."""
    sets = [*COMMON, f"run.total_steps={arguments.steps}", "run.allow_short=true", *arguments.sets]
    began = time.perf_counter()
    size = None if arguments.full else "small"
    call = {"preset": arguments.preset, "agent": size, "seed": seed, "overrides": sets, "fresh": True, "store": store}
    result = league.train("10m", **call)
    if result.signal:
        raise SystemExit(128 + result.signal)
    found["minutes"] = round((time.perf_counter() - began) / 60, 1)
    return result.run


def falls(run: str, marks: Sequence[int], store: Path) -> list[tuple[int, int, float]]:
    """(steps of a mark, steps of a later one, Elo points that it lost at least) where that is above 0, in 95 %."""
    found = []
    agents = {snapshot.step: snapshot.agent_id for snapshot in Store.open(store).snapshots(run)}
    for i, mark in enumerate(marks):
        (board,) = league.leaderboard(run, against=f"{run}@{mark}", store=store).boards
        than = {entry.agent_id: entry.against for entry in board.entries}  # rivals of another store may have its name
        for later in marks[i + 1 :]:
            difference = than[agents[later]]
            if difference is not None and difference.upper < 0:
                found.append((mark, later, round(-difference.upper, 1)))
    return found


def score(agent: str, rival: str, games: int, store: Path) -> Score:
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
    parser.add_argument("--against", nargs="+", default=[], help="agents that the last snapshot plays too")
    arguments = parser.parse_args()
    for seed in arguments.seeds:
        with tempfile.TemporaryDirectory() as folder:
            home = (arguments.keep / f"seed-{seed}") if arguments.keep else Path(folder)
            home.mkdir(parents=True, exist_ok=True)
            print(json.dumps(measure(arguments, seed, home)), flush=True)


if __name__ == "__main__":
    main()
