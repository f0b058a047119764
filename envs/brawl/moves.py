"""Brawl's move table (`moves.toml`), read into one list of strikes."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

WEAPONS = ("unarmed", "spear", "hammer")
KINDS = (
    "neutral_light",
    "side_light",
    "down_light",
    "neutral_heavy",
    "side_heavy",
    "down_heavy",
    "neutral_air",
    "side_air",
    "down_air",
    "recovery",
    "ground_pound",
)
"""The attacks that keys can start; every weapon has each."""
TAUNT = "unarmed.taunt"
NONE = -1


@dataclass(frozen=True)
class Strike:
    """One blow; an attack is a strike and the follow-ups that it leads to. Units: `moves.toml`.

    It hits once during its active ticks. Ids are indices of `STRIKES`, NONE means no follow-up.
    """

    startup: int
    active: int
    recovery: int
    damage: float
    knockback: float
    growth: float
    angle_x: float
    angle_y: float
    offset_x: float
    offset_y: float
    half_width: float
    half_height: float
    stun: int
    lunge_x: float
    lunge_y: float
    weight: int
    aim: int
    charges: int
    air: int
    on_hit: int
    on_miss: int
    on_land: int

    @property
    def ticks(self) -> int:
        """How long it lasts without a follow-up."""
        return self.startup + self.active + self.recovery


@cache
def _rows() -> dict[str, dict[str, Any]]:
    text = resources.files(__package__).joinpath("moves.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    return {f"{weapon}.{name}": row for weapon in WEAPONS for name, row in table[weapon].items()}


def _strike(name: str, row: dict[str, Any], ids: dict[str, int]) -> Strike:
    weapon = name.partition(".")[0]
    row = {"damage": 0, "force": [0, 0], "angle": [0, 0], "box": [0, 0, 0, 0], "stun": 0, "lunge": [0, 0], **row}
    lists: dict[str, tuple[str, ...]] = {
        "force": ("knockback", "growth"),
        "angle": ("angle_x", "angle_y"),
        "lunge": ("lunge_x", "lunge_y"),
        "box": ("offset_x", "offset_y", "half_width", "half_height"),
    }
    fields: dict[str, Any] = {"damage": float(row.pop("damage"))}
    for key, names in lists.items():
        fields |= dict(zip(names, map(float, row.pop(key)), strict=True))
    for key in ("on_hit", "on_miss", "on_land"):
        fields[key] = ids[f"{weapon}.{row.pop(key)}"] if key in row else NONE
    for key in ("charges", "air"):
        fields[key] = int(row.pop(key, False))
    return Strike(**fields, **row)


NAMES: tuple[str, ...] = tuple(_rows())
"""`weapon.strike`, by id."""
IDS: dict[str, int] = {name: i for i, name in enumerate(NAMES)}
STRIKES: tuple[Strike, ...] = tuple(_strike(name, row, IDS) for name, row in _rows().items())
"""By id."""
