"""What of a store is damaged, missing or foreign: it is named in one line, once, and all else is there."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import duckdb
import pytest

from league.boards.standings import leaderboard
from league.errors import UsageError
from league.store.folder import Folder
from league.store.owner import Configured
from league.store.rows import ImportRow, LearnerRow
from league.store.store import Store
from tests.helpers import processes
from tests.helpers.stores import Filled, empty_store, make_agent, make_gate, make_match, make_run, make_snapshot

MOMENT = "2026-01-01T00:00:00Z"


@pytest.fixture
def said() -> list[str]:
    """What the store has told."""
    return []


@pytest.fixture
def store(tmp_path: Path) -> Filled:
    """Run a with two segments of matches, of 100 and 30 rows, and run b with one."""
    store = empty_store(tmp_path / "runs")
    for run in ("a", "b"):
        store.begin_run(make_run(run))
        store.add_snapshot(make_snapshot(run, agent_id=f"{run}@100"))
    for first, rows in ((0, 100), (100, 30)):
        store.add_matches(make_match(row=first + i, end_reason=str(i)) for i in range(rows))
        store.flush()
    store.add_matches(make_match(run="b", agents=("b", "bot:based"), row=i) for i in range(7))
    store.add_event("a", 1, "note", "x")
    store.add_agent(make_agent())
    store.flush()
    return store


def numbers(store: Store) -> list[int]:
    """Matches of each run, and events of a."""
    return [*(len(store.matches(run, "training")) for run in ("a", "b")), len(store.events("a"))]


def cut(path: Path) -> None:
    """Ends it early."""
    os.truncate(path, path.stat().st_size // 3)


def flip(path: Path) -> None:
    """Changes one bit."""
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)


def swap(path: Path) -> None:
    """Puts a whole segment of the same run in its place."""
    shutil.copy(path.with_name("match-000002.parquet"), path)


def foreign(path: Path) -> None:
    """Puts something in its place that is no segment."""
    path.write_text("run,agent\n1,2\n")


def fold(path: Path) -> None:
    """Puts a folder in its place."""
    path.unlink()
    path.mkdir()


def pipe(path: Path) -> None:
    """Puts a pipe in its place."""
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("damage", [cut, flip, swap, foreign, fold, pipe, Path.unlink])
@pytest.mark.parametrize("is_open", [False, True])
def test_a_damaged_segment_is_left_out(
    damage: Callable[[Path], None], is_open: bool, store: Filled, said: list[str]
) -> None:
    """By a store that is opened then, and by one that has read it whole: it is told once with its rows, all others are
    read, by queries, too; put back it counts again."""
    path, opened = store.path / "a/rows/match-000001.parquet", Store.open(store.path, said.append)
    whole = path.read_bytes()
    assert not is_open or numbers(opened) == [130, 7, 1]
    damage(path)
    for _ in range(2):
        assert numbers(opened) == [30, 7, 1]
        assert opened.query("SELECT count(*) FROM match")[1] == [(37,)]
        assert [run.run for run in opened.runs()] == ["a", "b"] and leaderboard(opened).boards
    (line,) = said
    assert line.startswith(f"{path}: ") and line.endswith("; its 100 rows are left out") and "\n" not in line
    path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
    path.write_bytes(whole)
    assert numbers(opened) == [130, 7, 1] and len(said) == 1


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("* EXCLUDE (winner)", "its columns are not those of a match"),
        ("* REPLACE ('x' AS winner)", "its columns are not those of a match"),
        ("* REPLACE (-1::BIGINT AS seed)", "its columns are not those of a match"),
        ("* REPLACE (7::TINYINT AS winner)", "it has rows that cannot be"),
        ("* REPLACE (NULL::VARCHAR AS end_reason)", "it has rows that cannot be"),
        ("* REPLACE (-1::BIGINT AS steps)", "it has rows that cannot be"),
        ("* REPLACE ('nan'::DOUBLE AS payoff)", "it has rows that cannot be"),
        ("* REPLACE ('infinity'::TIMESTAMP AS finished_at)", "it has rows that cannot be"),
        ("* REPLACE ('b' AS run)", "it has rows that cannot be"),
        ("* FROM segment LIMIT 99 --", "it has rows that cannot be"),
        ("", "cannot be read"),
    ],
)
def test_a_segment_with_rows_that_cannot_be_is_left_out(
    columns: str, words: str, store: Filled, said: list[str]
) -> None:
    """Though its sha256 is what the list says, as in a folder that somebody made to deceive."""
    path, listing = store.path / "a/rows/match-000001.parquet", store.path / "a/segments.json"
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    duckdb.sql(f"CREATE OR REPLACE TABLE segment AS FROM '{path}'")
    if columns:
        duckdb.sql(
            f"COPY (SELECT {columns}\n FROM segment) TO '{path}' (FORMAT parquet)".replace("--\n FROM segment", "")
        )
    else:
        path.write_bytes(b"PAR1 nothing PAR1")
    listing.write_text(listing.read_text().replace(before, hashlib.sha256(path.read_bytes()).hexdigest()))
    opened = Store.open(store.path, said.append)
    assert numbers(opened) == [30, 7, 1] and opened.query("SELECT count(*) FROM match")[1] == [(37,)]
    (line,) = said
    assert line.startswith(f"{path}: {words}") and line.endswith("; its 100 rows are left out") and "\n" not in line


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a/run.json", "its run.json is gone: it is left out"),
        ("a/segments.json", "it is gone: its rows are left out"),
        ("evaluations-0/segments.json", "it is gone: its rows are left out"),
    ],
)
def test_an_owner_whose_file_is_gone_is_named(name: str, words: str, store: Filled, said: list[str]) -> None:
    """Its rows would else be missing in silence."""
    (store.path / "evaluations-0/rows").mkdir(exist_ok=True)
    (store.path / name).unlink()
    status = store.path / "a/status.json"
    status.write_text(status.read_text().replace('"running"', '"finished"'))
    opened = Store.open(store.path, said.append)
    opened.query("SELECT count(*) FROM match")
    assert [words in line and line.endswith("; put the file back from a copy") for line in said[:1]] == [True], said


def test_learners_whose_league_is_gone_are_named(store: Filled, said: list[str]) -> None:
    """They do not count before it is there."""
    store.begin_league(
        [make_run("l"), make_run("m")], [LearnerRow(x, "l", i, "main", "{}") for i, x in enumerate("lm")]
    )
    store.add_matches(make_match(run="m", row=i) for i in range(7))
    store.flush()
    shutil.rmtree(store.path / "l")
    assert Store.open(store.path, said.append).query("SELECT count(*) FROM match")[1] == [(137,)]
    assert said == [f"{store.path}/m: its league is gone: m is left out; put the folder of the league back from a copy"]


def test_a_link_that_leads_to_itself_is_named(store: Filled, said: list[str]) -> None:
    """It keeps nothing else from being read."""
    (store.path / "loop").symlink_to("loop")
    assert Store.open(store.path, said.append).query("SELECT count(*) FROM match")[1] == [(137,)]
    assert "loop: cannot be read" in said[0]


def of_snapshot(**changes: Any) -> Callable[[Any], None]:
    """Changes what a listing says of its snapshot."""
    return lambda listing: listing["snapshots"][0].update(changes)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("run.json", lambda who: who.update(number=2**63 - 1)),
        ("run.json", lambda who: who.update(kind="gate")),
        ("run.json", lambda who: who.update(learner=asdict(LearnerRow("b", "b", 0, "main", "{}")))),
        (
            "run.json",
            lambda who: who.update(imported=asdict(ImportRow("b", "", "x", 1)) | {"imported_at": MOMENT}),
        ),
        ("status.json", lambda status: status.update(steps=-1)),
        ("config-001.json", lambda configured: configured.update(config={"learner": [1]})),
        ("segments.json", lambda listing: listing["segments"]["match"].append(listing["segments"]["match"][0])),
        ("segments.json", lambda listing: listing["segments"].update(metric=listing["segments"]["match"])),
        ("segments.json", lambda listing: listing.pop("segments")),
        ("segments.json", lambda listing: listing["segments"]["match"][0].update(rows=-1)),
        ("segments.json", of_snapshot(path="a/snapshots/0000000200")),
        ("segments.json", of_snapshot(run="b", path="b/snapshots/0000000100")),
        ("segments.json", of_snapshot(created_at="9999-12-31T23:59:59-14:00")),
    ],
)
def test_a_folder_that_says_what_is_anothers_is_left_out(
    name: str, change: Callable[[Any], None], store: Filled, said: list[str]
) -> None:
    """Or what cannot be: it is named in one line, also where somebody asks for that run."""
    path = store.path / "a" / name
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    opened = Store.open(store.path, said.append)
    assert [run.run for run in opened.runs()] == ["b"] and numbers(opened) == [0, 7, 0]
    (line,) = said
    assert str(store.path / "a") in line and "left out" in line and "\n" not in line
    with pytest.raises(UsageError, match=re.escape(line)):
        opened.find_run("a")


def test_the_newest_settings_are_those_of_the_highest_number(store: Filled) -> None:
    """A thousandth resume is after the 999th, and a file that is kept beside under another name counts for nothing."""
    folder = store.path / "a"
    for number, stage in ((999, "early"), (1000, "late")):
        configured = json.loads((folder / "config-001.json").read_text())
        (folder / f"config-{number}.json").write_text(json.dumps(configured | {"stage": stage}))
    (folder / "config-old.json").write_text("{")
    assert Store.open(store.path).find_run("a").stage == "late"
    Folder(folder, print).configure(Configured(stage="later", config={}, fingerprint="f", device="cpu"))
    assert Store.open(store.path).find_run("a").stage == "later" and (folder / "config-1001.json").exists()


@pytest.mark.parametrize("name", ["run.json", "segments.json", "status.json", "config-001.json"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "damaged"),
        (b"\xff\x00", "damaged"),
        (b"[" * 50_000, "damaged"),
        (b'{"format": 2, "more": 1}', "another league wrote it (format 2, this one knows 1); install that one"),
        (None, "Is a directory"),
    ],
    ids=["empty", "bytes", "deep", "newer", "folder"],
)
def test_a_damaged_folder_is_left_out(
    name: str, content: bytes | None, words: str, store: Filled, said: list[str]
) -> None:
    """One file of a run that is wrong takes that run out, in one line that names the file; others are all there."""
    path, whole = store.path / "a" / name, (store.path / "a" / name).read_bytes()
    opened = Store.open(store.path, said.append)
    if content is None:
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(content)
    for _ in range(2):
        assert [run.run for run in opened.runs()] == ["b"] and numbers(opened) == [0, 7, 0]
    assert len(said) == 1, said
    assert str(path) in said[0] and words in said[0] and "is left out" in said[0] and "\n" not in said[0]
    assert "; install that one" in said[0] or said[0].endswith("; put the file back from a copy")
    path.rmdir() if path.is_dir() else path.unlink()
    path.write_bytes(whole)
    assert numbers(opened) == [130, 7, 1]


@pytest.mark.parametrize(
    ("name", "key"), [("run.json", "seed"), ("status.json", "has_state"), ("config-001.json", "stage")]
)
def test_a_run_without_a_value_is_left_out(name: str, key: str, store: Filled, said: list[str]) -> None:
    """None takes a default: another seed, or a run without a state, is not that run."""
    path = store.path / "a" / name
    content = json.loads(path.read_text())
    del content[key]
    path.write_text(json.dumps(content))
    assert [run.run for run in Store.open(store.path, said.append).runs()] == ["b"]
    assert len(said) == 1 and str(path) in said[0] and key in said[0] and "is left out" in said[0], said


@pytest.mark.parametrize("name", ["status.json", "config-001.json"])
def test_a_run_without_a_file_is_left_out(name: str, store: Filled, said: list[str]) -> None:
    """It is named with what is missing."""
    (store.path / "a" / name).unlink()
    opened = Store.open(store.path, said.append)
    assert [run.run for run in opened.runs()] == ["b"]
    what = "settings" if name.startswith("config") else name
    assert said == [f"{store.path / 'a'}: it has no {what}: a is left out; put the file back from a copy"]


def test_a_folder_that_goes_or_is_copied(store: Filled, said: list[str], tmp_path: Path) -> None:
    """A run's folder that is removed or taken out is gone from boards, in another store it is there; a copy of another
    name is left out with a line; what is no owner's folder is nobody's business."""
    shutil.copytree(store.path / "a", store.path / "copy")
    (store.path / "notes").mkdir()
    (store.path / "notes/text").write_text("mine")
    (store.path / "file").write_text("mine")
    opened = Store.open(store.path, said.append)
    for _ in range(2):
        assert [run.run for run in opened.runs()] == ["a", "b"] and numbers(opened) == [130, 7, 1]
    assert len(said) == 1 and said[0].startswith(f"{store.path / 'copy'}: it is run a by its run.json; name the")
    shutil.move(store.path / "a", tmp_path / "other" / "a")
    assert [run.run for run in opened.runs()] == ["b"] and numbers(opened) == [0, 7, 0]
    assert {agent.agent_id for agent in opened.agents("g")} == {"b@100", "bot:based"}
    assert numbers(Store.open(tmp_path / "other")) == [130, 0, 1]


@pytest.mark.slow
def test_commands_tell_it_once_and_quiet_ones_do_not(store: Filled, tmp_path: Path) -> None:
    """On stderr; the answer is that of the rows that are left, as JSON, too."""
    cut(store.path / "a/rows/match-000001.parquet")
    (store.path / "b/status.json").write_text("{}")
    words = ["query", "SELECT count(*) AS n FROM match", "--json", "--store", store.path]
    for more, told in ([], 2), (["--quiet"], 0):
        done = processes.run(*words, *more, cwd=tmp_path)
        assert done.returncode == 0 and json.loads(done.stdout)["rows"] == [[30]]
        assert sum("left out" in line for line in done.stderr.splitlines()) == told, done.stderr


def test_a_gate_without_its_decision_is_one_that_runs(store: Filled, said: list[str]) -> None:
    """A decision that is damaged takes the gate out, and its title with it, in one line."""
    gate = store.gate_begins(make_gate())
    opened = Store.open(store.path, said.append)
    assert [row.decision for row in opened.gates()] == ["running"]
    (store.path / gate.gate / "decision.json").write_text("{}")
    assert not opened.gates() and len(said) == 1 and f"{gate.gate} is left out" in said[0]
