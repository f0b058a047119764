"""The record of a match, of which a state is made (`league.envs.blob`): the C struct itself."""

from __future__ import annotations

import numpy as np

from league.envs.blob import BlobFormat, Records, check_range
from league.envs.brawl.moves import STRIKES, WEAPONS
from league.envs.brawl.rules import BOTS, KEYS

_DOUBLES = ("x", "y", "vx", "vy", "damage", "damage_dealt")
_FAR = 1e6
_ANY = 1 << 30
AIR, GROUND, PLATFORM = 0, 1, 2
"""What a fighter stands on."""
INT_RANGES: dict[str, tuple[int, int]] = {
    "facing": (-1, 1),  # never 0
    "side": (-1, 1),  # never 0: the half in which it starts and respawns
    "support": (0, 2),  # AIR, GROUND or PLATFORM
    "stocks": (0, 99),
    "jumps_left": (0, 99),  # in the air
    "recovery_left": (0, 1),
    "stun": (0, _ANY),  # ticks left, as are the next ones
    "invulnerable": (0, _ANY),  # spawn protection only
    "dodge": (0, _ANY),
    "dash": (0, _ANY),
    "direction": (-1, 1),  # of the dodge or the dash
    "dodge_cooldown": (0, _ANY),
    "turn": (0, _ANY),
    "respawn": (0, _ANY),  # absent while above 0
    "credit": (0, _ANY),  # while above 0 the opponent is credited with a stock lost
    "move": (-1, len(STRIKES) - 1),  # the strike's id, NONE: none
    "move_tick": (0, 999),
    "move_hit": (0, 1),  # this strike has hit already
    "landed": (0, 1),  # a strike of this attack has hit already
    "charge": (0, 9999),  # ticks that this attack was held
    "combo": (0, 9999),  # hits taken in the last stun
    "weapon": (0, len(WEAPONS) - 1),
    "weapon_left": (0, _ANY),  # ticks
    "run_ticks": (0, _ANY),
    "keys": (0, (1 << len(KEYS)) - 1),  # held in the last tick, a bit a key
    "knock_outs": (0, _ANY),
    "self_destructs": (0, _ANY),
    "attacks": (0, _ANY),
    "hits": (0, _ANY),  # attacks that hit
    "combos": (0, _ANY),  # attacks whose first hit met a stunned opponent
    "dodges": (0, _ANY),
    "dashes": (0, _ANY),
    "pickups": (0, _ANY),
    "air_ticks": (0, _ANY),
    "field_ticks": (0, _ANY),  # not absent
    "controller": (-1, len(BOTS) - 1),  # EXTERNAL or a bot's id
}
"""Each integer of a fighter and the values that `set_state` accepts."""
ITEM_RANGES: dict[str, tuple[int, int]] = {
    "left": (0, _ANY),  # ticks that it will last in a hand
    "kind": (0, len(WEAPONS) - 1),  # what lies on this ground, 0: nothing
    "ticks": (0, _ANY),  # until it vanishes, or until the next one appears; 0: never
}

FIGHTER_DTYPE = np.dtype(
    [(name, "<f8") for name in _DOUBLES] + [("rng", "<u8")] + [(name, "<i4") for name in INT_RANGES]
)
ITEM_DTYPE = np.dtype([("x", "<f8"), ("left", "<i8"), ("kind", "<i4"), ("ticks", "<i4")])
STATE_DTYPE = np.dtype(
    [
        ("fighters", FIGHTER_DTYPE, (2,)),
        ("items", ITEM_DTYPE, (2,)),  # on the left ground, on the right one
        ("platform_y", "<f8"),
        ("platform_direction", "<f8"),  # -1 or 1
        ("seed", "<u8"),
        ("rng", "<u8"),  # splitmix64 states: a fighter's for its bot's draws, the match's for its start and its items
        ("tick", "<i8"),
    ]
)


def _check(records: Records) -> None:
    fighters, items = records["fighters"], records["items"]
    for name in _DOUBLES:
        check_range(f"fighters.{name}", fighters[name], -_FAR, _FAR)
    for name, (low, high) in INT_RANGES.items():
        check_range(f"fighters.{name}", fighters[name], low, high)
    for name in ("facing", "side"):
        _check_signs(f"fighters.{name}", fighters[name])
    check_range("items.x", items["x"], -_FAR, _FAR)
    for name, (low, high) in ITEM_RANGES.items():
        check_range(f"items.{name}", items[name], low, high)
    check_range("platform_y", records["platform_y"], -_FAR, _FAR)
    _check_signs("platform_direction", records["platform_direction"])
    check_range("tick", records["tick"], 0, _ANY)


def _check_signs(name: str, values: Records) -> None:
    bad = values[np.abs(values) != 1]
    if bad.size:
        raise ValueError(f"state: {name}={bad[0]} must be -1 or 1")


FORMAT = BlobFormat(b"LGBRAWL2", STATE_DTYPE, _check)
pack_state, unpack_state, regroup_states = FORMAT.pack, FORMAT.unpack, FORMAT.regroup
