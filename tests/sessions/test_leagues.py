"""A league end to end on the matrix game: turns, processes, resets, and that stopping anywhere changes nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import league
from league import config
from league.arena.parts import Given
from league.errors import ConfigError, LeagueError, SnapshotError, UsageError
from league.sessions import artifacts as artifacts_module
from league.sessions import folders
from league.sessions import leagues as leagues_module
from league.sessions import session as session_module
from league.sessions.call import Call
from league.sessions.callbacks import Steady
from league.sessions.retention import prune
from league.sessions.runs import changed
from league.snapshots import io as snapshot_files
from league.snapshots.state import load_state
from league.store.folder import Folder
from league.store.liveness import runs
from league.store.locks import LOCK, alone, is_held
from league.store.store import Store
from league.training.training import Training
from tests.helpers import processes
from tests.helpers.cases import cases
from tests.helpers.phases import Told
from tests.helpers.sizes import SMALL

ROOT = Path(__file__).resolve().parents[2]
LEAGUE = """
turn_steps = 256

[config.env]
rows = 8
rounds = 5

[config.agent]
encoder_layers = 1
encoder_heads = 2
encoder_width = 16
encoder_feedforward = 16
latents = 2
observation_width = 16
lstm_size = 16
head_sizes = [8]

[config.learner]
rollout_steps = 16
minibatches = 2
epochs = 2
device = "cpu"

[config.pool]
snapshot_every = 128
snapshot_every_after = 128
live_nets = 2

[config.run]
total_steps = 896
evaluate_games = 2
allow_short = true

[roles.main]
min_steps = 128
max_steps = 384

[roles.main_exploiter]
min_steps = 256
max_steps = 384

[roles.league_exploiter]
min_steps = 128
max_steps = 256
reset_probability = 0.5

[learners.main]
role = "main"

[learners.exploiter]
role = "main_exploiter"
config.learner.entropy_coefficient = 0.02

[learners.breadth]
role = "league_exploiter"
"""
RUNS = ("L.main", "L.exploiter", "L.breadth")


class Listener:
    """A callback that keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def report(self, report: object) -> None:
        """Ignored."""

    def evaluated(self, steps: int, opponent: str, summary: object) -> None:
        """Ignored."""

    def say(self, message: str) -> None:
        """Kept."""
        self.said.append(message)


def write(folder: Path, text: str = LEAGUE) -> Path:
    """The league's file in `folder`."""
    path = folder / "tiny.toml"
    path.write_text(text)
    return path


def train(folder: Path, *overrides: str, **arguments: Any) -> tuple[Any, list[str]]:
    """Trains the league L in `folder`; its result and what was said."""
    listener, store = Listener(), folder / "league.duckdb"
    path = arguments.pop("path", None) or write(folder)
    arguments = {"env": "matrix", "run": "L", "seed": 3, **arguments}
    result = league.train(league=path, overrides=overrides, store=store, callback=listener, **arguments)
    return result, listener.said


def learned(folder: Path) -> dict[str, Any]:
    """What every learner left: its snapshots, training matches, and whom its sampler wanted when."""
    store, found = Store.open(folder / "league.duckdb"), {}
    for run in RUNS:
        rows = [(r.step, r.update, r.agent_id, r.parent, r.is_historical) for r in store.snapshots(run)]
        odds = store.query(f"SELECT * FROM metric WHERE run = '{run}' AND name LIKE 'pool/%' ORDER BY ALL")[1]
        found[run] = rows, [asdict(match) for match in store.matches(run, "training")], odds
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a league that nothing interrupted; nobody may change it."""
    folder = tmp_path_factory.mktemp("whole")
    result, _ = train(folder)
    assert (result.status, result.signal) == ("finished", 0)
    assert [(x.run, x.status, x.steps, x.updates) for x in result.learners] == [(r, "finished", 896, 7) for r in RUNS]
    return folder


@contextmanager
def interrupted(update: int, what: int | Exception, run: str) -> Iterator[None]:
    """At an update of a learner a signal is raised, or an error."""
    original = Training.learn

    def learn(self: Training, rollout: Any) -> dict[str, float]:
        metrics = original(self, rollout)
        if (self.run.name, self.counters.update) == (run, update):
            if isinstance(what, Exception):
                raise what
            signal.raise_signal(what)
        return metrics

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "learn", learn)
        yield


def test_learners_meet_each_other_as_their_roles_say(whole: Path) -> None:
    """The first weights are common; the main exploiter meets the main's newest, the others everybody that stays."""
    found = learned(whole)
    first = {found[run][0][0][2] for run in RUNS}
    assert len(first) == 1 and len({found[run][0][1][2] for run in RUNS}) == 3, "one beginning, three ways on"
    owner = {agent: run for run in RUNS for _, _, agent, _, _ in found[run][0][1:]}
    met, wanted = {run: set() for run in RUNS}, {run: set() for run in RUNS}
    for run in RUNS:
        opponents = [next(agent for agent in match["agents"] if agent != run) for match in found[run][1]]
        met[run] = {owner.get(opponent, opponent) for opponent in opponents}
        agents = [agent for _, _, _, name, agent, _ in found[run][2] if name == "pool/odds"]
        wanted[run] = {owner[agent] for agent in agents if agent in owner}
    assert met["L.exploiter"] == {"L.main", "bot:biased", "bot:random"} and wanted["L.exploiter"] == {"L.main"}
    assert wanted["L.main"] == wanted["L.breadth"] == set(RUNS)
    assert met["L.main"] > {"L.main"} and met["L.breadth"] > {"L.breadth"}
    stay = {run: [step for step, _, _, _, stays in found[run][0] if stays] for run in RUNS}
    assert stay == {"L.main": [0, 384, 768], "L.exploiter": [0, 384, 768], "L.breadth": [0, 256, 512, 768]}


