"""The bots of brawl's slow twin: each gives the keys that it presses, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from league.envs.brawl.reference_state import Fighter
from league.envs.brawl.rules import KEYS

if TYPE_CHECKING:
    from league.envs.brawl.reference import ReferenceMatch


def constant(me: Fighter, other: Fighter, match: ReferenceMatch) -> set[str]:
    """Presses nothing."""
    return set()


def random(me: Fighter, other: Fighter, match: ReferenceMatch) -> set[str]:
    """Presses each key with probability one half."""
    bits = me.rng.draw() >> 54
    return {key for i, key in enumerate(KEYS) if bits >> i & 1}


PRESSED: dict[str, Callable[[Fighter, Fighter, ReferenceMatch], set[str]]] = {"constant": constant, "random": random}
"""By the names of `rules.BOTS`."""
