"""Compiled attention of one step of play against its torch twin."""

import pytest
import torch

from league.policies.kernels import _ring_attention as ring_attention
from league.policies.kernels.ring import CompiledRing, EncoderMemory, Ring, ring_of


def memory_of(rows: int, history: int, width: int) -> EncoderMemory:
    """Two layers of a ring, with rows at many places of their matches."""
    return EncoderMemory(torch.randn(2, 2, rows, history, width), torch.arange(rows) * 3 % (3 * history))


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
    """Both write the same keys and values and find the same, to float32 rounding of the float64 twin, sharp or flat."""
    torch.manual_seed(history + heads)
    width = heads * head_width
    mine = memory_of(12, history, width)
    twin = EncoderMemory(mine.both.double(), mine.count)
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
        wanted = Ring(twin, count, places, heads).attend(1, tokens.double(), exact)
    assert found.shape == wanted.shape == (n, num_queries, width)
    assert (found.double() - wanted).abs().max() < 1e-5 * scale
    assert (mine.keys.double() - twin.keys).abs().max() < 1e-5 and torch.equal(mine.values, twin.values.float())
    assert torch.equal(mine.keys[0], twin.keys[0].float()), "another layer was written"


@pytest.mark.parametrize("what", ["gradients", "float64", "a history too long", "no rows"])
def test_the_rest_goes_through_torch(what: str) -> None:
    """What the compiled form cannot do it does not try."""
    history = ring_attention.LONGEST_HISTORY + 1 if what == "a history too long" else 4
    memory = memory_of(3, history, 16)
    rows = torch.tensor([], dtype=torch.int64) if what == "no rows" else None
    if what == "float64":
        memory = EncoderMemory(memory.both.double(), memory.count)
    with torch.set_grad_enabled(what == "gradients"):
        count = memory.count[:0] if what == "no rows" else memory.count
        assert isinstance(ring_of(memory, count, rows, 2), Ring)
