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
from league.errors import ConfigError, LeagueError, SnapshotError, StoreError, UsageError
from league.sessions import artifacts as artifacts_module
from league.sessions import folders
from league.sessions import session as session_module
from league.sessions.app import open_session
from league.sessions.call import Call
from league.sessions.retention import prune
from league.snapshots import io as snapshot_files
from league.store.locks import LOCK, alone, is_held
from league.store.store import Store
from league.training.training import Training
from tests.helpers import processes
from tests.helpers.cases import cases
from tests.helpers.phases import Told
from tests.helpers.runs import Notes
from tests.helpers.sizes import SMALL, as_options

ROOT = Path(__file__).resolve().parents[2]
LEAGUE = """
turn_steps = 256

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
SETS = (
    *(*SMALL, "env.rounds=5", "learner.epochs=2", "pool.snapshot_every=128", "pool.snapshot_every_after=128"),
    *("pool.live_nets=2", "run.total_steps=896", "run.allow_short=true"),
)
WORDS = ("--env", "matrix", "--run", "L", "--seed", "3", "--device", "cpu", *as_options(SETS))
RUNS = ("L.main", "L.exploiter", "L.breadth")


def write(folder: Path, text: str = LEAGUE) -> Path:
    path = folder / "tiny.toml"
    path.write_text(text)
    return path


def train(folder: Path, *overrides: str, **arguments: Any) -> tuple[Any, list[str]]:
    """Trains the league L in `folder`; its result and what was said."""
    notes, store = arguments.pop("callback", None) or Notes(), folder / "league.duckdb"
    path = arguments.pop("path", None) or write(folder)
    arguments = {"env": "matrix", "run": "L", "seed": 3, "device": "cpu", **arguments}
    result = league.train(league=path, overrides=(*SETS, *overrides), store=store, callback=notes, **arguments)
    return result, notes.said


def learned(folder: Path) -> dict[str, Any]:
    """What every learner left: its snapshots, training matches, and whom its sampler wanted when."""
    store, found = Store.open(folder / "league.duckdb"), {}
    for run in RUNS:
        rows = [(r.step, r.update, r.agent_id, r.parent, r.is_historical) for r in store.snapshots(run)]
        odds = store.query(f"SELECT * FROM metric WHERE run = '{run}' AND name LIKE 'pool/%' ORDER BY ALL")[1]
        found[run] = rows, [asdict(match) for match in store.matches(run, "training")], odds
    return found


def evaluations(folder: Path) -> list[list[dict[str, Any]]]:
    """Every learner's evaluation matches, none of which is missing."""
    store = Store.open(folder / "league.duckdb")
    found = [[asdict(match) for match in store.matches(run, "evaluation")] for run in RUNS]
    assert all(found)
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
    assert met["L.exploiter"] - first == {"L.main", "bot:biased", "bot:random"} and wanted["L.exploiter"] == {"L.main"}
    assert wanted["L.main"] == wanted["L.breadth"] == set(RUNS)
    assert met["L.main"] > {"L.main"} and met["L.breadth"] > {"L.breadth"}
    stay = {run: [step for step, _, _, _, stays in found[run][0] if stays] for run in RUNS}
    assert stay == {"L.main": [0, 384, 768], "L.exploiter": [0, 384, 768], "L.breadth": [0, 256, 512, 768]}


def test_nobody_is_met_before_it_was_published(whole: Path) -> None:
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
    lineages = store.lineages(store.find_run("L.exploiter").game_id)
    for steps in ((0, 128, 256, 384), (0, 512, 640, 768), (0, 896)):
        assert [agents[step] for step in steps] in lineages, "a reset parts them"


@pytest.mark.slow
def test_hashes_of_strings_decide_nothing(whole: Path, tmp_path: Path) -> None:
    """A league in a process of another PYTHONHASHSEED is the same league, its evaluations included."""
    words = ["train", "--league", write(tmp_path), *WORDS]
    store = ["--store", tmp_path / "league.duckdb"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "1"}
    subprocess.run([sys.executable, "-m", "league", *words, *store], env=environment, check=True, capture_output=True)
    assert learned(tmp_path) == learned(whole) and evaluations(tmp_path) == evaluations(whole)


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


