"""The peers' runners at their smallest: they run, measure something, and have networks of the same size."""

import importlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent
TINY = {"lstm": 32, "rows": 4, "steps": 32, "minibatches": 2, "layers": 1}
TINY_ENCODER = {**TINY, "history": 6}


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The runner, imported from the root; what a peer writes where it is started goes elsewhere."""
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.chdir(tmp_path)
    return importlib.import_module("benchmarks.peers.__main__")


@pytest.fixture(scope="module")
def ours() -> dict[int, dict[str, Any]]:
    """What our runner has handed back, by the number of settings of its network."""
    return {}


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
        pytest.param("ours-bf16", "league", TINY, marks=pytest.mark.slow),
        ("cleanrl", "torch", TINY),
        ("cleanrl-as-is", "torch", TINY),
        ("sb3", "sb3_contrib", TINY),
        pytest.param("sb3", "sb3_contrib", TINY_ENCODER, marks=pytest.mark.slow),
        ("pufferlib", "pufferlib", TINY),
        ("sample-factory", "sample_factory", TINY),
    ],
)
def test_runners_measure_networks_of_our_size(
    peers: Any, ours: dict[int, dict[str, Any]], peer: str, package: str, size: dict[str, int]
) -> None:
    """Every figure of every runner is positive, and its network is within a fifth of ours."""
    pytest.importorskip(package, reason=f"{package} is not installed")
    if len(size) not in ours:
        ours[len(size)] = measured(peers, "ours", size)
    known, theirs = ours[len(size)], measured(peers, peer, size)
    assert 0.8 < theirs["parameters"] / known["parameters"] < 1.25
    for result in (known, theirs):
        together = [result["train_one_epoch"]] if result["play"] is None else [result["play"], result["learn"]]
        assert min(*together, result["play_steps"], result["learn_samples"], result["minibatch"]) > 0


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system pins no process to cores")
def test_a_missing_peer_is_left_out(peers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its package a runner says so in place of figures."""
    monkeypatch.delitem(sys.modules, "benchmarks.peers.sb3", raising=False)
    monkeypatch.setitem(sys.modules, "sb3_contrib", None)
    assert measured(peers, "sb3", TINY) == {"skipped": "sb3_contrib is not installed"}


def test_a_rate_of_training_is_play_the_epochs_and_the_rest_in_turn(peers: Any) -> None:
    """10 steps/s of play and 20 samples/s of learning make 1 / (0.1 + 4 x 0.05) steps/s at four epochs.

    What surrounds them counts once, whatever the epochs.
    """
    speed = peers.Speed(parameters=1, play=10.0, learn=20.0, play_steps=1, learn_samples=1, minibatch=1)
    assert speed.train(4) == pytest.approx(1 / 0.3)
    assert replace(speed, beside=0.2).train(4) == pytest.approx(1 / 0.5)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system pins no process to cores")
def test_our_loop_is_counted_whole(peers: Any) -> None:
    """What a snapshot, the store and reports take is part of the rate."""
    result = measured(peers, "ours", TINY)
    assert result["beside"] > 0
    assert result["play_steps"] % (4 * 32 * 6) == 0  # whole periods, each with its snapshot


def test_keys_are_what_torch_draws() -> None:
    """PufferLib's Bernoulli head agrees with torch's own in samples, log-probabilities and entropies."""
    from benchmarks.peers.keys import sample_keys

    torch.manual_seed(0)
    logits = torch.randn(3, 5)
    keys = torch.distributions.Bernoulli(logits=logits)
    given = keys.sample()
    action, log_prob, entropy = sample_keys(logits, given.view(3, 1, 5))  # as (rows, steps, keys)
    assert torch.equal(action.view(3, 5), given)
    assert torch.allclose(log_prob, keys.log_prob(given).sum(1), atol=1e-6)
    assert torch.allclose(entropy, keys.entropy().sum(1), atol=1e-6)
    drawn, log_prob, _ = sample_keys(logits.repeat(20_000, 1))
    assert torch.allclose(drawn.view(-1, 3, 5).float().mean(0), keys.probs, atol=0.02)
    assert torch.allclose(log_prob, keys.log_prob(drawn.view(-1, 3, 5).float()).sum(2).flatten(), atol=1e-5)


