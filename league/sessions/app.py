"""Wires games, networks and snapshots into the engine for training: what `league.train` and `league.resume` do."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from league import config as settings
from league.acts import act
from league.arena.agents import DEFAULT_STORE, check_seed
from league.config import AUTO, Config
from league.device import choose_device, describe_device
from league.envs import registry
from league.errors import LeagueError, StoreError, UsageError
from league.sessions.continuation import find_earlier, find_earlier_auto, is_pruned
from league.sessions.session import Plan, Session, Silent, TrainResult, new_row
from league.sessions.settling import check_disk, check_memory, check_name, check_settings, settle, with_overrides
from league.sessions.shelf import FileShelf, folder_of
from league.store.rows import RunRow
from league.store.store import Store
from league.training.loop import Watcher


def train(
    stage: str = "test50k",
    *,
    preset: str = "fast",
    env: str | None = None,
    run: str | None = None,
    seed: int = 0,
    device: str | None = None,
    config_file: str | Path | None = None,
    overrides: Sequence[str] = (),
    fresh: bool = False,
    store: str | Path = DEFAULT_STORE,
    watcher: Watcher | None = None,
) -> TrainResult:
    """Trains one run of a stage, against its own snapshots and the game's bots.

    Args:
        stage: how long: `smoke`, `test50k` or `10m`. `10m` carries on the newest finished `test50k` that has the same
            fingerprint and seed, unless `fresh`.
        preset: how wide; `auto` is sized to the device.
        env: the game; without it the configuration's.
        run: its name; the next free `GAME-N` if not given.
        seed: random seed.
        device: `auto`, `cuda`, `mps` or `cpu`.
        config_file: a TOML file laid over the preset.
        overrides: settings as `section.key=value`, laid over everything.
        store: the DuckDB file; a run's files lie beside it in a folder of its name.
        watcher: is told how it goes.

    Raises:
        ConfigError: settings that cannot be run, for want of memory too; nothing has been written.
        StoreError: the store cannot be used.
        LeagueError: the memory is used up later; the run's state has been saved.
    """
    say = None if watcher is None else watcher.say
    watcher = watcher or Silent()
    sets = [*overrides, *([f"learner.device={device}"] if device else [])]
    config, spec, torch_device, explanation = settle(stage, preset, env, config_file, sets)
    check_settings(config, spec)
    check_seed(seed)
    check_name(run)
    memory = check_memory(config, spec, torch_device)
    disk = check_disk(config, spec, torch_device, Path(store))
    opened = Store.create(Path(store), say)
    earlier, reason = find_earlier(opened, config, seed, run, fresh)
    event = ""
    if earlier is None and preset == AUTO and not fresh and run is None:
        found = find_earlier_auto(opened, config, seed, partial(settle, stage, preset, env, config_file, sets))
        if found is not None:
            config, earlier, reason, event = found
            explanation = event
            memory = check_memory(config, spec, torch_device)
            disk = check_disk(config, spec, torch_device, Path(store), earlier.run, earlier.steps)
    if reason:
        watcher.say(reason)
    name = earlier.run if earlier else claim_run_name(opened, run, config.env.name)
    try:
        watcher.say(f"run {name}: {stage}, preset {preset}, seed {seed}, on {describe_device(torch_device)}")
        if explanation:
            watcher.say(explanation)
        watcher.say(memory)
        watcher.say(disk)
        row = new_row(name, config, seed, stage, settings.fingerprint(config), torch_device, preset)
        return _go(plan_of(opened, row, earlier, config, torch_device, watcher, event))
    except BaseException:
        with suppress(LeagueError):
            if name not in {row.run for row in opened.runs()}:  # it never began, and its name is free again
                shutil.rmtree(folder_of(opened, name), ignore_errors=True)
        raise


def resume(
    run: str,
    *,
    device: str | None = None,
    overrides: Sequence[str] = (),
    store: str | Path = DEFAULT_STORE,
    watcher: Watcher | None = None,
) -> TrainResult:
    """Carries on a run that was stopped, from its last saved state, with the settings that it was started with.

    Args:
        run: its name.
        device: another one than before; what differs there is said, and an event.
        overrides: settings of `league.config.CHANGEABLE` that the run has from now on. One that changes learning gives
            it a fingerprint that no other run has, so no longer stage carries it on; with other `env.rows` the matches
            in play are dropped, their number is said, and new ones begin.
        store: the DuckDB file.
        watcher: is told how it goes.

    Raises:
        ConfigError: a setting that a run keeps, or settings that cannot be run, for want of memory too.
        LeagueError: as `train`.
        UsageError: there is no such run, it is finished, another process trains it, or its game has changed since.
        SnapshotError: its state is missing or damaged; nothing has been changed.
    """
    opened = Store.open(Path(store), None if watcher is None else watcher.say)
    watcher = watcher or Silent()
    row = opened.find_run(run)
    if run in {learner.run for learner in opened.learners()}:
        raise UsageError(f"run={run}: it is a learner of a league; use `league resume` or `league.resume_league`")
    if row.status == "finished":
        raise UsageError(
            f"run={run}: it is finished at step {row.steps:,}; carry on with a longer --stage of `league train`"
        )
    config, changed = with_overrides(row, overrides)
    torch_device = choose_device(device or config.learner.device)
    spec = registry.spec(config.env.name, config.env.options)
    memory = check_memory(config, spec, torch_device)
    disk = check_disk(config, spec, torch_device, opened.path, run, row.steps)
    watcher.say(f"run {run}: resuming {row.stage}, seed {row.seed}, on {describe_device(torch_device)}")
    watcher.say(memory)
    watcher.say(disk)
    event = f"resumed with {', '.join(overrides)}" if overrides else ""
    now = replace(changed, device=describe_device(torch_device))
    return _go(plan_of(opened, now, row, config, torch_device, watcher, event))


@act("wire")
def plan_of(
    store: Store,
    row: RunRow,
    found: RunRow | None,
    config: Config,
    device: torch.device,
    watcher: Watcher,
    event: str = "",
) -> Plan:
    """The plan of a run by itself: it meets its own snapshots and the game's bots.

    row, found, event: as in `Plan`.
    """
    shelf = FileShelf(store, row, config, device)
    return Plan(row, found, config, device, shelf, watcher, needs_state=found is not None, event=event)


def _go(plan: Plan) -> TrainResult:
    """Trains a run by itself.

    Raises:
        UsageError: it cannot go on, since its snapshots were pruned.
    """
    store, run = plan.shelf.store, plan.row.run
    with Session(store, [plan], plan.watcher) as session:
        if is_pruned(store, run):
            raise UsageError(
                f"run={run}: snapshots of it were pruned, so it cannot go on; begin a new run with `league train"
                f" --fresh`"
            )
        return session.go().results[0]


def claim_run_name(store: Store, wanted: str | None, game: str) -> str:
    """Makes the new run's folder, called `wanted` or the next free `GAME-N`, and returns its name.

    Raises:
        UsageError: `wanted` is taken.
        StoreError: no folder can be made there.
    """
    if wanted and wanted.startswith(
        f"{store.path.name}."
    ):  # the database keeps files of its own beside it, such as its log
        raise UsageError(f"run={wanted}: begins with the name of the store {store.path}; pass another --run")
    taken = {row.run for row in store.runs()} | {row.league for row in store.learners()}
    for name in [wanted] if wanted else (f"{game}-{n}" for n in itertools.count(1)):
        try:
            if name not in taken:
                folder_of(store, name).mkdir()
                return name
        except FileExistsError:
            continue  # also where another process was first
        except OSError as error:
            raise StoreError(
                f"{folder_of(store, name)}: no folder can be made ({error.strerror or error}); pass another --store"
            ) from None
    raise UsageError(
        f"run={wanted}: a run, file or folder of that name is already in {store.path.parent};"
        f" carry a stopped run on with `league resume`, or pass another --run"
    )
