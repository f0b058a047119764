"""The store speaks through whoever watches: one line where it is waited for, nothing for `--quiet` but errors."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from league import cli
from league.store import connection, flushing
from league.store.store import Store
from tests.helpers import processes
from tests.helpers.cases import cases
from tests.helpers.stores import held, make_match, make_run, release


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with a run, which is given up soon."""
    monkeypatch.setattr(connection, "PATIENCE_SECONDS", 0.02)
    monkeypatch.setattr(connection, "LOCK_SECONDS", 0.2)
    store = Store.create(tmp_path / "s.duckdb")
    store.begin_run(make_run())
    return store


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store that another process has open, and a file of matches beside it."""
    path = tmp_path_factory.mktemp("busy") / "s.duckdb"
    Store.create(path).begin_run(make_run())
    path.with_name("n.csv").write_text("seat0,seat1,winner,game_id\na,b,0,g\n")
    with held(path):
        yield path


def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Exit code and stderr of a command in this process."""
    monkeypatch.setattr(sys, "argv", ["league", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0), capsys.readouterr().err


COMMANDS = [
    *(["leaderboard"], ["matchup", "a", "b"], ["payoff"], ["runs"], ["events"], ["rewards", "a"], ["alarms"]),
    *(["snapshots", "list"], ["snapshots", "prune"], ["resume", "a"]),
    *(["export", "a", "FOLDER/out"], ["matches", "FOLDER/m.csv"], ["import", "FOLDER/n.csv"]),
    *(["evaluate", "a", "--against", "bot:b"], ["gate", "a", "bot:b"], ["tournament", "a", "bot:b"]),
    *(["exploit", "a"], ["train", "--env", "matrix", "--stage", "smoke"]),
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: "-".join(words[:2]).replace("FOLDER/", ""))
def test_a_busy_store_is_one_line_and_none_for_quiet(
    busy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """Every command that waits for the store says so once, and with `--quiet` only the error it ends in."""
    monkeypatch.setattr(connection, "PATIENCE_SECONDS", 0.02)
    monkeypatch.setattr(connection, "LOCK_SECONDS", 0.2)
    arguments = [*(word.replace("FOLDER", str(busy.parent)) for word in words), "--store", busy]
    code, said = call(monkeypatch, capsys, *arguments)
    quiet_code, quiet = call(monkeypatch, capsys, *arguments, "--quiet")
    assert code == quiet_code == 1
    waiting, error = said.splitlines()
    assert waiting.startswith(f"waiting for store {busy}, held by process ")
    assert error.startswith("error: store ") and quiet.splitlines() == [error]


@pytest.mark.parametrize("quiet", cases([], slow=[["--quiet"]]))
def test_a_query_that_waited_goes_on(quiet: list[str], store: Store, tmp_path: Path) -> None:
    """Its answer comes from a process of its own, which says that it waits; its time counts from when it has it."""
    spoken = tmp_path / "spoken"
    with held(store.path) as holder, open(spoken, "wb") as file:
        words = ["query", "SELECT 1 AS one", "--json", "--store", store.path, *quiet]
        asked = processes.league(*words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=file.fileno())
        while not (quiet or spoken.read_bytes().endswith(b"\n")):
            assert asked.poll() is None
            time.sleep(0.02)
        release(holder)
        out = asked.communicate()[0]
    assert asked.returncode == 0 and json.loads(out) == {"schema": 1, "columns": ["one"], "rows": [[1]]}
    said = spoken.read_text().splitlines()
    assert [line.split(", held")[0] for line in said] == [f"waiting for store {store.path}", "1 rows"][
        : 2 - 2 * len(quiet)
    ]


def test_a_command_that_waited_goes_on(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the store is let go of in time the line that it was waited for is all that stderr has."""
    monkeypatch.setattr(connection, "LOCK_SECONDS", 60.0)
    for more, wanted in (([], ["waiting for store"]), (["--quiet"], [])):
        with held(store.path) as process:
            timer = threading.Timer(0.5, release, [process])
            timer.start()
            code, said = call(monkeypatch, capsys, "runs", "--store", store.path, *more)
            timer.join()
        assert code == 0 and [line[:17] for line in said.splitlines()] == wanted


def test_rows_that_wait_are_told_to_the_watcher(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """A flush that is put off is a line of the watcher, and of the log only where there is none."""
    said: list[str] = []
    watched, alone = Store.open(store.path, said.append), Store.open(store.path)
    with held(store.path):
        for opened in (watched, alone):
            opened.add_matches([make_match()])
            assert not opened.flush()
    (line,), (record,) = said, caplog.records
    assert line.startswith(f"1 rows wait in memory, tried again in {flushing.FLUSH_SECONDS:g} s: store {store.path} is")
    assert record.getMessage().startswith("1 rows wait in memory") and record.name == "league.store.store"
