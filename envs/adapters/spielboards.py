"""Boards of OpenSpiel's games: the planes of a tensor, and which of a board's cells each action acts on.

OpenSpiel says neither. A tensor of three axes is planes of a board, (planes, rows, columns). Actions number cells in
one of a few ways, if at all; a way is taken where each of `DECISIONS` decisions of random matches has changed the very
cell that it names. What cannot be shown so is left out: the network then has plain logits, which fit any game.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from league.types import SEATS, ObservationPart

DECISIONS = 400
"""Of random matches, by which a way of numbering is judged."""
MOST_CHANGED = 0.34
"""Share of the cells that a decision changes in the mean; where more do, a wrong way would pass."""

Cells = npt.NDArray[np.int64]
Board = tuple[int, int, int]
"""Planes, rows, columns."""


def board_of(shape: list[int]) -> Board | None:
    """The board that a tensor of this shape is; None: it is none."""
    return (shape[0], shape[1], shape[2]) if len(shape) == 3 else None


def parts_of(board: Board) -> tuple[ObservationPart, ...]:
    """What a seat observes of a game with a board: the planes as the last axis, and which player it is."""
    planes, rows, columns = board
    image = ObservationPart("board", 0, (rows, columns, planes), "image")
    return image, ObservationPart("player", image.stop, (SEATS,), bounds=(0.0, 1.0))


def cells_of(game: Any, board: Board, tensor: str) -> tuple[int, ...]:
    """The cell of each action, row by row, -1 for actions beyond those of all cells; empty where none can be shown.

    tensor: the method of a state that gives a player's tensor.
    """
    num_actions, num_cells = game.num_distinct_actions(), board[1] * board[2]
    ways = _ways(num_actions, board[1], board[2])
    changed, seen = 0, 0
    for action, cells in _changes(game, board, tensor):
        ways = [way for way in ways if way[action] < 0 or cells[way[action]]]
        changed, seen = changed + int(cells.sum()), seen + 1
        if not ways:
            return ()
    is_telling = seen >= DECISIONS and changed <= MOST_CHANGED * seen * num_cells
    return tuple(ways[0].tolist()) if ways and is_telling else ()


def _ways(num_actions: int, rows: int, columns: int) -> list[Cells]:
    """The ways in which actions may number cells: all of a cell in a row or one of each cell in a row, row by row or
    column by column; what remains comes last and names none."""
    num_cells = rows * columns
    kinds = num_actions // num_cells
    by_row = np.arange(num_cells)
    by_column = by_row.reshape(rows, columns).T.ravel()
    rest = np.full(num_actions - kinds * num_cells, -1)
    orders = [np.concatenate([make(x, kinds), rest]) for x in (by_row, by_column) for make in (np.repeat, np.tile)]
    return [order.astype(np.int64) for order in orders] if kinds else []


def _changes(game: Any, board: Board, tensor: str) -> Iterator[tuple[int, npt.NDArray[np.bool_]]]:
    """Actions of random matches, and which cells each changed for the player who took it; at most `DECISIONS`.

    A plane that changes in every cell, such as that of whose turn it is, tells nothing and does not count.
    """
    rng, seen = np.random.default_rng(0), 0
    state = game.new_initial_state()
    while seen < DECISIONS:
        if state.is_terminal():
            state = game.new_initial_state()
        if state.is_simultaneous_node():
            return
        if state.is_chance_node():
            outcomes, odds = zip(*state.chance_outcomes(), strict=True)
            state.apply_action(int(rng.choice(outcomes, p=np.array(odds) / sum(odds))))
            continue
        player, action = state.current_player(), int(rng.choice(state.legal_actions()))
        before = getattr(state, tensor)(player)
        state.apply_action(action)
        differs = (np.array(getattr(state, tensor)(player)) != np.array(before)).reshape(board[0], -1)
        yield action, differs[~differs.all(1)].any(0)
        seen += 1
