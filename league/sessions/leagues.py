"""Training a league: its learners are runs on one store, which take turns in one process or have one process each.

Every turn goes on from the learner's saved state, as `league resume` does, so a league that was stopped anywhere is,
bit for bit on a CPU, the one that was not. Others see a snapshot once a state is saved that holds it, so no learner
ever goes back behind what others have met; and only after that does an exploiter begin anew.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import shutil
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from league import config as settings
from league.arena.agents import DEFAULT_STORE, check_seed
from league.config import SELF_PLAY, Config
from league.device import choose_device, describe_device
from league.envs import registry
from league.errors import ConfigError, SnapshotError, StoreError, UsageError, nearest
from league.play.evaluation import Summary
from league.pool import roster
from league.pool.league_pool import LeaguePool, Member, start_again
from league.pool.roles import ROLES
from league.pool.roster import Roster
from league.sessions.app import (
    Silent,
    TrainResult,
    check_memory,
    check_mix,
    folder_of,
    is_pruned,
    note,
    recovered_state,
    settle,
    sound_alarms,
    stop_on_signals,
    wire,
)
from league.signals import Interrupted
from league.snapshots import io as snapshot_files
from league.snapshots.state import has_state, read_state
from league.store.locks import alone
from league.store.rows import LearnerRow, RunRow, SnapshotRow
from league.store.store import Store, StoreBusy
from league.training.loop import Report, Run, Watcher
from league.training.loop import train as run_training
from league.types import RUN_NAME

STAGE = "league"
"""In place of a stage in the rows of a league's runs: no stage carries them on."""


@dataclass(frozen=True)
class LeagueResult:
    """Where a call left a league: one result for each learner that it trained, in the order of the league's file."""

    league: str
    status: str
    """`finished`: all that were to be trained are; else `stopped`."""
    learners: tuple[TrainResult, ...]
    signal: int = 0
    """Number of the signal that stopped it."""


def train_league(
    league: str | Path,
    *,
    stage: str = "test50k",
    preset: str = "fast",
    env: str | None = None,
    run: str | None = None,
    learner: str | None = None,
    seed: int = 0,
    device: str | None = None,
    config_file: str | Path | None = None,
    overrides: Sequence[str] = (),
    store: str | Path = DEFAULT_STORE,
    watcher: Watcher | None = None,
) -> LeagueResult:
    """Trains a league: main agents, main exploiters and league exploiters that meet each other's snapshots.

    Args:
        league: a TOML file (`league.pool.roster`), or the name of a league that comes with the library.
        stage, preset, env, device, config_file, overrides: as for `league.train`, for every learner; the league's file
            lies over the stage.
        run: the league's name; each learner is a run called LEAGUE.NAME. The next free `GAME-league-N` if not given.
            A league of that name with the same settings goes on.
        learner: trains only this one, so that each can have a process of its own; without it they take turns.
        seed: of everything drawn; every learner draws its own, and all begin with the same weights.
        store: the DuckDB file.
        watcher: is told how it goes.

    Raises:
        ConfigError: the file or the settings cannot be run; nothing has been written.
        UsageError: the name is taken, or another process trains one of the learners.
        StoreError, LeagueError: as `league.train`.
    """
    watcher = watcher or Silent()
    found = roster.load(league)
    check_seed(seed)
    sets = [*overrides, *([f"learner.device={device}"] if device else [])]
    configs = [_settle(stage, preset, env, config_file, sets, entry, found) for entry in found.learners]
    _need_learner(learner, [entry.name for entry in found.learners])
    if run is not None and not RUN_NAME.fullmatch(run):
        raise UsageError(f"run={run!r}: letters, digits, '.', '_' and '-' only, at most 64; pass another --run")
    opened = Store.create(Path(store))
    name, asked = _begin(opened, run, found, configs, seed, watcher)
    return _go_on(opened, name, learner, device, watcher, asked=asked)


def resume_league(
    league: str,
    *,
    learner: str | None = None,
    device: str | None = None,
    overrides: Sequence[str] = (),
    store: str | Path = DEFAULT_STORE,
    watcher: Watcher | None = None,
) -> LeagueResult:
    """Carries on a league that was stopped, each learner from its last saved state.

    Args:
        league: its name, or that of one of its runs (LEAGUE.NAME), which then goes on alone.
        learner, store, watcher: as for `train_league`.
        device, overrides: as for `league.resume`, for every learner that goes on.

    Raises:
        ConfigError, LeagueError, SnapshotError: as `league.resume`.
        UsageError: there is no such league or learner, or all that would go on are finished.
    """
    opened = Store.open(Path(store))
    rows = {row.run: row for row in opened.learners()}
    if league in rows:
        named = league.removeprefix(f"{rows[league].league}.")
        if learner not in (None, named):
            raise UsageError(f"--learner {learner}: {league} is a learner itself; name its league, or leave it out")
        league, learner = rows[league].league, named
    return _go_on(opened, league, learner, device, watcher or Silent(), overrides)


