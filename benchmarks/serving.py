"""What readers of `league serve` cost a training: its speed with and without them, by turns, as one JSON document.

    python -m benchmarks.serving --readers 20 --seconds 120

Without readers the server, which goes on, reads nothing. On a machine that others use only the ratio means something,
and only over many turns.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import IO, Any

LEAGUE = (sys.executable, "-m", "league")
STEADY = ("run.evaluate_every=0", "run.ladder_share=0.0", "run.total_steps=50_000_000", "run.allow_short=true")
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


class Steps:
    """When a training had made how many steps."""

    def __init__(self, lines: IO[str]) -> None:
        self.seen: list[tuple[float, int]] = []
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            found = json.loads(line)
            if found.get("event") == "update":
                self.seen.append((time.monotonic(), int(found["steps"])))

    def rate(self, begin: float, end: float) -> float | None:
        """Steps a second between the first and the last update of a stretch."""
        own = [point for point in self.seen if begin <= point[0] <= end]
        return None if len(own) < 2 else (own[-1][1] - own[0][1]) / (own[-1][0] - own[0][0])


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
        train = ("train", "--store", store, "--run", "run", "--json-lines", *overrides)
        with process(*train, stderr=subprocess.DEVNULL) as trainer:
            assert trainer.stdout is not None
            steps = Steps(trainer.stdout)
            while len(steps.seen) < 3:
                assert trainer.poll() is None, "the training has ended"
                time.sleep(0.2)
            with process("serve", "--store", store, "--port", "0", "--json") as server:
                assert server.stdout is not None
                polled = Readers(json.loads(server.stdout.readline())["address"])
                return _by_turns(polled, readers, seconds, turn, steps, server.pid)


def _by_turns(polled: Readers, readers: int, seconds: float, turn: float, steps: Steps, server: int) -> dict[str, Any]:
    threads = [threading.Thread(target=polled.run, daemon=True) for _ in range(readers)]
    for thread in threads:
        thread.start()
    polled._poll("")  # what the first reading loads is loaded
    ratios, used, read = [], cpu_seconds(server), 0.0
    while read < seconds:
        rates = []
        for is_read in (True, False):
            if is_read:
                polled.may_poll.set()
            begun = time.monotonic()
            time.sleep(turn)
            rates.append(steps.rate(begun, time.monotonic()))
            if is_read:
                read += time.monotonic() - begun
                polled.may_poll.clear()
                time.sleep(2.0)  # answers under way come in
        if rates[0] and rates[1]:
            ratios.append(rates[0] / rates[1])
    used = cpu_seconds(server) - used
    polled.is_over.set()
    return {
        "readers": readers,
        "seconds": round(read, 1),
        "turns": len(ratios),
        "requests": len(polled.waits),
        "changed": polled.changed,
        "failures": len(polled.failures),
        "first_failures": polled.failures[:3],
        "slowest_answer_seconds": round(max(polled.waits), 3),
        "median_answer_seconds": round(median(polled.waits), 4),
        "server_cpu_seconds_per_second": round(used / read, 4),
        "speed_with_readers": round(median(ratios), 4) if ratios else None,
        "ratios": [round(x, 3) for x in ratios],
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
