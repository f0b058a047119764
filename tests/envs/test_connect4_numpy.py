"""examples/connect4_numpy.py against examples/connect4.py, whose rules it has, and against its own claims."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from league.arena.games import enter
from league.envs import registry
from league.testing import check_game
from league.types import DRAW

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SLOW = runpy.run_path(str(EXAMPLES / "connect4.py"))


@pytest.fixture(scope="module")
def name() -> str:
    """The game's, once it has come through the door."""
    entered = enter(str(EXAMPLES / "connect4_numpy.py"))
    assert entered is not None
    return entered


@pytest.mark.slow
def test_it_keeps_the_contract() -> None:
    assert check_game(str(EXAMPLES / "connect4_numpy.py")) is not None


def test_every_match_is_what_the_plain_rules_play(name: str) -> None:
    """Move by move: who is to move, what is legal, what is seen, how it ends; rows that are held do not move."""
    rows, rng = 16, np.random.default_rng(0)
    batch = registry.make(name, rows=rows, threads=1, options={})
    batch.reset(5)
    plain = [SLOW["ConnectFour"]() for _ in range(rows)]
    first = batch.to_act.argmax(1).tolist()
    for game in plain:
        game.reset(rng)
    ends = 0
    for _ in range(120):
        batch.held[:] = rng.random(rows) < 0.2
        units = rng.random((rows, 2, 7))
        batch.actions[:] = batch.spec.action.legal_actions(batch.mask, units)
        moves = batch.actions[:, :, 0].copy()
        for row, game in enumerate(plain):
            seat = game.to_move ^ first[row]  # there seat 0 begins
            assert batch.to_act[row].tolist() == [seat == 0, seat == 1]
            assert np.flatnonzero(batch.mask[row, seat]).tolist() == game.legal(game.to_move)
            for who in (0, 1):
                assert batch.obs[row, who].tolist() == game.observe(who ^ first[row])
        batch.step()
        for row, game in enumerate(plain):
            if batch.held[row]:
                assert not batch.terminated[row]
                continue
            mover = game.to_move
            game.play(int(moves[row, mover ^ first[row]]))
            assert batch.terminated[row] == (game._outcome is not None)
            if game._outcome is None:
                continue
            ends += 1
            winner, reason, _ = game._outcome
            expected = DRAW if winner == DRAW else winner ^ first[row]
            assert batch.result["winner"][row] == expected
            assert batch.spec.end_reasons[batch.result["end_reason"][row]] == reason
            assert (
                batch.result["metrics"][row].sum() == batch.result["ticks"][row] == sum(map(int.bit_count, game.boards))
            )
            assert batch.reward_terms[row, :, 0].tolist() == {DRAW: [0, 0], 0: [1, -1], 1: [-1, 1]}[expected]
            for who in (0, 1):
                assert batch.final_obs[row, who].tolist() == game.observe(who ^ first[row])
            plain[row] = SLOW["ConnectFour"]()
            plain[row].reset(rng)
            first[row] = int(batch.to_act[row].argmax())
    assert ends > 50
