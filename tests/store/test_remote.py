"""A store at an address: several machines (here working copies) write it, each row once, one writer a folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

import league
from league.errors import LeagueError, StoreError, UsageError
from league.sessions.retention import holdings, prune
from league.store import locks, remote
from league.store import store as store_module
from league.store.bucket import Bucket
from league.store.exchange import import_matches
from league.store.files import REMOTE, store_folder
from league.store.store import Store
from tests.helpers.s3 import BUCKET, bucket
from tests.helpers.sizes import SMALL, as_options

ADDRESS = "memory://bucket/league"
MATCHES = '{"seat0": "x", "seat1": "y", "winner": 0}\n'


@pytest.fixture(autouse=True)
def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The file system of `ADDRESS`, empty; locks of dead machines are waited for briefly."""
    monkeypatch.setattr(locks, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr(store_module, "FETCH_SECONDS", 0.0)  # other machines look when this one just did
    fs = fsspec.filesystem("memory")
    fs.store.clear()
    fs.pipe_file("/bucket/keep", b"")
    yield fs
    fs.store.clear()
    remote._remotes.clear()
    locks.elsewhere.clear()


def on(machine: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From here on this process is another machine, which has a working copy of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / machine))


def train(run: str, *overrides: str, **more: Any) -> Any:
    sets = (*SMALL, "pool.snapshot_every=128", *overrides)
    return league.train("smoke", env="matrix", run=run, store=ADDRESS, device="cpu", overrides=sets, **more)


@pytest.mark.slow
def test_a_run_goes_on_on_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on("a", monkeypatch, tmp_path)
    train("it", "run.total_steps=256")
    on("b", monkeypatch, tmp_path)
    store = Store.open(ADDRESS)
    assert len(store.snapshots("it")) == 3 and not list(store.path.glob("it/snapshots/*/weights*"))
    league.resume("it", steps=512, store=ADDRESS)
    alone = league.train(
        "smoke", env="matrix", run="it", device="cpu", store=tmp_path / "alone",
        overrides=(*SMALL, "pool.snapshot_every=128", "run.total_steps=512"),
    )  # fmt: skip
    on("a", monkeypatch, tmp_path)
    here, there = Store.open(ADDRESS), Store.open(alone.store)
    assert here.find_run("it").steps == 512
    assert [row.agent_id for row in here.snapshots("it")] == [row.agent_id for row in there.snapshots("it")]
    assert here.matches("it", "training") == there.matches("it", "training")
    assert league.evaluate("it", "bot:random", games=4, store=ADDRESS)
    on("c", monkeypatch, tmp_path)
    assert len(Store.open(ADDRESS).query("SELECT * FROM evaluation_game WHERE run <> 'it'")[1]) == 4


def test_one_machine_writes_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: Any) -> None:
    on("a", monkeypatch, tmp_path)
    train("it", "run.total_steps=256")
    mine = store_folder(ADDRESS)
    with locks.alone("it", mine / "it"):
        on("b", monkeypatch, tmp_path)
        with pytest.raises(UsageError, match=r"another process on .* trains it"):
            league.resume("it", steps=512, store=ADDRESS)
        with pytest.raises(UsageError, match="is already in"):
            train("it", "run.total_steps=256")
    assert not [path for path in away.find("/bucket") if path.endswith("lock")]
    league.resume("it", steps=512, store=ADDRESS)


@pytest.mark.slow
def test_a_writer_that_lost_its_lock_sends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: Any) -> None:
    on("a", monkeypatch, tmp_path)
    train("it", "run.total_steps=256")
    store = Store.open(ADDRESS)
    with pytest.raises(locks.LockLost, match="taken over"), locks.alone("it", store.path / "it"):
        away.pipe_file("/bucket/league/it/lock", b"lock-00000000-00000000-00000000@other\n" + b"0" * 64)
        before = away.cat_file("/bucket/league/it/status.json")
        (store.path / "it" / "status.json").write_text("{}")
        store.push()
    assert away.cat_file("/bucket/league/it/status.json") == before
    on("b", monkeypatch, tmp_path)
    with pytest.raises(UsageError, match=r"another process on other trains it.*--take-over"):
        league.resume("it", steps=512, store=ADDRESS)
    assert league.resume("it", steps=512, store=ADDRESS, take_over=True).steps == 512


