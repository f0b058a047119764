"""Does the test stage tell? Trains many settings to three million steps, and asks what their first 50,000 foretold.

    python -m benchmarks.foretell run --out runs/foretell.jsonl --seeds 0 1
    python -m benchmarks.foretell tell
    python -m benchmarks.foretell table runs/foretell.jsonl > foretold.json

`run` trains brawl's small agent once for each setting and seed; the first 50,000 steps are those of `test50k`, bit for
bit, but for the snapshot's evaluation. It appends a line of JSON to the file for each, and passes over those that are
there, so it may be ended and called again. A run's strength is its mean score after the last step against the seven
bots, five of which it never met. `tell` reads the table of `league.boards.verdict` (`foretold.json`) and prints the
odds of both words, for each reading of the short run Spearman's rank correlation with the strength, with a bootstrap's
95 % interval, of all settings, of those meant well and of those called promising; and what it says of each run.
`table` prints that table with further runs in it. Neither counts `LATER`.

Each run takes 6 to 17 minutes of a core.
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
from scipy.stats import rankdata, spearmanr

import league
from benchmarks.strength import COMMON, score
from league import config
from league.boards import verdict
from league.boards.readings import Remark
from league.boards.readings import read as read_metrics
from league.envs import registry
from league.maths.record import wilson
from league.store.store import Store

METRICS = ("approx_kl", "clip_share", "explained_variance", "entropy_in_play", "gradient_norm")
"""Readings that the table keeps."""
SHORT, GAMES = 50_000, 200
THEN = (
    "pool.recent_window=10",
    "learner.epochs={ 0 = 6, 200_000 = 4 }",
    "learner.learning_rate={ 50_000 = 1e-3, 500_000 = 4e-4 }",
    *("rewards.approach=0.1", "rewards.hit=0.0", "rewards.combo=0.1"),
)
"""Brawl's defaults when these settings were chosen, and those of every run whose setting says nothing else."""
STRONG = 0.85
"""A strength, somewhat below what two seeds of `unchanged` come to at three million steps (0.91, 0.89)."""
SHAPING = {
    **{"damage_dealt": 2.0, "damage_taken": -1.0, "approach": 0.1, "danger_zone": -0.1, "weapon_taken": 0.2},
    **{"weapon_lost": -0.2, "combo": 0.1},
}


def fading(first: int, last: int) -> tuple[str, ...]:
    """Rewards for what only leads to an outcome, which fade."""
    return tuple(f"rewards.{term}={{ {first:_} = {value}, {last:_} = 0.0 }}" for term, value in SHAPING.items())


SETTINGS: dict[str, tuple[str, ...]] = {
    "unchanged": (),
    "entropy-02": ("learner.entropy_coefficient=0.02",),
    "entropy-003": ("learner.entropy_coefficient=0.003",),
    "gamma-995": ("learner.gamma=0.995",),
    "gamma-97": ("learner.gamma=0.97",),
    "lambda-90": ("learner.gae_lambda=0.9",),
    "clip-1": ("learner.clip=0.1",),
    "rate-half": ("learner.learning_rate={ 50_000 = 5e-4, 500_000 = 2e-4 }",),
    "rate-double": ("learner.learning_rate={ 50_000 = 2e-3, 500_000 = 8e-4 }",),
    "epochs-3": ("learner.epochs=3",),
    "rows-32": ("env.rows=32", "learner.minibatch_size=512", "learner.segments=1"),
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
    "wrong-outcome": ("rewards.knock_out=-2.0", "rewards.win=-1.0"),
    "wrong-sign": ("rewards.damage_dealt=-2.0",),
    "coward": ("rewards.damage_taken=-20.0",),
    "frozen-pool": ("pool.snapshot_every=100_000_000",),
    "tiny-lstm": ("agent.lstm_size=4", "agent.observation_width=8", "agent.head_sizes=[4]"),
    "clip-x10": ("learner.clip=0.9", "learner.epochs=10"),
    "blind-critic": ("learner.value_coefficient=0.0",),
}
"""Settings that were meant to have something wrong with them."""
LATER: dict[str, tuple[str, ...]] = {
    "newest-later": ("pool.recent_window={ 0 = 10, 50_000 = 1 }",),
    "fresher": ("pool.snapshot_every_after=25_000",),
    "damage-fades": ("rewards.damage_dealt={ 50_000 = 2.0, 500_000 = 0.0 }",),
    "shaping-fades": fading(50_000, 500_000),
    "fades-200k": fading(50_000, 200_000),
    "fades-1m": fading(50_000, 1_000_000),
    "fades-gamma-995": (*fading(50_000, 500_000), "learner.gamma={ 50_000 = 0.99, 500_000 = 0.995 }"),
    "fades-to-win": (
        *fading(50_000, 500_000),
        "rewards.knock_out={ 50_000 = 2.0, 500_000 = 0.0 }",
        "rewards.stock_lost={ 50_000 = -2.0, 500_000 = 0.0 }",
    ),
    "fades-but-combo": fading(50_000, 500_000)[:-1],
    "fades-but-damage": fading(50_000, 500_000)[2:],
}
"""Settings that are `unchanged` up to step 50,000, so that no reading tells them from it; run by name only."""


