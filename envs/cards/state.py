"""The state blob: a header, then one record a match, without padding. `get_state` and `set_state` speak it.

Header, little-endian, 40 bytes: magic `LGCARDS\\0`, uint32 version, uint32 rows, 16 bytes of the options' hash,
uint32 record size, uint32 crc32 of the records. The records are `STATE_DTYPE`, the C struct itself.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.cards.catalogue import CARDS
from league.envs.cards.rules import BOTS, HAND, MAX_DECK, NUM_TARGETS, SLOTS, TYPES, CardRules

MAGIC = b"LGCARDS\0"
VERSION = 1
_HEADER = struct.Struct("<8sII16sII")
HEADER_SIZE = _HEADER.size
_MANY = 9_999
"""No counter of a match comes near it, nor to the end of an int16."""

CREATURE_RANGES: dict[str, tuple[int, int]] = {
    "card": (0, len(CARDS) - 1),  # 0: the slot is empty, and all else is 0
    "power": (0, 999),
    "health": (0, 999),
    "most": (0, 999),  # health without wounds
    "acts": (0, 1),  # may act in this turn
    "snared": (0, 1),  # will not act in its keeper's next turn
}
"""Each number of a creature and the values that `set_state` accepts."""
COUNTERS = (
    "damage_dealt",
    "destroyed",
    "lost",
    "played",
    "cast",
    "attacks",
    "abilities",
    "oil_spent",
    "burnt",
    "turns",
)
"""What a keeper has done in this match."""

CREATURE_DTYPE = np.dtype([(name, "<i2") for name in CREATURE_RANGES])
KEEPER_DTYPE = np.dtype(
    [
        ("rng", "<u8"),  # splitmix64 state of its bot's draws
        ("controller", "<i2"),  # EXTERNAL or a bot's id
        ("health", "<i2"),
        ("oil", "<i2"),
        ("lamps", "<i2"),
        ("stoked", "<i2"),  # has burnt a card in this turn
        ("tired", "<i2"),  # times it drew from an empty deck
        ("hand_size", "<i2"),
        ("deck_size", "<i2"),
        ("last", "<i2", (4,)),  # its last decision; the type is -1 before the first
        *((name, "<i2") for name in COUNTERS),
        ("board", CREATURE_DTYPE, (SLOTS,)),
        ("hand", "<i2", (HAND,)),  # in the order of ids, then zeros
        ("deck", "<i2", (MAX_DECK,)),  # the top card is the last, then zeros
    ]
)
STATE_DTYPE = np.dtype(
    [
        ("seed", "<u8"),
        ("rng", "<u8"),  # splitmix64 state of the match's start
        ("keepers", KEEPER_DTYPE, (2,)),
        ("acting", "<i2"),  # the seat that is to act
        ("decisions", "<i2"),
        ("began", "<i2"),  # the seat that began
        ("spare", "<i2"),  # 0
    ]
)

Records = npt.NDArray[Any]


def pack_state(records: Records, options_hash: bytes) -> bytes:
    """The blob of `records` (B,) of STATE_DTYPE."""
    body = np.ascontiguousarray(records, dtype=STATE_DTYPE).tobytes()
    return _HEADER.pack(MAGIC, VERSION, len(records), options_hash, STATE_DTYPE.itemsize, zlib.crc32(body)) + body


def regroup_states(
    blobs: Sequence[bytes], num_rows: Sequence[int], options_hash: bytes, rules: CardRules
) -> list[bytes]:
    """The records of `blobs`, in their order, as blobs of `num_rows` records each.

    Raises:
        ValueError: a blob is not a state with these options, or the records differ in number.
    """
    records = np.concatenate([unpack_state(blob, rows_of(blob), options_hash, rules) for blob in blobs])
    if len(records) != sum(num_rows):
        raise ValueError(f"states: {len(records)} rows cannot be {sum(num_rows)}")
    return [pack_state(part, options_hash) for part in np.split(records, np.cumsum(num_rows)[:-1])]


def rows_of(blob: bytes) -> int:
    """The rows that a blob's header tells; 0 where it has none."""
    return int(_HEADER.unpack_from(blob)[2]) if len(blob) >= HEADER_SIZE else 0


