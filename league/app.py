"""Wires games, networks and snapshots into the engine: what `league.train`, `league.evaluate` and the rest do."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from league import config as settings
from league.config import Config
from league.device import choose_device, describe_device
from league.envs import registry
from league.errors import ConfigError, UsageError, nearest
from league.evaluation import Contestant, Summary, play, summarise
from league.policies.actor_critic import ActorCritic, Architecture
from league.pool import SELF_PLAY
from league.records import AgentRow, RunRow, RunStatus, SnapshotRow
from league.rollout import BOT_PREFIX
from league.snapshots.agent import Agent, load_policy
from league.snapshots.export import export as export_snapshot
from league.snapshots.io import save as save_snapshot
from league.snapshots.manifest import Game, Manifest
from league.snapshots.state import load_state, save_state
from league.standings import Standings, best_snapshot, standings
from league.store import Store
from league.training import Counters, Run, Watcher
from league.training import train as run_training
from league.types import GameSpec, MatchBatch

DEFAULT_STORE = Path("runs/league.duckdb")
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


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


@dataclass(frozen=True)
class Evaluation:
    """The matches of A against B; `run` is their name in the store."""

    run: str
    a: str
    b: str
    seed: int
    summary: Summary
    seeds: tuple[int, ...]
    """Of the matches, in the order played; each stands twice, once for either seating."""


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
        preset: how wide.
        env: the game; `brawl` unless a config says otherwise.
        run: its name; the next free `GAME-N` if not given.
        seed: of everything drawn.
        device: `auto`, `cuda`, `mps` or `cpu`.
        config_file: a TOML file laid over the preset.
        overrides: settings as `section.key=value`, laid over everything.
        store: the DuckDB file; a run's files lie beside it in a folder of its name.
        watcher: is told how it goes.

    Raises:
        ConfigError: settings that cannot be run; nothing has been written.
        StoreError: the store cannot be used.
    """
    watcher = watcher or Silent()
    config = settings.load(
        stage, preset, env, config_file, [*overrides, *([f"learner.device={device}"] if device else [])]
    )
    options = registry.check_options(config.env.name, config.env.options)
    config = settings.with_options(config, options)
    spec = registry.spec(config.env.name, options)
    settings.check(config)
    settings.check_rewards(config, spec)
    check_mix(config, spec)
    if not 0 <= seed < 2**63:
        raise UsageError(f"seed={seed}: must be from 0 to 2^63 - 1; pass another --seed")
    torch_device = choose_device(config.learner.device)
    opened = Store.create(Path(store))
    earlier, reason = find_earlier(opened, config, seed, run, fresh)
    if reason:
        watcher.say(reason)
    name = earlier.run if earlier else new_run_name(opened, run, config.env.name)
    watcher.say(f"run {name}: {stage}, preset {preset}, seed {seed}, on {describe_device(torch_device)}")
    parts = _wire(name, config, spec, seed, torch_device, opened, watcher)
    if earlier is None:
        opened.begin_run(_run_row(parts, stage))
        return _run(parts, None)
    opened.update_run(name, status="running", steps=earlier.steps, update=earlier.update, stage=stage)
    return _run(parts, _last_state(parts))


def resume(
    run: str, *, device: str | None = None, store: str | Path = DEFAULT_STORE, watcher: Watcher | None = None
) -> TrainResult:
    """Carries on a run that was stopped, from its last saved state, with the settings that it was started with.

    Raises:
        UsageError: there is no such run, or it is finished.
        SnapshotError: its state is missing or damaged.
    """
    watcher = watcher or Silent()
    opened = Store.open(Path(store))
    row = opened.find_run(run)
    if row.status == "finished":
        raise UsageError(
            f"run={run}: it is finished at step {row.steps:,}; carry on with a longer --stage of `league train`"
        )
    config = settings.from_json(json.loads(row.config))
    torch_device = choose_device(device or config.learner.device)
    spec = registry.spec(config.env.name, config.env.options)
    watcher.say(f"run {run}: resuming {row.stage}, seed {row.seed}, on {describe_device(torch_device)}")
    parts = _wire(run, config, spec, row.seed, torch_device, opened, watcher)
    return _run(parts, _last_state(parts))