@dataclass
class _Part:
    """A learner as the one who calls them to their turns sees it."""

    row: LearnerRow
    run: RunRow
    config: Config
    is_changed: bool = False
    """Whether its settings are others than its row in the store has."""
    is_examined: bool = False
    """Whether it was looked at for damage since this process has its lock."""
    steps: int = 0
    updates: int = 0
    newest: str = ""
    turn_ends: int = 0

    @property
    def is_finished(self) -> bool:
        return self.steps >= self.config.run.total_steps

    @property
    def claim(self) -> tuple[bool, float, int]:
        """The least has the next turn: whoever is in the middle of one, else whoever is the furthest from its end."""
        return self.steps >= self.turn_ends, self.steps / self.config.run.total_steps, self.row.place

    def take(self, state: dict[str, Any]) -> None:
        """Where it stands, from a saved state."""
        counters = state["counters"]
        self.steps, self.updates, self.newest = counters["steps"], counters["update"], counters["newest"]
        self.turn_ends = state["pool"]["league"]["turn_ends"]

    def result(self, signal: int) -> TrainResult:
        status = "finished" if self.is_finished else "stopped"
        by = 0 if self.is_finished else signal
        return TrainResult(self.run.run, self.steps, self.updates, status, self.newest, by)


def _go_on(
    store: Store,
    league: str,
    learner: str | None,
    device: str | None,
    watcher: Watcher,
    overrides: Sequence[str] = (),
    asked: Sequence[RunRow] = (),
) -> LeagueResult:
    """Trains a league that is in the store, or one of its learners.

    Nothing of a learner is written, and its files are not changed, before its lock is held; nothing of the others is.

    asked: the rows that the call would have begun; those of the learners to train get their settings.
    """
    rows = store.learners(league)
    if not rows or rows[0].role not in ROLES:
        if rows:
            raise UsageError(f"run={league}: it exploits one agent; carry it on with the same call of `league exploit`")
        known = {row.league for row in store.learners() if row.role in ROLES}
        raise UsageError(f"no league `{league}` in {store.path}{nearest(league, known)}")
    _need_learner(learner, [row.run.removeprefix(f"{league}.") for row in rows])
    is_alone = learner is not None
    with ExitStack() as locks:
        parts = []
        for row in rows:
            if is_alone and row.run != f"{league}.{learner}":
                continue
            need_folder(store, row.run)
            # Held also while another has its turn: `league runs` sees by the lock who is alive.
            locks.enter_context(alone(row.run, folder_of(store, row.run)))
            parts.append(_part(store, row, overrides, {run.run: run for run in asked}.get(row.run)))
        if all(part.is_finished for part in parts):
            names = ", ".join(part.run.run for part in parts)
            raise UsageError(f"league={league}: finished, so nothing is left to train ({names}); begin another one")
        _need_whole_league(store, league, rows)
        _greet(league, rows, parts, device, watcher)
        number = _take_turns(store, parts, device, watcher, is_alone, overrides)
    is_finished = all(part.is_finished for part in parts)
    results = tuple(part.result(number) for part in parts)
    return LeagueResult(league, "finished" if is_finished else "stopped", results, 0 if is_finished else number)


def _take_turns(
    store: Store,
    parts: Sequence[_Part],
    device: str | None,
    watcher: Watcher,
    is_alone: bool,
    overrides: Sequence[str],
) -> int:
    """Trains the learners, whose locks are held, until all are finished or a signal comes: its number, else 0."""
    with stop_on_signals(watcher.say) as received:
        try:
            for part in parts:
                if part.is_changed and not part.is_finished:
                    _write_settings(store, part, overrides)
            while not received:
                waiting = [part for part in parts if not part.is_finished]
                if not waiting:
                    break
                part = min(waiting, key=lambda part: part.claim)
                _take_turn(store, part, device, watcher, received, is_alone)
        finally:
            with suppress(StoreError):  # the error that ended it is the one to tell
                for part in parts:
                    if not part.is_finished and part.run.status != "failed":
                        store.update_run(part.run.run, status="stopped")
        return received[0] if received else 0


