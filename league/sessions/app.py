"""Wires games, networks and snapshots into the engine for training: what `league.train` and `league.resume` do."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from league import config as settings
from league.arena.agents import DEFAULT_STORE, check_seed
from league.boards.alarms import sound
from league.config import AUTO, Config, Layer
from league.device import choose_device, describe_device, products_of, read_memory
from league.envs import registry
from league.errors import ConfigError, LeagueError, SnapshotError, StoreError, UsageError, nearest
from league.play.evaluation import Summary
from league.play.opponents import num_slots_for
from league.policies.actor_critic import ActorCritic, Architecture
from league.policies.linear import has_tiles
from league.policies.stacked import StackedPolicy, stack_of
from league.pool import league_pool
from league.sessions import recovery, sizing
from league.sessions.failures import write_evidence
from league.signals import on_signal
from league.snapshots import io as snapshot_files
from league.snapshots.agent import load_policy
from league.snapshots.manifest import About, GameRecord, spec_to_json
from league.snapshots.state import STATES_AT_ONCE, STATES_KEPT, load_state, save_state, states_bytes
from league.store.locks import alone
from league.store.rows import GameRow, RunRow, RunStatus, SnapshotRow
from league.store.store import Store
from league.training.loop import Counters, Run, Watcher
from league.training.loop import train as run_training
from league.types import BOT_PREFIX, RUN_NAME, GameSpec, MatchBatch


@dataclass(frozen=True)
class TrainResult:
    """Where a call of `train` left its run."""

    run: str
    steps: int
    updates: int
    status: str
    """`finished`, or `stopped` by a signal."""
    newest: str
    """Agent id of the newest snapshot."""
    signal: int = 0
    """Number of the signal that stopped it."""


class Silent:
    """A watcher that says nothing."""

    def report(self, report: object) -> None:
        """Ignored."""

    def evaluated(self, steps: int, opponent: str, summary: Summary) -> None:
        """Ignored."""

    def say(self, message: str) -> None:
        """Ignored."""


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
    watcher = watcher or Silent()
    sets = [*overrides, *([f"learner.device={device}"] if device else [])]
    config, spec, torch_device, explanation = settle(stage, preset, env, config_file, sets)
    settings.check(config)
    settings.check_rewards(config, spec)
    check_mix(config, spec)
    check_seed(seed)
    if run is not None and not RUN_NAME.fullmatch(run):
        raise UsageError(
            f"run={run!r}: letters, digits, '.', '_' and '-' only, at most 64, a letter or digit first;"
            f" pass another --run"
        )
    memory = check_memory(config, spec, torch_device)
    disk = check_disk(config, spec, torch_device, Path(store))
    opened = Store.create(Path(store))
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
        parts = wire(name, config, spec, seed, torch_device, opened, watcher, settings.fingerprint(config))
        if earlier is not None:
            return _go_on(parts, stage, earlier, event)
        with alone(name, folder_of(opened, name)):
            opened.begin_run(_run_row(parts, stage, preset))
            return _run(parts, None)
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
    watcher = watcher or Silent()
    opened = Store.open(Path(store))
    row = opened.find_run(run)
    if run in {learner.run for learner in opened.learners()}:
        raise UsageError(f"run={run}: it is a learner of a league; use `league resume` or `league.resume_league`")
    if row.status == "finished":
        raise UsageError(
            f"run={run}: it is finished at step {row.steps:,}; carry on with a longer --stage of `league train`"
        )
    before = settings.from_json(json.loads(row.config))
    config = settings.changed(before, overrides)
    is_same = settings.fingerprint(config) == settings.fingerprint(before)
    fingerprint = row.fingerprint if is_same else settings.mixed_fingerprint(row.fingerprint, config)
    if overrides:
        settings.check(config)
    torch_device = choose_device(device or config.learner.device)
    spec = registry.spec(config.env.name, config.env.options)
    memory = check_memory(config, spec, torch_device)
    disk = check_disk(config, spec, torch_device, opened.path, run, row.steps)
    watcher.say(f"run {run}: resuming {row.stage}, seed {row.seed}, on {describe_device(torch_device)}")
    watcher.say(memory)
    watcher.say(disk)
    parts = wire(run, config, spec, row.seed, torch_device, opened, watcher, fingerprint)
    if parts.game_id != row.game_id:
        raise UsageError(
            f"run={run}: it was trained on game {row.game_id[:8]}, this league's {spec.name} is {parts.game_id[:8]};"
            f" begin a new one with `league train`"
        )
    return _go_on(parts, row.stage, row, f"resumed with {', '.join(overrides)}" if overrides else "")


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


def architecture_of(config: Config, spec: GameSpec) -> Architecture:
    """The network's sizes for a game: history is given in ticks and kept in decisions."""
    sizes = config.agent.model_dump()
    history = -(-sizes.pop("history_frames") // spec.ticks_per_step)
    return Architecture.of(spec, history_tokens=history, **sizes)


def wire(
    name: str,
    config: Config,
    spec: GameSpec,
    seed: int,
    device: torch.device,
    store: Store,
    watcher: Watcher,
    fingerprint: str,
    *,
    first_weights: int | None = None,
    publish: Callable[[SnapshotRow], None] | None = None,
    find_snapshots: Callable[[], Iterable[SnapshotRow]] | None = None,
) -> Run:
    """Builds the parts of a run: the game's batches, the network, and how snapshots are stored and loaded.

    first_weights: what the network's first weights are drawn with, if not with `seed`.
    publish: is given each snapshot once its files are written; otherwise the store is.
    find_snapshots: those that the run may load; otherwise its own in the store.
    """
    env = config.env
    options = registry.check_options(env.name, env.options)
    game_id = registry.game_id(env.name, options)
    architecture = architecture_of(config, spec)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed if first_weights is None else first_weights)
        policy = ActorCritic(architecture).to(device)
    folder = folder_of(store, name)
    store.add_game(GameRow.of(game_id, spec))
    game = GameRecord(name=spec.name, version=spec.version, game_id=game_id, options=options)
    paths: dict[str, Path] = {}

    def make_batch(rows: int) -> MatchBatch:
        return registry.make(env.name, rows=rows, threads=env.threads, options=options)

    def frozen(agent_id: str) -> ActorCritic:
        if agent_id not in paths:
            found = store.snapshots(name) if find_snapshots is None else find_snapshots()
            paths.update({row.agent_id: store.path.parent / row.path for row in found})
        try:
            return load_policy(paths[agent_id], device)[1]
        except KeyError:
            raise SnapshotError(
                f"run={name}: the snapshot {agent_id[:16]}... is neither in {store.path} nor on disk beside it; put it"
                f" back, then `league resume {name}`"
            ) from None
        except SnapshotError as error:
            raise SnapshotError(f"{error}; then `league resume {name}`") from None

    def snapshot(counters: Counters) -> str:
        path = folder / "snapshots" / f"{counters.steps:010d}"
        manifest = snapshot_files.save(
            path,
            policy.state_dict(),
            About(
                run=name,
                step=counters.steps,
                update=counters.update,
                seed=seed,
                fingerprint=fingerprint,
                game=game,
                spec=spec_to_json(spec),
                architecture=architecture.to_json(),
                history_tokens=architecture.history_tokens,
                config=settings.to_json(config),
                parent=counters.newest or None,
                extra={"bits": settings.BITS},
            ),
        )
        (publish or store.add_snapshot)(
            SnapshotRow(
                agent_id=manifest.agent_id,
                run=name,
                step=counters.steps,
                update=counters.update,
                path=path.relative_to(store.path.parent).as_posix(),
                fingerprint=manifest.fingerprint,
                parent=manifest.parent,
            )
        )
        paths[manifest.agent_id] = path
        return manifest.agent_id

    return Run(
        name=name,
        config=config,
        game_id=game_id,
        fingerprint=fingerprint,
        seed=seed,
        device=device,
        policy=policy,
        spec=spec,
        products=products_of(device, config.learner.precision, has_tiles()),
        make_batch=make_batch,
        make_stack=lambda: make_stack(policy, config),
        load_policy=frozen,
        save_snapshot=snapshot,
        save_state=lambda state: save_state(folder / "state", state),
        save_evidence=lambda evidence: write_evidence(folder / "failures", evidence, game),
        store=store,
        watcher=watcher,
    )


