"""Decisions and creatures in words, for playthroughs and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from league.envs.cards.catalogue import CARDS, KEYWORDS, NAMES, describe, has
from league.envs.cards.rules import NO_TARGET, OTHER_KEEPER, OTHER_SLOT, OWN_KEEPER, OWN_SLOT, TYPES


def name_of(card_id: int) -> str:
    """The card's name; nothing for no card."""
    return NAMES[card_id - 1].replace("_", " ") if card_id else ""


def target_name(target: int) -> str:
    """Whom a target names, as the seat sees it that chooses; nothing for nobody."""
    if target == NO_TARGET:
        return ""
    if target in (OTHER_KEEPER, OWN_KEEPER):
        return "its keeper" if target == OWN_KEEPER else "the other keeper"
    is_own = target >= OWN_SLOT
    return f"{'own' if is_own else 'other'} slot {target - (OWN_SLOT if is_own else OTHER_SLOT) + 1}"


def decision(action: Sequence[int], board: Any) -> str:
    """What somebody decides; `board` are its slots (elements of CREATURE_DTYPE) then or later."""
    kind, card, slot, target = (int(part) for part in action)
    if kind < 0:
        return ""
    aim = target_name(target)
    who = (name_of(int(board[slot - 1]["card"])) if slot else "") or "a creature"  # it may be gone by now
    return {
        "end": "ends the turn",
        "stoke": f"burns {name_of(card)} for a lamp",
        "play": f"plays {name_of(card)} into slot {slot}",
        "cast": f"casts {name_of(card)}" + (f" on {aim}" if aim else ""),
        "attack": f"{who} in slot {slot} attacks {aim}",
        "ability": f"{who} in slot {slot} uses its ability" + (f" on {aim}" if aim else ""),
    }[TYPES[kind]]


def creature(slot: Any) -> str:
    """An element of CREATURE_DTYPE, as in `eel 3/2`; a dot for an empty slot, `*` for who may act, `~` for snared."""
    if not slot["card"]:
        return "."
    marks = ("*" if slot["acts"] else "") + ("~" if slot["snared"] else "")
    return f"{name_of(int(slot['card']))} {slot['power']}/{slot['health']}{marks}"


def card_rows() -> list[tuple[str, ...]]:
    """(id, name, cost, power / health or what it is, what it does) of each card, for documents."""
    return [
        (
            str(card_id),
            name_of(card_id),
            str(card.cost),
            "spell" if card.is_spell else f"{card.power} / {card.health}",
            describe(card) or "-",
        )
        for card_id, card in enumerate(CARDS)
        if card_id
    ]


def keywords_of(card_id: int) -> list[str]:
    """The card's keywords."""
    return [keyword for keyword in KEYWORDS if has(CARDS[card_id], keyword)]