def unpack_state(blob: bytes, rows: int, options_hash: bytes, rules: CardRules) -> Records:
    """A writable copy of the records (B,) in `blob`.

    Raises:
        ValueError: `blob` is not the state of a batch with these rows and options, or holds an impossible value.
    """
    size = HEADER_SIZE + rows * STATE_DTYPE.itemsize
    if not isinstance(blob, bytes) or len(blob) < HEADER_SIZE:
        raise ValueError(f"state: no state of cards (needs bytes of length {size}); pass what get_state() returned")
    magic, version, blob_rows, blob_hash, record_size, crc = _HEADER.unpack_from(blob)
    if magic != MAGIC:
        raise ValueError(f"state: magic {magic!r} is not {MAGIC!r}; this is no state of cards")
    if version != VERSION or record_size != STATE_DTYPE.itemsize:
        raise ValueError(f"state: version {version}, record size {record_size}; this build reads version {VERSION}")
    if blob_rows != rows:
        raise ValueError(f"state: rows={blob_rows} but this batch has {rows}; restore into a batch of the same size")
    if blob_hash != options_hash:
        raise ValueError("state: saved under other options or cards; restore into a batch with the same options")
    if len(blob) != size:
        raise ValueError(f"state: length {len(blob)} must be {size}; the blob is cut or padded")
    if zlib.crc32(blob[HEADER_SIZE:]) != crc:
        raise ValueError("state: checksum differs; the blob is damaged")
    records = np.frombuffer(blob, dtype=STATE_DTYPE, offset=HEADER_SIZE).copy()
    _check(records, rules)
    return records


def _check(records: Records, rules: CardRules) -> None:
    for name, high in (("acting", 1), ("began", 1), ("decisions", rules.decision_limit - 1), ("spare", 0)):
        _check_range(name, records[name], 0, high)
    keepers = records["keepers"]
    for name, low, high in (
        ("controller", -1, len(BOTS) - 1),
        ("health", 1, rules.health),
        ("oil", 0, rules.most_oil),
        ("lamps", 0, rules.most_lamps),
        ("stoked", 0, 1),
        ("tired", 0, _MANY),
        ("hand_size", 0, HAND),
        ("deck_size", 0, rules.deck),
        *((name, 0, _MANY) for name in COUNTERS),
    ):
        _check_range(f"keepers.{name}", keepers[name], low, high)
    for part, (low, high) in enumerate(((-1, len(TYPES) - 1), (0, len(CARDS) - 1), (0, SLOTS), (0, NUM_TARGETS - 1))):
        _check_range(f"keepers.last[{part}]", keepers["last"][..., part], low, high)
    for name in ("hand", "deck"):
        _check_pile(name, keepers[name], keepers[f"{name}_size"])
    if (np.diff(np.where(keepers["hand"] == 0, len(CARDS), keepers["hand"]), axis=-1) < 0).any():
        raise ValueError("state: a hand is not in the order of ids")
    _check_board(keepers["board"])


def _check_pile(name: str, cards: Records, sizes: Records) -> None:
    """So many cards, then zeros."""
    _check_range(f"keepers.{name}", cards, 0, len(CARDS) - 1)
    is_card = np.arange(cards.shape[-1]) < sizes[..., None]
    if ((cards > 0) != is_card).any():
        raise ValueError(f"state: keepers.{name} does not hold keepers.{name}_size cards")


def _check_board(board: Records) -> None:
    for name, (low, high) in CREATURE_RANGES.items():
        _check_range(f"board.{name}", board[name], low, high)
    is_there = board["card"] > 0
    if np.array([card.is_spell for card in CARDS])[board["card"]].any():
        raise ValueError("state: board.card is a spell")
    _check_range("board.health", board["health"][is_there], 1, 999)
    _check_range("health lost", (board["most"] - board["health"])[is_there], 0, 999)
    if any(board[name][~is_there].any() for name in CREATURE_RANGES):
        raise ValueError("state: an empty slot of board is not all 0")


def _check_range(name: str, values: Records, low: int, high: int) -> None:
    bad = values[~((values >= low) & (values <= high))]
    if bad.size:
        raise ValueError(f"state: {name}={bad[0]} must be within [{low}, {high}]")