def _write_settings(store: Store, part: _Part, overrides: Sequence[str]) -> None:
    name = part.run.run
    store.extend_run(name, stage=STAGE, config=part.run.config, fingerprint=part.run.fingerprint)
    part.run = replace(part.run, status="running")
    if overrides and part.updates:
        store.add_event(name, part.updates, "resumed", f"resumed with {', '.join(overrides)}")


def _take_turn(
    store: Store, part: _Part, device: str | None, watcher: Watcher, received: list[int], is_alone: bool
) -> None:
    """Trains one learner to the end of its turn, or for as long as it goes where it is alone; resets are on the way.

    Its lock is held. A signal may have come already: then it is saved as it stands.
    """
    notes = _Notes(part.run.run, watcher)
    part.run = replace(part.run, status="running")
    turns = math.inf if is_alone else float(part.steps >= part.turn_ends)
    while True:
        try:
            run, pools = _wire(store, part, device, watcher if is_alone else notes, turns, received)
            run.should_stop = partial(_is_to_stop, run, pools, received)
            state = _state(store, run, examines=not part.is_examined)
            part.is_examined = True
            _train(part, run, state)
        except Interrupted:  # while it waited for the store; its last saved state stands
            return
        part.steps, part.updates, part.newest = run.counters.steps, run.counters.update, run.counters.newest
        part.turn_ends, turns = pools[0].turn_ends, pools[0].turns_left
        if received or part.is_finished or pools[0].is_turn_over:
            break
    note(run, "finished" if part.is_finished else "running")
    notes.tell()
    if part.is_finished:
        sound_alarms(run)


def _train(part: _Part, run: Run, state: dict[str, Any] | None) -> None:
    try:
        run_training(run, state)
    except Interrupted:
        raise
    except BaseException:
        part.run = replace(part.run, status="failed")
        with suppress(StoreError):
            note(run, "failed")
        raise


def _is_to_stop(run: Run, pools: Sequence[LeaguePool], received: Sequence[int]) -> bool:
    """After a signal, and where the turn is over but the learner is not finished."""
    return bool(received) or (pools[0].is_turn_over and run.counters.steps < run.config.run.total_steps)


def _wire(
    store: Store, part: _Part, device: str | None, watcher: Watcher, turns: float, received: Sequence[int]
) -> tuple[Run, list[LeaguePool]]:
    """The learner's parts, and a list that will hold its pool once it is made; `turns` may begin.

    What it waits for the store ends with a signal, by `Interrupted`.
    """
    row, config = part.row, part.config
    figures = json.loads(row.settings)
    waiting: list[SnapshotRow] = []
    pools: list[LeaguePool] = []
    torch_device = choose_device(device or config.learner.device)
    spec = registry.spec(config.env.name, config.env.options)

    def published() -> list[tuple[str, SnapshotRow]]:
        """The snapshots of the league in the store, each with its learner's role."""
        store.flush(force=True)  # else what this process has published may still wait for the store
        with store.reading():
            return [(x.role, s) for x in store.learners(row.league) for s in store.snapshots(x.run)]

    def wait_for_published() -> list[tuple[str, SnapshotRow]]:
        while True:
            try:
                return published()
            except StoreBusy as error:
                watcher.say(f"waiting for the store, to see whom to meet: {error}")
            if received:
                raise Interrupted(received[0])

    def look() -> list[Member] | None:
        try:
            found = published() if turns == math.inf else wait_for_published()
        except StoreBusy as error:
            watcher.say(f"the others' new snapshots are met later: {error}")
            return None
        return [
            Member(s.agent_id, s.run, role, s.step, s.parent, s.is_historical) for role, s in found if s.run != row.run
        ]

    def save(state: dict[str, Any]) -> None:
        run_save(state)
        for snapshot in waiting:
            store.add_snapshot(replace(snapshot, is_historical=pools[0].is_historical(snapshot.agent_id)))
        waiting.clear()
        try:
            store.flush(force=True)
        except StoreError as error:
            if pools[0].is_resetting:
                raise
            run.watcher.say(f"the others see this snapshot later: {error}")

    def make_pool(*arguments: Any) -> LeaguePool:
        role = ROLES[row.role].model_validate(figures["role"])  # type: ignore[index]
        pool = LeaguePool(
            *arguments, run=row.run, role_name=row.role, role=role, turn_steps=figures["turn_steps"], look=look
        )
        pool.turns_left = turns
        pools.append(pool)
        return pool

    run = wire(
        row.run,
        config,
        spec,
        part.run.seed,
        torch_device,
        store,
        watcher,
        part.run.fingerprint,
        first_weights=figures["seed"],
        publish=waiting.append,
        find_snapshots=lambda: [snapshot for _, snapshot in wait_for_published()],
    )
    if run.game_id != part.run.game_id:
        raise UsageError(
            f"run={row.run}: it was trained on game {part.run.game_id[:8]}, this league's {spec.name} is"
            f" {run.game_id[:8]}; begin a new league with `league train --league`"
        )
    run_save = run.save_state
    run.save_state, run.make_pool = save, make_pool
    wait_for_published()
    return run, pools


