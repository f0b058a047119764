"""What a training has told so far, learner by learner: figures with their history, and whether they are healthy."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from league.boards.standings import Rated
    from league.play.evaluation import Summary
    from league.training.run import Report

HISTORY = 40
"""Points that a figure's curve looks back on."""
FIGURES = {
    "entropy": "entropy",
    "approx_kl": "KL",
    "clip_share": "clipped",
    "value_loss": "value loss",
    "explained_variance": "explained",
    "gradient_norm": "gradient",
    "reward_per_step": "reward/step",
}
"""Metrics that are shown, and their names."""
RANGES = {"approx_kl": (0.002, 0.02), "clip_share": (0.0, 0.2), "explained_variance": (0.0, 1.0)}
"""Of healthy runs of brawl (docs/training.md); of the other figures the scale belongs to the game."""
LIMITS = {"approx_kl": (0.0, 0.1), "clip_share": (0.0, 0.5), "explained_variance": (-0.5, 1.0)}
"""Beyond these something is wrong; where there is an alarm for it they are its limits."""

LEAST_ENTROPY, NO_ENTROPY = 0.2, 0.05
"""Of the highest so far: a healthy entropy is above the first share, and below the second something is wrong."""
MOST_LOSS, WRONG_LOSS = 10.0, 100.0
"""Times its median: a healthy value loss is below the first, and above the second something is wrong."""


@dataclass
class Opponent:
    """What a learner does against one opponent, or one group of the mix."""

    training: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))
    """Scores of the last matches of training, update by update."""
    evaluation: Summary | None = None
    rating: tuple[float, float, float] | None = None
    """With its 95 % interval."""
    scores: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))
    """Of its evaluations."""


class Learner:
    """What has been told of one learner."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.report: Report | None = None
        self.first_steps: int | None = None
        """Steps at the first report, less those of that update as far as they are known."""
        self.figures: dict[str, deque[float]] = {}
        self.opponents: dict[str, Opponent] = {}
        self.ratings: deque[tuple[float, float, float]] = deque(maxlen=HISTORY)
        """Of its newest snapshots."""
        self.alarm = ""
        self.evaluated_at = 0

    def add(self, report: Report) -> None:
        """An update was made."""
        self.name = report.run or self.name
        if self.first_steps is None:
            self.first_steps = report.steps - (report.steps // report.update if report.update else 0)
        self.report = report
        for metric in FIGURES:
            if metric in report.metrics:
                self.figures.setdefault(metric, deque(maxlen=HISTORY)).append(report.metrics[metric])
        for group, rate in report.win_rates.items():
            self.opponents.setdefault(group, Opponent()).training.append(rate)

    def add_evaluation(self, steps: int, opponent: str, summary: Summary) -> None:
        """It was evaluated against one opponent."""
        found = self.opponents.setdefault(opponent, Opponent())
        found.evaluation = summary
        found.scores.append(summary.score)
        self.evaluated_at = steps

    def add_ratings(self, ratings: Sequence[Rated]) -> None:
        """It and its opponents were rated."""
        for rated in ratings:
            numbers = rated.rating, rated.lower, rated.upper
            if rated.is_newest:
                self.ratings.append(numbers)
            elif rated.name in self.opponents or rated.name.startswith("bot:"):
                self.opponents.setdefault(rated.name, Opponent()).rating = numbers

    def add_words(self, message: str) -> bool:
        """Keeps an alarm; whether it is one."""
        if message.startswith(("alarm at ", "alarm, ")):
            self.alarm = message.removeprefix("alarm").removeprefix(",").removeprefix(" at").strip()
            return True
        return False


def healthy(metric: str, history: Sequence[float]) -> tuple[float, float] | None:
    """Between which values a figure is healthy; None where only the game could tell.

    Entropy is held against the highest of its history, unless that is below 0, as densities' may be; the value loss
    against the median.
    """
    if metric == "entropy":
        most = max(history, default=0.0)
        return (LEAST_ENTROPY * most, most) if most > 0.0 else None
    if metric == "value_loss" and history:
        return 0.0, MOST_LOSS * sorted(history)[len(history) // 2]
    return RANGES.get(metric)


def health(metric: str, history: Sequence[float]) -> str:
    """The colour of a figure's newest value: green where it is healthy, red where something is wrong, yellow between.

    Nothing where only the game could tell, and of a value loss that is not too high.
    """
    value, found = history[-1], healthy(metric, history)
    if found is None:
        return ""
    low, high = found
    if metric == "entropy":
        least, most = low * NO_ENTROPY / LEAST_ENTROPY, high
    elif metric == "value_loss":
        least, most = low, high * WRONG_LOSS / MOST_LOSS
    else:
        least, most = LIMITS[metric]
    if low <= value <= high:
        return "" if metric == "value_loss" else "green"
    return "yellow" if least <= value <= most else "red"
