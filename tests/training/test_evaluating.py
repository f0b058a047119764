"""Evaluations have a budget of steps, which is a share of those trained on; progress shows from the first moment."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import league
from league import phases
from league.store.store import Store
from league.training import evaluating
from league.training.evaluating import ALLOWANCE, GAMES
from league.training.ladder import FIRST_ROW
from league.types import MatchResult
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


@pytest.mark.parametrize(("env", "share"), [("matrix", 0.0), ("matrix", 0.5), ("brawl", 1.0)])
def test_evaluations_never_take_more_than_their_share(tmp_path: Path, env: str, share: float) -> None:
    """At every step they have taken at most the share of the steps trained on and the allowance, in pairs, and most of
    it; matches of brawl are of all lengths."""
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
    """Then to each as a share of the games that it would have."""
    monkeypatch.setattr(evaluating, "ALLOWANCE", 60)
    sets = ("run.evaluate_share=20.0", "run.anchor_games=800", "env.time_limit_seconds=2", "run.evaluate_every=640")
    met = evaluated(train(tmp_path, *sets, env="brawl"))
    first, last = (Counter(bot for match in met[at] for bot in match.agents if bot[:4] == "bot:") for at in (0, 640))
    assert first == {"bot:based": 2}
    assert last["bot:based"] > 1.9 * last["bot:random"] > 0


def test_a_match_that_is_too_long_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows how long one takes before the first has ended: it is broken off, which is said, and training goes
    on; later steps pay for it."""
    monkeypatch.setattr(evaluating, "ALLOWANCE", 59)
    notes = Notes()
    met = evaluated(train(tmp_path, "run.evaluate_share=1.0", callback=notes))
    assert list(met) == [160, 320, 480, 640]
    assert sum(match.steps for matches in met.values() for match in matches) <= 640 + 59
    told = [line for line in notes.said if line.startswith("evaluated at step 0 ")]
    assert len(told) == 1 and "by 0 of" in told[0] and "run.evaluate_share=1" in told[0]


def test_a_stopped_run_is_evaluated_as_one_that_was_not(tmp_path: Path) -> None:
    """What was spent is part of the state, so the games are the same."""
    whole = train(tmp_path / "whole")
    train(tmp_path / "parts", callback=Notes(13))
    league.resume("it", store=tmp_path / "parts" / "league.duckdb")
    expected, found = (
        [(x.update, x.row, x.ordinal, x.agents, x.winner, x.seed) for x in store.matches("it", "evaluation")]
        for store in (whole, Store.open(tmp_path / "parts" / "league.duckdb"))
    )
    assert found == expected


@pytest.mark.slow
def test_a_run_that_goes_on_may_be_evaluated_otherwise(tmp_path: Path) -> None:
    """Its share and the games of its last evaluation are settings of how one looks at it."""
    train(tmp_path, "run.evaluate_games=2", "env.time_limit_seconds=1", env="brawl", callback=Notes(13))
    sets = ["run.anchor_games=40", "run.evaluate_share=10.0", "run.ladder_share=0.0", "run.ladder_older=1"]
    league.resume("it", overrides=sets, store=tmp_path / "league.duckdb")
    met = evaluated(Store.open(tmp_path / "league.duckdb"))
    assert sum("bot:based" in match.agents for match in met[640]) == 40


def test_rounds_keep_no_more_replays_than_one_would(tmp_path: Path) -> None:
    """`run.replays` matches of each pair, the first ones."""
    store = train(tmp_path, "run.replays=3", "run.evaluate_every=0", "run.evaluate_share=1.0")
    kept = Counter(frozenset((row.seat0_agent, row.seat1_agent)) for row in store.replays("it"))
    assert set(kept.values()) == {3}


def test_progress_begins_before_anything_is_played(tmp_path: Path) -> None:
    """It counts the games of all rounds, and the steps played meanwhile."""
    told: list[tuple[str, float, float, int]] = []
    with phases.gauging(lambda *what: told.append(what)):
        train(tmp_path, "run.evaluate_every=0", "run.evaluate_games=4", "run.evaluate_share=10.0")
    assert {name for name, *_ in told} == {GAMES}
    num_games = sum(map(len, evaluated(Store.open(tmp_path / "league.duckdb")).values()))
    assert told[0][1:2] + told[0][3:] == (0, 0) and told[-1][1:3] == (num_games, num_games)
    assert [done for _, done, _, _ in told] == sorted(done for _, done, _, _ in told)
    assert [steps for *_, steps in told] == sorted(steps for *_, steps in told)