def _state(store: Store, run: Run, *, examines: bool) -> dict[str, Any] | None:
    """The learner's saved state, begun anew where that is due; None where it has not begun yet.

    Snapshots that the state holds and the store does not, since the process ended in between, are published.
    """
    if not has_begun(store, run.name):
        forget(run)
        return None
    state = recovered_state(run, examines=examines)
    store.flush(force=True)
    if state["pool"]["league"]["is_resetting"]:
        first = state["pool"]["snapshots"][0]
        counters = state["counters"]
        start_again(state, snapshot_files.load(folder_of(store, run.name) / "snapshots" / f"{0:010d}")[1])
        told = f"back to the first weights at step {counters['steps']:,}"
        store.add_event(run.name, counters["update"] + 1, "reset", f"{told}, {first[:12]}")
        run.watcher.say(told)
    return state


def has_begun(store: Store, run: str) -> bool:
    """Whether a state of the run was ever saved; also where it is lost, of which snapshots in the store tell."""
    return has_state(folder_of(store, run) / "state") or any(row.step for row in store.snapshots(run))


def forget(run: Run) -> None:
    """Removes what a run wrote that ended before its first state was saved."""
    run.store.delete_after(run.name, -1)
    shutil.rmtree(folder_of(run.store, run.name) / "snapshots", ignore_errors=True)


def make_folder(store: Store, run: str) -> None:
    """A run's folder, if it is not there yet.

    Raises:
        StoreError: none can be made there.
    """
    folder = folder_of(store, run)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        why = error.strerror or error
        raise StoreError(f"{folder}: no folder can be made ({why}); pass another --store") from None


def need_folder(store: Store, run: str) -> None:
    """Makes the folder of a run that has trained nothing yet, as after a kill between its row and its folder.

    Raises:
        SnapshotError: it has trained, and its folder is gone.
        StoreError: none can be made there.
    """
    folder = folder_of(store, run)
    if folder.is_dir():
        return
    if store.find_run(run).update:
        raise SnapshotError(f"run={run}: its folder {folder} is gone; put it back, or pass another --run")
    make_folder(store, run)


def _part(store: Store, row: LearnerRow, overrides: Sequence[str], asked: RunRow | None) -> _Part:
    """Where a learner stands, by its saved state, and the settings that it goes on with. Its lock is held."""
    run = store.find_run(row.run)
    config = settings.from_json(json.loads(run.config))
    if asked is not None:
        _need_same_settings(row.league, asked, run)
        config = settings.from_json(json.loads(asked.config))
    if overrides:
        before, config = config, settings.changed(config, overrides)
        settings.check(config)
        is_same = settings.fingerprint(config) == settings.fingerprint(before)
        mark = run.fingerprint if is_same else settings.mixed_fingerprint(run.fingerprint, config)
        run = replace(run, fingerprint=mark)
    text = json.dumps(settings.to_json(config))
    is_changed = bool(overrides or asked) and json.loads(text) != json.loads(run.config)
    part = _Part(row, replace(run, config=text), config, is_changed)
    if has_begun(store, row.run):
        part.take(read_state(folder_of(store, row.run) / "state"))
    return part


def _settle(
    stage: str,
    preset: str,
    env: str | None,
    config_file: str | Path | None,
    overrides: Sequence[str],
    learner: roster.Learner,
    found: Roster,
) -> Config:
    """A learner's settings, checked as those of a run."""
    config, spec, device, _ = settle(stage, preset, env, config_file, overrides, learner.layer)
    settings.check(config)
    settings.check_rewards(config, spec)
    check_mix(config, spec)
    if not config.pool.mix.get(SELF_PLAY):
        raise ConfigError(
            f"learner {learner.name}: pool.mix has no {SELF_PLAY}, which is the whole league here, so it would meet"
            f" bots only; give it a share"
        )
    check_memory(config, spec, device, rivals=len(found.learners) - 1)
    return config


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
        runs.append(
            RunRow(
                run=run,
                game=config.env.name,
                game_id=registry.game_id(config.env.name, config.env.options),
                fingerprint=hashlib.sha256(text.encode()).hexdigest(),
                seed=int(np.random.SeedSequence([seed, place]).generate_state(1, np.uint64)[0] >> 1),
                stage=STAGE,
                config=json.dumps(settings.to_json(config)),
                status="stopped",
                device=describe_device(choose_device(config.learner.device)),
            )
        )
        learners.append(LearnerRow(run, name, place, learner.role_name, json.dumps(figures[place])))
    return runs, learners


