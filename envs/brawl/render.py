"""Pictures of brawl for people, from one record of STATE_DTYPE; drawn with Pillow (the extra `render`)."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from math import ceil, cos, hypot, pi, sin
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from league.envs.brawl import figure
from league.envs.brawl.figure import ACTIVE, STARTUP, Point, Pose
from league.envs.brawl.moves import NAMES, NONE, STRIKES, TAUNT, WEAPONS
from league.envs.brawl.rules import TICK_RATE, Rules
from league.errors import UsageError

if TYPE_CHECKING:
    from PIL import Image

    from league.envs.drawing import Drawing

Colour = tuple[int, ...]
"""Red, green, blue and, where it is not opaque, alpha."""

FINE = 2
"""Drawn this many times larger, then averaged: smooth edges."""
MIN_SIZE = (160, 90)
MARGIN = 0.25
"""Units in view around the blast zone, at least."""

SEATS: tuple[Colour, Colour] = (86, 180, 233), (240, 140, 20)
"""Sky blue and orange: told apart by the colour-blind (after Okabe and Ito 2008)."""
INK, PAPER, DIM = (22, 24, 34), (245, 245, 240), (150, 152, 165)
SKY_TOP, SKY_LOW, STONE, TURF = (38, 44, 66), (88, 98, 124), (58, 54, 62), (112, 136, 96)
PLANK, WOOD, STEEL, GLOW, DANGER = (176, 146, 104), (226, 202, 150), (206, 212, 222), (255, 226, 90), (222, 60, 60)
DAMAGE_COLOURS = ((0, PAPER), (50, (255, 226, 90)), (100, (255, 140, 50)), (160, (235, 50, 60)))
"""Points and the colour of the number, mixed in between."""


def frame(
    record: Any,
    rules: Rules,
    *,
    size: tuple[int, int] = (960, 540),
    show_boxes: bool = False,
    names: tuple[str, str] = ("", ""),
) -> npt.NDArray[np.uint8]:
    """A picture (H, W, 3) uint8 of one match.

    Args:
        record: one element of STATE_DTYPE.
        rules: of its game.
        size: (W, H) in pixels.
        show_boxes: also where fighters can be hit (green; dashed: not now) and where their strikes hit (red; dashed:
            about to).
        names: of the seats, shortened to fit; empty ones are numbered.

    Raises:
        UsageError: a size below MIN_SIZE.
    """
    if size[0] < MIN_SIZE[0] or size[1] < MIN_SIZE[1]:
        raise UsageError(f"size={tuple(size)}: a picture must be at least {MIN_SIZE[0]} x {MIN_SIZE[1]} pixels")
    try:
        import PIL  # noqa: F401
    except ModuleNotFoundError:
        raise UsageError("drawing brawl needs Pillow, which is not installed; run `pip install pillow`") from None
    canvas = Canvas(_stage(rules, tuple(size)).copy(), rules)
    fighters = [named(fighter) for fighter in record["fighters"]]
    present = [(f, SEATS[seat]) for seat, f in enumerate(fighters) if f.respawn == 0 and f.stocks > 0]
    for seat, fighter in enumerate(fighters):
        _draw_panel(canvas, seat, fighter, names[seat] or f"seat {seat}", rules)
    draw_platform(canvas, float(record["platform_y"]), rules)
    for item in map(named, record["items"]):
        if item.kind:
            draw_item(canvas, item, rules)
    for fighter, _ in present:
        draw_blow(canvas, fighter)
    for fighter, colour in present:
        draw_fighter(canvas, fighter, colour, rules)
        if show_boxes:
            draw_boxes(canvas, fighter, rules)
    for fighter, colour in present:
        _draw_pointer(canvas, fighter, colour, rules)
    left = ceil(max(0, rules.time_limit - int(record["tick"])) / TICK_RATE)
    canvas.text((0.0, canvas.high - 0.9), f"{left // 60}:{left % 60:02}", 1.0, PAPER if left > 10 else DANGER)
    return np.asarray(canvas.image.reduce(FINE))


class Canvas:
    """A picture measured in the world's units: x from the middle to the right, y up from the grounds' tops."""

    def __init__(self, image: Image.Image, rules: Rules) -> None:
        from PIL import ImageDraw

        self.image = image
        self.draw = ImageDraw.Draw(image, "RGBA")
        width, height = 2 * rules.blast_side, rules.blast_top - rules.blast_bottom
        self.scale = min(image.width / (width + 2 * MARGIN), image.height / (height + 2 * MARGIN))
        self.half_width = image.width / self.scale / 2
        margin = (image.height / self.scale - height) / 2
        self.low, self.high = rules.blast_bottom - margin, rules.blast_top + margin

    def at(self, point: Point) -> Point:
        """The pixel of `point`."""
        return (point[0] + self.half_width) * self.scale, (self.high - point[1]) * self.scale

    def line(self, points: list[Point], width: float, colour: Colour) -> None:
        """Round at every point."""
        pixels, wide = [self.at(point) for point in points], max(1, round(width * self.scale))
        self.draw.line(pixels, fill=colour, width=wide)
        if len(colour) == 3 and wide > 2:
            for pixel in pixels:
                self.draw.circle(pixel, wide / 2, fill=colour)

    def dashes(self, a: Point, b: Point, colour: Colour, width: float = 0.06, step: float = 0.22) -> None:
        """A broken line."""
        count = max(1, round(hypot(b[0] - a[0], b[1] - a[1]) / step / 2)) * 2 + 1
        marks = [(a[0] + (b[0] - a[0]) * i / count, a[1] + (b[1] - a[1]) * i / count) for i in range(count + 1)]
        for start, end in list(pairwise(marks))[::2]:
            self.draw.line([self.at(start), self.at(end)], fill=colour, width=max(1, round(width * self.scale)))

    def box(self, low: Point, high: Point, fill: Colour | None = None, line: Colour | None = None) -> None:
        """A rectangle from its lower left to its upper right corner."""
        (x0, y1), (x1, y0) = self.at(low), self.at(high)
        self.draw.rectangle((x0, y0, x1, y1), fill=fill, outline=line, width=max(1, round(0.06 * self.scale)))

    def dashed_box(self, low: Point, high: Point, colour: Colour) -> None:
        """A rectangle of broken lines."""
        corners = [low, (high[0], low[1]), high, (low[0], high[1]), low]
        for a, b in pairwise(corners):
            self.dashes(a, b, colour)

    def oval(
        self, middle: Point, half: Point, fill: Colour | None = None, line: Colour | None = None, width: float = 0.06
    ) -> None:
        """An ellipse by its half axes."""
        x, y = self.at(middle)
        dx, dy = half[0] * self.scale, half[1] * self.scale
        wide = max(1, round(width * self.scale))
        self.draw.ellipse((x - dx, y - dy, x + dx, y + dy), fill=fill, outline=line, width=wide)

    def polygon(self, points: list[Point], colour: Colour, line: Colour | None = None) -> None:
        """Filled."""
        pixels = [self.at(point) for point in points]
        self.draw.polygon(pixels, fill=colour, outline=line, width=max(1, round(0.05 * self.scale)))

    def text(self, middle: Point, text: str, height: float, colour: Colour, most: float | None = None) -> None:
        """One line of text; longer than `most` units, it is cut."""
        size = max(6, round(height * self.scale))
        if most is not None:
            text = _cut(text, size, most * self.scale)
        self.draw.text(self.at(middle), text, fill=colour, font=_font(size), anchor="mm")


@lru_cache(maxsize=64)
def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)


@lru_cache(maxsize=64)
def _cut(text: str, size: int, most: float) -> str:
    """`text` on one line of at most `most` pixels."""
    text, font = " ".join(text.split()), _font(size)
    if font.getlength(text) <= most:
        return text
    while text and font.getlength(text + "...") > most:
        text = text[:-1]
    return text + "..."


@lru_cache(maxsize=8)
def _stage(rules: Rules, size: tuple[int, int]) -> Image.Image:
    """What never moves: sky, grounds, the edges of the blast zone."""
    from PIL import Image

    height = FINE * size[1]
    share = np.linspace(0, 1, height)[:, None, None]
    sky = (np.array(SKY_TOP) * (1 - share) + np.array(SKY_LOW) * share).round().astype(np.uint8)
    canvas = Canvas(Image.fromarray(np.repeat(sky, FINE * size[0], axis=1)), rules)
    low, high = (-rules.blast_side, rules.blast_bottom), (rules.blast_side, rules.blast_top)
    beyond = (-canvas.half_width, canvas.low), (canvas.half_width, canvas.high)
    canvas.box(beyond[0], (low[0], beyond[1][1]), fill=(*DANGER, 40))
    canvas.box((high[0], beyond[0][1]), beyond[1], fill=(*DANGER, 40))
    canvas.box((low[0], beyond[0][1]), (high[0], low[1]), fill=(*DANGER, 40))
    canvas.box((low[0], high[1]), (high[0], beyond[1][1]), fill=(*DANGER, 40))
    canvas.dashed_box(low, high, (*DANGER, 200))
    for side in (-1, 1):
        inner = side * (rules.edge_inner + rules.body_half_width)
        outer = side * (rules.edge_outer - rules.body_half_width)
        canvas.box(*corners((inner, canvas.low), (outer, 0.0)), fill=STONE)
        canvas.box(*corners((inner, -0.22), (outer, 0.0)), fill=TURF)
    return canvas.image


def corners(a: Point, b: Point) -> tuple[Point, Point]:
    """The lower left and the upper right corner of a rectangle between two points."""
    return (min(a[0], b[0]), min(a[1], b[1])), (max(a[0], b[0]), max(a[1], b[1]))


def named(record: Any) -> Any:
    """A record with its fields as attributes, Python numbers: ten times quicker to read than numpy's."""
    return SimpleNamespace(**dict(zip(record.dtype.names, record.item(), strict=True)))


