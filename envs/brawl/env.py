"""Brawl as the engine sees it: options, spec, the observation's field table, and `make`."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from league.envs.brawl.moves import NAMES, STRIKES
from league.envs.brawl.rules import BOTS, END_REASONS, KEYS, METRICS, TERMS, TICK_RATE, BrawlRules
from league.envs.brawl.styles import RANGES, STYLES
from league.envs.drawing import Drawing
from league.types import ActionSpec, GameSpec, MatchBatch

__all__ = ["FIELDS", "KEYS", "SPEC", "Options", "drawing", "make", "rules_of", "spec"]

KEYBOARD = {"light": "a", "heavy": "s", "dodge": "d", "pickup": "w", "taunt": "q"}
"""Key -> key of the keyboard, for a person who plays; directions are the arrows, and space jumps."""
HALF = 32
VERSION = 2


def _off_as_none(value: object) -> object:
    return None if value == "off" else value


class Options(BaseModel):
    """What a user may change about brawl. Equal options are the same game."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    ticks_per_step: int = Field(3, ge=1, le=30, description="ticks (1/30 s) that a decision's keys are held")
    time_limit_seconds: float = Field(40.0, ge=1.0, le=3600.0, description="seconds until the clock decides")
    stocks: int = Field(3, ge=1, le=9, description="stocks that each fighter starts with")
    weapons: bool = Field(True, description="whether spears and hammers appear on the grounds")
    respawn_seconds: float = Field(1.5, ge=0.1, le=10.0, description="seconds away after a lost stock")
    protection_seconds: float = Field(2.0, ge=0.0, le=10.0, description="seconds safe after a respawn, at most")
    bot_styles: Annotated[Literal["train", "held_out"] | None, BeforeValidator(_off_as_none)] = Field(
        None, description='where each match draws its bots\' styles: "train", "held_out", or "off": none is drawn'
    )


FIELDS: tuple[tuple[str, str, str, tuple[float, float]], ...] = (
    ("x", "position, right of the middle", "blast_side = 12 units, clipped", (-1, 1)),
    ("y", "height of the feet over the grounds", "blast_top = 10 units, clipped", (-1, 1)),
    ("vx", "velocity to the right", "20 units/s, clipped", (-1, 1)),
    ("vy", "velocity upward", "20 units/s, clipped", (-1, 1)),
    ("facing", "right 1, left -1", "flag", (-1, 1)),
    ("standing", "on a ground 1, on the platform 0.5, in the air 0", "flag", (0, 1)),
    ("to_other_x", "d / (abs(d) + 2), d the way right to the other", "squashed units", (-1, 1)),
    ("to_other_y", "d / (abs(d) + 2), d the way up to the other", "squashed units", (-1, 1)),
    ("damage", "damage taken on this stock", "150 points, clipped", (0, 1)),
    ("stocks", "stocks left", "share of the first ones", (0, 1)),
    ("jumps_left", "jumps left, the one from the ground included", "share of 3", (0, 1)),
    ("recovery_left", "the recovery of this airtime is still there", "flag", (0, 1)),
    ("stun", "ticks without control left", "60 ticks", (0, 1)),
    ("safe", "ticks in which nothing hits it; below 0: ticks until it is back", "60 ticks", (-1, 1)),
    ("dodge_cooldown", "ticks until the next dodge or dash", "70 ticks", (0, 1)),
    ("weapon", "in hand: spear -1, hammer 1, none 0", "flag", (-1, 1)),
    ("weapon_left", "ticks until it is worn out", "450 ticks", (0, 1)),
    ("startup", "start-up ticks left of the strike", "20 ticks", (0, 1)),
    ("active", "active ticks left of the strike, below 0 once it has hit", "20 ticks", (-1, 1)),
    ("recovery", "recovery ticks left of the strike", "20 ticks", (0, 1)),
    ("weight", "the strike is heavy 1, light -1", "flag", (-1, 1)),
    ("aim", "the strike is neutral or up 1, side 0, down -1", "flag", (-1, 1)),
    ("charge", "how long the heavy was held", "24 ticks", (0, 1)),
    ("item_x", "d / (abs(d) + 2), d the way right to the nearest weapon on the grounds", "squashed units", (-1, 1)),
    ("item", "that weapon: spear -1, hammer 1, none 0", "flag", (-1, 1)),
    ("platform_y", "height of the platform over the grounds", "2 units", (-1, 1)),
    ("platform_way", "the platform rises 1, sinks -1", "flag", (-1, 1)),
    ("time_left", "time left of the match", "share of the limit", (0, 1)),
    ("held_x", "right held 1, left held -1, in the last tick", "keys", (-1, 1)),
    ("held_y", "up held 1, down held -1", "keys", (-1, 1)),
    ("held_attack", "light held 1, heavy held 2, summed", "3", (0, 1)),
    ("held_other", "jump 1, dodge 2, pickup 4, taunt 8, summed", "15", (0, 1)),
)
"""(name, meaning, unit of 1.0, range) of the 32 floats of one half; index 32 + i is the opponent's i."""

