"""Matches that a pool is told of, and what it does by them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from league.pool.pool import Pool
from league.snapshots.state import load_state, save_state
from league.types import DRAW, MatchResult


def game(opponent: str, score: float, *, seat: int = 0) -> MatchResult:
    """A training match in which `me`, in `seat`, scored 1, 0.5 or 0."""
    agents = ("me", opponent) if seat == 0 else (opponent, "me")
    winner = DRAW if score == 0.5 else seat if score == 1.0 else 1 - seat
    return MatchResult("me", "training", 1, 0, 0, "g", agents, 1, winner, "time", 1, 1, "sample", 0, 0)


def goes_on_alike(first: Pool, second: Pool, folder: Path, more: Callable[[Any], list[Any]] = lambda pool: []) -> None:
    """`second`, given what `first` saves in the middle, draws and tells all that `first` does from there on."""

    def go_on(pool: Pool) -> list[Any]:
        seen: list[Any] = []
        for update in range(30):
            if update % 7 == 0:
                pool.admit(f"t{update}")
            pool.refresh_targets(set())
            drawn = [pool.draw() for _ in range(5)]
            pool.record([game(agent, (i + update) % 3 / 2) for i, agent in enumerate(drawn)], "me", 500)
            seen += [drawn, pool.metrics(), pool.agent_metrics(), list(pool.targets), *more(pool)]
        return seen

    go_on(first)
    save_state(folder / "state", first.state_dict())
    second.load_state_dict(load_state(folder / "state"))
    assert [first.draw() for _ in range(20)] == [second.draw() for _ in range(20)], "by the odds of the last drawing"
    assert go_on(first) == go_on(second)
