"""The bots of brawl's slow reference: each gives the keys that it presses, by name.

Each decision of a bot but `constant` takes one draw from its fighter's stream; `luck` is that draw, different bits of
it for different choices.
"""

from __future__ import annotations

from collections.abc import Callable

from league.envs.brawl.rules import KEYS, BrawlRules
from league.envs.brawl.styles import FAVOURITES, Style
from tests.oracles.brawl.state import Fighter, Stage

Pressed = set[str]
_STRIKES = {"light", "heavy"}


def constant(me: Fighter, other: Fighter, stage: Stage, style: Style) -> Pressed:
    """Presses nothing."""
    return set()


def random(me: Fighter, other: Fighter, stage: Stage, style: Style) -> Pressed:
    """Presses each key with probability one half."""
    bits = me.rng.draw() >> 54
    return {key for i, key in enumerate(KEYS) if bits >> i & 1}


def based(me: Fighter, other: Fighter, stage: Stage, style: Style) -> Pressed:
    """Walks up to the opponent, jumps when below it, strikes lightly when near. Knows no recovery."""
    luck, r = me.rng.draw(), stage.rules
    if _in_danger(me, r):
        return _return(me, stage, style, knows_recovery=False)
    keys = _seek(me, other.x, other, style, r) if other.present and other.stun == 0 else set()
    if other.present and other.y - me.y > 1.5 and me.vy <= 0.0 and luck % 4 == 0:
        keys |= _pressed_again(me, "jump")
    if _is_near(me, other, r.bot_reach_x * style.reach, r) and (luck >> 8) % 8 < 5:
        keys.add("light")
    return keys


def rusher(me: Fighter, other: Fighter, stage: Stage, style: Style) -> Pressed:
    """Always at the opponent: dashes in, hardly hesitates, strikes with heavies once the opponent is worn."""
    luck, r = me.rng.draw(), stage.rules
    if _in_danger(me, r):
        return _return(me, stage, style, knows_recovery=True)
    if not other.present:
        return _walk_home(me, r)
    across, above = other.x - me.x, other.y - me.y
    if _is_near(me, other, _reach(me, style, r), r):
        if (luck >> 32) % 8 == 0:
            return {"right" if across > 0.0 else "left"}
        if not me.in_air and above > 1.0:
            return {"up", "heavy" if luck % 4 == 0 else "light"}
        return _strike(me, across, other.damage > 40.0 and (luck >> 8) % 4 > 0, stage)
    keys = _seek(me, other.x, other, style, r)
    may_dash = not me.in_air and me.dodge_cooldown == 0 and across * me.facing > 0.0
    if abs(across) > 3.0 and may_dash and _has_room(me, across, 3.0, stage):
        keys |= _pressed_again(me, "dodge")
    if above > 1.5 and me.vy <= 0.0 and (luck >> 24) % 2:
        keys |= _pressed_again(me, "jump")
    return keys


def zoner(me: Fighter, other: Fighter, stage: Stage, style: Style) -> Pressed:
    """Fetches weapons, keeps at the end of its reach, steps back from who comes too near."""
    luck, r = me.rng.draw(), stage.rules
    if _in_danger(me, r):
        return _return(me, stage, style, knows_recovery=True)
    across, reach = other.x - me.x, _reach(me, style, r)
    if not me.armed:
        if stage.in_reach(me) and "pickup" not in me.keys:
            return {"pickup"}
        item = stage.nearest_item(me)
        if item is not None and item.x != me.x and (abs(across) > reach or luck % 4):
            return _walk(me, item.x, r)
    if not other.present:
        return _walk_home(me, r)
    if not _is_near(me, other, reach, r):
        return _seek(me, other.x - _sign(across) * reach * 0.8, other, style, r)
    crowded = abs(across) < reach * 0.4 and across * me.facing > 0.0 and luck % 4 == 0
    may_dash = not me.in_air and me.dodge_cooldown == 0 and "dodge" not in me.keys
    if crowded and may_dash and _has_room(me, -across, 2.5, stage):
        return {_way(-across), "dodge"}
    return _strike(me, across, (luck >> 16) % 8 < 2, stage)


