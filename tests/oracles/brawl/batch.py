"""The batch of brawl in plain Python: what the compiled one is tested against, bit for bit.

`match.py` plays the matches.
"""

from __future__ import annotations

from collections.abc import Sequence

from league.envs.brawl import state
from league.envs.brawl.rules import BOTS, END_REASONS, TERMS
from league.envs.inputs import need_controllers, need_keys
from league.types import SEATS
from tests.oracles.brawl.match import ReferenceMatch
from tests.oracles.shared import OracleBatch


class ReferenceBatch(OracleBatch):
    """Its matches are `ReferenceMatch`."""

    match, persons, states, end_reasons, terms = ReferenceMatch, "fighters", state, END_REASONS, TERMS

    def step(self) -> None:
        """See `MatchBatch.step`.

        Raises:
            ValueError: a controller is unknown, or an external seat's action is not 0 or 1; nothing has moved then.
        """
        need_controllers(self.controllers, len(BOTS))
        need_keys(self.controllers, self.actions)
        self._play(range(self.num_rows), self.actions.tolist())

    def _show(self, rows: Sequence[int]) -> None:
        for row in rows:
            self.obs[row] = [self._matches[row].observe(seat) for seat in range(SEATS)]
            self.mask[row] = [self._matches[row].legal(seat) for seat in range(SEATS)]
