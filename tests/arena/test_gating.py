"""A gate's row: whoever looks for broken-off gates changes nothing of one that is played or has ended."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from league.arena import gating
from league.arena.gating import end_broken_off, gate
from league.runtime.signals import Interrupted, interrupt, on_signal
from league.store.folder import Folder
from league.store.locks import LOCK, held
from league.store.rows import GateRow
from tests.helpers.stores import Filled, empty_store, keeping_store


@pytest.fixture
def store(tmp_path: Path) -> Filled:
    """A store with a gate that is under way."""
    store = empty_store(tmp_path)
    row = GateRow("g", "game", None, "a", "bot:b", 1, 0.0, 35.0, "logistic", 0.05, 0.05, 0, "sample")
    store.gate_begins(row)
    return store


def decision(store: Filled) -> tuple[str, int]:
    """What the gate came to, and its games."""
    (row,) = store.gates()
    return row.decision, row.games


def test_a_gate_that_ends_meanwhile_keeps_its_decision(store: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its row was read while it was played, its lock is free when it is looked at: it is not broken off."""
    (row,) = store.gates()

    def look(path: Path) -> bool:
        store.end_gate(replace(row, decision="passed", games=64), None)
        return False

    monkeypatch.setattr(gating, "is_held", look)
    end_broken_off(store)
    assert decision(store) == ("passed", 64)


def test_a_gate_that_is_played_is_left_alone(store: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever holds its lock writes its row, even where another process has just seen the lock free."""
    monkeypatch.setattr(gating, "is_held", lambda path: False)
    with held(store.path / "g" / LOCK):
        end_broken_off(store)
        assert decision(store) == ("running", 0)
    end_broken_off(store)
    assert decision(store) == ("broken off", 0)


def test_a_broken_off_gate_has_the_games_that_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal between storing a batch and counting it waits until both are done."""
    added = Folder.add_matches
    store = keeping_store(tmp_path)

    def add(self: Folder, matches: Any) -> None:
        if matches[0].update == 1:
            signal.raise_signal(signal.SIGTERM)
        added(self, matches)

    monkeypatch.setattr(Folder, "add_matches", add)
    with on_signal(interrupt), pytest.raises(Interrupted):
        gate("bot:random", "bot:constant", env="matrix", max_games=1000, device="cpu", store=store.path)
    (row,) = store.gates()
    assert row.decision == "broken off" and row.games == len(store.matches(row.gate, "evaluation")) == 64