def test_a_fused_optimiser_learns_the_same() -> None:
    """Fusing Adam after it was made, before its first step or later, changes how it is computed, not what."""
    from benchmarks.peers.game import fuse

    found = []
    for fused_at in (None, 0, 2):
        weight = torch.nn.Parameter(torch.linspace(-1, 1, 7))
        optimizer = torch.optim.Adam([weight], lr=0.1)
        for step in range(4):
            if step == fused_at:
                fuse(optimizer)
            (weight**2).sum().backward()
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as told:
                optimizer.step()
            is_fused = any("_fused_adam_" in event.key for event in told.key_averages())
            assert is_fused == (fused_at is not None and step >= fused_at)
            optimizer.zero_grad()
        found.append(weight.detach().clone())
    assert torch.allclose(found[0], found[1], atol=1e-6) and torch.allclose(found[0], found[2], atol=1e-6)


def test_peers_get_our_allocator(peers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every peer but those that go without it runs with the three settings that league makes for itself; ours as is."""
    from league.runtime.device import NEVER, TOP_PAD

    wanted = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(NEVER), "MALLOC_TOP_PAD_": str(TOP_PAD)}
    given: dict[str, dict[str, str]] = {}
    for name in wanted:
        monkeypatch.delenv(name, raising=False)

    def noted(command: list[str], env: dict[str, str], **_: Any) -> Any:
        given[json.loads(command[-1])["peer"]] = {name: env[name] for name in wanted if name in env}
        return subprocess.CompletedProcess(command, 0, stdout="{}")

    monkeypatch.setattr(peers.subprocess, "run", noted)
    for peer in peers.PEERS:
        peers.run(peer, peers.SIZES["lstm128"], cores=[0], seconds=1.0, python="python")
    without = {name for name, found in given.items() if not found}
    assert without == {
        *("ours", "ours-highest", "ours-bf16", "pufferlib-malloc"),
        *("pufferlib-as-is", "sb3-as-is", "cleanrl-as-is", "sample-factory-as-is"),
    }
    assert all(found == wanted for name, found in given.items() if name not in without)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator")
def test_glibc_reads_the_allocator_from_the_environment(peers: Any) -> None:
    """With the settings a block of 64 MiB that was freed is not given back; without, it is."""
    script = (
        "import numpy as np, resource; a = [np.ones(2**23) for _ in range(3)]; del a;"
        "before = resource.getrusage(0).ru_minflt; b = [np.ones(2**23) for _ in range(3)];"
        "print(resource.getrusage(0).ru_minflt - before)"
    )
    plain = {name: text for name, text in os.environ.items() if not name.startswith("MALLOC_")}
    faults = [
        int(subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True).stdout)
        for env in (plain, plain | peers.allocator())
    ]
    assert faults[1] < faults[0] / 10


def test_float32_throughout_is_the_first_column(peers: Any) -> None:
    """The table begins with `highest`; what a peer is without a setting stands in a table of its own."""
    turns = [
        {
            (peer, "lstm128"): peers.asdict(
                peers.Speed(parameters=1, play=x, learn=x, play_steps=1, learn_samples=1, minibatch=1)
            )
            for peer, x in (("ours-highest", 22.0), ("ours", 26.0), ("pufferlib", 20.0), ("pufferlib-malloc", 10.0))
        }
    ]
    wanted = {"ours-highest", "ours", "pufferlib"}, {"pufferlib", "pufferlib-malloc"}
    pairs = [
        pair
        for pair in (*peers.PAIRS, *peers.SETTINGS)
        if pair.size == "lstm128" and any({pair.ours, pair.peer} <= names for names in wanted)
    ]
    report = {"has_tiles": False, "runs": [], "pairs": [peers.median_pair(pair, turns) for pair in pairs]}
    ratios, settings = peers._tables(report)
    assert "ratio in `highest` | `float32`, no tile units here | bf16" in ratios
    assert ratios.splitlines()[2] == "| lstm128 | pufferlib lstm128 | 1 | 11 | 10 | 1.1 | 1.3 | - |"
    assert settings.splitlines()[2:] == ["| pufferlib lstm128 | pufferlib-malloc | 10 | 5 | 2 |"]


@pytest.mark.slow
def test_the_command_prints_the_ratio_of_a_pair() -> None:
    """`--only` chooses the pair; each side ran in its own process at the rows and steps that were given."""
    arguments = ["--only", "cleanrl", "--only", "lstm128", "--skip", "ours-highest", "--skip", "ours-bf16"]
    arguments += ["--rows", "4", "--steps", "4", "--seconds", "0.01", "--json"]
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
    (pair,) = (p for p in peers.PAIRS if (p.ours, p.size, p.peer) == ("ours", "lstm128", "cleanrl"))
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
        (["--only", "cleanrl", "--only", "full"], "--only cleanrl --only full: no pair is left"),
        (["--only", "cleanrl", "--skip", "lstm512", "--skip", "lstm128"], "--skip lstm128: no pair is left"),
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
