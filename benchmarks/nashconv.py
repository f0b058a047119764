"""Does a league come near an equilibrium? NashConv along training, exact, on games small enough to be solved.

    python -m benchmarks.nashconv --seeds 0 1 2 --out nashconv.json --png nashconv.png

trains leagues with PSRO (sampler `nash`, payoffs between snapshots played out) through `league.train`, reads every
snapshot's behaviour strategy out of its network, and works out the NashConv of the newest snapshot, of the Nash mixture
of all snapshots so far, of the mean of such mixtures over the second half of the snapshots so far, and of all
snapshots alike. 0 is an equilibrium. One JSON line a run; `gain` and `best` are means over the second half of it: what
a snapshot gains on the Nash mixture that it was trained against, and what a best response would.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import league
from benchmarks.learning import every
from league import config as settings
from league.envs import registry
from league.maths.behaviour import behaviour
from league.maths.metagame import nash
from league.maths.nashconv import margins, mixture, nash_conv
from league.snapshots.agent import load_policy
from league.store.store import Store
from league.types import SEATS, GameTree

COMMON = (
    "run.allow_short=true",
    "run.evaluate_games=2",
    "pool.mix={self_play=1.0}",
    "pool.sampler=nash",
    "pool.epsilon=0.0",
    "pool.live_nets=16",
    "learner.magnet=0.0",
    "learner.segments=1",
    "learner.epochs=4",
)
MATRIX = (
    "env.rounds=1",
    "env.rows=128",
    "learner.rollout_steps=8",
    "learner.minibatch_size=256",
    "pool.payoff_games=128",
    *every(4_096),
)
KUHN = (
    "env.rows=256",
    "learner.rollout_steps=16",
    "learner.minibatch_size=1_024",
    "pool.payoff_games=256",
    *every(16_384),
    "run.total_steps=409600",
    "learner.learning_rate=3e-3",
    "learner.entropy_coefficient=0.1",
)
SAME_AGENT = (
    "agent.encoder_layers=1",
    "agent.encoder_heads=2",
    "agent.encoder_width=32",
    "agent.encoder_feedforward=64",
    "agent.history_frames=8",
    "agent.latents=2",
    "agent.observation_width=32",
    "agent.lstm_size=32",
    "agent.head_sizes=[32]",
)
"""As `kuhn` has it."""
GAMES: dict[str, tuple[str, tuple[str, ...]]] = {
    "rock-paper-scissors": ("matrix", (*MATRIX, "run.total_steps=98304", "learner.entropy_coefficient=0.05")),
    "biased rock-paper-scissors": (
        "matrix",
        (
            *MATRIX,
            "env.payoff=[[0.0, -0.5, 1.0], [0.5, 0.0, -0.1], [-1.0, 0.1, 0.0]]",
            "run.total_steps=98304",
            "learner.entropy_coefficient=0.05",
        ),
    ),
    "kuhn": ("kuhn", KUHN),
    "kuhn, longer": (
        "kuhn",
        (*KUHN, "run.total_steps=1228800", "learner.learning_rate={ 200_000 = 3e-3, 1_000_000 = 5e-4 }"),
    ),
    "leduc": (
        "leduc",
        (
            *KUHN,
            *every(131_072),
            "pool.payoff_games=512",
            "run.total_steps=5242880",
        ),
    ),
    "OpenSpiel's kuhn": (
        "openspiel:kuhn_poker",
        (*KUHN, *SAME_AGENT, "learner.gamma=1.0", "rewards.payoff=1.0", "learner.entropy_coefficient=0.2"),
    ),
}
"""Name -> game and settings. Biased: Nash (1/16, 10/16, 5/16), OpenSpiel's `lp_solver_test.py`, payoffs over 50."""
USUAL = ["rock-paper-scissors", "biased rock-paper-scissors", "kuhn"]
"""What needs nothing installed beside the library, and minutes."""
CURVES = {"newest": "#a51e2d", "uniform": "#787878", "nash": "#19559b", "average": "#e18700"}
LABELS = {
    "newest": "newest snapshot",
    "uniform": "uniform mixture",
    "nash": "Nash mixture of all snapshots",
    "average": "mean of the last half of these mixtures",
}


class Point(NamedTuple):
    """NashConv when a snapshot was taken, in the game's payoff."""

    steps: int
    newest: float
    nash: float
    uniform: float
    average: float
    """Of the mean of the Nash mixtures at the second half of the snapshots so far. NashConv is convex in the mixture
    (two players, zero sum), so it is at most the mean of theirs."""
    support: int
    """Snapshots of more than 1 % in the Nash mixture."""
    gain: float = 0.0
    """What the newest snapshot gains a match on the Nash mixture before it, the roles being drawn by lot."""


