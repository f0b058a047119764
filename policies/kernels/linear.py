"""A linear layer that runs where it is fastest, on a CPU by one of three ways.

Where `torch.set_float32_matmul_precision` allows less than `highest` and the processor has tile units (AMX), larger
products of float32 run on those, each number as the sum of two bf16 (`tile_products.h`). Else they are float32
throughout: torch's own, which is MKL on x86. On AMD's processors it leaves AVX-512 unused, so where they have that, all
but the smallest products are compiled ones (`wide_products.h`; lab/performance.md: 45 to 110 against 150 to 255
GFLOP/s on a core of a Zen 5). All else goes through torch's own.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from league.policies.kernels import switch
from league.policies.kernels.gathered import gathered_linear
from league.policies.kernels.switch import is_plain

tile_products, wide_products = switch.COMPILED["tile_products"], switch.COMPILED["wide_products"]
USES_WIDE = switch.IS_ON and switch.VENDOR == switch.AMD and bool(wide_products.are_there())
"""Whether products of float32 are by AVX-512 of our own rather than torch's."""


@functools.cache
def has_tiles() -> bool:
    """Whether there are tile units. The first call asks the system to let this process use them."""
    return switch.IS_ON and bool(tile_products.are_there())


FEWEST_ROWS, FEWEST_ROWS_LAID_OUT, FEWEST, SMALLEST = 33, 16, 24, 2**19
"""Rows a thread of a product for the tile units, rows a thread where the right side is laid out already, columns and
depth, and multiplications: below, MKL is faster (lab/performance.md)."""

FEWEST_ROWS_WIDE, FEWEST_COLUMNS_WIDE = 16, 16
"""Rows and columns of a product by AVX-512 whose right side is not packed: below, MKL is as fast."""

FEWEST_ROWS_ANY_LAYOUT = 256
"""Rows from which on MKL is as fast whichever way the right side lies."""


class PackedMatrix(NamedTuple):
    """The right side (..., K, N) of several products, laid out for compiled ones: for tile units, or for AVX-512."""

    numbers: Tensor
    """(..., some)"""
    columns: int
    """N"""


_at_rest: ContextVar[dict[int, tuple[Tensor, PackedMatrix]] | None] = ContextVar("at_rest", default=None)
"""The weights that do not change for now, by their id, and how they are laid out."""


@contextmanager
def at_rest() -> Iterator[None]:
    """Within it no weight changes, so that one which is multiplied by AVX-512 without a gradient is packed once."""
    before = _at_rest.set({})
    try:
        yield
    finally:
        _at_rest.reset(before)


def linear(x: Tensor, weight: Tensor | PackedMatrix, bias: Tensor | None = None) -> Tensor:
    """x (..., K) times weight (N, K) transposed, plus bias (N,): (..., N), differentiable.

    Weights and biases of several nets may be stacked: `league.policies.stacked`.
    """
    if isinstance(weight, PackedMatrix) or weight.dim() == 3:
        return _stacked_linear(x, weight, bias)
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return multiply(x, weight, bias)
    gathered = gathered_linear(x, weight, bias)
    if gathered is not None:
        return gathered
    if _has_own_way(x, weight):
        result: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return result
    return multiply(x, weight, bias)


def _stacked_linear(x: Tensor, weight: Tensor | PackedMatrix, bias: Tensor | None) -> Tensor:
    """x (nets * R, ..., K), R rows a net in the nets' order, times weight (nets, N, K), plus bias (nets, N)."""
    nets, right = (len(weight), weight.mT) if isinstance(weight, Tensor) else (len(weight.numbers), weight)
    if nets == 1 and isinstance(right, Tensor):  # a product of matrices has more ways than one of stacks
        found = product(x.reshape(-1, x.shape[-1]), right[0], None if bias is None else bias[0])
    else:
        found = product(x.reshape(nets, -1, x.shape[-1]), right, bias)
    return found.view(*x.shape[:-1], found.shape[-1])


