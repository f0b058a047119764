"""Who meets whom in an evaluation, in how many matches."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from league.types import (
    Policy,
)


@dataclass(frozen=True)
class Contestant:
    """Who plays: `agent_id` is written into the rows; `policy` is None for a native bot.

    family: equal for nets of one architecture, which may then be played stacked; None: like no other. name: in errors.
    """

    agent_id: str
    policy: Policy | None = None
    family: Hashable = None
    name: str = ""


@dataclass(frozen=True)
class Pairing:
    """Two contestants, how many games they play (an even number), and the seed of these matches."""

    a: Contestant
    b: Contestant
    games: int
    seed: int