BREAKS: dict[str, Callable[[Path], Any]] = {
    "a signal in the first turn": lambda folder: stop(folder, 1, signal.SIGINT, "L.main"),
    "a signal in an exploiter's turn": lambda folder: stop(folder, 3, signal.SIGTERM, "L.exploiter"),
    "a signal after a reset": lambda folder: stop(folder, 6, signal.SIGINT, "L.breadth"),
    "an error": lambda folder: stop(folder, 4, ZeroDivisionError("a bug"), "L.exploiter"),
    "a kill before a reset": lambda folder: kill(session_module, "start_again", lambda *_: True, lambda: train(folder)),
    "a kill before the first state": lambda folder: kill(
        artifacts_module, "save_state", lambda *_: True, lambda: train(folder)
    ),
}


def stop(folder: Path, update: int, what: int | Exception, run: str) -> None:
    """Stops the league L at a learner's update; the learner that fails is `failed`, the others are saved."""
    with interrupted(update, what, run), suppress(ZeroDivisionError):
        result, _ = train(folder)
        assert (result.status, result.signal) == ("stopped", what)
    statuses = {row.run: row.status for row in Store.open(folder / "league.duckdb").runs()}
    assert statuses[run] == ("stopped" if isinstance(what, int) else "failed")
    assert {status for name, status in statuses.items() if name != run} <= {"stopped", "finished"}


@pytest.mark.slow
@pytest.mark.parametrize("what", BREAKS)
def test_a_league_broken_off_anywhere_goes_on_to_the_same_league(what: str, whole: Path, tmp_path: Path) -> None:
    BREAKS[what](tmp_path)
    train(tmp_path) if "first" in what else league.resume("L", store=tmp_path / "league.duckdb")
    assert learned(tmp_path) == learned(whole) and evaluations(tmp_path) == evaluations(whole)


def test_the_tables_make_sense_of_several_learners(whole: Path, tmp_path: Path) -> None:
    store = whole / "league.duckdb"
    board = league.leaderboard(store=store)
    assert {f"{run}@896" for run in RUNS} <= {entry.name for entry in board.entries}
    assert len(board.boards[0].groups) == 1 and {learner.run for learner in board.learners} == set(RUNS)
    with pytest.raises(UsageError, match="cannot go back behind what others have met"):
        league.resume("L.main", at=1, store=store)
    table = json.loads(processes.run("runs", "--store", store, "--json", cwd=tmp_path).stdout)["runs"]
    assert {row["run"]: row["role"] for row in table}["L.exploiter"] == "main_exploiter"


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
    before = Store.open(whole / "league.duckdb").runs()
    with pytest.raises(UsageError) as caught:
        train(whole, *arguments.pop("overrides", ()), **arguments)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert Store.open(whole / "league.duckdb").runs() == before


@pytest.mark.parametrize("settings", ["{}", "[]", '{"role": 5}', '{"role": {}, "turn_steps": "x", "seed": 0}'])
def test_settings_that_no_league_writes_are_refused(settings: str, whole: Path, tmp_path: Path) -> None:
    """What a learner's run.json says beside its configuration is checked where it is read."""
    store = shutil.copytree(whole, tmp_path / "copy")
    path = store / "L.main" / "run.json"
    row = json.loads(path.read_text())
    row["learner"]["settings"] = settings
    path.write_text(json.dumps(row))
    with pytest.raises(StoreError, match=r"L\.main/run\.json: damaged \(learner\.settings: .*put the file back"):
        league.resume("L.main", store=store)


def test_a_taken_name_and_a_league_without_self_play_are_refused(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"run=L\.main: that name is taken"):
        train(whole, run="L.main")
    with pytest.raises(UsageError, match=r"run=L\.main: it is a learner of a league; use"):
        league.Trainer.resume("L.main", store=whole / "league.duckdb")
    with pytest.raises(UsageError, match=r"run=L: league `L` is already in .*`league resume L --store"):
        league.train("smoke", env="matrix", run="L", overrides=SMALL, store=whole / "league.duckdb")
    with pytest.raises(UsageError, match=r"no run `M` in .*known: L"):
        league.resume("M", store=whole / "league.duckdb")
    with pytest.raises(ConfigError, match=r"pool\.mix has no self_play"):
        train(tmp_path, "pool.mix={'bot:random'=1.0}")
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.toml"]


