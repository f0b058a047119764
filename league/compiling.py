"""Functions of the network through `torch.compile`, where this machine can compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def compiled(function: Callable[..., Any], say: Callable[[str], None]) -> Callable[..., Any]:
    """`function` through `torch.compile`; where the machine cannot compile, `function` itself and one line of why."""
    try:
        probe = torch.compile(torch.erf, dynamic=False)(torch.zeros(2, requires_grad=True))
        torch.autograd.backward(probe.sum())
    except Exception as error:  # each backend of torch.compile fails in its own ways
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        say(f"learner.compile: this machine cannot compile ({reason}); learning runs as it is")
        return function
    return torch.compile(function, dynamic=True)
