"""The choices behind the network's speed on a CPU, each beside what it replaced: `python benchmarks/parts.py`.

Prints one JSON line; times are medians in microseconds, rates in GFLOP/s.
"""

import contextlib
import functools
import json
import math
import operator
import statistics
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile, record_function

from league import config as settings
from league.arena.networks import architecture_of
from league.bench import parts_of
from league.config import updates
from league.envs import registry
from league.policies.actor_critic import ActorCritic
from league.policies.kernels import linear as linear_module
from league.policies.kernels import lstm, ring, segment
from league.policies.kernels.linear import linear
from league.policies.kernels.lstm import lstm_cell
from league.runtime.device import autocast
from league.sessions.settling import settle


def median_us(call: Callable[[], object], repeats: int = 200) -> float:
    """Median time of one call, after a tenth as many to warm up."""
    times = []
    for i in range(repeats + repeats // 10):
        started = time.perf_counter()
        call()
        if i >= repeats // 10:
            times.append(time.perf_counter() - started)
    return round(statistics.median(times) * 1e6, 1)


def sixteen(kind: Callable[..., object], x: torch.Tensor, weights: list[torch.Tensor]) -> None:
    """Multiplies x with each weight in turn, as the layers of a network do, so that none stays in the cache."""
    for weight in weights:
        kind(x, weight)


@torch.no_grad()
def measure(threads: int) -> dict[str, object]:
    """All comparisons with this many torch threads."""
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("high")
    figures: dict[str, object] = {"threads": threads}
    for rows in (6, 13, 64, 512):
        x, weights = torch.randn(rows, 256), [torch.randn(1024, 256) for _ in range(16)]
        gflop = 2 * rows * 256 * 1024 / 1e9
        for name, kind in (("torch", F.linear), ("league", linear)):
            us = median_us(functools.partial(sixteen, kind, x, weights)) / 16
            figures[f"linear_{rows}x256x1024_{name}"] = {"us": round(us, 1), "gflops": round(gflop / us * 1e6, 1)}
    if torch.backends.mkldnn.is_available():
        figures |= products_of_learning()
    net, x, zero = nn.LSTM(512, 512, batch_first=True), torch.randn(32, 512), torch.zeros(32, 512)
    figures["lstm_step_32_rows_nn_lstm_us"] = median_us(lambda: net(x[:, None], (zero[None], zero[None])))
    figures["lstm_step_32_rows_cell_us"] = median_us(lambda: lstm_cell(x, zero, zero, net))
    memory, chosen = torch.randn(32, 30, 256), torch.arange(8) * 3
    figures["gather_8_rows_indexing_us"] = median_us(lambda: memory[chosen])
    figures["gather_8_rows_index_select_us"] = median_us(lambda: memory.index_select(0, chosen))
    shares = [matrix_shares(precision) for precision in ("highest", "float32", "bf16")]
    return functools.reduce(operator.or_, [figures, step_of_play(), learning(), *shares])


@torch.no_grad()
def products_of_learning() -> dict[str, object]:
    """GFLOP/s of an LSTM's and a head's products in learning from 128 rows of 64 steps: torch's, oneDNN's and ours, by
    the least processor time of ten calls of each in turns; a step's right side is laid out before, where it can be."""
    figures: dict[str, object] = {}
    samples, inputs, width = 8192, 256, 96
    for size in (128, 512):
        forward = {"step": (128, size, 4 * size), "inputs": (512, inputs, 4 * size), "head": (samples, size, width)}
        backward = {"weight_x": (4 * size, samples, inputs), "weight_h": (4 * size, samples, size)}
        for name, (rows, depth, columns) in (forward | backward).items():
            is_gradient = name in backward  # both of its sides lie by rows
            left = torch.randn(depth, rows).t() if is_gradient else torch.randn(rows, depth)
            right = torch.randn(depth, columns) if is_gradient else torch.randn(columns, depth).t()
            weight, ready = right.t(), right
            if name == "step":
                weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), rows)
                ready = linear_module.laid_out(right, rows)
            ways: dict[str, Callable[[], object]] = {
                "torch": functools.partial(torch.matmul, left, right),
                "onednn": functools.partial(torch.ops.mkldnn._linear_pointwise, left, weight, None, "none", [], ""),
                "league": functools.partial(linear_module.product, left, ready),
            }
            gflop, times = 2 * rows * depth * columns / 1e9, dict.fromkeys(ways, math.inf)
            for _ in range(10):
                for way, call in ways.items():
                    began = time.process_time()
                    call()
                    times[way] = min(times[way], time.process_time() - began)
            rates = {way: round(gflop / seconds, 1) for way, seconds in times.items()}
            figures[f"product_lstm{size}_{name}_{rows}x{depth}x{columns}_gflops"] = rates
    return figures


