"""Agents by name: find one, load it, export it, let two meet, watch them, rank them all."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import torch

from league.arena.agreement import need_agreement
from league.arena.games import enter, find_again, load_settings
from league.arena.loading import Part
from league.arena.networks import family_of, load_net, make_stack
from league.arena.own_bots import find_bots, players
from league.arena.parts import Given
from league.arena.parts import enter as enter_parts
from league.arena.static_pages import page_files
from league.boards.headtohead import Matchup
from league.boards.headtohead import matchup as compare
from league.boards.leaderboards import Leaderboard
from league.boards.naming import find_named
from league.boards.standings import leaderboard as rank
from league.envs import registry
from league.envs.adapters.encoders import submission_files
from league.errors import DEFAULT_STORE, ConfigError, SnapshotError, UsageError, command
from league.play.demonstrations import DecisionRecorder
from league.play.evaluation import play
from league.play.pairings import Contestant, Pairing
from league.play.recording import Recording
from league.play.summaries import num_rows
from league.policies.actor_critic import state_bytes
from league.runtime.device import choose_device, read_memory
from league.runtime.phases import phase
from league.snapshots.agent import Agent, load_fit
from league.snapshots.export import Format, Quantize
from league.snapshots.export import export as export_snapshot
from league.snapshots.io import need_agent, read
from league.snapshots.manifest import GameRecord, Manifest
from league.store.folder import Folder
from league.store.rows import AgentKind, AgentRow, GameRow, Sampling
from league.store.store import Store
from league.types import BOT_PREFIX, GameSpec, MatchResult, Origin, Policy, PolicyStack
from league.types.schema import MAX_SEED, check_number

NOTHING = Given()
STOPPED = "stopped"
"""RUN@stopped: the weights that a run had when it was stopped last, in a folder of that name in the run's own."""


@dataclass(frozen=True)
class Named:
    """An agent that a name stands for; `folder` is None for a native bot."""

    agent_id: str
    label: str
    folder: Path | None
    is_own: bool = False
    """Whether it is a snapshot of a run of the store: the settings of any other folder are a stranger's."""


@dataclass(frozen=True)
class Meeting:
    """Agents and their game; `nets` has those that are no bots by `agent_id`."""

    game: GameRecord
    spec: GameSpec
    sides: tuple[Named, ...]
    nets: dict[str, tuple[Manifest, Policy]]
    device: torch.device
    bots: dict[str, Part] = field(default_factory=dict)
    """Those that are bots in Python, or programs."""
    say: Callable[[str], None] | None = None
    """Hears of forfeits."""


def find_agent(store: Store | None, name: str) -> Named:
    """The agent called `RUN` (its newest snapshot), `RUN@STEP`, `RUN@best`, `RUN@stopped` (its weights when it was
    stopped last), `bot:NAME`, or a folder's path.

    A run of the store goes before a folder of its name; `./NAME` is always the folder.

    Raises:
        UsageError: there is no such agent, or its files were pruned.
        SnapshotError: the folder is no snapshot, or holds another agent than the store says.
    """
    if name.startswith(BOT_PREFIX):
        return Named(name, name, None)
    runs = [] if store is None else [row.run for row in store.runs()]
    if is_path(name) or (name.partition("@")[0] not in runs and os.path.isdir(name)):
        manifest, _ = load_fit(Path(name))
        return Named(manifest.agent_id, f"{manifest.run}@{manifest.step}", Path(name))
    if store is None:
        raise UsageError(
            f"agent {name!r}: there is no store and no such folder; name RUN, RUN@STEP, RUN@best, RUN@stopped, bot:NAME"
            f" or an exported folder, and pass --store"
        )
    run, _, which = name.partition("@")
    if which == STOPPED and run in runs:
        return _find_stopped(store, run)
    row = find_named(store, name)
    if row.pruned_at is not None:
        shown = command("snapshots", "list", "--run", row.run, store=store.path)
        raise UsageError(
            f"agent {name!r}: the files of {row.run}@{row.step} were pruned on {row.pruned_at:%Y-%m-%d}, so it cannot"
            f" play; name one of those that {shown} shows with files"
        )
    folder = store.brought(row.path)
    if os.path.isdir(folder):  # of a missing one the caller may need the id alone
        need_agent(folder, read(folder).manifest, row.agent_id)
    return Named(row.agent_id, f"{row.run}@{row.step}", folder, is_own=True)


