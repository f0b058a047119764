"""Sections of `benchmarks.gpu`: how fast is a GPU, where does the time go, how much memory does it take?"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

import league
from benchmarks import opponents
from benchmarks.gpu_bench import NO_CUDA, TINY, Bench, Figures, Pairs
from benchmarks.gpu_checks import Watch, precisions
from league import config as settings
from league.arena.networks import architecture_of
from league.bench import bench_env, bench_learner, parts_of
from league.bench.tune import tune as find_settings
from league.config import Layer
from league.config.models import Config
from league.config.updates import minibatches, steps_per_update
from league.envs import registry
from league.policies.actor_critic import Architecture
from league.printing.sampling import Meter
from league.runtime.device import DeviceMemory, products
from league.runtime.phases import listening
from league.sessions import sizing
from league.sessions.settling import ROOM, footprint, settle
from league.store.store import Store

LATER_OF_FAST = ("learner.segments=4", "learner.minibatch_size=1_024", "learner.epochs=1")
"""`fast` from a million steps on, which is most of ten million."""
LEFT_OUT = ("bench", "env", "preset", "device", "torch", "cores", "repeats")
"""Of what `league bench learner` tells: what the page's head or the section has."""
ROWS = (256, 512, 1024, 2048, 4096)
THREADS = (1, 2, 4, 8, 16)
RUNS = 4
PROFILED_STEPS = 16
TOP = 15
"""Kernels that are listed."""
CARDS = (8, 16, 24)
"""GiB of cards that people have."""


def matrix_rate(bench: Bench) -> Pairs:
    """TFLOP/s of a square product: bf16, TF32 and float32, as far as the device has them."""
    size = 256 if bench.is_tiny else 8192
    yield "size", size
    kinds = {
        "bf16": (torch.bfloat16, "bf16"),
        "tf32": (torch.float32, "float32"),
        "float32": (torch.float32, "highest"),
    }
    for name, (dtype, precision) in kinds.items():
        if precision not in precisions(bench):
            continue
        a, b = (torch.randn(size, size, device=bench.device, dtype=dtype) for _ in range(2))
        times = []
        with products(precision):
            for _ in range(12):
                bench.wait()
                started = time.perf_counter()
                a @ b
                bench.wait()
                times.append(time.perf_counter() - started)
        yield f"{name}_tflops", round(2 * size**3 / statistics.median(times[2:]) / 1e12, 2)


def rates(bench: Bench) -> Pairs:
    """`league bench learner`: steps a second and shares of the time; a run's later updates too where they differ."""
    kinds = {"fast": ("fast", LATER_OF_FAST), "beast": ("beast", ()), "fast_first_steps": ("fast", ())}
    for name, (preset, more) in kinds.items():
        for precision in ("bf16",) if bench.is_tiny else [p for p in precisions(bench) if p != "highest"]:
            bench.forget_peak()
            sets = bench.sizes(f"learner.precision={precision}", *more)
            found = bench_learner(preset, repeats=1 if bench.is_tiny else 2, overrides=sets)
            kept = {key: x for key, x in found.items() if key not in LEFT_OUT}
            yield f"{name}_{precision}", {**kept, **bench.memory()}


def frozen(bench: Bench) -> Pairs:
    """A step of frozen nets: milliseconds against 1, 4 and 16, each way."""
    nets = (1, 2) if bench.is_tiny else (1, 4, 16)
    for precision in precisions(bench)[1:]:
        for rows in (8,) if bench.is_tiny else (64, 1024, 2048):
            sets = [*bench.sizes(f"learner.precision={precision}"), f"pool.live_nets={max(nets)}"]
            repeats = 3 if bench.is_tiny else 20
            found = opponents.measure(bench.device, rows, overrides=sets, repeats=repeats, nets=nets)
            yield f"{rows}_rows_{precision}", found


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


def utilisation(bench: Bench) -> Pairs:
    """The share of the measured matrix rate, in bf16 where there is one, that training and learning reach, with the
    arithmetic."""
    config, spec, _, _ = settle("10m", "beast", None, None, bench.sizes())
    parts = flops(architecture_of(config, spec))
    forward = sum(parts.values())
    yield "forward_flops_by_part", parts
    yield "forward_flops", forward
    precision = precisions(bench)[-1]
    found = bench.results["rates"][f"beast_{precision}"]
    rate = bench.results["matrix_rate"]["bf16_tflops" if precision == "bf16" else "tf32_tflops"] * 1e12
    shared = config.pool.mix.get("self_play", 0.0)
    step = forward * (1 + shared + 3 * found["epochs"])
    yield "flops_of_a_step", round(step)
    yield (
        "arithmetic",
        f"{forward:,} x (1 of play + {shared:g} of frozen opponents + 3 x {found['epochs']:g} of learning: a backward"
        f" pass counts as two forward ones) = {step:,.0f} a step; x {found['train_steps_per_second']:,} steps/s /"
        f" {rate:,.3g} FLOP/s",
    )
    yield "training_share_of_matrix_rate", float(f"{step * found['train_steps_per_second'] / rate:.3g}")
    yield "learning_share_of_matrix_rate", float(f"{3 * forward * found['learn_samples_per_second'] / rate:.3g}")


