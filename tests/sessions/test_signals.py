"""Signals: the first saves and ends a training, and breaks off any other command; nothing is lost, nothing is left."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import league
from league.store.store import Store
from tests.helpers import processes
from tests.helpers.cases import cases
from tests.helpers.phases import Told
from tests.helpers.sizes import SMALL, as_options

SETS = (*SMALL, "pool.snapshot_every=128")
TRAIN = ["train", "--stage", "smoke", "--env", "matrix", "--device", "cpu", *as_options(SETS)]
LONG = [*TRAIN, "--set", "run.total_steps=1000000", "--set", "run.evaluate_every=256"]
LONG += ["--set", "run.checkpoint_minutes=0.001"]
GAMES = '{"seat0": "x", "seat1": "bot:random", "winner": 0}\n{"seat0": "bot:random", "seat1": "x", "winner": 1}\n'
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True}
BROKEN_OFF = "interrupted; what was stored before is kept"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run `matrix-1` and a file of matches; nobody may change it."""
    folder = tmp_path_factory.mktemp("trained")
    league.train("smoke", env="matrix", overrides=[*SETS, "run.total_steps=1280"], store=folder / "runs")
    (folder / "games.jsonl").write_text(GAMES)
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "copy")


def end(told: Told, *numbers: int) -> tuple[int, str, str]:
    """Signals the whole process group as a terminal does; the exit code, stdout and stderr. Nothing may be left."""
    for number in numbers:
        os.killpg(told.process.pid, number)
    out, err = told.process.communicate(timeout=120)
    with pytest.raises(ProcessLookupError):
        os.killpg(told.process.pid, 0)
    told.close()
    return told.process.returncode, out, err


@pytest.mark.parametrize(
    ("phase", "number"),
    cases(
        ("save the state", signal.SIGTERM),
        slow=[
            ("play", signal.SIGINT),
            ("evaluate", signal.SIGHUP),
            ("learn", signal.SIGTERM),
            ("snapshot", signal.SIGINT),
            ("write rows", signal.SIGINT),
            ("sync a file", signal.SIGHUP),
        ],
    ),
)
def test_a_training_is_saved_and_ends(phase: str, number: int, tmp_path: Path) -> None:
    told = Told(*LONG, cwd=tmp_path, **PIPES)
    assert told.until("learn", 3) and told.until(phase)
    code, out, err = end(told, number)
    assert (code, out) == (128 + number, "") and "Traceback" not in err, err
    assert err.splitlines()[-1] == "next: league resume matrix-1"
    store = Store.open(tmp_path / "runs")
    row = store.find_run("matrix-1")
    counts = store.query("SELECT max(\"update\"), sum(value) FROM metric WHERE name = 'matches'")[1]
    assert row.status == "stopped" and counts == [(row.update, len(store.matches("matrix-1", "training")))]


def test_a_training_that_has_not_begun_leaves_no_run(tmp_path: Path) -> None:
    code, out, err = end(begun(TRAIN, tmp_path, "wire"), signal.SIGTERM)
    assert (code, out) == (143, "") and err.splitlines()[-1] == BROKEN_OFF and "Traceback" not in err
    assert not (tmp_path / "runs/matrix-1").exists()


def begun(arguments: list[str], folder: Path, phase: str) -> Told:
    """A command that stands still where it enters `phase`."""
    told = Told(*arguments, cwd=folder, hold=phase, **PIPES)
    assert told.until(phase), told.process.communicate()
    return told


