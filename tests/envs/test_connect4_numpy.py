"""examples/connect4_numpy.py against examples/connect4.py, whose rules it has, and against its own claims."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from league.arena.games import enter
from league.envs import registry
from league.testing import check_game
from league.types import DRAW, EXTERNAL

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SLOW = runpy.run_path(str(EXAMPLES / "connect4.py"))


@pytest.fixture(scope="module")
def name() -> str:
    """The game's, once it has come through the door."""
    entered = enter(str(EXAMPLES / "connect4_numpy.py"))
    assert entered is not None
    return entered


def test_it_keeps_the_contract() -> None:
    """`league check` finds nothing."""
    assert check_game(str(EXAMPLES / "connect4_numpy.py")) is not None


def test_every_match_is_what_the_plain_rules_play(name: str) -> None:
    """Move by move: who is to move, what is legal, what is seen, how it ends; rows that are held do not move."""
    rows, rng = 16, np.random.default_rng(0)
    batch = registry.make(name, rows=rows, threads=1, options={})
    batch.reset(5)
    twins = [SLOW["ConnectFour"]() for _ in range(rows)]
    first = batch.to_act.argmax(1).tolist()
    for twin in twins:
        twin.reset(rng)
    ends = 0
    for _ in range(120):
        batch.held[:] = rng.random(rows) < 0.2
        units = rng.random((rows, 2, 7))
        batch.actions[:] = batch.spec.action.legal_actions(batch.mask, units)
        moves = batch.actions[:, :, 0].copy()
        for row, twin in enumerate(twins):
            seat = twin.to_move ^ first[row]  # of the twin seat 0 begins
            assert batch.to_act[row].tolist() == [seat == 0, seat == 1]
            assert np.flatnonzero(batch.mask[row, seat]).tolist() == twin.legal(twin.to_move)
            for who in (0, 1):
                assert batch.obs[row, who].tolist() == twin.observe(who ^ first[row])
        batch.step()
        for row, twin in enumerate(twins):
            if batch.held[row]:
                assert not batch.terminated[row]
                continue
            mover = twin.to_move
            twin.play(int(moves[row, mover ^ first[row]]))
            assert batch.terminated[row] == (twin._outcome is not None)
            if twin._outcome is None:
                continue
            ends += 1
            winner, reason, _ = twin._outcome
            expected = DRAW if winner == DRAW else winner ^ first[row]
            assert batch.result["winner"][row] == expected
            assert batch.spec.end_reasons[batch.result["end_reason"][row]] == reason
            assert (
                batch.result["metrics"][row].sum() == batch.result["ticks"][row] == sum(map(int.bit_count, twin.boards))
            )
            assert batch.reward_terms[row, :, 0].tolist() == {DRAW: [0, 0], 0: [1, -1], 1: [-1, 1]}[expected]
            for who in (0, 1):
                assert batch.final_obs[row, who].tolist() == twin.observe(who ^ first[row])
            twins[row] = SLOW["ConnectFour"]()
            twins[row].reset(rng)
            first[row] = int(batch.to_act[row].argmax())
    assert ends > 50


def test_greedy_wins_where_it_can_and_else_blocks(name: str) -> None:
    """As the bot of the plain rules does, in thousands of positions; `slips` does so nine times in ten."""
    rows, rng = 256, np.random.default_rng(1)
    agreed = {}
    for bot in ("greedy", "slips"):
        batch = registry.make(name, rows=rows, threads=1, options={})
        batch.reset(3)
        due = same = 0
        for _ in range(40):
            boards = batch.obs.copy()
            batch.actions[:] = batch.spec.action.legal_actions(batch.mask, rng.random((rows, 2, 7)))
            seats, legal = batch.to_act.argmax(1), batch.mask.copy()
            batch.controllers[:] = EXTERNAL
            batch.controllers[np.arange(rows), seats] = batch.spec.bots.index(bot)
            batch.step()
            for row in np.flatnonzero(~batch.terminated):
                seen, options = boards[row, seats[row]], np.flatnonzero(legal[row, seats[row]]).tolist()
                try:
                    wanted = SLOW["greedy"](seen, options, None)
                except AttributeError:  # it would draw
                    continue
                cell = int(np.flatnonzero(batch.obs[row, seats[row], :42] - seen[:42])[0])
                due, same = due + 1, same + (cell // 6 == wanted)
        agreed[bot] = same / due
        assert due > 200
    assert agreed["greedy"] == 1.0 and 0.88 < agreed["slips"] < 0.95, agreed
