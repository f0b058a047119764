"""An owner's rows: when they are written, how segments become few, and how a saved state brings its own back."""

from __future__ import annotations

import errno
import itertools
import json
import math
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from league.errors import StoreError
from league.store import folder as folders
from league.store.folder import Folder
from league.store.segments import Listing, Segment
from league.store.store import Store
from tests.helpers.cases import cases
from tests.helpers.stores import Filled, empty_store, make_match, make_run, make_snapshot, python


@pytest.fixture
def store(tmp_path: Path) -> Filled:
    """A store with a run."""
    store = empty_store(tmp_path / "runs")
    store.begin_run(make_run(status="running"))
    return store


def listed(path: Path) -> Listing:
    """What counts of the rows in a folder."""
    return Listing.model_validate_json((path / "segments.json").read_text())


def names(covered: dict[str, object]) -> set[str]:
    """Of the segments that a state covers."""
    return Listing.model_validate_json(json.dumps(covered)).names


def files(path: Path) -> set[str]:
    """All files of rows in a folder."""
    return set(os.listdir(path / "rows"))


def ordinals(store: Store) -> list[int]:
    """Of the training matches of run a."""
    return [match.ordinal for match in store.matches("a", "training")]


# When rows are written


def test_flush_waits_three_seconds_unless_it_must(store: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writes that can be put off are at least FLUSH_SECONDS apart; one that is forced or wanted is not held up."""
    clock, folder = [100.0], store.folder("a")
    monkeypatch.setattr(folders.time, "monotonic", lambda: clock[0])
    folder.add_matches([make_match()])
    assert folder.flush() and folder.flush(), "nothing waits"
    folder.add_matches([make_match(ordinal=1)])
    clock[0] += folders.FLUSH_SECONDS - 0.1
    assert not folder.flush() and ordinals(store) == [0]
    clock[0] += 0.2
    assert folder.flush() and ordinals(store) == [0, 1]
    for ordinal, how in ((2, {"force": True}), (3, {"is_wanted": True})):
        folder.add_matches([make_match(ordinal=ordinal)])
        assert folder.flush(**how) and folder.num_waiting == 0
    assert ordinals(store) == [0, 1, 2, 3]


def test_a_change_of_status_is_written_at_once(store: Filled) -> None:
    """Steps can wait for the next write; a run's end cannot."""
    folder = store.folder("a")
    folder.note(status="running", steps=5)
    assert store.find_run("a").steps == 0
    folder.note(status="stopped")
    assert (store.find_run("a").steps, store.find_run("a").status) == (5, "stopped")


@pytest.mark.parametrize("refused", ["segment", "listing"])
def test_a_write_is_whole_or_not_at_all(
    store: Filled, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, refused: str
) -> None:
    """Where the disk refuses a file nothing of the write counts or stays, all waits on, and the next tries are later
    and later, each told in a line; with room all is there once."""
    folder, clock = store.folder("a"), [time.monotonic()]
    folder.add_matches([make_match()])
    folder.flush(force=True)
    before = files(folder.path), listed(folder.path)
    folder.add_matches([make_match(ordinal=1)])
    folder.add_event(1, "note", "x")
    with monkeypatch.context() as patch:
        patch.setattr(folders.time, "monotonic", lambda: clock[0])
        real = folders.write_segment

        def refuse(folder: Path, kind: str, *more: Any) -> Segment:
            if kind != "event":
                return real(folder, kind, *more)
            raise StoreError("no room")

        def refuse_all(*given: object, **more: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr(folders, f"write_{refused}", refuse if refused == "segment" else refuse_all)
        with pytest.raises(StoreError, match=r"no room|No space left"):
            folder.flush(force=True)
        clock[0] += 100
        tries = []
        for _ in range(200):
            told = len(caplog.messages)
            assert not folder.flush()
            tries += [clock[0]] * (len(caplog.messages) - told)
            clock[0] += 1
    assert caplog.messages[0].startswith("2 rows wait in memory, tried again in 3 s: ")
    assert "\n" not in "".join(caplog.messages)
    assert [round(later - sooner) for sooner, later in itertools.pairwise(tries)] == [3, 6, 12, 24, 48, 60]
    assert (files(folder.path), listed(folder.path)) == before and ordinals(store) == [0] and folder.num_waiting == 2
    folder.flush(force=True)
    assert ordinals(store) == [0, 1] and len(store.events("a")) == 1


FULL = """
import resource, signal, sys
from pathlib import Path
from league.store.folder import Folder
from tests.helpers.stores import make_match
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
said = []
folder = Folder(Path(sys.argv[1]), said.append)
resource.setrlimit(resource.RLIMIT_FSIZE, (9000, resource.RLIM_INFINITY))
folder.add_matches(make_match(ordinal=i, metrics={"x": (i * 0.1, i * 0.3)}) for i in range(30000))
assert not folder.flush() and folder.num_waiting == 30000 and len(said) == 1
try:
    folder.flush(force=True)
except Exception as error:
    print(type(error).__name__, str(error).count(chr(10)))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
folder.flush(force=True)
"""


def test_a_full_disk_loses_nothing(store: Filled) -> None:
    """A write that does not fit is told or raised in one line, and is made whole once there is room."""
    with python(FULL, store.path / "a") as process:
        assert process.stdout is not None
        assert process.communicate(timeout=60)[0].splitlines() == ["StoreError 0"]
    assert ordinals(store) == list(range(30000)) and files(store.path / "a") == listed(store.path / "a").names


WRITE = """
import sys
from pathlib import Path
from league.store.folder import Folder
from tests.helpers.stores import make_match
folder, update = Folder(Path(sys.argv[1]), print), int(sys.argv[2])
while True:
    folder.add_matches(make_match(update=update, ordinal=i) for i in range(50))
    folder.add_metrics(update, update, {"loss": 1.0})
    folder.flush(force=True)
    if update % 3 == 0:
        folder.prepare()
        folder.commit()
    print(update, flush=True)
    update += 1
"""


@pytest.mark.parametrize("kills", cases(2, slow=[12]))
def test_a_killed_writer_loses_nothing_that_it_had_written(store: Filled, kills: int) -> None:
    """After kill -9 at random moments every acknowledged write is there, and every write is whole."""
    rng, last = random.Random(1), 0
    for _ in range(kills):
        with python(WRITE, store.path / "a", last + 1) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(rng.uniform(0.1, 0.5))
            process.kill()
            said = process.stdout.read().split()
        last = int(said[-1]) if said else last + 1
        rows = dict(store.query('SELECT "update", count(*) FROM match GROUP BY ALL')[1])
        metrics = {row[0] for row in store.query('SELECT "update" FROM metric')[1]}
        assert set(rows) == metrics and set(rows.values()) == {50}
        assert set(range(1, last + 1)) <= set(rows)
        last = max(rows)


# How segments become few, and states bring theirs back


@pytest.mark.parametrize("seed", cases(0, slow=range(1, 6)))
def test_states_have_few_segments_and_bring_back_their_rows(
    store: Filled, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes, states, returns to the newest state, the one before and a kept one, by chance: the rows are those of a
    list that is put back, in their order, the files as many as the logarithm of the rows, and no other stays."""
    monkeypatch.setattr(folders, "READ_SECONDS", -1.0)
    rng, number = random.Random(seed), itertools.count()
    folder, reader = store.folder("a"), Store.open(store.path, pytest.fail)
    rows: list[int] = []
    states: list[tuple[dict[str, object], list[int]]] = []
    kept: tuple[dict[str, object], list[int]] | None = None
    for _ in range(80):
        for _ in range(rng.randrange(1, 4)):
            new = [next(number) for _ in range(rng.choice([1, 3, 40]))]
            folder.add_matches(make_match(ordinal=i) for i in new)
            folder.flush(force=True)
            rows = rows + new
        chance = rng.random()
        if chance < 0.6:
            covered = folder.prepare()
            kept = (covered, rows) if kept is None and len(rows) > 300 else kept
            folder.commit([] if kept is None else names(kept[0]))
            states = [*states, (covered, rows)][-2:]
            assert len(listed(folder.path).segments["match"]) <= 2 + math.log2(len(rows))
        elif chance < 0.8 and states:
            back = states[-1] if kept is None else rng.choice([*states, kept])
            folder, forgotten = Folder(folder.path, pytest.fail), len(rows) - len(back[1])
            assert folder.restore(back[0], 0) == forgotten
            rows, states = back[1], [back]
        assert ordinals(reader) == rows
    assert kept is not None and len(rows) > 300
    for _ in range(2):
        folder.prepare()
        folder.commit(names(kept[0]))
    assert files(folder.path) == listed(folder.path).names | names(kept[0])


def test_a_state_brings_back_what_was_listed_and_keeps_events_before_it(store: Filled) -> None:
    """Snapshots, matches, metrics and ratings go back; events of its updates, what waits, and agents are of now."""
    folder = store.folder("a")
    folder.add_snapshot(make_snapshot())
    folder.add_metrics(1, 1, {"loss": 1.0})
    folder.add_event(1, "note", "saved")
    withheld = make_snapshot(step=200)
    covered = json.loads(json.dumps(folder.prepare([withheld])))
    assert len(store.snapshots("a")) == 1, "it is seen once the state that has it is saved"
    folder.commit()
    before = store.snapshots("a"), store.metrics("a")
    assert len(before[0]) == 2
    folder.add_snapshot(make_snapshot(step=300))
    folder.add_metrics(2, 2, {"loss": 2.0})
    folder.add_matches([make_match(update=2)])
    for update, text in ((1, "after the state"), (2, "later")):
        folder.add_event(update, "note", text)
    folder.flush(force=True)
    folder.add_event(3, "note", "waits")
    assert folder.restore(covered, 1) == 1
    folder.flush(force=True)
    assert (store.snapshots("a"), store.metrics("a")) == before and not ordinals(store)
    assert [event.message for event in store.events("a")] == ["saved", "after the state", "waits"]
    assert folder.restore(None, -1) == 0 and not store.snapshots("a") and not store.events("a")


def test_what_a_state_cannot_get_back_is_told(store: Filled) -> None:
    """A list of rows that is none is one line, and each of its files that is damaged or missing is named with rows."""
    folder = store.folder("a")
    for update in (1, 2):
        folder.add_matches(make_match(update=update, ordinal=i) for i in range(4 // update))
        folder.prepare()
        folder.commit()
    covered = folder.prepare()
    with pytest.raises(StoreError, match="the saved state's list of rows is damaged") as caught:
        folder.restore({**covered, "segments": [1]}, 1)
    assert "\n" not in str(caught.value) and ordinals(store) == [0, 1, 2, 3, 0, 1]
    assert folder.damaged(covered) == []
    first, second = (folder.path / "rows" / segment["name"] for segment in covered["segments"]["match"])
    first.write_bytes(second.read_bytes())
    second.unlink()
    assert folder.damaged(covered) == [
        (f"{first}: damaged, or another file (its sha256 differs)", 4),
        (f"{second}: No such file or directory", 2),
    ]


def test_who_reads_has_a_minute(store: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that were merged stay for those whose reading began before, through any number of states."""
    folder, clock = store.folder("a"), [time.monotonic()]
    monkeypatch.setattr(folders.time, "monotonic", lambda: clock[0])
    for i in range(4):
        folder.add_matches([make_match(ordinal=i)])
        folder.flush(force=True)
    with store.reading():
        assert store.runs()
        for i in range(4, 8):
            folder.add_matches([make_match(ordinal=i)])
            folder.prepare()
            folder.commit()
        assert ordinals(store) == [0, 1, 2, 3]
    clock[0] += folders.READ_SECONDS + 1
    folder.prepare()
    folder.commit()
    assert ordinals(store) == list(range(8)) and files(folder.path) == listed(folder.path).names


def test_a_close_leaves_one_segment_of_each_kind(store: Filled) -> None:
    """What was written in many parts is one file for the next reader, and nothing else is named."""
    folder = store.folder("a")
    for i in range(5):
        folder.add_matches([make_match(ordinal=i)])
        folder.add_event(1, "note", str(i))
        folder.flush(force=True)
    folder.add_matches([make_match(ordinal=5)])
    folder.close()
    assert {kind: len(found) for kind, found in listed(folder.path).segments.items()} == {"match": 1, "event": 1}
    assert ordinals(store) == list(range(6)) and len(store.events("a")) == 5
