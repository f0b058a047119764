"""Locks: one process writes a folder, on one machine or on several."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from league.errors import StoreError, UsageError
from league.store import locks
from league.store.locks import LOCK, LockHeld, LockLost, alone, check_owned, held, holder, is_held, is_lock, take_over
from tests.helpers.stores import python


@pytest.fixture
def become(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes this process one of another machine."""

    def machine(name: str) -> None:
        monkeypatch.setattr("league.store.locks.platform.node", lambda: name)
        monkeypatch.setattr(locks, "_BOOT", name)

    return machine


def files(folder: Path) -> list[str]:
    """What lies in a folder."""
    return sorted(path.name for path in folder.iterdir())


def died(folder: Path) -> None:
    """Leaves the lock of a process that was killed."""
    if not (child := os.fork()):
        with held(folder / LOCK):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_lock_tells_who_holds_it(tmp_path: Path) -> None:
    """Held, let go, killed; looking does not keep anybody from locking."""
    path = tmp_path / LOCK
    assert is_held(path) is False and is_held(tmp_path / "none" / LOCK) is None
    with held(path):
        [name] = files(tmp_path)
        assert holder(path) == locks.this_host() == name.partition("@")[2]
        assert is_held(path) is True and is_lock(tmp_path / name) and not is_lock(tmp_path / "lock")
        with pytest.raises(LockHeld), held(path, wait=0):
            pass
    assert is_held(path) is False and holder(path) == "" and files(tmp_path) == []
    died(tmp_path)
    [left] = files(tmp_path)
    assert is_held(path) is False
    with held(path):
        assert files(tmp_path) != [left], "what the dead left goes"
    looker = (
        "import sys; from league.store.locks import *; from pathlib import Path\nwhile True: is_held(Path(sys.argv[1]))"
    )
    with python(looker, path):
        for _ in range(300):
            with held(path, wait=0):
                pass


@contextmanager
def owner(folder: Path) -> Iterator[Callable[[], int]]:
    """Another process holds the folder's lock; once called, it tries to write and ends: 7 if it has lost the lock."""
    reader, writer = os.pipe()
    if not (child := os.fork()):
        with held(folder / LOCK):
            os.read(reader, 1)
            try:
                check_owned(folder)
            except LockLost:
                os._exit(7)
        os._exit(0)

    def tried() -> int:
        os.write(writer, b".")
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    while not is_held(folder / LOCK):
        time.sleep(0.01)
    yield tried
    os.close(reader)
    os.close(writer)


def test_a_live_machines_lock_is_not_taken_over(
    tmp_path: Path, become: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "SILENT_SECONDS", 2.0)
    monkeypatch.setattr(locks, "BEAT_SECONDS", 0.1)
    become("first")
    with owner(tmp_path) as tried:
        take_over(tmp_path / LOCK, lambda line: pytest.fail(line))  # of this machine: nothing to do
        become("second")
        with pytest.raises(UsageError, match="first is alive"):
            take_over(tmp_path / LOCK, lambda line: None)
        assert tried() == 0 and files(tmp_path) == []


def test_a_silent_machine_may_be_dead(
    tmp_path: Path, become: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    boot = locks._BOOT
    died(tmp_path)
    become("second")
    assert is_held(tmp_path / LOCK) is True, "until a minute has gone"
    os.utime(tmp_path / files(tmp_path)[0], (time.time() - 61, time.time() - 61))
    assert is_held(tmp_path / LOCK) is None
    monkeypatch.setattr(locks, "_BOOT", boot)
    assert is_held(tmp_path / LOCK) is False, "a container of that machine"


def test_a_lost_lock_is_a_line(tmp_path: Path) -> None:
    """Who was taken for dead writes nothing more, and says of which folder, why, and where to look."""
    with held(tmp_path / LOCK):
        check_owned(tmp_path)
        for name in files(tmp_path):
            (tmp_path / name).unlink()
        with pytest.raises(LockLost) as caught:
            check_owned(tmp_path)
    line = str(caught.value)
    assert line.startswith(f"{tmp_path}: its lock was taken over or removed") and "\n" not in line
    assert f"`league runs --store {tmp_path.parent}`" in line and caught.value.exit_code == 1


def test_one_at_a_time(tmp_path: Path) -> None:
    """Six processes, some killed in the middle: never two within, and none stays out."""
    within, path = tmp_path / "within", tmp_path / LOCK

    def work(seed: int) -> int:
        dice = random.Random(seed)
        for _ in range(60):
            with held(path, wait=30):
                os.close(os.open(within, os.O_CREAT | os.O_EXCL))  # fails if another is within
                time.sleep(dice.random() / 1000)
                within.unlink()
                if dice.random() < 0.02:
                    os.kill(os.getpid(), signal.SIGKILL)
        return 0

    children = []
    for seed in range(6):
        if not (child := os.fork()):
            code = 1
            try:
                code = work(seed)
            finally:
                os._exit(code)
        children.append(child)
    codes = {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children}
    assert codes == {0, -signal.SIGKILL} and is_held(path) is False


OTHER = "lock-00000000-00000000-00000000@other"


@pytest.mark.parametrize("name", ["lock", "lock-1", ".lock-00000000-00000000-00000000@other", "x" + OTHER])
def test_what_is_no_lock(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    with held(tmp_path / LOCK, wait=0):
        assert len(files(tmp_path)) == 2
    assert files(tmp_path) == [name]


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: os.symlink(path, path)])
def test_a_lock_of_another_kind(
    tmp_path: Path, make: Callable[[Path], None], become: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps nobody waiting, and is of the machine that its name says."""
    monkeypatch.setattr(locks, "SILENT_SECONDS", 0.1)
    make(tmp_path / OTHER)
    with pytest.raises(LockHeld, match="on other"), held(tmp_path / LOCK, wait=0):
        pass
    with suppress(StoreError):
        take_over(tmp_path / LOCK, lambda line: None)


@pytest.mark.parametrize("name", ["state", "rows", "snapshots", "snapshots/0000000032"])
def test_a_folder_that_leads_elsewhere_is_not_written(name: str, tmp_path: Path) -> None:
    """A run from somebody else may have links; what lies behind them may be another run's."""
    (tmp_path / "mine").mkdir()
    link = tmp_path / "it" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "mine")
    with (
        pytest.raises(StoreError, match=rf"it/{name}: is a link, .* put there what it leads to"),
        alone("it", tmp_path / "it"),
    ):
        pass
    link.unlink()
    with alone("it", tmp_path / "it"):
        pass


def test_no_folder_and_no_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match="No such file or directory"), held(tmp_path / "none" / LOCK):
        pass

    def refuse(*names: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreError, match=r"No space left on device.; make room"), held(tmp_path / LOCK):
        pass
    assert files(tmp_path) == []
