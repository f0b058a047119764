"""Sections of `benchmarks.gpu`: is what a GPU does right? Each yields differences, and whether they may be so."""

from __future__ import annotations

import copy
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import league
from benchmarks import opponents
from benchmarks.gpu_bench import Bench, Pairs
from league.arena.networks import architecture_of
from league.bench import _replay_difference
from league.play.graphs import StepGraphs
from league.policies.kernels import switch
from league.runtime.device import has_bf16, products
from league.sessions.settling import settle
from league.store.store import Store
from league.training.run import Report
from league.types import Rollout

CLOSE = 1e-5
LANES = ("env.rows=64", "learner.overlap=true", "learner.precision=float32")
PLAIN = ("env.rows=64", "learner.overlap=false")


def precisions(bench: Bench) -> list[str]:
    """Those that the device computes in."""
    return ["highest", "float32", *(["bf16"] if has_bf16(bench.device) else [])]


def build(bench: Bench) -> Pairs:
    """What is installed, whether the compiled parts are there, and a tiny run from its first step to its last."""
    yield "compiled_parts", switch.WHY_OFF or "there"
    if bench.is_cuda:
        found = torch.cuda.get_device_properties(0)
        yield "cuda", torch.version.cuda
        yield "compute_capability", f"{found.major}.{found.minor}"
        yield "gib", round(found.total_memory / 2**30, 1)
        yield "bf16", has_bf16(bench.device)
    with tempfile.TemporaryDirectory() as folder:
        sets = ["run.evaluate_games=2", f"learner.device={bench.device.type}"]
        done = league.train("smoke", env="matrix", overrides=sets, store=Path(folder) / "league.duckdb")
    yield "tiny_run", f"{done.status} at {done.steps:,} steps"
    yield "tiny_run_is_finished", done.status == "finished"


def replay(bench: Bench) -> Pairs:
    """Learning replays what play did: the largest difference of a log-probability, in nats."""
    steps = 8 if bench.is_tiny else 24
    for precision in precisions(bench):
        _, collector, learner = bench.make("beast", "learner.compile=off", *PLAIN, f"learner.precision={precision}")
        collector.collect(steps, 1)
        difference = _replay_difference(learner, collector.collect(steps, 2), precision)
        yield f"difference_{precision}", difference
        if precision == "highest":
            yield "is_close", difference < CLOSE


def stacked(bench: Bench) -> Pairs:
    """Frozen nets in one call are each net alone: what they remember of their rows after twenty steps."""
    config, spec, device, _ = settle("10m", "beast", None, None, bench.sizes("learner.precision=highest"))
    policies = {f"net-{i}": opponents.ActorCritic(architecture_of(config, spec)).to(device) for i in range(3)}
    obs = torch.randn(20, 41, spec.obs_size, device=device)
    states = []
    with products("highest"):
        for stack in (None, opponents.StackedPolicy(policies["net-0"], 3)):
            pool = opponents.Pool(config.pool, policies.__getitem__, opponents.np.random.default_rng(0))
            played = opponents.Opponents(pool, stack, device)
            slots = opponents.np.array([played.enter(f"net-{min(i % 7, 2)}") for i in range(40)])
            state = policies["net-0"].initial_state(41)
            for seen in obs:
                for group in played.groups(slots):
                    played.step(group, seen[group.rows], state, None, torch.Generator(device))
            states.append(state)
    alone, together = (state.hidden[:40] for state in states)
    difference = float((alone - together).abs().max())
    yield "difference_highest", difference
    yield "is_close", difference < CLOSE


def lanes(bench: Bench) -> Pairs:
    """Overlapped play is determined, is both lanes in turn, and goes on alike from its state."""
    steps = 8 if bench.is_tiny else 24
    first, again, in_turn = (bench.make("beast", *LANES)[1] for _ in range(3))
    in_turn.worker = None
    one = [first.collect(steps, update) for update in (1, 2)]
    yield "is_determined", _same(one, [again.collect(steps, update) for update in (1, 2)])
    yield "is_in_turn", _same(one, [in_turn.collect(steps, update) for update in (1, 2)])
    state, pool = copy.deepcopy(first.state_dict()), first.pool.state_dict()
    following = [first.collect(steps, 3)]
    again.pool.load_state_dict(pool)
    again.load_state_dict(state)
    yield "resumes_alike", _same(following, [again.collect(steps, 3)])


def graphs(bench: Bench) -> Pairs:
    """Steps of play as CUDA graphs are plain calls, bit for bit; so are minibatches, in parts too, but for rounding."""
    bench.need_cuda()
    steps = 8 if bench.is_tiny else 24
    found = []
    for compile_ in ("graphs", "off"):
        collector = bench.make("beast", *LANES, f"learner.compile={compile_}")[1]
        found.append([collector.collect(steps, update) for update in (1, 2, 3)])
    yield "play_is_plain_calls", _same(*found)
    for parts in (1, 2):
        difference = _minibatch_difference(bench, steps, parts)
        yield f"minibatch_difference_highest_{parts}_parts", difference
        yield f"minibatch_is_close_{parts}_parts", difference < CLOSE


