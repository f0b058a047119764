"""A game of OpenSpiel as a tree, where it is small enough: what NashConv and exact payoffs are worked out on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyspiel

from league.types import FloatArray, GameTree

MOST_NODES = 200_000
CHANCE = LEAF = -1


class _Node(NamedTuple):
    """A state still to be looked at, and how play came to it."""

    state: Any
    parent: int
    action: int
    chance: float
    lived: tuple[tuple[int, ...], tuple[int, ...]]
    """Of both players: the information sets at which it decided, each followed by what it did."""


def grow(game: Any) -> GameTree:
    """One match of `game` (`pyspiel.Game`), the players being those of OpenSpiel.

    Raises:
        ValueError: it has no such tree (decisions at once, no information states, not zero-sum, imperfect recall), or
            one of more than `MOST_NODES` nodes.
    """
    if wrong := _why_not(game.get_type()):
        raise ValueError(f"{wrong}, so it has no tree to be solved on")
    nodes: list[tuple[int, int, int, int, float, float]] = []
    known: dict[tuple[int, str], int] = {}
    lives: list[tuple[int, ...]] = []
    views: list[FloatArray] = []
    legal: list[npt.NDArray[np.bool_]] = []
    stack = [_Node(game.new_initial_state(), -1, -1, 1.0, ((), ()))]
    while stack:
        state, parent, action, chance, lived = stack.pop()
        number = len(nodes)
        if number == MOST_NODES:
            raise ValueError(f"it has more than {MOST_NODES:,} nodes, too many for a tree to be solved on")
        if state.is_terminal():
            nodes.append((parent, action, LEAF, -1, chance, state.returns()[0]))
            continue
        if state.is_chance_node():
            nodes.append((parent, action, CHANCE, -1, chance, 0.0))
            stack += [
                _Node(state.child(o), number, -1, chance * p, lived) for o, p in reversed(state.chance_outcomes())
            ]
            continue
        player = state.current_player()
        infoset = known.setdefault((player, state.information_state_string(player)), len(known))
        if infoset == len(lives):
            lives.append(lived[player])
            views.append(np.array([*state.information_state_tensor(player), player == 0, player == 1], np.float32))
            legal.append(np.array(state.legal_actions_mask(player), bool))
        elif lives[infoset] != lived[player]:
            raise ValueError("a player forgets what it knew, so it has no tree to be solved on")
        nodes.append((parent, action, player, infoset, chance, 0.0))
        for taken in reversed(state.legal_actions()):
            now = list(lived)
            now[player] = (*lived[player], infoset, taken)
            stack.append(_Node(state.child(taken), number, taken, chance, (now[0], now[1])))
    parents, actions, players, infosets, chances, payoffs = map(np.array, zip(*nodes, strict=True))
    paths = [[*life[::2], infoset] for infoset, life in enumerate(lives)]
    obs = np.zeros((len(paths), max(map(len, paths)), len(views[0])), np.float32)
    for infoset, path in enumerate(paths):
        obs[infoset, : len(path)] = [views[seen] for seen in path]
    return GameTree(
        parent=parents,
        action=actions,
        player=players,
        infoset=infosets,
        chance=chances,
        payoff=payoffs.astype(np.float64),
        legal=np.stack(legal),
        obs=obs,
        length=np.array([len(path) for path in paths]),
    )


def _why_not(kind: Any) -> str:
    """Why games of this type (`pyspiel.GameType`) have no tree; empty where they may have one."""
    if kind.dynamics != pyspiel.GameType.Dynamics.SEQUENTIAL:
        return "its players decide at once"
    if kind.utility != pyspiel.GameType.Utility.ZERO_SUM:
        return "what one player wins the other does not lose"
    if not (kind.provides_information_state_tensor and kind.provides_information_state_string):
        return "it tells no information states"
    return ""
