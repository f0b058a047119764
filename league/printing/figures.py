"""What a training has told so far, learner by learner: figures with their history."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from league.boards.leaderboards import Rated
    from league.play.summaries import Summary
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
    "match/draws": "draws",
    "match/steps": "match length",
    "match/first_seat": "first seat",
}
"""Metrics that are shown, and their names."""


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


class LearnerFigures:
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
        self.units: Mapping[str, float] = {}
        """Of limits that depend on settings (`league.boards.readings.units`)."""
        self.alarm = ""

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

    def add_evaluation(self, opponent: str, summary: Summary) -> None:
        """It was evaluated against one opponent."""
        found = self.opponents.setdefault(opponent, Opponent())
        found.evaluation = summary
        found.scores.append(summary.score)

    def add_ratings(self, ratings: Sequence[Rated]) -> None:
        """It and its opponents were rated."""
        for rated in ratings:
            numbers = rated.rating, rated.lower, rated.upper
            if rated.is_newest:
                self.ratings.append(numbers)
            elif rated.name in self.opponents or rated.name.startswith("bot:"):
                self.opponents.setdefault(rated.name, Opponent()).rating = numbers

    def add_words(self, message: str) -> bool:
        """Keeps an alarm, or that it is over; whether it is one."""
        if message.startswith(("alarm at ", "alarm over at ", "alarm, ")):
            self.alarm = message.removeprefix("alarm").removeprefix(",").removeprefix(" at").strip()
            return True
        return False
