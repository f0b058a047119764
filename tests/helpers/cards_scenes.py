"""States of the card duel that play seldom reaches, and small ways to look into a batch of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from league.envs.blob import HEADER
from league.envs.cards.catalogue import CARDS, IDS
from league.envs.cards.env import Options, options_hash, rules_of
from league.envs.cards.rules import HAND, MAX_DECK, MAX_TUPLES, SLOTS
from league.envs.cards.state import STATE_DTYPE, pack_state

CREATURES = [card_id for card_id, card in enumerate(CARDS) if card_id and not card.is_spell]
ALL_CARDS = list(range(1, len(CARDS)))


def stirred(rng: np.random.Generator, rows: int, options: Options) -> Any:
    """Records (rows,) of matches in the middle: any creatures, wounded, snared, ready; any hands; few points left."""
    records, rules = np.zeros(rows, STATE_DTYPE), rules_of(options)
    records["seed"], records["rng"] = rng.integers(2**63, size=rows), rng.integers(2**63, size=rows)
    records["acting"], records["began"] = rng.integers(2, size=rows), rng.integers(2, size=rows)
    records["decisions"] = rng.integers(rules.decision_limit, size=rows)
    for record in records:
        for keeper in record["keepers"]:
            fill(keeper, rng, rules)
    return records


def fill(keeper: Any, rng: np.random.Generator, rules: Any) -> None:
    """Any state of one keeper."""
    keeper["rng"], keeper["controller"] = rng.integers(2**63), -1
    keeper["health"] = rng.integers(1, rng.choice([4, rules.health + 1]))
    keeper["oil"], keeper["lamps"] = rng.integers(rules.most_oil + 1), rng.integers(rules.most_lamps + 1)
    keeper["stoked"], keeper["tired"] = rng.integers(2), rng.integers(3)
    keeper["last"] = (-1, 0, 0, 0)
    for slot in keeper["board"]:
        if rng.random() < 0.7:
            card_id = int(rng.choice(CREATURES))
            most = CARDS[card_id].health + rng.integers(3)
            slot["card"], slot["power"] = card_id, CARDS[card_id].power + rng.integers(2)
            slot["most"], slot["health"] = most, rng.integers(1, most + 1)
            slot["acts"], slot["snared"] = rng.random() < 0.7, rng.random() < 0.3
    if rng.random() < 0.15:
        keeper["board"][:] = keeper["board"][0]
    put(keeper, "hand", sorted(rng.choice(ALL_CARDS, rng.integers(HAND + 1)).tolist()))
    put(keeper, "deck", rng.choice(ALL_CARDS, int(rng.choice([0, 0, 1, 5, rules.deck]))).tolist())


def put(keeper: Any, name: str, cards: list[int]) -> None:
    """Gives a keeper this hand or deck."""
    size = {"hand": HAND, "deck": MAX_DECK}[name]
    keeper[name], keeper[f"{name}_size"] = cards + [0] * (size - len(cards)), len(cards)


def place(keeper: Any, slot: int, name: str, **changes: int) -> None:
    """A creature that may act into a slot, counted from 1."""
    card = CARDS[IDS[name]]
    row = {"card": IDS[name], "power": card.power, "health": card.health, "most": card.health, "acts": 1, **changes}
    for key, value in row.items():
        keeper["board"][slot - 1][key] = value


def scene(options: Options = Options()) -> Any:
    """A record with empty boards and hands, oil for everything, decks of shrimps; seat 0 is to act."""
    record, rules = np.zeros(1, STATE_DTYPE), rules_of(options)
    for keeper in record["keepers"][0]:
        keeper["controller"], keeper["health"], keeper["oil"] = -1, rules.health, rules.most_oil
        keeper["last"] = (-1, 0, 0, 0)
        put(keeper, "deck", [IDS["shrimp"]] * 5)
    return record


def restore(batch: Any, records: Any, options: Options = Options()) -> None:
    """Gives a batch these records."""
    batch.set_state(pack_state(records, options_hash(options)))


def records_of(batch: Any) -> Any:
    """The records of a batch."""
    return np.frombuffer(batch.get_state(), STATE_DTYPE, offset=HEADER.size)


def tuples_of(batch: Any, row: int, seat: int | None = None) -> list[tuple[int, ...]]:
    """The legal tuples of a seat, by default of the one that is to act."""
    seat = int(batch.to_act[row].argmax()) if seat is None else seat
    tuples = batch.mask[row, seat].reshape(MAX_TUPLES, 4)
    return [tuple(map(int, line)) for line in tuples if line[0] >= 0]


def act(batch: Any, *action: int, row: int = 0) -> None:
    """One decision of the seat that is to act in `row`."""
    batch.actions[row, batch.to_act[row].argmax()] = action
    batch.step()


assert SLOTS == 4, "the scenes above"
