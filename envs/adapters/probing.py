"""What random play of a library's environment shows before it is a game: that it plays again, what it draws from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from league.envs.adapters.apart import Drawn

STEPS = 256
"""Of random play."""
AGAIN = 64
"""Of the first episode that is played a second time in the same object."""
GAMMA = 0.99
"""Of the returns by whose size rewards are weighted."""


class Played(Protocol):
    """One copy of an environment as the probe plays it."""

    is_over: bool

    def begin(self, seed: int) -> None:
        """Begins an episode."""

    def act_at_random(self, rng: np.random.Generator) -> float:
        """Plays a random legal action of whoever is to act; returns what was paid."""

    def show(self) -> npt.NDArray[Any]:
        """All that is seen."""

    def drawn_since(self, seed: int) -> Drawn:
        """As `Apart.drawn_since`."""


@dataclass(frozen=True)
class Found:
    """What a probe found."""

    problem: str
    """Why its matches could not be played again; empty where they can."""
    drawn: Drawn
    weight: float
    """Of its rewards: 1, or 0.1, 0.01, ... where discounted returns of random play are large."""


def probe(make: Callable[[], Played]) -> Found:
    """Plays two copies side by side by the same seeds and actions.

    make: a copy; it seeds the generators of its own with 0 before it is made.
    """
    one, two = make(), make()
    drawn = Drawn(*(any(pair) for pair in zip(one.drawn_since(0), two.drawn_since(0), strict=True)))
    opening, sums, problem, seed, is_new = list[npt.NDArray[Any]](), [0.0], "", 1, True
    rngs = [np.random.default_rng(0) for _ in range(2)]
    for step in range(STEPS):
        if is_new:
            one.begin(seed)
            two.begin(seed)
            sums.append(0.0)
            is_new = False
        views = one.show(), two.show()
        if not np.array_equal(*views, equal_nan=True):
            problem = f"two copies of one seed differ after {step} random steps"
            break
        if seed == 1 and len(opening) < AGAIN:
            opening.append(views[0].copy())
        paid = [each.act_at_random(rng) for each, rng in zip((one, two), rngs, strict=True)]
        sums.append(GAMMA * sums[-1] + paid[0])
        if one.is_over or two.is_over:
            drawn = Drawn(*(any(pair) for pair in zip(drawn, one.drawn_since(seed), strict=True)))
            seed, is_new = seed + 1, True
    drawn = Drawn(*(any(pair) for pair in zip(drawn, one.drawn_since(seed), strict=True)))
    return Found(problem or _plays_again(one, opening), drawn, weight_of(max(map(abs, sums))))


def weight_of(largest: float) -> float:
    """A power of ten by which returns of this size come to 1 to 10; 1 where they are smaller."""
    return float(10.0 ** -np.floor(np.log10(largest))) if 1.0 <= largest < np.inf else 1.0


def _plays_again(one: Played, opening: list[npt.NDArray[Any]]) -> str:
    """Why a copy that has played other episodes does not play the first again; empty where it does."""
    rng = np.random.default_rng(0)
    one.begin(1)
    for step, before in enumerate(opening):
        if not np.array_equal(one.show(), before, equal_nan=True):
            return f"reset(seed=1) begins another episode the second time: it differs after {step} random steps"
        if step + 1 < len(opening):
            one.act_at_random(rng)
    return ""
