"""A league over the machines of a Ray cluster: each learner is an actor, which trains as a process of its own does.

All nodes see the store's folder. What travels beside it is plain arguments, and the result as JSON: nothing of ours is
pickled. Ray starts an actor again, on another node where its own has gone, and it goes on from its last saved state.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from league.config import role_sets
from league.errors import LeagueError, UsageError, command, one_line
from league.pool import roster
from league.runtime.cluster import Room, connected, files_of, need_room, nodes_of
from league.runtime.signals import on_signal, settings_kept
from league.sessions.call import Call
from league.sessions.callbacks import Callbacks, callbacks_of
from league.sessions.folders import STOP, settings_of
from league.sessions.leagues import LeagueResult, learners_of, resume_league, written
from league.sessions.plans import TrainResult
from league.store import locks
from league.store.files import store_folder
from league.store.rows import LearnerRow
from league.store.store import Store

LOOK_SECONDS, TELL_SECONDS = 1.0, 10.0
"""Between two looks at the learners, and between two lines about them."""
RESTARTS = 20
"""Of one learner's actor, after nodes or workers that went away."""


def train_on(call: Call) -> TrainResult:
    """Trains a league on the cluster `call.on`, a new one, or one that goes on, to its end or until it is stopped.

    Raises:
        UsageError: Ray is not installed, there is no cluster, its nodes have another version or see another folder, or
            it is too small for the league; nothing has been written.
        LeagueError: a learner failed; the others are stopped, saved.
    """
    callback, address = callbacks_of(call.callback), str(call.on)
    call = replace(call, store=store_folder(call.store).absolute(), learner=None)
    room, bots = _room_of(call), call.bots if isinstance(call.bots, list | tuple) else [call.bots]
    named = [call.env, call.sampler, call.policy, *bots]
    with connected(address, room) as ray:
        nodes = nodes_of(ray, Path(call.store), files_of(named))
        need_room(nodes, room)
        callback.say(f"on {address}: {', '.join(node.name for node in nodes)}")
        if call.resumes:
            store, league = Store.open(Path(call.store), callback.say_or_log), call.resumes
        else:
            store, league, _ = written(call, callback)
        ends = _train(ray, call, store, learners_of(store, league), callback)
    results = [TrainResult(**{**end, "store": store.path}) for end in ends]
    is_finished = all(result.status == "finished" for result in results)
    return LeagueResult(
        run=league,
        steps=sum(result.steps for result in results),
        updates=sum(result.updates for result in results),
        status="finished" if is_finished else "stopped",
        newest=results[0].newest,
        signal=max(result.signal for result in results),
        store=store.path,
        learners=tuple(results),
    )


def _room_of(call: Call) -> list[Room]:
    """What each learner asks for.

    Raises:
        ConfigError, UsageError: there is no such league.
    """
    if not call.resumes:
        assert call.league is not None
        found = roster.load(call.league, role_sets(call.words)[1])
        return [Room(learner.cpus, learner.gpus) for learner in found.learners]
    store = Store.open(Path(call.store))
    rows = store.learners(call.resumes)
    if not rows:
        raise UsageError(f"run={call.resumes}: --on trains the learners of a league, and it is none; leave --on out")
    return [_room(store, row) for row in rows]


def _room(store: Store, row: LearnerRow) -> Room:
    with settings_of(store, row) as figures:
        return Room(float(figures["cpus"]), float(figures["gpus"]))


class LearnerActor:
    """Trains one learner of a league, in a worker process of Ray."""

    def train(self, run: str, words: Mapping[str, Any]) -> str:
        """Trains it to its end, from its last saved state where it has one.

        words: keywords of `Call`.

        Returns:
            As JSON `result`, or `error`: an exception would be pickled.
        """
        call, nobody = Call(resumes=run, **words), Callbacks(())
        try:
            store = Store.open(Path(call.store))
            locks.take_over(store.path / run / locks.LOCK, nobody.say)
            with settings_kept(), resume_league(store, call, nobody) as session:
                [result] = session.go().results
        except LeagueError as error:
            return json.dumps({"error": str(error)})
        return json.dumps({"result": {name: x for name, x in asdict(result).items() if name != "store"}})


def _train(ray: Any, call: Call, store: Store, rows: Sequence[LearnerRow], callback: Callbacks) -> list[dict[str, Any]]:
    """Trains all learners at once; where each stands, in the order of the league's file.

    Raises:
        LeagueError: one failed, and the others have been stopped.
    """
    given = {name: getattr(call, name) for name in ("env", "bots", "sampler", "policy", "device")}
    words = {**given, "store": str(store.path)}
    tasks = {row.run: _task(ray, store, row, words) for row in rows}
    ends: dict[str, dict[str, Any]] = {}
    failed, told_at = "", 0.0

    def stop(number: int = 0) -> None:
        for run in [run for run in tasks if run not in ends]:
            with contextlib.suppress(OSError):
                (store.path / run / STOP).touch()
        if number:
            callback.say("stopping all learners after their updates; press again to quit at once")

    with on_signal(stop) as received:
        while len(ends) < len(tasks):
            waiting = [task for run, task in tasks.items() if run not in ends]
            done, _ = ray.wait(waiting, num_returns=1, timeout=LOOK_SECONDS)
            for run in [run for run, task in tasks.items() if task in done]:
                ends[run] = _end(ray, tasks[run], run)
                failed = failed or ends[run].get("error", "")
                if failed:
                    stop()
            if time.monotonic() - told_at > TELL_SECONDS:
                told_at = time.monotonic()
                _tell(store, rows, callback.say)
        number = next(iter(received), 0)
    if failed:
        raise LeagueError(failed)
    return [{**ends[row.run]["result"], "signal": number} for row in rows]


def _task(ray: Any, store: Store, row: LearnerRow, words: Mapping[str, Any]) -> Any:
    """A learner's training as Ray carries it out, again where its node goes away."""
    room, name = _room(store, row), f"{row.run}-{secrets.token_hex(4)}"
    often = {"max_restarts": RESTARTS, "max_task_retries": -1}
    actor = ray.remote(LearnerActor).options(num_cpus=room.cpus, num_gpus=room.gpus, name=name, **often)
    return actor.remote().train.remote(row.run, dict(words))


def _end(ray: Any, task: Any, run: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(ray.get(task))
    except Exception as error:  # its worker died too often, or raised what is no error of ours
        return {"error": f"run={run}: {one_line(str(error).splitlines()[-1])}; {command('resume', run)} goes on"}
    return found


def _tell(store: Store, rows: Sequence[LearnerRow], say: Callable[[str], None]) -> None:
    """How far everybody is."""
    found = [store.find_run(row.run) for row in rows]
    say(", ".join(f"{row.run} {row.steps:,}" for row in found) + " steps")
