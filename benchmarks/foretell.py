"""Does the test stage tell? Trains many settings to three million steps, and asks what their first 50,000 foretold.

    python -m benchmarks.foretell run --out runs/foretell.jsonl --seeds 0 1
    python -m benchmarks.foretell tell runs/foretell.jsonl

`run` trains brawl's small agent once for each setting and seed; the first 50,000 steps are those of `test50k`, bit for
bit, but for the snapshot's evaluation. It appends a line of JSON to the file for each, and passes over those that are
there, so it may be ended and called again. `tell` prints for each reading of the short run Spearman's rank correlation
with the strength of the long one, with a bootstrap's 95 % interval, of all settings and of the healthy ones apart.

Each run takes some 13 minutes of a core.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

import league
from benchmarks.strength import COMMON, SMALL, score
from league.envs import registry
from league.store.store import Store

SHORT = 50_000
SETTINGS: dict[str, tuple[str, ...]] = {
    "default": (),
    "entropy-02": ("learner.entropy_coefficient=0.02",),
    "entropy-003": ("learner.entropy_coefficient=0.003",),
    "gamma-995": ("learner.gamma=0.995",),
    "gamma-97": ("learner.gamma=0.97",),
    "lambda-90": ("learner.gae_lambda=0.9",),
    "clip-1": ("learner.clip=0.1",),
    "rate-half": ("learner.learning_rate={ 50_000 = 5e-4, 500_000 = 2e-4 }",),
    "rate-double": ("learner.learning_rate={ 50_000 = 2e-3, 500_000 = 8e-4 }",),
    "epochs-3": ("learner.epochs=3",),
    "rows-32": ("env.rows=32", "learner.minibatches=2", "learner.segments=1"),
    "uniform": ('pool.sampler="uniform"',),
    "latest": ('pool.sampler="latest"',),
    "pfsp": ('pool.sampler="pfsp_hard"',),
    "no-bots": ("pool.mix={ self_play = 1.0 }",),
    "half-bots": ('pool.mix={ self_play = 0.5, "bot:based" = 0.4, "bot:constant" = 0.1 }',),
    "lstm-64": ("agent.lstm_size=64",),
    "sparse": (
        "rewards.combo=0.0",
        "rewards.weapon_taken=0.0",
        "rewards.weapon_lost=0.0",
        "rewards.danger_zone=0.0",
        "rewards.approach=0.0",
    ),
}
"""Settings that somebody may well choose."""
SICK: dict[str, tuple[str, ...]] = {
    "rate-x10": ("learner.learning_rate=1e-2",),
    "rate-x0.01": ("learner.learning_rate=1e-5",),
    "entropy-0": ("learner.entropy_coefficient=0.0",),
    "entropy-x20": ("learner.entropy_coefficient=0.2",),
    "wrong-sign": ("rewards.damage_dealt=-2.0",),
    "coward": ("rewards.damage_taken=-20.0",),
    "frozen-pool": ("pool.snapshot_every=100_000_000", "pool.snapshot_every_until=0"),
    "tiny-lstm": ("agent.lstm_size=4", "agent.observation_width=8", "agent.head_sizes=[4]"),
    "clip-x10": ("learner.clip=0.9", "learner.epochs=20"),
    "blind-critic": ("learner.value_coefficient=0.0",),
}
"""Settings that something is wrong with."""
READINGS = ("explained_variance", "approx_kl", "clip_share", "entropy", "gradient_norm", "value_loss")
"""Metrics of the short run: means over its last fifth."""


def measure(name: str, seed: int, steps: int, mark: int, games: int, sets: Sequence[str], home: Path) -> dict[str, Any]:
    """Trains and judges one setting's seed in `home`; its line."""
    store = home / "league.duckdb"
    overrides = [*COMMON, *SMALL, "env.threads=1", f"run.total_steps={steps}", "run.allow_short=true", *sets]
    began = time.perf_counter()
    result = league.train("10m", preset="fast", seed=seed, overrides=overrides, fresh=True, store=store)
    if result.signal:
        raise SystemExit(128 + result.signal)
    found = {"name": name, "seed": seed, "steps": result.steps, "sets": [*sets]}
    found["minutes"] = round((time.perf_counter() - began) / 60, 1)
    kept = Store.open(store)
    made = [snapshot.step for snapshot in kept.snapshots(result.run)]
    scores = {}
    for wanted in [SHORT, *range(mark, steps, mark), steps]:
        step = min((x for x in made if x >= wanted), default=made[-1])
        scores[step] = {
            bot: score(f"{result.run}@{step}", f"bot:{bot}", games, store)[0] for bot in registry.spec("brawl", {}).bots
        }
    sql = (
        "SELECT name, avg(value) FILTER (steps <= 50_000 AND steps > 40_000) FROM metric WHERE run = '{run}'"
        " AND steps <= 50_000 GROUP BY name"
    )
    _, rows = kept.query(sql.format(run=result.run))
    readings = dict(rows)
    return found | {"scores": scores, "readings": {name: x for name, x in readings.items() if x is not None}}


