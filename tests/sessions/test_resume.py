"""Stopping, resuming and carrying on: a run that was interrupted is, bit for bit, the run that was not."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import league
from league.config import fingerprint, from_json
from league.errors import ConfigError, LeagueError, SnapshotError, UsageError
from league.sessions import artifacts as artifacts_module
from league.sessions import session as session_module
from league.store.store import Store
from league.training import run as run_module
from league.training.run import Report
from tests.helpers.cases import cases
from tests.helpers.phases import Told
from tests.helpers.runs import ROOT, SETS, Notes, failing, learned, stages, status, train
from tests.helpers.sizes import as_options


@pytest.fixture(autouse=True)
def _stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The source with two tiny stages, of which `long` carries on `short`."""
    with stages(tmp_path_factory.mktemp("source")):
        yield


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of the long stage that nothing interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    with stages(folder):
        result, said = train(folder, "long")
    assert (result.status, result.steps, result.updates) == ("finished", 1_280, 10)
    assert "there is no finished short" in said[0]
    return folder


@pytest.fixture(scope="module")
def whole(unbroken: Path) -> tuple[list[Any], list[Any]]:
    """What it leaves."""
    snapshots, matches = learned(unbroken, "matrix-1")
    assert len(snapshots) == 10 and len(matches) == 128
    return snapshots, matches


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `matrix-1`, a finished run of the short stage, and of `stopped`, one of the long stage."""
    folder = tmp_path_factory.mktemp("made")
    with stages(folder):
        train(folder, "short", "run.total_steps=128")
        train(folder, "long", run="stopped", notes=Notes(1))
    return folder


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Path:
    """A copy of it, in `tmp_path`."""
    return shutil.copytree(made, tmp_path, dirs_exist_ok=True)


@pytest.mark.parametrize("number", cases(signal.SIGINT, slow=[signal.SIGTERM]))
def test_a_stopped_run_resumes_to_the_same_run(number: int, whole: Any, tmp_path: Path) -> None:
    """A signal stops at the next update, saved; resuming twice more gives the uninterrupted run's very rows."""
    first, said = train(tmp_path, "long", notes=Notes(3, number))
    assert (first.status, first.signal, first.updates) == ("stopped", number, 3)
    assert status(tmp_path, first.run) == ("stopped", 384)
    assert "stopping after this update" in said[-2] and f"{first.run}@stopped" in said[-1]
    store = tmp_path / "league.duckdb"
    second = league.resume(first.run, store=store, callback=Notes(7, number))
    assert (second.status, second.updates) == ("stopped", 7)
    third = league.resume(first.run, store=store)
    assert (third.status, third.signal, third.updates) == ("finished", 0, 10)
    assert status(tmp_path, first.run) == ("finished", 1_280)
    assert learned(tmp_path, first.run) == whole


