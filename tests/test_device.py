"""What a device's choice changes in this process."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from league.errors import ConfigError
from league.runtime.device import autocast, check_precision, choose_device, has_bf16, products_of

FAULTS = """
import resource, sys
import torch
from league.runtime.device import choose_device, prepare_training
device = choose_device("cpu")
if sys.argv[1] == "kept":
    prepare_training(device)
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    [torch.ones(3_000_000 + 1_000_000 * i) for i in range(8)]
before = faults()
for _ in range(3):
    [torch.ones(3_000_000 + 1_000_000 * i) for i in range(8)]
print(faults() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc alone is told to keep memory")
def test_a_process_that_trains_on_a_cpu_keeps_what_it_frees() -> None:
    """Tensors of 12 to 40 MB made again cost next to no page faults, which they do by the thousand otherwise."""
    faults = {}
    for kind in ("kept", "returned"):
        done = subprocess.run([sys.executable, "-c", FAULTS, kind], capture_output=True, text=True, check=True)
        faults[kind] = int(done.stdout)
    if faults["returned"] < 1000:
        pytest.skip("this C library keeps memory by itself")
    assert faults["kept"] < faults["returned"] / 2, faults


@pytest.mark.parametrize(("precision", "products"), [("float32", "high"), ("bf16", "high"), ("highest", "highest")])
def test_a_precision_says_how_exact_products_are(precision: str, products: str) -> None:
    """torch's own setting carries it while nets run: TF32 on CUDA, tile units on a CPU, neither for `highest`."""
    device, before = choose_device("cpu"), (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32)
    with autocast(device, precision):
        assert torch.get_float32_matmul_precision() == products
        assert torch.backends.cudnn.allow_tf32 == (products == "high")
        assert torch.is_autocast_enabled("cpu") == (precision == "bf16")
    assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == before


@pytest.mark.parametrize(("name", "major"), [("Tesla T4", 7), ("NVIDIA L4", 8), ("NVIDIA H100", 9)])
def test_bf16_is_refused_where_a_gpu_would_imitate_it(name: str, major: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names the card and what to set; such a card has no TF32 either; others, and CPUs, take it."""
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(major=major))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    gpu = torch.device("cuda")
    check_precision(torch.device("cpu"), "bf16")
    check_precision(gpu, "float32")
    if major < 8:
        with pytest.raises(ConfigError, match=rf"=bf16: {name} does not .* learner\.precision=float32$"):
            check_precision(gpu, "bf16")
    else:
        check_precision(gpu, "bf16")
    assert products_of(gpu, "float32", False, has_tf32=has_bf16(gpu)) == ("float32" if major < 8 else "TF32")
