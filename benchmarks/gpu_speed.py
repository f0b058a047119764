"""Sections of `benchmarks.gpu`: how fast is a GPU, where does the time go, how much memory does it take?"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import league
from benchmarks import opponents
from benchmarks.gpu_bench import NO_CUDA, TINY, Bench, Figures, Pairs
from benchmarks.gpu_checks import Watch, precisions
from league import config as settings
from league.bench import bench_learner, parts_of
from league.config import Layer
from league.config.models import Config
from league.config.updates import minibatches, steps_per_update
from league.envs import registry
from league.printing.sampling import Meter
from league.runtime.device import DeviceMemory
from league.runtime.phases import listening
from league.sessions import sizing
from league.sessions.settling import ROOM, footprint, settle
from league.store.store import Store

LATER_OF_FAST = ("learner.segments=4", "learner.minibatch_size=1_024", "learner.epochs=1")
"""`fast` from a million steps on, which is most of ten million."""
LEFT_OUT = ("bench", "env", "preset", "device", "torch", "cores", "repeats")
"""Of what `league bench learner` tells: what the page's head or the section has."""
ROWS = (256, 512, 1024, 2048, 4096)
PROFILED_STEPS = 16
TOP = 15
"""Kernels that are listed."""
CARDS = (8, 16, 24)
"""GiB of cards that people have."""


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
    rates: 300,
    frozen: 120,
    profile: 120,
    training: 330,
    small_cards: 180,
    memory: 90,
    sweep: 240,
    compile_rates: 240,
}
"""Section -> the seconds that it may take."""
