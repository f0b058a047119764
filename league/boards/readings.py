"""Readings of a run: figures that say of every game whether it is learned well, their limits and what to try.

The dashboard colours the newest values by them, the page draws them as bands, and the end of a stage names those that
lie outside. Alarms (`league.training.guards`) are raised beyond `wrong`, after some updates in a row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from league.store.reading import Reader
from league.store.rows import RunRow

LAST = 0.2
"""Share of a run's steps at its end over which readings are averaged."""
MOST_LOSS, WRONG_LOSS = 10.0, 100.0
"""Times its median: a healthy value loss is below the first, and above the second something is wrong."""
HORIZONS = 5.0
"""Times 1 / (1 - gamma): a reward that many decisions ahead counts for e^-5, less than 1 %."""
UNITS = ("max_gradient_norm", "gamma")
"""Settings of [learner] that limits are multiples of; of one that follows a schedule its greatest value."""


class Remark(NamedTuple):
    """What a reading outside its limits means; `short` is for tables."""

    short: str
    words: str
    cure: str
    """A setting to try, or why there is none."""


class Reading(NamedTuple):
    """A figure of every game and what it is compared with.

    metric: as the store has it. form: how its value is written. healthy, wrong: from least to greatest, in `units`.
    """

    metric: str
    label: str
    form: str
    healthy: tuple[float, float]
    wrong: tuple[float, float]
    low: Remark | None
    high: Remark | None

    def remark(self, value: float) -> Remark | None:
        """What is to be said of a value; None where it is healthy."""
        return self.low if value < self.healthy[0] else self.high if value > self.healthy[1] else None


READINGS = (
    Reading(
        "approx_kl",
        "KL",
        ".4f",
        (5e-4, 0.03),  # PPO's usual targets are 0.01 to 0.02 nats an update
        (0.0, 0.1),
        Remark("no change", "updates change next to nothing", "raise learner.learning_rate"),
        Remark(
            "KL",
            "updates are too large: the policy leaves what was sampled",
            "lower learner.learning_rate or learner.epochs, or set learner.adaptive_kl=0.02",
        ),
    ),
    Reading(
        "clip_share",
        "clipped",
        ".0%",
        (0.0, 0.3),
        (0.0, 0.5),
        None,
        Remark(
            "clipped",
            "much of what was sampled is clipped and teaches nothing",
            "lower learner.epochs or learner.learning_rate",
        ),
    ),
    Reading(
        "explained_variance",
        "explained variance",
        "z.2f",
        (0.1, 1.0),
        (-0.5, 1.0),
        Remark(
            "no values",
            "values explain nothing of the returns, as they must in a game of chance",
            "elsewhere see whether the observation shows what decides a match, or raise learner.value_coefficient",
        ),
        None,
    ),
    Reading(
        "entropy_in_play",
        "entropy",
        ".0%",
        (0.05, 0.95),  # of its highest
        (0.0, 1.0),
        Remark(
            "no choice",
            "play has next to no choice left: right where one action is best",
            "elsewhere raise learner.entropy_coefficient",
        ),
        Remark(
            "random",
            "it plays as randomly as ever",
            "lower learner.entropy_coefficient, raise learner.learning_rate or train longer",
        ),
    ),
    Reading(
        "gradient_norm",
        "gradient norm",
        ".1f",
        (0.0, 3.0),  # times learner.max_gradient_norm
        (0.0, 100.0),
        None,
        Remark(
            "gradients",
            "gradients are clipped to a fraction",
            "raise learner.max_gradient_norm or lower learner.value_coefficient",
        ),
    ),
    Reading(
        "match/draws",
        "draws",
        ".0%",
        (0.0, 0.9),
        (0.0, 1.0),
        None,
        Remark(
            "draws",
            "nearly all matches are drawn, so little tells good from bad play",
            "reward what leads to a win, or let matches last longer",
        ),
    ),
    Reading(
        "match/steps",
        "length",
        ".1f",
        (0.0, HORIZONS),  # times 1 / (1 - gamma)
        (0.0, math.inf),
        None,
        Remark(
            "long",
            "the end of a match counts for less than 1 % at its beginning",
            "raise learner.gamma, or reward what happens on the way",
        ),
    ),
    Reading(
        "match/first_seat",
        "first seat",
        ".0%",
        (0.1, 0.9),
        (0.0, 1.0),
        Remark("seats", "the second seat wins nearly always", "an option of the game may even the seats"),
        Remark("seats", "the first seat wins nearly always", "an option of the game may even the seats"),
    ),
)
BY_METRIC = {reading.metric: reading for reading in READINGS} | {"entropy": READINGS[3]}


