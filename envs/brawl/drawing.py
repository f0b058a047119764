"""Brawl as shapes: the stage, the fighters, their hit boxes, with a camera that follows them."""

from __future__ import annotations

from math import ceil, cos, hypot, pi, sin
from types import SimpleNamespace
from typing import Any

import numpy as np

from league.envs.brawl import figure
from league.envs.brawl.figure import ACTIVE, STARTUP, Point, Pose
from league.envs.brawl.moves import NAMES, NONE, STRIKES, TAUNT, WEAPONS
from league.envs.brawl.rules import KEYS, TICK_RATE, BrawlRules
from league.envs.drawing import HUD_SIZE, SEATS, Colour, Drawing

LEAST_WIDTH, ASIDE, ABOVE = 11.0, 5.5, 4.6
"""The camera shows at least so many units, and so many beside and above the fighters."""
SHAPE = HUD_SIZE[0] / HUD_SIZE[1]
BANDS = 32
"""Of colour, from the upper sky to the lower one."""

MARGIN = 0.25
"""Units in view around the blast zone, at least."""

INK, PAPER, DIM = (22, 24, 34), (245, 245, 240), (150, 152, 165)
SKY_TOP, SKY_LOW, STONE, TURF = (38, 44, 66), (88, 98, 124), (58, 54, 62), (112, 136, 96)
PLANK, WOOD, STEEL, GLOW, DANGER = (176, 146, 104), (226, 202, 150), (206, 212, 222), (255, 226, 90), (222, 60, 60)
DAMAGE_COLOURS = ((0, PAPER), (50, (255, 226, 90)), (100, (255, 140, 50)), (160, (235, 50, 60)))
"""Points and the colour of the number, mixed in between."""


def drawing(record: Any, rules: BrawlRules) -> Drawing:
    """One match (an element of STATE_DTYPE) as it stands."""
    fighters = [_named(fighter) for fighter in record["fighters"]]
    present = [(seat, f) for seat, f in enumerate(fighters) if f.respawn == 0 and f.stocks > 0]
    seen = Drawing(_view([f for _, f in present], rules), SKY_LOW)
    seen.held = tuple(frozenset(key for i, key in enumerate(KEYS) if f.keys >> i & 1) for f in fighters)
    with seen.within("stage"):
        _stage(seen, rules)
    with seen.within("platform"):
        _draw_platform(seen, float(record["platform_y"]), rules)
    for number, item in enumerate(map(_named, record["items"])):
        if item.kind:
            with seen.within(f"item {number} {item.kind}"):
                _draw_item(seen, item, rules)
    for seat, f in present:
        with seen.within(f"blow {seat} {f.move}"):
            _draw_blow(seen, f)
    for seat, f in present:
        with seen.within(f"fighter {seat}"):
            _draw_fighter(seen, f, SEATS[seat], rules)
        with seen.within(f"boxes {seat}", layer="boxes"):
            _draw_boxes(seen, f, rules)
    with seen.within("hud", is_hud=True):
        for seat, f in enumerate(fighters):
            _panel(seen, seat, f, rules)
        left = ceil(max(0, rules.time_limit - int(record["tick"])) / TICK_RATE)
        seen.text((80.0, 8.0), f"{left // 60}:{left % 60:02}", 7.0, PAPER if left > 10 else DANGER)
    for seat, f in present:
        _pointer(seen, f, SEATS[seat], rules)
    return seen


