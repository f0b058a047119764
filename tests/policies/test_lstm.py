"""The LSTM over a step and over a segment with match boundaries inside, against `nn.LSTM` and plain stepping."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import league.policies.kernels.lstm as module
from league.policies.actor_critic import ActorCritic, Architecture
from league.policies.kernels.lstm import lstm_cell, lstm_segment, spaced_segment
from league.types import ActionSpec
from tests.helpers.cases import cases
from tests.helpers.ways import WAYS, choose


def step_by_step(x: Tensor, hidden: Tensor, cell: Tensor, is_first: Tensor, lstm: nn.LSTM) -> Tensor:
    """The slow reference: one call of `nn.LSTM` a row and step, the state cleared where a match begins."""
    rows = []
    for b in range(x.shape[1]):
        state = hidden[b][None, None], cell[b][None, None]
        outs = []
        for t in range(len(x)):
            if is_first[t, b]:
                state = torch.zeros_like(state[0]), torch.zeros_like(state[1])
            out, state = lstm(x[t, b][None, None], state)
            outs.append(out[0, 0])
        rows.append(torch.stack(outs))
    return torch.stack(rows, 1)


def segment(rows: int, steps: int, size: int, share: float) -> tuple[nn.LSTM, list[Tensor]]:
    """An LSTM of an input of 6, and x, hidden, cell, is_first, in float64."""
    torch.manual_seed(rows * steps + size)
    lstm = nn.LSTM(6, size, batch_first=True).double()
    x, state = torch.randn(steps, rows, 6).double(), torch.randn(2, rows, size).double()
    return lstm, [x, *state, torch.rand(steps, rows) < share]


SHAPES = [(1, 1, 3), (4, 9, 5), (3, 20, 16), (5, 7, 40), (200, 6, 8)]  # the last one multiplies two steps at once


@pytest.mark.parametrize(
    "shape, share",
    cases(*product(SHAPES[:-1], [0.0, 0.2, 1.0]), (SHAPES[-1], 0.2), slow=[(SHAPES[-1], 0.0), (SHAPES[-1], 1.0)]),
)
@pytest.mark.parametrize("form", [*WAYS, "spaced", "spaced further"])
def test_a_segment_is_its_steps(
    shape: tuple[int, int, int], share: float, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outputs and every gradient equal the twin's in float64: spaced to its rounding, compiled to that of its way."""
    lstm, (x, hidden, cell, is_first) = segment(*shape, share)
    x.requires_grad_()
    wanted = step_by_step(x, hidden, cell, is_first, lstm)
    upstream = torch.randn_like(wanted)
    gradients = torch.autograd.grad(wanted, [x, *lstm.parameters()], upstream)
    if not form.startswith("spaced"):
        choose(form, monkeypatch)
        lstm, x = lstm.float(), x.detach().float().requires_grad_()
        hidden, cell, upstream = hidden.float(), cell.float(), upstream.float()
        assert module.is_plain(hidden)
        found = lstm_segment(x, hidden, cell, is_first, lstm)
    else:
        most_begins = int(is_first[1:].sum(0).max()) if len(x) > 1 else 0
        found = spaced_segment(x, hidden, cell, is_first, lstm, most_begins + 3 * form.endswith("further"))
    tolerance = {"spaced": 1e-12, "spaced further": 1e-12, "tiles": 1e-4}.get(form, 1e-5)
    for ours, theirs in zip(
        [found, *torch.autograd.grad(found, [x, *lstm.parameters()], upstream)], [wanted, *gradients], strict=True
    ):
        assert ours.shape == theirs.shape
        assert (ours - theirs).abs().max() < tolerance * max(1.0, float(theirs.detach().abs().max()))