def _begin(
    store: Store, wanted: str | None, found: Roster, configs: Sequence[Config], seed: int, watcher: Watcher
) -> tuple[str, list[RunRow]]:
    """Writes the league's rows, unless it is there and the same; its name, and the rows as they were to be."""
    game = configs[0].env.name
    for name in [wanted] if wanted else (f"{game}-league-{n}" for n in itertools.count(1)):
        runs, learners = _rows(name, found, configs, seed)
        is_new = store.begin_league(runs, learners)
        if is_new or wanted:
            break
    if is_new:
        for row in runs:
            make_folder(store, row.run)
    else:
        _need_same(store, name, runs)
        watcher.say(f"league {name}: going on")
    return name, runs


def _need_same(store: Store, name: str, runs: Sequence[RunRow]) -> None:
    """Refuses to go on with a league whose settings are others; only how long and how it is looked at may change.

    Raises:
        UsageError: they are others, or the name is something else's.
    """
    there = {row.run: store.find_run(row.run) for row in store.learners(name)}
    if not there:
        raise UsageError(f"run={name}: that name is taken in {store.path}; pass another --run")
    if there.keys() != {row.run for row in runs}:
        raise UsageError(
            f"run={name}: a league of that name has other learners ({', '.join(there)}); carry it on with `league"
            f" resume {name}`, or pass another --run"
        )
    for row in runs:
        _need_same_settings(name, row, there[row.run])


def _need_same_settings(league: str, asked: RunRow, there: RunRow) -> None:
    if (asked.fingerprint, asked.seed, asked.game_id) != (there.fingerprint, there.seed, there.game_id):
        raise UsageError(
            f"run={league}: {there.run} is there with other settings or another seed; carry it on as it is with"
            f" `league resume {league}`, or pass another --run"
        )


def _need_whole_league(store: Store, league: str, rows: Sequence[LearnerRow]) -> None:
    """Refuses a league of which snapshots were pruned, since any learner may meet them."""
    for row in rows:
        if is_pruned(store, row.run):
            raise UsageError(
                f"league={league}: snapshots of {row.run} were pruned, so it cannot go on; begin another one with"
                f" `league train --league`"
            )


def _greet(
    league: str, rows: Sequence[LearnerRow], parts: Sequence[_Part], device: str | None, watcher: Watcher
) -> None:
    """Says who trains, and refuses what does not fit into the memory."""
    for i, part in enumerate(parts):
        torch_device = choose_device(device or part.config.learner.device)
        spec = registry.spec(part.config.env.name, part.config.env.options)
        memory = check_memory(part.config, spec, torch_device, rivals=len(rows) - 1)
        if i == 0:
            names = ", ".join(f"{row.run} ({row.role.replace('_', ' ')})" for row in rows)
            watcher.say(f"league {league}: {names}, on {describe_device(torch_device)}")
            watcher.say(f"{memory}, one learner at a time")


def _need_learner(learner: str | None, known: Sequence[str]) -> None:
    if learner is not None and learner not in known:
        raise UsageError(f"--learner {learner}: the league has no such learner{nearest(learner, known)}")


class _Notes:
    """Tells a watcher of one learner among several: a line a turn, each with the learner's name."""

    def __init__(self, name: str, watcher: Watcher) -> None:
        self._name, self._watcher = name, watcher
        self._last: Report | None = None

    def report(self, report: Report) -> None:
        """Kept until the turn's end."""
        self._last = report

    def evaluated(self, steps: int, opponent: str, summary: Summary) -> None:
        """A line, with the name."""
        self.say(f"at {steps:,} {summary.line(opponent)}")

    def say(self, message: str) -> None:
        """The same, with the name."""
        self._watcher.say(f"{self._name}: {message}")

    def tell(self) -> None:
        """What the turn came to."""
        if self._last is not None:
            report = self._last
            rates = " ".join(f"{group.removeprefix('bot:')} {x:.0%}" for group, x in report.win_rates.items())
            done = f"{report.steps:,}/{report.total_steps:,} steps  {report.steps_per_second:,.0f}/s"
            self.say(f"{done}  won: {rates or '-'}")
