"""Does the engine learn what it should? Games with a known answer, each trained and then judged; one JSON line a run.

    python -m benchmarks.learning tictactoe connect4 --seeds 0 1 2

Training goes through `league.train`, at the settings below and else the game's own. `minutes` are those of training,
without evaluations; `reached` are the steps, and these minutes, at which an evaluation first came up to each goal.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import league
from league.snapshots.agent import Agent
from league.store.store import Store

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


@dataclass(frozen=True)
class Trial:
    """A game, how it is trained, and how the newest snapshot is judged."""

    env: str
    steps: int
    judge: Callable[[str, Path], dict[str, Any]]
    """(run, store) -> what is reported."""
    preset: str = "fast"
    sets: tuple[str, ...] = ()
    rival: str = ""
    """Whose score is followed through the training's evaluations."""
    goals: tuple[float, ...] = field(default=())


def against(*bots: str, games: int = 200, greedy: bool = False) -> Callable[[str, Path], dict[str, Any]]:
    """Judges by games against native bots: the score, wins plus half the draws, and Wilson's 95 % interval."""

    def judge(run: str, store: Path) -> dict[str, Any]:
        found = {}
        for bot in bots:
            summary = league.evaluate(run, f"bot:{bot}", games=games, greedy=greedy, store=store).summary
            found[bot] = [round(x, 3) for x in (summary.score, summary.lower, summary.upper)]
        return found

    return judge


def all_replies(run: str, store: Path) -> dict[str, Any]:
    """Tic-tac-toe, greedy: how many of all sequences of replies the agent wins, draws and loses, in each seat."""
    folder = store.parent / max(Store.open(store).snapshots(run), key=lambda row: row.step).path
    found = {f"seat {seat}": outcomes(Agent.load(folder), seat) for seat in (0, 1)}
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


TRIALS = {
    "tictactoe": Trial(str(EXAMPLES / "tictactoe.py"), 600_000, all_replies),
    "connect4": Trial(
        str(EXAMPLES / "connect4_numpy.py"),
        1_500_000,
        against("slips", "greedy", "random"),
        preset="heavy",
        rival="bot:slips",
        goals=(0.85, 0.95),
    ),
    "cards": Trial("cards", 50_000, against("greedy", "curve", "random")),
}
"""By name; docs/experiments.md has what they came to."""
COMMON = ("env.strict_masks=false", "run.checkpoint_minutes=600")


def run_trial(name: str, seed: int, store: Path, overrides: list[str]) -> dict[str, Any]:
    """Trains and judges; what is printed."""
    trial = TRIALS[name]
    sets = [*COMMON, f"run.total_steps={trial.steps}", *trial.sets]
    if trial.goals:
        sets += [f"run.evaluate_every={trial.steps // 20}", "run.evaluate_games=200"]
    result = league.train(
        "10m", preset=trial.preset, env=trial.env, seed=seed, overrides=[*sets, *overrides], fresh=True, store=store
    )
    seconds = training_seconds(store, result.run)
    found = {"trial": name, "seed": seed, "steps": result.steps, "minutes": round(seconds[result.updates] / 60, 1)}
    if trial.goals:
        scores = scores_by_update(store, result.run, trial.rival)
        found["reached"] = {}
        for goal in trial.goals:
            update = next((update for update, score in scores.items() if score >= goal), None)
            steps = None if update is None else update * result.steps // result.updates
            found["reached"][f"{goal:.0%}"] = update and [steps, round(seconds[update] / 60, 1)]
        found["scores"] = [round(score, 3) for score in scores.values()]
    return {**found, **trial.judge(result.run, store)}


def training_seconds(store: Path, run: str) -> dict[int, float]:
    """Update -> seconds of play and learning up to it."""
    named = "name IN ('play_seconds', 'learn_seconds')"
    query = f"SELECT \"update\", sum(value) FROM metric WHERE run = '{run}' AND {named} GROUP BY ALL ORDER BY ALL"
    rows = Store.open(store).query(query)[1]
    updates, seconds = zip(*rows, strict=True)
    return dict(zip(updates, np.cumsum(seconds).tolist(), strict=True))


def scores_by_update(store: Path, run: str, rival: str) -> dict[int, float]:
    """Update -> the score against `rival` of the snapshot that was evaluated then."""
    games: dict[int, list[float]] = {}
    for match in Store.open(store).matches(run, "evaluation"):
        if rival in match.agents:
            games.setdefault(match.update, []).append(1.0 - match.score_of(rival))
    return {update: sum(scores) / len(scores) for update, scores in sorted(games.items())}


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
