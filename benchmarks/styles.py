"""Does remembering the opponent pay where opponents hide how they play? One JSON line a run.

    python -m benchmarks.styles brawl --agents encoder lstm neither --seeds 0 1 2 --steps 1000000
    python -m benchmarks.styles roshambo --agents encoder lstm neither --seeds 0 1 2 --steps 1500000

Three agents of like size learn from the same opponents: with opponent encoder and LSTM, with the LSTM alone, with
neither. In `brawl` these are its five bots that have a style, which each match draws, and some self-play; in `roshambo`
two thirds of the programs of the RoShamBo competitions. After training the snapshots at every `--mark` steps meet them
again (`seen`), and styles or programs that are held out (`held_out`). `curve` has by steps the minutes of play and
learning up to there, so that agents can be compared at equal time too, the mean of each group with half of its 95 %
interval, and each opponent's. Brawl is read in % of the score, RoShamBo in return per 1,000 throws. Where `--minutes`
is given, training ends after so many of them.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import league
from benchmarks import roshambo
from benchmarks.learning import EXAMPLES, training_minutes
from league.arena.agents import Named, find_agent, gather, play_pairings
from league.envs.brawl.rules import BOTS
from league.envs.brawl.styles import WITHOUT
from league.store.store import Store
from league.types import BOT_PREFIX, DRAW, MatchResult

ENCODER = (
    "agent.opponent_encoder=true",
    "agent.encoder_layers=2",
    "agent.encoder_heads=4",
    "agent.encoder_width=64",
    "agent.encoder_feedforward=128",
    "agent.latents=4",
)
AGENTS: dict[str, tuple[tuple[str, ...], str | None]] = {
    "encoder": (ENCODER, None),
    "lstm": (("agent.opponent_encoder=false",), None),
    "neither": (("agent.opponent_encoder=false",), str(EXAMPLES / "mlp.py:MLP")),
}
"""Name -> settings and network."""
STYLED = [BOT_PREFIX + bot for bot in BOTS if bot not in WITHOUT]


@dataclass(frozen=True)
class Trial:
    """A game whose opponents must be read, and who they are."""

    env: str
    seen: list[str]
    held_out: list[str]
    sets: tuple[str, ...] = ()
    config_file: Path | None = None
    held_out_options: Mapping[str, Any] = field(default_factory=dict)
    """What the game is played with where the opponents are those held out."""


def split() -> dict[str, list[str]]:
    """The programs of RoShamBo that are trained against, and those held out."""
    import tomllib

    groups: dict[str, list[str]] = tomllib.loads(roshambo.SPLIT.read_text(encoding="utf-8"))["pool"]["groups"]
    return groups


TRIALS = {
    "brawl": Trial(
        "brawl",
        STYLED,
        STYLED,
        (
            "env.bot_styles=train",
            "env.ticks_per_step=8",
            "agent.observation_width=64",
            "agent.lstm_size=128",
            "agent.head_sizes=[64, 64]",
            "agent.history_frames=240",
            "pool.mix={self_play=0.2, " + ", ".join(f'"{bot}"={0.8 / len(STYLED):.2f}' for bot in STYLED) + "}",
        ),
        held_out_options={"bot_styles": "held_out"},
    ),
    "roshambo": Trial(
        roshambo.GAME, split()["seen"], split()["held_out"], ("agent.history_frames=32",), roshambo.SPLIT
    ),
}
COMMON = ("env.strict_masks=false", "run.checkpoint_minutes=600", "run.evaluate_every=0", "run.evaluate_games=2")


def measure(trial: Trial, agent: str, seed: int, home: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Trains one agent with one seed in `home` and judges its snapshots; what is printed."""
    sets, policy = AGENTS[agent]
    store, steps = home / "league.duckdb", arguments.steps
    overrides = [*COMMON, *sets, *trial.sets, f"run.total_steps={steps}", "run.allow_short=true"]
    overrides += ["run.ladder_share=0", "run.anchor_games=0", *arguments.sets]
    result = league.train(
        "10m",
        preset=arguments.preset,
        env=trial.env,
        config_file=trial.config_file,
        overrides=overrides,
        policy=policy,
        seed=seed,
        fresh=True,
        store=store,
    )
    if result.signal:
        raise SystemExit(128 + result.signal)
    opened = Store.open(store)
    minutes = training_minutes(store, result.run)
    made = {row.step: row.update for row in opened.snapshots(result.run)}
    marks = [*range(arguments.mark, steps, arguments.mark), steps]
    at = dict.fromkeys(min((x for x in made if x >= mark), default=max(made)) for mark in marks)
    curve = {
        step: {"minutes": round(minutes[made[step]], 2), **judge(trial, opened, f"{result.run}@{step}", arguments)}
        for step in at
    }
    return {"agent": agent, "seed": seed, "steps": result.steps, "curve": curve, "set": arguments.sets}


def judge(trial: Trial, store: Store, agent: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """What a snapshot comes to against those it learned from, and against those held out."""
    found: dict[str, Any] = {}
    own = find_agent(store, agent)
    groups = {"seen": (trial.seen, {}), "held_out": (trial.held_out, trial.held_out_options)}
    for group, (bots, options) in groups.items():
        if not bots:
            continue
        meeting = gather(store, (own, *(Named(bot, bot, None) for bot in bots)), trial.env, "cpu")
        game = meeting.game.model_copy(update={"options": {**meeting.game.options, **options}})
        meeting = replace(meeting, game=game)
        pairings = [(0, 1 + i, arguments.games, 1 + i) for i in range(len(bots))]
        results = play_pairings(meeting, pairings, run="styles", update=0, greedy=False)
        readings = {bot: [] for bot in bots}
        for match in results:
            seat = match.agents.index(own.agent_id)
            readings[match.agents[1 - seat]].append(reading(trial, match, seat))
        means = {bot: float(np.mean(values)) for bot, values in readings.items()}
        variance = sum(float(np.var(values, ddof=1)) / len(values) for values in readings.values())
        spread = 1.96 * math.sqrt(variance) / len(bots)
        found[group] = [round(sum(means.values()) / len(bots), 1), round(spread, 1)]
        found[f"{group}_each"] = {bot.removeprefix(BOT_PREFIX): round(mean, 1) for bot, mean in means.items()}
    return found


def reading(trial: Trial, match: MatchResult, seat: int) -> float:
    """What a match brought the seat: the score in %, or what it was paid."""
    if trial.env == roshambo.GAME:
        return float(match.rewards[roshambo.TERM][seat])
    return 50.0 if match.winner == DRAW else 100.0 * (match.winner == seat)


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
