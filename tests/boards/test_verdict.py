"""The verdict on a test stage: its readings, its signs, and odds that are counts of measured runs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import league
from league import config
from league.boards import verdict
from league.boards.verdict import Readings, judge, measured, read, signs_of
from league.envs import registry
from league.store.store import Store
from tests.helpers.runs import SETS, stages

WELL = Readings(0.006, 0.07, 0.35, 0.8, 1.1, 0.6)
SICK = {
    "updates are too large": WELL._replace(approx_kl=0.065),
    "change next to nothing": WELL._replace(approx_kl=1e-4),
    "values explain nothing": WELL._replace(explained_variance=-0.02),
    "as randomly as ever": WELL._replace(entropy=0.98),
    "clipped to a fraction": WELL._replace(gradient_norm=4.0),
    "does not beat the anchor yet (18%)": WELL._replace(score=0.18),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, str]:
    """A tiny finished stage that another one carries on, and the two lines that it ended with."""
    folder = tmp_path_factory.mktemp("trained")
    store = folder / "league.duckdb"
    with stages(folder):
        done = league.train("short", env="matrix", device="cpu", overrides=SETS, store=store)
    return Store.open(store), done.verdict


def table(monkeypatch: pytest.MonkeyPatch, game_id: str, agent: dict[str, Any], short: int = 640) -> None:
    """Eight runs were measured: five well ones, of which four became strong, and three sick ones, of which one did."""
    well = [{"readings": WELL._asdict(), "strength": x} for x in (0.9, 0.9, 0.8, 0.7, 0.4)]
    sick = [{"readings": x._asdict(), "strength": s} for x, s in zip(SICK.values(), (0.5, 0.3, 0.9), strict=False)]
    facts = {"name": "a game", "game_id": game_id, "agent": agent, "short": short, "steps": 3_000_000, "strong": 0.7}
    monkeypatch.setattr(verdict, "measured", lambda: facts | {"runs": well + sick})


@pytest.mark.parametrize("words", SICK)
def test_each_sign_is_seen_alone(words: str) -> None:
    """A healthy run has none; a run that is sick in one way has that one."""
    assert signs_of(WELL) == () and signs_of(WELL._replace(score=None)) == ()
    (sign,) = signs_of(SICK[words])
    assert words in sign


def test_readings_are_means_over_the_last_fifth(trained: tuple[Store, str]) -> None:
    """By a query of its own; up to an earlier step they are what they were then."""
    store, _ = trained
    run = store.runs()[0]
    for until in (640, 384):
        found = read(store, run, 0.5, "bot:biased", until)
        assert found is not None
        for name, scale in (("approx_kl", 1.0), ("clip_share", 1.0), ("explained_variance", 1.0), ("gradient_norm", 2)):
            where = f"run = '{run.run}' AND name = '{name}' AND steps <= {until}"
            sql = f"SELECT avg(value) * {scale} FROM metric WHERE {where} AND steps > {0.8 * until}"
            assert getattr(found, name) == pytest.approx(store.query(sql)[1][0][0])
        assert 0.0 < found.entropy <= 1.0
    last = store.snapshots(run.run)[-1].agent_id
    won = [
        0.5 + (match.payoff_of(last) or 0.0) / 20.0
        for match in store.matches(run.run, "evaluation")
        if set(match.agents) == {last, "bot:biased"}
    ]
    assert (full := read(store, run, 0.5, "bot:biased")) is not None
    assert won and full.score == pytest.approx(np.mean(won))


def test_a_stage_ends_with_two_lines(trained: tuple[Store, str]) -> None:
    """On a game that was not measured they are the readings, without signs and odds."""
    store, told = trained
    found = judge(store, store.runs()[0].run)
    assert found is not None and found.word == "unknown" and found.runs == 0
    first, second = told.splitlines()
    assert (first, second) == found.lines() and first.startswith("no verdict") and found.signs == ()
    assert second.startswith("readings: ") and f"KL {found.readings.approx_kl:.4f}" in second


@pytest.mark.parametrize(
    ("readings", "word", "odds"), [(WELL, "promising", (4, 5)), (SICK["updates are too large"], "sick", (1, 3))]
)
def test_odds_count_the_measured_runs_of_the_same_word(
    readings: Readings, word: str, odds: tuple[int, int], trained: tuple[Store, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where game, agent and length are those that were measured; with another agent or length there are none."""
    store, _ = trained
    run = store.runs()[0]
    agent = json.loads(run.config)["agent"]
    monkeypatch.setattr(verdict, "read", lambda *_: readings)
    table(monkeypatch, run.game_id, {"lstm_size": agent["lstm_size"]})
    found = judge(store, run.run)
    assert found is not None and (found.word, (found.strong, found.runs)) == (word, odds)
    first, _ = found.lines()
    assert first.startswith(word) and f"of {odds[1]} measured runs like it {odds[0]} were strong" in first
    for given in ({"lstm_size": agent["lstm_size"] + 1}, 640), ({}, 320), ({}, 1_280):
        table(monkeypatch, run.game_id, *given)
        assert (other := judge(store, run.run)) is not None and other.word == "unknown"


def test_the_measured_runs_are_of_todays_game() -> None:
    """The table is of the game, the agent and the readings that the library has; else it has to be made again."""
    found = measured()
    assert found["game_id"] == registry.game_id("brawl", config.load("10m").env.options)
    assert found["agent"] == config.agents()["small"]["agent"]
    names = [(run["name"], run["seed"]) for run in found["runs"]]
    assert len(set(names)) == len(names) and all(0.0 <= run["strength"] <= 1.0 for run in found["runs"])
    words = {bool(signs_of(Readings(**run["readings"]))) for run in found["runs"]}
    assert words == {True, False}, "both kinds were measured"
