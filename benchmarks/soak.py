"""Whether hours of training wear anything out: memory, file handles, threads and the store, sampled beside a real run.

    python -m benchmarks.soak --minutes 60 --out FOLDER

`league train` runs in a process of its own with small nets, a snapshot every 20,000 steps, an evaluation every 200,000
and a checkpoint every minute. Beside it `league leaderboard` and `league payoff` read the store, and now and then a
short run is trained into it and pruned. The training process is sampled all the while; FOLDER/samples.jsonl keeps the
samples. Prints one JSON document: what happened, medians by quarter of the run, fits, and a verdict on each promise.
Linux only: it reads /proc.

A machine that sleeps, or an owner who stops the processes for a while, leaves a gap in the samples and changes no
verdict, since nothing is fitted over time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from league.store.segments import ROWS
from league.store.store import Store

RUN = "soak"
SMALL = (
    *("agent.encoder_layers=2", "agent.encoder_heads=4", "agent.encoder_width=64", "agent.encoder_feedforward=128"),
    *("agent.latents=4", "agent.observation_width=64", "agent.lstm_size=64", "agent.head_sizes=[64]"),
)
OFTEN = (
    *("run.total_steps=190_000_000", "run.evaluate_every=200_000", "run.evaluate_games=10"),
    *("run.checkpoint_minutes=1", "pool.snapshot_every=20_000", "pool.snapshot_every_after=20_000"),
)
SHORT = ("run.evaluate_games=2", "pool.snapshot_every=256", "env.rows=16", "learner.rollout_steps=16")
MEMORY_TOLERANCE = 0.02
SLOPE_TOLERANCE = 0.1
WARM_UP = 0.05
"""Share of the samples that are left out: the first evaluation, and the pool filling its live nets."""
COUNTS = """
SELECT (SELECT count(*) FROM match), (SELECT count(*) FROM metric), (SELECT count(*) FROM snapshot WHERE run = 'soak'),
       (SELECT steps FROM run WHERE run = 'soak')
"""


@dataclass(frozen=True)
class Sample:
    """The training process and its store at one moment."""

    seconds: float
    """Since the start."""
    rss: int
    """Bytes of memory in use, shared pages included."""
    pss: int
    """Bytes, shared pages divided among those who share them."""
    uss: int
    """Bytes that are this process's alone. Like `pss` it falls when another process maps the same libraries."""
    anonymous: int
    """Bytes of no file: heap and stacks."""
    descriptors: int
    threads: int
    store_bytes: int
    """Of the run's segments that count."""
    spare_bytes: int
    """Of its segments that nothing names: the next saved state, or the one after it, removes them."""
    matches: int
    metrics: int
    snapshots: int
    steps: int


@dataclass
class Chores:
    """What was done beside the training, and what failed."""

    readings: int = 0
    prunings: int = 0
    pruned: int = 0
    failures: list[str] = field(default_factory=list)


def league(*words: str) -> list[str]:
    """The command line of `league WORDS`."""
    return [sys.executable, "-m", "league", *words]


def settings(pairs: Sequence[str]) -> list[str]:
    """`--set` for each."""
    return [word for pair in pairs for word in ("--set", pair)]


def take(process: int, store: Store, started: float) -> Sample:
    """A sample of the process.

    Raises:
        OSError: the process has ended.
    """
    proc = Path("/proc") / str(process)
    usage = {}
    for line in (proc / "smaps_rollup").read_text().splitlines()[1:]:
        name, kilobytes = line.split()[:2]
        usage[name.rstrip(":")] = 1024 * int(kilobytes)
    descriptors = len(os.listdir(proc / "fd"))
    threads = len(os.listdir(proc / "task"))
    matches, metrics, snapshots, steps = store.query(COUNTS)[1][0]
    named = {name for owner in store.view.owners() if owner.identity.name == RUN for name in owner.listing.names}
    sizes = {entry.name: entry.stat().st_size for entry in os.scandir(store.path / RUN / ROWS)}
    counted = sum(size for name, size in sizes.items() if name in named)
    return Sample(
        seconds=round(time.monotonic() - started, 1),
        rss=usage["Rss"],
        pss=usage["Pss"],
        uss=usage["Private_Clean"] + usage["Private_Dirty"],
        anonymous=usage["Anonymous"],
        descriptors=descriptors,
        threads=threads,
        store_bytes=counted,
        spare_bytes=sum(sizes.values()) - counted,
        matches=matches,
        metrics=metrics,
        snapshots=snapshots,
        steps=steps or 0,
    )


