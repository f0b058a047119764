"""Kuhn poker (Kuhn 1950, "A simplified two-person poker"): three cards, one round, one bet of one chip.

The first to act loses 1/18 a deal where both play well. Not to bet is `call` (a check); the rest is in `poker.py`.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from league.envs.classic.poker import (
    ACTIONS,
    BOT_MEANINGS,
    CALL,
    FOLD,
    RAISE,
    WAIT,
    Betting,
    PokerRules,
    Strategy,
    betting,
    drawing,
    game_tree,
    make_spec,
    simple_bots,
)
from league.envs.classic.poker_batch import PokerBatch
from league.types import GameSpec, GameTree

__all__ = ["BOTS", "RULES", "WORDS", "Options", "drawing", "make", "spec", "tree"]

WORDS = ACTIONS
RULES = PokerRules("kuhn", ranks=3, suits=1, bets=(1,), raises=1)
BOTS = ("fold", "call", "random", "nash")
JACK, QUEEN, KING = range(3)


MEANINGS = {"bots": BOT_MEANINGS | {"nash": "an equilibrium; env.bluff says which"}}
ABOUT = "Kuhn poker: three cards, one bet."


class Options(BaseModel):
    """What changes the game."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    deals: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Deals of a match; who acts first alternates."""
    bluff: Annotated[float, Field(ge=0.0, le=1 / 3)] = 0.2
    """How often the bot `nash` bets a jack when it acts first: alpha of Kuhn's family of equilibria."""


def spec(options: Options) -> GameSpec:
    """The game's figures."""
    return make_spec(RULES, BOTS, options.deals)


def make(rows: int, threads: int, options: Options) -> PokerBatch:
    """`rows` matches; `threads` is not needed, as one call steps them all."""
    del threads
    table = betting(RULES)
    bots = simple_bots(RULES, table) | {"nash": equilibrium(table, options.bluff)}
    return PokerBatch(rows, RULES, bots, options, options.deals)


def tree(options: Options) -> GameTree:
    """One deal as a tree: 12 information sets.

    Raises:
        ValueError: `deals` is more than 1.
    """
    if options.deals != 1:
        raise ValueError(f"env.deals={options.deals}: the tree is of one deal; --set env.deals=1")
    return game_tree(RULES)


def equilibrium(table: Betting, bluff: float) -> Strategy:
    """Kuhn's equilibria: the first to act bets a jack with probability `bluff` = alpha, from 0 to 1/3.

    It bets a king with 3 alpha, a queen never, and calls a bet with the queen with alpha + 1/3, always with the king.
    The second's is the only one: it bets a jack with 1/3 after a check, calls with a queen with 1/3.
    """
    start = 0
    after_check, after_bet = table.child[start, CALL], table.child[start, RAISE]
    raised = table.child[after_check, RAISE]
    result = np.zeros((len(table.mover), RULES.ranks, RULES.ranks, len(ACTIONS)))
    result[..., WAIT] = 1.0
    for place, other, probability in (
        (start, CALL, {JACK: bluff, QUEEN: 0.0, KING: 3 * bluff}),
        (after_check, CALL, {JACK: 1 / 3, QUEEN: 0.0, KING: 1.0}),
    ):
        for card, bet in probability.items():
            result[place, card, :] = 0.0
            result[place, card, :, [RAISE, other]] = np.array([bet, 1.0 - bet])[:, None]
    for place, probability in (
        (raised, {JACK: 0.0, QUEEN: bluff + 1 / 3, KING: 1.0}),
        (after_bet, {JACK: 0.0, QUEEN: 1 / 3, KING: 1.0}),
    ):
        for card, call in probability.items():
            result[place, card, :] = 0.0
            result[place, card, :, [CALL, FOLD]] = np.array([call, 1.0 - call])[:, None]
    return result
