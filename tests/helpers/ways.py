"""The ways that products of float32 take on a CPU."""

import pytest
import torch

import league.policies.kernels.linear as linear

WAYS = ("MKL", "wide", "tiles")


def choose(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sends every such product this way; skips the test where this processor cannot. `wide` can without AVX-512."""
    monkeypatch.setattr(linear, "USES_WIDE", way == "wide")
    monkeypatch.setattr(linear, "FEWEST_ROWS_WIDE", 1)
    monkeypatch.setattr(linear, "FEWEST_COLUMNS_WIDE", 1)
    if way == "tiles":
        if not linear.has_tiles():
            pytest.skip("this processor has no tile units for bf16")
        for name in ("FEWEST_ROWS", "FEWEST_ROWS_LAID_OUT", "FEWEST", "SMALLEST"):
            monkeypatch.setattr(linear, name, 1)
        torch.set_float32_matmul_precision("high")
