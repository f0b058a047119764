"""Training a league: its learners are runs on one store, which take turns in one process or have one process each.

What a learner sees of the others, and when they see it, is `league.sessions.artifacts.LeagueArtifactStore`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from league import config as settings
from league.arena.agents import check_seed
from league.arena.games import enter
from league.arena.parts import Given
from league.boards.standings import curves
from league.config import Layer
from league.config.models import CURRENT, SELF_PLAY, Config
from league.errors import ConfigError, SnapshotError, UsageError, command, nearest
from league.pool import roster
from league.pool.league_pool import Assignment, LeaguePool
from league.pool.roles import ROLES
from league.pool.roster import Roster
from league.runtime.device import choose_device, describe_device
from league.sessions.artifacts import LeagueArtifactStore
from league.sessions.call import Call
from league.sessions.callbacks import Callbacks
from league.sessions.folders import begin_runs, first_free, is_pruned, settings_of
from league.sessions.plans import Plan, SessionEnd, TrainResult
from league.sessions.runs import Continued, changed
from league.sessions.session import Session
from league.sessions.settling import check_name, check_room, check_settings, settle
from league.sessions.wiring import new_row
from league.store.rows import LearnerRow, RunRow
from league.store.store import Store
from league.types import GameSpec
from league.types.results import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STAGE = "league"
"""In place of a stage in the rows of a league's runs: no stage carries them on."""


@dataclass(frozen=True, repr=False, kw_only=True)
class LeagueResult(TrainResult):
    """Where a call left a league: steps and updates of all its learners together."""

    learners: tuple[TrainResult, ...]
    """Those that it trained, in the order of the league's file."""

    def grids(self) -> list[Grid]:
        """A row a learner."""
        rows = [(x.run, x.status, x.steps, x.updates) for x in self.learners]
        return [Grid(("learner", "status", "steps", "updates"), rows, f"league {self.run}: {self.status}")]

    def plot(self) -> Figure:
        """The ratings of each learner's snapshots over its steps."""
        return curves(Store.open(self.store), [x.run for x in self.learners], f"league {self.run}")


@contextmanager
def begin_league(call: Call, callback: Callbacks) -> Iterator[Session]:
    """The session of a new league, or of the one of that name with the same settings.

    Raises:
        ConfigError: the file or the settings cannot be run; nothing has been written.
        UsageError: the name is taken, or another process trains one of the learners.
        StoreError, LeagueError: as `league.train`.
    """
    store, name, asked = written(call, callback)
    wanted = {row.run: row for row in asked}
    again = Call(device=call.device)
    with _session(store, name, call.learner, again, wanted, callback) as session:
        yield session


def written(call: Call, callback: Callbacks) -> tuple[Store, str, list[RunRow]]:
    """Writes a call's league into its store, unless it is there; the store, its name, and the rows asked for.

    Raises:
        ConfigError, LeagueError, StoreError, UsageError: as `begin_league`; nothing has been written.
    """
    assert call.league is not None
    words, figures = settings.role_sets(call.words)
    found = roster.load(call.league, figures)
    check_seed(call.seed)
    game = enter(call.env, callback.say)
    given = call.parts(callback.say)
    sets = replace(call, overrides=words, agent=None, steps=None).sets(given)
    settle_here = partial(settle, call.stage, call.preset, game, call.config_file, sets, store=call.store)
    configs = [_settle(settle_here, entry, found) for entry in found.learners]
    _need_use(given, configs)
    _need_learner(call.learner, [entry.name for entry in found.learners])
    check_name(call.run)
    store = Store.create(Path(call.store), callback.say_or_log)
    name, asked = _begin(store, call.run, found, configs, call.seed, callback)
    return store, name, asked


@contextmanager
def resume_league(store: Store, call: Call, callback: Callbacks, config: str = "") -> Iterator[Session]:
    """The session of a league that was stopped, or of its learner LEAGUE.NAME alone.

    config: the settings of that learner from now on, as `RunRow.config`; empty: as they are.

    Raises:
        ConfigError, LeagueError, SnapshotError: as `league.resume`.
        UsageError: all that would go on are finished.
    """
    league, learner = call.resumes, None
    rows = {row.run: row for row in store.learners()}
    asked = {league: replace(store.find_run(league), config=config)} if config else {}
    if league in rows:
        league, learner = rows[league].league, league.removeprefix(f"{rows[league].league}.")
    with _session(store, league, learner, call, asked, callback) as session:
        yield session


