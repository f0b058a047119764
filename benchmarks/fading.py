"""How long a training game tells something about the learner: `pool.result_half_life`, measured on a finished run.

    python -m benchmarks.fading RUN --store runs/league.duckdb

replays the run's training matches in order. Before each update the samplers' win-rates, with one half-life or another,
predict the games of that update; the mean log loss in nats a game says which half-life knows most (0.693 is a coin).
Prints one JSON line. It needs a run whose members are met again and again: train with `pool.sampler=uniform`.
"""

from __future__ import annotations

import argparse
import json
import math
from itertools import groupby
from pathlib import Path

from league.config import from_json
from league.config.updates import steps_per_update
from league.pool.pool import Results
from league.store.store import Store
from league.types import DRAW

HALF_LIVES = (5e3, 10e3, 20e3, 50e3, 100e3, 200e3, 500e3, 1e9)


def losses(store: Store, run: str, half_lives: tuple[float, ...]) -> dict[str, float]:
    """Half-life in steps -> mean log loss of the predictions, the games of the first tenth of the run left out."""
    row = store.find_run(run)
    config = from_json(json.loads(row.config))
    steps = steps_per_update(config)
    snapshots = store.snapshots(run)
    matches = store.matches(run, "training")
    results = [Results(half_life, config.pool.shrink_games) for half_life in half_lives]
    sums, count = [0.0] * len(results), 0
    done = 0
    for update, group in groupby(matches, key=lambda match: match.update):
        games = list(group)
        known = [s.agent_id for s in snapshots if s.update < update]
        opponents = [match.agents[1 - match.agents.index(run)] for match in games]
        for i, result in enumerate(results):
            result.fade(steps * (update - done))
            if update > row.update // 10:
                rates = result.win_rates(opponents, known)
                for match, rate in zip(games, rates, strict=True):
                    seat = match.agents.index(run)
                    score = 0.5 if match.winner == DRAW else float(match.winner == seat)
                    sums[i] -= score * math.log(rate) + (1 - score) * math.log(1 - rate)
            for match in games:
                result.add(match, run, known[-1])
        count += len(games) if update > row.update // 10 else 0
        done = update
    return {f"{half_life:g}": round(total / count, 4) for half_life, total in zip(half_lives, sums, strict=True)}


def main() -> None:
    """Prints the losses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--store", type=Path, default=Path("runs/league.duckdb"))
    arguments = parser.parse_args()
    store = Store.open(arguments.store)
    print(json.dumps({"run": arguments.run, "log_loss": losses(store, arguments.run, HALF_LIVES)}))


if __name__ == "__main__":
    main()