def strength_of(line: dict[str, Any]) -> float:
    """The mean score in % against all bots at the last mark."""
    last = line["scores"][max(line["scores"], key=int)]
    return float(np.mean([*last.values()]))


def short_readings(line: dict[str, Any]) -> dict[str, float]:
    """What the first 50,000 steps showed."""
    first = line["scores"][min(line["scores"], key=int)]
    shown = {"score, all bots": float(np.mean([*first.values()])), "score, based": float(first["based"])}
    return shown | {name: line["readings"][name] for name in READINGS if name in line["readings"]}


def correlation(short: Sequence[float], long: Sequence[float], draws: int = 2_000) -> tuple[float, float, float]:
    """Spearman's rank correlation, and the bootstrap's 95 % interval over the pairs (2,000 draws)."""
    x, y = np.array(short), np.array(long)
    rng = np.random.default_rng(0)
    found = []
    for _ in range(draws):
        chosen = rng.integers(len(x), size=len(x))
        if len({*x[chosen]}) > 1 and len({*y[chosen]}) > 1:
            found.append(spearmanr(x[chosen], y[chosen]).statistic)
    lower, upper = np.quantile(found, [0.025, 0.975])
    return float(spearmanr(x, y).statistic), float(lower), float(upper)


def tell(lines: list[dict[str, Any]]) -> str:
    """The tables."""
    said = []
    for title, chosen in (("all", lines), ("healthy", [x for x in lines if x["name"] not in SICK])):
        said.append(f"{title}: {len(chosen)} runs of {len({x['name'] for x in chosen})} settings")
        for name in short_readings(chosen[0]):
            pairs = [(short_readings(x)[name], strength_of(x)) for x in chosen if name in short_readings(x)]
            middle, lower, upper = correlation(*zip(*pairs, strict=True))
            said.append(f"  {name:20} {middle:6.2f} [{lower:5.2f}, {upper:5.2f}]")
    said.append("setting, seed: score against all bots at each mark")
    for line in sorted(lines, key=strength_of, reverse=True):
        marks = " ".join(f"{np.mean([*x.values()]):5.1f}" for x in line["scores"].values())
        last = line["scores"][max(line["scores"], key=int)]
        said.append(f"  {line['name']:14} {line['seed']}  {marks}  {' '.join(f'{x:.0f}' for x in last.values())}")
    return "\n".join(said)


def main() -> None:
    """Runs, or tells."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="train and judge what is not in the file yet")
    run.add_argument("--out", type=Path, required=True)
    run.add_argument("--only", nargs="+", help="names of settings; all by default")
    run.add_argument("--name", help="a setting of one's own, made of --set")
    run.add_argument("--set", action="append", default=[], dest="sets")
    run.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    run.add_argument("--steps", type=int, default=3_000_000)
    run.add_argument("--mark", type=int, default=1_000_000)
    run.add_argument("--games", type=int, default=200)
    commands.add_parser("tell", help="the correlations").add_argument("file", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "tell":
        print(tell([json.loads(line) for line in arguments.file.read_text().splitlines()]))
        return
    settings = {arguments.name: tuple(arguments.sets)} if arguments.name else SETTINGS | SICK
    names = arguments.only or [*settings]
    for seed in arguments.seeds:
        for name in names:
            lines = arguments.out.read_text().splitlines() if arguments.out.exists() else []
            if any((x["name"], x["seed"]) == (name, seed) for x in map(json.loads, lines)):
                continue
            with tempfile.TemporaryDirectory() as folder:
                line = measure(
                    name, seed, arguments.steps, arguments.mark, arguments.games, settings[name], Path(folder)
                )
            with arguments.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(name, seed, round(strength_of(line), 1), flush=True)


if __name__ == "__main__":
    main()
