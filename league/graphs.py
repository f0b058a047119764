"""A step of the nets as CUDA graphs: one call launches hundreds of small kernels, without Python between them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import torch

from league.device import is_out_of_memory
from league.opponents import Group

Result = TypeVar("Result")
Nets = Callable[[list[Group]], Result]


class StepGraphs(Generic[Result]):
    """Calls a function of groups, and from the second call of one shape on replays what it did on the device.

    The function must do the same work on the same tensors at each call of a shape, and wait for nothing. What it
    returns holds until the next call. The numbers are those of plain calls, but for the casts of bf16's autocast, which
    are made anew in every replay, so that it sees weights that have changed.

    Args:
        generator: what the function draws from, on the device.
        precision: `float32` or `bf16`.
        say: is told once, in a line, if graphs cannot be had; plain calls are made from then on.
    """

    def __init__(self, generator: torch.Generator, precision: str, say: Callable[[str], None]) -> None:
        self._generator, self._precision, self._say = generator, precision, say
        self._is_on = generator.device.type == "cuda"
        if not self._is_on:
            say(f"learner.compile: {generator.device.type} has no CUDA graphs; steps run as they are")
        self._fixed: dict[Hashable, list[Group]] = {}
        self._captured: dict[Hashable, tuple[torch.cuda.CUDAGraph, Result]] = {}
        self._memory = torch.cuda.graph_pool_handle() if self._is_on else None

    def call(self, shape: Hashable, nets: Nets[Result], groups: list[Group]) -> tuple[Result, list[Group]]:
        """What `nets` returns for `groups`, and the groups at fixed places that stand for them from now on."""
        if not self._is_on:
            return nets(groups), groups
        is_known = shape in self._fixed
        fixed = self._fixed.setdefault(shape, groups)
        if fixed is not groups:
            for there, now in zip(fixed, groups, strict=True):
                there.rows.copy_(now.rows)
        if not is_known:  # the first call warms up what capture must not
            return nets(fixed), fixed
        if shape not in self._captured:
            try:
                self._captured[shape] = self._capture(nets, fixed)
            except RuntimeError as error:
                if is_out_of_memory(error):
                    raise
                self._is_on = False
                self._say(f"learner.compile: no CUDA graph can be made ({_first_line(error)}); steps run as they are")
                return nets(fixed), fixed
        graph, result = self._captured[shape]
        graph.replay()
        return result, fixed

    def _capture(self, nets: Nets[Result], groups: list[Group]) -> tuple[torch.cuda.CUDAGraph, Result]:
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        is_bf16 = self._precision == "bf16"
        with (
            torch.cuda.graph(graph, pool=self._memory, capture_error_mode="thread_local"),
            torch.autocast("cuda", torch.bfloat16, enabled=is_bf16, cache_enabled=False),
        ):
            result = nets(groups)
        return graph, result


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