@pytest.mark.parametrize("number", cases(1, slow=[3]))
def test_an_evaluation_that_is_broken_off_is_played_later(
    number: int, unbroken: Path, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal within one ends the run at once, saved; resumed it plays that evaluation, the last one too, once."""
    calls = []
    play = run_module.play

    def told(*arguments: Any, **named: Any) -> Any:
        calls.append(named["update"])
        if len(calls) == number:
            signal.raise_signal(signal.SIGINT)
            pytest.fail("it went on")
        return play(*arguments, **named)

    monkeypatch.setattr(run_module, "play", told)
    stopped, _ = train(tmp_path, "long")
    assert (stopped.status, stopped.signal) == ("stopped", signal.SIGINT) and len(calls) == number
    resumed = league.resume("matrix-1", store=tmp_path / "league.duckdb")
    assert resumed.status == "finished" and calls[number] == calls[number - 1]
    assert learned(tmp_path, "matrix-1") == whole
    rows = [Store.open(path / "league.duckdb").matches("matrix-1", "evaluation") for path in (tmp_path, unbroken)]
    assert rows[0] == rows[1] and len(rows[0]) > 10


def test_a_failed_run_resumes_from_its_checkpoint(whole: Any, tmp_path: Path) -> None:
    """An error past a checkpoint marks the run failed; what came after the checkpoint is played again, not twice."""
    train(tmp_path, "long", notes=Notes(2))
    store = tmp_path / "league.duckdb"
    with failing(6, ZeroDivisionError("a bug")), pytest.raises(ZeroDivisionError):
        league.resume("matrix-1", store=store)
    assert status(tmp_path, "matrix-1") == ("failed", 768)
    league.resume("matrix-1", store=store)
    assert learned(tmp_path, "matrix-1") == whole


def test_a_long_stage_carries_on_the_short_one(whole: Any, tmp_path: Path) -> None:
    """Under the same run, told so, and bit for bit what the long stage from scratch is, though evaluated otherwise."""
    short, _ = train(tmp_path, "short")
    before = learned(tmp_path, short.run)
    assert before[0] == whole[0][:6] and before[1] == whole[1][: len(before[1])], (
        "the short stage is the long one's start"
    )
    long, said = train(tmp_path, "long")
    assert said[0] == "carrying on matrix-1 (short, same fingerprint and seed) from step 640"
    assert (long.run, long.steps) == (short.run, 1_280)
    assert learned(tmp_path, long.run) == whole
    row = Store.open(tmp_path / "league.duckdb").find_run(long.run)
    assert (row.stage, row.status, json.loads(row.config)["run"]["total_steps"]) == ("long", "finished", 1_280)


@pytest.mark.parametrize(
    ("sampler", "payoff_games"),
    cases(slow=[("nash", 4), ("quality", 0), ("pfsp_hard", 0), ("nash", 0), ("rating", 0)]),
)
def test_samplers_that_read_results_keep_both_promises(sampler: str, payoff_games: int, tmp_path: Path) -> None:
    """Opponents drawn by results: the short stage is the long one's start, and stopping on the way changes nothing."""
    more = (f"pool.sampler={sampler}", f"pool.group_sampler={sampler}", "pool.live_nets=2")
    more += (f"pool.payoff_games={payoff_games}",)
    more += ('pool.groups={bots=["bot:biased", "bot:random"]}', "pool.mix={self_play=0.6, bots=0.4}")
    odds = "SELECT * EXCLUDE (run) FROM metric WHERE name LIKE 'pool/%' ORDER BY ALL"
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(whole, "long", *more)
    expected, (_, rows) = learned(whole, "matrix-1"), Store.open(whole / "league.duckdb").query(odds)
    assert len({round(row[-1], 9) for row in rows if row[2] == "pool/odds"}) > 20, "the results change the odds"
    train(parts, "short", *more, notes=Notes(3))
    league.resume("matrix-1", store=parts / "league.duckdb")
    before = learned(parts, "matrix-1")
    assert before[0] == expected[0][:6] and before[1] == expected[1][: len(before[1])]
    _, said = train(parts, "long", *more, notes=Notes(8))
    assert said[0].startswith("carrying on matrix-1")
    league.resume("matrix-1", store=parts / "league.duckdb")
    assert learned(parts, "matrix-1") == expected
    assert Store.open(parts / "league.duckdb").query(odds)[1] == rows


@pytest.mark.parametrize(
    ("arguments", "more", "why"),
    cases(
        ({"seed": 1}, (), "no finished short has seed 1 (there are: 0)"),
        ({}, ("learner.gamma=0.9",), "matrix-1, the newest finished short of seed 0, differs in learner.gamma"),
        ({}, ("env.rounds=5", "env.threads=2"), "differs in env.rounds"),
        slow=[({"run": "mine"}, (), "--run mine names a new run"), ({"fresh": True}, (), "--fresh")],
    ),
)
def test_what_is_not_the_same_starts_at_0(
    arguments: dict[str, Any], more: tuple[str, ...], why: str, copied: Path
) -> None:
    """Another seed, other settings, a name of its own or --fresh make a new run, which says why; the old one stays."""
    before = learned(copied, "matrix-1")
    result, said = train(copied, "long", "run.total_steps=256", *more, **arguments)
    assert said[0].startswith("starting at step 0: ") and why in said[0]
    assert result.run != "matrix-1" and result.updates == 2
    assert learned(copied, "matrix-1") == before and status(copied, "matrix-1") == ("finished", 128)


def test_what_does_not_change_learning_carries_on(copied: Path) -> None:
    """Threads, verbosity and evaluation are outside the fingerprint; of two equal runs the newest goes on."""
    train(copied, "short", "run.total_steps=128")
    _, said = train(copied, "long", "env.threads=2", "run.verbosity=0", "run.total_steps=256")
    assert said[0].startswith("carrying on matrix-2 ")


@pytest.mark.parametrize("kind", cases("data", "state", slow=["index", "version"]))
def test_a_lost_state_changes_nothing(kind: str, copied: Path) -> None:
    """Without a whole state neither resume nor the longer stage begins: one line, and the store is as it was."""
    for run in ("matrix-1", "stopped"):
        state = copied / run / "state"
        if kind == "index":
            (state / "state.json").write_text("{")
        elif kind == "data":
            next(state.glob("*.safetensors")).write_bytes(b"")
        elif kind == "version":
            head = json.loads((state / "state.json").read_text())
            (state / "state.json").write_text(json.dumps({**head, "format": 99}))
        else:
            shutil.rmtree(state)
    store = Store.open(copied / "league.duckdb")
    before = store.runs(), learned(copied, "matrix-1"), learned(copied, "stopped")
    for go_on in (lambda: train(copied, "long"), lambda: league.resume("stopped", store=store.path)):
        with pytest.raises(SnapshotError, match="--fresh") as caught:
            go_on()
        assert "\n" not in str(caught.value)
    assert (store.runs(), learned(copied, "matrix-1"), learned(copied, "stopped")) == before


def test_a_lost_listing_is_named(copied: Path) -> None:
    """Not the snapshots that it lists, whose files are there."""
    (copied / "stopped" / "segments.json").unlink()
    with pytest.raises(SnapshotError, match=r"segments\.json: it is gone.* from a copy, then `league resume"):
        league.resume("stopped", store=copied)


def test_a_run_of_a_changed_game_is_not_resumed(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the game's identity differs from the run's, resuming is refused before anything is changed."""
    monkeypatch.setattr(session_module.registry, "game_id", lambda name, options: "f" * 16)
    with pytest.raises(UsageError, match="agent stopped@0 plays another matrix: game_id was "):
        league.resume("stopped", store=copied / "league.duckdb")
    assert status(copied, "stopped") == ("stopped", 128)


def test_a_run_is_trained_by_one_process(tmp_path: Path) -> None:
    """While a run trains, resuming it is refused, and the training goes on undisturbed."""
    refused: list[str] = []

    class Meddler(Notes):
        def report(self, report: Report) -> None:
            with pytest.raises(LeagueError) as caught:
                league.resume("matrix-1", store=tmp_path / "league.duckdb")
            refused.append(str(caught.value))

    result, _ = train(tmp_path, "short", "run.total_steps=256", notes=Meddler())
    assert result.status == "finished" and len(refused) == 2
    assert all("run=matrix-1: another process trains it" in message for message in refused)


def test_settings_that_may_change_do_and_the_rest_is_refused(tmp_path: Path) -> None:
    """Fewer rows go on with new matches from the saved weights; what a run keeps is refused by name."""
    train(tmp_path, "long", notes=Notes(3))
    store = tmp_path / "league.duckdb"
    before = Store.open(store).find_run("matrix-1")
    for setting, word in (
        ("learner.gamma=0.9", "learner.gamma: a run keeps"),
        ("learner.accumulate=9", "accumulate=4"),
    ):
        with pytest.raises(ConfigError, match=word) as caught:
            league.resume("matrix-1", overrides=[setting], store=store)
        assert ("env.rows, env.threads" in str(caught.value)) == (setting == "learner.gamma=0.9")
    assert Store.open(store).find_run("matrix-1") == before
    less = ["env.rows=4", "learner.rollout_steps=8", "pool.live_nets=2", "run.evaluate_games=4"]
    again = league.resume("matrix-1", overrides=less, store=store, callback=Notes(5))
    assert (again.status, again.steps) == ("stopped", 384 + 2 * 32)
    matches = [m for m in Store.open(store).matches("matrix-1", "training") if m.update > 3]
    assert matches and {m.row for m in matches} == set(range(4))
    assert all(m.update_begin is not None and m.update_begin >= 3 for m in matches), "they begin where the run stood"
    done = league.resume("matrix-1", store=store)
    assert (done.status, done.steps) == ("finished", 1_280)
    after = Store.open(store).find_run("matrix-1")
    assert json.loads(after.config)["env"]["rows"] == 4, "what was set once stays"
    _, events = Store.open(store).query("SELECT message FROM event WHERE kind = 'resumed'")
    assert [message for (message,) in events] == [f"resumed with {', '.join(less)}"]
    assert after.fingerprint not in (before.fingerprint, fingerprint(from_json(json.loads(after.config))))
    own = {row.step: row.fingerprint for row in Store.open(store).snapshots("matrix-1")}
    assert own[256] == before.fingerprint and own[1_280] == after.fingerprint


def test_a_run_with_changed_settings_is_not_carried_on(tmp_path: Path) -> None:
    """A longer stage with the settings that such a run has now starts at 0, and says why."""
    train(tmp_path, "short", notes=Notes(1))
    league.resume("matrix-1", overrides=["learner.minibatch_size=16"], store=tmp_path / "league.duckdb")
    for more, why in (
        (("learner.minibatch_size=16",), "settings that changed on the way"),
        ((), "learner.minibatch_size"),
    ):
        result, said = train(tmp_path, "long", "run.total_steps=128", *more)
        assert why in said[0] and result.run != "matrix-1"


OUT_OF_MEMORY = """
import resource, sys
import league
from league.errors import LeagueError

class Squeeze:
    def report(self, report):
        if report.update == 2:
            used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + 64 * 2**20, resource.RLIM_INFINITY))
    def evaluated(self, *arguments): pass
    def say(self, message): pass