@contextmanager
def _session(
    store: Store, league: str, learner: str | None, call: Call, asked: Mapping[str, RunRow], callback: Callbacks
) -> Iterator[Session]:
    """The session of a league that is in the store, or of one of its learners.

    Nothing of a learner is written, and its files are not changed, before its lock is held; nothing of the others is.

    call: what the learners that go on get otherwise.
    asked: the rows that the call would have begun, by run; those of the learners to train get their settings.
    """
    rows = learners_of(store, league)
    _need_learner(learner, [row.run.removeprefix(f"{league}.") for row in rows])
    wanted = [row for row in rows if learner is None or row.run == f"{league}.{learner}"]
    given, plans = call.parts(callback.say), list[Plan]()
    for row in wanted:
        found = store.find_run(row.run)
        if row.run in asked:
            _need_same_settings(store, league, asked[row.run], found)
        once = Callbacks(()) if plans else callback  # all have the game and the parts of the first
        row_asked = replace(found, config=asked.get(row.run, found).config, stage=STAGE)
        to = changed(row_asked, call, given, once, f"league {league}")
        call = replace(call, env=None)
        plans.append(plan_of(store, row, found, to, callback, takes_turns=learner is None))

    def conclude(end: SessionEnd) -> LeagueResult:
        is_finished = all(result.status == "finished" for result in end.results)
        return LeagueResult(
            run=league,
            steps=sum(result.steps for result in end.results),
            updates=sum(result.updates for result in end.results),
            status="finished" if is_finished else "stopped",
            newest=end.results[0].newest,
            signal=0 if is_finished else end.signal,
            store=store.path,
            learners=end.results,
        )

    with Session(store, plans, callback, conclude=conclude) as session:
        if session.is_finished:
            raise finished(store, league, [plan.row for plan in plans])
        _need_whole_league(store, league, rows, plans)
        _greet(league, rows, plans, callback)
        yield session


def plan_of(
    store: Store, learner: LearnerRow, found: RunRow, to: Continued, callback: Callbacks, *, takes_turns: bool
) -> Plan:
    """The plan of a league's learner that is in the store.

    Args:
        store, learner, found: the learner, and its row as it is there.
        to: what it goes on with.
        callback: hears of the league.
        takes_turns: whether others train in this process, too.
    """
    callback = callback.of(learner.run, takes_turns=takes_turns)
    with settings_of(store, learner) as figures:
        role = ROLES[learner.role].model_validate(figures["role"])  # type: ignore[index]
        assignment = Assignment(learner.run, learner.role, role, int(figures["turn_steps"]))
        first, in_step = int(figures["seed"]), takes_turns or bool(figures["in_step"])
    artifacts = LeagueArtifactStore(store, to.row, to.config, to.device, learner=learner, in_step=in_step)
    make_pool = partial(LeaguePool, assignment=assignment, look=artifacts.look, turns=1 if in_step else math.inf)
    plan = Plan(to.row, found, to.config, to.device, artifacts, callback, make_pool, first_weights=first)
    behind = artifacts.behind if in_step and not takes_turns else plan.behind
    return replace(plan, league=learner.league, events=to.events, behind=behind)


def _settle(
    settle_here: Callable[[Layer], tuple[Config, GameSpec, torch.device, str]],
    learner: roster.RosterEntry,
    found: Roster,
) -> Config:
    """A learner's settings, checked as those of a run; `settle_here` is `settle` with all but the learner's layer."""
    config, spec, device, _ = settle_here(learner.layer)
    config = _in_league(config, is_main=learner.role_name == "main")
    check_settings(config, spec)
    if not config.pool.mix.get(SELF_PLAY):
        raise ConfigError(
            f"learner {learner.name}: pool.mix has no {SELF_PLAY}, which is the whole league here, so it would meet"
            f" bots only; give it a share"
        )
    check_room(config, spec, device, rivals=len(found.learners) - 1)
    return config


def _in_league(config: Config, *, is_main: bool) -> Config:
    """The settings without what a role takes over: whom of the league it meets, itself as it is now included.

    An exploiter learns a best response, which is no equilibrium, so no magnet holds it back.
    """
    mix = dict(config.pool.mix)
    if CURRENT in mix:
        mix[SELF_PLAY] = mix.get(SELF_PLAY, 0.0) + mix.pop(CURRENT)
    magnet = config.learner.magnet if is_main else 0.0
    pool, learner = config.pool.model_copy(update={"mix": mix}), config.learner.model_copy(update={"magnet": magnet})
    return config.model_copy(update={"pool": pool, "learner": learner})


def _rows(name: str, found: Roster, configs: Sequence[Config], seed: int) -> tuple[list[RunRow], list[LearnerRow]]:
    """The rows of a new league. What any learner does depends on all, and so does its fingerprint."""
    figures = [
        {
            **{"role": learner.role.model_dump(), "turn_steps": found.turn_steps, "seed": seed},
            **{"in_step": found.in_step, "cpus": learner.cpus, "gpus": learner.gpus},
        }
        for learner in found.learners
    ]
    marks = [
        [learner.name, learner.role_name, learner.role.model_dump(), settings.fingerprint(config)]
        for learner, config in zip(found.learners, configs, strict=True)
    ]
    runs, learners = [], []
    for place, (learner, config) in enumerate(zip(found.learners, configs, strict=True)):
        run = f"{name}.{learner.name}"
        text = json.dumps([marks[place], found.turn_steps, marks], sort_keys=True)
        own_seed = int(np.random.SeedSequence([seed, place]).generate_state(1, np.uint64)[0] >> 1)
        mark, device = hashlib.sha256(text.encode()).hexdigest(), choose_device(config.learner.device)
        runs.append(new_row(run, config, own_seed, STAGE, mark, device))
        learners.append(LearnerRow(run, name, place, learner.role_name, json.dumps(figures[place])))
    return runs, learners


