"""Compiled attention, of one step of play and over a segment, against its torch reference."""

import pytest
import torch

from league.policies.kernels import _ring_attention as ring_attention
from league.policies.kernels.ring import CompiledRing, EncoderMemory, Ring, ring_of
from league.policies.kernels.segment import AttentionSegment, CompiledSegment, segment_of


def memory_of(rows: int, history: int, width: int) -> EncoderMemory:
    """Two layers of a memory in float64, with rows at many places of their matches, the first at its start."""
    both = torch.randn(2, 2, rows, history, width, dtype=torch.float64)
    return EncoderMemory(both, torch.arange(rows) * 3 % (3 * history))


def single(memory: EncoderMemory) -> EncoderMemory:
    """In float32."""
    return EncoderMemory(memory.both.float(), memory.count)


@pytest.mark.parametrize(
    ("heads", "head_width", "history"), [(8, 32, 30), (2, 16, 5), (3, 20, 7), (1, 256, 1), (4, 2, 60)]
)
@pytest.mark.parametrize("rows", [None, [0], [11, 2, 7, 3]])
@pytest.mark.parametrize(("num_queries", "is_shared"), [(1, False), (8, True)])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_the_compiled_ring_is_the_ring(
    heads: int,
    head_width: int,
    history: int,
    rows: list[int] | None,
    num_queries: int,
    is_shared: bool,
    scale: float,
) -> None:
    """Both write the same keys and values and find the same, to float32 rounding of the float64 form, sharp or flat."""
    torch.manual_seed(history + heads)
    width = heads * head_width
    reference = memory_of(12, history, width)
    mine = single(reference)
    places = None if rows is None else torch.tensor(rows)
    count = mine.count if places is None else mine.count[places]
    n = len(count)
    tokens = torch.randn(n, (2 if is_shared else 3) * width)
    queries = torch.randn(num_queries, width) * scale if is_shared else None
    if queries is None:
        tokens[:, :width] *= scale
    with torch.no_grad():
        ring = ring_of(mine, count, places, heads)
        assert isinstance(ring, CompiledRing)
        found = ring.attend(1, tokens, queries)
        exact = None if queries is None else queries.double()
        wanted = Ring(reference, count, places, heads).attend(1, tokens.double(), exact)
    assert found.shape == wanted.shape == (n, num_queries, width)
    assert (found.double() - wanted).abs().max() < 1e-5 * scale
    assert (mine.keys.double() - reference.keys).abs().max() < 1e-5 and torch.equal(
        mine.values, reference.values.float()
    )
    assert torch.equal(mine.keys[0], reference.keys[0].float()), "another layer was written"


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
    torch.manual_seed(history + heads + num_queries)
    rows, width = 7, heads * head_width
    memory = memory_of(rows, history, width)
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
        ours = attend(CompiledSegment(single(memory), is_first, heads), torch.float32)
    finally:
        torch.set_num_threads(before)
    theirs = attend(AttentionSegment(memory, is_first, heads), torch.float64)
    for found, wanted in zip(ours, theirs, strict=True):
        assert found.shape == wanted.shape
        assert (found - wanted).abs().max() < 1e-5 * scale * max(1.0, float(wanted.abs().max()))


@pytest.mark.parametrize("what", ["gradients", "float64", "a history too long", "no rows", "plain"])
def test_what_the_compiled_forms_cannot_do_goes_through_torch(what: str) -> None:
    """Of a step and of a segment."""
    memory = memory_of(3, ring_attention.LONGEST_HISTORY + 1 if what == "a history too long" else 4, 16)
    memory = memory if what == "float64" else single(memory)
    rows = torch.tensor([], dtype=torch.int64) if what == "no rows" else None
    with torch.set_grad_enabled(what == "gradients"):
        count = memory.count if rows is None else memory.count[:0]
        assert isinstance(ring_of(memory, count, rows, 2), CompiledRing if what == "plain" else Ring)
    is_first = torch.zeros(3, 0 if what == "no rows" else 5, dtype=torch.bool)
    kind = AttentionSegment if what in ("float64", "no rows") else CompiledSegment
    assert what == "a history too long" or isinstance(segment_of(memory, is_first, 2), kind)