def test_nobody_is_met_before_it_was_published(whole: Path) -> None:
    """Who trains in a turn meets only what was there when the turn began: frozen agents, and never its own weights."""
    found = learned(whole)
    order = [(turn, run) for turn in range(4) for run in RUNS]
    taken = {agent: (step, run) for run in RUNS for step, _, agent, _, _ in reversed(found[run][0])}
    for run in RUNS:
        for match in found[run][1]:
            opponent = next(agent for agent in match["agents"] if agent != run)
            if opponent in taken and taken[opponent][1] != run and taken[opponent][0]:
                step, other = taken[opponent]
                own_turn = (match["update_begin"] * 128) // 256
                assert order.index(((step - 1) // 256, other)) < order.index((own_turn, run))


def test_exploiters_begin_anew_from_the_first_weights(whole: Path) -> None:
    """After each of its snapshots that stays the main exploiter's next one has the first weights as its parent."""
    found = learned(whole)
    rows = found["L.exploiter"][0]
    parents = {step: parent for step, _, _, parent, _ in rows}
    agents = {step: agent for step, _, agent, _, _ in rows}
    assert parents[512] == agents[0] == parents[896] and parents[640] == agents[512] and parents[384] == agents[256]
    store = Store.open(whole / "league.duckdb")
    _, events = store.query(
        "SELECT \"update\", message FROM event WHERE run = 'L.exploiter' AND kind = 'reset' ORDER BY 1"
    )
    told = [(number, message.split(",")[0]) for number, message in events]
    assert told == [(4, "back to the first weights at step 384"), (7, "back to the first weights at step 768")]
    main = found["L.main"][0]
    assert all(parent == before for (_, _, before, _, _), (_, _, _, parent, _) in pairwise(main))
    for run in RUNS:
        for row in store.snapshots(run):
            assert snapshot_files.content_hash(snapshot_files.load(whole / row.path)[1]) == row.agent_id


MOVING = (
    "learner.learning_rate={0=1e-3, 256=1e-4, 384=1e-5}",
    "learner.entropy_coefficient={0=0.05, 384=0.001}",
    "learner.epochs={0=4, 256=2, 384=1}",
    "learner.segments={0=1, 384=2}",
    "rewards.win={0=1.0, 384=0.5}",
    "pool.recent_window={0=64, 384=8}",
    "pool.mix.bot:random={0=0.3, 384=0.1}",
    "pool.mix.bot:biased={0=0.1, 384=0.3}",
    "pool.mix.self_play=0.6",
    "env.curriculum=[{from=0, options={rounds=3}}, {from=256, options={rounds=5}}]",
)


def schedules_of(folder: Path, run: str) -> dict[int, dict[str, float]]:
    """Steps that a learner had made after each update -> what its schedules were in that update, and its lesson."""
    store = Store.open(folder / "league.duckdb")
    names = "name LIKE 'schedule/%' OR name IN ('lesson', 'learning_rate', 'minibatches')"
    found: dict[int, dict[str, float]] = {}
    _, rows = store.query(f"SELECT steps, name, value FROM metric WHERE run = '{run}' AND ({names}) ORDER BY steps")
    for steps, name, value in rows:
        found.setdefault(steps, {})[name] = value
    return found


@pytest.mark.slow
def test_schedules_and_lessons_count_from_a_reset(tmp_path: Path) -> None:
    """An exploiter with the first weights learns by the figures of step 0, also if it is stopped and goes on."""
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    whole.mkdir()
    stopped.mkdir()
    train(whole, *MOVING)
    found = schedules_of(whole, "L.exploiter")
    assert list(found) == [128, 256, 384, 512, 640, 768, 896] and len(found[128]) == 11
    assert found[384] != found[256] != found[128]
    assert [found[steps] for steps in (512, 640, 768, 896)] == [found[steps] for steps in (128, 256, 384, 128)]
    assert list(schedules_of(whole, "L.main")) == [128, 256, 384, 640, 896], "two segments an update, never reset"
    with interrupted(5, signal.SIGINT, "L.exploiter"):
        train(stopped, *MOVING)
    league.resume("L", store=stopped / "league.duckdb")
    assert learned(stopped) == learned(whole) and schedules_of(stopped, "L.exploiter") == found


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", [1, 2])
def test_hashes_of_strings_decide_nothing(hash_seed: int, whole: Path, tmp_path: Path) -> None:
    """A league in a process of its own PYTHONHASHSEED is the same league, its evaluations included."""
    words = ["train", "--league", write(tmp_path), "--env", "matrix", "--run", "L", "--seed", "3"]
    store = ["--store", tmp_path / "league.duckdb"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": str(hash_seed)}
    subprocess.run([sys.executable, "-m", "league", *words, *store], env=environment, check=True, capture_output=True)
    assert learned(tmp_path) == learned(whole)
    played = [
        [[asdict(match) for match in Store.open(folder / "league.duckdb").matches(run, "evaluation")] for run in RUNS]
        for folder in (tmp_path, whole)
    ]
    assert played[0] == played[1] and all(played[0])


@pytest.mark.slow
@pytest.mark.parametrize(("run", "update"), [("L.exploiter", 3), ("L.main", 1), ("L.breadth", 6)])
def test_a_stopped_league_goes_on_to_the_same_league(run: str, update: int, whole: Path, tmp_path: Path) -> None:
    """A signal in anybody's turn stops all, saved; `train --league` or `resume` again gives the very same rows."""
    with interrupted(update, signal.SIGINT, run):
        result, said = train(tmp_path)
    assert (result.status, result.signal) == ("stopped", signal.SIGINT) and any(
        "stopping after this update" in x for x in said
    )
    rows = {row.run: row.status for row in Store.open(tmp_path / "league.duckdb").runs()}
    assert set(rows.values()) <= {"stopped", "finished"} and rows["L.breadth"] == "stopped"
    if update % 2:
        again, _ = train(tmp_path)
    else:
        again = league.resume("L", store=tmp_path / "league.duckdb")
    assert again.status == "finished" and learned(tmp_path) == learned(whole)


@pytest.mark.slow
def test_a_failed_learner_goes_on_from_its_turns_start(whole: Path, tmp_path: Path) -> None:
    """A bug in the middle of a turn marks the learner failed; what it had played in that turn is played again."""
    with interrupted(4, ZeroDivisionError("a bug"), "L.exploiter"), pytest.raises(ZeroDivisionError):
        train(tmp_path)
    rows = {row.run: row.status for row in Store.open(tmp_path / "league.duckdb").runs()}
    assert rows == {"L.main": "stopped", "L.exploiter": "failed", "L.breadth": "stopped"}
    with interrupted(4, signal.SIGINT, "L.exploiter"):
        league.resume("L", store=tmp_path / "league.duckdb")
    assert {row.status for row in Store.open(tmp_path / "league.duckdb").runs()} == {"stopped"}
    league.resume("L", store=tmp_path / "league.duckdb")
    assert learned(tmp_path) == learned(whole)


class Killed(BaseException):
    """The end of a process, at a moment of our choice."""


def kill(place: Any, name: str, when: Callable[..., bool], process: Callable[[], Any]) -> None:
    """Runs `process` up to a call of `place.name` for which `when` holds, which ends it."""
    original = getattr(place, name)

    def call(*arguments: Any, **named: Any) -> Any:
        if when(*arguments):
            raise Killed
        return original(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(place, name, call)
        pytest.fail(f"it went on to its end: {process()}")


@pytest.mark.slow
def test_a_reset_comes_after_its_snapshot_is_stored(whole: Path, tmp_path: Path) -> None:
    """Killed right before a reset: the snapshot is in the store, its hash that of the weights saved as they played."""
    kill(session_module, "start_again", lambda *_: True, lambda: train(tmp_path))
    newest = Store.open(tmp_path / "league.duckdb").snapshots("L.breadth")[-1]
    stopped = Store.open(tmp_path / "league.duckdb").find_run("L.exploiter")
    run = "L.breadth" if newest.is_historical and newest.step else "L.exploiter"
    newest = Store.open(tmp_path / "league.duckdb").snapshots(run)[-1]
    state = load_state(tmp_path / run / "state")
    assert newest.is_historical and newest.step == state["counters"]["steps"] > 0 and stopped.steps
    assert state["pool"]["league"]["is_resetting"] and state["learner"]["optimizer"]
    assert snapshot_files.content_hash(state["learner"]["policy"]) == newest.agent_id
    league.resume("L", store=tmp_path / "league.duckdb")
    assert learned(tmp_path) == learned(whole)


@pytest.mark.slow
def test_nobody_sees_a_snapshot_that_its_learner_could_lose(whole: Path, tmp_path: Path) -> None:
    """Killed before a snapshot's state is saved the store has it not; killed after that, the next start adds it."""
    store = tmp_path / "league.duckdb"
    kill(
        *(Folder, "commit", lambda self, _: self.name == "L.exploiter" and 384 in self._ready[1]),
        lambda: train(tmp_path),
    )
    assert load_state(tmp_path / "L.exploiter" / "state")["counters"]["steps"] == 384
    assert [row.step for row in Store.open(store).snapshots("L.exploiter")] == [0, 128, 256]
    assert (tmp_path / "L.exploiter" / "snapshots" / "0000000384").is_dir()
    with interrupted(5, signal.SIGTERM, "L.exploiter"):
        league.resume("L", store=store)
    assert [(r.step, r.is_historical) for r in Store.open(store).snapshots("L.exploiter")][3:4] == [(384, True)]
    kill(
        *(artifacts_module, "save_state", lambda folder, state: is_main_past(folder, state, 768)),
        lambda: league.resume("L", store=store),
    )
    assert [row.step for row in Store.open(store).snapshots("L.main")][-1] == 640
    assert (tmp_path / "L.main" / "snapshots" / "0000000768").is_dir()
    league.resume("L", store=store)
    assert learned(tmp_path) == learned(whole)


def is_main_past(folder: Path, state: dict[str, Any], steps: int) -> bool:
    """Whether a state is the main's, of so many steps or more."""
    return folder.parent.name == "L.main" and bool(state["counters"]["steps"] >= steps)


@pytest.mark.slow
def test_a_league_killed_before_its_first_state_begins_again(whole: Path, tmp_path: Path) -> None:
    """The first snapshot's files without a state are removed, and the learner begins as if nothing had been."""
    kill(artifacts_module, "save_state", lambda folder, state: True, lambda: train(tmp_path))
    assert (tmp_path / "L.main" / "snapshots" / "0000000000").is_dir()
    train(tmp_path)
    assert learned(tmp_path) == learned(whole)


def test_the_tables_make_sense_of_several_learners(whole: Path, tmp_path: Path) -> None:
    """Learners meet the others in evaluations; leaderboard, payoff and matchup take them together, `runs` has roles."""
    store = whole / "league.duckdb"
    board = league.leaderboard(store=store)
    names = {entry.name for entry in board.entries}
    assert {"L.main@896", "L.exploiter@896", "L.breadth@896", "bot:random"} <= names
    assert len(board.boards) == 1 and len(board.boards[0].groups) == 1
    assert {learner.run for learner in board.learners} == set(RUNS)
    found = league.matchup("L.breadth@896", "L.main@896", store=store)
    assert found.record.games == 2
    refused = processes.run("resume", "L.main", "--at", "1", "--store", store, cwd=tmp_path)
    assert refused.returncode == 2 and "cannot go back behind what others have met" in refused.stderr
    lines = processes.run("runs", "--store", store, cwd=tmp_path).stdout
    for role in ("main", "main exploiter", "league exploiter"):
        assert f" {role} " in lines
    table = json.loads(processes.run("runs", "--store", store, "--json", cwd=tmp_path).stdout)["runs"]
    assert {row["run"]: row["role"] for row in table}["L.exploiter"] == "main_exploiter"
    done = processes.run("payoff", "--store", store, "--json", cwd=tmp_path)
    assert len(json.loads(done.stdout)["tables"][0]["rows"]) >= 7


def test_ratings_do_not_link_what_a_reset_parted(whole: Path) -> None:
    """An exploiter's lineage ends with its historical snapshot, and another begins at the first weights."""
    store = Store.open(whole / "league.duckdb")
    own = {row.step: row.agent_id for row in store.snapshots("L.exploiter")}
    lineages = store.lineages(store.find_run("L.exploiter").game_id)
    assert [own[step] for step in (0, 128, 256, 384)] in lineages and [own[0], own[896]] in lineages
    assert [own[step] for step in (0, 512, 640, 768)] in lineages


@pytest.mark.slow
def test_pruning_spares_the_pools_of_a_league_that_can_go_on(tmp_path: Path) -> None:
    """A finished learner's snapshots stay while another of its league trains, and may go when all have finished."""
    with interrupted(5, signal.SIGINT, "L.exploiter"):
        train(tmp_path, "run.total_steps=640")
    store = Store.open(tmp_path / "league.duckdb")
    assert store.find_run("L.main").status == "finished"
    assert not any(pruning.goes for pruning in prune(store, keep=1))
    league.resume("L", store=store.path)
    assert any(pruning.goes for pruning in prune(store, keep=1))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"learner": "brodth"}, "--learner brodth: the league has no such learner; did you mean `breadth`?"),
        ({"seed": 4}, "L.main is there with other settings or another seed"),
        ({"overrides": ["learner.gamma=0.5"]}, "L.main is there with other settings"),
        ({"run": "a/b"}, "run='a/b': letters"),
        ({}, "league=L: finished, so nothing is left to train"),
    ],
)
def test_calls_that_cannot_go_on_are_refused(arguments: dict[str, Any], words: str, whole: Path) -> None:
    """An unknown learner, another seed or setting under the same name, a bad name, a finished league."""
    before = Store.open(whole / "league.duckdb").runs()
    with pytest.raises(UsageError) as caught:
        train(whole, *arguments.pop("overrides", ()), **arguments)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert Store.open(whole / "league.duckdb").runs() == before