def draw_platform(canvas: Canvas | Drawing, y: float, rules: Rules) -> None:
    """The platform, its top at `y`."""
    canvas.box((-rules.edge_inner, y - 0.3), (rules.edge_inner, y), fill=PLANK, line=INK)


def draw_item(canvas: Canvas | Drawing, item: Any, rules: Rules) -> None:
    """A weapon that lies on its ground, in a glow that shrinks as its time runs out."""
    share = min(1.0, item.ticks / rules.item_ticks)
    canvas.oval((item.x, 0.45), (0.95, 0.75), fill=(*GLOW, 40))
    canvas.line([(item.x - 0.7, 0.06), (item.x - 0.7 + 1.4 * share, 0.06)], 0.1, GLOW)
    half = figure.LENGTHS[item.kind] / 2
    _draw_weapon(canvas, item.kind, (item.x - half * 0.8, 0.45 - half * 0.3), (item.x + half * 0.8, 0.45 + half * 0.3))


def _draw_weapon(canvas: Canvas | Drawing, kind: int, butt: Point, tip: Point) -> None:
    dx, dy = tip[0] - butt[0], tip[1] - butt[1]
    length = hypot(dx, dy)
    dx, dy = dx / length, dy / length

    def point(along: float, across: float) -> Point:
        return tip[0] + dx * along - dy * across, tip[1] + dy * along + dx * across

    canvas.line([butt, tip], 0.2, INK)
    canvas.line([butt, tip], 0.1, WOOD)
    if kind == figure.SPEAR:
        canvas.polygon([point(0.1, 0), point(-0.45, 0.17), point(-0.45, -0.17)], STEEL, INK)
    else:
        canvas.polygon([point(0.1, 0.42), point(0.1, -0.42), point(-0.38, -0.42), point(-0.38, 0.42)], STEEL, INK)


