"""The duel's numbers and names, in one place: the compiled rules and the slow reference both read them here.

The cards are in `cards.toml`. Both players are called keepers; each has `SLOTS` slots in a row, and slot i of one lies
opposite slot i of the other.
"""

from __future__ import annotations

from dataclasses import dataclass

TYPES = ("end", "stoke", "play", "cast", "attack", "ability")
"""What a decision may be: the first part of an action."""
TERMS = (
    "win",
    "damage_dealt",
    "damage_taken",
    "creature_destroyed",
    "creature_lost",
    "card_played",
    "card_burnt",
    "lamp",
)
"""Unweighted reward terms, in the order of `reward_terms`."""
METRICS = (
    "damage_dealt",
    "health_left",
    "creatures_destroyed",
    "creatures_lost",
    "creatures_played",
    "spells_cast",
    "attacks",
    "abilities",
    "lamps",
    "oil_spent",
    "cards_burnt",
    "turns",
    "began",
)
"""Behaviour metrics of one seat over a match, in the order of `result["metrics"]`."""
END_REASONS = ("keeper_fell", "time_limit")
BOTS = ("random", "greedy", "curve")
TICK_RATE = 2.0
"""Decisions a second of a film: the duel has no time of its own."""

SLOTS = 4
HAND = 6
"""Cards that a hand can hold; what is drawn beyond is burnt."""
MAX_DECK = 40
COPIES = 2
"""Of each card, of which the list of a match is drawn."""
MAX_TUPLES = 64
"""Legal actions at once, at most; `tests/envs/test_cards_rules.py` proves it of the card table."""

NO_TARGET = 0
OTHER_SLOT = 1
"""The target of the opponent's first slot; its other slots follow."""
OTHER_KEEPER = OTHER_SLOT + SLOTS
OWN_SLOT = OTHER_KEEPER + 1
OWN_KEEPER = OWN_SLOT + SLOTS
NUM_TARGETS = OWN_KEEPER + 1


@dataclass(frozen=True)
class CardRules:
    """Every number of the game but the cards. Names are those of the C struct."""

    health: int = 20
    """Of a keeper at the start, and at most."""
    decision_limit: int = 100
    """Decisions of both together; reaching it ends the match."""
    deck: int = 20
    """Cards of each keeper, the first hand included."""
    first_hand: int = 4
    """Cards of the keeper who begins."""
    second_hand: int = 5
    """Cards of the other."""
    second_oil: int = 1
    """What the other has as it waits for its first turn."""
    income: int = 3
    """Oil a turn without a lamp."""
    most_oil: int = 8
    """Oil that can be kept."""
    most_lamps: int = 3
    """Each adds one oil a turn."""
