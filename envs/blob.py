"""The state of a compiled game's batch as bytes: a header, then one record a match, without padding.

Header, little-endian, 40 bytes: 8 bytes of magic, uint32 version, uint32 rows, 16 bytes of the options' hash, uint32
record size, uint32 crc32 of the records. A record is the game's C struct itself.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_HEADER = struct.Struct("<8sII16sII")
HEADER_SIZE = _HEADER.size

Records = npt.NDArray[Any]


@dataclass(frozen=True)
class BlobFormat:
    """A game's states.

    Args:
        magic: 8 bytes.
        version: raised when a record or its meaning changes.
        dtype: a record.
        check: raises ValueError for records (B,) with an impossible value; it gets what `unpack` was given beside.
    """

    magic: bytes
    version: int
    dtype: np.dtype[Any]
    check: Callable[..., None]

    def pack(self, records: Records, options_hash: bytes) -> bytes:
        """The blob of `records` (B,) of the dtype."""
        body = np.ascontiguousarray(records, dtype=self.dtype).tobytes()
        size, crc = self.dtype.itemsize, zlib.crc32(body)
        return _HEADER.pack(self.magic, self.version, len(records), options_hash, size, crc) + body

    def regroup(self, blobs: Sequence[bytes], num_rows: Sequence[int], options: bytes, *beside: Any) -> list[bytes]:
        """The records of `blobs`, in their order, as blobs of `num_rows` records each.

        Raises:
            ValueError: a blob is not a state with these options, or the records differ in number.
        """
        rows = [int(_HEADER.unpack_from(blob)[2]) if len(blob) >= HEADER_SIZE else 0 for blob in blobs]
        found = [self.unpack(blob, count, options, *beside) for blob, count in zip(blobs, rows, strict=True)]
        records = np.concatenate(found)
        if len(records) != sum(num_rows):
            raise ValueError(f"states: {len(records)} rows cannot be {sum(num_rows)}")
        return [self.pack(part, options) for part in np.split(records, np.cumsum(num_rows)[:-1])]

    def unpack(self, blob: bytes, rows: int, options_hash: bytes, *beside: Any) -> Records:
        """A writable copy of the records (B,) in `blob`.

        Raises:
            ValueError: `blob` is not the state of a batch with these rows and options, or holds an impossible value.
        """
        record_size = self.dtype.itemsize
        size = HEADER_SIZE + rows * record_size
        if not isinstance(blob, bytes) or len(blob) < HEADER_SIZE:
            raise ValueError(
                f"state: no state of this game (needs bytes of length {size}); pass what get_state() returned"
            )
        magic, version, its_rows, its_hash, its_size, crc = _HEADER.unpack_from(blob)
        if magic != self.magic:
            raise ValueError(f"state: magic {magic!r} is not {self.magic!r}; this is no state of this game")
        if (version, its_size) != (self.version, record_size):
            raise ValueError(f"state: version {version}, record size {its_size}; this build reads {self.version}")
        if its_rows != rows:
            raise ValueError(f"state: rows={its_rows} but this batch has {rows}; restore into a batch of the same size")
        if its_hash != options_hash:
            raise ValueError("state: saved under other options; restore into a batch with the same options")
        if len(blob) != size:
            raise ValueError(f"state: length {len(blob)} must be {size}; the blob is cut or padded")
        if zlib.crc32(blob[HEADER_SIZE:]) != crc:
            raise ValueError("state: checksum differs; the blob is damaged")
        records = np.frombuffer(blob, dtype=self.dtype, offset=HEADER_SIZE).copy()
        self.check(records, *beside)
        return records


def check_range(name: str, values: Records, low: float, high: float) -> None:
    """Refuses values outside [low, high].

    Raises:
        ValueError: names the first.
    """
    bad = values[~((values >= low) & (values <= high))]
    if bad.size:
        raise ValueError(f"state: {name}={bad[0]} must be within [{low:.0f}, {high:.0f}]")
