"""Ratings against libraries that others wrote, on random leagues; skipped without `pip install -e '.[verify]'`."""

from __future__ import annotations

import numpy as np
import pytest

from league.davidson import Prior
from league.ratings import PairCounts, bradley_terry

NO_PRIOR = Prior(draws=1e-8, lineage=1e-8, seat=1e-6, decided=1e-8)
"""As good as none: those libraries find the likeliest parameters alone, and know no seats."""


def league(seed: int, draws: bool) -> tuple[PairCounts, list[str]]:
    """Eight agents, everybody against everybody, nobody unbeaten."""
    rng = np.random.default_rng(seed)
    names = [f"a{k}" for k in range(8)]
    i, j = np.triu_indices(8, k=1)
    wins, losses = rng.integers(1, 15, (2, len(i)))
    drawn = rng.integers(1, 6, len(i)) if draws else np.zeros_like(wins)
    return PairCounts(tuple(names[k] for k in i), tuple(names[k] for k in j), wins, drawn, losses), names


@pytest.mark.parametrize("seed", range(5))
def test_choix_agrees(seed: int) -> None:
    """`choix.opt_pairwise` finds the same log-odds from the single games."""
    choix = pytest.importorskip("choix")
    counts, names = league(seed, draws=False)
    games = []
    for a, b, wins, losses in zip(counts.seat0, counts.seat1, counts.wins, counts.losses, strict=True):
        i, j = names.index(a), names.index(b)
        games += [(i, j)] * int(wins) + [(j, i)] * int(losses)
    theirs = choix.opt_pairwise(8, games)
    ours = bradley_terry(counts, prior=NO_PRIOR).model.strength
    np.testing.assert_allclose(ours - ours.mean(), theirs - theirs.mean(), atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("draws", [False, True])
def test_evalica_agrees(seed: int, draws: bool) -> None:
    """`evalica.newman` (draws; Newman 2023, JMLR 24:1) and `bradley_terry` find the same strengths and ties."""
    evalica = pytest.importorskip("evalica")
    counts, _ = league(seed, draws)
    xs, ys, winners = [], [], []
    for a, b, *outcomes in zip(counts.seat0, counts.seat1, counts.wins, counts.draws, counts.losses, strict=True):
        for winner, number in zip((evalica.Winner.X, evalica.Winner.Draw, evalica.Winner.Y), outcomes, strict=True):
            xs, ys, winners = xs + [a] * int(number), ys + [b] * int(number), winners + [winner] * int(number)
    ours = bradley_terry(counts, prior=NO_PRIOR)
    method = evalica.newman if draws else evalica.bradley_terry
    theirs = method(xs, ys, winners, tolerance=1e-10, limit=10_000)
    log_odds = np.log(theirs.scores.loc[list(ours.agents)].to_numpy())
    np.testing.assert_allclose(ours.model.strength - ours.model.strength.mean(), log_odds - log_odds.mean(), atol=1e-4)
    if draws:
        assert np.exp(ours.model.log_draw) == pytest.approx(2 * theirs.v, rel=1e-4)
