"""A run moves between machines: what differs there is said, and its matches in play go on where they can."""

import copy
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import league
from league.play.moving import Taken
from league.snapshots.state import load_state, save_state
from league.store.store import Store
from tests.helpers.cases import cases
from tests.helpers.rollouts import make_collector, same
from tests.helpers.runs import Notes, learned, stages, train

GPU_BYTES, CPU_BYTES = 16, 5_056
"""Of a torch generator's state."""
SPANNING = ("env.rounds=7", "agent.opponent_encoder=true")
"""Matches that lie across updates, between nets with a memory."""
import json

from league.envs import registry
from league.envs.classic.matrix import MatrixBatch, Options
from league.play import rollout as rollout_module
from tests.helpers.runs import status
from tests.helpers.sizes import SMALL_AGENT


@pytest.fixture(autouse=True)
def _stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The source with two tiny stages, of which `long` carries on `short`."""
    with stages(tmp_path_factory.mktemp("source")):
        yield


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was stopped after its update 3; nobody may change it."""
    folder = tmp_path_factory.mktemp("stopped")
    with stages(folder):
        train(folder, "long", *SPANNING, notes=Notes(3))
    return folder


@pytest.fixture(scope="module")
def gone_on(stopped: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of that run once it went on to its update 5; nobody may change it."""
    folder = shutil.copytree(stopped, tmp_path_factory.mktemp("gone_on") / "run")
    resume(folder)
    return folder


def change_state(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Writes a run's newest state as `change` leaves it."""
    state = load_state(folder / "matrix-1" / "state")
    change(state)
    save_state(folder / "matrix-1" / "state", state)


def events(folder: Path, kind: str) -> list[str]:
    """The messages of a kind of event."""
    return [event.message for event in Store.open(folder / "league.duckdb").events() if event.kind == kind]


def resume(folder: Path, **more: Any) -> tuple[Any, list[str]]:
    """Carries the run on to its update 5, or to its end from there; its result and what was said."""
    notes = Notes(5)
    return league.resume("matrix-1", store=folder / "league.duckdb", callback=notes, **more), notes.said


def across(folder: Path, update: int) -> set[tuple[int, int]]:
    """Row and seed of the matches that began before `update` was over and ended after it."""
    matches = Store.open(folder / "league.duckdb").matches("matrix-1", "training")
    return {(m.row, m.seed) for m in matches if m.update > update and (m.update_begin or 0) < update}


def from_a_gpu(state: dict[str, Any]) -> None:
    """Makes of a CPU's state what a GPU would have saved under bf16."""
    state["collector"]["generator"] = torch.arange(GPU_BYTES, dtype=torch.uint8)
    state["generators"]["cuda"] = [torch.zeros(GPU_BYTES, dtype=torch.uint8)]
    state["setting"] |= {"device": "cuda", "nets": "graphs", "products": "TF32"}
    for lane in state["collector"]["lanes"]:
        for memory in (lane["state"], lane["opponent_state"]):
            memory["keys"], memory["values"] = memory["keys"].bfloat16(), memory["values"].bfloat16()


def of_a_longer_generator(state: dict[str, Any]) -> None:
    """Gives the state generators of more bytes than a CPU's, as another kind of device may have."""
    state["collector"]["generator"] = torch.zeros(CPU_BYTES + 16, dtype=torch.uint8)
    state["generators"]["torch"] = torch.zeros(CPU_BYTES + 16, dtype=torch.uint8)


def with_lanes(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has `auto` decide for so many lanes, as it would on another device."""
    monkeypatch.setattr(rollout_module, "num_lanes", lambda config, device: number)


class Bare(MatrixBatch):
    """A game that cannot regroup its matches, and for `is_refusing` cannot read its own states either."""

    regroup: Any = None
    is_refusing = False

    def set_state(self, state: bytes) -> None:
        """As the game has it."""
        if self.is_refusing:
            raise ValueError("the state is not of this version")
        super().set_state(state)


@pytest.mark.parametrize("change", cases(from_a_gpu, slow=[of_a_longer_generator]))
def test_a_state_of_another_device_goes_on_with_its_matches(
    change: Any, stopped: Path, gone_on: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(stopped, tmp_path / "moved")
    change_state(folder, change)
    done, said = resume(folder)
    (line,) = [line for line in said if "goes on otherwise" in line]
    assert events(folder, "moved") == [line] and done.updates == 5
    assert "the actions' generator has another kind of state here" in line and "all 8 matches in play go on" in line
    for words in ("device cuda -> cpu", "steps of the nets graphs -> plain", "matrix products TF32 -> "):
        assert (words in line) == (change is from_a_gpu)
    assert ("global generators of torch" in line) == (change is of_a_longer_generator)
    assert across(folder, 3) == across(gone_on, 3) and len(across(folder, 3)) == 8, "the matches are the same ones"
    probes = events(folder, "probe")
    assert len(probes) == 1 and "draws other actions" in probes[0]


def test_a_moved_run_is_seeded_by_seed_and_update(stopped: Path, gone_on: Path, tmp_path: Path) -> None:
    found = []
    for name in ("a", "b"):
        folder = shutil.copytree(stopped, tmp_path / name)
        change_state(folder, from_a_gpu)
        resume(folder)
        found.append(learned(folder, "matrix-1"))
    assert found[0] == found[1] != learned(gone_on, "matrix-1")


def flat(value: Any) -> list[Any]:
    """The leaves of a tree, arrays as bytes."""
    if isinstance(value, dict | list):
        items = value.values() if isinstance(value, dict) else value
        return [leaf for item in items for leaf in flat(item)]
    return [value.numpy().tobytes() if isinstance(value, torch.Tensor) else getattr(value, "tolist", lambda: value)()]


@pytest.mark.parametrize("game", cases("brawl", "matrix", slow=["kuhn", "leduc"]))
def test_regrouping_there_and_back_changes_nothing(game: str) -> None:
    first = make_collector(game, lanes=2)
    first.collect(25, 1)
    state, pool = copy.deepcopy(first.state_dict()), first.pool.state_dict()
    narrow, back = make_collector(game, seed=5), make_collector(game, seed=6, lanes=2)
    for collector, given in ((narrow, state), (back, None)):
        collector.policy.load_state_dict(first.policy.state_dict())
        collector.pool.load_state_dict(pool)
        taken = collector.load_state_dict(copy.deepcopy(given or narrow.state_dict()), 7)
        assert taken == Taken(12, 0, is_reseeded=False, is_regrouped=True)
    seen = np.concatenate([lane.batch.obs for lane in first.lanes])
    assert np.array_equal(narrow.lanes[0].batch.obs, seen), "the rows see what they saw"
    again = back.state_dict()
    for lane in (*state["lanes"], *again["lanes"]):
        for name, x in lane["opponent_state"].items():
            lane["opponent_state"][name] = x[:, :-1] if name in ("keys", "values") else x[:-1]  # the spare row
    assert flat({**again, "nets": None}) == flat({**state, "nets": None})
    assert same(back.collect(30, 2), first.collect(30, 2))


@pytest.mark.slow
@pytest.mark.parametrize("lanes", cases(1, slow=[2]))
def test_matches_go_on_in_other_lanes(lanes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `overlap=auto` decides is no part of the fingerprint: another decision is said, and all matches go on."""
    with_lanes(lanes, monkeypatch)
    train(tmp_path / "moved", "long", *SPANNING, notes=Notes(3))
    shutil.copytree(tmp_path / "moved", tmp_path / "whole")
    before = Store.open(tmp_path / "moved" / "league.duckdb").find_run("matrix-1").fingerprint
    resume(tmp_path / "whole")
    with_lanes(3 - lanes, monkeypatch)
    done, said = resume(tmp_path / "moved")
    (line,) = [line for line in said if "goes on otherwise" in line]
    assert f"lanes {lanes} -> {3 - lanes}; all 8 matches in play go on" in line
    assert events(tmp_path / "moved", "moved") == [line] and done.updates == 5
    assert across(tmp_path / "moved", 3) == across(tmp_path / "whole", 3) != set()
    assert Store.open(tmp_path / "moved" / "league.duckdb").find_run("matrix-1").fingerprint == before
    assert load_state(tmp_path / "moved" / "matrix-1" / "state")["setting"]["lanes"] == 3 - lanes


@pytest.mark.slow
def test_matches_that_cannot_be_regrouped_are_lost_aloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A game that cannot regroup, one that refuses its state, and other rows: the number of matches lost is said."""
    monkeypatch.setattr(registry, "make", lambda name, *, rows, options, **more: Bare(rows, Options(**options)))
    with_lanes(2, monkeypatch)
    train(tmp_path, "long", *SPANNING, notes=Notes(3))
    said: list[str] = []
    for stop, sets in ((5, ()), (7, ()), (None, ("env.rows=4",))):
        with_lanes(1, monkeypatch)
        monkeypatch.setattr(Bare, "is_refusing", stop == 7)
        notes = Notes(stop)
        league.resume("matrix-1", store=tmp_path / "league.duckdb", overrides=sets, callback=notes)
        said += [line for line in notes.said if "8 matches in play are lost, since they cannot" in line]
    assert len(said) == 3 and events(tmp_path, "moved") == said
    assert status(tmp_path, "matrix-1")[0] == "finished"


@pytest.mark.slow
def test_auto_keeps_the_sizes_of_the_device_that_a_run_began_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A longer stage on a wider machine carries the run on with its own rows, aloud; --fresh and --set do not."""
    store, sets = tmp_path / "league.duckdb", [*SMALL_AGENT, "learner.rollout_steps=2"]
    call = {"env": "matrix", "preset": "auto", "device": "cpu", "overrides": sets, "store": store}
    league.train("short", **call)
    before = Store.open(store).find_run("matrix-1")
    monkeypatch.setattr(registry, "num_cores", lambda: 32)
    notes = Notes(1)
    assert league.train("long", **{**call, "overrides": [*sets, "env.rows=32"]}, callback=notes).run == "matrix-2"
    assert "differs in" in notes.said[0]
    notes = Notes(1)
    assert league.train("long", **call, fresh=True, callback=notes).run == "matrix-3"
    notes = Notes()
    done = league.train("long", **call, callback=notes)
    assert (done.run, done.status) == ("matrix-1", "finished")
    assert notes.said[0] == "carrying on matrix-1 (short, same fingerprint and seed) from step 640"
    (line,) = [line for line in notes.said if "keeps the sizes" in line]
    assert "(64 rows, " in line and "would have 256 rows, " in line and events(tmp_path, "resumed") == [line]
    after, rows = Store.open(store).find_run("matrix-1"), json.loads(Store.open(store).find_run("matrix-3").config)
    assert after.fingerprint == before.fingerprint and json.loads(after.config)["env"]["rows"] == 64
    assert rows["env"]["rows"] == 256
