"""How fast the card duel is on one core: `python benchmarks/cards.py [ROWS [SECONDS]]`; prints one JSON object.

Decisions a second of `step` alone, all outputs written: with random legal actions for both seats, which are chosen
outside of the time that counts, and with each native bot in both seats. Beside the mean stands the rate of the quickest
tenth of the steps, which a busy machine disturbs least, and how often the slow twin fits into the first figure.
"""

import json
import os
import platform
import sys
import time

import numpy as np

from league.envs.cards import env
from league.envs.cards.env import Options
from league.envs.cards.rules import BOTS
from league.types import EXTERNAL
from tests.oracles.cards.batch import ReferenceBatch, decisions_a_second

rows = int(sys.argv[1]) if len(sys.argv) > 1 else 512
seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 2.0
options = Options.model_validate({})
spec = env.spec(options)
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def measure(controller: int) -> dict[str, int]:
    """Decisions a second: the mean, and of the quickest tenth of the steps."""
    batch = env.make(rows, 1, options)
    batch.controllers[:] = controller
    batch.reset(1)
    rng, spent = np.random.default_rng(0), []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        if controller == EXTERNAL:
            batch.actions[:] = spec.action.legal_actions(batch.mask, rng.random((rows, 2, spec.action.mask_size)))
        started = time.perf_counter()
        batch.step()
        spent.append(time.perf_counter() - started)
    quick = sorted(spent)[: max(1, len(spent) // 10)]
    return {"mean": round(rows / np.mean(spent)), "quickest_tenth": round(rows / np.mean(quick))}


rates = {"external": measure(EXTERNAL), **{name: measure(bot) for bot, name in enumerate(BOTS)}}
twin = ReferenceBatch(8, 1, spec=spec, rules=env.rules_of(options), options_hash=env.options_hash(options))
slow = decisions_a_second(twin, seconds)
print(
    json.dumps(
        {
            "bench": "cards",
            "rows": rows,
            "seconds": seconds,
            "decisions_per_second": rates,
            "twin_decisions_per_second": round(slow),
            "ratio_to_twin": round(rates["random"]["mean"] / slow),
            "machine": platform.machine(),
            "python": platform.python_version(),
        }
    )
)
