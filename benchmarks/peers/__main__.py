"""Peers beside us, on our game: `python -m benchmarks.peers` at the root, with `pip install -e .[peers]`.

Each peer at each size runs in a process of its own, one after another, pinned to the same cores; both sides of a pair
have the same network sizes, rows, steps of a rollout and epochs. Every peer is set as suits it best: glibc's allocator
as league sets it for itself, fused Adam, and for PufferLib Bernoulli keys. `--settings` shows what each of these
brings, the peer against itself without it. Ours counts its whole loop, snapshots and the store's rows included.
Peers run in float32, ours in float32 throughout (`highest`), in `float32` as by default, which uses the processor's
tile units where it has some, and in bf16. Speeds are of whole windows after a warm-up; a rate of training is play and
the pair's epochs of learning in turn, computed from the two, and of ours what surrounds them.
With `--turns N` every process is run N times, all of them in turn, since a shared machine's speed drifts: a ratio is
then the median of N, each of one turn, with the least and the most beside it.
What differs stands at the top of each peer's file. A peer that is not installed is left out, with a line that says so;
one that needs an environment of its own is found with `--python pufferlib=PATH`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.peers.game import Size, Speed

ROOT = Path(__file__).resolve().parent.parent.parent
MEASURE = "--measure"


@dataclass(frozen=True)
class Peer:
    """A runner: a module of this package with `measure`."""

    module: str
    package: str
    """What must be installed for it."""
    options: tuple[tuple[str, Any], ...] = ()
    """Further arguments of `measure`."""
    sets_allocator: bool = True
    """Whether its environment lets glibc's allocator keep what is freed; league sees to that by itself."""
    of: str = ""
    """The peer that this one is, but for a setting; empty: it is set as suits it best."""


@dataclass(frozen=True)
class Pair:
    """Who is held against whom, and at how many epochs an update."""

    ours: str
    our_size: str
    peer: str
    size: str
    epochs: int


Results = dict[tuple[str, str], dict[str, Any]]
"""The runs of a turn, by peer and size."""

UNFUSED = ("is_fused", False)
MULTIDISCRETE = ("head", "multidiscrete")
PEERS = {
    "ours-highest": Peer("ours", "league-engine", (("precision", "highest"),), sets_allocator=False),
    "ours": Peer("ours", "league-engine", sets_allocator=False),
    "ours-bf16": Peer("ours", "league-engine", (("precision", "bf16"),), sets_allocator=False),
    "sb3": Peer("sb3", "sb3-contrib"),
    "sb3-as-is": Peer("sb3", "sb3-contrib", (UNFUSED,), sets_allocator=False, of="sb3"),
    "cleanrl": Peer("cleanrl", "torch"),
    "cleanrl-as-is": Peer("cleanrl", "torch", (UNFUSED,), sets_allocator=False, of="cleanrl"),
    "pufferlib": Peer("puffer", "pufferlib"),
    "pufferlib-multidiscrete": Peer("puffer", "pufferlib", (MULTIDISCRETE,), of="pufferlib"),
    "pufferlib-unfused": Peer("puffer", "pufferlib", (UNFUSED,), of="pufferlib"),
    "pufferlib-malloc": Peer("puffer", "pufferlib", sets_allocator=False, of="pufferlib"),
    "pufferlib-as-is": Peer("puffer", "pufferlib", (MULTIDISCRETE, UNFUSED), sets_allocator=False, of="pufferlib"),
    "sample-factory": Peer("factory", "sample-factory"),
    "sample-factory-as-is": Peer("factory", "sample-factory", (UNFUSED,), sets_allocator=False, of="sample-factory"),
}
SIZES = {
    # three seconds of the opponent's past: 30 decisions of three ticks, as league has it, and 90 ticks, as they had it
    "full": Size(lstm=512, rows=64, steps=32, minibatches=4, history=30),
    "full-90": Size(lstm=512, rows=64, steps=32, minibatches=4, history=90, ticks=1),
    "lstm512": Size(lstm=512, rows=256, steps=64, minibatches=2),
    "lstm128": Size(lstm=128, rows=256, steps=64, minibatches=2),
}
PRECISIONS = {"ours-highest": "highest", "ours": "float32", "ours-bf16": "bf16"}
"""The columns of the table: float32 throughout first."""
EPOCHS = {"sb3": 10, "cleanrl": 4, "pufferlib": 1, "sample-factory": 1}
PAIRS = (
    *(Pair(ours, "full", "sb3", "full-90", EPOCHS["sb3"]) for ours in PRECISIONS),
    Pair("ours", "full-90", "sb3", "full-90", EPOCHS["sb3"]),
    *(
        Pair(ours, size, peer, size, epochs)
        for size in ("lstm512", "lstm128")
        for peer, epochs in EPOCHS.items()
        for ours in PRECISIONS
    ),
)
SETTINGS = tuple(
    Pair(peer.of, size, name, size, EPOCHS[peer.of])
    for size in ("lstm512", "lstm128")
    for name, peer in PEERS.items()
    if peer.of
)
"""Each peer against itself without what suits it."""