def units(config: Mapping[str, Any]) -> dict[str, float]:
    """In what the limits of some readings are counted: metric -> unit, of a run's settings as JSON has them."""
    if not (learner := config.get("learner")):  # a run that was not trained here
        return {}
    norm, gamma = (max(x.values()) if isinstance(x := learner[key], dict) else x for key in UNITS)  # of a schedule
    return {"gradient_norm": float(norm), "match/steps": 1.0 / max(1.0 - gamma, 1e-9)}


def healthy(metric: str, history: Sequence[float], unit: float = 1.0) -> tuple[float, float] | None:
    """Between which values a figure is healthy, in its own units; None where only the game could tell.

    Entropy is held against the highest of its history, unless that is below 0, as densities' may be, and may be as high
    until a run ends; the value loss against the median.
    """
    if metric == "value_loss" and history:
        return 0.0, MOST_LOSS * sorted(history)[len(history) // 2]
    reading = BY_METRIC.get(metric)
    if reading is None:
        return None
    low, high = reading.healthy
    if metric == "entropy":
        most = max(history, default=0.0)
        return (low * most, most) if most > 0.0 else None
    return low * unit, high * unit


def health(metric: str, history: Sequence[float], unit: float = 1.0) -> str:
    """The colour of a figure's newest value: green where it is healthy, red where something is wrong, yellow between.

    Nothing where only the game could tell, and of a value loss that is not too high.
    """
    value, found = history[-1], healthy(metric, history, unit)
    if found is None:
        return ""
    low, high = found
    if metric == "value_loss":
        return "" if value <= high else "yellow" if value <= high * WRONG_LOSS / MOST_LOSS else "red"
    if low <= value <= high:
        return "green"
    least, most = (limit * unit for limit in BY_METRIC[metric].wrong)
    return "yellow" if metric == "entropy" or least <= value <= most else "red"


class Read(NamedTuple):
    """One reading at the end of a run, in the units of its limits."""

    reading: Reading
    value: float
    beyond: int
    """Updates of the whole run that lay outside on the same side."""
    updates: int

    @property
    def remark(self) -> Remark | None:
        """What is to be said of it; None where it is healthy."""
        return self.reading.remark(self.value)

    @property
    def line(self) -> str:
        """The remark with its numbers."""
        remark = self.remark
        assert remark is not None
        low, high = self.reading.healthy
        limit = f"below {low:{self.reading.form}}" if self.value < low else f"above {high:{self.reading.form}}"
        return (
            f"{self.reading.label} {self.value:{self.reading.form}}, {limit} in {self.beyond:,} of {self.updates:,}"
            f" updates: {remark.words}; {remark.cure}"
        )


def read(store: Reader, run: RunRow, config: Mapping[str, Any], until: float = math.inf) -> dict[str, Read]:
    """The readings of a run's updates up to a step, by metric; empty where it has made none.

    Raises:
        StoreError: the store cannot be read.
    """
    points = _points(store, run.run, until)
    if "approx_kl" not in points:
        return {}
    points = _with_parents(store, run, points)
    begin = (1.0 - LAST) * max(points["approx_kl"])
    of = units(config)
    of["entropy_in_play"] = max(points["entropy_in_play"].values())
    found = {}
    for reading in READINGS:
        unit, values = of.get(reading.metric, 1.0), points.get(reading.metric, {})
        last = [value / unit for steps, value in values.items() if steps > begin] if unit > 0 else []
        if last:
            value = float(np.mean(last))
            remark = reading.remark(value)
            beyond = sum(remark is not None and reading.remark(x / unit) is remark for x in values.values())
            found[reading.metric] = Read(reading, value, beyond, len(values))
    return found


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
    while parent in parents:  # none twice, whatever the store says
        for name, values in _points(store, parent, min(points["approx_kl"]) - 1).items():
            points[name] = values | points.get(name, {})
        parent = parents.pop(parent)
    return points
