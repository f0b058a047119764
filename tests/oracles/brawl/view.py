"""What the players of brawl's slow reference see: the 32 numbers of `env.FIELDS` for each fighter."""

from __future__ import annotations

from league.envs.brawl.rules import KEYS
from tests.oracles.brawl.state import Fighter, Stage

_FLAG = {"unarmed": 0.0, "spear": -1.0, "hammer": 1.0}
_STANDING = {"ground": 1.0, "platform": 0.5, "air": 0.0}


def half(f: Fighter, other: Fighter, stage: Stage, tick: int) -> list[float]:
    """One half of an observation, before rounding to float32."""
    values = [*_motion(f, other, stage), *_condition(f, stage), *_strike(f, stage), *_surroundings(f, stage, tick)]
    return [max(-1.0, min(1.0, float(value))) for value in [*values, *_held(f)]]


def _squashed(way: float) -> float:
    return way / (abs(way) + 2.0)


def _motion(f: Fighter, other: Fighter, stage: Stage) -> list[float]:
    r = stage.rules
    place = [f.x / r.blast_side, f.y / r.blast_top, f.vx / 20.0, f.vy / 20.0, f.facing, _STANDING[f.support]]
    return [*place, _squashed(other.x - f.x), _squashed(other.y - f.y)]


def _condition(f: Fighter, stage: Stage) -> list[float]:
    r = stage.rules
    return [
        f.damage / 150.0,
        f.stocks / r.stocks,
        ((not f.in_air) + f.jumps_left) / (r.air_jumps + 1),
        f.recovery_left,
        f.stun / r.max_stun,
        max(f.invulnerable, f.dodge) / 60.0 if f.present else -f.respawn / 60.0,
        f.dodge_cooldown / r.dodge_cooldown_air,
        _FLAG[f.weapon],
        f.weapon_left / r.weapon_ticks,
    ]


def _strike(f: Fighter, stage: Stage) -> list[float]:
    strike = f.strike
    if strike is None:
        return [0.0] * 6
    active_left = max(0, min(strike.active, strike.startup + strike.active - f.move_tick))
    return [
        max(0, strike.startup - f.move_tick) / 20.0,
        (-active_left if f.move_hit else active_left) / 20.0,
        min(strike.recovery, strike.ticks - f.move_tick) / 20.0,
        strike.weight,
        strike.aim,
        f.charge / stage.rules.max_charge,
    ]


def _surroundings(f: Fighter, stage: Stage, tick: int) -> list[float]:
    r = stage.rules
    nearest = stage.nearest_item(f)
    item = [0.0, 0.0] if nearest is None else [_squashed(nearest.x - f.x), _FLAG[nearest.kind]]
    return [*item, stage.platform_y / 2.0, stage.platform_direction, (r.time_limit - tick) / r.time_limit]


def _held(f: Fighter) -> list[float]:
    up, left, down, right, jump, pickup, dodge, light, heavy, taunt = (key in f.keys for key in KEYS)
    return [right - left, up - down, (light + 2 * heavy) / 3.0, (jump + 2 * dodge + 4 * pickup + 8 * taunt) / 15.0]