sets = ["agent.lstm_size=256", "env.rows=256", "learner.rollout_steps=64", "learner.epochs=1",
        "learner.minibatch_size={ 0 = 1_024, 32_768 = 16_384 }",  # the third update needs more memory
        "run.total_steps=98304", "run.evaluate_games=2"]
try:
    league.train("smoke", env="matrix", device="cpu", overrides=sets, store="league.duckdb", callback=Squeeze())
except LeagueError as error:
    sys.exit(f"{type(error).__name__} {error}")
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the limit needs Linux")
def test_a_run_out_of_memory_is_saved_and_goes_on_with_less(tmp_path: Path) -> None:
    """When an allocation fails, the run is saved as of its last update, one line says what to lower, and that helps."""
    done = subprocess.run(
        [sys.executable, "-c", OUT_OF_MEMORY],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith("LeagueError run=matrix-1: out of memory on cpu at step 32,768 (") and "; saved; " in line
    assert "--set learner.accumulate=2 or --set learner.minibatch_size=8192 or --set env.rows=128" in line
    assert status(tmp_path, "matrix-1") == ("failed", 32_768)
    store = tmp_path / "league.duckdb"
    notes = Notes(4)
    less = ["learner.minibatch_size=64", "env.rows=128", "learner.rollout_steps=8"]
    again = league.resume("matrix-1", overrides=less, store=store, callback=notes)
    assert (again.status, again.updates, again.steps) == ("stopped", 4, 32_768 + 2 * 1_024)


def test_what_cannot_be_saved_leaves_the_last_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When even saving fails for want of memory, the line says so, and the run goes on from its older state."""
    train(tmp_path, "long", notes=Notes(2))
    store = tmp_path / "league.duckdb"
    with monkeypatch.context() as patch:
        patch.setattr(artifacts_module, "save_state", lambda folder, state: bytes(2**60))
        with (
            failing(4, MemoryError()),
            pytest.raises(LeagueError, match=r"step 512 .*; not saved .*its last saved state stands"),
        ):
            league.resume("matrix-1", store=store)
    assert status(tmp_path, "matrix-1") == ("failed", 512)
    assert league.resume("matrix-1", store=store, callback=Notes(3)).steps == 384


def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    """Two signals in one update end it without waiting for the update or the evaluation; resume then can go on."""
    sets = as_options([*SETS, "run.total_steps=200000", "run.checkpoint_minutes=0.0001"])
    words = ["train", "--stage", "smoke", "--env", "matrix", "--device", "cpu", *sets]
    told = Told(*words, cwd=tmp_path, stderr=subprocess.PIPE)
    assert told.until("save the state", 2)
    for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
        told.process.send_signal(number)
    _, err = told.process.communicate(timeout=60)
    told.close()
    assert told.process.returncode in (130, 143) and "Traceback" not in err and "next:" not in err
    store = tmp_path / "runs" / "league.duckdb"
    assert Store.open(store).find_run("matrix-1").status == "running"
    assert league.resume("matrix-1", store=store, callback=Notes(0)).status == "stopped"


@pytest.mark.slow
def test_an_overlapped_run_resumes_and_lanes_may_change(tmp_path: Path) -> None:
    """Two lanes stop and go on bit for bit; a run that goes on with one keeps its matches and is another run."""
    overlapped = "learner.overlap=true"
    for folder in ("whole", "cut"):
        (tmp_path / folder).mkdir()
    complete, _ = train(tmp_path / "whole", "long", overlapped)
    first, _ = train(tmp_path / "cut", "long", overlapped, notes=Notes(4))
    assert first.status == "stopped"
    shutil.copytree(tmp_path / "cut", tmp_path / "changed")
    league.resume(first.run, store=tmp_path / "cut" / "league.duckdb")
    expected = learned(tmp_path / "whole", complete.run)
    assert learned(tmp_path / "cut", first.run) == expected and len(expected[1]) == 128
    store = tmp_path / "changed" / "league.duckdb"
    notes = Notes()
    again = league.resume(first.run, store=store, overrides=["learner.overlap=false"], callback=notes)
    assert any("lanes 2 -> 1; all 8 matches in play go on" in line for line in notes.said)
    assert (again.status, again.steps) == ("finished", 1_280)
    assert learned(tmp_path / "changed", first.run) != expected
    assert (
        Store.open(store).find_run(first.run).fingerprint
        != Store.open(tmp_path / "whole" / "league.duckdb").find_run(complete.run).fingerprint
    )


@pytest.mark.slow
def test_a_run_stopped_before_its_first_update_is_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal comes before anything is played: neither a match nor the evaluation of the first weights is lost."""
    rows = "SELECT * EXCLUDE (run, finished_at, seat0_agent, seat1_agent) FROM match WHERE run = '{}' ORDER BY ALL"
    original = session_module.run_training

    def stop(run: Any, state: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return original(run, state)

    train(tmp_path, "long", "run.total_steps=640", run="whole")
    with monkeypatch.context() as patch:
        patch.setattr(session_module, "run_training", stop)
        first, _ = train(tmp_path, "long", "run.total_steps=640", run="cut")
    assert (first.status, first.steps, first.updates) == ("stopped", 0, 0)
    store = Store.open(tmp_path / "league.duckdb")
    league.resume("cut", store=store.path)
    assert learned(tmp_path, "cut") == learned(tmp_path, "whole")
    assert store.query(rows.format("cut")) == store.query(rows.format("whole"))


@pytest.mark.slow
def test_settings_that_another_process_changes_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process goes on with other settings between a run's being read and its lock: they are not undone."""
    train(tmp_path, "long", notes=Notes(2))
    store, original = Store.open(tmp_path / "league.duckdb"), session_module.alone

    def late(run: str, folder: Path) -> Any:
        monkeypatch.setattr(session_module, "alone", original)
        league.resume(run, store=store.path, overrides=["pool.live_nets=3"], callback=Notes(4))
        return original(run, folder)

    monkeypatch.setattr(session_module, "alone", late)
    with pytest.raises(UsageError, match="run=matrix-1: another process has just changed its settings"):
        league.resume("matrix-1", store=store.path, overrides=["run.evaluate_games=6"])
    row = store.find_run("matrix-1")
    assert (row.status, row.update, json.loads(row.config)["pool"]["live_nets"]) == ("stopped", 4, 3)
    assert league.resume("matrix-1", store=store.path).status == "finished"
