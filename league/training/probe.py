"""The health probe: the first step of the next rollout, as it was when a run's state was saved and as it is now.

Equal bits say that weights, memories, matches and generators came back, and that this machine computes as that one.
Only the learner's net plays, on a copy of what it remembers, with a copy of the generator: nothing is changed.
"""

from __future__ import annotations

import platform
from typing import Any

import torch

from league.play.rollout import Collector
from league.runtime.device import autocast
from league.runtime.process import draws_kept


def foresee(collector: Collector) -> dict[str, Any]:
    """What the learner's net would do in the next step of every row, and on what.

    Returns:
        action (B, A), log_prob (B,), value (B,): tensors on the CPU; `on`: device, threads and torch in words.
    """
    generator = torch.Generator(collector.device)
    generator.set_state(collector.generator.get_state())
    with draws_kept(), autocast(collector.device, collector.precision):
        steps = [lane.nets.foresee(generator) for lane in collector.lanes]
    name = torch.cuda.get_device_name(collector.device) if collector.device.type == "cuda" else platform.machine()
    threads = f", {torch.get_num_threads()} threads" if collector.device.type == "cpu" else ""
    return {
        "action": torch.cat([step.action for step in steps]).cpu(),
        "log_prob": torch.cat([step.log_prob for step in steps]).cpu(),
        "value": torch.cat([step.value for step in steps]).cpu(),
        "on": f"torch {torch.__version__}, {collector.device.type} ({name}{threads}, {collector.precision})",
    }


def compare(saved: dict[str, Any], now: dict[str, Any], *, is_drawn_alike: bool = True) -> tuple[bool, str]:
    """Whether two probes are equal bit for bit, and a sentence that says so or how far they are apart.

    is_drawn_alike: whether both drew their actions from one generator's state in one order; else only the values, which
        do not depend on the draw, can be compared.
    """
    rows = len(saved["action"])
    if not is_drawn_alike:
        apart = float((saved["value"] - now["value"]).abs().max())
        return False, (
            f"health probe: the next step of all {rows} rows draws other actions than the one that was saved; its"
            f" values differ by up to {apart:.2g} (saved on {saved['on']}, now on {now['on']})"
        )
    if all(torch.equal(saved[name], now[name]) for name in ("action", "log_prob", "value")):
        return True, f"health probe: the next step of all {rows} rows is, bit for bit, the one that was saved"
    others = int((saved["action"] != now["action"]).any(dim=1).sum())
    log_prob, value = (float((saved[name] - now[name]).abs().max()) for name in ("log_prob", "value"))
    where = f"saved on {saved['on']}, now on {now['on']}" if saved["on"] != now["on"] else f"both on {now['on']}"
    return False, (
        f"health probe: the next step differs from the one that was saved: {others} of {rows} rows act otherwise,"
        f" log-probabilities by up to {log_prob:.2g}, values by up to {value:.2g} ({where}); the run goes on, but it is"
        f" not bit for bit the one that it was"
    )