def make_stack(policy: ActorCritic, config: Config) -> StackedPolicy | None:
    """Room for all live nets, in the format that play multiplies in; None where net by net is faster."""
    return stack_of(policy, num_slots_for(2 * config.pool.live_nets), config.learner.precision)


def _run_row(run: Run, stage: str, preset: str) -> RunRow:
    return RunRow(
        run=run.name,
        game=run.config.env.name,
        game_id=run.game_id,
        fingerprint=run.fingerprint,
        seed=run.seed,
        stage=stage,
        config=json.dumps(settings.to_json(run.config)),
        device=describe_device(run.device),
        preset=preset,
    )


def _run(run: Run, state: dict[str, Any] | None) -> TrainResult:
    """Trains, and leaves the run's true status in the store whatever happens."""
    with stop_on_signals(run.watcher.say) as received:
        run.should_stop = lambda: bool(received)
        try:
            run_training(run, state)
        except BaseException:
            with suppress(StoreError):  # the error that ended the run is the one to tell
                note(run, "failed")
            raise
        is_finished = run.counters.steps >= run.config.run.total_steps
        note(run, "finished" if is_finished else "stopped")
        if is_finished:
            sound_alarms(run)
    stopped_by = 0 if is_finished else received[0]
    status = "finished" if is_finished else "stopped"
    return TrainResult(run.name, run.counters.steps, run.counters.update, status, run.counters.newest, stopped_by)


def sound_alarms(run: Run) -> None:
    """At a stage's end, says what the store shows to be wrong with the run."""
    try:
        for line in sound(run.store, run.name, run.counters.update):
            run.watcher.say(line)
    except StoreError as error:
        run.watcher.say(f"no alarms looked for: {error}")


def note(run: Run, status: RunStatus) -> None:
    run.store.update_run(run.name, status=status, steps=run.counters.steps, update=run.counters.update)
    run.store.flush(force=True)


