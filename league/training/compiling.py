"""Functions of the network through `torch.compile`, where this machine can compile them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

COMPILERS = ("torch._dynamo", "torch._inductor")


def compiled(function: Callable[..., Any], say: Callable[[str], None]) -> Callable[..., Any]:
    """`function` through `torch.compile`; where that fails, `function` itself from then on, and one line of why."""
    chosen = torch.compile(function, dynamic=True)

    def call(*arguments: Any) -> Any:
        nonlocal chosen
        try:
            return chosen(*arguments)
        except Exception as error:
            if chosen is function or not type(error).__module__.startswith(COMPILERS):
                raise
            chosen = function
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            say(f"learner.compile: learning cannot be compiled here ({reason}); it runs as it is")
            return function(*arguments)

    return call