def check_mix(config: Config, spec: GameSpec) -> None:
    """Refuses a `pool.mix` that names a bot which the game does not have.

    Raises:
        ConfigError: with the bots that there are.
    """
    known = [SELF_PLAY, *(BOT_PREFIX + bot for bot in spec.bots)]
    for name, share in config.pool.mix.items():
        if name not in known:
            raise ConfigError(f"pool.mix.{name}={share:g}: {spec.name} has no such opponent{nearest(name, known)}")


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
    finished = [row for row in store.runs() if row.stage == stage and row.status == "finished" and row.seed == seed]
    same = [row for row in finished if row.fingerprint == mark]
    if same:
        newest = max(same, key=lambda row: row.started_at)
        return newest, f"carrying on {newest.run} ({stage}, same fingerprint and seed) from step {newest.steps:,}"
    why = "other settings" if finished else f"seed {seed}"
    return None, f"starting at step 0: no finished {stage} with this fingerprint and seed ({why})"


def new_run_name(store: Store, wanted: str | None, game: str) -> str:
    """`wanted` if it may be used, else the next free `GAME-N`.

    Raises:
        UsageError: `wanted` is taken or no file name.
    """
    taken = {row.run for row in store.runs()} | {path.name for path in store.path.parent.glob("*") if path.is_dir()}
    if wanted is None:
        return next(name for n in range(1, len(taken) + 2) if (name := f"{game}-{n}") not in taken)
    if not RUN_NAME.fullmatch(wanted):
        raise UsageError(f"run={wanted!r}: letters, digits, '.', '_' and '-' only, at most 64; pass another --run")
    if wanted in taken:
        raise UsageError(f"run={wanted}: that run exists already in {store.path}; pass another --run")
    return wanted


