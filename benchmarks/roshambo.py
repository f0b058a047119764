"""What an agent, or each bot, makes of the 43 RoShamBo bots: `python -m benchmarks.roshambo [AGENT ...]`.

Prints Markdown: the mean return per 1,000 throws against the bots that `examples/roshambo.toml` trains against, against
those that it holds out and against all, with 95 % intervals for these very bots, and against each bot. Without an agent
all bots play all others, their copies included, which is the population's table of Lanctot et al. 2023
(arXiv:2303.03196).
"""

from __future__ import annotations

import argparse
import math
import tomllib
from pathlib import Path

import numpy as np

from league.arena.agents import Named, find_agent, gather, play_pairings
from league.arena.games import enter
from league.envs import registry
from league.envs.adapters.spielbots import PREFIX
from league.store.store import Store
from league.types import BOT_PREFIX, MatchResult

GAME, TERM = "openspiel:repeated_rps", "payoff"
SPLIT = Path(__file__).parents[1] / "examples" / "roshambo.toml"


def groups() -> dict[str, list[str]]:
    """The bots that are trained against (`seen`), and those that are held out (`held_out`)."""
    found: dict[str, list[str]] = tomllib.loads(SPLIT.read_text(encoding="utf-8"))["pool"]["groups"]
    return found


def returns_of(results: list[MatchResult], agent: str) -> dict[str, list[float]]:
    """Opponent -> what `agent` was paid in each match against it."""
    found: dict[str, list[float]] = {}
    for match in results:
        for seat in range(2) if match.agents[0] == match.agents[1] else [match.agents.index(agent)]:
            found.setdefault(match.agents[1 - seat], []).append(match.rewards[TERM][seat])
    return found


def mean_of(paid: dict[str, list[float]], bots: list[str]) -> tuple[float, float]:
    """The mean of the bots' means, and half of its 95 % interval."""
    means = [float(np.mean(paid[bot])) for bot in bots]
    errors = [float(np.var(paid[bot], ddof=1)) / len(paid[bot]) for bot in bots]
    return sum(means) / len(bots), 1.96 * math.sqrt(sum(errors)) / len(bots)


def line(name: str, paid: dict[str, list[float]], groups: dict[str, list[str]]) -> str:
    """A row of the table."""
    cells = ["{:.1f} ± {:.1f}".format(*mean_of(paid, bots)) for bots in groups.values()]
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Plays and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("agents", nargs="*")
    parser.add_argument("--store", type=Path, default=Path("runs/league.duckdb"))
    parser.add_argument("--games", type=int, default=10, help="of each pair; an even number")
    arguments = parser.parse_args()
    name = enter(GAME) or ""
    bots = [BOT_PREFIX + bot for bot in registry.spec(name, {}).bots if bot.startswith(PREFIX)]
    split = groups()
    shown = {"seen": split["seen"], "held out": split["held_out"], "all": bots}
    print(f"| return per 1,000 throws | {' | '.join(shown)} |\n|{'---|' * (1 + len(shown))}")
    sides = [Named(bot, bot, None) for bot in bots]
    store = Store.open(arguments.store) if arguments.agents else None
    for number, agent in enumerate(arguments.agents or bots):
        own = sides[number] if store is None else find_agent(store, agent)
        meeting = gather(store, (own, *sides), GAME, "cpu")
        pairings = [(0, 1 + i, arguments.games, 1 + i) for i in range(len(sides))]
        results = play_pairings(meeting, pairings, run="roshambo", update=0, greedy=False)
        paid = returns_of(results, own.agent_id)
        print(line(own.label.removeprefix(BOT_PREFIX), paid, shown), flush=True)
        if store is not None:
            print("\n| against | mean |\n|---|---|")
            for bot in sorted(bots, key=lambda bot: -float(np.mean(paid[bot]))):
                print(f"| {bot.removeprefix(BOT_PREFIX + PREFIX)} | {np.mean(paid[bot]):.1f} |")


if __name__ == "__main__":
    main()
