"""A fighter's own tick: its keys, its motion, the stage. It never looks at the other fighter."""

from __future__ import annotations

from league.envs.brawl.moves import TAUNT
from league.envs.brawl.rules import BrawlRules
from tests.oracles.brawl.state import Fighter, Keys, Stage, name_of

FRESH = frozenset({"jump", "pickup", "dodge", "taunt"})
"""Keys that act on a new press, not while held."""


def legal_keys(f: Fighter, stage: Stage) -> Keys:
    """The keys that may do something within the next step."""
    n = stage.rules.ticks_per_step
    if f.respawn >= n:
        return frozenset()
    legal = set()
    free = f.busy < n
    if free:
        legal |= {"light", "heavy", "up"}
    drifts = f.present and f.in_air and f.stun < n and f.dodge < n
    if free or drifts:
        legal |= {"left", "right", "down"}
    if _may_charge(f, stage.rules):
        legal.add("heavy")
    if f.can_act:
        legal |= _fresh_keys(f, stage) - f.keys
    return frozenset(legal)


def _may_charge(f: Fighter, rules: BrawlRules) -> bool:
    strike = f.strike
    return strike is not None and strike.charges == 1 and f.move_tick < strike.startup and f.charge < rules.max_charge


def _fresh_keys(f: Fighter, stage: Stage) -> set[str]:
    """Which of FRESH would act in the next tick, were none of them held."""
    keys = set()
    if not f.in_air or f.jumps_left > 0:
        keys.add("jump")
    if f.dodge_cooldown == 0:
        keys.add("dodge")
    if not f.in_air:
        keys.add("taunt")
    if f.armed or stage.in_reach(f):
        keys.add("pickup")
    return keys


def own_tick(f: Fighter, keys: Keys, stage: Stage) -> str | None:
    """One tick of one fighter; gives its wish about weapons: "take", "drop" or None."""
    if not f.present:
        f.respawn -= 1
        f.keys = keys & FRESH
        if f.present:
            f.invulnerable = stage.rules.protection_ticks
        return None
    dx = ("right" in keys) - ("left" in keys)
    acts = f.can_act
    wish = _obey(f, keys, dx, stage) if acts else None
    walks = acts and f.move is None and f.dodge == 0
    _accelerate(f, keys, dx, walks, stage.rules)
    _travel(f, stage)
    f.keys = keys
    return wish


# What the keys start


def _obey(f: Fighter, keys: Keys, dx: int, stage: Stage) -> str | None:
    """The first that the keys ask for: dodge or dash, jump, pick-up, attack, drop, taunt, falling through."""
    fresh = keys - f.keys
    if "dodge" in fresh and f.dodge_cooldown == 0:
        _evade(f, dx, stage.rules)
        return None
    dashes_back = f.dash > 0 and dx == f.direction
    if dx not in (0, f.facing) and not dashes_back:
        _turn(f, dx, stage.rules)
    if "jump" in fresh and (not f.in_air or f.jumps_left > 0):
        _jump(f, stage.rules)
        return None
    if "pickup" in fresh and not f.armed and stage.in_reach(f):
        return "take"
    kind = _chosen_attack(f, keys, dx)
    if kind is not None:
        f.begin(f"{f.weapon}.{kind}")
        f.invulnerable = 0
        f.attacks += 1
        if kind == "recovery":
            f.recovery_left = False
        return None
    if "pickup" in fresh and f.armed:
        return "drop"
    if "taunt" in fresh and not f.in_air:
        f.begin(TAUNT)
    elif "down" in fresh and f.support == "platform":
        f.support, f.y = "air", f.y - stage.rules.drop_depth
    return None


def _evade(f: Fighter, dx: int, r: BrawlRules) -> None:
    """A dash toward a side on the ground, else a dodge. The fighter faces where it did."""
    f.direction = dx
    if not f.in_air and dx != 0:
        f.dash = r.dash_ticks if dx == f.facing else r.back_dash_ticks
        f.dodge_cooldown = r.dash_cooldown
        f.dashes += 1
    else:
        f.dodge, f.dash = r.dodge_ticks, 0
        f.dodge_cooldown = r.dodge_cooldown_air if f.in_air else r.dodge_cooldown_ground
        f.dodges += 1


def _turn(f: Fighter, dx: int, r: BrawlRules) -> None:
    f.facing = dx
    if not f.in_air:
        f.turn, f.dash, f.run_ticks = r.turn_ticks, 0, 0
    elif f.vx * dx < 0:
        f.vx = f.vx * r.air_turn


def _jump(f: Fighter, r: BrawlRules) -> None:
    if f.in_air:
        f.vy = r.air_jump_speed
        f.jumps_left -= 1
    else:
        f.vy, f.support = r.jump_speed, "air"
    f.dash = 0


