"""A learner whose node does not see the store, with the courier in this process in place of an actor."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import league
from league.errors import StoreError
from league.sessions import artifacts
from league.sessions.call import Call
from league.sessions.callbacks import Callbacks
from league.sessions.cluster import LearnerActor
from league.sessions.folders import ask_to_stop
from league.sessions.leagues import written
from league.sessions.mirror import Courier, Mirror
from league.store.carried import STOP
from league.store.locks import LOCK, is_held
from league.store.store import Store
from tests.sessions.test_leagues import LEAGUE, SETS, train, write

ray = pytest.importorskip("ray")
ALONE = LEAGUE.partition("[learners.exploiter]")[0]
ANOTHER = '[learners.other]\nrole = "league_exploiter"\n'
RUN, NAMES = "L.main", ["L", "L.main"]


class Calls:
    """An actor's handle, whose methods are carried out at once; after so many files it is lost, as its node is."""

    def __init__(self, courier: Courier, most: float = float("inf")) -> None:
        self._courier, self.left = courier, most

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            self.left -= name in ("write", "remove")
            if self.left < 0:
                raise ray.exceptions.RayError("the node died")
            return getattr(self._courier, name)(*arguments)

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
    answer: dict[str, Any] = json.loads(LearnerActor(os.getcwd()).train(RUN, "", words, {"courier": "c", "nonce": "n"}))
    return answer


def test_a_node_that_dies_while_it_sends_loses_and_doubles_nothing(
    whole: Path, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After ever more files; whoever goes on has what the store has, and comes to what nobody disturbed."""
    most, answer = 0, dict[str, Any]()
    while "result" not in answer:
        courier = courier_of(begun)
        answer = carry_on(begun, Calls(courier, most), monkeypatch)
        courier.close()
        assert "result" in answer or "the store cannot be reached (the node died)" in answer["error"]
        most += 7
    assert most > 35 and answer["result"]["status"] == "finished"
    assert learned(begun) == learned(whole)
    for part in ("", "state"):
        assert len([*(begun / RUN / part).iterdir()]) == len([*(whole / RUN / part).iterdir()]), "nothing is left over"


def test_the_courier_holds_the_lock_and_hears_the_last_actor_alone(begun: Path) -> None:
    """Until the learner trains where the store is seen."""
    courier = courier_of(begun)
    assert courier.hand_over(RUN, "old") == courier.hand_over(RUN, "new") == ""
    assert is_held(begun / RUN / LOCK)
    assert "another actor trains it" in courier.write(RUN, "old", "rows/match-000009.parquet", b"x")
    assert "another actor trains it" in courier.remove(RUN, "old", ["run.json"])
    guest = "guests/a/manifest.json"
    assert courier.write(RUN, "new", guest, b"{}") == "" and (begun / RUN / guest).read_bytes() == b"{}"
    assert courier.remove(RUN, "new", [guest]) == "" and not (begun / RUN / guest).parent.exists()
    courier.hand_over(RUN, "")
    assert not is_held(begun / RUN / LOCK)
    assert "another actor trains it" in courier.write(RUN, "", "status.json", b"{}")


@pytest.mark.parametrize("path", ["../L/run.json", "/etc/passwd", "a/../../b", ".hidden", "a//b", "", STOP, f"{LOCK}-"])
def test_files_that_are_no_runs_are_neither_read_nor_written(path: str, begun: Path) -> None:
    courier = courier_of(begun)
    courier.hand_over(RUN, "t")
    if path == f"{LOCK}-":
        [path] = [file.name for file in (begun / RUN).glob(f"{LOCK}-*")]
    for act in (lambda: courier.read(RUN, path), lambda: courier.write(RUN, "t", path, b"")):
        with pytest.raises(ValueError, match="is no file of a run"):
            act()
    with pytest.raises(ValueError, match="is not of this league"):
        courier.read("other", "run.json")
    courier.close()


def test_a_mirror_has_what_the_others_published_and_who_asks_to_stop(tmp_path: Path) -> None:
    """Their snapshots, and how far they are; neither their rows nor their states."""
    begun, folder = tmp_path / "store", tmp_path / "node"
    begun.mkdir()
    train(begun, "run.total_steps=256", path=write(begun, ALONE + ANOTHER), learner="main")
    courier = Courier(os.getcwd(), str(begun), [*NAMES, "L.other"])
    mirror = Mirror(folder, "L.other", Calls(courier))
    there = Store.open(begun)
    assert [row.run for row in mirror.learners("L")] == ["L.main", "L.other"]
    assert mirror.snapshots(RUN) == there.snapshots(RUN) and mirror.find_run(RUN) == there.find_run(RUN)
    files = {path.relative_to(begun).as_posix() for path in (begun / RUN / "snapshots").rglob("*")}
    assert files == {path.relative_to(folder).as_posix() for path in (folder / RUN / "snapshots").rglob("*")}
    assert not [*folder.rglob("*.parquet")]
    assert {path.suffix for path in (folder / RUN / "state").iterdir()} == {".json"}
    assert not (folder / "L.other" / STOP).exists()
    (begun / "L.other" / STOP).touch()
    mirror.fetch()
    assert (folder / "L.other" / STOP).exists()
    courier.hand_over("L.other", "next")
    (folder / "L.other" / "status.json").write_text("{}")
    with pytest.raises(StoreError, match="another actor trains it now"):
        mirror.push()
    courier.close()


def test_agents_from_elsewhere_are_found_where_the_store_is(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The learner's node has no such folder."""
    elsewhere = shutil.copytree(whole / RUN / "snapshots" / f"{896:010d}", tmp_path / "elsewhere")
    store = begin(tmp_path / "store", f'pool.mix={{self_play=0.5, "agent:{elsewhere}"=0.5}}')
    courier = courier_of(store)
    hand_over = courier.hand_over

    def and_hide(run: str, token: str) -> str:
        wrong = hand_over(run, token)
        shutil.rmtree(elsewhere, ignore_errors=True)
        return wrong

    monkeypatch.setattr(courier, "hand_over", and_hide)
    assert carry_on(store, Calls(courier), monkeypatch)["result"]["status"] == "finished"
    courier.close()
    [guest] = (store / RUN / "guests").iterdir()
    assert any(guest.name in match["agents"] for match in learned(store)[1][0])


def test_league_stop_is_heard_and_what_it_stopped_goes_on_in_the_store(
    whole: Path, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saved; the end is trained where the store is seen."""
    monkeypatch.setattr(artifacts, "FETCH_SECONDS", 0.0)
    courier = courier_of(begun)
    write_one = courier.write

    def and_stop(run: str, token: str, path: str, data: bytes) -> str:
        if path.startswith(f"snapshots/{384:010d}"):
            ask_to_stop(Store.open(begun), RUN)
        return write_one(run, token, path, data)

    monkeypatch.setattr(courier, "write", and_stop)
    result = carry_on(begun, Calls(courier), monkeypatch)["result"]
    assert (result["status"], result["steps"] < 896) == ("stopped", True)
    courier.close()
    row = Store.open(begun).find_run(RUN)
    assert (row.status, row.steps) == ("stopped", result["steps"])
    assert league.resume("L", store=begun / "league.duckdb", callback=()).status == "finished"
    assert learned(begun) == learned(whole)
