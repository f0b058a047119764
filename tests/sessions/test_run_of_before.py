"""A run that was saved before the engine had rooms goes on as it would have then.

`run_before_rooms.tar.xz` holds a run of brawl at commit c0fc596, stopped at 512 of 1,024 steps: its store, states and
snapshots, with plain torch and products of full precision. `ending.json` and `ending.safetensors` are what that commit
made of the other half.
"""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file

from league.store.store import Store

RECORDED = Path(__file__).parents[1] / "golden" / "run_before_rooms.tar.xz"


def processor() -> list[str]:
    """Maker, family and model, as Linux names them."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return [x.split(":")[1].strip() for x in lines if x.startswith(("vendor_id", "cpu family", "model\t"))][:3]


def test_a_run_saved_before_goes_on_as_it_did(tmp_path: Path) -> None:
    """Same snapshots, matches and weights: bit for bit with that torch and processor, to 1e-5 elsewhere."""
    with tarfile.open(RECORDED) as archive:
        archive.extractall(tmp_path, filter="data")
    ending: dict[str, Any] = json.loads((tmp_path / "ending.json").read_text())
    where = str(tmp_path / "league.duckdb")
    resume = [sys.executable, "-m", "league", "resume", "before", "--store", where, "--quiet"]
    subprocess.run(resume, check=True, env={**os.environ, "LEAGUE_KERNELS": "off"})
    store = Store.open(tmp_path / "league.duckdb")
    row = store.find_run("before")
    assert (row.status, row.steps) == ("finished", 1024)
    snapshots = [[row.step, row.update, row.agent_id] for row in store.snapshots("before")]
    played = [
        [
            m.update,
            m.row,
            m.ordinal,
            list(m.agents),
            m.seed,
            m.steps,
            m.winner,
            {term: list(sums) for term, sums in m.rewards.items()},
        ]
        for m in store.matches("before", "training")
    ]
    recorded, weights = (
        load_file(path)
        for path in (tmp_path / "ending.safetensors", tmp_path / "before/snapshots/0000001024/weights.safetensors")
    )
    assert recorded.keys() == weights.keys()
    for name, numbers in recorded.items():
        np.testing.assert_allclose(weights[name], numbers, rtol=1e-5, atol=1e-5, err_msg=name)
    if (torch.__version__, processor()) == (ending["torch"], ending["processor"]):
        assert [row[:2] for row in snapshots] == [row[:2] for row in ending["snapshots"]]  # sums of another order
        assert played == ending["matches"]
