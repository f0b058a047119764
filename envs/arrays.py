"""What a game that steps all matches by NumPy is made from: its arrays, its states, random numbers from counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from league.envs.blob import identity_of, need_rows, pack, unpack
from league.types import EXTERNAL, SEATS, BoolArray, FloatArray, GameSpec, Mask, result_dtype

MAGIC = b"arrays1\n"
GOLDEN = np.uint64(0x9E3779B97F4A7C15)

Rows = npt.NDArray[np.int64]
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


class ArrayBatch:
    """`league.types.MatchBatch` whose matches are the records of one array; the fields are described there.

    A game has `step` and the three methods that raise here. It sets what they need, then calls this `__init__`, which
    begins all matches. It is `Regrouping`, and `Turns` where `in_turns` says so. `has_mask` is False where every action
    is always legal.

    Args:
        spec: the game's.
        rows: B.
        match: the type of one match's record, with a field `seed` of uint64.
        options: the game's; a state of others is refused.
    """

    in_turns, has_mask = False, True
    mask: Mask | None

    def __init__(self, spec: GameSpec, rows: int, match: np.dtype[Any], options: BaseModel) -> None:
        self.spec, self.num_rows, action = spec, rows, spec.action
        self.match: npt.NDArray[Any] = np.zeros(rows, match)
        """(B,) the record of each row's match."""
        self._identity = identity_of(spec.name, spec.version, options.model_dump_json())
        self.obs: FloatArray = np.zeros((rows, SEATS, spec.obs_size), np.float32)
        self.final_obs = np.zeros_like(self.obs)
        self.actions: npt.NDArray[Any] = np.zeros((rows, SEATS, action.num_parts), action.dtype)
        has_mask = self.has_mask and action.mask_size > 0
        self.mask = np.zeros((rows, SEATS, action.mask_size), action.mask_dtype) if has_mask else None
        self.reward_terms: FloatArray = np.zeros((rows, SEATS, len(spec.reward_terms)), np.float32)
        self.terminated, self.truncated = np.zeros(rows, np.bool_), np.zeros(rows, np.bool_)
        self.result = np.zeros(rows, result_dtype(len(spec.metrics)))
        self.controllers = np.full((rows, SEATS), EXTERNAL, np.int16)
        if self.in_turns:
            self.to_act, self.held = np.zeros((rows, SEATS), np.bool_), np.zeros(rows, np.bool_)
        self.reset(0)

    def begin(self, rows: Rows, seeds: UInts) -> None:
        """Writes the records of new matches in `rows` (N,), which follow from `seeds` (N,) alone."""
        raise NotImplementedError

    def show(self) -> None:
        """Writes `obs`, and `mask` and `to_act` where there are such, of all rows."""
        raise NotImplementedError

    def possible(self, match: npt.NDArray[Any]) -> Mapping[str, BoolArray]:
        """For fields of records (B,) of a state, whether each value is one that a match can have."""
        raise NotImplementedError

    def by_engine(self) -> BoolArray:
        """(B, S): the seats whose actions the engine wrote.

        Raises:
            ValueError: a controller is no bot of the game.
        """
        number = len(self.spec.bots)
        if (self.controllers < EXTERNAL).any() or (self.controllers >= number).any():
            raise ValueError(f"a controller is no bot of this game: ids are 0 to {number - 1}, or EXTERNAL")
        found: BoolArray = self.controllers == EXTERNAL
        return found

    def finish(self, rows: Rows, **result: npt.NDArray[Any] | int) -> None:
        """Ends the matches in `rows` (N,), of which `obs` shows the last observation, and begins the next ones.

        result: by the fields of `league.types.result_dtype`, values (N, ...).
        """
        self.final_obs[rows] = self.obs[rows]
        self.result[rows] = np.zeros((), self.result.dtype)
        for name, values in {**result, "seed": self.match["seed"][rows]}.items():
            self.result[name][rows] = values
        self.begin(rows, mix64(self.match["seed"][rows] + GOLDEN))

    def reset(self, seed: int | UInts) -> None:
        """Starts a new match in every row: row i from a seed derived from (`seed`, i), or from `seed[i]` itself."""
        self.begin(np.arange(self.num_rows), row_seeds(seed, self.num_rows))
        self.terminated[:] = self.truncated[:] = False
        self.show()

    def get_state(self) -> bytes:
        """Header, matches, controllers."""
        return self._packed(self.match, self.controllers)

    def set_state(self, state: bytes) -> None:
        """Restores `get_state()` of a batch with the same options and rows.

        Raises:
            ValueError: the state is damaged, of another game, version, options or size, or has a value that no match
                can have; nothing is changed.
        """
        match, controllers = self._read(state)
        need_rows(len(match), self.num_rows)
        bots = (controllers >= EXTERNAL) & (controllers < len(self.spec.bots))
        for name, is_possible in {**self.possible(match), "controllers": bots}.items():
            if not is_possible.all():
                raise ValueError(f"state: it has an impossible value in `{name}`")
        self.match[:], self.controllers[:] = match, controllers
        self.show()

    def regroup(self, states: Sequence[bytes], num_rows: Sequence[int]) -> list[bytes]:
        """The matches of `states`, in their order, as states of batches of `num_rows` rows each.

        Raises:
            ValueError: a state is damaged or of another game, version or options, or the rows differ in number.
        """
        match, controllers = (np.concatenate(parts) for parts in zip(*map(self._read, states), strict=True))
        if len(match) != sum(num_rows):
            raise ValueError(f"states: {len(match)} rows cannot be {sum(num_rows)}")
        places = np.cumsum(num_rows)[:-1]
        pairs = zip(np.split(match, places), np.split(controllers, places), strict=True)
        return [self._packed(*pair) for pair in pairs]

    def _packed(self, match: npt.NDArray[Any], controllers: npt.NDArray[np.int16]) -> bytes:
        return pack(MAGIC, self._identity, len(match), match.tobytes() + controllers.tobytes())

    def _read(self, state: bytes) -> tuple[npt.NDArray[Any], npt.NDArray[np.int16]]:
        """Matches (B,) and controllers (B, S) of a state.

        Raises:
            ValueError: it is damaged or of another game, version or options.
        """
        rows, body = unpack(state, MAGIC, self._identity)
        split = rows * self.match.dtype.itemsize
        if len(body) != split + rows * SEATS * self.controllers.itemsize:
            raise ValueError(f"state: {len(body)} bytes are not {rows} rows; it is cut or padded")
        return np.frombuffer(body[:split], self.match.dtype), np.frombuffer(body[split:], np.int16).reshape(rows, SEATS)
