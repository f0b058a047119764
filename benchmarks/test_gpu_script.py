"""The script that looks at a GPU works from end to end, at toy sizes on a CPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import gpu
from benchmarks.gpu_bench import Bench, Pairs
from benchmarks.gpu_page import GOALS, page
from league.errors import UsageError

ROOT = Path(__file__).resolve().parent.parent


NEED_CUDA = {"graphs", "failed_capture", "moving", "memory", "compile_rates"}
"""Sections that a CPU cannot do."""


@pytest.mark.slow
@pytest.mark.timeout(1_500)
def test_every_section_runs_at_toy_sizes(tmp_path: Path) -> None:
    """Each gives figures, or says that a CPU cannot give them; what must hold holds; the page is printed."""
    command = [sys.executable, "-m", "benchmarks.gpu", "--tiny", "--seconds", "6000", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "gpu.json").read_text())["sections"]
    assert list(found) == list(gpu.NAMES)
    assert not {name: x["failed"] for name, x in found.items() if "failed" in x}
    skipped = {name for name, x in found.items() if "skipped" in x}
    assert skipped == (set() if torch.cuda.is_available() else NEED_CUDA)
    checks = {(name, key): x for name, section in found.items() for key, x in section.items() if isinstance(x, bool)}
    assert len(checks) >= 8 and all(checks.values()), checks
    assert found["training"]["status"] in ("finished", "stopped") and found["training"]["steps"] >= 64
    text = (tmp_path / "gpu.md").read_text()
    assert text.strip() == done.stdout.strip() and "missed" not in text
    assert text.count("not measured: no CUDA") == sum(goal.section in skipped for goal in GOALS)


def test_a_section_that_fails_or_takes_too_long_leaves_the_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error stands in its figures, beside what it had; a later call does it again, and keeps what is done."""
    done = {"rates": {"a_figure": 7.5}}
    (tmp_path / "gpu.json").write_text(json.dumps({"bench": "gpu", **gpu.head(True), "sections": done}))

    def broken(bench: Bench) -> Pairs:
        yield "found", 1
        raise ValueError("it")

    monkeypatch.setitem(gpu.NAMES, "threads", broken)
    gpu.section(tmp_path, "threads", True)
    kept = json.loads((tmp_path / "threads.part.json").read_text())
    assert kept == {"found": 1, "failed": "ValueError: it"}
    monkeypatch.delitem(gpu.NAMES, "threads")
    again = gpu.run_all(tmp_path, ["sweep"], 600.0, True, limit=0.2)["sections"]
    assert again["sweep"]["failed"] == "it took more than its 0.2 s"
    assert list(again) == ["rates", "sweep"] and again["rates"] == done["rates"]
    assert json.loads((tmp_path / "gpu.json").read_text())["sections"] == again
    assert "- a figure: 7.5" in (tmp_path / "gpu.md").read_text()
    assert gpu.run_all(tmp_path, [], 1.0, True)["sections"] == again, "no section has a limit that fits"
    with pytest.raises(UsageError, match="give another folder"):
        gpu.run_all(tmp_path, [], 1.0, False)


def test_the_page_says_which_goals_are_reached() -> None:
    """A figure stands beside what is wanted; what fails, is missed or was not measured is told apart."""
    rates = {f"{name}_bf16": {"train_steps_per_second": rate} for name, rate in (("beast", 60_000), ("fast", 5_000))}
    frozen = {"2048_rows_bf16": {"ratio_graph": 1.2}, "2048_rows_float32": {"ratio_graph": 1.3}}
    sections = {"rates": rates, "frozen": frozen, "lanes": {"failed": "RuntimeError: it"}, "graphs": {"skipped": "why"}}
    lanes = {"is_determined": True, "is_in_turn": False, "resumes_alike": True}
    found = {"device": "a card", "torch": "2", "python": "3", "cores": 1, "tiny": False, "sections": sections}
    text = page(found, dict.fromkeys([*sections, "sweep"], "What it is."))
    for line in (
        "| `beast`, bf16, 10 million steps | under 180 s | 167 s at 60,000 steps/s | reached |",
        "| `beast`, float32, 10 million steps | under 180 s | | not measured: `--only rates` |",
        "| `fast`, bf16, 10 million steps | under 20 minutes | 2,000 s at 5,000 steps/s | **missed** |",
        "| 16 frozen nets, bf16, 2,048 rows | at most 1.25 times one | 1.2 times | reached |",
        "| 16 frozen nets, float32, 2,048 rows | at most 1.25 times one | 1.3 times | **missed** |",
        "| two lanes | the same again, in turn and resumed | | not measured: it failed |",
        "| play as CUDA graphs | plain calls, bit for bit | | not measured: why |",
        "Not measured yet: `python -m benchmarks.gpu --only sweep --out FOLDER`.",
    ):
        assert line in text.splitlines(), line
    assert "not so: is in turn | **missed**" in page({**found, "sections": {"lanes": lanes}}, {"lanes": ""})
