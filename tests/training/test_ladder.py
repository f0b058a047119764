"""The ladder: new snapshots play a few games each, by this run's own games so far, and training notices nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import league
from league.boards.standings import leaderboard
from league.errors import SnapshotError
from league.sessions.artifacts import FileArtifactStore
from league.store.store import Store
from league.training import ladder
from league.training.ladder import FIRST_ROW
from league.types import MatchResult
from tests.helpers.runs import Notes
from tests.helpers.sizes import TINY

SETS = (*TINY, "env.rounds=4", "run.total_steps=640", "pool.snapshot_every=64", "run.ladder_share=0.25")


def train(folder: Path, *sets: str, **more: Any) -> Store:
    """A run of the matrix game in `folder`, and its store."""
    store = folder / "league.duckdb"
    league.train("smoke", env="matrix", run="it", overrides=[*SETS, *sets], store=store, device="cpu", **more)
    return Store.open(store)


def climbed(store: Store) -> list[MatchResult]:
    """The games of the ladder, by update."""
    return [match for match in store.matches("it", "evaluation") if match.row >= FIRST_ROW]


@pytest.mark.slow
def test_a_tenth_is_a_tenth(tmp_path: Path) -> None:
    """Games begin with the first snapshot that can pay and never take more than the share, but for one pair's length;
    they are pairs of the newest snapshot against bots and older snapshots, in both seats."""
    store = train(tmp_path)
    rows = {row.agent_id: row for row in store.snapshots("it")}
    games = climbed(store)
    by_update: dict[int, list[MatchResult]] = {}
    for match in games:
        by_update.setdefault(match.update, []).append(match)
    assert len(by_update) == 10, "of eleven snapshots all but the first, at step 0"
    spent = 0
    for update, met in sorted(by_update.items()):
        newest = next(agent for agent, row in rows.items() if row.update == update)
        assert all(newest in match.agents for match in met)
        seats = Counter((next(a for a in match.agents if a != newest), match.agents.index(newest)) for match in met)
        assert all(seats[other, 0] == seats[other, 1] for other, _ in seats)
        others = {other for other, _ in seats if not other.startswith("bot:")}
        assert all(rows[other].update < update for other in others)
        assert spent < 0.25 * rows[newest].step
        spent += sum(match.steps for match in met)
        assert spent <= 0.25 * rows[newest].step + 2 * 4
    assert spent > 0.2 * 640
    assert any(not agent.startswith("bot:") and rows[agent].update < x.update for x in games for agent in x.agents)
    curve = [entry for entry in leaderboard(store).boards[0].entries if entry.name.startswith("it@")]
    assert len(curve) == 11


@pytest.mark.slow
def test_a_stopped_run_climbs_as_one_that_was_not(tmp_path: Path) -> None:
    """What was spent is part of the state, so the games are the same."""
    whole = train(tmp_path / "whole")
    train(tmp_path / "parts", callback=Notes(7))
    league.resume("it", store=tmp_path / "parts" / "league.duckdb")
    parts = Store.open(tmp_path / "parts" / "league.duckdb")
    expected, found = (
        [(x.update, x.row, x.ordinal, x.agents, x.winner, x.seed) for x in climbed(store)] for store in (whole, parts)
    )
    assert found == expected


def test_a_run_without_a_share_has_no_ladder(tmp_path: Path) -> None:
    """As all runs from before there was one."""
    assert climbed(train(tmp_path, "run.ladder_share=0.0")) == []


def test_the_last_evaluation_meets_the_anchor_more_often(tmp_path: Path) -> None:
    """So that its score is known within a few points; the others have `evaluate_games`."""
    store = tmp_path / "league.duckdb"
    sets = [*TINY, "run.total_steps=128", "run.anchor_games=12", "run.evaluate_every=64", "env.time_limit_seconds=1"]
    league.train("smoke", env="brawl", run="it", overrides=sets, store=store, device="cpu")
    games = Store.open(store).matches("it", "evaluation")
    met = Counter((x.update, bot) for x in games for bot in x.agents if bot.startswith("bot:"))
    updates = sorted({update for update, _ in met})
    assert [met[update, "bot:based"] for update in updates] == [*[2] * (len(updates) - 1), 12] and len(updates) > 1
    assert {met[update, "bot:random"] for update in updates} == {2}


@pytest.mark.parametrize(
    ("num", "expected"), [(0, []), (1, [20]), (3, [20, 10, 5]), (9, [20, 10, 5, 2, 1, 0])], ids=str
)
def test_older_snapshots_reach_back(num: int, expected: list[int]) -> None:
    """The one before, then each at half the index."""
    assert ladder._older([str(i) for i in range(21)], num) == [str(i) for i in expected]
    assert ladder._older([], 3) == []


def test_a_snapshot_that_is_damaged_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody else was chosen there are no games, each time that is said, and training goes on to its end."""
    load, said = FileArtifactStore.load_policy, Notes()

    def broken(self: FileArtifactStore, agent_id: str) -> Any:
        if agent_id == "damaged":
            raise SnapshotError("a bit is wrong")
        return load(self, agent_id)

    monkeypatch.setattr(FileArtifactStore, "load_policy", broken)
    monkeypatch.setattr(ladder, "_chosen", lambda *_: {"damaged": 1})
    store = train(tmp_path, callback=said)
    assert climbed(store) == [] and store.find_run("it").status == "finished"
    assert any("climbing the ladder without damaged: a bit is wrong" in line for line in said.said)
