"""Whether the compiled forms serve: chosen once, when this is imported, for the whole process.

`LEAGUE_KERNELS=off` sends all through plain torch; `on` through the compiled forms on processors, too, on which they
have not been measured. Unset, they serve on Linux on processors of Intel's and AMD's. Where they were not built, as
without a C compiler, plain torch serves.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from league.errors import UsageError

SETTING = "LEAGUE_KERNELS"
INTEL, AMD = "GenuineIntel", "AuthenticAMD"
PARTS = ("ring_attention", "segment_attention", "lstm_gates", "lstm_segment", "tile_products", "wide_products")


def vendor_of(cpuinfo: str) -> str:
    """Who made the processor, as the text of /proc/cpuinfo names it; empty where it names nobody, as on Arm."""
    found = re.search(r"^vendor_id\s*:\s*(\S+)", cpuinfo, re.MULTILINE)
    return found[1] if found else ""


def why_off(setting: str | None, vendor: str, missing: str) -> str:
    """Why plain torch serves; empty where the compiled forms do.

    Args:
        setting: the value of `LEAGUE_KERNELS`; None where it is not set.
        vendor: the processor's maker.
        missing: why the compiled modules could not be loaded; empty where they are there.

    Raises:
        UsageError: the setting is neither `on` nor `off`, or `on` where there are no compiled forms.
    """
    if setting not in (None, "", "on", "off"):
        raise UsageError(f"{SETTING}={setting!r} must be on or off; unset it to let the processor decide")
    if setting == "off":
        return f"{SETTING}=off"
    if missing and setting == "on":
        raise UsageError(f"{SETTING}=on: there are {missing}; install a C compiler and reinstall, or unset it")
    if missing:
        return missing
    if vendor in (INTEL, AMD) or setting == "on":
        return ""
    return f"compiled kernels are not measured on this processor ({SETTING}=on tries them)"


def _load() -> tuple[dict[str, Any], str]:
    """The compiled modules by name, and why they are not there."""
    try:
        import league.policies.kernels._lstm_gates as lstm_gates
        import league.policies.kernels._lstm_segment as lstm_segment
        import league.policies.kernels._ring_attention as ring_attention
        import league.policies.kernels._segment_attention as segment_attention
        import league.policies.kernels._tile_products as tile_products
        import league.policies.kernels._wide_products as wide_products
    except ModuleNotFoundError:
        return dict.fromkeys(PARTS), "no compiled kernels"
    attention, recurrent = (ring_attention, segment_attention), (lstm_gates, lstm_segment)
    found = (*attention, *recurrent, tile_products, wide_products)
    return dict(zip(PARTS, found, strict=True)), ""


def _cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:  # not Linux
        return ""


VENDOR = vendor_of(_cpuinfo())
COMPILED, _missing = _load()
"""The compiled modules by name; None for each where they are not there."""
WHY_OFF = why_off(os.environ.get(SETTING), VENDOR, _missing)
IS_ON, IS_MISSING = not WHY_OFF, bool(_missing)


def is_plain(*tensors: Tensor) -> bool:
    """Whether compiled forms can serve: they are on, and the tensors are float32 on a CPU."""
    if not IS_ON:
        return False
    for x in tensors:
        if not x.is_cpu or x.dtype != torch.float32 or x.numel() == 0:
            return False
    return not torch.compiler.is_compiling()  # torch.compile sees only torch's own
