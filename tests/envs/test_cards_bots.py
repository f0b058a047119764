"""The duel's bots: who beats whom, from both seats, and how long their matches are."""

from __future__ import annotations

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
    """From either seat, beyond three standard errors."""
    assert score("curve", "greedy", seat) > 0.6
    assert score("greedy", "random", seat) > 0.95
    assert score("curve", "random", seat) > 0.95


@pytest.mark.parametrize("bot", BOTS)
def test_neither_seat_nor_the_first_turn_decides(bot: str) -> None:
    """Against itself a bot wins half from either seat, and not much more or less where it begins."""
    results = played(bot, bot)
    points = np.where(results["winner"] == DRAW, 0.5, results["winner"] == 0)
    began = results["metrics"][:, 0, METRICS.index("began")] == 1
    error = 1 / np.sqrt(MATCHES)
    assert abs(points.mean() - 0.5) < 2 * error
    assert abs(points[began].mean() - 0.5) < 0.1 + 2 * error


@pytest.mark.parametrize("first", BOTS)
@pytest.mark.parametrize("second", BOTS)
def test_matches_have_20_to_100_decisions(first: str, second: str) -> None:
    """All of them, and most of those of the better bots end by a keeper's fall."""
    results = played(first, second)
    assert results["ticks"].min() >= 20 and results["ticks"].max() <= 100
    assert 40 < results["ticks"].mean() < 95
    if "random" not in (first, second):
        assert (results["end_reason"] == 0).mean() > 0.8


def test_bots_use_the_game() -> None:
    """`greedy` and `curve` play creatures and spells, attack, use abilities and burn cards for lamps."""
    for bot in ("greedy", "curve"):
        means = dict(zip(METRICS, played(bot, bot)["metrics"][:, 0].mean(axis=0), strict=True))
        assert means["creatures_played"] > 5 and means["spells_cast"] > 1 and means["attacks"] > 5
        assert means["abilities"] > 0.2 and means["lamps"] > 2 and means["damage_dealt"] > 10
