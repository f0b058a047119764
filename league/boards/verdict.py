"""Is a test stage worth carrying on? A verdict on a run, by runs that looked like it and went on to millions of steps.

`foretold.json` beside this file has those runs: what they showed at the end of the test stage, and how strong they
became (`python -m benchmarks.foretell` made it; docs/lab/experiments.md has the whole table). A run is sick where one
of `SIGNS` says so, and promising where none does; the odds are the share of the measured runs of the same kind that
became strong. That holds for the game, the agent and the length that were measured. Elsewhere the readings stand
alone: in a game of chance values that explain nothing are no sign of trouble.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from league.maths.record import wilson
from league.store.reading import Reader
from league.store.rows import RunRow

MEASURED = Path(__file__).with_name("foretold.json")
LAST = 0.2
"""Share of a run's steps at its end over which its metrics are averaged."""
LENGTH = 0.1
"""How far a run's steps may be from those of the measured test stages, as a share."""


class Readings(NamedTuple):
    """What the end of a test stage shows. Metrics are means over the last fifth of the steps."""

    approx_kl: float
    """Nats an update."""
    clip_share: float
    explained_variance: float
    entropy: float
    """Of play, as a share of the highest that the run had, or the run that it was rewound from."""
    gradient_norm: float
    """As a multiple of learner.max_gradient_norm."""
    score: float | None = None
    """Of the newest snapshot against the game's anchor, 0 to 1; None where they have not met."""


class Sign(NamedTuple):
    """A reading that healthy runs do not have; `short` is for tables."""

    short: str
    is_seen: Callable[[Readings], bool]
    words: Callable[[Readings], str]


SIGNS = (
    Sign("KL", lambda r: r.approx_kl > 0.03, lambda r: f"its updates are too large (KL {r.approx_kl:.2f})"),
    Sign(
        "no change",
        lambda r: r.approx_kl < 5e-4,
        lambda r: f"its updates change next to nothing (KL {r.approx_kl:.0e})",
    ),
    Sign(
        "no values",
        lambda r: r.explained_variance < 0.1,
        lambda r: f"its values explain nothing (explained variance {r.explained_variance:.2f})",
    ),
    Sign(
        "random",
        lambda r: r.entropy > 0.95,
        lambda r: f"it plays as randomly as ever (entropy {r.entropy:.0%} of its highest)",
    ),
    Sign(
        "gradients",
        lambda r: r.gradient_norm > 3.0,
        lambda r: f"its gradients are clipped to a fraction (norm {r.gradient_norm:.1f} times the limit)",
    ),
    Sign(
        "no lead",
        lambda r: r.score is not None and r.score < 0.5,
        lambda r: f"it does not beat the anchor yet ({r.score:.0%})",
    ),
)


@dataclass(frozen=True)
class Verdict:
    """What a test stage foretells.

    word: `unknown` where nothing was measured. signs: what is wrong, in words. strong, runs: of so many measured runs
    with the same word so many became strong. anchor: whom the score is against.
    """

    word: Literal["promising", "sick", "unknown"]
    signs: tuple[str, ...]
    strong: int
    runs: int
    readings: Readings
    anchor: str

    def lines(self) -> tuple[str, str]:
        """What it says, and the readings that it is made from."""
        table = measured()
        if self.word == "unknown":
            first = f"no verdict: only of {table['name']} is it known what {table['short']:,} steps foretell"
        else:
            low, high = wilson(self.strong / self.runs, self.runs)
            odds = (
                f"of {self.runs} measured runs like it {self.strong} were strong after"
                f" {table['steps'] / 1e6:.2g} million steps [{low:.0%}, {high:.0%}]"
            )
            first = f"{self.word}: {'; '.join((*self.signs, odds))}"
        r = self.readings
        score = "" if r.score is None else f"score {r.score:.0%} against {self.anchor}, "
        return first, (
            f"readings: {score}KL {r.approx_kl:.4f}, {r.clip_share:.0%} clipped, explained variance"
            f" {r.explained_variance:.2f}, entropy {r.entropy:.0%} of its highest, gradient norm"
            f" {r.gradient_norm:.1f} times its limit"
        )


@cache
def measured() -> dict[str, Any]:
    """The runs that were measured: `name`, `game_id`, `agent`, `short` and `steps` (how long the test stage and the run
    were), `strong` (a score), and `runs`."""
    return dict(json.loads(MEASURED.read_text(encoding="utf-8")))


def signs_of(readings: Readings) -> tuple[str, ...]:
    """What is wrong, in words; nothing where nothing is."""
    return tuple(sign.words(readings) for sign in SIGNS if sign.is_seen(readings))


def judge(store: Reader, run: str) -> Verdict | None:
    """The verdict on a run as it stands; None where it has made no update.

    Raises:
        UsageError: no such run.
        StoreError: the store cannot be read.
    """
    with store.reading():
        row = store.find_run(run)
        config = json.loads(row.config)
        anchor = store.game(row.game_id).anchor or ""
        readings = read(store, row, config["learner"]["max_gradient_norm"], anchor)
    if readings is None:
        return None
    table, signs = measured(), signs_of(readings)
    is_known = row.game_id == table["game_id"] and table["agent"].items() <= config["agent"].items()
    is_known &= abs(row.steps / table["short"] - 1.0) < LENGTH
    like = [x["strength"] for x in table["runs"] if bool(signs_of(Readings(**x["readings"]))) == bool(signs)]
    if not is_known or not like:
        return Verdict("unknown", (), 0, 0, readings, anchor)
    strong = sum(x >= table["strong"] for x in like)
    return Verdict("sick" if signs else "promising", signs, strong, len(like), readings, anchor)


def read(store: Reader, run: RunRow, max_gradient_norm: float, anchor: str, until: float = math.inf) -> Readings | None:
    """The readings of a run's updates and snapshots up to a step; None where it has made none.

    anchor: the opponent of the score; where they have not met there is none.
    """
    points = _points(store, run.run, until)
    if "approx_kl" not in points:
        return None
    points = _with_parents(store, run, points)
    begin = (1.0 - LAST) * max(points["approx_kl"])

    def mean(name: str) -> float:
        return float(np.mean([value for steps, value in points[name].items() if steps > begin]))

    scores = store.scores_over_steps(run.run, run.game_id)
    met = [(step, score) for against, step, _, score in scores if against == anchor and step <= until]
    highest = max(points["entropy_in_play"].values())
    return Readings(
        mean("approx_kl"),
        mean("clip_share"),
        mean("explained_variance"),
        mean("entropy_in_play") / highest if highest > 0 else 1.0,
        mean("gradient_norm") / max_gradient_norm,
        max(met)[1] if met else None,
    )


def _points(store: Reader, run: str, until: float) -> dict[str, dict[int, float]]:
    """Of each metric its values by steps, up to these."""
    found: dict[str, dict[int, float]] = {}
    for _, steps, name, value in store.metrics(run):
        if value is not None and steps <= until:
            found.setdefault(name, {})[steps] = value
    return found


def _with_parents(store: Reader, run: RunRow, points: dict[str, dict[int, float]]) -> dict[str, dict[int, float]]:
    """A run's metrics, and before its first update those of the run that it was rewound from, and so on."""
    parents = {row.run: row.parent for row in store.runs()}
    parent = run.parent
    while parent in parents:
        for name, values in _points(store, parent, min(points["approx_kl"]) - 1).items():
            points[name] = values | points.get(name, {})
        parent = parents[parent]
    return points
