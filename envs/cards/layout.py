"""What a seat observes and decides: one table that the compiled rules, the slow reference and the documents share.

An observation has the parts of `PRIVATE`, then those of `PUBLIC` for the own seat, then those of `PUBLIC` for the
opponent's. A hand is shown to its own seat alone, and the order of a deck to nobody: `unseen` counts the cards of hand
and deck together.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from league.envs.cards.catalogue import KEYWORDS, NAMES
from league.envs.cards.rules import HAND, NUM_TARGETS, SLOTS, TYPES
from league.types import ObservationPart


@dataclass(frozen=True)
class LayoutPart:
    """`size` floats of one meaning. `cards` are ids of cards, whole numbers from 0 (none) to `len(NAMES)`."""

    name: str
    size: int
    kind: Literal["cards", "numbers"]
    meaning: str


_NUM_CARDS = len(NAMES)
CHOICES = (len(TYPES), _NUM_CARDS + 1, SLOTS + 1, NUM_TARGETS)
"""Of an action: type, card, slot, target."""
_CREATURE = ("power / 8", "health / 8", "health lost / 8", "may act", "is snared", *KEYWORDS)
CREATURE_SIZE = len(_CREATURE)
"""Floats that show one creature."""
PRIVATE: tuple[LayoutPart, ...] = (
    LayoutPart("hand", HAND, "cards", "the own hand, in the order of ids"),
    LayoutPart("hand_counts", _NUM_CARDS, "numbers", "how often each card is in it, / 2"),
    LayoutPart("phase", 3, "numbers", "1 where it is to act; 1 where it began; decisions left, share of the limit"),
)
PUBLIC: tuple[LayoutPart, ...] = (
    LayoutPart("board", SLOTS, "cards", "the creature in each slot"),
    LayoutPart("last_card", 1, "cards", "the card of its last decision"),
    LayoutPart("creatures", SLOTS * CREATURE_SIZE, "numbers", "of each slot: " + ", ".join(_CREATURE)),
    LayoutPart(
        "keeper",
        7,
        "numbers",
        "health, share; oil, share of the most; lamps, share of the most; has stoked in this turn;"
        " how often it drew from an empty deck, / 8; cards in hand / 6; cards in the deck, share",
    ),
    LayoutPart("last_type", len(TYPES), "numbers", "1 at the type of its last decision: " + ", ".join(TYPES)),
    LayoutPart("last_slot", SLOTS, "numbers", "1 at the slot of it"),
    LayoutPart("last_target", NUM_TARGETS - 1, "numbers", "1 at the target of it, as that seat numbers them"),
    LayoutPart("unseen", _NUM_CARDS, "numbers", "how many of each card are in its hand or its deck, / 2"),
)
PRIVATE_SIZE = sum(part.size for part in PRIVATE)
PUBLIC_SIZE = sum(part.size for part in PUBLIC)
SIZE = PRIVATE_SIZE + 2 * PUBLIC_SIZE
OPPONENT_SLICE = (PRIVATE_SIZE + PUBLIC_SIZE, SIZE)


def _starts() -> dict[str, tuple[int, int]]:
    """[start, stop) of each part; the opponent's begin with `other_`, the own public ones with `own_`."""
    named = [(part.name, part) for part in PRIVATE]
    named += [(f"{whose}_{part.name}", part) for whose in ("own", "other") for part in PUBLIC]
    found, start = {}, 0
    for name, part in named:
        found[name] = (start, start + part.size)
        start += part.size
    return found


PARTS: dict[str, tuple[int, int]] = _starts()
"""Name -> [start, stop) in an observation: `hand`, ..., `own_board`, ..., `other_board`, ..."""


def _for_networks() -> tuple[ObservationPart, ...]:
    """The same for networks, which read ids of cards as tokens: the cards and the numbers of each table above."""
    found, start = [], 0
    for whose, parts in (("hand", PRIVATE), ("own", PUBLIC), ("other", PUBLIC)):
        for kind, same in groupby(parts, key=lambda part: part.kind):
            size, count = sum(part.size for part in same), _NUM_CARDS + 1 if kind == "cards" else 0
            found.append(ObservationPart(f"{whose}_{kind}", start, (size,), "tokens" if count else "numbers", count))
            start += size
    return tuple(found)


OBSERVATION = _for_networks()
"""`hand_cards`, `hand_numbers`, `own_cards`, ..., in their order."""
