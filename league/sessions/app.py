"""Wires games, networks and snapshots into the engine for training: what `league.train` and `league.resume` do."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from league import config as settings
from league.arena.agents import DEFAULT_STORE, check_seed
from league.config import AUTO, Config, Layer
from league.device import choose_device, describe_device, read_memory
from league.envs import registry
from league.errors import ConfigError, LeagueError, StoreError, UsageError, nearest
from league.policies.actor_critic import ActorCritic
from league.sessions import sizing
from league.sessions.session import Plan, Session, Silent, TrainResult, new_row
from league.sessions.shelf import FileShelf, architecture_of, folder_of
from league.snapshots.state import STATES_AT_ONCE, STATES_KEPT, states_bytes
from league.store.rows import RunRow
from league.store.store import Store
from league.training.loop import Watcher
from league.types import BOT_PREFIX, RUN_NAME, GameSpec


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
        seed: of everything drawn.
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
            if name not in {row.run for row in opened.runs()}:  # it never began, and its name stays free
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


def with_overrides(row: RunRow, overrides: Sequence[str]) -> tuple[Config, RunRow]:
    """The settings of a run that is in the store with these changes, and its row with them.

    Raises:
        ConfigError: one cannot be changed, or they cannot be run.
    """
    before = settings.from_json(json.loads(row.config))
    if not overrides:
        return before, row
    config = settings.changed(before, overrides)
    settings.check(config)
    is_same = settings.fingerprint(config) == settings.fingerprint(before)
    mark = row.fingerprint if is_same else settings.mixed_fingerprint(row.fingerprint, config)
    return config, replace(row, config=json.dumps(settings.to_json(config)), fingerprint=mark)


def settle(
    stage: str,
    preset: str,
    env: str | None,
    config_file: str | Path | None,
    overrides: Sequence[str],
    layer: Layer | None = None,
) -> tuple[Config, GameSpec, torch.device, str]:
    """The settings of a call: the game's options completed, the device chosen, the preset `auto` sized to it.

    layer: laid over the stage, as `league.config.load` has it.

    The last of the four explains the sizes of `auto`; it is empty with another preset.
    """

    def load(sizes: Layer) -> Config:
        config = settings.load(stage, preset, env, config_file, overrides, sizes, layer)
        return settings.with_options(config, registry.check_options(config.env.name, config.env.options))

    config = load({})
    spec = registry.spec(config.env.name, config.env.options)
    device = choose_device(config.learner.device)
    if preset != AUTO:
        return config, spec, device, ""
    footprint = _footprint(config, spec, device)
    sizes, explanation = sizing.auto(load, spec, footprint, device, read_memory(device), registry.num_cores())
    return load(sizes), spec, device, explanation


def check_memory(config: Config, spec: GameSpec, device: torch.device, rivals: int = 0) -> str:
    """One line of what the run takes of the device's memory; with `rivals` other learners where it is of a league.

    Raises:
        ConfigError: that is more than is free.
    """
    memory = read_memory(device)
    needed = sizing.check_memory(config, spec, _footprint(config, spec, device), memory, device, rivals)
    free = f", {sizing.show(memory.free)} free" if memory.total else ""
    return f"memory: {needed.describe()}{free}"


def check_disk(config: Config, spec: GameSpec, device: torch.device, store: Path, run: str = "", steps: int = 0) -> str:
    """One line of what the run takes of the disk, and a warning in it where that is more than is free.

    Raises:
        ConfigError: nothing could be saved there.
    """
    folder = next(path for path in (store.absolute().parent, *store.absolute().parents) if path.is_dir())
    needs = sizing.disk_needs(config, _footprint(config, spec, device), steps, STATES_KEPT, STATES_AT_ONCE)
    used = states_bytes(store.parent / run / "state") if run else 0
    return sizing.check_disk(needs, shutil.disk_usage(folder).free, used, str(folder))


def _footprint(config: Config, spec: GameSpec, device: torch.device) -> sizing.Footprint:
    sizing.check_agent(config, read_memory(device))
    with torch.random.fork_rng(devices=[]):
        policy = ActorCritic(architecture_of(config, spec)).to(device)
    return sizing.measure(policy, spec, config.learner.rollout_steps, config.learner.precision, device)


def check_name(run: str | None) -> None:
    """Refuses a name that a run cannot have.

    Raises:
        UsageError: it is another than what `RUN_NAME` describes.
    """
    if run is not None and not RUN_NAME.fullmatch(run):
        raise UsageError(
            f"run={run!r}: letters, digits, '.', '_' and '-' only, at most 64, a letter or digit first;"
            f" pass another --run"
        )


def check_settings(config: Config, spec: GameSpec) -> None:
    """Refuses settings that cannot be run, or do not fit the game.

    Raises:
        ConfigError: with what would do.
    """
    settings.check(config)
    settings.check_rewards(config, spec)
    check_mix(config, spec)


def check_mix(config: Config, spec: GameSpec) -> None:
    """Refuses a `pool.mix` or `pool.groups` that names a bot which the game does not have.

    Raises:
        ConfigError: with the bots that there are.
    """
    bots = [BOT_PREFIX + bot for bot in spec.bots]
    known = [settings.SELF_PLAY, *config.pool.groups, *bots]
    for name, share in config.pool.mix.items():
        if name not in known:
            raise ConfigError(f"pool.mix.{name}={share:g}: {spec.name} has no such opponent{nearest(name, known)}")
    for group, members in config.pool.groups.items():
        for name in members:
            if name not in bots:
                raise ConfigError(f"pool.groups.{group} lists {name}: {spec.name} has no such bot{nearest(name, bots)}")


def find_earlier(store: Store, config: Config, seed: int, run: str | None, fresh: bool) -> tuple[RunRow | None, str]:
    """The run that this stage carries on, if any, and a sentence that says so or why not."""
    stage = config.run.continues
    if not stage:
        return None, ""
    if fresh:
        return None, "starting at step 0: --fresh"
    if run is not None:
        return None, f"starting at step 0: --run {run} names a new run"
    mark = settings.fingerprint(config)
    game_id = registry.game_id(config.env.name, config.env.options)
    runs = store.runs()
    begun = [row for row in runs if (row.fingerprint, row.game_id, row.seed) == (mark, game_id, seed)]
    longer = [row for row in begun if row.stage != stage and row.status != "finished" and row.steps]
    hint = f"; to carry on {longer[-1].run} instead, use `league resume {longer[-1].run}`" if longer else ""
    finished = [row for row in runs if row.stage == stage and row.status == "finished"]
    if not finished:
        return None, f"starting at step 0: there is no finished {stage} in {store.path}{hint}"
    seeded = [row for row in finished if row.seed == seed]
    if not seeded:
        seeds = ", ".join(str(n) for n in sorted({row.seed for row in finished}))
        return None, f"starting at step 0: no finished {stage} has seed {seed} (there are: {seeds})"
    same = [row for row in seeded if (row.fingerprint, row.game_id) == (mark, game_id)]
    if not same:
        newest = seeded[-1]
        why = _differences(settings.to_json(config), json.loads(newest.config))
        if not why:
            is_mixed = newest.fingerprint != mark
            why = "settings that changed on the way, when it was resumed" if is_mixed else "the game's version"
        return (
            None,
            f"starting at step 0: {newest.run}, the newest finished {stage} of seed {seed}, differs in {why}{hint}",
        )
    whole = [row for row in same if not is_pruned(store, row.run)]
    newest = (whole or same)[-1]
    if not whole:
        return None, f"starting at step 0: snapshots of {newest.run} were pruned, so it cannot go on{hint}"
    return newest, f"carrying on {newest.run} ({stage}, same fingerprint and seed) from step {newest.steps:,}"


def find_earlier_auto(
    store: Store, config: Config, seed: int, settle_with: Callable[[Layer], tuple[Config, GameSpec, torch.device, str]]
) -> tuple[Config, RunRow, str, str] | None:
    """The run of preset `auto` that this stage carries on with the sizes that `auto` chose on another device.

    Args:
        store, config, seed: as for `find_earlier`; `config` is sized to this device.
        settle_with: the settings of this call with other sizes; what a user has set stays.

    Returns:
        Its settings, its row, a sentence that says which it is, and one about the sizes; None where there is none.
    """
    wanted = (AUTO, config.run.continues, "finished", seed)
    for row in reversed(store.runs()):
        if (row.preset, row.stage, row.status, row.seed) != wanted:
            continue
        sized = settle_with(sizing.sizes_of(json.loads(row.config)))[0]
        if settings.fingerprint(sized) != row.fingerprint:
            continue
        earlier, reason = find_earlier(store, sized, seed, None, False)
        if earlier is not None:
            then, now = sizing.describe(sized), sizing.describe(config)
            kept = f"preset auto: {earlier.run} keeps the sizes of the device that it began on ({then})"
            return sized, earlier, reason, f"{kept}; this one would have {now}: --fresh begins a run with them"
    return None


def is_pruned(store: Store, run: str) -> bool:
    """Whether files of a run's snapshots were pruned; it cannot go on then, since it may draw any of them."""
    return any(row.pruned_at is not None for row in store.snapshots(run))


def _differences(now: Mapping[str, Any], then: Mapping[str, Any]) -> str:
    """The settings that differ between two configs as JSON and count for the fingerprint, at most three by name."""
    ignored = {"env.threads", "env.strict_masks", "learner.device"}

    def flat(config: Mapping[str, Any]) -> dict[str, Any]:
        sections = {**config, "env": {**config["env"], **config["env"]["options"]}}
        pairs = {f"{name}.{key}": value for name, table in sections.items() for key, value in table.items()}
        return {key: value for key, value in pairs.items() if key not in ignored and not key.startswith("run.")}

    a, b = flat(now), flat(then)
    names = [key for key in {**a, **b} if key != "env.options" and a.get(key) != b.get(key)]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


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