def test_a_learner_alone_is_trained_by_one_process(tmp_path: Path) -> None:
    refused: list[str] = []

    class Meddler(Notes):
        def report(self, report: object) -> None:
            with pytest.raises(LeagueError) as caught:
                league.resume("L.main", store=tmp_path / "league.duckdb")
            refused.append(str(caught.value))

    train(tmp_path, "run.total_steps=256", learner="main", callback=Meddler())
    assert refused and all("another process trains it" in message for message in refused)
    done = league.resume("L.breadth", store=tmp_path / "league.duckdb")
    assert [(x.run, x.status) for x in done.learners] == [("L.breadth", "finished")]
    done = league.resume("L", store=tmp_path / "league.duckdb", overrides=["pool.live_nets=3"])
    assert [(x.run, x.steps) for x in done.learners] == [(run, 256) for run in RUNS]


def row_of(folder: Path, run: str) -> Any:
    """A run's row in the store, but for when it was written."""
    return replace(Store.open(folder / "league.duckdb").find_run(run), updated_at=None)  # type: ignore[arg-type]


def files_in(folder: Path) -> dict[str, bytes]:
    """The files below `folder` and what is in them."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_process_changes_nothing_of_what_another_trains(tmp_path: Path) -> None:
    store = tmp_path / "league.duckdb"
    words = ["train", "--league", write(tmp_path), *WORDS, "--store", store, "--learner", "main"]
    other = Told(*words, cwd=tmp_path, hold="play", stderr=subprocess.DEVNULL)
    assert other.until("play") and is_held(tmp_path / "L.main" / LOCK)
    before, files = row_of(tmp_path, "L.main"), files_in(tmp_path / "L.main")
    done, _ = train(tmp_path, "run.total_steps=256", learner="exploiter")
    assert [(x.run, x.status) for x in done.learners] == [("L.exploiter", "finished")]
    for call in (
        lambda: league.resume("L", store=store),
        lambda: league.resume("L.main", store=store, overrides=["pool.live_nets=3"]),
        lambda: train(tmp_path, "run.total_steps=512", learner="main"),
    ):
        with pytest.raises(UsageError, match=r"run=L\.main: another process trains it"):
            call()
    assert row_of(tmp_path, "L.main") == before and files_in(tmp_path / "L.main") == files
    other.kill()
    assert {run.run: status for run, status in Store.open(store).runs_with_status()}["L.main"] == "died"


@pytest.mark.parametrize("place", cases("new_folder", "begin_folder", slow=["write_atomic"]))
@pytest.mark.slow
def test_a_learner_killed_before_it_has_a_state_begins_again(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules["league.snapshots.state"] if place == "write_atomic" else folders
    when = {
        "new_folder": lambda _, name: name == RUNS[1],
        "begin_folder": lambda _, row, identity: row.run == RUNS[1],
        "write_atomic": lambda *_: True,
    }[place]
    with monkeypatch.context() as patch:
        patch.setattr(folders, "_remove_unused", lambda *_: None)  # which a killed process does not come to
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        kill(module, place, when, lambda: train(tmp_path, "run.total_steps=128"))
    assert (tmp_path / "L.main" / "run.json").exists() == (place != "new_folder")
    assert bool(Store.create(tmp_path).runs()) == (place == "write_atomic") == (tmp_path / "L.main" / "state").is_dir()
    done, _ = train(tmp_path, "run.total_steps=128")
    assert [(x.status, x.steps) for x in done.learners] == [("finished", 128)] * 3


@pytest.mark.parametrize(
    ("lost", "words"), [("L.main/state", r"L\.main"), ("L.main", "league=L: 1 of its 3 learners cannot be read")]
)
def test_a_lost_state_is_refused_and_nothing_forgotten(lost: str, words: str, whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "copy")
    shutil.move(folder / lost, tmp_path / "aside")
    before = files_in(folder)
    with pytest.raises(SnapshotError, match=words):
        train(folder, "run.total_steps=1024")
    with pytest.raises(SnapshotError, match=words):
        league.resume("L", store=folder)
    assert {name for name, _ in before.items() ^ files_in(folder).items() if not name.endswith(LOCK)} == set()


def test_a_damaged_snapshot_of_another_is_named_once(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "copy")
    (folder / "L.exploiter" / "snapshots" / f"{384:010d}" / "weights.safetensors").write_bytes(b"")
    said = Notes()
    with suppress(SnapshotError):
        train(folder, "run.total_steps=1024", learner="main", callback=said)
    named = [line for line in said.said if "0000000384" in line and "put it back from a copy" in line]
    assert len(named) == 1
    assert [event.kind for event in Store.open(folder).events("L.main")].count("damage") == 1


def test_a_league_of_which_snapshots_were_pruned_does_not_go_on(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "copy")
    store = Store.open(folder / "league.duckdb")
    with alone("L.main", folder / "L.main"), pytest.raises(UsageError, match=r"run=L\.main: another process trains it"):
        prune(store, "L.exploiter", keep=1)
    assert not any(row.pruned_at for row in store.snapshots("L.exploiter"))
    assert prune(store, "L.exploiter", keep=1)[0].goes
    with pytest.raises(UsageError, match=r"league=L: snapshots of L\.exploiter were pruned, so it cannot go on"):
        train(folder, "run.total_steps=1024", learner="main")
    assert store.find_run("L.main").status == "finished"


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
def test_pruning_spares_the_pools_of_a_league_that_can_go_on(tmp_path: Path) -> None:
    """A finished learner's snapshots stay while another of its league trains, and may go when all have finished."""
    with interrupted(5, signal.SIGINT, "L.exploiter"):
        train(tmp_path, "run.total_steps=640")
    store = Store.open(tmp_path / "league.duckdb")
    assert store.find_run("L.main").status == "finished"
    assert not any(pruning.goes for pruning in prune(store, keep=1))
    league.resume("L", store=store.path)
    assert any(pruning.goes for pruning in prune(store, keep=1))


