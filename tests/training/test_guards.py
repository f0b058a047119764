"""Alarms: each sign over made-up figures, and real runs made sick on purpose, which are said, stored and stopped."""

import ast
import dataclasses
import json
import re
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import league
from league import config as settings
from league.envs import registry
from league.envs.classic import matrix
from league.errors import LeagueError
from league.play.summaries import Summary
from league.snapshots.state import load_state
from league.store.rows import ALARM, OVER
from league.store.store import Store
from league.training.guards import FEW, PATIENCE, WINDOW, Alarm, Guards
from league.training.run import Report
from league.types import MatchResult
from tests.helpers.cases import cases

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
    """Said after so many sick updates, not while they last nor after too few good ones, and again after enough."""
    figure, patience = SICK[kind]
    guards = Guards()
    assert not any(kinds(guards, [{}] * 2 * PATIENCE))
    assert not any(kinds(guards, [figure] * (patience - 1) + [{}])), "too few"
    assert kinds(guards, [figure] * 30) == once(kind, patience, 30)
    assert not any(kinds(guards, [{}] * (patience - 1) + [figure] * 30)), "not healed for long enough"
    assert not any(kinds(guards, [{}] * (patience - 1)))
    assert guards.judge(CONFIG, HEALTHY, [match()]) == [Alarm(kind, kind, is_over=True)]
    assert kinds(guards, [figure] * 30) == once(kind, patience, 30)


@pytest.mark.parametrize("kind", SICK)
def test_figures_that_are_not_numbers_are_sick(kind: str) -> None:
    """NaN and infinity count as the worst, not as nothing."""
    (name,) = list(SICK[kind][0])[:1]
    if name == "entropy":
        return
    for value in (float("nan"), float("-inf" if name == "explained_variance" else "inf")):
        guards = Guards()
        assert not any(kinds(guards, [{}] * PATIENCE))
        assert any(kinds(guards, [{name: value}] * PATIENCE))


def test_one_violent_update_is_enough() -> None:
    """More than a nat of KL is said at once."""
    assert kinds(Guards(), [{"approx_kl": 2.0}] * 5) == once("kl_blow_up", 1, 5)


def test_a_sure_policy_that_still_learns_has_not_collapsed() -> None:
    """Low entropy alone is no collapse: KL, clipping or a rising return speak against it."""
    for alive in ({"approx_kl": 1e-3}, {"clip_share": 0.01}, {"entropy": 0.06}):
        assert not any(kinds(Guards(), [{}] * 3 + [{**COLLAPSED, **alive}] * 30))
    rising = [{**COLLAPSED, "reward_per_step": 0.01 * i} for i in range(30)]
    assert not any(kinds(Guards(), [{}, *rising]))


def test_entropy_is_compared_with_that_of_the_first_play() -> None:
    """A policy that collapses within its first update is found: what it was is taken from before it learned."""
    figures = [{**COLLAPSED, "entropy_in_play": 1.0 if i == 0 else 0.0} for i in range(20)]
    assert ["entropy_collapse"] in kinds(Guards(), figures)


def test_a_return_that_never_changes_is_flat() -> None:
    """After so many updates with one and the same return, 0 or not; the least change heals it."""
    for value in (0.0, -3.0):
        assert kinds(Guards(), [{"reward_per_step": value}] * 30) == once("flat_return", WINDOW, 30)
    guards = Guards()
    same = [{"reward_per_step": 1.0}] * WINDOW
    assert kinds(guards, [*same, {"reward_per_step": 1.1}, *same])[-1] == ["flat_return"]


