"""Products by AVX-512 of our own, against float64. Other processors have the same in narrower vectors."""

import pytest
import torch
from torch import Tensor

from league.policies.kernels import switch

wide_products = switch.COMPILED["wide_products"]

SHAPES = [  # rows, depth, columns: one, edges of tiles, of panels, of blocks, and of what is multiplied at a time
    *((1, 1, 1), (4, 16, 32), (12, 33, 31), (17, 5, 33), (13, 17, 15), (1, 600, 40), (40, 1, 64)),
    *((145, 20, 70), (300, 513, 33), (9, 100, 1100), (130, 1030, 520)),
]


def by_columns(x: Tensor) -> Tensor:
    """The same numbers, laid out the other way."""
    return x.mT.contiguous().mT


def packed(right: Tensor) -> Tensor:
    """The right side (..., K, N) as `multiply` takes it."""
    out = torch.full((*right.shape[:-2], wide_products.packed_length(*right.shape[-2:])), float("nan"))
    for matrix, room in zip(right, out, strict=True) if right.dim() == 3 else [(right, out)]:
        wide_products.pack(matrix, room)
    return out


def multiply(
    left: Tensor, right: Tensor, bias: Tensor | None = None, threads: int = 1, is_packed: bool = False
) -> Tensor:
    """The product, in new memory."""
    out = torch.full((*left.shape[:-1], right.shape[-1]), float("nan"))
    sides = (None, packed(right)) if is_packed else (right, None)
    wide_products.multiply(left, *sides, bias, out, False, threads)
    return out


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("left_is_turned", [False, True])
@pytest.mark.parametrize("right_is_turned", [False, True])
def test_products_are_those_of_float32(
    shape: tuple[int, int, int], left_is_turned: bool, right_is_turned: bool
) -> None:
    """New, with a bias, added, packed before, on two threads: within what float32 leaves of the sum of absolute
    products, and beside what is to be written nothing is."""
    torch.manual_seed(sum(shape))
    rows, depth, columns = shape
    left, right = torch.randn(rows, depth), torch.randn(depth, columns)
    bias, before = torch.randn(columns), torch.randn(rows, columns)
    exact = left.double() @ right.double()
    bound = (depth + 2) * 2.0**-24 * (left.double().abs() @ right.double().abs() + 4.0)
    left = by_columns(left) if left_is_turned else left
    right = by_columns(right) if right_is_turned else right
    found = multiply(left, right)
    assert ((found - exact).abs() <= bound).all()
    assert ((multiply(left, right, bias) - (exact + bias)).abs() <= bound).all()
    wide = torch.full((rows, columns + 3), 7.0)
    out = wide[:, :columns]
    out.copy_(before)
    wide_products.multiply(left, right, None, None, out, True, 1)
    assert ((out - (exact + before)).abs() <= bound).all() and (wide[:, columns:] == 7.0).all()
    for threads, is_packed in ((2, False), (2, True), (3, True), (1, True)):
        assert torch.equal(multiply(left, right, threads=threads, is_packed=is_packed), found)


def test_a_row_does_not_depend_on_the_others() -> None:
    """Bit for bit, however many there are."""
    torch.manual_seed(0)
    left, right = torch.randn(150, 70), torch.randn(70, 50)
    whole = multiply(left, right)
    for rows in (1, 3, 4, 11, 12, 16, 145):
        assert torch.equal(multiply(left[:rows], right), whole[:rows])


def test_nets_are_multiplied_side_by_side() -> None:
    """Each by its own weights and bias, packed or not, on one thread or two."""
    torch.manual_seed(0)
    left, right, bias = torch.randn(3, 20, 40), torch.randn(3, 40, 50), torch.randn(3, 50)
    alone = torch.stack([multiply(*sides) for sides in zip(left, right, bias, strict=True)])
    for threads in (1, 2):
        for is_packed in (False, True):
            assert torch.equal(multiply(left, right, bias, threads, is_packed), alone)


def test_a_part_of_a_matrix_may_be_multiplied_and_written() -> None:
    """Rows that lie further apart than they are long, on every side."""
    torch.manual_seed(0)
    left, right, out = torch.randn(20, 90)[:, 7:50], torch.randn(43, 90)[:, 3:60], torch.zeros(20, 100)[:, 5:62]
    wide_products.multiply(left, right, None, None, out, False, 1)
    assert torch.equal(out, multiply(left.contiguous(), right.contiguous()))


@pytest.mark.parametrize("fault", ["type", "shape", "layout"])
def test_a_wrong_tensor_is_refused(fault: str) -> None:
    """Of another type, shape, or with gaps on both axes: one line says which is not what it must be."""
    left, right = torch.randn(8, 6), torch.randn(6, 5)
    wrong = {"type": right.double(), "shape": torch.randn(7, 5), "layout": torch.randn(12, 10)[::2, ::2]}[fault]
    with pytest.raises(ValueError, match=r"^wide_products: right is .* must be .*$"):
        wide_products.multiply(left, wrong, None, None, torch.empty(8, 5), False, 1)
