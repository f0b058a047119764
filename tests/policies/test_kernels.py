"""What the compiled kernels share: a door that refuses a wrong tensor, and operators that torch's own check passes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from league.policies.kernels import switch
from league.policies.kernels.lstm import compiled_segment
from league.policies.kernels.segment import attend_segment
from tests.helpers.ways import choose

pytestmark = pytest.mark.skipif(not switch.IS_ON, reason=switch.WHY_OFF)

HEADS, HISTORY, STEPS, ROWS, WIDTH = 2, 3, 5, 4, 8


def of_segment(num_queries: int = 1) -> dict[str, Any]:
    """What `attend_segment` is given."""
    query = torch.randn(num_queries, WIDTH) if num_queries > 1 else torch.randn(ROWS, STEPS, 1, WIDTH)
    angle = torch.randn(ROWS, STEPS, 1, WIDTH // HEADS // 2)
    return {
        "query": query.requires_grad_(),
        "key": torch.randn(ROWS, STEPS, WIDTH, requires_grad=True),
        "value": torch.randn(ROWS, STEPS, WIDTH, requires_grad=True),
        "cos": angle.cos(),
        "sin": angle.sin(),
        "count": torch.arange(ROWS),
        "is_first": torch.rand(ROWS, STEPS) < 0.2,
        "keys": torch.randn(ROWS, HISTORY, WIDTH),
        "values": torch.randn(ROWS, HISTORY, WIDTH),
        "heads": HEADS,
    }


def of_lstm(kind: torch.dtype = torch.float32) -> dict[str, Any]:
    """What `compiled_segment` is given."""
    return {
        "x": torch.randn(STEPS, ROWS, 6, dtype=kind, requires_grad=True),
        "hidden": torch.randn(ROWS, WIDTH),
        "cell": torch.randn(ROWS, WIDTH),
        "is_first": torch.rand(STEPS, ROWS) < 0.2,
        "weight_x": torch.randn(4 * WIDTH, 6, dtype=kind, requires_grad=True),
        "weight_h": torch.randn(4 * WIDTH, WIDTH, dtype=kind, requires_grad=True),
        "bias": torch.randn(4 * WIDTH, requires_grad=True),
    }


def of_ring() -> dict[str, Any]:
    """What `attend_ring` is given."""
    angle = torch.randn(3, 1, WIDTH // HEADS // 2)
    return {
        "query": torch.randn(3, 1, WIDTH),
        "key": torch.randn(3, WIDTH),
        "value": torch.randn(3, WIDTH),
        "cos": angle.cos(),
        "sin": angle.sin(),
        "count": torch.arange(3),
        "rows": torch.tensor([2, 0, 3]),
        "keys": torch.randn(ROWS, HISTORY, WIDTH),
        "values": torch.randn(ROWS, HISTORY, WIDTH),
        "heads": HEADS,
        "threads": 1,
    }


def of_gates() -> dict[str, Any]:
    """What `lstm_gates.forward` is given."""
    state, gates = (3, WIDTH), (3, 4 * WIDTH)
    return {
        "given": torch.randn(gates),
        "recurrent": torch.randn(gates),
        "bias": torch.randn(4 * WIDTH),
        "before": torch.randn(state),
        "gates": torch.empty(gates),
        "cell": torch.empty(state),
        "hidden": torch.empty(state),
        "threads": 1,
    }


def without_threads(given: dict[str, Any]) -> dict[str, Any]:
    return {name: x for name, x in given.items() if name != "threads"}


OPERATORS = {
    "segment": (lambda: attend_segment, of_segment),
    "segment of queries": (lambda: attend_segment, lambda: of_segment(3)),
    "lstm": (lambda: compiled_segment, of_lstm),
    "lstm in bf16": (lambda: compiled_segment, lambda: of_lstm(torch.bfloat16)),
    "ring": (lambda: torch.ops.league.attend_ring.default, lambda: without_threads(of_ring())),
    "gates": (lambda: torch.ops.league.lstm_gates.default, lambda: without_threads(of_gates())),
}


@pytest.mark.parametrize(
    ("name", "way"), [*((name, "wide") for name in OPERATORS), ("lstm", "MKL"), ("lstm in bf16", "MKL")]
)
def test_kernels_are_operators(name: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Schema, gradients' registration, fake form and tracing are as torch demands; ring and gates write."""
    choose(way, monkeypatch)
    torch.manual_seed(0)
    operator, given = OPERATORS[name]
    torch.library.opcheck(operator(), tuple(given().values()))


KERNELS: dict[str, tuple[Callable[[], dict[str, Any]], Callable[..., Any]]] = {
    "segment_attention": (
        of_segment,
        lambda **given: switch.COMPILED["segment_attention"].forward(*given.values(), threads=1),
    ),
    "compiled_segment": (of_lstm, lambda **given: compiled_segment(*given.values())),
    "ring_attention": (of_ring, lambda **given: switch.COMPILED["ring_attention"].attend_ring(*given.values())),
    "lstm_gates": (of_gates, lambda **given: switch.COMPILED["lstm_gates"].forward(*given.values())),
}
TENSORS = [
    (kernel, name, fault)
    for kernel, (given, _) in KERNELS.items()
    for name, x in given().items()
    for fault in ("type", "device", "shape", "layout")
    if torch.is_tensor(x) and (kernel, fault) != ("compiled_segment", "device")  # torch sends it elsewhere
]
ANY_ORDER = {"x", "hidden", "is_first", "weight_x", "weight_h"}
"""What the products of an LSTM read, in whatever order it lies."""


def longer(x: Tensor) -> Tensor:
    """One more along the first axis."""
    return torch.cat([x, x[:1]])


def apart(x: Tensor) -> Tensor:
    """The same numbers, every second one in memory."""
    return torch.stack([x, x], -1)[..., 0]


@pytest.mark.parametrize(("kernel", "name", "fault"), TENSORS)
def test_a_wrong_tensor_is_refused_by_name(kernel: str, name: str, fault: str) -> None:
    """Each tensor of each kernel, of another type, device, shape or layout: one line says which is not what it must be.

    Where the shape of the tensor that the others are measured by is wrong, another is named.
    """
    torch.manual_seed(0)
    given, call = KERNELS[kernel]
    call(**given())
    inputs = {key: x.detach() if torch.is_tensor(x) else x for key, x in given().items()}
    x = inputs[name]
    inputs[name] = {
        "type": lambda: x.double() if x.is_floating_point() else x.to(torch.int32),
        "device": lambda: x.to("meta"),
        "shape": lambda: longer(x),
        "layout": lambda: apart(x),
    }[fault]()
    if kernel == "compiled_segment" and fault == "layout" and name in ANY_ORDER:
        call(**inputs)
        return
    with pytest.raises(ValueError, match=r"^\w+: .* must be .*$"):
        call(**inputs)


@pytest.mark.parametrize(("rows", "count"), [([2, 0, 4], [0, 1, 2]), ([2, -1, 3], [0, 1, 2]), ([2, 0, 3], [0, -1, 2])])
def test_a_row_that_is_not_there_is_refused(rows: list[int], count: list[int]) -> None:
    """The ring is written at these rows: none lies outside it."""
    given = of_ring() | {"rows": torch.tensor(rows), "count": torch.tensor(count)}
    with pytest.raises(ValueError, match="count below 0, or is none of the memory's 4"):
        switch.COMPILED["ring_attention"].attend_ring(*given.values())
