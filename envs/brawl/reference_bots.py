"""The bots of brawl's slow twin: each gives the keys that it presses, by name.

Each decision of a bot but `constant` takes one draw from its fighter's stream; `luck` is that draw, different bits of
it for different choices.
"""

from __future__ import annotations

from collections.abc import Callable

from league.envs.brawl.reference_state import Fighter, Stage
from league.envs.brawl.rules import KEYS, Rules

Pressed = set[str]


def constant(me: Fighter, other: Fighter, stage: Stage) -> Pressed:
    """Presses nothing."""
    return set()


def random(me: Fighter, other: Fighter, stage: Stage) -> Pressed:
    """Presses each key with probability one half."""
    bits = me.rng.draw() >> 54
    return {key for i, key in enumerate(KEYS) if bits >> i & 1}


def based(me: Fighter, other: Fighter, stage: Stage) -> Pressed:
    """Walks up to the opponent, jumps when below it, strikes lightly when near. Knows no recovery."""
    luck, r = me.rng.draw(), stage.rules
    if _in_danger(me, r):
        return _return(me, knows_recovery=False, rules=r)
    keys = _walk(me, other.x, r) if other.present and other.stun == 0 else set()
    if other.present and other.y - me.y > 1.5 and me.vy <= 0.0 and luck % 4 == 0:
        keys |= _anew(me, "jump")
    if _is_near(me, other, r.bot_reach_x, r) and (luck >> 8) % 8 < 5:
        keys.add("light")
    return keys


def rusher(me: Fighter, other: Fighter, stage: Stage) -> Pressed:
    """Always at the opponent: dashes in, follows up on stunned ones, heavies when they are weak."""
    luck, r = me.rng.draw(), stage.rules
    if _in_danger(me, r):
        return _return(me, knows_recovery=True, rules=r)
    if not other.present:
        return _walk_home(me, r)
    across, above = other.x - me.x, other.y - me.y
    if _is_near(me, other, _reach(me, r), r):
        return _rush_strike(me, other, luck)
    keys = _walk(me, other.x, r)
    can_dash = not me.in_air and me.dodge_cooldown == 0 and _way(me.facing) in keys and "jump" not in keys
    if abs(across) > 3.0 and can_dash and abs(me.x) > r.edge_inner + 2.5:
        keys |= _anew(me, "dodge")
    if above > 1.5 and me.vy <= 0.0 and (luck >> 24) % 2:
        keys |= _anew(me, "jump")
    return keys


def _rush_strike(me: Fighter, other: Fighter, luck: int) -> Pressed:
    ahead = _way(other.x - me.x)
    if me.in_air:
        return {ahead, "light"}
    if other.y - me.y > 1.0:
        return {"up", "heavy" if luck % 4 == 0 else "light"}
    if (other.stun > 6 or other.damage > 70.0) and (luck >> 8) % 2:
        return {ahead, "heavy"}
    return {ahead, "light"} if (luck >> 16) % 4 else {"light"}


def zoner(me: Fighter, other: Fighter, stage: Stage) -> Pressed:
    """Fetches weapons, keeps at the end of its reach, steps back from who comes too near."""
    luck, r = me.rng.draw(), stage.rules
    if _in_danger(me, r):
        return _return(me, knows_recovery=True, rules=r)
    across, reach = other.x - me.x, _reach(me, r)
    if not me.armed:
        if stage.in_reach(me) and "pickup" not in me.keys:
            return {"pickup"}
        item = stage.nearest_item(me)
        if item is not None and item.x != me.x and (abs(across) > reach or luck % 2):
            return _walk(me, item.x, r)
    if not other.present:
        return _walk_home(me, r)
    if not _is_near(me, other, reach, r):
        return _walk(me, other.x - _sign(across) * reach * 0.8, r)
    cornered = abs(across) < reach * 0.4 and not me.in_air and me.dodge_cooldown == 0 and luck % 4 == 0
    has_room = across * me.facing > 0.0 and abs(me.x - _sign(across) * 2.5) < r.edge_outer
    if cornered and has_room and "dodge" not in me.keys:
        return {_way(-across), "dodge"}
    if (luck >> 8) % 8 < 6:
        return {_way(across), "heavy" if not me.in_air and (luck >> 16) % 8 < 2 else "light"}
    return set()


