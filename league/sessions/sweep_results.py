"""Where a sweep stands: its settings with their intervals, what matters, and the best as a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from league.config.layers import read_toml
from league.config.written import key_of, toml
from league.envs import registry
from league.errors import UsageError
from league.maths.racing import apart, mean_of, seeds_needed
from league.sessions.objectives import flat
from league.sessions.sweep_files import SweepSpace
from league.sessions.sweep_journal import SEEDS, Journal, decoded
from league.store.files import new_file
from league.types.results import Grid, Result


@dataclass(frozen=True)
class TriedSetting:
    """One setting of a sweep. Without a finished run `mean` and its 95 % interval are NaN.

    needed: the seeds of each, in all, that would tell it from the best with a probability of 80 % if the difference is
        the one seen; None where it is the best, is told from it already, or takes too many.
    is_told: from the best, by intervals that hold for all pairs of settings together, since the best is chosen by
        its mean. A setting may have been stopped by its own interval, and not be told by these.
    """

    trial: int
    status: str
    settings: Mapping[str, Any]
    runs: tuple[str, ...]
    values: tuple[float, ...]
    mean: float
    lower: float
    upper: float
    is_told: bool
    needed: int | None


@dataclass(frozen=True, repr=False)
class SweepResult(Result):
    """Where a sweep stands: its settings, the best first, then those that were pruned, failed or are being tried.

    importance: the share of each setting in how the means vary, by Optuna's PED-ANOVA; empty of fewer than two settings
    or four means. signal: the number of the signal that ended the call, 0 if none did. journal: what Optuna's
    own tools open.
    """

    sweep: str
    objective: str
    direction: str
    tried: tuple[TriedSetting, ...]
    importance: Mapping[str, float]
    journal: Path
    signal: int = 0
    space: SweepSpace | None = field(default=None, compare=False)

    @property
    def best(self) -> TriedSetting | None:
        """The setting of the best mean among those that ended."""
        return self.tried[0] if self.tried and self.tried[0].status == "complete" else None

    def grids(self) -> list[Grid]:
        """A row a setting."""
        names = list(dict.fromkeys(name for x in self.tried for name in x.settings))
        rows = [
            (x.trial, x.status, len(x.values), x.mean, x.lower, x.upper, *map(x.settings.get, names))
            for x in self.tried
        ]
        return [Grid(("trial", "status", "seeds", "mean", "lower", "upper", *names), rows, self.sweep)]


def result_of(journal: Journal, number: int = 0) -> SweepResult:
    """A sweep as it stands; `number`: the signal that ended the call."""
    import optuna

    found = journal.study.get_trials(
        deepcopy=False, states=tuple(x for x in optuna.trial.TrialState if x.name != "WAITING")
    )
    spread, leader = journal.spread(), journal.leader()
    ended = sum(x.state == optuna.trial.TrialState.COMPLETE for x in found)
    pairs = max(1, ended * (ended - 1) // 2)
    tried = []
    for x in found:
        seeds = x.user_attrs.get(SEEDS, [])
        values = [s["value"] for s in seeds]
        is_judged = x.state == optuna.trial.TrialState.COMPLETE and leader is not None
        mean = mean_of(values, spread) if values else (float("nan"),) * 3
        gap = apart(values, leader, spread, pairs) if is_judged and leader is not None else None
        is_told = gap is not None and (gap.lower > 0 or gap.upper < 0)
        needed = seeds_needed(gap.mean, 2.0 * spread.variance) if gap is not None and not is_told else None
        drawn = {name: decoded(journal.space, name, value) for name, value in x.params.items()}
        runs = tuple(s["run"] for s in seeds)
        tried.append(TriedSetting(x.number, x.state.name.lower(), drawn, runs, tuple(values), *mean, is_told, needed))
    tried.sort(key=lambda x: (x.status != "complete", -journal.sign * x.mean if x.values else 0.0, x.trial))
    importance: dict[str, float] = {}
    if ended >= 4 and len(journal.space.dimensions) > 1:
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        importance = optuna.importance.get_param_importances(journal.study, evaluator=evaluator)
    objective = journal.objective.kind
    direction = "maximize" if journal.sign > 0 else "minimize"
    return SweepResult(
        journal.space.name, objective, direction, tuple(tried), importance, journal.path, number, journal.space
    )


def write_best(result: SweepResult, out: Path) -> None:
    """Writes the best setting, with what the file's [train] sets, as a TOML file for `--config`.

    Raises:
        UsageError: none has ended, or the file is there.
        LeagueError: it cannot be written.
    """
    best, space = result.best, result.space
    if best is None or space is None:
        raise UsageError(f"--best {out}: no setting of {result.sweep} has ended; go on with the sweep")
    with new_file(out, "--best") as draft:
        draft.write_text(_as_toml(space, best), encoding="utf-8")


def _as_toml(space: SweepSpace, best: TriedSetting) -> str:
    train = space.file.train
    layer: dict[str, dict[str, Any]] = dict(read_toml(Path(train.config), "--config")) if train.config else {}
    game = {} if train.env and train.env not in registry.games() else {"env.name": space.config.env.name}
    for name, value in {**game, **flat(train.set), **best.settings}.items():
        section, _, key = name.partition(".")
        layer[section] = {**layer.get(section, {}), key: value}
    given = train.model_dump(
        include={"stage", "preset", "agent", "steps", *([] if game else ["env"])}, exclude_none=True
    )
    words = " ".join(f"--{name} {value}" for name, value in given.items())
    lines = [
        f"# Trial {best.trial} of {space.name}: {space.file.objective.kind} {best.mean:.4g} on {len(best.values)} seeds"
    ]
    lines.append(f"# league train --config THIS {words}")
    for section, table in layer.items():
        lines += ["", f"[{section}]", *(f"{key_of(key)} = {toml(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"
