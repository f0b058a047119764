"""Sweeps and comparisons in words and tables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from league.printing import show
from league.printing.tables import Column, IntervalCell, Value, print_prose, print_table

if TYPE_CHECKING:
    from league.sessions.comparisons import Comparison
    from league.sessions.sweep_results import SweepResult, TriedSetting

SHOWN = 10
"""Settings that a sweep's table has."""


def print_sweep(r: SweepResult) -> None:
    """The best settings, what matters, and what is not decided."""
    ended = [x for x in r.tried if x.status == "complete"]
    others = {name: sum(x.status == name for x in r.tried) for name in ("pruned", "fail", "running")}
    counts = ", ".join(f"{count} {name}" for name, count in others.items() if count)
    names = list(dict.fromkeys(name for x in ended for name in x.settings))
    best = ended[0] if ended else None
    columns = (
        "trial",
        Column("seeds", is_number=True),
        Column(f"mean {r.objective}", is_number=True),
        Column("to decide", is_number=True),
    )
    keys = [name.partition(".")[2] for name in names]
    titles = [key if keys.count(key) == 1 else name for key, name in zip(keys, names, strict=True)]
    rows: list[tuple[Value, ...]] = [
        (f"t{x.trial:03}", str(len(x.values)), _around(x), _needed(x, best), *(_short(x.settings[n]) for n in names))
        for x in ended
    ]
    title = f"{r.sweep}: {r.direction} {r.objective}; {len(ended)} settings{f', {counts}' if counts else ''}"
    print_table(title, (*columns, *titles), rows[:SHOWN])
    if best is None:
        return
    show()
    if r.importance:
        print_prose("importance: " + ", ".join(f"{name} {share:.0%}" for name, share in r.importance.items()))
    undecided = sum(not x.is_told for x in ended[1:])
    told = f"not told from {undecided} of {len(ended) - 1} others" if undecided else "told from all others"
    print_prose(
        f"best: t{best.trial:03} on {len(best.values)} seeds, {told}. To decide: seeds of each that would tell it from"
        f" the best in four of five cases, if the difference is as seen."
    )
    print_prose("The best was chosen by its figure, which is too good: test it with `league compare` on new seeds.")


def _needed(x: TriedSetting, best: TriedSetting | None) -> str:
    """Whether a setting is the best, or worse, else the seeds that would tell."""
    if x is best:
        return "best"
    return "worse" if x.is_told else f"{x.needed:,}" if x.needed else "> 10,000"


def _around(x: TriedSetting) -> IntervalCell:
    """The mean with its interval, to two digits of that; alone where nothing is known of how seeds vary."""
    half = x.upper - x.mean
    if not 0.0 < half < math.inf:
        return IntervalCell(x.mean, x.mean, x.mean, 4)
    return IntervalCell(x.mean, x.lower, x.upper, min(6, max(0, 1 - math.floor(math.log10(half)))))


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def print_comparison(r: Comparison) -> None:
    """Seed by seed, the difference, and how many seeds it takes."""
    d = r.difference
    if d is None:
        print_prose(f"stopped after {len(r.runs_a)} and {len(r.runs_b)} runs; the same call goes on")
        return
    rows = [
        (str(s), f"{a:.4g}", f"{b:.4g}", f"{a - b:+z.4g}")
        for s, a, b in zip(r.seeds, r.values_a, r.values_b, strict=True)
    ]
    numbers = [Column(name, is_number=True) for name in (r.a, r.b, "difference")]
    print_table(f"{r.objective} of the last snapshots, in {r.unit}", (Column("seed", is_number=True), *numbers), rows)
    show()
    print_prose(
        f"{r.a} - {r.b}: {d.mean:+z.4g}, 95 % interval {d.lower:+z.4g} to {d.upper:+z.4g} (paired t, {len(rows)} seeds)"
    )
    if r.is_decided:
        print_prose("decided: the interval excludes 0")
    elif r.needed is None:
        print_prose("not decided; no number of seeds up to 10,000 would do, if the difference is as seen")
    else:
        more = max(r.needed, len(rows) + 1)
        print_prose(f"not decided: about {more:,} seeds would do, --seeds {more}, if the difference is as seen")
