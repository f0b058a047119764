"""What settings are judged by: runs of them, and a number of each run with its error."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from league import config as settings
from league.arena.agents import find_agent, store_for
from league.arena.equilibrium import nashconv
from league.arena.evaluations import evaluate
from league.arena.games import enter
from league.boards.rating import rate_counts
from league.config.models import Config, SomeGames
from league.config.written import toml
from league.envs import registry
from league.errors import UsageError, nearest, unused
from league.maths.means import Z95
from league.sessions.app import resume, train
from league.sessions.exploitability import Exploit
from league.sessions.settling import settle
from league.store.store import Store
from league.training.run import Callback
from league.types import BOT_PREFIX, GameSpec
from league.types.schema import MAX_SEED, Count, FrozenModel

MAX_FIRST_SEED = MAX_SEED - 1_000
"""Room is left for the seeds after it."""
USED_BY = {"rating": (), "score": ("against", "games"), "nashconv": (), "exploitability": ("games", "steps")}
"""Kind of an objective -> the fields of `RunObjective` that it reads."""
Say = Callable[[str], None]
Names = Annotated[tuple[str, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)]


class Recipe(FrozenModel):
    """How the runs of a comparison are trained: the keywords of `league.train` by these names."""

    env: str | None = None
    stage: str = "test50k"
    preset: str = "fast"
    agent: str | None = None
    steps: Count | None = None
    device: str | None = None
    config: str | None = None
    """A TOML file, laid over preset and stage."""
    seed: Annotated[int, Field(ge=0, le=MAX_FIRST_SEED)] = 0
    """Of the first run of each setting; the next has the next one."""
    set: dict[str, Any] = Field(default_factory=dict)
    """Settings by section, laid over all others but those compared."""

    def keywords(self, sets: Sequence[str] = ()) -> dict[str, Any]:
        """For `league.train`, without run and seed; `sets` lie over its own settings."""
        words = [f"{name}={toml(value)}" for name, value in flat(self.set).items()]
        words = [*([f"agent={self.agent}"] if self.agent else []), *words, *sets]
        words += [] if self.steps is None else [f"run.total_steps={self.steps}"]
        words += [] if self.device is None else [f"learner.device={self.device}"]
        given = {"stage": self.stage, "preset": self.preset, "env": self.env, "config_file": self.config}
        return {**given, "overrides": words}

    def settled(self, store: Path, sets: Sequence[str] = ()) -> tuple[Config, GameSpec]:
        """The settings of its runs, and the game's spec.

        Raises:
            ConfigError: settings that cannot be run.
        """
        k = self.keywords(sets)
        config, spec, *_ = settle(
            k["stage"], k["preset"], enter(k["env"]), k["config_file"], k["overrides"], store=store
        )
        return config, spec


def flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by `section.key`, of a table that has them so or by section."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        is_section = "." not in name and isinstance(value, Mapping)
        found |= {f"{name}.{key}": x for key, x in value.items()} if is_section else {name: value}
    return found


@dataclass(frozen=True)
class Measured:
    """A run's number, and its standard error by the matches that it is of: 0 where it is exact."""

    value: float
    error: float


