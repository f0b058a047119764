"""Every command refuses what is broken in the same way: one line, exit code 1 or 2, soon, and nothing is changed."""

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import league
from tests.helpers import processes
from tests.helpers.cases import cases
from tests.helpers.sizes import SMALL

SECONDS = 300


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """What changes an agent's manifest."""

    def spoil(folder: Path) -> None:
        manifest = json.loads((folder / "manifest.json").read_text())
        change(manifest)
        (folder / "manifest.json").write_text(json.dumps(manifest))

    return spoil


def replaced(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    """What puts something else in the place of a file."""

    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return spoil


def bind(path: Path) -> None:
    folder = os.getcwd()
    os.chdir(path.parent)  # the name of a socket is short
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(folder)


KINDS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a socket": bind,
    "a folder": Path.mkdir,
    "a loop": lambda path: path.symlink_to(path),
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "nothing": lambda path: None,
    "an empty file": Path.touch,
    "a huge file": lambda path: path.touch() or os.truncate(path, 5 * 2**30),
}
BROKEN: dict[str, Callable[[Path], None]] = {
    **{
        f"{what} as {name}": replaced(name, make)
        for what, make in KINDS.items()
        for name in ("manifest.json", "weights.safetensors")
    },
    "architecture of words": edited(lambda m: m["architecture"].update(lstm_size="many")),
    "architecture of lists": edited(lambda m: m["architecture"].update(lstm_size=[8])),
    "architecture of nothing": edited(lambda m: m.update(architecture={})),
    "architecture null": edited(lambda m: m["architecture"].update(action=None)),
    "architecture of another size": edited(lambda m: m["architecture"].update(lstm_size=24)),
    "architecture with more": edited(lambda m: m["architecture"].update(more=1)),
    "another game's spec": edited(lambda m: m["spec"].update(obs_size=3)),
}
COMMANDS: dict[str, list[str]] = {
    "evaluate": ["evaluate", "BAD", "--against", "bot:random", "--games", "2"],
    "export": ["export", "BAD", "out"],
    "exploit": ["exploit", "BAD", "--steps", "64"],
    "watch": ["watch", "BAD", "--against", "bot:random", "--out", "out.html"],
    "gate": ["gate", "BAD", "bot:random"],
    "tournament": ["tournament", "BAD", "bot:random", "--games", "2"],
    "train": ["train", "--stage", "smoke", "--env", "matrix", "--set", "pool.mix={'self_play'=0.5,'agent:BAD'=0.5}"],
    "play": ["play", "BAD"],
}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an exported agent; its run's store lies beside it."""
    folder = tmp_path_factory.mktemp("agent")
    sets = (*SMALL, "run.total_steps=256", "run.evaluate_games=2")
    league.train("smoke", env="matrix", device="cpu", overrides=sets, run="r", store=folder)
    league.export("r", folder / "good", store=folder)
    return folder / "good"


def call(*words: object, cwd: Path) -> tuple[int, str]:
    """Exit code and the last line on stderr, of the command as a user calls it; it must end soon."""
    done = processes.run(*words, cwd=cwd, timeout=SECONDS)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, (done.stderr.splitlines() or [""])[-1]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "what", cases("architecture of words", slow=[name for name in BROKEN if name != "architecture of words"])
)
def test_every_command_refuses_every_broken_agent(what: str, command: str, agent: Path, tmp_path: Path) -> None:
    """In one line that names the folder; no file is made."""
    shutil.copytree(agent, tmp_path / "BAD")
    BROKEN[what](tmp_path / "BAD")
    words = [word.replace("BAD", "./BAD") for word in COMMANDS[command]]
    code, last = call(*words, "--store", "none", "--quiet", cwd=tmp_path)
    assert code in (1, 2) and last.startswith("error: ") and "BAD" in last, (code, last)
    assert not list(tmp_path.glob("out*")) and not (tmp_path / "none").exists()


@pytest.mark.parametrize("what", list(BROKEN))
def test_the_engine_refuses_every_broken_agent(what: str, agent: Path, tmp_path: Path) -> None:
    """`export` and `load` as Python calls: a known error for each."""
    shutil.copytree(agent, tmp_path / "BAD")
    BROKEN[what](tmp_path / "BAD")
    calls: tuple[Callable[[], object], ...] = (
        lambda: league.load(f"{tmp_path}/BAD"),
        lambda: league.export(f"{tmp_path}/BAD", tmp_path / "out"),
    )
    for each in calls:
        with pytest.raises(league.errors.LeagueError) as caught:
            each()
        assert "BAD" in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m["game"]["options"].update(rounds=0), ["evaluate", "BAD", "--against", "bot:random"]),
        (lambda m: m["config"]["agent"].update(head_sizes={}), ["exploit", "BAD", "--steps", "2048"]),
    ],
)
def test_a_fault_of_a_manifest_is_mended_at_its_source(
    change: Callable[[dict[str, Any]], object], words: list[str], agent: Path, tmp_path: Path
) -> None:
    """Not by a setting of the user's, which would not reach it."""
    shutil.copytree(agent, tmp_path / "BAD")
    edited(change)(tmp_path / "BAD")
    words = [word.replace("BAD", "./BAD") for word in words]
    code, last = call(*words, "--env", "matrix", "--store", "league.duckdb", "--quiet", cwd=tmp_path)
    assert code and "take the agent from its source again" in last and "--set" not in last, last


@pytest.mark.parametrize("kind", cases("a pipe", slow=["a socket", "a folder", "a loop", "a device"]))
@pytest.mark.parametrize(
    "name",
    ["run.json", "lock-00000000-00000000-00000000@other", "state/state.json", "manifest.json", "weights.safetensors"],
)
def test_nothing_in_a_runs_folder_keeps_a_command_waiting(kind: str, name: str, agent: Path, tmp_path: Path) -> None:
    """`runs`, `doctor`, `resume` and `snapshots list` end soon where a pipe, device or folder stands for a file."""
    for path in agent.parent.iterdir():
        if path.name != "good":
            (shutil.copytree if path.is_dir() else shutil.copy2)(path, tmp_path / path.name)
    run = tmp_path / "r"
    file = next(iter(sorted(run.glob(f"snapshots/*/{name}"))), run / name)
    file.unlink(missing_ok=True)
    KINDS[kind](file)
    for words in (["runs"], ["doctor"], ["snapshots", "list"], ["resume", "r", "--steps", "320", "--quiet"]):
        call(*words, "--store", ".", cwd=tmp_path)


@pytest.mark.parametrize("what", ["all", "weights.safetensors", "manifest.json"])
def test_doctor_misses_snapshots_that_are_gone(what: str, agent: Path, tmp_path: Path) -> None:
    """A run without the files of its snapshots is not well; the line names them, and says what to do."""
    from league.commands.doctor import _runs

    for path in agent.parent.iterdir():
        if path.name != "good":
            (shutil.copytree if path.is_dir() else shutil.copy2)(path, tmp_path / path.name)
    assert not [finding for finding in _runs(tmp_path) if finding.health == "broken"]
    if what == "all":
        shutil.rmtree(tmp_path / "r" / "snapshots")
    else:
        next(iter(sorted((tmp_path / "r").glob(f"snapshots/*/{what}")))).unlink()
    [finding] = [finding for finding in _runs(tmp_path) if finding.health == "broken"]
    assert finding.about == "run r" and "cannot play" in finding.found and "copy" in finding.next, finding
    code, _ = call("doctor", "--store", ".", cwd=tmp_path)
    assert code == 1
