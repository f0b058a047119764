"""How fast many agents meet, pair after pair and side by side: `python -m benchmarks.tournament`.

Untrained full-size nets and the game's bots play a round robin, once with a batch for each pair and once with all pairs
in one batch, in turns. Prints one JSON line: games a second, and a second of the processor's time, of both; their
ratios, and what was measured on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch

from league.arena.networks import architecture_of
from league.envs import registry
from league.maths.scheduling import round_robin
from league.play.evaluation import play
from league.play.pairings import Contestant, Pairing
from league.policies.actor_critic import ActorCritic
from league.policies.stacked import StackedPolicy
from league.runtime.device import choose_device
from league.sessions.settling import settle
from league.types import BOT_PREFIX, MatchBatch, Origin, Policy


def measure(
    num_nets: int, num_bots: int, games: int, repeats: int, device: torch.device, greedy: bool
) -> dict[str, object]:
    """Games a second of a round robin with `games` of each pair; medians of `repeats`."""
    config, spec, _, _ = settle("test50k", "fast", None, None, [])
    options = registry.check_options(config.env.name, config.env.options)
    sizes = architecture_of(config, spec)
    entrants = []
    for i in range(num_nets):
        torch.manual_seed(i)
        entrants.append(Contestant(f"net-{i}", ActorCritic(sizes).requires_grad_(False).to(device), sizes))
    entrants += [Contestant(BOT_PREFIX + bot) for bot in spec.bots[:num_bots]]
    pairings = [
        Pairing(entrants[i], entrants[j], games, seed) for seed, (i, j) in enumerate(round_robin(len(entrants)))
    ]

    def make_batch(rows: int) -> MatchBatch:
        return registry.make(config.env.name, rows=rows, threads=0, options=options)

    def make_stack(like: Policy) -> StackedPolicy:
        assert isinstance(like, ActorCritic)
        return StackedPolicy(like, 1, "float32")

    ways = {"pair_after_pair": [[pairing] for pairing in pairings], "side_by_side": [pairings]}
    rates: dict[str, list[float]] = {way: [] for way in ways}
    busy: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(repeats):
        for way, batches in ways.items():
            started, started_busy = time.perf_counter(), time.process_time()
            count = 0
            for batch in batches:
                results = play(
                    make_batch,
                    batch,
                    Origin("bench", ""),
                    update=0,
                    greedy=greedy,
                    make_stack=make_stack,
                )
                count += len(results)
            rates[way].append(count / (time.perf_counter() - started))
            busy[way].append(count / (time.process_time() - started_busy))
    figures = {
        f"{way}_{name}": round(statistics.median(found[way]), 2)
        for name, found in (("games_per_second", rates), ("games_per_cpu_second", busy))
        for way in ways
    }
    return {
        "bench": "tournament",
        "nets": num_nets,
        "bots": num_bots,
        "games_a_pair": games,
        "games": games * len(pairings),
        **figures,
        "ratio": round(statistics.median(b / a for a, b in zip(*rates.values(), strict=True)), 2),
        "cpu_ratio": round(statistics.median(b / a for a, b in zip(*busy.values(), strict=True)), 2),
        "repeats": repeats,
        "device": device.type,
        "threads": torch.get_num_threads(),
    }


def main() -> None:
    """Measures on the best device there is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nets", type=int, default=4)
    parser.add_argument("--bots", type=int, default=1)
    parser.add_argument("--games", type=int, default=2, help="of each pair, an even number")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--greedy", action="store_true", help="likeliest actions instead of sampled ones")
    a = parser.parse_args()
    print(json.dumps(measure(a.nets, a.bots, a.games, a.repeats, choose_device(a.device), a.greedy)))


if __name__ == "__main__":
    main()
