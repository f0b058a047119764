"""Does remembering the opponent pay where opponents hide how they play? One JSON line a run.

    python -m benchmarks.styles brawl --agents encoder lstm neither --seeds 0 1 2 --steps 1000000
    python -m benchmarks.styles roshambo --agents encoder lstm neither --seeds 0 1 2 --steps 1500000

Three agents of like size learn from the same opponents: with opponent encoder and LSTM, with the LSTM alone, with
neither. In `brawl` these are its five bots that have a style, which each match draws, and some self-play; in `roshambo`
two thirds of the programs of the RoShamBo competitions. After training the snapshots at every `--mark` steps meet them
again (`seen`), and styles or programs that are held out (`held_out`).

`curve` has by steps the minutes of play and learning up to there, so that agents can be compared at equal time as well,
and of each group each reading's mean with half of its 95 % interval, and its mean by opponent. Brawl is read in % of
the score and in stocks more than the opponent at the end, also by what the style likes best; RoShamBo in return per
1,000 throws. Agents of equal score that take more stocks have read more.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import league
from benchmarks import roshambo, strength
from benchmarks.learning import EXAMPLES, training_minutes
from league.arena.agents import Named, find_agent, gather, play_pairings
from league.envs.brawl import styles
from league.envs.brawl.rules import BOTS
from league.store.store import Store
from league.types import BOT_PREFIX, DRAW, MatchResult
from tests.oracles.brawl.styles import of_seat

AGENTS: dict[str, tuple[tuple[str, ...], str | None]] = {
    "encoder": (("agent.opponent_encoder=true",), None),
    "predicting": (("agent.opponent_encoder=true", "learner.opponent_prediction=0.1"), None),
    "lstm": (("agent.opponent_encoder=false",), None),
    "neither": (("agent.opponent_encoder=false",), str(EXAMPLES / "mlp.py:MLP")),
}
"""Name -> settings and network."""
STYLED = [BOT_PREFIX + bot for bot in BOTS if bot not in styles.WITHOUT]
Reading = Callable[[MatchResult, int], float]
"""What a match brought the agent in a seat."""
Kind = Callable[[MatchResult, int, str], str]
"""What the opponent in a seat is called, in a group."""


def score(match: MatchResult, seat: int) -> float:
    """In %: a win is 100, a draw 50."""
    return 50.0 if match.winner == DRAW else 100.0 * (match.winner == seat)


def stocks(match: MatchResult, seat: int) -> float:
    """Stocks more than the opponent at the end."""
    left = match.metrics["stocks_left"]
    return left[seat] - left[1 - seat]


def paid(match: MatchResult, seat: int) -> float:
    """What a match of repeated games paid."""
    return float(match.rewards[roshambo.TERM][seat])


def name_of(match: MatchResult, seat: int, group: str) -> str:
    """The opponent's name."""
    return match.agents[seat].removeprefix(BOT_PREFIX)


def liking_of(match: MatchResult, seat: int, group: str) -> str:
    """What the opponent's style likes best."""
    number = styles.STYLES.index("train" if group == "seen" else "held_out")
    return "likes " + styles.FAVOURITES[int(of_seat(match.seed, seat, number).favourite)]