def _find_stopped(store: Store, run: str) -> Named:
    folder, label = store.brought(f"{run}/{STOPPED}"), f"{run}@{STOPPED}"
    if not folder.is_dir():
        raise UsageError(
            f"agent {label!r}: {run} was not stopped on its way, or is finished since; name {run} for its newest"
            f" snapshot"
        )
    manifest = load_fit(folder)[0]
    if manifest.run != run:
        raise SnapshotError(f"{folder}: it holds an agent of run {manifest.run}; remove the folder")
    return Named(manifest.agent_id, label, folder)


def is_path(name: str) -> bool:
    """Whether an agent's name can only be a folder's path."""
    return "/" in name or os.sep in name


def load(
    name: str,
    *,
    store: str | Path = DEFAULT_STORE,
    device: str = "cpu",
    policy: object = None,
    threads: int = 1,
) -> Agent:
    """The agent called `name` (see `find_agent`), ready to play.

    threads: of torch, with which it decides on a CPU.
    policy: of a custom network, where its code is, or the function or class itself (docs/bring.md); not needed
        where this user has named it before.

    Raises:
        UsageError: there is no such agent, it is a bot inside a game, or this machine has no such device.
        StoreError: the name is a run's, and there is no store.
        SnapshotError: the agent's files are missing or damaged.
    """
    found = find_agent(store_for(store, name), name)
    if found.folder is None:
        raise UsageError(f"agent {name!r}: a bot plays inside its game only; name a run, a snapshot or a folder")
    manifest, net = load_net(found.folder, choose_device(device), given=enter_parts(policy=policy))
    return Agent(net, manifest, threads)


def export(
    name: str,
    out: str | Path,
    *,
    format: Format = "folder",
    quantize: Quantize | None = None,
    store: str | Path = DEFAULT_STORE,
    say: Callable[[str], None] | None = None,
) -> Manifest:
    """Writes the agent called `name` to the new folder `out`; returns its manifest (docs/guides/export.md).

    Args:
        name: see `find_agent`.
        out: of a submission it may end in `.zip`.
        format: `folder`, which `Agent.load` opens; `onnx`; `torch`, a program of `torch.export`; `submission`, which
            plays without torch and league; or `page`, on which a person plays it in a browser.
        quantize: `int8` or `bf16`: weights of `agent.onnx` in 8 or 16 bits.
        store: its folder.
        say: receives a line about each thing that cannot be read, and how far an export is from the network.

    Raises:
        UsageError, StoreError: as `load`; an unknown format, or a package is missing.
        SnapshotError: its files are missing or damaged, `out` is there already, or the network cannot be exported.
    """
    found = find_agent(store_for(store, name, say=say), name)
    if found.folder is None:
        raise UsageError(f"agent {name!r}: a bot has no weights to export; name a run, a snapshot or a folder")
    folder = found.folder

    def beside(manifest: Manifest) -> dict[str, bytes]:
        return page_files(manifest, folder) if format == "page" else submission_files(manifest.game.came_from)

    return export_snapshot(folder, Path(out), format, quantize, say, beside)


def leaderboard(
    run: str | None = None,
    *,
    against: str | None = None,
    greedy: bool = False,
    prior: float | None = None,
    store: str | Path = DEFAULT_STORE,
) -> Leaderboard:
    """Everyone's rating with its 95 % interval, games and win/draw/loss, from the evaluation matches in the store.

    Args:
        run: only this run's agents and their opponents.
        against: an agent; everyone's difference to it is given with its interval.
        greedy: rate the games in which nets played their likeliest action, instead of those in which they sampled.
        prior: imagined draws an agent, which keep ratings finite (1.25); 0: maximum likelihood, and what has no finite
            estimate is named.
        store: its folder; trainings may be writing there at the same time.

    Raises:
        UsageError: no such run or agent, or a prior below 0.
        StoreError: there is no store, or it cannot be used.
    """
    return rank(Store.open(Path(store)), run, against=against, sampling=sampling_of(greedy), prior=prior)


