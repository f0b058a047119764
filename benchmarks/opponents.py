"""What frozen nets cost in play: one net, several net by net, and several stacked: `python -m benchmarks.opponents`.

Prints one JSON line of milliseconds a step (medians; all kinds are measured in turns), and `ratio_*`, that of the most
nets to one net of the same kind. Which rows play which net is drawn, so groups are as uneven as in play.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from league.arena.networks import architecture_of
from league.play.graphs import StepGraphs
from league.play.opponents import Opponents, RowGroup
from league.policies.actor_critic import ActorCritic
from league.policies.stacked import StackedPolicy
from league.pool.pool import Pool
from league.runtime.device import autocast
from league.sessions.settling import settle

NETS = (1, 4, 16)


@torch.no_grad()
def measure(
    device: torch.device, rows: int, *, overrides: Sequence[str] = (), repeats: int = 20, nets: Sequence[int] = NETS
) -> dict[str, Any]:
    """Milliseconds a step of `rows` rows against each number of nets, of each kind that the device has."""
    config, spec, _, _ = settle("test50k", "fast", None, None, [f"pool.live_nets={max(nets)}", *overrides])
    architecture = architecture_of(config, spec)
    policies = {f"net-{i}": ActorCritic(architecture).requires_grad_(False).to(device) for i in range(max(nets))}
    generator = torch.Generator(device).manual_seed(0)
    obs = torch.randn(rows + 1, spec.obs_size, device=device)
    calls: dict[str, Callable[[], object]] = {}
    for count in nets:
        drawn = np.random.default_rng(count).integers(count, size=rows)
        for kind in ("grouped", "stacked", *(["graph"] if device.type == "cuda" else [])):
            pool = Pool(config.pool, policies.__getitem__, np.random.default_rng(0))
            stack = None if kind == "grouped" else StackedPolicy(policies["net-0"], 1, config.learner.precision)
            played = Opponents(pool, stack, device)
            slots = np.array([played.enter(f"net-{i}") for i in drawn])
            with autocast(device, config.learner.precision):
                state = policies["net-0"].initial_state(rows + 1)

            def step(groups: list[RowGroup], played: Opponents = played, state: Any = state) -> object:
                return [played.step(group, obs[group.rows], state, None, generator) for group in groups]

            groups, call = played.groups(slots), step
            if kind == "graph":
                graphs: StepGraphs[object] = StepGraphs(generator, config.learner.precision, print)
                reads = [obs, *state.tensors().values(), *played.weights(groups)]

                def call(groups: list[RowGroup], graphs: Any = graphs, step: Any = step, reads: Any = reads) -> object:
                    return graphs.call("step", step, groups, reads)

            calls[f"{kind}_{count}"] = lambda call=call, groups=groups: call(groups)
    times: dict[str, list[float]] = {name: [] for name in calls}
    with autocast(device, config.learner.precision):
        for i in range(repeats + 3):
            for name, run in calls.items():
                started = time.perf_counter()
                run()
                if device.type == "cuda":
                    torch.cuda.synchronize()
                if i >= 3:  # the first ones warm up and capture
                    times[name].append(time.perf_counter() - started)
    figures = {name: statistics.median(found) for name, found in times.items()}
    kinds = dict.fromkeys(name.rsplit("_", 1)[0] for name in calls)
    ratios = {f"ratio_{kind}": figures[f"{kind}_{max(nets)}"] / figures[f"{kind}_{min(nets)}"] for kind in kinds}
    return {
        "rows": rows,
        "precision": config.learner.precision,
        **{f"{name}_ms": round(1e3 * seconds, 3) for name, seconds in figures.items()},
        **{name: round(ratio, 2) for name, ratio in ratios.items()},
    }


def main() -> None:
    """Measures on the best device there is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[64, 1024, 2048])
    parser.add_argument("--threads", type=int, default=0, help="torch threads; 0 keeps its choice")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--nets", type=int, nargs="+", default=list(NETS))
    parser.add_argument("--set", action="append", default=[], help="a setting, as league train takes it")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for rows in arguments.rows:
        figures = measure(device, rows, overrides=arguments.set, repeats=arguments.repeats, nets=arguments.nets)
        print(json.dumps({"bench": "opponents", "device": device.type, "threads": torch.get_num_threads(), **figures}))


if __name__ == "__main__":
    main()
