"""The nouns of the duel's slow reference: random streams, creatures, keepers and decisions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from league.envs.cards.catalogue import CARDS, Card, has
from league.envs.cards.rules import (
    HAND,
    MAX_DECK,
    OTHER_KEEPER,
    OTHER_SLOT,
    OWN_KEEPER,
    OWN_SLOT,
    SLOTS,
    TYPES,
    CardRules,
)
from league.envs.cards.state import COUNTERS
from league.types import EXTERNAL
from tests.oracles.shared import Stream


class Action(NamedTuple):
    """One decision; slots count from 1, and 0 is no card, no slot, nobody."""

    type: int
    card: int = 0
    slot: int = 0
    target: int = 0

    @property
    def kind(self) -> str:
        """The type's name."""
        return TYPES[self.type]


END = Action(TYPES.index("end"))


@dataclass
class Creature:
    """A creature in a slot; `most` is its health without wounds."""

    card_id: int
    power: int
    health: int
    most: int
    acts: bool = False
    snared: bool = False

    @classmethod
    def of(cls, card_id: int) -> Creature:
        """As it comes out of the hand."""
        card = CARDS[card_id]
        return cls(card_id, card.power, card.health, card.health, acts=has(card, "swift"))

    @classmethod
    def of_record(cls, record: Any) -> Creature:
        """The creature of an element of CREATURE_DTYPE."""
        card_id, power, health, most, acts, snared = (int(value) for value in record.item())
        return cls(card_id, power, health, most, bool(acts), bool(snared))

    @property
    def card(self) -> Card:
        """What is printed on it."""
        return CARDS[self.card_id]

    def has(self, keyword: str) -> bool:
        """Whether its card has the keyword."""
        return has(self.card, keyword)

    def felt(self, damage: int) -> int:
        """What it feels of so much damage."""
        return max(0, damage - self.has("shell"))

    def hit(self, damage: int) -> int:
        """Deals damage to it, and tells what it felt."""
        felt = self.felt(damage)
        self.health -= felt
        return felt

    def heal(self, amount: int) -> None:
        """Never beyond `most`."""
        self.health = min(self.most, self.health + amount)

    def bolster(self, amount: int) -> None:
        """For good."""
        self.power += amount
        self.health += amount
        self.most += amount


@dataclass
class Keeper:
    """One player."""

    rng: Stream
    health: int
    oil: int = 0
    lamps: int = 0
    stoked: bool = False
    tired: int = 0
    last: tuple[int, ...] = (-1, 0, 0, 0)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))
    board: list[Creature | None] = field(default_factory=lambda: [None] * SLOTS)
    hand: list[int] = field(default_factory=list)
    """In the order of ids."""
    deck: list[int] = field(default_factory=list)
    """The top card is the last."""
    controller: int = EXTERNAL

    def creatures(self) -> list[tuple[int, Creature]]:
        """(index of the slot, creature), from the first slot on."""
        return [(slot, creature) for slot, creature in enumerate(self.board) if creature]

    def take(self, card_id: int) -> None:
        """Puts a card into the hand; a full one burns it."""
        if len(self.hand) == HAND:
            self.counts["burnt"] += 1
        else:
            self.hand = sorted([*self.hand, card_id])

    def draw(self) -> None:
        """Takes the top card; an empty deck costs health, each time one more."""
        if self.deck:
            self.take(self.deck.pop())
        else:
            self.tired += 1
            self.health -= self.tired

    def pay(self, cost: int) -> None:
        """Spends oil."""
        self.oil -= cost
        self.counts["oil_spent"] += cost

    def give_oil(self, amount: int, rules: CardRules) -> None:
        """Never more than can be kept."""
        self.oil = min(rules.most_oil, self.oil + amount)

    def heal(self, amount: int, rules: CardRules) -> None:
        """Never beyond the first health."""
        self.health = min(rules.health, self.health + amount)

    def record(self) -> tuple[Any, ...]:
        """As STATE_DTYPE has it."""
        board = [
            (c.card_id, c.power, c.health, c.most, c.acts, c.snared) if c else (0, 0, 0, 0, 0, 0) for c in self.board
        ]
        return (
            self.rng.state,
            self.controller,
            self.health,
            self.oil,
            self.lamps,
            self.stoked,
            self.tired,
            len(self.hand),
            len(self.deck),
            self.last,
            *(self.counts[name] for name in COUNTERS),
            board,
            self.hand + [0] * (HAND - len(self.hand)),
            self.deck + [0] * (MAX_DECK - len(self.deck)),
        )

    @classmethod
    def of_record(cls, record: Any) -> Keeper:
        """The keeper of an element of KEEPER_DTYPE."""
        board = [Creature.of_record(row) if row["card"] else None for row in record["board"]]
        return cls(
            rng=Stream(int(record["rng"])),
            health=int(record["health"]),
            oil=int(record["oil"]),
            lamps=int(record["lamps"]),
            stoked=bool(record["stoked"]),
            tired=int(record["tired"]),
            last=tuple(record["last"].tolist()),
            counts={name: int(record[name]) for name in COUNTERS},
            board=board,
            hand=record["hand"][: record["hand_size"]].tolist(),
            deck=record["deck"][: record["deck_size"]].tolist(),
            controller=int(record["controller"]),
        )


def own_slot(target: int) -> int | None:
    """The index of the own slot that a target names, if it names one."""
    return target - OWN_SLOT if OWN_SLOT <= target < OWN_KEEPER else None


def other_slot(target: int) -> int | None:
    """The index of the opponent's slot that a target names, if it names one."""
    return target - OTHER_SLOT if OTHER_SLOT <= target < OTHER_KEEPER else None
