"""Where the nets run: CUDA first, then MPS, then CPU; how precisely, and with how much memory."""

import contextlib
import ctypes
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt
import psutil
import torch

from league.errors import ConfigError

CGROUP = Path("/sys/fs/cgroup")
CONTAINER_FILES = (
    ("memory.max", "memory.current", "inactive_file"),  # version 2
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),  # version 1
)
"""Where Linux says what a container may use of the memory, what it uses, and what of that it would give back."""

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
"""Settings of glibc's `mallopt` (malloc.h): free bytes at the heap's end above which they are given back, bytes asked
of the system beyond what is needed, and how many blocks may be asked of it one by one."""
NEVER = 2**31 - 1
TOP_PAD = 64 * 2**20


def choose_device(name: str) -> torch.device:
    """The device called `name`; `auto` is the best there is. Nothing of this process changes.

    Raises:
        ConfigError: this machine or this build of torch has no such device.
    """
    found = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    chosen = next(kind for kind, there in found.items() if there) if name == "auto" else name
    if not found.get(chosen, False):
        there = ", ".join(kind for kind, is_there in found.items() if is_there)
        raise ConfigError(f"learner.device={name}: this machine has only {there}; pass --device {there.split(', ')[0]}")
    return torch.device(chosen)


def prepare_training(device: torch.device) -> None:
    """What training changes of its process, for good: on CUDA, cuDNN's autotuning is on, and torch does not warn that
    its thread of backward passes begins without a context; on a CPU, what the process frees it keeps
    (`keep_freed_memory`)."""
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True
        warnings.filterwarnings("ignore", "Attempting to run cuBLAS, but there was no current CUDA context")
    if device.type == "cpu":
        keep_freed_memory()


def keep_freed_memory() -> None:
    """Lets this process keep what it frees for its next allocations, where the C library is glibc; elsewhere nothing.

    By default glibc gives large blocks back to the system, which clears them page by page when the next minibatch asks
    for as many: 5 to 15 % of an update of a small network (lab/performance.md).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # no glibc
        return
    mallopt(M_MMAP_MAX, 0)
    mallopt(M_TRIM_THRESHOLD, NEVER)
    mallopt(M_TOP_PAD, TOP_PAD)


def sent(array: npt.NDArray[Any], device: torch.device) -> torch.Tensor:
    """An array of the host's on a device; on CUDA the host does not wait until it is there, and may free it at once."""
    return torch.from_numpy(array).to(device, non_blocking=device.type == "cuda")


def describe_device(device: torch.device) -> str:
    """Name and memory of a device, for the first line of a run."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return f"cuda ({torch.cuda.get_device_name(device)}, {free / 2**30:.1f} of {total / 2**30:.1f} GiB free)"
    memory = f"{read_memory(device).total / 2**30:.1f} GiB"
    threads = f"{torch.get_num_threads()} threads, " if device.type == "cpu" else ""
    return f"{device.type} ({threads}{memory})"


class DeviceMemory(NamedTuple):
    """Bytes of a device's memory."""

    free: int
    total: int


def read_memory(device: torch.device) -> DeviceMemory:
    """The GPU's memory on CUDA, else the machine's, or what a container may use of it."""
    if device.type == "cuda":
        return DeviceMemory(*torch.cuda.mem_get_info(device))
    machine = psutil.virtual_memory()
    total, free = machine.total, machine.available
    for limit, used, cached in CONTAINER_FILES:
        with contextlib.suppress(OSError, KeyError, ValueError):  # no such files, or no limit, which is "max"
            most = int((CGROUP / limit).read_text())
            taken = int((CGROUP / used).read_text()) - _numbers((CGROUP / used).with_name("memory.stat"))[cached]
            total, free = min(total, most), min(free, most - taken)
    return DeviceMemory(max(free, 0), total)


def _numbers(path: Path) -> dict[str, int]:
    """A file of lines such as `MemFree: 12 kB`."""
    return {words[0]: int(words[1]) for words in map(str.split, path.read_text().splitlines())}


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed: Python's and numpy's error, CUDA's, or that of torch's allocator on a CPU."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    causes = ("can't allocate memory", "out of memory", "bad_alloc")
    return isinstance(error, RuntimeError) and any(cause in str(error) for cause in causes)


def has_bf16(device: torch.device) -> bool:
    """Whether a device computes in bf16, and a GPU in TF32: of NVIDIA's those since Ampere (2020) do."""
    if device.type != "cuda" or torch.version.hip is not None:
        return True
    return bool(torch.cuda.get_device_properties(device).major >= 8)


def check_precision(device: torch.device, precision: str) -> None:
    """Refuses bf16 where it would be imitated, many times slower than float32.

    Raises:
        ConfigError: with what to set.
    """
    if precision == "bf16" and not has_bf16(device):
        name = torch.cuda.get_device_name(device)
        raise ConfigError(
            f"learner.precision=bf16: {name} does not compute in bf16 (NVIDIA's GPUs do since Ampere, 2020); use --set"
            f" learner.precision=float32"
        )


def products_of(
    device: torch.device, precision: str, has_tiles: bool, is_compiled: bool = True, has_tf32: bool = True
) -> str:
    """What `learner.precision` makes of matrix products on a device, in words.

    Args:
        has_tiles: a CPU with AMX.
        is_compiled: networks run on compiled kernels where they can, on a CPU.
        has_tf32: a GPU as `has_bf16` has it.
    """
    if device.type == "cpu" and not is_compiled:
        return "bf16 by plain torch" if precision == "bf16" else "float32 by plain torch"
    if precision == "bf16":
        return "bf16"
    if precision == "float32" and device.type == "cuda" and has_tf32:
        return "TF32"
    if precision == "float32" and device.type == "cpu" and has_tiles:
        return "two bf16 a number"
    return "float32"


@contextlib.contextmanager
def products(precision: str) -> Iterator[None]:
    """Multiplies float32 matrices at torch's precision `high`, or at `highest` if `precision` is that, while it lasts.

    `high` is TF32 on CUDA, on a CPU what `league.policies.kernels.linear` makes of it.
    """
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    is_exact = precision == "highest"
    torch.set_float32_matmul_precision("highest" if is_exact else "high")
    torch.backends.cudnn.allow_tf32 = not is_exact
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


@contextlib.contextmanager
def autocast(device: torch.device, precision: str) -> Iterator[None]:
    """The context in which nets run: `products`, and for `bf16` autocast over float32 weights."""
    is_low = precision == "bf16"
    with products(precision), torch.autocast(device.type, torch.bfloat16) if is_low else contextlib.nullcontext():
        yield
