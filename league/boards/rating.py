"""The ratings of one game, from the evaluation games of a store."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from league.acts import act
from league.maths.davidson import Prior
from league.maths.ratings import DEFAULT_PRIOR, PairCounts, Ratings, bradley_terry
from league.store.reading import Reader
from league.store.rows import Sampling

Games = tuple[PairCounts, list[list[str]], str | None]
"""Counts of games, lineages and the anchor, as `rate_counts` takes them."""


def rate(store: Reader, game_id: str, sampling: Sampling = "sample") -> Ratings:
    """The ratings of one game: Bradley-Terry's over all its evaluation games whose nets chose by `sampling`.

    Each snapshot is believed to be like the one before it that has games; the game's anchor is held at 1000.

    Raises:
        StoreError: the store cannot be read.
    """
    return rate_counts(*games_of(store, game_id, sampling))


def games_of(store: Reader, game_id: str, sampling: Sampling) -> Games:
    """What the ratings of a game are worked out from."""
    with store.reading():
        counts, lineages = store.pair_counts(game_id, sampling=sampling), store.lineages(game_id)
        return counts, lineages, store.game(game_id).anchor


def rate_counts(
    counts: PairCounts,
    lineages: Sequence[Sequence[str]],
    anchor: str | None,
    also: Sequence[str] = (),
    prior: Prior = DEFAULT_PRIOR,
) -> Ratings:
    """The ratings of one game from its counts and its lineages of snapshots, oldest first.

    anchor: the agent held at 1000 where it has played; None: the mean is.
    also: agents that are rated even without a game.
    """
    played = {*counts.seat0, *counts.seat1, *also}
    neighbours = [pair for lineage in lineages for pair in pairwise(agent for agent in lineage if agent in played)]
    with act("rate"):
        return bradley_terry(counts, anchor, lineage=neighbours, agents=also, prior=prior)