def test_bf16_products_keep_a_float32_state() -> None:
    """Under autocast the segment stays within bf16's rounding of the exact one, and equals its own steps closely."""
    lstm, (x, hidden, cell, is_first) = segment(4, 12, 32, 0.1)
    exact = step_by_step(x, hidden, cell, is_first, lstm)
    lstm, x, hidden, cell = lstm.float(), x.float(), hidden.float(), cell.float()
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        found = lstm_segment(x, hidden, cell, is_first, lstm)
        steps = []
        for t in range(len(x)):
            keep = (~is_first[t]).float()[:, None]
            hidden, cell = lstm_cell(x[t], hidden * keep, cell * keep, lstm)
            steps.append(hidden)
    assert found.dtype == torch.float32
    assert (found - exact).abs().max() < 0.02
    assert (found - torch.stack(steps)).abs().max() < 1e-5


class Gates(TorchDispatchMode):
    """Keeps the types that an LSTM's gates and `nn.LSTM` were called with."""

    def __init__(self) -> None:
        super().__init__()
        self.types: dict[str, set[torch.dtype]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().removeprefix("aten::").split(".")[0]
        if name in ("sigmoid", "tanh", "lstm", "mkldnn_rnn_layer", "_cudnn_rnn", "_thnn_fused_lstm_cell"):
            floats = {x.dtype for x in tree_leaves(args) if isinstance(x, Tensor) and x.is_floating_point()}
            self.types.setdefault(name, set()).update(floats)
        return func(*args, **(kwargs or {}))


def test_gates_and_state_are_float32_under_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through torch's own operations, in play and over a segment: what comes in is bf16, no gate rounds to it."""
    monkeypatch.setattr(module, "is_plain", lambda _: False)
    sizes = (False, 1, 1, 2, 1, 1, 1, 16, 24, ())
    policy = ActorCritic(Architecture(12, (6, 12), ActionSpec("multi_binary", (2,) * 4), *sizes))
    state, obs, is_first = policy.initial_state(4), torch.zeros(4, 12), torch.zeros(9, 4, dtype=torch.bool)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad(), Gates() as gates:
        policy.step(obs, state, greedy=True)
        seen = policy.observe(obs)
        shown, after = lstm_cell(seen, state.hidden, state.cell, policy.lstm)
        found = spaced_segment(seen.expand(9, 4, 16), state.hidden, state.cell, is_first, policy.lstm, 9)
    assert seen.dtype == torch.bfloat16
    assert {x.dtype for x in (shown, after, found, state.hidden, state.cell)} == {torch.float32}
    assert {"sigmoid", "tanh"} <= set(gates.types) and set.union(*gates.types.values()) == {torch.float32}


@pytest.mark.parametrize("size", [9, 16, 33])
@pytest.mark.parametrize("is_compiled", [True, False])
def test_a_step_is_torchs(size: int, is_compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "is_plain", lambda _: is_compiled)
    torch.manual_seed(0)
    lstm = nn.LSTM(6, size, batch_first=True)
    x = torch.randn(4, 10, 6)
    hidden, cell = torch.zeros(4, size), torch.zeros(4, size)
    with torch.no_grad():
        expected, (_, last) = lstm(x)
        for t in range(10):
            hidden, cell = lstm_cell(x[:, t], hidden, cell, lstm)
            assert torch.allclose(hidden, expected[:, t], atol=1e-6)
    assert torch.allclose(cell, last[0], atol=1e-6)


def test_what_is_no_number_stays_none() -> None:
    """A NaN in one row comes out of that row's gates, in a step and in a segment, and of no other's."""
    lstm, (x, hidden, cell, is_first) = segment(3, 4, 20, 0.0)
    lstm, x, hidden, cell = lstm.float(), x.float(), hidden.float(), cell.float()
    x[:, 1] = float("nan")
    with torch.no_grad():
        found = [lstm_segment(x, hidden, cell, is_first, lstm), lstm_cell(x[0], hidden, cell, lstm)[0][None]]
    for out in found:
        assert out[:, 1].isnan().all() and out[:, [0, 2]].isfinite().all()
