"""A run's folder is its own: no call loses what it did not make, and no other run's folder is taken for it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import league
from league.envs import registry
from league.errors import LeagueError, SnapshotError, StoreError, UsageError
from league.printing.progress import TerminalCallback
from league.sessions import folders
from league.sessions.retention import prune
from league.snapshots import state as states
from league.store import folder as owners
from league.store.owner import IDENTITY, STATUS
from league.store.store import Store
from league.training.learner import Learner
from tests.helpers import processes
from tests.helpers.cases import cases
from tests.helpers.runs import stopping
from tests.helpers.sizes import TINY, as_options

STEPS = 32
"""Of a rollout of `TINY`."""
KINDS = ("run", "learner", "exploiter")


def begin(kind: str, folder: Path, name: str = "a", **more: Any) -> Any:
    """Trains a run, a league of one learner, or an exploiter of that name; the last two go on where they are there."""
    store = folder
    if kind == "run":
        return league.train("smoke", env="matrix", run=name, overrides=TINY, store=store, **more)
    if kind == "learner":
        sets = [*TINY, "pool.snapshot_every=1000000", "pool.snapshot_every_after=1000000"]
        file = folder / "tiny.toml"
        file.write_text('turn_steps = 32\n[learners.a]\nrole = "main"\n')
        return league.train(league=file, env="matrix", run=name, overrides=sets, store=store, **more)
    sets = [setting for setting in TINY if not setting.startswith(("run.", "pool.snap"))]
    return league.train(
        against="bot:random", steps=64, env="matrix", run=name, overrides=sets, store=store, games=2, **more
    )


def resume(kind: str, folder: Path, name: str = "a") -> Any:
    """`league resume NAME`."""
    go_on = {"run": league.resume, "learner": league.resume, "exploiter": league.resume}[kind]
    return go_on(name, store=folder)


def run_of(kind: str, name: str = "a") -> str:
    """The run that `begin` makes."""
    return f"{name}.a" if kind == "learner" else name


def rows(folder: Path) -> Any:
    """What the store has of runs and matches."""
    store = Store.create(folder)
    return store.runs(), store.query("SELECT * FROM match ORDER BY ALL")[1]


def files(folder: Path) -> dict[str, bytes]:
    """The files below `folder`, but for the catalogue."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != "league.duckdb"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Kind -> a folder with one stopped after its first update; nobody may change it."""
    found = {}
    for kind in KINDS:
        found[kind] = tmp_path_factory.mktemp(kind)
        with stopping(1):
            begin(kind, found[kind])
        row = Store.open(found[kind]).find_run(run_of(kind))
        assert (row.status, row.steps) == ("stopped", STEPS)
    return found


@pytest.fixture
def stopped(originals: dict[str, Path], tmp_path: Path) -> Any:
    """Copies one of `originals`."""
    return lambda kind: shutil.copytree(originals[kind], tmp_path / kind)


# Nothing is deleted that a call did not make