def draw_blow(canvas: Canvas | Drawing, f: Any) -> None:
    """A flash in the shape of the hit box while it can hit, faint after it has."""
    if figure.stage(f) == ACTIVE:
        (x0, y0), (x1, y1) = _hit_box(f)
        colour = (255, 150, 60) if STRIKES[f.move].weight > 0 else (255, 245, 190)
        canvas.oval(
            ((x0 + x1) / 2, (y0 + y1) / 2),
            ((x1 - x0) / 2, (y1 - y0) / 2),
            fill=(*colour, 50 if f.move_hit else 150),
            line=(*colour, 90 if f.move_hit else 255),
        )


def _hit_box(f: Any) -> tuple[Point, Point]:
    strike = STRIKES[f.move]
    x, y = f.x + f.facing * strike.offset_x, f.y + strike.offset_y
    return (x - strike.half_width, y - strike.half_height), (x + strike.half_width, y + strike.half_height)


def draw_fighter(canvas: Canvas | Drawing, f: Any, colour: Colour, rules: Rules) -> None:
    """A fighter in its pose, with what shows its state: charge, dash, stun, protection, a taunt."""
    if f.charge > 0 and figure.stage(f) == STARTUP:
        share = min(1.0, f.charge / rules.max_charge)
        for part in (1.0, 0.7, 0.45):
            canvas.oval((f.x, f.y + 0.8), (part * (0.7 + 0.7 * share), part * (0.9 + 0.7 * share)), fill=(*GLOW, 70))
    if f.dash > 0:
        for up in (0.35, 0.75, 1.15):
            back = f.x - f.direction * 0.7
            canvas.line([(back, f.y + up), (back - f.direction * (0.6 + up), f.y + up)], 0.07, (*PAPER, 170))
    pose = figure.pose(f)
    _draw_body(canvas, f, pose, colour)
    if f.stun > 0:
        for i in range(3):
            angle = 2 * pi * i / 3 + 0.4 * f.stun
            _draw_star(canvas, (f.x + 0.55 * cos(angle), f.y + 1.85 + 0.16 * sin(angle)))
    if f.invulnerable > 0:
        canvas.oval((f.x, f.y + 0.8), (0.95, 1.15), fill=(*PAPER, 45), line=(*PAPER, 230), width=0.09)
    if f.move != NONE and NAMES[f.move] == TAUNT:
        middle = f.x + f.facing * 1.1, f.y + 2.15
        canvas.polygon([(f.x + f.facing * 0.35, f.y + 1.55), (middle[0], f.y + 1.9), middle], PAPER)
        canvas.oval(middle, (0.75, 0.42), fill=PAPER)
        canvas.text(middle, "ha!", 0.6, INK)


