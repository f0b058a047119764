"""The batch of the duel in plain Python: what the compiled one is tested against, bit for bit.

`match.py` plays the matches.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.cards import state
from league.envs.cards.layout import CHOICES
from league.envs.cards.rules import BOTS, END_REASONS, TERMS
from league.envs.inputs import need_controllers, refuse_tuple
from league.types import EXTERNAL, SEATS
from tests.oracles.cards.match import ReferenceMatch
from tests.oracles.cards.state import END
from tests.oracles.shared import OracleBatch


class ReferenceBatch(OracleBatch):
    """Its matches are `ReferenceMatch`, in `Turns`."""

    match, persons, states, end_reasons, terms = ReferenceMatch, "keepers", state, END_REASONS, TERMS

    def step(self) -> None:
        """One decision of every match that is not held, by the seat that is to act; what is not legal ends its turn.

        Raises:
            ValueError: a controller is unknown, or numbers of an external seat that is to act are no action; nothing
                has moved then.
        """
        need_controllers(self.controllers, len(BOTS))
        played = np.flatnonzero(~self.held).tolist()
        given = self.actions.tolist()
        for row in played:
            seat = self._matches[row].acting
            if self.controllers[row, seat] != EXTERNAL:
                continue
            if any(not 0 <= part < number for part, number in zip(given[row][seat], CHOICES, strict=True)):
                refuse_tuple(row, seat, self.actions, CHOICES)
            if not self.is_legal(row, given[row][seat]):
                given[row][seat] = list(END)
        self.reward_terms.fill(0)
        self.terminated.fill(False)
        self._play(played, given)

    def is_legal(self, row: int, action: Sequence[int] | npt.NDArray[Any]) -> bool:
        """Whether the seat that is to act in `row` may play `action`, four whole numbers; judged without the mask.

        Raises:
            IndexError: no such row.
        """
        self._need_row(row)
        return tuple(int(part) for part in action) in self._matches[row].legal()

    def _of_options(self) -> tuple[Any, ...]:
        return (self.rules,)

    def _show(self, rows: Sequence[int]) -> None:
        """Observations, legal tuples and turns; who waits has the end of a turn alone."""
        for row in rows:
            match = self._matches[row]
            self.obs[row] = [match.observe(seat) for seat in range(SEATS)]
            self.to_act[row] = [seat == match.acting for seat in range(SEATS)]
            self.mask[row] = -1
            for seat in range(SEATS):
                tuples = np.array(match.legal() if seat == match.acting else [END], np.int16).reshape(-1)
                self.mask[row, seat, : len(tuples)] = tuples


def decisions_a_second(batch: ReferenceBatch, seconds: float = 0.2) -> float:
    """How fast it plays here, measured over about so many seconds of matches in which everybody decides at random."""
    batch.controllers[:] = BOTS.index("random")
    batch.reset(0)
    steps, started = 0, time.perf_counter()
    while (spent := time.perf_counter() - started) < seconds:
        batch.step()
        steps += 1
    return steps * batch.num_rows / spent