def _view(present: list[Any], rules: BrawlRules) -> tuple[float, float, float, float]:
    """Both fighters with room around them, within the blast zone; the whole stage while nobody is there."""
    low, high = rules.blast_bottom - MARGIN, rules.blast_top + MARGIN
    side = rules.blast_side + MARGIN
    most = min(2 * side, (high - low) * SHAPE)
    if present:
        xs, ys = [f.x for f in present], [f.y + rules.body_half_height for f in present]
        wide = max(LEAST_WIDTH, max(xs) - min(xs) + ASIDE, (max(ys) - min(ys) + ABOVE) * SHAPE)
        x, y = (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2 + 0.5
    else:
        wide, x, y = most, 0.0, (low + high) / 2
    wide = min(wide, most)
    half, tall = wide / 2, wide / SHAPE / 2
    x, y = min(max(x, half - side), side - half), min(max(y, low + tall), high - tall)
    return x - half, y + tall, x + half, y - tall


def _stage(seen: Drawing, rules: BrawlRules) -> None:
    """What never moves: sky, grounds, the edges of the blast zone."""
    low, high = (-rules.blast_side, rules.blast_bottom), (rules.blast_side, rules.blast_top)
    for i in range(BANDS):  # the sky, darker above
        share = i / (BANDS - 1)
        colour = tuple(round(a * (1 - share) + b * share) for a, b in zip(SKY_TOP, SKY_LOW, strict=True))
        top = high[1] + 2 - i * (high[1] - low[1] + 4) / BANDS
        seen.box((low[0] - 4, top - (high[1] - low[1] + 4) / BANDS - 0.1), (high[0] + 4, top), colour)
    for side in (-1, 1):
        inner = side * (rules.edge_inner + rules.body_half_width)
        outer = side * (rules.edge_outer - rules.body_half_width)
        seen.box(*_corners((inner, low[1] - 4), (outer, 0.0)), fill=STONE)
        seen.box(*_corners((inner, -0.22), (outer, 0.0)), fill=TURF)
    for side in (-1, 1):
        seen.box(*_corners((side * high[0], low[1] - 4), (side * (high[0] + 4), high[1] + 4)), fill=(*DANGER, 40))
    for y in (low[1] - 2, high[1] + 2):
        seen.box((low[0], y - 2), (high[0], y + 2), (*DANGER, 40))
    seen.dashed_box(low, high, (*DANGER, 200))


def _pointer(seen: Drawing, f: Any, colour: Colour, rules: BrawlRules) -> None:
    """An arrow at the edge of the view towards a fighter beyond it."""
    left, top, right, bottom = seen.view
    x, y = f.x, f.y + rules.body_half_height
    if left < x < right and bottom < y < top:
        return
    below_clock = top - 0.19 * (top - bottom)
    at = min(max(x, left + 0.9), right - 0.9), min(max(y, bottom + 0.9), below_clock)
    dx, dy = x - at[0], y - at[1]
    length = hypot(dx, dy)
    dx, dy = dx / length, dy / length
    wings = [(at[0] - 0.5 * dx + side * 0.55 * dy, at[1] - 0.5 * dy - side * 0.55 * dx) for side in (-1, 1)]
    seen.polygon([(at[0] + 0.7 * dx, at[1] + 0.7 * dy), *wings], colour, INK)


def _panel(seen: Drawing, seat: int, f: Any, rules: BrawlRules) -> None:
    """Damage, stocks, weapon and name of a seat, in its upper corner."""
    left = 3.0 if seat == 0 else HUD_SIZE[0] - 33.0
    seen.box((left, 3.0), (left + 30.0, 15.0), (*INK, 190), SEATS[seat], 0.6)
    seen.box((left, 15.0), (left + 30.0, 19.6), SEATS[seat], SEATS[seat], 0.6)
    seen.text((left + 15.0, 17.3), f"seat {seat}", 3.0, INK, 28.0)
    seen.text((left + 9.0, 9.3), f"{f.damage:.0f}", 8.0, _damage_colour(f.damage) if f.stocks > 0 else DIM)
    for i in range(rules.stocks):
        middle = left + 20.0 + (i % 4) * 2.4, 6.6 + (i // 4) * 2.4
        seen.oval(middle, (0.9, 0.9), SEATS[seat] if i < f.stocks else INK, SEATS[seat], 0.2)
    told = ""
    if f.stocks > 0 and f.respawn > 0:
        told = f"back in {f.respawn / TICK_RATE:.1f} s"
    elif f.stun > 0:
        told = f"stunned {f.stun / TICK_RATE:.1f} s"
    elif f.weapon:
        told = f"{WEAPONS[f.weapon]} {ceil(f.weapon_left / TICK_RATE)} s"
    seen.text((left + 22.4, 11.8), told, 2.8, GLOW if f.stun > 0 else PAPER, 12.0)


def _corners(a: Point, b: Point) -> tuple[Point, Point]:
    """The lower left and the upper right corner of a rectangle between two points."""
    return (min(a[0], b[0]), min(a[1], b[1])), (max(a[0], b[0]), max(a[1], b[1]))


def _named(record: Any) -> Any:
    """A record with its fields as attributes, Python numbers: ten times quicker to read than numpy's."""
    return SimpleNamespace(**dict(zip(record.dtype.names, record.item(), strict=True)))


def _draw_platform(seen: Drawing, y: float, rules: BrawlRules) -> None:
    """The platform, its top at `y`."""
    seen.box((-rules.edge_inner, y - 0.3), (rules.edge_inner, y), fill=PLANK, line=INK)


def _draw_item(seen: Drawing, item: Any, rules: BrawlRules) -> None:
    """A weapon that lies on its ground, in a glow that shrinks as its time runs out."""
    share = min(1.0, item.ticks / rules.item_ticks)
    seen.oval((item.x, 0.45), (0.95, 0.75), fill=(*GLOW, 40))
    seen.line([(item.x - 0.7, 0.06), (item.x - 0.7 + 1.4 * share, 0.06)], 0.1, GLOW)
    half = figure.LENGTHS[item.kind] / 2
    _draw_weapon(seen, item.kind, (item.x - half * 0.8, 0.45 - half * 0.3), (item.x + half * 0.8, 0.45 + half * 0.3))


def _draw_weapon(seen: Drawing, kind: int, butt: Point, tip: Point) -> None:
    dx, dy = tip[0] - butt[0], tip[1] - butt[1]
    length = hypot(dx, dy)
    dx, dy = dx / length, dy / length

    def point(along: float, across: float) -> Point:
        return tip[0] + dx * along - dy * across, tip[1] + dy * along + dx * across

    seen.line([butt, tip], 0.2, INK)
    seen.line([butt, tip], 0.1, WOOD)
    if kind == figure.SPEAR:
        seen.polygon([point(0.1, 0), point(-0.45, 0.17), point(-0.45, -0.17)], STEEL, INK)
    else:
        seen.polygon([point(0.1, 0.42), point(0.1, -0.42), point(-0.38, -0.42), point(-0.38, 0.42)], STEEL, INK)


def _draw_blow(seen: Drawing, f: Any) -> None:
    """A flash in the shape of the hit box while it can hit, faint after it has."""
    if figure.stage(f) == ACTIVE:
        (x0, y0), (x1, y1) = _hit_box(f)
        colour = (255, 150, 60) if STRIKES[f.move].weight > 0 else (255, 245, 190)
        seen.oval(
            ((x0 + x1) / 2, (y0 + y1) / 2),
            ((x1 - x0) / 2, (y1 - y0) / 2),
            fill=(*colour, 50 if f.move_hit else 150),
            line=(*colour, 90 if f.move_hit else 255),
        )


def _hit_box(f: Any) -> tuple[Point, Point]:
    strike = STRIKES[f.move]
    x, y = f.x + f.facing * strike.offset_x, f.y + strike.offset_y
    return (x - strike.half_width, y - strike.half_height), (x + strike.half_width, y + strike.half_height)


def _draw_fighter(seen: Drawing, f: Any, colour: Colour, rules: BrawlRules) -> None:
    """A fighter in its pose, with what shows its state: charge, dash, stun, protection, a taunt."""
    if f.charge > 0 and figure.stage(f) == STARTUP:
        share = min(1.0, f.charge / rules.max_charge)
        for part in (1.0, 0.7, 0.45):
            seen.oval((f.x, f.y + 0.8), (part * (0.7 + 0.7 * share), part * (0.9 + 0.7 * share)), fill=(*GLOW, 70))
    if f.dash > 0:
        for up in (0.35, 0.75, 1.15):
            back = f.x - f.direction * 0.7
            seen.line([(back, f.y + up), (back - f.direction * (0.6 + up), f.y + up)], 0.07, (*PAPER, 170))
    pose = figure.pose(f)
    _draw_body(seen, f, pose, colour)
    if f.stun > 0:
        for i in range(3):
            angle = 2 * pi * i / 3 + 0.4 * f.stun
            _draw_star(seen, (f.x + 0.55 * cos(angle), f.y + 1.85 + 0.16 * sin(angle)))
    if f.invulnerable > 0:
        seen.oval((f.x, f.y + 0.8), (0.95, 1.15), fill=(*PAPER, 45), line=(*PAPER, 230), width=0.09)
    if f.move != NONE and NAMES[f.move] == TAUNT:
        middle = f.x + f.facing * 1.1, f.y + 2.15
        seen.polygon([(f.x + f.facing * 0.35, f.y + 1.55), (middle[0], f.y + 1.9), middle], PAPER)
        seen.oval(middle, (0.75, 0.42), fill=PAPER)
        seen.text(middle, "ha!", 0.6, INK)


def _draw_body(seen: Drawing, f: Any, pose: Pose, colour: Colour) -> None:
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
        seen.line([world(point) for point in points], width + 0.12, edge)
    seen.oval(world(pose.head), (0.33, 0.33), fill=edge)
    for points, width, fill in parts[:-1]:
        seen.line([world(point) for point in points], width, inside or fill)
    _draw_head(seen, f, world(pose.head), inside or colour, edge)
    if pose.weapon:
        _draw_weapon(seen, f.weapon, world(pose.weapon[0]), world(pose.weapon[1]))
    near = [world(point) for point in arms[1]]
    seen.line(near, 0.16, inside or colour)
    seen.oval(near[-1], (0.15, 0.15), fill=inside or colour, line=edge)


def _draw_head(seen: Drawing, f: Any, middle: Point, colour: Colour, edge: Colour) -> None:
    """The nose points where the fighter faces; crossed eyes in stun."""
    x, y = middle
    seen.polygon([(x + f.facing * a, y + b) for a, b in ((0.16, 0.14), (0.5, -0.04), (0.16, -0.16))], colour, edge)
    seen.oval(middle, (0.27, 0.27), fill=colour)
    eye = x + f.facing * 0.1, y + 0.07
    if f.stun > 0:
        for way in (-1, 1):
            seen.line([(eye[0] - 0.09, eye[1] - 0.09 * way), (eye[0] + 0.09, eye[1] + 0.09 * way)], 0.07, INK)
    else:
        seen.oval(eye, (0.11, 0.11), fill=PAPER)
        seen.oval((eye[0] + f.facing * 0.04, eye[1]), (0.06, 0.07), fill=INK)


def _draw_star(seen: Drawing, middle: Point) -> None:
    spikes = [(0.2 if i % 2 == 0 else 0.08, i * pi / 4) for i in range(8)]
    seen.polygon([(middle[0] + r * sin(a), middle[1] + r * cos(a)) for r, a in spikes], GLOW)


def _draw_boxes(seen: Drawing, f: Any, rules: BrawlRules) -> None:
    """Where a fighter can be hit, and where its strike hits."""
    body = (f.x - rules.body_half_width, f.y), (f.x + rules.body_half_width, f.y + 2 * rules.body_half_height)
    if f.invulnerable > 0 or f.dodge > 0:
        seen.dashed_box(*body, (90, 230, 120))
    else:
        seen.box(*body, line=(90, 230, 120))
    if figure.stage(f) == ACTIVE and not f.move_hit:
        seen.box(*_hit_box(f), fill=(*DANGER, 70), line=DANGER)
    elif figure.stage(f) == STARTUP:
        seen.dashed_box(*_hit_box(f), DANGER)


def _damage_colour(damage: float) -> Colour:
    """The colour of so much damage."""
    points = [low for low, _ in DAMAGE_COLOURS]
    return tuple(round(np.interp(damage, points, part)) for part in zip(*(c for _, c in DAMAGE_COLOURS), strict=True))
