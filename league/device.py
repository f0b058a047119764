"""Where the nets run: CUDA first, then MPS, then CPU; and how precisely."""

import contextlib
import os
from contextlib import AbstractContextManager

import torch

from league.errors import ConfigError


def choose_device(name: str) -> torch.device:
    """The device called `name`; `auto` is the best there is. On CUDA, TF32 and cuDNN's autotuning are switched on.

    Raises:
        ConfigError: this machine or this build of torch has no such device.
    """
    found = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    chosen = next(kind for kind, there in found.items() if there) if name == "auto" else name
    if not found.get(chosen, False):
        there = ", ".join(kind for kind, is_there in found.items() if is_there)
        raise ConfigError(f"learner.device={name}: this machine has only {there}; pass --device {there.split(', ')[0]}")
    if chosen == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
    return torch.device(chosen)


def describe_device(device: torch.device) -> str:
    """Name and memory of a device, for the first line of a run."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return f"cuda ({torch.cuda.get_device_name(device)}, {free / 2**30:.1f} of {total / 2**30:.1f} GiB free)"
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        memory = f"{total / 2**30:.1f} GiB"
    except (ValueError, OSError, AttributeError):
        memory = "memory unknown"
    threads = f"{torch.get_num_threads()} threads, " if device.type == "cpu" else ""
    return f"{device.type} ({threads}{memory})"


def autocast(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """The context in which nets run: bf16 autocast over float32 weights, or nothing."""
    if precision == "bf16":
        return torch.autocast(device.type, torch.bfloat16)
    return contextlib.nullcontext()
