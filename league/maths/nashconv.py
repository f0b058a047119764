"""How far strategies are from equilibrium, exactly: best responses and NashConv on a `GameTree`. Pure numpy.

A behaviour strategy is (I, A): at each information set of either player the probability of each action. One agent plays
both roles, so one such table is an agent, and a profile when it plays itself. A payoff is player 0's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from league.types import SEATS, GameTree

Floats = npt.NDArray[np.float64]


class NashConv(NamedTuple):
    """What could still be gained against a strategy; 0 at a Nash equilibrium."""

    total: float
    """Both players' gains from their best responses (Lanctot et al. 2017, arXiv:1711.00832, section 2)."""
    gains: tuple[float, float]
    value: float
    """What player 0 gets when the strategy plays itself."""


def uniform(tree: GameTree) -> Floats:
    """(I, A): every legal action alike."""
    return np.asarray(tree.legal / tree.legal.sum(axis=1, keepdims=True), np.float64)


def nash_conv(tree: GameTree, behaviour: Floats) -> NashConv:
    """NashConv of `behaviour` (I, A) playing itself.

    Raises:
        ValueError: it is no strategy of this game, or the game has not perfect recall.
    """
    _check(tree, behaviour)
    value = float(payoffs(tree, behaviour[None])[0, 0])
    best = tuple(best_response(tree, behaviour, player) for player in range(SEATS))
    gains = best[0] - value, best[1] + value
    return NashConv(gains[0] + gains[1], gains, value)


def best_response(tree: GameTree, behaviour: Floats, player: int) -> float:
    """The most that `player` can get for itself against an opponent who plays `behaviour` (I, A).

    Backward induction over information sets, the deepest first: the values of a set's nodes, weighted by the chance
    that the opponent and chance bring play there, are added up for each action, and the best is taken.
    """
    reach = _reach(tree, behaviour, 1 - player) * tree.chance
    sign = 1.0 if player == 0 else -1.0
    value = reach * tree.payoff * sign
    num_sets, num_actions = tree.legal.shape
    for nodes in reversed(_levels(tree)):
        own = nodes[tree.player[nodes] == player]
        if len(own):
            sums = np.zeros((num_sets, num_actions))
            below = np.isin(tree.parent, own)
            np.add.at(sums, (tree.infoset[tree.parent[below]], tree.action[below]), value[below])
            best = np.where(tree.legal, sums, -np.inf).argmax(axis=1)
            chosen = np.flatnonzero(below)[tree.action[below] == best[tree.infoset[tree.parent[below]]]]
            value[own] = 0.0
            np.add.at(value, tree.parent[chosen], value[chosen])
        others = np.setdiff1d(nodes, own)
        below = np.isin(tree.parent, others)
        np.add.at(value, tree.parent[below], value[below])
    return float(value[tree.parent < 0].sum())


def payoffs(tree: GameTree, behaviours: Floats) -> Floats:
    """(K, K): what player 0 expects when strategy i of `behaviours` (K, I, A) acts for it and j for player 1."""
    leaves = np.setdiff1d(np.arange(len(tree.parent)), tree.parent)
    first, second = (_reach(tree, behaviours, player)[:, leaves] for player in range(SEATS))
    return np.asarray((first * (tree.chance * tree.payoff)[leaves]) @ second.T, np.float64)


def margins(tree: GameTree, behaviours: Floats) -> Floats:
    """(K, K), antisymmetric: what agent i gains on agent j a match, the roles being drawn by lot."""
    payoff = payoffs(tree, behaviours)
    return (payoff - payoff.T) / 2.0


def mixture(tree: GameTree, behaviours: Floats, weights: Floats) -> Floats:
    """(I, A): the one behaviour strategy that plays as drawing strategy k of `behaviours` (K, I, A) with `weights` (K,)
    before each match does, against any opponent (Kuhn 1953, "Extensive games and the problem of information").

    At an information set strategy k counts by its weight times the probability that its own actions lead there; where
    none does, the actions are alike.
    """
    reach = np.zeros(behaviours.shape[:2])
    for player in range(SEATS):
        own = np.flatnonzero(tree.player == player)
        reach[:, tree.infoset[own]] = _reach(tree, behaviours, player)[:, own]  # equal at all nodes of a set
    joint = np.einsum("k,ki,kia->ia", weights, reach, behaviours)
    total = joint.sum(axis=1, keepdims=True)
    mixed: Floats = np.divide(joint, total, out=uniform(tree), where=total > 0)
    return mixed


def _reach(tree: GameTree, behaviours: Floats, player: int) -> Floats:
    """(..., N): the probability that `player`'s own actions in `behaviours` (..., I, A) allow each node."""
    reach = np.ones((*behaviours.shape[:-2], len(tree.parent)))
    for nodes in _levels(tree)[1:]:
        parent = tree.parent[nodes]
        chance = behaviours[..., tree.infoset[parent], tree.action[nodes]]
        reach[..., nodes] = reach[..., parent] * np.where(tree.player[parent] == player, chance, 1.0)
    return reach


def _levels(tree: GameTree) -> list[npt.NDArray[np.int64]]:
    """The nodes by depth, roots first."""
    depth, ancestor = np.zeros(len(tree.parent), np.int64), tree.parent
    while (ancestor >= 0).any():
        depth += ancestor >= 0
        ancestor = np.where(ancestor >= 0, tree.parent[ancestor], -1)
    return [np.flatnonzero(depth == level) for level in range(depth.max() + 1)]


def _check(tree: GameTree, behaviour: Floats) -> None:
    if behaviour.shape != tree.legal.shape:
        raise ValueError(f"the strategy has shape {behaviour.shape}, not (infosets, actions) = {tree.legal.shape}")
    illegal = (behaviour[~tree.legal] != 0).any() or (behaviour < 0).any()
    if illegal or not np.allclose(behaviour.sum(axis=1), 1.0, atol=1e-6):
        raise ValueError("at some information set the legal actions' probabilities do not sum to 1")
    last: dict[int, tuple[int, int]] = {}
    for node in np.flatnonzero(tree.infoset >= 0).tolist():
        infoset, own = int(tree.infoset[node]), _own_last(tree, node)
        if last.setdefault(infoset, own) != own:
            raise ValueError(f"no perfect recall: information set {infoset} forgets its player's own past")


def _own_last(tree: GameTree, node: int) -> tuple[int, int]:
    """The information set and action in which the node's player last moved; (-1, -1) before its first move."""
    player, child = tree.player[node], node
    while (parent := int(tree.parent[child])) >= 0:
        if tree.player[parent] == player:
            return int(tree.infoset[parent]), int(tree.action[child])
        child = parent
    return -1, -1