def architecture_of(config: Config, spec: GameSpec) -> Architecture:
    """The network's sizes for a game: history is given in ticks and kept in decisions."""
    sizes = config.agent.model_dump()
    ticks = int(config.env.options.get("ticks_per_step", 1))  # type: ignore[arg-type]
    history = -(-sizes.pop("history_frames") // ticks)
    return Architecture.of(spec, history_tokens=history, **sizes)


def _wire(
    name: str, config: Config, spec: GameSpec, seed: int, device: torch.device, store: Store, watcher: Watcher
) -> Run:
    """Builds the parts of a run: the game's batches, the network, and how snapshots are stored and loaded."""
    env = config.env
    options = registry.check_options(env.name, env.options)
    game_id = registry.game_id(env.name, options)
    architecture = architecture_of(config, spec)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        policy = ActorCritic(architecture).to(device)
    folder = _folder(store, name)
    paths = {row.agent_id: store.path.parent / row.path for row in store.snapshots(name)}

    def make_batch(rows: int) -> MatchBatch:
        return registry.make(env.name, rows=rows, threads=env.threads, options=options)

    def snapshot(counters: Counters) -> str:
        path = folder / "snapshots" / f"{counters.steps:010d}"
        manifest = save_snapshot(
            path,
            policy.state_dict(),
            Manifest(
                run=name,
                step=counters.steps,
                update=counters.update,
                seed=seed,
                fingerprint=settings.fingerprint(config),
                game=Game(name=spec.name, version=spec.version, game_id=game_id, options=options),
                architecture=architecture.to_json(),
                config=settings.to_json(config),
                parent=counters.newest or None,
            ),
        )
        store.add_agent(AgentRow(manifest.agent_id, "snapshot", f"{name}@{counters.steps}", game_id))
        store.add_snapshot(
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
        seed=seed,
        device=device,
        policy=policy,
        batch=make_batch(env.rows),
        make_batch=make_batch,
        load_policy=lambda agent_id: load_policy(paths[agent_id], device)[1],
        save_snapshot=snapshot,
        save_state=lambda state: save_state(folder / "state", state),
        store=store,
        watcher=watcher,
    )


def _run_row(run: Run, stage: str, parent: str | None = None) -> RunRow:
    return RunRow(
        run=run.name,
        game=run.config.env.name,
        game_id=run.game_id,
        fingerprint=settings.fingerprint(run.config),
        seed=run.seed,
        stage=stage,
        config=json.dumps(settings.to_json(run.config)),
        device=describe_device(run.device),
        parent=parent,
    )


def _run(run: Run, state: dict[str, Any] | None) -> TrainResult:
    """Trains, and leaves the run's true status in the store whatever happens."""
    status: RunStatus = "failed"
    try:
        with _stop_on_signals(run) as received:
            run_training(run, state)
        status = "finished" if run.counters.steps >= run.config.run.total_steps else "stopped"
    finally:
        run.store.update_run(run.name, status=status, steps=run.counters.steps, update=run.counters.update)
        run.store.flush(force=True)
    stopped_by = received[0] if status == "stopped" else 0
    return TrainResult(run.name, run.counters.steps, run.counters.update, status, run.counters.newest, stopped_by)


def _folder(store: Store, run: str) -> Path:
    """Where a run's files lie: beside the store."""
    return store.path.parent / run


@contextmanager
def _stop_on_signals(run: Run) -> Iterator[list[int]]:
    """The first SIGINT or SIGTERM stops the run at its next update, saved; the second one ends the process at once.

    Yields the signals received so far. Outside the main thread, where Python takes no handlers, nothing changes.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)
        run.watcher.say("stopping after this update; press again to quit at once")

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    run.should_stop = lambda: bool(received)
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _last_state(run: Run) -> dict[str, Any]:
    """The run's saved state; what was written past it is removed, since it will be played again."""
    folder = _folder(run.store, run.name)
    state = load_state(folder / "state")
    counters = Counters(**state["counters"])
    run.store.delete_after(run.name, counters.update)
    for path in (folder / "snapshots").glob("*"):
        if path.name.isdigit() and int(path.name) > counters.steps:
            shutil.rmtree(path)
    return state


@dataclass(frozen=True)
class Named:
    """An agent that a name stands for; `folder` is None for a native bot."""

    agent_id: str
    label: str
    folder: Path | None


def find_agent(store: Store | None, name: str) -> Named:
    """The agent called `RUN` (its newest snapshot), `RUN@STEP`, `RUN@best`, `bot:NAME`, or a folder's path.

    Raises:
        UsageError: there is no such agent.
        SnapshotError: the folder is no snapshot.
    """
    if name.startswith(BOT_PREFIX):
        return Named(name, name, None)
    if "/" in name or Path(name).is_dir():
        manifest = read_manifest(Path(name))
        return Named(manifest.agent_id, f"{manifest.run}@{manifest.step}", Path(name))
    if store is None:
        raise UsageError(f"agent {name!r}: no store to look it up in; pass --store, or an exported folder's path")
    run, _, which = name.partition("@")
    store.find_run(run)
    snapshots = store.snapshots(run)
    if not snapshots:
        raise UsageError(f"agent {name!r}: run {run} has no snapshot yet; wait for its first update")
    if which == "best":
        best = best_snapshot(store, run)
        row = next(row for row in snapshots if row.agent_id == best)
    elif which:
        steps = {str(row.step): row for row in snapshots}
        if which not in steps:
            raise UsageError(
                f"agent {name!r}: run {run} has no snapshot at step {which}; known: {', '.join(steps)}, best"
            )
        row = steps[which]
    else:
        row = max(snapshots, key=lambda row: row.step)
    return Named(row.agent_id, f"{run}@{row.step}", store.path.parent / row.path)


def load(name: str, *, store: str | Path = DEFAULT_STORE, device: str = "cpu") -> Agent:
    """The agent called `name` (see `find_agent`), ready to play.

    Raises:
        UsageError: there is no such agent, or it is a bot inside a game.
    """
    found = find_agent(_store_or_none(store), name)
    if found.folder is None:
        raise UsageError(f"agent {name!r}: a native bot plays inside its game only; name a run, a snapshot or a folder")
    return Agent.load(found.folder, device)


def export(name: str, out: str | Path, *, store: str | Path = DEFAULT_STORE) -> Manifest:
    """Copies the agent called `name` to the new folder `out`, which `Agent.load` opens; returns its manifest."""
    found = find_agent(_store_or_none(store), name)
    if found.folder is None:
        raise UsageError(f"agent {name!r}: a native bot has no weights to export; name a run, a snapshot or a folder")
    return export_snapshot(found.folder, Path(out))


def evaluate(
    a: str,
    against: str,
    games: int = 100,
    *,
    seed: int = 0,
    greedy: bool = False,
    env: str | None = None,
    device: str = "auto",
    store: str | Path = DEFAULT_STORE,
) -> Evaluation:
    """Plays A against B, seats swapped in pairs that share a seed, and keeps the matches in the store if there is one.

    Args:
        a, against: names of agents (see `find_agent`).
        games: an even number.
        seed: of the matches and of the actions drawn.
        greedy: both sides play their likeliest action; otherwise both sample, as in training.
        env: the game, needed only between two bots.
        device: where nets run.
        store: the DuckDB file.

    Raises:
        UsageError: an unknown agent, agents of different games, or an odd number of games.
    """
    opened = _store_or_none(store)
    first, second = find_agent(opened, a), find_agent(opened, against)
    if first.agent_id == second.agent_id:
        raise UsageError(f"{a} and {against} are the same agent ({first.label}); name two different ones")
    torch_device = choose_device(device)
    loaded = {n.agent_id: load_policy(n.folder, torch_device) for n in (first, second) if n.folder is not None}
    game = _common_game([manifest.game for manifest, _ in loaded.values()], env)
    spec = registry.spec(game.name, game.options)
    for named in (first, second):
        bot = named.agent_id.removeprefix(BOT_PREFIX)
        if named.folder is None and bot not in spec.bots:
            raise UsageError(f"agent {named.label!r}: {game.name} has no such bot{nearest(bot, spec.bots)}")
    contestants = [Contestant(n.agent_id, loaded[n.agent_id][1] if n.folder else None) for n in (first, second)]
    name = f"evaluation-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
    results = play(
        lambda rows: registry.make(game.name, rows=rows, threads=0, options=game.options),
        *contestants,
        games,
        seed,
        run=name,
        update=0,
        game_id=game.game_id,
        greedy=greedy,
        device=torch_device,
    )
    if opened is not None:
        for named in (first, second):
            kind = "bot" if named.folder is None else "import"
            opened.add_agent(AgentRow(named.agent_id, kind, named.label, game.game_id))
        opened.add_matches(results)
        opened.flush(force=True)
    summary = summarise(results, first.agent_id)
    return Evaluation(name, first.label, second.label, seed, summary, tuple(result.seed for result in results))


def leaderboard(run: str | None = None, *, store: str | Path = DEFAULT_STORE) -> Standings:
    """Everyone's rating with its 95 % interval, games and win/draw/loss, from the evaluation matches in the store.

    Args:
        run: only this run's agents and whoever they played.
        store: the DuckDB file; training may be writing it at the same time.
    """
    opened = Store.open(Path(store))
    if run is not None:
        opened.find_run(run)
    return standings(opened, run)


def _store_or_none(store: str | Path) -> Store | None:
    return Store.open(Path(store)) if Path(store).exists() else None


def _common_game(games: Sequence[Game], env: str | None) -> Game:
    """The one game of all the agents; between bots, `env` with the options of the hyperparameter source."""
    if len({game.game_id for game in games}) > 1:
        names = " and ".join(f"{game.name} {game.game_id[:8]}" for game in games)
        raise UsageError(f"the agents play different games ({names}), so they cannot meet; name agents of one game")
    if games:
        return games[0]
    config = settings.load(env=env)
    options = registry.check_options(config.env.name, config.env.options)
    spec = registry.spec(config.env.name, options)
    return Game(spec.name, spec.version, registry.game_id(spec.name, options), options)