@pytest.mark.parametrize("call", ["pipe_file", "cat_file"])
@pytest.mark.slow
def test_what_was_not_sent_is_sent_the_next_time(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: Any
) -> None:
    on("a", monkeypatch, tmp_path)
    train("it", "run.total_steps=256")
    file = tmp_path / "games.jsonl"
    file.write_text(MATCHES)
    usual = getattr(type(away), call)

    def refuse(fs: Any, path: str, *given: Any, **more: Any) -> Any:
        if path.endswith("lock") == (call == "cat_file"):
            raise RuntimeError("no route\nto host")
        return usual(fs, path, *given, **more)

    with monkeypatch.context() as broken:
        broken.setattr(type(away), call, refuse)
        with pytest.raises(StoreError, match=r"memory://bucket/league: cannot be reached \(no route\); see to the net"):
            league.resume("it", steps=512, store=ADDRESS)
        if call == "pipe_file":
            import_matches(file, store=ADDRESS)
    machine = store_folder(ADDRESS).parent.parent
    on("b", monkeypatch, tmp_path)
    before = Store.open(ADDRESS)
    assert before.find_run("it").steps == 256 and not before.imports()
    monkeypatch.setenv("XDG_CACHE_HOME", str(machine))
    remote.remote_of(store_folder(ADDRESS)).fetch()
    on("b", monkeypatch, tmp_path)
    after = Store.open(ADDRESS)
    after.fetch()
    assert after.find_run("it").steps == 512 and len(after.imports()) == (call == "pipe_file")
    assert not [path for path in away.find("/bucket") if path.endswith("lock")]


def test_what_a_dead_machine_did_not_send_never_replaces_what_came_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It lost its network in the middle of a run, another machine took over and finished; then it comes back."""
    on("a", monkeypatch, tmp_path)
    train("it", "run.total_steps=256")
    send = type(away).pipe_file

    def refuse(fs: Any, path: str, value: bytes, **more: Any) -> None:
        if not path.endswith("lock"):
            raise RuntimeError("no route")
        send(fs, path, value, **more)

    with monkeypatch.context() as broken:
        broken.setattr(type(away), "pipe_file", refuse)
        with pytest.raises(StoreError, match="no route"):
            league.resume("it", steps=384, store=ADDRESS)
    on("b", monkeypatch, tmp_path)
    Store.open(ADDRESS)
    league.resume("it", steps=640, store=ADDRESS, take_over=True)
    there = {path: away.cat_file(path) for path in away.find("/bucket/league")}
    on("a", monkeypatch, tmp_path)
    store = Store.open(ADDRESS)
    assert store.find_run("it").steps == 640 and "another machine took it over" in caplog.text
    assert {path: away.cat_file(path) for path in away.find("/bucket/league")} == there
    (aside,) = store.path.glob(".it-*")
    assert json.loads((aside / "status.json").read_text())["steps"] == 384
    assert league.resume("it", steps=768, store=ADDRESS).steps == 768


def test_processes_of_one_machine_share_its_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: Any) -> None:
    """Another one that fetches and sends leaves the lock and the record of the one that trains."""
    on("a", monkeypatch, tmp_path)
    train("it", "run.total_steps=256")
    folder = store_folder(ADDRESS)
    with locks.alone("it", folder / "it"):
        other = remote.Remote(folder)
        other.fetch()
        other.push()
        assert away.exists("/bucket/league/it/lock")
        assert json.loads((folder / REMOTE).read_bytes())["unsent"] == ["it"]
    assert not away.exists("/bucket/league/it/lock")


def test_a_list_that_is_written_while_others_are_read_comes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: Any, caplog: pytest.LogCaptureFixture
) -> None:
    on("a", monkeypatch, tmp_path)
    train("it", "run.total_steps=256")
    path, found = "/bucket/league/it/segments.json", Bucket.read
    listing = away.cat_file(path)
    away.rm_file(path)

    def read(bucket: Bucket, paths: Any) -> Any:
        away.pipe_file(path, listing)
        return found(bucket, paths)

    on("b", monkeypatch, tmp_path)
    monkeypatch.setattr(Bucket, "read", read)
    assert Store.open(ADDRESS).matches("it", "training") and not caplog.messages


def test_a_record_in_another_folder_names_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger's folder of a store may say where to send what is written into it."""
    on("a", monkeypatch, tmp_path)
    train("it", "run.total_steps=256")
    copy = shutil.copytree(store_folder(ADDRESS), tmp_path / "copy")
    assert (copy / REMOTE).exists() and remote.remote_of(copy) is None