def train(game: str, seed: int, store: Path, overrides: Sequence[str] = ()) -> str:
    """Trains the league of `game`; the run's name."""
    env, own = GAMES[game]
    sets = [*COMMON, *own, *overrides]
    return league.train("smoke", env=env, seed=seed, overrides=sets, store=store).run


def behaviours(store: Path, run: str, last: int = 0) -> tuple[list[int], npt.NDArray[np.float64], GameTree]:
    """Steps and behaviour strategies (K, I, A) of a run's last snapshots (0: all), oldest first; its game's tree."""
    opened = Store.open(store)
    rows = opened.snapshots(run)[-last:]
    env = settings.from_json(json.loads(opened.find_run(run).config)).env
    tree = registry.tree(env.name, env.options)
    assert tree is not None
    strategies = [behaviour(load_policy(opened.path / row.path)[1], tree) for row in rows]
    return [row.step for row in rows], np.stack(strategies), tree


def curve(steps: Sequence[int], strategies: npt.NDArray[np.float64], tree: GameTree) -> list[Point]:
    """NashConv after each snapshot; the Nash mixture is that of the snapshots' exact payoffs."""
    gains = margins(tree, strategies)
    points: list[Point] = []
    mixtures = np.zeros((len(steps) + 1, len(steps)))
    for k in range(1, len(steps) + 1):
        gain = float(gains[k - 1] @ mixtures[k - 1])
        mixtures[k, :k] = nash(gains[:k, :k]).rows
        alike = (np.arange(len(steps)) < k) / k
        kinds = mixtures[k], alike, mixtures[k // 2 + 1 : k + 1].mean(axis=0)
        values = (nash_conv(tree, s).total for s in (strategies[k - 1], *(mixture(tree, strategies, w) for w in kinds)))
        support = int((mixtures[k] > 0.01).sum())
        points.append(Point(steps[k - 1], *(round(v, 5) + 0.0 for v in values), support, round(gain, 5)))
    return points


def draw(runs: Sequence[dict[str, Any]], out: Path) -> None:
    """A panel a game, two side by side: NashConv over steps, a line a seed and kind."""
    from matplotlib.figure import Figure

    games = [game for game in GAMES if any(run["game"] == game for run in runs)]
    lines = -(-len(games) // 2)
    figure = Figure(figsize=(9.0, 0.5 + 3.2 * lines), dpi=100, layout="constrained")
    for place, game in enumerate(games, 1):
        axes = figure.add_subplot(lines, 2, place)
        curves = [[Point(*point) for point in run["curve"]] for run in runs if run["game"] == game]
        for kind, colour in CURVES.items():
            for number, points in enumerate(curves):
                label = "" if number else LABELS[kind]
                axes.plot([x.steps for x in points], [getattr(x, kind) for x in points], color=colour, label=label)
        axes.set_title(f"{game}: NashConv", loc="left")
        axes.set_xlabel("training steps")
        axes.locator_params(axis="x", nbins=5)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_ylim(bottom=0.0)
        axes.grid(color="#dedede")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=2, frameon=False)
    figure.savefig(out)


def main() -> None:
    """Trains, prints a line a run, and writes the files asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs="+", choices=GAMES, default=USUAL)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument(
        "--set", action="append", default=[], dest="sets", help="a setting laid over all, as in `league`"
    )
    parser.add_argument("--out", type=Path, help="JSON file of all curves")
    parser.add_argument("--png", type=Path, help="picture of them; needs matplotlib")
    parser.add_argument("--redraw", type=Path, help="draw the curves of this JSON file instead of training")
    arguments = parser.parse_args()
    runs: list[dict[str, Any]] = json.loads(arguments.redraw.read_text()) if arguments.redraw else []
    for game in [] if arguments.redraw else arguments.games:
        for seed in arguments.seeds:
            with tempfile.TemporaryDirectory() as folder:
                store = Path(folder) / "league.duckdb"
                points = curve(*behaviours(store, train(game, seed, store, arguments.sets)))
            runs.append({"game": game, "seed": seed, "curve": points})
            late = range(len(points) // 2, len(points))
            gain = float(np.mean([points[i].gain for i in late]))
            best = float(np.mean([points[i - 1].nash / SEATS for i in late]))
            line = {"game": game, "seed": seed, "first": points[0], "last": points[-1], "gain": gain, "best": best}
            print(json.dumps(line), flush=True)
            if arguments.out:
                arguments.out.write_text(json.dumps(runs) + "\n")
    if arguments.png:
        draw(runs, arguments.png)


if __name__ == "__main__":
    main()