def test_a_taken_name_and_a_league_without_self_play_are_refused(whole: Path, tmp_path: Path) -> None:
    """A learner's name is taken, and it has no `Trainer`; bots alone are no league."""
    with pytest.raises(UsageError, match=r"run=L\.main: that name is taken"):
        train(whole, run="L.main")
    with pytest.raises(UsageError, match=r"run=L\.main: it is a learner of a league; use"):
        league.Trainer.resume("L.main", store=whole / "league.duckdb")
    with pytest.raises(UsageError, match=r"no run `M` in .*known: L"):
        league.resume("M", store=whole / "league.duckdb")
    with pytest.raises(ConfigError, match=r"pool\.mix has no self_play"):
        train(tmp_path, "pool.mix={'bot:random'=1.0}")
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.toml"]


@pytest.mark.slow
def test_a_longer_league_of_the_same_settings_goes_on(tmp_path: Path) -> None:
    """How long is no setting that changes learning: the same call with more steps takes a finished league on."""
    train(tmp_path, "run.total_steps=128")
    again, said = train(tmp_path, "run.total_steps=256")
    assert said[0] == "league L: going on" and [x.steps for x in again.learners] == [256] * 3
    first, _ = train(tmp_path, "run.total_steps=128", run=None, learner="main")
    second, _ = train(tmp_path, "run.total_steps=128", run=None, learner="main")
    assert (first.run, second.run) == ("matrix-league-1", "matrix-league-2")