@torch.no_grad()
def step_of_play() -> dict[str, object]:
    """A step of the full-size network with attention in torch and in one compiled call, in turns."""
    config = settings.load(preset="fast")
    spec = registry.spec(config.env.name, registry.check_options(config.env.name, config.env.options))
    policy = ActorCritic(architecture_of(config, spec)).requires_grad_(False)
    figures: dict[str, object] = {}
    for rows in (13, 64):
        obs, state = torch.randn(rows, spec.obs_size), policy.initial_state(64)
        places = None if rows == 64 else torch.arange(rows) * 4
        times: dict[str, list[float]] = {"torch": [], "compiled": []}
        for turn in range(200):
            name = ("torch", "compiled")[turn % 2]
            with forms(is_compiled=name == "compiled"):
                started = time.perf_counter()
                policy.step(obs, state, rows=places)
                times[name].append(time.perf_counter() - started)
        figures |= {f"step_{rows}_rows_{name}_us": round(statistics.median(t) * 1e6) for name, t in times.items()}
    return figures


@torch.enable_grad()
def learning() -> dict[str, object]:
    """Forward and backward of the full-size network over 16 rows of 32 steps, each form of its parts in turns."""
    config = settings.load(preset="fast")
    spec = registry.spec(config.env.name, registry.check_options(config.env.name, config.env.options))
    policy = ActorCritic(architecture_of(config, spec))
    obs, is_first = torch.randn(16, 32, spec.obs_size), torch.rand(16, 32) < 1 / 300
    action, state = torch.zeros(16, 32, spec.action.num_parts, dtype=torch.int64), policy.initial_state(16)
    figures: dict[str, object] = {}
    for precision in ("float32", "bf16"):
        times: dict[str, list[float]] = {"torch": [], "compiled": []}
        for turn in range(20):
            name = ("torch", "compiled")[turn % 2]
            started = time.perf_counter()
            with forms(is_compiled=name == "compiled"):
                with autocast(torch.device("cpu"), precision):
                    log_prob, entropy, value = policy.sequence(obs, action, state, is_first)
                torch.autograd.backward((log_prob + entropy + value).sum())
            times[name].append(time.perf_counter() - started)
        figures |= {
            f"learn_512_samples_{precision}_{k}_us": round(statistics.median(t) * 1e6) for k, t in times.items()
        }
    return figures


