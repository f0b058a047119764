"""A game whose spec shows nothing of the opponent, with the opponent's last action added to what each seat observes.

`league.envs.registry` wraps a game so where its spec has an empty `opponent_slice` and says `public_actions`. The last
action stands after the game's own numbers: keys and choices as 0 and 1, real numbers scaled to [-1, 1], all 0 until the
opponent has acted in this match. It is the new spec's `opponent_slice`, so the opponent encoder reads it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from league.types import (
    SEATS,
    ActionSpec,
    BoolArray,
    FloatArray,
    GameSpec,
    Mask,
    MatchBatch,
    ObservationPart,
    Regrouping,
    Turns,
)

PART = "opponent_last_action"
HEADER = struct.Struct("<8sIIQ")
"""Magic, rows, CRC of what follows, bytes of the game's own state."""
MAGIC = b"lastact1"


def shows_last_action(spec: GameSpec | None) -> bool:
    """Whether the opponent's last action is to be added to the observation."""
    return isinstance(spec, GameSpec) and spec.public_actions and spec.opponent_slice[0] == spec.opponent_slice[1]


def shown_size(action: ActionSpec) -> int:
    """How many numbers an action is shown by: one a key, a choice, a real number."""
    return sum(len(leaf.bounds) or leaf.num_logits for leaf in action.leaves)


def shown(action: ActionSpec, played: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Actions (..., A) as numbers (..., K)."""
    parts, at = [], 0
    for leaf in action.leaves:
        own = played[..., at : at + leaf.num_parts]
        at += leaf.num_parts
        if leaf.kind == "box":
            low, high = np.array(leaf.bounds, np.float64).T
            parts.append((own - low) / (high - low) * 2 - 1)
        elif leaf.kind == "multi_binary":
            parts.append(own)
        else:
            parts += [own[..., i, None] == np.arange(count) for i, count in enumerate(leaf.choices)]
    return np.clip(np.concatenate(parts, axis=-1, dtype=np.float32, casting="unsafe"), -1, 1)


def with_last_action(spec: GameSpec) -> GameSpec:
    """The spec of the wrapped game."""
    size, (low, high) = spec.obs_size + shown_size(spec.action), spec.obs_range
    least = -1.0 if spec.action.has_real else 0.0
    observation = spec.observation
    if observation is not None:
        observation = (*observation, ObservationPart(PART, spec.obs_size, (shown_size(spec.action),), bounds=None))
    return replace(
        spec,
        obs_size=size,
        opponent_slice=(spec.obs_size, size),
        obs_range=(min(low, least), max(high, 1.0)),
        observation=observation,
    )


def wrap(batch: MatchBatch) -> MatchBatch:
    """The batch with last actions; it has turns, and regroups states, where the batch does."""
    is_regrouping, is_turns = isinstance(batch, Regrouping), isinstance(batch, Turns)
    kind = {(False, False): LastActions, (True, False): _Regrouping, (False, True): _Turns, (True, True): _Both}
    return kind[is_regrouping, is_turns](batch)


class LastActions:
    """`MatchBatch` of the wrapped game; all arrays but the observations are the game's own, wherever these lie."""

    actions: npt.NDArray[Any]
    mask: Mask | None
    reward_terms: FloatArray
    terminated: BoolArray
    truncated: BoolArray
    result: npt.NDArray[Any]
    controllers: npt.NDArray[np.int16]

    def __init__(self, batch: MatchBatch) -> None:
        self._batch, self.num_rows = batch, batch.num_rows
        self.spec, self._width = with_last_action(batch.spec), batch.spec.obs_size
        self.obs = np.zeros((batch.num_rows, SEATS, self.spec.obs_size), np.float32)
        self.final_obs = np.zeros_like(self.obs)
        # What each seat played last in its match, as numbers; zero before it acted.
        self._last = np.zeros((batch.num_rows, SEATS, self.spec.obs_size - self._width), np.float32)
        self._observe()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def reset(self, seed: int | npt.NDArray[np.uint64]) -> None:
        """See `MatchBatch.reset`."""
        self._batch.reset(seed)
        self._last[:] = 0
        self._observe()

    def step(self) -> None:
        """See `MatchBatch.step`; what bots played the game has written into `actions`."""
        acts = self._acting()
        self._batch.step()
        now = shown(self.spec.action, self.actions)
        self._last[:] = now if acts is None else np.where(acts[..., None], now, self._last)
        ended = self.terminated | self.truncated
        if ended.any():
            self.final_obs[ended, :, : self._width] = self._batch.final_obs[ended]
            self.final_obs[ended, :, self._width :] = self._last[ended, ::-1]
            self._last[ended] = 0
        self._observe()

    def get_state(self) -> bytes:
        """See `MatchBatch.get_state`."""
        return _pack(self._batch.get_state(), self._last)

    @property
    def row_state(self) -> Callable[[int], bytes] | None:
        """The match in a row as the state of a batch of one row, where the batch has it."""
        own: Callable[[int], bytes] | None = getattr(self._batch, "row_state", None)
        return None if own is None else lambda row: _pack(own(row), self._last[row : row + 1])

    def set_state(self, state: bytes) -> None:
        """See `MatchBatch.set_state`."""
        own, last = _unpack(state, self._last.shape[1:])
        if len(last) != self.num_rows:
            raise ValueError(f"the state has {len(last)} rows; this batch has {self.num_rows} rows")
        self._batch.set_state(own)
        self._last[:] = last
        self._observe()

    def _acting(self) -> npt.NDArray[np.bool_] | None:
        """(B, S): whose actions the next step plays; None: everybody's."""
        return None

    def _observe(self) -> None:
        self.obs[..., : self._width] = self._batch.obs
        self.obs[..., self._width :] = self._last[:, ::-1]


class _Turns(LastActions):
    """Of a game in turns: who is not to act, or in a row that is held, has acted before."""

    to_act: BoolArray
    held: BoolArray

    def _acting(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.to_act & ~self.held[:, None], np.bool_)


class _Regrouping(LastActions):
    """Of a game that regroups its states."""

    def regroup(self, states: Sequence[bytes], num_rows: Sequence[int]) -> list[bytes]:
        """See `Regrouping.regroup`."""
        pairs = [_unpack(state, self._last.shape[1:]) for state in states]
        assert isinstance(self._batch, Regrouping)
        own = self._batch.regroup([state for state, _ in pairs], num_rows)
        last = np.split(np.concatenate([rows for _, rows in pairs]), np.cumsum(num_rows)[:-1])
        return [_pack(*pair) for pair in zip(own, last, strict=True)]


class _Both(_Turns, _Regrouping):
    """Of a game that has both."""


def _pack(state: bytes, last: npt.NDArray[np.float32]) -> bytes:
    body = state + last.tobytes()
    return HEADER.pack(MAGIC, len(last), zlib.crc32(body), len(state)) + body


def _unpack(state: bytes, shape: tuple[int, ...]) -> tuple[bytes, npt.NDArray[np.float32]]:
    """The game's own state, and last actions (B, *shape).

    Raises:
        ValueError: the blob is damaged or of another game.
    """
    if len(state) < HEADER.size:
        raise ValueError(f"the state has {len(state)} bytes, fewer than a header")
    magic, rows, crc, size = HEADER.unpack_from(state)
    body = state[HEADER.size :]
    if magic != MAGIC or len(body) - size != 4 * rows * int(np.prod(shape)):
        raise ValueError("the state is not of this game, or not whole")
    if zlib.crc32(body) != crc:
        raise ValueError("the state is damaged: its checksum does not fit")
    return body[:size], np.frombuffer(body[size:], np.float32).reshape(rows, *shape)
