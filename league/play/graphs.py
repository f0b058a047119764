"""A step of the nets as CUDA graphs: one call launches hundreds of small kernels, without Python between them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from league.runtime.device import is_out_of_memory

Result = TypeVar("Result")
Given = TypeVar("Given", bound="Changing")
END_ALLOCATION = ("_cuda_endAllocateToPool", "_cuda_endAllocateCurrentStreamToPool")
"""What ends allocation to a graph's memory, in torch from 2.7 on and in 2.6."""


MOST_KNOWN = 64
"""Kinds of calls that are remembered; with more, all are forgotten."""


class Changing(Protocol):
    """What a call is given that may lie elsewhere at the next one."""

    def tensors(self) -> Sequence[Tensor]:
        """Its tensors, in an order that does not change."""


class GraphCapture(Protocol):
    """Captures a piece of work on a device, to do it again. Tests put a double in its place that runs on a CPU."""

    def capture(self, work: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        """What does the work again, reading and writing the same addresses, and the result that it then overwrites.

        The work itself is not done.

        Raises:
            RuntimeError: it cannot be captured; generator, stream and allocator are as they were before.
        """


class CudaRecorder:
    """Captures CUDA graphs, all in one pool of memory.

    Args:
        generator: what the work draws from, on the device.
        precision: `float32` or `bf16`.
    """

    def __init__(self, generator: torch.Generator, precision: str) -> None:
        self._generator, self._is_bf16 = generator, precision == "bf16"
        self._memory = torch.cuda.graph_pool_handle()

    def capture(self, work: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        """See `GraphCapture.capture`."""
        stream, drawn = torch.cuda.current_stream(self._generator.device), self._generator.get_state()
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        try:
            with (
                torch.cuda.graph(graph, pool=self._memory, capture_error_mode="thread_local"),
                torch.autocast("cuda", torch.bfloat16, enabled=self._is_bf16, cache_enabled=False),
            ):
                result = work()
        except BaseException:
            self._recover(stream, drawn)
            raise
        return graph.replay, result

    def _recover(self, stream: torch.cuda.Stream, drawn: Tensor) -> None:
        """Undoes what `torch.cuda.graph` leaves behind where the capture cannot be ended.

        The current stream is still the capture's and the allocator still believes that one is under way. In older
        versions of torch, 2.6 among them, the generator's state counts as being captured and refuses every draw.
        """
        torch.cuda.set_stream(stream)
        fresh = torch.Generator(self._generator.device)
        fresh.set_state(drawn)
        self._generator.graphsafe_set_state(fresh)
        end = next((getattr(torch._C, name) for name in END_ALLOCATION if hasattr(torch._C, name)), None)
        if end is not None:
            with contextlib.suppress(RuntimeError):  # it was ended
                end(stream.device_index, self._memory)


@dataclass
class _Captured(Generic[Given, Result]):
    """A call that has been made before."""

    given: list[Given]
    addresses: tuple[int, ...]
    """Of all that it reads besides what it is given."""
    captured: tuple[Callable[[], None], Result] | None = None


class StepGraphs(Generic[Given, Result]):
    """Calls a function of tensors, and from the second call of one kind on replays what it did on the device.

    The function must do the same work at each call of one key whose tensors are where they were, and wait for nothing.
    A graph reads addresses, not tensors: it is replayed only while all that the function reads lies where it lay when
    the graph was captured. Where something has moved, every graph that read it is dropped and made again. What the
    function returns holds until the next call. The numbers are those of plain calls, but for the casts of bf16's
    autocast, which are made again in every replay, so that it sees weights that have changed.

    Args:
        generator: what the function draws from, on the device.
        precision: `float32` or `bf16`.
        say: is told once, in a line, if graphs cannot be had; plain calls are made from then on.
        recorder: captures; by default CUDA graphs, where the generator's device has them.
    """

    def __init__(
        self,
        generator: torch.Generator,
        precision: str,
        say: Callable[[str], None],
        recorder: GraphCapture | None = None,
    ) -> None:
        self._say, self._recorder = say, recorder
        if recorder is None and generator.device.type == "cuda":
            self._recorder = CudaRecorder(generator, precision)
        if self._recorder is None:
            say(f"learner.compile: {generator.device.type} has no CUDA graphs; steps run as they are")
        self._known: dict[Hashable, _Captured[Given, Result]] = {}

    def call(
        self, key: Hashable, work: Callable[[list[Given]], Result], given: list[Given], reads: Iterable[Tensor]
    ) -> Result:
        """What `work` returns for what is `given`; the tensors of a key's first call are written to by later ones.

        Args:
            key: calls of one key do the same work on tensors of the same sizes.
            work: the function.
            given: tensors that may be others, of the same sizes, from call to call.
            reads: all other tensors that the function reads or writes and does not make.
        """
        if self._recorder is None:
            return work(given)
        addresses = tuple(tensor.data_ptr() for tensor in reads)
        known = self._known.get(key)
        if known is not None and known.addresses != addresses:
            self._drop({*known.addresses} - {*addresses})
            known = None
        if known is None:  # the first call warms up what capture must not
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[key] = _Captured(given, addresses)
            return work(given)
        fixed = known.given
        there, now = ([x for part in side for x in part.tensors()] for side in (fixed, given))
        moved = [i for i, (x, y) in enumerate(zip(there, now, strict=True)) if x is not y]
        if moved:
            torch._foreach_copy_([there[i] for i in moved], [now[i] for i in moved])
        if known.captured is None:
            try:
                known.captured = self._recorder.capture(lambda: work(fixed))
            except RuntimeError as error:
                cause = _cause(error)
                if is_out_of_memory(cause):
                    raise cause from None
                self._recorder = None
                self._known.clear()
                reason = (str(cause).splitlines() or [type(cause).__name__])[0]
                self._say(f"learner.compile: no CUDA graph can be made ({reason}); steps run as they are")
                return work(fixed)
        replay, result = known.captured
        replay()
        return result

    def _drop(self, moved: set[int]) -> None:
        """Forgets every call that read one of these addresses."""
        self._known = {key: known for key, known in self._known.items() if moved.isdisjoint(known.addresses)}


def _cause(error: BaseException) -> BaseException:
    """The error that others followed: a capture that fails cannot be ended either."""
    while isinstance(error.__context__, RuntimeError):
        error = error.__context__
    return error