def edge_guarder(me: Fighter, other: Fighter, stage: Stage) -> Pressed:
    """Waits on the ground it likes; whoever is off it is met at the edge, in the air or from above."""
    luck, r = me.rng.draw(), stage.rules
    if _in_danger(me, r):
        return _return(me, knows_recovery=True, rules=r)
    if not other.present:
        return _walk_home(me, r)
    across = other.x - me.x
    if _in_danger(other, r):
        return _guard(me, other, luck, r)
    if _is_near(me, other, _reach(me, r), r) and luck % 4:
        if me.in_air:
            return {_way(across), "light"}
        aim = "down" if (luck >> 8) % 4 == 0 else _way(across)
        return {aim, "heavy" if (luck >> 16) % 8 < 3 else "light"}
    return _walk(me, other.x if abs(across) < 4.0 else (me.x + other.x) * 0.5, r)


def _guard(me: Fighter, other: Fighter, luck: int, r: Rules) -> Pressed:
    """Meets an opponent that is on its way back."""
    across, above = other.x - me.x, other.y - me.y
    if abs(across) < 1.2 and above < -0.5:
        return {"down", "light"} if me.in_air else _anew(me, "jump")
    if _is_near(me, other, r.bot_reach_x + 0.4, r):
        return {_way(across), "light" if me.in_air or luck % 2 else "heavy"}
    return _walk(me, other.x, r)


def punisher(me: Fighter, other: Fighter, stage: Stage) -> Pressed:
    """Stays just out of reach, dodges what is swung at it and strikes into the recovery."""
    luck, r = me.rng.draw(), stage.rules
    if _in_danger(me, r):
        return _return(me, knows_recovery=True, rules=r)
    if not other.present:
        return _walk_home(me, r)
    across, reach = other.x - me.x, _reach(me, r)
    ahead, away = _way(across), _way(-across)
    if _is_near(me, other, reach + 0.8, r) and _threatens(other):
        can_dodge = me.dodge_cooldown == 0 and "dodge" not in me.keys
        return {"dodge"} if can_dodge and luck % 8 < 6 else {away}
    if _is_near(me, other, reach, r):
        if other.busy > 10 and not me.in_air:
            return {ahead, "heavy"}
        if other.busy > 0 or luck % 4 == 0:
            return {ahead, "light"}
        return {away} if (luck >> 8) % 2 else set()
    return _walk(me, other.x - _sign(across) * reach * 0.9, r)


PRESSED: dict[str, Callable[[Fighter, Fighter, Stage], Pressed]] = {
    "constant": constant,
    "random": random,
    "based": based,
    "rusher": rusher,
    "zoner": zoner,
    "edge_guarder": edge_guarder,
    "punisher": punisher,
}
"""By the names of `rules.BOTS`."""


# What they see and how they get about


def _sign(way: float) -> float:
    return 1.0 if way > 0.0 else -1.0


def _way(way: float) -> str:
    return "right" if way > 0.0 else "left"


def _anew(me: Fighter, key: str) -> Pressed:
    """A key that acts when pressed anew, unless it is held."""
    return {key} - me.keys


def _reach(me: Fighter, r: Rules) -> float:
    return r.bot_spear_reach_x if me.weapon == "spear" else r.bot_reach_x


def _in_danger(f: Fighter, r: Rules) -> bool:
    """Off the outer edges, or low in the pit."""
    return f.in_air and (abs(f.x) > r.edge_outer or (abs(f.x) < r.edge_inner and f.y < 0.5))


def _is_near(me: Fighter, other: Fighter, reach: float, r: Rules) -> bool:
    return other.present and abs(other.x - me.x) < reach and abs(other.y - me.y) < r.bot_reach_y


def _threatens(f: Fighter) -> bool:
    """It winds up a strike or strikes, and has not hit yet."""
    return f.strike is not None and f.move_tick < f.strike.startup + f.strike.active and not f.move_hit


def _return(me: Fighter, knows_recovery: bool, rules: Rules) -> Pressed:
    """Back to a ground: in from outside, out of the pit the way it looks; jumps while it falls, then the recovery."""
    keys = {_way(-me.x if abs(me.x) > rules.edge_outer else me.facing)}
    if me.vy > 0.0 or me.y > 2.0:
        return keys
    if me.jumps_left > 0:
        return keys | _anew(me, "jump")
    return keys | {"up", "heavy"} if knows_recovery and me.recovery_left else keys


def _walk_home(me: Fighter, r: Rules) -> Pressed:
    return _walk(me, me.side * r.spawn_x, r)


def _walk(me: Fighter, target: float, r: Rules) -> Pressed:
    """Toward `target` (x), over the pit with a jump, never past an outer edge's margin."""
    limit = r.edge_outer - r.bot_margin
    across = max(-limit, min(limit, target)) - me.x
    if abs(across) < 0.3:
        return set()
    keys = {_way(across)}
    if me.support == "ground" and abs(me.x) < r.edge_inner + 0.6 and across * me.x < 0.0:
        keys |= _anew(me, "jump")
    return keys
