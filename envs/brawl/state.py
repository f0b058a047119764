"""The state blob: a header, then one record a match, without padding. `get_state` and `set_state` speak it.

Header, little-endian, 40 bytes: magic `LGBRAWL\\0`, uint32 version, uint32 rows, 16 bytes of the options' hash,
uint32 record size, uint32 crc32 of the records. The records are `STATE_DTYPE`, the C struct itself.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.brawl.moves import MOVES
from league.envs.brawl.rules import BOTS, KEYS

MAGIC = b"LGBRAWL\0"
VERSION = 1
_HEADER = struct.Struct("<8sII16sII")
HEADER_SIZE = _HEADER.size

_DOUBLES = ("x", "y", "vx", "vy", "damage", "damage_dealt")
_FAR = 1e6
_ANY = 1 << 30
INT_RANGES: dict[str, tuple[int, int]] = {
    "facing": (-1, 1),  # never 0
    "side": (-1, 1),  # never 0: the half in which it starts and respawns
    "on_ground": (0, 1),
    "stocks": (0, 99),
    "jumps_left": (0, 99),  # in the air
    "recovery_left": (0, 1),
    "stun": (0, _ANY),  # ticks left, as are the next ones
    "invulnerable": (0, _ANY),  # spawn protection only
    "dodge": (0, _ANY),
    "dodge_direction": (-1, 1),
    "dodge_cooldown": (0, _ANY),
    "respawn": (0, _ANY),  # absent while above 0
    "taunt": (0, _ANY),
    "credit": (0, _ANY),  # while above 0 the opponent is credited with a stock lost
    "move": (-1, len(MOVES) - 1),  # -1: none
    "move_tick": (0, 999),
    "move_hit": (0, 1),  # this move has hit already
    "run_ticks": (0, _ANY),
    "keys": (0, (1 << len(KEYS)) - 1),  # held in the last tick, a bit a key
    "knock_outs": (0, _ANY),
    "self_destructs": (0, _ANY),
    "attacks": (0, _ANY),
    "hits": (0, _ANY),
    "dodges": (0, _ANY),
    "air_ticks": (0, _ANY),
    "controller": (-1, len(BOTS) - 1),  # EXTERNAL or a bot's id
}
"""Each integer of a fighter and the values that `set_state` accepts."""

FIGHTER_DTYPE = np.dtype(
    [(name, "<f8") for name in _DOUBLES] + [("rng", "<u8")] + [(name, "<i4") for name in INT_RANGES]
)
STATE_DTYPE = np.dtype(
    [
        ("fighters", FIGHTER_DTYPE, (2,)),
        ("seed", "<u8"),
        ("rng", "<u8"),  # splitmix64 states: a fighter's for its bot's draws, the match's for its start
        ("tick", "<i8"),
    ]
)

Records = npt.NDArray[Any]


def pack_state(records: Records, options_hash: bytes) -> bytes:
    """The blob of `records` (B,) of STATE_DTYPE."""
    body = np.ascontiguousarray(records, dtype=STATE_DTYPE).tobytes()
    return _HEADER.pack(MAGIC, VERSION, len(records), options_hash, STATE_DTYPE.itemsize, zlib.crc32(body)) + body


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
    fighters = records["fighters"]
    for name in _DOUBLES:
        if not (np.abs(fighters[name]) <= _FAR).all():
            raise ValueError(f"state: fighters.{name} must be a number within [-{_FAR:g}, {_FAR:g}]")
    for name, (low, high) in INT_RANGES.items():
        _check_range(f"fighters.{name}", fighters[name], low, high)
    for name in ("facing", "side"):
        if (fighters[name] == 0).any():
            raise ValueError(f"state: fighters.{name} must be -1 or 1")
    _check_range("tick", records["tick"], 0, _ANY)


def _check_range(name: str, values: npt.NDArray[Any], low: int, high: int) -> None:
    bad = values[(values < low) | (values > high)]
    if bad.size:
        raise ValueError(f"state: {name}={bad[0]} must be within [{low}, {high}]")
