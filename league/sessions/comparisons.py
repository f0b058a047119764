"""`league.compare`: two settings over the same seeds, and how many seeds would decide between them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from league import config as settings
from league.arena.agents import find_agent
from league.arena.games import find_again
from league.arena.tournament_results import TournamentResult
from league.arena.tournaments import tournament
from league.config.models import Config
from league.config.written import Overrides, as_words, written
from league.errors import DEFAULT_STORE, UsageError, nearest
from league.maths.racing import paired
from league.maths.ratings import Difference
from league.play.summaries import check_games
from league.runtime.process import settings_kept
from league.sessions.objectives import MAX_FIRST_SEED, Measured, Recipe, RunObjective, Say, trained
from league.sessions.settling import check_settings
from league.store.store import Store
from league.types import GameSpec
from league.types.results import Grid, Result
from league.types.schema import MAX_COUNT, check_number

MAX_SEEDS = 1000
OBJECTIVES = ("rating", "score", "nashconv", "exploitability")


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """Two settings over n seeds; of a seed that was not reached nothing is there.

    difference: of A less B, with the 95 % interval of the paired t-test. needed: the seeds, in all, whose test finds a
    difference of this size with a probability of 80 %; None where that takes more than 10,000. unit: of the values.
    is_decided: whether the interval excludes 0. signal: the number of the signal that ended it, 0 if none did.
    """

    a: str
    b: str
    objective: str
    unit: str
    seeds: tuple[int, ...]
    runs_a: tuple[str, ...]
    runs_b: tuple[str, ...]
    values_a: tuple[float, ...] = ()
    values_b: tuple[float, ...] = ()
    difference: Difference | None = None
    needed: int | None = None
    signal: int = 0

    @property
    def is_decided(self) -> bool:
        """Whether the interval of the difference excludes 0."""
        return self.difference is not None and (self.difference.lower > 0 or self.difference.upper < 0)

    def grids(self) -> list[Grid]:
        """A row a seed."""
        rows = list(zip(self.seeds, self.runs_a, self.values_a, self.runs_b, self.values_b, strict=False))
        return [Grid(("seed", "run", self.a, "run", self.b), rows, f"{self.objective} ({self.unit})")]


@settings_kept()
def compare(
    a: str | Path,
    b: str | Path,
    *,
    seeds: int = 5,
    seed: int = 1,
    objective: str = "rating",
    against: Sequence[str] = (),
    games: int | None = None,
    env: str | None = None,
    stage: str = "test50k",
    preset: str = "fast",
    agent: str | None = None,
    steps: int | None = None,
    device: str | None = None,
    overrides: Overrides = (),
    store: str | Path = DEFAULT_STORE,
    say: Say | None = None,
) -> Comparison:
    """Trains two settings with the same seeds, and tells whether they differ, by a paired t-test over the seeds.

    Ratings are on one scale: the last snapshots of all runs and the game's bots meet in a round robin, and are rated
    with all other games of the store. The errors of the ratings are part of how the differences vary over seeds.

    Args:
        a, b: TOML files as `config_file` of `league.train`, or runs of the store, whose settings they stand for.
        seeds: runs of each. One that is in the store, with the same settings, steps and seed, is taken from there.
        seed: the first of them.
        objective: `rating`, or as of a sweep (`league.sessions.objectives.RunObjective`).
        against: the opponents of a `score`.
        games: of each pair (20), or as of a sweep's objective (200).
        env, stage, preset, agent, steps, device, overrides: of both, as for `league.train`. `overrides` lie over the
            files.
        store: its folder.
        say: receives a line a run.

    Raises:
        ConfigError: settings that cannot be run.
        UsageError: no such file or run, or both have the same settings.
        LeagueError: as `league.train` and `league.tournament`.
    """
    check_number("seeds", seeds, 2, MAX_SEEDS, "runs of each setting")
    check_number("seed", seed, 0, MAX_FIRST_SEED, "the seed of the first runs")
    if objective not in OBJECTIVES:
        raise UsageError(f"objective={objective}: no such objective{nearest(objective, OBJECTIVES)}")
    if games is not None:
        check_games(games)
    if steps is not None:
        check_number("steps", steps, 1, MAX_COUNT, "steps of a run")
    of_goal = {} if games is None or objective == "rating" else {"games": games}
    goal = RunObjective(kind=objective, against=tuple(against), **of_goal)  # type: ignore[arg-type]
    words, path = as_words(overrides), Path(store)
    numbers = tuple(range(seed, seed + seeds))
    with _files((a, b), path, env) as files:
        common = {"env": env, "stage": stage, "preset": preset, "agent": agent, "steps": steps, "device": device}
        sides = [Recipe(**common, config=file, seed=seed) for file in files]  # type: ignore[arg-type]
        settled = [side.settled(path, words) for side in sides]
        marks = [settings.fingerprint(config) for config, _ in settled]
        _need_comparable(a, b, settled)
        goal.check(*settled[0], path)
        names = str(a).removesuffix(".toml"), str(b).removesuffix(".toml")
        unit = "score" if settled[0][1].utility is None else "payoff"
        found: tuple[list[str], list[str]] = ([], [])

        def known(signal: int = 0) -> Comparison:
            return Comparison(*names, objective, unit, numbers, tuple(found[0]), tuple(found[1]), signal=signal)

        for number in numbers:
            for i in range(2):
                name = f"{Path(names[i]).name[:40]}-{marks[i][:6]}-s{number}"
                run, signal = trained(name, number, sides[i], words, path)
                if signal:
                    return known(signal)
                found[i].append(run)
                if say is not None:
                    say(f"{run}: trained, or in the store")
        return _judged(known(), goal, path, env, games, say)


def _need_comparable(a: str | Path, b: str | Path, settled: Sequence[tuple[Config, GameSpec]]) -> None:
    """Refuses the settings of two sides that are the same, of different games, or cannot be run.

    Raises:
        UsageError, ConfigError: they are.
    """
    configs = [config for config, _ in settled]
    if len({(settings.fingerprint(config), config.run.total_steps) for config in configs}) == 1:
        raise UsageError(f"{a} and {b} are the same settings here; name two that differ")
    if len({(config.env.name, str(config.env.options)) for config in configs}) > 1:
        raise UsageError(f"{a} and {b} are of different games; name two of one game")
    for config, spec in settled:
        check_settings(config, spec)


def _judged(
    known: Comparison, goal: RunObjective, store: Path, env: str | None, games: int | None, say: Say | None
) -> Comparison:
    """A comparison of which the runs are there, with their values and what follows."""
    sides = known.runs_a, known.runs_b
    if goal.kind == "rating":
        met = tournament([*sides[0], *sides[1]], bots=True, games=games, env=env, store=store, say=say)
        if met.signal:
            return replace(known, signal=met.signal)
        values = [[_rating(met, store, run) for run in side] for side in sides]
        known = replace(known, unit=met.unit)
    else:
        values = []
        for side in sides:
            found = [goal.measure(run, seed, store, env) for seed, run in zip(known.seeds, side, strict=True)]
            if number := next((x for x in found if isinstance(x, int)), 0):
                return replace(known, signal=number)
            values.append([x.value for x in found if isinstance(x, Measured)])
    difference, needed = paired(*values)
    a, b = map(tuple, values)
    return replace(known, values_a=a, values_b=b, difference=difference, needed=needed)


def _rating(met: TournamentResult, store: Path, run: str) -> float:
    agent_id = find_agent(Store.open(store), run).agent_id
    rated = next(x.rating for x in met.standings if x.agent_id == agent_id)
    return np.nan if rated is None else rated


@contextmanager
def _files(sides: Sequence[str | Path], store: Path, env: str | None) -> Iterator[list[str]]:
    """A settings file of each side: its own, or one of a run's settings, which goes with the end.

    Raises:
        UsageError: there is no such file or run, or a run has custom parts, which no file names.
        ConfigError: this user has not named the code of a run's game.
    """
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for i, side in enumerate(sides):
            if Path(side).suffix == ".toml" or Path(side).is_file():
                found.append(str(side))
                continue
            if not Store.is_there(store):
                raise UsageError(
                    f"{side}: no TOML file, and there is no store at {store} with such a run; name another"
                )
            row = Store.open(store).find_run(str(side))
            find_again(row.game, row.source, f"run {side}", env)
            config = settings.of_run(str(side), row.config)
            if any(config.parts.model_dump().values()):
                raise UsageError(f"{side}: it has custom parts, which `compare` cannot name; compare other runs")
            file = Path(folder) / f"{i}.toml"
            file.write_text("\n".join(written(config)), encoding="utf-8")
            found.append(str(file))
        yield found
