"""What the slow references of brawl and cards share: random streams, seeds, and a batch of matches in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.inputs import need_seed
from league.types import EXTERNAL, SEATS, GameSpec, result_dtype

GOLDEN = 0x9E3779B97F4A7C15
U64 = (1 << 64) - 1


def mix(z: int) -> int:
    """splitmix64's output function (Steele, Lea, Flood 2014)."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & U64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & U64
    return z ^ (z >> 31)


def next_seed(seed: int) -> int:
    """Of the next match in a row."""
    return mix((seed + GOLDEN) & U64)


def row_seed(seed: int, row: int) -> int:
    """Of the first match in a row, of one seed for all."""
    return mix((next_seed(seed) + (row + 1) * GOLDEN) & U64)


@dataclass
class Stream:
    """A splitmix64 stream."""

    state: int

    def draw(self) -> int:
        """The next 64 random bits."""
        self.state = (self.state + GOLDEN) & U64
        return mix(self.state)

    def coin(self) -> bool:
        """The top bit of the next draw."""
        return self.draw() >= 1 << 63

    def unit(self) -> float:
        """A number in [0, 1)."""
        return (self.draw() >> 11) * 2.0**-53

    def between(self, low: int, high: int) -> int:
        """A whole number within [low, high]."""
        return low + self.below(high - low + 1)

    def below(self, bound: int) -> int:
        """A whole number from 0 to below `bound`."""
        return (self.draw() >> 33) % bound

    def shuffle(self, cards: list[int]) -> None:
        """Fisher and Yates, in place."""
        for i in range(len(cards) - 1, 0, -1):
            j = self.below(i + 1)
            cards[i], cards[j] = cards[j], cards[i]


class OracleBatch:
    """`rows` matches stepped one after the other; a `league.types.MatchBatch`.

    Arguments, arrays and states are those of the compiled batch of the game, and so is every bit that it plays.
    `threads` is accepted and makes no difference.

    Raises:
        ValueError: a count below 1.
    """

    match: Any
    """The class of one match."""
    persons: str
    """The attribute of a match, and the field of its record, that has what belongs to each seat."""
    states: Any
    """The module that lays states out."""
    end_reasons: Sequence[str]
    terms: Sequence[str]

    def __init__(self, rows: int, threads: int, *, spec: GameSpec, rules: Any, options_hash: bytes) -> None:
        for name, count in (("rows", rows), ("threads", threads)):
            if count < 1:
                raise ValueError(f"{name}={count} must be at least 1")
        self.spec, self.rules, self.num_rows, self.threads = spec, rules, rows, threads
        self._options_hash, action = options_hash, spec.action
        self.obs = np.zeros((rows, SEATS, spec.obs_size), np.float32)
        self.final_obs = np.zeros_like(self.obs)
        self.actions = np.zeros((rows, SEATS, action.num_parts), np.int32)
        self.mask = np.zeros((rows, SEATS, action.mask_size), action.mask_dtype)
        self.reward_terms = np.zeros((rows, SEATS, len(spec.reward_terms)), np.float32)
        self.terminated, self.truncated = np.zeros(rows, np.bool_), np.zeros(rows, np.bool_)
        self.to_act, self.held = np.zeros((rows, SEATS), np.bool_), np.zeros(rows, np.bool_)
        self.result = np.zeros(rows, result_dtype(len(spec.metrics)))
        self.controllers = np.full((rows, SEATS), EXTERNAL, np.int16)
        self.reset(0)

    def reset(self, seed: int | npt.NDArray[np.uint64]) -> None:
        """See `MatchBatch.reset`.

        Raises:
            ValueError: the seed is neither an int within [0, 2**64) nor a uint64 array (B,).
        """
        given = need_seed(seed, self.num_rows)
        seeds = [row_seed(given, i) for i in range(self.num_rows)] if isinstance(given, int) else given.tolist()
        self._clear()
        self._matches = [self.match(self.rules, seed) for seed in seeds]
        self._show(range(self.num_rows))

    def record(self, row: int) -> Any:
        """A copy of one match's state.

        Raises:
            IndexError: no such row.
        """
        self._need_row(row)
        return self._records()[row].copy()

    def get_state(self) -> bytes:
        """Everything that the next steps depend on; controllers included."""
        self._hand_over()
        packed: bytes = self.states.pack_state(self._records(), self._options_hash)
        return packed

    def set_state(self, state: bytes) -> None:
        """Restores `get_state()` of a batch of the same options and size; writes controllers, obs, mask and to_act.

        Raises:
            ValueError: the blob is damaged or of another game, version, size or set of options.
        """
        records = self.states.unpack_state(state, self.num_rows, self._options_hash, *self._of_options())
        self._matches = [self.match.of_record(self.rules, record) for record in records]
        self.controllers[:] = records[self.persons]["controller"]
        self._clear()
        self._show(range(self.num_rows))

    def regroup(self, states: Sequence[bytes], num_rows: Sequence[int]) -> list[bytes]:
        """See `types.Regrouping`.

        Raises:
            ValueError: a blob is damaged or of another game, version or set of options, or the rows differ in number.
        """
        found: list[bytes] = self.states.regroup_states(states, num_rows, self._options_hash, *self._of_options())
        return found

    def _of_options(self) -> tuple[Any, ...]:
        """What a state is read by besides."""
        return ()

    def _play(self, rows: Sequence[int], given: Sequence[Any]) -> None:
        self._hand_over()
        for row in rows:
            out = self._matches[row].step(given[row])
            self.reward_terms[row] = [[terms[name] for name in self.terms] for terms in out.terms]
            self.terminated[row] = out.end_reason is not None
            if out.end_reason is not None:
                result = self.result[row : row + 1]
                result["winner"], result["end_reason"] = out.winner, self.end_reasons.index(str(out.end_reason))
                result["ticks"], result["seed"], result["metrics"] = out.ticks, out.seed, out.metrics
                self.final_obs[row] = out.final_obs
        self._show(rows)

    def _show(self, rows: Sequence[int]) -> None:
        raise NotImplementedError

    def _need_row(self, row: int) -> None:
        if not 0 <= row < self.num_rows:
            raise IndexError(f"row={row} must be within [0, {self.num_rows})")

    def _records(self) -> npt.NDArray[Any]:
        return np.array([match.record() for match in self._matches], self.states.STATE_DTYPE)

    def _hand_over(self) -> None:
        """Tells the matches who plays."""
        for match, controllers in zip(self._matches, self.controllers.tolist(), strict=True):
            for person, controller in zip(getattr(match, self.persons), controllers, strict=True):
                person.controller = controller

    def _clear(self) -> None:
        for array in (self.reward_terms, self.terminated, self.truncated, self.final_obs):
            array.fill(0)
        self.result.view(np.uint8).fill(0)
