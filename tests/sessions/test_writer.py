"""Snapshots that another thread writes: no state and no row names one before its files are there, whatever happens."""

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from league.errors import SnapshotError
from league.sessions import artifacts as artifacts_module
from league.sessions.artifacts import FileArtifactStore
from league.snapshots import io as snapshot_files
from league.snapshots.state import load_state
from league.store.store import Store
from tests.helpers.cases import cases
from tests.helpers.phases import ASIDE, Told
from tests.helpers.processes import run as call
from tests.helpers.runs import Notes, at_update, learned, status, train
from tests.sessions.test_kill import TABLES, Case, arguments, rows

SHORT = ("smoke", "run.total_steps=640")
CASE = Case("matrix", 1_280, 0, 0, ("pool.snapshot_every=128", "run.evaluate_every=640"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nobody killed."""
    folder = tmp_path_factory.mktemp("whole")
    assert call(*arguments(CASE, "it"), cwd=folder).returncode == 0
    return folder


def on_disk(folder: Path) -> set[str]:
    """The agent ids of the snapshots whose files are whole."""
    found = (folder / "runs/it/snapshots").glob("[0-9]*")
    return {snapshot_files.load(path)[0].agent_id for path in found}


@pytest.mark.parametrize(
    ("phase", "times"), cases(("write a snapshot", 3), slow=[("sync a file", 1), ("sync a file", 6)])
)
def test_a_kill_while_they_are_written(phase: str, times: int, whole: Path, tmp_path: Path) -> None:
    """Killed with a snapshot half written, state and store name whole ones; resumed, it is the run never killed."""
    life = Told(*arguments(CASE, "it"), cwd=tmp_path)
    assert life.until(phase + ASIDE, times)
    assert life.kill()
    store = Store.open(tmp_path / "runs/league.duckdb")
    named = {row.agent_id for row in store.snapshots("it")}
    if (tmp_path / "runs/it/state/state.json").exists():
        named |= {*load_state(tmp_path / "runs/it/state")["pool"]["snapshots"]}
    assert named <= on_disk(tmp_path)
    resumed = call("resume", "it", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    for table in TABLES:
        assert rows(store, table, "it") == rows(Store.open(whole / "runs/league.duckdb"), table, "it"), table
    assert {row.agent_id for row in store.snapshots("it")} == on_disk(tmp_path)


@pytest.mark.slow
def test_a_disk_that_never_answers_holds_state_and_rows_back(tmp_path: Path) -> None:
    """While the first snapshot's files are on their way, nothing that names it is written; killed there, it begins."""
    life = Told(*arguments(CASE, "it"), cwd=tmp_path, hold="write a snapshot" + ASIDE)
    assert life.until("evaluate")
    time.sleep(2.0)
    assert life.kill() and "play" not in life.seen, "it waits before it writes who played"
    store = Store.open(tmp_path / "runs/league.duckdb")
    assert not store.snapshots("it") and not store.matches("it", "evaluation") and not on_disk(tmp_path)
    assert not (tmp_path / "runs/it/state").exists()
    assert call("resume", "it", cwd=tmp_path).returncode == 0


def test_a_disk_that_refuses_ends_the_run_in_a_line_and_room_helps(tmp_path: Path) -> None:
    """The writer's error reaches the loop at its next act; the run goes on with room, bit for bit, and lost nothing."""
    for name in ("whole", "broken"):
        (tmp_path / name).mkdir()
    train(tmp_path / "whole", *SHORT)

    def refuse(folder: Path, there: Any) -> Any:
        raise SnapshotError(f"cannot write {folder}: No space left on device; make room there, then try again")

    with pytest.MonkeyPatch.context() as patch:
        full = at_update(2, lambda: patch.setattr(artifacts_module, "_write", refuse))
        with full, pytest.raises(SnapshotError, match=r"cannot write .*0000000256: No space left"):
            train(tmp_path / "broken", *SHORT, "run.checkpoint_minutes=0.001")
    store = Store.open(tmp_path / "broken/league.duckdb")
    assert status(tmp_path / "broken", "matrix-1")[0] == "failed"
    assert [row.step for row in store.snapshots("matrix-1")] == [0, 128]
    import league

    league.resume("matrix-1", store=tmp_path / "broken/league.duckdb", callback=Notes())
    assert learned(tmp_path / "broken", "matrix-1") == learned(tmp_path / "whole", "matrix-1")


def test_what_was_just_saved_is_played_without_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pool, evaluation and ladder read nothing back: the run is the same where each file is gone once written."""
    for name in ("kept", "gone"):
        (tmp_path / name).mkdir()
    train(tmp_path / "kept", *SHORT)
    settle, taken = FileArtifactStore.settle, list[Path]()

    def and_remove(self: FileArtifactStore, *, wait: bool = True) -> None:
        settle(self, wait=wait)
        for path in (self.folder / "snapshots").glob("[0-9]*"):
            shutil.rmtree(path)
            taken.append(path)

    monkeypatch.setattr(FileArtifactStore, "settle", and_remove)
    train(tmp_path / "gone", *SHORT)
    assert learned(tmp_path / "gone", "matrix-1") == learned(tmp_path / "kept", "matrix-1")
    assert len(taken) == len(learned(tmp_path / "kept", "matrix-1")[0]) == 6