def test_a_run_that_cannot_begin_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parts cannot be made: no row and no folder, and out of memory is one line that says what to call."""
    make = registry.make

    def make_few(name: str, *, rows: int, **rest: Any) -> Any:  # the run has 4, the checks before it others
        return bytes(2**60) if rows == 4 else make(name, rows=rows, **rest)

    with monkeypatch.context() as patch:
        patch.setattr(registry, "make", make_few)
        with pytest.raises(
            LeagueError, match=r"run=a: out of memory on cpu before it could play .*call again with --set"
        ):
            begin("run", tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert begin("run", tmp_path).status == "finished"


def test_snapshots_that_a_run_goes_back_behind_are_kept(stopped: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older state is put back: later snapshots are set aside, and have their names again when learned again."""
    folder = stopped("run")
    state = folder / "a" / "state"
    shutil.copytree(state, folder / "older")
    resume("run", folder)
    status = folder / "a" / STATUS
    status.write_text(status.read_text().replace('"finished"', '"stopped"'))
    before = files(folder / "a" / "snapshots")
    shutil.rmtree(state)
    shutil.move(folder / "older", state)
    with monkeypatch.context() as patch:
        patch.setattr(Learner, "update", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            resume("run", folder)
    aside = [path for path in (folder / "a" / "snapshots").iterdir() if folders.ASIDE in path.name]
    assert [path.name.partition(".")[0] for path in aside] == [f"{2 * STEPS:010d}"]
    resume("run", folder)
    assert files(folder / "a" / "snapshots") == before


# A folder belongs to a run


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_state_is_never_begun_over(kind: str, stopped: Any) -> None:
    """Without its state no run, learner or exploiter goes on, by whatever call, and nothing changes."""
    folder = stopped(kind)
    shutil.rmtree(folder / run_of(kind) / "state")
    before = rows(folder), files(folder)
    calls = [lambda: resume(kind, folder)] + [lambda: begin(kind, folder)] * (kind != "run")
    for call in calls:
        with pytest.raises(
            SnapshotError, match="restore its own from a copy, or begin another one with `league "
        ) as caught:
            call()
        assert "\n" not in str(caught.value)
        assert (rows(folder), files(folder)) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_that_is_there_is_not_taken(kind: str, tmp_path: Path) -> None:
    """Whatever lies where a new run's folder would be keeps what is in it, and nothing begins."""
    (tmp_path / run_of(kind)).mkdir()
    (tmp_path / run_of(kind) / "mine").write_text("x")
    with pytest.raises(UsageError, match="is there already"):
        begin(kind, tmp_path)
    assert [path.name for path in tmp_path.glob("*/*")] == ["mine"] and Store.create(tmp_path).runs() == []


def test_a_folder_that_lost_who_it_is_loses_nothing_else(stopped: Any) -> None:
    """Without its `run.json` nothing goes on from it or takes its place; put back, it is the run's again."""
    folder = stopped("run")
    identity = folder / "a" / IDENTITY
    content = identity.read_bytes()
    identity.unlink()
    before = files(folder)
    with pytest.raises(UsageError, match=r"run=a: .*/a is there already"):
        begin("run", folder)
    with pytest.raises(StoreError, match=r"no folder in it has a run\.json"):
        resume("run", folder)
    assert files(folder) == before
    identity.write_bytes(content)
    assert resume("run", folder).status == "finished"


REFUSED = r"no run `{0}`|: it is \w+ \S+ by its run.json|league={0}: 1 of its 1 |is another run's"


@pytest.mark.parametrize("what", ["folder", "state"])
@pytest.mark.parametrize("kind", cases("run", slow=KINDS))
def test_swapped_files_are_found(kind: str, what: str, stopped: Any) -> None:
    """Two runs of one store whose folders, or states, were swapped: neither goes on or plays the other's."""
    folder = stopped(kind)
    with stopping(1):
        begin(kind, folder, name="b", seed=1)
    a, b = (folder / run_of(kind, name) / ("" if what == "folder" else what) for name in "ab")
    a.rename(folder / "c")
    b.rename(a)
    (folder / "c").rename(b)
    before = rows(folder), files(folder)
    for name in "ab":
        with pytest.raises(
            LeagueError,
            match=REFUSED.format(name),
        ):
            resume(kind, folder, name)
    said: list[str] = []
    assert len(Store.create(folder, said.append).runs()) == (0 if what == "folder" else 2)
    assert [f"it is run {run_of(kind, 'b')} by its run.json" in line for line in sorted(said)] == (
        [True, False] if what == "folder" else []
    )
    assert (rows(folder), files(folder)) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state["counters"].update(steps=10**30),
        lambda state: state["counters"].update(update=-1),
        lambda state: state["counters"].update(update="x"),
        lambda state: state.pop("pool"),
        lambda state: state["pool"].update(snapshots=5),
        lambda state: state.update(rows=None),
        lambda state: state["rows"].update(snapshots={}),
        lambda state: state["rows"]["snapshots"][0].update(run="b", path="b/snapshots/0000000000"),
    ],
)
def test_a_state_that_says_what_cannot_be_is_one_line(change: Callable[[Any], Any], stopped: Any) -> None:
    """Though its hashes are right; nothing is changed."""
    folder = stopped("run")
    index = folder / "a/state/state.json"
    head = json.loads(index.read_text())
    state = json.loads(head["tree"])
    change(state)
    tree = json.dumps(state)
    index.write_text(json.dumps({**head, "tree": tree, "tree_sha256": hashlib.sha256(tree.encode()).hexdigest()}))
    before = files(folder)
    with pytest.raises(SnapshotError, match=r"state: damaged, or written by another version of league \(.*\); restore"):
        resume("run", folder)
    assert files(folder) == before