def main() -> None:
    """Parses the command, runs the pairs, prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__.splitlines()[0])
    names = [*PEERS, *SIZES]
    parser.add_argument("--only", action="append", choices=names, default=[], metavar="NAME", help=", ".join(names))
    parser.add_argument("--skip", action="append", choices=names, default=[], metavar="NAME", help="pairs to leave out")
    parser.add_argument("--settings", action="store_true", help="the peers against themselves without what suits them")
    parser.add_argument("--seconds", type=float, default=8.0, help="measuring time of a run, after its warm-up")
    parser.add_argument("--turns", type=int, default=1, help="times that everything is run; odd, for a median")
    parser.add_argument("--threads", type=int, default=1, help="cores to pin to, and threads on them")
    parser.add_argument("--rows", type=int, help="in place of each size's own")
    parser.add_argument("--steps", type=int, help="steps of a rollout, in place of each size's own")
    parser.add_argument("--python", action="append", default=[], metavar="PEER=PATH", help="interpreter of a peer")
    parser.add_argument("--json", action="store_true", help="one JSON line in place of the tables")
    arguments = parser.parse_args()
    cores = _cores()
    if not 1 <= arguments.threads <= len(cores):
        parser.error(f"--threads {arguments.threads}: must be from 1 to {len(cores)}, the cores of this process")
    if not arguments.seconds > 0:
        parser.error(f"--seconds {arguments.seconds:g}: must be above 0; pass --seconds 8")
    if arguments.turns < 1 or arguments.turns % 2 == 0:
        parser.error(f"--turns {arguments.turns}: must be odd and above 0; pass --turns 5")
    interpreters = {name: os.path.abspath(path) for name, _, path in (x.partition("=") for x in arguments.python)}
    if strangers := interpreters.keys() - PEERS.keys():
        parser.error(f"--python {min(strangers)}=...: no such peer; name one of {', '.join(PEERS)}")
    pairs = chosen(SETTINGS if arguments.settings else PAIRS, set(arguments.only), set(arguments.skip))
    if not pairs:
        words = [*(f"--only {name}" for name in arguments.only), *(f"--skip {name}" for name in arguments.skip)]
        parser.error(f"{' '.join(words)}: no pair is left")
    given = {"rows": arguments.rows, "steps": arguments.steps}
    changes = {name: value for name, value in given.items() if value is not None}
    sizes = {name: replace(size, **changes) for name, size in SIZES.items()}
    for name, size in sizes.items():
        if size.rows < 1 or size.steps < 1 or size.rows % size.minibatches:
            parser.error(f"--rows {size.rows} --steps {size.steps}: {name} needs a multiple of {size.minibatches} rows")

    wanted_runs = {run for p in pairs for run in ((p.ours, p.our_size), (p.peer, p.size))}
    order = [(peer, size) for size in sizes for peer in PEERS if (peer, size) in wanted_runs]
    turns: list[Results] = []
    for turn in range(arguments.turns):
        results: Results = {}
        for peer, size in order:
            print(f"{peer}, {size}, turn {turn + 1} of {arguments.turns} ...", file=sys.stderr, flush=True)
            results[peer, size] = run(
                peer,
                sizes[size],
                cores=cores[: arguments.threads],
                seconds=arguments.seconds,
                python=interpreters.get(PEERS[peer].of or peer, sys.executable),
            )
            if turn == 0 and "skipped" in results[peer, size]:
                print(f"{peer} is left out: {results[peer, size]['skipped']}", file=sys.stderr)
        turns.append(results)
    from league.policies.kernels.linear import has_tiles

    report = {
        "machine": platform.machine(),
        "has_tiles": has_tiles(),
        "cores": cores[: arguments.threads],
        "seconds": arguments.seconds,
        "turns": arguments.turns,
        "runs": [
            {
                "peer": peer,
                "size": size,
                **asdict(sizes[size]),
                **median_run([results[peer, size] for results in turns]),
            }
            for peer, size in order
        ],
        "pairs": [row for pair in pairs if (row := median_pair(pair, turns)) is not None],
    }
    print(json.dumps(report) if arguments.json else "\n\n".join(_tables(report)))


def chosen(pairs: Sequence[Pair], only: set[str], skipped: set[str]) -> list[Pair]:
    """Those that have all of the names `only` and none of the others."""
    named = [(pair, {pair.ours, pair.our_size, pair.peer, pair.size}) for pair in pairs]
    return [pair for pair, names in named if only <= names and not names & skipped]


def median_run(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One run's results of all turns as one, with the median of each speed."""
    middle = dict(results[0])
    for name in ("play", "learn", "train_one_epoch", "beside"):
        if middle.get(name) is not None:
            middle[name] = statistics.median(result[name] for result in results)
    return middle


