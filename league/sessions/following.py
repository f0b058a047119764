"""A call that several ranks answer: what is refused of it, how the others begin as rank 0 does, and how they end.

Rank 0 alone opens the store. The others are sent the run's settings, its state and all snapshots that they play.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import torch

from league import __version__
from league import config as settings
from league.arena import parts
from league.arena.games import enter, find_again
from league.arena.parts import Given
from league.config.models import Config
from league.config.schedules import marks
from league.config.updates import rows_of_minibatch
from league.errors import ConfigError, UsageError
from league.runtime.device import choose_device
from league.runtime.launch import place
from league.runtime.ranks import Ranks
from league.runtime.signals import on_signal
from league.runtime.trees import from_bytes, to_bytes
from league.sessions.artifacts import FileArtifactStore
from league.sessions.call import Call
from league.sessions.callbacks import callbacks_of
from league.sessions.external_agents import kept_ids
from league.sessions.plans import Plan, TrainResult
from league.sessions.settling import settle
from league.sessions.wiring import new_row, wire
from league.store.folder import Folder
from league.store.store import Store
from league.training.run import Run
from league.training.together import END, follow
from league.training.training import Training
from league.types import Source

START = "start"
"""What rank 0 orders first, before the training."""


def refuse_ranks(call: Call) -> None:
    """Refuses what one process alone can do.

    Raises:
        UsageError: with what to call instead.
    """
    there = place()
    if there is None:
        return
    kinds = {"on": call.on, "league": call.league, "against": call.against, "Trainer": call.is_custom_loop or None}
    for name, given in kinds.items():
        if given is not None:
            raise UsageError(
                f"{name}={given}: {there.size} ranks train one run; leave --ranks out, or call it without `torchrun`"
            )


def check_ranks(call: Call, config: Config, device: torch.device) -> None:
    """Refuses settings that do not divide by the ranks or that another rank does not have, and too few GPUs.

    All ranks call it. One process alone is never refused.

    Raises:
        ConfigError: a number that would do is named.
        UsageError: ranks disagree.
    """
    if call.ranks is None:
        return
    check_division(config, call.ranks.size)
    there = place()
    if device.type == "cuda" and there is not None and torch.cuda.device_count() < there.local_size:
        raise ConfigError(
            f"learner.device=cuda: {there.local_size} ranks on this machine need a GPU each, and it has"
            f" {torch.cuda.device_count()}; pass --ranks {torch.cuda.device_count()}, or --device cpu"
        )
    agree(call.ranks, config if not call.resumes else None, call)


def check_division(config: Config, size: int) -> None:
    """Refuses rows, minibatches and worker processes that do not divide by a number of ranks.

    Raises:
        ConfigError: with a number that does.
    """
    numbers = [("env.rows", config.env.rows, ""), ("env.workers", config.env.workers, "")]
    for mark in marks(config.schedules.values()):
        now = config.at(mark)
        numbers.append(
            ("rows of a minibatch", rows_of_minibatch(now), f" (learner.minibatch_size={now.learner.minibatch_size})")
        )
    for name, number, more in numbers:
        if number % size:
            fits = max(n for n in range(1, size + 1) if number % n == 0)
            near = f"set {name}={-(-number // size) * size}" if "." in name else "set learner.minibatch_size higher"
            raise ConfigError(f"{name}={number}{more} does not divide by {size} ranks; {near}, or pass --ranks {fits}")


def agree(ranks: Ranks, config: Config | None, call: Call) -> None:
    """Refuses ranks that were called otherwise than rank 0, or run another version of league.

    Raises:
        UsageError: with the ranks that differ.
    """
    told = {
        "version of league": __version__,
        "settings": None if config is None else settings.to_json(config),
        "call": [call.stage, call.seed, call.resumes, call.at, call.words],
    }
    own = {name: hashlib.sha256(json.dumps(x, sort_keys=True).encode()).hexdigest() for name, x in told.items()}
    all_told = ranks.gather(own)
    found = [(rank, name) for rank, each in enumerate(all_told) for name in own if each[name] != all_told[0][name]]
    for rank, name in ranks.broadcast(found)[:1]:
        raise UsageError(f"rank {rank} has not the {name} of rank 0; start all ranks with the same command and files")


def send_start(plan: Plan, run: Run, state: dict[str, Any] | None) -> None:
    """Sends the other ranks what they begin with: the run, its first weights or its state, and the nets it meets."""
    assert run.ranks is not None
    live = state["pool"]["live"] if state else []
    guests = kept_ids(plan.config)
    row = plan.row
    told = {
        "run": [row.run, row.seed, row.stage, row.fingerprint, row.preset, row.game],
        "source": asdict(row.source),
        "config": settings.to_json(plan.config),
        "policy": dict(run.policy.state_dict()),
        "state": state,
        "packages": [run.artifacts.package(agent) for agent in (*live, *guests)],
    }
    run.ranks.broadcast({"do": START})
    run.ranks.broadcast_bytes(to_bytes(told))


def send_end(ranks: Ranks, result: TrainResult) -> None:
    """Ends the other ranks; they return this result."""
    names = ("run", "steps", "updates", "status", "newest", "signal")
    ranks.broadcast({"do": END, "result": {name: getattr(result, name) for name in names}})


def follow_call(call: Call, ranks: Ranks) -> TrainResult:
    """Answers a call on another rank than 0, with its result there.

    Raises:
        ConfigError, UsageError: as `league.train` and `league.resume`, of this rank's settings and parts.
        LostRank: rank 0 has ended.
    """
    with on_signal(lambda number: None):  # rank 0 hears of it with the next rollout
        return _follow(call, ranks)


def _follow(call: Call, ranks: Ranks) -> TrainResult:
    refuse_ranks(call)
    say = callbacks_of(None).say
    game = None if call.resumes else enter(call.env, say)
    given = call.parts(say)
    if not call.resumes:
        sets = call.sets(given)
        config, _, device, _ = settle(call.stage, call.preset, game, call.config_file, sets, store=call.store)
        check_ranks(call, config, device)
    else:
        agree(ranks, None, call)
    told = ranks.broadcast()
    if told["do"] == START:
        training = _begun(call, given, ranks, from_bytes(ranks.broadcast_bytes()))
        try:
            told = follow(training)
        finally:
            training.close()
    return TrainResult(**told["result"], store=Path(call.store))


def _begun(call: Call, given: Given, ranks: Ranks, told: dict[str, Any]) -> Training:
    """The training that rank 0 begins (`send_start`), on another rank."""
    name, seed, stage, mark, preset, game = told["run"]
    config = settings.from_json(told["config"])
    find_again(game, Source(**told["source"]), f"run {name}", call.env)
    config, _ = parts.find_again(config, f"run {name}", given)
    device = choose_device(call.device or config.learner.device)
    row = new_row(name, config, seed, stage, mark, device, preset)
    artifacts = FollowerArtifacts(Store.planned(call.store), row, config, device)
    for data in told["packages"]:
        artifacts.unpack(data)
    run = wire(Plan(row, None, config, device, artifacts, callbacks_of(None), ranks=ranks))
    run.policy.load_state_dict(told["policy"])
    return Training(run, told["state"])


class _Unwritten:
    """In place of a run's folder: each of its methods does nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given, **named: None


class FollowerArtifacts(FileArtifactStore):
    """What another rank than 0 has of a run's files: the snapshots that it was sent; it writes nothing."""

    rows = cast(Folder, _Unwritten())

    def settle(self, *, wait: bool = True) -> None:
        """There is nothing to write."""

    def close(self) -> None:
        """There is nothing to write."""
