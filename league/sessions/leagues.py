"""Training a league: its learners are runs on one store, which take turns in one process or have one process each.

What a learner sees of the others, and when they see it, is `league.sessions.artifacts.LeagueArtifactStore`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from league import config as settings
from league.arena.agents import check_seed
from league.arena.games import difference, enter, find_again
from league.arena.parts import Given
from league.arena.parts import enter as enter_parts
from league.boards.standings import curves
from league.config import Layer
from league.config.models import CURRENT, SELF_PLAY, Config
from league.config.written import Overrides, as_words
from league.device import choose_device, describe_device
from league.envs import registry
from league.errors import DEFAULT_STORE, ConfigError, SnapshotError, UsageError, command, nearest
from league.pool import roster
from league.pool.league_pool import Assignment, LeaguePool
from league.pool.roles import ROLES
from league.pool.roster import Roster
from league.sessions.app import Again
from league.sessions.artifacts import LeagueArtifactStore
from league.sessions.callbacks import Steady, steady
from league.sessions.folders import begin_runs, first_free, is_pruned
from league.sessions.session import Plan, Session, TrainResult, new_row
from league.sessions.settling import Changes, check_memory, check_name, check_settings, settle, with_changes
from league.store.rows import LearnerRow, RunRow
from league.store.store import Store
from league.training.run import Callback
from league.types import GameSpec
from league.types.results import Grid, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STAGE = "league"
"""In place of a stage in the rows of a league's runs: no stage carries them on."""


@dataclass(frozen=True, repr=False)
class LeagueResult(Result):
    """Where a call left a league: one result for each learner that it trained, in the order of the league's file."""

    league: str
    status: str
    """`finished`: all that were to be trained are; else `stopped`."""
    learners: tuple[TrainResult, ...]
    signal: int = 0
    """Number of the signal that stopped it."""

    def grids(self) -> list[Grid]:
        """A row a learner."""
        rows = [(x.run, x.status, x.steps, x.updates) for x in self.learners]
        return [Grid(("learner", "status", "steps", "updates"), rows, f"league {self.league}: {self.status}")]

    def plot(self) -> Figure:
        """The ratings of each learner's snapshots over its steps."""
        return curves(Store.open(self.learners[0].store), [x.run for x in self.learners], f"league {self.league}")


def train_league(
    league: str | Path,
    *,
    stage: str = "test50k",
    preset: str = "fast",
    agent: str | None = None,
    env: object = None,
    run: str | None = None,
    learner: str | None = None,
    steps: int | None = None,
    seed: int = 0,
    device: str | None = None,
    config_file: str | Path | None = None,
    overrides: Overrides = (),
    bots: object = None,
    sampler: object = None,
    policy: object = None,
    store: str | Path = DEFAULT_STORE,
    callback: Callback | Sequence[Callback] | None = None,
) -> LeagueResult:
    """Trains a league: main agents, main exploiters and league exploiters that meet each other's snapshots.

    Args:
        league: a TOML file (`league.pool.roster`), or the name of a league that comes with the library.
        stage, preset, agent, env, steps, device, config_file, overrides: as for `league.train`, for every learner; the
            league's file lies over the stage. `role.ROLE.FIGURE=value` lies over what the file says of a role.
        bots, sampler, policy: as for `league.train`, for every learner; a sampler draws within groups only.
        run: the league's name; each learner is a run called LEAGUE.NAME. The next free `GAME-league-N` if not given.
            A league of that name with the same settings goes on.
        learner: trains only this one, so that each can have a process of its own; without it they take turns.
        seed: random seed; every learner draws its own, and all begin with the same weights.
        store: its folder.
        callback: a callback, or several.

    Raises:
        ConfigError: the file or the settings cannot be run; nothing has been written.
        UsageError: the name is taken, or another process trains one of the learners.
        StoreError, LeagueError: as `league.train`.
    """
    callback, say = steady(callback)
    sets, figures = settings.role_sets(as_words(overrides, agent, steps))
    found = roster.load(league, figures)
    check_seed(seed)
    game = enter(env, callback.say)
    given = enter_parts(bots, sampler, policy, callback.say)
    sets = [*given.sets, *sets, *([f"learner.device={device}"] if device else [])]
    settle_here = partial(settle, stage, preset, game, config_file, sets, store=store)
    configs = [_settle(settle_here, entry, found) for entry in found.learners]
    _need_use(given, configs)
    _need_learner(learner, [entry.name for entry in found.learners])
    check_name(run)
    opened = Store.create(Path(store), say)
    name, asked = _begin(opened, run, found, configs, seed, callback)
    return _go_on(opened, name, learner, device, callback, asked=asked)


def resume_league(opened: Store, league: str, again: Again, callback: Steady) -> LeagueResult:
    """Carries on a league that was stopped, each learner from its last saved state; LEAGUE.NAME is one learner alone.

    Raises:
        ConfigError, LeagueError, SnapshotError: as `league.resume`.
        UsageError: all that would go on are finished.
    """
    changes, learner = Changes(again.overrides, enter_parts(**again.own, say=callback.say)), None
    rows = {row.run: row for row in opened.learners()}
    if league in rows:
        league, learner = rows[league].league, league.removeprefix(f"{rows[league].league}.")
    for row in opened.runs():
        if row.run in rows and rows[row.run].league == league:
            find_again(row.game, row.source, f"league {league}", again.env, callback.say)
            break
    return _go_on(opened, league, learner, again.device, callback, changes)