def test_no_match_for_long_is_said() -> None:
    """By steps of each row; a finished match begins the count again."""
    guards, updates = Guards(), -(-CONFIG.run.alarm_idle_steps // CONFIG.learner.rollout_steps)

    def idle(times: int) -> int:
        metrics = [{**HEALTHY, "reward_per_step": 0.001 * i} for i in range(times)]
        return sum(len(guards.judge(CONFIG, m, [])) for m in metrics)

    assert idle(updates - 1) == 0 and guards.judge(CONFIG, HEALTHY, [match()]) == []
    assert idle(updates - 1) == 0
    (alarm,) = guards.judge(CONFIG, HEALTHY, [])
    assert alarm.kind == "no_matches" and f"last {32 * updates} steps of each row" in alarm.message
    assert all(f"env.{name}" in alarm.message for name in CONFIG.env.options)
    assert idle(updates) == 0, "said already"


def test_a_weighted_term_that_never_fires_is_said_once() -> None:
    """After 100 matches in all, for either seat; terms without weight may be silent."""
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
    assert Guards().judge_evaluation(CONFIG, late, **{**lost, "opponent": "bot:based"}) == []
    assert Guards().judge_evaluation(CONFIG, late, **{**lost, "score": 0.3}) == []
    for floor in (None, "fold"):
        assert Guards().judge_evaluation(CONFIG, late, **{**lost, "floor": floor}) == []
    (other,) = Guards().judge_evaluation(CONFIG, late, **{**lost, "opponent": "bot:fold", "floor": "fold"})
    assert other.kind == "worse_than_random" and "against bot:fold" in other.message
    guards = Guards()
    (alarm,) = guards.judge_evaluation(CONFIG, late, **lost)
    assert alarm.kind == "worse_than_random" and "scores 10% against bot:random in 30 games" in alarm.message
    assert guards.judge_evaluation(CONFIG, late, **lost) == []


def test_a_game_of_another_scale_sets_its_own_limits() -> None:
    """Longer matches, rarer rewards, later evaluations, wilder updates: said at these figures, not at brawl's."""
    words = ["run.alarm_idle_steps=64", "run.alarm_silent_matches=2", "run.alarm_random_steps=5", "run.alarm_kl=0.001"]
    config = settings.load("smoke", env="matrix", overrides=words)
    for chosen, found in ((CONFIG, []), (config, ["no_matches", "silent_reward:payoff", "kl_blow_up"])):
        guards = Guards()
        alarms = [*guards.judge(chosen, HEALTHY, []), *guards.judge(chosen, HEALTHY, [])]
        alarms += guards.judge(chosen, HEALTHY, [match(payoff=(0.0, 0.0))] * 2)
        assert sorted(alarm.kind for alarm in alarms if not alarm.is_over) == sorted(found)
        late = guards.judge_evaluation(chosen, 5, "bot:random", 0.0, 30, "random")
        assert len(late) == bool(found)


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


# Real runs

TINY = [
    *("env.rounds=3", "env.rows=8", "learner.rollout_steps=8", "learner.minibatches=2", "learner.epochs=2"),
    *("pool.snapshot_every=1000", "run.allow_short=true", "run.evaluate_games=4", "run.total_steps=1920"),
]


class Notes:
    """A callback that keeps what is said, and stops the run after update `stop_at`."""

    def __init__(self, stop_at: int = 0) -> None:
        self.said: list[str] = []
        self.stop_at = stop_at

    def report(self, report: Report) -> None:
        """Stops where that is wanted."""
        if report.update == self.stop_at:
            signal.raise_signal(signal.SIGINT)

    def evaluated(self, steps: int, opponent: str, summary: Summary) -> None:
        """Ignored."""

    def say(self, message: str) -> None:
        """Kept."""
        self.said.append(message)


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
    """The run goes on; each alarm is a line with its figures and an event at its update."""
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
    """Saved, exit by one line; resumed it neither repeats the alarm nor loses what was written."""
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


@pytest.mark.slow
def test_a_resumed_run_raises_the_same_alarms(tmp_path: Path) -> None:
    """Stopped after its first alarm and resumed, a sick run says the rest and nothing twice."""
    found = []
    for stop_at in (0, 3):
        folder = tmp_path / str(stop_at)
        folder.mkdir()
        result, _ = train(folder, "learner.learning_rate=10.0", "run.total_steps=960", notes=Notes(stop_at))
        if stop_at:
            assert result.status == "stopped"
            assert league.resume("sick", store=folder / "league.duckdb").status == "finished"
        found.append(stored(folder))
    assert found[0] == found[1] and {"kl_blow_up", "entropy_collapse"} <= {kind for kind, _ in found[0]}


@pytest.mark.slow
def test_stopping_on_alarms_changes_nothing_that_is_learned(tmp_path: Path) -> None:
    """`run.on_alarm` is no part of the fingerprint, and a healthy run that would stop is the one that would not."""
    found = []
    for how in ("warn", "stop"):
        (tmp_path / how).mkdir()
        result, notes = train(tmp_path / how, f"run.on_alarm={how}", "run.total_steps=960")
        assert result.status == "finished" and not [line for line in notes.said if line.startswith("alarm at")]
        store = Store.open(tmp_path / how / "league.duckdb")
        found.append((result.newest, store.find_run("sick").fingerprint, store.matches("sick", "training")))
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", cases(0, slow=[1]))
@pytest.mark.parametrize("env", cases("matrix", slow=["brawl"]))
def test_healthy_runs_are_silent(env: str, seed: int, tmp_path: Path) -> None:
    """Short trainings at default settings, a small network in brawl: no guard's alarm and no event of one.

    Combos are so rare in these that luck decides whether there is one: they have no reward. Matches of five seconds
    end by the clock with little damage, which `league alarms` says of them at the end.
    """
    small = ["rewards.combo=0", "agent.opponent_encoder=false", "agent.observation_width=32", "agent.lstm_size=32"]
    short = ["env.time_limit_seconds=5.0", "run.evaluate_games=2", "env.stocks=1", "run.total_steps=10240"]
    sets = [*small, *short, "learner.epochs=2"] if env == "brawl" else []
    _, notes = train(tmp_path, *sets, env=env, seed=seed)
    assert not [line for line in notes.said if line.startswith("alarm at")]
    assert not [kind for kind, _ in stored(tmp_path) if kind != "alarm"]


# Numbers that are not finite


class Spoilt(matrix.MatrixBatch):
    """The matrix game, in which `what` of row 2, seat 1, becomes `value` at step `at`."""

    what, value, at = "obs", float("nan"), 20

    def __init__(self, rows: int, options: matrix.Options) -> None:
        self.made = 0
        super().__init__(rows, options)
        self.spec = SpoiltGame.spec(options)

    def step(self) -> None:
        super().step()
        self.made += 1
        if self.made == self.at and self.num_rows == 8:
            getattr(self, self.what)[2, 1, 1] = self.value


class SpoiltGame:
    """A game of `Spoilt` for the registry."""

    Options = matrix.Options
    DEFAULTS: ClassVar[dict[str, Any]] = {"pool": {"mix": {"self_play": 1.0}}, "rewards": {"payoff": 1.0}}

    @staticmethod
    def spec(options: matrix.Options) -> Any:
        """That of the matrix game under another name."""
        return dataclasses.replace(matrix.spec(options), name="spoilt")

    @staticmethod
    def make(rows: int, threads: int, options: matrix.Options) -> Spoilt:
        """A batch."""
        del threads
        return Spoilt(rows, options)


@pytest.fixture
def _spoilt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._games, "spoilt", SpoiltGame)


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> set[int]:
    """The seeds of the matches of the same run in a sound game."""
    folder = tmp_path_factory.mktemp("sound")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry._games, "spoilt", SpoiltGame)
        patch.setattr(Spoilt, "at", -1)
        train(folder, *AS_MATRIX, *TINY, "run.total_steps=320", env="spoilt")
    return {match.seed for match in Store.open(folder / "league.duckdb").matches("sick", "training")}