@pytest.mark.slow
def test_two_processes_train_one_league_on_one_store(tmp_path: Path) -> None:
    """Each learner in a process of its own: both finish, and the exploiter meets what the main stored meanwhile."""
    text = LEAGUE.replace("total_steps = 896", "total_steps = 1_024").replace(
        '[learners.breadth]\nrole = "league_exploiter"', ""
    )
    path, store = write(tmp_path, text), tmp_path / "runs" / "league.duckdb"
    words = ["train", "--league", path, "--env", "matrix", "--run", "L"]

    def start(learner: str) -> processes.Process:
        return processes.league(*words, "--learner", learner, cwd=tmp_path, stderr=subprocess.PIPE)

    main = start("main")
    while not (tmp_path / "runs" / "L.main" / "snapshots" / "0000000256").exists():
        assert main.poll() is None
        time.sleep(0.05)
    exploiter = start("exploiter")
    second = processes.run(*words, "--learner", "main", cwd=tmp_path)
    errors = [process.communicate(timeout=500)[1] for process in (main, exploiter)]
    assert [process.returncode for process in (main, exploiter)] == [0, 0], errors
    assert second.returncode == 0 or "another process trains it" in second.stderr or "finished" in second.stderr
    opened = Store.open(store)
    assert {row.run: (row.status, row.steps) for row in opened.runs()} == dict.fromkeys(
        ("L.main", "L.exploiter"), ("finished", 1_024)
    )
    mains = {row.agent_id for row in opened.snapshots("L.main") if row.step}
    met = {agent for match in opened.matches("L.exploiter", "training") for agent in match.agents}
    assert met & mains and len(opened.snapshots("L.exploiter")) == 9