class Linear(nn.Linear):
    """`torch.nn.Linear` by `linear`; the parameters, their names and their initial values are the same."""

    def forward(self, x: Tensor) -> Tensor:
        """x (..., in_features) -> (..., out_features)."""
        return linear(x, self.weight, self.bias)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return multiply(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        gradient = gradients[0].reshape(-1, weight.shape[0])
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            product(gradient, weight).view(x.shape) if needs_x else None,
            product(gradient.t(), x.reshape(-1, x.shape[-1])) if needs_weight else None,
            gradient.sum(0) if needs_bias else None,
        )


def multiply(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (..., K) times weight (N, K) transposed, plus bias (N,): (..., N)."""
    if not _has_own_way(x, weight):
        return F.linear(x, weight, bias)
    return product(x.reshape(-1, x.shape[-1]), _right_of(weight), bias).view(*x.shape[:-1], len(weight))


def _right_of(weight: Tensor) -> Tensor | PackedMatrix:
    """weight (N, K) as a right side, packed where it is at rest."""
    known, right = _at_rest.get(), weight.t()
    if known is None or not USES_WIDE or torch.is_grad_enabled():
        return right
    if id(weight) not in known:
        known[id(weight)] = weight, pack(right, packed_room(1, right)[0])
    return known[id(weight)][1]


def product(
    left: Tensor,
    right: Tensor | PackedMatrix,
    bias: Tensor | None = None,
    out: Tensor | None = None,
    adds: bool = False,
) -> Tensor:
    """left (..., n, K) times right (..., K, N), plus bias (..., N), by the fastest way; written or added into `out`.

    At most one axis before the last two. No gradient flows.
    """
    if isinstance(right, PackedMatrix) or _is_compiled(left, right):
        columns = right.columns if isinstance(right, PackedMatrix) else right.shape[-1]
        out = left.new_empty((*left.shape[:-1], columns)) if out is None else out
        return _multiply(left, right, out, bias, adds)
    if adds and out is not None:
        return torch.add(out, left @ right, out=out) if left.dim() == 3 else out.addmm_(left, right)
    if bias is not None and left.dim() == 3:
        return torch.baddbmm(bias[:, None], left, right, out=out)
    return torch.matmul(left, right, out=out) if bias is None else torch.addmm(bias, left, right, out=out)


def _kernel() -> Any:
    """The compiled products of this process: there are no tile units where `USES_WIDE`."""
    return wide_products if USES_WIDE else tile_products


def _multiply(
    left: Tensor, right: Tensor | PackedMatrix, out: Tensor, bias: Tensor | None = None, adds: bool = False
) -> Tensor:
    sides = (None, right.numbers) if isinstance(right, PackedMatrix) else (_dense(right), None)
    _kernel().multiply(_dense(left), *sides, bias, out, adds, torch.get_num_threads())
    return out


def laid_out(right: Tensor, rows: int) -> Tensor | PackedMatrix:
    """right (K, N) for several products with so many rows on the left."""
    fewest_rows = FEWEST_ROWS_LAID_OUT * torch.get_num_threads()
    is_for_tiles = _is_for_tiles(rows, right.shape[0], right.shape[1], fewest_rows)
    if _is_exact(right, right) and (USES_WIDE or is_for_tiles):
        return pack(right, packed_room(1, right)[0])
    is_read_by_rows = _runs_through_mkl(right) and rows < FEWEST_ROWS_ANY_LAYOUT
    return right.contiguous() if is_read_by_rows else right  # which is faster for few of the left's


def can_pack(right: Tensor, precision: str) -> bool:
    """Whether there are compiled products with it in this `learner.precision`."""
    return is_plain(right) and ((USES_WIDE and precision != "bf16") or (has_tiles() and precision == "float32"))


def packed_room(nets: int, right: Tensor) -> Tensor:
    """Space (nets, some) for that many right sides like this one (K, N), laid out for compiled products."""
    return right.new_empty((nets, _kernel().packed_length(*right.shape)))


def pack(right: Tensor, room: Tensor) -> PackedMatrix:
    """Writes right (K, N) into `room` (some,)."""
    _kernel().pack(_dense(right), room)
    return PackedMatrix(room, right.shape[1])


def adds_freely(right: Tensor | PackedMatrix) -> bool:
    """Whether a product with it is added to what there is as cheaply as it is written."""
    return isinstance(right, PackedMatrix) or _runs_through_mkl(right)


def by_head(x: Tensor, weight: Tensor) -> Tensor:
    """x (nets, R, heads, K) times weight (nets, heads, K, N), each head by its own: (nets, R, heads, N).

    Differentiable. On tile units it is in float32 under autocast too: cheaper than copies in bf16.
    """
    nets, rows, _, depth = x.shape
    is_for_tiles = is_plain(weight) and _is_for_tiles(rows, depth, weight.shape[-1], FEWEST_ROWS)
    if not is_for_tiles or (nets > 1 and torch.is_grad_enabled()):
        return torch.einsum("nrhk,nhkw->nrhw", x, weight)
    if nets == 1:
        result: Tensor = _ByHead.apply(x.float().squeeze(0), weight.squeeze(0))  # type: ignore[no-untyped-call]
        return result[None]
    out = weight.new_empty((*x.shape[:-1], weight.shape[-1]))
    for sides in zip(x.float(), weight, out, strict=True):
        _each_head(*sides)
    return out


class _ByHead(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _each_head(x, weight, x.new_empty((*x.shape[:2], weight.shape[-1])))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        d_weight = weight.new_empty(weight.shape)
        _multiply(x.permute(1, 2, 0), gradients[0].transpose(0, 1), d_weight)
        return _each_head(gradients[0], weight.mT, x.new_empty(x.shape)), d_weight


def _each_head(x: Tensor, weight: Tensor, out: Tensor) -> Tensor:
    """x (R, heads, K) times weight (heads, K, N), written into out (R, heads, N)."""
    _multiply(x.transpose(0, 1), weight, out.transpose(0, 1))
    return out


def _has_own_way(x: Tensor, weight: Tensor) -> bool:
    """Whether x (..., K) times weight (N, K) transposed is not torch's own."""
    shape = x.numel() // max(1, x.shape[-1]), weight.shape[1], len(weight)
    fewest_rows = FEWEST_ROWS * torch.get_num_threads()
    return _is_exact(x, weight) and (_is_wide(*shape) or _is_for_tiles(*shape, fewest_rows))


def _is_compiled(left: Tensor, right: Tensor) -> bool:
    threads = torch.get_num_threads() if left.dim() == 2 else 1  # nets go side by side
    shape = left.shape[-2], left.shape[-1], right.shape[-1]
    return _is_exact(left, right) and (_is_wide(*shape) or _is_for_tiles(*shape, FEWEST_ROWS * threads))


def _runs_through_mkl(right: Tensor) -> bool:
    return right.dtype == torch.float32 and not USES_WIDE


def is_wide(x: Tensor) -> bool:
    """Whether products of x's type are by AVX-512 of our own, but for small ones."""
    return USES_WIDE and x.dtype == torch.float32


def _is_wide(rows: int, depth: int, columns: int) -> bool:
    return USES_WIDE and depth > 0 and rows >= FEWEST_ROWS_WIDE and columns >= FEWEST_COLUMNS_WIDE


def _is_for_tiles(rows: int, depth: int, columns: int, fewest_rows: int) -> bool:
    is_large = rows >= fewest_rows and min(depth, columns) >= FEWEST and rows * depth * columns >= SMALLEST
    return is_large and torch.get_float32_matmul_precision() != "highest" and has_tiles()


def _is_exact(x: Tensor, weight: Tensor) -> bool:
    """Whether their product is one of float32 on a CPU."""
    return is_plain(x, weight) and not torch.is_autocast_enabled("cpu")


def _dense(x: Tensor) -> Tensor:
    return x if 1 in x.stride()[-2:] else x.contiguous()
