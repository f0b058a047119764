"""The card duel as the engine sees it: options, spec and `make`."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from league.envs.cards.catalogue import CARDS, EFFECTS, KEYWORDS, NAMES, TARGETS
from league.envs.cards.layout import CHOICES, OBSERVATION, OPPONENT_SLICE, SIZE
from league.envs.cards.rules import (
    BOTS,
    END_REASONS,
    MAX_DECK,
    MAX_TUPLES,
    METRICS,
    TERMS,
    TICK_RATE,
    TYPES,
    CardRules,
)
from league.envs.drawing import Drawing
from league.types import ActionSpec, GameSpec, MatchBatch

__all__ = ["MEANINGS", "SPEC", "Options", "drawing", "make", "rules_of", "spec", "tell"]

VERSION = 1
WORDS = TYPES
"""What the first part of an action is called."""


class Options(BaseModel):
    """What a user may change about the duel. Equal options are the same game."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    health: int = Field(20, ge=5, le=60, description="health that each keeper starts with")
    deck: int = Field(20, ge=10, le=MAX_DECK, description="cards of each keeper, the first hand included")
    decision_limit: int = Field(100, ge=20, le=1000, description="decisions of both together until health decides")


ABOUT = "A card duel in turns, with hidden hands."
MEANINGS: dict[str, dict[str, str]] = {
    "action parts": {
        "type": ", ".join(TYPES),
        "card": "what is burnt for a lamp, played or cast: a card's id, else 0",
        "slot": "the own slot, 1 to 4, into which a creature is played or whose creature acts, else 0",
        "target": "0 nobody; 1 to 4 the opponent's slots, 5 its keeper; 6 to 9 the own slots, 10 the own keeper",
    },
    "types": {
        "end": "ends the turn",
        "stoke": "burns a card of the hand for a lamp, once a turn, up to four",
        "play": "puts a creature into an empty slot, for its oil",
        "cast": "casts a spell, for its oil",
        "attack": "a creature that may act attacks",
        "ability": "a creature that may act uses its ability instead, for the ability's oil",
    },
    "reward terms": {
        "win": "1 at the end of a match won, -1 of one lost",
        "damage_dealt": "points of damage dealt to the opponent's keeper",
        "damage_taken": "points of damage taken from the opponent",
        "creature_destroyed": "1 for each creature that the opponent loses",
        "creature_lost": "1 for each own one",
        "card_played": "1 for each creature played and each spell cast",
        "card_burnt": "1 for each card that found the hand full",
        "lamp": "1 for each lamp",
    },
    "metrics": {
        "damage_dealt": "points, to the opponent's keeper",
        "health_left": "points",
        "creatures_destroyed": "of the opponent",
        "creatures_lost": "own",
        "creatures_played": "creatures played",
        "spells_cast": "spells cast",
        "attacks": "attacks",
        "abilities": "abilities used",
        "lamps": "cards burnt for a lamp",
        "oil_spent": "for creatures, spells and abilities",
        "cards_burnt": "cards that found the hand full",
        "turns": "turns begun",
        "began": "1 where this seat began",
    },
    "bots": {
        "random": "any legal decision, each as likely",
        "greedy": "what gains most at once; knows no lamps",
        "curve": "burns cards for lamps early, then plays what its oil pays best, and attacks by what is traded",
    },
}
"""Names of the spec -> what they mean; `docs/cards.md` shows them."""

SPEC = GameSpec(
    name="cards",
    version=VERSION,
    obs_size=SIZE,
    opponent_slice=OPPONENT_SLICE,
    obs_range=(0.0, float(len(NAMES))),
    action=ActionSpec("legal_tuples", CHOICES, max_tuples=MAX_TUPLES),
    reward_terms=TERMS,
    metrics=METRICS,
    end_reasons=END_REASONS,
    bots=BOTS,
    tick_rate=TICK_RATE,
    anchor="greedy",
    floor="random",
    activity="damage_dealt",
    observation=OBSERVATION,
)


def spec(options: Options) -> GameSpec:
    """The spec of the duel; the options change nothing in it."""
    return SPEC


def rules_of(options: Options) -> CardRules:
    """Every number of the game under `options`."""
    return CardRules(health=options.health, deck=options.deck, decision_limit=options.decision_limit)


def options_hash(options: Options) -> bytes:
    """16 bytes of sha256 over the version, the rules and the cards: what a state blob must agree with."""
    cards = {name: dataclasses.asdict(card) for name, card in zip(NAMES, CARDS[1:], strict=True)}
    tables = [list(KEYWORDS), list(EFFECTS), list(TARGETS)]
    parts = [SPEC.name, SPEC.version, dataclasses.asdict(rules_of(options)), cards, tables]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()[:16]


def make(rows: int, threads: int, options: Options) -> MatchBatch:
    """`rows` matches side by side, stepped in up to `threads` threads.

    Raises:
        ValueError: rows or threads below 1.
    """
    from league.envs.cards.cards import CardsBatch

    batch: MatchBatch = CardsBatch(
        rows, threads, spec=spec(options), rules=rules_of(options), options_hash=options_hash(options)
    )
    return batch


def drawing(batch: Any, row: int, seat: int | None = None) -> Drawing:
    """A row of a batch of cards as it stands, as shapes; for a seat without the other hand."""
    from league.envs.cards.drawing import drawing

    return drawing(batch.record(row), batch.rules, seat)


def tell(batch: Any, row: int, seat: int, action: Sequence[int]) -> str:
    """A decision of a seat in words."""
    from league.envs.cards.words import decision

    return decision(action, batch.record(row)["keepers"][seat]["board"])
