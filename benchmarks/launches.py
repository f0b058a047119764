"""Operators, bytes, waits and allocations of play, learning, evaluation, a snapshot: `python -m benchmarks.launches`.

A GPU is bound by launches and by waiting where a call is small, and both can be counted on a CPU. All runs in plain
torch (`LEAGUE_KERNELS=off`), and the learner plays in the stack of the frozen nets, as on a GPU. Views launch nothing
and are left out; so is making an empty tensor, which is an allocation alone. A wait is an operator whose result the
host needs before it can go on: `item` and what is like it, and what has as many elements as the data say.

Per row of the table: one step of play of all rows, one minibatch, one step of an evaluation, one snapshot.

`--cuda` looks at what a CPU cannot show: tensors on the wrong device, and copies between the host and a GPU. It plays,
learns and evaluates on a GPU that is not there (`benchmarks/fakecuda.py`) and prints, with its line, what the host
waits for in one rollout, one update and one evaluation. It takes a build of torch for CUDA, and no card.
"""

from __future__ import annotations

import os

os.environ["LEAGUE_KERNELS"] = "off"

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import league.play.rollout as rollout_module
from league import bench
from league.arena.games import load_settings
from league.config import updates
from league.config.models import Config
from league.envs import registry
from league.errors import LeagueError
from league.play.evaluation import play
from league.play.pairings import Contestant, Pairing
from league.policies.kernels import gathered
from league.runtime.phases import listening
from league.snapshots import io as snapshot_files
from league.training.learner import Learner
from league.types import BOT_PREFIX, Origin, Rollout

WAITS = {
    *("aten::_local_scalar_dense", "aten::item", "aten::equal", "aten::is_nonzero"),
    *("aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive"),
}
"""Operators that wait for the device; `repeat_interleave` and an index of booleans do so as well."""
EMPTY = {
    *("aten::empty", "aten::new_empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty_strided"),
    *("aten::_unsafe_view", "aten::promote_types"),
    *("profiler::_record_function_enter_new", "profiler::_record_function_exit"),
}
"""What launches nothing, beside views."""
PLAYED = 8
"""Steps of play that are counted."""


@dataclass
class Counts:
    """What was done under one name."""

    operators: int = 0
    bytes: int = 0
    """Read and written, as if nothing were cached."""
    waits: int = 0
    allocations: int = 0

    def each(self, times: int) -> dict[str, float]:
        """A share of it."""
        figures = {"operators": self.operators, "bytes": self.bytes, "waits": self.waits}
        return {name: round(x / times, 1) for name, x in (figures | {"allocations": self.allocations}).items()}