def _begin(
    store: Store, wanted: str | None, found: Roster, configs: Sequence[Config], seed: int, callback: Callbacks
) -> tuple[str, list[RunRow]]:
    """Writes the league's rows, unless it is there and the same; its name, and the rows as they were to be."""
    game = configs[0].env.name

    def begin(name: str) -> bool:
        return begin_runs(store, *_rows(name, found, configs, seed))

    name, is_new = first_free(wanted, f"{game}-league", begin)
    runs, _ = _rows(name, found, configs, seed)
    if not is_new:
        _need_same(store, name, runs)
        callback.say(f"league {name}: going on")
    return name, runs


def _need_same(store: Store, name: str, runs: Sequence[RunRow]) -> None:
    """Refuses to go on with a league whose settings are others; only how long and how it is looked at may change.

    Raises:
        UsageError: they are others, or the name is something else's.
    """
    there = {row.run: store.find_run(row.run) for row in learners_of(store, name)}
    if not there:
        raise UsageError(f"run={name}: that name is taken in {store.path}; pass another --run")
    if there.keys() != {row.run for row in runs}:
        raise UsageError(
            f"run={name}: a league of that name has other learners ({', '.join(there)}); carry it on with"
            f" {command('resume', name, store=store.path)}, or pass another --run"
        )
    for row in runs:
        _need_same_settings(store, name, row, there[row.run])


def learners_of(store: Store, league: str) -> list[LearnerRow]:
    """The learners of a league.

    Raises:
        SnapshotError: the folder of one is gone.
    """
    with store.reading():
        found, owners = store.learners(league), [owner.identity for owner in store.owners()]
    wanted = {
        learner for owner in owners if (owner.kind, owner.name) == ("league", league) for learner in owner.learners
    }
    if lost := len(wanted - {owner.id for owner in owners}):
        there = ", ".join(learner.run for learner in found)
        raise SnapshotError(
            f"league={league}: {lost} of its {len(wanted)} learners cannot be read in {store.path} (there: {there});"
            f" put the folder back from a copy, or pass another --run"
        )
    return found


def _need_same_settings(store: Store, league: str, asked: RunRow, there: RunRow) -> None:
    if (asked.fingerprint, asked.seed, asked.game_id) != (there.fingerprint, there.seed, there.game_id):
        raise UsageError(
            f"run={league}: {there.run} is there with other settings or another seed; carry it on as it is with"
            f" {command('resume', league, store=store.path)}, or pass another --run"
        )


def _need_whole_league(store: Store, league: str, rows: Sequence[LearnerRow], plans: Sequence[Plan]) -> None:
    """Refuses a league of which snapshots were pruned, since any learner may meet them."""
    for row in rows:
        if is_pruned(store, row.run):
            raise UsageError(
                f"league={league}: snapshots of {row.run} were pruned, so it cannot go on; begin another one with"
                f" {_another(store, plans[0].row)}"
            )


def finished(store: Store, league: str, rows: Sequence[RunRow]) -> UsageError:
    """Refuses to go on with learners that are all finished."""
    names = ", ".join(row.run for row in rows)
    return UsageError(
        f"league={league}: finished, so nothing is left to train ({names}); begin another one with"
        f" {_another(store, rows[0])}"
    )


def _another(store: Store, row: RunRow) -> str:
    return command("train", "--league", "FILE", "--env", row.env, store=store.path)


def _greet(league: str, rows: Sequence[LearnerRow], plans: Sequence[Plan], callback: Callbacks) -> None:
    """Says who trains, and refuses what does not fit into the memory."""
    for i, plan in enumerate(plans):
        [memory] = check_room(plan.config, plan.artifacts.spec, plan.device, rivals=len(rows) - 1)
        if i == 0:
            names = ", ".join(f"{row.run} ({row.role.replace('_', ' ')})" for row in rows)
            callback.say(f"league {league}: {names}, on {describe_device(plan.device)}")
            callback.say(f"{memory}, one learner at a time")


def _need_use(given: Given, configs: Sequence[Config]) -> None:
    """Refuses a sampler that no learner uses: they meet each other by their roles."""
    for part in given.parts:
        if part.kind == "sampler" and all(config.pool.group_sampler != part.name for config in configs):
            raise UsageError(
                f"sampler={part.name}: the learners of a league meet each other by their roles, not by pool.sampler;"
                f" leave it out, or draw within groups by it, --set pool.group_sampler={part.name}"
            )


def _need_learner(learner: str | None, known: Sequence[str]) -> None:
    if learner is not None and learner not in known:
        raise UsageError(f"--learner {learner}: the league has no such learner{nearest(learner, known)}")
