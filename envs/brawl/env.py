"""Brawl as the engine sees it: options, spec, the observation's field table, and `make`."""

from __future__ import annotations

import dataclasses
import hashlib
import json

from pydantic import BaseModel, ConfigDict, Field

from league.envs.brawl.moves import MOVES
from league.envs.brawl.rules import BOTS, END_REASONS, KEYS, METRICS, TERMS, TICK_RATE, Rules
from league.types import ActionSpec, GameSpec, MatchBatch

__all__ = ["FIELDS", "KEYS", "SPEC", "Options", "make", "rules_of", "spec"]

HALF = 32
VERSION = 1


class Options(BaseModel):
    """What a user may change about brawl. Equal options are the same game."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ticks_per_step: int = Field(3, ge=1, le=30, description="ticks (1/30 s) that a decision's keys are held")
    time_limit_seconds: float = Field(40.0, ge=1.0, le=3600.0, description="seconds until the clock decides")
    stocks: int = Field(3, ge=1, le=9, description="stocks that each fighter starts with")
    respawn_seconds: float = Field(1.5, ge=0.1, le=10.0, description="seconds away after a lost stock")
    protection_seconds: float = Field(2.0, ge=0.0, le=10.0, description="seconds safe after a respawn, at most")


FIELDS: tuple[tuple[str, str, str, tuple[float, float]], ...] = (
    ("x", "position, right of the middle", "blast_side = 13 units", (-1, 1)),
    ("y", "height of the feet over the stage", "blast_top = 12 units", (-1, 1)),
    ("vx", "velocity to the right", "20 units/s, clipped", (-1, 1)),
    ("vy", "velocity upward", "20 units/s, clipped", (-1, 1)),
    ("facing", "right 1, left -1", "flag", (-1, 1)),
    ("on_ground", "stands on the stage", "flag", (0, 1)),
    ("to_other_x", "d / (|d| + 2), d the way right to the other", "squashed units", (-1, 1)),
    ("to_other_y", "d / (|d| + 2), d the way up to the other", "squashed units", (-1, 1)),
    ("damage", "damage taken on this stock", "150 points, clipped", (0, 1)),
    ("stocks", "stocks left", "share of the first ones", (0, 1)),
    ("jumps_left", "jumps left, the one from the ground included", "share of 3", (0, 1)),
    ("recovery_left", "the upward strike is still there", "flag", (0, 1)),
    ("stun", "ticks without control left", "30 ticks, clipped", (0, 1)),
    ("invulnerable", "ticks left in which nothing hits: protection or a dodge", "30 ticks, clipped", (0, 1)),
    ("dodge_cooldown", "ticks until the next dodge", "70 ticks", (0, 1)),
    ("respawn", "ticks away left", "45 ticks, clipped", (0, 1)),
    ("startup", "start-up ticks left of the attack", "10 ticks, clipped", (0, 1)),
    ("active", "active ticks left, 0 once it has hit", "10 ticks, clipped", (0, 1)),
    ("recovery", "recovery ticks left of the attack", "16 ticks, clipped", (0, 1)),
    ("light", "the attack is a light one", "flag", (0, 1)),
    ("heavy", "the attack is a heavy one", "flag", (0, 1)),
    ("aim", "the attack is neutral or up 1, side 0, down -1", "flag", (-1, 1)),
    ("edge", "way to the nearer edge, negative off stage", "6.4 units, clipped", (-1, 1)),
    ("time_left", "time left of the match", "share of the limit", (0, 1)),
    ("held_x", "right held 1, left held -1, in the last tick", "keys", (-1, 1)),
    ("held_y", "up held 1, down held -1", "keys", (-1, 1)),
    ("held_jump", "jump held", "key", (0, 1)),
    ("held_light", "light held", "key", (0, 1)),
    ("held_heavy", "heavy held", "key", (0, 1)),
    ("held_dodge", "dodge held", "key", (0, 1)),
    ("can_act", "may start something now", "flag", (0, 1)),
    ("credit", "ticks left in which losing a stock is the other's knock-out", "90 ticks", (0, 1)),
)
"""(name, meaning, unit of 1.0, range) of the 32 floats of one half; index 32 + i is the opponent's i."""

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
)


def spec(options: Options) -> GameSpec:
    """The spec of brawl under `options`; none of them changes it."""
    return SPEC


def rules_of(options: Options) -> Rules:
    """Every number of the game under `options`, seconds rounded to ticks."""
    return Rules(
        ticks_per_step=options.ticks_per_step,
        time_limit=round(options.time_limit_seconds * TICK_RATE),
        stocks=options.stocks,
        respawn_ticks=round(options.respawn_seconds * TICK_RATE),
        protection_ticks=round(options.protection_seconds * TICK_RATE),
    )


def options_hash(options: Options) -> bytes:
    """16 bytes of sha256 over the version, the rules and the moves: what a state blob must agree with."""
    moves = {name: dataclasses.asdict(move) for name, move in MOVES.items()}
    parts = [SPEC.name, SPEC.version, dataclasses.asdict(rules_of(options)), moves]
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