def _chosen_attack(f: Fighter, keys: Keys, dx: int) -> str | None:
    """Heavy beats light, up beats down, down beats the sides."""
    side = "down" if "down" in keys else "side"
    aim = "neutral" if "up" in keys or (side == "side" and dx == 0) else side
    if not f.in_air:
        weight = "heavy" if "heavy" in keys else "light" if "light" in keys else None
        return f"{aim}_{weight}" if weight else None
    if "heavy" in keys and aim == "down":
        return "ground_pound"
    if "heavy" in keys and f.recovery_left:
        return "recovery"
    return f"{aim}_air" if "light" in keys else None


# How it moves


def _toward(value: float, target: float, most: float) -> float:
    if value < target:
        return min(value + most, target)
    return max(value - most, target)


def _accelerate(f: Fighter, keys: Keys, dx: int, walks: bool, r: BrawlRules) -> None:
    if f.dodge > 0:
        f.vx, f.vy = f.direction * r.dodge_speed, 0.0
        return
    if f.in_air:
        _fall(f, keys, dx, r)
    elif f.dash > 0:
        forward = f.direction == f.facing
        f.vx = f.direction * (r.dash_speed if forward else r.back_dash_speed)
        f.run_ticks = r.run_after if forward else 0
    elif walks and dx != 0 and f.turn == 0:
        speed = r.run_speed if f.run_ticks >= r.run_after else r.walk_speed
        f.vx = _toward(f.vx, dx * speed, r.ground_acceleration * r.tick_seconds)
        if f.run_ticks < r.run_after:
            f.run_ticks += 1
    else:
        f.vx = _toward(f.vx, 0.0, (r.stun_friction if f.stun > 0 else r.ground_friction) * r.tick_seconds)
        f.run_ticks = 0
    _lunge(f)


def _fall(f: Fighter, keys: Keys, dx: int, r: BrawlRules) -> None:
    """Drift or drag, gravity, the fast fall and the limits."""
    dt = r.tick_seconds
    f.run_ticks = f.dash = 0
    if f.stun > 0:
        f.vx = _toward(f.vx, 0.0, r.stun_drag * dt)
    elif dx != 0:
        f.vx = _toward(f.vx, dx * r.air_speed, r.air_acceleration * dt)
    else:
        f.vx = _toward(f.vx, 0.0, r.air_drag * dt)
    f.vy -= r.gravity * dt
    fast = f.stun > 0 or (f.strike is not None and f.strike.lunge_y < 0.0)
    if not fast and "down" in keys and f.vy < 0.0:
        f.vy -= r.fast_fall * dt
        fast = True
    f.vy = max(f.vy, -(r.max_fast_fall if fast else r.max_fall))


def _lunge(f: Fighter) -> None:
    strike = f.strike
    if strike is None or f.move_tick != strike.startup:
        return
    if strike.lunge_x != 0.0:
        f.vx = f.facing * strike.lunge_x
    if strike.lunge_y != 0.0:
        f.vy = strike.lunge_y


def _travel(f: Fighter, stage: Stage) -> None:
    """Moves the fighter one tick along and meets the stage: tops from above, walls from the side."""
    r, old_x, old_y = stage.rules, f.x, f.y
    f.x += f.vx * r.tick_seconds
    if f.in_air:
        f.y += f.vy * r.tick_seconds
    elif f.support == "ground":
        f.support = "ground" if stage.over_ground(f.x) else "air"
    else:
        f.y = stage.platform_y
        f.support = "platform" if stage.over_pit(f.x) else "air"
    if not f.in_air:
        return
    _meet_stage(f, old_x, old_y, stage)
    if f.in_air:
        f.air_ticks += 1


def _meet_stage(f: Fighter, old_x: float, old_y: float, stage: Stage) -> None:
    """Feet in the air at (`old_x`, `old_y`) before this tick meet a ground, its wall or the platform."""
    if stage.over_ground(f.x) and f.y <= 0.0:
        if old_y >= 0.0:
            _land(f, "ground", 0.0, stage.rules)
            return
        _push_out(f, old_x, stage.rules)
    meets_platform = old_y >= stage.platform_was and f.y <= stage.platform_y and f.vy <= 0.0
    if stage.over_pit(f.x) and meets_platform:
        _land(f, "platform", stage.platform_y, stage.rules)


def _push_out(f: Fighter, old_x: float, r: BrawlRules) -> None:
    """Out of the ground's wall, on the side where it was."""
    outside = abs(old_x) > (r.edge_inner + r.edge_outer) * 0.5
    f.x = (1.0 if f.x > 0 else -1.0) * (r.edge_outer if outside else r.edge_inner)
    f.vx = 0.0


def _land(f: Fighter, support: str, level: float, r: BrawlRules) -> None:
    """Feet meet a top: a bounce while stunned and fast, else a landing that cuts an air strike short."""
    f.y = level
    if f.stun > 0 and f.vy < -r.bounce_speed:
        f.vy = -f.vy * r.bounce
        return
    f.vy, f.support, f.jumps_left, f.recovery_left = 0.0, support, r.air_jumps, True
    strike = f.strike
    if strike is None or not strike.air or f.move_tick >= strike.startup + strike.active:
        return
    follow_up = name_of(strike.on_land)
    if follow_up is not None:
        f.go_on_with(follow_up)
    else:
        f.move_tick = strike.startup + strike.active
