"""One GPU, looked at in one go: is it right, how fast is it, where does the time go: `python -m benchmarks.gpu`.

Prints Markdown and then one JSON object, and writes both with `--out FOLDER`. A section that fails says so and leaves
the others alone; one for which no time is left is skipped. `--tiny` runs all of it at toy sizes, on a CPU too.
"""

from __future__ import annotations

import argparse
import copy
import json
import signal
import statistics
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

import league
from benchmarks import opponents
from league import config as settings
from league.arena.networks import architecture_of
from league.bench import _replay_difference, bench_learner, parts_of
from league.config.models import Config
from league.config.updates import steps_per_update
from league.device import describe_device, products
from league.play.rollout import Collector
from league.policies.actor_critic import Architecture
from league.sessions.settling import settle
from league.training.learner import Learner
from league.training.run import Report
from league.types import Rollout

TINY = (
    *("agent.encoder_layers=2", "agent.encoder_heads=2", "agent.encoder_width=16", "agent.encoder_feedforward=16"),
    *("agent.latents=2", "agent.observation_width=16", "agent.lstm_size=16", "agent.head_sizes=[8]"),
    *("env.rows=8", "learner.rollout_steps=8", "learner.minibatches=2", "learner.epochs=1", "pool.live_nets=2"),
)
PRESETS = ("fast", "beast")
ROWS = (256, 512, 1024, 2048, 4096)
MARGIN = 20.0
"""Seconds that must be left for a section to begin."""

Figures = dict[str, Any]


@dataclass
class Bench:
    """What the sections share."""

    device: torch.device
    seconds: float
    """For everything."""
    is_tiny: bool
    results: dict[str, Figures]

    def sizes(self, *more: str) -> list[str]:
        """Overrides: those of a section, and toy sizes over them where these are asked for."""
        return [f"learner.device={self.device.type}", *more, *(TINY if self.is_tiny else ())]

    def make(self, preset: str, *more: str) -> tuple[Config, Collector, Learner]:
        """The parts of a run, and its settings."""
        torch.manual_seed(0)
        config, spec, device, _ = settle("10m", preset, None, None, self.sizes(*more))
        return config, *parts_of(config, spec, device, print)

    def wait(self) -> None:
        """Until the device has nothing left to do."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def allocated(self) -> int:
        """MiB that tensors take on the GPU; 0 without one."""
        return torch.cuda.memory_allocated() // 2**20 if self.device.type == "cuda" else 0


def correctness(bench: Bench) -> Figures:
    """Replay equals play, stacked nets each net alone, graphs plain calls; overlapped play is determined, resumes."""
    steps = 8 if bench.is_tiny else 24
    plain = ("learner.compile=off", "learner.overlap=false", "env.rows=64")
    figures: Figures = {}
    for precision in ("highest", "float32", "bf16"):
        parts = bench.make("beast", *plain, f"learner.precision={precision}")
        figures[f"replay_difference_{precision}"] = _replay(*parts, steps)
    figures["replay_is_within_1e-5"] = figures["replay_difference_highest"] < 1e-5
    with products("highest"):
        figures["stacked_difference_highest"] = _stacked_difference(bench)
    figures["stacked_is_within_1e-5"] = figures["stacked_difference_highest"] < 1e-5
    lanes = ("env.rows=64", "learner.overlap=true", "learner.precision=float32")
    first, again, in_turn = (bench.make("beast", *lanes)[1] for _ in range(3))
    in_turn.worker = None
    one = [first.collect(steps, update) for update in (1, 2)]
    figures["overlapped_is_determined"] = _same(one, [again.collect(steps, update) for update in (1, 2)])
    figures["overlapped_is_in_turn"] = _same(one, [in_turn.collect(steps, update) for update in (1, 2)])
    without = bench.make("beast", *lanes, "learner.compile=off")[1]
    figures["graphs_are_plain_calls"] = _same(one, [without.collect(steps, update) for update in (1, 2)])
    figures["minibatch_graphs_difference_highest"] = _minibatch_difference(bench, steps)
    figures["minibatch_graphs_are_within_1e-5"] = figures["minibatch_graphs_difference_highest"] < 1e-5
    state, pool = copy.deepcopy(first.state_dict()), first.pool.state_dict()
    following = [first.collect(steps, 3)]
    again.pool.load_state_dict(pool)
    again.load_state_dict(state)
    figures["resumed_plays_on_alike"] = _same(following, [again.collect(steps, 3)])
    return figures


def _replay(config: Config, collector: Collector, learner: Learner, steps: int) -> float:
    collector.collect(steps, 1)
    return _replay_difference(learner, collector.collect(steps, 2), config.learner.precision)


def _minibatch_difference(bench: Bench, steps: int) -> float:
    """Largest difference of a weight after two updates, by minibatches as graphs and by plain calls; the rate, the clip
    and the entropy's coefficient change between them."""
    found: list[torch.Tensor] = []
    more = ("env.rows=64", "learner.overlap=false", "learner.precision=highest")
    rollout: Rollout | None = None
    for compile_ in ("off", "graphs"):
        _, collector, learner = bench.make("beast", *more, f"learner.compile={compile_}")
        for group in learner.optimizer.param_groups:
            group["lr"] = torch.as_tensor(group["lr"], dtype=torch.float32, device=bench.device)
        rollout = rollout or collector.collect(steps, 1)
        learner.update(rollout)
        now = {"learning_rate": learner.config.learning_rate / 3, "clip": 0.1, "entropy_coefficient": 0.05}
        learner.reconfigure(learner.config.model_copy(update=now))
        learner.update(rollout)
        found.append(torch.cat([p.detach().flatten() for p in learner.policy.parameters()]))
    return float((found[0] - found[1]).abs().max())


