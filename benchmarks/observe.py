"""What does it matter how a game shows itself? Pairs of observations of one game, at equal steps: a Markdown table.

    OMP_NUM_THREADS=1 python -m benchmarks.observe
    OMP_NUM_THREADS=1 python -m benchmarks.observe --pair frames --seeds 0 1 2

Each row is a view of a game. The small agent trains on it, half of its matches against the pair's bot, the others in
self-play. Then it plays 400 games against that bot. A row has the score in % (wins plus half the draws) of each seed
with its 95 % interval, their mean with half of its interval by games, and the minutes of training.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

import league
from benchmarks.learning import EXAMPLES, training_minutes
from league.envs import Match
from league.types import ObservationPart

SIZE, SIGHT = 11, 3
"""Of Tron: the board's side, and how many cells around the own head a window shows."""
EDGE = SIZE - 1
"""Walls around the board, so that the whole board lies within as many cells of any head."""
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))

Board = Literal["board", "planes", "centred", "window"]


class Tron(Match):
    """Two riders leave trails on 11 x 11 cells, and move at once. Who hits a trail, the wall or the other loses.

    `bot:runner` takes the way with the longest free run.

    view: `board`, trails, own head and other head, cell by cell; `planes`, the same as an image; `centred`, the same
    with the own head in the middle; `window`, the 7 x 7 cells in that middle.
    """

    action, action_names, tick_rate = 4, ("up", "right", "down", "left"), 4.0

    def __init__(self, view: Board = "board") -> None:
        self.view = view
        side = {"centred": 2 * EDGE + 1, "window": 2 * SIGHT + 1}.get(view, SIZE)
        channels = 2 if view in ("centred", "window") else 3
        self.obs_size = side * side * channels
        if view == "planes":
            self.observation = (ObservationPart("board", 0, (side, side, channels), "image"),)
        self.players = {"runner": runner}

    def reset(self, rng: np.random.Generator) -> None:
        """Heads at a random cell and at its mirror image through the board's centre, which is itself left out."""
        self.taken = np.ones((SIZE + 2 * EDGE,) * 2, np.float32)
        self.taken[EDGE:-EDGE, EDGE:-EDGE] = 0.0
        cell = rng.integers(SIZE * SIZE - 1)
        y, x = divmod(int(cell) + (cell >= SIZE * SIZE // 2), SIZE)
        self.heads = [(EDGE + y, EDGE + x), (EDGE + SIZE - 1 - y, EDGE + SIZE - 1 - x)]
        for head in self.heads:
            self.taken[head] = 1.0

    def observe(self, seat: int) -> npt.NDArray[np.float32]:
        """The view of a seat."""
        (y, x), other = self.heads[seat], self.heads[1 - seat]
        if self.view in ("centred", "window"):
            reach = EDGE if self.view == "centred" else SIGHT
            shown = np.zeros((2, 2 * reach + 1, 2 * reach + 1), np.float32)
            shown[0] = self.taken[y - reach : y + reach + 1, x - reach : x + reach + 1]
            dy, dx = other[0] - y, other[1] - x
            if max(abs(dy), abs(dx)) <= reach:
                shown[1, reach + dy, reach + dx] = 1.0
            return shown.ravel()
        shown = np.zeros((SIZE, SIZE, 3), np.float32)
        shown[:, :, 0] = self.taken[EDGE:-EDGE, EDGE:-EDGE]
        shown[y - EDGE, x - EDGE, 1] = 1.0
        shown[other[0] - EDGE, other[1] - EDGE, 2] = 1.0
        return shown.ravel()

    def step(self, actions: tuple[int, int]) -> None:
        """Both move; who moves onto what is taken, or both onto one cell, crashes."""
        heads = [(y + MOVES[a][0], x + MOVES[a][1]) for (y, x), a in zip(self.heads, actions, strict=True)]
        crashed = [heads[0] == heads[1] or self.taken[head] > 0 for head in heads]
        if any(crashed):
            self.end(None if all(crashed) else crashed.index(False))
            return
        self.heads = heads
        for head in heads:
            self.taken[head] = 1.0


def runner(match: Tron, seat: int, seed: int) -> Callable[[Sequence[int]], int]:
    """Takes the way with the longest free run."""

    def act(legal: Sequence[int]) -> int:
        runs = []
        for dy, dx in MOVES:
            (y, x), run = match.heads[seat], 0
            while match.taken[y + dy, x + dx] == 0:
                y, x, run = y + dy, x + dx, run + 1
            runs.append(run)
        return runs.index(max(runs))

    return act


THROWS, ROUNDS = 7, 20
BEATS = (1, 2, 3)
"""A throw beats those that are one of these numbers below it, around the circle of seven."""
NEXT = (3, 6, 4, 1, 5, 0, 2)
"""What `habit` throws after each of its throws: a circle without an order."""
KEEPS = 0.8
"""How often a bot does what it likes; else it throws at random."""

Seen = Literal["points", "other", "both", "numbers", "told"]


class Throws(Match):
    """Twenty rounds of rock, paper, scissors with seven throws; who wins more rounds wins.

    Eight times in ten `bot:habit` follows its last throw by another, always the same one; `bot:answer` throws what
    beats the other's last throw; `bot:walker` goes on by its stride, which is drawn for the match. Else they throw at
    random.

    view: `points`, the number of the round and both points; `other`, these and the other's last throw, one-hot; `both`,
    both last throws; `numbers`, both as a number each; `told`, both one-hot and the other's stride.
    """

    action, reward_terms = THROWS, ("round",)

    def __init__(self, view: Seen = "both") -> None:
        self.view = view
        self.obs_size = {"points": 3, "other": 10, "both": 17, "numbers": 5, "told": 24}[view]
        self.players = {"habit": habit, "answer": answer, "walker": walker}

    def reset(self, rng: np.random.Generator) -> None:
        """Nothing is thrown; a stride for each seat."""
        self.round, self.points = 0, [0, 0]
        self.last: tuple[int, int] | None = None
        self.strides = rng.integers(1, THROWS, 2).tolist()

    def observe(self, seat: int) -> npt.NDArray[np.float32]:
        """The view of a seat; before the first round no throw is shown."""
        shown = np.zeros(24, np.float32)
        shown[:3] = self.round / ROUNDS, self.points[seat] / ROUNDS, self.points[1 - seat] / ROUNDS
        if self.last is not None:
            own, other = self.last[seat], self.last[1 - seat]
            if self.view == "numbers":
                shown[3:5] = (other + 1) / THROWS, (own + 1) / THROWS
            else:
                shown[[3 + other, 10 + own]] = 1.0
        shown[17 + self.strides[1 - seat]] = 1.0
        return shown[: self.obs_size]

    def step(self, actions: tuple[int, int]) -> None:
        """A round, which pays its winner a tenth of the match."""
        self.last, self.round = (int(actions[0]), int(actions[1])), self.round + 1
        ahead = (self.last[0] - self.last[1]) % THROWS
        if ahead:
            winner = 0 if ahead in BEATS else 1
            self.points[winner] += 1
            for seat in (0, 1):
                self.reward(seat, "round", 0.1 if seat == winner else -0.1)
        if self.round == ROUNDS:
            gap = self.points[0] - self.points[1]
            self.end(None if gap == 0 else int(gap < 0))


def thrower(likes: Callable[[Throws, int], int]) -> Callable[[Throws, int, int], Callable[[Sequence[int]], int]]:
    """A player that throws what it likes, or at random; `likes` has the match after its first round, and the seat."""

    def make(match: Throws, seat: int, seed: int) -> Callable[[Sequence[int]], int]:
        rng = np.random.default_rng(seed)
        throws, chances = rng.integers(THROWS, size=ROUNDS), rng.random(ROUNDS)

        def act(legal: Sequence[int]) -> int:
            is_free = match.last is None or chances[match.round] >= KEEPS
            return int(throws[match.round]) if is_free else likes(match, seat)

        return act

    return make


habit = thrower(lambda match, seat: NEXT[match.last[seat]])
answer = thrower(lambda match, seat: (match.last[1 - seat] + 1) % THROWS)
walker = thrower(lambda match, seat: (match.last[seat] + match.strides[seat]) % THROWS)


@dataclass(frozen=True)
class View:
    """What one row of the table trains: a view, and the network where it is not the small agent's."""

    view: str
    policy: Path | None = None

    @property
    def title(self) -> str:
        """Its first cell."""
        return f"`{self.view}`" + ("" if self.policy is None else ", no memory")


@dataclass(frozen=True)
class Pair:
    """Views of one game that are compared, the bot, and the steps of each run."""

    game: str
    bot: str
    steps: int
    views: tuple[View, ...]


MLP = EXAMPLES / "mlp.py:MLP"
PAIRS = {
    "frames": Pair("Tron", "runner", 200_000, (View("board"), View("centred"), View("window"))),
    "categories": Pair("Throws", "habit", 30_000, (View("numbers"), View("both"))),
    "planes": Pair("Tron", "runner", 200_000, (View("board"), View("planes"))),
    "hidden": Pair("Throws", "walker", 200_000, (View("told"), View("both"), View("both", MLP))),
    "actions": Pair("Throws", "answer", 100_000, (View("points"), View("other"), View("both"))),
}
Run = tuple[float, float, float, float]
"""Score, lower and upper bound in %, and minutes of training."""


def measure(pair: Pair, view: View, seed: int, steps: int, games: int) -> Run:
    """Trains on one view with one seed, and plays the bot."""
    bot = f"bot:{pair.bot}"
    sets = [
        *(f"env.view={view.view}", f"pool.mix={{self_play=0.5, '{bot}'=0.5}}", f"run.total_steps={steps}"),
        *("run.evaluate_every=0", "run.evaluate_games=2", "run.allow_short=true"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "league.duckdb"
        call: dict[str, Any] = {"env": f"benchmarks.observe:{pair.game}", "store": store, "device": "cpu"}
        policy = None if view.policy is None else str(view.policy)
        result = league.train("10m", agent="small", policy=policy, seed=seed, overrides=sets, fresh=True, **call)
        if result.signal:
            raise SystemExit(128 + result.signal)
        minutes = training_minutes(store, result.run)[result.updates]
        met = league.evaluate(result.run, bot, games=games, store=store, device="cpu").summary
    return 100 * met.score, 100 * met.lower, 100 * met.upper, minutes


def row(name: str, view: View, runs: Sequence[Run]) -> str:
    """A row of the table."""
    seeds = ", ".join(f"{score:.0f} [{lower:.0f}, {upper:.0f}]" for score, lower, upper, _ in runs)
    mean, minutes = (float(np.mean([run[k] for run in runs])) for k in (0, 3))
    half = math.sqrt(sum(((upper - lower) / 2) ** 2 for _, lower, upper, _ in runs)) / len(runs)
    return f"| {name} | {view.title} | {seeds} | {mean:.0f} ± {half:.0f} | {minutes:.1f} |"


def main() -> None:
    """Prints the table, a row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pair", choices=PAIRS, help="one pair; all of them by default")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, help="of each run; the pair's own by default")
    parser.add_argument("--games", type=int, default=400, help="against the bot, an even number")
    arguments = parser.parse_args()
    seeds = ", ".join(map(str, arguments.seeds))
    print(f"| pair | view | score in %, seeds {seeds} | mean | minutes |\n|---|---|---|---|---|", flush=True)
    known: dict[tuple[str, str, int, View], list[Run]] = {}
    for name in PAIRS if arguments.pair is None else [arguments.pair]:
        pair = PAIRS[name]
        steps = arguments.steps or pair.steps
        for view in pair.views:
            key = (pair.game, pair.bot, steps, view)
            if key not in known:
                known[key] = [measure(pair, view, seed, steps, arguments.games) for seed in arguments.seeds]
            print(row(name, view, known[key]), flush=True)


if __name__ == "__main__":
    main()
