"""The script that looks at a GPU works from end to end, at toy sizes on a CPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import gpu
from league.policies.actor_critic import ActorCritic, Architecture
from league.types import ActionSpec

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
def test_every_section_runs_at_toy_sizes(tmp_path: Path) -> None:
    """All sections but torch.compile's, which takes minutes on a CPU, give figures, and what must hold holds."""
    names = [section.__name__ for section in gpu.SECTIONS if section is not gpu.compile_rates]
    command = [sys.executable, "-m", "benchmarks.gpu", "--tiny", "--seconds", "3000", "--out", str(tmp_path)]
    found = subprocess.run([*command, "--only", *names], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    document = json.loads((tmp_path / "gpu.json").read_text())
    assert document == json.loads(found.stdout.splitlines()[-1])
    assert not [name for name in names if {"failed", "skipped"} & set(document[name])]
    checks = {key: value for key, value in document["correctness"].items() if isinstance(value, bool)}
    assert len(checks) == 7 and all(checks.values()), checks
    assert document["training"]["status"] in ("finished", "stopped") and document["training"]["steps"] >= 64
    assert all(f"## {name}" in (tmp_path / "gpu.md").read_text() for name in names)


def test_a_section_that_fails_leaves_the_others_alone() -> None:
    """Its error stands in its place; a section without time is skipped; the rest have figures."""
    bench = gpu.Bench(torch.device("cpu"), 100.0, True, {})
    found = gpu.run(bench, ["matrix_rate", "utilisation"])  # the second one needs `rates`
    assert found["matrix_rate"]["float32_tflops"] > 0
    assert found["utilisation"]["failed"] == "KeyError: 'rates'"
    late = gpu.run(gpu.Bench(torch.device("cpu"), 1.0, True, {}), ["matrix_rate"])
    assert set(late["matrix_rate"]) == {"skipped"}


@pytest.mark.parametrize("encoder", [True, False])
def test_counted_operations_are_those_of_the_matrix_products(encoder: bool) -> None:
    """A full memory's step does the counted operations, by torch's own count of its matrix products and attention."""
    a = Architecture(
        64, (32, 64), ActionSpec("multi_binary", (2,) * 10), encoder, 3, 4, 64, 96, 30, 8, 48, 80, (40, 24)
    )
    policy = ActorCritic(a).double()  # float64 goes through the products that torch counts
    state, obs = policy.initial_state(5), torch.randn(5, 64, dtype=torch.float64)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):  # torch counts no fused attention
        policy.step(obs, state)
    assert sum(gpu.flops(a).values()) == counter.get_total_flops() / 5