def _stacked_difference(bench: Bench) -> float:
    """Largest difference of what frozen nets remember of their rows, after twenty steps of the same matches."""
    config, spec, device, _ = settle("10m", "beast", None, None, bench.sizes("learner.precision=highest"))
    policies = {f"net-{i}": opponents.ActorCritic(architecture_of(config, spec)).to(device) for i in range(3)}
    obs = torch.randn(20, 41, spec.obs_size, device=device)
    states = []
    for stack in (None, opponents.StackedPolicy(policies["net-0"], 3)):
        pool = opponents.Pool(config.pool, policies.__getitem__, opponents.np.random.default_rng(0))
        played = opponents.Opponents(pool, stack, device)
        slots = opponents.np.array([played.enter(f"net-{min(i % 7, 2)}") for i in range(40)])
        state = policies["net-0"].initial_state(41)
        for seen in obs:
            for group in played.groups(slots):
                played.step(group, seen[group.rows], state, None, torch.Generator(device))
        states.append(state)
    alone, stacked = (state.hidden[:40] for state in states)
    return float((alone - stacked).abs().max())


def _same(a: Sequence[Rollout], b: Sequence[Rollout]) -> bool:
    names = ("obs", "action", "log_prob", "value", "reward", "next_value", "ends")
    return all(torch.equal(getattr(x, n), getattr(y, n)) for x, y in zip(a, b, strict=True) for n in names)


def matrix_rate(bench: Bench) -> Figures:
    """TFLOP/s of a square product: bf16, TF32 and float32."""
    size = 256 if bench.is_tiny else 8192
    figures: Figures = {"size": size}
    for name, dtype, precision in (
        ("bf16", torch.bfloat16, "bf16"),
        ("tf32", torch.float32, "float32"),
        ("float32", torch.float32, "highest"),
    ):
        a, b = (torch.randn(size, size, device=bench.device, dtype=dtype) for _ in range(2))
        times = []
        with products(precision):
            for _ in range(12):
                bench.wait()
                started = time.perf_counter()
                a @ b
                bench.wait()
                times.append(time.perf_counter() - started)
        figures[f"{name}_tflops"] = round(2 * size**3 / statistics.median(times[2:]) / 1e12, 2)
    return figures