AS_MATRIX = [
    *("agent.opponent_encoder=false", "agent.lstm_size=32", "agent.observation_width=32", "rewards.payoff=1.0"),
    *("pool.mix.self_play=1.0", "env.strict_masks=false"),
]


@pytest.mark.usefixtures("_spoilt")
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
    what: str, value: float, words: str, seeds: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The column, match, seed and tick are named; matches, event and state are stored; the run can go on."""
    monkeypatch.setattr(Spoilt, "what", what)
    monkeypatch.setattr(Spoilt, "value", value)
    with pytest.raises(LeagueError) as caught:
        train(tmp_path, *AS_MATRIX, *TINY, "run.total_steps=320", env="spoilt")
    line = str(caught.value)
    assert "\n" not in line and line.startswith("run=sick: stopped after step 128: not_finite: spoilt, match 3.2.")
    assert words in line and "seat 1" in line and "; saved; go on with `league resume sick --store " in line
    assert "tick 2 (step 2)" in line and "league replay" in line
    store = Store.open(tmp_path / "league.duckdb")
    assert stored(tmp_path) == [("not_finite", 2)] and store.find_run("sick").status == "failed"
    matches = store.matches("sick", "training")
    assert len(matches) == 8 * (19 // 3) and max(match.update for match in matches) == 3, "the rollout under way too"
    assert load_state(tmp_path / "sick" / "state")["counters"]["update"] == 2
    monkeypatch.setattr(Spoilt, "at", -1)
    seed = int(line.partition("seed ")[2].partition(",")[0])
    assert seed in seeds, "the match's seed is the one it would end with"
    (evidence,) = (tmp_path / "sick" / "failures").iterdir()
    shown = evidence.read_bytes()
    resumed = Notes(3)
    assert league.resume("sick", store=store.path, callback=resumed).status == "stopped"
    (before, after) = ([m for m in found if m.update == 3] for found in (matches, store.matches("sick", "training")))
    assert before and after and not {m.seed for m in before} & {m.seed for m in after}, "new ones in their place"
    (lost,) = [line for line in resumed.said if "do not count any more" in line]
    assert lost.startswith(f"run=sick: {len(before)} matches of the rollout that ended the run do not count any more:")
    assert stored(tmp_path)[:2] == [("not_finite", 2), ("replaced", 2)] and evidence.read_bytes() == shown
    assert league.resume("sick", store=store.path).status == "finished"


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
    """The tensor and figures are named, the update is undone, and the saved run goes on with what may be set."""
    with pytest.raises(LeagueError) as caught:
        train(tmp_path, *setting.split(), "run.total_steps=320")
    line = str(caught.value)
    assert all(word in line for word in ("run=sick: stopped after step 0: not_finite", "; saved; ", *words)), line
    assert stored(tmp_path) == [("not_finite", 0)]
    store = Store.open(tmp_path / "league.duckdb")
    assert len(store.matches("sick", "training")) == 8 * (8 // 3), "those of the rollout that was not learned from"
    first = store.snapshots("sick")[0]
    state = load_state(tmp_path / "sick" / "state")
    manifest_weights = league.snapshots.io.load(tmp_path / first.path)[1]
    assert all(np.array_equal(state["learner"]["policy"][name], x) for name, x in manifest_weights.items())
    if "learning_rate" in setting:
        done = league.resume("sick", overrides=["learner.learning_rate=1e-3"], store=store.path)
        assert done.status == "finished" and stored(tmp_path)[0] == ("not_finite", 0)


def kinds_written() -> set[str]:
    """The kinds of all events that the engine's source writes, up to a colon."""
    found = set()
    for path in (Path(__file__).parents[2] / "league").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call):
                continue
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            if name == "argsort":  # whose `kind` is another thing
                continue
            places = {"_Sign": call.args[:1], "add_event": call.args[1:2]}.get(name, [])
            for value in [*places, *(word.value for word in call.keywords if word.arg == "kind")]:
                text = value.values[0] if isinstance(value, ast.JoinedStr) else value
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    found.add(text.value.partition(":")[0])
    return found - {"training", "evaluation"} | {"alarm", "over"}


def test_every_kind_of_event_is_documented() -> None:
    """docs/training.md has a row for each."""
    kinds = kinds_written()
    assert {"kl_blow_up", "silent_reward", "damage", "resumed", "reset", "probe", "not_finite", "alarm"} <= kinds
    table = (Path(__file__).parents[2] / "docs/training.md").read_text()
    cells = " ".join(line.split("|")[1] for line in table.splitlines() if line.startswith("|"))
    named = set(re.findall(r"`([a-z_]+)(?::[A-Z]+)?`", cells))
    assert kinds <= named, kinds - named
