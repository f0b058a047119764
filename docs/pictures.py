"""Draws the README's pictures from what is kept in docs/shown: `python docs/pictures.py [FOLDER]`.

`knockout.gif` is six seconds of the match in `knockout.replay`; `curve.png` is drawn from `curve.json`, which
`python -m benchmarks.curve` wrote. A test draws both again and compares them with those that are committed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import league

HERE = Path(__file__).parent
START, SECONDS = 1.6, 6.0
"""Of the match, what is shown of it."""
SHOWN_BOTS = ("bot:punisher", "bot:zoner", "bot:based")
COLOURS = ("#0072b2", "#d55e00", "#009e73")
"""Of the seeds; they differ for colour-blind readers as well (Okabe and Ito 2008)."""
MUTED = "#666666"


def knockout(out: Path) -> None:
    """A knock-out by a trained agent, 20 pictures a second."""
    league.watch(str(HERE / "shown" / "knockout.replay"), out=out, start=START, seconds=SECONDS)


def curve(out: Path) -> None:
    """Ratings over steps with their 95 % bands, and the bots as lines."""
    from matplotlib.figure import Figure

    data = json.loads((HERE / "shown" / "curve.json").read_text(encoding="utf-8"))
    figure = Figure(figsize=(7.2, 3.4), dpi=150, layout="constrained")
    axes = figure.subplots()
    for run, colour in zip(data["runs"], COLOURS, strict=False):
        steps, rating, lower, upper = zip(*run["points"], strict=True)
        millions = [x / 1e6 for x in steps]
        axes.fill_between(millions, lower, upper, color=colour, alpha=0.18, linewidth=0)
        axes.plot(millions, rating, color=colour, marker="o", markersize=3.5, label=f"seed {run['seed']}")
    last = data["runs"][0]["points"][-1][0] / 1e6
    ratings = {bot: data["bots"][bot] for bot in SHOWN_BOTS}
    for bot, rating in ratings.items():
        axes.axhline(rating, color=MUTED, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
        below = any(0 < other - rating < 90 for other in ratings.values())  # there is no room for its name above
        height, side = (rating - 12, "top") if below else (rating + 12, "bottom")
        axes.text(last, height, bot, color=MUTED, fontsize=8, ha="right", va=side)
    axes.set_xlabel("million steps")
    axes.set_ylabel("Elo rating")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    figure.savefig(out, facecolor="white", metadata={"Software": None})


DRAWN = {"knockout.gif": knockout, "curve.png": curve}


def main(folder: Path) -> None:
    """Draws them into a folder."""
    for name, draw in DRAWN.items():
        (folder / name).unlink(missing_ok=True)
        draw(folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
