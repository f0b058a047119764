"""How a fighter holds itself: the joints of its figure, from its state alone. Knows no pictures.

Points are (forward, up) from the middle of the feet, in units; forward is the way the fighter faces.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import cos, hypot, radians, sin
from typing import Any

from league.envs.brawl.moves import NAMES, NONE, STRIKES, TAUNT, WEAPONS, Strike
from league.envs.brawl.state import AIR

Point = tuple[float, float]
STARTUP, ACTIVE, RECOVERY = "startup", "active", "recovery"
SPEAR, HAMMER = WEAPONS.index("spear"), WEAPONS.index("hammer")
LENGTHS = {SPEAR: 2.7, HAMMER: 1.15}
ARM, LEG = 0.72, 0.74
SHOULDER_HEIGHT = 1.05


@dataclass(frozen=True)
class Pose:
    """The joints of a figure; of hands and feet the far one first."""

    hip: Point
    neck: Point
    head: Point
    hands: tuple[Point, Point]
    feet: tuple[Point, Point]
    weapon: tuple[Point, Point] | None = None
    """Its butt and its tip."""


STAND = Pose((0, 0.64), (0.03, 1.12), (0.07, 1.36), ((-0.24, 0.72), (0.36, 0.8)), ((-0.2, 0), (0.2, 0)))
RISE = replace(STAND, hands=((-0.42, 1.3), (0.62, 1.3)), feet=((-0.3, 0.12), (0.26, 0.3)))
FALL = replace(STAND, hands=((-0.55, 1.2), (0.55, 1.2)), feet=((-0.26, 0), (0.34, 0.1)))
LIMP = replace(STAND, hands=((-0.5, 1.35), (0.55, 1.25)), feet=((-0.1, 0.02), (0.45, 0.15)))
DODGE = Pose((-0.05, 0.45), (0.1, 0.85), (0.2, 1.05), ((-0.1, 0.6), (0.4, 0.95)), ((-0.35, 0), (0.3, 0)))
DASH = Pose((-0.1, 0.6), (0.2, 1.05), (0.36, 1.25), ((-0.5, 0.8), (-0.3, 0.6)), ((-0.6, 0.12), (0.4, 0)))
BACK_DASH = Pose((0.1, 0.6), (-0.15, 1.08), (-0.16, 1.33), ((0.2, 1.0), (0.4, 0.95)), ((-0.4, 0), (0.6, 0.14)))
WIND_UP = Pose((-0.14, 0.55), (-0.26, 1.02), (-0.2, 1.26), ((0.3, 0.9), (-0.75, 0.95)), ((-0.42, 0), (0.42, 0)))
STRIKE = Pose((0.1, 0.6), (0.22, 1.06), (0.32, 1.28), ((-0.3, 0.85), (0.5, 0.9)), ((-0.42, 0), (0.42, 0)))
SPENT = Pose((0.06, 0.52), (0.24, 0.94), (0.4, 1.1), ((-0.1, 0.4), (0.5, 0.5)), ((-0.4, 0), (0.36, 0)))


def stage(fighter: Any) -> str | None:
    """Where the fighter's strike is: STARTUP, ACTIVE or RECOVERY; None without one and in a taunt."""
    if fighter.move == NONE or NAMES[fighter.move] == TAUNT:
        return None
    strike = STRIKES[fighter.move]
    if fighter.move_tick < strike.startup:
        return STARTUP
    return ACTIVE if fighter.move_tick < strike.startup + strike.active else RECOVERY


def pose(fighter: Any) -> Pose:
    """The figure of a fighter of FIGHTER_DTYPE, its fields as attributes."""
    body = _body(fighter)
    if body.weapon or not fighter.weapon:
        return body
    return replace(body, weapon=_held(fighter.weapon, body.hands[1], (0.5, 0.87)))


