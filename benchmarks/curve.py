"""Writes down the ratings over steps of kept runs, as the README's picture draws them (`docs/pictures.py`).

    python -m benchmarks.strength --steps 10000000 --seeds 0 1 2 --games 800 --keep runs/ten
    python -m benchmarks.curve runs/ten/seed-*/league.duckdb > docs/shown/curve.json

Of each store the first run's marks: snapshots that have played `--games` matches at least, each with its rating in Elo
points (`bot:based` is 1000) and the 95 % interval; and the bots' ratings, the mean over the stores.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import league
from league.store.store import Store
from league.types import BOT_PREFIX


def recorded(store: Path, games: int) -> tuple[dict[str, Any], dict[str, float]]:
    """A run's points (steps, rating, lower, upper), and the bots' ratings."""
    opened = Store.open(store)
    run = opened.runs()[0]
    steps = {x.agent_id: x.step for x in opened.snapshots(run.run)}
    (board,) = league.leaderboard(run.run, store=store).boards
    rated = [x for x in board.entries if x.agent_id in steps and x.games >= games and x.lower is not None]
    points = sorted([steps[x.agent_id], *(round(float(y)) for y in (x.rating, x.lower, x.upper))] for x in rated)
    bots = {x.name: float(x.rating) for x in board.entries if x.name.startswith(BOT_PREFIX)}
    return {"seed": run.seed, "points": points}, bots


def main() -> None:
    """Prints one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", nargs="+", type=Path)
    parser.add_argument("--games", type=int, default=200)
    arguments = parser.parse_args()
    found = [recorded(store, arguments.games) for store in arguments.stores]
    bots = {name: round(float(np.mean([own[name] for _, own in found]))) for name in found[0][1]}
    runs = [run for run, _ in sorted(found, key=lambda pair: pair[0]["seed"])]
    lines = ",\n  ".join(json.dumps(run) for run in runs)
    print(f'{{"runs": [\n  {lines}],\n "bots": {json.dumps(bots)}}}')


if __name__ == "__main__":
    main()