def call(chores: Chores, words: Sequence[str]) -> Any:
    """What `league WORDS --json` prints; None, and a failure noted, where it fails."""
    done = subprocess.run(league(*words, "--json"), capture_output=True, text=True, check=False)
    if done.returncode:
        chores.failures.append(f"league {' '.join(words[:2])}: exit {done.returncode}: {done.stderr.strip()[-300:]}")
        return None
    return json.loads(done.stdout)


def read(chores: Chores, store: Path) -> None:
    """Reads the store as somebody who is curious does."""
    for words in (["leaderboard"], ["payoff"]):
        call(chores, [*words, "--store", str(store), "--quiet"])
    chores.readings += 1


def prune(chores: Chores, store: Path) -> None:
    """Trains a short run into the store and prunes its snapshots, and asks which there are."""
    run = f"short-{chores.prunings}"
    place = ["--store", str(store), "--quiet"]
    call(chores, ["train", "--stage", "smoke", "--run", run, *place, *settings((*SMALL, *SHORT))])
    pruned = call(chores, ["snapshots", "prune", run, "--keep", "1", *place])
    if pruned:
        chores.pruned += sum(len(pruning["goes"]) for pruning in pruned["runs"])
    call(chores, ["snapshots", "list", *place])
    chores.prunings += 1


def watch(process: int, store: Path, minutes: float, every: float, out: Path, chores: Chores) -> list[Sample]:
    """Samples the process until the time is over or it has ended; reads and prunes on the way."""
    started = time.monotonic()
    read_at = prune_at = started + min(60.0, 10 * minutes)
    samples = []
    opened = Store.open(store)
    with out.open("w", encoding="utf-8") as lines:
        while time.monotonic() < started + 60 * minutes:
            time.sleep(every)
            try:
                samples.append(take(process, opened, started))
            except OSError:
                break
            print(json.dumps(asdict(samples[-1])), file=lines, flush=True)
            if time.monotonic() > read_at:
                read(chores, store)
                read_at = time.monotonic() + 60
            if time.monotonic() > prune_at:
                prune(chores, store)
                prune_at = time.monotonic() + 60 * min(10.0, minutes / 4)
    return samples


def quarters(samples: Sequence[Sample], name: str) -> list[float]:
    """The median of a figure in each quarter of the samples."""
    values = np.array([getattr(sample, name) for sample in samples], float)
    return [float(np.median(part)) for part in np.array_split(values, 4)]