class Counting(TorchDispatchMode):
    """Counts every operator under the name that is set."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, Counts] = {}
        self.names = ["other"]
        """The innermost last."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name
        now = self.found.setdefault(self.names[-1], Counts())
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        made = [x for x in tree_leaves(result) if isinstance(x, Tensor)]
        known = {x.untyped_storage()._cdata for x in given}
        now.allocations += sum(x.untyped_storage()._cdata not in known for x in made)
        if func.is_view or name in EMPTY or name == "aten::detach":
            return result
        now.operators += 1
        now.bytes += sum(x.numel() * x.element_size() for x in (*given, *made))
        now.waits += is_wait(name, args)
        return result

    @contextmanager
    def called(self, name: str) -> Iterator[None]:
        """Within it operators count under `name`."""
        self.names.append(name)
        try:
            yield
        finally:
            self.names.pop()

    def __call__(self, name: str, begins: bool) -> None:
        """Hears of a phase (`league.runtime.phases.listening`)."""
        if begins:
            self.names.append(name)
        else:
            self.names.pop()

    def wrap(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """The same function, counted under `name`."""

        def counted(*arguments: Any, **more: Any) -> Any:
            with self.called(name):
                return function(*arguments, **more)

        return counted

    def total(self, *names: str) -> Counts:
        """What was done under several names."""
        found = [self.found.get(name, Counts()) for name in names]
        return Counts(
            sum(x.operators for x in found),
            sum(x.bytes for x in found),
            sum(x.waits for x in found),
            sum(x.allocations for x in found),
        )


def is_wait(name: str, args: Sequence[Any]) -> bool:
    """Whether the host waits for what an operator gives."""
    if name == "aten::repeat_interleave":
        return not any(isinstance(x, int) for x in args[1:])
    is_index = name in ("aten::index", "aten::index_put_", "aten::index_put")
    return name in WAITS or (is_index and any(x is not None and x.dtype in (torch.bool, torch.uint8) for x in args[1]))


def count(config: Config) -> dict[str, Any]:
    """Counts each part: `play`, the nets' part of it, `minibatch` and its parts, `evaluation`, `snapshot`."""
    spec = registry.spec(config.env.name, config.env.options)
    rollout_module.joins_learner = gathered.gathers = lambda device: True
    collector, learner = bench.parts_of(config, spec, torch.device("cpu"))
    collector.one_by_one()
    rollout = collector.collect(config.learner.rollout_steps, 1, config.learner.segments)
    rollout.is_first[len(rollout.is_first) // 2, ::3] = True  # where no match begins less is to be done
    playing, learning = Counting(), Counting()
    with playing, listening(playing):
        collector.collect(PLAYED, 2)
    learner.update(rollout)  # which makes Adam's moments
    _label(learner, learning)
    with learning, listening(learning):
        learner.update(rollout)
    minibatches = config.learner.epochs * updates.minibatches(config)
    parts = ("forward", "backward", "loss", "optimiser")
    whole = playing.total(*playing.found)
    return {
        "play": whole.each(PLAYED),
        "play, all nets": playing.total("play_net").each(PLAYED),
        "minibatch": learning.total(*parts).each(minibatches),
        **{f"minibatch, {part}": learning.total(part).each(minibatches) for part in parts},
        "update, beside its minibatches": learning.total(*(learning.found.keys() - {*parts})).each(1),
        "evaluation": _evaluation(config, learner),
        "snapshot": _snapshot(learner),
    }


def _label(learner: Learner, counting: Counting) -> None:
    """Has the parts of a minibatch counted under their names."""
    learner._minibatch = counting.wrap(learner._minibatch, "loss")  # type: ignore[method-assign]
    learner.sequence = counting.wrap(learner.sequence, "forward")  # type: ignore[method-assign]
    learner.optimizer.step = counting.wrap(learner.optimizer.step, "optimiser")  # type: ignore[method-assign]
    torch.autograd.backward = counting.wrap(torch.autograd.backward, "backward")


def _evaluation(config: Config, learner: Learner) -> dict[str, float]:
    """One step of 16 games."""
    counting = Counting()
    with counting:
        steps = _evaluate(config, learner)
    return counting.total("other").each(steps)


def _evaluate(config: Config, learner: Learner) -> int:
    """Plays 16 games, half of them against a frozen net; returns how many steps they took."""
    env = config.env
    spec = registry.spec(env.name, env.options)
    other = bench.make_policy(config, spec)
    cast(torch.nn.Module, other).requires_grad_(False).to(learner.device)
    us, them = Contestant("us", learner.policy), [Contestant("them", other), Contestant(BOT_PREFIX + spec.bots[0])]
    results = play(
        lambda rows: registry.make(env.name, rows=rows, threads=1, options=env.options),
        [Pairing(us, x, 8, 1) for x in them],
        Origin("it", "it"),
        update=0,
        precision=config.learner.precision,
    )
    rows = Counter[int]()
    for result in results:
        rows[result.row] += result.steps
    return max(rows.values())


def _snapshot(learner: Learner) -> dict[str, float]:
    """Reading the weights, and their hash."""
    counting = Counting()
    with counting:
        snapshot_files.content_hash({name: x.detach().cpu() for name, x in learner.policy.state_dict().items()})
    return counting.total("other").each(1)


def count_on_cuda(config: Config) -> list[dict[str, Any]]:
    """What one rollout, update and evaluation wait for and copy on a GPU, all made for the second time.

    Raises:
        UsageError: this build of torch has no CUDA.
        RuntimeError: tensors are on different devices.
    """
    from benchmarks.fakecuda import CUDA, ELSEWHERE, fake_cuda

    spec, found = registry.spec(config.env.name, config.env.options), []
    with fake_cuda() as watching:
        collector, learner = bench.parts_of(config, spec, CUDA)

        def collect() -> Rollout:
            return collector.collect(config.learner.rollout_steps, 1, config.learner.segments)

        rollout = collect()
        for part, work in {
            "rollout": collect,
            "update": lambda: learner.update(rollout),
            "evaluation": lambda: _evaluate(config, learner),
        }.items():
            work()
            watching.waits.clear()
            watching.copies.clear()
            work()
            for counts, waits in ((watching.waits, True), (watching.copies, False)):
                found += [
                    {"part": part, "what": what, "line": line, "times": times, "waits": waits}
                    for (what, line), times in counts.items()
                    if times and line != ELSEWHERE
                ]
    return found


def _print_cuda(config: Config, as_json: bool) -> None:
    found = count_on_cuda(config)
    if as_json:
        print(json.dumps(found))
        return
    print(f"{'':12}{'':7}{'times':>7}  what, and where")
    for x in found:
        print(f"{x['part']:12}{'waits' if x['waits'] else '':7}{x['times']:7,}  {x['what']}, {x['line']}")


def main() -> None:
    """Prints a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--env", default="brawl")
    parser.add_argument("--set", action="append", default=[], dest="sets", help="a setting, laid over all")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cuda", action="store_true", help="waits and devices on a GPU that need not be there")
    arguments = parser.parse_args()
    sets = ["env.strict_masks=false", "learner.device=cpu", "env.threads=1", "learner.compile=off", *arguments.sets]
    config = load_settings("test50k", arguments.preset, arguments.env, None, sets)[0]
    if arguments.cuda:
        try:
            _print_cuda(config, arguments.json)
        except LeagueError as error:
            raise SystemExit(f"error: {error}") from None
        return
    found = count(config)
    if arguments.json:
        print(json.dumps(found))
        return
    print(f"{'':32}{'operators':>10}{'MB':>10}{'waits':>8}{'allocations':>13}")
    for name, x in found.items():
        print(f"{name:32}{x['operators']:10,}{x['bytes'] / 1e6:10,.1f}{x['waits']:8,}{x['allocations']:13,}")


if __name__ == "__main__":
    main()
