"""The record of a match, of which a state is made (`league.envs.blob`): the C struct itself."""

from __future__ import annotations

import numpy as np

from league.envs.blob import BlobFormat, Records, check_range
from league.envs.cards.catalogue import CARDS
from league.envs.cards.rules import BOTS, HAND, MAX_DECK, NUM_TARGETS, SLOTS, TYPES, CardRules

_MANY = 9_999
"""No counter of a match comes near it, nor to the end of an int16."""

CREATURE_RANGES: dict[str, tuple[int, int]] = {
    "card": (0, len(CARDS) - 1),  # 0: the slot is empty, and all else is 0
    "power": (0, 999),
    "health": (0, 999),
    "most": (0, 999),  # health without wounds
    "acts": (0, 1),  # may act in this turn
    "snared": (0, 1),  # will not act in its keeper's next turn
}
"""Each number of a creature and the values that `set_state` accepts."""
COUNTERS = (
    "damage_dealt",
    "destroyed",
    "lost",
    "played",
    "cast",
    "attacks",
    "abilities",
    "oil_spent",
    "burnt",
    "turns",
)
"""What a keeper has done in this match."""

CREATURE_DTYPE = np.dtype([(name, "<i2") for name in CREATURE_RANGES])
KEEPER_DTYPE = np.dtype(
    [
        ("rng", "<u8"),  # splitmix64 state of its bot's draws
        ("controller", "<i2"),  # EXTERNAL or a bot's id
        ("health", "<i2"),
        ("oil", "<i2"),
        ("lamps", "<i2"),
        ("stoked", "<i2"),  # has burnt a card in this turn
        ("tired", "<i2"),  # times it drew from an empty deck
        ("hand_size", "<i2"),
        ("deck_size", "<i2"),
        ("last", "<i2", (4,)),  # its last decision; the type is -1 before the first
        *((name, "<i2") for name in COUNTERS),
        ("board", CREATURE_DTYPE, (SLOTS,)),
        ("hand", "<i2", (HAND,)),  # in the order of ids, then zeros
        ("deck", "<i2", (MAX_DECK,)),  # the top card is the last, then zeros
    ]
)
STATE_DTYPE = np.dtype(
    [
        ("seed", "<u8"),
        ("rng", "<u8"),  # splitmix64 state of the match's start
        ("keepers", KEEPER_DTYPE, (2,)),
        ("acting", "<i2"),  # the seat that is to act
        ("decisions", "<i2"),
        ("began", "<i2"),  # the seat that began
        ("spare", "<i2"),  # 0
    ]
)


def _check(records: Records, rules: CardRules) -> None:
    for name, high in (("acting", 1), ("began", 1), ("decisions", rules.decision_limit - 1), ("spare", 0)):
        check_range(name, records[name], 0, high)
    keepers = records["keepers"]
    for name, low, high in (
        ("controller", -1, len(BOTS) - 1),
        ("health", 1, rules.health),
        ("oil", 0, rules.most_oil),
        ("lamps", 0, rules.most_lamps),
        ("stoked", 0, 1),
        ("tired", 0, _MANY),
        ("hand_size", 0, HAND),
        ("deck_size", 0, rules.deck),
        *((name, 0, _MANY) for name in COUNTERS),
    ):
        check_range(f"keepers.{name}", keepers[name], low, high)
    for part, (low, high) in enumerate(((-1, len(TYPES) - 1), (0, len(CARDS) - 1), (0, SLOTS), (0, NUM_TARGETS - 1))):
        check_range(f"keepers.last[{part}]", keepers["last"][..., part], low, high)
    for name in ("hand", "deck"):
        _check_pile(name, keepers[name], keepers[f"{name}_size"])
    if (np.diff(np.where(keepers["hand"] == 0, len(CARDS), keepers["hand"]), axis=-1) < 0).any():
        raise ValueError("state: a hand is not in the order of ids")
    _check_board(keepers["board"])


def _check_pile(name: str, cards: Records, sizes: Records) -> None:
    """So many cards, then zeros."""
    check_range(f"keepers.{name}", cards, 0, len(CARDS) - 1)
    is_card = np.arange(cards.shape[-1]) < sizes[..., None]
    if ((cards > 0) != is_card).any():
        raise ValueError(f"state: keepers.{name} does not hold keepers.{name}_size cards")


def _check_board(board: Records) -> None:
    for name, (low, high) in CREATURE_RANGES.items():
        check_range(f"board.{name}", board[name], low, high)
    is_there = board["card"] > 0
    if np.array([card.is_spell for card in CARDS])[board["card"]].any():
        raise ValueError("state: board.card is a spell")
    check_range("board.health", board["health"][is_there], 1, 999)
    check_range("health lost", (board["most"] - board["health"])[is_there], 0, 999)
    if any(board[name][~is_there].any() for name in CREATURE_RANGES):
        raise ValueError("state: an empty slot of board is not all 0")


FORMAT = BlobFormat(b"LGCARDS1", STATE_DTYPE, _check)
pack_state, unpack_state, regroup_states = FORMAT.pack, FORMAT.unpack, FORMAT.regroup