def line(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Slope and R^2 of the least-squares line."""
    slope, intercept = np.polyfit(x, y, 1)
    rest = np.asarray(y) - (slope * np.asarray(x) + intercept)
    spread = np.sum((np.asarray(y) - np.mean(y)) ** 2)
    return float(slope), float(1 - np.sum(rest**2) / spread) if spread else 1.0


def judge(samples: Sequence[Sample]) -> dict[str, Any]:
    """Figures and verdicts. Memory and handles: the last quarter against the second one.

    Growth of the store is a line through the size of the run's segments over the match rows, of each half against the
    other: segments that are not merged yet scatter about any line, but bend none.
    """
    kept = samples[int(WARM_UP * len(samples)) :]
    quarter = len(kept) // 4
    second, last = kept[quarter : 2 * quarter], kept[-quarter:]
    medians = {name: quarters(kept, name) for name in ("rss", "pss", "uss", "anonymous", "descriptors", "threads")}
    growth = {name: values[3] / values[1] - 1 for name, values in medians.items()}
    fewest = {
        name: [min(getattr(sample, name) for sample in part) for part in (second, last)]
        for name in ("descriptors", "threads")
    }
    rows = [float(sample.matches) for sample in kept]
    sizes = [float(sample.store_bytes) for sample in kept]
    half = len(kept) // 2
    slope, r2 = line(rows, sizes)
    early, late = (line(rows[part], sizes[part])[0] for part in (slice(half), slice(half, None)))
    return {
        "medians_by_quarter": medians,
        "growth": {name: round(value, 4) for name, value in growth.items()},
        "fewest_descriptors": fewest["descriptors"],
        "fewest_threads": fewest["threads"],
        "bytes_per_match": round(slope, 1),
        "bytes_per_match_first_half": round(early, 1),
        "bytes_per_match_last_half": round(late, 1),
        "store_r2": round(r2, 4),
        "verdicts": {
            "memory_flat": all(abs(growth[name]) <= MEMORY_TOLERANCE for name in ("rss", "anonymous")),
            "descriptors_flat": growth["descriptors"] == 0 and len(set(fewest["descriptors"])) == 1,
            "threads_flat": growth["threads"] == 0 and len(set(fewest["threads"])) == 1,
            "store_linear": abs(late / early - 1) <= SLOPE_TOLERANCE,
        },
    }


def soak(minutes: float, every: float, out: Path) -> dict[str, Any]:
    """Trains for that long, watches, stops the run, and says what came of it."""
    out.mkdir(parents=True)
    store = out / "runs"
    words = ["train", "--stage", "10m", "--fresh", "--run", RUN, "--store", str(store), "--json"]
    chores = Chores()
    with (out / "train.log").open("wb") as log, (out / "train.json").open("wb") as result:
        training = subprocess.Popen(league(*words, *settings((*SMALL, *OFTEN))), stdout=result, stderr=log)
        try:
            while not Store.is_there(store) and training.poll() is None:
                time.sleep(0.1)
            samples = watch(training.pid, store, minutes, every, out / "samples.jsonl", chores)
            training.send_signal(signal.SIGTERM)  # Ctrl+C is ignored by what a script began with `&`
            code = training.wait()
        finally:
            training.kill()
    read(chores, store)
    found = call(chores, ["snapshots", "list", "--run", RUN, "--store", str(store), "--quiet"])
    waits = np.diff([sample.seconds for sample in samples])
    first, last = samples[0], samples[-1]
    return {
        "bench": "soak",
        "minutes": round(last.seconds / 60, 1),
        "samples": len(samples),
        "gaps_seconds": [round(float(wait)) for wait in waits if wait > 4 * every],
        "steps": last.steps,
        "steps_per_second": round(statistics.median(_rates(samples)), 1),
        "matches": last.matches,
        "metrics": last.metrics,
        "snapshots": last.snapshots,
        "store_bytes": last.store_bytes,
        "snapshot_files": sum(holding["has_files"] for holding in found["snapshots"]) if found else None,
        "readings": chores.readings,
        "prunings": chores.prunings,
        "pruned": chores.pruned,
        "failures": chores.failures,
        "exit_code": code,
        "settings": [*SMALL, *OFTEN],
        **judge(samples),
        "memory_begins_at": first.rss,
    }


def _rates(samples: Sequence[Sample]) -> list[float]:
    return [(b.steps - a.steps) / (b.seconds - a.seconds) for a, b in itertools.pairwise(samples)]


def main() -> None:
    """Prints the document; exit code 1 where a verdict is false, something failed or training did not stop cleanly."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--every", type=float, default=15.0, help="seconds between samples")
    parser.add_argument("--out", type=Path, required=True, help="a new folder for the store, the run and the samples")
    arguments = parser.parse_args()
    document = soak(arguments.minutes, arguments.every, arguments.out)
    print(json.dumps(document))
    is_stopped = document["exit_code"] == 128 + signal.SIGTERM
    is_well = all(document["verdicts"].values()) and not document["failures"] and is_stopped
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