def _draw_body(canvas: Canvas | Drawing, f: Any, pose: Pose, colour: Colour) -> None:
    """Limbs, trunk and head, the far ones first, on an ink outline; in a dodge only the outline, in the colour."""

    def world(point: Point) -> Point:
        return f.x + f.facing * point[0], f.y + point[1]

    shoulder = pose.neck[0], pose.neck[1] - 0.06
    arms = [[shoulder, figure.joint(shoulder, hand, figure.ARM, -1), hand] for hand in pose.hands]
    legs = [[pose.hip, figure.joint(pose.hip, foot, figure.LEG, 1), foot] for foot in pose.feet]
    dark = tuple(round(0.62 * part) for part in colour)
    parts: list[tuple[list[Point], float, Colour]] = [
        (arms[0], 0.15, dark),
        (legs[0], 0.18, dark),
        ([pose.hip, pose.neck], 0.32, colour),
        (legs[1], 0.18, colour),
        (arms[1], 0.16, colour),
    ]
    edge, inside = (colour, SKY_LOW) if f.dodge > 0 else (INK, None)
    for points, width, _ in parts:
        canvas.line([world(point) for point in points], width + 0.12, edge)
    canvas.oval(world(pose.head), (0.33, 0.33), fill=edge)
    for points, width, fill in parts[:-1]:
        canvas.line([world(point) for point in points], width, inside or fill)
    _draw_head(canvas, f, world(pose.head), inside or colour, edge)
    if pose.weapon:
        _draw_weapon(canvas, f.weapon, world(pose.weapon[0]), world(pose.weapon[1]))
    near = [world(point) for point in arms[1]]
    canvas.line(near, 0.16, inside or colour)
    canvas.oval(near[-1], (0.15, 0.15), fill=inside or colour, line=edge)


def _draw_head(canvas: Canvas | Drawing, f: Any, middle: Point, colour: Colour, edge: Colour) -> None:
    """The nose points where the fighter faces; crossed eyes in stun."""
    x, y = middle
    canvas.polygon([(x + f.facing * a, y + b) for a, b in ((0.16, 0.14), (0.5, -0.04), (0.16, -0.16))], colour, edge)
    canvas.oval(middle, (0.27, 0.27), fill=colour)
    eye = x + f.facing * 0.1, y + 0.07
    if f.stun > 0:
        for way in (-1, 1):
            canvas.line([(eye[0] - 0.09, eye[1] - 0.09 * way), (eye[0] + 0.09, eye[1] + 0.09 * way)], 0.07, INK)
    else:
        canvas.oval(eye, (0.11, 0.11), fill=PAPER)
        canvas.oval((eye[0] + f.facing * 0.04, eye[1]), (0.06, 0.07), fill=INK)


