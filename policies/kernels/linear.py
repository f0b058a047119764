"""A linear layer that runs where it is fastest, on a CPU by one of three ways.

Where `torch.set_float32_matmul_precision` allows less than `highest` and the processor has tile units (AMX), larger
products of float32 run on those, each number as the sum of two bf16 (`tile_products.h`). Else they are float32
throughout: torch's own, which is MKL on x86. On AMD's processors it leaves AVX-512 unused, so larger products are
oneDNN's there, which torch carries too (docs/lab/performance.md: 178 against 400 GFLOP/s on the same two cores of a
Zen 5). All else goes through torch's own.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from league.policies.kernels import switch
from league.policies.kernels.gathered import gathered_linear
from league.policies.kernels.switch import is_plain

tile_products = switch.COMPILED["tile_products"]
USES_ONEDNN = switch.IS_ON and switch.has_onednn(switch.VENDOR)


@functools.cache
def has_tiles() -> bool:
    """Whether there are tile units. The first call asks the system to let this process use them."""
    return switch.IS_ON and bool(tile_products.are_there())


FEWEST_ROWS, FEWEST_ROWS_LAID_OUT, FEWEST, SMALLEST = 33, 16, 24, 2**19
"""Rows a thread of a product for the tile units, rows a thread where the right side is laid out already, columns and
depth, and multiplications: below, MKL is faster (docs/lab/performance.md)."""

SMALLEST_ONEDNN = 2**21
"""Multiplications: a call of oneDNN costs some 15 microseconds more than one of MKL's."""

FEWEST_ROWS_ANY_LAYOUT = 256
"""Rows from which on MKL is as fast whichever way the right side lies."""


class Packed(NamedTuple):
    """The right side (..., K, N) of several products, laid out for the tile units."""

    numbers: Tensor
    """(..., some)"""
    columns: int
    """N"""


class Reordered(NamedTuple):
    """The right side (K, N) of several products, laid out for oneDNN."""

    weight: Tensor
    """(N, K), opaque"""


def linear(x: Tensor, weight: Tensor | Packed, bias: Tensor | None = None) -> Tensor:
    """x (..., K) times weight (N, K) transposed, plus bias (N,): (..., N), differentiable.

    Weights and biases of several nets may be stacked: `league.policies.stacked`.
    """
    if isinstance(weight, Packed) or weight.dim() == 3:
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


def _stacked_linear(x: Tensor, weight: Tensor | Packed, bias: Tensor | None) -> Tensor:
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
    return product(x.reshape(-1, x.shape[-1]), weight.t(), bias).view(*x.shape[:-1], len(weight))


def product(
    left: Tensor,
    right: Tensor | Packed | Reordered,
    bias: Tensor | None = None,
    out: Tensor | None = None,
    adds: bool = False,
) -> Tensor:
    """left (..., n, K) times right (..., K, N), plus bias (..., N), by the fastest way; written or added into `out`.

    At most one axis before the last two. No gradient flows.
    """
    if isinstance(right, Reordered):
        return _into(out, torch.ops.mkldnn._linear_pointwise(left, right.weight, bias, "none", [], ""), adds)
    if isinstance(right, Packed) or _runs_on_tiles(left, right):
        columns = right.columns if isinstance(right, Packed) else right.shape[-1]
        out = left.new_empty((*left.shape[:-1], columns)) if out is None else out
        return _on_tiles(left, right, out, bias, adds)
    if left.dim() == 2 and _is_exact(left, right) and _is_for_onednn(len(left), *right.shape):
        return _into(out, torch.ops.mkldnn._linear_pointwise(left, _gapless(right).t(), bias, "none", [], ""), adds)
    if adds and out is not None:
        return torch.add(out, left @ right, out=out) if left.dim() == 3 else out.addmm_(left, right)
    if bias is not None and left.dim() == 3:
        return torch.baddbmm(bias[:, None], left, right, out=out)
    return torch.matmul(left, right, out=out) if bias is None else torch.addmm(bias, left, right, out=out)


def _into(out: Tensor | None, result: Tensor, adds: bool) -> Tensor:
    return result if out is None else out.add_(result) if adds else out.copy_(result)


def _on_tiles(
    left: Tensor, right: Tensor | Packed, out: Tensor, bias: Tensor | None = None, adds: bool = False
) -> Tensor:
    sides = (None, right.numbers) if isinstance(right, Packed) else (_dense(right), None)
    tile_products.multiply(_dense(left), *sides, bias, out, adds, torch.get_num_threads())
    return out