ABOUT = "A platform fighter for two: weapons, combos, knock-outs."
MEANINGS: dict[str, dict[str, str]] = {
    "keys": {
        "up": "aims attacks up",
        "left": "walks, runs, drifts; aims attacks sideways; with `dodge` on the ground: dashes",
        "down": "aims attacks down; falls faster; a new press on the platform: falls through it",
        "right": "as left",
        "jump": "on a new press: from the ground, twice more in the air",
        "pickup": "on a new press: takes the weapon within reach, before any attack; drops the one in hand, after any",
        "dodge": "on a new press: nothing hits for 10 ticks; along the ground a dash, backward a back-dash, not safe",
        "light": "a quick attack",
        "heavy": "a strong one, on the ground the longer held the stronger; in the air the recovery or a ground pound",
        "taunt": "on a new press, on the ground: does nothing for 20 ticks",
    },
    "reward terms": {
        "damage_dealt": "points of damage dealt, in hundreds",
        "damage_taken": "points of damage taken, in hundreds",
        "knock_out": "1 when the opponent loses a stock within 90 ticks of a hit",
        "stock_lost": "1 when the own stock is lost, however",
        "win": "1 at the end of a match won, -1 of one lost",
        "combo": "1 for an attack whose first hit meets a stunned opponent",
        "weapon_taken": "1 when a weapon is taken",
        "weapon_lost": "1 when it is dropped, worn out, lost with the stock or laid down at the end",
        "danger_zone": "seconds in the air beyond the outer edges or below the grounds",
        "approach": "units that the own motion takes off the distance to the opponent",
        "attack": "1 for each attack started",
        "hit": "1 for each attack that hits",
    },
    "metrics": {
        "damage_dealt": "points",
        "knock_outs": "opponent's stocks lost to a hit of the last 90 ticks",
        "self_destructs": "own stocks lost otherwise",
        "stocks_left": "own stocks at the end",
        "attacks": "attacks started",
        "hits": "attacks that hit",
        "hit_share": "hits / attacks, 0 without attacks",
        "combos": "attacks whose first hit met a stunned opponent",
        "dodges": "dodges",
        "dashes": "dashes and back-dashes",
        "pickups": "weapons taken",
        "air_time": "seconds in the air",
        "survival": "seconds on the field for each stock used",
    },
    "bots": {
        "constant": "presses nothing",
        "random": "presses every key half of the time",
        "based": "walks up, jumps when below, strikes lightly when near; knows no recovery",
        "rusher": "dashes in and strikes, with heavies once the opponent is worn",
        "zoner": "fetches weapons and keeps at the end of their reach",
        "edge_guarder": "meets who is off the stage at the edge, or from above",
        "punisher": "stays out of reach, dodges, and strikes into the recovery of a miss",
        "charger": "stands on its ground and holds heavy attacks until somebody comes near",
    },
}
"""Names of the spec -> what they mean; `docs/brawl.md` shows them."""

SPEC = GameSpec(
    name="brawl",
    version=VERSION,
    obs_size=2 * HALF,
    opponent_slice=(HALF, 2 * HALF),
    obs_range=(-1.0, 1.0),
    action=ActionSpec("multi_binary", (2,) * len(KEYS)),
    reward_terms=TERMS,
    metrics=METRICS,
    end_reasons=END_REASONS,
    bots=BOTS,
    tick_rate=TICK_RATE,
    anchor="based",
    floor="random",
    activity="damage_dealt",
)


def spec(options: Options) -> GameSpec:
    """The spec of brawl under `options`, which decide the ticks of a step alone."""
    return dataclasses.replace(SPEC, ticks_per_step=options.ticks_per_step)


def rules_of(options: Options) -> BrawlRules:
    """Every number of the game under `options`, seconds rounded to ticks."""
    return BrawlRules(
        ticks_per_step=options.ticks_per_step,
        time_limit=round(options.time_limit_seconds * TICK_RATE),
        stocks=options.stocks,
        weapons=int(options.weapons),
        respawn_ticks=round(options.respawn_seconds * TICK_RATE),
        protection_ticks=round(options.protection_seconds * TICK_RATE),
        bot_styles=STYLES.index(options.bot_styles or "off"),
    )


def options_hash(options: Options) -> bytes:
    """16 bytes of sha256 over the version, the rules and the moves: what a state blob must agree with."""
    moves = {name: dataclasses.asdict(strike) for name, strike in zip(NAMES, STRIKES, strict=True)}
    rules = dataclasses.asdict(rules_of(options))
    parts: list[Any] = [SPEC.name, SPEC.version, rules, moves]
    if options.bot_styles:
        parts.append({name: dataclasses.asdict(bounds) for name, bounds in RANGES.items()})
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()[:16]


def make(rows: int, threads: int, options: Options) -> MatchBatch:
    """`rows` matches side by side, stepped in up to `threads` threads.

    Raises:
        ValueError: rows or threads below 1.
    """
    from league.envs.brawl.brawl import BrawlBatch

    batch: MatchBatch = BrawlBatch(
        rows, threads, spec=spec(options), rules=rules_of(options), options_hash=options_hash(options)
    )
    return batch


def drawing(batch: Any, row: int, seat: int | None = None) -> Drawing:
    """A row of a brawl batch as it stands, as shapes; nothing is hidden from a seat."""
    from league.envs.brawl.drawing import drawing

    return drawing(batch.record(row), batch.rules)