class RunObjective(FrozenModel):
    """The number that a run is judged by."""

    kind: Literal["rating", "score", "nashconv", "exploitability"] = "rating"
    """`rating`: of the last snapshot, by the run's own evaluation games, above the game's anchor, or where it has none
    above the mean of its bots. `score`: against `against`, or the payoff a match where the game pays. `nashconv`:
    exact, in games that can be solved. `exploitability`: what an exploiter gains on it that trains for `steps`."""
    against: Names = ()
    """Agents as `league evaluate` takes them."""
    games: SomeGames = 200
    """Games against each of them, or of the exploiter."""
    steps: Count = 20_000
    """Training steps of the exploiter."""

    @property
    def sign(self) -> int:
        """1 where more is better, -1 where less is."""
        return 1 if self.kind in ("rating", "score") else -1

    def check(self, config: Config, spec: GameSpec, store: Path) -> None:
        """Refuses an objective that runs of these settings have no number for.

        Raises:
            UsageError: with the next step.
        """
        where, game = f"objective {self.kind}", config.env
        if self.kind == "score" and not self.against:
            raise UsageError(f"{where}: it names no opponents; give some, such as bot:{next(iter(spec.bots), 'NAME')}")
        idle = {name: getattr(self, name) for name in sorted(self.model_fields_set - {"kind", *USED_BY[self.kind]})}
        unused(f"it has no effect on {where}", **idle)
        if self.kind == "rating" and not spec.bots:
            raise UsageError(
                f"{where}: {game.name} has no bots that put all runs on one scale; take score against agents"
            )
        if self.kind == "nashconv" and registry.tree(game.name, game.options) is None:
            raise UsageError(f"{where}: {game.name} has no tree that it is worked out on; take exploitability")
        for name in self.against:
            bot = name.removeprefix(BOT_PREFIX)
            if bot != name and bot not in spec.bots:
                raise UsageError(f"{where}: against {name}: {game.name} has no such bot{nearest(bot, spec.bots)}")
            if bot == name:
                find_agent(store_for(store, name), name)

    def measure(self, run: str, seed: int, store: Path, env: str | None) -> Measured | int:
        """The number of a finished run; the number of the signal that ended an exploiter, where one did.

        Raises:
            LeagueError: an opponent is missing, or the game has no tree.
        """
        if self.kind == "rating":
            return rating_of(Store.open(store), run)
        if self.kind == "nashconv":
            return Measured(nashconv(run, env=env, store=store).nashconv, 0.0)
        if self.kind == "score":
            met = [evaluate(run, name, self.games, seed=seed, env=env, store=store) for name in self.against]
            found = [x.summary.measured for x in met]
            halves = [(x.upper - x.lower) / 2.0 / Z95 for x in found]
            return Measured(float(np.mean([x[0] for x in found])), math.hypot(*halves) / len(halves))
        done = train(against=run, run=f"{run}-exploiter", steps=self.steps, games=self.games, seed=seed, store=store)
        if not isinstance(done, Exploit) or done.summary is None:
            return done.signal or 1
        scored = done.summary.measured
        even = 0.5 if done.summary.payoff is None else 0.0
        return Measured(scored[0] - even, (scored.upper - scored.lower) / 2.0 / Z95)


def rating_of(store: Store, run: str) -> Measured:
    """The rating of a run's last snapshot by the run's own evaluation games (`RunObjective.kind`).

    Raises:
        UsageError: it has met no bot.
    """
    row = store.find_run(run)
    snapshots = [snapshot.agent_id for snapshot in store.snapshots(run)]
    game = store.game(row.game_id)
    ratings = rate_counts(store.pair_counts(row.game_id, run=run), [snapshots], game)
    held = [agent for agent in ratings.agents if agent == game.anchor] or [
        agent for agent in ratings.agents if agent.startswith(BOT_PREFIX)
    ]
    if not held:
        raise UsageError(f"run={run}: its evaluations met no bot, so its rating is on no scale; take another objective")
    weights = np.zeros(len(ratings.agents))
    weights[ratings.index(snapshots[-1])] = 1.0
    weights[[ratings.index(agent) for agent in held]] -= 1.0 / len(held)
    base = ratings.anchor_rating if game.anchor in held else 0.0
    variance = float(weights @ ratings.covariance @ weights)
    return Measured(base + float(weights @ ratings.rating), math.sqrt(max(0.0, variance)))


def trained(
    name: str, seed: int, training: Recipe, sets: Sequence[str], store: Path, callback: Sequence[Callback] = ()
) -> tuple[str, int]:
    """Trains a run of these settings and seed to its end, or takes the one that the store has.

    A finished run of any name counts; the run called `name` goes on where it stopped.

    Returns:
        The run, and the number of the signal that stopped it, -1 where a callback did, 0 where it is finished.

    Raises:
        LeagueError: as `league.train`.
    """
    config, _ = training.settled(store, sets)
    mark, total = settings.fingerprint(config), config.run.total_steps
    opened = Store.open(store) if Store.is_there(store) else None
    learners = {row.run for row in opened.learners()} if opened else set()
    for row in opened.runs() if opened else ():
        is_same = (row.fingerprint, row.seed) == (mark, seed) and row.run not in learners
        if opened and is_same and settings.of_run(row.run, row.config).run.total_steps == total:
            status = opened.status_of(row)
            if status == "finished":
                return row.run, 0
            if row.run == name:
                done = resume(name, env=training.env, store=store, callback=callback)
                return name, done.signal or -(done.status != "finished")
    done = train(**training.keywords(sets), run=name, seed=seed, store=store, callback=callback)
    return name, done.signal or -(done.status != "finished")
