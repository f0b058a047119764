"""The bots. Gains are in points: a creature's worth is twice its power, its health and a bonus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from league.envs.cards.catalogue import CARDS, Card, effect_name, has
from league.envs.cards.rules import BOTS, HAND, OTHER_KEEPER, OTHER_SLOT, OWN_KEEPER

if TYPE_CHECKING:
    from tests.oracles.cards.match import ReferenceMatch
    from tests.oracles.cards.state import Action, Creature

WINS = 1000
"""What the last blow gains."""
LAST_LAMP_TURN = 9
LAMP_GAIN = 22


def choose(match: ReferenceMatch, bot: int) -> Action:
    """What a bot decides: `random` any legal decision, the others that of the most gain, the first of equals."""
    legal = match.legal()
    if BOTS[bot] == "random":
        return legal[match.me.rng.below(len(legal))]
    gain_of = greedy_gain if BOTS[bot] == "greedy" else curve_gain
    gains = [0, *(gain_of(match, action) for action in legal[1:])]
    return legal[gains.index(max(gains))]


def greedy_gain(match: ReferenceMatch, action: Action) -> int:
    """What a decision gains at once; little for a lamp, and only for a card that is too dear now."""
    card = CARDS[action.card]
    match action.kind:
        case "stoke":
            return int(card.cost > match.me.oil)
        case "play":
            return card_worth(card) + gain_of_arrival(match, action.slot - 1, card)
        case "cast":
            return gain_of_effect(match, card.arrival, card.arrival_amount, action.target)
        case "attack":
            return gain_of_fight(match, action.slot - 1, action.target)
    card = _creature(match, action.slot - 1).card
    return gain_of_effect(match, card.ability, card.ability_amount, action.target)


def curve_gain(match: ReferenceMatch, action: Action) -> int:
    """Lamps early, creatures where they face the right one, spells for more than they cost, attacks by the trade."""
    card = CARDS[action.card]
    match action.kind:
        case "stoke":
            return lamp_gain(match, card)
        case "play":
            slot = action.slot - 1
            return card_worth(card) + gain_of_arrival(match, slot, card) + gain_of_slot(match, slot, card)
        case "cast":
            return gain_of_effect(match, card.arrival, card.arrival_amount, action.target) - card.cost
        case "attack":
            if action.target == OTHER_KEEPER and open_damage(match) >= match.other.health:
                return WINS
            return gain_of_fight(match, action.slot - 1, action.target)
    card = _creature(match, action.slot - 1).card
    return gain_of_effect(match, card.ability, card.ability_amount, action.target) - card.ability_cost


def lamp_gain(match: ReferenceMatch, card: Card) -> int:
    """Of burning a card for a lamp: in early turns, the less the card is worth and the later it could be played."""
    me = match.me
    if len(me.hand) < 2 or me.counts["turns"] > LAST_LAMP_TURN:
        return -1
    return LAMP_GAIN - card_worth(card) + 2 * max(0, card.cost - me.oil)


def worth(creature: Creature) -> int:
    """Of a creature on the board."""
    return 2 * creature.power + creature.health + creature.card.bonus


def card_worth(card: Card) -> int:
    """Of a card in the hand."""
    return 2 * card.cost + 1 if card.is_spell else 2 * card.power + card.health + card.bonus


def gain_of_hit(creature: Creature, damage: int) -> int:
    """Of damage to a creature: all its worth where it dies of it, else the damage."""
    felt = creature.felt(damage)
    return worth(creature) if felt >= creature.health else felt


def gain_of_face(match: ReferenceMatch, damage: int) -> int:
    """Of damage to the opponent's keeper."""
    return WINS if damage >= match.other.health else 2 * damage


def gain_of_fight(match: ReferenceMatch, slot: int, target: int) -> int:
    """What an attack takes from the opponent, less what it costs."""
    attacker, defender = _creature(match, slot), match.creature_at(match.acting, target)
    if defender is None:
        return gain_of_face(match, attacker.power)
    return _gain_of_blow(attacker, defender) - _gain_of_blow(defender, attacker)


def _gain_of_blow(by: Creature, to: Creature) -> int:
    return worth(to) if by.has("venom") and to.felt(by.power) > 0 else gain_of_hit(to, by.power)


def gain_of_arrival(match: ReferenceMatch, slot: int, card: Card) -> int:
    """Of what a creature does when it is played into a slot."""
    effect, amount, opposite = card.arrival, card.arrival_amount, match.other.board[slot]
    match effect_name(effect):
        case "none":
            return 0
        case "damage" | "snare":
            if opposite is None and effect_name(effect) == "snare":
                return 0
            return gain_of_effect(match, effect, amount, OTHER_SLOT + slot if opposite else OTHER_KEEPER)
        case "bolster":
            return 3 * amount * sum(abs(i - slot) == 1 for i, _ in match.me.creatures())
    return gain_of_effect(match, effect, amount, OWN_KEEPER)


def gain_of_slot(match: ReferenceMatch, slot: int, card: Card) -> int:
    """Whom a creature would face there: an open way for who hits, a strong attacker for who can stand in its way."""
    opposite = match.other.board[slot]
    if opposite is None:
        return 0 if has(card, "bulwark") else card.power
    if has(card, "soaring") and not opposite.has("soaring"):
        return card.power
    return 2 * (opposite.felt(card.power) >= opposite.health) + opposite.power


def gain_of_effect(match: ReferenceMatch, effect: int, amount: int, target: int) -> int:
    """Of one effect of the seat that is to act."""
    me, other, creature = match.me, match.other, match.creature_at(match.acting, target)
    match effect_name(effect):
        case "damage":
            return gain_of_hit(creature, amount) if creature else gain_of_face(match, amount)
        case "heal":
            return min(amount, creature.most - creature.health if creature else match.rules.health - me.health)
        case "draw":
            return 3 * min(amount, HAND - len(me.hand), len(me.deck))
        case "bolster":
            return 3 * amount
        case "snare" if creature:
            return creature.power
        case "return" if creature:
            return worth(creature) - 3
        case "sweep":
            return sum(gain_of_hit(each, amount) for _, each in other.creatures())
        case "oil":
            return amount
    return 0


def open_damage(match: ReferenceMatch) -> int:
    """What the creatures that may act can deal to the other keeper now."""
    able = [(slot, creature) for slot, creature in match.me.creatures() if creature.acts]
    return sum(creature.power for slot, creature in able if OTHER_KEEPER in match.attacks(slot))


def _creature(match: ReferenceMatch, slot: int) -> Creature:
    creature = match.me.board[slot]
    assert creature is not None
    return creature