def profile(bench: Bench) -> Pairs:
    """Torch's profile of one step of play and of one minibatch of `beast`, by time on the device."""
    precision = precisions(bench)[-1]
    sets = (f"learner.precision={precision}", "learner.epochs=1")
    config, collector, learner = bench.make("beast", *sets)
    rollout = collector.collect(config.learner.rollout_steps, 1)
    learner.update(rollout)
    learner.update(rollout)
    activities = [torch.profiler.ProfilerActivity.CPU]
    activities += [torch.profiler.ProfilerActivity.CUDA] if bench.is_cuda else []
    works = {
        "step": (PROFILED_STEPS, lambda: collector.collect(PROFILED_STEPS, 2)),
        "minibatch": (minibatches(config), lambda: learner.update(rollout)),
    }
    for name, (times, work) in works.items():
        with torch.profiler.profile(activities=activities) as found:
            began = time.perf_counter()
            work()
            bench.wait()
            seconds = time.perf_counter() - began
        yield from _top(name, found, times, seconds, bench.is_cuda)


def _top(name: str, found: Any, times: int, seconds: float, is_cuda: bool) -> Pairs:
    """What one of so many steps or minibatches takes, and what takes most of it."""
    events = [x for x in found.key_averages() if not is_cuda or x.device_type == torch.autograd.DeviceType.CUDA]
    spent = {x.key: x.self_device_time_total if is_cuda else x.self_cpu_time_total for x in events}  # microseconds
    total, counts = sum(spent.values()), {x.key: x.count for x in events}
    where = "device" if is_cuda else "processor"
    yield (
        f"a_{name}",
        {
            "ms": round(1e3 * seconds / times, 3),
            f"{where}_ms": round(total / 1e3 / times, 3),
            "kernels" if is_cuda else "operators": round(sum(counts.values()) / times, 1),
            f"{where}_is_busy": round(total / 1e6 / seconds, 3),
        },
    )
    for key in sorted(spent, key=spent.__getitem__, reverse=True)[:TOP]:
        share = {"share": round(spent[key] / total, 3), "ms": round(spent[key] / 1e3 / times, 4)}
        yield f"{name}: `{key[:70]}`", {**share, "calls": round(counts[key] / times, 2)}