@dataclass(frozen=True)
class Trial:
    """A game whose opponents must be read, who they are, and what is read of the matches."""

    env: str
    groups: Mapping[str, list[str]]
    """`seen` and `held_out` -> the bots."""
    readings: Mapping[str, Reading]
    kinds: tuple[Kind, ...] = (name_of,)
    sets: tuple[str, ...] = ()
    config_file: Path | None = None
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Group -> options of the game that are other than in training."""


TRIALS = {
    "brawl": Trial(
        "brawl",
        {"seen": STYLED, "held_out": STYLED},
        {"score": score, "stocks": stocks},
        (name_of, liking_of),
        (
            "env.bot_styles=train",
            "agent.observation_width=64",
            "agent.lstm_size=128",
            "agent.head_sizes=[64, 64]",
            "agent.encoder_layers=2",
            "agent.encoder_heads=4",
            "agent.encoder_width=64",
            "agent.encoder_feedforward=128",
            "agent.history_frames=90",
            "agent.latents=4",
            "learner.rate_share=1.0",
            "pool.mix={self_play=0.2, " + ", ".join(f'"{bot}"={0.8 / len(STYLED):.2f}' for bot in STYLED) + "}",
        ),
        options={"held_out": {"bot_styles": "held_out"}},
    ),
    "roshambo": Trial(
        roshambo.GAME,
        roshambo.groups(),
        {"return": paid},
        config_file=roshambo.SPLIT,
    ),
}
COMMON = (
    *strength.COMMON,
    *("run.anchor_games=0", "run.ladder_share=0.0", "run.allow_short=true"),
)


def measure(trial: Trial, agent: str, seed: int, home: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Trains one agent with one seed in `home` and judges its snapshots; what is printed."""
    sets, policy = AGENTS[agent]
    store, steps = home / "league.duckdb", arguments.steps
    overrides = [*COMMON, *sets, *trial.sets, f"run.total_steps={steps}", *arguments.sets]
    call = {"env": trial.env, "config_file": trial.config_file, "policy": policy, "seed": seed, "store": store}
    result = league.train("10m", preset=arguments.preset, overrides=overrides, fresh=True, **call)
    if result.signal:
        raise SystemExit(128 + result.signal)
    opened = Store.open(store)
    minutes = training_minutes(store, result.run)
    made = {row.step: row.update for row in opened.snapshots(result.run)}
    marks = [*range(arguments.mark, steps, arguments.mark), steps]
    at = dict.fromkeys(min((x for x in made if x >= mark), default=max(made)) for mark in marks)
    curve = {
        step: {
            "minutes": round(minutes[made[step]], 2),
            **judge(trial, opened, f"{result.run}@{step}", arguments.games),
        }
        for step in at
    }
    return {"agent": agent, "seed": seed, "steps": result.steps, "curve": curve, "set": arguments.sets}


def judge(trial: Trial, store: Store, agent: str, games: int) -> dict[str, Any]:
    """What a snapshot comes to against those it learned from, and against those held out."""
    found: dict[str, Any] = {}
    own = find_agent(store, agent)
    for group, bots in trial.groups.items():
        meeting = gather(store, (own, *(Named(bot, bot, None) for bot in bots)), trial.env, "cpu")
        options = {**meeting.game.options, **trial.options.get(group, {})}
        meeting = replace(meeting, game=meeting.game.model_copy(update={"options": options}))
        pairings = [(0, 1 + i, games, 1 + i) for i in range(len(bots))]
        results = play_pairings(meeting, pairings, run="styles", update=0, greedy=False)
        seats = [match.agents.index(own.agent_id) for match in results]
        found[group] = {name: summary(trial, results, seats, group, read) for name, read in trial.readings.items()}
    return found


def summary(
    trial: Trial, results: list[MatchResult], seats: list[int], group: str, read: Reading
) -> dict[str, float | list[float]]:
    """The mean with half of its 95 % interval for these very bots, and the mean by kind of opponent."""
    by_kind: list[dict[str, list[float]]] = []
    for kind in trial.kinds:
        values: dict[str, list[float]] = {}
        for match, seat in zip(results, seats, strict=True):
            values.setdefault(kind(match, 1 - seat, group), []).append(read(match, seat))
        by_kind.append(dict(sorted(values.items())))
    each = list(by_kind[0].values())
    variance = sum(float(np.var(values, ddof=1)) / len(values) for values in each) / len(each) ** 2
    overall = [round(float(np.mean([np.mean(values) for values in each])), 2), round(1.96 * math.sqrt(variance), 2)]
    return {"all": overall} | {k: round(float(np.mean(x)), 2) for values in by_kind for k, x in values.items()}


def main() -> None:
    """Measures each agent and seed in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trial", choices=TRIALS)
    parser.add_argument("--agents", nargs="+", choices=AGENTS, default=list(AGENTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--mark", type=int, default=200_000)
    parser.add_argument("--games", type=int, default=200, help="against each opponent; an even number")
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--set", action="append", default=[], dest="sets", help="a setting, laid over all")
    parser.add_argument("--keep", type=Path, help="folder in which the runs are kept")
    arguments = parser.parse_args()
    for seed in arguments.seeds:
        for agent in arguments.agents:
            with tempfile.TemporaryDirectory() as folder:
                home = (arguments.keep / f"{agent}-{seed}") if arguments.keep else Path(folder)
                home.mkdir(parents=True, exist_ok=True)
                print(json.dumps(measure(TRIALS[arguments.trial], agent, seed, home, arguments)), flush=True)


if __name__ == "__main__":
    main()
