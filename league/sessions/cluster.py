"""A league over the machines of a Ray cluster: each learner is an actor, which trains as a process of its own does.

All nodes see the store's folder. What travels beside it is plain arguments, and the result as JSON: nothing of ours is
pickled. Ray starts an actor again, on another node where its own has gone, and it goes on from its last saved state.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import os
import platform
import re
import secrets
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from league import __version__
from league.config import role_sets
from league.errors import LeagueError, UsageError, command, one_line
from league.pool import roster
from league.runtime.signals import on_signal, settings_kept
from league.sessions.call import Call
from league.sessions.callbacks import Callbacks, callbacks_of
from league.sessions.folders import STOP, settings_of
from league.sessions.leagues import LeagueResult, learners_of, resume_league, written
from league.sessions.plans import TrainResult
from league.store import locks
from league.store.files import told
from league.store.rows import LearnerRow
from league.store.store import Store

LOCAL = "local"
"""In place of an address: a cluster of this machine alone, which ends with the call."""
CONNECT_SECONDS, PROBE_SECONDS, LOOK_SECONDS, TELL_SECONDS = 5.0, 60.0, 1.0, 10.0
"""How long a cluster has to answer, and a node; between two looks at the learners, and two lines about them."""
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
    call = replace(call, store=Path(call.store).absolute(), learner=None)
    room = _room_of(call)
    with _cluster(address, room) as ray:
        nodes = _need_alike(ray, Path(call.store), _files_of(call))
        _need_room(nodes, room)
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


class Room(NamedTuple):
    """Of a node, or what a learner asks for."""

    cpus: float
    gpus: float


@dataclass(frozen=True)
class Node:
    """A machine of a cluster, as it answers."""

    name: str
    room: Room


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


@contextlib.contextmanager
def _cluster(address: str, room: Sequence[Room]) -> Iterator[Any]:
    """Ray, connected; what was connected before stays so. The learners of a local cluster share the machine's cores.

    Raises:
        UsageError: it is not installed, or nobody answers there.
    """
    try:
        import ray
    except ImportError:
        raise UsageError(
            f"--on {address}: Ray is not installed; `pip install 'league-engine[ray]'`, here and on every node"
        ) from None
    if ray.is_initialized():  # by who calls
        yield ray
        return
    where: dict[str, Any] = {"address": address}
    if (found := re.fullmatch(r"(?:ray://)?(.+):(\d+)", address)) is not None:  # Ray itself tries for two minutes
        try:
            socket.create_connection((found[1], int(found[2])), CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise _no_cluster(address, error) from None
    if address == LOCAL:
        path = os.pathsep.join(os.path.abspath(place) for place in sys.path)
        cpus = max(os.cpu_count() or 1, math.ceil(sum(each.cpus for each in room)))
        where = {"num_cpus": cpus, "include_dashboard": False, "runtime_env": {"env_vars": {"PYTHONPATH": path}}}
    try:
        ray.init(**where, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # Ray raises ConnectionError, RuntimeError, ValueError and others of its own
        raise _no_cluster(address, error) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _no_cluster(address: str, error: Exception) -> UsageError:
    return UsageError(
        f"--on {address}: no Ray cluster answers ({one_line(str(error))[:200]}); begin one with `ray start --head`, or"
        f" pass --on {LOCAL}"
    )


def _probe(path: str, nonce: str, files: Mapping[str, str]) -> str:
    """What a node sees, as JSON: its version of league, the nonce in the store's folder, and the files' sha256."""
    seen = ""
    with contextlib.suppress(OSError):
        seen = Path(path, nonce).read_text()
    other = [file for file, wanted in files.items() if _sha256(file) != wanted]
    found = {"version": __version__, "nonce": seen, "other": other, "name": platform.node()}
    return json.dumps(found | {"python": platform.python_version()})


def _sha256(file: str) -> str:
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return ""


def _files_of(call: Call) -> dict[str, str]:
    """The files of the user's own that this call names, with their sha256: no other code of theirs runs on a node."""
    named = [call.env, call.sampler, call.policy, *(call.bots if isinstance(call.bots, list | tuple) else [call.bots])]
    found = {}
    for address in named:
        if address is None:
            continue
        if not isinstance(address, str):
            raise UsageError(f"{address!r}: on a cluster code is named by a file, as file.py:NAME; write it into one")
        path = Path(address.rpartition("=")[2].removeprefix("gymnasium:").removeprefix("pettingzoo:").split(":")[0])
        if path.suffix == ".py":
            found[str(path.absolute())] = _sha256(str(path))
    return found


def _need_alike(ray: Any, store: Path, files: Mapping[str, str]) -> list[Node]:
    """The nodes of the cluster, each of which has this version and sees the store's folder and the files.

    Raises:
        UsageError: one does not, or does not answer.
        StoreError: the folder cannot be written.
    """
    nonce, is_new = store / f".nonce-{secrets.token_hex(8)}", not store.exists()
    with told(store, "cannot be written", "pass another --store"):
        store.mkdir(parents=True, exist_ok=True)
        nonce.write_text(nonce.name)
    try:
        return [_node(ray, node, store, nonce.name, files) for node in ray.nodes() if node["Alive"]]
    finally:
        nonce.unlink(missing_ok=True)
        if is_new:  # what is refused leaves nothing
            store.rmdir()


def _node(ray: Any, node: Mapping[str, Any], store: Path, nonce: str, files: Mapping[str, str]) -> Node:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    name, here = node["NodeManagerHostname"], NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    task = ray.remote(_probe).options(num_cpus=0, scheduling_strategy=here, max_retries=0)
    try:
        found = json.loads(ray.get(task.remote(str(store), nonce, dict(files)), timeout=PROBE_SECONDS))
    except Exception as error:  # of Ray, or what its worker raised
        raise UsageError(
            f"node {name}: it cannot run league ({one_line(str(error).splitlines()[-1])}); install the same version"
            f" there, {__version__}"
        ) from None
    if (version := found["version"]) != __version__:
        raise UsageError(f"node {name}: it has league {version}, here is {__version__}; install the same version")
    if found["nonce"] != nonce:
        raise UsageError(f"node {name}: it does not see the folder {store}; pass a --store that all nodes share")
    if found["other"]:
        raise UsageError(f"node {name}: {found['other'][0]} is missing or another file there; copy it to that path")
    has = node["Resources"]
    return Node(found["name"], Room(has.get("CPU", 0.0), has.get("GPU", 0.0)))


def _need_room(nodes: Sequence[Node], learners: Sequence[Room]) -> None:
    """Refuses a league that the cluster has no room for: all learners train at once, each on one node.

    Raises:
        UsageError: it is too large.
    """
    for what in ("cpus", "gpus"):
        wanted, there = [getattr(each, what) for each in learners], [getattr(node.room, what) for node in nodes]
        if sum(wanted) > sum(there) or max(wanted) > max(there):
            raise UsageError(
                f"the league asks for {sum(wanted):g} {what} ({max(wanted):g} of one learner), the cluster has"
                f" {sum(there):g} ({max(there):g} on one node); add nodes, or lower `{what}` in the league's file"
            )


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
