"""A league over the machines of a Ray cluster: each learner is an actor, which trains as a process of its own does.
So is an exploiter; the caller plays the matches that measure it.

On a node that does not see the store's folder it trains in a copy (`league.sessions.courier`). Nothing of ours is
pickled. Ray starts an actor again, on another node where its own has gone, and it goes on from its last saved state.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from league import config as settings
from league.errors import LeagueError, StoreError, UsageError, command
from league.pool import roster
from league.runtime.cluster import (
    RESTARTS,
    Calls,
    ClusterActor,
    Node,
    Room,
    absolute,
    connected,
    files_of,
    last_line,
    need_room,
    need_store,
    nodes_of,
    nonce_in,
    on_node,
    size,
)
from league.runtime.process import settings_kept
from league.runtime.signals import on_signal
from league.sessions.call import Call
from league.sessions.callbacks import Callbacks, callbacks_of
from league.sessions.courier import Courier, store_of
from league.sessions.exploitability import begin_exploiter, resume_exploiter
from league.sessions.external_agents import keep
from league.sessions.folders import settings_of
from league.sessions.leagues import LeagueResult, finished, learners_of, resume_league, written
from league.sessions.plans import SessionEnd, TrainResult
from league.sessions.targets import find_target
from league.store import locks
from league.store.carried import STOP
from league.store.files import store_folder
from league.store.remote import remote_of
from league.store.rows import LearnerRow, RunRow
from league.store.store import Store

LOOK_SECONDS, TELL_SECONDS = 1.0, 10.0
"""Between two looks at the learners, and between two lines about them."""


def train_on(call: Call) -> TrainResult:
    """Trains a league or an exploiter on the cluster `call.on`, new or stopped, to its end or until it is stopped.

    Raises:
        UsageError: Ray is not installed, there is no cluster, its nodes have another version or none sees the store, or
            it is too small; nothing has been written.
        LeagueError: a learner failed; the others are stopped, saved.
    """
    callback = callbacks_of(call.callback)
    code = {name: absolute(getattr(call, name)) for name in ("env", "bots", "sampler", "policy")}
    call = replace(call, **code, store=store_folder(call.store).absolute(), learner=None)
    if call.against is not None or (call.resumes and "exploiter" in _roles(Store.open(Path(call.store)), call.resumes)):
        return _exploit(call, code, callback)
    with _cluster(call, _room_of(call), callback) as (ray, nodes, nonce):
        if call.resumes:
            store, league, asked = Store.open(Path(call.store), callback.say_or_log), call.resumes, list[RunRow]()
        else:
            store, league, asked = written(call, callback)
        configs, rows = {row.run: row.config for row in asked}, learners_of(store, league)
        changes = call.words if call.resumes else []
        words = _words(call, code, changes)
        ends = {row.run: _ended(store, row.run, configs.get(row.run, ""), changes) for row in rows}
        left = [row for row in rows if ends[row.run] is None]
        if not left:
            raise finished(store, league, [store.find_run(row.run) for row in rows])
        left.sort(key=lambda row: size(_room(store, row)), reverse=True)  # as `need_room` places them
        with _courier(ray, nodes, nonce, [league, *(row.run for row in rows)]) as courier:
            _send_guests(store, courier, [(row.run, configs.get(row.run, "")) for row in left])
            files = files_of(code)
            begin = {
                run: partial(_begin, ray, _room(store, row), files, run, configs.get(run, ""), words, courier)
                for row in left
                for run in [row.run]
            }
            ends |= _train(Calls(ray, begin), store, callback)
    results = [end for row in rows if (end := ends[row.run]) is not None]
    is_finished = all(result.status == "finished" for result in results)
    return LeagueResult(
        run=league,
        steps=sum(result.steps for result in results),
        updates=sum(result.updates for result in results),
        status="finished" if is_finished else "stopped",
        newest=results[0].newest,
        signal=0 if is_finished else max(result.signal for result in results),
        store=store.path,
        learners=tuple(results),
    )


def _exploit(call: Call, code: Mapping[str, Any], callback: Callbacks) -> TrainResult:
    """Trains an exploiter in an actor; its matches are played here, where its snapshots are by then."""
    room = Room(1.0, float((call.device or "").startswith("cuda")))
    with _cluster(call, [room], callback) as (ray, nodes, nonce):
        there = Store.create(Path(call.store), callback.say_or_log)
        with resume_exploiter(there, call, callback) if call.resumes else begin_exploiter(call, callback) as session:
            row, store = session.plans[0].row, session.plans[0].artifacts.store
        words = _words(call, code, call.words if call.resumes else [])
        if (end := _ended(store, row.run, "", words["overrides"])) is None:
            [learner] = store.learners(row.run)
            target = find_target(store, row, json.loads(learner.settings))
            if target.folder is not None and not target.is_own:
                need_store(nodes, store.path)
            played = target.label.partition("@")[0]
            leagues = [learner.league for learner in store.learners() if learner.run == played]
            seen = [row.run, *([played, *leagues] if target.is_own else [])]
            with _courier(ray, nodes, nonce, sorted(set(seen))) as courier:
                _send_guests(store, courier, [(row.run, "")])
                begin = partial(_begin, ray, room, files_of(code), row.run, "", words, courier)
                end = _train(Calls(ray, {row.run: begin}), store, callback)[row.run]
    return session.conclude(SessionEnd((end,), end.signal))


@contextlib.contextmanager
def _cluster(call: Call, room: Sequence[Room], callback: Callbacks) -> Iterator[tuple[Any, list[Node], Path]]:
    """Ray, its nodes, which have room, and the nonce in the store's folder."""
    address = str(call.on)
    with connected(address, room) as ray, nonce_in(Path(call.store)) as nonce:
        nodes = nodes_of(ray, nonce)
        if not (remote_of(nonce.parent) or any(node.sees_store for node in nodes)):
            need_store(nodes, nonce.parent)
        need_room(nodes, room)
        callback.say(f"on {address}: {', '.join(node.name for node in nodes)}")
        yield ray, nodes, nonce