def test_a_learner_alone_is_trained_by_one_process(tmp_path: Path) -> None:
    """While a learner trains, training it again is refused; LEAGUE.NAME goes on alone, and its league after it."""
    refused: list[str] = []

    class Meddler(Listener):
        def report(self, report: object) -> None:
            with pytest.raises(LeagueError) as caught:
                league.resume("L.main", store=tmp_path / "league.duckdb")
            refused.append(str(caught.value))

    league.train(
        league=write(tmp_path),
        env="matrix",
        run="L",
        learner="main",
        overrides=["run.total_steps=256"],
        store=tmp_path / "league.duckdb",
        callback=Meddler(),
    )
    assert refused and all("another process trains it" in message for message in refused)
    done = league.resume("L.breadth", store=tmp_path / "league.duckdb")
    assert [(x.run, x.status) for x in done.learners] == [("L.breadth", "finished")]
    done = league.resume("L", store=tmp_path / "league.duckdb", overrides=["pool.live_nets=3"])
    assert [(x.run, x.steps) for x in done.learners] == [(run, 256) for run in RUNS]


# Several processes at once


def row_of(folder: Path, run: str) -> Any:
    """A run's row in the store, but for when it was written."""
    return replace(Store.open(folder / "league.duckdb").find_run(run), updated_at=None)  # type: ignore[arg-type]


