"""What the shipped settings learn, game by game, in minutes of one core: a table, and a JSON that is compared with.

    OMP_NUM_THREADS=1 python -m benchmarks.suite --games clobber oware --seeds 0 1 2 --minutes 5 --out suite.json
    python -m benchmarks.suite --show suite.json --beside earlier.json

Each run trains for `--minutes` of the processor's time. Then its last weights are judged by what the game has:

- `random`: score in % of 400 sampled games against uniformly random moves;
- `mcts100`, `mcts500`: of 200 greedy games against OpenSpiel's Monte Carlo tree search with as many random rollouts;
- `nashconv`: exact, as a share in % of that of uniform play;
- the game's bots: scores in % of 400 sampled games;
- `return`: the mean of 200 greedy episodes.

A draw counts half. `--out` is written after each run, and what it has is not run again.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import league
from league.arena.games import enter
from league.envs import registry
from league.maths.behaviour import behaviour
from league.maths.nashconv import nash_conv, uniform
from league.training.run import Report

GAMES_RANDOM, GAMES_MCTS, GAMES_BOTS, EPISODES = 400, 200, 400, 200
UCT, MOST_MEGABYTES = 2.0, 200
"""Of MCTS: its exploration constant, and the memory of its tree."""
Reading = tuple[float, float]
"""What a reference gives, and half of its 95 % interval (0 where it is exact)."""


@dataclass(frozen=True)
class Game:
    """How a game is trained and judged.

    Args:
        env: its name or address.
        judges: `random`, `mcts100`, `mcts500`, `nashconv`, `return` or bots of the game.
        agent: a size of `[agents]`; None: the game's own.
    """

    env: str
    judges: tuple[str, ...]
    agent: str | None = "small"


BOARD = ("random", "mcts100", "mcts500")
SUITE: Mapping[str, Game] = {
    "breakthrough": Game("openspiel:breakthrough(rows=6,columns=6)", BOARD),
    "hex": Game("openspiel:hex(board_size=5)", BOARD),
    "oware": Game("openspiel:oware", BOARD),
    "othello": Game("openspiel:othello", BOARD),
    "mancala": Game("openspiel:mancala", BOARD),
    "dots_and_boxes": Game("openspiel:dots_and_boxes(num_rows=2,num_cols=2)", BOARD),
    "clobber": Game("openspiel:clobber", BOARD),
    "connect_four": Game("openspiel:connect_four", BOARD),
    "tictactoe": Game("openspiel:tic_tac_toe", BOARD),
    "goofspiel": Game("openspiel:goofspiel(num_cards=5,points_order=descending)", ("bot:random",)),
    "liars_dice": Game("openspiel:liars_dice(dice_sides=3)", ("nashconv", "bot:random")),
    "dark_hex": Game("openspiel:dark_hex(board_size=3)", ("bot:random",)),
    "phantom_ttt": Game("openspiel:phantom_ttt", ("bot:random",)),
    "kuhn": Game("kuhn", ("nashconv",), None),
    "leduc": Game("leduc", ("nashconv",), None),
    "matrix": Game("matrix", ("bot:biased", "bot:random"), None),
    "roshambo": Game("openspiel:repeated_rps", ("bot:random", "bot:roshambo:rockbot", "bot:roshambo:copybot")),
    "cards": Game("cards", ("bot:greedy", "bot:curve", "bot:random"), None),
    "cartpole": Game("gymnasium:CartPole-v1", ("return",), None),
    "brawl": Game("brawl", ("bot:based", "bot:zoner", "bot:punisher", "bot:charger")),
}


class Clock(league.Callback):
    """Ends a run after some minutes of the processor's time."""

    def __init__(self, minutes: float) -> None:
        self._end = time.process_time() + 60 * minutes
        self.steps, self.seen = 0, list[dict[str, float]]()

    def report(self, report: Report) -> bool:
        """Whether the run goes on."""
        self.steps = report.steps
        self.seen.append(report.metrics)
        return time.process_time() < self._end

    def last(self, name: str) -> float | None:
        """A metric's mean over the last eighth of the updates."""
        values = [metrics[name] for metrics in self.seen[-max(1, len(self.seen) // 8) :] if name in metrics]
        return round(float(np.mean(values)), 4) if values else None


class Mcts:
    """OpenSpiel's Monte Carlo tree search with one random rollout a leaf."""

    def __init__(self, address: str, rollouts: int, seed: int) -> None:
        import pyspiel

        game = pyspiel.load_game(address.removeprefix("openspiel:"))
        evaluator = pyspiel.RandomRolloutEvaluator(1, seed)
        self._bot = pyspiel.MCTSBot(game, evaluator, UCT, rollouts, MOST_MEGABYTES, True, seed, False)

    def __call__(self, state: Any) -> int:
        """Its move."""
        return int(self._bot.step(state))


class Uniform:
    """Uniformly random legal moves."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def __call__(self, state: Any) -> int:
        """Its move."""
        return int(self._rng.choice(state.legal_actions()))


def play(net: Any, env: str, opponent: Any, games: int, *, greedy: bool) -> Reading:
    """The net's score in `games` matches, in seat 0 of the even ones and in seat 1 of the odd ones."""
    batch: Any = registry.make(env, rows=games, threads=1, options={})
    batch.reset(1)
    state, generator = net.initial_state(games), torch.Generator().manual_seed(1)
    every, seats = np.arange(games), np.arange(games) % 2
    scores = np.full(games, np.nan)
    while np.isnan(scores).any():
        batch.held[:] = ~np.isnan(scores)
        acts = batch.to_act[every, seats] & ~batch.held
        if acts.any():
            obs, mask = (torch.from_numpy(x[every, seats][acts]) for x in (batch.obs, batch.mask))
            rows = torch.from_numpy(np.flatnonzero(acts))
            action, *_ = net.step(obs, state, mask=mask, rows=rows, generator=generator, greedy=greedy)
            batch.actions[acts, seats[acts]] = action.numpy()
        for row in np.flatnonzero(batch.to_act[every, 1 - seats] & ~batch.held):
            batch.actions[row, 1 - seats[row]] = opponent(batch.matches[row].state)
        batch.step()
        ended = (batch.terminated | batch.truncated) & np.isnan(scores)
        winner = batch.result["winner"]
        scores[ended] = np.where(winner < 0, 0.5, winner == seats)[ended]
    return 100 * float(scores.mean()), 196 * float(scores.std()) / math.sqrt(games)


def judge(name: str, game: Game, agent: str, seed: int, store: Path) -> Reading:
    """What a reference says of an agent."""
    net: Any = league.load(agent, store=store).policy
    env = enter(game.env) or game.env
    if name == "random":
        return play(net, env, Uniform(seed), GAMES_RANDOM, greedy=False)
    if name.startswith("mcts"):
        return play(net, env, Mcts(game.env, int(name.removeprefix("mcts")), seed), GAMES_MCTS, greedy=True)
    if name == "nashconv":
        tree = registry.tree(env, {})
        assert tree is not None
        return 100 * nash_conv(tree, behaviour(net, tree)).total / nash_conv(tree, uniform(tree)).total, 0.0
    call: dict[str, Any] = {"games": GAMES_BOTS, "greedy": False, "store": store, "device": "cpu"}
    if name == "return":
        found = league.evaluate(agent, "bot:world", **{**call, "games": EPISODES, "greedy": True}).summary
        return found.metrics["return"]
    found = league.evaluate(agent, name, **call).summary
    return 100 * found.score, 50 * (found.upper - found.lower)


def measure(name: str, seed: int, minutes: float, sets: Sequence[str], without: Sequence[str]) -> dict[str, Any]:
    """Trains and judges one run."""
    game = SUITE[name]
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "league.duckdb"
        own = ["run.total_steps=10000000", "env.threads=1", *sets]
        clock, began = Clock(minutes), time.process_time()
        settings = {"env": game.env, "agent": game.agent, "seed": seed, "overrides": own, "device": "cpu"}
        run = league.train("10m", fresh=True, store=store, callback=clock, **settings).run
        busy = (time.process_time() - began) / 60
        torch.set_num_threads(1)
        readings = {
            each: judge(each, game, f"{run}@stopped", seed, store) for each in game.judges if each not in without
        }
    told = ("entropy", "approx_kl", "clip_share", "explained_variance")
    return {
        "game": name,
        "seed": seed,
        "minutes": minutes,
        "set": list(sets),
        "steps": clock.steps,
        "busy": round(busy, 2),
        "readings": {each: [round(x, 1) for x in reading] for each, reading in readings.items()},
        "learning": {each: clock.last(each) for each in told},
    }


def table(runs: Sequence[Mapping[str, Any]], earlier: Sequence[Mapping[str, Any]] = ()) -> str:
    """Markdown: a row a game and reference: mean over the seeds, half of its 95 % interval by games, earlier mean."""
    lines = ["| game | steps | reference | mean | seeds | before |", "|---|---|---|---|---|---|"]
    for name in dict.fromkeys(run["game"] for run in runs):
        own, past = ([run for run in some if run["game"] == name] for some in (runs, earlier))
        steps = int(np.mean([run["steps"] for run in own]))
        for reference in dict.fromkeys(name for run in own for name in run["readings"]):
            judged = [run["readings"][reference] for run in own if reference in run["readings"]]
            values, halves = zip(*judged, strict=True)
            half = math.sqrt(sum(x * x for x in halves)) / len(halves)
            before = [run["readings"][reference][0] for run in past if reference in run["readings"]]
            seeds = ", ".join(f"{value:.0f}" for value in values)
            mean = f"{np.mean(values):.1f}" + (f" ± {half:.1f}" if half else "")
            lines.append(
                f"| {name} | {steps:,} | {reference} | {mean} | {seeds} |"
                f" {f'{np.mean(before):.1f}' if before else ''} |"
            )
    return "\n".join(lines)


def read(path: Path | None) -> list[dict[str, Any]]:
    """The runs of a file, none where there is no such file."""
    return json.loads(path.read_text(encoding="utf-8")) if path is not None and path.exists() else []


def main() -> None:
    """Trains and judges what is not there yet; prints a line a run, then the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs="+", default=list(SUITE), choices=list(SUITE), metavar="GAME")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--minutes", type=float, default=5.0, help="of the processor's time, a run's training")
    parser.add_argument(
        "--without", nargs="*", default=[], help="references to leave out; mcts500 takes minutes a game"
    )
    parser.add_argument("--set", dest="sets", nargs="*", default=[], help="settings, laid over all")
    parser.add_argument("--out", type=Path, help="JSON file of the runs, written after each")
    parser.add_argument("--show", type=Path, help="prints the table of a file, and trains nothing")
    parser.add_argument("--beside", type=Path, help="JSON file of an earlier suite, for the last column")
    arguments = parser.parse_args()
    runs = read(arguments.show or arguments.out)
    for seed in [] if arguments.show else arguments.seeds:
        for name in arguments.games:
            if any((run["game"], run["seed"]) == (name, seed) for run in runs):
                continue
            runs.append(measure(name, seed, arguments.minutes, arguments.sets, arguments.without))
            print(json.dumps(runs[-1]), flush=True)
            if arguments.out is not None:
                arguments.out.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    print(table(runs, read(arguments.beside)))


if __name__ == "__main__":
    main()