def test_what_goes_goes_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: Any) -> None:
    on("a", monkeypatch, tmp_path)
    train("it", "run.total_steps=1280")
    (tmp_path / "games.jsonl").write_text(MATCHES)
    import_matches(tmp_path / "games.jsonl", store=ADDRESS)
    on("b", monkeypatch, tmp_path)
    store = Store.open(ADDRESS)
    (imported,) = store.imports()
    store.remove_import(imported.run)
    assert all(row.has_files for row in holdings(store, "it"))
    (pruned,) = prune(store, "it", keep=1)
    assert pruned.goes
    on("a", monkeypatch, tmp_path)
    here = Store.open(ADDRESS)
    assert here.imports() == [] and not (here.path / imported.run).exists()
    assert {row.step for row in here.snapshots("it") if row.pruned_at} == {row.step for row in pruned.goes}
    weights = {Path(path).parent.name for path in away.find("/bucket/league/it/snapshots")}
    assert weights == {f"{row.step:010}" for row in pruned.stays}


def test_addresses_that_cannot_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    on("a", monkeypatch, tmp_path)
    for address, why in (
        ("nosuch://b/x", "nosuch"),
        ("memory://", "names no bucket"),
        ("file:///x", "pass the folder"),
        (ADDRESS, f"no store at {ADDRESS}: no folder in it"),
    ):
        with pytest.raises(LeagueError, match=why):
            Store.open(address)
    monkeypatch.setattr(type(fsspec.filesystem("memory")), "pipe_file", lambda self, path, value, **_: None)
    with pytest.raises(LeagueError, match="cannot keep two writers apart"):
        train("it", "run.total_steps=256")


@pytest.mark.slow
def test_s3(tmp_path: Path) -> None:
    """Two machines train into one bucket; a third reads it, and asks one to stop."""
    with bucket() as keys:

        def on_machine(name: str, *words: str) -> subprocess.Popen[str]:
            command = [sys.executable, "-m", "league", *words, "--store", f"{BUCKET}/league"]
            env = {**os.environ, **keys, "XDG_CACHE_HOME": str(tmp_path / name)}
            return subprocess.Popen(command, env=env, cwd=tmp_path, text=True, stdout=-1, stderr=-1)

        def trains(name: str, steps: int) -> subprocess.Popen[str]:
            sets = as_options((*SMALL, "run.checkpoint_minutes=0.005", f"run.total_steps={steps}"))
            return on_machine(name, "train", "--stage", "smoke", "--env", "matrix", "--run", name, "--quiet", *sets)

        short, long = trains("a", 512), trains("b", 10_000_000)
        assert short.wait(120) == 0, short.stderr and short.stderr.read()
        for _ in range(60):
            shown = on_machine("c", "runs", "--json")
            runs = {run["run"]: run for run in json.loads(shown.communicate()[0])["runs"]}
            if runs.keys() == {"a", "b"} and runs["b"]["steps"]:
                break
        stopped = on_machine("c", "stop", "b")
        assert stopped.wait(60) == 0
        assert long.wait(60) == 0, long.stderr and long.stderr.read()
        shown = on_machine("c", "runs", "--json")
        runs = {run["run"]: run for run in json.loads(shown.communicate()[0])["runs"]}
        assert (runs["a"]["status"], runs["b"]["status"]) == ("finished", "stopped")
        again = on_machine("c", "resume", "b", "--steps", str(runs["b"]["steps"] + 128), "--quiet")
        assert again.wait(120) == 0, again.stderr and again.stderr.read()
