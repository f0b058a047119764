"""What the players see of the slow reference, and what a finished match of it tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from league.envs.cards.catalogue import KEYWORDS, NAMES
from league.envs.cards.layout import CREATURE_SIZE
from league.envs.cards.rules import HAND, METRICS, NUM_TARGETS, SLOTS, TYPES

if TYPE_CHECKING:
    from tests.oracles.cards.match import ReferenceMatch
    from tests.oracles.cards.state import Creature


def observe(match: ReferenceMatch, seat: int) -> list[float]:
    """What `seat` sees: the parts of `layout.py`."""
    return [*_private(match, seat), *_public(match, seat), *_public(match, 1 - seat)]


def _private(match: ReferenceMatch, seat: int) -> list[float]:
    hand, limit = match.keepers[seat].hand, match.rules.decision_limit
    return [
        *hand,
        *[0] * (HAND - len(hand)),
        *_counts(hand),
        float(match.acting == seat),
        float(match.began == seat),
        (limit - match.decisions) / limit,
    ]


def _public(match: ReferenceMatch, seat: int) -> list[float]:
    """Of one seat, for both."""
    keeper, rules = match.keepers[seat], match.rules
    kind, card, slot, target = keeper.last
    return [
        *(creature.card_id if creature else 0 for creature in keeper.board),
        card,
        *(number for creature in keeper.board for number in _creature(creature)),
        max(0, keeper.health) / rules.health,
        keeper.oil / rules.most_oil,
        keeper.lamps / rules.most_lamps,
        float(keeper.stoked),
        keeper.tired / 8,
        len(keeper.hand) / HAND,
        len(keeper.deck) / rules.deck,
        *(float(i == kind) for i in range(len(TYPES))),
        *(float(i + 1 == slot) for i in range(SLOTS)),
        *(float(i + 1 == target) for i in range(NUM_TARGETS - 1)),
        *_counts(keeper.hand + keeper.deck),
    ]


def _creature(creature: Creature | None) -> list[float]:
    if creature is None:
        return [0.0] * CREATURE_SIZE
    return [
        creature.power / 8,
        creature.health / 8,
        (creature.most - creature.health) / 8,
        float(creature.acts),
        float(creature.snared),
        *(float(creature.has(keyword)) for keyword in KEYWORDS),
    ]


def _counts(cards: list[int]) -> list[float]:
    """How many of each card, / 2."""
    found = [0.0] * (len(NAMES) + 1)
    for card_id in cards:
        found[card_id] += 0.5
    return found[1:]


def metrics(match: ReferenceMatch, seat: int) -> list[Any]:
    """Of a finished match, in the order of METRICS."""
    keeper = match.keepers[seat]
    counts = keeper.counts
    found = {
        "damage_dealt": counts["damage_dealt"],
        "health_left": max(0, keeper.health),
        "creatures_destroyed": counts["destroyed"],
        "creatures_lost": counts["lost"],
        "creatures_played": counts["played"],
        "spells_cast": counts["cast"],
        "attacks": counts["attacks"],
        "abilities": counts["abilities"],
        "lamps": keeper.lamps,
        "oil_spent": counts["oil_spent"],
        "cards_burnt": counts["burnt"],
        "turns": counts["turns"],
        "began": int(match.began == seat),
    }
    return [found[name] for name in METRICS]
