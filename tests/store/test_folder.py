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
from league.store import owner
from league.store.folder import Folder
from league.store.owner import Listing
from league.store.segments import Segment
from league.store.store import Store
from tests.helpers.cases import cases
from tests.helpers.stores import Filled, empty_store, make_match, make_run, make_snapshot


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


@pytest.mark.parametrize("refused", ["segment", "listing"])
def test_a_write_is_whole_or_not_at_all(
    store: Filled, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, refused: str
) -> None:
    """Where the disk refuses a file nothing of the write counts or stays, all waits on, and the next tries are later
    and later, each told in a line; with room all is there once."""
    folder, clock = store.folder("a"), [time.monotonic()]
    folder.add_matches([make_match()])
    folder.flush(force=True)
    before = listed(folder.path)
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

        if refused == "segment":
            patch.setattr(folders, "write_segment", refuse)
        else:
            patch.setattr(owner, "write_atomic", refuse_all)
        with pytest.raises(StoreError, match=r"no room|No space left"):
            folder.flush(force=True)
        clock[0] += 100
        tries = []
        for _ in range(200):
            told = len(caplog.messages)
            assert not folder.flush()
            tries += [clock[0]] * (len(caplog.messages) - told)
            clock[0] += 1
    assert caplog.messages[0].startswith("a: rows wait to be written, tried again in 3 s: ")
    assert "\n" not in "".join(caplog.messages)
    assert [round(later - sooner) for sooner, later in itertools.pairwise(tries)] == [3, 6, 12, 24, 48, 60]
    assert listed(folder.path) == before and ordinals(store) == [0]
    folder.flush(force=True)
    assert ordinals(store) == [0, 1] and len(store.events("a")) == 1


# How segments become few, and states bring theirs back


def test_segments_of_another_process_are_placed(store: Filled, tmp_path: Path) -> None:
    """A rank's matches come as the segments that it wrote, twice; its own folder keeps none of them."""
    folder, other = store.folder("a"), Folder(tmp_path / "of-rank-1", print)
    other.path.mkdir()
    folder.add_matches([make_match()])
    for first in (1, 4):
        other.add_matches([make_match(ordinal=ordinal) for ordinal in range(first, first + 3)])
        for segment, data in other.taken():
            folder.place(segment, data)
        assert not files(other.path) and not other.num_waiting
    assert folder.flush(force=True) and ordinals(store) == [*range(7)]
    assert {segment.rows for segment in listed(folder.path).segments["match"]} == {1, 3}
    folder.prepare()
    folder.commit()
    assert ordinals(store) == [*range(7)] and folder.damaged(listed(folder.path).model_dump(mode="json")) == []


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


def test_a_folder_whose_segments_are_gone_takes_rows(store: Filled) -> None:
    """As one whose `rows` was not copied: new segments have numbers above those that are listed."""
    folder = store.folder("a")
    folder.add_matches([make_match()])
    folder.close()
    lost = listed(folder.path).names
    for name in lost:
        (folder.path / "rows" / name).unlink()
    again = Folder(folder.path, print)
    again.add_matches([make_match(ordinal=1)])
    assert again.flush(force=True) and listed(folder.path).names > lost and ordinals(store) == [1]


def test_a_folder_whose_name_begins_with_a_tilde_is_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB would take `~` at the beginning of a path for the home."""
    monkeypatch.chdir(tmp_path)
    store = empty_store(Path("~nobody"))
    store.begin_run(make_run(status="running"))
    store.folder("a").add_matches([make_match()])
    store.folder("a").close()
    assert ordinals(Store.open(Path("~nobody"))) == [0]
