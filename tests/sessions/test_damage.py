"""What happens when something breaks: a run goes on bit for bit, or says what is lost; nothing is deleted for it."""

from __future__ import annotations

import ctypes
import json
import os
import random
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import league
from league import config as config_module
from league.envs import registry
from league.envs.classic.matrix import MatrixBatch
from league.errors import ConfigError, LeagueError, SnapshotError
from league.play.rollout import Collector
from league.policies.actor_critic import ActorCritic
from league.sessions import disk, settling
from league.snapshots.files import INDEX, PREVIOUS, WEIGHTS
from league.snapshots.state import load_state, save_state
from league.store import rows as records
from league.store import store as store_module
from league.store.owner import LISTING, Listing
from league.store.segments import ROWS
from league.store.store import Store
from league.training import probe as probe_module
from league.training import recent, saving, training
from tests.helpers import processes
from tests.helpers.cases import cases
from tests.helpers.runs import SETS, Notes, learned, stages, status, train
from tests.helpers.sizes import SMALL_ROLLOUT, as_options
from tests.helpers.stores import empty_store, make_gate, make_run, make_snapshot

ALWAYS = "run.checkpoint_minutes=0.0000001"
"""A checkpoint at every update: by the clock, not by the steps."""
METRICS = "SELECT * EXCLUDE (run) FROM metric WHERE name NOT LIKE '%seconds%' ORDER BY ALL"


@pytest.fixture(autouse=True)
def _stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The source with two tiny stages, of which `long` carries on `short`."""
    with stages(tmp_path_factory.mktemp("source")):
        yield


def resume(folder: Path, run: str = "matrix-1", notes: Notes | None = None, **more: Any) -> tuple[Any, list[str]]:
    """Carries a run of `folder` on; its result and what was said."""
    notes = notes or Notes()
    return league.resume(run, store=folder, callback=notes, **more), notes.said


def everything(folder: Path, run: str = "matrix-1") -> tuple[Any, ...]:
    """All that learning left: snapshots (their ids are hashes of weights), matches, and each update's measurements."""
    return (*learned(folder, run), Store.open(folder).query(METRICS)[1])


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    """Everything that the long stage of the tiny agent leaves when nothing interrupts it."""
    folder = tmp_path_factory.mktemp("unbroken")
    with stages(folder):
        train(folder, "long")
    return everything(folder)


def flip(path: Path, place: int = -1) -> None:
    """One bit of the byte at `place` changed."""
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def events(folder: Path) -> list[tuple[str, str]]:
    """Kind and message of every event."""
    return Store.open(folder).query('SELECT kind, message FROM event ORDER BY "update"')[1]


# 2N updates are N, a stop, a resume, and N


class Noisy(MatrixBatch):
    """A game written elsewhere, which draws from the global generators of Python, NumPy and torch."""

    def step(self) -> None:
        """One round, with noise in the rewards."""
        super().step()
        noise = random.random() + np.random.rand() + float(torch.rand(()))
        self.reward_terms[:, :, 0] += np.float32(noise)