def _words(call: Call, code: Mapping[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """Keywords of `Call` for an actor; each node opens a store at an address by itself."""
    store = there.address if (there := remote_of(Path(call.store))) else str(call.store)
    return {**code, "device": call.device, "overrides": list(changes), "store": store}


def _send_guests(store: Store, courier: Mapping[str, str], runs: Iterable[tuple[str, str]]) -> None:
    """Has the agents from elsewhere in the store, where a node does not see the folders that they come from.

    Args:
        store: which.
        courier: as of `store_of`.
        runs: that meet them, each with its settings from now on, as of `_ended`.
    """
    for run, config in runs if courier or remote_of(store.path) else ():
        keep(store.path / run, settings.of_run(run, config or store.find_run(run).config))
    store.push()


def _roles(store: Store, run: str) -> list[str]:
    """The role of a learner, or the roles of a league's."""
    return [row.role for row in store.learners() if run in (row.league, row.run)]


def _room_of(call: Call) -> list[Room]:
    """What each learner asks for.

    Raises:
        ConfigError, UsageError: there is no such league.
    """
    if not call.resumes:
        assert call.league is not None
        found = roster.load(call.league, settings.role_sets(call.words)[1])
        return [Room(learner.cpus, learner.gpus) for learner in found.learners]
    store = Store.open(Path(call.store))
    rows = store.learners(call.resumes)
    if not rows:
        raise UsageError(f"run={call.resumes}: --on trains a league or an exploiter, and it is none; leave --on out")
    return [_room(store, row) for row in rows if _ended(store, row.run, "", call.words) is None]


def _ended(store: Store, run: str, config: str, changes: Sequence[str]) -> TrainResult | None:
    """Where a learner stands that has made all its steps; None: it has not.

    Args:
        store, run: which.
        config: its settings from now on, as `RunRow.config`; empty: as they are.
        changes: settings laid over them.
    """
    row = store.find_run(run)
    total = settings.changed(settings.of_run(run, config or row.config), changes).run.total_steps
    if row.status != "finished" or row.steps < total:
        return None
    newest = store.snapshots(run)[-1].agent_id
    return TrainResult(run=run, steps=row.steps, updates=row.update, status="finished", newest=newest, store=store.path)


def _room(store: Store, row: LearnerRow) -> Room:
    with settings_of(store, row) as figures:
        return Room(float(figures["cpus"]), float(figures["gpus"]))


class LearnerActor(ClusterActor):
    """Trains one learner of a league, or an exploiter."""

    def train(self, run: str, config: str, words: Mapping[str, Any], courier: Mapping[str, str]) -> str:
        """Trains it to its end, from its last saved state where it has one.

        Args:
            run, config: as of `_ended`, since an earlier try may have come to the end.
            words: keywords of `Call`.
            courier: as of `store_of`.

        Returns:
            As JSON `result`, or `error`: an exception would be pickled.
        """
        call, nobody = Call(resumes=run, **words), Callbacks(())
        try:
            with store_of(run, Path(call.store), courier) as store:
                if (result := _ended(store, run, config, call.words)) is None:
                    locks.take_over(store.path / run / locks.LOCK, nobody.say)
                    is_exploiter = _roles(store, run) == ["exploiter"]
                    resume = resume_exploiter if is_exploiter else partial(resume_league, config=config)
                    with settings_kept(), resume(store, call, nobody) as session:
                        [result] = session.go().results
        except LeagueError as error:
            return json.dumps({"error": str(error)})
        return json.dumps({"result": {name: x for name, x in asdict(result).items() if name != "store"}})


def _train(calls: Calls, store: Store, callback: Callbacks) -> dict[str, TrainResult]:
    """Waits until all learners have ended, or have stopped; where each stands.

    Raises:
        LeagueError: one failed, and the others have been stopped.
    """
    ends, failed, told, told_at, runs = dict[str, dict[str, Any]](), "", "", 0.0, calls.running

    def tell(number: int) -> None:
        callback.say("stopping all learners after their updates; press again to quit at once")

    with on_signal(tell) as received:
        while calls.running:
            for run in calls.running if received or failed else ():  # at every look: who begins again removes the file
                with contextlib.suppress(OSError):
                    (store.path / run / STOP).touch()
                    store.push()
            for run, answer in calls.ended(LOOK_SECONDS).items():
                ends[run] = _end(answer, run, store)
                failed = failed or ends[run].get("error", "")
            if time.monotonic() - told_at > TELL_SECONDS:
                told, before, told_at = _how_far(store, runs), told, time.monotonic()
                if told != before:
                    callback.say(told)
        number = next(iter(received), 0)
    with contextlib.suppress(StoreError):  # the learners have sent all by themselves
        store.fetch()
    if failed:
        raise LeagueError(failed)
    return {run: TrainResult(**{**end["result"], "signal": number, "store": store.path}) for run, end in ends.items()}


@contextlib.contextmanager
def _courier(ray: Any, nodes: Sequence[Node], nonce: Path, names: Sequence[str]) -> Iterator[dict[str, str]]:
    """Where a node does not see the store a courier on one that does, this one if it can; what its learners hear."""
    if remote_of(nonce.parent) or all(node.sees_store for node in nodes):
        yield {}
        return
    here, name = ray.get_runtime_context().get_node_id(), f"courier-{secrets.token_hex(4)}"
    node = max((node for node in nodes if node.sees_store), key=lambda node: node.id == here)
    actor = ray.remote(Courier).options(**on_node(node.id), name=name)
    courier = actor.remote(os.getcwd(), str(nonce.parent), list(names))
    try:
        yield {"courier": name, "nonce": nonce.name}
    finally:
        with contextlib.suppress(ray.exceptions.RayError):
            ray.get(courier.close.remote())
            Store.open(nonce.parent).write_catalogue()


def _begin(ray: Any, room: Room, files: Any, run: str, *given: Any) -> tuple[Any, Any]:
    """An actor that trains a run, again where its node goes away; and the call.

    Args:
        files: as of `ClusterActor`.
        given: further arguments of `LearnerActor.train`.
    """
    often = {"max_restarts": RESTARTS, "max_task_retries": -1}
    name = f"{run}-{secrets.token_hex(4)}"
    made = ray.remote(LearnerActor).options(num_cpus=room.cpus, num_gpus=room.gpus, name=name, **often)
    actor = made.remote(os.getcwd(), files)
    return actor, actor.train.remote(run, *given)


def _end(answer: Any, run: str, store: Store) -> dict[str, Any]:
    """What a learner's actor has answered, or `error`."""
    if isinstance(answer, Exception):
        league = next((row.league for row in store.learners() if row.run == run), run)
        return {"error": f"run={run}: {last_line(answer)}; {command('resume', league, store=store.path)} goes on"}
    found: dict[str, Any] = json.loads(answer)
    return found


def _how_far(store: Store, runs: Iterable[str]) -> str:
    """The steps of each run."""
    with contextlib.suppress(StoreError):  # of an address
        store.fetch()
    return ", ".join(f"{run} {store.find_run(run).steps:,}" for run in runs) + " steps"
