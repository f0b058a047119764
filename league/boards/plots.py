"""Pictures of results, drawn by matplotlib: ratings with intervals, scores, curves over steps."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import chdir
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from league.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from league.maths.record import Record

INK, OTHER = "#4c78a8", "#9aa5b1"
"""Of what a picture is about, and of what stands beside it."""
COLOURS = ("#4c78a8", "#e45756", "#54a24b", "#b279a2", "#f58518", "#72b7b2", "#9d755d", "#eeca3b")
OUTCOMES = ("#4c78a8", "#bab0ac", "#e45756")
"""Of won, drawn and lost; told apart by the colour-blind too."""
MOST = 40
"""Agents that a picture of ratings shows."""
LONGEST = 28
"""Letters of a name."""
DPI = 100

Rating = tuple[str, float, float, float]
"""A name, and a rating with its interval."""
Curve = Sequence[tuple[float, float]]
"""(x, y), x ascending."""


@cache
def _kind() -> type[Figure]:
    need_matplotlib()
    from matplotlib.figure import Figure

    class Plot(Figure):
        """A figure that a notebook shows without pyplot, and that nothing has to close."""

        def _repr_png_(self) -> bytes:
            data = io.BytesIO()
            self.savefig(data, format="png", dpi=DPI, bbox_inches="tight")
            return data.getvalue()

    return Plot


def need_matplotlib() -> None:
    """Loads matplotlib from a folder of ours: it would obey a file `matplotlibrc` of the current one.

    Raises:
        UsageError: it is not installed, or MPLBACKEND or MATPLOTLIBRC is wrong.
    """
    try:
        with chdir(Path(__file__).parent):
            import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise UsageError(
            "plots need matplotlib, which is not installed; run `pip install 'league-engine[plots]'`"
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"matplotlib does not load ({error}); see to MPLBACKEND and MATPLOTLIBRC") from None


def figure(width: float, height: float) -> Figure:
    """An empty one, in inches.

    Raises:
        UsageError: matplotlib is not installed.
    """
    return _kind()(figsize=(width, height), dpi=DPI, layout="constrained")


def ratings(title: str, rated: Sequence[Rating], *, held: str | None = None, unit: str = "elo") -> Figure:
    """A line an agent, the first on top: its rating and its 95 % interval.

    held: whose rating is fixed. unit: `elo` or `payoff`.
    """
    shown, left = rated[:MOST], len(rated) - MOST
    drawn = figure(7.0, 1.2 + 0.28 * max(len(shown), 2))
    axes = drawn.add_subplot()
    for place, (name, rating, lower, upper) in enumerate(shown):
        colour = OTHER if name.startswith("bot:") else INK
        axes.plot([lower, upper], [place, place], color=colour, linewidth=3, alpha=0.45, solid_capstyle="butt")
        axes.plot(rating, place, "o", color=colour, markersize=5)
        axes.annotate(
            f"{rating:.0f}" if unit == "elo" else f"{rating:+z.2f}",
            (rating, place),
            (0, 4),
            textcoords="offset points",
            ha="center",
            fontsize=7,
        )
    axes.set_yticks(range(len(shown)), [_short(name) for name, *_ in shown], fontsize=9)
    axes.set_ylim(max(len(shown), 1) - 0.4, -0.8)
    what, at = ("rating, Elo points", 1000) if unit == "elo" else ("payoff a match", 0)
    axes.set_xlabel(f"{what}, with 95 % interval" + (f"; {_short(held)} is held at {at}" if held else ""))
    _tidy(axes, title + (f"; {left:,} more are not shown" if left > 0 else ""), "x")
    return drawn


def scores(title: str, records: Sequence[tuple[str, Record]]) -> Figure:
    """A bar a named record: what was won, drawn and lost, and the score with its 95 % interval over it.

    In a game with a payoff the mean payoff with its interval, and nothing else.
    """
    if any(record.payoff is not None for _, record in records):
        return ratings(title, [(name, *record.measured) for name, record in records], unit="payoff")
    drawn = figure(7.0, 1.3 + 0.45 * len(records))
    axes = drawn.add_subplot()
    for place, (_, record) in enumerate(records):
        begin = 0.0
        for colour, count in zip(OUTCOMES, (record.wins, record.draws, record.losses), strict=True):
            share = 100 * count / max(record.games, 1)
            axes.barh(place, share, left=begin, color=colour, height=0.62, alpha=0.75)
            if share >= 7:
                axes.text(begin + share / 2, place + 0.19, f"{count:,}", ha="center", va="center", fontsize=8)
            begin += share
        axes.plot([100 * record.lower, 100 * record.upper], [place, place], color="black", linewidth=1.6)
        axes.plot(100 * record.score, place, "D", color="black", markersize=5)
    axes.axvline(50, color="black", linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(records)), [_short(name) for name, *_ in records], fontsize=9)
    axes.set_ylim(len(records) - 0.5, -0.5)
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of the games (blue won, grey drawn, red lost); black: score, 95 % interval")
    _tidy(axes, title, "")
    return drawn


def counts(title: str, labels: Sequence[str], numbers: Sequence[int]) -> Figure:
    """A bar a number, each labelled below."""
    drawn = figure(5.0, 2.8)
    axes = drawn.add_subplot()
    axes.bar_label(axes.bar(range(len(numbers)), numbers, color=INK), fontsize=8)
    axes.set_xticks(range(len(labels)), labels, fontsize=9)
    axes.set_ylabel("pairs of games")
    _tidy(axes, title, "y")
    return drawn


def progress(
    title: str, rated: Mapping[str, Sequence[tuple[int, float, float, float]]], curves: Any = None, unit: str = "elo"
) -> Figure:
    """Ratings of snapshots over the steps with their intervals, a line a run; beside them, if given, other curves.

    rated: a run's (steps, rating, lower, upper), by steps.
    curves: what their axis is called, and name -> curve. unit: of the ratings, `elo` or `payoff`.
    """
    drawn = figure(9.0 if curves else 6.0, 3.4)
    axes = drawn.add_subplot(1, 2 if curves else 1, 1)
    for number, (name, points) in enumerate(rated.items()):
        colour = COLOURS[number % len(COLOURS)]
        steps, middle, lower, upper = zip(*points, strict=True) if points else ((), (), (), ())
        axes.plot(steps, middle, "o-", color=colour, markersize=3, label=_short(name))
        axes.fill_between(steps, lower, upper, color=colour, alpha=0.18, linewidth=0)
    axes.set_ylabel("rating, Elo points" if unit == "elo" else "payoff a match")
    _over_steps(axes, title, is_named=len(rated) > 1)
    if curves:
        label, named = curves
        beside = drawn.add_subplot(1, 2, 2)
        draw_lines(beside, named)
        beside.set_ylabel(label)
        _over_steps(beside, "", is_named=len(named) > 1)
    return drawn


def lines(title: str, x: str, curves: Mapping[str, Curve]) -> Figure:
    """Curves over `x`: one alone, or of several one below the other, since their scales are their own."""
    drawn = figure(7.0, max(2.6, 1.7 * len(curves)))
    axes = None
    for number, (name, curve) in enumerate(curves.items(), 1):
        axes = drawn.add_subplot(len(curves), 1, number, sharex=axes)
        draw_lines(axes, {name: curve})
        axes.set_ylabel(_short(name), fontsize=8)
        axes.tick_params(labelbottom=number == len(curves))
        _tidy(axes, title if number == 1 else "", "both")
    if axes is not None:
        axes.set_xlabel(_short(x))
        _plain_thousands(axes)
    return drawn


def draw_lines(axes: Axes, curves: Mapping[str, Curve]) -> None:
    """Each curve, on the same scale."""
    for number, (name, curve) in enumerate(curves.items()):
        xs, ys = zip(*curve, strict=True) if curve else ((), ())
        axes.plot(xs, ys, color=COLOURS[number % len(COLOURS)], linewidth=1.3, label=_short(name))


def _over_steps(axes: Axes, title: str, *, is_named: bool) -> None:
    axes.set_xlabel("steps")
    _plain_thousands(axes)
    _tidy(axes, title, "both")
    if is_named:
        axes.legend(frameon=False, fontsize=8)


def _plain_thousands(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}" if x == int(x) else f"{x:g}"))


def _tidy(axes: Axes, title: str, grid: Any) -> None:
    axes.set_title(_text(title), fontsize=10, loc="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if grid:
        axes.grid(axis=grid, color="#dddddd", linewidth=0.7)
        axes.set_axisbelow(True)


def _short(name: str) -> str:
    """A name without what a font cannot draw; matplotlib takes nothing of it for mathematics."""
    name = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)
    return _text(name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…")


def _text(words: str) -> str:
    return words.replace("$", r"\$")