def frozen(bench: Bench) -> Figures:
    """A step of frozen nets: 16 against 1, each way; asked for is at most 1.25 times at 2,048 rows."""
    nets, figures = ((1, 2) if bench.is_tiny else (1, 4, 16)), {}
    for rows in (8,) if bench.is_tiny else (64, 1024, 2048):
        more = [*bench.sizes("learner.precision=bf16"), f"pool.live_nets={max(nets)}"]
        figures[f"{rows}_rows"] = opponents.measure(
            bench.device, rows, overrides=more, repeats=3 if bench.is_tiny else 20, nets=nets
        )
    return figures


def rates(bench: Bench) -> Figures:
    """`league bench learner` for both presets in float32 (TF32) and bf16."""
    figures = {}
    for preset in PRESETS:
        for precision in ("bf16",) if bench.is_tiny else ("float32", "bf16"):
            found = bench_learner(preset, repeats=1, overrides=bench.sizes(f"learner.precision={precision}"))
            figures[f"{preset}_{precision}"] = found
    return figures


def compile_rates(bench: Bench) -> Figures:
    """Preset `beast` with each way to launch: seconds of the first update, and samples or steps a second after it."""
    figures = {}
    for compile_ in ("off", "graphs", "compile"):
        precision = "learner.precision=bf16"
        config, collector, learner = bench.make("beast", precision, f"learner.compile={compile_}", "env.rows=512")
        seconds = [_times(bench, config, collector, learner, update) for update in (1, 2, 3)]
        size = steps_per_update(config)
        figures[compile_] = {
            "first_update_seconds": round(sum(seconds[0]), 2),
            "play_steps_per_second": round(size / seconds[-1][0]),
            "learn_samples_per_second": round(size * config.learner.epochs / seconds[-1][1]),
        }
    return figures


def sweep(bench: Bench) -> Figures:
    """Steps a second of play alone and of training with the preset's epochs, by rows, in one lane and in two."""
    figures = {}
    for rows in (8, 16) if bench.is_tiny else ROWS:
        for overlap in ("false", "true"):
            more = ("learner.precision=bf16", f"learner.overlap={overlap}", "learner.rollout_steps=32")
            width = (f"env.rows={rows}", f"learner.minibatches={max(2, rows // 256)}", "learner.epochs=1")
            config, spec, device, _ = settle("10m", "beast", None, None, [*bench.sizes(*more), *width])
            collector, learner = parts_of(config, spec, device, print)
            for update in (1, 2):  # the first one warms up
                played, learned = _times(bench, config, collector, learner, update)
            size, epochs = steps_per_update(config), settings.load(preset="beast").learner.epochs
            figures[f"{rows}_rows_{len(collector.lanes)}_lanes"] = {
                "play_steps_per_second": round(size / played),
                "train_steps_per_second": round(size / (played + epochs * learned)),
            }
    return figures


def _times(bench: Bench, config: Config, collector: Collector, learner: Learner, update: int) -> tuple[float, float]:
    """Seconds of one rollout and of one update from it."""
    bench.wait()
    started = time.perf_counter()
    rollout = collector.collect(config.learner.rollout_steps, update)
    bench.wait()
    played = time.perf_counter()
    learner.update(rollout)
    bench.wait()
    return played - started, time.perf_counter() - played


def flops(a: Architecture) -> dict[str, int]:
    """Floating-point operations of one forward pass of one sample, by part; a multiplication and an addition are two.

    Attention is counted over the H tokens that a query may see, whatever a masked kernel works through beyond them.
    """
    token, width, history = a.opponent_slice[1] - a.opponent_slice[0], a.encoder_width, a.history_tokens
    found = {"observe": 2 * a.obs_size * a.observation_width}
    lstm_input = a.observation_width
    if a.opponent_encoder:
        lstm_input += width
        layer = 2 * (4 * width**2 + 2 * width * a.encoder_feedforward) + 4 * history * width
        found["encoder"] = 2 * token * width + a.encoder_layers * layer
        found["latents"] = 4 * width**2 + 4 * a.latents * history * width
        looked = 4 * a.encoder_heads * a.latents * width
        found["cross_attention"] = 2 * a.observation_width * width + looked + 6 * width**2
    found["lstm"] = 8 * a.lstm_size * (lstm_input + a.lstm_size)
    sizes = (a.lstm_size, *a.head_sizes)
    hidden = sum(2 * i * o for i, o in pairwise(sizes))
    found["heads"] = 2 * hidden + 2 * sizes[-1] * (a.action.num_logits + 1)
    return found


