"""Whether the compiled forms serve: chosen once, when this is imported, for the whole process.

`LEAGUE_KERNELS=off` sends all through plain torch; `on` through the compiled forms on processors, too, on which they
have not been measured. Unset, they serve on Linux on processors of Intel's and AMD's.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from league.errors import LeagueError, UsageError

SETTING = "LEAGUE_KERNELS"
INTEL, AMD = "GenuineIntel", "AuthenticAMD"
PARTS = ("ring_attention", "segment_attention", "lstm_gates", "lstm_segment", "tile_products", "wide_products")


def vendor_of(cpuinfo: str) -> str:
    """Who made the processor, as the text of /proc/cpuinfo names it; empty where it names nobody, as on Arm."""
    found = re.search(r"^vendor_id\s*:\s*(\S+)", cpuinfo, re.MULTILINE)
    return found[1] if found else ""


def why_off(setting: str | None, vendor: str) -> str:
    """Why plain torch serves; empty where the compiled forms do.

    Args:
        setting: the value of `LEAGUE_KERNELS`; None where it is not set.
        vendor: the processor's maker.

    Raises:
        UsageError: the setting is neither `on` nor `off`.
    """
    if setting not in (None, "", "on", "off"):
        raise UsageError(f"{SETTING}={setting!r} must be on or off; unset it to let the processor decide")
    if setting == "off":
        return f"{SETTING}=off"
    if vendor in (INTEL, AMD) or setting == "on":
        return ""
    return f"compiled kernels are not measured on this processor ({SETTING}=on tries them)"


def _load() -> dict[str, Any]:
    """The compiled modules by name.

    Raises:
        LeagueError: they are not there.
    """
    try:
        import league.policies.kernels._lstm_gates as lstm_gates
        import league.policies.kernels._lstm_segment as lstm_segment
        import league.policies.kernels._ring_attention as ring_attention
        import league.policies.kernels._segment_attention as segment_attention
        import league.policies.kernels._tile_products as tile_products
        import league.policies.kernels._wide_products as wide_products
    except ImportError as error:
        raise LeagueError(f"league is not compiled ({error}); run `make build`, or install it again") from None
    attention, recurrent = (ring_attention, segment_attention), (lstm_gates, lstm_segment)
    return dict(zip(PARTS, (*attention, *recurrent, tile_products, wide_products), strict=True))


def _cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:  # not Linux
        return ""


VENDOR = vendor_of(_cpuinfo())
COMPILED = _load()
"""The compiled modules by name."""
WHY_OFF = why_off(os.environ.get(SETTING), VENDOR)
IS_ON = not WHY_OFF


def is_plain(*tensors: Tensor) -> bool:
    """Whether compiled forms can serve: they are on, and the tensors are float32 on a CPU."""
    if not IS_ON:
        return False
    for x in tensors:
        if not x.is_cpu or x.dtype != torch.float32 or x.numel() == 0:
            return False
    return not torch.compiler.is_compiling()  # torch.compile sees only torch's own
