"""ConnectX: planes of cells, and which of them would complete a line. An action is a column."""

from typing import Any

import numpy as np

STEPS = (0, 1), (1, 0), (1, 1), (1, -1)
"""(rows, columns) from a cell of a line to the next."""


class ConnectxEncoder:
    """Of any board."""

    def __init__(self, configuration: Any) -> None:
        rows, columns, length = (configuration[key] for key in ("rows", "columns", "inarow"))
        self.shape, self.action, self.obs_size, self.length = (rows, columns), columns, 5 * rows * columns, length
        starts = [
            (row, column, down, right) for row in range(rows) for column in range(columns) for down, right in STEPS
        ]
        inside = [x for x in starts if x[0] + x[2] * (length - 1) < rows and -1 < x[1] + x[3] * (length - 1) < columns]
        self.lines = np.array(
            [[(y + i * d) * columns + x + i * r for i in range(length)] for y, x, d, r in inside], int
        )

    def encode(self, observation: Any) -> Any:
        """(5 * rows * columns,): whether a cell is the agent's own, the other's, or the next of its column; and whether
        it completes a line of the agent's own, or of the other's."""
        board, mark = np.array(observation["board"]), observation["mark"]
        own, other = board == mark, board == 3 - mark
        seen = np.zeros((5, board.size))
        seen[:2] = own, other
        taken = (board != 0).reshape(self.shape)
        seen[2] = (~taken & np.vstack([taken[1:], np.ones_like(taken[:1])])).ravel()
        for plane, side in ((3, own), (4, other)):
            lines = self.lines[side[self.lines].sum(-1) == self.length - 1]
            seen[plane, lines[board[lines] == 0]] = 1
        return seen.ravel()

    def legal(self, observation: Any) -> list[int]:
        """The columns with room."""
        return [column for column in range(self.action) if not observation["board"][column]]

    def decode(self, action: int, observation: Any) -> int:
        """The column."""
        return action

    def encode_action(self, action: int, observation: Any) -> int:
        """The column."""
        return action