def files_in(folder: Path) -> dict[str, bytes]:
    """The files below `folder` and what is in them."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_process_changes_nothing_of_what_another_trains(tmp_path: Path) -> None:
    """While a process plays as the main, nobody else writes its row or touches its files, however they call."""
    store, path = tmp_path / "league.duckdb", write(tmp_path)
    train(tmp_path, "run.total_steps=256", learner="main", device="auto")
    words = ["train", "--league", path, "--env", "matrix", "--run", "L", "--seed", 3, "--store", store]
    other = Told(*words, "--learner", "main", "--device", "auto", cwd=tmp_path, hold="play", stderr=subprocess.DEVNULL)
    assert other.until("play") and is_held(tmp_path / "L.main" / LOCK)
    before = row_of(tmp_path, "L.main")
    assert before.status == "running" and json.loads(before.config)["learner"]["device"] == "auto"
    newest = next((tmp_path / "L.main" / "state").glob(f"{json_of(tmp_path)['data']}"))
    newest.write_bytes(newest.read_bytes()[:-1])
    files = files_in(tmp_path / "L.main")

    done, _ = train(tmp_path, "run.total_steps=256", "run.evaluate_games=4", learner="exploiter", device="cpu")
    assert [(x.run, x.status) for x in done.learners] == [("L.exploiter", "finished")]
    for call in (
        lambda: league.resume("L", store=store),
        lambda: league.resume("L.main", store=store, overrides=["pool.live_nets=3"]),
        lambda: train(tmp_path, "run.total_steps=512"),
        lambda: train(tmp_path, "run.total_steps=512", learner="main"),
    ):
        with pytest.raises(UsageError, match=r"run=L\.main: another process trains it"):
            call()
    assert row_of(tmp_path, "L.main") == before and files_in(tmp_path / "L.main") == files
    assert [run.status for run in Store.open(store).runs()] == ["running", "finished", "stopped"]

    other.kill()
    assert {run.run: status for run, status in runs(Store.open(store))}["L.main"] == "died"
    done, said = train(tmp_path, "run.total_steps=384", learner="main", device="auto")
    assert done.status == "finished" and any("going on from the state before it" in line for line in said)
    events = Store.open(store).events("L.main")
    assert [event.kind for event in events if event.kind == "damage"] == ["damage"]


def json_of(folder: Path) -> dict[str, Any]:
    """The index of the main's newest state."""
    found: dict[str, Any] = json.loads((folder / "L.main" / "state" / "state.json").read_text())
    return found


@pytest.mark.slow
def test_a_learners_settings_are_its_own(tmp_path: Path) -> None:
    """The call's settings are written for the learners that it trains, and for nobody else."""
    train(tmp_path, "run.total_steps=128", learner="main", device="auto")
    train(tmp_path, "run.total_steps=256", "run.evaluate_games=4", learner="exploiter", device="cpu")
    configs = {run: json.loads(row_of(tmp_path, run).config) for run in RUNS}
    found = {run: (config["learner"]["device"], config["run"]["total_steps"]) for run, config in configs.items()}
    assert found == {"L.main": ("auto", 128), "L.exploiter": ("cpu", 256), "L.breadth": ("auto", 128)}
    store = tmp_path / "league.duckdb"
    league.resume("L.breadth", store=store, overrides=["learner.rollout_steps=8"], callback=Stopping(1))
    league.resume("L.breadth", store=store, overrides=["run.evaluate_games=6"])
    changed = json.loads(row_of(tmp_path, "L.breadth").config)
    assert (changed["run"]["evaluate_games"], changed["learner"]["rollout_steps"]) == (6, 8)
    assert json.loads(row_of(tmp_path, "L.main").config) == configs["L.main"]
    (event,) = Store.open(store).events("L.breadth")
    assert (event.kind, event.message) == ("resumed", "resumed with run.evaluate_games=6")


