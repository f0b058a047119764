"""Products on the tile units of a processor, against float64."""

import pytest
import torch
from torch import Tensor

import league.policies.kernels._tile_products as tile_products

pytestmark = pytest.mark.skipif(not tile_products.are_there(), reason="this processor has no tile units for bf16")

SHAPES = [  # rows, depth, columns: one, edges of tiles, of blocks, and of what is multiplied at a time
    *((1, 1, 1), (16, 32, 16), (17, 33, 15), (32, 64, 32), (33, 31, 65)),
    *((5, 256, 1024), (70, 257, 40), (40, 600, 33), (9, 100, 1100), (130, 520, 1030)),
]


def by_columns(x: Tensor) -> Tensor:
    """The same numbers, laid out the other way."""
    return x.mT.contiguous().mT


def packed(right: Tensor) -> Tensor:
    """The right side (..., K, N) as `multiply` takes it."""
    out = torch.full((*right.shape[:-2], tile_products.packed_length(*right.shape[-2:])), float("nan"))
    for matrix, room in zip(right, out, strict=True) if right.dim() == 3 else [(right, out)]:
        tile_products.pack(matrix, room)
    return out


def multiply(
    left: Tensor, right: Tensor, bias: Tensor | None = None, threads: int = 1, is_packed: bool = False
) -> Tensor:
    """The product, in new memory."""
    out = torch.full((*left.shape[:-1], right.shape[-1]), float("nan"))
    sides = (None, packed(right)) if is_packed else (right, None)
    tile_products.multiply(left, *sides, bias, out, False, threads)
    return out


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("left_is_turned", [False, True])
@pytest.mark.parametrize("right_is_turned", [False, True])
def test_products_are_exact_to_sixteen_bits(
    shape: tuple[int, int, int], left_is_turned: bool, right_is_turned: bool
) -> None:
    """New, with a bias, added, packed before, on two threads: within what two bf16 a number can promise, 3 * 2**-16 of
    the sum of absolute products (a third each: what they leave of either factor, and low times low)."""
    torch.manual_seed(sum(shape))
    rows, depth, columns = shape
    left, right = torch.randn(rows, depth), torch.randn(depth, columns)
    bias, before = torch.randn(columns), torch.randn(rows, columns)
    exact = left.double() @ right.double()
    bound = (3 * 2.0**-16 + depth * 2.0**-24) * (left.double().abs() @ right.double().abs()) + 2.0**-22
    left = by_columns(left) if left_is_turned else left
    right = by_columns(right) if right_is_turned else right
    found = multiply(left, right)
    assert ((found - exact).abs() <= bound).all()
    assert ((multiply(left, right, bias) - (exact + bias)).abs() <= bound).all()
    wide = torch.full((rows, columns + 3), 7.0)
    out = wide[:, :columns]
    out.copy_(before)
    tile_products.multiply(left, right, None, None, out, True, 1)
    assert ((out - (exact + before)).abs() <= bound).all() and (wide[:, columns:] == 7.0).all()
    assert torch.equal(multiply(left, right, threads=2), found)
    assert torch.equal(multiply(left, right, threads=2, is_packed=True), found)


def test_more_exact_than_tf32() -> None:
    """The typical error is a fiftieth of what rounding the factors to TF32's eleven bits leaves, or less."""
    torch.manual_seed(0)
    left, right = torch.randn(128, 256), torch.randn(256, 96)
    exact = left.double() @ right.double()

    def rounded(x: Tensor) -> Tensor:
        return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)

    ours = (multiply(left, right) - exact).square().mean().sqrt()
    theirs = (rounded(left).double() @ rounded(right).double() - exact).square().mean().sqrt()
    assert ours < theirs / 50, (ours, theirs)


def test_a_row_depends_on_itself_alone() -> None:
    """Each row's numbers are the same bits among other rows; what is not a number stays in its row and column."""
    torch.manual_seed(0)
    left, right = torch.randn(50, 300), torch.randn(300, 40)
    found = multiply(left, right)
    assert torch.equal(multiply(left[7:31], right), found[7:31])
    assert torch.equal(multiply(left, right[:, :5]), found[:, :5])
    left[3, 4], left[9, 0], right[1, 17] = float("nan"), float("inf"), float("-inf")
    broken = multiply(left, right)
    is_touched = torch.zeros(50, 40, dtype=torch.bool)
    is_touched[3], is_touched[9], is_touched[:, 17] = True, True, True
    assert torch.equal(broken[~is_touched], found[~is_touched])
    assert not broken[is_touched].isfinite().any()


@pytest.mark.parametrize("rows", [1, 20, 32, 77, 150, 300])
def test_each_net_has_its_own_weights(rows: int) -> None:
    """A product with an axis of nets is that of each net, packed before or not, on any number of threads."""
    torch.manual_seed(rows)
    left, right, bias = torch.randn(3, rows, 300), torch.randn(3, 300, 45), torch.randn(3, 45)
    alone = torch.stack([multiply(*parts) for parts in zip(left, right, bias, strict=True)])
    assert torch.equal(multiply(left, by_columns(right), bias), alone)
    for threads in (1, 2):
        assert torch.equal(multiply(left, right, bias, threads, is_packed=True), alone)


def test_tiny_and_huge_numbers_keep_their_size() -> None:
    """The range is float32's: what bf16 cannot tell from its neighbour is told by the second."""
    left = torch.tensor([[1e-30, 1e30, 1.0 + 2.0**-12]])
    right = torch.eye(3)
    assert torch.allclose(multiply(left, right), left, rtol=2.0**-15, atol=0.0)
