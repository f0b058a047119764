"""A learner whose node does not see the store, with the courier in this process in place of an actor."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import league
from league.sessions import artifacts
from league.sessions.call import Call
from league.sessions.callbacks import Callbacks
from league.sessions.cluster import LearnerActor, _send_guests
from league.sessions.courier import Courier
from league.sessions.folders import ask_to_stop
from league.sessions.leagues import written
from league.store.carried import STOP
from league.store.locks import LOCK, alone, holder, is_held
from league.store.store import Store
from tests.sessions.test_leagues import LEAGUE, SETS, train, write

ray = pytest.importorskip("ray")
ALONE = LEAGUE.partition("[learners.exploiter]")[0]
RUN, NAMES, TOLD = "L.main", ["L", "L.main"], {"courier": "c", "nonce": "n"}


class Calls:
    """An actor's handle, which calls each method at once; after `most` changes its node has died."""

    def __init__(self, courier: Courier, most: float = float("inf"), see: Callable[[str], None] = id) -> None:
        self._courier, self.left, self._see = courier, most, see

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            if name in ("pipe_file", "rm_file"):
                self.left -= 1
                self._see(arguments[0])
            if self.left < 0:
                raise ray.exceptions.RayError("the node died")
            return getattr(self._courier, name)(*arguments, **more)

        return SimpleNamespace(remote=call)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "get", lambda found: found)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A league of one learner, which a process trained that sees the store."""
    folder = tmp_path_factory.mktemp("whole")
    assert train(folder, path=write(folder, ALONE))[0].status == "finished"
    return folder


def begin(store: Path, *overrides: str) -> Path:
    """The store of the same league, in which nobody has trained."""
    store.mkdir(exist_ok=True)
    call = Call(league=write(store, ALONE), env="matrix", run="L", seed=3, device="cpu", store=store)
    written(replace(call, overrides=(*SETS, *overrides)), Callbacks(()))
    return store


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    return begin(tmp_path)


def courier_of(store: Path) -> Courier:
    return Courier(os.getcwd(), str(store), NAMES)


def learned(store: Path) -> Any:
    found = Store.open(store)
    rows = [(r.step, r.update, r.agent_id, r.parent, r.is_historical) for r in found.snapshots(RUN)]
    return rows, [[asdict(match) for match in found.matches(RUN, kind)] for kind in ("training", "evaluation")]


def carry_on(store: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a learner's actor answers; the store's path leads nowhere for it."""
    monkeypatch.setattr(ray, "get_actor", lambda _: calls)
    words = {"device": "cpu", "overrides": [], "store": str(store / "unseen")}
    answer: dict[str, Any] = json.loads(LearnerActor(os.getcwd(), {}).train(RUN, "", words, TOLD))
    return answer


@pytest.mark.slow
def test_a_node_that_dies_while_it_sends_loses_and_doubles_nothing(
    whole: Path, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After ever more files; who goes on has what the store has, and comes to what nobody disturbed."""
    most, answer = 0, dict[str, Any]()
    while "result" not in answer:
        courier = courier_of(begun)
        answer = carry_on(begun, Calls(courier, most), monkeypatch)
        courier.close()
        assert "result" in answer or "cannot be reached (the node died)" in answer["error"]
        most += 7
    assert most > 35 and answer["result"]["status"] == "finished"
    assert learned(begun) == learned(whole)
    for part in ("", "state"):
        assert len([*(begun / RUN / part).iterdir()]) == len([*(whole / RUN / part).iterdir()]), "nothing is left over"


@pytest.mark.slow
def test_the_couriers_locks_are_the_folders(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An actor that begins again ends that of its earlier try; another process's remains."""
    courier, lock = courier_of(begun), f"/{RUN}/{LOCK}"
    courier.pipe_file(lock, b"lock@its_node\ncopy", mode="create")
    assert is_held(begun / RUN / LOCK) and courier.cat_file(lock) == b"lock@its_node\ncopy"
    assert holder(begun / RUN / LOCK) == "its_node", "`league runs` shows where it trains"
    assert [lock in courier.find(root, detail=True) for root in ("", f"/{RUN}", "/L")] == [True, True, False]
    with pytest.raises(FileExistsError):
        courier.pipe_file(lock, b"new", mode="create")
    assert carry_on(begun, Calls(courier), monkeypatch)["result"]["status"] == "finished"
    assert not is_held(begun / RUN / LOCK)
    with alone(RUN, begun / RUN), pytest.raises(FileExistsError):
        courier.pipe_file(lock, b"new", mode="create")
    guest = f"/{RUN}/guests/a/manifest.json"
    courier.pipe_file(guest, b"{}")
    assert courier.cat_file(guest) == b"{}"
    courier.rm_file(guest)
    assert not (begun / RUN / "guests" / "a").exists()


@pytest.mark.parametrize("path", ["../L/run.json", "/etc/passwd", "a/../../b", ".hidden", "a//b", "", f"{LOCK}-"])
def test_files_that_are_no_runs_are_neither_read_nor_written(path: str, begun: Path) -> None:
    courier = courier_of(begun)
    courier.pipe_file(f"/{RUN}/{LOCK}", b"", mode="create")
    if path == f"{LOCK}-":
        [path] = [file.name for file in (begun / RUN).glob(f"{LOCK}-*")]
    for act in (courier.cat_file, courier.rm_file, lambda path: courier.pipe_file(path, b"")):
        with pytest.raises(ValueError, match="is no file of a run"):
            act(f"/{RUN}/{path}")
        with pytest.raises(ValueError, match="is not of this league"):
            act("/other/run.json")
    with pytest.raises(ValueError, match="is not of this league"):
        courier.pipe_file(f"/other/{LOCK}", b"", mode="create")
    courier.close()


def test_agents_from_elsewhere_are_found_where_the_store_is(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The learner's node has no such folder."""
    elsewhere = shutil.copytree(whole / RUN / "snapshots" / f"{896:010d}", tmp_path / "elsewhere")
    store = begin(tmp_path / "store", f'pool.mix={{self_play=0.5, "agent:{elsewhere}"=0.5}}')
    _send_guests(Store.open(store), TOLD, [(RUN, "")])
    shutil.rmtree(elsewhere)
    assert carry_on(store, Calls(courier_of(store)), monkeypatch)["result"]["status"] == "finished"
    [guest] = (store / RUN / "guests").iterdir()
    assert any(guest.name in match["agents"] for match in learned(store)[1][0])


@pytest.mark.slow
def test_league_stop_is_heard_and_what_it_stopped_goes_on_in_the_store(
    whole: Path, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saved; the end is trained where the store is seen."""
    monkeypatch.setattr(artifacts, "FETCH_SECONDS", 0.0)

    def and_stop(path: str) -> None:
        if path.startswith(f"/{RUN}/snapshots/{384:010d}"):
            ask_to_stop(Store.open(begun), RUN)

    result = carry_on(begun, Calls(courier_of(begun), see=and_stop), monkeypatch)["result"]
    assert (result["status"], result["steps"] < 896) == ("stopped", True)
    assert (begun / RUN / STOP).exists()
    row = Store.open(begun).find_run(RUN)
    assert (row.status, row.steps) == ("stopped", result["steps"])
    assert league.resume("L", store=begun / "league.duckdb", callback=()).status == "finished"
    assert learned(begun) == learned(whole)
