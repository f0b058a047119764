"""The verdict on a test stage: its readings, its signs, and odds that are counts of measured runs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import league
from league import config
from league.boards import verdict
from league.boards.readings import READINGS, Read, read, units
from league.boards.verdict import SCORE, MeanScore, judge, measured, risen, score_of, signs_of
from league.envs import registry
from league.store.store import Store
from tests.helpers.runs import SETS, stages

WELL = {
    **{"approx_kl": 0.006, "clip_share": 0.07, "explained_variance": 0.35, "entropy_in_play": 0.8},
    **{"gradient_norm": 1.1, SCORE: 0.6},
}
SICK = {
    "updates are too large": WELL | {"approx_kl": 0.065},
    "change next to nothing": WELL | {"approx_kl": 1e-4},
    "values explain nothing of the returns": WELL | {"explained_variance": -0.02},
    "as randomly as ever": WELL | {"entropy_in_play": 0.98},
    "clipped to a fraction": WELL | {"gradient_norm": 4.0},
    "does not beat the anchor yet": WELL | {"score": 0.18},
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
    well = [{"readings": WELL, "strength": x} for x in (0.9, 0.9, 0.8, 0.7, 0.4)]
    sick = [{"readings": x, "strength": s} for x, s in zip(SICK.values(), (0.5, 0.3, 0.9), strict=False)]
    facts = {"name": "a game", "game_id": game_id, "agent": agent, "short": short, "steps": 3_000_000, "strong": 0.7}
    monkeypatch.setattr(verdict, "measured", lambda: facts | {"runs": well + sick})


@pytest.mark.parametrize("words", SICK)
def test_each_sign_is_seen_alone(words: str) -> None:
    """A healthy run has none; a run that is sick in one way has that one."""
    assert signs_of(WELL) == () and signs_of({k: v for k, v in WELL.items() if k != SCORE}) == ()
    (sign,) = signs_of(SICK[words])
    assert words in sign.words


def test_readings_are_means_over_the_last_fifth(trained: tuple[Store, str]) -> None:
    """By a query of its own; up to an earlier step they are what they were then."""
    store, _ = trained
    run = store.runs()[0]
    settings = json.loads(run.config)
    for until in (640, 384):
        found = read(store, run, settings, until)
        for name, x in found.items():
            scale = 1.0 / units(settings).get(name, 1.0)
            where = f"run = '{run.run}' AND name = '{name}' AND steps <= {until}"
            if name == "entropy_in_play":
                scale = 1.0 / store.query(f"SELECT max(value) FROM metric WHERE {where}")[1][0][0]
            sql = f"SELECT avg(value) * {scale} FROM metric WHERE {where} AND steps > {0.8 * until}"
            assert x.value == pytest.approx(store.query(sql)[1][0][0]), name
            assert 0 <= x.beyond <= x.updates == store.query(f"SELECT count(*) FROM metric WHERE {where}")[1][0][0]
        assert set(found) == {reading.metric for reading in READINGS}
    last = store.snapshots(run.run)[-1].agent_id
    won = [
        0.5 + (match.payoff_of(last) or 0.0) / 20.0
        for match in store.matches(run.run, "evaluation")
        if set(match.agents) == {last, "bot:biased"}
    ]
    assert won and score_of(store, run, "bot:biased")[SCORE] == pytest.approx(np.mean(won))


def test_a_reading_beyond_its_limits_is_a_line_with_what_to_try() -> None:
    """It has the value, the limit, in how many updates, the reason and a setting; a healthy one has none."""
    kl = READINGS[0]
    assert Read(kl, 0.01, 0, 98).remark is None
    assert Read(kl, 0.051, 70, 98).line == (
        "KL 0.0510, above 0.0300 in 70 of 98 updates: updates are too large: the policy leaves what was sampled;"
        " lower learner.learning_rate or learner.epochs, or set learner.adaptive_kl=0.02"
    )
    for reading in READINGS:
        for remark in (reading.low, reading.high):
            assert remark is None or ("learner." in remark.cure or remark.short in ("draws", "seats"))
        low, high = reading.healthy
        least, most = reading.wrong
        assert least <= low < high <= most and reading.remark((low + min(high, 10.0)) / 2) is None


def test_a_stage_ends_with_its_curves_and_readings(trained: tuple[Store, str]) -> None:
    """On any game; of one that was not measured without what measured runs came to."""
    store, told = trained
    found = judge(store, store.runs()[0].run)
    assert found is not None and found.word is None and found.runs == 0
    first, second, *more = told.splitlines()
    assert (first, second, *more) == found.lines() and first.startswith(("learning: ", "unclear: ", "getting worse: "))
    assert second.startswith("readings: ") and f"KL {found.readings['approx_kl'].value:.4f}" in second
    assert len(more) == sum(x.remark is not None for x in found.readings.values())


@pytest.mark.parametrize(
    ("before", "now", "first", "word"),
    [
        ((0.1, 40), (0.6, 40), (0.8, 40), "learning"),
        ((0.6, 40), (0.1, 40), (0.2, 40), "getting worse"),
        ((0.5, 10), (0.6, 10), (0.5, 10), "unclear"),
        ((0.0, 4), (0.0, 4), (0.5, 4), "unclear"),
        (None, None, (0.9, 30), "learning"),
        (None, None, None, "unclear"),
    ],
)
def test_curves_say_whether_a_run_learns(
    before: Any, now: Any, first: Any, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rising against the bots and the first snapshot it learns, falling it gets worse, else it is unclear."""
    scores = [("bot:a", 0, before), ("bot:a", 640, now), ("r@0", 600, first), ("r@128", 640, (1.0, 99))]
    rows = [(against, step, x[1], x[0]) for against, step, x in scores if x is not None]
    store: Any = type("Scores", (), {"scores_over_steps": lambda *_: rows})()
    row: Any = type("Row", (), {"run": "r", "game_id": "g"})()
    found = risen(store, row)
    assert found.word == word and found.line.startswith(f"{word}: ")
    assert (found.first is None) == (first is None) and (before is None) == (not found.bots)