def utilisation(bench: Bench) -> Figures:
    """The share of the measured bf16 matrix rate that training and learning reach; the arithmetic beside it."""
    config, spec, _, _ = settle("10m", "beast", None, None, bench.sizes())
    parts = flops(architecture_of(config, spec))
    forward = sum(parts.values())
    found = bench.results["rates"]["beast_bf16"]
    rate = bench.results["matrix_rate"]["bf16_tflops"] * 1e12
    shared = config.pool.mix.get("self_play", 0.0)
    step = forward * (1 + shared + 3 * found["epochs"])
    return {
        "forward_flops_by_part": parts,
        "forward_flops": forward,
        "flops_of_a_step": round(step),
        "arithmetic": (
            f"{forward:,} x (1 of play + {shared:g} of frozen opponents + 3 x {found['epochs']:g} of learning: a"
            f" backward pass counts as two forward ones) = {step:,.0f} a step; x {found['train_steps_per_second']:,}"
            f" steps/s / {rate:,.3g} FLOP/s"
        ),
        "training_share_of_bf16_rate": float(f"{step * found['train_steps_per_second'] / rate:.3g}"),
        "learning_share_of_bf16_rate": float(f"{3 * forward * found['learn_samples_per_second'] / rate:.3g}"),
    }


def memory(bench: Bench) -> Figures:
    """MiB on the GPU after each of some updates (they should not grow), and the peak."""
    config, collector, learner = bench.make("beast", "learner.precision=bf16")
    moments = {"made": bench.allocated()}
    for update in range(1, 7):
        rollout = collector.collect(config.learner.rollout_steps, update)
        moments[f"played_{update}"] = bench.allocated()
        learner.update(rollout)
        del rollout
        moments[f"learned_{update}"] = bench.allocated()
    growth = moments["learned_6"] - moments["learned_3"]
    peak = torch.cuda.max_memory_allocated() // 2**20 if bench.device.type == "cuda" else 0
    return {"mib": moments, "growth_of_three_updates_mib": growth, "peak_mib": peak}


def profile(bench: Bench) -> Figures:
    """Torch's profile of one rollout and update, by time on the device."""
    more = ("learner.precision=bf16", "env.rows=512", "learner.rollout_steps=32", "learner.epochs=1")
    config, collector, learner = bench.make("beast", *more)
    learner.update(collector.collect(config.learner.rollout_steps, 1))
    bench.wait()
    activities = [torch.profiler.ProfilerActivity.CPU]
    if bench.device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as found:
        learner.update(collector.collect(config.learner.rollout_steps, 2))
        bench.wait()
    key = "self_cuda_time_total" if bench.device.type == "cuda" else "self_cpu_time_total"
    return {"table": found.key_averages().table(sort_by=key, row_limit=25, max_name_column_width=60)}


class _Watch:
    """Keeps what training says and stops it, as Ctrl-C does, when its time is up."""

    def __init__(self, seconds: float) -> None:
        self.said: list[str] = []
        self.reports: list[Report] = []
        self._until, self._is_stopped = time.monotonic() + seconds, False

    def report(self, report: Report) -> None:
        """See `league.training.run.Watcher`."""
        self.reports.append(report)
        if time.monotonic() > self._until and not self._is_stopped:
            self._is_stopped = True
            signal.raise_signal(signal.SIGINT)

    def evaluated(self, steps: int, opponent: str, summary: Any) -> None:
        """See `league.training.run.Watcher`."""
        low, high = summary.lower, summary.upper
        self.said.append(f"{steps:,} steps, against {opponent}: {summary.score:.2f} ({low:.2f} to {high:.2f})")

    def say(self, message: str) -> None:
        """See `league.training.run.Watcher`."""
        self.said.append(message)


