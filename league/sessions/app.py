"""Wires games, networks and snapshots into the engine for training: what `league.train` and `league.resume` do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from league import config as settings
from league.arena import parts
from league.arena.agents import check_seed
from league.arena.games import difference, enter, find_again
from league.arena.parts import enter as enter_parts
from league.config import AUTO
from league.config.models import Config
from league.config.written import Overrides, as_words
from league.device import choose_device, describe_device
from league.envs import registry
from league.errors import DEFAULT_STORE, UsageError, command
from league.phases import phase
from league.sessions.artifacts import FileArtifactStore
from league.sessions.callbacks import Steady, steady
from league.sessions.continuation import find_earlier, find_earlier_auto
from league.sessions.folders import claimed, is_pruned
from league.sessions.session import Plan, Session, TrainResult, new_row
from league.sessions.settling import (
    Changes,
    check_disk,
    check_memory,
    check_name,
    check_settings,
    settle,
    with_changes,
    words_for,
)
from league.signals import settings_kept
from league.store.rows import RunRow
from league.store.store import Store
from league.training.run import Callback


@settings_kept()
def train(
    stage: str = "test50k",
    *,
    preset: str = "fast",
    agent: str | None = None,
    env: object = None,
    run: str | None = None,
    steps: int | None = None,
    seed: int = 0,
    device: str | None = None,
    config_file: str | Path | None = None,
    overrides: Overrides = (),
    bots: object = None,
    sampler: object = None,
    policy: object = None,
    fresh: bool = False,
    store: str | Path = DEFAULT_STORE,
    callback: Callback | Sequence[Callback] | None = None,
) -> TrainResult:
    """Trains one run of a stage, against its own snapshots and the game's bots.

    Args:
        stage: how long: `smoke`, `test50k` or `10m`. `10m` carries on the newest finished `test50k` that has the same
            fingerprint and seed, unless `fresh`.
        preset: how wide; `auto` is sized to the device.
        agent: how large its network: `small`, or the game's own if not given. `overrides` lie above it.
        env: the game, by its name or address (docs/bring.md), or the module or class itself; without it the
            configuration's.
        run: its name; the next free `GAME-N` if not given.
        steps: in all, instead of the stage's; the same as the override `run.total_steps`.
        seed: random seed.
        device: `auto`, `cuda`, `mps` or `cpu`.
        config_file: a TOML file laid over the preset.
        overrides: settings as `section.key=value`, or a dict of sections, `{"learner": {"gamma": 0.9}}`, laid over
            everything.
        bots: bots in Python, by name (docs/bring.md): addresses or functions. `pool.mix` says how often the learner
            meets one, as `bot:NAME`; evaluations meet all.
        sampler: one's own: an address, or a function of what is known of a group (`league.pool.samplers.Known`).
        policy: a custom network: an address, or a function or class `(GameSpec, AgentConfig) -> nn.Module` that
            follows `league.types.Policy`.
        store: the folder that has the run's folder, and those of others.
        callback: a callback, or several.

    Raises:
        ConfigError: settings that cannot be run, for want of memory too; nothing has been written.
        StoreError: the store cannot be used.
        LeagueError: the memory is used up later; the run's state has been saved.
    """
    call = partial(
        begun, stage, preset=preset, agent=agent, env=env, run=run, seed=seed, device=device, config_file=config_file
    )
    own, overrides = {"bots": bots, "sampler": sampler, "policy": policy}, as_words(overrides, steps=steps)
    with call(overrides=overrides, own=own, fresh=fresh, store=store, callback=callback) as session:
        return session.go().results[0]


@contextmanager
def begun(
    stage: str,
    *,
    preset: str,
    agent: str | None,
    env: object,
    run: str | None,
    seed: int,
    device: str | None,
    config_file: str | Path | None,
    overrides: Overrides,
    own: Mapping[str, object],
    fresh: bool,
    store: str | Path,
    callback: Callback | Sequence[Callback] | None,
) -> Iterator[Session]:
    """The session of a call of `train`, with its run's lock; a run that writes nothing within it leaves nothing.

    own: the custom parts: `bots`, `sampler`, `policy`.

    Raises:
        ConfigError, StoreError: as `train`.
    """
    callback, say = steady(callback)
    name = enter(env, callback.say)
    given = enter_parts(**own, say=callback.say)
    sets = [*given.sets, *as_words(overrides, agent), *([f"learner.device={device}"] if device else [])]
    config, spec, torch_device, explanation = settle(stage, preset, name, config_file, sets, store=store)
    check_settings(config, spec)
    check_seed(seed)
    check_name(run)
    memory = check_memory(config, spec, torch_device)
    disk = check_disk(config, spec, torch_device, Path(store))
    opened = Store.create(Path(store), say)
    earlier, reason = find_earlier(opened, config, seed, run, fresh)
    event = ""
    if earlier is None and preset == AUTO and not fresh and run is None:
        found = find_earlier_auto(
            opened, config, seed, partial(settle, stage, preset, name, config_file, sets, store=store)
        )
        if found is not None:
            config, earlier, reason, event = found
            explanation = event
            memory = check_memory(config, spec, torch_device)
            disk = check_disk(config, spec, torch_device, Path(store), earlier.run, earlier.steps)
    if reason:
        callback.say(reason)
    stage = settings.stage_called(stage, config)
    row = new_row(run or "", config, seed, stage, settings.fingerprint(config), torch_device, preset)
    game_event = difference(config.env.name, earlier.source, f"run {earlier.run}") if earlier else ""
    claim = nullcontext(replace(row, run=earlier.run, id=earlier.id)) if earlier else claimed(opened, run, row)
    with claim as row:
        callback.say(f"run {row.run}: {stage}, preset {preset}, seed {seed}, on {describe_device(torch_device)}")
        if explanation:
            callback.say(explanation)
        callback.say(memory)
        callback.say(disk)
        if game_event:
            callback.say(game_event)
        if unmet := parts.unmet(config):
            callback.say(unmet)
        plan = plan_of(opened, row, earlier, config, torch_device, callback, event)
        with session_of(replace(plan, game_event=game_event), is_locked=earlier is None) as session:
            yield session


@dataclass(frozen=True)
class Again:
    """What a call says of a run that goes on, as `resume` has it."""

    env: object
    own: Mapping[str, object]
    device: str | None
    overrides: Sequence[str]


@contextmanager
def resumed(store: Store, run: str, again: Again, callback: Steady) -> Iterator[Session]:
    """The session of a run by itself that goes on, with its lock.

    Raises:
        ConfigError, LeagueError, SnapshotError, UsageError: as `league.resume`.
    """
    row = store.find_run(run)
    need_alone(store, run)
    need_steps(row, again.overrides, store.path)
    goes_on = made_ready(store, row, again, "resuming", callback)
    with session_of(goes_on(row)) as session:
        yield session


def made_ready(store: Store, row: RunRow, again: Again, what: str, callback: Steady) -> Callable[[RunRow], Plan]:
    """Checks that a run can go on from where its row stands, says how, and writes nothing.

    what: is done with it, for the first line.

    Returns:
        What makes its plan, given its row as it is in the store by then.

    Raises:
        ConfigError, UsageError: as `resume`.
    """
    run = row.run
    changes = Changes(again.overrides, enter_parts(**again.own, say=callback.say))
    game_event = find_again(row.game, row.source, f"run {run}", again.env, callback.say)
    config, changed, part_event = with_changes(row, changes, callback.say)
    device = choose_device(again.device or config.learner.device)
    spec = registry.spec(config.env.name, config.env.options)
    memory = check_memory(config, spec, device)
    disk = check_disk(config, spec, device, store.path, run, row.steps)
    callback.say(f"run {run}: {what} {changed.stage}, seed {row.seed}, on {describe_device(device)}")
    callback.say(memory)
    callback.say(disk)

    def plan(found: RunRow) -> Plan:
        now = replace(found, stage=changed.stage, config=changed.config, fingerprint=changed.fingerprint)
        now = replace(now, device=describe_device(device)).coming_from(registry.source(config.env.name))
        plan = plan_of(store, now, found, config, device, callback, changes.event)
        return replace(plan, game_event=game_event, part_event=part_event)

    return plan


def need_alone(store: Store, run: str) -> None:
    """Refuses a run that is one of several.

    Raises:
        UsageError: it is a learner of a league, or an exploiter.
    """
    if role := next((learner.role for learner in store.learners() if learner.run == run), None):
        what = "an exploiter" if role == "exploiter" else "a learner of a league"
        again = command("resume", run, store=store.path)
        raise UsageError(f"run={run}: it is {what}; use {again}")


def need_steps(row: RunRow, overrides: Sequence[str], store: Path) -> None:
    """Refuses a run that has made its steps, and does not get more.

    Raises:
        ConfigError: a setting that cannot change.
        UsageError: it is finished, or is to have fewer steps than it has made.
    """
    before = settings.of_run(row.run, row.config)
    total = settings.changed(before, overrides).run.total_steps
    if total > row.steps:
        return
    if total != before.run.total_steps:
        raise UsageError(
            f"run.total_steps={total}: run {row.run} has made {row.steps:,} steps; give it more, or go back to a kept"
            f" state with --at"
        )
    if row.status == "finished":
        raise UsageError(f"run={row.run}: it is finished at step {row.steps:,}; {longer(row, store)}")


@phase("wire")
def plan_of(
    store: Store,
    row: RunRow,
    found: RunRow | None,
    config: Config,
    device: torch.device,
    callback: Steady,
    event: str = "",
) -> Plan:
    """The plan of a run by itself: it meets its own snapshots, bots, and agents from elsewhere.

    row, found, event: as in `Plan`.
    """
    artifacts = FileArtifactStore(store, row, config, device)
    return Plan(row, found, config, device, artifacts, callback, event=event)


@contextmanager
def session_of(plan: Plan, *, is_locked: bool = False) -> Iterator[Session]:
    """The session of a run by itself; `is_locked`: whether the caller holds its lock.

    Raises:
        UsageError: it cannot go on, since its snapshots were pruned.
    """
    store, run = plan.artifacts.store, plan.row.run
    with Session(store, [plan], plan.callback, is_locked=is_locked) as session:
        if plan.found is not None and is_pruned(store, run):
            raise UsageError(
                f"run={run}: snapshots of it were pruned, so it cannot go on; begin a new run with"
                f" {command('train', '--fresh', '--env', plan.row.env, store=store.path)}"
            )
        yield session


def longer(row: RunRow, store: Path) -> str:
    """How a finished run goes on: a stage by a longer one, any other run by more steps."""
    further = f"go further with {command('resume', row.run, '--steps', 2 * row.steps, store=store)}"
    if row.stage.endswith(settings.OWN_LENGTH):
        return further
    after = settings.longer_stages(row.stage, row.steps)
    config = settings.of_run(row.run, row.config)
    if not after or settings.fingerprint(config) != row.fingerprint:
        why = f"no stage carries {row.stage} on" if not after else "no stage carries on a run whose settings changed"
        return f"{why}; {further}"
    preset = row.preset if row.preset not in ("", AUTO) else "fast"
    words = ["train", "--stage", after[0], "--preset", preset, "--env", row.env, "--seed", row.seed]
    words += [*parts.words_for(config), *words_for(config, after[0], preset)]
    return f"carry it on with {command(*words, store=store)}"
