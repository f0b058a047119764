"""Does the engine learn what it should? Games with a known answer, each trained and then judged; one JSON line a run.

    python -m benchmarks.learning cartpole tmaze tmaze-mlp tictactoe connect4 cards cards-own --seeds 0 1 2

Training goes through `league.train`, at the settings below and else the game's own, and is not evaluated on its way.
Then each snapshot plays the trial's rival: `curve` has what it came to by steps, `reached` the steps and the minutes of
training at which a snapshot first came up to each goal. `minutes` are those of the whole training.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import league
from benchmarks.strength import COMMON
from league.snapshots.agent import Agent
from league.store.rows import SnapshotRow
from league.store.store import Store

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


@dataclass(frozen=True)
class Trial:
    """A game, how it is trained, and how its snapshots are judged."""

    env: str
    steps: int
    rival: str = ""
    """Whom each snapshot plays; nobody if empty."""
    reading: str = "score"
    """What is read of these matches: the score (wins plus half the draws), or a metric's mean."""
    goals: tuple[float, ...] = ()
    games: int = 200
    greedy: bool = False
    preset: str = "fast"
    sets: tuple[str, ...] = ()
    policy: str | None = None
    config: Path | None = None
    judge: Callable[[str, Path], dict[str, Any]] = lambda run, store: {}
    """(run, store) -> what else is reported of the newest snapshot."""


def against(*bots: str, games: int = 200) -> Callable[[str, Path], dict[str, Any]]:
    """Judges by games against native bots: the score and Wilson's 95 % interval."""

    def judge(run: str, store: Path) -> dict[str, Any]:
        found = {}
        for bot in bots:
            summary = league.evaluate(run, f"bot:{bot}", games=games, store=store, device="cpu").summary
            found[bot] = [round(x, 3) for x in (summary.score, summary.lower, summary.upper)]
        return found

    return judge


def all_replies(run: str, store: Path) -> dict[str, Any]:
    """Tic-tac-toe, greedy: how many of all sequences of replies the agent wins, draws and loses, in each seat."""
    found = {f"seat {seat}": outcomes(league.load(run, store=store), seat) for seat in (0, 1)}
    return {**found, "never loses": not any(counts["lost"] for counts in found.values())}


def outcomes(agent: Agent, seat: int) -> dict[str, int]:
    """Sequences of the opponent's moves against which `agent`, in `seat`, wins, draws and loses. Seat 0 begins.

    All that are still going are rows of one stack. A row whose opponent may move in several ways goes on as several,
    each of which the agent plays again from its first decision.
    """
    counts = {"won": 0, "drawn": 0, "lost": 0}
    boards = np.full((1, 9), -1)
    seen: npt.NDArray[np.float32] = np.zeros((1, 0, 18), np.float32)
    for move in range(9):
        if move % 2 == seat:
            seen = np.concatenate([seen, np.concatenate([boards == seat, boards == 1 - seat], 1)[:, None]], 1)
            agent.reset()
            for t in range(seen.shape[1]):
                taken = (seen[:, t, :9] + seen[:, t, 9:]) > 0
                chosen = agent.act(seen[:, t].astype(np.float32), ~taken, greedy=True)[:, 0]
            boards = boards.copy()
            boards[np.arange(len(boards)), chosen] = seat
        else:
            rows, cells = np.nonzero(boards == -1)
            boards, seen = boards[rows].copy(), seen[rows]
            boards[np.arange(len(rows)), cells] = 1 - seat
        who = move % 2
        is_three = np.any([(boards[:, line] == who).all(1) for line in map(list, LINES)], axis=0)
        counts["won" if who == seat else "lost"] += int(is_three.sum())
        boards, seen = boards[~is_three], seen[~is_three]
    counts["drawn"] = len(boards)
    return counts


def every(steps: int) -> tuple[str, ...]:
    """Settings that take a snapshot each so many steps."""
    return tuple(f"pool.snapshot_every{when}={steps}" for when in ("", "_after"))


