"""Leduc hold'em (Southey et al. 2005, "Bayes' bluff: opponent modelling in poker"): six cards, two rounds.

Two each of three ranks; raises of 2 and 4 chips in the two rounds, at most two a round; an open card before the
second. The rest is in `poker.py`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from league.envs.classic.poker import (
    ACTIONS,
    BOT_MEANINGS,
    PokerRules,
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
RULES = PokerRules("leduc", ranks=3, suits=2, bets=(2, 4), raises=2)
BOTS = ("fold", "call", "random")


MEANINGS = {"bots": BOT_MEANINGS}
ABOUT = "Leduc poker: six cards, two rounds of bets."


class Options(BaseModel):
    """What changes the game."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    deals: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Deals of a match; who acts first alternates."""


def spec(options: Options) -> GameSpec:
    """The game's figures."""
    return make_spec(RULES, BOTS, options.deals)


def make(rows: int, threads: int, options: Options) -> PokerBatch:
    """`rows` matches; `threads` is not needed, as one call steps them all."""
    del threads
    return PokerBatch(rows, RULES, simple_bots(RULES, betting(RULES)), options, options.deals)


def tree(options: Options) -> GameTree:
    """One deal as a tree: 288 information sets, suits left out.

    Raises:
        ValueError: `deals` is more than 1.
    """
    if options.deals != 1:
        raise ValueError(f"env.deals={options.deals}: the tree is of one deal; --set env.deals=1")
    return game_tree(RULES)
