"""What a store and a tournament bear on a cluster, measured on this machine: `python -m benchmarks.cluster`.

A run is trained, and Ray tasks then play the part of many learners: each writes into a run's folder of its own in one
store, at the rate of that run. `league leaderboard` is timed while they write and after it. The tournament is played
without Ray and with one and two workers, in turns. Prints a JSON line each.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import league
from league import config as settings
from league.arena.agents import Where, play_pairings
from league.arena.cluster import PARTS, PlayerActor
from league.arena.entrants import enter
from league.maths.scheduling import round_robin
from league.runtime.interpreter import import_path, python
from league.sessions.folders import begin_folder
from league.store.folder import FLUSH_SECONDS, Folder
from league.store.store import Store

RUN = "trained"
SNAPSHOT_SECONDS = 10.0


@contextmanager
def ray_of(workers: int) -> Iterator[Any]:
    """Ray on this machine with so many cores."""
    import ray

    environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(import_path())}}
    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    try:
        yield ray
    finally:
        ray.shutdown()


def write(store: str, source: str, first: int, count: int, seconds: float, begins: float) -> str:
    """Writes what learners `first` to `first + count - 1` would, of whom each is the run of `source` over again."""
    opened, found = Store.create(Path(store)), Store.open(Path(source))
    row, snapshot = found.find_run(RUN), found.snapshots(RUN)[0]
    matches = [*found.matches(RUN, "training"), *found.matches(RUN, "evaluation")]
    random.Random(0).shuffle(matches)
    ends = [when for kind in ("training", "evaluation") for _, when in found.games_played(kind, RUN)]
    rate = len(ends) / (max(ends) - min(ends)).total_seconds()
    metrics = {f"metric-{i}": 0.5 for i in range(found.query("SELECT count(DISTINCT name) FROM metric")[1][0][0])}
    updates = row.update / (max(ends) - min(ends)).total_seconds()
    every = settings.of_run(RUN, row.config).run.checkpoint_minutes * 60
    folders = []
    for k in range(first, first + count):
        own = replace(row, run=f"learner-{k}", status="running", steps=0, update=0)
        (opened.path / own.run).mkdir(parents=True)
        folders.append(Folder(opened.path / own.run, print))
        with opened.one_at_a_time():
            begin_folder(folders[-1], own, opened.identity_of(own))
    time.sleep(max(0.0, begins - time.time()))
    begun, busy, ticks, made, saved, num_matches = time.monotonic(), 0.0, 0, 0, 0, 0
    while (at := time.monotonic() - begun) < seconds:
        time.sleep(max(0.0, ticks * FLUSH_SECONDS - at))
        tick_at, ticks = time.monotonic(), ticks + 1
        is_due, made = (at >= made * SNAPSHOT_SECONDS), made + (at >= made * SNAPSHOT_SECONDS)
        is_saved, saved = (at >= (saved + 1) * every), saved + (at >= (saved + 1) * every)
        for k, folder in enumerate(folders, first):
            me = f"{k:032x}{made:032x}"
            if is_due:
                path = f"{folder.name}/snapshots/{made:010d}"
                named = {"run": folder.name, "step": made, "update": made, "path": path, "parent": None}
                folder.add_snapshot(replace(snapshot, **named, agent_id=me))
            for i in range(int(rate * FLUSH_SECONDS * ticks) - int(rate * FLUSH_SECONDS * (ticks - 1))):
                like = matches[(num_matches + i) % len(matches)]
                other = f"{(k + i + 1) % (first + count):032x}{1:032x}"
                agents = (folder.name if like.kind == "training" else me, other)
                if like.agents[1].startswith("bot:"):
                    agents = (agents[0], like.agents[1])
                place = {"update": ticks, "row": i, "ordinal": 0, "seed": hash((k, ticks, i)) & (2**62 - 1)}
                folder.add_matches([replace(like, run=folder.name, agents=agents, **place)])
            for update in range(int(updates * FLUSH_SECONDS * (ticks - 1)), int(updates * FLUSH_SECONDS * ticks)):
                folder.add_metrics(update, update, metrics)
            folder.note(steps=ticks, update=ticks)
            folder.flush(force=True)
            if is_saved:
                folder.prepare()
                folder.commit()
        num_matches += int(rate * FLUSH_SECONDS)
        busy += time.monotonic() - tick_at
    took = time.monotonic() - begun
    return json.dumps({"busy": busy / took, "seconds": took})


def leaderboard_seconds(store: Path) -> float:
    started = time.perf_counter()
    code = "from league.__main__ import main; main()"
    subprocess.run(python(code, "leaderboard", "--store", store, "--quiet"), check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def writing(source: Path, folder: Path, learners: int, workers: int, seconds: float) -> dict[str, Any]:
    """Many learners that write at once."""
    share = -(-learners // workers)
    with ray_of(workers) as ray:
        begins = time.time() + 10 + learners / 10
        task = ray.remote(write).options(num_cpus=1)
        parts = [(first, min(share, learners - first)) for first in range(0, learners, share)]
        tasks = [task.remote(str(folder), str(source), *part, seconds, begins) for part in parts]
        time.sleep(max(0.0, begins + seconds / 2 - time.time()))
        during = [leaderboard_seconds(folder) for _ in range(3)]
        found = [json.loads(text) for text in ray.get(tasks)]
    after = [leaderboard_seconds(folder) for _ in range(3)]
    files = list(folder.glob("*/rows/*.parquet"))
    store, minutes = Store.open(folder), max(part["seconds"] for part in found) / 60
    matches = store.query("SELECT count(*) FROM match")[1][0][0]
    return {
        **{"learners": learners, "tasks": workers, "seconds": 60 * minutes},
        **{"segments": len(files), "segments_a_minute": len(files) / minutes, "matches": matches},
        **{"bytes": sum(file.stat().st_size for file in files), "busy": [part["busy"] for part in found]},
        **{"leaderboard_while_writing": statistics.median(during), "leaderboard_after": statistics.median(after)},
    }


def games_a_second(source: Path, workers: int, games: int) -> float:
    """Of a tournament between its first and its last batch; without Ray where there are no workers."""
    said: list[tuple[float, int]] = []

    def say(text: str) -> None:
        if " of " in text and text.endswith("games"):
            said.append((time.perf_counter(), int(text.partition(" ")[0].replace(",", ""))))

    given: dict[str, Any] = {"runs": [RUN], "newest": 4, "bots": True, "games": games, "device": "cpu", "say": say}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, RUN).symlink_to(source / RUN)
        if not workers:
            league.tournament(**given, store=folder)
        else:
            with ray_of(workers):
                league.tournament(**given, store=folder, on="auto")
    (begun, before), (ended, after) = said[0], said[-1]
    return (after - before) / (ended - begun)


def task_of(source: Path, games: int) -> dict[str, float]:
    """What one task of a whole batch takes: bytes there and back, and seconds."""
    where = {"env": None, "bots": None, "policy": None, "device": "cpu", "store": str(source)}
    meeting = enter([], [RUN], 4, True, where=Where(**where, say=None))[1]
    agents = [named.label for named in meeting.sides]
    actor, places = PlayerActor(os.getcwd(), {}, agents, where), round_robin(len(agents))
    pairings = [(a, b, games, seed) for seed, (a, b) in enumerate(places)]
    actor.play(pairings[:1], "t", 0, False)
    part, started = pairings[::PARTS], time.perf_counter()
    text = actor.play(part, "t", 0, False)
    seconds = time.perf_counter() - started
    num = games * len(part)
    assert len(play_pairings(meeting, part, run="t", update=0, greedy=False)) == num
    return {"games": num, "bytes_there": len(json.dumps(part)), "bytes_back": len(text), "seconds": seconds}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learners", type=int, default=100)
    parser.add_argument("--tasks", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--games", type=int, default=100)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--store", type=Path, help="keep what the learners write in this new folder")
    parser.add_argument("--only", choices=("store", "tournament"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        trained = Path(work, "source")
        sets = ("run.allow_short=true", "run.total_steps=60000")
        league.train("smoke", env="brawl", agent="small", run=RUN, overrides=sets, device="cpu", store=trained)
        if arguments.only != "tournament":
            where = arguments.store or Path(work, "store")
            print(
                json.dumps(writing(trained, where, arguments.learners, arguments.tasks, arguments.seconds)), flush=True
            )
        if arguments.only != "store":
            rates: dict[int, list[float]] = {0: [], 1: [], 2: []}
            for _ in range(arguments.turns):
                for count, measured in rates.items():
                    measured.append(games_a_second(trained, count, arguments.games))
            medians = {f"workers_{count}": statistics.median(measured) for count, measured in rates.items()}
            print(json.dumps({"games_a_second": medians, "task": task_of(trained, arguments.games)}), flush=True)
    sys.exit(0)
