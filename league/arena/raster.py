"""Drawings as pictures, with Pillow; and the pictures between two drawings, where what moved is part of the way.

Films, stills, terminals and the render mode `rgb_array` have their pictures from here.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs import appearance
from league.envs.drawing import HUD_SIZE, SEATS, Drawing, Shape
from league.types import MatchBatch

Picture = npt.NDArray[np.uint8]
"""(height, width, 3)."""
SIZE = (960, 540)
"""Width and height, where nothing else is asked for."""

FINE = 2
"""Drawn this many times larger, then averaged: smooth edges."""
FARTHEST = 3.5
"""Units that a shape may move between two drawings; one that moved further has jumped."""
PAPER, PAPER_DARK = (242, 243, 238), (16, 19, 28)


def renderer(game: str) -> appearance.Render | None:
    """What gives the picture of a row of a game's batch: its own `render`, else its shapes; None where it has neither.

    Raises:
        ConfigError: no game has this name.
    """
    draw = appearance.drawer(game)
    if draw is None or appearance.renderer(game) is not None:
        return appearance.renderer(game)

    def render(
        batch: MatchBatch,
        row: int,
        *,
        size: tuple[int, int] = SIZE,
        show_boxes: bool = False,
        names: tuple[str, str] = ("", ""),
    ) -> Picture:
        return picture(draw(batch, row), size, boxes=show_boxes, names=names)

    return render


def picture(
    drawing: Drawing, size: tuple[int, int], *, boxes: bool = False, names: tuple[str, str] = ("", "")
) -> Picture:
    """A drawing as a picture (height, width, 3) of `size` (width, height).

    boxes: with what the rules see and players do not. names: of the seats, in place of the texts `seat 0` and `seat 1`;
    of a drawing without these they stand in the lower corners.
    """
    from PIL import Image, ImageDraw

    wide, high = FINE * size[0], FINE * size[1]
    image = Image.new("RGB", (wide, high), tuple(drawing.background[:3]))
    solid, glass = ImageDraw.Draw(image), ImageDraw.Draw(image, "RGBA")  # blending takes several times as long
    left, top, right, bottom = drawing.view
    way = 1 if bottom > top else -1
    scale = min(wide / abs(right - left), high / abs(bottom - top))
    world = scale, wide / 2 - (left + right) / 2 * scale, high / 2 - way * (top + bottom) / 2 * scale, way
    fit = min(wide / HUD_SIZE[0], high / HUD_SIZE[1])
    hud = fit, (wide - HUD_SIZE[0] * fit) / 2, (high - HUD_SIZE[1] * fit) / 2, 1
    known = {f"seat {seat}": " ".join(name.split()) for seat, name in enumerate(names) if name}
    for shape in drawing.shapes:
        if boxes or shape.layer != "boxes":
            shape = shape._replace(text=known.get(shape.text, shape.text))
            is_solid = len(shape.fill or ()) < 4 and len(shape.line or ()) < 4
            _shape(solid if is_solid else glass, shape, *(hud if shape.is_hud else world))
    is_named = any(shape.text in ("seat 0", "seat 1") for shape in drawing.shapes)
    for seat, name in enumerate(names):
        if name and not is_named:
            place = (26.0, 86.0) if seat == 0 else (HUD_SIZE[0] - 26.0, 86.0)
            _shape(solid, Shape("text", "", "", True, place, SEATS[seat], None, 4.0, name, 48.0), *hud)
    return np.asarray(image.reduce(FINE))


def words(text: str, size: tuple[int, int]) -> Picture:
    """Lines of text as a picture."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", size, PAPER_DARK)
    draw = ImageDraw.Draw(image)
    height = max(9, min(22, round((size[1] - 20) / (1.4 * (text.count("\n") + 1)))))
    for i, line in enumerate(text.split("\n")):
        draw.text((12, 10 + 1.4 * height * i), line[:200], fill=PAPER, font=_font(height))
    return np.asarray(image)


def between(a: Drawing, b: Drawing, share: float) -> Drawing:
    """What is seen when `share` of the way from one drawing to the next has passed."""
    found = Drawing(tuple(x + (y - x) * share for x, y in zip(a.view, b.view, strict=True)), a.background)  # type: ignore[arg-type]
    counts: Counter[str] = Counter()
    later: dict[tuple[str, int], Shape] = {}
    for shape in b.shapes:
        later[shape.group, counts[shape.group]] = shape
        counts[shape.group] += 1
    counts.clear()
    for shape in a.shapes:
        other = later.get((shape.group, counts[shape.group]))
        counts[shape.group] += 1
        found.shapes.append(_moved(shape, other, share))
    return found


def _moved(shape: Shape, other: Shape | None, share: float) -> Shape:
    if other is None or shape.is_hud or (shape.kind, len(shape.points)) != (other.kind, len(other.points)):
        return shape
    if any(abs(x - y) > FARTHEST for x, y in zip(shape.points, other.points, strict=True)):
        return shape
    return shape._replace(points=tuple(x + (y - x) * share for x, y in zip(shape.points, other.points, strict=True)))


def _shape(draw: Any, shape: Shape, scale: float, x0: float, y0: float, way: int) -> None:
    points = [
        (x0 + shape.points[i] * scale, y0 + way * shape.points[i + 1] * scale) for i in range(0, len(shape.points), 2)
    ]
    width = max(1, round(shape.width * scale))
    if shape.kind == "text":
        size = max(6, round(shape.width * scale))
        text, font = shape.text, _font(size)
        while shape.most and size > 7 and font.getlength(text) > shape.most * scale:
            size -= 1 + size // 20
            font = _font(size)
        draw.text(points[0], text, fill=shape.fill, font=font, anchor="mm")
    elif shape.kind == "oval":
        (x, y), (dx, dy) = points[0], (abs(shape.points[2]) * scale, abs(shape.points[3]) * scale)
        draw.ellipse((x - dx, y - dy, x + dx, y + dy), fill=shape.fill, outline=shape.line, width=width)
    elif shape.kind == "polygon":
        draw.polygon(points, fill=shape.fill, outline=shape.line, width=width)
    else:
        draw.line(points, fill=shape.line, width=width, joint="curve")
        if shape.line is not None and len(shape.line) == 3 and width > 2:
            for x, y in (points[0], points[-1]):
                draw.ellipse((x - width / 2, y - width / 2, x + width / 2, y + width / 2), fill=shape.line)


@lru_cache(maxsize=64)
def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)