def training(bench: Bench) -> Pairs:
    """`league train --preset beast` for up to ten million steps or 200 s, through the same code, with its scores."""
    until = time.monotonic() + (3.0 if bench.is_tiny else 200.0)
    watch = Watch(lambda _: time.monotonic() > until)
    sets = [f"learner.precision={precisions(bench)[-1]}", "run.evaluate_every=2_000_000", "run.evaluate_games=40"]
    sets += ["run.allow_short=true"]
    if bench.is_tiny:
        sets += ["run.total_steps=512", "run.evaluate_games=2"]
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        store, meter = Path(folder) / "league.duckdb", Meter()
        sizes = bench.sizes(*sets)
        with listening(meter):
            done = league.train("10m", preset="beast", fresh=True, overrides=sizes, store=store, callback=watch)
        yield "seconds", round(time.monotonic() - started, 1)
        yield "where_they_go", {kind: round(share, 3) for kind, share in meter.shares().items()}
        yield "seconds_on_the_ladder", round(_spent(store, done.run, "ladder_seconds"), 1)
        yield "status", done.status
        yield "steps", done.steps
        yield "updates", done.updates
        half = [report.steps_per_second for report in watch.reports[len(watch.reports) // 2 :]]
        yield "steps_per_second_later_half", round(statistics.median(half))
        yield "ten_million_steps_take_seconds", round(1e7 / statistics.median(half))
        rates = {name: round(rate, 3) for name, rate in watch.reports[-1].win_rates.items()}
        yield "wins_in_the_last_training_matches", rates
        yield "scores_on_the_way", watch.scores
        bots = [f"bot:{name}" for name in registry.spec("brawl", {}).bots]
        for bot in bots[:1] if bench.is_tiny else bots:
            found = league.evaluate(done.run, bot, games=2 if bench.is_tiny else 100, store=store).summary
            score = {"score": found.score, "lower": found.lower, "upper": found.upper, "games": found.games}
            yield f"against_{bot.removeprefix('bot:')}", score
        yield "said", watch.said[-6:]


def _spent(store: Path, run: str, name: str) -> float:
    """The sum of one of a run's metrics."""
    return sum(value or 0.0 for *_, found, value in Store.open(store).metrics(run) if found == name)


def threads(bench: Bench) -> Pairs:
    """CPU scaling there: the game alone, and play and learning of `fast`, over threads."""
    most = os.cpu_count() or 1
    for count in [n for n in THREADS if n <= most][: 1 if bench.is_tiny else None]:
        seconds = 0.2 if bench.is_tiny else 2.0
        game = bench_env("brawl", rows=1024, threads=count, seconds=seconds)
        sets = ["learner.device=cpu", f"env.threads={count}", *(TINY if bench.is_tiny else ())]
        found = bench_learner("fast", threads=count, repeats=1, overrides=sets)
        yield (
            f"{count}_threads",
            {
                "game_ticks_per_second": game["ticks_per_second"],
                "play_steps_per_second": found["play_steps_per_second"],
                "learn_samples_per_second": found["learn_samples_per_second"],
            },
        )


def side_by_side(bench: Bench) -> Pairs:
    """Runs side by side on one device: steps a second of one alone, and of four at once together."""
    bench.need_cuda()
    alone = _benched(bench, 1)[0]
    yield "one_alone", alone
    together = _benched(bench, RUNS)
    for number, found in enumerate(together, 1):
        yield f"run_{number}_of_{RUNS}", found
    total = sum(found["train_steps_per_second"] for found in together)
    yield "together_steps_per_second", total
    yield "together_to_one_alone", round(total / alone["train_steps_per_second"], 2)


def _benched(bench: Bench, count: int) -> list[Figures]:
    """So many processes of `league bench learner` at the same time."""
    sets = [word for x in bench.sizes(*LATER_OF_FAST) for word in ("--set", x)]
    repeats = "1" if bench.is_tiny else "4"
    command = [sys.executable, "-m", "league", "bench", "learner", "--preset", "fast", "--repeats", repeats, "--json"]
    started = [subprocess.Popen([*command, *sets], stdout=subprocess.PIPE, text=True) for _ in range(count)]
    names = ("play_steps_per_second", "learn_samples_per_second", "train_steps_per_second")
    found = [json.loads(process.communicate()[0]) for process in started]
    return [{name: x[name] for name in names} for x in found]


def small_cards(bench: Bench) -> Pairs:
    """What `auto` and parts of a minibatch make of smaller cards; on a GPU measured with no more memory than these."""
    real = torch.cuda.get_device_properties(0).total_memory if bench.is_cuda else 0
    toy = list(TINY) if bench.is_tiny else []
    for gib in CARDS[:1] if bench.is_tiny else CARDS:
        memory = DeviceMemory(gib * 2**30, gib * 2**30)
        for name, preset in {"auto": "auto", "beast_in_parts": "beast"}.items():
            sets, told = _sets_for(preset, memory, [f"learner.device={bench.device.type}", *toy])
            figures: Figures = {"chosen": told}
            if not bench.is_cuda:
                figures["measured"] = f"skipped: {NO_CUDA}"
            elif real < memory.total:
                figures["measured"] = "skipped: this card has less"
            else:
                bench.forget_peak()
                torch.cuda.set_per_process_memory_fraction(memory.total / real)
                figures |= _with_little(bench, preset, sets)
            yield f"{gib}_gib_{name}", figures


def _sets_for(preset: str, memory: DeviceMemory, sets: list[str]) -> tuple[list[str], str]:
    """The overrides that a preset gets on a GPU of this memory, and what they come to."""
    gpu = torch.device("cuda")
    config, spec, device, _ = settle("10m", "fast" if preset == "auto" else preset, None, None, sets)
    needs = footprint(config, spec, device)
    if preset == "auto":

        def load(sizes: Layer) -> Config:
            return settings.load("10m", "auto", None, None, sets, sizes)

        layer, told = sizing.auto(load, spec, needs, gpu, memory, num_cores=1)
        chosen = [f"{part}.{key}={json.dumps(x)}" for part, table in layer.items() for key, x in table.items()]
        return [*sets, *[x for x in chosen if "{" not in x]], told
    fitted = sizing.in_parts(config, spec, needs, ROOM * memory.total, gpu)
    taken = sizing.estimate(fitted, spec, needs, gpu).total
    told = f"{fitted.env.rows} rows, minibatches in {fitted.learner.accumulate} parts, about {sizing.show(taken)}"
    return [*sets, f"learner.accumulate={fitted.learner.accumulate}"], told


def _with_little(bench: Bench, preset: str, sets: list[str]) -> Figures:
    """Steps a second and the peak of two updates, or that the memory does not do."""
    config, spec, device, _ = settle("10m", "fast" if preset == "auto" else preset, None, None, sets)
    try:
        collector, learner = parts_of(config, spec, device, print)
        found = [bench.times(config, collector, learner, update) for update in (1, 2)][-1]
    except torch.OutOfMemoryError as error:
        return {"measured": f"out of memory: {str(error).splitlines()[0]}"}
    return {"train_steps_per_second": round(steps_per_update(config) / sum(found)), **bench.memory()}


def tune(bench: Bench) -> Pairs:
    """`league tune` for a minute: rows, threads and lanes, as a TOML file for --config."""
    found = find_settings("fast", seconds=1.0 if bench.is_tiny else 60.0, overrides=bench.sizes())
    yield "toml", found.toml
    yield "trials", [trial.words + f": {trial.train_steps_per_second:,.0f} steps/s" for trial in found.trials]
    yield "usual", asdict(found.usual)
    yield "best", asdict(found.best)


def parts(bench: Bench) -> Pairs:
    """`beast` with minibatches in 1, 2, 4 and 8 parts: samples a second of learning, and the most memory."""
    for count in (1, 2) if bench.is_tiny else (1, 2, 4, 8):
        bench.forget_peak()
        sets = (f"learner.accumulate={count}", "learner.epochs=1", f"learner.precision={precisions(bench)[-1]}")
        config, collector, learner = bench.make("beast", *sets)
        seconds = [bench.times(config, collector, learner, update)[1] for update in (1, 2, 3)]
        rate = round(steps_per_update(config) / statistics.median(seconds[1:]))
        yield f"{count}_parts", {"learn_samples_per_second": rate, **bench.memory()}


def memory(bench: Bench) -> Pairs:
    """MiB on the GPU after each of some updates, which should not grow, and the peak beside what was foretold."""
    bench.need_cuda()
    config, collector, learner = bench.make("beast", f"learner.precision={precisions(bench)[-1]}")
    spec = registry.spec(config.env.name, config.env.options)
    foretold = sizing.estimate(config, spec, footprint(config, spec, bench.device), bench.device).total
    bench.forget_peak()
    after: list[int] = []
    for update in range(1, 7):
        learner.update(collector.collect(config.learner.rollout_steps, update))
        after.append(bench.memory()["mib"])
    yield "mib_after_updates", after
    yield "growth_of_three_updates_mib", after[5] - after[2]
    yield "foretold_mib", foretold // 2**20
    yield "does_not_grow", after[5] <= after[2] + 1


def sweep(bench: Bench) -> Pairs:
    """Steps a second of play alone and of training with the preset's epochs, by rows, in one lane and in two."""
    epochs = settings.load(preset="beast").learner.epochs
    for rows in (8, 16) if bench.is_tiny else ROWS:
        for overlap in ("false", "true"):
            sets = (f"learner.precision={precisions(bench)[-1]}", f"learner.overlap={overlap}")
            width = (
                f"env.rows={rows}",
                f"learner.minibatch_size={32 * rows // max(2, rows // 256)}",
                "learner.epochs=1",
            )
            config, spec, device, _ = settle(
                "10m", "beast", None, None, [*bench.sizes(*sets, "learner.rollout_steps=32"), *width]
            )
            collector, learner = parts_of(config, spec, device, print)
            played, learned = [bench.times(config, collector, learner, update) for update in (1, 2, 3)][-1]
            size = steps_per_update(config)
            found = {
                "play_steps_per_second": round(size / played),
                "train_steps_per_second": round(size / (played + epochs * learned)),
            }
            yield f"{rows}_rows_{len(collector.lanes)}_lanes", found


def compile_rates(bench: Bench) -> Pairs:
    """Preset `beast` with each way to launch: seconds of the first update, and rates after it."""
    bench.need_cuda()
    for compile_ in ("off", "graphs", "compile"):
        sets = (f"learner.precision={precisions(bench)[-1]}", f"learner.compile={compile_}")
        config, collector, learner = bench.make("beast", *sets)
        seconds = [bench.times(config, collector, learner, update) for update in (1, 2, 3)]
        size = steps_per_update(config)
        found: dict[str, Any] = {
            "first_update_seconds": round(sum(seconds[0]), 2),
            "play_steps_per_second": round(size / seconds[-1][0]),
            "learn_samples_per_second": round(size * config.learner.epochs / seconds[-1][1]),
        }
        yield compile_, found


SECTIONS = {
    matrix_rate: 60,
    rates: 300,
    frozen: 120,
    utilisation: 60,
    profile: 120,
    training: 330,
    threads: 240,
    side_by_side: 200,
    small_cards: 180,
    tune: 150,
    parts: 120,
    memory: 90,
    sweep: 240,
    compile_rates: 240,
}
"""Section -> the seconds that it may take."""
