"""The cards (`cards.toml`), read into one table that the compiled rules and the slow reference share."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

KEYWORDS = {
    "soaring": "attacks the keeper past any creature opposite but a soaring one",
    "bulwark": "keeps creatures from attacking its keeper through the slots beside it too, unless they soar",
    "swift": "may act in the turn in which it is played",
    "shell": "takes one damage less of every hit",
    "venom": "destroys any creature that it damages in a fight",
    "drain": "what it deals in a fight heals its keeper",
}
"""Keyword -> what it does; the index is its bit in `Card.keywords`."""
EFFECTS = {
    "none": "nothing",
    "damage": "deals damage",
    "heal": "gives health back, up to the first health; only who is wounded can be chosen",
    "draw": "draws cards",
    "bolster": "adds to power and health",
    "snare": "the creature sits out its next turn; who is snared cannot be chosen",
    "return": "puts a creature back into its owner's hand; a full hand burns it",
    "sweep": "deals damage to each of the opponent's creatures",
    "oil": "gives oil",
}
"""Effect -> what it does; the index is its id."""
TARGETS = {
    "none": "nobody",
    "enemy_creature": "a creature of the opponent",
    "enemy": "a creature of the opponent, or its keeper",
    "own_creature": "an own creature",
    "own": "an own creature, or the own keeper",
}
"""Kind of target -> what may be chosen; the index is its id."""
ARRIVALS = {
    "none": "",
    "damage": "{} damage to the creature opposite, or the keeper",
    "heal": "heals the own keeper by {}",
    "draw": "draws {}",
    "bolster": "its neighbours get +{0} power and +{0} health",
    "snare": "snares the creature opposite",
    "sweep": "{} damage to each of the opponent's creatures",
    "oil": "gives {} oil",
}
"""What a creature may do when it is played."""
FAREWELLS = {
    "none": "",
    "damage": "{} damage to the opponent's keeper",
    "heal": "heals the own keeper by {}",
    "draw": "draws {}",
    "oil": "gives {} oil",
}
"""What a creature may do when it is destroyed: nothing that destroys another."""


@dataclass(frozen=True)
class Card:
    """One card. Effects, targets and keywords are indices and bits of the tables above; 0 means none."""

    cost: int
    is_spell: int
    power: int
    health: int
    keywords: int
    arrival: int
    """Of a spell: its effect."""
    arrival_amount: int
    target: int
    """Of a spell."""
    ability: int
    ability_amount: int
    ability_cost: int
    ability_target: int
    farewell: int
    farewell_amount: int
    bonus: int
    """What bots add to a creature's worth for its keywords and its ability."""


def has(card: Card, keyword: str) -> bool:
    """Whether the card has the keyword."""
    return bool(card.keywords >> list(KEYWORDS).index(keyword) & 1)


def effect_name(effect: int) -> str:
    """The effect of this id."""
    return list(EFFECTS)[effect]


def read(text: str) -> dict[str, Card]:
    """The cards of a file like `cards.toml`, by name, in their order.

    Raises:
        ValueError: a card has a key, keyword, effect or target that there is not, or one where it means nothing.
    """
    cards = {}
    for name, row in tomllib.loads(text).items():
        try:
            cards[name] = _card(dict(row))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"cards: {name}: {error}; mend its table") from None
    return cards


def _card(row: dict[str, Any]) -> Card:
    cost, is_spell = row.pop("cost"), "spell" in row
    effect, amount, target = row.pop("spell") if is_spell else (*row.pop("arrival", ["none", 0]), "none")
    power, health = (0, 0) if is_spell else (row.pop("power"), row.pop("health"))
    keywords = [] if is_spell else row.pop("keywords", [])
    ability, ability_amount, ability_cost, ability_target = row.pop("ability", ["none", 0, 0, "none"])
    farewell, farewell_amount = row.pop("farewell", ["none", 0])
    if row or (is_spell and (ability != "none" or farewell != "none")):
        raise ValueError(f"keys {sorted(row) or ['ability or farewell']} mean nothing here")
    for kind, chosen, known in (
        ("arrival", effect, EFFECTS if is_spell else ARRIVALS),
        ("ability", ability, EFFECTS),
        ("farewell", farewell, FAREWELLS),
    ):
        if chosen not in known:
            raise ValueError(f"{kind} {chosen!r} is none of {', '.join(known)}")
    for aimed, at in ((effect, target), (ability, ability_target)):
        _check_aim(aimed, at, chooses=is_spell or aimed is ability)
    if not is_spell and health < 1:
        raise ValueError(f"health={health} must be at least 1")
    return Card(
        cost=cost,
        is_spell=int(is_spell),
        power=power,
        health=health,
        keywords=sum(1 << list(KEYWORDS).index(keyword) for keyword in keywords),
        arrival=list(EFFECTS).index(effect),
        arrival_amount=amount,
        target=list(TARGETS).index(target),
        ability=list(EFFECTS).index(ability),
        ability_amount=ability_amount,
        ability_cost=ability_cost,
        ability_target=list(TARGETS).index(ability_target),
        farewell=list(EFFECTS).index(farewell),
        farewell_amount=farewell_amount,
        bonus=len(keywords) + (2 if ability != "none" else 0),
    )


def _check_aim(effect: str, target: str, *, chooses: bool) -> None:
    """An effect on somebody needs a target that it can have."""
    if not chooses:
        return
    allowed = {
        "damage": ("enemy_creature", "enemy"),
        "heal": ("own_creature", "own"),
        "bolster": ("own_creature",),
        "snare": ("enemy_creature",),
        "return": ("enemy_creature",),
    }.get(effect, ("none",))
    if target not in allowed:
        raise ValueError(f"{effect} needs a target of {' or '.join(allowed)}, not {target!r}")


_CARDS = read(resources.files(__package__).joinpath("cards.toml").read_text(encoding="utf-8"))
NAMES: tuple[str, ...] = tuple(_CARDS)
"""By id - 1."""
IDS: dict[str, int] = {name: i + 1 for i, name in enumerate(NAMES)}
"""Ids begin at 1; 0 is no card."""
NONE = Card(*[0] * 15)
CARDS: tuple[Card, ...] = (NONE, *_CARDS.values())
"""By id."""


def describe(card: Card) -> str:
    """What a card does, in words."""
    if card.is_spell:
        return _of_effect(card.arrival, card.arrival_amount, card.target)
    parts = [keyword for keyword in KEYWORDS if has(card, keyword)]
    if card.arrival:
        parts.append("arrival: " + ARRIVALS[effect_name(card.arrival)].format(card.arrival_amount))
    if card.ability:
        what = _of_effect(card.ability, card.ability_amount, card.ability_target)
        parts.append(f"ability ({card.ability_cost} oil): {what}")
    if card.farewell:
        parts.append("farewell: " + FAREWELLS[effect_name(card.farewell)].format(card.farewell_amount))
    return "; ".join(parts)


def _of_effect(effect: int, amount: int, target: int) -> str:
    whom = list(TARGETS.values())[target]
    return {
        "none": "",
        "damage": f"{amount} damage to {whom}",
        "heal": f"heals {whom} by {amount}",
        "draw": f"draws {amount}",
        "bolster": f"{whom} gets +{amount} power and +{amount} health",
        "snare": f"snares {whom}",
        "return": f"returns {whom}",
        "sweep": f"{amount} damage to each of the opponent's creatures",
        "oil": f"gives {amount} oil",
    }[effect_name(effect)]
