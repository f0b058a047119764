"""The peers' runners at their smallest: they run, measure something, and have networks of the same size."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
TINY = {"lstm": 32, "rows": 4, "steps": 32, "minibatches": 2, "layers": 1}
TINY_ENCODER = {**TINY, "history": 6}


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The runner, imported from the root; what a peer writes where it is started goes elsewhere."""
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.chdir(tmp_path)
    return importlib.import_module("benchmarks.peers.__main__")


def measured(peers: Any, peer: str, size: dict[str, int]) -> dict[str, Any]:
    """What the runner of `peer` hands back, on the cores that the tests have."""
    what = {"peer": peer, "size": size, "cores": sorted(os.sched_getaffinity(0))[:1], "seconds": 0.01}
    before = os.sched_getaffinity(0)
    try:
        result: dict[str, Any] = peers.measure(what)
    finally:
        os.sched_setaffinity(0, before)
    return result


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system pins no process to cores")
@pytest.mark.parametrize(
    ("peer", "package", "size"),
    [
        ("ours-highest", "league", TINY),
        ("ours-bf16", "league", TINY),
        ("cleanrl", "torch", TINY),
        ("sb3", "sb3_contrib", TINY),
        ("sb3", "sb3_contrib", TINY_ENCODER),
        ("pufferlib", "pufferlib", TINY),
        ("sample-factory", "sample_factory", TINY),
    ],
)
def test_runners_measure_networks_of_our_size(peers: Any, peer: str, package: str, size: dict[str, int]) -> None:
    """Every figure of every runner is positive, and its network is within a fifth of ours."""
    pytest.importorskip(package, reason=f"{package} is not installed")
    ours, theirs = measured(peers, "ours", size), measured(peers, peer, size)
    assert 0.8 < theirs["parameters"] / ours["parameters"] < 1.25
    for result in (ours, theirs):
        together = [result["train_one_epoch"]] if result["play"] is None else [result["play"], result["learn"]]
        assert min(*together, result["play_steps"], result["learn_samples"], result["minibatch"]) > 0


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system pins no process to cores")
def test_a_missing_peer_is_left_out(peers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its package a runner says so in place of figures."""
    monkeypatch.delitem(sys.modules, "benchmarks.peers.sb3", raising=False)
    monkeypatch.setitem(sys.modules, "sb3_contrib", None)
    assert measured(peers, "sb3", TINY) == {"skipped": "sb3_contrib is not installed"}


def test_a_rate_of_training_is_play_and_the_epochs_in_turn(peers: Any) -> None:
    """10 steps/s of play and 20 samples/s of learning make 1 / (0.1 + 4 x 0.05) steps/s at four epochs."""
    speed = peers.Speed(parameters=1, play=10.0, learn=20.0, play_steps=1, learn_samples=1, minibatch=1)
    assert speed.train(4) == pytest.approx(1 / 0.3)


@pytest.mark.slow
def test_the_command_prints_the_ratio_of_a_pair() -> None:
    """`--only` chooses the pair; each side ran in its own process at the rows and steps that were given."""
    arguments = ["--only", "cleanrl", "--only", "lstm128", "--rows", "4", "--steps", "4", "--seconds", "0.01", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.peers", *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [(r["peer"], r["rows"], r["steps"]) for r in report["runs"]] == [("ours", 4, 4), ("cleanrl", 4, 4)]
    (pair,) = report["pairs"]
    assert pair["epochs"] == 4 and pair["ratio"] == pair["our_steps_per_second"] / pair["peer_steps_per_second"] > 0


def test_of_several_turns_the_median_ratio_counts(peers: Any) -> None:
    """Each ratio is of one turn, so that a machine that is slow in one does not favour a side."""
    (pair,) = (p for p in peers.PAIRS if (p.our_size, p.peer) == ("lstm128", "cleanrl"))
    names = (pair.ours, pair.our_size), (pair.peer, pair.size)
    turns = []
    for ours, theirs in ((30.0, 10.0), (8.0, 4.0), (100.0, 20.0)):
        speeds = (
            peers.Speed(parameters=1, play=x, learn=x * 4, play_steps=1, learn_samples=1, minibatch=1)
            for x in (ours, theirs)
        )
        turns.append({name: peers.asdict(speed) for name, speed in zip(names, speeds, strict=True)})
    found = peers.median_pair(pair, turns)
    assert found["ratios"] == [2.0, 3.0, 5.0] and found["ratio"] == 3.0 and found["our_steps_per_second"] == 15.0
    assert peers._spread(found["ratios"]) == "3 (2 to 5)"
    assert peers.median_run([turn[names[0]] for turn in turns])["play"] == 30.0
    skipped = [{**turn, names[1]: {"skipped": "it is not installed"}} for turn in turns]
    assert peers.median_pair(pair, skipped) is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--threads", "0"], "--threads 0: must be from 1 to"),
        (["--turns", "2"], "--turns 2: must be odd and above 0"),
        (["--seconds", "0"], "--seconds 0: must be above 0"),
        (["--rows", "3"], "--rows 3 --steps 32: full needs a multiple of 4 rows"),
        (["--only", "cleanrl", "--only", "full"], "--only cleanrl --only full: no pair has all of these"),
        (["--python", "puffer=x"], "--python puffer=...: no such peer"),
    ],
)
def test_bad_input_gets_one_line(
    arguments: list[str], words: str, peers: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A setting that cannot be measured with is refused before anything runs."""
    monkeypatch.setattr(sys, "argv", ["peers", *arguments])
    with pytest.raises(SystemExit):
        peers.main()
    assert words in capsys.readouterr().err