def test_the_chance_of_a_rise_is_calibrated() -> None:
    """Of agents that stay as they are, at most a tenth are said to learn or to get worse (2.5 % each way, and few games
    are counted as surer than they are by no more)."""
    rng = np.random.default_rng(0)
    for p in (0.02, 0.2, 0.5):
        words = []
        for _ in range(1_000):
            before, now = (MeanScore(rng.binomial(20, p) / 20, 20) for _ in range(2))
            rows = [("bot:a", 0, 20, before.score), ("bot:a", 9, 20, now.score)]
            store: Any = type("Scores", (), {"scores_over_steps": lambda *_, rows=rows: rows})()
            row: Any = type("Row", (), {"run": "r", "game_id": "g"})()
            words.append(risen(store, row).word)
        assert words.count("learning") < 70 and words.count("getting worse") < 70, p


@pytest.mark.parametrize(
    ("readings", "word", "odds"), [(WELL, "promising", (4, 5)), (SICK["updates are too large"], "sick", (1, 3))]
)
def test_odds_count_the_measured_runs_of_the_same_word(
    readings: dict[str, float],
    word: str,
    odds: tuple[int, int],
    trained: tuple[Store, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where game, agent and length are those that were measured; with another agent or length there are none."""
    store, _ = trained
    run = store.runs()[0]
    agent = json.loads(run.config)["agent"]
    shown = {x.metric: Read(x, readings[x.metric], 1, 2) for x in READINGS if x.metric in readings}
    monkeypatch.setattr(verdict, "read", lambda *_: shown)
    monkeypatch.setattr(verdict, "score_of", lambda *_: {SCORE: readings[SCORE]})
    table(monkeypatch, run.game_id, {"lstm_size": agent["lstm_size"]})
    found = judge(store, run.run)
    assert found is not None and (found.word, (found.strong, found.runs)) == (word, odds)
    second = found.lines()[1]
    assert second.startswith(word) and f"of {odds[1]} measured runs like it {odds[0]} were strong" in second
    for given in ({"lstm_size": agent["lstm_size"] + 1}, 640), ({}, 320), ({}, 1_280):
        table(monkeypatch, run.game_id, *given)
        assert (other := judge(store, run.run)) is not None and other.word is None


def test_the_measured_runs_are_of_todays_game() -> None:
    """The table is of the game, the agent and the readings that the library has; else it has to be made again."""
    found = measured()
    assert found["game_id"] == registry.game_id("brawl", config.load("10m").env.options)
    assert found["agent"] == config.agents()["small"]["agent"]
    names = [(run["name"], run["seed"]) for run in found["runs"]]
    assert len(set(names)) == len(names) and all(0.0 <= run["strength"] <= 1.0 for run in found["runs"])
    words = {bool(signs_of(run["readings"])) for run in found["runs"]}
    assert words == {True, False}, "both kinds were measured"