def laid_out(right: Tensor, rows: int) -> Tensor | Packed | Reordered:
    """right (K, N) for several products with so many rows on the left."""
    fewest_rows = FEWEST_ROWS_LAID_OUT * torch.get_num_threads()
    if _is_exact(right, right) and _is_for_tiles(rows, right.shape[0], right.shape[1], fewest_rows):
        return pack(right, packed_room(1, right)[0])
    if _is_exact(right, right) and _is_for_onednn(rows, *right.shape):
        return Reordered(torch.ops.mkldnn._reorder_linear_weight(_gapless(right).t().contiguous(), rows))
    is_read_by_rows = _runs_through_mkl(right, rows) and rows < FEWEST_ROWS_ANY_LAYOUT
    return right.contiguous() if is_read_by_rows else right  # which is faster for few of the left's


def can_pack(right: Tensor) -> bool:
    """Whether there are tile units for products with it."""
    return is_plain(right) and has_tiles()


def packed_room(nets: int, right: Tensor) -> Tensor:
    """Space (nets, some) for that many right sides like this one (K, N), laid out for the tile units."""
    return right.new_empty((nets, tile_products.packed_length(*right.shape)))


def pack(right: Tensor, room: Tensor) -> Packed:
    """Writes right (K, N) into `room` (some,)."""
    tile_products.pack(_dense(right), room)
    return Packed(room, right.shape[1])


def adds_freely(right: Tensor | Packed | Reordered, rows: int) -> bool:
    """Whether a product with it (so many rows on the left) is added to what there is as cheaply as it is written."""
    return isinstance(right, Packed) or (isinstance(right, Tensor) and _runs_through_mkl(right, rows))


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
        _on_tiles(x.permute(1, 2, 0), gradients[0].transpose(0, 1), d_weight)
        return _each_head(gradients[0], weight.mT, x.new_empty(x.shape)), d_weight


def _each_head(x: Tensor, weight: Tensor, out: Tensor) -> Tensor:
    """x (R, heads, K) times weight (heads, K, N), written into out (R, heads, N)."""
    _on_tiles(x.transpose(0, 1), weight, out.transpose(0, 1))
    return out


def _has_own_way(x: Tensor, weight: Tensor) -> bool:
    """Whether x (..., K) times weight (N, K) transposed is not torch's own."""
    shape = x.numel() // max(1, x.shape[-1]), weight.shape[1], len(weight)
    fewest_rows = FEWEST_ROWS * torch.get_num_threads()
    return _is_exact(x, weight) and (_is_for_onednn(*shape) or _is_for_tiles(*shape, fewest_rows))


def _runs_on_tiles(left: Tensor, right: Tensor) -> bool:
    threads = torch.get_num_threads() if left.dim() == 2 else 1  # nets go side by side
    shape = left.shape[-2], left.shape[-1], right.shape[-1]
    return _is_exact(left, right) and _is_for_tiles(*shape, FEWEST_ROWS * threads)


def _runs_through_mkl(right: Tensor, rows: int) -> bool:
    return right.dtype == torch.float32 and not _is_for_onednn(rows, *right.shape)


def _is_for_onednn(rows: int, depth: int, columns: int) -> bool:
    return USES_ONEDNN and rows * depth * columns >= SMALLEST_ONEDNN


def _is_for_tiles(rows: int, depth: int, columns: int, fewest_rows: int) -> bool:
    is_large = rows >= fewest_rows and min(depth, columns) >= FEWEST and rows * depth * columns >= SMALLEST
    return is_large and torch.get_float32_matmul_precision() != "highest" and has_tiles()


def _is_exact(x: Tensor, weight: Tensor) -> bool:
    """Whether their product is one of float32 on a CPU."""
    return is_plain(x, weight) and not torch.is_autocast_enabled("cpu")


def _gapless(right: Tensor) -> Tensor:
    """right (K, N) without other numbers between its own, as in a part of an observation; with them oneDNN takes a
    thousand times as long (docs/lab/performance.md).
    """
    return right if right.is_contiguous() or right.t().is_contiguous() else right.contiguous()


def _dense(x: Tensor) -> Tensor:
    return x if 1 in x.stride()[-2:] else x.contiguous()
