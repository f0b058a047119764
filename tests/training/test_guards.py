"""Alarms: each sign over made-up figures, and real runs made sick on purpose, which are said, stored and stopped."""

import dataclasses
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import league
from league import config as settings
from league.envs.classic import matrix
from league.errors import LeagueError
from league.snapshots import io
from league.snapshots.state import load_state
from league.store.rows import ALARM, OVER
from league.store.store import Store
from league.training.guards import FEW, PATIENCE, WINDOW, Alarm, Guards
from league.types import MatchResult
from tests.helpers.cases import cases
from tests.helpers.runs import Notes

CONFIG = settings.load("smoke", env="matrix")
HEALTHY = {
    "entropy": 0.9,
    "entropy_in_play": 1.0,
    "approx_kl": 0.004,
    "clip_share": 0.05,
    "value_loss": 0.3,
    "explained_variance": 0.3,
    "gradient_norm": 0.4,
    "reward_per_step": 0.01,
}
MATCH = MatchResult("me", "training", 1, 0, 0, "g", ("me", "bot:a"), 1, 0, "time", 1, 1, "sample")


def match(**rewards: tuple[float, float]) -> MatchResult:
    """A finished match with these sums of reward terms."""
    return dataclasses.replace(MATCH, rewards=rewards or {"payoff": (1.0, -1.0)})


def kinds(guards: Guards, figures: Iterable[dict[str, float]], config: settings.Config = CONFIG) -> list[list[str]]:
    """The alarms of a series of updates with a match each; returns vary a little, as they do, unless given."""
    said = []
    for i, figure in enumerate(figures):
        metrics = {**HEALTHY, "reward_per_step": 0.01 + 0.001 * (-1) ** i, **figure}
        said.append([alarm.kind for alarm in guards.judge(config, metrics, [match()]) if not alarm.is_over])
    return said


def once(kind: str, at: int, updates: int) -> list[list[str]]:
    """One alarm after the update number `at`, counted from 1."""
    return [[kind] if i == at else [] for i in range(1, updates + 1)]


COLLAPSED = {"entropy": 0.04, "approx_kl": 1e-6, "clip_share": 0.0}
SICK = {
    "kl_blow_up": ({"approx_kl": 0.2}, FEW),
    "value_explosion": ({"value_loss": 40.0}, FEW),
    "values_mislead": ({"explained_variance": -0.6}, PATIENCE),
    "gradient_clipped": ({"gradient_norm": 60.0}, PATIENCE),
    "entropy_collapse": (COLLAPSED, PATIENCE),
}


@pytest.mark.parametrize("kind", SICK)
def test_a_sign_is_said_once_and_again_only_after_it_healed(kind: str) -> None:
    figure, patience = SICK[kind]
    guards = Guards()
    assert not any(kinds(guards, [{}] * 2 * PATIENCE))
    assert not any(kinds(guards, [figure] * (patience - 1) + [{}])), "too few"
    assert kinds(guards, [figure] * 30) == once(kind, patience, 30)
    assert not any(kinds(guards, [{}] * (patience - 1) + [figure] * 30)), "not healed for long enough"
    assert not any(kinds(guards, [{}] * (patience - 1)))
    assert guards.judge(CONFIG, HEALTHY, [match()]) == [Alarm(kind, kind, is_over=True)]
    assert kinds(guards, [figure] * 30) == once(kind, patience, 30)


@pytest.mark.parametrize("name", ["approx_kl", "value_loss", "explained_variance", "gradient_norm"])
def test_figures_that_are_not_numbers_are_sick(name: str) -> None:
    for value in (float("nan"), float("-inf" if name == "explained_variance" else "inf")):
        guards = Guards()
        assert not any(kinds(guards, [{}] * PATIENCE))
        assert any(kinds(guards, [{name: value}] * PATIENCE))
    assert kinds(Guards(), [{"approx_kl": 2.0}] * 5) == once("kl_blow_up", 1, 5), "one violent update is enough"


def test_a_sure_policy_that_still_learns_has_not_collapsed() -> None:
    for alive in ({"approx_kl": 1e-3}, {"clip_share": 0.01}, {"entropy": 0.06}):
        assert not any(kinds(Guards(), [{}] * 3 + [{**COLLAPSED, **alive}] * 30))
    rising = [{**COLLAPSED, "reward_per_step": 0.01 * i} for i in range(30)]
    assert not any(kinds(Guards(), [{}, *rising]))