def accumulate(bench: Bench) -> Pairs:
    """A minibatch in parts has the gradient of the whole: the largest difference, to the largest gradient."""
    gradients: list[torch.Tensor] = []
    rollout: Rollout | None = None
    for parts in (1, 2, 4):
        sets = (
            "learner.compile=off",
            "learner.precision=highest",
            "learner.epochs=1",
            "learner.minibatch_size=1_000_000",
        )
        config, collector, learner = bench.make("beast", *PLAIN, *sets)
        learner.reconfigure(
            config.learner.model_copy(update={"accumulate": parts, "minibatch_size": 1_000_000, "epochs": 1})
        )
        rollout = rollout or collector.collect(8, 1)
        learner.update(rollout)
        gradients.append(torch.cat([p.grad.flatten() for p in learner.policy.parameters() if p.grad is not None]))
        if parts > 1:
            difference = float((gradients[0] - gradients[-1]).abs().max() / gradients[0].abs().max())
            yield f"difference_{parts}_parts", difference
            yield f"is_close_{parts}_parts", difference < 1e-4


def failed_capture(bench: Bench) -> Pairs:
    """A capture that is made to fail leaves plain calls, draws as without it, and a device that works on."""
    bench.need_cuda()
    said: list[str] = []
    generator, plain = (torch.Generator(bench.device).manual_seed(3) for _ in range(2))
    calls: StepGraphs[Any, torch.Tensor] = StepGraphs(generator, "float32", said.append)

    def work(_: object) -> torch.Tensor:
        drawn = torch.rand(4, device=bench.device, generator=generator)
        if torch.cuda.is_current_stream_capturing():
            drawn.sum().item()  # which no capture can do
        return drawn

    same = [
        torch.equal(calls.call("it", work, [], []), torch.rand(4, device=bench.device, generator=plain))
        for _ in range(5)
    ]
    yield "said", said
    yield "draws_go_on", all(same) and len(said) == 1
    collector = bench.make("fast", "learner.compile=graphs")[1]
    for update in (1, 2):
        rollout = collector.collect(8, update)
    yield "other_graphs_work_afterwards", bool(torch.isfinite(rollout.value).all())


class Watch:
    """Keeps what training says, and stops it, as Ctrl-C does, once `is_enough` of what it reports."""

    def __init__(self, is_enough: Any) -> None:
        self.said: list[str] = []
        self.scores: list[str] = []
        self.reports: list[Report] = []
        self._is_enough, self._is_stopped = is_enough, False

    def report(self, report: Report) -> None:
        """See `league.training.run.Callback`."""
        self.reports.append(report)
        if self._is_enough(self) and not self._is_stopped:
            self._is_stopped = True
            signal.raise_signal(signal.SIGINT)

    def evaluated(self, steps: int, opponent: str, summary: Any) -> None:
        """See `league.training.run.Callback`."""
        low, high = summary.lower, summary.upper
        self.scores.append(f"{steps:,} steps, against {opponent}: {summary.score:.2f} ({low:.2f} to {high:.2f})")

    def say(self, message: str) -> None:
        """See `league.training.run.Callback`."""
        self.said.append(message)


def moving(bench: Bench) -> Pairs:
    """A run begins on the CPU, goes on on the GPU, and comes back, each time with all of its matches."""
    bench.need_cuda()
    sets = [*bench.sizes("run.evaluate_games=2", "run.total_steps=100_000", "run.allow_short=true")[1:]]
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "league.duckdb"
        watch = Watch(lambda it: len(it.reports) == 2)
        run = league.train("smoke", device="cpu", overrides=sets, store=store, callback=watch).run
        for device in ("cuda", "cpu"):
            watch = Watch(lambda it: len(it.reports) == 2)
            done = league.resume(run, device=device, store=store, callback=watch)
            moved = [event.message for event in Store.open(store).events(run) if event.kind == "moved"]
            yield f"to_{device}", moved[-1] if moved else "nothing said"
            yield f"to_{device}_keeps_its_matches", bool(moved) and "matches in play go on" in moved[-1]
            yield f"to_{device}_learns_on", len(watch.reports) == 2 and done.updates > 2


def _minibatch_difference(bench: Bench, steps: int, parts: int) -> float:
    """Largest difference of a weight after two updates, by minibatches as graphs and by plain calls; the rate, the clip
    and the entropy's coefficient change between them."""
    found: list[torch.Tensor] = []
    rollout: Rollout | None = None
    for compile_ in ("off", "graphs"):
        sets = ("learner.precision=highest", f"learner.accumulate={parts}", f"learner.compile={compile_}")
        _, collector, learner = bench.make("beast", *PLAIN, *sets)
        for group in learner.optimizer.param_groups:
            group["lr"] = torch.as_tensor(group["lr"], dtype=torch.float32, device=bench.device)
        rollout = rollout or collector.collect(steps, 1)
        learner.update(rollout)
        now = {"learning_rate": learner.config.learning_rate / 3, "clip": 0.1, "entropy_coefficient": 0.05}
        learner.reconfigure(learner.config.model_copy(update=now))
        learner.update(rollout)
        found.append(torch.cat([p.detach().flatten() for p in learner.policy.parameters()]))
    return float((found[0] - found[1]).abs().max())


def _same(a: Sequence[Rollout], b: Sequence[Rollout]) -> bool:
    names = ("obs", "action", "log_prob", "value", "reward", "next_value", "ends")
    return all(torch.equal(getattr(x, n), getattr(y, n)) for x, y in zip(a, b, strict=True) for n in names)


SECTIONS = {build: 90, replay: 90, stacked: 60, lanes: 90, graphs: 120, accumulate: 60, failed_capture: 60, moving: 120}
"""Section -> the seconds that it may take."""
