"""A cross table as a picture: who beats whom, with rating, Nash and alpha-rank beside it; drawn by matplotlib."""

from __future__ import annotations

import math
import textwrap
import warnings
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from league.boards import plots
from league.errors import UsageError
from league.store.files import check_new, new_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from league.boards.payoff import Payoff

COLOURS = "RdBu"
"""Red where all is lost, nearly white at a half, blue where all is won: told apart by the colour-blind too."""
UNKNOWN, ITSELF = "#a6a6a6", "#2b2b2b"
"""Cells of two agents that never met, and of an agent against itself."""
DPI = 100
SMALLEST_CELL, LARGEST_CELL = 2, 56
"""Pixels."""
TABLE = 1800
"""Pixels that a table of many agents takes, if its cells are not the smallest."""
GAMES_FROM, SCORES_FROM = 40, 24
"""Pixels of a cell from which on it has its games, and its score."""
NAME_HEIGHT = 13
"""Pixels that a name needs."""
LONGEST = 30
"""Letters of a name that are shown."""


def check(path: Path) -> None:
    """Refuses a picture that cannot be written, before anything is worked out.

    Raises:
        UsageError: the file's kind, its folder, or no matplotlib.
    """
    if path.suffix != ".png":
        raise UsageError(f"png={path}: must end in .png; pass another --png")
    check_new(path, "--png")
    plots.need_matplotlib()


