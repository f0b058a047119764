"""What the classic games have in common: random numbers from counters, and a batch's state on bytes."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from league.types import SEATS

HEADER = struct.Struct("<8s16sII")
"""Magic, digest of the options, rows, CRC of the rest."""
GOLDEN = np.uint64(0x9E3779B97F4A7C15)

UInts = npt.NDArray[np.uint64]


def mix64(value: UInts) -> UInts:
    """The output function of splitmix64 (Steele, Lea, Flood 2014), a bijection of uint64."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def row_seeds(seed: int | UInts, num_rows: int) -> UInts:
    """The seeds (B,) that `MatchBatch.reset(seed)` starts the rows from.

    Raises:
        ValueError: `seed` is an array of another length.
    """
    if isinstance(seed, np.ndarray):
        if seed.shape != (num_rows,):
            raise ValueError(f"seed has shape {seed.shape}, not one seed for each of {num_rows} rows")
        return seed.astype(np.uint64)
    base = mix64(np.full(num_rows, int(seed) % 2**64, np.uint64))
    return mix64(base + np.arange(1, num_rows + 1, dtype=np.uint64) * GOLDEN)


def streams(seeds: UInts, number: int) -> UInts:
    """`number` streams of random numbers (..., number) from each of `seeds` (...)."""
    return mix64(mix64(seeds)[..., None] + np.arange(1, number + 1, dtype=np.uint64) * GOLDEN)


def uniform(stream: UInts, counter: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The number in [0, 1) at index `counter` of each stream."""
    place = (counter.astype(np.uint64) + np.uint64(1)) * GOLDEN
    return (mix64(stream + place) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def digest(options: BaseModel) -> bytes:
    """16 bytes that only equal options share."""
    return hashlib.sha256(options.model_dump_json().encode()).digest()[:16]


def pack(magic: bytes, options: bytes, match: npt.NDArray[Any], controllers: npt.NDArray[np.int16]) -> bytes:
    """Header, matches, controllers; `options` is their digest."""
    body = match.tobytes() + controllers.tobytes()
    return HEADER.pack(magic, options, len(match), zlib.crc32(body)) + body


def unpack(
    state: bytes,
    magic: bytes,
    options: bytes,
    match: npt.NDArray[Any],
    controllers: npt.NDArray[np.int16],
    check: Callable[[npt.NDArray[Any], npt.NDArray[np.int16]], None],
) -> None:
    """Overwrites `match` and `controllers` with what `pack` was given, once `check` has found nothing in it.

    Raises:
        ValueError: the blob is damaged or of another game, version, options or size, or `check` refuses it; nothing is
            changed.
    """
    its_match, its_controllers = _read(state, magic, options, match.dtype)
    if len(its_match) != len(match):
        raise ValueError(f"the state has {len(its_match)} rows; this batch has {len(match)} rows")
    check(its_match, its_controllers)
    match[:] = its_match
    controllers[:] = its_controllers


def regroup(
    states: Sequence[bytes], num_rows: Sequence[int], magic: bytes, options: bytes, dtype: np.dtype[Any]
) -> list[bytes]:
    """The matches (of `dtype`) that `pack` put into `states`, in their order, as states of `num_rows` rows each.

    Raises:
        ValueError: a blob is damaged or of another game, version or options, or the rows differ in number.
    """
    found = [_read(state, magic, options, dtype) for state in states]
    match, controllers = (np.concatenate(parts) for parts in zip(*found, strict=True))
    if len(match) != sum(num_rows):
        raise ValueError(f"the states have {len(match)} rows, which cannot be {sum(num_rows)}")
    places = np.cumsum(num_rows)[:-1]
    pairs = zip(np.split(match, places), np.split(controllers, places), strict=True)
    return [pack(magic, options, *pair) for pair in pairs]


def _read(
    state: bytes, magic: bytes, options: bytes, dtype: np.dtype[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int16]]:
    """Matches (B,) of `dtype` and controllers (B, S), as `pack` was given them.

    Raises:
        ValueError: the blob is damaged or of another game, version or options.
    """
    if len(state) < HEADER.size:
        raise ValueError(f"the state has {len(state)} bytes, fewer than a header")
    its_magic, its_options, rows, crc = HEADER.unpack_from(state)
    if its_magic != magic or its_options != options:
        raise ValueError("the state is not of this game, version and options")
    split = HEADER.size + rows * dtype.itemsize
    if len(state) != split + rows * SEATS * np.dtype(np.int16).itemsize:
        raise ValueError(f"the state has {rows} rows in {len(state)} bytes, which does not fit")
    if zlib.crc32(state[HEADER.size :]) != crc:
        raise ValueError("the state is damaged: its checksum does not fit")
    match = np.frombuffer(state[HEADER.size : split], dtype)
    return match, np.frombuffer(state[split:], np.int16).reshape(rows, SEATS)


def need_possible(**holds: npt.NDArray[np.bool_]) -> None:
    """Refuses a state in which not everything of each field holds.

    Raises:
        ValueError: names the first field of which it does not.
    """
    for name, is_possible in holds.items():
        if not is_possible.all():
            raise ValueError(f"the state has an impossible value in `{name}`")