def matchup(a: str, b: str, *, greedy: bool = False, store: str | Path = DEFAULT_STORE) -> Matchup:
    """What the evaluation matches in the store say of A against B; no match is played.

    Args:
        a, b: `RUN`, `RUN@STEP`, `RUN@best`, `bot:NAME`, or an agent's name or the beginning of its id.
        greedy, store: as for `leaderboard`.

    Raises:
        UsageError: no such agent, the same one twice, or one without an evaluation match.
        StoreError: there is no store, or it cannot be used.
    """
    return compare(Store.open(Path(store)), a, b, sampling=sampling_of(greedy))


def sampling_of(greedy: bool) -> Sampling:
    """The mode as match rows have it."""
    return "greedy" if greedy else "sample"


def store_for(store: str | Path, *names: str, say: Callable[[str], None] | None = None) -> Store | None:
    """The store, which must be there if one of the agents' names can only be a run's; None if it is not there."""
    needs = [n for n in names if not (n.startswith(BOT_PREFIX) or is_path(n) or os.path.isdir(n))]
    return Store.open(store, say) if needs or Store.is_there(store) else None


@dataclass(frozen=True)
class Where:
    """What a call says of the game, the custom parts, the device and the store of its agents, as of `evaluate`."""

    env: object
    bots: object
    policy: object
    device: str
    store: str | Path
    say: Callable[[str], None] | None

    def open(self, *names: str) -> Store | None:
        """As `store_for`."""
        return store_for(self.store, *names, say=self.say)

    def gather(self, opened: Store | None, *names: str) -> Meeting:
        """Finds and loads the agents, and the game that all play as this league has it.

        Raises:
            UsageError, SnapshotError: as `evaluate`.
        """
        given = enter_parts(self.bots, policy=self.policy, say=self.say)
        named = tuple(find_agent(opened, name) for name in names)
        meeting = gather(opened, named, self.env, self.device, self.say, given)
        given.need_in(names, self.bots)
        return meeting


def gather(
    store: Store | None,
    sides: tuple[Named, ...],
    env: object,
    device: str,
    say: Callable[[str], None] | None = None,
    given: Given = NOTHING,
    game: GameRecord | None = None,
) -> Meeting:
    """Loads the agents, and the game that all play as this league has it.

    say: receives a line where the game, or a custom part, is not what an agent began with. given: the parts named now.
    game: the one that they must play, registered; None: theirs.

    Raises:
        UsageError, SnapshotError: as `evaluate`.
    """
    torch_device, said = choose_device(device), say
    nets = {
        n.agent_id: load_net(n.folder, torch_device, n.agent_id, given=given, say=say)
        for n in sides
        if n.folder is not None
    }
    theirs = _common_game([manifest for manifest, _ in nets.values()], env, say) if nets or game is None else game
    if game is not None and theirs.game_id != game.game_id:
        raise UsageError(
            f"the agents play {theirs.name} {theirs.game_id[:8]}, and {game.name} {game.game_id[:8]} is wanted; name"
            f" agents of that game, or set its options as theirs are with --set env.OPTION=VALUE"
        )
    game = theirs
    for manifest, _ in nets.values():
        need_agreement(manifest)
    spec = registry.spec(game.name, game.options)
    rows = [] if store is None else store.agents(game.game_id)
    agents = [named.agent_id for named in sides if named.folder is None]
    bots = find_bots(agents, spec, rows, [manifest for manifest, _ in nets.values()], given, say)
    return Meeting(game, spec, sides, nets, torch_device, bots, said)


def check_different(a: str, b: str, meeting: Meeting) -> None:
    """Refuses two names for one agent.

    Raises:
        UsageError: both are the same agent.
    """
    first, second = meeting.sides
    if first.agent_id == second.agent_id:
        raise UsageError(f"{a} and {b} are the same agent ({first.label}); name two different ones")