def _go_on(run: Run, stage: str, row: RunRow, event: str = "") -> TrainResult:
    """Trains from the run's last saved state, which is read before anything is changed; `event` is written down.

    row: the run as it was found, before its lock was held.

    Raises:
        UsageError: another process trains it, or has changed its settings since.
    """
    if not folder_of(run.store, run.name).is_dir():
        raise SnapshotError(
            f"run={run.name}: its folder {folder_of(run.store, run.name)} is gone; put it back, or begin a new run with"
            f" `league train --fresh`"
        )
    with alone(run.name, folder_of(run.store, run.name)):
        now = run.store.find_run(run.name)
        if (now.config, now.fingerprint, now.stage) != (row.config, row.fingerprint, row.stage):
            raise UsageError(f"run={run.name}: another process has just changed its settings; call again to go on")
        need_whole_pool(run)
        state = recovered_state(run)
        config = json.dumps(settings.to_json(run.config))
        device = describe_device(run.device)
        run.store.extend_run(run.name, stage=stage, config=config, fingerprint=run.fingerprint, device=device)
        if event:
            run.store.add_event(run.name, state["counters"]["update"], "resumed", event)
        return _run(run, state)


def recovered_state(run: Run, *, examines: bool = True) -> dict[str, Any]:
    """The run's saved state, from which it goes on; what is lost or damaged is said and written down.

    examines: looks at rows and at the files of all whom it may meet, too; needless where this process did before.

    Raises:
        SnapshotError: the state is missing, damaged or of another version; nothing has been removed.
    """
    notes: list[str] = []
    state = _last_state(run, notes.append)
    saved = state.pop("rows", {})
    _restore_rows(run, state, notes.append)
    if examines:
        notes += _examine(run, state, saved)
    for note in notes:
        run.watcher.say(note)
        run.store.add_event(run.name, state["counters"]["update"], "damage", note)
    return state


def _restore_rows(run: Run, state: dict[str, Any], say: Callable[[str], None]) -> None:
    """Restores rows of snapshots from their files; `say` is told, but for a league, which publishes late by design."""
    is_historical = league_pool.own_snapshots(state["pool"])
    restored = recovery.restore_snapshots(run.store, run.name, state["counters"]["update"], is_historical)
    if restored and is_historical is None:
        steps = ", ".join(f"{step:,}" for step in restored)
        say(f"run={run.name}: the store had lost the snapshots at {steps} steps; their files have them restored")


def _examine(run: Run, state: dict[str, Any], saved: Mapping[str, list[int]]) -> list[str]:
    """What is lost or damaged of the run, which had the match rows `saved`, and of those that it may meet."""
    notes = []
    lost = recovery.lost_rows(run.name, saved, run.store.row_counts(run.name, state["counters"]["update"]))
    if lost:
        notes.append(lost)
    members = {run.name: state["pool"]["snapshots"]} | league_pool.others_to_meet(state["pool"])
    for owner, agents in members.items():
        for damage in recovery.damaged_snapshots(run.store, owner, agents):
            notes.append(
                f"{damage}; the run goes on until it is drawn as an opponent: put it back from a copy before that"
            )
    return notes


def need_whole_pool(run: Run) -> None:
    if is_pruned(run.store, run.name):
        raise UsageError(
            f"run={run.name}: snapshots of it were pruned, so it cannot go on; begin a new run with `league train"
            f" --fresh`"
        )


def folder_of(store: Store, run: str) -> Path:
    """Where a run's files lie: beside the store."""
    return store.path.parent / run


def stop_on_signals(say: Callable[[str], None]) -> AbstractContextManager[list[int]]:
    """After the first signal to end, training is to stop at its next update; a second one ends the process at once."""

    def say_so(number: int) -> None:
        with suppress(RuntimeError, OSError):  # it came in the middle of another write, or nobody reads any more
            say("stopping after this update; press again to quit at once")

    return on_signal(say_so)


def _last_state(run: Run, say: Callable[[str], None]) -> dict[str, Any]:
    """The run's saved state; what was written past it is removed, since it will be played again.

    `say` is told where the newest state is damaged and the one before it is taken.

    Raises:
        SnapshotError: the state is missing, damaged or of another version; nothing has been removed.
    """
    folder = folder_of(run.store, run.name)
    state = load_state(folder / "state", say)
    try:
        counters = Counters(**state["counters"])
    except (KeyError, TypeError) as error:
        raise SnapshotError(
            f"{folder / 'state'}: written by another version of league ({error}); begin a new run with --fresh"
        ) from None
    num_matches = run.store.delete_after(run.name, counters.update)
    if num_matches and state.get("collector") is None:  # else they are played again as they were
        line = (
            f"run={run.name}: {num_matches:,} matches of the rollout that ended the run after update"
            f" {counters.update:,} are no longer in the store: new ones are played in their place"
        )
        run.watcher.say(line)
        run.store.add_event(run.name, counters.update, "replaced", line)
    snapshot_files.clean(folder / "snapshots")
    for path in (folder / "snapshots").glob("*"):
        if path.name.isdigit() and int(path.name) > counters.steps:
            shutil.rmtree(path)
    return state
