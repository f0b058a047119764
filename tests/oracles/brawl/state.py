"""The nouns of brawl's slow reference: random streams, fighters, items and the stage.

Strikes, weapons, keys and what a fighter stands on have names here, where the state has numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from league.envs.brawl.moves import IDS, NAMES, NONE, STRIKES, WEAPONS, Strike
from league.envs.brawl.rules import KEYS, BrawlRules
from league.envs.brawl.state import INT_RANGES
from league.types import EXTERNAL
from tests.oracles.shared import Stream

SUPPORTS = ("air", "ground", "platform")
"""By the number that the state has for each."""
_FLAGS = ("recovery_left", "move_hit", "landed")
_FLOATS = ("x", "y", "vx", "vy", "damage", "damage_dealt")
_COUNTERS = ("knock_outs", "self_destructs", "attacks", "hits", "combos", "dodges", "dashes", "pickups")
_KEPT = ("side", "stocks", "rng", "damage_dealt", "controller", *_COUNTERS, "air_ticks", "field_ticks")
"""What coming back to the field leaves as it was."""

Keys = frozenset[str]


def strike_named(name: str) -> Strike:
    """The strike called `weapon.strike`."""
    return STRIKES[IDS[name]]


def name_of(strike_id: int) -> str | None:
    """The strike's name, None for `NONE`."""
    return None if strike_id == NONE else NAMES[strike_id]


@dataclass
class Item:
    """What lies on one ground, `kind` "unarmed" being nothing.

    `ticks` until it vanishes, or until the next appears; `left` are the ticks that it will last in a hand.
    """

    x: float = 0.0
    left: int = 0
    kind: str = "unarmed"
    ticks: int = 0

    @property
    def lies(self) -> bool:
        """Is there a weapon?"""
        return self.kind != "unarmed"

    @classmethod
    def of_record(cls, record: Any) -> Item:
        """The inverse of `record`, from a scalar of `state.ITEM_DTYPE`."""
        return cls(float(record["x"]), int(record["left"]), WEAPONS[record["kind"]], int(record["ticks"]))

    def record(self) -> tuple[float, int, int, int]:
        """The values of `state.ITEM_DTYPE`, in its order."""
        return self.x, self.left, WEAPONS.index(self.kind), self.ticks


