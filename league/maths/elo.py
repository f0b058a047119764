"""Elo's online ratings (Elo 1978)."""

from __future__ import annotations

import math
from collections.abc import Iterable

from league.maths.davidson import ELO_SCALE

ELO_START = 1000.0
ELO_K = 32.0


def expected_score(a: float, b: float) -> float:
    """The score in [0, 1] that one rated `a` expects against one rated `b` (Elo 1978, "The Rating of Chessplayers")."""
    return 1.0 / (1.0 + math.exp((b - a) / ELO_SCALE)) if a >= b else 1.0 - expected_score(b, a)


def elo_update(a: float, b: float, score: float, k: float = ELO_K) -> tuple[float, float]:
    """Both ratings after one game in which `a` scored 1, 0.5 or 0. Their sum stays the same; nothing is rounded."""
    change = k * (score - expected_score(a, b))
    return a + change, b - change


def elo_ratings(
    games: Iterable[tuple[str, str, float]], start: float = ELO_START, k: float = ELO_K
) -> dict[str, float]:
    """The last rating of every agent of games `(a, b, score of a)` in the order given, one update each."""
    ratings: dict[str, float] = {}
    for a, b, score in games:
        ratings[a], ratings[b] = elo_update(ratings.get(a, start), ratings.get(b, start), score, k)
    return ratings
