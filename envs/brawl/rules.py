"""Brawl's numbers, in one place: the compiled rules and the slow twin both read them here.

x grows to the right, y grows UP, the stage's top is y = 0. A fighter's position is the middle of its feet.
Units: lengths in units (a fighter is 1.6 tall), speeds in units/s, accelerations in units/s^2, times in ticks.
"""

from __future__ import annotations

from dataclasses import dataclass

KEYS = ("up", "left", "down", "right", "jump", "pickup", "dodge", "light", "heavy", "taunt")
"""The action's parts, in order; key `i` is bit `1 << i` of a fighter's `keys`."""
TERMS = (
    "damage_dealt",
    "damage_taken",
    "knock_out",
    "stock_lost",
    "win",
    "danger_zone",
    "approach",
    "attack",
    "hit",
)
"""Unweighted reward terms, in the order of `reward_terms`."""
METRICS = ("damage_dealt", "knock_outs", "self_destructs", "stocks_left", "attacks", "hits", "dodges", "air_time")
"""Behaviour metrics of one seat over a match, in the order of `result["metrics"]`; air_time in seconds."""
END_REASONS = ("knock_out", "time_limit")
BOTS = ("constant", "random", "based")
TICK_RATE = 30.0


@dataclass(frozen=True)
class Rules:
    """Every number of the game but the moves. Field order is free; names are those of the C struct."""

    ticks_per_step: int = 3
    time_limit: int = 1200
    """Ticks; reaching it ends the match."""
    stocks: int = 3

    tick_seconds: float = 1.0 / TICK_RATE
    edge: float = 7.4
    """Feet at |x| <= edge stand on the stage: its half width 7 and half a body. Below y = 0 this is a wall."""
    blast_side: float = 14.0
    blast_top: float = 12.0
    blast_bottom: float = -7.0
    spawn_x: float = 2.5
    """Where a match starts, on the ground, on the fighter's own side."""
    respawn_x: float = 2.0
    respawn_y: float = 4.0
    body_half_width: float = 0.4
    body_half_height: float = 0.8

    gravity: float = 26.0
    fast_fall: float = 24.0
    """Added to gravity while `down` is held in a fall."""
    max_fall: float = 11.0
    max_fast_fall: float = 17.0
    """Also the limit while stunned and in a diving move."""
    walk_speed: float = 5.0
    run_speed: float = 7.5
    run_after: int = 6
    """Ticks a direction is held on the ground before walking becomes running."""
    ground_acceleration: float = 60.0
    ground_friction: float = 45.0
    stun_friction: float = 15.0
    air_speed: float = 6.0
    air_acceleration: float = 24.0
    air_drag: float = 6.0
    stun_drag: float = 7.0
    jump_speed: float = 11.5
    air_jump_speed: float = 10.5
    air_jumps: int = 2

    dodge_ticks: int = 10
    """Invulnerable all the while, no gravity."""
    dodge_speed: float = 6.5
    dodge_cooldown_ground: int = 36
    dodge_cooldown_air: int = 70
    taunt_ticks: int = 20
    respawn_ticks: int = 45
    protection_ticks: int = 60
    credit_ticks: int = 90
    """A stock lost within this many ticks of a hit by the opponent is the opponent's knock-out."""

    stun_per_speed: float = 0.6
    """Ticks of stun for each unit/s of knockback, on top of the move's own."""
    max_stun: int = 60
    bounce: float = 0.6
    """Share of the falling speed kept, upward, by a stunned fighter that meets the ground."""
    bounce_speed: float = 5.0
    """Falling speed below which a stunned fighter does not bounce."""

    bot_reach_x: float = 2.4
    bot_reach_y: float = 1.8
    """`based` strikes within this box."""
    bot_margin: float = 1.2
    """`based` turns back this far inside the edge."""
