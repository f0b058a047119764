"""What readers of `league serve` cost a training: its speed with and without them, by turns.

    python -m benchmarks.serving --readers 20 --seconds 120

Without readers the server, which goes on, reads nothing. Speeds are compared by what an update took, by the clock and
by the processor time of the training's process; others on the machine disturb the first more.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import IO, Any, NamedTuple

import numpy as np

LEAGUE = (sys.executable, "-m", "league")
STEADY = (
    *("run.evaluate_every=0", "run.ladder_share=0.0", "run.total_steps=50_000_000", "run.allow_short=true"),
    *("learner.segments=1", "learner.minibatch_size=512", "learner.epochs=4", "env.threads=1"),
)
"""All updates are alike; the agent is the small one."""
EVERY_SECONDS = 5.0
"""Between two polls of a reader, as the page's script waits."""
TIMEOUT_SECONDS = 60.0


@dataclass
class Readers:
    """Threads that poll, each with its own tag, while they may."""

    address: str
    may_poll: threading.Event = field(default_factory=threading.Event)
    is_over: threading.Event = field(default_factory=threading.Event)
    waits: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    changed: int = 0

    def run(self) -> None:
        """One reader."""
        tag = ""
        while not self.is_over.is_set():
            if self.may_poll.wait(0.1):
                begun = time.monotonic()
                tag = self._poll(tag)
                self.waits.append(time.monotonic() - begun)
                self.is_over.wait(EVERY_SECONDS)

    def _poll(self, tag: str) -> str:
        request = urllib.request.Request(f"{self.address}data", headers={"If-None-Match": tag} if tag else {})
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
                json.load(answer)
                self.changed += 1
                return str(answer.headers["etag"])
        except urllib.error.HTTPError as error:
            if error.code != 304:
                self.failures.append(str(error))
        except (OSError, ValueError) as error:
            self.failures.append(str(error))
        return tag


class Updates:
    """When each update of a training was over, and what its process had used of the processors by then."""

    def __init__(self, trainer: subprocess.Popen[str]) -> None:
        assert trainer.stdout is not None
        self.seen: list[tuple[float, float]] = []
        threading.Thread(target=self._read, args=(trainer.stdout, trainer.pid), daemon=True).start()

    def _read(self, lines: IO[str], pid: int) -> None:
        with contextlib.suppress(ValueError, OSError):  # it was ended
            for line in lines:
                if json.loads(line).get("event") == "update":
                    self.seen.append((time.monotonic(), cpu_seconds(pid)))

    def within(self, begin: float, end: float) -> list[Seconds]:
        """What each update took that lies in a stretch of time."""
        own = [point for point in self.seen if begin <= point[0] <= end]
        return [Seconds(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(own)]


class Seconds(NamedTuple):
    """Of an update."""

    wall: float
    processor: float
    """Of all threads of the training's process."""


def compared(alone: Sequence[float], read: Sequence[float], draws: int = 2_000) -> dict[str, Any]:
    """The training's speed with readers as a multiple of that without, and the bootstrap's 95 % interval."""
    x, y, rng = np.array(alone), np.array(read), np.random.default_rng(0)
    found = [rng.choice(x, len(x)).mean() / rng.choice(y, len(y)).mean() for _ in range(draws)]
    lower, upper = np.quantile(found, [0.025, 0.975])
    return {
        "mean": round(float(x.mean() / y.mean()), 4),
        "interval": [round(float(lower), 4), round(float(upper), 4)],
        "median": round(float(np.median(x) / np.median(y)), 4),
    }


@contextlib.contextmanager
def process(*words: str, **how: Any) -> Iterator[subprocess.Popen[str]]:
    """A `league` command that is ended with the block."""
    with subprocess.Popen([*LEAGUE, *words], stdout=subprocess.PIPE, text=True, **how) as found:
        try:
            yield found
        finally:
            found.terminate()


def cpu_seconds(pid: int) -> float:
    """Of a processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(readers: int, seconds: float, turn: float, sets: list[str]) -> dict[str, Any]:
    """Trains, serves and reads."""
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "league.duckdb")
        overrides = [word for text in (*STEADY, *sets) for word in ("--set", text)]
        train = ("train", "--agent", "small", "--store", store, "--run", "run", "--json-lines", *overrides)
        with process(*train, stderr=subprocess.DEVNULL) as trainer:
            updates = Updates(trainer)
            while len(updates.seen) < 3:
                assert trainer.poll() is None, "the training has ended"
                time.sleep(0.2)
            with process("serve", "--store", store, "--port", "0", "--json") as server:
                assert server.stdout is not None
                polled = Readers(json.loads(server.stdout.readline())["address"])
                return _by_turns(polled, readers, seconds, turn, updates, server.pid)


def _by_turns(
    polled: Readers, readers: int, seconds: float, turn: float, updates: Updates, server: int
) -> dict[str, Any]:
    threads = [threading.Thread(target=polled.run, daemon=True) for _ in range(readers)]
    for thread in threads:
        thread.start()
    polled._poll("")  # what the first reading loads is loaded
    took: dict[bool, list[Seconds]] = {True: [], False: []}
    used, read = cpu_seconds(server), 0.0
    while read < seconds:
        for is_read in (True, False):
            if is_read:
                polled.may_poll.set()
            begun = time.monotonic()
            time.sleep(turn)
            took[is_read] += updates.within(begun, time.monotonic())
            if is_read:
                read += time.monotonic() - begun
                polled.may_poll.clear()
                time.sleep(2.0)  # answers under way come in
    used = cpu_seconds(server) - used
    polled.is_over.set()
    return {
        "readers": readers,
        "seconds": round(read, 1),
        "requests": len(polled.waits),
        "changed": polled.changed,
        "failures": len(polled.failures),
        "first_failures": polled.failures[:3],
        "slowest_answer_seconds": round(max(polled.waits), 3),
        "median_answer_seconds": round(median(polled.waits), 4),
        "server_cpu_seconds_per_second": round(used / read, 4),
        "updates": {"with readers": len(took[True]), "without": len(took[False])},
        "speed_with_readers": compared([x.wall for x in took[False]], [x.wall for x in took[True]]),
        "by_processor_time": compared([x.processor for x in took[False]], [x.processor for x in took[True]]),
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
    }


def main() -> None:
    """Prints the document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=120.0, help="of reading; as many without are added")
    parser.add_argument("--turn", type=float, default=20.0, help="seconds with readers, then as many without")
    parser.add_argument("--set", nargs="*", default=[], help="settings of the training")
    given = parser.parse_args()
    print(json.dumps(measure(given.readers, given.seconds, given.turn, given.set)))


if __name__ == "__main__":
    main()