@phase("meet")
def play_pairings(
    meeting: Meeting,
    pairings: Sequence[tuple[int, int, int, int]],
    *,
    run: str,
    update: int,
    greedy: bool,
    decisions: DecisionRecorder | None = None,
) -> list[MatchResult]:
    """Plays (A, B, games, seed) for two indices of `meeting.sides` each, all in one batch (`play.evaluation.play`).

    The first match of each is kept whole. decisions: receives what both sides decide.
    """
    game = meeting.game

    workers = _workers_of(meeting)
    own = players(meeting.bots, meeting.spec, meeting.device, workers)

    def contestant(named: Named) -> Contestant:
        if named.folder is None:
            return Contestant(named.agent_id, own.get(named.agent_id), None, named.label)
        manifest, net = meeting.nets[named.agent_id]
        return Contestant(named.agent_id, net, family_of(manifest, net), named.label)

    def stack(like: Policy) -> PolicyStack | None:
        return make_stack(like, 1, "float32")

    sides = [contestant(named) for named in meeting.sides]
    _check_memory(meeting, pairings)
    results = play(
        lambda rows: registry.make(game.name, rows=rows, threads=0, options=game.options, workers=workers),
        [Pairing(sides[a], sides[b], games, seed) for a, b, games, seed in pairings],
        Origin(run, game.game_id),
        update=update,
        greedy=greedy,
        make_stack=stack,
        recording=Recording(1, game.model_dump(mode="json"), decisions),
    )
    for line in [line for bot in own.values() for _, line in bot.take_notes()]:
        if meeting.say is not None:
            meeting.say(line)
    return results


def _workers_of(meeting: Meeting) -> int:
    """Worker processes that play a meeting: as many as the own runs among the agents had, at most one a core."""
    manifests = [meeting.nets[named.agent_id][0] for named in meeting.sides if named.is_own]
    sections = [manifest.config.get("env") for manifest in manifests]
    asked = [section.get("workers") for section in sections if isinstance(section, dict)]
    most = min(max([0, *(count for count in asked if type(count) is int)]), registry.num_cores())
    with suppress(ConfigError):  # a game that only this process has
        return most if most and registry.recipe(meeting.game.name) else 0
    return 0


def _check_memory(meeting: Meeting, pairings: Sequence[tuple[int, int, int, int]]) -> None:
    """Refuses matches whose nets would remember more than the device has room for."""
    memory = read_memory(meeting.device)
    rows = Counter[str]()
    for a, b, games, _ in pairings:
        rows.update({meeting.sides[side].agent_id: num_rows(games) for side in (a, b)})
    taken = {agent_id: rows[agent_id] * state_bytes(net) for agent_id, (_, net) in meeting.nets.items()}
    if memory.total and sum(taken.values()) > memory.free:
        widest = meeting.nets[max(taken, key=taken.__getitem__)][0]
        raise UsageError(
            f"agent {widest.run}@{widest.step}: what the nets remember of their matches takes"
            f" {sum(taken.values()) / 2**30:,.1f} GiB, {memory.free / 2**30:,.1f} GiB are free; leave it out, or play"
            f" fewer games"
        )


def introduce(rows: Folder, meeting: Meeting) -> None:
    """Notes the game and the sides with the rows of their matches, so that these say by themselves who played."""
    rows.add_game(GameRow.of(meeting.game.game_id, meeting.spec))
    game_id = meeting.game.game_id
    for named in meeting.sides:
        agent_id = named.agent_id
        if agent_id in meeting.bots:
            rows.add_agent(AgentRow.of_bot(agent_id, game_id, meeting.bots[agent_id].source))
        else:
            kind: AgentKind = "bot" if named.folder is None else "snapshot" if named.is_own else "import"
            rows.add_agent(AgentRow(agent_id, kind, named.label, game_id))


def _common_game(nets: Sequence[Manifest], env: object, say: Callable[[str], None] | None) -> GameRecord:
    """The one game of all the agents, registered; between bots, `env` with its options by default."""
    if len({net.game.game_id for net in nets}) > 1:
        names = " and ".join(dict.fromkeys(f"{net.game.name} {net.game.game_id[:8]}" for net in nets))
        raise UsageError(f"the agents play different games ({names}), so they cannot meet; name agents of one game")
    for net in nets:
        find_again(net.game.name, net.game.came_from, f"{net.run}@{net.step}", env, say)
        env, say = None, None
    if nets:
        return nets[0].game
    config, _ = load_settings(env=enter(env, say))
    options, name = config.env.options, config.env.name
    return GameRecord.of(registry.spec(name, options), registry.game_id(name, options), options, registry.source(name))


def check_seed(seed: int) -> None:
    """Refuses a seed that the random number generators cannot all take.

    Raises:
        UsageError: it is negative or too large.
    """
    check_number("seed", seed, 0, MAX_SEED, "the random seed")
