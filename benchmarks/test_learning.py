"""The judges of `benchmarks.learning`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmarks.learning as bench
from benchmarks.learning import LINES, Trial, all_replies, every, outcomes, run_trial


class Reckoned:
    """An agent of arithmetic: what it does follows from all that it has seen since `reset`."""

    def __init__(self, salt: int) -> None:
        self.salt = salt
        self.reset()

    def reset(self) -> None:
        self.memory: Any = 0

    def act(self, obs: np.ndarray, mask: np.ndarray, *, greedy: bool) -> np.ndarray:
        assert greedy and obs.dtype == np.float32
        self.memory = self.memory * 31 + obs.astype(np.int64) @ np.arange(1, 19) * self.salt
        liking = np.sin(self.memory[:, None] * (1 + np.arange(9)))
        return np.where(mask, liking, -np.inf).argmax(1)[:, None]


def tried(agent: Reckoned, seat: int, moves: tuple[int, ...] = ()) -> np.ndarray:
    """(won, drawn, lost) of all replies after `moves`, each line played from its start."""
    agent.reset()
    board, chosen = [-1] * 9, -1
    for count in range(len(moves) + 1):
        who = count % 2
        if count == len(moves) and any(all(board[i] == 1 - who for i in line) for line in LINES):
            return np.array([1 - who == seat, 0, 1 - who != seat])
        if count == len(moves) and count == 9:
            return np.array([0, 1, 0])
        if who == seat:
            seen = [cell == side for side in (seat, 1 - seat) for cell in board]
            legal = np.array([[cell == -1 for cell in board]])
            chosen = int(agent.act(np.array([seen], np.float32), legal, greedy=True)[0, 0])
        if count < len(moves):
            board[moves[count]] = who
    open_cells = [chosen] if len(moves) % 2 == seat else [i for i in range(9) if board[i] == -1]
    return sum((tried(agent, seat, (*moves, cell)) for cell in open_cells), np.zeros(3, int))


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("salt", [1, 7])
def test_all_replies_are_tried(salt: int, seat: int) -> None:
    """The stacked lines come to what playing each line by itself does."""
    found = outcomes(Reckoned(salt), seat)  # type: ignore[arg-type]
    assert list(found.values()) == tried(Reckoned(salt), seat).tolist() and min(found["won"], found["lost"]) > 0


@pytest.mark.slow
def test_a_trial_follows_its_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each snapshot has a reading and its minutes; a goal that is reached at once is reached at step 0."""
    address = str(bench.EXAMPLES / "tictactoe.py")
    trial = Trial(address, 4096, "bot:random", goals=(0.0, 1.1), games=2, sets=every(2048), judge=all_replies)
    monkeypatch.setitem(bench.TRIALS, "tiny", trial)
    found = run_trial("tiny", 0, tmp_path / "league.duckdb", ["agent.lstm_size=8", "learner.epochs=1"])
    assert list(found["curve"]) == [0, 2048, 4096] and found["steps"] == 4096
    assert found["reached"] == {0.0: [0, 0.0], 1.1: None} and found["minutes"] > 0
    assert sum(found["seat 0"].values()) > 0 and found["never loses"] in (True, False)