def training(bench: Bench) -> Figures:
    """`league train --preset beast` in bf16 for up to ten million steps, through the same code."""
    cap = 3.0 if bench.is_tiny else 200.0
    watch = _Watch(min(cap, bench.seconds))
    more = ["learner.precision=bf16", "run.evaluate_games=40", "run.allow_short=true"]
    if bench.is_tiny:
        more += ["run.total_steps=512", "run.evaluate_games=2"]
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        result = league.train(
            "10m",
            preset="beast",
            fresh=True,
            overrides=bench.sizes(*more),
            store=Path(folder) / "league.duckdb",
            watcher=watch,
        )
    last = watch.reports[-1]
    half = [report.steps_per_second for report in watch.reports[len(watch.reports) // 2 :]]
    return {
        "status": result.status,
        "steps": result.steps,
        "updates": result.updates,
        "seconds": round(time.monotonic() - started, 1),
        "steps_per_second_later_half": round(statistics.median(half)),
        "win_rates": {name: round(rate, 3) for name, rate in last.win_rates.items()},
        "entropy": round(last.metrics["entropy"], 3),
        "said": watch.said,
    }


SECTIONS: tuple[Callable[[Bench], Figures], ...] = (
    *(correctness, matrix_rate, frozen, rates, utilisation, training),
    *(sweep, memory, profile, compile_rates),
)


def run(bench: Bench, only: Sequence[str] = ()) -> dict[str, Figures]:
    """All sections, or those named, in their order; each one's figures, or why there are none."""
    started = time.monotonic()
    total = bench.seconds
    for section in SECTIONS:
        name = section.__name__
        if only and name not in only:
            continue
        begun = time.monotonic()
        bench.seconds = total - (begun - started)
        if bench.seconds < MARGIN:
            bench.results[name] = {"skipped": f"{bench.seconds:.0f} s left"}
            continue
        try:
            figures = section(bench)
        except Exception as error:  # one section's failure must not cost the others' figures
            figures = {"failed": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        bench.results[name] = {**figures, "section_seconds": round(time.monotonic() - begun, 1)}
        if bench.device.type == "cuda":
            torch.cuda.empty_cache()
        print(markdown(name, bench.results[name]), flush=True)
    return bench.results


def markdown(name: str, figures: Figures) -> str:
    """A section as a heading and a list; tables of text are fenced."""
    lines = [f"## {name}", ""]
    for key, value in figures.items():
        if isinstance(value, str) and "\n" in value:
            lines += [f"{key}:", "", "```", value, "```"]
        elif isinstance(value, dict):
            lines.append(f"- {key}: " + ", ".join(f"{k} {v}" for k, v in value.items()))
        else:
            lines.append(f"- {key}: {value}")
    return "\n".join([*lines, ""])


def main() -> None:
    """Runs the sections on the best device there is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=570.0, help="for everything")
    parser.add_argument("--tiny", action="store_true", help="toy sizes, to see that it works")
    parser.add_argument("--only", nargs="+", default=[], choices=[section.__name__ for section in SECTIONS])
    parser.add_argument("--out", type=Path, help="a folder for gpu.json and gpu.md")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    head = {"device": describe_device(device), "torch": torch.__version__, "tiny": arguments.tiny}
    print("# benchmarks.gpu\n\n" + "\n".join(f"- {key}: {value}" for key, value in head.items()) + "\n", flush=True)
    results = run(Bench(device, arguments.seconds, arguments.tiny, {}), arguments.only)
    document = json.dumps({"bench": "gpu", **head, **results})
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "gpu.json").write_text(document + "\n", encoding="utf-8")
        text = "\n".join(markdown(name, figures) for name, figures in results.items())
        (arguments.out / "gpu.md").write_text(text, encoding="utf-8")
    print(document)


if __name__ == "__main__":
    main()
