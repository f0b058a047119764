"""The state of a batch as bytes: a header that says whose it is, then what its matches are made from again.

Header, little-endian, 32 bytes: 8 bytes of magic, 16 that hash game, version and options, uint32 rows, uint32 crc32 of
what follows.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

HEADER = struct.Struct("<8s16sII")

Records = npt.NDArray[Any]


def identity_of(*words: object) -> bytes:
    """16 bytes that only equal games, versions and options share."""
    return hashlib.sha256("\n".join(map(str, words)).encode()).digest()[:16]


def pack(magic: bytes, identity: bytes, rows: int, body: bytes) -> bytes:
    """Header and body."""
    return HEADER.pack(magic, identity, rows, zlib.crc32(body)) + body


def unpack(state: bytes, magic: bytes, identity: bytes) -> tuple[int, bytes]:
    """The rows and the body of what `pack` made.

    Raises:
        ValueError: it is damaged, or of another game, version or options.
    """
    if not isinstance(state, bytes) or len(state) < HEADER.size:
        raise ValueError("state: it is shorter than a header; pass what get_state() returned")
    its_magic, its_identity, rows, crc = HEADER.unpack_from(state)
    if its_magic != magic or its_identity != identity:
        raise ValueError("state: it is not of this game, version and options; restore into a batch with the same ones")
    if zlib.crc32(body := state[HEADER.size :]) != crc:
        raise ValueError("state: its checksum differs; it is damaged")
    return rows, body


@dataclass(frozen=True)
class BlobFormat:
    """The states of a compiled game: one record a match, the game's C struct itself.

    Args:
        magic: 8 bytes, others where a record or its meaning changes.
        dtype: a record.
        check: raises ValueError for records (B,) with an impossible value; it gets what `unpack` was given beside.
    """

    magic: bytes
    dtype: np.dtype[Any]
    check: Callable[..., None]

    def pack(self, records: Records, options_hash: bytes) -> bytes:
        """The state of `records` (B,) of the dtype."""
        body = np.ascontiguousarray(records, dtype=self.dtype).tobytes()
        return pack(self.magic, options_hash, len(records), body)

    def regroup(self, states: Sequence[bytes], num_rows: Sequence[int], options: bytes, *beside: Any) -> list[bytes]:
        """The records of `states`, in their order, as states of `num_rows` records each.

        Raises:
            ValueError: one is not a state with these options, or the records differ in number.
        """
        records = np.concatenate([self.unpack(state, None, options, *beside) for state in states])
        if len(records) != sum(num_rows):
            raise ValueError(f"states: {len(records)} rows cannot be {sum(num_rows)}")
        return [self.pack(part, options) for part in np.split(records, np.cumsum(num_rows)[:-1])]

    def unpack(self, state: bytes, rows: int | None, options_hash: bytes, *beside: Any) -> Records:
        """A writable copy of the records (B,) in `state`; rows: how many there must be, None for any number.

        Raises:
            ValueError: it is not the state of a batch with these rows and options, or holds an impossible value.
        """
        its_rows, body = unpack(state, self.magic, options_hash)
        need_rows(its_rows, rows)
        if len(body) != its_rows * self.dtype.itemsize:
            raise ValueError(f"state: {len(body)} bytes are not {its_rows} records; it is cut or padded")
        records = np.frombuffer(body, dtype=self.dtype).copy()
        self.check(records, *beside)
        return records


def need_rows(its_rows: int, rows: int | None) -> None:
    """Refuses a state of another number of rows.

    Raises:
        ValueError: so.
    """
    if rows is not None and its_rows != rows:
        raise ValueError(f"state: rows={its_rows} but this batch has {rows}; restore into a batch of the same size")


def check_range(name: str, values: Records, low: float, high: float) -> None:
    """Refuses values outside [low, high].

    Raises:
        ValueError: names the first.
    """
    bad = values[~((values >= low) & (values <= high))]
    if bad.size:
        raise ValueError(f"state: {name}={bad[0]} must be within [{low:.0f}, {high:.0f}]")
