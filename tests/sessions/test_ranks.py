"""Runs of several ranks: the same games with any number, the same bits when resumed, no match lost or doubled."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import league
from league import config as settings
from league.errors import ConfigError, GuardError, LeagueError, UsageError
from league.runtime import launch
from league.runtime.ranks import Ranks
from league.runtime.trees import from_bytes, to_bytes
from league.sessions.call import Call
from league.sessions.following import check_division, check_ranks
from league.snapshots.state import load_state
from league.store.store import Store
from league.training.learner import Learner
from league.training.run import Counters
from league.training.together import Together
from tests.helpers import runs
from tests.helpers.ranks import started, together
from tests.helpers.rollouts import make_collector
from tests.helpers.runs import SETS, learned, stages
from tests.helpers.runs import Notes as Heard
from tests.helpers.states import flat

LENGTH = ("run.total_steps=768", "run.evaluate_every=384", "run.allow_short=true", "learner.precision=highest")
WORDS: dict[str, Any] = {"stage": "smoke", "env": "matrix", "device": "cpu", "overrides": (*SETS, *LENGTH)}


def train(rank: int, folder: str, name: str, at: int | None = None, **more: Any) -> None:
    """A tiny run, which rank 0 stops at an update where that is wanted."""
    notes = Heard(at if rank == 0 else None)
    result = league.train(**{**WORDS, **more}, run=name, store=folder, callback=notes)  # type: ignore[arg-type]
    _keep(rank, folder, name, notes, result)


def resume(rank: int, folder: str, name: str, at: int | None = None) -> None:
    """It goes on to its end, or to an update."""
    notes = Heard(at if rank == 0 else None)
    result = league.resume(name, device="cpu", store=folder, callback=notes)
    _keep(rank, folder, name, notes, result)


def _keep(rank: int, folder: str, name: str, notes: Heard, result: Any) -> None:
    text = json.dumps({"said": notes.said, "steps": result.steps, "newest": result.newest, "status": result.status})
    Path(folder).with_name(f"{name}-{rank}.json").write_text(text)


def told(folder: Path, name: str, rank: int = 0) -> Any:
    """What a rank was told, and its result."""
    return json.loads(folder.with_name(f"{name}-{rank}.json").read_text())


def state(folder: Path, name: str) -> dict[str, Any]:
    """All that a run goes on from, without what says who it is, where its rows are and how fast it went."""
    found = load_state(folder / name / "state")
    return flat({key: found[key] for key in found if key not in ("id", "rows", "probe")})


def games(folder: Path, name: str) -> list[dict[str, Any]]:
    """A run's training matches, whose opponents among the snapshots have numbers instead of hashes."""
    store = Store.open(folder)
    numbers = {row.agent_id: f"{row.step}" for row in store.snapshots(name)} | {name: "me"}
    found = [asdict(match) for match in store.matches(name, "training")]
    keys = {(match["update"], match["row"], match["ordinal"]) for match in found}
    assert len(keys) == len(found) > 30, "a match is there twice"
    return [{**match, "run": "", "agents": [numbers.get(x, x) for x in match["agents"]]} for match in found]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the same run by one rank, by two, by two that were stopped on the way, and by a process alone."""
    base = tmp_path_factory.mktemp("ranks")
    store = base / "store"
    together(base / "meet-1", 1, train, str(store), "one")
    together(base / "meet-2", 2, train, str(store), "two")
    together(base / "meet-3", 2, train, str(store), "halves", 3)
    together(base / "meet-4", 2, resume, str(store), "halves")
    return store


def test_two_ranks_play_the_games_of_one(finished: Path) -> None:
    """The same matches in the same rows, each once in the store; and rank 1 returns what rank 0 does."""
    assert games(finished, "one") == games(finished, "two")
    assert told(finished, "two") | {"said": []} == told(finished, "two", 1)
    assert {match["row"] for match in games(finished, "two")} == set(range(8))


def test_a_resumed_run_is_the_same_bit_for_bit(finished: Path) -> None:
    """Weights, moments, generators and matches of all ranks."""
    assert told(finished, "halves")["status"] == "finished" and learned(finished, "halves") == learned(finished, "two")
    assert any("bit for bit, the one that was saved" in line for line in told(finished, "halves")["said"])
    one, other = (
        {key.replace(name, "me"): x.replace(name, "me") if isinstance(x, str) else x for key, x in found.items()}
        for name, found in ((name, state(finished, name)) for name in ("two", "halves"))
    )
    timed = {key for key in one if "seconds" in key}
    assert {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)} <= timed


@pytest.mark.slow
def test_another_number_of_ranks_goes_on_with_the_same_games(finished: Path, tmp_path: Path) -> None:
    """Two ranks, then one, then four: events say so, and the matches in play go on."""
    store = tmp_path / "store"
    together(tmp_path / "meet-1", 2, train, str(store), "run", 3)
    together(tmp_path / "meet-2", 1, resume, str(store), "run", 6)
    together(tmp_path / "meet-3", 4, resume, str(store), "run")
    events = [event.message for event in Store.open(store).events("run") if event.kind == "moved"]
    assert [words in event for words, event in zip(("2 -> 1", "1 -> 4"), events, strict=True)] == [True, True]
    assert all("all 8 matches in play go on" in event for event in events)
    assert games(store, "run") == games(finished, "one")


def carry_on(rank: int, folder: str, at: int | None) -> None:
    """The longer stage of the newest finished short run."""
    notes = Heard(at if rank == 0 else None)
    with stages(Path(folder).parent / f"of-{rank}"):
        runs.train(Path(folder), "long", notes=notes)


def test_ranks_carry_on_what_a_process_alone_finished_and_back(tmp_path: Path) -> None:
    """Each change is an event; no match is lost."""
    store = tmp_path / "store"
    for rank in range(2):
        (tmp_path / f"of-{rank}").mkdir()
    with stages(tmp_path):
        runs.train(store, "short")
    together(tmp_path / "meet", 2, carry_on, str(store), 8)
    [run] = Store.open(store).runs()
    assert (run.status, run.steps, run.update, run.stage) == ("stopped", 1024, 8, "long")
    resume(0, str(store), run.run)
    events = [event.message for event in Store.open(store).events(run.run) if event.kind == "moved"]
    assert [words in event for words, event in zip(("none -> 2", "2 -> none"), events, strict=True)] == [True, True]
    assert all("all 8 matches in play go on" in event for event in events)
    assert {match["update"] for match in games(store, run.run)} >= set(range(2, 10))


def train_for_long(rank: int, folder: str) -> None:
    """Rank 0 writes when it has begun, and how it ended."""

    class Begun(Heard):
        def report(self, report: Any) -> None:
            if report.update == 2:
                Path(folder).with_name("begun").touch()

    overrides = (*WORDS["overrides"], "run.total_steps=1_000_000", "run.evaluate_every=0")
    try:
        league.train(**{**WORDS, "overrides": overrides}, run="run", store=folder, callback=Begun())
    except LeagueError as error:
        Path(folder).with_name(f"error-{rank}").write_text(str(error))


def test_a_rank_that_dies_ends_the_run_saved(tmp_path: Path) -> None:
    """Within 30 s, in a line; it goes on from its last whole update."""
    store, ranks = tmp_path / "store", started(tmp_path / "meet", 2, train_for_long, str(tmp_path / "store"))
    deadline = time.monotonic() + 60
    while not (tmp_path / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    ranks[1].kill()
    assert ranks[0].wait(30) == 0
    told = (tmp_path / "error-0").read_text()
    assert re.match(
        r"run=run: stopped after step \d[\d,]*: lost another rank \(.*\); saved; go on with `league res", told
    )
    row, kept = Store.open(store).find_run("run"), load_state(store / "run" / "state")
    halves = [(match.update, match.row >= 4) for match in Store.open(store).matches("run", "training")]
    assert {(update, half) for update, half in halves if update > 1} == {
        (update, half) for update in range(2, row.update + 1) for half in (False, True)
    }, "rank 0 writes what no segment had, and nothing of an update that was not made"
    assert row.status == "failed" and kept["counters"]["steps"] == row.steps > 0 and kept["collector"] is None
    resume(0, str(store), "run", row.update + 2)
    assert Store.open(store).find_run("run").update == row.update + 2
    updates = {match.update for match in Store.open(store).matches("run", "training")}
    assert updates >= {row.update + 1, row.update + 2}


def train_to_a_finding(rank: int, folder: str) -> None:
    """The third update fails on rank 0."""
    made, update = [], Learner.update

    def failing(self: Learner, rollout: Any) -> Any:
        made.append(update(self, rollout))
        if len(made) == 3 and rank == 0:
            raise GuardError("a finding", "nonfinite")
        return made[-1]

    Learner.update = failing  # type: ignore[method-assign]  # in a process of its own
    train_for_long(rank, folder)


def test_matches_of_an_update_that_failed_do_not_count(tmp_path: Path) -> None:
    """Those of the other rank are nowhere; the run makes that update again when it goes on."""
    for process in started(tmp_path / "meet", 2, train_to_a_finding, str(tmp_path / "store")):
        process.wait(60)
    store = Store.open(tmp_path / "store")
    assert store.find_run("run").update == 2
    halves = {(match.update, match.row >= 4) for match in store.matches("run", "training")}
    assert (2, True) in halves and (3, True) not in halves


class Liar(Ranks):
    """Rank 0, whose other rank has other weights."""

    def gather_bytes(self, data: bytes) -> list[bytes]:
        """Its own, and those of the other."""
        return [data, to_bytes({**from_bytes(data), "digest": "another"})]


def test_ranks_whose_weights_part_are_told(tmp_path: Path) -> None:
    """At a save, which is not made."""
    collector = make_collector("matrix", rows=4)
    learner = Learner(collector.policy, settings.load().learner, np.random.default_rng(0), torch.device("cpu"))
    run: Any = SimpleNamespace(device=torch.device("cpu"), name="run", counters=Counters(steps=1_024), rows=None)
    with pytest.raises(LeagueError, match="run=run: at step 1,024 the weights of rank 1 are not those of rank 0"):
        Together(Liar(0, 2), run, collector.pool).gather_state(learner, collector)  # type: ignore[arg-type]


def refused(rank: int, folder: str, words: dict[str, Any], of_rank_1: dict[str, Any]) -> None:
    """Writes the error of a call."""
    try:
        league.train(**{**WORDS, **words, **(of_rank_1 if rank else {})}, store=folder)  # type: ignore[arg-type]
    except LeagueError as error:
        Path(folder).with_name(f"error-{rank}").write_text(f"{type(error).__name__} {error}")


def test_ranks_that_disagree_are_refused(tmp_path: Path) -> None:
    """Both say so, and nothing is written."""
    other = {"overrides": (*SETS, *LENGTH, "learner.clip=0.3")}
    together(tmp_path / "meet", 2, refused, str(tmp_path / "store"), {}, other)
    for rank in range(2):
        told = (tmp_path / f"error-{rank}").read_text()
        assert told.startswith("UsageError rank 1 has not the settings of rank 0; start all ranks with the same")
    assert not [*(tmp_path / "store").glob("*/run.json")]


def sizes(*more: str) -> Any:
    """Settings with these."""
    return settings.load(overrides=("env.rows=24", "learner.minibatch_size=192", *more))


@pytest.mark.parametrize(
    ("size", "more", "said"),
    [
        (5, (), "env.rows=24 does not divide by 5 ranks; set env.rows=25, or pass --ranks 4"),
        (
            4,
            (),
            "rows of a minibatch=6 (learner.minibatch_size=192) does not divide by 4 ranks; set learner.minibatch_size",
        ),
        (2, ("env.workers=3",), "env.workers=3 does not divide by 2 ranks; set env.workers=4, or pass --ranks 1"),
        (
            4,
            ("learner.minibatch_size={0=384, 100=96}",),
            "rows of a minibatch=3 (learner.minibatch_size=96) does not divide",
        ),
    ],
)
def test_sizes_that_do_not_divide_are_refused(size: int, more: tuple[str, ...], said: str) -> None:
    """With a number that does, at any step of the run."""
    with pytest.raises(ConfigError, match=re.escape(said)):
        check_division(sizes(*more), size)
    check_division(sizes(), 2)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE=2 is set without RANK and MASTER_ADDR and MASTER_PORT; start the ranks by"),
        ({"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "x"}, "is set without MASTER_PORT"),
        ({"WORLD_SIZE": "2", "RANK": "2", launch.FOLDER: "x"}, "RANK=2: there are WORLD_SIZE=2 ranks"),
        ({"WORLD_SIZE": "9" * 20, "RANK": "0", launch.FOLDER: "x"}, ": from 1 to 65,536"),
        ({"WORLD_SIZE": "0", "RANK": "0", launch.FOLDER: "x"}, "WORLD_SIZE=0: from 1 to 65,536"),
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "x", "MASTER_PORT": "65536"}, "MASTER_PORT='65536': a port"),
        (
            {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "no.invalid", "MASTER_PORT": "1"},
            "MASTER_ADDR='no.invalid': no machine of that name",
        ),
        ({"WORLD_SIZE": "two", "RANK": "0", launch.FOLDER: "x"}, "WORLD_SIZE='two': a whole number is needed"),
    ],
)
def test_half_an_environment_is_refused(told: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything starts, with what is missing."""
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=re.escape(said)):
        league.train(store="nowhere")


