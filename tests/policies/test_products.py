"""The compiled products, by AVX-512 (elsewhere in narrower vectors) and on tile units, against float64."""

from types import ModuleType

import pytest
import torch
from torch import Tensor

import league.policies.kernels._tile_products as tile_products
from league.policies.kernels import switch

wide_products = switch.COMPILED["wide_products"]
NEEDS_TILES = pytest.mark.skipif(not tile_products.are_there(), reason="this processor has no tile units for bf16")
KERNELS = pytest.mark.parametrize(
    "kernel", [pytest.param(wide_products, id="wide"), pytest.param(tile_products, id="tiles", marks=NEEDS_TILES)]
)
SHAPES = [  # rows, depth, columns: one, edges of tiles, of panels, of blocks, and of what is multiplied at a time
    *((1, 1, 1), (4, 16, 32), (12, 33, 31), (17, 33, 15), (33, 31, 65), (1, 600, 40), (40, 1, 64)),
    *((145, 20, 70), (70, 257, 40), (300, 513, 33), (9, 100, 1100), (130, 1030, 520)),
]


def by_columns(x: Tensor) -> Tensor:
    """The same numbers, laid out the other way."""
    return x.mT.contiguous().mT


def packed(kernel: ModuleType, right: Tensor) -> Tensor:
    """The right side (..., K, N) as `multiply` takes it."""
    out = torch.full((*right.shape[:-2], kernel.packed_length(*right.shape[-2:])), float("nan"))
    for matrix, room in zip(right, out, strict=True) if right.dim() == 3 else [(right, out)]:
        kernel.pack(matrix, room)
    return out


def multiply(
    kernel: ModuleType, left: Tensor, right: Tensor, bias: Tensor | None = None, threads: int = 1, packs: bool = False
) -> Tensor:
    """The product, in new memory."""
    out = torch.full((*left.shape[:-1], right.shape[-1]), float("nan"))
    sides = (None, packed(kernel, right)) if packs else (right, None)
    kernel.multiply(left, *sides, bias, out, False, threads)
    return out


@KERNELS
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_products_are_as_exact_as_promised(
    kernel: ModuleType, shape: tuple[int, int, int], turned: tuple[bool, bool]
) -> None:
    """New, with a bias, added, packed before, on two threads; nothing is written beside what is to be written.

    Wide products leave what float32 leaves of the sum of absolute products; tiles what two bf16 a number can promise,
    3 * 2**-16 of it (a third each: what they leave of either factor, and low times low).
    """
    torch.manual_seed(sum(shape))
    rows, depth, columns = shape
    left, right = torch.randn(rows, depth), torch.randn(depth, columns)
    bias, before = torch.randn(columns), torch.randn(rows, columns)
    exact, size = left.double() @ right.double(), left.double().abs() @ right.double().abs()
    bound = (depth + 2) * 2.0**-24 * (size + 4.0) + (3 * 2.0**-16 * size if kernel is tile_products else 0)
    left, right = (by_columns(x) if is_turned else x for x, is_turned in zip((left, right), turned, strict=True))
    found = multiply(kernel, left, right)
    assert ((found - exact).abs() <= bound).all()
    assert ((multiply(kernel, left, right, bias) - (exact + bias)).abs() <= bound).all()
    wide = torch.full((rows, columns + 3), 7.0)
    out = wide[:, :columns]
    out.copy_(before)
    kernel.multiply(left, right, None, None, out, True, 1)
    assert ((out - (exact + before)).abs() <= bound).all() and (wide[:, columns:] == 7.0).all()
    for threads, packs in ((2, False), (2, True), (3, True), (1, True)):
        assert torch.equal(multiply(kernel, left, right, threads=threads, packs=packs), found)


@KERNELS
def test_a_row_depends_on_itself_alone(kernel: ModuleType) -> None:
    """Bit for bit, however many there are; what is not a number stays in its row and column."""
    torch.manual_seed(0)
    left, right = torch.randn(150, 70), torch.randn(70, 50)
    whole = multiply(kernel, left, right)
    for rows in (1, 3, 11, 12, 16, 145):
        assert torch.equal(multiply(kernel, left[:rows], right), whole[:rows])
    left[3, 4], left[9, 0], right[1, 17] = float("nan"), float("inf"), float("-inf")
    broken = multiply(kernel, left, right)
    is_touched = torch.zeros(150, 50, dtype=torch.bool)
    is_touched[3], is_touched[9], is_touched[:, 17] = True, True, True
    assert torch.equal(broken[~is_touched], whole[~is_touched]) and not broken[is_touched].isfinite().any()


@KERNELS
@pytest.mark.parametrize("rows", [1, 20, 77, 300])
def test_each_net_has_its_own_weights(kernel: ModuleType, rows: int) -> None:
    """A product with an axis of nets is that of each net, packed before or not, on any number of threads."""
    torch.manual_seed(rows)
    left, right, bias = torch.randn(3, rows, 300), torch.randn(3, 300, 45), torch.randn(3, 45)
    alone = torch.stack([multiply(kernel, *parts) for parts in zip(left, right, bias, strict=True)])
    assert torch.equal(multiply(kernel, left, by_columns(right), bias), alone)
    for threads in (1, 2):
        assert torch.equal(multiply(kernel, left, right, bias, threads, packs=True), alone)


def test_a_part_of_a_matrix_may_be_multiplied_and_written() -> None:
    """Rows that lie further apart than they are long, on every side."""
    torch.manual_seed(0)
    left, right, out = torch.randn(20, 90)[:, 7:50], torch.randn(43, 90)[:, 3:60], torch.zeros(20, 100)[:, 5:62]
    wide_products.multiply(left, right, None, None, out, False, 1)
    assert torch.equal(out, multiply(wide_products, left.contiguous(), right.contiguous()))


@NEEDS_TILES
def test_tiles_are_more_exact_than_tf32() -> None:
    """Their typical error is a fiftieth of what TF32's eleven bits leave, or less; the range is float32's."""
    torch.manual_seed(0)
    left, right = torch.randn(128, 256), torch.randn(256, 96)
    exact = left.double() @ right.double()
    rounded = [((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32).double() for x in (left, right)]
    ours = (multiply(tile_products, left, right) - exact).square().mean().sqrt()
    assert ours < (rounded[0] @ rounded[1] - exact).square().mean().sqrt() / 50
    odd = torch.tensor([[1e-30, 1e30, 1.0 + 2.0**-12]])
    assert torch.allclose(multiply(tile_products, odd, torch.eye(3)), odd, rtol=2.0**-15, atol=0.0)