def joint(start: Point, end: Point, length: float, way: float) -> Point:
    """The knee (way 1: bends forward) or elbow (way -1) of a limb that is `length` long when stretched."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    distance = hypot(dx, dy) or 1.0
    bend = way * max(0.0, length**2 - distance**2) ** 0.5 / 2
    return (start[0] + end[0]) / 2 - dy / distance * bend, (start[1] + end[1]) / 2 + dx / distance * bend


def _body(f: Any) -> Pose:
    if f.stun > 0:
        return _turned(LIMP, 24.0 * f.stun if f.support == AIR else 35.0)
    if f.dodge > 0:
        return DODGE
    if f.move != NONE:
        return _taunting(f.move_tick) if NAMES[f.move] == TAUNT else _striking(f, STRIKES[f.move])
    if f.support == AIR:
        return RISE if f.vy > 0 else FALL
    if f.dash > 0:
        return DASH if f.direction == f.facing else BACK_DASH
    return _running(f) if abs(f.vx) > 0.5 else STAND


def _running(f: Any) -> Pose:
    """The stride follows the way covered, so that the feet do not slide."""
    swing, lift = sin(2.4 * f.x), cos(2.4 * f.x)
    lean = 0.03 * f.vx * f.facing
    feet = (-0.42 * swing, max(0.0, -0.24 * lift)), (0.42 * swing, max(0.0, 0.24 * lift))
    hands = (0.4 * swing + lean, 0.8), (-0.4 * swing + lean, 0.85)
    return Pose((0, 0.64), (lean, 1.1), (0.06 + 1.3 * lean, 1.34), hands, feet)


def _taunting(tick: int) -> Pose:
    wave = 0.22 * sin(0.8 * tick)
    return replace(STAND, hands=((-0.42, 1.6 + wave), (0.62, 1.5 - wave)))


def _striking(f: Any, strike: Strike) -> Pose:
    """Draws back, reaches to the far side of the hit box, sinks; bare hands strike low with a foot."""
    now = stage(f)
    if now != ACTIVE:
        body = WIND_UP if now == STARTUP else SPENT
        way = (0.94, -0.34) if now == RECOVERY else (-0.6, 0.8) if f.weapon == HAMMER else _reach(f, strike)[0]
        return replace(body, weapon=_held(f.weapon, body.hands[1], way)) if f.weapon else body
    shoulder = STRIKE.neck[0], SHOULDER_HEIGHT
    way, reach = _reach(f, strike)
    hand = _along(shoulder, way, ARM)
    if f.weapon == SPEAR:
        tip = _along(shoulder, way, reach)
        return replace(STRIKE, hands=(STRIKE.hands[0], hand), weapon=(_along(tip, way, -LENGTHS[SPEAR]), tip))
    if f.weapon == HAMMER:
        return replace(STRIKE, hands=(STRIKE.hands[0], hand), weapon=_held(HAMMER, hand, way))
    if strike.aim < 0:
        x, y = _along(STRIKE.hip, way, LEG)
        return replace(STRIKE, feet=(STRIKE.feet[0], (x, max(y, -0.1))), hands=((-0.5, 0.9), (-0.1, 1.2)))
    return replace(STRIKE, hands=(STRIKE.hands[0], hand))


def _reach(f: Any, strike: Strike) -> tuple[Point, float]:
    """The direction of the blow from the shoulder and how far its hit box goes that way."""
    dx, dy = strike.offset_x, strike.offset_y - SHOULDER_HEIGHT
    if strike.lunge_y < 0:
        dx, dy = 0.0, -1.0
    elif dx == 0 and strike.half_width > strike.half_height:  # on both sides: first before, then behind
        is_late = 2 * (f.move_tick - strike.startup) >= strike.active
        dx = -strike.half_width if is_late else strike.half_width
    distance = hypot(dx, dy) or 1.0
    way = dx / distance, dy / distance
    middle = strike.offset_x * way[0] + (strike.offset_y - SHOULDER_HEIGHT) * way[1]
    return way, middle + abs(way[0]) * strike.half_width + abs(way[1]) * strike.half_height


def _held(weapon: int, hand: Point, way: Point) -> tuple[Point, Point]:
    """The butt and the tip of a weapon in `hand` that points `way`."""
    grip = (0.35 if weapon == SPEAR else 0.15) * LENGTHS[weapon]
    return _along(hand, way, -grip), _along(hand, way, LENGTHS[weapon] - grip)


def _along(start: Point, way: Point, length: float) -> Point:
    return start[0] + way[0] * length, start[1] + way[1] * length


def _turned(pose: Pose, degrees: float) -> Pose:
    """`pose` turned backwards around its hip."""
    c, s = cos(radians(degrees)), sin(radians(degrees))
    x, y = pose.hip

    def turn(point: Point) -> Point:
        dx, dy = point[0] - x, point[1] - y
        return x + c * dx - s * dy, y + s * dx + c * dy

    far, near = pose.hands
    back, front = pose.feet
    return Pose(
        pose.hip, turn(pose.neck), turn(pose.head), (turn(far), turn(near)), (turn(back), turn(front)), pose.weapon
    )
