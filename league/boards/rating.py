"""The ratings of one game, from the evaluation games of a store."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from league.maths.davidson import Prior
from league.maths.pairs import PairCounts
from league.maths.ratings import DEFAULT_PRIOR, Ratings, bradley_terry, payoff_ratings
from league.runtime.phases import phase
from league.store.reading import Reader
from league.store.rows import GameRow, Sampling

Games = tuple[PairCounts, list[list[str]], GameRow]
"""Counts of games, lineages and the game, as `rate_counts` takes them."""


def rate(store: Reader, game_id: str, sampling: Sampling = "sample") -> Ratings:
    """The ratings of one game, over all its evaluation games whose nets chose by `sampling`; see `rate_counts`.

    Raises:
        StoreError: the store cannot be read.
    """
    return rate_counts(*games_of(store, game_id, sampling))


def games_of(store: Reader, game_id: str, sampling: Sampling) -> Games:
    """What the ratings of a game are worked out from."""
    with store.reading():
        counts, lineages = store.pair_counts(game_id, sampling=sampling), store.lineages(game_id)
        return counts, lineages, store.game(game_id)


def is_paid(counts: PairCounts, game: GameRow) -> bool:
    """Whether agents are rated by what they are paid: the game has a utility, and all games counted have a payoff."""
    return game.utility is not None and (counts.sums is None or counts.sums.is_paid)


def rate_counts(
    counts: PairCounts,
    lineages: Sequence[Sequence[str]],
    game: GameRow,
    also: Sequence[str] = (),
    prior: Prior = DEFAULT_PRIOR,
) -> Ratings:
    """The ratings of one game from its counts and its lineages of snapshots, oldest first.

    Of a game with a utility they are mean payoffs, its anchor held at 0, where every game counted has a payoff. Of
    others they are Bradley-Terry's, the anchor held at 1000, and each snapshot is believed to be like the one before it
    that has games.

    game: whose anchor is held, where it has played; else the mean is.
    also: agents that are rated even without a game.
    """
    if is_paid(counts, game):
        with phase("rate"):
            return payoff_ratings(counts, game.anchor, agents=also)
    played = {*counts.seat0, *counts.seat1, *also}
    neighbours = [pair for lineage in lineages for pair in pairwise(agent for agent in lineage if agent in played)]
    with phase("rate"):
        return bradley_terry(counts, game.anchor, lineage=neighbours, agents=also, prior=prior)
