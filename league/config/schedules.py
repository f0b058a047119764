"""Settings that move with the steps of a run: `{ 50_000 = 1e-3, 1_000_000 = 3e-4 }` where a number could stand.

A schedule is a function of the absolute step and of nothing else, so a short run is the first part of a long one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from league.errors import ConfigError
from league.types.schema import MAX_COUNT, MAX_POINTS

STEP = re.compile(r"[0-9]+(_[0-9]+)*")
Path = tuple[str, ...]
"""Of a setting: `("learner", "learning_rate")`, `("pool", "mix", "bot:based")`."""


@dataclass(frozen=True)
class Schedule:
    """A number for every step.

    Args:
        points: (step, value), by steps. Before the first point and after the last one the number is theirs.
        is_stepped: a value holds until the next point, as of whole numbers; else straight lines join the points.
    """

    points: tuple[tuple[int, float], ...]
    is_stepped: bool = False

    def at(self, steps: int) -> float:
        """The number that holds when so many steps of the run have been made."""
        begun = [i for i, (step, _) in enumerate(self.points) if step <= steps]
        if not begun:
            return self.points[0][1]
        start, value = self.points[begun[-1]]
        if self.is_stepped or begun[-1] == len(self.points) - 1:
            return value
        end, following = self.points[begun[-1] + 1]
        return value + (following - value) * ((steps - start) / (end - start))

    def to_json(self) -> dict[str, float]:
        """Step -> value; `read` gives an equal schedule back."""
        return {str(step): value for step, value in self.points}

    def scaled(self, factor: float) -> Schedule:
        """The same times a number."""
        return Schedule(tuple((step, factor * value) for step, value in self.points), self.is_stepped)


def read(name: str, table: Mapping[str, Any], *, is_stepped: bool) -> Schedule:
    """The schedule that a table of step -> value says.

    Args:
        name: the setting's, for errors.
        table: steps may be text, as TOML and JSON have them.
        is_stepped: as for `Schedule`.

    Raises:
        ConfigError: a step that is none, or a value that is no number.
    """
    how = f"write it like --set '{name}={{50_000 = 1, 1_000_000 = 2}}'" if is_stepped else ""
    how = how or f"write it like --set '{name}={{50_000 = 0.1, 1_000_000 = 0.01}}'"
    if not 1 <= len(table) <= MAX_POINTS:
        raise ConfigError(f"{name} has {len(table)} points, and must have 1 to {MAX_POINTS} (step = value); {how}")
    points = {}
    for key, value in table.items():
        text = str(key)
        step = int(text) if STEP.fullmatch(text) and len(text) < 20 else -1
        if not 0 <= step <= MAX_COUNT or step in points:
            raise ConfigError(f"{name}: {text!r} is no step from 0 to {MAX_COUNT:,} of its own; {how}")
        if isinstance(value, bool) or not isinstance(value, int | float) or (is_stepped and isinstance(value, float)):
            raise ConfigError(f"{name} at step {step:,} is {value!r}, no {'whole ' * is_stepped}number; {how}")
        if not isfinite(value):
            raise ConfigError(f"{name} at step {step:,} is {value!r}, no finite number; {how}")
        points[step] = value if is_stepped else float(value)
    return Schedule(tuple(sorted(points.items())), is_stepped)


def marks(schedules: Iterable[Schedule]) -> list[int]:
    """0 and the steps of all points, in order: between two of them every schedule is a straight line or constant."""
    return sorted({0, *(step for schedule in schedules for step, _ in schedule.points)})


def words_of(mark: int) -> str:
    """What is put behind an error that holds from a step on."""
    return f" (at step {mark:,})" if mark else ""