@pytest.mark.parametrize(
    ("phase", "command"),
    cases(
        ("meet", "evaluate matrix-1 --against bot:random"),
        ("write the film", "watch bot:based --against bot:constant --out film.gif --seconds 1"),
        slow=[
            ("import", "import games.jsonl"),
            ("delete files", "snapshots prune --keep 1"),
            ("measure", "bench env --env matrix"),
            ("rate", "leaderboard"),
            ("payoff", "payoff"),
            ("read matches", "matches out.jsonl"),
            *((phase, "gate matrix-1 --payoff0 -9 --payoff1 -5") for phase in ("begin a gate", "end a gate")),
        ],
    ),
)
@pytest.mark.slow
def test_other_commands_end_in_one_line_and_can_be_run_again(phase: str, command: str, folder: Path) -> None:
    if phase == "write the film":
        pytest.importorskip("PIL")
    store = Store.open(folder / "runs")
    before = store.query("SELECT count(*) FROM match")[1]
    code, out, err = end(begun(command.split(), folder, phase), signal.SIGINT)
    assert (code, out) == (130, "") and err.splitlines()[-1] == BROKEN_OFF and "Traceback" not in err, err
    assert all(gate.decision == "broken off" for gate in store.gates())
    assert phase == "end a gate" or store.query("SELECT count(*) FROM match")[1] == before
    assert not (folder / "film.gif").exists()
    again = processes.run(*command.split(), cwd=folder)
    assert again.returncode == 0, again.stderr


def test_a_tournament_ends_with_its_standings(folder: Path) -> None:
    number = signal.SIGTERM
    words = "tournament bot:constant bot:random bot:biased --env matrix --games 100000 --json"
    told = Told(*words.split(), cwd=folder, **PIPES)
    assert told.until("meet", 3)
    code, out, err = end(told, number)
    assert code == 128 + number and "Traceback" not in err, err
    result = json.loads(out)
    assert (result["ended"], result["signal"], len(result["standings"])) == ("interrupted", number, 3)
    stored = Store.open(folder / "runs").matches(result["tournament"], "evaluation")
    assert result["games"] == len(stored) >= 256
    assert all(standing["rating"] is not None for standing in result["standings"])


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


@pytest.mark.parametrize("seconds", [0.02, 0.15, 0.4])
def test_ctrl_c_while_it_starts_shows_no_traceback(seconds: float, tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "league", *TRAIN]
    process = subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:  # python's own start is not ours to mind
        if line.split("|")[-1].strip().startswith(("json", "typer")):
            break
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1]
    assert process.returncode in (-signal.SIGINT, 130) and "Traceback" not in err


@pytest.mark.slow
def test_a_terminal_that_goes_away_stops_the_run_saved(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    terminal = {"stdin": slave, "stdout": slave, "stderr": slave, "start_new_session": True, "has_terminal": True}
    told = Told(*LONG, cwd=tmp_path, **terminal)
    os.close(slave)
    assert told.until("learn", 2)
    os.close(master)
    assert told.process.wait(timeout=120) == 128 + signal.SIGHUP
    told.close()
    row = Store.open(tmp_path / "runs").find_run("matrix-1")
    assert row.status == "stopped" and row.steps > 0


def test_a_second_signal_leaves_the_cursor_shown(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    environment = {"stdout": slave, "stderr": slave, "stdin": slave, "start_new_session": True}
    told = Told(*LONG, cwd=tmp_path, **environment)
    os.close(slave)
    assert told.until("learn", 2)
    told.process.send_signal(signal.SIGSTOP)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
        told.process.send_signal(number)
    shown = b""
    try:
        while chunk := os.read(master, 65536):
            shown += chunk
    except OSError:  # Linux's way to say that the other end is closed
        pass
    assert told.process.wait(timeout=60) in (130, 143)
    assert shown and shown.rfind(b"\x1b[?25h") >= shown.rfind(b"\x1b[?25l")
    told.close()
    os.close(master)


def test_a_reader_that_leaves_is_no_error(folder: Path) -> None:
    sql = "SELECT a.range, b.range FROM range(600) a, range(20) b"
    command = [sys.executable, "-m", "league", "query", sql]
    process = subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, **PIPES, text=True)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(100)
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(timeout=120) in (0, 1) and "Traceback" not in err and "Error" not in err, err


@pytest.mark.slow
def test_what_nohup_ignores_stays_ignored(tmp_path: Path) -> None:
    """A run that was started to ignore SIGHUP trains on when the terminal goes."""
    told = Told(*LONG, cwd=tmp_path, **PIPES, ignored=[signal.SIGHUP])
    assert told.until("learn", 2)
    os.killpg(told.process.pid, signal.SIGHUP)
    assert told.until("learn", 5)
    assert end(told, signal.SIGINT)[0] == 130