def test_a_return_that_never_changes_is_flat() -> None:
    for value in (0.0, -3.0):
        assert kinds(Guards(), [{"reward_per_step": value}] * 30) == once("flat_return", WINDOW, 30)
    guards = Guards()
    same = [{"reward_per_step": 1.0}] * WINDOW
    assert kinds(guards, [*same, {"reward_per_step": 1.1}, *same])[-1] == ["flat_return"]


def test_no_match_for_long_is_said() -> None:
    guards, updates = Guards(), -(-CONFIG.run.alarm_idle_steps // CONFIG.learner.rollout_steps)

    def idle(times: int) -> list[Alarm]:
        metrics = [{**HEALTHY, "reward_per_step": 0.001 * i} for i in range(times)]
        return [alarm for m in metrics for alarm in guards.judge(CONFIG, m, [])]

    assert not idle(updates - 1) and guards.judge(CONFIG, HEALTHY, [match()]) == [], "a match begins the count again"
    assert [alarm.kind for alarm in idle(2 * updates)] == ["no_matches"], "once"


def test_a_weighted_term_that_never_fires_is_said_once() -> None:
    config = CONFIG.model_copy(update={"rewards": {"payoff": 1.0, "win": 2.0, "other": 0.0}})
    guards = Guards()
    silent = match(payoff=(0.0, 1.0), win=(0.0, 0.0), other=(0.0, 0.0))
    assert guards.judge(config, HEALTHY, [silent] * (CONFIG.run.alarm_silent_matches - 1)) == []
    (alarm,) = guards.judge(config, HEALTHY, [silent])
    assert alarm.kind == "silent_reward:win" and "rewards.win (weight 2) was 0" in alarm.message
    assert guards.judge(config, HEALTHY, [silent]) == []


def test_losing_to_random_play_is_said_late_and_when_it_is_sure() -> None:
    """Neither early, nor by a few games, nor against another bot, nor in a game that names nobody."""
    late = CONFIG.run.alarm_random_steps
    lost: dict[str, Any] = {"opponent": "bot:random", "score": 0.1, "games": 30, "floor": "random"}
    assert Guards().judge_evaluation(CONFIG, late - 1, **lost) == []
    for change in ({"opponent": "bot:based"}, {"score": 0.3}, {"floor": None}, {"floor": "fold"}):
        assert Guards().judge_evaluation(CONFIG, late, **{**lost, **change}) == []
    guards = Guards()
    (alarm,) = guards.judge_evaluation(CONFIG, late, **lost)
    assert alarm.kind == "worse_than_random" and "bot:random" in alarm.message
    assert guards.judge_evaluation(CONFIG, late, **lost) == []


def test_what_guards_know_travels() -> None:
    """Saved in the middle of a streak as JSON, loaded, carried on: the same alarms at the same updates."""
    series = [{}] * 6 + [SICK["kl_blow_up"][0]] * 7 + [{}] * 5 + [COLLAPSED] * 9
    expected = kinds(Guards(), series)
    assert sum(map(len, expected)) == 2
    for cut in (1, 7, 8, 12, 20):
        first, second = Guards(), Guards()
        said = kinds(first, series[:cut])
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        # `kinds` counts its updates from 0 for the sign of the return's noise, which nothing here depends on
        assert said + kinds(second, series[cut:]) == expected, cut


TINY = [
    *("env.rounds=3", "env.rows=8", "learner.rollout_steps=8", "learner.minibatch_size=32", "learner.epochs=2"),
    *("pool.snapshot_every=1000", "run.allow_short=true", "run.evaluate_games=4", "run.total_steps=1920"),
]


def train(
    folder: Path, *overrides: str, env: str = "matrix", seed: int = 0, notes: Notes | None = None
) -> tuple[Any, Notes]:
    """A run called `sick` of 30 small updates."""
    notes, sets = notes or Notes(), [*(TINY if env == "matrix" else ()), *overrides]
    store = folder / "league.duckdb"
    arguments: dict[str, Any] = {"run": "sick", "device": "cpu", "store": store, "callback": notes}
    return league.train("smoke", env=env, seed=seed, overrides=sets, **arguments), notes


def stored(folder: Path) -> list[tuple[str, int]]:
    """The events in the store, but for alarms that are over: kind (of an alarm its own) and update."""
    events = Store.open(folder / "league.duckdb").events("sick")
    return [(x.kind.removeprefix(ALARM), x.update) for x in events if not x.kind.startswith(OVER)]


@pytest.mark.parametrize(
    ("sets", "expected"),
    cases(
        (["learner.learning_rate=10.0"], {"kl_blow_up", "entropy_collapse"}),
        (["learner.learning_rate=0.3", "learner.entropy_coefficient=0"], {"entropy_collapse"}),
        (["learner.value_coefficient=1000"], {"gradient_clipped"}),
        slow=[
            (["rewards.payoff=0.001", "env.payoff=[[0, 0], [0, 0]]", "env.bot_mix=[0.5, 0.5]"], {"flat_return"}),
            (["env.rounds=1000", "learner.rollout_steps=64"], {"no_matches"}),
        ],
    ),
)
def test_a_sick_run_is_said_and_written_down(sets: list[str], expected: set[str], tmp_path: Path) -> None:
    result, notes = train(tmp_path, *sets, *(["run.total_steps=7680"] if "env.rounds=1000" in sets else []))
    assert result.status == "finished"
    alarms = [line for line in notes.said if line.startswith("alarm at step ")]
    events = stored(tmp_path)
    kinds_stored = [kind for kind, _ in events if not kind.startswith("silent")]
    assert expected <= set(kinds_stored) and len(alarms) >= len(kinds_stored)
    assert all(1 <= update <= 30 for _, update in events)
    store = Store.open(tmp_path / "league.duckdb")
    events = [e for e in store.events() if e.kind.startswith(ALARM) and "silent" not in e.kind]
    assert {f"alarm at step {e.steps:,}: {e.message}" for e in events} <= set(alarms)


def test_an_alarm_stops_the_run_where_that_is_set_and_it_goes_on_cured(tmp_path: Path) -> None:
    with pytest.raises(LeagueError, match=r"run=sick: stopped at step 64, saved.*KL blew up.*run\.on_alarm=warn"):
        train(tmp_path, "learner.learning_rate=10.0", "run.on_alarm=stop", "run.total_steps=640")
    store = Store.open(tmp_path / "league.duckdb")
    assert (store.find_run("sick").status, store.find_run("sick").steps) == ("failed", 64)
    assert stored(tmp_path) == [("kl_blow_up", 1)]
    notes = Notes()
    cured = ["run.on_alarm=warn", "learner.learning_rate=1e-4"]
    done = league.resume("sick", overrides=cured, store=store.path, callback=notes)
    assert done.status == "finished" and not [line for line in notes.said if "KL blew up" in line]
    assert [kind for kind, _ in stored(tmp_path)][:2] == ["kl_blow_up", "resumed"]


@pytest.mark.parametrize("seed", cases(0, slow=[1]))
@pytest.mark.parametrize("env", cases("matrix", slow=["brawl"]))
def test_healthy_runs_are_silent(env: str, seed: int, tmp_path: Path) -> None:
    """Short trainings at default settings, a small network in brawl: no guard's alarm and no event of one."""
    small = ["rewards.combo=0", "agent.opponent_encoder=false", "agent.observation_width=32", "agent.lstm_size=32"]
    short = ["env.time_limit_seconds=5.0", "run.evaluate_games=2", "env.stocks=1", "run.total_steps=10240"]
    sets = [*small, *short, "learner.epochs=2"] if env == "brawl" else []
    _, notes = train(tmp_path, *sets, env=env, seed=seed)
    assert not [line for line in notes.said if line.startswith("alarm at")]
    assert not [kind for kind, _ in stored(tmp_path) if kind != "alarm"]


@pytest.fixture
def spoil(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets what the matrix game gives row 2, seat 1, become a value at step 20 (-1: never)."""
    step = matrix.MatrixBatch.step

    def spoil(what: str, value: float, at: int = 20) -> None:
        made = []

        def spoilt(self: matrix.MatrixBatch) -> None:
            step(self)
            if self.num_rows == 8:
                made.append(1)
                if len(made) == at:
                    getattr(self, what)[2, 1, 1] = value

        monkeypatch.setattr(matrix.MatrixBatch, "step", spoilt)

    return spoil


@pytest.mark.parametrize(
    ("what", "value", "words"),
    cases(
        ("obs", float("nan"), "obs[1] (the seat's own) is nan"),
        slow=[
            ("reward_terms", float("-inf"), "reward_terms[1] (win) is -inf"),
            ("obs", float("inf"), "obs[1] (the seat's own) is inf"),
        ],
    ),
)
def test_a_game_that_gives_no_number_stops_the_run(
    what: str, value: float, words: str, spoil: Callable[..., None], tmp_path: Path
) -> None:
    """The column, match, seed and tick are named; matches, event and state are stored; the run can go on."""
    sets = ["pool.mix={self_play=1.0}", "env.strict_masks=false", "run.total_steps=320"]
    spoil(what, value)
    with pytest.raises(LeagueError) as caught:
        train(tmp_path, *sets)
    line = str(caught.value)
    for part in ("run=sick: stopped after step 128", "match 3.2.", "seat 1", "tick 2", "league resume sick", words):
        assert part in line and "\n" not in line
    store = Store.open(tmp_path / "league.duckdb")
    assert stored(tmp_path) == [("not_finite", 2)] and store.find_run("sick").status == "failed"
    matches = store.matches("sick", "training")
    assert len(matches) == 8 * (19 // 3) and max(match.update for match in matches) == 3, "the rollout under way too"
    assert load_state(tmp_path / "sick" / "state")["counters"]["update"] == 2
    (evidence,) = (tmp_path / "sick" / "failures").iterdir()
    spoil(what, value, at=-1)
    resumed = Notes(3)
    assert league.resume("sick", store=store.path, callback=resumed).status == "stopped"
    (before, after) = ([m for m in found if m.update == 3] for found in (matches, store.matches("sick", "training")))
    assert before and after and not {m.seed for m in before} & {m.seed for m in after}, "new ones in their place"
    (lost,) = [line for line in resumed.said if "of the rollout that ended the run" in line]
    assert f"{len(before)} matches" in lost and stored(tmp_path)[:2] == [("not_finite", 2), ("replaced", 2)]
    assert league.resume("sick", store=store.path).status == "finished" and evidence.exists()


@pytest.mark.parametrize(
    ("setting", "words"),
    cases(
        ("learner.learning_rate=1e30", ("is not finite", "lower learner.learning_rate=1e+30")),
        slow=[("rewards.payoff=3e38 rewards.win=3e38", ("not_finite: reward of row ", "weights in [rewards]"))],
    ),
)
def test_learning_that_overflows_stops_with_the_last_whole_state(
    setting: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(LeagueError) as caught:
        train(tmp_path, *setting.split(), "run.total_steps=320")
    line = str(caught.value)
    assert all(word in line for word in ("run=sick: stopped after step 0: not_finite", "; saved; ", *words)), line
    assert stored(tmp_path) == [("not_finite", 0)]
    store = Store.open(tmp_path / "league.duckdb")
    assert len(store.matches("sick", "training")) == 8 * (8 // 3), "those of the rollout that was not learned from"
    first = store.snapshots("sick")[0]
    state = load_state(tmp_path / "sick" / "state")
    weights = io.load(tmp_path / first.path)[1]
    assert all(np.array_equal(state["learner"]["policy"][name], x) for name, x in weights.items())
    if "learning_rate" in setting:
        done = league.resume("sick", overrides=["learner.learning_rate=1e-3"], store=store.path)
        assert done.status == "finished" and stored(tmp_path)[0] == ("not_finite", 0)


def test_every_kind_of_event_is_documented() -> None:
    """docs/training.md has a row for each that the engine's source names."""
    root = Path(__file__).parents[2]
    source = "\n".join(path.read_text() for path in (root / "league").rglob("*.py"))
    found = set(re.findall(r'(?:_Sign\(\s*f?|add_event\([^"\n]+, f?|Alarm\(f?|\bkind=f?)"([a-z_]+)', source))
    assert {"kl_blow_up", "silent_reward", "damage", "not_finite"} <= found, found
    cells = " ".join(
        line.split("|")[1] for line in (root / "docs/training.md").read_text().splitlines() if line[:1] == "|"
    )
    assert found - {"training", "evaluation", "stable"} <= set(re.findall(r"`([a-z_]+)(?::[A-Z]+)?`", cells))