CASES: dict[str, tuple[str, ...]] = {
    "plain": (),
    "lanes": ("learner.overlap=true",),
    "stacked bf16": ("learner.precision=bf16",),
    "stacked bf16 lanes": ("learner.precision=bf16", "learner.overlap=true"),
    "pfsp": ("pool.sampler=pfsp_var", "pool.live_nets=2"),
    "quality": ("pool.sampler=quality", "pool.live_nets=2"),
    "global generators": (),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_stops_at_any_update_change_nothing(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped after 1, 4 and 9 of 10 updates and saved by the clock at each, a run is the one without a stop."""
    if case == "global generators":
        monkeypatch.setattr("league.sessions.settling.check_quickly", lambda *_: None)  # it refuses such games
        monkeypatch.setattr(registry, "make", lambda name, *, rows, options, **more: noisy(rows, options))
        quiet = ActorCritic.step

        def step(self: ActorCritic, *arguments: Any, **more: Any) -> Any:
            action, log_prob, value = quiet(self, *arguments, **more)
            return action, log_prob, value + torch.rand_like(value)

        monkeypatch.setattr(ActorCritic, "step", step)
    more = ("env.rounds=7", *CASES[case])
    for folder in ("whole", "parts"):
        (tmp_path / folder).mkdir()
    outside = random.getstate()
    train(tmp_path / "whole", "long", *more)
    expected = everything(tmp_path / "whole")
    assert len(expected[0]) == 10 and len(expected[1]) > 150 and len(expected[2]) > 100
    assert any(match["update_begin"] < match["update_end"] for match in expected[1]), "matches across updates"
    train(tmp_path / "parts", "long", ALWAYS, *more, notes=Notes(1))
    for stop in (4, 9, None):
        random.seed(stop)
        np.random.seed(stop)
        torch.manual_seed(stop or 0)
        _, said = resume(tmp_path / "parts", notes=Notes(stop))
        assert any("is, bit for bit, the one that was saved" in line for line in said), said
    assert everything(tmp_path / "parts") == expected
    random.setstate(outside)


def noisy(rows: int, options: Any) -> Noisy:
    """The noisy game with a game's options."""
    return Noisy(rows, registry._resolve("matrix", options))


@pytest.mark.slow
def test_evaluation_draws_nothing_from_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a game that draws globally, a run that is evaluated on the way learns what one that is not does."""
    monkeypatch.setattr("league.sessions.settling.check_quickly", lambda *_: None)  # it refuses such games
    monkeypatch.setattr(registry, "make", lambda name, *, rows, options, **more: noisy(rows, options))
    for folder, every in (("often", 128), ("never", 0)):
        (tmp_path / folder).mkdir()
        train(tmp_path / folder, "long", f"run.evaluate_every={every}", run="me")
    assert learned(tmp_path / "often", "me") == learned(tmp_path / "never", "me")


# The health probe


def test_the_probe_is_the_step_that_is_played_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it foresees is, bit for bit, the first step of the next rollout, and asking changes nothing of that."""
    foreseen: list[dict[str, Any]] = []
    real = Collector.collect

    def collect(self: Collector, num_steps: int, update: int, num_segments: int) -> Any:
        foreseen.append(probe_module.foresee(self))
        rollout = real(self, num_steps, update, num_segments)
        for name in ("action", "log_prob", "value"):
            assert torch.equal(foreseen[-1][name], getattr(rollout, name)[0]), name
        return rollout

    for folder in ("asked", "not"):
        (tmp_path / folder).mkdir()
    train(tmp_path / "not", "short")
    monkeypatch.setattr(Collector, "collect", collect)
    train(tmp_path / "asked", "short")
    assert len(foreseen) == 5 and everything(tmp_path / "asked") == everything(tmp_path / "not")


@pytest.mark.slow
def test_the_probe_says_how_far_another_machine_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the first step is not the one that was saved, the sizes are said, and kept as an event; the run goes on."""
    train(tmp_path, "long", notes=Notes(3))
    real = probe_module.foresee

    def elsewhere(collector: Collector) -> dict[str, Any]:
        found = real(collector)
        return {**found, "value": found["value"] + 0.25, "on": "torch 9, cpu"}

    monkeypatch.setattr(probe_module, "foresee", elsewhere)
    result, said = resume(tmp_path)
    (line,) = [line for line in said if line.startswith("health probe")]
    assert "0 of 8 rows act otherwise, log-probabilities by up to 0, values by up to 0.25" in line
    assert "now on torch 9, cpu" in line and result.status == "finished"
    assert events(tmp_path) == [("probe", line)]


# States


@pytest.mark.parametrize(
    "damage", cases("data bit", slow=("data cut", "data gone", "index bit", "index empty", "index gone"))
)
@pytest.mark.slow
def test_a_damaged_state_falls_back_to_the_one_before(damage: str, unbroken: Any, tmp_path: Path) -> None:
    """The run goes on from the previous state, aloud, to the very same end; what was damaged is kept."""
    cut = tmp_path
    train(cut, "long", notes=Notes(3))
    resume(cut, notes=Notes(6))
    state = cut / "matrix-1" / "state"
    index = state / INDEX
    data = state / json.loads(index.read_text())["data"]
    content = data.read_bytes()
    {
        "data bit": lambda: flip(data),
        "data cut": lambda: data.write_bytes(content[: len(content) // 2]),
        "data gone": data.unlink,
        "index bit": lambda: flip(index, 200),
        "index empty": lambda: index.write_bytes(b""),
        "index gone": index.unlink,
    }[damage]()
    left = 3 if "gone" not in damage else 2
    assert len(list(state.iterdir())) == left + 1
    result, said = resume(cut, notes=Notes(4))
    assert result.updates == 4
    (line,) = [line for line in said if "going on from the state before it" in line]
    assert str(data if damage == "data gone" else index) in line
    assert events(cut)[0] == ("damage", line)
    bad = [path for path in state.iterdir() if ".bad-" in path.name]
    assert len(bad) == (1 if "gone" in damage else 2) and all(path.name in line for path in bad)
    if damage == "index empty":
        assert content in [path.read_bytes() for path in bad]
    resume(cut)
    assert everything(cut) == unbroken
    assert sorted(path for path in state.iterdir() if ".bad-" in path.name) == sorted(bad)


def test_after_a_fall_back_the_good_state_is_the_previous_one(tmp_path: Path) -> None:
    """A state that was found damaged never takes the place of a whole one."""
    for number in range(3):
        save_state(tmp_path, {"x": torch.tensor([number])})
    flip(tmp_path / json.loads((tmp_path / INDEX).read_text())["data"])
    assert load_state(tmp_path)["x"].item() == 1
    save_state(tmp_path, {"x": torch.tensor([3])})
    flip(tmp_path / json.loads((tmp_path / INDEX).read_text())["data"])
    assert load_state(tmp_path)["x"].item() == 1


@pytest.mark.parametrize("case", ["no handles", "no file", "newer"])
def test_a_state_that_cannot_be_read_now_is_not_damaged(case: str, tmp_path: Path) -> None:
    """It is refused in one line, and nothing is set aside: the older state takes nobody's place."""
    for number in range(2):
        save_state(tmp_path, {"x": torch.tensor([number])})
    index, limit = tmp_path / INDEX, resource.getrlimit(resource.RLIMIT_NOFILE)
    if case == "newer":
        index.write_text(json.dumps({**json.loads(index.read_text()), "format": 2}))
    elif case == "no file":
        index.unlink()
        index.mkdir()
    before = sorted(path.name for path in tmp_path.iterdir())
    try:
        if case == "no handles":
            lowest = os.dup(0)  # the next number that a file would have
            os.close(lowest)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limit[1]))
        with pytest.raises(SnapshotError, match="a newer league wrote it" if case == "newer" else "cannot be read now"):
            load_state(tmp_path)
        if case == "no file":
            with pytest.raises(SnapshotError, match="cannot be written"):
                save_state(tmp_path, {"x": torch.tensor([2])})
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    assert len([name for name in before if name.startswith("state-")]) == 2
    assert {*before} <= {path.name for path in tmp_path.iterdir()}
    assert not any(".bad-" in path.name for path in tmp_path.iterdir())
    if case == "no handles":
        assert load_state(tmp_path)["x"].item() == 1


