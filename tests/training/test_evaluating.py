"""Evaluations have a budget of steps, which is a share of those trained on; progress shows from the first moment."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import league
from league.boards.standings import leaderboard
from league.store.store import Store
from league.training import evaluating
from league.training.evaluating import ALLOWANCE
from league.training.ladder import FIRST_ROW
from league.types import MatchResult
from tests.helpers.cases import cases
from tests.helpers.runs import Notes
from tests.helpers.sizes import TINY

SETS = (*TINY, "run.total_steps=640", "run.evaluate_every=160", "run.evaluate_games=400")
GAME = {"matrix": ("env.rounds=30",), "brawl": ("env.time_limit_seconds=6",)}
"""Matches of 30 steps, and of at most 60."""


def train(folder: Path, *sets: str, env: str = "matrix", **more: Any) -> Store:
    """A run in `folder`, and its store."""
    overrides, store = [*SETS, *GAME[env], *sets], folder / "league.duckdb"
    league.train("smoke", env=env, run="it", overrides=overrides, store=store, device="cpu", **more)
    return Store.open(store)


def evaluated(store: Store) -> dict[int, list[MatchResult]]:
    """The matches of each evaluation, by the steps made."""
    found: dict[int, list[MatchResult]] = {}
    for match in store.matches("it", "evaluation"):
        if match.row < FIRST_ROW:
            found.setdefault(32 * match.update, []).append(match)
    return found


@pytest.mark.parametrize(("env", "share"), cases(("matrix", 0.5), slow=[("brawl", 1.0), ("matrix", 0.0)]))
def test_evaluations_never_take_more_than_their_share(tmp_path: Path, env: str, share: float) -> None:
    met, spent = evaluated(train(tmp_path, f"run.evaluate_share={share}", env=env)), 0
    assert list(met) == ([0, 160, 320, 480, 640] if share else [0])
    for steps, matches in met.items():
        spent += sum(match.steps for match in matches)
        budget = ALLOWANCE + share * steps
        assert budget - 4 * 60 <= spent <= budget
        seats = Counter((frozenset(match.agents), match.agents[0]) for match in matches)
        assert all(count == seats[pair, next(iter(pair - {first}))] for (pair, first), count in seats.items())
        assert len({(match.row, match.ordinal) for match in matches}) == len(matches)


def test_what_is_paid_for_goes_to_the_anchor_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluating, "ALLOWANCE", 60)
    sets = ("run.evaluate_share=20.0", "run.anchor_games=800", "env.time_limit_seconds=2", "run.evaluate_every=640")
    met = evaluated(train(tmp_path, *sets, env="brawl"))
    first, last = (Counter(bot for match in met[at] for bot in match.agents if bot[:4] == "bot:") for at in (0, 640))
    assert first == {"bot:based": 2}
    assert last["bot:based"] > 1.9 * last["bot:random"] > 0


def test_a_match_that_is_too_long_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluating, "ALLOWANCE", 59)
    notes = Notes()
    met = evaluated(train(tmp_path, "run.evaluate_share=1.0", callback=notes))
    assert list(met) == [160, 320, 480, 640]
    assert sum(match.steps for matches in met.values() for match in matches) <= 640 + 59
    told = [line for line in notes.said if line.startswith("evaluated at step 0 ")]
    assert len(told) == 1 and "by 0 of" in told[0] and "run.evaluate_share=1" in told[0]


@pytest.mark.slow
def test_a_stopped_run_is_evaluated_as_one_that_was_not(tmp_path: Path) -> None:
    whole = train(tmp_path / "whole")
    train(tmp_path / "parts", callback=Notes(13))
    league.resume("it", store=tmp_path / "parts" / "league.duckdb")
    expected, found = (
        [(x.update, x.row, x.ordinal, x.agents, x.winner, x.seed) for x in store.matches("it", "evaluation")]
        for store in (whole, Store.open(tmp_path / "parts" / "league.duckdb"))
    )
    assert found == expected


CLIMBING = (*TINY, "env.rounds=4", "run.total_steps=640", "pool.snapshot_every=64", "run.ladder_share=0.25")


@pytest.mark.slow
def test_a_tenth_is_a_tenth(tmp_path: Path) -> None:
    """Games begin with the first snapshot that can pay and never take more than the share, but for one pair's length;
    they are pairs of the newest snapshot against bots and older snapshots, in both seats."""
    call: dict[str, Any] = {"env": "matrix", "run": "it", "overrides": CLIMBING, "device": "cpu"}
    league.train("smoke", **call, store=tmp_path / "league.duckdb")
    store = Store.open(tmp_path / "league.duckdb")
    rows = {row.agent_id: row for row in store.snapshots("it")}
    games = [match for match in store.matches("it", "evaluation") if match.row >= FIRST_ROW]
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


def test_the_last_evaluation_meets_the_anchor_more_often(tmp_path: Path) -> None:
    store = tmp_path / "league.duckdb"
    sets = [*TINY, "run.total_steps=128", "run.anchor_games=12", "run.evaluate_every=64", "env.time_limit_seconds=1"]
    league.train("smoke", env="brawl", run="it", overrides=sets, store=store, device="cpu")
    games = Store.open(store).matches("it", "evaluation")
    met = Counter((x.update, bot) for x in games for bot in x.agents if bot.startswith("bot:"))
    updates = sorted({update for update, _ in met})
    assert [met[update, "bot:based"] for update in updates] == [*[2] * (len(updates) - 1), 12] and len(updates) > 1
    assert {met[update, "bot:random"] for update in updates} == {2}
