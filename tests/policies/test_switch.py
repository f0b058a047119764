"""The one switch of the compiled kernels, and what takes their place where it is off."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from league.errors import UsageError
from league.policies.kernels import linear, switch

INTEL = "processor : 0\nvendor_id\t: GenuineIntel\ncpu family : 6\n"
AMD = INTEL.replace("GenuineIntel", "AuthenticAMD")
HYGON = INTEL.replace("GenuineIntel", "HygonGenuine")
ARM = "processor : 0\nBogoMIPS : 50.00\nCPU implementer : 0x41\nCPU part : 0xd0c\n"
MACOS = ""
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("cpuinfo", "is_on"), [(INTEL, True), (AMD, True), (HYGON, False), (ARM, False), (MACOS, False)]
)
def test_only_measured_processors_leave_torch(cpuinfo: str, is_on: bool) -> None:
    """Intel's and AMD's take the compiled forms; all others plain torch unless told."""
    vendor = switch.vendor_of(cpuinfo)
    assert (switch.why_off(None, vendor) == "") == is_on
    assert switch.why_off("on", vendor) == ""
    assert switch.why_off("off", vendor) == "LEAGUE_KERNELS=off"


@pytest.mark.parametrize("setting", ["of", "0", "ON", "true"])
def test_any_other_value_is_refused(setting: str) -> None:
    with pytest.raises(UsageError, match=f"LEAGUE_KERNELS='{setting}' must be on or off; unset it"):
        switch.why_off(setting, "GenuineIntel")


def run(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, since the switch is read once."""
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True
    )


def test_off_means_plain_torch_everywhere() -> None:
    """No compiled form serves, whatever the processor."""
    code = (
        "import torch; from league.policies.kernels import linear, lstm, ring, segment, switch;"
        "m = ring.EncoderMemory(torch.zeros(2, 1, 2, 3, 8), torch.zeros(2, dtype=torch.int64));"
        "torch.set_grad_enabled(False); first = torch.zeros(2, 4, dtype=torch.bool);"
        "print(switch.IS_ON, linear.USES_WIDE, linear.has_tiles(), switch.is_plain(m.keys),"
        "type(ring.ring_of(m, m.count, None, 2)).__name__, type(segment.segment_of(m, first, 2)).__name__)"
    )
    done = run(code, LEAGUE_KERNELS="off")
    assert done.stdout.split() == ["False", "False", "False", "False", "Ring", "AttentionSegment"], done.stderr


@pytest.mark.slow
def test_a_wrong_value_is_one_line_of_the_command(tmp_path: Path) -> None:
    """The command that needs a network ends with it, exit code 2."""
    done = subprocess.run(
        [sys.executable, "-m", "league", "train", "--stage", "smoke", "--store", str(tmp_path / "league.duckdb")],
        cwd=ROOT,
        env={**os.environ, "LEAGUE_KERNELS": "maybe"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "LEAGUE_KERNELS='maybe' must be on or off" in done.stderr


@pytest.mark.slow
def test_training_without_kernels_says_so_and_learns(tmp_path: Path) -> None:
    """A small run with LEAGUE_KERNELS=off trains to its end, says so in one line, and keeps that in its state."""
    sizes = ["agent.encoder_layers=1", "agent.encoder_width=32", "agent.lstm_size=32", "agent.latents=2"]
    sets = [word for size in sizes for word in ("--set", size)]
    command = ["train", "--env", "matrix", "--stage", "smoke", "--device", "cpu", *sets]
    done = subprocess.run(
        [sys.executable, "-m", "league", *command, "--store", str(tmp_path / "league.duckdb"), "--json"],
        cwd=ROOT,
        env={**os.environ, "LEAGUE_KERNELS": "off"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if "LEAGUE_KERNELS=off" in line]
    assert len(told) == 1 and "networks run on plain torch" in told[0]
    assert json.loads(done.stdout)["steps"] >= 4096
    texts = [path.read_text() for path in (tmp_path).rglob("*.json")]
    assert any("float32 by plain torch" in text for text in texts)


def test_what_has_no_product_of_its_own_multiplies_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the processor lacks AVX-512 or is another's, a product is torch's own."""
    monkeypatch.setattr(linear, "USES_WIDE", False)
    x, weight = torch.randn(5, 7), torch.randn(3, 7)
    assert torch.equal(linear.linear(x, weight), torch.nn.functional.linear(x, weight))