def measure(name: str, seed: int, steps: int, home: Path) -> dict[str, Any]:
    """Trains and judges one setting's seed in `home`; its line. Scores are in %."""
    sets = (SETTINGS | SICK | LATER)[name]
    store = home / "league.duckdb"
    overrides = [*COMMON, "env.threads=1", f"run.total_steps={steps}", "run.allow_short=true", *THEN, *sets]
    began = time.perf_counter()
    result = league.train("10m", agent="small", seed=seed, overrides=overrides, fresh=True, store=store)
    if result.signal:
        raise SystemExit(128 + result.signal)
    minutes = round((time.perf_counter() - began) / 60, 1)
    kept = Store.open(store)
    made = [snapshot.step for snapshot in kept.snapshots(result.run)]
    marks = dict.fromkeys(min((x for x in made if x >= mark), default=made[-1]) for mark in (SHORT // 2, SHORT, steps))
    scores = {
        step: {
            bot: score(f"{result.run}@{step}", f"bot:{bot}", GAMES, store)[0] for bot in registry.spec("brawl", {}).bots
        }
        for step in marks
    }
    row = kept.find_run(result.run)
    short = min(x for x in made if x >= SHORT)
    shown = {name: x.value for name, x in read_metrics(kept, row, json.loads(row.config), short).items()}
    shown = {name: shown[name] for name in METRICS} | verdict.score_of(kept, row, "bot:based", short)
    readings = {name: round(x, 5) for name, x in shown.items()}
    metrics = {name: x for _, at, name, x in kept.metrics(result.run) if at == short and x is not None}
    line = {"name": name, "seed": seed, "steps": result.steps, "sets": [*sets], "minutes": minutes}
    return line | {"game_id": row.game_id, "scores": scores, "readings": readings, "metrics": metrics}


def strength_of(line: dict[str, Any], mark: int = -1) -> float:
    """The mean score in % against all bots at a mark, the last by default."""
    steps = sorted(line["scores"], key=int)
    bots = [*line["scores"][steps[0]]]
    return float(np.mean([line["scores"][steps[mark]][bot] for bot in bots]))


def row_of(line: dict[str, Any]) -> dict[str, Any]:
    """What the table keeps of a run: as a share its mean score against all bots after 50,000 steps and at the end."""
    early, strength = (round(strength_of(line, mark) / 100, 3) for mark in (1, -1))
    return {**{key: line[key] for key in ("name", "seed")}, "early": early, "strength": strength} | {
        "readings": line["readings"]
    }


def read(files: Sequence[Path]) -> list[dict[str, Any]]:
    """The rows of tables (`.json`) and of what `run` wrote; of two that are of one setting and seed the later."""
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for file in files:
        text = file.read_text(encoding="utf-8")
        found = json.loads(text)["runs"] if file.suffix == ".json" else map(row_of, map(json.loads, text.splitlines()))
        rows |= {(row["name"], row["seed"]): row for row in found}
    return [rows[key] for key in sorted(rows)]


def correlation(short: Sequence[float], long: Sequence[float], draws: int = 2_000) -> tuple[float, float, float]:
    """Spearman's rank correlation, and the bootstrap's 95 % interval over the pairs (2,000 draws)."""
    pairs = np.array([short, long])
    drawn = pairs[:, np.random.default_rng(0).integers(len(short), size=(draws, len(short)))]
    ranks = rankdata(drawn, axis=-1)  # (2, draws, pairs)
    x, y = ranks - ranks.mean(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):  # nothing where all draws of one side are equal
        found = (x * y).sum(axis=-1) / np.sqrt((x**2).sum(axis=-1) * (y**2).sum(axis=-1))
    lower, upper = np.nanquantile(found, [0.025, 0.975])
    return float(spearmanr(*pairs).statistic), float(lower), float(upper)


def tell(rows: list[dict[str, Any]]) -> str:
    """The tables."""
    said, counted = [], [x for x in rows if x["name"] not in LATER]
    promising = [x for x in counted if not _signs(x)]
    healthy = [x for x in counted if x["name"] not in SICK]
    for word, chosen in (("promising", promising), ("sick", [x for x in counted if _signs(x)])):
        strong = sum(x["strength"] >= STRONG for x in chosen)
        low, high = wilson(strong / len(chosen), len(chosen)) if chosen else (0.0, 1.0)
        said.append(f"{word}: {strong} of {len(chosen)} became strong [{low:.0%}, {high:.0%}]")
    for title, chosen in (("all", counted), ("healthy", healthy), ("promising", promising)):
        said.append(f"{title}: {len(chosen)} runs of {len({x['name'] for x in chosen})} settings")
        for name in ("early", *METRICS, verdict.SCORE):
            pairs = [((x | x["readings"])[name], x["strength"]) for x in chosen]
            middle, lower, upper = correlation(*zip(*pairs, strict=True))
            said.append(f"  {name:20} {middle:6.2f} [{lower:5.2f}, {upper:5.2f}]")
    return "\n".join([*said, *by_setting(rows)])


def by_setting(rows: list[dict[str, Any]]) -> list[str]:
    """A table in Markdown: of each setting what its seeds scored against all bots, early and late, and its verdict."""
    settings: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: row["seed"]):
        settings.setdefault(row["name"], []).append(row)
    lines = [
        "| setting | score after 50,000 steps | after three million | what the verdict says |",
        "|---|---|---|---|",
    ]
    known = SETTINGS | SICK | LATER
    for name, seeds in sorted(settings.items(), key=lambda x: -np.mean([row["strength"] for row in x[1]])):
        sets = ", ".join(f"`{each}`" for each in known.get(name, ())) or "nothing changed"
        early, late = (", ".join(f"{100 * row[key]:.0f}" for row in seeds) for key in ("early", "strength"))
        words = "; ".join(dict.fromkeys(map(_word, seeds)))
        lines.append(f"| {name}: {sets} | {early} | {late} | {words} |")
    return lines


def _word(row: dict[str, Any]) -> str:
    """`promising`, or `sick` and why, as short as can be."""
    why = [sign.short for sign in _signs(row)]
    return f"sick ({', '.join(why)})" if why else "promising"


def _signs(row: dict[str, Any]) -> tuple[Remark, ...]:
    return verdict.signs_of(row["readings"])


def table(rows: list[dict[str, Any]], game_id: str, steps: int) -> str:
    """The runs as `league.boards.verdict` reads them."""
    facts = {"name": "brawl with `--agent small`", "game_id": game_id, "agent": config.agents()["small"]["agent"]}
    lines = ",\n  ".join(json.dumps(row) for row in rows if row["name"] not in LATER)
    head = json.dumps(facts | {"short": SHORT, "steps": steps, "strong": STRONG})
    return f'{head[:-1]}, "runs": [\n  {lines}\n]}}'


def main() -> None:
    """Runs, or tells."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="train and judge what is not in the file yet")
    run.add_argument("--out", type=Path, required=True)
    run.add_argument("--only", nargs="+", choices=SETTINGS | SICK | LATER, metavar="NAME", help="settings; else all")
    run.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    run.add_argument("--steps", type=int, default=3_000_000)
    for name, words in (("tell", "the odds and correlations"), ("table", "the verdict's runs, with these among them")):
        told = commands.add_parser(name, help=words)
        told.add_argument("files", nargs="*", type=Path, help="what `run` wrote, beside the table that is there")
    arguments = parser.parse_args()
    if arguments.command != "run":
        rows, known = read([verdict.MEASURED, *arguments.files]), verdict.measured()
        print(tell(rows) if arguments.command == "tell" else table(rows, known["game_id"], known["steps"]))
        return
    for seed in arguments.seeds:
        for name in arguments.only or SETTINGS | SICK:
            lines = arguments.out.read_text().splitlines() if arguments.out.exists() else []
            if any((x["name"], x["seed"]) == (name, seed) for x in map(json.loads, lines)):
                continue
            with tempfile.TemporaryDirectory() as folder:
                line = measure(name, seed, arguments.steps, Path(folder))
            with arguments.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(name, seed, round(strength_of(line), 1), line["scores"], flush=True)


if __name__ == "__main__":
    main()