def median_pair(pair: Pair, turns: Sequence[Results]) -> dict[str, Any] | None:
    """The turn whose ratio is the median one, with the `ratios` of all; None where one side was left out."""
    found = sorted((row for results in turns if (row := _ratio(pair, results))), key=lambda row: float(row["ratio"]))
    return {**found[len(found) // 2], "ratios": [row["ratio"] for row in found]} if found else None


def run(peer: str, size: Size, *, cores: Sequence[int], seconds: float, python: str) -> dict[str, Any]:
    """The fields of the peer's `Speed` and its `version`, or `skipped` and why; in a process pinned to `cores`."""
    what = {"peer": peer, "size": asdict(size), "cores": list(cores), "seconds": seconds}
    threads = str(len(cores))
    environment = {"GOMP_SPINCOUNT": "20000", **os.environ, "PYTHONPATH": str(ROOT)}
    environment |= {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    environment |= allocator() if PEERS[peer].sets_allocator else {}
    with tempfile.TemporaryDirectory() as folder:  # PufferLib and Sample Factory write where they are started
        done = subprocess.run(
            [python, "-m", "benchmarks.peers", MEASURE, json.dumps(what)],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
    if done.returncode:
        sys.exit(f"{peer} failed with exit code {done.returncode}; its own words are above")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def allocator() -> dict[str, str]:
    """What `league.runtime.device.keep_freed_memory` sets in its process, as glibc reads it from an environment."""
    from league.runtime.device import NEVER, TOP_PAD

    return {
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(NEVER),
        "MALLOC_TOP_PAD_": str(TOP_PAD),
    }


def measure(what: dict[str, Any]) -> dict[str, Any]:
    """The other side of `run`, in the new process."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, what["cores"])
    peer = PEERS[what["peer"]]
    try:
        module = importlib.import_module(f"benchmarks.peers.{peer.module}")
    except ModuleNotFoundError as error:
        return {"skipped": f"{error.name} is not installed"}
    speed: Speed = module.measure(
        Size(**what["size"]), threads=len(what["cores"]), seconds=what["seconds"], **dict(peer.options)
    )
    return {**asdict(speed), "version": version(peer.package), "torch": version("torch")}


def _cores() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _speed(result: dict[str, Any]) -> Speed | None:
    fields = Speed.__dataclass_fields__
    return None if "skipped" in result else Speed(**{name: result[name] for name in fields})


def _ratio(pair: Pair, runs: Results) -> dict[str, Any] | None:
    """The pair's two rates of training and their ratio; None where one side was left out."""
    ours, theirs = _speed(runs[pair.ours, pair.our_size]), _speed(runs[pair.peer, pair.size])
    if ours is None or theirs is None:
        return None
    our_rate, their_rate = ours.train(pair.epochs), theirs.train(pair.epochs)
    assert our_rate is not None and their_rate is not None, "the pairs ask each peer for epochs that it can tell"
    return {
        **asdict(pair),
        "our_steps_per_second": our_rate,
        "peer_steps_per_second": their_rate,
        "ratio": our_rate / their_rate,
    }


def _tables(report: dict[str, Any]) -> list[str]:
    """Markdown: the ratios, what the settings bring, and the runs that they come from."""
    return ["\n".join(lines) for lines in (_peers(report), _settings(report), _runs(report)) if len(lines) > 2]


def _peers(report: dict[str, Any]) -> list[str]:
    """A line a peer and size, float32 throughout first."""
    tiles = "with tile units" if report["has_tiles"] else "no tile units here"
    lines = [
        "| ours | against | epochs | ours in `highest`, steps/s | peer, steps/s | ratio in `highest` |"
        f" `float32`, {tiles} | bf16 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows: dict[tuple[str, str, str, int], dict[str, dict[str, Any]]] = {}
    for p in report["pairs"]:
        if p["ours"] in PRECISIONS:
            rows.setdefault((p["our_size"], p["peer"], p["size"], p["epochs"]), {})[PRECISIONS[p["ours"]]] = p
    for (our_size, peer, size, epochs), found in rows.items():
        first = found.get("highest", {})
        rates = f"{_number(first.get('our_steps_per_second'))} | {_number(first.get('peer_steps_per_second'))}"
        ratios = " | ".join(_spread(found[x]["ratios"]) if x in found else "-" for x in PRECISIONS.values())
        lines.append(f"| {our_size} | {peer} {size} | {epochs} | {rates} | {ratios} |")
    return lines


def _settings(report: dict[str, Any]) -> list[str]:
    """A line a setting that a peer is without."""
    lines = ["| peer | without what suits it | steps/s | without | ratio |", "|---|---|---|---|---|"]
    for p in report["pairs"]:
        if p["ours"] not in PRECISIONS:
            rates = f"{_number(p['our_steps_per_second'])} | {_number(p['peer_steps_per_second'])}"
            lines.append(f"| {p['ours']} {p['our_size']} | {p['peer']} | {rates} | {_spread(p['ratios'])} |")
    return lines


def _runs(report: dict[str, Any]) -> list[str]:
    """A line a run."""
    lines = [
        "| run | rows x steps | parameters | minibatch | play, steps/s (over) | learning, samples/s (over) |"
        " share beside them |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in report["runs"]:
        if "skipped" not in r:
            play = f"{_number(r['play'])} ({r['play_steps']:,})"
            learn = f"{_number(r['learn'])} ({r['learn_samples']:,})"
            shape = f"{r['rows']} x {r['steps']} | {r['parameters']:,} | {r['minibatch']:,}"
            rate = _speed(r).train(1)
            lines.append(f"| {r['peer']} {r['size']} | {shape} | {play} | {learn} | {rate * r['beside']:.3f} |")
    return lines


def _spread(ratios: Sequence[float]) -> str:
    """The median of sorted ratios; of more than one also the least and the most."""
    middle = f"{ratios[len(ratios) // 2]:.3g}"
    return middle if len(ratios) == 1 else f"{middle} ({ratios[0]:.3g} to {ratios[-1]:.3g})"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    if sys.argv[1:2] == [MEASURE]:
        print(json.dumps(measure(json.loads(sys.argv[2]))))
    else:
        main()