def test_a_run_killed_before_its_first_state_begins_at_0(tmp_path: Path) -> None:
    """It has matches and a snapshot and no state: `resume` is the run that nobody killed, and says where it begins."""
    begin("run", tmp_path, name="whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(states, "write_atomic", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            begin("run", tmp_path)
    store = Store.open(tmp_path)
    assert store.find_run("a").steps == STEPS
    said: list[str] = []

    class Listener:
        def report(self, report: object) -> None: ...

        def evaluated(self, *arguments: object) -> None: ...

        def say(self, message: str) -> None:
            said.append(message)

    assert league.resume("a", store=store.path, callback=Listener()).status == "finished"
    assert "run a: it ended before its first state was saved, so it begins at step 0" in said
    whole, again = ([(x.step, x.agent_id) for x in store.snapshots(run)] for run in ("whole", "a"))
    assert whole == again and len(store.matches("a", "training")) == len(store.matches("whole", "training"))


def begin_and_die(kind: str, folder: Path) -> None:
    """`begin`, killed where the folder of `a` is to be a run's, or a league's; in a process of its own."""
    write = owners.write

    def die(path: Path, *arguments: Any, **named: Any) -> None:
        if path == folder / "a" / IDENTITY:
            os.kill(os.getpid(), signal.SIGKILL)
        write(path, *arguments, **named)

    owners.write = die
    begin(kind, folder)


@pytest.mark.parametrize("kind", cases("learner", slow=KINDS))
def test_a_run_killed_before_it_counts_leaves_its_name_free(kind: str, tmp_path: Path) -> None:
    """Its folder is there, of a league those of its runs, and the store shows nothing: the same call begins it."""
    process = processes.Process(begin_and_die, [kind, tmp_path], cwd=tmp_path)
    assert process.wait(60) == -signal.SIGKILL
    assert list((tmp_path / run_of(kind)).iterdir()) and Store.create(tmp_path).runs() == []
    assert begin(kind, tmp_path).status == "finished"


def test_a_folder_that_another_process_just_made_is_not_taken(tmp_path: Path) -> None:
    """It is as empty as one whose process was killed, and only its lock tells."""
    with folders.new_folder(Store.create(tmp_path), "a"), pytest.raises(UsageError, match="is there already"):
        begin("run", tmp_path)
    assert begin("run", tmp_path).status == "finished"


def test_one_of_many_that_begin_a_run_at_once_has_it(tmp_path: Path) -> None:
    """Four calls with one name: one trains to its end, the others are refused in a line and change nothing."""
    words = ["train", "--stage", "smoke", "--env", "matrix", "--run", "a", *as_options(TINY)]
    calls = [processes.league(*words, cwd=tmp_path, stderr=subprocess.PIPE) for _ in range(4)]
    told = [call.communicate(120)[1] for call in calls]
    assert sorted(call.returncode for call in calls) == [0, 2, 2, 2], told
    for call, text in zip(calls, told, strict=True):
        assert call.returncode == 0 or "run=a: " in text.splitlines()[-1]
    store = Store.open(tmp_path / "runs")
    assert [row.status for row in store.runs()] == ["finished"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_not_called_as_the_catalogue_is(kind: str, tmp_path: Path) -> None:
    """A folder of that name would keep it from being written."""
    with pytest.raises(UsageError, match=r"run=league\.duckdb: the store's catalogue has that name"):
        begin(kind, tmp_path, name="league.duckdb")
    assert not list(tmp_path.glob("*/"))


# A call that is refused


@pytest.mark.parametrize("kind", cases("learner", slow=KINDS))
def test_a_call_that_is_refused_at_last_changes_nothing(
    kind: str, stopped: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings pass, the state is read, and then the weights cannot be: the store has not heard of the call."""
    folder = stopped(kind)
    before = rows(folder), files(folder)
    go_on = {"run": league.resume, "learner": league.resume, "exploiter": league.resume}[kind]
    with monkeypatch.context() as patch:
        patch.setattr(Learner, "load_state_dict", lambda *_: {}["another version"])
        with pytest.raises(SnapshotError, match="cannot be read by this league"):
            go_on("a", store=folder, overrides=["pool.live_nets=3"])
    assert (rows(folder), files(folder)) == before
    assert resume(kind, folder).status == "finished"


# A callback


class Broken:
    """A callback whose service is down."""

    def report(self, report: object) -> None:
        """Fails."""
        raise ConnectionError("no route")

    def evaluated(self, steps: int, opponent: str, summary: object) -> None:
        """Fails."""
        raise KeyError(opponent)

    def say(self, message: str) -> None:
        """Fails."""
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("kind", KINDS)
def test_a_watcher_that_fails_ends_no_run(kind: str, tmp_path: Path) -> None:
    """Whatever it raises, whenever it is told."""
    assert begin(kind, tmp_path, callback=Broken()).status == "finished"


def test_a_reader_of_the_progress_may_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`2>&1 | head`: nobody reads what the terminal's callback writes, and stdout is left as it was."""
    reader, writer = os.pipe()
    os.close(reader)
    broken = os.fdopen(writer, "w")
    with monkeypatch.context() as patch, TerminalCallback(2) as callback:
        patch.setattr("sys.stderr", broken)
        assert begin("run", tmp_path, callback=callback).status == "finished"
    with suppress(BrokenPipeError):
        broken.close()


# A full disk


def test_pruning_needs_no_room(small_disk: Path) -> None:
    """Where the disk has none for the mark, files go first; one that ends in between is finished by the next."""
    sets = [*TINY, "pool.snapshot_every=32", "run.total_steps=320"]
    league.train("smoke", env="matrix", run="a", overrides=sets, store=small_disk)
    store = Store.open(small_disk)
    with open(small_disk / "ballast", "wb", buffering=0) as file:
        for size in (2**16, 2**12, 2**6, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue
    goes = [holding.step for holding in prune(store, "a", keep=1)[0].goes]
    pruned = {row.step: row.path for row in store.snapshots("a") if row.pruned_at}
    assert goes == sorted(pruned) and not any((small_disk / path).exists() for path in pruned.values())
    assert not list((small_disk / "a" / "snapshots").glob("*.pruned"))


def test_a_pruning_that_ended_before_its_mark_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store stays full to the end: the files are gone, which the next pruning writes down."""
    sets = [*TINY, "pool.snapshot_every=32", "run.total_steps=320"]
    league.train("smoke", env="matrix", run="a", overrides=sets, store=tmp_path)
    store = Store.open(tmp_path)

    def full(*_: object) -> None:
        raise StoreError(f"cannot be used ({os.strerror(28)})")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "mark_pruned", full)
        with pytest.raises(StoreError, match="No space"):
            prune(store, "a", keep=1)
    assert len(list((tmp_path / "a" / "snapshots").glob("*.pruned"))) > 1
    prune(store, keep=1)
    assert all((row.pruned_at is None) == (tmp_path / row.path).is_dir() for row in store.snapshots("a"))
    assert not list((tmp_path / "a" / "snapshots").glob("*.pruned"))