@pytest.mark.parametrize("more", [{"league": "small"}, {"against": "bot:random", "env": "matrix"}])
def test_leagues_and_exploiters_are_refused(
    more: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One process trains them."""
    for name, value in {"WORLD_SIZE": "1", "RANK": "0", launch.FOLDER: str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="1 ranks train one run; leave --ranks out"):
        league.train(store=tmp_path / "store", **more)  # type: ignore[arg-type]
    with (
        pytest.raises(UsageError, match="Trainer=True: 1 ranks train one run"),
        league.Trainer(store=tmp_path / "store"),
    ):
        pass


def test_ranks_cannot_be_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--ranks` under torchrun says the same number or nothing."""
    for name, value in {"WORLD_SIZE": "2", "RANK": "0", launch.FOLDER: "x"}.items():
        monkeypatch.setenv(name, value)
    with launch.launched(2):
        assert not launch.is_follower()
    with pytest.raises(UsageError, match="--ranks 3: there are WORLD_SIZE=2 ranks already"), launch.launched(3):
        pass
    monkeypatch.delenv("WORLD_SIZE")
    with pytest.raises(UsageError, match="--ranks 0: at least 1"), launch.launched(0):
        pass
    with pytest.raises(UsageError, match="--ranks 99999: at most 4 for each core"), launch.launched(99999):
        pass


@pytest.mark.slow
def test_a_rank_that_waits_says_so_and_hears_a_signal(tmp_path: Path) -> None:
    """torch itself waits in silence, for days, and takes no signal."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    starts = "from league.runtime import ranks; ranks.NOTICE_SECONDS = 0.1; from league import cli; cli.main()"
    words = ["train", "--env", "matrix", "--stage", "smoke", "--store", str(tmp_path / "s"), "--device", "cpu"]
    how: dict[str, Any] = {"env": {**os.environ, **told}, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", starts, *words], **how) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        process.terminate()
        rest = process.communicate(timeout=60)[1]
    assert line == f"rank 0 waits for the others of 2 at 127.0.0.1:{port}; start them, or end this one by Ctrl+C\n"
    assert process.returncode == 143 and "Traceback" not in rest and not (tmp_path / "s").exists()


def test_fewer_gpus_than_ranks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the number that there are."""
    for name, value in {"WORLD_SIZE": "2", "RANK": "0", launch.FOLDER: "x"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ConfigError, match="2 ranks on this machine need a GPU each, and it has 1; pass --ranks 1"):
        check_ranks(Call(ranks=Ranks(0, 2)), sizes(), torch.device("cuda"))
