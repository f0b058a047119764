"""The duel in slow, plain Python: the same rules and the same bits as the compiled ones, written to be read.

`docs/cards.md` tells the rules. Every effect is seen from the seat that causes it: `me` and `other`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from league.envs.cards.catalogue import CARDS, NAMES, TARGETS, Card, effect_name
from league.envs.cards.rules import (
    COPIES,
    NO_TARGET,
    NUM_TARGETS,
    OTHER_KEEPER,
    OTHER_SLOT,
    OWN_KEEPER,
    OWN_SLOT,
    SLOTS,
    TERMS,
    TYPES,
    CardRules,
)
from league.envs.cards.state import STATE_DTYPE
from league.types import DRAW, EXTERNAL
from tests.oracles.cards.bots import choose
from tests.oracles.cards.state import (
    END,
    Action,
    Creature,
    Keeper,
    other_slot,
    own_slot,
)
from tests.oracles.cards.view import metrics, observe
from tests.oracles.shared import Stream, mix, next_seed

_SOURCES = {
    "damage_dealt": ("me", ("damage_dealt",)),
    "damage_taken": ("other", ("damage_dealt",)),
    "creature_destroyed": ("me", ("destroyed",)),
    "creature_lost": ("me", ("lost",)),
    "card_played": ("me", ("played", "cast")),
    "card_burnt": ("me", ("burnt",)),
}
"""Reward term -> whose counters it follows."""


@dataclass
class Outcome:
    """What a decision brought; of an ended match also how."""

    terms: list[dict[str, int]]
    end_reason: str | None = None
    winner: int = DRAW
    ticks: int = 0
    seed: int = 0
    metrics: Any = None
    final_obs: Any = None


class ReferenceMatch:
    """One match, and after its end the next."""

    def __init__(self, rules: CardRules, seed: int) -> None:
        self.rules = rules
        self.keepers = [Keeper(Stream(0), rules.health), Keeper(Stream(0), rules.health)]
        self.start(seed)

    def start(self, seed: int) -> None:
        """A new match; the controllers remain. Both keepers have the same cards, each in an order of its own."""
        self.seed, self.rng, self.decisions = seed, Stream(mix(seed ^ 0xD1B54A32D192ED03)), 0
        self.began = self.rng.draw() >> 63
        cards = list(range(1, len(NAMES) + 1)) * COPIES
        self.rng.shuffle(cards)
        for seat, hand, oil in (
            (self.began, self.rules.first_hand, 0),
            (1 - self.began, self.rules.second_hand, self.rules.second_oil),
        ):
            keeper = Keeper(Stream(self.rng.draw()), self.rules.health, controller=self.keepers[seat].controller)
            keeper.deck, keeper.oil = cards[: self.rules.deck], oil
            self.rng.shuffle(keeper.deck)
            for _ in range(hand):
                keeper.draw()
            self.keepers[seat] = keeper
        self.start_turn(self.began)

    @property
    def me(self) -> Keeper:
        """Who is to act."""
        return self.keepers[self.acting]

    @property
    def other(self) -> Keeper:
        """Who waits."""
        return self.keepers[1 - self.acting]

    def start_turn(self, seat: int) -> None:
        """Oil, creatures that may act again, a card."""
        self.acting = seat
        keeper = self.keepers[seat]
        keeper.counts["turns"] += 1
        keeper.stoked = False
        keeper.give_oil(self.rules.income + keeper.lamps, self.rules)
        for _, creature in keeper.creatures():
            creature.acts, creature.snared = not creature.snared, False
        keeper.draw()

    # What is legal.

    def legal(self) -> list[Action]:
        """The decisions that the seat that is to act may take, each once, in the order of the mask."""
        me, found = self.me, [END]
        for card_id in sorted(set(me.hand)):
            card = CARDS[card_id]
            if not me.stoked and me.lamps < self.rules.most_lamps:
                found.append(Action(TYPES.index("stoke"), card_id))
            if me.oil < card.cost:
                continue
            if card.is_spell:
                cast = TYPES.index("cast")
                found += [Action(cast, card_id, 0, target) for target in self.targets(card.arrival, card.target)]
            else:
                play = TYPES.index("play")
                found += [Action(play, card_id, slot + 1) for slot in range(SLOTS) if not me.board[slot]]
        for slot, creature in me.creatures():
            if not creature.acts:
                continue
            attack, ability, card = TYPES.index("attack"), TYPES.index("ability"), creature.card
            found += [Action(attack, 0, slot + 1, target) for target in self.attacks(slot)]
            if card.ability and me.oil >= card.ability_cost:
                targets = self.targets(card.ability, card.ability_target)
                found += [Action(ability, 0, slot + 1, target) for target in targets]
        return found

    def targets(self, effect: int, kind: int) -> list[int]:
        """Whom an effect with this kind of target may be aimed at."""
        whom, what = list(TARGETS)[kind], effect_name(effect)
        return [target for target in range(NUM_TARGETS) if self._may_aim(whom, what, target)]

    def _may_aim(self, whom: str, what: str, target: int) -> bool:
        if whom == "none" or target == NO_TARGET:
            return whom == "none" and target == NO_TARGET
        if target == OTHER_KEEPER:
            return whom == "enemy"
        if target == OWN_KEEPER:
            return whom == "own" and (what != "heal" or self.me.health < self.rules.health)
        creature = self.creature_at(self.acting, target)
        if creature is None or (other_slot(target) is not None) != whom.startswith("enemy"):
            return False
        if what == "snare":
            return not creature.snared
        return creature.health < creature.most if what == "heal" else True

    def attacks(self, slot: int) -> list[int]:
        """Whom the creature in this slot of the seat that is to act may attack."""
        creature, others = self.me.board[slot], self.other.board
        if creature is None or creature.power <= 0:
            return []
        beside = [i for i in (slot - 1, slot, slot + 1) if 0 <= i < SLOTS]
        found = [OTHER_SLOT + i for i in beside if others[i]]
        opposite = others[slot]
        if creature.has("soaring"):
            is_open = opposite is None or not opposite.has("soaring")
        else:
            bulwarks = [other for other in (others[i] for i in beside) if other and other.has("bulwark")]
            is_open = opposite is None and not bulwarks
        return [*found, OTHER_KEEPER] if is_open else found

    def creature_at(self, seat: int, target: int) -> Creature | None:
        """The creature that a target names, as `seat` numbers them."""
        own, other = own_slot(target), other_slot(target)
        if own is not None:
            return self.keepers[seat].board[own]
        return None if other is None else self.keepers[1 - seat].board[other]

    # What decisions do.

    def perform(self, action: Action) -> None:
        """A legal decision of the seat that is to act."""
        seat, me = self.acting, self.me
        self.decisions += 1
        me.last = tuple(action)
        if action.kind == "end":
            self.start_turn(1 - seat)
        elif action.kind == "stoke":
            me.hand.remove(action.card)
            me.lamps += 1
            me.stoked = True
        elif action.kind == "play":
            self._play(action.card, action.slot - 1)
        elif action.kind == "cast":
            card = CARDS[action.card]
            me.hand.remove(action.card)
            me.pay(card.cost)
            me.counts["cast"] += 1
            self.run_effect(seat, card.arrival, card.arrival_amount, action.target)
        elif action.kind == "attack":
            self._fight(action.slot - 1, action.target)
        else:
            self._use(action.slot - 1, action.target)
        self._bury(seat)

    def _play(self, card_id: int, slot: int) -> None:
        me, card = self.me, CARDS[card_id]
        me.hand.remove(card_id)
        me.pay(card.cost)
        me.counts["played"] += 1
        me.board[slot] = Creature.of(card_id)
        self._run_arrival(slot, card)

    def _use(self, slot: int, target: int) -> None:
        me, creature = self.me, self.me.board[slot]
        assert creature is not None
        creature.acts = False
        me.pay(creature.card.ability_cost)
        me.counts["abilities"] += 1
        self.run_effect(self.acting, creature.card.ability, creature.card.ability_amount, target)

    def _run_arrival(self, slot: int, card: Card) -> None:
        """What a creature does when it is played; its targets follow from the slot."""
        opposite = OTHER_SLOT + slot if self.other.board[slot] else None
        match effect_name(card.arrival):
            case "none":
                targets = []
            case "damage":
                targets = [opposite or OTHER_KEEPER]
            case "snare":
                targets = [opposite] if opposite else []
            case "bolster":
                targets = [OWN_SLOT + i for i, _ in self.me.creatures() if abs(i - slot) == 1]
            case _:
                targets = [OWN_KEEPER]
        for target in targets:
            self.run_effect(self.acting, card.arrival, card.arrival_amount, target)

    def run_effect(self, seat: int, effect: int, amount: int, target: int) -> None:
        """One effect of `seat`, whose targets are as this seat numbers them. Who dies of it is buried later."""
        me, other = self.keepers[seat], self.keepers[1 - seat]
        creature = self.creature_at(seat, target)
        match effect_name(effect):
            case "damage" if creature:
                creature.hit(amount)
            case "damage":
                self._hit_keeper(1 - seat, amount)
            case "heal" if creature:
                creature.heal(amount)
            case "heal":
                me.heal(amount, self.rules)
            case "draw":
                for _ in range(amount):
                    me.draw()
            case "bolster" if creature:
                creature.bolster(amount)
            case "snare" if creature:
                creature.snared = True
            case "return" if creature:
                other.board[target - OTHER_SLOT] = None
                other.take(creature.card_id)
            case "sweep":
                for _, each in other.creatures():
                    each.hit(amount)
            case "oil":
                me.give_oil(amount, self.rules)

    def _hit_keeper(self, seat: int, damage: int) -> None:
        """Damage to a seat's keeper, dealt by the other."""
        self.keepers[seat].health -= damage
        self.keepers[1 - seat].counts["damage_dealt"] += damage

    def _fight(self, slot: int, target: int) -> None:
        """A creature attacks; two creatures hit each other at once."""
        me, other = self.me, self.other
        attacker, defender = me.board[slot], self.creature_at(self.acting, target)
        assert attacker is not None
        attacker.acts = False
        me.counts["attacks"] += 1
        if defender is None:
            self._hit_keeper(1 - self.acting, attacker.power)
            dealt = attacker.power
        else:
            dealt, taken = defender.hit(attacker.power), attacker.hit(defender.power)
            if attacker.has("venom") and dealt > 0:
                defender.health = 0
            if defender.has("venom") and taken > 0:
                attacker.health = 0
            if defender.has("drain"):
                other.heal(taken, self.rules)
        if attacker.has("drain"):
            me.heal(dealt, self.rules)

    def _bury(self, seat: int) -> None:
        """Destroyed creatures leave, those of `seat` first, and do what they do then."""
        for owner in (seat, 1 - seat):
            keeper = self.keepers[owner]
            for slot, creature in keeper.creatures():
                if creature.health > 0:
                    continue
                keeper.board[slot] = None
                keeper.counts["lost"] += 1
                self.keepers[1 - owner].counts["destroyed"] += 1
                card = creature.card
                target = OTHER_KEEPER if effect_name(card.farewell) == "damage" else OWN_KEEPER
                self.run_effect(owner, card.farewell, card.farewell_amount, target)

    # A step of play.

    def step(self, actions: list[list[int]]) -> Outcome:
        """One decision of the seat that is to act; an external one's is `actions[seat]`, which is legal."""
        controller = self.me.controller
        action = Action(*actions[self.acting]) if controller == EXTERNAL else choose(self, controller)
        before = [self._counted(seat) for seat in (0, 1)]
        self.perform(action)
        after = [self._counted(seat) for seat in (0, 1)]
        out = Outcome([{name: after[s][name] - before[s][name] for name in TERMS} for s in (0, 1)])
        out.end_reason, out.winner = self.end()
        if out.end_reason is not None:
            if out.winner != DRAW:
                out.terms[out.winner]["win"], out.terms[1 - out.winner]["win"] = 1, -1
            out.ticks, out.seed = self.decisions, self.seed
            out.metrics = [metrics(self, seat) for seat in (0, 1)]
            out.final_obs = [observe(self, seat) for seat in (0, 1)]
            self.start(next_seed(self.seed))
        return out

    def _counted(self, seat: int) -> dict[str, int]:
        """What each reward term follows; the difference is what a decision brought."""
        both = {"me": self.keepers[seat], "other": self.keepers[1 - seat]}
        found = {term: sum(both[whose].counts[name] for name in names) for term, (whose, names) in _SOURCES.items()}
        return {**found, "lamp": both["me"].lamps, "win": 0}

    def end(self) -> tuple[str | None, int]:
        """The end reason, None while the match goes on, and who has won by now."""
        left, right = (keeper.health for keeper in self.keepers)
        if left > 0 and right > 0:
            if self.decisions < self.rules.decision_limit:
                return None, DRAW
            return "time_limit", DRAW if left == right else int(right > left)
        return "keeper_fell", DRAW if left <= 0 and right <= 0 else int(right > 0)

    def observe(self, seat: int) -> Any:
        """What `seat` sees, (SIZE,) float64."""
        return observe(self, seat)

    def record(self) -> Any:
        """As an element of STATE_DTYPE."""
        keepers = [keeper.record() for keeper in self.keepers]
        parts = (self.seed, self.rng.state, keepers, self.acting, self.decisions, self.began, 0)
        return np.array(parts, STATE_DTYPE)[()]

    @classmethod
    def of_record(cls, rules: CardRules, record: Any) -> ReferenceMatch:
        """The match of an element of STATE_DTYPE."""
        found = cls(rules, int(record["seed"]))
        found.rng = Stream(int(record["rng"]))
        found.keepers = [Keeper.of_record(keeper) for keeper in record["keepers"]]
        found.acting, found.decisions = int(record["acting"]), int(record["decisions"])
        found.began = int(record["began"])
        return found
