"""Compiled attention over a segment against its torch twin."""

import pytest
import torch

from league.policies.kernels.ring import EncoderMemory
from league.policies.kernels.segment import AttentionSegment, CompiledSegment, segment_of


def memory_of(rows: int, history: int, width: int) -> EncoderMemory:
    """Two layers of a memory in float64, with rows at many places of their matches, the first at its start."""
    both = torch.randn(2, 2, rows, history, width, dtype=torch.float64)
    return EncoderMemory(both, torch.arange(rows) * 3 % (3 * history))


@pytest.mark.parametrize(
    ("heads", "head_width", "history", "steps"),
    [(8, 32, 30, 32), (2, 16, 5, 20), (3, 20, 7, 3), (1, 256, 1, 4), (4, 2, 60, 9), (2, 34, 40, 50), (1, 8, 16, 16)],
)
@pytest.mark.parametrize("num_queries", [1, 3])
@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_compiled_segment_is_the_segment(
    heads: int, head_width: int, history: int, steps: int, num_queries: int, share: float, scale: float, threads: int
) -> None:
    """What it finds and all its gradients are the float64 twin's to float32 rounding, scores sharp or flat."""
    torch.manual_seed(history + heads + num_queries)
    rows, width = 7, heads * head_width
    memory = memory_of(rows, history, width)
    single = EncoderMemory(memory.both.float(), memory.count)
    is_first = torch.rand(rows, steps) < share
    qkv = torch.randn(rows, steps, 3 * width, dtype=torch.float64)
    shared = torch.randn(num_queries, width, dtype=torch.float64) * scale
    qkv[..., :width] *= scale
    upstream = torch.randn(rows, steps, num_queries, width, dtype=torch.float64)

    def attend(segment: AttentionSegment | CompiledSegment, dtype: torch.dtype) -> list[torch.Tensor]:
        both, queries = qkv.to(dtype).requires_grad_(), shared.to(dtype).requires_grad_()
        tokens = (both,) if num_queries == 1 else (both[..., width:], queries)
        found = segment.attend(1, *tokens)
        inputs = [both] if num_queries == 1 else [both, queries]
        return [found.detach(), *torch.autograd.grad(found, inputs, upstream.to(dtype))]

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        ours = attend(CompiledSegment(single, is_first, heads), torch.float32)
    finally:
        torch.set_num_threads(before)
    theirs = attend(AttentionSegment(memory, is_first, heads), torch.float64)
    for found, wanted in zip(ours, theirs, strict=True):
        assert found.shape == wanted.shape
        assert (found - wanted).abs().max() < 1e-5 * scale * max(1.0, float(wanted.abs().max()))


@pytest.mark.parametrize("what", ["float64", "no steps", "plain"])
def test_the_rest_goes_through_torch(what: str) -> None:
    """What the compiled form cannot do it does not try, and what it can it does."""
    memory = memory_of(3, 4, 16)
    if what != "float64":
        memory = EncoderMemory(memory.both.float(), memory.count)
    is_first = torch.zeros(3, 0 if what == "no steps" else 5, dtype=torch.bool)
    assert isinstance(segment_of(memory, is_first, 2), CompiledSegment if what == "plain" else AttentionSegment)
