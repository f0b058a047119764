"""examples/connectx.py against the encoder of Kaggle's ConnectX, whose view it has, and against its own claims."""

import runpy
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from league.arena.games import enter
from league.envs import registry
from league.envs.adapters.encoders.connectx import ConnectxEncoder
from league.testing import check_game

DOUBLE = str(Path(__file__).resolve().parents[2] / "examples" / "connectx.py")
SLOW = runpy.run_path(str(Path(DOUBLE).with_name("connect4.py")))


@pytest.mark.slow
def test_it_keeps_the_contract() -> None:
    """With its bots, the one that searches among them."""
    assert check_game(DOUBLE) is not None


def test_it_shows_what_the_encoder_makes_of_the_board() -> None:
    """Bit for bit, to both seats of random matches, and the columns with room are what is legal."""
    name = enter(DOUBLE)
    assert name is not None
    rows, rng = 8, np.random.default_rng(0)
    batch = registry.make(name, rows=rows, threads=1, options={})
    batch.reset(3)
    encoder = ConnectxEncoder({"rows": 6, "columns": 7, "inarow": 4})
    boards, ended = np.zeros((rows, 42), int), 0
    for _ in range(80):
        for row, seat in np.ndindex(rows, 2):
            seen = {"board": boards[row].tolist(), "mark": seat + 1}
            assert np.array_equal(batch.obs[row, seat], encoder.encode(seen))
            assert not batch.to_act[row, seat] or encoder.legal(seen) == np.flatnonzero(batch.mask[row, seat]).tolist()
        batch.actions[:] = batch.spec.action.legal_actions(batch.mask, rng.random((rows, 2, 7)))
        for row in range(rows):
            seat = int(batch.to_act[row].argmax())
            column = boards[row, batch.actions[row, seat, 0] :: 7]
            column[np.flatnonzero(column == 0)[-1]] = seat + 1
        batch.step()
        boards[batch.terminated] = 0
        ended += int(batch.terminated.sum())
    assert ended > 20


def search(boards: list[int], depth: int) -> list[float]:
    """What each column is worth to the first of two boards of `connect4.py`, as Kaggle's negamax reckons; -inf if full.

    Beyond its depth a column is worth what a win there is, and one more for each own man on the left, on the right and,
    above the second row, below.
    """
    own, other = boards
    men, found = (own | other).bit_count(), []
    for x in range(7):
        cell = SLOW["drop"](own | other, x)
        left, right, below = (cell & own << 7, cell & own >> 7, cell & own << 1 and cell.bit_length() % 7 > 2)
        if not cell:
            found.append(-float("inf"))
        elif SLOW["has_four"](own | cell):
            found.append((43 - men) / 2 + 100)  # of several, the first
        elif depth == 0:
            found.append((43 - men) / 2 + bool(left) + bool(right) + bool(below))
        else:
            best = max(search([other, own | cell], depth - 1))
            found.append(-0.0 if best == -float("inf") else -(best - 100 * (best > 90)))
    return found


def test_its_negamax_plays_a_best_column_of_a_plain_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """In matches against random play: the first that wins, or any of those worth most."""
    monkeypatch.syspath_prepend(str(Path(DOUBLE).parent))
    batch, rng = import_module("connectx").make(4, 1, import_module("connectx").Options()), np.random.default_rng(0)
    batch.controllers[:, 1] = batch.spec.bots.index("negamax")
    batch.reset(4)
    kinds = set()
    for _ in range(24):
        before, seats = batch.match["boards"].tolist(), batch.to_act.argmax(1).tolist()
        batch.actions[:, 0] = batch.spec.action.legal_actions(batch.mask, rng.random((4, 2, 7)))[:, 0]
        batch.step()
        for row in np.flatnonzero(seats):
            worth = search(before[row][::-1], 4)
            best, is_won = [x for x in range(7) if worth[x] == max(worth)], max(worth) > 90
            assert batch.actions[row, 1, 0] in (best[:1] if is_won else best)
            kinds.add((is_won, len(best)))
    assert {is_won for is_won, _ in kinds} == {True, False} and len(kinds) > 4