@dataclass
class Fighter:
    """One fighter; names, units and ranges as in `state.py`."""

    side: int
    stocks: int
    rng: Stream
    x: float = 0.0
    y: float = 0.0
    vx: float = 0.0
    vy: float = 0.0
    damage: float = 0.0
    damage_dealt: float = 0.0
    facing: int = 1
    support: str = "air"
    jumps_left: int = 0
    recovery_left: bool = True
    stun: int = 0
    invulnerable: int = 0
    dodge: int = 0
    dash: int = 0
    direction: int = 0
    dodge_cooldown: int = 0
    turn: int = 0
    respawn: int = 0
    credit: int = 0
    move: str | None = None
    move_tick: int = 0
    move_hit: bool = False
    landed: bool = False
    charge: int = 0
    combo: int = 0
    weapon: str = "unarmed"
    weapon_left: int = 0
    run_ticks: int = 0
    keys: Keys = frozenset()
    knock_outs: int = 0
    self_destructs: int = 0
    attacks: int = 0
    hits: int = 0
    combos: int = 0
    dodges: int = 0
    dashes: int = 0
    pickups: int = 0
    air_ticks: int = 0
    field_ticks: int = 0
    controller: int = EXTERNAL

    def place(self, x: float, y: float, rules: BrawlRules) -> None:
        """Puts it afresh at `x` on its own side, facing the middle."""
        for item in fields(Fighter):
            if item.name not in _KEPT:
                setattr(self, item.name, item.default)
        self.x, self.y, self.facing = self.side * x, y, -self.side
        self.support = "ground" if y == 0.0 else "air"
        self.jumps_left = rules.air_jumps

    @property
    def present(self) -> bool:
        """Is it on the field, rather than waiting to come back?"""
        return self.respawn == 0

    @property
    def in_air(self) -> bool:
        """Does it stand on nothing?"""
        return self.support == "air"

    @property
    def armed(self) -> bool:
        """Does it hold a weapon?"""
        return self.weapon != "unarmed"

    @property
    def half(self) -> int:
        """The ground on its half of the field: 0 the left one, 1 the right one."""
        return 0 if self.x < 0 else 1

    @property
    def strike(self) -> Strike | None:
        """What it is doing, a taunt included."""
        return None if self.move is None else strike_named(self.move)

    @property
    def busy(self) -> int:
        """How many coming ticks it has no control for."""
        return self.respawn if self.respawn > 0 else max(0, self.stun, self.dodge, self._rest())

    def _rest(self) -> int:
        """The ticks left of the strike, at the least: landing may cut one of the air to its recovery."""
        if self.strike is None:
            return 0
        left = self.strike.ticks - self.move_tick
        return min(left, self.strike.recovery) if self.strike.air else left

    @property
    def can_act(self) -> bool:
        """May it start something in the next tick?"""
        return self.busy == 0

    def begin(self, move: str) -> None:
        """Starts a new attack, or the taunt."""
        self.end_move()
        self.move, self.dash = move, 0

    def go_on_with(self, move: str) -> None:
        """Begins a follow-up: `landed` and `charge` belong to the attack as a whole."""
        self.move, self.move_tick, self.move_hit = move, 0, False

    def end_move(self) -> None:
        """Leaves it without a strike."""
        self.move, self.move_tick, self.move_hit, self.landed, self.charge = None, 0, False, False, 0

    @classmethod
    def of_record(cls, record: Any) -> Fighter:
        """The inverse of `record`, from a scalar of `state.FIGHTER_DTYPE`."""
        values: dict[str, Any] = {name: float(record[name]) for name in _FLOATS}
        values |= {name: int(record[name]) for name in INT_RANGES}
        values |= {name: bool(record[name]) for name in _FLAGS}
        keys = frozenset(key for i, key in enumerate(KEYS) if values["keys"] >> i & 1)
        named = {"support": SUPPORTS[values["support"]], "weapon": WEAPONS[values["weapon"]], "keys": keys}
        return cls(**values | named | {"move": name_of(values["move"]), "rng": Stream(int(record["rng"]))})

    def record(self) -> tuple[float | int, ...]:
        """The values of `state.FIGHTER_DTYPE`, in its order."""
        numbers = {
            "support": SUPPORTS.index(self.support),
            "move": NONE if self.move is None else IDS[self.move],
            "weapon": WEAPONS.index(self.weapon),
            "keys": sum(1 << i for i, key in enumerate(KEYS) if key in self.keys),
        }
        values = vars(self) | numbers
        return (*(values[name] for name in _FLOATS), self.rng.state, *(int(values[name]) for name in INT_RANGES))


@dataclass
class Stage:
    """What the fighters stand on and pick up; `platform_was` is the platform's height in the tick before."""

    rules: BrawlRules
    platform_y: float
    platform_direction: float
    platform_was: float = 0.0
    items: list[Item] = field(default_factory=lambda: [Item(), Item()])

    def move_platform(self) -> None:
        """One tick up or down; it turns at its ends."""
        r = self.rules
        self.platform_was = self.platform_y
        self.platform_y += self.platform_direction * r.platform_speed * r.tick_seconds
        if self.platform_y >= r.platform_high:
            self.platform_y, self.platform_direction = r.platform_high, -1.0
        elif self.platform_y <= r.platform_low:
            self.platform_y, self.platform_direction = r.platform_low, 1.0

    def over_ground(self, x: float) -> bool:
        """Does a ground carry feet there?"""
        return self.rules.edge_inner <= abs(x) <= self.rules.edge_outer

    def over_pit(self, x: float) -> bool:
        """Does the platform carry feet there?"""
        return abs(x) <= self.rules.edge_inner

    def in_reach(self, f: Fighter) -> bool:
        """Can the fighter pick up what lies on its ground?"""
        item = self.items[f.half]
        return f.support == "ground" and item.lies and abs(f.x - item.x) <= self.rules.pickup_reach

    def nearest_item(self, f: Fighter) -> Item | None:
        """The weapon on the grounds nearest to the fighter along x, the left one on a tie; None where none lies."""
        return min((item for item in self.items if item.lies), key=lambda item: abs(item.x - f.x), default=None)
