"""Brawl's move table, as data. Ours: shaped for quick, readable exchanges, not taken from another game."""

from __future__ import annotations

from dataclasses import dataclass

NEUTRAL_LIGHT, SIDE_LIGHT, DOWN_LIGHT = 0, 1, 2
NEUTRAL_HEAVY, SIDE_HEAVY, DOWN_HEAVY = 3, 4, 5
NEUTRAL_AIR, DOWN_AIR, RECOVERY, GROUND_POUND = 6, 7, 8, 9


@dataclass(frozen=True)
class Move:
    """One attack. It can hit during its active ticks, once.

    The knockback's speed is `knockback + growth * damage / 100` units/s, damage being the target's after the hit,
    along (`angle_x`, `angle_y`), a unit vector with x pointing where the attacker faces. The hit box's middle lies at
    (`offset_x` forward, `offset_y` up) from the attacker's feet.
    """

    startup: int
    """Ticks before the first active one."""
    active: int
    recovery: int
    """Ticks after the last active one, without control."""
    damage: float
    """Points."""
    knockback: float
    growth: float
    angle_x: float
    angle_y: float
    offset_x: float
    offset_y: float
    half_width: float
    half_height: float
    stun: int
    """Ticks, before what the knockback's speed adds."""
    lunge_x: float
    """The attacker's own speed forward at the first active tick, units/s; 0 leaves it as it is."""
    lunge_y: float
    """The same, upward."""
    heavy: int
    aim: int
    """1 neutral or up, 0 side, -1 down."""


def _move(
    ticks: tuple[int, int, int],
    damage: float,
    force: tuple[float, float],
    angle: tuple[float, float],
    box: tuple[float, float, float, float],
    stun: int,
    *,
    lunge: tuple[float, float] = (0.0, 0.0),
    heavy: bool = False,
    aim: int = 1,
) -> Move:
    return Move(*ticks, damage, *force, *angle, *box, stun, *lunge, int(heavy), aim)


# Angles are Pythagorean, so that they are unit vectors without a sine: (0.8, 0.6), (0.28, 0.96), ...
MOVES = {
    "neutral_light": _move((3, 3, 6), 8.0, (6.0, 11.0), (0.6, 0.8), (0.8, 1.0, 0.8, 0.6), 8),
    "side_light": _move((4, 3, 8), 10.0, (7.5, 15.0), (0.8, 0.6), (1.1, 0.8, 0.9, 0.45), 7, lunge=(5.0, 0.0), aim=0),
    "down_light": _move((3, 3, 9), 9.0, (6.0, 12.0), (0.28, 0.96), (0.9, 0.3, 0.95, 0.35), 9, aim=-1),
    "neutral_heavy": _move((8, 4, 14), 19.0, (10.0, 20.0), (0.28, 0.96), (0.3, 1.7, 0.9, 1.1), 8, heavy=True),
    "side_heavy": _move(
        (10, 4, 16), 21.0, (10.0, 22.0), (0.8, 0.6), (1.3, 0.9, 1.1, 0.6), 8, lunge=(6.0, 0.0), heavy=True, aim=0
    ),
    "down_heavy": _move((9, 5, 15), 18.0, (9.0, 20.0), (0.96, 0.28), (0.0, 0.4, 1.9, 0.4), 8, heavy=True, aim=-1),
    "neutral_air": _move((3, 5, 6), 9.0, (6.0, 14.0), (0.6, 0.8), (0.3, 0.8, 1.0, 0.9), 7),
    "down_air": _move((6, 5, 9), 11.0, (6.0, 14.0), (0.0, -1.0), (0.0, -0.2, 0.6, 0.7), 8, aim=-1),
    "recovery": _move(
        (4, 8, 12), 11.0, (8.0, 15.0), (0.28, 0.96), (0.2, 1.3, 0.7, 0.9), 7, lunge=(2.5, 12.5), heavy=True
    ),
    "ground_pound": _move(
        (7, 20, 14), 16.0, (8.0, 18.0), (0.8, 0.6), (0.0, 0.1, 0.8, 0.6), 8, lunge=(0.0, -16.0), heavy=True, aim=-1
    ),
}
"""Name -> move; the place in this table is the move's id."""