TMAZE = Trial(
    "gymnasium:examples.tmaze:TMaze-v0", 150_000, "bot:world", "return", (0.9,), 100, True, sets=every(15_000)
)
CARDS = Trial("cards", 50_000, judge=against("greedy", "curve", "random", games=400))
TRIALS = {
    "cartpole": Trial("gymnasium:CartPole-v1", 80_000, "bot:world", "return", (475.0,), 200, True, sets=every(10_000)),
    "tmaze": TMAZE,
    "tmaze-mlp": replace(TMAZE, policy=str(EXAMPLES / "mlp.py:MLP")),
    "tictactoe": Trial(str(EXAMPLES / "tictactoe.py"), 2_000_000, judge=all_replies),
    "connect4": Trial(
        str(EXAMPLES / "connect4_numpy.py"),
        2_000_000,
        "bot:slips",
        goals=(0.85, 0.95),
        preset="heavy",
        sets=("env.rows=256", "learner.rollout_steps=16", "learner.minibatch_size=1_024", "learner.epochs=4"),
        judge=against("slips", "greedy", "random"),
    ),
    "cards": CARDS,
    "cards-own": replace(CARDS, policy=str(EXAMPLES / "card_policy.py:CardPolicy"), config=EXAMPLES / "cards.toml"),
}
"""By name; lab/experiments.md has what they came to."""


def run_trial(name: str, seed: int, store: Path, overrides: list[str]) -> dict[str, Any]:
    """Trains and judges; what is printed."""
    trial = TRIALS[name]
    sets = [*COMMON, "run.allow_short=true", f"run.total_steps={trial.steps}", *trial.sets, *overrides]
    call = {"env": trial.env, "policy": trial.policy, "config_file": trial.config, "seed": seed, "store": store}
    result = league.train("10m", preset=trial.preset, overrides=sets, fresh=True, **call)
    if result.signal:
        raise SystemExit(128 + result.signal)
    minutes = training_minutes(store, result.run)
    found = {"trial": name, "seed": seed, "steps": result.steps, "minutes": round(minutes[result.updates], 2)}
    if trial.rival:
        curve = {row.update: readings(trial, row, store) for row in Store.open(store).snapshots(result.run)}
        reached = {goal: next((update for update, x in curve.items() if x >= goal), None) for goal in trial.goals}
        per_update = result.steps // result.updates
        found["reached"] = {
            goal: None if at is None else [at * per_update, round(minutes[at], 2)] for goal, at in reached.items()
        }
        found["curve"] = {update * per_update: round(x, 3) for update, x in curve.items()}
    return {**found, **trial.judge(result.run, store), "set": overrides}


def readings(trial: Trial, row: SnapshotRow, store: Path) -> float:
    """What a snapshot comes to against the trial's rival."""
    agent = f"{row.run}@{row.step}"
    met = league.evaluate(agent, trial.rival, games=trial.games, greedy=trial.greedy, store=store, device="cpu").summary
    return met.score if trial.reading == "score" else met.metrics[trial.reading][0]


def training_minutes(store: Path, run: str) -> dict[int, float]:
    """Update -> minutes of play and learning up to it."""
    named = "name IN ('play_seconds', 'learn_seconds')"
    query = f"SELECT \"update\", sum(value) FROM metric WHERE run = '{run}' AND {named} GROUP BY ALL ORDER BY ALL"
    rows = Store.open(store).query(query)[1]
    updates, seconds = zip(*rows, strict=True)
    return {0: 0.0} | dict(zip(updates, (np.cumsum(seconds) / 60).tolist(), strict=True))


def main() -> None:
    """Runs the trials that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trials", nargs="+", choices=TRIALS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--set", action="append", default=[], dest="sets", help="a setting, laid over all")
    parser.add_argument("--keep", type=Path, help="folder in which the runs are kept")
    arguments = parser.parse_args()
    for name in arguments.trials:
        for seed in arguments.seeds:
            with tempfile.TemporaryDirectory() as folder:
                home = (arguments.keep / f"{name}-{seed}") if arguments.keep else Path(folder)
                home.mkdir(parents=True, exist_ok=True)
                print(json.dumps(run_trial(name, seed, home / "league.duckdb", arguments.sets)), flush=True)


if __name__ == "__main__":
    main()