def _go_on(
    store: Store,
    league: str,
    learner: str | None,
    device: str | None,
    callback: Steady,
    changes: Changes | None = None,
    asked: Sequence[RunRow] = (),
) -> LeagueResult:
    """Trains a league that is in the store, or one of its learners.

    Nothing of a learner is written, and its files are not changed, before its lock is held; nothing of the others is.

    asked: the rows that the call would have begun; those of the learners to train get their settings.
    """
    rows = _learners(store, league)
    if rows[0].role not in ROLES:
        again = command("resume", league, store=store.path)
        raise UsageError(f"run={league}: it exploits one agent; use {again}")
    _need_learner(learner, [row.run.removeprefix(f"{league}.") for row in rows])
    wanted = {run.run: run for run in asked}
    plans = [
        plan_of(store, row, wanted.get(row.run), device, changes or Changes(), callback, takes_turns=learner is None)
        for row in rows
        if learner is None or row.run == f"{league}.{learner}"
    ]
    with Session(store, plans, callback) as session:
        if session.is_finished:
            names = ", ".join(plan.row.run for plan in plans)
            raise UsageError(
                f"league={league}: finished, so nothing is left to train ({names}); begin another one with"
                f" {_another(store, plans[0])}"
            )
        _need_whole_league(store, league, rows, plans)
        _greet(league, rows, plans, callback)
        done = session.go()
    is_finished = all(result.status == "finished" for result in done.results)
    return LeagueResult(
        league, "finished" if is_finished else "stopped", done.results, 0 if is_finished else done.signal
    )


def plan_of(
    store: Store,
    learner: LearnerRow,
    asked: RunRow | None,
    device: str | None,
    changes: Changes,
    callback: Steady,
    *,
    takes_turns: bool,
) -> Plan:
    """The plan of a league's learner that is in the store: with the settings that it has there, or those asked for.

    takes_turns: others train in this process, too.

    Raises:
        UsageError: `asked` is another learner.
        ConfigError: the changes cannot be.
    """
    found = store.find_run(learner.run)
    row = found
    if asked is not None:
        _need_same_settings(store, learner.league, asked, found)
        row = replace(found, config=asked.config)
    config, row, part_event = with_changes(replace(row, stage=STAGE), changes, callback.say)
    row = row.coming_from(registry.source(config.env.name))
    torch_device = choose_device(device or config.learner.device)
    callback = callback.of(learner.run, takes_turns=takes_turns)
    artifacts = LeagueArtifactStore(store, row, config, torch_device, learner=learner)
    figures = json.loads(learner.settings)
    make_pool = partial(
        LeaguePool,
        assignment=Assignment(
            learner.run,
            learner.role,
            ROLES[learner.role].model_validate(figures["role"]),  # type: ignore[index]
            figures["turn_steps"],
        ),
        look=artifacts.look,
        turns=1 if takes_turns else math.inf,
    )
    first, league = figures["seed"], learner.league
    plan = Plan(row, found, config, torch_device, artifacts, callback, make_pool, first_weights=first, league=league)
    game_event = difference(row.game, found.source, f"run {row.run}")
    return replace(plan, event=changes.event, game_event=game_event, part_event=part_event)


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
    check_memory(config, spec, device, rivals=len(found.learners) - 1)
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
        {"role": learner.role.model_dump(), "turn_steps": found.turn_steps, "seed": seed} for learner in found.learners
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
    store: Store, wanted: str | None, found: Roster, configs: Sequence[Config], seed: int, callback: Steady
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
    there = {row.run: store.find_run(row.run) for row in _learners(store, name)}
    if not there:
        raise UsageError(f"run={name}: that name is taken in {store.path}; pass another --run")
    if there.keys() != {row.run for row in runs}:
        raise UsageError(
            f"run={name}: a league of that name has other learners ({', '.join(there)}); carry it on with"
            f" {command('resume', name, store=store.path)}, or pass another --run"
        )
    for row in runs:
        _need_same_settings(store, name, row, there[row.run])


def _learners(store: Store, league: str) -> list[LearnerRow]:
    """The learners of a league.

    Raises:
        SnapshotError: the folder of one is gone.
    """
    with store.reading():
        found, owners = store.learners(league), [owner.identity for owner in store.view.owners()]
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
                f" {_another(store, plans[0])}"
            )


def _another(store: Store, plan: Plan) -> str:
    return command("train", "--league", "FILE", "--env", plan.row.env, store=store.path)


def _greet(league: str, rows: Sequence[LearnerRow], plans: Sequence[Plan], callback: Steady) -> None:
    """Says who trains, and refuses what does not fit into the memory."""
    for i, plan in enumerate(plans):
        memory = check_memory(plan.config, plan.artifacts.spec, plan.device, rivals=len(rows) - 1)
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
