"""`league.types.Turns`: the checker passes a sound game in turns and finds each way of breaking its rules."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from league.envs.contract.check import check_match_batch
from league.envs.contract.steps import ContractError
from league.envs.matches.match import Match
from league.envs.matches.row import Row
from league.envs.matches.rows import TurnRowBatch
from league.types import EXTERNAL
from tests.helpers.matches import Auction, Hands


class MovesHeldRows(TurnRowBatch):
    def _playing(self) -> Any:
        return range(self.num_rows)


class PaysHeldRows(TurnRowBatch):
    def step(self) -> None:
        kept = self.reward_terms[self.held].copy() + 1
        super().step()
        self.reward_terms[self.held] = kept


class EndsHeldRows(TurnRowBatch):
    def step(self) -> None:
        super().step()
        self.terminated[self.held] = True


class TouchesHeldMasks(TurnRowBatch):
    def step(self) -> None:
        super().step()
        assert self.mask is not None
        self.mask[self.held, :, -1] -= 1


class DrawsInHeldRows(TurnRowBatch):
    """A held row's match goes on in secret: its log is another afterwards."""

    def step(self) -> None:
        for row in np.flatnonzero(self.held):
            self._rows[row].seed += 1
        super().step()


class ReleasesHeldRows(TurnRowBatch):
    def step(self) -> None:
        super().step()
        self.held[:] = False


class ReadsWaitingSeats(TurnRowBatch):
    def step(self) -> None:
        waiting = np.where(self.to_act, 0, self.actions[:, :, 0]).sum(axis=1)
        super().step()
        self.obs[:, :, 0] = (waiting < 0)[:, None]


class NobodyActs(TurnRowBatch):
    def _tell_turns(self) -> None:
        super()._tell_turns()
        self.to_act[0] &= np.array([len(row.log) < 2 for row in self._rows])[0]


class BothAlwaysAct(TurnRowBatch):
    def _tell_turns(self) -> None:
        self.to_act[:] = True


class BotsTakeNoStep(TurnRowBatch):
    """Bots decide in the step before."""

    def step(self) -> None:
        super().step()
        self._skip()

    def reset(self, seed: Any) -> None:
        super().reset(seed)
        self._skip()

    def _skip(self) -> None:
        held = self.held.copy()
        for _ in range(9):
            bots = ((self.controllers != EXTERNAL) & self.to_act).any(axis=1)
            if not bots.any():
                break
            self.held[:] = ~bots
            ends = self.terminated.copy(), self.truncated.copy(), self.reward_terms.copy()
            super().step()
            self.terminated |= ends[0]
            self.truncated |= ends[1]
            self.reward_terms += ends[2]
        self.held[:] = held


class ForgetsTurns(TurnRowBatch):
    def set_state(self, state: bytes) -> None:
        kept = self.to_act.copy()
        super().set_state(state)
        self.to_act[:] = kept


class HalfInTurns(TurnRowBatch):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._hidden = self.__dict__.pop("held")

    def _playing(self) -> Any:
        return range(self.num_rows)


BROKEN: list[tuple[type[TurnRowBatch], str]] = [
    (MovesHeldRows, "step 0: obs of a row that is held has changed"),
    (PaysHeldRows, "reward_terms of a row that is held are not 0"),
    (EndsHeldRows, "a match ended in a row that is held"),
    (TouchesHeldMasks, "mask of a row that is held has changed"),
    (DrawsInHeldRows, "after a step in which it was held, a row plays differently"),
    (ReleasesHeldRows, "writes held, which is the engine's"),
    (ReadsWaitingSeats, r"the action of a seat that is not to act changes the match: row \d.*, step 1: "),
    (NobodyActs, "row 0, step 2 of its match 1: no seat is to act"),
    (BothAlwaysAct, "both seats are to act in every step"),
    (BotsTakeNoStep, "bot random in seat 0 is never to act"),
    (ForgetsTurns, "set_state does not write to_act"),
    (HalfInTurns, "has to_act and held; the batch has one of them"),
]


def making(batch: type[TurnRowBatch], match: Callable[[], Match] = Hands) -> Any:
    """What makes batches of a class."""
    return lambda rows, threads: batch(match, rows, "")


@pytest.mark.parametrize(("batch", "rule"), BROKEN, ids=[batch.__name__ for batch, _ in BROKEN])
def test_checker_finds_the_broken_rule(batch: type[TurnRowBatch], rule: str) -> None:
    """Each way of breaking the contract of turns is found and named on one line."""
    with pytest.raises(ContractError, match=rule) as caught:
        check_match_batch(making(batch), steps=40, rows=3)
    assert "\n" not in str(caught.value)


def test_who_decides_is_shown() -> None:
    """`to_act` is that of the match: one seat, or both where both decide at once."""
    batch = TurnRowBatch(Auction, 2, "")
    batch.reset(0)
    assert batch.to_act.all()
    batch.actions[:, :, 0] = [[0, 2], [2, 0]]
    batch.step()
    assert batch.to_act.tolist() == [[False, True], [True, False]]
    batch.held[:] = [True, False]
    batch.step()
    assert batch.to_act.tolist() == [[False, True], [True, True]]
    assert [len(row.log) for row in batch._rows] == [1, 2] and isinstance(batch._rows[0], Row)
