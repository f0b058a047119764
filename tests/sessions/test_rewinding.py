"""Going back to a kept state, and further than a stage's end: the bits are those of a run that always went there."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import league
from league.cli import app
from league.errors import SnapshotError, UsageError
from league.sessions.retention import prune
from league.snapshots.kept import chosen, data_of, pinned_rows, states_of
from league.store.store import Store
from tests.helpers.runs import Notes, learned, stages, train
from tests.helpers.states import learned_state

KEEPING = "run.rewind_every=256"


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the finished run matrix-1 of 1,280 steps, which kept states; nobody may change it."""
    folder = tmp_path_factory.mktemp("parent")
    with stages(folder):
        train(folder, "long", KEEPING)
        yield folder


@pytest.fixture
def copied(parent: Path, tmp_path: Path) -> Path:
    return shutil.copytree(parent, tmp_path / "copy")


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "[]", json.dumps({"data": [], "tree": "[" * 100_000})])
def test_an_index_that_cannot_be_read_names_no_state(text: str, tmp_path: Path) -> None:
    """However deep its lists are."""
    (tmp_path / "state.json").write_text(text)
    assert (states_of(tmp_path), pinned_rows(tmp_path)) == ({}, set())
    assert data_of(tmp_path / "state.json") is None


def test_a_run_that_went_back_is_what_its_parent_was(copied: Path) -> None:
    store = copied
    before = {path: path.read_bytes() for path in (copied / "matrix-1").rglob("*") if path.is_file()}
    notes = Notes(7)
    first = league.resume("matrix-1", at=600, store=store, callback=notes)
    assert (first.run, first.status, first.steps) == ("matrix-2", "stopped", 896)
    assert "run matrix-2: begins as matrix-1 was at step 512; matrix-1 is left as it is" in notes.said
    assert not [line for line in notes.said if "lost" in line]
    assert {path: path.read_bytes() for path in (copied / "matrix-1").rglob("*") if path.is_file()} == before
    row = Store.open(store).find_run("matrix-2")
    assert row.parent == "matrix-1"
    assert row.fingerprint == Store.open(store).find_run("matrix-1").fingerprint
    shutil.move(copied / "matrix-1", copied / "away")
    assert league.resume("matrix-2", store=store).steps == 1_280
    shutil.move(copied / "away", copied / "matrix-1")
    (snapshots, matches), (own, mine) = learned(copied, "matrix-1"), learned(copied, "matrix-2")
    assert own == snapshots
    later = [m for m in matches if m["update"] > 4]
    assert mine == later and len(later) > 30
    assert learned_state(copied / "matrix-2") == learned_state(copied / "matrix-1")


@pytest.mark.slow
def test_more_steps_are_those_from_the_start(parent: Path, tmp_path: Path) -> None:
    with stages(tmp_path):
        train(tmp_path, "short", KEEPING)
        done = league.resume("matrix-1", store=tmp_path, overrides=["run.total_steps=1_280"])
    assert (done.status, done.steps) == ("finished", 1_280)
    (snapshots, matches), (whole, all_matches) = learned(tmp_path, "matrix-1"), learned(parent, "matrix-1")
    assert matches == all_matches
    assert set(whole) <= set(snapshots)  # the short one's end is a snapshot, too, which nobody meets
    mine, theirs = learned_state(tmp_path / "matrix-1"), learned_state(parent / "matrix-1")
    assert {key for key in theirs if mine.get(key) != theirs[key]} <= {
        "/counters/evaluated",
        "/counters/evaluation_steps",
        "/counters/next_evaluation",
    }


@pytest.mark.parametrize(
    ("at", "overrides", "words"),
    [
        (100, [], "kept: 512, 1,024, 1,280"),
        (512, ["run.total_steps=400"], "has made 512 steps"),
        (512, ["agent.lstm_size=8"], "a run keeps this setting"),
        (512, ["agent=small"], "--set agent: a run keeps this setting"),
        (1_280, [], "it is finished at step 1,280"),
    ],
)
def test_going_back_that_cannot_be_changes_nothing(at: int, overrides: list[str], words: str, parent: Path) -> None:
    with pytest.raises(UsageError, match=words):
        league.resume("matrix-1", at=at, store=parent, overrides=overrides)
    assert [row.run for row in Store.open(parent).runs()] == ["matrix-1"]
    assert not (parent / "matrix-2").exists()


def test_a_damaged_kept_state_is_refused(copied: Path) -> None:
    kept = states_of(copied / "matrix-1" / "state")
    data = copied / "matrix-1" / "state" / json.loads(kept[512].read_bytes())["data"]
    data.write_bytes(data.read_bytes()[:-1] + b"?")
    with pytest.raises(SnapshotError, match=r"sha256 differs\); go back to another kept state"):
        league.resume("matrix-1", at=512, store=copied)
    assert not (copied / "matrix-2").exists()
    assert league.resume("matrix-1", at=1_024, store=copied).steps == 1_280


@pytest.mark.parametrize(("every", "most"), [(10, 4), (1, 5), (100, 32), (7, 1)])
def test_older_kept_states_lie_further_apart(every: int, most: int) -> None:
    there: set[int] = set()
    for newest in range(1, 200):
        there = chosen({*there, newest * every}, every, most)
        octaves = [(newest - step // every).bit_length() for step in there]
        over = [n for n in range(most) if 1 << n <= newest]
        assert len(there) <= most and len(set(octaves)) == len(octaves) and set(over) <= set(octaves), newest


def test_the_list_of_runs_tells_where_one_can_go_back_to(copied: Path) -> None:
    store = str(copied)
    kept = [*states_of(copied / "matrix-1" / "state")]
    assert len(kept) > 2
    told = CliRunner().invoke(app, ["runs", "--store", store], env={"COLUMNS": "200"})
    assert f"{kept[0]:,} to {kept[-1]:,} ({len(kept)})" in told.stdout
    listed = json.loads(CliRunner().invoke(app, ["runs", "--store", store, "--json"]).stdout)
    assert listed["runs"][0]["kept_states"] == kept
    assert league.resume("matrix-1", at=kept[-2], store=store).steps == 1_280
    assert prune(Store.open(Path(store)), "matrix-1", keep=1)
    listed = json.loads(CliRunner().invoke(app, ["runs", "--store", store, "--json"]).stdout)
    assert listed["runs"][0]["kept_states"] == []