def edge_guarder(me: Fighter, other: Fighter, stage: Stage, style: Style) -> Pressed:
    """Waits on the ground it likes; whoever is off it is met at the edge, in the air or from above."""
    luck, r = me.rng.draw(), stage.rules
    if _in_danger(me, r):
        return _return(me, stage, style, knows_recovery=True)
    if not other.present:
        return _walk_home(me, r)
    across, above = other.x - me.x, other.y - me.y
    if _in_danger(other, r):
        if abs(across) < 1.2 and above < -0.5:
            return {"down", "light"} if me.in_air else _pressed_again(me, "jump")
        if _is_near(me, other, r.bot_reach_x * style.reach + 0.4, r):
            return _strike(me, across, luck % 2 == 1, stage)
        return _walk(me, other.x, r)
    if _is_near(me, other, _reach(me, style, r), r) and luck % 4:
        if not me.in_air and (luck >> 8) % 4 == 0:
            return {"down", "heavy"}
        return _strike(me, across, (luck >> 16) % 8 < 3, stage)
    return _seek(me, other.x if abs(across) < 4.0 else (me.x + other.x) * 0.5, other, style, r)


def punisher(me: Fighter, other: Fighter, stage: Stage, style: Style) -> Pressed:
    """Stays just out of reach, dodges what is swung at it and strikes into the recovery."""
    luck, r = me.rng.draw(), stage.rules
    if _in_danger(me, r):
        return _return(me, stage, style, knows_recovery=True)
    if not other.present:
        return _walk_home(me, r)
    across, reach = other.x - me.x, _reach(me, style, r)
    if _is_near(me, other, reach + 0.8, r) and _threatens(other):
        may_dodge = me.dodge_cooldown == 0 and "dodge" not in me.keys
        return {"dodge"} if may_dodge and luck % 8 < 4 else {_way(-across)}
    if _is_near(me, other, reach, r):
        if other.busy > 0 or luck % 4 == 0:
            return _strike(me, across, other.busy > 10, stage)
        return {_way(-across)} if (luck >> 8) % 2 else set()
    return _seek(me, other.x - _sign(across) * reach * 0.9, other, style, r)


def charger(me: Fighter, other: Fighter, stage: Stage, style: Style) -> Pressed:
    """Stands on its ground and holds heavy attacks until somebody comes near."""
    luck, r = me.rng.draw(), stage.rules
    across, home = other.x - me.x, _sign(me.x) * r.spawn_x
    if _in_danger(me, r):
        return _return(me, stage, style, knows_recovery=True)
    if me.in_air:
        return _walk(me, home, r)
    if me.strike is not None and me.strike.charges and me.move_tick < me.strike.startup:
        return set() if luck % 8 == 0 and _is_near(me, other, _reach(me, style, r), r) else {"heavy"}
    if not other.present:
        return _walk(me, home, r)
    if abs(across) > (6.0 if (luck >> 4) % 4 > 0 else 2.0):
        return _seek(me, other.x - _sign(across), other, style, r)
    if other.y - me.y > 1.2:
        return {"up", "heavy"}
    if (luck >> 8) % 4 == 0 and _has_room(me, across, 1.2, stage):
        return {_way(across), "heavy"}
    return {"down", "heavy"}


PRESSED: dict[str, Callable[[Fighter, Fighter, Stage, Style], Pressed]] = {
    "constant": constant,
    "random": random,
    "based": based,
    "rusher": rusher,
    "zoner": zoner,
    "edge_guarder": edge_guarder,
    "punisher": punisher,
    "charger": charger,
}
"""By the names of `rules.BOTS`."""


# Their style


def looks(tick: int, style: Style, rules: BrawlRules) -> bool:
    """Whether a bot decides afresh at `tick`: a multiple of its pause has come since the decision before."""
    pause, before = int(style.pause), tick - rules.ticks_per_step
    return before < 0 or tick // pause != before // pause


def in_style(me: Fighter, other: Fighter, keys: Pressed, whims: int, style: Style, stage: Stage) -> Pressed:
    """What a style makes of a bot's keys where it is in no danger: what it likes, a dodge, another strike or none."""

    def has_whim(byte: int, share: float) -> bool:
        return float(whims >> (8 * byte) & 255) < share * 256.0

    if _in_danger(me, stage.rules):
        return keys
    near = _is_near(me, other, _reach(me, style, stage.rules) + 0.8, stage.rules)
    if near and has_whim(5, style.habit):
        deed = _deed(me, other, FAVOURITES[int(style.favourite)], stage)
        return keys if deed is None else deed
    if near and has_whim(0, style.caution) and _may_dodge(me) and _threatens(other):
        return {"dodge"}
    if not me.in_air and has_whim(1, style.jumpiness):
        keys = keys | _pressed_again(me, "jump")
    if not keys & _STRIKES:
        return keys
    if has_whim(2, style.hesitation):
        return keys - _STRIKES
    if not me.in_air and keys & {"left", "right"}:
        if "heavy" not in keys and has_whim(3, style.heaviness):
            keys = keys - _STRIKES | {"heavy"}
        elif "heavy" in keys and has_whim(3, -style.heaviness):
            keys = keys - _STRIKES | {"light"}
    if has_whim(4, abs(style.aim)):
        keys = keys - {"up", "left", "down", "right"} | {"up" if style.aim > 0.0 else "down"}
    return keys


