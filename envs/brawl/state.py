"""The state blob: a header, then one record a match, without padding. `get_state` and `set_state` speak it.

Header, little-endian, 40 bytes: magic `LGBRAWL\\0`, uint32 version, uint32 rows, 16 bytes of the options' hash,
uint32 record size, uint32 crc32 of the records. The records are `STATE_DTYPE`, the C struct itself.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.brawl.moves import STRIKES, WEAPONS
from league.envs.brawl.rules import BOTS, KEYS

MAGIC = b"LGBRAWL\0"
VERSION = 2
_HEADER = struct.Struct("<8sII16sII")
HEADER_SIZE = _HEADER.size

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

Records = npt.NDArray[Any]


def pack_state(records: Records, options_hash: bytes) -> bytes:
    """The blob of `records` (B,) of STATE_DTYPE."""
    body = np.ascontiguousarray(records, dtype=STATE_DTYPE).tobytes()
    return _HEADER.pack(MAGIC, VERSION, len(records), options_hash, STATE_DTYPE.itemsize, zlib.crc32(body)) + body


def regroup_states(blobs: Sequence[bytes], num_rows: Sequence[int], options_hash: bytes) -> list[bytes]:
    """The records of `blobs`, in their order, as blobs of `num_rows` records each.

    Raises:
        ValueError: a blob is not a state with these options, or the records differ in number.
    """
    found = [unpack_state(blob, rows_of(blob), options_hash) for blob in blobs]
    records = np.concatenate(found)
    if len(records) != sum(num_rows):
        raise ValueError(f"states: {len(records)} rows cannot be {sum(num_rows)}")
    return [pack_state(part, options_hash) for part in np.split(records, np.cumsum(num_rows)[:-1])]


def rows_of(blob: bytes) -> int:
    """The rows that a blob's header tells; 0 where it has none."""
    return int(_HEADER.unpack_from(blob)[2]) if len(blob) >= HEADER_SIZE else 0


def unpack_state(blob: bytes, rows: int, options_hash: bytes) -> Records:
    """A writable copy of the records (B,) in `blob`.

    Raises:
        ValueError: `blob` is not the state of a batch with these rows and options, or holds an impossible value.
    """
    size = HEADER_SIZE + rows * STATE_DTYPE.itemsize
    if not isinstance(blob, bytes) or len(blob) < HEADER_SIZE:
        raise ValueError(f"state: no brawl state (needs bytes of length {size}); pass what get_state() returned")
    magic, version, blob_rows, blob_hash, record_size, crc = _HEADER.unpack_from(blob)
    if magic != MAGIC:
        raise ValueError(f"state: magic {magic!r} is not {MAGIC!r}; this is no brawl state")
    if version != VERSION or record_size != STATE_DTYPE.itemsize:
        raise ValueError(f"state: version {version}, record size {record_size}; this build reads version {VERSION}")
    if blob_rows != rows:
        raise ValueError(f"state: rows={blob_rows} but this batch has {rows}; restore into a batch of the same size")
    if blob_hash != options_hash:
        raise ValueError("state: saved under other brawl options; restore into a batch with the same options")
    if len(blob) != size:
        raise ValueError(f"state: length {len(blob)} must be {size}; the blob is cut or padded")
    if zlib.crc32(blob[HEADER_SIZE:]) != crc:
        raise ValueError("state: checksum differs; the blob is damaged")
    records = np.frombuffer(blob, dtype=STATE_DTYPE, offset=HEADER_SIZE).copy()
    _check(records)
    return records


def _check(records: Records) -> None:
    fighters, items = records["fighters"], records["items"]
    for name in _DOUBLES:
        _check_range(f"fighters.{name}", fighters[name], -_FAR, _FAR)
    for name, (low, high) in INT_RANGES.items():
        _check_range(f"fighters.{name}", fighters[name], low, high)
    for name in ("facing", "side"):
        _check_signs(f"fighters.{name}", fighters[name])
    _check_range("items.x", items["x"], -_FAR, _FAR)
    for name, (low, high) in ITEM_RANGES.items():
        _check_range(f"items.{name}", items[name], low, high)
    _check_range("platform_y", records["platform_y"], -_FAR, _FAR)
    _check_signs("platform_direction", records["platform_direction"])
    _check_range("tick", records["tick"], 0, _ANY)


def _check_range(name: str, values: npt.NDArray[Any], low: float, high: float) -> None:
    bad = values[~((values >= low) & (values <= high))]
    if bad.size:
        raise ValueError(f"state: {name}={bad[0]} must be within [{low:.0f}, {high:.0f}]")


def _check_signs(name: str, values: npt.NDArray[Any]) -> None:
    bad = values[np.abs(values) != 1]
    if bad.size:
        raise ValueError(f"state: {name}={bad[0]} must be -1 or 1")
