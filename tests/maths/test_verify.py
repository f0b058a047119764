"""Ratings and game trees against libraries that others wrote; skipped without `pip install -e '.[verify]'`."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from league.envs.classic import kuhn, leduc
from league.envs.classic.poker import CALL, FOLD, RAISE, betting, deals
from league.maths.nashconv import nash_conv
from league.maths.pairs import PairCounts
from league.maths.ratings import MAXIMUM_LIKELIHOOD, bradley_terry

NO_PRIOR = replace(MAXIMUM_LIKELIHOOD, seat=1e-6)
"""Those libraries find the likeliest parameters alone, and know no seats."""


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


def spiel_policy(game: Any, own: ModuleType, strategy: np.ndarray) -> Any:
    """`strategy` (I, A) of our tree as OpenSpiel's tabular policy, by each state's cards and betting.

    A card of Leduc's deck there is one of six, here a rank; actions there are pass and bet, or fold, call and raise.
    """
    policy = pytest.importorskip("open_spiel.python.policy").TabularPolicy(game)
    table, is_kuhn = betting(own.RULES), own is kuhn
    tree = own.tree(own.Options())
    place_of = {}
    for node in np.flatnonzero(tree.infoset >= 0):
        place = node % len(table.mover)
        ranks = deals(own.RULES)[0][node // len(table.mover)]
        shown = ranks[2] if table.round[place] else 0
        place_of[place, ranks[table.mover[place]], shown] = tree.infoset[node]
    for index, state in enumerate(policy.states):
        history, cards, place = state.full_history(), [], 0
        for move in history:
            if move.player < 0:
                cards.append(move.action // own.RULES.suits)
                continue
            behind = table.child[place, FOLD] >= 0
            if is_kuhn:
                action = (FOLD if behind else CALL, CALL if behind else RAISE)[move.action]
            else:
                action = (FOLD, CALL, RAISE)[move.action]
            place = table.child[place, action]
        shown = cards[2] if table.round[place] else 0
        chances = strategy[place_of[place, cards[state.current_player()], shown]]
        behind = table.child[place, FOLD] >= 0
        if is_kuhn:
            theirs = chances[[FOLD, CALL]] if behind else chances[[CALL, RAISE]]
        else:
            theirs = chances[[FOLD, CALL, RAISE]]
        policy.action_probability_array[index] = theirs
    return policy


@pytest.mark.parametrize(("name", "own"), [("kuhn_poker", kuhn), ("leduc_poker", leduc)])
def test_open_spiel_agrees_on_nash_conv(name: str, own: ModuleType) -> None:
    """OpenSpiel's NashConv and value of random strategies are ours, so the rules are too: every infoset matters."""
    pyspiel = pytest.importorskip("pyspiel")
    exploitability = pytest.importorskip("open_spiel.python.algorithms.exploitability")
    values = pytest.importorskip("open_spiel.python.algorithms.expected_game_score")
    game, tree, rng = pyspiel.load_game(name), own.tree(own.Options()), np.random.default_rng(0)
    for _ in range(5 if own is kuhn else 2):
        strategy = rng.random(tree.legal.shape) * tree.legal
        strategy /= strategy.sum(axis=1, keepdims=True)
        policy = spiel_policy(game, own, strategy)
        ours = nash_conv(tree, strategy)
        assert ours.total == pytest.approx(exploitability.nash_conv(game, policy), abs=1e-9)
        theirs = values.policy_value(game.new_initial_state(), [policy, policy])
        assert ours.value == pytest.approx(theirs[0], abs=1e-9)