def test_roles_say_whom_a_learner_meets_and_no_magnet_holds_an_exploiter() -> None:
    """A game's share of the learner as it is now belongs to self-play, which is the whole league."""
    alone = config.load("smoke", env="kuhn")
    main, exploiter = (leagues_module._in_league(alone, is_main=is_main) for is_main in (True, False))
    assert alone.pool.mix == {"current": 0.8, "self_play": 0.2} and main.pool.mix == exploiter.pool.mix
    assert main.pool.mix == {"self_play": 1.0} and (main.learner.magnet, exploiter.learner.magnet) == (0.2, 0.0)


# Signals and kills between turns


@pytest.mark.slow
def test_a_signal_between_two_turns_stops_the_league(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes when a turn was given out and has not begun: the learner is saved as it stands, and goes on."""
    original, calls = session_module.Session._take_turn, list[str]()

    def take_turn(self: Any, learner: Any, *arguments: Any) -> None:
        calls.append(learner.plan.row.run)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGTERM)
        original(self, learner, *arguments)

    monkeypatch.setattr(session_module.Session, "_take_turn", take_turn)
    result, _ = train(tmp_path)
    assert (result.status, result.signal) == ("stopped", signal.SIGTERM) and calls == list(RUNS)
    assert [(x.run, x.steps) for x in result.learners] == [("L.main", 256), ("L.exploiter", 256), ("L.breadth", 0)]
    assert {row.status for row in Store.open(tmp_path / "league.duckdb").runs()} == {"stopped"}
    train(tmp_path)
    assert learned(tmp_path) == learned(whole)
    evaluations = "SELECT \"update\" FROM match WHERE kind = 'evaluation' AND run = 'L.breadth' ORDER BY ALL"
    assert Store.open(tmp_path / "league.duckdb").query(evaluations) == Store.open(whole / "league.duckdb").query(
        evaluations
    )


@pytest.mark.parametrize("place", cases("new_folder", "begin_folder", slow=["write_atomic"]))
def test_a_learner_killed_before_it_has_a_state_begins_again(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two folders, between the `run.json` of one and the next, or within the writing of the first state."""
    module = sys.modules["league.snapshots.state"] if place == "write_atomic" else folders
    when = {
        "new_folder": lambda _, name: name == RUNS[1],
        "begin_folder": lambda _, row, identity: row.run == RUNS[1],
        "write_atomic": lambda *_: True,
    }[place]
    with monkeypatch.context() as patch:
        patch.setattr(folders, "remove_folder", lambda *_: None)  # which a killed process does not come to
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        kill(module, place, when, lambda: train(tmp_path, "run.total_steps=128"))
    assert (tmp_path / "L.main" / "run.json").exists() == (place != "new_folder")
    assert bool(Store.create(tmp_path).runs()) == (place == "write_atomic") == (tmp_path / "L.main" / "state").is_dir()
    done, _ = train(tmp_path, "run.total_steps=128")
    assert [(x.status, x.steps) for x in done.learners] == [("finished", 128)] * 3


@pytest.mark.slow
def test_a_learner_killed_after_its_last_state_is_finished_by_the_next_call(tmp_path: Path) -> None:
    """Between the state of its last step and the store's hearing of it: `runs` does not call it dead for ever."""
    sets, store = "run.total_steps=128", tmp_path / "league.duckdb"
    kill(
        session_module.Session, "_note", lambda _, learner, status: status == "finished", lambda: train(tmp_path, sets)
    )
    assert row_of(tmp_path, "L.main").status != "finished"
    done = league.resume("L", store=store)
    assert [x.status for x in done.learners] == ["finished"] * 3
    assert {row.status for row in Store.open(store).runs()} == {"finished"}


# Damage


@pytest.mark.parametrize(
    ("lost", "words"), [("L.main/state", r"L\.main"), ("L.main", "league=L: 1 of its 3 learners cannot be read")]
)
def test_a_lost_state_is_refused_and_nothing_forgotten(lost: str, words: str, whole: Path, tmp_path: Path) -> None:
    """Without its state, or its folder, a learner that has trained is no new one."""
    folder = shutil.copytree(whole, tmp_path / "copy")
    shutil.move(folder / lost, tmp_path / "aside")
    before = files_in(folder)
    with pytest.raises(SnapshotError, match=words):
        train(folder, "run.total_steps=1024")
    with pytest.raises(SnapshotError, match=words):
        league.resume("L", store=folder)
    assert {name for name, _ in before.items() ^ files_in(folder).items() if not name.endswith(LOCK)} == set()


@pytest.mark.slow
@pytest.mark.parametrize("kind", cases("league", slow=["run"]))
def test_a_damaged_extra_snapshot_stops_nobody(kind: str, tmp_path: Path) -> None:
    """One that lies there, is damaged, and is in nobody's pool: a league's learner goes on as a run does."""
    store, name = tmp_path / "league.duckdb", "L.main" if kind == "league" else "R"
    if kind == "league":
        with interrupted(2, signal.SIGINT, "L.main"):
            train(tmp_path, "run.total_steps=256")
    else:
        sets = [*SMALL, "pool.snapshot_every=128", "pool.snapshot_every_after=128", "run.total_steps=1280"]
        league.train("smoke", env="matrix", run="R", overrides=sets, store=store, callback=Stopping(3))
    extra = shutil.copytree(
        tmp_path / name / "snapshots" / f"{128:010d}", tmp_path / name / "snapshots" / f"{100:010d}"
    )
    (extra / "manifest.json").write_text("{")
    done = league.resume("L", store=store) if kind == "league" else league.resume("R", store=store)
    assert done.status == "finished" and extra.is_dir()
    assert [event for event in Store.open(store).events(name) if event.kind == "damage"] == []


class Stopping(Listener):
    """A callback that ends a run by a signal after an update."""

    def __init__(self, update: int) -> None:
        super().__init__()
        self._update = update

    def report(self, report: Any) -> None:
        if report.update == self._update:
            signal.raise_signal(signal.SIGINT)


def test_a_damaged_snapshot_of_another_is_named_once(whole: Path, tmp_path: Path) -> None:
    """Of whom a learner may meet, those whose files are damaged are named, once a process."""
    folder = shutil.copytree(whole, tmp_path / "copy")
    (folder / "L.exploiter" / "snapshots" / f"{384:010d}" / "weights.safetensors").write_bytes(b"")
    said = Listener()
    call = {"env": "matrix", "run": "L", "seed": 3, "learner": "main", "store": folder / "league.duckdb"}
    with suppress(SnapshotError):
        league.train(league=write(folder), overrides=["run.total_steps=1024"], callback=said, **call)
    named = [line for line in said.said if "0000000384" in line and "put it back from a copy" in line]
    assert len(named) == 1
    assert [event.kind for event in Store.open(call["store"]).events("L.main")].count("damage") == 1


def test_a_snapshot_that_is_nowhere_ends_in_one_line(whole: Path, tmp_path: Path) -> None:
    """Neither row nor files: where a learner would have to load it, it says whose is missing."""
    folder = shutil.copytree(whole, tmp_path / "copy")
    store = Store.open(folder)
    first = store.snapshots("L.main")[-1].agent_id
    shutil.rmtree(folder / "L.exploiter")
    artifacts = plan_of(store, "L.main").artifacts
    assert artifacts.load_policy(first) is not None
    with pytest.raises(SnapshotError, match=r"run=L\.main: the snapshot abc.* is not in .*; put it back"):
        artifacts.load_policy("abc")


def plan_of(store: Store, run: str) -> Any:
    """The plan of a learner that takes turns."""
    (row,) = [row for row in store.learners() if row.run == run]
    found, callback = store.find_run(run), Steady([Listener()])
    to = changed(found, Call(), Given(), callback, "league L")
    return leagues_module.plan_of(store, row, found, to, callback, takes_turns=True)


# Pruning and names


def test_a_league_of_which_snapshots_were_pruned_does_not_go_on(whole: Path, tmp_path: Path) -> None:
    """Any learner may meet them; and nobody prunes a finished league of which another process trains a learner."""
    folder = shutil.copytree(whole, tmp_path / "copy")
    store = Store.open(folder / "league.duckdb")
    with alone("L.main", folder / "L.main"), pytest.raises(UsageError, match=r"run=L\.main: another process trains it"):
        prune(store, "L.exploiter", keep=1)
    assert not any(row.pruned_at for row in store.snapshots("L.exploiter"))
    assert prune(store, "L.exploiter", keep=1)[0].goes
    with pytest.raises(UsageError, match=r"league=L: snapshots of L\.exploiter were pruned, so it cannot go on"):
        train(folder, "run.total_steps=1024", learner="main")
    assert store.find_run("L.main").status == "finished"


def test_names_of_leagues_and_learners_are_checked(whole: Path, tmp_path: Path) -> None:
    """No run takes a league's name."""
    folder = shutil.copytree(whole, tmp_path / "copy")
    store = folder / "league.duckdb"
    with pytest.raises(UsageError, match=r"run=L: league `L` is already in .*`league resume L --store"):
        league.train("smoke", env="matrix", run="L", overrides=SMALL, store=store)
