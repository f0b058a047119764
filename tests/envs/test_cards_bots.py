"""The duel's bots: who beats whom, from both seats, and how long their matches are."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from league.envs.cards import env
from league.envs.cards.rules import BOTS, METRICS
from league.types import DRAW

MATCHES = 1000


@cache
def played(first: str, second: str) -> Any:
    """The results of MATCHES matches, `first` in seat 0."""
    batch: Any = env.make(MATCHES, 1, env.Options())
    batch.controllers[:] = (BOTS.index(first), BOTS.index(second))
    batch.reset(31)
    results = np.zeros(MATCHES, batch.result.dtype)
    while not batch.held.all():
        batch.step()
        results[batch.terminated] = batch.result[batch.terminated]
        batch.held[:] |= batch.terminated
    return results


def score(first: str, second: str, seat: int) -> float:
    """Wins and half the draws of `first` in this seat, as a share, less three standard errors."""
    results = played(first, second) if seat == 0 else played(second, first)
    points = np.where(results["winner"] == DRAW, 0.5, results["winner"] == seat)
    return float(points.mean() - 3 * points.std() / np.sqrt(MATCHES))


@pytest.mark.parametrize("seat", [0, 1])
def test_curve_beats_greedy_beats_random(seat: int) -> None:
    assert score("curve", "greedy", seat) > 0.6
    assert score("greedy", "random", seat) > 0.95
    assert score("curve", "random", seat) > 0.95


@pytest.mark.parametrize("bot", BOTS)
def test_neither_seat_nor_the_first_turn_decides(bot: str) -> None:
    results = played(bot, bot)
    points = np.where(results["winner"] == DRAW, 0.5, results["winner"] == 0)
    began = results["metrics"][:, 0, METRICS.index("began")] == 1
    error = 1 / np.sqrt(MATCHES)
    assert abs(points.mean() - 0.5) < 2 * error
    assert abs(points[began].mean() - 0.5) < 0.1 + 2 * error