MATRIX_KERNELS = (
    *("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "compiled product"),
    *("league::attend_segment", "league::attend_segment_backward", "LSTM segment", "ring attention"),
)
"""What torch's profiler calls products of matrices, with attention and with an LSTM's segment where it is one call."""


@torch.enable_grad()
def matrix_shares(precision: str, turns: int = 5) -> dict[str, float]:
    """How much of the time of a rollout and of an update is inside matrix kernels, at the sizes of `fast`.

    The kernels' time is that of profiled runs, the whole that of plain ones, in turns, the shortest of each: a profiler
    makes all between the kernels slower.
    """
    overrides = ["learner.epochs=1", "learner.device=cpu", f"learner.precision={precision}"]
    config, spec, device, _ = settle("test50k", "fast", None, None, overrides)
    collector, learner = parts_of(config, spec, device)
    steps = config.learner.rollout_steps
    rollout = collector.collect(steps, 1)
    for _ in range(3):  # until the memory is had
        learner.update(rollout)
        rollout = collector.collect(steps, 1)

    def recorded(name: str, call: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def run(*arguments: Any) -> torch.Tensor:
            with record_function(name):
                return call(*arguments)

        return run

    kernel = lstm.whole_segment
    whole_segment = kernel and SimpleNamespace(  # without a compiler there is none
        forward=recorded("LSTM segment", kernel.forward), backward=recorded("LSTM segment", kernel.backward)
    )

    def seconds_inside(call: Callable[[], object]) -> float:
        with (
            mock.patch.object(ring.CompiledRing, "attend", recorded("ring attention", ring.CompiledRing.attend)),
            mock.patch.object(linear_module, "_multiply", recorded("compiled product", linear_module._multiply)),
            mock.patch.object(lstm, "whole_segment", whole_segment),
            profile(activities=[ProfilerActivity.CPU]) as profiler,
        ):
            call()
        spent = {event.key: event.self_cpu_time_total / 1e6 for event in profiler.key_averages()}
        return sum(spent.get(kind, 0.0) for kind in MATRIX_KERNELS)

    figures = {}
    acts: dict[str, Callable[[], object]] = {
        "play": lambda: collector.collect(steps, 2),
        "learning": lambda: learner.update(rollout),
    }
    for name, call in acts.items():
        whole, inside = [], []
        for _ in range(turns):
            started = time.perf_counter()
            call()
            whole.append(time.perf_counter() - started)
            inside.append(seconds_inside(call))
        figures[f"matrix_share_of_{name}_{precision}"] = round(min(inside) / min(whole), 3)
    return figures


SWITCHES: dict[str, list[tuple[Any, str, Any]]] = {
    "all on": [],
    **{module.__name__.rpartition(".")[2]: [(module, "is_plain", lambda *_: False)] for module in (ring, segment)},
    "lstm": [(lstm, "is_plain", lambda *_: False)],
}
"""What is switched off, singly, in `each_alone`."""


def each_alone(threads: int, precision: str = "float32", turns: int = 20, preset: str = "fast") -> dict[str, object]:
    """An update of the preset with one kernel at a time in torch's form, the others on, as a multiple of all on.

    Short pieces in turns, four steps of play and one minibatch of learning, by the processor's time, since a busy
    machine stretches the clock's; of each the lower quartile. An update is a rollout and the preset's epochs.
    """
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("highest" if precision == "highest" else "high")
    overrides = ["learner.device=cpu", f"learner.precision={precision}", "env.strict_masks=false"]
    config, spec, device, _ = settle("10m", preset, None, None, overrides)
    learning, steps = config.learner, 4
    number = updates.minibatches(config)
    rows = config.env.rows // number
    one = [*overrides, "learner.epochs=1", f"env.rows={rows}"]
    collector, _ = parts_of(config, spec, device)
    others, learner = parts_of(settle("10m", preset, None, None, one)[0], spec, device)
    rollout = others.collect(learning.rollout_steps, 1)
    names = [name for name in SWITCHES if precision != "bf16" or name != "lstm"]  # a stack's weights are bf16 then
    play: dict[str, list[float]] = {name: [] for name in names}
    learn: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(turns + 1):
        for name in names:
            with contextlib.ExitStack() as stack:
                for module, attribute, value in SWITCHES[name]:
                    stack.enter_context(mock.patch.object(module, attribute, value))
                began = time.process_time()
                collector.collect(steps, turn + 1)
                played = time.process_time()
                learner.update(rollout)
                if turn:  # the first one warms up
                    play[name].append((played - began) * learning.rollout_steps / steps)
                    learn[name].append((time.process_time() - played) * number * learning.epochs)
    quarter = {name: [statistics.quantiles(times[name])[0] for times in (play, learn)] for name in names}
    whole = {name: sum(parts) for name, parts in quarter.items()}
    figures: dict[str, object] = {"threads": threads, "precision": precision, "preset": preset}
    for name in names[1:]:
        figures[f"without_{name}"] = round(whole[name] / whole["all on"], 3)
        figures[f"play_without_{name}"] = round(quarter[name][0] / quarter["all on"][0], 3)
    return figures


@contextlib.contextmanager
def forms(*, is_compiled: bool) -> Iterator[None]:
    """The network's parts in their compiled form, or in torch's."""
    with contextlib.ExitStack() as stack:
        for module in (ring, segment, lstm):
            stack.enter_context(mock.patch.object(module, "is_plain", lambda *_: is_compiled))
        yield


if __name__ == "__main__":
    alone = [each_alone(1), each_alone(2), each_alone(1, "bf16")]
    print(json.dumps({"torch": torch.__version__, "runs": [measure(1), measure(2)], "each_alone": alone}))
