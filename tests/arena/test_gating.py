"""A gate's row: whoever looks for broken-off gates changes nothing of one that is played or has ended."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from league.arena import gating
from league.arena.gating import end_broken_off, gate
from league.signals import Interrupted, interrupt, on_signal
from league.store.liveness import gate_lock
from league.store.locks import held
from league.store.rows import GateRow
from league.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with a gate that is under way."""
    store = Store.create(tmp_path / "league.duckdb")
    row = GateRow("g", "game", None, "a", "bot:b", 1, 0.0, 35.0, "logistic", 0.05, 0.05, 0, "sample")
    store.begin_gate(row, lambda attempt: 0.05)
    return store


def decision(store: Store) -> tuple[str, int]:
    """What the gate came to, and its games."""
    (row,) = store.gates()
    return row.decision, row.games


def test_a_gate_that_ends_meanwhile_keeps_its_decision(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its row was read while it was played, its lock is free when it is looked at: it is not broken off."""
    (row,) = store.gates()
    gate_lock(store, "g").touch()

    def look(path: Path) -> bool:
        store.end_gate(replace(row, decision="passed", games=64), None)
        return False

    monkeypatch.setattr(gating, "is_held", look)
    end_broken_off(store)
    assert decision(store) == ("passed", 64)


def test_a_gate_that_is_played_is_left_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever holds its lock writes its row, even where another process has just seen the lock free."""
    monkeypatch.setattr(gating, "is_held", lambda path: False)
    with held(gate_lock(store, "g")):
        end_broken_off(store)
        assert decision(store) == ("running", 0) and gate_lock(store, "g").exists()
    end_broken_off(store)
    assert decision(store) == ("broken off", 0) and not gate_lock(store, "g").exists()


def test_a_broken_off_gate_has_the_games_that_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal between storing a batch and counting it waits until both are done."""
    added = Store.add_matches
    store = Store.create(tmp_path / "league.duckdb")

    def add(self: Store, matches: Any) -> None:
        if matches[0].update == 1:
            signal.raise_signal(signal.SIGTERM)
        added(self, matches)

    monkeypatch.setattr(Store, "add_matches", add)
    with on_signal(interrupt), pytest.raises(Interrupted):
        gate("bot:random", "bot:constant", env="matrix", max_games=1000, device="cpu", store=store.path)
    (row,) = store.gates()
    assert row.decision == "broken off" and row.games == len(store.matches(row.gate, "evaluation")) == 64
