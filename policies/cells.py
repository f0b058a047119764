"""Logits of actions that name cells of a board, from what the convolutions make of those cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from league.policies.kernels.linear import Linear
from league.policies.torso import Planes


class CellActor(nn.Module):
    """The actor of a game whose actions act on cells of its board (`ActionSpec.cells`).

    A layer over each cell's planes and the features of the whole gives a logit for each kind of action there; the n-th
    action that names a cell is of the n-th kind. Actions that name no cell have logits of the features alone.

    Args:
        cells: of each logit its cell, -1 for none.
        planes: those of the board.
        mlp: (features, gain of the last layer): the agent's layers of `head_sizes` over the features of the whole.
    """

    def __init__(
        self,
        cells: Sequence[int],
        planes: Planes,
        mlp: Callable[[int, float], nn.Module],
    ) -> None:
        super().__init__()
        filters = planes.filters
        self._index, kinds = _order(cells, planes.height * planes.across)
        self.whole = mlp(filters, 1.0)
        self.here = Linear(filters, filters)
        self.out = Linear(filters, kinds)
        nn.init.orthogonal_(self.here.weight)
        nn.init.orthogonal_(self.out.weight, 0.01)
        nn.init.zeros_(self.out.bias)
        rest = sum(cell < 0 for cell in cells)
        self.rest = mlp(rest, 0.01) if rest else None
        self._there: dict[torch.device, Tensor] = {}

    def forward(self, features: Tensor, planes: Tensor) -> Tensor:
        """features (..., F), planes (..., height, width, filters) -> (..., num_logits)."""
        seen = self.here(planes.flatten(-3, -2)) + self.whole(features)[..., None, :]
        logits: Tensor = self.out(F.relu(seen)).flatten(-2)
        if self.rest is not None:
            logits = torch.cat([logits, self.rest(features)], -1)
        return logits.index_select(-1, self._order_on(logits.device))

    def _order_on(self, device: torch.device) -> Tensor:
        """Made once for each device, in the first call there, so that later ones can be captured."""
        if device not in self._there:
            self._there[device] = torch.tensor(self._index, device=device)
        return self._there[device]


def _order(cells: Sequence[int], num_cells: int) -> tuple[list[int], int]:
    """Where each logit lies among those of all cells, kind by kind, and then those of none; and the number of kinds."""
    kinds = max(Counter(cell for cell in cells if cell >= 0).values())
    met, index = Counter[int](), []
    for cell in cells:
        index.append(num_cells * kinds + met[-1] if cell < 0 else cell * kinds + met[cell])
        met[cell] += 1
    return index, kinds
