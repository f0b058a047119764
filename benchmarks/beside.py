"""What surrounds play and learning in a short training: seconds of its main thread in snapshots, saves, loads and the
store, by wall clock and by processor time, as one JSON document.

    python -m benchmarks.beside --set agent.opponent_encoder=false agent.lstm_size=128
"""

from __future__ import annotations

import argparse
import functools
import json
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import league
from league.sessions import wiring
from league.sessions.artifacts import FileArtifactStore
from league.store.folder import Folder
from league.store.reading import Reader
from league.store.view import View
from league.training import training as acts
from league.training.training import Training

PARTS: dict[str, list[tuple[Any, str]]] = {
    "play": [(Training, "collect")],
    "learn": [(Training, "learn")],
    "evaluate": [(Training, "evaluate")],
    "ladder": [(acts, "climb")],
    "snapshot": [(Training, "snapshot"), (FileArtifactStore, "add_snapshot"), (FileArtifactStore, "settle")],
    "save": [(Training, "save"), (FileArtifactStore, "save_state")],
    "load": [(FileArtifactStore, "load_policy")],
    "store": [
        *((Folder, name) for name in ("flush", "prepare", "commit", "add_matches", "add_metrics")),
        (Reader, "matches"),
        (wiring, "rate_evaluation"),
        (View, "write_catalogue"),
    ],
}
"""Part -> the calls whose time is its own; time within a call of another part is that part's."""


class Clock:
    """Adds up what the main thread spends in each part."""

    def __init__(self) -> None:
        self.parts: dict[str, list[float]] = {}
        self._inner: list[list[float]] = []

    def timed(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, whose time counts."""

        @functools.wraps(call)
        def counted(*given: Any, **options: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return call(*given, **options)
            began = time.perf_counter(), time.thread_time()
            self._inner.append([0.0, 0.0])
            try:
                return call(*given, **options)
            finally:
                taken = time.perf_counter() - began[0], time.thread_time() - began[1]
                inner = self._inner.pop()
                own = self.parts.setdefault(part, [0.0, 0.0])
                for i in range(2):
                    own[i] += taken[i] - inner[i]
                    if self._inner:
                        self._inner[-1][i] += taken[i]

        return counted


def main() -> None:
    """Trains and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="brawl")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--set", nargs="*", default=[], dest="overrides")
    given = parser.parse_args()
    clock = Clock()
    for part, calls in PARTS.items():
        for owner, name in calls:
            setattr(owner, name, clock.timed(part, getattr(owner, name)))
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        options = {"env": given.env, "device": given.device, "overrides": given.overrides}
        clock.timed("else", league.train)("test50k", store=Path(folder), **options)
    whole = [sum(times) for times in zip(*clock.parts.values(), strict=True)]
    shares = {
        part: {"seconds": round(wall, 2), "share": round(wall / whole[0], 4), "cpu_share": round(cpu / whole[1], 4)}
        for part, (wall, cpu) in clock.parts.items()
    }
    found = {"bench": "beside", "env": given.env, "overrides": given.overrides, **shares}
    print(json.dumps(found | {"seconds": round(whole[0], 1), "process_seconds": round(time.process_time() - began, 1)}))


if __name__ == "__main__":
    main()