def _draw_star(canvas: Canvas | Drawing, middle: Point) -> None:
    spikes = [(0.2 if i % 2 == 0 else 0.08, i * pi / 4) for i in range(8)]
    canvas.polygon([(middle[0] + r * sin(a), middle[1] + r * cos(a)) for r, a in spikes], GLOW)


def draw_boxes(canvas: Canvas | Drawing, f: Any, rules: Rules) -> None:
    """Where a fighter can be hit, and where its strike hits."""
    body = (f.x - rules.body_half_width, f.y), (f.x + rules.body_half_width, f.y + 2 * rules.body_half_height)
    if f.invulnerable > 0 or f.dodge > 0:
        canvas.dashed_box(*body, (90, 230, 120))
    else:
        canvas.box(*body, line=(90, 230, 120))
    if figure.stage(f) == ACTIVE and not f.move_hit:
        canvas.box(*_hit_box(f), fill=(*DANGER, 70), line=DANGER)
    elif figure.stage(f) == STARTUP:
        canvas.dashed_box(*_hit_box(f), DANGER)


def _draw_pointer(canvas: Canvas, f: Any, colour: Colour, rules: Rules) -> None:
    """An arrow at the edge of the picture towards a fighter beyond it."""
    x, y = f.x, f.y + rules.body_half_height
    if abs(x) < canvas.half_width and canvas.low < y < canvas.high:
        return
    edge = 0.9
    at = (
        min(max(x, edge - canvas.half_width), canvas.half_width - edge),
        min(max(y, canvas.low + edge), canvas.high - edge),
    )
    dx, dy = x - at[0], y - at[1]
    length = hypot(dx, dy)
    dx, dy = dx / length, dy / length
    wings = [(at[0] - 0.5 * dx + side * 0.55 * dy, at[1] - 0.5 * dy - side * 0.55 * dx) for side in (-1, 1)]
    canvas.polygon([(at[0] + 0.7 * dx, at[1] + 0.7 * dy), *wings], colour, INK)


def _draw_panel(canvas: Canvas, seat: int, f: Any, name: str, rules: Rules) -> None:
    """Name, damage, stocks and weapon of a seat, on its ground: seat 0 on the left one, wherever it fights."""
    half = (rules.edge_outer - rules.edge_inner) / 2 - rules.body_half_width - 0.2
    x = (2 * seat - 1) * (rules.edge_inner + rules.edge_outer) / 2
    canvas.box((x - half, -1.3), (x + half, -0.5), fill=SEATS[seat])
    canvas.text((x, -0.9), name, 0.52, INK, most=2 * half - 0.3)
    canvas.text((x, -2.2), f"{f.damage:.0f}", 1.6, damage_colour(f.damage) if f.stocks > 0 else DIM)
    step = min(0.6, 2 * half / rules.stocks)
    for i in range(rules.stocks):
        middle = x + (i - (rules.stocks - 1) / 2) * step, -3.4
        canvas.oval(middle, (0.4 * step, 0.4 * step), fill=SEATS[seat] if i < f.stocks else INK)
    if f.stocks > 0 and f.respawn > 0:
        canvas.text((x, -4.25), f"back in {f.respawn / TICK_RATE:.1f} s", 0.65, PAPER)
    elif f.weapon:
        canvas.text((x, -4.15), f"{WEAPONS[f.weapon]} {ceil(f.weapon_left / TICK_RATE)} s", 0.65, PAPER)
        end = x - half + 2 * half * min(1.0, f.weapon_left / rules.weapon_ticks)
        canvas.box((x - half, -4.85), (x + half, -4.65), fill=INK)
        canvas.box((x - half, -4.85), (end, -4.65), fill=GLOW)


def damage_colour(damage: float) -> Colour:
    """The colour of so much damage."""
    points = [low for low, _ in DAMAGE_COLOURS]
    return tuple(round(np.interp(damage, points, part)) for part in zip(*(c for _, c in DAMAGE_COLOURS), strict=True))