@pytest.mark.slow
def test_two_processes_train_one_league_on_one_store(tmp_path: Path) -> None:
    """Each learner in a process of its own: both finish, and the exploiter meets what the main stored meanwhile."""
    text = LEAGUE.replace('[learners.breadth]\nrole = "league_exploiter"', "")
    path, store = write(tmp_path, text), tmp_path / "runs" / "league.duckdb"
    words = ["train", "--league", path, "--env", "matrix", "--run", "L"]
    words += [word for text in (*SETS, "run.total_steps=1024") for word in ("--set", text)]

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


@pytest.mark.slow
def test_learners_in_step_do_in_processes_of_their_own_what_one_process_does(whole: Path, tmp_path: Path) -> None:
    """Each waits at its turns for the others, and sees of them what it would have seen in one process."""
    path = write(tmp_path, f"in_step = true\n{LEAGUE}")
    words = ["train", "--league", path, *WORDS, "--store", tmp_path / "league.duckdb"]
    begun = [processes.league(*words, "--learner", run.removeprefix("L."), cwd=tmp_path) for run in RUNS[::-1]]
    assert [process.wait(timeout=500) for process in begun] == [0] * len(RUNS)
    assert learned(tmp_path) == learned(whole)


def test_a_stopped_league_goes_on(whole: Path, tmp_path: Path) -> None:
    """`league stop` from another process; what goes on after it is what nobody stopped."""

    class Stops(Notes):
        def say(self, message: str) -> None:
            super().say(message)
            if "L.exploiter: 512/896 steps" in message:
                folders.ask_to_stop(Store.open(tmp_path / "league.duckdb"), "L")

    result, _ = train(tmp_path, callback=Stops())
    assert result.status == "stopped" and result.signal == 0
    with pytest.raises(UsageError, match="run=L: nobody trains it now"):
        folders.ask_to_stop(Store.open(tmp_path / "league.duckdb"), "L")
    with alone("L.breadth", tmp_path / "L.breadth"):  # as one that waits for its first turn
        assert folders.ask_to_stop(Store.open(tmp_path / "league.duckdb"), "L") == ["L.breadth"]
    for run in RUNS:
        (tmp_path / run / folders.STOP).touch()
    with open_session(Call(resumes="L", store=tmp_path)):
        assert not any((tmp_path / run / folders.STOP).exists() for run in RUNS)
    assert league.resume("L", store=tmp_path / "league.duckdb", callback=()).status == "finished"
    assert learned(tmp_path) == learned(whole)
