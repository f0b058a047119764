"""A cross table as a picture: who beats whom, how many games say so, with rating, Nash and alpha-rank beside it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from league.boards.payoff import Payoff
from league.errors import UsageError

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

LOST, EVEN, WON = (165, 30, 45), (247, 247, 247), (25, 85, 155)
"""Red to blue, told apart by the colour-blind too."""
INK, PAPER, DIAGONAL = (25, 25, 25), (255, 255, 255), (95, 95, 95)
UNKNOWN, HATCH = (222, 222, 222), (165, 165, 165)
LARGE = 120
"""With more agents than these the cells hold no figures, else the picture would be larger than viewers open."""
MARGIN = 16
LONGEST = 30
"""Letters of a name that are shown."""
COLUMNS = ("rating", "95 % interval", "Nash", "alpha-rank")


def check(path: Path) -> None:
    """Refuses a picture that cannot be written, before anything is worked out.

    Raises:
        UsageError: the file's kind, its place, or no Pillow.
    """
    if path.suffix != ".png":
        raise UsageError(f"png={path}: must end in .png; pass another --png")
    if path.exists() or not path.parent.is_dir():
        reason = "is there already" if path.exists() else f"needs the folder {path.parent}"
        raise UsageError(f"png={path}: {reason}; nothing is overwritten or made around it, pass another --png")
    try:
        import PIL  # noqa: F401
    except ModuleNotFoundError:
        raise UsageError("pictures need Pillow, which is not installed; run `pip install pillow`") from None


def colour(score: float) -> tuple[int, int, int]:
    """Of a score in [0, 1]: red where all is lost, nearly white at 0.5, blue where all is won."""
    end, share = (WON, 2 * score - 1) if score >= 0.5 else (LOST, 1 - 2 * score)
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(EVEN, end, strict=True))
    return red, green, blue


def draw(payoff: Payoff) -> Image:
    """The picture: agents in the order of their ratings, the best on top and on the left; at least two of them.

    A cell has the row agent's score in per cent and, below it, the games. A pair that never met is hatched.
    """
    from PIL import Image, ImageDraw

    size = len(payoff.rows)
    cell = 12 if size > LARGE else max(38, min(72, 560 // size))
    text = 12 if size > LARGE else 15
    names = [_short(row.name) for row in payoff.rows]
    name_width = max(_width(f"{len(names)}  {name}", text) for name in names) + 8
    widths = [max(_width(c, text) for c in column) + 20 for column in zip(COLUMNS, *_figures(payoff), strict=True)]
    left, top = MARGIN + name_width, MARGIN + 34 + name_width
    caption = _caption(payoff)
    right = left + size * cell + 12 + sum(widths)
    width = max(right, MARGIN + max(_width(line, text) for line in caption), MARGIN + 560) + MARGIN
    height = top + size * cell + 62 + len(caption) * (text + 6) + MARGIN
    image = Image.new("RGB", (width, height), PAPER)
    pen = ImageDraw.Draw(image)
    title = f"{payoff.game} {payoff.game_id[:8]}: score of the row against the column, in per cent; games below"
    pen.text((MARGIN, MARGIN), title, INK, font=_font(18))
    _labels(image, pen, names, (left, top), cell, text)
    _cells(pen, payoff, (left, top), cell)
    _beside(pen, payoff, (left + size * cell + 12, top), cell, text, widths)
    _legend(pen, (left, top + size * cell + 14))
    for i, line in enumerate(caption):
        pen.text((MARGIN, top + size * cell + 62 + i * (text + 6)), line, INK, font=_font(text))
    return image


def _labels(image: Image, pen: ImageDraw, names: Sequence[str], corner: tuple[int, int], cell: int, text: int) -> None:
    """Names with their places on the left; on top too, standing upright."""
    from PIL import Image, ImageDraw

    left, top = corner
    for i, name in enumerate(names):
        middle = i * cell + cell // 2
        pen.text((left - 6, top + middle), f"{name}  {i + 1}", INK, font=_font(text), anchor="rm")
        length = _width(f"{i + 1}  {name}", text) + 2
        strip = Image.new("RGB", (length, text + 6), PAPER)
        ImageDraw.Draw(strip).text((0, (text + 6) // 2), f"{i + 1}  {name}", INK, font=_font(text), anchor="lm")
        image.paste(strip.rotate(90, expand=True), (left + middle - (text + 6) // 2, top - 6 - length))


def _cells(pen: ImageDraw, payoff: Payoff, corner: tuple[int, int], cell: int) -> None:
    left, top = corner
    has_figures = len(payoff.rows) <= LARGE
    for i, scores in enumerate(payoff.score):
        for j, score in enumerate(scores):
            x, y = left + j * cell, top + i * cell
            if i == j:
                pen.rectangle((x, y, x + cell - 2, y + cell - 2), DIAGONAL)
            elif score is None:
                _hatch(pen, x, y, cell)
            else:
                fill = colour(score)
                pen.rectangle((x, y, x + cell - 2, y + cell - 2), fill)
                if has_figures:
                    ink = PAPER if sum(fill) < 380 else INK
                    middle = x + cell // 2 - 1
                    pen.text((middle, y + cell * 0.36), f"{100 * score:.0f}", ink, _font(cell * 0.38), anchor="mm")
                    games = _brief(payoff.games[i][j])
                    pen.text((middle, y + cell * 0.75), games, ink, _font(max(10, cell * 0.24)), anchor="mm")


def _hatch(pen: ImageDraw, x: int, y: int, cell: int) -> None:
    """An unknown cell: strokes on grey, so that it is not taken for an even score."""
    last = cell - 2
    pen.rectangle((x, y, x + last, y + last), UNKNOWN)
    for offset in range(6, 2 * last, 6):
        start, end = max(0, offset - last), min(offset, last)
        pen.line((x + start, y + offset - start, x + end, y + offset - end), HATCH)


def _beside(
    pen: ImageDraw, payoff: Payoff, corner: tuple[int, int], cell: int, text: int, widths: Sequence[int]
) -> None:
    left, top = corner
    edges = [left + sum(widths[: i + 1]) for i in range(len(widths))]
    for title, x in zip(COLUMNS, edges, strict=True):
        pen.text((x, top - 10), title, INK, font=_font(text), anchor="rs")
    for i, figures in enumerate(_figures(payoff)):
        for figure, x in zip(figures, edges, strict=True):
            pen.text((x, top + i * cell + cell // 2), figure, INK, font=_font(text), anchor="rm")


def _figures(payoff: Payoff) -> list[tuple[str, ...]]:
    return [
        (f"{r.rating:.0f}", f"{r.lower:.0f} to {r.upper:.0f}", percent(r.nash), percent(r.alpha_rank))
        for r in payoff.rows
    ]


def _legend(pen: ImageDraw, corner: tuple[int, int]) -> None:
    x, y = corner
    for i in range(200):
        pen.line((x + i, y, x + i, y + 14), colour(i / 199))
    for share in (0, 50, 100):
        pen.text((x + 2 * share, y + 30), f"{share}", INK, font=_font(13), anchor="mm")
    _hatch(pen, x + 240, y, 16)
    pen.text((x + 262, y + 7), "never met", INK, font=_font(13), anchor="lm")
    pen.rectangle((x + 350, y, x + 364, y + 14), DIAGONAL)
    pen.text((x + 372, y + 7), "itself", INK, font=_font(13), anchor="lm")


def _caption(payoff: Payoff) -> list[str]:
    held = f"{payoff.anchor} is held at 1000" if payoff.anchor else "the mean is held at 1000"
    lines = [
        f"Bradley-Terry rating, {held}. Nash and alpha-rank: of the scores shrunk towards what the ratings expect."
    ]
    return [*lines, *findings(payoff)]


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
    return name if len(name) <= LONGEST else f"{name[: LONGEST // 2 - 1]}…{name[-LONGEST // 2 :]}"


@functools.cache
def _font(size: float) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)


def _width(text: str, size: float) -> int:
    return int(_font(size).getlength(text)) + 1
