"""`league.imitate`: recorded decisions become a network that decides as those who made them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from league import config as settings
from league.arena.agents import check_seed, find_agent, gather, store_for
from league.arena.demonstrations import PARQUET, REPLAYS, kept, of_columns, of_file, played
from league.arena.games import need_game
from league.arena.networks import described, make_policy
from league.arena.parts import Given
from league.arena.parts import enter as enter_parts
from league.arena.replays import SUFFIX
from league.config.models import Config
from league.config.written import Overrides, as_words
from league.envs import registry
from league.errors import DEFAULT_STORE, UsageError
from league.play.demonstrations import Demonstration
from league.play.summaries import check_games
from league.runtime.device import prepare_training
from league.runtime.process import settings_kept
from league.sessions.settling import check_encoder, settle
from league.snapshots import io as snapshot_files
from league.snapshots.manifest import About, GameRecord, spec_to_json
from league.store.files import check_new
from league.store.store import Store
from league.training.cloning import Cloning
from league.types import RUN_NAME, GameSpec, Policy
from league.types.results import Result
from league.types.schema import MAX_COUNT, check_number

HELD_OUT = 0.1
"""Share of the matches that are held out."""
EPOCHS = 50
"""The most passes, where a call does not say."""


@dataclass(frozen=True, repr=False)
class Clone(Result):
    """A clone that was written, and how it decides in the matches that were held out of its learning."""

    out: str
    agent_id: str
    game: str
    matches: int
    """Learned from and held out."""
    decisions: int
    """Likewise."""
    held_out: int
    """Decisions that were held out."""
    epochs: int
    log_loss: float
    """Of the decisions held out, the mean -log p in nats."""
    accuracy: float | None
    """The share of them in which its likeliest action is the one played; None where an action has real numbers."""
    most_frequent: float | None
    """What the most frequent action would get of that."""


@dataclass(frozen=True)
class Wanted:
    """What is imitated: of which game, by which settings, with what of the caller's."""

    config: Config
    spec: GameSpec
    game: GameRecord
    games: int
    seed: int
    given: Given
    store: str | Path
    say: Callable[[str], None]


@settings_kept()
def imitate(
    game: object,
    demonstrations: str | Sequence[str] | Mapping[str, Any],
    out: str | Path,
    *,
    games: int = 200,
    epochs: int = EPOCHS,
    seed: int = 0,
    agent: str | None = None,
    config_file: str | Path | None = None,
    overrides: Overrides = (),
    bots: object = None,
    policy: object = None,
    device: str | None = None,
    store: str | Path = DEFAULT_STORE,
    say: Callable[[str], None] | None = None,
) -> Clone:
    """Trains a network to decide as recorded players did (behaviour cloning), and writes it to the new folder `out`.

    A tenth of the matches is held out: they end learning, and the result says how well the clone decides in them.
    `league.train(begin_with=out)` starts from the clone, and any function that takes an agent's folder takes it.

    Args:
        game: its name or address (docs/bring.md), or the module or class itself.
        demonstrations: one or several of these: an agent (`bot:NAME`, RUN@STEP, a folder), which plays now; `replays`,
            the matches that the store keeps whole, and `replays:NAME`, the decisions of one agent, run or person in
            them; a file `.replay`; a file `.parquet`, or a dict of arrays with the same columns: `match`, `seat` (0 or
            1), `step`, `obs` (N, obs_size), `action` (N, A), and in a game with masks `mask` (N, M). A row without an
            action is what a seat saw while it waited, in a game in turns.
        out: the clone is called by its name.
        games: of each two of the named agents, and of each with itself; an even number.
        epochs: most passes over the demonstrations; learning ends before where it no longer helps.
        seed: of the games, the first weights, the order, and which matches are held out.
        agent, config_file, overrides, bots, policy, device: as for `league.train`; the network and `[learner]`'s
            learning rate count.
        store: its folder, for `replays` and agents of runs.
        say: receives a line about what is learned from, and one for each epoch.

    Raises:
        UsageError: demonstrations of another layout or game, of fewer than two seeds, or `out` is there already.
        ConfigError, StoreError, SnapshotError: as `league.train` and `league.evaluate`.
        LeagueError: a replay is damaged, or the loss is not finite.
    """
    folder, say = Path(out), say or (lambda line: None)
    check_new(folder, "--out")
    if not RUN_NAME.fullmatch(folder.name):
        raise UsageError(
            f"out={str(folder)[:200]!r}: its name becomes the agent's: letters, digits, '.', '_' and '-' only, at most"
            f" 64, a letter or digit first; pass another --out"
        )
    check_games(games)
    check_number("epochs", epochs, 1, MAX_COUNT, "passes over the demonstrations")
    check_seed(seed)
    name, given = need_game(game), enter_parts(bots, policy=policy, say=say)
    sets = [*given.sets, *as_words(overrides, agent, None), *([f"learner.device={device}"] if device else [])]
    config, spec, where, _ = settle("test50k", "fast", name, config_file, sets, store=store)
    check_encoder(config, spec)
    game_id = registry.game_id(name, config.env.options)
    record = GameRecord.of(spec, game_id, config.env.options, registry.source(name))
    wanted = Wanted(config, spec, record, games, seed, given, store, say)
    return _learned(_gathered(demonstrations, wanted), wanted, epochs, where, folder)


