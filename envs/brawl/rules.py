"""Brawl's numbers, in one place: the compiled rules and the slow reference both read them here.

x grows to the right, y grows UP. Two grounds with their tops at y = 0 leave a pit between them, in which a platform
rises and sinks. A fighter's position is the middle of its feet.
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
    "combo",
    "weapon_taken",
    "weapon_lost",
    "danger_zone",
    "approach",
    "attack",
    "hit",
)
"""Unweighted reward terms, in the order of `reward_terms`."""
METRICS = (
    "damage_dealt",
    "knock_outs",
    "self_destructs",
    "stocks_left",
    "attacks",
    "hits",
    "hit_share",
    "combos",
    "dodges",
    "dashes",
    "pickups",
    "air_time",
    "survival",
)
"""Behaviour metrics of one seat over a match, in the order of `result["metrics"]`.

air_time in seconds; survival in seconds on the field for each stock used; hit_share is hits / attacks."""
END_REASONS = ("knock_out", "time_limit")
BOTS = ("constant", "random", "based", "rusher", "zoner", "edge_guarder", "punisher", "charger")
TICK_RATE = 30.0


@dataclass(frozen=True)
class BrawlRules:
    """Every number of the game but the moves. Field order is free; names are those of the C struct."""

    ticks_per_step: int = 3
    time_limit: int = 1200
    """Ticks; reaching it ends the match."""
    stocks: int = 3

    tick_seconds: float = 1.0 / TICK_RATE
    edge_inner: float = 1.2
    """The grounds carry feet at edge_inner <= |x| <= edge_outer: half a body over what is drawn. Below y = 0 they are
    walls down to the bottom."""
    edge_outer: float = 7.4
    platform_low: float = -2.0
    platform_high: float = 0.2
    """The platform carries feet at |x| <= edge_inner. It is passed from below; `down` pressed on it drops through."""
    platform_speed: float = 1.5
    drop_depth: float = 0.1
    """How far below the platform a fighter is at once that lets itself fall through it."""
    blast_side: float = 12.0
    blast_top: float = 10.0
    blast_bottom: float = -6.0
    spawn_x: float = 3.0
    """Where a match starts, on the ground, on the fighter's own side."""
    respawn_x: float = 3.5
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
    dash_speed: float = 10.0
    dash_ticks: int = 8
    back_dash_speed: float = 7.0
    back_dash_ticks: int = 7
    dash_cooldown: int = 20
    turn_ticks: int = 2
    """Ticks without acceleration after turning around on the ground."""
    air_turn: float = 0.5
    """Share of the speed kept when turning around in the air."""
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
    """In the air; on the ground a dodge stands still."""
    dodge_cooldown_ground: int = 36
    dodge_cooldown_air: int = 70
    respawn_ticks: int = 45
    protection_ticks: int = 60
    credit_ticks: int = 90
    """A stock lost within this many ticks of a hit by the opponent is the opponent's knock-out."""

    max_charge: int = 24
    """Ticks that a heavy can be held."""
    charge_power: float = 0.5
    """What a full charge adds to the damage and to the knockback's speed, as a share."""
    stun_per_speed: float = 0.6
    """Ticks of stun for each unit/s of knockback, on top of the strike's own."""
    max_stun: int = 60
    min_stun: int = 4
    combo_decay: int = 2
    """Ticks of stun fewer for each hit already taken in the same stun."""
    bounce: float = 0.6
    """Share of the falling speed kept, upward, by a stunned fighter that meets the ground."""
    bounce_speed: float = 5.0
    """Falling speed below which a stunned fighter does not bounce."""

    weapons: int = 1
    """0: none ever lies on the grounds."""
    weapon_ticks: int = 450
    """How long a weapon lasts in the hand."""
    item_ticks: int = 450
    """How long one lies on the ground."""
    item_first_min: int = 30
    item_first_max: int = 150
    """Ticks before the first one on each ground."""
    item_wait_min: int = 120
    item_wait_max: int = 300
    """Ticks between one that was taken or has vanished and the next on the same ground."""
    item_near: float = 2.2
    item_far: float = 6.6
    """|x| where they appear."""
    pickup_reach: float = 1.2
    """Along x, standing on the same ground."""

    bot_reach_x: float = 2.4
    bot_reach_y: float = 1.8
    """Bots strike within this box with their bare hands."""
    bot_spear_reach_x: float = 3.4
    bot_margin: float = 1.0
    """Bots turn back this far inside an outer edge."""
    bot_styles: int = 0
    """Index of `styles.STYLES`: where each match draws how its bots play; 0: all play as they always do."""
