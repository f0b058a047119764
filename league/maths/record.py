"""Wins, draws and losses, and what they say of a score."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from league.maths.davidson import Z95


@dataclass(frozen=True)
class Record:
    """One side's games against another: counts, and the score a game (win 1, draw 1/2) with its 95 % interval.

    The interval is Wilson's. Without games, score and interval are NaN.
    """

    games: int = field(init=False)
    wins: int
    draws: int
    losses: int
    score: float = field(init=False)
    lower: float = field(init=False)
    upper: float = field(init=False)

    def __post_init__(self) -> None:
        games = self.wins + self.draws + self.losses
        score = (self.wins + self.draws / 2) / games if games else math.nan
        lower, upper = wilson(score, games) if games else (math.nan, math.nan)
        for name, value in (("games", games), ("score", score), ("lower", lower), ("upper", upper)):
            object.__setattr__(self, name, value)


def wilson(score: float, games: float, z: float = Z95) -> tuple[float, float]:
    """Wilson's 95 % interval of a share (Wilson 1927, JASA 22:209); draws as halves make it slightly too wide.

    scipy.stats.binomtest(...).proportion_ci(method="wilson") gives the same for whole numbers, and takes no others: a
    drawn game is half a success, and `league.pool.roles` adds fractions of imagined games.
    """
    centre = (score + z * z / (2 * games)) / (1 + z * z / games)
    half = z / (1 + z * z / games) * math.sqrt(score * (1 - score) / games + z * z / (4 * games * games))
    return max(0.0, centre - half), min(1.0, centre + half)