def _learned(found: Sequence[Demonstration], wanted: Wanted, epochs: int, device: torch.device, folder: Path) -> Clone:
    """The clone of those who made the demonstrations, written into a new folder."""
    config, spec, seed = wanted.config, wanted.spec, wanted.seed
    shown, held_out = _divided(found, seed)
    matches, decisions, apart = len({each.match for each in found}), _num_decisions(found), _num_decisions(held_out)
    wanted.say(f"{matches:,} matches, {decisions:,} decisions, of which {apart:,} are held out")
    prepare_training(device)
    net = _first(config, spec, seed, device)
    cloning = Cloning(net, spec.action, config.learner, np.random.default_rng(seed), device)
    fit = cloning.learn(shown, held_out, epochs, wanted.say)
    frozen = snapshot_files.freeze(net.state_dict(), _about(folder.name, wanted, net))
    snapshot_files.write(folder, frozen)
    return Clone(
        str(folder),
        frozen.manifest.agent_id,
        spec.name,
        matches,
        decisions,
        apart,
        fit.epochs,
        fit.log_loss,
        fit.accuracy,
        fit.most_frequent,
    )


def _first(config: Config, spec: GameSpec, seed: int, device: torch.device) -> Policy:
    """The network of these settings with first weights that the seed draws."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = make_policy(config, spec)
    cast(torch.nn.Module, net).to(device)
    return net


def _about(name: str, wanted: Wanted, net: Policy) -> About:
    """The manifest of a clone."""
    config, spec = wanted.config, wanted.spec
    architecture, history_tokens = described(config, spec, net)
    return About(
        run=name,
        step=0,
        update=0,
        seed=wanted.seed,
        fingerprint=settings.fingerprint(config),
        game=wanted.game,
        spec=spec_to_json(spec),
        architecture=architecture,
        history_tokens=history_tokens,
        config=settings.to_json(config),
    )


def _gathered(demonstrations: str | Sequence[str] | Mapping[str, Any], wanted: Wanted) -> list[Demonstration]:
    """All demonstrations that a caller names, each match by a name of its own.

    Raises:
        UsageError, LeagueError: as `imitate`.
    """
    if isinstance(demonstrations, Mapping):
        return of_columns(demonstrations, wanted.spec, wanted.game, "demonstrations")
    names = [demonstrations] if isinstance(demonstrations, str) else list(demonstrations)
    if not names or not all(isinstance(name, str) for name in names):
        raise UsageError(
            f"demonstrations={str(demonstrations)[:200]!r}: name agents, replays or files; pass --from bot:NAME, say"
        )
    found: list[Demonstration] = []
    agents = []
    for name in dict.fromkeys(names):
        if name.partition(":")[0] == REPLAYS:
            own = list(kept(Store.open(wanted.store), wanted.game, name.partition(":")[2], wanted.say))
        elif name.endswith(PARQUET):
            own = of_columns(name, wanted.spec, wanted.game, name)
        elif name.endswith(SUFFIX) and not os.path.isdir(name):
            own = of_file(name, wanted.game)
        else:
            agents.append(name)
            continue
        if not own:
            raise UsageError(f"{name}: has no decision of {wanted.spec.name}; name other demonstrations by --from")
        found += [replace(each, match=f"{name} {each.match}") for each in own]
    if agents:
        opened = store_for(wanted.store, *agents, say=wanted.say)
        sides = {side.agent_id: side for side in (find_agent(opened, name) for name in agents)}
        meeting = gather(opened, tuple(sides.values()), None, "cpu", wanted.say, wanted.given, wanted.game)
        wanted.say(f"playing {wanted.games:,} games of each two of {', '.join(s.label for s in sides.values())}")
        found += played(meeting, wanted.games, wanted.seed)
    return found


def _num_decisions(some: Sequence[Demonstration]) -> int:
    return sum(each.decisions for each in some)


def _divided(found: Sequence[Demonstration], seed: int) -> tuple[list[Demonstration], list[Demonstration]]:
    """What is learned from and what is held out: all matches of a game's seed together, drawn by the seed.

    Raises:
        UsageError: there are fewer than two matches of different seeds.
    """
    groups = list(dict.fromkeys(each.group for each in found))
    if len(groups) < 2:
        raise UsageError(
            f"demonstrations: {len(groups)} match, or matches of one seed, and some are held out; name two that differ"
        )
    order = np.random.default_rng([seed, 1]).permutation(len(groups))
    apart = {groups[i] for i in order[: max(1, round(HELD_OUT * len(groups)))].tolist()}
    return [x for x in found if x.group not in apart], [x for x in found if x.group in apart]