def test_two_damaged_states_are_refused_and_left(tmp_path: Path) -> None:
    """When neither state is whole, the newest is named and no file is touched."""
    for number in range(2):
        save_state(tmp_path, {"x": torch.tensor([number])})
    for path in tmp_path.glob("*.safetensors"):
        flip(path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(SnapshotError, match=rf"{INDEX}: damaged"):
        load_state(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert PREVIOUS in before


def test_a_disk_that_gives_back_something_else_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new state is read back before the old one goes: a byte that changed on its way to the disk is an error."""
    save_state(tmp_path, {"x": torch.arange(9.0)})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    real = os.fsync

    def lie(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.name == "data":
            flip(path)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", lie)
    with pytest.raises(SnapshotError, match="reads back otherwise: the disk is failing"):
        save_state(tmp_path, {"x": torch.arange(8.0)})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


# What a run takes of the disk


@pytest.mark.slow
def test_the_disk_is_foretold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state's size and the snapshots' number and size are said before the run, and are what is there after it."""
    (tmp_path / "runs").mkdir()
    _, said = train(tmp_path / "runs", "long", ALWAYS, "agent.lstm_size=256")
    (line,) = [line for line in said if line.startswith("disk: ")]
    config = config_module.from_json(json.loads(Store.open(tmp_path / "runs").runs()[0].config))
    spec, device = registry.spec("matrix", config.env.options), torch.device("cpu")
    needs = disk.disk_needs(config, settling.footprint(config, spec, device), 0, 2, 3)
    assert line.startswith(f"disk: {needs.describe()}; ")
    states = list((tmp_path / "runs" / "matrix-1" / "state").glob("*.safetensors"))
    snapshots = list((tmp_path / "runs" / "matrix-1" / "snapshots").glob("*/*.safetensors"))
    assert len(states) == needs.states_kept and len(snapshots) == needs.num_snapshots
    assert [path.stat().st_size for path in states] == [pytest.approx(needs.state, rel=0.02)] * 2
    assert [path.stat().st_size for path in snapshots] == [pytest.approx(needs.snapshot, rel=0.02)] * len(snapshots)
    assert disk.disk_needs(config, settling.footprint(config, spec, device), 1_280, 2, 3).num_snapshots == 1


def test_too_small_a_disk_is_refused_with_the_arithmetic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could never be saved is refused before anything is written; what may become too much is a warning."""
    usage = settling.shutil.disk_usage(tmp_path)
    config, spec, device, _ = settling.settle("long", "fast", "matrix", None, SETS)
    needs = disk.disk_needs(config, settling.footprint(config, spec, device), 0, 2, 3)
    monkeypatch.setattr(settling.shutil, "disk_usage", lambda path: usage._replace(free=needs.least - 1))
    with pytest.raises(ConfigError, match=r"disk: .* = 3 states of .* \+ 10 snapshots of .*; make room") as caught:
        train(tmp_path, "long")
    assert "\n" not in str(caught.value) and list(tmp_path.iterdir()) == []
    monkeypatch.setattr(settling.shutil, "disk_usage", lambda path: usage._replace(free=needs.least))
    _, said = train(tmp_path, "long", notes=Notes(1))
    assert any("the run will fill the disk" in line for line in said)
    monkeypatch.setattr(settling.shutil, "disk_usage", lambda path: usage._replace(free=1_000))
    with pytest.raises(ConfigError, match="make room"):
        resume(tmp_path)
    assert status(tmp_path, "matrix-1") == ("stopped", 128)


class Squeeze(recent.Recent):
    """From update 3 on no file can be larger than `limit` bytes."""

    limit, updates = 0, 0

    def add(self, finished: Any) -> None:
        """An update was made."""
        super().add(finished)
        Squeeze.updates += 1
        if Squeeze.updates == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.limit, resource.RLIM_INFINITY))


def call_on_a_full_disk(limit: int, words: list[str]) -> None:
    """`league WORDS` on a disk that takes no larger files soon."""
    Squeeze.limit, training.Recent, saving.RETRY_SECONDS = limit, Squeeze, 0.0  # type: ignore[misc]
    processes.command(words)


QUICK = ("agent.lstm_size=512", "agent.encoder_layers=1", "agent.encoder_width=64", "agent.encoder_heads=2")


def command() -> list[str]:
    """`league train` of a matrix run of ten updates, as words."""
    sets = [*SMALL_ROLLOUT, *QUICK, ALWAYS, "run.total_steps=1280", "run.verbosity=2"]
    given = ["train", "--stage", "smoke", "--env", "matrix", "--device", "cpu", "--store", "."]
    return [*given, *as_options(sets)]


@pytest.mark.slow
def test_a_full_disk_stops_nothing_but_the_end(tmp_path: Path) -> None:
    """States that do not fit are warned about and the old one stands; the end says so in a line, and room helps."""
    whole, full = tmp_path / "whole", tmp_path / "full"
    for folder in (whole, full):
        folder.mkdir()
    assert processes.run(*command(), cwd=whole).returncode == 0
    size = max(path.stat().st_size for path in (whole / "matrix-1" / "state").glob("*.safetensors"))
    snapshot = max(path.stat().st_size for path in (whole / "matrix-1" / "snapshots").glob("*/*.safetensors"))
    assert size * 0.9 > snapshot + 2**18, "the limit lies between the state and the rest"
    done = in_a_process(full, call_on_a_full_disk, int(0.9 * size), command())
    assert done.returncode == 1 and done.stdout == "" and "Traceback" not in done.stderr, done.stderr
    warnings = [line for line in done.stderr.splitlines() if line.startswith("no checkpoint now, but the last one")]
    assert len(warnings) >= 5 and all("File too large" in line for line in warnings)
    last = done.stderr.splitlines()[-1]
    assert "the run's state cannot be written" in last and "make room, then `league resume matrix-1 --store .`" in last
    assert status(full, "matrix-1") == ("failed", 1_280)
    resume(full)
    assert status(full, "matrix-1") == ("finished", 1_280)
    assert everything(full) == everything(whole)


@pytest.mark.slow
def test_a_real_small_disk(small_disk: Path, unbroken: Any) -> None:
    """On a disk that fills, store and states included, a run fails in one line and goes on bit for bit with room."""
    train(small_disk, "long", notes=Notes(2))
    ballast = small_disk / "ballast"
    with suppress(OSError), open(ballast, "wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    with pytest.raises((LeagueError, OSError)) as caught:
        resume(small_disk)
    assert isinstance(caught.value, LeagueError) and "\n" not in str(caught.value), caught.value
    ballast.unlink()
    resume(small_disk)
    assert everything(small_disk) == unbroken


# The store


@pytest.mark.parametrize("case", cases("bit", "end", slow=["gone"]))
@pytest.mark.slow
def test_lost_rows_are_said_and_stop_nothing(case: str, unbroken: Any, tmp_path: Path) -> None:
    """A damaged or missing segment is named, kept as an event and never merged; put back, no row is missing."""
    train(tmp_path, "long", notes=Notes(3))
    folder = tmp_path / "matrix-1"
    (listed,) = Listing.model_validate_json((folder / LISTING).read_bytes()).segments["match"]
    segment = folder / ROWS / listed.name
    content = segment.read_bytes()
    segment.unlink() if case == "gone" else flip(segment, 40 if case == "bit" else -1)
    _, said = resume(tmp_path, overrides=[ALWAYS])
    (line,) = [line for line in said if f"its {listed.rows} rows are missing on boards: put the file back" in line]
    assert str(segment) in line and ("damage", line) in events(tmp_path)
    snapshots, matches, metrics = everything(tmp_path)
    assert (snapshots, metrics) == (unbroken[0], unbroken[2])
    assert len(matches) < len(unbroken[1]) and matches == [match for match in unbroken[1] if match in matches]
    segment.write_bytes(content)
    assert everything(tmp_path) == unbroken


def test_a_damaged_snapshot_is_named_and_evaluations_go_on_without(tmp_path: Path) -> None:
    """A member of the pool that is not drawn any more is named at the start, left out of evaluations, and no more."""
    train(tmp_path, "long", "pool.sampler=latest", notes=Notes(6))
    folder = tmp_path / "matrix-1" / "snapshots" / f"{0:010d}"
    flip(folder / WEIGHTS)
    result, said = resume(tmp_path)
    assert result.status == "finished"
    (line,) = [line for line in said if "until it is drawn" in line]
    assert f"{folder} is damaged" in line and ("damage", line) in events(tmp_path)
    assert any(line.startswith(f"evaluating without matrix-1@0: {folder / WEIGHTS} is damaged") for line in said)


def test_snapshots_that_changed_places_are_named_at_every_door(tmp_path: Path) -> None:
    """The store says which agent a folder has, so no other one is loaded, exported, played or learned against."""
    train(tmp_path, "short")
    snapshots = tmp_path / "matrix-1" / "snapshots"
    first, *_, last = sorted(snapshots.iterdir())
    for old, new in ((first, snapshots / "aside"), (last, first), (snapshots / "aside", last)):
        old.rename(new)
    doors: list[Callable[[], object]] = [
        lambda: league.load("matrix-1@0", store=tmp_path),
        lambda: league.export("matrix-1@0", tmp_path / "out", store=tmp_path),
        lambda: league.evaluate("matrix-1@0", "bot:random", 2, store=tmp_path),
        lambda: train(tmp_path, "short", 'pool.mix={self_play = 0.5, "agent:matrix-1@0" = 0.5}', run="b"),
        lambda: league.train(against="matrix-1@0", steps=64, device="cpu", store=tmp_path),
    ]
    for door in doors:
        with pytest.raises(LeagueError, match=f"{first} holds another agent .* restore its own files"):
            door()
    assert not (tmp_path / "out").exists() and {x.name for x in tmp_path.iterdir() if x.is_dir()} == {"matrix-1"}


def test_a_run_stops_where_it_must_play_a_damaged_snapshot(unbroken: Any, tmp_path: Path) -> None:
    """What is drawn is never replaced by another: one line names the file, and put back it makes the run whole."""
    cut = tmp_path
    train(cut, "long", notes=Notes(6))
    content = {path: path.read_bytes() for path in (cut / "matrix-1" / "snapshots").glob(f"*/{WEIGHTS}")}
    assert len(content) == 6
    for path in content:
        flip(path)
    with pytest.raises(SnapshotError, match=rf"{WEIGHTS} is damaged.*then `league resume matrix-1 --store ") as caught:
        resume(cut)
    assert "\n" not in str(caught.value) and status(cut, "matrix-1") == ("stopped", 768)
    for path, data in content.items():
        path.write_bytes(data)
    resume(cut)
    assert everything(cut) == unbroken


def drop_override() -> None:
    """Takes from root the right to write what the modes forbid; anybody else never had it."""
    if sys.platform == "linux":
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
        assert ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)()) == 0


def call_without_rights(words: list[str]) -> None:
    """`league WORDS`, by somebody who is bound by the modes of files."""
    drop_override()
    processes.command(words)


def in_a_process(folder: Path, target: Callable[..., None], *arguments: Any) -> subprocess.CompletedProcess[str]:
    """Calls `target` in a process of its own in `folder`; stdout and stderr are kept."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = processes.Process(target, arguments, cwd=folder, **pipes)
    out, err = process.communicate()
    return subprocess.CompletedProcess(arguments, process.wait(), out, err)


def with_read_only(folder: Path, target: Callable[..., None], *arguments: Any) -> subprocess.CompletedProcess[str]:
    """Calls `target` in a process of its own in `folder`, which is read-only with all below it meanwhile."""
    paths = [folder, *folder.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        return in_a_process(folder, target, *arguments)
    finally:
        for path in paths:
            path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.slow
def test_a_read_only_folder_can_be_read_and_says_what_cannot(tmp_path: Path) -> None:
    """Ratings and runs are shown from it; training and resuming are one line that names the place."""
    folder = tmp_path / "runs"
    folder.mkdir()
    train(folder, "long", notes=Notes(3))
    for words, code, said in (
        (["leaderboard"], 0, ""),
        (["runs"], 0, ""),
        (["resume", "matrix-1"], 1, str(Path("matrix-1") / "lock")),
        (["train", "--env", "matrix", "--stage", "smoke"], 1, "matrix-2"),
    ):
        done = with_read_only(folder, call_without_rights, [*words, "--store", "."])
        assert done.returncode == code and "Traceback" not in done.stderr, (words, done.stderr)
        assert said in done.stderr
    resume(folder)


# The clock


class Clock:
    """A clock that jumps: back a year, forward two, and stands still in between."""

    def __init__(self) -> None:
        self.start, self.calls = datetime(2030, 1, 1, tzinfo=UTC), 0

    def now(self, zone: object = None) -> datetime:
        """The next time."""
        self.calls += 1
        return self.start + timedelta(days=(0, -365, 365)[self.calls // 3 % 3])


@pytest.mark.slow
def test_the_clock_orders_nothing(unbroken: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that jumps, a run, the run that a stage carries on, and their order are what they are without."""
    clock = Clock()
    monkeypatch.setattr(records, "datetime", clock)
    for _ in range(2):
        train(tmp_path, "short")
    result, said = train(tmp_path, "long", ALWAYS, notes=Notes(7))
    resume(tmp_path, result.run)
    assert result.run == "matrix-2" and said[0].startswith("carrying on matrix-2 (short")
    assert [row.run for row in Store.open(tmp_path).runs()] == ["matrix-1", "matrix-2"]
    assert everything(tmp_path, result.run)[:2] == unbroken[:2] and clock.calls > 30


def test_champions_and_attempts_are_counted_not_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that is set back after each gate, the last promotion holds and the attempts after it count."""
    store = empty_store(tmp_path)
    store.begin_run(make_run())
    for step in (100, 200, 300):
        store.add_snapshot(make_snapshot(step=step))
    store.flush()
    times = iter(datetime(2030, 1, 1, tzinfo=UTC) - timedelta(days=n) for n in range(99))
    monkeypatch.setattr(store_module, "now", lambda: next(times))
    champion = None
    for number, challenger in enumerate(("hash200", "hash300"), 1):
        gate = store.gate_begins(make_gate(f"g{number}", challenger=challenger, begun_at=next(times)))
        assert gate.attempt == 1
        store.end_gate(replace(gate, games=10, llr=3.0, decision="passed", is_promoted=True), champion)
        champion = store.champion("a")
        assert champion == challenger
    for attempt in (1, 2):
        gate = make_gate(f"late{attempt}", challenger="hash100", begun_at=next(times))
        assert store.gate_begins(gate).attempt == attempt
    assert [gate.gate for gate in store.gates("a")] == ["g1", "g2", "late1", "late2"]