def _deed(me: Fighter, other: Fighter, favourite: str, stage: Stage) -> Pressed | None:
    """What a bot likes to do near the opponent; None while it cannot."""
    across = other.x - me.x
    if favourite in _STRIKES:
        return _strike(me, across, favourite == "heavy", stage)
    if favourite == "wait":
        if _threatens(other):
            return _walk(me, me.x - _sign(across) * 2.0, stage.rules)
        return _strike(me, across, True, stage) if other.busy > 0 else set()
    if _may_dodge(me):
        return {"dodge"}
    return None if favourite == "dodge" else _strike(me, across, True, stage)


# What they see and how they get about


def _sign(way: float) -> float:
    return 1.0 if way > 0.0 else -1.0


def _way(way: float) -> str:
    return "right" if way > 0.0 else "left"


def _pressed_again(me: Fighter, key: str) -> Pressed:
    """A key that acts on a new press, unless it is held."""
    return {key} - me.keys


def _may_dodge(me: Fighter) -> bool:
    return me.dodge_cooldown == 0 and "dodge" not in me.keys


def _reach(me: Fighter, style: Style, r: BrawlRules) -> float:
    return (r.bot_spear_reach_x if me.weapon == "spear" else r.bot_reach_x) * style.reach


def _in_danger(f: Fighter, r: BrawlRules) -> bool:
    """Off the grounds, or low over the pit."""
    return f.in_air and (f.y < 0.0 or abs(f.x) > r.edge_outer or (abs(f.x) < r.edge_inner and f.y < 0.5))


def _is_near(me: Fighter, other: Fighter, reach: float, r: BrawlRules) -> bool:
    return other.present and abs(other.x - me.x) < reach and abs(other.y - me.y) < r.bot_reach_y


def _threatens(f: Fighter) -> bool:
    """It winds up a strike or strikes, and has not hit yet."""
    return f.strike is not None and f.move_tick < f.strike.startup + f.strike.active and not f.move_hit


def _has_room(me: Fighter, way: float, room: float, stage: Stage) -> bool:
    """Is there the same ground `room` units that way?"""
    there = me.x + _sign(way) * room
    return stage.over_ground(me.x) and stage.over_ground(there) and me.x * there > 0


def _strike(me: Fighter, across: float, heavy: bool, stage: Stage) -> Pressed:
    """A strike toward `across`; near an edge the light one on the spot, which does not carry over it."""
    if me.in_air:
        return {_way(across), "light"}
    if not _has_room(me, across, 1.2, stage):
        return {"light"}
    return {_way(across), "heavy" if heavy else "light"}


def _return(me: Fighter, stage: Stage, style: Style, knows_recovery: bool) -> Pressed:
    """Back to a ground: over it, out of the pit the way it looks; jumps while it falls, then the recovery."""
    keys = {_way(-me.x if abs(me.x) > stage.rules.edge_inner else me.facing)}
    if me.vy > 0.0 or me.y > style.return_height or me.busy > 0:
        return keys
    if me.jumps_left > 0:
        return keys | _pressed_again(me, "jump")
    return keys | {"up", "heavy"} if knows_recovery and me.recovery_left else keys


def _walk_home(me: Fighter, r: BrawlRules) -> Pressed:
    return _walk(me, me.side * r.spawn_x, r)


def _seek(me: Fighter, target: float, other: Fighter, style: Style, r: BrawlRules) -> Pressed:
    """Toward `target` (x), where it would meet `other` if its style drew it nowhere else."""
    home = _sign(style.territory) * me.side * r.spawn_x
    target = target - _sign(other.x - me.x) * style.distance
    return _walk(me, target + abs(style.territory) * (home - target), r)


def _walk(me: Fighter, target: float, r: BrawlRules) -> Pressed:
    """Toward `target` (x), over the pit with a jump, never past an outer edge's margin."""
    limit = r.edge_outer - r.bot_margin
    across = max(-limit, min(limit, target)) - me.x
    if abs(across) < 0.3:
        return set()
    keys = {_way(across)}
    if me.support == "ground" and abs(me.x) < r.edge_inner + 1.0 and across * me.x < 0.0:
        keys |= _pressed_again(me, "jump")
    return keys
