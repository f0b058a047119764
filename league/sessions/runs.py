"""A run by itself: how it begins, how it carries an earlier one on, how it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from league import config as settings
from league.arena import parts
from league.arena.agents import check_seed
from league.arena.games import difference, enter, find_again
from league.arena.parts import Given
from league.config import AUTO
from league.config.models import Config
from league.envs import registry
from league.errors import UsageError, command
from league.runtime.device import choose_device, describe_device
from league.runtime.phases import phase
from league.sessions.artifacts import FileArtifactStore
from league.sessions.call import Call
from league.sessions.callbacks import Callbacks
from league.sessions.continuation import find_earlier, find_earlier_auto
from league.sessions.folders import claimed, is_pruned
from league.sessions.following import check_division, check_ranks
from league.sessions.plans import CUSTOM_LOOP, Plan
from league.sessions.session import Session
from league.sessions.settling import check_name, check_room, check_settings, settle, with_changes, words_for
from league.sessions.wiring import new_row, of_rank
from league.store.rows import RunRow
from league.store.store import Store


@contextmanager
def begin_run(call: Call, callback: Callbacks) -> Iterator[Session]:
    """The session of a new run, or of the earlier one that its stage carries on; a run that never plays leaves nothing.

    Raises:
        ConfigError, StoreError: as `league.train`.
    """
    game = enter(call.env, callback.say)
    sets = call.sets(call.parts(callback.say))
    settled = partial(settle, call.stage, call.preset, game, call.config_file, sets, store=call.store)
    config, spec, device, explanation = settled()
    check_settings(config, spec)
    check_seed(call.seed)
    check_name(call.run)
    check_ranks(call, config, device)
    room = check_room(_fitted(config, call, device), spec, device, Path(call.store))
    store = Store.create(Path(call.store), callback.say_or_log)
    earlier, reason = find_earlier(store, config, call.seed, call.run, call.fresh)
    event = ""
    if earlier is None and call.preset == AUTO and not call.fresh and call.run is None:
        found = find_earlier_auto(store, config, call.seed, settled)
        if found is not None:
            config, earlier, reason, event = found
            explanation = event
            if call.ranks is not None:
                check_division(config, call.ranks.size)
            room = check_room(_fitted(config, call, device), spec, device, store.path, earlier)
    if reason:
        callback.say(reason)
    stage = settings.stage_called(call.stage, config)
    mark, loop = _custom(call, settings.fingerprint(config), config)
    row = new_row(call.run or "", config, call.seed, stage, mark, device, call.preset)
    told = difference(config.env.name, earlier.source, f"run {earlier.run}") if earlier else ""
    claim = nullcontext(replace(row, run=earlier.run, id=earlier.id)) if earlier else claimed(store, call.run, row)
    with claim as row:
        who = f"run {row.run}: {stage}, preset {call.preset}, seed {call.seed}, on {describe_device(device)}"
        unpromised = parts.unpromised(config)
        for line in filter(None, (who, explanation, *room, told, parts.unmet(config), unpromised)):
            callback.say(line)
        plan = plan_of(store, row, earlier, config, device, callback)
        events = ("resumed", event), ("game", told), ("programs", unpromised), loop
        plan = replace(plan, ranks=call.ranks, events=events)
        with session_of(plan, is_locked=earlier is None) as session:
            yield session


@contextmanager
def resume_run(store: Store, call: Call, callback: Callbacks) -> Iterator[Session]:
    """The session of a run by itself that goes on, with its lock.

    Raises:
        ConfigError, LeagueError, SnapshotError, UsageError: as `league.resume`.
    """
    row = store.find_run(call.resumes)
    need_steps(row, call.words, store.path)
    goes_on = made_ready(store, row, call, "resuming", callback)
    with session_of(goes_on(row)) as session:
        yield session


@dataclass(frozen=True)
class Continued:
    """A run of the store as a call makes it go on; nothing is written yet."""

    config: Config
    row: RunRow
    device: torch.device
    events: tuple[tuple[str, str], ...]
    """As `Plan.events`."""


def changed(row: RunRow, call: Call, given: Given, callback: Callbacks, whose: str) -> Continued:
    """What of a run is not as it was, by a call's settings, game, parts and device.

    Args:
        row: as it is in the store, or as it is asked for.
        call: the call that resumes it.
        given: its custom parts.
        callback: hears what has changed.
        whose: the run, for errors.

    Raises:
        ConfigError, UsageError: as `league.resume`.
    """
    game_event = find_again(row.game, row.source, whose, call.env, callback.say)
    config, row, part_event = with_changes(row, call.words, given, callback.say)
    event = f"resumed with {', '.join(call.words)}" if call.words else ""
    row = row.coming_from(registry.source(config.env.name))
    device = choose_device(call.device or config.learner.device)
    return Continued(config, row, device, (("resumed", event), ("game", game_event), ("part", part_event)))


def made_ready(store: Store, row: RunRow, call: Call, what: str, callback: Callbacks) -> Callable[[RunRow], Plan]:
    """Checks that a run can go on from where its row stands, says how, and writes nothing.

    what: is done with it, for the first line.

    Returns:
        What makes its plan, given its row as it is in the store by then.

    Raises:
        ConfigError, UsageError: as `league.resume`.
    """
    to = changed(row, call, call.parts(callback.say), callback, f"run {row.run}")
    spec = registry.spec(to.config.env.name, to.config.env.options)
    check_ranks(call, to.config, to.device)
    room = check_room(_fitted(to.config, call, to.device), spec, to.device, store.path, row)
    on = describe_device(to.device)
    for line in (f"run {row.run}: {what} {to.row.stage}, seed {row.seed}, on {on}", *room):
        callback.say(line)

    def plan(found: RunRow) -> Plan:
        mark, loop = _custom(call, to.row.fingerprint, to.config)
        now = replace(found, stage=to.row.stage, config=to.row.config, fingerprint=mark, device=on)
        now = now.coming_from(to.row.source)
        made = plan_of(store, now, found, to.config, to.device, callback)
        return replace(made, ranks=call.ranks, events=(*to.events, loop))

    return plan


def _fitted(config: Config, call: Call, device: torch.device) -> Config:
    """The settings whose memory is looked for: on CUDA, where each rank has its own, those of one rank."""
    return config if call.ranks is None or device.type != "cuda" else of_rank(config, call.ranks)


def _custom(call: Call, mark: str, config: Config) -> tuple[str, tuple[str, str]]:
    """A run's fingerprint and event, which tell that its loop is custom where it is."""
    if not call.is_custom_loop:
        return mark, (CUSTOM_LOOP, "")
    return settings.mixed_fingerprint(mark, config), (CUSTOM_LOOP, "a custom loop trains it (`league.Trainer`)")


def need_steps(row: RunRow, overrides: list[str], store: Path) -> None:
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
    store: Store, row: RunRow, found: RunRow | None, config: Config, device: torch.device, callback: Callbacks
) -> Plan:
    """The plan of a run by itself: it meets its own snapshots, bots, and agents from elsewhere.

    row, found: as in `Plan`.
    """
    return Plan(row, found, config, device, FileArtifactStore(store, row, config, device), callback)


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