def save(payoff: Payoff, path: Path) -> None:
    """Writes the picture of `draw` as a PNG, whole or not at all.

    Raises:
        UsageError: something is there.
        LeagueError: the disk or the folder refuses.
    """
    from matplotlib.style import context

    with context(["default", {"text.parse_math": False}]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a name in letters that the font lacks
        figure = draw(payoff)
        with new_file(path, "--png") as draft:
            figure.savefig(draft, dpi=DPI, bbox_inches="tight", pad_inches=0.15)


def draw(payoff: Payoff) -> Figure:
    """The picture, independent of matplotlib's settings; names in it are text, not mathematics.

    Raises:
        UsageError: matplotlib is not installed.
    """
    figure = plots.figure(1.0, 1.0)
    from matplotlib.style import context

    with context(["default", {"text.parse_math": False}]):
        _fill(figure, payoff)
    return figure


def _fill(figure: Figure, payoff: Payoff) -> None:
    """Agents group by group, in each the best-rated on top and on the left; at least two of them.

    Figures stand in the cells while they are large enough; where names do not fit, those of every so many ranks stand.
    The title says which.
    """
    size = len(payoff.rows)
    cell = max(SMALLEST_CELL, min(LARGEST_CELL, TABLE // size))
    side = size * cell / DPI
    panel, gap, strip = max(1.1, min(2.2, side / 4)), 0.15, 0.18
    width, height = side + 3 * (panel + gap) + 2 * gap + strip, side
    figure.set_layout_engine("none")
    figure.set_size_inches(width, height)

    def axes(left: float, across: float, share: Axes | None = None) -> Axes:
        return figure.add_axes((left / width, 0.0, across / width, 1.0), sharey=share)

    table = axes(0.0, side)
    image = _table(table, payoff, cell)
    beside = [axes(side + gap + k * (panel + gap), panel, table) for k in range(3)]
    _beside(beside, payoff, cell)
    bar = figure.add_axes(
        ((width - strip) / width, 1.0 - min(3.0, side) / height, strip / width, min(3.0, side) / height)
    )
    colours = figure.colorbar(image, cax=bar, ticks=[0, 25, 50, 75, 100])
    if payoff.unit == "elo":
        bar.set_ylabel("score of the row against the column, %\n(0 lost all, 50 even, 100 won all; draws count half)")
    else:
        colours.set_ticklabels([f"{share * largest_of(payoff):+z.2g}" for share in (-1.0, -0.5, 0.0, 0.5, 1.0)])
        bar.set_ylabel("payoff of the row against the column, a match")
    _texts(figure, table, payoff, cell)


def _table(axes: Axes, payoff: Payoff, cell: int) -> Any:
    """The cells with their figures, names on the left and on top, and lines between groups that never met."""
    from matplotlib import colormaps

    size = len(payoff.rows)
    known = np.array([[math.nan if x is None else x for x in row] for row in payoff.score])
    scores = 100.0 * known if payoff.unit == "elo" else 50.0 + 50.0 * known / largest_of(payoff)
    image = axes.imshow(
        scores,
        cmap=colormaps[COLOURS].with_extremes(bad=UNKNOWN),
        vmin=0,
        vmax=100,
        interpolation="nearest",
        aspect="auto",
    )
    itself = np.where(np.eye(size, dtype=bool), 1.0, math.nan)
    axes.imshow(itself, cmap=_plain(ITSELF), interpolation="nearest", aspect="auto")
    for row, column in zip(*np.nonzero(np.isfinite(scores)), strict=True):
        score = scores[row, column]
        told = f"{score:.0f}" if payoff.unit == "elo" else f"{known[row, column]:+z.2f}"
        ink = "white" if abs(score - 50.0) > 33.0 else "black"
        if cell >= GAMES_FROM:
            axes.text(column, row - 0.14, told, ha="center", va="center", color=ink, fontsize=12)
            games = _brief(payoff.games[row][column])
            axes.text(column, row + 0.27, games, ha="center", va="center", color=ink, fontsize=7.5)
        elif cell >= SCORES_FROM:
            axes.text(column, row, told, ha="center", va="center", color=ink, fontsize=cell * 0.29)
    shown = named(size, cell)
    names = [f"{i + 1}  {_short(payoff.rows[i].name)}" for i in shown]
    axes.set_yticks(shown, names, fontsize=9)
    axes.set_xticks(shown, names, fontsize=9, rotation=90)
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=3)
    for i, (above, below) in enumerate(pairwise(payoff.rows)):
        if above.group != below.group:
            axes.axhline(i + 0.5, color="black", linewidth=1.5)
            axes.axvline(i + 0.5, color="black", linewidth=1.5)
    return image


def named(size: int, cell: int) -> list[int]:
    """Indices of the agents whose names are shown: all where they fit, else the ranks that a round number divides."""
    step = _step(cell)
    return list(range(size)) if step == 1 else sorted({0, *range(step - 1, size, step)})


def _step(cell: int) -> int:
    return next(step for step in (1, 2, 5, 10, 20) if step * cell >= NAME_HEIGHT)


def _beside(panels: list[Axes], payoff: Payoff, cell: int) -> None:
    """Three panels with a line an agent: its rating and interval, and its shares of the two mixtures."""
    from matplotlib.ticker import MaxNLocator

    rows, places = payoff.rows, np.arange(len(payoff.rows))
    rating = np.array([row.rating for row in rows])
    errors = np.array([[row.rating - row.lower for row in rows], [row.upper - row.rating for row in rows]])
    panels[0].errorbar(
        rating,
        places,
        xerr=errors,
        fmt="o",
        color="black",
        ecolor="#4c78a8",
        markersize=3,
        elinewidth=min(3.0, cell / 5),
    )
    if cell >= GAMES_FROM:
        for place, row in enumerate(rows):
            panels[0].annotate(
                f"{row.rating:.0f}", (row.rating, place), (0, 5), textcoords="offset points", ha="center", fontsize=8
            )
    for panel, shares in zip(panels[1:], ([r.nash for r in rows], [r.alpha_rank for r in rows]), strict=True):
        bars = panel.barh(places, [100.0 * share for share in shares], height=0.7, color="#4c78a8", edgecolor="#4c78a8")
        if cell >= SCORES_FROM:
            panel.bar_label(bars, [percent(share) for share in shares], padding=2, fontsize=8)
            panel.margins(x=0.45)
        panel.set_xlim(left=0)
    for panel, title in zip(panels, ("rating,\n95 % interval", "Nash, %", "alpha-rank, %"), strict=True):
        panel.set_title(title, fontsize=9)
        panel.tick_params(labelleft=False, left=False, labelsize=8)
        panel.xaxis.set_major_locator(MaxNLocator(3, prune="upper"))
        panel.grid(axis="x", color="#dddddd")
        panel.set_axisbelow(True)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)


def _texts(figure: Figure, table: Axes, payoff: Payoff, cell: int) -> None:
    """Title, what grey and black mean, and the findings; below and above the names."""
    from matplotlib.patches import Patch

    size, step = len(payoff.rows), _step(cell)
    order = "by rating" if payoff.groups == 1 else f"in {payoff.groups} groups, each by rating"
    game = f"{payoff.game} {payoff.game_id[:8]}".strip()
    judged, cells = ("score", "score in per cent") if payoff.unit == "elo" else ("payoff", "payoff a match")
    lines = [f"{game}: {size:,} agents, {order}; {judged} of the row against the column"]
    if cell >= SCORES_FROM:
        lines.append(f"in the cells: {cells}{', games below' if cell >= GAMES_FROM else ''}")
    if step > 1:
        lines.append(f"named: the first agent and every {'second' if step == 2 else f'{step}th'}")
    longest = max(len(_short(payoff.rows[i].name)) for i in named(size, cell)) + 6
    table.annotate(
        "\n".join(lines),
        (0, 1),
        (0, 6.2 * longest + 12),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=13,
    )
    patches = [Patch(color=UNKNOWN, label="never met"), Patch(color=ITSELF, label="itself")]
    table.legend(handles=patches, loc="upper left", bbox_to_anchor=(0, 0), ncols=2, frameon=False, fontsize=9)
    rated, held = ("Bradley-Terry rating", 1000) if payoff.unit == "elo" else ("Rated by payoff a match", 0)
    told = [
        f"{rated}, {payoff.anchor or 'the mean'} is held at {held}. Nash and alpha-rank: of the scores shrunk towards"
        f" what the ratings expect.",
        *findings(payoff),
    ]
    if payoff.groups > 1:
        told.append("Black lines stand between the groups.")
    wide = max(80, int(figure.get_figwidth() * 13))
    caption = "\n".join(line for sentence in told for line in textwrap.wrap(sentence, wide))
    table.annotate(
        caption, (0, 0), (0, -36), xycoords="axes fraction", textcoords="offset points", fontsize=9.5, va="top"
    )


def largest_of(payoff: Payoff) -> float:
    """The largest mean payoff of a table in size; 1 where all are 0."""
    return max((abs(x) for row in payoff.score for x in row if x is not None), default=0.0) or 1.0


def _plain(colour: str) -> Any:
    """One colour, and nothing where there is no value."""
    from matplotlib.colors import ListedColormap

    return ListedColormap([colour]).with_extremes(bad=(0, 0, 0, 0))


def findings(payoff: Payoff) -> list[str]:
    """What a reader of the table should know, a sentence a line."""
    lines = []
    pairs = len(payoff.rows) * (len(payoff.rows) - 1) // 2
    if payoff.num_unmet:
        lines.append(f"{payoff.num_unmet:,} of {pairs:,} pairs never met; nothing is known of them.")
    if payoff.groups > 1:
        lines.append(f"The agents fall into {payoff.groups} groups with no game between them: across, ratings guess.")
    lines.append(
        f"Cyclic share {percent(payoff.cyclic_share)}; a pure ranking with as few games would show"
        f" {percent(payoff.chance_mean)} by chance (p = {payoff.chance_p:.2g}); {payoff.num_cycles:,} 3-cycles."
    )
    return lines


def percent(share: float) -> str:
    """`share` in per cent, one decimal below 10."""
    value = 100 * share
    return f"{value:.0f} %" if value >= 9.95 or value < 0.05 else f"{value:.1f} %"


def _brief(games: int) -> str:
    return str(games) if games < 10_000 else f"{games // 1000}k"


def _short(name: str) -> str:
    name = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)
    return name if len(name) <= LONGEST else f"{name[: LONGEST // 2 - 1]}…{name[-LONGEST // 2 :]}"
